"""When a new leader begins: not before an earlier one's last request has ended for certain."""

import threading

import pytest
from typing_extensions import override

from admission.base import names
from admission.base.clock import SystemClock
from admission.config.derived import Settings
from admission.kube import resources
from admission.run.leading import Elected
from admission.sandbox.store import Store
from tests.controlplane import waiting

SETTINGS = Settings.model_validate({"gpu": {"controller": {"requestTimeout": "7s"}}})


class Waits(threading.Event):
    """An event that notes how long it was waited for, and waits for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float | None] = []

    @override
    def wait(self, timeout: float | None = None) -> bool:
        self.asked.append(timeout)
        return self.is_set()


@pytest.fixture
def store() -> Store:
    made = Store(clock=SystemClock())
    made.create(resources.NAMESPACES, {"metadata": {"name": names.SYSTEM_NAMESPACE}})
    return made


def waited(store: Store, *, is_drained: bool = False) -> list[float | None]:
    """What a candidate waits for between taking the Lease and the beginning of its lead."""
    elected, waits, begun = Elected(store, SETTINGS, SystemClock()), Waits(), threading.Event()
    elected._stopping = waits
    elected.start(begun.set)
    waiting.until(begun.is_set, what="the lead begins")
    elected.stop(is_drained=is_drained)
    return waits.asked


def test_the_first_leader_waits_for_nobody(store: Store) -> None:
    assert waited(store) == [0]


def test_a_successor_waits_out_the_last_request_of_the_one_before(store: Store) -> None:
    waited(store)
    assert waited(store) == [7]


def test_a_successor_of_one_whose_requests_are_all_answered_begins_at_once(store: Store) -> None:
    waited(store, is_drained=True)
    assert waited(store, is_drained=True) == [0]
    assert waited(store) == [0]
    assert waited(store) == [7]


def test_one_that_never_began_does_not_answer_for_the_one_before(store: Store) -> None:
    """It took the Lease from one that was killed, and ends before it has waited long enough."""
    waited(store)
    short_lived, begun = Elected(store, SETTINGS, SystemClock()), threading.Event()
    short_lived.start(begun.set)
    waiting.until(short_lived.may_write, what="it holds the Lease")
    short_lived.stop(is_drained=True)
    assert not begun.is_set()
    assert waited(store) == [7]


def test_a_standby_takes_a_released_lease_without_waiting_for_its_next_look(store: Store) -> None:
    """Its looks are an hour apart."""
    times = {"leaseDuration": "7300s", "renewDeadline": "7250s", "retryPeriod": "1h"}
    settings = Settings.model_validate({"kueue": {"leaderElection": times}})
    leader, standby = (Elected(store, settings, SystemClock()) for _ in range(2))
    led, begun = threading.Event(), threading.Event()
    leader.start(led.set)
    waiting.until(led.is_set, what="the first one leads")
    standby.start(begun.set)
    waiting.until(lambda: standby._election._seen is not None, what="the other one has looked")
    leader.stop(is_drained=True)
    waiting.until(begun.is_set, what="the other one leads")
    standby.stop(is_drained=True)


def test_a_lead_that_cannot_begin_ends_the_process(store: Store) -> None:
    """Else it would renew the Lease for ever and decide nothing."""

    def broken() -> None:
        raise RuntimeError("can't start new thread")

    elected = Elected(store, SETTINGS, SystemClock())
    elected.start(broken)
    waiting.until(lambda: elected.lost, what="the leader gives up")
    elected.stop(is_drained=True)


def test_a_broken_election_ends_the_process(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(store, "get", broken)
    elected = Elected(store, SETTINGS, SystemClock())
    elected.start(lambda: None)
    waiting.until(lambda: elected.lost, what="the candidate gives up")
    elected.stop(is_drained=True)
