"""Kinds of other tools get quota with the queue's label where docs/reference/owners.md says.

Each file of ``tools`` has an object as users write it, and what its controller makes of it, which
stands here for that controller. With OWNER_CRDS the object is checked by the real CRD of the tool
(`tests.integration.owner_crds`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from admission.base import names
from tests.controlplane import waiting
from tests.controlplane.rest import Json
from tests.integration import owner_crds, snapshot
from tests.integration.installed import KUEUE, Installed
from tests.repo import tree

pytestmark = pytest.mark.controlplane

FOLDER: Final = Path(__file__).parent / "tools"
TOOLS: Final = {
    path.stem: list(yaml.safe_load_all(path.read_text())) for path in sorted(FOLDER.iterdir())
}
EVERY = pytest.mark.parametrize("tool", TOOLS)
PATHS: Final = {
    "Deployment": "/apis/apps/v1/namespaces/{0}/deployments",
    "Job": "/apis/batch/v1/namespaces/{0}/jobs",
    "Pod": "/api/v1/namespaces/{0}/pods",
}
GPUS: Final = 2
"""That each of them asks for, in all."""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with snapshot.prepared(tmp_path_factory.mktemp("tools"), Installed, whole=True) as it:
        for written, _ in TOOLS.values():
            group, version = written["apiVersion"].split("/")
            kind = written["kind"]
            owner_crds.install_kind(it.cluster, group, version, kind, f"{kind.lower()}s")
        it.cluster.add_gpu_node("gpus", gpus=8, labels={"nvidia.com/gpu.product": "A100"})
        it.start()
        yield it


def queue_label(value: Any) -> list[str]:
    """Paths of the queue's label in an object."""
    if isinstance(value, list):
        return [path for item in value for path in queue_label(item)]
    if not isinstance(value, dict):
        return []
    if names.QUEUE_LABEL in value:
        return [""]
    return [
        f".{key}{'[*]' if isinstance(item, list) else ''}{path}"
        for key, item in value.items()
        for path in queue_label(item)
    ]


def admitted_gpus(system: Installed, namespace: str) -> int:
    """GPUs that Workloads of a namespace hold."""
    found = system.api.get(f"{KUEUE}/namespaces/{namespace}/workloads")["items"]
    return sum(
        int(pod_set.get("resourceUsage", {}).get(names.GPU_RESOURCE, "0"))
        for workload in found
        for pod_set in workload.get("status", {}).get("admission", {}).get("podSetAssignments", ())
    )


@EVERY
def test_the_page_says_where_the_label_goes(tool: str) -> None:
    written, _ = TOOLS[tool]
    (path,) = queue_label(written)
    page = (tree.ROOT / "docs" / "reference" / "owners.md").read_text()
    row = f"| {written['kind']} | `{written['apiVersion']}` | `{path.removeprefix('.')}` |"
    assert row in page


@EVERY
def test_its_pods_wait_for_quota_and_hold_it(system: Installed, tool: str) -> None:
    written, made = TOOLS[tool]
    team = system.add_team(quota=GPUS)
    group, version = written["apiVersion"].split("/")
    path = f"/apis/{group}/{version}/namespaces/{team}/{written['kind'].lower()}s"
    system.api.post(f"{path}?fieldValidation=Strict", written)

    system.create_pod(team, "before", gpus=1)
    system.wait_released(team, "before")
    collection = PATHS[made["kind"]].format(team)
    system.api.post(collection, made)
    if made["kind"] == "Pod":
        take_other_gates_off(system, team, made["metadata"]["name"])
    waiting.until(lambda: waits(system, team, made), what=f"{tool} waits")
    system.api.delete(f"{PATHS['Pod'].format(team)}/before")
    waiting.until(lambda: admitted_gpus(system, team) == GPUS, what=f"{tool} has its quota")
    waiting.until(lambda: not is_held(system, team, made), what=f"{tool} is released")
    system.api.delete(f"{collection}/{made['metadata']['name']}?propagationPolicy=Foreground")
    waiting.until(lambda: admitted_gpus(system, team) == 0, what=f"{tool} gave its quota back")


def take_other_gates_off(system: Installed, namespace: str, name: str) -> None:
    """Does what the tool does once its pod may be scheduled; only then the pod gets quota."""
    system.wait_condition(namespace, name, "GatedByOthers")
    ours = {"schedulingGates": [{"name": names.ADMISSION_GATE}]}
    path = f"{PATHS['Pod'].format(namespace)}/{name}"
    system.api.patch(path, {"spec": ours})


def waits(system: Installed, namespace: str, made: Json) -> bool:
    """Whether some of it is held, and all of it has a Workload that waits or was admitted."""
    found = system.api.get(f"{KUEUE}/namespaces/{namespace}/workloads")["items"]
    pods = sum(pod_set["count"] for workload in found for pod_set in workload["spec"]["podSets"])
    wanted = made["spec"].get("parallelism") or made["spec"].get("replicas") or 1
    return pods == wanted + 1 and is_held(system, namespace, made)


def is_held(system: Installed, namespace: str, made: Json) -> bool:
    """Whether a Job is suspended, or a pod has our gate."""
    if made["kind"] == "Job":
        path = f"{PATHS['Job'].format(namespace)}/{made['metadata']['name']}"
        return bool(system.api.get(path)["spec"]["suspend"])
    pods = system.api.get(PATHS["Pod"].format(namespace))["items"]
    gates = [
        gate["name"]
        for pod in pods
        if pod["metadata"]["name"] != "before"
        for gate in pod["spec"].get("schedulingGates", ())
    ]
    return not pods or names.ADMISSION_GATE in gates
