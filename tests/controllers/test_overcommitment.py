"""What two leaders gave away twice is taken back: the newest that has not started, no more."""

from typing import Any

from admission.base.names import ClusterQueueName
from admission.kube import patches, resources
from tests.controllers.world import World, cluster_queue, flavor, local_queue, namespace


def world_with(quota: int) -> World:
    world = World()
    world.add(namespace(), flavor(), cluster_queue(quota=quota), local_queue())
    world.settle()
    return world


def reserve_behind_our_back(world: World, name: str) -> None:
    """What a paused old leader's late write does: it reserves without regard to usage."""
    workload = world.workloads()[name]
    status: dict[str, Any] = {
        "admission": {
            "clusterQueue": "gpus",
            "podSetAssignments": [
                {"name": "main", "count": 1, "flavors": {"nvidia.com/gpu": "a100"},
                 "resourceUsage": {"nvidia.com/gpu": "4"}}
            ],
        },
        "conditions": [
            {"type": kind, "status": "True", "reason": kind, "message": "",
             "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for kind in ("QuotaReserved", "Admitted")
        ],
    }  # fmt: skip
    metadata = workload.metadata
    world.store.patch(
        resources.WORKLOADS, metadata.name, patches.merge({"status": status}),
        metadata.namespace, subresource="status",
    )  # fmt: skip


def used(world: World) -> int:
    (used,) = world.state.cluster_queue_status(ClusterQueueName("gpus")).reservation.values()
    return used


def test_a_late_reservation_over_quota_is_withdrawn_before_its_pod_is_released() -> None:
    world = world_with(quota=4)
    world.add_pod("first", gpus=4)
    world.settle()
    world.add_pod("second", gpus=4)
    world.settle()
    reserve_behind_our_back(world, "second")
    world.settle()

    assert world.admitted() == {"first"}
    assert world.is_gated("second")
    assert used(world) == 4


def test_a_new_leader_withdraws_what_was_reserved_twice_and_not_started() -> None:
    world = world_with(quota=4)
    world.add_pod("first", gpus=4)
    world.settle()
    world.add_pod("second", gpus=4)
    world.settle()
    reserve_behind_our_back(world, "second")
    successor = world.restarted()
    successor.settle()

    assert successor.admitted() == {"first"}
    condition = successor.workloads()["second"].status.condition("QuotaReserved")
    assert condition is not None
    assert condition.status == "False"
    successor.delete_pod("first")
    successor.settle()
    assert successor.admitted() == {"second"}


def test_what_runs_is_never_taken_back() -> None:
    world = world_with(quota=4)
    world.add_pod("first", gpus=4)
    world.settle()
    lowered = {"spec": {"resourceGroups": cluster_queue(quota=1)["spec"]["resourceGroups"]}}
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", patches.merge(lowered))
    successor = world.restarted()
    successor.settle()

    assert successor.admitted() == {"first"}
    assert set(successor.workloads()) == {"first"}


def test_a_reservation_within_quota_stays_whoever_wrote_it() -> None:
    world = world_with(quota=4)
    world.add_pod("first", gpus=5)  # never fits by our own decision
    world.settle()
    reserve_behind_our_back(world, "first")
    world.settle()

    assert world.admitted() == {"first"}
