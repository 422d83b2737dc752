"""Pods that ask by claim while nothing of ours answers, on a real API server (ADR 0084)."""

from collections.abc import Iterator
from typing import Any

import pytest

from admission.base import names
from tests.builders.jobs import make_job
from tests.controlplane import features, waiting
from tests.controlplane.rest import RestError
from tests.integration import snapshot, test_claims
from tests.integration.installed import Installed
from tests.integration.test_claims import DRA

pytestmark = [pytest.mark.controlplane, features.needs_claims]

GATE = {"name": names.ADMISSION_GATE}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with snapshot.started(tmp_path_factory.mktemp("outage")) as it:
        yield it


def create(system: Installed, team: str, name: str, device_class: str) -> Any:
    """A pod that asks by claim alone."""
    test_claims.add_claim(system, team, name, test_claims.request(device_class))
    return test_claims.create_pod(system, team, name, resourceClaimName=name)


def gates(pod: Any) -> list[Any]:
    return list(pod["spec"].get("schedulingGates", []))


def add_network_cards(system: Installed) -> str:
    selectors = [{"cel": {"expression": "device.driver == 'nic.example.com'"}}]
    body = {"metadata": {"name": "nic"}, "spec": {"selectors": selectors}}
    system.api.post(f"{DRA}/deviceclasses", body)
    return "nic"


def create_child_job(system: Installed, team: str) -> Any:
    """A Job that another Job controls, and that asks for no GPU and names no queue."""
    parent = {"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": "1"}
    metadata = {"ownerReferences": [{**parent, "controller": True}]}
    return system.api.post(
        f"/apis/batch/v1/namespaces/{team}/jobs", make_job("child", 1, metadata=metadata)
    )


def run_on(system: Installed, team: str, name: str, node: str) -> None:
    """What the scheduler does for a pod with a claim on the node's first GPU."""
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": node, "device": "gpu-0"}
    pod = system.pod(team, name)
    reserved = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}
    system.api.patch(
        f"{DRA}/namespaces/{team}/resourceclaims/{name}/status",
        {"status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": [reserved]}},
    )
    system.api.post(
        f"/api/v1/namespaces/{team}/pods/{name}/binding",
        {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}},
    )


def test_claims_while_nothing_of_ours_answers(system: Installed) -> None:
    nic = add_network_cards(system)
    team = test_claims.add_published_gpus(system)
    strict = system.add_team(quota=1)
    system.api.patch(
        f"/api/v1/namespaces/{strict}", {"metadata": {"labels": {names.ENFORCE_LABEL: "true"}}}
    )
    system.wait_webhook()
    held = create(system, strict, "held", "gpu.nvidia.com")
    assert gates(held) == [GATE]
    system.stop()

    assert gates(create(system, team, "network", nic)) == []
    with pytest.raises(RestError, match="failed calling webhook"):
        system.create_pod(team, "named", gpus=1)
    assert create_child_job(system, team)["spec"]["suspend"] is False
    with pytest.raises(RestError, match="gpu-admission did not answer"):
        create(system, strict, "refused", "gpu.nvidia.com")
    assert gates(create(system, team, "slipped", "gpu.nvidia.com")) == []
    run_on(system, team, "slipped", team)

    system.start()

    waiting.until(lambda: test_claims.used(system, team) == "1", what="its GPU is charged")
    charged = system.pod(team, "slipped")["metadata"]
    assert charged["labels"][names.QUEUE_LABEL] == "default"
    assert "deletionTimestamp" not in charged
