"""Jobs without a queue that a Job controls run while that Job's Workload is admitted."""

from typing import Any

import pytest

from admission.base import names, patches
from admission.controller.writing.api_requests import (
    ApiRequest,
    RequestResult,
    Result,
    WritePurpose,
)
from admission.kube import errors, resources
from admission.kube.api import Document
from admission.objects import batch
from tests.builders.jobs import queued_job
from tests.controller.world import World, ready_world

OF_CHILDREN = (
    WritePurpose.FIND_PARENT,
    WritePurpose.HOLD_CHILD,
    WritePurpose.START_CHILD,
    WritePurpose.LET_CHILD_GO,
)


def add_parent(world: World, name: str = "parent", pods: int = 2, **changes: Any) -> Document:
    world.add(queued_job(name, pods, **changes))
    world.settle()
    return world.store.get(resources.JOBS, name, "ml")


def child_of(
    owner: Document | None,
    name: str = "child",
    *,
    label: str = "true",
    suspend: bool = True,
    uid: str = "",
) -> Document:
    """A Job as its review leaves it."""
    document = queued_job(name, gpus=0, suspend=suspend)
    document["metadata"]["labels"] = {names.HELD_WITH_PARENT: label}
    if owner is not None:
        metadata = owner["metadata"]
        document["metadata"]["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"],
             "uid": uid or metadata["uid"], "controller": True}
        ]  # fmt: skip
    return document


def stored(world: World, name: str = "child") -> batch.JobDocument:
    return world.store.get(resources.JOBS, name, "ml", into=batch.JobDocument)


def is_suspended(world: World, name: str = "child") -> bool:
    return bool(stored(world, name).spec["suspend"])


def label(world: World, name: str = "child") -> str:
    return stored(world, name).metadata.label(names.HELD_WITH_PARENT)


def operations(world: World) -> list[WritePurpose]:
    return [write.operation for write in world.sent if write.operation in OF_CHILDREN]


def workload_names(world: World) -> set[str]:
    return set(world.workloads())


def test_a_child_runs_once_its_parent_is_admitted_and_has_no_workload_of_its_own() -> None:
    world = ready_world(quota=1)
    parent = add_parent(world, pods=2)
    world.add(child_of(parent))
    world.settle()
    assert is_suspended(world)
    assert operations(world) == []

    change = patches.merge({"spec": {"parallelism": 1, "completions": 1}})
    world.store.patch(resources.JOBS, "parent", change, "ml")
    world.settle()
    assert not is_suspended(world, "parent")
    assert (is_suspended(world), label(world)) == (False, "false")
    assert workload_names(world) == {"parent"}
    assert ("child", "Started", "Admitted by clusterQueue gpus") in world.events.recorded


def test_a_child_that_runs_without_its_parents_admission_is_suspended() -> None:
    world = ready_world(quota=1)
    parent = add_parent(world, pods=2)
    world.add(child_of(parent, label="false", suspend=False))
    world.settle()
    assert (is_suspended(world), label(world)) == (True, "true")
    told = [one for one in world.events.recorded if one[0] == "child"]
    assert told == [("child", "Suspended", "Kueue managed child job suspended")]


def test_a_child_is_held_again_when_its_parent_is_evicted_and_then_goes_on() -> None:
    world = ready_world(quota=2)
    parent = add_parent(world)
    world.add(child_of(parent))
    world.settle()
    assert not is_suspended(world)
    stop = patches.merge({"spec": {"stopPolicy": "HoldAndDrain"}})
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", stop)
    world.settle()
    assert is_suspended(world)
    go_on = patches.merge({"spec": {"stopPolicy": "None"}})
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", go_on)
    world.settle()
    assert not is_suspended(world)


def test_a_child_that_its_author_suspended_stays_suspended() -> None:
    world = ready_world(quota=2)
    world.add(child_of(add_parent(world), label="false"))
    world.settle()
    assert is_suspended(world)
    assert operations(world) == []


def test_a_child_of_a_child_waits_for_the_one_with_a_queue() -> None:
    world = ready_world(quota=1)
    parent = add_parent(world, pods=2)
    world.add(child_of(parent))
    world.add(child_of(world.store.get(resources.JOBS, "child", "ml"), "grandchild"))
    world.settle()
    assert is_suspended(world, "grandchild")
    change = patches.merge({"spec": {"parallelism": 1, "completions": 1}})
    world.store.patch(resources.JOBS, "parent", change, "ml")
    world.settle()
    assert not is_suspended(world, "grandchild")


@pytest.mark.parametrize("forged", [False, True])
def test_a_child_of_no_job_with_a_queue_is_let_go(forged: bool) -> None:
    world = ready_world(quota=0)
    document = queued_job("parent")
    if not forged:
        document["metadata"]["labels"] = {}
    world.add(document)
    parent = world.store.get(resources.JOBS, "parent", "ml")
    world.add(child_of(parent, uid=uid_of_another(world) if forged else ""))
    world.settle()
    assert (is_suspended(world), label(world)) == (False, "")
    assert operations(world) == [WritePurpose.FIND_PARENT, WritePurpose.LET_CHILD_GO]


def test_a_child_is_held_while_its_parent_may_not_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is known of the parent then; it may have a queue."""
    world = ready_world(quota=0)
    document = queued_job("parent")
    document["metadata"]["labels"] = {}
    world.add(document)
    world.add(child_of(world.store.get(resources.JOBS, "parent", "ml")))
    send = world._sender.send

    def refusing(write: ApiRequest) -> RequestResult:
        if write.operation is not WritePurpose.FIND_PARENT:
            return send(write)
        return RequestResult(request=write, result=Result.REFUSED, error=errors.make(403, "no"))

    monkeypatch.setattr(world._sender, "send", refusing)
    world.settle()
    world.pass_time(3)
    assert (is_suspended(world), label(world)) == (True, "true")
    assert set(operations(world)) == {WritePurpose.FIND_PARENT}
    monkeypatch.undo()
    world.pass_time(120)
    assert (is_suspended(world), label(world)) == (False, "")


def uid_of_another(world: World) -> str:
    """The uid of an object that is no parent of any Job; a wholly invented one is collected."""
    world.add_pod("another", queue="")
    return world.pod("another").metadata.uid


def test_a_label_without_an_owner_holds_nothing() -> None:
    world = ready_world()
    world.add(child_of(None))
    world.settle()
    assert (is_suspended(world), label(world)) == (False, "")
    assert operations(world) == [WritePurpose.LET_CHILD_GO]


def test_a_job_with_a_queue_is_counted_whatever_owner_it_names() -> None:
    world = ready_world(quota=2)
    parent = add_parent(world, pods=2)
    pairs = (("of-parent", parent["metadata"]["uid"]), ("of-nobody", uid_of_another(world)))
    for name, uid in pairs:
        document = queued_job(name, pods=2)
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": uid}
        document["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
        world.add(document)
    world.settle()
    assert workload_names(world) >= {"parent", "of-parent", "of-nobody"}
    assert is_suspended(world, "of-parent")
    assert is_suspended(world, "of-nobody")


def test_a_child_whose_label_was_away_is_looked_after_again() -> None:
    world = ready_world(quota=1)
    world.add(child_of(add_parent(world, pods=2)))
    world.settle()
    for changes in (
        {"metadata": {"labels": {names.HELD_WITH_PARENT: None}}},
        {"metadata": {"labels": {names.HELD_WITH_PARENT: "true"}}, "spec": {"suspend": False}},
    ):
        world.store.patch(resources.JOBS, "child", patches.merge(changes), "ml")
        world.settle()
    assert is_suspended(world)

    fewer = patches.merge({"spec": {"parallelism": 1, "completions": 1}})
    world.store.patch(resources.JOBS, "parent", fewer, "ml")
    world.settle()
    assert not is_suspended(world)


def test_two_jobs_that_control_each_other_are_let_go() -> None:
    world = ready_world()
    world.add(child_of(None, "a"))
    first = world.store.get(resources.JOBS, "a", "ml")
    world.add(child_of(first, "b"))
    second = world.store.get(resources.JOBS, "b", "ml")
    owner = child_of(second)["metadata"]["ownerReferences"]
    world.store.patch(
        resources.JOBS, "a", patches.merge({"metadata": {"ownerReferences": owner}}), "ml"
    )
    world.settle()
    assert not is_suspended(world, "a")
    assert not is_suspended(world, "b")


def test_a_restart_goes_on_with_the_children() -> None:
    world = ready_world(quota=1)
    parent = add_parent(world, pods=2)
    world.add(child_of(parent))
    world.settle()
    change = patches.merge({"spec": {"parallelism": 1, "completions": 1}})
    world.store.patch(resources.JOBS, "parent", change, "ml")
    later = world.restarted()
    later.settle()
    assert not is_suspended(later)
