"""Queues that stop, Workloads that are deactivated, checks, backoff, time limits."""

from datetime import timedelta
from typing import Any

import pytest

from admission.base import clock, names, patches
from admission.base.conditions import Text
from admission.controller.workloads import evictions
from admission.kube import resources
from admission.objects import condition_list, views
from admission.objects.workload import Workload
from admission.reasons.next_steps import Code
from tests.builders.cluster import make_namespace
from tests.builders.queues import (
    make_check,
    make_class,
    make_cluster_queue,
    make_flavor,
    make_local_queue,
)
from tests.builders.workloads import make_workload
from tests.controller.world import World, ready_world

LQ, CQ = resources.LOCAL_QUEUES, resources.CLUSTER_QUEUES


def stop(world: World, kind: Any, policy: str) -> None:
    name, space = ("team-a", "ml") if kind is LQ else ("gpus", "")
    world.store.patch(kind, name, patches.merge({"spec": {"stopPolicy": policy}}), space)


def patch_workload(world: World, pod: str, change: dict[str, Any], subresource: str = "") -> None:
    metadata = world.workloads()[pod].metadata
    world.store.patch(
        resources.WORKLOADS, metadata.name, patches.merge(change), metadata.namespace,
        subresource=subresource,
    )  # fmt: skip


def condition_of(world: World, pod: str, kind: str) -> views.Condition | None:
    return world.workloads()[pod].status.condition(kind)


def reason(world: World, pod: str, kind: str) -> tuple[str, str] | None:
    found = condition_of(world, pod, kind)
    return (found.status, found.reason) if found else None


@pytest.mark.parametrize("kind", [LQ, CQ], ids=["LocalQueue", "ClusterQueue"])
def test_hold_lets_run_what_runs_and_starts_nothing_new(kind: Any) -> None:
    world = ready_world()
    world.add_pod("old")
    world.settle()
    stop(world, kind, "Hold")
    world.settle()
    world.add_pod("new")
    world.pass_time(2)

    assert world.admitted() == {"old"}
    assert reason(world, "new", "QuotaReserved") == ("False", "Suspended")
    stop(world, kind, "None")
    world.settle()
    assert world.admitted() == {"old", "new"}


@pytest.mark.parametrize("kind", [LQ, CQ], ids=["LocalQueue", "ClusterQueue"])
def test_hold_and_drain_stops_what_runs(kind: Any) -> None:
    world = ready_world()
    world.add_pod("old")
    world.settle()
    stop(world, kind, "HoldAndDrain")
    world.settle()

    assert not world.store.list(resources.PODS).items
    assert not world.workloads()
    assert any(
        reason == f"EvictedDueTo{kind.kind}Stopped" for _, reason, _ in world.events.recorded
    )
    assert ("old", "Stopped", f"The {kind.kind} is stopped") in world.events.recorded


def test_a_deactivated_running_pod_is_stopped() -> None:
    world = ready_world()
    world.add_pod("train")
    world.settle()
    patch_workload(world, "train", {"spec": {"active": False}})
    world.settle()

    assert not world.store.list(resources.PODS).items


def test_a_deactivated_waiting_pod_returns_when_it_is_activated() -> None:
    world = ready_world(quota=1)
    world.add_pod("train", gpus=1)
    world.add_pod("other", gpus=1)
    world.settle()
    waiting = ({"train", "other"} - world.admitted()).pop()
    patch_workload(world, waiting, {"spec": {"active": False}})
    world.settle()
    assert reason(world, waiting, "Evicted") == ("True", "Deactivated")
    assert reason(world, waiting, "Requeued") == ("False", "Deactivated")
    world.delete_pod(world.admitted().pop())
    world.settle()
    assert world.admitted() == set()

    patch_workload(world, waiting, {"spec": {"active": True}})
    world.settle()
    assert world.admitted() == {waiting}


def with_check(world: World, *, active: bool = True) -> None:
    world.add(make_check())
    status = {"conditions": [{"type": "Active", "status": "True" if active else "False",
                              "reason": "Active", "message": "",
                              "lastTransitionTime": "2026-01-01T00:00:00Z"}]}  # fmt: skip
    world.store.patch(
        resources.ADMISSION_CHECKS, "budget", patches.merge({"status": status}),
        subresource="status",
    )  # fmt: skip


def checked_world() -> World:
    world = World()
    with_check(world)
    strategy = {"admissionChecks": [{"name": "budget"}]}
    world.add(
        make_namespace(),
        make_flavor(),
        make_cluster_queue(admissionChecksStrategy=strategy),
        make_local_queue(),
    )
    world.settle()
    return world


def answer(world: World, pod: str, state: str, **more: Any) -> None:
    check = {"name": "budget", "state": state, "message": "because",
             "lastTransitionTime": "2026-01-01T00:00:00Z", **more}  # fmt: skip
    patch_workload(world, pod, {"status": {"admissionChecks": [check]}}, "status")


def test_with_an_open_check_quota_is_reserved_and_the_pod_stays_gated() -> None:
    world = checked_world()
    world.add_pod("train")
    world.settle()

    assert world.is_gated("train")
    assert reason(world, "train", "QuotaReserved") == ("True", "QuotaReserved")
    assert reason(world, "train", "Admitted") == ("False", "UnsatisfiedAdmissionChecks")
    states = world.workloads()["train"].status.admission_checks
    assert states is not None
    assert [(check.name, check.state) for check in states] == [("budget", "Pending")]


def test_a_pod_says_that_it_waits_for_checks_and_what_they_say() -> None:
    world = checked_world()
    world.add_pod("train")
    world.settle()
    said = world.condition("train")
    assert said is not None
    assert (said.status, said.reason) == ("False", Code.WAITING_FOR_CHECKS)
    assert said.message == "Has quota, waits for admission check budget."

    answer(world, "train", "Pending", message="asking finance")
    world.settle()
    said = world.condition("train")
    assert said is not None
    assert said.message == "Has quota, waits for admission check budget; asking finance."

    answer(world, "train", "Ready")
    world.settle()
    said = world.condition("train")
    assert said is not None
    assert said.status == "True"


@pytest.mark.parametrize("kind", [LQ, CQ], ids=["LocalQueue", "ClusterQueue"])
def test_a_stopped_queue_takes_back_what_was_not_admitted_yet(kind: Any) -> None:
    world = checked_world()
    world.add_pod("train")
    world.settle()
    stop(world, kind, "Hold")
    world.settle()
    assert reason(world, "train", "QuotaReserved") == ("False", "Suspended")
    assert world.workloads()["train"].status.admission is None

    stop(world, kind, "None")
    world.pass_time(1)
    assert reason(world, "train", "QuotaReserved") == ("True", "QuotaReserved")


def test_a_local_queue_that_goes_takes_its_reservations_along() -> None:
    world = checked_world()
    world.add_pod("train")
    world.settle()
    world.store.delete(LQ, "team-a", "ml")
    world.settle()

    assert reason(world, "train", "QuotaReserved") == ("False", "Misconfigured")


def test_the_last_ready_check_admits_and_its_updates_reach_the_pod() -> None:
    world = checked_world()
    world.add_pod("train")
    world.settle()
    update = {"name": "main", "nodeSelector": {"pool": "spot"}, "annotations": {"a": "b"},
              "tolerations": [{"key": "spot", "operator": "Exists"}]}  # fmt: skip
    answer(world, "train", "Ready", podSetUpdates=[update])
    world.settle()
    pod = world.pod("train")

    assert world.admitted() == {"train"}
    assert (pod.spec.node_selector or {})["pool"] == "spot"
    assert pod.metadata.annotation("a") == "b"
    assert "spot" in {toleration.key for toleration in pod.spec.tolerations or ()}


def test_an_event_says_how_long_the_checks_took() -> None:
    world = checked_world()
    world.add_pod("train")
    world.settle()
    world.pass_time(3)
    answer(world, "train", "Ready")
    world.settle()

    note = "Admitted by ClusterQueue gpus, wait time since reservation was 3s"
    name = world.workloads()["train"].metadata.name
    assert (name, "Admitted", note) in world.events.recorded


def test_a_rejected_check_deactivates() -> None:
    world = checked_world()
    world.add_pod("train")
    world.settle()
    answer(world, "train", "Rejected")
    world.settle()

    assert world.workloads()["train"].spec.active is False
    assert reason(world, "train", "Evicted") == ("True", "DeactivatedDueToAdmissionCheck")
    assert world.is_gated("train")
    world.pass_time(2)
    assert reason(world, "train", "QuotaReserved") == ("False", "Deactivated")


def test_a_check_that_asks_for_a_retry_evicts_until_its_time() -> None:
    world = checked_world()
    world.add_pod("train")
    world.settle()
    answer(world, "train", "Retry", requeueAfterSeconds=60)
    world.settle()
    assert reason(world, "train", "Requeued") == ("False", "AdmissionCheck")
    assert world.is_gated("train")
    stats = world.workloads()["train"].status.scheduling_stats
    assert stats is not None
    assert [(one.reason, one.count) for one in stats.evictions or ()] == [("AdmissionCheck", 1)]

    world.pass_time(61)
    assert reason(world, "train", "QuotaReserved") == ("True", "QuotaReserved")
    assert reason(world, "train", "Requeued") == ("True", "BackoffFinished")


def test_the_maximum_execution_time_ends_a_pod() -> None:
    world = ready_world()
    world.add_pod("train", labels={names.MAX_EXEC_TIME_LABEL: "5"})
    world.settle()
    world.pass_time(4)
    assert world.admitted() == {"train"}
    world.pass_time(2)

    assert not world.store.list(resources.PODS).items
    assert "MaximumExecutionTimeExceeded" in {reason for _, reason, _ in world.events.recorded}


@pytest.mark.parametrize("seconds", [0, 4])
def test_the_end_of_an_admission_says_how_long_it_lasted(seconds: int) -> None:
    world = ready_world()
    world.add(make_workload("other"))
    world.settle()
    world.clock.advance(seconds)
    say(world, "Evicted", "True", "ByTest")

    written = evictions.clear(workload(world), world.clock.now())
    assert written["accumulatedPastExecutionTimeSeconds"] == seconds


def test_an_admission_that_never_was_takes_no_time() -> None:
    world = ready_world(quota=0)
    world.add(make_workload("other"))
    world.settle()

    written = evictions.withdraw(workload(world), Text("Suspended", "m"), world.clock.now())
    assert "accumulatedPastExecutionTimeSeconds" not in written


def test_a_reservation_that_somebody_takes_back_counts_as_time_admitted() -> None:
    world = ready_world()
    world.add(make_workload("other"))
    world.settle()
    world.pass_time(4)
    stop(world, LQ, "Hold")
    say(world, "QuotaReserved", "False", "PendingEvaluation")
    world.pass_time(2)

    found = workload(world).status
    admitted = found.condition("Admitted")
    assert admitted is not None
    assert (admitted.status, admitted.reason) == ("False", "NoReservation")
    assert found.accumulated_past_execution_time_seconds in range(4, 7)


def set_class(world: World, value: int) -> None:
    change = patches.merge({"value": value})
    world.store.patch(resources.WORKLOAD_PRIORITY_CLASSES, "urgent", change)


def urgent_world() -> World:
    """A pod of the class ``urgent``, which is worth 5."""
    world = ready_world()
    world.add(make_class("urgent", 5))
    world.add_pod("train", labels={names.PRIORITY_CLASS_LABEL: "urgent"})
    world.settle()
    return world


def test_an_edited_priority_class_reaches_its_workloads() -> None:
    world = urgent_world()
    set_class(world, 8)
    world.settle()

    assert world.workloads()["train"].spec.priority == 8


def test_a_priority_that_is_set_by_hand_stays_until_its_class_changes() -> None:
    world = urgent_world()
    patch_workload(world, "train", {"spec": {"priority": 3}})
    world.pass_time(2)
    assert world.workloads()["train"].spec.priority == 3

    set_class(world, 8)
    world.settle()
    assert world.workloads()["train"].spec.priority == 8


def test_a_priority_class_that_is_made_anew_reaches_its_workloads() -> None:
    world = urgent_world()
    world.store.delete(resources.WORKLOAD_PRIORITY_CLASSES, "urgent")
    world.settle()
    assert world.workloads()["train"].spec.priority == 5

    patch_workload(world, "train", {"spec": {"priority": 3}})
    world.add(make_class("urgent", 5))
    world.settle()
    assert world.workloads()["train"].spec.priority == 5


def test_a_priority_class_that_changed_while_nobody_looked_reaches_its_workloads() -> None:
    world = urgent_world()
    set_class(world, 8)
    again = world.restarted()
    again.settle()

    assert again.workloads()["train"].spec.priority == 8


def test_a_workload_that_was_made_while_its_class_changed_follows_it() -> None:
    world = ready_world()
    world.add(make_class("urgent", 5))
    world.settle()
    world.add_pod("train", labels={names.PRIORITY_CLASS_LABEL: "urgent"})
    world.observe()
    world.core.step()
    set_class(world, 8)
    world.observe()
    world.settle()

    assert world.workloads()["train"].spec.priority == 8


def test_a_higher_priority_evicts_a_running_pod_and_takes_its_quota() -> None:
    world = World()
    world.add(
        make_namespace(), make_flavor(),
        make_cluster_queue(quota=2, preemption={"withinClusterQueue": "LowerPriority"}),
        make_local_queue(),
    )  # fmt: skip
    world.add_pod("low", gpus=2, spec={"priority": 1})
    world.settle()
    world.add_pod("high", gpus=2, spec={"priority": 9})
    world.pass_time(3)

    assert world.admitted() == {"high"}
    assert set(world.workloads()) == {"high"}


def workload(world: World, name: str = "other") -> Workload:
    return world.store.get(resources.WORKLOADS, name, "ml", into=Workload)


def say(world: World, kind: str, status: str, reason: str, name: str = "other") -> None:
    """Somebody else sets a condition."""
    found = workload(world, name).status.conditions or ()
    made = views.Condition(
        type=kind, status=status, reason=reason, message="m",
        last_transition_time="2026-01-01T00:00:00Z",
    )  # fmt: skip
    kept = [one for one in found if one.type != kind]
    change = {"status": {"conditions": condition_list.to_wire([*kept, made])}}
    world.store.patch(resources.WORKLOADS, name, patches.merge(change), "ml", subresource="status")


def test_a_gated_workload_says_what_gates_it_and_queues_when_the_gates_are_gone() -> None:
    world = ready_world(quota=0)
    gates = {names.ADMISSION_GATED_BY: "example.com/budget"}
    world.add(make_workload("other", metadata={"annotations": gates}))
    world.pass_time(2)
    found = workload(world).status.condition("QuotaReserved")
    assert found is not None
    assert (found.reason, found.message) == (
        "AdmissionGated", "Admission is gated by: example.com/budget",
    )  # fmt: skip

    world.store.patch(
        resources.WORKLOADS, "other",
        patches.merge({"metadata": {"annotations": {names.ADMISSION_GATED_BY: None}}}), "ml",
    )  # fmt: skip
    world.settle()
    found = workload(world).status.condition("QuotaReserved")
    assert found is not None
    assert found.reason in {"PendingEvaluation", "ExceedsMaxQuota"}
    world.pass_time(2)
    found = workload(world).status.condition("QuotaReserved")
    assert found is not None
    assert found.reason == "ExceedsMaxQuota"


def test_a_workload_on_hold_is_left_as_its_owner_said() -> None:
    world = ready_world()
    world.add(
        make_workload("other", metadata={"annotations": {names.ADMISSION_GATED_BY: "a.b/c"}})
    )
    world.settle()
    say(world, "QuotaReserved", "False", "OnHold")
    world.store.patch(
        resources.WORKLOADS, "other",
        patches.merge({"metadata": {"annotations": {names.ADMISSION_GATED_BY: None}}}), "ml",
    )  # fmt: skip
    world.settle()
    sent = len(world.sent)
    world.pass_time(40)
    assert workload(world).status.condition("QuotaReserved").reason == "OnHold"  # type: ignore[union-attr]
    assert len(world.sent) == sent

    say(world, "QuotaReserved", "False", "PendingEvaluation")
    world.settle()
    assert workload(world).status.is_true("Admitted")


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_reason_that_is_being_written_does_not_replace_that_of_an_owner(is_sent: bool) -> None:
    world = ready_world(quota=1)
    for name in ("holder", "other"):
        world.add(make_workload(name))
        world.settle()
    world.clock.advance(2)
    world.core.step()
    assert world.queued
    if is_sent:
        world.send_one()
    say(world, "QuotaReserved", "False", "OnHold")

    world.pass_time(40)
    found = workload(world).status.condition("QuotaReserved")
    assert found is not None
    assert found.reason == "OnHold"


def test_an_admission_that_outlives_its_reservation_is_taken_out_and_made_anew() -> None:
    world = ready_world()
    world.add(make_workload("other"))
    world.settle()
    assert workload(world).status.is_true("Admitted")
    say(world, "QuotaReserved", "False", "Pending")
    world.observe()
    world.core.step()
    write = world.send_one()

    assert write is not None
    assert write.object.status.admission is None
    world.settle()
    assert workload(world).status.is_true("QuotaReserved")


def test_an_owned_workload_without_owner_is_over() -> None:
    world = ready_world()
    world.add(make_workload("other", metadata={
        "labels": {names.JOB_UID_LABEL: "u"}, "finalizers": [names.RESOURCE_IN_USE],
    }))  # fmt: skip
    world.settle()
    found = workload(world)
    assert found.status.condition("Finished").reason == "OwnerNotFound"  # type: ignore[union-attr]
    assert not found.metadata.finalizers


@pytest.mark.parametrize("state", ["Retry", "Rejected"])
def test_a_check_that_answers_once_the_quota_is_gone_is_asked_again(state: str) -> None:
    world = checked_world()
    world.add_pod("train")
    world.settle()
    stop(world, CQ, "Hold")
    world.settle()
    assert reason(world, "train", "QuotaReserved") != ("True", "QuotaReserved")
    answer(world, "train", state)
    world.settle()
    (check,) = world.workloads()["train"].status.admission_checks or ()
    assert check.state == "Pending"

    stop(world, CQ, "None")
    world.settle()
    assert reason(world, "train", "QuotaReserved") == ("True", "QuotaReserved")
    answer(world, "train", "Ready")
    world.settle()
    assert world.admitted() == {"train"}


def test_a_deleted_workload_that_nobody_owns_is_let_go() -> None:
    world = ready_world()
    world.add(make_workload("other", metadata={"finalizers": [names.RESOURCE_IN_USE]}))
    world.settle()
    world.store.delete(resources.WORKLOADS, "other", "ml")
    world.settle()
    assert not world.store.list(resources.WORKLOADS).items


def test_deactivating_an_evicted_workload_forgets_its_backoff() -> None:
    world = checked_world()
    world.add_pod("train")
    world.settle()
    answer(world, "train", "Retry", requeueAfterSeconds=600)
    world.settle()
    assert world.workloads()["train"].status.requeue_state is not None
    patch_workload(world, "train", {"spec": {"active": False}})
    world.settle()
    assert world.workloads()["train"].status.requeue_state is None


def test_a_check_that_is_pending_again_takes_nothing_from_who_runs() -> None:
    world = checked_world()
    world.add_pod("train")
    world.settle()
    answer(world, "train", "Ready")
    world.settle()
    world.set_phase("train", "Running")
    world.settle()
    before = len(world.sent)
    for state in ("Pending", "Ready"):
        answer(world, "train", state)
        world.pass_time(2)
    assert reason(world, "train", "QuotaReserved") == ("True", "QuotaReserved")
    assert reason(world, "train", "Admitted") == ("True", "Admitted")
    assert world.admitted() == {"train"}
    assert not [one for one in world.sent[before:] if one.resource is resources.PODS]


def test_the_time_of_a_backoff_goes_once_it_is_over_whoever_ended_the_eviction() -> None:
    world = ready_world(quota=0)
    world.add_pod("train")
    world.settle()
    until = clock.to_wire(world.clock.now() + timedelta(seconds=30))
    (name,) = (one.metadata.name for one in world.workloads().values())
    state = patches.merge({"status": {"requeueState": {"count": 1, "requeueAt": until}}})
    world.store.patch(resources.WORKLOADS, name, state, "ml", subresource="status")
    world.settle()
    found = world.workloads()["train"].status.requeue_state
    assert found is not None
    assert found.requeue_at == until
    world.pass_long_time(31)
    found = world.workloads()["train"].status.requeue_state
    assert found is not None
    assert (found.count, found.requeue_at) == (1, None)
