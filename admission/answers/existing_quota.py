"""Quota as the controller admits by it, where the capacity guard holds it to what exists.

The share of a ClusterQueue is told by its condition CapacitySufficient; see
docs/adr/0030-the-capacity-guard.md.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from admission.base import amount, conditions, names
from admission.base.causes import Elsewhere
from admission.base.names import FlavorResource
from admission.gpu import resources
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.viewbase import Condition
from admission.reasons import reading
from admission.scheduling import capping
from admission.scheduling.hierarchy import (
    CohortHierarchy,
    CohortNode,
    QueueNode,
    QuotaNode,
    members,
)


@dataclass(frozen=True, slots=True)
class CappedTrees:
    """Quota trees as the controller admits by them.

    Attributes:
        forest: the trees.
        uncounted: ClusterQueues with quota that is held to what exists, where that is not known.
    """

    forest: CohortHierarchy
    uncounted: AbstractSet[tuple[str, FlavorResource]] = frozenset()


def of(forest: CohortHierarchy, views: Iterable[ClusterQueue]) -> CappedTrees:
    """Return trees with the quota that counts; the same ones where nothing is guarded.

    What a Cohort has of its own is told by no condition, so it is not known there.

    Args:
        forest: quota trees as they are written, with usage.
        views: their ClusterQueues.
    """
    by_name = {view.metadata.name: view for view in views}
    guarded = {
        id(node.root()): node.root()
        for node in forest.queues.values()
        if by_name[node.name].metadata.annotation(names.CAPACITY_GUARD)
        == names.CAPACITY_GUARD_ENFORCE
    }
    if not guarded:
        return CappedTrees(forest)
    trees = CohortHierarchy()
    for cohort in forest.cohorts.values():
        if cohort.spec is not None:
            trees.set_cohort(cohort.spec)
    uncounted = set[tuple[str, FlavorResource]]()
    for name, node in forest.queues.items():
        is_guarded = id(node.root()) in guarded
        existing = (stated(by_name[name]) or {}) if is_guarded else {}
        spec = capping.capped(
            node.spec,
            {pair: quota.share for pair, quota in existing.items()},
            {pair: Elsewhere(quota.elsewhere) for pair, quota in existing.items()},
        )
        copy = trees.set_queue(spec)
        copy.usage, copy.surge_usage = dict(node.usage), dict(node.surge_usage)
    trees.refresh()
    for top in guarded.values():
        within = members(top)
        pairs = {pair for node in within for pair in _untold(node, by_name)}
        uncounted |= {
            (node.name, pair) for node in within if isinstance(node, QueueNode) for pair in pairs
        }
    return CappedTrees(trees, uncounted)


def stated(view: ClusterQueue) -> dict[FlavorResource, reading.ExistingQuota] | None:
    """Return what exists of what a ClusterQueue promises too much of, by its condition.

    None is returned where it has no such condition.
    """
    condition = _condition(view)
    if condition is None:
        return None
    return reading.existing_quota(condition.message) if condition.status == "False" else {}


def _condition(view: ClusterQueue) -> Condition | None:
    listed = view.status.conditions or ()
    return next((each for each in listed if each.type == conditions.CAPACITY_SUFFICIENT), None)


def _untold(node: QuotaNode, views: dict[str, ClusterQueue]) -> Iterable[FlavorResource]:
    """Yield the GPUs of which a node has quota, and no condition tells how much of it exists."""
    is_told = isinstance(node, QueueNode) and _condition(views[node.name]) is not None
    assert isinstance(node, QueueNode | CohortNode)
    for pair, own_quota in node.quotas.items():
        is_gpu = resources.is_device(pair.resource) or resources.is_virtual(pair.resource)
        if is_gpu and own_quota.nominal and not (is_told and own_quota.nominal < amount.UNLIMITED):
            yield pair
