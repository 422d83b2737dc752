"""The snapshot of one cycle: the live quota trees with an undo log.

Nothing is copied. What-if questions remove workloads and put them back; entries that were
processed earlier in the cycle stay added until ``rollback``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from admission.base.causes import UnnamedHolders
from admission.base.names import (
    ChargeKey,
    ClusterQueueName,
    FlavorName,
    FlavorResource,
    LocalQueueKey,
)
from admission.scheduling import quota
from admission.scheduling.consumption import Rank
from admission.scheduling.heads import Head
from admission.scheduling.hierarchy import CohortHierarchy, QueueNode
from admission.scheduling.model import Config, LocalQueue, ResourceFlavor
from admission.scheduling.places.enforcement import PodPlaces
from admission.scheduling.places.model import Place, Want
from admission.scheduling.places.search import StepBudget
from admission.scheduling.reserving import ReservingWorkload

Holders = tuple[tuple[tuple[ClusterQueueName, int], ...], UnnamedHolders]
"""ClusterQueues with their usage of one flavor and resource."""


@dataclass(slots=True)
class Snapshot:
    """The state that a cycle decides on.

    Attributes:
        forest: the quota trees; usage is as found after ``rollback``.
        flavors: ResourceFlavors by name.
        cycle: number of the cycle; grows by one per cycle that had heads.
        now_us: time of the cycle.
        unready: number of workloads whose pods are not all ready.
        local_queues: LocalQueues by key.
        past_usage: rank of a LocalQueue by its past usage; None if past usage does not count.
        removed: workloads that are taken out for the moment, by key.
        holders: who uses what in a tree, by root and flavor and resource, as far as asked.
        borrowed: how much ClusterQueues use beyond their nominal quota, likewise.
        held_back: the part of usage that entries which wait have kept from those after them.
        places: nodes, and what is free there; it follows what is removed and added here.
    """

    forest: CohortHierarchy
    flavors: Mapping[FlavorName, ResourceFlavor]
    config: Config
    cycle: int
    now_us: int
    unready: int = 0
    local_queues: Mapping[LocalQueueKey, LocalQueue] = field(default_factory=dict)
    past_usage: Callable[[LocalQueueKey], Rank] | None = None
    removed: dict[ChargeKey, ReservingWorkload] = field(default_factory=dict)
    holders: dict[tuple[int, FlavorResource], Holders] = field(default_factory=dict)
    borrowed: dict[tuple[int, FlavorResource], int] = field(default_factory=dict)
    held_back: dict[tuple[ClusterQueueName, FlavorResource], int] = field(default_factory=dict)
    places: PodPlaces = field(default_factory=PodPlaces)
    _budgets: dict[ChargeKey, StepBudget] = field(default_factory=dict)
    _placed: list[tuple[tuple[Want, ...], tuple[Place, ...]]] = field(default_factory=list)
    _placed_on: dict[str, dict[int, None]] = field(default_factory=dict)
    """Indexes of `_placed` by node."""
    _added: list[tuple[QueueNode, Mapping[FlavorResource, int]]] = field(default_factory=list)
    _held: list[tuple[ClusterQueueName, Mapping[FlavorResource, int]]] = field(
        default_factory=list
    )

    def queue(self, name: ClusterQueueName) -> QueueNode:
        """Return the ClusterQueue of that name."""
        return self.forest.queues[name]

    def remove(self, workload: ReservingWorkload) -> None:
        """Take a workload out until ``restore``."""
        self.removed[workload.key] = workload
        if self.places:
            self.places.ledger.lift(workload.key)
        quota.remove_all(self.queue(workload.cluster_queue), workload.usage)

    def restore(self, workload: ReservingWorkload) -> None:
        """Put a removed workload back."""
        self.removed.pop(workload.key, None)
        if self.places:
            self.places.ledger.put_back(workload.key)
        quota.add_all(self.queue(workload.cluster_queue), workload.usage)

    @contextmanager
    def without(self, workloads: Iterable[ReservingWorkload]) -> Iterator[None]:
        """Leave some workloads out of the snapshot, for the length of a with statement."""
        gone = [workload for workload in workloads if workload.key not in self.removed]
        for workload in gone:
            self.remove(workload)
        try:
            yield
        finally:
            for workload in gone:
                self.restore(workload)

    def add(self, queue: QueueNode, usage: Mapping[FlavorResource, int]) -> None:
        """Count the usage of an entry for the rest of the cycle."""
        quota.add_all(queue, usage)
        self._added.append((queue, usage))

    def hold_back(self, queue: QueueNode, usage: Mapping[FlavorResource, int]) -> None:
        """Count what an entry that waits keeps for itself for the rest of the cycle."""
        self.add(queue, usage)
        self._held.append((queue.name, usage))
        self._hold(queue.name, usage, 1)

    def _hold(
        self, name: ClusterQueueName, usage: Mapping[FlavorResource, int], sign: int
    ) -> None:
        for fr, value in usage.items():
            self.held_back[name, fr] = self.held_back.get((name, fr), 0) + sign * value

    def place(self, wants: tuple[Want, ...], places: tuple[Place, ...]) -> None:
        """Count pods of an entry at places for the rest of the cycle."""
        self.places.ledger.take(wants, places)
        for place in places:
            self._placed_on.setdefault(place.node, {})[len(self._placed)] = None
        self._placed.append((wants, places))

    def are_contended(self, wants: tuple[Want, ...], places: tuple[Place, ...]) -> bool:
        """Return whether pods of others may take the places of an entry, or lose theirs to it.

        So it is where both may come to the same node, and it has no room for all of them.
        """
        if not places:
            return False
        beside = {index for place in places for index in self._placed_on.get(place.node, ())}
        entries = [self._placed[index] for index in sorted(beside)]
        return self.places.are_contended(wants, places, self.now_us, entries)

    @contextmanager
    def deciding(self, head: Head, *, takes_kept: bool) -> Iterator[None]:
        """Decide about an entry within a with statement.

        The places that it has without quota are left out: those that are kept for it, and those
        of its pods that are charged on their own. All questions whether nodes have room for it
        share the steps that it has in this cycle.

        Args:
            head: the entry.
            takes_kept: whether those are left out, too, that are kept for whom it outranks.
        """
        key, ledger = head.key, self.places.ledger
        has_places = ledger.is_promised(key) or ledger.is_kept(key)
        if key not in self._budgets:
            self._budgets[key] = StepBudget()
        if has_places:
            ledger.lift(key)
        try:
            outranked = head.outranked if takes_kept else ()
            with ledger.without_kept(outranked), self.places.sharing(self._budgets[key]):
                yield
        finally:
            if has_places:
                ledger.put_back(key)

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Undo what is done within a with statement if that ends with an error.

        Workloads that were taken out meanwhile are put back, and nothing that was counted counts.
        """
        marks, unready = (len(self._placed), len(self._added), len(self._held)), self.unready
        out_before = frozenset(self.removed)
        try:
            yield
        except BaseException:
            for key, workload in tuple(self.removed.items()):
                if key not in out_before:
                    self.restore(workload)
            self._take_back(*marks)
            self.unready = unready
            raise

    def rollback(self) -> None:
        """Take back everything that ``add``, ``hold_back`` and ``place`` counted."""
        self._take_back(0, 0, 0)
        self.held_back.clear()

    def _take_back(self, placed: int, added: int, held_back: int) -> None:
        """Take back all that was counted but so many of each, which were the first."""
        while len(self._placed) > placed:
            wants, places = self._placed.pop()
            for place in places:
                self._placed_on[place.node].pop(len(self._placed), None)
            self.places.ledger.take(wants, places, -1)
        while len(self._added) > added:
            quota.remove_all(*self._added.pop())
        while len(self._held) > held_back:
            self._hold(*self._held.pop(), -1)
