"""What is plain to see of a Workload, whoever owns it."""

from admission.api import views
from admission.base import names
from admission.controllers.workloads import conditions
from admission.controllers.writing import writes
from admission.kube import resources


def key(workload: views.Workload) -> names.WorkloadKey:
    """Identity of a Workload."""
    return names.WorkloadKey(workload.metadata.namespace, workload.metadata.name)


def reference(workload: views.Workload) -> dict[str, str]:
    """What an event about a Workload refers to."""
    return writes.reference(resources.WORKLOADS, workload.metadata)


def is_pending(workload: views.Workload) -> bool:
    """Whether the Workload waits for quota."""
    status = workload.status
    return not status.is_true(conditions.QUOTA_RESERVED) and not status.is_true(
        conditions.FINISHED
    )
