"""Whether the API server answers, known to all that follow it in a process."""

import threading
from typing import Final
from weakref import WeakSet

from admission.base import logs
from admission.base.clock import Clock
from admission.base.logs import Logger
from admission.kube import errors

_STARTS_SECONDS: Final = 30.0
"""An API server that starts answers some requests, and then none for a moment: that long after it
came back, an outage is told only once it lasts as long itself."""


def warn(log: Logger, event: str, error: Exception, **fields: object) -> None:
    """Log that something failed: as a warning, or with level debug in a known outage.

    Of an API server that does not answer, `Connectivity` tells once; what fails because of it is
    no news.
    """
    log_at = log.debug if is_outage(error) else log.warning
    log_at(event, error=str(error), **fields)


def is_outage(error: Exception) -> bool:
    """Return whether an error comes of an outage that was told, or of a server that starts."""
    if isinstance(error, errors.TransportError):
        return any(outage.is_lost for outage in _ALL)
    return isinstance(error, errors.KubeError) and errors.is_unavailable(error)


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
        self._back_at: float | None = None
        self._is_told = False
        self._unserved: dict[str, float] = {}
        """Since when kinds are not served, of those of which that was told."""
        self._log = logs.get("connectivity")
        _ALL.add(self)

    @property
    def is_lost(self) -> bool:
        """Return whether the API server could not be reached last."""
        return self._lost_at is not None

    def lost(self, error: str) -> None:
        """Note a request that got no answer."""
        now = self._clock.monotonic()
        with self._changed:
            if self._lost_at is None:
                self._lost_at = now
            back_at, lost_at = self._back_at, self._lost_at
            was_starting = back_at is not None and lost_at - back_at < _STARTS_SECONDS
            if self._is_told or (was_starting and now - lost_at < _STARTS_SECONDS):
                return
            self._is_told = True
        self._log.warning("API server does not answer", error=error)

    def not_served(self, kind: str, error: str) -> None:
        """Note that the API server has not served a kind for long, though it may answer.

        Of all kinds together this is told once, until all of them are served again.
        """
        now = self._clock.monotonic()
        with self._changed:
            is_first = not self._unserved and self._lost_at is None
            self._unserved.setdefault(kind, now)
        if is_first:
            self._log.warning("not served, trying again", resource=kind, error=error)

    def served(self, kind: str) -> None:
        """Note that a kind is served."""
        if kind not in self._unserved:
            return  # without the lock, as nearly always
        with self._changed:
            since = self._unserved.pop(kind, None)
            if since is None or self._unserved:
                return
        seconds = round(self._clock.monotonic() - since, 3)
        self._log.info("served again", resource=kind, away_seconds=seconds)

    def answered(self) -> None:
        """Note an answer."""
        if self._lost_at is None:
            return  # without the lock, as nearly always
        now = self._clock.monotonic()
        with self._changed:
            lost_at, was_told = self._take_lost()
            if lost_at is None:
                return  # another thread was first
            self._back_at = now
            self.returns += 1
            self._changed.notify_all()
        if was_told:
            self._log.info("API server answers again", away_seconds=round(now - lost_at, 3))

    def _take_lost(self) -> tuple[float | None, bool]:
        """Since when nobody answers, and whether that was told; so that one thread gets it."""
        taken = self._lost_at, self._is_told
        self._lost_at, self._is_told = None, False
        return taken

    def wait(self, seconds: float, stopping: threading.Event) -> None:
        """Wait until the API server is back or `wake` is called, at most that long."""
        with self._changed:
            before = self.returns
            self._changed.wait_for(lambda: stopping.is_set() or self.returns != before, seconds)

    def wake(self) -> None:
        """Wake all that wait, so that they see whether they are to stop."""
        with self._changed:
            self._changed.notify_all()


_ALL: Final[WeakSet[Connectivity]] = WeakSet()
"""Those of this process."""
