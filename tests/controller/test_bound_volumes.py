"""Pods whose volumes are on certain nodes."""

from typing import Any

import pytest

from admission.base import names, patches
from admission.kube import resources
from admission.scheduling.places.model import HOSTNAME
from tests.builders.cluster import make_node
from tests.controller.world import World, ready_world


def volume(name: str, claim: str, host: str, phase: str = "Bound") -> dict[str, Any]:
    """A local volume that is bound to a claim of the team."""
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [host]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "claimRef": {"namespace": "ml", "name": claim},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
        "status": {"phase": phase},
    }


def world_with_hosts() -> World:
    """Two nodes of two GPUs, of one flavor."""
    world = ready_world(quota=8)
    for host in ("n1", "n2"):
        labels = {HOSTNAME: host, names.GPU_PRODUCT_LABEL: "a100"}
        world.add(make_node(host, labels, {names.GPU_RESOURCE: 2, "pods": 9}))
    world.settle()
    return world


def using(claim: str) -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


def test_a_pod_waits_for_room_where_its_bound_volume_is() -> None:
    world = world_with_hosts()
    world.add(volume("pv-1", "data", "n1"))
    world.add_pod("first", gpus=2, spec={"nodeSelector": {HOSTNAME: "n1"}})
    world.settle()
    assert world.admitted() == {"first"}

    world.add_pod("second", gpus=2, spec=using("data"))
    world.add_pod("third", gpus=2, spec=using("unbound"))
    world.pass_time(3)

    assert world.admitted() == {"first", "third"}
    condition = world.condition("second")
    assert condition is not None
    assert condition.reason == "WaitingForNode"

    world.set_phase("first", "Succeeded")
    world.pass_time(3)
    assert "second" in world.admitted()


@pytest.mark.parametrize("how", ["bound", "released", "gone"])
def test_a_waiting_pod_follows_its_volume(how: str) -> None:
    world = world_with_hosts()
    world.add_pod("first", gpus=2, spec={"nodeSelector": {HOSTNAME: "n1"}})
    world.settle()
    there = volume("pv-1", "data", "n1", phase="Available" if how == "bound" else "Bound")
    world.add(there)
    if how == "bound":
        world.set_phase("first", "Running")
        change = patches.merge({"status": {"phase": "Bound"}})
        world.store.patch(resources.PERSISTENT_VOLUMES, "pv-1", change)
    world.add_pod("second", gpus=2, spec=using("data"))
    world.pass_time(3)
    assert "second" not in world.admitted()

    if how == "bound":
        moved = patches.merge({"status": {"phase": "Available"}})
        world.store.patch(resources.PERSISTENT_VOLUMES, "pv-1", moved)
    elif how == "released":
        change = patches.merge({"status": {"phase": "Released"}})
        world.store.patch(resources.PERSISTENT_VOLUMES, "pv-1", change)
    else:
        world.store.delete(resources.PERSISTENT_VOLUMES, "pv-1")
    world.pass_time(3)

    assert "second" in world.admitted()
