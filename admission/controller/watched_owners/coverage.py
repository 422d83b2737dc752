"""Which pods of a pod set its reservation covers: the first ones in an order.

Each other pod is charged on its own. What a change costs follows the pods that change sides, and
not the number of pods.
"""

import heapq
from bisect import bisect_left, insort
from datetime import datetime
from typing import Final

Order = tuple[bool, bool, str]
"""Sort key of a pod; no two are equal."""

_AFTER_ALL: Final[Order] = (True, True, "\U0010ffff")


class Coverage:
    """The pods of a pod set that have not ended, in order, and how many of them are covered."""

    __slots__ = ("_covered", "_due", "_keys", "_order_of")

    def __init__(self) -> None:
        """Begin without any pod."""
        self._keys: list[Order] = []
        self._order_of: dict[str, Order] = {}
        self._covered = 0
        self._due: list[tuple[datetime, str]] = []

    def __len__(self) -> int:
        """Return the number of pods."""
        return len(self._keys)

    def put(self, uid: str, order: Order) -> None:
        """Add a pod, or move it to its place of now."""
        self.remove(uid)
        self._covered += order < self._boundary()
        insort(self._keys, order)
        self._order_of[uid] = order

    def remove(self, uid: str) -> None:
        """Remove a pod, if it is there."""
        order = self._order_of.pop(uid, None)
        if order is None:
            return
        self._covered -= order < self._boundary()
        del self._keys[bisect_left(self._keys, order)]

    def cover(self, count: int) -> tuple[str, ...]:
        """Have as many pods covered, the first ones; return those that changed sides for that."""
        covered = min(count, len(self._keys))
        first, last = sorted((self._covered, covered))
        self._covered = covered
        return tuple(uid for _, _, uid in self._keys[first:last])

    def is_beyond(self, uid: str) -> bool:
        """Return whether a pod has not ended and is not covered."""
        order = self._order_of.get(uid)
        return order is not None and order >= self._boundary()

    def add_due(self, uid: str, due: datetime) -> None:
        """Have a pod looked at again from a time on, as it may have ended by then."""
        heapq.heappush(self._due, (due, uid))

    def is_due(self, now: datetime) -> bool:
        """Return whether a pod is to be looked at again."""
        return bool(self._due) and self._due[0][0] <= now

    def take_due(self, now: datetime) -> tuple[str, ...]:
        """Return the pods to be looked at again; some of them may be gone."""
        uids = []
        while self.is_due(now):
            uids.append(heapq.heappop(self._due)[1])
        return tuple(uids)

    def _boundary(self) -> Order:
        """Return the sort key of the first pod that is not covered."""
        return self._keys[self._covered] if self._covered < len(self._keys) else _AFTER_ALL
