"""What two leaders gave away twice is taken back: the newest that has not started, no more.

What other programs reserve stands.
"""

from dataclasses import replace
from typing import Any

import pytest

from admission.base import names, patches
from admission.base.names import ClusterQueueName
from admission.controller.workloads import authorship
from admission.controller.writing.api_requests import ApiRequest, RequestResult, WritePurpose
from admission.controller.writing.writer import Sender
from admission.kube import resources
from tests.builders.cluster import make_namespace
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.controller.world import World


def world_with(quota: int) -> World:
    world = World()
    world.add(make_namespace(), make_flavor(), make_cluster_queue(quota=quota), make_local_queue())
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


class Attributing:
    """Sends writes, and answers who wrote an admission, which the store does not record."""

    def __init__(self, sender: Sender, manager: str) -> None:
        self._sender = sender
        self._entry = {"manager": manager, "fieldsV1": {"f:status": {"f:admission": {}}}}

    def send(self, write: ApiRequest) -> RequestResult:
        outcome = self._sender.send(write)
        if write.operation is not WritePurpose.FIND_WRITER:
            return outcome
        metadata = outcome.object["metadata"] | {"managedFields": [self._entry]}
        return replace(outcome, object=outcome.object | {"metadata": metadata})


def written_by(world: World, manager: str) -> None:
    """Makes a program the writer of every admission."""
    world._sender = Attributing(world._sender, manager)  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"manager": names.FIELD_MANAGER, "fieldsV1": {"f:status": {"f:admission": {}}}}, True),
        ({"manager": names.FIELD_MANAGER, "fieldsV1": {"f:status": {"f:conditions": {}}}}, False),
        ({"manager": names.FIELD_MANAGER, "fieldsV1": {"f:spec": {}}}, False),
        ({"manager": names.FIELD_MANAGER}, False),
        ({"manager": "kueue-admission", "fieldsV1": {"f:status": {"f:admission": {}}}}, False),
    ],
)
def test_an_admission_is_ours_where_our_field_manager_owns_it(
    entry: dict[str, Any], *, expected: bool
) -> None:
    assert authorship.is_ours({"metadata": {"managedFields": [entry]}}) is expected
    assert not authorship.is_ours({"metadata": {}})


def test_a_reservation_of_another_program_over_quota_stands_and_counts() -> None:
    world = world_with(quota=4)
    written_by(world, "kueue-admission")
    world.add_pod("first", gpus=4)
    world.settle()
    world.add_pod("second", gpus=4)
    world.settle()
    reserve_behind_our_back(world, "second")
    world.settle()

    assert world.admitted() == {"first", "second"}
    assert used(world) == 8
    world.delete_pod("first")
    world.add_pod("third", gpus=1)
    world.settle()
    assert world.is_gated("third")
    world.delete_pod("second")
    world.settle()
    assert world.admitted() == {"third"}


def test_who_wrote_a_reservation_is_asked_only_where_quota_is_exceeded() -> None:
    world = world_with(quota=4)
    world.add_pod("first", gpus=5)
    world.settle()
    reserve_behind_our_back(world, "first")
    world.settle()

    assert world.admitted() == {"first"}
    assert not [one for one in world.sent if one.operation is WritePurpose.FIND_WRITER]


def test_a_late_reservation_over_quota_is_withdrawn_before_its_pod_is_released() -> None:
    world = world_with(quota=4)
    written_by(world, names.FIELD_MANAGER)
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
    lowered = {"spec": {"resourceGroups": make_cluster_queue(quota=1)["spec"]["resourceGroups"]}}
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
