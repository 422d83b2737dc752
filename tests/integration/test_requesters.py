"""Who asked for what is queued is the user who created it, whatever an editor writes.

Judged from the annotations that the API server shows.
"""

import copy
from typing import Any

import pytest

from admission.base import names
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod, template_of
from tests.builders.workloads import make_workload
from tests.controlplane import waiting
from tests.controlplane.rest import Rest, RestError
from tests.integration import teams
from tests.integration.applied import Json
from tests.integration.installed import Installed
from tests.integration.teams import Team

pytestmark = pytest.mark.controlplane

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ANOTHER = {names.REQUESTER: "somebody-else"}


@pytest.fixture(scope="module")
def system(whole_installation: Installed) -> Installed:
    cluster = whole_installation.cluster
    cluster.add_gpu_node("gpus", gpus=50, labels={"nvidia.com/gpu.product": "A100"})
    return whole_installation


@pytest.fixture(scope="module")
def editor(system: Installed) -> Rest:
    """One with the role ``edit`` who may write Workloads, and not their status."""
    verbs = ["create", "get", "list", "patch", "update"]
    rule = {"apiGroups": [names.KUEUE_GROUP], "resources": ["workloads"], "verbs": verbs}
    role = {"metadata": {"name": "test-workloads"}, "rules": [rule]}
    system.api.post(f"{RBAC}/clusterroles", role)
    teams._bind(system, "test-workloads", "test-workloads")
    return teams.add_editor(system)


@pytest.fixture
def team(system: Installed, editor: Rest) -> Team:
    return Team(system, editor, 8)


def requester(found: Json) -> Any:
    return (found["metadata"].get("annotations") or {}).get(names.REQUESTER)


def jobs(team: Team) -> str:
    return f"/apis/batch/v1/namespaces/{team.name}/jobs"


def apps(team: Team, plural: str) -> str:
    return f"/apis/apps/v1/namespaces/{team.name}/{plural}"


def of_workloads(team: Team, number: int = 1) -> set[Any]:
    waiting.until(
        lambda: len(team.api.get(team.workloads)["items"]) == number, what="Workloads are made"
    )
    return {requester(one) for one in team.api.get(team.workloads)["items"]}


def refused(team: Team, method: str, path: str, document: Json) -> str:
    with pytest.raises(RestError) as found:
        getattr(team.editor, method)(path, document)
    return str(found.value)


def serving(kind: str, pods: int = 2) -> Json:
    """An owner whose pods ask for a GPU each."""
    template = template_of(make_pod("", gpus=1, labels={"app": "web"}))
    template["metadata"] = {"labels": {"app": "web"}}
    spec = {
        "replicas": pods, "selector": {"matchLabels": {"app": "web"}}, "template": template,
    }  # fmt: skip
    if kind == "StatefulSet":
        spec["serviceName"] = "web"
    labels = {names.QUEUE_LABEL: "default"}
    return {
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", "labels": labels},
        "spec": spec,
    }  # fmt: skip


def test_a_pod_and_its_workload_name_who_created_it_and_not_whom_they_say(team: Team) -> None:
    made = team.editor.post(team.pods, make_pod("train", gpus=1, annotations=ANOTHER))
    assert requester(made) == "editor"
    assert of_workloads(team) == {"editor"}
    change = {"metadata": {"annotations": ANOTHER}}
    without = {"metadata": {"annotations": {names.REQUESTER: None}}}
    for patch in (change, without):
        refused(team, "patch", f"{team.pods}/train", patch)
    assert requester(team.api.get(f"{team.pods}/train")) == "editor"


def test_a_job_and_its_workload_name_who_created_it(team: Team) -> None:
    job = make_job("train", 1, gpus=1)
    job["metadata"]["annotations"] = dict(ANOTHER)
    assert requester(team.editor.post(jobs(team), job)) == "editor"
    assert of_workloads(team) == {"editor"}
    refused(team, "patch", f"{jobs(team)}/train", {"metadata": {"annotations": ANOTHER}})


def test_the_pods_of_a_job_do_not_name_whom_its_template_says(team: Team) -> None:
    job = make_job("train", 1, gpus=1)
    job["spec"]["template"].setdefault("metadata", {})["annotations"] = dict(ANOTHER)
    team.editor.post(jobs(team), job)
    waiting.until(lambda: len(team.listed()) == 1, what="its pod is made")
    assert {requester(one) for one in team.listed().values()} == {names.UNKNOWN_REQUESTER}


def test_nobody_names_a_requester_on_a_workload(team: Team) -> None:
    by_hand = make_workload("by-hand", namespace=team.name, queue="default")
    named = copy.deepcopy(by_hand)
    named["metadata"]["annotations"] = ANOTHER
    assert "Only the controller may set" in refused(team, "post", team.workloads, named)
    assert requester(team.editor.post(team.workloads, by_hand)) is None
    change = {"metadata": {"annotations": ANOTHER}}
    refused(team, "patch", f"{team.workloads}/by-hand", change)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_pods_of_an_owner_that_serves_name_who_created_it(team: Team, kind: str) -> None:
    path = apps(team, f"{kind.lower()}s")
    team.editor.post(path, serving(kind))
    waiting.until(lambda: len(team.listed()) == 2, what="pods are made")
    assert {requester(one) for one in team.listed().values()} == {"editor"}
    assert of_workloads(team, 2 if kind == "Deployment" else 1) == {"editor"}
    of_pods = {"metadata": {"annotations": ANOTHER}}
    team.editor.patch(f"{path}/web", {**of_pods, "spec": {"template": of_pods}})
    found = team.editor.get(f"{path}/web")
    assert requester(found) == requester(found["spec"]["template"]) == "editor"


def test_a_replica_set_of_an_editor_names_nobody(team: Team) -> None:
    found = serving("ReplicaSet")
    found["spec"]["template"]["metadata"]["annotations"] = ANOTHER
    path = apps(team, "replicasets")
    assert "names who created" in refused(team, "post", path, found)
    del found["spec"]["template"]["metadata"]["annotations"]
    team.editor.post(path, found)
    waiting.until(lambda: len(team.listed()) == 2, what="pods are made")
    assert {requester(one) for one in team.listed().values()} == {None}


def test_what_a_cron_job_makes_names_nobody(team: Team) -> None:
    job = make_job("", 1, gpus=1)
    job["metadata"] = {"annotations": ANOTHER, "labels": {names.QUEUE_LABEL: "default"}}
    template = {"metadata": job["metadata"], "spec": job["spec"]}
    spec = {"schedule": "* * * * *", "jobTemplate": template}
    cron = {"metadata": {"name": "nightly"}, "spec": spec}
    team.editor.post(f"/apis/batch/v1/namespaces/{team.name}/cronjobs", cron)
    waiting.until(lambda: team.api.get(jobs(team))["items"], what="a Job is made")
    (made,) = team.api.get(jobs(team))["items"][:1]
    assert requester(made) == names.UNKNOWN_REQUESTER
