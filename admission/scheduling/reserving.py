"""A workload that holds quota, reduced to what counting and preemption need."""

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from admission.base import amount
from admission.base.names import (
    UNKNOWN_REQUESTER,
    ChargeKey,
    ClusterQueueName,
    FlavorResource,
    LocalQueueKey,
    Uid,
    WorkloadKey,
)
from admission.scheduling import podsets
from admission.scheduling.model import PodSet, PodSetAssignment, Reservation, User, Workload

NOBODY: Final = User(UNKNOWN_REQUESTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservingWorkload:
    """Quota in use.

    Attributes:
        usage: per flavor and resource, less what reclaimable pods gave back.
        queue_us: the timestamp that orders it among equal priorities.
        reserved_us: when it got the quota.
        evicted: it was told to leave and still holds its quota.
        admitted: its pods may run.
        admitted_us: since when.
        ready: all of its pods run.
        stays: nobody can tell it to leave.
        surges: it uses surge quota.
        minimum_run_us: as of the workload.
        user: the user whose caps it counts against.
    """

    key: ChargeKey
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
    surges: bool = False
    admitted_us: int = 0
    minimum_run_us: int | None = None
    user: User = NOBODY

    @property
    def workload_key(self) -> WorkloadKey:
        """Return its key where it is a Workload."""
        assert isinstance(self.key, WorkloadKey)
        return self.key

    @property
    def is_pod(self) -> bool:
        """Return whether it is charged besides Workloads, and counted as none, such as a pod."""
        return not isinstance(self.key, WorkloadKey)


def of(
    workload: Workload,
    reservation: Reservation,
    *,
    by_eviction: bool = True,
    waived: Container[str] = (),
) -> ReservingWorkload:
    """Return a workload with a reservation as it is counted.

    Usage comes from the reservation, never from the spec: a pod set with reclaimable pods uses
    ``floor(usage / count)`` for each pod that still needs quota. What all its pods need together
    is used until the last of them gives back its quota.

    Args:
        workload: the workload as last told.
        reservation: what it holds; may be newer than the workload's own.
        waived: keys of what it shares with others and is not charged for.
        by_eviction: see ``Config.requeue_by_eviction``.
    """
    pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
    usage: dict[FlavorResource, int] = {}
    for assigned in reservation.pod_sets:
        _add(usage, assigned, pod_sets.get(assigned.name), waived)
    return ReservingWorkload(
        key=workload.key,
        uid=workload.uid,
        cluster_queue=reservation.cluster_queue,
        local_queue=workload.queue,
        priority=workload.priority,
        queue_us=podsets.queue_timestamp(workload, by_eviction=by_eviction),
        reserved_us=reservation.reserved_us,
        evicted=workload.is_leaving,
        admitted=reservation.admitted,
        ready=workload.pods_ready,
        usage=usage,
        stays=workload.stays,
        surges=reservation.surges,
        admitted_us=reservation.admitted_us,
        minimum_run_us=workload.minimum_run_us,
        user=workload.user,
    )


def _add(
    usage: dict[FlavorResource, int],
    assigned: PodSetAssignment,
    pod_set: PodSet | None,
    waived: Container[str],
) -> None:
    count = assigned.count if pod_set is None else min(pod_set.effective_count, assigned.count)
    shared = () if pod_set is None else pod_set.together
    for resource, flavor in assigned.flavors.items():
        used = assigned.usage.get(resource, 0)
        together = min(sum(demand.in_flavor(flavor, resource) for demand in shared), used)
        charged = sum(
            demand.in_flavor(flavor, resource) for demand in shared if demand.key not in waived
        )
        used -= together
        if count < assigned.count:
            used = amount.scale_down(used, assigned.count, count)
        used += min(charged, together) if count else 0
        fr = FlavorResource(flavor, resource)
        usage[fr] = usage.get(fr, 0) + used
