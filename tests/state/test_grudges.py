"""Two workloads cannot evict each other for ever."""

from dataclasses import replace

from admission.base.names import WorkloadKey
from admission.state.grudges import MOST, Grudges
from tests.engine.worlds import (
    ANY,
    LOWER,
    NOW_US,
    SECOND_US,
    cohort,
    cq,
    evicted,
    held,
    pods,
    want,
    world,
)

A, B, C = (WorkloadKey("default", name) for name in "abc")


def test_a_victim_is_spared_after_the_last_chance():
    grudges = Grudges()
    for _ in range(MOST - 1):
        grudges.note(A, B)
        grudges.has_left(B)
    assert grudges.spared(A) == frozenset()

    grudges.note(A, B)

    assert grudges.spared(A) == {B}
    assert grudges.spared(B) == frozenset()


def test_the_count_goes_with_either_workload():
    grudges = Grudges()
    for _ in range(MOST):
        for victim in (B, C):
            grudges.note(A, victim)
            grudges.has_left(victim)

    grudges.forget(B)
    assert grudges.spared(A) == {C}

    grudges.forget(A)
    assert grudges.spared(A) == frozenset()


def test_an_eviction_that_is_decided_again_until_it_is_seen_counts_once():
    made = world(cq("b", 1, within=LOWER), held("low", "b", 1), want("high", "b", 1, p=1))
    found = [made.cycle() for _ in range(2 * MOST)]
    assert [evicted(one) for one in found] == [{"low": "InClusterQueue"}] * (2 * MOST)


def test_taking_turns_by_partial_admission_ends():
    made = world(
        cohort("root", 7),
        cohort("right", 2, 5, parent="root"),
        cq("b", 5, 5, cohort="right", within=LOWER, reclaim=ANY, borrow=LOWER),
        cq("c", 1, cohort="root", within=LOWER, reclaim=ANY, borrow=LOWER),
        held("w05", "c", 6, p=1),
        want("w00", "b", t=-2, sets=[pods(count=3, least=1, cpu=4)]),
        want("w02", "c", p=1, t=-4, sets=[pods(count=2, least=1, cpu=4)]),
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
