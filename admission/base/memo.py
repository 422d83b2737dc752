"""Cached results of a pure function."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """A bounded cache; emptied when full, because many equal pods are created in a row.

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
