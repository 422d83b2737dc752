"""When a waiting Workload's reason is written: after a second, on a new reason, else rarely.

What only people change is no matter of numbers, and is written at once. One text per Workload;
nothing is written while nothing changes.
"""

import heapq
from dataclasses import dataclass
from typing import Final

from admission.base.conditions import WaitReason
from admission.base.names import WorkloadKey
from admission.scheduling.decisions import Wait

OF_BLOCKERS: Final = frozenset(
    {
        WaitReason.MISCONFIGURED,
        WaitReason.SUSPENDED,
        WaitReason.DEACTIVATED,
        WaitReason.ADMISSION_GATED,
        WaitReason.ADMISSION_PAUSED,
        WaitReason.WAITING_FOR_PODS_READY,
    }
)
"""Reasons that are over as soon as nothing blocks, even before a cycle has judged."""


@dataclass(slots=True)
class _Entry:
    wait: Wait
    due: float
    written_reason: str = ""
    written_at: float = 0.0
    written: Wait | None = None


class Explainer:
    """Latest reason of each waiting Workload, and which of them are due to be written.

    Times are seconds of the monotonic clock.
    """

    def __init__(self, *, after_seconds: float, refresh_seconds: float) -> None:
        self._after = after_seconds
        self._refresh = refresh_seconds
        self._entries: dict[WorkloadKey, _Entry] = {}
        self._heap: list[tuple[float, WorkloadKey]] = []

    def tell(self, wait: Wait, now: float) -> None:
        """Takes the latest reason of a Workload."""
        key = wait.workload
        entry = self._entries.get(key)
        if entry is None:
            self._schedule(key, _Entry(wait=wait, due=now + self._after))
            return
        entry.wait = wait
        if entry.written is None or wait == entry.written:
            return
        at_once = wait.reason != entry.written_reason or wait.reason in OF_BLOCKERS
        due = now if at_once else max(now, entry.written_at + self._refresh)
        if entry.due <= now or due < entry.due:
            entry.due = due
            heapq.heappush(self._heap, (due, key))

    def forget(self, key: WorkloadKey) -> None:
        """The Workload waits no more."""
        self._entries.pop(key, None)

    def waits(self) -> tuple[WorkloadKey, ...]:
        """Workloads that wait, in the order in which they began to."""
        return tuple(self._entries)

    def latest(self, key: WorkloadKey) -> Wait | None:
        """The latest reason; None when the Workload does not wait."""
        entry = self._entries.get(key)
        return entry.wait if entry else None

    def next_due(self) -> float | None:
        """Return when the next text may be due."""
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: float) -> Wait | None:
        """The next text that is due, counted as written; None when there is none."""
        while self._heap and self._heap[0][0] <= now:
            due, key = heapq.heappop(self._heap)
            entry = self._entries.get(key)
            if entry is None or entry.due != due or entry.wait == entry.written:
                continue
            entry.written, entry.written_reason, entry.written_at = (
                entry.wait,
                entry.wait.reason,
                now,
            )
            return entry.wait
        return None

    def _schedule(self, key: WorkloadKey, entry: _Entry) -> None:
        self._entries[key] = entry
        heapq.heappush(self._heap, (entry.due, key))
