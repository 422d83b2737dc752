"""Manifests that users already write, on a real API server: valid ones apply as they are."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from admission.base import names
from tests.builders.cluster import make_limit_range
from tests.builders.pods import make_pod
from tests.builders.queues import make_cluster_queue, make_flavor
from tests.controlplane import waiting
from tests.controlplane.rest import Json, RestError
from tests.gpu import seeds
from tests.integration import snapshot
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

GPU, SHARED = names.GPU_RESOURCE, names.GPU_SHARED_RESOURCE
SLICES = ("nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb")
A100 = "NVIDIA-A100-SXM4-80GB"
NAMESPACES = ("ml-training", "team-training", "team-inference", "gpu-operator")
TEAMS = ("default", "team-training", "team-inference")

PLURALS = {
    "ResourceFlavor": "resourceflavors",
    "LocalQueue": "localqueues",
    "Workload": "workloads",
    "ResourceQuota": "resourcequotas",
    "LimitRange": "limitranges",
    "Device": "devices",
    "ConfigMap": "configmaps",
    "Pod": "pods",
    "Deployment": "deployments",
    "PodGroup": "podgroups",
    "Queue": "queues",
    "Job": "jobs",
    "PyTorchJob": "pytorchjobs",
    "PriorityClass": "priorityclasses",
}
CLUSTER_WIDE = ("ResourceFlavor", "Device", "Queue", "PriorityClass")
OTHERS = ("scheduling.koordinator.sh", "scheduling.volcano.sh", "batch.volcano.sh", "kubeflow.org")

TRAPS = {
    ("ClusterQueue", "gpu-cluster-queue"),
    ("LimitRange", "gpu-default-request"),
    ("Pod", "inference-pod"),
}
"""What is not taken as it stands; each has a test of its own."""

FILES = ("kueue", "namespace-limits", "nodes-and-devices", "pods", "services-and-gangs")
ALL = [document for file in FILES for document in seeds.load(file)]
VALID = [one for one in ALL if (one["kind"], one["metadata"]["name"]) not in TRAPS]


def title(document: Json) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


def definition(document: Json) -> Json:
    """A CRD for an object of a framework that is not installed here; any fields."""
    group, _, version = document["apiVersion"].partition("/")
    kind = document["kind"]
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURALS[kind]}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster" if kind in CLUSTER_WIDE else "Namespaced",
            "names": {"plural": PLURALS[kind], "singular": kind.lower(), "kind": kind},
            "versions": [{**served, "schema": {"openAPIV3Schema": anything}}],
        },
    }


def collection(document: Json) -> str:
    version, kind = document["apiVersion"], document["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = document["metadata"].get("namespace", "default")
    return f"{root}{'' if kind in CLUSTER_WIDE else f'/namespaces/{namespace}'}/{PLURALS[kind]}"


def contains(found: Any, written: Any) -> bool:
    """Whether everything written stands there; lists may be longer, and false may be left out."""
    if isinstance(written, dict):
        return isinstance(found, dict) and all(
            contains(found.get(key, False), value) for key, value in written.items()
        )
    if isinstance(written, list):
        return len(found) >= len(written) and all(map(contains, found, written))
    return str(found) == str(written)


def queue(name: str, resources: tuple[str, ...], **flavors: tuple[str, ...]) -> Json:
    """A ClusterQueue of one group: each flavor has quota for its own devices, CPU and memory."""
    usual = ("cpu", "memory")
    quotas = {
        flavor.replace("_", "-"): {
            one: "8Ti" if one in {*own, *usual} else "0" for one in (*resources, *usual)
        }
        for flavor, own in flavors.items()
    }
    return make_cluster_queue(name, quotas=quotas)


def flavor(name: str, product: str, **marks: str) -> Json:
    annotations = {f"{names.OWN_DOMAIN}/{key}": value for key, value in marks.items()}
    labels = {names.GPU_PRODUCT_LABEL: product, "pool": name}
    return make_flavor(name, annotations=annotations, node_labels=labels, tolerations=[])


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with snapshot.prepared(tmp_path_factory.mktemp("seeds"), Installed) as it:
        cluster = it.cluster
        for crd in {one["metadata"]["name"]: one for one in map(definition, foreign())}.values():
            cluster.api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        for path in {collection(document) for document in foreign()}:
            waiting.until(partial(cluster.api.answers, path), what=f"{path} served")
        it.start()
        prepare(it)
        yield it


def foreign() -> Iterator[Json]:
    """Objects of frameworks that are not installed here."""
    return (one for one in ALL if one["apiVersion"].startswith(OTHERS))


def prepare(system: Installed) -> None:
    """Namespaces, two queues (A100s whole and cut; shared T4s), and who uses which."""
    for name in NAMESPACES:
        system.api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    for made in (
        flavor("whole", A100),
        flavor("cut", A100),
        flavor("timed", "Tesla-T4", sharing="time-slicing", replicas="4"),
    ):
        system.api.post(f"{KUEUE}/resourceflavors", made)
    for made in (
        queue("trainers", (GPU, *SLICES), whole=(GPU,), cut=SLICES),
        queue("sharers", (SHARED,), timed=(SHARED,)),
    ):
        system.api.post(f"{KUEUE}/clusterqueues", made)
    for team in TEAMS:
        system.add_local_queue(team, "trainers")
        system.wait_for_queue(team)


def team(system: Installed, queue: str = "trainers") -> str:
    """Another namespace with a queue."""
    name: str = system.cluster.create_namespace("seeds")
    system.add_local_queue(name, queue)
    system.wait_for_queue(name)
    return name


def create(system: Installed, document: Json, namespace: str = "") -> tuple[Json, list[str]]:
    """The object as stored, and the warnings that kubectl would print."""
    if namespace:
        metadata = {**document["metadata"], "namespace": namespace}
        document = {**document, "metadata": metadata}
    return system.api.post_warned(collection(document), document)


@pytest.mark.parametrize("document", VALID, ids=title)
def test_a_valid_manifest_applies_unchanged(system: Installed, document: Json) -> None:
    stored, _ = create(system, document)
    version = {"apiVersion": stored["apiVersion"]}
    assert contains(stored, {**document, **version})


@pytest.mark.parametrize("document", [d for d in VALID if d["kind"] == "Pod"], ids=title)
def test_a_valid_pod_is_held_for_its_queue(system: Installed, document: Json) -> None:
    stored, warnings = create(system, document, team(system))
    assert stored["spec"]["schedulingGates"] == [{"name": names.ADMISSION_GATE}]
    assert stored["metadata"]["labels"][names.QUEUE_LABEL] == "default"
    assert warnings == []


def test_trap_a_borrowing_limit_without_a_cohort_is_refused(system: Installed) -> None:
    document = seeds.named("kueue", "ClusterQueue", "gpu-cluster-queue")
    with pytest.raises(RestError, match="borrowingLimit must be nil when cohort is empty"):
        system.api.post("/apis/kueue.x-k8s.io/v1beta1/clusterqueues", document)


def test_trap_01_and_13_the_seed_pod_gets_a_share_and_is_told_of_both(system: Installed) -> None:
    document = seeds.named("pods", "Pod", "inference-pod")
    stored, warnings = create(system, document, team(system, "sharers"))
    (container,) = stored["spec"]["containers"]
    assert container["resources"]["limits"] == {SHARED: "1"}
    assert any(f"offers {SHARED}, not {GPU}" in text for text in warnings)

    del document["spec"]["containers"][0]["resources"]
    _, warnings = create(system, document, system.cluster.create_namespace("seeds"))
    assert any("NVIDIA_VISIBLE_DEVICES" in text for text in warnings)


def test_trap_05_a_slice_that_the_card_lacks_is_refused(system: Installed) -> None:
    document = seeds.named("pods", "Pod", "mig-inference-pod")
    document["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/mig-1g.5gb": "7"}
    with pytest.raises(RestError, match=r"A100-80GB has no profile 1g\.5gb"):
        create(system, document, team(system))


def test_trap_07_a_compute_instance_is_refused(system: Installed) -> None:
    document = seeds.named("pods", "Pod", "mig-demo-pod")
    document["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/mig-1c.3g.40gb": "1"}
    with pytest.raises(RestError, match=r"is a compute instance inside 3g\.40gb"):
        create(system, document, team(system))


def test_trap_08_the_seed_quota_counts_no_limits_and_pods_are_told(system: Installed) -> None:
    space = team(system)
    create(system, seeds.named("namespace-limits", "ResourceQuota", "gpu-quota"), space)
    pod = seeds.named("pods", "Pod", "llama2-training")

    def told() -> bool:
        pod["metadata"]["name"] += "x"
        _, warnings = create(system, pod, space)
        return any("limits.nvidia.com/gpu" in text and "(T8)" in text for text in warnings)

    waiting.until(told, what="the webhook knows the quota")


def test_trap_09_two_items_of_one_type_are_refused(system: Installed) -> None:
    document = seeds.named("namespace-limits", "LimitRange", "gpu-default-request")
    with pytest.raises(RestError) as caught:
        create(system, document, system.cluster.create_namespace("seeds"))
    assert "Duplicate value" in json.loads(caught.value.body)["message"]


def limits_of(name: str) -> list[Json]:
    found: list[Json] = seeds.named("namespace-limits", "LimitRange", name)["spec"]["limits"]
    return found


@pytest.mark.parametrize(
    ("items", "rule"),
    [
        (limits_of("gpu-limit"), "T10"),
        (limits_of("gpu-default-request")[:1], "T11"),
    ],
    ids=["trap 10", "trap 11"],
)
def test_trap_10_and_11_a_container_that_asks_for_nothing_gets_gpus_and_is_told(
    system: Installed, items: list[Json], rule: str
) -> None:
    space = team(system)
    create(system, make_limit_range("gpus", *items), space)
    pod = make_pod("p")

    def told() -> bool:
        pod["metadata"]["name"] += "x"
        stored, warnings = create(system, pod, space)
        limits = stored["spec"]["containers"][0].get("resources", {}).get("limits", {})
        return GPU in limits and any(f"({rule})" in text for text in warnings)

    waiting.until(told, what="the LimitRange is known to the API server and to the webhook")


@pytest.mark.parametrize(
    ("file", "kind", "path"),
    [
        ("services-and-gangs", "Deployment", ("spec", "template")),
        ("services-and-gangs", "Job", ("spec", "tasks", 0, "template")),
        ("services-and-gangs", "PyTorchJob",
         ("spec", "pytorchReplicaSpecs", "Worker", "template")),
    ],
    ids=["Deployment", "Volcano Job", "PyTorchJob"],
)  # fmt: skip
def test_the_pods_that_a_controller_makes_of_a_manifest_are_held(
    system: Installed, file: str, kind: str, path: tuple[str | int, ...]
) -> None:
    template: Any
    (template,) = (one for one in seeds.load(file) if one["kind"] == kind)
    for step in path:
        template = template[step]
    metadata = {**template.get("metadata", {}), "name": "worker-0"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    stored, warnings = create(system, pod, team(system))
    assert contains(stored["spec"]["containers"], template["spec"]["containers"])
    assert stored["spec"]["schedulingGates"] == [{"name": names.ADMISSION_GATE}]
    assert [text for text in warnings if "rdma/" not in text] == []
