"""What is charged for pods of a workload without quota is promised places until they are bound."""

from dataclasses import replace
from typing import Any

import pytest

from admission.base.names import (
    ChargeKey,
    ClusterQueueName,
    KeptCharge,
    OwnerCharge,
    PodCharge,
    Uid,
    WorkloadKey,
)
from admission.scheduling import model
from tests.builders.scheduling import LOWER, NOW_US, SECOND_US
from tests.scheduling.test_nodes_decide import GPU, A, Cluster, asking, cluster, node
from tests.scheduling.worlds import admitted, evicted, waits

TRAIN = WorkloadKey("default", "train")
OWNER = OwnerCharge(*TRAIN)
START = KeptCharge(*TRAIN, "start")


def admitted_train(pods: int = 2, nodes: int = 2, **fields: Any) -> Cluster:
    """A workload has quota, and none of its pods is bound; each needs a node for itself."""
    made = cluster(*(node(f"n{index}", 4) for index in range(nodes)), **fields)
    made.world.add(asking("train", 4, pods))
    assert admitted(made.world.cycle()) == ["train"]
    return made


def charge(
    made: Cluster, key: ChargeKey, count: int = 1, stands_for: WorkloadKey | None = TRAIN
) -> None:
    """As many pods of the workload are charged besides it."""
    workload = asking("train", 4, count)
    flavors = {GPU: A}
    assigned = model.PodSetAssignment(
        name=workload.pod_sets[0].name, count=count, flavors=flavors, usage={GPU: 4 * count}
    )
    reservation = model.Reservation(
        cluster_queue=ClusterQueueName("q"),
        pod_sets=(assigned,),
        reserved_us=NOW_US,
        admitted_us=NOW_US,
    )
    made.world.state.set_workload(
        replace(workload, key=key, reservation=reservation, stays=True, stands_for=stands_for),
        NOW_US,
    )


def free(made: Cluster) -> dict[str, int]:
    made.world.state.has_work(NOW_US)
    ledger = made.places.ledger
    return {name: ledger.free(name)[GPU] for name in ledger.nodes}


def test_places_stay_where_they_were_when_what_is_charged_for_them_changes() -> None:
    made = admitted_train(nodes=4)
    before = free(made)
    assert sum(before.values()) == 8

    made.world.finish("train")
    charge(made, OWNER, 2)
    assert free(made) == before

    charge(made, OWNER, 1)
    charge(made, PodCharge("default", "train-0"))
    assert free(made) == before


def test_places_stay_though_a_charge_ended_with_the_news_of_the_deletion() -> None:
    made = admitted_train(nodes=4)
    before = made.places.ledger.places(TRAIN)
    charge(made, PodCharge("default", "train-0"))
    made.world.state.drop_workload(PodCharge("default", "train-0"), NOW_US)

    made.world.finish("train")
    assert made.places.ledger.places(TRAIN) == before
    charge(made, OWNER, 2)
    assert sum(free(made).values()) == 8
    assert made.places.ledger.places(TRAIN) == before


def test_each_pod_has_one_place_whether_it_is_bound_or_not() -> None:
    made = admitted_train(3, nodes=4)
    made.pod("bound-early", "n3", {GPU: 4}, "train")
    made.world.finish("train")
    charge(made, OWNER, 1)
    for name in ("bound-early", "bound-late"):
        charge(made, PodCharge("default", name))
    assert sum(free(made).values()) == 4

    made.pod("bound-late", "n2", {GPU: 4}, "train")
    assert sum(free(made).values()) == 4
    assert sum(place.count for place in made.places.ledger.places(TRAIN)) == 1


def test_who_waits_is_tried_again_when_what_is_charged_ends() -> None:
    made = admitted_train(1, nodes=1)
    made.world.finish("train")
    charge(made, OWNER)
    made.world.add(asking("next", 4))
    assert waits(made.world.cycle())["next"].reason == "WaitingForNode"
    assert not made.world.state.has_work(NOW_US + 60 * SECOND_US)

    made.world.state.drop_workload(OWNER, NOW_US)

    assert admitted(made.world.cycle()) == ["next"]


def test_who_waits_gets_the_room_of_a_workload_for_which_nothing_is_charged() -> None:
    made = admitted_train(1, nodes=1)
    made.world.add(asking("next", 4))
    assert waits(made.world.cycle())["next"].reason == "WaitingForNode"

    made.world.finish("train")

    assert admitted(made.world.cycle()) == ["next"]


@pytest.mark.parametrize("is_seen_between", [False, True])
def test_places_stay_while_a_workload_is_made_again(is_seen_between: bool) -> None:
    made = admitted_train()
    reservation = made.world.state.workload(TRAIN).reservation  # type: ignore[union-attr]
    made.world.finish("train")
    charge(made, OWNER, 2)
    assert set(free(made).values()) == {0}

    again = replace(asking("train", 4, 2), uid=Uid("again"), held=True)
    made.world.add(again)
    if is_seen_between:
        assert set(free(made).values()) == {0}
    made.world.add(replace(again, reservation=reservation))
    assert set(free(made).values()) == {0}
    made.world.state.drop_workload(OWNER, NOW_US)

    assert set(free(made).values()) == {0}
    assert sum(place.count for place in made.places.ledger.places(TRAIN)) == 2


def test_what_is_kept_for_a_start_and_its_pods_need_a_place_once() -> None:
    made = admitted_train(2, nodes=4)
    charge(made, START, 2)
    made.world.finish("train")
    charge(made, PodCharge("default", "train-0"))
    assert sum(free(made).values()) == 8

    made.world.state.drop_workload(START, NOW_US)
    assert sum(free(made).values()) == 12


def test_what_is_charged_for_pods_that_end_is_promised_nothing() -> None:
    made = admitted_train(1, nodes=1)
    made.world.finish("train")
    charge(made, PodCharge("default", "train-0"))
    assert free(made) == {"n0": 0}

    charge(made, PodCharge("default", "train-0"), stands_for=None)

    assert free(made) == {"n0": 4}


def test_a_pod_beyond_the_quota_of_a_workload_adds_nothing_to_what_that_is_promised() -> None:
    made = admitted_train(1, nodes=2)
    charge(made, PodCharge("default", "train-0"))

    assert sum(free(made).values()) == 4


def test_nobody_is_stopped_for_charged_pods_that_lost_their_place() -> None:
    made = admitted_train(1, nodes=1, within=LOWER)
    made.world.finish("train")
    charge(made, OWNER)
    made.places.set_node(node("n1", 4))
    made.world.add(asking("low", 4, priority=-1))
    assert admitted(made.cycle()) == ["low"]

    made.places.drop_node("n0")
    for _ in range(2):
        made.world.clock += 31
        assert evicted(made.world.cycle()) == {}

    assert made.places.ledger.lacking() == (TRAIN,)


def test_a_lost_place_is_replaced_before_anybody_is_admitted_there() -> None:
    made = admitted_train(1, nodes=1)
    made.world.finish("train")
    charge(made, OWNER)
    made.places.drop_node("n0")
    made.places.set_node(node("n1", 4))
    made.world.add(asking("next", 4))

    assert admitted(made.world.cycle()) == []
    assert [place.node for place in made.places.ledger.places(TRAIN)] == ["n1"]


def test_a_workload_made_again_is_admitted_to_the_places_of_its_charged_pods() -> None:
    """Once it has quota, its pods are charged with it: they need these places once."""
    made = admitted_train(1, nodes=2, within=LOWER)
    promised = made.places.ledger.places(TRAIN)
    made.world.finish("train")
    charge(made, OWNER)
    made.world.add(asking("low", 4, priority=-1))
    assert admitted(made.cycle()) == ["low"]
    made.world.add(replace(asking("train", 4), uid=Uid("again")))

    assert admitted(made.world.cycle()) == ["train"]
    assert made.places.ledger.places(TRAIN) == promised


def test_places_kept_for_a_workload_do_not_end_what_its_old_pods_are_promised() -> None:
    made = admitted_train(1, nodes=2, within=LOWER)
    promised = made.places.ledger.places(TRAIN)
    made.world.finish("train")
    charge(made, OWNER)
    made.world.add(asking("low", 4, priority=-1))
    assert admitted(made.cycle()) == ["low"]
    made.world.add(replace(asking("train", 4, 2), uid=Uid("again")))

    assert evicted(made.world.cycle()) == {"low": "InClusterQueue"}
    assert made.places.ledger.places(TRAIN) == promised


def test_who_only_follows_remembers_no_promise_of_workloads_that_are_gone() -> None:
    made = admitted_train(1, nodes=2)
    made.world.finish("train")
    made.world.add(asking("next", 4))

    assert not made.places.ledger.is_promised(TRAIN)


def preempting_train() -> Cluster:
    """A workload made again whose one pod is charged, and whose victims leave another node."""
    made = cluster(node("n0", 4, labels={"at": "first"}), quota={"a": 64}, within=LOWER)
    again = asking("train", 4, 2, priority=9)
    made.world.add(asking("train", 4, priority=9))
    assert admitted(made.world.cycle()) == ["train"]
    made.world.finish("train")
    charge(made, OWNER)
    made.places.set_node(node("n1", 4))
    for name in ("low-0", "low-1"):
        made.world.add(asking(name, 2))
        assert admitted(made.cycle()) == [name]
    made.world.add(replace(again, uid=Uid("again")))
    assert sorted(evicted(made.cycle())) == ["low-0", "low-1"]
    return made


def test_victims_do_not_come_back_before_a_preemptor_of_which_pods_are_charged() -> None:
    made = preempting_train()
    for name in ("low-0", "low-1"):
        made.world.state.drop_workload(WorkloadKey("default", name), NOW_US)
        made.world.add(asking(name, 2))

    made.places.drop_pod("low-0-main-n1-0")
    for _ in range(4):
        assert admitted(made.world.cycle()) == []
    made.places.drop_pod("low-1-main-n1-0")
    assert admitted(made.world.cycle()) == ["train"]
    made.world.state.drop_workload(OWNER, NOW_US)
    assert free(made) == {"n0": 0, "n1": 0}


def test_what_is_kept_for_a_preemptor_leaves_its_charged_pods_their_places() -> None:
    made = preempting_train()

    assert [place.node for place in made.places.ledger.places(TRAIN)] == ["n0"]
    assert free(made) == {"n0": 0, "n1": -4}

    made.world.finish("train")
    assert free(made) == {"n0": 0, "n1": 0}
    made.world.state.drop_workload(OWNER, NOW_US)
    assert free(made) == {"n0": 4, "n1": 0}


def test_a_workload_stays_told_to_leave_while_pods_of_it_are_charged() -> None:
    made = admitted_train()
    for name in ("n0", "n1"):
        made.pod(f"train-{name}", name, {GPU: 4}, "train")
    train: Any = made.world.state.workload(TRAIN)
    leaving = replace(train, eviction=model.Eviction(reason="Preempted", since_us=NOW_US))
    made.world.add(leaving)
    pod = made.places.ledger._pods["train-n0"]
    made.places.set_pod("train-n0", replace(pod, is_ending=True, is_lingering=True))
    with made.places.ledger.without_leaving():
        assert made.places.ledger.free("n0")[GPU] == 4

    made.world.add(replace(leaving, reservation=None, eviction=None))
    charge(made, PodCharge("default", "train-1"))
    free(made)

    with made.places.ledger.without_leaving():
        assert made.places.ledger.free("n0")[GPU] == 4


def test_what_is_kept_follows_the_pods_of_a_preemptor_that_end_or_come() -> None:
    made = preempting_train()
    for name in ("low-0", "low-1"):
        made.world.state.drop_workload(WorkloadKey("default", name), NOW_US)
        made.world.add(asking(name, 2))

    made.world.state.drop_workload(OWNER, NOW_US)
    assert free(made) == {"n0": 0, "n1": -4}
    assert admitted(made.cycle()) == []
    for name in ("low-0", "low-1"):
        made.places.drop_pod(f"{name}-main-n1-0")
    made.pod("early", "n1", {GPU: 4}, "train")
    assert free(made) == {"n0": 0, "n1": 0}
    made.places.drop_pod("early")
    assert free(made) == {"n0": 0, "n1": 0}
    assert admitted(made.world.cycle()) == ["train"]
    made.world.finish("train")
    assert free(made) == {"n0": 4, "n1": 4}
