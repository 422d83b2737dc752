"""Owners that serve on a whole cluster: Kubernetes' own controllers make their pods.

Who runs is judged from the pods that the API server shows.
"""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typing_extensions import override

from admission.base import conditions, names
from admission.owners import serving
from tests.builders.pods import make_pod
from tests.builders.queues import make_group
from tests.controlplane import waiting
from tests.controlplane.rest import Rest, RestError
from tests.integration import owner_crds, snapshot, teams
from tests.integration.applied import Json
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

RBAC = "/apis/rbac.authorization.k8s.io/v1"
TEMPLATE_LABELS = ("spec", "template", "metadata", "labels")


def web(cpu: str) -> Json:
    """A pod template without GPUs."""
    container = {"name": "main", "image": "web", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {"metadata": {"labels": {"app": "web"}}, "spec": spec}


def example(**spec: Any) -> Json:
    """An owner in the shape of Kueue's examples (site/static/examples/serving-workloads)."""
    return {"metadata": {"name": "web", "labels": {names.QUEUE_LABEL: "user-queue"}}, "spec": spec}


REPLICATED = example(
    replicas=3, selector={"matchLabels": {"app": "web"}}, template=web("100m"), serviceName="web"
)
"""A StatefulSet of three pods, and a Deployment where no Service is named."""

LEADER_AND_WORKERS = example(
    replicas=2,
    leaderWorkerTemplate={
        "size": 3,
        "leaderTemplate": web("100m"),
        "workerTemplate": web("200m"),
    },
)
"""A LeaderWorkerSet: two replicas of a leader and two workers."""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with snapshot.prepared(tmp_path_factory.mktemp("serving"), Installed, whole=True) as it:
        kind = serving.LEADER_WORKER_SET.kind
        owner_crds.install_kind(it.cluster, kind.group, kind.version, kind.name, kind.plural)
        it.cluster.add_gpu_node("gpus", gpus=100, labels={"nvidia.com/gpu.product": "A100"})
        it.start()
        it.add_classes(high=1000)
        yield it


@pytest.fixture(scope="module")
def editor(system: Installed) -> Rest:
    return teams.add_editor(system)


class Team(teams.Team):
    """A namespace with quota for four GPUs, and one who may edit an owner in it."""

    plural = "deployments"
    group = "apps/v1"

    def __init__(self, system: Installed, editor: Rest, quota: int = 4, **queue: Any) -> None:
        super().__init__(system, editor, quota, **queue)
        system.add_local_queue(self.name, self.name, "other")
        system.wait_for_queue(self.name, "other")
        self.path = f"/apis/{self.group}/namespaces/{self.name}/{self.plural}"

    def manifest(self, replicas: int = 2, *, queue: str = "other", gpus: int = 1) -> Json:
        pod = make_pod(gpus=gpus, terminationGracePeriodSeconds=0)
        labels = {names.QUEUE_LABEL: queue} if queue else {}
        return {
            "metadata": {"name": "serve", "labels": labels},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "serve"}},
                "template": {"metadata": {"labels": {"app": "serve"}}, "spec": pod["spec"]},
            },
        }

    def create(self, replicas: int = 2, **more: Any) -> Json:
        return self.editor.post(self.path, self.manifest(replicas, **more))

    def get(self) -> Json:
        return self.api.get(f"{self.path}/serve")

    def patch(self, change: Json) -> Json:
        return self.editor.patch(f"{self.path}/serve", change)

    def queue(self, name: str | None) -> Json:
        """Put the owner into another queue."""
        return self.patch({"metadata": {"labels": {names.QUEUE_LABEL: name}}})

    def refuses(self, change: Json) -> str:
        """What is said to the editor's change, which must be refused."""
        with pytest.raises(RestError) as refused:
            self.patch(change)
        assert refused.value.status == 403, refused.value
        return str(refused.value)

    def scale(self, replicas: int) -> None:
        """Scale as ``kubectl scale`` does."""
        self.editor.patch(f"{self.path}/serve/scale", {"spec": {"replicas": replicas}})

    def alive(self) -> list[Json]:
        """The pods that nobody is deleting."""
        found = self.listed().values()
        return [one for one in found if "deletionTimestamp" not in one["metadata"]]

    def at_work(self) -> list[Json]:
        """Those of them that run."""
        return [one for one in self.alive() if one.get("status", {}).get("phase") == "Running"]

    def held(self) -> list[Json]:
        """Those of them that wait for quota."""
        return [one for one in self.alive() if one["spec"].get("schedulingGates")]

    def wait(self, *, running: int, gated: int = 0) -> None:
        """Wait until so many pods run, and so many wait for quota."""
        waiting.until(
            lambda: (len(self.at_work()), len(self.held())) == (running, gated),
            what=f"{running} pods run and {gated} wait",
        )

    def admitted(self) -> list[Json]:
        """The Workloads that hold quota."""
        return [
            one
            for one in self.api.get(self.workloads)["items"]
            if "admission" in one.get("status", {})
        ]


@pytest.fixture
def team(system: Installed, editor: Rest) -> Team:
    return Team(system, editor)


# ------------------------------------------------------------------------------------ Deployments


def test_the_deployment_of_kueues_documentation_is_admitted_pod_by_pod(
    system: Installed, editor: Rest
) -> None:
    team = Team(system, editor)
    groups = [make_group({team.name: {"cpu": "250m"}})]
    system.api.patch(f"{KUEUE}/clusterqueues/{team.name}", {"spec": {"resourceGroups": groups}})
    system.add_local_queue(team.name, team.name, "user-queue")
    system.wait_for_queue(team.name, "user-queue")
    manifest = copy.deepcopy(REPLICATED)
    del manifest["spec"]["serviceName"]
    editor.post(team.path, manifest)
    team.wait(running=2, gated=1)
    assert len(team.admitted()) == 2
    for pod in team.alive():
        metadata = pod["metadata"]
        assert metadata["labels"][names.MANAGED_LABEL] == "true"
        assert metadata["labels"][names.QUEUE_LABEL] == "user-queue"
        assert metadata["annotations"][names.POD_SUSPENDING_PARENT] == "deployment"
        assert "finalizers" not in metadata
    editor.patch(f"{team.path}/web/scale", {"spec": {"replicas": 1}})
    team.wait(running=1)
    waiting.until(lambda: len(team.admitted()) == 1, what="the quota of the others is free")


def test_pods_of_a_deployment_go_through_the_queue_that_it_names(team: Team) -> None:
    team.create(6)
    team.wait(running=4, gated=2)
    assert {one["spec"]["queueName"] for one in team.admitted()} == {"other"}
    team.scale(3)
    team.wait(running=3)
    waiting.until(lambda: len(team.admitted()) == 3, what="the quota of the others is free")


def test_the_priority_class_of_a_deployment_is_that_of_its_pods(team: Team) -> None:
    manifest = team.manifest(1)
    manifest["metadata"]["labels"][names.PRIORITY_CLASS_LABEL] = "high"
    team.editor.post(team.path, manifest)
    team.wait(running=1)
    (workload,) = team.admitted()
    assert workload["spec"]["priority"] == 1000


def test_a_gpu_deployment_without_a_queue_goes_to_the_default_one(team: Team) -> None:
    assert team.create(1, queue="")["metadata"]["labels"][names.QUEUE_LABEL] == "default"
    team.wait(running=1)
    assert [one["spec"]["queueName"] for one in team.admitted()] == ["default"]


def test_a_deployment_whose_template_names_a_queue_leaves_it_to_its_pods(team: Team) -> None:
    manifest = team.manifest(1, queue="")
    manifest["spec"]["template"]["metadata"]["labels"][names.QUEUE_LABEL] = "other"
    created = team.editor.post(team.path, manifest)
    assert names.QUEUE_LABEL not in created["metadata"].get("labels", {})
    team.wait(running=1)
    assert [one["spec"]["queueName"] for one in team.admitted()] == ["other"]


def test_a_deployment_moves_to_another_queue_only_while_nothing_is_ready(team: Team) -> None:
    team.create(1, gpus=8)
    team.wait(running=0, gated=1)
    nowhere = {"metadata": {"labels": {names.QUEUE_LABEL: None}}}
    assert "field is immutable: pods that come later" in team.refuses(nowhere)
    team.queue("default")
    waiting.until(
        lambda: "default" in {one["metadata"]["labels"][names.QUEUE_LABEL] for one in team.held()},
        what="a pod waits in the other queue",
    )
    smaller = make_pod(gpus=1, terminationGracePeriodSeconds=0)["spec"]["containers"]
    team.patch({"spec": {"template": {"spec": {"containers": smaller}}}})
    waiting.until(lambda: team.get()["status"].get("readyReplicas") == 1, what="a pod is ready")
    text = team.refuses({"metadata": {"labels": {names.QUEUE_LABEL: "other"}}})
    assert f"metadata.labels[{names.QUEUE_LABEL}]: Invalid value: " in text
    assert "field is immutable" in text


def test_what_puts_pods_into_the_queue_cannot_be_taken_off_the_template(team: Team) -> None:
    team.create(4)
    team.wait(running=4)
    keys = (names.QUEUE_LABEL, names.MANAGED_LABEL)
    annotation = {"annotations": {names.POD_SUSPENDING_PARENT: None}}
    change = {"labels": dict.fromkeys(keys), **annotation}
    kept = team.patch({"spec": {"replicas": 6, "template": {"metadata": change}}})
    assert kept["spec"]["template"]["metadata"]["labels"][names.QUEUE_LABEL] == "other"
    elsewhere = {"labels": {names.QUEUE_LABEL: "default"}}
    kept = team.patch({"spec": {"template": {"metadata": elsewhere}}})
    assert kept["spec"]["template"]["metadata"]["labels"][names.QUEUE_LABEL] == "other"
    team.wait(running=4, gated=2)


def rolls_out(team: Team, strategy: Json) -> None:
    """Bring out another image with a strategy, and wait until nothing of the old one is left."""
    (container,) = team.get()["spec"]["template"]["spec"]["containers"]
    image = {**container, "image": f"serve:{strategy['type']}"}
    template = {"spec": {"containers": [image]}}
    team.patch({"spec": {"strategy": strategy, "template": template}})
    waiting.until(
        lambda: (
            [one["spec"]["containers"][0]["image"] for one in team.at_work()]
            == [image["image"]] * 2
        ),
        what=f"both pods run with {strategy}",
    )


def test_a_rollout_within_its_quota_loses_none_of_it_to_those_who_wait(team: Team) -> None:
    team.create(gpus=2)
    team.wait(running=2)
    contender = make_pod("contender", gpus=1, labels={names.QUEUE_LABEL: "other"})
    team.editor.post(team.pods, contender)
    team.wait(running=2, gated=1)
    rolls_out(team, {"type": "Recreate", "rollingUpdate": None})
    assert team.system.is_gated(team.name, "contender")
    rolling = {"maxSurge": 0, "maxUnavailable": 1}
    rolls_out(team, {"type": "RollingUpdate", "rollingUpdate": rolling})
    assert team.system.is_gated(team.name, "contender")
    team.scale(1)
    team.system.wait_released(team.name, "contender")
    assert len(team.admitted()) == 2


def test_a_rollout_on_a_full_quota_goes_on_with_surge_quota(team: Team) -> None:
    queue = f"{KUEUE}/clusterqueues/{team.name}"

    def surge_quota(text: str | None) -> None:
        team.api.patch(queue, {"metadata": {"annotations": {names.SURGE_QUOTA: text}}})

    with pytest.raises(RestError, match=r"has no quota for nvidia.com/gpu in flavor other"):
        surge_quota(f"{team.name}/nvidia.com/gpu=2,other/nvidia.com/gpu=1")
    team.create(gpus=2)
    team.wait(running=2)
    contender = make_pod("contender", gpus=1, labels={names.QUEUE_LABEL: "other"})
    team.editor.post(team.pods, contender)
    team.wait(running=2, gated=1)
    surge_quota(f"{team.name}/nvidia.com/gpu=2")
    rolls_out(team, {"type": "RollingUpdate", "rollingUpdate": None})
    assert team.system.is_gated(team.name, "contender")
    waiting.until(
        lambda: all(
            one["status"] == "False"
            for workload in team.admitted()
            for one in workload["status"]["conditions"]
            if one["type"] == conditions.USES_SURGE_QUOTA
        ),
        what="no surge quota is in use",
    )
    assert len(team.admitted()) == 2
    (one, _) = team.admitted()
    forged = {"status": {"conditions": [{"type": conditions.USES_SURGE_QUOTA, "status": "True"}]}}
    with pytest.raises(RestError) as refused:
        team.editor.patch(f"{team.workloads}/{one['metadata']['name']}/status", forged)
    assert refused.value.status == 403
    team.scale(1)
    team.system.wait_released(team.name, "contender")


def test_a_pod_that_comes_in_place_of_a_preempted_one_remembers_the_preemptor(
    system: Installed, editor: Rest
) -> None:
    team = Team(system, editor, quota=1, preemption={"withinClusterQueue": "LowerPriority"})
    team.create(1, queue="default")
    team.wait(running=1)
    made = make_pod("high", gpus=1, labels={names.PRIORITY_CLASS_LABEL: "high"})
    uid = editor.post(team.pods, made)["metadata"]["uid"]
    waiting.until(
        lambda: [one["metadata"]["uid"] for one in team.at_work()] == [uid], what="it is preempted"
    )

    def waiting_workloads() -> list[Json]:
        """The Workload of the pod that its ReplicaSet made instead."""
        uids = {one["metadata"]["uid"] for one in team.held()}
        found = system.api.get(team.workloads)["items"]
        return [one for one in found if one["metadata"]["ownerReferences"][0]["uid"] in uids]

    (waits,) = waiting.until(waiting_workloads, what="the Workload of the pod that comes instead")
    told = json.loads(waits["metadata"]["annotations"][names.PREEMPTED_BY])
    assert told["by"] == [[f"{team.name}/{uid}", 1]]
    path = f"{team.workloads}/{waits['metadata']['name']}"
    with pytest.raises(RestError) as refused:
        editor.patch(path, {"metadata": {"annotations": {names.PREEMPTED_BY: None}}})
    assert refused.value.status == 403


def test_a_pod_forged_as_one_of_a_parent_gets_nothing_without_quota(team: Team) -> None:
    team.create(4)
    team.wait(running=4)
    forged = {names.POD_SUSPENDING_PARENT: "deployment"}
    pod = make_pod("forged", gpus=1, annotations=forged, labels={names.QUEUE_LABEL: "other"})
    team.editor.post(team.pods, pod)
    team.system.wait_condition(team.name, "forged", "WaitingForQuota")
    assert team.system.is_gated(team.name, "forged")
    with pytest.raises(RestError):
        team.editor.patch(f"{team.pods}/forged", {"spec": {"schedulingGates": None}})
    team.scale(3)
    team.system.wait_released(team.name, "forged")


@contextmanager
def stopped(system: Installed) -> Iterator[None]:
    """The webhook and the controller are away."""
    system.stop()
    try:
        yield
    finally:
        system.start()


def test_other_deployments_notice_nothing_while_the_webhook_is_away(team: Team) -> None:
    team.create(1)
    team.wait(running=1)
    plain = team.manifest(1, queue="", gpus=0)
    plain["metadata"]["name"] = "plain"
    with stopped(team.system):
        team.editor.post(team.path, plain)
        team.editor.patch(f"{team.path}/plain", {"spec": {"replicas": 2}})
        team.patch({"metadata": {"annotations": {"note": "an annotation of one in a queue"}}})
        with pytest.raises(RestError, match="failed calling webhook"):
            team.patch({"spec": {"replicas": 2}})


# ----------------------------------------------------------------------------------- StatefulSets


class Sets(Team):
    """A namespace with quota for four GPUs and StatefulSets in it."""

    plural = "statefulsets"

    def workload(self) -> Json | None:
        """The Workload of the only StatefulSet."""
        items: list[Json] = self.api.get(self.workloads)["items"]
        return items[0] if items else None

    def wait_settled(self) -> None:
        """Wait until the StatefulSet's controller has seen that its pods are ready."""
        waiting.until(
            lambda: self.get()["status"].get("readyReplicas", 0) == self.get()["spec"]["replicas"],
            what="all pods are ready",
        )


@pytest.fixture
def sets(system: Installed, editor: Rest) -> Sets:
    return Sets(system, editor)


def test_the_stateful_set_of_kueues_documentation_is_admitted_as_one(
    system: Installed, editor: Rest
) -> None:
    team = Sets(system, editor)
    queue = f"{KUEUE}/clusterqueues/{team.name}"
    few, enough = ([make_group({team.name: {"cpu": cpu}})] for cpu in ("250m", "300m"))
    system.api.patch(queue, {"spec": {"resourceGroups": few}})
    system.add_local_queue(team.name, team.name, "user-queue")
    system.wait_for_queue(team.name, "user-queue")
    created = editor.post(team.path, copy.deepcopy(REPLICATED))
    waiting.until(team.workload, what="a Workload is made")
    team.wait(running=0, gated=1)
    system.api.patch(queue, {"spec": {"resourceGroups": enough}})
    team.wait(running=3)
    (workload,) = team.admitted()
    metadata, name = workload["metadata"], created["metadata"]["name"]
    assert metadata["name"].startswith(f"statefulset-{name}-")
    assert metadata["annotations"][names.IS_GROUP_WORKLOAD] == "true"
    assert [(one["name"], one["count"]) for one in workload["spec"]["podSets"]] == [("main", 3)]
    assert ("StatefulSet", name) in {
        (one["kind"], one["name"]) for one in metadata["ownerReferences"]
    }
    for pod in team.alive():
        said = pod["metadata"]["annotations"]
        assert said[names.POD_GROUP_NAME] == metadata["name"]
        assert said[names.POD_GROUP_TOTAL_COUNT] == "3"
        assert said[names.POD_GROUP_FAST_ADMISSION] == said[names.POD_GROUP_SERVING] == "true"
        assert said[names.POD_SUSPENDING_PARENT] == "statefulset"
        assert said[names.ROLE_HASH] == "main"
        assert "finalizers" not in pod["metadata"]


def test_a_stateful_set_scales_to_zero_and_back_to_another_number(sets: Sets) -> None:
    sets.create(4)
    sets.wait(running=4)
    assert "field is immutable" in sets.refuses({"spec": {"replicas": 3}})
    sets.scale(0)
    waiting.until(lambda: sets.workload() is None, what="the Workload is gone with its quota")
    sets.scale(2)
    sets.wait(running=2)
    (workload,) = sets.admitted()
    assert [one["count"] for one in workload["spec"]["podSets"]] == [2]


def test_a_stateful_set_scaled_back_before_its_pods_have_ended_keeps_its_workload(
    sets: Sets,
) -> None:
    sets.create(3)
    sets.wait(running=3)
    (before,) = sets.admitted()
    pod = f"/api/v1/namespaces/{sets.name}/pods/{sets.alive()[0]['metadata']['name']}"
    sets.api.patch(pod, {"metadata": {"finalizers": ["example.com/ends-later"]}})
    sets.scale(0)
    waiting.until(lambda: not sets.alive(), what="all pods are ending")
    sets.scale(1)
    sets.api.patch(pod, {"metadata": {"finalizers": None}})
    sets.wait(running=1)
    (after,) = sets.admitted()
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert [one["count"] for one in after["spec"]["podSets"]] == [3]
    sets.scale(0)
    waiting.until(lambda: sets.workload() is None, what="the Workload is gone with its quota")
    sets.scale(1)
    sets.wait(running=1)
    (anew,) = sets.admitted()
    assert [one["count"] for one in anew["spec"]["podSets"]] == [1]


def test_pods_that_a_scale_adds_to_an_admitted_stateful_set_wait(sets: Sets) -> None:
    sets.create(2)
    sets.wait(running=2)
    sets.wait_settled()
    sets.scale(3)
    sets.wait(running=2, gated=1)
    (extra,) = sets.held()
    said = waiting.until(
        lambda: sets.system.condition(sets.name, extra["metadata"]["name"]), what="it says why"
    )
    assert said["reason"] == "ScaledWhileAdmitted"
    assert "was admitted with 2 pods; scale it to 0" in said["message"]
    assert sets.held()[0]["metadata"]["uid"] == extra["metadata"]["uid"]
    sets.scale(0)
    waiting.until(lambda: sets.workload() is None, what="the Workload is gone with its quota")
    sets.scale(3)
    sets.wait(running=3)


def test_the_last_pod_of_a_stateful_set_is_replaced_within_its_quota(sets: Sets) -> None:
    sets.create(1, gpus=4)
    sets.wait(running=1)
    sets.wait_settled()
    (before,) = sets.at_work()
    contender = make_pod("contender", gpus=1, labels={names.QUEUE_LABEL: "other"})
    sets.editor.post(sets.pods, contender)
    image = [{"name": "main", "image": "serve:2"}]
    sets.patch({"spec": {"template": {"spec": {"containers": [
        {**sets.get()["spec"]["template"]["spec"]["containers"][0], **image[0]}
    ]}}}})  # fmt: skip
    waiting.until(
        lambda: [one["spec"]["containers"][0]["image"] for one in sets.at_work()] == ["serve:2"],
        what="the pod of the new revision runs",
    )
    assert before["metadata"]["uid"] not in {one["metadata"]["uid"] for one in sets.alive()}
    assert sets.system.is_gated(sets.name, "contender")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_of_a_stateful_set_is_replaced_however_it_ended(sets: Sets, phase: str) -> None:
    sets.create(2)
    sets.wait(running=2)
    ended = sets.at_work()[0]["metadata"]
    sets.api.patch(f"{sets.pods}/{ended['name']}/status", {"status": {"phase": phase}})
    waiting.until(
        lambda: ended["uid"] not in {one["metadata"]["uid"] for one in sets.alive()},
        what="its controller makes another pod",
    )
    sets.wait(running=2)
    (workload,) = sets.admitted()
    assert json.loads(workload["metadata"]["annotations"][names.GROUP_MEMBERS]) == {}


def test_a_stateful_set_that_lost_its_workload_and_a_pod_at_once_runs_whole_again(
    sets: Sets,
) -> None:
    sets.create(3)
    sets.wait(running=3)
    (before,) = sets.admitted()
    lost = sets.at_work()[1]["metadata"]
    sets.api.delete(f"{sets.pods}/{lost['name']}", {"gracePeriodSeconds": 0})
    sets.api.delete(f"{sets.workloads}/{before['metadata']['name']}")
    sets.wait(running=3)
    (after,) = sets.admitted()
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert [one["count"] for one in after["spec"]["podSets"]] == [3]


def test_what_the_workload_of_a_stateful_set_was_made_for_is_fixed(sets: Sets) -> None:
    sets.create(2)
    sets.wait(running=2)
    more = make_pod(gpus=2)["spec"]["containers"]
    change = {"spec": {"template": {"spec": {"containers": more}}}}
    text = sets.refuses(change)
    assert "spec.template.spec.containers: Invalid value: field is immutable" in text
    text = sets.refuses({"metadata": {"labels": {names.QUEUE_LABEL: None}}})
    assert f"metadata.labels[{names.QUEUE_LABEL}]" in text
    sets.scale(0)
    waiting.until(lambda: not sets.get()["status"].get("replicas"), what="all pods are gone")
    sets.patch(change)
    sets.scale(2)
    sets.wait(running=2)
    (workload,) = sets.admitted()
    usage = workload["status"]["admission"]["podSetAssignments"][0]["resourceUsage"]
    assert usage[names.GPU_RESOURCE] == "4"


def test_a_stateful_set_that_waits_moves_to_another_queue(sets: Sets) -> None:
    sets.create(2, gpus=8)
    waiting.until(sets.workload, what="a Workload is made")
    sets.queue("default")
    waiting.until(
        lambda: (sets.workload() or {"spec": {}})["spec"].get("queueName") == "default",
        what="the Workload follows",
    )
    waiting.until(
        lambda: (
            {one["metadata"]["labels"][names.QUEUE_LABEL] for one in sets.held()} == {"default"}
        ),
        what="the pods follow",
    )


def test_a_pod_forged_as_one_of_a_stateful_set_runs_only_in_its_quota(sets: Sets) -> None:
    created = sets.create(4)
    sets.wait(running=4)
    reference = {
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "serve", "controller": True,
        "uid": created["metadata"]["uid"],
    }  # fmt: skip
    parent = {names.POD_SUSPENDING_PARENT: "statefulset"}
    for name, references in (("fifth", [reference]), ("lost", [])):
        pod = make_pod(
            name,
            gpus=1,
            annotations=parent,
            labels={names.QUEUE_LABEL: "other"},
            metadata={"ownerReferences": references},
        )
        sets.editor.post(sets.pods, pod)
    sets.system.wait_condition(sets.name, "lost", "WaitsForOwner")
    assert sets.system.is_gated(sets.name, "lost")
    assert len(sets.at_work()) == 4


def test_the_workload_of_a_stateful_set_goes_with_it(sets: Sets) -> None:
    sets.create(2)
    sets.wait(running=2)
    sets.editor.delete(f"{sets.path}/serve", {"propagationPolicy": "Background"})
    waiting.until(lambda: sets.workload() is None, what="the Workload is gone")


# ------------------------------------------------------------------------------- LeaderWorkerSets

OPERATOR = "system:serviceaccount:lws-system:lws-controller-manager"
SIZE = 3


@pytest.fixture(scope="module")
def operator(system: Installed) -> Rest:
    """The user under which the controller of LeaderWorkerSets runs."""
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete"]}]
    system.api.post(f"{RBAC}/clusterroles", {"metadata": {"name": "lws"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "lws"}
    subject = {"kind": "User", "name": OPERATOR}
    binding = {"metadata": {"name": "lws"}, "roleRef": reference, "subjects": [subject]}
    system.api.post(f"{RBAC}/clusterrolebindings", binding)
    rules = [{"apiGroups": ["leaderworkerset.x-k8s.io"], "resources": ["*"], "verbs": ["*"]}]
    role = {"metadata": {"name": "lws-editor"}, "rules": rules}
    system.api.post(f"{RBAC}/clusterroles", role)
    bound = {
        "metadata": {"name": "lws-editor"},
        "roleRef": {**reference, "name": "lws-editor"},
        "subjects": [{"kind": "User", "name": "editor"}],
    }
    system.api.post(f"{RBAC}/clusterrolebindings", bound)
    system.cluster.wait_for_roles()
    return system.cluster.client(system.cluster.kubeconfig(OPERATOR))


class Replicated(Team):
    """A namespace with quota for four GPUs, LeaderWorkerSets, and a stand-in for their operator.

    It makes pods with the labels and annotations of the real one, without StatefulSets between.
    """

    plural = "leaderworkersets"
    group = "leaderworkerset.x-k8s.io/v1"

    def __init__(
        self, system: Installed, editor: Rest, operator: Rest, quota: int = 4, **queue: Any
    ) -> None:
        super().__init__(system, editor, quota, **queue)
        self.operator = operator

    @override
    def manifest(self, replicas: int = 2, *, queue: str = "other", gpus: int = 1) -> Json:
        spec = make_pod(gpus=gpus, terminationGracePeriodSeconds=0)["spec"]
        labels = {names.QUEUE_LABEL: queue} if queue else {}
        return {
            "apiVersion": self.group,
            "kind": "LeaderWorkerSet",
            "metadata": {"name": "serve", "labels": labels},
            "spec": {
                "replicas": replicas,
                "leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": spec}},
            },
        }

    def make_pods(self, name: str = "serve", *replicas: int) -> None:
        """Make the pods of replicas, as their controller would."""
        owner = self.api.get(f"{self.path}/{name}")
        template = owner["spec"]["leaderWorkerTemplate"]
        for replica in replicas or range(owner["spec"]["replicas"]):
            for place in range(template["size"]):
                of = template["workerTemplate"]
                if not place:
                    of = template.get("leaderTemplate", of)
                metadata = of.get("metadata", {})
                pod_name = f"{name}-{replica}" + (f"-{place}" if place else "")
                annotations = dict(metadata.get("annotations", {}))
                if place:
                    annotations["leaderworkerset.sigs.k8s.io/leader-name"] = f"{name}-{replica}"
                labels = {
                    **metadata.get("labels", {}),
                    "leaderworkerset.sigs.k8s.io/name": name,
                    "leaderworkerset.sigs.k8s.io/group-index": str(replica),
                    "leaderworkerset.sigs.k8s.io/worker-index": str(place),
                }
                made = {"name": pod_name, "labels": labels, "annotations": annotations}
                self.operator.post(self.pods, {"metadata": made, "spec": of["spec"]})


@pytest.fixture
def replicated(system: Installed, editor: Rest, operator: Rest) -> Replicated:
    return Replicated(system, editor, operator)


def test_each_replica_of_the_leader_worker_set_of_kueues_documentation_is_admitted_whole(
    system: Installed, editor: Rest, operator: Rest
) -> None:
    team = Replicated(system, editor, operator)
    queue = f"{KUEUE}/clusterqueues/{team.name}"
    one, both = ([make_group({team.name: {"cpu": cpu}})] for cpu in ("900m", "1"))
    system.api.patch(queue, {"spec": {"resourceGroups": one}})
    system.add_local_queue(team.name, team.name, "user-queue")
    system.wait_for_queue(team.name, "user-queue")
    name = "web"
    identity = {"apiVersion": team.group, "kind": "LeaderWorkerSet"}
    editor.post(team.path, {**identity, **copy.deepcopy(LEADER_AND_WORKERS)})
    team.make_pods(name)
    team.wait(running=3, gated=3)
    (workload,) = team.admitted()
    metadata = workload["metadata"]
    assert metadata["name"].startswith(f"leaderworkerset-{name}-")
    found = editor.get(f"{team.path}/{name}")["metadata"]["uid"]
    assert metadata["labels"][names.JOB_UID_LABEL] == found
    said = metadata["annotations"]
    assert said[names.JOB_OWNER_GVK] == "leaderworkerset.x-k8s.io/v1, Kind=LeaderWorkerSet"
    assert (said[names.JOB_OWNER_NAME], said[names.COMPONENT_INDEX]) in {(name, "0"), (name, "1")}
    pod_sets = [(one["name"], one["count"]) for one in workload["spec"]["podSets"]]
    assert pod_sets == [("leader", 1), ("worker", 2)]
    indexes = {
        one["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"]
        for one in team.at_work()
    }
    assert len(indexes) == 1
    system.api.patch(queue, {"spec": {"resourceGroups": both}})
    team.wait(running=6)
    said = team.at_work()[0]["metadata"]["annotations"]
    assert said[names.POD_GROUP_TOTAL_COUNT] == "3"
    assert said[names.POD_GROUP_SERVING] == "true"
    assert said[names.POD_SUSPENDING_PARENT] == "leaderworkerset.x-k8s.io/leaderworkerset"


def test_a_replica_of_a_leader_worker_set_holds_nothing_while_pods_of_it_are_missing(
    replicated: Replicated,
) -> None:
    replicated.create(1)
    replicated.make_pods()
    replicated.wait(running=2)
    (workload,) = replicated.admitted()
    assert [one["name"] for one in workload["spec"]["podSets"]] == ["main"]


def test_a_replica_that_is_made_anew_keeps_its_quota_and_one_that_is_not_wanted_gives_it_back(
    replicated: Replicated,
) -> None:
    replicated.create(2)
    replicated.make_pods()
    replicated.wait(running=4)
    contender = make_pod("contender", gpus=1, labels={names.QUEUE_LABEL: "default"})
    replicated.editor.post(replicated.pods, contender)
    replicated.system.wait_condition(replicated.name, "contender")
    for pod in ("serve-1", "serve-1-1"):
        replicated.operator.delete(f"{replicated.pods}/{pod}", {"gracePeriodSeconds": 0})
    replicated.wait(running=2, gated=1)
    replicated.make_pods("serve", 1)
    replicated.wait(running=4, gated=1)
    replicated.patch({"spec": {"replicas": 1}})
    for pod in ("serve-1", "serve-1-1"):
        replicated.operator.delete(f"{replicated.pods}/{pod}", {"gracePeriodSeconds": 0})
    replicated.system.wait_released(replicated.name, "contender")
    assert len(replicated.admitted()) == 2


def test_what_workloads_of_a_leader_worker_set_were_made_for_is_fixed(
    replicated: Replicated,
) -> None:
    replicated.create(1)
    larger = {"spec": {"leaderWorkerTemplate": {"size": 3}}}
    text = replicated.refuses(larger)
    assert "spec.leaderWorkerTemplate.size: Invalid value: 3: field is immutable" in text
    more = make_pod(gpus=2)["spec"]
    text = replicated.refuses(
        {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": more}}}}
    )
    assert "spec.leaderWorkerTemplate.workerTemplate.spec.containers: Invalid" in text
    text = replicated.refuses(
        {"spec": {"leaderWorkerTemplate": {"leaderTemplate": {"spec": more}}}}
    )
    assert "spec.leaderWorkerTemplate.leaderTemplate: Invalid" in text
    text = replicated.refuses({"spec": {"startupPolicy": "LeaderReady"}})
    assert "spec.startupPolicy: Invalid" in text
    assert "must be LeaderCreated in a queue" in text
    replicated.patch({"spec": {"replicas": 5}})
