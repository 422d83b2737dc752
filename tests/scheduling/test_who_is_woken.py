"""Who is looked at again when a node changes: nobody whom it cannot help."""

from collections.abc import Callable
from dataclasses import replace
from unittest import mock

import pytest

from admission.base.names import ClusterQueueName, FlavorName, WorkloadKey
from admission.scheduling import model
from admission.scheduling.model import Enforcement
from admission.scheduling.places import predicate
from admission.scheduling.places.ledger import NodeLedger
from tests.builders.scheduling import (
    LOWER,
    NOW_US,
    SECOND_US,
    cluster_queue,
    group,
    holding,
    waiting,
)
from tests.scheduling.test_nodes_decide import GPU, Cluster, asking, cluster, node
from tests.scheduling.worlds import admitted, evicted, waits, world

LATER_US = NOW_US + 60 * SECOND_US
TAINT = model.Taint(key="gone", effect="NoSchedule")


def waiting_cluster() -> Cluster:
    """A pod of 4 GPUs waits; no node has room for it."""
    made = cluster(
        node("full", 4),
        node("small", 2),
        node("tainted", 4, taints=(TAINT,)),
        node("other", 4, "b"),
        quota={"a": 64},
    )
    for name, gpus in (("full", 4), ("small", 2), ("tainted", 4), ("other", 4)):
        made.pod(f"on-{name}", name, {GPU: gpus})
    made.world.add(asking("large", 4))
    assert admitted(made.cycle()) == []
    assert not made.world.state.has_work(LATER_US)
    return made


@pytest.mark.parametrize("name", ["small", "tainted", "other"])
def test_a_pod_that_ends_on_a_node_that_cannot_take_who_waits_wakes_nobody(name: str) -> None:
    made = waiting_cluster()
    cycles = made.world.state.cycles

    made.places.drop_pod(f"on-{name}")

    assert not made.world.state.has_work(LATER_US)
    assert made.world.state.cycles == cycles


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made.places.drop_pod("on-full"),
        lambda made: made.places.set_node(node("new", 4)),
        lambda made: made.places.set_node(replace(node("tainted", 4), taints=())),
        lambda made: made.places.set_node(node("other", 4, "a")),
        lambda made: made.places.set_node(node("small", 8)),
    ],
    ids=["pod ended", "node came", "taint gone", "label came", "node grew"],
)
def test_what_may_help_who_waits_wakes_it(change: Callable[[Cluster], None]) -> None:
    made = waiting_cluster()

    change(made)

    assert made.world.state.has_work(LATER_US)


@pytest.mark.parametrize("quota", [4, 64], ids=["quota in use", "quota free"])
def test_who_may_preempt_on_a_node_that_takes_nobody_is_tried_again_once_it_does(
    quota: int,
) -> None:
    made = cluster(node("n1", 4), quota={"a": quota}, within=LOWER)
    made.world.add(asking("low", 4))
    assert admitted(made.cycle()) == ["low"]
    made.places.set_node(replace(node("n1", 4), taints=(TAINT,)))
    made.world.add(replace(asking("high", 4), priority=9))
    result = made.cycle()
    assert evicted(result) == {}
    assert waits(result)["high"].reason == "WaitingForNode"
    assert not made.world.state.has_work(LATER_US)

    made.places.set_node(node("n1", 4))

    assert made.world.state.has_work(LATER_US)
    assert sorted(evicted(made.cycle())) == ["low"]


def test_a_report_of_a_node_that_says_nothing_new_wakes_nobody() -> None:
    made = waiting_cluster()
    version = made.places.ledger.version

    for name in ("full", "small", "tainted"):
        made.places.set_node(replace(made.places.ledger.nodes[name]))

    assert made.places.ledger.version == version
    assert not made.world.state.has_work(LATER_US)


def test_who_spreads_its_pods_is_woken_by_a_node_that_goes() -> None:
    spread = (model.Spread("kubernetes.io/hostname", 1),)
    made = cluster(node("n1", 4), node("n2", 4), node("n3", 4))
    made.pod("on-n3", "n3", {GPU: 4})
    made.world.add(asking("gang", 1, 4, needs={"spread": spread}))
    assert admitted(made.cycle()) == []

    made.places.drop_node("n3")

    assert made.world.state.has_work(LATER_US)
    assert admitted(made.cycle()) == ["gang"]


# --------------------------------------------------------------- where nodes only tell


def test_what_is_admitted_is_assumed_on_nodes_where_they_only_tell() -> None:
    made = cluster(node("n1", 4), node("n2", 4), placement=Enforcement.TELL)
    made.world.add(asking("w1", 3))
    result = made.world.cycle()  # nothing is bound yet

    assert admitted(result) == ["w1"]
    key = WorkloadKey("default", "w1")
    (host,) = made.places.hosts(key)["main"]
    assert made.places.ledger.free(host)[GPU] == 1

    made.bind("w1", *made.places.ledger.places(key))
    assert made.places.ledger.places(key) == ()
    assert made.places.ledger.free(host)[GPU] == 1


def test_where_nodes_only_tell_who_has_no_place_is_admitted_and_gets_one_in_turn() -> None:
    made = cluster(node("n1", 4), placement=Enforcement.TELL)
    made.pod("foreign", "n1", {GPU: 4})
    for name in ("w1", "w2"):
        made.world.add(asking(name, 4))
        assert admitted(made.world.cycle()) == [name]

    made.places.set_node(node("n2", 4))
    made.world.state.has_work(LATER_US)

    assert made.places.hosts(WorkloadKey("default", "w1")) == {"main": ("n2",)}
    assert made.places.hosts(WorkloadKey("default", "w2")) == {}
    made.places.drop_pod("foreign")
    made.world.state.has_work(LATER_US)
    assert made.places.hosts(WorkloadKey("default", "w2")) == {"main": ("n1",)}


def test_thousands_that_have_no_place_cost_a_question_for_each_shape() -> None:
    made = cluster(node("n1", 4), node("n2", 2), placement=Enforcement.TELL, quota={"a": 9_000})
    made.pod("foreign-1", "n1", {GPU: 4})
    made.pod("foreign-2", "n2", {GPU: 2})
    state = made.world.state
    for index in range(1_000):
        held = model.Reservation(
            cluster_queue=ClusterQueueName("q"),
            pod_sets=(
                model.PodSetAssignment(
                    name=asking("w", 4).pod_sets[0].name,
                    count=1,
                    flavors={GPU: FlavorName("a")},
                    usage={GPU: 4},
                ),
            ),
        )
        state.set_workload(replace(asking(f"w{index}", 4), reservation=held), NOW_US)
    state.has_work(NOW_US)

    with (
        mock.patch.object(predicate, "copies", side_effect=predicate.copies) as copies,
        mock.patch.object(
            NodeLedger, "_find_places", autospec=True, side_effect=NodeLedger._find_places
        ) as searches,
    ):
        made.places.drop_pod("foreign-2")
        state.has_work(NOW_US)
        assert searches.call_count == 0
        assert copies.call_count <= 2
        made.places.drop_pod("foreign-1")
        state.has_work(NOW_US)
        assert searches.call_count == 1

    assert made.places.hosts(WorkloadKey("default", "w0")) == {"main": ("n1",)}


@pytest.mark.parametrize("is_given_back", [True, False])
def test_who_was_overtaken_starts_with_the_first_flavor_once_something_was_given_back(
    is_given_back: bool,
) -> None:
    """Both want the rest of the first flavor; the second has too little for the one that loses."""
    flavors = {"first": {"cpu": (0,)}, "second": {"cpu": (1,)}}
    objects = (
        cluster_queue("amber", groups=[group(flavors)], cohort="q"),
        cluster_queue("beryl", groups=[group({"first": {"cpu": (8,)}})], cohort="q"),
        holding("old", "beryl", usage={("first", "cpu"): 4}),
        waiting("wins", "beryl", 4, priority=9),
        waiting("loses", "amber", 4),
    )
    made = world(*objects, flavors=("first", "second"))
    assert admitted(made.cycle()) == ["wins"]
    if is_given_back:
        made.finish("old")
    assert admitted(made.cycle()) == []  # the second flavor is tried first, as in Kueue
    if not is_given_back:
        assert admitted(made.cycle()) == []
        made.finish("old")
    assert admitted(made.cycle()) == ["loses"]


def test_who_was_overtaken_waits_for_the_nodes_of_all_flavors() -> None:
    quotas = {"a": {str(GPU): (8,)}, "b": {str(GPU): (8,)}}
    made = Cluster(
        world(
            model.ResourceFlavor(name=FlavorName("a"), node_labels={"flavor": "a"}),
            model.ResourceFlavor(name=FlavorName("b"), node_labels={"flavor": "b"}),
            cluster_queue("q", groups=[group(quotas)]),
            cluster_queue("other", groups=[group({"a": {str(GPU): (8,)}})]),
        ),
        {"n1": node("n1", 8), "n2": node("n2", 2, flavor="b")},
    )
    made.pod("foreign", "n1", {GPU: 4})
    made.world.add(asking("wins", 4, queue="other", priority=9), asking("loses", 4))
    assert admitted(made.cycle()) == ["wins"]
    made.cycle()
    made.cycle()
    made.places.drop_pod("foreign")
    assert admitted(made.cycle()) + admitted(made.cycle()) == ["loses"]
