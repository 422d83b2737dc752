"""A head about which an error ends the decision: it is set aside, and all others go on."""

from typing import Any

import pytest

from admission.base.causes import SetAside
from admission.base.names import ClusterQueueName, LocalQueueKey, WorkloadKey
from admission.scheduling import cycle, model, nomination, ordering
from admission.scheduling.model import Config, FairSharing, FairStrategy
from admission.scheduling.preemption import candidates
from tests.builders.scheduling import (
    ANY,
    LOWER,
    NOW_US,
    SECOND_US,
    cluster_queue,
    cohort,
    group,
    holding,
    waiting,
)
from tests.scheduling.test_nodes_decide import GPU
from tests.scheduling.test_place_search import CPU, QUOTA, cluster, large_nodes, pods
from tests.scheduling.worlds import World, admitted, evicted, waits, world

FAIR = Config(fair_sharing=FairSharing(strategies=(FairStrategy.LESS_THAN_INITIAL_SHARE,)))


def failing_for(monkeypatch: Any, where: Any, name: str) -> None:
    """Have a function raise an error where any of its arguments is about a workload."""
    known = getattr(where, name)

    def fail(*args: Any, **kwargs: Any) -> Any:
        if any("odd" in repr(getattr(one, "head", one)) for one in args[1:]):
            raise RuntimeError("planted")
        return known(*args, **kwargs)

    monkeypatch.setattr(where, name, fail)


def usage(made: World) -> dict[str, Any]:
    names = [*made.state.forest.queues, *made.state.forest.cohorts]
    return {
        str(name): {fr: value for fr, value in made.node(name).usage.items() if value}
        for name in names
    }


def test_the_heads_of_other_queues_are_decided(monkeypatch):
    made = world(
        cluster_queue("a", 4), cluster_queue("b", 4),
        waiting("odd", "a", 1), waiting("plain", "b", 1),
    )  # fmt: skip
    failing_for(monkeypatch, nomination, "_assign")

    result = made.cycle()

    assert admitted(result) == ["plain"]
    assert waits(result)["odd"].why == SetAside()
    ((key, error),) = result.failed
    assert (key.name, str(error)) == ("odd", "planted")


@pytest.mark.parametrize("strict", [False, True])
def test_those_behind_it_in_its_queue_are_tried_at_once(monkeypatch, strict):
    made = world(
        cluster_queue("a", 4, strict=strict),
        waiting("odd", "a", 1),
        waiting("plain", "a", 1, created=1),
    )
    failing_for(monkeypatch, nomination, "_assign")

    assert admitted(made.cycle()) == []
    assert admitted(made.cycle()) == ["plain"]


def test_it_is_tried_again_after_a_minute_and_by_no_event_before(monkeypatch):
    made = world(
        cluster_queue("a", 4), waiting("odd", "a", 1), waiting("plain", "a", 1, created=1)
    )
    with monkeypatch.context() as patched:
        failing_for(patched, nomination, "_assign")
        began = made.clock
        made.cycle()
    made.cycle()
    made.finish("plain")

    while made.clock < began + 60:
        assert admitted(made.cycle()) == []
    assert made.state.next_wakeup_us() == NOW_US + (began + 60) * SECOND_US
    assert admitted(made.cycle()) == ["odd"]


def test_it_is_tried_again_when_it_asks_for_something_else(monkeypatch):
    made = world(cluster_queue("a", 4), waiting("odd", "a", 1))
    with monkeypatch.context() as patched:
        failing_for(patched, nomination, "_assign")
        made.cycle()

    made.add(waiting("odd", "a", 2))

    assert admitted(made.cycle()) == ["odd"]


@pytest.mark.parametrize(
    ("config", "calls"), [(None, 0), (None, 1), (None, 3), (FAIR, 0), (FAIR, 1)]
)
def test_victims_that_were_taken_out_are_back_where_an_error_ends_the_search(
    monkeypatch, config, calls
):
    made = world(
        cohort("all"),
        cluster_queue("a", 4, cohort="all", within=LOWER, reclaim=ANY),
        cluster_queue("b", 4, cohort="all"),
        holding("a1", "a", 2), holding("a2", "a", 1), holding("b1", "b", 3), holding("b2", "b", 2),
        waiting("odd", "a", 4, priority=9),
        config=config,
    )  # fmt: skip
    before = usage(made)
    known, left = candidates.fits, [calls]

    def fails_later(*args: Any, **kwargs: Any) -> bool:
        if not left[0]:
            raise RuntimeError("planted")
        left[0] -= 1
        return known(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(candidates, "fits", fails_later)
        assert waits(made.cycle())["odd"].why == SetAside()

    assert usage(made) == before


def test_what_nodes_have_free_is_as_before_where_an_error_ends_a_decision(monkeypatch):
    made = cluster(large_nodes(1), within=LOWER)
    made.world.add(waiting("low", "q", sets=(pods("main", 1, {GPU: 5, CPU: 1}),)))
    assert made.cycle().admitted
    made.world.add(waiting("odd", "q", sets=(pods("main", 1, {GPU: 8, CPU: 1}),), priority=9))
    before = dict(made.places.ledger.free("n00"))
    failing_for(monkeypatch, cycle, "evictions")

    assert waits(made.cycle())["odd"].why == SetAside()

    assert dict(made.places.ledger.free("n00")) == before


def test_its_victims_are_left_for_the_heads_after_it_and_it_holds_nothing_back(monkeypatch):
    made = world(
        cohort("all"),
        cluster_queue("a", 2, cohort="all", reclaim=ANY),
        cluster_queue("b", 2, cohort="all", reclaim=ANY),
        cluster_queue("c", 0, cohort="all"),
        holding("c1", "c", 4),
        waiting("odd", "a", 2, priority=9),
        waiting("plain", "b", 2),
    )
    before = usage(made)
    failing_for(monkeypatch, cycle, "evictions")

    result = made.cycle()

    assert waits(result)["odd"].why == SetAside()
    assert set(evicted(result)) == {"c1"}
    assert waits(result)["plain"].preempting == (WorkloadKey("default", "c1"),)
    assert usage(made) == before


def test_quota_and_places_that_it_was_counted_for_are_left_for_the_heads_after_it(monkeypatch):
    made = cluster(large_nodes(1), cohort="all")
    made.world.state.set_cluster_queue(cluster_queue("r", groups=[group(QUOTA)], cohort="all"))
    local = LocalQueueKey("default", "r")
    made.world.state.set_local_queue(
        model.LocalQueue(key=local, cluster_queue=ClusterQueueName("r"))
    )
    whole = (pods("main", 1, {GPU: 8, CPU: 75_000}),)
    made.world.add(waiting("odd", "q", sets=whole, priority=9), waiting("plain", "r", sets=whole))
    failing_for(monkeypatch, cycle, "_admission")

    result = made.world.cycle()

    assert waits(result)["odd"].why == SetAside()
    assert admitted(result) == ["plain"]


def test_what_is_counted_for_a_cycle_is_taken_back_where_the_order_of_heads_fails(monkeypatch):
    made = world(
        cluster_queue("a", 4), cluster_queue("b", 4),
        waiting("x", "a", 1), waiting("y", "b", 1),
    )  # fmt: skip
    before = usage(made)
    known = ordering.in_order

    def breaks(*args: Any) -> Any:
        yield next(iter(known(*args)))
        raise RuntimeError("planted")

    monkeypatch.setattr(ordering, "in_order", breaks)

    with pytest.raises(RuntimeError, match="planted"):
        made.cycle()

    assert usage(made) == before


def test_it_is_among_those_that_wait(monkeypatch):
    made = world(cluster_queue("a", 4), waiting("odd", "a", 1))
    failing_for(monkeypatch, nomination, "_assign")
    made.cycle()

    assert made.active("a") == []
    assert made.state.with_places_in(ClusterQueueName("a")) == (WorkloadKey("default", "odd"),)
