"""What is preempted runs on for as long as its queue says, keeps its quota and says until when."""

import copy
from collections.abc import Callable
from typing import Any

import jsonpatch
import msgspec
import pytest

from admission.base import conditions, names, patches
from admission.config.gpu_configuration import GpuConfiguration
from admission.controller.writing.api_requests import (
    ApiRequest,
    RequestResult,
    Result,
    Verb,
    WritePurpose,
)
from admission.kube import resources
from admission.objects import views
from admission.owners.row_owner import RowDocument
from admission.scheduling import model
from tests.builders.cluster import make_namespace
from tests.builders.jobs import queued_job
from tests.builders.queues import make_class, make_cluster_queue, make_flavor, make_local_queue
from tests.clocks import START
from tests.controller import (
    test_elastic_jobs,
    test_gangs,
    test_jobs,
    test_members,
    test_pod_groups,
)
from tests.controller.test_disorder import refuse
from tests.controller.test_run_times import CQ, LQ, annotate
from tests.controller.test_stopping import evict
from tests.controller.world import WATCHED, World, ready_world
from tests.owners import samples

QUOTA = 4
HIGH = {names.PRIORITY_CLASS_LABEL: "high"}


def ordered_world(notice: str | None = "20s", **more: Any) -> World:
    """A queue that lets what it preempts run on for a while."""
    world = ready_world(quota=QUOTA, **more)
    world.add(make_class("high", 100))
    preemption = {"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}}
    world.store.patch(CQ, "gpus", patches.merge(preemption))
    annotate(world, CQ, preemption_notice=notice)
    return world


def run(world: World, name: str = "train", gpus: int = QUOTA, **more: Any) -> None:
    """Adds a pod that is admitted and runs."""
    world.add_pod(name, gpus=gpus, **more)
    world.settle()
    world.set_phase(name, "Running")
    world.settle()
    assert not world.is_gated(name)


def preempted(notice: str | None = "20s", **more: Any) -> World:
    """A world in which a pod runs that a more important one has just preempted."""
    world = ordered_world(notice)
    run(world, **more)
    world.pass_time(5)
    world.add_pod("urgent", gpus=QUOTA, labels=HIGH)
    world.settle()
    return world


def pods(world: World) -> set[str]:
    found = {one.metadata.name for one in world.store.list(resources.PODS, into=views.Pod).items}
    taken = sum(
        int(one["spec"]["containers"][0]["resources"]["limits"][names.GPU_RESOURCE])
        for one in world.store.list(resources.PODS, into=dict).items
        if not one["spec"].get("schedulingGates") and one["status"]["phase"] == "Running"
    )
    released = sum(not world.is_gated(name) and world.pod(name).status.phase != "Running"
                   for name in found)  # fmt: skip
    assert taken <= QUOTA
    assert not (released and taken == QUOTA), "released beside what holds all quota"
    return found


def stops_after(world: World, seconds: float, is_there: Callable[[], bool]) -> None:
    """It is there for so long and no longer, and nothing else gets its quota meanwhile."""
    for _ in range(round(seconds) - 1):
        world.pass_time(1)
        assert is_there()
        pods(world)
    world.pass_time(1)
    assert not is_there()
    pods(world)


def is_there(world: World, name: str = "train") -> Callable[[], bool]:
    return lambda: name in pods(world)


def said(world: World, name: str = "train") -> tuple[str, str, str] | None:
    found = world.workloads()[name].status.condition(conditions.PREEMPTION_NOTICE)
    return None if found is None else (found.status, found.reason, found.message)


def told(world: World) -> list[tuple[str, str]]:
    return [(name, note) for name, reason, note in world.events.recorded
            if reason == "PreemptionNotice"]  # fmt: skip


def stops_at(world: World, name: str = "train") -> str:
    return world.pod(name).metadata.annotation(names.STOPS_AT)


TEXT = (
    "This pod is stopped at 00:00:25 UTC: its GPUs are needed by ml/urgent (priority 100)."
    " Save your work"
)


# ------------------------------------------------------------------------- not before, and then


def test_a_preempted_pod_runs_on_until_its_notice_ends_and_keeps_its_quota() -> None:
    world = preempted()
    assert world.workloads()["train"].status.is_true(conditions.EVICTED)
    assert world.workloads()["train"].status.is_true(conditions.PREEMPTED)
    stops_after(world, 20, is_there(world))
    assert world.admitted() == {"urgent"}


def test_a_preempted_pod_says_until_when_and_for_whom() -> None:
    world = preempted()
    assert said(world) == ("True", "Preempted", TEXT)
    assert stops_at(world) == "2026-01-01T00:00:25Z"
    assert told(world) == [("train", TEXT)]
    writes = len(world.sent)
    world.pass_time(10)
    about = {conditions.PREEMPTION_NOTICE, names.STOPS_AT}
    assert not [one for one in world.sent[writes:] if any(key in str(one) for key in about)]


def test_whoever_preempts_says_until_when_it_waits() -> None:
    world = preempted()
    world.pass_time(3)
    found = world.condition("urgent")
    assert found is not None
    assert found.reason == "WaitingForPreemptedWorkloads"
    assert found.message.endswith("; the last is stopped at 00:00:25 UTC.")
    writes = sum(one.operation is WritePurpose.EXPLAIN_POD for one in world.sent)
    world.pass_time(15)
    assert sum(one.operation is WritePurpose.EXPLAIN_POD for one in world.sent) == writes


def test_without_the_annotation_a_preempted_pod_is_stopped_at_once() -> None:
    world = preempted(None)
    assert pods(world) == {"urgent"}
    assert told(world) == []


def test_a_job_is_suspended_when_its_notice_ends() -> None:
    world = ordered_world()
    test_jobs.started(world, queued_job("train", pods=4))
    test_members.make(world, "train", 0, 1, 2, 3)
    for name in ("train-0", "train-1", "train-2", "train-3"):
        world.set_phase(name, "Running")
    world.add(queued_job("urgent", pods=4, labels=HIGH))
    world.settle()

    text = "This Job is stopped at 00:00:20 UTC: its GPUs are needed by ml/urgent (priority 100)"
    found = said(world)
    assert found is not None
    assert found[2].startswith(text)
    assert {stops_at(world, f"train-{index}") for index in range(4)} == {"2026-01-01T00:00:20Z"}
    assert [name for name, _ in told(world)] == ["train"]
    stops_after(world, 20, lambda: test_jobs.is_running(world))
    assert not test_jobs.is_running(world, "urgent")
    test_jobs.report(world, active=0)
    world.settle()
    for index in range(4):
        world.delete_pod(f"train-{index}")
    world.settle()
    assert test_jobs.is_running(world, "urgent")
    assert said(world) is None


def test_a_pod_that_a_job_makes_during_the_notice_says_until_when_too() -> None:
    world = ordered_world()
    test_jobs.started(world, queued_job("train", pods=4))
    world.add(queued_job("urgent", pods=4, labels=HIGH))
    world.pass_time(5)
    test_members.make(world, "train", 0)
    assert stops_at(world, "train-0") == "2026-01-01T00:00:20Z"


def test_an_elastic_job_neither_grows_nor_stops_before_its_notice_ends() -> None:
    world = ordered_world()
    job = test_elastic_jobs.JobController(world)
    world.add(test_elastic_jobs.elastic(pods=3))
    for _ in range(3):
        world.settle()
        job.work()
    assert job.running() == 3
    world.add_pod("urgent", gpus=QUOTA, labels=HIGH)
    world.settle()
    assert {stops_at(world, one["metadata"]["name"]) for one in job.pods()} == {
        "2026-01-01T00:00:20Z"
    }
    test_jobs.change(world, parallelism=4)
    world.settle()
    job.work()
    stops_after(world, 20, lambda: job.running() == 3 and test_jobs.is_running(world))


class ShownOwner:
    """A JobSet that no store serves: it is shown, and takes the patches that are sent."""

    def __init__(self, world: World) -> None:
        sample = next(one for one in samples.ALL if one.row.kind == "JobSet")
        world.add(make_namespace("stands-in"))  # else the store collects what the owner owns
        stands_in = world.store.get(resources.NAMESPACES, "stands-in")
        self.document = copy.deepcopy(sample.manifest)
        self.document["metadata"] |= {
            "namespace": "ml", "uid": stands_in["metadata"]["uid"], "resourceVersion": "1000000",
            "labels": {names.QUEUE_LABEL: "team-a"},
        }  # fmt: skip
        self.document["spec"] |= {"suspend": True}
        workers = self.document["spec"]["replicatedJobs"][1]["template"]["spec"]
        workers["parallelism"] = 2
        (container,) = workers["template"]["spec"]["containers"]
        container["resources"]["limits"] = {names.GPU_RESOURCE: 1}
        self.resource = next(one for one in WATCHED if one.kind == "JobSet")
        self.world, self.send = world, world._sender.send
        world._sender.send = self.answer  # type: ignore[method-assign]
        self.show()

    def show(self) -> None:
        metadata = self.document["metadata"]
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        self.world.shown[self.resource] = (msgspec.convert(self.document, RowDocument),)

    def answer(self, request: ApiRequest) -> RequestResult:
        if request.resource != self.resource:
            return self.send(request)
        if request.patch is not None:
            operations = msgspec.json.decode(request.patch.body)
            self.document = jsonpatch.apply_patch(self.document, operations)
            self.show()
        found = msgspec.convert(self.document, request.into)
        return RequestResult(request=request, result=Result.DONE, object=found)

    def runs(self) -> bool:
        return not self.document["spec"]["suspend"]


def test_an_owner_of_another_kind_is_suspended_when_its_notice_ends() -> None:
    world = ordered_world()
    owner = ShownOwner(world)
    world.settle()
    assert owner.runs()
    world.add_pod("urgent", gpus=QUOTA, labels=HIGH)
    world.settle()
    text = "This JobSet is stopped at 00:00:20 UTC: its GPUs are needed by ml/urgent"
    assert [name for name, note in told(world) if note.startswith(text)] == ["train"]
    stops_after(world, 20, owner.runs)


@pytest.mark.parametrize("fair", [False, True], ids=["reclaim", "fair sharing"])
def test_the_queue_of_the_victim_gives_the_notice_when_its_cohort_takes_quota_back(
    fair: bool,
) -> None:
    config = model.Config(fair_sharing=model.FairSharing()) if fair else None
    world = World(config=config)
    world.add(make_namespace(), make_flavor())
    own = 0 if fair else 2
    for name, quota, seconds in (
        ("preemptor", own, "1h"), ("borrower", 0, "20s"), ("lender", QUOTA - own, "1h"),
    ):  # fmt: skip
        world.add(
            make_cluster_queue(
                name, quota=quota, cohortName="all", preemption={"reclaimWithinCohort": "Any"},
                annotations={names.PREEMPTION_NOTICE: seconds},
            ),
            make_local_queue(name, name),
        )  # fmt: skip
    world.settle()
    run(world, queue="borrower")
    world.add_pod("own", gpus=2, queue="preemptor")
    world.settle()
    found = world.workloads()["train"].status.condition(conditions.PREEMPTED)
    assert found is not None
    assert found.reason == ("InCohortFairSharing" if fair else "InCohortReclamation")
    stops_after(world, 20, is_there(world))
    assert world.admitted() == {"own"}


def test_a_group_is_stopped_when_its_notice_ends_and_each_pod_says_until_when() -> None:
    world = ordered_world()
    test_pod_groups.add(world, "a", "b", gpus=2)
    world.settle()
    test_pod_groups.run(world, "a", "b")
    world.settle()
    assert world.admitted() == {"a", "b"}
    start = round((world.clock.now() - START).total_seconds())
    world.add_pod("urgent", gpus=QUOTA, labels=HIGH)
    world.settle()

    assert {stops_at(world, name) for name in "ab"} == {f"2026-01-01T00:00:{start + 20}Z"}
    assert {name for name, note in told(world) if note.startswith("This pod is")} == {"a", "b"}
    found = test_pod_groups.workload(world).status.condition(conditions.PREEMPTION_NOTICE)
    assert found is not None
    assert found.message.startswith(f"This group of pods is stopped at 00:00:{start + 20} UTC")
    stops_after(world, 20, lambda: {"a", "b"} <= pods(world))
    assert world.admitted() == {"urgent"}


def test_a_pod_beyond_a_preempted_podgroup_goes_when_the_group_does() -> None:
    world = ordered_world()
    test_gangs.show(world, 2)
    test_gangs.add(world, "a", "b")
    assert test_gangs.started(world) == {"a", "b"}
    test_gangs.add(world, "c")
    assert test_gangs.started(world) == {"a", "b", "c"}
    for name in "abc":
        world.set_phase(name, "Running")
    world.add_pod("urgent", gpus=QUOTA, labels=HIGH)
    stops_after(world, 20, lambda: {"a", "b", "c"} <= pods(world))
    world.pass_time(2)
    assert world.admitted() == {"urgent"}


# ------------------------------------------------------------------------ the same for everybody


def test_another_leader_stops_it_at_the_same_moment() -> None:
    world = preempted()
    world.pass_time(8)
    world = world.restarted()
    world.settle()
    assert stops_at(world) == "2026-01-01T00:00:25Z"
    stops_after(world, 12, is_there(world))


def test_a_leader_that_comes_after_the_end_stops_it_at_once() -> None:
    world = preempted()
    world.clock.advance(60)
    world = world.restarted()
    world.settle()
    assert world.admitted() == {"urgent"}


def test_what_the_queue_says_now_counts() -> None:
    world = preempted()
    world.pass_time(5)
    annotate(world, CQ, preemption_notice="10s")
    assert stops_at(world) == "2026-01-01T00:00:15Z"
    assert "00:00:15 UTC" in (said(world) or ("", "", ""))[2]
    stops_after(world, 5, is_there(world))


def test_a_queue_that_gives_more_meanwhile_gives_more() -> None:
    world = preempted()
    annotate(world, CQ, preemption_notice="30s")
    stops_after(world, 30, is_there(world))


def test_a_notice_that_is_taken_back_is_over() -> None:
    world = preempted()
    annotate(world, CQ, preemption_notice=None)
    assert world.admitted() == {"urgent"}


def test_a_notice_into_another_day_names_the_day() -> None:
    world = preempted("36h")
    assert "at 2026-01-02 12:00:05 UTC" in (said(world) or ("", "", ""))[2]


# ------------------------------------------------------------------- nobody takes more than that


def test_nobody_gets_more_notice_than_the_cluster_queue_gives() -> None:
    world = preempted("10s", annotations={names.PREEMPTION_NOTICE: "1h"})
    annotate(world, LQ, preemption_notice="1h")
    stops_after(world, 10, is_there(world))


@pytest.mark.parametrize("by", ["pod", "LocalQueue"])
def test_a_local_queue_or_a_pod_may_do_with_less(by: str) -> None:
    marks = {names.PREEMPTION_NOTICE: "5s"} if by == "pod" else {}
    world = ordered_world()
    if by == "LocalQueue":
        annotate(world, LQ, preemption_notice="5s")
    run(world, annotations=marks)
    world.add_pod("urgent", gpus=QUOTA, labels=HIGH)
    world.settle()
    stops_after(world, 5, is_there(world))


def test_a_local_queue_alone_gives_no_notice() -> None:
    world = ordered_world(None)
    annotate(world, LQ, preemption_notice="1h")
    run(world, annotations={names.PREEMPTION_NOTICE: "1h"})
    world.add_pod("urgent", gpus=QUOTA, labels=HIGH)
    world.settle()
    assert world.admitted() == {"urgent"}


def test_who_edits_the_moment_on_the_pod_gets_no_more_time() -> None:
    world = preempted()
    change = patches.merge({"metadata": {"annotations": {names.STOPS_AT: "2036-01-01T00:00:00Z"}}})
    world.store.patch(resources.PODS, "train", change, "ml")
    world.settle()
    assert stops_at(world) == "2026-01-01T00:00:25Z"
    stops_after(world, 20, is_there(world))


def test_a_notice_does_not_outlast_the_maximum_run_time() -> None:
    world = ordered_world("1h")
    annotate(world, CQ, maximum_run_time="30s")
    run(world)
    world.pass_time(20)
    world.add_pod("urgent", gpus=QUOTA, labels=HIGH)
    world.settle()
    stops_after(world, 10, is_there(world))


# ------------------------------------------------------------------------------- what has none


@pytest.mark.parametrize("reason", ["NodeFailures", "PodsReadyTimeout", "ClusterQueueStopped"])
def test_what_is_evicted_for_another_reason_gets_no_notice(reason: str) -> None:
    world = ordered_world("1h")
    run(world)
    evict(world, "train", reason)
    world.settle()
    assert pods(world) == set()


def test_a_person_who_deactivates_it_ends_the_notice() -> None:
    world = preempted()
    name = world.workloads()["train"].metadata.name
    world.store.patch(resources.WORKLOADS, name, patches.merge({"spec": {"active": False}}), "ml")
    world.settle()
    assert world.admitted() == {"urgent"}


@pytest.mark.parametrize("kind", [CQ, LQ])
def test_a_queue_that_is_drained_ends_the_notice(kind: Any) -> None:
    world = preempted()
    name, space = ("team-a", "ml") if kind is LQ else ("gpus", "")
    change = patches.merge({"spec": {"stopPolicy": "HoldAndDrain"}})
    world.store.patch(kind, name, change, space)
    world.settle()
    assert "train" not in pods(world)


def test_a_pod_that_is_not_bound_has_nothing_to_save() -> None:
    world = ordered_world()
    world.add_pod("train", gpus=QUOTA)
    world.settle()
    world.add_pod("urgent", gpus=QUOTA, labels=HIGH)
    world.settle()
    assert world.admitted() == {"urgent"}


def test_a_pod_that_is_bound_before_the_controller_sees_it_runs_on_until_its_notice_ends() -> None:
    world = ordered_world()
    world.add_pod("train", gpus=QUOTA)
    world.settle()
    world.add_pod("urgent", gpus=QUOTA, labels=HIGH)
    world.observe()
    world.core.step()
    while world.queued[0].verb is not Verb.DELETE:
        world.send_one()
        world.core.step()
    bound = patches.merge({"spec": {"nodeName": "node-1"}})
    world.store.patch(resources.PODS, "train", bound, world.pod("train").metadata.namespace)
    world.settle()
    assert stops_at(world)
    stops_after(world, 20, is_there(world))


def test_what_ends_by_itself_gives_its_quota_back_at_once() -> None:
    world = preempted()
    world.pass_time(3)
    world.set_phase("train", "Succeeded")
    world.settle()
    assert world.admitted() == {"train", "urgent"}


# ---------------------------------------------------------------------------------- and others


def test_it_is_stopped_though_the_preemptor_is_gone() -> None:
    world = preempted()
    world.delete_pod("urgent")
    world.settle()
    world = world.restarted()
    world.settle()
    assert "needed by another workload." in (said(world) or ("", "", ""))[2]
    stops_after(world, 20, is_there(world))
    assert pods(world) == set()


def test_a_long_notice_takes_no_further_victims() -> None:
    world = ordered_world("30s")
    for name in ("one", "two"):
        run(world, name, gpus=2)
    world.add_pod("urgent", gpus=2, labels=HIGH)
    world.pass_time(25)
    evicted = {
        name for name, one in world.workloads().items() if one.status.is_true(conditions.EVICTED)
    }
    assert len(evicted) == 1
    world.pass_time(6)
    assert world.admitted() == {"urgent", *({"one", "two"} - evicted)}


def test_the_brake_does_not_hold_it_back_after_the_notice() -> None:
    world = ordered_world("5s", gpu=GpuConfiguration(max_stops_per_minute=1))
    run(world)
    world.add_pod("urgent", gpus=QUOTA, labels=HIGH)
    world.settle()
    stops_after(world, 5, is_there(world))


def test_a_moment_that_the_server_refuses_to_write_holds_up_no_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ordered_world()
    refuse(world, WritePurpose.ANNOUNCE_STOP, monkeypatch)
    run(world)
    world.add_pod("urgent", gpus=QUOTA, labels=HIGH)
    world.settle()
    stops_after(world, 20, is_there(world))
    assert sum(one.operation is WritePurpose.ANNOUNCE_STOP for one in world.sent) == 1
