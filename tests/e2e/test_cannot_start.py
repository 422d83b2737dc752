"""Work that was admitted and cannot start, beside the real Job controller and scheduler."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from admission.base import names
from tests.builders.pods import make_pod
from tests.config.files import gpu
from tests.controlplane import nodes, waiting
from tests.controlplane.moved_clock import MovedClock
from tests.e2e.pools import Pool
from tests.e2e.queues import add_flavor, add_queue
from tests.e2e.test_jobs import A100, create_job, is_suspended, running, workloads
from tests.integration import owner_crds, snapshot
from tests.integration.installed import KUEUE, Installed
from tests.integration.test_owners import ROWS, allow
from tests.owners import samples

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]
TRAINING = ROWS["PyTorchJob"]


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> MovedClock:
    """What gpu-admission goes by."""
    return MovedClock(tmp_path_factory.mktemp("clock") / "clock")


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory, clock: MovedClock) -> Iterator[Installed]:
    """A whole cluster with gpu-admission, which waits an hour for pods to become ready."""
    with snapshot.prepared(tmp_path_factory.mktemp("cannot-start"), Installed, whole=True) as it:
        owner_crds.install(it.cluster, TRAINING)
        config = it.folder / "config.yaml"
        config.write_text(yaml.safe_dump(gpu(notReadyAfter="1h")))
        it.install("--config", str(config))
        it.clock = clock
        it.start("--config", str(config))
        yield it


@pytest.fixture
def queue(system: Installed) -> Iterator[Pool]:
    """A namespace with a queue of 8 GPUs, and a node that has them."""
    team = Pool(system.cluster)
    team.add_node(product=A100, gpus=8, taints=[nodes.GPU_TAINT])
    add_queue(system, team, {add_flavor(system, team, "a100", A100): 8})
    yield team
    team.remove()


def await_given_back(
    system: Installed, clock: MovedClock, team: Pool, name: str, *parts: str
) -> None:
    """Waits until the Workload of an owner says that it was evicted in the end, and why.

    Who has released a pod that came last knows of all pods how they are.
    """
    other = system.add_team(1)
    system.create_pod(other, "probe")
    system.wait_released(other, "probe")
    clock.advance(3600)

    def look() -> str:
        found = workloads(team).get(name, {}).get("status", {}).get("conditions", [])
        told = [one for one in found if (one["type"], one["status"]) == ("Evicted", "True")]
        return told[0]["message"] if told else ""

    message = waiting.until(look, what=f"{name} gives its quota back")
    assert all(part in message for part in parts), message


def unscheduled(team: Pool) -> list[Json]:
    """Pods of which the scheduler says that no node takes them."""
    return [
        pod
        for pod in team.pods()
        if any(
            (one["type"], one["status"]) == ("PodScheduled", "False")
            and one.get("reason") == "Unschedulable"
            for one in pod["status"].get("conditions", ())
        )
    ]


def test_a_job_whose_pods_a_resource_quota_forbids_lets_another_start(
    system: Installed, queue: Pool, clock: MovedClock
) -> None:
    hard = {"metadata": {"name": "few"}, "spec": {"hard": {"count/pods": "3"}}}
    queue.create("resourcequotas", hard)
    create_job(queue, "large", 6)
    waiting.until(lambda: len(running(queue, "large")) == 3, what="three pods run")
    create_job(queue, "small", 3)
    await_given_back(
        system, clock, queue, "large", "Not all pods were ready", "3 of 6 pods are created"
    )
    waiting.until(lambda: len(running(queue, "small")) == 3, what="the other one runs")
    assert is_suspended(queue, "large")


def test_a_gang_that_says_it_runs_gives_back_what_its_unscheduled_pods_hold(
    system: Installed, queue: Pool, clock: MovedClock
) -> None:
    """A PyTorchJob says that it runs as soon as one worker does."""
    manifest = samples.of(TRAINING).manifest
    replicas = manifest["spec"]["pytorchReplicaSpecs"]
    worker = replicas["Worker"]
    worker["replicas"] = 4
    pod = worker["template"]["spec"]
    pod["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    manifest["metadata"]["name"] = "train"
    manifest["spec"]["pytorchReplicaSpecs"] = {"Worker": worker}
    path = f"/apis/{TRAINING.api_version}/namespaces/{queue.namespace}/{TRAINING.plural}"
    api = queue.cluster.api
    api.post(path, manifest)
    waiting.until(
        lambda: not api.get(f"{path}/train")["spec"]["runPolicy"]["suspend"], what="admitted"
    )
    admitted = api.get(f"{path}/train")
    template = admitted["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    operator = allow(queue.cluster, min(TRAINING.makers), "")
    queue.cluster.wait_for_roles()
    for index in range(4):
        spec = dict(template["spec"])
        if index > 1:
            spec["nodeSelector"] = {**spec.get("nodeSelector", {}), "rack": "none"}
        owner = {
            "apiVersion": TRAINING.api_version, "kind": TRAINING.kind, "name": "train",
            "uid": admitted["metadata"]["uid"], "controller": True,
        }  # fmt: skip
        metadata = {**template["metadata"], "name": f"w{index}", "ownerReferences": [owner]}
        operator.post(
            f"/api/v1/namespaces/{queue.namespace}/pods", {"metadata": metadata, "spec": spec}
        )
    waiting.until(lambda: len(unscheduled(queue)) == 2, what="two pods have no node")
    waiting.until(lambda: len(queue.pods("Running")) == 2, what="two pods run")
    says = {"conditions": [{"type": "Running", "status": "True"}]}
    api.patch(f"{path}/train/status", {"status": says})
    await_given_back(
        system, clock, queue, "train", "2 of 4 pods are scheduled: 0/1 nodes are available"
    )
    waiting.until(
        lambda: api.get(f"{path}/train")["spec"]["runPolicy"]["suspend"], what="suspended"
    )


def test_a_pod_that_no_node_takes_is_told_what_it_holds(queue: Pool, clock: MovedClock) -> None:
    flavor = f"{KUEUE}/resourceflavors/{queue.name}-a100"
    tells = {"metadata": {"annotations": {names.PLACEMENT: "Tell"}}}
    queue.cluster.api.patch(flavor, tells)
    selector = {"rack": "none"}
    queue.create("pods", make_pod("lost", gpus=8, nodeSelector=selector))
    create_job(queue, "next", 1)

    def told() -> str:
        path = f"/api/v1/namespaces/{queue.namespace}/events"
        found = queue.cluster.api.get(f"{path}?fieldSelector=involvedObject.name=lost")["items"]
        return next((one["message"] for one in found if one["reason"] == "CannotRun"), "")

    note = clock.until(told, step_seconds=600, what="an event on the pod")
    assert "This pod holds 8 nvidia.com/gpu of queue" in note
    awaited = f"no node of {queue.name}-a100 has room yet, an autoscaler may add one"
    assert f"but has no node: {awaited}; 0/1 nodes are available" in note
    queue.cluster.api.delete(f"/api/v1/namespaces/{queue.namespace}/pods/lost")
    waiting.until(lambda: len(running(queue, "next")) == 1, what="the quota is free")
