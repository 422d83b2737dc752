"""Events on Workloads that say again what a condition says: as Kueue's, while they are few."""

from collections.abc import Mapping
from typing import Any

from admission.base import metrics, names, patches
from admission.base.events import Event
from admission.controller.writing.flow_control import RepeatedEvents
from admission.kube import resources
from tests.builders.workloads import make_pod_set, make_workload
from tests.clocks import FakeClock
from tests.controller.world import World, add_checked_queue, ready_world


def told(world: World) -> list[tuple[str, str]]:
    """Reasons and notes of the events about the Workload."""
    return [(reason, note) for name, reason, note in world.events.recorded if name == "train"]


def test_who_gets_quota_and_admission_at_once_is_told_of_both() -> None:
    world = ready_world(quota=1)
    world.add(make_workload("train"))
    world.settle()
    assert told(world) == [
        ("QuotaReserved", "Quota reserved in ClusterQueue gpus, wait time since queued was 0s"),
        ("Admitted", "Admitted by ClusterQueue gpus, wait time since reservation was 0s"),
    ]


def test_the_wait_counts_from_the_creation() -> None:
    world = ready_world(quota=1)
    world.add(make_workload("first"))
    world.settle()
    world.add(make_workload("train"))
    world.settle()
    world.clock.advance(7)
    world.store.delete(resources.WORKLOADS, "first", "ml")
    world.settle()
    ((_, note),) = [one for one in told(world) if one[0] == "QuotaReserved"]
    assert note == "Quota reserved in ClusterQueue gpus, wait time since queued was 7s"


def test_what_the_checks_let_in_is_told_of_its_quota_first() -> None:
    world = ready_world()
    add_checked_queue(world)
    document = make_workload("train")
    document["spec"]["queueName"] = "checked"
    world.add(document)
    world.settle()
    assert [reason for reason, _ in told(world)] == ["QuotaReserved"]


def test_why_a_workload_waits_is_told_once() -> None:
    world = ready_world(quota=1)
    world.add(make_workload("train", make_pod_set(gpus=2)))
    world.settle()
    world.pass_time(60)
    status = world.store.get(resources.WORKLOADS, "train", "ml")["status"]
    (condition,) = [one for one in status["conditions"] if one["type"] == "QuotaReserved"]
    assert told(world) == [(condition["reason"], condition["message"])]


def test_gates_are_told_when_they_hold_and_when_they_are_gone() -> None:
    world = ready_world(quota=0)
    document = make_workload("train")
    document["metadata"]["annotations"] = {names.ADMISSION_GATED_BY: "example.com/gate"}
    world.add(document)
    world.settle()
    world.pass_time(2)
    change = patches.merge({"metadata": {"annotations": {names.ADMISSION_GATED_BY: None}}})
    world.store.patch(resources.WORKLOADS, "train", change, "ml")
    world.settle()
    assert told(world)[:2] == [
        ("AdmissionGated", "Workload admission is gated by: example.com/gate"),
        ("AdmissionGateCleared", "Admission gate cleared, workload is now admissible"),
    ]


def test_the_workload_of_a_pod_is_told_nothing_as_its_pod_is() -> None:
    world = ready_world(quota=1)
    world.add_pod("train", gpus=1)
    world.add_pod("second", gpus=1)
    world.settle()
    world.pass_time(5)
    assert world.events.recorded == []


class Kept:
    """Takes events."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def event(self, regarding: Mapping[str, Any], event: Event) -> None:
        self.notes.append(event.note)


def test_fifty_at_once_and_five_a_second_are_passed_on_and_the_others_counted() -> None:
    clock, kept = FakeClock(), Kept()
    repeated = RepeatedEvents(kept, clock)

    def tell(times: int) -> None:
        for _ in range(times):
            repeated.event({}, Event("Normal", "QuotaReserved", str(len(kept.notes))))

    left_out = metrics.EVENTS_LEFT_OUT._value.get()
    tell(60)
    assert len(kept.notes) == 50
    assert metrics.EVENTS_LEFT_OUT._value.get() - left_out == 10
    clock.advance(1)
    tell(10)
    assert len(kept.notes) == 55
    clock.advance(60)
    tell(100)
    assert len(kept.notes) == 105
