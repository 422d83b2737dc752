"""SparkApplications on a real API server: each of their pods is gated, and started in the quota.

Driver and executors are made by somebody who may edit: who makes them does not count.
"""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from admission.base import names
from admission.objects import owner_rows
from tests.builders.queues import make_group
from tests.controlplane import waiting
from tests.controlplane.rest import Rest, RestError
from tests.integration import owner_crds, snapshot, teams
from tests.integration.applied import Json, Workloads
from tests.integration.installed import KUEUE, Installed
from tests.integration.test_owners import allow

pytestmark = pytest.mark.controlplane

ROW = owner_rows.SPARK_APPLICATION

APPLICATION = yaml.safe_load("""
apiVersion: sparkoperator.k8s.io/v1beta2
kind: SparkApplication
metadata:
  name: spark-pi
  labels: {kueue.x-k8s.io/queue-name: default}
spec:
  type: Scala
  mode: cluster
  sparkVersion: 4.0.0
  image: spark:4.0.0
  mainClass: org.apache.spark.examples.SparkPi
  mainApplicationFile: local:///opt/spark/examples/jars/spark-examples.jar
  arguments: ["50000"]
  driver:
    coreRequest: "1"
    memory: 1g
    serviceAccount: spark
  executor:
    instances: 2
    coreRequest: "1"
    memory: 1g
    gpu: {name: nvidia.com/gpu, quantity: 1}
""")
"""Kueue's example (site/static/examples/jobs), with a GPU for each executor."""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with snapshot.prepared(tmp_path_factory.mktemp("spark"), Installed) as it:
        owner_crds.install(it.cluster, ROW)
        it.start()
        yield it


@pytest.fixture(scope="module")
def editor(system: Installed) -> Rest:
    found = allow(system.cluster, "editor", "", ROW.group)
    system.cluster.wait_for_roles()
    return found


class Team(teams.Team):
    """A namespace with SparkApplications."""

    def __init__(self, system: Installed, editor: Rest, quota: int) -> None:
        super().__init__(system, editor, quota)
        self.said = Workloads(system, self.name)
        self.path = f"/apis/{ROW.api_version}/namespaces/{self.name}/{ROW.plural}"
        self.set_quota(quota, cpu="100")

    def set_quota(self, gpus: int, cpu: str) -> None:
        """Have the ClusterQueue give GPUs, CPUs, and enough memory."""
        amounts = {names.GPU_RESOURCE: gpus, "cpu": cpu, "memory": "100Gi"}
        groups = [make_group({self.name: amounts})]
        queue = f"{KUEUE}/clusterqueues/{self.name}"
        self.api.patch(queue, {"spec": {"resourceGroups": groups}})

    def create(self, name: str = "spark-pi", labels: Json | None = None, **spec: Any) -> Json:
        manifest = copy.deepcopy(APPLICATION)
        manifest["metadata"]["name"] = name
        if labels is not None:
            manifest["metadata"]["labels"] = labels
        manifest["spec"] |= spec
        return self.editor.post(self.path, manifest)

    def get(self) -> Json:
        return self.api.get(f"{self.path}/spark-pi")

    def say(self, state: str) -> None:
        """Write the status, as the operator does."""
        status = {"applicationState": {"state": state}, "driverInfo": {}}
        self.api.patch(f"{self.path}/spark-pi/status", {"status": status})

    def make_pod(self, role: str, name: str, gpus: int = 0) -> Json:
        """Create a pod as Spark does."""
        part = self.get()["spec"][role]
        labels = {
            **part.get("labels", {}),
            "sparkoperator.k8s.io/app-name": "spark-pi",
            "spark-role": role,
        }
        limits = {names.GPU_RESOURCE: str(gpus)} if gpus else {}
        container = {"name": role, "image": "spark", "resources": {"limits": limits}}
        metadata = {"name": name, "labels": labels, "annotations": part.get("annotations", {})}
        return self.editor.post(
            self.pods, {"metadata": metadata, "spec": {"containers": [container]}}
        )

    def wait_started(self, *pods: str) -> None:
        waiting.until(lambda: self.started() == set(pods), what=f"{', '.join(pods)} have started")

    def wait_told(self, pod: str, reason: str) -> None:
        def look() -> bool:
            found = self.system.condition(self.name, pod)
            return found is not None and found["reason"] == reason

        waiting.until(look, what=f"pod {pod} says {reason}")

    def delete(self, *pods: str) -> None:
        for pod in pods:
            self.api.delete(f"{self.pods}/{pod}", {"gracePeriodSeconds": 0})

    def workload(self) -> Json:
        def look() -> list[Json]:
            found: list[Json] = self.api.get(self.workloads)["items"]
            return found

        (found,) = waiting.until(look, what="a Workload")
        return found

    def used(self) -> dict[str, str]:
        found = self.api.get(f"{KUEUE}/clusterqueues/{self.name}")
        (flavor,) = found.get("status", {}).get("flavorsUsage") or [{}]
        return {one["name"]: one["total"] for one in flavor.get("resources", ())}


def test_a_sparkapplication_starts_whole_and_no_pod_of_it_beyond_its_quota(
    system: Installed, editor: Rest
) -> None:
    team = Team(system, editor, 2)
    created = team.create()
    assert created["spec"]["suspend"] is True
    workload = team.workload()
    name = workload["metadata"]["name"]
    assert name.startswith("sparkapplication-spark-pi-")
    sets = {one["name"]: one for one in workload["spec"]["podSets"]}
    assert {key: one["count"] for key, one in sets.items()} == {"driver": 1, "executor": 2}
    (container,) = sets["driver"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "1408Mi"}

    waiting.until(lambda: not team.get()["spec"]["suspend"], what="started")
    assert {**team.get()["spec"], "suspend": True} == created["spec"]
    driver = team.make_pod("driver", "driver")
    assert driver["spec"]["schedulingGates"] == [{"name": names.ADMISSION_GATE}]
    team.wait_started("driver")
    for at in range(3):
        team.make_pod("executor", f"exec-{at}", gpus=1)
    waiting.until(lambda: len(team.started()) == 3, what="two executors have started")
    (late,) = team.gated()
    team.wait_told(late, "SparkApplicationIsFull")
    team.make_pod("executor", "big", gpus=8)
    team.wait_told("big", "AsksForOtherDevices")
    waiting.until(lambda: team.used()["nvidia.com/gpu"] == "2", what="charged once")
    pod = team.listed()["driver"]
    assert pod["spec"]["nodeSelector"]["nvidia.com/gpu.product"] == "A100"
    assert pod["metadata"]["labels"][names.PODSET_LABEL] == "driver"
    first = next(iter(sorted(team.started() - {"driver"})))
    team.delete(first)
    waiting.until(lambda: late in team.started(), what="the third takes its place")
    assert "big" in team.gated()
    assert len(team.api.get(team.workloads)["items"]) == 1

    team.say("RUNNING")
    team.said.patch(name, {"active": False})
    waiting.until(lambda: team.get()["spec"]["suspend"], what="suspended")
    team.delete(*team.listed())
    team.say("SUSPENDED")
    team.said.wait(name, "QuotaReserved", "False")
    assert team.get()["spec"] == created["spec"]
    team.say("COMPLETED")
    team.said.wait(name, "Finished", "True", "Succeeded")


def test_a_sparkapplication_without_gpus_waits_for_the_cpus_of_all_its_pods(
    system: Installed, editor: Rest
) -> None:
    """The example of Kueue's site, whose pods Spark gives 384Mi more than that asks for."""
    team = Team(system, editor, 0)
    team.set_quota(0, cpu="2999m")
    part = {"coreRequest": "1", "memory": "1g"}
    team.create(driver=part, executor={**part, "instances": 2}, memoryOverheadFactor="0")
    name = team.workload()["metadata"]["name"]
    said = team.said.wait(name, "QuotaReserved", "False", "ExceedsMaxQuota")
    assert "cpu" in said["message"]
    assert team.get()["spec"]["suspend"] is True
    team.set_quota(0, cpu="3")
    waiting.until(lambda: not team.get()["spec"]["suspend"], what="started")
    assigned = team.said.get(name)["status"]["admission"]["podSetAssignments"]
    assert {one["name"]: (one["count"], one["resourceUsage"]) for one in assigned} == {
        "driver": (1, {"cpu": "1", "memory": "1408Mi"}),
        "executor": (2, {"cpu": "2", "memory": "2816Mi"}),
    }


def test_pods_of_a_sparkapplication_that_somebody_else_starts_wait(
    system: Installed, editor: Rest
) -> None:
    team = Team(system, editor, 1)
    team.create()
    name = team.workload()["metadata"]["name"]
    team.said.wait(name, "QuotaReserved", "False")
    team.make_pod("executor", "early", gpus=1)
    team.wait_told("early", "WaitsForSparkApplication")
    editor.patch(f"{team.path}/spark-pi", {"spec": {"suspend": False}})
    waiting.until(lambda: team.get()["spec"]["suspend"], what="suspended again")
    assert team.gated() == {"early"}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"mode": "client"}, "must be cluster in a queue"),
        ({"dynamicAllocation": {"enabled": True}}, "executors that were not admitted"),
        (
            {"sparkConf": {"spark.dynamicAllocation.enabled": "true"}},
            "executors that were not admitted",
        ),
        ({"memoryOverheadFactor": "much"}, "spec.memoryOverheadFactor: must be a number"),
    ],
)
def test_a_sparkapplication_whose_pods_cannot_be_counted_is_refused(
    system: Installed, editor: Rest, change: Json, rule: str
) -> None:
    with pytest.raises(RestError) as refused:
        Team(system, editor, 2).create(**change)
    assert rule in str(refused.value)


def test_a_sparkapplication_without_a_queue_and_gpus_is_left_alone(
    system: Installed, editor: Rest
) -> None:
    team = Team(system, editor, 2)
    plain = team.create("plain", labels={}, executor={"instances": 1})
    assert "suspend" not in plain["spec"]
    assert plain["spec"]["executor"] == {"instances": 1}
    asking = team.create(labels={})
    assert asking["metadata"]["labels"][names.QUEUE_LABEL] == "default"
    assert asking["spec"]["suspend"] is True
