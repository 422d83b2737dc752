"""Elastic Jobs on the embedded store: more pods by another slice, fewer in place."""

from typing import Any

import pytest
from prometheus_client import REGISTRY

from admission.base import conditions, names, patches
from admission.kube import resources
from admission.kube.api import Document
from admission.objects import past_preemptions, views
from admission.objects.workload import Workload
from admission.scheduling import model
from tests.builders.jobs import queued_job
from tests.controller.test_jobs import change, is_running, report, stored
from tests.controller.world import World, ready_world

GATE = {"name": names.ELASTIC_JOB_GATE}


def elastic(name: str = "train", pods: int = 3, **more: Any) -> Document:
    """An elastic Job as the webhook leaves it."""
    annotations = {names.ELASTIC_JOB: "true"}
    made = queued_job(
        name,
        pods,
        completions=100,
        annotations=annotations,
        pod={"schedulingGates": [GATE]},
        **more,
    )
    made["spec"]["template"]["metadata"].setdefault("labels", {})["job-name"] = name
    return made


class JobController:
    """Makes and deletes pods of a Job, as many as it may have."""

    def __init__(self, world: World, name: str = "train") -> None:
        self.world = world
        self.name = name
        self.made = 0

    def pods(self) -> list[Document]:
        found = self.world.store.list(resources.PODS, into=dict).items
        return [one for one in found if one["metadata"]["name"].startswith(self.name)]

    def running(self) -> int:
        return sum(not one["spec"].get("schedulingGates") for one in self.pods())

    def work(self) -> None:
        """Has as many pods as the Job says; those that wait go first."""
        job = stored(self.world, self.name)
        spec = job["spec"]
        wanted = 0 if spec.get("suspend") else spec["parallelism"]
        pods = sorted(
            self.pods(),
            key=lambda one: (not one["spec"].get("schedulingGates"), one["metadata"]["name"]),
        )
        for one in pods[: max(0, len(pods) - wanted)]:
            self.world.delete_pod(one["metadata"]["name"])
        for _ in range(wanted - len(pods)):
            self._make(job)
        report(
            self.world, self.name, active=wanted, ready=self.running(),
            **({"startTime": "2026-01-01T00:00:00Z"} if wanted else {}),
        )  # fmt: skip
        self.world.settle()

    def _make(self, job: Document) -> None:
        template = job["spec"]["template"]
        self.made += 1
        by = {"apiVersion": "batch/v1", "kind": "Job", "name": self.name, "controller": True}
        metadata = {
            **template["metadata"],
            "name": f"{self.name}-{self.made:03}",
            "namespace": "ml",
            "ownerReferences": [{**by, "uid": job["metadata"]["uid"]}],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        self.world.store.create(resources.PODS, pod, "ml")


def grow(world: World, jobs: JobController, pods: int) -> None:
    change(world, jobs.name, parallelism=pods)
    world.settle()
    jobs.work()


def slices(world: World) -> list[Workload]:
    """Workloads of the Job, those that have not ended last."""
    found = world.store.list(resources.WORKLOADS, into=Workload).items
    return sorted(
        found,
        key=lambda one: (
            not one.status.is_true(conditions.FINISHED), one.metadata.creation_timestamp,
            one.replaces() is not None,
        ),
    )  # fmt: skip


def told(world: World) -> list[tuple[int, str]]:
    """Pods of each slice, and how it is with it."""
    states = (conditions.FINISHED, conditions.ADMITTED)
    return [
        (
            sum(p.count for p in one.spec.pod_sets or ()),
            next((state for state in states if one.status.is_true(state)), "waits"),
        )
        for one in slices(world)
    ]


def charged(world: World) -> int:
    """GPUs that the queue is charged for."""
    node = world.state.forest.queues["gpus"]  # type: ignore[index]
    return sum(node.usage.values())


def started(quota: int = 8, pods: int = 3, **more: Any) -> tuple[World, JobController]:
    world = ready_world(quota=quota, **more)
    world.add(elastic(pods=pods))
    world.settle()
    jobs = JobController(world)
    assert is_running(world)
    jobs.work()
    return world, jobs


def test_pods_of_an_elastic_job_have_a_gate_and_are_released_with_their_workload():
    world, jobs = started()
    assert (jobs.running(), charged(world), told(world)) == (3, 3, [(3, "Admitted")])
    (only,) = slices(world)
    assert only.metadata.annotation(names.ELASTIC_JOB) == "true"
    assert only.replaces() is None
    template = world.store.get(resources.JOBS, "train", "ml")["spec"]["template"]["metadata"]
    assert template["annotations"][names.SLICE_NAME] == only.metadata.name


def replaced() -> float:
    """Slices that the queue has counted as replaced."""
    labels = {"cluster_queue": "gpus", "replica_role": "standalone"}
    name = "kueue_replaced_workload_slices_total"
    return REGISTRY.get_sample_value(name, labels) or 0


def test_more_pods_are_another_slice_that_replaces_the_first():
    world, jobs = started()
    (first,) = slices(world)
    before = replaced()
    grow(world, jobs, 8)
    assert told(world) == [(3, "Finished"), (8, "Admitted")]
    assert replaced() == before + 1
    assert (jobs.running(), charged(world)) == (8, 8)
    old, new = slices(world)
    assert old.metadata.name == first.metadata.name
    assert new.metadata.annotation(names.SLICE_REPLACEMENT) == f"ml/{first.metadata.name}"
    assert new.metadata.annotation(names.ELASTIC_JOB) == "true"
    ended = old.status.condition(conditions.FINISHED)
    assert ended is not None
    assert ended.reason == "WorkloadSliceReplaced"
    assert new.metadata.uid in ended.message
    assert is_running(world)


def test_another_slice_remembers_who_preempted_the_first():
    world, jobs = started()
    (first,) = slices(world)
    past = model.PastPreemptions((("ml/other", 2),))
    stats = {"evictions": past_preemptions.document(past)}
    world.store.patch(
        resources.WORKLOADS, first.metadata.name,
        patches.merge({"status": {"schedulingStats": stats}}), "ml", subresource="status",
    )  # fmt: skip
    world.settle()

    grow(world, jobs, 8)

    old, new = slices(world)
    assert new.past_preemptions() == old.past_preemptions() == past
    assert past_preemptions.predecessor(new.metadata) == first.metadata.uid


def test_what_does_not_fit_waits_while_the_others_run():
    world, jobs = started()
    grow(world, jobs, 9)
    assert sorted(told(world)) == [(3, "Admitted"), (9, "waits")]
    assert (jobs.running(), charged(world)) == (3, 3)
    grow(world, jobs, 8)
    assert told(world) == [(3, "Finished"), (8, "Admitted")]
    assert (jobs.running(), charged(world)) == (8, 8)


def test_two_scales_in_a_row_leave_one_slice():
    world, jobs = started()
    grow(world, jobs, 5)
    grow(world, jobs, 7)
    assert told(world) == [(3, "Finished"), (5, "Finished"), (7, "Admitted")]
    assert (jobs.running(), charged(world)) == (7, 7)
    assert len({one.metadata.name for one in slices(world)}) == 3


def test_fewer_pods_are_written_in_place_and_free_when_they_have_ended():
    world, jobs = started(pods=6)
    change(world, parallelism=2)
    world.settle()
    assert told(world) == [(2, "Admitted")]
    assert charged(world) == 6
    jobs.work()
    assert (jobs.running(), charged(world)) == (2, 2)
    grow(world, jobs, 8)
    assert told(world) == [(2, "Finished"), (8, "Admitted")]
    assert (jobs.running(), charged(world)) == (8, 8)


@pytest.mark.parametrize(("pods", "left"), [(3, 3), (2, 2)])
def test_a_slice_that_waits_goes_when_the_job_wants_no_more_than_it_has(pods: int, left: int):
    world, jobs = started()
    grow(world, jobs, 9)
    grow(world, jobs, pods)
    assert told(world) == [(left, "Admitted")]
    assert (jobs.running(), charged(world)) == (left, left)


def test_an_eviction_stops_the_whole_job_and_it_asks_for_all_its_pods():
    world, jobs = started()
    grow(world, jobs, 9)
    queue = patches.merge({"spec": {"stopPolicy": "HoldAndDrain"}})
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", queue)
    world.settle()
    assert not is_running(world)
    jobs.work()
    assert (charged(world), told(world)) == (0, [(9, "waits")])
    change(world, parallelism=8)
    world.store.patch(
        resources.CLUSTER_QUEUES, "gpus", patches.merge({"spec": {"stopPolicy": "None"}})
    )
    world.settle()
    jobs.work()
    assert (jobs.running(), charged(world), told(world)) == (8, 8, [(8, "Admitted")])


def test_a_slice_that_was_admitted_is_evicted_with_its_job_and_comes_back():
    world, jobs = started()
    grow(world, jobs, 8)
    for policy in ("HoldAndDrain", "None"):
        world.store.patch(
            resources.CLUSTER_QUEUES, "gpus", patches.merge({"spec": {"stopPolicy": policy}})
        )
        world.settle()
        jobs.work()
    assert told(world) == [(3, "Finished"), (8, "Admitted")]
    assert (jobs.running(), charged(world)) == (8, 8)


def test_another_leader_goes_on_wherever_the_first_one_ended():
    for steps in range(1, 14):
        world, jobs = started()
        change(world, parallelism=8)
        world.observe()
        world.core.step()
        for _ in range(steps):
            if world.send_one() is None:
                break
            world.core.step()
            assert charged(world) <= 8
        world = world.restarted()
        world.settle()
        jobs.world = world
        jobs.work()
        assert told(world) == [(3, "Finished"), (8, "Admitted")], steps
        assert (jobs.running(), charged(world)) == (8, 8), steps


def test_a_deleted_workload_of_a_job_that_grows_is_made_for_the_pods_that_run():
    world, jobs = started()
    grow(world, jobs, 30)
    for one in slices(world):
        world.store.delete(resources.WORKLOADS, one.metadata.name, "ml")
    world.settle()
    assert (jobs.running(), charged(world)) == (3, 3)
    assert sorted(told(world)) == [(3, "Admitted"), (30, "waits")]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first slice first", "last slice first"])
def test_pods_that_the_job_has_left_are_charged_once_its_slices_have_ended(order):
    """The garbage collector takes the Job off its pods and off both of its Workloads."""
    world = ready_world()
    world.add(elastic(pods=1))
    world.settle()
    jobs = JobController(world)
    jobs.work()
    grow(world, jobs, 2)
    jobs.work()
    assert jobs.running() == 2
    nobody = patches.merge({"metadata": {"ownerReferences": None}})
    workloads = [one.metadata.name for one in slices(world)]
    for pod in jobs.pods():
        name = pod["metadata"]["name"]
        world.store.patch(resources.PODS, name, nobody, "ml")
        world.set_phase(name, "Running")
    world.settle()
    for place in order:
        world.store.patch(resources.WORKLOADS, workloads[place], nobody, "ml")
    world.store.delete(resources.JOBS, "train", "ml")
    world.settle()

    assert charged(world) == 2


def test_a_deleted_slice_that_was_admitted_leaves_its_pods_charged():
    world, jobs = started()
    grow(world, jobs, 8)
    world.store.delete(resources.WORKLOADS, slices(world)[-1].metadata.name, "ml")
    world.settle()
    assert (jobs.running(), charged(world)) == (8, 8)
    assert told(world) == [(8, "Admitted")]


def test_a_slice_that_somebody_else_made_is_deleted():
    world, jobs = started()
    (first,) = slices(world)
    document = world.store.get(resources.WORKLOADS, first.metadata.name, "ml")
    forged = {
        **{key: document[key] for key in ("apiVersion", "kind")},
        "metadata": {
            "name": "mine", "namespace": "ml",
            "ownerReferences": document["metadata"]["ownerReferences"],
            "annotations": {names.SLICE_REPLACEMENT: f"ml/{first.metadata.name}"},
        },
        "spec": {**document["spec"], "podSets": [
            {"name": "main", "count": 30, "template": {"spec": {"containers": [{"name": "c"}]}}}
        ]},
    }  # fmt: skip
    world.store.create(resources.WORKLOADS, forged, "ml")
    change(world, parallelism=30)
    world.settle()
    jobs.work()
    assert "mine" not in {one.metadata.name for one in slices(world)}
    assert (jobs.running(), charged(world)) == (3, 3)


def test_a_job_that_ends_ends_its_slice_and_one_that_waits_goes():
    world, jobs = started()
    grow(world, jobs, 9)
    done = {"type": "Complete", "status": "True", "message": "done"}
    for one in jobs.pods():
        world.delete_pod(one["metadata"]["name"])
    report(world, active=0, conditions=[done])
    world.settle()
    assert (charged(world), told(world)) == (0, [(3, "Finished")])


def test_pods_that_are_ending_keep_their_quota_from_those_that_wait():
    world, jobs = started(quota=3)
    first = jobs.pods()[0]["metadata"]["name"]
    pod = patches.merge(
        {"metadata": {"finalizers": ["example.com/hold"]}, "spec": {"nodeName": "n"}}
    )
    world.store.patch(resources.PODS, first, pod, "ml")
    world.delete_pod(first)
    world.settle()
    jobs._make(stored(world))
    world.settle()
    found = world.store.get(
        resources.PODS, jobs.pods()[-1]["metadata"]["name"], "ml", into=views.Pod
    )
    assert found.spec.scheduling_gates
    world.store.patch(
        resources.PODS, first, patches.merge({"metadata": {"finalizers": None}}), "ml"
    )
    world.settle()
    assert jobs.running() == 3
