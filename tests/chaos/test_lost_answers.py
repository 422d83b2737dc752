"""Every write of the controller meets a bad connection; the same process gets over it."""

from dataclasses import replace

import pytest

from tests.chaos import faults, flow, invariants
from tests.chaos.faults import Fault
from tests.chaos.flow import Stage, Step
from tests.chaos.system import HIGH, LOW
from tests.controlplane import waiting

pytestmark = pytest.mark.controlplane

KINDS = {
    name: flow.STEPS[name]
    for name in ("create-workload", "reserve", "release", "evict", "stop-pod", "delete-workload")
}
"""One step of each kind of write: create, status, patch, delete."""
_LATE_SECONDS = 5.0
"""Longer than a request of these controllers lasts."""
LATE = {name: flow.STEPS[name] for name in ("create-workload", "reserve", "release")}


@pytest.mark.parametrize("step", flow.cases())
def test_a_write_whose_answer_is_lost_counts_once(stage: Stage, step: Step) -> None:
    meet(stage, step, faults.lose_answer)


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(
    "fault", [faults.lose_request, faults.claim_failure], ids=["request lost", "done but 500"]
)
@pytest.mark.parametrize("step", KINDS.values(), ids=KINDS)
def test_a_write_of_unknown_outcome_ends_as_if_nothing_had_happened(
    stage: Stage, step: Step, fault: Fault
) -> None:
    meet(stage, step, fault)


def meet(stage: Stage, step: Step, fault: Fault) -> None:
    """Lets a fault meet a step; the scenario ends as ever, in the same process."""
    step.scenario.prepare(stage)
    rule = stage.inject(fault, step)
    step.scenario.act(stage)
    rule.wait()

    step.scenario.await_end(stage)
    assert stage.controller.is_running


@pytest.mark.parametrize("step", LATE.values(), ids=LATE)
def test_a_write_that_arrives_after_its_repetition_changes_nothing(
    stage: Stage, step: Step
) -> None:
    step.scenario.prepare(stage)
    held = stage.hold(step, after=False)
    step.scenario.act(stage)
    step.scenario.await_end(stage)
    assert held.reached.is_set()
    held.free(arrives=True)

    step.scenario.await_end(stage)


@pytest.mark.parametrize("step", LATE.values(), ids=LATE)
def test_many_lost_answers_in_a_row_lose_nothing(stage: Stage, step: Step) -> None:
    step.scenario.prepare(stage)
    rule = stage.inject(faults.lose_answer, step, times=6)
    step.scenario.act(stage)
    rule.wait()

    step.scenario.await_end(stage)


def test_quota_of_unknown_fate_is_not_given_to_anybody_else(stage: Stage) -> None:
    team = stage.system.add_team(4)
    apart = replace(stage, team=team)
    for stream in stage.controller.proxy.streams("workloads"):
        stream.silence()
    rule = apart.inject(faults.lose_answer, flow.RESERVE, times=7)
    apart.create("first", 3, LOW)
    rule.wait()
    apart.create("second", 3, HIGH)

    def is_over() -> bool:
        assert not (broken := invariants.unsafe(invariants.read(stage.system.api))), broken
        return rule.hits == 7

    waiting.until(is_over, what="the last answer was lost")
    for stream in stage.controller.proxy.streams("workloads"):
        stream.expire()
    invariants.await_all(stage.system.api)
    assert stage.system.released(team) == {"first"}
    stage.system.empty(team)


def test_a_server_that_answers_after_every_time_out_is_soon_asked_once_for_each_step(
    stage: Stage,
) -> None:
    """The first requests tell how long it takes; those that follow have that time."""
    proxy = stage.controller.proxy
    written = f"/{stage.team}/(workloads|pods)"
    fault = faults.late(_LATE_SECONDS)
    proxy.inject(fault, method="POST|PUT|PATCH", path=written, times=None)
    seen = len(proxy.writes)
    names_of_pods = ("first", "second")
    for name in names_of_pods:
        stage.create(name, 1)
    path = f"/api/v1/namespaces/{stage.team}/pods"

    def are_released() -> bool:
        found = (stage.system.api.get(f"{path}/{name}") for name in names_of_pods)
        return not any(pod["spec"].get("schedulingGates") for pod in found)

    waiting.until(are_released, what="pods released")
    releases = [
        one
        for one in proxy.writes[seen:]
        if one.method == "PATCH" and one.path.startswith(path) and "schedulingGates" in one.body
    ]
    assert len(releases) == len(names_of_pods)
