"""Node: what it says of its GPUs.

Source: kubernetes core/v1 Node.
"""

import sys
from collections.abc import Mapping
from typing import Final

from admission.gpu import resources
from admission.gpu.health import DeviceReading, HealthPolicy
from admission.gpu.nodes import NodeFacts
from admission.gpu.published import Published
from admission.objects import values, views
from admission.scheduling.places.model import CORDONED, NOT_READY, Node

STATES: Final = frozenset(
    f"node.kubernetes.io/{state}" for state in ("unschedulable", "not-ready", "unreachable")
)
"""Taints that say what is wrong with a node; its GPUs are counted as sick for that."""
LEAVING: Final = frozenset(
    {"karpenter.sh/disrupted", "karpenter.sh/disruption", "ToBeDeletedByClusterAutoscaler"}
)
"""Keys of taints by which autoscalers say that a node is about to be removed."""
_SCALED_LABELS: Final = ("karpenter.sh/nodepool", "karpenter.sh/provisioner-name")
_CLOUDS: Final = frozenset({"aws", "azure", "gce"})
"""Schemes of ``spec.providerID`` of clouds whose node pools autoscalers resize."""


def has_gpus(facts: NodeFacts) -> bool:
    """Return whether a node offers GPUs, or has some that nobody can use now."""
    published_ = facts.published
    return bool(
        facts.allocatable or facts.capacity or (published_ is not None and published_.devices)
    )


def node_facts(
    view: views.Node,
    devices: tuple[DeviceReading, ...] | None = None,
    published: Published | None = None,
) -> NodeFacts:
    """Return what a Node says about its GPUs.

    Texts are shared between nodes: thousands of them say the same.
    """
    conditions = tuple(
        (sys.intern(condition.type), sys.intern(condition.status))
        for condition in view.status.conditions or ()
    )
    labels = view.metadata.labels or {}
    return NodeFacts(
        name=view.metadata.name,
        labels={sys.intern(key): sys.intern(value) for key, value in labels.items()},
        allocatable=_gpus(view.status.allocatable),
        capacity=_gpus(view.status.capacity),
        machine=_machine(view.status.allocatable),
        ready=_is_ready(view),
        unschedulable=view.spec.unschedulable,
        conditions=conditions,
        devices=devices,
        published=published,
    )


def place_node(view: views.Node) -> Node:
    """Return a Node as pods are placed on it, with all of its devices.

    What the node controller writes as a taint a moment later is a taint already. A node whose
    kubelet has not told a Ready condition yet is not ready.
    """
    labels, status = view.metadata.labels or {}, view.status
    taints = list(values.taints(view.spec.taints or ()))
    if view.spec.unschedulable:
        taints.append(CORDONED)
    if not _is_ready(view):
        taints.append(NOT_READY)
    return Node(
        name=view.metadata.name,
        labels={sys.intern(key): sys.intern(value) for key, value in labels.items()},
        taints=tuple(dict.fromkeys(taints)),
        amounts={
            sys.intern(name): values.amount_or_zero(name, value)
            for name, value in (status.allocatable or {}).items()
        },
        is_scaled=any(key in labels for key in _SCALED_LABELS)
        or view.spec.provider_id.partition("://")[0] in _CLOUDS,
    )


def _is_ready(view: views.Node) -> bool:
    return any(
        condition.type == "Ready" and condition.status == "True"
        for condition in view.status.conditions or ()
    )


def sick_since(view: views.Node, policy: HealthPolicy) -> str:
    """Return since when conditions of a node keep its GPUs from use; RFC 3339.

    Empty where none does, or where something without a time does: a cordon, or a label.
    """
    labels = view.metadata.labels or {}
    label = labels.get(policy.health_label, "")
    if view.spec.unschedulable or label == "unhealthy":
        return ""
    times = [
        condition.last_transition_time or ""
        for condition in view.status.conditions or ()
        if (condition.type == "Ready" and condition.status != "True")
        or (label != "healthy" and policy.bad_conditions.get(condition.type) == condition.status)
    ]
    return min(times, default="")


_MACHINE: Final = ("cpu", "memory")


def _machine(amounts: Mapping[str, str | int] | None) -> dict[str, int]:
    return {
        name: values.amount_or_zero(name, amounts[name])
        for name in _MACHINE
        if amounts and name in amounts
    }


def _gpus(amounts: Mapping[str, str | int] | None) -> dict[str, int]:
    return {
        sys.intern(name): values.amount_or_zero(name, value)
        for name, value in (amounts or {}).items()
        if resources.is_device(name)
    }
