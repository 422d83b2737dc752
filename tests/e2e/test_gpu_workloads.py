"""Pods of Deployments and Jobs on a whole cluster: admitted, placed, kept waiting, cleaned up."""

from collections import Counter

import pytest

from admission.base import names
from tests.builders.pods import make_pod
from tests.chaos import invariants
from tests.controlplane import nodes, waiting
from tests.e2e import objects, pools
from tests.e2e.pools import Pool, condition
from tests.e2e.queues import add_flavor, add_queue, reasons, usage, waiting_pods
from tests.integration.installed import KUEUE, Installed

EXPECTED_ERRORS = pools.REMOVED

pytestmark = pytest.mark.controlplane

A100 = "NVIDIA-A100-SXM4-80GB"
H100 = "NVIDIA-H100-80GB-HBM3"
APPS = "apis/apps/v1"
BATCH = "apis/batch/v1"
SLICE = "nvidia.com/mig-1g.10gb"


def test_a_deployment_over_quota_runs_in_part_on_the_flavors_nodes(system: Installed, team: Pool):
    node = team.add_node(product=A100, gpus=16, taints=[nodes.GPU_TAINT])
    add_queue(system, team, {add_flavor(system, team, "a100", A100): 8})
    deployment = objects.make_deployment("serve", 6, objects.make_pod_spec(2))
    team.create("deployments", deployment, api=APPS)

    waiting.until(lambda: len(team.pods("Running")) == 4, what="four pods run")
    waiting.until(lambda: len(waiting_pods(team)) == 2, what="two pods say why they wait")
    assert {pod["spec"]["nodeName"] for pod in team.pods("Running")} == {node}
    waiting.until(lambda: "WaitingForQuota" in reasons(team), what="one names the shortage")


def test_every_one_of_equal_waiting_pods_names_the_shortage(system: Installed, team: Pool):
    team.add_node(product=A100, gpus=8)
    add_queue(system, team, {add_flavor(system, team, "a100", A100): 2})
    deployment = objects.make_deployment("serve", 3, objects.make_pod_spec(2))
    team.create("deployments", deployment, api=APPS)

    waiting.until(lambda: len(waiting_pods(team)) == 2, what="two pods wait")
    waiting.until(lambda: reasons(team) == {"WaitingForQuota"}, what="both say why")


def test_flavors_are_filled_in_the_order_of_the_queue(system: Installed, team: Pool):
    small = team.add_node(product=A100, gpus=8, taints=[nodes.GPU_TAINT])
    large = team.add_node(product=H100, gpus=8, taints=[nodes.GPU_TAINT])
    first = add_flavor(system, team, "a100", A100)
    add_queue(system, team, {first: 2, add_flavor(system, team, "h100", H100): 4})
    deployment = objects.make_deployment("serve", 6, objects.make_pod_spec(1))
    team.create("deployments", deployment, api=APPS)

    waiting.until(lambda: len(team.pods("Running")) == 6, what="all pods run")
    assert Counter(p["spec"]["nodeName"] for p in team.pods()) == {small: 2, large: 4}


def test_a_scale_up_waits_for_quota_and_a_scale_down_gives_it_back(system: Installed, team: Pool):
    team.add_node(product=A100, gpus=8)
    add_queue(system, team, {add_flavor(system, team, "a100", A100): 2})
    for name in ("first", "second"):
        deployment = objects.make_deployment(name, 1, objects.make_pod_spec(1))
        team.create("deployments", deployment, api=APPS)
    waiting.until(lambda: len(team.pods("Running")) == 2, what="both run")

    scale(team, "second", 2)
    waiting.until(lambda: len(waiting_pods(team)) == 1, what="the third pod waits")
    scale(team, "first", 0)
    waiting.until(
        lambda: Counter(app(pod) for pod in team.pods("Running")) == {"second": 2},
        what="the third pod has the first one's GPU",
    )


def test_a_rollout_to_pods_of_another_size_never_holds_more_than_the_quota(
    system: Installed, team: Pool
):
    team.add_node(product=A100, gpus=8)
    add_queue(system, team, {add_flavor(system, team, "a100", A100): 5})
    deployment = objects.make_deployment("serve", 2, objects.make_pod_spec(1))
    created = team.create("deployments", deployment, api=APPS)
    waiting.until(lambda: len(team.pods("Running")) == 2, what="two pods run")

    container = created["spec"]["template"]["spec"]["containers"][0]
    for size in (2, 1):
        amounts = {"nvidia.com/gpu": str(size), "cpu": "1"}
        larger = {**container, "resources": {"limits": amounts, "requests": amounts}}
        change = {"spec": {"template": {"spec": {"containers": [larger]}}}}
        team.cluster.api.patch(team.path("deployments", "serve", api=APPS), change)

        def is_rolled_out(size: int = size) -> bool:
            assert invariants.unsafe(invariants.read(system.api)) == []
            is_done = Counter(map(gpus, team.pods())) == {size: 2}
            return is_done and usage(system, team) == {str(2 * size)}

        waiting.until(is_rolled_out, what=f"both pods have {size} GPUs, and no more is charged")


def test_preempted_pods_of_services_come_back_once_and_wait(system: Installed, team: Pool):
    team.add_node(product=A100, gpus=8)
    add_queue(system, team, {add_flavor(system, team, "a100", A100): 3})
    system.api.patch(
        f"{KUEUE}/clusterqueues/{team.name}",
        {"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}},
    )
    spec = objects.make_pod_spec(1)
    team.create("deployments", objects.make_deployment("serve", 2, spec), api=APPS)
    stateful = {**objects.make_deployment("store", 1, spec)}
    stateful["spec"]["serviceName"] = "store"
    stateful["metadata"]["labels"] = {names.QUEUE_LABEL: "default"}
    team.create("statefulsets", stateful, api=APPS)
    waiting.until(lambda: len(team.pods("Running")) == 3, what="all run")
    seen = {uid(pod) for pod in team.pods()}

    system.add_classes(**{f"high-{team.name}": 1000})
    high = make_pod("high", gpus=3, labels={names.PRIORITY_CLASS_LABEL: f"high-{team.name}"})
    high["spec"]["terminationGracePeriodSeconds"] = 0
    team.create("pods", high)

    def is_settled(waits: int = 3) -> bool:
        pods = [pod for pod in team.pods() if pod["metadata"]["name"] != "probe"]
        seen.update(map(uid, pods))
        running = [pod["metadata"]["name"] for pod in team.pods("Running")]
        return running == ["high"] and len(waiting_pods(team)) == waits

    waiting.until(is_settled, what="the high pod runs, and the others wait and say why")
    team.create("pods", make_pod("probe", gpus=1))
    waiting.until(
        lambda: any(pod["metadata"]["name"] == "probe" for pod in waiting_pods(team)),
        what="a pod that comes after it waits, too",
    )
    assert is_settled(4)
    team.cluster.api.delete(team.path("pods", "probe"))
    assert len(seen) == 3 + 1 + 3, "one replacement for each that was evicted"

    team.cluster.api.delete(team.path("pods", "high"))
    waiting.until(lambda: len(team.pods("Running")) == 3, what="all run again")
    team.cluster.api.delete(team.path("statefulsets", "store", api=APPS))
    waiting.until(lambda: len(team.pods()) == 2, what="the pod of the StatefulSet is gone")


def test_a_job_whose_pods_name_the_queue_completes_in_batches_that_fit(
    system: Installed, team: Pool
):
    team.add_node(product=A100, gpus=8)
    add_queue(system, team, {add_flavor(system, team, "a100", A100): 2})
    seen: list[int] = []
    own = {names.QUEUE_LABEL: "default"}
    job = objects.make_job("train", 6, objects.make_pod_spec(1), labels=own)
    job["metadata"]["labels"] = {"app": "train"}  # else the template's labels become the Job's
    team.create("jobs", job, api=BATCH)

    def is_complete() -> bool:
        seen.append(len(team.pods("Running")))
        job = team.cluster.api.get(team.path("jobs", "train", api=BATCH))
        return condition(job, "Complete").get("status") == "True"

    waiting.until(is_complete, what="the Job is complete")
    assert max(seen) <= 2
    assert len(team.pods("Succeeded")) == 6


def test_a_whole_gpu_becomes_the_slice_that_the_pod_names(system: Installed, team: Pool):
    node = team.add_node(product=A100, gpus=0, mig={"1g.10gb": 2})
    add_queue(system, team, {add_flavor(system, team, "mig", A100): 1}, SLICE)
    for name in ("first", "second"):
        pod = make_pod(name, **objects.make_pod_spec(1))
        pod["metadata"]["annotations"] = {names.MIG_PROFILE: "1g.10gb"}
        team.create("pods", pod)

    waiting.until(lambda: len(team.pods("Running")) == 1, what="one pod has the slice")
    waiting.until(lambda: len(waiting_pods(team)) == 1, what="the other waits")
    (running,) = team.pods("Running")
    assert running["spec"]["nodeName"] == node
    assert running["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1", SLICE: "1"}


def test_a_deleted_namespace_leaves_nothing_and_gives_its_quota_back(
    system: Installed, team: Pool
):
    team.add_node(product=A100, gpus=8)
    add_queue(system, team, {add_flavor(system, team, "a100", A100): 4})
    deployment = objects.make_deployment("serve", 6, objects.make_pod_spec(1))
    team.create("deployments", deployment, api=APPS)
    team.create("jobs", objects.make_job("train", 2, objects.make_pod_spec(1)), api=BATCH)
    waiting.until(lambda: len(team.pods("Running")) == 4, what="four pods run")
    waiting.until(lambda: waiting_pods(team), what="some wait")

    team.delete_namespace()
    assert team.pods() == []
    workloads = f"{KUEUE}/namespaces/{team.namespace}/workloads"
    assert team.cluster.api.get(workloads)["items"] == []
    waiting.until(lambda: usage(system, team) == {"0"}, what="the quota is free")


def scale(team: Pool, deployment: str, replicas: int) -> None:
    path = team.path("deployments", deployment, api=APPS)
    team.cluster.api.patch(path, {"spec": {"replicas": replicas}})


def gpus(pod: objects.Json) -> int:
    """How many GPUs a pod asks for."""
    return int(pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])


def uid(pod: objects.Json) -> str:
    """The UID of a pod."""
    found: str = pod["metadata"]["uid"]
    return found


def app(pod: objects.Json) -> str:
    """The Deployment that a pod belongs to."""
    name: str = pod["metadata"]["labels"]["app"]
    return name
