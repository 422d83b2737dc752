"""The numbers behind a wait."""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from admission.base.causes import NoFlavor, Shortage, UnnamedHolders
from admission.base.names import ClusterQueueName, FlavorResource, PodSetName, ResourceName
from admission.scheduling import quota
from admission.scheduling.decisions import Wait
from admission.scheduling.heads import Head
from admission.scheduling.hierarchy import QueueNode
from admission.scheduling.nomination import NominatedHead
from admission.scheduling.snapshot import Holders, Snapshot

MAX_HOLDERS: Final = 5
"""Most ClusterQueues that a shortage names."""


def requests(head: Head) -> tuple[tuple[PodSetName, Mapping[ResourceName, int]], ...]:
    """Return the total of each pod set."""
    return tuple((demand.pod_set.name, demand.requests) for demand in head.demands)


def shortages(snapshot: Snapshot, nominee: NominatedHead) -> tuple[Shortage, ...]:
    """Return what was missing, with who holds it."""
    return tuple(
        replace(
            shortage,
            holders=holders,
            unnamed=unnamed,
            reclaimable=_reclaimable(snapshot, nominee.queue, shortage),
        )
        for shortage in nominee.assignment.shortages
        for holders, unnamed in [_holders(snapshot, nominee.queue, shortage)]
    )


class _Sums(NamedTuple):
    """What the ClusterQueues of a tree hold of a resource of a flavor.

    Attributes:
        borrowed: see `quota.borrowed_by`.
        holders: who holds most, see `_largest`.
    """

    borrowed: int
    holders: Holders


SumsByTree: TypeAlias = dict[tuple[int, FlavorResource], _Sums]
"""Sums by tree, to add them up once for many that wait at the same time."""


def as_of_now(wait: Wait, queue: QueueNode, sums: SumsByTree | None = None) -> Wait:
    """Return a wait with the numbers of now; the same one where they have not changed.

    What was said of a Workload holds for equal ones that come later, but not its numbers.

    Args:
        wait: what was decided earlier.
        queue: its ClusterQueue, in trees that are up to date.
        sums: of others that were looked at since the last change of any quota or its use.
    """
    sums = {} if sums is None else sums
    left = {
        FlavorResource(each.flavor, each.resource): max(
            0, quota.available(queue, FlavorResource(each.flavor, each.resource))
        )
        for each in wait.shortages
    }
    shortages_now = tuple(
        _with_available(each, left[FlavorResource(each.flavor, each.resource)], queue, sums)
        for each in wait.shortages
    )
    shortages_now = tuple(each for each in shortages_now if each.missing)
    if shortages_now == wait.shortages or not shortages_now:
        return wait  # where all is free since it is tried again
    missing = {(each.pod_set, each.resource, each.flavor): each.missing for each in shortages_now}
    why = wait.why
    if isinstance(why, NoFlavor):
        why = why.with_missing(missing)
    return replace(wait, why=why, shortages=shortages_now)


def _with_available(
    shortage: Shortage, available: int, queue: QueueNode, sums: SumsByTree
) -> Shortage:
    if available == shortage.available:
        return shortage
    fr, root = FlavorResource(shortage.flavor, shortage.resource), queue.root()
    tree_sums = sums.get((id(root), fr))
    if tree_sums is None:
        leaves = tuple(root.leaves())
        largest = _largest([(leaf.name, leaf.usage.get(fr, 0)) for leaf in leaves])
        tree_sums = sums[id(root), fr] = _Sums(quota.borrowed_by(leaves, fr), largest)
    holders, unnamed = tree_sums.holders
    return replace(
        shortage,
        available=available,
        withheld=quota.withheld(queue, fr),
        elsewhere=quota.elsewhere(queue, fr),
        holders=holders,
        unnamed=unnamed,
        reclaimable=max(0, quota.reclaimable(queue, fr, tree_sums.borrowed)),
    )


def _reclaimable(snapshot: Snapshot, queue: QueueNode, shortage: Shortage) -> int:
    """Return how much more a smaller request would get; counted once per cycle and tree.

    Heads before this one may have taken quota since it was nominated.
    """
    root = queue.root()
    fr = FlavorResource(shortage.flavor, shortage.resource)
    borrowed = snapshot.borrowed.get((id(root), fr))
    if borrowed is None:
        leaves = root.leaves()
        borrowed = snapshot.borrowed[id(root), fr] = quota.borrowed_by(leaves, fr)
    available = max(0, quota.available(queue, fr))
    return max(0, available + quota.reclaimable(queue, fr, borrowed) - shortage.available)


def _holders(snapshot: Snapshot, queue: QueueNode, shortage: Shortage) -> Holders:
    """The ClusterQueues of the tree that use most of a resource, largest first, and the rest.

    Counted once per cycle and tree, without what is only held back for entries that wait.
    """
    root = queue.root()
    fr = FlavorResource(shortage.flavor, shortage.resource)
    holders = snapshot.holders.get((id(root), fr))
    if holders is None:
        leaves = root.leaves()
        usage = [
            (leaf.name, leaf.usage.get(fr, 0) - snapshot.held_back.get((leaf.name, fr), 0))
            for leaf in leaves
        ]
        holders = snapshot.holders[id(root), fr] = _largest(usage)
    return holders


def _largest(usage: Iterable[tuple[ClusterQueueName, int]]) -> Holders:
    """Return the ClusterQueues that use most, largest first, and the sum of the rest."""
    using = [(name, used) for name, used in usage if used > 0]
    largest = heapq.nsmallest(MAX_HOLDERS, using, key=lambda pair: (-pair[1], pair[0]))
    unnamed = UnnamedHolders(
        len(using) - len(largest),
        sum(used for _, used in using) - sum(used for _, used in largest),
    )
    return tuple(largest), unnamed
