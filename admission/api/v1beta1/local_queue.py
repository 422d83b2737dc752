"""LocalQueue in v1beta1: ``flavorUsage``, and the flavors of the queue spelled out."""

from typing import Annotated

from admission.api import common, markers
from admission.api.model import Model, Root
from admission.api.scalars import Int32, Subdomain
from admission.api.v1beta1.common import Conditions
from admission.api.v1beta2 import local_queue


class TopologyInfo(Model):
    """The topology of a flavor."""

    name: Subdomain
    """The Topology."""

    levels: Annotated[list[str], markers.list_atomic(at_least=1, at_most=16)]
    """Labels of its levels."""


class LocalQueueFlavorStatus(Model):
    """A flavor that the queue's workloads can get."""

    name: Subdomain
    """The flavor."""

    resources: Annotated[list[str], markers.list_set(at_most=64)] | None = None
    """Its resources."""

    node_labels: Annotated[dict[str, str], markers.map_atomic(at_most=8)] | None = None
    """Labels of its nodes."""

    node_taints: Annotated[list[common.Taint], markers.list_atomic(at_most=8)] | None = None
    """Taints of its nodes."""

    topology: TopologyInfo | None = None
    """Its topology."""


class LocalQueueStatus(Model):
    """What the queue's workloads hold and whether it admits."""

    conditions: Conditions | None = None
    """``Active`` says whether the queue admits, and if not, why."""

    pending_workloads: Int32 | None = None
    """Workloads that wait for quota."""

    reserving_workloads: Int32 | None = None
    """Workloads that hold quota, admitted or not."""

    admitted_workloads: Int32 | None = None
    """Workloads that are admitted and not finished."""

    flavors_reservation: local_queue.LocalQueueFlavorUsages | None = None
    """Quota reserved by workloads of this queue, admitted or not."""

    flavor_usage: local_queue.LocalQueueFlavorUsages | None = None
    """Quota of this queue's admitted workloads."""

    flavors: (
        Annotated[list[LocalQueueFlavorStatus], markers.list_map("name", at_most=64)] | None
    ) = None
    """Flavors that the queue's workloads can get; no longer written."""

    fair_sharing: local_queue.LocalQueueFairSharingStatus | None = None
    """Current share; only with admission fair sharing."""


class LocalQueue(Root):
    """Where the workloads of one namespace queue."""

    spec: local_queue.LocalQueueSpec | None = None
    """Which ClusterQueue stands behind the queue."""

    status: LocalQueueStatus | None = None
    """What the queue's workloads hold and whether it admits."""
