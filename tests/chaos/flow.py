"""The life of pods as scenarios, and each request in it that the controller makes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest
from _pytest.mark import ParameterSet

from tests.chaos import faults, invariants
from tests.chaos.faults import Fault, Hold
from tests.chaos.proxy import Rule
from tests.chaos.system import HIGH, LOW, ControllerProcess, System
from tests.integration.installed import KUEUE


@dataclass(frozen=True)
class Stage:
    """Where a scenario plays: four GPUs, high priority displaces low."""

    system: System
    controller: ControllerProcess
    team: str

    def create(self, name: str, gpus: int, labels: dict[str, str] | None = None) -> None:
        """Creates a pod."""
        self.system.create_pod(self.team, name, gpus=gpus, labels=labels or {})

    def inject(self, fault: Fault, step: "Step", *, times: int | None = 1) -> Rule:
        """Applies a fault to the requests of a step."""
        return self.controller.proxy.inject(
            fault,
            method=step.method,
            path=step.path.format(team=self.team),
            body=step.body,
            times=times,
        )

    def hold(self, step: "Step", *, after: bool, times: int | None = 1) -> Hold:
        """Stops the next requests of a step."""
        fault = Hold(after=after)
        self.inject(fault, step, times=times)
        return fault

    def workload(self, pod: str) -> str:
        """Path of a pod's Workload."""
        name = next(
            one["metadata"]["name"]
            for one in self.system.workloads(self.team)
            if one["metadata"]["name"].startswith(f"pod-{pod}-")
        )
        return f"{KUEUE}/namespaces/{self.team}/workloads/{name}"


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A piece of a life.

    Attributes:
        prepare: makes what must be there before.
        act: starts it.
        released: pods without a gate at its end.
        gpus: GPUs in use at its end.
    """

    prepare: Callable[[Stage], None] = lambda _: None
    act: Callable[[Stage], None]
    released: tuple[str, ...]
    gpus: int

    def await_end(self, stage: Stage) -> None:
        """Returns once everything is as it must be at the end."""
        stage.system.until_released(stage.team, *self.released)
        world = invariants.await_all(stage.system.api)
        used = invariants.usage_by_queue(world)[stage.team]
        assert sum(used.values()) == self.gpus
        assert stage.system.released(stage.team) == set(self.released)


@dataclass(frozen=True)
class Step:
    """A request of the controller, by regular expressions of method, path and body."""

    scenario: Scenario
    method: str
    path: str
    body: str = ""


def _one_runs(stage: Stage) -> None:
    stage.create("first", 3)
    stage.system.until_released(stage.team, "first")


def _one_runs_one_waits(stage: Stage) -> None:
    _one_runs(stage)
    stage.create("second", 3)
    stage.system.wait_condition(stage.team, "second")


def _low_and_bystander_run(stage: Stage) -> None:
    stage.create("low", 3, LOW)
    stage.create("bystander", 1, HIGH)
    stage.system.until_released(stage.team, "low", "bystander")


def _evicted_before_it_started(stage: Stage) -> None:
    """Leaves a gated pod whose Workload has quota and must give it back; no controller runs."""
    held = stage.inject(faults.lose_request, RELEASE, times=None)
    stage.create("first", 3)
    held.wait()
    stage.controller.kill()
    path = stage.workload("first")
    conditions = stage.system.api.get(path)["status"]["conditions"]
    evicted = {
        "type": "Evicted",
        "status": "True",
        "reason": "Preempted",
        "message": "made up",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    change = {"status": {"conditions": [*conditions, evicted]}}
    stage.system.api.patch(f"{path}/status", change)


ARRIVAL = Scenario(act=lambda s: s.create("first", 3), released=("first",), gpus=3)
WAITING = Scenario(
    prepare=_one_runs, act=lambda s: s.create("second", 3), released=("first",), gpus=3
)
EVICTION = Scenario(
    prepare=_low_and_bystander_run,
    act=lambda s: s.create("high", 2, HIGH),
    released=("high", "bystander"),
    gpus=3,
)
SUCCESS = Scenario(
    prepare=_one_runs_one_waits,
    act=lambda s: s.system.finish_pod(s.team, "first"),
    released=("first", "second"),
    gpus=3,
)
DELETION = Scenario(
    prepare=_one_runs_one_waits,
    act=lambda s: s.system.delete_pod(s.team, "first"),
    released=("second",),
    gpus=3,
)
EARLY_EVICTION = Scenario(
    prepare=_evicted_before_it_started,
    act=lambda s: s.controller.start(),
    released=("first",),
    gpus=3,
)

_STATUS = r"/{team}/workloads/pod-%s-\w+/status"

CREATE_WORKLOAD = Step(ARRIVAL, "POST", "/{team}/workloads")
RESERVE = Step(ARRIVAL, "PUT", _STATUS % "first", '"QuotaReserved","status":"True"')
RELEASE = Step(ARRIVAL, "PATCH", r"/{team}/pods/first\?", '"schedulingGates"')
EVENT = Step(SUCCESS, "POST", "/{team}/events")
QUEUE_STATUS = Step(ARRIVAL, "PUT", "/clusterqueues/{team}/status")
EXPLAIN_WORKLOAD = Step(WAITING, "PUT", _STATUS % "second", '"QuotaReserved","status":"False"')
EXPLAIN_POD = Step(WAITING, "PATCH", "/{team}/pods/second/status")
EVICT = Step(EVICTION, "PATCH", _STATUS % "low", '"Evicted","status":"True"')
MARK_POD = Step(EVICTION, "PATCH", "/{team}/pods/low/status", '"TerminationTarget"')
STOP_POD = Step(EVICTION, "DELETE", "/{team}/pods/low")
CLEAR_EVICTED = Step(EVICTION, "PATCH", _STATUS % "low", '"Requeued","status":"False"')
DELETE_EVICTED = Step(EVICTION, "DELETE", "/{team}/workloads/pod-low-")
RESERVE_FREED = Step(EVICTION, "PUT", _STATUS % "high", '"QuotaReserved","status":"True"')
RELEASE_LATE = Step(EVICTION, "PATCH", r"/{team}/pods/high\?", '"schedulingGates"')
FINISH = Step(SUCCESS, "PATCH", _STATUS % "first", '"Finished","status":"True"')
ACKNOWLEDGE = Step(DELETION, "PATCH", "/{team}/pods/second/status", '"status":"True"')
DELETE_WORKLOAD = Step(DELETION, "DELETE", "/{team}/workloads/pod-first-")
CLEAR = Step(EARLY_EVICTION, "PATCH", _STATUS % "first", '"Requeued","status":"True"')

STEPS = {
    "create-workload": CREATE_WORKLOAD,
    "reserve": RESERVE,
    "release": RELEASE,
    "event": EVENT,
    "queue-status": QUEUE_STATUS,
    "explain-workload": EXPLAIN_WORKLOAD,
    "explain-pod": EXPLAIN_POD,
    "evict": EVICT,
    "mark-pod": MARK_POD,
    "stop-pod": STOP_POD,
    "clear-evicted": CLEAR_EVICTED,
    "delete-evicted": DELETE_EVICTED,
    "reserve-freed": RESERVE_FREED,
    "release-late": RELEASE_LATE,
    "finish": FINISH,
    "acknowledge": ACKNOWLEDGE,
    "delete-workload": DELETE_WORKLOAD,
    "clear-reservation": CLEAR,
}

_ALWAYS: Final = frozenset({"create-workload", "reserve", "release", "stop-pod"})
"""Steps of each kind of write (create, status, patch, delete) that every run has as cases."""


def cases() -> list[ParameterSet]:
    """All steps as cases of a test; `make test` runs a sample of those that are not `_ALWAYS`."""
    sampled = pytest.mark.sampled(one_in=4)
    return [
        pytest.param(step, id=name, marks=[] if name in _ALWAYS else [sampled])
        for name, step in STEPS.items()
    ]
