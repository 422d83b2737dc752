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
    assert grudges.spared(A) == frozenset()

    grudges.note(A, B)

    assert grudges.spared(A) == {B}
    assert grudges.spared(B) == frozenset()


def test_the_count_goes_with_either_workload():
    grudges = Grudges()
    for _ in range(MOST):
        grudges.note(A, B)
        grudges.note(A, C)

    grudges.forget(B)
    assert grudges.spared(A) == {C}

    grudges.forget(A)
    assert grudges.spared(A) == frozenset()


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
            released = replace(known, reservation=None)
            made.state.set_workload(released, NOW_US + second * SECOND_US)

    assert sum("w02" in one for one in rounds) == MOST
    assert rounds[-10:] == [{}] * 10
