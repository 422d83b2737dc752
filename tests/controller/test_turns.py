"""Whose write goes out next when there are more than the writers can send."""

import itertools
from unittest import mock

import pytest

from admission.base import patches
from admission.base.names import GPU_PRODUCT_LABEL, GPU_RESOURCE, WorkloadKey
from admission.config.gpu_configuration import ControllerSettings
from admission.controller import core
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import (
    ApiRequest,
    QueueKey,
    RequestResult,
    Result,
    Verb,
    WritePurpose,
)
from admission.controller.writing.flow_control import FlowControl
from admission.kube.api import Document
from admission.kube.reflector import Deleted, Upserted
from admission.kube.resources import CLUSTER_QUEUES, NODES, PODS, WORKLOADS
from admission.objects import views
from admission.scheduling.state import SchedulerState
from tests.builders.cluster import make_node
from tests.builders.workloads import make_workload
from tests.clocks import FakeClock
from tests.controller.world import WATCHED, World, ready_world

_HANDED_OVER = 10
"""For eight writers."""
_READY = {"type": "Ready", "status": "True"}
_PODS = 3 * _HANDED_OVER


def crowded_world() -> World:
    """Many pods of which each fits, seen and not yet acted on."""
    world = ready_world(quota=_PODS)
    for number in range(_PODS):
        world.add_pod(f"pod-{number:03}", gpus=1)
    world.observe()
    world.core.step()
    return world


def test_no_more_is_handed_over_than_the_writers_can_soon_send() -> None:
    world = crowded_world()
    assert len(world._queue) == _HANDED_OVER
    world.settle()
    assert len(world.admitted()) == _PODS


def test_who_has_quota_is_released_before_new_ones_are_begun() -> None:
    world = crowded_world()
    world.settle()
    order = [(write.operation, write.key) for write in world.sent]
    for reserved in [lane for operation, lane in order if operation is WritePurpose.RESERVE_QUOTA]:
        first = order.index((WritePurpose.RESERVE_QUOTA, reserved))
        last = order.index((WritePurpose.START_OWNER, reserved))
        begun = [p for p, _ in order[first:last] if p is WritePurpose.CREATE_WORKLOAD]
        assert len(begun) <= _HANDED_OVER


def test_the_end_of_a_pod_that_is_gone_before_its_turn_is_not_written_down() -> None:
    world = ready_world(quota=_PODS)
    world.add_pod("ended", gpus=1)
    world.settle()
    for number in range(_PODS):
        world.add_pod(f"pod-{number:03}", gpus=1)
    world.observe()
    world.core.step()
    world.sent.clear()
    world.set_phase("ended", "Succeeded")
    world.observe()
    world.core.step()
    world.delete_pod("ended")
    world.settle()

    assert WritePurpose.FINISH_WORKLOAD not in {write.operation for write in world.sent}
    assert len(world.admitted()) == _PODS


class _Unsent:
    """A writer that keeps what it gets."""

    def __init__(self) -> None:
        self.api_requests: list[ApiRequest] = []

    def submit(self, write: ApiRequest) -> None:
        self.api_requests.append(write)


def test_a_write_that_waits_to_be_sent_again_does_not_count_as_handed_over() -> None:
    clock, writer = FakeClock(), _Unsent()
    flow = FlowControl(writer, clock, maximum=8)
    write = api_requests.find_workload(WorkloadKey("ml", "train"))
    flow.submit(write)
    assert flow.sending == 1

    flow.complete(RequestResult(request=write, result=Result.UNKNOWN))
    assert (flow.sending, flow.in_flight) == (0, 1)

    clock.advance(2)
    flow.due()
    assert (flow.sending, len(writer.api_requests)) == (1, 2)

    flow.complete(RequestResult(request=write, result=Result.DONE))
    assert (flow.sending, flow.in_flight) == (0, 0)


_WRITERS = 8
"""Requests that may be in flight while nothing is known of the API server."""


def alike() -> list[Document]:
    """Many Workloads of one GPU each."""
    return [make_workload(f"train-{number:03}") for number in range(_PODS)]


def undecided_world() -> World:
    """Many Workloads of which each fits, before the first cycle."""
    world = ready_world(quota=_PODS)
    world.add(*alike())
    world.observe()
    return world


def reservations(world: World) -> list[ApiRequest]:
    """Writes of reservations that were handed over and not sent."""
    return [write for write in world._queue if write.operation is WritePurpose.RESERVE_QUOTA]


def reserved(world: World) -> int:
    return len(reservations(world))


def turn(world: World, times: int = 100) -> None:
    for _ in range(times):
        world.core.step()


def test_messages_gather_while_as_many_decisions_are_open_as_there_are_writers() -> None:
    world = undecided_world()
    assert world.core.gathering_seconds == 0
    turn(world)
    assert world.core.gathering_seconds == 0.01
    world.settle()
    assert world.core.gathering_seconds == 0


def test_no_cycle_runs_while_as_many_decisions_are_open_as_there_are_writers() -> None:
    world = undecided_world()
    turn(world)
    assert reserved(world) == _WRITERS

    world.send_one()
    turn(world)
    assert reserved(world) == _WRITERS


def test_decisions_that_are_never_written_hold_the_next_cycle_for_a_second_only() -> None:
    world = undecided_world()
    turn(world)
    assert 0 < (world.core.step() or 0) <= 1
    decided = len(world.parts.quota.scheduling._admits)
    world.clock.advance(1)
    turn(world)
    assert len(world.parts.quota.scheduling._admits) == decided + 1


def test_a_decision_whose_write_got_no_answer_gives_its_place_to_another() -> None:
    world = undecided_world()
    turn(world)
    world.clock.advance(1)
    turn(world)
    world.core.receive(RequestResult(request=world._queue[0], result=Result.UNKNOWN))
    turn(world)
    assert len({write.name for write in reservations(world)}) == _WRITERS + 1


def test_while_writers_are_busy_texts_are_sent_one_by_one_and_far_between() -> None:
    world = ready_world(quota=_WRITERS)
    world.add(*alike())
    world.observe()
    turn(world)
    assert reserved(world) == _WRITERS
    world.clock.advance(ControllerSettings().waiting_after.total_seconds())
    turn(world)

    assert len(texts(world)) == 1
    send_what_tells(world)
    turn(world)
    assert texts(world) == []
    send_what_tells(world)
    world.clock.advance(0.2)
    turn(world)
    assert len(texts(world)) == 1


def test_texts_are_sent_without_pause_once_nothing_else_was_written_for_a_second() -> None:
    world = ready_world(quota=_WRITERS + 1)
    world.add(*alike())
    world.observe()
    turn(world)
    world.clock.advance(0.5)
    send_everything(world)
    turn(world)
    assert reserved(world) == 1
    send_everything(world)

    world.clock.advance(ControllerSettings().waiting_after.total_seconds() - 0.1)
    turn(world)
    told = [write.operation for write in world._queue]
    assert told == [
        WritePurpose.QUEUE_STATUS,
        WritePurpose.QUEUE_STATUS,
        WritePurpose.EXPLAIN_WORKLOAD,
    ]
    send_what_tells(world)
    turn(world)
    assert texts(world) == []
    wait = world.core.step()
    assert wait is not None  # no message has to come for the next one
    assert wait <= 0.2

    world.clock.advance(0.2)
    turn(world)
    assert len(texts(world)) > 1


def send_everything(world: World) -> None:
    for write in list(world._queue):
        world.send(write)


def send_what_tells(world: World) -> None:
    for write in list(world._queue):
        if write.operation in api_requests.REPORTS:
            world.send(write)


def texts(world: World) -> list[ApiRequest]:
    """Texts that were handed over and not sent."""
    return [write for write in world._queue if write.operation is WritePurpose.EXPLAIN_WORKLOAD]


def statuses_waiting(world: World) -> int:
    """Writes of queue statuses that were handed over and not sent."""
    return sum(write.operation is WritePurpose.QUEUE_STATUS for write in world._queue)


def test_queue_statuses_wait_at_most_two_seconds_for_decisions() -> None:
    world = undecided_world()
    turn(world)
    assert statuses_waiting(world) == 0
    world.clock.advance(1.95)
    turn(world)
    assert statuses_waiting(world) == 0
    wait = world.core.step()
    assert wait is not None  # no message has to come for them
    assert wait <= 0.06
    world.clock.advance(0.06)
    turn(world)
    assert statuses_waiting(world) > 0


def test_queue_statuses_wait_for_a_second_with_room_after_there_was_none() -> None:
    world = ready_world(quota=_WRITERS)
    world.add(*alike()[:_WRITERS])
    world.observe()
    turn(world)
    assert reserved(world) == _WRITERS
    world.clock.advance(0.5)
    send_everything(world)
    turn(world)
    assert statuses_waiting(world) == 0
    wait = world.core.step()
    assert wait is not None
    assert wait <= 0.5
    world.clock.advance(0.5)
    turn(world)
    assert statuses_waiting(world) > 0


def test_a_queue_status_is_written_at_once_while_fewer_decisions_are_open() -> None:
    world = ready_world(quota=_PODS)
    world.clock.advance(1)
    world.add(*alike()[: _WRITERS - 1])
    world.observe()
    turn(world)
    assert reserved(world) == _WRITERS - 1
    assert statuses_waiting(world) > 0


def test_reasons_have_their_turn_while_statuses_take_all_the_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ready_world(quota=0)
    world.add_pod("train")
    world.settle()
    world.clock.advance(5)
    flow, numbers = world.parts.basis.flow, itertools.count()

    def send(_room_at: float) -> None:
        while flow.may_report():
            key = QueueKey("ClusterQueue", "", f"queue-{next(numbers)}")
            flow.submit(
                ApiRequest(
                    key=key,
                    operation=WritePurpose.QUEUE_STATUS,
                    verb=Verb.REPLACE,
                    resource=CLUSTER_QUEUES,
                    name=key.name,
                )
            )

    monkeypatch.setattr(world.parts.statuses, "send", send)
    for _ in range(4):
        turn(world, 1)
        world.parts.basis.flow.complete(
            RequestResult(request=world._queue.popleft(), result=Result.DONE)
        )
        world.parts.basis.turns.is_called = True
    assert WritePurpose.EXPLAIN_POD in {write.operation for write in world.queued}


def test_a_list_tells_of_requests_without_an_answer() -> None:
    """A watch that was cut off begins with a list."""
    world = ready_world()
    world.add_pod("pod", gpus=1)
    world.observe()
    world.core.step()
    (create,) = world.queued
    world._sender.send(create)
    world._queue.clear()
    world.core.receive(RequestResult(request=create, result=Result.UNKNOWN))
    assert world.parts.basis.flow.unknown == 1
    listed = world.listed(WORKLOADS, WATCHED[WORKLOADS])
    world.core.receive(core.WatchMessage(WORKLOADS, listed))
    assert world.parts.basis.flow.unknown == 0


def test_a_pod_that_leaves_a_watch_by_label_may_still_be_there() -> None:
    world = ready_world()
    world.add_pod("pod", gpus=1)
    world.observe()
    start = None
    while start is None:
        world.core.step()
        start = next(
            (one for one in world.queued if one.operation is WritePurpose.START_OWNER), None
        )
        if start is None:
            world.send_one()
            world.observe()
    world._queue.clear()
    world.core.receive(RequestResult(request=start, result=Result.UNKNOWN))
    gone = core.WatchMessage(PODS, Deleted(views.Object(metadata=world.pod("pod").metadata)))
    world.parts.results.show(gone.resource, gone.change)
    assert world.parts.basis.flow.unknown == 1


@pytest.mark.parametrize(
    ("change", "is_turn"),
    [
        ({"conditions": [{**_READY, "lastHeartbeatTime": "2026-01-01T00:05:00Z"}]}, False),
        ({"images": [{"names": ["a"], "sizeBytes": 5}]}, False),
        ({"conditions": [{**_READY, "status": "False"}]}, True),
        ({"allocatable": {GPU_RESOURCE: "2", "pods": "9"}}, True),
    ],
    ids=["heartbeat", "image", "not ready", "fewer GPUs"],
)
@pytest.mark.parametrize("has_gpus", [True, False])
def test_a_report_of_a_node_that_says_nothing_new_calls_for_no_turn(
    change: Document, is_turn: bool, has_gpus: bool
) -> None:
    world = ready_world(quota=4)
    units = {"pods": 9, **({GPU_RESOURCE: 4} if has_gpus else {})}
    world.add(make_node("n1", {GPU_PRODUCT_LABEL: "a100"}, units))
    world.add_pod("large", gpus=8)
    world.pass_time(6)

    status = patches.merge({"status": change})
    world.store.patch(NODES, "n1", status, subresource="status")
    view = world.store.get(NODES, "n1", into=views.Node)
    world.core.receive(core.WatchMessage(NODES, Upserted(view)))
    with mock.patch.object(SchedulerState, "has_work", autospec=True, return_value=False) as turns:
        world.core.step()

    assert bool(turns.call_count) is is_turn
