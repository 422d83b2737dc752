"""Which failed tests `.ci/run` runs once more."""

import pytest

from tests import repeat
from tests.chaos import test_storm

STORM = (
    f"tests/chaos/test_storm.py::"
    f"{test_storm.test_a_minute_of_storm_keeps_quota_and_stops_nobody_without_a_decision.__name__}"
)


@pytest.mark.parametrize(
    ("failed", "why"),
    [
        (["tests/e2e/test_jobs.py::test_one"], ""),
        ([f"tests/e2e/test_jobs.py::test_{number}" for number in range(6)], ""),
        ([f"tests/e2e/test_{number}.py::test_one" for number in range(5)], ""),
        ([f"tests/e2e/test_{number}.py::test_one" for number in range(6)], "tests of 6 files"),
        (["tests/e2e/test_jobs.py::test_one", STORM], "what a storm finds"),
        ([], "no test is known"),
    ],
)
def test_few_failures_are_repeated_and_findings_of_a_storm_are_not(failed, why):
    assert repeat.refusal(failed).startswith(why)
    assert bool(repeat.refusal(failed)) is bool(why)
