"""Pods that must become ready in time: the condition, the eviction, the end of patience."""

from datetime import timedelta
from typing import Any

from admission.base import patches
from admission.config.kueue_configuration import Configuration, RequeuingStrategy, WaitForPodsReady
from admission.kube import resources
from admission.objects.workload import RequeueState, Workload
from admission.scheduling.model import Config
from tests.builders.jobs import queued_job
from tests.builders.pods import group_pod
from tests.controller.world import World, ready_world

MINUTE = timedelta(minutes=1)


def waiting_world(
    quota: int = 4,
    config: Config | None = None,
    recovery_timeout: timedelta = MINUTE,
    **changes: Any,
) -> World:
    """Pods have a minute to become ready; a wait begins with ten seconds."""
    strategy = RequeuingStrategy(**{"backoff_base_seconds": 10, **changes})
    ready = WaitForPodsReady(
        timeout=MINUTE, recovery_timeout=recovery_timeout, requeuing_strategy=strategy
    )
    return ready_world(quota, kueue=Configuration(wait_for_pods_ready=ready), config=config)


def set_ready(world: World, name: str, *, ready: bool = True) -> None:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    change = patches.merge({"status": {"phase": "Running", "conditions": [condition]}})
    world.store.patch(resources.PODS, name, change, "ml", subresource="status")
    world.settle()


def report(world: World, **status: Any) -> None:
    change = patches.merge({"status": status})
    world.store.patch(resources.JOBS, "train", change, "ml", subresource="status")
    world.settle()


def said(world: World, name: str, kind: str = "PodsReady") -> tuple[str, str]:
    found = world.workloads()[name].status.condition(kind)
    return (found.status, found.reason) if found else ("", "")


def state(world: World, name: str) -> RequeueState:
    found = world.workloads()[name].status.requeue_state
    assert found is not None
    return found


def test_without_the_setting_nobody_speaks_of_readiness() -> None:
    world = ready_world()
    world.add_pod("train")
    world.settle()
    set_ready(world, "train")
    assert said(world, "train") == ("", "")


def test_the_condition_follows_the_pod_from_waiting_to_recovery() -> None:
    world = waiting_world()
    world.add_pod("train")
    world.settle()
    assert said(world, "train") == ("False", "WaitForStart")
    set_ready(world, "train")
    assert said(world, "train") == ("True", "Started")
    set_ready(world, "train", ready=False)
    assert said(world, "train") == ("False", "WaitForRecovery")
    set_ready(world, "train")
    assert said(world, "train") == ("True", "Recovered")


def test_a_pod_that_is_not_ready_in_time_is_stopped() -> None:
    world = waiting_world()
    world.add_pod("train")
    world.pass_time(59)
    assert world.admitted() == {"train"}
    world.pass_time(2)

    assert not world.store.list(resources.PODS).items
    events = {(reason, note) for _, reason, note in world.events.recorded}
    assert any(
        reason == "EvictedDueToPodsReadyTimeout" and "Exceeded the PodsReady timeout ml/" in note
        for reason, note in events
    )


def test_a_pod_that_was_ready_has_the_time_to_recover() -> None:
    world = waiting_world()
    world.add_pod("train")
    world.settle()
    set_ready(world, "train")
    world.pass_time(120)
    set_ready(world, "train", ready=False)
    world.pass_time(59)
    assert world.admitted() == {"train"}
    world.pass_time(2)
    assert not world.store.list(resources.PODS).items


def test_without_a_time_to_recover_a_pod_that_was_ready_stays() -> None:
    world = waiting_world(recovery_timeout=timedelta())
    world.add_pod("train")
    world.settle()
    set_ready(world, "train")
    set_ready(world, "train", ready=False)
    world.pass_time(600)
    assert world.admitted() == {"train"}


def test_a_job_that_is_not_ready_waits_longer_each_time_and_is_deactivated_in_the_end() -> None:
    world = waiting_world(backoff_limit_count=2)
    world.add(queued_job(pods=2))
    world.settle()
    waits = []
    for _ in range(2):
        report(world, active=2, startTime="2026-01-01T00:00:00Z")
        world.pass_time(61)
        report(world, active=0)
        assert said(world, "train", "Evicted") == ("True", "PodsReadyTimeout")
        assert said(world, "train", "Requeued") == ("False", "PodsReadyTimeout")
        waits.append(state(world, "train").count)
        world.pass_time(21)
        assert said(world, "train", "Requeued") == ("True", "BackoffFinished")
        assert said(world, "train", "Admitted") == ("True", "Admitted")
    assert waits == [1, 2]
    stats = world.workloads()["train"].status.scheduling_stats
    assert [
        (one.reason, one.underlying_cause, one.count) for one in (stats and stats.evictions) or ()
    ] == [("PodsReadyTimeout", "WaitForStart", 2)]

    report(world, active=2, startTime="2026-01-01T00:00:00Z")
    world.pass_time(61)
    report(world, active=0)
    assert world.workloads()["train"].spec.active is False
    assert said(world, "train", "Evicted") == ("True", "DeactivatedDueToRequeuingLimitExceeded")


def test_while_it_may_not_be_tried_again_a_workload_says_why_it_lost_its_quota() -> None:
    world = waiting_world(backoff_base_seconds=20)
    world.add(queued_job(pods=2))
    world.settle()
    world.pass_time(61)
    world.pass_time(10)
    assert said(world, "train", "Requeued") == ("False", "PodsReadyTimeout")
    workload = world.workloads()["train"]
    found = workload.status.condition("QuotaReserved")
    assert found is not None
    assert (found.reason, found.message) == (
        "PendingEvaluation", f"Exceeded the PodsReady timeout ml/{workload.metadata.name}",
    )  # fmt: skip


def test_the_first_wait_is_the_base_and_later_ones_end_at_the_maximum() -> None:
    world = waiting_world(backoff_base_seconds=100, backoff_max_seconds=30)
    world.add(queued_job(pods=1))
    world.settle()
    seconds = []
    for _ in range(2):
        world.pass_time(61)
        evicted = world.workloads()["train"].status.condition("Evicted")
        assert evicted is not None
        moments = (evicted.last_transition_time, state(world, "train").requeue_at or "")
        minutes = [int(one[14:16]) * 60 + int(one[17:19]) for one in moments]
        seconds.append(minutes[1] - minutes[0])
        world.pass_time(101)
    assert seconds == [100, 30]


def test_a_job_is_ready_when_its_pods_are_ready_or_have_succeeded() -> None:
    world = waiting_world()
    world.add(queued_job(pods=3))
    world.settle()
    report(world, active=2, ready=1, succeeded=1, startTime="2026-01-01T00:00:00Z")
    assert said(world, "train") == ("False", "WaitForStart")
    report(world, active=2, ready=2, succeeded=1)
    assert said(world, "train") == ("True", "Started")


def test_a_pod_that_has_succeeded_and_is_not_counted_yet_is_as_good_as_ready() -> None:
    world = waiting_world()
    world.add(queued_job(pods=2))
    world.settle()
    ended = {"uncountedTerminatedPods": {"succeeded": ["one"], "failed": ["other"]}}
    report(world, active=1, startTime="2026-01-01T00:00:00Z", **ended)
    assert said(world, "train") == ("False", "WaitForStart")
    report(world, active=1, ready=1, **ended)
    assert said(world, "train") == ("True", "Started")


def test_one_at_a_time_the_next_is_admitted_when_the_first_is_ready() -> None:
    world = waiting_world(config=Config(one_at_a_time=True))
    world.add_pod("first")
    world.settle()
    world.add_pod("second")
    world.pass_time(2)
    assert world.admitted() == {"first"}
    found = world.workloads()["second"].status.condition("QuotaReserved")
    assert found is not None
    assert (found.reason, found.message) == (
        "WaitingForPodsReady",
        "waiting for all admitted workloads to be in PodsReady condition",
    )

    set_ready(world, "first")
    assert world.admitted() == {"first", "second"}


def test_a_group_that_is_not_ready_waits_for_other_pods_and_is_counted_as_in_kueue() -> None:
    world = waiting_world(backoff_limit_count=1)

    def add(*pods: str) -> None:
        for name in pods:
            world.store.create(resources.PODS, group_pod(name, "gang", 2), "ml")
        world.settle()

    def gang() -> Workload:
        return world.store.get(resources.WORKLOADS, "gang", "ml", into=Workload)

    def told(kind: str) -> tuple[str, str]:
        found = gang().status.condition(kind)
        return (found.status, found.reason) if found else ("", "")

    add("a", "b")
    assert world.admitted() == {"a", "b"}
    world.pass_time(61)
    assert not world.store.list(resources.PODS).items
    assert told("Evicted") == ("True", "PodsReadyTimeout")
    assert told("WaitingForReplacementPods") == ("True", "PodsReadyTimeout")
    assert told("Requeued") == ("False", "PodsReadyTimeout")
    requeued = gang().status.requeue_state
    assert requeued is not None
    assert requeued.count == 1

    add("c", "d")
    assert told("WaitingForReplacementPods") == ("False", "PodsReady")
    assert world.admitted() == set()  # the wait is not over
    world.pass_time(21)
    assert told("Requeued") == ("True", "BackoffFinished")
    assert world.admitted() == {"c", "d"}

    world.pass_time(61)
    assert gang().spec.active is False
    assert told("Evicted") == ("True", "DeactivatedDueToRequeuingLimitExceeded")
