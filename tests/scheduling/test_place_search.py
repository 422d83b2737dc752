"""How places for several pod sets are searched for: what it costs, and what it leaves behind."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from admission.base.names import FlavorName, PodSetName, ResourceName
from admission.scheduling import model
from admission.scheduling.model import PodNeeds
from admission.scheduling.places import search
from admission.scheduling.places.ledger import NodeLedger
from admission.scheduling.places.model import HOSTNAME, Node, PodShape, Want
from tests.builders.scheduling import cluster_queue, group, waiting
from tests.scheduling.test_nodes_decide import GPU, Cluster, node
from tests.scheduling.worlds import admitted, waits, world

CPU, MEMORY = ResourceName("cpu"), ResourceName("memory")


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


def cluster(nodes: Sequence[Node], **fields: object) -> Cluster:
    quota = {"a": {GPU: (1000,), CPU: (100_000,), MEMORY: (100_000,)}}
    queue = cluster_queue("q", groups=[group(quota)], **fields)
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
