"""Every metric of the controller and of the webhook: name, help text, labels, buckets.

A constant is called like its metric, without the prefix ``kueue_`` or ``gpu_admission_``. Metrics
of Kueue keep its names, labels and buckets. Source: kueue pkg/metrics/metrics.go. Who sets them is
elsewhere; what differs from Kueue is in docs/reference/metrics-and-boards.md.
"""

import platform
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata
from typing import Final, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    disable_created_metrics,
)
from typing_extensions import override

# Kueue's metrics have no times of creation, which would be a series beside each one.
disable_created_metrics()  # type: ignore[no-untyped-call]

_SHORT: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_DOUBLED: Final = tuple(0.01 * 2**power for power in range(11))
_WAITS: Final = (1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240)
_LONG_WAITS: Final = (*_WAITS, 20480, 40960)

_QUEUE: Final = ("cluster_queue", "replica_role")
_QUEUE_STATUS: Final = ("cluster_queue", "status", "replica_role")
_QUEUE_PRIORITY: Final = ("cluster_queue", "priority_class", "replica_role")
_LOCAL: Final = ("name", "namespace", "replica_role")
_LOCAL_PRIORITY: Final = ("name", "namespace", "priority_class", "replica_role")
_EVICTION: Final = ("reason", "underlying_cause", "priority_class", "replica_role")
_AMOUNT: Final = ("cohort", "cluster_queue", "flavor", "resource", "replica_role")
_LOCAL_AMOUNT: Final = ("name", "namespace", "flavor", "resource", "replica_role")
_COHORT: Final = ("cohort", "replica_role")
_COHORT_AMOUNT: Final = ("cohort", "flavor", "resource", "replica_role")
_FLAVOR: Final = ("flavor", "resource")


class _BesideCounter(Gauge):
    """A gauge ``x`` beside a counter ``x_total``, as Kueue has them.

    The registry takes both names for the counter's. It is not told of the gauge's; in the text
    format, which is what is served, the two are different.
    """

    @override
    def describe(self) -> list[Metric]:
        return []


# ------------------------------------------------------------------------------ scheduling cycles

ADMISSION_ATTEMPTS: Final = Counter(
    "kueue_admission_attempts",
    "Scheduling cycles. The result is success if at least one Workload got quota.",
    ("result", "replica_role"),
)
ADMISSION_ATTEMPT_DURATION_SECONDS: Final = Histogram(
    "kueue_admission_attempt_duration_seconds",
    "Duration of a scheduling cycle.",
    ("result", "replica_role"),
    buckets=_SHORT,
)
ADMISSION_CYCLE_PREEMPTION_SKIPS: Final = Gauge(
    "kueue_admission_cycle_preemption_skips",
    "Workloads that the last cycle skipped because other Workloads preempt the same targets.",
    _QUEUE,
)
PREEMPTION_TARGET_RECOMPUTATIONS: Final = Counter(
    "kueue_preemption_target_recomputations",
    "Preemption targets chosen again because another Workload of the cycle had taken them.",
    ("cluster_queue", "result", "replica_role"),
)
PREEMPTED_WORKLOADS: Final = Counter(
    "kueue_preempted_workloads",
    "Preempted Workloads, by the ClusterQueue of the preemptor.",
    ("preempting_cluster_queue", "reason", "replica_role"),
)

# -------------------------------------------------------------------------------------- Workloads


class ByQueue(NamedTuple):
    """The same metric by ClusterQueue and by LocalQueue."""

    cluster_queue: Histogram
    local_queue: Histogram


def _by_queue(
    name: str, text: str, buckets: Iterable[float], local_buckets: Iterable[float] | None = None
) -> ByQueue:
    found_buckets = tuple(buckets)
    local = found_buckets if local_buckets is None else tuple(local_buckets)
    return ByQueue(
        Histogram(f"kueue_{name}", text, _QUEUE_PRIORITY, buckets=found_buckets),
        Histogram(f"kueue_local_queue_{name}", text, _LOCAL_PRIORITY, buckets=local),
    )


QUOTA_RESERVED_WORKLOADS: Final = Counter(
    "kueue_quota_reserved_workloads", "Workloads that got quota.", _QUEUE_PRIORITY
)
ADMITTED_WORKLOADS: Final = Counter(
    "kueue_admitted_workloads", "Workloads that were admitted.", _QUEUE_PRIORITY
)
FINISHED_WORKLOADS: Final = Counter(
    "kueue_finished_workloads", "Workloads that finished.", _QUEUE_PRIORITY
)
REPLACED_WORKLOAD_SLICES: Final = Counter(
    "kueue_replaced_workload_slices",
    "Workload slices that were replaced by another admitted slice of their owner.",
    ("cluster_queue", "replica_role"),
)
LOCAL_QUEUE_QUOTA_RESERVED_WORKLOADS: Final = Counter(
    "kueue_local_queue_quota_reserved_workloads", "Workloads that got quota.", _LOCAL_PRIORITY
)
LOCAL_QUEUE_ADMITTED_WORKLOADS: Final = Counter(
    "kueue_local_queue_admitted_workloads", "Workloads that were admitted.", _LOCAL_PRIORITY
)
LOCAL_QUEUE_FINISHED_WORKLOADS: Final = Counter(
    "kueue_local_queue_finished_workloads", "Workloads that finished.", _LOCAL_PRIORITY
)
COHORT_SUBTREE_ADMITTED_WORKLOADS: Final = Counter(
    "kueue_cohort_subtree_admitted_workloads",
    "Workloads that were admitted in the cohort or below it.",
    ("cohort", "priority_class", "replica_role"),
)
QUOTA_RESERVED_WAIT_TIME_SECONDS: Final = _by_queue(
    "quota_reserved_wait_time_seconds",
    "Time from creation or requeueing to the quota reservation.",
    _WAITS,
)
ADMISSION_WAIT_TIME_SECONDS: Final = _by_queue(
    "admission_wait_time_seconds",
    "Time from creation or requeueing to admission.",
    _LONG_WAITS,
    _WAITS,
)
ADMISSION_CHECKS_WAIT_TIME_SECONDS: Final = _by_queue(
    "admission_checks_wait_time_seconds",
    "Time from the quota reservation to admission, of Workloads with admission checks.",
    _WAITS,
)
READY_WAIT_TIME_SECONDS: Final = _by_queue(
    "ready_wait_time_seconds",
    "Time from creation or requeueing until all pods are ready.",
    _WAITS,
)
ADMITTED_UNTIL_READY_WAIT_TIME_SECONDS: Final = _by_queue(
    "admitted_until_ready_wait_time_seconds",
    "Time from admission until all pods are ready.",
    _WAITS,
)
EXECUTION_TIME_SECONDS: Final = _by_queue(
    "execution_time_seconds", "Time that a finished Workload was admitted.", _LONG_WAITS
)
EVICTED_WORKLOADS: Final = Counter(
    "kueue_evicted_workloads",
    "Evictions of Workloads that held quota.",
    ("cluster_queue", *_EVICTION),
)
EVICTED_WORKLOADS_ONCE: Final = Counter(
    "kueue_evicted_workloads_once",
    "Workloads that held quota and were evicted for a reason for the first time.",
    ("cluster_queue", *_EVICTION),
)
LOCAL_QUEUE_EVICTED_WORKLOADS: Final = Counter(
    "kueue_local_queue_evicted_workloads",
    "Evictions of Workloads that held quota.",
    ("name", "namespace", *_EVICTION),
)
PODS_READY_TO_EVICTED_TIME_SECONDS: Final = Histogram(
    "kueue_pods_ready_to_evicted_time_seconds",
    "Time from all pods being ready to the eviction.",
    ("cluster_queue", "reason", "underlying_cause", "replica_role"),
    buckets=_WAITS,
)
WORKLOAD_EVICTION_LATENCY_SECONDS: Final = Histogram(
    "kueue_workload_eviction_latency_seconds",
    "Time from an eviction until its quota is free.",
    ("cluster_queue", "reason", "replica_role"),
    buckets=_WAITS,
)
WORKLOAD_CREATION_LATENCY_SECONDS: Final = Histogram(
    "kueue_workload_creation_latency_seconds",
    "Time from the creation of a pod or Job to the creation of its Workload.",
    ("job_kind", "replica_role"),
    buckets=_DOUBLED,
)
POD_SCHEDULING_GATE_REMOVAL_SECONDS: Final = Histogram(
    "kueue_pod_scheduling_gate_removal_seconds",
    "Time from admission to the removal of the pod's scheduling gate.",
    ("name", "cluster_queue", "is_group", "replica_role"),
    buckets=_SHORT,
)
RELEASED_PODS: Final = Counter(
    "gpu_admission_released_pods", "Pods released to the scheduler.", ("cluster_queue",)
)
RELEASING_PODS: Final = Gauge(
    "gpu_admission_releasing_pods",
    "Pods that hold quota of a ClusterQueue though they are being deleted or their Workload has"
    " ended. Others get the quota once they have ended.",
    ("cluster_queue",),
)
QUOTA_WITHOUT_NODE: Final = Gauge(
    "gpu_admission_quota_without_node",
    "GPUs that admitted Workloads of a ClusterQueue hold whose pods are on no node. Missing where"
    " every pod is on a node.",
    ("cluster_queue", "flavor", "resource"),
)
QUOTA_WITHOUT_NODE_TIMESTAMP_SECONDS: Final = Gauge(
    "gpu_admission_quota_without_node_timestamp_seconds",
    "When the oldest Workload was admitted that holds such quota, in seconds since 1970. Missing"
    " where every pod is on a node.",
    ("cluster_queue", "flavor", "resource"),
)
LEDGER_DRIFT: Final = Gauge(
    "gpu_admission_ledger_drift",
    "Quota that is charged beyond what Workloads and running pods hold, as an audit found it: 0"
    " when all is well, negative where less is charged than is held.",
    ("cluster_queue", "flavor", "resource"),
)
NODE_LEDGER_DRIFT: Final = Gauge(
    "gpu_admission_node_ledger_drift",
    "What is counted for pods on a node beyond what they request, as an audit found it; only nodes"
    " where that differs have a series.",
    ("node", "resource"),
)
POD_RELEASE_SECONDS: Final = Histogram(
    "gpu_admission_pod_release_seconds",
    "Time from the creation of a pod (whole seconds) to its release.",
    ("cluster_queue",),
    buckets=(0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240),
)

# ---------------------------------------------------------------------------------- ClusterQueues

PENDING_WORKLOADS: Final = Gauge(
    "kueue_pending_workloads",
    "Workloads that wait. Active ones compete for quota; inadmissible ones wait for a change.",
    _QUEUE_STATUS,
)
OLDEST_PENDING_TIMESTAMP_SECONDS: Final = Gauge(
    "gpu_admission_oldest_pending_timestamp_seconds",
    "Since when the Workload waits that has waited longest, in seconds since 1970. Missing where"
    " nobody waits.",
    ("cluster_queue",),
)
PENDING_SCHEDULING_HASHES: Final = Gauge(
    "kueue_pending_scheduling_hashes", "Groups of equal pending Workloads.", _QUEUE_STATUS
)
RESERVING_ACTIVE_WORKLOADS: Final = Gauge(
    "kueue_reserving_active_workloads", "Workloads that hold quota.", _QUEUE
)
ADMITTED_ACTIVE_WORKLOADS: Final = Gauge(
    "kueue_admitted_active_workloads", "Admitted Workloads that have not finished.", _QUEUE
)
FINISHED_WORKLOADS_GAUGE: Final = _BesideCounter(
    "kueue_finished_workloads", "Finished Workloads that still exist.", _QUEUE
)
UNADMITTED_WORKLOADS: Final = Gauge(
    "kueue_unadmitted_workloads",
    "Workloads that are not admitted, by reason.",
    ("cluster_queue", "reason", "underlying_cause", "replica_role"),
)
CLUSTER_QUEUE_STATUS: Final = Gauge(
    "kueue_cluster_queue_status",
    "1 for the current status of the ClusterQueue, 0 for the others.",
    _QUEUE_STATUS,
)
CLUSTER_QUEUE_INFO: Final = Gauge(
    "kueue_cluster_queue_info",
    "Always 1; the labels name the cohorts above the ClusterQueue.",
    ("cluster_queue", "parent_cohort", "root_cohort", "replica_role"),
)
CLUSTER_QUEUE_WEIGHTED_SHARE: Final = Gauge(
    "kueue_cluster_queue_weighted_share",
    "Share of the lendable quota of the cohort that the ClusterQueue borrows, in thousandths,"
    " divided by its weight. NaN if it borrows with weight 0.",
    ("cluster_queue", "cohort", "replica_role"),
)
CLUSTER_QUEUE_RESOURCE_RESERVATION: Final = Gauge(
    "kueue_cluster_queue_resource_reservation", "Reserved quota.", _AMOUNT
)
CLUSTER_QUEUE_RESOURCE_USAGE: Final = Gauge(
    "kueue_cluster_queue_resource_usage", "Quota of admitted Workloads.", _AMOUNT
)
CLUSTER_QUEUE_NOMINAL_QUOTA: Final = Gauge(
    "kueue_cluster_queue_nominal_quota", "Nominal quota.", _AMOUNT
)
CLUSTER_QUEUE_BORROWING_LIMIT: Final = Gauge(
    "kueue_cluster_queue_borrowing_limit", "Borrowing limit; +Inf if there is none.", _AMOUNT
)
CLUSTER_QUEUE_LENDING_LIMIT: Final = Gauge(
    "kueue_cluster_queue_lending_limit", "Lending limit; +Inf if there is none.", _AMOUNT
)
CLUSTER_QUEUE_RESOURCE_PENDING: Final = Gauge(
    "kueue_cluster_queue_resource_pending",
    "Sum of the requests of Workloads that wait.",
    ("cluster_queue", "resource", "replica_role"),
)

# ------------------------------------------------------------------------------------ LocalQueues

LOCAL_QUEUE_PENDING_WORKLOADS: Final = Gauge(
    "kueue_local_queue_pending_workloads",
    "Workloads that wait. Active ones compete for quota; inadmissible ones wait for a change.",
    ("name", "namespace", "status", "replica_role"),
)
LOCAL_QUEUE_RESERVING_ACTIVE_WORKLOADS: Final = Gauge(
    "kueue_local_queue_reserving_active_workloads", "Workloads that hold quota.", _LOCAL
)
LOCAL_QUEUE_ADMITTED_ACTIVE_WORKLOADS: Final = Gauge(
    "kueue_local_queue_admitted_active_workloads",
    "Admitted Workloads that have not finished.",
    _LOCAL,
)
LOCAL_QUEUE_FINISHED_WORKLOADS_GAUGE: Final = _BesideCounter(
    "kueue_local_queue_finished_workloads", "Finished Workloads that still exist.", _LOCAL
)
LOCAL_QUEUE_UNADMITTED_WORKLOADS: Final = Gauge(
    "kueue_local_queue_unadmitted_workloads",
    "Workloads that are not admitted, by reason.",
    ("name", "namespace", "cluster_queue", "reason", "underlying_cause", "replica_role"),
)
LOCAL_QUEUE_STATUS: Final = Gauge(
    "kueue_local_queue_status",
    "1 for the current value of the condition Active, 0 for the others.",
    ("name", "namespace", "active", "replica_role"),
)
LOCAL_QUEUE_RESOURCE_RESERVATION: Final = Gauge(
    "kueue_local_queue_resource_reservation", "Reserved quota.", _LOCAL_AMOUNT
)
LOCAL_QUEUE_RESOURCE_USAGE: Final = Gauge(
    "kueue_local_queue_resource_usage", "Quota of admitted Workloads.", _LOCAL_AMOUNT
)
LOCAL_QUEUE_ADMISSION_FAIR_SHARING_USAGE: Final = Gauge(
    "kueue_local_queue_admission_fair_sharing_usage",
    "Past usage that decides which LocalQueue is next under admission fair sharing.",
    ("name", "namespace", "cluster_queue", "replica_role"),
)

# ---------------------------------------------------------------------------------------- cohorts

COHORT_INFO: Final = Gauge(
    "kueue_cohort_info",
    "Always 1; the labels name the cohorts above the cohort.",
    ("cohort", "parent_cohort", "root_cohort", "replica_role"),
)
COHORT_WEIGHTED_SHARE: Final = Gauge(
    "kueue_cohort_weighted_share",
    "Share of the lendable quota of the parent cohort that the cohort borrows, in thousandths,"
    " divided by its weight. NaN if it borrows with weight 0.",
    _COHORT,
)
COHORT_SUBTREE_QUOTA: Final = Gauge(
    "kueue_cohort_subtree_quota",
    "Quota of the cohort and of everything below it.",
    _COHORT_AMOUNT,
)
COHORT_SUBTREE_RESOURCE_RESERVATIONS: Final = Gauge(
    "kueue_cohort_subtree_resource_reservations",
    "Quota reserved in the cohort and below it.",
    _COHORT_AMOUNT,
)
COHORT_SUBTREE_ADMITTED_ACTIVE_WORKLOADS: Final = Gauge(
    "kueue_cohort_subtree_admitted_active_workloads",
    "Admitted Workloads of the cohort and of everything below it.",
    _COHORT,
)

# ------------------------------------------------------------------------------------------- GPUs

FLAVOR_CAPACITY: Final = Gauge(
    "gpu_admission_flavor_capacity", "Healthy GPUs of the nodes of the flavor.", _FLAVOR
)
FLAVOR_SICK: Final = Gauge(
    "gpu_admission_flavor_sick", "GPUs of the nodes of the flavor that cannot be used.", _FLAVOR
)
FLAVOR_UNMANAGED: Final = Gauge(
    "gpu_admission_flavor_unmanaged", "GPUs of pods that no queue admitted.", _FLAVOR
)
FLAVOR_REAL: Final = Gauge(
    "gpu_admission_flavor_real", "GPUs that admitted pods have or can get.", _FLAVOR
)
FLAVOR_MISMATCHED: Final = Gauge(
    "gpu_admission_flavor_mismatched",
    "Devices for which the labels of a node contradict its capacity.",
    _FLAVOR,
)
FLAVOR_CARDS: Final = Gauge(
    "gpu_admission_flavor_cards",
    "Physical GPUs of the nodes of the flavor, whether whole, partitioned or shared.",
    _FLAVOR,
)
FRAGMENTATION_FREE: Final = Gauge(
    "gpu_admission_fragmentation_free", "Healthy GPUs that no pod holds.", _FLAVOR
)
FRAGMENTATION_LARGEST_HOLE: Final = Gauge(
    "gpu_admission_fragmentation_largest_hole", "Most free GPUs on one node.", _FLAVOR
)
FRAGMENTATION_STRANDED: Final = Gauge(
    "gpu_admission_fragmentation_stranded",
    "Slices of MIG GPUs that belong to no instance and that no profile can use.",
    _FLAVOR,
)

# ---------------------------------------------------------------------------- the controller

WRITE_DURATION_SECONDS: Final = Histogram(
    "gpu_admission_write_duration_seconds",
    "Duration of a request to the API server, without its time in the controller's queue.",
    ("purpose", "result"),
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
REQUESTS_THROTTLED: Final = Counter(
    "gpu_admission_requests_throttled",
    "Requests that the API server turned away with 429 because there were too many.",
)
WRITES_IN_FLIGHT: Final = Gauge(
    "gpu_admission_writes_in_flight", "Requests that were sent and are not answered yet."
)
WRITES_UNKNOWN: Final = Gauge(
    "gpu_admission_writes_unknown",
    "Requests without an answer: a watch tells what became of each, or it is sent again.",
)
LEADER: Final = Gauge(
    "gpu_admission_leader",
    "1 while this process decides and may write, else 0. Without leader election it always is 1.",
)
PAUSED: Final = Gauge(
    "gpu_admission_paused", "1 while an administrator has paused admission, else 0."
)
BREAK_GLASS: Final = Gauge(
    "gpu_admission_break_glass",
    "1 while break-glass is on, so that new GPU pods pass without quota, else 0. NaN while that"
    " cannot be read.",
)
REQUESTS_IN_FLIGHT_LIMIT: Final = Gauge(
    "gpu_admission_requests_in_flight_limit",
    "Requests to the API server that may be in flight at once. The limit rises while answers stay"
    " as quick as usual, and falls while they are slow or fail to come.",
)
DECISIONS_OPEN_LIMIT: Final = Gauge(
    "gpu_admission_decisions_open_limit",
    "Decisions that may wait to be written at once. The limit falls while the API server answers"
    " slowly and quota is taken back.",
)
EVENTS_LEFT_OUT: Final = Counter(
    "gpu_admission_events_left_out",
    "Events that were not written because they only repeat a condition and there were too many.",
)
STOPS_HELD_BACK: Final = Gauge(
    "gpu_admission_stops_held_back",
    "Running pods and Jobs whose stop is held back because there were too many stops.",
)
INBOX_MESSAGES: Final = Gauge(
    "gpu_admission_inbox_messages", "Watch events and write results that are not handled yet."
)
UNDECODABLE_OBJECTS: Final = Counter(
    "gpu_admission_undecodable_objects",
    "Objects that were skipped because they cannot be read.",
    ("kind",),
)
BUILD_INFO: Final = Gauge(
    "kueue_build_info",
    "Always 1; the labels name what runs. Labels that only a Go program can fill are empty.",
    ("git_version", "git_commit", "build_date", "go_version", "compiler", "platform"),
)


_EXPIRY_HELP: Final = (
    "When a certificate expires, in seconds since 1970: serving is what the webhook serves, "
    "authority the CA that signed it."
)
CERTIFICATE_EXPIRY_TIMESTAMP_SECONDS: Final = Gauge(
    "gpu_admission_certificate_expiry_timestamp_seconds", _EXPIRY_HELP, ["certificate"]
)


def version() -> str:
    """Return the running version; empty where it runs from a source tree."""
    try:
        return f"v{metadata.version('gpu-admission')}"
    except metadata.PackageNotFoundError:
        return ""


def set_build_info() -> None:
    """Set the metric with the running version."""
    compiler = f"{platform.python_implementation()} {platform.python_version()}"
    BUILD_INFO.labels(version(), "", "", "", compiler, f"{sys.platform}/{platform.machine()}").set(
        1
    )


def forget_objects() -> None:
    """Remove the series of all queues, cohorts and flavors: those that exist are set again.

    Counters stay, as they count what this process has seen.
    """
    for gauge in tuple(globals().values()):
        if isinstance(gauge, Gauge) and gauge not in _OF_PROCESS:
            gauge.clear()


_OF_PROCESS: Final = (BUILD_INFO, CERTIFICATE_EXPIRY_TIMESTAMP_SECONDS)

# ------------------------------------------------------------------------------------ the webhook

REVIEW_BUCKETS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0,
)  # fmt: skip
"""Seconds. A review takes fractions of a millisecond; the API server gives up after 5 s."""


class WebhookProcessMetrics:
    """Metrics of one webhook process, in a registry of their own.

    Attributes:
        registry: what ``/metrics`` shows.
        reviews: reviews by path and outcome.
        pods: pods under creation.
        review_duration_seconds: how long reviews took.
        ready: whether the webhook is ready.
        certificate_expiry: when the served certificate and its CA expire.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.certificate_expiry = Gauge(
            "gpu_admission_certificate_expiry_timestamp_seconds",
            _EXPIRY_HELP,
            ["certificate"],
            registry=self.registry,
        )

        def name(suffix: str) -> str:
            return f"gpu_admission_webhook_{suffix}"

        def counter(suffix: str, text: str, labels: Sequence[str]) -> Counter:
            return Counter(name(suffix), text, labels, registry=self.registry)

        self.reviews = counter(
            "reviews_total",
            "Reviews by path and outcome: allowed, patched, denied, malformed, failed.",
            ("path", "outcome"),
        )
        self.pods = counter(
            "pods_total", "Pods under creation, by their relation to quota.", ("standing",)
        )
        self.review_duration_seconds = Histogram(
            name("review_duration_seconds"),
            "Time from the first byte of a review to its answer, without the network.",
            ("path",),
            buckets=REVIEW_BUCKETS,
            registry=self.registry,
        )
        self.ready = Gauge(
            name("ready"), "1 if every watched kind was listed, else 0.", registry=self.registry
        )
