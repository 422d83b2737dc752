"""Uninstalled with a backup and installed again from it, on a real API server."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from admission.base import names
from tests.controlplane import build, waiting
from tests.controlplane.rest import Json, RestError
from tests.controlplane.waiting import PATIENCE_SECONDS
from tests.integration import snapshot
from tests.integration.installed import KUEUE, Installed, run_command

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with snapshot.started(tmp_path_factory.mktemp("back")) as it:
        yield it


def test_queues_and_reservations_come_back_before_anything_is_decided(
    system: Installed, tmp_path: Path
) -> None:
    team, file = system.add_team(2), tmp_path / "queues.jsonl"
    system.create_pod(team, "first", gpus=2)
    system.wait_released(team, "first")
    for name in ("second", "third"):
        system.create_pod(team, name, gpus=2)
        system.wait_condition(team, name)
    before = workloads(system, team)
    assert len(before) == 3
    refused = run_command("uninstall", "--kubeconfig", system.kubeconfig, "--backup", str(file))
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    assert not file.exists()

    system.stop()
    saved = uninstall(system, "--backup", str(file))
    assert "Released pods that continue to run: 1." in saved.stderr
    assert f"Waiting for quota: 2 pods ({team}/second, {team}/third)." in saved.stderr
    saved_kinds = [json.loads(line)["kind"] for line in file.read_text().splitlines()]
    assert len([kind for kind in saved_kinds if kind != "ConfigMap"]) == 2 + 3 + 3
    assert file.stat().st_mode & 0o777 == 0o600
    again = run_command(
        "uninstall", "--yes", "--kubeconfig", system.kubeconfig, "--backup", str(file)
    )
    assert again.returncode == 1
    assert "exists" in again.stderr
    system.delete_pod(team, "third")

    done = run_command(
        "install", "--kubeconfig", system.kubeconfig, "--webhook-url", system.webhook_url,
        "--cert-dir", str(system.certificates), "-o", "json", "--restore", str(file),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Pod third, does not exist" in done.stderr
    after = workloads(system, team)
    assert set(after) == {"first", "second"}
    for name, found in after.items():
        assert found["status"] == before[name]["status"], name
        assert found["spec"] == before[name]["spec"], name
    read = kubectl(system, "get", "-f", str(file), "-o", "name", "--ignore-not-found")
    assert f"clusterqueue.kueue.x-k8s.io/{team}" in read.stdout, read.stderr

    system.start()
    other = system.add_team(1)
    system.create_pod(other, "probe")
    system.wait_released(other, "probe")
    assert system.is_gated(team, "second")
    assert "deletionTimestamp" not in system.pod(team, "first")["metadata"]
    system.delete_pod(team, "first")
    system.wait_released(team, "second")


def test_nothing_is_brought_back_beside_what_may_decide(system: Installed, tmp_path: Path) -> None:
    file = tmp_path / "empty.jsonl"
    mark = {"apiVersion": "v1", "kind": "List", "items": []}
    lines = [
        {**mark, "gpuAdmissionBackup": {"format": 1}},
        {**mark, "gpuAdmissionBackup": {"format": 1, "objects": 0}},
    ]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    done = run_command(
        "install", "--kubeconfig", system.kubeconfig, "--webhook-url", system.webhook_url,
        "--cert-dir", str(system.certificates), "--restore", str(file),
    )  # fmt: skip
    assert done.returncode == 1
    assert "gpu-admission is installed" in done.stderr
    assert "--keep-crds" in done.stderr


def test_kept_crds_keep_what_has_quota(system: Installed) -> None:
    """The last test: it takes everything else out."""
    team = system.add_team(1)
    system.create_pod(team, "first")
    system.create_pod(team, "second")
    system.wait_released(team, "first")
    system.wait_condition(team, "second")
    maps = "/api/v1/namespaces/gpu-admission-system/configmaps"
    records = f"{maps}?labelSelector={names.USAGE_LABEL}"
    waiting.until(lambda: system.api.get(records)["items"], what="GPU-time is recorded")
    system.stop()
    uninstall(system, "--keep-crds")
    assert system.api.get(records)["items"]
    assert set(workloads(system, team)) == {"first", "second"}
    with pytest.raises(RestError):
        system.api.get(KUEUE.replace("v1beta2", "v1beta1") + "/workloads")
    system.install()
    system.start()
    waiting.until(lambda: system.condition(team, "second"), what="second waits")
    assert system.is_gated(team, "second")
    system.delete_pod(team, "first")
    system.wait_released(team, "second")


def uninstall(system: Installed, *more: str) -> "subprocess.CompletedProcess[str]":
    done = run_command("uninstall", "--yes", "--kubeconfig", system.kubeconfig, *more)
    assert done.returncode == 0, done.stderr
    # What the controller-manager does, which does not run here.
    space = system.api.get("/api/v1/namespaces/gpu-admission-system")
    path = "/api/v1/namespaces/gpu-admission-system/finalize"
    system.api.text("PUT", path, {**space, "spec": {}})
    return done


def kubectl(system: Installed, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [str(build.folder() / "kubectl"), "--kubeconfig", system.kubeconfig, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )


def workloads(system: Installed, team: str) -> dict[str, Json]:
    """Workloads by the name of their pod."""
    found = system.api.get(f"{KUEUE}/namespaces/{team}/workloads")["items"]
    return {one["metadata"]["ownerReferences"][0]["name"]: one for one in found}
