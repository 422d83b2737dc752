"""Reasons are written after a second, at once when they change, and their numbers rarely."""

from admission.base.names import ClusterQueueName, WorkloadKey
from admission.controller.explaining import Explainer
from admission.scheduling.decisions import Wait

KEY = WorkloadKey("ml", "w")


def wait(reason: str, message: str = "m") -> Wait:
    return Wait(
        workload=KEY, cluster_queue=ClusterQueueName("gpus"), reason=reason, message=message
    )


def explainer() -> Explainer:
    return Explainer(after_seconds=1, refresh_seconds=30)


def test_nothing_is_said_in_the_first_second() -> None:
    it = explainer()
    it.tell(wait("A"), 10.0)

    assert it.take_due(10.9) is None
    assert it.take_due(11.0) == wait("A")


def test_a_workload_that_got_quota_in_time_is_never_explained() -> None:
    it = explainer()
    it.tell(wait("A"), 10.0)
    it.forget(KEY)

    assert it.take_due(20.0) is None


def test_the_latest_reason_counts() -> None:
    it = explainer()
    it.tell(wait("A"), 10.0)
    it.tell(wait("B"), 10.5)

    assert it.take_due(11.0) == wait("B")
    assert it.take_due(11.0) is None


def test_a_new_reason_is_written_at_once() -> None:
    it = explainer()
    it.tell(wait("A"), 10.0)
    it.take_due(11.0)
    it.tell(wait("B"), 12.0)

    assert it.take_due(12.0) == wait("B")


def test_new_numbers_under_the_same_reason_wait_for_the_refresh() -> None:
    it = explainer()
    it.tell(wait("A", "1 more"), 10.0)
    it.take_due(11.0)
    it.tell(wait("A", "2 more"), 12.0)
    it.tell(wait("A", "3 more"), 13.0)

    assert it.take_due(40.9) is None
    assert it.take_due(41.0) == wait("A", "3 more")


def test_what_only_people_change_is_told_anew_at_once() -> None:
    it = explainer()
    it.tell(wait("Misconfigured", "no LocalQueue"), 10.0)
    it.take_due(11.0)
    it.tell(wait("Misconfigured", "no ClusterQueue"), 12.0)

    assert it.take_due(12.0) == wait("Misconfigured", "no ClusterQueue")


def test_the_same_text_is_never_written_twice() -> None:
    it = explainer()
    it.tell(wait("A"), 10.0)
    it.take_due(11.0)
    it.tell(wait("A"), 50.0)

    assert it.take_due(100.0) is None
