"""Flavors and queues of a pool, and what its waiting pods say."""

from typing import Any

from admission.base import conditions, names
from tests.builders.queues import make_flavor
from tests.e2e import objects
from tests.e2e.pools import POOL_LABEL, Pool, condition
from tests.integration.installed import KUEUE, Installed


def add_flavor(system: Installed, team: Pool, suffix: str, product: str) -> str:
    """A flavor of the pool's nodes that have one product; its name."""
    name = f"{team.name}-{suffix}"
    labels = {POOL_LABEL: team.name, names.GPU_PRODUCT_LABEL: product}
    system.api.post(f"{KUEUE}/resourceflavors", make_flavor(name, node_labels=labels))
    return name


def add_queue(
    system: Installed, team: Pool, quota: dict[str, int], resource: str = names.GPU_RESOURCE
) -> None:
    """The namespace's default queue: devices by flavor, in order, and more CPU than is needed."""
    quotas = {flavor: {resource: devices, "cpu": "1k"} for flavor, devices in quota.items()}
    system.add_cluster_queue(team.name, quotas=quotas)
    system.add_local_queue(team.namespace, team.name)
    system.wait_for_queue(team.namespace)


def waiting_pods(team: Pool) -> list[objects.Json]:
    """The pods that are gated and say why."""
    return [
        pod
        for pod in team.pods("Pending")
        if pod["spec"].get("schedulingGates")
        and condition(pod, conditions.POD_ADMITTED).get("status") == "False"
    ]


def reasons(team: Pool) -> set[str]:
    """Why the waiting pods wait."""
    return {condition(p, conditions.POD_ADMITTED)["reason"] for p in waiting_pods(team)}


def usage(system: Installed, team: Pool) -> set[str]:
    """The GPUs that the ClusterQueue's status shows as used."""
    found = system.api.get(f"{KUEUE}/clusterqueues/{team.name}")
    status: dict[str, Any] = found.get("status", {})
    return {
        resource["total"]
        for flavor in status.get("flavorsUsage", [])
        for resource in flavor["resources"]
        if resource["name"] == names.GPU_RESOURCE
    }
