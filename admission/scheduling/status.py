"""Status of queues and cohorts, computed from the quota tree.

Source: kueue pkg/cache/scheduler (clusterqueue.go, cache.go), pkg/controller/core.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from admission.base import amount
from admission.base.conditions import Text
from admission.base.names import ClusterQueueName, FlavorResource, ResourceName
from admission.reasons import kueue
from admission.scheduling import fairshare, quota
from admission.scheduling.activity import InactiveReasons
from admission.scheduling.fairshare import Share
from admission.scheduling.hierarchy import CohortNode, QueueNode, QuotaNode, members
from admission.scheduling.model import LocalQueue, StopPolicy
from admission.scheduling.pending import PendingQueue
from admission.scheduling.quota_holders import HolderCounts
from admission.scheduling.without_node import WithoutNode

Amounts = Mapping[FlavorResource, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    """Status of a ClusterQueue or LocalQueue.

    Attributes:
        active: whether the condition Active is True; ``reason`` and ``message`` are its texts.
        pending: workloads that wait, parked ones included.
        parked: those of them that are not tried until something changes.
        active_classes: groups of equal workloads among those that are tried; ClusterQueues only.
        parked_classes: groups of equal workloads among ``parked``; ClusterQueues only.
        oldest_us: since when the one of ``pending`` waits that has waited longest; None where
            nobody waits; ClusterQueues only.
        requested: what ``pending`` ask for, by resource; ClusterQueues only.
        reserving: workloads that hold quota.
        admitted: those of them that may run.
        reservation: usage of ``reserving``; every flavor in spec order, its resources by name,
            then what is held of flavors that the spec lists no more.
        usage: usage of ``admitted``; same layout.
        borrowed_reservation: part of ``reservation`` above nominal quota; same layout.
        borrowed_usage: part of ``usage`` above nominal quota; same layout.
        surge_usage: part of ``reservation`` that is surge quota; ClusterQueues only.
        without_node: what admitted workloads hold whose pods are on no node; missing: nothing;
            ClusterQueues only.
        nominal: nominal quota of the ClusterQueue, also what of it is withheld; LocalQueues only.
        max_per_user: the most that one user may hold in the ClusterQueue; LocalQueues only.
        weighted_share: fair share; None unless fair sharing is on.
    """

    active: bool
    reason: str
    message: str
    pending: int = 0
    parked: int = 0
    active_classes: int = 0
    parked_classes: int = 0
    oldest_us: int | None = None
    requested: Mapping[ResourceName, int] = field(default_factory=dict)
    reserving: int = 0
    admitted: int = 0
    reservation: Amounts = field(default_factory=dict)
    usage: Amounts = field(default_factory=dict)
    borrowed_reservation: Amounts = field(default_factory=dict)
    borrowed_usage: Amounts = field(default_factory=dict)
    surge_usage: Amounts = field(default_factory=dict)
    without_node: Mapping[FlavorResource, WithoutNode] = field(default_factory=dict)
    nominal: Amounts = field(default_factory=dict)
    max_per_user: Mapping[ResourceName, int] = field(default_factory=dict)
    weighted_share: Share | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortReport:
    """Status of a cohort, and what its metrics show.

    Attributes:
        parent: the cohort above; empty for a root.
        root: the top of the tree.
        quota: nominal quota of the whole subtree that can be used here.
        reservation: what workloads of the subtree hold.
        admitted: how many of them may run.
        weighted_share: fair share; None unless fair sharing is on.
    """

    parent: str
    root: str
    quota: Amounts
    reservation: Amounts
    admitted: int
    weighted_share: Share | None


def of_cluster_queue(
    node: QueueNode,
    tally: HolderCounts,
    *,
    without_node: Mapping[FlavorResource, WithoutNode],
    line: PendingQueue,
    blocked: InactiveReasons,
    fair: bool,
) -> QueueReport:
    """Return the status of a ClusterQueue; ``blocked`` as `Dependencies` gave it."""
    text = kueue.admits_nothing(blocked) if blocked else kueue.CAN_ADMIT
    active_classes, parked_classes = line.count_classes()
    reservation = _laid_out(node, tally.reservation)
    usage = _laid_out(node, tally.usage)
    return QueueReport(
        active=not blocked,
        reason=text.reason,
        message=text.message,
        pending=len(line),
        parked=line.parked_count,
        active_classes=active_classes,
        parked_classes=parked_classes,
        oldest_us=line.oldest_us,
        requested=_requested(node, line),
        reserving=tally.reserving,
        admitted=tally.admitted,
        reservation=reservation,
        usage=usage,
        borrowed_reservation=_borrowed(node, reservation),
        borrowed_usage=_borrowed(node, usage),
        surge_usage=dict(node.surge_usage),
        without_node=without_node,
        weighted_share=share_of(node, fair=fair),
    )


def of_local_queue(
    local: LocalQueue,
    node: QueueNode | None,
    tally: HolderCounts,
    *,
    pending: int,
    parked: int,
    blocked: bool,
) -> QueueReport:
    """Return the status of a LocalQueue whose ClusterQueue may be missing or ``blocked``."""
    stopped = local.stop_policy != StopPolicy.NONE
    text = _of_local(stopped=stopped, missing=node is None, blocked=blocked)
    active = text is kueue.CAN_SUBMIT
    if node is None:
        return QueueReport(active=active, reason=text.reason, message=text.message)
    return QueueReport(
        active=active,
        reason=text.reason,
        message=text.message,
        pending=0 if stopped else pending,
        parked=0 if stopped else parked,
        reserving=tally.reserving,
        admitted=tally.admitted,
        reservation=_laid_out(node, tally.reservation),
        usage=_laid_out(node, tally.usage),
        nominal=_promised(node),
        max_per_user=node.spec.max_per_user,
    )


def _promised(node: QueueNode) -> Amounts:
    """Return the nominal quota as it is written."""
    return {
        fr: amount.add(quota.nominal(node, fr), quota.withheld(node, fr))
        for fr in _laid_out(node, {})
    }


def _of_local(*, stopped: bool, missing: bool, blocked: bool) -> Text:
    if stopped:
        return kueue.LOCAL_QUEUE_STOPPED
    if missing:
        return kueue.CLUSTER_QUEUE_MISSING
    return kueue.CLUSTER_QUEUE_INACTIVE if blocked else kueue.CAN_SUBMIT


def _requested(node: QueueNode, line: PendingQueue) -> Mapping[ResourceName, int]:
    """Return what those that wait ask for.

    Each covered resource, and others that somebody asks for.
    """
    covered = (r for group in node.spec.resource_groups for r in group.covered_resources)
    requested = {resource: value for resource, value in line.requested.items() if value}
    return dict.fromkeys(covered, 0) | requested


def _laid_out(node: QueueNode, amounts: Amounts) -> Amounts:
    """Every flavor in spec order, its resources by name, zeros included.

    Differs: what is still held of a flavor or resource that the spec lists no more comes last,
    where Kueue shows it nowhere.
    """
    listed = {
        fr: amounts.get(fr, 0)
        for group in node.spec.resource_groups
        for flavor in group.flavors
        for fr in (FlavorResource(flavor.name, r) for r in sorted(group.covered_resources))
    }
    return listed | {fr: amounts[fr] for fr in sorted(amounts.keys() - listed) if amounts[fr]}


def _borrowed(node: QueueNode, amounts: Amounts) -> Amounts:
    if node.spec.cohort is None:
        return dict.fromkeys(amounts, 0)
    surge = node.surge_usage
    return {
        fr: max(0, used - surge.get(fr, 0) - quota.nominal(node, fr))
        for fr, used in amounts.items()
    }


def queues_of(cohort: CohortNode) -> Iterator[ClusterQueueName]:
    """Yield the names of the ClusterQueues of a subtree."""
    return (node.name for node in members(cohort) if isinstance(node, QueueNode))


def of_cohort(node: CohortNode, tallies: Iterable[HolderCounts], *, fair: bool) -> CohortReport:
    """Return the status of a cohort, given the sums of the ClusterQueues of its subtree."""
    reservation: dict[FlavorResource, int] = {}
    admitted = 0
    for tally in tallies:
        admitted += tally.admitted
        for fr, value in tally.reservation.items():
            reservation[fr] = reservation.get(fr, 0) + value
    root = node.root()
    return CohortReport(
        parent="" if node.parent is None else node.parent.name,
        root=root.name if isinstance(root, CohortNode) else "",
        quota=dict(node.subtree),
        reservation=reservation,
        admitted=admitted,
        weighted_share=share_of(node, fair=fair),
    )


def share_of(node: QuotaNode, *, fair: bool) -> Share | None:
    """Return the weighted share of a node; None unless fair sharing is on."""
    return fairshare.of(node) if fair else None
