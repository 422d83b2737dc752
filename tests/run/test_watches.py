"""A watch that hangs shows in the probes; an API server that is away asks for no restart."""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typing_extensions import override

from admission.config.derived import Settings
from admission.controller.core import LeaderStarted, Message, WatchMessage
from admission.controller.quarantine import Unreadable
from admission.kube import errors, resources
from admission.kube.reflector import Reflector, Replaced
from admission.kube.resources import Resource
from admission.objects import crds
from admission.run.controller import ControllerThread
from admission.run.leading import Alone
from admission.run.watches import SILENT_SECONDS, OptionalWatch, ReflectorSet
from admission.sandbox.store import Store
from tests.clocks import FakeClock
from tests.controlplane import waiting

HALF = SILENT_SECONDS * 0.6


class Server(Store):
    """A store that can be away, and whose watches end as soon as they have begun."""

    away = False

    @override
    def list(self, *args: Any, **options: Any) -> Any:
        self._answer()
        return super().list(*args, **options)

    @override
    def watch(self, *args: Any, **options: Any) -> Any:
        self._answer()
        return super().watch(*args, **{**options, "timeout_seconds": 0})

    def _answer(self) -> None:
        if self.away:
            raise errors.TransportError("refused")


def tolerant() -> list[dict[str, Any]]:
    """Our kinds, but whatever is stored as a Workload is stored."""
    documents = copy.deepcopy(crds.documents())
    for document in documents:
        if document["spec"]["names"]["kind"] == "Workload":
            for version in document["spec"]["versions"]:
                anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                version["schema"] = {"openAPIV3Schema": anything}
    return documents


class Bench:
    """Watches without threads: every one takes a step when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Reflector, "start", lambda _: None)
        monkeypatch.setattr(OptionalWatch, "start", lambda _: None)
        self.clock = FakeClock()
        self.server = Server(crds=tolerant(), clock=self.clock)
        self.told: list[Message] = []
        self.watches = ReflectorSet(self.server, self.told.append, self.clock)
        self.watches.start()

    def turn(self, *, but: Resource | None = None) -> None:
        """Lets half of the longest silence pass, and then all take a step but one."""
        self.clock.advance(HALF)
        for optional in self.watches._optional:
            if optional.reflector.has_synced or optional.ask() is None:
                optional.reflector._step()
        for reflector in self.watches._needed:
            if reflector.resource != but:
                reflector._step()


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_it_is_ready_when_every_kind_was_listed_or_is_not_to_be_had(bench: Bench) -> None:
    assert "workloads" in bench.watches.unready()
    bench.turn(but=resources.WORKLOADS)
    assert bench.watches.unready() == "not listed yet: workloads"
    bench.turn()
    assert bench.watches.unready() == ""
    told = {one.resource for one in bench.told if isinstance(one, WatchMessage)}
    assert resources.DEVICES in told


def test_it_says_how_much_of_a_long_list_has_come(bench: Bench) -> None:
    bench.turn(but=resources.WORKLOADS)
    (workloads,) = (one for one in bench.watches._needed if one.resource == resources.WORKLOADS)
    workloads.listing = 12_500
    assert bench.watches.unready() == "not listed yet: workloads (12,500 so far)"


def test_a_watch_that_hangs_is_named_as_long_as_the_others_go_on(bench: Bench) -> None:
    bench.turn()
    bench.turn(but=resources.LOCAL_QUEUES)
    assert bench.watches.stuck() == ""
    bench.turn(but=resources.LOCAL_QUEUES)
    assert bench.watches.stuck() == "watches hang: localqueues"
    assert bench.watches.unready() == "not heard of for long: localqueues"


def test_a_server_that_is_away_makes_nothing_ready_and_asks_for_no_restart(bench: Bench) -> None:
    bench.turn()
    bench.server.away = True
    bench.turn()
    bench.turn()
    assert bench.watches.stuck() == ""
    assert bench.watches.unready().startswith("not heard of for long: admissionchecks, ")
    bench.server.away = False
    bench.turn()
    assert bench.watches.unready() == ""


def test_what_is_listed_anew_comes_after_the_news_that_this_process_leads(bench: Bench) -> None:
    bench.turn()
    before = len(bench.told)
    bench.watches.restart(LeaderStarted())
    assert bench.watches.unready().startswith("not listed yet: ")
    bench.turn()
    assert isinstance(bench.told[before], LeaderStarted)
    assert bench.watches.unready() == ""


def test_a_workload_that_cannot_be_decoded_is_told_with_all_that_came(bench: Bench) -> None:
    def add(name: str) -> None:
        document = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"queueName": "team", "podSets": "none"},
        }
        bench.server.create(resources.WORKLOADS, document, "default")

    add("listed")
    bench.turn()
    add("watched")
    bench.turn()
    found = [one.found for one in bench.told if isinstance(one, Unreadable)]
    assert [one.name for one in found] == ["listed", "watched"]
    assert [json.loads(one.raw)["spec"]["queueName"] for one in found] == ["team", "team"]
    lists = [one.change for one in bench.told if isinstance(one, WatchMessage)]
    left_out = [one.name for it in lists if isinstance(it, Replaced) for one in it.undecodable]
    assert left_out == ["listed"]


@contextmanager
def controlling(clock: FakeClock) -> Iterator[ControllerThread]:
    controller = ControllerThread(
        Store(crds=crds.documents(), clock=clock), Settings(), clock, Alone()
    )
    controller.start()
    try:
        yield controller
    finally:
        controller.stop()


def test_the_process_is_to_be_restarted_when_a_watch_hangs() -> None:
    clock = FakeClock()
    with controlling(clock) as controller:
        waiting.until(lambda: not controller.unready(), what="everything listed")
        assert controller.problem() == ""
        clock.advance(SILENT_SECONDS + 1)
        assert controller.problem().startswith("watches hang: ")
    assert controller.problem() == ""
