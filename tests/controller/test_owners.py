"""What is kept of owners, and what is asked and told of them, for every kind alike."""

import msgspec

from admission.base import names, patches
from admission.controller import core
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import WritePurpose
from admission.kube import resources
from admission.kube.reflector import Deleted, Upserted
from admission.objects import batch
from tests.builders.jobs import queued_job
from tests.builders.queues import make_flavor
from tests.builders.workloads import make_workload
from tests.controller.world import WATCHED, World, ready_world


class Standby(World):
    """A controller that does not lead."""

    leads = False


def kept_whole(world: World) -> int:
    """How many pods are kept with all that they say."""
    return len(world.parts.owners.pods.index._whole)


def label(world: World, name: str, **labels: str) -> None:
    change = patches.merge({"metadata": {"labels": labels}})
    world.store.patch(resources.JOBS, name, change, "ml")


def test_a_standby_keeps_no_pod_whole_that_has_a_workload() -> None:
    world = ready_world()
    for name in "abcdef":
        world.add_pod(name)
    world.settle()
    standby = Standby(world.store, world.clock)
    for resource in (resources.PODS, resources.WORKLOADS):
        listed = standby.listed(resource, WATCHED[resource])
        standby.core.receive(core.WatchMessage(resource, listed))

    assert kept_whole(standby) == 0


def test_a_pod_that_has_ended_without_a_workload_is_not_kept_whole() -> None:
    world = ready_world()
    world.add_pod("train")
    world.settle()
    world.set_phase("train", "Succeeded")
    world.settle()
    world.store.delete(resources.WORKLOADS, world.workloads()["train"].metadata.name, "ml")
    restarted = world.restarted()
    restarted.settle()

    assert kept_whole(restarted) == 0


def test_an_answer_about_a_parent_says_nothing_about_its_child() -> None:
    world = ready_world()
    parent = queued_job("parent", suspend=False)
    parent["metadata"]["labels"] = {}
    made = world.store.create(resources.JOBS, parent, "ml")
    child = queued_job("child")
    child["metadata"]["labels"] = {names.HELD_WITH_PARENT: "true"}
    child["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "parent",
            "uid": made["metadata"]["uid"],
            "controller": True,
        }
    ]
    world.store.create(resources.JOBS, child, "ml")
    world.observe()
    world.core.step()
    (read,) = (one for one in world.queued if one.operation is WritePurpose.FIND_PARENT)
    label(world, "child", **{names.QUEUE_LABEL: "team-a"})
    world.observe()  # the label is seen before the answer about the parent
    world.send(read)
    world.settle()

    assert "child" in world.workloads()


def test_a_job_that_waits_for_its_class_is_not_read_again_and_again() -> None:
    world = ready_world(quota=0)
    world.add(queued_job())
    world.settle()
    label(world, "train", **{names.PRIORITY_CLASS_LABEL: "missing"})
    world.settle()
    for name in ("b", "c", "d"):
        world.add(make_flavor(name))
        world.settle()
    sent = [one.operation for one in world.sent]

    assert sent.count(WritePurpose.READ_OWNER) <= 2  # for its Workload, and for the change


def test_nothing_is_left_of_a_workload_whose_end_was_seen_before_the_answer() -> None:
    world = ready_world()
    world.add_pod("train")
    world.settle()
    world.set_phase("train", "Succeeded")
    world.settle()
    workload = world.workloads()["train"]
    deletion = api_requests.delete_workload(workload)
    world.parts.basis.flow.submit(deletion)
    world._queue.remove(deletion)
    outcome = world._sender.send(deletion)
    world.core.receive(core.WatchMessage(resources.WORKLOADS, Deleted(workload)))
    world.core.receive(outcome)

    assert not world.parts.owners.pods._deleted


def test_a_second_workload_of_a_job_is_told_of_also_after_its_end() -> None:
    world = ready_world()
    world.add(queued_job())
    world.settle()
    found = world.store.get(resources.JOBS, "train", "ml", into=batch.JobDocument)
    second = make_workload("second")
    second["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "train",
            "uid": found.metadata.uid,
            "controller": True,
        }
    ]
    world.store.create(resources.WORKLOADS, second, "ml")
    ended = {
        "type": "Finished",
        "status": "True",
        "reason": "Succeeded",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    change = patches.merge({"status": {"conditions": [ended]}})
    world.store.patch(resources.WORKLOADS, "second", change, "ml", subresource="status")
    world.settle()
    told = [note for _, reason, note in world.events.recorded if reason == "DeletedWorkload"]

    assert told == ["Deleted not matching Workload: ml/second"]


def test_an_old_sight_without_the_label_does_not_undo_a_newer_one() -> None:
    world = ready_world()
    world.add_pod("train")
    world.settle()
    pod = world.pod("train")
    older = msgspec.structs.replace(
        pod.metadata,
        labels={},
        resource_version=str(int(pod.metadata.resource_version) - 1),
    )
    world.parts.owners.pods.on_update(msgspec.structs.replace(pod, metadata=older))

    assert (
        world.parts.owners.every_kind.subject(next(iter(world.parts.basis.workloads))) is not None
    )


def test_an_answer_from_before_a_list_does_not_bring_a_pod_back() -> None:
    world = ready_world()
    world.add_pod("train")
    world.settle()
    pod = world.pod("train")
    world.delete_pod("train")
    listed = world.listed(resources.PODS, WATCHED[resources.PODS])
    world.core.receive(core.WatchMessage(resources.PODS, listed))
    between = str(int(pod.metadata.resource_version) + 1)
    assert int(between) <= int(listed.version)
    late = msgspec.structs.replace(pod.metadata, resource_version=between)
    world.core.receive(
        core.WatchMessage(resources.PODS, Upserted(msgspec.structs.replace(pod, metadata=late)))
    )

    assert world.parts.owners.pods.index.get(next(iter(world.parts.basis.workloads))) is None
