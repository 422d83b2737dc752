"""Pods wait for a node, not only for an amount: with the real scheduler and real bindings."""

import json
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from admission.admin.doctor import checks, looking
from admission.admin.doctor.findings import Diagnosis, Severity
from admission.base import names
from admission.base.clock import SystemClock
from admission.run.connection import ApiServerTarget
from tests.builders.queues import make_class
from tests.controlplane import waiting
from tests.controlplane.rest import Json
from tests.e2e import objects
from tests.e2e.pools import Pool
from tests.e2e.queues import add_flavor, add_queue, reasons, waiting_pods
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

A100 = "NVIDIA-A100-SXM4-80GB"
H100 = "NVIDIA-H100-80GB-HBM3"
HOSTNAME = "kubernetes.io/hostname"
RACK = "example.com/rack"


def add_pod(team: Pool, name: str, gpus: int, **fields: Any) -> None:
    """A pod that runs until it is deleted."""
    metadata = fields.pop("metadata", {})
    spec = {**objects.make_pod_spec(gpus), **fields}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}}
    team.create("pods", {**body, "spec": spec})


def add_foreign_pod(team: Pool, name: str, node: str, gpus: int) -> None:
    """A pod that no queue admits, bound past the scheduler, in a namespace that is not ours."""
    spec = {**objects.make_pod_spec(gpus), "nodeName": node}
    spec["tolerations"] = [{"operator": "Exists"}]
    team.cluster.api.post(
        "/api/v1/namespaces/kube-system/pods",
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec},
    )


def running(team: Pool) -> set[str]:
    return {pod["metadata"]["name"] for pod in team.pods("Running")}


def why_waiting(system: Installed, team: Pool) -> str:
    """What the only Workload says of the quota that it waits for; empty while it says nothing."""
    workloads = system.api.get(f"{KUEUE}/namespaces/{team.namespace}/workloads")["items"]
    conditions = workloads[0].get("status", {}).get("conditions", []) if workloads else []
    return next((c["message"] for c in conditions if c["type"] == "QuotaReserved"), "")


def told(team: Pool) -> str:
    """What the only waiting pod says."""
    (pod,) = waiting.until(lambda: waiting_pods(team), what="a pod says why it waits")
    conditions = pod["status"]["conditions"]
    return str(next(c["message"] for c in conditions if c["type"].endswith("/Admitted")))


def test_a_pod_waits_for_a_hole_though_enough_gpus_are_free(system: Installed, team: Pool):
    first, second = (team.add_node(product=A100, gpus=4) for _ in range(2))
    add_queue(system, team, {add_flavor(system, team, "a", A100): 8})
    for index, node in enumerate((first, second)):
        add_pod(team, f"small-{index}", 2, nodeSelector={HOSTNAME: node})
    waiting.until(lambda: len(running(team)) == 2, what="both small pods run")

    add_pod(team, "large", 4)

    assert "4 are free, at most 2 on one node" in told(team)
    assert f"would fit if {team.namespace}/small-" in told(team)
    assert reasons(team) == {"WaitingForNode"}
    add_pod(team, "tiny", 1)
    waiting.until(lambda: "tiny" in running(team), what="who fits is not held up")
    team.cluster.api.delete(team.path("pods", "small-0"))
    team.cluster.api.delete(team.path("pods", "tiny"))
    waiting.until(lambda: "large" in running(team), what="the large pod has its hole")


def test_nobody_is_preempted_for_a_pod_that_fits_nowhere_afterwards(system: Installed, team: Pool):
    hosts = [team.add_node(product=A100, gpus=8) for _ in range(2)]
    flavor = add_flavor(system, team, "a", A100)
    quotas = {flavor: {names.GPU_RESOURCE: 16, "cpu": "1k"}}
    system.add_cluster_queue(
        team.name, quotas=quotas, preemption={"withinClusterQueue": "LowerPriority"}
    )
    system.add_local_queue(team.namespace, team.name)
    system.wait_for_queue(team.namespace)
    for host in hosts:
        add_foreign_pod(team, f"{host}-foreign", host, 2)
        for index in range(3):
            add_pod(team, f"low-{host}-{index}", 2, nodeSelector={HOSTNAME: host})
    waiting.until(lambda: len(running(team)) == 6, what="six small pods run")

    # A PriorityClass would have the scheduler preempt; this one is known to queues only.
    priority = make_class(team.name, 1000)
    system.api.post(f"{KUEUE}/workloadpriorityclasses", priority)
    labels = {names.PRIORITY_CLASS_LABEL: team.name}
    add_pod(team, "high", 8, metadata={"labels": labels})

    assert "on one node" in told(team)
    assert len(running(team)) == 6
    team.cluster.api.delete(f"/api/v1/namespaces/kube-system/pods/{hosts[1]}-foreign")
    waiting.until(lambda: "high" in running(team), what="the high pod runs")
    assert {name for name in running(team) if hosts[0] in name} == {
        f"low-{hosts[0]}-{index}" for index in range(3)
    }
    team.cluster.api.delete(f"/api/v1/namespaces/kube-system/pods/{hosts[0]}-foreign")
    system.api.delete(f"{KUEUE}/workloadpriorityclasses/{team.name}")


@pytest.mark.parametrize("how", ["hole", "hostname", "label", "field"])
def test_a_flavor_whose_nodes_cannot_take_the_pod_is_passed_over(
    system: Installed, team: Pool, how: str
):
    memory = "nvidia.com/gpu.memory"
    first = team.add_node(product=A100, gpus=4, labels={memory: "40960"})
    second = team.add_node(product=H100, gpus=4, labels={memory: "81559"})
    quota = {add_flavor(system, team, "a", A100): 8, add_flavor(system, team, "h", H100): 8}
    add_queue(system, team, quota)
    fields: dict[str, Any] = {}
    if how == "hole":
        add_foreign_pod(team, f"{first}-foreign", first, 2)
        waiting.until(lambda: "4" not in free_gpus(system, first), what="the pod is on the node")
    elif how == "hostname":
        fields["nodeSelector"] = {HOSTNAME: second}
    else:
        term = (
            {"matchExpressions": [{"key": memory, "operator": "Gt", "values": ["50000"]}]}
            if how == "label"
            else {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [second]}]}
        )
        required = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        }
        fields["affinity"] = {"nodeAffinity": required}

    add_pod(team, "large", 4, **fields)

    waiting.until(lambda: running(team) == {"large"}, what="the pod runs")
    assert team.pod("large")["spec"]["nodeName"] == second
    if how == "hole":
        team.cluster.api.delete(f"/api/v1/namespaces/kube-system/pods/{first}-foreign")


def free_gpus(system: Installed, node: str) -> str:
    """GPUs of a node that no pod holds, by the API server."""
    pods = system.api.get(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")["items"]
    held = sum(
        int(one["resources"]["limits"].get(names.GPU_RESOURCE, 0))
        for pod in pods
        for one in pod["spec"]["containers"]
    )
    allocatable = system.api.get(f"/api/v1/nodes/{node}")["status"]["allocatable"]
    return str(int(allocatable[names.GPU_RESOURCE]) - held)


@pytest.mark.parametrize("how", ["drained", "gone"])
def test_a_job_whose_node_is_lost_takes_its_quota_back_from_one_borrower(
    system: Installed, team: Pool, how: str
):
    hosts = [team.add_node(product=A100, gpus=4) for _ in range(3)]
    flavor = add_flavor(system, team, "a", A100)
    for name, gpus in ((team.name, 12), (f"{team.name}-borrows", 0)):
        system.add_cluster_queue(
            name,
            quotas={flavor: {names.GPU_RESOURCE: gpus, "cpu": "1k"}},
            cohortName=team.name,
            preemption={"reclaimWithinCohort": "Any"},
        )
        system.add_local_queue(team.namespace, name, name)
        system.wait_for_queue(team.namespace, name)

    def run(name: str, queue: str) -> str:
        """The node on which the pod of a Job runs."""
        job = objects.make_job(name, 1, objects.make_pod_spec(4), run_for="1h")
        job["metadata"]["labels"] = {names.QUEUE_LABEL: queue}
        team.create("jobs", job, api="apis/batch/v1")
        return waiting.until(lambda: node_of(team, name), what=f"{name} runs")

    lost = run("own", team.name)
    borrowers = {run(name, f"{team.name}-borrows"): name for name in ("theirs-0", "theirs-1")}
    assert {lost, *borrowers} == set(hosts)

    if how == "drained":
        team.cluster.api.patch(f"/api/v1/nodes/{lost}", {"spec": {"unschedulable": True}})
        (pod,) = [pod for pod in team.pods() if pod["metadata"]["labels"].get("app") == "own"]
        team.cluster.api.delete(team.path("pods", pod["metadata"]["name"]))
    else:
        team.remove_node(lost)

    host = waiting.until(lambda: node_of(team, "own", but=lost), what="own runs elsewhere")
    (goes_on,) = set(borrowers) - {host}
    assert node_of(team, borrowers[goes_on]) == goes_on
    stopped = system.api.get(team.path("jobs", borrowers[host], api="apis/batch/v1"))
    assert stopped["spec"]["suspend"] is True


def node_of(team: Pool, job: str, but: str = "") -> str:
    """The node but one on which a pod of a Job runs; empty where none does."""
    nodes = [
        pod["spec"].get("nodeName", "")
        for pod in team.pods("Running")
        if pod["metadata"]["labels"].get("app") == job
        and "deletionTimestamp" not in pod["metadata"]
        and pod["spec"]["nodeName"] != but
    ]
    return nodes[0] if nodes else ""


def test_a_gang_whose_pods_keep_apart_waits_for_as_many_hosts(system: Installed, team: Pool):
    for _ in range(3):
        team.add_node(product=A100, gpus=4)
    add_queue(system, team, {add_flavor(system, team, "a", A100): 16})
    term = {"labelSelector": {"matchLabels": {"app": "gang"}}, "topologyKey": HOSTNAME}
    apart = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    spec = {**objects.make_pod_spec(1), "affinity": {"podAntiAffinity": apart}}
    job = objects.make_job("gang", 4, spec, run_for="1h")
    team.create("jobs", job, api="apis/batch/v1")

    waiting.until(
        lambda: "4 pods with 1 nvidia.com/gpu each, 3 fit" in why_waiting(system, team),
        what="it waits",
    )
    team.add_node(product=A100, gpus=4)
    waiting.until(lambda: len(running(team)) == 4, what="all four run")


def test_a_gang_whose_pods_must_be_together_waits_for_a_rack(system: Installed, team: Pool):
    racks = [team.add_node(product=A100, gpus=2, labels={RACK: rack}) for rack in ("r1", "r2")]
    add_queue(system, team, {add_flavor(system, team, "a", A100): 16})
    term = {"labelSelector": {"matchLabels": {"app": "gang"}}, "topologyKey": RACK}
    together = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    spec = {**objects.make_pod_spec(1), "affinity": {"podAffinity": together}}
    job = objects.make_job("gang", 3, spec, run_for="1h")
    team.create("jobs", job, api="apis/batch/v1")

    text = f"with the same {RACK} for 3 pods with 1 nvidia.com/gpu each, 2 fit; 4 are free"
    waiting.until(lambda: text in why_waiting(system, team), what="it waits")
    racks.append(team.add_node(product=A100, gpus=1, labels={RACK: "r2"}))
    waiting.until(lambda: len(running(team)) == 3, what="all three run")
    assert {pod["spec"]["nodeName"] for pod in team.pods("Running")} == set(racks[1:])


def test_a_node_that_is_about_to_go_takes_nobody(system: Installed, team: Pool):
    node = team.add_node(product=A100, gpus=4)
    add_queue(system, team, {add_flavor(system, team, "a", A100): 4})
    path = f"/api/v1/nodes/{node}"
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    before = system.api.get(path)["spec"].get("taints", [])
    system.api.patch(path, {"spec": {"taints": [*before, taint]}})

    add_pod(team, "pod", 1)

    assert "1 has a taint that it does not tolerate" in told(team)
    system.api.patch(path, {"spec": {"taints": before}})
    waiting.until(lambda: running(team) == {"pod"}, what="the pod runs")


def test_flavors_of_the_same_nodes_count_a_gpu_once(system: Installed, team: Pool):
    team.add_node(product=A100, gpus=4)
    names_of_flavors = [add_flavor(system, team, suffix, A100) for suffix in ("a", "b")]
    add_queue(system, team, dict.fromkeys(names_of_flavors, 8))
    add_pod(team, "first", 3)
    waiting.until(lambda: running(team) == {"first"}, what="the first pod runs")

    add_pod(team, "second", 2)

    assert "at most 1 on one node" in told(team)


def test_nodes_of_a_flavor_that_says_so_decide_nothing(system: Installed, team: Pool):
    team.add_node(product=A100, gpus=2)
    flavor = add_flavor(system, team, "a", A100)
    system.api.patch(
        f"{KUEUE}/resourceflavors/{flavor}",
        {"metadata": {"annotations": {names.PLACEMENT: "Tell"}}},
    )
    add_queue(system, team, {flavor: 8})

    add_pod(team, "pod", 4)

    waiting.until(
        lambda: not team.pod("pod")["spec"].get("schedulingGates"), what="it is admitted"
    )


def test_quota_without_a_node_is_one_number_wherever_it_is_shown(system: Installed, team: Pool):
    team.add_node(product=A100, gpus=4)
    flavor = add_flavor(system, team, "a", A100)
    add_queue(system, team, {flavor: 4})
    # The scheduler of this pod does not exist, so nobody binds it.
    add_pod(team, "first", 3, schedulerName="nobody")
    path = f"{KUEUE}/clusterqueues/{team.name}"
    waiting.until(lambda: held_without_node(system.api.get(path)) == {"3"}, what="it is counted")
    add_pod(team, "second", 2)
    told(team)

    shown = kubectl_gpu(system, "top", team.name, "-o", "json")
    (queue,) = shown["clusterQueues"]
    assert [one["withoutNode"] for one in queue["quota"] if one["withoutNode"] != "0"] == ["3"]
    why = kubectl_gpu(system, "why", "pod/second", "-n", team.namespace, "-o", "json")
    sentence = (
        f"3 nvidia.com/gpu in flavor {flavor} are held by pods of ClusterQueue {team.name}"
        " that are on no node"
    )
    assert any(note.startswith(sentence) for note in why["notes"])
    _, metrics = system.page(system.metrics_url, "/metrics")
    labels = f'cluster_queue="{team.name}",flavor="{flavor}",resource="nvidia.com/gpu"'
    assert f"gpu_admission_quota_without_node{{{labels}}} 3.0" in metrics
    found = [
        finding.what
        for check, finding in later(system, 600).of(Severity.WARNING)
        if check == "quota-without-node"
    ]
    assert any(text.startswith(sentence) for text in found)

    team.cluster.api.delete(team.path("pods", "first"))
    waiting.until(lambda: running(team) == {"second"}, what="the second pod runs")
    waiting.until(lambda: not held_without_node(system.api.get(path)), what="all are on nodes")


def held_without_node(queue: Json) -> set[str]:
    """What the status of a ClusterQueue says that pods without a node hold."""
    listed = queue.get("status", {}).get("withoutNode", ())
    return {one["total"] for flavor in listed for one in flavor["resources"]}


def kubectl_gpu(system: Installed, *arguments: str) -> Json:
    """What a command of the plugin answers."""
    program = "from admission.cli.kubectl import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments, "--kubeconfig", system.kubeconfig],
        capture_output=True, text=True, timeout=waiting.PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def later(system: Installed, seconds: float) -> Diagnosis:
    """What the doctor would find so many seconds later."""
    with closing(
        ApiServerTarget(system.kubeconfig).connect(connections=1, timeout_seconds=30)
    ) as api:
        picture = looking.look(api, None, SystemClock())
    moment = picture.now + timedelta(seconds=seconds)
    return checks.diagnose(replace(picture, now=moment, here=moment))


def test_what_is_admitted_and_not_bound_yet_keeps_its_place(system: Installed, team: Pool):
    node = team.add_node(product=A100, gpus=4, labels={"stage": "later"})
    flavor = add_flavor(system, team, "a", A100)
    add_queue(system, team, {flavor: 8})
    # The scheduler of these pods does not exist, so nobody binds them.
    add_pod(team, "first", 3, schedulerName="nobody")
    waiting.until(
        lambda: not team.pod("first")["spec"].get("schedulingGates"), what="it is admitted"
    )

    affinity = team.pod("first")["spec"]["affinity"]["nodeAffinity"]
    (preference,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    (expression,) = preference["preference"]["matchExpressions"]
    assert expression == {"key": HOSTNAME, "operator": "In", "values": [node]}

    add_pod(team, "second", 2)

    assert "at most 1 on one node" in told(team)
    assert node in told(team)
    team.cluster.api.delete(team.path("pods", "first"))
    waiting.until(lambda: running(team) == {"second"}, what="the second pod runs")


def test_a_pod_is_admitted_once_the_gates_of_others_are_gone(system: Installed, team: Pool):
    team.add_node(product=A100, gpus=4)
    add_queue(system, team, {add_flavor(system, team, "a", A100): 4})
    theirs = "acme.io/data"
    add_pod(team, "held", 4, schedulingGates=[{"name": theirs}])
    assert theirs in told(team)

    add_pod(team, "next", 4)  # whoever can run is not held up

    waiting.until(lambda: running(team) == {"next"}, what="the next pod runs")
    gates = {"spec": {"schedulingGates": [{"name": names.ADMISSION_GATE}]}}
    team.cluster.api.patch(team.path("pods", "held"), gates)
    team.cluster.api.delete(team.path("pods", "next"))
    waiting.until(lambda: running(team) == {"held"}, what="the held pod runs")


def test_a_pod_waits_for_the_node_of_its_bound_volume(system: Installed, team: Pool):
    first, second = (team.add_node(product=A100, gpus=4) for _ in range(2))
    add_queue(system, team, {add_flavor(system, team, "a", A100): 16})
    name = f"{team.name}-data"
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [first]}]}
    common = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    team.cluster.api.post(
        "/api/v1/persistentvolumes",
        {
            "metadata": {"name": name},
            "spec": {
                **common,
                "local": {"path": "/data"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
                "claimRef": {"namespace": team.namespace, "name": "data"},
            },
        },
    )
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "volumeName": name,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    team.create("persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": claim})
    path = f"/api/v1/persistentvolumes/{name}"
    waiting.until(
        lambda: team.cluster.api.get(path)["status"].get("phase") == "Bound",
        what="the volume is bound",
    )
    add_pod(team, "small", 2, nodeSelector={HOSTNAME: first})
    waiting.until(lambda: running(team) == {"small"}, what="the small pod runs")
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}

    add_pod(team, "large", 4, volumes=[volume])

    assert "at most 2 on one node" in told(team)
    add_pod(team, "anywhere", 4)
    waiting.until(lambda: "anywhere" in running(team), what="another pod runs elsewhere")
    assert team.pod("anywhere")["spec"]["nodeName"] == second
    team.cluster.api.delete(team.path("pods", "small"))
    waiting.until(lambda: "large" in running(team), what="the large pod runs")
    assert team.pod("large")["spec"]["nodeName"] == first
    team.cluster.api.delete(path)


def test_a_job_prefers_the_nodes_that_it_was_admitted_for(system: Installed, team: Pool):
    first, second = (team.add_node(product=A100, gpus=4) for _ in range(2))
    add_queue(system, team, {add_flavor(system, team, "a", A100): 8})
    add_foreign_pod(team, f"{first}-foreign", first, 3)
    spec = {**objects.make_pod_spec(2), "nodeSelector": team.selector}
    job = objects.make_job("job", 2, spec, run_for="1h")
    team.create("jobs", job, api="apis/batch/v1")
    path = team.path("jobs", "job", api="apis/batch/v1")
    waiting.until(lambda: len(running(team)) == 2, what="both pods run")

    node = system.api.get(path)["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (preference,) = node["preferredDuringSchedulingIgnoredDuringExecution"]
    (expression,) = preference["preference"]["matchExpressions"]
    assert expression == {"key": HOSTNAME, "operator": "In", "values": [second]}

    workloads = system.api.get(f"{KUEUE}/namespaces/{team.namespace}/workloads")["items"]
    name = workloads[0]["metadata"]["name"]
    inactive = {"spec": {"active": False}}
    system.api.patch(f"{KUEUE}/namespaces/{team.namespace}/workloads/{name}", inactive)
    waiting.until(
        lambda: "affinity" not in system.api.get(path)["spec"]["template"]["spec"],
        what="the template is as before",
    )
    assert system.api.get(path)["spec"]["suspend"] is True
    team.cluster.api.delete(f"/api/v1/namespaces/kube-system/pods/{first}-foreign")
