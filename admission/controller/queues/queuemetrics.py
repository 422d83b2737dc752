"""Kueue's gauges of queues and cohorts, set when a status is computed; they go with the object.

Source: kueue pkg/metrics/metrics.go. Unset limits are +Inf, cpu is in cores, as there.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from admission.base import amount, metrics, quantity
from admission.base.names import FlavorResource
from admission.controller.queues import queue_status_document
from admission.controller.queues.queue_counts import WorkloadCounts
from admission.controller.queues.series import Sample, Series
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.local_queue import LocalQueue
from admission.scheduling.fairshare import Share
from admission.scheduling.status import CohortReport, QueueReport

_MILLI: Final = 1000
_SERIES: Final = Series()


class GaugeContext(NamedTuple):
    """What the gauges of a queue show besides its status.

    Attributes:
        role: label of every series.
        counted: Workloads that wait for admission, and that have ended.
        root: the top cohort above; empty without any.
        past: past usage of a LocalQueue; None without admission fair sharing.
        is_readable: whether the spec can be read; limits are shown of no other.
    """

    role: str
    counted: WorkloadCounts
    root: str = ""
    past: float | None = None
    is_readable: bool = True


def cluster_queue(view: ClusterQueue, status: QueueReport, around: GaugeContext) -> None:
    """Set the gauges of a ClusterQueue."""
    samples = [*_counts(view, status, around), *_amounts(view, status, around.role)]
    if around.is_readable:
        samples += _limits(view, around.role)
    _SERIES.put(("ClusterQueue", view.metadata.name), samples)


def _counts(view: ClusterQueue, status: QueueReport, around: GaugeContext) -> Iterator[Sample]:
    name, cohort, role = view.metadata.name, view.spec.cohort_name, around.role
    active, inadmissible = _waiting(status)
    yield Sample(metrics.PENDING_WORKLOADS, (name, "active", role), active)
    yield Sample(metrics.PENDING_WORKLOADS, (name, "inadmissible", role), inadmissible)
    trying, parked = status.active_classes, status.parked_classes
    if not status.active:
        trying, parked = 0, trying + parked
    yield Sample(metrics.PENDING_SCHEDULING_HASHES, (name, "active", role), trying)
    yield Sample(metrics.PENDING_SCHEDULING_HASHES, (name, "inadmissible", role), parked)
    if status.oldest_us is not None:
        since = status.oldest_us / 1_000_000
        yield Sample(metrics.OLDEST_PENDING_TIMESTAMP_SECONDS, (name,), since)
    for pair, without in queue_status_document.gpus_without_node(status).items():
        labels = name, pair.flavor, pair.resource
        yield Sample(metrics.QUOTA_WITHOUT_NODE, labels, _unit(pair.resource, without.amount))
        since = without.since_us / 1_000_000
        yield Sample(metrics.QUOTA_WITHOUT_NODE_TIMESTAMP_SECONDS, labels, since)
    yield Sample(metrics.RESERVING_ACTIVE_WORKLOADS, (name, role), status.reserving)
    yield Sample(metrics.ADMITTED_ACTIVE_WORKLOADS, (name, role), status.admitted)
    yield Sample(metrics.FINISHED_WORKLOADS_GAUGE, (name, role), around.counted.finished)
    for why, number in around.counted.unadmitted.items():
        yield Sample(metrics.UNADMITTED_WORKLOADS, (name, *why, role), number)
    current = "active" if status.active else "pending"
    if view.metadata.deletion_timestamp:
        current = "terminating"
    for state in ("pending", "active", "terminating"):
        yield Sample(metrics.CLUSTER_QUEUE_STATUS, (name, state, role), state == current)
    yield Sample(metrics.CLUSTER_QUEUE_INFO, (name, cohort, around.root, role), 1)
    if status.weighted_share is not None:
        yield Sample(
            metrics.CLUSTER_QUEUE_WEIGHTED_SHARE,
            (name, cohort, role),
            _shown_share(status.weighted_share),
        )
    for resource, value in status.requested.items():
        yield Sample(
            metrics.CLUSTER_QUEUE_RESOURCE_PENDING, (name, resource, role), _unit(resource, value)
        )


def _amounts(view: ClusterQueue, status: QueueReport, role: str) -> Iterator[Sample]:
    name, cohort = view.metadata.name, view.spec.cohort_name
    for gauge, amounts in (
        (metrics.CLUSTER_QUEUE_RESOURCE_RESERVATION, status.reservation),
        (metrics.CLUSTER_QUEUE_RESOURCE_USAGE, status.usage),
    ):
        for pair, value in _in_units(amounts).items():
            yield Sample(gauge, (cohort, name, pair.flavor, pair.resource, role), value)


def _limits(view: ClusterQueue, role: str) -> Iterator[Sample]:
    name, cohort = view.metadata.name, view.spec.cohort_name
    for group in view.spec.resource_groups or ():
        for flavor in group.flavors:
            for quota in flavor.resources:
                labels = (cohort, name, flavor.name, quota.name, role)
                yield Sample(
                    metrics.CLUSTER_QUEUE_NOMINAL_QUOTA,
                    labels,
                    _limit(quota.name, quota.nominal_quota),
                )
                yield Sample(
                    metrics.CLUSTER_QUEUE_BORROWING_LIMIT,
                    labels,
                    _limit(quota.name, quota.borrowing_limit),
                )
                yield Sample(
                    metrics.CLUSTER_QUEUE_LENDING_LIMIT,
                    labels,
                    _limit(quota.name, quota.lending_limit),
                )


def local_queue(view: LocalQueue, status: QueueReport, around: GaugeContext) -> None:
    """Set the gauges of a LocalQueue."""
    key = (view.metadata.name, view.metadata.namespace)
    _SERIES.put(("LocalQueue", *key), _of_local(key, view, status, around))


def _of_local(
    key: tuple[str, str], view: LocalQueue, status: QueueReport, around: GaugeContext
) -> Iterator[Sample]:
    role, queue = around.role, view.spec.cluster_queue
    active, inadmissible = _waiting(status)
    yield Sample(metrics.LOCAL_QUEUE_PENDING_WORKLOADS, (*key, "active", role), active)
    yield Sample(metrics.LOCAL_QUEUE_PENDING_WORKLOADS, (*key, "inadmissible", role), inadmissible)
    yield Sample(metrics.LOCAL_QUEUE_RESERVING_ACTIVE_WORKLOADS, (*key, role), status.reserving)
    yield Sample(metrics.LOCAL_QUEUE_ADMITTED_ACTIVE_WORKLOADS, (*key, role), status.admitted)
    yield Sample(
        metrics.LOCAL_QUEUE_FINISHED_WORKLOADS_GAUGE, (*key, role), around.counted.finished
    )
    for why, number in around.counted.unadmitted.items():
        yield Sample(metrics.LOCAL_QUEUE_UNADMITTED_WORKLOADS, (*key, queue, *why, role), number)
    for status_ in ("True", "False", "Unknown"):
        yield Sample(
            metrics.LOCAL_QUEUE_STATUS, (*key, status_, role), status_ == str(status.active)
        )
    if around.past is not None:
        yield Sample(
            metrics.LOCAL_QUEUE_ADMISSION_FAIR_SHARING_USAGE, (*key, queue, role), around.past
        )
    for gauge, amounts in (
        (metrics.LOCAL_QUEUE_RESOURCE_RESERVATION, status.reservation),
        (metrics.LOCAL_QUEUE_RESOURCE_USAGE, status.usage),
    ):
        for pair, value in _in_units(amounts).items():
            yield Sample(gauge, (*key, pair.flavor, pair.resource, role), value)


def cohort(name: str, status: CohortReport, role: str) -> None:
    """Set the gauges of a cohort."""
    _SERIES.put(("Cohort", name), _of_cohort(name, status, role))


def _of_cohort(name: str, status: CohortReport, role: str) -> Iterator[Sample]:
    yield Sample(metrics.COHORT_INFO, (name, status.parent, status.root, role), 1)
    yield Sample(metrics.COHORT_SUBTREE_ADMITTED_ACTIVE_WORKLOADS, (name, role), status.admitted)
    if status.weighted_share is not None:
        yield Sample(
            metrics.COHORT_WEIGHTED_SHARE, (name, role), _shown_share(status.weighted_share)
        )
    for gauge, amounts in (
        (metrics.COHORT_SUBTREE_QUOTA, status.quota),
        (metrics.COHORT_SUBTREE_RESOURCE_RESERVATIONS, status.reservation),
    ):
        for pair, value in _in_units(amounts).items():
            yield Sample(gauge, (name, pair.flavor, pair.resource, role), value)


def forget_cluster_queue(name: str) -> None:
    """Remove the series of a ClusterQueue that is gone."""
    _SERIES.drop(("ClusterQueue", name))


def forget_local_queue(namespace: str, name: str) -> None:
    """Remove the series of a LocalQueue that is gone."""
    _SERIES.drop(("LocalQueue", name, namespace))


def forget_cohort(name: str) -> None:
    """Remove the series of a cohort that is gone."""
    _SERIES.drop(("Cohort", name))


def _waiting(status: QueueReport) -> tuple[int, int]:
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
