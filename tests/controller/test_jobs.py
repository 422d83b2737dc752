"""Jobs on the embedded store: queued as a whole, started, stopped, restored, finished."""

from collections.abc import Callable
from typing import Any

import pytest

from admission.base import names, patches
from admission.controller.writing.api_requests import WritePurpose
from admission.kube import errors, resources
from admission.kube.api import Document
from admission.objects import batch
from admission.objects.workload import Workload
from admission.owners import batch_job
from tests.builders.cluster import make_core_class, make_namespace, make_node
from tests.builders.jobs import queued_job
from tests.builders.pods import make_pod, queued_pod
from tests.builders.queues import make_class, make_cluster_queue, make_flavor, make_local_queue
from tests.controller.world import WORKLOAD_KIND, World, ready_world

SELECTOR = {"nvidia.com/gpu.product": "a100"}
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def stored(world: World, name: str = "train") -> Document:
    return world.store.get(resources.JOBS, name, "ml")


def read(world: World, name: str = "train") -> batch.Job:
    return world.store.get(resources.JOBS, name, "ml", into=batch.JobDocument).view()


def is_running(world: World, name: str = "train") -> bool:
    return not batch_job.is_suspended(read(world, name))


def workload(world: World, name: str = "train") -> Workload:
    return world.workloads()[name]


def change(world: World, name: str = "train", **spec: Any) -> None:
    world.store.patch(resources.JOBS, name, patches.merge({"spec": spec}), "ml")


def report(world: World, name: str = "train", **status: Any) -> None:
    """Says what the Job controller would."""
    patch = patches.merge({"status": status})
    world.store.patch(resources.JOBS, name, patch, "ml", subresource="status")


def run(world: World, name: str = "train", active: int = 2) -> None:
    """The Job controller starts the pods of a Job that may run."""
    assert is_running(world, name)
    report(world, name, active=active, startTime="2026-01-01T00:00:00Z")
    world.settle()


def end(world: World, kind: str, name: str = "train") -> None:
    condition = {"type": kind, "status": "True", "message": f"it is {kind}"}
    report(world, name, active=0, conditions=[condition])
    world.settle()


def started(world: World, document: Document) -> World:
    """The Job was admitted and its pods run."""
    world.add(document)
    world.settle()
    pods = stored(world, document["metadata"]["name"])["spec"]["parallelism"]
    run(world, document["metadata"]["name"], active=pods)
    return world


def used(world: World) -> str:
    world.pass_time(2)
    usage = world.status_of("gpus")["flavorsUsage"]
    return str(usage[0]["resources"][0]["total"])


# ------------------------------------------------------------------------------------- the way in


def test_a_job_gets_one_workload_that_asks_for_all_its_pods():
    world = ready_world(quota=1)
    world.add(queued_job(pods=3, completions=9))
    world.settle()

    made = workload(world)
    (asked,) = made.spec.pod_sets or ()
    assert (asked.name, asked.count, asked.min_count) == ("main", 3, None)
    assert made.metadata.name == batch_job.KIND.key_of(read(world)).name
    assert made.metadata.label(names.JOB_UID_LABEL) == read(world).metadata.uid
    assert "job-name" not in (asked.template.metadata.labels or {})


def test_fewer_completions_than_parallelism_count():
    world = ready_world(quota=1)
    world.add(queued_job(pods=5, completions=2))
    world.settle()
    assert [one.count for one in workload(world).spec.pod_sets or ()] == [2]


def test_a_job_that_fits_is_started_with_what_its_flavor_says():
    world = ready_world()
    world.add(queued_job())
    world.settle()

    template = stored(world)["spec"]["template"]
    assert is_running(world)
    assert template["spec"]["nodeSelector"] == SELECTOR
    assert template["spec"]["tolerations"] == [TOLERATION]
    assert template["metadata"]["labels"][names.PODSET_LABEL] == "main"
    assert template["metadata"]["labels"][names.CLUSTER_QUEUE_NAME_LABEL] == "gpus"
    told = template["metadata"]["annotations"][names.WORKLOAD_ANNOTATION]
    assert told == workload(world).metadata.name
    assert ("train", "Started", "Admitted by clusterQueue gpus") in world.events.recorded


def test_a_job_over_quota_waits_suspended_and_starts_when_quota_returns():
    world = started(ready_world(quota=3), queued_job("first"))
    world.add(queued_job("second"))
    world.settle()
    assert not is_running(world, "second")

    end(world, "Complete", "first")
    assert is_running(world, "second")


def test_jobs_without_queue_label_or_in_excluded_namespaces_are_left_alone():
    world = ready_world()
    plain, system = queued_job("plain"), queued_job("system")
    del plain["metadata"]["labels"][names.QUEUE_LABEL]
    system["metadata"]["namespace"] = "kube-system"
    world.add(plain, system)
    world.settle()
    assert world.workloads() == {}


def test_a_job_that_runs_without_a_workload_is_stopped_and_queued():
    world = ready_world()
    world.add(queued_job(suspend=False))
    report(world, active=2)
    world.settle()
    assert not is_running(world)
    assert world.workloads() == {}

    report(world, active=0)
    world.settle()
    assert is_running(world)


def test_an_ended_job_gets_no_workload():
    world = ready_world()
    world.add(queued_job(suspend=False))
    report(world, conditions=[{"type": "Complete", "status": "True"}])
    world.settle()
    assert world.workloads() == {}


def test_a_job_that_nobody_reviewed_starts_with_marks_of_its_own():
    world = ready_world()
    copied = queued_job("other")
    copied["spec"]["template"]["metadata"]["labels"][names.PODSET_LABEL] = "mine"
    world.add(copied)
    world.settle()
    assert is_running(world, "other")
    labels = stored(world, "other")["spec"]["template"]["metadata"]["labels"]
    assert labels[names.PODSET_LABEL] == "main"


# ------------------------------------------------------------------------------ partial admission


@pytest.mark.parametrize(("pods", "fewest"), [(0, None), (1, 1), (2, 2), (5, 2)])
def test_the_fewest_pods_of_a_job_are_no_more_than_its_pods_and_never_none(
    pods: int, fewest: int | None
) -> None:
    world = ready_world(quota=1)
    world.add(queued_job(pods=5, annotations={names.JOB_MIN_PARALLELISM: "2"}))
    change(world, parallelism=pods)
    world.settle()
    (asked,) = workload(world).spec.pod_sets or ()
    assert (asked.count, asked.min_count) == (pods, fewest)


def test_a_job_may_start_with_fewer_pods_and_gets_its_parallelism_back():
    world = ready_world(quota=3)
    world.add(queued_job(pods=5, annotations={names.JOB_MIN_PARALLELISM: "2"}))
    world.settle()
    assert stored(world)["spec"]["parallelism"] == 3
    assert used(world) == "3"

    run(world, active=3)
    assert is_running(world)
    deactivate(world)
    report(world, active=0)
    world.settle()
    assert stored(world)["spec"]["parallelism"] == 5


def test_a_job_whose_least_does_not_fit_waits():
    world = ready_world(quota=1)
    world.add(queued_job(pods=5, annotations={names.JOB_MIN_PARALLELISM: "2"}))
    world.settle()
    assert not is_running(world)


def test_completions_follow_the_parallelism_where_asked_for():
    world = ready_world(quota=3)
    wishes = {names.JOB_MIN_PARALLELISM: "2", names.JOB_SYNC_COMPLETIONS: "true"}
    world.add(queued_job(pods=5, annotations=wishes))
    world.settle()
    spec = stored(world)["spec"]
    assert (spec["parallelism"], spec["completions"]) == (3, 3)


# ----------------------------------------------------------------------------------- reclaimable


def test_pods_that_will_not_run_again_give_their_quota_back():
    world = started(ready_world(quota=4), queued_job(pods=4))
    assert used(world) == "4"
    report(world, active=3, succeeded=1)
    world.settle()
    assert used(world) == "3"
    report(world, active=1, succeeded=3)
    world.settle()
    assert used(world) == "1"


def test_pods_are_not_reclaimed_while_others_are_to_follow():
    world = ready_world(quota=2)
    world.add(queued_job(pods=2, completions=6))
    world.settle()
    run(world)
    report(world, active=2, succeeded=4)
    world.settle()
    assert used(world) == "2"
    report(world, active=1, succeeded=5)
    world.settle()
    assert used(world) == "1"


def test_a_job_that_wants_more_pods_after_it_was_stopped_reclaims_none_of_them():
    world = started(ready_world(quota=4), queued_job(pods=4))
    report(world, active=1, succeeded=3)
    world.settle()
    deactivate(world)
    report(world, active=0, succeeded=3)
    world.settle()
    change(world, parallelism=2, completions=9)
    world.settle()
    deactivate(world, active=True)
    assert is_running(world)
    assert used(world) == "2"


def test_a_partly_admitted_job_gives_back_only_what_it_holds():
    world = ready_world(quota=3)
    world.add(queued_job(pods=5, annotations={names.JOB_MIN_PARALLELISM: "2"}))
    world.settle()
    run(world, active=3)
    report(world, active=3, succeeded=1)
    world.settle()
    assert used(world) == "3"
    report(world, active=2, succeeded=3)
    world.settle()
    assert used(world) == "2"


# --------------------------------------------------------------------------------------- stopping


def deactivate(world: World, name: str = "train", *, active: bool = False) -> None:
    found = workload(world, name).metadata
    patch = patches.merge({"spec": {"active": active}})
    world.store.patch(resources.WORKLOADS, found.name, patch, found.namespace)
    world.settle()


def test_an_eviction_suspends_the_job_and_keeps_the_quota_until_its_pods_are_gone():
    world = started(ready_world(), queued_job())
    drain = patches.merge({"spec": {"stopPolicy": "HoldAndDrain"}})
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", drain)
    world.settle()
    assert not is_running(world)
    assert used(world) == "2"

    report(world, active=0)
    world.settle()
    assert used(world) == "0"
    assert ("train", "Stopped", "The ClusterQueue is stopped") in world.events.recorded


def test_a_stopped_jobs_template_is_what_it_was_before_it_started():
    own = {"nodeSelector": {"pool": "blue"}, "tolerations": [{"key": "x", "operator": "Exists"}]}
    world = ready_world()
    world.add(queued_job(pod=own))
    world.settle()
    run(world)
    changed = stored(world)["spec"]["template"]["spec"]
    assert changed["nodeSelector"] == {**SELECTOR, "pool": "blue"}
    assert len(changed["tolerations"]) == 2

    deactivate(world)
    report(world, active=0)
    world.settle()
    template = stored(world)["spec"]["template"]
    assert template["spec"]["nodeSelector"] == own["nodeSelector"]
    assert template["spec"]["tolerations"] == own["tolerations"]
    assert template["metadata"]["labels"] == {"job-name": "train"}
    assert not template["metadata"].get("annotations")
    assert "startTime" not in stored(world)["status"]


def test_a_reactivated_job_starts_again():
    world = started(ready_world(), queued_job())
    deactivate(world)
    report(world, active=0)
    world.settle()
    deactivate(world, active=True)
    assert is_running(world)


def test_a_more_important_job_suspends_another_and_both_run_one_after_the_other():
    world = World()
    preemption = {"withinClusterQueue": "LowerPriority"}
    for name, value in (("low", 1), ("high", 100)):
        world.add(make_class(name, value))
    world.add(make_namespace(), make_flavor())
    world.add(make_cluster_queue(quota=2, preemption=preemption), make_local_queue())
    world.settle()
    started(world, queued_job("low", labels={names.PRIORITY_CLASS_LABEL: "low"}))
    world.add(queued_job("high", labels={names.PRIORITY_CLASS_LABEL: "high"}))
    world.settle()
    assert not is_running(world, "low")
    assert not is_running(world, "high")

    report(world, "low", active=0)
    world.settle()
    assert is_running(world, "high")
    run(world, "high")
    end(world, "Complete", "high")
    assert is_running(world, "low")


def test_a_job_that_its_user_starts_without_quota_is_suspended_again():
    world = ready_world(quota=1)
    world.add(queued_job())
    world.settle()
    change(world, suspend=False)
    world.settle()
    assert not is_running(world)
    note = "Stopped: it ran without quota. It starts again by itself when it gets quota"
    assert ("train", "Stopped", note) in world.events.recorded


def test_a_job_that_its_user_starts_just_as_it_is_admitted_starts_anew():
    world = ready_world()
    world.add(queued_job())
    while not any(write.operation is WritePurpose.RESERVE_QUOTA for write in world.sent):
        world.observe()
        world.core.step()
        world.send_one()
    world.core.step()
    assert [write.operation for write in world.queued] == [WritePurpose.START_OWNER]
    change(world, suspend=False)
    report(world, active=2)
    world.settle()
    assert not is_running(world)

    report(world, active=0)
    world.settle()
    assert is_running(world)
    annotations = stored(world)["spec"]["template"]["metadata"]["annotations"]
    assert annotations[names.WORKLOAD_ANNOTATION] == workload(world).metadata.name
    assert used(world) == "2"


def pod_of(job: Document, name: str) -> Document:
    """A pod that the Job controller made while nobody had admitted the Job."""
    pod = queued_pod(name)
    controller = {
        "apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"], "controller": True,
    }  # fmt: skip
    pod["metadata"]["ownerReferences"] = [controller]
    return pod


def disown(world: World) -> None:
    patch = patches.merge({"metadata": {"ownerReferences": None}})
    world.store.patch(resources.PODS, "early", patch, "ml")


@pytest.mark.parametrize("remove", [lambda world: world.delete_pod("early"), disown])
def test_a_job_with_pods_of_a_start_before_its_admission_is_stopped_until_they_are_gone(
    remove: Callable[[World], None],
):
    """The Job controller need not see a Job stopped that is started again at once."""
    world = started(ready_world(), queued_job())
    world.add(pod_of(stored(world), "early"))
    world.settle()
    assert not is_running(world)
    report(world, active=0)
    world.pass_time(60)
    world.settle()
    assert (is_running(world), used(world)) == (False, "2")

    remove(world)
    world.settle()
    assert is_running(world)


def test_a_gated_pod_that_an_admitted_job_made_does_not_stop_it():
    """Users may put a gate into the template of their Job."""
    world = started(ready_world(), queued_job())
    pod = pod_of(stored(world), "later")
    pod["metadata"]["labels"][names.PODSET_LABEL] = batch_job.POD_SET
    world.add(pod)
    world.settle()
    assert is_running(world)


def test_a_running_job_that_takes_more_pods_than_it_was_given_starts_anew():
    world = started(ready_world(quota=4), queued_job())
    change(world, parallelism=3, completions=3)
    world.settle()
    assert not is_running(world)
    report(world, active=0)
    world.settle()
    assert is_running(world)
    assert used(world) == "3"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"parallelism": 1}, {"count": 1}),
        ({"template": {"spec": {"nodeSelector": {"a": "b"}}}}, {"selector": {"a": "b"}}),
    ],
    ids=["count", "template"],
)
def test_the_workload_of_a_waiting_job_follows_it(
    changes: dict[str, Any], expected: dict[str, Any]
):
    world = ready_world(quota=1)
    world.add(queued_job(pods=3))
    world.settle()
    uid = workload(world).metadata.uid
    change(world, **changes)
    world.settle()
    (asked,) = workload(world).spec.pod_sets or ()
    found = {"count": asked.count, "selector": asked.template.spec.node_selector}
    assert workload(world).metadata.uid == uid
    assert expected.items() <= found.items()


def test_a_waiting_jobs_gates_reach_its_workload():
    world = ready_world()
    world.add(queued_job(annotations={names.ADMISSION_GATED_BY: "acme.io/check"}))
    world.settle()
    assert not is_running(world)
    annotations = {"metadata": {"annotations": {names.ADMISSION_GATED_BY: None}}}
    world.store.patch(resources.JOBS, "train", patches.merge(annotations), "ml")
    world.settle()
    assert is_running(world)


def test_a_waiting_job_can_change_its_queue():
    world = ready_world(quota=1)
    world.add(make_cluster_queue("other", quota=8), make_local_queue("team-b", "other"))
    world.add(queued_job(pods=3))
    world.settle()
    labels = {"metadata": {"labels": {names.QUEUE_LABEL: "team-b"}}}
    world.store.patch(resources.JOBS, "train", patches.merge(labels), "ml")
    world.settle()
    assert is_running(world)


# ---------------------------------------------------------------------------------- the way out


@pytest.mark.parametrize(("kind", "reason"), [("Complete", "Succeeded"), ("Failed", "Failed")])
def test_an_ended_job_finishes_its_workload_and_frees_its_quota(kind: str, reason: str):
    world = started(ready_world(), queued_job())
    end(world, kind)
    finished = workload(world).status.condition("Finished")
    assert finished is not None
    assert (finished.reason, finished.message) == (reason, f"it is {kind}")
    assert not workload(world).metadata.finalizers
    assert used(world) == "0"


def test_a_deleted_job_leaves_nothing():
    world = started(ready_world(), queued_job())
    world.store.delete(resources.JOBS, "train", "ml")
    world.settle()
    assert world.workloads() == {}
    assert used(world) == "0"


def test_a_job_deleted_while_nobody_looked_leaves_nothing():
    world = started(ready_world(), queued_job())
    world.store.delete(resources.JOBS, "train", "ml")
    after = world.restarted()
    after.settle()
    assert after.workloads() == {}
    assert used(after) == "0"


def test_a_deleted_workload_is_made_again_while_its_job_runs_on():
    world = started(ready_world(), queued_job())
    before = workload(world).metadata
    world.store.delete(resources.WORKLOADS, before.name, "ml")
    world.settle()
    assert is_running(world)
    assert workload(world).metadata.uid != before.uid
    assert workload(world).status.is_true("Admitted")


def test_a_job_that_loses_its_label_is_let_go_and_taken_in_again():
    world = ready_world(quota=1)
    world.add(queued_job())
    world.settle()
    label(world, None)
    assert world.workloads() == {}
    label(world, "team-a")
    assert set(world.workloads()) == {"train"}


def label(world: World, queue: str | None) -> None:
    labels = {"metadata": {"labels": {names.QUEUE_LABEL: queue}}}
    world.store.patch(resources.JOBS, "train", patches.merge(labels), "ml")
    world.settle()


# ------------------------------------------------------------------------------------- priorities


@pytest.mark.parametrize(
    ("labels", "pod", "expected"),
    [
        ({names.PRIORITY_CLASS_LABEL: "urgent"}, {"priorityClassName": "core"}, ("urgent", 7)),
        ({}, {"priorityClassName": "core"}, ("core", 5)),
        ({}, {}, ("usual", 3)),
    ],
    ids=["label", "pod", "default"],
)
def test_the_priority_comes_from_the_first_class_named(
    labels: dict[str, str], pod: dict[str, Any], expected: tuple[str, int]
):
    world = ready_world()
    world.add(make_class("urgent", 7), make_core_class("core", 5))
    world.add(make_core_class("usual", 3, default=True))
    world.add(queued_job(labels=labels, pod=pod))
    world.settle()
    spec = workload(world).spec
    assert spec.priority_class_ref is not None
    assert (spec.priority_class_ref.name, spec.priority) == expected


@pytest.mark.parametrize("missing", ["label", "pod"])
def test_a_job_waits_for_its_priority_class(missing: str):
    world = ready_world()
    by_label = missing == "label"
    labels = {names.PRIORITY_CLASS_LABEL: "late"} if by_label else {}
    world.add(queued_job(labels=labels, pod={} if by_label else {"priorityClassName": "late"}))
    world.settle()
    assert world.workloads() == {}
    told = [reason for _, reason, _ in world.events.recorded]
    assert told.count("WorkloadPriorityClassNotFound") == 1

    world.add(make_class("late", 1) if by_label else make_core_class("late", 1))
    world.settle()
    assert is_running(world)


# ------------------------------------------------------------------------------------- crashes


def test_a_controller_that_starts_anew_at_any_step_comes_to_the_same_end():
    """Stops after each number of writes; another controller goes on from what is stored."""
    for writes in range(12):
        world = ready_world(quota=2)
        world.add(queued_job("first"), queued_job("second"))
        world.observe()
        world.core.step()
        for _ in range(writes):
            if world.send_one() is None:
                world.observe()
                world.core.step()
        world = world.restarted()
        world.settle()
        running = [name for name in ("first", "second") if is_running(world, name)]
        assert len(running) == 1, writes
        run(world, running[0])
        end(world, "Complete", running[0])
        assert is_running(world, "second" if running == ["first"] else "first"), writes


def test_a_conflict_on_a_job_is_decided_anew():
    world = ready_world()
    world.add(queued_job())
    while not any(write.operation.value == "reserve_quota" for write in world.sent):
        world.observe()
        world.core.step()
        world.send_one()
    world.core.step()
    change(world, backoffLimit=2)
    world.settle()
    assert is_running(world)
    assert stored(world)["spec"]["backoffLimit"] == 2


def test_a_job_that_vanishes_before_its_start_is_forgotten():
    world = ready_world()
    world.add(queued_job())
    while not any(write.operation.value == "reserve_quota" for write in world.sent):
        world.observe()
        world.core.step()
        world.send_one()
    world.core.step()
    world.store.delete(resources.JOBS, "train", "ml")
    world.settle()
    assert world.workloads() == {}
    with pytest.raises(errors.NotFoundError):
        stored(world)


def test_a_decision_for_what_a_job_asked_before_is_not_written():
    """Another Job ends in the same moment in which a waiting one grows beyond what is free."""
    world = started(started(ready_world(), queued_job("a")), queued_job("b"))
    world.add(queued_job("c"))
    world.settle()
    report(world, "a", active=0, conditions=[{"type": "Complete", "status": "True"}])
    change(world, "c", parallelism=3, completions=3)
    world.settle()
    assert not is_running(world, "c")
    assert used(world) == "2"


def test_a_job_that_was_stopped_holds_its_quota_until_its_controller_has_seen_it():
    """It may have seen the start only, and make pods of a suspended Job."""
    world = ready_world()
    world.add(queued_job())
    world.settle()
    world.is_job_controller_away = True
    deactivate(world)
    assert not is_running(world)
    assert used(world) == "2"
    world.is_job_controller_away = False
    world.settle()
    assert used(world) == "0"


def test_a_job_controller_that_says_nothing_is_waited_for_ten_seconds():
    world = ready_world()
    world.add(queued_job())
    world.settle()
    world.is_job_controller_away = True
    deactivate(world)
    assert used(world) == "2"
    world.pass_time(11)
    assert used(world) == "0"


def test_a_job_that_runs_without_a_workload_is_charged_before_it_has_pods():
    """As after an etcd restore and a lost CRD: others must not get what its pods will take."""
    world = ready_world(quota=2)
    world.add(queued_job())
    world.settle()
    name = workload(world).metadata.name
    world.store.delete(resources.CRDS, WORKLOAD_KIND)
    world.store.delete(resources.WORKLOADS, name, "ml")
    world.settle()
    assert world.workloads() == {}
    assert used(world) == "2"


def test_a_job_that_runs_without_a_workload_is_charged_for_pods_on_a_node_that_is_gone():
    """It makes others as soon as they are gone, and nobody else must get what these will take."""
    world = ready_world(quota=2)
    world.store.create(resources.NODES, make_node("n1"))
    world.add(queued_job())
    world.settle()
    job = world.store.get(resources.JOBS, "train", "ml")
    template, uid = job["spec"]["template"]["metadata"], job["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid}
    for name in ("train-0", "train-1"):
        marks = {key: template.get(key) for key in ("labels", "annotations")}
        pod = make_pod(name, namespace="ml", gpus=1, nodeName="n1", **marks)
        pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        world.store.create(resources.PODS, pod, "ml")
    world.settle()
    name = workload(world).metadata.name
    world.store.delete(resources.CRDS, WORKLOAD_KIND)
    world.store.delete(resources.WORKLOADS, name, "ml")
    world.settle()
    assert used(world) == "2"

    world.store.delete(resources.NODES, "n1")
    world.settle()
    assert world.workloads() == {}
    assert used(world) == "2"
