"""Kueue's counters and histograms: what happened to Workloads, seen from how they changed.

A Workload that is seen for the first time is not counted: what happened to it before, another
process has counted. Source: kueue pkg/metrics/metrics.go for names, labels and buckets.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final, NamedTuple

from prometheus_client import Counter, Gauge, Histogram

from admission.api import views
from admission.base import clock, names
from admission.base.names import WorkloadKey
from admission.controllers.queues.census import Census
from admission.controllers.workloads import conditions, times
from admission.engine import messages
from admission.engine.decisions import CycleResult

_MOMENTS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_DOUBLED: Final = tuple(0.01 * 2**power for power in range(11))
_WAITS: Final = (1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240)
_LONG_WAITS: Final = (*_WAITS, 20480, 40960)
_QUEUE: Final = ("cluster_queue", "priority_class", "replica_role")
_LOCAL: Final = ("name", "namespace", "priority_class", "replica_role")
_EVICTION: Final = ("reason", "underlying_cause", "priority_class", "replica_role")

_COUNTED: Final = {
    conditions.QUOTA_RESERVED: "quota_reserved",
    conditions.ADMITTED: "admitted",
    conditions.FINISHED: "finished",
}
_TOTALS: Final = {
    kind: Counter(f"kueue_{name}_workloads", f"Workloads that were {name}.", _QUEUE)
    for kind, name in _COUNTED.items()
}
_LOCAL_TOTALS: Final = {
    kind: Counter(f"kueue_local_queue_{name}_workloads", f"Workloads that were {name}.", _LOCAL)
    for kind, name in _COUNTED.items()
}
_COHORT_ADMITTED: Final = Counter(
    "kueue_cohort_subtree_admitted_workloads",
    "Workloads that were admitted in the subtree.",
    ("cohort", "priority_class", "replica_role"),
)


class _Waits(NamedTuple):
    """The same time by ClusterQueue and by LocalQueue."""

    by_queue: Histogram
    by_local: Histogram


def _waits(
    name: str, text: str, buckets: Iterable[float], local_buckets: Iterable[float] | None = None
) -> _Waits:
    found = tuple(buckets)
    own = found if local_buckets is None else tuple(local_buckets)
    return _Waits(
        Histogram(f"kueue_{name}", text, _QUEUE, buckets=found),
        Histogram(f"kueue_local_queue_{name}", text, _LOCAL, buckets=own),
    )


_RESERVED_WAIT: Final = _waits(
    "quota_reserved_wait_time_seconds",
    "From creation or requeueing to the reservation of quota.",
    _WAITS,
)
_ADMITTED_WAIT: Final = _waits(
    "admission_wait_time_seconds",
    "From creation or requeueing to admission.",
    _LONG_WAITS,
    _WAITS,
)
_CHECKS_WAIT: Final = _waits(
    "admission_checks_wait_time_seconds",
    "From the reservation of quota to admission, where there are admission checks.",
    _WAITS,
)
_READY_WAIT: Final = _waits(
    "ready_wait_time_seconds", "From creation or requeueing to all pods being ready.", _WAITS
)
_UNTIL_READY: Final = _waits(
    "admitted_until_ready_wait_time_seconds", "From admission to all pods being ready.", _WAITS
)
_EXECUTION: Final = _waits(
    "execution_time_seconds", "Time that a finished Workload was admitted.", _LONG_WAITS
)
_EVICTED: Final = Counter(
    "kueue_evicted_workloads",
    "Evictions of Workloads that held quota.",
    ("cluster_queue", *_EVICTION),
)
_EVICTED_ONCE: Final = Counter(
    "kueue_evicted_workloads_once",
    "Workloads that held quota and were evicted for a reason for the first time.",
    ("cluster_queue", *_EVICTION),
)
_LOCAL_EVICTED: Final = Counter(
    "kueue_local_queue_evicted_workloads",
    "Evictions of Workloads that held quota.",
    ("name", "namespace", *_EVICTION),
)
_READY_TO_EVICTED: Final = Histogram(
    "kueue_pods_ready_to_evicted_time_seconds",
    "From all pods being ready to the eviction.",
    ("cluster_queue", "reason", "underlying_cause", "replica_role"),
    buckets=_WAITS,
)
_EVICTION_LATENCY: Final = Histogram(
    "kueue_workload_eviction_latency_seconds",
    "From an eviction to its quota being free.",
    ("cluster_queue", "reason", "replica_role"),
    buckets=_WAITS,
)
_PREEMPTED: Final = Counter(
    "kueue_preempted_workloads",
    "Preemptions, by the ClusterQueue that preempted.",
    ("preempting_cluster_queue", "reason", "replica_role"),
)
_RECOMPUTED: Final = Counter(
    "kueue_preemption_target_recomputations",
    "Victims chosen anew because another Workload of the cycle had claimed them.",
    ("cluster_queue", "result", "replica_role"),
)
_SKIPS: Final = Gauge(
    "kueue_admission_cycle_preemption_skips",
    "Workloads that the last cycle passed over because others had claimed their victims.",
    ("cluster_queue", "replica_role"),
)
_CREATION: Final = Histogram(
    "kueue_workload_creation_latency_seconds",
    "From the creation of a pod or Job to that of its Workload.",
    ("job_kind", "replica_role"),
    buckets=_DOUBLED,
)
_GATE_REMOVAL: Final = Histogram(
    "kueue_pod_scheduling_gate_removal_seconds",
    "From admission to the removal of the scheduling gate.",
    ("name", "cluster_queue", "is_group", "replica_role"),
    buckets=_MOMENTS,
)
_BY_QUEUE: Final = (
    *_TOTALS.values(), _EVICTED, _EVICTED_ONCE, _READY_TO_EVICTED, _EVICTION_LATENCY, _RECOMPUTED,
    _SKIPS, _GATE_REMOVAL, _RESERVED_WAIT.by_queue, _ADMITTED_WAIT.by_queue,
    _CHECKS_WAIT.by_queue, _READY_WAIT.by_queue, _UNTIL_READY.by_queue, _EXECUTION.by_queue,
)  # fmt: skip
_BY_LOCAL: Final = (
    *_LOCAL_TOTALS.values(), _LOCAL_EVICTED, _RESERVED_WAIT.by_local, _ADMITTED_WAIT.by_local,
    _CHECKS_WAIT.by_local, _READY_WAIT.by_local, _UNTIL_READY.by_local, _EXECUTION.by_local,
)  # fmt: skip


def _nothing_above(_: str) -> Iterable[str]:
    return ()


class Accounting:
    """Counts what happens to Workloads.

    Attributes:
        role: ``leader``, ``follower`` or ``standalone``.
        census: how many Workloads there are of each sort.
    """

    def __init__(self, role: str = "standalone") -> None:
        self.role = role
        self.census = Census()
        self._cohorts_above: Callable[[str], Iterable[str]] = _nothing_above
        self._skipped: set[str] = set()

    def ask_cohorts_of(self, cohorts_above: Callable[[str], Iterable[str]]) -> None:
        """Takes who knows the names of all cohorts above a ClusterQueue."""
        self._cohorts_above = cohorts_above

    def lead(self) -> None:
        """This process decides from now on."""
        if self.role == "follower":
            self.role = "leader"

    # ------------------------------------------------------------------------------ workloads

    def observe(self, old: views.Workload | None, new: views.Workload) -> None:
        """Counts what is different from the last sight of a Workload."""
        self.census.see(new)
        if old is None or old.metadata.uid != new.metadata.uid:
            return
        for kind in _COUNTED:
            if _became_true(old, new, kind):
                self._count(kind, new)
        if _became_true(old, new, conditions.PODS_READY):
            self._count_ready(new)
        if _became_true(old, new, conditions.EVICTED) and _queue(new):
            self._count_eviction(old, new)
        if _became_true(new, old, conditions.QUOTA_RESERVED):
            freed = times.moment(new, conditions.QUOTA_RESERVED, status="False")
            self._count_release(new, _queue(old), freed)

    def lose(self, key: WorkloadKey, last: views.Workload | None, now: datetime) -> None:
        """A Workload is gone, and with it the quota that it held when it was last seen."""
        self.census.lose(key)
        ended = last is None or last.status.is_true(conditions.FINISHED)
        if last is not None and not ended and last.status.is_true(conditions.QUOTA_RESERVED):
            self._count_release(last, _queue(last), now)

    def created(self, kind: str, owner: views.ObjectMeta, now: datetime) -> None:
        """Counts the creation of a Workload, by the kind of its owner."""
        if owner.creation_timestamp and owner.generation <= 1:
            waited = (now - clock.from_wire(owner.creation_timestamp)).total_seconds()
            _CREATION.labels(kind, self.role).observe(max(0.0, waited))

    def released(self, workload: views.Workload, *, is_group: bool, now: datetime) -> None:
        """Counts a pod whose scheduling gate was taken off."""
        admitted = times.moment(workload, conditions.ADMITTED)
        if admitted is None:
            return
        waited = max(0.0, (now - admitted).total_seconds())
        _GATE_REMOVAL.labels(
            names.ADMISSION_GATE, _queue(workload), str(is_group).lower(), self.role
        ).observe(waited)

    def _count(self, kind: str, workload: views.Workload) -> None:
        labels, local = self._labels(workload)
        _TOTALS[kind].labels(*labels).inc()
        _LOCAL_TOTALS[kind].labels(*local).inc()
        if kind == conditions.QUOTA_RESERVED:
            self._observe(_RESERVED_WAIT, workload, times.seconds_queued(workload, kind))
        elif kind == conditions.ADMITTED:
            self._observe(_ADMITTED_WAIT, workload, times.seconds_queued(workload, kind))
            for cohort in self._cohorts_above(labels[0]):
                _COHORT_ADMITTED.labels(cohort, labels[1], self.role).inc()
            if workload.status.admission_checks:
                waited = times.seconds_between(workload, conditions.QUOTA_RESERVED, kind)
                self._observe(_CHECKS_WAIT, workload, waited)
        elif workload.status.is_true(conditions.ADMITTED):
            past = workload.status.accumulated_past_execution_time_seconds or 0
            ran = times.seconds_between(workload, conditions.ADMITTED, kind)
            self._observe(_EXECUTION, workload, past + ran)

    def _count_ready(self, workload: views.Workload) -> None:
        """Pods that became ready again are not counted."""
        ready = workload.status.condition(conditions.PODS_READY)
        if ready is None or ready.reason != "Started":
            return
        self._observe(_READY_WAIT, workload, times.seconds_queued(workload, conditions.PODS_READY))
        waited = times.seconds_between(workload, conditions.ADMITTED, conditions.PODS_READY)
        self._observe(_UNTIL_READY, workload, waited)

    def _count_eviction(self, old: views.Workload, new: views.Workload) -> None:
        reason, cause, is_first = _eviction(old, new)
        (queue, priority, role), (name, namespace, _, _) = self._labels(new)
        labels = reason, cause, priority, role
        _EVICTED.labels(queue, *labels).inc()
        _LOCAL_EVICTED.labels(name, namespace, *labels).inc()
        if is_first:
            _EVICTED_ONCE.labels(queue, *labels).inc()
        ready, evicted = (
            times.moment(old, conditions.PODS_READY),
            times.moment(new, conditions.EVICTED),
        )
        if ready is not None and evicted is not None:
            ran = max(0.0, (evicted - ready).total_seconds())
            _READY_TO_EVICTED.labels(queue, reason, cause, role).observe(ran)

    def _count_release(self, workload: views.Workload, queue: str, freed: datetime | None) -> None:
        """Quota of a ClusterQueue became free, maybe after an eviction."""
        evicted = workload.status.condition(conditions.EVICTED)
        began = times.moment(workload, conditions.EVICTED)
        if evicted is not None and began is not None and freed is not None:
            waited = max(0.0, (freed - began).total_seconds())
            _EVICTION_LATENCY.labels(queue, evicted.reason, self.role).observe(waited)

    def _observe(self, waits: _Waits, workload: views.Workload, seconds: float) -> None:
        labels, local = self._labels(workload)
        waits.by_queue.labels(*labels).observe(seconds)
        waits.by_local.labels(*local).observe(seconds)

    def _labels(
        self, workload: views.Workload
    ) -> tuple[tuple[str, str, str], tuple[str, str, str, str]]:
        """Labels by ClusterQueue, and by LocalQueue."""
        reference = workload.spec.priority_class_ref
        priority = reference.name if reference is not None else ""
        local = workload.spec.queue_name, workload.metadata.namespace, priority, self.role
        return (_queue(workload), priority, self.role), local

    # -------------------------------------------------------------------------------- cycles

    def preempted(self, preempting_cluster_queue: str, reason: str) -> None:
        """Counts one victim."""
        _PREEMPTED.labels(preempting_cluster_queue, reason, self.role).inc()

    def cycle(self, result: CycleResult) -> None:
        """Counts what the Workloads of one cycle were in each other's way."""
        for queue, outcome in result.recomputed:
            _RECOMPUTED.labels(queue, outcome, self.role).inc()
        skips = dict.fromkeys(self._skipped, 0)
        for wait in result.waiting:
            if wait.message == messages.OVERLAPPING_TARGETS:
                skips[wait.cluster_queue] = skips.get(wait.cluster_queue, 0) + 1
        for name, count in skips.items():
            _SKIPS.labels(name, self.role).set(count)
        self._skipped = {name for name, count in skips.items() if count}

    # -------------------------------------------------------------------------------- the end

    @staticmethod
    def forget_cluster_queue(name: str) -> None:
        """Removes the series of a ClusterQueue that is gone."""
        for metric in _BY_QUEUE:
            metric.remove_by_labels({"cluster_queue": name})
        _PREEMPTED.remove_by_labels({"preempting_cluster_queue": name})

    @staticmethod
    def forget_local_queue(namespace: str, name: str) -> None:
        """Removes the series of a LocalQueue that is gone."""
        for metric in _BY_LOCAL:
            metric.remove_by_labels({"name": name, "namespace": namespace})

    @staticmethod
    def forget_cohort(name: str) -> None:
        """Removes the series of a cohort that is gone."""
        _COHORT_ADMITTED.remove_by_labels({"cohort": name})


def _became_true(old: views.Workload, new: views.Workload, kind: str) -> bool:
    return new.status.is_true(kind) and not old.status.is_true(kind)


def _queue(workload: views.Workload) -> str:
    """ClusterQueue in which the Workload holds quota; empty where it holds none."""
    admission = workload.status.admission
    return admission.cluster_queue if admission is not None else ""


def _eviction(old: views.Workload, new: views.Workload) -> tuple[str, str, bool]:
    """Reason and cause of an eviction, and whether it is the first one for both.

    The number of evictions that has grown tells; a writer that does not count tells them in the
    reason of the condition.
    """
    before = {(one.reason, one.underlying_cause): one.count for one in _evictions(old)}
    for one in _evictions(new):
        kind = one.reason, one.underlying_cause
        if one.count > before.get(kind, 0):
            return *kind, kind not in before
    evicted = new.status.condition(conditions.EVICTED)
    reason, _, cause = (evicted.reason if evicted else "").partition("DueTo")
    return reason, cause, False


def _evictions(workload: views.Workload) -> Iterable[views.EvictionCount]:
    stats = workload.status.scheduling_stats
    return (stats.evictions if stats is not None else None) or ()
