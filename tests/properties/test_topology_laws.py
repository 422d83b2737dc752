"""Laws of placing pods in the domains of a topology, for any small cluster."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from admission.base.names import FlavorName, PodSetName
from admission.scheduling.model import PodNeeds, ResourceFlavor
from admission.scheduling.places.enforcement import PodPlaces
from admission.scheduling.places.model import (
    CORDONED,
    HOSTNAME,
    PODS,
    BoundPod,
    Node,
    PodShape,
    Want,
)
from admission.scheduling.topology.leaves import Leaf
from admission.scheduling.topology.plan import FreeLeaves, Plan, plan
from admission.scheduling.topology.request import Layer, TopologyRequest
from admission.scheduling.topology.tree import DomainPath, DomainTree

_LEVELS = ("block", "rack", "kubernetes.io/hostname")
_WORKERS, _LEADER = PodSetName("workers"), PodSetName("leader")


@dataclass(frozen=True, slots=True)
class _Cluster:
    """What is free of gpu in each host, in the order in which nodes are told."""

    free: tuple[tuple[DomainPath, int], ...]

    def leaves(self, order: Sequence[int] = ()) -> FreeLeaves:
        told = [self.free[index] for index in order] or self.free
        tree = DomainTree(_LEVELS, [path for path, _ in told])
        return FreeLeaves(
            tree, [Leaf(tree.leaves[path], {"gpu": n, PODS: 110}) for path, n in told]
        )


@st.composite
def _clusters(draw: st.DrawFn) -> _Cluster:
    racks = draw(
        st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=3), min_size=1, max_size=4)
    )
    split = draw(st.integers(0, len(racks)))
    return _Cluster(
        tuple(
            (("b1" if rack < split else "b2", f"r{rack}", f"h{rack}-{host}"), free)
            for rack, hosts in enumerate(racks)
            for host, free in enumerate(hosts)
        )
    )


_requests = st.one_of(
    st.sampled_from(_LEVELS).map(lambda level: TopologyRequest(required=level)),
    st.sampled_from(_LEVELS).map(lambda level: TopologyRequest(preferred=level)),
    st.just(TopologyRequest(unconstrained=True)),
    st.builds(
        lambda level, size: TopologyRequest(required="block", layers=(Layer(level, size),)),
        st.sampled_from(_LEVELS),
        st.integers(1, 4),
    ),
    st.builds(
        lambda size: TopologyRequest(layers=(Layer("rack", 2 * size), Layer(_LEVELS[-1], size))),
        st.integers(1, 3),
    ),
)


def _shape(gpus: int) -> PodShape:
    return PodShape(PodNeeds(requests=(("gpu", gpus),)))


def _wants(request: TopologyRequest, count: int, gpus: int, leader: int) -> list[Want]:
    flavors = (FlavorName("tas"),)
    workers = Want(_WORKERS, _shape(gpus), count, flavors, request)
    if not leader:
        return [workers]
    return [workers, Want(_LEADER, _shape(leader), 1, flavors, request)]


def _used(made: Plan, gpus: int, leader: int) -> dict[DomainPath, int]:
    used: dict[DomainPath, int] = {}
    for name, each in ((_WORKERS, gpus), (_LEADER, leader)):
        for path, count in made.placed.get(name, ()):
            used[path] = used.get(path, 0) + each * count
    return used


@given(_clusters(), _requests, st.integers(1, 12), st.integers(1, 3))
def test_no_domain_gets_more_than_is_free_and_slices_are_whole(
    cluster: _Cluster, request: TopologyRequest, count: int, gpus: int
) -> None:
    made = plan(cluster.leaves(), "default", _wants(request, count, gpus, 0))

    if made.refused:
        assert not made.placed
        return
    used = _used(made, gpus, 0)
    assert all(used[path] <= free for path, free in cluster.free if path in used)
    size = request.layers[0].size if request.layers else 1
    assert sum(n for _, n in made.placed[_WORKERS]) == count - count % size
    for layer in request.layers:
        depth = _LEVELS.index(layer.level) + 1
        pods: dict[DomainPath, int] = {}
        for path, n in made.placed[_WORKERS]:
            pods[path[:depth]] = pods.get(path[:depth], 0) + n
        assert all(not n % layer.size for n in pods.values())


@given(_clusters(), _requests, st.integers(1, 12), st.integers(1, 3), st.data())
def test_the_order_of_nodes_changes_nothing(
    cluster: _Cluster, request: TopologyRequest, count: int, gpus: int, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(cluster.free))))
    wants = _wants(request, count, gpus, 0)

    assert plan(cluster.leaves(), "t", wants) == plan(cluster.leaves(order), "t", wants)


def _subtrees(cluster: _Cluster, level: str) -> Iterator[list[tuple[DomainPath, int]]]:
    depth = _LEVELS.index(level) + 1
    for prefix in {path[:depth] for path, _ in cluster.free}:
        yield [(path, free) for path, free in cluster.free if path[:depth] == prefix]


@given(
    _clusters(), st.sampled_from(_LEVELS), st.integers(1, 12), st.integers(1, 3), st.integers(0, 6)
)
def test_a_required_domain_is_found_whenever_there_is_one(
    cluster: _Cluster, level: str, count: int, gpus: int, leader: int
) -> None:
    leader = leader if count > 1 else 0  # of two pod sets with one pod each the first is workers
    made = plan(
        cluster.leaves(),
        "t",
        _wants(TopologyRequest(required=level, group="g"), count, gpus, leader),
    )

    is_possible = any(
        sum((free - (leader if path == host else 0)) // gpus for path, free in hosts) >= count
        for hosts in _subtrees(cluster, level)
        for host, there in hosts
        if there >= leader
    )
    assert bool(made.placed) == is_possible
    if made.placed:
        used = _used(made, gpus, leader)
        assert len({path[: _LEVELS.index(level) + 1] for path in used}) == 1
        assert all(used.get(path, 0) <= free for path, free in cluster.free)


@given(_clusters(), st.integers(1, 4), st.integers(1, 12), st.sampled_from(_LEVELS))
def test_slices_are_found_whenever_they_fit_in_one_block(
    cluster: _Cluster, size: int, count: int, level: str
) -> None:
    request = TopologyRequest(required="block", layers=(Layer(level, size),))
    made = plan(cluster.leaves(), "t", _wants(request, count, 1, 0))

    depth = _LEVELS.index(level) + 1
    is_possible = any(
        sum(
            sum(free for path, free in hosts if path[:depth] == prefix) // size
            for prefix in {path[:depth] for path, _ in hosts}
        )
        >= count // size
        for hosts in _subtrees(cluster, "block")
    )
    assert (not made.refused) == is_possible


@given(_clusters(), st.sampled_from(_LEVELS), st.integers(1, 12), st.integers(1, 3))
def test_preferred_pods_wait_only_where_the_whole_cluster_is_too_small(
    cluster: _Cluster, level: str, count: int, gpus: int
) -> None:
    made = plan(cluster.leaves(), "t", _wants(TopologyRequest(preferred=level), count, gpus, 0))

    assert (not made.refused) == (sum(free // gpus for _, free in cluster.free) >= count)


_NODES = ("n1", "n2", "n3", "n4")
_CHANGES = st.lists(
    st.tuples(
        st.sampled_from(("node", "pod", "no pod", "gone", "away", "levels")),
        st.sampled_from(_NODES),
        st.integers(0, 4),
    ),
    max_size=12,
)


def _changed(places: PodPlaces, change: str, name: str, amount: int) -> None:
    labels = {HOSTNAME: name, "rack": f"r{amount % 2}", "block": "b1", "pool": "a"}
    node = Node(name=name, labels=labels, amounts={"gpu": amount, PODS: 110})
    match change:
        case "node":
            places.set_node(node)
        case "away":
            places.set_node(replace(node, taints=(CORDONED,)))
        case "gone":
            places.drop_node(name)
        case "pod":
            places.set_pod(name, BoundPod(name, {"gpu": amount, PODS: 1}))
        case "no pod":
            places.drop_pod(name)
        case _:
            places.topologies.set_topology("t", _LEVELS[amount % 2 :])


@given(_CHANGES)
def test_what_is_kept_of_domains_is_what_is_counted_anew(
    changes: list[tuple[str, str, int]],
) -> None:
    flavor = ResourceFlavor(name=FlavorName("tas"), node_labels={"pool": "a"}, topology="t")
    kept = PodPlaces()
    kept.set_flavor(flavor)
    kept.topologies.set_topology("t", _LEVELS)
    want = _wants(TopologyRequest(required="rack"), 2, 1, 0)
    for index, change in enumerate(changes):
        _changed(kept, *change)
        anew = PodPlaces()
        anew.set_flavor(flavor)
        anew.topologies.set_topology("t", _LEVELS)
        for earlier in changes[: index + 1]:
            _changed(anew, *earlier)

        assert kept.find(want) == anew.find(want)
        assert kept.why(want) == anew.why(want)
