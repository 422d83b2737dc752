"""Manifests and backups with the marks of an earlier admission, on a real control plane."""

import copy
from typing import Any

import pytest

from admission.base import names
from tests.builders.pods import make_pod
from tests.controlplane import waiting
from tests.controlplane.rest import Json
from tests.integration.installed import Installed

pytestmark = pytest.mark.controlplane

LABELS = {
    names.PODSET_LABEL: "main",
    names.LOCAL_QUEUE_NAME_LABEL: "other",
    names.CLUSTER_QUEUE_NAME_LABEL: "other",
}
ANNOTATIONS = {
    names.WORKLOAD_ANNOTATION: "pod-exported-12345",
    names.ROLE_HASH: "deadbeef",
    names.REQUESTER: "somebody",
}
RESTORED = ("labels", "annotations", "name", "namespace")


@pytest.fixture(scope="module")
def system(installation: Installed) -> Installed:
    return installation


def pods(system: Installed, team: str) -> list[Json]:
    found: list[Json] = system.api.get(f"/api/v1/namespaces/{team}/pods")["items"]
    return [one for one in found if not one["metadata"].get("deletionTimestamp")]


def test_an_exported_pod_waits_for_quota_of_its_own_and_starts(system: Installed) -> None:
    team = system.add_team(1)
    marks = {names.QUEUE_LABEL: "default", names.MANAGED_LABEL: "true", **LABELS}
    made = system.create_pod(team, "exported", labels=marks, annotations=ANNOTATIONS)
    assert not set(LABELS) & set(made["metadata"]["labels"])
    assert made["metadata"]["annotations"][names.REQUESTER] != "somebody"
    released = system.wait_released(team, "exported")
    assert released["metadata"]["labels"][names.CLUSTER_QUEUE_NAME_LABEL] == team


def test_an_exported_job_waits_for_quota_of_its_own_and_starts(system: Installed) -> None:
    team = system.add_team(1)
    template = {
        "metadata": {"labels": dict(LABELS), "annotations": dict(ANNOTATIONS)},
        "spec": {**make_pod(gpus=1)["spec"], "restartPolicy": "Never"},
    }
    path = f"/apis/batch/v1/namespaces/{team}/jobs"
    system.api.post(
        path,
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": "exported",
                "labels": {names.QUEUE_LABEL: "default"},
                "annotations": {names.REQUESTER: "somebody", names.INJECTED: "{}"},
            },
            "spec": {"suspend": False, "template": template},
        },
    )
    waiting.until(
        lambda: not system.api.get(f"{path}/exported")["spec"]["suspend"], what="the Job starts"
    )
    started = system.api.get(f"{path}/exported")["spec"]["template"]["metadata"]
    assert started["labels"][names.CLUSTER_QUEUE_NAME_LABEL] == team


def test_a_restored_deployment_runs_in_quota_of_its_own(whole_installation: Installed) -> None:
    system = whole_installation
    team = system.add_team(2)
    deployments = f"/apis/apps/v1/namespaces/{team}/deployments"
    sets = f"/apis/apps/v1/namespaces/{team}/replicasets"
    labels = {"app": "vel"}
    system.api.post(
        deployments,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "vel", "labels": {**labels, names.QUEUE_LABEL: "default"}},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": make_pod(gpus=1)["spec"],
                },
            },
        },
    )
    waiting.until(lambda: len(released(system, team)) == 2, what="both replicas released")
    saved = {
        f"/api/v1/namespaces/{team}/pods": [as_saved(one) for one in pods(system, team)],
        sets: [as_saved(one) for one in system.api.get(sets)["items"]],
        deployments: [as_saved(system.api.get(f"{deployments}/vel"))],
    }
    system.api.delete(f"{deployments}/vel", {"propagationPolicy": "Foreground"})
    for one in pods(system, team):
        system.delete_pod(team, one["metadata"]["name"])
    waiting.until(
        lambda: not pods(system, team) and not system.api.get(sets)["items"], what="all gone"
    )
    for path, documents in saved.items():
        for document in documents:
            system.api.post(path, document)
    waiting.until(
        lambda: len(released(system, team)) == 2 == len(pods(system, team)),
        what="both replicas run again",
    )


def released(system: Installed, team: str) -> list[Json]:
    return [one for one in pods(system, team) if not one["spec"].get("schedulingGates")]


def as_saved(document: Json) -> dict[str, Any]:
    """An object as a tool restores it: without owners, identity, status and node."""
    saved = copy.deepcopy(document)
    metadata = saved["metadata"]
    saved["metadata"] = {key: metadata[key] for key in RESTORED if key in metadata}
    saved.pop("status", None)
    saved["spec"].pop("nodeName", None)
    return saved


def test_the_marks_of_kueue_keep_no_pod_for_ever(system: Installed) -> None:
    team = system.add_team(1)
    labels = {names.MANAGED_LABEL: "true"}
    gates = (names.ADMISSION_GATE,)
    metadata = {"finalizers": [names.KUEUE_POD_FINALIZER]}
    system.create_pod(
        team,
        "gpu",
        labels={**labels, names.QUEUE_LABEL: "default"},
        metadata=metadata,
        gates=gates,
    )
    marks: dict[str, dict[str, Any]] = {
        "label": {"labels": labels},
        "gate": {"gates": gates},
        "both": {"labels": labels, "gates": gates},
    }
    for name, more in marks.items():
        made = system.create_pod(team, name, gpus=None, **more)
        assert "schedulingGates" not in made["spec"], name
        assert names.MANAGED_LABEL not in made["metadata"].get("labels", {}), name
    system.wait_released(team, "gpu")
    system.delete_pod(team, "gpu")
    waiting.until(
        lambda: all(one["metadata"]["name"] != "gpu" for one in pods(system, team)),
        what="the pod is gone",
    )


# ------------------------------------------------------------------------------- updates


def make_job(name: str, gpus: int) -> Json:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {names.QUEUE_LABEL: "default"}},
        "spec": {
            "suspend": False,
            "template": {"spec": {**make_pod(gpus=gpus)["spec"], "restartPolicy": "Never"}},
        },
    }


def test_a_job_that_is_applied_again_while_it_waits_never_starts(system: Installed) -> None:
    team = system.add_team(1)
    path = f"/apis/batch/v1/namespaces/{team}/jobs"
    system.api.post(path, make_job("reapply", 2))
    said = waiting.until(
        lambda: system.api.get(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{team}/workloads")[
            "items"
        ],
        what="its Workload",
    )
    assert said
    for _ in range(2):
        patched = system.api.patch(f"{path}/reapply", {"spec": {"suspend": False}})
        assert patched["spec"]["suspend"] is True
    queue = f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{team}"
    groups = system.api.get(queue)["spec"]["resourceGroups"]
    groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = 2
    system.api.patch(queue, {"spec": {"resourceGroups": groups}})
    waiting.until(
        lambda: not system.api.get(f"{path}/reapply")["spec"]["suspend"], what="the Job starts"
    )


def test_a_pod_whose_labels_are_all_replaced_keeps_its_quota(system: Installed) -> None:
    team = system.add_team(1)
    system.create_pod(team, "synced", labels={"app": "a"})
    path = f"/api/v1/namespaces/{team}/pods"
    before = system.wait_released(team, "synced")["metadata"]["labels"]
    system.create_pod(team, "waits")  # it may be admitted first if both come at once
    for name in ("synced", "waits"):
        found = system.api.get(f"{path}/{name}")
        found["metadata"]["labels"] = {"app": "b"}
        del found["metadata"]["resourceVersion"]  # whatever its status says meanwhile
        found["spec"].pop("schedulingGates", None)
        after = system.api.put(f"{path}/{name}", found)
        assert after["metadata"]["labels"]["app"] == "b"
        assert after["metadata"]["labels"][names.MANAGED_LABEL] == "true"
    marked = system.api.get(f"{path}/synced")["metadata"]["labels"]
    assert marked == {**before, "app": "b"}
    assert system.is_gated(team, "waits")


def test_a_manifest_of_kueue_that_is_applied_again_holds_no_pod(system: Installed) -> None:
    team = system.add_team(1)
    system.create_pod(team, "kueue")
    system.wait_released(team, "kueue")
    path = f"/api/v1/namespaces/{team}/pods/kueue"
    brought = {"metadata": {"finalizers": [names.KUEUE_POD_FINALIZER]}}
    assert not system.api.patch(path, brought)["metadata"].get("finalizers")
    plain = make_pod("cpu", requests={"cpu": "1"})
    system.api.post(f"/api/v1/namespaces/{team}/pods", plain)
    marks = {"metadata": {"labels": {names.MANAGED_LABEL: "true"}}}
    after = system.api.patch(f"/api/v1/namespaces/{team}/pods/cpu", marks)
    assert names.MANAGED_LABEL not in after["metadata"].get("labels", {})
