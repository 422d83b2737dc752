"""Jobs whose pods have to be in one rack: with the real scheduler and kwok nodes."""

from collections import Counter
from typing import Any

import pytest

from admission.base import names
from tests.builders.queues import make_flavor
from tests.controlplane import waiting
from tests.e2e import objects
from tests.e2e.pools import POOL_LABEL, Pool
from tests.e2e.queues import add_queue
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

A100 = "NVIDIA-A100-SXM4-80GB"
HOSTNAME = "kubernetes.io/hostname"
RACK = "example.com/rack"
JOBS = "apis/batch/v1"


def add_racks(system: Installed, team: Pool, *racks: int) -> dict[str, str]:
    """Nodes with 2 GPUs each in racks of that many nodes, and a queue; the rack of each node."""
    rack_of = {}
    for index, size in enumerate(racks):
        for _ in range(size):
            node = team.add_node(product=A100, gpus=2, labels={RACK: f"r{index}"})
            rack_of[node] = f"r{index}"
    levels = [{"nodeLabel": RACK}, {"nodeLabel": HOSTNAME}]
    topology = {"metadata": {"name": team.name}, "spec": {"levels": levels}}
    kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology"}
    system.api.post(f"{KUEUE}/topologies", {**kind, **topology})
    flavor = make_flavor(team.name, node_labels={POOL_LABEL: team.name}, topologyName=team.name)
    system.api.post(f"{KUEUE}/resourceflavors", flavor)
    add_queue(system, team, {team.name: 64})
    return rack_of


def add_job(team: Pool, name: str, count: int, run_for: str = "1h", **annotations: str) -> None:
    job = objects.make_job(name, count, objects.make_pod_spec(1), run_for=run_for)
    metadata = job["spec"]["template"].setdefault("metadata", {})
    metadata.setdefault("annotations", {}).update(
        {f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    )
    job["metadata"]["labels"] = {names.QUEUE_LABEL: "default"}
    job["spec"]["completionMode"] = "Indexed"
    team.create("jobs", job, api=JOBS)


def pods_of(team: Pool, job: str) -> list[Any]:
    pods = team.pods("Running")
    return [pod for pod in pods if pod["metadata"]["labels"].get("job-name") == job]


def run(team: Pool, job: str, count: int) -> list[Any]:
    return waiting.until(
        lambda: pods if len(pods := pods_of(team, job)) == count else None,
        what=f"{count} pods of {job} run",
    )


def workload_of(system: Installed, team: Pool, job: str) -> Any:
    path = f"{KUEUE}/namespaces/{team.namespace}/workloads"
    return waiting.until(
        lambda: next(
            (
                one
                for one in system.api.get(path)["items"]
                if one["metadata"]["ownerReferences"][0]["name"] == job
            ),
            None,
        ),
        what=f"Workload of {job}",
    )


def test_a_job_gets_the_nodes_of_one_rack_by_rank(system: Installed, team: Pool):
    rack_of = add_racks(system, team, 1, 3)

    add_job(team, "train", 5, podset_required_topology=RACK)

    pods = run(team, "train", 5)
    nodes = [pod["spec"]["nodeName"] for pod in pods]
    assert {rack_of[node] for node in nodes} == {"r1"}
    assert sorted(Counter(nodes).values()) == [1, 2, 2]
    by_rank = sorted(
        (int(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]), node)
        for pod, node in zip(pods, nodes, strict=True)
    )
    assert [node for _, node in by_rank] == sorted(nodes)
    for pod in pods:
        assert pod["spec"]["nodeSelector"][HOSTNAME] == pod["spec"]["nodeName"]
    (assigned,) = workload_of(system, team, "train")["status"]["admission"]["podSetAssignments"]
    assert assigned["topologyAssignment"]["levels"] == [HOSTNAME]


def test_who_fits_in_no_rack_waits_until_one_is_free(system: Installed, team: Pool):
    add_racks(system, team, 2, 2)
    add_job(team, "first", 3, podset_required_topology=RACK)
    add_job(team, "second", 3, podset_required_topology=RACK)
    run(team, "first", 3)
    run(team, "second", 3)

    add_job(team, "third", 2, podset_required_topology=RACK)

    def message() -> str:
        conditions = workload_of(system, team, "third").get("status", {}).get("conditions", [])
        return next((c["message"] for c in conditions if c["type"] == "QuotaReserved"), "")

    waiting.until(lambda: "allows to fit only 1 out of 2 pod(s)" in message(), what="it waits")
    team.cluster.api.delete(team.path("jobs", "first", api=JOBS) + "?propagationPolicy=Background")
    run(team, "third", 2)


def test_a_single_pod_and_a_job_that_asks_for_nothing_get_hosts_too(system: Installed, team: Pool):
    add_racks(system, team, 1)
    metadata = {
        "name": "alone",
        "labels": {names.QUEUE_LABEL: "default"},
        "annotations": {names.REQUIRED_TOPOLOGY: RACK},
    }
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    team.create("pods", {**body, "spec": objects.make_pod_spec(1)})

    add_job(team, "any", 1)

    (pod,) = run(team, "any", 1)
    assert pod["spec"]["nodeSelector"][HOSTNAME] == pod["spec"]["nodeName"]
    alone = waiting.until(
        lambda: pod if (pod := team.pod("alone"))["spec"].get("nodeName") else None,
        what="the pod runs",
    )
    assert alone["spec"]["nodeSelector"][HOSTNAME] == alone["spec"]["nodeName"]


def test_a_lost_node_is_replaced_in_its_rack_and_new_pods_go_there(system: Installed, team: Pool):
    """Its taint has the pods deleted; the Job makes others, which are told another node."""
    rack_of = add_racks(system, team, 1, 3)
    add_job(team, "train", 3, podset_required_topology=RACK)
    (lost, _), *_ = Counter(pod["spec"]["nodeName"] for pod in run(team, "train", 3)).most_common()

    taints = [{"key": "example.com/broken", "effect": "NoExecute"}]
    system.api.patch(f"/api/v1/nodes/{lost}", {"spec": {"taints": taints}})

    def elsewhere() -> list[str] | None:
        nodes = [pod["spec"]["nodeName"] for pod in pods_of(team, "train")]
        return nodes if len(nodes) == 3 and lost not in nodes else None

    nodes = waiting.until(elsewhere, what="all pods run on other nodes")
    assert {rack_of[node] for node in nodes} == {"r1"}
    conditions = workload_of(system, team, "train")["status"]["conditions"]
    assert [one for one in conditions if one["type"] == "Evicted"] == []
