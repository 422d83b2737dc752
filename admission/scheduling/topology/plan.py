"""Domains for all pod sets of a workload that got one flavor with a topology.

Source: kueue pkg/cache/scheduler/tas_flavor_snapshot.go (FindTopologyAssignmentsForFlavor).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from admission.base.causes import TopologyRefusal
from admission.base.names import PodSetName
from admission.scheduling.places.model import MOST_DOMAINS, PODS, PodShape, Want
from admission.scheduling.topology import leaves, search
from admission.scheduling.topology.leaves import Leaf
from admission.scheduling.topology.request import ANYWHERE
from admission.scheduling.topology.search import (
    DomainAsk,
    DomainCount,
    Excluded,
    LeafRoom,
    PlacedPods,
)
from admission.scheduling.topology.tree import DomainPath, DomainTree


@dataclass(slots=True)
class Plan:
    """Where the pods of pod sets go.

    Attributes:
        placed: domains of the narrowest level, by pod set, sorted.
        refused: why pod sets get none. The search stops with the first of them, or with the
            first group.
    """

    placed: dict[PodSetName, tuple[DomainCount, ...]] = field(default_factory=dict)
    refused: dict[PodSetName, TopologyRefusal] = field(default_factory=dict)


class Free(Protocol):
    """What is free in the domains of the narrowest level while pods are placed."""

    @property
    def tree(self) -> DomainTree:
        """Return the domains."""
        ...

    def take(self, counts: Sequence[DomainCount], shape: PodShape) -> None:
        """Count pods of a shape in domains."""
        ...

    def rooms(
        self, shape: PodShape, leader: PodShape | None = None, within: DomainPath = ()
    ) -> tuple[Mapping[int, LeafRoom], Excluded]:
        """Return how many pods each domain takes; see `leaves.rooms`."""
        ...


class FreeLeaves:
    """The domains of the narrowest level, with what is free there while pods are placed."""

    def __init__(self, tree: DomainTree, free: Sequence[Leaf]) -> None:
        """Take what is free.

        Args:
            tree: the domains.
            free: what is free in each domain of the narrowest level; it is not changed.
        """
        self._tree = tree
        self._leaves = {leaf.domain.index: leaf for leaf in free}

    @property
    def tree(self) -> DomainTree:
        """Return the domains."""
        return self._tree

    def take(self, counts: Sequence[DomainCount], shape: PodShape) -> None:
        """Count pods of a shape in domains."""
        for path, count in counts:
            index = self.tree.leaves[path].index
            leaf = self._leaves[index]
            left = dict(leaf.free)
            for resource, amount in (*shape.needs.requests, (PODS, 1)):
                left[resource] = left.get(resource, 0) - amount * count
            self._leaves[index] = leaf._replace(free=left)

    def rooms(
        self, shape: PodShape, leader: PodShape | None = None, within: DomainPath = ()
    ) -> tuple[Mapping[int, LeafRoom], Excluded]:
        """Return how many pods each domain takes; see `leaves.rooms`."""
        return leaves.rooms(self._leaves.values(), shape, leader, within)


def plan(free: Free, topology: str, wants: Sequence[Want]) -> Plan:
    """Return domains for pods, each pod set beside those before it.

    A leader and its workers, which have a common group, are placed together. Pod sets that must
    be in one domain all together are tried in each domain of that level, in the fullest first.

    Args:
        free: what is free; pods are taken from it for those after them.
        topology: name of the topology.
        wants: the pods, in the order of the spec.
    """
    result = Plan()
    for within in _common_domains(free, wants):
        result = _plan(free, topology, wants, within)
        if not result.refused:
            break
        for want in wants:
            taken = result.placed.get(want.pod_set, ())
            free.take([DomainCount(path, -pods) for path, pods in taken], want.shape)
    return result


def _common_domains(free: Free, wants: Sequence[Want]) -> list[DomainPath]:
    """Domains to try for pod sets that must be all in one; an empty path is everywhere."""
    joint = [want for want in wants if want.shape.needs.jointly]
    depth = joint_depth(free.tree, joint[0].shape) if joint else 0
    if len(joint) <= 1 or not depth:
        return [()]
    room_by_want: list[dict[DomainPath, int]] = []
    for want in joint:
        rooms, _ = free.rooms(want.shape)
        room: dict[DomainPath, int] = {}
        for index, leaf in rooms.items():
            path = free.tree.domains[index].path[:depth]
            room[path] = room.get(path, 0) + leaf.pods
        room_by_want.append(room)
    first = room_by_want[0]
    by_room = sorted(first, key=lambda path: (first[path], path))
    enough = [
        path
        for path in by_room
        if all(
            room.get(path, 0) >= want.count for want, room in zip(joint, room_by_want, strict=True)
        )
    ]
    return enough[:MOST_DOMAINS] or by_room[-1:] or [()]


def joint_depth(tree: DomainTree, shape: PodShape) -> int:
    """Return how many levels of a tree the pod sets of a workload must have in common."""
    indexes = (tree.levels.index(key) for key in shape.needs.jointly if key in tree.levels)
    return max(indexes, default=-1) + 1


def _plan(free: Free, topology: str, wants: Sequence[Want], within: DomainPath) -> Plan:
    result = Plan()
    groups = _groups(wants)
    for group in groups:
        workers, leader = _roles(group)
        request = workers.request or ANYWHERE
        is_joint = bool(workers.shape.needs.jointly)
        rooms = free.rooms(
            workers.shape,
            leader.shape if leader is not None else None,
            within if is_joint else (),
        )
        ask = DomainAsk(request, workers.count, has_leader=leader is not None)
        answer = search.place(free.tree, topology, ask, *rooms)
        if not isinstance(answer, PlacedPods):
            result.refused |= {want.pod_set: answer for want in group}
            return result
        placed = [(workers, answer.pods), *([(leader, answer.leader)] if leader else [])]
        for want, counts in placed:
            result.placed[want.pod_set] = counts
            if group is not groups[-1]:
                free.take(counts, want.shape)
    return result


def _groups(wants: Sequence[Want]) -> list[list[Want]]:
    """Pod sets that are placed together, at the place of the first of them."""
    groups: dict[tuple[str, str], list[Want]] = {}
    for want in wants:
        name = want.request.group if want.request is not None else ""
        groups.setdefault(("group", name) if name else ("alone", want.pod_set), []).append(want)
    return list(groups.values())


def _roles(group: Sequence[Want]) -> tuple[Want, Want | None]:
    """The workers, which are the pod set with more pods, and the leader."""
    if len(group) == 1:
        return group[0], None
    first, second = group[:2]
    return (second, first) if first.count < second.count else (first, second)
