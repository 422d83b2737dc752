"""A leader is killed: what is recorded of GPU-time agrees with the times of the pods."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from admission.base import names
from admission.base.clock import from_wire
from admission.config.derived import Settings
from tests.chaos.system import ControllerProcess, System
from tests.chaos.test_two_controllers import (
    ELECTION,
    LEASE,
    RETRY_SECONDS,
    await_renewal,
    holder,
)
from tests.controlplane import forked, waiting
from tests.controlplane.moved_clock import MovedClock
from tests.controlplane.rest import RestError

pytestmark = pytest.mark.controlplane

SETTINGS = Settings.model_validate(
    {
        "gpu": {
            "controller": {"requestTimeout": "1s", "statusInterval": "100ms"},
            "journal": {"interval": "10s"},
        },
        "kueue": {"leaderElection": ELECTION},
    }
)
CONFIG_MAPS = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps"
ROUNDING = 1
"""Seconds by which times differ that are cut to whole ones."""


@pytest.fixture
def clock(tmp_path: Path) -> MovedClock:
    """What the controllers and the command go by."""
    return MovedClock(tmp_path / "clock")


def usage(system: System, clock: MovedClock, *more: str) -> dict[str, Any]:
    """What the command answers about the last hour."""
    command = ("usage", "--since", "1h", "--kubeconfig", system.kubeconfig, "-o", "json", *more)
    done = forked.run([*forked.PROGRAM, *command], clock=clock.path)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def recorded(system: System, clock: MovedClock, team: str) -> dict[str, int]:
    """GPU-seconds of a team by user."""
    rows = usage(system, clock, "--by", "user", "-n", team)["usage"]
    assert {row["resource"] for row in rows} <= {names.GPU_RESOURCE}
    return {row["user"]: int(row["seconds"]) for row in rows}


def reserved_at(system: System, team: str) -> float:
    """Since when the only Workload of a team holds its quota, as it says itself."""
    (workload,) = system.workloads(team)
    (found,) = [one for one in workload["status"]["conditions"] if one["type"] == "QuotaReserved"]
    return from_wire(found["lastTransitionTime"]).timestamp()


def until_recorded(system: System, clock: MovedClock, moment: float) -> dict[str, Any]:
    """Lets time pass until everything up to a moment is recorded; the answer of the command."""

    def look() -> bool:
        page = system.api.get(f"{CONFIG_MAPS}?labelSelector={names.USAGE_LABEL}")
        untils = [json.loads(one["data"]["record.json"])["until"] for one in page["items"]]
        return any(from_wire(one).timestamp() >= moment for one in untils)

    def is_recorded() -> bool:
        if not (is_there := look()):
            await_renewal(system, clock)
        return is_there

    waiting.until(is_recorded, what="usage is recorded")
    return usage(system, clock)


def leads(system: System, controller: ControllerProcess) -> None:
    waiting.until(lambda: holder(system) == controller.pid, what="it leads")


def leads_in_the_end(system: System, clock: MovedClock, controller: ControllerProcess) -> None:
    """Lets time pass until the Lease of another one has ended."""
    clock.until(
        lambda: holder(system) == controller.pid, step_seconds=RETRY_SECONDS, what="it leads"
    )


def test_gpu_time_survives_the_death_of_its_leader(
    system: System, lasting: ControllerProcess, clock: MovedClock
) -> None:
    def now() -> float:
        return clock.now().timestamp()

    lasting.kill()
    with suppress(RestError):
        system.api.delete(LEASE)
    with (
        system.controller("counting", SETTINGS, election=True, clock=clock) as leader,
        system.controller("standing-by", SETTINGS, election=True, clock=clock) as standby,
    ):
        leader.start()
        leads(system, leader)
        standby.start()
        until_recorded(system, clock, now())
        team = system.add_team(4)
        system.create_pod(team, "train", gpus=3)
        system.until_released(team, "train")
        began = reserved_at(system, team)
        until_recorded(system, clock, began + 2)

        leader.kill()
        leads_in_the_end(system, clock, standby)
        before_end = now()
        system.finish_pod(team, "train")
        waiting.until(lambda: is_finished(system, team), what="the quota is free")
        after_end = now()
        answer = until_recorded(system, clock, after_end + 1)
        assert answer["holes"] == []
        found = sum(recorded(system, clock, team).values())
        least, most = before_end - began - ROUNDING, after_end - began + ROUNDING
        assert 3 * least <= found <= 3 * most
        (run,) = [one for one in answer["runs"] if one["namespace"] == team]
        assert (run["kind"], run["name"], run["count"]) == ("Pod", "train", 1)
        assert least <= run["seconds"] == run["longestSeconds"] <= most

        # Nobody is left, and another pod runs on; then it is counted from where the record ends.
        system.create_pod(team, "serve", gpus=2)
        waiting.until(lambda: "serve" in system.released(team), what="the second is released")
        before = sum(recorded(system, clock, team).values())
        second = now()
        until_recorded(system, clock, second + 1)
        standby.kill()
        system.api.delete(LEASE)
        leader.start()
        leads(system, leader)
        answer = until_recorded(system, clock, now() + 1)
        ((hole),) = answer["holes"]
        assert from_wire(hole["from"]) < from_wire(hole["until"])
        until = from_wire(answer["until"]).timestamp()
        again = sum(recorded(system, clock, team).values())
        assert again >= before + 2 * (until - second - ROUNDING) - 2
        assert again <= 3 * most + 2 * (now() - after_end + ROUNDING)
        system.empty(team)


def is_finished(system: System, team: str) -> bool:
    found = system.workloads(team)
    return not found or any(
        one["type"] == "Finished" for one in found[0]["status"].get("conditions", [])
    )
