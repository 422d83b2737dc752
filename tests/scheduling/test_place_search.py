"""How places for several pod sets are searched for: what it costs, and what it leaves behind."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from admission.base.names import (
    ClusterQueueName,
    FlavorName,
    LocalQueueKey,
    PodSetName,
    ResourceName,
)
from admission.scheduling import model, snapshot, state
from admission.scheduling.model import PodNeeds
from admission.scheduling.places import search
from admission.scheduling.places.ledger import NodeLedger
from admission.scheduling.places.model import HOSTNAME, BoundPod, Node, PodShape, Want
from admission.scheduling.places.search import StepBudget
from tests.builders.scheduling import LOWER, cluster_queue, group, waiting
from tests.scheduling.test_nodes_decide import GPU, Cluster, no_places, node
from tests.scheduling.worlds import admitted, waits, world

CPU, MEMORY = ResourceName("cpu"), ResourceName("memory")
QUOTA: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "a": {GPU: (1000,), CPU: (100_000,), MEMORY: (100_000,)}
}


def needs(requests: Mapping[ResourceName, int], apart: Sequence[str] = ()) -> PodNeeds:
    devices = tuple(name for name in requests if name == GPU)
    return PodNeeds(requests=tuple(sorted(requests.items())), devices=devices, apart=tuple(apart))


def pods(
    name: str, count: int, requests: Mapping[ResourceName, int], apart: Sequence[str] = ()
) -> model.PodSet:
    return model.PodSet(
        name=PodSetName(name), count=count, requests=requests, needs=needs(requests, apart)
    )


def want(
    name: str, count: int, requests: Mapping[ResourceName, int], apart: Sequence[str] = ()
) -> Want:
    return Want(PodSetName(name), PodShape(needs(requests, apart)), count)


def large_nodes(count: int) -> list[Node]:
    amounts = {GPU: 8, CPU: 100_000, MEMORY: 64, "pods": 110}
    return [replace(node(f"n{index:02}", 8), amounts=amounts) for index in range(count)]


def cluster(nodes: Sequence[Node], **fields: Any) -> Cluster:
    queue = cluster_queue("q", groups=[group(QUOTA)], **fields)
    flavor = model.ResourceFlavor(name=FlavorName("a"), node_labels={"flavor": "a"})
    return Cluster(world(flavor, queue, flavors=()), {node.name: node for node in nodes})


def pod_sets_that_almost_fit(nodes: int) -> tuple[model.PodSet, ...]:
    """Pod sets with one pod on each node, and a last one that the others leave no room."""
    each = [
        pods(f"w{index:02}", nodes, {CPU: 2_000 - index, MEMORY: 3}, (HOSTNAME,))
        for index in range(16)
    ]
    first = pods("gpu", 1, {GPU: 1, CPU: 1})
    return (first, *each, pods("last", nodes, {CPU: 1, MEMORY: 20}, (HOSTNAME,)))


def test_more_nodes_times_pod_sets_than_calls_within_each_other_end_no_cycle():
    made = cluster(large_nodes(64))
    made.world.add(waiting("many", "q", sets=pod_sets_that_almost_fit(64)))
    made.world.add(waiting("one", "q", sets=(pods("main", 1, {GPU: 1, CPU: 1}),), created=1))

    first = made.world.cycle()

    assert "many" in waits(first)
    assert admitted(made.world.cycle()) == ["one"]


def test_a_search_that_ends_with_an_error_leaves_the_ledger_as_it_was(monkeypatch):
    ledger = NodeLedger()
    for each in large_nodes(3):
        ledger.set_node(each)
    before = {name: dict(ledger.free(name)) for name in ledger.nodes}
    asked = [want("a", 4, {MEMORY: 32}), want("b", 3, {MEMORY: 20}, (HOSTNAME,))]
    calls = []
    fits = ledger.fits

    def failing(each: Want) -> bool:
        calls.append({name: dict(ledger.free(name)) for name in ledger.nodes})
        if len(calls) > 4:
            raise RuntimeError("planted")
        return fits(each)

    monkeypatch.setattr(ledger, "fits", failing)

    with pytest.raises(RuntimeError, match="planted"):
        search.find(ledger, asked)

    assert calls[-1] != before, "it was supposing something when the error came"
    assert {name: dict(ledger.free(name)) for name in ledger.nodes} == before


# ------------------------------------------------------------------------------------- steps


@pytest.fixture
def budgets(monkeypatch):
    """All budgets that are made from now on, with the steps that are left."""
    made: list[StepBudget] = []

    class Noted(StepBudget):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    for module in (snapshot, state, search):
        monkeypatch.setattr(module, "StepBudget", Noted)
    return made


def steps_of(budgets: Sequence[StepBudget]) -> int:
    return sum(StepBudget().left - budget.left for budget in budgets)


def running(made: Cluster, count: int) -> None:
    for index in range(count):
        small = pods("main", 1, {GPU: 1, CPU: 10})
        made.world.add(waiting(f"low-{index}", "q", sets=(small,), created=index))
    for _ in range(count):
        assert made.cycle().admitted


def without_any_way(count: int) -> tuple[model.PodSet, ...]:
    """Pod sets that have room in sum, and that many ways show to have none together."""
    large = [pods(f"w{i}", 8, {CPU: 2_000 - i, MEMORY: 20, GPU: 1}) for i in range(4)]
    return (*large, pods("last", count, {CPU: 1, MEMORY: 7}, (HOSTNAME,)))


@pytest.mark.parametrize("victims", [0, 3, 24])
def test_all_questions_about_one_head_share_the_steps_of_one_cycle(budgets, victims):
    made = cluster(large_nodes(12), within=LOWER)
    running(made, victims)
    made.world.add(waiting("many", "q", sets=without_any_way(12), priority=9, created=100))
    budgets.clear()

    result = made.world.cycle()

    assert "many" in waits(result)
    assert StepBudget().left // 2 <= steps_of(budgets) <= StepBudget().left


def test_all_questions_whose_end_makes_room_share_the_steps_of_one(budgets):
    made = cluster(large_nodes(12))
    running(made, 24)
    made.world.add(waiting("many", "q", sets=without_any_way(12), priority=-1, created=100))
    wait = waits(made.world.cycle())["many"]
    budgets.clear()

    made.world.state.relief(wait.workload, no_places(wait))

    assert len(budgets) == 1
    assert StepBudget().left // 2 <= steps_of(budgets) <= StepBudget().left


def test_each_head_has_steps_of_its_own(budgets):
    made = cluster(large_nodes(12))
    name = ClusterQueueName("r")
    made.world.state.set_cluster_queue(cluster_queue(name, groups=[group(QUOTA)]))
    key = LocalQueueKey("default", name)
    made.world.state.set_local_queue(model.LocalQueue(key=key, cluster_queue=name))
    made.world.add(waiting("many", "q", sets=without_any_way(12)))
    made.world.add(waiting("other", "r", sets=without_any_way(12)))

    assert {"many", "other"} <= waits(made.world.cycle()).keys()

    first, second = (steps_of([budget]) for budget in budgets)
    assert first == second > 0


def test_a_question_takes_at_most_half_of_the_steps_that_are_left():
    ledger = NodeLedger()
    for each in large_nodes(12):
        ledger.set_node(each)
    large = [want(f"w{i}", 8, {CPU: 2_000 - i, MEMORY: 20, GPU: 1}) for i in range(4)]
    asked = [*large, want("last", 12, {CPU: 1, MEMORY: 7}, (HOSTNAME,))]
    budget = StepBudget()
    whole = budget.left

    lefts = []
    for _ in range(3):
        assert search.find(ledger, asked, budget) is None
        lefts.append(budget.left)

    assert lefts == [whole // 2, whole // 4, whole // 8]


def test_no_step_is_taken_where_nodes_have_too_little_in_sum(budgets):
    ledger = NodeLedger()
    for each in large_nodes(3):
        ledger.set_node(each)
    asked = [want("a", 3, {MEMORY: 32}), want("b", 4, {MEMORY: 32})]

    assert search.find(ledger, asked) is None
    assert steps_of(budgets) == 0


def two_ways() -> tuple[NodeLedger, list[Want]]:
    """Pods that have places, which filling nodes with the largest ones first does not find."""
    ledger = NodeLedger()
    for name, memory in (("a", 12), ("b", 10)):
        ledger.set_node(Node(name=name, labels={HOSTNAME: name}, amounts={MEMORY: memory}))
    return ledger, [want("x", 2, {MEMORY: 5}), want("y", 3, {MEMORY: 4})]


def test_what_is_found_by_trying_all_ways_is_found_again_without_steps():
    ledger, asked = two_ways()
    budget = StepBudget()
    places = search.find(ledger, asked, budget)
    assert places is not None
    budget.left = 0

    assert search.find(ledger, asked, budget) == places
    assert search.find(ledger, asked, StepBudget(left=0)) is None, "nodes are only filled"


def test_what_was_found_before_is_not_found_where_another_pod_is_in_one_of_the_places():
    ledger, asked = two_ways()
    budget = StepBudget()
    assert search.find(ledger, asked, budget)
    budget.left = 0
    ledger.set_pod("other", BoundPod("a", {MEMORY: 1}))

    assert search.find(ledger, asked, budget) is None


def test_without_steps_nodes_are_filled_with_the_largest_pods_first():
    ledger = NodeLedger()
    for each in large_nodes(3):
        ledger.set_node(each)
    asked = [want("a", 3, {MEMORY: 32}), want("b", 3, {MEMORY: 32})]

    assert search.find(ledger, asked, StepBudget(left=0))
