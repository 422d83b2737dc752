"""A controller that begins: what it takes in, and how soon it decides."""

from collections import Counter

from admission.base.names import WorkKey
from admission.controller import core
from admission.controller.writing.api_requests import WritePurpose
from admission.kube import resources
from tests.builders.cluster import make_namespace
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import make_pod_set, make_workload
from tests.controller.steps import Steps
from tests.controller.world import WATCHED, World

FEW, MANY = 1_100, 2_200


def listed(waiting: int) -> World:
    """A controller to which everything was listed, and that has not taken a turn."""
    world = World()
    world.add(make_namespace(), make_flavor(), make_local_queue())
    world.add(make_cluster_queue(quota=1))
    world.add(make_workload("first", make_pod_set(gpus=1), priority=10))
    world.add(*(make_workload(f"w-{n:04}", make_pod_set(gpus=99)) for n in range(waiting)))
    world.observe()
    return world


def test_the_first_decision_is_sent_before_all_workloads_were_looked_at() -> None:
    world = listed(FEW)
    looked_at: Counter[str] = Counter()
    advance = world.parts.reconciling.advance

    def count(key: WorkKey) -> None:
        looked_at["a Workload"] += 1
        advance(key)

    world.parts.reconciling.advance = count  # type: ignore[method-assign]
    assert world.core.step() == 0.0
    assert WritePurpose.RESERVE_QUOTA in {request.operation for request in world.queued}
    assert looked_at["a Workload"] < FEW
    while world.core.step() == 0.0:
        pass
    assert looked_at["a Workload"] >= FEW


def test_a_turn_of_a_leader_that_begins_costs_the_same_however_many_workloads_there_are() -> None:
    found = []
    for waiting in (FEW, MANY):
        world, steps = listed(waiting), Steps()
        world.core.step()
        with steps.counting():
            world.core.step()
        found.append(steps.total)
    assert found[1] <= 1.1 * found[0]


def test_readiness_says_what_was_not_taken_in_yet() -> None:
    world = World()
    world.add(make_namespace(), *(make_workload(f"w-{n}", make_pod_set()) for n in range(3)))
    told = []
    informer = world.parts.kinds.informers[resources.WORKLOADS]
    take = informer._put
    informer._put = lambda value: (told.append(world.core.unready()), take(value))  # type: ignore[assignment,func-returns-value]
    for resource, into in WATCHED.items():
        world.core.receive(core.WatchMessage(resource, world.listed(resource, into)))
    assert any("workloads (1 of 3)" in text for text in told), told
    assert world.core.unready() == ""
