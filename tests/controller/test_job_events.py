"""What people are told about Jobs besides that they start and stop."""

from collections.abc import Mapping
from typing import Any

import pytest

from admission.base import names, patches
from admission.kube import resources
from tests.builders.jobs import queued_job
from tests.controller.world import World, add_checked_queue, ready_world


def told(world: World, reason: str) -> list[str]:
    """Notes of the events about the Job."""
    found = world.events.recorded
    return [note for name, one, note in found if (name, one) == ("train", reason)]


def workload(world: World) -> str:
    return world.workloads()["train"].metadata.name


def change(world: World, **members: Any) -> None:
    world.store.patch(resources.JOBS, "train", patches.merge(members), "ml")
    world.settle()


def answer(world: World, state: str, message: str) -> None:
    """The check says how it stands."""
    check = {"name": "budget", "state": state, "message": message,
             "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    patch = patches.merge({"status": {"admissionChecks": [check]}})
    world.store.patch(resources.WORKLOADS, workload(world), patch, "ml", subresource="status")
    world.settle()


def waiting(annotations: Mapping[str, str] | None = None) -> World:
    """A Job that asks for more than there is."""
    world = ready_world(quota=1)
    world.add(queued_job(pods=3, annotations=annotations))
    world.settle()
    return world


def test_a_workload_that_does_not_match_its_running_job_is_deleted_aloud() -> None:
    world = ready_world()
    world.add(queued_job(pods=2))
    world.settle()
    name = workload(world)
    change(world, spec={"parallelism": 3, "completions": 3})
    assert told(world, "DeletedWorkload") == [f"Deleted not matching Workload: ml/{name}"]
    assert told(world, "UpdatedWorkload") == []


def test_a_workload_that_follows_its_waiting_job_says_so() -> None:
    world = waiting()
    change(world, spec={"parallelism": 2})
    assert told(world, "UpdatedWorkload") == [
        f"Updated not matching Workload for suspended job: ml/{workload(world)}"
    ]


def test_a_workload_that_takes_over_gates_says_which_are_left() -> None:
    world = waiting({names.ADMISSION_GATED_BY: "acme.io/a,acme.io/b"})
    change(world, metadata={"annotations": {names.ADMISSION_GATED_BY: "acme.io/b"}})
    change(world, metadata={"annotations": {names.ADMISSION_GATED_BY: None}})
    assert told(world, "UpdatedWorkload") == [
        'Updated workload AdmissionGatedBy to "acme.io/b"',
        'Updated workload AdmissionGatedBy to ""',
    ]


def test_another_queue_is_followed_in_silence() -> None:
    world = waiting()
    change(world, metadata={"labels": {names.QUEUE_LABEL: "elsewhere"}})
    assert world.workloads()["train"].spec.queue_name == "elsewhere"
    assert told(world, "UpdatedWorkload") == []


def test_what_an_open_check_says_is_told_once() -> None:
    world = ready_world()
    add_checked_queue(world)
    world.add(queued_job(queue="checked"))
    world.settle()
    assert told(world, "UpdatedAdmissionCheck") == []
    answer(world, "Pending", "waiting for nodes")
    change(world, metadata={"labels": {"team": "red"}})
    assert told(world, "UpdatedAdmissionCheck") == ["budget: waiting for nodes"]
    answer(world, "Pending", "2 of 4 nodes")
    answer(world, "Ready", "4 of 4 nodes")
    assert told(world, "UpdatedAdmissionCheck") == [
        "budget: waiting for nodes",
        "budget: 2 of 4 nodes",
    ]


def add_second(world: World) -> None:
    """Somebody makes another Workload in the Job's name."""
    found = world.store.get(resources.WORKLOADS, workload(world), "ml")
    world.add(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {
                "name": "second",
                "namespace": "ml",
                "ownerReferences": found["metadata"]["ownerReferences"],
            },
            "spec": found["spec"],
        }
    )
    world.settle()


def stored(world: World) -> set[str]:
    return {one["metadata"]["name"] for one in world.store.list(resources.WORKLOADS).items}


@pytest.mark.parametrize("quota", [1, 4], ids=["waiting", "running"])
def test_a_second_workload_of_a_job_is_deleted_and_gives_its_quota_back(quota: int) -> None:
    world = ready_world(quota=quota)
    world.add(queued_job(pods=2))
    world.settle()
    own = workload(world)
    add_second(world)
    assert stored(world) == {own}
    assert told(world, "DeletedWorkload") == ["Deleted not matching Workload: ml/second"]
    world.pass_time(2)
    assert world.status_of("gpus")["reservingWorkloads"] == (1 if quota == 4 else 0)
