"""A standby takes over from a leader that was killed, and was behind when it did."""

from typing import Final

import hypothesis
from hypothesis import strategies as st

from admission.base.names import ClusterQueueName
from admission.controller import core
from admission.controller.writing.api_requests import WritePurpose
from admission.kube import errors, resources
from admission.objects import views
from tests.builders.cluster import make_namespace
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.controller.test_owners import Standby
from tests.controller.world import World

QUOTA: Final = 4
GPUS: Final = {"low-a": 2, "low-b": 2, "high": 4, "last": 1}
"""Pods by name; ``high`` takes the quota of the other two, and ``last`` comes after it."""
GONE: Final = ("low-a", "low-b", "high", "workload of low-a", "workload of high")


def preempting() -> World:
    """Two pods use all quota, and one of higher priority has just come."""
    world = World()
    preemption = {"withinClusterQueue": "LowerPriority"}
    world.add(
        make_namespace(),
        make_flavor(),
        make_cluster_queue(quota=QUOTA, preemption=preemption),
        make_local_queue(),
    )
    for name in ("low-a", "low-b"):
        world.add_pod(name, gpus=GPUS[name], spec={"priority": 1})
    world.settle()
    world.add_pod("high", gpus=GPUS["high"], spec={"priority": 9})
    world.observe()
    world.core.step()
    return world


def remove(world: World, what: str) -> None:
    """Somebody deletes a pod or the Workload of one, if it is there."""
    *of_workload, name = what.split(" of ")
    try:
        if of_workload:
            world.store.delete(resources.WORKLOADS, world.workloads()[name].metadata.name, "ml")
        else:
            world.delete_pod(name)
    except (errors.NotFoundError, KeyError):
        return


def released(world: World) -> int:
    """GPUs of the pods that may run."""
    pods = world.store.list(resources.PODS, into=views.Pod).items
    return sum(GPUS[one.metadata.name] for one in pods if not one.spec.scheduling_gates)


def turn(world: World) -> bool:
    """Have the controller send one request; return whether there was one."""
    world.core.step()
    is_sent = world.send_one() is not None
    assert released(world) <= QUOTA
    return is_sent


def come_to_rest(world: World) -> None:
    """Let everything happen, and look at what is released after each request."""
    for _ in range(8):
        world.clock.advance(0.5)
        world.observe()
        while turn(world):
            world.observe()


@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(
    written=st.integers(0, 12),
    seen=st.integers(0, 12),
    before=st.sets(st.sampled_from(GONE), max_size=2),
    after=st.sets(st.sampled_from(GONE), max_size=2),
)
def test_what_was_deleted_before_the_leader_died_in_a_preemption_holds_nothing_afterwards(
    written: int, seen: int, before: set[str], after: set[str]
) -> None:
    """The standby has seen what was there after some requests of the leader, and nothing since."""
    leader = preempting()
    standby = Standby(leader.store, leader.clock)
    for number in range(written):
        if number == seen:
            standby.observe()
        if number == written // 2:
            for what in sorted(before):
                remove(leader, what)
        turn(leader)
        leader.observe()
    for what in sorted(after):
        remove(leader, what)

    standby.core.receive(core.LeaderStarted())
    standby.core.step()
    assert not standby.queued, "decided on what was seen before the lead began"
    come_to_rest(standby)
    standby.add_pod("last", gpus=GPUS["last"])
    come_to_rest(standby)

    there = {one.metadata.name for one in standby.store.list(resources.PODS, into=views.Pod).items}
    tally = standby.state.cluster_queue_status(ClusterQueueName("gpus"))
    assert sum(tally.usage.values()) == released(standby)
    assert set(standby.workloads()) == there
    waiting = there - standby.admitted()
    assert all(GPUS[name] > QUOTA - released(standby) for name in waiting), waiting
    evicted = {one.name for one in standby.sent if one.operation is WritePurpose.EVICT}
    assert len(evicted) <= 2
