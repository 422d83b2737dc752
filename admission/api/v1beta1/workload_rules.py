"""What may not change on a v1beta1 Workload that holds quota.

Rules W1, W6 and W7 of docs/rules.md, and two for the priority class. Source: kueue
apis/kueue/v1beta1/workload_types.go.
"""

from typing import Final

from admission.api.markers import Rule
from admission.api.v1beta2 import workload_rules
from admission.api.v1beta2.workload_rules import NEVER_HELD, WAS_RESERVED, WHILE, has

KUEUE_SOURCE: Final = "kueue.x-k8s.io/workloadpriorityclass"
POD_SOURCE: Final = "scheduling.k8s.io/priorityclass"

_NAME = "priorityClassName"
_SOURCE = "priorityClassSource"


def _missing(field: str) -> str:
    """CEL: the field is absent on at least one side."""
    return f"!{has('self', field)} || !{has('oldSelf', field)}"


ROOT: Final = (
    workload_rules.SAME_NUMBER_OF_POD_SETS,
    Rule(
        f"{NEVER_HELD} || {_missing(_SOURCE)}"
        f" || self.spec.{_SOURCE} == oldSelf.spec.{_SOURCE} || !{WAS_RESERVED}",
        f"{_SOURCE} {WHILE}",
    ),
    Rule(
        f"{NEVER_HELD} || {_missing(_SOURCE)} || {_missing(_NAME)}"
        f" || self.spec.{_SOURCE} == '{KUEUE_SOURCE}'"
        f" || self.spec.{_NAME} == oldSelf.spec.{_NAME} || !{WAS_RESERVED}",
        f"{_NAME} {WHILE} and {_SOURCE} is not equal to {KUEUE_SOURCE}",
    ),
    workload_rules.SAME_QUEUE,
    workload_rules.SAME_EXECUTION_TIME,
)
