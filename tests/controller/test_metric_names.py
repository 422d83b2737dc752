"""Every metric of Kueue is exported under its name, with its labels and buckets, or is explained.

Dashboards and alerts that were made for Kueue must find what they ask for.
"""

from typing import Final

import pytest
from prometheus_client import REGISTRY, generate_latest

from admission.controller import core
from tests.repo import tree

ROLE: Final = "replica_role"
QUEUE: Final = ("cluster_queue", "priority_class", ROLE)
LOCAL: Final = ("name", "namespace", "priority_class", ROLE)
EVICTION: Final = ("reason", "underlying_cause", "priority_class", ROLE)
AMOUNT: Final = ("cohort", "cluster_queue", "flavor", "resource", ROLE)
LOCAL_AMOUNT: Final = ("name", "namespace", "flavor", "resource", ROLE)
MOMENTS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
WAITS: Final = (1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240)
LONG: Final = (*WAITS, 20480, 40960)
DOUBLED: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24)

COUNTERS: Final = {
    "admission_attempts_total": ("result", ROLE),
    "preemption_target_recomputations_total": ("cluster_queue", "result", ROLE),
    "quota_reserved_workloads_total": QUEUE,
    "admitted_workloads_total": QUEUE,
    "finished_workloads_total": QUEUE,
    "replaced_workload_slices_total": ("cluster_queue", ROLE),
    "evicted_workloads_total": ("cluster_queue", *EVICTION),
    "evicted_workloads_once_total": ("cluster_queue", *EVICTION),
    "preempted_workloads_total": ("preempting_cluster_queue", "reason", ROLE),
    "cohort_subtree_admitted_workloads_total": ("cohort", "priority_class", ROLE),
    "local_queue_quota_reserved_workloads_total": LOCAL,
    "local_queue_admitted_workloads_total": LOCAL,
    "local_queue_finished_workloads_total": LOCAL,
    "local_queue_evicted_workloads_total": ("name", "namespace", *EVICTION),
}
HISTOGRAMS: Final = {
    "admission_attempt_duration_seconds": (("result", ROLE), MOMENTS),
    "quota_reserved_wait_time_seconds": (QUEUE, WAITS),
    "admission_wait_time_seconds": (QUEUE, LONG),
    "admission_checks_wait_time_seconds": (QUEUE, WAITS),
    "ready_wait_time_seconds": (QUEUE, WAITS),
    "admitted_until_ready_wait_time_seconds": (QUEUE, WAITS),
    "execution_time_seconds": (QUEUE, LONG),
    "pods_ready_to_evicted_time_seconds": (
        ("cluster_queue", "reason", "underlying_cause", ROLE),
        WAITS,
    ),
    "workload_eviction_latency_seconds": (("cluster_queue", "reason", ROLE), WAITS),
    "workload_creation_latency_seconds": (("job_kind", ROLE), DOUBLED),
    "pod_scheduling_gate_removal_seconds": (("name", "cluster_queue", "is_group", ROLE), MOMENTS),
    "local_queue_quota_reserved_wait_time_seconds": (LOCAL, WAITS),
    "local_queue_admission_wait_time_seconds": (LOCAL, WAITS),
    "local_queue_admission_checks_wait_time_seconds": (LOCAL, WAITS),
    "local_queue_ready_wait_time_seconds": (LOCAL, WAITS),
    "local_queue_admitted_until_ready_wait_time_seconds": (LOCAL, WAITS),
    "local_queue_execution_time_seconds": (LOCAL, LONG),
}
GAUGES: Final = {
    "build_info": (
        "git_version", "git_commit", "build_date", "go_version", "compiler", "platform",
    ),
    "pending_workloads": ("cluster_queue", "status", ROLE),
    "pending_scheduling_hashes": ("cluster_queue", "status", ROLE),
    "reserving_active_workloads": ("cluster_queue", ROLE),
    "admitted_active_workloads": ("cluster_queue", ROLE),
    "finished_workloads": ("cluster_queue", ROLE),
    "admission_cycle_preemption_skips": ("cluster_queue", ROLE),
    "cluster_queue_status": ("cluster_queue", "status", ROLE),
    "unadmitted_workloads": ("cluster_queue", "reason", "underlying_cause", ROLE),
    "cluster_queue_info": ("cluster_queue", "parent_cohort", "root_cohort", ROLE),
    "cohort_info": ("cohort", "parent_cohort", "root_cohort", ROLE),
    "cohort_weighted_share": ("cohort", ROLE),
    "cohort_subtree_quota": ("cohort", "flavor", "resource", ROLE),
    "cohort_subtree_resource_reservations": ("cohort", "flavor", "resource", ROLE),
    "cohort_subtree_admitted_active_workloads": ("cohort", ROLE),
    "cluster_queue_resource_reservation": AMOUNT,
    "cluster_queue_resource_usage": AMOUNT,
    "cluster_queue_nominal_quota": AMOUNT,
    "cluster_queue_borrowing_limit": AMOUNT,
    "cluster_queue_lending_limit": AMOUNT,
    "cluster_queue_resource_pending": ("cluster_queue", "resource", ROLE),
    "cluster_queue_weighted_share": ("cluster_queue", "cohort", ROLE),
    "local_queue_pending_workloads": ("name", "namespace", "status", ROLE),
    "local_queue_reserving_active_workloads": ("name", "namespace", ROLE),
    "local_queue_admitted_active_workloads": ("name", "namespace", ROLE),
    "local_queue_finished_workloads": ("name", "namespace", ROLE),
    "local_queue_status": ("name", "namespace", "active", ROLE),
    "local_queue_unadmitted_workloads": (
        "name", "namespace", "cluster_queue", "reason", "underlying_cause", ROLE,
    ),
    "local_queue_resource_reservation": LOCAL_AMOUNT,
    "local_queue_resource_usage": LOCAL_AMOUNT,
    "local_queue_admission_fair_sharing_usage": ("name", "namespace", "cluster_queue", ROLE),
}  # fmt: skip
WITHOUT_MEANING: Final = (
    "multikueue_workloads_dispatched_total",
    "multikueue_workloads_admitted_total",
)


def exported(kind: str) -> dict[str, object]:
    """Metrics of one type in this process, by name as it is scraped."""
    assert callable(core.Core)  # whatever the controller imports has made its metrics by now
    found: dict[str, object] = {}
    for metric in REGISTRY._collector_to_names:
        if getattr(metric, "_type", "") == kind:
            name = metric._name  # type: ignore[attr-defined]
            found[f"{name}_total" if kind == "counter" else name] = metric
    return found


def labels(metric: object) -> set[str]:
    return set(metric._labelnames)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", COUNTERS)
def test_each_counter_is_exported_with_its_labels(name: str) -> None:
    assert labels(exported("counter")[f"kueue_{name}"]) == set(COUNTERS[name])


@pytest.mark.parametrize("name", GAUGES)
def test_each_gauge_is_exported_with_its_labels(name: str) -> None:
    assert labels(exported("gauge")[f"kueue_{name}"]) == set(GAUGES[name])


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_each_histogram_is_exported_with_its_labels_and_buckets(name: str) -> None:
    wanted, buckets = HISTOGRAMS[name]
    metric = exported("histogram")[f"kueue_{name}"]

    assert labels(metric) == set(wanted)
    assert metric._upper_bounds[:-1] == list(buckets)  # type: ignore[attr-defined]


def test_nothing_is_exported_as_kueues_that_kueue_does_not_have() -> None:
    found = {
        name
        for kind in ("counter", "gauge", "histogram")
        for name in exported(kind)
        if name.startswith("kueue_")
    }
    assert found == {f"kueue_{name}" for name in (*COUNTERS, *GAUGES, *HISTOGRAMS)}


def test_no_series_tells_when_another_began() -> None:
    counter = exported("counter")["kueue_admitted_workloads_total"]
    counter.labels("any", "", "standalone").inc()  # type: ignore[attr-defined]

    assert "kueue_admitted_workloads_total{" in generate_latest().decode()
    assert "kueue_admitted_workloads_created" not in generate_latest().decode()


@pytest.mark.parametrize("name", WITHOUT_MEANING)
def test_what_is_not_exported_is_explained(name: str) -> None:
    assert f"`{name}`" in (tree.ROOT / "docs" / "reference" / "metrics-and-boards.md").read_text()
