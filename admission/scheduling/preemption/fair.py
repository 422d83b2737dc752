"""Preemption with fair sharing: from the queue that is furthest above its fair share.

Source: kueue pkg/scheduler/preemption/fairsharing, KEP 1714 (rules S2-a, S2-b).
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from admission.base.conditions import PreemptionReason
from admission.base.names import ClusterQueueName
from admission.scheduling import fairshare, hierarchy, quota
from admission.scheduling.fairshare import Order, Share
from admission.scheduling.hierarchy import CohortNode, QueueNode, QuotaNode
from admission.scheduling.model import FairStrategy, PreemptionPolicy
from admission.scheduling.preemption import candidates
from admission.scheduling.preemption.candidates import Need, OrderKey, Preemptor, Target
from admission.scheduling.reserving import ReservingWorkload
from admission.scheduling.snapshot import Snapshot


def targets(
    snapshot: Snapshot,
    preemptor: Preemptor,
    need: Need,
    strategies: tuple[FairStrategy, ...],
) -> tuple[Target, ...]:
    """Return victims that make room, in the order of their choice; none if there is no way.

    Those within their minimum run time are tried after all others, if these do not suffice.
    """
    found_here = _collect(snapshot, preemptor, need)
    ordered = candidates.in_order(snapshot, preemptor, found_here)
    if not ordered:
        return ()
    past = [
        candidate for candidate in ordered if not candidates.is_within_minimum(snapshot, candidate)
    ]
    within = [
        candidate for candidate in ordered if candidates.is_within_minimum(snapshot, candidate)
    ]
    search = _Search(snapshot, preemptor, need)
    quota.add_all(preemptor.queue, need.requests)
    try:
        is_found = search.finds(past, strategies) or (
            bool(within) and search.finds(within, strategies)
        )
    finally:
        quota.remove_all(preemptor.queue, need.requests)
    if is_found:
        return candidates.minimise(snapshot, preemptor, need, search.chosen, borrowing=True)
    for target in search.chosen:
        snapshot.restore(target.workload)
    return ()


def _collect(snapshot: Snapshot, preemptor: Preemptor, need: Need) -> Iterator[ReservingWorkload]:
    """Candidates of the own queue and of every borrowing queue of the whole tree."""
    yield from candidates.of_queue(snapshot, preemptor, need, preemptor.queue)
    if preemptor.queue.spec.preemption.reclaim_within_cohort == PreemptionPolicy.NEVER:
        return
    root = preemptor.queue.root()
    for queue in root.leaves() if isinstance(root, CohortNode) else ():
        if queue is not preemptor.queue and hierarchy.over_nominal(queue, need.short):
            yield from candidates.of_queue(snapshot, preemptor, need, queue)


class _Search:
    """One search for victims; the preemptor's requests are counted in its queue meanwhile.

    Attributes:
        chosen: victims so far; they are removed from the snapshot.
        postponed: candidates that the first strategy let go.
    """

    def __init__(self, snapshot: Snapshot, preemptor: Preemptor, need: Need) -> None:
        self.snapshot = snapshot
        self.preemptor = preemptor
        self.need = need
        self.chosen: list[Target] = []
        self.postponed: list[ReservingWorkload] = []

    def finds(
        self, ordered: list[ReservingWorkload], strategies: tuple[FairStrategy, ...]
    ) -> bool:
        """Return whether the preemptor fits, after taking victims by all strategies."""
        self.postponed = []
        return self.first(ordered, strategies[0]) or (len(strategies) > 1 and self.second())

    def first(self, ordered: list[ReservingWorkload], strategy: FairStrategy) -> bool:
        """Takes victims by the first strategy until the preemptor fits."""
        queue = self.preemptor.queue
        entitled = not hierarchy.over_nominal(queue, self.need.short)
        ordering = _Ordering(self.preemptor, ordered, self.snapshot)
        while (picked := ordering.next()) is not None:
            if picked is queue:
                self._take(ordering.pop(picked), PreemptionReason.IN_CLUSTER_QUEUE)
            elif entitled:
                self._take(ordering.pop(picked), PreemptionReason.IN_COHORT_RECLAMATION)
            elif not self._take_fair(ordering, picked, strategy):
                continue
            if self._fits():
                return True
        return False

    def second(self) -> bool:
        """Takes at most one postponed victim per queue whose share is above the preemptor's."""
        ordering = _Ordering(self.preemptor, self.postponed, self.snapshot)
        while (picked := ordering.next()) is not None:
            own_node, other = _rivals(self.preemptor.queue, picked)
            if fairshare.of(own_node).order < fairshare.of(other).order:
                self._take(ordering.pop(picked), PreemptionReason.IN_COHORT_FAIR_SHARING)
                if self._fits():
                    return True
            ordering.drop(picked)
        return False

    def _take_fair(self, ordering: "_Ordering", picked: QueueNode, strategy: FairStrategy) -> bool:
        """Takes the queue's first candidate that the strategy allows.

        No strategy robs a side that is below the preemptor's before anything is removed.
        """
        own_node, other = _rivals(self.preemptor.queue, picked)
        own_share, before = fairshare.of(own_node), fairshare.of(other)
        hopeless = own_share.order > before.order
        while ordering.has(picked):
            workload = ordering.pop(picked)
            if not hopeless and self._passes(strategy, own_share, before, other, workload):
                self._take(workload, PreemptionReason.IN_COHORT_FAIR_SHARING)
                return True
            self.postponed.append(workload)
        return False

    def _passes(
        self,
        strategy: FairStrategy,
        own_share: Share,
        before: Share,
        other: QuotaNode,
        workload: ReservingWorkload,
    ) -> bool:
        if strategy == FairStrategy.LESS_THAN_INITIAL_SHARE:
            return own_share.order < before.order
        self.snapshot.remove(workload)
        passes = own_share.order <= fairshare.of(other).order
        self.snapshot.restore(workload)
        return passes

    def _take(self, workload: ReservingWorkload, reason: PreemptionReason) -> None:
        self.snapshot.remove(workload)
        self.chosen.append(Target(workload, reason))

    def _fits(self) -> bool:
        queue, requests = self.preemptor.queue, self.need.requests
        quota.remove_all(queue, requests)
        try:
            return candidates.fits(self.snapshot, queue, self.need, borrowing=True)
        finally:
            quota.add_all(queue, requests)


def _rivals(own_queue: QueueNode, other: QueueNode) -> tuple[QuotaNode, QuotaNode]:
    """The two children of the lowest common cohort, on either side."""
    own_path: list[QuotaNode] = [own_queue, *own_queue.ancestors()]
    position = {id(node): index for index, node in enumerate(own_path)}
    side: QuotaNode = other
    for cohort in other.ancestors():
        if id(cohort) in position:
            return own_path[position[id(cohort)] - 1], side
        side = cohort
    raise AssertionError("victims belong to the preemptor's tree")


@dataclass(frozen=True, slots=True)
class _RobbedQueue:
    """A queue that may be robbed; the highest share sorts first, then the earliest candidate."""

    share: Order
    first: OrderKey
    queue: QueueNode

    def __lt__(self, other: "_RobbedQueue") -> bool:
        return self.share > other.share or (self.share == other.share and self.first < other.first)


class _Ordering:
    """Says which queue to rob next: from the root down, always the child furthest above its share.

    Queues without candidates and sides that borrow nothing are left out, except the preemptor's
    own side. After a queue was picked, ``next`` looks at it again; nobody else's share changed.
    """

    def __init__(
        self, preemptor: Preemptor, ordered: list[ReservingWorkload], snapshot: Snapshot
    ) -> None:
        self._preemptor = preemptor
        self._own = own_queue = preemptor.queue
        self._path = {id(node) for node in own_queue.ancestors()}
        self._root = own_queue.root()
        self._left: dict[ClusterQueueName, list[ReservingWorkload]] = {}
        for workload in reversed(ordered):
            self._left.setdefault(workload.cluster_queue, []).append(workload)
        self._heaps: dict[int, list[_RobbedQueue]] = {}
        self._cohorts: dict[int, dict[int, CohortNode]] = {}
        self._picked: QueueNode | None = None
        for name in self._left:
            self._register(snapshot.queue(name))

    def has(self, queue: QueueNode) -> bool:
        """Return whether a queue has candidates left."""
        return bool(self._left.get(queue.name))

    def pop(self, queue: QueueNode) -> ReservingWorkload:
        """The queue's next candidate."""
        return self._left[queue.name].pop()

    def drop(self, queue: QueueNode) -> None:
        """Forgets the queue's other candidates."""
        self._left.pop(queue.name, None)

    def next(self) -> QueueNode | None:
        """The queue to rob next; None when nobody is left."""
        if not isinstance(self._root, CohortNode):
            return self._own if self.has(self._own) else None
        if self._picked is not None:
            self._push(self._picked)
        self._picked = self._descend(self._root)
        return self._picked

    def _register(self, queue: QueueNode) -> None:
        """Notes the way down from the root to a queue with candidates."""
        below: QuotaNode = queue
        for cohort in queue.ancestors():
            if isinstance(below, CohortNode):
                self._cohorts.setdefault(id(cohort), {})[id(below)] = below
            below = cohort
        self._push(queue)

    def _push(self, queue: QueueNode) -> None:
        """Enters a queue at its present share, unless there is nothing to rob."""
        if not self.has(queue) or queue.parent is None:
            return
        share = fairshare.of(queue)
        if not share.borrows and queue is not self._own:
            return
        first = candidates.order_key(self._preemptor, self._left[queue.name][-1])
        entry = _RobbedQueue(share.order, first, queue)
        heapq.heappush(self._heaps.setdefault(id(queue.parent), []), entry)

    def _descend(self, cohort: CohortNode) -> QueueNode | None:
        """Takes the best queue below a cohort off its heap; a child cohort wins a tie."""
        heap = self._heaps.get(id(cohort))
        share = heap[0].share if heap else None
        for child, child_share in self._children(cohort):
            if share is not None and child_share < share:
                break
            if (queue_found := self._descend(child)) is not None:
                return queue_found
        return heapq.heappop(heap).queue if heap else None

    def _children(self, cohort: CohortNode) -> list[tuple[CohortNode, Order]]:
        """Child cohorts that may be robbed, the highest share first.

        A tie is decided as between ClusterQueues, by the first candidates; in Kueue it is not.
        """
        children = [
            (child, share.order)
            for child in self._cohorts.get(id(cohort), {}).values()
            if (share := fairshare.of(child)).borrows or id(child) in self._path
        ]
        if len({share for _, share in children}) < len(children):
            children.sort(key=lambda pair: (self._firsts(pair[0]), pair[0].name))
        children.sort(key=lambda pair: pair[1], reverse=True)
        return children

    def _firsts(self, cohort: CohortNode) -> list[OrderKey]:
        """The earliest of the first candidates of all queues below a cohort, if there is any."""
        firsts = [entry.first for entry in self._heaps.get(id(cohort), ())]
        for child in self._cohorts.get(id(cohort), {}).values():
            firsts += self._firsts(child)
        return [min(firsts)] if firsts else []
