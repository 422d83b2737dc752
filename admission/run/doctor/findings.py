"""What checks find."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from admission.visibility.quota_use import API_VERSION

KIND: Final = "Diagnosis"


class Severity(Enum):
    """How bad a finding is; the value is the word in JSON."""

    ERROR = "error"  # something does not work
    WARNING = "warning"  # something will not work soon, or not for everybody


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong.

    Attributes:
        severity: how bad it is.
        kind: of the objects that it is about.
        names: of these objects, with their namespaces; the first few are shown.
        what: what is wrong, as a sentence without a full stop.
        mend: how to fix it: a command, or what to edit.
    """

    severity: Severity
    kind: str
    names: tuple[str, ...]
    what: str
    mend: str


def error(kind: str, name: str | tuple[str, ...], what: str, mend: str) -> Finding:
    """Return a finding about something that does not work."""
    return _finding(Severity.ERROR, kind, name, what, mend)


def warning(kind: str, name: str | tuple[str, ...], what: str, mend: str) -> Finding:
    """Return a finding about something that will not work soon, or not for everybody."""
    return _finding(Severity.WARNING, kind, name, what, mend)


def _finding(
    severity: Severity, kind: str, name: str | tuple[str, ...], what: str, mend: str
) -> Finding:
    listed = (name,) if isinstance(name, str) else name
    return Finding(severity=severity, kind=kind, names=listed, what=what, mend=mend)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What one check came to.

    Attributes:
        check: its name.
        findings: errors first.
        unseen: why it could not look; empty if it could.
    """

    check: str
    findings: tuple[Finding, ...] = ()
    unseen: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What all checks came to, in the order of their table."""

    checked: tuple[Checked, ...]

    def of(self, severity: Severity) -> tuple[tuple[str, Finding], ...]:
        """Return the findings of a severity, each with the name of its check."""
        return tuple(
            (one.check, finding)
            for one in self.checked
            for finding in one.findings
            if finding.severity is severity
        )

    @property
    def unseen(self) -> tuple[Checked, ...]:
        """Return the checks that could not look."""
        return tuple(one for one in self.checked if one.unseen)

    def document(self) -> dict[str, Any]:
        """Return the diagnosis as JSON; docs/guides/doctor.md says what its members mean."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "checks": len(self.checked),
            "findings": [
                {
                    "severity": severity.value,
                    "check": check,
                    "kind": one.kind,
                    "names": list(one.names),
                    "what": one.what,
                    "mend": one.mend,
                }
                for severity in Severity
                for check, one in self.of(severity)
            ],
            "notLooked": [{"check": one.check, "why": one.unseen} for one in self.unseen],
        }
