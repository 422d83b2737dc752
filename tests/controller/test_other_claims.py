"""Claims that are replaced after quota was reserved for what they asked for."""

from typing import Any

import pytest

from admission.base import names
from admission.config.gpu_configuration import GpuConfiguration
from admission.kube import resources
from tests.controller.test_claims import claim, request, template
from tests.controller.world import World, ready_world

FOREIGN = "example.com/mine"
CLAIM = {"resourceClaimName": "gpu"}
TEMPLATE = {"resourceClaimTemplateName": "gpu"}


def held_world(reference: dict[str, str], made: Any) -> World:
    """A world in which a pod is released that a gate of others still holds."""
    admits = GpuConfiguration(max_stops_per_minute=0, while_gated_by_others="Admit")
    world = ready_world(quota=8, gpu=admits)
    world.add(made)
    world.settle()
    world.clock.advance(60)
    spec = {
        "resourceClaims": [{"name": "gpu", **reference}],
        "schedulingGates": [{"name": names.ADMISSION_GATE}, {"name": FOREIGN}],
    }
    world.add_pod("held", gpus=0, spec=spec)
    world.settle()
    assert [gate.name for gate in world.pod("held").spec.scheduling_gates or ()] == [FOREIGN]
    world.clock.advance(60)
    return world


def is_there(world: World) -> bool:
    return any(one["metadata"]["name"] == "held" for one in world.store.list(resources.PODS).items)


@pytest.mark.parametrize(("count", "stays"), [(8, False), (2, True), (1, True)])
def test_a_claim_that_asks_for_more_stops_a_pod_and_no_other_does(count: int, stays: bool) -> None:
    world = held_world(CLAIM, claim("gpu", request(count=2)))
    world.store.delete(resources.RESOURCE_CLAIMS, "gpu", "ml")
    world.settle()
    assert is_there(world), "a claim that is missing stops nothing"
    world.add(claim("gpu", request(count=count)))
    world.settle()
    assert is_there(world) is stays


@pytest.mark.parametrize(("count", "stays"), [(8, False), (1, True)])
def test_so_does_a_template(count: int, stays: bool) -> None:
    world = held_world(TEMPLATE, template("gpu", request()))
    world.store.delete(resources.RESOURCE_CLAIM_TEMPLATES, "gpu", "ml")
    world.add(template("gpu", request(count=count)))
    world.settle()
    assert is_there(world) is stays


@pytest.mark.parametrize(("count", "stays"), [(8, False), (1, True)])
def test_a_claim_made_for_the_pod_costs_no_more_than_its_template(count: int, stays: bool) -> None:
    world = held_world(TEMPLATE, template("gpu", request()))
    made = claim("held-gpu-x", request(count=count))
    uid = world.pod("held").metadata.uid
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "held", "uid": uid, "controller": True}
    made["metadata"]["annotations"] = {names.POD_CLAIM_NAME: "gpu"}
    made["metadata"]["ownerReferences"] = [owner]
    world.add(made)
    world.settle()
    assert is_there(world) is stays


def test_what_a_new_leader_finds_replaced_is_stopped_too() -> None:
    world = held_world(CLAIM, claim("gpu", request()))
    world.store.delete(resources.RESOURCE_CLAIMS, "gpu", "ml")
    world.add(claim("gpu", request(count=8)))
    world = world.restarted()
    world.settle()
    assert not is_there(world)
