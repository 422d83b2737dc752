"""Kueue's gauges of queues, set when a queue's status is computed; series go with the queue.

Source: kueue pkg/metrics/metrics.go. Unset limits are +Inf, cpu is in cores, as there.
"""

from collections.abc import Mapping
from typing import Final

from prometheus_client import Gauge

from admission.api import views
from admission.base import quantity
from admission.base.names import FlavorResource
from admission.state.status import QueueStatus

_QUEUE: Final = ("cluster_queue", "replica_role")
_LOCAL: Final = ("name", "namespace", "replica_role")
_AMOUNT: Final = ("cohort", "cluster_queue", "flavor", "resource", "replica_role")
_LOCAL_AMOUNT: Final = ("name", "namespace", "flavor", "resource", "replica_role")
_MILLI: Final = 1000

_PENDING: Final = Gauge(
    "kueue_pending_workloads",
    "Workloads that wait: active ones compete, inadmissible ones are parked.",
    ("cluster_queue", "status", "replica_role"),
)
_RESERVING: Final = Gauge("kueue_reserving_active_workloads", "Workloads that hold quota.", _QUEUE)
_ADMITTED: Final = Gauge("kueue_admitted_active_workloads", "Workloads that may run.", _QUEUE)
_STATUS: Final = Gauge(
    "kueue_cluster_queue_status",
    "1 for the status that the ClusterQueue is in.",
    ("cluster_queue", "status", "replica_role"),
)
_RESERVATION: Final = Gauge("kueue_cluster_queue_resource_reservation", "Quota reserved.", _AMOUNT)
_USAGE: Final = Gauge("kueue_cluster_queue_resource_usage", "Quota of admitted ones.", _AMOUNT)
_NOMINAL: Final = Gauge("kueue_cluster_queue_nominal_quota", "Nominal quota.", _AMOUNT)
_LOCAL_PENDING: Final = Gauge(
    "kueue_local_queue_pending_workloads",
    "Workloads of the LocalQueue that wait.",
    ("name", "namespace", "status", "replica_role"),
)
_LOCAL_RESERVING: Final = Gauge(
    "kueue_local_queue_reserving_active_workloads", "Workloads that hold quota.", _LOCAL
)
_LOCAL_ADMITTED: Final = Gauge(
    "kueue_local_queue_admitted_active_workloads", "Workloads that may run.", _LOCAL
)
_LOCAL_STATUS: Final = Gauge(
    "kueue_local_queue_status",
    "1 for the value of the condition Active.",
    ("name", "namespace", "active", "replica_role"),
)
_LOCAL_RESERVATION: Final = Gauge(
    "kueue_local_queue_resource_reservation", "Quota reserved.", _LOCAL_AMOUNT
)
_LOCAL_USAGE: Final = Gauge(
    "kueue_local_queue_resource_usage", "Quota of admitted ones.", _LOCAL_AMOUNT
)
_OF_QUEUES: Final = (
    _PENDING, _RESERVING, _ADMITTED, _STATUS, _RESERVATION, _USAGE, _NOMINAL,
)  # fmt: skip
_OF_LOCAL_QUEUES: Final = (
    _LOCAL_PENDING, _LOCAL_RESERVING, _LOCAL_ADMITTED, _LOCAL_STATUS, _LOCAL_RESERVATION,
    _LOCAL_USAGE,
)  # fmt: skip


def cluster_queue(view: views.ClusterQueue, status: QueueStatus, role: str) -> None:
    """Sets the gauges of a ClusterQueue."""
    name = view.metadata.name
    active, inadmissible = _waiting(status)
    _PENDING.labels(name, "active", role).set(active)
    _PENDING.labels(name, "inadmissible", role).set(inadmissible)
    _RESERVING.labels(name, role).set(status.reserving)
    _ADMITTED.labels(name, role).set(status.admitted)
    current = "active" if status.active else "pending"
    if view.metadata.deletion_timestamp:
        current = "terminating"
    for one in ("pending", "active", "terminating"):
        _STATUS.labels(name, one, role).set(one == current)
    cohort = view.spec.cohort_name
    for gauge, amounts in ((_RESERVATION, status.reservation), (_USAGE, status.usage)):
        for pair, value in _in_units(amounts).items():
            gauge.labels(cohort, name, pair.flavor, pair.resource, role).set(value)
    for group in view.spec.resource_groups or ():
        for flavor in group.flavors:
            for quota in flavor.resources:
                amount = quantity.to_canonical(quota.name, str(quota.nominal_quota))
                _NOMINAL.labels(cohort, name, flavor.name, quota.name, role).set(
                    _unit(quota.name, amount)
                )


def local_queue(view: views.LocalQueue, status: QueueStatus, role: str) -> None:
    """Sets the gauges of a LocalQueue."""
    key = (view.metadata.name, view.metadata.namespace)
    active, inadmissible = _waiting(status)
    _LOCAL_PENDING.labels(*key, "active", role).set(active)
    _LOCAL_PENDING.labels(*key, "inadmissible", role).set(inadmissible)
    _LOCAL_RESERVING.labels(*key, role).set(status.reserving)
    _LOCAL_ADMITTED.labels(*key, role).set(status.admitted)
    for one in (True, False):
        _LOCAL_STATUS.labels(*key, str(one), role).set(one is status.active)
    for gauge, amounts in (
        (_LOCAL_RESERVATION, status.reservation),
        (_LOCAL_USAGE, status.usage),
    ):
        for pair, value in _in_units(amounts).items():
            gauge.labels(*key, pair.flavor, pair.resource, role).set(value)


def forget_cluster_queue(name: str) -> None:
    """Removes the series of a ClusterQueue that is gone."""
    for gauge in _OF_QUEUES:
        gauge.remove_by_labels({"cluster_queue": name})


def forget_local_queue(namespace: str, name: str) -> None:
    """Removes the series of a LocalQueue that is gone."""
    for gauge in _OF_LOCAL_QUEUES:
        gauge.remove_by_labels({"name": name, "namespace": namespace})


def _waiting(status: QueueStatus) -> tuple[int, int]:
    """Waiting Workloads that compete, and others; all of a queue that is not active are others."""
    if not status.active:
        return 0, status.pending
    return status.pending - status.parked, status.parked


def _in_units(amounts: Mapping[FlavorResource, int]) -> dict[FlavorResource, float]:
    return {pair: _unit(pair.resource, value) for pair, value in amounts.items()}


def _unit(resource: str, amount: int) -> float:
    """Cores for cpu, base units for the rest."""
    return amount / _MILLI if resource == quantity.CPU else float(amount)
