"""LocalQueue: where the workloads of one namespace queue."""

from typing import Annotated

from admission.api import common, markers
from admission.api.model import Model, Root
from admission.api.scalars import Quantity, StopPolicy, Subdomain, Timestamp
from admission.api.v1beta2.queue_status import QueueCounts


class LocalQueueSpec(Model):
    """Which ClusterQueue stands behind the queue."""

    cluster_queue: Annotated[Subdomain, markers.rules(markers.IMMUTABLE)] | None = None
    """The ClusterQueue. It need not exist yet; the queue is inactive until it does."""

    stop_policy: StopPolicy = "None"
    """Hold gives out no more quota; HoldAndDrain also evicts what is admitted."""

    fair_sharing: common.FairSharing | None = None
    """The queue's weight in admission fair sharing."""


class LocalQueueResourceUsage(Model):
    """Use of one resource in one flavor."""

    name: str
    """The resource."""

    total: Quantity | None = None
    """All that is used."""


class LocalQueueFlavorUsage(Model):
    """Use of one flavor."""

    name: Subdomain
    """The flavor."""

    resources: Annotated[list[LocalQueueResourceUsage], markers.list_map("name", at_most=64)]
    """Use per resource."""


LocalQueueFlavorUsages = Annotated[
    list[LocalQueueFlavorUsage], markers.list_map("name", at_most=64)
]


class AdmissionFairSharingStatus(Model):
    """Use in the past, fading with time."""

    consumed_resources: dict[str, Quantity]
    """Decayed use per resource."""

    last_update: Timestamp
    """When the use was last reckoned."""


class LocalQueueFairSharingStatus(common.FairSharingStatus):
    """Current share, and use in the past."""

    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None
    """Use in the past; only with admission fair sharing."""


class LocalQueueStatus(QueueCounts):
    """What the queue's workloads hold and whether it admits."""

    flavors_reservation: LocalQueueFlavorUsages | None = None
    """Quota reserved by workloads of this queue, admitted or not."""

    flavors_usage: LocalQueueFlavorUsages | None = None
    """Quota of this queue's admitted workloads."""

    fair_sharing: LocalQueueFairSharingStatus | None = None
    """Current share; only with admission fair sharing."""


class LocalQueue(Root):
    """Where the workloads of one namespace queue."""

    spec: LocalQueueSpec | None = None
    """Which ClusterQueue stands behind the queue."""

    status: LocalQueueStatus | None = None
    """What the queue's workloads hold and whether it admits."""
