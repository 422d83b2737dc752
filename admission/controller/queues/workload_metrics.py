"""Kueue's counters and histograms, computed from how Workloads changed.

A Workload that is seen for the first time is not counted: what happened to it before, another
process has counted.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from admission.base import clock, conditions, metrics, names
from admission.base.causes import Overtaken
from admission.base.conditions import PodsReadyReason
from admission.base.metrics import ByQueue
from admission.base.names import WorkloadKey
from admission.controller.queues.queue_counts import QueueCounts
from admission.controller.workloads import times
from admission.objects import views
from admission.objects.workload import EvictionCount, Workload
from admission.owners import lifecycle
from admission.scheduling.decisions import CycleResult

_TOTALS: Final = {
    conditions.QUOTA_RESERVED: (
        metrics.QUOTA_RESERVED_WORKLOADS,
        metrics.LOCAL_QUEUE_QUOTA_RESERVED_WORKLOADS,
    ),
    conditions.ADMITTED: (metrics.ADMITTED_WORKLOADS, metrics.LOCAL_QUEUE_ADMITTED_WORKLOADS),
    conditions.FINISHED: (metrics.FINISHED_WORKLOADS, metrics.LOCAL_QUEUE_FINISHED_WORKLOADS),
}
"""Counters by ClusterQueue and by LocalQueue of what a condition tells."""
_BY_QUEUE: Final = (
    *(by_queue for by_queue, _ in _TOTALS.values()),
    metrics.REPLACED_WORKLOAD_SLICES,
    metrics.EVICTED_WORKLOADS,
    metrics.EVICTED_WORKLOADS_ONCE,
    metrics.PODS_READY_TO_EVICTED_TIME_SECONDS,
    metrics.WORKLOAD_EVICTION_LATENCY_SECONDS,
    metrics.PREEMPTION_TARGET_RECOMPUTATIONS,
    metrics.ADMISSION_CYCLE_PREEMPTION_SKIPS,
    metrics.POD_SCHEDULING_GATE_REMOVAL_SECONDS,
    metrics.QUOTA_RESERVED_WAIT_TIME_SECONDS.cluster_queue,
    metrics.ADMISSION_WAIT_TIME_SECONDS.cluster_queue,
    metrics.ADMISSION_CHECKS_WAIT_TIME_SECONDS.cluster_queue,
    metrics.READY_WAIT_TIME_SECONDS.cluster_queue,
    metrics.ADMITTED_UNTIL_READY_WAIT_TIME_SECONDS.cluster_queue,
    metrics.EXECUTION_TIME_SECONDS.cluster_queue,
)
_BY_LOCAL: Final = (
    *(by_local for _, by_local in _TOTALS.values()),
    metrics.LOCAL_QUEUE_EVICTED_WORKLOADS,
    metrics.QUOTA_RESERVED_WAIT_TIME_SECONDS.local_queue,
    metrics.ADMISSION_WAIT_TIME_SECONDS.local_queue,
    metrics.ADMISSION_CHECKS_WAIT_TIME_SECONDS.local_queue,
    metrics.READY_WAIT_TIME_SECONDS.local_queue,
    metrics.ADMITTED_UNTIL_READY_WAIT_TIME_SECONDS.local_queue,
    metrics.EXECUTION_TIME_SECONDS.local_queue,
)


def _nothing_above(_: str) -> Iterable[str]:
    return ()


class KueueMetrics:
    """Updates the counters and histograms of Workloads.

    Attributes:
        role: ``leader``, ``follower`` or ``standalone``.
        census: how many Workloads there are of each sort.
    """

    def __init__(self, role: str = "standalone") -> None:
        self.role = role
        self.census = QueueCounts()
        self._cohorts_above: Callable[[str], Iterable[str]] = _nothing_above
        self._skipped: set[str] = set()

    def ask_cohorts_of(self, cohorts_above: Callable[[str], Iterable[str]]) -> None:
        """Set the function that returns the names of all cohorts above a ClusterQueue."""
        self._cohorts_above = cohorts_above

    def lead(self) -> None:
        """Start counting as the leader."""
        if self.role == "follower":
            self.role = "leader"

    # ------------------------------------------------------------------------------ workloads

    def observe(self, old: Workload | None, new: Workload) -> None:
        """Count what is different from the last sight of a Workload."""
        self.census.on_update(new)
        if old is None or old.metadata.uid != new.metadata.uid:
            return
        for kind in _TOTALS:
            if _became_true(old, new, kind):
                self._count(kind, new)
        if _became_true(old, new, conditions.FINISHED) and lifecycle.was_replaced(new):
            metrics.REPLACED_WORKLOAD_SLICES.labels(_queue(new), self.role).inc()
        if _became_true(old, new, conditions.PODS_READY):
            self._count_ready(new)
        if _became_true(old, new, conditions.EVICTED) and _queue(new):
            self._count_eviction(old, new)
        if _became_true(new, old, conditions.QUOTA_RESERVED):
            freed = times.moment(new, conditions.QUOTA_RESERVED, status="False")
            self._count_release(new, _queue(old), freed)

    def on_delete(self, key: WorkloadKey, last: Workload | None, now: datetime) -> None:
        """Handle the deletion of a Workload, and with it of the quota that it last held."""
        self.census.on_delete(key)
        ended = last is None or last.status.is_true(conditions.FINISHED)
        if last is not None and not ended and last.status.is_true(conditions.QUOTA_RESERVED):
            self._count_release(last, _queue(last), now)

    def created(self, kind: str, owner: views.ObjectMeta, now: datetime) -> None:
        """Count the creation of a Workload, by the kind of its owner."""
        if owner.creation_timestamp and owner.generation <= 1:
            waited = (now - clock.from_wire(owner.creation_timestamp)).total_seconds()
            metrics.WORKLOAD_CREATION_LATENCY_SECONDS.labels(kind, self.role).observe(
                max(0.0, waited)
            )

    def released(self, workload: Workload, *, is_group: bool, now: datetime) -> None:
        """Count a pod whose scheduling gate was taken off."""
        admitted = times.moment(workload, conditions.ADMITTED)
        if admitted is None:
            return
        waited = max(0.0, (now - admitted).total_seconds())
        metrics.POD_SCHEDULING_GATE_REMOVAL_SECONDS.labels(
            names.ADMISSION_GATE, _queue(workload), str(is_group).lower(), self.role
        ).observe(waited)

    def _count(self, kind: str, workload: Workload) -> None:
        labels, local = self._labels(workload)
        by_queue, by_local = _TOTALS[kind]
        by_queue.labels(*labels).inc()
        by_local.labels(*local).inc()
        if kind == conditions.QUOTA_RESERVED:
            self._observe(
                metrics.QUOTA_RESERVED_WAIT_TIME_SECONDS,
                workload,
                times.seconds_queued(workload, kind),
            )
        elif kind == conditions.ADMITTED:
            self._observe(
                metrics.ADMISSION_WAIT_TIME_SECONDS, workload, times.seconds_queued(workload, kind)
            )
            for cohort in self._cohorts_above(labels[0]):
                metrics.COHORT_SUBTREE_ADMITTED_WORKLOADS.labels(
                    cohort, labels[1], self.role
                ).inc()
            if workload.status.admission_checks:
                waited = times.seconds_between(workload, conditions.QUOTA_RESERVED, kind)
                self._observe(metrics.ADMISSION_CHECKS_WAIT_TIME_SECONDS, workload, waited)
        elif workload.status.is_true(conditions.ADMITTED):
            past = workload.status.accumulated_past_execution_time_seconds or 0
            ran = times.seconds_between(workload, conditions.ADMITTED, kind)
            self._observe(metrics.EXECUTION_TIME_SECONDS, workload, past + ran)

    def _count_ready(self, workload: Workload) -> None:
        """Pods that became ready again are not counted."""
        ready = workload.status.condition(conditions.PODS_READY)
        if ready is None or ready.reason != PodsReadyReason.STARTED:
            return
        self._observe(
            metrics.READY_WAIT_TIME_SECONDS,
            workload,
            times.seconds_queued(workload, conditions.PODS_READY),
        )
        waited = times.seconds_between(workload, conditions.ADMITTED, conditions.PODS_READY)
        self._observe(metrics.ADMITTED_UNTIL_READY_WAIT_TIME_SECONDS, workload, waited)

    def _count_eviction(self, old: Workload, new: Workload) -> None:
        reason, cause, is_first = _eviction(old, new)
        (queue, priority, role), (name, namespace, _, _) = self._labels(new)
        labels = reason, cause, priority, role
        metrics.EVICTED_WORKLOADS.labels(queue, *labels).inc()
        metrics.LOCAL_QUEUE_EVICTED_WORKLOADS.labels(name, namespace, *labels).inc()
        if is_first:
            metrics.EVICTED_WORKLOADS_ONCE.labels(queue, *labels).inc()
        ready, evicted = (
            times.moment(old, conditions.PODS_READY),
            times.moment(new, conditions.EVICTED),
        )
        if ready is not None and evicted is not None:
            ran = max(0.0, (evicted - ready).total_seconds())
            metrics.PODS_READY_TO_EVICTED_TIME_SECONDS.labels(queue, reason, cause, role).observe(
                ran
            )

    def _count_release(self, workload: Workload, queue: str, freed: datetime | None) -> None:
        """Quota of a ClusterQueue became free, maybe after an eviction."""
        evicted = workload.status.condition(conditions.EVICTED)
        began = times.moment(workload, conditions.EVICTED)
        if evicted is not None and began is not None and freed is not None:
            waited = max(0.0, (freed - began).total_seconds())
            metrics.WORKLOAD_EVICTION_LATENCY_SECONDS.labels(
                queue, evicted.reason, self.role
            ).observe(waited)

    def _observe(self, waits: ByQueue, workload: Workload, seconds: float) -> None:
        labels, local = self._labels(workload)
        waits.cluster_queue.labels(*labels).observe(seconds)
        waits.local_queue.labels(*local).observe(seconds)

    def _labels(
        self, workload: Workload
    ) -> tuple[tuple[str, str, str], tuple[str, str, str, str]]:
        """Labels by ClusterQueue, and by LocalQueue."""
        reference = workload.spec.priority_class_ref
        priority = reference.name if reference is not None else ""
        local = workload.spec.queue_name, workload.metadata.namespace, priority, self.role
        return (_queue(workload), priority, self.role), local

    # -------------------------------------------------------------------------------- cycles

    def preempted(self, preempting_cluster_queue: str, reason: str) -> None:
        """Count one victim."""
        metrics.PREEMPTED_WORKLOADS.labels(preempting_cluster_queue, reason, self.role).inc()

    def cycle(self, result: CycleResult) -> None:
        """Count recomputed victims and skipped preemptions of one cycle."""
        for queue, outcome in result.recomputed:
            metrics.PREEMPTION_TARGET_RECOMPUTATIONS.labels(queue, outcome, self.role).inc()
        skips = dict.fromkeys(self._skipped, 0)
        for wait in result.waiting:
            if wait.why == Overtaken(takes_victims=True):
                skips[wait.cluster_queue] = skips.get(wait.cluster_queue, 0) + 1
        for name, count in skips.items():
            metrics.ADMISSION_CYCLE_PREEMPTION_SKIPS.labels(name, self.role).set(count)
        self._skipped = {name for name, count in skips.items() if count}

    # -------------------------------------------------------------------------------- the end

    @staticmethod
    def forget_cluster_queue(name: str) -> None:
        """Remove the series of a ClusterQueue that is gone."""
        for metric in _BY_QUEUE:
            metric.remove_by_labels({"cluster_queue": name})
        metrics.PREEMPTED_WORKLOADS.remove_by_labels({"preempting_cluster_queue": name})

    @staticmethod
    def forget_local_queue(namespace: str, name: str) -> None:
        """Remove the series of a LocalQueue that is gone."""
        for metric in _BY_LOCAL:
            metric.remove_by_labels({"name": name, "namespace": namespace})

    @staticmethod
    def forget_cohort(name: str) -> None:
        """Remove the series of a cohort that is gone."""
        metrics.COHORT_SUBTREE_ADMITTED_WORKLOADS.remove_by_labels({"cohort": name})


def _became_true(old: Workload, new: Workload, kind: str) -> bool:
    return new.status.is_true(kind) and not old.status.is_true(kind)


def _queue(workload: Workload) -> str:
    """ClusterQueue in which the Workload holds quota; empty where it holds none."""
    admission = workload.status.admission
    return admission.cluster_queue if admission is not None else ""


def _eviction(old: Workload, new: Workload) -> tuple[str, str, bool]:
    """Reason and cause of an eviction, and whether it is the first one for both.

    The number of evictions that has grown tells; a writer that does not count tells them in the
    reason of the condition.
    """
    before = {
        (eviction.reason, eviction.underlying_cause): eviction.count
        for eviction in _evictions(old)
    }
    for eviction in _evictions(new):
        kind = eviction.reason, eviction.underlying_cause
        if eviction.count > before.get(kind, 0):
            return *kind, kind not in before
    evicted = new.status.condition(conditions.EVICTED)
    return *conditions.eviction_cause(evicted.reason if evicted else ""), False


def _evictions(workload: Workload) -> Iterable[EvictionCount]:
    stats = workload.status.scheduling_stats
    listed = (stats.evictions if stats is not None else None) or ()
    return (eviction for eviction in listed if eviction.reason != names.PREEMPTED_BY)
