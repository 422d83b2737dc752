"""Whether a node takes a pod, and how many of them: the only place that knows.

Source: kube-scheduler's plugins NodeName, NodeUnschedulable, NodeAffinity, VolumeBinding,
TaintToleration, NodeResourcesFit, InterPodAffinity and PodTopologySpread, as far as they look at
the node and at pods of the same pod set.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from admission.base.selectors import Labels, Requirement
from admission.scheduling.model import NodeTerm, ResourceFlavor, Taint, Toleration
from admission.scheduling.places.model import HOSTNAME, PODS, Amounts, Node, PodShape
from admission.scheduling.tolerations import untolerated

NAME_FIELD: Final = "metadata.name"
_GONE: Final = "\0"
_CORDON: Final = "node.kubernetes.io/unschedulable"
"""Key of the taint of a node on which an administrator lets nothing start."""


class NodeRefusal(StrEnum):
    """Why a node can never take a pod, however much is free."""

    LABELS = "labels"
    AFFINITY = "affinity"
    VOLUME = "volume"
    TAINT = "taint"
    CORDONED = "cordoned"
    SIZE = "size"
    SICK = "sick"
    RESOURCE = "resource"


def refusal(node: Node, shape: PodShape, declared: Mapping[str, int]) -> NodeRefusal | None:
    """Return why a node can never take a pod as it is now; None where it can, once it is empty.

    Args:
        node: the node.
        shape: the pod.
        declared: resources that any node has. What no node has is none of the nodes' business:
            some other program counts it.
    """
    refused = mismatch(node, shape)
    if refused is not None:
        return refused
    for resource, amount in shape.needs.requests:
        if resource not in node.amounts:
            if resource in declared:
                return NodeRefusal.RESOURCE
        elif node.amounts[resource] < amount:
            is_sick = node.amounts[resource] + node.sick.get(resource, 0) >= amount
            return NodeRefusal.SICK if is_sick else NodeRefusal.SIZE
    if node.amounts.get(PODS, 1) < 1:
        return NodeRefusal.SIZE
    return None


def mismatch(node: Node, shape: PodShape) -> NodeRefusal | None:
    """Return why a node can never take a pod, whatever it has of each resource; None if it can."""
    if any(node.labels.get(key) != value for key, value in shape.labels):
        return NodeRefusal.LABELS
    if not matches_affinity(node, shape.needs.terms):
        return NodeRefusal.AFFINITY
    if not all(matches_affinity(node, terms) for terms in shape.needs.volumes):
        return NodeRefusal.VOLUME
    taint = repelling(node.taints, shape.tolerations)
    if taint is not None:
        return NodeRefusal.CORDONED if taint.key == _CORDON else NodeRefusal.TAINT
    keys = (*shape.needs.together, *(constraint.key for constraint in shape.needs.spread))
    if any(key not in node.labels and key != HOSTNAME for key in keys):
        return NodeRefusal.LABELS
    return None


def together(name: str, labels: Labels, shape: PodShape) -> tuple[str, ...]:
    """Return what is equal for all nodes on which the pods of a shape are together.

    Args:
        name: of a node that takes them.
        labels: of the node.
        shape: of the pods.
    """
    return values(name, labels, shape.needs.together)


def values(name: str, labels: Labels, keys: Iterable[str]) -> tuple[str, ...]:
    """Return the values of labels of a node; its name is that of the label of its host."""
    return tuple(name if key == HOSTNAME else labels.get(key, "") for key in keys)


def mismatch_of_all(labels: Labels, shape: PodShape) -> NodeRefusal | None:
    """Return why no node can take a pod that has these labels among others; None if one may.

    Only what a pod asks of these labels counts.
    """
    if any(labels.get(key, value) != value for key, value in shape.labels):
        return NodeRefusal.LABELS
    if not _may_match(labels, shape.needs.terms):
        return NodeRefusal.AFFINITY
    if not all(_may_match(labels, terms) for terms in shape.needs.volumes):
        return NodeRefusal.VOLUME
    return None


def _may_match(labels: Labels, terms: tuple[NodeTerm, ...] | None) -> bool:
    return terms is None or any(
        bool(term.expressions or term.fields)
        and all(
            expression.matches(labels)
            for expression in term.expressions
            if expression.key in labels
        )
        for term in terms
    )


def repelling(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first taint that keeps pods with these tolerations from a node, or None.

    Autoscalers and people taint nodes that are about to go; virtual nodes have a taint, too.
    """
    return untolerated(taints, tolerations)


def tolerated_in(flavor: ResourceFlavor, taint_key: str = "") -> tuple[Toleration, ...]:
    """Return what every pod with GPUs tolerates that gets a flavor.

    Only a pod that tolerates the taints of a flavor gets it.

    Args:
        flavor: the flavor.
        taint_key: of the taint that the webhook has every pod with GPUs tolerate; empty for none.
    """
    of_taints = (
        Toleration(
            key=node_taint.key, operator="Equal", value=node_taint.value, effect=node_taint.effect
        )
        for node_taint in flavor.node_taints
    )
    injected = (Toleration(key=taint_key, operator="Exists"),) if taint_key else ()
    return (*flavor.tolerations, *of_taints, *injected)


def copies(free: Amounts, shape: PodShape) -> int:
    """Return how many pods of a shape fit into what is free on a node that takes them.

    Args:
        free: what is free of each resource that the node declares.
        shape: the pod.
    """
    fitting: int | None = None
    for resource, amount in shape.needs.requests:
        if resource in free:
            count = free[resource] // amount
            fitting = count if fitting is None or count < fitting else fitting
    if PODS in free and (fitting is None or free[PODS] < fitting):
        fitting = free[PODS]
    if fitting is None:
        return _MANY
    return max(0, fitting)


_MANY: Final = 1 << 30
"""Copies on a node that does not say how many pods it takes, of a pod that asks for nothing."""


def matches_affinity(node: Node, terms: tuple[NodeTerm, ...] | None) -> bool:
    """Return whether an alternative holds; one without expressions never does.

    Args:
        node: the node.
        terms: alternatives of a required node affinity; None where there is none.
    """
    if terms is None:
        return True
    return any(
        bool(term.expressions or term.fields)
        and all(expression.matches(node.labels) for expression in term.expressions)
        and all(_matches_field(node, field) for field in term.fields)
        for term in terms
    )


def _matches_field(node: Node, requirement: Requirement) -> bool:
    value = node.name if requirement.key == NAME_FIELD else _GONE
    return requirement.matches({requirement.key: value})
