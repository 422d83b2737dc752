"""Nodes, agents' device lists and pods become facts about GPUs."""

from typing import Any

import msgspec
import pytest

from admission.gpu.health import DeviceReading
from admission.objects import bound_pod, koordinator, nodes, pods, views
from tests.builders.pods import pod_view

GPU, MIG, SHARED = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"


def node(**parts: Any) -> views.Node:
    return msgspec.convert({"metadata": {"name": "n"}, **parts}, views.Node)


def test_only_gpu_names_are_kept_and_health_is_what_the_conditions_say():
    status = {
        "allocatable": {GPU: "7", "cpu": "96", MIG: 2},
        "capacity": {GPU: "8", "memory": "1Ti"},
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        ],
    }
    facts = nodes.node_facts(node(spec={"unschedulable": True}, status=status))
    assert (facts.allocatable, facts.capacity) == ({GPU: 7, MIG: 2}, {GPU: 8})
    assert (facts.ready, facts.unschedulable, facts.devices) == (True, True, None)
    assert nodes.has_gpus(facts)
    assert not nodes.has_gpus(nodes.node_facts(node(status={"allocatable": {"cpu": "1"}})))


def test_a_node_without_a_ready_condition_is_not_ready():
    assert not nodes.node_facts(node()).ready
    not_ready = ("node.kubernetes.io/not-ready", "NoSchedule")
    assert not_ready in [(taint.key, taint.effect) for taint in nodes.place_node(node()).taints]
    ready = node(status={"conditions": [{"type": "Ready", "status": "True"}]})
    assert nodes.place_node(ready).taints == ()


def test_req_11_devices_of_a_node_agent():
    healthy = {"type": "Healthy", "status": "False", "reason": "Xid79"}
    document = {
        "metadata": {"name": "n", "labels": {"node.koordinator.sh/gpu-model": "A100"}},
        "spec": {
            "devices": [
                {
                    "type": "gpu",
                    "id": "GPU-1",
                    "minor": 1,
                    "health": True,
                    "resources": {"koordinator.sh/gpu-memory": "80Gi"},
                },
                {"type": "gpu", "id": "GPU-2", "conditions": [healthy]},
                {"type": "rdma", "id": "mlx", "health": True},
            ]
        },
    }
    assert koordinator.readings(msgspec.convert(document, koordinator.KoordinatorDevice)) == (
        DeviceReading(id="GPU-1", minor=1, memory_bytes=80 * 2**30, model="A100"),
        DeviceReading(id="GPU-2", healthy=False, reason="Xid79", model="A100"),
    )


@pytest.mark.parametrize(
    ("changes", "held"),
    [
        ({"spec": {"nodeName": "n0"}}, {GPU: 2}),
        ({}, {}),
        ({"spec": {"nodeName": "n0"}, "phase": "Succeeded"}, {}),
        ({"spec": {"nodeName": "n0"}, "phase": "Failed"}, {}),
        ({"spec": {"nodeName": "n0"}, "resource": SHARED}, {SHARED: 2}),
        ({"spec": {"nodeName": "n0"}, "resource": "example.com/fpga"}, {}),
    ],
)
def test_a_bound_pod_holds_its_gpus_until_it_has_ended(changes, held):
    assert pods.held_gpus(pod_view(gpus=2, gated=False, **changes)) == held


def test_req_15_init_containers_and_sidecars_count_as_the_scheduler_counts_them():
    def container(name: str, gpus: int, **more: str) -> dict[str, Any]:
        return {"name": name, "resources": {"limits": {GPU: str(gpus)}}, **more}

    spec = {
        "containers": [container("main", 1)],
        "initContainers": [container("side", 1, restartPolicy="Always"), container("init", 3)],
    }
    assert pods.gpus_of(msgspec.convert(spec, views.PodSpec)) == {GPU: 4}


@pytest.mark.parametrize(
    ("metadata", "is_ending"),
    [
        ({}, False),
        ({"ownerReferences": [{"kind": "ReplicaSet", "controller": True}]}, False),
        ({"ownerReferences": [{"kind": "Job", "controller": True}]}, True),
        ({"annotations": {"kueue.x-k8s.io/pod-group-name": "g"}}, True),
        ({"labels": {"kueue.x-k8s.io/pod-group-name": "g"}}, True),
    ],
)
def test_a_pod_that_is_deleted_leaves_its_place_to_one_that_follows_in_its_workload(
    metadata: dict[str, Any], is_ending: bool
):
    document = {
        "metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z", **metadata},
        "spec": {"nodeName": "n"},
    }
    counted = bound_pod.value(msgspec.convert(document, bound_pod.BoundPodDocument))
    assert counted is not None
    assert counted.is_ending is is_ending


@pytest.mark.parametrize(
    ("metadata", "is_leaving"),
    [
        ({}, False),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, True),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 600}, True),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 601}, False),
    ],
    ids=["runs on", "at once", "ten minutes", "longer"],
)
def test_a_pod_leaves_its_node_where_it_is_deleted_with_ten_minutes_at_most(
    metadata: dict[str, Any], is_leaving: bool
):
    document = {"metadata": {"name": "p", **metadata}, "spec": {"nodeName": "n"}}
    counted = bound_pod.value(msgspec.convert(document, bound_pod.BoundPodDocument))
    assert counted is not None
    assert counted.is_leaving is is_leaving
    assert counted.is_lingering is ("deletionTimestamp" in metadata and not is_leaving)
