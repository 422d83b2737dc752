"""While admission is paused nothing gets quota, and everything else goes on."""

from typing import Any

from admission.base import patches
from admission.base.causes import Paused
from admission.kube import resources
from admission.reasons import kueue
from tests.config import files
from tests.controller.world import World, ready_world

PAUSED = files.settings(files.gpu(admission="Paused")).scheduling()


def reopened(world: World, *, paused: bool) -> World:
    """Another controller on the same store."""
    again = World(world.store, world.clock, PAUSED if paused else None)
    again.settle()
    return again


def set_status(world: World, name: str, **status: Any) -> None:
    found = world.workloads()[name].metadata
    change = patches.merge({"status": status})
    world.store.patch(resources.WORKLOADS, found.name, change, "ml", subresource="status")
    world.settle()


def active(world: World) -> dict[str, str]:
    conditions = world.status_of("gpus")["conditions"]
    return next(one for one in conditions if one["type"] == "Active")


def test_nothing_is_admitted_and_whoever_waits_says_why() -> None:
    world = ready_world(config=PAUSED)
    world.add_pod("train")
    world.pass_time(3)
    assert world.is_gated("train")
    said = world.condition("train")
    assert said is not None
    assert (said.status, said.reason) == ("False", "AdmissionPaused")
    assert said.message.startswith("Waits: admission is paused by an administrator")
    reserved = world.workloads()["train"].status.condition("QuotaReserved")
    assert reserved is not None
    assert (reserved.status, reserved.reason) == ("False", "AdmissionPaused")
    assert reserved.message == kueue.message(Paused())


def test_the_queue_stays_active_and_counts_who_waits() -> None:
    world = ready_world(config=PAUSED)
    world.add_pod("train")
    world.pass_time(3)
    assert (active(world)["status"], active(world)["reason"]) == ("True", "Ready")
    assert world.status_of("gpus")["pendingWorkloads"] == 1


def test_what_else_keeps_a_workload_back_is_said_first() -> None:
    world = ready_world(config=PAUSED)
    world.add_pod("train", labels={"kueue.x-k8s.io/queue-name": "missing"})
    world.pass_time(3)
    said = world.condition("train")
    assert said is not None
    assert said.reason == "LocalQueueNotFound"


def test_a_paused_core_has_nothing_to_do_for_whoever_waits() -> None:
    world = ready_world(config=PAUSED)
    world.add_pod("train")
    world.pass_time(3)
    wait = world.core.step()
    assert wait is None or wait > 0.1
    assert world.state.cycles == 0


def test_after_the_pause_the_one_that_waited_is_admitted() -> None:
    world = ready_world(config=PAUSED)
    world.add_pod("train")
    world.pass_time(3)
    assert reopened(world, paused=False).admitted() == {"train"}


def test_what_was_admitted_before_is_released_ended_and_evicted() -> None:
    world = ready_world()
    for name in ("first", "second"):
        world.add_pod(name, gpus=2)
    world.settle()
    world = reopened(world, paused=True)
    world.add_pod("third", gpus=2)
    world.set_phase("first", "Succeeded")
    world.pass_time(3)
    finished = world.workloads()["first"].status.condition("Finished")
    assert finished is not None
    second = world.workloads()["second"].metadata.name
    change = patches.merge({"spec": {"active": False}})
    world.store.patch(resources.WORKLOADS, second, change, "ml")
    world.pass_time(3)
    assert "EvictedDueToDeactivated" in {reason for _, reason, _ in world.events.recorded}
    status = world.status_of("gpus")
    assert (status["admittedWorkloads"], status["pendingWorkloads"]) == (0, 1)
    assert world.is_gated("third")


def test_quota_that_somebody_else_reserves_is_followed() -> None:
    """A test that plays the scheduler writes the reservation; the pod is released for it."""
    world = ready_world(config=PAUSED)
    world.add_pod("train")
    world.pass_time(3)
    assigned = {"name": "main", "flavors": {"nvidia.com/gpu": "a100"},
                "resourceUsage": {"nvidia.com/gpu": "1"}, "count": 1}  # fmt: skip
    condition = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved",
                 "message": "by a test", "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    set_status(
        world,
        "train",
        admission={"clusterQueue": "gpus", "podSetAssignments": [assigned]},
        conditions=[condition],
    )
    world.pass_time(1)
    assert world.admitted() == {"train"}
    assert world.status_of("gpus")["admittedWorkloads"] == 1
