"""An elastic Job on a whole cluster: it grows and shrinks while its pods run, within quota."""

from typing import Any

import pytest

from admission.base import names
from tests.controlplane import waiting
from tests.controlplane.rest import Rest, RestError
from tests.e2e import objects, pools
from tests.e2e.objects import Json
from tests.e2e.pools import Pool, condition
from tests.e2e.queues import usage
from tests.e2e.test_jobs import BATCH, LONG, job_of, make_ready, running
from tests.integration.installed import KUEUE, Installed

EXPECTED_ERRORS = pools.REMOVED

pytestmark = pytest.mark.controlplane

RBAC = "apis/rbac.authorization.k8s.io/v1"


def create_elastic(team: Pool, name: str, pods: int) -> Json:
    job = objects.make_job(name, pods, objects.make_pod_spec(1), run_for=LONG)
    job["metadata"]["annotations"] = {names.ELASTIC_JOB: "true"}
    job["spec"]["completions"] = 100
    return team.create("jobs", job, api=BATCH)


def slices(team: Pool) -> dict[str, str]:
    """Workloads by their numbers of pods: why one has ended, or whether it is admitted."""
    found = team.cluster.api.get(f"{KUEUE}/namespaces/{team.namespace}/workloads")["items"]
    return {
        str(one["spec"]["podSets"][0]["count"]): condition(one, "Finished").get("reason")
        or condition(one, "Admitted").get("status", "waits")
        for one in found
    }


def editor_of(team: Pool) -> Rest:
    """A client of somebody with the role ``edit`` in the namespace."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    body: dict[str, Any] = {
        "metadata": {"name": "editor"},
        "roleRef": role,
        "subjects": [{"kind": "User", "name": "editor"}],
    }
    team.create("rolebindings", body, api=RBAC)
    return team.cluster.client(team.cluster.kubeconfig("editor"))


def refuses(editor: Rest, path: str, change: Json) -> str:
    with pytest.raises(RestError) as refused:
        editor.patch(path, change)
    assert refused.value.status in {403, 422}, refused.value
    return str(refused.value)


def test_a_job_grows_and_shrinks_while_it_runs(system: Installed, team: Pool) -> None:
    make_ready(system, team, quota=4)
    editor = editor_of(team)
    path = team.path("jobs", "train", api=BATCH)

    def scale(pods: int) -> None:
        waiting.until(lambda: editor.patch(path, {"spec": {"parallelism": pods}}), what="scaled")

    created = create_elastic(team, "train", 2)
    gates = created["spec"]["template"]["spec"]["schedulingGates"]
    assert gates == [{"name": names.ELASTIC_JOB_GATE}]
    waiting.until(lambda: len(running(team, "train")) == 2, what="two pods run")
    first = {pod["metadata"]["uid"] for pod in running(team, "train")}

    scale(4)
    waiting.until(lambda: len(running(team, "train")) == 4, what="four pods run")
    assert first < {pod["metadata"]["uid"] for pod in running(team, "train")}
    waiting.until(
        lambda: slices(team) == {"2": "WorkloadSliceReplaced", "4": "True"}, what="replaced"
    )

    scale(6)
    waiting.until(lambda: "6" in slices(team), what="the next slice waits")
    waiting.until(lambda: len(team.pods()) == 6, what="six pods are there")
    assert len(running(team, "train")) == 4
    gated = next(pod for pod in team.pods() if pod["spec"].get("schedulingGates"))
    pod_path = team.path("pods", gated["metadata"]["name"])
    said = refuses(editor, pod_path, {"spec": {"schedulingGates": []}})
    assert "Only the controller may take off the gate kueue.x-k8s.io/elastic-job" in said
    without = {"metadata": {"annotations": {names.ELASTIC_JOB: None}}}
    assert "field is immutable" in refuses(editor, path, without)
    template: Json = {"spec": {"template": {"spec": {"schedulingGates": []}}}}
    assert "immutable" in refuses(editor, path, template)
    with pytest.raises(RestError):
        editor.post(f"{KUEUE}/namespaces/{team.namespace}/workloads", _forged(team))
    assert len(running(team, "train")) == 4

    scale(1)
    waiting.until(lambda: len(team.pods()) == 1, what="one pod is left")
    waiting.until(lambda: usage(system, team) == {"1"}, what="the quota of the others is free")
    assert slices(team) == {"2": "WorkloadSliceReplaced", "1": "True"}
    scale(3)
    waiting.until(lambda: len(running(team, "train")) == 3, what="three pods run")
    assert job_of(team, "train")["spec"]["suspend"] is False


def _forged(team: Pool) -> Json:
    found = team.cluster.api.get(f"{KUEUE}/namespaces/{team.namespace}/workloads")["items"][0]
    return {
        "apiVersion": found["apiVersion"],
        "kind": "Workload",
        "metadata": {
            "name": "mine",
            "annotations": {
                names.SLICE_REPLACEMENT: f"{team.namespace}/{found['metadata']['name']}"
            },
        },
        "spec": found["spec"],
    }
