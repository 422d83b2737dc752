"""The command installs over manifests that kubectl has applied, wherever its webhook is."""

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from admission.admin import manifests
from admission.base.names import SYSTEM_NAMESPACE as NAMESPACE
from tests.controlplane import build, nodes
from tests.controlplane.cluster import Cluster
from tests.integration.installed import Installed, run_command

_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def client_configs(system: Installed) -> list[dict[str, Any]]:
    found = [
        webhook["clientConfig"]
        for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
        for one in system.api.get(f"{_CONFIGURATIONS}/{kind}")["items"]
        for webhook in one["webhooks"]
    ]
    for one in system.api.get(_CRDS)["items"]:
        conversion = one["spec"]["conversion"]
        if conversion["strategy"] == "Webhook":
            found.append(conversion["webhook"]["clientConfig"])
    return found


@pytest.mark.controlplane
@pytest.mark.nightly
def test_the_webhook_of_applied_manifests_is_asked_where_the_command_says(tmp_path: Path) -> None:
    base = tmp_path / "base"
    assert run_command("manifests", "--out", str(base)).returncode == 0
    with Cluster.start() as cluster:
        system = Installed(cluster, tmp_path)
        applied = subprocess.run(
            [
                str(build.folder() / "kubectl"), "--kubeconfig", system.kubeconfig, "apply",
                "--server-side", "-k", str(base),
            ],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert applied.returncode == 0, applied.stderr
        assert all("url" not in one for one in client_configs(system))
        system.install_as_new()
        found = client_configs(system)
        assert len(found) > 20
        assert all("service" not in one and "url" in one for one in found)
        assert f"from now on it asks {system.webhook_url}" in system.told
        assert all(one["effect"] == "unchanged" for one in system.install_as_new())
        assert "the webhook moves" not in system.told

        cluster.add_gpu_node("gpu-0", taints=[nodes.GPU_TAINT])
        done = run_command("install", "--kubeconfig", system.kubeconfig)
        assert done.returncode == 0, done.stderr
        assert f"the API server asked {system.webhook_url}, from now on" in done.stderr
        assert "every node has a taint" in done.stderr

        first, wait = done.stdout.partition("next:")[2].strip().splitlines()[:2]
        assert wait.strip().startswith("kubectl wait"), "it succeeds once nodes take the pods"
        program, *arguments = shlex.split(first, comments=True)
        kubectl = [str(build.folder() / program), "--kubeconfig", system.kubeconfig, *arguments]
        patched = subprocess.run(kubectl, check=False, capture_output=True, text=True)
        assert patched.returncode == 0, patched.stderr
        again = run_command("install", "--kubeconfig", system.kubeconfig)
        assert again.returncode == 0, again.stderr
        for name in (manifests.WEBHOOK, manifests.CONTROLLER):
            deployed = system.api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}")
            assert deployed["spec"]["template"]["spec"]["tolerations"] == [
                {**nodes.GPU_TAINT, "operator": "Equal"}
            ], "a second install keeps it"
