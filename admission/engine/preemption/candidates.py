"""Who may be preempted by whom, and in which order candidates are tried.

Source: kueue pkg/scheduler/preemption/common (policy.go, ordering.go).
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from admission.base.conditions import PreemptionReason
from admission.base.names import (
    ClusterQueueName,
    FlavorResource,
    LocalQueueKey,
    Uid,
    WorkloadKey,
)
from admission.engine import quota
from admission.engine.hierarchy import QueueNode
from admission.engine.holding import Holding
from admission.engine.model import PreemptionPolicy
from admission.engine.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemptor:
    """The workload that wants room.

    Attributes:
        spared: workloads that it may not take.
    """

    key: WorkloadKey
    uid: Uid
    queue: QueueNode
    local_queue: LocalQueueKey
    priority: int
    queue_us: int
    spared: frozenset[WorkloadKey] = frozenset()


@dataclass(frozen=True, slots=True)
class Target:
    """A victim and why it was chosen."""

    holding: Holding
    reason: PreemptionReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What the preemptor wants.

    Attributes:
        requests: everything it wants; no zero amounts.
        short: the flavors and resources for which room must be made; victims use one of them.
    """

    requests: Mapping[FlavorResource, int]
    short: frozenset[FlavorResource]


def allowed(policy: PreemptionPolicy, preemptor: Preemptor, holding: Holding) -> bool:
    """Whether a policy lets the preemptor take this victim."""
    match policy:
        case PreemptionPolicy.NEVER:
            return False
        case PreemptionPolicy.ANY:
            return True
        case PreemptionPolicy.LOWER_PRIORITY:
            return holding.priority < preemptor.priority
        case PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY:
            newer = preemptor.queue_us < holding.queue_us
            return holding.priority < preemptor.priority or (
                newer and holding.priority == preemptor.priority
            )


def of_queue(
    snapshot: Snapshot, preemptor: Preemptor, need: Need, queue: QueueNode
) -> Iterator[Holding]:
    """Victims in one ClusterQueue that policy allows; none in an inactive one."""
    policies = preemptor.queue.spec.preemption
    own = queue is preemptor.queue
    policy = policies.within_cluster_queue if own else policies.reclaim_within_cohort
    if policy == PreemptionPolicy.NEVER or not queue.active:
        return
    for holding in queue.holdings.values():
        if (
            allowed(policy, preemptor, holding)
            and not holding.stays
            and holding.key not in snapshot.removed
            and (holding.evicted or holding.key not in preemptor.spared)
            and not need.short.isdisjoint(holding.usage)
        ):
            yield holding


OrderKey = tuple[bool, bool, int, int, str]


def order_key(preemptor: Preemptor, holding: Holding) -> OrderKey:
    """Return what sorts candidates of different ClusterQueues.

    1. already evicted, 2. of other ClusterQueues than the preemptor's, 3. lower priority,
    4. newer reservation, 5. UID.
    """
    return (
        not holding.evicted,
        holding.cluster_queue == preemptor.queue.name,
        holding.priority,
        -holding.reserved_us,
        holding.uid,
    )


def in_order(snapshot: Snapshot, preemptor: Preemptor, found: Iterable[Holding]) -> list[Holding]:
    """Return candidates in the order in which they are tried.

    By `order_key`; but two candidates of one ClusterQueue with usage-based admission are first
    compared by the past usage of their LocalQueues, the higher one first. As that holds for
    candidates of the same ClusterQueue only, each ClusterQueue is sorted, and of all the first
    ones the lowest by `order_key` comes next (ADR 0078).
    """
    by_usage: dict[ClusterQueueName, list[Holding]] = {}
    others: list[Holding] = []
    for holding in found:
        name = holding.cluster_queue
        usage_based = snapshot.past_usage is not None and snapshot.queue(name).spec.usage_based
        (by_usage.setdefault(name, []) if usage_based else others).append(holding)
    key = partial(order_key, preemptor)
    ordered = sorted(others, key=key)
    if not by_usage:
        return ordered
    queues = [_by_usage(snapshot, preemptor, holdings) for holdings in by_usage.values()]
    return list(heapq.merge(ordered, *queues, key=key))


def _by_usage(
    snapshot: Snapshot, preemptor: Preemptor, holdings: Iterable[Holding]
) -> list[Holding]:
    """Candidates of one ClusterQueue whose LocalQueues are ordered by past usage."""
    assert snapshot.past_usage is not None
    ranks = {name: snapshot.past_usage(name) for name in {one.local_queue for one in holdings}}

    def key(holding: Holding) -> tuple[bool, bool, Fraction, OrderKey]:
        endless, used = ranks[holding.local_queue]
        return not holding.evicted, not endless, -used, order_key(preemptor, holding)

    return sorted(holdings, key=key)


def fits(queue: QueueNode, requests: Mapping[FlavorResource, int], *, borrowing: bool) -> bool:
    """Whether a queue has room for the requests, within its nominal quota or by borrowing."""
    for fr, value in requests.items():
        if not borrowing and queue.usage.get(fr, 0) + value > quota.nominal(queue, fr):
            return False
        if value > max(0, quota.available(queue, fr)):
            return False
    return True


def minimise(
    snapshot: Snapshot, preemptor: Preemptor, need: Need, targets: list[Target], *, borrowing: bool
) -> tuple[Target, ...]:
    """Drops victims that turn out not to be needed.

    All targets are removed from the snapshot when called; all are back afterwards. The last one
    stays a victim: without it the workload did not fit.
    """
    needed = targets[-1:]
    for target in reversed(targets[:-1]):
        snapshot.restore(target.holding)
        if not fits(preemptor.queue, need.requests, borrowing=borrowing):
            snapshot.remove(target.holding)
            needed.append(target)
    for target in needed:
        snapshot.restore(target.holding)
    needed.reverse()
    return tuple(needed)
