"""Spare nodes follow what is supposed, and whoever they leave room for is tried again."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from admission.base.names import FlavorName, PodSetName, WorkloadKey
from admission.scheduling import model
from admission.scheduling.places.model import CORDONED, NOT_READY, BoundPod, Place
from tests.builders.scheduling import LOWER, NOW_US
from tests.scheduling.test_nodes_decide import asking as asking_nodes
from tests.scheduling.test_nodes_decide import cluster as cluster_of_nodes
from tests.scheduling.test_nodes_decide import node as node_of_flavor
from tests.scheduling.test_topologies import (
    GPU,
    ONE_RACK,
    RACK,
    asking,
    cluster,
    domains,
    node,
    nodes,
)
from tests.scheduling.worlds import World, evicted, waits

ONE_SPARE = model.SpareNodes(RACK, 1)
FLAVOR = FlavorName("a")
MAIN, SMALL = PodSetName("main"), PodSetName("small")


def set_spares(made: World, count: int) -> None:
    """Edit how many nodes each rack keeps."""
    spare = model.SpareNodes(RACK, count) if count else None
    flavor = model.ResourceFlavor(
        name=FLAVOR, node_labels={"pool": "a"}, topology="default", spare_nodes=spare
    )
    made.state.set_resource_flavor(flavor, NOW_US)


# ---------------------------------------------------------------------------- what is supposed


def full_rack(*priorities: int) -> World:
    """A rack all of whose nodes n0, n1 and so on are used, and that keeps one spare now."""
    rack = {f"n{index}": 1 for index in range(len(priorities))}
    made = cluster(*nodes(r1=rack), within=LOWER)
    for index, priority in enumerate(priorities):
        made.add(asking(f"w{index}", 1, ONE_RACK, priority=priority))
        assert domains(made.cycle(), f"w{index}") == {f"n{index}": 1}
    set_spares(made, 1)
    return made


def test_no_victim_is_taken_whose_node_would_be_the_spare():
    made = full_rack(100, 0, 0)
    made.add(asking("job", 2, ONE_RACK, priority=10))

    assert not evicted(made.cycle())


def test_as_many_victims_are_taken_as_leave_room_beside_the_spare():
    made = full_rack(0, 0, 0, 100)
    made.add(asking("job", 2, ONE_RACK, priority=10))
    victims = sorted(evicted(made.cycle()))
    assert victims == ["w0", "w1", "w2"]

    made.finish(*victims)

    assert domains(made.cycle()) == {"n0": 1, "n1": 1}


def test_workloads_that_are_supposed_to_be_gone_are_on_no_node_until_they_are_put_back():
    made = full_rack(100, 0)
    ledger, topologies = made.state.places.ledger, made.state.places.topologies
    topologies.note_spares(FLAVOR)
    keys = [WorkloadKey("default", "w0"), WorkloadKey("default", "w1")]

    ledger.lift(keys[0])
    assert (ledger.workloads_on("n0"), ledger.is_idle("n0")) == ((), True)
    assert (ledger.workloads_on("n1"), ledger.is_idle("n1")) == ((keys[1],), False)
    ledger.lift(keys[1])
    assert (ledger.workloads_on("n1"), ledger.is_idle("n1")) == ((), True)
    ledger.put_back(keys[1])
    ledger.put_back(keys[0])

    assert (ledger.workloads_on("n0"), ledger.is_idle("n0")) == ((keys[0],), False)
    assert not topologies.note_spares(FLAVOR)


def test_places_that_are_taken_on_trial_make_a_node_busy():
    made = cluster(*nodes(r1={"n1": 1, "n2": 1, "n3": 1}), spare=ONE_SPARE)
    places = made.state.places
    job = asking("job", 2, ONE_RACK)
    want = places.want(job.pod_sets[0], 2, (FLAVOR,), has_devices=True)
    assert want is not None
    assert places.find((want,)) == (Place(MAIN, "n1", 1), Place(MAIN, "n2", 1))

    on_spare = (Place(MAIN, "n3", 1),)
    places.ledger.take((want,), on_spare)
    assert places.find((replace(want, count=1),)) == (Place(MAIN, "n1", 1),)
    assert places.find((want,)) is None
    places.ledger.take((want,), on_spare, -1)

    assert places.find((want,)) is not None


def test_pods_of_one_workload_in_two_flavors_see_the_same_nodes():
    """The first flavor keeps no spares, so its pods are on what the second one would keep."""
    names = ("a", "b")
    made = cluster(*nodes(r1={"n1": 1, "n2": 2}), flavors=dict.fromkeys(names, "default"))
    for name, spare in zip(names, (None, ONE_SPARE), strict=True):
        flavor = model.ResourceFlavor(
            name=FlavorName(name), node_labels={"pool": "a"}, topology="default", spare_nodes=spare
        )
        made.state.set_resource_flavor(flavor, NOW_US)
    places = made.state.places
    large, small = asking("x", 1, ONE_RACK, gpus=2).pod_sets[0], asking("y", 1, ONE_RACK)
    first = places.want(large, 1, (FlavorName("a"),), has_devices=True)
    second = places.want(small.pod_sets[0], 1, (FlavorName("b"),), has_devices=True)
    assert first is not None
    assert second is not None
    second = replace(second, pod_set=SMALL)

    # n2 is in use, so n1 is the only idle node, and the spare
    assert places.find((first, second)) is None
    assert places.find((second,)) == (Place(SMALL, "n1", 1),)


def test_what_the_scheduler_would_preempt_is_free_once_where_its_workload_is_lifted():
    made = cluster_of_nodes(node_of_flavor("n1", 8))
    made.world.add(asking_nodes("low", 8, 1))
    made.cycle()
    places, key = made.places, WorkloadKey("default", "low")
    pod = BoundPod("n1", {GPU: 8, "pods": 1}, WorkloadKey("default", "low"), "main", priority=0)
    places.set_pod("low-0", pod)
    job = asking_nodes("job", 8, 2, priority=10)
    needs = job.pod_sets[0].needs
    assert needs is not None
    pods = replace(job.pod_sets[0], needs=replace(needs, priority=10))
    want = places.want(pods, 2, (FlavorName("a"),), has_devices=True)
    assert want is not None

    places.ledger.lift(key)
    assert not places.ledger.fits_by_preemption(want)
    places.ledger.put_back(key)

    assert places.ledger.fits_by_preemption(replace(want, count=1))


# --------------------------------------------------------------------------- who is tried again


def waiting_beside_a_spare() -> World:
    """Nodes n1 and n2 of two GPUs, of which n1 is used, and a job that would fit on the spare."""
    made = cluster(*nodes(r1={"n1": 2, "n2": 2}, r2={"z": 1}), spare=ONE_SPARE)
    made.add(asking("first", 1, ONE_RACK, gpus=2))
    assert domains(made.cycle(), "first") == {"n1": 1}
    made.add(asking("job", 1, ONE_RACK, gpus=2))
    assert "job" in waits(made.cycle())
    assert not made.cycle().admitted
    return made


def a_small_node_comes(made: World) -> None:
    made.state.places.set_node(node("n9", "r1", 1))


def a_small_node_of_another_rack_comes(made: World) -> None:
    made.state.places.set_node(node("z", "r1", 1))


def a_cordoned_node_comes_back(made: World) -> None:
    made.state.places.set_node(replace(node("n9", "r1", 1), taints=(CORDONED,)))
    assert not made.cycle().admitted
    made.state.places.set_node(node("n9", "r1", 1))


def an_unready_node_comes_back(made: World) -> None:
    made.state.places.set_node(replace(node("n9", "r1", 1), taints=(NOT_READY,)))
    assert not made.cycle().admitted
    made.state.places.set_node(node("n9", "r1", 1))


def a_pod_leaves_a_small_node(made: World) -> None:
    pod = BoundPod("n9", {GPU: 1, "pods": 1}, WorkloadKey("default", "gone"), "main")
    made.state.places.set_pod("pod", pod)
    made.state.places.set_node(node("n9", "r1", 1))
    assert not made.cycle().admitted
    made.state.places.drop_pod("pod")


def the_flavor_keeps_none(made: World) -> None:
    set_spares(made, 0)


@pytest.mark.parametrize(
    "event",
    [
        a_small_node_comes,
        a_small_node_of_another_rack_comes,
        a_cordoned_node_comes_back,
        an_unready_node_comes_back,
        a_pod_leaves_a_small_node,
        the_flavor_keeps_none,
    ],
)
def test_who_waits_is_tried_again_when_another_node_is_the_spare(
    event: Callable[[World], None],
):
    made = waiting_beside_a_spare()

    event(made)

    assert domains(made.cycle()) == {"n2": 1}


def test_who_waits_is_tried_again_when_the_spare_is_used_in_part():
    made = cluster(*nodes(r1={"n1": 1, "n2": 2}), spare=ONE_SPARE)
    made.add(asking("first", 1, ONE_RACK))
    assert domains(made.cycle(), "first") == {"n1": 1}
    made.add(asking("job", 1, ONE_RACK))
    assert "job" in waits(made.cycle())

    made.state.places.drop_node("n1")
    assert made.state.replace_hosts(WorkloadKey("default", "first"), ["n1"], NOW_US) is True

    assert domains(made.cycle()) == {"n2": 1}


def test_who_waits_is_tried_again_when_fewer_nodes_are_kept():
    made = cluster(*nodes(r1={"n1": 1, "n2": 1, "n3": 1}), spare=model.SpareNodes(RACK, 2))
    made.add(asking("job", 2, ONE_RACK))
    assert "job" in waits(made.cycle())

    set_spares(made, 1)

    assert domains(made.cycle()) == {"n1": 1, "n2": 1}


def test_nobody_is_tried_again_while_the_spares_stay_the_same():
    made = waiting_beside_a_spare()
    helped = made.state.places.take_helped

    made.state.places.set_node(node("n0", "r1", 1))  # not the last one by name
    made.state.places.ledger.settle()

    assert not helped()


def test_questions_follow_what_changed_and_not_how_many_nodes_there_are():
    racks = {f"r{rack}": {f"n{rack:02}-{index}": 1 for index in range(8)} for rack in range(12)}
    made = cluster(*nodes(**racks), spare=ONE_SPARE)
    places = made.state.places
    want = places.want(asking("job", 7, ONE_RACK).pod_sets[0], 7, (FLAVOR,), has_devices=True)
    assert want is not None
    assert places.find((want,)) is not None
    asked: list[str] = []
    free = places.ledger.free

    def counted(name: str) -> object:
        asked.append(name)
        return free(name)

    places.ledger.free = counted  # type: ignore[method-assign,assignment]
    pod = BoundPod("n03-7", {GPU: 1, "pods": 1}, WorkloadKey("default", "other"), "main")
    places.set_pod("pod", pod)
    assert places.find((want,)) is not None

    assert {name[:3] for name in asked} <= {"n03"}
