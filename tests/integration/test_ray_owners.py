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
from tests.controlplane.rest import JSON_PATCH, RestError
from tests.integration.applied import Json
from tests.integration.test_elastic_owners import set_quota
from tests.integration.test_owners import Owners, System, serving

pytestmark = pytest.mark.controlplane

AT = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}
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
    least = copy.deepcopy(cluster["spec"]["workerGroupSpecs"])
    least[0] |= {"minReplicas": 9, "maxReplicas": 9}
    orphan = {"metadata": {"ownerReferences": None}, "spec": {"workerGroupSpecs": more}}
    for change in (
        {"spec": {"workerGroupSpecs": more}},
        {"spec": {"workerGroupSpecs": least}},
        orphan,
    ):
        with pytest.raises(RestError) as refused:
            system.editor.patch(path, change)
        assert "was admitted with other pods" in str(refused.value)
    kuberay.api.patch(path, {"metadata": {"annotations": {"seen": "true"}}})
    forged = kuberay.cluster(labels={})
    forged["metadata"]["name"] = "forged"
    made = system.editor.post(f"{kuberay.namespace}/rayclusters", forged)
    assert made["spec"]["suspend"] is True
    assert names.WORKLOAD_ANNOTATION not in str(made["spec"])


@pytest.mark.parametrize("kind", ["RayCluster", *sorted(AT)])
def test_workers_are_counted_that_kuberay_makes_for_their_least_number(
    system: System, kind: str
) -> None:
    owners = Owners(system, kind, 8)

    def post(name: str, least: int) -> int:
        """Create one with a least number of workers; how many pods it asks for."""
        manifest = owners.manifest(name)
        spec = manifest["spec"] if kind == "RayCluster" else manifest["spec"][AT[kind]]
        spec["workerGroupSpecs"] = spec["workerGroupSpecs"][:1]
        spec["workerGroupSpecs"][0] |= {"replicas": 1, "minReplicas": least, "maxReplicas": 99}
        owners.editor.post(owners.path, manifest)
        found = owners.workloads.get(owners.workload(name))
        return sum(one["count"] for one in found["spec"]["podSets"])

    besides = 2 if kind == "RayJob" else 1
    assert post("small", 3) == 3 + besides
    owners.wait_started("small")
    assert post("big", 9) == 9 + besides
    owners.workloads.wait(owners.workload("big"), "QuotaReserved", "False")
    assert owners.is_suspended("big")
    if kind == "RayCluster":
        (group,) = owners.get("small")["spec"]["workerGroupSpecs"]
        change = {"spec": {"workerGroupSpecs": [{**group, "minReplicas": 9}]}}
        assert "was admitted with other pods" in owners.refuses(change, "small")


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
        ({"rayClusterSpec": None}, "the pods of this cluster are admitted"),
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


@pytest.mark.parametrize("kind", sorted(AT))
def test_without_the_annotation_none_scales_by_itself(system: System, kind: str) -> None:
    owners = Owners(system, kind, 3)
    manifest = owners.manifest()
    manifest["spec"][AT[kind]]["enableInTreeAutoscaling"] = True
    with pytest.raises(RestError) as refused:
        owners.editor.post(owners.path, manifest)
    assert f"spec.{AT[kind]}.enableInTreeAutoscaling" in str(refused.value)
    assert "workers that were not admitted would start" in str(refused.value)
    assert f"create it with the annotation {names.ELASTIC_JOB}" in str(refused.value)


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
    said = owners.refuses({"spec": {"rayClusterConfig": {"rayVersion": "2.50.0"}}})
    assert "all its pods would run a second time" in said
    owners.patch({"spec": {"serveConfigV2": "applications: [a]"}})


class Scaling(KubeRay):
    """An elastic RayJob or RayService, and what KubeRay makes of it."""

    def __init__(self, system: System, kind: str, quota: int) -> None:
        owners = Owners(system, kind, quota)
        owners.cover_cpu()
        super().__init__(owners)
        self.at = AT[kind]
        self.clusters = f"{self.namespace}/rayclusters"
        self.pods = f"/api/v1/namespaces/{owners.team}/pods"
        self.besides = {"RayJob": 1, "RayService": 0}[kind]
        """Pods besides those of the RayCluster."""

    def begin(self, cluster: str = "train-a") -> Json:
        """Create it, wait until it is started, and make its RayCluster."""
        manifest = self.owners.manifest()
        manifest["metadata"] |= {
            "labels": {names.QUEUE_LABEL: "default"},
            "annotations": {names.ELASTIC_JOB: "true"},
        }
        manifest["spec"][self.at]["enableInTreeAutoscaling"] = True
        manifest["spec"][self.at]["workerGroupSpecs"][0] |= {"minReplicas": 0, "maxReplicas": 9}
        made = self.owners.editor.post(self.owners.path, manifest)
        self.owners.wait_started()
        self.say(cluster)
        self.make(cluster)
        return made

    def make(self, name: str) -> Json:
        """Make a RayCluster, and its pods."""
        owner = self.owners.get()
        metadata: Json = {
            "name": name,
            "labels": {
                **owner["metadata"]["labels"],
                "ray.io/originated-from-crd": self.owners.row.kind,
                "ray.io/originated-from-cr-name": "train",
            },
            "annotations": owner["metadata"]["annotations"],
            "ownerReferences": [self.owners.reference()],
        }
        spec = owner["spec"][self.at]
        found = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata}
        made = self.api.post(self.clusters, {**found, "spec": spec})
        self.work()
        return made

    def say(self, active: str, pending: str = "") -> None:
        """Say that it runs, and which RayClusters there are."""
        named: dict[str, Json] = {
            "RayJob": {"rayClusterName": active},
            "RayService": {
                "activeServiceStatus": {"rayClusterName": active},
                "pendingServiceStatus": {"rayClusterName": pending},
            },
        }
        self.owners.say({**self.owners.sample.running, **named[self.owners.row.kind]})

    def scale(self, workers: int, cluster: str = "train-a") -> None:
        """Ask for so many workers, as Ray's autoscaler does: it may edit RayClusters."""
        change = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": workers}]
        self.owners.editor.patch(f"{self.clusters}/{cluster}", change, JSON_PATCH)
        self.work()

    def work(self) -> None:
        """Make and delete pods as the RayClusters say, and that of the submitter once."""
        for cluster in self.owners.api.get(self.clusters)["items"]:
            (group,) = cluster["spec"]["workerGroupSpecs"]
            head = cluster["spec"]["headGroupSpec"]["template"]
            self._have(cluster, "head", head, 1)
            workers = max(group["replicas"], group["minReplicas"])
            self._have(cluster, "worker", group["template"], workers)
        if self.besides and not self._named("submitter"):
            self._submit()

    def _named(self, prefix: str) -> list[Json]:
        found = self.owners.api.get(self.pods)["items"]
        return [one for one in found if one["metadata"]["name"].startswith(prefix)]

    def _have(self, cluster: Json, role: str, template: Json, count: int) -> None:
        prefix = f"{cluster['metadata']['name']}-{role}-"
        there = sorted(self._named(prefix), key=lambda one: (is_gated(one), number(one)))
        for one in there[count:]:
            self.api.delete(f"{self.pods}/{one['metadata']['name']}")
        first = max(map(number, there), default=-1) + 1
        for at in range(first, first + count - len(there)):
            self.make_pod(cluster, copy.deepcopy(template), f"{prefix}{at}")

    def _submit(self) -> None:
        template = self.owners.get()["spec"]["submitterPodTemplate"]
        jobs = f"/apis/batch/v1/namespaces/{self.owners.team}/jobs"
        metadata = {"name": "train", "ownerReferences": [self.owners.reference()]}
        job = self.api.post(jobs, {"metadata": metadata, "spec": {"template": template}})
        reference = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "train",
            "uid": job["metadata"]["uid"],
            "controller": True,
        }
        template = job["spec"]["template"]
        metadata = {**template["metadata"], "name": "submitter", "ownerReferences": [reference]}
        pod = {"metadata": metadata, "spec": template["spec"]}
        self.owners.system.makers[JOB_CONTROLLER].post(self.pods, pod)

    def gpus(self) -> int:
        """GPUs of the pods that were let start."""
        return sum(
            int(container["resources"]["limits"].get(names.GPU_RESOURCE, 0))
            for pod in self.owners.api.get(self.pods)["items"]
            if not pod["spec"].get("schedulingGates")
            for container in pod["spec"]["containers"]
            if "limits" in container["resources"]
        )

    def wait_gpus(self, count: int) -> None:
        waiting.until(lambda: self.gpus() == count, what=f"{count} GPUs, found {self.gpus()}")

    def workloads(self) -> list[Json]:
        """Its Workloads that have not ended."""
        return [
            one
            for one in self.owners.api.get(self.owners.workloads.path)["items"]
            if one["metadata"]["ownerReferences"][0]["kind"] == self.owners.row.kind
            and not any(
                each["type"] == "Finished" and each["status"] == "True"
                for each in one.get("status", {}).get("conditions", ())
            )
        ]

    def wait_alone(self) -> Json:
        """Wait until the Workload that was replaced has ended; the one that is left."""

        def look() -> Json | None:
            workloads = self.workloads()
            return workloads[0] if len(workloads) == 1 else None

        return waiting.until(look, what="the Workload that was replaced has ended")

    def wait_waiting(self, pods: int) -> None:
        """Wait until a second Workload asks for so many pods."""

        def sizes() -> list[int]:
            return sorted(
                sum(each["count"] for each in one["spec"]["podSets"]) for one in self.workloads()
            )

        waiting.until(lambda: sizes()[1:] == [pods], what=f"{pods} asked for, found {sizes()}")


def is_gated(pod: Json) -> bool:
    return bool(pod["spec"].get("schedulingGates"))


def number(pod: Json) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


@pytest.mark.parametrize("kind", sorted(AT))
def test_an_elastic_one_grows_within_quota_waits_beyond_it_and_gives_quota_back(
    system: System, kind: str
) -> None:
    ray = Scaling(system, kind, 6)
    least = 3 + ray.besides
    made = ray.begin()
    assert made["spec"]["suspend"] is True
    ray.wait_gpus(least)
    ray.owners.wait_used(least)
    ray.scale(6 - 1 - ray.besides)
    ray.wait_gpus(6)
    ray.owners.wait_used(6)

    ray.scale(8)
    ray.wait_waiting(9 + ray.besides)
    assert ray.gpus() == 6
    ray.owners.create("other")
    assert ray.owners.is_suspended("other")

    ray.scale(0)
    ray.wait_gpus(1 + ray.besides)
    ray.owners.wait_started("other")
    ray.owners.wait_used(1 + ray.besides + least)


@pytest.mark.parametrize("kind", sorted(AT))
def test_an_eviction_suspends_an_elastic_one_and_it_asks_for_its_own_number_again(
    system: System, kind: str
) -> None:
    ray = Scaling(system, kind, 6)
    before = ray.begin()
    ray.scale(3)
    ray.wait_gpus(4 + ray.besides)
    ray.owners.wait_used(4 + ray.besides)
    present = ray.wait_alone()
    ray.owners.workloads.patch(present["metadata"]["name"], {"active": False})
    waiting.until(ray.owners.is_suspended, what="suspended")
    for one in ray.owners.api.get(ray.pods)["items"]:
        ray.api.delete(f"{ray.pods}/{one['metadata']['name']}")
    ray.api.delete(f"{ray.clusters}/train-a")
    if ray.besides:
        jobs = f"/apis/batch/v1/namespaces/{ray.owners.team}/jobs"
        ray.owners.api.delete(f"{jobs}/train?propagationPolicy=Background")
    ray.owners.say(ray.owners.sample.stopped)
    ray.owners.wait_used(0)
    waiting.until(
        lambda: ray.owners.get()["spec"] == before["spec"], what="restored to what it was"
    )
    ray.owners.workloads.patch(present["metadata"]["name"], {"active": True})
    ray.owners.wait_started()
    ray.say("train-b")
    ray.make("train-b")
    ray.wait_gpus(3 + ray.besides)
    ray.owners.wait_used(3 + ray.besides)
    ray.scale(3, "train-b")
    ray.wait_gpus(4 + ray.besides)


@pytest.mark.parametrize("kind", sorted(AT))
def test_an_editor_starts_no_pod_of_an_elastic_one_that_is_not_charged(
    system: System, kind: str
) -> None:
    ray = Scaling(system, kind, 4)
    ray.begin()
    ray.wait_gpus(3 + ray.besides)
    ray.scale(5)
    ray.wait_waiting(6 + ray.besides)
    least = ray.gpus()
    for at in ("headGroupSpec", "workerGroupSpecs/0"):
        change = [{"op": "remove", "path": f"/spec/{at}/template/spec/schedulingGates"}]
        with pytest.raises(RestError) as refused:
            system.editor.patch(f"{ray.clusters}/train-a", change, JSON_PATCH)
        assert "was admitted with other pods" in str(refused.value)
        own = [{**one, "path": f"/spec/{ray.at}{one['path'][5:]}"} for one in change]
        with pytest.raises(RestError) as refused:
            system.editor.patch(f"{ray.owners.path}/train", own, JSON_PATCH)
        assert refused.value.status == 403
    waits = next(one for one in ray.owners.api.get(ray.pods)["items"] if is_gated(one))
    with pytest.raises(RestError) as refused:
        system.editor.patch(
            f"{ray.pods}/{waits['metadata']['name']}", {"spec": {"schedulingGates": None}}
        )
    assert "Only the controller may take off the gate" in str(refused.value)
    forged = ray.owners.api.get(f"{ray.clusters}/train-a")
    forged["metadata"] = {
        **{one: forged["metadata"][one] for one in ("labels", "ownerReferences")},
        "name": "forged",
    }
    forged["spec"]["enableInTreeAutoscaling"] = False
    system.editor.post(ray.clusters, forged)
    assert ray.gpus() == least
    ray.wait_waiting(6 + ray.besides)


@pytest.mark.parametrize("kind", sorted(AT))
def test_an_editor_gets_no_quota_twice_from_an_elastic_one(system: System, kind: str) -> None:
    """Its numbers, its RayClusters and its status are changed by hand, and its Workload goes."""
    quota = 5 + (kind == "RayJob")
    ray = Scaling(system, kind, quota)
    ray.begin()
    ray.scale(4)
    ray.wait_gpus(quota)
    ray.owners.wait_used(quota)
    ray.owners.create("other")
    cluster = f"{ray.clusters}/train-a"
    (group,) = ray.owners.api.get(cluster)["spec"]["workerGroupSpecs"]

    def set_sizes(**sizes: int) -> None:
        change = {"spec": {"workerGroupSpecs": [{**group, **sizes}]}}
        system.editor.patch(cluster, change)

    def judge() -> None:
        other = system.installed.add_team(1)
        for name in ("one", "two"):  # what could be decided is decided then
            system.installed.create_pod(other, name, gpus=1)
            system.installed.wait_released(other, name)
            system.installed.delete_pod(other, name)
        ray.owners.wait_used(quota)
        assert ray.gpus() == quota
        assert ray.owners.is_suspended("other")

    set_sizes(replicas=4, minReplicas=9)
    ray.work()
    judge()
    set_sizes(replicas=0, minReplicas=0)  # and its pods stay
    judge()
    system.editor.patch(cluster, {"metadata": {"labels": {"ray.io/originated-from-crd": None}}})
    judge()
    forged = ray.owners.api.get(cluster)
    forged["metadata"] = {
        "name": "forged",
        "labels": {"ray.io/originated-from-crd": kind},
        "ownerReferences": forged["metadata"]["ownerReferences"],
    }
    forged["spec"]["enableInTreeAutoscaling"] = False
    system.editor.post(ray.clusters, forged)
    ray.say("forged")
    judge()
    for one in ray.workloads():
        ray.owners.api.delete(f"{ray.owners.workloads.path}/{one['metadata']['name']}")
    judge()


def test_the_second_raycluster_of_an_upgrade_waits_for_quota_beside_the_first(
    system: System,
) -> None:
    ray = Scaling(system, "RayService", 6)
    ray.begin()
    ray.wait_gpus(3)
    ray.scale(3)
    ray.wait_gpus(4)
    ray.say("train-a", pending="train-b")
    ray.make("train-b")
    ray.wait_waiting(7)
    assert ray.gpus() == 4
    set_quota(ray.owners, 7)
    ray.wait_gpus(7)
    ray.owners.wait_used(7)
    ray.say("train-b")
    ray.api.delete(f"{ray.clusters}/train-a")
    for one in ray.owners.api.get(ray.pods)["items"]:
        if one["metadata"]["name"].startswith("train-a"):
            ray.api.delete(f"{ray.pods}/{one['metadata']['name']}")
    ray.owners.wait_used(3)
    assert ray.gpus() == 3
