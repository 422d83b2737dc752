"""Whoever holds GPUs by ResourceClaim is charged, whatever its claims were when it was let go."""

from typing import Any

import pytest

from admission.base import names, patches
from admission.kube import resources
from tests.builders.cluster import make_namespace
from tests.builders.pods import queued_pod
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.controller.test_claims import claim, device_class, request, template
from tests.controller.world import World

FOREIGN = "example.com/mine"
NIC = "device.driver == 'nic.example.com'"


def make_world(*, enforced: bool = False, queue: str = "default") -> World:
    """A namespace with quota for 4 GPUs, and a class of network cards."""
    namespace = make_namespace()
    namespace["metadata"]["labels"] = {names.ENFORCE_LABEL: str(enforced).lower()}
    world = World()
    world.add(namespace, make_flavor(), make_cluster_queue(quota=4))
    world.add(device_class("nic", NIC), *([make_local_queue(queue)] if queue else []))
    return world


def add_pod(world: World, name: str = "held", **reference: str) -> None:
    """A pod as the review leaves it: in doubt, and with a gate of its user."""
    claims = [{"name": f"c{index}", key: value} for index, (key, value) in
              enumerate(reference.items())]  # fmt: skip
    gates = [{"name": names.ADMISSION_GATE}, {"name": FOREIGN}]
    document = queued_pod(name, gpus=0, spec={"resourceClaims": claims, "schedulingGates": gates})
    del document["metadata"]["labels"][names.QUEUE_LABEL]
    world.store.create(resources.PODS, document, "ml")


def replace_claim(world: World, name: str, *requests: dict[str, Any]) -> None:
    world.store.delete(resources.RESOURCE_CLAIMS, name, "ml")
    world.add(claim(name, *requests))


def run(world: World, name: str = "held", **devices: int) -> None:
    """What the user, the scheduler and a kubelet do: claims by name get so many GPUs."""
    ungated = patches.merge({"spec": {"schedulingGates": [], "nodeName": "n1"}})
    world.store.patch(resources.PODS, name, ungated, "ml")
    world.set_phase(name, "Running")
    pod = world.pod(name)
    for of_claim, count in devices.items():
        allocate(world, of_claim, count, (name, pod.metadata.uid))


def allocate(world: World, name: str, count: int, *pods: tuple[str, str]) -> None:
    results = [
        {"request": "gpu", "driver": names.DRA_DRIVER, "pool": "n1", "device": f"{name}-{index}"}
        for index in range(count)
    ]
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": pod, "uid": uid} for pod, uid in pods],
    }
    change = patches.merge({"status": status})
    world.store.patch(resources.RESOURCE_CLAIMS, name, change, "ml")
    world.settle()


def used(world: World) -> str:
    world.pass_time(2)
    (found,) = world.status_of("gpus")["flavorsUsage"]
    return str({one["name"]: one["total"] for one in found["resources"]}[names.GPU_RESOURCE])


def names_of_pods(world: World) -> set[str]:
    return {one["metadata"]["name"] for one in world.store.list(resources.PODS).items}


def let_go(world: World, **reference: str) -> None:
    add_pod(world, **reference)
    world.settle()
    gates = [gate.name for gate in world.pod("held").spec.scheduling_gates or ()]
    assert gates == [FOREIGN]
    assert not world.workloads()


def test_req_27_a_claim_that_becomes_one_for_gpus_is_charged():
    world = make_world()
    world.add(claim("net", request("nic")))
    let_go(world, resourceClaimName="net")
    replace_claim(world, "net", request(count=8))
    run(world, net=8)
    assert used(world) == "8"
    assert set(world.workloads()) == {"held"}
    again = world.restarted()
    again.settle()
    assert used(again) == "8"
    again.set_phase("held", "Succeeded")
    again.settle()
    assert used(again) == "0"


@pytest.mark.parametrize("queue", ["default", ""])
def test_req_27_it_is_stopped_where_queues_are_enforced(queue: str):
    world = make_world(enforced=True, queue=queue)
    world.add(claim("net", request("nic")))
    let_go(world, resourceClaimName="net")
    replace_claim(world, "net", request(count=8))
    run(world, net=8)
    world.pass_time(120)
    assert names_of_pods(world) == set()


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (request(allocationMode="All"), 3),
        (request("other"), 2),
        ({"name": "any", "firstAvailable": [
            {"name": "a", "deviceClassName": "gpu.nvidia.com", "count": 1},
            {"name": "b", "deviceClassName": "gpu.nvidia.com", "count": 2},
        ]}, 2),
    ],
    ids=["all", "a class that is not counted", "alternatives"],
)  # fmt: skip
def test_req_27_what_cannot_be_counted_is_charged_as_it_was_given(
    asked: dict[str, Any], given: int
):
    world = make_world()
    world.add(claim("net", request("nic")), device_class("other"))
    let_go(world, resourceClaimName="net")
    replace_claim(world, "net", asked)
    run(world, net=given)
    assert used(world) == str(given)


def test_req_27_a_claim_for_another_device_beside_it_hides_no_gpu():
    world = make_world()
    world.add(claim("net", request("nic")), claim("more", request("nic")))
    claims = [{"name": name, "resourceClaimName": name} for name in ("net", "more")]
    document = queued_pod("held", gpus=0, spec={"resourceClaims": claims})
    del document["metadata"]["labels"][names.QUEUE_LABEL]
    world.store.create(resources.PODS, document, "ml")
    world.settle()
    replace_claim(world, "more", request(count=2))
    run(world, more=2)
    assert used(world) == "2"


def test_req_27_a_pod_that_comes_to_a_claim_later_is_charged_with_it_once():
    world = make_world()
    world.add(claim("net", request("nic")))
    for name in ("held", "second"):
        add_pod(world, name, resourceClaimName="net")
    world.settle()
    replace_claim(world, "net", request(count=2))
    for name in ("held", "second"):
        run(world, name)
    pods = [(name, world.pod(name).metadata.uid) for name in ("held", "second")]
    allocate(world, "net", 2, pods[0])
    allocate(world, "net", 2, *pods)
    assert used(world) == "2"
    assert set(world.workloads()) == {"held", "second"}


def test_req_27_a_pod_that_only_watches_gpus_or_has_other_devices_is_left_alone():
    world = make_world(enforced=True)
    world.add(claim("net", request("nic")))
    let_go(world, resourceClaimName="net")
    run(world)
    result = {"request": "gpu", "driver": "nic.example.com", "pool": "n1", "device": "n"}
    watched = {**result, "driver": names.DRA_DRIVER, "adminAccess": True}
    uid = world.pod("held").metadata.uid
    status = {
        "allocation": {"devices": {"results": [result, watched]}},
        "reservedFor": [{"resource": "pods", "name": "held", "uid": uid}],
    }
    change = patches.merge({"status": status})
    world.store.patch(resources.RESOURCE_CLAIMS, "net", change, "ml")
    world.pass_time(120)
    assert names_of_pods(world) == {"held"}
    assert used(world) == "0"


def test_req_27_where_no_queue_is_it_is_charged_once_there_is_one():
    world = make_world(queue="")
    world.add(claim("net", request("nic")))
    let_go(world, resourceClaimName="net")
    replace_claim(world, "net", request(count=2))
    run(world, net=2)
    assert used(world) == "0"
    world.add(make_local_queue("default"))
    world.settle()
    assert used(world) == "2"


def test_req_27_a_claim_that_outgrew_its_template_is_charged_and_its_pod_stopped():
    world = make_world()
    world.add(template("net", request("nic")))
    let_go(world, resourceClaimTemplateName="net")
    made = claim("held-c0-x", request(count=8))
    pod = world.pod("held").metadata
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "held", "uid": pod.uid, "controller": True}
    made["metadata"]["annotations"] = {names.POD_CLAIM_NAME: "c0"}
    made["metadata"]["ownerReferences"] = [owner]
    world.add(made)
    run(world)
    allocate(world, "held-c0-x", 8, ("held", pod.uid))
    world.pass_time(120)
    assert names_of_pods(world) == set()
