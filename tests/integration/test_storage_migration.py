"""Objects that etcd has as v1beta1 are stored as v1beta2 after ``migrate storage``."""

import subprocess
from collections.abc import Iterator

import pytest

from admission.cli import tables
from tests.controlplane import waiting
from tests.controlplane.rest import Json
from tests.integration import snapshot
from tests.integration.installed import KUEUE, Installed, run_command
from tests.upgrade import stored

pytestmark = pytest.mark.controlplane

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = f"{CRDS}/clusterqueues.kueue.x-k8s.io"
OLD, NEW = "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"
COUNT = 12


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """ClusterQueues that were created while v1beta1 was the stored version."""
    with snapshot.started(tmp_path_factory.mktemp("storage")) as it:
        crd = it.api.get(CRD)
        for version in crd["spec"]["versions"]:
            version["storage"] = version["name"] == "v1beta1"
        it.api.put(CRD, crd)
        it.add_flavor("a100")
        waiting.until(lambda: is_stored_as(it, "probe", OLD), what="v1beta1 is stored")
        for number in range(COUNT):
            it.add_cluster_queue(f"queue-{number}", quota=number)
        it.install()
        yield it


def is_stored_as(system: Installed, name: str, version: str) -> bool:
    """Whether a ClusterQueue that is created now is stored in a version."""
    path = f"{KUEUE}/clusterqueues/{name}"
    if not system.api.lacks(path):
        system.api.patch(path, {"metadata": {"finalizers": None}})
        system.api.delete(path)
        return False
    system.add_cluster_queue(name)
    return str(raw(system, name)["apiVersion"]) == version


def raw(system: Installed, name: str) -> Json:
    """A ClusterQueue as etcd has it."""
    return stored.get(system.cluster, f"/registry/kueue.x-k8s.io/clusterqueues/{name}")


def migrate(system: Installed, *more: str) -> subprocess.CompletedProcess[str]:
    return run_command("migrate", "storage", "--kubeconfig", system.kubeconfig, *more)


def test_what_is_stored_in_an_older_version_is_written_in_the_present_one(
    system: Installed,
) -> None:
    before = system.api.get(f"{KUEUE}/clusterqueues")["items"]
    assert raw(system, "queue-3")["apiVersion"] == OLD
    shown = migrate(system)
    assert shown.returncode == 0, shown.stderr
    objects = tables.counted(len(before), "object")
    said = f"clusterqueues.kueue.x-k8s.io: stored in v1beta2, v1beta1; {objects}"
    assert said in shown.stdout
    assert raw(system, "queue-3")["apiVersion"] == OLD

    done = migrate(system, "--apply")
    assert done.returncode == 0, done.stderr
    assert f"{tables.counted(len(before), 'object')} written" in done.stdout
    for one in before:
        assert raw(system, one["metadata"]["name"])["apiVersion"] == NEW
    after = system.api.get(f"{KUEUE}/clusterqueues")["items"]
    assert [one["spec"] for one in after] == [one["spec"] for one in before]
    assert [one["metadata"]["generation"] for one in after] == [
        one["metadata"]["generation"] for one in before
    ]
    assert system.api.get(CRD)["status"]["storedVersions"] == ["v1beta2"]
    assert "nothing to do" in migrate(system).stdout

    system.install("--no-older-versions")
    versions = [one["name"] for one in system.api.get(CRD)["spec"]["versions"]]
    assert versions == ["v1beta2"]
