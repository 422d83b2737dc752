"""One leader at a time, and none that believes it for too long."""

import random
from typing import Any

import pytest
from typing_extensions import override

from admission.base.errors import InvalidValueError
from admission.kube import errors, patches, resources
from admission.kube.lease import Election, Timing
from admission.kube.store import Store
from tests.clocks import FakeClock

NAMESPACE = "kube-system"


class Flaky(Store):
    """A store that can be out of reach, or take a write without saying so."""

    unreachable = False
    silent = False

    @override
    def get(self, *args: Any, **options: Any) -> Any:
        self._fail(self.unreachable)
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
    assert a.is_first
    b.attempt()
    a.release()
    assert b.attempt()
    assert not b.is_first


def test_a_lease_made_by_a_request_of_unknown_outcome_is_taken_for_an_older_one():
    race = Race()
    a = race.candidate("a")
    race.store.silent = True
    assert not a.attempt()
    race.store.silent = False
    assert a.attempt()
    assert not a.is_first


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
    assert not b.is_first


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
    a.release()
    assert not a.is_leader()
    assert race.spec()["holderIdentity"] == ""
    assert b.attempt()


def test_run_leads_renews_and_gives_back_on_stop():
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
    assert race.spec()["holderIdentity"] == ""


def test_run_ends_when_leadership_is_lost():
    race = Race()
    told: list[str] = []
    a = race.candidate("a", pause=race.advance)

    def started() -> None:
        told.append("started")
        race.store.unreachable = True

    a.run(started, lambda: told.append("lost"))
    assert told == ["started", "lost"]
    assert not a.is_leader()


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
