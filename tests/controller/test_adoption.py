"""A pod that was gated in doubt gets the namespace's default queue, or is let go."""

from typing import Any

import pytest

from admission.base import names, patches
from admission.base.namespaces import ManagedNamespaces
from admission.kube import resources
from admission.objects import views
from tests.builders.cluster import make_namespace
from tests.builders.pods import queued_pod
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.controller.test_claims import device_class, request, template
from tests.controller.world import World


def world_with(*objects: dict[str, Any]) -> World:
    world = World()
    world.add(*(objects or (make_namespace(),)), make_flavor(), make_cluster_queue())
    return world


def add_pod_in_doubt(world: World, name: str = "train", **changes: Any) -> None:
    document = queued_pod(name, **changes)
    del document["metadata"]["labels"][names.QUEUE_LABEL]
    world.store.create(resources.PODS, document, "ml")


def test_with_a_default_queue_it_is_adopted_and_admitted() -> None:
    world = world_with(make_namespace(), make_local_queue("default"))
    add_pod_in_doubt(world)
    world.pass_time(2)

    assert world.pod("train").metadata.label(names.QUEUE_LABEL) == "default"
    assert world.admitted() == {"train"}


def test_a_queue_that_comes_in_the_same_second_counts() -> None:
    world = world_with()
    add_pod_in_doubt(world)
    world.settle()
    world.clock.advance(0.5)
    world.add(make_local_queue("default"))
    world.pass_time(2)

    assert world.pod("train").metadata.label(names.QUEUE_LABEL) == "default"


def test_without_a_default_queue_it_is_let_go_after_a_second() -> None:
    world = world_with()
    add_pod_in_doubt(world)
    world.settle()
    assert world.is_gated("train")
    world.pass_time(1)
    pod = world.pod("train")

    assert not pod.spec.scheduling_gates
    assert names.MANAGED_LABEL not in (pod.metadata.labels or {})
    assert not world.workloads()


def check_waits_for_queue(world: World) -> views.PodCondition:
    """The pod is held and says that it needs a queue; the condition."""
    condition = world.condition("train")
    assert condition is not None
    assert condition.reason == "QueueRequired"
    assert world.is_gated("train")
    return condition


def test_in_an_enforced_namespace_it_waits_for_a_queue_and_says_so() -> None:
    enforced = make_namespace()
    enforced["metadata"]["labels"] = {names.ENFORCE_LABEL: "true"}
    world = world_with(enforced)
    add_pod_in_doubt(world)
    world.pass_time(2)
    check_waits_for_queue(world)
    world.add(make_local_queue("default"))
    world.pass_time(1)
    assert world.admitted() == {"train"}


def test_where_the_mode_enforces_queues_it_waits_for_one_and_says_so() -> None:
    """The namespace has a LocalQueue, of another name than default, and no label."""
    world = World(namespaces=ManagedNamespaces(enforced_with_queue=True))
    world.add(make_namespace(), make_flavor(), make_cluster_queue(), make_local_queue("team-a"))
    add_pod_in_doubt(world)
    world.pass_time(2)
    check_waits_for_queue(world)


def add_claiming_pod(world: World) -> None:
    claims = [{"name": "device", "resourceClaimTemplateName": "one"}]
    add_pod_in_doubt(world, gpus=0, spec={"resourceClaims": claims})
    world.settle()


ENFORCED = {
    **make_namespace(),
    "metadata": {"name": "ml", "labels": {names.ENFORCE_LABEL: "true"}},
}


def test_req_27_a_claim_for_a_gpu_is_adopted_by_the_default_queue() -> None:
    world = world_with(make_namespace(), make_local_queue("default"), template("one"))
    add_claiming_pod(world)

    assert world.pod("train").metadata.label(names.QUEUE_LABEL) == "default"
    assert world.admitted() == {"train"}


def test_req_27_a_claim_for_a_gpu_needs_a_queue_where_that_is_enforced() -> None:
    world = world_with(ENFORCED, template("one"))
    add_claiming_pod(world)
    world.pass_time(2)

    condition = world.condition("train")
    assert condition is not None
    assert condition.reason == "QueueRequired"


@pytest.mark.parametrize("queues", [(ENFORCED,), (make_namespace(), make_local_queue("default"))])
def test_a_claim_for_another_device_is_let_go_at_once(queues: tuple[dict[str, Any], ...]) -> None:
    nic = request("nic.example.com", selector="device.driver == 'nic.example.com'")
    world = world_with(*queues, template("one", nic), device_class("nic.example.com"))
    add_claiming_pod(world)

    assert not world.is_gated("train")
    assert not world.workloads()


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (template("one"), "ResourceClaimTemplate one not found in namespace ml"),
        (device_class("odd"), "DeviceClass odd not found"),
    ],
)
def test_until_it_is_known_what_is_claimed_the_pod_is_held_and_says_so(
    missing: dict[str, Any], said: str
) -> None:
    there = [template("one", request("odd"))] if missing["kind"] == "DeviceClass" else []
    world = world_with(make_namespace(), make_local_queue("default"), *there)
    add_claiming_pod(world)
    world.pass_time(1)
    condition = world.condition("train")

    assert condition is not None
    assert (condition.reason, condition.message) == ("ResourceClaimUnknown", said)
    world.add(missing)
    world.settle()
    assert not world.is_gated("train")


@pytest.mark.parametrize(
    ("resource", "is_counted"),
    [
        ("deviceclass.resource.kubernetes.io/gold", True),
        ("example.com/gold", True),
        ("deviceclass.resource.kubernetes.io/nic", False),
        ("example.com/nic", False),
        ("example.com/nobody", False),
    ],
)
def test_req_27_the_class_of_a_resource_decides_whether_a_pod_needs_quota(
    resource: str, is_counted: bool
) -> None:
    world = world_with(
        make_namespace(),
        make_local_queue("default"),
        device_class(
            "gold", "device.driver == 'gpu.nvidia.com'", extendedResourceName="example.com/gold"
        ),
        device_class(
            "nic", "device.driver == 'nic.example.com'", extendedResourceName="example.com/nic"
        ),
    )
    add_pod_in_doubt(world, gpus=1, resource=resource)
    world.settle()

    assert bool(world.workloads()) == is_counted
    assert not world.is_gated("train")


def test_req_27_a_pod_is_held_until_the_class_that_it_names_is_there() -> None:
    world = world_with(make_namespace(), make_local_queue("default"))
    add_pod_in_doubt(world, gpus=1, resource="deviceclass.resource.kubernetes.io/gold")
    world.pass_time(2)
    condition = world.condition("train")
    assert condition is not None
    assert (condition.reason, condition.message) == (
        "ResourceClaimUnknown",
        "DeviceClass gold not found",
    )


def test_where_a_queue_is_required_it_waits_for_one_and_a_label_is_enough() -> None:
    world = World(namespaces=ManagedNamespaces(queue_required=True))
    world.add(make_namespace(), make_flavor(), make_cluster_queue(), make_local_queue("team-a"))
    add_pod_in_doubt(world)
    world.pass_time(2)
    condition = check_waits_for_queue(world)
    assert condition.message == (
        "this cluster admits GPU pods through a queue only (manageJobsWithoutQueueName); give the "
        "pod the label kueue.x-k8s.io/queue-name, or ask an administrator for a LocalQueue named "
        "default"
    )

    label = patches.merge({"metadata": {"labels": {names.QUEUE_LABEL: "team-a"}}})
    world.store.patch(resources.PODS, "train", label, "ml")
    world.settle()
    assert world.admitted() == {"train"}
