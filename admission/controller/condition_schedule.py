"""When to write why a Workload waits: after a second, on a new reason, otherwise rarely.

What only people change is no matter of numbers, and is due at once: so is another amount that a
Workload asks for. What is free, and a place in the queue, are due at most once in a while. An
event is due when a Workload has waited for some time, and when its reason is another one. Nothing
is due while nothing changes.
"""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

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


EVENT_SECONDS: Final = 30.0
"""From when a Workload begins to wait to its first event, and between two of its events."""


class Due(NamedTuple):
    """A text that is due.

    Attributes:
        workload: which waits.
        is_news: no reason was written of it, or another one, or it asks for other amounts; else
            what is free or a place changed.
    """

    workload: WorkloadKey
    is_news: bool


@dataclass(slots=True)
class _WaitEntry:
    """What is known of one that waits.

    Attributes:
        wait: the latest reason.
        since: when it began to wait.
        due: when its text is due; infinite for never, or once it was taken.
        is_taken: its text was taken, and nothing is written of it yet.
        written: the reason that was written last; None for none.
        written_place: the place that was written with it, for people; empty for none.
        written_at: when.
        is_of_nodes: whether what was written depends on the nodes that there are.
        event_due: when its event is due; infinite as `due`.
        told: the reason that an event told last; None for none.
        told_code: its code in the catalogue of reasons.
        told_at: when.
    """

    wait: Wait
    since: float
    due: float
    event_due: float
    is_taken: bool = False
    written: Wait | None = None
    written_place: str = ""
    written_at: float = 0.0
    is_of_nodes: bool = False
    told: Wait | None = None
    told_code: str = ""
    told_at: float = -math.inf


class ConditionSchedule:
    """The latest reason of each waiting Workload, and which reasons are due to be written.

    Times are seconds of the monotonic clock.
    """

    def __init__(self, *, after_seconds: float, refresh_seconds: float) -> None:
        """Begin with nobody who waits.

        Args:
            after_seconds: seconds from the beginning of a wait to its first text.
            refresh_seconds: between two texts with the same reason.
        """
        self._after = after_seconds
        self._refresh = refresh_seconds
        self._entries: dict[WorkloadKey, _WaitEntry] = {}
        self._heap: list[tuple[float, WorkloadKey]] = []
        self._events: list[tuple[float, WorkloadKey]] = []

    @property
    def refresh_seconds(self) -> float:
        """Return the seconds between two texts with the same reason."""
        return self._refresh

    def tell(self, wait: Wait, now: float) -> None:
        """Take the latest reason of a Workload."""
        key = wait.workload
        entry = self._entries.get(key)
        if entry is None:
            event_due = now + EVENT_SECONDS
            entry = _WaitEntry(wait=wait, since=now, due=now + self._after, event_due=event_due)
            self._entries[key] = entry
            heapq.heappush(self._heap, (entry.due, key))
            heapq.heappush(self._events, (event_due, key))
            return
        before, entry.wait = entry.wait.reason, wait
        self._schedule_event(key, entry, now)
        written = entry.written
        if written is None or wait == written or (entry.is_taken and wait.reason == before):
            return
        if _is_news(wait, written) or wait.reason in OF_BLOCKERS:
            self._schedule(key, entry, now)
        elif not entry.is_taken:
            self._refresh_later(key, entry, now)

    def drift(self, key: WorkloadKey, place: str, now: float) -> None:
        """Take the place of a Workload in its queue, for people; empty for none."""
        entry = self._entries.get(key)
        if entry is None or entry.is_taken or entry.written is None:
            return
        if place != entry.written_place:
            self._refresh_later(key, entry, now)

    def set_resized(self, concerns: Callable[[Wait], bool], now: float) -> None:
        """Take that nodes have come or gone that differ in size.

        Args:
            concerns: whether a reason may depend on that now.
            now: the present.
        """
        for key, entry in self._entries.items():
            if entry.is_taken or entry.written is None:
                continue
            if entry.is_of_nodes or concerns(entry.wait):
                self._refresh_later(key, entry, now)

    def forget(self, key: WorkloadKey) -> None:
        """Take that the Workload waits no more."""
        self._entries.pop(key, None)

    def waits(self) -> tuple[WorkloadKey, ...]:
        """Return the Workloads that wait, in the order in which they began to."""
        return tuple(self._entries)

    def latest(self, key: WorkloadKey) -> Wait | None:
        """Return the latest reason; None when the Workload does not wait."""
        entry = self._entries.get(key)
        return entry.wait if entry else None

    def next_due(self) -> float | None:
        """Return when the next text may be due."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> Due | None:
        """Return the next text that is due, and forget that it is; None when there is none."""
        while self._heap and self._heap[0][0] <= now:
            due, key = heapq.heappop(self._heap)
            entry = self._entries.get(key)
            if entry is None or entry.due != due:
                continue
            entry.due, entry.is_taken = math.inf, True
            return Due(key, entry.written is None or _is_news(entry.wait, entry.written))
        return None

    def write(
        self,
        key: WorkloadKey,
        place: str,
        now: float,
        *,
        is_of_nodes: bool = False,
        is_passing: bool = False,
    ) -> Wait | None:
        """Take that the latest reason is written from now on; return it, None for none.

        Args:
            key: of the Workload.
            place: the place that is written with it; empty for none.
            now: the present.
            is_of_nodes: whether what is written depends on the nodes that there are.
            is_passing: whether it tells of pods that end soon, so it is looked at again.
        """
        entry = self._entries.get(key)
        if entry is None:
            return None
        entry.is_taken, entry.is_of_nodes = False, is_of_nodes
        entry.written, entry.written_place, entry.written_at = entry.wait, place, now
        if is_passing:
            self._refresh_later(key, entry, now)
        return entry.wait

    # ------------------------------------------------------------------------------- events

    def next_event(self) -> float | None:
        """Return when the next event may be due."""
        return self._events[0][0] if self._events else None

    def take_event(self, now: float) -> WorkloadKey | None:
        """Return whose event is due next, and forget that it is; None when there is none."""
        while self._events and self._events[0][0] <= now:
            due, key = heapq.heappop(self._events)
            entry = self._entries.get(key)
            if entry is None or entry.event_due != due:
                continue
            entry.event_due = math.inf
            return key
        return None

    def since_unwritten(self, key: WorkloadKey) -> float | None:
        """Return when a Workload without a written reason began to wait; None for others."""
        entry = self._entries.get(key)
        return entry.since if entry and entry.written is None else None

    def set_told(self, key: WorkloadKey, wait: Wait, code: str, now: float) -> bool:
        """Take that an event tells a reason; it may have been that of an earlier leader.

        Args:
            key: of the Workload.
            wait: the reason.
            code: its code in the catalogue of reasons.
            now: the present.

        Returns:
            Whether it is another one than an event told last.
        """
        entry = self._entries.get(key)
        if entry is None:
            return False
        is_news = entry.told_code != code
        entry.told, entry.told_code, entry.event_due = wait, code, math.inf
        entry.told_at = now if is_news else entry.told_at
        self._schedule_event(key, entry, now)
        return is_news

    def _schedule_event(self, key: WorkloadKey, entry: _WaitEntry, now: float) -> None:
        """Schedule the event of another reason, unless it is only that it was not tried yet."""
        wait, told_wait = entry.wait, entry.told
        if told_wait is None or entry.event_due != math.inf:
            return
        is_other = wait.reason != told_wait.reason or (
            wait.reason in OF_BLOCKERS and wait.why != told_wait.why
        )
        if is_other and wait.reason != WaitReason.PENDING_EVALUATION:
            entry.event_due = max(now, entry.told_at + EVENT_SECONDS)
            heapq.heappush(self._events, (entry.event_due, key))

    # --------------------------------------------------------------------------------- due

    def _refresh_later(self, key: WorkloadKey, entry: _WaitEntry, now: float) -> None:
        self._schedule(key, entry, max(now, entry.written_at + self._refresh))

    def _schedule(self, key: WorkloadKey, entry: _WaitEntry, due: float) -> None:
        if due < entry.due:
            entry.due = due
            heapq.heappush(self._heap, (due, key))


def _is_news(wait: Wait, written: Wait) -> bool:
    """Return whether a reason is another one, or what the Workload asks for."""
    asks_otherwise = wait.requests != written.requests and wait.requests and written.requests
    return wait.reason != written.reason or bool(asks_otherwise)
