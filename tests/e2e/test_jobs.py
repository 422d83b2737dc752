"""Jobs on a whole cluster: the Job controller makes their pods, quota decides when they run."""

from collections.abc import Mapping
from typing import Any

import pytest

from admission.base import names
from tests.builders.pods import make_pod
from tests.controlplane import nodes, waiting
from tests.controlplane.rest import RestError
from tests.e2e import objects, pools
from tests.e2e.objects import Json
from tests.e2e.pools import Pool, condition
from tests.e2e.queues import add_flavor, add_queue, usage
from tests.integration.installed import KUEUE, Installed

EXPECTED_ERRORS = pools.REMOVED

pytestmark = pytest.mark.controlplane

A100 = "NVIDIA-A100-SXM4-80GB"
BATCH = "apis/batch/v1"
LONG, SHORT = "1h", "300ms"
SLICE = "nvidia.com/mig-1g.10gb"


def make_ready(system: Installed, team: Pool, quota: int, resource: str = "nvidia.com/gpu") -> str:
    """A node and a default queue with that quota; the node's name."""
    mig = {"1g.10gb": 7} if resource == SLICE else {}
    node = team.add_node(product=A100, gpus=0 if mig else 16, mig=mig, taints=[nodes.GPU_TAINT])
    add_queue(system, team, {add_flavor(system, team, "a100", A100): quota}, resource)
    return node


def create_job(
    team: Pool,
    name: str,
    pods: int,
    *,
    run_for: str = LONG,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    gpus: int = 1,
) -> Json:
    """A Job as a user writes it: nothing in it tells of queues unless said."""
    job = objects.make_job(name, pods, objects.make_pod_spec(gpus), run_for=run_for)
    job["metadata"] |= {"labels": dict(labels or {}), "annotations": dict(annotations or {})}
    return team.create("jobs", job, api=BATCH)


def job_of(team: Pool, name: str) -> Json:
    return team.cluster.api.get(team.path("jobs", name, api=BATCH))


def is_suspended(team: Pool, name: str) -> bool:
    return bool(job_of(team, name)["spec"].get("suspend"))


def running(team: Pool, name: str) -> list[Json]:
    """Pods of a Job that run."""
    return [p for p in team.pods("Running") if p["metadata"]["labels"].get("app") == name]


def is_complete(team: Pool, name: str) -> bool:
    return condition(job_of(team, name), "Complete").get("status") == "True"


def workloads(team: Pool) -> dict[str, Json]:
    """The namespace's Workloads by the name of their owner."""
    found = team.cluster.api.get(f"{KUEUE}/namespaces/{team.namespace}/workloads")["items"]
    return {one["metadata"]["ownerReferences"][0]["name"]: one for one in found}


def await_waiting(team: Pool, name: str) -> None:
    """Waits until the Job's Workload says that it waits for quota."""
    waiting.until(
        lambda: condition(workloads(team).get(name, {}), "QuotaReserved").get("status") == "False",
        what=f"the Workload of {name} says why it waits",
    )


def test_a_job_over_quota_waits_suspended_and_starts_when_quota_returns(
    system: Installed, team: Pool
) -> None:
    node = make_ready(system, team, quota=3)
    create_job(team, "first", 2)
    waiting.until(lambda: len(running(team, "first")) == 2, what="the first Job runs")
    create_job(team, "second", 2, run_for=SHORT)
    await_waiting(team, "second")
    assert is_suspended(team, "second")
    assert len(team.pods()) == 2
    assert set(workloads(team)) == {"first", "second"}

    team.cluster.api.delete(
        team.path("jobs", "first", api=BATCH), {"propagationPolicy": "Background"}
    )
    waiting.until(lambda: is_complete(team, "second"), what="the second Job is complete")
    done = [pod for pod in team.pods("Succeeded") if pod["metadata"]["labels"]["app"] == "second"]
    assert {pod["spec"]["nodeName"] for pod in done} == {node}
    assert not any(names.MANAGED_LABEL in pod["metadata"]["labels"] for pod in done)
    waiting.until(lambda: usage(system, team) == {"0"}, what="the quota is free")


def test_a_job_starts_with_the_pods_that_fit(system: Installed, team: Pool) -> None:
    make_ready(system, team, quota=2)
    least = {names.JOB_MIN_PARALLELISM: "1"}
    create_job(team, "train", 5, run_for=SHORT, annotations=least)
    seen: list[int] = []

    def is_done() -> bool:
        seen.append(len(team.pods("Running")))
        return is_complete(team, "train")

    waiting.until(is_done, what="the Job is complete")
    assert max(seen) <= 2
    assert len(team.pods("Succeeded")) == 5
    assert job_of(team, "train")["spec"]["parallelism"] == 2


def test_a_more_important_job_suspends_another_which_runs_again_later(
    system: Installed, team: Pool
) -> None:
    make_ready(system, team, quota=2)
    preemption = {"preemption": {"withinClusterQueue": "LowerPriority"}}
    system.api.patch(f"{KUEUE}/clusterqueues/{team.name}", {"spec": preemption})
    create_job(team, "low", 2, labels=priority(system, team, "low", 1))
    waiting.until(lambda: len(running(team, "low")) == 2, what="the first Job runs")
    before = job_of(team, "low")["spec"]["template"]

    create_job(team, "high", 2, labels=priority(system, team, "high", 9))
    waiting.until(lambda: len(running(team, "high")) == 2, what="the important Job runs")
    waiting.until(lambda: not is_injected(team, "low"), what="the template is as it was")
    assert is_suspended(team, "low")
    # The Job controller lets go of pods that it has deleted a moment later.
    waiting.until(lambda: running(team, "low") == [], what="the first Job's pods are gone")
    assert condition(workloads(team)["low"], "Preempted").get("status") == "True"

    for pod in running(team, "high"):
        succeed(team, pod)
    waiting.until(lambda: is_complete(team, "high"), what="the important Job is complete")
    waiting.until(lambda: len(running(team, "low")) == 2, what="the first Job runs again")
    assert job_of(team, "low")["spec"]["template"] == before


def test_a_job_gives_back_what_its_last_pods_do_not_need(system: Installed, team: Pool) -> None:
    make_ready(system, team, quota=4)
    create_job(team, "train", 4)
    waiting.until(lambda: len(running(team, "train")) == 4, what="all pods run")
    for pod in running(team, "train")[:3]:
        succeed(team, pod)
    waiting.until(lambda: usage(system, team) == {"1"}, what="three GPUs are free")
    succeed(team, running(team, "train")[0])
    waiting.until(lambda: usage(system, team) == {"0"}, what="all GPUs are free")


def test_a_failed_job_frees_its_quota(system: Installed, team: Pool) -> None:
    make_ready(system, team, quota=2)
    job = objects.make_job("train", 1, objects.make_pod_spec(1), run_for=LONG)
    job["spec"]["activeDeadlineSeconds"] = 1
    team.create("jobs", job, api=BATCH)
    waiting.until(
        lambda: condition(workloads(team).get("train", {}), "Finished").get("reason") == "Failed",
        what="the Workload has failed",
    )
    waiting.until(lambda: usage(system, team) == {"0"}, what="the quota is free")
    waiting.until(
        lambda: "finalizers" not in workloads(team)["train"]["metadata"], what="no finalizer"
    )


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_a_deleted_job_leaves_nothing(system: Installed, team: Pool, propagation: str) -> None:
    make_ready(system, team, quota=2)
    create_job(team, "train", 2)
    waiting.until(lambda: len(running(team, "train")) == 2, what="the Job runs")
    create_job(team, "waits", 2)
    await_waiting(team, "waits")
    for name in ("train", "waits"):
        path = team.path("jobs", name, api=BATCH)
        team.cluster.api.delete(path, {"propagationPolicy": propagation})
    waiting.until(lambda: not workloads(team) and not team.pods(), what="nothing is left")
    waiting.until(lambda: usage(system, team) == {"0"}, what="the quota is free")


def test_a_namespace_with_jobs_can_be_deleted(system: Installed, team: Pool) -> None:
    make_ready(system, team, quota=2)
    create_job(team, "train", 2)  # of two that are created in one second, either may be first
    waiting.until(lambda: len(running(team, "train")) == 2, what="the Job runs")
    create_job(team, "waits", 2)
    await_waiting(team, "waits")
    team.delete_namespace()
    waiting.until(lambda: usage(system, team) == {"0"}, what="the quota is free")


def test_the_pods_of_a_job_have_the_slices_that_the_job_asked_for(
    system: Installed, team: Pool
) -> None:
    node = make_ready(system, team, quota=2, resource=SLICE)
    job = objects.make_job("train", 2, objects.make_pod_spec(1), run_for=LONG)
    template = job["spec"]["template"]["metadata"]
    template["annotations"][names.MIG_PROFILE] = "1g.10gb"
    team.create("jobs", job, api=BATCH)
    waiting.until(lambda: len(running(team, "train")) == 2, what="both pods run")
    for pod in running(team, "train"):
        assert pod["spec"]["nodeName"] == node
        assert pod["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1", SLICE: "1"}


def test_a_job_that_starts_itself_is_suspended_again(system: Installed, team: Pool) -> None:
    make_ready(system, team, quota=1)
    create_job(team, "train", 2)
    await_waiting(team, "train")
    path = team.path("jobs", "train", api=BATCH)
    system.api.patch(path, {"spec": {"suspend": False}})
    waiting.until(lambda: is_suspended(team, "train"), what="the Job is suspended")
    waiting.until(lambda: not team.pods(), what="its pods are gone")


def test_jobs_without_gpus_are_nobodys_business(system: Installed, team: Pool) -> None:
    make_ready(system, team, quota=1)
    spec = objects.make_pod_spec(1, tolerations=[{"operator": "Exists"}])
    spec["containers"][0]["resources"] = {}
    team.create("jobs", objects.make_job("plain", 2, spec, run_for=SHORT), api=BATCH)
    waiting.until(lambda: is_complete(team, "plain"), what="the Job is complete")
    assert workloads(team) == {}


def test_a_mark_of_admission_opens_no_way_around_the_queue(system: Installed, team: Pool) -> None:
    """Neither on a Job outside the queues, nor on a pod that names a Job as its owner."""
    make_ready(system, team, quota=1)
    mark = {names.WORKLOAD_ANNOTATION: "job-x-12345"}
    job = objects.make_job("train", 1, objects.make_pod_spec(1), run_for=LONG)
    job["spec"]["template"]["metadata"]["annotations"] |= mark
    job["spec"]["template"]["metadata"]["labels"][names.QUEUE_LABEL] = "default"
    job["metadata"]["labels"] = {"app": "train"}  # else the template's labels become the Job's
    made = team.create("jobs", job, api=BATCH)
    assert names.WORKLOAD_ANNOTATION not in made["spec"]["template"]["metadata"]["annotations"]
    path = team.path("jobs", "train", api=BATCH)
    system.api.patch(path, {"spec": {"suspend": True}})
    # Until the Job controller has taken the start back, the API server itself refuses any change.
    waiting.until(
        lambda: "startTime" not in job_of(team, "train")["status"], what="a Job that has not begun"
    )
    with pytest.raises(RestError, match="is set when the Job is admitted"):
        system.api.patch(path, {"spec": {"template": {"metadata": {"annotations": mark}}}})

    pod = make_pod("forged", **objects.make_pod_spec(1))
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True}
    pod["metadata"] |= {
        "annotations": mark,
        "ownerReferences": [{**owner, "uid": made["metadata"]["uid"]}],
    }
    assert team.create("pods", pod)["spec"]["schedulingGates"]
    system.delete_pod(team.namespace, "forged")


def is_injected(team: Pool, name: str) -> bool:
    metadata = job_of(team, name)["spec"]["template"]["metadata"]
    return names.WORKLOAD_ANNOTATION in metadata.get("annotations", {})


def priority(system: Installed, team: Pool, name: str, value: int) -> dict[str, str]:
    """The label of a new WorkloadPriorityClass."""
    full = f"{team.name}-{name}"
    system.add_classes(**{full: value})
    return {names.PRIORITY_CLASS_LABEL: full}


def succeed(team: Pool, pod: Json) -> None:
    """Ends a pod as its kubelet would."""
    done: dict[str, Any] = {"status": {"phase": "Succeeded"}}
    team.cluster.api.patch(f"{team.path('pods', pod['metadata']['name'])}/status", done)
