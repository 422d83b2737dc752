"""LocalQueue: where the Workloads of one namespace queue."""

from typing import Annotated, Any

from admission.base import names
from admission.base.fielderrors import FieldError
from admission.base.names import ClusterQueueName, LocalQueueKey
from admission.objects import caps, markers, resource_group, run_times, values
from admission.objects.fields import REQUIRED, SUBDOMAIN, Quantity, Shape, StopPolicy, Timestamp
from admission.objects.queue_status import FairSharingStatus, QueueStatus
from admission.objects.resource_group import FairSharingWeight
from admission.objects.viewbase import Object, View
from admission.scheduling import model


class LocalQueueSpec(View, frozen=True, kw_only=True):
    """The ClusterQueue of the queue, its stop policy and its weight."""

    cluster_queue: Annotated[str, SUBDOMAIN, markers.rules(markers.IMMUTABLE)] = ""
    """The ClusterQueue. It need not exist yet; the queue is inactive until it does."""

    stop_policy: StopPolicy = "None"
    """Hold grants no more quota; HoldAndDrain also evicts admitted workloads."""

    fair_sharing: FairSharingWeight | None = None
    """The queue's weight in admission fair sharing."""


class LocalQueueResourceUsage(View, frozen=True, kw_only=True):
    """Usage of one resource in one flavor."""

    name: str
    """The resource."""

    total: Quantity | None = None
    """Amount in use."""


class LocalQueueFlavorUsage(View, frozen=True, kw_only=True):
    """Usage of one flavor."""

    name: Annotated[str, SUBDOMAIN]
    """The flavor."""

    resources: Annotated[tuple[LocalQueueResourceUsage, ...], markers.list_map("name", at_most=64)]
    """Usage per resource."""


_FlavorUsages = Annotated[
    list[Any],
    Shape(tuple[LocalQueueFlavorUsage, ...]),
    markers.list_map("name", at_most=64),
]


class AdmissionFairSharingStatus(View, frozen=True, kw_only=True):
    """Past usage, which decays with time."""

    consumed_resources: Annotated[dict[str, Quantity] | None, REQUIRED] = None
    """Decayed past usage per resource."""

    last_update: Annotated[Timestamp, REQUIRED] = ""
    """When the usage was last computed."""


class LocalQueueFairSharingStatus(FairSharingStatus, frozen=True, kw_only=True):
    """Current share, and use in the past."""

    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None
    """Past usage; only with admission fair sharing."""


class LocalQueueStatus(QueueStatus, frozen=True, kw_only=True):
    """What the queue's workloads hold and whether it admits."""

    flavors_reservation: _FlavorUsages | None = None
    """Quota reserved by workloads of this queue, admitted or not."""

    flavors_usage: _FlavorUsages | None = None
    """Quota of this queue's admitted workloads."""

    nominal_quota: _FlavorUsages | None = None
    """Nominal quota of the ClusterQueue, which its LocalQueues share, for people who may not read
    that. Kueue has no such field."""

    cluster_queue_max_per_user: dict[str, Quantity] | None = None
    """The most that one user may hold in the ClusterQueue, by all its LocalQueues, per resource:
    its annotation gpu-admission.dev/max-per-user, for people who may not read that. Kueue has no
    such field."""

    fair_sharing: LocalQueueFairSharingStatus | None = None
    """Current share; only with admission fair sharing."""


class LocalQueue(Object, frozen=True, kw_only=True):
    """A queue for the workloads of one namespace."""

    spec: LocalQueueSpec = LocalQueueSpec()
    """The ClusterQueue of the queue, its stop policy and its weight."""

    status: LocalQueueStatus = LocalQueueStatus()
    """What the queue's workloads hold and whether it admits."""


def scheduling_value(view: LocalQueue) -> model.LocalQueue:
    """Return a LocalQueue as a value of scheduling.

    Raises:
        InvalidValueError: the weight, stop policy, a run time or a cap cannot be read.
    """
    return model.LocalQueue(
        key=LocalQueueKey(view.metadata.namespace, view.metadata.name),
        cluster_queue=ClusterQueueName(view.spec.cluster_queue),
        stop_policy=values.stop_policy(view.spec.stop_policy),
        fair_weight=resource_group.scheduling_weight(view.spec.fair_sharing),
        minimum_run_us=run_times.read(view.metadata).minimum,
        max_per_user=caps.read(view.metadata, names.MAX_PER_USER),
        max_in_use=caps.read(view.metadata, names.MAX_IN_USE),
        terminating=view.metadata.deletion_timestamp is not None,
    )


# ------------------------------------------------------------------------------- validation


def errors(old: LocalQueue | None, new: LocalQueue) -> list[FieldError]:
    """Errors of a LocalQueue; ``old`` is None on creation. Kueue's rules stand in its schema."""
    return run_times.queue_errors(old, new) + caps.local_queue_errors(old, new)
