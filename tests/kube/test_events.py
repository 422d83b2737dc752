"""Events are written once, repeats become a series, and nobody waits."""

import random
from typing import Any

import pytest
from typing_extensions import override

from admission.base.events import Event
from admission.kube import errors, resources
from admission.kube.events import EventRecorder
from admission.sandbox.store import Store
from tests.clocks import FakeClock

POD = {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "a", "uid": "u"}


class Counting(Store):
    """A store that counts writes and can refuse them."""

    writes = 0
    refusing = False
    broken = False

    @override
    def create(self, resource: Any, *args: Any, **options: Any) -> Any:
        self._count(resource)
        return super().create(resource, *args, **options)

    @override
    def patch(self, resource: Any, *args: Any, **options: Any) -> Any:
        self._count(resource)
        return super().patch(resource, *args, **options)

    def _count(self, resource: resources.Resource) -> None:
        if resource != resources.EVENTS:
            return
        if self.refusing:
            raise errors.TransportError("refused")
        if self.broken:
            raise ValueError("nobody expects this")
        self.writes += 1


class Reporting:
    """A recorder whose worker is the test."""

    def __init__(self, capacity: int = 1000) -> None:
        self.store = Counting()
        self.clock = FakeClock()
        rng = random.Random(1)
        self.recorder = EventRecorder(self.store, "me", self.clock, capacity=capacity, rng=rng)

    def report(self, note: str = "started", times: int = 1) -> None:
        for _ in range(times):
            self.recorder.event(POD, Event("Normal", "Started", note))
            self.recorder.drain()

    def events(self) -> list[dict[str, Any]]:
        return list(self.store.list(resources.EVENTS, "default").items)


def test_an_event_says_what_happened_to_what():
    reporting = Reporting()
    reporting.report("Admitted by clusterQueue q")
    (event,) = reporting.events()
    assert event["metadata"]["name"].startswith("a.")
    assert event["regarding"] == POD
    shown = {key: event[key] for key in ("type", "reason", "action", "note")}
    assert shown == {
        "type": "Normal",
        "reason": "Started",
        "action": "Started",
        "note": "Admitted by clusterQueue q",
    }
    assert event["reportingController"] == "me"
    assert event["reportingInstance"] == "me"
    assert event["eventTime"] == "2026-01-01T00:00:00.000000Z"


def test_repeats_become_a_series_that_is_written_once_a_minute():
    reporting = Reporting()
    reporting.report(times=100)
    (event,) = reporting.events()
    assert event["series"]["count"] == 2
    assert reporting.store.writes == 2
    reporting.clock.advance(60)
    reporting.report()
    (event,) = reporting.events()
    assert event["series"]["count"] == 101
    assert event["series"]["lastObservedTime"] == "2026-01-01T00:01:00.000000Z"
    assert reporting.store.writes == 3


def test_counts_that_were_held_back_are_flushed():
    reporting = Reporting()
    reporting.report(times=5)
    reporting.recorder.flush()
    assert reporting.store.writes == 2
    reporting.clock.advance(61)
    reporting.recorder.flush()
    reporting.recorder.flush()
    (event,) = reporting.events()
    assert event["series"]["count"] == 5
    assert reporting.store.writes == 3


def test_another_note_is_another_event():
    reporting = Reporting()
    reporting.report("one")
    reporting.report("two")
    assert sorted(event["note"] for event in reporting.events()) == ["one", "two"]


def waits(reporting: Reporting, *needs: int) -> list[tuple[str, int]]:
    """Report that something waits for so much; the notes and counts of all events."""
    for need in needs:
        event = Event("Warning", "WaitingForQuota", f"needs {need}", cause="WaitingForQuota")
        reporting.recorder.event(POD, event)
    reporting.recorder.drain()
    reporting.recorder.flush(everything=True)
    found = reporting.events()
    return sorted((one["note"], one.get("series", {"count": 1})["count"]) for one in found)


def test_reports_of_one_cause_within_a_minute_are_one_series_under_the_first_note():
    reporting = Reporting()
    assert waits(reporting, 16, 8, 4) == [("needs 16", 3)]
    reporting.clock.advance(59)
    assert waits(reporting, 4) == [("needs 16", 4)]


def test_a_report_with_another_note_begins_a_series_after_a_minute():
    """So that no event tells at a new time what was so before."""
    reporting = Reporting()
    waits(reporting, 16)
    reporting.clock.advance(61)
    assert waits(reporting, 16) == [("needs 16", 2)]
    reporting.clock.advance(61)
    assert waits(reporting, 4, 4) == [("needs 16", 2), ("needs 4", 2)]


def test_the_count_of_a_series_is_written_before_another_one_follows():
    reporting = Reporting()
    for need in (16, 16, 16, 16, 16):
        event = Event("Warning", "WaitingForQuota", f"needs {need}", cause="WaitingForQuota")
        reporting.recorder.event(POD, event)
    reporting.recorder.drain()
    reporting.clock.advance(61)
    assert waits(reporting, 4) == [("needs 16", 5), ("needs 4", 1)]


def test_a_series_ends_after_six_quiet_minutes():
    reporting = Reporting()
    reporting.report()
    reporting.clock.advance(361)
    reporting.report()
    assert ["series" in event for event in reporting.events()] == [False, False]


def test_an_event_that_the_server_forgot_is_written_anew():
    reporting = Reporting()
    reporting.report(times=2)
    name = reporting.events()[0]["metadata"]["name"]
    reporting.store.delete(resources.EVENTS, name, "default")
    reporting.clock.advance(60)
    reporting.report()
    (event,) = reporting.events()
    assert event["metadata"]["name"] != name


def test_reports_without_room_are_dropped_and_counted():
    reporting = Reporting(capacity=2)
    for number in range(5):
        reporting.recorder.event(POD, Event("Normal", "Started", str(number)))
    reporting.recorder.drain()
    assert len(reporting.events()) == 2
    assert reporting.recorder.dropped == 3


@pytest.mark.parametrize("how", ["refusing", "broken"])
def test_a_write_that_fails_however_costs_events_only(how: str):
    reporting = Reporting()
    setattr(reporting.store, how, True)
    reporting.report(times=2)
    assert reporting.recorder.failed == 2
    setattr(reporting.store, how, False)
    reporting.report()
    assert len(reporting.events()) == 1


def test_a_note_is_cut_at_what_the_server_takes():
    reporting = Reporting()
    reporting.report("ä" * 1000)
    (event,) = reporting.events()
    assert event["note"] == "ä" * 512


def test_events_of_cluster_scoped_objects_are_in_the_default_namespace():
    reporting = Reporting()
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "name": "q"}
    reporting.recorder.event(queue, Event("Warning", "Stopped", "no flavor"))
    reporting.recorder.drain()
    assert reporting.events()[0]["regarding"] == queue


def test_stop_writes_what_is_waiting():
    reporting = Reporting()
    for number in range(20):
        reporting.recorder.event(POD, Event("Normal", "Started", str(number)))
    reporting.recorder.start()
    reporting.recorder.stop(10)
    assert len(reporting.events()) == 20
