"""Flow control against API servers that are fast, slow, distant, erratic, shared or away.

Each row is a server and what the run must come to. Bounds follow from the server: what it could
do at most (`capacity`), what other clients would have beside eight requests of ours, and how long
one request takes there.
"""

import functools
from dataclasses import dataclass
from random import Random

import pytest

from admission.controller.writing.api_requests import WritePurpose
from tests.simulation.api_server import Server, Simulation

_PODS = 300
_REQUESTS_OF_A_POD = 5.4
"""In units of one create: the pod, its Workload, reservation, release, and the pod's end."""


def _erratically(rng: Random, _now: float) -> float:
    """Most answers are quick and some take ten times as long."""
    return rng.lognormvariate(0.0, 1.0)


def _with_pauses(rng: Random, _now: float) -> float:
    """One request in a thousand takes 400 times as long, as while etcd compacts."""
    return 400.0 if rng.random() < 0.001 else 1.0


def _slower_later(_rng: Random, now: float) -> float:
    """Five times slower from the third second on."""
    return 5.0 if now > 3.0 else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A server and what is asked of a run.

    Attributes:
        server: the server.
        creators: clients that create pods.
        share: of the pods a second that the server could do at most, at least so much.
        wait: seconds that 99 of 100 decisions wait at most until they are written.
        status_age: seconds that the status of a queue is old at most.
        in_flight: requests of ours that are in flight at most; 10 is what is handed over for 8.
    """

    server: Server
    creators: int = 4
    share: float
    wait: float
    status_age: float = 2.5
    in_flight: int = 13


TABLE = {
    "fast": Row(server=Server(seconds=0.002), share=0.9, wait=0.03),
    "slow": Row(server=Server(cpus=1, seconds=0.02), share=0.8, wait=0.5, status_age=3.0),
    "distant": Row(
        server=Server(cpus=16, seconds=0.002, network=0.1),
        creators=40, share=0.03, wait=0.25, in_flight=32,
    ),
    "erratic": Row(server=Server(factor=_erratically), share=0.5, wait=0.2),
    "with pauses": Row(server=Server(factor=_with_pauses), share=0.6, wait=0.3),
    "slower later": Row(server=Server(factor=_slower_later), share=0.3, wait=0.5, status_age=3.0),
    "shared": Row(server=Server(others=16), share=0.4, wait=0.15, in_flight=16),
    "away": Row(server=Server(away=(2.0, 12.0)), share=0.25, wait=0.1, status_age=14.0),
}  # fmt: skip


@functools.cache
def run(name: str, most: int = 32) -> Simulation:
    """Let a server of the table be used by a controller with that many writers at most."""
    row = TABLE[name]
    simulation = Simulation(row.server, quota=100, queues=4, most=most)
    simulation.create(_PODS, creators=row.creators, queues=4)
    simulation.run()
    return simulation


@pytest.mark.parametrize("name", TABLE)
def test_throughput_and_staleness_follow_from_the_server(name: str) -> None:
    row = TABLE[name]
    found = run(name).measured
    capacity = row.server.cpus / (row.server.seconds * _REQUESTS_OF_A_POD)
    assert found.released == _PODS
    assert found.stopped == 0
    assert found.pods_a_second >= row.share * capacity
    assert found.decision_wait(99) <= row.wait
    assert max(found.status_ages, default=0.0) <= row.status_age
    assert max(found.in_flight.values()) <= row.in_flight


def test_the_limit_grows_where_that_is_faster() -> None:
    eight, adaptive = run("distant", 8).measured, run("distant").measured
    assert adaptive.pods_a_second > 2 * eight.pods_a_second


def test_the_limit_does_not_grow_where_requests_only_wait_longer() -> None:
    for name in ("fast", "slow"):
        eight, adaptive = run(name, 8).measured, run(name).measured
        assert adaptive.pods_a_second == pytest.approx(eight.pods_a_second, rel=0.02)
        assert adaptive.decision_wait(99) <= 1.1 * eight.decision_wait(99)


def test_other_clients_keep_the_share_that_they_have_beside_eight_requests() -> None:
    eight, adaptive = run("shared", 8).measured, run("shared").measured
    theirs = [one.by_others / one.seconds for one in (eight, adaptive)]
    assert theirs[1] >= 0.85 * theirs[0]


def test_while_the_server_is_away_hardly_anything_is_sent_and_all_is_done_soon_after() -> None:
    found = run("away").measured
    assert max(found.in_flight.get(second, 0) for second in range(8, 12)) <= 4
    assert found.seconds <= 12.0 + 5.0 + 10.0


def test_the_same_seed_gives_the_same_run() -> None:
    assert run.__wrapped__("fast").measured == run("fast").measured


_LATE_PODS = 40
_IN_FLIGHT = 8
_EACH = 3
"""Requests that a pod needs one after the other until it is released."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """A server whose answers come late, or never, and what is asked of a run.

    Attributes:
        server: the server.
        seconds: that one request takes there, with what others have asked for before it.
        share: of the pods a second that eight requests in flight would allow.
    """

    server: Server
    seconds: float
    share: float


LATE = {
    "2 s": Late(server=Server(cpus=64, seconds=0.01, network=2.0), seconds=2.0, share=0.7),
    "8 s": Late(server=Server(cpus=64, seconds=0.01, network=8.0), seconds=8.0, share=0.7),
    "20 s": Late(server=Server(cpus=64, seconds=0.01, network=20.0), seconds=20.0, share=0.7),
    "a tenth of the answers lost": Late(server=Server(lost=0.1), seconds=0.1, share=0.1),
    "beside 1,000 requests a second": Late(
        server=Server(cpus=4, seconds=0.004, others=2_000), seconds=2.0, share=0.7
    ),
}


@functools.cache
def run_late(name: str) -> Simulation:
    """Let a few pods run on a server whose answers come late, or not at all."""
    simulation = Simulation(LATE[name].server, quota=100, queues=4)
    simulation.create(_LATE_PODS, creators=10, queues=4)
    simulation.run(limit_seconds=3_600)
    return simulation


@pytest.mark.parametrize("name", LATE)
def test_a_server_whose_answers_come_late_or_never_is_used_as_far_as_it_goes(name: str) -> None:
    measured, row = run_late(name).measured, LATE[name]
    assert (measured.released, measured.stopped) == (_LATE_PODS, 0)
    possible = _IN_FLIGHT / (_EACH * row.seconds)
    assert measured.pods_a_second >= row.share * possible


@pytest.mark.parametrize("name", LATE)
def test_what_a_watch_has_told_of_is_not_asked_for_again(name: str) -> None:
    """One request in five more than needed is what is sent before a watch can tell."""
    measured = run_late(name).measured
    needed = (WritePurpose.CREATE_WORKLOAD, WritePurpose.RESERVE_QUOTA, WritePurpose.START_OWNER)
    assert sum(measured.writes[one] for one in needed) <= 1.2 * _EACH * _LATE_PODS


@pytest.mark.parametrize("name", LATE)
def test_no_queue_is_served_before_the_others_by_more_than_what_is_in_flight(name: str) -> None:
    served = [0] * 4
    for pod in run_late(name).measured.order:
        served[int(pod.rpartition("-")[2]) % 4] += 1
        assert max(served) - min(served) <= 10


def test_other_clients_keep_their_share_of_a_server_that_they_keep_busy() -> None:
    measured = run_late("beside 1,000 requests a second").measured
    assert measured.by_others / measured.seconds >= 0.97 * 1_000
