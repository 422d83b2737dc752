"""Flavors of several resource groups that fit together are found, whichever is tried first."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from admission.base.names import ClusterQueueName, FlavorName, PodSetName, ResourceName
from admission.scheduling import model
from admission.scheduling.model import PodNeeds
from admission.scheduling.places.model import HOSTNAME
from admission.scheduling.topology.request import TopologyRequest
from tests.builders.scheduling import LOWER, NOW_US, cluster_queue, group, waiting
from tests.scheduling.test_nodes_decide import GPU, Cluster, node
from tests.scheduling.worlds import admitted, evicted, waits, world

MEMORY, NIC = ResourceName("memory"), ResourceName("rdma/hca")
RESOURCES = (MEMORY, GPU, NIC)
LABELS = ("zone", "card")


class Flavor(NamedTuple):
    """A flavor.

    Attributes:
        quota: of its resource.
        labels: of its nodes.
        held: how much of the quota a workload holds.
    """

    quota: int
    labels: Mapping[str, str]
    held: int = 0


class Host(NamedTuple):
    """A node.

    Attributes:
        free: of each resource.
        labels: all that flavors select by.
    """

    free: int
    labels: Mapping[str, str]


VALUES = st.sampled_from(("1", "2"))
FLAVORS = st.builds(
    Flavor,
    st.sampled_from((0, 1)),
    st.dictionaries(st.sampled_from(LABELS), VALUES, max_size=2),
    st.just(0),
)
GROUPS = st.tuples(*(st.lists(FLAVORS, min_size=1, max_size=3) for _ in RESOURCES))
HELD = st.builds(
    Flavor,
    st.just(1),
    st.dictionaries(st.sampled_from(LABELS), VALUES, max_size=2),
    st.sampled_from((0, 0, 1)),
)
GROUPS_HELD = st.tuples(*(st.lists(HELD, min_size=1, max_size=3) for _ in RESOURCES))
HOSTS = st.lists(
    st.builds(Host, st.sampled_from((0, 1)), st.fixed_dictionaries(dict.fromkeys(LABELS, VALUES))),
    max_size=4,
)


def named(groups: tuple[list[Flavor], ...]) -> list[dict[str, Flavor]]:
    return [
        {f"f{place}-{index}": flavor for index, flavor in enumerate(flavors)}
        for place, flavors in enumerate(groups)
    ]


def made(
    groups: tuple[list[Flavor], ...], hosts: list[Host], topology: str = "", **fields: Any
) -> Cluster:
    """A queue with these groups, whose flavors have a topology if it is named.

    Args:
        fields: of the queue.
    """
    by_group = named(groups)
    queue = cluster_queue(
        "q",
        **fields,
        groups=[
            group({name: {resource: (flavor.quota,)} for name, flavor in flavors.items()})
            for resource, flavors in zip(RESOURCES, by_group, strict=True)
        ],
    )
    flavors = [
        model.ResourceFlavor(name=FlavorName(name), node_labels=flavor.labels, topology=topology)
        for flavors in by_group
        for name, flavor in flavors.items()
    ]
    nodes = {}
    for index, host in enumerate(hosts):
        plain = node(f"n{index}", 8, labels={**host.labels, HOSTNAME: f"n{index}"})
        amounts: dict[str, int] = {**dict.fromkeys(RESOURCES, 8), "pods": 110}
        nodes[plain.name] = replace(plain, amounts=amounts)
    config = model.Config(consistent_flavors=True)
    cluster = Cluster(world(*flavors, queue, flavors=(), config=config), nodes)
    for index, host in enumerate(hosts):
        if not host.free:
            cluster.pod(f"other-{index}", f"n{index}", {GPU: 8})
    if topology:
        cluster.world.state.set_topology(topology, ("zone", HOSTNAME), NOW_US)
    for resource, flavors_of_group in zip(RESOURCES, by_group, strict=True):
        for name, flavor in flavors_of_group.items():
            if flavor.held:
                cluster.world.add(holder(resource, FlavorName(name)))
    return cluster


def holder(resource: ResourceName, flavor: FlavorName) -> model.Workload:
    """A workload that holds 1 of a flavor, and has no pods."""
    requests = {resource: 1}
    needs = PodNeeds(requests=tuple(requests.items()))
    pods = model.PodSet(name=PodSetName("main"), count=1, requests=requests, needs=needs)
    given_flavor = model.PodSetAssignment(
        name=pods.name, count=1, flavors={resource: flavor}, usage=requests
    )
    reservation = model.Reservation(
        cluster_queue=ClusterQueueName("q"),
        pod_sets=(given_flavor,),
        reserved_us=NOW_US,
        admitted=True,
    )
    name = f"holder-of-{flavor}"
    return replace(waiting(name, "q", sets=(pods,), priority=-1), reservation=reservation)


def fits(groups: tuple[list[Flavor], ...], hosts: list[Host]) -> bool:
    """Whether some flavors have free quota, contradict nothing, and select a node with room."""
    return any(
        all(flavor.quota > flavor.held for flavor in flavors)
        and (not hosts or any(host.free and _selects(flavors, host) for host in hosts))
        and all(
            first.labels.get(label, value) == value
            for first in flavors
            for other in flavors
            for label, value in other.labels.items()
        )
        for flavors in product(*groups)
    )


def _selects(flavors: tuple[Flavor, ...], host: Host) -> bool:
    return all(flavor.labels.items() <= host.labels.items() for flavor in flavors)


def asking(request: TopologyRequest | None = None) -> model.Workload:
    requests = dict.fromkeys(RESOURCES, 1)
    needs = PodNeeds(requests=tuple(sorted(requests.items())), devices=(GPU,))
    pods = model.PodSet(
        name=PodSetName("main"), count=1, requests=requests, needs=needs, topology=request
    )
    return waiting("w", "q", sets=(pods,))


ONE, TWO = {"zone": "1"}, {"zone": "2"}


@given(groups=GROUPS, hosts=HOSTS)
@example(
    groups=(
        [Flavor(1, ONE), Flavor(1, TWO)],
        [Flavor(1, {"card": "1"}), Flavor(1, {"card": "2", "zone": "1"})],
        [Flavor(1, TWO), Flavor(0, {"card": "2", "zone": "1"})],
    ),
    hosts=[],
)
@example(
    groups=([Flavor(1, ONE), Flavor(1, TWO)], [Flavor(1, {"card": "1"})], [Flavor(1, {})]),
    hosts=[
        Host(0, {"zone": "1", "card": "1"}),
        Host(1, {"zone": "2", "card": "1"}),
        Host(1, {"zone": "1", "card": "2"}),
    ],
)
def test_whoever_fits_in_some_flavors_gets_flavors(
    groups: tuple[list[Flavor], ...], hosts: list[Host]
) -> None:
    cluster = made(groups, hosts)
    cluster.world.add(asking())

    result = cluster.world.cycle()

    if fits(groups, hosts):
        assert admitted(result) == ["w"], waits(result)["w"].why


A_FEW_CYCLES = 3


@given(
    groups=GROUPS_HELD,
    hosts=HOSTS,
    has_topology=st.booleans(),
)
@example(
    groups=(
        [Flavor(1, ONE), Flavor(1, TWO)],
        [Flavor(1, ONE, held=1), Flavor(1, TWO)],
        [Flavor(1, {})],
    ),
    hosts=[],
    has_topology=False,
)
@example(
    groups=(
        [Flavor(1, {}), Flavor(1, {"zone": "2", "card": "1"})],
        [Flavor(1, {"zone": "2", "card": "2"}), Flavor(1, {"card": "2"})],
        [Flavor(1, {"card": "2"}, held=1), Flavor(1, {}, held=1), Flavor(1, ONE)],
    ),
    hosts=[],
    has_topology=False,
)
def test_whoever_fits_beside_those_that_hold_flavors_gets_flavors(
    groups: tuple[list[Flavor], ...],
    hosts: list[Host],
    has_topology: bool,
) -> None:
    cluster = made(groups, hosts, "racks" if has_topology else "")
    cluster.world.add(asking(TopologyRequest(required="zone") if has_topology else None))

    results = [cluster.world.cycle() for _ in range(A_FEW_CYCLES)]

    if fits(groups, hosts) and (hosts or not has_topology):
        assert [name for result in results for name in admitted(result)] == ["w"]


@given(groups=GROUPS_HELD, hosts=HOSTS)
@example(
    groups=(
        [Flavor(1, ONE), Flavor(1, TWO)],
        [Flavor(1, ONE, held=1), Flavor(1, TWO)],
        [Flavor(1, {})],
    ),
    hosts=[],
)
def test_nobody_is_preempted_for_whom_some_flavors_are_free(
    groups: tuple[list[Flavor], ...], hosts: list[Host]
) -> None:
    cluster = made(groups, hosts, within=LOWER)
    cluster.world.add(asking())

    result = cluster.world.cycle()

    if fits(groups, hosts):
        assert (admitted(result), evicted(result)) == (["w"], {})


def test_who_is_overtaken_in_some_flavors_gets_others_that_are_free():
    """The first flavors are taken by another queue, and the second ones contradict each other."""
    labels = {"m1": ONE, "m2": TWO, "g1": {}, "g2": ONE}
    queues = [
        cluster_queue(
            name,
            cohort="all",
            groups=[
                group({"m1": {MEMORY: (amount,)}, "m2": {MEMORY: (amount,)}}),
                group({"g1": {GPU: (2 * amount,)}, "g2": {GPU: (amount,)}}),
            ],
        )
        for name, amount in (("lender", 1), ("first", 0), ("second", 0))
    ]
    flavors = [
        model.ResourceFlavor(name=FlavorName(name), node_labels=of_nodes)
        for name, of_nodes in labels.items()
    ]
    engine = world(
        *flavors, *queues, flavors=(), config=model.Config(consistent_flavors=True)
    )  # fmt: skip
    requests = {MEMORY: 1, GPU: 1}
    pods = model.PodSet(name=PodSetName("main"), count=1, requests=requests)
    for name in ("first", "second"):
        engine.add(waiting(f"of-{name}", name, sets=(pods,)))

    overtaken = engine.cycle()
    results = [engine.cycle() for _ in range(A_FEW_CYCLES)]

    assert admitted(overtaken) == ["of-first"]
    assert "of-second" in waits(overtaken)
    given_flavors = [dict(a.pod_sets[0].flavors) for result in results for a in result.admitted]
    assert given_flavors == [{MEMORY: "m2", GPU: "g1"}]
