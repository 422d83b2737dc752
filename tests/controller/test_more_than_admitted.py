"""Pods of an admitted owner that ask for more than was admitted: others add to them later."""

from typing import Any

import msgspec
import pytest

from admission.base import names, patches
from admission.controller import audit
from admission.controller.core import WatchMessage
from admission.gpu import catalogue
from admission.kube import resources
from admission.kube.api import Document
from admission.kube.reflector import Upserted
from admission.objects import views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.workload import Workload
from admission.scheduling.transformation import NO_RULES
from tests.builders.cluster import make_namespace
from tests.builders.jobs import queued_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.controller.world import World

GIB = 1 << 30
SIDECAR = {"name": "mesh", "image": "x", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}


def started(pods: int = 2, cpu: int = 8) -> World:
    """A Job runs that asks for 1 cpu, 1 GiB and 1 GPU in each pod."""
    world = World()
    quotas = {"a100": {names.GPU_RESOURCE: 4, "cpu": cpu, "memory": "64Gi"}}
    queue = make_cluster_queue(quotas=quotas)
    world.add(make_namespace(), make_flavor(), queue, make_local_queue())
    world.store.create(resources.NODES, {"metadata": {"name": "node"}})
    pod = {"requests": {"cpu": "1", "memory": "1Gi"}}
    world.add(queued_job("train", pods, gpus=1, pod=pod))
    world.settle()
    return world


def template(world: World) -> Document:
    found: Document = world.store.get(resources.JOBS, "train", "ml")["spec"]["template"]
    return found


def add_pod(world: World, name: str, *more: Document) -> None:
    made = template(world)
    spec = {**made["spec"], "nodeName": "node"}
    spec["containers"] = [*spec["containers"], *more]
    job = world.store.get(resources.JOBS, "train", "ml")["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": job["uid"]}
    metadata = {
        **made["metadata"], "name": name, "namespace": "ml",
        "ownerReferences": [{**owner, "controller": True}],
    }  # fmt: skip
    world.add({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    world.settle()


def used(world: World) -> dict[str, int]:
    usage = world.state.cluster_queue_status(names.ClusterQueueName("gpus")).usage
    return {fr.resource: amount for fr, amount in usage.items()}


def test_the_pods_of_an_owner_say_how_many_devices_were_admitted_for_each() -> None:
    world = started()
    assert template(world)["metadata"]["annotations"][names.ADMITTED_DEVICES] == "nvidia.com/gpu=1"


def test_the_template_is_what_it_was_once_the_owner_is_stopped() -> None:
    world = started()
    (name,) = {one.metadata.name for one in world.workloads().values()}
    change = patches.merge({"spec": {"active": False}})
    world.store.patch(resources.WORKLOADS, name, change, "ml")
    world.pass_time(3)
    assert names.ADMITTED_DEVICES not in template(world)["metadata"].get("annotations", {})


def test_what_a_pod_asks_for_as_admitted_is_charged_once() -> None:
    world = started()
    add_pod(world, "a")
    add_pod(world, "b")
    assert used(world) == {"cpu": 2000, "memory": 2 * GIB, names.GPU_RESOURCE: 2}


@pytest.mark.parametrize("number", [1, 2])
def test_cpu_and_memory_that_another_webhook_adds_are_charged_until_the_pod_ends(
    number: int,
) -> None:
    world = started()
    for one in range(number):
        add_pod(world, f"pod-{one}", SIDECAR)
    more = {"cpu": 2000 * number, "memory": GIB * number}
    assert used(world) == {
        "cpu": 2000 + more["cpu"], "memory": 2 * GIB + more["memory"], names.GPU_RESOURCE: 2,
    }  # fmt: skip
    for one in range(number):
        world.set_phase(f"pod-{one}", "Failed")
    world.settle()
    assert used(world) == {"cpu": 2000, "memory": 2 * GIB, names.GPU_RESOURCE: 2}


def test_a_pod_that_got_its_label_back_is_compared_with_what_was_admitted_as_before() -> None:
    world = started(pods=1)
    add_pod(world, "a")
    lost = patches.merge({"metadata": {"labels": {names.PODSET_LABEL: None}}})
    world.store.patch(resources.PODS, "a", lost, "ml")
    world.settle()
    pod = world.store.get(resources.PODS, "a", "ml", into=views.Pod)
    assert pod.metadata.label(names.PODSET_LABEL)
    (container,) = pod.spec.containers
    requests = {**(container.resources.requests or {}), "cpu": "3"}
    amounts = msgspec.structs.replace(container.resources, requests=requests)
    containers = (msgspec.structs.replace(container, resources=amounts),)
    spec = msgspec.structs.replace(pod.spec, containers=containers)
    metadata = msgspec.structs.replace(pod.metadata, resource_version="999999")
    resized = msgspec.structs.replace(pod, metadata=metadata, spec=spec)
    world.core.receive(WatchMessage(resources.RELEASED_PODS, Upserted(resized)))
    assert used(world) == {"cpu": 3000, "memory": GIB, names.GPU_RESOURCE: 1}


def test_the_next_controller_charges_the_same() -> None:
    world = started()
    add_pod(world, "a", SIDECAR)
    again = world.restarted()
    again.settle()
    assert used(again) == used(world)


def test_what_is_added_keeps_others_from_the_quota() -> None:
    world = started(cpu=6)
    add_pod(world, "a", SIDECAR)
    add_pod(world, "b", SIDECAR)
    world.add_pod("next", gpus=1, requests={"cpu": "1"})
    world.settle()
    assert world.is_gated("next")


def test_all_of_a_pod_is_charged_once_its_workload_is_gone() -> None:
    world = started(pods=1)
    add_pod(world, "a", SIDECAR)
    orphan = patches.merge({"metadata": {"ownerReferences": None}})
    world.store.patch(resources.PODS, "a", orphan, "ml")
    world.store.delete(resources.JOBS, "train", "ml")
    world.settle()
    assert used(world) == {"cpu": 3000, "memory": 2 * GIB, names.GPU_RESOURCE: 1}


def test_the_audit_agrees() -> None:
    world = started()
    add_pod(world, "a", SIDECAR)
    add_pod(world, "b")

    def every(resource: Any, into: Any) -> list[Any]:
        return list(world.store.list(resource, into=into).items)

    listed = audit.Listed(
        workloads=tuple(every(resources.WORKLOADS, Workload)),
        pods=tuple(every(resources.PODS, views.Pod)),
        nodes={one.metadata.name: one for one in every(resources.NODES, views.Node)},
        queues={one.metadata.name: one for one in every(resources.CLUSTER_QUEUES, ClusterQueue)},
        flavors={
            one.metadata.name: one for one in every(resources.RESOURCE_FLAVORS, ResourceFlavor)
        },
        unmanaged=frozenset(),
    )
    should = audit.expected(listed, catalogue.load(), NO_RULES)
    counted = world.core.present.counted()
    assert audit.differences(should, counted, counted) == {}
    assert used(world)["cpu"] == 4000
