"""Nodes, what a pod asks of a node, and where pods are; immutable values.

Amounts are integers in the canonical unit of their resource (`base.amount`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from admission.base.names import FlavorName, PodSetName, WorkloadKey
from admission.scheduling.model import PodNeeds, Taint, Toleration
from admission.scheduling.topology.request import TopologyRequest

MOST_DOMAINS: Final = 32
"""Most domains that are tried for pod sets that must be in one of them all together."""
HOSTNAME: Final = "kubernetes.io/hostname"
PODS: Final = "pods"
"""The resource by which a node says how many pods it takes."""

NOT_READY: Final = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
CORDONED: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""Taints that follow from what a node is, also before anybody has written them."""

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as the scheduler sees it.

    Attributes:
        taints: that repel pods; also those that follow from ``unschedulable`` and from not being
            ready.
        amounts: what pods can have of each resource, without devices that are sick.
        sick: devices that are there and cannot be used.
        is_scaled: whether an autoscaler adds and removes nodes like this one.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    amounts: Amounts = field(default_factory=dict)
    sick: Amounts = field(default_factory=dict)
    is_scaled: bool = False


@dataclass(frozen=True, slots=True)
class PodShape:
    """A pod as nodes see it: what it asks, with what its flavors add.

    Pods of one shape are alike for every node.

    Attributes:
        needs: what the pod asks.
        labels: label and value that the node must have, sorted.
        tolerations: of the pod and its flavors.
    """

    needs: PodNeeds
    labels: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class Want:
    """Pods of one pod set that need a node.

    Attributes:
        count: how many.
        flavors: that they were given, sorted.
        request: in which domains of the topology of a flavor they must be; None where no flavor
            has a topology.
        possible: other flavors that they may be given, too, sorted; the shape tolerates what any
            of these does.
    """

    pod_set: PodSetName
    shape: PodShape
    count: int
    flavors: tuple[FlavorName, ...] = ()
    request: TopologyRequest | None = None
    possible: tuple[FlavorName, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Pods of one pod set on one node."""

    pod_set: PodSetName
    node: str
    count: int


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod that is on a node and has not ended.

    Attributes:
        requests: what it requests, by resource, with ``pods``.
        workload: its Workload; None for a pod that no queue admitted.
        pod_set: its pod set there.
        priority: pods with a higher one may preempt it by the scheduler.
        is_leaving: it is being deleted, and is gone from its node soon.
        is_lingering: it is being deleted with a long grace period, which nothing makes shorter.
        is_ending: it is being deleted, and its workload needs a place for the pod that follows it.
    """

    node: str
    requests: Amounts
    workload: WorkloadKey | None = None
    pod_set: str = ""
    priority: int = 0
    is_leaving: bool = False
    is_lingering: bool = False
    is_ending: bool = False
