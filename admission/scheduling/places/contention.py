"""Whether pods that have no node yet may take each other's places.

Pods of a workload prefer the nodes of its places. kube-scheduler may put more of them on one of
these nodes than there were places for: it sees what is free when a pod comes, and pods come from
one template. So places of several workloads hold only if every node has room for as many pods as
may come to it at once. Whoever was told a domain goes where its places are.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from admission.base.names import PodSetName
from admission.scheduling.places import predicate
from admission.scheduling.places.ledger import each
from admission.scheduling.places.model import Amounts, Place, PodShape, Want


class Arrivals(NamedTuple):
    """Pods of one pod set that have places and no node yet.

    Attributes:
        shape: of each pod.
        places: how many places there are on each node.
        nodes: all nodes that the pods prefer: those with places, and those of bound pods.
        is_bound_to_places: the pods go where their places are.
    """

    shape: PodShape
    places: Mapping[str, int]
    nodes: frozenset[str]
    is_bound_to_places: bool

    @property
    def is_free(self) -> bool:
        """Return whether the scheduler may choose among several nodes."""
        return len(self.nodes) > 1 and not self.is_bound_to_places

    def most(self, node: str, free: Amounts) -> int:
        """Return how many of the pods may come to a node on which so much is free for them."""
        if not self.is_free:
            return self.places.get(node, 0)
        return max(0, min(sum(self.places.values()), predicate.copies(free, self.shape)))


def arrivals(
    wants: Iterable[Want], places: Iterable[Place], bound: Mapping[PodSetName, Iterable[str]]
) -> tuple[Arrivals, ...]:
    """Return the pods of a workload that have no node yet.

    Args:
        wants: its pods.
        places: the places of those that have no node.
        bound: the nodes of the others, by pod set.
    """
    counts: dict[PodSetName, dict[str, int]] = {}
    for place in places:
        on_nodes = counts.setdefault(place.pod_set, {})
        on_nodes[place.node] = on_nodes.get(place.node, 0) + place.count
    return tuple(
        Arrivals(
            shape=want.shape,
            places=counts[want.pod_set],
            nodes=frozenset((*counts[want.pod_set], *bound.get(want.pod_set, ()))),
            is_bound_to_places=want.request is not None,
        )
        for want in wants
        if want.pod_set in counts
    )


def is_contended(
    new: Sequence[Arrivals], placed: Sequence[Arrivals], free: Mapping[str, Amounts]
) -> bool:
    """Return whether pods that come may take places of new ones, or new ones places of theirs.

    Args:
        new: pods that get their places now.
        placed: pods that have theirs.
        free: what is free on each node beside the places of these, and not of the new ones.
    """
    for node in dict.fromkeys(node for pods in new for node in pods.places):
        arriving = [pods for pods in placed if node in pods.nodes]
        placed_now = [pods for pods in new if node in pods.places]
        if not arriving or not any(pods.is_free for pods in (*arriving, *placed_now)):
            continue
        promised = _sum((pods.shape, pods.places.get(node, 0)) for pods in arriving)
        room = {r: amount + promised.get(r, 0) for r, amount in free.get(node, {}).items()}
        demand = _sum((pods.shape, pods.most(node, room)) for pods in (*arriving, *placed_now))
        requested = {resource for pods in placed_now for resource in each(pods.shape)}
        if any(demand[resource] > room[resource] for resource in requested & room.keys()):
            return True
    return False


def _sum(pods: Iterable[tuple[PodShape, int]]) -> dict[str, int]:
    """Return what so many pods of each shape take of a node."""
    amounts: dict[str, int] = {}
    for shape, count in pods:
        for resource, amount in each(shape).items():
            amounts[resource] = amounts.get(resource, 0) + amount * count
    return amounts
