"""Two workloads cannot evict each other for ever."""

from dataclasses import replace
from typing import Any

import pytest

from admission.base.names import WorkloadKey
from admission.scheduling import model
from admission.scheduling.preemption.history import MOST, PreemptionHistory
from tests.builders.scheduling import (
    ANY,
    LOWER,
    NOW_US,
    SECOND_US,
    cluster_queue,
    cohort,
    group,
    holding,
    pod_set,
    waiting,
)
from tests.scheduling.worlds import World, admitted, evicted, world

A, B, C = (WorkloadKey("default", name) for name in "abc")


def test_a_victim_is_spared_after_the_last_chance():
    history = PreemptionHistory()
    for _ in range(MOST - 1):
        history.note(A, B)
        history.has_left(B)
    assert history.spared(A) == frozenset()

    history.note(A, B)

    assert history.spared(A) == {B}
    assert history.spared(B) == frozenset()


def test_the_count_goes_with_either_workload():
    history = PreemptionHistory()
    for _ in range(MOST):
        for victim in (B, C):
            history.note(A, victim)
            history.has_left(victim)

    history.forget(B)
    assert history.spared(A) == {C}

    history.forget(A)
    assert history.spared(A) == frozenset()


def test_an_eviction_that_is_decided_again_until_it_is_seen_counts_once():
    made = world(
        cluster_queue("b", 1, within=LOWER),
        holding("low", "b", 1),
        waiting("high", "b", 1, priority=1),
    )
    found = [made.cycle() for _ in range(2 * MOST)]
    assert [evicted(one) for one in found] == [{"low": "InClusterQueue"}] * (2 * MOST)


def test_taking_turns_by_partial_admission_ends():
    made = world(
        cohort("root", 7),
        cohort("right", 2, 5, parent="root"),
        cluster_queue("b", 5, 5, cohort="right", within=LOWER, reclaim=ANY, borrow=LOWER),
        cluster_queue("c", 1, cohort="root", within=LOWER, reclaim=ANY, borrow=LOWER),
        holding("w05", "c", 6, priority=1),
        waiting("w00", "b", created=-2, sets=[pod_set(count=3, least=1, cpu=4)]),
        waiting("w02", "c", priority=1, created=-4, sets=[pod_set(count=2, least=1, cpu=4)]),
    )

    rounds = []
    for second in range(30):
        result = made.cycle()
        rounds.append(evicted(result))
        for evict in result.evicted:
            known = made.state.workload(evict.workload)
            assert known is not None
            for seen in (known, replace(known, reservation=None)):  # admitted, then gone
                made.state.set_workload(seen, NOW_US + second * SECOND_US)

    assert sum("w02" in one for one in rounds) == MOST
    assert rounds[-10:] == [{}] * 10


# ------------------------------------------------------------------- preemptor before victims


def reclaiming() -> World:
    """``first`` and ``late`` of ``lender`` hold the quota that ``owner`` reclaims for ``big``.

    By its order alone ``first`` comes before ``big``, which borrows memory and has no priority.
    """
    cpu, memory = {"cpu": (4,), "memory": (0,)}, {"cpu": (0,), "memory": (8,)}
    return world(
        cluster_queue("owner", cohort="q", groups=[group({"std": cpu})], reclaim=ANY),
        cluster_queue("lender", cohort="q", groups=[group({"std": memory})], reclaim=ANY),
        holding("first", "lender", 2, priority=100),
        holding("late", "lender", 2, priority=100),
        waiting("big", "owner", sets=[pod_set(cpu=4, memory=8)]),
        config=model.Config(fair_sharing=model.FairSharing()),
    )


def write(made: World, name: str, **changes: Any) -> None:
    """What is written about a workload comes back as an event."""
    known = made.state.workload(WorkloadKey("default", name))
    assert known is not None
    made.add(replace(known, **changes))


def leave(made: World, name: str) -> None:
    """An evicted workload gives its quota back and wants it again."""
    write(made, name, reservation=None, eviction=None, pod_sets=(pod_set(cpu=2),))


def test_a_victim_gets_no_quota_while_its_preemptor_waits_for_another_one():
    made = reclaiming()
    assert set(evicted(made.cycle())) == {"first", "late"}
    for name in ("first", "late"):
        write(made, name, eviction=model.Eviction(reason="Preempted", since_us=NOW_US))

    leave(made, "first")
    found = [made.cycle() for _ in range(10)]

    assert [admitted(one) for one in found] == [[]] * 10
    assert [evicted(one) for one in found] == [{}] * 10

    leave(made, "late")
    assert admitted(made.cycle()) == ["big"]
    assert admitted(made.cycle()) == []

    made.finish("big")
    assert [admitted(made.cycle()) for _ in range(2)] == [["first"], ["late"]]


def test_quota_that_all_victims_left_is_the_preemptors():
    made = reclaiming()
    made.cycle()

    for name in ("first", "late"):
        leave(made, name)

    assert admitted(made.cycle()) == ["big"]


def test_a_victim_waits_for_nobody_once_its_preemptor_is_gone_or_cannot_get_quota():
    for change in ("gone", "too large"):
        made = reclaiming()
        made.cycle()
        leave(made, "first")

        if change == "gone":
            made.finish("big")
        else:
            write(made, "big", pod_sets=(pod_set(cpu=5, memory=8),))

        assert admitted(made.cycle()) == ["first"], change


def test_two_that_left_for_each_other_are_both_decided():
    made = reclaiming()
    made.cycle()
    for name in ("first", "late"):
        leave(made, name)
    made.state._preemption_history.note(
        *(WorkloadKey("default", name) for name in ("first", "big"))
    )

    assert len(admitted(made.cycle())) == 1


@pytest.mark.parametrize("elsewhere", ["other", "z", None])
def test_a_preemptor_that_moved_to_another_tree_is_decided_there(elsewhere: str | None):
    """Its victims wait for it no more: what it gets there takes nothing from them."""
    made = reclaiming()
    made.cycle()
    leave(made, "first")

    enough = [group({"std": {"cpu": (4,), "memory": (8,)}})]
    made.state.set_cluster_queue(
        cluster_queue("owner", cohort=elsewhere, groups=enough, reclaim=ANY)
    )
    made.state.set_cluster_queue(
        cluster_queue("lender", cohort="q", groups=[group({"std": {"cpu": (4,)}})], reclaim=ANY)
    )

    assert sorted(admitted(made.cycle())) == ["big", "first"]
