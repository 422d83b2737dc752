"""A cache of answers of the API server, valid for some seconds."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from admission.base.clock import Clock

_MOST: Final = 4_096

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class ExpiringCache(Generic[Key, Value]):
    """A bounded cache whose entries expire; any thread may use it.

    An answer that another thread is waiting for may be fetched twice.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._lock = threading.Lock()
        self._known: OrderedDict[Key, tuple[float, Value]] = OrderedDict()

    def get(self, key: Key, fetch: Callable[[], Value]) -> Value:
        """Return the remembered answer, or a new one; what ``fetch`` raises is not remembered."""
        with self._lock:
            entry = self._known.get(key)
            if entry is not None and self._clock.monotonic() < entry[0]:
                return entry[1]
        value = fetch()
        with self._lock:
            self._known[key] = (self._clock.monotonic() + self._seconds, value)
            self._known.move_to_end(key)
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
        return value
