"""Rules of the annotation ``kueue.x-k8s.io/admission-gated-by``, for pods and Workloads.

Its value is a list of gate names, separated by commas; while it is not empty the Workload waits.
Source: kueue pkg/util/admissiongatedby and contract rules for CREATE and UPDATE.
"""

from typing import Final

from admission.base import names
from admission.policy import fielderrors, syntax
from admission.policy.fielderrors import FieldError, FieldPath

PATH: Final = FieldPath.of("metadata", "annotations").key(names.ADMISSION_GATED_BY)
NAME_MAX: Final = 63


def errors(value: str) -> list[FieldError]:
    """Broken rules of one value; an empty or blank one breaks none."""
    if not value.strip():
        return []
    found: list[FieldError] = []
    seen: set[str] = set()
    for gate in _split(value):
        if not gate:
            found.append(fielderrors.invalid(PATH, value, "cannot contain empty gate names"))
            continue
        if gate in seen:
            found.append(fielderrors.invalid(PATH, value, f"duplicate gate name: {gate}"))
        seen.add(gate)
        found += syntax.domain_prefixed_path(PATH, gate)
        if len(gate.encode()) > NAME_MAX:
            found.append(fielderrors.too_long(PATH, NAME_MAX))
    return found


def update_errors(old: str, new: str) -> list[FieldError]:
    """What a change of the value breaks: gates can only go away after creation."""
    if new and not old:
        return [fielderrors.forbidden(PATH, "cannot add admission gate after creation")]
    if set(_split(new)) - set(_split(old)) - {""}:
        return [fielderrors.forbidden(PATH, "can only remove gates, not add new ones")]
    return []


def _split(value: str) -> list[str]:
    return [gate.strip() for gate in value.split(",")]
