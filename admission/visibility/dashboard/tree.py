"""The tree of cohorts and queues as rows of a page, from an overview."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from admission.base import amount
from admission.base.names import FlavorResource
from admission.scheduling.overview import CohortOverview, Overview, QueueOverview
from admission.visibility.dashboard import bars
from admission.visibility.dashboard.bars import Awaited, Bar

PAGE = 60
"""Rows of a page."""
_MOST_BARS = 8
"""Bars of one row; a queue with more has a page of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A cohort or a ClusterQueue.

    Attributes:
        name: of it.
        is_queue: whether it is a ClusterQueue.
        depth: cohorts above it.
        bars: of its quota; a cohort sums up all that is below it.
        more: bars that are left out.
        holding: Workloads that hold quota.
        pending: Workloads that wait.
        awaited: what those ask for, by resource.
        active: whether it admits.
    """

    name: str
    is_queue: bool
    depth: int
    bars: tuple[Bar, ...]
    more: int
    holding: int
    pending: int
    awaited: tuple[Awaited, ...]
    active: bool


@dataclass(slots=True)
class _Sum:
    """What a subtree has and uses."""

    nominal: dict[FlavorResource, int]
    used: dict[FlavorResource, int]
    leaving: dict[FlavorResource, int]
    missing: dict[FlavorResource, int]
    requested: dict[str, int]
    holding: int = 0
    pending: int = 0

    def add(self, other: "_Sum") -> None:
        for mine, more in (
            (self.nominal, other.nominal), (self.used, other.used), (self.leaving, other.leaving),
            (self.missing, other.missing),
        ):  # fmt: skip
            for pair, value in more.items():
                mine[pair] = amount.add(mine.get(pair, 0), value)
        for name, value in other.requested.items():
            self.requested[name] = self.requested.get(name, 0) + value
        self.holding += other.holding
        self.pending += other.pending


class Tree:
    """Rows of an overview, in the order of the tree."""

    def __init__(self, found: Overview) -> None:
        self._queues: dict[str, list[QueueOverview]] = {}
        self._cohorts: dict[str, list[CohortOverview]] = {}
        known = {one.name for one in found.cohorts}
        for queue in found.queues:
            self._queues.setdefault(queue.cohort, []).append(queue)
        for cohort in found.cohorts:
            parent = cohort.parent if cohort.parent in known else ""
            self._cohorts.setdefault(parent, []).append(cohort)
        self._sums: dict[str, _Sum] = {}

    def rows(self) -> Iterator[Callable[[], Row]]:
        """Return the rows: cohorts with what is below them, by name; then the other queues.

        A page shows few of the rows, and only those cost something.
        """
        for cohort in self._cohorts.get("", ()):
            total = self._sum(cohort)
            yield from self._below(cohort, 0, _scales(total))
        for queue in self._queues.get("", ()):
            yield partial(row_of, queue)

    def _below(
        self, cohort: CohortOverview, depth: int, scales: Mapping[FlavorResource, int]
    ) -> Iterator[Callable[[], Row]]:
        yield partial(_row, cohort.name, self._sum(cohort), scales, depth=depth)
        for queue in self._queues.get(cohort.name, ()):
            yield partial(row_of, queue, scales, depth + 1)
        for child in self._cohorts.get(cohort.name, ()):
            yield from self._below(child, depth + 1, scales)

    def _sum(self, cohort: CohortOverview) -> _Sum:
        known = self._sums.get(cohort.name)
        if known is None:
            nominal = {pair: own.nominal for pair, own in cohort.quotas.items()}
            known = self._sums[cohort.name] = _Sum(nominal, {}, {}, {}, {})
            for queue in self._queues.get(cohort.name, ()):
                known.add(_of_queue(queue))
            for child in self._cohorts.get(cohort.name, ()):
                known.add(self._sum(child))
        return known


def row_of(
    queue: QueueOverview, scales: Mapping[FlavorResource, int] | None = None, depth: int = 0
) -> Row:
    """Return the row of a queue; without scales, its bars are as long as what it has or uses."""
    found = _of_queue(queue)
    scales = _scales(found) if scales is None else scales
    return _row(queue.name, found, scales, depth=depth, is_queue=True, active=queue.active)


def all_bars(queue: QueueOverview) -> tuple[Bar, ...]:
    """Return every bar of a queue."""
    found = _of_queue(queue)
    return tuple(_bars(found, _scales(found)))


def all_awaited(queue: QueueOverview) -> tuple[Awaited, ...]:
    """Return what those that wait in a queue ask for."""
    found = _of_queue(queue)
    return _awaited(found, _scales(found))


def _of_queue(queue: QueueOverview) -> _Sum:
    return _Sum(
        nominal={pair: own.nominal for pair, own in queue.quotas.items()},
        used=dict(queue.used),
        leaving=dict(queue.leaving),
        missing={pair: own.withheld for pair, own in queue.quotas.items() if own.withheld},
        requested={str(name): value for name, value in queue.requested.items()},
        holding=queue.holding,
        pending=queue.pending,
    )


def _scales(found: _Sum) -> dict[FlavorResource, int]:
    return {
        pair: bars.scale_of((found.nominal.get(pair, 0), found.used.get(pair, 0)))
        for pair in found.nominal.keys() | found.used.keys()
    }


def _bars(found: _Sum, scales: Mapping[FlavorResource, int]) -> Iterator[Bar]:
    beyond = sorted(pair for pair, value in found.used.items() if value)
    for pair in dict.fromkeys((*found.nominal, *beyond)):
        yield bars.make(
            pair,
            found.used.get(pair, 0),
            found.nominal.get(pair, 0),
            found.leaving.get(pair, 0),
            scales.get(pair, 1),
            found.missing.get(pair, 0),
        )


def _awaited(found: _Sum, scales: Mapping[FlavorResource, int]) -> tuple[Awaited, ...]:
    """Return what those that wait ask for, on the largest scale of the resource."""
    return tuple(
        bars.awaited(
            name, value, max((n for pair, n in scales.items() if pair.resource == name), default=1)
        )
        for name, value in sorted(found.requested.items())
        if value
    )


def _row(
    name: str,
    found: _Sum,
    scales: Mapping[FlavorResource, int],
    *,
    depth: int,
    is_queue: bool = False,
    active: bool = True,
) -> Row:
    drawn = tuple(_bars(found, scales))
    return Row(
        name=name,
        is_queue=is_queue,
        depth=min(depth, 5),
        bars=drawn[:_MOST_BARS],
        more=max(0, len(drawn) - _MOST_BARS),
        holding=found.holding,
        pending=found.pending,
        awaited=_awaited(found, scales)[:_MOST_BARS],
        active=active,
    )
