"""A workload slice is admitted in the place of another one of its owner, and takes its quota."""

from dataclasses import replace
from typing import Any

import pytest

from admission.base.names import ClusterQueueName, WorkloadKey
from admission.reasons import kueue
from admission.scheduling import model
from tests.builders.scheduling import (
    ANY,
    LOWER,
    cluster_queue,
    cohort,
    group,
    pod_set,
    waiting,
)
from tests.scheduling.worlds import World, admitted, evicted, flavors_of, waits, world

TWO = group({"small": {"cpu": (4,)}, "large": {"cpu": (20,)}})


def job(
    name: str, pods: int, *, of: str = "", owner: str = "job", cpu: Any = 1, **more: Any
) -> model.Workload:
    """A workload of an owner that has so many pods."""
    made = waiting(name, "q", sets=[pod_set(count=pods, cpu=cpu)], **more)
    return replace(made, owner=owner, replaces=WorkloadKey("default", of) if of else None)


def written(there: World, name: str) -> model.Workload:
    """A workload as it is after its admission was written."""
    found = there.state.workload(WorkloadKey("default", name))
    assert found is not None
    return found


def used(there: World) -> int:
    """Cores that the queue is charged for."""
    node = there.state.forest.queues[ClusterQueueName("q")]
    return sum(node.usage.values()) // 1000


def count(there: World, name: str) -> int:
    held = written(there, name).reservation
    return 0 if held is None else held.pod_sets[0].count


def grown(quota: int = 10, to: int = 10, **more: Any) -> World:
    """A job of three pods that was admitted, and a slice with which it would have more."""
    there = world(cluster_queue("q", quota, **more), job("first", 3))
    there.cycle()
    there.add(written(there, "first"))
    there.add(job("next", to, of="first", created=1))
    return there


def test_a_slice_needs_quota_for_what_it_has_more_and_counts_instead_of_the_first():
    there = grown()
    assert used(there) == 3
    assert admitted(there.cycle()) == ["next"]
    assert (used(there), count(there, "next")) == (10, 10)
    assert there.cycle().admitted == ()
    there.add(written(there, "next"), replace(written(there, "first"), finished=True))
    assert used(there) == 10
    there.finish("first")
    assert used(there) == 10
    there.finish("next")
    assert used(there) == 0


def test_a_slice_that_does_not_fit_waits_and_takes_nothing_from_the_first():
    there = grown(quota=9)
    found = waits(there.cycle())
    assert "1 more needed" in kueue.message(found["next"].why)
    assert used(there) == 3
    there.add(job("next", 9, of="first", created=1))
    assert admitted(there.cycle()) == ["next"]
    assert used(there) == 9


@pytest.mark.parametrize("pods", [3, 2])
def test_a_slice_without_more_pods_is_admitted_on_a_full_queue(pods: int):
    there = grown(quota=3, to=pods)
    assert admitted(there.cycle()) == ["next"]
    assert (used(there), count(there, "next")) == (pods, pods)


def test_an_admission_that_was_not_written_gives_the_first_its_quota_back():
    there = grown()
    there.cycle()
    there.state.forget(WorkloadKey("default", "next"))
    assert used(there) == 3
    assert admitted(there.cycle()) == ["next"]


def test_a_slice_that_goes_leaves_the_first_charged():
    there = grown()
    there.cycle()
    there.finish("next")
    assert used(there) == 3


@pytest.mark.parametrize(
    ("about", "slice_of"),
    {
        "of another owner": ({"owner": "other"}, "first"),
        "of no owner": ({"owner": ""}, "first"),
        "of what is not there": ({}, "nobody"),
        "with other pods": ({"cpu": 2}, "first"),
    }.values(),
    ids=["other owner", "no owner", "not there", "other pods"],
)
def test_a_slice_that_is_none_is_counted_in_full(about: dict[str, Any], slice_of: str):
    there = world(cluster_queue("q", 12), job("first", 3))
    there.cycle()
    there.add(written(there, "first"))
    there.add(job("next", 10, of=slice_of, created=1, **about))
    assert admitted(there.cycle()) == []
    assert used(there) == 3


def test_two_workloads_that_replace_each_other_are_both_charged():
    there = world(cluster_queue("q", 10), job("a", 3, of="b"), job("b", 4, of="a", created=1))
    there.cycle()
    there.cycle()
    assert used(there) == 7


def test_a_slice_stays_in_the_flavor_of_the_first():
    there = world(
        cluster_queue("q", groups=[TWO], scan=("TryNextFlavor",)),
        job("first", 3),
        flavors=("small", "large"),
    )
    assert flavors_of(there.cycle()) == {"first": "small"}
    there.add(written(there, "first"), job("next", 6, of="first", created=1))
    found = waits(there.cycle())["next"]
    assert "the pods that run are in flavor small" in kueue.message(found.why)
    there.add(job("next", 4, of="first", created=1))
    assert flavors_of(there.cycle()) == {"next": "small"}


def test_a_slice_of_which_the_first_was_told_to_leave_is_counted_in_full():
    there = grown(quota=12)
    leaving = model.Eviction(reason="Preempted", since_us=1)
    there.add(replace(written(there, "first"), eviction=leaving))
    assert admitted(there.cycle()) == []


def test_a_slice_preempts_others_but_never_the_first():
    there = world(cluster_queue("q", 10, within=LOWER), job("first", 3))
    there.cycle()
    there.add(written(there, "first"))
    there.add(job("low", 7, owner="other", priority=-5))
    there.cycle()
    there.add(written(there, "low"), job("next", 8, of="first", created=1, priority=9))
    assert evicted(there.cycle()) == {"low": "InClusterQueue"}
    assert used(there) == 10
    there.finish("low")
    assert admitted(there.cycle()) == ["next"]
    assert used(there) == 8


def test_a_workload_that_another_preempts_is_not_replaced_in_the_same_cycle():
    there = world(
        cohort("all"),
        cluster_queue("q", 0, cohort="all"),
        cluster_queue("lender", 10, cohort="all", reclaim=ANY),
        job("first", 3),
    )
    there.cycle()
    there.add(written(there, "first"))
    there.add(
        job("next", 5, of="first", created=1), waiting("owner", "lender", 9, created=2, priority=9)
    )
    result = there.cycle()
    assert evicted(result) == {"first": "InCohortReclamation"} or admitted(result) == ["next"]
    assert not (result.evicted and result.admitted)


def test_a_workload_that_was_replaced_is_not_preempted_in_the_same_cycle():
    there = world(
        cohort("all", 10),
        cluster_queue("q", 0, cohort="all"),
        cluster_queue("o", 0, cohort="all", reclaim=ANY, borrow=LOWER),
        job("first", 3),
    )
    there.cycle()
    there.add(written(there, "first"))
    there.add(
        job("next", 4, of="first", created=1, priority=9),
        waiting("other", "o", 8, created=2, priority=8),
    )
    result = there.cycle()
    assert (admitted(result), evicted(result)) == (["next"], {})
    assert used(there) == 4


def test_reclaimed_pods_of_the_first_are_not_counted_as_those_of_the_next():
    there = grown(quota=9)
    first = written(there, "first")
    there.add(replace(first, pod_sets=(replace(first.pod_sets[0], reclaimable=1),)))
    assert used(there) == 2
    assert admitted(there.cycle()) == []
    there.add(job("next", 9, of="first", created=1))
    assert admitted(there.cycle()) == ["next"]
    assert used(there) == 9


def test_what_is_reserved_beyond_the_pods_that_are_left_is_free():
    there = world(cluster_queue("q", 10), job("first", 10))
    there.cycle()
    first = written(there, "first")
    there.add(replace(first, pod_sets=(replace(first.pod_sets[0], count=4),)))
    assert used(there) == 4
    there.add(job("other", 6, owner="x"))
    assert admitted(there.cycle()) == ["other"]
    there.add(job("next", 5, of="first", created=1))
    assert "1 more needed" in kueue.message(waits(there.cycle())["next"].why)
