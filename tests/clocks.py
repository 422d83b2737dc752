"""Clocks that tests move."""

import asyncio
from datetime import UTC, datetime, timedelta

from typing_extensions import override

START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """Wall and monotonic time that advance together, and only when told to."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._passed = 0.0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        return self._passed

    def set_back(self, seconds: float) -> None:
        """Somebody corrects the wall time; monotonic time goes on."""
        self._start -= timedelta(seconds=seconds)

    def advance(self, seconds: float) -> None:
        assert seconds >= 0
        self._passed += seconds


class MovedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock is ahead of the machine's by what it was moved on."""

    def __init__(self) -> None:
        self._ahead_seconds = 0.0
        super().__init__()

    @override
    def time(self) -> float:
        return super().time() + self._ahead_seconds

    def advance(self, seconds: float) -> None:
        """End timers that are due within so many seconds at the next turn of the loop."""
        assert seconds >= 0
        self._ahead_seconds += seconds
