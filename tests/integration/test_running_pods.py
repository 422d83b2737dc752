"""Attacks and faults after which pods run that no Workload is charged for, on a whole cluster.

What is held is judged from the pods that the API server shows. A pod with a finalizer of its own
stays when it is deleted, and runs on for all that anybody can tell.
"""

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from admission.answers.why import explain
from admission.base import conditions, names
from admission.kube.client import Client
from tests.builders.jobs import make_job
from tests.controlplane import waiting
from tests.controlplane.rest import RestError
from tests.integration import snapshot
from tests.integration.applied import Json
from tests.integration.installed import KUEUE, Installed, run_command

pytestmark = pytest.mark.controlplane

LASTING: dict[str, Any] = {"finalizers": ["example.com/hold"]}
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with snapshot.started(tmp_path_factory.mktemp("runs"), whole=True) as it:
        it.cluster.add_gpu_node("gpus", gpus=100, labels={"nvidia.com/gpu.product": "A100"})
        yield it


class Team:
    """A namespace with quota for four GPUs."""

    def __init__(self, system: Installed) -> None:
        self.system, self.api = system, system.api
        self.name = system.add_team(4)
        self.pods = f"/api/v1/namespaces/{self.name}/pods"
        self.jobs = f"/apis/batch/v1/namespaces/{self.name}/jobs"
        self.workloads = f"{KUEUE}/namespaces/{self.name}/workloads"
        self.queue = f"{KUEUE}/clusterqueues/{self.name}"

    def run_pod(self, name: str, gpus: int = 4, **metadata: object) -> Json:
        """A pod that runs; `LASTING` keeps it after its deletion."""
        self.system.create_pod(self.name, name, gpus=gpus, metadata=metadata)
        return waiting.until(partial(self.running, name), what=f"pod {name} runs")

    def running(self, name: str) -> Json | None:
        pod: Json = self.api.get(f"{self.pods}/{name}")
        return pod if pod.get("status", {}).get("phase") == "Running" else None

    def run_job(self, name: str = "train", pods: int = 4, **template: object) -> list[Json]:
        """The pods of a Job that runs."""
        pod = {"annotations": {"controlplane.test/run-for": "1h"}, "metadata": template}
        self.api.post(self.jobs, make_job(name, pods, completions=100, gpus=1, pod=pod))
        return waiting.until(
            lambda: found if len(found := self.of_job(name)) == pods else None,
            what=f"{pods} pods of Job {name} run",
        )

    def of_job(self, name: str) -> list[Json]:
        """The pods of a Job that hold GPUs."""
        label = "batch.kubernetes.io/job-name"
        return [pod for pod in self.holding() if pod["metadata"]["labels"].get(label) == name]

    def holding(self) -> list[Json]:
        """The pods that hold GPUs, as the API server shows them."""
        return [
            pod
            for pod in self.api.get(self.pods)["items"]
            if pod["spec"].get("nodeName")
            and pod["status"]["phase"] not in {"Succeeded", "Failed"}
        ]

    def workload_of(self, owner: str) -> Json | None:
        for one in self.api.get(self.workloads)["items"]:
            if any(ref["name"] == owner for ref in one["metadata"].get("ownerReferences", [])):
                return dict(one)
        return None

    def charged_workload(self, owner: str, *, other_than: str) -> Json | None:
        """The Workload of an owner if it is admitted, and another one than before."""
        found = self.workload_of(owner)
        if found is None or found["metadata"]["uid"] == other_than:
            return None
        told = {c["type"]: c["status"] for c in found.get("status", {}).get("conditions", [])}
        return found if told.get("Admitted") == "True" else None

    def usage(self) -> str:
        flavors = self.api.get(self.queue).get("status", {}).get("flavorsUsage", [])
        return str(flavors[0]["resources"][0]["total"]) if flavors else "0"

    def keeps_waiting(self, name: str = "second") -> bool:
        """Whether a pod that needs all of the quota waits after everything else was decided."""
        self.system.create_pod(self.name, name, gpus=4)
        other = self.system.add_team(1)
        self.system.create_pod(other, "probe", gpus=1)
        self.system.wait_released(other, "probe")
        return self.system.is_gated(self.name, name)

    def end(self, pods: list[Json]) -> None:
        """Let pods go that have a finalizer of their own."""
        for pod in pods:
            path = f"{self.pods}/{pod['metadata']['name']}"
            try:
                self.api.patch(path, {"metadata": {"finalizers": None}})
            except RestError as error:
                if error.status != 404:
                    raise


@pytest.fixture
def team(system: Installed) -> Team:
    return Team(system)


def test_a_pod_whose_workload_is_deleted_runs_on_and_is_charged_again(team: Team) -> None:
    team.run_pod("first")
    before = team.workload_of("first")
    assert before is not None
    team.api.delete(f"{team.workloads}/{before['metadata']['name']}")
    uid = before["metadata"]["uid"]
    waiting.until(
        lambda: team.charged_workload("first", other_than=uid), what="another Workload is charged"
    )
    assert team.keeps_waiting()
    assert team.running("first")
    waiting.until(lambda: team.usage() == "4", what="usage is 4")


def test_a_workload_deleted_while_its_pod_ends_gives_no_quota_away(team: Team) -> None:
    pod = team.run_pod("first", **LASTING)
    team.api.delete(f"{team.pods}/first")
    found = team.workload_of("first")
    assert found is not None
    team.api.delete(f"{team.workloads}/{found['metadata']['name']}")
    assert team.keeps_waiting()
    queue = waiting.until(
        lambda: applied_condition(team.api.get(team.queue), conditions.RELEASING),
        what="the ClusterQueue says what is releasing",
    )
    assert f"{team.name}/first on node gpus" in queue["message"]
    assert team.usage() == "4"
    with closing(Client.connect(team.system.kubeconfig)) as client:
        (note,) = explain(client, team.name, "second").notes
    assert f"{team.name}/first on node gpus" in note
    team.end([pod])
    team.system.wait_released(team.name, "second")
    waiting.until(
        lambda: not applied_condition(team.api.get(team.queue), conditions.RELEASING),
        what="nothing is releasing",
    )


def test_pods_that_a_deleted_job_leaves_behind_hold_its_quota(team: Team) -> None:
    pods = team.run_job()
    team.api.delete(f"{team.jobs}/train?propagationPolicy=Orphan")
    waiting.until(lambda: team.workload_of("train") is None, what="the Job's Workload is gone")
    assert team.keeps_waiting()
    assert len(team.holding()) == len(pods)
    for pod in pods:
        team.api.delete(f"{team.pods}/{pod['metadata']['name']}")
    team.system.wait_released(team.name, "second")


def test_pods_of_a_job_that_is_deleted_hold_its_quota_until_they_have_ended(team: Team) -> None:
    pods = team.run_job(**LASTING)
    team.api.delete(f"{team.jobs}/train?propagationPolicy=Background")
    waiting.until(
        lambda: all("deletionTimestamp" in pod["metadata"] for pod in team.holding()),
        what="the Job's pods are being deleted",
    )
    assert team.keeps_waiting()
    team.end(pods)
    team.system.wait_released(team.name, "second")


def test_a_job_runs_no_other_pods_while_those_that_were_deleted_end(team: Team) -> None:
    pods = team.run_job(**LASTING)
    for pod in pods:
        team.api.delete(f"{team.pods}/{pod['metadata']['name']}")
    assert team.keeps_waiting()
    ours = {pod["metadata"]["uid"] for pod in pods}
    assert {pod["metadata"]["uid"] for pod in team.holding()} == ours
    team.end(pods)
    waiting.until(
        lambda: (
            len(found := team.of_job("train")) == len(pods)
            and not ours & {pod["metadata"]["uid"] for pod in found}
        ),
        what="other pods of the Job run",
    )


def test_a_suspended_job_holds_its_quota_until_its_pods_have_ended(team: Team) -> None:
    pods = team.run_job(**LASTING)
    found = team.workload_of("train")
    assert found is not None
    path = f"{team.workloads}/{found['metadata']['name']}"
    team.api.patch(path, {"spec": {"active": False}})
    waiting.until(
        lambda: all("deletionTimestamp" in pod["metadata"] for pod in team.holding()),
        what="the Job's pods are being deleted",
    )
    assert team.keeps_waiting()
    team.end(pods)
    team.system.wait_released(team.name, "second")


def test_a_job_whose_workload_is_deleted_runs_on_and_is_charged_again(team: Team) -> None:
    pods = team.run_job()
    before = team.workload_of("train")
    assert before is not None
    team.api.delete(f"{team.workloads}/{before['metadata']['name']}")
    uid = before["metadata"]["uid"]
    waiting.until(
        lambda: team.charged_workload("train", other_than=uid), what="another Workload is charged"
    )
    assert team.keeps_waiting()
    ours = {pod["metadata"]["uid"] for pod in pods}
    assert {pod["metadata"]["uid"] for pod in team.holding()} == ours


def test_a_label_that_a_pod_lost_is_put_back_and_the_pod_is_charged_meanwhile(team: Team) -> None:
    """Only cluster administrators can take it off."""
    team.run_pod("first")
    team.api.patch(f"{team.pods}/first", {"metadata": {"labels": {names.MANAGED_LABEL: None}}})
    waiting.until(
        lambda: team.api.get(f"{team.pods}/first")["metadata"]["labels"].get(names.MANAGED_LABEL),
        what="the label is back",
    )
    assert team.keeps_waiting()
    team.api.delete(f"{team.pods}/first")
    team.system.wait_released(team.name, "second")


def test_a_namespace_with_a_running_job_goes_while_the_controller_is_away(team: Team) -> None:
    team.run_job()
    team.system.stop()
    try:
        team.api.delete(f"/api/v1/namespaces/{team.name}")
        waiting.until(
            lambda: team.api.lacks(f"/api/v1/namespaces/{team.name}"),
            what="the namespace is gone",
        )
    finally:
        team.system.start()


def test_what_runs_is_charged_again_after_all_kinds_were_deleted_and_installed(
    team: Team,
) -> None:
    """Last: it deletes the queues of all teams."""
    system = team.system
    pod = team.run_pod("single", gpus=1)
    pods = team.run_job(pods=3)
    system.stop()
    for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        for one in team.api.get(f"{REGISTRATIONS}/{plural}")["items"]:
            team.api.delete(f"{REGISTRATIONS}/{plural}/{one['metadata']['name']}")
    for one in team.api.get(CRDS)["items"]:
        if one["spec"]["group"] == names.KUEUE_GROUP:
            remove_kind(team, one)
    system.install()
    system.start()
    system.add_flavor(team.name)
    system.add_cluster_queue(team.name, quota=4, flavors=(team.name,))
    system.add_local_queue(team.name, team.name)
    system.wait_for_queue(team.name)
    for owner in ("single", "train"):
        waiting.until(
            partial(team.charged_workload, owner, other_than=""), what=f"{owner} is charged"
        )
    waiting.until(lambda: team.usage() == "4", what="usage is 4")
    assert team.keeps_waiting()
    ours = {one["metadata"]["uid"] for one in (pod, *pods)}
    assert {one["metadata"]["uid"] for one in team.holding()} == ours


def remove_kind(team: Team, crd: Json) -> None:
    """Delete a kind with all its objects, whatever finalizers they have."""
    plural, name = crd["spec"]["names"]["plural"], crd["metadata"]["name"]
    for item in team.api.get(f"{KUEUE}/{plural}")["items"]:
        metadata = item["metadata"]
        if metadata.get("finalizers"):
            where = f"namespaces/{metadata['namespace']}/" if "namespace" in metadata else ""
            path = f"{KUEUE}/{where}{plural}/{metadata['name']}"
            team.api.patch(path, {"metadata": {"finalizers": None}})
    team.api.delete(f"{CRDS}/{name}")
    waiting.until(lambda: team.api.lacks(f"{CRDS}/{name}"), what=f"{name} is gone")


def applied_condition(document: Json, kind: str) -> Json | None:
    found = document.get("status", {}).get("conditions", [])
    return next((dict(one) for one in found if one["type"] == kind), None)


def test_a_pod_that_an_administrator_lets_run_is_charged_to_the_flavor_of_its_node(
    system: Installed,
) -> None:
    team = Team(system)
    elsewhere = f"{team.name}-elsewhere"
    system.add_flavor(elsewhere, product="B200")
    (group,) = team.api.get(team.queue)["spec"]["resourceGroups"]
    quota = {"name": names.GPU_RESOURCE, "nominalQuota": "0"}
    group["flavors"].append({"name": elsewhere, "resources": [quota]})
    team.api.patch(team.queue, {"spec": {"resourceGroups": [group]}})
    team.run_pod("first")
    system.create_pod(team.name, "let-run", gpus=2, nodeSelector={"pool": elsewhere})
    system.wait_condition(team.name, "let-run")
    release = ("break-glass", "release", "pod", "let-run", "-n", team.name)
    done = run_command(*release, "--kubeconfig", system.kubeconfig)
    assert done.returncode == 0, done.stderr

    def flavor() -> str:
        workload = team.workload_of("let-run") or {}
        admission = workload.get("status", {}).get("admission") or {}
        (assigned,) = admission.get("podSetAssignments") or [{}]
        return str(assigned.get("flavors", {}).get(names.GPU_RESOURCE, ""))

    waiting.until(lambda: flavor() == team.name, what="it is charged to the first flavor")
    labels = {"nvidia.com/gpu.product": "B200", "pool": elsewhere}
    system.cluster.add_gpu_node(elsewhere, gpus=2, labels=labels)
    waiting.until(partial(team.running, "let-run"), what="it runs")
    waiting.until(lambda: flavor() == elsewhere, what="it is charged to that of its node")
