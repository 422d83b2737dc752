"""Lanes: at most one write in flight for each Workload or queue, retried until certain."""

import heapq
import math
from collections.abc import Iterable
from typing import Final

from admission.base.clock import Clock
from admission.controllers.writing import writes
from admission.controllers.writing.writer import Writer
from admission.controllers.writing.writes import Lane, Outcome, Purpose, Result, Write

_UNKNOWN_RETRY_SECONDS: Final = 1.0
_REFUSED_SECONDS: Final = (1.0, 2.0, 5.0, 15.0, 60.0)


class Lanes:
    """Which lanes are busy, and which rest after a refusal."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._busy: dict[Lane, Write] = {}
        self._resting: set[Lane] = set()
        self._refusals: dict[Lane, int] = {}
        self._timers: list[tuple[float, int, Lane]] = []
        self._serial = 0
        self._sending = 0
        self._reserving = 0
        self._telling = 0
        self._acted_at = -math.inf

    @property
    def in_flight(self) -> int:
        """Writes sent, or to be sent again, whose outcome is open."""
        return len(self._busy)

    @property
    def sending(self) -> int:
        """Writes handed over whose outcome was not reported; those to be sent again rest."""
        return self._sending

    @property
    def reserving(self) -> int:
        """Those of them that reserve quota."""
        return self._reserving

    @property
    def telling(self) -> int:
        """Writes that only tell how things are, whose outcome is open."""
        return self._telling

    @property
    def acted_at(self) -> float:
        """Monotonic time when a write was last submitted that does more than tell."""
        return self._acted_at

    def busy(self) -> Iterable[Lane]:
        """Return the lanes of which a write is open."""
        return tuple(self._busy)

    def is_busy(self, lane: Lane) -> bool:
        """Return whether a write of the lane is open or the lane rests after a refusal."""
        return lane in self._busy or lane in self._resting

    def submit(self, write: Write) -> None:
        """Sends a write; the lane must be free."""
        assert write.lane not in self._busy, write
        self._busy[write.lane] = write
        if write.purpose in writes.TELLING:
            self._telling += 1
        else:
            self._acted_at = self._clock.monotonic()
        self._send(write)

    def settle(self, outcome: Outcome) -> bool:
        """Takes an outcome; true if it is final, false if the same write goes out again later."""
        lane = outcome.write.lane
        self._sending -= 1
        self._reserving -= outcome.write.purpose is Purpose.RESERVE_QUOTA
        if outcome.result is Result.UNKNOWN:
            self._wake_at(lane, _UNKNOWN_RETRY_SECONDS)
            return False
        self._telling -= self._busy.pop(lane).purpose in writes.TELLING
        if outcome.result is Result.REFUSED:
            count = self._refusals.get(lane, 0)
            self._refusals[lane] = count + 1
            self._wake_at(lane, _REFUSED_SECONDS[min(count, len(_REFUSED_SECONDS) - 1)])
            self._resting.add(lane)
        else:
            self._refusals.pop(lane, None)
        return True

    def rest(self, lane: Lane, seconds: float) -> None:
        """Keeps a free lane from being used for a while."""
        self._resting.add(lane)
        self._wake_at(lane, seconds)

    def forget(self, lane: Lane) -> None:
        """Forgets how often it was refused something: all that it was about is gone."""
        self._refusals.pop(lane, None)

    def due(self) -> list[Lane]:
        """Lanes whose rest is over; open writes that are due are sent again on the way."""
        now, ended = self._clock.monotonic(), []
        while self._timers and self._timers[0][0] <= now:
            _, _, lane = heapq.heappop(self._timers)
            if lane in self._busy:
                self._send(self._busy[lane])
            elif lane in self._resting:
                self._resting.discard(lane)
                ended.append(lane)
        return ended

    def next_due_in(self) -> float | None:
        """Seconds until `due` has something to do; None when nothing is timed."""
        if not self._timers:
            return None
        return max(0.0, self._timers[0][0] - self._clock.monotonic())

    def _send(self, write: Write) -> None:
        self._sending += 1
        self._reserving += write.purpose is Purpose.RESERVE_QUOTA
        self._writer.submit(write)

    def _wake_at(self, lane: Lane, seconds: float) -> None:
        self._serial += 1
        heapq.heappush(self._timers, (self._clock.monotonic() + seconds, self._serial, lane))
