"""Waiting for SIGTERM or SIGINT."""

import signal
import threading
from types import FrameType


def stop_event() -> threading.Event:
    """An event that SIGTERM and SIGINT set; call in the main thread."""
    stopping = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    return stopping
