"""What is started prefers the nodes that it was admitted for, and is as before once stopped."""

from typing import Any

import pytest

from admission.base import names, patches
from admission.kube import resources
from admission.objects.workload import Workload
from admission.scheduling.places.model import HOSTNAME
from tests.builders.cluster import make_node
from tests.builders.jobs import queued_job
from tests.controller.world import World, ready_world

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
OWN = {
    "weight": 5,
    "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
}
ZONE = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["n1", "n2"]}]}
APART = {"labelSelector": {"matchLabels": {"app": "other"}}, "topologyKey": HOSTNAME}


def world_with_nodes() -> World:
    world = ready_world(quota=8)
    for host in ("n1", "n2"):
        labels = {HOSTNAME: host, names.GPU_PRODUCT_LABEL: "a100"}
        world.add(make_node(host, labels, {names.GPU_RESOURCE: 4, "pods": 9}))
    world.settle()
    return world


def pod_spec(world: World) -> dict[str, Any]:
    found: dict[str, Any] = world.store.get(resources.JOBS, "train", "ml")
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return {member: value for member, value in spec.items() if value}


def set_active(world: World, *, active: bool) -> None:
    (key,) = (one.key() for one in world.store.list(resources.WORKLOADS, into=Workload).items)
    change = patches.merge({"spec": {"active": active}})
    world.store.patch(resources.WORKLOADS, key.name, change, "ml")
    world.pass_time(3)


@pytest.mark.parametrize(
    "affinity",
    [
        None,
        {"nodeAffinity": {PREFERRED: [OWN]}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [ZONE]}}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [ZONE]}, PREFERRED: [OWN]}},
        {"podAntiAffinity": {REQUIRED: [APART]}},
    ],
    ids=["none", "own preference", "required", "both", "other affinity"],
)
def test_a_job_prefers_its_nodes_while_it_runs_and_is_as_before_once_it_is_stopped(
    affinity: dict[str, Any] | None,
) -> None:
    world = world_with_nodes()
    pod = {"affinity": affinity} if affinity else {}
    world.add(queued_job(pods=2, gpus=2, pod=pod))
    before = pod_spec(world)
    world.settle()

    node = pod_spec(world)["affinity"]["nodeAffinity"]
    own = (affinity or {}).get("nodeAffinity", {})
    assert node[PREFERRED][:-1] == own.get(PREFERRED, [])
    assert node.get(REQUIRED) == own.get(REQUIRED)
    (expression,) = node[PREFERRED][-1]["preference"]["matchExpressions"]
    assert expression["key"] == HOSTNAME
    assert expression["values"] == ["n1"]

    set_active(world, active=False)
    assert pod_spec(world) == before
    set_active(world, active=True)
    assert pod_spec(world)["affinity"]["nodeAffinity"] == node
