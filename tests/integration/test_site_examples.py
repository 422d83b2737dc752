"""Kinds that Kueue's site shows, in the shape of its examples: no GPUs, queued by their label.

The examples are those of site/static/examples of kubernetes-sigs/kueue, with its set-up of one
ClusterQueue for CPU and memory. Those of Deployments, StatefulSets and LeaderWorkerSets are in
test_serving_owners.py, a TrainJob is in test_train_jobs.py, a SparkApplication in
test_spark_applications.py, an AppWrapper of a Deployment in test_appwrappers.py.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from admission.base import names, quantity
from admission.objects import owner_rows
from tests.builders.queues import make_flavor, make_group
from tests.controlplane import waiting
from tests.controlplane.rest import RestError
from tests.gpu import seeds
from tests.integration import applied
from tests.integration.applied import Json, Workloads
from tests.integration.installed import KUEUE
from tests.integration.test_owners import ROWS, System, serving

pytestmark = pytest.mark.controlplane

QUEUE = "user-queue"
GATED = [{"name": names.ADMISSION_GATE}]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with serving(tmp_path_factory.mktemp("site")) as found:
        yield found


def pod(cpu: Any, memory: str = "", *, said: str = "requests", **spec: Any) -> Json:
    """A pod template with one container."""
    amounts = {"cpu": cpu, **({"memory": memory} if memory else {})}
    container = {"name": "main", "image": "train", "resources": {said: amounts}}
    return {"spec": {"containers": [container], **spec}}


def replicas(count: int, template: Json) -> Json:
    return {"replicas": count, "restartPolicy": "OnFailure", "template": template}


def ray(head: Json, worker: Json) -> Json:
    """A Ray cluster of a head and one worker, which may have more."""
    group = {"groupName": "small-group", "replicas": 1, "minReplicas": 1, "maxReplicas": 5}
    return {
        "rayVersion": "2.46.0",
        "headGroupSpec": {"rayStartParams": {}, "template": head},
        "workerGroupSpecs": [{**group, "rayStartParams": {}, "template": worker}],
    }


@dataclass(frozen=True)
class Example:
    """An object of the shape of an example, and what is counted for it.

    Attributes:
        kind: of the object.
        spec: its spec.
        counted: pods, CPU and memory of each of its pod sets, in their order.
        cpu: of all of them, in thousandths.
        named: name or generateName.
        annotations: its annotations.
    """

    kind: str
    spec: Json
    counted: dict[str, tuple[int, str, str]]
    cpu: int
    named: Json = field(default_factory=lambda: {"name": "sample"})
    annotations: Json = field(default_factory=dict)

    @property
    def api(self) -> str:
        return ROWS[self.kind].api_version if self.kind in ROWS else "batch/v1"

    @property
    def plural(self) -> str:
        return f"{self.kind.lower()}s"

    @property
    def switch(self) -> str:
        """The path of what holds it."""
        return ROWS[self.kind].suspend if self.kind in ROWS else "spec.suspend"

    def manifest(self, **named: str) -> Json:
        labels = {names.QUEUE_LABEL: QUEUE}
        own = named or self.named
        return {
            "apiVersion": self.api,
            "kind": self.kind,
            "metadata": {**own, "labels": labels, "annotations": dict(self.annotations)},
            "spec": copy.deepcopy(self.spec),
        }


GENERATED = {"generateName": "sample-"}
SMALL = pod(1, "200Mi")
ONE_OF_EACH = {"Master": replicas(1, pod(1)), "Worker": replicas(1, pod(1))}

EXAMPLES = (
    Example(
        kind="Job",
        named=GENERATED,
        spec={"parallelism": 3, "completions": 3,
              "template": pod("1", "200Mi", restartPolicy="Never")},
        counted={"main": (3, "3", "600Mi")},
        cpu=3000,
    ),
    Example(
        kind="JobSet",
        named=GENERATED,
        spec={"replicatedJobs": [
            {"name": "workers", "replicas": 1,
             "template": {"spec": {"parallelism": 1, "completions": 1, "template": SMALL}}},
            {"name": "driver",
             "template": {"spec": {"parallelism": 1, "completions": 1,
                                   "template": pod(2, "200Mi")}}},
        ]},
        counted={"workers": (1, "1", "200Mi"), "driver": (1, "2", "200Mi")},
        cpu=3000,
    ),
    Example(
        kind="PyTorchJob",
        spec={"pytorchReplicaSpecs": {"Master": replicas(1, SMALL), "Worker": replicas(1, SMALL)}},
        counted={"master": (1, "1", "200Mi"), "worker": (1, "1", "200Mi")},
        cpu=2000,
    ),
    Example(
        kind="TFJob",
        spec={"tfReplicaSpecs": {"PS": replicas(1, SMALL), "Worker": replicas(2, SMALL)}},
        counted={"ps": (1, "1", "200Mi"), "worker": (2, "2", "400Mi")},
        cpu=3000,
    ),
    Example(
        kind="XGBoostJob",
        spec={"xgbReplicaSpecs": {"Master": replicas(1, pod(0.5, "256Mi")),
                                  "Worker": replicas(2, pod(0.5, "256Mi"))}},
        counted={"master": (1, "500m", "256Mi"), "worker": (2, "1", "512Mi")},
        cpu=1500,
    ),
    Example(
        kind="PaddleJob",
        spec={"paddleReplicaSpecs": {"Worker": replicas(2, pod(1, "256Mi"))}},
        counted={"worker": (2, "2", "512Mi")},
        cpu=2000,
    ),
    Example(
        kind="JAXJob",
        spec={"jaxReplicaSpecs": {"Worker": replicas(2, SMALL)}},
        counted={"worker": (2, "2", "400Mi")},
        cpu=2000,
    ),
    Example(
        kind="MPIJob",
        spec={"slotsPerWorker": 1,
              "runPolicy": {"cleanPodPolicy": "Running", "ttlSecondsAfterFinished": 60},
              "mpiReplicaSpecs": {"Launcher": replicas(1, pod(1, "1Gi", said="limits")),
                                  "Worker": replicas(2, pod(1, "1Gi", said="limits"))}},
        counted={"launcher": (1, "1", "1Gi"), "worker": (2, "2", "2Gi")},
        cpu=3000,
    ),
    Example(
        kind="RayCluster",
        spec=ray(pod("1", "2G"), pod("1", "1G")),
        counted={"head": (1, "1", "2G"), "small-group": (1, "1", "1G")},
        cpu=2000,
    ),
    Example(
        kind="RayJob",
        spec={"shutdownAfterJobFinishes": True, "entrypoint": "python train.py",
              "rayClusterSpec": ray(pod("1"), pod("1"))},
        counted={"head": (1, "1", "0"), "small-group": (1, "1", "0"),
                 "submitter": (1, "500m", "200Mi")},
        cpu=2500,
    ),
    Example(
        kind="RayService",
        spec={"serveConfigV2": "applications: []",
              "rayClusterConfig": ray(pod(2, "4Gi"), pod("1", "2Gi"))},
        counted={"head": (1, "2", "4Gi"), "small-group": (1, "1", "2Gi")},
        cpu=3000,
    ),
    Example(
        kind="AppWrapper",
        spec={"components": [{"template": {
            "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "inner"},
            "spec": {"pytorchReplicaSpecs": ONE_OF_EACH},
        }}]},
        counted={"sample-0": (1, "1", "0"), "sample-1": (1, "1", "0")},
        cpu=2000,
    ),
)  # fmt: skip
BY_KIND = {one.kind: one for one in EXAMPLES}
EVERY = pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.kind)


def amounts(cpu: str, memory: str = "0") -> tuple[int, int]:
    """Thousandths of a CPU, and bytes."""
    return quantity.to_canonical("cpu", cpu), quantity.to_canonical("memory", memory)


class Site:
    """A namespace with a queue for CPU and memory."""

    def __init__(self, system: System, quota: Json, queue: str = QUEUE) -> None:
        self.installed, self.api = system.installed, system.installed.api
        self.editor = system.editor
        self.name = self.installed.cluster.create_namespace("site")
        flavor = make_flavor(self.name, node_labels={}, tolerations=[])
        self.api.post(f"{KUEUE}/resourceflavors", flavor)
        self.installed.add_cluster_queue(self.name, quotas={self.name: quota})
        self.installed.add_local_queue(self.name, self.name, queue)
        self.installed.wait_for_queue(self.name, queue)
        self.workloads = Workloads(self.installed, self.name)
        self.pods = f"/api/v1/namespaces/{self.name}/pods"

    def set_quota(self, **quota: str) -> None:
        """Have the ClusterQueue give other amounts."""
        groups = [make_group({self.name: quota})]
        path = f"{KUEUE}/clusterqueues/{self.name}"
        self.api.patch(path, {"spec": {"resourceGroups": groups}})

    def gated(self) -> list[Json]:
        """The pods that wait for quota."""
        return [
            one for one in self.api.get(self.pods)["items"] if one["spec"].get("schedulingGates")
        ]

    def slices(self) -> list[tuple[int, str]]:
        """Pods of each Workload, and whether it is admitted or over."""
        found = []
        for one in self.api.get(self.workloads.path)["items"]:
            said = {c["type"]: c["status"] for c in one.get("status", {}).get("conditions", ())}
            state = next((s for s in ("Finished", "Admitted") if said.get(s) == "True"), "waits")
            found.append((sum(each["count"] for each in one["spec"]["podSets"]), state))
        return sorted(found)

    def path(self, api: str, plural: str) -> str:
        return f"/apis/{api}/namespaces/{self.name}/{plural}"

    def workload(self, owner: Json) -> Json:
        """The one Workload of an owner."""

        def look() -> list[Json]:
            return [
                one
                for one in self.api.get(self.workloads.path)["items"]
                if one["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
            ]

        (found,) = waiting.until(look, what="its Workload")
        return found


class Examples(Site):
    """A namespace with a queue, and objects of the shape of an example."""

    def __init__(self, system: System, example: Example, cpu: int) -> None:
        super().__init__(system, {"cpu": f"{cpu}m", "memory": "36Gi"})
        self.example = example
        self.objects = self.path(example.api, example.plural)

    def create(self, **named: str) -> Json:
        return self.editor.post(self.objects, self.example.manifest(**named))

    def create_suspended(self, name: str) -> Json:
        """Create one that its author suspends."""
        manifest = self.example.manifest(name=name)
        above = manifest
        *steps, switch = self.example.switch.split(".")
        for step in steps:
            above = above.setdefault(step, {})
        above[switch] = True
        return self.editor.post(self.objects, manifest)

    def is_held(self, owner: Json) -> bool:
        found = self.api.get(f"{self.objects}/{owner['metadata']['name']}")
        return owner_rows.value_at(found, self.example.switch) is True

    def wait_started(self, owner: Json) -> None:
        waiting.until(lambda: not self.is_held(owner), what="started")


@EVERY
def test_an_example_is_held_whole_for_cpu_and_memory_and_runs_when_all_of_it_fits(
    system: System, example: Example
) -> None:
    site = Examples(system, example, example.cpu - 1)
    made = site.create()
    assert owner_rows.value_at(made, example.switch) is True
    workload = site.workload(made)
    name = workload["metadata"]["name"]
    assert name.startswith(f"{example.kind.lower()}-{made['metadata']['name']}-")
    assert workload["spec"]["queueName"] == QUEUE
    pod_sets = [(one["name"], one["count"]) for one in workload["spec"]["podSets"]]
    assert pod_sets == [(key, count) for key, (count, _, _) in example.counted.items()]
    said = site.workloads.wait(name, "QuotaReserved", "False", "ExceedsMaxQuota")
    assert "cpu" in said["message"]
    assert site.is_held(made)

    site.set_quota(cpu=f"{example.cpu}m", memory="36Gi")
    site.workloads.wait(name, "Admitted", "True")
    site.wait_started(made)
    for reason, note in (
        ("CreatedWorkload", f"Created Workload: {site.name}/{name}"),
        ("Started", f"Admitted by clusterQueue {site.name}"),
    ):
        applied.wait_told(site.installed, site.name, example.kind, reason, note)
    admission = site.workloads.get(name)["status"]["admission"]
    assert {
        one["name"]: (one["count"], *amounts(**one["resourceUsage"]))
        for one in admission["podSetAssignments"]
    } == {key: (count, *amounts(*asked)) for key, (count, *asked) in example.counted.items()}

    second = site.create_suspended("second")
    waits = site.workload(second)["metadata"]["name"]
    site.workloads.wait(waits, "QuotaReserved", "False", "WaitingForQuota")
    assert site.is_held(second)
    site.editor.delete(f"{site.objects}/{made['metadata']['name']}")
    site.wait_started(second)


def test_a_quantity_with_a_fraction_becomes_text_before_the_schema_is_asked(
    system: System,
) -> None:
    example = BY_KIND["XGBoostJob"]
    site = Examples(system, example, 0)
    made = site.create()["spec"]["xgbReplicaSpecs"]
    for one in made.values():
        (container,) = one["template"]["spec"]["containers"]
        assert container["resources"]["requests"] == {"cpu": "0.5", "memory": "256Mi"}
    manifest = example.manifest(name="unlabelled")
    del manifest["metadata"]["labels"]
    with pytest.raises(RestError) as refused:
        site.editor.post(site.objects, manifest)
    assert refused.value.status == 422


# ------------------------------------------------------------------------------------------- Jobs


def test_a_job_with_a_least_parallelism_runs_with_as_many_pods_as_there_are_cpus(
    system: System,
) -> None:
    spec = {"parallelism": 20, "completions": 20,
            "template": pod("1", "200Mi", restartPolicy="Never")}  # fmt: skip
    least = {names.JOB_MIN_PARALLELISM: "5"}
    site = Examples(system, Example("Job", spec, {}, 0, annotations=least), 9000)
    made = site.create()
    site.wait_started(made)
    running = site.api.get(f"{site.objects}/sample")["spec"]
    assert (running["parallelism"], running["completions"]) == (9, 20)


def test_an_elastic_job_grows_by_another_workload_and_shrinks_in_its_own(system: System) -> None:
    spec = {"parallelism": 3, "completions": 100,
            "template": pod("100m", "100Mi", restartPolicy="Never")}  # fmt: skip
    elastic = {names.ELASTIC_JOB: "true"}
    site = Examples(system, Example("Job", spec, {}, 0, annotations=elastic), 9000)
    made = site.create()
    site.wait_started(made)

    def scale(parallelism: int, *wanted: tuple[int, str]) -> None:
        change = {"spec": {"parallelism": parallelism}}
        site.editor.patch(f"{site.objects}/sample", change)
        waiting.until(lambda: site.slices() == sorted(wanted), what=f"{wanted}")
        assert not site.is_held(made)

    scale(1, (1, "Admitted"))
    scale(4, (1, "Finished"), (4, "Admitted"))


def test_each_run_of_a_cronjob_is_a_job_in_the_queue(system: System) -> None:
    example = BY_KIND["Job"]
    site = Examples(system, example, example.cpu)
    labels = {names.QUEUE_LABEL: QUEUE}
    template = {"metadata": {"labels": labels}, "spec": example.spec}
    spec = {"schedule": "0 0 31 2 *", "jobTemplate": template}
    cron = site.editor.post(
        site.path("batch/v1", "cronjobs"), {"metadata": {"name": "sample"}, "spec": spec}
    )
    stored = cron["spec"]["jobTemplate"]["metadata"]
    # Kubernetes 1.33 adds a creationTimestamp of null.
    assert {k: v for k, v in stored.items() if v is not None} == template["metadata"]
    reference = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": "sample",
        "uid": cron["metadata"]["uid"],
        "controller": True,
    }
    runs = []
    for at in range(2):
        run = example.manifest(name=f"sample-{at}")
        run["metadata"]["ownerReferences"] = [reference]
        runs.append(site.api.post(site.objects, run))
        assert runs[-1]["spec"]["suspend"] is True
        name = site.workload(runs[-1])["metadata"]["name"]
        assert name.startswith(f"job-sample-{at}-")
        state = ("Admitted", "True") if not at else ("QuotaReserved", "False")
        site.workloads.wait(name, *state)
    site.wait_started(runs[0])
    assert site.is_held(runs[1])


# ------------------------------------------------------------------------------------------- pods


def test_single_pods_wait_for_cpus_each_by_itself(system: System) -> None:
    site = Site(system, {"cpu": "9", "memory": "36Gi"})
    found = pod("3", restartPolicy="OnFailure")
    found["metadata"] = {"generateName": "sleep-", "labels": {names.QUEUE_LABEL: QUEUE}}
    made = [site.editor.post(site.pods, found) for _ in range(4)]
    assert all(one["spec"]["schedulingGates"] == GATED for one in made)
    assert all(one["metadata"]["labels"][names.MANAGED_LABEL] == "true" for one in made)
    waiting.until(lambda: len(site.gated()) == 1, what="three pods have started")
    (last,) = site.gated()
    said = site.installed.wait_condition(site.name, last["metadata"]["name"], "WaitingForQuota")
    assert "cpu" in said["message"]
    for one in made:
        name = site.workload(one)["metadata"]["name"]
        assert name.startswith(f"pod-{one['metadata']['name']}-")


@pytest.mark.parametrize(
    ("version", "kind", "said"),
    [
        ("argoproj.io/v1alpha1", "Workflow", "limits"),
        ("tekton.dev/v1", "TaskRun", "requests"),
        ("agents.x-k8s.io/v1alpha1", "Sandbox", "requests"),
    ],
)
def test_labelled_pods_of_other_programs_wait_each_by_itself(
    system: System, version: str, kind: str, said: str
) -> None:
    site = Site(system, {"cpu": "100m", "memory": "36Gi"})
    reference = {"apiVersion": version, "kind": kind, "name": "sample", "uid": "1"}
    found = pod("100m", "32Mi", said=said, restartPolicy="Never")
    found["metadata"] = {
        "generateName": "sample-",
        "labels": {names.QUEUE_LABEL: QUEUE},
        "ownerReferences": [{**reference, "controller": True}],
    }
    made = [site.api.post(site.pods, found) for _ in range(2)]
    assert all(one["spec"]["schedulingGates"] == GATED for one in made)
    waiting.until(lambda: len(site.gated()) == 1, what="one has started")
    (last,) = site.gated()
    site.installed.wait_condition(site.name, last["metadata"]["name"], "WaitingForQuota")
    listed = site.api.get(site.workloads.path)["items"]
    assert [len(one["spec"]["podSets"]) for one in listed] == [1, 1]


def test_executors_of_spark_submit_that_opt_in_wait_each_by_itself(system: System) -> None:
    """They are owned by the driver, a pod that is in the queue, too."""
    site = Site(system, {"cpu": "2", "memory": "36Gi"})
    driver = pod("1", restartPolicy="Never")
    driver["metadata"] = {"name": "driver", "labels": {names.QUEUE_LABEL: QUEUE}}
    made = site.editor.post(site.pods, driver)
    site.installed.wait_released(site.name, "driver")
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "driver", "controller": True}
    executor = pod("1", restartPolicy="Never")
    executor["metadata"] = {
        "labels": {names.QUEUE_LABEL: QUEUE, names.MANAGED_LABEL: "true"},
        "annotations": {names.POD_SUSPENDING_PARENT: "spark-driver"},
        "ownerReferences": [{**reference, "uid": made["metadata"]["uid"]}],
    }
    for name in ("first", "second"):
        executor["metadata"]["name"] = name
        stored = site.editor.post(site.pods, executor)
        assert stored["spec"]["schedulingGates"] == GATED
    waiting.until(lambda: len(site.gated()) == 1, what="one executor has started")
    (last,) = site.gated()
    site.installed.wait_condition(site.name, last["metadata"]["name"], "WaitingForQuota")
    assert len(site.api.get(site.workloads.path)["items"]) == 3


def test_a_group_of_pods_waits_for_the_cpus_of_all(system: System) -> None:
    site = Site(system, {"cpu": "5", "memory": "36Gi"})
    for role in ("leader", "worker"):
        found = pod("3", restartPolicy="Never")
        found["metadata"] = {
            "generateName": f"sample-{role}-",
            "labels": {names.QUEUE_LABEL: QUEUE, names.POD_GROUP_NAME: "sample-group"},
            "annotations": {names.POD_GROUP_TOTAL_COUNT: "2"},
        }
        assert site.editor.post(site.pods, found)["spec"]["schedulingGates"] == GATED
    waiting.until(lambda: site.workloads.exists("sample-group"), what="its Workload")
    said = site.workloads.wait("sample-group", "QuotaReserved", "False", "ExceedsMaxQuota")
    assert "cpu" in said["message"]
    assert len(site.gated()) == 2
    pod_sets = site.workloads.get("sample-group")["spec"]["podSets"]
    assert [one["count"] for one in pod_sets] == [2]
    site.set_quota(cpu="6", memory="36Gi")
    waiting.until(lambda: not site.gated(), what="both have started")


# ------------------------------------------------------------------------- what is not done so


@pytest.mark.parametrize(("kind", "at"), [("RayJob", "rayClusterSpec"),
                                          ("RayService", "rayClusterConfig")])  # fmt: skip
def test_a_rayjob_or_rayservice_scales_by_itself_only_with_the_annotation(
    system: System, kind: str, at: str
) -> None:
    example = BY_KIND[kind]
    site = Examples(system, example, example.cpu)
    manifest = example.manifest()
    manifest["spec"][at]["enableInTreeAutoscaling"] = True
    with pytest.raises(RestError) as refused:
        site.editor.post(site.objects, manifest)
    text = str(refused.value)
    assert f"spec.{at}.enableInTreeAutoscaling: Invalid value: true" in text
    assert f"create it with the annotation {names.ELASTIC_JOB}" in text
    manifest["metadata"]["annotations"] = {names.ELASTIC_JOB: "true"}
    made = site.editor.post(site.objects, manifest)
    assert made["spec"]["suspend"] is True
    head = made["spec"][at]["headGroupSpec"]["template"]["spec"]
    assert {"name": names.ELASTIC_JOB_GATE} in head["schedulingGates"]


def test_a_raycluster_of_eighteen_worker_groups_is_refused(system: System) -> None:
    example = BY_KIND["RayCluster"]
    site = Examples(system, example, example.cpu)
    manifest = example.manifest()
    (group,) = manifest["spec"]["workerGroupSpecs"]
    groups = [{**group, "groupName": f"group-{at}"} for at in range(18)]
    manifest["spec"]["workerGroupSpecs"] = groups
    with pytest.raises(RestError) as refused:
        site.editor.post(site.objects, manifest)
    assert "must have at most 18 pod sets" in str(refused.value)
    manifest["spec"]["workerGroupSpecs"] = groups[:17]
    made = site.editor.post(site.objects, manifest)
    assert len(site.workload(made)["spec"]["podSets"]) == 18


# ---------------------------------------------------------------------------------------- a seed


RDMA = "rdma/rdma_shared_device_a"


def test_the_pytorchjob_of_the_seeds_runs_all_its_workers_or_none(system: System) -> None:
    (manifest,) = (one for one in seeds.load("services-and-gangs") if one["kind"] == "PyTorchJob")
    quota = {names.GPU_RESOURCE: "32", RDMA: "3"}
    site = Site(system, quota, names.DEFAULT_LOCAL_QUEUE)
    jobs = site.path(manifest["apiVersion"], "pytorchjobs")
    made = site.editor.post(jobs, manifest)
    assert made["spec"]["runPolicy"]["suspend"] is True
    assert made["metadata"]["labels"][names.QUEUE_LABEL] == names.DEFAULT_LOCAL_QUEUE
    workload = site.workload(made)
    name = workload["metadata"]["name"]
    assert name.startswith("pytorchjob-distributed-training-")
    assert [(one["name"], one["count"]) for one in workload["spec"]["podSets"]] == [("worker", 4)]
    said = site.workloads.wait(name, "QuotaReserved", "False", "ExceedsMaxQuota")
    assert RDMA in said["message"]
    assert site.api.get(f"{jobs}/distributed-training")["spec"]["runPolicy"]["suspend"] is True
    site.set_quota(**{names.GPU_RESOURCE: "32", RDMA: "4"})
    site.workloads.wait(name, "Admitted", "True")
    waiting.until(
        lambda: not site.api.get(f"{jobs}/distributed-training")["spec"]["runPolicy"]["suspend"],
        what="started",
    )
    (assigned,) = site.workloads.get(name)["status"]["admission"]["podSetAssignments"]
    assert assigned["resourceUsage"] == {names.GPU_RESOURCE: "32", RDMA: "4"}
