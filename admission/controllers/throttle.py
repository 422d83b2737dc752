"""When the status of a queue is written: not too often, and under load not at once."""

from typing import Final

from admission.controllers.writes import QueueLane

_MANY_A_SECOND: Final = 50
_LONGEST_STRETCH: Final = 2
_PATIENCE_SECONDS: Final = 2.0
"""So long a status waits while other writes take all the room."""


class Throttle:
    """Which statuses are to be written, each at most once in an interval.

    While more are marked than 50 a second would allow, the interval grows, up to twice.
    Times are seconds of the monotonic clock.
    """

    def __init__(self, interval_seconds: float) -> None:
        self._interval = interval_seconds
        self._stretched = interval_seconds
        self._dirty: dict[QueueLane, float] = {}
        self._next: dict[QueueLane, float] = {}

    def mark(self, key: QueueLane, now: float) -> None:
        """The status may have changed."""
        self._dirty.setdefault(key, now)

    def forget(self, key: QueueLane) -> None:
        """The object is gone."""
        self._dirty.pop(key, None)
        self._next.pop(key, None)

    def due(self, now: float, room_at: float) -> list[QueueLane]:
        """Marked keys whose turn has come, in the order in which they were marked.

        Args:
            now: the present.
            room_at: from then on statuses follow each change; one that was marked two seconds
                ago does not wait for it.
        """
        wanted = max(self._interval, len(self._dirty) / _MANY_A_SECOND)
        self._stretched = min(wanted, _LONGEST_STRETCH * self._interval)
        return [key for key in self._dirty if self._turn(key, room_at) <= now]

    def take(self, key: QueueLane, now: float) -> None:
        """Unmarks a key; its next turn is after the interval."""
        del self._dirty[key]
        self.postpone(key, now)

    def postpone(self, key: QueueLane, now: float) -> None:
        """Gives a key its next turn after the interval; it waits from when it was marked."""
        self._next[key] = now + self._stretched

    def next_due(self, room_at: float) -> float | None:
        """When something is due; None when nothing is marked."""
        return min((self._turn(key, room_at) for key in self._dirty), default=None)

    def _turn(self, key: QueueLane, room_at: float) -> float:
        marked = self._dirty[key]
        waits_until = max(marked, min(marked + _PATIENCE_SECONDS, room_at))
        return max(waits_until, self._next.get(key, 0.0))
