"""Pods that are stopped on a real API server, and the Workloads that end with them, as Kueue's.

No scheduler and no kubelet run here: a finalizer keeps a deleted pod to look at.
"""

from typing import Any

import pytest

from admission.base import names
from tests.builders.jobs import make_job
from tests.controlplane import waiting
from tests.controlplane.rest import Json
from tests.integration import applied
from tests.integration.applied import Workloads, condition
from tests.integration.installed import Installed

pytestmark = pytest.mark.controlplane

LASTING = "example.com/kept"
PROVISIONING = "provreq.kueue.x-k8s.io/ValidUntilSeconds"


@pytest.fixture(scope="module")
def system(installation: Installed) -> Installed:
    installation.add_classes(low=1, high=9)
    return installation


class Team:
    """Pods of one team that stay after their deletion."""

    def __init__(self, system: Installed, quota: int = 4, **spec: Any) -> None:
        self.system, self.api = system, system.api
        self.name = system.add_team(quota, **spec)
        self.workloads = Workloads(system, self.name)

    def run(self, name: str, labels: dict[str, str] | None = None) -> None:
        """Creates a pod and returns once it is released."""
        self.create(name, 1, labels)
        self.system.wait_released(self.name, name)

    def create(self, name: str, gpus: int = 1, labels: dict[str, str] | None = None) -> None:
        metadata = {"finalizers": [LASTING], "labels": labels or {}}
        self.system.create_pod(self.name, name, gpus=gpus, metadata=metadata)

    def workload(self, pod: str) -> str:
        """Name of the Workload of a pod."""
        found = self.api.get(self.workloads.path)["items"]
        (name,) = [
            one["metadata"]["name"]
            for one in found
            if one["metadata"]["name"].startswith(f"pod-{pod}-")
        ]
        return str(name)

    def wait_target(self, pod: str) -> Json:
        """Returns the pod once it is being deleted."""

        def look() -> Json | None:
            found = self.system.pod(self.name, pod)
            return found if found["metadata"].get("deletionTimestamp") else None

        return waiting.until(look, what=f"pod {pod} is deleted")

    def let_go(self, pod: str) -> None:
        path = f"/api/v1/namespaces/{self.name}/pods/{pod}"
        self.api.patch(path, {"metadata": {"finalizers": None}})

    def events(self, reason: str, name: str) -> list[Json]:
        path = f"/apis/events.k8s.io/v1/namespaces/{self.name}/events"
        found = self.api.get(path)["items"]
        return [e for e in found if (e["reason"], e["regarding"]["name"]) == (reason, name)]


def target(pod: Json) -> tuple[str, str, str]:
    """What a pod says of its deletion."""
    (found,) = [c for c in pod["status"]["conditions"] if c["type"] == "TerminationTarget"]
    return found["status"], found["reason"], found["message"]


def test_an_evicted_pod_says_why_and_its_workload_gives_quota_back_before_it_ends(
    system: Installed,
) -> None:
    team = Team(system)
    team.run("train")
    workload = team.workload("train")
    team.workloads.say(workload, "evict", condition("Evicted", "True", "Preempted", "By test"))
    stopped = team.wait_target("train")
    assert target(stopped) == ("True", "WorkloadEvictedDueToPreempted", "By test")
    team.workloads.wait(workload, "Finished", "True", "OwnerNotFound")
    found = team.workloads.get(workload)
    assert "admission" not in found["status"]
    for kind, told in {
        "QuotaReserved": ("False", "PendingEvaluation", "By test"),
        "Requeued": ("False", "Preempted", "By test"),
        "Admitted": ("False", "NoReservation", "The workload has no reservation"),
    }.items():
        one = team.workloads.condition(workload, kind)
        assert (one["status"], one["reason"], one["message"]) == told, kind
    applied.wait_reserved(system, team.name, 0)
    team.let_go("train")


def test_a_pod_that_took_its_own_gate_off_says_that_it_was_not_admitted(
    system: Installed,
) -> None:
    team = Team(system, quota=0)
    team.create("train")
    waiting.until(lambda: team.api.get(team.workloads.path)["items"], what="the Workload")
    path = f"/api/v1/namespaces/{team.name}/pods/train"
    team.api.patch(path, {"spec": {"schedulingGates": None}})
    stopped = team.wait_target("train")
    assert target(stopped) == ("True", "NotAdmitted", "Not admitted by cluster queue")
    team.let_go("train")


def test_annotations_for_provisioning_requests_reach_the_workloads(system: Installed) -> None:
    team = Team(system)
    annotations = {PROVISIONING: "0", "example.com/other": "1"}
    system.create_pod(team.name, "train", annotations=annotations)
    team.api.post(
        f"/apis/batch/v1/namespaces/{team.name}/jobs",
        make_job("train", 1, gpus=1, annotations=annotations),
    )

    def look() -> list[Json]:
        found = team.api.get(team.workloads.path)["items"]
        return [one["metadata"] for one in found] if len(found) == 2 else []

    for metadata in waiting.until(look, what="both Workloads"):
        assert metadata["annotations"][PROVISIONING] == "0"
        assert "example.com/other" not in metadata["annotations"]


def test_the_victims_of_one_preemptor_are_one_series_of_events(system: Installed) -> None:
    team = Team(system, quota=3, preemption={"withinClusterQueue": "LowerPriority"})
    for name in "abc":
        team.run(name, {names.PRIORITY_CLASS_LABEL: "low"})
    team.create("high", 3, {names.PRIORITY_CLASS_LABEL: "high"})
    system.wait_released(team.name, "high")
    preemptor = team.workload("high")

    def look() -> list[Json]:
        found = team.events("PreemptedWorkload", preemptor)
        return [one for one in found if one.get("series")]

    (event,) = waiting.until(look, what="a series of events")
    assert len(team.events("PreemptedWorkload", preemptor)) == 1
    assert event["series"]["count"] >= 2
    for name in "abc":
        stopped = team.wait_target(name)
        assert target(stopped)[1] == "WorkloadEvictedDueToPreempted"
        team.let_go(name)
