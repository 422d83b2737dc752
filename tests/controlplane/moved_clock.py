"""A clock of the processes under test that a test moves ahead: nobody waits for a real hour."""

import mmap
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from admission.base import clock

_FORMAT: Final = "<d"
_SIZE: Final = struct.calcsize(_FORMAT)


class MovedClock:
    """Seconds by which processes are ahead of the machine's clock, in a file that they share.

    Attributes:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            path.write_bytes(struct.pack(_FORMAT, 0.0))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _SIZE)

    @property
    def seconds_ahead(self) -> float:
        """How far the clock is ahead now."""
        (seconds,) = struct.unpack_from(_FORMAT, self._memory)
        return float(seconds)

    def advance(self, seconds: float) -> None:
        """Moves the clock of all processes that share the file, at once."""
        assert seconds >= 0, "a monotonic clock never goes back"
        struct.pack_into(_FORMAT, self._memory, 0, self.seconds_ahead + seconds)

    def now(self) -> datetime:
        """The wall time of the processes, aware, in UTC."""
        return clock.SystemClock().now() + timedelta(seconds=self.seconds_ahead)

    def replace_system_clock(self) -> None:
        """Has every `SystemClock` of this process go by the file."""
        system_now, system_monotonic = clock.SystemClock.now, clock.SystemClock.monotonic

        def now(self_: clock.SystemClock) -> datetime:
            return (system_now(self_) + timedelta(seconds=self.seconds_ahead)).astimezone(UTC)

        def monotonic(self_: clock.SystemClock) -> float:
            return system_monotonic(self_) + self.seconds_ahead

        clock.SystemClock.now = now  # type: ignore[assignment, method-assign]
        clock.SystemClock.monotonic = monotonic  # type: ignore[assignment, method-assign]
