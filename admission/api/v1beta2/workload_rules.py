"""What may not change on a Workload that holds quota, as CEL over the old and new object.

Source: kueue Workload, rules W1 to W7 of the root. R is the condition QuotaReserved, A the
condition Admitted.

Every write of a status is held against all of them, so each rule looks first at the fields that
hardly ever change and at the conditions last: the API server stops at the first part that is true.
"""

from typing import Final

from admission.api.markers import Rule


def is_true(subject: str, condition: str) -> str:
    """CEL: the condition of that type is True."""
    return (
        f"(has({subject}.status) && has({subject}.status.conditions)"
        f" && {subject}.status.conditions.exists(c,"
        f" c.type == '{condition}' && c.status == 'True'))"
    )


def has(subject: str, field: str) -> str:
    """CEL: the field of the spec is there."""
    return f"(has({subject}.spec) && has({subject}.spec.{field}))"


def _same(field: str) -> str:
    """Equal, or absent on both sides."""
    both = f"{has('self', field)} == {has('oldSelf', field)}"
    return f"{both} && (!{has('self', field)} || self.spec.{field} == oldSelf.spec.{field})"


def _seconds(subject: str) -> str:
    field = "maximumExecutionTimeSeconds"
    return f"({has(subject, field)} ? {subject}.spec.{field} : 0)"


RESERVED: Final = is_true("self", "QuotaReserved")
WAS_RESERVED: Final = is_true("oldSelf", "QuotaReserved")
_ADMITTED = is_true("self", "Admitted")
_WAS_ADMITTED = is_true("oldSelf", "Admitted")
_REF = "priorityClassRef"
_BOTH_HAVE_REF = f"({has('self', _REF)} && {has('oldSelf', _REF)})"
WHILE: Final = "is immutable while workload quota reserved"


def _reference_part(field: str, only_if: str = "true") -> str:
    return (
        f"!{_BOTH_HAVE_REF} || self.spec.{_REF}.{field} == oldSelf.spec.{_REF}.{field}"
        f" || !({only_if}) || !{WAS_RESERVED}"
    )


_IS_POD_PRIORITY = (
    f"self.spec.{_REF}.group == 'scheduling.k8s.io' && self.spec.{_REF}.kind == 'PriorityClass'"
)

SAME_NUMBER_OF_POD_SETS: Final = Rule(
    "!has(self.status) || !has(self.status.admission)"
    " || (has(self.status.admission.podSetAssignments)"
    " ? size(self.status.admission.podSetAssignments) : 0)"
    f" == ({has('self', 'podSets')} ? size(self.spec.podSets) : 0)"
    f" || !{RESERVED}",
    "podSetAssignments must have the same number of podSets as the spec",
)
SAME_QUEUE: Final = Rule(
    f"({_same('queueName')}) || !{RESERVED} || !{WAS_RESERVED}", f"queueName {WHILE}"
)
SAME_EXECUTION_TIME: Final = Rule(
    f"{_seconds('self')} == {_seconds('oldSelf')} || !{_ADMITTED} || !{_WAS_ADMITTED}",
    f"maximumExecutionTimeSeconds {WHILE}",
)

ROOT: Final = (
    SAME_NUMBER_OF_POD_SETS,
    Rule(
        f"{has('self', _REF)} == {has('oldSelf', _REF)} || !{WAS_RESERVED}",
        f"priorityClassRef {WHILE}",
    ),
    Rule(_reference_part("group"), f"priorityClassRef.group {WHILE}"),
    Rule(_reference_part("kind"), f"priorityClassRef.kind {WHILE}"),
    Rule(
        _reference_part("name", _IS_POD_PRIORITY),
        "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass"
        " while workload quota reserved",
    ),
    SAME_QUEUE,
    SAME_EXECUTION_TIME,
)
