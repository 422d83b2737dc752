"""Quota arithmetic on one node of the tree and one flavor and resource.

Every number is an amount in the canonical unit; UNLIMITED is above all finite ones. Usage is a
plain integer that never saturates, so that adding and removing are exact inverses.

Source: kueue pkg/cache/scheduler/resource_node.go, and cohort.go for the borrow height.
"""

from collections.abc import Callable, Iterable, Mapping

from admission.base import amount
from admission.base.amount import UNLIMITED
from admission.base.causes import NOT_ELSEWHERE, Elsewhere
from admission.base.names import ChargeKey, FlavorResource, WorkloadKey
from admission.scheduling import caps
from admission.scheduling.hierarchy import CohortHierarchy, QueueNode, QuotaNode
from admission.scheduling.model import PreemptionPolicy, StopPolicy
from admission.scheduling.reserving import ReservingWorkload


def nominal(node: QuotaNode, fr: FlavorResource) -> int:
    """Return the node's own nominal quota."""
    own_quota = node.quotas.get(fr)
    return 0 if own_quota is None else own_quota.nominal


def withheld(node: QuotaNode, fr: FlavorResource) -> int:
    """Return what the node is promised beyond its nominal quota and is not there for it."""
    own_quota = node.quotas.get(fr)
    return 0 if own_quota is None else own_quota.withheld


def elsewhere(node: QuotaNode, fr: FlavorResource) -> Elsewhere:
    """Return what of that exists and is promised to others before."""
    own_quota = node.quotas.get(fr)
    return NOT_ELSEWHERE if own_quota is None else own_quota.elsewhere


def local_available(node: QuotaNode, fr: FlavorResource) -> int:
    """Return what is left of the part of its quota that the node never lends; never negative."""
    kept = node.guaranteed.get(fr, 0)
    if kept == UNLIMITED:
        return UNLIMITED
    return max(0, kept - node.usage.get(fr, 0))


def add_usage(node: QuotaNode, fr: FlavorResource, value: int) -> None:
    """Add usage here, and above as far as it exceeds what the node never lends."""
    above: QuotaNode | None = node
    while above is not None and value > 0:
        node, above = above, above.parent
        rest = value - local_available(node, fr)
        node.usage[fr] = node.usage.get(fr, 0) + value
        value = rest


def remove_usage(node: QuotaNode, fr: FlavorResource, value: int) -> None:
    """Remove usage: the inverse of ``add_usage``."""
    above: QuotaNode | None = node
    while above is not None and value > 0:
        node, above = above, above.parent
        used = node.usage.get(fr, 0)
        node.usage[fr] = used - value
        value = min(value, used - node.guaranteed.get(fr, 0))


def add_all(node: QuotaNode, usage: Mapping[FlavorResource, int]) -> None:
    """Add a whole usage."""
    for fr, value in usage.items():
        add_usage(node, fr, value)


def remove_all(node: QuotaNode, usage: Mapping[FlavorResource, int]) -> None:
    """Remove a whole usage."""
    for fr, value in usage.items():
        remove_usage(node, fr, value)


def hold(queue: QueueNode, workload: ReservingWorkload) -> None:
    """Count a workload in its queue."""
    queue.workloads[workload.key] = workload
    caps.count(queue.holdings, workload, 1)
    if workload.surges:
        _add_surge(queue, workload.usage, 1)
    else:
        add_all(queue, workload.usage)


def release(queue: QueueNode, key: ChargeKey) -> None:
    """Stop counting a workload."""
    workload = queue.workloads.pop(key)
    caps.count(queue.holdings, workload, -1)
    if workload.surges:
        _add_surge(queue, workload.usage, -1)
    else:
        remove_all(queue, workload.usage)


def _add_surge(queue: QueueNode, usage: Mapping[FlavorResource, int], sign: int) -> None:
    for fr, value in usage.items():
        queue.surge_usage[fr] = queue.surge_usage.get(fr, 0) + sign * value
        if not queue.surge_usage[fr]:
            del queue.surge_usage[fr]


def fits(queue: QueueNode, usage: Mapping[FlavorResource, int]) -> bool:
    """Return whether the quota has room for a usage, borrowing included."""
    return all(value <= max(0, available(queue, fr)) for fr, value in usage.items())


def surge_left(queue: QueueNode, fr: FlavorResource) -> int:
    """Return what is left of the surge quota; negative after it was lowered."""
    return queue.spec.surge_quota.get(fr, 0) - queue.surge_usage.get(fr, 0)


def available(node: QuotaNode, fr: FlavorResource) -> int:
    """Return what the node could still take, borrowing included; negative after over-admission."""
    used = node.usage.get(fr, 0)
    parent = node.parent
    if parent is None:
        subtree_quota = node.subtree.get(fr, 0)
        return subtree_quota if subtree_quota == UNLIMITED else subtree_quota - used
    above = available(parent, fr)
    quota = node.quotas.get(fr)
    kept = node.guaranteed.get(fr, 0)
    if quota is not None and quota.borrowing_limit is not None:
        above = min(above, _borrowable(node, fr, quota.borrowing_limit))
    if kept <= used:
        return above
    return amount.add(kept if kept == UNLIMITED else kept - used, above)


def _borrowable(node: QuotaNode, fr: FlavorResource, limit: int) -> int:
    """Return what the node may still take from its parent under its borrowing limit."""
    kept = node.guaranteed.get(fr, 0)
    lent = amount.subtract(node.subtree.get(fr, 0), kept)
    taken = max(0, node.usage.get(fr, 0) - kept)
    return amount.add(lent if lent == UNLIMITED else lent - taken, limit)


def reclaimable(queue: QueueNode, fr: FlavorResource, borrowed: int) -> int:
    """Return how much more than is available a ClusterQueue gets of its nominal quota.

    It preempts those that borrow, whatever their priority; see `model.Preemption`.

    Args:
        queue: the ClusterQueue.
        fr: flavor and resource.
        borrowed: what others of its tree borrow.
    """
    if queue.spec.preemption.reclaim_within_cohort is not PreemptionPolicy.ANY:
        return 0
    unused = nominal(queue, fr) - queue.usage.get(fr, 0)
    return max(0, min(unused - max(0, available(queue, fr)), borrowed))


def borrowed_by(leaves: Iterable[QueueNode], fr: FlavorResource) -> int:
    """Return what some ClusterQueues use beyond their nominal quota, and can be made to give back.

    Nothing is taken from one that is stopped.
    """
    return sum(
        max(0, leaf.usage.get(fr, 0) - nominal(leaf, fr)) for leaf in leaves if gives_back(leaf)
    )


def gives_back(queue: QueueNode) -> bool:
    """Return whether others may preempt what a ClusterQueue has borrowed."""
    return queue.active and queue.spec.stop_policy is StopPolicy.NONE


def limiting(node: QuotaNode, fr: FlavorResource, value: int) -> QuotaNode | None:
    """Return the node whose borrowing limit alone keeps a value from being available.

    Differs: Kueue does not tell a borrowing limit from quota that others use.

    Returns:
        None where it is available, where more has to become free, and where several limits do.
    """
    parent, rest = node.parent, value - local_available(node, fr)
    if parent is None or rest <= 0:
        return None
    node_quota = node.quotas.get(fr)
    limit = None if node_quota is None else node_quota.borrowing_limit
    is_within = limit is None or rest <= _borrowable(node, fr, limit)
    if rest <= available(parent, fr):
        return None if is_within else node
    return limiting(parent, fr, rest) if is_within else None


def potential(node: QuotaNode, fr: FlavorResource) -> int:
    """Return the most the node could ever take, were nothing in use."""
    potential_known = node.potential.get(fr)
    if potential_known is None:
        potential_known = node.potential[fr] = _potential(node, fr)
    return potential_known


def _potential(node: QuotaNode, fr: FlavorResource) -> int:
    subtree_quota = node.subtree.get(fr, 0)
    if node.parent is None:
        return subtree_quota
    highest = amount.add(node.guaranteed.get(fr, 0), potential(node.parent, fr))
    quota = node.quotas.get(fr)
    if quota is not None and quota.borrowing_limit is not None:
        highest = min(highest, amount.add(subtree_quota, quota.borrowing_limit))
    return highest


def borrow_height(node: QuotaNode, fr: FlavorResource, value: int) -> tuple[int, bool]:
    """Return the height of the lowest subtree whose own quota holds usage and value together.

    Returns:
        The height, 0 when the node itself holds it, and whether a larger subtree is above, from
        which quota could be reclaimed.
    """
    parent = node.parent
    if parent is None:
        return 0, False
    if node.usage.get(fr, 0) + value <= nominal(node, fr):
        return 0, True
    value -= local_available(node, fr)
    cohort = parent
    while True:
        if cohort.usage.get(fr, 0) + value <= cohort.subtree.get(fr, 0):
            return cohort.height, cohort.parent is not None
        if cohort.parent is None:
            return cohort.height, False
        value -= local_available(cohort, fr)
        cohort = cohort.parent


# ------------------------------------------------------- which reservations must be taken back
# Two leaders that overlapped may each have given away the same quota. Only what has not started
# may be taken back; what runs keeps what it holds, as after an admin lowered a quota.


def to_take_back(
    forest: CohortHierarchy, may_take: Callable[[WorkloadKey], bool]
) -> tuple[WorkloadKey, ...]:
    """Return the newest reservations first, queue by queue in order of their names.

    The forest is as before when this returns.

    Args:
        forest: quota trees with usage, up to date.
        may_take: whether a workload has not started yet.
    """
    taken: list[tuple[QueueNode, WorkloadKey, ReservingWorkload]] = []
    for name in sorted(forest.queues):
        node = forest.queues[name]
        if not _is_over(node):
            continue
        candidates = sorted(
            (
                (key, workload)
                for key, workload in node.workloads.items()
                if isinstance(key, WorkloadKey) and may_take(key) and not workload.surges
            ),
            key=lambda candidate: (candidate[1].reserved_us, candidate[1].uid),
        )
        while candidates and _is_over(node):
            key, workload = candidates.pop()
            if _helps(node, workload):
                release(node, key)
                taken.append((node, key, workload))
    for node, _, workload in reversed(taken):
        hold(node, workload)
    return tuple(key for _, key, _ in taken)


def _is_over(node: QueueNode) -> bool:
    return any(available(node, pair) < 0 for pair in node.usage)


def _helps(node: QueueNode, workload: ReservingWorkload) -> bool:
    return any(available(node, pair) < 0 for pair, used in workload.usage.items() if used)
