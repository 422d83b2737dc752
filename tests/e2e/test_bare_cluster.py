"""The whole cluster without gpu-admission: what all other end-to-end tests rely on."""

from tests.builders.pods import make_pod
from tests.controlplane import nodes, waiting
from tests.controlplane.rest import JSON_PATCH, Json
from tests.e2e import objects
from tests.e2e.pools import Pool, condition

GATE = "kueue.x-k8s.io/admission"
MIG = "nvidia.com/mig-1g.10gb"


def test_a_gated_pod_is_bound_and_run_after_one_patch_takes_the_gate_off(pool: Pool):
    node = pool.add_node(gpus=8, taints=[nodes.GPU_TAINT])
    pool.create("pods", make_pod("gated", **objects.make_pod_spec(gates=[GATE])))
    waiting.until(
        lambda: condition(pool.pod("gated"), "PodScheduled").get("reason") == "SchedulingGated",
        what="a scheduler that sees the gate",
    )
    tolerate = {"key": nodes.GPU_TAINT["key"], "operator": "Exists", "effect": "NoSchedule"}
    release = [
        {"op": "remove", "path": "/spec/schedulingGates"},
        {"op": "add", "path": "/spec/nodeSelector", "value": pool.selector},
        {"op": "add", "path": "/spec/tolerations/-", "value": tolerate},
    ]
    pool.cluster.api.patch(pool.path("pods", "gated"), release, JSON_PATCH)
    waiting.until(lambda: pool.pods("Running"), what="the released pod runs")
    assert pool.pod("gated")["spec"]["nodeName"] == node


def test_a_taint_keeps_pods_away_that_do_not_tolerate_it(pool: Pool):
    pool.add_node(taints=[nodes.GPU_TAINT])
    spec = objects.make_pod_spec(node_selector=pool.selector)
    pool.create("pods", make_pod("plain", **spec))

    def refused() -> Json | None:
        """The scheduler's answer once it has seen the node, which it may after the pod."""
        told = condition(pool.pod("plain"), "PodScheduled")
        return told if "untolerated taint" in told.get("message", "") else None

    assert waiting.until(refused, what="the taint in the way")["reason"] == "Unschedulable"


def test_a_deployment_gets_as_many_pods_as_there_are_gpus(pool: Pool):
    pool.add_node(gpus=8)
    spec = objects.make_pod_spec(2, node_selector=pool.selector)
    pool.create("deployments", objects.make_deployment("serve", 6, spec), api="apis/apps/v1")

    def refused() -> list[Json]:
        told = (condition(pod, "PodScheduled") for pod in pool.pods("Pending"))
        return [one for one in told if one.get("reason") == "Unschedulable"]

    waiting.until(
        lambda: len(pool.pods("Running")) == 4 and len(refused()) == 2,
        what="four pods run and two find no place",
    )


def test_slices_are_counted_apart_from_whole_gpus(pool: Pool):
    pool.add_node(gpus=1, mig={"1g.10gb": 2})
    for name, resource in [("a", MIG), ("b", MIG), ("c", "nvidia.com/gpu")]:
        spec = objects.make_pod_spec(resource=resource, node_selector=pool.selector)
        pool.create("pods", make_pod(name, **spec))
    waiting.until(lambda: len(pool.pods("Running")) == 3, what="two slices and one GPU are used")


def test_a_job_completes_one_batch_after_the_other(pool: Pool):
    pool.add_node(gpus=2)
    spec = objects.make_pod_spec(node_selector=pool.selector)
    pool.create("jobs", objects.make_job("train", 4, spec), api="apis/batch/v1")
    job = pool.path("jobs", "train", api="apis/batch/v1")
    waiting.until(
        lambda: condition(pool.cluster.api.get(job), "Complete").get("status") == "True",
        what="the Job is complete",
    )
    assert len(pool.pods("Succeeded")) == 4


def test_a_deleted_namespace_takes_running_pods_and_their_owners_along(pool: Pool):
    pool.add_node()
    spec = objects.make_pod_spec(node_selector=pool.selector)
    pool.create("deployments", objects.make_deployment("serve", 3, spec), api="apis/apps/v1")
    waiting.until(lambda: len(pool.pods("Running")) == 3, what="three pods run")
    pool.delete_namespace()
    assert pool.pods() == []
