"""Who holds quota and GPUs: since when, own or borrowed, where, and what may take it back.

`of` returns plain data, `document` the same as JSON; docs/reference/commands.md documents it.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from admission.answers import cluster, owning, quota_use
from admission.answers.cluster import Read
from admission.base import clock, durations, names
from admission.base.names import FlavorResource, WorkloadKey
from admission.objects import pods, views
from admission.objects import run_times as run_time_limits
from admission.scheduling import quota
from admission.scheduling.hierarchy import QueueNode, members
from admission.scheduling.model import PreemptionPolicy
from admission.scheduling.reserving import ReservingWorkload

_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldQuota:
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
        taken_back_by: who could take it back and when, a phrase each; empty for nobody, None
            where its ClusterQueue may not be read.
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
    held: tuple[HeldQuota, ...]
    pods: tuple[Running, ...]
    taken_back_by: tuple[str, ...] | None
    not_before: str = ""


def of(read: Read) -> tuple[Holder, ...]:
    """Return every holder, sorted by ClusterQueue, namespace and name; those of none come last."""
    borrowed = _borrowed(read)
    holders = [_of_workload(read, workload, borrowed) for workload in read.holding.values()]
    holders += [
        _of_pod(pod)
        for pod in read.objects.pods
        if _workload_of(pod) not in read.holding and pods.held_gpus(pod)
    ]
    return tuple(
        sorted(
            holders,
            key=lambda holder: (
                not holder.cluster_queue,
                holder.cluster_queue,
                holder.namespace,
                holder.workload,
                holder.owner,
            ),
        )
    )


def on_node(holders: Iterable[Holder], node: str) -> tuple[Holder, ...]:
    """Return those with pods on a node, with these pods only."""
    return tuple(
        replace(holder, pods=pods_here)
        for holder in holders
        if (pods_here := tuple(pod for pod in holder.pods if pod.node == node))
    )


def in_queue(holders: Iterable[Holder], queue: str) -> tuple[Holder, ...]:
    """Return those of a ClusterQueue, or of a LocalQueue as ``namespace/name``."""
    namespace, _, local = queue.rpartition("/")
    return tuple(
        holder
        for holder in holders
        if (
            (holder.namespace, holder.local_queue) == (namespace, local)
            if namespace
            else holder.cluster_queue == queue
        )
    )


def short_user(user: str) -> str:
    """Return how people call a user: ``ada`` of ``ada@example.com``, the account's own name."""
    if user.startswith(_SERVICE_ACCOUNT):
        return user.rpartition(":")[2]
    return user.partition("@")[0]


_SERVICE_ACCOUNT: Final = "system:serviceaccount:"


def users_called(typed: str, users: Iterable[str]) -> tuple[str, ...]:
    """Return the users that a name may mean: the one of that name, else all called so; sorted."""
    names_of_users = set(users)
    if typed in names_of_users:
        return (typed,)
    return tuple(sorted(user for user in names_of_users if short_user(user) == typed))


def of_user(holders: Iterable[Holder], user: str) -> tuple[Holder, ...]:
    """Return what a user has asked for."""
    return tuple(holder for holder in holders if holder.requester == user)


def _workload_of(pod: views.Pod) -> WorkloadKey:
    """The Workload that a released pod names."""
    return WorkloadKey(pod.metadata.namespace, pod.metadata.annotation(names.WORKLOAD_ANNOTATION))


def _borrowed(read: Read) -> dict[WorkloadKey, dict[FlavorResource, int]]:
    """What each Workload holds of that which its ClusterQueue has borrowed."""
    by_queue: dict[str, list[ReservingWorkload]] = {}
    for workload in read.holding.values():
        if not workload.surges:
            by_queue.setdefault(workload.cluster_queue, []).append(workload)
    borrowed: dict[WorkloadKey, dict[FlavorResource, int]] = {}
    for name, node in read.admitting.queues.items():
        left = _borrowing(node)
        for workload in sorted(by_queue.get(name, ()), key=_taken_first):
            for pair in workload.usage.keys() & left.keys():
                part = min(left[pair], workload.usage[pair])
                left[pair] -= part
                if part:
                    borrowed.setdefault(workload.workload_key, {})[pair] = part
    return borrowed


def _borrowing(node: QueueNode) -> dict[FlavorResource, int]:
    if node.parent is None:
        return {}
    return {
        pair: used - quota.nominal(node, pair)
        for pair, used in node.usage.items()
        if used > quota.nominal(node, pair)
    }


def _unknown(read: Read, workload: ReservingWorkload) -> AbstractSet[FlavorResource]:
    """Return of what it is not known how much of it a Workload has borrowed."""
    node = read.admitting.queues.get(workload.cluster_queue)
    if node is None:
        return workload.usage.keys()
    is_whole = cluster.is_whole(read.missing, "Workload")
    return frozenset() if is_whole else _borrowing(node).keys()


def _taken_first(workload: ReservingWorkload) -> tuple[bool, int, int, str]:
    """As `scheduling.preemption.candidates` orders the Workloads of one ClusterQueue."""
    return not workload.evicted, workload.priority, -workload.reserved_us, workload.uid


def _of_workload(
    read: Read,
    workload: ReservingWorkload,
    borrowed: Mapping[WorkloadKey, Mapping[FlavorResource, int]],
) -> Holder:
    view = read.workloads[workload.workload_key]
    leaves = read.is_releasing(workload.workload_key)
    state = "releasing" if leaves else "admitted" if workload.admitted else "reserved"
    borrowed_here = borrowed.get(workload.workload_key, {})
    unknown = _unknown(read, workload)
    pairs = sorted(
        workload.usage, key=lambda pair: (quota_use.order_of(pair.resource), pair.flavor)
    )
    return Holder(
        namespace=workload.key.namespace,
        workload=workload.key.name,
        owner=owning.owner_of(view),
        requester=owning.requester_of(view.metadata),
        cluster_queue=workload.cluster_queue,
        local_queue=workload.local_queue.name,
        priority=workload.priority,
        since=_time(workload.reserved_us),
        state=state,
        held=tuple(
            HeldQuota(
                flavor=pair.flavor,
                resource=pair.resource,
                amount=workload.usage[pair],
                borrowed=None if pair in unknown else borrowed_here.get(pair, 0),
            )
            for pair in pairs
            if workload.usage[pair]
        ),
        pods=tuple(_running(pod) for pod in read.pods_of.get(workload.workload_key, ())),
        taken_back_by=_taken_back_by(
            read, workload, borrowed_here.keys() | (unknown & workload.usage.keys()), leaves=leaves
        ),
        not_before="" if leaves else _not_before(read, workload),
    )


def _taken_back_by(
    read: Read, workload: ReservingWorkload, borrowed: AbstractSet[FlavorResource], *, leaves: bool
) -> tuple[str, ...] | None:
    if leaves:
        return ()
    if workload.cluster_queue not in read.admitting.queues:
        return None
    return tuple(_takers(read, workload, borrowed))


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


def _takers(
    read: Read, workload: ReservingWorkload, borrowed: AbstractSet[FlavorResource]
) -> Iterator[str]:
    """Who may preempt a Workload, by the policies of the ClusterQueues; phrases.

    Args:
        read: what was read.
        workload: the Workload.
        borrowed: of what it holds what its ClusterQueue has borrowed, or may have.
    """
    node = read.admitting.queues.get(workload.cluster_queue)
    if node is None or workload.stays or workload.surges or not quota.gives_back(node):
        return
    above = f"a priority above {workload.priority}"
    match node.spec.preemption.within_cluster_queue:
        case PreemptionPolicy.LOWER_PRIORITY:
            yield f"Workloads of queue {node.name} with {above}"
        case PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY:
            yield f"Workloads of queue {node.name} with {above}, or with the same and older"
        case PreemptionPolicy.ANY:
            yield f"Workloads of queue {node.name}"
        case PreemptionPolicy.NEVER:
            pass
    whoever, higher = _reclaimers(node, borrowed)
    if whoever:
        yield f"{_names(whoever)} when it needs its own quota"
    if higher:
        yield f"{_names(higher)} when it needs its own quota, for Workloads with {above}"


def _reclaimers(
    node: QueueNode, borrowed: AbstractSet[FlavorResource]
) -> tuple[list[str], list[str]]:
    """ClusterQueues that reclaim what a ClusterQueue has borrowed.

    First those that do from any Workload, then those that do from lower priorities.
    """
    whoever: list[str] = []
    higher: list[str] = []
    for other in sorted(
        (other for other in members(node.root()) if isinstance(other, QueueNode)),
        key=lambda other: other.name,
    ):
        has_quota = any(quota.nominal(other, pair) for pair in borrowed)
        if other is node or not has_quota:
            continue
        policy = other.spec.preemption.reclaim_within_cohort
        if policy == PreemptionPolicy.ANY:
            whoever.append(other.name)
        elif policy != PreemptionPolicy.NEVER:
            higher.append(other.name)
    return whoever, higher


def _names(listed: list[str]) -> str:
    if len(listed) == 1:
        return f"queue {listed[0]}"
    if len(listed) <= _NAMED:
        return f"one of the queues {', '.join(listed)}"
    return f"one of the queues {', '.join(listed[:_NAMED])} and {len(listed) - _NAMED} more"


def _not_before(read: Read, workload: ReservingWorkload) -> str:
    """Until when others are preempted first, whether or not that time is over."""
    node = read.admitting.queues.get(workload.cluster_queue)
    minimum_us = node.spec.minimum_run_us if node is not None else 0
    if not minimum_us or not workload.admitted:
        return ""
    local = read.locals_.get((workload.local_queue.namespace, workload.local_queue.name))
    of_local = None if local is None else run_time_limits.readable(local.metadata).minimum
    return _time(
        workload.admitted_us + durations.narrowed(minimum_us, of_local, workload.minimum_run_us)
    )


def _time(microseconds: int) -> str:
    if not microseconds:
        return ""
    return clock.to_wire(datetime.fromtimestamp(microseconds // 1_000_000, UTC))


def document(holders: Iterable[Holder], missing: Iterable[str]) -> dict[str, Any]:
    """Return the answer as JSON."""
    return {
        "apiVersion": quota_use.API_VERSION,
        "kind": "Holders",
        "holders": [
            {
                "namespace": holder.namespace,
                "workload": holder.workload,
                "owner": holder.owner,
                "requester": holder.requester,
                "clusterQueue": holder.cluster_queue,
                "localQueue": holder.local_queue,
                "priority": holder.priority,
                "since": holder.since,
                "state": holder.state,
                "held": [
                    {
                        "flavor": amount_held.flavor,
                        "resource": amount_held.resource,
                        "amount": quota_use.amount_text(amount_held.resource, amount_held.amount),
                        "borrowed": quota_use.amount_text(
                            amount_held.resource, amount_held.borrowed
                        ),
                    }
                    for amount_held in holder.held
                ],
                "pods": [
                    {
                        "name": pod.name,
                        "node": pod.node,
                        "gpus": quota_use.amounts_document(pod.gpus),
                        "ending": pod.ending,
                    }
                    for pod in holder.pods
                ],
                "takenBackBy": None
                if holder.taken_back_by is None
                else list(holder.taken_back_by),
                "notBefore": holder.not_before,
            }
            for holder in holders
        ],
        "missing": list(missing),
    }
