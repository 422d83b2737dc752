"""What is plain to see of a Workload, whoever owns it."""

from admission.api import views
from admission.base import conditions, names


def key(workload: views.Workload) -> names.WorkloadKey:
    """Return the identity of a Workload."""
    return names.WorkloadKey(workload.metadata.namespace, workload.metadata.name)


def is_pending(workload: views.Workload) -> bool:
    """Return whether the Workload waits for quota."""
    status = workload.status
    return not status.is_true(conditions.QUOTA_RESERVED) and not status.is_true(
        conditions.FINISHED
    )
