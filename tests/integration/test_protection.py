"""A user who may edit pods and Jobs takes nothing off that quota is counted by."""

from dataclasses import dataclass
from typing import Any

import pytest

from admission.admin import webhooks
from admission.base import names
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.controlplane import waiting
from tests.controlplane.rest import Rest, RestError
from tests.integration.applied import Json
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

EVERYTHING = ["create", "delete", "get", "list", "patch", "update", "watch"]
ROLE = {
    "metadata": {"name": "test-editor"},
    "rules": [
        {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": EVERYTHING},
        {"apiGroups": ["batch"], "resources": ["jobs", "jobs/status"], "verbs": EVERYTHING},
    ],
}
"""What the role ``edit`` may do with pods and Jobs, and more: the status of both."""
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(frozen=True)
class System:
    """An installation, and one who may edit pods and Jobs."""

    installed: Installed
    editor: Rest


@dataclass(frozen=True)
class Team:
    """A namespace with quota for two GPUs, and one who may edit what is in it."""

    system: Installed
    name: str
    editor: Rest

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.name}/pods"

    @property
    def jobs(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.name}/jobs"

    def refuses(self, path: str, change: Json) -> str:
        """What the API server says to the editor's change, which it must refuse."""
        with pytest.raises(RestError) as refused:
            self.editor.patch(path, change)
        assert refused.value.status == 403, refused.value
        return str(refused.value)

    def running(self, name: str = "train") -> str:
        """The path of a pod that was admitted."""
        self.system.create_pod(self.name, name)
        self.system.wait_released(self.name, name)
        return f"{self.pods}/{name}"

    def job(self, pods: int, **changes: Any) -> str:
        """The path of a Job that was admitted."""
        self.editor.post(
            self.jobs, make_job("train", pods, gpus=1, **{"completions": 20, **changes})
        )
        path = f"{self.jobs}/train"
        waiting.until(lambda: not self.editor.get(path)["spec"]["suspend"], what="Job started")
        return path


@pytest.fixture(scope="module")
def system(installation: Installed) -> System:
    it, cluster = installation, installation.cluster
    cluster.api.post(f"{RBAC}/clusterroles", ROLE)
    reference = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "test-editor",
    }
    binding = {
        "metadata": {"name": "test-editor"},
        "roleRef": reference,
        "subjects": [{"kind": "User", "name": "editor"}],
    }
    cluster.api.post(f"{RBAC}/clusterrolebindings", binding)
    cluster.wait_for_roles()
    editor = cluster.client(cluster.kubeconfig("editor"))
    probe = Team(it, it.add_team(1), editor)
    path = probe.running("probe")
    without = {"metadata": {"labels": {names.MANAGED_LABEL: None}}}
    waiting.until(lambda: _is_refused(editor, path, without), what="policies in effect")
    return System(it, editor)


def _is_refused(editor: Rest, path: str, change: Json) -> bool:
    try:
        editor.patch(f"{path}?dryRun=All", change)
    except RestError as error:
        return error.status == 403
    return False


@pytest.fixture
def team(system: System) -> Team:
    return Team(system.installed, system.installed.add_team(2), system.editor)


@pytest.mark.parametrize("part", ["", "/status"])
@pytest.mark.parametrize("value", [None, "false"])
@pytest.mark.parametrize(
    "label",
    [
        names.MANAGED_LABEL,
        names.PODSET_LABEL,
        names.LOCAL_QUEUE_NAME_LABEL,
        names.CLUSTER_QUEUE_NAME_LABEL,
    ],
)
def test_labels_that_quota_is_counted_by_stay(
    team: Team, label: str, value: str | None, part: str
) -> None:
    path = team.running()
    said = team.refuses(f"{path}{part}", {"metadata": {"labels": {label: value}}})

    assert f"Only the controller may change the label {label}" in said


def test_the_annotation_that_names_the_workload_stays(team: Team) -> None:
    path = team.running()

    said = team.refuses(path, {"metadata": {"annotations": {names.WORKLOAD_ANNOTATION: "other"}}})

    assert f"Only the controller may change the annotation {names.WORKLOAD_ANNOTATION}" in said


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (names.ORIGINAL_RESOURCES, "[]"),
        (names.ORIGINAL_RESOURCES, None),
        (names.FOREIGN_TOPOLOGY_GATE, "true"),
        (f"{names.OWN_DOMAIN}/of-a-later-version", "x"),
    ],
)
def test_req_19_our_annotations_stay(team: Team, key: str, value: str | None) -> None:
    original = {names.ORIGINAL_RESOURCES: "{}"}
    team.system.create_pod(team.name, "train", annotations=original)
    path = f"{team.pods}/train"
    for part in ("", "/status"):
        said = team.refuses(f"{path}{part}", {"metadata": {"annotations": {key: value}}})
        assert "Only the controller may change annotations that begin with" in said


def test_annotations_that_ask_for_gpus_are_only_read_at_creation_and_may_be_changed(
    team: Team,
) -> None:
    path = team.running()
    asked = {f"{names.MIG_PROFILE}.main": "1g.10gb", names.GPU_MEMORY: "8Gi"}
    team.editor.patch(path, {"metadata": {"annotations": asked}})

    assert asked.items() <= team.editor.get(path)["metadata"]["annotations"].items()


def test_of_very_many_annotations_none_is_changed(team: Team) -> None:
    many = {f"example.com/n{index}": "" for index in range(webhooks.MOST)}
    team.system.create_pod(team.name, "train", metadata={"annotations": many})
    path = f"{team.pods}/train"
    said = team.refuses(path, {"metadata": {"annotations": {"example.com/n0": "x"}}})
    assert "Only the controller may change annotations" in said
    team.editor.patch(path, {"metadata": {"labels": {"a": "b"}}})


@pytest.mark.parametrize(
    "mark",
    [
        {"labels": {names.MANAGED_LABEL: "other"}},
        {"labels": {names.PODSET_LABEL: "main"}},
        {"annotations": {names.WORKLOAD_ANNOTATION: "other"}},
    ],
)
def test_a_pod_that_is_not_counted_is_not_marked_as_counted(team: Team, mark: Json) -> None:
    team.system.create_pod(team.name, "free", gpus=None)
    said = team.refuses(f"{team.pods}/free", {"metadata": mark})

    assert "Only the controller may change the" in said


def test_a_pod_that_is_not_counted_is_not_marked_by_a_manifest_of_kueue(team: Team) -> None:
    team.system.create_pod(team.name, "free", gpus=None)
    mark = {"labels": {names.MANAGED_LABEL: names.MANAGED_VALUE}}
    after = team.editor.patch(f"{team.pods}/free", {"metadata": mark})
    assert names.MANAGED_LABEL not in after["metadata"].get("labels", {})


def test_the_gate_of_a_pod_that_is_held_for_its_parent_is_not_taken_off(team: Team) -> None:
    held = {"annotations": {names.POD_SUSPENDING_PARENT: "deployment"}}
    team.system.create_pod(team.name, "part", metadata=held)
    said = team.refuses(f"{team.pods}/part", {"spec": {"schedulingGates": None}})

    assert f"Only the controller may take off the gate {names.ADMISSION_GATE}" in said


def test_the_gate_of_a_waiting_pod_is_not_taken_off(team: Team) -> None:
    team.running()
    team.running("second")
    team.system.create_pod(team.name, "waits")
    said = team.refuses(f"{team.pods}/waits", {"spec": {"schedulingGates": None}})

    assert f"Only the controller may take off the gate {names.ADMISSION_GATE}" in said
    assert team.system.is_gated(team.name, "waits")


def test_the_topology_gate_of_a_pod_of_an_admitted_owner_is_not_taken_off(team: Team) -> None:
    team.system.create_pod(team.name, "near", gpus=None, gates=[names.TOPOLOGY_GATE])
    path = f"{team.pods}/near"
    annotations = {names.FOREIGN_TOPOLOGY_GATE: None}  # as if it was made from a template of ours
    marks = {"labels": {names.PODSET_LABEL: "main"}, "annotations": annotations}
    team.system.cluster.api.patch(path, {"metadata": marks})

    said = team.refuses(path, {"spec": {"schedulingGates": None}})

    assert f"Only the controller may take off the gate {names.TOPOLOGY_GATE}" in said


def test_everything_else_of_a_pod_may_be_changed(team: Team) -> None:
    path = team.running()
    team.editor.patch(path, {"metadata": {"labels": {"app": "a"}, "annotations": {"b": "c"}}})
    team.editor.patch(f"{path}/status", {"status": {"message": "m"}})

    assert team.editor.get(path)["metadata"]["labels"]["app"] == "a"


def test_a_job_runs_no_more_pods_than_were_admitted(team: Team) -> None:
    path = team.job(pods=1)
    said = team.refuses(path, {"spec": {"parallelism": 2}})
    assert "Set spec.suspend to true in the same update" in said
    team.editor.patch(path, {"spec": {"parallelism": 2, "suspend": True}})
    waiting.until(lambda: not team.editor.get(path)["spec"]["suspend"], what="started again")

    assert team.editor.get(path)["spec"]["parallelism"] == 2
    (workload,) = team.system.api.get(f"{KUEUE}/namespaces/{team.name}/workloads")["items"]
    (assigned,) = workload["status"]["admission"]["podSetAssignments"]
    assert assigned["count"] == 2


def test_an_indexed_job_runs_no_more_pods_when_it_gets_more_completions(team: Team) -> None:
    path = team.job(pods=16, completions=2, completionMode="Indexed")
    grown = {"spec": {"parallelism": 16, "completions": 16}}

    assert "Set spec.suspend to true in the same update" in team.refuses(path, grown)


def test_a_running_job_keeps_its_queue(team: Team) -> None:
    path = team.job(pods=1)
    for value in (None, "other"):
        change = {"metadata": {"labels": {names.QUEUE_LABEL: value}}}
        with pytest.raises(RestError):
            team.editor.patch(path, change)
    assert team.editor.get(path)["metadata"]["labels"][names.QUEUE_LABEL] == "default"


def test_a_stopped_job_that_is_still_marked_is_not_started_by_its_user(team: Team) -> None:
    marked = {"metadata": {"annotations": {names.WORKLOAD_ANNOTATION: "made-up"}}}
    team.editor.post(team.jobs, make_job("large", 16, gpus=1))
    path = f"{team.jobs}/large"
    said = team.refuses(path, {"spec": {"template": marked}})
    assert "Only the controller may set the annotation" in said
    said = team.refuses(path, {"spec": {"suspend": False, "template": marked}})

    assert "Only the controller may set the annotation" in said


def test_a_trusted_account_may_change_everything(team: Team) -> None:
    path = team.running()
    team.system.api.patch(path, {"metadata": {"labels": {names.PODSET_LABEL: "other"}}})

    assert team.editor.get(path)["metadata"]["labels"][names.PODSET_LABEL] == "other"


@pytest.mark.parametrize(
    "marks",
    [
        {"labels": {names.PODSET_LABEL: "main"}},
        {"labels": {names.CLUSTER_QUEUE_NAME_LABEL: "other"}},
        {"annotations": {names.WORKLOAD_ANNOTATION: "job-train-12345"}},
    ],
)
def test_a_pod_that_somebody_makes_bears_no_mark_of_a_release(team: Team, marks: Json) -> None:
    made = team.editor.post(team.pods, make_pod("forged", gpus=1, metadata=marks))
    assert made["spec"]["schedulingGates"] == [{"name": names.ADMISSION_GATE}]
    for member, written in marks.items():
        assert not written.keys() & made["metadata"].get(member, {}).keys()


def test_a_job_replaces_only_pods_that_have_ended(team: Team) -> None:
    path = team.job(2, podReplacementPolicy="TerminatingOrFailed")
    assert team.editor.get(path)["spec"]["podReplacementPolicy"] == "Failed"
    change = {"spec": {"podReplacementPolicy": "TerminatingOrFailed"}}
    said = team.refuses(path, change)
    assert "Leave spec.podReplacementPolicy at Failed" in said


# ------------------------------------------------ what follows rules of its own (Kueue's, 403)


def test_a_running_pod_keeps_queue_and_class_and_gets_no_gate(team: Team) -> None:
    add_classes(team.system)
    labels = {names.PRIORITY_CLASS_LABEL: "low"}
    team.system.create_pod(team.name, "train", labels=labels)
    team.system.wait_released(team.name, "train")
    path = f"{team.pods}/train"
    for value in (None, "other"):
        said = team.refuses(path, {"metadata": {"labels": {names.QUEUE_LABEL: value}}})
        assert f"metadata.labels[{names.QUEUE_LABEL}]: Invalid value" in said
        assert "field is immutable" in said
    said = team.refuses(path, {"metadata": {"labels": {names.PRIORITY_CLASS_LABEL: None}}})
    assert "WorkloadPriorityClass cannot be removed from a workload" in said
    gated = {"metadata": {"annotations": {names.ADMISSION_GATED_BY: "example.com/hold"}}}
    assert "cannot add admission gate after creation" in team.refuses(path, gated)
    team.editor.patch(path, {"metadata": {"labels": {names.PRIORITY_CLASS_LABEL: "high"}}})
    waiting.until(lambda: workload(team)["spec"]["priority"] == 100, what="the other class")


def test_a_running_pod_without_a_class_gets_none(team: Team) -> None:
    add_classes(team.system)
    path = team.running()
    said = team.refuses(path, {"metadata": {"labels": {names.PRIORITY_CLASS_LABEL: "high"}}})
    assert "WorkloadPriorityClass cannot be added to a non-suspended workload" in said


def test_a_waiting_pod_moves_to_another_queue_and_its_gates_only_go(team: Team) -> None:
    add_classes(team.system)
    team.system.add_local_queue(team.name, team.name, "other")
    team.system.wait_for_queue(team.name, "other")
    gates = {names.ADMISSION_GATED_BY: "example.com/a,example.com/b"}
    team.system.create_pod(team.name, "waits", annotations=gates)
    path = f"{team.pods}/waits"
    said = team.refuses(path, {"metadata": {"labels": {names.QUEUE_LABEL: None}}})
    assert "queue-name must not be empty in namespace with default queue" in said
    more = {names.ADMISSION_GATED_BY: "example.com/a,example.com/c"}
    said = team.refuses(path, {"metadata": {"annotations": more}})
    assert "can only remove gates, not add new ones" in said
    labels = {names.QUEUE_LABEL: "other", names.PRIORITY_CLASS_LABEL: "high"}
    team.editor.patch(path, {"metadata": {"labels": labels}})
    waiting.until(
        lambda: (
            (workload(team)["spec"]["queueName"], workload(team)["spec"].get("priority"))
            == ("other", 100)
        ),
        what="the Workload in the other queue",
    )
    assert team.system.is_gated(team.name, "waits")
    team.editor.patch(path, {"metadata": {"annotations": {names.ADMISSION_GATED_BY: None}}})
    team.system.wait_released(team.name, "waits")


def test_a_job_keeps_its_class_and_its_gates_only_go(team: Team) -> None:
    add_classes(team.system)
    path = team.job(pods=1)
    said = team.refuses(path, {"metadata": {"labels": {names.PRIORITY_CLASS_LABEL: "high"}}})
    assert "WorkloadPriorityClass cannot be added to a non-suspended workload" in said
    gated = {"metadata": {"annotations": {names.ADMISSION_GATED_BY: "example.com/hold"}}}
    assert "cannot add admission gate after creation" in team.refuses(path, gated)


def workload(team: Team) -> Any:
    (found,) = team.system.api.get(f"{KUEUE}/namespaces/{team.name}/workloads")["items"]
    return found


def add_classes(system: Installed) -> None:
    """Two classes, unless they are there."""
    for name, value in (("low", 1), ("high", 100)):
        if system.api.lacks(f"{KUEUE}/workloadpriorityclasses/{name}"):
            system.add_classes(**{name: value})
