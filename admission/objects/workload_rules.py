"""What may not change on a Workload that holds quota, as CEL over the old and new object.

Rules W1 to W7 of docs/reference/rules.md, in that order.
Source: kueue apis/kueue/v1beta2/workload_types.go.

Every write of a status is held against all of them. The API server pays for each step of a path:
it lists the members that the object at hand may have, so a step from ``status`` or ``spec`` costs
several times one from the root. A rule therefore begins with what takes the fewest steps (an
object without a status held nothing), goes on with the fields that hardly ever change, and looks
at the conditions last; it stops at the first part that is true. ``.?`` takes a step less than
``has``.
"""

from typing import Final

from admission.base import conditions
from admission.objects.markers import CelRule


def holds(subject: str, condition: str) -> str:
    """CEL: the condition of that type is True."""
    return (
        f"(has({subject}.status) && has({subject}.status.conditions)"
        f" && {subject}.status.conditions.exists(c,"
        f" c.type == '{condition}' && c.status == 'True'))"
    )


def of_spec(subject: str, field: str) -> str:
    """CEL: a field of the spec; an optional value."""
    return f"{subject}.?spec.?{field}"


def has(subject: str, field: str) -> str:
    """CEL: the field of the spec is there."""
    return f"{of_spec(subject, field)}.hasValue()"


NEVER_HELD: Final = "!has(oldSelf.status)"
RESERVED: Final = holds("self", conditions.QUOTA_RESERVED)
WAS_RESERVED: Final = holds("oldSelf", conditions.QUOTA_RESERVED)
_ADMITTED = holds("self", conditions.ADMITTED)
_WAS_ADMITTED = holds("oldSelf", conditions.ADMITTED)
_REF = "priorityClassRef"
_QUEUE = "queueName"
WHILE: Final = "is immutable while workload quota reserved"


def _reference_part(field: str, only_if: str = "") -> str:
    condition = f" || !({only_if})" if only_if else ""
    return (
        f"{NEVER_HELD} || !{has('self', _REF)} || !{has('oldSelf', _REF)}"
        f" || self.spec.{_REF}.{field} == oldSelf.spec.{_REF}.{field}{condition}"
        f" || !{WAS_RESERVED}"
    )


def _seconds(subject: str) -> str:
    return f"{of_spec(subject, 'maximumExecutionTimeSeconds')}.orValue(0)"


_IS_POD_PRIORITY = (
    f"self.spec.{_REF}.group == 'scheduling.k8s.io' && self.spec.{_REF}.kind == 'PriorityClass'"
)

SAME_NUMBER_OF_POD_SETS: Final = CelRule(
    "self.?status.?admission.optMap(given, size(given.?podSetAssignments.orValue([]))"
    f" == size({of_spec('self', 'podSets')}.orValue([]))).orValue(true) || !{RESERVED}",
    "podSetAssignments must have the same number of podSets as the spec",
)
SAME_QUEUE: Final = CelRule(
    f"{NEVER_HELD} || ({has('self', _QUEUE)}"
    f" ? self.spec.{_QUEUE} == {of_spec('oldSelf', _QUEUE)}.orValue('')"
    f" : !{has('oldSelf', _QUEUE)})"
    f" || !{RESERVED} || !{WAS_RESERVED}",
    f"{_QUEUE} {WHILE}",
)
SAME_EXECUTION_TIME: Final = CelRule(
    f"{NEVER_HELD} || {_seconds('self')} == {_seconds('oldSelf')}"
    f" || !{_ADMITTED} || !{_WAS_ADMITTED}",
    f"maximumExecutionTimeSeconds {WHILE}",
)

ROOT: Final = (
    SAME_NUMBER_OF_POD_SETS,
    CelRule(
        f"{NEVER_HELD} || {has('self', _REF)} == {has('oldSelf', _REF)} || !{WAS_RESERVED}",
        f"priorityClassRef {WHILE}",
    ),
    CelRule(_reference_part("group"), f"priorityClassRef.group {WHILE}"),
    CelRule(_reference_part("kind"), f"priorityClassRef.kind {WHILE}"),
    CelRule(
        _reference_part("name", _IS_POD_PRIORITY),
        "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass"
        " while workload quota reserved",
    ),
    SAME_QUEUE,
    SAME_EXECUTION_TIME,
)
