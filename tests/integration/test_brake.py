"""Many stops at once on a real API server: held back, shown, and let go by a command."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from admission.base.clock import SystemClock
from tests.controlplane import waiting
from tests.integration import snapshot
from tests.integration.installed import KUEUE, Installed, run_command

pytestmark = pytest.mark.controlplane

MANY = [f"train-{number}" for number in range(6)]
CONFIGURATION = """
apiVersion: config.gpu-admission.dev/v1alpha1
kind: GpuConfiguration
maxStopsPerMinute: 1
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("brake")
    with snapshot.prepared(folder, Installed) as system:
        system.start("--config", str(configured(folder)))
        yield system


def configured(folder: Path) -> Path:
    path = folder / "config.yaml"
    path.write_text(CONFIGURATION)
    return path


def test_stops_are_held_back_until_an_administrator_lets_them_go(system: Installed) -> None:
    team = system.add_team(len(MANY))
    pods = f"/api/v1/namespaces/{team}/pods"
    for name in MANY:
        run(system, team, name)
    clock = SystemClock()
    began = clock.monotonic()
    evict_all(system, team)

    def held_back() -> list[dict[str, Any]]:
        """Those that are held back, once that is every pod that is not being stopped."""
        listed = told(system)
        names = {(one["kind"], one["name"]) for one in listed}
        left = {("Pod", pod["metadata"]["name"]) for pod in remaining(system, pods)}
        return listed if names == left and counted(system) == len(left) else []

    listed = waiting.until(held_back, what="the others are held back")
    assert all("by a test" in one["why"] for one in listed)
    minutes = math.ceil((clock.monotonic() - began) / 60)
    assert len(MANY) - len(listed) <= 1 + minutes, "one a minute, and one that was saved up"

    refused = run_command("stops", "allow", "--for", "2d", "--kubeconfig", system.kubeconfig)
    assert refused.returncode == 2
    assert "duration" in refused.stderr
    allowed = run_command("stops", "allow", "--for", "5m", "--kubeconfig", system.kubeconfig)
    assert allowed.returncode == 0, allowed.stderr
    waiting.until(lambda: not remaining(system, pods), what="all pods are stopped")
    waiting.until(lambda: not told(system), what="nothing is held back")


def test_who_may_edit_a_namespace_may_not_let_stops_go(system: Installed) -> None:
    team = system.add_team(1)
    kubeconfig = str(system.cluster.kubeconfig("eve"))
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "eve"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "edit",
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}],
    }
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces"
    for namespace in (team, "gpu-admission-system"):
        system.api.post(f"{rbac}/{namespace}/rolebindings", binding)
    system.cluster.wait_for_roles()
    refused = run_command("stops", "allow", "--kubeconfig", kubeconfig)
    assert refused.returncode == 1
    assert "error: " in refused.stderr
    assert "namespaces" in refused.stderr


def run(system: Installed, team: str, name: str) -> None:
    system.create_pod(team, name)
    system.wait_released(team, name)
    pods = f"/api/v1/namespaces/{team}/pods"
    target = {"apiVersion": "v1", "kind": "Node", "name": "node"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    system.api.post(f"{pods}/{name}/binding", binding)
    system.api.patch(f"{pods}/{name}/status", {"status": {"phase": "Running"}})


def evict_all(system: Installed, team: str) -> None:
    path = f"{KUEUE}/namespaces/{team}/workloads"
    condition = {
        "type": "Evicted",
        "status": "True",
        "reason": "NodeFailures",
        "message": "by a test",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    for workload in system.api.get(path)["items"]:
        conditions = [*workload["status"]["conditions"], condition]
        change = {"status": {"conditions": conditions}}
        system.api.patch(f"{path}/{workload['metadata']['name']}/status", change)


def told(system: Installed) -> list[dict[str, Any]]:
    done = run_command("stops", "-o", "json", "--kubeconfig", system.kubeconfig)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def counted(system: Installed) -> int:
    """How many stops are held back, as the metrics say."""
    _, page = system.page(system.metrics_url, "/metrics")
    (number,) = re.findall(r"^gpu_admission_stops_held_back (\d+)\.0$", page, re.MULTILINE)
    return int(number)


def remaining(system: Installed, pods: str) -> list[Any]:
    """Pods that nobody has stopped; whom nobody plays the kubelet for stay while they end."""
    found = system.api.get(pods)["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
