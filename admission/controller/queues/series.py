"""Series of gauges that belong to one object: set together, and removed when they end."""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from prometheus_client import Gauge


class Sample(NamedTuple):
    """One series and its value."""

    gauge: Gauge
    labels: tuple[str, ...]
    value: float


class Series:
    """Remembers which series an object has, so that those that ended do not stay."""

    def __init__(self) -> None:
        self._owned: dict[Hashable, set[tuple[Gauge, tuple[str, ...]]]] = {}

    def put(self, owner: Hashable, samples: Iterable[Sample]) -> None:
        """Set all series of an object, and remove those that it had before and has no more."""
        now = set()
        for gauge, labels, value in samples:
            gauge.labels(*labels).set(value)
            now.add((gauge, labels))
        for gauge, labels in self._owned.get(owner, set()) - now:
            gauge.remove(*labels)
        self._owned[owner] = now

    def drop(self, owner: Hashable) -> None:
        """Remove all series of an object."""
        for gauge, labels in self._owned.pop(owner, ()):
            gauge.remove(*labels)
