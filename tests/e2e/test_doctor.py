"""On a whole cluster that works, with pods that run and one that waits, nothing is found."""

import json
import tarfile
from pathlib import Path

import pytest

from admission.base import names
from tests.builders.pods import make_pod
from tests.builders.queues import make_flavor
from tests.controlplane import nodes, waiting
from tests.e2e.pools import Pool
from tests.integration.installed import KUEUE, Installed, run_command

pytestmark = pytest.mark.controlplane

A100, T4 = "NVIDIA-A100-SXM4-80GB", "Tesla-T4"
SLICE = "nvidia.com/mig-1g.10gb"


@pytest.fixture(scope="module")
def healthy(whole_installation: Installed) -> Installed:
    """An installation in which nothing is left of other files."""
    return whole_installation


def _lives(system: Installed) -> Pool:
    """Whole GPUs, slices and tainted GPUs, in queues with pods that run and one that waits."""
    pool = Pool(system.cluster)
    pool.add_node(product=A100, labels={"pool": "whole"})
    pool.add_node(product=A100, gpus=0, mig={"1g.10gb": 7}, labels={"pool": "sliced"})
    pool.add_node(product=T4, gpus=4, taints=[nodes.GPU_TAINT], labels={"pool": "t4"})
    for name in ("whole", "sliced", "t4"):
        flavor = make_flavor(name, node_labels={"pool": name})
        system.api.post(f"{KUEUE}/resourceflavors", flavor)
    system.add_cluster_queue(
        "gpus",
        quotas={
            name: {names.GPU_RESOURCE: whole, SLICE: slices}
            for name, whole, slices in (("whole", 8, 0), ("sliced", 0, 7), ("t4", 4, 0))
        },
        cohort="all",
    )
    system.add_cluster_queue("spare", quotas={"t4": {names.GPU_RESOURCE: 0}}, cohort="all")
    system.add_local_queue(pool.namespace, "gpus")
    system.wait_for_queue(pool.namespace)
    for index, (resource, count) in enumerate(((names.GPU_RESOURCE, 8), (SLICE, 2))):
        pool.create("pods", make_pod(f"runs-{index}", gpus=count, resource=resource))
    waiting.until(lambda: len(pool.pods("Running")) == 2, what="both pods run")
    system.create_pod(pool.namespace, "waits", gpus=100)
    system.wait_condition(pool.namespace, "waits")
    return pool


def test_nothing_is_found_where_nothing_is_wrong(healthy: Installed, tmp_path: Path) -> None:
    pool = _lives(healthy)
    done = run_command("doctor", "--kubeconfig", healthy.kubeconfig, "-o", "json")
    document = json.loads(done.stdout)
    assert (document["findings"], document["notLooked"]) == ([], []), done.stderr
    assert done.returncode == 0
    done = run_command("doctor", "--kubeconfig", healthy.kubeconfig)
    assert done.stdout.startswith("Nothing wrong found by "), done
    path = tmp_path / "case.tar.gz"
    done = run_command("must-gather", "--kubeconfig", healthy.kubeconfig, "--out", str(path))
    assert done.returncode == 0, done
    with tarfile.open(path) as archive:
        pods = archive.extractfile("case/objects/gpu-pods.json")
        assert pods is not None
        found = {one["metadata"]["name"] for one in json.load(pods)}
    assert found == {"runs-0", "runs-1", "waits"}
    pool.remove()
