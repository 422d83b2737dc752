"""What is to be done about a Workload is a value, and deriving it changes nothing."""

from dataclasses import replace
from datetime import timedelta

import pytest

from admission.base import patches
from admission.base.names import WorkloadKey
from admission.controller.plans import Note, ReconcilePlan
from admission.controller.writing.api_requests import WritePurpose
from admission.kube import resources
from tests.builders.workloads import make_workload
from tests.controller.world import World, ready_world


def plan_of(world: World, key: WorkloadKey) -> ReconcilePlan:
    return world.parts.reconciling.reconciler.reconcile(key)


def key_of_pod(world: World) -> WorkloadKey:
    """Return the key of what is to be looked at first."""
    (key,) = world.parts.basis.queue._others
    assert isinstance(key, WorkloadKey)
    return key


def test_a_pod_is_planned_for_step_by_step() -> None:
    world = ready_world()
    world.add_pod("train")
    world.observe()
    key = key_of_pod(world)
    planned = []
    for _ in range(3):
        plan = plan_of(world, key)
        assert plan.request is not None
        planned.append(plan.request.operation)
        world.core.step()
        while world._queue[0].key != key:
            world.send_one()
        assert world._queue[0] == plan.request
        world.send_one()
        world.observe()
        world.parts.basis.queue.add_decided(world.parts.quota.scheduling.run())
    assert planned == [
        WritePurpose.CREATE_WORKLOAD,
        WritePurpose.RESERVE_QUOTA,
        WritePurpose.START_OWNER,
    ]


def test_the_same_objects_give_the_same_plan() -> None:
    world = ready_world()
    world.add_pod("train")
    world.observe()
    key = key_of_pod(world)
    assert plan_of(world, key) == plan_of(world, key)
    assert world._queue == type(world._queue)()


def test_nothing_is_planned_for_what_is_not_there() -> None:
    assert plan_of(ready_world(), WorkloadKey("ml", "nobody")) == ReconcilePlan()


def test_a_plan_says_when_time_alone_changes_it() -> None:
    world = ready_world()
    document = make_workload("train")
    document["spec"]["maximumExecutionTimeSeconds"] = 60
    world.add(document)
    world.settle()
    plan = plan_of(world, WorkloadKey("ml", "train"))
    assert plan == ReconcilePlan(again=world.clock.now() + timedelta(seconds=60))


def test_a_plan_carries_the_event_that_is_recorded_with_its_request() -> None:
    world = ready_world()
    world.add(make_workload("train"))
    world.settle()
    change = patches.merge({"spec": {"active": False}})
    world.store.patch(resources.WORKLOADS, "train", change, "ml")
    world.observe()
    plan = plan_of(world, WorkloadKey("ml", "train"))
    assert plan.request is not None
    assert plan.request.operation is WritePurpose.EVICT
    ((regarding, event),) = plan.events
    assert (regarding["name"], event.reason) == ("train", "EvictedDueToDeactivated")


@pytest.mark.parametrize("times", [1, 5])
def test_deriving_a_plan_changes_nothing(times: int) -> None:
    world = ready_world()
    world.add_pod("train")
    world.observe()
    key = key_of_pod(world)
    for _ in range(times):
        plan_of(world, key)
    world.settle()
    assert world.admitted() == {"train"}


def test_an_exception_while_a_plan_is_carried_out_concerns_no_other_workload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ready_world()
    world.add_pod("odd")
    world.observe()
    key = key_of_pod(world)
    derive = world.parts.reconciling.reconciler.reconcile

    def fail() -> None:
        raise KeyError("odd")

    def plan_with_odd_note(of_key: WorkloadKey) -> ReconcilePlan:
        plan = derive(of_key)
        return replace(plan, notes=(Note(fail, ()),)) if of_key == key else plan

    monkeypatch.setattr(world.parts.reconciling.reconciler, "reconcile", plan_with_odd_note)
    world.add_pod("train")
    world.settle()
    assert world.admitted() == {"train"}
    monkeypatch.undo()
    world.pass_time(120)
    assert world.admitted() == {"odd", "train"}
