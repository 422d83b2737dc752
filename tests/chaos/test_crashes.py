"""The controller is killed at each step of the flow; the next one brings everything to its end."""

import pytest

from tests.chaos import flow, invariants
from tests.chaos.flow import Stage, Step
from tests.chaos.system import HIGH, LOW

pytestmark = pytest.mark.controlplane


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", flow.cases())
def test_killed_at_a_step_the_end_is_the_same(stage: Stage, step: Step, after: bool) -> None:
    step.scenario.prepare(stage)
    held = stage.hold(step, after=after)
    step.scenario.act(stage)
    held.wait()
    stage.controller.kill()
    stage.controller.start()

    step.scenario.await_end(stage)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_pods_that_came_while_nobody_looked_share_what_is_left(stage: Stage, after: bool) -> None:
    held = stage.hold(flow.RESERVE, after=after)
    stage.create("first", 2)
    held.wait()
    stage.controller.kill()
    for name in ("second", "third"):
        stage.create(name, 2)
    stage.controller.start()

    world = invariants.await_all(stage.system.api)
    assert sum(invariants.usage_by_queue(world)[stage.team].values()) == 4
    assert len(stage.system.released(stage.team)) == 2
    for name in ("first", "second", "third"):
        stage.system.delete_pod(stage.team, name)
    world = invariants.await_all(stage.system.api)
    assert not invariants.usage_by_queue(world)[stage.team]


def test_a_pod_that_vanished_while_nobody_looked_gives_its_quota_back(stage: Stage) -> None:
    stage.create("first", 4)
    stage.system.wait_released(stage.team, "first")
    stage.controller.kill()
    stage.system.delete_pod(stage.team, "first")
    stage.create("second", 4)
    stage.controller.start()

    stage.system.until_released(stage.team, "second")
    invariants.await_all(stage.system.api)


def test_what_vanished_whole_while_nobody_looked_is_not_counted_any_more(stage: Stage) -> None:
    stage.create("first", 4)
    stage.system.wait_released(stage.team, "first")
    invariants.await_all(stage.system.api)
    stage.controller.kill()
    stage.system.delete_pod(stage.team, "first")
    stage.system.api.delete(stage.workload("first"))
    stage.controller.start()

    invariants.await_all(stage.system.api)


def test_a_crash_does_not_change_who_is_next(stage: Stage) -> None:
    stage.create("holder", 4, HIGH)
    stage.system.wait_released(stage.team, "holder")
    for name, labels in (("late", LOW), ("next", HIGH)):
        stage.create(name, 4, labels)
        stage.system.wait_condition(stage.team, name)
    stage.controller.kill()
    stage.controller.start()
    stage.system.delete_pod(stage.team, "holder")

    stage.system.until_released(stage.team, "next")
    invariants.await_all(stage.system.api)
