"""Which failed tests `.ci/run` repeats."""

from typing import Any

import pytest

from tests import repeat
from tests.chaos import test_storm

STORM = (
    f"tests/chaos/test_storm.py::"
    f"{test_storm.test_a_minute_of_storm_keeps_quota_and_stops_nobody_without_a_decision.__name__}"
)
JOBS = "tests/e2e/test_jobs.py::test_it"


def outcome(*failed: str, is_broken: bool = False, controlplane: bool = True) -> dict[str, Any]:
    failure = {"controlplane": controlplane, "when": "call", "failure": "late"}
    failures = dict.fromkeys(failed, failure)
    return {"exit_code": 1, "is_broken": is_broken, "run": 9, "failures": failures}


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (outcome(JOBS), ""),
        (outcome(*(f"tests/e2e/test_jobs.py::test_{number}" for number in range(6))), ""),
        (outcome(*(f"tests/e2e/test_{number}.py::test_it" for number in range(5))), ""),
        (outcome(*(f"tests/e2e/test_{number}.py::test_it" for number in range(6))), "tests of 6"),
        (outcome(JOBS, STORM), "what a storm finds"),
        (outcome(JOBS, controlplane=False), "these run in one process"),
        (outcome(), "no test is known"),
        (outcome(is_broken=True), "the run broke off"),
        (outcome(JOBS, is_broken=True), "the run broke off"),
        ({}, "the run broke off"),
    ],
)
def test_few_failures_of_a_whole_run_are_repeated(last: dict[str, Any], why: str) -> None:
    assert repeat.refusal(last).startswith(why)
    assert bool(repeat.refusal(last)) is bool(why)


def test_a_test_that_was_repeated_twice_is_mended_before_it_is_repeated_again() -> None:
    entry = {"test": JOBS, "failure": "late"}
    assert repeat.refusal(outcome(JOBS), [entry]) == ""
    assert "to be mended" in repeat.refusal(outcome(JOBS), [entry, entry])


def test_where_a_file_left_something_behind_all_of_it_is_repeated() -> None:
    failures = outcome(JOBS, "tests/e2e/test_doctor.py::test_last")["failures"]
    failures["tests/e2e/test_doctor.py::test_last"] = {"failure": "test_doctor.py left behind: x"}
    assert repeat.to_repeat(failures) == ["tests/e2e/test_doctor.py", JOBS]
