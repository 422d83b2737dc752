"""A clock that only moves when told to."""

from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """Wall and monotonic time that advance together."""

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
