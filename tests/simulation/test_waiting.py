"""How soon pods say why they wait, and what that costs those that are admitted."""

import pytest
from typing_extensions import override

from admission.controller.writing.api_requests import ApiRequest, WritePurpose
from admission.kube.resources import PODS
from tests.builders.queues import make_cluster_queue, make_local_queue
from tests.simulation.api_server import Server, Simulation

_PODS = 600
_A_MINUTE = 10_000
"""Pods that are to say why they wait within a minute."""
_MOST_WRITES = 170
_AT_ONCE = 17
"""What may be made up for of a tenth of a second."""


class Waiting(Simulation):
    """Nobody is admitted; it is over when every pod says why."""

    def __init__(self, server: Server) -> None:
        self.made: list[float] = []
        self.said: list[float] = []
        super().__init__(server, quota=0)
        self.add(make_cluster_queue("room", quota=1), make_local_queue("room", "room"))
        self._is_simulated = False
        self.settle()
        self._is_simulated = True

    @override
    def _apply(self, write: ApiRequest, began: float) -> None:
        if write.operation is WritePurpose.CREATE_WORKLOAD:
            self.made.append(self._now)
        if write.operation is WritePurpose.EXPLAIN_POD:
            self.said.append(self._now)
        super()._apply(write, began)
        self._is_over = len(self.said) == _PODS


@pytest.mark.parametrize(
    "server",
    [
        Server(seconds=0.002),
        Server(cpus=16, seconds=0.002, network=0.025),
    ],
    ids=["fast", "in another zone"],
)
def test_ten_thousand_pods_would_say_why_within_a_minute_at_170_writes_a_second(
    server: Server,
) -> None:
    simulation = Waiting(server)
    simulation.create(_PODS, creators=8)
    simulation.run()
    decided = max(simulation.made)
    left = [at for at in simulation.said if at > decided + 1.0]  # the first text is after a second
    seconds = max(left) - decided - 1.0
    assert len(left) > 0.9 * _PODS
    assert len(left) / seconds >= _A_MINUTE / 60
    assert len(left) <= _MOST_WRITES * seconds + _AT_ONCE


class Admitting(Waiting):
    """While pods say why they wait, one comes that there is room for."""

    def __init__(self, server: Server) -> None:
        self.came_at = self.started_at = 0.0
        super().__init__(server)

    @override
    def _apply(self, write: ApiRequest, began: float) -> None:
        super()._apply(write, began)
        if len(self.said) == _PODS // 2 and not self.came_at:
            self.came_at = self._now
            self.add_pod("urgent", queue="room")
            self._tell(PODS, "ml", "urgent")

    @override
    def _start(self, name: str) -> None:
        self.started_at = self._now
        super()._start(name)


def test_an_admission_is_quick_while_pods_say_why_they_wait_and_they_make_way_for_it() -> None:
    simulation = Admitting(Server(seconds=0.005))
    simulation.create(_PODS, creators=8)
    simulation.run()
    assert simulation.started_at - simulation.came_at <= 0.1
    began, ended = simulation.came_at + 0.05, simulation.started_at + 0.9
    meanwhile = sum(began < at < ended for at in simulation.said)
    assert meanwhile <= 6
