"""Two controllers and one Lease: one leads at a time, whatever happens to the other."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from admission.base import names
from admission.base.clock import from_wire
from admission.config.derived import Settings
from tests.chaos import faults, flow, invariants
from tests.chaos.flow import Stage
from tests.chaos.system import HIGH, LOW, ControllerProcess, System
from tests.controlplane import waiting
from tests.controlplane.moved_clock import MovedClock
from tests.controlplane.rest import RestError

pytestmark = pytest.mark.controlplane

LEASE = (
    f"/apis/coordination.k8s.io/v1/namespaces/{names.SYSTEM_NAMESPACE}/leases/{names.LEASE_NAME}"
)
RETRY_SECONDS = 5
ELECTION = {"leaseDuration": "60s", "renewDeadline": "40s", "retryPeriod": f"{RETRY_SECONDS}s"}
"""A leader keeps its Lease though it gets no core for half a minute."""


def electing(waiting_after: str) -> Settings:
    """Settings under which a Workload is soon told why it waits, or late."""
    controller = {
        "requestTimeout": "1s",
        "statusInterval": "100ms",
        "waitingAfter": waiting_after,
    }
    return Settings.model_validate(
        {"gpu": {"controller": controller}, "kueue": {"leaderElection": ELECTION}}
    )


SETTINGS = electing("100ms")
TACITURN = electing("24h")
"""A controller that writes no reasons, and so leaves waiting Workloads as they are."""


@dataclass(frozen=True)
class Pair:
    """A leader and its standby, both up and synced."""

    system: System
    leader: ControllerProcess
    standby: ControllerProcess
    team: str
    clock: MovedClock

    def of_leader(self) -> Stage:
        """The stage as the leader plays it."""
        return Stage(self.system, self.leader, self.team)

    def await_end_of_lease(self) -> None:
        """Lets time pass until the standby holds the Lease."""
        self.clock.until(
            lambda: holder(self.system) == self.standby.pid,
            step_seconds=RETRY_SECONDS,
            what="the standby leads",
        )

    def assert_one_after_the_other(self) -> None:
        """Nobody wrote anything that matters after the other had begun."""
        before, after = quota_writes(self.leader), quota_writes(self.standby)
        assert before
        assert after
        assert max(before) < min(after)


def await_all_told(system: System, workload: str) -> None:
    """Returns once a Workload and the queues say that it waits: nothing is left to be written.

    A leader that is stopped between its look at the Lease and the write still sends that write.
    """
    waiting.until(
        lambda: invariants.condition(system.api.get(workload), "QuotaReserved"),
        what=f"{workload} says why",
    )
    invariants.await_all(system.api)


def holder(system: System) -> int:
    """Process id of the Lease's holder; 0 where nobody holds it."""
    with suppress(RestError):
        identity = system.api.get(LEASE)["spec"].get("holderIdentity", "")
        return int(identity.split("_")[-2]) if identity else 0
    return 0


def await_renewal(system: System, clock: MovedClock) -> datetime:
    """Lets as much time pass as a leader surely bears, and waits until it has renewed its Lease.

    Returns:
        When that was.
    """
    before = _renewed_at(system)
    clock.advance(3 * RETRY_SECONDS)

    def renewal() -> datetime | None:
        renewed = _renewed_at(system)
        return renewed if renewed > before else None

    return waiting.until(renewal, what="the Lease is renewed")


def _renewed_at(system: System) -> datetime:
    return from_wire(system.api.get(LEASE)["spec"]["renewTime"])


def quota_writes(controller: ControllerProcess) -> list[float]:
    """When a controller wrote pods, Workloads and queues."""
    return [
        seen.at
        for seen in controller.proxy.writes
        if "/leases" not in seen.path and "/events" not in seen.path
    ]


@pytest.fixture
def clock(tmp_path: Path) -> MovedClock:
    """What the controllers of a test go by."""
    return MovedClock(tmp_path / "clock")


@pytest.fixture
def pair(system: System, lasting: ControllerProcess, clock: MovedClock) -> Iterator[Pair]:
    lasting.kill()
    with suppress(RestError):
        system.api.delete(LEASE)
    with (
        system.controller("leader", SETTINGS, election=True, clock=clock) as leader,
        system.controller("standby", TACITURN, election=True, clock=clock) as standby,
    ):
        leader.start()
        waiting.until(lambda: holder(system) == leader.pid, what="the first one leads")
        standby.start()
        made = Pair(system, leader, standby, system.add_team(4), clock)
        yield made
        system.empty(made.team)


def test_a_standby_writes_nothing(pair: Pair) -> None:
    pair.of_leader().create("first", 3)
    pair.system.until_released(pair.team, "first")

    assert quota_writes(pair.leader)
    assert not pair.standby.proxy.writes


def test_lists_that_hang_do_not_keep_a_leader_from_renewing_its_lease(pair: Pair) -> None:
    pair.of_leader().create("first", 3)
    pair.system.until_released(pair.team, "first")
    proxy, before = pair.leader.proxy, pair.system.api.get(LEASE)["spec"]
    hold = faults.Hold(after=False)
    proxy.inject(hold, path=r"limit=", times=None)
    for stream in proxy.streams("watch="):
        stream.expire()
    hold.wait()
    began, times = from_wire(before["renewTime"]), SETTINGS.kueue.leader_election
    renewed = began
    while renewed <= began + 2 * times.lease_duration:
        renewed = await_renewal(system=pair.system, clock=pair.clock)
    after = pair.system.api.get(LEASE)["spec"]
    same = ("holderIdentity", "leaseTransitions", "acquireTime")
    assert [after.get(key) for key in same] == [before.get(key) for key in same]

    proxy.heal()
    pair.system.delete_pod(pair.team, "first")
    pair.of_leader().create("second", 3)
    pair.system.until_released(pair.team, "second")
    assert not pair.standby.proxy.writes


def test_a_leader_that_ends_leaves_the_lead_at_once(pair: Pair) -> None:
    pair.of_leader().create("first", 3)
    pair.system.until_released(pair.team, "first")
    assert pair.leader.stop() == 0
    waiting.until(lambda: holder(pair.system) == pair.standby.pid, what="the standby leads")
    assert "lease released" in pair.leader.log.read_text()

    pair.system.delete_pod(pair.team, "first")
    pair.of_leader().create("second", 3)
    pair.system.until_released(pair.team, "second")
    pair.assert_one_after_the_other()


def test_a_leader_that_ends_leaves_nothing_to_be_waited_for(
    system: System, clock: MovedClock
) -> None:
    """The Lease lasts for an hour, a request may take long, and the standby looks rarely."""
    times = {"leaseDuration": "60m", "renewDeadline": "50m", "retryPeriod": "20m"}
    slow = Settings.model_validate(
        {
            "gpu": {"controller": {"requestTimeout": "20m"}},
            "kueue": {"leaderElection": times},
        }
    )
    with suppress(RestError):
        system.api.delete(LEASE)
    with (
        system.controller("leaving", slow, election=True) as leader,
        system.controller("waiting", slow, election=True) as standby,
    ):
        leader.start()
        waiting.until(lambda: holder(system) == leader.pid, what="the first one leads")
        team = system.add_team(4)
        standby.start()
        made = Pair(system, leader, standby, team, clock)
        made.of_leader().create("first", 3)
        system.until_released(team, "first")
        assert leader.stop() == 0

        made.of_leader().create("second", 1)
        system.until_released(team, "first", "second")
        made.assert_one_after_the_other()
        system.empty(team)


def test_a_leader_goes_on_when_its_server_was_away_for_longer_than_it_may_lead(
    system: System, lasting: ControllerProcess, clock: MovedClock
) -> None:
    lasting.kill()
    with suppress(RestError):
        system.api.delete(LEASE)
    with system.controller("lonely", SETTINGS, election=True, clock=clock) as leader:
        leader.start()
        waiting.until(lambda: holder(system) == leader.pid, what="it leads")
        team = system.add_team(4)
        before = system.api.get(LEASE)["spec"]
        with leader.proxy.down():
            clock.until(
                lambda: "nothing is written until the lease is renewed" in leader.log.read_text(),
                step_seconds=RETRY_SECONDS,
                what="it may not lead any more",
            )
        Stage(system, leader, team).create("first", 3)
        system.until_released(team, "first")
        after = system.api.get(LEASE)["spec"]
        assert after["leaseTransitions"] == before["leaseTransitions"]
        assert holder(system) == leader.pid
        invariants.await_all(system.api)
        system.empty(team)


def test_a_killed_leader_is_replaced_when_its_lease_ends(pair: Pair) -> None:
    stage = pair.of_leader()
    held = stage.hold(flow.RELEASE, after=False)
    stage.create("first", 3)
    held.wait()
    pair.leader.kill()
    pair.await_end_of_lease()

    pair.system.until_released(pair.team, "first")
    pair.assert_one_after_the_other()


def test_a_leader_that_slept_too_long_does_nothing_when_it_wakes_up(pair: Pair) -> None:
    stage = pair.of_leader()
    stage.create("first", 3)
    pair.system.until_released(pair.team, "first")
    stage.create("second", 3)
    pair.system.wait_condition(pair.team, "second")
    await_all_told(pair.system, stage.workload("second"))
    with pair.leader.paused():
        pair.await_end_of_lease()
        pair.system.delete_pod(pair.team, "first")
        stage.create("third", 3)
        pair.system.until_released(pair.team, "second")

    assert pair.leader.wait() != 0
    assert not invariants.unsafe(invariants.read(pair.system.api))
    assert pair.system.released(pair.team) == {"second"}
    pair.assert_one_after_the_other()


def test_a_write_that_lands_after_the_lead_was_lost_is_taken_back(pair: Pair) -> None:
    stage = pair.of_leader()
    held = stage.hold(flow.RESERVE, after=False, times=None)
    stage.create("first", 3, LOW)
    held.wait()
    stage.create("second", 3, HIGH)
    pair.system.wait_condition(pair.team, "second")
    with pair.leader.paused():
        pair.await_end_of_lease()
        pair.system.until_released(pair.team, "second")
        before = pair.system.api.get(stage.workload("first"))["metadata"]["resourceVersion"]
        held.free(arrives=True)

        def is_taken_back() -> bool:
            world = invariants.read(pair.system.api)
            assert not invariants.overrun(world)
            workload = pair.system.api.get(stage.workload("first"))
            landed = workload["metadata"]["resourceVersion"] != before
            return landed and not invariants.has(workload, "QuotaReserved")

        waiting.until(is_taken_back, what="the late reservation is taken back")

    assert pair.leader.wait() != 0
    assert pair.system.released(pair.team) == {"second"}
    pair.system.delete_pod(pair.team, "second")
    pair.system.until_released(pair.team, "first")


def test_a_leader_that_cannot_renew_stops_writing_before_its_lease_ends(pair: Pair) -> None:
    stage = pair.of_leader()
    stage.create("first", 3)
    pair.system.until_released(pair.team, "first")
    pair.leader.proxy.inject(faults.refuse(500), path="/leases/", times=None)
    pair.await_end_of_lease()
    stage.create("second", 1)

    pair.system.until_released(pair.team, "first", "second")
    assert pair.leader.wait() != 0
    pair.assert_one_after_the_other()
    invariants.await_all(pair.system.api)
