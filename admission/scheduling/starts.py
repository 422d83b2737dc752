"""When waiting workloads start, estimated from the time limits of what holds quota.

Quota that is held under a time limit is free when the limit ends, if not before. `estimate` lets
time pass on a copy of the quota trees: quota is given back when its limit ends and not before,
and those that wait take it in their order. What has no limit is never given back there; that some
end sooner, are preempted, or come later and go first is not foreseen. So the result is an
estimate, and many workloads have none.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from admission.base.names import ClusterQueueName, FlavorResource, WorkloadKey
from admission.scheduling import quota
from admission.scheduling.decisions import Wait
from admission.scheduling.hierarchy import CohortHierarchy, QueueNode
from admission.scheduling.model import QueueingStrategy

Usage = tuple[tuple[FlavorResource, int], ...]
"""Amounts by flavor and resource, canonical units, sorted."""

Choices = tuple[tuple[Usage, ...], ...]
"""What is taken together: one alternative of each, the first that is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEnd:
    """Quota that is given back at a certain time, if not before.

    Attributes:
        cluster_queue: the ClusterQueue whose quota it is.
        usage: what is given back.
        at_us: when, in microseconds since the epoch.
    """

    cluster_queue: ClusterQueueName
    usage: Usage
    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """What decides when a workload that waits may start, besides quota.

    Attributes:
        run_us: how long it may run once it is admitted; None for ever.
        wait: why it waits; None where it was not tried yet.
    """

    run_us: int | None = None
    wait: Wait | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A workload that waits.

    Attributes:
        order: its place among those of other ClusterQueues; unique, the lowest goes first.
        choices: what it takes.
        run_us: how long it runs at most; None for ever.
        is_quota_enough: whether it starts once it has quota; else it stays where it is.
        is_certain: whether it is known which flavors may serve it; else it gets no estimate.
    """

    workload: WorkloadKey
    order: tuple[int, int, str]
    choices: Choices
    run_us: int | None = None
    is_quota_enough: bool = True
    is_certain: bool = True


Lines = Mapping[ClusterQueueName, Sequence[Candidate]]
"""Who waits in each ClusterQueue, in the order in which they are tried."""


def estimate(
    forest: CohortHierarchy, ends: Iterable[QuotaEnd], lines: Lines, now_us: int, most_steps: int
) -> dict[WorkloadKey, int]:
    """Return when workloads start, in microseconds since the epoch; always later than now.

    Args:
        forest: quota trees with usage, up to date; a copy, which is used up.
        ends: of what holds quota in these trees. What has ended already is about to be given
            back, at a time that is not known.
        lines: everybody who waits in these trees.
        now_us: the present.
        most_steps: so many workloads are looked at, each as often as it is; who has none by then
            gets none.
    """
    passing = _Passing(forest, lines, most_steps)
    for end in ends:
        if end.at_us > now_us and end.cluster_queue in forest.queues:
            passing.end_at(end.at_us, forest.queues[end.cluster_queue], end.usage)
    passing.start_all(now_us)
    while passing.go_on():
        pass
    return {key: at_us for key, at_us in passing.starts.items() if at_us > now_us}


class _Passing:
    """Time that passes on a copy of the quota trees.

    Attributes:
        starts: when those that are certain start; those that start at once too.
    """

    def __init__(self, forest: CohortHierarchy, lines: Lines, most_steps: int) -> None:
        self.starts: dict[WorkloadKey, int] = {}
        self._nodes = forest.queues
        self._waiting = {name: list(line) for name, line in lines.items() if name in forest.queues}
        self._steps = most_steps
        self._ends: list[tuple[int, int, QueueNode, Usage]] = []
        self._numbers = count()

    def end_at(self, at_us: int, node: QueueNode, usage: Usage) -> None:
        """Have quota given back at a time."""
        heapq.heappush(self._ends, (at_us, next(self._numbers), node, usage))

    def go_on(self) -> bool:
        """Let time pass until quota is given back; return whether it passed."""
        if not self._ends or self._steps <= 0:
            return False
        at_us = self._ends[0][0]
        while self._ends and self._ends[0][0] == at_us:
            _, _, node, usage = heapq.heappop(self._ends)
            for pair, amount in usage:
                quota.remove_usage(node, pair, amount)
        self.start_all(at_us)
        return True

    def start_all(self, at_us: int) -> None:
        """Start whoever finds enough quota, in order."""
        heads = [(line[0].order, name, 0) for name, line in self._waiting.items() if line]
        heapq.heapify(heads)
        started: dict[ClusterQueueName, set[int]] = {}
        lacking: set[tuple[ClusterQueueName, Choices]] = set()
        while heads and self._steps > 0:
            _, name, index = heads[0]
            self._steps -= 1
            line, node = self._waiting[name], self._nodes[name]
            candidate = line[index]
            request = (name, candidate.choices)
            taken = None if request in lacking else self._start(node, candidate, at_us)
            if taken:
                started.setdefault(name, set()).add(index)
            elif candidate.is_quota_enough:
                lacking.add(request)
            is_blocked = not taken and node.spec.queueing_strategy == _STRICT
            if is_blocked or index + 1 == len(line):
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (line[index + 1].order, name, index + 1))
        for name, indexes in started.items():
            self._waiting[name] = [
                candidate
                for index, candidate in enumerate(self._waiting[name])
                if index not in indexes
            ]

    def _start(self, node: QueueNode, candidate: Candidate, at_us: int) -> bool:
        """Start a workload if there is enough quota; return whether there is."""
        usage = _take(node, candidate.choices) if candidate.is_quota_enough else None
        if usage is None:
            return False
        if candidate.is_certain:
            self.starts[candidate.workload] = at_us
        if candidate.run_us is not None:
            self.end_at(at_us + max(1, candidate.run_us), node, usage)
        return True


def _take(node: QueueNode, choices: Choices) -> Usage | None:
    """Take quota of one alternative of each choice; take nothing where one has none."""
    taken: list[tuple[FlavorResource, int]] = []
    for alternatives in choices:
        usage = next((usage for usage in alternatives if quota.fits(node, dict(usage))), None)
        if usage is None:
            for pair, amount in reversed(taken):
                quota.remove_usage(node, pair, amount)
            return None
        quota.add_all(node, dict(usage))
        taken += usage
    return tuple(taken)


_STRICT: Final = QueueingStrategy.STRICT_FIFO
