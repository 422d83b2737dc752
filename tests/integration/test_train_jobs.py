"""TrainJobs on a real API server: counted as the JobSet that the trainer makes of a runtime.

A stand-in for Kubeflow's trainer applies the JobSet as the user under which the real one runs;
others make the Jobs and the pods.
"""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from admission.base import names
from admission.objects import owner_rows
from tests.builders.queues import make_group
from tests.config.files import gpu
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import Rest, RestError
from tests.integration import owner_crds, snapshot, teams
from tests.integration.applied import APPLY, Json, Workloads
from tests.integration.installed import KUEUE, Installed
from tests.integration.test_owners import allow

pytestmark = pytest.mark.controlplane

TRAINER = "system:serviceaccount:test:trainer"
JOB_SET = "system:serviceaccount:jobset-system:jobset-controller-manager"
JOBS = "system:serviceaccount:kube-system:job-controller"
GROUPS = ("trainer.kubeflow.org", "jobset.x-k8s.io", "batch", "")
(JOB_SET_ROW,) = (one for one in owner_rows.ROWS if one.kind == "JobSet")
ENDED = {
    "conditions": [
        {
            "type": "Complete",
            "status": "True",
            "reason": "AllJobsCompleted",
            "message": "jobset completed successfully",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
}

TRAIN_JOB = yaml.safe_load("""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: train
  labels: {kueue.x-k8s.io/queue-name: default}
spec:
  runtimeRef: {apiGroup: trainer.kubeflow.org, kind: ClusterTrainingRuntime, name: torch}
  trainer:
    numNodes: 3
    resourcesPerNode:
      requests: {nvidia.com/gpu: "2"}
      limits: {nvidia.com/gpu: "2"}
""")

RUNTIME = yaml.safe_load("""
replicatedJobs:
- name: dataset-initializer
  replicas: 1
  template:
    spec:
      template:
        spec:
          containers: [{name: dataset-initializer, image: initializer}]
- name: node
  replicas: 1
  template:
    metadata:
      labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}
    spec:
      template:
        spec:
          tolerations: [{key: spot, operator: Exists}]
          containers: [{name: node, image: train}]
""")
"""The spec of the JobSet in a runtime."""


IS_SUSPENDED = "object.spec.?suspend.orValue(false)"
PATCHES = "spec.?runtimePatches.orValue([])"
NO_START = "no-start"
RULES = {
    "RuntimePatches can only be modified when the TrainJob is suspended": (
        f"{IS_SUSPENDED} || object.{PATCHES} == oldObject.{PATCHES}"
    ),
    "not now": (f"{IS_SUSPENDED} || !('{NO_START}' in object.metadata.?labels.orValue({{}}))"),
}
"""Which updates are refused: the first as by the trainer v2.2.0, the second for a test."""


class System:
    """An installation, one who may edit, and the controllers of what is below a TrainJob."""

    def __init__(self, it: Installed) -> None:
        self.installed = it
        self.editor = allow(it.cluster, "editor", *GROUPS)
        self.trainer, self.job_set, self.jobs = (
            allow(it.cluster, user, *GROUPS) for user in (TRAINER, JOB_SET, JOBS)
        )
        it.cluster.wait_for_roles()


def refuse_updates(cluster: Cluster) -> None:
    """Has the API server refuse updates of TrainJobs by `RULES`, and returns when it does."""
    rule = {
        "apiGroups": ["trainer.kubeflow.org"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["trainjobs"],
    }
    checks = [{"expression": check, "message": message} for message, check in RULES.items()]
    metadata, path = {"name": "trainer"}, "/apis/admissionregistration.k8s.io/v1/"
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": checks}
    cluster.api.post(f"{path}validatingadmissionpolicies", {"metadata": metadata, "spec": spec})
    binding = {"policyName": "trainer", "validationActions": ["Deny"]}
    path += "validatingadmissionpolicybindings"
    cluster.api.post(path, {"metadata": metadata, "spec": binding})

    probes = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs"
    probe = {**TRAIN_JOB, "metadata": {"name": "probe", "labels": {NO_START: ""}}}
    probe["spec"] = {"runtimeRef": TRAIN_JOB["spec"]["runtimeRef"], "suspend": True}
    cluster.api.post(probes, probe)

    def is_refused() -> bool:
        try:
            cluster.api.patch(f"{probes}/probe?dryRun=All", {"spec": {"suspend": False}})
        except RestError as refused:
            return "not now" in str(refused)
        return False

    waiting.until(is_refused, what="the policy in force")
    cluster.api.delete(f"{probes}/probe")


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    folder = tmp_path_factory.mktemp("trainjobs")
    with snapshot.prepared(folder, Installed) as it:
        owner_crds.install(it.cluster, owner_rows.TRAIN_JOB, JOB_SET_ROW)
        config = folder / "config.yaml"
        makers = {owner_rows.TRAIN_JOB.framework: [TRAINER]}
        config.write_text(yaml.safe_dump(gpu(ownerControllers=makers)))
        it.install("--config", str(config))
        it.start("--config", str(config))
        refuse_updates(it.cluster)
        yield System(it)


class Team(teams.Team):
    """A namespace with TrainJobs, and the trainer."""

    def __init__(self, system: System, quota: int) -> None:
        super().__init__(system.installed, system.editor, quota)
        self.by = system
        self.said = Workloads(system.installed, self.name)
        self.path = f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{self.name}/trainjobs"
        self.job_sets = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{self.name}/jobsets"
        self.jobs = f"/apis/batch/v1/namespaces/{self.name}/jobs"
        self.runtime = copy.deepcopy(RUNTIME)

    def create(self, name: str = "train", **members: Any) -> Json:
        manifest = copy.deepcopy(TRAIN_JOB)
        manifest["metadata"] |= {"name": name, **members.pop("metadata", {})}
        manifest["spec"] |= members
        return self.editor.post(self.path, manifest)

    def get(self, name: str = "train") -> Json:
        return self.api.get(f"{self.path}/{name}")

    def patch(self, name: str = "train", **spec: Any) -> Json:
        return self.editor.patch(f"{self.path}/{name}", {"spec": spec})

    def refuses(self, **spec: Any) -> str:
        with pytest.raises(RestError) as refused:
            self.patch(**spec)
        assert refused.value.status == 403, refused.value
        return str(refused.value)

    def is_suspended(self, name: str = "train") -> bool:
        return self.get(name)["spec"].get("suspend") is True

    def wait_started(self) -> Json:
        waiting.until(lambda: not self.is_suspended(), what="started")
        return self.get()

    def patches(self) -> list[Json]:
        """What our patch gives to the replicated Jobs of a TrainJob."""
        (own,) = self.get()["spec"]["runtimePatches"]
        assert own["manager"] == "kueue.x-k8s.io/manager"
        template: Json = own["trainingRuntimeSpec"]["template"]
        assert template["metadata"]["labels"] == {names.MADE_FOR: "TrainJob"}
        found: list[Json] = template.get("spec", {}).get("replicatedJobs", [])
        return found

    def reconcile(self, name: str = "train") -> Json:
        """Apply the JobSet, as the trainer does while TrainJob or JobSet is suspended."""
        owner, spec = self.get(name), copy.deepcopy(self.runtime)
        trainer = owner["spec"].get("trainer", {})
        labels: dict[str, str] = {}
        for job in spec["replicatedJobs"]:
            if job["name"] == "node":
                nodes = trainer.get("numNodes", 1)
                job["template"]["spec"] |= {"parallelism": nodes, "completions": nodes}
                (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
                container.setdefault("resources", trainer.get("resourcesPerNode", {}))
        for patch in owner["spec"].get("runtimePatches", ()):
            template = patch["trainingRuntimeSpec"]["template"]
            labels |= template.get("metadata", {}).get("labels", {})
            for change in template.get("spec", {}).get("replicatedJobs", ()):
                (job,) = (o for o in spec["replicatedJobs"] if o["name"] == change["name"])
                pod = job["template"]["spec"]["template"]
                given = change["template"]["spec"]["template"]
                pod["metadata"] = given["metadata"]
                pod["spec"] |= given.get("spec", {})
        reference = self.reference(owner, "trainer.kubeflow.org/v1alpha1", "TrainJob")
        document = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": name, "labels": labels, "ownerReferences": [reference]},
            "spec": {**spec, "suspend": owner["spec"].get("suspend", False)},
        }
        query = "fieldManager=trainer&force=true"
        return self.by.trainer.patch(f"{self.job_sets}/{name}?{query}", document, APPLY)

    def reference(self, owner: Json, version: str, kind: str) -> Json:
        metadata = owner["metadata"]
        named = {"name": metadata["name"], "uid": metadata["uid"]}
        return {"apiVersion": version, "kind": kind, "controller": True, **named}

    def make_job(self, made: Json, at: int) -> Json:
        """A Job of a JobSet, as its controller makes it."""
        template = made["spec"]["replicatedJobs"][at]["template"]
        reference = self.reference(made, "jobset.x-k8s.io/v1alpha2", "JobSet")
        spec = copy.deepcopy(template["spec"])
        spec["template"]["spec"]["restartPolicy"] = "Never"
        metadata = {"name": f"job-{at}", "ownerReferences": [reference]}
        return self.by.job_set.post(self.jobs, {"metadata": metadata, "spec": spec})

    def make_pod(self, job: Json, name: str, by: Rest | None = None, gpus: int = 0) -> Json:
        template = copy.deepcopy(job["spec"]["template"])
        reference = self.reference(job, "batch/v1", "Job")
        metadata = {**template["metadata"], "name": name, "ownerReferences": [reference]}
        if gpus:
            limits = {names.GPU_RESOURCE: str(gpus)}
            template["spec"]["containers"][0]["resources"] = {"limits": limits}
        pod = {"metadata": metadata, "spec": template["spec"]}
        return (by or self.by.jobs).post(self.pods, pod)

    def say(self, status: Json, name: str = "train") -> None:
        """Write the status, as the trainer does."""
        self.api.patch(f"{self.path}/{name}/status", {"status": status})

    def workload(self) -> str:
        def look() -> list[str]:
            return [one["metadata"]["name"] for one in self.api.get(self.workloads)["items"]]

        (found,) = waiting.until(look, what="a Workload")
        return str(found)

    def used(self) -> int:
        found = self.api.get(f"{KUEUE}/clusterqueues/{self.name}")
        (flavor,) = found.get("status", {}).get("flavorsUsage") or [{}]
        return sum(int(one["total"]) for one in flavor.get("resources", ()))


def gpus(amount: int) -> Json:
    asked = {names.GPU_RESOURCE: str(amount)}
    return {"requests": asked, "limits": asked}


def jobs_status(active: int) -> Json:
    listed = [
        {
            "name": name,
            "active": active,
            "ready": active,
            "succeeded": 0,
            "failed": 0,
            "suspended": 0,
        }
        for name in ("dataset-initializer", "node")
    ]
    suspended = {
        "type": "Suspended",
        "status": "False" if active else "True",
        "reason": "Resumed" if active else "Suspended",
        "message": "said by the trainer",
        "lastTransitionTime": f"2026-01-01T00:0{active}:00Z",
    }
    return {"conditions": [suspended], "jobsStatus": listed}


def test_a_trainjob_runs_as_its_jobset_says_and_is_restored_when_it_is_stopped(
    system: System,
) -> None:
    team = Team(system, 6)
    assert team.create()["spec"]["suspend"] is True
    assert team.patches() == []
    made = team.reconcile()
    assert made["spec"]["suspend"] is True
    workload = team.workload()
    assert workload.startswith("trainjob-train-")
    found = team.said.get(workload)
    sets = [(one["name"], one["count"]) for one in found["spec"]["podSets"]]
    assert sets == [("dataset-initializer", 1), ("node", 3)]
    assert found["metadata"]["ownerReferences"][0]["kind"] == "TrainJob"
    assert found["metadata"]["annotations"][names.REQUESTER] == "editor"
    assert found["metadata"]["labels"][names.JOB_UID_LABEL] == team.get()["metadata"]["uid"]

    team.wait_started()
    _, given = team.patches()
    pod = given["template"]["spec"]["template"]
    assert pod["spec"]["nodeSelector"]["nvidia.com/gpu.product"] == "A100"
    assert pod["metadata"]["annotations"][names.WORKLOAD_ANNOTATION] == workload
    made = team.reconcile()
    assert not made["spec"]["suspend"]
    assert names.QUEUE_LABEL not in made["metadata"]["labels"]
    job = team.make_job(made, 1)
    assert not job["spec"].get("suspend")
    for at in range(3):
        created = team.make_pod(job, f"node-{at}")
        assert "schedulingGates" not in created["spec"]
        keys = [one.get("key") for one in created["spec"]["tolerations"]]
        assert {"spot", names.GPU_TAINT_KEY} <= set(keys)
    waiting.until(lambda: team.used() == 6, what="charged once")
    assert len(team.api.get(team.workloads)["items"]) == 1
    team.say(jobs_status(active=1))

    more = {"trainer": {"resourcesPerNode": gpus(8)}}
    assert "was admitted with other pods" in team.refuses(**more)
    replicated = copy.deepcopy(made["spec"]["replicatedJobs"])
    replicated[1]["template"]["spec"] |= {"parallelism": 9, "completions": 9}
    with pytest.raises(RestError) as refused:
        system.editor.patch(f"{team.job_sets}/train", {"spec": {"replicatedJobs": replicated}})
    assert "was admitted with other pods" in str(refused.value)
    with pytest.raises(RestError) as refused:
        team.make_pod(job, "bigger", gpus=8)
    assert "asks for other devices than were admitted" in str(refused.value)
    forged = team.make_pod(job, "forged", by=system.editor)
    assert forged["spec"]["schedulingGates"] == [{"name": names.ADMISSION_GATE}]
    assert names.PODSET_LABEL not in forged["metadata"].get("labels", {})
    team.system.delete_pod(team.name, "forged")
    waiting.until(
        lambda: len(team.api.get(team.workloads)["items"]) == 1, what="its Workload is gone"
    )

    team.said.patch(workload, {"active": False})
    waiting.until(team.is_suspended, what="suspended")
    for at in range(3):
        team.api.delete(f"{team.pods}/node-{at}", {"gracePeriodSeconds": 0})
    team.say(jobs_status(active=0))
    team.reconcile()
    waiting.until(lambda: names.WORKLOAD_ANNOTATION not in str(team.patches()), what="restored")
    team.said.wait(workload, "QuotaReserved", "False")
    team.runtime["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]["containers"][0][
        "resources"
    ] = gpus(4)
    made = team.reconcile()
    assert names.WORKLOAD_ANNOTATION not in str(made)
    team.said.patch(team.workload(), {"active": True})

    def asked() -> str:
        listed = team.api.get(team.workloads)["items"]
        pod_sets = listed[0]["spec"]["podSets"] if listed else []
        (container,) = pod_sets[1]["template"]["spec"]["containers"] if pod_sets else [{}]
        return str(container.get("resources", {}).get("requests", {}).get(names.GPU_RESOURCE))

    waiting.until(lambda: asked() == "4", what="the Workload follows the runtime")
    team.said.wait(team.workload(), "QuotaReserved", "False")
    assert team.is_suspended()
    team.say(ENDED)
    team.said.wait(team.workload(), "Finished", "True", "Succeeded")


def test_a_trainjob_that_may_not_start_yet_follows_what_changes_meanwhile(
    system: System,
) -> None:
    """It is given what its admission gives in a write of its own; others may come after that."""
    team = Team(system, 12)
    team.create(metadata={"labels": {names.QUEUE_LABEL: "default", NO_START: ""}})
    team.reconcile()
    given = waiting.until(team.patches, what="given what its admission gives")
    team.reconcile()
    before = team.workload()
    waiting.until(
        lambda: "not now" in str(team.said.get(before)["status"]), what="the refusal is told"
    )

    (ours,) = team.get()["spec"]["runtimePatches"]
    forged = copy.deepcopy(ours)
    jobs = forged["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    jobs[1]["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"mine": "all"}
    team.patch(runtimePatches=[forged])

    def is_given_again() -> bool:
        team.reconcile()
        return team.patches() == given

    waiting.until(is_given_again, what="given what its admission gives again")

    team.patch(trainer={"resourcesPerNode": gpus(4)})

    def asks_for_more() -> bool:
        team.reconcile()
        listed = team.api.get(team.workloads)["items"]
        return any(
            "'4'" in str(one["spec"]) and one.get("status", {}).get("admission") for one in listed
        )

    waiting.until(asks_for_more, what="admitted with what it asks for now")
    waiting.until(team.patches, what="given that again")
    team.editor.patch(f"{team.path}/train", {"metadata": {"labels": {NO_START: None}}})
    team.wait_started()
    team.reconcile()
    waiting.until(lambda: team.used() == 12, what="charged for what runs")


def test_a_trainjob_without_gpus_waits_for_the_cpus_of_all_its_nodes(system: System) -> None:
    """As in the examples of Kueue's site: a runtime that asks for nothing, and two nodes."""
    team = Team(system, 0)

    def set_quota(cpu: str) -> None:
        groups = [make_group({team.name: {"cpu": cpu, "memory": "36Gi"}})]
        queue = f"{KUEUE}/clusterqueues/{team.name}"
        team.api.patch(queue, {"spec": {"resourceGroups": groups}})

    set_quota("6999m")
    asked = {"cpu": 3.5, "memory": "8Gi"}
    made = team.create(trainer={"numNodes": 2, "resourcesPerNode": {"requests": asked}})
    assert made["spec"]["suspend"] is True
    # The schema of a CRD takes no number with a fraction.
    assert made["spec"]["trainer"]["resourcesPerNode"]["requests"]["cpu"] == "3.5"
    del team.runtime["replicatedJobs"][0]
    team.reconcile()
    name = team.workload()
    assert name.startswith("trainjob-train-")
    said = team.said.wait(name, "QuotaReserved", "False", "ExceedsMaxQuota")
    assert "cpu" in said["message"]
    assert team.is_suspended()
    set_quota("7")
    team.wait_started()
    (assigned,) = team.said.get(name)["status"]["admission"]["podSetAssignments"]
    assert (assigned["name"], assigned["count"]) == ("node", 2)
    assert assigned["resourceUsage"] == {"cpu": "7", "memory": "16Gi"}


def test_a_trainjob_without_a_queue_and_gpus_is_left_alone_until_it_gets_one(
    system: System,
) -> None:
    team = Team(system, 6)
    nothing: Json = {"labels": {}}
    plain = team.create(trainer={"numNodes": 2}, metadata=nothing)
    assert not plain["spec"].get("suspend")
    assert "runtimePatches" not in plain["spec"]
    asking = team.create("asking", metadata=nothing)
    assert asking["spec"]["suspend"] is True
    assert asking["metadata"]["labels"][names.QUEUE_LABEL] == "default"

    team.patch("asking", suspend=False)
    waiting.until(lambda: team.is_suspended("asking"), what="held until its JobSet is known")

    team.reconcile()
    team.patch(suspend=True)
    label = {"metadata": {"labels": {names.QUEUE_LABEL: "default"}}}
    team.editor.patch(f"{team.path}/train", label)
    waiting.until(lambda: "runtimePatches" in team.get()["spec"], what="the JobSet gets a label")
    team.reconcile()
    team.wait_started()


def test_a_copy_of_an_admitted_trainjob_is_not_admitted(system: System) -> None:
    team = Team(system, 6)
    team.create()
    team.reconcile()
    copied = copy.deepcopy(team.wait_started())
    copied["metadata"] = {"name": "copy", "labels": copied["metadata"]["labels"]}
    made = team.editor.post(team.path, copied)
    assert made["spec"]["suspend"] is True
    assert names.WORKLOAD_ANNOTATION not in str(made["spec"])


def test_a_trainjob_whose_jobset_does_not_come_says_so(system: System) -> None:
    team = Team(system, 6)
    team.create()

    def told() -> bool:
        path = f"/apis/events.k8s.io/v1/namespaces/{team.name}/events"
        return any(
            "has not created its JobSet" in one.get("note", "")
            for one in team.api.get(path)["items"]
        )

    waiting.until(told, what="an event that tells of it")
    assert team.api.get(team.workloads)["items"] == []
