"""Who holds quota and GPUs: since when, own or borrowed, where, and what may take it back.

`of` returns plain data, `document` the same as JSON; docs/reference/commands.md documents it.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from admission.base import clock, durations, names
from admission.base.names import FlavorResource, WorkloadKey
from admission.objects import pods, views
from admission.objects import run_times as run_time_limits
from admission.scheduling import quota
from admission.scheduling.hierarchy import QueueNode, members
from admission.scheduling.model import PreemptionPolicy
from admission.scheduling.reserving import ReservingWorkload
from admission.visibility import cluster, owning, quota_use
from admission.visibility.cluster import Read

_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Quota of a Workload in one flavor.

    Attributes:
        flavor: the flavor.
        resource: the resource.
        amount: all of it, in canonical units.
        borrowed: the part of it that its ClusterQueue has borrowed. What is borrowed is counted
            on the Workloads that would be preempted first: lower priority, then newer. None where
            that is not known: the ClusterQueue, or others that hold its quota, may not be read.
    """

    flavor: str
    resource: str
    amount: int
    borrowed: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A pod.

    Attributes:
        name: of it.
        node: the node that it is bound to; empty while it is not bound.
        gpus: what it holds there, by resource.
        ending: whether it is being deleted.
    """

    name: str
    node: str
    gpus: Mapping[str, int]
    ending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A Workload that holds quota, or a pod that holds GPUs without one.

    Attributes:
        namespace: of it.
        workload: name of the Workload; empty where there is none.
        owner: what the Workload was made for, as ``Job train``; the pod where none is.
        requester: who created that; `owning.UNKNOWN` where nobody saw it.
        cluster_queue: the ClusterQueue whose quota it holds; empty for none.
        local_queue: through which it came.
        priority: for preemption.
        since: when the quota was reserved, or the pod was created, RFC 3339.
        state: ``admitted``, ``reserved`` (checks are open), ``releasing``, or ``no quota``.
        held: quota, sorted, GPUs first.
        pods: its pods, sorted by name.
        taken_back_by: who could take it back and when, a phrase each; empty for nobody.
        not_before: until when others are preempted first, RFC 3339; empty for no such time.
    """

    namespace: str
    workload: str
    owner: str
    requester: str
    cluster_queue: str
    local_queue: str
    priority: int
    since: str
    state: str
    held: tuple[Held, ...]
    pods: tuple[Running, ...]
    taken_back_by: tuple[str, ...]
    not_before: str = ""


def of(read: Read) -> tuple[Holder, ...]:
    """Return every holder, sorted by ClusterQueue, namespace and name."""
    borrowed = _borrowed(read)
    found = [_of_workload(read, one, borrowed) for one in read.holding.values()]
    found += [
        _of_pod(pod)
        for pod in read.objects.pods
        if _workload_of(pod) not in read.holding and pods.held_gpus(pod)
    ]
    return tuple(
        sorted(found, key=lambda one: (one.cluster_queue, one.namespace, one.workload, one.owner))
    )


def on_node(found: Iterable[Holder], node: str) -> tuple[Holder, ...]:
    """Return those with pods on a node, with these pods only."""
    return tuple(
        replace(one, pods=here)
        for one in found
        if (here := tuple(pod for pod in one.pods if pod.node == node))
    )


def in_queue(found: Iterable[Holder], queue: str) -> tuple[Holder, ...]:
    """Return those of a ClusterQueue, or of a LocalQueue as ``namespace/name``."""
    namespace, _, local = queue.rpartition("/")
    return tuple(
        one
        for one in found
        if (
            (one.namespace, one.local_queue) == (namespace, local)
            if namespace
            else one.cluster_queue == queue
        )
    )


def of_user(found: Iterable[Holder], user: str) -> tuple[Holder, ...]:
    """Return what a user has asked for."""
    return tuple(one for one in found if one.requester == user)


def _workload_of(pod: views.Pod) -> WorkloadKey:
    """The Workload that a released pod names."""
    return WorkloadKey(pod.metadata.namespace, pod.metadata.annotation(names.WORKLOAD_ANNOTATION))


def _borrowed(read: Read) -> dict[WorkloadKey, dict[FlavorResource, int]]:
    """What each Workload holds of that which its ClusterQueue has borrowed."""
    by_queue: dict[str, list[ReservingWorkload]] = {}
    for one in read.holding.values():
        if not one.surges:
            by_queue.setdefault(one.cluster_queue, []).append(one)
    found: dict[WorkloadKey, dict[FlavorResource, int]] = {}
    for name, node in read.forest.queues.items():
        left = _borrowing(node)
        for one in sorted(by_queue.get(name, ()), key=_taken_first):
            for pair in one.usage.keys() & left.keys():
                part = min(left[pair], one.usage[pair])
                left[pair] -= part
                if part:
                    found.setdefault(one.key, {})[pair] = part
    return found


def _borrowing(node: QueueNode) -> dict[FlavorResource, int]:
    if node.parent is None:
        return {}
    return {
        pair: used - quota.nominal(node, pair)
        for pair, used in node.usage.items()
        if used > quota.nominal(node, pair)
    }


def _unknown(read: Read, one: ReservingWorkload) -> AbstractSet[FlavorResource]:
    """Return of what it is not known how much of it a Workload has borrowed."""
    node = read.forest.queues.get(one.cluster_queue)
    if node is None:
        return one.usage.keys()
    is_whole = cluster.is_whole(read.missing, "Workload")
    return frozenset() if is_whole else _borrowing(node).keys()


def _taken_first(one: ReservingWorkload) -> tuple[bool, int, int, str]:
    """As `scheduling.preemption.candidates` orders the Workloads of one ClusterQueue."""
    return not one.evicted, one.priority, -one.reserved_us, one.uid


def _of_workload(
    read: Read,
    one: ReservingWorkload,
    borrowed: Mapping[WorkloadKey, Mapping[FlavorResource, int]],
) -> Holder:
    view = read.workloads[one.key]
    leaves = read.is_releasing(one.key)
    state = "releasing" if leaves else "admitted" if one.admitted else "reserved"
    own = borrowed.get(one.key, {})
    unknown = _unknown(read, one)
    pairs = sorted(one.usage, key=lambda pair: (quota_use.order_of(pair.resource), pair.flavor))
    return Holder(
        namespace=one.key.namespace,
        workload=one.key.name,
        owner=owning.owner_of(view),
        requester=owning.requester_of(view.metadata),
        cluster_queue=one.cluster_queue,
        local_queue=one.local_queue.name,
        priority=one.priority,
        since=_time(one.reserved_us),
        state=state,
        held=tuple(
            Held(
                flavor=pair.flavor,
                resource=pair.resource,
                amount=one.usage[pair],
                borrowed=None if pair in unknown else own.get(pair, 0),
            )
            for pair in pairs
            if one.usage[pair]
        ),
        pods=tuple(_running(pod) for pod in read.pods_of.get(one.key, ())),
        taken_back_by=() if leaves else tuple(_takers(read, one)),
        not_before="" if leaves else _not_before(read, one),
    )


def _of_pod(pod: views.Pod) -> Holder:
    """A pod that no Workload holds quota for."""
    ends = bool(pod.metadata.deletion_timestamp)
    return Holder(
        namespace=pod.metadata.namespace,
        workload="",
        owner=f"Pod {pod.metadata.name}",
        requester=owning.requester_of(pod.metadata),
        cluster_queue=pod.metadata.label(names.CLUSTER_QUEUE_NAME_LABEL),
        local_queue=pod.metadata.label(names.LOCAL_QUEUE_NAME_LABEL),
        priority=pod.spec.priority or 0,
        since=pod.metadata.creation_timestamp or "",
        state="releasing" if ends else "no quota",
        held=(),
        pods=(_running(pod),),
        taken_back_by=(),
    )


def _running(pod: views.Pod) -> Running:
    return Running(
        name=pod.metadata.name,
        node=pod.spec.node_name,
        gpus=pods.held_gpus(pod) if pod.spec.node_name else {},
        ending=bool(pod.metadata.deletion_timestamp),
    )


def _takers(read: Read, one: ReservingWorkload) -> Iterator[str]:
    """Who may preempt a Workload, by the policies of the ClusterQueues; phrases."""
    node = read.forest.queues.get(one.cluster_queue)
    if node is None or one.stays or one.surges:
        return
    above = f"a priority above {one.priority}"
    match node.spec.preemption.within_cluster_queue:
        case PreemptionPolicy.LOWER_PRIORITY:
            yield f"Workloads of queue {node.name} with {above}"
        case PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY:
            yield f"Workloads of queue {node.name} with {above}, or with the same and older"
        case PreemptionPolicy.ANY:
            yield f"Workloads of queue {node.name}"
        case PreemptionPolicy.NEVER:
            pass
    borrowing = _borrowing(node)
    if borrowing.keys().isdisjoint(pair for pair, n in one.usage.items() if n):
        return
    whoever, higher = _reclaimers(node, one)
    if whoever:
        yield f"{_names(whoever)} when it needs its own quota"
    if higher:
        yield f"{_names(higher)} when it needs its own quota, for Workloads with {above}"


def _reclaimers(node: QueueNode, one: ReservingWorkload) -> tuple[list[str], list[str]]:
    """ClusterQueues that reclaim from any workload, and those that do from lower priorities."""
    whoever: list[str] = []
    higher: list[str] = []
    for other in sorted(
        (other for other in members(node.root()) if isinstance(other, QueueNode)),
        key=lambda other: other.name,
    ):
        has_quota = any(quota.nominal(other, pair) for pair, n in one.usage.items() if n)
        if other is node or not has_quota:
            continue
        policy = other.spec.preemption.reclaim_within_cohort
        if policy == PreemptionPolicy.ANY:
            whoever.append(other.name)
        elif policy != PreemptionPolicy.NEVER:
            higher.append(other.name)
    return whoever, higher


def _names(found: list[str]) -> str:
    if len(found) == 1:
        return f"queue {found[0]}"
    if len(found) <= _NAMED:
        return f"one of the queues {', '.join(found)}"
    return f"one of the queues {', '.join(found[:_NAMED])} and {len(found) - _NAMED} more"


def _not_before(read: Read, one: ReservingWorkload) -> str:
    """Until when others are preempted first, whether or not that time is over."""
    node = read.forest.queues.get(one.cluster_queue)
    given = node.spec.minimum_run_us if node is not None else 0
    if not given or not one.admitted:
        return ""
    local = read.locals_.get((one.local_queue.namespace, one.local_queue.name))
    of_local = None if local is None else run_time_limits.readable(local.metadata).minimum
    return _time(one.admitted_us + durations.narrowed(given, of_local, one.minimum_run_us))


def _time(microseconds: int) -> str:
    if not microseconds:
        return ""
    return clock.to_wire(datetime.fromtimestamp(microseconds // 1_000_000, UTC))


def document(found: Iterable[Holder], missing: Iterable[str]) -> dict[str, Any]:
    """Return the answer as JSON."""
    return {
        "apiVersion": quota_use.API_VERSION,
        "kind": "Holders",
        "holders": [
            {
                "namespace": one.namespace,
                "workload": one.workload,
                "owner": one.owner,
                "requester": one.requester,
                "clusterQueue": one.cluster_queue,
                "localQueue": one.local_queue,
                "priority": one.priority,
                "since": one.since,
                "state": one.state,
                "held": [
                    {
                        "flavor": held.flavor,
                        "resource": held.resource,
                        "amount": quota_use.amount_text(held.resource, held.amount),
                        "borrowed": quota_use.amount_text(held.resource, held.borrowed),
                    }
                    for held in one.held
                ],
                "pods": [
                    {
                        "name": pod.name,
                        "node": pod.node,
                        "gpus": quota_use.amounts_document(pod.gpus),
                        "ending": pod.ending,
                    }
                    for pod in one.pods
                ],
                "takenBackBy": list(one.taken_back_by),
                "notBefore": one.not_before,
            }
            for one in found
        ],
        "missing": list(missing),
    }
