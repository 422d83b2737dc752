"""A leader is killed: what is recorded of GPU-time agrees with the times of the pods."""

import json
from contextlib import suppress
from typing import Any

import pytest

from admission.base import clock, names
from admission.base.clock import SystemClock
from admission.config.derived import Settings
from tests.chaos.system import ControllerProcess, System
from tests.chaos.test_two_controllers import LEASE, holder
from tests.controlplane import waiting
from tests.controlplane.rest import RestError
from tests.integration.installed import run_command

pytestmark = pytest.mark.controlplane

SETTINGS = Settings.model_validate(
    {
        "gpu": {
            "controller": {"requestTimeout": "1s", "statusInterval": "100ms"},
            "journal": {"interval": "1s"},
        },
        "kueue": {
            "leaderElection": {
                "leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "400ms",
            }
        },
    }
)  # fmt: skip
CONFIG_MAPS = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps"
ROUNDING = 1
"""Seconds by which times differ that are cut to whole ones."""


def now() -> float:
    return SystemClock().now().timestamp()


def usage(system: System, *more: str) -> dict[str, Any]:
    """What the command answers about the last hour."""
    done = run_command(
        "usage", "--since", "1h", "--kubeconfig", system.kubeconfig, "-o", "json", *more
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def recorded(system: System, team: str) -> dict[str, int]:
    """GPU-seconds of a team by user."""
    rows = usage(system, "--by", "user", "-n", team)["usage"]
    assert {row["resource"] for row in rows} <= {names.GPU_RESOURCE}
    return {row["user"]: int(row["seconds"]) for row in rows}


def reserved_at(system: System, team: str) -> float:
    """Since when the only Workload of a team holds its quota, as it says itself."""
    (workload,) = system.workloads(team)
    (found,) = [one for one in workload["status"]["conditions"] if one["type"] == "QuotaReserved"]
    return clock.from_wire(found["lastTransitionTime"]).timestamp()


def until_recorded(system: System, moment: float) -> dict[str, Any]:
    """Wait until everything up to a moment is recorded; the answer of the command."""

    def look() -> bool:
        page = system.api.get(f"{CONFIG_MAPS}?labelSelector={names.USAGE_LABEL}")
        untils = [json.loads(one["data"]["record.json"])["until"] for one in page["items"]]
        return any(clock.from_wire(one).timestamp() >= moment for one in untils)

    waiting.until(look, what="usage is recorded")
    return usage(system)


def leads(system: System, controller: ControllerProcess) -> None:
    waiting.until(lambda: holder(system) == controller.pid, what="it leads")


def test_gpu_time_survives_the_death_of_its_leader(
    system: System, lasting: ControllerProcess
) -> None:
    lasting.kill()
    with suppress(RestError):
        system.api.delete(LEASE)
    with (
        system.controller("counting", SETTINGS, election=True) as leader,
        system.controller("standing-by", SETTINGS, election=True) as standby,
    ):
        leader.start()
        leads(system, leader)
        standby.start()
        until_recorded(system, now())
        team = system.add_team(4)
        system.create_pod(team, "train", gpus=3)
        system.until_released(team, "train")
        began = reserved_at(system, team)
        until_recorded(system, began + 2)

        leader.kill()
        leads(system, standby)
        before_end = now()
        system.finish_pod(team, "train")
        waiting.until(lambda: is_finished(system, team), what="the quota is free")
        after_end = now()
        answer = until_recorded(system, after_end + 1)
        assert answer["holes"] == []
        found = sum(recorded(system, team).values())
        least, most = before_end - began - ROUNDING, after_end - began + ROUNDING
        assert 3 * least <= found <= 3 * most
        (run,) = [one for one in answer["runs"] if one["namespace"] == team]
        assert (run["kind"], run["name"], run["count"]) == ("Pod", "train", 1)
        assert least <= run["seconds"] == run["longestSeconds"] <= most

        # Nobody is left, and another pod runs on; then it is counted from where the record ends.
        system.create_pod(team, "serve", gpus=2)
        waiting.until(lambda: "serve" in system.released(team), what="the second is released")
        before = sum(recorded(system, team).values())
        second = now()
        until_recorded(system, second + 1)
        standby.kill()
        system.api.delete(LEASE)
        leader.start()
        leads(system, leader)
        answer = until_recorded(system, now() + 1)
        ((hole),) = answer["holes"]
        assert clock.from_wire(hole["from"]) < clock.from_wire(hole["until"])
        until = clock.from_wire(answer["until"]).timestamp()
        again = sum(recorded(system, team).values())
        assert again >= before + 2 * (until - second - ROUNDING) - 2
        assert again <= 3 * most + 2 * (now() - after_end + ROUNDING)
        system.empty(team)


def is_finished(system: System, team: str) -> bool:
    found = system.workloads(team)
    return not found or any(
        one["type"] == "Finished" for one in found[0]["status"].get("conditions", [])
    )
