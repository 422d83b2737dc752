"""Flavors of several resource groups that fit together are found, whichever is tried first."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from admission.base.names import FlavorName, PodSetName, ResourceName
from admission.scheduling import model
from admission.scheduling.model import PodNeeds
from tests.builders.scheduling import cluster_queue, group, waiting
from tests.scheduling.test_nodes_decide import GPU, Cluster, node
from tests.scheduling.worlds import admitted, waits, world

MEMORY, NIC = ResourceName("memory"), ResourceName("rdma/hca")
RESOURCES = (MEMORY, GPU, NIC)
LABELS = ("zone", "card")


class Flavor(NamedTuple):
    """A flavor.

    Attributes:
        quota: of its resource.
        labels: of its nodes.
    """

    quota: int
    labels: Mapping[str, str]


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
    Flavor, st.sampled_from((0, 1)), st.dictionaries(st.sampled_from(LABELS), VALUES, max_size=2)
)
GROUPS = st.tuples(*(st.lists(FLAVORS, min_size=1, max_size=3) for _ in RESOURCES))
HOSTS = st.lists(
    st.builds(Host, st.sampled_from((0, 1)), st.fixed_dictionaries(dict.fromkeys(LABELS, VALUES))),
    max_size=4,
)


def named(groups: tuple[list[Flavor], ...]) -> list[dict[str, Flavor]]:
    return [
        {f"f{place}-{index}": flavor for index, flavor in enumerate(flavors)}
        for place, flavors in enumerate(groups)
    ]


def made(groups: tuple[list[Flavor], ...], hosts: list[Host]) -> Cluster:
    by_group = named(groups)
    queue = cluster_queue(
        "q",
        groups=[
            group({name: {resource: (flavor.quota,)} for name, flavor in flavors.items()})
            for resource, flavors in zip(RESOURCES, by_group, strict=True)
        ],
    )
    flavors = [
        model.ResourceFlavor(name=FlavorName(name), node_labels=flavor.labels)
        for flavors in by_group
        for name, flavor in flavors.items()
    ]
    nodes = {}
    for index, host in enumerate(hosts):
        plain = node(f"n{index}", 8, labels=dict(host.labels))
        amounts: dict[str, int] = {**dict.fromkeys(RESOURCES, 8), "pods": 110}
        nodes[plain.name] = replace(plain, amounts=amounts)
    config = model.Config(consistent_flavors=True)
    cluster = Cluster(world(*flavors, queue, flavors=(), config=config), nodes)
    for index, host in enumerate(hosts):
        if not host.free:
            cluster.pod(f"other-{index}", f"n{index}", {GPU: 8})
    return cluster


def fits(groups: tuple[list[Flavor], ...], hosts: list[Host]) -> bool:
    """Whether some flavors have quota, contradict nothing, and select a node that has room."""
    return any(
        all(flavor.quota for flavor in flavors)
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


def asking() -> model.Workload:
    requests = dict.fromkeys(RESOURCES, 1)
    needs = PodNeeds(requests=tuple(sorted(requests.items())), devices=(GPU,))
    pods = model.PodSet(name=PodSetName("main"), count=1, requests=requests, needs=needs)
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
