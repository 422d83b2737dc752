"""Nodes of many kinds, and the flavors that are to be proposed for them."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from admission.admin import proposal
from admission.admin.proposal import ClusterNode, Supply
from admission.gpu import catalogue
from admission.gpu.health import HealthPolicy
from admission.objects import nodes, values, views
from admission.objects.resource_flavor import ResourceFlavor
from tests.controlplane.nodes import GPU_TAINT, make_gpu_node

CATALOGUE = catalogue.load()
READY = [{"type": "Ready", "status": "True"}]
GPU = "nvidia.com/gpu"
TRAINING = {"key": "workload", "value": "training", "effect": "NoSchedule"}

Node = dict[str, Any]


def gpu_node(name: str, **facts: Any) -> Node:
    facts.setdefault("taints", [GPU_TAINT])
    node = make_gpu_node(name, **facts)
    node["status"]["conditions"] = READY
    return node


def shared(name: str, replicas: int = 4, sharing: str = "time-slicing", **more: Any) -> Node:
    labels = {
        "nvidia.com/gpu.product": "Tesla-T4-SHARED",
        "nvidia.com/gpu.count": "4",
        "nvidia.com/gpu.replicas": str(replicas),
        "nvidia.com/gpu.sharing-strategy": sharing,
        **more,
    }
    return gpu_node(name, product="Tesla-T4", gpus=4 * replicas, labels=labels)


def single(name: str, count: int = 7) -> Node:
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
        "nvidia.com/mig.strategy": "single",
        "nvidia.com/gpu.count": str(count),
    }
    return gpu_node(name, gpus=count, labels=labels)


def cpu_node(name: str, taints: Sequence[Mapping[str, str]] = ()) -> Node:
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": READY},
    }


def sick(node: Node, kind: str) -> Node:
    match kind:
        case "not ready":
            node["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        case "cordoned":
            node["spec"]["unschedulable"] = True
            node["spec"]["taints"] = [
                *node["spec"]["taints"],
                {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
            ]
        case "marked":
            node["metadata"]["labels"]["gpu-health"] = "unhealthy"
        case _:  # being cut
            node["metadata"]["labels"]["nvidia.com/mig.config.state"] = "pending"
    return node


def read(document: Node) -> ClusterNode:
    view = msgspec.convert(document, views.Node)
    allocatable = (view.status.allocatable or {}).items()
    return ClusterNode(
        facts=nodes.node_facts(view),
        allocatable={name: values.amount_or_zero(name, value) for name, value in allocatable},
        taints=view.spec.taints or (),
    )


def supply(*found: Node, existing: Sequence[ResourceFlavor] = ()) -> Supply:
    nodes_read = [read(one) for one in found]
    return proposal.supply(nodes_read, CATALOGUE, HealthPolicy(), existing=existing)


def flavors(found: Supply) -> dict[str, tuple[str, int]]:
    return {one.name: (one.resource, one.amount) for one in found.flavors}


MIXED = (
    gpu_node("gpu-0"),
    gpu_node("gpu-1", product="NVIDIA-H100-80GB-HBM3"),
    gpu_node("mig-0", gpus=0, mig={"1g.10gb": 7}),
    shared("t4-0"),
    cpu_node("cpu-0"),
)

TABLE: dict[str, tuple[tuple[Node, ...], dict[str, tuple[str, int]]]] = {
    "whole A100s": ((gpu_node("a"), gpu_node("b")), {"a100-80gb": (GPU, 16)}),
    "the whole GPUs with most memory first, then slices, then shares": (
        MIXED,
        {
            "a100-80gb": (GPU, 8),
            "h100-80gb": (GPU, 8),
            "a100-80gb-1g.10gb": ("nvidia.com/mig-1g.10gb", 7),
            "t4-time-slicing-4": (GPU, 16),
        },
    ),
    "the strategy single": ((single("a"),), {"a100-80gb-1g.10gb": (GPU, 7)}),
    "a flavor for each profile of the strategy mixed, and one for the GPUs left whole": (
        (gpu_node("a", gpus=2, mig={"1g.10gb": 2, "3g.40gb": 1}),),
        {
            "a100-80gb": (GPU, 2),
            "a100-80gb-3g.40gb": ("nvidia.com/mig-3g.40gb", 1),
            "a100-80gb-1g.10gb": ("nvidia.com/mig-1g.10gb", 2),
        },
    ),
    "both strategies, under names that differ": (
        (single("a"), gpu_node("b", gpus=0, mig={"1g.10gb": 7})),
        {
            "nvidia-a100-sxm4-80gb-1g.10gb-gpu": (GPU, 7),
            "nvidia-a100-sxm4-80gb-1g.10gb-mig-1g.10gb": ("nvidia.com/mig-1g.10gb", 7),
        },
    ),
    "MPS": ((shared("a", 10, "mps"),), {"t4-mps-10": (GPU, 40)}),
    "shares of different size": (
        (shared("a", 4), shared("b", 10)),
        {"t4-time-slicing-4": (GPU, 16), "t4-time-slicing-10": (GPU, 40)},
    ),
    "a product that the table does not know": (
        (
            gpu_node(
                "a", labels={"nvidia.com/gpu.product": "NVIDIA-X9", "nvidia.com/gpu.memory": "999"}
            ),
        ),
        {"nvidia-x9": (GPU, 8)},
    ),
    "nodes for one purpose, which a label tells from the others": (
        (
            gpu_node("a"),
            gpu_node("b", labels={"pool": "training"}, taints=[GPU_TAINT, TRAINING]),
        ),
        {"a100-80gb": (GPU, 8), "a100-80gb-training": (GPU, 8)},
    ),
    "no GPUs": ((cpu_node("a"),), {}),
    "a node that is not ready": ((gpu_node("a"), sick(gpu_node("b"), "not ready")),
                                 {"a100-80gb": (GPU, 8)}),
    "a node that is cordoned": ((gpu_node("a"), sick(gpu_node("b"), "cordoned")),
                                {"a100-80gb": (GPU, 8)}),
    "a node that is marked": ((gpu_node("a"), sick(gpu_node("b"), "marked")),
                              {"a100-80gb": (GPU, 8)}),
    "a node that is being cut": ((gpu_node("a"), sick(gpu_node("b"), "being cut")),
                                 {"a100-80gb": (GPU, 8)}),
}  # fmt: skip
"""Nodes, and what is expected: resource and amount by the name of the flavor, in order."""
