"""A clock of the processes under test that a test moves ahead: nobody waits for a real hour.

Threads of such a process that wait for an event or a message until a moment wake up when the clock
was moved past it. Requests and watches go by the machine's clock, as their sockets do: an hour
that nobody lived through is no silence of the API server.
"""

import functools
import mmap
import queue
import struct
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from admission.base import clock
from admission.kube.client import Client
from admission.kube.transport import Transport
from admission.run.watches import ReflectorSet
from tests.controlplane import waiting

T = TypeVar("T")

_FORMAT: Final = "<d"
_SIZE: Final = struct.calcsize(_FORMAT)
_LOOK_SECONDS: Final = 0.05
"""How often a thread that waits looks whether the clock was moved."""


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

    def until(self, look: Callable[[], T | None], *, step_seconds: float, what: str) -> T:
        """The first truthy result of ``look``; the clock is moved by a step after each other one.

        For what comes with time alone, however long that takes.
        """

        def moved() -> T | None:
            seen = look()
            if not seen:
                self.advance(step_seconds)
            return seen

        return waiting.until(moved, what=what)

    def now(self) -> datetime:
        """The wall time of the processes, aware, in UTC."""
        return clock.SystemClock().now() + timedelta(seconds=self.seconds_ahead)

    def replace_system_clock(self) -> None:
        """Has every `SystemClock` and every wait of this process go by the file."""
        system_now, system_monotonic = clock.SystemClock.now, clock.SystemClock.monotonic

        class MachineClock(clock.SystemClock):
            now = system_now
            monotonic = system_monotonic

        for kind in (Transport, Client, ReflectorSet):
            _keep_clock(kind, MachineClock())

        def now(self_: clock.SystemClock) -> datetime:
            return (system_now(self_) + timedelta(seconds=self.seconds_ahead)).astimezone(UTC)

        def monotonic(self_: clock.SystemClock) -> float:
            return system_monotonic(self_) + self.seconds_ahead

        clock.SystemClock.now = now  # type: ignore[assignment, method-assign]
        clock.SystemClock.monotonic = monotonic  # type: ignore[assignment, method-assign]
        _replace_waits()


def _keep_clock(kind: Any, machine: clock.SystemClock) -> None:
    """Has what a class makes go by the machine's clock."""
    system_init = kind.__init__

    @functools.wraps(system_init)
    def init(self: Any, *values: Any, **named: Any) -> None:
        kept = [machine if isinstance(value, clock.SystemClock) else value for value in values]
        system_init(self, *kept, **named)
        self._clock = machine

    kind.__init__ = init


def _replace_waits() -> None:
    """Has events and queues go by `SystemClock`: waits of more than a look are several."""
    monotonic = clock.SystemClock().monotonic
    system_wait = threading.Event.wait

    def wait(self: threading.Event, timeout: float | None = None) -> bool:
        if timeout is None:
            return system_wait(self)
        end = monotonic() + timeout
        while not self.is_set() and (left := end - monotonic()) > 0:
            system_wait(self, min(left, _LOOK_SECONDS))
        return self.is_set()

    def looking(system: Any) -> Any:
        def get(self: Any, block: bool = True, timeout: float | None = None) -> Any:
            if not block or timeout is None:
                return system(self, block, timeout)
            end = monotonic() + timeout
            while (left := end - monotonic()) > _LOOK_SECONDS:
                try:
                    return system(self, block, _LOOK_SECONDS)
                except queue.Empty:
                    continue
            return system(self, block, max(left, 0.0))

        return get

    class SimpleQueue(queue.SimpleQueue):  # type: ignore[type-arg]
        get = looking(queue.SimpleQueue.get)

    threading.Event.wait = wait  # type: ignore[method-assign]
    queue.Queue.get = looking(queue.Queue.get)  # type: ignore[method-assign]
    queue.SimpleQueue = SimpleQueue  # type: ignore[misc]
