"""The tree of cohorts and queues as rows of a page, for one resource."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from admission.answers import quota_use
from admission.answers.quota_use import QueueUse
from admission.base import amount
from admission.base.names import FlavorName, FlavorResource, ResourceName
from admission.scheduling.overview import CohortOverview, Overview, QueueOverview
from admission.serve.dashboard import bars
from admission.serve.dashboard.bars import Awaited, Bar

PAGE = 60
"""Rows of a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A cohort or a ClusterQueue.

    Attributes:
        name: of it.
        is_queue: whether it is a ClusterQueue.
        depth: cohorts above it.
        bar: of the resource; a cohort sums up all that is below it.
        counts: whether it, or something below it, has quota of the resource.
        holding: Workloads that hold quota.
        pending: Workloads that wait.
        awaited: what those ask for of the resource; None for nothing.
        awaited_at: where that begins in the bar.
        problem: why it admits nothing; empty where it does.
    """

    name: str
    is_queue: bool
    depth: int
    bar: Bar
    counts: bool
    holding: int
    pending: int
    awaited: Awaited | None
    awaited_at: int
    problem: str = ""


@dataclass(slots=True)
class _Sum:
    """What a subtree has and uses of the resource."""

    nominal: int = 0
    used: int = 0
    leaving: int = 0
    missing: int = 0
    asked: int = 0
    holding: int = 0
    pending: int = 0
    counts: bool = False

    def add(self, other: "_Sum") -> None:
        self.nominal = amount.add(self.nominal, other.nominal)
        self.used += other.used
        self.leaving += other.leaving
        self.missing += other.missing
        self.asked += other.asked
        self.holding += other.holding
        self.pending += other.pending
        self.counts = self.counts or other.counts


class Tree:
    """Rows of an overview, in the order of the tree."""

    def __init__(self, overview: Overview, resource: str) -> None:
        self._resource = resource
        self._uses = {queue.name: queue for queue in quota_use.of_overview(overview).queues}
        self._queues: dict[str, list[QueueOverview]] = {}
        self._cohorts: dict[str, list[CohortOverview]] = {}
        names_ = {cohort.name for cohort in overview.cohorts}
        for queue in overview.queues:
            parent = queue.cohort if queue.cohort in names_ else ""
            self._queues.setdefault(parent, []).append(queue)
        for cohort in overview.cohorts:
            parent = cohort.parent if cohort.parent in names_ else ""
            self._cohorts.setdefault(parent, []).append(cohort)
        self._sums: dict[str, _Sum] = {}

    def rows(self) -> Iterator[Callable[[], Row]]:
        """Return the rows: cohorts with what is below them, by name; then the other queues.

        A page shows few of the rows, and only those cost something.
        """
        for cohort in self._cohorts.get("", ()):
            yield from self._below(cohort, 0)
        yield from self._queues_of("", 0)

    def _below(self, cohort: CohortOverview, depth: int) -> Iterator[Callable[[], Row]]:
        own_sum = self._sum(cohort)
        yield partial(self._row, cohort.name, own_sum, _scale((own_sum,)), depth)
        yield from self._queues_of(cohort.name, depth + 1)
        for child in self._cohorts.get(cohort.name, ()):
            yield from self._below(child, depth + 1)

    def _queues_of(self, cohort: str, depth: int) -> Iterator[Callable[[], Row]]:
        """Yields the queues right below a cohort, all on one scale."""
        queues = self._queues.get(cohort, ())
        scale = _scale([self._of_queue(queue) for queue in queues])
        for queue in queues:
            yield partial(self._queue, queue, scale, depth)

    def _sum(self, cohort: CohortOverview) -> _Sum:
        sum_ = self._sums.get(cohort.name)
        if sum_ is None:
            sum_ = self._sums[cohort.name] = _Sum()
            for pair, cohort_quota in cohort.quotas.items():
                if pair.resource == self._resource:
                    sum_.counts = True
                    sum_.nominal = amount.add(sum_.nominal, cohort_quota.nominal)
            for queue in self._queues.get(cohort.name, ()):
                sum_.add(self._of_queue(queue))
            for child in self._cohorts.get(cohort.name, ()):
                sum_.add(self._sum(child))
        return sum_

    def _of_queue(self, queue: QueueOverview) -> _Sum:
        use = self._uses[queue.name]
        sum_ = _Sum(
            asked=(use.pending.resources or {}).get(self._resource, 0),
            holding=use.reserving,
            pending=use.pending.workloads,
            missing=sum(q.withheld for pair, q in queue.quotas.items() if self._is_of(pair)),
        )
        for line in use.lines:
            if line.resource == self._resource:
                sum_.counts = True
                sum_.nominal = amount.add(sum_.nominal, line.nominal)
                sum_.used += line.used
                sum_.leaving += line.releasing or 0
        return sum_

    def _is_of(self, pair: FlavorResource) -> bool:
        return pair.resource == self._resource

    def _queue(self, queue: QueueOverview, scale: int, depth: int) -> Row:
        sums, use = self._of_queue(queue), self._uses[queue.name]
        return self._row(queue.name, sums, scale, depth, use)

    def _row(
        self, name: str, sums: _Sum, scale: int, depth: int, queue: QueueUse | None = None
    ) -> Row:
        pair = FlavorResource(FlavorName(""), ResourceName(self._resource))
        bar = bars.make(pair, sums.used, sums.nominal, sums.leaving, scale, sums.missing)
        end = bar.own + bar.borrowed
        return Row(
            name=name,
            is_queue=queue is not None,
            depth=min(depth, 5),
            bar=bar,
            counts=sums.counts,
            holding=sums.holding,
            pending=sums.pending,
            awaited=bars.awaited(self._resource, sums.asked, scale, limit=bars.FULL - end)
            if sums.asked
            else None,
            awaited_at=end,
            problem="" if queue is None or queue.active else queue.message or "admits nothing",
        )


def _scale(sums: Iterable[_Sum]) -> int:
    return bars.scale_of(n for sum_ in sums for n in (sum_.nominal, sum_.used)) * 3 // 2 or 1


def all_bars(queue: QueueOverview) -> tuple[Bar, ...]:
    """Return a bar for each flavor and resource of a queue, GPUs first."""
    missing = {
        pair: own_quota.withheld for pair, own_quota in queue.quotas.items() if own_quota.withheld
    }
    (use,) = quota_use.of_overview(Overview((queue,))).queues
    lines = sorted(use.lines, key=lambda line_: not quota_use.is_gpu(line_.resource))
    scales: dict[str, int] = {}
    for line in lines:
        scale = bars.scale_of((line.nominal, line.used))
        scales[line.resource] = max(scale, scales.get(line.resource, 1))
    all_ = []
    for line in lines:
        pair = FlavorResource(FlavorName(line.flavor), ResourceName(line.resource))
        all_.append(
            bars.make(
                pair, line.used, line.nominal, line.releasing or 0, scales[line.resource],
                missing.get(pair, 0), borrowed=line.borrowed,
            )
        )  # fmt: skip
    return tuple(all_)
