"""Owners that serve on a whole cluster: Kubernetes' own controllers make their pods.

Who runs is judged from the pods that the API server shows.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from admission.base import names
from tests.builders.pods import make_pod
from tests.builders.queues import make_group
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import Rest, RestError
from tests.integration.applied import Json
from tests.integration.installed import KUEUE, Installed, installed

pytestmark = pytest.mark.controlplane

RBAC = "/apis/rbac.authorization.k8s.io/v1"
TEMPLATE_LABELS = ("spec", "template", "metadata", "labels")

SITE_DEPLOYMENT = yaml.safe_load("""
apiVersion: apps/v1
kind: Deployment
metadata:
  name: nginx-deployment
  labels:
    app: nginx
    kueue.x-k8s.io/queue-name: user-queue
spec:
  replicas: 3
  selector:
    matchLabels:
      app: nginx
  template:
    metadata:
      labels:
        app: nginx
    spec:
      containers:
      - name: nginx
        image: registry.k8s.io/nginx-slim:0.27
        ports:
        - containerPort: 80
        resources:
          requests:
            cpu: 100m
""")
"""Kueue's example of a Deployment (site/static/examples/serving-workloads)."""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with Cluster.start() as cluster:
        cluster.start_whole()
        cluster.add_gpu_node("gpus", gpus=100, labels={"nvidia.com/gpu.product": "A100"})
        with installed(cluster, tmp_path_factory.mktemp("serving")) as it:
            it.add_classes(high=1000)
            yield it


@pytest.fixture(scope="module")
def editor(system: Installed) -> Rest:
    """One who has the role ``edit``, in all namespaces."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    binding = {
        "metadata": {"name": "editor"},
        "roleRef": role,
        "subjects": [{"kind": "User", "name": "editor"}],
    }
    system.api.post(f"{RBAC}/clusterrolebindings", binding)
    rest = system.cluster.client(system.cluster.kubeconfig("editor"))
    waiting.until(
        lambda: rest.answers("/api/v1/namespaces/default/pods"), what="the editor may read pods"
    )
    return rest


class Team:
    """A namespace with quota for four GPUs, and one who may edit what is in it."""

    plural = "deployments"
    group = "apps/v1"

    def __init__(self, system: Installed, editor: Rest, quota: int = 4, **queue: Any) -> None:
        self.system, self.editor, self.api = system, editor, system.api
        self.name = system.add_team(quota, **queue)
        system.add_local_queue(self.name, self.name, "other")
        system.wait_for_queue(self.name, "other")
        self.pods = f"/api/v1/namespaces/{self.name}/pods"
        self.workloads = f"{KUEUE}/namespaces/{self.name}/workloads"
        self.path = f"/apis/{self.group}/namespaces/{self.name}/{self.plural}"

    def manifest(self, replicas: int = 2, *, queue: str = "other", gpus: int = 1) -> Json:
        pod = make_pod(gpus=gpus, terminationGracePeriodSeconds=0)
        labels = {names.QUEUE_LABEL: queue} if queue else {}
        return {
            "metadata": {"name": "serve", "labels": labels},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "serve"}},
                "template": {"metadata": {"labels": {"app": "serve"}}, "spec": pod["spec"]},
            },
        }

    def create(self, replicas: int = 2, **more: Any) -> Json:
        return self.editor.post(self.path, self.manifest(replicas, **more))

    def get(self) -> Json:
        return self.api.get(f"{self.path}/serve")

    def patch(self, change: Json) -> Json:
        return self.editor.patch(f"{self.path}/serve", change)

    def queue(self, name: str | None) -> Json:
        """Put the owner into another queue."""
        return self.patch({"metadata": {"labels": {names.QUEUE_LABEL: name}}})

    def refuses(self, change: Json) -> str:
        """What is said to the editor's change, which must be refused."""
        with pytest.raises(RestError) as refused:
            self.patch(change)
        assert refused.value.status == 403, refused.value
        return str(refused.value)

    def scale(self, replicas: int) -> None:
        """Scale as ``kubectl scale`` does."""
        self.editor.patch(f"{self.path}/serve/scale", {"spec": {"replicas": replicas}})

    def listed(self) -> list[Json]:
        items: list[Json] = self.api.get(self.pods)["items"]
        return [one for one in items if "deletionTimestamp" not in one["metadata"]]

    def running(self) -> list[Json]:
        return [one for one in self.listed() if one.get("status", {}).get("phase") == "Running"]

    def gated(self) -> list[Json]:
        return [one for one in self.listed() if one["spec"].get("schedulingGates")]

    def wait(self, *, running: int, gated: int = 0) -> None:
        """Wait until so many pods run, and so many wait for quota."""
        waiting.until(
            lambda: (len(self.running()), len(self.gated())) == (running, gated),
            what=f"{running} pods run and {gated} wait",
        )

    def admitted(self) -> list[Json]:
        """The Workloads that hold quota."""
        return [
            one
            for one in self.api.get(self.workloads)["items"]
            if "admission" in one.get("status", {})
        ]


@pytest.fixture
def team(system: Installed, editor: Rest) -> Team:
    return Team(system, editor)


# ------------------------------------------------------------------------------------ Deployments


def test_the_deployment_of_kueues_documentation_is_admitted_pod_by_pod(
    system: Installed, editor: Rest
) -> None:
    team = Team(system, editor)
    groups = [make_group({team.name: {"cpu": "250m"}})]
    system.api.patch(f"{KUEUE}/clusterqueues/{team.name}", {"spec": {"resourceGroups": groups}})
    system.add_local_queue(team.name, team.name, "user-queue")
    system.wait_for_queue(team.name, "user-queue")
    editor.post(team.path, copy.deepcopy(SITE_DEPLOYMENT))
    team.wait(running=2, gated=1)
    assert len(team.admitted()) == 2
    for pod in team.listed():
        metadata = pod["metadata"]
        assert metadata["labels"][names.MANAGED_LABEL] == "true"
        assert metadata["labels"][names.QUEUE_LABEL] == "user-queue"
        assert metadata["annotations"][names.POD_SUSPENDING_PARENT] == "deployment"
        assert "finalizers" not in metadata
    editor.patch(f"{team.path}/nginx-deployment/scale", {"spec": {"replicas": 1}})
    team.wait(running=1)
    waiting.until(lambda: len(team.admitted()) == 1, what="the quota of the others is free")


def test_pods_of_a_deployment_go_through_the_queue_that_it_names(team: Team) -> None:
    team.create(6)
    team.wait(running=4, gated=2)
    assert {one["spec"]["queueName"] for one in team.admitted()} == {"other"}
    team.scale(3)
    team.wait(running=3)
    waiting.until(lambda: len(team.admitted()) == 3, what="the quota of the others is free")


def test_the_priority_class_of_a_deployment_is_that_of_its_pods(team: Team) -> None:
    manifest = team.manifest(1)
    manifest["metadata"]["labels"][names.PRIORITY_CLASS_LABEL] = "high"
    team.editor.post(team.path, manifest)
    team.wait(running=1)
    (workload,) = team.admitted()
    assert workload["spec"]["priority"] == 1000


def test_a_gpu_deployment_without_a_queue_goes_to_the_default_one(team: Team) -> None:
    assert team.create(1, queue="")["metadata"]["labels"][names.QUEUE_LABEL] == "default"
    team.wait(running=1)
    assert [one["spec"]["queueName"] for one in team.admitted()] == ["default"]


def test_a_deployment_whose_template_names_a_queue_leaves_it_to_its_pods(team: Team) -> None:
    manifest = team.manifest(1, queue="")
    manifest["spec"]["template"]["metadata"]["labels"][names.QUEUE_LABEL] = "other"
    created = team.editor.post(team.path, manifest)
    assert names.QUEUE_LABEL not in created["metadata"].get("labels", {})
    team.wait(running=1)
    assert [one["spec"]["queueName"] for one in team.admitted()] == ["other"]


def test_a_deployment_moves_to_another_queue_only_while_nothing_is_ready(team: Team) -> None:
    team.create(1, gpus=8)
    team.wait(running=0, gated=1)
    nowhere = {"metadata": {"labels": {names.QUEUE_LABEL: None}}}
    assert "field is immutable: pods that come later" in team.refuses(nowhere)
    team.queue("default")
    waiting.until(
        lambda: (
            "default" in {one["metadata"]["labels"][names.QUEUE_LABEL] for one in team.gated()}
        ),
        what="a pod waits in the other queue",
    )
    smaller = make_pod(gpus=1, terminationGracePeriodSeconds=0)["spec"]["containers"]
    team.patch({"spec": {"template": {"spec": {"containers": smaller}}}})
    waiting.until(lambda: team.get()["status"].get("readyReplicas") == 1, what="a pod is ready")
    text = team.refuses({"metadata": {"labels": {names.QUEUE_LABEL: "other"}}})
    assert f"metadata.labels[{names.QUEUE_LABEL}]: Invalid value: " in text
    assert "field is immutable" in text


def test_what_puts_pods_into_the_queue_cannot_be_taken_off_the_template(team: Team) -> None:
    team.create(4)
    team.wait(running=4)
    keys = (names.QUEUE_LABEL, names.MANAGED_LABEL)
    annotation = {"annotations": {names.POD_SUSPENDING_PARENT: None}}
    change = {"labels": dict.fromkeys(keys), **annotation}
    kept = team.patch({"spec": {"replicas": 6, "template": {"metadata": change}}})
    assert kept["spec"]["template"]["metadata"]["labels"][names.QUEUE_LABEL] == "other"
    elsewhere = {"labels": {names.QUEUE_LABEL: "default"}}
    kept = team.patch({"spec": {"template": {"metadata": elsewhere}}})
    assert kept["spec"]["template"]["metadata"]["labels"][names.QUEUE_LABEL] == "other"
    team.wait(running=4, gated=2)


def test_a_pod_forged_as_one_of_a_parent_gets_nothing_without_quota(team: Team) -> None:
    team.create(4)
    team.wait(running=4)
    forged = {names.POD_SUSPENDING_PARENT: "deployment"}
    pod = make_pod("forged", gpus=1, annotations=forged, labels={names.QUEUE_LABEL: "other"})
    team.editor.post(team.pods, pod)
    assert team.system.wait_condition(team.name, "forged")["reason"] == "WaitingForQuota"
    assert team.system.is_gated(team.name, "forged")
    with pytest.raises(RestError):
        team.editor.patch(f"{team.pods}/forged", {"spec": {"schedulingGates": None}})
    team.scale(3)
    team.system.wait_released(team.name, "forged")


@contextmanager
def stopped(system: Installed) -> Iterator[None]:
    """The webhook and the controller are away."""
    system.stop()
    try:
        yield
    finally:
        system.start()


def test_other_deployments_notice_nothing_while_the_webhook_is_away(team: Team) -> None:
    team.create(1)
    team.wait(running=1)
    plain = team.manifest(1, queue="", gpus=0)
    plain["metadata"]["name"] = "plain"
    with stopped(team.system):
        team.editor.post(team.path, plain)
        team.editor.patch(f"{team.path}/plain", {"spec": {"replicas": 2}})
        team.patch({"metadata": {"annotations": {"note": "an annotation of one in a queue"}}})
        with pytest.raises(RestError, match="failed calling webhook"):
            team.patch({"spec": {"replicas": 2}})
