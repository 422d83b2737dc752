"""A workload that holds quota, reduced to what counting and preemption need."""

from dataclasses import dataclass

from admission.base import amount
from admission.base.names import ClusterQueueName, FlavorResource, LocalQueueKey, Uid, WorkloadKey
from admission.engine import podsets
from admission.engine.model import PodSetAssignment, Reservation, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Quota in use.

    Attributes:
        usage: per flavor and resource, less what reclaimable pods gave back.
        queue_us: the timestamp that orders it among equal priorities.
        reserved_us: when it got the quota.
        evicted: it was told to leave and still holds its quota.
        admitted: its pods may run.
        ready: all of its pods run.
        stays: nobody can tell it to leave.
    """

    key: WorkloadKey
    uid: Uid
    cluster_queue: ClusterQueueName
    local_queue: LocalQueueKey
    priority: int
    queue_us: int
    reserved_us: int
    evicted: bool
    admitted: bool
    ready: bool
    usage: dict[FlavorResource, int]
    stays: bool = False


def of(workload: Workload, reservation: Reservation, *, by_eviction: bool = True) -> Holding:
    """The holding of a workload with a reservation.

    Usage comes from the reservation, never from the spec: a pod set with reclaimable pods uses
    ``floor(usage / count)`` for each pod that still needs quota.

    Args:
        workload: the workload as last told.
        reservation: what it holds; may be newer than the workload's own.
        by_eviction: as ``Config.requeue_by_eviction``.
    """
    still = {pod_set.name: pod_set.effective_count for pod_set in workload.pod_sets}
    usage: dict[FlavorResource, int] = {}
    for assigned in reservation.pod_sets:
        count = still.get(assigned.name, assigned.count)
        _add(usage, assigned, min(count, assigned.count))
    return Holding(
        key=workload.key,
        uid=workload.uid,
        cluster_queue=reservation.cluster_queue,
        local_queue=workload.queue,
        priority=workload.priority,
        queue_us=podsets.queue_timestamp(workload, by_eviction=by_eviction),
        reserved_us=reservation.reserved_us,
        evicted=workload.eviction is not None,
        admitted=reservation.admitted,
        ready=workload.pods_ready,
        usage=usage,
        stays=workload.stays,
    )


def _add(usage: dict[FlavorResource, int], assigned: PodSetAssignment, count: int) -> None:
    for resource, flavor in assigned.flavors.items():
        used = assigned.usage.get(resource, 0)
        if count < assigned.count:
            used = amount.scale_down(used, assigned.count, count)
        fr = FlavorResource(flavor, resource)
        usage[fr] = usage.get(fr, 0) + used
