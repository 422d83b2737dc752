"""What is to be done at its time, by whoever is free."""

import heapq
import itertools
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Agenda(Generic[T]):
    """Items in the order of their times; safe to share between threads."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._heap: list[tuple[float, int, T]] = []
        self._serial = itertools.count()
        self._changed = threading.Condition()
        self._is_timed = False

    def put(self, due: float, what: T) -> None:
        """Adds an item; of two that are due together the earlier added comes first."""
        with self._changed:
            heapq.heappush(self._heap, (due, next(self._serial), what))
            if self._heap[0][2] is what:
                self._is_timed = False  # whoever watches the clock for another is too late
                self._changed.notify()

    def take(self) -> T:
        """The next item, once it is due. Of those who wait, one watches the clock."""
        with self._changed:
            while True:
                wait = self._heap[0][0] - self._monotonic() if self._heap else None
                if wait is not None and wait <= 0:
                    what = heapq.heappop(self._heap)[2]
                    self._is_timed = False
                    self._changed.notify()
                    return what
                if wait is None or self._is_timed:
                    self._changed.wait()
                else:
                    self._is_timed = True
                    self._changed.wait(wait)
                    self._is_timed = False
