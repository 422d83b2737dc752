"""A dry run on a real API server tells what the command then does, and changes nothing."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from admission.kube.api import Api
from admission.run.connection import ApiServerTarget
from tests.controlplane.cluster import Cluster
from tests.deploy.seen import everything
from tests.integration.installed import run_command

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start() as started:
        yield started


@pytest.fixture
def api(cluster: Cluster) -> Iterator[Api]:
    client = ApiServerTarget(str(cluster.admin_kubeconfig)).connect(
        connections=1, timeout_seconds=30
    )
    yield client
    client.close()


def run(cluster: Cluster, *words: str) -> dict[str, str]:
    """Effects by kind and name."""
    done = run_command(*words, "--kubeconfig", str(cluster.admin_kubeconfig), "-o", "json")
    assert done.returncode == 0, done.stderr
    return {f"{each['kind']}/{each['name']}": each["effect"] for each in json.loads(done.stdout)}


def test_a_dry_run_tells_what_is_done_then(cluster: Cluster, api: Api, tmp_path: Path) -> None:
    outside = ("--webhook-url", "https://127.0.0.1:9443", "--cert-dir", str(tmp_path / "certs"))
    for words, common in (
        (("install", "--mode", "warn"), "created"),
        (("install",), "unchanged"),
        (("install", "--mode", "deny"), "configured"),
        (("install", *outside), "configured"),
    ):
        before = everything(api)
        tried = run(cluster, *words, "--dry-run")
        assert everything(api) == before, words
        assert common in tried.values(), words
        assert run(cluster, *words) == tried, words

    before = everything(api)
    tried = run(cluster, "uninstall", "--dry-run")
    assert tried["CustomResourceDefinition/workloads.kueue.x-k8s.io"] == "deleted"
    tried = run(cluster, "uninstall", "--keep-crds", "--dry-run")
    assert everything(api) == before
    # The webhook has moved meanwhile: the CRDs name none any more, whoever wrote where it was.
    assert run(cluster, "uninstall", "--keep-crds", "--yes") == tried
