"""Ended Workloads, and owners of deactivated ones, are deleted after their time."""

from datetime import timedelta

import pytest

from admission.base import names, patches
from admission.config.kueue_configuration import (
    Configuration,
    Integrations,
    RetentionPolicies,
    WorkloadRetention,
)
from admission.kube import resources
from tests.builders.jobs import queued_job
from tests.builders.metadata import make_condition
from tests.controller.world import World, ready_world

HOUR = timedelta(hours=1)


def keeping_world(**retention: timedelta) -> World:
    policies = RetentionPolicies(workloads=WorkloadRetention(**retention))
    return ready_world(kueue=Configuration(object_retention_policies=policies))


def patch_status(world: World, resource: resources.Resource, name: str, status: object) -> None:
    change = patches.merge({"status": status})
    world.store.patch(resource, name, change, "ml", subresource="status")
    world.settle()


def end_job(world: World) -> None:
    condition = {"type": "Complete", "status": "True", "message": ""}
    patch_status(world, resources.JOBS, "train", {"active": 0, "conditions": [condition]})


@pytest.mark.parametrize(("passed", "left"), [(3590, 1), (3602, 0)])
def test_a_finished_workload_is_deleted_after_its_time_and_its_job_stays(
    passed: int, left: int
) -> None:
    world = keeping_world(after_finished=HOUR)
    world.add(queued_job())
    world.settle()
    end_job(world)
    assert world.workloads()["train"].status.is_true("Finished")
    world.clock.advance(passed)
    world.settle()

    assert len(world.workloads()) == left
    assert len(world.store.list(resources.JOBS).items) == 1
    told = {reason for _, reason, _ in world.events.recorded}
    assert ("Deleted" in told) is (left == 0)
    assert "DeletedWorkload" not in told  # it did not contradict its Job


def test_without_the_setting_a_finished_workload_stays() -> None:
    world = ready_world()
    world.add(queued_job())
    world.settle()
    end_job(world)
    world.clock.advance(10**6)
    world.settle()
    assert len(world.workloads()) == 1


@pytest.mark.parametrize(("passed", "left"), [(3590, 1), (3602, 0)])
def test_the_workload_of_an_orphaned_job_does_not_stay_for_ever(passed: int, left: int) -> None:
    """A deletion with `--cascade=orphan` takes the owner off the Workload, too."""
    world = ready_world()
    world.add(queued_job())
    world.settle()
    name = world.workloads()["train"].metadata.name
    orphan = patches.merge({"metadata": {"ownerReferences": None}})
    world.store.patch(resources.WORKLOADS, name, orphan, "ml")
    world.store.delete(resources.JOBS, "train", "ml")
    world.settle()
    world.clock.advance(passed)
    world.settle()
    assert len(world.store.list(resources.WORKLOADS).items) == left


def deactivate(world: World, name: str) -> None:
    """The program deactivates the Workload, because a limit was exceeded."""
    found = world.workloads()[name]
    target = make_condition("DeactivationTarget", "True", "MaximumExecutionTimeExceeded")
    patch_status(world, resources.WORKLOADS, found.metadata.name, {"conditions": [target]})


@pytest.mark.parametrize("kind", ["pod", "job"])
def test_the_owner_of_what_the_program_deactivated_is_deleted_after_its_time(kind: str) -> None:
    world = keeping_world(after_deactivated_by_kueue=HOUR)
    world.store.patch(
        resources.LOCAL_QUEUES, "team-a", patches.merge({"spec": {"stopPolicy": "Hold"}}), "ml"
    )
    if kind == "pod":
        world.add_pod("train")
    else:
        world.add(queued_job())
    world.settle()
    deactivate(world, "train")
    assert world.workloads()["train"].spec.active is False
    resource = resources.PODS if kind == "pod" else resources.JOBS
    world.clock.advance(3590)
    world.settle()
    assert len(world.store.list(resource).items) == 1
    world.clock.advance(12)
    world.settle()
    assert not world.store.list(resource).items
    assert ("train", "Deleted", "Deleted job: deactivation retention period expired") in (
        world.events.recorded
    )


def test_what_a_person_deactivated_stays() -> None:
    world = keeping_world(after_deactivated_by_kueue=HOUR)
    world.add_pod("train", labels={names.QUEUE_LABEL: "none"})
    world.settle()
    name = world.workloads()["train"].metadata.name
    world.store.patch(resources.WORKLOADS, name, patches.merge({"spec": {"active": False}}), "ml")
    world.settle()
    world.clock.advance(10**6)
    world.settle()
    assert len(world.store.list(resources.PODS).items) == 1


def test_a_workload_takes_over_the_labels_that_are_asked_for() -> None:
    world = ready_world(
        kueue=Configuration(integrations=Integrations(label_keys_to_copy=["team", "cost"]))
    )
    world.add_pod("one", labels={"team": "red", "other": "x"})
    world.add(queued_job("two", labels={"cost": "7"}))
    world.settle()
    labels = {name: dict(found.metadata.labels or {}) for name, found in world.workloads().items()}
    for found in labels.values():
        found.pop(names.JOB_UID_LABEL)
    assert labels == {"one": {"team": "red"}, "two": {"cost": "7"}}
