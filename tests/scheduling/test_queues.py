"""Where waiting workloads stand, and what lets them try again."""

from dataclasses import replace

import pytest

from admission.base.conditions import WaitReason
from admission.base.names import (
    ClusterQueueName,
    CohortName,
    FlavorName,
    LocalQueueKey,
    Uid,
    WorkloadKey,
)
from admission.base.selectors import Requirement
from admission.reasons import kueue
from admission.scheduling import model
from tests.builders.scheduling import (
    NOW_US,
    SECOND_US,
    cluster_queue,
    cohort,
    holding,
    pod_set,
    waiting,
)
from tests.scheduling.worlds import World, admitted, waits, world

SOLO = ClusterQueueName("solo")
LOCAL = LocalQueueKey("default", "solo")
NEW = WorkloadKey("default", "new")


def key(name: str) -> WorkloadKey:
    return WorkloadKey("default", name)


def change(made: World, name: str, **changes: object) -> None:
    """Shows a workload as it would be after a write."""
    known = made.state.workload(key(name))
    assert known is not None
    made.state.set_workload(replace(known, **changes), NOW_US + made.clock * SECOND_US)  # type: ignore[arg-type]


def test_the_order_is_priority_then_time_then_uid():
    made = world(
        cluster_queue("solo", 0),
        waiting("d", "solo", 1, created=-1),
        waiting("c", "solo", 1, created=-2),
        waiting("b", "solo", 1, created=-2),
        waiting("a", "solo", 1, priority=1),
    )

    assert made.active("solo") == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("reason", "by_eviction", "order"),
    [
        ("Preempted", True, ["old", "new"]),
        ("PodsReadyTimeout", True, ["new", "old"]),
        ("PodsReadyTimeout", False, ["old", "new"]),
        ("AdmissionCheck", False, ["new", "old"]),
    ],
)
def test_only_some_evictions_cost_the_place_in_line(reason, by_eviction, order):
    since = NOW_US - 10 * SECOND_US
    made = world(
        cluster_queue("solo", 0),
        waiting(
            "old", "solo", 1, created=-50, eviction=model.Eviction(reason=reason, since_us=since)
        ),
        waiting("new", "solo", 1, created=-20),
        config=model.Config(requeue_by_eviction=by_eviction),
    )

    assert made.active("solo") == order


@pytest.mark.parametrize(
    ("changes", "queued"),
    [
        ({}, True),
        ({"active": False}, False),
        ({"finished": True}, False),
        ({"held": True}, False),
    ],
)
def test_who_may_queue(changes, queued):
    made = world(cluster_queue("solo", 0), waiting("new", "solo", 1, **changes))

    assert made.state.pending_order(SOLO) == ((NEW,) if queued else ())


def parked() -> World:
    """A full queue with one parked workload, in a tree with another queue."""
    made = world(
        cohort("all"),
        cluster_queue("solo", 4, cohort="all"),
        cluster_queue("other", 0, cohort="all"),
        holding("running", "solo", 4),
        holding("beside", "other", 0),
        waiting("new", "solo", 3),
    )
    made.cycle()
    assert made.active("solo") == []
    return made


def test_nothing_is_tried_without_an_event():
    made = parked()

    assert not made.state.has_work(NOW_US + 3600 * SECOND_US)


def test_an_equal_value_is_no_event():
    made = parked()

    made.state.set_cluster_queue(cluster_queue("solo", 4, cohort="all"))
    change(made, "running")
    made.state.set_namespace("default", {"label": "that no queue selects by"})

    assert made.active("solo") == []


EVENTS = {
    "a workload of the queue goes": lambda made: made.finish("running"),
    "a workload of the tree goes": lambda made: made.finish("beside"),
    "a workload is finished": lambda made: change(made, "running", finished=True),
    "a workload is deactivated": lambda made: change(made, "running", active=False),
    "a reservation is given back": lambda made: change(made, "running", reservation=None),
    "pods become reclaimable": lambda made: change(
        made, "running", pod_sets=(replace(pod_set(count=1), reclaimable=1),)
    ),
    "the queue changes": lambda made: made.state.set_cluster_queue(
        cluster_queue("solo", 5, cohort="all")
    ),
    "another queue of the tree changes": lambda made: made.state.set_cluster_queue(
        cluster_queue("other", 1, cohort="all")
    ),
    "another queue leaves the tree": lambda made: made.state.set_cluster_queue(
        cluster_queue("other", 0)
    ),
    "another queue moves to another tree": lambda made: made.state.set_cluster_queue(
        cluster_queue("other", 0, cohort="elsewhere")
    ),
    "another queue of the tree is deleted": lambda made: made.state.drop_cluster_queue(
        ClusterQueueName("other")
    ),
    "the cohort is deleted": lambda made: made.state.drop_cohort(CohortName("all")),
    "the cohort changes": lambda made: made.state.set_cohort(cohort("all", 2)),
    "the flavor changes": lambda made: made.state.set_resource_flavor(
        model.ResourceFlavor(name=FlavorName("std"), node_labels={"a": "b"})
    ),
    "it changes itself": lambda made: change(made, "new", priority=3),
}


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS.keys())
def test_what_lets_a_parked_workload_try_again(event):
    made = parked()

    event(made)

    assert "new" in made.active("solo")


def test_a_cohort_that_moves_lets_those_that_it_leaves_try_again():
    made = world(
        cohort("top", 4),
        cohort("greedy", parent="top"),
        cluster_queue("borrows", 0, cohort="greedy"),
        cluster_queue("solo", 0, cohort="top"),
        holding("running", "borrows", 4),
        waiting("new", "solo", 3),
    )
    made.cycle()
    assert made.active("solo") == []

    made.state.set_cohort(cohort("greedy", parent="elsewhere"))

    assert made.active("solo") == ["new"]


def test_another_tree_is_left_alone():
    made = world(
        cluster_queue("solo", 4),
        cluster_queue("far", 4),
        holding("running", "far", 4),
        waiting("new", "solo", 5),
    )
    made.cycle()

    made.finish("running")

    assert made.active("solo") == []


def test_events_are_gathered_for_the_length_of_a_batch():
    made = world(
        cluster_queue("solo", 4),
        holding("running", "solo", 4),
        waiting("new", "solo", 3),
        config=model.Config(retry_batch_us=SECOND_US),
    )
    assert made.state.next_wakeup_us() == SECOND_US  # of the queue's creation, at time 0
    made.cycle()

    made.state.drop_workload(key("running"), NOW_US)

    assert made.state.next_wakeup_us() == NOW_US + SECOND_US
    assert not made.state.has_work(NOW_US + SECOND_US - 1)
    assert made.state.has_work(NOW_US + SECOND_US)


@pytest.mark.parametrize("strict", [True, False])
def test_a_backoff_parks_even_in_a_strict_queue(strict):
    until = NOW_US + 5 * SECOND_US
    made = world(
        cluster_queue("solo", 4, strict=strict), waiting("new", "solo", 3, requeue_at_us=until)
    )

    assert not made.cycle().admitted
    assert made.state.next_wakeup_us() == until
    assert [one.workload.name for one in made.state.run_cycle(until).admitted] == ["new"]


def test_no_event_frees_a_workload_that_was_not_requeued():
    made = world(cluster_queue("solo", 4), waiting("new", "solo", 3, requeued=False))
    made.add(waiting("gone", "solo", 9))
    made.finish("gone")

    assert made.active("solo") == []

    change(made, "new", requeued=True)

    assert made.active("solo") == ["new"]


def test_a_newcomer_equal_to_one_that_failed_is_parked_on_arrival():
    made = parked()

    made.add(waiting("twin", "solo", 3, created=5), waiting("small", "solo", 2, created=5))

    assert made.active("solo") == ["small"]
    bypassed = made.state.bypassed(key("twin"))
    assert bypassed is not None
    assert (bypassed.workload, bypassed.reason) == (key("twin"), "WaitingForQuota")
    assert kueue.message(bypassed.why).endswith("3 more needed")
    assert [one.holders for one in bypassed.shortages] == [((SOLO, 4000),)]
    assert made.state.bypassed(NEW) is None


def test_a_newcomer_equal_to_one_that_failed_is_told_the_numbers_of_now():
    made = world(
        cluster_queue("solo", 8), holding("running", "solo", 4), waiting("big", "solo", 7)
    )
    made.cycle()
    change(made, "big", pod_sets=waiting("big", "solo", 3).pod_sets)
    assert [one.workload.name for one in made.cycle().admitted] == ["big"]

    made.add(waiting("big2", "solo", 7, created=5))
    told = made.state.bypassed(key("big2"))

    assert told is not None
    assert made.active("solo") == []
    assert kueue.message(told.why).endswith("6 more needed")
    assert [(one.available, one.missing) for one in told.shortages] == [(1000, 6000)]
    assert [one.holders for one in told.shortages] == [((SOLO, 7000),)]
    assert made.state.bypassed(key("big2")) == told


def test_what_is_said_of_one_holds_for_all_its_equals_and_is_told_once():
    twins = [waiting(name, "solo", 3, created=at) for at, name in enumerate(("a", "b", "c"))]
    made = world(
        cluster_queue("solo", 4),
        holding("running", "solo", 4),
        waiting("other", "solo", 2),
        *twins,
    )

    told = made.cycle().bypassed
    told += made.cycle().bypassed
    said = made.state.bypassed(key("b"))

    assert [one.workload.name for one in told] == ["b", "c"]
    assert said in told
    made.finish("running")
    made.add(holding("running", "solo", 4))
    assert made.cycle().bypassed == ()


def test_another_reason_is_told_to_all_equals_and_a_result_to_newcomers():
    twins = [waiting(name, "solo", 3, created=at) for at, name in enumerate(("a", "b"))]
    made = world(cluster_queue("solo", 4), holding("running", "solo", 4), *twins)
    assert [one.reason for one in made.cycle().bypassed] == ["WaitingForQuota"]

    made.state.set_cluster_queue(cluster_queue("solo", 2), NOW_US)
    made.add(waiting("c", "solo", 3, created=9))
    told = made.cycle().bypassed

    assert {one.workload.name: one.reason for one in told} == dict.fromkeys(
        ["b", "c"], "ExceedsMaxQuota"
    )


def test_a_write_to_a_workload_that_heard_the_result_does_not_make_it_news():
    twins = [waiting(name, "solo", 3, created=at) for at, name in enumerate(("a", "b"))]
    made = world(cluster_queue("solo", 4), holding("running", "solo", 4), *twins)
    assert made.cycle().bypassed != ()

    made.state.set_cluster_queue(cluster_queue("solo", 4, 1), NOW_US)  # tried again
    change(made, "b", gates="")

    assert made.cycle().bypassed == ()


def test_a_skipped_workload_stays_in_line():
    made = world(
        cluster_queue("amber", 4, cohort="q"),
        cluster_queue("beryl", 4, cohort="q"),
        waiting("a", "amber", 8, created=-2),
        waiting("b", "beryl", 8, created=-1),
    )

    assert kueue.message(waits(made.cycle())["b"].why).startswith("Workload no longer fits")
    assert made.active("beryl") == ["b"]


def test_a_wrong_namespace_parks_even_in_a_strict_queue():
    selector = model.Selector((Requirement("team", "In", ("a",)),))
    queue = replace(cluster_queue("solo", 4, strict=True), namespace_selector=selector)
    made = world(queue, waiting("new", "solo", 1))

    found = waits(made.cycle())["new"]

    assert (found.reason, kueue.message(found.why)) == (
        WaitReason.MISCONFIGURED,
        "workload namespace doesn't match ClusterQueue selector",
    )
    assert made.active("solo") == []

    made.state.set_namespace("default", {"team": "a"})
    assert admitted(made.cycle()) == ["new"]


def test_an_invalid_workload_blocks_a_strict_queue_only():
    def tried(*, strict: bool) -> list[str]:
        made = world(
            cluster_queue("solo", 4, strict=strict),
            waiting("bad", "solo", 1, created=-5, invalid="resources validation failed: ..."),
            waiting("good", "solo", 1),
        )
        return [name for _ in range(2) for name in admitted(made.cycle())]

    assert tried(strict=True) == []
    assert tried(strict=False) == ["good"]


def test_an_assumed_admission_survives_an_older_event():
    made = world(cluster_queue("solo", 4), waiting("new", "solo", 3))
    made.cycle()

    made.add(waiting("new", "solo", 3, job_uid="later"))

    assert made.node("solo").usage != {}
    assert made.state.pending_order(SOLO) == ()


def test_a_failed_write_gives_quota_and_place_back():
    made = world(cluster_queue("solo", 4), waiting("new", "solo", 3))
    made.cycle()

    made.state.forget(NEW, NOW_US)

    assert made.state.cluster_queue_status(SOLO).reserving == 0
    assert admitted(made.cycle()) == ["new"]


def test_a_workload_made_anew_is_not_the_one_assumed():
    made = world(cluster_queue("solo", 4), waiting("new", "solo", 3))
    made.cycle()

    made.state.set_workload(replace(waiting("new", "solo", 3), uid=Uid("other")), NOW_US)

    assert made.state.cluster_queue_status(SOLO).reserving == 0
    assert made.active("solo") == ["new"]


def test_trees_take_turns_when_a_cycle_is_limited():
    names = [f"q{n}" for n in range(4)]
    made = world(
        *(cluster_queue(name, 4, cohort=f"tree-{name[1:]}") for name in names),
        *(waiting(f"w-{name}", name, 1) for name in names),
        config=model.Config(heads_per_cycle=1),
    )

    assert [admitted(made.cycle()) for _ in names] == [[f"w-{name}"] for name in names]


@pytest.mark.parametrize(
    ("stop", "reason", "message"),
    [
        ("LocalQueue", WaitReason.SUSPENDED, "LocalQueue solo is inactive"),
        ("ClusterQueue", WaitReason.SUSPENDED, "ClusterQueue solo is inactive"),
        ("no LocalQueue", WaitReason.MISCONFIGURED, "LocalQueue solo doesn't exist"),
        ("no ClusterQueue", WaitReason.MISCONFIGURED, "ClusterQueue solo doesn't exist"),
        ("inactive", WaitReason.DEACTIVATED, "The workload is deactivated"),
    ],
)
def test_why_a_workload_is_not_even_tried(stop, reason, message):
    made = world(cluster_queue("solo", 4), waiting("new", "solo", 1))
    assert made.state.blocker(NEW, NOW_US) is None
    held_up = model.LocalQueue(key=LOCAL, cluster_queue=SOLO, stop_policy=model.StopPolicy.HOLD)
    match stop:
        case "LocalQueue":
            made.state.set_local_queue(held_up)
        case "ClusterQueue":
            made.state.set_cluster_queue(
                cluster_queue("solo", 4, stop_policy=model.StopPolicy.HOLD)
            )
        case "no LocalQueue":
            made.state.drop_local_queue(LOCAL)
        case "no ClusterQueue":
            made.state.drop_cluster_queue(SOLO)
        case _:
            change(made, "new", active=False)

    found = made.state.blocker(NEW, NOW_US)

    assert found is not None
    assert (found.reason, kueue.message(found.why)) == (reason, message)
    assert not made.cycle().admitted


def test_one_at_a_time_waits_for_the_pods_of_the_last():
    made = world(
        cluster_queue("solo", 4),
        cluster_queue("other", 4),
        waiting("a", "solo", 1, created=-2),
        waiting("b", "other", 1, created=-1),
        config=model.Config(one_at_a_time=True),
    )

    result = made.cycle()

    assert admitted(result) == ["a"]
    found = waits(result)["b"]
    assert (found.reason, kueue.message(found.why)) == (
        "WaitingForPodsReady",
        "waiting for all admitted workloads to be in PodsReady condition",
    )
    assert not made.state.has_work(NOW_US + SECOND_US)
    change(made, "a", pods_ready=True)
    assert made.state.has_work(NOW_US + SECOND_US)
    assert admitted(made.cycle()) == ["b"]


def parked_in(made: World) -> dict[str, int]:
    """How many of each LocalQueue of two are parked, as its status says."""
    return {
        name: made.state.local_queue_status(LocalQueueKey("default", name)).parked
        for name in ("solo", "beside")
    }


def changed_locals(made: World) -> set[str]:
    return {local.name for local in made.state.take_changed().local_queues}


def of_two_local_queues() -> World:
    """Equal workloads of two LocalQueues, the first of which was tried in vain."""
    made = world(
        cluster_queue("solo", 4),
        holding("running", "solo", 4),
        *(waiting(name, "solo", 3, created=at) for at, name in enumerate(("a", "b"))),
    )
    beside = LocalQueueKey("default", "beside")
    made.state.set_local_queue(model.LocalQueue(key=beside, cluster_queue=made.node("solo").name))
    for at, name in enumerate(("c", "d", "e"), 5):
        made.add(replace(waiting(name, "solo", 3, created=at), queue=beside))
    return made


def test_parked_workloads_are_counted_by_local_queue():
    made = of_two_local_queues()
    assert parked_in(made) == {"solo": 0, "beside": 0}

    made.cycle()
    assert parked_in(made) == {"solo": 2, "beside": 3}

    made.finish("a", "c")
    assert parked_in(made) == {"solo": 1, "beside": 2}

    made.add(waiting("f", "solo", 3, created=9), waiting("g", "solo", 2, created=9))
    assert parked_in(made) == {"solo": 2, "beside": 2}

    made.finish("running")
    made.cycle()
    made.cycle()
    order = {key.name for key in made.state.pending_order(SOLO)}
    parked_now = order - set(made.active("solo"))
    assert parked_in(made) == {
        "solo": len(parked_now & {"b", "f", "g"}), "beside": len(parked_now & {"d", "e"})
    }  # fmt: skip


def test_who_is_parked_with_an_equal_of_another_local_queue_changes_its_own():
    made = of_two_local_queues()
    changed_locals(made)

    made.cycle()
    assert changed_locals(made) == {"solo", "beside"}

    made.cycle()
    assert changed_locals(made) == set()


def test_a_queue_that_gets_another_strategy_counts_who_is_parked_anew():
    made = of_two_local_queues()
    made.cycle()
    changed_locals(made)

    made.state.set_cluster_queue(cluster_queue("solo", 4, strict=True), NOW_US)

    assert {"solo", "beside"} <= changed_locals(made)
    parked_keys = {key.name for key in made.state.pending_order(SOLO)}
    assert sum(parked_in(made).values()) == len(parked_keys - set(made.active("solo")))
