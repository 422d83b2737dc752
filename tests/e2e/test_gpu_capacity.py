"""A wish for GPU memory from the user's pod to the node's slice, and what a sick GPU changes."""

import json
from typing import Any

import pytest

from admission.base import conditions, names
from tests.builders.pods import make_pod
from tests.builders.queues import make_flavor
from tests.controlplane import nodes, waiting
from tests.e2e import objects, pools
from tests.e2e.pools import POOL_LABEL, Pool, condition
from tests.e2e.queues import waiting_pods
from tests.integration.installed import KUEUE, Installed

EXPECTED_ERRORS = pools.REMOVED

pytestmark = pytest.mark.controlplane

A100 = "NVIDIA-A100-SXM4-80GB"
H100 = "NVIDIA-H100-80GB-HBM3"
SLICE = "nvidia.com/mig-1g.10gb"


def add_flavor(system: Installed, team: Pool, suffix: str, product: str, **marks: str) -> str:
    name = f"{team.name}-{suffix}"
    labels = {POOL_LABEL: team.name, names.GPU_PRODUCT_LABEL: product}
    annotations = {f"{names.OWN_DOMAIN}/{key}": text for key, text in marks.items()}
    flavor = make_flavor(name, annotations=annotations, node_labels=labels, tolerations=[])
    system.api.post(f"{KUEUE}/resourceflavors", flavor)
    return name


def add_queue(system: Installed, team: Pool, **budgets: tuple[str, int]) -> None:
    """The namespace's queue, guarded: GPU memory and slices by flavor, no device names."""
    quotas = {
        flavor: {names.GPU_MEMORY: memory, names.GPU_SLICES: slices, "cpu": "100"}
        for flavor, (memory, slices) in budgets.items()
    }
    guard = {names.CAPACITY_GUARD: names.CAPACITY_GUARD_ENFORCE}
    system.add_cluster_queue(team.name, quotas=quotas, annotations=guard)
    system.add_local_queue(team.namespace, team.name)
    system.wait_for_queue(team.namespace)


def ask_for_memory(team: Pool, name: str, amount: str) -> None:
    pod = make_pod(name, **objects.make_pod_spec(1))
    pod["metadata"]["annotations"] = {names.GPU_MEMORY: amount}
    team.create("pods", pod)


def usage(team: Pool) -> dict[str, dict[str, str]]:
    """GPU memory and slices of each assigned flavor, as the only Workload's status says."""
    found = team.cluster.api.get(f"{KUEUE}/namespaces/{team.namespace}/workloads")["items"]
    (assigned,) = found[0]["status"]["admission"]["podSetAssignments"]
    amounts = {r: v for r, v in assigned["resourceUsage"].items() if r != "cpu"}
    return {assigned["flavors"][names.GPU_MEMORY]: amounts}


def told_used(team: Pool, flavor: str) -> dict[str, str]:
    """GPU memory and slices of a flavor, as the ClusterQueue's status says."""
    status = team.cluster.api.get(f"{KUEUE}/clusterqueues/{team.name}").get("status", {})
    return {
        resource["name"]: resource["total"]
        for one in status.get("flavorsUsage", [])
        for resource in one["resources"]
        if one["name"] == flavor and resource["name"] != "cpu"
    }


def capacity(team: Pool) -> dict[str, Any]:
    queue = team.cluster.api.get(f"{KUEUE}/clusterqueues/{team.name}")
    return condition(queue, conditions.CAPACITY_SUFFICIENT)


def test_a_wish_for_memory_becomes_a_slice_and_a_sick_gpu_shrinks_what_comes_next(
    system: Installed, team: Pool
):
    node = team.add_node(product=A100, gpus=0, mig={"1g.10gb": 3}, taints=[nodes.GPU_TAINT])
    team.add_node(product=H100, gpus=1, taints=[nodes.GPU_TAINT])
    sliced = add_flavor(system, team, "slices", A100, **{"mig-profile": "1g.10gb"})
    whole = add_flavor(system, team, "whole", H100)
    add_queue(system, team, **{sliced: ("30Gi", 3), whole: ("0", 0)})

    ask_for_memory(team, "first", "8Gi")
    waiting.until(lambda: team.pods("Running"), what="the first pod runs")
    (running,) = team.pods("Running")
    assert running["spec"]["nodeName"] == node
    assert running["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1", SLICE: "1"}
    asked = json.loads(running["metadata"]["annotations"][names.ORIGINAL_RESOURCES])
    assert asked["main"]["limits"] == {names.GPU_RESOURCE: "1"}
    assert condition(running, "PodScheduled").get("status") == "True"
    assert usage(team) == {sliced: {names.GPU_MEMORY: "10Gi", names.GPU_SLICES: "1"}}
    waiting.until(
        lambda: told_used(team, sliced) == {names.GPU_MEMORY: "10Gi", names.GPU_SLICES: "1"},
        what="the ClusterQueue shows memory and slices",
    )
    waiting.until(lambda: capacity(team).get("status") == "True", what="three slices exist")

    say_allocatable(team, node, 1)
    waiting.until(lambda: capacity(team).get("status") == "False", what="two slices are sick")
    assert "gpu-slices in flavor" in capacity(team)["message"]
    ask_for_memory(team, "second", "8Gi")
    (second,) = waiting.until(lambda: waiting_pods(team), what="the second pod says why it waits")
    why = condition(second, conditions.POD_ADMITTED)["message"]
    assert "needs " in why
    assert " more promised, but sick or missing" in why
    assert [pod["metadata"]["name"] for pod in team.pods("Running")] == ["first"]

    say_allocatable(team, node, 3)
    waiting.until(lambda: len(team.pods("Running")) == 2, what="the second pod runs, too")


def test_a_node_condition_makes_its_gpus_sick_until_it_is_well(system: Installed, team: Pool):
    node = team.add_node(product=A100, gpus=1, taints=[nodes.GPU_TAINT])
    whole = add_flavor(system, team, "whole", A100)
    add_queue(system, team, **{whole: ("80Gi", 7)})
    waiting.until(lambda: capacity(team).get("status") == "True", what="the GPU exists")

    say_condition(team, node, "XIDErrors", "True")
    waiting.until(lambda: capacity(team).get("status") == "False", what="the GPU is sick")
    team.create("pods", make_pod("first", **objects.make_pod_spec(1)))
    waiting.until(lambda: waiting_pods(team), what="the pod says why it waits")
    waiting.until(
        lambda: f"{node}: condition XIDErrors" in capacity(team)["message"],
        what="the ClusterQueue names node and condition",
    )

    say_condition(team, node, "XIDErrors", "False")
    waiting.until(lambda: len(team.pods("Running")) == 1, what="the pod runs")


def say_condition(team: Pool, node: str, kind: str, status: str) -> None:
    """What a node problem detector reports."""
    path = f"/api/v1/nodes/{node}/status"
    said = {"type": kind, "status": status, "reason": "Xid79", "message": ""}
    team.cluster.api.patch(
        path, {"status": {"conditions": [said]}}, "application/strategic-merge-patch+json"
    )


def say_allocatable(team: Pool, node: str, slices: int) -> None:
    """The device plugin reports that many healthy slices."""
    change = {"status": {"allocatable": {SLICE: str(slices)}}}
    team.cluster.api.patch(f"/api/v1/nodes/{node}/status", change)
