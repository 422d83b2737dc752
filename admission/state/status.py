"""Status of queues and cohorts, computed from the quota tree.

Source: kueue pkg/cache/scheduler (clusterqueue.go, cache.go), pkg/controller/core.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from admission.base.names import FlavorName, FlavorResource
from admission.engine import fairshare, quota
from admission.engine.hierarchy import Node, QueueNode
from admission.engine.model import ClusterQueue, LocalQueue, ResourceFlavor, StopPolicy
from admission.state.ledger import Tally

Amounts = Mapping[FlavorResource, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """Status of a ClusterQueue or LocalQueue.

    Attributes:
        active: whether the condition Active is True; ``reason`` and ``message`` are its texts.
        pending: workloads that wait, parked ones included.
        parked: those of them that are not tried until something changes; ClusterQueues only.
        reserving: workloads that hold quota.
        admitted: those of them that may run.
        reservation: usage of ``reserving``; every flavor in spec order, its resources by name.
        usage: usage of ``admitted``; same layout.
        borrowed_reservation: part of ``reservation`` above nominal quota; same layout.
        borrowed_usage: part of ``usage`` above nominal quota; same layout.
        weighted_share: fair share, rounded up; None unless fair sharing is on.
    """

    active: bool
    reason: str
    message: str
    pending: int = 0
    parked: int = 0
    reserving: int = 0
    admitted: int = 0
    reservation: Amounts = field(default_factory=dict)
    usage: Amounts = field(default_factory=dict)
    borrowed_reservation: Amounts = field(default_factory=dict)
    borrowed_usage: Amounts = field(default_factory=dict)
    weighted_share: int | None = None


Blockers = tuple[tuple[str, str], ...]
"""Why a ClusterQueue admits nothing: pairs of reason and part of the message."""


def blockers(
    queue: ClusterQueue,
    flavors: Mapping[FlavorName, ResourceFlavor],
    checks: Mapping[str, bool],
) -> Blockers:
    """Why a ClusterQueue admits nothing, as (reason, part of the message); none if it does.

    Args:
        queue: the ClusterQueue.
        flavors: those that exist.
        checks: admission checks that exist, with whether each is active.
    """
    listed = dict.fromkeys(f.name for group in queue.resource_groups for f in group.flavors)
    required = sorted({rule.name for rule in queue.admission_checks})
    no_flavor = ",".join(name for name in listed if name not in flavors)
    no_check = ",".join(name for name in required if name not in checks)
    idle = ",".join(name for name in required if checks.get(name) is False)
    found = (
        ("Terminating", "is terminating" if queue.terminating else ""),
        ("Stopped", "is stopped" if queue.stop_policy != StopPolicy.NONE else ""),
        ("FlavorNotFound", no_flavor and f"references missing ResourceFlavor(s): {no_flavor}"),
        (
            "AdmissionCheckNotFound",
            no_check and f"references missing AdmissionCheck(s): {no_check}",
        ),
        ("AdmissionCheckInactive", idle and f"references inactive AdmissionCheck(s): {idle}"),
    )
    return tuple((reason, part) for reason, part in found if part)


def of_cluster_queue(
    node: QueueNode, tally: Tally, *, pending: int, parked: int, blocked: Blockers, fair: bool
) -> QueueStatus:
    """Status of a ClusterQueue; ``blocked`` as ``blockers`` gave it."""
    active, reason, message = _active(blocked)
    reservation = _laid_out(node, tally.reservation)
    usage = _laid_out(node, tally.usage)
    return QueueStatus(
        active=active,
        reason=reason,
        message=message,
        pending=pending,
        parked=parked,
        reserving=tally.reserving,
        admitted=tally.admitted,
        reservation=reservation,
        usage=usage,
        borrowed_reservation=_borrowed(node, reservation),
        borrowed_usage=_borrowed(node, usage),
        weighted_share=share_of(node, fair=fair),
    )


def _active(blocked: Blockers) -> tuple[bool, str, str]:
    if not blocked:
        return True, "Ready", "Can admit new workloads"
    reason = blocked[0][0]
    if reason == "Terminating":
        return False, reason, "Can't admit new workloads; clusterQueue is terminating"
    return False, reason, f"Can't admit new workloads: {', '.join(part for _, part in blocked)}."


def of_local_queue(
    local: LocalQueue, node: QueueNode | None, tally: Tally, *, pending: int, blocked: bool
) -> QueueStatus:
    """Status of a LocalQueue over its ClusterQueue, which may be missing or ``blocked``."""
    stopped = local.stop_policy != StopPolicy.NONE
    active, reason, message = _local_active(stopped=stopped, missing=node is None, blocked=blocked)
    if node is None:
        return QueueStatus(active=active, reason=reason, message=message)
    return QueueStatus(
        active=active,
        reason=reason,
        message=message,
        pending=0 if stopped else pending,
        reserving=tally.reserving,
        admitted=tally.admitted,
        reservation=_laid_out(node, tally.reservation),
        usage=_laid_out(node, tally.usage),
    )


def _local_active(*, stopped: bool, missing: bool, blocked: bool) -> tuple[bool, str, str]:
    if stopped:
        return False, "Stopped", "LocalQueue is stopped"
    if missing:
        return False, "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"
    if blocked:
        return False, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"
    return True, "Ready", "Can submit new workloads to localQueue"


def _laid_out(node: QueueNode, amounts: Amounts) -> Amounts:
    """Every flavor in spec order, its resources by name, zeros included."""
    return {
        fr: amounts.get(fr, 0)
        for group in node.spec.resource_groups
        for flavor in group.flavors
        for fr in (FlavorResource(flavor.name, r) for r in sorted(group.covered_resources))
    }


def _borrowed(node: QueueNode, amounts: Amounts) -> Amounts:
    if node.spec.cohort is None:
        return dict.fromkeys(amounts, 0)
    return {fr: max(0, used - quota.nominal(node, fr)) for fr, used in amounts.items()}


def share_of(node: Node, *, fair: bool) -> int | None:
    """The weighted share as status shows it; None unless fair sharing is on."""
    return fairshare.of(node).rounded_up() if fair else None
