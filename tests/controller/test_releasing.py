"""The quota of a pod that is being deleted is free once the pod has ended."""

import pytest

from admission.base import clock, patches
from admission.config.gpu_configuration import GpuConfiguration
from admission.kube import resources
from tests.builders.cluster import make_namespace
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.controller.test_capacity import bind, make_world, node, set_node
from tests.controller.world import World

HOLD = "example.com/kubelet"
"""Stands for the kubelet that still runs the containers of a pod that is being deleted."""
NOT_READY = "False"


def hold(made: World, by: str | None = HOLD) -> None:
    """The object of the first pod stays when it is deleted, or goes then."""
    change = {"metadata": {"finalizers": [by] if by else None}}
    made.store.patch(resources.PODS, "first", patches.merge(change), "ml")
    made.settle()


def running() -> World:
    """A pod with all of the quota runs on a node, and another pod waits for it."""
    nodes = node("n0", gpu=4), node("n1", gpu=4)
    made = make_world(*nodes, make_cluster_queue(quota=4), make_local_queue())
    made.add_pod("first", gpus=4)
    hold(made)
    bind(made, "first", "n0")
    made.set_phase("first", "Running")
    made.add_pod("second", gpus=4)
    made.settle()
    assert made.admitted() == {"first"}
    return made


def delete(made: World, name: str = "first") -> None:
    made.delete_pod(name)
    made.settle()
    assert made.pod(name).metadata.deletion_timestamp


def ready(made: World, status: str) -> None:
    since = clock.to_wire(made.clock.now())
    set_node(
        made, "n0", conditions=[{"type": "Ready", "status": status, "lastTransitionTime": since}]
    )


def test_a_pod_that_is_being_deleted_keeps_its_quota_while_it_runs() -> None:
    made = running()
    delete(made)
    made.pass_long_time(3600)

    assert made.is_gated("second")
    assert not made.workloads()["first"].status.is_true("Finished")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_its_quota_is_free_once_its_containers_have_ended(phase: str) -> None:
    made = running()
    delete(made)
    made.set_phase("first", phase)
    made.settle()

    assert not made.is_gated("second")


def test_its_quota_is_free_once_the_object_is_gone() -> None:
    made = running()
    delete(made)
    hold(made, by=None)

    assert not made.is_gated("second")


def test_its_quota_is_free_once_its_node_is_gone_and_an_event_says_so() -> None:
    made = running()
    delete(made)
    made.store.delete(resources.NODES, "n0")
    made.settle()

    assert not made.is_gated("second")
    (note,) = (n for _, reason, n in made.events.recorded if reason == "FreedFromLostNode")
    assert note.startswith("Its quota is free: node n0 is lost")


def test_its_quota_is_free_once_its_node_is_out_of_service() -> None:
    made = running()
    delete(made)
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    made.store.patch(resources.NODES, "n0", patches.merge({"spec": {"taints": [taint]}}))
    made.settle()

    assert not made.is_gated("second")


def test_its_quota_is_free_once_its_node_was_not_ready_for_long() -> None:
    made = running()
    delete(made)
    ready(made, NOT_READY)
    made.pass_long_time(290)
    assert made.is_gated("second")
    made.pass_long_time(20)

    assert not made.is_gated("second")


def test_the_controller_rests_while_a_pod_stays_on_its_lost_node() -> None:
    made = running()
    delete(made)
    ready(made, NOT_READY)
    made.pass_long_time(301)
    assert not made.is_gated("second")
    made.pass_long_time(60)

    assert made.core.step() is None


def test_a_node_that_is_ready_again_in_time_frees_nothing() -> None:
    made = running()
    delete(made)
    ready(made, NOT_READY)
    made.pass_long_time(200)
    ready(made, "True")
    made.pass_long_time(600)

    assert made.is_gated("second")


def test_a_pod_that_is_not_being_deleted_keeps_its_quota_on_a_lost_node() -> None:
    made = running()
    ready(made, NOT_READY)
    made.pass_long_time(600)

    assert made.is_gated("second")


def test_an_evicted_pod_holds_its_quota_until_it_has_ended_and_is_deleted_once() -> None:
    made = running()
    name = made.workloads()["first"].metadata.name
    made.store.patch(resources.WORKLOADS, name, patches.merge({"spec": {"active": False}}), "ml")
    made.settle()
    made.pass_long_time(60)
    deletions = [one for one in made.sent if one.operation.value == "stop_owner"]
    assert len(deletions) == 1
    assert made.is_gated("second")
    assert made.workloads()["first"].status.is_true("QuotaReserved")
    made.set_phase("first", "Failed")
    made.settle()

    assert not made.is_gated("second")


def test_another_controller_knows_as_much() -> None:
    made = running()
    delete(made)
    other = made.restarted()
    other.settle()
    other.pass_long_time(60)
    assert other.is_gated("second")
    other.set_phase("first", "Failed")
    other.settle()

    assert not other.is_gated("second")


def test_the_deletion_of_its_pod_frees_quota_at_once_where_that_is_configured() -> None:
    made = World(gpu=GpuConfiguration(release_on="PodTerminating"))
    made.add(
        make_namespace(), make_flavor(), node("n0", gpu=4), make_cluster_queue(quota=4),
        make_local_queue(),
    )  # fmt: skip
    made.settle()
    made.add_pod("first", gpus=4)
    hold(made)
    bind(made, "first", "n0")
    made.set_phase("first", "Running")
    made.add_pod("second", gpus=4)
    delete(made)

    assert not made.is_gated("second")
