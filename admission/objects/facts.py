"""What is plain to see of a Workload, whoever owns it."""

from admission.base import conditions, names
from admission.objects.workload import Workload


def key(workload: Workload) -> names.WorkloadKey:
    """Return the identity of a Workload."""
    return names.WorkloadKey(workload.metadata.namespace, workload.metadata.name)


def waits_to_be_charged(workload: Workload) -> bool:
    """Return whether the Workload was made for pods that run, and is not charged for them yet."""
    status = workload.status
    is_marked = bool(workload.metadata.annotation(names.MADE_FOR_RUNNING))
    is_over = status.is_true(conditions.EVICTED) or status.is_true(conditions.FINISHED)
    return is_marked and not is_over and status.admission is None


def is_pending(workload: Workload) -> bool:
    """Return whether the Workload waits for quota."""
    status = workload.status
    return not status.is_true(conditions.QUOTA_RESERVED) and not status.is_true(
        conditions.FINISHED
    )
