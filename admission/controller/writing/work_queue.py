"""Workloads that are to be reconciled: in which order, and when again."""

import heapq
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import datetime

from admission.base.clock import Clock
from admission.base.names import WorkKey


class WorkQueue:
    """Each Workload at most once: those with a decision first, then those to release.

    Within a priority the order is that in which they were first added. What waits here is judged
    when its turn comes, by what is known then: a pod that ended and was deleted meanwhile needs
    one request where it would have needed two.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._decided: OrderedDict[WorkKey, None] = OrderedDict()
        self._to_release: OrderedDict[WorkKey, None] = OrderedDict()
        self._others: OrderedDict[WorkKey, None] = OrderedDict()
        self._due: dict[WorkKey, float] = {}
        self._timers: list[tuple[float, WorkKey]] = []
        """A heap; what is not in `_due` is passed over."""

    def add(self, key: WorkKey) -> None:
        """Add a Workload; it keeps its place if it waits already."""
        if key not in self._to_release and key not in self._decided:
            self._others.setdefault(key)

    def add_all(self, keys: Iterable[WorkKey]) -> None:
        """Add each."""
        for key in keys:
            self.add(key)

    def add_to_release(self, key: WorkKey) -> None:
        """Add a Workload ahead of all about which nothing was decided."""
        if key not in self._decided:
            self._others.pop(key, None)
            self._to_release.setdefault(key)

    def add_decided(self, keys: Iterable[WorkKey]) -> None:
        """Add each ahead of all others, for when decisions may be written."""
        for key in keys:
            self._others.pop(key, None)
            self._to_release.pop(key, None)
            self._decided.setdefault(key)

    def add_at(self, key: WorkKey, moment: datetime | None, now: datetime) -> None:
        """Add a Workload at a moment of wall time, or earlier if asked before; None for never.

        What is due is derived anew each time, so to be early does no harm.
        """
        if moment is None:
            self.cancel(key)
            return
        due = self._clock.monotonic() + max(0.0, (moment - now).total_seconds())
        if self._due.get(key, math.inf) <= due:
            return
        self._due[key] = due
        heapq.heappush(self._timers, (due, key))

    def cancel(self, key: WorkKey) -> None:
        """Add a Workload at no set time any more."""
        self._due.pop(key, None)

    def add_due(self) -> None:
        """Add the Workloads whose time has come."""
        now = self._clock.monotonic()
        while self._timers and self._timers[0][0] <= now:
            due, key = heapq.heappop(self._timers)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)

    def next_due_in(self) -> float | None:
        """Return the seconds until `add_due` may have something to add, or None."""
        if not self._timers:
            return None
        return max(0.0, self._timers[0][0] - self._clock.monotonic())

    def has_next(self, may_decide: Callable[[], bool]) -> bool:
        """Return whether `pop` would return a Workload."""
        if self._to_release or self._others:
            return True
        return bool(self._decided) and may_decide()

    def pop(self, may_decide: Callable[[], bool]) -> WorkKey | None:
        """Remove and return the next Workload, or None if none may be reconciled now.

        Args:
            may_decide: whether those may be reconciled about which something was decided.
        """
        if self._decided and may_decide():
            return self._decided.popitem(last=False)[0]
        queue = self._to_release or self._others
        return queue.popitem(last=False)[0] if queue else None
