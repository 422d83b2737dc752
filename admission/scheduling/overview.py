"""Quota of all queues and cohorts and what is used of it, copied for whoever shows it.

A copy takes microseconds for each queue: what never changes is shared, and the ledger keeps sums.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from admission.base.names import (
    ClusterQueueName,
    CohortName,
    FlavorResource,
    LocalQueueKey,
    ResourceName,
)
from admission.reasons import kueue
from admission.scheduling.activity import InactiveReasons
from admission.scheduling.hierarchy import CohortHierarchy
from admission.scheduling.model import QueueingStrategy, ResourceQuota
from admission.scheduling.pending import PendingQueue
from admission.scheduling.quota_holders import HolderCounts
from admission.scheduling.without_node import WithoutNode

Amounts = Mapping[FlavorResource, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOverview:
    """A ClusterQueue at one moment.

    Attributes:
        name: name of the queue.
        cohort: the cohort above; empty for none.
        quotas: own quota, by flavor and resource in the order of the spec.
        used: what Workloads hold, surge quota included.
        surge: part of ``used`` that is surge quota.
        leaving: part of ``used`` that was told to leave, or that ends.
        without_node: part of ``used`` whose pods are on no node; missing: nothing.
        holding: number of Workloads that hold quota.
        admitted: number of those that are admitted.
        pending: number of Workloads that wait.
        requested: what those ask for, by resource.
        active: whether the queue admits.
        is_strict: whether one that does not fit keeps those behind it waiting.
        problem: why it does not; empty if it does.
    """

    name: ClusterQueueName
    cohort: str
    quotas: Mapping[FlavorResource, ResourceQuota]
    used: Amounts
    surge: Amounts
    leaving: Amounts
    without_node: Mapping[FlavorResource, WithoutNode]
    holding: int
    admitted: int
    pending: int
    requested: Mapping[ResourceName, int]
    active: bool
    is_strict: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortOverview:
    """A cohort at one moment.

    Attributes:
        name: of the cohort.
        parent: the cohort above; empty for none.
        quotas: own quota, beside that of what is below.
    """

    name: CohortName
    parent: str
    quotas: Mapping[FlavorResource, ResourceQuota]

    def without_quotas(self) -> "CohortOverview":
        """Return it for somebody who may know its name only."""
        return replace(self, quotas={})


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOverview:
    """A LocalQueue at one moment.

    Attributes:
        key: its namespace and name.
        cluster_queue: behind it.
        used: what its Workloads hold.
        admitted: part of ``used`` whose Workloads are admitted.
        running: number of Workloads that are admitted.
        pending: number of Workloads that wait.
    """

    key: LocalQueueKey
    cluster_queue: ClusterQueueName
    used: Amounts
    admitted: Amounts
    running: int
    pending: int


@dataclass(frozen=True, slots=True)
class Overview:
    """All queues and cohorts, each sorted by name."""

    queues: tuple[QueueOverview, ...] = ()
    cohorts: tuple[CohortOverview, ...] = ()


def take(
    forest: CohortHierarchy,
    lines: Mapping[ClusterQueueName, PendingQueue],
    tally_of: Callable[[ClusterQueueName], HolderCounts],
    without_node: Callable[[ClusterQueueName], Mapping[FlavorResource, WithoutNode]],
    blocked: Mapping[ClusterQueueName, InactiveReasons],
) -> Overview:
    """Return a copy.

    Args:
        forest: quota trees, up to date.
        lines: who waits, by ClusterQueue.
        tally_of: sums of one ClusterQueue.
        without_node: what is held without a node in one ClusterQueue.
        blocked: reasons why ClusterQueues admit nothing; none for one that does.
    """
    queues = []
    for name in sorted(forest.queues):
        node, tally, line = forest.queues[name], tally_of(name), lines.get(name)
        queues.append(
            QueueOverview(
                name=name,
                cohort="" if node.declared is None else node.declared.name,
                quotas=node.quotas,
                used=dict(tally.reservation),
                surge=dict(node.surge_usage),
                leaving=dict(tally.leaving),
                without_node=without_node(name),
                holding=tally.reserving,
                admitted=tally.admitted,
                pending=0 if line is None else len(line),
                requested={} if line is None else dict(line.requested),
                active=not blocked.get(name),
                is_strict=node.spec.queueing_strategy == QueueingStrategy.STRICT_FIFO,
                problem=_problem(blocked.get(name, ())),
            )
        )
    cohorts = [
        CohortOverview(
            name=name,
            parent="" if node.declared is None else node.declared.name,
            quotas=node.quotas,
        )
        for name, node in sorted(forest.cohorts.items())
    ]
    return Overview(tuple(queues), tuple(cohorts))


def _problem(blockers: InactiveReasons) -> str:
    return kueue.admits_nothing(blockers).message if blockers else ""
