"""The waiting workloads of the ClusterQueues: who is tried next, and who is parked.

Workloads that decisions cannot tell apart form a class. When one of a class does not fit, the
class is parked as a whole, and a retry frees it as a whole, so that neither costs anything per
workload.

Source: kueue pkg/cache/queue/cluster_queue.go.
"""

import heapq
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from admission.base.names import (
    ChargeKey,
    ClusterQueueName,
    LocalQueueKey,
    ResourceName,
    WorkloadKey,
)
from admission.base.selectors import Labels
from admission.scheduling.assignment import LastAssignment
from admission.scheduling.caps import Caps
from admission.scheduling.changes import Changes
from admission.scheduling.consumption import Rank
from admission.scheduling.decisions import Requeue, Wait
from admission.scheduling.heads import Head
from admission.scheduling.hierarchy import CohortHierarchy
from admission.scheduling.model import ClusterQueue, QueueingStrategy, Selector, Workload
from admission.scheduling.podsets import Demand

OrderKey = tuple[int, int, str]
"""1. higher priority, 2. earlier queue time, 3. UID."""

_IMMEDIATE = (Requeue.FAILED_AFTER_NOMINATION, Requeue.PENDING_PREEMPTION)
_OF_CLASS = (Requeue.NO_FIT, Requeue.PREEMPTION_NO_CANDIDATES)
_APART = (Requeue.NAMESPACE_MISMATCH, Requeue.CAPPED, Requeue.SET_ASIDE)
"""What others do not wait for, whatever the strategy: it is about this workload alone."""

_SAME: Final[Rank] = (False, Fraction(0))
_ORDER: Final = attrgetter("order")


_SLACK: Final = 16
_What = TypeVar("_What")


class _HeapEntry(Generic[_What]):
    """Something in a heap, sorted by its place in line."""

    __slots__ = ("order", "what")

    def __init__(self, order: OrderKey, subject: _What) -> None:
        self.order = order
        self.what = subject

    def __lt__(self, other: "_HeapEntry[_What]") -> bool:
        return self.order < other.order


@dataclass(slots=True, kw_only=True)
class Pending:
    """A workload that waits in a queue.

    Attributes:
        replaces: the workload whose quota is counted as its own already, if any.
        parked: not tried until a retry; for itself, whatever its class.
        told: a result of its class was passed on to it, or it had one of its own.
        hopeless: never starts as it is, by what was last told of it, and others pass it. It keeps
            its turn, and they do not count it among those before them.
        set_aside_until_us: not tried before, whatever happens: an error ended its last try.
    """

    workload: Workload
    queue_us: int
    demands: tuple[Demand, ...]
    equivalence: Hashable
    replaces: WorkloadKey | None = None
    memory: LastAssignment | None = None
    parked: bool = False
    told: bool = False
    hopeless: bool = False
    set_aside_until_us: int = 0
    key: WorkloadKey = field(init=False)
    order: OrderKey = field(init=False)

    def __post_init__(self) -> None:
        self.key = self.workload.workload_key
        self.order = (-self.workload.priority, self.queue_us, self.workload.uid)

    def ready_at_us(self) -> int | None:
        """Return when its backoff ends; None when nothing but an event ends it."""
        if not self.workload.requeued:
            return None
        return max(self.workload.requeue_at_us or 0, self.set_aside_until_us)

    def head(
        self,
        cluster_queue: ClusterQueueName,
        selector: Selector | None,
        labels: Labels | None,
        *,
        spared: frozenset[ChargeKey],
        preempted_for: ChargeKey | None,
        limits: Caps,
        outranked: tuple[WorkloadKey, ...],
    ) -> Head:
        """Return the head as a cycle takes it.

        Args:
            cluster_queue: the ClusterQueue in which it waits.
            selector: of the namespaces that the ClusterQueue serves.
            labels: of its namespace; None where there is no such namespace.
            spared: workloads that it may not preempt again.
            preempted_for: the workload that it had to leave for and that still waits, if any.
            limits: caps that it comes under.
            outranked: see `Head`.
        """
        return Head(
            workload=self.workload,
            cluster_queue=cluster_queue,
            queue_us=self.queue_us,
            demands=self.demands,
            memory=self.memory,
            misconfigured=self.workload.invalid,
            namespace_exists=labels is not None,
            namespace_matches=selector is not None and labels is not None and selector(labels),
            spared=spared if self.replaces is None else spared | {self.replaces},
            preempted_for=preempted_for,
            replaces=self.replaces,
            caps=limits,
            outranked=outranked,
        )


@dataclass(slots=True)
class _Class:
    """Equal workloads: those that may be tried, first one first.

    Attributes:
        equivalence: what they have in common.
        members: all members by key, individually parked ones too.
        unparked: number of members that are not individually parked, per LocalQueue.
        is_parked: none of its members is tried until a retry.
        result: what was last said of a member that did not fit; it holds for all of them.
        untold: members that were never told a result.
        entry: the one by which it competes with other classes; older ones in their heap are stale.
    """

    equivalence: Hashable
    members: dict[WorkloadKey, Pending] = field(default_factory=dict)
    unparked: Counter[LocalQueueKey] = field(default_factory=Counter)
    is_parked: bool = False
    result: Wait | None = None
    untold: dict[WorkloadKey, None] = field(default_factory=dict)
    entry: "_HeapEntry[_Class] | None" = None
    _heap: list[_HeapEntry[WorkloadKey]] = field(default_factory=list)

    def enter(self, item: Pending) -> None:
        """Lets a member be tried; entries of those that left go when they are too many."""
        if len(self._heap) > 2 * len(self.members) + _SLACK:
            rest = [
                member
                for member in self.members.values()
                if not member.parked and member is not item
            ]
            self._heap = [_HeapEntry(member.order, member.key) for member in rest]
            heapq.heapify(self._heap)
        heapq.heappush(self._heap, _HeapEntry(item.order, item.key))

    def first(self) -> Pending | None:
        """The first member that may be tried."""
        while self._heap:
            entry = self._heap[0]
            member = self.members.get(entry.what)
            if member is not None and not member.parked and member.order == entry.order:
                return member
            heapq.heappop(self._heap)
        return None


Ranking = Callable[[LocalQueueKey], Rank]
"""Rank of a LocalQueue by its past usage; the lowest goes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSnapshot:
    """All pending workloads of a ClusterQueue at one moment, including inadmissible ones.

    Another thread may sort them: the order and the workload of a `Pending` never change.

    Attributes:
        members: in no order.
        first: who goes before all others of the same rank; None when nobody does.
        ranks: rank of each LocalQueue that has members; None when they are all equal.
    """

    members: tuple[Pending, ...]
    first: WorkloadKey | None = None
    ranks: Mapping[LocalQueueKey, Rank] | None = None

    def sort_key(self) -> Callable[[Pending], Any]:
        """Return the key that sorts members in the order in which they are tried."""
        return _ORDER if self.ranks is None and self.first is None else self._place

    def _place(self, item: Pending) -> tuple[Rank, bool, OrderKey]:
        rank = _SAME if self.ranks is None else self.ranks[item.workload.queue]
        return rank, item.key != self.first, item.order


class PendingQueue:
    """Waiting workloads of one ClusterQueue.

    Attributes:
        ranking: orders LocalQueues before everything else; None when they are all equal. With
            a ranking, members of one class belong to one LocalQueue.
        by_local: number of waiting workloads per LocalQueue.
        parked_by_local: those of them that are not tried until something changes.
        requested: what all of them ask for, by resource.
    """

    def __init__(
        self,
        strategy: QueueingStrategy,
        ranking: Ranking | None = None,
        when_parked: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare an empty queue.

        Args:
            strategy: who may be tried while others wait.
            ranking: see above.
            when_parked: is called where `take_parked` may have something to yield.
        """
        self.strategy = strategy
        self.ranking = ranking
        self.by_local: Counter[LocalQueueKey] = Counter()
        self.parked_by_local: Counter[LocalQueueKey] = Counter()
        self._when_parked = when_parked
        self._parked_before: dict[LocalQueueKey, int] = {}
        """What `parked_by_local` had when it was taken last, where that was touched since."""
        self.requested: Counter[ResourceName] = Counter()
        self._items: dict[WorkloadKey, Pending] = {}
        self._orders: dict[LocalQueueKey | None, list[OrderKey]] = {}
        """Sorted; by LocalQueue where there is a ranking, else of all under None."""
        self._hopeless: dict[LocalQueueKey | None, list[OrderKey]] = {}
        """Those of them that never start."""
        self._classes: dict[Hashable, _Class] = {}
        self._heap: list[_HeapEntry[_Class]] = []
        self._sticky: WorkloadKey | None = None
        self._parked_classes: dict[Hashable, None] = {}
        self._parked_items: dict[WorkloadKey, None] = {}
        self._by_age: list[tuple[int, WorkloadKey]] = []

    def __len__(self) -> int:
        return len(self._items)

    @property
    def parked_count(self) -> int:
        """Return how many of them are not tried until something changes."""
        return self.parked_by_local.total()

    def take_parked(self) -> Iterator[LocalQueueKey]:
        """Yield the LocalQueues of which more, or fewer, are parked than at the last call."""
        parked_before, self._parked_before = self._parked_before, {}
        for local, count in parked_before.items():
            if self.parked_by_local[local] != count:
                yield local

    @property
    def oldest_us(self) -> int | None:
        """Return since when the one waits that has waited longest; None where nobody waits."""
        while self._by_age:
            since, key = self._by_age[0]
            item = self._items.get(key)
            if item is not None and item.queue_us == since:
                return since
            heapq.heappop(self._by_age)
        return None

    def count_classes(self) -> tuple[int, int]:
        """Return how many groups of equal workloads have one to be tried, and how many do not."""
        active = sum(
            not group.is_parked and group.first() is not None for group in self._classes.values()
        )
        return active, sum(bool(group.members) for group in self._classes.values()) - active

    def get(self, key: WorkloadKey) -> Pending | None:
        """Return the waiting workload of that identity."""
        return self._items.get(key)

    def items(self) -> Iterator[Pending]:
        """Yield all waiting workloads, in no order."""
        return iter(self._items.values())

    def add(self, item: Pending, now_us: int) -> None:
        """Queue a workload that is new or changed; parked while its backoff or class is."""
        ready = item.ready_at_us()
        item.parked = ready is None or ready > now_us
        self._insert(item)

    def remove(self, key: WorkloadKey, *, left: bool = True) -> Pending | None:
        """Remove a workload; ``left`` for good, so that it is no longer the preemptor."""
        item = self._items.pop(key, None)
        if item is None:
            return None
        self.by_local[item.workload.queue] -= 1
        orders = self._orders[self._part_of(item)]
        del orders[bisect_left(orders, item.order)]
        self._unlist_hopeless(item)
        for demand in item.demands:
            self.requested.subtract(demand.requests)
        self._parked_items.pop(key, None)
        group = self._classes[item.equivalence]
        self._count(group, item, -1)
        del group.members[key]
        group.untold.pop(key, None)
        if not group.members and not group.is_parked:
            del self._classes[item.equivalence]
        if left and self._sticky == key:
            self._sticky = None
        return item

    def set_hopeless(self, key: WorkloadKey, *, is_hopeless: bool) -> bool:
        """Take whether a workload never starts as it is; return whether others have other places.

        In a strict queue it is before others all the same: they wait for it.
        """
        item = self._items.get(key)
        is_passed = is_hopeless and self.strategy == QueueingStrategy.BEST_EFFORT_FIFO
        if item is None or item.hopeless == is_passed:
            return False
        self._unlist_hopeless(item)
        item.hopeless = is_passed
        self._list_hopeless(item)
        may_start = len(self._items) - sum(map(len, self._hopeless.values()))
        return may_start > (0 if is_passed else 1)

    def _list_hopeless(self, item: Pending) -> None:
        if item.hopeless:
            insort(self._hopeless.setdefault(self._part_of(item), []), item.order)

    def _unlist_hopeless(self, item: Pending) -> None:
        if item.hopeless:
            orders = self._hopeless[self._part_of(item)]
            del orders[bisect_left(orders, item.order)]

    def head(self) -> Pending | None:
        """Return the workload to be tried next."""
        if self.ranking is not None:
            return self._ranked_head()
        if (preemptor := self._preemptor()) is not None:
            return preemptor
        while self._heap:
            entry = self._heap[0]
            group = entry.what
            first = None if group.is_parked or group.entry is not entry else group.first()
            if first is not None and first.order == entry.order:
                return first
            heapq.heappop(self._heap)
            if group.entry is entry:
                group.entry = None
            if first is not None:
                self._push(first, group)
        return None

    def _ranked_head(self) -> Pending | None:
        firsts = [group.first() for group in self._classes.values() if not group.is_parked]
        heads_found = [first for first in (*firsts, self._preemptor()) if first is not None]
        return min(heads_found, key=self._shown_order, default=None)

    def _preemptor(self) -> Pending | None:
        """The workload that waits for its victims to leave, if it competes."""
        item = self._items.get(self._sticky) if self._sticky is not None else None
        return item if item is not None and self._is_active(item) else None

    def settle(
        self,
        item: Pending,
        requeue: Requeue,
        result: Wait,
        now_us: int,
        *,
        for_equals: bool = True,
    ) -> tuple[WorkloadKey, ...]:
        """Put a workload that was tried in vain where it belongs.

        Args:
            item: the workload, still queued, with its new scan memory.
            requeue: why it got nothing.
            result: what is said of it, remembered for its class.
            now_us: current time, to judge its backoff.
            for_equals: whether the result holds for equal workloads, too.

        Returns:
            Equal workloads for which the result is news: all of them where the reason is another
            than before, else those that were never told one.
        """
        best_effort = self.strategy == QueueingStrategy.BEST_EFFORT_FIFO
        if best_effort and requeue == Requeue.PENDING_PREEMPTION:
            self._sticky = item.key
        ready = item.ready_at_us()
        if ready is not None and ready <= now_us and self._stays(item, requeue):
            return ()
        self._park(item)
        is_of_class = requeue == Requeue.CAPPED or (best_effort and requeue in _OF_CLASS)
        if not is_of_class or not for_equals:
            return ()
        group = self._classes[item.equivalence]
        if item.equivalence not in self._parked_classes:
            self._parked_classes[item.equivalence] = None
            self._count_parked(group.unparked, 1)
        return self._tell(group, item, result)

    def _tell(self, group: _Class, item: Pending, result: Wait) -> tuple[WorkloadKey, ...]:
        """Parks a class with a result; the members besides ``item`` for which it is news."""
        is_same = group.result is not None and group.result.reason == result.reason
        concerned = group.untold if is_same else group.members
        group.is_parked, group.result = True, result
        told_members = tuple(
            key for key in concerned if key != item.key and not self._items[key].parked
        )
        for key in (item.key, *told_members):
            self._items[key].told = True
            group.untold.pop(key, None)
        return told_members

    def _stays(self, item: Pending, requeue: Requeue) -> bool:
        """Return whether it may be tried again without an event."""
        if requeue in _APART:
            return False
        if self.strategy == QueueingStrategy.STRICT_FIFO or requeue in _IMMEDIATE:
            return True
        return item.memory is not None and item.memory.unfinished

    def retry(self, now_us: int) -> bool:
        """Free every parked workload whose backoff is over; return whether there was any."""
        freed = dict.fromkeys(self._parked_classes)
        self._parked_classes.clear()
        for equivalence in freed:
            self._classes[equivalence].is_parked = False
            self._count_parked(self._classes[equivalence].unparked, -1)
        for key in list(self._parked_items):
            item = self._items[key]
            ready = item.ready_at_us()
            if ready is not None and ready <= now_us:
                self._unpark(item)
                freed[item.equivalence] = None
        for equivalence in freed:
            self._enter(equivalence)
        return bool(freed)

    def _count(self, group: _Class, item: Pending, sign: int) -> None:
        """Count a member of a class as it is now (1), or no longer so (-1)."""
        if not item.parked:
            group.unparked[item.workload.queue] += sign
        if item.parked or item.equivalence in self._parked_classes:
            self._count_parked({item.workload.queue: 1}, sign)

    def _count_parked(self, counts: Mapping[LocalQueueKey, int], sign: int) -> None:
        self._when_parked()
        for local, count in counts.items():
            self._parked_before.setdefault(local, self.parked_by_local[local])
            self.parked_by_local[local] += sign * count

    def _set_parked(self, item: Pending, *, is_parked: bool) -> None:
        group = self._classes[item.equivalence]
        self._count(group, item, -1)
        item.parked = is_parked
        self._count(group, item, 1)

    def _park(self, item: Pending) -> None:
        self._set_parked(item, is_parked=True)
        self._parked_items[item.key] = None
        self._classes[item.equivalence].first()  # its entry goes now, not after it was freed

    def _unpark(self, item: Pending) -> None:
        self._set_parked(item, is_parked=False)
        del self._parked_items[item.key]
        self._classes[item.equivalence].enter(item)

    def _enter(self, equivalence: Hashable) -> None:
        """Lets a class compete, if it has somebody to send."""
        group = self._classes[equivalence]
        if not group.members:
            del self._classes[equivalence]
        elif not group.is_parked and (first := group.first()) is not None:
            self._compete(first, group)

    def _compete(self, item: Pending, group: _Class) -> None:
        """Enters a class by one of its members; stale entries go when they are too many."""
        if group.entry is not None and group.entry.order <= item.order:
            return
        if len(self._heap) > 2 * len(self._items) + _SLACK:
            self._heap = [entry for entry in self._heap if entry.what.entry is entry]
            heapq.heapify(self._heap)
        self._push(item, group)

    def _push(self, item: Pending, group: _Class) -> None:
        group.entry = _HeapEntry(item.order, group)
        heapq.heappush(self._heap, group.entry)

    def wake(self, key: WorkloadKey, now_us: int) -> None:
        """Free one workload whose backoff is over."""
        item = self._items.get(key)
        ready = item.ready_at_us() if item is not None else None
        if item is not None and item.parked and ready is not None and ready <= now_us:
            self._unpark(item)
            self._enter(item.equivalence)

    def active(self) -> list[Pending]:
        """Return the workloads that may be tried, in order."""
        active_items = [item for item in self._items.values() if self._is_active(item)]
        return sorted(active_items, key=self._shown_order)

    def parked(self) -> list[Pending]:
        """Return the workloads that wait for an event, in order."""
        parked_items = [item for item in self._items.values() if not self._is_active(item)]
        return sorted(parked_items, key=self._shown_order)

    def place(self, key: WorkloadKey) -> int | None:
        """Return the place of a workload among those that may start, from 1; None if it waits not.

        It is the place that it has in `line` without the hopeless, and costs as little for many as
        for few.
        """
        item = self._items.get(key)
        if item is None:
            return None
        first = None if self._sticky is None else self._items.get(self._sticky)
        rank = self._rank(item)
        if first is not None and self._rank(first) != rank:
            first = None
        order = item.order
        place = 1
        for local, orders in self._orders.items():
            other = rank if local is None or self.ranking is None else self.ranking(local)
            hopeless = self._hopeless.get(local, ())
            if other < rank:
                place += len(orders) - len(hopeless)
            elif other == rank and item is not first:
                place += bisect_left(orders, order) - bisect_left(hopeless, order)
        if first is not None and order < first.order and not first.hopeless:
            place += 1
        return place

    def _part_of(self, item: Pending) -> LocalQueueKey | None:
        return None if self.ranking is None else item.workload.queue

    def _rank(self, item: Pending) -> Rank:
        return _SAME if self.ranking is None else self.ranking(item.workload.queue)

    def line(self) -> PendingSnapshot:
        """Return all waiting workloads as they are now."""
        ranking = self.ranking
        return PendingSnapshot(
            members=tuple(self._items.values()),
            first=self._sticky,
            ranks=None if ranking is None else {key: ranking(key) for key in +self.by_local},
        )

    def bypassed(self, key: WorkloadKey) -> Wait | None:
        """Return the result of the class that parks a workload; None if that is not the cause."""
        item = self._items[key]
        group = self._classes[item.equivalence]
        if item.parked or not group.is_parked or group.result is None:
            return None
        return replace(group.result, workload=key)

    def note_result(self, result: Wait) -> None:
        """Take what is said of the class of a parked workload from now on: other numbers."""
        self._classes[self._items[result.workload].equivalence].result = result

    def _is_active(self, item: Pending) -> bool:
        return not item.parked and not self._classes[item.equivalence].is_parked

    def _shown_order(self, item: Pending) -> tuple[Rank, bool, OrderKey]:
        return self._rank(item), item.key != self._sticky, item.order

    def _insert(self, item: Pending) -> None:
        key = item.key
        self._items[key] = item
        if len(self._by_age) > 2 * len(self._items) + _SLACK:
            self._by_age = [(item.queue_us, name) for name, item in self._items.items()]
            heapq.heapify(self._by_age)
        else:
            heapq.heappush(self._by_age, (item.queue_us, key))
        self.by_local[item.workload.queue] += 1
        insort(self._orders.setdefault(self._part_of(item), []), item.order)
        item.hopeless &= self.strategy == QueueingStrategy.BEST_EFFORT_FIFO
        self._list_hopeless(item)
        for demand in item.demands:
            self.requested.update(demand.requests)
        group = self._classes.get(item.equivalence)
        if group is None:
            group = self._classes[item.equivalence] = _Class(item.equivalence)
        group.members[key] = item
        self._count(group, item, 1)
        if item.parked:
            self._parked_items[key] = None
        else:
            group.enter(item)
            if not group.is_parked:
                self._compete(item, group)
        if not item.told:
            group.untold[key] = None


# ------------------------------------------------------------------ all pending queues


class PendingQueues:
    """Pending queues by ClusterQueue.

    Attributes:
        queues: one per ClusterQueue that exists.
    """

    def __init__(self, forest: CohortHierarchy, changes: Changes) -> None:
        self.queues: dict[ClusterQueueName, PendingQueue] = {}
        self._forest = forest
        self._changes = changes
        self._where: dict[ChargeKey, ClusterQueueName] = {}
        self._busy: dict[ClusterQueueName, None] = {}
        self._moved: dict[ClusterQueueName, None] = {}
        self._parked_in: dict[ClusterQueueName, None] = {}
        self._backoffs: list[tuple[int, WorkloadKey]] = []

    def open(self, spec: ClusterQueue, ranking: Ranking | None, now_us: int) -> None:
        """Create the pending queue of a ClusterQueue, or adapt it to a changed one."""
        old = self.queues.get(spec.name)
        if old is not None and (old.strategy, old.ranking) == (spec.queueing_strategy, ranking):
            return
        new = self.queues[spec.name] = PendingQueue(
            spec.queueing_strategy, ranking, partial(self._parked_in.__setitem__, spec.name, None)
        )
        for item in list(old.items()) if old is not None else ():
            new.add(item, now_us)
            self._changes.local(item.workload.queue)

    def close(self, name: ClusterQueueName) -> None:
        """Drop the pending queue of a ClusterQueue with its workloads."""
        for item in self.queues.pop(name).items():
            del self._where[item.key]
        self._busy.pop(name, None)
        self._moved.pop(name, None)

    def get(self, key: WorkloadKey) -> Pending | None:
        """Return the waiting workload of that identity."""
        name = self._where.get(key)
        return None if name is None else self.queues[name].get(key)

    def pending_of(self, name: ClusterQueueName, local: LocalQueueKey) -> int:
        """Return how many workloads of a LocalQueue wait in a ClusterQueue."""
        queue = self.queues.get(name)
        return 0 if queue is None else queue.by_local[local]

    def parked_of(self, name: ClusterQueueName, local: LocalQueueKey) -> int:
        """Return how many of them are not tried until something changes."""
        queue = self.queues.get(name)
        return 0 if queue is None else queue.parked_by_local[local]

    def note_parked(self) -> None:
        """Note of which LocalQueues, and ClusterQueues, more or fewer are parked than before."""
        for name in self._parked_in:
            if (queue := self.queues.get(name)) is not None:
                for local in queue.take_parked():
                    self._changes.local(local)
                    self._changes.queue(name)
        self._parked_in.clear()

    def bypassed(self, key: WorkloadKey) -> Wait | None:
        """Return why a workload is parked because an equal one did not fit; None if it is not."""
        name = self._where.get(key)
        return None if name is None else self.queues[name].bypassed(key)

    def note_result(self, result: Wait) -> None:
        """Take what is said of a parked workload, and of those equal to it, from now on."""
        self.queues[self._where[result.workload]].note_result(result)

    def place(self, key: WorkloadKey) -> tuple[ClusterQueueName, int] | None:
        """Return where a workload waits, and its place there; None if it does not."""
        name = self._where.get(key)
        place = None if name is None else self.queues[name].place(key)
        return None if name is None or place is None else (name, place)

    def set_hopeless(self, key: WorkloadKey, *, is_hopeless: bool) -> None:
        """Take whether a workload never starts as it is: the places of others change with it."""
        name = self._where.get(key)
        if name is not None and self.queues[name].set_hopeless(key, is_hopeless=is_hopeless):
            self._moved[name] = None

    def take_moved(self) -> tuple[ClusterQueueName, ...]:
        """Return the queues that somebody has entered or left since the last call."""
        moved = tuple(self._moved)
        self._moved.clear()
        return moved

    def put(self, item: Pending, name: ClusterQueueName, now_us: int) -> None:
        """Queue a workload, instead of an earlier form of it."""
        key = item.key
        if self._where.get(key) != name:
            self.take(key)
        queue = self.queues[name]
        old = queue.remove(key, left=False)
        if old is not None and (
            old.equivalence == item.equivalence or old.workload == item.workload
        ):
            item.memory, item.told, item.hopeless = old.memory, old.told, old.hopeless
            item.set_aside_until_us = old.set_aside_until_us
        queue.add(item, now_us)
        self._where[key] = name
        self._busy[name] = None
        if old is None or old.order != item.order:
            self._moved[name] = None
        self._changes.queue(name)
        ready = item.ready_at_us()
        if ready is not None and ready > now_us:
            heapq.heappush(self._backoffs, (ready, key))

    def take(self, key: ChargeKey) -> None:
        """Remove a workload from its queue, if it is in one."""
        name = self._where.pop(key, None)
        if name is not None and isinstance(key, WorkloadKey):
            self.queues[name].remove(key)
            self._moved[name] = None
            self._changes.queue(name)

    def set_aside(self, item: Pending, until_us: int) -> None:
        """Have a workload not tried before a moment, whatever happens to its queue until then."""
        item.set_aside_until_us = until_us
        heapq.heappush(self._backoffs, (until_us, item.key))

    def mark_active(self, name: ClusterQueueName) -> None:
        """Note that a queue may have a head again."""
        if name in self.queues:
            self._busy[name] = None

    def retry(self, name: ClusterQueueName, now_us: int) -> None:
        """Free the parked workloads of a queue."""
        if name in self.queues and self.queues[name].retry(now_us):
            self._busy[name] = None

    def end_backoffs(self, now_us: int) -> None:
        """Free workloads whose backoff is over."""
        while self._backoffs and self._backoffs[0][0] <= now_us:
            _, key = heapq.heappop(self._backoffs)
            if (name := self._where.get(key)) is not None:
                self.queues[name].wake(key, now_us)
                self._busy[name] = None

    def next_backoff_us(self) -> int | None:
        """Return when the next backoff ends."""
        return self._backoffs[0][0] if self._backoffs else None

    def any_head(self) -> bool:
        """Return whether some queue has a head."""
        return any(self._head(name) is not None for name in list(self._busy))

    def heads(self, limit: int | None) -> list[tuple[ClusterQueueName, Pending]]:
        """Return the heads to be decided now: of whole trees, and about as many as asked.

        Trees that were served go to the end of the line.
        """
        names = sorted(self._busy) if limit is None else self._of_trees(limit)
        return [(name, head) for name in names if (head := self._head(name)) is not None]

    def _of_trees(self, limit: int) -> list[ClusterQueueName]:
        trees: dict[int, list[ClusterQueueName]] = {}
        for name in self._busy:
            trees.setdefault(id(self._forest.queues[name].root()), []).append(name)
        chosen: list[ClusterQueueName] = []
        for names in trees.values():
            if chosen and len(chosen) + len(names) > limit:
                break
            chosen += sorted(names)
        for name in chosen:
            del self._busy[name]
            self._busy[name] = None
        return chosen

    def _head(self, name: ClusterQueueName) -> Pending | None:
        """The head of a queue; one without is not busy any more."""
        head = self.queues[name].head() if self._forest.queues[name].active else None
        if head is None:
            del self._busy[name]
        return head
