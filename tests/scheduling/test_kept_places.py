"""Places are kept for a preemptor beyond what its pods use and are promised, and no longer."""

from dataclasses import replace

import pytest

from admission.base.names import ClusterQueueName, LocalQueueKey, Uid, WorkloadKey
from admission.scheduling import model
from admission.scheduling.places.model import HOSTNAME
from tests.builders.scheduling import LOWER, NOW_US, SECOND_US, cluster_queue, group
from tests.scheduling.test_charged_places import OWNER, TRAIN, charge, free
from tests.scheduling.test_nodes_decide import GPU, A, Cluster, asking, cluster, node
from tests.scheduling.worlds import admitted, evicted


def assigned(gpus: int) -> model.Reservation:
    """Quota for one pod."""
    pod_set = asking("any", gpus).pod_sets[0].name
    return model.Reservation(
        cluster_queue=ClusterQueueName("q"),
        pod_sets=(
            model.PodSetAssignment(name=pod_set, count=1, flavors={GPU: A}, usage={GPU: gpus}),
        ),
        reserved_us=NOW_US,
        admitted_us=NOW_US,
        admitted=True,
    )


def are_ending(made: Cluster, *uids: str) -> None:
    for uid in uids:
        pod = made.places.ledger._pods[uid]
        made.places.set_pod(uid, replace(pod, is_leaving=True, is_ending=True))


def wait_again(made: Cluster, gpus: int, *names: str) -> None:
    """Victims that have given their quota back."""
    for name in names:
        made.world.state.drop_workload(WorkloadKey("default", name), NOW_US)
        made.world.add(asking(name, gpus))


def of_three() -> Cluster:
    """A workload of three pods: one is charged on n0, victims of the others leave n1 and n2."""
    made = cluster(node("n0", 4), quota={"a": 64}, within=LOWER)
    made.world.add(asking("train", 4, priority=9))
    assert admitted(made.world.cycle()) == ["train"]
    made.world.finish("train")
    charge(made, OWNER)
    for name in ("n1", "n2"):
        made.places.set_node(node(name, 4))
        made.world.add(asking(f"low-{name}", 4))
        assert admitted(made.cycle()) == [f"low-{name}"]
    made.world.add(replace(asking("train", 4, 3, priority=9), uid=Uid("again")))
    assert sorted(evicted(made.cycle())) == ["low-n1", "low-n2"]
    are_ending(made, "low-n1-main-n1-0", "low-n2-main-n2-0")
    wait_again(made, 4, "low-n1", "low-n2")
    assert admitted(made.world.cycle()) == []
    return made


def test_a_pod_that_comes_to_a_kept_place_has_it_and_its_old_place_is_kept() -> None:
    made = of_three()

    made.places.drop_pod("low-n1-main-n1-0")
    made.pod("train-0", "n1", {GPU: 4}, "train")

    assert free(made) == {"n0": 0, "n1": 0, "n2": -4}
    assert admitted(made.world.cycle()) == []
    made.places.drop_pod("low-n2-main-n2-0")
    assert admitted(made.world.cycle()) == ["train"]


def test_a_promise_that_moves_to_a_kept_place_ends_nothing_that_is_kept() -> None:
    made = of_three()

    made.pod("foreign", "n0", {GPU: 2})
    made.places.drop_pod("low-n1-main-n1-0")
    assert admitted(made.world.cycle()) == []
    assert [place.node for place in made.places.ledger.places(TRAIN)] == ["n1"]
    made.places.drop_pod("foreign")

    assert free(made) == {"n0": 0, "n1": 0, "n2": -4}
    made.places.drop_pod("low-n2-main-n2-0")
    assert admitted(made.world.cycle()) == ["train"]


def test_what_a_larger_pod_needs_beyond_its_earlier_one_is_kept() -> None:
    made = cluster(node("n0", 8), quota={"a": 64}, within=LOWER)
    made.world.add(asking("train", 2, priority=9))
    assert admitted(made.world.cycle()) == ["train"]
    made.world.finish("train")
    earlier = replace(
        asking("train", 2), key=OWNER, reservation=assigned(2), stays=True, stands_for=TRAIN
    )
    made.world.state.set_workload(earlier, NOW_US)
    for name in ("low-0", "low-1"):
        made.world.add(asking(name, 3))
        assert admitted(made.cycle()) == [name]
    made.world.add(replace(asking("train", 8, priority=9), uid=Uid("again")))
    assert sorted(evicted(made.cycle())) == ["low-0", "low-1"]
    are_ending(made, "low-0-main-n0-0", "low-1-main-n0-0")
    wait_again(made, 3, "low-0", "low-1")

    made.places.drop_pod("low-0-main-n0-0")
    assert [admitted(made.cycle()) for _ in range(4)] == [[]] * 4
    made.places.drop_pod("low-1-main-n0-0")
    assert admitted(made.cycle()) == ["train"]


def waiting_train(nodes: int = 1) -> Cluster:
    """A workload whose victim leaves n0."""
    made = cluster(*(node(f"n{index}", 4) for index in range(nodes)), within=LOWER)
    other = cluster_queue("other", groups=[group({"a": {GPU: (64,)}})], within=LOWER)
    made.world.state.set_cluster_queue(other, NOW_US)
    key = LocalQueueKey("default", "other")
    made.world.state.set_local_queue(model.LocalQueue(key=key, cluster_queue=other.name), NOW_US)
    for index in range(nodes):
        made.world.add(asking(f"low-{index}", 4, queue=("q", "other")[index]))
        assert admitted(made.cycle()) == [f"low-{index}"]
    made.world.add(asking("train", 4, priority=9))
    assert list(evicted(made.cycle())) == ["low-0"]
    return made


def test_nothing_is_kept_for_what_is_told_to_leave_as_it_is_seen_with_quota() -> None:
    made = waiting_train()
    train = made.world.state.workload(TRAIN)
    assert train is not None

    eviction = model.Eviction(reason="Preempted", since_us=NOW_US)
    made.world.add(replace(train, reservation=assigned(4), eviction=eviction))

    assert free(made) == {"n0": 0}


def test_what_moves_to_another_queue_is_kept_by_that_one_alone() -> None:
    made = waiting_train(2)
    train = made.world.state.workload(TRAIN)
    assert train is not None
    made.world.clock += 40
    made.world.add(replace(train, queue=LocalQueueKey("default", "other")))
    assert list(evicted(made.cycle())) == ["low-1"]

    for after, is_kept in ((65, True), (105, False)):
        made.world.clock = after
        made.world.state.has_work(NOW_US + after * SECOND_US)
        assert made.places.ledger.is_kept(TRAIN) == is_kept


def test_what_is_kept_ends_in_time_also_where_all_nodes_are_gone() -> None:
    made = waiting_train()
    made.finish("low-0")
    made.places.drop_node("n0")

    later_us = NOW_US + 200 * SECOND_US
    made.world.state.has_work(later_us)

    wakeup_us = made.world.state.next_wakeup_us()
    assert wakeup_us is None or wakeup_us > later_us


def two_nodes(*, low_on_second: int = 4) -> Cluster:
    """Two nodes of 4 GPUs; the pod of n0 leaves for "first", which is not the first any more."""
    made = cluster(node("n0", 4), node("n1", 4), within=LOWER)
    for name, host, gpus in (("low-0", "n0", 4), ("low-1", "n1", low_on_second)):
        made.world.add(asking(name, gpus, selector={HOSTNAME: host}))
        assert admitted(made.cycle()) == [name]
    made.world.add(asking("first", 4, priority=1, selector={HOSTNAME: "n0"}))
    assert list(evicted(made.cycle())) == ["low-0"]
    are_ending(made, "low-0-main-n0-0")
    wait_again(made, 4, "low-0")
    assert admitted(made.cycle()) == []
    return made


def test_another_preemptor_of_its_queue_ends_nothing_that_is_kept() -> None:
    made = two_nodes()
    made.world.add(asking("second", 4, priority=1, selector={HOSTNAME: "n1"}))
    for _ in range(3):
        made.cycle()
    assert made.places.ledger.is_kept(WorkloadKey("default", "second"))
    made.finish("low-1")

    assert free(made) == {"n0": -4, "n1": 0}
    made.places.drop_pod("low-0-main-n0-0")
    results = [admitted(made.cycle()) for _ in range(3)]
    assert sorted(name for names in results for name in names) == ["first", "second"]


def test_a_higher_priority_that_gets_room_elsewhere_ends_nothing_that_is_kept() -> None:
    made = two_nodes(low_on_second=2)
    made.world.add(asking("high", 2, priority=2))

    assert admitted(made.cycle()) == ["high"]

    assert free(made)["n0"] == -4


def test_a_higher_priority_that_gets_no_room_ends_nothing_that_is_kept() -> None:
    made = two_nodes()
    made.pod("foreign", "n1", {GPU: 4})
    made.world.add(asking("high", 4, priority=2, selector={HOSTNAME: "n1"}))

    for _ in range(3):
        assert admitted(made.cycle()) == []

    assert made.places.ledger.is_kept(WorkloadKey("default", "first"))


def test_a_higher_priority_with_victims_on_the_same_node_takes_what_is_kept() -> None:
    made = cluster(node("n0", 4), within=LOWER)
    for name in ("low-0", "low-1"):
        made.world.add(asking(name, 2))
        assert admitted(made.cycle()) == [name]
    made.world.add(asking("first", 2, priority=1))
    (victim,) = evicted(made.cycle())
    are_ending(made, f"{victim}-main-n0-0")
    wait_again(made, 2, victim)
    assert admitted(made.cycle()) == []

    made.world.add(asking("high", 4, priority=2))
    (other,) = evicted(made.cycle())

    assert {victim, other} == {"low-0", "low-1"}
    assert made.places.ledger.is_kept(WorkloadKey("default", "high"))
    assert not made.places.ledger.is_kept(WorkloadKey("default", "first"))


def test_who_waits_for_its_victims_is_tried_though_an_equal_one_has_no_room() -> None:
    made = two_nodes()
    made.world.add(asking("equal", 4, priority=1, selector={HOSTNAME: "n0"}, created=-10))
    for _ in range(4):
        assert admitted(made.cycle()) == []

    made.places.drop_pod("low-0-main-n0-0")

    results = [admitted(made.cycle()) for _ in range(3)]
    assert [name for names in results for name in names] == ["first"]


def half_free(second: int) -> Cluster:
    """A node of 4 GPUs kept for "first", half of it free by now, and an empty second node."""
    made = cluster(node("n0", 4), within=LOWER)
    for name in ("low-0", "low-1"):
        made.world.add(asking(name, 2))
        assert admitted(made.cycle()) == [name]
    made.world.add(asking("first", 4, priority=1, selector={HOSTNAME: "n0"}))
    assert sorted(evicted(made.cycle())) == ["low-0", "low-1"]
    are_ending(made, "low-0-main-n0-0", "low-1-main-n0-0")
    made.world.finish("low-0", "low-1")
    assert admitted(made.cycle()) == []
    made.places.drop_pod("low-0-main-n0-0")
    made.places.set_node(node("n1", second))
    return made


@pytest.mark.parametrize("second", [3, 4])
def test_a_higher_priority_goes_beside_what_is_kept_where_there_is_room(second: int) -> None:
    made = half_free(second)
    made.world.add(asking("high", 2, priority=2))

    results = [made.cycle() for _ in range(3)]

    places = {each.workload.name: each.places for r in results for each in r.admitted}
    assert [place.node for place in places["high"]] == ["n1"]
    made.places.drop_pod("low-1-main-n0-0")
    assert "first" in [name for _ in range(3) for name in admitted(made.cycle())]


def test_a_higher_priority_stops_victims_of_its_own_before_it_waits_for_what_is_kept() -> None:
    made = half_free(4)
    made.world.add(asking("low-2", 4))
    assert "low-2" in [name for _ in range(3) for name in admitted(made.cycle())]
    made.world.add(asking("high", 4, priority=2))

    results = [evicted(made.cycle()) for _ in range(3)]

    assert any("low-2" in victims for victims in results)
    assert made.places.ledger.is_kept(WorkloadKey("default", "first"))


def test_of_what_is_kept_the_lowest_priority_is_taken_first() -> None:
    made = cluster(node("n0", 8), within=LOWER)
    for name in ("victim-0", "victim-1"):
        made.world.add(asking(name, 4, priority=-1))
        assert admitted(made.cycle()) == [name]
    for name, priority in (("mid", 1), ("low", 0)):
        made.world.add(asking(name, 4, priority=priority))
        (victim,) = evicted(made.cycle())
        are_ending(made, f"{victim}-main-n0-0")
        made.world.finish(victim)
        made.cycle()
    made.places.drop_pod("victim-0-main-n0-0")
    made.world.add(asking("high", 4, priority=2))

    assert "high" in [name for _ in range(3) for name in admitted(made.cycle())]

    assert made.places.ledger.is_kept(WorkloadKey("default", "mid"))
    assert not made.places.ledger.is_kept(WorkloadKey("default", "low"))


def test_a_kept_place_is_promised_to_a_charged_pod_of_its_workload_only_once() -> None:
    made = of_three()
    made.places.set_node(node("n9", 4))
    made.world.add(asking("other", 4, priority=50))
    assert "other" in [name for _ in range(3) for name in admitted(made.world.cycle())]
    made.pod("foreign-0", "n0", {GPU: 2})
    made.pod("foreign-9", "n9", {GPU: 2})
    made.places.drop_pod("low-n1-main-n1-0")

    made.world.cycle()

    ledger = made.places.ledger
    assert [place.node for place in ledger.places(TRAIN)] == ["n1"]
    assert ledger.lacking() == (WorkloadKey("default", "other"),)
    assert free(made)["n1"] == 0


def test_who_was_set_aside_stays_so_when_its_places_are_kept_no_longer() -> None:
    made = waiting_train()
    item = made.world.state._queues.get(TRAIN)
    assert item is not None
    later_us = NOW_US + 3600 * SECOND_US
    made.world.state._queues.set_aside(item, later_us)

    made.world.state.has_work(NOW_US + 200 * SECOND_US)

    assert not made.places.ledger.is_kept(TRAIN)
    item = made.world.state._queues.get(TRAIN)
    assert item is not None
    assert item.set_aside_until_us == later_us
