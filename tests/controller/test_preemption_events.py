"""What is told of a preemption: on who gives way, and on who comes."""

import pytest

from admission.answers import why
from admission.base import names, patches
from admission.kube import resources
from admission.kube.api import Document
from tests.answers.rights import OfTeam
from tests.builders.jobs import queued_job
from tests.builders.workloads import make_pod_set, make_workload
from tests.controller import test_jobs
from tests.controller.world import World, ready_world


def ordered_world(quota: int) -> World:
    """A queue whose Workloads give way to those of a higher priority."""
    world = ready_world(quota=quota)
    change = patches.merge({"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}})
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", change)
    world.settle()
    return world


def add(world: World, name: str, priority: int, gpus: int = 1) -> Document:
    document = make_workload(name, make_pod_set(gpus=gpus))
    document["spec"]["priority"] = priority
    world.add(document)
    world.settle()
    return world.store.get(resources.WORKLOADS, name, "ml")


def told(world: World) -> list[tuple[str, str, str]]:
    of_interest = {"EvictedDueToPreempted", "Preempted", "PreemptedWorkload"}
    return [one for one in world.events.recorded if one[1] in of_interest]


def test_the_victim_and_the_preemptor_are_told_who_and_why() -> None:
    world = ordered_world(quota=1)
    low = add(world, "low", 1)
    high = add(world, "high", 9)
    why = (
        f"Preempted to accommodate a workload (UID: {high['metadata']['uid']}, JobUID: UNKNOWN)"
        " due to prioritization in the ClusterQueue; preemptor path: /gpus; preemptee path: /gpus"
    )
    ranks = (
        "; preemptor effective priority: 9 (base: 9, boost: 0)"
        "; preemptee effective priority: 1 (base: 1, boost: 0)"
    )
    whom = f"Preempted workload ml/low (UID: {low['metadata']['uid']}) in ClusterQueue gpus"
    assert told(world) == [
        ("low", "EvictedDueToPreempted", why),
        ("low", "Preempted", why + ranks),
        ("high", "PreemptedWorkload", whom + ranks),
    ]


def test_every_victim_is_told_of_once_however_long_it_takes_to_leave() -> None:
    world = ordered_world(quota=3)
    for name in "abc":
        add(world, name, 1)
    add(world, "high", 9, gpus=3)
    world.pass_time(30)
    assert sorted(name for name, reason, _ in told(world) if reason == "Preempted") == [
        "a", "b", "c",
    ]  # fmt: skip
    assert sum(name == "high" for name, _, _ in told(world)) == 3


def test_who_needs_no_victim_is_told_of_none() -> None:
    world = ordered_world(quota=2)
    add(world, "low", 1)
    add(world, "high", 9)
    assert told(world) == []


def test_a_preempted_job_is_told_in_plain_words_for_whom_it_stops_and_that_it_comes_back() -> None:
    world = ordered_world(quota=2)
    world.store.create(
        resources.WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 9}
    )
    test_jobs.started(world, queued_job("low"))
    world.add(queued_job("high", labels={names.PRIORITY_CLASS_LABEL: "urgent"}))
    world.settle()
    note = (
        "Stopped: its GPUs are needed by ml/high (priority 9). It starts again by itself when"
        " it gets quota. Who holds quota: kubectl gpu who -n ml"
    )
    assert stops(world) == [("low", note)]


def test_a_preempted_pod_without_an_owner_is_told_that_it_does_not_come_back() -> None:
    world = ordered_world(quota=2)
    world.store.create(
        resources.WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 9}
    )
    world.add_pod("low", gpus=2)
    world.settle()
    world.set_phase("low", "Running")
    world.settle()
    world.add(queued_job("high", labels={names.PRIORITY_CLASS_LABEL: "urgent"}))
    world.settle()
    note = (
        "Stopped: its GPUs are needed by ml/high (priority 9). It does not come back by itself:"
        " create it again. Who holds quota: kubectl gpu who -n ml"
    )
    assert stops(world) == [("low", note)]


def stops(world: World) -> list[tuple[str, str]]:
    return [(name, note) for name, reason, note in world.events.recorded if reason == "Stopped"]


@pytest.mark.parametrize("may_list_all", [True, False])
def test_a_preempted_owner_is_told_for_whom_as_far_as_its_user_may_read(
    may_list_all: bool,
) -> None:
    world = ordered_world(quota=2)
    name = "urgent"
    world.store.create(
        resources.WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 9}
    )
    test_jobs.started(world, queued_job("low"))
    world.add(queued_job("high", labels={names.PRIORITY_CLASS_LABEL: name}))
    world.settle()
    api = world.store if may_list_all else OfTeam(world.store, "ml")
    answer = why.explain(api, "ml", "job/low")
    assert answer.notes == ("It was preempted for job/high in namespace ml",)
    assert not answer.missing

    test_jobs.report(world, "low", active=0)
    world.settle()
    assert "It was preempted for job/high in namespace ml" in (
        why.explain(world.store, "ml", "job/low").notes
    )
    world.store.delete(resources.JOBS, "high", "ml")
    world.settle()
    world.pass_time(2)
    assert test_jobs.is_running(world, "low")
    assert not why.explain(world.store, "ml", "job/low").notes
