"""Two-phase admission on a real API server; the test is the external check controller."""

from datetime import datetime

import pytest

from admission.base import names
from tests.controlplane import waiting
from tests.integration import applied
from tests.integration.applied import Check, Workloads
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def system(installation: Installed) -> Installed:
    return installation


def strategy(*checks: str | tuple[str, str]) -> dict[str, object]:
    """Checks of a ClusterQueue; a pair is a check and the one flavor that it is for."""
    rules = [
        {"name": one} if isinstance(one, str) else {"name": one[0], "onFlavors": [one[1]]}
        for one in checks
    ]
    return {"admissionChecksStrategy": {"admissionChecks": rules}}


class Team:
    """A namespace with a queue that asks for one check."""

    def __init__(self, system: Installed, quota: int = 4, checks: int = 1) -> None:
        prefix = system.cluster.create_namespace("check")
        self.checks = [Check(system, f"{prefix}-{letter}") for letter in "ab"[:checks]]
        self.check = self.checks[0]
        self.system = system
        self.name = system.add_team(quota, **strategy(*(one.name for one in self.checks)))
        self.workloads = Workloads(system, self.name)

    def reserve(self, name: str = "train") -> None:
        """A Workload that has quota and waits for its checks, which are listed."""
        self.workloads.create(name)
        self.workloads.wait(name, "Admitted", "False", "UnsatisfiedAdmissionChecks")
        names = {one.name for one in self.checks}
        waiting.until(
            lambda: set(self.workloads.checks(name)) == names,
            what=f"checks of {self.name}/{name} listed",
        )

    def answer(self, state: str, message: str = "", **more: object) -> None:
        self.check.answer(self.workloads, "train", state, message, **more)


def test_quota_is_reserved_and_the_check_is_listed_as_pending(system: Installed) -> None:
    team = Team(system)
    team.reserve()
    found = team.workloads.checks("train")
    assert {name: one["state"] for name, one in found.items()} == {team.check.name: "Pending"}
    assert team.workloads.said("train", "QuotaReserved") == ("True", "QuotaReserved")
    message = team.workloads.condition("train", "Admitted")["message"]
    assert message == "The workload has not all checks ready"
    applied.wait_reserved(system, team.name, 1)
    status = system.api.get(f"{KUEUE}/clusterqueues/{team.name}")["status"]
    assert (status["reservingWorkloads"], status["admittedWorkloads"]) == (1, 0)


def test_the_last_ready_check_admits(system: Installed) -> None:
    team = Team(system, checks=2)
    team.reserve()
    first, second = team.checks
    first.answer(team.workloads, "train", "Ready")
    waiting.until(
        lambda: team.workloads.checks("train")[first.name]["state"] == "Ready", what="first ready"
    )
    assert team.workloads.said("train", "Admitted")[0] == "False"
    second.answer(team.workloads, "train", "Ready")
    team.workloads.wait("train", "Admitted", "True", "Admitted")


def test_updates_of_a_ready_check_reach_the_pod(system: Installed) -> None:
    team = Team(system)
    pod = system.create_pod(team.name, "train")
    (name,) = waiting.until(
        lambda: [one["metadata"]["name"] for one in system.api.get(team.workloads.path)["items"]],
        what="a Workload",
    )
    team.workloads.wait(name, "Admitted", "False", "UnsatisfiedAdmissionChecks")
    assert system.is_gated(team.name, "train")
    update = {
        "name": "main",
        "labels": {"node-pool": "a"},
        "annotations": {"example.com/request": "r-1"},
        "nodeSelector": {"pool": "spot"},
        "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
    }
    team.check.answer(team.workloads, name, "Ready", podSetUpdates=[update])
    released = system.wait_released(team.name, "train")

    assert released["metadata"]["uid"] == pod["metadata"]["uid"]
    assert released["metadata"]["labels"]["node-pool"] == "a"
    assert released["metadata"]["annotations"]["example.com/request"] == "r-1"
    assert released["spec"]["nodeSelector"] == {
        "pool": "spot",
        "nvidia.com/gpu.product": "A100",
    }
    keys = [one["key"] for one in released["spec"]["tolerations"]]
    assert (keys.count("spot"), keys.count("nvidia.com/gpu")) == (1, 1)


@pytest.mark.parametrize(
    ("field", "text"),
    [("nodeSelector", "nodeSelector"), ("labels", "labels"), ("annotations", "annotations")],
)
def test_updates_that_contradict_each_other_give_the_quota_back_and_are_told(
    system: Installed, field: str, text: str
) -> None:
    team = Team(system, checks=2)
    system.create_pod(team.name, "train")
    (name,) = waiting.until(
        lambda: [one["metadata"]["name"] for one in system.api.get(team.workloads.path)["items"]],
        what="a Workload",
    )
    team.workloads.wait(name, "Admitted", "False", "UnsatisfiedAdmissionChecks")
    for check, value in zip(team.checks, ("one", "two"), strict=True):
        update = {"name": "main", field: {"example.com/key": value}}
        check.answer(team.workloads, name, "Ready", podSetUpdates=[update])

    found = team.workloads.wait(name, "Evicted", "True", "FailedToStart")
    conflict = (
        f'in admission check "{team.checks[1].name}": invalid admission check PodSetUpdate: '
        f"conflict for {text}: conflict for key=example.com/key, value1=one, value2=two"
    )
    assert found["message"].startswith(f"Could not start: {conflict}. Its quota is free; ")
    system.wait_condition(team.name, "train", text="example.com/key")
    assert system.is_gated(team.name, "train")
    applied.wait_reserved(system, team.name, 0)


def test_an_update_that_contradicts_the_flavor_gives_the_quota_back(system: Installed) -> None:
    team = Team(system)
    system.create_pod(team.name, "train")
    (name,) = waiting.until(
        lambda: [one["metadata"]["name"] for one in system.api.get(team.workloads.path)["items"]],
        what="a Workload",
    )
    team.workloads.wait(name, "Admitted", "False", "UnsatisfiedAdmissionChecks")
    update = {"name": "main", "nodeSelector": {"nvidia.com/gpu.product": "H100"}}
    team.check.answer(team.workloads, name, "Ready", podSetUpdates=[update])
    found = team.workloads.wait(name, "Evicted", "True", "FailedToStart")
    assert f'in admission check "{team.check.name}": ' in found["message"]
    assert "value1=A100, value2=H100" in found["message"]


def test_a_retry_evicts_and_the_check_starts_anew(system: Installed) -> None:
    team = Team(system)
    team.reserve()
    team.answer("Retry", "no budget")
    found = team.workloads.wait("train", "Evicted", "True", "AdmissionCheck")
    assert found["message"] == (
        f'Evicted due to AdmissionCheck in Retry state: "{team.check.name}" (no budget)'
    )
    check = team.workloads.checks("train")[team.check.name]
    assert check["state"] == "Pending"
    assert check["message"] == "Reset to Pending after eviction. Previously: Retry"
    assert check["retryCount"] == 1
    stats = team.workloads.get("train")["status"]["schedulingStats"]["evictions"]
    assert stats == [{"reason": "AdmissionCheck", "underlyingCause": "", "count": 1}]
    assert "requeueState" not in team.workloads.get("train")["status"]

    team.workloads.clear("train")
    team.workloads.wait("train", "Requeued", "True", "BackoffFinished")
    team.workloads.wait("train", "QuotaReserved", "True")
    team.workloads.wait("train", "Evicted", "False", "QuotaReserved")
    team.answer("Retry", "still none")
    again = waiting.until(
        lambda: (
            one
            if (one := team.workloads.checks("train")[team.check.name]).get("retryCount") == 2
            else None
        ),
        what="a second retry",
    )
    assert again["state"] == "Pending"


def test_a_retry_with_a_time_keeps_the_workload_back_until_then(system: Installed) -> None:
    team = Team(system)
    team.reserve()
    team.answer("Retry", "later", requeueAfterSeconds=3)
    team.workloads.wait("train", "Evicted", "True", "AdmissionCheck")
    requeue = team.workloads.get("train")["status"]["requeueState"]["requeueAt"]
    team.workloads.clear("train")
    found = team.workloads.wait("train", "Requeued", "True", "BackoffFinished")
    assert datetime.fromisoformat(found["lastTransitionTime"]) >= datetime.fromisoformat(requeue)
    assert "requeueAt" not in team.workloads.get("train")["status"].get("requeueState", {})
    team.workloads.wait("train", "QuotaReserved", "True")


def test_the_latest_of_several_retries_counts(system: Installed) -> None:
    team = Team(system, checks=2)
    team.reserve()
    first, second = (one.name for one in team.checks)
    team.workloads.apply(
        "train",
        "example.com/checker",
        admissionChecks=[
            applied.check(first, "Retry", "a", requeueAfterSeconds=600),
            applied.check(second, "Retry", requeueAfterSeconds=60),
        ],
    )
    found = team.workloads.wait("train", "Evicted", "True", "AdmissionCheck")
    assert found["message"] == (
        f'Evicted due to AdmissionChecks in Retry state: "{first}" (a); "{second}"'
    )
    at = datetime.fromisoformat(team.workloads.get("train")["status"]["requeueState"]["requeueAt"])
    evicted = datetime.fromisoformat(found["lastTransitionTime"])
    assert 590 < (at - evicted).total_seconds() <= 600


def test_a_retry_of_an_admitted_workload_evicts_it_too(system: Installed) -> None:
    team = Team(system)
    team.reserve()
    team.answer("Ready")
    team.workloads.wait("train", "Admitted", "True")
    team.answer("Retry", "lost")
    team.workloads.wait("train", "Evicted", "True", "AdmissionCheck")
    assert team.workloads.said("train", "QuotaReserved")[0] == "True"
    team.workloads.clear("train")
    team.workloads.wait("train", "QuotaReserved", "True")
    assert team.workloads.said("train", "Admitted")[0] == "False"


def test_a_rejection_deactivates_for_good(system: Installed) -> None:
    team = Team(system)
    team.reserve()
    team.answer("Rejected", "never")
    found = team.workloads.wait("train", "Evicted", "True", "DeactivatedDueToAdmissionCheck")
    assert found["message"] == (
        "The workload is deactivated due to AdmissionCheck in Rejected state: "
        f'"{team.check.name}" (never)'
    )
    assert team.workloads.get("train")["spec"]["active"] is False
    assert not team.workloads.condition("train", "DeactivationTarget")
    applied.wait_reserved(system, team.name, 0)
    stats = team.workloads.get("train")["status"]["schedulingStats"]["evictions"]
    assert stats == [{"reason": "Deactivated", "underlyingCause": "AdmissionCheck", "count": 1}]


def test_a_rejection_counts_more_than_a_retry(system: Installed) -> None:
    team = Team(system, checks=2)
    team.reserve()
    first, second = (one.name for one in team.checks)
    team.workloads.apply(
        "train",
        "example.com/checker",
        admissionChecks=[applied.check(first, "Retry"), applied.check(second, "Rejected")],
    )
    team.workloads.wait("train", "Evicted", "True", "DeactivatedDueToAdmissionCheck")


def test_an_activated_workload_is_tried_again_after_a_rejection(system: Installed) -> None:
    team = Team(system)
    team.reserve()
    team.answer("Rejected")
    team.workloads.wait("train", "Evicted", "True", "DeactivatedDueToAdmissionCheck")
    team.workloads.clear("train")
    team.workloads.patch("train", {"active": True})
    team.workloads.wait("train", "Requeued", "True", "Reactivated")
    team.workloads.wait("train", "QuotaReserved", "True")


def test_a_check_for_one_flavor_is_asked_for_only_where_that_is_assigned(
    system: Installed,
) -> None:
    prefix = system.cluster.create_namespace("check")
    check = Check(system, prefix)
    team = system.cluster.create_namespace("team")
    first, second = f"{team}-first", f"{team}-second"
    for flavor in (first, second):
        system.add_flavor(flavor)
    system.add_cluster_queue(team, quota=1, flavors=(first, second), **strategy((prefix, second)))
    system.add_local_queue(team, team)
    system.wait_for_queue(team)
    workloads = Workloads(system, team)
    workloads.create("free")
    workloads.wait("free", "Admitted", "True")
    assert not workloads.checks("free")
    workloads.create("checked")
    workloads.wait("checked", "Admitted", "False", "UnsatisfiedAdmissionChecks")
    waiting.until(lambda: set(workloads.checks("checked")) == {prefix}, what="the check listed")
    check.answer(workloads, "checked", "Ready")
    workloads.wait("checked", "Admitted", "True")
    assert not workloads.checks("free")


def test_a_queue_without_its_check_is_inactive_and_the_check_repairs_it(
    system: Installed,
) -> None:
    prefix = system.cluster.create_namespace("check")
    team = system.cluster.create_namespace("team")
    system.add_flavor(team)
    system.add_cluster_queue(team, quota=1, flavors=(team,), **strategy(prefix))
    system.add_local_queue(team, team)
    assert applied.wait_inactive(system, team, "AdmissionCheckNotFound") == (
        f"Can't admit new workloads: references missing AdmissionCheck(s): {prefix}."
    )
    workloads = Workloads(system, team)
    workloads.create("train")
    found = workloads.wait("train", "QuotaReserved", "False", "Suspended")
    assert found["message"] == f"ClusterQueue {team} is inactive"

    check = Check(system, prefix, active=None)
    assert applied.wait_inactive(system, team, "AdmissionCheckInactive") == (
        f"Can't admit new workloads: references inactive AdmissionCheck(s): {prefix}."
    )
    check.set_active(active=True)
    workloads.wait("train", "QuotaReserved", "True")
    check.set_active(active=False)
    applied.wait_inactive(system, team, "AdmissionCheckInactive")
    system.api.delete(f"{check.path}/{prefix}")


def test_a_check_that_joins_later_is_listed_and_leaves_an_admitted_workload_alone(
    system: Installed,
) -> None:
    team = Team(system)
    team.reserve()
    team.answer("Ready")
    team.workloads.wait("train", "Admitted", "True")
    late = Check(system, f"{team.name}-late")
    queue = f"{KUEUE}/clusterqueues/{team.name}"
    system.api.patch(queue, {"spec": strategy(team.check.name, late.name)})
    waiting.until(
        lambda: team.workloads.checks("train").get(late.name, {}).get("state") == "Pending",
        what="the later check listed",
    )
    assert team.workloads.said("train", "Admitted") == ("True", "Admitted")

    system.api.patch(queue, {"spec": {"admissionChecksStrategy": None}})
    waiting.until(lambda: not team.workloads.checks("train"), what="no check listed")
    assert team.workloads.said("train", "Admitted") == ("True", "Admitted")


def test_a_retry_frees_the_quota_of_a_gated_pod_for_others(system: Installed) -> None:
    team = Team(system, quota=1)
    system.create_pod(team.name, "train")
    (name,) = waiting.until(
        lambda: [one["metadata"]["name"] for one in system.api.get(team.workloads.path)["items"]],
        what="a Workload",
    )
    team.workloads.wait(name, "QuotaReserved", "True")
    team.check.answer(team.workloads, name, "Retry", requeueAfterSeconds=600)
    team.workloads.wait(name, "Requeued", "False", "AdmissionCheck")
    assert team.workloads.said(name, "QuotaReserved") == ("False", "PendingEvaluation")
    assert "admission" not in team.workloads.get(name)["status"]
    assert names.MANAGED_LABEL in system.pod(team.name, "train")["metadata"]["labels"]
    team.workloads.create("other")
    team.workloads.wait("other", "QuotaReserved", "True")
