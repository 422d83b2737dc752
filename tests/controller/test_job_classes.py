"""Jobs that change their WorkloadPriorityClass, waiting or running."""

from typing import Any

import pytest

from admission.base import names, patches
from admission.controller.writing.api_requests import WritePurpose
from admission.kube import resources
from admission.objects.workload import Workload
from tests.builders.jobs import queued_job
from tests.builders.queues import make_class
from tests.controller.world import World, add_checked_queue, ready_world

PREEMPTION = {"withinClusterQueue": "LowerPriority"}


def ordered_world(quota: int = 2) -> World:
    """A queue whose Workloads give way to those of a higher class."""
    world = ready_world(quota=quota)
    queue = patches.merge({"spec": {"preemption": PREEMPTION}})
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", queue)
    for name, value in (("high", 1000), ("low", 100)):
        world.add(make_class(name, value))
    return world


def add(world: World, name: str, priority: str = "", **more: Any) -> None:
    labels = {names.PRIORITY_CLASS_LABEL: priority} if priority else {}
    world.add(queued_job(name, labels=labels, **more))
    world.settle()


def name_class(world: World, name: str, priority: str) -> None:
    labels = {"metadata": {"labels": {names.PRIORITY_CLASS_LABEL: priority}}}
    world.store.patch(resources.JOBS, name, patches.merge(labels), "ml")
    world.settle()


def asked(world: World, name: str) -> tuple[str, int | None]:
    """Name and value of a Workload's priority."""
    spec = world.workloads()[name].spec
    return spec.priority_class_ref.name if spec.priority_class_ref else "", spec.priority


def is_true(world: World, name: str, condition: str) -> bool:
    found: Workload = world.workloads()[name]
    return found.status.is_true(condition)


def told(world: World, reason: str) -> list[str]:
    return [note for _, found, note in world.events.recorded if found == reason]


def test_a_running_job_takes_a_lower_class_and_gives_way() -> None:
    world = ordered_world()
    add(world, "first", "high")
    add(world, "second", "high")
    assert not is_true(world, "second", "QuotaReserved")
    name_class(world, "first", "low")
    assert asked(world, "first") == ("low", 100)
    assert is_true(world, "first", "Preempted")
    assert is_true(world, "second", "Admitted")


def test_a_running_job_that_still_ranks_as_high_runs_on() -> None:
    world = ordered_world()
    add(world, "first", "high")
    add(world, "second", "low")
    name_class(world, "first", "low")
    world.pass_time(5)
    assert asked(world, "first") == ("low", 100)
    assert is_true(world, "first", "Admitted")
    assert not is_true(world, "second", "QuotaReserved")


def test_a_waiting_job_that_is_given_a_class_preempts() -> None:
    world = ordered_world()
    add(world, "first", "low")
    add(world, "second")
    assert asked(world, "second") == ("", 0)
    name_class(world, "second", "high")
    assert asked(world, "second") == ("high", 1000)
    assert is_true(world, "second", "Admitted")


def test_a_running_job_that_names_no_known_class_keeps_its_own_and_says_so() -> None:
    world = ordered_world(quota=4)
    add(world, "first", "high", pods=4)
    name_class(world, "first", "later")
    assert asked(world, "first") == ("high", 1000)
    assert told(world, "WorkloadPriorityClassNotFound") == [
        'WorkloadPriorityClass "later" not found; the cluster has high, low'
    ]
    status = patches.merge({"status": {"active": 3, "succeeded": 1}})
    world.store.patch(resources.JOBS, "first", status, "ml", subresource="status")
    world.settle()
    assert world.workloads()["first"].status.reclaimable_pods
    world.add(make_class("later", 7))
    world.settle()
    assert asked(world, "first") == ("later", 7)


@pytest.mark.parametrize("missing", ["one", "other"])
def test_each_missing_class_is_told_of(missing: str) -> None:
    world = ordered_world(quota=0)
    add(world, "first", "one")
    name_class(world, "first", "other")
    world.pass_time(5)
    assert (
        told(world, "WorkloadPriorityClassNotFound").count(
            f'WorkloadPriorityClass "{missing}" not found; the cluster has high, low'
        )
        == 1
    )


def test_a_reservation_without_a_class_is_left_without_one() -> None:
    world = ordered_world()
    add_checked_queue(world)
    add(world, "first", queue="checked")
    assert is_true(world, "first", "QuotaReserved")
    name_class(world, "first", "high")
    assert asked(world, "first") == ("", 0)
    assert is_true(world, "first", "QuotaReserved")


def test_a_reservation_with_a_class_takes_another() -> None:
    world = ordered_world()
    add_checked_queue(world)
    add(world, "first", "low", queue="checked")
    assert not is_true(world, "first", "Admitted")
    name_class(world, "first", "high")
    assert asked(world, "first") == ("high", 1000)
    assert is_true(world, "first", "QuotaReserved")


def test_a_change_of_the_class_is_told() -> None:
    world = ordered_world()
    add(world, "first", "high")
    add(world, "second", "low")
    name_class(world, "first", "low")
    name_class(world, "second", "high")
    keys = [world.workloads()[name].metadata.name for name in ("first", "second")]
    assert told(world, "UpdatedWorkload") == [
        f"Updated workload priority class: ml/{key}" for key in keys
    ]


def test_a_class_that_is_edited_while_it_is_taken_over_counts_as_it_is_then() -> None:
    world = ordered_world()
    add(world, "first", "high")
    labels = {"metadata": {"labels": {names.PRIORITY_CLASS_LABEL: "low"}}}
    world.store.patch(resources.JOBS, "first", patches.merge(labels), "ml")
    world.observe()
    world.core.step()
    edit = patches.merge({"value": 50})
    world.store.patch(resources.WORKLOAD_PRIORITY_CLASSES, "low", edit)
    world.observe()
    world.core.step()
    world.settle()
    assert asked(world, "first") == ("low", 50)


@pytest.mark.parametrize("before", ["", "low"])
def test_a_waiting_job_that_names_a_missing_class_is_followed_in_all_else(before: str) -> None:
    world = ordered_world(quota=0)
    add(world, "first", before, pods=4)
    kept = asked(world, "first")
    name_class(world, "first", "later")
    assert asked(world, "first") == kept
    world.store.patch(
        resources.JOBS,
        "first",
        patches.merge({"spec": {"parallelism": 2, "completions": 2}}),
        "ml",
    )
    world.settle()
    pod_sets = world.workloads()["first"].spec.pod_sets or ()
    assert [pod_set.count for pod_set in pod_sets] == [2]
    assert asked(world, "first") == kept
    sent = len(world.sent)
    world.pass_time(60)
    later = {request.operation for request in world.sent[sent:]}
    assert WritePurpose.FOLLOW_OWNER not in later
    world.add(make_class("later", 7))
    world.settle()
    assert asked(world, "first") == ("later", 7)
