"""Caps of users and LocalQueues: who waits for them, and who goes on."""

from dataclasses import replace
from typing import Any

import pytest

from admission.base.names import LocalQueueKey, WorkloadKey
from admission.reasons import kueue
from admission.scheduling import model
from tests.builders.scheduling import CPU, NOW_US, SECOND_US, amount, cluster_queue, group, waiting
from tests.scheduling.worlds import World, admitted, evicted, waits, world


def cores(value: int) -> int:
    return amount(CPU, value)


def of(user: str, name: str, size: int, **fields: Any) -> model.Workload:
    return replace(waiting(name, "q", size, **fields), requester=user)


def capped(*workloads: model.Workload, per_user: int | None = 4, **fields: Any) -> World:
    """A world of one queue with 16 cores of which a user may hold some."""
    queue = cluster_queue("q", 16, **fields)
    if per_user is not None:
        queue = replace(queue, max_per_user={CPU: cores(per_user)})
    return world(queue, *workloads)


def all_cycles(made: World, most: int = 10) -> list[str]:
    """Return who was admitted until nobody is tried any more."""
    found: list[str] = []
    for _ in range(most):
        found += admitted(made.cycle())
    return found


def local(made: World, **caps: int) -> None:
    """Give the LocalQueue caps."""
    key = LocalQueueKey("default", "q")
    limits = {name: {CPU: cores(value)} for name, value in caps.items()}
    queue = model.LocalQueue(key=key, cluster_queue=key.name, **limits)  # type: ignore[arg-type]
    made.state.set_local_queue(queue, NOW_US + made.clock * SECOND_US)


@pytest.mark.parametrize("strict", [False, True])
def test_who_is_over_a_cap_waits_and_others_go_on(strict):
    made = capped(
        of("ann", "a1", 4, created=0),
        of("ann", "a2", 1, created=1),
        of("bob", "b1", 1, created=2),
        strict=strict,
    )

    first, second, third = made.cycle(), made.cycle(), made.cycle()

    assert admitted(first) == ["a1"]
    assert waits(second)["a2"].reason == "CapReached"
    assert admitted(third) == ["b1"]


def test_the_reason_names_user_cap_and_queue():
    made = capped(of("ann", "a1", 3, created=0), of("ann", "a2", 2, created=1))
    made.cycle()

    assert kueue.message(waits(made.cycle())["a2"].why) == (
        "Waits: you (ann) hold 3 of at most 4 cpu in queue q (max-per-user); asks 2 more"
    )


def test_more_than_a_cap_is_too_big_for_ever():
    made = capped(of("ann", "a1", 5))

    assert kueue.message(waits(made.cycle())["a1"].why) == (
        "Too big: asks 5 cpu, a user may hold at most 4 in queue q (max-per-user)"
    )


@pytest.mark.parametrize("strict", [False, True])
def test_what_is_too_big_blocks_nobody(strict):
    made = capped(of("ann", "a1", 5, created=0), of("bob", "b1", 1, created=1), strict=strict)

    assert all_cycles(made) == ["b1"]


@pytest.mark.parametrize(
    ("per_user", "in_use", "of_all", "wanted"),
    [
        (None, None, None, ["a1", "a2", "b1", "b2"]),
        (2, None, None, ["a1", "b1"]),
        (None, 2, None, ["a1"]),
        (None, 4, None, ["a1", "b1"]),
        (2, None, 4, ["a1", "b1"]),
        (4, None, 2, ["a1", "b1"]),
        (4, 6, 4, ["a1", "a2", "b1"]),
        (2, 2, 4, ["a1"]),
    ],
)
def test_the_stricter_cap_wins(per_user, in_use, of_all, wanted):
    """Caps of a user in the LocalQueue, of the LocalQueue, of a user in the ClusterQueue."""
    made = capped(per_user=of_all)
    limits = {"max_per_user": per_user, "max_in_use": in_use}
    local(made, **{name: value for name, value in limits.items() if value is not None})
    made.add(*(of(user, name, 2, created=int(name[1])) for user, name in (
        ("ann", "a1"), ("ann", "a2"), ("bob", "b1"), ("bob", "b2"),
    )))  # fmt: skip

    assert sorted(all_cycles(made)) == wanted


def test_a_user_is_counted_over_all_local_queues_of_the_cluster_queue():
    made = capped(per_user=4)
    other = LocalQueueKey("default", "other")
    made.state.set_local_queue(model.LocalQueue(key=other, cluster_queue=made.node("q").name))
    made.add(of("ann", "a1", 3), replace(of("ann", "a2", 2, created=1), queue=other))

    assert all_cycles(made) == ["a1"]


def test_a_user_is_counted_in_each_cluster_queue_on_its_own():
    queues = [
        replace(cluster_queue(name, 16), max_per_user={CPU: cores(4)}) for name in ("q", "r")
    ]
    made = world(*queues, of("ann", "a1", 4), replace(waiting("a2", "r", 4), requester="ann"))

    assert sorted(all_cycles(made)) == ["a1", "a2"]


def test_what_nobody_is_known_for_shares_one_cap_of_its_namespace():
    elsewhere = LocalQueueKey("elsewhere", "q")
    made = capped(of("", "u1", 3), of("unknown", "u2", 2, created=1))
    made.state.set_namespace("elsewhere", {})
    made.state.set_local_queue(model.LocalQueue(key=elsewhere, cluster_queue=made.node("q").name))
    made.add(replace(of("", "u3", 4), key=WorkloadKey("elsewhere", "u3"), queue=elsewhere))

    assert sorted(all_cycles(made)) == ["u1", "u3"]
    assert made.state.is_pending(WorkloadKey("default", "u2"))


def test_nobody_preempts_to_get_over_a_cap():
    policy = model.Preemption(within_cluster_queue=model.PreemptionPolicy.LOWER_PRIORITY)
    made = world(
        replace(cluster_queue("q", 4), max_per_user={CPU: cores(4)}, preemption=policy),
        of("ann", "a1", 2, priority=0),
        of("bob", "b1", 2, priority=0),
    )
    all_cycles(made)
    made.add(of("ann", "high", 3, priority=9))

    result = made.cycle()

    assert evicted(result) == {}
    assert waits(result)["high"].reason == "CapReached"


def test_within_the_cap_preemption_is_as_ever():
    policy = model.Preemption(within_cluster_queue=model.PreemptionPolicy.LOWER_PRIORITY)
    made = world(
        replace(cluster_queue("q", 4), max_per_user={CPU: cores(4)}, preemption=policy),
        of("bob", "b1", 4, priority=0),
    )
    made.cycle()
    made.add(of("ann", "high", 3, priority=9))

    assert list(evicted(made.cycle())) == ["b1"]


def test_what_leaves_lets_the_next_of_the_user_in():
    made = capped(of("ann", "a1", 4), of("ann", "a2", 4, created=1))
    assert all_cycles(made) == ["a1"]

    made.finish("a1")

    assert all_cycles(made) == ["a2"]


def test_what_is_evicted_counts_until_it_has_left():
    made = capped(of("ann", "a1", 4), of("ann", "a2", 4, created=1))
    made.cycle()
    held = made.state.workload(WorkloadKey("default", "a1"))
    assert held is not None
    made.add(replace(held, eviction=model.Eviction(reason="Preempted")))

    assert all_cycles(made) == []


@pytest.mark.parametrize("change", ["raised", "removed", "raised locally", "removed locally"])
def test_a_changed_cap_lets_those_who_waited_for_it_try_again(change):
    made = capped(of("ann", "a1", 2), of("ann", "a2", 2, created=1), per_user=None)
    queue = made.node("q").spec
    if "locally" in change:
        local(made, max_in_use=2)
    else:
        made.state.set_cluster_queue(replace(queue, max_per_user={CPU: cores(2)}))
    assert all_cycles(made) == ["a1"]

    if change == "raised":
        made.state.set_cluster_queue(replace(queue, max_per_user={CPU: cores(4)}))
    elif change == "removed":
        made.state.set_cluster_queue(queue)
    elif change == "raised locally":
        local(made, max_in_use=4)
    else:
        local(made)

    assert all_cycles(made) == ["a2"]


def test_a_cap_that_comes_later_stops_nothing_that_runs_and_admits_nothing_more():
    made = capped(of("ann", "a1", 4), of("bob", "b1", 4, created=1), per_user=None)
    assert all_cycles(made) == ["a1", "b1"]
    made.state.set_cluster_queue(replace(made.node("q").spec, max_per_user={CPU: cores(2)}))
    made.add(of("ann", "a2", 1), of("eve", "e1", 1))

    result = made.cycle(), made.cycle(), made.cycle()

    assert [name for one in result for name in (*admitted(one), *evicted(one))] == ["e1"]


def test_fewer_pods_start_where_a_cap_leaves_room_for_fewer():
    pods = model.PodSet(
        name="main",  # type: ignore[arg-type]
        count=6,
        min_count=2,
        requests={CPU: cores(1)},
    )
    made = capped(replace(waiting("a1", "q", sets=[pods]), requester="ann"), per_user=4)

    (admit,) = made.cycle().admitted

    assert admit.pod_sets[0].count == 4


def of_two_flavors(cheap: int) -> World:
    """A world in which a workload costs 6 cores in one flavor, and 3 in another one."""
    pods = model.PodSet(
        name="main",  # type: ignore[arg-type]
        requests={CPU: cores(6)},
        requests_by_flavor={"cheap": {CPU: cores(3)}},  # type: ignore[dict-item]
    )
    quotas = {"dear": {"cpu": (16,)}, "cheap": {"cpu": (cheap,)}}
    queue = cluster_queue("q", groups=[group(quotas)], max_per_user={CPU: cores(4)})
    asks = replace(waiting("a1", "q", sets=[pods]), requester="ann")
    return world(queue, asks, flavors=("dear", "cheap"))


def test_a_flavor_that_costs_less_is_tried_where_the_cap_has_no_room_for_the_first():
    (admit,) = of_two_flavors(16).cycle().admitted

    assert admit.pod_sets[0].flavors == {CPU: "cheap"}


def test_a_cap_that_only_one_flavor_exceeds_is_told_in_the_same_words():
    (wait,) = of_two_flavors(0).cycle().waiting

    assert (wait.reason, kueue.message(wait.why).partition(",")[0]) == (
        "ExceedsCap",
        "Too big: asks 6 cpu",
    )


def test_what_asks_for_nothing_that_is_capped_is_let_in():
    made = capped(of("ann", "a1", 4), of("ann", "none", 0, created=1))

    assert all_cycles(made) == ["a1", "none"]


def test_equal_workloads_of_others_are_not_parked_with_one_that_is_over_its_cap():
    made = capped(
        *(of(user, f"{user}{n}", 3, created=n) for n in (0, 1) for user in ("ann", "bob"))
    )

    assert sorted(all_cycles(made)) == ["ann0", "bob0"]


def test_a_newcomer_over_a_cap_is_told_what_is_held_now():
    made = capped(of("ann", "a1", 2), of("ann", "a2", 3, created=1))
    all_cycles(made)
    made.add(of("ann", "a3", 1, created=2))
    assert all_cycles(made) == ["a3"]

    made.add(of("ann", "a4", 3, created=3))
    bypassed = made.state.bypassed(WorkloadKey("default", "a4"))

    assert bypassed is not None
    assert kueue.message(bypassed.why) == (
        "Waits: you (ann) hold 3 of at most 4 cpu in queue q (max-per-user); asks 3 more"
    )
    assert made.state.bypassed(WorkloadKey("default", "a4")) == bypassed


def test_one_that_was_tried_is_told_what_is_held_of_its_cap_now():
    made = capped(of("ann", "a1", 2), of("ann", "a2", 3, created=1))
    made.cycle()
    tried = waits(made.cycle())["a2"]
    made.add(of("ann", "a3", 1, created=2))
    made.cycle()

    assert "hold 2 of at most 4 cpu" in kueue.message(tried.why)
    assert "hold 3 of at most 4 cpu" in kueue.message(made.state.with_caps_of_now(tried).why)


def test_a_wait_for_quota_is_left_as_it_was_decided():
    made = capped(of("ann", "a1", 14), of("ann", "a2", 4, created=1), per_user=None)
    made.cycle()
    wait = waits(made.cycle())["a2"]

    assert wait.reason == "WaitingForQuota"
    assert made.state.with_caps_of_now(wait) is wait
