"""Kueue's gauges of queues and cohorts, set when a status is computed; they go with the object.

Source: kueue pkg/metrics/metrics.go. Unset limits are +Inf, cpu is in cores, as there.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from prometheus_client import Gauge, Metric
from typing_extensions import override

from admission.api import views
from admission.base import amount, quantity
from admission.base.names import FlavorResource
from admission.controllers.queues.census import Count
from admission.controllers.queues.series import Sample, Series
from admission.engine.fairshare import Share
from admission.state.status import CohortStatus, QueueStatus

_QUEUE: Final = ("cluster_queue", "replica_role")
_BY_STATUS: Final = ("cluster_queue", "status", "replica_role")
_LOCAL: Final = ("name", "namespace", "replica_role")
_AMOUNT: Final = ("cohort", "cluster_queue", "flavor", "resource", "replica_role")
_LOCAL_AMOUNT: Final = ("name", "namespace", "flavor", "resource", "replica_role")
_COHORT: Final = ("cohort", "replica_role")
_COHORT_AMOUNT: Final = ("cohort", "flavor", "resource", "replica_role")
_MILLI: Final = 1000


class _Homonym(Gauge):
    """A gauge ``x`` beside a counter ``x_total``, as Kueue has them.

    The registry takes both names for the counter's. It is not told of the gauge's; in the text
    format, which is what is served, the two are different.
    """

    @override
    def describe(self) -> list[Metric]:
        return []


_PENDING: Final = Gauge(
    "kueue_pending_workloads",
    "Workloads that wait: active ones compete, inadmissible ones are parked.",
    _BY_STATUS,
)
_HASHES: Final = Gauge(
    "kueue_pending_scheduling_hashes", "Groups of equal Workloads that wait.", _BY_STATUS
)
_RESERVING: Final = Gauge("kueue_reserving_active_workloads", "Workloads that hold quota.", _QUEUE)
_ADMITTED: Final = Gauge("kueue_admitted_active_workloads", "Workloads that may run.", _QUEUE)
_FINISHED: Final = _Homonym("kueue_finished_workloads", "Workloads that have ended.", _QUEUE)
_UNADMITTED: Final = Gauge(
    "kueue_unadmitted_workloads",
    "Workloads that may not run, and why.",
    ("cluster_queue", "reason", "underlying_cause", "replica_role"),
)
_STATUS: Final = Gauge(
    "kueue_cluster_queue_status", "1 for the status that the ClusterQueue is in.", _BY_STATUS
)
_INFO: Final = Gauge(
    "kueue_cluster_queue_info",
    "Where the ClusterQueue hangs.",
    ("cluster_queue", "parent_cohort", "root_cohort", "replica_role"),
)
_SHARE: Final = Gauge(
    "kueue_cluster_queue_weighted_share",
    "Share of what the cohort could lend, in thousandths; NaN is more than any share.",
    ("cluster_queue", "cohort", "replica_role"),
)
_RESERVATION: Final = Gauge("kueue_cluster_queue_resource_reservation", "Quota reserved.", _AMOUNT)
_USAGE: Final = Gauge("kueue_cluster_queue_resource_usage", "Quota of admitted ones.", _AMOUNT)
_NOMINAL: Final = Gauge("kueue_cluster_queue_nominal_quota", "Nominal quota.", _AMOUNT)
_BORROWING: Final = Gauge("kueue_cluster_queue_borrowing_limit", "Borrowing limit.", _AMOUNT)
_LENDING: Final = Gauge("kueue_cluster_queue_lending_limit", "Lending limit.", _AMOUNT)
_REQUESTED: Final = Gauge(
    "kueue_cluster_queue_resource_pending",
    "What Workloads that wait ask for.",
    ("cluster_queue", "resource", "replica_role"),
)
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
_LOCAL_FINISHED: Final = _Homonym(
    "kueue_local_queue_finished_workloads", "Workloads that have ended.", _LOCAL
)
_LOCAL_UNADMITTED: Final = Gauge(
    "kueue_local_queue_unadmitted_workloads",
    "Workloads that may not run, and why.",
    ("name", "namespace", "cluster_queue", "reason", "underlying_cause", "replica_role"),
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
_LOCAL_PAST: Final = Gauge(
    "kueue_local_queue_admission_fair_sharing_usage",
    "Past usage by which LocalQueues are ordered.",
    ("name", "namespace", "cluster_queue", "replica_role"),
)
_COHORT_INFO: Final = Gauge(
    "kueue_cohort_info",
    "Where the cohort hangs.",
    ("cohort", "parent_cohort", "root_cohort", "replica_role"),
)
_COHORT_SHARE: Final = Gauge(
    "kueue_cohort_weighted_share",
    "Share of what the cohort above could lend, in thousandths; NaN is more than any share.",
    _COHORT,
)
_COHORT_QUOTA: Final = Gauge(
    "kueue_cohort_subtree_quota", "Quota of the subtree that can be used here.", _COHORT_AMOUNT
)
_COHORT_RESERVATION: Final = Gauge(
    "kueue_cohort_subtree_resource_reservations", "Quota reserved in the subtree.", _COHORT_AMOUNT
)
_COHORT_ADMITTED: Final = Gauge(
    "kueue_cohort_subtree_admitted_active_workloads",
    "Workloads of the subtree that may run.",
    _COHORT,
)
_SERIES: Final = Series()


class Surroundings(NamedTuple):
    """What the gauges of a queue show besides its status.

    Attributes:
        role: label of every series.
        counted: Workloads that wait for admission, and that have ended.
        root: the top cohort above; empty without any.
        past: past usage of a LocalQueue; None without admission fair sharing.
        is_readable: whether the spec can be read; limits are shown of no other.
    """

    role: str
    counted: Count
    root: str = ""
    past: float | None = None
    is_readable: bool = True


def cluster_queue(view: views.ClusterQueue, status: QueueStatus, around: Surroundings) -> None:
    """Sets the gauges of a ClusterQueue."""
    samples = [*_counts(view, status, around), *_amounts(view, status, around.role)]
    if around.is_readable:
        samples += _limits(view, around.role)
    _SERIES.put(("ClusterQueue", view.metadata.name), samples)


def _counts(
    view: views.ClusterQueue, status: QueueStatus, around: Surroundings
) -> Iterator[Sample]:
    name, cohort, role = view.metadata.name, view.spec.cohort_name, around.role
    active, inadmissible = _waiting(status)
    yield Sample(_PENDING, (name, "active", role), active)
    yield Sample(_PENDING, (name, "inadmissible", role), inadmissible)
    trying, parked = status.active_classes, status.parked_classes
    if not status.active:
        trying, parked = 0, trying + parked
    yield Sample(_HASHES, (name, "active", role), trying)
    yield Sample(_HASHES, (name, "inadmissible", role), parked)
    yield Sample(_RESERVING, (name, role), status.reserving)
    yield Sample(_ADMITTED, (name, role), status.admitted)
    yield Sample(_FINISHED, (name, role), around.counted.finished)
    for why, number in around.counted.unadmitted.items():
        yield Sample(_UNADMITTED, (name, *why, role), number)
    current = "active" if status.active else "pending"
    if view.metadata.deletion_timestamp:
        current = "terminating"
    for one in ("pending", "active", "terminating"):
        yield Sample(_STATUS, (name, one, role), one == current)
    yield Sample(_INFO, (name, cohort, around.root, role), 1)
    if status.weighted_share is not None:
        yield Sample(_SHARE, (name, cohort, role), _shown_share(status.weighted_share))
    for resource, value in status.requested.items():
        yield Sample(_REQUESTED, (name, resource, role), _unit(resource, value))


def _amounts(view: views.ClusterQueue, status: QueueStatus, role: str) -> Iterator[Sample]:
    name, cohort = view.metadata.name, view.spec.cohort_name
    for gauge, amounts in ((_RESERVATION, status.reservation), (_USAGE, status.usage)):
        for pair, value in _in_units(amounts).items():
            yield Sample(gauge, (cohort, name, pair.flavor, pair.resource, role), value)


def _limits(view: views.ClusterQueue, role: str) -> Iterator[Sample]:
    name, cohort = view.metadata.name, view.spec.cohort_name
    for group in view.spec.resource_groups or ():
        for flavor in group.flavors:
            for quota in flavor.resources:
                labels = (cohort, name, flavor.name, quota.name, role)
                yield Sample(_NOMINAL, labels, _limit(quota.name, quota.nominal_quota))
                yield Sample(_BORROWING, labels, _limit(quota.name, quota.borrowing_limit))
                yield Sample(_LENDING, labels, _limit(quota.name, quota.lending_limit))


def local_queue(view: views.LocalQueue, status: QueueStatus, around: Surroundings) -> None:
    """Sets the gauges of a LocalQueue."""
    key = (view.metadata.name, view.metadata.namespace)
    _SERIES.put(("LocalQueue", *key), _of_local(key, view, status, around))


def _of_local(
    key: tuple[str, str], view: views.LocalQueue, status: QueueStatus, around: Surroundings
) -> Iterator[Sample]:
    role, queue = around.role, view.spec.cluster_queue
    active, inadmissible = _waiting(status)
    yield Sample(_LOCAL_PENDING, (*key, "active", role), active)
    yield Sample(_LOCAL_PENDING, (*key, "inadmissible", role), inadmissible)
    yield Sample(_LOCAL_RESERVING, (*key, role), status.reserving)
    yield Sample(_LOCAL_ADMITTED, (*key, role), status.admitted)
    yield Sample(_LOCAL_FINISHED, (*key, role), around.counted.finished)
    for why, number in around.counted.unadmitted.items():
        yield Sample(_LOCAL_UNADMITTED, (*key, queue, *why, role), number)
    for one in ("True", "False", "Unknown"):
        yield Sample(_LOCAL_STATUS, (*key, one, role), one == str(status.active))
    if around.past is not None:
        yield Sample(_LOCAL_PAST, (*key, queue, role), around.past)
    for gauge, amounts in (
        (_LOCAL_RESERVATION, status.reservation),
        (_LOCAL_USAGE, status.usage),
    ):
        for pair, value in _in_units(amounts).items():
            yield Sample(gauge, (*key, pair.flavor, pair.resource, role), value)


def cohort(name: str, status: CohortStatus, role: str) -> None:
    """Sets the gauges of a cohort."""
    _SERIES.put(("Cohort", name), _of_cohort(name, status, role))


def _of_cohort(name: str, status: CohortStatus, role: str) -> Iterator[Sample]:
    yield Sample(_COHORT_INFO, (name, status.parent, status.root, role), 1)
    yield Sample(_COHORT_ADMITTED, (name, role), status.admitted)
    if status.weighted_share is not None:
        yield Sample(_COHORT_SHARE, (name, role), _shown_share(status.weighted_share))
    for gauge, amounts in (
        (_COHORT_QUOTA, status.quota),
        (_COHORT_RESERVATION, status.reservation),
    ):
        for pair, value in _in_units(amounts).items():
            yield Sample(gauge, (name, pair.flavor, pair.resource, role), value)


def forget_cluster_queue(name: str) -> None:
    """Removes the series of a ClusterQueue that is gone."""
    _SERIES.drop(("ClusterQueue", name))


def forget_local_queue(namespace: str, name: str) -> None:
    """Removes the series of a LocalQueue that is gone."""
    _SERIES.drop(("LocalQueue", name, namespace))


def forget_cohort(name: str) -> None:
    """Removes the series of a cohort that is gone."""
    _SERIES.drop(("Cohort", name))


def _waiting(status: QueueStatus) -> tuple[int, int]:
    """Waiting Workloads that compete, and others; all of a queue that is not active are others."""
    if not status.active:
        return 0, status.pending
    return status.pending - status.parked, status.parked


def _shown_share(share: Share) -> float:
    """Not rounded, other than in the status; no number where it is infinite."""
    value = share.value()
    return math.nan if value == math.inf else value


def _limit(resource: str, text: str | int | None) -> float:
    if text is None:
        return math.inf
    return _unit(resource, quantity.to_canonical(resource, str(text)))


def _in_units(amounts: Mapping[FlavorResource, int]) -> dict[FlavorResource, float]:
    return {pair: _unit(pair.resource, value) for pair, value in amounts.items()}


def _unit(resource: str, value: int) -> float:
    """Cores for cpu, base units for the rest; what has no limit is infinite."""
    if value == amount.UNLIMITED:
        return math.inf
    return value / _MILLI if resource == quantity.CPU else float(value)
