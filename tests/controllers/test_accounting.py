"""Kueue's metrics follow what happens, and the series of a queue go with it."""

from itertools import count

from prometheus_client import REGISTRY

from admission.kube import resources
from tests.controllers.world import World, cluster_queue, flavor, local_queue, namespace

_NUMBERS = count()


def value(name: str, **labels: str) -> float:
    return (
        REGISTRY.get_sample_value(f"kueue_{name}", {"replica_role": "standalone", **labels}) or 0
    )


def world_with(quota: int) -> tuple[World, str]:
    """A queue of a name of its own: the registry is shared by all tests of the process."""
    name = f"queue-{next(_NUMBERS)}"
    world = World()
    world.add(namespace(), flavor(), cluster_queue(name, quota=quota), local_queue(queue=name))
    world.settle()
    return world, name


def test_reservation_admission_and_end_are_counted_once() -> None:
    world, queue = world_with(quota=4)
    world.add_pod("train")
    world.settle()
    world.set_phase("train", "Succeeded")
    world.settle()
    counted = {
        kind: value(f"{kind}_workloads_total", cluster_queue=queue, priority_class="")
        for kind in ("quota_reserved", "admitted", "finished")
    }

    assert counted == {"quota_reserved": 1, "admitted": 1, "finished": 1}
    waits = value("admission_wait_time_seconds_count", cluster_queue=queue, priority_class="")
    assert waits == 1


def test_a_restart_does_not_count_again() -> None:
    world, queue = world_with(quota=4)
    world.add_pod("train")
    world.settle()
    world.restarted().settle()

    assert value("admitted_workloads_total", cluster_queue=queue, priority_class="") == 1


def test_gauges_show_who_waits_and_what_is_used() -> None:
    world, queue = world_with(quota=4)
    world.add_pod("a", gpus=3)
    world.settle()
    world.add_pod("b", gpus=3)
    world.pass_time(3)

    assert value("pending_workloads", cluster_queue=queue, status="inadmissible") == 1
    assert value("admitted_active_workloads", cluster_queue=queue) == 1
    assert value("cluster_queue_status", cluster_queue=queue, status="active") == 1
    amount = {"cohort": "", "cluster_queue": queue, "flavor": "a100", "resource": "nvidia.com/gpu"}
    assert value("cluster_queue_resource_usage", **amount) == 3
    assert value("cluster_queue_nominal_quota", **amount) == 4


def test_the_series_of_a_deleted_queue_are_removed() -> None:
    world, queue = world_with(quota=4)
    world.add_pod("a")
    world.pass_time(2)
    world.set_phase("a", "Succeeded")  # a queue is held while it is used
    world.store.delete(resources.CLUSTER_QUEUES, queue)
    world.pass_time(2)
    labels = {"cluster_queue": queue, "replica_role": "standalone"}

    assert REGISTRY.get_sample_value("kueue_admitted_active_workloads", labels) is None


def test_preemptions_are_counted_by_who_preempted() -> None:
    world, queue = world_with(quota=2)
    world.store.delete(resources.CLUSTER_QUEUES, queue)
    world.settle()
    world.add(cluster_queue(queue, quota=2, preemption={"withinClusterQueue": "LowerPriority"}))
    world.add_pod("low", gpus=2, spec={"priority": 1})
    world.settle()
    world.add_pod("high", gpus=2, spec={"priority": 9})
    world.pass_time(3)
    counted = value(
        "preempted_workloads_total", preempting_cluster_queue=queue, reason="InClusterQueue"
    )

    assert counted == 1
    evicted = {"cluster_queue": queue, "reason": "Preempted", "underlying_cause": ""}
    assert value("evicted_workloads_total", priority_class="", **evicted) == 1
