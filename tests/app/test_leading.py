"""When a new leader begins: not before an earlier one's last request has ended for certain."""

import threading

import pytest
from typing_extensions import override

from admission.app.leading import Elected
from admission.base import names
from admission.base.clock import SystemClock
from admission.kube import resources
from admission.kube.store import Store
from admission.settings import ControllerSettings, Settings
from tests.controlplane import waiting

SETTINGS = Settings(controller=ControllerSettings(request_timeout_seconds=7))


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


def waited(store: Store) -> list[float | None]:
    """What a candidate waits for between taking the Lease and the beginning of its lead."""
    elected, waits, begun = Elected(store, SETTINGS, SystemClock()), Waits(), threading.Event()
    elected._stopping = waits
    elected.start(begun.set)
    waiting.until(begun.is_set, what="the lead begins")
    elected.stop()
    return waits.asked


def test_the_first_leader_waits_for_nobody(store: Store) -> None:
    assert waited(store) == [0]


def test_a_successor_waits_out_the_last_request_of_the_one_before(store: Store) -> None:
    waited(store)
    assert waited(store) == [7]


def test_a_lead_that_cannot_begin_ends_the_process(store: Store) -> None:
    """Else it would renew the Lease for ever and decide nothing."""

    def broken() -> None:
        raise RuntimeError("can't start new thread")

    elected = Elected(store, SETTINGS, SystemClock())
    elected.start(broken)
    waiting.until(lambda: elected.lost, what="the leader gives up")
    elected.stop()


def test_a_broken_election_ends_the_process(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(store, "get", broken)
    elected = Elected(store, SETTINGS, SystemClock())
    elected.start(lambda: None)
    waiting.until(lambda: elected.lost, what="the candidate gives up")
    elected.stop()
