"""How long a Workload waited that fit, from what a watch showed."""

from tests.bench.fitting import Sight, Step, waits
from tests.bench.shape import Class

SMALL = Class(name="small", count=1, interval_ms=1, runtime_ms=1, priority=50, cpu=1)
LARGE = Class(name="large", count=1, interval_ms=1, runtime_ms=1, priority=200, cpu=20)
COHORTS = {"a": "all", "b": "all", "alone": "other"}


def seconds(*sights: tuple[float, str, Class, Step]) -> list[float]:
    return waits([Sight(*sight) for sight in sights], COHORTS, nominal=20)


def test_a_workload_of_an_empty_queue_fits_from_its_creation():
    assert seconds((1, "a", SMALL, Step.WAITS), (3, "a", SMALL, Step.RESERVES)) == [2]


def test_a_workload_waits_for_room_without_being_counted():
    assert seconds(
        (0, "alone", LARGE, Step.WAITS),
        (1, "alone", LARGE, Step.RESERVES),
        (2, "alone", LARGE, Step.WAITS),
        (7, "alone", LARGE, Step.FREES),
        (8, "alone", LARGE, Step.RESERVES),
    ) == [1, 1]


def test_whoever_has_to_reclaim_quota_does_not_fit():
    borrowed = [
        (0.0, name, LARGE, step) for step in (Step.WAITS, Step.RESERVES) for name in ("a", "a")
    ]
    assert seconds(*borrowed, (5, "b", SMALL, Step.WAITS), (9, "b", SMALL, Step.RESERVES)) == [0]


def test_room_that_another_queue_takes_starts_the_wait_anew():
    assert seconds(
        (0, "a", LARGE, Step.WAITS),
        (0, "a", LARGE, Step.RESERVES),
        (1, "b", LARGE, Step.WAITS),
        (2, "a", LARGE, Step.WAITS),
        (2, "a", LARGE, Step.RESERVES),
        (6, "a", LARGE, Step.FREES),
        (9, "b", LARGE, Step.RESERVES),
    ) == [0, 3]


def test_the_head_of_a_queue_is_the_workload_of_the_highest_priority():
    assert seconds(
        (0, "alone", SMALL, Step.WAITS),
        (0, "alone", SMALL, Step.RESERVES),
        (1, "alone", LARGE, Step.WAITS),
        (1, "alone", SMALL, Step.WAITS),
        (4, "alone", SMALL, Step.RESERVES),
        (5, "alone", SMALL, Step.FREES),
        (6, "alone", SMALL, Step.FREES),
        (8, "alone", LARGE, Step.RESERVES),
    ) == [0, 2]
