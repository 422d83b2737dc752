"""One leader at a time, and none that believes it for too long."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from typing_extensions import override

from admission.base import patches
from admission.base.errors import InvalidValueError
from admission.kube import errors, resources
from admission.kube.lease import Election, Timing
from admission.sandbox.store import Store
from tests.clocks import FakeClock

NAMESPACE = "kube-system"


class Flaky(Store):
    """A store that can be out of reach, or take a write without saying so."""

    unreachable = False
    silent = False
    refused = False

    @override
    def get(self, *args: Any, **options: Any) -> Any:
        self._fail(self.unreachable)
        if self.refused:
            raise errors.make(500, "etcd is away")
        return super().get(*args, **options)

    @override
    def create(self, *args: Any, **options: Any) -> Any:
        done = super().create(*args, **options)
        self._fail(self.silent)
        return done

    @override
    def patch(self, *args: Any, **options: Any) -> Any:
        done = super().patch(*args, **options)
        self._fail(self.silent)
        return done

    def _fail(self, fails: bool) -> None:
        if fails:
            raise errors.TransportError("timed out", outcome_unknown=True)


class Race:
    """Candidates around one Lease, each with a clock of its own."""

    def __init__(self) -> None:
        self.store = Flaky(clock=FakeClock())
        self.clocks: dict[str, FakeClock] = {}

    def candidate(self, identity: str, **options: Any) -> Election:
        clock = self.clocks[identity] = FakeClock()
        return Election(
            self.store, identity, clock, namespace=NAMESPACE, rng=random.Random(1), **options
        )

    def advance(self, seconds: float) -> None:
        for clock in self.clocks.values():
            clock.advance(seconds)

    def spec(self) -> dict[str, Any]:
        lease = self.store.get(resources.LEASES, "gpu-admission", NAMESPACE)
        spec: dict[str, Any] = lease["spec"]
        return spec


def test_the_first_candidate_leads_and_says_so():
    race = Race()
    a = race.candidate("a")
    assert not a.is_leader()
    assert a.is_leader_until() == float("-inf")
    assert a.attempt()
    assert race.spec() == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }
    assert a.is_leader_until() == 10


def test_who_makes_the_lease_has_nobody_before_it():
    race = Race()
    a, b = race.candidate("a"), race.candidate("b")
    a.attempt()
    assert a.begins_at_once
    b.attempt()
    a.release(is_drained=False)
    assert b.attempt()
    assert not b.begins_at_once


def test_a_lease_made_by_a_request_of_unknown_outcome_is_taken_for_an_older_one():
    race = Race()
    a = race.candidate("a")
    race.store.silent = True
    assert not a.attempt()
    race.store.silent = False
    assert a.attempt()
    assert not a.begins_at_once


def test_a_lease_that_was_deleted_holds_for_as_long_as_it_would_have():
    race = Race()
    a, b = race.candidate("a"), race.candidate("b")
    a.attempt()
    b.attempt()
    race.store.delete(resources.LEASES, "gpu-admission", NAMESPACE)
    race.advance(14)
    assert not b.attempt()
    race.advance(1)
    assert b.attempt()
    assert not b.begins_at_once


def test_a_leader_makes_its_deleted_lease_again():
    race = Race()
    a, b = race.candidate("a"), race.candidate("b")
    a.attempt()
    b.attempt()
    race.store.delete(resources.LEASES, "gpu-admission", NAMESPACE)
    race.advance(2)
    assert a.attempt()
    assert a.is_leader_until() == 12
    assert not b.attempt()


def test_a_renewal_moves_the_deadline_and_nothing_else():
    race = Race()
    a = race.candidate("a")
    a.attempt()
    race.advance(2)
    assert a.attempt()
    assert a.is_leader_until() == 12
    assert race.spec()["renewTime"] == "2026-01-01T00:00:02.000000Z"
    assert race.spec()["acquireTime"] == "2026-01-01T00:00:00.000000Z"
    assert race.spec()["leaseTransitions"] == 0


def test_labels_of_the_lease_survive():
    race = Race()
    a = race.candidate("a")
    a.attempt()
    labels = patches.merge({"metadata": {"labels": {"by": "install"}}})
    race.store.patch(resources.LEASES, "gpu-admission", labels, NAMESPACE)
    assert a.attempt()
    found = race.store.get(resources.LEASES, "gpu-admission", NAMESPACE)
    assert found["metadata"]["labels"] == {"by": "install"}


def test_nobody_takes_a_lease_that_is_renewed():
    race = Race()
    a, b = race.candidate("a"), race.candidate("b")
    for _ in range(20):
        assert a.attempt()
        assert not b.attempt()
        race.advance(2)


def test_a_silent_leader_loses_before_another_may_take_over():
    race = Race()
    a, b = race.candidate("a"), race.candidate("b")
    a.attempt()
    assert not b.attempt()
    taken_after = 0
    while not b.attempt():
        race.advance(1)
        taken_after += 1
        assert not (a.is_leader() and b.is_leader())
    assert taken_after == 15
    assert not a.is_leader()
    assert race.spec()["holderIdentity"] == "b"
    assert race.spec()["leaseTransitions"] == 1


def test_a_lease_counts_from_when_it_was_seen_not_from_its_times():
    race = Race()
    race.candidate("a").attempt()
    b = race.candidate("b")
    race.clocks["b"].advance(3600)
    assert not b.attempt()
    race.clocks["b"].advance(14)
    assert not b.attempt()
    race.clocks["b"].advance(1)
    assert b.attempt()


def test_an_unreachable_server_ends_leadership_at_the_deadline():
    race = Race()
    a = race.candidate("a")
    a.attempt()
    race.store.unreachable = True
    race.advance(9)
    assert a.attempt()
    assert a.is_leader_until() == 10
    race.advance(1)
    assert not a.attempt()


def test_a_renewal_of_unknown_outcome_does_not_count():
    race = Race()
    a = race.candidate("a")
    a.attempt()
    race.advance(5)
    race.store.silent = True
    assert a.attempt()
    assert a.is_leader_until() == 10
    race.store.silent = False
    assert a.attempt()
    assert a.is_leader_until() == 15


def test_the_deadline_counts_from_before_the_request():
    race = Race()

    class Slow(Flaky):
        @override
        def patch(self, *args: Any, **options: Any) -> Any:
            race.advance(4)
            return super().patch(*args, **options)

    race.store = Slow(clock=FakeClock())
    a = race.candidate("a")
    a.attempt()
    race.advance(2)
    a.attempt()
    assert a.is_leader_until() == 12


def test_a_leader_that_sees_another_name_is_none():
    race = Race()
    a = race.candidate("a")
    a.attempt()
    usurper = patches.merge({"spec": {"holderIdentity": "x"}})
    race.store.patch(resources.LEASES, "gpu-admission", usurper, NAMESPACE)
    assert not a.attempt()
    assert a.is_leader_until() == float("-inf")


def test_a_released_lease_is_taken_at_once():
    race = Race()
    a, b = race.candidate("a"), race.candidate("b")
    a.attempt()
    b.attempt()
    a.release(is_drained=True)
    assert not a.is_leader()
    assert race.spec()["holderIdentity"] == ""
    assert b.attempt()


def test_run_leads_and_renews_until_stop_and_the_lease_is_given_back_after_it():
    race = Race()
    told: list[str] = []

    def pause(seconds: float) -> None:
        assert 2 <= seconds <= 2.4
        race.advance(seconds)
        told.append(race.spec()["holderIdentity"])
        if len(told) == 10:
            a.stop()

    a = race.candidate("a", pause=pause)
    a.run(lambda: told.append("started"), lambda: told.append("lost"))
    assert told == ["started"] + ["a"] * 9
    assert race.spec()["holderIdentity"] == "a"
    a.release(is_drained=True)
    assert race.spec()["holderIdentity"] == ""


def take(race: Race) -> None:
    """Somebody else takes the Lease."""
    usurper = patches.merge({"spec": {"holderIdentity": "x"}})
    race.store.patch(resources.LEASES, "gpu-admission", usurper, NAMESPACE)


def give_back(race: Race) -> None:
    """Somebody else has taken the Lease and given it back."""
    released = patches.merge({"spec": {"holderIdentity": "", "leaseTransitions": 7}})
    race.store.patch(resources.LEASES, "gpu-admission", released, NAMESPACE)


def delete(race: Race) -> None:
    """The Lease is gone, and maybe somebody else led in between."""
    race.store.delete(resources.LEASES, "gpu-admission", NAMESPACE)


class Run:
    """A leader whose every pause lets time pass, and something happen when it is time.

    Attributes:
        told: what it told, in order.
        led: whether it led, at each pause.
        pauses: how long it waited.
    """

    def __init__(self, race: Race, happenings: dict[float, Callable[[Race], object]]) -> None:
        self.race = race
        self.told: list[str] = []
        self.led: list[bool] = []
        self.pauses: list[float] = []
        self._happenings = dict(happenings)
        self.election = race.candidate("a", pause=self.pause)
        self.clock = race.clocks["a"]

    def pause(self, seconds: float) -> None:
        self.led.append(self.election.is_leader())
        self.pauses.append(seconds)
        self.race.advance(seconds)
        for due in [at for at in self._happenings if at <= self.clock.monotonic()]:
            self._happenings.pop(due)(self.race)
        if self.clock.monotonic() > 120:
            self.election.stop()

    def run(self) -> list[str]:
        self.election.run(
            lambda: self.told.append("started"),
            lambda: self.told.append(f"lost at {self.clock.monotonic():.0f}"),
        )
        return self.told


def set_unreachable(race: Race, *, value: bool = True) -> None:
    race.store.unreachable = value


def set_reachable(race: Race) -> None:
    race.store.unreachable = False


def test_a_leader_that_nobody_answers_writes_nothing_and_leads_again_with_the_first_answer():
    run = Run(Race(), {5: set_unreachable, 90: set_reachable})
    assert run.run() == ["started"]
    assert run.led[0]
    assert False in run.led
    assert run.led[-1]
    assert run.race.spec()["holderIdentity"] == "a"
    assert run.race.spec()["leaseTransitions"] == 0


def test_while_nobody_answers_it_asks_twice_a_second():
    run = Run(Race(), {5: set_unreachable})
    run.run()
    assert all(0.5 <= pause <= 0.6 for pause in run.pauses[5:])


@pytest.mark.parametrize("happening", [take, give_back, delete], ids=lambda it: it.__name__)
def test_a_leader_that_was_not_answered_ends_where_another_may_have_led(
    happening: Callable[[Race], None],
):
    def back(race: Race) -> None:
        set_reachable(race)
        happening(race)

    run = Run(Race(), {5: set_unreachable, 30: back})
    told = run.run()
    assert told[0] == "started"
    assert told[1] in {"lost at 30", "lost at 31"}
    assert not run.election.is_leader()


@pytest.mark.parametrize("happening", [take, give_back], ids=lambda it: it.__name__)
def test_run_ends_when_another_has_led(happening: Callable[[Race], None]):
    run = Run(Race(), {5: happening})
    assert run.run()[1].startswith("lost at ")


def test_run_ends_at_the_deadline_when_every_renewal_is_refused():
    def refuse(race: Race) -> None:
        race.store.refused = True

    run = Run(Race(), {5: refuse})
    told = run.run()
    assert told[1] in {f"lost at {second}" for second in range(14, 18)}


def test_a_server_that_is_just_back_and_refuses_is_asked_again_for_as_long_as_a_renewal_holds():
    def refuse(race: Race, *, value: bool = True) -> None:
        set_reachable(race)
        race.store.refused = value

    run = Run(Race(), {5: set_unreachable, 60: refuse, 65: lambda it: refuse(it, value=False)})
    assert run.run() == ["started"]
    run = Run(Race(), {5: set_unreachable, 60: refuse})
    assert run.run()[1] in {f"lost at {second}" for second in range(70, 74)}


def test_a_standby_gives_a_leader_time_to_renew_when_the_server_is_back():
    race = Race()
    a, b = race.candidate("a"), race.candidate("b")
    a.attempt()
    b.attempt()
    race.store.unreachable = True
    race.advance(60)
    assert not b.attempt()
    race.store.unreachable = False
    assert not b.attempt()
    race.advance(1)
    assert a.attempt()
    race.advance(4)
    assert not b.attempt()


def test_a_standby_takes_over_soon_after_the_return_when_the_leader_is_gone():
    race = Race()
    a, b = race.candidate("a"), race.candidate("b")
    a.attempt()
    b.attempt()
    race.store.unreachable = True
    race.advance(60)
    b.attempt()
    race.store.unreachable = False
    b.attempt()
    race.advance(4)
    assert b.attempt()


def test_a_standby_looks_when_the_lease_ends_and_not_later():
    race = Race()
    leader = race.candidate("a")
    leader.attempt()
    taken: list[float] = []
    b = race.candidate("b", pause=race.advance)

    def started() -> None:
        taken.append(race.clocks["b"].monotonic())
        b.stop()

    b.run(started, lambda: pytest.fail("lost"))
    assert taken == [pytest.approx(15, abs=0.05)]


def test_a_lease_that_was_released_without_an_open_request_says_so_for_its_own_term_only():
    race = Race()
    a, b, c = (race.candidate(name) for name in "abc")
    a.attempt()
    a.release(is_drained=True)
    assert b.attempt()
    assert b.begins_at_once
    b.release(is_drained=False)
    assert c.attempt()
    assert not c.begins_at_once
    c.release(is_drained=True)
    older = patches.merge({"spec": {"leaseTransitions": 9}})  # as written by an older version
    race.store.patch(resources.LEASES, "gpu-admission", older, NAMESPACE)
    assert b.attempt()
    assert not b.begins_at_once


def test_a_lease_that_was_not_released_is_waited_out_whatever_it_says():
    race = Race()
    a, b = race.candidate("a"), race.candidate("b")
    a.attempt()
    said = patches.merge({"metadata": {"annotations": {"gpu-admission.dev/released-term": "0"}}})
    race.store.patch(resources.LEASES, "gpu-admission", said, NAMESPACE)
    b.attempt()
    race.advance(15)
    assert b.attempt()
    assert not b.begins_at_once


def test_a_candidate_that_is_stopped_never_leads():
    race = Race()
    race.candidate("a").attempt()
    stops: list[Election] = []
    b = race.candidate("b", pause=lambda _: stops[0].stop())
    stops.append(b)
    b.run(lambda: pytest.fail("led"), lambda: pytest.fail("lost"))
    assert race.spec()["holderIdentity"] == "a"


@pytest.mark.parametrize("times", [(15, 15, 2), (15, 10, 10), (15, 10, 0)])
def test_times_that_could_not_work_are_refused(times: tuple[float, float, float]):
    lease, renew, retry = times
    with pytest.raises(InvalidValueError, match="retry < renew < lease"):
        Timing(lease=lease, renew=renew, retry=retry)
