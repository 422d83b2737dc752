"""A user with the role `edit` uses no reservation twice, on a whole cluster.

What is held is judged from the pods that nodes run, as the API server shows them.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import pytest

from admission.base import names
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.builders.queues import make_class
from tests.controlplane import waiting
from tests.controlplane.rest import MERGE, Rest, RestError
from tests.integration import applied
from tests.integration.another_webhook import CONTAINER, another_webhook
from tests.integration.applied import Json
from tests.integration.installed import KUEUE, Installed
from tests.integration.teams import Team, add_editor
from tests.integration.test_owners import allow

pytestmark = pytest.mark.controlplane

LONG = {"controlplane.test/run-for": "1h"}


@dataclass(frozen=True)
class Place:
    """An installation, and one with the role `edit` in all namespaces."""

    installed: Installed
    editor: Rest


@pytest.fixture(scope="module")
def place(
    whole_installation: Installed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    system = whole_installation
    system.cluster.add_gpu_node("gpus", gpus=100, labels={"nvidia.com/gpu.product": "A100"})
    with another_webhook(system.api, tmp_path_factory.mktemp("another")):
        yield Place(system, add_editor(system))


def gpus_on_nodes(team: Team) -> int:
    """The GPUs of the pods of a namespace that are bound and have not ended."""
    return sum(
        int(container.get("resources", {}).get("requests", {}).get(names.GPU_RESOURCE, 0))
        for pod in team.listed().values()
        if pod["spec"].get("nodeName") and pod["status"]["phase"] not in {"Succeeded", "Failed"}
        for container in pod["spec"]["containers"]
    )


def wait_decided(team: Team) -> None:
    """Waits until what came before is decided: a pod of another queue that came later runs."""
    other = Team(team.system, team.editor, quota=1)
    other.editor.post(other.pods, make_pod("probe", annotations=LONG, gpus=1))
    other.wait_running("probe")


def add_group(team: Team, size: int = 4) -> list[str]:
    annotations = {names.POD_GROUP_TOTAL_COUNT: str(size), **LONG}
    made = [f"gang-{number}" for number in range(size)]
    for name in made:
        labels = {names.POD_GROUP_NAME: "gang"}
        pod = make_pod(name, labels=labels, annotations=annotations, gpus=1)
        team.editor.post(team.pods, {**pod, "spec": {**pod["spec"], "restartPolicy": "Never"}})
    return made


def add_job(
    team: Team, name: str, pods: int, pod: dict[str, Any] | None = None, **job: Any
) -> None:
    more = dict(pod or {})
    annotations = {**LONG, **more.pop("annotations", {})}
    path = f"/apis/batch/v1/namespaces/{team.name}/jobs"
    made = make_job(name, pods, gpus=1, pod={"annotations": annotations, **more}, **job)
    team.editor.post(path, made)


def sidecar(**amounts: str) -> dict[str, str]:
    """The annotation of a pod to which another webhook adds a container."""
    stated = {"limits": amounts, "requests": amounts}
    return {CONTAINER: json.dumps({"name": "side", "image": "x", "resources": stated})}


def used(team: Team) -> dict[str, str]:
    """What the ClusterQueue says is used, by resource."""
    path = f"{KUEUE}/clusterqueues/{team.name}"
    flavors = team.api.get(path).get("status", {}).get("flavorsUsage", [])
    return {one["name"]: str(one["total"]) for flavor in flavors for one in flavor["resources"]}


def workload(team: Team, name: str) -> Json:
    found: Json = team.api.get(f"{team.workloads}/{name}")
    return found


def test_the_workload_of_a_group_is_not_adopted_by_a_job_that_names_it(place: Place) -> None:
    team = Team(place.installed, place.editor)
    group = add_group(team)
    team.wait_running(*group)
    add_job(team, "thief", 4, annotations={names.PREBUILT_WORKLOAD: "gang"})
    single = {names.PREBUILT_WORKLOAD: "gang", **LONG}
    team.editor.post(team.pods, make_pod("single", annotations=single, gpus=1))
    waiting.until(
        lambda: place.installed.condition(team.name, "single"), what="the pod says why it waits"
    )
    wait_decided(team)
    assert gpus_on_nodes(team) == 4
    found = workload(team, "gang")
    assert not any(one.get("controller") for one in found["metadata"]["ownerReferences"])
    told = {one["type"]: one["status"] for one in found["status"]["conditions"]}
    assert (told["Admitted"], told.get("Finished")) == ("True", None)


def test_a_pod_of_an_admitted_job_gets_no_gpus_that_another_webhook_adds(place: Place) -> None:
    team = Team(place.installed, place.editor)
    add_job(team, "train", 2, pod={"annotations": sidecar(**{names.GPU_RESOURCE: "2"})})
    applied.wait_told(place.installed, team.name, "Job", "FailedCreate")
    wait_decided(team)
    assert gpus_on_nodes(team) == 0
    assert team.listed() == {}


def test_a_pod_of_an_admitted_job_gets_no_gpus_from_a_limit_range_made_later(
    place: Place,
) -> None:
    team = Team(place.installed, place.editor)
    helper = {"name": "helper", "image": "x"}
    main = make_pod("x", gpus=1)["spec"]["containers"][0]
    add_job(team, "train", 1, pod={"containers": [main, helper]})
    waiting.until(lambda: gpus_on_nodes(team) == 1, what="the pod of the Job runs")
    limits = {"type": "Container", "default": {names.GPU_RESOURCE: "2"}}
    path = f"/api/v1/namespaces/{team.name}/limitranges"
    team.api.post(path, {"metadata": {"name": "later"}, "spec": {"limits": [limits]}})
    (name,) = team.listed()
    team.editor.delete(f"{team.pods}/{name}", {"gracePeriodSeconds": 0})
    applied.wait_told(place.installed, team.name, "Job", "FailedCreate")
    assert gpus_on_nodes(team) <= 1


def test_cpu_that_another_webhook_adds_to_pods_of_an_admitted_job_is_charged(
    place: Place,
) -> None:
    team = Team(place.installed, place.editor)
    path = f"{KUEUE}/clusterqueues/{team.name}"
    quotas = [
        {"name": name, "nominalQuota": amount}
        for name, amount in ((names.GPU_RESOURCE, 4), ("cpu", 8), ("memory", "64Gi"))
    ]
    group = {
        "coveredResources": [one["name"] for one in quotas],
        "flavors": [{"name": team.name, "resources": quotas}],
    }
    team.api.patch(path, {"spec": {"resourceGroups": [group]}})
    asked = {"requests": {"cpu": "1", "memory": "1Gi"}}
    add_job(team, "mesh", 1, pod={**asked, "annotations": sidecar(cpu="2", memory="1Gi")})
    waiting.until(lambda: gpus_on_nodes(team) == 1, what="the pod of the Job runs")
    wanted = {names.GPU_RESOURCE: "1", "cpu": "3", "memory": "2Gi"}
    waiting.until(lambda: used(team) == wanted, what=f"the queue is charged for {wanted}")
    add_job(team, "next", 1, pod={"requests": {"cpu": "6", "memory": "1Gi"}})
    wait_decided(team)
    assert gpus_on_nodes(team) == 1
    assert used(team) == wanted


# -------------------------------------------------------------- pods that their owner has left


def preempting(place: Place) -> Team:
    """A namespace with quota for four GPUs in whose queue higher priorities preempt."""
    team = Team(place.installed, place.editor)
    path = f"{KUEUE}/clusterqueues/{team.name}"
    team.api.patch(path, {"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}})
    return team


def leave_pods(team: Team, name: str, plural: str, group: str, count: int) -> set[str]:
    """Deletes an owner without its pods; their names, once each is charged without it."""
    waiting.until(lambda: gpus_on_nodes(team) == count, what="its pods run")
    path = f"/apis/{group}/v1/namespaces/{team.name}/{plural}/{name}?propagationPolicy=Orphan"
    team.editor.delete(path)
    left = set(team.listed())
    waiting.until(
        lambda: not any("ownerReferences" in one["metadata"] for one in team.listed().values()),
        what="nothing owns the pods",
    )
    return left


def urgent(team: Team, gpus: int = 4) -> None:
    """A pod with a higher priority than others, which needs the quota of the namespace."""
    name = f"urgent-{team.name}"
    team.api.post(f"{KUEUE}/workloadpriorityclasses", make_class(name, 1000))
    labels = {names.PRIORITY_CLASS_LABEL: name}
    team.editor.post(team.pods, make_pod("urgent", labels=labels, annotations=LONG, gpus=gpus))


def test_pods_that_a_job_leaves_are_preempted_by_a_higher_priority(place: Place) -> None:
    team = preempting(place)
    add_job(team, "train", 4)
    left = leave_pods(team, "train", "jobs", "batch", 4)
    waiting.until(
        lambda: {
            one["metadata"]["ownerReferences"][0]["name"]
            for one in team.api.get(team.workloads)["items"]
            if one["metadata"].get("ownerReferences")
        } == left,
        what="each pod has a Workload of its own",
    )  # fmt: skip
    urgent(team)
    team.wait_running("urgent")
    assert gpus_on_nodes(team) == 4


def test_pods_that_a_stateful_set_leaves_are_preempted_by_a_higher_priority(place: Place) -> None:
    team = preempting(place)
    pod = make_pod("x", annotations=LONG, gpus=1)
    template = {
        "metadata": {"labels": {"app": "serve"}, "annotations": LONG},
        "spec": {"containers": pod["spec"]["containers"]},
    }
    document = {
        "metadata": {"name": "serve", "labels": {names.QUEUE_LABEL: "default"}},
        "spec": {
            "replicas": 4,
            "podManagementPolicy": "Parallel",
            "serviceName": "serve",
            "selector": {"matchLabels": {"app": "serve"}},
            "template": template,
        },
    }
    team.editor.post(f"/apis/apps/v1/namespaces/{team.name}/statefulsets", document)
    leave_pods(team, "serve", "statefulsets", "apps", 4)
    urgent(team)
    team.wait_running("urgent")
    assert gpus_on_nodes(team) == 4


def test_pods_that_a_job_leaves_are_drained_with_their_queue(place: Place) -> None:
    team = preempting(place)
    add_job(team, "train", 2)
    leave_pods(team, "train", "jobs", "batch", 2)
    path = f"{KUEUE}/clusterqueues/{team.name}"
    team.api.patch(path, {"spec": {"stopPolicy": "HoldAndDrain"}})
    waiting.until(lambda: gpus_on_nodes(team) == 0, what="the pods are gone")


def test_pods_that_a_job_leaves_may_run_no_longer_than_it_might(place: Place) -> None:
    team = preempting(place)
    add_job(team, "train", 2, labels={names.MAX_EXEC_TIME_LABEL: "3600"})
    left = leave_pods(team, "train", "jobs", "batch", 2)
    waiting.until(
        lambda: {
            workload["metadata"]["ownerReferences"][0]["name"]
            for workload in team.api.get(team.workloads)["items"]
            if workload["metadata"].get("ownerReferences")
            and workload["spec"].get("maximumExecutionTimeSeconds") == 3600
        } == left,
        what="the Workload of each pod has the limit of the Job",
    )  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"ownerReferences": None}, id="owner"),
        pytest.param({"labels": {"batch.kubernetes.io/controller-uid": "x"}}, id="label"),
        pytest.param({"labels": {"batch.kubernetes.io/controller-uid": None}}, id="no label"),
    ],
)
def test_nobody_takes_a_pod_from_its_job_so_that_it_makes_another(
    place: Place, change: dict[str, Any]
) -> None:
    team = preempting(place)
    add_job(team, "train", 4)
    waiting.until(lambda: gpus_on_nodes(team) == 4, what="the pods of the Job run")
    name = min(team.listed())
    with pytest.raises(RestError) as refused:
        team.editor.patch(f"{team.pods}/{name}", {"metadata": change})
    assert "would make another one in its place" in str(refused.value)
    assert gpus_on_nodes(team) == 4


def test_a_pod_of_a_job_that_runs_may_get_another_label(place: Place) -> None:
    team = preempting(place)
    add_job(team, "train", 1)
    waiting.until(lambda: gpus_on_nodes(team) == 1, what="the pod of the Job runs")
    (name,) = team.listed()
    team.editor.patch(f"{team.pods}/{name}", {"metadata": {"labels": {"more": "x"}}})
    assert team.listed()[name]["metadata"]["labels"]["more"] == "x"


def test_who_starts_a_waiting_job_in_the_name_of_our_field_manager_gets_no_gpus(
    place: Place,
) -> None:
    team = preempting(place)
    add_job(team, "waits", 8)
    path = f"/apis/batch/v1/namespaces/{team.name}/jobs/waits?fieldManager={names.FIELD_MANAGER}"
    with contextlib.suppress(RestError):
        team.editor.patch(path, {"spec": {"suspend": False}})
    wait_decided(team)
    assert gpus_on_nodes(team) == 0


def test_who_lets_a_waiting_pod_go_in_the_name_of_our_field_manager_is_refused(
    place: Place,
) -> None:
    team = preempting(place)
    team.editor.post(team.pods, make_pod("waits", annotations=LONG, gpus=8))
    path = f"{team.pods}/waits?fieldManager={names.FIELD_MANAGER}"
    unmarked: dict[str, Any] = {"metadata": {"labels": {names.MANAGED_LABEL: None}}}
    ungated: dict[str, Any] = {"spec": {"schedulingGates": []}}
    for change in ({**unmarked, **ungated}, unmarked, ungated):
        with pytest.raises(RestError) as refused:
            team.editor.patch(path, change, MERGE)
        assert refused.value.status == HTTPStatus.FORBIDDEN
    wait_decided(team)
    assert gpus_on_nodes(team) == 0


# ------------------------------------------------------------------- makers of kinds not served


def test_a_maker_of_a_kind_that_is_not_served_gets_no_gpus_without_quota(place: Place) -> None:
    team = preempting(place)
    maker = allow(place.installed.cluster, "system:serviceaccount:ray-system:kuberay-operator", "")
    place.installed.cluster.wait_for_roles()
    document = make_pod("forged", gpus=8, annotations={names.WORKLOAD_ANNOTATION: "invented"})
    document["metadata"]["labels"] = {names.PODSET_LABEL: "head"}
    document["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "ray", "uid": "invented",
            "controller": True,
        }
    ]  # fmt: skip
    made = maker.post(team.pods, document)
    assert made["spec"]["schedulingGates"] == [{"name": names.ADMISSION_GATE}]
    assert names.PODSET_LABEL not in made["metadata"]["labels"]
    assert names.WORKLOAD_ANNOTATION not in made["metadata"].get("annotations", {})
    wait_decided(team)
    assert gpus_on_nodes(team) == 0
