"""Fewer decisions are open while the API server answers slowly and quota is taken back."""

import pytest
from prometheus_client import REGISTRY

from admission.config.gpu import Controller
from admission.controllers.writing import writes
from admission.controllers.writing.lanes import Lanes
from admission.controllers.writing.pace import Pace
from admission.controllers.writing.writes import Outcome, Purpose, Result, Verb, Write
from admission.kube.resources import WORKLOADS
from tests.clocks import FakeClock
from tests.controllers.test_turns import (
    alike,
    reserved,
    send_what_tells,
    texts,
    turn,
    undecided_world,
)
from tests.controllers.world import ready_world

_WRITERS = 8


class _Nowhere:
    def submit(self, write: Write) -> None:
        """Keeps nothing."""


def numbered(number: int, purpose: Purpose) -> Write:
    lane = writes.QueueLane("ClusterQueue", "", f"q{number}")
    return Write(lane=lane, purpose=purpose, verb=Verb.PATCH, resource=WORKLOADS, name=lane.name)


RESERVATION = numbered(0, Purpose.RESERVE_QUOTA)
EVICTION = numbered(0, Purpose.EVICT)


def done(seconds: float) -> Outcome:
    return Outcome(write=RESERVATION, result=Result.DONE, seconds=seconds)


def paced(clock: FakeClock | None = None, writers: int = _WRITERS) -> Pace:
    clock = clock or FakeClock()
    return Pace(writers, Lanes(_Nowhere(), clock), clock)


def disturbed(clock: FakeClock | None = None, writers: int = _WRITERS) -> Pace:
    """One that has just seen quota being taken back."""
    pace = paced(clock, writers)
    pace.observe(Outcome(write=EVICTION, result=Result.DONE))
    return pace


def observe(pace: Pace, seconds: float, times: int = 200) -> None:
    for _ in range(times):
        pace.observe(done(seconds))


def test_before_any_answer_as_many_decisions_are_open_as_there_are_writers() -> None:
    assert disturbed().most_decisions == _WRITERS


def test_long_answers_bound_nothing_while_no_quota_is_taken_back() -> None:
    pace = paced()
    pace.observe(done(0.010))
    observe(pace, 0.100)
    assert pace.most_decisions == _WRITERS


@pytest.mark.parametrize("result", [r for r in Result if r is not Result.DONE])
def test_an_eviction_that_was_not_written_takes_nothing_back(result: Result) -> None:
    pace = paced()
    pace.observe(done(0.010))
    observe(pace, 0.100)
    pace.observe(Outcome(write=EVICTION, result=result))
    assert pace.most_decisions == _WRITERS


def test_ten_seconds_after_quota_was_last_taken_back_long_answers_bound_nothing() -> None:
    clock = FakeClock()
    pace = disturbed(clock)
    pace.observe(done(0.010))
    observe(pace, 0.100)
    clock.advance(5)
    pace.observe(Outcome(write=EVICTION, result=Result.DONE))
    clock.advance(9.9)
    assert pace.most_decisions == 2
    clock.advance(0.1)
    assert pace.most_decisions == _WRITERS


def test_the_limit_that_metrics_show_is_that_of_the_moment() -> None:
    clock = FakeClock()
    pace = disturbed(clock)
    pace.observe(done(0.010))
    observe(pace, 0.100)
    assert REGISTRY.get_sample_value("gpu_admission_decisions_open_limit") == 2
    clock.advance(10)
    assert REGISTRY.get_sample_value("gpu_admission_decisions_open_limit") == _WRITERS


@pytest.mark.parametrize(
    ("milliseconds", "most"), [(10, 8), (20, 8), (30, 5), (40, 4), (80, 2), (10_000, 2)]
)
def test_the_longer_answers_take_the_fewer_decisions_are_open(
    milliseconds: int, most: int
) -> None:
    pace = disturbed()
    pace.observe(done(0.010))
    observe(pace, milliseconds / 1000)
    assert pace.most_decisions == most


@pytest.mark.parametrize("writers", [1, 2, 256])
def test_at_least_two_of_eight_writers_are_left_however_slow_answers_are(writers: int) -> None:
    pace = disturbed(writers=writers)
    pace.observe(done(0.001))
    observe(pace, 60.0)
    assert pace.most_decisions == -(-writers * 25 // 100) >= 1


def test_one_slow_answer_changes_nothing() -> None:
    pace = disturbed()
    observe(pace, 0.010)
    pace.observe(done(0.100))
    assert pace.most_decisions == _WRITERS


def test_answers_that_are_quick_again_give_all_writers_back() -> None:
    pace = disturbed()
    pace.observe(done(0.010))
    observe(pace, 0.100)
    assert pace.most_decisions < _WRITERS
    observe(pace, 0.010)
    assert pace.most_decisions == _WRITERS


def test_an_api_server_that_stays_slow_for_ten_minutes_is_taken_as_it_is() -> None:
    clock = FakeClock()
    pace = disturbed(clock)
    pace.observe(done(0.010))
    for minute in range(11):
        pace.observe(Outcome(write=EVICTION, result=Result.DONE))
        observe(pace, 0.100)
        assert (pace.most_decisions == _WRITERS) == (minute == 10), minute
        clock.advance(60)


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(write=EVICTION, result=Result.DONE, seconds=1.0),
        Outcome(write=RESERVATION, result=Result.CONFLICT, seconds=1.0),
        Outcome(write=RESERVATION, result=Result.REFUSED, seconds=1.0),
    ],
    ids=["of another kind", "conflict", "refused"],
)
def test_only_reservations_that_were_written_are_measured(outcome: Outcome) -> None:
    pace = disturbed()
    pace.observe(done(0.010))
    for _ in range(200):
        pace.observe(outcome)
    assert pace.most_decisions == _WRITERS


def test_a_busy_api_server_is_handed_fewer_decisions_and_as_much_of_all_else() -> None:
    world = undecided_world()
    pace = world.core._pace
    pace.observe(Outcome(write=EVICTION, result=Result.DONE))
    pace.observe(done(0.010))
    observe(pace, 0.100)
    turn(world)
    assert reserved(world) == 2
    assert not pace.may_decide()
    assert pace.may_send()


def test_texts_are_further_between_while_the_api_server_answers_slowly() -> None:
    world = ready_world(quota=_WRITERS)
    world.add(*alike())
    world.observe()
    pace = world.core._pace
    pace.observe(done(0.010))
    observe(pace, 0.100)
    turn(world)
    world.clock.advance(Controller().waiting_after.total_seconds())
    turn(world)
    assert len(texts(world)) == 1
    send_what_tells(world)

    sent = []
    for _ in range(9):
        turn(world)
        sent.append(len(texts(world)))
        send_what_tells(world)
        world.clock.advance(0.1)
    assert sent == [*[0] * 8, 1]


def test_evictions_that_no_cycle_decided_leave_decisions_their_turn() -> None:
    clock = FakeClock()
    lanes = Lanes(_Nowhere(), clock)
    pace = Pace(_WRITERS, lanes, clock)
    evictions = [numbered(number, Purpose.EVICT) for number in range(10)]
    for one in evictions:
        assert pace.may_decide()
        lanes.submit(one)
    assert not pace.may_decide()
    lanes.settle(Outcome(write=evictions[0], result=Result.DONE))
    assert pace.may_decide()


@pytest.mark.parametrize(("writers", "most"), [(1, 1), (2, 1), (8, 3), (256, 102)])
def test_what_only_tells_has_three_of_eight_writers_and_one_at_least(
    writers: int, most: int
) -> None:
    clock = FakeClock()
    lanes = Lanes(_Nowhere(), clock)
    pace = Pace(writers, lanes, clock)
    taken = 0
    while pace.may_tell():
        lanes.submit(numbered(taken, Purpose.QUEUE_STATUS))
        taken += 1
    assert taken == most
