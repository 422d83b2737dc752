"""Waiting for something outside this process: the one place where tests poll."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from admission.base.clock import SystemClock

PATIENCE_SECONDS: Final = 120.0
"""What comes at all has come by then, on a machine without other work. It tells that a program
hangs, never that it is slow: `until` waits longer where processes wait for a core."""

MOST_PATIENCE: Final = 4.0
"""By how much a busy machine lengthens it at the most."""

_FIRST_PAUSE_SECONDS: Final = 0.01
_LONGEST_PAUSE_SECONDS: Final = 0.2
_PAUSE_SHARE: Final = 0.2  # of the time waited so far
_PRESSURE: Final = Path("/proc/pressure/cpu")

T = TypeVar("T")


class Patience:
    """How long something is waited for that begins now."""

    def __init__(self, seconds: float = PATIENCE_SECONDS) -> None:
        self._seconds = seconds
        self._clock = SystemClock()
        self._began = self._clock.monotonic()
        self._stalled_before = _stalled_seconds()

    @property
    def waited_seconds(self) -> float:
        """How long it was waited for until now."""
        return self._clock.monotonic() - self._began

    @property
    def is_over(self) -> bool:
        """Whether it would have come by now on a machine as busy as this one."""
        waited = self.waited_seconds
        return waited > self._seconds and (
            waited > self._seconds * _stretch(waited, self._stalled_before)
        )


def until(
    look: Callable[[], T | None], *, within_seconds: float = PATIENCE_SECONDS, what: str = ""
) -> T:
    """The first truthy result of ``look``, which is asked again and again.

    Raises:
        TimeoutError: nothing truthy within the time; names ``what`` and the last result.
    """
    patience = Patience(within_seconds)
    pause = threading.Event()
    while not (seen := look()):
        waited = patience.waited_seconds
        if patience.is_over:
            waited_for = what or getattr(look, "__name__", "a condition")
            raise TimeoutError(f"{waited_for}: not within {waited:.0f} s; last: {seen!r}")
        pause.wait(min(max(waited * _PAUSE_SHARE, _FIRST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS))
    return seen


def _stretch(waited: float, stalled_before: float) -> float:
    """By how much the machine was slower than an idle one in the seconds that were waited."""
    stalled = min(_stalled_seconds() - stalled_before, waited)
    return min(waited / max(waited - stalled, 1e-6), MOST_PATIENCE)


def _stalled_seconds() -> float:
    """Seconds, since an arbitrary start, in which some process waited for a core."""
    if not _PRESSURE.exists():
        return 0.0
    some = _PRESSURE.read_text().splitlines()[0]
    return int(some.rpartition("total=")[2]) / 1e6
