"""The numbers behind a wait, for conditions and for people who ask why."""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from admission.base import amount, conditions, quantity, reasons
from admission.base.conditions import Text, WaitReason
from admission.base.names import FlavorResource, PodSetName, ResourceName
from admission.base.reasons import Code, Lack, LargestNode
from admission.scheduling.decisions import Shortage, Wait
from admission.scheduling.heads import Head
from admission.scheduling.hierarchy import CohortNode, QueueNode
from admission.scheduling.nomination import Nominee
from admission.scheduling.snapshot import Holders, Snapshot

MAX_HOLDERS: Final = 5
"""Most ClusterQueues that a shortage names."""


def requests(head: Head) -> tuple[tuple[PodSetName, Mapping[ResourceName, int]], ...]:
    """Return the total of each pod set."""
    return tuple((one.pod_set.name, one.requests) for one in head.demands)


def shortages(snapshot: Snapshot, nominee: Nominee) -> tuple[Shortage, ...]:
    """Return what was missing, with who holds it."""
    return tuple(
        replace(one, holders=_holders(snapshot, nominee.queue, one))
        for one in nominee.assignment.shortages
    )


def _holders(snapshot: Snapshot, queue: QueueNode, one: Shortage) -> Holders:
    """The ClusterQueues of the tree that use most of a resource, largest first.

    Counted once per cycle and tree, without what is only held back for entries that wait.
    """
    root = queue.root()
    fr = FlavorResource(one.flavor, one.resource)
    known = snapshot.holders.get((id(root), fr))
    if known is None:
        leaves = root.leaves() if isinstance(root, CohortNode) else (queue,)
        found = [
            (leaf.name, leaf.usage.get(fr, 0) - snapshot.held_back.get((leaf.name, fr), 0))
            for leaf in leaves
        ]
        using = [(name, used) for name, used in found if used > 0]
        largest = heapq.nsmallest(MAX_HOLDERS, using, key=lambda pair: (-pair[1], pair[0]))
        known = snapshot.holders[id(root), fr] = tuple(largest)
    return known


def waiting(wait: Wait, *, place: str = "", until: str = "", deployment: str = "") -> Text:
    """Return why a Workload waits, in the words of users.

    Args:
        wait: what was decided.
        place: in its queue, such as ``about 10th``; empty where it is not known.
        until: time at which the last is stopped that it preempts; empty where that is not known.
        deployment: the Deployment whose previous revision holds the quota; empty for none.
    """
    queue = wait.cluster_queue
    if wait.reason == WaitReason.WAITING_FOR_PREEMPTED and (wait.preempting or until):
        return reasons.waits_for_preempted(len(wait.preempting), until=until)
    if wait.no_places and wait.reason == WaitReason.WAITING_FOR_NODE:
        too_small = [
            LargestNode(one.resource, flavor, one.asks, one.largest)
            for one in wait.no_places
            if one.largest is not None
            for flavor in one.flavors
        ]
        if too_small and all(one.largest is not None for one in wait.no_places):
            of_one = [one for one in too_small if one.resource == too_small[0].resource]
            return reasons.exceeds_largest_node(of_one)
        return reasons.waits_for_node([one.text() for one in wait.no_places], queue, place=place)
    if wait.message == conditions.NOT_JUDGED.message:
        return reasons.not_judged(place, queue)
    if wait.message in _OVERTAKEN:
        return reasons.overtaken(place, queue)
    said = reasons.of_condition(wait.reason, wait.message, queue)
    if said.reason not in _OF_QUOTA or not wait.shortages:
        return said
    return of_shortages(wait.shortages, queue, place=place, deployment=deployment)


def of_shortages(
    found: Iterable[Shortage], queue: str, *, place: str = "", deployment: str = ""
) -> Text:
    """Return that a Workload waits for quota, or is too big where no flavor can ever give enough.

    Kueue's reason is that of the most hopeless flavor, and the Workload may get another one.

    Args:
        found: the blockers, at least one.
        queue: the ClusterQueue.
        place: its place in the queue; empty if it is not known.
        deployment: the Deployment whose previous revision holds the quota; empty for none.
    """
    of_pod_set: dict[str, list[Shortage]] = {}
    for one in found:
        of_pod_set.setdefault(one.pod_set, []).append(one)
    waits: list[Shortage] = []
    for shortages_ in of_pod_set.values():
        never = {one.flavor for one in shortages_ if _is_never(one)}
        rest = [one for one in shortages_ if one.flavor not in never]
        if not rest:
            return reasons.too_big([one for one in lacks(shortages_) if one.never], queue)
        waits += rest
    return reasons.waits_for_quota(lacks(waits), queue, place=place, deployment=deployment)


_OF_QUOTA: Final = frozenset(
    {Code.WAITING_FOR_QUOTA, Code.EXCEEDS_MAX_QUOTA, Code.NO_MATCHING_FLAVOR}
)
_OVERTAKEN: Final = (conditions.NO_LONGER_FITS, conditions.OVERLAPPING_TARGETS)


_OF_EVERY_NODE: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


def lacks(found: Iterable[Shortage]) -> list[Lack]:
    """Return shortages as people read them: devices first, then the largest reach first."""
    most: dict[FlavorResource, Shortage] = {}
    for one in found:
        fr = FlavorResource(one.flavor, one.resource)
        if fr not in most or most[fr].requested < one.requested:
            most[fr] = one
    in_order = sorted(
        most.values(),
        key=lambda one: (one.resource in _OF_EVERY_NODE, one.resource, -one.limit, one.flavor),
    )
    return [_in_words(one) for one in in_order]


def _in_words(shortage: Shortage) -> Lack:
    resource, withheld, others = shortage.resource, shortage.withheld, shortage.elsewhere
    never = _is_never(shortage)
    room = max(0, min(shortage.available, shortage.limit))
    return Lack(
        resource=resource,
        flavor=shortage.flavor,
        asks=quantity.in_words(resource, shortage.requested),
        free=quantity.in_words(resource, shortage.available),
        reach=_show(resource, shortage.limit),
        withheld=_show(resource, withheld) if withheld else "",
        elsewhere=_show(resource, least) if (least := min(withheld, others.amount)) else "",
        is_all_elsewhere=0 < withheld <= others.amount,
        promised_to=others.owners,
        holders=tuple(
            (queue, quantity.in_words(resource, used))
            for queue, used in shortage.holders
            if used > 0
        ),
        never=never,
        exists_not=room < shortage.requested <= amount.add(room, withheld),
    )


def _is_never(one: Shortage) -> bool:
    """Return whether more is asked for than there could ever be, even if all existed."""
    return one.requested > amount.add(one.limit, one.withheld)


def _show(resource: str, value: int) -> str:
    return "" if value == amount.UNLIMITED else quantity.from_canonical(resource, value)
