"""Laws that hold in every world."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from admission.base.names import FlavorResource, LocalQueueKey, WorkloadKey
from admission.scheduling import fairshare, model, quota
from admission.scheduling.decisions import CycleResult
from admission.scheduling.hierarchy import QuotaNode
from admission.scheduling.preemption.history import MOST
from admission.scheduling.state import SchedulerState
from tests.builders.scheduling import cluster_queue, waiting
from tests.properties.engine_worlds import FLAVORS, Cast, at, casts
from tests.scheduling.worlds import world

CYCLES = 6


def load(cast: Cast, order: random.Random | None = None) -> SchedulerState:
    """A State of the cast, told in some order."""
    state = SchedulerState(cast.config)
    calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
    calls += [(state.set_namespace, ("default", {}))]
    calls += [(state.set_resource_flavor, (model.ResourceFlavor(name=f),)) for f in FLAVORS]
    calls += [(state.set_cohort, (one,)) for one in cast.cohorts]
    for one in cast.queues:
        key = LocalQueueKey("default", one.name)
        local = model.LocalQueue(key=key, cluster_queue=one.name)
        calls += [(state.set_cluster_queue, (one,)), (state.set_local_queue, (local,))]
    calls += [(state.set_workload, (one, at(0))) for one in cast.workloads]
    if order is not None:
        order.shuffle(calls)
    for call, arguments in calls:
        call(*arguments)
    return state


def observe(state: SchedulerState, result: CycleResult, second: int) -> None:
    """What a cycle decided comes back: admissions are written, victims leave and queue again."""
    for admit in result.admitted:
        known = state.workload(admit.workload)
        assert known is not None
        state.set_workload(replace(known, eviction=None), at(second))
    for evict in result.evicted:
        known = state.workload(evict.workload)
        assert known is not None
        left = replace(known, reservation=None, preempted_by=evict.preempted_by)
        state.set_workload(left, at(second))


def usages(state: SchedulerState) -> dict[str, dict[FlavorResource, int]]:
    state.forest.refresh()
    nodes: list[tuple[str, QuotaNode]] = [
        *state.forest.queues.items(),
        *state.forest.cohorts.items(),
    ]
    return {
        str(name): {fr: used for fr, used in node.usage.items() if used} for name, node in nodes
    }


@given(casts())
@settings(deadline=None, max_examples=150)
def test_usage_is_never_negative_and_equals_the_holdings(cast):
    state = load(cast)
    for second in range(CYCLES):
        observe(state, state.run_cycle(at(second)), second)

        for name, node in state.forest.queues.items():
            wanted: dict[FlavorResource, int] = {}
            for workload in node.workloads.values():
                for fr, value in workload.usage.items():
                    wanted[fr] = wanted.get(fr, 0) + value
            assert usages(state)[name] == {fr: v for fr, v in wanted.items() if v}
        for cohort in state.forest.cohorts.values():
            assert all(used >= 0 for used in cohort.usage.values())


@given(casts())
@settings(deadline=None, max_examples=150)
def test_a_cycle_leaves_the_trees_to_whoever_applies_its_decisions(cast):
    """Cohort usage after incremental changes equals usage derived from scratch."""
    state = load(cast)
    for second in range(CYCLES):
        observe(state, state.run_cycle(at(second)), second)
        found = usages(state)

        for node in state.forest.queues.values():
            state.forest.touch(node)

        assert usages(state) == found


@given(casts())
@settings(deadline=None, max_examples=150)
def test_quota_is_never_exceeded(cast):
    state = load(cast)
    for second in range(CYCLES):
        observe(state, state.run_cycle(at(second)), second)

        for node in state.forest.queues.values():
            for fr, used in node.usage.items():
                assert used <= quota.potential(node, fr)
                assert quota.available(node, fr) >= 0


@given(casts())
@settings(deadline=None, max_examples=100)
def test_removing_everybody_restores_an_empty_world(cast):
    state = load(cast)
    for second in range(3):
        state.run_cycle(at(second))

    for one in cast.workloads:
        state.drop_workload(one.key, at(3))

    assert usages(state) == {name: {} for name in usages(state)}
    assert not state.has_work(at(4))
    assert all(not node.workloads for node in state.forest.queues.values())


@given(casts(), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=150)
def test_the_order_of_arrival_changes_no_decision(cast, order):
    told, shuffled = load(cast), load(cast, order)

    for second in range(CYCLES):
        results = [state.run_cycle(at(second)) for state in (told, shuffled)]

        assert results[0].admitted == results[1].admitted
        assert results[0].evicted == results[1].evicted
        assert [one.reason for one in results[0].waiting] == [w.reason for w in results[1].waiting]
        for state, result in zip((told, shuffled), results, strict=True):
            observe(state, result, second)


@given(casts())
@settings(deadline=None, max_examples=100)
def test_a_state_built_from_what_is_stored_decides_the_same(cast):
    """After a restart scan memory, stickiness and who was parked are lost; usage is not."""
    state = load(cast)
    for second in range(3):
        observe(state, state.run_cycle(at(second)), second)
    stored = [found for one in cast.workloads if (found := state.workload(one.key)) is not None]

    rebuilt = load(replace(cast, workloads=stored))

    assert usages(rebuilt) == usages(state)
    for name in state.forest.queues:
        left = {key.name for key in state.pending_order(name)}
        assert left == {key.name for key in rebuilt.pending_order(name)}
        # Who is parked is not stored: after a restart everybody is tried once more.
        shown = [
            replace(one.cluster_queue_status(name), parked=0, active_classes=0, parked_classes=0)
            for one in (state, rebuilt)
        ]
        assert shown[0] == shown[1]


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=8),
    st.integers(0, 12),
    st.integers(0, 12),
)
def test_more_quota_never_loses_an_admission_in_a_lone_strict_queue(sizes, nominal, more):
    def admitted(cores: int) -> set[str]:
        heads = [waiting(f"w{i}", "solo", size, created=i) for i, size in enumerate(sizes)]
        made = world(cluster_queue("solo", cores, strict=True), *heads)
        return {one.workload.name for _ in sizes for one in made.cycle().admitted}

    assert admitted(nominal) <= admitted(nominal + more)


def test_in_a_best_effort_queue_more_quota_can_lose_an_admission():
    def admitted(cores: int) -> set[str]:
        heads = [waiting(f"w{i}", "solo", size, created=i) for i, size in enumerate((5, 2, 2))]
        made = world(cluster_queue("solo", cores), *heads)
        return {one.workload.name for _ in range(4) for one in made.cycle().admitted}

    assert admitted(4) == {"w1", "w2"}
    assert admitted(5) == {"w0"}


@given(casts(most=8))
@settings(deadline=None, max_examples=100)
def test_a_node_borrows_if_it_uses_more_than_its_quota_whatever_its_share(cast):
    state = load(replace(cast, config=model.Config(fair_sharing=model.FairSharing())))
    for second in range(3):
        observe(state, state.run_cycle(at(second)), second)

    for node in state.forest.queues.values():
        share = fairshare.of(node)
        borrows = any(
            used > node.subtree.get(fr, 0) and fr in node.subtree
            for fr, used in node.usage.items()
        )
        assert share.borrows == (node.parent is not None and borrows)
        assert share.value() >= 0
        assert share.borrows or share.value() == 0


@given(casts(most=6))
@settings(deadline=None, max_examples=100)
def test_every_eviction_uses_up_a_chance_of_its_pair(cast):
    """The sum over all pairs of the chances left falls with every eviction, so they end."""
    state = load(cast)
    chances: dict[tuple[WorkloadKey, WorkloadKey], int] = {}
    for second in range(30):
        result = state.run_cycle(at(second))
        for evict in result.evicted:
            pair = (evict.preemptor, evict.workload)
            chances[pair] = chances.get(pair, MOST) - 1
        observe(state, result, second)

    assert all(left >= 0 for left in chances.values())
