"""Waiting for something outside this process: the one place where tests poll."""

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from admission.base.clock import SystemClock

PAUSE_SECONDS: Final = 0.02
PATIENCE_SECONDS: Final = 120.0
"""What comes at all has come by then, on a busy machine too; it costs time only where it fails."""

T = TypeVar("T")


def until(
    look: Callable[[], T | None], *, within_seconds: float = PATIENCE_SECONDS, what: str = ""
) -> T:
    """The first truthy result of ``look``, which is asked again and again.

    Raises:
        TimeoutError: nothing truthy within the time; names ``what`` and the last result.
    """
    clock = SystemClock()
    deadline = clock.monotonic() + within_seconds
    pause = threading.Event()
    while not (seen := look()):
        if clock.monotonic() > deadline:
            waited_for = what or getattr(look, "__name__", "a condition")
            raise TimeoutError(f"{waited_for}: not within {within_seconds} s; last: {seen!r}")
        pause.wait(PAUSE_SECONDS)
    return seen
