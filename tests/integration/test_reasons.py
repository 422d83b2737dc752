"""The catalogue of reasons on the real system: a situation, its sentence, and the next step."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import yaml
from click.testing import CliRunner

from admission.base import conditions, names
from admission.cli.kubectl import main
from admission.objects import structural
from admission.reasons import sentences
from admission.reasons.next_steps import Code
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod, template_of
from tests.config import files
from tests.controlplane import waiting
from tests.controlplane.rest import Json, RestError
from tests.integration import queued, snapshot
from tests.integration.applied import Workloads
from tests.integration.applied import condition as said_now
from tests.integration.installed import Installed
from tests.repo import tree

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with snapshot.started(tmp_path_factory.mktemp("reasons")) as it:
        yield it


@pytest.fixture(scope="module")
def serving(plain: Installed) -> Callable[[tuple[Json, ...]], Installed]:
    """Lets the program run with a configuration; it starts anew where it has another one."""
    now: tuple[Json, ...] = ()

    def serve(wanted: tuple[Json, ...]) -> Installed:
        nonlocal now
        if wanted != now:
            file = plain.folder / "config.yaml"
            file.write_text(yaml.safe_dump_all(wanted))
            plain.stop()
            plain.start(*(("--config", str(file)) if wanted else ()))
            now = wanted
        return plain

    return serve


class Asked(NamedTuple):
    """What is asked: the namespace and ``[KIND/]NAME``."""

    namespace: str
    what: str


# ---------------------------------------------------------------------------------- situations


def waits(system: Installed) -> Asked:
    ns = system.add_team(2)
    system.create_pod(ns, "first", gpus=2)
    system.wait_released(ns, "first")
    system.create_pod(ns, "second", gpus=1)
    return Asked(ns, "pod/second")


def job_waits(system: Installed) -> Asked:
    ns = system.add_team(2)
    system.create_pod(ns, "first", gpus=2)
    system.wait_released(ns, "first")
    post_job(system, ns, make_job("train", 2, gpus=1))
    return Asked(ns, "job.batch/train")


def class_missing(system: Installed) -> Asked:
    ns = system.add_team(2)
    labels = {names.PRIORITY_CLASS_LABEL: "nope"}
    post_job(system, ns, make_job("train", 2, gpus=1, labels=labels))
    return Asked(ns, "job.batch/train")


def preempts(system: Installed) -> Asked:
    """The victim stays: nobody stops what a Workload stands for that nobody owns."""
    ns = system.add_team(1, preemption={"withinClusterQueue": "LowerPriority"})
    system.add_classes(**{f"high-{ns}": 100})
    queued.add_workload(system, ns, "low")
    queued.await_admitted(system, ns, "low")
    system.create_pod(ns, "high", gpus=1, labels={names.PRIORITY_CLASS_LABEL: f"high-{ns}"})
    return Asked(ns, "high")


def too_big(system: Installed) -> Asked:
    ns = system.add_team(16)
    system.create_pod(ns, "big", gpus=64)
    return Asked(ns, "big")


def capped_team(system: Installed, most: int) -> str:
    """A namespace with 16 GPUs of which a user may hold some."""
    ns = system.add_team(16)
    caps = {names.MAX_PER_USER: f"{names.GPU_RESOURCE}={most}"}
    path = queued.path("clusterqueues", ns)
    system.api.patch(path, {"metadata": {"annotations": caps}})
    return ns


def over_cap(system: Installed) -> Asked:
    ns = capped_team(system, 2)
    system.create_pod(ns, "first", gpus=2)
    system.wait_released(ns, "first")
    system.create_pod(ns, "second", gpus=1)
    return Asked(ns, "second")


def above_every_cap(system: Installed) -> Asked:
    ns = capped_team(system, 2)
    system.create_pod(ns, "wide", gpus=4)
    return Asked(ns, "wide")


def no_flavor(system: Installed) -> Asked:
    ns = system.add_team(2)
    system.create_pod(ns, "picky", nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100"})
    return Asked(ns, "picky")


def no_topology(system: Installed) -> Asked:
    ns = system.add_team(2)
    rack = {names.REQUIRED_TOPOLOGY: "example.com/rack"}
    job = make_job("train", 2, gpus=1, pod={"annotations": rack})
    post_job(system, ns, job)
    return Asked(ns, "job.batch/train")


def not_covered(system: Installed) -> Asked:
    ns = system.add_team(2)
    system.create_pod(ns, "hungry", requests={"cpu": "1", names.GPU_RESOURCE: "1"})
    return Asked(ns, "hungry")


def misspelled(system: Installed) -> Asked:
    ns = system.add_team(2)
    container = {"resources": {"limits": {"nvidia.com/gpus": "1"}}}
    system.create_pod(ns, "typo", gpus=None, container=container)
    return Asked(ns, "typo")


def no_local_queue(system: Installed) -> Asked:
    ns = system.cluster.create_namespace("team")
    system.wait_webhook()
    system.create_pod(ns, "lost", labels={names.QUEUE_LABEL: "nowhere"})
    return Asked(ns, "lost")


def no_cluster_queue(system: Installed) -> Asked:
    ns = system.cluster.create_namespace("team")
    system.add_local_queue(ns, "nobody")
    system.wait_webhook()
    system.create_pod(ns, "lost")
    return Asked(ns, "lost")


def local_queue_stopped(system: Installed) -> Asked:
    ns = system.add_team(2)
    queued.edit(system, "localqueues", "default", {"stopPolicy": "Hold"}, ns)
    system.create_pod(ns, "held")
    return Asked(ns, "held")


def cluster_queue_stopped(system: Installed) -> Asked:
    ns = system.add_team(2)
    queued.edit(system, "clusterqueues", ns, {"stopPolicy": "Hold"})
    system.create_pod(ns, "held")
    return Asked(ns, "held")


def stopped(system: Installed) -> Asked:
    ns = system.add_team(2)
    queued.edit(system, "clusterqueues", ns, {"stopPolicy": "Hold"})
    return Asked(ns, f"clusterqueue/{ns}")


def without_flavor(system: Installed) -> Asked:
    ns = system.cluster.create_namespace("team")
    system.add_cluster_queue(ns, quota=1, flavors=("gone",))
    return Asked(ns, f"cq/{ns}")


def ready(system: Installed) -> Asked:
    ns = system.add_team(2)
    return Asked(ns, f"clusterqueue/{ns}")


def in_use(system: Installed) -> Asked:
    ns = system.add_team(2)
    system.create_pod(ns, "runs", gpus=2)
    system.wait_released(ns, "runs")
    system.api.delete(queued.path("clusterqueues", ns))
    return Asked(ns, f"clusterqueues.kueue.x-k8s.io/{ns}")


def not_selected(system: Installed) -> Asked:
    ns = system.add_team(2, namespaceSelector={"matchLabels": {"team": "other"}})
    system.create_pod(ns, "foreign")
    return Asked(ns, "foreign")


def deactivated(system: Installed) -> Asked:
    ns = system.add_team(2)
    queued.add_workload(system, ns, "off", active=False)
    return Asked(ns, "workload/off")


def gated(system: Installed) -> Asked:
    ns = system.add_team(2)
    post_job(
        system,
        ns,
        make_job("train", 1, gpus=1, annotations={names.ADMISSION_GATED_BY: "example.com/gate"}),
    )
    return Asked(ns, "train")


def incomplete(system: Installed) -> Asked:
    ns = system.add_team(8)
    labels = {names.POD_GROUP_NAME: "gang"}
    total = {names.POD_GROUP_TOTAL_COUNT: "3"}
    for name in ("w-0", "w-1"):
        system.create_pod(ns, name, labels=labels, annotations=total)
    return Asked(ns, "w-0")


def checked(system: Installed) -> Asked:
    name = system.cluster.create_namespace("check")
    queued.add_check(system, name)
    ns = system.add_team(2, **queued.asking_for(name))
    system.create_pod(ns, "asks")
    return Asked(ns, "asks")


def admitted(system: Installed) -> Asked:
    ns = system.add_team(2)
    system.create_pod(ns, "runs")
    return Asked(ns, "runs")


def finished(system: Installed) -> Asked:
    ns = system.add_team(2)
    made = queued.add_workload(system, ns, "done")
    queued.await_admitted(system, ns, made["metadata"]["name"])
    queued.finish(system, ns, "done")
    return Asked(ns, "wl/done")


def not_managed(system: Installed) -> Asked:
    ns = system.cluster.create_namespace("team")
    system.create_pod(ns, "plain", gpus=None)
    return Asked(ns, "plain")


def checks_inactive(system: Installed) -> Asked:
    name = system.cluster.create_namespace("check")
    queued.add_check(system, name, active=False)
    ns = system.cluster.create_namespace("team")
    system.add_flavor(ns)
    system.add_cluster_queue(ns, quota=2, flavors=(ns,), **queued.asking_for(name))
    return Asked(ns, f"clusterqueue/{ns}")


def group_invalid(system: Installed) -> Asked:
    ns = system.add_team(8)
    labels = {names.POD_GROUP_NAME: "gang"}
    for name, total in (("w-0", "2"), ("w-1", "3")):
        annotations = {names.POD_GROUP_TOTAL_COUNT: total}
        system.create_pod(ns, name, labels=labels, annotations=annotations)
    return Asked(ns, "w-0")


def without_pods(system: Installed) -> Asked:
    """A Deployment; no controller makes its pods here."""
    ns = system.add_team(2)
    pod = make_pod("", labels={"app": "chat"}, gpus=1)
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "chat"}},
        "template": template_of(pod),
    }
    metadata = {"name": "chat", "labels": {names.QUEUE_LABEL: "default"}}
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    system.api.post(f"/apis/apps/v1/namespaces/{ns}/deployments", document)
    return Asked(ns, "deployment/chat")


def runs(system: Installed, ns: str, name: str, **pod: Any) -> None:
    """A pod that runs, as scheduler and kubelet say it."""
    system.create_pod(ns, name, **pod)
    system.wait_released(ns, name)
    path = f"/api/v1/namespaces/{ns}/pods/{name}"
    target = {"apiVersion": "v1", "kind": "Node", "name": "node"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    system.api.post(f"{path}/binding", binding)
    system.api.patch(f"{path}/status", {"status": {"phase": "Running"}})


def told_to_leave(system: Installed) -> Asked:
    ns = system.add_team(1, preemption={"withinClusterQueue": "LowerPriority"})
    notice = {"metadata": {"annotations": {names.PREEMPTION_NOTICE: "1h"}}}
    system.api.patch(queued.path("clusterqueues", ns), notice)
    system.add_classes(**{f"high-{ns}": 100})
    runs(system, ns, "low")
    system.create_pod(ns, "high", gpus=1, labels={names.PRIORITY_CLASS_LABEL: f"high-{ns}"})
    return Asked(ns, "low")


def start_refused(system: Installed) -> Asked:
    """A policy of the site lets no Job of the namespace start."""
    ns = system.add_team(2)
    queued.edit(system, "clusterqueues", ns, {"stopPolicy": "Hold"})
    post_job(system, ns, make_job("train", 1, gpus=1))
    marked = "has(object.metadata.labels) && 'example.com/try' in object.metadata.labels"
    rule = {
        "apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["UPDATE"],
        "resources": ["jobs"],
    }  # fmt: skip
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    told = {"expression": f"object.spec.suspend && !({marked})", "message": "not at night"}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [told]}
    system.api.post(f"{policies}ies", {"metadata": {"name": ns}, "spec": spec})
    only = {"matchLabels": {"kubernetes.io/metadata.name": ns}}
    bound = {
        "policyName": ns,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": only},
    }
    system.api.post(f"{policies}ybindings", {"metadata": {"name": ns}, "spec": bound})
    job = f"/apis/batch/v1/namespaces/{ns}/jobs/train"

    def is_in_force() -> bool:
        try:
            system.api.patch(
                f"{job}?dryRun=All", {"metadata": {"labels": {"example.com/try": ""}}}
            )
        except RestError as refused:
            return "not at night" in str(refused)
        return False

    waiting.until(is_in_force, what="the policy is in force")
    queued.edit(system, "clusterqueues", ns, {"stopPolicy": "None"})
    return Asked(ns, "job/train")


def held_by_others(system: Installed) -> Asked:
    ns = system.add_team(2)
    system.create_pod(ns, "held", gates=["example.com/wait"])
    return Asked(ns, "held")


def not_running(system: Installed) -> Asked:
    """A pod with quota, of which the scheduler says that no node takes it."""
    ns = system.add_team(2)
    system.create_pod(ns, "lost")
    system.wait_released(ns, "lost")
    why = {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available",
    }  # fmt: skip
    system.api.patch(
        f"/api/v1/namespaces/{ns}/pods/lost/status",
        {"status": {"conditions": [why]}},
        "application/strategic-merge-patch+json",
    )
    return Asked(ns, "lost")


def on_a_node(system: Installed, *, gpus: int, quota: int, first: int) -> str:
    """A namespace with quota on one node, on which a pod with some GPUs was admitted.

    No kubelet says that the node is ready, so the test does.
    """
    ns = system.cluster.create_namespace("team")
    system.cluster.add_gpu_node(ns, gpus=gpus, labels={names.GPU_PRODUCT_LABEL: ns})
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    system.api.patch(f"/api/v1/nodes/{ns}/status", {"status": {"conditions": [ready]}})
    system.add_flavor(ns, product=ns)
    system.add_cluster_queue(ns, quota=quota, flavors=(ns,))
    system.add_local_queue(ns, ns)
    system.wait_for_queue(ns)
    system.create_pod(ns, "first", gpus=first)
    system.wait_released(ns, "first")
    return ns


def beyond_every_node(system: Installed) -> Asked:
    """A pod with more GPUs than the only node has, behind one that holds quota."""
    ns = on_a_node(system, gpus=2, quota=4, first=1)
    system.create_pod(ns, "wide", gpus=4)
    return Asked(ns, "wide")


def beyond_all_nodes(system: Installed) -> Asked:
    """Two pods of a group that have to be on one host, of which the only node takes one."""
    ns = on_a_node(system, gpus=4, quota=8, first=1)
    labels = {names.POD_GROUP_NAME: "wide"}
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    for index in range(2):
        pod = make_pod(
            f"wide-{index}",
            labels=labels,
            annotations={names.POD_GROUP_TOTAL_COUNT: "2"},
            limits={names.GPU_RESOURCE: "3"},
        )
        pod["spec"]["affinity"] = {"podAffinity": rule}
        system.api.post(f"/api/v1/namespaces/{ns}/pods", pod)
    return Asked(ns, "wide-0")


def crowded_node(system: Installed) -> Asked:
    """A pod with more GPUs than are left on the only node, with quota for it."""
    ns = on_a_node(system, gpus=4, quota=8, first=3)
    system.create_pod(ns, "second", gpus=2)
    return Asked(ns, "second")


def charged_afterwards(system: Installed) -> Asked:
    """Somebody deletes the Workload of a pod that runs."""
    ns = system.add_team(2)
    runs(system, ns, "first")
    (workload,) = system.api.get(queued.path("workloads", ns=ns))["items"]
    system.api.delete(queued.path("workloads", workload["metadata"]["name"], ns))
    return Asked(ns, "first")


def missing_gpus(system: Installed) -> Asked:
    """A quota of four, whose only node is not ready."""
    ns = system.cluster.create_namespace("team")
    system.cluster.add_gpu_node(ns, gpus=2, labels={names.GPU_PRODUCT_LABEL: ns})
    lost = {"conditions": [{"type": "Ready", "status": "False"}]}
    system.api.patch(f"/api/v1/nodes/{ns}/status", {"status": lost})
    system.add_flavor(ns, product=ns)
    guard = {names.CAPACITY_GUARD: names.CAPACITY_GUARD_ENFORCE}
    system.add_cluster_queue(ns, quota=4, flavors=(ns,), annotations=guard)
    system.add_local_queue(ns, ns)
    system.wait_for_queue(ns)
    queued.await_condition(
        system, queued.path("clusterqueues", ns), conditions.CAPACITY_SUFFICIENT,
        lambda told: told[0] == "False",
    )  # fmt: skip
    system.create_pod(ns, "big", gpus=4)
    return Asked(ns, "big")


def promised_elsewhere(system: Installed) -> Asked:
    """A guarded quota of four on four healthy GPUs that another queue is promised, too."""
    ns = system.cluster.create_namespace("team")
    system.cluster.add_gpu_node(ns, gpus=4, labels={names.GPU_PRODUCT_LABEL: ns})
    system.add_flavor(ns, product=ns)
    system.add_cluster_queue(f"big-{ns}", quota=4, flavors=(ns,))
    guard = {names.CAPACITY_GUARD: names.CAPACITY_GUARD_ENFORCE}
    system.add_cluster_queue(ns, quota=4, flavors=(ns,), annotations=guard)
    system.add_local_queue(ns, ns)
    system.wait_for_queue(ns)
    queued.await_condition(
        system, queued.path("clusterqueues", ns), conditions.CAPACITY_SUFFICIENT,
        lambda told: told[0] == "False" and "4 healthy" in told[2],
    )  # fmt: skip
    system.create_pod(ns, "small", gpus=1)
    return Asked(ns, "small")


def lost(system: Installed) -> Asked:
    """A Workload that nobody clears after its eviction."""
    ns = system.add_team(1)
    queued.add_workload(system, ns, "train")
    queued.await_admitted(system, ns, "train")
    evicted = said_now("Evicted", "True", "NodeFailures", "node n is gone")
    Workloads(system, ns).say("train", "by-test", evicted)
    return Asked(ns, "workload/train")


def held_back(system: Installed) -> Asked:
    """Three pods are to be stopped, of which one may be in a minute."""
    ns = system.add_team(3)
    for name in "abc":
        runs(system, ns, name)
    workloads = queued.path("workloads", ns=ns)
    evicted = said_now("Evicted", "True", "NodeFailures", "node n is gone")
    for one in system.api.get(workloads)["items"]:
        Workloads(system, ns).say(one["metadata"]["name"], "by-test", evicted)

    def held() -> str:
        """The Workload of a pod whose stop is held back."""
        return next(
            (
                one["metadata"]["name"]
                for one in system.api.get(workloads)["items"]
                if queued.condition(one, conditions.STOP_HELD_BACK)
            ),
            "",
        )

    return Asked(ns, f"workload/{waiting.until(held, what='a stop is held back')}")


def paused(system: Installed) -> Asked:
    ns = system.add_team(2)
    system.create_pod(ns, "train")
    return Asked(ns, "train")


def without_queue(system: Installed) -> Asked:
    ns = system.cluster.create_namespace("team")
    system.wait_webhook()
    system.create_pod(ns, "train")
    return Asked(ns, "train")


def previous_revision(system: Installed) -> Asked:
    """A rolling update on a full quota: ReplicaSets and pods as their controllers make them."""
    ns = system.add_team(2)
    sets = f"/apis/apps/v1/namespaces/{ns}/replicasets"
    kind = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
    for revision, pod in (("a1", "earlier"), ("b2", "later")):
        labels = {"app": "chat", "pod-template-hash": revision}
        template = template_of(make_pod("", labels=labels, gpus=2))
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        metadata: Json = {"name": f"chat-{revision}"}
        made = system.api.post(sets, {**kind, "metadata": metadata, "spec": spec})
        owner = {**kind, **metadata, "uid": made["metadata"]["uid"], "controller": True}
        own = {"ownerReferences": [owner]}
        system.create_pod(ns, pod, gpus=2, labels=labels, metadata=own)
        if pod == "earlier":
            system.wait_released(ns, pod)
    return Asked(ns, "later")


def others_not_ready(system: Installed) -> Asked:
    """One at a time: the first is admitted, or waits itself for pods of other situations."""
    first, ns = system.add_team(2), system.add_team(2)
    queued.add_workload(system, first, "first")
    reserved = queued.await_condition(
        system, queued.path("workloads", "first", first), conditions.QUOTA_RESERVED,
        lambda told: told[0] == "True" or told[1] == Code.WAITING_FOR_PODS_READY,
    )  # fmt: skip
    assert reserved
    system.create_pod(ns, "second")
    return Asked(ns, "second")


def tried_again_later(system: Installed) -> Asked:
    """A Job whose pods were not ready in time; no controller makes them here."""
    ns = system.add_team(2)
    post_job(system, ns, make_job("train", 1, gpus=1))
    return Asked(ns, "job/train")


def post_job(system: Installed, namespace: str, job: Any) -> None:
    system.api.post(f"/apis/batch/v1/namespaces/{namespace}/jobs", job)


class Case(NamedTuple):
    """A situation and what is said of it; ``{ns}`` is the namespace and the ClusterQueue."""

    arrange: Callable[[Installed], Asked]
    code: Code
    sentence: str
    step: str
    configuration: tuple[Json, ...] = ()


BRAKE = (files.gpu(maxStopsPerMinute=1),)
PAUSED = (files.gpu(admission="Paused"), files.kueue(manageJobsWithoutQueueName=True))

BLOCKING = (files.kueue(waitForPodsReady={"timeout": "10m", "blockAdmission": True}),)
RETRYING = (
    files.kueue(
        waitForPodsReady={"timeout": "1s", "requeuingStrategy": {"backoffBaseSeconds": 600}}
    ),
)

CASES = (
    Case(waits, Code.WAITING_FOR_QUOTA,
         "Waits: needs 1 {ns}, 0 free of 2; .*held by {ns} (2).", "kubectl gpu who {ns}"),
    Case(previous_revision, Code.HELD_BY_PREVIOUS_REVISION,
         "Waits: needs 2 {ns}, 0 free of 2; the previous revision of Deployment chat holds quota:"
         " set maxSurge: 0; .*", "set maxSurge: 0 and maxUnavailable: 1"),
    Case(job_waits, Code.WAITING_FOR_QUOTA,
         "Waits: needs 2 {ns}, 0 free of 2; .*held by {ns} (2).", "kubectl gpu who {ns}"),
    Case(preempts, Code.WAITING_FOR_PREEMPTED,
         "Waits until 1 workload that it preempts has stopped.", "kubectl gpu who {ns}"),
    Case(too_big, Code.EXCEEDS_MAX_QUOTA, "Too big: asks 64 {ns}, {ns} can reach 16.",
         "ask for less, or have the quota raised"),
    Case(beyond_every_node, Code.EXCEEDS_LARGEST_NODE,
         "Too big: a pod asks 4 {ns}, the largest node has 2.",
         "create it again and ask for at most"),
    Case(beyond_all_nodes, Code.EXCEEDS_NODES,
         "Too big: 2 pods with 3 nvidia.com/gpu each on nodes of {ns} with the same"
         " kubernetes.io/hostname; at most 1 fits once the nodes are empty.",
         "create it again with fewer pods"),
    Case(crowded_node, Code.WAITING_FOR_NODE,
         "Waits for a node: needs 2 nvidia.com/gpu on one node of {ns}; 1 is free, at most 1.*"
         " node ({ns}).*", "kubectl gpu top"),
    Case(over_cap, Code.CAP_REACHED,
         "Waits: you (.*) hold 2 of at most 2 nvidia.com/gpu in queue {ns} (max-per-user); asks 1"
         " more.", "kubectl gpu who {ns}"),
    Case(above_every_cap, Code.EXCEEDS_CAP,
         "Too big: asks 4 nvidia.com/gpu, a user may hold at most 2 in queue {ns}"
         " (max-per-user).", "ask for less, or have the cap of the queue raised"),
    Case(no_flavor, Code.NO_MATCHING_FLAVOR,
         "Matches no flavor of queue {ns}: {ns} is on other nodes than the pod selects.",
         "create it again, and set nvidia.com/gpu.product to A100 ({ns})"),
    Case(not_covered, Code.RESOURCE_NOT_COVERED,
         "Never starts as it is: queue {ns} has no quota for cpu.", "coveredResources"),
    Case(misspelled, Code.RESOURCE_MISSPELLED,
         "Never starts as it is: nvidia.com/gpus is misspelled: a GPU is nvidia.com/gpu.",
         "ask for nvidia.com/gpu"),
    Case(no_local_queue, Code.LOCAL_QUEUE_NOT_FOUND,
         "Waits: LocalQueue nowhere does not exist in its namespace.",
         "kubectl get localqueues -n {ns}"),
    Case(no_cluster_queue, Code.CLUSTER_QUEUE_NOT_FOUND,
         "Waits: its LocalQueue names ClusterQueue nobody, which does not exist.",
         "ask an administrator to create it"),
    Case(local_queue_stopped, Code.LOCAL_QUEUE_STOPPED,
         "Waits: LocalQueue default is stopped.", "stopPolicy: None of LocalQueue default"),
    Case(cluster_queue_stopped, Code.CLUSTER_QUEUE_INACTIVE,
         "Waits: ClusterQueue {ns} admits nothing at present.",
         "kubectl gpu why clusterqueue/{ns}"),
    Case(stopped, Code.QUEUE_STOPPED, "Admits nothing: it is stopped.", "set stopPolicy: None"),
    Case(without_flavor, Code.QUEUE_REFERS_TO_MISSING,
         "Admits nothing: it references missing ResourceFlavor(s): gone.",
         "create what is missing"),
    Case(ready, Code.QUEUE_READY, "Admits workloads.", "kubectl gpu queue {ns}"),
    Case(in_use, Code.QUEUE_IN_USE,
         "Cannot go yet: 1 workload holds its quota: {ns}/pod-runs-.*.",
         "kubectl gpu who {ns}"),
    Case(not_selected, Code.NAMESPACE_NOT_SELECTED,
         "Waits: its ClusterQueue does not serve its namespace (namespaceSelector).",
         "select namespace {ns}"),
    Case(deactivated, Code.DEACTIVATED, "Stopped: it is deactivated (spec.active).",
         'kubectl patch workload off -n {ns} --type=merge -p \'{"spec":{"active":true}}\''),
    Case(gated, Code.ADMISSION_GATED, "Waits: held by the admission gate example.com/gate.",
         names.ADMISSION_GATED_BY),
    Case(no_topology, Code.NO_TOPOLOGY,
         "Never starts as it is: it asks for one rack (label example.com/rack), and no flavor of"
         " queue {ns} has a topology.", "create it again without its topology annotation"),
    Case(class_missing, Code.PRIORITY_CLASS_NOT_FOUND,
         'Waits: WorkloadPriorityClass "nope" not found.', "name a class that exists"),
    Case(incomplete, Code.POD_GROUP_INCOMPLETE,
         "2 of 3 pods of group gang are there; they are admitted together.",
         "create the pods that are missing"),
    Case(held_by_others, Code.GATED_BY_OTHERS,
         "Held by another controller: it waits for quota once its scheduling gate example.com/wait"
         " is gone.", "whileGatedByOthers: Admit"),
    Case(checked, Code.WAITING_FOR_CHECKS, "Has quota, waits for admission check check-.*.",
         "kubectl describe workload pod-asks-"),
    Case(admitted, Code.ADMITTED, "Admitted by ClusterQueue {ns} on {ns}.", ""),
    Case(finished, Code.FINISHED, "Finished.*", ""),
    Case(not_managed, Code.NOT_MANAGED, "No quota is kept for it: it is in no queue.",
         names.QUEUE_LABEL),
    Case(checks_inactive, Code.QUEUE_CHECKS_INACTIVE, "Admits nothing: it .*check-.*",
         "kubectl describe admissionchecks"),
    Case(group_invalid, Code.POD_GROUP_INVALID, ".*", "the pods have to be created anew"),
    Case(without_pods, Code.NO_WORKLOAD, "It has no pods yet that could be admitted.",
         "whether the controller runs"),
    Case(told_to_leave, Code.PREEMPTION_NOTICE,
         "This pod is stopped at .*: its GPUs are needed by {ns}/high (priority 100). Save your"
         " work.", "save your work"),
    Case(start_refused, Code.START_REFUSED,
         "Admitted, but the API server refuses to start it: .*not at night.*",
         "correct what the message names; it is tried again by itself"),
    Case(not_running, Code.PODS_NOT_RUNNING,
         "Admitted, but 0 of 1 pods are scheduled: no node of {ns} has room yet, an autoscaler may"
         " add one; 0/1 nodes are available.*",
         "kubectl get events -n {ns}"),
    Case(charged_afterwards, Code.CHARGED_RUNNING,
         "Runs, and is charged to ClusterQueue {ns} though it did not wait there.",
         "nothing: it goes on running"),
    Case(missing_gpus, Code.CAPACITY_MISSING,
         "Waits: needs 4 {ns}, 0 free of 0; 4 more promised, but sick or missing.*",
         "kubectl gpu top {ns}"),
    Case(promised_elsewhere, Code.CAPACITY_PROMISED,
         "Waits: needs 1 {ns}, 0 free of 0; 4 more promised, but they are promised to big-{ns} "
         "first.*",
         "kubectl gpu top"),
    Case(lost, Code.EVICTED, "node n is gone.",
         "what has an owner goes back to the queue by itself"),
    Case(held_back, Code.STOP_HELD_BACK,
         "It still runs and is to be stopped: node n is gone. Stops beyond 1 a minute are held"
         " back; .*", "gpu-admission stops allow", BRAKE),
    Case(paused, Code.ADMISSION_PAUSED,
         "Waits: admission is paused by an administrator; it keeps its place.",
         "an administrator resumes it", PAUSED),
    Case(without_queue, Code.QUEUE_REQUIRED, ".*", "kubectl get localqueues -n {ns}", PAUSED),
    Case(others_not_ready, Code.WAITING_FOR_PODS_READY,
         "Waits: nothing is admitted until the pods of all admitted workloads are ready.",
         "of your own, delete those that never are", BLOCKING),
    Case(tried_again_later, Code.WAITING_FOR_RETRY,
         "Waits: it is tried again at 20.*Z; .*PodsReady.*{ns}/.*train.*",
         "wait until the time that the message names", RETRYING),
)  # fmt: skip
"""In the order of their configurations: each is one more start of the program."""

ELSEWHERE = {
    Code.PENDING_EVALUATION: "is over as soon as a cycle has judged",
    Code.MISCONFIGURED: "has a sentence of its own for each rule",
    Code.ON_HOLD: "only other programs set it",
    Code.WAITS_FOR_OWNER: "needs owners with more than one level",
    Code.REFERENCE_NOT_FOUND: "has a sentence of its own for each kind",
    Code.RESOURCE_NOT_OFFERED: "only kubectl gpu why says it: tests/cli/test_kubectl.py",
    Code.QUEUE_UNSUPPORTED: "has a sentence of its own for each rule",
}
"""Reasons that no row of the table has, and why."""


def ask(system: Installed, asked: Asked, form: str) -> str:
    arguments = ["why", asked.what, "-n", asked.namespace, "--kubeconfig", system.kubeconfig]
    done = CliRunner().invoke(main, [*arguments, "-o", form])
    assert done.exit_code == 0, done.output
    return done.stdout


def matches(sentence: str, namespace: str, found: str) -> bool:
    pattern = re.escape(sentence).replace(r"\.\*", ".*").replace(r"\{ns\}", re.escape(namespace))
    return re.fullmatch(pattern, found) is not None


def schema() -> dict[str, Any]:
    """The schema of the answer, as docs/reference/commands.md has it."""
    page = (tree.ROOT / "docs" / "reference" / "commands.md").read_text()
    found = re.search(r"```json\n(\{.*?\"Reason\".*?\n\})\n```", page, re.DOTALL)
    assert found is not None
    document: dict[str, Any] = json.loads(found[1])
    return document


def filled(schema: dict[str, Any], value: Any) -> Any:
    """The answer with something in place of null, where the schema allows null.

    Fails for a member that the schema does not have.
    """
    if value is None and schema.get("nullable"):
        return {"string": "", "integer": 1}[schema["type"]]
    if isinstance(value, list):
        return [filled(schema["items"], one) for one in value]
    if not isinstance(value, dict) or "properties" not in schema:
        return value
    return {key: filled(schema["properties"][key], one) for key, one in value.items()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.arrange.__name__)
def test_a_situation_is_told_by_its_sentence_and_the_next_step(
    serving: Callable[[tuple[Json, ...]], Installed], case: Case
) -> None:
    system = serving(case.configuration)
    asked = case.arrange(system)
    step = case.step.replace("{ns}", asked.namespace)
    last: dict[str, Any] = {}
    text: list[str] = []

    def is_told() -> bool:
        nonlocal last, text
        last = json.loads(ask(system, asked, "json"))
        is_said = matches(case.sentence, asked.namespace, last["message"])
        # The condition of the Workload, of which the labels are read, comes after that of the pod.
        if last["reason"] != case.code or not is_said or step not in last["next"]:
            return False
        text = ask(system, asked, "wide").splitlines()
        return bool(text[0] == last["message"])  # it may change between the two

    try:
        waiting.until(is_told)
    except TimeoutError:
        pytest.fail(json.dumps(last, indent=2), pytrace=False)
    typed = f" --kubeconfig {system.kubeconfig}"  # commands in it repeat this
    assert len(last["message"].replace(typed, "")) <= sentences.MOST
    assert [*structural.violations(schema(), filled(schema(), last))] == []
    assert f"  reason {case.code}" in [re.sub(r"(?<=reason) +", " ", line) for line in text]
    assert (not step) or text[-1].startswith("next: ")


def test_every_reason_has_a_situation_or_an_explanation() -> None:
    shown = {case.code for case in CASES}
    assert shown | set(ELSEWHERE) == set(Code)
    assert not shown & set(ELSEWHERE)
