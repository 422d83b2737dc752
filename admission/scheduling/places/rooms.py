"""How many pods of one shape each node takes, kept up to date node by node."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from admission.base.causes import NodeFree
from admission.base.selectors import Labels
from admission.scheduling.places import predicate
from admission.scheduling.places.model import HOSTNAME, Amounts, Node, PodShape

_MOST_TAINTS: Final = 3
"""So many taints are named."""


class Rooms:
    """The nodes that take pods of one shape, and how many each of them takes now.

    The ledger tells it of nodes that have changed; all answers are about the present.

    Attributes:
        shape: of the pods.
        seen: position in the ledger's list of changes up to which it is told.
        room: how many pods each node takes now, without those that take none.
        refused: how many nodes can never take one, by reason; those with other labels than the
            flavors' are not counted.
        total: the sum of ``room``.
        free: of the resource that counts, over the nodes that can take such a pod once empty.
    """

    def __init__(self, shape: PodShape, resource: str) -> None:
        """Knows no node yet.

        Args:
            shape: of the pods.
            resource: the one of which people are told how much is free.
        """
        self.shape = shape
        self.resource = resource
        self.seen = -1
        self.room: dict[str, int] = {}
        self.refused: dict[predicate.NodeRefusal, int] = {}
        self.total = 0
        self.free = 0
        self._is_apart = HOSTNAME in shape.needs.apart
        self._judged: dict[str, tuple[Node, predicate.NodeRefusal | None]] = {}
        self._declared: Mapping[str, int] = {}
        self._free: dict[str, int] = {}
        self._room_once_empty: dict[str, int] = {}
        self._total_once_empty = 0
        self._sick: set[str] = set()
        """Nodes that take such pods and have devices that are sick."""
        self._holes: list[tuple[int, str]] = []
        self._by_room: dict[int, list[str]] = {}
        self._lacking: tuple[str, int] | None = None
        self._taints: tuple[str, ...] | None = None

    @property
    def takers(self) -> int:
        """Return how many nodes can take such a pod once they are empty."""
        return len(self._free)

    def update(self, node: Node | None, name: str, free: Amounts, declared: Amounts) -> None:
        """Take a node as it is now; None for one that is gone.

        Args:
            node: the node.
            name: its name.
            free: what is free there.
            declared: resources that any node has.
        """
        before = self._judged.get(name)
        refused = before[1] if before is not None else None
        if before is None or before[0] is not node:
            self._lacking = self._taints = None
            if before is not None:
                self._count_refusal(refused, -1)
                del self._judged[name]
            if node is not None:
                refused = predicate.refusal(node, self.shape, declared)
                self._count_refusal(refused, 1)
                self._judged[name] = node, refused
            self._note_empty(name, node if refused is None else None)
        takes = node is not None and refused is None
        self._set_free(name, max(0, free.get(self.resource, 0)) if takes else None)
        self._set_room(name, self._copies(free) if takes else 0)

    def _copies(self, amounts: Amounts) -> int:
        room = predicate.copies(amounts, self.shape)
        return min(room, 1) if self._is_apart else room

    def _note_empty(self, name: str, node: Node | None) -> None:
        """Note what a node takes once it is empty; None where it can take no such pod."""
        self._total_once_empty -= self._room_once_empty.pop(name, 0)
        self._sick.discard(name)
        if node is not None:
            self._room_once_empty[name] = self._copies(node.amounts)
            self._total_once_empty += self._room_once_empty[name]
            if any(node.sick.values()):
                self._sick.add(name)

    def _count_refusal(self, refused: predicate.NodeRefusal | None, sign: int) -> None:
        if refused is not None and refused is not predicate.NodeRefusal.LABELS:
            self.refused[refused] = self.refused.get(refused, 0) + sign

    def _set_free(self, name: str, free: int | None) -> None:
        before = self._free.pop(name, None)
        self.free += (free or 0) - (before or 0)
        if free is None:
            return
        self._free[name] = free
        if free != before:
            heapq.heappush(self._holes, (-free, name))

    def _set_room(self, name: str, room: int) -> None:
        before = self.room.pop(name, 0)
        self.total += room - before
        if not room:
            return
        self.room[name] = room
        if room != before:
            heapq.heappush(self._by_room.setdefault(room, []), name)

    def lacking(self) -> tuple[str, int] | None:
        """Return the resource of which no node has enough for a pod, and the most that one has.

        The resource that counts comes first. Of each next one only the nodes count that have
        enough of those before it: where one node lacks memory and another one devices, it is the
        memory of the nodes with enough devices. None where not all nodes are too small.
        """
        if self._free or {why for why, n in self.refused.items() if n} != {
            predicate.NodeRefusal.SIZE
        }:
            return None
        if self._lacking is None:
            nodes = [
                node
                for node, refused in self._judged.values()
                if refused is predicate.NodeRefusal.SIZE
            ]
            in_order = sorted(self.shape.needs.requests, key=lambda ask: ask[0] != self.resource)
            for resource, asks in in_order:
                has_enough = [node for node in nodes if node.amounts.get(resource, 0) >= asks]
                if not has_enough:
                    has = max(node.amounts.get(resource, 0) for node in nodes)
                    self._lacking = resource, has
                    break
                nodes = has_enough
        return self._lacking

    def taints(self) -> tuple[str, ...]:
        """Return the taints that keep such pods from nodes, the first few by their text."""
        if not self.refused.get(predicate.NodeRefusal.TAINT):
            return ()
        if self._taints is None:
            taints = (
                predicate.repelling(node.taints, self.shape.tolerations)
                for node, refused in self._judged.values()
                if refused is predicate.NodeRefusal.TAINT
            )
            texts = {
                f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
                for taint in taints
                if taint is not None
            }
            self._taints = tuple(sorted(texts)[:_MOST_TAINTS])
        return self._taints

    def hole(self) -> NodeFree | None:
        """Return the node with most of the resource free; None where no node takes such pods."""
        while self._holes:
            free, name = self._holes[0]
            if self._free.get(name) == -free:
                return NodeFree(name, -free)
            heapq.heappop(self._holes)
        return None

    def best(
        self, count: int, without: Callable[[str], bool], names: Sequence[str] | None = None
    ) -> str | None:
        """Return the node that is left most full by so many pods; None where no node takes any.

        It is the one with the least room that takes all of them, else the one with the most.

        Args:
            count: how many pods still need a node.
            without: whether a node is not to be taken.
            names: of the nodes that may be taken; None for all.
        """
        if names is not None:
            takers = [(self.room[name], name) for name in names if name in self.room]
            takers = [(room, name) for room, name in takers if not without(name)]
            smallest = min((taker for taker in takers if taker[0] >= count), default=None)
            largest = min(((-room, name) for room, name in takers), default=None)
            chosen = smallest or largest
            return None if chosen is None else chosen[1]
        rooms = sorted(self._by_room)
        enough = [room for room in rooms if room >= count]
        for room in (*enough, *reversed(rooms[: len(rooms) - len(enough)])):
            for name in self._with_room(room):
                if not without(name):
                    return name
        return None

    def _with_room(self, room: int) -> Iterator[str]:
        """The nodes with just that room, by name."""
        heap = self._by_room[room]
        passed: list[str] = []
        try:
            while heap:
                name = heap[0]
                if self.room.get(name) != room or (passed and passed[-1] == name):
                    heapq.heappop(heap)
                    continue
                yield name
                passed.append(heapq.heappop(heap))
        finally:
            for name in passed:
                heapq.heappush(heap, name)
            if not heap:
                self._by_room.pop(room, None)

    def fitting(self, count: int, labels: Callable[[str], Labels]) -> int:
        """Return how many of so many pods nodes take at once, if nothing else came.

        Args:
            count: how many there are.
            labels: returns the labels of a node.
        """
        return min(count, self._fitting(self.room, self.total, labels))

    def at_most(self, count: int, labels: Callable[[str], Labels]) -> int | None:
        """Return how many of so many pods nodes take once they are empty, where not all fit then.

        None where they do, where no node takes one, and where nodes may take more later, as they
        are: devices are sick, or something else than its size keeps pods away from a node.

        Args:
            count: how many there are.
            labels: returns the labels of a node.
        """
        refusals = {why for why, n in self.refused.items() if n}
        if not self._room_once_empty or self._sick or refusals - {predicate.NodeRefusal.SIZE}:
            return None
        fitting = self._fitting(self._room_once_empty, self._total_once_empty, labels)
        return fitting if fitting < count else None

    def _fitting(
        self, room: Mapping[str, int], total: int, labels: Callable[[str], Labels]
    ) -> int:
        """Return how many pods are on nodes at once that take so many each."""
        fitting = total
        if self.shape.needs.together:
            fitting = max(self._by_domain(room, room, labels).values(), default=0)
        for key in self.shape.needs.apart:
            if key != HOSTNAME:
                fitting = min(fitting, self._apart(room, key, labels))
        for constraint in self.shape.needs.spread:
            spread = self._spread(room, constraint.key, constraint.max_skew, labels)
            fitting = min(fitting, spread)
        return fitting

    def by_domain(
        self, labels: Callable[[str], Labels], names: Iterable[str] | None = None
    ) -> dict[tuple[str, ...], int]:
        """Return how many pods nodes take, by what these must have in common for all pods.

        Args:
            labels: returns the labels of a node.
            names: of the nodes that count; None for all.
        """
        return self._by_domain(self.room, self.room if names is None else names, labels)

    def _by_domain(
        self, room: Mapping[str, int], names: Iterable[str], labels: Callable[[str], Labels]
    ) -> dict[tuple[str, ...], int]:
        rooms: dict[tuple[str, ...], int] = {}
        for name in names:
            if not room.get(name, 0):
                continue
            domain = predicate.together(name, labels(name), self.shape)
            rooms[domain] = rooms.get(domain, 0) + room[name]
        return rooms

    @staticmethod
    def _apart(room: Mapping[str, int], key: str, labels: Callable[[str], Labels]) -> int:
        """One pod in each domain; nodes without the label are no domain and take what they can."""
        domains = set()
        alone = 0
        for name, count in room.items():
            domain = labels(name).get(key)
            if domain is None:
                alone += count
            elif count:
                domains.add(domain)
        return alone + len(domains)

    def _spread(
        self,
        room: Mapping[str, int],
        key: str,
        max_skew: int,
        labels: Callable[[str], Labels],
    ) -> int:
        rooms: dict[str, int] = {}
        for name in self._free:
            domain = name if key == HOSTNAME else labels(name)[key]
            rooms[domain] = rooms.get(domain, 0) + room.get(name, 0)
        fewest = min(rooms.values(), default=0)
        return sum(min(count, fewest + max_skew) for count in rooms.values())

    def emptiest(self, limit: int) -> list[str]:
        """Return the nodes with most free that can take such a pod once they are empty."""
        return heapq.nsmallest(limit, self._free, key=lambda name: (-self._free[name], name))

    def taker_names(self) -> Iterable[str]:
        """Return the nodes that can take such a pod once they are empty."""
        return self._free

    def known(self) -> frozenset[str]:
        """Return the nodes that it was told of."""
        return frozenset(self._judged)
