"""Workloads that were promised more than nodes have, by what their pods are like.

Thousands of them may wait for an autoscaler. They are grouped by shape, so that a change of a node
costs a question for each shape and none for each workload.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator

from admission.base.names import ChargeKey
from admission.scheduling.places.model import PodShape


class Lacking:
    """Workloads with pods that have neither a node nor a promise, the oldest first."""

    def __init__(self) -> None:
        self._ages: dict[ChargeKey, tuple[int, tuple[PodShape, ...]]] = {}
        self._last_age = 0
        self._of_shape: dict[PodShape, dict[ChargeKey, None]] = {}
        self._doubtful: dict[PodShape, None] = {}
        """Shapes of which any node may take a pod."""
        self._counts: dict[ChargeKey, int] = {}
        self._added: dict[ChargeKey, None] = {}

    def __contains__(self, key: ChargeKey) -> bool:
        """Return whether pods of a workload lack a place."""
        return key in self._ages

    def __bool__(self) -> bool:
        """Return whether pods of any workload lack a place."""
        return bool(self._ages)

    @property
    def keys(self) -> tuple[ChargeKey, ...]:
        """Return the workloads, the oldest first."""
        return tuple(self._ages)

    def precedes(self, key: ChargeKey, later: ChargeKey) -> bool:
        """Return whether a workload has lacked a place for longer than another one."""
        return self._age(key) < self._age(later)

    def take_added(self) -> tuple[ChargeKey, ...]:
        """Return the workloads of which more pods lack a place than at the last call."""
        added, self._added = self._added, {}
        return tuple(key for key in added if key in self._ages)

    @property
    def shapes(self) -> tuple[PodShape, ...]:
        """Return the shapes of the pods that lack a place."""
        return tuple(self._of_shape)

    def add(self, key: ChargeKey, shapes: Iterable[PodShape], count: int) -> None:
        """Note that so many pods of a workload lack a place; it keeps its age."""
        listed = tuple(dict.fromkeys(shapes))
        age = self._ages.get(key)
        if age is not None and age[1] != listed:
            self.discard(key)
            age = None
        if age is None:
            self._last_age += 1
            self._ages[key] = self._last_age, listed
            for shape in listed:
                self._of_shape.setdefault(shape, {})[key] = None
        self._doubtful.update(dict.fromkeys(listed))
        if count > self._counts.get(key, 0):
            self._added[key] = None
        self._counts[key] = count

    def discard(self, key: ChargeKey) -> None:
        """Note that all pods of a workload have places, or need none."""
        _, shapes = self._ages.pop(key, (0, ()))
        self._added.pop(key, None)
        self._counts.pop(key, None)
        for shape in shapes:
            keys = self._of_shape[shape]
            del keys[key]
            if not keys:
                del self._of_shape[shape]
                self._doubtful.pop(shape, None)

    def doubt_all(self) -> None:
        """Have every shape looked at: nodes are judged otherwise."""
        self._doubtful.update(dict.fromkeys(self._of_shape))

    def pop_due(self, may_take: Callable[[PodShape], bool]) -> tuple[PodShape, ...]:
        """Return the shapes of which there may be places now.

        Args:
            may_take: whether a node takes a pod of a shape that did not at the last call.
        """
        doubtful, self._doubtful = self._doubtful, {}
        return tuple(shape for shape in self._of_shape if shape in doubtful or may_take(shape))

    def in_turn(
        self, shapes: Iterable[PodShape], has_room: Callable[[PodShape], bool]
    ) -> Iterator[ChargeKey]:
        """Yield the workloads of shapes while there is room for pods like theirs, oldest first.

        Who was yielded may be discarded; nobody may be added meanwhile.
        """
        lines = [
            (shape, iter(tuple(self._of_shape[shape]))) for shape in shapes if has_room(shape)
        ]
        heads: list[tuple[int, int, ChargeKey]] = []

        def push(index: int) -> None:
            shape, line = lines[index]
            key = next(line, None) if has_room(shape) else None
            if key is not None:
                heapq.heappush(heads, (self._age(key), index, key))

        for index in range(len(lines)):
            push(index)
        while heads:
            _, index, key = heapq.heappop(heads)
            if key in self._ages and has_room(lines[index][0]):
                yield key
            push(index)

    def _age(self, key: ChargeKey) -> int:
        return self._ages.get(key, (0, ()))[0]
