"""What checks find."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from admission.answers.quota_use import API_VERSION

KIND: Final = "Diagnosis"


class Severity(Enum):
    """How bad a finding is; the value is the word in JSON."""

    ERROR = "error"  # something does not work
    WARNING = "warning"  # something will not work soon, or not for everybody


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
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


def error(kind: str, name: str | tuple[str, ...], problem: str, mend: str) -> DoctorFinding:
    """Return a finding about something that does not work."""
    return _finding(Severity.ERROR, kind, name, problem, mend)


def warning(kind: str, name: str | tuple[str, ...], problem: str, mend: str) -> DoctorFinding:
    """Return a finding about something that will not work soon, or not for everybody."""
    return _finding(Severity.WARNING, kind, name, problem, mend)


def _finding(
    severity: Severity, kind: str, name: str | tuple[str, ...], problem: str, mend: str
) -> DoctorFinding:
    listed = (name,) if isinstance(name, str) else name
    return DoctorFinding(severity=severity, kind=kind, names=listed, what=problem, mend=mend)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What one check came to.

    Attributes:
        check: its name.
        findings: errors first.
        unseen: why it could not look; empty if it could.
    """

    check: str
    findings: tuple[DoctorFinding, ...] = ()
    unseen: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What all checks came to, in the order of their table."""

    checked: tuple[CheckResult, ...]

    def of(self, severity: Severity) -> tuple[tuple[str, DoctorFinding], ...]:
        """Return the findings of a severity, each with the name of its check."""
        return tuple(
            (checked.check, finding)
            for checked in self.checked
            for finding in checked.findings
            if finding.severity is severity
        )

    @property
    def unseen(self) -> tuple[CheckResult, ...]:
        """Return the checks that could not look."""
        return tuple(checked for checked in self.checked if checked.unseen)

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
                    "kind": finding_.kind,
                    "names": list(finding_.names),
                    "what": finding_.what,
                    "mend": finding_.mend,
                }
                for severity in Severity
                for check, finding_ in self.of(severity)
            ],
            "notLooked": [
                {"check": checked.check, "why": checked.unseen} for checked in self.unseen
            ],
        }
