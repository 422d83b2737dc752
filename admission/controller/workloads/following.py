"""Which Workloads have yet to take over the value of their WorkloadPriorityClass.

Only a class that appears or changes its value reaches its Workloads, so that a priority that
somebody sets by hand stays. Source: kueue
pkg/controller/core/workloadpriorityclass_controller.go.
"""

from collections.abc import Iterable, Mapping

from admission.base import names
from admission.base.names import WorkloadKey
from admission.controller.plans import PlanDraft
from admission.objects.workload import Workload


class PrioritySync:
    """Workloads whose class may have changed since they were written."""

    def __init__(self, draft: PlanDraft) -> None:
        """Prepare for no Workloads.

        Args:
            draft: of the plan that is being derived.
        """
        self._draft = draft
        self._due: set[WorkloadKey] = set()

    def add(self, keys: Iterable[WorkloadKey]) -> None:
        """Note Workloads whose priority may differ from the value of their class."""
        self._due.update(keys)

    def forget(self, key: WorkloadKey) -> None:
        """Forget a Workload that is gone."""
        self._due.discard(key)

    def priority(self, workload: Workload, classes: Mapping[str, int]) -> int | None:
        """Return the value that a Workload has to take over; None, from then on, once it has it.

        Args:
            workload: as it is.
            classes: values of the WorkloadPriorityClasses by name.
        """
        key = workload.key()
        if key not in self._due:
            return None
        reference = workload.spec.priority_class_ref
        ours = reference is not None and reference.group == names.KUEUE_GROUP
        value = classes.get(reference.name) if reference is not None and ours else None
        if value is None or value == workload.spec.priority:
            self._draft.note(self._due.discard, key)
            return None
        return value
