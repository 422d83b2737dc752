"""GPUs by DRA as a user with the role ``edit`` can ask for them, on a real API server."""

from typing import Any, Final

import pytest

from admission.base import names
from tests.builders.pods import make_pod
from tests.controlplane import features, waiting
from tests.controlplane.rest import Rest
from tests.integration import teams, test_claims
from tests.integration.installed import Installed
from tests.integration.test_claims import DRA, request

pytestmark = [pytest.mark.controlplane, features.needs_claims]

FOREIGN: Final = "example.com/mine"
OF_DRIVER: Final = "device.driver == 'gpu.nvidia.com'"
PROFILE: Final = "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'"


@pytest.fixture(scope="module")
def system(whole_installation: Installed) -> Installed:
    return whole_installation


@pytest.fixture(scope="module")
def editor(system: Installed) -> Rest:
    found = teams.add_editor(system)
    add_class(system, "gpu.nvidia.com", OF_DRIVER)
    add_class(system, "mig.nvidia.com", OF_DRIVER)
    add_class(system, "gold", OF_DRIVER, extendedResourceName="example.com/gold")
    add_class(
        system, "nic", "device.driver == 'nic.example.com'", extendedResourceName="example.com/nic"
    )
    return found


def add_class(system: Installed, name: str, selector: str, **spec: Any) -> None:
    selectors = [{"cel": {"expression": selector}}]
    body = {"metadata": {"name": name}, "spec": {"selectors": selectors, **spec}}
    system.api.post(f"{DRA}/deviceclasses", body)


def add_claim(editor: Rest, team: str, name: str, *requests: dict[str, Any]) -> None:
    body = {"metadata": {"name": name}, "spec": {"devices": {"requests": list(requests)}}}
    editor.post(f"{DRA}/namespaces/{team}/resourceclaims", body)


def create_pod(editor: Rest, team: str, name: str, **pod: Any) -> Any:
    return editor.post(f"/api/v1/namespaces/{team}/pods", make_pod(name, **pod))


def create_claiming_pod(editor: Rest, team: str, name: str, claim: str, **pod: Any) -> Any:
    claims = [{"name": "gpu", "resourceClaimName": claim}]
    container = {"resources": {"claims": [{"name": "gpu"}]}}
    return create_pod(editor, team, name, resourceClaims=claims, container=container, **pod)


@pytest.mark.parametrize(
    "resource",
    [
        f"{names.IMPLICIT_CLASS_PREFIX}gold",
        pytest.param("example.com/gold", marks=features.needs_names_of_classes),
    ],
    ids=["class", "name"],
)
@pytest.mark.parametrize("enforced", [False, True], ids=["", "enforced"])
def test_req_27_gpus_by_a_name_that_a_class_answers_are_counted(
    system: Installed, editor: Rest, resource: str, enforced: bool
) -> None:
    team = system.add_team(quota=4)
    if enforced:
        label = {"metadata": {"labels": {names.ENFORCE_LABEL: "true"}}}
        system.api.patch(f"/api/v1/namespaces/{team}", label)
        system.wait_webhook()
    limits = {resource: "4"}
    for name in ("first", "second"):
        create_pod(editor, team, name, limits=limits)
    waiting.until(lambda: test_claims.used(system, team) == "4", what="four GPUs in use")
    waiting.until(
        lambda: [system.is_gated(team, name) for name in ("first", "second")].count(False) == 1,
        what="one of two pods released",
    )


def test_req_27_a_name_that_a_class_of_other_devices_answers_needs_no_quota(
    system: Installed, editor: Rest
) -> None:
    team = system.add_team(quota=1)
    for resource in (f"{names.IMPLICIT_CLASS_PREFIX}nic", "example.com/nic", "example.com/none"):
        name = resource.replace("/", "-").replace(".", "-")
        create_pod(editor, team, name, limits={resource: "1"})
        system.wait_released(team, name)
    assert test_claims.used(system, team) == "0"


@pytest.mark.parametrize("device_class", ["gpu.nvidia.com", "mig.nvidia.com", "gold"])
def test_req_27_a_comment_in_a_selector_makes_no_gpu_cheaper(
    system: Installed, editor: Rest, device_class: str
) -> None:
    team = system.add_team(quota=4)
    selectors = [{"cel": {"expression": f"true // {PROFILE}"}}]
    add_claim(editor, team, "seven", request(device_class, selectors=selectors, count=7))
    create_claiming_pod(editor, team, "train", "seven")
    condition = system.wait_condition(team, "train")
    assert condition["status"] == "False"
    assert system.is_gated(team, "train")


def test_req_27_a_charge_does_not_move_into_a_queue_that_is_full(
    system: Installed, editor: Rest
) -> None:
    team, other = system.add_team(quota=4), system.add_team(quota=4)
    system.add_local_queue(team, other, "second")
    system.wait_for_queue(team, "second")
    label = {"labels": {names.QUEUE_LABEL: "second"}}
    add_claim(editor, team, "shared", request(count=4))
    create_claiming_pod(editor, team, "maker", "shared")
    system.wait_released(team, "maker")
    create_pod(editor, team, "full", limits={names.GPU_RESOURCE: "4"}, **label)
    system.wait_released(team, "full")
    create_claiming_pod(editor, team, "sharer", "shared", **label)
    condition = system.wait_condition(team, "sharer")
    assert condition["reason"] == "WaitingForQuota"
    system.delete_pod(team, "full")
    system.wait_released(team, "sharer")
    waiting.until(lambda: test_claims.used(system, other) == "4", what="the sharer is charged")


def add_published_node(system: Installed, team: str, gpus: int) -> None:
    """A node on which NVIDIA's driver has published some GPUs."""
    system.cluster.add_gpu_node(team, gpus=0, labels={names.GPU_PRODUCT_LABEL: "A100"})
    devices = [
        {"name": f"gpu-{gpu}", "attributes": {"type": {"string": "gpu"}}} for gpu in range(gpus)
    ]
    spec = {
        "driver": "gpu.nvidia.com",
        "nodeName": team,
        "pool": {"name": team, "generation": 1, "resourceSliceCount": 1},
        "devices": devices,
    }
    system.api.post(f"{DRA}/resourceslices", {"metadata": {"name": team}, "spec": spec})


@pytest.mark.parametrize("enforced", [False, True], ids=["charged", "enforced"])
def test_req_27_gpus_in_place_of_a_network_card_are_charged(
    system: Installed, editor: Rest, enforced: bool
) -> None:
    """The user holds the pod by a gate of their own until the claim is another one."""
    team = system.add_team(quota=1)
    add_published_node(system, team, gpus=3)
    labels = {names.ENFORCE_LABEL: str(enforced).lower()}
    system.api.patch(f"/api/v1/namespaces/{team}", {"metadata": {"labels": labels}})
    system.wait_webhook()
    claim = f"{DRA}/namespaces/{team}/resourceclaims/net"
    pod = f"/api/v1/namespaces/{team}/pods/held"
    node = {"nodeSelector": {"kubernetes.io/hostname": team}}
    add_claim(editor, team, "net", request("nic"))
    create_claiming_pod(editor, team, "held", "net", gates=[FOREIGN], **node)
    waiting.until(
        lambda: editor.get(pod)["spec"]["schedulingGates"] == [{"name": FOREIGN}],
        what="the pod is let go",
    )
    editor.delete(claim)
    waiting.until(lambda: not editor.answers(claim), what="the claim is gone")
    add_claim(editor, team, "net", request(count=3))
    editor.patch(pod, {"spec": {"schedulingGates": []}})
    if enforced:
        waiting.until(lambda: not system.api.answers(pod), what="the pod is stopped")
        waiting.until(lambda: test_claims.used(system, team) == "0", what="nothing is held")
    else:
        waiting.until(lambda: test_claims.used(system, team) == "3", what="its GPUs are charged")
        assert system.pod(team, "held")["metadata"]["labels"][names.QUEUE_LABEL] == "default"
