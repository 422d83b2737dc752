"""What a cluster of several products and a cluster without its quota system make of GPU pods."""

import pytest

from tests.builders.pods import make_pod
from tests.chaos import invariants
from tests.controlplane import nodes, waiting
from tests.e2e import objects, pools
from tests.e2e.pools import Pool
from tests.e2e.queues import add_flavor, add_queue, reasons, usage, waiting_pods
from tests.integration.installed import KUEUE, Installed

EXPECTED_ERRORS = pools.REMOVED

pytestmark = pytest.mark.controlplane

A100 = "NVIDIA-A100-SXM4-80GB"
L4 = "NVIDIA-L4"
APPS = "apis/apps/v1"
SLICE = "nvidia.com/mig-1g.10gb"


def nodes_of(team: Pool) -> list[str]:
    """Where the pods that run are, each once."""
    return sorted({pod["spec"]["nodeName"] for pod in team.pods("Running")})


def test_a_replica_set_grows_on_its_flavors_nodes_until_quota_ends(
    system: Installed, team: Pool
) -> None:
    for product in (A100, A100):
        team.add_node(product=product, gpus=8, taints=[nodes.GPU_TAINT])
    cheap = team.add_node(product=L4, gpus=8, taints=[nodes.GPU_TAINT])
    flavor = add_flavor(system, team, "l4", L4)
    add_queue(system, team, {flavor: 3})
    replica_set = objects.make_deployment("serve", 1, objects.make_pod_spec(1))
    team.create("replicasets", replica_set, api=APPS)
    waiting.until(lambda: len(team.pods("Running")) == 1, what="the first pod runs")

    path = team.path("replicasets", "serve", api=APPS)
    system.api.patch(path, {"spec": {"replicas": 5}})
    waiting.until(lambda: len(waiting_pods(team)) == 2, what="two pods wait")
    waiting.until(lambda: len(team.pods("Running")) == 3, what="three pods run")
    assert nodes_of(team) == [cheap]
    waiting.until(lambda: reasons(team) == {"WaitingForQuota"}, what="both name the shortage")


def test_more_quota_lets_waiting_pods_start(system: Installed, team: Pool) -> None:
    team.add_node(product=A100, gpus=8)
    add_queue(system, team, {add_flavor(system, team, "a100", A100): 1})
    deployment = objects.make_deployment("serve", 3, objects.make_pod_spec(1))
    team.create("deployments", deployment, api=APPS)
    waiting.until(lambda: len(waiting_pods(team)) == 2, what="two pods wait")

    path = f"{KUEUE}/clusterqueues/{team.name}"
    groups = system.api.get(path)["spec"]["resourceGroups"]
    groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = "3"
    system.api.patch(path, {"spec": {"resourceGroups": groups}})
    waiting.until(lambda: len(team.pods("Running")) == 3, what="all run")


def test_a_slice_is_taken_from_the_node_that_is_cut_into_slices(
    system: Installed, team: Pool
) -> None:
    whole = team.add_node(product=A100, gpus=8)
    cut = team.add_node(product=A100, gpus=1, mig={"1g.10gb": 4})
    add_queue(system, team, {add_flavor(system, team, "mig", A100): 2}, SLICE)
    pod = make_pod("small", **objects.make_pod_spec(1))
    pod["metadata"]["annotations"] = {"gpu-admission.dev/mig-profile": "1g.10gb"}
    team.create("pods", pod)

    waiting.until(lambda: team.pods("Running"), what="the pod runs")
    assert nodes_of(team) == [cut] != [whole]
    (running,) = team.pods("Running")
    assert running["spec"]["containers"][0]["resources"]["limits"][SLICE] == "1"


def test_a_namespace_can_be_deleted_while_everything_of_ours_is_down(
    system: Installed, team: Pool
) -> None:
    team.add_node(product=A100, gpus=8)
    add_queue(system, team, {add_flavor(system, team, "a100", A100): 2})
    deployment = objects.make_deployment("serve", 3, objects.make_pod_spec(1))
    team.create("deployments", deployment, api=APPS)
    waiting.until(lambda: len(team.pods("Running")) == 2, what="two run")
    waiting.until(lambda: waiting_pods(team), what="one waits")

    system.stop()
    try:
        team.delete_namespace()
    finally:
        system.start()
    waiting.until(lambda: usage(system, team) == {"0"}, what="the quota is free")
    world = invariants.await_all(system.api)
    assert not [w for w in world.workloads if w["metadata"]["namespace"] == team.namespace]
