"""Where the pods of a lost node go; all others of the pod set stay.

Source: kueue pkg/cache/scheduler/tas_flavor_snapshot.go (replacement of a node).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from admission.base.causes import LevelNotInTopology, StaleDomain, TopologyRefusal
from admission.scheduling.topology import search
from admission.scheduling.topology.request import TopologyRequest
from admission.scheduling.topology.search import (
    DomainAsk,
    DomainCount,
    Excluded,
    LeafRoom,
    PlacedPods,
)
from admission.scheduling.topology.tree import DomainPath, DomainTree

Rooms = Callable[[DomainPath], tuple[Mapping[int, LeafRoom], Excluded]]
"""What domains take now, of those within one; an empty path is everywhere."""


def replaced(
    tree: DomainTree,
    topology: str,
    request: TopologyRequest,
    placed: Sequence[tuple[str, DomainPath | None, int]],
    lost: str,
    rooms: Rooms,
    near: DomainPath = (),
) -> tuple[tuple[DomainCount, ...], tuple[DomainCount, ...]] | TopologyRefusal:
    """Return where all pods of a pod set are once the lost node is replaced.

    Args:
        tree: the domains; the narrowest level is the host.
        topology: name of the topology.
        request: how close the pods must be.
        placed: host, its path and pods, of the pod set as it is placed. The path is None where
            the host is none any more.
        lost: the host that is lost.
        rooms: what domains take now.
        near: the domain in which the pods have to stay, if no pod of the pod set says so.

    Returns:
        Where pods are, sorted; and those of them that were placed anew. A refusal where no
        domain takes the lost pods, or the topology has lost a level that the request names.
    """
    count = sum(pods for host, _, pods in placed if host == lost)
    stays: list[DomainCount] = []
    for host, path, pods in placed:
        if host == lost:
            continue
        if path is None:
            return StaleDomain(host)
        stays.append(DomainCount(path, pods))
    missing = request.missing_level(tree.levels)
    if missing:
        return LevelNotInTopology(missing)
    within = _within(tree, request, stays, count) or near
    if request.layers and within and count % request.layers[0].size:
        request = _by_whole_slices(request, count)
    answer = search.place(tree, topology, DomainAsk(request, count), *rooms(within))
    if not isinstance(answer, PlacedPods):
        return answer
    together: dict[DomainPath, int] = {}
    for path, pods in (*stays, *answer.pods):
        together[path] = together.get(path, 0) + pods
    return tuple(DomainCount(path, pods) for path, pods in sorted(together.items())), answer.pods


def _by_whole_slices(request: TopologyRequest, count: int) -> TopologyRequest:
    """DomainAsk for the innermost slices that so many pods fill; for none where they fill none."""
    filled = (layer for layer in reversed(request.layers) if not count % layer.size)
    layer = next(filled, None)
    return replace(request, layers=() if layer is None else (layer,))


def _within(
    tree: DomainTree, request: TopologyRequest, stays: Sequence[DomainCount], count: int
) -> DomainPath:
    """The domain in which the lost pods have to stay; empty for any."""
    if not stays:
        return ()
    if request.layers and count % request.layers[0].size:
        broken = next(layer for layer in reversed(request.layers) if count % layer.size)
        return _incomplete(stays, tree.levels.index(broken.level), broken.size, count)
    if request.required:
        return stays[0].path[: tree.levels.index(request.required) + 1]
    return ()


def _incomplete(stays: Sequence[DomainCount], level: int, size: int, count: int) -> DomainPath:
    """The domain whose slices are whole with so many pods more, the first by path."""
    pods: dict[DomainPath, int] = {}
    for path, present in stays:
        domain = path[: level + 1]
        pods[domain] = pods.get(domain, 0) + present
    whole = (path for path, present in sorted(pods.items()) if not (present + count) % size)
    return next(whole, ())
