"""Rules of the annotation ``kueue.x-k8s.io/admission-gated-by``, for pods and Workloads.

Its value is a list of gate names, separated by commas; while it is not empty the Workload waits.
Rules ``gate 1`` to ``gate 6`` of docs/reference/rules.md. Source: kueue
pkg/util/webhook/validation_admissiongatedby.go.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from admission.base import names, syntax
from admission.base.fielderrors import ErrorType, FieldError, FieldPath
from admission.objects import rule_checks
from admission.objects.rule_checks import Row, Rule, RuleBreach, Syntax

PATH: Final = FieldPath.of("metadata", "annotations").key(names.ADMISSION_GATED_BY)
NAME_MAX: Final = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One name in the list, the whole list, and whether the name stood before."""

    name: str
    value: str
    is_repeated: bool


@dataclass(frozen=True, slots=True)
class GateListChange:
    """The list before and after an update."""

    old: str
    new: str


def _unnamed(gate: Gate) -> Iterable[RuleBreach]:
    return [] if gate.name else [RuleBreach(PATH, gate.value)]


def _repeated(gate: Gate) -> Iterable[RuleBreach]:
    return [RuleBreach(PATH, gate.value, {"name": gate.name})] if gate.is_repeated else []


def _path(gate: Gate) -> Iterable[FieldError]:
    return syntax.domain_prefixed_path(PATH, gate.name) if gate.name else []


def _long(gate: Gate) -> Iterable[RuleBreach]:
    return [RuleBreach(PATH)] if len(gate.name.encode()) > NAME_MAX else []


def _first(change: GateListChange) -> Iterable[RuleBreach]:
    return [RuleBreach(PATH)] if change.new and not change.old else []


def _further(change: GateListChange) -> Iterable[RuleBreach]:
    added = set(_split(change.new)) - set(_split(change.old)) - {""}
    return [RuleBreach(PATH)] if change.old and added else []


GATES: Final[tuple[Row[Gate], ...]] = (
    Rule("gate 1", ErrorType.INVALID, "cannot contain empty gate names", _unnamed),
    Rule("gate 2", ErrorType.INVALID, "duplicate gate name: {name}", _repeated),
    Syntax("gate 3", _path),
    Rule("gate 4", ErrorType.TOO_LONG, f"may not be more than {NAME_MAX} bytes", _long),
)
"""Each name."""

CHANGES: Final[tuple[Row[GateListChange], ...]] = (
    Rule("gate 5", ErrorType.FORBIDDEN, "cannot add admission gate after creation", _first),
    Rule("gate 6", ErrorType.FORBIDDEN, "can only remove gates, not add new ones", _further),
)
"""An update: gates can only go away after creation."""


def errors(value: str) -> list[FieldError]:
    """Broken rules of one value; an empty or blank one breaks none."""
    if not value.strip():
        return []
    return [error for gate in _gates(value) for error in rule_checks.errors(GATES, gate)]


def update_errors(old: str, new: str) -> list[FieldError]:
    """Return the rules that a change of the value breaks."""
    return [] if old == new else rule_checks.errors(CHANGES, GateListChange(old, new))


def _gates(value: str) -> Iterator[Gate]:
    seen: set[str] = set()
    for name in _split(value):
        yield Gate(name=name, value=value, is_repeated=bool(name) and name in seen)
        seen.add(name)


def _split(value: str) -> list[str]:
    return [gate.strip() for gate in value.split(",")]
