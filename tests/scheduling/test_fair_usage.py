"""Past usage of LocalQueues."""

from dataclasses import replace
from fractions import Fraction

import pytest

from admission.base.names import ClusterQueueName, LocalQueueKey, ResourceName, WorkloadKey
from admission.scheduling import consumption, model
from admission.scheduling.consumption import Consumption
from tests.builders.scheduling import (
    ANY,
    CPU,
    LOWER,
    NOW_US,
    SECOND_US,
    cluster_queue,
    holding,
    waiting,
)
from tests.scheduling.worlds import World, admitted, evicted, world

MINUTE_US = 60 * SECOND_US
TEN_MINUTES = model.AdmissionFairSharing(half_life_us=10 * MINUTE_US, sampling_us=5 * MINUTE_US)
LEFT = LocalQueueKey("default", "left")
MEMORY = ResourceName("memory")


def test_a_reservation_is_charged_by_the_sampling_interval():
    charged = consumption.penalty(consumption.to_nanos({CPU: 4000}), TEN_MINUTES)

    assert charged == {CPU: 1_171_572_875}


def test_weights_multiply_resources_and_divide_by_the_queue():
    config = model.AdmissionFairSharing(
        half_life_us=TEN_MINUTES.half_life_us, weights={CPU: 2 * 10**9}
    )

    endless, rank = consumption.rank({CPU: 1_171_572_875}, 2 * 10**9, config)

    assert not endless
    assert rank == Fraction(1_171_572_875, 10**9)


def test_unweighted_memory_outweighs_cpu():
    used = consumption.to_nanos({MEMORY: 8 << 30, CPU: 64_000})

    assert consumption.rank({MEMORY: used[MEMORY]}, 10**9, TEN_MINUTES) > consumption.rank(
        {CPU: used[CPU]}, 10**9, TEN_MINUTES
    )


def test_a_queue_without_weight_ranks_last():
    assert consumption.rank({}, 0, TEN_MINUTES) > consumption.rank({CPU: 10**18}, 1, TEN_MINUTES)


@pytest.mark.parametrize(
    ("minutes", "expected"), [(0, 8_000_000_000), (10, 4_000_000_000), (20, 2_000_000_000)]
)
def test_usage_halves_in_each_half_life(minutes, expected):
    known = Consumption(consumed={CPU: 8_000_000_000}, updated_us=NOW_US)

    found = consumption.sampled(known, {}, NOW_US + minutes * MINUTE_US, TEN_MINUTES)

    assert found == Consumption(consumed={CPU: expected}, updated_us=NOW_US + minutes * MINUTE_US)


def test_what_runs_is_approached():
    known = Consumption(updated_us=NOW_US)

    found = consumption.sampled(known, {CPU: 8_000_000_000}, NOW_US + 10 * MINUTE_US, TEN_MINUTES)

    assert found.consumed == {CPU: 4_000_000_000}


def test_without_half_life_nothing_is_remembered():
    config = model.AdmissionFairSharing(half_life_us=0)
    known = Consumption(consumed={CPU: 8}, updated_us=NOW_US)

    assert consumption.sampled(known, {CPU: 5}, NOW_US + 1, config).consumed == {}
    assert consumption.penalty({CPU: 5}, config) == {CPU: 0}


def teams(*objects: model.Workload, cpu: int = 2) -> World:
    """One ClusterQueue ``solo`` with the LocalQueues ``left`` and ``right``."""
    made = world(
        cluster_queue("solo", cpu, within=LOWER, usage_based=True),
        config=model.Config(admission_fair_sharing=TEN_MINUTES),
    )
    for name in ("left", "right"):
        local = model.LocalQueue(
            key=LocalQueueKey("default", name), cluster_queue=ClusterQueueName("solo")
        )
        made.state.set_local_queue(local)
    made.add(*objects)
    return made


def test_teams_take_turns_whatever_the_priority():
    made = teams(
        waiting("l1", "left", 1, priority=9, created=-4),
        waiting("l2", "left", 1, priority=9, created=-3),
        waiting("r1", "right", 1, created=-2),
        waiting("r2", "right", 1, created=-1),
    )

    assert [admitted(made.cycle()) for _ in range(2)] == [["l1"], ["r1"]]


def test_the_charge_becomes_usage_when_the_admission_is_written():
    made = teams(waiting("l1", "left", 1))
    made.cycle()
    left = LocalQueueKey("default", "left")
    charged = Consumption(consumed={CPU: 292_893_218}, updated_us=NOW_US)
    assert made.state.consumption(left) == charged

    known = made.state.workload(WorkloadKey("default", "l1"))
    assert known is not None
    made.state.set_workload(known, NOW_US)

    assert made.state.consumption(left) == charged


def test_what_waits_for_checks_is_charged_after_a_restart_too():
    made = teams(waiting("new", "left", 1), waiting("other", "right", 1), cpu=9)
    reserved = placed("checked", "left", -10)
    assert reserved.reservation is not None
    open_checks = replace(reserved.reservation, admitted=False)

    made.state.set_workload(replace(reserved, reservation=open_checks), NOW_US)

    assert made.active("solo") == ["other", "new"]
    assert made.state.consumption(LEFT) == Consumption(consumed={CPU: 0}, updated_us=NOW_US)


def test_an_idle_team_is_not_sampled_for_its_own_sake():
    made = teams()
    made.cycle()
    assert made.state.next_wakeup_us() is None

    made.state.set_workload(placed("runs", "left", -10), NOW_US)
    made.cycle()

    assert made.state.next_wakeup_us() == NOW_US + 5 * MINUTE_US


def test_a_failed_admission_costs_nothing():
    made = teams(
        waiting("l1", "left", 1, created=-4), waiting("r1", "right", 1, created=-2), cpu=1
    )
    assert admitted(made.cycle()) == ["l1"]

    made.state.forget(WorkloadKey("default", "l1"), NOW_US)

    assert made.active("solo") == ["l1", "r1"]
    assert made.state.consumption(LEFT) == Consumption(consumed={CPU: 0}, updated_us=NOW_US)


def test_past_usage_comes_back_from_status():
    made = teams(waiting("l1", "left", 1, priority=9), waiting("r1", "right", 1))

    made.state.restore_consumption(
        LEFT, Consumption(consumed={CPU: 10**9}, updated_us=NOW_US), NOW_US
    )

    assert made.active("solo") == ["r1", "l1"]


def test_the_team_that_used_more_gives_way_first():
    made = teams(
        *(
            placed(f"{team}-old", team, reserved)
            for team, reserved in (("left", -50), ("right", -10))
        )
    )
    left = LocalQueueKey("default", "left")
    used = Consumption(consumed={CPU: 10**9}, updated_us=NOW_US)
    made.state.restore_consumption(left, used, NOW_US)

    made.add(waiting("new", "right", 1, priority=5))

    assert evicted(made.cycle()) == {"left-old": "InClusterQueue"}


def lenders(*objects: model.Workload, fair: bool, usage_based: bool = True) -> World:
    """The teams of ``solo``, of which left used more, borrow from the ClusterQueue ``owner``."""
    made = world(
        cluster_queue("solo", 0, cohort="q", usage_based=usage_based),
        cluster_queue("plain", 0, cohort="q"),
        cluster_queue("owner", 4, cohort="q", reclaim=ANY),
        config=model.Config(
            admission_fair_sharing=TEN_MINUTES,
            fair_sharing=model.FairSharing() if fair else None,
        ),
    )
    for name in ("left", "right"):
        local = model.LocalQueue(
            key=LocalQueueKey("default", name), cluster_queue=ClusterQueueName("solo")
        )
        made.state.set_local_queue(local)
    used = Consumption(consumed={CPU: 10**9}, updated_us=NOW_US)
    made.state.restore_consumption(LEFT, used, NOW_US)
    made.add(*objects)
    return made


@pytest.mark.parametrize("fair", [False, True], ids=["classical", "fair sharing"])
@pytest.mark.parametrize(
    ("usage_based", "victim"),
    [(True, "left-old"), (False, "right-new")],
    ids=["usage based", "not usage based"],
)
def test_a_lender_takes_first_from_the_team_that_used_more(fair, usage_based, victim):
    made = lenders(
        placed("left-old", "left", -50, priority=3),
        placed("right-new", "right", -10, priority=1),
        waiting("new", "owner", 3),
        fair=fair,
        usage_based=usage_based,
    )

    assert list(evicted(made.cycle())) == [victim]


@pytest.mark.parametrize(
    ("outsider", "victims"),
    [
        (holding("plain", "plain", 1, priority=0), ["plain", "left-low", "left-high"]),
        (holding("plain", "plain", 1, priority=2), ["left-low", "plain", "left-high"]),
        (holding("plain", "plain", 1, priority=9), ["left-low", "left-high", "right-low"]),
    ],
    ids=["below all", "between", "above all"],
)
def test_queues_are_compared_by_the_first_candidates_of_each(outsider, victims):
    made = lenders(
        placed("left-low", "left", -50, priority=1),
        placed("left-high", "left", -50, priority=7),
        placed("right-low", "right", -50, priority=0),
        outsider,
        waiting("new", "owner", 3),
        fair=False,
    )

    assert list(evicted(made.cycle())) == victims


def placed(name: str, team: str, reserved: int, priority: int = 0) -> model.Workload:
    """A workload of a team that holds one core of ``solo``."""
    key = LocalQueueKey("default", team)
    return replace(holding(name, "solo", 1, reserved=reserved, priority=priority), queue=key)
