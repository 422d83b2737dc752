"""GPUs asked for by claim, on a real API server that serves ``resource.k8s.io/v1``."""

from collections.abc import Iterator
from typing import Any

import pytest

from admission.base import names
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.integration.installed import KUEUE, Installed, installed

pytestmark = pytest.mark.controlplane

DRA = "/apis/resource.k8s.io/v1"
GPU = names.GPU_RESOURCE


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with Cluster.start() as cluster, installed(cluster, tmp_path_factory.mktemp("claims")) as it:
        yield it


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
    container = {"name": "main", "image": "train", "resources": {"claims": [{"name": "gpu"}]}}
    return system.create_pod(
        team, name, gpus=None, spec={"resourceClaims": claims, "containers": [container]}
    )


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
    condition = system.wait_condition(team, "second")
    assert condition["reason"] == "WaitingForQuota"
    assert f"{GPU} in flavor {team}, 1 more needed" in condition["message"]

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
    condition = system.wait_condition(team, "train")
    assert condition["reason"] == "Misconfigured"
    assert f"ResourceClaimTemplate late not found in namespace {team}" in condition["message"]

    add_template(system, team, "late", request(team))
    said = f"DeviceClass {team} is not known to hand out GPUs"
    waiting.until(
        lambda: said in (system.condition(team, "train") or {}).get("message", ""),
        what="the class is named",
    )
    selectors = [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]
    body = {"metadata": {"name": team}, "spec": {"selectors": selectors}}
    system.api.post(f"{DRA}/deviceclasses", body)
    system.wait_released(team, "train")
