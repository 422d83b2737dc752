"""What the API server holds itself while nothing of ours answers (ADR 0084)."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pytest

from admission.base import conditions, names
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.controlplane import features, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import Json, Rest, RestError
from tests.integration import snapshot
from tests.integration.installed import KUEUE, Installed

pytestmark = [pytest.mark.controlplane, features.needs_mutating_policies]

GATE: Final = {"name": names.ADMISSION_GATE}
POLICIES: Final = "/apis/admissionregistration.k8s.io/v1"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
ROLE: Final = {
    "metadata": {"name": "test-editor"},
    "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "get", "patch", "update"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "patch"]},
    ],
}
"""What the role ``edit`` may do with pods and Jobs; nobody puts that role together here."""
LETS_POD_RUN: Final = {
    "metadata": {"labels": {names.MANAGED_LABEL: None}}, "spec": {"schedulingGates": None}
}  # fmt: skip
LETS_JOB_RUN: Final = {
    "metadata": {"labels": {names.QUEUE_LABEL: None}}, "spec": {"suspend": False}
}  # fmt: skip
"""What docs/guides/break-glass.md says."""
JOB_CONTROLLER: Final = "system:serviceaccount:kube-system:job-controller"
EDITOR: Final = "dana"
OF_ONE_RUN: Final = ("uid", "creationTimestamp", "managedFields")


@dataclass(kw_only=True)
class System:
    """An installation that was down for a while, and holds pods and Jobs then.

    Attributes:
        installed: it runs again.
        editor: one who may edit pods and Jobs.
        team: a namespace with quota for six GPUs.
        plain: a namespace without queues.
        before: what the API server would store before it was told to hold pods.
        made: what it stored while nothing answered, or why it refused, by name.
    """

    installed: Installed
    editor: Rest
    team: str
    plain: str
    before: list[Any]
    made: dict[str, Any]


def pods(team: str) -> str:
    return f"/api/v1/namespaces/{team}/pods"


def jobs(team: str) -> str:
    return f"/apis/batch/v1/namespaces/{team}/jobs"


def queued_job(name: str = "train", pods: int = 2, **job: Any) -> Any:
    """A Job with a queue, without a namespace."""
    return make_job(name, pods, labels={names.QUEUE_LABEL: "default"}, **job)


def gates(pod: Json) -> list[Any]:
    return list(pod["spec"].get("schedulingGates", []))


def annotations(document: Json) -> dict[str, str]:
    return dict(document["metadata"].get("annotations") or {})


def labels(document: Json) -> dict[str, str]:
    return dict(document["metadata"].get("labels") or {})


OF_MANY_KINDS: Final = {
    "gpu": make_pod(gpus=1),
    "two gates": make_pod(gpus=1, gates=("example.com/other",)),
    "cpu": make_pod(),
    "queue": make_pod(labels={names.QUEUE_LABEL: "default"}),
    "own gate": make_pod(gpus=1, gates=(names.ADMISSION_GATE,)),
    "own marks": make_pod(
        gpus=1,
        labels={names.MANAGED_LABEL: "true"},
        annotations={names.REQUESTER: "somebody", "example.com/note": "kept"},
    ),
    "node": make_pod(gpus=1, nodeName="one"),
    "parent": make_pod(annotations={names.POD_SUSPENDING_PARENT: "somebody"}),
}


def stored(api: Rest, path: str, document: Json) -> Any:
    """What the API server would store, without what differs from one time to the next."""
    try:
        found = api.post(f"{path}?dryRun=All", document)
    except RestError as refused:
        return str(refused)
    uid = found["metadata"]["uid"]
    for key in OF_ONE_RUN:
        found["metadata"].pop(key, None)
    known: Json = json.loads(json.dumps({**found, "status": {}}).replace(uid, "its uid"))
    return known


def everything(system: Installed, with_queue: str, without: str) -> list[Any]:
    found = [
        stored(system.api, pods(namespace), document)
        for namespace in (with_queue, without)
        for document in OF_MANY_KINDS.values()
    ]
    asked = (queued_job(gpus=1), queued_job(suspend=True), make_job(gpus=1), make_job())
    return found + [stored(system.api, jobs(with_queue), document) for document in asked]


def editor_of(cluster: Cluster) -> Rest:
    cluster.api.post(f"{RBAC}/clusterroles", ROLE)
    reference = {
        "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "test-editor",
    }  # fmt: skip
    binding = {
        "metadata": {"name": "test-editor"},
        "roleRef": reference,
        "subjects": [{"kind": "User", "name": EDITOR}],
    }
    cluster.api.post(f"{RBAC}/clusterrolebindings", binding)
    return cluster.client(cluster.kubeconfig(EDITOR))


def wait_held(system: Installed, team: str) -> None:
    """Waits until the API server holds what nobody reviews."""

    def is_held() -> bool:
        made = (
            stored(system.api, pods(team), make_pod(gpus=1)),
            stored(system.api, jobs(team), queued_job()),
        )
        return all(isinstance(one, dict) and names.UNREVIEWED in annotations(one) for one in made)

    waiting.until(is_held, what="the API server holds pods and Jobs")


def job_before(system: Installed, team: str) -> Any:
    """A Job that is admitted while all is well; a pod as its controller makes it."""
    system.api.post(jobs(team), queued_job("before", 1, gpus=1))
    path = f"{jobs(team)}/before"
    job = waiting.until(
        lambda: system.api.get(path)["spec"]["suspend"] is False and system.api.get(path),
        what="Job started",
    )
    assert isinstance(job, dict)
    template = job["spec"]["template"]
    controller = {
        "apiVersion": "batch/v1", "kind": "Job", "name": "before",
        "uid": job["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    metadata = {**template["metadata"], "name": "of-job", "ownerReferences": [controller]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def tried(made: dict[str, Any], name: str, ask: Callable[[], Any]) -> None:
    """Keeps what the API server answers under a name."""
    try:
        made[name] = ask()
    except RestError as refused:
        made[name] = str(refused)


def during(it: Installed, editor: Rest, team: str, plain: str, of_job: Any) -> dict[str, Any]:
    """What people and controllers do while nothing of ours answers."""
    made: dict[str, Any] = {}

    def create(name: str, path: str, document: Any, api: Rest = editor) -> None:
        tried(made, name, lambda: api.post(path, document))

    def change(name: str, path: str, patch: Json) -> None:
        tried(made, name, lambda: editor.patch(path, patch))

    forged = {names.REQUESTER: "somebody", names.MIG_PROFILE: "1g.10gb"}
    create("gpu", pods(team), make_pod("gpu", gpus=2, annotations=forged))
    queued = {names.QUEUE_LABEL: "default"}
    create("cpu in a queue", pods(team), make_pod("cpu-in-a-queue", labels=queued))
    create("cpu", pods(team), make_pod("cpu"))
    create("outside", pods(plain), make_pod("outside", gpus=1))
    create("on a node", pods(team), make_pod("on-a-node", gpus=1, nodeName="one"))
    create(
        "of a Job", pods(team), of_job, it.cluster.client(it.cluster.kubeconfig(JOB_CONTROLLER))
    )
    copied = {**of_job, "metadata": {**of_job["metadata"], "name": "copied"}}
    create("copied", pods(team), copied, it.api)
    group = make_pod(
        gpus=1,
        labels={names.POD_GROUP_NAME: "pair", names.QUEUE_LABEL: "default"},
        annotations={names.POD_GROUP_TOTAL_COUNT: "2"},
    )
    for name in ("pair-a", "pair-b"):
        create(name, pods(team), {**group, "metadata": {**group["metadata"], "name": name}})
    path = f"{pods(team)}/gpu"
    change("gate off", path, {"spec": {"schedulingGates": []}})
    change("label off", path, {"metadata": {"labels": {names.MANAGED_LABEL: None}}})
    change("mark off", path, {"metadata": {"annotations": {names.UNREVIEWED: None}}})
    create("job", jobs(team), queued_job("job", 1, gpus=1))
    create("job without a queue", jobs(team), make_job("free"))
    admitted = make_job("admitted", gpus=1)
    mark = {"annotations": {names.WORKLOAD_ANNOTATION: "some"}}
    admitted["spec"]["template"]["metadata"] = mark
    create("job that says it was admitted", jobs(team), admitted)
    create("let run", pods(team), make_pod("let-run", gpus=1))
    create("Job let run", jobs(team), queued_job("let-run", 1))
    for name, path, patch in (
        ("let run", f"{pods(team)}/let-run", LETS_POD_RUN),
        ("Job let run", f"{jobs(team)}/let-run", LETS_JOB_RUN),
    ):
        tried(made, name, partial(it.api.patch, path, patch))
    path = f"{jobs(team)}/job"
    change("job started", path, {"spec": {"suspend": False}})
    change("job of another", path, {"metadata": {"annotations": {names.REQUESTER: "somebody"}}})
    return made


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with snapshot.started(tmp_path_factory.mktemp("down")) as it:
        cluster = it.cluster
        cluster.wait_for_roles()
        editor, team, plain = editor_of(cluster), it.add_team(6), cluster.create_namespace("plain")
        it.wait_webhook()
        waiting.until(
            lambda: gates(stored(it.api, pods(plain), make_pod(gpus=1))) == [],
            what="the namespace is so old that it is known to have no queue",
        )
        before, of_job = everything(it, team, plain), job_before(it, team)
        it.stop()
        it.install("--while-webhook-down", "hold")
        wait_held(it, team)
        made = during(it, editor, team, plain, of_job)
        it.start()
        yield System(installed=it, editor=editor, team=team, plain=plain, before=before, made=made)


# ------------------------------------------------------------------- with a webhook that answers


def test_with_a_webhook_that_answers_everything_is_as_without_the_policies(
    system: System,
) -> None:
    now = everything(system.installed, system.team, system.plain)

    for was, found in zip(system.before, now, strict=True):
        assert found == was


def test_a_gpu_pod_is_gated_once_and_started_where_the_webhook_answers(system: System) -> None:
    team = system.installed.add_team(1)

    made = system.installed.create_pod(team, "train")

    assert gates(made) == [GATE]
    assert names.UNREVIEWED not in annotations(made)
    assert not reviewed(system.installed.wait_released(team, "train"))


# --------------------------------------------------------------------- with nothing that answers


def test_the_api_server_gates_what_needs_quota_and_nothing_else(system: System) -> None:
    made = system.made

    for name in ("gpu", "cpu in a queue", "outside", "pair-a"):
        assert gates(made[name]) == [GATE]
        assert labels(made[name])[names.MANAGED_LABEL] == "true"
        assert annotations(made[name])[names.UNREVIEWED] == "gate,label"
    assert gates(made["cpu"]) == []
    assert names.UNREVIEWED not in annotations(made["cpu"])


def test_what_cannot_be_gated_is_refused(system: System) -> None:
    assert "failed calling webhook" in system.made["on a node"]
    assert "vungated.kb.io" in system.made["on a node"]


def test_nobody_asks_in_the_name_of_another(system: System) -> None:
    assert annotations(system.made["gpu"])[names.REQUESTER] == names.UNKNOWN_REQUESTER
    assert "names who created the Job" in system.made["job of another"]


@pytest.mark.parametrize("change", ["gate off", "label off", "mark off"])
def test_one_who_may_edit_pods_takes_nothing_off(system: System, change: str) -> None:
    assert ": 403 " in system.made[change]


def test_pods_of_an_admitted_job_start_and_copies_of_them_do_not(system: System) -> None:
    assert gates(system.made["of a Job"]) == []
    assert gates(system.made["copied"]) == [GATE]


def test_jobs_with_a_queue_are_suspended_and_stay_so(system: System) -> None:
    job = system.made["job"]

    assert job["spec"]["suspend"] is True
    assert job["spec"]["podReplacementPolicy"] == "Failed"
    assert annotations(job)[names.UNREVIEWED] == "suspend"
    assert "The Job waits for quota" in system.made["job started"]
    assert "it lets pods start" in system.made["job that says it was admitted"]
    assert system.made["job without a queue"]["spec"]["suspend"] is False


# ------------------------------------------------------------------------------------ afterwards


def reviewed(pod: Json) -> dict[str, Any]:
    """The condition that says that nobody reviewed the pod; empty without one."""
    found = pod.get("status", {}).get("conditions", [])
    return next((c for c in found if c["type"] == conditions.POD_REVIEWED), {})


def workload_of(system: System, owner: str) -> Any:
    """The Workload of a pod or Job."""
    listed = system.installed.api.get(f"{KUEUE}/namespaces/{system.team}/workloads")["items"]
    return next(
        one
        for one in listed
        if owner in {of["name"] for of in one["metadata"].get("ownerReferences", [])}
    )


def is_admitted(workload: Any) -> bool:
    found = workload.get("status", {}).get("conditions", [])
    return any(c["type"] == conditions.ADMITTED and c["status"] == "True" for c in found)


def test_a_pod_is_adopted_late_charged_and_started(system: System) -> None:
    it, team = system.installed, system.team

    it.wait_released(team, "gpu")

    pod = it.pod(team, "gpu")
    assert labels(pod)[names.QUEUE_LABEL] == "default"
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {names.GPU_RESOURCE: "2"}
    workload = workload_of(system, "gpu")
    assert is_admitted(workload)
    (charged,) = workload["status"]["admission"]["podSetAssignments"]
    assert charged["resourceUsage"][names.GPU_RESOURCE] == "2"
    requester = workload["metadata"].get("annotations", {}).get(names.REQUESTER, "unknown")
    assert requester == names.UNKNOWN_REQUESTER


def test_the_pod_says_that_nobody_reviewed_it_and_what_has_no_effect(system: System) -> None:
    it, team = system.installed, system.team

    said = waiting.until(lambda: reviewed(it.pod(team, "gpu")), what="the pod says so")

    assert (said["status"], said["reason"]) == ("False", "NotReviewed")
    assert f"{names.MIG_PROFILE}: without effect" in said["message"]
    listed = it.api.get(f"/apis/events.k8s.io/v1/namespaces/{team}/events")["items"]
    told = [one for one in listed if one["reason"] == "NotReviewed"]
    assert "gpu" in {one["regarding"]["name"] for one in told}


def test_a_pod_that_belongs_to_no_queue_is_let_go(system: System) -> None:
    it = system.installed

    pod = it.wait_released(system.plain, "outside")

    assert names.MANAGED_LABEL not in labels(pod)


def test_pods_of_a_group_start_together(system: System) -> None:
    it, team = system.installed, system.team

    for name in ("pair-a", "pair-b"):
        assert names.ROLE_HASH in annotations(it.wait_released(team, name))

    (pod_set,) = workload_of(system, "pair-a")["spec"]["podSets"]
    assert pod_set["count"] == 2


def test_the_job_is_charged_and_started(system: System) -> None:
    it, path = system.installed, f"{jobs(system.team)}/job"

    waiting.until(lambda: it.api.get(path)["spec"]["suspend"] is False, what="Job started")

    assert is_admitted(workload_of(system, "job"))


def test_what_an_administrator_let_run_goes_on(system: System) -> None:
    """It comes after those that wait for the controller, which has had its time then."""
    it, team = system.installed, system.team
    assert gates(system.made["let run"]) == []
    assert system.made["Job let run"]["spec"]["suspend"] is False

    assert gates(it.pod(team, "let-run")) == []
    assert "deletionTimestamp" not in it.pod(team, "let-run")["metadata"]
    assert it.api.get(f"{jobs(team)}/let-run")["spec"]["suspend"] is False


# ---------------------------------------------------------------------- taken back; the last test


def test_a_later_installation_keeps_the_choice_and_another_takes_it_back(system: System) -> None:
    it, team = system.installed, system.team

    assert not [one for one in it.install() if one["effect"] != "unchanged"]
    changed = it.install("--while-webhook-down", "refuse")

    deleted = {(one["kind"], one["name"]) for one in changed if one["effect"] == "deleted"}
    kinds = ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
    assert deleted >= {
        (kind, f"gpu-admission-hold-{what}") for kind in kinds for what in ("pods", "jobs")
    }
    it.stop()

    def is_refused() -> bool:
        return "failed calling webhook" in str(stored(it.api, pods(team), make_pod(gpus=1)))

    waiting.until(is_refused, what="GPU pods are refused")
