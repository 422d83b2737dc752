"""When parked workloads are tried again."""

import pytest

from admission.base.names import ClusterQueueName
from admission.scheduling.hierarchy import CohortHierarchy
from admission.scheduling.inadmissible import InadmissibleRequeues

SECOND_US = 1_000_000
NOW_US = 1_000 * SECOND_US
QUEUE = ClusterQueueName("gpus")


@pytest.fixture
def retries() -> InadmissibleRequeues:
    made = InadmissibleRequeues(SECOND_US)
    made.queue(QUEUE, NOW_US)
    return made


def test_events_are_gathered_for_a_while(retries: InadmissibleRequeues) -> None:
    assert retries.take(CohortHierarchy(), NOW_US + SECOND_US - 1) == set()
    assert retries.take(CohortHierarchy(), NOW_US + SECOND_US) == {QUEUE}
    assert retries.next_us() is None


def test_a_clock_that_is_set_back_delays_nothing(retries: InadmissibleRequeues) -> None:
    assert retries.take(CohortHierarchy(), NOW_US - 3600 * SECOND_US) == {QUEUE}


def test_edits_are_gathered_and_freed_quota_is_not() -> None:
    made = InadmissibleRequeues(0, SECOND_US)
    other = ClusterQueueName("other")
    for moment in range(5):
        made.queue(QUEUE, NOW_US + moment, edited=True)
    made.queue(other, NOW_US)
    assert made.take(CohortHierarchy(), NOW_US + 5) == {other}
    made.queue(other, NOW_US + 6, edited=True)
    made.queue(other, NOW_US + 7)
    assert made.take(CohortHierarchy(), NOW_US + 8) == {other}
    assert made.next_us() == NOW_US + SECOND_US
    assert made.take(CohortHierarchy(), NOW_US + SECOND_US) == {QUEUE}
    assert made.next_us() is None
