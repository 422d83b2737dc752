"""Who waits for half a minute is told why by an event, where people look, and only once."""

from typing import Any

import pytest

from admission.base import patches
from admission.base.names import ClusterQueueName
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import views
from admission.owners.serving_group import ServingDocument
from admission.reasons.next_steps import Code
from admission.serve import lists
from tests.builders.jobs import queued_job
from tests.builders.queues import make_cluster_queue
from tests.builders.workloads import make_pod_set, make_workload
from tests.controller.world import World, ready_world

WAITS = {str(one) for one in Code if one is not Code.ADMITTED}


def told(world: World) -> list[tuple[str, str]]:
    """Names of objects and reasons of the events that say why something waits."""
    return [(name, reason) for name, reason, _ in world.events.recorded if reason in WAITS]


def full_world(quota: int = 1) -> World:
    """Return a queue of which one pod holds all."""
    world = ready_world(quota=quota)
    world.add_pod("first", gpus=quota)
    world.settle()
    return world


@pytest.fixture
def world_of_pods() -> World:
    """A full queue in which a pod waits at the first place."""
    world = full_world()
    world.add_pod("before")
    world.settle()
    world.clock.advance(1)  # it was created a second before the others
    return world


def test_who_never_starts_is_not_counted_before_others_until_the_quota_is_raised() -> None:
    def said(name: str) -> str:
        condition = world.condition(name)
        assert condition is not None
        return condition.message

    world = full_world(quota=2)
    world.add_pod("huge", gpus=9)
    world.settle()
    world.clock.advance(1)
    world.add_pod("train", gpus=2)
    world.pass_time(90)
    assert "1st in queue gpus" in said("train")
    assert said("huge").startswith("Too big: ")
    line = world.state.line(ClusterQueueName("gpus"))
    assert line is not None
    shown = [(one.workload.name, one.in_cluster_queue, one.place) for one in lists.places(line)]
    of = {name: world.workloads()[name].metadata.name for name in ("huge", "train")}
    assert shown == [(of["huge"], 0, None), (of["train"], 1, 1)]

    restarted = world.restarted()
    restarted.pass_time(90)
    assert "1st in queue gpus" in said("train")

    spec = make_cluster_queue(quota=10)["spec"]
    restarted.store.patch(resources.CLUSTER_QUEUES, "gpus", patches.merge({"spec": spec}))
    world = restarted
    world.pass_time(120)
    assert "1st in queue gpus" in said("huge")
    assert world.is_gated("huge")


def add_owned(world: World, pod: str, kind: str, name: str, **more: Any) -> None:
    """Create a pod as a controller does, which is there."""
    sets = Resource("apps", "v1", f"{kind.lower()}s", kind)
    if not any(each["metadata"]["name"] == name for each in world.store.list(sets, "ml").items):
        world.store.create(sets, {"metadata": {"name": name}}, "ml")
    uid = world.store.get(sets, name, "ml")["metadata"]["uid"]
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}
    world.add_pod(pod, metadata={"ownerReferences": [owner]}, **more)


def test_a_pod_is_told_after_half_a_minute_and_once() -> None:
    world = full_world()
    world.add_pod("train")
    world.pass_time(29)
    assert told(world) == []
    world.pass_time(3)
    assert told(world) == [("train", "WaitingForQuota")]
    world.pass_time(300)
    assert told(world) == [("train", "WaitingForQuota")]


def test_the_event_on_a_pod_says_what_its_condition_says() -> None:
    world = full_world()
    world.add_pod("train")
    world.pass_time(32)
    condition = world.condition("train")
    assert condition is not None
    (note,) = [note for name, _, note in world.events.recorded if name == "train"]
    assert note == condition.message
    assert "1st in queue gpus" in note


def test_what_starts_within_half_a_minute_is_told_nothing() -> None:
    world = full_world()
    world.add_pod("train")
    world.pass_time(20)
    world.set_phase("first", "Succeeded")
    world.pass_time(60)
    assert world.admitted() == {"first", "train"}
    assert told(world) == []


def test_another_reason_is_told_and_the_former_one_is_not_told_twice_a_minute() -> None:
    world = full_world()
    world.add_pod("train")
    world.pass_time(40)
    stop = {"spec": {"stopPolicy": "Hold"}}
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", patches.merge(stop))
    world.pass_time(32)
    assert told(world)[1:] == [("train", "ClusterQueueInactive")]


def test_a_job_and_its_workload_are_told() -> None:
    world = full_world()
    world.add(queued_job("train"))
    world.pass_time(32)
    (own,) = [one for one in world.workloads().values() if one.metadata.name.startswith("job-")]
    assert sorted(told(world)) == sorted(
        [("train", "ExceedsMaxQuota"), (own.metadata.name, "ExceedsMaxQuota")]
    )


def test_a_workload_without_an_owner_is_told_as_kueue_tells_it() -> None:
    world = ready_world(quota=1)
    world.add(make_workload("train", make_pod_set(gpus=2)))
    world.pass_time(32)
    status = world.store.get(resources.WORKLOADS, "train", "ml")["status"]
    (condition,) = [one for one in status["conditions"] if one["type"] == "QuotaReserved"]
    found = [(reason, note) for name, reason, note in world.events.recorded if name == "train"]
    assert found == [(condition["reason"], condition["message"])]


def test_what_owns_a_pod_is_told_too() -> None:
    world = full_world()
    add_owned(world, "web-0", "ReplicaSet", "web")
    world.pass_time(32)
    assert told(world) == [("web-0", "WaitingForQuota"), ("web", "WaitingForQuota")]


def test_the_deployment_of_a_pod_is_told_and_not_its_replica_set() -> None:
    world = full_world()
    meta = views.ObjectMeta(namespace="ml", name="web", uid="uid-web", resource_version="1")
    world.shown[resources.DEPLOYMENTS] = (ServingDocument(metadata=meta),)
    hash_ = {"pod-template-hash": "abc"}
    add_owned(world, "web-abc-x", "ReplicaSet", "web-abc", labels=hash_)
    world.pass_time(32)
    assert [name for name, _ in told(world)] == ["web-abc-x", "web"]


def notes_of(world: World, name: str) -> set[str]:
    """What the events about an object say."""
    return {note for told_of, _, note in world.events.recorded if told_of == name}


def test_a_deployment_is_told_the_first_place_of_its_pods_that_wait(world_of_pods: World) -> None:
    world = world_of_pods
    meta = views.ObjectMeta(namespace="ml", name="web", uid="uid-web", resource_version="1")
    world.shown[resources.DEPLOYMENTS] = (ServingDocument(metadata=meta),)
    hash_ = {"pod-template-hash": "abc"}
    for pod in ("web-abc-z", "web-abc-x"):
        add_owned(world, pod, "ReplicaSet", "web-abc", labels=hash_)
    world.pass_time(32)
    (note,) = notes_of(world, "web")
    assert "; 2nd in queue gpus;" in note


def test_another_owner_of_pods_that_wait_one_by_one_is_told_no_place(
    world_of_pods: World,
) -> None:
    world = world_of_pods
    for pod in ("web-0", "web-1"):
        add_owned(world, pod, "ReplicaSet", "web")
    world.pass_time(32)
    (note,) = notes_of(world, "web")
    assert "in queue" not in note


@pytest.mark.parametrize("seconds", [40, 400])
def test_another_leader_tells_nothing_again(seconds: float) -> None:
    world = full_world()
    world.add_pod("train")
    world.pass_time(35)
    world.clock.advance(seconds - 35)
    world = world.restarted()
    world.pass_time(90)
    assert told(world) == []


def test_another_leader_tells_what_nobody_told() -> None:
    world = full_world()
    world.add_pod("train")
    world.pass_time(10)
    world = world.restarted()
    world.pass_time(32)
    assert told(world) == [("train", "WaitingForQuota")]


def test_of_many_that_wait_all_are_told_fifty_at_once_and_five_a_second() -> None:
    world = ready_world(quota=0)
    for number in range(60):
        world.add_pod(f"train-{number:02}")
    world.pass_time(5)
    assert told(world) == []
    world.clock.advance(30)
    world.settle()
    assert len(told(world)) == 50
    world.clock.advance(1)
    world.settle()
    assert len(told(world)) == 55
    world.pass_time(10)
    assert {name for name, _ in told(world)} == {f"train-{number:02}" for number in range(60)}


def passed_world() -> World:
    """A pod waits for 3 GPUs, of which 2 were free; then a smaller one goes past it."""
    world = full_world(quota=1)
    spec = make_cluster_queue(quota=3)["spec"]
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", patches.merge({"spec": spec}))
    world.add_pod("large", gpus=3)
    world.settle()
    world.pass_time(5)
    assert "needs 3 a100, 2 free" in message_of(world, "large")
    world.add_pod("small", gpus=2)
    world.settle()
    assert world.admitted() == {"first", "small"}
    return world


def message_of(world: World, name: str) -> str:
    condition = world.condition(name)
    return "" if condition is None else condition.message


def test_an_event_says_what_is_free_when_it_is_told() -> None:
    world = passed_world()
    world.pass_time(30)

    ((_, _, message),) = [
        event for event in world.events.recorded if event[0] == "large" and event[1] in WAITS
    ]
    assert "0 free of 3" in message
    assert "held by gpus (3)" in message


def test_a_condition_says_what_is_free_soon_after_others_went_past() -> None:
    world = passed_world()
    world.pass_time(35)

    assert "needs 3 a100, 0 free" in message_of(world, "large")
