"""What other threads may ask the core: who waits in a queue, as it is between two messages."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from admission.base import patches
from admission.base.names import ClusterQueueName, LocalQueueKey, WorkloadKey
from admission.controller.queries import Query, Reader
from admission.kube import resources
from admission.objects.workload import Workload
from admission.scheduling.pending import PendingSnapshot
from admission.scheduling.quota_holders import HolderCounts
from tests.builders.cluster import make_namespace
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.controller.world import World

GPUS = ClusterQueueName("gpus")
TEAM = LocalQueueKey("ml", "team-a")


@pytest.fixture
def world() -> World:
    """A full queue, in which pods of two teams wait."""
    made = World()
    made.add(
        make_namespace(),
        make_flavor(),
        make_cluster_queue(quota=1),
        make_local_queue(),
        make_local_queue("team-b"),
    )
    made.add_pod("running", gpus=1)
    made.settle()
    for name, queue in (("first", "team-a"), ("second", "team-b"), ("third", "team-a")):
        made.clock.advance(1)
        made.add_pod(name, gpus=1, labels={"kueue.x-k8s.io/queue-name": queue})
        made.settle()
    return made


def ask_line(world: World, queue: ClusterQueueName | LocalQueueKey) -> PendingSnapshot | None:
    query: Query[PendingSnapshot | None] = Query(lambda reader: reader.line(queue))
    world.core.receive(query)
    return query.answer.result(0)


def order(line: PendingSnapshot | None) -> list[str]:
    """Names of the LocalQueues of those who wait, in order."""
    assert line is not None
    return [item.workload.queue.name for item in sorted(line.members, key=line.sort_key())]


def test_parked_workloads_are_in_line_and_admitted_ones_are_not(world: World) -> None:
    assert order(ask_line(world, GPUS)) == ["team-a", "team-b", "team-a"]


def test_the_line_of_a_local_queue_is_its_cluster_queues(world: World) -> None:
    assert ask_line(world, TEAM) == ask_line(world, GPUS)


def test_a_queue_that_does_not_exist_or_is_stopped_has_no_line(world: World) -> None:
    assert ask_line(world, ClusterQueueName("none")) is None
    assert ask_line(world, LocalQueueKey("ml", "none")) is None
    stop = patches.merge({"spec": {"stopPolicy": "Hold"}})
    world.store.patch(resources.LOCAL_QUEUES, "team-a", stop, "ml")
    world.settle()
    assert ask_line(world, TEAM) is None
    assert order(ask_line(world, GPUS)) == ["team-b"]


def test_a_stopped_cluster_queue_keeps_its_line(world: World) -> None:
    stop = patches.merge({"spec": {"stopPolicy": "Hold"}})
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", stop)
    world.settle()
    assert len(order(ask_line(world, GPUS))) == 3


def test_a_local_queue_whose_cluster_queue_is_missing_has_nobody_in_line(world: World) -> None:
    world.add(make_local_queue("lost", queue="none"))
    world.settle()
    assert order(ask_line(world, LocalQueueKey("ml", "lost"))) == []


def test_workloads_come_in_the_order_in_which_they_are_asked_for(world: World) -> None:
    known = {key: w for w in world.workloads().values() for key in [_key(w)]}
    keys = (*reversed(list(known)), WorkloadKey("ml", "gone"))
    query: Query[tuple[Workload | None, ...]] = Query(lambda reader: reader.workloads(keys))
    world.core.receive(query)
    found = query.answer.result(0)
    assert [None if one is None else _key(one) for one in found] == [*keys[:-1], None]


def _key(workload: Workload) -> WorkloadKey:
    return WorkloadKey(workload.metadata.namespace, workload.metadata.name)


def test_a_standby_that_was_never_told_to_lead_knows_the_same_line(world: World) -> None:
    standby = World(world.store, world.clock)
    standby.core._is_leading = False
    standby.observe()
    assert standby.core.synced
    assert order(ask_line(standby, GPUS)) == order(ask_line(world, GPUS))
    assert standby.sent == []


def test_a_question_that_fails_is_the_askers_affair(world: World) -> None:
    def fail(_: Reader) -> None:
        raise ZeroDivisionError

    query = Query(fail)
    world.core.receive(query)
    with pytest.raises(ZeroDivisionError):
        query.answer.result(0)


def test_a_question_that_nobody_waits_for_any_more_is_not_worked_on(world: World) -> None:
    asked = threading.Event()
    query = Query(lambda _: asked.set())
    assert query.answer.cancel()
    world.core.receive(query)
    assert not asked.is_set()


def ask(world: World, question: Callable[[Reader], Any]) -> Any:
    query: Query[Any] = Query(question)
    world.core.receive(query)
    return query.answer.result(0)


def test_an_overview_tells_quota_its_use_and_what_is_asked_for(world: World) -> None:
    (queue,) = ask(world, lambda reader: reader.overview()).queues
    assert (queue.name, queue.holding, queue.pending, queue.active) == (GPUS, 1, 3, True)
    assert [one.nominal for one in queue.quotas.values()] == list(queue.used.values()) == [1]
    assert list(queue.requested.values()) == [3]
    assert not any(queue.leaving.values())


@pytest.mark.parametrize("evicted", [True, False])
def test_what_was_told_to_leave_is_leaving_until_it_has_left(world: World, evicted: bool) -> None:
    (held,) = ask(world, lambda reader: reader.holders(GPUS))
    one = replace(held, evicted=evicted)
    tally = HolderCounts()
    tally.count(one, 1)
    assert tally.leaving == (tally.reservation if evicted else {})
    tally.count(one, -1)
    assert not any(tally.leaving.values())


def test_the_revision_grows_with_what_arrives_and_not_with_questions(world: World) -> None:
    before = ask(world, lambda reader: reader.revision)
    assert ask(world, lambda reader: reader.revision) == before
    world.add_pod("fourth", gpus=1)
    world.settle()
    assert ask(world, lambda reader: reader.revision) > before


def test_why_somebody_waits_is_told_to_those_who_ask(world: World) -> None:
    members = ask(world, lambda reader: reader.line(GPUS)).members
    keys = [item.workload.key for item in members]
    assert all(ask(world, lambda reader: reader.waits(keys)))
    (held,) = ask(world, lambda reader: reader.holders(GPUS))
    assert ask(world, lambda reader: reader.waits([held.key])) == (None,)
