"""Jobs with a queue on a real API server: suspended, followed, started, stopped, restored.

Nobody makes their pods here; tests/e2e/test_jobs.py has the Job controller.
"""

from contextlib import suppress
from typing import Any

import pytest

from admission.base import names
from tests.builders.jobs import make_job
from tests.controlplane import waiting
from tests.controlplane.rest import RestError
from tests.integration import applied
from tests.integration.applied import Check, Json, Workloads
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def system(installation: Installed) -> Installed:
    return installation


class Jobs:
    """Jobs of one team."""

    def __init__(self, system: Installed, quota: int = 4, **spec: object) -> None:
        self.api = system.api
        self.team = system.add_team(quota, **spec)
        self.path = f"/apis/batch/v1/namespaces/{self.team}/jobs"
        self.workloads = Workloads(system, self.team)

    def create(self, name: str = "train", pods: int = 2, **changes: Any) -> Json:
        pod = {"labels": {"app": name}}
        return self.api.post(self.path, make_job(name, pods, gpus=1, pod=pod, **changes))

    def get(self, name: str = "train") -> Json:
        return self.api.get(f"{self.path}/{name}")

    def patch(self, change: Json, name: str = "train") -> None:
        self.api.patch(f"{self.path}/{name}", change)

    def is_suspended(self, name: str = "train") -> bool:
        return bool(self.get(name)["spec"]["suspend"])

    def wait_started(self, name: str = "train") -> Json:
        waiting.until(lambda: not self.is_suspended(name), what=f"Job {name} started")
        return self.get(name)

    def workload(self, name: str = "train") -> str:
        """Name of the one Workload of a Job."""

        def look() -> list[str]:
            return [
                one["metadata"]["name"]
                for one in self.api.get(self.workloads.path)["items"]
                if one["metadata"]["ownerReferences"][0]["name"] == name
            ]

        found = waiting.until(look, what=f"the Workload of {name}")
        assert len(found) == 1, found
        return found[0]


def template(job: Json) -> Json:
    """What of a pod template an admission changes."""
    found = job["spec"]["template"]
    spec = found["spec"]
    return {
        "labels": found["metadata"].get("labels", {}),
        "annotations": found["metadata"].get("annotations", {}),
        "nodeSelector": spec.get("nodeSelector", {}),
        "tolerations": spec.get("tolerations", []),
    }


def test_a_job_is_suspended_gets_one_workload_and_starts_with_its_flavor(
    system: Installed,
) -> None:
    jobs = Jobs(system)
    created = jobs.create()
    assert created["spec"]["suspend"] is True
    assert created["metadata"]["labels"][names.QUEUE_LABEL] == "default"
    workload = jobs.workload()
    jobs.workloads.wait(workload, "Admitted", "True")
    found = template(jobs.wait_started())
    assert found["nodeSelector"] == {"nvidia.com/gpu.product": "A100"}
    assert found["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    ]
    assert found["annotations"] == {
        names.WORKLOAD_ANNOTATION: workload,
        names.ADMITTED_DEVICES: "nvidia.com/gpu=1",
    }
    owner = jobs.workloads.get(workload)["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["controller"]) == ("Job", True)


def child_of(jobs: Jobs, name: str, uid: str, labels: Json | None = None) -> Json:
    """Creates a Job that a Job named ``train`` controls, or so it says, and asks for no GPU."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid}
    metadata = {
        "name": name,
        "labels": labels or {},
        "ownerReferences": [{**owner, "controller": True}],
    }
    container = {"name": "main", "image": "train"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return jobs.api.post(jobs.path, {"metadata": metadata, "spec": {"template": template}})


def test_a_child_of_a_job_waits_for_its_parents_admission_and_has_no_workload(
    system: Installed,
) -> None:
    jobs = Jobs(system, quota=2)
    parent = jobs.create(pods=5)
    jobs.workloads.wait(jobs.workload(), "QuotaReserved", "False", "ExceedsMaxQuota")
    child = child_of(jobs, "child", parent["metadata"]["uid"])
    assert child["spec"]["suspend"] is True
    jobs.patch({"spec": {"suspend": False}}, "child")
    waiting.until(lambda: jobs.is_suspended("child"), what="the child is suspended again")
    assert jobs.is_suspended("train")
    jobs.patch({"spec": {"parallelism": 2}})
    jobs.wait_started("train")
    jobs.wait_started("child")
    owners = [
        one["metadata"]["ownerReferences"][0]["name"]
        for one in jobs.api.get(jobs.workloads.path)["items"]
    ]
    assert owners == ["train"]


def test_a_forged_owner_frees_no_job_from_quota_and_holds_none_without(system: Installed) -> None:
    jobs = Jobs(system, quota=0)
    parent = jobs.create()
    for name, uid in (("of-parent", parent["metadata"]["uid"]), ("of-nobody", "invented")):
        child_of(jobs, name, uid, {names.QUEUE_LABEL: "default"})
        jobs.workloads.wait(jobs.workload(name), "Admitted", "True")
        jobs.wait_started(name)
    held = child_of(jobs, "held", "invented")
    assert held["spec"]["suspend"] is True
    jobs.wait_started("held")
    assert names.HELD_WITH_PARENT not in jobs.get("held")["metadata"].get("labels", {})


def test_a_waiting_job_that_asks_for_fewer_pods_is_followed_and_starts(
    system: Installed,
) -> None:
    jobs = Jobs(system, quota=2)
    jobs.create(pods=5)
    workload = jobs.workload()
    jobs.workloads.wait(workload, "QuotaReserved", "False", "ExceedsMaxQuota")
    jobs.patch({"spec": {"parallelism": 2}})
    assert jobs.wait_started()["spec"]["parallelism"] == 2
    assert jobs.workload() == workload
    (asked,) = jobs.workloads.get(workload)["spec"]["podSets"]
    assert asked["count"] == 2


def test_a_waiting_job_can_move_to_another_queue(system: Installed) -> None:
    jobs = Jobs(system, quota=0)
    other = system.add_team(4)
    jobs.create()
    workload = jobs.workload()
    jobs.workloads.wait(workload, "QuotaReserved", "False", "ExceedsMaxQuota")
    system.add_local_queue(jobs.team, other, "other")
    jobs.patch({"metadata": {"labels": {names.QUEUE_LABEL: "other"}}})
    jobs.wait_started()
    assert jobs.workload() == workload
    found = jobs.workloads.get(workload)
    assert found["spec"]["queueName"] == "other"
    assert found["status"]["admission"]["clusterQueue"] == other


def test_a_running_job_cannot_move_to_another_queue(system: Installed) -> None:
    jobs = Jobs(system)
    jobs.create()
    jobs.wait_started()
    with pytest.raises(RestError) as refused:
        jobs.patch({"metadata": {"labels": {names.QUEUE_LABEL: "other"}}})
    assert "field is immutable" in refused.value.body


def test_a_job_may_start_with_fewer_pods_and_gets_its_parallelism_back(
    system: Installed,
) -> None:
    jobs = Jobs(system, quota=3)
    jobs.create(pods=5, metadata={"annotations": {names.JOB_MIN_PARALLELISM: "2"}})
    assert jobs.wait_started()["spec"]["parallelism"] == 3
    jobs.workloads.patch(jobs.workload(), {"active": False})
    waiting.until(
        lambda: jobs.is_suspended() and jobs.get()["spec"]["parallelism"] == 5,
        what="suspended with its own parallelism",
    )


def test_an_eviction_suspends_the_job_and_restores_its_template(system: Installed) -> None:
    jobs = Jobs(system)
    before = template(jobs.create())
    started = template(jobs.wait_started())
    assert started != before
    workload = jobs.workload()
    jobs.workloads.patch(workload, {"active": False})
    waiting.until(
        lambda: jobs.is_suspended() and template(jobs.get()) == before, what="as it was created"
    )
    jobs.workloads.wait(workload, "QuotaReserved", "False", "Deactivated")
    assert jobs.workloads.said(workload, "Requeued") == ("False", "Deactivated")
    assert "admission" not in jobs.workloads.get(workload)["status"]
    applied.wait_reserved(system, jobs.team, 0)

    jobs.workloads.patch(workload, {"active": True})
    assert template(jobs.wait_started()) == started


@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue"])
def test_a_drained_queue_suspends_its_jobs_and_its_restart_starts_them(
    system: Installed, kind: str
) -> None:
    jobs = Jobs(system)
    jobs.create()
    jobs.wait_started()
    queues = {
        "ClusterQueue": f"clusterqueues/{jobs.team}",
        "LocalQueue": f"namespaces/{jobs.team}/localqueues/default",
    }
    applied.stop(system, queues[kind], "HoldAndDrain")
    waiting.until(jobs.is_suspended, what="the Job suspended")
    workload = jobs.workload()
    jobs.workloads.wait(workload, "Requeued", "False", f"{kind}Stopped")
    applied.stop(system, queues[kind], "None")
    jobs.wait_started()
    assert jobs.workloads.said(workload, "Requeued") == ("True", f"{kind}Restarted")


def test_updates_of_a_check_reach_the_template_and_leave_it_with_the_eviction(
    system: Installed,
) -> None:
    check = Check(system, system.cluster.create_namespace("check"))
    rules = {"admissionChecks": [{"name": check.name}]}
    jobs = Jobs(system, admissionChecksStrategy=rules)
    before = template(jobs.create())
    workload = jobs.workload()
    jobs.workloads.wait(workload, "Admitted", "False", "UnsatisfiedAdmissionChecks")
    assert jobs.is_suspended()
    update = {
        "name": "main",
        "annotations": {"example.com/request": "r-1"},
        "nodeSelector": {"pool": "spot"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
    }
    check.answer(jobs.workloads, workload, "Ready", podSetUpdates=[update])
    found = template(jobs.wait_started())
    assert found["annotations"]["example.com/request"] == "r-1"
    assert found["nodeSelector"]["pool"] == "spot"
    assert "spot" in [one["key"] for one in found["tolerations"]]

    check.answer(jobs.workloads, workload, "Retry", "lost", podSetUpdates=[update])
    jobs.workloads.wait(workload, "Requeued", "True", "BackoffFinished")
    waiting.until(lambda: template(jobs.get()) == before, what="as it was created")
    assert jobs.is_suspended()


def test_a_rejected_check_keeps_the_job_suspended(system: Installed) -> None:
    check = Check(system, system.cluster.create_namespace("check"))
    rules = {"admissionChecks": [{"name": check.name}]}
    jobs = Jobs(system, admissionChecksStrategy=rules)
    jobs.create()
    workload = jobs.workload()
    jobs.workloads.wait(workload, "Admitted", "False", "UnsatisfiedAdmissionChecks")
    check.answer(jobs.workloads, workload, "Rejected", "never")
    jobs.workloads.wait(workload, "QuotaReserved", "False", "Deactivated")
    assert jobs.workloads.said(workload, "Evicted")[1] == "DeactivatedDueToAdmissionCheck"
    assert jobs.is_suspended()


def test_a_foreign_end_of_its_workload_is_obeyed(system: Installed) -> None:
    jobs = Jobs(system)
    jobs.create()
    jobs.wait_started()
    workload = jobs.workload()
    ended = applied.condition("Finished", "True", "Succeeded")
    jobs.workloads.say(workload, "kueue-job-controller-Finished", ended)
    applied.wait_reserved(system, jobs.team, 0)
    waiting.until(
        lambda: not jobs.workloads.get(workload)["metadata"].get("finalizers"), what="let go"
    )


def test_a_deleted_workload_stops_its_job_and_is_made_again(system: Installed) -> None:
    jobs = Jobs(system)
    jobs.create()
    jobs.wait_started()
    workload = jobs.workload()
    uid = jobs.workloads.get(workload)["metadata"]["uid"]
    jobs.workloads.delete(workload)

    def is_another() -> bool:
        with suppress(RestError):  # between the two there is none
            return bool(jobs.workloads.get(workload)["metadata"]["uid"] != uid)
        return False

    waiting.until(is_another, what="a new Workload")
    jobs.wait_started()


def test_a_deleted_job_takes_its_workload_along(system: Installed) -> None:
    jobs = Jobs(system)
    jobs.create()
    jobs.wait_started()
    workload = jobs.workload()
    system.api.delete(f"{jobs.path}/train", {"propagationPolicy": "Background"})
    waiting.until(lambda: not jobs.workloads.exists(workload), what="no Workload left")
    applied.wait_reserved(system, jobs.team, 0)


def test_the_value_of_an_edited_priority_class_reaches_a_running_jobs_workload(
    system: Installed,
) -> None:
    jobs = Jobs(system)
    path = f"{KUEUE}/workloadpriorityclasses"
    system.add_classes(**{jobs.team: 5})
    jobs.create(metadata={"labels": {names.PRIORITY_CLASS_LABEL: jobs.team}})
    jobs.wait_started()
    workload = jobs.workload()
    assert jobs.workloads.get(workload)["spec"]["priority"] == 5
    system.api.patch(f"{path}/{jobs.team}", {"value": 8})
    waiting.until(
        lambda: jobs.workloads.get(workload)["spec"]["priority"] == 8, what="the new value"
    )


def test_a_running_job_can_take_another_class_and_is_told_of_it(system: Installed) -> None:
    jobs = Jobs(system)
    high, low = f"{jobs.team}-high", f"{jobs.team}-low"
    system.add_classes(**{high: 9, low: 1})
    jobs.create(metadata={"labels": {names.PRIORITY_CLASS_LABEL: high}})
    jobs.wait_started()
    workload = jobs.workload()
    jobs.patch({"metadata": {"labels": {names.PRIORITY_CLASS_LABEL: low}}})
    spec = waiting.until(
        lambda: (
            found if (found := jobs.workloads.get(workload)["spec"])["priority"] == 1 else None
        ),
        what="the lower priority",
    )
    assert spec["priorityClassRef"]["name"] == low
    assert jobs.workloads.said(workload, "Admitted") == ("True", "Admitted")
    note = f"Updated workload priority class: {jobs.team}/{workload}"
    applied.wait_told(system, jobs.team, "Job", "UpdatedWorkload", note)


def test_a_second_workload_made_for_a_job_is_deleted(system: Installed) -> None:
    jobs = Jobs(system)
    jobs.create()
    jobs.wait_started()
    own = jobs.workloads.get(jobs.workload())
    owners = own["metadata"]["ownerReferences"]
    jobs.workloads.create("second", metadata={"ownerReferences": owners})
    waiting.until(lambda: not jobs.workloads.exists("second"), what="the second one gone")
    applied.wait_reserved(system, jobs.team, 2)
    assert jobs.workloads.get(jobs.workload())["metadata"]["uid"] == own["metadata"]["uid"]


def prebuilt(jobs: Jobs, count: int = 2) -> None:
    """Makes the Workload ``wl`` ask for as many pods of the Job ``train``, as it is stored."""
    spec = jobs.get()["spec"]["template"]["spec"]
    jobs.workloads.create("wl", count=count, pod_set={"pod": spec})


def test_a_job_waits_for_the_workload_it_names_and_runs_and_ends_with_it(
    system: Installed,
) -> None:
    jobs = Jobs(system)
    created = jobs.create(metadata={"annotations": {names.PREBUILT_WORKLOAD: "wl"}})
    note = f'Prebuilt workload "{jobs.team}/wl" not found'
    applied.wait_told(system, jobs.team, "Job", "PrebuiltWorkloadNotFound", note)
    assert jobs.is_suspended()
    assert system.api.get(jobs.workloads.path)["items"] == []
    prebuilt(jobs)
    found = template(jobs.wait_started())
    assert found["nodeSelector"] == {"nvidia.com/gpu.product": "A100"}
    assert found["annotations"] == {
        names.WORKLOAD_ANNOTATION: "wl",
        names.ADMITTED_DEVICES: "nvidia.com/gpu=1",
    }
    metadata = jobs.workloads.get("wl")["metadata"]
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Job", created["metadata"]["uid"])
    assert metadata["labels"][names.JOB_UID_LABEL] == created["metadata"]["uid"]
    applied.wait_reserved(system, jobs.team, 2)

    system.api.delete(f"{jobs.path}/train", {"propagationPolicy": "Background"})
    waiting.until(lambda: not jobs.workloads.exists("wl"), what="no Workload left")
    applied.wait_reserved(system, jobs.team, 0)


def test_a_named_workload_for_another_number_of_pods_ends_and_its_job_waits(
    system: Installed,
) -> None:
    jobs = Jobs(system)
    jobs.create(metadata={"labels": {names.PREBUILT_WORKLOAD: "wl"}})
    prebuilt(jobs, count=3)
    found = jobs.workloads.wait("wl", "Finished", "True", "OutOfSync")
    assert found["message"] == "The prebuilt workload is out of sync with its user job"
    applied.wait_reserved(system, jobs.team, 0)
    assert jobs.is_suspended()
    (asked,) = jobs.workloads.get("wl")["spec"]["podSets"]
    assert asked["count"] == 3
