"""What is done again and again goes on after a failure, and ends when told."""

from admission.base.periodic_thread import PeriodicThread
from tests.controlplane.waiting import PATIENCE_SECONDS


def test_a_round_that_fails_is_told_of_and_followed_by_another():
    outcomes = iter([0.0, ValueError("odd"), None])
    told = []

    def do() -> float | None:
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def failed(error: Exception) -> float:
        told.append(str(error))
        return 0.0

    rounds = PeriodicThread("test", do, failed)
    rounds.start()
    assert rounds.join(PATIENCE_SECONDS)
    assert told == ["odd"]
    assert next(outcomes, "all done") == "all done"


def test_no_round_begins_after_the_stop():
    done: list[int] = []

    def do() -> float:
        done.append(len(done))
        rounds.stop()
        return 0.0

    rounds = PeriodicThread("test", do, lambda _: 0.0)
    rounds.start()
    assert rounds.join(PATIENCE_SECONDS)
    assert done == [0]


def test_a_stop_ends_a_pause_at_once():
    rounds = PeriodicThread("test", lambda: 3600.0, lambda _: 0.0)
    rounds.start()
    rounds.stop()
    assert rounds.join(PATIENCE_SECONDS)
