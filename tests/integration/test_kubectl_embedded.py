"""Plain kubectl works against the embedded store, with the kubeconfig that the demo shows."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from admission.kube import resources
from admission.objects import crds
from admission.sandbox import system
from admission.sandbox.rest import StoreServer
from admission.sandbox.store import Store
from tests.builders.pods import make_pod
from tests.builders.queues import make_cluster_queue
from tests.controlplane import build
from tests.controlplane.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.controlplane

DOCUMENTS = [
    make_cluster_queue(resourceGroups=[]),
    make_pod("train", namespace="default"),
]


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if build.missing(["kubectl"]):
        pytest.fail(f"{build.folder()} holds no kubectl: run 'make controlplane'", pytrace=False)
    store = Store(crds=crds.documents())
    for document in crds.documents():
        store.create(resources.CRDS, document)
    server = StoreServer(store, resources.BUILT_IN + resources.CUSTOM)
    folder = tmp_path_factory.mktemp("embedded")
    file = folder / "kubeconfig"
    file.write_text(system._kubeconfig(server.url))
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(DOCUMENTS))
    yield file
    server.stop()


def kubectl(kubeconfig: Path, *arguments: str) -> str:
    """What kubectl prints; nobody is there to type anything."""
    done = subprocess.run(
        [str(build.folder() / "kubectl"), "--kubeconfig", str(kubeconfig), *arguments],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
        stdin=subprocess.DEVNULL, env={**os.environ, "HOME": str(kubeconfig.parent)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_objects_are_created_shown_described_changed_and_deleted(kubeconfig: Path) -> None:
    made = kubectl(kubeconfig, "create", "-f", str(kubeconfig.parent / "objects.yaml"))
    assert made.splitlines() == [
        "clusterqueue.kueue.x-k8s.io/gpus created",
        "pod/train created",
    ]
    assert "train" in kubectl(kubeconfig, "get", "pods")
    assert "train" in kubectl(kubeconfig, "get", "all")
    for name in ("clusterqueues", "clusterqueue", "cq"):
        assert "gpus" in kubectl(kubeconfig, "get", name)
    assert "Queueing Strategy:" in kubectl(kubeconfig, "describe", "clusterqueue", "gpus")
    assert "Image:" in kubectl(kubeconfig, "describe", "pod", "train")
    assert "labeled" in kubectl(kubeconfig, "label", "pod", "train", "team=red")
    assert "train" in kubectl(kubeconfig, "get", "pods", "-l", "team=red", "-o", "name")
    assert "deleted" in kubectl(kubeconfig, "delete", "pod", "train")
    assert kubectl(kubeconfig, "get", "pods", "-o", "name") == ""


def test_what_is_served_is_listed_with_kueues_short_names(kubeconfig: Path) -> None:
    listed = kubectl(kubeconfig, "api-resources", "--no-headers")
    rows = {words[0]: words for words in map(str.split, listed.splitlines())}
    assert rows["clusterqueues"][1:3] == ["cq", "kueue.x-k8s.io/v1beta2"]
    assert rows["localqueues"][1] == "queue,queues,lq"
    assert "Server Version: v1." in kubectl(kubeconfig, "version")
