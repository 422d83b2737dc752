"""Owners whose kind is a row on a real API server: held, admitted, started, stopped, protected.

A stand-in for each operator makes the pods, as the user under which the real one runs.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.base import names
from admission.config.added_owner_kinds import OwnerKind
from admission.objects import owner_rows
from admission.objects.owner_rows import Row
from admission.owners import row_owner
from tests.builders.pods import make_pod
from tests.config.files import gpu
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import JSON_PATCH, Rest, RestError
from tests.integration import owner_crds, snapshot
from tests.integration.applied import Json, Workloads
from tests.integration.installed import Installed
from tests.owners import samples

pytestmark = pytest.mark.controlplane

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADDED = [OwnerKind.model_validate(kind).row() for kind in samples.ADDED]
LONG = 64
CONTROLLERS = {
    one.framework: [f"system:serviceaccount:test:{one.kind.lower()}"]
    for one in owner_rows.ROWS
    if any(len(user) > LONG for user in one.makers)
}
"""Users in place of those whose names are too long for a client certificate."""

ROWS = {
    one.kind: replace(one, makers=frozenset(CONTROLLERS.get(one.framework, one.makers)))
    for one in (*owner_rows.ROWS, *ADDED)
}
EVERY = pytest.mark.parametrize("kind", sorted(ROWS))
EVERYTHING = ["create", "delete", "get", "list", "patch", "update", "watch"]


def allow(cluster: Cluster, user: str, *groups: str) -> Rest:
    """A client of a user who may do everything with the objects of some groups."""
    name = user.replace(":", "-")
    rules = [{"apiGroups": list(groups), "resources": ["*"], "verbs": EVERYTHING}]
    cluster.api.post(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"kind": "User", "name": user}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    cluster.api.post(f"{RBAC}/clusterrolebindings", binding)
    return cluster.client(cluster.kubeconfig(user))


class System:
    """An installation that serves every row, one who may edit, and the operators."""

    def __init__(self, it: Installed) -> None:
        self.installed = it
        groups = sorted({one.group for one in ROWS.values()})
        self.editor = allow(it.cluster, "editor", "", "batch", *groups)
        users = {user for one in ROWS.values() for user in one.makers}
        users.add("system:serviceaccount:kube-system:job-controller")
        self.makers = {
            user: allow(it.cluster, user, "", "batch", *groups) for user in sorted(users)
        }
        it.cluster.wait_for_roles()

    def maker(self, row: Row) -> Rest:
        """The client of the operator of a kind."""
        return self.makers[min(row.makers)]


@contextmanager
def serving(folder: Path) -> Iterator[System]:
    """A cluster with an installation that serves every row."""
    with snapshot.prepared(folder, Installed) as it:
        owner_crds.install(it.cluster, *ROWS.values())
        config = it.folder / "config.yaml"
        chosen = gpu(owners=list(samples.ADDED), ownerControllers=CONTROLLERS)
        config.write_text(yaml.safe_dump(chosen))
        it.install("--config", str(config))
        it.start("--config", str(config))
        yield System(it)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with serving(tmp_path_factory.mktemp("owners")) as found:
        yield found


class Owners:
    """Owners of one kind in the namespace of a team."""

    def __init__(self, system: System, kind: str, quota: int, **spec: Any) -> None:
        self.system, self.row = system, ROWS[kind]
        self.api, self.editor = system.installed.api, system.editor
        self.team = system.installed.add_team(quota, **spec)
        self.path = f"/apis/{self.row.api_version}/namespaces/{self.team}/{self.row.plural}"
        self.workloads = Workloads(system.installed, self.team)
        self.sample = samples.of(self.row)

    def manifest(self, name: str = "train", gpus: int | None = 1) -> Json:
        """The sample with GPUs in each container; without any where None."""
        found = copy.deepcopy(self.sample.manifest)
        found["metadata"]["name"] = name
        for template in self.templates(found):
            for container in template["spec"]["containers"]:
                limits = {} if gpus is None else {names.GPU_RESOURCE: gpus}
                container["resources"] = {"limits": limits}
        return found

    def templates(self, owner: Json) -> list[Json]:
        """Its pod templates, with what stands beside them."""
        return [
            row_owner.with_given(row_owner.template_at(*one).value, one[0].given)
            for one in row_owner.members(self.row, owner)
        ]

    def marks(self, owner: Json) -> list[Json]:
        """The annotations of each pod template of one that was admitted."""
        beside = [
            given["annotations"]
            for component in owner["spec"].get("components", ())
            for given in component.get("podSetInfos", ())
        ]
        return beside or [one["metadata"]["annotations"] for one in self.templates(owner)]

    def create(self, name: str = "train", gpus: int | None = 1, **metadata: Any) -> Json:
        manifest = self.manifest(name, gpus)
        manifest["metadata"] |= metadata
        return self.editor.post(self.path, manifest)

    def get(self, name: str = "train") -> Json:
        return self.api.get(f"{self.path}/{name}")

    def patch(self, change: Json, name: str = "train", by: Rest | None = None) -> Json:
        return (by or self.editor).patch(f"{self.path}/{name}", change)

    def refuses(self, change: Json, name: str = "train") -> str:
        """What is said to the editor's change, which must be refused."""
        with pytest.raises(RestError) as refused:
            self.patch(change, name)
        assert refused.value.status == 403, refused.value
        return str(refused.value)

    def is_suspended(self, name: str = "train") -> bool:
        return owner_rows.value_at(self.get(name), self.row.suspend) is True

    def suspend(self, *, value: bool) -> Json:
        """The change of its switch."""
        *above, switch = self.row.suspend.split(".")
        change: Json = {switch: value}
        for member in reversed(above):
            change = {member: change}
        return change

    def wait_started(self, name: str = "train") -> Json:
        waiting.until(lambda: not self.is_suspended(name), what=f"{name} started")
        return self.get(name)

    def workload(self, name: str = "train") -> str:
        """Name of the one Workload of an owner."""

        def look() -> list[str]:
            return [
                one["metadata"]["name"]
                for one in self.api.get(self.workloads.path)["items"]
                if one["metadata"]["ownerReferences"][0]["name"] == name
            ]

        found = waiting.until(look, what=f"the Workload of {name}")
        assert len(found) == 1, found
        return found[0]

    def say(self, status: Json, name: str = "train") -> None:
        """Writes the whole status, as its operator does."""
        change = [{"op": "add", "path": "/status", "value": status}]
        self.api.patch(f"{self.path}/{name}/status", change, JSON_PATCH)

    def reference(self, name: str = "train") -> Json:
        return {
            "apiVersion": self.row.api_version,
            "kind": self.row.kind,
            "name": name,
            "uid": self.get(name)["metadata"]["uid"],
            "controller": True,
        }

    def make_pod(self, pod: str, at: int = 0, name: str = "train", by: Rest | None = None) -> Json:
        """Creates a pod of a template, as its operator does."""
        template = copy.deepcopy(self.templates(self.get(name))[at])
        metadata = template.get("metadata", {})
        metadata |= {"name": pod, "ownerReferences": [self.reference(name)]}
        document = {"metadata": metadata, "spec": template["spec"]}
        maker = by or self.system.maker(self.row)
        return maker.post(f"/api/v1/namespaces/{self.team}/pods", document)

    @property
    def gpus(self) -> int:
        """GPUs of the sample with one in each pod."""
        return sum(self.sample.pod_sets.values())

    def used(self) -> int:
        """GPUs that are charged to the team's ClusterQueue."""
        found = self.api.get(f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{self.team}")
        (flavor,) = found.get("status", {}).get("flavorsUsage") or [{}]
        listed = flavor.get("resources", ())
        return sum(int(one["total"]) for one in listed if one["name"] == names.GPU_RESOURCE)

    def wait_used(self, gpus: int) -> None:
        """The status of a ClusterQueue is written some time after a decision."""
        waiting.until(lambda: self.used() == gpus, what=f"{gpus} GPUs are charged")

    def cover_cpu(self) -> None:
        """Has the team's ClusterQueue give CPU and memory, too."""
        path = f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{self.team}"
        (group,) = self.api.get(path)["spec"]["resourceGroups"]
        group["coveredResources"] += ["cpu", "memory"]
        for flavor in group["flavors"]:
            flavor["resources"] += [
                {"name": "cpu", "nominalQuota": "100"},
                {"name": "memory", "nominalQuota": "100Gi"},
            ]
        self.api.patch(path, {"spec": {"resourceGroups": [group]}})


@EVERY
def test_it_is_suspended_gets_one_workload_and_starts_with_its_flavor(
    system: System, kind: str
) -> None:
    owners = Owners(system, kind, 100)
    created = owners.create()
    assert owner_rows.value_at(created, owners.row.suspend) is True
    assert created["metadata"]["labels"][names.QUEUE_LABEL] == "default"
    assert created["metadata"]["annotations"][names.REQUESTER] == "editor"
    workload = owners.workload()
    owners.workloads.wait(workload, "Admitted", "True")
    started = owners.wait_started()
    for template in owners.templates(started):
        assert template["spec"]["nodeSelector"]["nvidia.com/gpu.product"] == "A100"
        assert template["metadata"]["annotations"][names.WORKLOAD_ANNOTATION] == workload
        keys = [one["key"] for one in template["spec"]["tolerations"]]
        assert names.GPU_TAINT_KEY in keys
    found = owners.workloads.get(workload)
    sets = {one["name"]: one["count"] for one in found["spec"]["podSets"]}
    assert sets == owners.sample.pod_sets
    assert found["metadata"]["ownerReferences"][0]["kind"] == kind
    assert found["metadata"]["annotations"][names.REQUESTER] == "editor"


@EVERY
def test_what_asks_for_no_gpu_and_names_no_queue_is_left_alone(system: System, kind: str) -> None:
    owners = Owners(system, kind, 0)
    manifest = owners.manifest(gpus=None)
    created = owners.create(gpus=None)
    assert owner_rows.value_at(created, owners.row.suspend) is not True
    assert owners.templates(created) == owners.templates(manifest)
    assert names.QUEUE_LABEL not in created["metadata"].get("labels", {})


@EVERY
def test_one_that_does_not_fit_waits_whole_and_an_eviction_restores_it(
    system: System, kind: str
) -> None:
    owners = Owners(system, kind, 100)
    before = owners.create("first")
    first = owners.workload("first")
    owners.wait_started("first")
    owners.say(owners.sample.running, "first")
    owners.workloads.patch(first, {"active": False})
    waiting.until(lambda: owners.is_suspended("first"), what="suspended")
    assert names.WORKLOAD_ANNOTATION in str(owners.templates(owners.get("first")))
    owners.say(owners.sample.stopped, "first")
    waiting.until(
        lambda: owners.get("first")["spec"] == before["spec"],
        what="restored to what it was before its start",
    )
    owners.workloads.wait(first, "QuotaReserved", "False")
    small = Owners(system, kind, owners.gpus - 1)
    small.create()
    small.workloads.wait(small.workload(), "QuotaReserved", "False")
    assert small.is_suspended()


@EVERY
def test_its_workload_ends_when_it_has_ended(system: System, kind: str) -> None:
    owners = Owners(system, kind, 100)
    if owners.sample.ended is None:
        pytest.skip("it never ends")
    owners.create()
    owners.wait_started()
    owners.say(owners.sample.ended)
    workload = owners.workload()
    owners.workloads.wait(workload, "Finished", "True", "Succeeded")


@EVERY
def test_an_editor_lets_no_more_pods_through_than_were_admitted(system: System, kind: str) -> None:
    owners = Owners(system, kind, 100)
    owners.create()
    started = owners.wait_started()
    bigger = copy.deepcopy(started["spec"])
    for template in owners.templates({"spec": bigger}):
        for container in template["spec"]["containers"]:
            container["resources"]["limits"][names.GPU_RESOURCE] = 8
    assert "was admitted with other pods" in owners.refuses({"spec": bigger})
    forged = copy.deepcopy(started["spec"])
    for annotations in owners.marks({"spec": forged}):
        annotations[names.WORKLOAD_ANNOTATION] = "other"
    assert "only the controller may set it" in owners.refuses({"spec": forged})
    assert "immutable" in owners.refuses({"metadata": {"labels": {names.QUEUE_LABEL: "b"}}})
    stopped = owners.suspend(value=True)
    owners.say(owners.sample.running)
    owners.patch(stopped)
    after = owners.patch(owners.suspend(value=False))
    assert owner_rows.value_at(after, owners.row.suspend) is True


@EVERY
def test_an_editor_makes_no_pod_in_its_name(system: System, kind: str) -> None:
    owners = Owners(system, kind, owners_quota(kind))
    owners.create()
    owners.wait_started()
    forged = owners.make_pod("forged", by=system.editor)
    assert forged["spec"]["schedulingGates"] == [{"name": names.ADMISSION_GATE}]
    assert names.PODSET_LABEL not in forged["metadata"].get("labels", {})
    plain = make_pod("plain", limits={names.GPU_RESOURCE: "1"})
    plain["metadata"]["ownerReferences"] = [owners.reference()]
    made = system.editor.post(f"/api/v1/namespaces/{owners.team}/pods", plain)
    assert made["spec"]["schedulingGates"] == [{"name": names.ADMISSION_GATE}]


CHECKED = pytest.mark.parametrize("kind", sorted(k for k, row in ROWS.items() if row.makers))


@CHECKED
def test_its_operator_makes_no_pod_for_one_that_waits(system: System, kind: str) -> None:
    """Whoever acts as the operator may write the mark of any admission."""
    owners = Owners(system, kind, 0)
    owners.create()
    name = owners.workload()
    document = make_pod("forged", limits={names.GPU_RESOURCE: "1"})
    document["metadata"]["annotations"] = {names.WORKLOAD_ANNOTATION: name}
    document["metadata"]["ownerReferences"] = [owners.reference()]
    made = system.maker(owners.row).post(f"/api/v1/namespaces/{owners.team}/pods", document)
    assert made["spec"]["schedulingGates"] == [{"name": names.ADMISSION_GATE}]
    assert names.WORKLOAD_ANNOTATION not in made["metadata"]["annotations"]


@CHECKED
def test_its_operator_makes_no_pod_for_one_that_is_not_there(system: System, kind: str) -> None:
    owners = Owners(system, kind, owners_quota(kind))
    owners.create()
    owners.wait_started()
    document = make_pod("forged", limits={names.GPU_RESOURCE: "1"})
    document["metadata"]["annotations"] = {names.WORKLOAD_ANNOTATION: owners.workload()}
    document["metadata"]["ownerReferences"] = [{**owners.reference(), "uid": "invented"}]
    made = system.maker(owners.row).post(f"/api/v1/namespaces/{owners.team}/pods", document)
    assert made["spec"]["schedulingGates"] == [{"name": names.ADMISSION_GATE}]


def owners_quota(kind: str) -> int:
    """GPUs of the sample of a kind with one in each pod."""
    return sum(samples.of(ROWS[kind]).pod_sets.values())


@EVERY
def test_a_copy_of_an_admitted_one_is_not_admitted(system: System, kind: str) -> None:
    owners = Owners(system, kind, owners_quota(kind))
    owners.create()
    copied = copy.deepcopy(owners.wait_started())
    copied["metadata"] = {"name": "copy", "annotations": copied["metadata"]["annotations"]}
    made = system.editor.post(owners.path, copied)
    assert names.WORKLOAD_ANNOTATION not in str(made["spec"])
    assert owner_rows.value_at(made, owners.row.suspend) is True


def test_two_gangs_that_do_not_fit_together_run_one_after_the_other(system: System) -> None:
    """Each has four workers of four GPUs, and there are 24 GPUs: none runs with a part of them."""
    owners = Owners(system, "PyTorchJob", 24)

    def gang(name: str) -> None:
        manifest = owners.manifest(name, gpus=4)
        replicas = manifest["spec"]["pytorchReplicaSpecs"]
        del replicas["Master"]
        replicas["Worker"]["replicas"] = 4
        owners.editor.post(owners.path, manifest)

    gang("first")
    owners.wait_started("first")
    gang("second")
    second = owners.workload("second")
    owners.workloads.wait(second, "QuotaReserved", "False")
    for at in range(4):
        pod = owners.make_pod(f"first-worker-{at}", name="first")
        assert "schedulingGates" not in pod["spec"]
        assert names.MANAGED_LABEL not in pod["metadata"]["labels"]
    assert owners.is_suspended("second")
    owners.wait_used(16)
    assert owners.sample.ended is not None
    owners.say(owners.sample.ended, "first")
    owners.workloads.wait(owners.workload("first"), "Finished", "True", "Succeeded")
    for at in range(2):  # the pods hold 16, 12, 8
        assert owners.is_suspended("second")
        path = f"/api/v1/namespaces/{owners.team}/pods/first-worker-{at}"
        owners.api.delete(path, {"gracePeriodSeconds": 0})
    owners.wait_started("second")


def test_one_that_somebody_else_lets_go_stays_suspended_and_its_pods_wait(system: System) -> None:
    owners = Owners(system, "PyTorchJob", 0)
    owners.create()
    owners.workload()
    after = owners.patch(owners.suspend(value=False))
    assert owner_rows.value_at(after, owners.row.suspend) is True
    pod = owners.make_pod("early")
    assert pod["spec"]["schedulingGates"] == [{"name": names.ADMISSION_GATE}]


def test_a_job_of_an_mpijob_is_not_held_a_second_time(system: System) -> None:
    owners = Owners(system, "MPIJob", 100)
    owners.create()
    owners.wait_started()
    launcher, _ = owners.templates(owners.get())
    template = copy.deepcopy(launcher)
    template["spec"]["restartPolicy"] = "Never"
    metadata = {"name": "train-launcher", "ownerReferences": [owners.reference()]}
    job = {"metadata": metadata, "spec": {"template": template}}
    jobs = f"/apis/batch/v1/namespaces/{owners.team}/jobs"
    made = system.maker(owners.row).post(jobs, job)
    assert not made["spec"].get("suspend")
    assert names.QUEUE_LABEL not in made["metadata"].get("labels", {})


def test_a_raycluster_in_a_queue_does_not_scale_by_itself(system: System) -> None:
    owners = Owners(system, "RayCluster", 100)
    manifest = owners.manifest()
    manifest["spec"]["enableInTreeAutoscaling"] = True
    with pytest.raises(RestError) as refused:
        system.editor.post(owners.path, manifest)
    assert "workers that were not admitted would start" in str(refused.value)
    plain = owners.manifest(gpus=None)
    plain["spec"]["enableInTreeAutoscaling"] = True
    system.editor.post(owners.path, plain)


def test_a_raycluster_with_more_workers_waits_for_all_of_them(system: System) -> None:
    owners = Owners(system, "RayCluster", 7)
    owners.create()
    owners.wait_started()
    groups = copy.deepcopy(owners.get()["spec"]["workerGroupSpecs"])
    groups[1]["replicas"] = 3
    assert "was admitted with other pods" in owners.refuses({"spec": {"workerGroupSpecs": groups}})
    owners.patch({"spec": {"workerGroupSpecs": groups, "suspend": True}})

    def waits() -> bool:
        found = owners.api.get(owners.workloads.path)["items"]
        return any(
            (said["type"], said["status"]) == ("QuotaReserved", "False")
            for one in found
            for said in one.get("status", {}).get("conditions", [])
        )

    waiting.until(waits, what="it waits with eight pods")
    groups = copy.deepcopy(owners.get()["spec"]["workerGroupSpecs"])  # without the mark
    groups[1]["replicas"] = 1
    owners.patch({"spec": {"workerGroupSpecs": groups}})
    owners.wait_started()


# --------------------------------------------------------------------------------------- JobSet


def job_of(owners: Owners, name: str, at: int = 0, *, suspend: bool = False) -> Json:
    """A Job of a JobSet, as its controller writes it."""
    listed = owners.get()["spec"]["replicatedJobs"][at]["template"]
    spec = {**copy.deepcopy(listed["spec"]), "suspend": suspend}
    reference = owners.reference()
    return {"metadata": {"name": name, "ownerReferences": [reference]}, "spec": spec}


def test_jobs_of_a_jobset_are_not_held_a_second_time(system: System) -> None:
    owners = Owners(system, "JobSet", 7)
    jobs = f"/apis/batch/v1/namespaces/{owners.team}/jobs"
    owners.create()
    maker = system.maker(owners.row)
    early = maker.post(jobs, job_of(owners, "early", suspend=True))
    assert names.QUEUE_LABEL not in early["metadata"].get("labels", {})
    owners.wait_started()
    labelled = job_of(owners, "train-workers-0", 1)
    labelled["metadata"]["labels"] = {names.QUEUE_LABEL: "default", "app": "train"}
    job = maker.post(jobs, labelled)
    assert job["metadata"]["labels"]["app"] == "train"
    assert job["spec"]["suspend"] is False
    assert names.QUEUE_LABEL not in job["metadata"].get("labels", {})
    assert names.WORKLOAD_ANNOTATION in job["spec"]["template"]["metadata"]["annotations"]
    template = job["spec"]["template"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"]}
    reference = {**owner, "uid": job["metadata"]["uid"], "controller": True}
    pod = {
        "metadata": {**template["metadata"], "name": "a", "ownerReferences": [reference]},
        "spec": template["spec"],
    }
    job_controller = system.makers["system:serviceaccount:kube-system:job-controller"]
    made = job_controller.post(f"/api/v1/namespaces/{owners.team}/pods", pod)
    assert "schedulingGates" not in made["spec"]
    assert len(owners.api.get(owners.workloads.path)["items"]) == 1


def test_a_job_that_only_says_that_it_is_of_a_jobset_is_held_by_itself(system: System) -> None:
    owners = Owners(system, "JobSet", 7)
    jobs = f"/apis/batch/v1/namespaces/{owners.team}/jobs"
    owners.create()
    owners.wait_started()
    forged = system.editor.post(jobs, job_of(owners, "forged", 1))
    assert forged["spec"]["suspend"] is True
    assert names.WORKLOAD_ANNOTATION not in str(forged["spec"])


def test_an_editor_changes_no_job_of_an_admitted_jobset_to_run_more(system: System) -> None:
    owners = Owners(system, "JobSet", 7)
    jobs = f"/apis/batch/v1/namespaces/{owners.team}/jobs"
    owners.create()
    owners.wait_started()
    system.maker(owners.row).post(jobs, job_of(owners, "train-workers-0", 1))
    with pytest.raises(RestError) as refused:
        system.editor.patch(f"{jobs}/train-workers-0", {"spec": {"parallelism": 9}})
    assert "More pods than were admitted would run" in str(refused.value)
    change = {"spec": {"podReplacementPolicy": "TerminatingOrFailed"}}
    with pytest.raises(RestError) as refused:
        system.editor.patch(f"{jobs}/train-workers-0", change)
    assert "podReplacementPolicy" in str(refused.value)


def test_replicas_that_have_succeeded_give_their_quota_back(system: System) -> None:
    owners = Owners(system, "JobSet", 7)
    owners.create()
    owners.wait_started()
    waiting.until(lambda: owners.used() == 7, what="all pods are charged")
    owners.say(owners.sample.running)
    waiting.until(lambda: owners.used() == 4, what="three pods are not charged any more")
