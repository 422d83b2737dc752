"""Equal pods are judged once, and each says why it waits."""

from collections import Counter

from admission.base import names, patches
from admission.controller.writing.api_requests import WritePurpose
from admission.kube import resources
from tests.builders.queues import make_cluster_queue
from tests.controller.world import World, ready_world

TEXTS = {WritePurpose.EXPLAIN_WORKLOAD, WritePurpose.EXPLAIN_POD}
EQUALS = ("a", "b", "c")


def waiting_world() -> World:
    """Three equal pods wait behind one that runs."""
    world = ready_world(quota=4)
    world.add_pod("running", gpus=3)
    world.settle()
    for name in EQUALS:
        world.add_pod(name, gpus=2)
        world.clock.advance(0.1)
    world.pass_time(3)
    return world


def said(world: World) -> dict[str, set[tuple[str, str]]]:
    """Reason and message on the pods, and on their Workloads."""
    conditions = [world.condition(name) for name in EQUALS]
    workloads = [world.workloads()[name].status.condition("QuotaReserved") for name in EQUALS]
    return {
        "pods": {(one.reason, one.message) for one in conditions if one},
        "workloads": {(one.reason, one.message) for one in workloads if one},
    }


def test_each_of_several_equal_pods_says_the_numbers() -> None:
    found = said(waiting_world())

    assert {reason for reason, _ in found["pods"]} == {"WaitingForQuota"}
    assert {message for _, message in found["pods"]} == {
        f"Waits: needs 2 a100, 1 free of 4; {place} in queue gpus; held by gpus (3)."
        for place in ("1st", "2nd", "3rd")
    }
    ((of_workload, short),) = found["workloads"]
    assert of_workload == "WaitingForQuota"
    assert short.endswith("1 more needed")


def test_nothing_is_written_while_nothing_changes() -> None:
    world = waiting_world()
    world.sent.clear()

    world.pass_time(120)

    assert [write.operation for write in world.sent] == []


def test_another_reason_reaches_all_of_them_with_one_write_to_each() -> None:
    world = waiting_world()
    world.sent.clear()
    spec = make_cluster_queue(quota=1)["spec"]
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", patches.merge({"spec": spec}))

    world.pass_time(3)

    ((reason, message),) = said(world)["pods"]
    assert reason == "ExceedsMaxQuota"
    assert "asks 2" in message
    written = [write.operation for write in world.sent if write.operation in TEXTS]
    assert Counter(written) == dict.fromkeys(TEXTS, len(EQUALS))


def test_after_a_restart_nothing_is_written_again() -> None:
    world = waiting_world()
    before = said(world)
    again = world.restarted()

    again.pass_time(5)

    assert [write.operation for write in again.sent if write.operation in TEXTS] == []
    assert said(again) == before


def test_what_is_held_of_a_cap_is_told_anew_as_soon_as_numbers_of_quota_are() -> None:
    world = ready_world(quota=16)
    annotations = {names.MAX_PER_USER: f"{names.GPU_RESOURCE}=4"}
    change = patches.merge({"metadata": {"annotations": annotations}})
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", change)
    ann = {names.REQUESTER: "ann"}
    world.add_pod("running", gpus=2, annotations=ann)
    world.settle()
    for name in EQUALS:
        world.add_pod(name, gpus=3, annotations=ann)
    world.pass_time(3)
    (message,) = {message for _, message in said(world)["pods"]}
    assert "hold 2 of at most 4" in message

    world.add_pod("small", gpus=1, annotations=ann)
    world.pass_time(30)

    assert "small" in world.admitted()
    told = said(world)
    for kind in ("pods", "workloads"):
        (message,) = {message for _, message in told[kind]}
        assert "hold 3 of at most 4" in message
    world.sent.clear()
    world.pass_time(120)
    assert [write.operation for write in world.sent] == []
