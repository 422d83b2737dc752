"""How much is written at once: less while the API server is slow to answer (ADR 0066, 0074)."""

import math
from typing import Final

from admission.base import metrics
from admission.base.clock import Clock
from admission.controllers.writing.lanes import Lanes
from admission.controllers.writing.writes import Outcome, Purpose, Result

_USUAL_FACTOR: Final = 2
"""An answer that takes this many times the shortest is no sign of too much load."""
_LEAST_PERCENT: Final = 25
"""So many of the writers are always left: others who write as well push nobody aside."""
_WEIGHT: Final = 1 / 16
"""Of the latest answer in the mean of all."""
_WINDOW_SECONDS: Final = 300.0
_DISTURBED_SECONDS: Final = 10.0
"""So long after quota was taken back, more may soon be."""
_HANDED_OVER_PERCENT: Final = 125
"""So many writes, of the writers, are handed over: no writer waits for the core, few writes for
a writer."""
_TELLING_PERCENT: Final = 40
"""So many of the writers at most send texts and queue statuses, one at least: fewer could not
keep statuses young while all others send decisions."""
_CALM_SECONDS: Final = 1.0
"""So long after the last write that does more than tell."""


class Pace:
    """Says what may be sent now.

    An API server with more to do than it can answers each request later, and no more of them.
    What is sent then only waits there, and is old when it is done: what it was decided from has
    changed, and what it gave away is taken back. So fewer decisions are open while answers take
    longer than usual and quota is being taken back; where none is, what comes late is as right.
    What is usual follows from the shortest answer of the last five to ten minutes. Only
    reservations are measured; they are writes of one kind, and no decision comes without one.
    """

    def __init__(self, writers: int, lanes: Lanes, clock: Clock) -> None:
        """Begins as if the API server answered at once.

        Args:
            writers: that send.
            lanes: know what is under way.
            clock: the present.
        """
        self._writers = writers
        self._lanes = lanes
        self._clock = clock
        self._recent = 0.0
        self._shortest = self._shortest_before = math.inf
        self._window_ends = self._evicted_at = -math.inf
        metrics.DECISIONS_OPEN_LIMIT.set_function(lambda: self.most_decisions)

    @property
    def most_decisions(self) -> int:
        """So many decisions may be open now, one at least."""
        disturbed = self._clock.monotonic() - self._evicted_at < _DISTURBED_SECONDS
        return self._room if disturbed else self._writers

    @property
    def slowness(self) -> float:
        """Return how many times less room the API server leaves than one that answers soon."""
        return self._writers / self._room

    @property
    def _room(self) -> int:
        """So many writers are kept busy by an API server that answers as it does."""
        usual = _USUAL_FACTOR * min(self._shortest, self._shortest_before)
        if self._recent <= usual:
            return self._writers
        return max(
            math.ceil(self._writers * _LEAST_PERCENT / 100),
            round(self._writers * usual / self._recent),
        )

    def observe(self, outcome: Outcome) -> None:
        """Takes what came of a write."""
        if outcome.result is not Result.DONE:
            return
        now = self._clock.monotonic()
        if outcome.write.purpose is Purpose.EVICT:
            self._evicted_at = now
        if outcome.write.purpose is not Purpose.RESERVE_QUOTA:
            return
        if now >= self._window_ends:
            self._shortest_before, self._shortest = self._shortest, math.inf
            self._window_ends = now + _WINDOW_SECONDS
        self._shortest = min(self._shortest, outcome.seconds)
        self._recent += _WEIGHT * (outcome.seconds - self._recent)

    def may_decide(self) -> bool:
        """Return whether the write of a decision may go out."""
        return self.may_send() and self._lanes.reserving < self.most_decisions

    def may_send(self) -> bool:
        """Return whether a write may go out that does more than tell."""
        return self._lanes.sending < math.ceil(self._writers * _HANDED_OVER_PERCENT / 100)

    def may_tell(self) -> bool:
        """Return whether a write that only tells may go out."""
        return self._lanes.telling < max(1, self._writers * _TELLING_PERCENT // 100)

    def is_calm(self) -> bool:
        """Return whether for a while nothing was written but texts and statuses."""
        since = self._clock.monotonic() - self._lanes.acted_at
        return self._lanes.in_flight == self._lanes.telling and since >= _CALM_SECONDS
