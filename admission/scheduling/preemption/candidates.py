"""The workloads that a workload may preempt, and the order in which they are tried.

Source: kueue pkg/scheduler/preemption/common (policy.go, ordering.go).
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from admission.base import durations
from admission.base.conditions import PreemptionReason
from admission.base.names import (
    ChargeKey,
    ClusterQueueName,
    FlavorResource,
    LocalQueueKey,
    Uid,
)
from admission.scheduling import quota
from admission.scheduling.hierarchy import QueueNode
from admission.scheduling.model import PreemptionPolicy
from admission.scheduling.places.model import Want
from admission.scheduling.reserving import ReservingWorkload
from admission.scheduling.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemptor:
    """The workload that needs quota.

    Attributes:
        spared: workloads that it may not take.
        takes_none: whether it waits instead of preempting anybody.
    """

    key: ChargeKey
    uid: Uid
    queue: QueueNode
    local_queue: LocalQueueKey
    priority: int
    queue_us: int
    spared: frozenset[ChargeKey] = frozenset()
    takes_none: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """A victim and why it was chosen."""

    workload: ReservingWorkload
    reason: PreemptionReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What the preemptor needs.

    Attributes:
        requests: everything it wants; no zero amounts.
        short: the flavors and resources for which room must be made; victims use one of them.
        wants: the pods that must have a place on nodes.
        among: the only workloads that may be taken; None for all.
    """

    requests: Mapping[FlavorResource, int]
    short: frozenset[FlavorResource]
    wants: tuple[Want, ...] = ()
    among: frozenset[ChargeKey] | None = None


def allowed(policy: PreemptionPolicy, preemptor: Preemptor, workload: ReservingWorkload) -> bool:
    """Return whether a policy lets the preemptor take this victim."""
    match policy:
        case PreemptionPolicy.NEVER:
            return False
        case PreemptionPolicy.ANY:
            return True
        case PreemptionPolicy.LOWER_PRIORITY:
            return workload.priority < preemptor.priority
        case PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY:
            newer = preemptor.queue_us < workload.queue_us
            return workload.priority < preemptor.priority or (
                newer and workload.priority == preemptor.priority
            )


def of_queue(
    snapshot: Snapshot, preemptor: Preemptor, need: Need, queue: QueueNode
) -> Iterator[ReservingWorkload]:
    """Yield victims in one ClusterQueue that policy allows; none in an inactive one."""
    policies = preemptor.queue.spec.preemption
    is_own = queue is preemptor.queue
    policy = policies.within_cluster_queue if is_own else policies.reclaim_within_cohort
    if policy == PreemptionPolicy.NEVER or not queue.active:
        return
    listed: Iterable[ReservingWorkload] = queue.workloads.values()
    if need.among is not None:
        listed = [holder for key in sorted(need.among) if (holder := queue.workloads.get(key))]
    for workload in listed:
        if (
            allowed(policy, preemptor, workload)
            and not (workload.stays or workload.surges)
            and workload.key not in snapshot.removed
            and (workload.evicted or workload.key not in preemptor.spared)
            and not need.short.isdisjoint(workload.usage)
        ):
            yield workload


def is_within_minimum(snapshot: Snapshot, workload: ReservingWorkload) -> bool:
    """Return whether a candidate has not been admitted for its minimum run time yet.

    Differs: Kueue has no such time. Without one in its ClusterQueue nothing is within it.
    """
    queue_minimum = snapshot.queue(workload.cluster_queue).spec.minimum_run_us
    if not queue_minimum or workload.evicted or not workload.admitted:
        return False
    local = snapshot.local_queues.get(workload.local_queue)
    of_local = None if local is None else local.minimum_run_us
    minimum = durations.narrowed(queue_minimum, of_local, workload.minimum_run_us)
    return snapshot.now_us < workload.admitted_us + minimum


OrderKey = tuple[bool, bool, int, int, str]


def order_key(preemptor: Preemptor, workload: ReservingWorkload) -> OrderKey:
    """Return the sort key of candidates of different ClusterQueues.

    1. already evicted, 2. of other ClusterQueues than the preemptor's, 3. lower priority,
    4. newer reservation, 5. UID.
    """
    return (
        not workload.evicted,
        workload.cluster_queue == preemptor.queue.name,
        workload.priority,
        -workload.reserved_us,
        workload.uid,
    )


def in_order(
    snapshot: Snapshot, preemptor: Preemptor, holders: Iterable[ReservingWorkload]
) -> list[ReservingWorkload]:
    """Return candidates in the order in which they are tried.

    By `order_key`; but two candidates of one ClusterQueue with usage-based admission are first
    compared by the past usage of their LocalQueues, the higher one first. As that holds for
    candidates of the same ClusterQueue only, each ClusterQueue is sorted, and of all the first
    ones the lowest by `order_key` comes next (ADR 0058).
    """
    by_usage: dict[ClusterQueueName, list[ReservingWorkload]] = {}
    rest: list[ReservingWorkload] = []
    for workload in holders:
        name = workload.cluster_queue
        usage_based = snapshot.past_usage is not None and snapshot.queue(name).spec.usage_based
        (by_usage.setdefault(name, []) if usage_based else rest).append(workload)
    key = partial(order_key, preemptor)
    ordered = sorted(rest, key=key)
    if not by_usage:
        return ordered
    queues = [_by_usage(snapshot, preemptor, workloads) for workloads in by_usage.values()]
    return list(heapq.merge(ordered, *queues, key=key))


def _by_usage(
    snapshot: Snapshot, preemptor: Preemptor, workloads: Iterable[ReservingWorkload]
) -> list[ReservingWorkload]:
    """Candidates of one ClusterQueue whose LocalQueues are ordered by past usage."""
    assert snapshot.past_usage is not None
    ranks = {
        name: snapshot.past_usage(name)
        for name in {workload.local_queue for workload in workloads}
    }

    def key(workload: ReservingWorkload) -> tuple[bool, bool, Fraction, OrderKey]:
        endless, used = ranks[workload.local_queue]
        return not workload.evicted, not endless, -used, order_key(preemptor, workload)

    return sorted(workloads, key=key)


def fits(snapshot: Snapshot, queue: QueueNode, need: Need, *, borrowing: bool) -> bool:
    """Return whether a queue has room for what is needed, if need be by borrowing, and nodes too.

    Nodes are asked last: that costs most.
    """
    for fr, value in need.requests.items():
        if not borrowing and queue.usage.get(fr, 0) + value > quota.nominal(queue, fr):
            return False
        if value > max(0, quota.available(queue, fr)):
            return False
    return not need.wants or snapshot.places.fits(need.wants)


def minimise(
    snapshot: Snapshot, preemptor: Preemptor, need: Need, targets: list[Target], *, borrowing: bool
) -> tuple[Target, ...]:
    """Return the victims without those that turn out not to be needed.

    All targets are removed from the snapshot when called; all are back afterwards. The last one
    stays a victim: without it the workload did not fit.
    """
    needed = targets[-1:]
    for target in reversed(targets[:-1]):
        snapshot.restore(target.workload)
        if not fits(snapshot, preemptor.queue, need, borrowing=borrowing):
            snapshot.remove(target.workload)
            needed.append(target)
    for target in needed:
        snapshot.restore(target.workload)
    needed.reverse()
    return tuple(needed)
