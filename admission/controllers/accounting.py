"""Kueue's counters and histograms: what happened to Workloads, seen from how they changed.

A Workload that is seen for the first time is not counted: what happened to it before, another
process has counted. Source: kueue pkg/metrics/metrics.go for names, labels and buckets.
"""

from datetime import datetime
from typing import Final

from prometheus_client import Counter, Histogram

from admission.api import views
from admission.base import clock
from admission.controllers import conditions

_WAITS: Final = (1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240)
_LONG_WAITS: Final = (*_WAITS, 20480, 40960)
_QUEUE: Final = ("cluster_queue", "priority_class", "replica_role")
_LOCAL: Final = ("name", "namespace", "priority_class", "replica_role")

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
_RESERVED_WAIT: Final = Histogram(
    "kueue_quota_reserved_wait_time_seconds",
    "From creation or requeueing to the reservation of quota.",
    _QUEUE,
    buckets=_WAITS,
)
_ADMITTED_WAIT: Final = Histogram(
    "kueue_admission_wait_time_seconds",
    "From creation or requeueing to admission.",
    _QUEUE,
    buckets=_LONG_WAITS,
)
_CHECKS_WAIT: Final = Histogram(
    "kueue_admission_checks_wait_time_seconds",
    "From the reservation of quota to admission, where there are admission checks.",
    _QUEUE,
    buckets=_WAITS,
)
_EXECUTION: Final = Histogram(
    "kueue_execution_time_seconds",
    "Time that a finished Workload was admitted.",
    _QUEUE,
    buckets=_LONG_WAITS,
)
_EVICTED: Final = Counter(
    "kueue_evicted_workloads",
    "Evictions of Workloads that held quota.",
    ("cluster_queue", "reason", "underlying_cause", "priority_class", "replica_role"),
)
_PREEMPTED: Final = Counter(
    "kueue_preempted_workloads",
    "Preemptions, by the ClusterQueue that preempted.",
    ("preempting_cluster_queue", "reason", "replica_role"),
)


class Accounting:
    """Counts what happens to Workloads.

    Attributes:
        role: ``leader``, ``follower`` or ``standalone``.
    """

    def __init__(self, role: str = "standalone") -> None:
        self.role = role

    def observe(self, old: views.Workload | None, new: views.Workload) -> None:
        """Counts what is different from the last sight of a Workload."""
        if old is None or old.metadata.uid != new.metadata.uid:
            return
        for kind in _COUNTED:
            if _became_true(old, new, kind):
                self._count(kind, new)
        if _became_true(old, new, conditions.EVICTED) and _queue(new):
            self._count_eviction(new)

    def preempted(self, preempting_cluster_queue: str, reason: str) -> None:
        """Counts one victim."""
        _PREEMPTED.labels(preempting_cluster_queue, reason, self.role).inc()

    def _count(self, kind: str, workload: views.Workload) -> None:
        labels = (_queue(workload), _priority_class(workload), self.role)
        metadata = workload.metadata
        _TOTALS[kind].labels(*labels).inc()
        _LOCAL_TOTALS[kind].labels(
            workload.spec.queue_name, metadata.namespace, labels[1], self.role
        ).inc()
        if kind == conditions.QUOTA_RESERVED:
            _RESERVED_WAIT.labels(*labels).observe(_since_queued(workload, kind))
        elif kind == conditions.ADMITTED:
            _ADMITTED_WAIT.labels(*labels).observe(_since_queued(workload, kind))
            if workload.status.admission_checks:
                waited = _between(workload, conditions.QUOTA_RESERVED, kind)
                _CHECKS_WAIT.labels(*labels).observe(waited)
        else:
            past = workload.status.accumulated_past_execution_time_seconds or 0
            ran = _between(workload, conditions.ADMITTED, kind)
            _EXECUTION.labels(*labels).observe(past + ran)

    def _count_eviction(self, workload: views.Workload) -> None:
        evicted = workload.status.condition(conditions.EVICTED)
        base, _, cause = (evicted.reason if evicted else "").partition("DueTo")
        _EVICTED.labels(_queue(workload), base, cause, _priority_class(workload), self.role).inc()


def _became_true(old: views.Workload, new: views.Workload, kind: str) -> bool:
    return new.status.is_true(kind) and not old.status.is_true(kind)


def _queue(workload: views.Workload) -> str:
    """ClusterQueue in which the Workload holds quota; empty where it holds none."""
    admission = workload.status.admission
    return admission.cluster_queue if admission is not None else ""


def _priority_class(workload: views.Workload) -> str:
    reference = workload.spec.priority_class_ref
    return reference.name if reference is not None else ""


def _moment(workload: views.Workload, kind: str) -> datetime | None:
    found = workload.status.condition(kind)
    if found is None or found.status != "True" or not found.last_transition_time:
        return None
    return clock.from_wire(found.last_transition_time)


def _between(workload: views.Workload, start: str, end: str) -> float:
    """Seconds between two conditions; 0 where the first one is missing."""
    began, ended = _moment(workload, start), _moment(workload, end)
    if began is None or ended is None:
        return 0.0
    return max(0.0, (ended - began).total_seconds())


def _since_queued(workload: views.Workload, kind: str) -> float:
    """Seconds from creation, or from the last requeueing, to a condition."""
    requeued, ended = _moment(workload, conditions.REQUEUED), _moment(workload, kind)
    created = workload.metadata.creation_timestamp
    began = requeued or (clock.from_wire(created) if created else None)
    if began is None or ended is None:
        return 0.0
    return max(0.0, (ended - began).total_seconds())
