"""When the status of a queue is written: not too often, and under load not at once."""

import heapq
from bisect import bisect_left, bisect_right, insort
from itertools import count
from typing import Final, NamedTuple

from admission.controllers.writing.writes import QueueLane

_MANY_A_SECOND: Final = 50
_LONGEST_STRETCH: Final = 2
_PATIENCE_SECONDS: Final = 2.0
"""So long a status waits while other writes take all the room."""


class _Mark(NamedTuple):
    """A status that is to be written, and since when."""

    at: float
    number: int
    key: QueueLane


class Throttle:
    """Which statuses are to be written, each at most once in an interval.

    While more are marked than 50 a second would allow, the interval grows, up to twice.
    Times are seconds of the monotonic clock. A key that is marked either rests, until its
    interval is over, or waits; those that wait are kept in the order in which they were marked,
    so that to look for what is due costs as much as there is.
    """

    def __init__(self, interval_seconds: float) -> None:
        self._interval = interval_seconds
        self._stretched = interval_seconds
        self._numbers = count()
        self._marks: dict[QueueLane, _Mark] = {}
        self._next: dict[QueueLane, float] = {}
        self._waiting: list[_Mark] = []
        self._resting: list[tuple[float, _Mark]] = []
        """A heap by the end of the rest; some are unmarked since."""

    def mark(self, key: QueueLane, now: float) -> None:
        """The status may have changed."""
        if key not in self._marks:
            self._add(key, now, now)

    def forget(self, key: QueueLane) -> None:
        """The object is gone."""
        self._remove(key)
        self._next.pop(key, None)

    def due(self, now: float, room_at: float) -> list[QueueLane]:
        """Marked keys whose turn has come, in the order in which they were marked.

        Args:
            now: the present.
            room_at: from then on statuses follow each change; one that was marked two seconds
                ago does not wait for it.
        """
        wanted = max(self._interval, len(self._marks) / _MANY_A_SECOND)
        self._stretched = min(wanted, _LONGEST_STRETCH * self._interval)
        while self._resting and self._resting[0][0] <= now:
            _, mark = heapq.heappop(self._resting)
            if self._marks.get(mark.key) == mark:
                insort(self._waiting, mark)
        last = len(self._waiting)
        if now < room_at:
            last = bisect_right(self._waiting, now, key=_waits_until)
        return [mark.key for mark in self._waiting[:last]]

    def take(self, key: QueueLane, now: float) -> None:
        """Unmarks a key; its next turn is after the interval."""
        self._remove(key)
        self._next[key] = now + self._stretched

    def postpone(self, key: QueueLane, now: float) -> None:
        """Gives a key its next turn after the interval; it waits from when it was marked."""
        self._next[key] = now + self._stretched
        marked = self._remove(key)
        if marked is not None:
            self._add(key, marked.at, now)

    def next_due(self, room_at: float) -> float | None:
        """Return when there may be something due; None when nothing is marked."""
        moments = [end for end, _ in self._resting[:1]]
        if self._waiting:
            first = self._waiting[0]
            moments.append(max(first.at, min(_waits_until(first), room_at)))
        return min(moments, default=None)

    def _add(self, key: QueueLane, marked_at: float, now: float) -> None:
        mark = self._marks[key] = _Mark(marked_at, next(self._numbers), key)
        rests_until = self._next.get(key, now)
        if rests_until <= now:
            insort(self._waiting, mark)
        else:
            heapq.heappush(self._resting, (rests_until, mark))

    def _remove(self, key: QueueLane) -> _Mark | None:
        """Unmarks a key; where it rests it is passed over when the rest is over."""
        mark = self._marks.pop(key, None)
        if mark is not None:
            place = bisect_left(self._waiting, mark)
            if self._waiting[place : place + 1] == [mark]:
                del self._waiting[place]
        return mark


def _waits_until(mark: _Mark) -> float:
    """Return when it waits for room no longer."""
    return mark.at + _PATIENCE_SECONDS
