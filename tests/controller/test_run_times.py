"""Run times that queues give: how long a Workload may run, and how it hears of it."""

from typing import Any

import pytest

from admission.answers import why
from admission.base import conditions, names, patches
from admission.kube import resources
from tests.builders.jobs import queued_job
from tests.controller import test_jobs
from tests.controller.world import World, ready_world

CQ, LQ = resources.CLUSTER_QUEUES, resources.LOCAL_QUEUES


def annotate(world: World, kind: Any, **said: str | None) -> None:
    """Set annotations of the queue, named without their domain."""
    name, space = ("team-a", "ml") if kind is LQ else ("gpus", "")
    marks = {f"{names.OWN_DOMAIN}/{key.replace('_', '-')}": said[key] for key in said}
    world.store.patch(kind, name, patches.merge({"metadata": {"annotations": marks}}), space)
    world.settle()


def said_of(world: World, pod: str) -> tuple[str, str] | None:
    found = world.workloads()[pod].status.condition(conditions.RUN_TIME_LIMITED)
    return None if found is None else (found.reason, found.message)


@pytest.mark.parametrize(
    ("queue", "said"),
    [(CQ, {"maximum_run_time": "5s"}), (LQ, {"maximum_run_time": "5s"}),
     (CQ, {"default_run_time": "5s", "maximum_run_time": "1h"})],
)  # fmt: skip
def test_a_queue_ends_what_does_not_say_how_long_it_runs(queue: Any, said: dict[str, str]) -> None:
    world = ready_world()
    annotate(world, queue, **said)
    world.add_pod("train")
    world.settle()
    kind, name = ("ClusterQueue", "gpus") if queue is CQ else ("LocalQueue", "team-a")
    told = said_of(world, "train")
    assert told is not None
    assert f"for 5s in all: {names.OWN_DOMAIN}/" in told[1]
    assert f"of {kind} {name}" in told[1]
    world.pass_time(4)
    assert world.admitted() == {"train"}
    world.pass_time(2)

    assert not world.store.list(resources.PODS).items
    assert any(f"of {kind} {name}" in note for *_, note in world.events.recorded)


def stop_policy(world: World, policy: str) -> None:
    world.store.patch(CQ, "gpus", patches.merge({"spec": {"stopPolicy": policy}}))
    world.settle()


@pytest.mark.parametrize("stops", [1, 2])
def test_the_time_of_earlier_admissions_counts_towards_the_maximum_run_time(stops: int) -> None:
    world = ready_world()
    marked = queued_job("train", labels={names.MAX_EXEC_TIME_LABEL: "100"})
    test_jobs.started(world, marked)
    for number in range(1, stops + 1):
        world.clock.advance(30)
        stop_policy(world, "HoldAndDrain")
        test_jobs.report(world, active=0)
        world.settle()
        stop_policy(world, "None")
        past = test_jobs.workload(world).status.accumulated_past_execution_time_seconds
        assert past == 30 * number
        test_jobs.run(world)

    world.clock.advance(99 - 30 * stops)
    world.settle()
    assert test_jobs.is_running(world)
    world.clock.advance(1)
    world.settle()
    assert not test_jobs.is_running(world)
    assert not test_jobs.workload(world).spec.active
    said = why.explain(world.store, "ml", "job/train").message
    assert said == "Stopped for good: it has run as long as it may."


def test_nobody_runs_for_longer_than_the_cluster_queue_lets_them() -> None:
    world = ready_world()
    annotate(world, CQ, maximum_run_time="5s")
    annotate(world, LQ, maximum_run_time="1h", default_run_time="1h")
    world.add_pod("label", labels={names.MAX_EXEC_TIME_LABEL: "3600"})
    world.add_pod("short", labels={names.MAX_EXEC_TIME_LABEL: "2"})
    world.add_pod("annotation", annotations={names.MAXIMUM_RUN_TIME: "1h"})
    world.pass_time(3)
    assert world.admitted() == {"label", "annotation"}
    world.pass_time(3)
    assert not world.store.list(resources.PODS).items


def test_a_limit_holds_as_the_queue_says_it_now() -> None:
    world = ready_world()
    world.add_pod("train")
    world.settle()
    assert said_of(world, "train") is None
    annotate(world, CQ, maximum_run_time="1h")
    told = said_of(world, "train")
    assert told is not None
    assert told[0] == "MaximumRunTime"
    annotate(world, CQ, maximum_run_time=None)
    assert said_of(world, "train") is None

    world.pass_time(3)
    annotate(world, CQ, maximum_run_time="2s")
    assert not world.store.list(resources.PODS).items


def test_a_limit_that_cannot_be_read_stops_the_queue_and_is_told() -> None:
    world = ready_world()
    annotate(world, CQ, maximum_run_time="soon")
    world.add_pod("train")
    world.pass_time(3)
    assert world.admitted() == set()
    told = [note for _, reason, note in world.events.recorded if reason == "NotUnderstood"]
    assert any(f"metadata.annotations[{names.MAXIMUM_RUN_TIME}]" in note for note in told)
