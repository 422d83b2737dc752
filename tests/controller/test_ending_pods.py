"""What is said of a Workload that waits for quota which pods hold that are being deleted."""

from admission.base import names, patches
from admission.kube import resources
from tests.builders.cluster import make_namespace
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.controller.world import World

LASTING = {"metadata": {"finalizers": ["example.com/hold"]}, "spec": {"nodeName": "n0"}}
CLAUSE = "; 1 pod that is ending holds 2 a100."
IN_KUEUE = "2 more needed. Pending the end of 1 pod(s) with 2 nvidia.com/gpu of flavor a100"


def made() -> World:
    """A world in which a pod is being deleted that holds all quota, and another one waits."""
    world = World()
    world.add(
        make_namespace(), make_flavor("a100"), make_cluster_queue(quota=2), make_local_queue()
    )
    world.store.create(resources.NODES, {"metadata": {"name": "n0"}})
    world.add_pod("first", gpus=2)
    world.settle()
    world.store.patch(resources.PODS, "first", patches.merge(LASTING), "ml")
    world.settle()
    world.store.delete(resources.PODS, "first", "ml")
    world.settle()
    world.add_pod("second", gpus=2)
    world.settle()
    world.pass_time(2)
    return world


def says(world: World) -> str:
    condition = world.condition("second")
    assert condition is not None
    return condition.message


def workload_says(world: World) -> str:
    condition = world.workloads()["second"].status.condition("QuotaReserved")
    assert condition is not None
    return condition.message


def test_a_workload_says_which_quota_pods_hold_that_are_ending() -> None:
    """Past their grace period nobody knows until when."""
    world = made()
    assert says(world).endswith(CLAUSE)
    assert workload_says(world).endswith(IN_KUEUE)


def test_pods_that_lost_their_workload_while_they_end_count_too() -> None:
    world = made()
    workload = world.workloads()["first"].metadata.name
    world.store.delete(resources.WORKLOADS, workload, "ml")
    world.settle()
    world.pass_time(65)
    assert says(world).endswith(CLAUSE)
    assert workload_says(world).endswith(IN_KUEUE)


def test_nothing_is_said_any_more_once_the_pods_have_ended() -> None:
    """Also where the quota went to another one, so that as much is lacking as before."""
    world = made()
    labels = {names.PRIORITY_CLASS_LABEL: "high"}
    world.store.create(
        resources.WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 10}
    )
    world.add_pod("third", gpus=2, labels=labels)
    world.settle()
    world.set_phase("first", "Failed")
    world.settle()
    assert not world.is_gated("third")
    world.pass_time(65)
    assert says(world).startswith("Waits: needs 2 a100, 0 free of 2")
    assert "ending" not in says(world)
    assert workload_says(world).endswith("2 more needed")
