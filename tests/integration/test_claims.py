"""GPUs asked for by claim, on a real API server that serves ``resource.k8s.io/v1``."""

from typing import Any

import pytest

from admission.base import conditions, names
from tests.controlplane import features, waiting
from tests.integration import queued
from tests.integration.installed import KUEUE, Installed

pytestmark = [pytest.mark.controlplane, features.needs_claims]

DRA = "/apis/resource.k8s.io/v1"
GPU = names.GPU_RESOURCE


@pytest.fixture(scope="module")
def system(installation: Installed) -> Installed:
    return installation


def request(device_class: str = "gpu.nvidia.com", **exactly: Any) -> dict[str, Any]:
    return {"name": "gpu", "exactly": {"deviceClassName": device_class, **exactly}}


def add_template(system: Installed, team: str, name: str, *requests: dict[str, Any]) -> None:
    spec = {"spec": {"devices": {"requests": list(requests)}}}
    path = f"{DRA}/namespaces/{team}/resourceclaimtemplates"
    system.api.post(path, {"metadata": {"name": name}, "spec": spec})


def add_claim(system: Installed, team: str, name: str, *requests: dict[str, Any]) -> None:
    spec = {"devices": {"requests": list(requests)}}
    path = f"{DRA}/namespaces/{team}/resourceclaims"
    system.api.post(path, {"metadata": {"name": name}, "spec": spec})


def create_pod(system: Installed, team: str, name: str, **reference: str) -> Any:
    """A pod whose only way to a GPU is a claim."""
    claims = [{"name": "gpu", **reference}]
    container = {"resources": {"claims": [{"name": "gpu"}]}}
    return system.create_pod(team, name, gpus=None, container=container, resourceClaims=claims)


def used(system: Installed, team: str) -> str:
    """GPUs that the status of the team's ClusterQueue says are in use."""
    status = system.api.get(f"{KUEUE}/clusterqueues/{team}").get("status", {})
    amounts = [r["total"] for one in status.get("flavorsUsage", []) for r in one["resources"]]
    return amounts[0] if amounts else "0"


def test_req_27_a_pod_with_a_claim_template_is_held_and_counted(system: Installed) -> None:
    team = system.add_team(quota=3)
    add_template(system, team, "two", request(count=2))
    created = create_pod(system, team, "first", resourceClaimTemplateName="two")
    assert created["spec"]["schedulingGates"] == [{"name": names.ADMISSION_GATE}]

    released = system.wait_released(team, "first")
    assert released["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": "A100"}
    waiting.until(lambda: used(system, team) == "2", what="two GPUs in use")
    create_pod(system, team, "second", resourceClaimTemplateName="two")
    condition = system.wait_condition(team, "second", "WaitingForQuota")
    assert condition["message"].startswith(f"Waits: needs 2 {team}, ")

    system.delete_pod(team, "first")
    system.wait_released(team, "second")


def test_req_27_pods_that_share_a_claim_are_counted_once_until_the_last_has_gone(
    system: Installed,
) -> None:
    team = system.add_team(quota=1)
    add_claim(system, team, "shared", request())
    for name in ("first", "second"):
        create_pod(system, team, name, resourceClaimName="shared")
        system.wait_released(team, name)
    system.create_pod(team, "third")
    system.wait_condition(team, "third")

    system.delete_pod(team, "first")
    create_pod(system, team, "fourth", resourceClaimName="shared")
    system.wait_released(team, "fourth")
    assert system.is_gated(team, "third")
    for name in ("second", "fourth"):
        system.delete_pod(team, name)
    system.wait_released(team, "third")


def test_req_27_admin_access_is_not_counted(system: Installed) -> None:
    team = system.add_team(quota=1)
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    system.api.patch(f"/api/v1/namespaces/{team}", label)
    watch = request(adminAccess=True, allocationMode="All")
    add_template(system, team, "watch", watch)
    create_pod(system, team, "monitor", resourceClaimTemplateName="watch")
    system.wait_released(team, "monitor")
    system.create_pod(team, "train")
    system.wait_released(team, "train")


def test_a_missing_template_and_an_unknown_class_are_named_and_repaired(
    system: Installed,
) -> None:
    team = system.add_team(quota=1)
    create_pod(system, team, "train", resourceClaimTemplateName="late")
    condition = system.wait_condition(team, "train", "ResourceClaimUnknown")
    assert f"ResourceClaimTemplate late not found in namespace {team}" in condition["message"]

    add_template(system, team, "late", request(team))
    said = f"DeviceClass {team} not found"
    waiting.until(
        lambda: said in (system.condition(team, "train") or {}).get("message", ""),
        what="the class is named",
    )
    selectors = [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]
    body = {"metadata": {"name": team}, "spec": {"selectors": selectors}}
    system.api.post(f"{DRA}/deviceclasses", body)
    system.wait_released(team, "train")


def test_req_27_the_implicit_name_of_a_class_is_held_and_counted_as_the_plugins(
    system: Installed,
) -> None:
    team = system.add_team(quota=1)
    amounts = {f"{names.IMPLICIT_CLASS_PREFIX}gpu.nvidia.com": "1"}
    container = {"resources": {"requests": amounts, "limits": amounts}}
    system.create_pod(team, "first", gpus=None, container=container)
    system.wait_released(team, "first")
    system.create_pod(team, "second")
    system.wait_condition(team, "second", text=f"Waits: needs 1 {team}, 0 free of ")


def test_a_claim_for_another_device_does_not_hold_a_pod(system: Installed) -> None:
    team = system.add_team(quota=1)
    nic = f"{team}-nic"
    selectors = [{"cel": {"expression": "device.driver == 'nic.example.com'"}}]
    body = {"metadata": {"name": nic}, "spec": {"selectors": selectors}}
    system.api.post(f"{DRA}/deviceclasses", body)
    add_template(system, team, "nic", request(nic))
    create_pod(system, team, "web", resourceClaimTemplateName="nic")
    released = system.wait_released(team, "web")
    assert names.MANAGED_LABEL not in released["metadata"].get("labels", {})


def published(gpu: int, name: str, taken: range, profile: str = "") -> dict[str, Any]:
    """A device as NVIDIA's driver publishes it."""
    attributes: dict[str, Any] = {
        "type": {"string": "mig" if profile else "gpu"},
        "productName": {"string": "NVIDIA A100-SXM4-80GB"},
        "minor": {"int": gpu},
    }
    if profile:
        attributes["profile"] = {"string": profile}
    counters = {f"memory-slice-{index}": {"value": "1"} for index in taken}
    return {
        "name": name,
        "attributes": attributes,
        "capacity": {"memory": {"value": "80Gi"}},
        "consumesCounters": [{"counterSet": f"gpu-{gpu}", "counters": counters}],
    }


def add_published_gpus(system: Installed) -> str:
    """A queue for 4 GPUs, and a node whose driver has published 2; both have the same name."""
    team = system.cluster.create_namespace("team")
    system.add_flavor(team, product=team)
    system.add_cluster_queue(team, quota=4, flavors=(team,))
    system.add_local_queue(team, team)
    system.api.post(
        "/api/v1/nodes", {"metadata": {"name": team, "labels": {names.GPU_PRODUCT_LABEL: team}}}
    )
    system.api.patch(f"/api/v1/nodes/{team}", {"spec": {"taints": None}})
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    system.api.patch(f"/api/v1/nodes/{team}/status", {"status": status})
    pool = {"name": team, "generation": 1, "resourceSliceCount": 2}
    common = {"driver": "gpu.nvidia.com", "nodeName": team, "pool": pool}
    whole = {f"memory-slice-{index}": {"value": "1"} for index in range(8)}
    devices = [
        published(gpu, f"gpu-{gpu}{suffix}", taken, profile)
        for gpu in range(2)
        for suffix, taken, profile in (
            ("", range(8), ""),
            ("-mig-3g40gb-0", range(4), "3g.40gb"),
            ("-mig-3g40gb-4", range(4, 8), "3g.40gb"),
        )
    ]
    sets = [{"name": f"gpu-{gpu}", "counters": whole} for gpu in range(2)]
    for suffix, spec in (
        ("counters", {"sharedCounters": sets}),
        ("devices", {"devices": devices}),
    ):
        body = {"metadata": {"name": f"{team}-{suffix}"}, "spec": {**common, **spec}}
        system.api.post(f"{DRA}/resourceslices", body)
    return team


def test_req_28_published_devices_are_the_capacity_of_a_node(system: Installed) -> None:
    team = add_published_gpus(system)

    def told() -> str:
        found = system.api.get(f"{KUEUE}/clusterqueues/{team}").get("status", {})
        said = {c["type"]: c["message"] for c in found.get("conditions", [])}
        return str(said.get(conditions.CAPACITY_SUFFICIENT, ""))

    said = f"{GPU} in flavor {team}: quota promises 4, 2 exist (2 healthy)"
    waiting.until(lambda: said in told(), what="two published GPUs in the condition")


# ------------------------------------------------------------- claims that become other claims


def swap(system: Installed, team: str, name: str, kind: str = "resourceclaims") -> None:
    """What a user with the role edit can do: the same name, for eight devices."""
    path = f"{DRA}/namespaces/{team}/{kind}"
    metadata = {"metadata": {"finalizers": None}}
    system.api.patch(f"{path}/{name}", metadata)
    system.api.delete(f"{path}/{name}")
    waiting.until(lambda: not system.api.answers(f"{path}/{name}"), what="the claim is gone")
    if kind == "resourceclaims":
        add_claim(system, team, name, request(count=8))
    else:
        add_template(system, team, name, request(count=8))


def is_released(system: Installed, team: str) -> bool:
    """Whether the pod has no gate; nothing binds it, as no scheduler runs here."""
    pod = pod_or_none(system, team)
    return pod is not None and not pod["spec"].get("schedulingGates")


def is_reserved(system: Installed, team: str) -> bool:
    """Whether the only Workload of the team holds quota."""
    found = system.api.get(f"{KUEUE}/namespaces/{team}/workloads")["items"]
    return any("admission" in one.get("status", {}) for one in found)


def pod_or_none(system: Installed, team: str) -> Any:
    pods = system.api.get(f"/api/v1/namespaces/{team}/pods")["items"]
    return next((pod for pod in pods if pod["metadata"]["name"] == "unbound"), None)


@pytest.mark.parametrize("kind", ["resourceclaims", "resourceclaimtemplates"])
def test_a_released_pod_whose_claim_becomes_a_larger_one_is_stopped(
    system: Installed, kind: str
) -> None:
    """No node has the pod yet."""
    team = system.add_team(quota=1)
    if kind == "resourceclaims":
        add_claim(system, team, "gpu", request())
        create_pod(system, team, "unbound", resourceClaimName="gpu")
    else:
        add_template(system, team, "gpu", request())
        create_pod(system, team, "unbound", resourceClaimTemplateName="gpu")
    waiting.until(lambda: is_released(system, team), what="the pod is released")
    swap(system, team, "gpu", kind)
    waiting.until(lambda: pod_or_none(system, team) is None, what="the pod is stopped")


def test_a_claim_that_becomes_an_equal_one_stops_nothing(system: Installed) -> None:
    team = system.add_team(quota=8)
    add_claim(system, team, "gpu", request(count=8))
    create_pod(system, team, "unbound", resourceClaimName="gpu")
    waiting.until(lambda: is_released(system, team), what="the pod is released")
    uid = system.pod(team, "unbound")["metadata"]["uid"]
    swap(system, team, "gpu")
    other = system.add_team(quota=1)
    system.create_pod(other, "probe")
    system.wait_released(other, "probe")
    assert system.pod(team, "unbound")["metadata"]["uid"] == uid
    assert "deletionTimestamp" not in system.pod(team, "unbound")["metadata"]


def test_a_claim_in_place_of_the_generated_one_does_not_exceed_its_template(
    system: Installed,
) -> None:
    """Whoever makes claims may name a pod as their owner."""
    team = system.add_team(quota=1)
    add_template(system, team, "one", request())
    create_pod(system, team, "unbound", resourceClaimTemplateName="one")
    waiting.until(lambda: is_released(system, team), what="the pod is released")
    pod = system.pod(team, "unbound")["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "unbound", "uid": pod["uid"]}
    metadata = {
        "name": "unbound-gpu-x",
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
        "ownerReferences": [{**owner, "controller": True}],
    }
    spec = {"devices": {"requests": [request(count=8)]}}
    path = f"{DRA}/namespaces/{team}/resourceclaims"
    system.api.post(path, {"metadata": metadata, "spec": spec})
    waiting.until(lambda: pod_or_none(system, team) is None, what="the pod is stopped")


def test_a_claim_that_becomes_a_larger_one_before_the_release_is_charged_anew(
    system: Installed,
) -> None:
    """An admission check holds the pod between decision and release."""
    queued.add_check(system, "slow")
    team = system.add_team(quota=1, **queued.asking_for("slow"))
    add_claim(system, team, "gpu", request())
    create_pod(system, team, "unbound", resourceClaimName="gpu")
    waiting.until(lambda: is_reserved(system, team), what="one GPU reserved")
    swap(system, team, "gpu")
    waiting.until(lambda: not is_reserved(system, team), what="the reservation is withdrawn")
    condition = system.wait_condition(team, "unbound")
    assert not is_released(system, team)
    assert condition["status"] == "False"
