"""An API server that is away is told once for all kinds, and so is its return."""

import json
from collections.abc import Iterator

import pytest
import structlog

from admission.base import logs
from admission.kube import errors
from admission.kube.connectivity import Connectivity, warn
from tests.clocks import FakeClock

KINDS = ["pods", "nodes", "workloads.kueue.x-k8s.io"]
NO_ANSWER = errors.TransportError("connection refused by 127.0.0.1:6443")


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Iterator["Told"]:
    before = structlog.get_config()
    logs.configure()
    yield Told(capsys)
    structlog.configure(**before)


class Told:
    """What was logged from level info on."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self) -> list[str]:
        return [json.loads(line)["event"] for line in self._capsys.readouterr().err.splitlines()]


def test_of_all_kinds_that_are_not_served_one_line_tells_and_one_of_their_return(
    told: Told,
) -> None:
    clock = FakeClock()
    connectivity = Connectivity(clock)
    for _ in range(3):
        for kind in KINDS:
            connectivity.not_served(kind, "starts")
    assert told() == ["not served, trying again"]
    for kind in KINDS:
        connectivity.served(kind)
        connectivity.served(kind)
    assert told() == ["served again"]


def test_an_outage_that_was_told_is_not_told_again_for_each_kind(told: Told) -> None:
    connectivity = Connectivity(FakeClock())
    for kind in KINDS:
        connectivity.lost(str(NO_ANSWER))
        connectivity.not_served(kind, str(NO_ANSWER))
    assert told() == ["API server does not answer"]


def test_what_fails_in_an_outage_is_no_news(told: Told) -> None:
    connectivity = Connectivity(FakeClock())
    log = logs.get("some")
    warn(log, "before", NO_ANSWER)
    connectivity.lost(str(NO_ANSWER))
    warn(log, "in it", NO_ANSWER)
    warn(log, "while it starts", errors.make(503, "starts"))
    warn(log, "refused", errors.make(403, "no"))
    connectivity.answered()
    warn(log, "after it", NO_ANSWER)
    assert told() == [
        "before", "API server does not answer", "refused", "API server answers again", "after it",
    ]  # fmt: skip


def test_an_api_server_that_starts_and_stops_answering_for_a_moment_is_told_once(
    told: Told,
) -> None:
    clock = FakeClock()
    connectivity = Connectivity(clock)
    connectivity.lost(str(NO_ANSWER))
    for _ in range(3):
        connectivity.answered()
        clock.advance(9)
        connectivity.lost(str(NO_ANSWER))
        clock.advance(9)
        connectivity.lost(str(NO_ANSWER))
    connectivity.answered()
    assert told() == ["API server does not answer", "API server answers again"]


def test_an_outage_soon_after_another_is_told_once_it_lasts(told: Told) -> None:
    clock = FakeClock()
    connectivity = Connectivity(clock)
    connectivity.lost(str(NO_ANSWER))
    connectivity.answered()
    told()
    for _ in range(4):
        connectivity.lost(str(NO_ANSWER))
        clock.advance(10)
    assert told() == ["API server does not answer"]
    connectivity.answered()
    assert told() == ["API server answers again"]
