"""What SIGTERM and SIGINT do."""

import signal
import sys
import threading
from types import FrameType


def exit_on_terminate() -> None:
    """Make SIGTERM and SIGHUP end the program by an exception, so that what it started is stopped.

    Call in the main thread.
    """

    def handle(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # once is enough; the end must not be interrupted
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handle)


def stop_event() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set; call in the main thread."""
    stopping = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    return stopping
