"""When Workloads that wait may start, estimated from the time limits of what holds quota.

Two sources are put into the values of `admission.scheduling.starts`: what the controller knows,
for the dashboard, and what was read from the API server, for `kubectl gpu`. Whatever is not known
for certain gives no estimate.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from admission.answers import cluster, shortages
from admission.answers.cluster import Read
from admission.answers.waiting import Place, Queue
from admission.base import conditions
from admission.base.causes import (
    OF_DOMAINS,
    OF_NODES,
    CapReached,
    ExceedsCap,
    NoFlavor,
    Overtaken,
    PodsComing,
)
from admission.base.conditions import WaitReason
from admission.base.names import (
    ClusterQueueName,
    CohortName,
    FlavorName,
    FlavorResource,
    ResourceName,
    WorkloadKey,
)
from admission.objects import execution_times, run_times
from admission.reasons.next_steps import Code
from admission.scheduling import model, podsets, starts
from admission.scheduling.decisions import Wait
from admission.scheduling.hierarchy import CohortHierarchy, QueueNode
from admission.scheduling.model import FlavorQuotas, QueueingStrategy, ResourceGroup, ResourceQuota
from admission.scheduling.overview import CohortOverview, Overview, QueueOverview
from admission.scheduling.pending import Pending, PendingSnapshot
from admission.scheduling.podsets import PODS, Demand
from admission.scheduling.reserving import ReservingWorkload
from admission.scheduling.starts import Candidate, Choices, Prospect, QuotaEnd, Usage

_MOST_WAITING: Final = 2_000
"""Where more wait in the trees of a page, nobody gets an estimate."""
_MOST_STEPS: Final = 20_000
"""About 20 ms for each tree."""
_MORE_THAN_QUOTA: Final = (CapReached, ExceedsCap, *OF_NODES, *OF_DOMAINS)
_UNDECIDED: Final = frozenset({WaitReason.PENDING_EVALUATION, WaitReason.WAITING_FOR_PREEMPTED})
_QUOTA_ONLY: Final = frozenset(
    {Code.WAITING_FOR_QUOTA, Code.WAITING_FOR_PREEMPTED, Code.PENDING_EVALUATION, ""}
)
"""Reasons of those that start once they have quota."""

Starts = Mapping[WorkloadKey, datetime]
"""When Workloads start; those without an estimate are left out."""


class Source(Protocol):
    """What the controller knows."""

    def overview(self) -> Overview:
        """Return the quota of all queues and cohorts, and its use."""
        ...

    def pending(self) -> Mapping[ClusterQueueName, PendingSnapshot]:
        """Return who waits, by ClusterQueue; those where nobody waits are left out."""
        ...

    def quota_ends(self, queues: tuple[ClusterQueueName, ...]) -> tuple[QuotaEnd, ...]:
        """Return when quota of ClusterQueues is given back that is held under a time limit."""
        ...

    def prospects(self, keys: tuple[WorkloadKey, ...]) -> tuple[Prospect, ...]:
        """Return what decides when Workloads that wait may start, in the order of the keys."""
        ...


def of_source(source: Source, queues: Iterable[ClusterQueueName], now: datetime) -> Starts:
    """Return estimates for all that wait in the trees of some ClusterQueues.

    Args:
        source: what the controller knows.
        queues: ClusterQueues of which somebody is shown who waits.
        now: the present.
    """
    overview = source.overview()
    times: dict[WorkloadKey, datetime] = {}
    for members in _trees(overview, frozenset(queues)):
        ends = source.quota_ends(tuple(queue.name for queue in members))
        if ends:
            times |= _of_tree(source, members, overview.cohorts, ends, now)
    return times


def _trees(
    overview: Overview, queues: frozenset[ClusterQueueName]
) -> Iterator[list[QueueOverview]]:
    """Yield the ClusterQueues of each tree that has one of some ClusterQueues."""
    parents = {cohort.name: cohort.parent for cohort in overview.cohorts}
    trees: dict[tuple[str, str], list[QueueOverview]] = {}
    for queue in overview.queues:
        root = _root(queue.cohort, parents)
        if root is not None:
            trees.setdefault((root, "" if root else queue.name), []).append(queue)
    for members in trees.values():
        if any(queue.name in queues for queue in members):
            yield members


def _root(cohort: str, parents: Mapping[CohortName, str]) -> str | None:
    """Return the top of the tree above a ClusterQueue; empty for none, None for a cycle."""
    seen: set[str] = set()
    while parent := parents.get(CohortName(cohort), ""):
        if cohort in seen:
            return None
        seen.add(cohort)
        cohort = parent
    return cohort


def _of_tree(
    source: Source,
    members: Sequence[QueueOverview],
    cohorts: Iterable[CohortOverview],
    ends: Iterable[QuotaEnd],
    now: datetime,
) -> Starts:
    pending = source.pending()
    lines = [
        (queue, sorted(pending[queue.name].members, key=pending[queue.name].sort_key()))
        for queue in members
        if queue.name in pending
    ]
    keys = tuple(item.key for _, line in lines for item in line)
    if len(keys) > _MOST_WAITING:
        return {}
    prospects = dict(zip(keys, source.prospects(keys), strict=True))
    candidates = {}
    for queue, line in lines:
        groups = _groups(queue.quotas)
        candidates[queue.name] = [
            _candidate(item, queue, groups, prospects[item.key]) for item in line
        ]
    return _estimated(_forest(members, cohorts), ends, candidates, now)


def of_read(read: Read, queues: Iterable[Queue], now: datetime) -> Starts:
    """Return estimates for those that wait in ClusterQueues; none where not all could be read.

    A tree with a ClusterQueue that cannot have all of its quota has none, as it is not known here
    how much it can have.

    Args:
        read: queues, Workloads and LocalQueues.
        queues: every ClusterQueue in which somebody waits, in the order in which they are tried.
        now: the present.
    """
    if not _is_whole(read):
        return {}
    ends = tuple(_ends_of(read))
    lines: dict[ClusterQueueName, list[Candidate]] = {}
    count = 0
    for queue in queues:
        node = read.forest.queues.get(ClusterQueueName(queue.name))
        if queue.hidden:
            return {}
        if node is None:
            continue
        count += len(queue.waiting)
        lines[node.name] = [_candidate_of(read, node, place) for place in queue.waiting]
    if not ends or count > _MOST_WAITING:
        return {}
    forest = cluster.relate(read.objects).forest  # it is used up
    times = _estimated(forest, ends, lines, now)
    return {key: start for key, start in times.items() if _has_all_quota(read, key)}


def _is_whole(read: Read) -> bool:
    """Return whether all was read that tells until when quota is held."""
    return not read.unreadable and may_read_all(read)


def may_read_all(read: Read) -> bool:
    """Return whether the caller may read all that tells until when quota is held."""
    kinds = ("ClusterQueue", "Cohort", "LocalQueue", "Workload")
    return all(cluster.is_whole(read.missing, kind) for kind in kinds)


NOT_READ: Final = "start not known: your user may not read other queues and what runs in them"
"""Why there is no estimate for who may not read all."""


def waiting_for_unlimited(read: Read, queues: Iterable[Queue]) -> frozenset[WorkloadKey]:
    """Return who waits for quota alone where work without a time limit holds some of it.

    Args:
        read: queues, Workloads and LocalQueues.
        queues: ClusterQueues with those who wait there.
    """
    if not _is_whole(read):
        return frozenset()
    endless: set[ClusterQueueName] = set()
    for holder in read.holding.values():
        node = read.forest.queues.get(ClusterQueueName(holder.cluster_queue))
        if node is None or node.name in endless or _limit_of(read, holder) is not None:
            continue
        root = node.root()
        endless |= {leaf.name for leaf in root.leaves()}
    return frozenset(
        place.key
        for queue in queues
        for place in queue.waiting
        if place.reason in _QUOTA_ONLY
        and not place.never
        and read.cluster_queue_of(place.namespace, place.local_queue) in endless
    )


def _estimated(
    forest: CohortHierarchy, ends: Iterable[QuotaEnd], lines: starts.Lines, now: datetime
) -> Starts:
    now_us = int(now.timestamp() * 1_000_000)
    starts_us = starts.estimate(forest, ends, lines, now_us, _MOST_STEPS)
    return {
        key: datetime.fromtimestamp(-(-at_us // 1_000_000), UTC)
        for key, at_us in starts_us.items()
    }


def _forest(
    members: Iterable[QueueOverview], cohorts: Iterable[CohortOverview]
) -> CohortHierarchy:
    forest = CohortHierarchy()
    for cohort in cohorts:
        forest.set_cohort(
            model.Cohort(
                name=cohort.name,
                parent=CohortName(cohort.parent) if cohort.parent else None,
                resource_groups=_groups(cohort.quotas),
            )
        )
    for queue in members:
        node = forest.set_queue(
            model.ClusterQueue(
                name=queue.name,
                cohort=CohortName(queue.cohort) if queue.cohort else None,
                resource_groups=_groups(queue.quotas),
                queueing_strategy=QueueingStrategy.STRICT_FIFO
                if queue.is_strict
                else QueueingStrategy.BEST_EFFORT_FIFO,
            )
        )
        node.usage = {pair: used - queue.surge.get(pair, 0) for pair, used in queue.used.items()}
    forest.refresh()
    return forest


def _groups(quotas: Mapping[FlavorResource, ResourceQuota]) -> tuple[ResourceGroup, ...]:
    """Return the groups that quotas come from: a flavor is in one group only."""
    flavors: dict[FlavorName, dict[ResourceName, ResourceQuota]] = {}
    for pair, quota in quotas.items():
        flavors.setdefault(pair.flavor, {})[pair.resource] = quota
    groups: dict[tuple[ResourceName, ...], list[FlavorQuotas]] = {}
    for name, of_flavor in flavors.items():
        members = groups.setdefault(tuple(sorted(of_flavor)), [])
        members.append(FlavorQuotas(name=name, resources=of_flavor))
    return tuple(
        ResourceGroup(covered_resources=covered, flavors=tuple(in_group))
        for covered, in_group in groups.items()
    )


def _candidate(
    item: Pending, queue: QueueOverview, groups: Sequence[ResourceGroup], prospect: Prospect
) -> Candidate:
    choices = tuple(
        choice
        for demand in item.demands
        for choice in _choices(demand, groups, _flavors(demand, prospect.wait))
    )
    is_enough = queue.active and _needs_quota_only(prospect.wait)
    return Candidate(
        workload=item.key,
        order=item.order,
        choices=choices,
        run_us=prospect.run_us,
        is_quota_enough=is_enough and bool(choices),
        is_certain=_is_certain(prospect.wait, choices) and item.replaces is None,
    )


def _flavors(demand: Demand, wait: Wait | None) -> frozenset[FlavorName]:
    """Return the flavors of which a pod set lacks quota; empty where all may serve it."""
    shortages = () if wait is None else wait.shortages
    return frozenset(
        shortage.flavor for shortage in shortages if shortage.pod_set == demand.pod_set.name
    )


def _choices(
    demand: Demand, groups: Iterable[ResourceGroup], flavors: frozenset[FlavorName]
) -> Iterator[tuple[Usage, ...]]:
    """Yield what a pod set takes: of each group, one of the flavors that may serve it."""
    for group in groups:
        counted = demand.with_pods() if PODS in group.covered_resources else demand
        resources = sorted(counted.requests.keys() & set(group.covered_resources))
        if not any(counted.requests[resource] for resource in resources):
            continue
        yield tuple(
            tuple(
                (FlavorResource(flavor.name, resource), counted.in_flavor(flavor.name, resource))
                for resource in resources
            )
            for flavor in group.flavors
            if flavor.name not in demand.pod_set.unsuited
            and (not flavors & {other.name for other in group.flavors} or flavor.name in flavors)
        )


def _needs_quota_only(wait: Wait | None) -> bool:
    """Return whether a workload starts once it has quota, as far as that is known."""
    if wait is None or wait.reason in _UNDECIDED or isinstance(wait.why, Overtaken | PodsComing):
        return True
    return (
        wait.reason == WaitReason.WAITING_FOR_QUOTA
        and isinstance(wait.why, NoFlavor)
        and not any(isinstance(refusal, _MORE_THAN_QUOTA) for refusal in wait.why.refusals)
    )


def _is_certain(wait: Wait | None, choices: Choices) -> bool:
    """Return whether it is known which flavors may serve a workload, and that it only waits."""
    if wait is None:
        return all(len(alternatives) == 1 for alternatives in choices)
    return isinstance(wait.why, NoFlavor)


# ------------------------------------------------------------------ what was read for a command


def _ends_of(read: Read) -> Iterator[QuotaEnd]:
    for holder in read.holding.values():
        workload, limit = read.workloads[holder.workload_key], _limit_of(read, holder)
        end = None if holder.surges else execution_times.execution_end(workload, limit)
        if end is not None:
            yield QuotaEnd(
                cluster_queue=holder.cluster_queue,
                usage=tuple(sorted(holder.usage.items())),
                at_us=int(end.timestamp()) * 1_000_000,
            )


def _limit_of(read: Read, holder: ReservingWorkload) -> run_times.Limit | None:
    return execution_times.run_limit(
        read.workloads[holder.workload_key],
        read.queues.get(holder.cluster_queue),
        read.locals_.get((holder.local_queue.namespace, holder.local_queue.name)),
    )


def _candidate_of(read: Read, node: QueueNode, place: Place) -> Candidate:
    key = place.key
    workload, value = read.workloads[key], read.values[key]
    limit = execution_times.run_limit(
        workload, read.queues.get(node.name), read.locals_.get((key.namespace, place.local_queue))
    )
    left = execution_times.left(workload, limit)
    taken: dict[tuple[str, int], dict[FlavorName, list[tuple[FlavorResource, int]]]] = {}
    groups = {id(group): at for at, group in enumerate(node.spec.resource_groups)}
    queue = read.queues.get(node.name)
    for shortage in shortages.of_workload(node, workload, queue, read.objects.flavors):
        group = groups[id(node.group_of[shortage.resource])]
        pair = FlavorResource(shortage.flavor, shortage.resource)
        flavors = taken.setdefault((shortage.pod_set, group), {})
        flavors.setdefault(shortage.flavor, []).append((pair, shortage.requested))
    choices = tuple(
        tuple(tuple(sorted(usage)) for usage in flavors.values()) for flavors in taken.values()
    )
    return Candidate(
        workload=key,
        order=(-value.priority, podsets.queue_timestamp(value), value.uid),
        choices=choices,
        run_us=None if left is None else left // timedelta(microseconds=1),
        is_quota_enough=bool(choices) and place.reason in _QUOTA_ONLY,
        is_certain=place.reason == Code.WAITING_FOR_QUOTA,
    )


def _has_all_quota(read: Read, key: WorkloadKey) -> bool:
    value = read.values[key]
    node = read.forest.queues[ClusterQueueName(read.cluster_queue_of(*value.queue))]
    root = node.root()
    leaves = root.leaves()
    return not any(
        condition.type == conditions.CAPACITY_SUFFICIENT and condition.status == "False"
        for leaf in leaves
        for condition in read.queues[leaf.name].status.conditions or ()
    )
