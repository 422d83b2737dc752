"""What the driver of part (e) makes of what it measured."""

from typing import Any

from tests.bench import handmade, runner


def make_report(**changes: Any) -> runner.Report:
    report: dict[str, Any] = {
        "wall_seconds": 10.0,
        "created_seconds": 8.0,
        "admission_seconds": {"small": [1.0, 3.0], "large": [0.5]},
        "held_cpu_seconds": 3000.0,
        "fitting_waits": [0.5, 0.25],
        "evictions": 4,
        "idle_ages": {"ClusterQueue": [0.5, 0.25, 0.0], "LocalQueue": []},
        "loaded_ages": {},
        "cpu_seconds": 1.0,
        "writes": {},
        **changes,
    }
    return runner.Report(**report)


def test_the_use_of_quota_is_what_was_held_of_all_nominal_quota_over_the_whole_time():
    # 30 queues of 20 cpus for 10 s are 6,000 cpu seconds.
    assert handmade.summary(make_report(), 30)["average_use_of_quota_percent"] == 50


def test_the_time_to_admission_is_the_mean_of_each_class():
    found = handmade.summary(make_report(), 30)
    assert found["mean_seconds_to_admission"] == {"small": 2.0, "large": 0.5}
    assert (found["workloads"], found["workloads_per_second"]) == (3, 0.3)


def test_a_status_that_was_never_written_has_no_age():
    found = handmade.summary(make_report(), 30)["queue_status_age"]
    assert found["idle"] == {"ClusterQueue p50_s": 0.25, "ClusterQueue max_s": 0.5}
    assert found["under load"] == {}


def test_new_conditions_replace_those_of_their_type_in_place():
    old = [{"type": "QuotaReserved", "status": "True"}, {"type": "Other", "status": "True"}]
    merged = runner._merged(old, [{"type": "QuotaReserved", "status": "False"}])
    assert merged == [
        {"type": "QuotaReserved", "status": "False"},
        {"type": "Other", "status": "True"},
    ]
