"""Workloads made by hand or by other controllers, on a real API server.

Other controllers write the status by server-side apply; what they say is obeyed, and not
contradicted afterwards.
"""

import pytest

from admission.base import names
from tests.builders.workloads import make_pod_set
from tests.controlplane import waiting
from tests.controlplane.rest import RestError
from tests.integration import applied, queued
from tests.integration.applied import Workloads, condition
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

EXPECTED_ERRORS = ("workload cannot be read",)

FINISHED_BY = "kueue-job-controller-Finished"
READY_BY = "kueue-job-controller-PodsReady"
ADMISSION = "kueue-admission"


@pytest.fixture(scope="module")
def system(installation: Installed) -> Installed:
    return installation


def make_team(system: Installed, quota: int = 4, **spec: object) -> Workloads:
    return Workloads(system, system.add_team(quota, **spec))


def admit(workloads: Workloads, name: str = "train", **changes: object) -> None:
    workloads.create(name, **changes)  # type: ignore[arg-type]
    workloads.wait(name, "Admitted", "True")


def assert_left_alone(system: Installed, workloads: Workloads, name: str = "train") -> None:
    """Nobody writes the Workload any more, though a whole life of another one goes by."""
    waits = int(workloads.said(name, "QuotaReserved")[0] != "True")
    version = workloads.get(name)["metadata"]["resourceVersion"]
    workloads.create("passer-by", gpus=0)
    workloads.wait("passer-by", "Admitted", "True")
    workloads.say("passer-by", FINISHED_BY, condition("Finished", "True", "Succeeded"))
    workloads.create("too-big", gpus=10_000)
    workloads.wait("too-big", "QuotaReserved", "False", "ExceedsMaxQuota")
    for one in ("passer-by", "too-big"):
        workloads.delete(one)

    def is_settled() -> bool:
        status = queued.status_of(system, "clusterqueues", workloads.namespace)
        return "pendingWorkloads" in status and status["pendingWorkloads"] <= waits

    waiting.until(is_settled, what="the queue settled")
    assert workloads.get(name)["metadata"]["resourceVersion"] == version


# ------------------------------------------------------------------------------------ admission


def test_requests_beyond_64_bits_are_admitted_and_refused_in_readable_words(
    system: Installed,
) -> None:
    workloads = make_team(system)
    large, small = f"{workloads.namespace}-large", f"{workloads.namespace}-small"
    groups = []
    for flavor, resource, quota in ((large, "memory", "10E"), (small, "cpu", "4")):
        system.add_flavor(flavor)
        quotas = [{"name": resource, "nominalQuota": quota}]
        flavors = [{"name": flavor, "resources": quotas}]
        groups.append({"coveredResources": [resource], "flavors": flavors})
    queued.edit(system, "clusterqueues", workloads.namespace, {"resourceGroups": groups})

    def create(name: str, **requests: str) -> None:
        container = {
            "name": "main",
            "image": "registry/image",
            "resources": {"requests": requests},
        }
        template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
        workloads.create(name, pod_set={"template": template})

    create("fits", memory="10E")
    create("too-large", cpu="10E")

    workloads.wait("fits", "Admitted", "True")
    (assigned,) = workloads.get("fits")["status"]["admission"]["podSetAssignments"]
    assert assigned["resourceUsage"] == {"memory": "9223372036854775807"}
    refused = workloads.wait("too-large", "QuotaReserved", "False", "ExceedsMaxQuota")
    assert "current podset request (an unlimited amount) > maximum" in refused["message"]


def test_a_hand_made_workload_is_admitted_with_all_its_pod_sets(system: Installed) -> None:
    workloads = make_team(system)
    first, second = make_pod_set("driver", gpus=1), make_pod_set("workers", 3, gpus=1)
    workloads.create("train", podSets=[first, second])
    workloads.wait("train", "Admitted", "True", "Admitted")
    admission = workloads.get("train")["status"]["admission"]
    assert admission["clusterQueue"] == workloads.namespace
    assert [
        (one["name"], one["count"], one["resourceUsage"], one["flavors"])
        for one in admission["podSetAssignments"]
    ] == [
        ("driver", 1, {names.GPU_RESOURCE: "1"}, {names.GPU_RESOURCE: workloads.namespace}),
        ("workers", 3, {names.GPU_RESOURCE: "3"}, {names.GPU_RESOURCE: workloads.namespace}),
    ]
    assert_left_alone(system, workloads)


def test_a_workload_that_may_shrink_gets_what_is_left(system: Installed) -> None:
    workloads = make_team(system, quota=3)
    workloads.create("train", count=5, pod_set={"minCount": 2})
    workloads.wait("train", "Admitted", "True")
    (assigned,) = workloads.get("train")["status"]["admission"]["podSetAssignments"]
    assert (assigned["count"], assigned["resourceUsage"]) == (3, {names.GPU_RESOURCE: "3"})


def test_one_that_does_not_fit_says_why_and_is_admitted_when_its_queue_grows(
    system: Installed,
) -> None:
    workloads = make_team(system, quota=1)
    workloads.create("train", gpus=2)
    found = workloads.wait("train", "QuotaReserved", "False", "ExceedsMaxQuota")
    assert "insufficient quota for nvidia.com/gpu in flavor" in found["message"]
    assert workloads.said("train", "Admitted") == ("False", "NoReservation")
    (requests,) = workloads.get("train")["status"]["resourceRequests"]
    assert requests == {"name": "main", "resources": {names.GPU_RESOURCE: "2"}}
    queue = f"{KUEUE}/clusterqueues/{workloads.namespace}"
    groups = system.api.get(queue)["spec"]["resourceGroups"]
    groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = "2"
    system.api.patch(queue, {"spec": {"resourceGroups": groups}})
    workloads.wait("train", "Admitted", "True")
    assert "resourceRequests" not in workloads.get("train")["status"]


def test_events_tell_the_story_of_a_workload(system: Installed) -> None:
    workloads = make_team(system, quota=1)
    team, queue = workloads.namespace, f"{KUEUE}/clusterqueues/{workloads.namespace}"
    workloads.create("train", gpus=2)
    found = workloads.wait("train", "QuotaReserved", "False", "ExceedsMaxQuota")
    applied.wait_told(system, team, "Workload", "ExceedsMaxQuota", found["message"])
    groups = system.api.get(queue)["spec"]["resourceGroups"]
    groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = "2"
    system.api.patch(queue, {"spec": {"resourceGroups": groups}})
    applied.wait_told(system, team, "Workload", "QuotaReserved")
    note = f"Admitted by ClusterQueue {team}, wait time since reservation was 0s"
    applied.wait_told(system, team, "Workload", "Admitted", note)


def test_gates_keep_a_workload_back_until_the_last_is_gone(system: Installed) -> None:
    workloads = make_team(system)
    gates = {names.ADMISSION_GATED_BY: "example.com/budget,example.com/legal"}
    workloads.create("train", metadata={"annotations": gates})
    found = workloads.wait("train", "QuotaReserved", "False", "AdmissionGated")
    assert found["message"] == "Admission is gated by: example.com/budget,example.com/legal"
    path = f"{workloads.path}/train"
    system.api.patch(path, {"metadata": {"annotations": {names.ADMISSION_GATED_BY: None}}})
    workloads.wait("train", "Admitted", "True")


def test_reclaimable_pods_give_their_quota_back(system: Installed) -> None:
    workloads = make_team(system, quota=4)
    admit(workloads, count=4)
    workloads.create("next", gpus=3)
    workloads.wait("next", "QuotaReserved", "False", "WaitingForQuota")
    workloads.apply(
        "train", "kueue-reclaimable-pods", reclaimablePods=[{"name": "main", "count": 3}]
    )
    workloads.wait("next", "Admitted", "True")
    applied.wait_reserved(system, workloads.namespace, 4)


# ----------------------------------------------------------------------------------------- end


def test_a_writer_that_reports_the_end_frees_the_quota_at_once(system: Installed) -> None:
    workloads = make_team(system, quota=1)
    admit(workloads)
    workloads.create("next")
    workloads.wait("next", "QuotaReserved", "False", "WaitingForQuota")
    workloads.say("train", FINISHED_BY, condition("Finished", "True", "Succeeded", "done"))
    workloads.wait("next", "Admitted", "True")
    workloads.say("next", FINISHED_BY, condition("Finished", "True", "Succeeded", "done"))
    applied.wait_reserved(system, workloads.namespace, 0)
    ended = workloads.get("train")["status"]
    assert ended["admission"]["clusterQueue"] == workloads.namespace
    assert workloads.condition("train", "Finished")["message"] == "done"
    assert_left_alone(system, workloads)


def test_the_writer_stays_owner_of_the_condition_it_set(system: Installed) -> None:
    workloads = make_team(system)
    admit(workloads)
    workloads.say("train", READY_BY, condition("PodsReady", "True", "Started"))
    workloads.create("other")
    workloads.wait("other", "Admitted", "True")
    managers = [
        one
        for one in workloads.get("train")["metadata"]["managedFields"]
        if one["manager"] == READY_BY
    ]
    assert [one["operation"] for one in managers] == ["Apply"]
    assert 'k:{"type":"PodsReady"}' in managers[0]["fieldsV1"]["f:status"]["f:conditions"]
    assert_left_alone(system, workloads)


def test_deleting_a_workload_frees_its_quota(system: Installed) -> None:
    workloads = make_team(system, quota=1)
    admit(workloads)
    workloads.create("next")
    workloads.delete("train")
    workloads.wait("next", "Admitted", "True")


def test_a_deleted_workload_that_nobody_owns_is_let_go(system: Installed) -> None:
    workloads = make_team(system)
    workloads.create("train", metadata={"finalizers": [names.RESOURCE_IN_USE]})
    workloads.wait("train", "Admitted", "True")
    workloads.delete("train")
    waiting.until(lambda: not workloads.exists("train"), what="the Workload gone")


def test_an_owned_workload_without_owner_is_over(system: Installed) -> None:
    workloads = make_team(system)
    labels = {names.JOB_UID_LABEL: "11111111-1111-1111-1111-111111111111"}
    metadata = {"labels": labels, "finalizers": [names.RESOURCE_IN_USE]}
    workloads.create("train", metadata=metadata)
    found = workloads.wait("train", "Finished", "True", "OwnerNotFound")
    assert found["message"] == "The workload's owner no longer exists"
    waiting.until(
        lambda: not workloads.get("train")["metadata"].get("finalizers"), what="no finalizer"
    )


# ------------------------------------------------------------------------------------- eviction


def test_a_deactivated_workload_is_evicted_and_returns_when_activated(system: Installed) -> None:
    workloads = make_team(system, quota=1)
    admit(workloads)
    workloads.create("next")
    workloads.patch("train", {"active": False})
    found = workloads.wait("train", "Evicted", "True", "Deactivated")
    assert found["message"] == "The workload is deactivated"
    workloads.wait("next", "Admitted", "True")  # a deactivated Workload counts no more
    workloads.clear("train")
    workloads.wait("train", "QuotaReserved", "False", "Deactivated")
    assert "admission" not in workloads.get("train")["status"]

    workloads.say("next", FINISHED_BY, condition("Finished", "True", "Succeeded"))
    workloads.patch("train", {"active": True})
    workloads.wait("train", "Requeued", "True", "Reactivated")
    workloads.wait("train", "Admitted", "True")
    assert workloads.said("train", "Evicted") == ("False", "QuotaReserved")
    assert workloads.condition("train", "Evicted")["message"] == (
        "Previously: The workload is deactivated"
    )


def test_a_waiting_workload_that_is_deactivated_is_not_tried(system: Installed) -> None:
    workloads = make_team(system, quota=0)
    workloads.create("train")
    workloads.wait("train", "QuotaReserved", "False", "ExceedsMaxQuota")
    workloads.patch("train", {"active": False})
    workloads.wait("train", "Evicted", "True", "Deactivated")
    assert workloads.said("train", "Requeued") == ("False", "Deactivated")
    workloads.wait("train", "QuotaReserved", "False", "Deactivated")
    assert_left_alone(system, workloads)


def test_a_victim_holds_its_quota_until_its_controller_has_stopped_it(system: Installed) -> None:
    workloads = make_team(system, quota=1, preemption={"withinClusterQueue": "LowerPriority"})
    admit(workloads, "low", priority=1)
    workloads.create("high", priority=9)
    evicted = workloads.wait("low", "Evicted", "True", "Preempted")
    assert "due to prioritization in the ClusterQueue" in evicted["message"]
    assert workloads.condition("low", "Preempted")["message"] == evicted["message"]
    assert workloads.said("low", "Preempted") == ("True", "InClusterQueue")
    workloads.wait("high", "QuotaReserved", "False", "WaitingForPreemptedWorkloads")
    assert workloads.said("low", "QuotaReserved") == ("True", "QuotaReserved")

    workloads.clear("low")
    workloads.wait("high", "Admitted", "True")
    assert workloads.said("low", "Requeued") == ("True", "Preempted")
    workloads.say("high", FINISHED_BY, condition("Finished", "True", "Succeeded"))
    workloads.wait("low", "Admitted", "True")
    assert workloads.said("low", "Preempted") == ("False", "QuotaReserved")


@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue"])
def test_a_drained_queue_evicts_and_its_restart_brings_back(system: Installed, kind: str) -> None:
    workloads = make_team(system)
    admit(workloads)
    team = workloads.namespace
    path = (
        f"clusterqueues/{team}"
        if kind == "ClusterQueue"
        else f"namespaces/{team}/localqueues/default"
    )
    applied.stop(system, path, "HoldAndDrain")
    found = workloads.wait("train", "Evicted", "True", f"{kind}Stopped")
    assert found["message"] == f"The {kind} is stopped"
    workloads.clear("train")
    found = workloads.wait("train", "QuotaReserved", "False", "Suspended")
    name = team if kind == "ClusterQueue" else "default"
    assert found["message"] == f"{kind} {name} is inactive"
    assert workloads.said("train", "Requeued") == ("False", f"{kind}Stopped")

    applied.stop(system, path, "None")
    workloads.wait("train", "Requeued", "True", f"{kind}Restarted")
    workloads.wait("train", "Admitted", "True")


@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue"])
def test_a_held_queue_lets_go_on_what_was_admitted(system: Installed, kind: str) -> None:
    workloads = make_team(system)
    admit(workloads)
    team = workloads.namespace
    path = (
        f"clusterqueues/{team}"
        if kind == "ClusterQueue"
        else f"namespaces/{team}/localqueues/default"
    )
    applied.stop(system, path, "Hold")
    queued.await_condition(system, f"{KUEUE}/{path}", "Active", lambda told: told[0] == "False")
    workloads.create("late")
    workloads.wait("late", "QuotaReserved", "False", "Suspended")
    assert workloads.said("train", "Admitted") == ("True", "Admitted")
    assert not workloads.condition("train", "Evicted")


def test_the_time_limit_counts_on_after_an_eviction(system: Installed) -> None:
    workloads = make_team(system)
    created = workloads.create("train", maximumExecutionTimeSeconds=3)
    found = workloads.wait("train", "Evicted", "True")
    since = created["metadata"]["resourceVersion"]
    versions = queued.history(system, "workloads", "train", workloads.namespace, since)
    assert "True" in {status for status, _, _ in queued.told(versions, "Admitted")}
    assert found["reason"] == "DeactivatedDueToMaximumExecutionTimeExceeded"
    assert found["message"] == (
        "The workload is deactivated due to exceeding the maximum execution time"
    )
    assert workloads.get("train")["spec"]["active"] is False
    assert "accumulatedPastExecutionTimeSeconds" not in workloads.get("train")["status"]
    applied.wait_reserved(system, workloads.namespace, 0)


# ---------------------------------------------------------------------------- others' conditions


def test_a_foreign_eviction_is_obeyed(system: Installed) -> None:
    workloads = make_team(system, quota=1)
    admit(workloads)
    workloads.create("next")
    workloads.say("train", "node-doctor", condition("Evicted", "True", "NodeFailures", "dead"))
    assert workloads.said("train", "QuotaReserved") == ("True", "QuotaReserved")
    workloads.apply(
        "train",
        "node-doctor",
        conditions=[
            condition("Evicted", "True", "NodeFailures", "dead"),
            condition("QuotaReserved", "False", "PendingEvaluation", "dead"),
            condition("Requeued", "False", "NodeFailures", "dead"),
        ],
    )
    workloads.wait("next", "Admitted", "True")
    waiting.until(
        lambda: "admission" not in workloads.get("train")["status"], what="no admission left"
    )
    assert workloads.said("train", "Requeued") == ("False", "NodeFailures")


def test_a_foreign_reservation_counts(system: Installed) -> None:
    workloads = make_team(system, quota=2)
    workloads.create("train", gpus=2, queueName="elsewhere")
    workloads.wait("train", "QuotaReserved", "False", "Misconfigured")
    assignment = {
        "name": "main",
        "count": 1,
        "flavors": {names.GPU_RESOURCE: workloads.namespace},
        "resourceUsage": {names.GPU_RESOURCE: "2"},
    }
    workloads.apply(
        "train",
        ADMISSION,
        admission={"clusterQueue": workloads.namespace, "podSetAssignments": [assignment]},
        conditions=[
            condition("QuotaReserved", "True", "QuotaReserved"),
            condition("Admitted", "True", "Admitted"),
        ],
    )
    applied.wait_reserved(system, workloads.namespace, 2)
    workloads.create("next")
    workloads.wait("next", "QuotaReserved", "False", "WaitingForQuota")
    assert workloads.said("train", "Admitted") == ("True", "Admitted")


def test_a_workload_on_hold_stays_there_until_its_owner_says_otherwise(
    system: Installed,
) -> None:
    workloads = make_team(system, quota=1)
    admit(workloads, "first")
    workloads.create("train")
    workloads.wait("train", "QuotaReserved", "False", "WaitingForQuota")
    on_hold = condition("QuotaReserved", "False", "OnHold", "Job is on hold")
    workloads.say("train", ADMISSION, on_hold)
    workloads.say("first", FINISHED_BY, condition("Finished", "True", "Succeeded"))
    assert_left_alone(system, workloads)
    assert workloads.said("train", "QuotaReserved") == ("False", "OnHold")

    over = condition("QuotaReserved", "False", "PendingEvaluation", "no longer on hold")
    workloads.say("train", ADMISSION, over)
    workloads.wait("train", "Admitted", "True")


def test_one_that_is_not_to_be_requeued_is_not_tried(system: Installed) -> None:
    workloads = make_team(system, quota=1)
    admit(workloads, "first")
    workloads.create("train")
    workloads.wait("train", "QuotaReserved", "False", "WaitingForQuota")
    workloads.say("train", ADMISSION, condition("Requeued", "False", "Inadmissible", "no"))
    workloads.say("first", FINISHED_BY, condition("Finished", "True", "Succeeded"))
    assert_left_alone(system, workloads)
    assert workloads.said("train", "QuotaReserved")[0] == "False"
    workloads.say("train", ADMISSION, condition("Requeued", "True", "Again", "yes"))
    workloads.wait("train", "Admitted", "True")


def test_a_workload_that_waits_for_pods_is_not_queued(system: Installed) -> None:
    workloads = make_team(system, quota=1)
    admit(workloads, "first")
    workloads.create("train")
    waits = condition("WaitingForReplacementPods", "True", "PodsFailed")
    workloads.say("train", "kueue-pod-controller", waits)
    workloads.say("first", FINISHED_BY, condition("Finished", "True", "Succeeded"))
    workloads.create("next")
    workloads.wait("next", "Admitted", "True")
    assert workloads.said("train", "QuotaReserved")[0] != "True"
    over = condition("WaitingForReplacementPods", "False", "PodsReady")
    workloads.say("train", "kueue-pod-controller", over)
    workloads.say("next", FINISHED_BY, condition("Finished", "True", "Succeeded"))
    workloads.wait("train", "Admitted", "True")


# --------------------------------------------------------------------------------- odd objects


def test_a_workload_of_an_unknown_queue_says_so_and_the_queue_repairs_it(
    system: Installed,
) -> None:
    workloads = make_team(system)
    workloads.create("train", queueName="none")
    found = workloads.wait("train", "QuotaReserved", "False", "Misconfigured")
    assert found["message"] == "LocalQueue none doesn't exist"
    system.add_local_queue(workloads.namespace, workloads.namespace, "none")
    workloads.wait("train", "Admitted", "True")


@pytest.mark.parametrize("admitted", ["True", "False"])
def test_a_reservation_of_another_program_in_a_queue_that_does_not_exist_is_admitted(
    system: Installed, admitted: str
) -> None:
    workloads = make_team(system, quota=0)
    workloads.create("train", queueName="elsewhere")
    workloads.wait("train", "QuotaReserved", "False", "Misconfigured")
    assignment = assigned("no-such-flavor")
    workloads.apply(
        "train",
        ADMISSION,
        admission={"clusterQueue": "no-such-queue", "podSetAssignments": [assignment]},
        conditions=[
            condition("QuotaReserved", "True", "QuotaReserved"),
            condition("Admitted", admitted, "X"),
        ],
    )
    found = workloads.wait("train", "Admitted", "True")
    if admitted == "False":
        assert (found["reason"], found["message"]) == ("Admitted", "The workload is admitted")
    assert_left_alone_while_others_are_admitted(system, workloads)
    assert workloads.said("train", "QuotaReserved") == ("True", "QuotaReserved")


def test_a_reservation_of_another_program_above_quota_is_admitted_and_counted(
    system: Installed,
) -> None:
    team = system.add_team(1)
    system.create_pod(team, "first")
    system.wait_released(team, "first")
    system.create_pod(team, "second")
    system.wait_condition(team, "second")
    workloads = Workloads(system, team)
    (name,) = [
        one["metadata"]["name"]
        for one in system.api.get(workloads.path)["items"]
        if one["metadata"]["name"].startswith("pod-second-")
    ]
    workloads.apply(
        name,
        ADMISSION,
        admission={"clusterQueue": team, "podSetAssignments": [assigned(team)]},
        conditions=[condition("QuotaReserved", "True", "QuotaReserved")],
    )
    system.wait_released(team, "second")
    assert workloads.said(name, "Admitted") == ("True", "Admitted")
    applied.wait_reserved(system, team, 2)
    system.delete_pod(team, "first")
    applied.wait_reserved(system, team, 1)
    assert workloads.said(name, "QuotaReserved") == ("True", "QuotaReserved")


def assigned(flavor: str) -> dict[str, object]:
    """One GPU of a flavor for the one pod set."""
    return {
        "name": "main",
        "count": 1,
        "flavors": {names.GPU_RESOURCE: flavor},
        "resourceUsage": {names.GPU_RESOURCE: "1"},
    }


def assert_left_alone_while_others_are_admitted(system: Installed, workloads: Workloads) -> None:
    version = workloads.get("train")["metadata"]["resourceVersion"]
    admit(make_team(system))
    assert workloads.get("train")["metadata"]["resourceVersion"] == version


def test_a_foreign_admission_in_an_unknown_flavor_stops_nobody(system: Installed) -> None:
    workloads = make_team(system)
    workloads.create("odd", queueName="elsewhere")
    assignment = {
        "name": "main",
        "count": 1,
        "flavors": {names.GPU_RESOURCE: "no-such-flavor"},
        "resourceUsage": {names.GPU_RESOURCE: "1"},
    }
    workloads.apply(
        "odd",
        ADMISSION,
        admission={"clusterQueue": workloads.namespace, "podSetAssignments": [assignment]},
        conditions=[
            condition("QuotaReserved", "True", "QuotaReserved"),
            condition("Admitted", "True", "Admitted"),
        ],
    )
    admit(workloads)
    queue = workloads.namespace
    waiting.until(
        lambda: queued.status_of(system, "clusterqueues", queue).get("reservingWorkloads") == 2,
        what="both counted",
    )
    assert workloads.said("odd", "Admitted") == ("True", "Admitted")


def test_a_workload_that_breaks_a_rule_says_so_and_stops_nobody(system: Installed) -> None:
    workloads = make_team(system)
    term = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    workloads.create("odd", pod_set={"pod": {"affinity": {"nodeAffinity": required}}})
    found = workloads.wait("odd", "QuotaReserved", "False", "Misconfigured")
    assert "affinity: not a valid selector operator" in found["message"]
    admit(workloads)


def test_a_workload_without_anything_stops_nobody(system: Installed) -> None:
    workloads = make_team(system)
    document = {"apiVersion": applied.API_VERSION, "kind": "Workload"}
    system.api.post(workloads.path, {**document, "metadata": {"name": "nothing"}})
    admit(workloads)
    found = workloads.wait("nothing", "QuotaReserved", "False")
    assert found["reason"] == "Misconfigured"


def test_an_empty_cluster_queue_admits_nothing_and_stops_nobody(system: Installed) -> None:
    team = system.cluster.create_namespace("team")
    document = {"apiVersion": applied.API_VERSION, "kind": "ClusterQueue"}
    system.api.post(f"{KUEUE}/clusterqueues", {**document, "metadata": {"name": team}})
    system.add_local_queue(team, team)
    workloads = Workloads(system, team)
    workloads.create("train")
    # Until the queues are seen, it is their absence that is told.
    unmatched = "workload namespace doesn't match ClusterQueue selector"
    told = ("False", "Misconfigured", unmatched)
    queued.await_condition(system, f"{workloads.path}/train", "QuotaReserved", told)
    admit(make_team(system))


def test_an_invalid_change_of_an_admitted_workload_is_refused(system: Installed) -> None:
    workloads = make_team(system)
    admit(workloads)
    with pytest.raises(RestError) as refused:
        workloads.patch("train", {"queueName": "other"})
    assert refused.value.status == 422
    assert "queueName is immutable while workload quota reserved" in refused.value.body
