"""What the log says of decisions: what happened, one line each, for whoever greps a name."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from admission.base import names, patches
from admission.kube import resources
from tests.builders.cluster import make_namespace
from tests.builders.jobs import queued_job
from tests.builders.queues import make_local_queue
from tests.builders.workloads import make_pod_set, make_workload
from tests.controller.test_adoption import add_pod_in_doubt, world_with
from tests.controller.test_preemption_events import add, ordered_world
from tests.controller.world import World, add_checked_queue, ready_world

Line = dict[str, Any]
Log = Callable[[], list[Line]]


@pytest.fixture
def log(logged_to: Callable[[str], None], capsys: pytest.CaptureFixture[str]) -> Log:
    """The lines about decisions since the last call."""
    logged_to("info")

    def lines() -> list[Line]:
        found = map(json.loads, capsys.readouterr().err.splitlines())
        return [line for line in found if line["component"] == "decisions"]

    return lines


def admit_a_pod(world: World) -> None:
    world.add_pod("train", gpus=2)
    world.settle()


def hold_a_pod(world: World) -> None:
    world.add_pod("large", gpus=9)
    world.pass_time(2)


def finish_a_pod(world: World) -> None:
    admit_a_pod(world)
    world.set_phase("train", "Succeeded")
    world.settle()


def stop_a_pod(world: World) -> None:
    """A person deactivates its Workload."""
    admit_a_pod(world)
    change = patches.merge({"spec": {"active": False}})
    world.store.patch(resources.WORKLOADS, world.workloads()["train"].metadata.name, change, "ml")
    world.settle()


def start_a_job(world: World) -> None:
    world.add(queued_job(pods=2))
    world.settle()


def stop_a_job(world: World) -> None:
    start_a_job(world)
    change = patches.merge({"spec": {"stopPolicy": "HoldAndDrain"}})
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", change)
    world.settle()


def hold_a_pod_that_names_no_class(world: World) -> None:
    world.add_pod("train", labels={names.PRIORITY_CLASS_LABEL: "nobody"})
    world.pass_time(2)


QUOTA = {"a100": {names.GPU_RESOURCE: "2"}}
OF_POD = {"namespace": "ml", "pod": "train", "local_queue": "team-a"}
OF_JOB = {"namespace": "ml", "job": "train", "local_queue": "team-a"}
IN_QUEUE = {"cluster_queue": "gpus", "quota": QUOTA}
TABLE: dict[str, tuple[Callable[[World], None], list[Line]]] = {
    "a pod is admitted": (
        admit_a_pod,
        [
            {"event": "workload admitted", "reason": "Admitted", **OF_POD, **IN_QUEUE},
            {"event": "pod released", **OF_POD, **IN_QUEUE},
        ],
    ),
    "a pod is held": (
        hold_a_pod,
        [
            {
                "event": "workload held",
                "reason": "ExceedsMaxQuota",
                **OF_POD,
                "pod": "large",
            }
        ],
    ),
    "a pod ends": (
        finish_a_pod,
        [
            {"event": "workload admitted", **OF_POD},
            {"event": "pod released", **OF_POD},
            {"event": "workload finished", "reason": "Succeeded", **OF_POD, **IN_QUEUE},
        ],
    ),
    "a pod is stopped": (
        stop_a_pod,
        [
            {"event": "workload admitted", **OF_POD},
            {"event": "pod released", **OF_POD},
            {"event": "workload deactivated", **OF_POD},
            {"event": "workload evicted", "reason": "Deactivated", **OF_POD, **IN_QUEUE},
            {
                "event": "pod stopped",
                "message": "The workload is deactivated",
                **OF_POD,
                **IN_QUEUE,
            },
        ],
    ),
    "a Job is started": (
        start_a_job,
        [
            {"event": "workload admitted", **OF_JOB, **IN_QUEUE},
            {
                "event": "job started",
                "message": "Admitted by clusterQueue gpus",
                **OF_JOB,
                **IN_QUEUE,
            },
        ],
    ),
    "a Job is stopped": (
        stop_a_job,
        [
            {"event": "workload admitted", **OF_JOB},
            {"event": "job started", **OF_JOB},
            {"event": "workload evicted", "reason": "ClusterQueueStopped", **OF_JOB, **IN_QUEUE},
            {"event": "job stopped", "message": "The ClusterQueue is stopped", **OF_JOB},
            {"event": "quota released", **OF_JOB, **IN_QUEUE},
        ],
    ),
    "a pod without its priority class is held": (
        hold_a_pod_that_names_no_class,
        [
            {
                "event": "pod held",
                "namespace": "ml",
                "pod": "train",
                "reason": "WorkloadPriorityClassNotFound",
            }
        ],
    ),
}


@pytest.mark.parametrize(("act", "expected"), TABLE.values(), ids=TABLE)
def test_each_decision_is_one_line_with_names_amounts_and_reason(
    act: Callable[[World], None], expected: list[Line], log: Log
) -> None:
    world = ready_world()
    act(world)
    found = log()
    assert [line["event"] for line in found] == [line["event"] for line in expected]
    for line, wanted in zip(found, expected, strict=True):
        assert {key: line.get(key) for key in wanted} == wanted
        assert line["level"] == "info"


def test_every_line_about_a_pod_has_its_name(log: Log) -> None:
    world = ready_world(quota=2)
    for act in (admit_a_pod, hold_a_pod):
        act(world)
    found = log()
    assert found
    assert all(line["pod"] in {"train", "large"} for line in found)
    assert all(line["namespace"] == "ml" and "workload" in line for line in found)


def test_a_release_says_which_pod_it_was_and_since_when_it_waited(log: Log) -> None:
    world = ready_world()
    admit_a_pod(world)
    (released,) = (line for line in log() if line["event"] == "pod released")
    pod = world.store.get(resources.PODS, "train", "ml")["metadata"]
    workload = next(iter(world.workloads().values()))
    reserved = workload.status.condition("QuotaReserved")
    assert reserved is not None
    assert released["pod_uid"] == pod["uid"]
    assert released["created"] == pod["creationTimestamp"]
    assert released["reserved"] == reserved.last_transition_time


def test_a_wait_is_told_once_for_each_reason(log: Log) -> None:
    world = ready_world()
    hold_a_pod(world)
    world.pass_time(120)
    assert [line["event"] for line in log()] == ["workload held"]


def test_a_victim_is_told_with_whom_it_gave_way_to(log: Log) -> None:
    world = ordered_world(quota=1)
    add(world, "low", 1)
    add(world, "high", 9)
    (evicted,) = (line for line in log() if line["event"] == "workload evicted")
    assert evicted["workload"] == "low"
    assert evicted["reason"] == "Preempted"
    assert evicted["preempted_by"] == "ml/high"
    assert evicted["preempted_by_cluster_queue"] == "gpus"
    assert evicted["preemption_reason"] == "InClusterQueue"
    assert evicted["quota"] == {"a100": {names.GPU_RESOURCE: "1"}}


def test_an_eviction_that_is_no_preemption_names_nobody(log: Log) -> None:
    world = ready_world()
    stop_a_pod(world)
    (evicted,) = (line for line in log() if line["event"] == "workload evicted")
    assert "preempted_by" not in evicted


def test_amounts_of_several_pod_sets_are_summed(log: Log) -> None:
    world = ready_world()
    world.add(
        make_workload("train", make_pod_set("head", gpus=1), make_pod_set("workers", 3, gpus=1))
    )
    world.settle()
    (line,) = log()
    assert line["quota"] == {"a100": {names.GPU_RESOURCE: "4"}}


def test_amounts_that_cannot_be_added_up_are_told_as_they_are_written(log: Log) -> None:
    """The schema lets another program write such an amount, which is no quantity."""
    world = ready_world(quota=1)
    world.add(
        make_workload("train", make_pod_set("head", gpus=1), make_pod_set("workers", 3, gpus=1))
    )
    world.settle()
    log()
    flavors = {names.GPU_RESOURCE: "a100"}
    usage = {names.GPU_RESOURCE: "1e1.5"}
    sets = [
        {"name": name, "count": 1, "flavors": flavors, "resourceUsage": usage}
        for name in ("head", "workers")
    ]
    now = "2026-01-01T00:00:00Z"
    condition = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved",
                 "message": "by hand", "lastTransitionTime": now}  # fmt: skip
    status = {"conditions": [condition],
              "admission": {"clusterQueue": "gpus", "podSetAssignments": sets}}  # fmt: skip
    change = patches.merge({"status": status})
    world.store.patch(resources.WORKLOADS, "train", change, "ml", subresource="status")
    world.settle()
    quota = [line["quota"] for line in log() if line["event"] == "quota reserved"]
    assert quota == [{"a100": {names.GPU_RESOURCE: "1e1.5 + 1e1.5"}}]


def test_quota_that_waits_for_a_check_is_told_before_the_admission(log: Log) -> None:
    world = ready_world()
    add_checked_queue(world)
    world.add(queued_job(queue="checked"))
    world.settle()
    (line,) = log()
    assert line["event"] == "quota reserved"
    assert line["cluster_queue"] == "checked"


def test_a_pod_in_doubt_is_adopted_or_let_go(log: Log) -> None:
    adopted = world_with(make_namespace(), make_local_queue("default"))
    add_pod_in_doubt(adopted)
    adopted.pass_time(2)
    first = log()[0]
    assert (first["event"], first["pod"]) == ("pod adopted", "train")
    assert first["local_queue"] == "default"
    let_go = world_with()
    add_pod_in_doubt(let_go)
    let_go.pass_time(2)
    (line,) = log()
    assert (line["event"], line["pod"], line["namespace"]) == ("pod let go", "train", "ml")


def test_a_new_process_does_not_repeat_what_was_decided_before(log: Log) -> None:
    world = ready_world()
    admit_a_pod(world)
    log()
    world.restarted().settle()
    assert log() == []


class Standby(World):
    """A controller that does not lead."""

    leads = False


def test_who_does_not_lead_tells_nothing(log: Log) -> None:
    leader = ready_world()
    standby = Standby(leader.store, leader.clock)
    standby.observe()
    leader.add_pod("train")
    leader.settle()
    log()
    standby.observe()
    assert log() == []


def test_what_a_pod_carries_beside_names_is_not_logged(
    logged_to: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    logged_to("debug")
    world = ready_world()
    container = {"env": [{"name": "TOKEN", "value": "hunter2"}]}
    world.add_pod("train", container=container)
    world.settle()
    world.set_phase("train", "Succeeded")
    world.settle()
    lines = capsys.readouterr().err
    assert "workload finished" in lines
    assert "hunter2" not in lines
