"""Nodes with GPUs at one moment, and who holds them, for whoever shows it."""

from collections.abc import Mapping
from dataclasses import dataclass

from admission.gpu.capacity import NodeCapacity
from admission.gpu.nodes import NodeFacts

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPod:
    """A pod that holds GPUs.

    Attributes:
        namespace: of the pod.
        name: of the pod.
        amounts: what it holds, by resource.
        outside: whether no queue is charged for it.
        queue: the ClusterQueue that is charged for it; empty for none.
    """

    namespace: str
    name: str
    amounts: Amounts
    outside: bool
    queue: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNode:
    """A node with GPUs.

    Attributes:
        facts: the node as it is counted.
        part: what of it is healthy, and why the rest is not.
        pods: that hold its GPUs and are watched, by namespace and name.
        others: what pods hold that are not watched.
    """

    facts: NodeFacts
    part: NodeCapacity
    pods: tuple[GpuPod, ...] = ()
    others: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStock:
    """What a node has of GPUs, without who holds them; amounts by resource.

    Attributes:
        name: of the node.
        labels: of the node.
        healthy: what can be used, held or not.
        sick: what exists and cannot be used.
        free: what is healthy and held by nobody.
        outside: what pods hold that no queue admitted.
        reasons: why GPUs do not count.
    """

    name: str
    labels: Mapping[str, str]
    healthy: Amounts
    sick: Amounts
    free: Amounts
    outside: Amounts
    reasons: tuple[str, ...] = ()
