"""Who has not been admitted for the minimum run time is preempted after all others."""

from dataclasses import replace
from typing import Any

import pytest

from admission.base.names import ClusterQueueName, LocalQueueKey
from admission.scheduling import model
from tests.builders.scheduling import (
    ANY,
    LOWER,
    NOW_US,
    SECOND_US,
    cluster_queue,
    cohort,
    holding,
    waiting,
)
from tests.scheduling.worlds import World, evicted, world

MINUTE = 60 * SECOND_US
FAIR = model.Config(fair_sharing=model.FairSharing())


def at_home(cpu: int = 1, *, queue: dict[str, Any] | None = None, **young: Any) -> World:
    """``young`` has the lower priority; ``old`` and ``middle`` are past a minute."""
    return world(
        cluster_queue(
            "b", 3, within=LOWER, **({"minimum_run_us": MINUTE} if queue is None else queue)
        ),
        holding("old", "b", 1, priority=2, reserved=-100),
        holding("middle", "b", 1, priority=1, reserved=-60),
        holding("young", "b", 1, reserved=-59, **young),
        waiting("new", "b", cpu, priority=9),
    )


@pytest.mark.parametrize(
    ("cpu", "victims"),
    [(1, {"middle"}), (2, {"middle", "old"}), (3, {"middle", "old", "young"})],
)
def test_those_past_their_minimum_come_first_and_the_others_if_these_do_not_suffice(
    cpu: int, victims: set[str]
):
    assert set(evicted(at_home(cpu).cycle())) == victims


def test_time_passes():
    made = at_home()
    made.clock = 1
    assert set(evicted(made.cycle())) == {"young"}


def narrowed(made: World, minimum_us: int | None) -> World:
    key = LocalQueueKey("default", "b")
    queue = model.LocalQueue(
        key=key, cluster_queue=ClusterQueueName("b"), minimum_run_us=minimum_us
    )
    made.state.set_local_queue(queue, NOW_US)
    return made


@pytest.mark.parametrize(
    ("made", "victim"),
    [
        (at_home(queue={}), "young"),
        (narrowed(at_home(queue={}), 10 * MINUTE), "young"),
        (at_home(queue={}, minimum_run_us=10 * MINUTE), "young"),
        (narrowed(at_home(), 10 * MINUTE), "middle"),
        (at_home(minimum_run_us=10 * MINUTE), "middle"),
        (narrowed(at_home(), MINUTE // 2), "young"),
        (narrowed(at_home(), 0), "young"),
        (at_home(minimum_run_us=0), "young"),
        (narrowed(at_home(minimum_run_us=MINUTE), MINUTE), "middle"),
    ],
)
def test_local_queue_and_workload_can_only_shorten_what_the_cluster_queue_gives(
    made: World, victim: str
):
    assert set(evicted(made.cycle())) == {victim}


def test_who_does_not_run_yet_has_no_minimum():
    made = at_home()
    known = holding("young", "b", 1, reserved=-10)
    assert known.reservation is not None
    open_checks = replace(known.reservation, admitted=False, admitted_us=0)
    made.add(replace(known, reservation=open_checks))
    assert set(evicted(made.cycle())) == {"young"}


def borrowing(*, config: model.Config | None, within: int) -> World:
    """``lender`` wants its nominal quota back, of which two queues have borrowed."""
    given: dict[str, Any] = {"cohort": "q", "minimum_run_us": MINUTE}
    return world(
        cohort("q"),
        cluster_queue("lender", 2, cohort="q", reclaim=ANY),
        cluster_queue("b", 0, **given),
        cluster_queue("c", 0, **given),
        holding("old", "b", 1, priority=5, reserved=-100),
        holding("young", "c", 1, reserved=-within),
        waiting("new", "lender", 1),
        config=config,
    )


@pytest.mark.parametrize("config", [None, FAIR], ids=["classical", "fair"])
def test_nominal_quota_comes_back_from_whoever_is_past_the_minimum_first(
    config: model.Config | None,
):
    assert set(evicted(borrowing(config=config, within=10).cycle())) == {"old"}
    assert set(evicted(borrowing(config=config, within=100).cycle())) == {"young"}


@pytest.mark.parametrize("config", [None, FAIR], ids=["classical", "fair"])
def test_nominal_quota_comes_back_also_where_all_are_within_their_minimum(
    config: model.Config | None,
):
    made = borrowing(config=config, within=10)
    made.add(holding("old", "b", 1, priority=5, reserved=-1), waiting("new", "lender", 2))
    assert set(evicted(made.cycle())) == {"old", "young"}
