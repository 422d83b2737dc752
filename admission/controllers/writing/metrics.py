"""Metrics of the controller, in the process's default registry."""

import platform
import sys
from datetime import datetime
from importlib import metadata
from typing import Final

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

from admission.api import views
from admission.base import clock
from admission.controllers.writing.writes import Outcome

# Kueue's metrics have no times of creation, which would be a series beside each one.
disable_created_metrics()  # type: ignore[no-untyped-call]

_WRITE_SECONDS: Final = Histogram(
    "gpu_admission_write_duration_seconds",
    "Time of one write to the API server, without waiting for its turn.",
    ["purpose", "result"],
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
CYCLE_SECONDS: Final = Histogram(
    "kueue_admission_attempt_duration_seconds",
    "Time of one scheduling cycle.",
    ["result", "replica_role"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
CYCLES: Final = Counter(
    "kueue_admission_attempts",
    "Scheduling cycles; success = at least one workload got quota.",
    ["result", "replica_role"],
)
_RELEASED: Final = Counter(
    "gpu_admission_released_pods", "Pods released to the scheduler.", ["cluster_queue"]
)
_RELEASE_SECONDS: Final = Histogram(
    "gpu_admission_pod_release_seconds",
    "Time from a pod's creation (whole seconds) to its release.",
    ["cluster_queue"],
    buckets=(0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240),
)
PAUSED: Final = Gauge(
    "gpu_admission_paused", "1 while the administrator has paused admission: nothing gets quota."
)
IN_FLIGHT: Final = Gauge("gpu_admission_writes_in_flight", "Writes sent and not yet answered.")
MOST_DECISIONS: Final = Gauge(
    "gpu_admission_decisions_open_limit",
    "Decisions that may wait to be written at once; fewer while the API server answers slowly and"
    " quota is taken back.",
)
EVENTS_LEFT_OUT: Final = Counter(
    "gpu_admission_events_left_out",
    "Events left out of those that only say again what a condition says.",
)
INBOX: Final = Gauge("gpu_admission_inbox_messages", "Watch events and outcomes not yet handled.")
QUARANTINED: Final = Counter(
    "gpu_admission_undecodable_objects", "Objects of the API server that were skipped.", ["kind"]
)


_BUILD_INFO: Final = Gauge(
    "kueue_build_info",
    "1; the labels tell what runs. Members that a program in Go would fill in are empty.",
    ["git_version", "git_commit", "build_date", "go_version", "compiler", "platform"],
)


def _version() -> str:
    try:
        return f"v{metadata.version('gpu-admission')}"
    except metadata.PackageNotFoundError:  # run from a source tree
        return ""


_BUILD_INFO.labels(
    _version(),
    "",
    "",
    "",
    f"{platform.python_implementation()} {platform.python_version()}",
    f"{sys.platform}/{platform.machine()}",
).set(1)


def observe_write(outcome: Outcome) -> None:
    """Counts one write."""
    labels = outcome.write.purpose.value, outcome.result.name.lower()
    _WRITE_SECONDS.labels(*labels).observe(outcome.seconds)


def released(pod: views.Pod, cluster_queue: str, now: datetime) -> None:
    """Counts a pod that was released, and how long it had waited."""
    _RELEASED.labels(cluster_queue).inc()
    created = pod.metadata.creation_timestamp
    if created:
        waited = (now - clock.from_wire(created)).total_seconds()
        _RELEASE_SECONDS.labels(cluster_queue).observe(max(0.0, waited))
