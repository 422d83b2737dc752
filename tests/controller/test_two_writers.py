"""Another program writes the same statuses: requests and memory stay bounded."""

from typing import Any, Final

import pytest

from admission.base import patches
from admission.controller.writing.api_requests import (
    ApiRequest,
    RequestResult,
    Result,
    WritePurpose,
)
from tests.controller.world import World, ready_world

SECONDS: Final = 60


class Rival:
    """A program that writes the status of an object just before each request of the controller.

    Attributes:
        results: what came of the controller's requests.
    """

    def __init__(self, world: World, operation: WritePurpose) -> None:
        self._world, self._operation, self._sender = world, operation, world._sender
        self._writes = 0
        self.results: list[Result] = []
        self.is_away = False

    def send(self, request: ApiRequest) -> RequestResult:
        is_ours = request.operation is self._operation
        if is_ours and not self.is_away:
            self._writes += 1
            self._say(request)
        outcome = self._sender.send(request)
        if is_ours:
            self.results.append(outcome.result)
        return outcome

    def _say(self, request: ApiRequest) -> None:
        told = [{
            "type": "example.com/Seen", "status": "True", "reason": "Seen",
            "message": str(self._writes), "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]  # fmt: skip
        found = self._world.store.get(request.resource, request.name, request.namespace)
        others = found.get("status", {}).get("conditions") or []
        kept = [one for one in others if one["type"] != "example.com/Seen"]
        change = patches.merge({"status": {"conditions": [*kept, *told]}})
        self._world.store.patch(
            request.resource, request.name, change, request.namespace, subresource="status"
        )


def beside(world: World, operation: WritePurpose) -> Rival:
    rival = Rival(world, operation)
    world._sender = rival  # type: ignore[assignment]
    return rival


def kept(world: World) -> dict[str, int]:
    """How much flow control remembers, by what it is."""
    members: dict[str, Any] = vars(world.parts.basis.flow)
    return {name: len(one) for name, one in members.items() if hasattr(one, "__len__")}


def test_a_queue_status_that_another_program_writes_too_is_written_once_in_an_interval() -> None:
    world = ready_world()
    world.pass_time(3)
    rival = beside(world, WritePurpose.QUEUE_STATUS)
    world.add_pod("train")
    world.pass_time(10)
    before, begun = kept(world), len(rival.results)
    world.pass_time(SECONDS)

    assert set(rival.results) == {Result.CONFLICT}
    queues, per_second = 2, 2
    assert len(rival.results) - begun <= queues * per_second * SECONDS
    assert kept(world) == before
    rival.is_away = True
    world.pass_time(10)
    assert world.status_of("gpus")["admittedWorkloads"] == 1
    assert not world.parts.basis.flow._conflicts


@pytest.mark.parametrize("operation", [WritePurpose.RESERVE_QUOTA, WritePurpose.FINISH_WORKLOAD])
def test_a_workload_that_another_program_writes_each_time_is_tried_ever_more_rarely(
    operation: WritePurpose,
) -> None:
    world = ready_world()
    rival = beside(world, operation)
    world.add_pod("train", gpus=4)
    world.pass_time(1)
    world.set_phase("train", "Succeeded")
    world.pass_time(10)
    before, begun = kept(world), len(rival.results)
    world.pass_time(SECONDS)

    assert set(rival.results) == {Result.CONFLICT}
    assert begun <= 12
    assert len(rival.results) - begun <= SECONDS / 5 + 1
    assert kept(world) == before
    rival.is_away = True
    world.add_pod("next", gpus=4)
    world.pass_time(12)
    assert "next" in world.admitted()
    assert not world.parts.basis.flow._conflicts


def test_a_workload_that_another_program_writes_now_and_then_is_not_held_up() -> None:
    world = ready_world()
    rival = beside(world, WritePurpose.RESERVE_QUOTA)
    world.add_pod("train")
    world.observe()
    world.core.step()
    while not rival.results:
        world.send_one()
        world.core.step()
    rival.is_away = True
    world.settle()

    assert rival.results == [Result.CONFLICT, Result.DONE]
    assert world.admitted() == {"train"}
