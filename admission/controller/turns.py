"""When a turn of the core's loop has something to do."""

import math

from admission.base.clock import Clock


class Turns:
    """Whether a change calls for a turn, and when the next one is due without a change.

    Attributes:
        is_called: something was seen that a turn has to look at.
        messages: how many were taken after which an answer may differ.
    """

    def __init__(self, clock: Clock) -> None:
        """Call for a first turn.

        Args:
            clock: the present.
        """
        self.is_called = True
        self.messages = 0
        self._clock = clock
        self._due_at = -math.inf

    def call(self) -> None:
        """Have a turn look at what was seen."""
        self.is_called = True

    def begin(self) -> bool:
        """Return whether a turn has something to do; what is seen after calls for another."""
        if not self.is_called and self._clock.monotonic() < self._due_at:
            return False
        self.is_called = False
        return True

    def end(self, due_in: float | None) -> None:
        """Take in how many seconds a turn has something to do without a change; None for never."""
        self._due_at = math.inf if due_in is None else self._clock.monotonic() + due_in

    def due_in(self) -> float | None:
        """Return the seconds until a turn has something to do without a change, or None."""
        if self._due_at == math.inf:
            return None
        return max(0.0, self._due_at - self._clock.monotonic())
