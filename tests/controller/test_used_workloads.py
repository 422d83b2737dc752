"""A reservation has one user: nobody else adopts its Workload, or starts beside its pods."""

from collections.abc import Callable
from typing import Any

import pytest

from admission.base import conditions, names, patches
from admission.kube import resources
from admission.kube.api import Document
from admission.objects import batch
from admission.objects.workload import Workload
from admission.owners import batch_job
from tests.builders.jobs import queued_job
from tests.builders.pods import group_pod
from tests.controller.world import World, ready_world

NAMED = {names.PREBUILT_WORKLOAD: "gang"}


def with_group(quota: int = 4, size: int = 4, present: int | None = None) -> World:
    """A group of pods with a GPU each; all of its pods are there, or some."""
    world = ready_world(quota=quota)
    for number in range(size if present is None else present):
        world.clock.advance(1)
        document = group_pod(f"gang-{number}", "gang", size, gpus=1)
        world.store.create(resources.PODS, document, "ml")
    world.settle()
    return world


def containers_of(world: World, pod: str) -> list[Document]:
    found: list[Document] = world.store.get(resources.PODS, pod, "ml")["spec"]["containers"]
    return found


def a_job(world: World, image: str = "train") -> None:
    (container,) = containers_of(world, "gang-0")
    pod = {"container": {"image": image, "name": container["name"]}}
    world.add(queued_job("thief", 4, annotations=NAMED, gpus=1, pod=pod))


def a_pod(world: World, image: str = "train") -> None:
    world.add_pod("thief", gpus=1, annotations=NAMED, container={"image": image})


def workload(world: World, name: str = "gang") -> Workload:
    return world.store.get(resources.WORKLOADS, name, "ml", into=Workload)


def is_job_suspended(world: World, name: str = "thief") -> bool:
    found = world.store.get(resources.JOBS, name, "ml", into=batch.JobDocument).view()
    return batch_job.is_suspended(found)


def charged(world: World) -> int:
    """GPUs that the ClusterQueue is charged for."""
    world.settle()
    return sum(world.state.cluster_queue_status(names.ClusterQueueName("gpus")).usage.values())


def told(world: World, reason: str) -> list[str]:
    return [note for _, found, note in world.events.recorded if found == reason]


Thief = Callable[..., None]
THIEVES = pytest.mark.parametrize("thief", [a_job, a_pod])


@THIEVES
@pytest.mark.parametrize("image", ["train", "other"], ids=["alike", "otherwise"])
def test_nobody_adopts_the_workload_of_a_group_that_runs(thief: Thief, image: str) -> None:
    size = 1 if thief is a_pod else 4
    world = with_group(size=size)
    assert len(world.admitted()) == size
    thief(world, image)
    world.settle()
    world.pass_time(3)
    stored = workload(world)
    assert stored.metadata.controller() is None
    assert not stored.status.is_true(conditions.FINISHED)
    assert world.admitted() == {f"gang-{number}" for number in range(size)}
    if thief is a_job:
        assert is_job_suspended(world)
    assert charged(world) == size
    if thief is a_job:
        (note,) = told(world, conditions.PREBUILT_NOT_FOUND)
        assert note == 'Prebuilt workload "ml/gang" not found: it is used by a group of pods'


@THIEVES
def test_nobody_adopts_the_workload_of_a_group_that_waits(thief: Thief) -> None:
    world = with_group(quota=0, size=1 if thief is a_pod else 4)
    thief(world, "other")
    world.settle()
    stored = workload(world)
    assert stored.metadata.controller() is None
    assert not stored.status.is_true(conditions.FINISHED)


def add_pods(world: World, job: str, count: int, **metadata: Any) -> list[str]:
    """Pods of a started Job, which run on a node."""
    if not world.store.list(resources.NODES).items:
        world.store.create(resources.NODES, {"metadata": {"name": "node"}})
    stored = world.store.get(resources.JOBS, job, "ml")
    template, uid = stored["spec"]["template"], stored["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid, "controller": True}
    made = [f"{job}-{number}" for number in range(count)]
    for name in made:
        whole = {
            **template["metadata"], "ownerReferences": [owner], **metadata,
            "name": name, "namespace": "ml",
        }  # fmt: skip
        spec = {**template["spec"], "nodeName": "node"}
        world.add({"apiVersion": "v1", "kind": "Pod", "metadata": whole, "spec": spec})
    world.settle()
    return made


def workload_of_job(world: World, name: str) -> str:
    return world.workloads()[name].metadata.name


def orphan(world: World, count: int = 2) -> tuple[str, list[str]]:
    """A Job is deleted and leaves its Workload and its pods; their names."""
    world.add(queued_job("train", count, gpus=1))
    world.settle()
    left = add_pods(world, "train", count)
    name = workload_of_job(world, "train")
    free = patches.merge({"metadata": {"ownerReferences": None}})
    world.store.patch(resources.WORKLOADS, name, free, "ml")
    for pod in left:
        world.store.patch(resources.PODS, pod, free, "ml")
    world.store.delete(resources.JOBS, "train", "ml")
    world.settle()
    return name, left


@pytest.mark.parametrize("thief", ["Job", "Pod"])
@pytest.mark.parametrize("of_pod", [False, True], ids=["of the Job", "of a pod"])
def test_nobody_runs_with_a_workload_of_orphaned_pods(thief: str, *, of_pod: bool) -> None:
    """Neither with the one that their Job left, nor with those that they have then."""
    count = 1 if thief == "Pod" else 2
    world = ready_world(quota=2 * count)
    name, left = orphan(world, count)
    name = workload_of_job(world, left[0]) if of_pod else name
    annotations = {names.PREBUILT_WORKLOAD: name}
    if thief == "Job":
        world.add(queued_job("next", count, gpus=1, annotations=annotations))
    else:
        world.add_pod("next", gpus=1, annotations=annotations)
    world.settle()
    world.pass_time(3)
    assert charged(world) == count
    assert is_job_suspended(world, "next") if thief == "Job" else world.is_gated("next")
    assert set(left) <= set(world.workloads())


def test_a_job_starts_again_once_its_pods_have_ended_that_use_its_reservation() -> None:
    """The Job controller counts no pod that is being deleted; its containers may run on."""
    world = ready_world(quota=4)
    world.add(queued_job("train", 2, gpus=1))
    world.settle()
    left = add_pods(world, "train", 2, finalizers=["example.com/hold"])
    name = workload_of_job(world, "train")
    set_active(world, name, active=False)
    assert is_job_suspended(world, "train")
    for pod in left:
        world.delete_pod(pod)
    set_active(world, name, active=True)
    world.pass_time(2)
    assert is_job_suspended(world, "train")
    (note,) = told(world, "StartHeldBack")
    assert note.startswith("Admitted, and starts when Pod train-")
    assert note.endswith("has ended: it still uses this quota on node node")
    for pod in left:
        ended = patches.merge({"metadata": {"finalizers": None}})
        world.store.patch(resources.PODS, pod, ended, "ml")
    world.settle()
    assert not is_job_suspended(world, "train")
    assert charged(world) == 2


def set_active(world: World, name: str, *, active: bool) -> None:
    change = patches.merge({"spec": {"active": active}})
    world.store.patch(resources.WORKLOADS, name, change, "ml")
    world.pass_time(2)
