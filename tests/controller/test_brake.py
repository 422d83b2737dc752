"""Stops of what runs are held back where there are too many, and go on one by one."""

from typing import Any

import pytest

from admission.base import conditions, metrics, names, patches
from admission.config.gpu_configuration import GpuConfiguration
from admission.kube import resources
from tests.builders.cluster import make_namespace
from tests.controller.test_stopping import evict, running
from tests.controller.world import World, ready_world

MANY = [f"train-{number}" for number in range(6)]
PER_MINUTE = 3
SETTINGS = GpuConfiguration(max_stops_per_minute=PER_MINUTE)


def busy_world(*, per_minute: int = PER_MINUTE, phase: str = "Running") -> World:
    """A world in which many pods run, or are released at least."""
    settings = GpuConfiguration(max_stops_per_minute=per_minute)
    world = ready_world(quota=len(MANY), gpu=settings)
    for name in MANY:
        if phase == "Running":
            running(world, name)
        else:
            world.add_pod(name, gpus=1)
            world.settle()
    return world


def evict_all(world: World, reason: str = "NodeFailures") -> None:
    for name in MANY:
        evict(world, name, reason)
    world.settle()


def left(world: World) -> list[str]:
    found = {one["metadata"]["name"] for one in world.store.list(resources.PODS).items}
    return [name for name in MANY if name in found]


def mark(world: World, name: str) -> Any:
    return world.workloads()[name].status.condition(conditions.STOP_HELD_BACK)


def test_a_new_leader_stops_nothing_at_once_and_then_so_many_a_minute() -> None:
    world = busy_world()
    evict_all(world)
    assert left(world) == MANY
    assert metrics.STOPS_HELD_BACK._value.get() == len(MANY)
    world.pass_time(20)
    assert left(world) == MANY[1:]
    world.pass_time(20)
    assert left(world) == MANY[2:]
    world.pass_time(120)
    assert left(world) == []
    assert metrics.STOPS_HELD_BACK._value.get() == 0


def test_what_was_not_used_adds_up_to_the_stops_of_a_minute() -> None:
    world = busy_world()
    world.pass_time(600)
    evict_all(world)
    assert left(world) == MANY[PER_MINUTE:]


def test_who_begins_to_lead_again_and_again_stops_nothing() -> None:
    world = busy_world()
    evict_all(world)
    for _ in range(10):
        world.pass_time(19)
        world = World(world.store, world.clock, gpu=SETTINGS)
        world.settle()
    assert left(world) == MANY


def test_what_is_held_back_says_so_until_it_is_stopped() -> None:
    world = busy_world()
    evict_all(world)
    found = mark(world, MANY[0])
    assert (found.status, found.reason) == ("True", "TooManyStops")
    assert found.message.startswith("It still runs and is to be stopped: by a test. Stops beyond")
    assert "gpu-admission stops allow" in found.message
    assert (MANY[0], "StopHeldBack") in {told[:2] for told in world.events.recorded}


def test_a_pod_without_workload_that_is_held_back_has_an_event() -> None:
    world = ready_world(gpu=SETTINGS)
    world.add_pod("loose", gated=False, phase="Running")
    world.settle()
    assert world.pod("loose").metadata.deletion_timestamp is None
    told = [one for one in world.events.recorded if one[1] == "StopHeldBack"]
    assert [one[0] for one in told] == ["loose"]


def test_a_condition_goes_when_the_eviction_does() -> None:
    world = busy_world()
    evict_all(world)
    name = world.workloads()[MANY[0]].metadata.name
    stored = world.store.get(resources.WORKLOADS, name, "ml")["status"]["conditions"]
    kept = [one for one in stored if one["type"] != "Evicted"]
    change = patches.merge({"status": {"conditions": kept}})
    world.store.patch(resources.WORKLOADS, name, change, "ml", subresource="status")
    world.settle()
    assert mark(world, MANY[0]) is None


@pytest.mark.parametrize("reason", ["Preempted", "Deactivated", "LocalQueueStopped"])
def test_what_a_decision_or_a_person_asks_for_is_not_held_back(reason: str) -> None:
    world = busy_world()
    evict_all(world, reason)
    assert left(world) == []


def test_a_pod_that_is_not_bound_is_stopped_at_once() -> None:
    world = busy_world(phase="Pending")
    evict_all(world)
    assert left(world) == []


def test_zero_holds_nothing_back() -> None:
    world = busy_world(per_minute=0)
    evict_all(world)
    assert left(world) == []


def test_an_annotation_of_our_namespace_lets_everything_go_until_its_time() -> None:
    world = busy_world()
    world.add(make_namespace(names.SYSTEM_NAMESPACE))
    evict_all(world)
    allow(world, "not a time")
    assert left(world) == MANY
    allow(world, world.clock.now().isoformat())
    assert left(world) == MANY
    allow(world, "2126-01-01T00:00:00Z")
    assert left(world) == []


def allow(world: World, until: str) -> None:
    change = patches.merge({"metadata": {"annotations": {names.STOPS_ALLOWED_UNTIL: until}}})
    world.store.patch(resources.NAMESPACES, names.SYSTEM_NAMESPACE, change)
    world.settle()
