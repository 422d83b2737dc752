"""What may be sent now: the limits of flow control, and what follows from answers."""

import pytest
from prometheus_client import REGISTRY

from admission.base.names import WorkloadKey
from admission.config.gpu_configuration import ControllerSettings
from admission.controller.writing.api_requests import (
    ApiRequest,
    QueueKey,
    RequestResult,
    Result,
    Verb,
    WritePurpose,
)
from admission.controller.writing.flow_control import FlowControl
from admission.kube.resources import PODS, RELEASED_PODS, WORKLOADS, Resource
from admission.objects import views
from admission.scheduling.decisions import CycleResult
from tests.clocks import FakeClock
from tests.controller.test_turns import alike, reserved, send_what_tells, texts, turn
from tests.controller.world import World, ready_world

_ALWAYS = 8
_QUICK, _SLOW = 0.010, 0.100


class _Nowhere:
    def submit(self, write: ApiRequest) -> None:
        """Keeps nothing."""


def request(number: int, operation: WritePurpose = WritePurpose.KEEP_UP) -> ApiRequest:
    lane = QueueKey("ClusterQueue", "", f"q{number}")
    return ApiRequest(
        key=lane, operation=operation, verb=Verb.PATCH, resource=WORKLOADS, name=lane.name
    )


def make_flow(clock: FakeClock | None = None, most: int = 32) -> FlowControl:
    return FlowControl(_Nowhere(), clock or FakeClock(), maximum=most)


def answer(
    flow: FlowControl, write: ApiRequest, seconds: float, result: Result = Result.DONE
) -> None:
    flow.complete(RequestResult(request=write, result=result, seconds=seconds))


def exchange(flow: FlowControl, seconds: float, *, at_once: int, times: int = 20) -> None:
    """Send so many requests at once, wait for the answers, and again."""
    for _ in range(times):
        sent = [request(number) for number in range(at_once)]
        for one in sent:
            flow.submit(one)
        for one in sent:
            answer(flow, one, seconds)


def evict(flow: FlowControl, result: Result = Result.DONE) -> None:
    eviction = request(99, WritePurpose.EVICT)
    flow.submit(eviction)
    answer(flow, eviction, 0.01, result)


def congested(clock: FakeClock | None = None) -> FlowControl:
    """One whose requests wait for one another in the API server."""
    flow = make_flow(clock)
    exchange(flow, _QUICK, at_once=1)
    exchange(flow, _SLOW, at_once=_ALWAYS)
    return flow


def in_flight(flow: FlowControl) -> int:
    """How many requests may be handed over."""
    number = 0
    while flow.may_send():
        flow.submit(request(number))
        number += 1
    return number


def test_a_change_that_is_accepted_and_changes_nothing_is_repeated_ever_more_rarely() -> None:
    """As where the schema of a kind drops the field that is written."""
    clock = FakeClock()
    flow, sent, one = make_flow(clock), 0, request(1)
    for _ in range(300):
        flow.due()
        if not flow.is_busy(one.key):
            metadata = views.ObjectMeta(name="q1", resource_version="7")
            flow.submit(one)
            sent += 1
            flow.complete(
                RequestResult(
                    request=one, result=Result.DONE, object=views.Object(metadata=metadata)
                )
            )
        clock.advance(1)
    assert sent <= 10


@pytest.mark.parametrize(
    ("operation", "is_repeated"),
    [(WritePurpose.KEEP_UP, False), (WritePurpose.EXPLAIN_WORKLOAD, True)],
)
def test_a_change_repeats_none_before_a_pause_unless_it_is_a_report(
    operation: WritePurpose, is_repeated: bool
) -> None:
    """Reports come again and again beside what else is written."""
    flow, change = make_flow(), request(1, operation)
    answered = views.Object(metadata=views.ObjectMeta(name="q1", resource_version="7"))
    for _ in range(2):
        flow.submit(change)
        flow.complete(RequestResult(request=change, result=Result.DONE, object=answered))
        flow.pause(change.key)
    assert flow.is_busy(change.key) == is_repeated


def test_changes_that_change_something_follow_each_other() -> None:
    flow, one = make_flow(), request(1)
    for number in range(20):
        metadata = views.ObjectMeta(name="q1", resource_version=str(number))
        assert not flow.is_busy(one.key)
        flow.submit(one)
        flow.complete(
            RequestResult(request=one, result=Result.DONE, object=views.Object(metadata=metadata))
        )


def test_before_any_answer_eight_requests_are_in_flight_and_two_more_wait_for_them() -> None:
    assert make_flow().most_decisions == _ALWAYS
    assert in_flight(make_flow()) == 10


def test_one_request_without_an_answer_changes_nothing() -> None:
    flow = make_flow()
    for number in range(40):
        lost, answered = request(number), request(number + 100)
        flow.submit(lost)
        answer(flow, lost, 0.0, Result.UNKNOWN)
        flow.submit(answered)
        answer(flow, answered, _QUICK)
    assert flow.most_decisions == _ALWAYS


@pytest.mark.parametrize(("most", "decisions"), [(1, 1), (2, 2), (8, 8), (256, 8)])
def test_no_more_are_in_flight_than_are_configured(most: int, decisions: int) -> None:
    assert make_flow(most=most).most_decisions == decisions


def test_a_distant_api_server_is_sent_more_at_once_as_long_as_answers_come_as_soon() -> None:
    flow = make_flow()
    exchange(flow, _SLOW, at_once=1)
    for _ in range(60):
        exchange(flow, _SLOW, at_once=flow.most_decisions, times=2)
    assert flow.most_decisions == 32


def test_requests_that_wait_for_one_another_are_not_made_more() -> None:
    flow = make_flow()
    exchange(flow, _QUICK, at_once=1)
    for _ in range(60):
        exchange(flow, 1.5 * _QUICK, at_once=flow.most_decisions, times=2)
    assert flow.most_decisions == _ALWAYS


def test_where_no_request_is_ever_alone_a_batch_is_sent_two_at_a_time() -> None:
    flow = make_flow()
    exchange(flow, _SLOW, at_once=_ALWAYS, times=2)
    assert in_flight(flow) == 2


def test_long_answers_bound_no_decisions_while_no_quota_is_taken_back() -> None:
    assert congested().most_decisions == _ALWAYS


def test_while_quota_is_taken_back_long_answers_bound_decisions_for_ten_seconds() -> None:
    clock = FakeClock()
    flow = congested(clock)
    evict(flow)
    assert flow.most_decisions == 2
    assert REGISTRY.get_sample_value("gpu_admission_decisions_open_limit") == 2
    clock.advance(9.9)
    assert flow.most_decisions == 2
    clock.advance(0.1)
    assert flow.most_decisions == _ALWAYS


@pytest.mark.parametrize("result", [r for r in Result if r not in {Result.DONE, Result.UNKNOWN}])
def test_an_eviction_that_was_not_written_takes_nothing_back(result: Result) -> None:
    flow = congested()
    evict(flow, result)
    assert flow.most_decisions == _ALWAYS


def test_one_slow_answer_changes_nothing() -> None:
    flow = make_flow()
    exchange(flow, _QUICK, at_once=1)
    exchange(flow, 5 * _QUICK, at_once=1, times=1)
    exchange(flow, _QUICK, at_once=1)
    evict(flow)
    assert flow.most_decisions == _ALWAYS


def test_answers_that_are_quick_again_give_all_decisions_back() -> None:
    flow = congested()
    exchange(flow, _QUICK, at_once=_ALWAYS, times=40)
    evict(flow)
    assert flow.most_decisions >= _ALWAYS


def test_an_api_server_that_stays_slow_is_taken_as_it_is_after_five_minutes() -> None:
    clock = FakeClock()
    flow = congested(clock)
    clock.advance(300)
    exchange(flow, _SLOW, at_once=_ALWAYS, times=2)
    exchange(flow, _SLOW, at_once=2)
    exchange(flow, _SLOW, at_once=_ALWAYS, times=40)
    evict(flow)
    assert flow.most_decisions >= _ALWAYS


def test_requests_without_an_answer_halve_what_is_in_flight_down_to_two() -> None:
    flow = make_flow()
    limits = []
    for number in range(200, 260):
        write = request(number)
        flow.submit(write)
        answer(flow, write, 0.0, Result.UNKNOWN)
        limits.append(flow.most_decisions)
    assert limits[:8] == [8, 8, 8, 4, 4, 2, 2, 2]
    assert limits[-1] == 2
    exchange(flow, _QUICK, at_once=2, times=80)
    assert flow.most_decisions >= _ALWAYS


def test_what_is_to_be_sent_again_waits_until_it_may_be_in_flight() -> None:
    clock = FakeClock()
    flow = make_flow(clock)
    sent = [request(number) for number in range(_ALWAYS)]
    for one in sent:
        flow.submit(one)
    for one in sent:
        answer(flow, one, 0.0, Result.UNKNOWN)
    clock.advance(1.0)
    flow.due()
    assert flow.sending == flow.most_decisions == 2
    assert flow.in_flight == _ALWAYS
    answer(flow, sent[0], 0.01)
    flow.due()
    assert flow.sending == flow.most_decisions == 3


def test_evictions_that_no_cycle_decided_leave_decisions_their_turn() -> None:
    flow = make_flow()
    evictions = [request(number, WritePurpose.EVICT) for number in range(10)]
    for one in evictions:
        assert flow.may_decide()
        flow.submit(one)
    assert not flow.may_decide()
    answer(flow, evictions[0], 0.01)
    assert flow.may_decide()


@pytest.mark.parametrize(("most", "reports"), [(1, 1), (2, 1), (8, 3), (256, 3)])
def test_what_only_reports_has_three_of_eight_and_one_at_least(most: int, reports: int) -> None:
    flow = make_flow(most=most)
    flow.submit(request(0, WritePurpose.START_OWNER))
    assert reports_sent(flow) == reports


@pytest.mark.parametrize(("most", "reports"), [(1, 1), (2, 1), (8, 6), (256, 6)])
def test_it_has_six_of_eight_while_nothing_else_is_sent(most: int, reports: int) -> None:
    assert reports_sent(make_flow(most=most)) == reports


def reports_sent(flow: FlowControl) -> int:
    taken = 0
    while flow.may_report():
        flow.submit(request(taken + 1, WritePurpose.QUEUE_STATUS))
        taken += 1
    return taken


def test_conditions_are_at_most_168_a_second_while_nothing_else_is_sent() -> None:
    clock = FakeClock()
    flow = make_flow(clock, most=8)
    sent = 0
    for _ in range(10_000):
        clock.advance(0.001)
        while flow.may_report_condition():
            one = request(sent, WritePurpose.EXPLAIN_POD)
            flow.report_condition(one)
            answer(flow, one, 0.01)
            sent += 1
    assert 1680 <= sent <= 1680 + 17


def slow_world(quota: int) -> World:
    """Many Workloads before the first cycle, while requests wait in the API server."""
    world = ready_world(quota=quota)
    world.add(*alike())
    world.observe()
    flow = world.parts.basis.flow
    exchange(flow, _QUICK, at_once=1)
    exchange(flow, _SLOW, at_once=_ALWAYS)
    world._queue.clear()
    return world


def test_a_busy_api_server_is_handed_fewer_decisions_and_as_much_of_all_else() -> None:
    world = slow_world(quota=30)
    evict(world.parts.basis.flow)
    world._queue.clear()
    turn(world)
    assert reserved(world) == 2
    assert not world.parts.basis.flow.may_decide()
    assert world.parts.basis.flow.may_send()


def test_conditions_are_further_between_while_the_api_server_answers_slowly() -> None:
    world = slow_world(quota=_ALWAYS)
    turn(world)
    world.clock.advance(ControllerSettings().waiting_after.total_seconds())
    turn(world)
    assert len(texts(world)) == 1
    send_what_tells(world)

    sent = []
    for _ in range(40):
        turn(world)
        sent.append(len(texts(world)))
        send_what_tells(world)
        world.clock.advance(0.1)
    assert max(sent) == 1
    assert 2 <= sum(sent) <= 4  # 20 where answers are quick


def change(version: int, name: str = "pod-1") -> ApiRequest:
    """A change of a pod that is bound to a version."""
    return ApiRequest(
        key=WorkloadKey("ml", "w"), operation=WritePurpose.START_OWNER, verb=Verb.REPLACE,
        resource=PODS, namespace="ml", name=name,
        document={"metadata": {"name": name, "resourceVersion": str(version)}},
    )  # fmt: skip


def seen(version: int, name: str = "pod-1") -> views.Object:
    return views.Object(
        metadata=views.ObjectMeta(namespace="ml", name=name, resource_version=str(version))
    )


@pytest.mark.parametrize("resource", [PODS, RELEASED_PODS])
def test_every_watch_of_a_kind_tells_of_a_request_without_an_answer(resource: Resource) -> None:
    flow, one = make_flow(), change(7)
    flow.submit(one)
    answer(flow, one, 0.0, Result.UNKNOWN)
    assert flow.show(resource, seen(7), is_gone=False) is None
    told = flow.show(resource, seen(8), is_gone=False)
    assert told is not None
    assert (told.result, told.object) == (Result.CONFLICT, seen(8))


def test_what_a_watch_tells_counts_in_the_place_of_an_answer_that_is_late() -> None:
    clock = FakeClock()
    flow, one = make_flow(clock), change(7)
    flow.submit(one)
    flow.show(PODS, seen(8), is_gone=False)
    flow.due()
    assert flow.take_told() == []  # the answer may be on its way
    assert flow.next_due_in() == 1.0
    clock.advance(1.0)
    flow.due()
    (told,) = flow.take_told()
    assert (told.request, told.object) == (one, seen(8))
    assert (flow.sending, flow.in_flight) == (0, 0)
    flow.submit(change(8))
    assert flow.complete(RequestResult(request=one, result=Result.UNKNOWN)) is None
    assert (flow.sending, flow.in_flight) == (1, 1)


def test_an_answer_that_comes_in_time_counts_and_not_what_a_watch_has_told() -> None:
    clock = FakeClock()
    flow, one = make_flow(clock), change(7)
    flow.submit(one)
    flow.show(PODS, seen(8), is_gone=False)
    clock.advance(0.5)
    done = RequestResult(request=one, result=Result.DONE, object=seen(8))
    assert flow.complete(done) is done
    clock.advance(10)
    flow.due()
    assert flow.take_told() == []


def test_a_server_that_takes_eight_seconds_has_sixteen_before_it_is_asked_again() -> None:
    clock = FakeClock()
    flow = make_flow(clock)
    exchange(flow, 8.0, at_once=_ALWAYS)
    one = change(7)
    flow.submit(one)
    clock.advance(5.0)
    answer(flow, one, 0.0, Result.UNKNOWN)
    assert flow.next_due_in() == pytest.approx(11.0)
    assert flow.unknown == 1


def test_what_waits_for_a_watch_counts_as_in_flight() -> None:
    flow = make_flow()
    flow.submit(change(7))
    answer(flow, change(7), 0.0, Result.UNKNOWN)
    assert in_flight(flow) == 10 - 1


# ---------------------------------------------------------------------------------- standstills

_HOUR = 3600.0
"""For which a process is stopped, or its machine."""
_SECONDS = 5.0
"""After which it goes on as before."""


def test_a_standstill_in_a_cycle_holds_the_next_cycle_back_for_seconds() -> None:
    clock = FakeClock()
    flow = make_flow(clock)
    began = clock.monotonic()
    clock.advance(_HOUR)
    flow.end_cycle(began, decided=True)
    assert flow.cycle_at(0) - clock.monotonic() <= _SECONDS


def test_a_standstill_while_requests_are_in_flight_holds_conditions_back_for_seconds() -> None:
    clock = FakeClock()
    flow = make_flow(clock)
    exchange(flow, _QUICK, at_once=1)
    exchange(flow, _HOUR, at_once=_ALWAYS, times=1)
    exchange(flow, _QUICK, at_once=_ALWAYS, times=1)
    flow.submit(request(0))
    flow.report_condition(request(1, WritePurpose.EXPLAIN_POD))
    assert flow.condition_at - clock.monotonic() <= _SECONDS


def test_after_a_standstill_what_a_watch_tells_is_believed_within_two_minutes() -> None:
    clock = FakeClock()
    flow = make_flow(clock)
    exchange(flow, _HOUR, at_once=1, times=1)
    flow.submit(change(7))
    flow.show(PODS, seen(8), is_gone=False)
    clock.advance(2 * 60)
    flow.due()
    assert [outcome.result for outcome in flow.take_told()] == [Result.CONFLICT]


def test_a_process_that_stood_still_in_a_cycle_decides_again_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ready_world(quota=2)
    decide = world.state.run_cycle
    standstills = [_HOUR]

    def stand_still(now_us: int) -> CycleResult:
        result = decide(now_us)
        if standstills:
            world.clock.advance(standstills.pop())
        return result

    monkeypatch.setattr(world.state, "run_cycle", stand_still)
    world.add_pod("first", gpus=1)
    world.settle()
    assert not standstills
    world.add_pod("second", gpus=1)
    world.pass_time(_SECONDS + 1)
    assert world.admitted() == {"first", "second"}
