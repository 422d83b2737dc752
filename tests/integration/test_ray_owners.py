"""RayJobs and RayServices on a real API server: what KubeRay makes of one is counted once.

A stand-in for KubeRay makes the RayCluster, its pods and the submitter's Job, as the user under
which the real one runs.
"""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from admission.base import names
from tests.controlplane import waiting
from tests.controlplane.rest import RestError
from tests.integration.applied import Json
from tests.integration.test_owners import Owners, System, serving

pytestmark = pytest.mark.controlplane

JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with serving(tmp_path_factory.mktemp("ray")) as found:
        yield found


class KubeRay:
    """What KubeRay makes of a RayJob."""

    def __init__(self, owners: Owners) -> None:
        self.owners = owners
        self.api = owners.system.maker(owners.row)
        self.namespace = f"/apis/ray.io/v1/namespaces/{owners.team}"
        self.jobs = f"/apis/batch/v1/namespaces/{owners.team}/jobs"

    def cluster(self, name: str = "train", **metadata: Any) -> Json:
        """Its RayCluster, which has labels and annotations of the RayJob."""
        job = self.owners.get(name)
        given = {one: job["metadata"].get(one, {}) for one in ("labels", "annotations")}
        own = {"name": f"{name}-x", "ownerReferences": [self.owners.reference(name)]}
        return {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {**given, **own, **metadata},
            "spec": job["spec"]["rayClusterSpec"],
        }

    def make_cluster(self, name: str = "train") -> Json:
        return self.api.post(f"{self.namespace}/rayclusters", self.cluster(name))

    def make_submitter(self, name: str = "train") -> Json:
        """The Job that submits it."""
        template = self.owners.get(name)["spec"]["submitterPodTemplate"]
        metadata = {"name": name, "ownerReferences": [self.owners.reference(name)]}
        return self.api.post(self.jobs, {"metadata": metadata, "spec": {"template": template}})

    def make_pod(self, cluster: Json, template: Json, name: str) -> Json:
        """A pod of a RayCluster."""
        reference = {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "name": cluster["metadata"]["name"],
            "uid": cluster["metadata"]["uid"],
            "controller": True,
        }
        metadata = {**template.get("metadata", {}), "name": name, "ownerReferences": [reference]}
        pod = {"metadata": metadata, "spec": template["spec"]}
        return self.api.post(f"/api/v1/namespaces/{self.owners.team}/pods", pod)


def sample(owners: Owners, **spec: Any) -> Json:
    """The site's example: KubeRay makes the submitter's template."""
    owners.cover_cpu()
    manifest = owners.manifest()
    manifest["metadata"]["labels"] = {names.QUEUE_LABEL: "default"}
    del manifest["spec"]["submitterPodTemplate"]
    manifest["spec"] |= spec
    return owners.editor.post(owners.path, manifest)


def test_a_rayjob_runs_as_one_and_what_kuberay_makes_of_it_is_not_held_again(
    system: System,
) -> None:
    owners = Owners(system, "RayJob", 3)
    kuberay = KubeRay(owners)
    before = sample(owners)
    assert before["spec"]["suspend"] is True
    assert "submitterPodTemplate" not in before["spec"]
    started = owners.wait_started()
    found = owners.workloads.get(owners.workload())
    sets = [(one["name"], one["count"]) for one in found["spec"]["podSets"]]
    assert sets == [("head", 1), ("small-group", 2), ("submitter", 1)]
    assert len(owners.templates(started)) == 3

    cluster = kuberay.make_cluster()
    assert not cluster["spec"].get("suspend")
    assert names.QUEUE_LABEL not in cluster["metadata"].get("labels", {})
    head = cluster["spec"]["headGroupSpec"]["template"]
    worker = cluster["spec"]["workerGroupSpecs"][0]["template"]
    for at, template in enumerate((head, worker, worker)):
        pod = kuberay.make_pod(cluster, template, f"ray-{at}")
        assert "schedulingGates" not in pod["spec"]
        assert pod["spec"]["nodeSelector"]["nvidia.com/gpu.product"] == "A100"
    submitter = kuberay.make_submitter()
    assert not submitter["spec"].get("suspend")
    assert names.QUEUE_LABEL not in submitter["metadata"].get("labels", {})
    template = submitter["spec"]["template"]
    reference = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "train",
        "uid": submitter["metadata"]["uid"],
        "controller": True,
    }
    labels = {**template["metadata"], "name": "submitter", "ownerReferences": [reference]}
    pods = f"/api/v1/namespaces/{owners.team}/pods"
    pod = system.makers[JOB_CONTROLLER].post(pods, {"metadata": labels, "spec": template["spec"]})
    assert "schedulingGates" not in pod["spec"]
    waiting.until(lambda: owners.used() == 3, what="charged once")
    assert len(owners.api.get(owners.workloads.path)["items"]) == 1

    owners.say(owners.sample.running)
    owners.workloads.patch(owners.workload(), {"active": False})
    waiting.until(owners.is_suspended, what="suspended")
    owners.say(owners.sample.stopped)
    waiting.until(lambda: owners.get()["spec"] == before["spec"], what="restored to what it was")


def test_an_editor_lets_no_more_pods_through_by_the_cluster_of_a_rayjob(system: System) -> None:
    owners = Owners(system, "RayJob", 3)
    kuberay = KubeRay(owners)
    sample(owners)
    owners.wait_started()
    cluster = kuberay.make_cluster()
    path = f"{kuberay.namespace}/rayclusters/{cluster['metadata']['name']}"
    more = copy.deepcopy(cluster["spec"]["workerGroupSpecs"])
    more[0]["replicas"] = 9
    orphan = {"metadata": {"ownerReferences": None}, "spec": {"workerGroupSpecs": more}}
    for change in ({"spec": {"workerGroupSpecs": more}}, orphan):
        with pytest.raises(RestError) as refused:
            system.editor.patch(path, change)
        assert "was admitted with other pods" in str(refused.value)
    kuberay.api.patch(path, {"metadata": {"annotations": {"seen": "true"}}})
    forged = kuberay.cluster(labels={})
    forged["metadata"]["name"] = "forged"
    made = system.editor.post(f"{kuberay.namespace}/rayclusters", forged)
    assert made["spec"]["suspend"] is True
    assert names.WORKLOAD_ANNOTATION not in str(made["spec"])


def test_an_editor_gives_a_running_rayjob_no_other_submitter(system: System) -> None:
    owners = Owners(system, "RayJob", 3)
    sample(owners, submissionMode="HTTPMode")
    owners.wait_started()
    container = {"name": "a", "image": "a", "resources": {"limits": {names.GPU_RESOURCE: "8"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    change = {"spec": {"submissionMode": "K8sJobMode", "submitterPodTemplate": template}}
    assert "was admitted with other pods" in owners.refuses(change)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"shutdownAfterJobFinishes": False}, "must be true in a queue"),
        ({"rayClusterSpec": None}, "its pods are what is admitted"),
        ({"clusterSelector": {"a": "b"}}, "must not be set beside spec.rayClusterSpec"),
    ],
)
def test_a_rayjob_in_a_queue_has_a_cluster_of_its_own_and_deletes_it(
    system: System, change: Json, rule: str
) -> None:
    owners = Owners(system, "RayJob", 3)
    with pytest.raises(RestError) as refused:
        sample(owners, **change)
    assert rule in str(refused.value)


def test_a_rayjob_in_a_queue_does_not_scale_by_itself(system: System) -> None:
    owners = Owners(system, "RayJob", 3)
    manifest = owners.manifest()
    manifest["spec"]["rayClusterSpec"]["enableInTreeAutoscaling"] = True
    with pytest.raises(RestError) as refused:
        owners.editor.post(owners.path, manifest)
    assert "workers that were not admitted would start" in str(refused.value)


def test_a_rayjob_that_uses_the_cluster_of_another_is_left_alone(system: System) -> None:
    owners = Owners(system, "RayJob", 4)
    manifest = owners.manifest("shared")
    manifest["metadata"]["labels"] = {names.QUEUE_LABEL: "default"}
    del manifest["spec"]["rayClusterSpec"], manifest["spec"]["submitterPodTemplate"]
    manifest["spec"]["clusterSelector"] = {"ray.io/cluster": "shared"}
    made = owners.editor.post(owners.path, manifest)
    assert not made["spec"].get("suspend")
    owners.create("other")  # seen after it
    owners.wait_started("other")
    found = owners.api.get(owners.workloads.path)["items"]
    assert [one["metadata"]["ownerReferences"][0]["name"] for one in found] == ["other"]
    assert not owners.is_suspended("shared")


def test_the_cluster_of_a_rayservice_is_not_held_again(system: System) -> None:
    owners = Owners(system, "RayService", 3)
    kuberay = KubeRay(owners)
    owners.create()
    started = owners.wait_started()
    cluster = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {
            "name": "train-x",
            "labels": started["metadata"]["labels"],
            "ownerReferences": [owners.reference()],
        },
        "spec": started["spec"]["rayClusterConfig"],
    }
    path = f"{kuberay.namespace}/rayclusters"
    made = kuberay.api.post(path, cluster)
    assert not made["spec"].get("suspend")
    assert names.QUEUE_LABEL not in made["metadata"].get("labels", {})
    pod = kuberay.make_pod(made, made["spec"]["workerGroupSpecs"][0]["template"], "ray-0")
    assert "schedulingGates" not in pod["spec"]
    assert len(owners.api.get(owners.workloads.path)["items"]) == 1
    more = copy.deepcopy(made["spec"]["workerGroupSpecs"])
    more[0]["replicas"] = 9
    with pytest.raises(RestError) as refused:
        system.editor.patch(f"{path}/train-x", {"spec": {"workerGroupSpecs": more}})
    assert "was admitted with other pods" in str(refused.value)
    manifest = owners.manifest("scaling")
    manifest["spec"]["rayClusterConfig"]["enableInTreeAutoscaling"] = True
    with pytest.raises(RestError) as refused:
        system.editor.post(owners.path, manifest)
    assert "workers that were not admitted would start" in str(refused.value)
