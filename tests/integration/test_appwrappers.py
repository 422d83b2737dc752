"""AppWrappers on a real API server: what is in one is counted once, with it.

A stand-in for its controller makes the components, as the user under which the real one runs, and
gives them what stands in ``podSetInfos``.
"""

import copy
from collections.abc import Iterator

import pytest

from admission.base import names
from admission.owners import serving
from tests.controlplane import waiting
from tests.controlplane.rest import RestError
from tests.integration import owner_crds
from tests.integration.applied import Json
from tests.integration.test_owners import ROWS, Owners, System
from tests.integration.test_owners import serving as serving_rows

pytestmark = pytest.mark.controlplane

TRAINING = "system:serviceaccount:kubeflow:training-operator"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with serving_rows(tmp_path_factory.mktemp("appwrapper")) as found:
        yield found


def component(owners: Owners, at: int, name: str = "train") -> Json:
    """A component as the AppWrapper's controller makes it."""
    wrapper = owners.get(name)
    wrapped: Json = copy.deepcopy(wrapper["spec"]["components"][at]["template"])
    wrapped["metadata"]["ownerReferences"] = [owners.reference(name)]
    given = wrapper["spec"]["components"][at]["podSetInfos"]
    for template, info in zip(templates_of(wrapped), given, strict=True):
        metadata, spec = template.setdefault("metadata", {}), template["spec"]
        for above, member in (
            (metadata, "labels"),
            (metadata, "annotations"),
            (spec, "nodeSelector"),
        ):
            above[member] = {**above.get(member, {}), **info.get(member, {})}
        spec["tolerations"] = [*spec.get("tolerations", ()), *info.get("tolerations", ())]
    return wrapped


def templates_of(wrapped: Json) -> list[Json]:
    if wrapped["kind"] == "Pod":
        return [wrapped]
    return [one["template"] for one in wrapped["spec"]["pytorchReplicaSpecs"].values()]


def test_what_is_in_an_appwrapper_is_not_held_again(system: System) -> None:
    owners = Owners(system, "AppWrapper", 4)
    before = owners.create()
    started = owners.wait_started()
    workload = owners.workload()
    found = owners.workloads.get(workload)
    sets = [(one["name"], one["count"]) for one in found["spec"]["podSets"]]
    assert sets == [("train-0", 1), ("train-1", 2), ("train-2", 1)]
    templates = [one["template"] for one in started["spec"]["components"]]
    assert templates == [one["template"] for one in before["spec"]["components"]]
    assert "podSetInfos" not in started["spec"]["components"][0]

    controller = system.maker(owners.row)
    jobs = f"/apis/kubeflow.org/v1/namespaces/{owners.team}/pytorchjobs"
    job = component(owners, 1)
    job["metadata"]["labels"] = {names.QUEUE_LABEL: "default"}
    job = controller.post(jobs, job)
    assert not job["spec"].get("runPolicy", {}).get("suspend")
    assert names.QUEUE_LABEL not in job["metadata"].get("labels", {})
    pods = f"/api/v1/namespaces/{owners.team}/pods"
    pod = controller.post(pods, component(owners, 2))
    assert "schedulingGates" not in pod["spec"]
    assert pod["spec"]["nodeSelector"]["nvidia.com/gpu.product"] == "A100"
    reference = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "name": "train",
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    for at, template in enumerate(templates_of(job)):
        metadata = {**template["metadata"], "name": f"p{at}", "ownerReferences": [reference]}
        made = system.makers[TRAINING].post(pods, {"metadata": metadata, "spec": template["spec"]})
        assert "schedulingGates" not in made["spec"]
    waiting.until(lambda: owners.used() == 4, what="charged once")
    assert len(owners.api.get(owners.workloads.path)["items"]) == 1

    more = {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 9}}}}
    with pytest.raises(RestError) as refused:
        system.editor.patch(f"{jobs}/train", more)
    assert "was admitted with other pods" in str(refused.value)
    forged = component(owners, 2)
    forged["metadata"]["name"] = "forged"
    made = system.editor.post(pods, forged)
    assert "schedulingGates" in made["spec"]
    assert names.PODSET_LABEL not in made["metadata"].get("labels", {})


def test_an_appwrapper_cannot_say_that_it_has_fewer_pod_templates(system: System) -> None:
    owners = Owners(system, "AppWrapper", 4)
    manifest = owners.manifest()
    worker = "template.spec.pytorchReplicaSpecs.Worker.template"
    manifest["spec"]["components"][1]["podSets"] = [{"replicas": 2, "path": worker}]
    with pytest.raises(RestError) as refused:
        owners.editor.post(owners.path, manifest)
    assert "must have these paths" in str(refused.value)
    master = worker.replace("Worker", "Master")
    listed = [{"replicas": 2, "path": worker}, {"replicas": 1, "path": master}]
    manifest["spec"]["components"][1]["podSets"] = listed
    owners.editor.post(owners.path, manifest)
    found = owners.workloads.get(owners.workload())
    assert [one["count"] for one in found["spec"]["podSets"]] == [2, 1, 1]


def test_a_cluster_that_scales_by_itself_is_refused_in_an_appwrapper_too(system: System) -> None:
    owners, rays = (Owners(system, kind, 4) for kind in ("AppWrapper", "RayCluster"))
    manifest, cluster = owners.manifest(), rays.manifest()
    cluster["spec"]["enableInTreeAutoscaling"] = True
    manifest["spec"]["components"] = [{"template": cluster}]
    with pytest.raises(RestError) as refused:
        owners.editor.post(owners.path, manifest)
    assert "spec.components[0].template.spec.enableInTreeAutoscaling" in str(refused.value)


def deployment(owners: Owners) -> Json:
    limits = {names.GPU_RESOURCE: "1"}
    container = {"name": "main", "image": "serve", "resources": {"limits": limits}}
    labels = {"app": "serve"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "serve"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }


def test_pods_of_a_deployment_in_an_appwrapper_wait_one_by_one(system: System) -> None:
    owners = Owners(system, "AppWrapper", 4)
    manifest = owners.manifest()
    manifest["metadata"]["labels"] = {names.QUEUE_LABEL: "default"}
    manifest["spec"]["components"] = [{"template": deployment(owners)}]
    manifest["spec"]["suspend"] = True  # as in the example of Kueue's documentation
    made = owners.editor.post(owners.path, manifest)
    assert not made["spec"].get("suspend")
    wrapped = made["spec"]["components"][0]["template"]
    assert wrapped["metadata"]["labels"][names.QUEUE_LABEL] == "default"
    wrapped["metadata"]["ownerReferences"] = [owners.reference()]
    path = f"/apis/apps/v1/namespaces/{owners.team}/deployments"
    wrapped["metadata"].pop("creationTimestamp", None)
    stored = system.installed.api.post(path, wrapped)
    found = stored["spec"]["template"]["metadata"]["labels"]
    assert found[names.QUEUE_LABEL] == "default"


def test_a_leaderworkerset_in_an_appwrapper_is_admitted_replica_by_replica(
    system: System,
) -> None:
    """The example of Kueue's documentation, in GPUs."""
    kind = serving.LEADER_WORKER_SET.kind
    cluster = system.installed.cluster
    owner_crds.install_kind(cluster, kind.group, kind.version, kind.name, kind.plural)
    owners = Owners(system, "AppWrapper", 4)
    limits = {names.GPU_RESOURCE: "1"}
    pod = {"spec": {"containers": [{"name": "a", "image": "a", "resources": {"limits": limits}}]}}
    wrapped = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serve"},
        "spec": {
            "replicas": 2,
            "leaderWorkerTemplate": {"size": 3, "leaderTemplate": pod, "workerTemplate": pod},
        },
    }
    above = "template.spec.leaderWorkerTemplate"
    declared = [
        {"path": f"{above}.leaderTemplate", "replicas": 2},
        {"path": f"{above}.workerTemplate", "replicas": 3},
    ]
    manifest = owners.manifest()
    manifest["metadata"]["labels"] = {names.QUEUE_LABEL: "default"}
    manifest["spec"]["components"] = [{"podSets": declared, "template": wrapped}]
    made = owners.editor.post(owners.path, manifest)
    assert not made["spec"].get("suspend")
    component = made["spec"]["components"][0]["template"]
    assert component["metadata"]["labels"][names.QUEUE_LABEL] == "default"
    component["metadata"].pop("creationTimestamp", None)
    component["metadata"]["ownerReferences"] = [owners.reference()]
    path = f"/apis/leaderworkerset.x-k8s.io/v1/namespaces/{owners.team}/leaderworkersets"
    templates = system.installed.api.post(path, component)["spec"]["leaderWorkerTemplate"]
    for template in (templates["leaderTemplate"], templates["workerTemplate"]):
        metadata = template["metadata"]
        assert metadata["labels"][names.QUEUE_LABEL] == "default"
        assert metadata["annotations"][names.POD_SUSPENDING_PARENT].startswith("leaderworkerset")
    assert owners.api.get(owners.workloads.path)["items"] == []


def test_an_appwrapper_has_failed_when_what_it_made_is_gone(system: System) -> None:
    owners = Owners(system, "AppWrapper", 4)
    owners.create()
    owners.wait_started()
    deployed = {"type": "ResourcesDeployed", "reason": "a", "message": "a"}
    deployed["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    still = {"phase": "Failed", "conditions": [{**deployed, "status": "True"}]}
    owners.say(still)
    owners.say({"phase": "Failed", "conditions": [{**deployed, "status": "False"}]})
    owners.workloads.wait(owners.workload(), "Finished", "True", "Failed")


def test_an_appwrapper_has_the_kinds_that_are_served() -> None:
    components = ROWS["AppWrapper"].components
    assert components is not None
    kinds = {one.kind for one in components.kinds}
    assert {"Job", "Pod", "JobSet", "RayJob", "MPIJob"} <= kinds
    assert "AppWrapper" not in kinds
