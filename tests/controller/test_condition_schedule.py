"""Reasons are written after a second, at once when they change, and their numbers rarely."""

from dataclasses import replace

from admission.base import names
from admission.base.causes import Stated
from admission.base.names import ClusterQueueName, PodSetName, ResourceName, WorkloadKey
from admission.controller.condition_schedule import ConditionSchedule, Due
from admission.scheduling.decisions import Wait

KEY = WorkloadKey("ml", "w")


def wait(reason: str, message: str = "m") -> Wait:
    return Wait(workload=KEY, cluster_queue=ClusterQueueName("gpus"), why=Stated(reason, message))


def explainer() -> ConditionSchedule:
    return ConditionSchedule(after_seconds=1, refresh_seconds=30)


def said(it: ConditionSchedule, now: float, place: str = "") -> Wait | None:
    """What is written now, if anything is due."""
    due = it.pop_due(now)
    return None if due is None else it.write(due.workload, place, now)


def test_nothing_is_said_in_the_first_second() -> None:
    it = explainer()
    it.tell(wait("A"), 10.0)

    assert said(it, 10.9) is None
    assert said(it, 11.0) == wait("A")


def test_a_workload_that_got_quota_in_time_is_never_explained() -> None:
    it = explainer()
    it.tell(wait("A"), 10.0)
    it.forget(KEY)

    assert said(it, 20.0) is None


def test_the_latest_reason_counts() -> None:
    it = explainer()
    it.tell(wait("A"), 10.0)
    it.tell(wait("B"), 10.5)

    assert said(it, 11.0) == wait("B")
    assert said(it, 11.0) is None


def test_a_new_reason_is_written_at_once() -> None:
    it = explainer()
    it.tell(wait("A"), 10.0)
    said(it, 11.0)
    it.tell(wait("B"), 12.0)

    assert said(it, 12.0) == wait("B")


def test_new_numbers_under_the_same_reason_wait_for_the_refresh() -> None:
    it = explainer()
    it.tell(wait("A", "1 more"), 10.0)
    said(it, 11.0)
    it.tell(wait("A", "2 more"), 12.0)
    it.tell(wait("A", "3 more"), 13.0)

    assert said(it, 40.9) is None
    assert said(it, 41.0) == wait("A", "3 more")


def test_what_only_people_change_is_told_anew_at_once() -> None:
    it = explainer()
    it.tell(wait("Misconfigured", "no LocalQueue"), 10.0)
    said(it, 11.0)
    it.tell(wait("Misconfigured", "no ClusterQueue"), 12.0)

    assert said(it, 12.0) == wait("Misconfigured", "no ClusterQueue")


def test_what_is_said_of_another_amount_that_is_asked_for_is_due_at_once() -> None:
    it = explainer()
    sixteen, eight = (
        replace(
            wait("A"), requests=((PodSetName("main"), {ResourceName(names.GPU_RESOURCE): amount}),)
        )
        for amount in (16, 8)
    )
    it.tell(sixteen, 10.0)
    said(it, 11.0)
    it.tell(eight, 12.0)

    assert it.pop_due(12.0) == Due(KEY, is_news=True)


def test_the_same_text_is_never_written_twice() -> None:
    it = explainer()
    it.tell(wait("A"), 10.0)
    said(it, 11.0)
    it.tell(wait("A"), 50.0)

    assert said(it, 100.0) is None


def test_a_reason_that_changes_before_it_is_written_is_news() -> None:
    it = explainer()
    it.tell(wait("A", "1 more"), 10.0)
    said(it, 11.0)
    it.tell(wait("A", "2 more"), 20.0)
    assert it.pop_due(41.0) == Due(KEY, is_news=False)
    it.tell(wait("B"), 42.0)

    assert it.pop_due(42.0) == Due(KEY, is_news=True)


def test_numbers_that_change_before_they_are_written_are_not_due_twice() -> None:
    it = explainer()
    it.tell(wait("A", "1 more"), 10.0)
    assert it.pop_due(11.0) == Due(KEY, is_news=True)
    it.tell(wait("A", "2 more"), 12.0)

    assert it.pop_due(60.0) is None
    assert it.write(KEY, "", 60.0) == wait("A", "2 more")


def test_a_place_is_due_when_it_is_another_one_rounded_and_as_rarely_as_numbers() -> None:
    it = explainer()
    it.tell(wait("A"), 10.0)
    said(it, 11.0, place="about 30th")
    it.drift(KEY, "about 30th", 50.0)
    assert it.next_due() is None
    it.drift(KEY, "about 20th", 35.0)

    assert said(it, 40.9) is None
    assert said(it, 41.0, place="about 20th") == wait("A")


def test_a_place_is_not_due_before_a_reason_was_written() -> None:
    it = explainer()
    it.tell(wait("A"), 10.0)
    it.drift(KEY, "3rd", 10.5)

    assert it.next_due() == 11.0


def test_an_event_is_due_after_half_a_minute() -> None:
    it = explainer()
    it.tell(wait("A"), 10.0)
    it.tell(wait("B"), 20.0)

    assert it.take_event(39.9) is None
    assert it.take_event(40.0) == KEY
    assert it.take_event(99.0) is None


def test_who_got_quota_in_time_has_no_event() -> None:
    it = explainer()
    it.tell(wait("A"), 10.0)
    it.forget(KEY)

    assert it.take_event(99.0) is None


def test_another_event_is_due_for_another_reason_only_and_half_a_minute_later() -> None:
    it = explainer()
    it.tell(wait("A"), 10.0)
    assert it.take_event(40.0) == KEY
    it.set_told(KEY, wait("A"), "A", 40.0)
    it.tell(wait("A", "2 more"), 41.0)
    assert it.next_event() is None
    it.tell(wait("B"), 45.0)
    it.tell(wait("A"), 50.0)
    it.tell(wait("B"), 55.0)

    assert it.take_event(69.9) is None
    assert it.take_event(70.0) == KEY


def test_that_nobody_has_judged_yet_is_no_news_after_a_reason() -> None:
    it = explainer()
    it.tell(wait("A"), 10.0)
    it.set_told(KEY, wait("A"), "A", 40.0)
    it.tell(wait("PendingEvaluation"), 45.0)

    assert it.take_event(99.0) is None


def test_what_an_earlier_leader_told_is_not_told_again() -> None:
    it = explainer()
    it.tell(wait("A"), 10.0)
    it.set_told(KEY, wait("A"), "A", 10.0)

    assert it.take_event(99.0) is None
    it.tell(wait("B"), 100.0)
    assert it.take_event(100.0) == KEY


def test_another_text_with_the_same_code_is_no_news() -> None:
    it = explainer()
    it.tell(wait("Misconfigured", "no LocalQueue a"), 10.0)
    assert it.take_event(40.0) == KEY
    assert it.set_told(KEY, wait("Misconfigured", "no LocalQueue a"), "LocalQueueNotFound", 40.0)
    it.tell(wait("Misconfigured", "no LocalQueue b"), 41.0)
    assert it.take_event(70.0) == KEY
    other = wait("Misconfigured", "no LocalQueue b")
    assert not it.set_told(KEY, other, "LocalQueueNotFound", 70.0)
    assert it.take_event(200.0) is None
