"""Whether the API server answers, known to all that follow it in a process."""

import threading
from typing import Final

from admission.base import logs
from admission.base.clock import Clock


class Connectivity:
    """Shared by reflectors of one API server; safe to share between threads.

    Who waits to try again waits here. The first one that gets an answer after the API server could
    not be reached ends the wait of all others.
    """

    def __init__(self, clock: Clock) -> None:
        """Begins as if the API server answered.

        Args:
            clock: measures how long it did not.
        """
        self.returns = 0
        """How often the API server answered again after it could not be reached."""
        self._clock: Final = clock
        self._changed = threading.Condition()
        self._lost_at: float | None = None
        self._log = logs.get("connectivity")

    def lost(self, error: str) -> None:
        """Note a request that got no answer."""
        with self._changed:
            if self._lost_at is not None:
                return
            self._lost_at = self._clock.monotonic()
        self._log.warning("API server does not answer", error=error)

    def answered(self) -> None:
        """Note an answer."""
        if self._lost_at is None:
            return  # without the lock, as nearly always
        with self._changed:
            lost_at = self._take_lost()
            if lost_at is None:
                return
            self.returns += 1
            self._changed.notify_all()
        seconds = round(self._clock.monotonic() - lost_at, 3)
        self._log.info("API server answers again", away_seconds=seconds)

    def _take_lost(self) -> float | None:
        """Since when nobody answers; takes it, so that one thread gets it."""
        lost_at, self._lost_at = self._lost_at, None
        return lost_at

    def wait(self, seconds: float, stopping: threading.Event) -> None:
        """Wait until the API server is back or `wake` is called, at most that long."""
        with self._changed:
            before = self.returns
            self._changed.wait_for(lambda: stopping.is_set() or self.returns != before, seconds)

    def wake(self) -> None:
        """Wake all that wait, so that they see whether they are to stop."""
        with self._changed:
            self._changed.notify_all()
