"""Moments at which a Workload has to be looked at again, one for each."""

import heapq
from datetime import datetime

from admission.base.clock import Clock
from admission.base.names import WorkloadKey


class Timers:
    """The next moment of each Workload, on the monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[WorkloadKey, float] = {}
        self._heap: list[tuple[float, WorkloadKey]] = []

    def set(self, key: WorkloadKey, moment: datetime | None, now: datetime) -> None:
        """Sets the moment, given in wall time; None for none."""
        if moment is None:
            self._due.pop(key, None)
            return
        due = self._clock.monotonic() + max(0.0, (moment - now).total_seconds())
        self._due[key] = due
        heapq.heappush(self._heap, (due, key))

    def forget(self, key: WorkloadKey) -> None:
        """The Workload is gone."""
        self._due.pop(key, None)

    def take_due(self) -> list[WorkloadKey]:
        """Workloads whose moment has come; it is taken away."""
        now, found = self._clock.monotonic(), []
        while self._heap and self._heap[0][0] <= now:
            due, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                found.append(key)
        return found

    def next_due_in(self) -> float | None:
        """Seconds until the next moment; None when there is none."""
        if not self._heap:
            return None
        return max(0.0, self._heap[0][0] - self._clock.monotonic())
