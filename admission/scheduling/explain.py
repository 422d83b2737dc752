"""The numbers behind a wait."""

import heapq
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from admission.base.causes import Shortage, UnnamedHolders
from admission.base.names import FlavorResource, PodSetName, ResourceName
from admission.scheduling import quota
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
        using = [(name, used) for name, used in usage if used > 0]
        largest = heapq.nsmallest(MAX_HOLDERS, using, key=lambda pair: (-pair[1], pair[0]))
        unnamed = UnnamedHolders(
            len(using) - len(largest),
            sum(used for _, used in using) - sum(used for _, used in largest),
        )
        holders = snapshot.holders[id(root), fr] = tuple(largest), unnamed
    return holders
