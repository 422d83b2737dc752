"""Pods that their owner has left (`--cascade=orphan`) are charged as single pods are."""

from collections.abc import Mapping
from typing import Any

import pytest

from admission.base import conditions, names, patches
from admission.kube import resources
from admission.objects import views
from admission.objects.workload import Workload
from admission.owners import serving
from tests.builders.cluster import make_namespace
from tests.builders.jobs import queued_job
from tests.builders.queues import (
    make_class,
    make_cluster_queue,
    make_flavor,
    make_local_queue,
)
from tests.controller import test_elastic_jobs
from tests.controller.world import World

PODS = 2


def started(quota: int = PODS, labels: Mapping[str, str] | None = None) -> World:
    """A Job of two pods with a GPU each runs in a queue in which higher priorities preempt."""
    world = started_queue(quota)
    world.add(queued_job("train", PODS, gpus=1, labels=dict(labels or {})))
    world.settle()
    for number in range(PODS):
        add_pod(world, f"train-{number}")
    world.settle()
    return world


def started_queue(quota: int) -> World:
    """A queue in which higher priorities preempt, and a node."""
    world = World()
    preemption = {"withinClusterQueue": "LowerPriority"}
    world.add(
        make_namespace(),
        make_flavor(),
        make_cluster_queue(quota=quota, preemption=preemption),
        make_local_queue(),
        make_class("middle", 50),
    )
    world.store.create(resources.NODES, {"metadata": {"name": "node"}})
    world.settle()
    return world


def add_pod(world: World, name: str) -> None:
    """Add a pod of the Job, as the Job controller makes it."""
    job = world.store.get(resources.JOBS, "train", "ml")
    template = job["spec"]["template"]
    uid = job["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid}
    metadata = {
        **template["metadata"],
        "name": name,
        "namespace": "ml",
        "ownerReferences": [{**owner, "controller": True}],
    }
    spec = {**template["spec"], "nodeName": "node"}
    world.add({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def grown(waiting: int) -> tuple[World, test_elastic_jobs.JobController]:
    """An elastic Job of two pods runs in a queue that is full; as many more wait."""
    world = started_queue(quota=PODS)
    labels = {names.PRIORITY_CLASS_LABEL: "middle"}
    world.add(test_elastic_jobs.elastic(pods=PODS, labels=labels))
    world.settle()
    jobs = test_elastic_jobs.JobController(world)
    jobs.work()
    test_elastic_jobs.grow(world, jobs, PODS + waiting)
    return world, jobs


def leave(world: World) -> None:
    """Delete the Job, and leave its pods and its Workloads."""
    nobody = patches.merge({"metadata": {"ownerReferences": None}})
    for resource in (resources.WORKLOADS, resources.PODS):
        for one in world.store.list(resource).items:
            world.store.patch(resource, one["metadata"]["name"], nobody, "ml")
    world.store.delete(resources.JOBS, "train", "ml")
    world.settle()


def started_set(there: int = PODS) -> World:
    """The pods of a StatefulSet of two that has left them run; they are a group."""
    world = started_queue(PODS)
    for number in range(there):
        add_to_set(world, number)
    world.settle()
    made = patches.merge({"metadata": {"labels": {names.JOB_UID_LABEL: "of-the-set"}}})
    world.store.patch(resources.WORKLOADS, "statefulset-train", made, "ml")
    for number in range(there):
        bound = patches.merge({"spec": {"nodeName": "node"}})
        world.store.patch(resources.PODS, f"train-{number}", bound, "ml")
    world.settle()
    return world


def add_to_set(world: World, number: int) -> None:
    marks = {
        names.POD_SUSPENDING_PARENT: serving.STATEFUL_SET.parent,
        names.POD_GROUP_NAME: "statefulset-train",
        names.POD_GROUP_TOTAL_COUNT: str(PODS),
        names.POD_GROUP_SERVING: "true",
        names.POD_GROUP_FAST_ADMISSION: "true",
        names.ROLE_HASH: "main",
    }
    world.add_pod(f"train-{number}", gpus=1, annotations=marks)


def pods(world: World) -> list[views.Pod]:
    found = world.store.list(resources.PODS, into=views.Pod).items
    return [one for one in found if one.metadata.name.startswith("train-")]


def workload_of(world: World, pod: str) -> Workload:
    return world.workloads()[pod]


def charged(world: World) -> int:
    world.settle()
    return sum(world.state.cluster_queue_status(names.ClusterQueueName("gpus")).usage.values())


def since(workload: Workload, condition: str) -> str | None:
    found = workload.status.condition(condition)
    assert found is not None
    assert found.status == "True"
    return found.last_transition_time


def test_each_pod_has_a_workload_of_its_own_and_nothing_is_charged_twice() -> None:
    world = started()
    leave(world)
    assert {"train-0", "train-1"} <= set(world.workloads())
    assert charged(world) == PODS
    assert all(one.metadata.label(names.MANAGED_LABEL) for one in pods(world))


def test_the_next_controller_charges_the_same() -> None:
    world = started()
    leave(world)
    again = world.restarted()
    again.settle()
    assert charged(again) == PODS


def test_they_keep_the_priority_of_their_workload() -> None:
    world = started(labels={names.PRIORITY_CLASS_LABEL: "middle"})
    leave(world)
    assert workload_of(world, "train-0").spec.priority == 50


def test_they_keep_the_queue_and_the_time_since_which_they_run() -> None:
    world = started()
    before = since(world.workloads()["train"], conditions.QUOTA_RESERVED)
    world.pass_time(30)
    leave(world)
    kept = workload_of(world, "train-0")
    assert kept.spec.queue_name == "team-a"
    assert since(kept, conditions.QUOTA_RESERVED) == before
    assert since(kept, conditions.ADMITTED) == before


def test_a_higher_priority_preempts_them() -> None:
    world = started()
    leave(world)
    world.add_pod("urgent", gpus=PODS, priority=100)
    world.pass_time(3)
    assert pods(world) == []
    assert not world.is_gated("urgent")
    assert charged(world) == PODS


def test_a_higher_priority_preempts_the_pods_that_a_stateful_set_has_left() -> None:
    world = started_set()
    world.add_pod("urgent", gpus=PODS, priority=100)
    world.pass_time(3)
    assert pods(world) == []
    assert not world.is_gated("urgent")
    assert charged(world) == PODS


def test_quota_of_pods_that_a_stateful_set_did_not_make_before_it_was_gone_is_given_back() -> None:
    world = started_set(there=1)
    world.add_pod("other", gpus=1)
    world.pass_time(3)
    assert not world.is_gated("other")
    assert charged(world) == PODS


def test_quota_of_a_pod_that_a_stateful_set_has_left_is_given_back_when_it_has_ended() -> None:
    world = started_set()
    world.store.delete(resources.PODS, "train-1", "ml")
    world.pass_time(3)
    assert charged(world) == PODS - 1


def test_a_pod_that_is_made_for_what_was_given_back_does_not_start() -> None:
    world = started_set(there=1)
    world.pass_time(3)
    add_to_set(world, 1)
    world.pass_time(3)
    assert world.is_gated("train-1")
    assert charged(world) == PODS - 1


def test_a_lower_priority_does_not() -> None:
    world = started(labels={names.PRIORITY_CLASS_LABEL: "middle"})
    leave(world)
    world.add_pod("modest", gpus=PODS, priority=10)
    world.pass_time(3)
    assert len(pods(world)) == PODS
    assert world.is_gated("modest")


def test_they_are_drained_with_their_queue() -> None:
    world = started()
    leave(world)
    drain = patches.merge({"spec": {"stopPolicy": "HoldAndDrain"}})
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", drain)
    world.pass_time(3)
    assert pods(world) == []
    assert charged(world) == 0


@pytest.mark.parametrize(("passed", "left"), [(25, PODS), (35, 0)])
def test_the_time_that_their_owner_may_run_goes_on(passed: int, left: int) -> None:
    world = started(labels={names.MAX_EXEC_TIME_LABEL: "60"})
    world.pass_time(30)
    leave(world)
    world.pass_time(passed)
    assert len(pods(world)) == left


def test_pods_that_were_left_while_nobody_looked_keep_the_same() -> None:
    world = started(labels={names.PRIORITY_CLASS_LABEL: "middle"})
    nobody = patches.merge({"metadata": {"ownerReferences": None}})
    for resource in (resources.WORKLOADS, resources.PODS):
        for one in world.store.list(resource).items:
            world.store.patch(resource, one["metadata"]["name"], nobody, "ml")
    world.store.delete(resources.JOBS, "train", "ml")
    again = world.restarted()
    again.settle()
    assert workload_of(again, "train-0").spec.priority == 50
    assert charged(again) == PODS


def test_pods_of_an_owner_that_is_there_have_no_workload_of_their_own() -> None:
    world = started(quota=2 * PODS)
    add_pod(world, "train-9")
    world.pass_time(3)
    assert set(world.workloads()) == {"train"}
    assert charged(world) == PODS + 1


def test_a_pod_that_is_taken_from_its_owner_is_charged_beside_the_one_in_its_place() -> None:
    world = started(quota=2 * PODS)
    taken: dict[str, Any] = {"metadata": {"ownerReferences": None}}
    world.store.patch(resources.PODS, "train-0", patches.merge(taken), "ml")
    world.settle()
    assert charged(world) == PODS
    add_pod(world, "train-9")
    world.settle()
    assert charged(world) == PODS + 1
    assert set(world.workloads()) == {"train", "train-0"}


@pytest.mark.parametrize("said", ["2020-01-01T00:00:00Z", "long ago"])
def test_what_the_author_of_an_owner_says_of_its_start_counts_for_nothing(said: str) -> None:
    """A Job whose Workload is deleted goes on with another one, which begins then."""
    world = started()
    forged = patches.merge({"metadata": {"annotations": {names.RUNS_SINCE: said}}})
    world.store.patch(resources.JOBS, "train", forged, "ml")
    world.pass_time(30)
    world.store.delete(resources.WORKLOADS, workload_of(world, "train").metadata.name, "ml")
    world.settle()
    again = workload_of(world, "train")
    assert since(again, conditions.ADMITTED) == "2026-01-01T00:00:30Z"


@pytest.mark.parametrize("name", ["train-0", "train-9"])
def test_a_pod_beyond_those_that_were_admitted_gets_a_workload_once_it_is_left(name: str) -> None:
    """One of the three pods is charged on its own before."""
    world = started(quota=2 * PODS)
    add_pod(world, "train-9")
    world.settle()
    left = patches.merge({"metadata": {"ownerReferences": None}})
    world.store.patch(resources.PODS, name, left, "ml")
    world.settle()
    assert name in world.workloads()


def test_a_waiting_pod_of_an_elastic_job_that_is_left_waits_on_with_its_own_workload() -> None:
    world, jobs = grown(waiting=1)
    (waiting,) = (pod["metadata"]["name"] for pod in jobs.pods() if is_waiting(pod))
    leave(world)
    assert charged(world) == PODS
    workload = workload_of(world, waiting)
    assert (workload.spec.queue_name, workload.spec.priority) == ("team-a", 50)
    world.pass_time(70)
    status = world.store.get(resources.PODS, waiting, "ml")["status"]
    told = {one["type"]: one["message"] for one in status["conditions"]}
    assert told[conditions.POD_ADMITTED].startswith("Waits: needs 1 a100, 0 free of 2;")


def test_a_pod_that_waited_when_it_was_left_starts_once_there_is_quota() -> None:
    world, jobs = grown(waiting=1)
    running = [pod["metadata"]["name"] for pod in jobs.pods() if not is_waiting(pod)]
    leave(world)
    world.delete_pod(running[0])
    world.pass_time(3)
    assert (jobs.running(), charged(world)) == (PODS, PODS)


def test_the_next_controller_finds_pods_that_wait_and_that_were_left() -> None:
    world, jobs = grown(waiting=2)
    leave(world)
    again = world.restarted()
    again.settle()
    assert charged(again) == PODS
    for pod in jobs.pods():
        if not is_waiting(pod):
            again.delete_pod(pod["metadata"]["name"])
    again.pass_time(3)
    assert charged(again) == PODS


def is_waiting(pod: dict[str, Any]) -> bool:
    return bool(pod["spec"].get("schedulingGates"))
