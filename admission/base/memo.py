"""Results of a pure function, kept for the next caller with the same question."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """A bounded table of results; emptied when it is full, because pods come in runs of equals.

    Safe to use from several threads: at worst a result is computed twice.
    """

    def __init__(self, size: int = 256) -> None:
        self._size = size
        self._results: dict[Hashable, T] = {}

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the kept result for the key, or that of ``compute``."""
        results = self._results
        if key in results:
            return results[key]
        result = compute()
        if len(results) >= self._size:
            self._results = {}
        self._results[key] = result
        return result
