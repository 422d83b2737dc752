"""Whose write goes out next when there are more than the writers can send."""

from admission.base.names import WorkloadKey
from admission.controllers import writes
from admission.controllers.lanes import Lanes
from admission.controllers.writes import Outcome, Purpose, Result, Write
from admission.settings import ControllerSettings
from tests.clocks import FakeClock
from tests.controllers.world import World, ready_world

_HANDED_OVER = 2 * ControllerSettings().writers
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
    order = [(write.purpose, write.lane) for write in world.sent]
    for reserved in [lane for purpose, lane in order if purpose is Purpose.RESERVE_QUOTA]:
        first = order.index((Purpose.RESERVE_QUOTA, reserved))
        last = order.index((Purpose.RELEASE_POD, reserved))
        begun = [p for p, _ in order[first:last] if p is Purpose.CREATE_WORKLOAD]
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

    assert Purpose.FINISH_WORKLOAD not in {write.purpose for write in world.sent}
    assert len(world.admitted()) == _PODS


class _Unsent:
    """A writer that keeps what it gets."""

    def __init__(self) -> None:
        self.writes: list[Write] = []

    def submit(self, write: Write) -> None:
        self.writes.append(write)


def test_a_write_that_waits_to_be_sent_again_does_not_count_as_handed_over() -> None:
    clock, writer = FakeClock(), _Unsent()
    lanes = Lanes(writer, clock)
    write = writes.find_workload(WorkloadKey("ml", "train"))
    lanes.submit(write)
    assert lanes.sending == 1

    lanes.settle(Outcome(write=write, result=Result.UNKNOWN))
    assert (lanes.sending, lanes.in_flight) == (0, 1)

    clock.advance(2)
    lanes.due()
    assert (lanes.sending, len(writer.writes)) == (1, 2)

    lanes.settle(Outcome(write=write, result=Result.DONE))
    assert (lanes.sending, lanes.in_flight) == (0, 0)
