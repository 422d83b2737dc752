"""``kubectl gpu usage --preempted``: what was preempted, and for whom."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from admission.answers import preemptions
from admission.answers.preemptions import Afterwards, Preemptions
from admission.base import clock, names, patches
from admission.base.conditions import PreemptionReason
from admission.base.events import Event
from admission.kube import resources
from tests.answers.rights import OfTeam
from tests.builders.cluster import make_namespace
from tests.builders.jobs import queued_job
from tests.builders.queues import make_cluster_queue, make_local_queue
from tests.cli.served import Served, served
from tests.controller import test_jobs
from tests.controller.test_preemption_events import ordered_world
from tests.controller.world import World, ready_world

URGENT = {names.PRIORITY_CLASS_LABEL: "urgent"}
GPU = names.GPU_RESOURCE
EVER = datetime(2020, 1, 1, tzinfo=UTC)


def with_events(world: World) -> World:
    """The same world, whose events are objects, too."""
    numbers, record = count(), world.events.event

    def event(regarding: Mapping[str, Any], event: Event) -> None:
        record(regarding, event)
        name = f"{regarding['name']}.{next(numbers)}"
        namespace = regarding.get("namespace") or "default"
        world.store.create(
            resources.EVENTS,
            {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": namespace},
                "eventTime": clock.to_wire_micro(world.clock.now()),
                "regarding": dict(regarding),
                "reason": event.reason,
                "note": event.note,
                "type": event.type,
                "action": "Any",
                "reportingController": "test",
                "reportingInstance": "test",
            },
        )

    world.events.event = event  # type: ignore[method-assign]
    return world


def urgent_world(quota: int = 2) -> World:
    world = ordered_world(quota=quota)
    urgent = {"metadata": {"name": "urgent"}, "value": 9}
    world.store.create(resources.WORKLOAD_PRIORITY_CLASSES, urgent)
    return world


def preempted_job(world: World) -> None:
    """Preempt the Job low for the Job high, 100 s after it was started."""
    test_jobs.started(world, queued_job("low"))
    world.pass_time(100)
    world.add(queued_job("high", labels=URGENT))
    world.settle()


def told(world: World, api: Any = None, namespace: str = "") -> Preemptions:
    return preemptions.of(api or world.store, namespace, "ml", EVER)


def test_a_preempted_workload_tells_when_for_whom_and_why() -> None:
    world = urgent_world()
    preempted_job(world)
    (found,) = told(world).preemptions
    assert found.at == "2026-01-01T00:01:40Z"
    assert (found.victim.namespace, found.victim.owner) == ("ml", "Job low")
    assert (found.preemptor.namespace, found.preemptor.owner) == ("ml", "Job high")
    assert (found.victim.cluster_queue, found.preemptor.cluster_queue) == ("gpus", "gpus")
    assert found.cause is PreemptionReason.IN_CLUSTER_QUEUE
    assert found.gpus == {GPU: 2}
    assert found.afterwards is Afterwards.STOPPING


def test_it_is_told_as_long_as_the_workload_exists_also_once_it_runs_again() -> None:
    world = urgent_world()
    preempted_job(world)
    test_jobs.report(world, "low", active=0)
    world.settle()
    assert [each.afterwards for each in told(world).preemptions] == [Afterwards.WAITS]
    world.store.delete(resources.JOBS, "high", "ml")
    world.settle()
    world.pass_time(2)
    (found,) = told(world).preemptions
    assert found.afterwards is Afterwards.RUNS
    assert found.gpus == {GPU: 2}
    assert found.preemptor.owner == "", "it is gone, and nothing tells what it was"


def test_events_tell_of_pods_that_are_gone_with_their_workload() -> None:
    world = with_events(urgent_world(quota=1))
    world.add_pod("low", gpus=1)
    world.settle()
    world.set_phase("low", "Running")
    world.add_pod("high", gpus=1, labels=URGENT)
    world.settle()
    world.pass_time(5)
    (found,) = told(world).preemptions
    assert (found.victim.owner, found.preemptor.owner) == ("Pod low", "Pod high")
    assert found.gpus is None
    assert found.afterwards is Afterwards.GONE


def test_one_preemption_that_both_tell_is_listed_once() -> None:
    world = with_events(urgent_world())
    preempted_job(world)
    assert len(told(world).preemptions) == 1
    assert told(world).preemptions[0].at.startswith("2026-01-01T00:01:40")


def test_what_was_preempted_before_is_left_out() -> None:
    world = urgent_world()
    preempted_job(world)
    later = world.clock.now()
    world.pass_time(5)
    assert not preemptions.of(world.store, "", "ml", later.replace(minute=2)).preemptions
    assert not told(world, namespace="other").preemptions
    assert told(world, namespace="ml").preemptions


def reclaiming_world() -> World:
    """Namespace ml borrows what namespace prod reclaims."""
    world = with_events(ready_world(quota=0))
    world.store.patch(
        resources.CLUSTER_QUEUES, "gpus", patches.merge({"spec": {"cohortName": "all"}})
    )
    reclaims = {"reclaimWithinCohort": "Any"}
    world.add(
        make_namespace("prod"),
        make_cluster_queue("prod", quota=2, cohortName="all", preemption=reclaims),
        make_local_queue("team-a", "prod", namespace="prod"),
    )
    world.settle()
    test_jobs.started(world, queued_job("low"))
    job = queued_job("high")
    job["metadata"]["namespace"] = "prod"
    world.add(job)
    world.settle()
    return world


def test_a_member_sees_the_own_namespace_and_for_which_queue() -> None:
    world = reclaiming_world()
    everything = told(world)
    (found,) = everything.preemptions
    assert (found.preemptor.namespace, found.preemptor.owner) == ("prod", "Job high")
    assert everything.missing == ()

    answer = told(world, OfTeam(world.store, "ml"))
    (found,) = answer.preemptions
    assert found.cause is PreemptionReason.IN_COHORT_RECLAMATION
    assert (found.victim.owner, found.gpus) == ("Job low", {GPU: 2})
    assert (found.preemptor.workload, found.preemptor.cluster_queue) == ("", "prod")
    assert answer.missing == (
        "Workloads are not shown outside namespace ml: you may not list them",
        "Events are not shown outside namespace ml: you may not list them",
    )


def test_the_command_shows_a_row_for_each_and_how_far_back_it_looks(tmp_path: Path) -> None:
    world = reclaiming_world()
    with served(world.store, resources.BUILT_IN + resources.CUSTOM, tmp_path) as kubeconfig:
        command = Served(world.store, kubeconfig, clock=world.clock)
        lines = command.lines("usage", "--preempted", "--since", "1h")
        document = command.told("usage", "--preempted", "--since", "1h")
        refused = command.ask("usage", "--preempted", "--by", "user")
    assert lines[0] == f"1 preemption since 2025-12-31T23:00:00Z: 2 {GPU}"
    assert lines[1].split() == [
        "WHEN", "PREEMPTED", "USER", "GPUS", "QUEUE", "FOR", "ITS", "USER", "ITS", "QUEUE", "WHY",
        "NOW",
    ]  # fmt: skip
    assert lines[2].split() == [
        "2026-01-01T00:00:00Z", "ml/job/low", "?", "2", "gpus", "prod/job/high", "?", "prod",
        "reclaim", "of", "borrowed", "quota", "stopping",
    ]  # fmt: skip
    assert lines[3].startswith("note: of each Workload that exists its last preemption is shown")
    assert refused.exit_code == 2
    (row,) = document["preemptions"]
    assert (row["namespace"], row["owner"], row["gpus"]) == ("ml", "Job low", {GPU: "2"})
    assert row["reason"] == "InCohortReclamation"
    assert row["preemptor"]["owner"] == "Job high"
    assert json.dumps(document)


@pytest.mark.parametrize("limit", ["1", "0"])
def test_rows_beyond_the_limit_are_counted(tmp_path: Path, limit: str) -> None:
    world = with_events(urgent_world(quota=2))
    for name in ("a", "b"):
        world.add_pod(name, gpus=1)
        world.settle()
        world.set_phase(name, "Running")
    world.add_pod("high", gpus=2, labels=URGENT)
    world.settle()
    world.pass_time(5)
    with served(world.store, resources.BUILT_IN + resources.CUSTOM, tmp_path) as kubeconfig:
        command = Served(world.store, kubeconfig, clock=world.clock)
        lines = command.lines("usage", "--preempted", "--limit", limit)
    assert lines[0].endswith(": not known of 2")
    assert ("and 1 more; all of them: --limit 0" in lines) == (limit == "1")
