"""The pause of admission on a real API server: who waits says why, and is admitted afterwards."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.config import files
from tests.controlplane import waiting
from tests.integration import snapshot
from tests.integration.applied import Workloads
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

WHY = "Waits: admission is paused by an administrator"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with snapshot.prepared(tmp_path_factory.mktemp("paused"), Installed) as it:
        yield it


@pytest.fixture(autouse=True)
def stopped(system: Installed) -> Iterator[None]:
    """Whatever a test left running serves nobody else."""
    yield
    system.stop()


@pytest.mark.parametrize("by_file", [False, True], ids=["flag", "file"])
def test_a_pod_waits_while_admission_is_paused_and_is_admitted_afterwards(
    system: Installed, tmp_path: Path, *, by_file: bool
) -> None:
    paused = ["--pause-admission"]
    if by_file:
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump(files.gpu(admission="Paused")))
        paused = ["--config", str(file)]
    system.start()
    team = system.add_team(2)
    system.create_pod(team, "before")
    system.wait_released(team, "before")
    system.stop()

    system.start(*paused)
    assert system.page(system.metrics_url, "/readyz") == (
        200,
        "ok: admission is paused by the administrator\n",
    )
    assert "gpu_admission_paused 1.0" in system.page(system.metrics_url, "/metrics")[1]
    system.create_pod(team, "train")
    condition = system.wait_condition(team, "train", "AdmissionPaused")
    assert condition["status"] == "False"
    assert condition["message"].startswith(WHY)
    path = f"{KUEUE}/clusterqueues/{team}"

    def counted() -> bool:
        status = system.api.get(path)["status"]
        return (status.get("pendingWorkloads"), status.get("admittedWorkloads")) == (1, 1)

    waiting.until(counted, what="the ClusterQueue counts who waits and who was admitted")
    conditions = {
        one["type"]: one["status"] for one in system.api.get(path)["status"]["conditions"]
    }
    assert conditions["Active"] == "True"
    workloads = Workloads(system, team)
    pending = [one for one in system.api.get(workloads.path)["items"] if "admission" not in
               one.get("status", {})]  # fmt: skip
    (name,) = (one["metadata"]["name"] for one in pending)
    workloads.wait(name, "QuotaReserved", "False", "AdmissionPaused")
    finished_is_counted_while_paused(system, team)
    assert system.is_gated(team, "train")
    system.stop()

    system.start()
    assert system.page(system.metrics_url, "/readyz") == (200, "ok\n")
    assert "gpu_admission_paused 0.0" in system.page(system.metrics_url, "/metrics")[1]
    system.wait_released(team, "train")
    system.stop()


def finished_is_counted_while_paused(system: Installed, team: str) -> None:
    """What was admitted before ends as ever, and gives its quota back."""
    system.api.patch(
        f"/api/v1/namespaces/{team}/pods/before/status", {"status": {"phase": "Succeeded"}}
    )

    def returned() -> bool:
        status = system.api.get(f"{KUEUE}/clusterqueues/{team}")["status"]
        return not status.get("admittedWorkloads")

    waiting.until(returned, what="the quota of the pod that ended is back")
