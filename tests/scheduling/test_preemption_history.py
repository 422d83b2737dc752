"""Two workloads cannot evict each other for ever."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base.names import WorkloadKey
from admission.scheduling import model
from admission.scheduling.preemption import history
from admission.scheduling.preemption.history import KEPT, MOST, PreemptionHistory
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

NOBODY = model.NEVER_PREEMPTED


def past(*preemptors: str, before: model.PastPreemptions = NOBODY) -> model.PastPreemptions:
    """What a workload remembers that these preempted in turn; they are all there."""
    for one in preemptors:
        before = history.with_one(before, one, preemptors)
    return before


def known(**preempted_by: model.PastPreemptions) -> PreemptionHistory:
    """The history of workloads by name."""
    made = PreemptionHistory()
    for name, value in preempted_by.items():
        made.set_workload(waiting(name, "b", 1, preempted_by=value))
    return made


def test_a_victim_is_spared_after_the_last_chance():
    made = known(b=past(*["a"] * (MOST - 1)))
    assert made.spared("a") == frozenset()

    made.set_workload(waiting("b", "b", 1, preempted_by=past(*["a"] * MOST)))

    assert made.spared("a") == {WorkloadKey("default", "b")}
    assert made.spared("b") == frozenset()


def test_the_past_goes_with_the_victim():
    made = known(b=past(*["a"] * MOST), c=past(*["a"] * MOST))

    made.forget(WorkloadKey("default", "b"))
    assert made.spared("a") == {WorkloadKey("default", "c")}

    made.set_workload(waiting("c", "b", 1))
    assert made.spared("a") == frozenset()


def test_the_latest_preemptor_comes_last():
    assert past("a", "b", "a").counts == (("b", 1), ("a", 2))


def test_of_too_many_preemptors_those_are_forgotten_that_are_gone():
    full = past(*(f"p{index}" for index in range(KEPT)))
    there = {f"p{index}" for index in range(KEPT) if index not in {3, 5}}

    found = history.with_one(full, "new", there)

    listed = [name for name, _ in found.counts]
    assert len(listed) == KEPT
    assert (listed[-1], "p3" in listed, "p5" in listed) == ("new", False, True)
    assert found.others == 0


def test_of_too_many_preemptors_that_are_there_the_first_count_as_one():
    everybody = [f"p{index}" for index in range(KEPT)]
    full = past("p0", *everybody)

    found = past(*everybody, "new", before=full)

    assert len(found.counts) == KEPT
    assert found.others == 3
    assert [found.by(one) for one in ("p0", "unseen", "p1", "new")] == [3, 3, 2, 1]
    made = known(victim=found)
    assert made.spared("unseen") == {WorkloadKey("default", "victim")}
    assert made.spared("p1") == frozenset()


@given(st.lists(st.integers(0, KEPT + 3), max_size=200))
def test_no_count_of_a_preemptor_that_is_there_falls(turns):
    """So every eviction uses up one of finitely many chances, however few are written down."""
    everybody = [f"p{index}" for index in range(KEPT + 4)]
    now = past(*everybody)
    for turn in turns:
        before = {one: now.by(one) for one in everybody}
        now = history.with_one(now, everybody[turn], everybody)

        assert now.by(everybody[turn]) == before[everybody[turn]] + 1
        assert all(now.by(one) >= count for one, count in before.items())
        assert len(now.counts) <= KEPT


def test_an_eviction_says_what_its_victim_is_to_remember():
    made = world(
        cluster_queue("b", 1, within=LOWER),
        holding("low", "b", 1, preempted_by=past("default/other", "default/rs")),
        waiting("high", "b", 1, priority=1, pod_controller="rs"),
    )

    (found,) = made.cycle().evicted

    assert found.preempted_by.counts == (("default/other", 1), ("default/rs", 2))


def test_whoever_comes_in_the_place_of_a_preemptor_has_no_more_chances():
    used_up = past(*["default/rs"] * MOST)
    made = world(
        cluster_queue("b", 1, within=LOWER),
        holding("low", "b", 1, preempted_by=used_up),
        waiting("high", "b", 1, priority=1, pod_controller="rs"),
    )
    assert evicted(made.cycle()) == {}


def test_what_a_workload_may_not_preempt_its_equals_may():
    used_up = past(*["default/rs"] * MOST)
    made = world(
        cluster_queue("b", 1, within=LOWER),
        holding("low", "b", 1, preempted_by=used_up),
        waiting("high", "b", 1, priority=1, pod_controller="rs"),
        waiting("other", "b", 1, priority=1, created=1),
    )

    found = [evicted(made.cycle()) for _ in range(2)]

    assert found == [{}, {"low": "InClusterQueue"}]


def test_a_lineage_is_one_of_a_namespace():
    """Whoever creates a pod may write any UID into it."""
    key = WorkloadKey("elsewhere", "pod")
    found = [replace(waiting("pod", "b", 1, pod_controller="rs"), key=one) for one in (
        key, key._replace(namespace="default"))]  # fmt: skip
    assert found[0].lineage != found[1].lineage


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
            victim = made.state.workload(evict.workload)
            assert victim is not None
            victim = replace(victim, preempted_by=evict.preempted_by)
            for seen in (victim, replace(victim, reservation=None)):  # admitted, then gone
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
