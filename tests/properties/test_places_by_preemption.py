"""Who is preempted for a place makes room for a pod that runs, and order does not matter."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from admission.base.names import WorkloadKey
from admission.scheduling import model
from admission.scheduling.places.model import Node
from tests.builders.scheduling import LOWER, NOW_US
from tests.scheduling.test_nodes_decide import GPU, Cluster, asking, cluster, node
from tests.scheduling.worlds import admitted, evicted

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=4)
WORKLOADS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=7
)
"""GPUs of a pod, pods and priority of each."""


def workloads_of(drawn: list[tuple[int, int, int]]) -> list[model.Workload]:
    return [
        asking(f"w{index}", gpus, count, priority=priority, created=index)
        for index, (gpus, count, priority) in enumerate(drawn)
    ]


def hosts_of(sizes: list[int]) -> list[Node]:
    return [node(f"n{index}", size) for index, size in enumerate(sizes)]


def used(made: Cluster) -> dict[str, int]:
    """GPUs of the pods on each node."""
    held: dict[str, int] = {}
    for pod in made.places.ledger._pods.by_key.values():
        held[pod.node] = held.get(pod.node, 0) + pod.requests.get(GPU, 0)
    return held


def evict(made: Cluster, workload: model.Workload) -> None:
    """The pods of a workload are deleted, and it waits again while they end."""
    for uid, pod in list(made.places.ledger._pods.by_key.items()):
        if pod.workload == ("default", workload.key.name):
            made.places.set_pod(uid, replace(pod, is_ending=True))
    former = model.Eviction(reason="Preempted", since_us=NOW_US)
    made.world.finish(workload.key.name)
    made.world.add(replace(workload, eviction=former))


def end_pods(made: Cluster) -> bool:
    """All pods that are being deleted have ended; whether there were any."""
    ending = [uid for uid, pod in made.places.ledger._pods.by_key.items() if pod.is_ending]
    for uid in ending:
        made.places.drop_pod(uid)
    return bool(ending)


@given(sizes=SIZES, drawn=WORKLOADS, delay=st.integers(0, 2))
def test_who_is_preempted_for_a_place_makes_room_for_pods_that_run(
    sizes: list[int], drawn: list[tuple[int, int, int]], delay: int
) -> None:
    """Without news every preemptor runs at last, and no node ever has more pods than room.

    Once nothing changes any more the workload that runs longest ends, so all run that ever can.
    """
    made = cluster(*hosts_of(sizes), within=LOWER)
    workloads = {workload.key.name: workload for workload in workloads_of(drawn)}
    preemptors: set[str] = set()
    running: dict[str, None] = {}
    have_run: set[str] = set()
    idle = 0
    made.world.add(*workloads.values())
    for _ in range(600):
        result = made.world.cycle()
        preemptors |= {eviction.preemptor.name for eviction in result.evicted}
        for name in evicted(result):
            running.pop(name, None)
            evict(made, workloads[name])
        for admit in result.admitted:
            name = admit.workload.name
            places = made.places.ledger.places(WorkloadKey("default", name))
            assert sum(place.count for place in places) == drawn[int(name[1:])][1]
            made.bind(name, *places)
            running[name] = None
            have_run.add(name)
        assert all(held <= sizes[int(name[1:])] for name, held in used(made).items())
        idle = 0 if result.admitted or result.evicted else idle + 1
        if idle > delay and end_pods(made):
            idle = 0
        if idle > delay + len(workloads):
            if not running:
                break
            longest = next(iter(running))
            del running[longest]
            made.finish(longest)
            idle = 0
    else:
        raise AssertionError("it does not come to an end")
    assert preemptors <= have_run
    fitting = {
        name
        for name, (gpus, count, _) in zip(workloads, drawn, strict=True)
        if sum(size // gpus for size in sizes) >= count
    }
    assert have_run == fitting


def feed(made: Cluster, order: list[tuple[str, Any]]) -> None:
    for kind, value in order:
        match kind:
            case "node":
                made.places.set_node(value)
            case "pod":
                made.pod(value, value.partition("-")[0], {GPU: 1})
            case _:
                made.world.add(value)


@given(sizes=SIZES, drawn=WORKLOADS, data=st.data())
def test_nodes_pods_and_workloads_may_come_in_any_order(
    sizes: list[int], drawn: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    hosts = hosts_of(sizes)
    pods = [f"{host.name}-{index}" for index, host in enumerate(hosts)]
    events = [
        *(("node", host) for host in hosts),
        *(("pod", name) for name in pods[: data.draw(st.integers(0, len(pods)))]),
        *(("workload", workload) for workload in workloads_of(drawn)),
    ]
    decisions = []
    for order in (events, data.draw(st.permutations(events))):
        made = cluster(within=LOWER)
        feed(made, order)
        decisions.append([_decided(made) for _ in range(8)])
    assert decisions[0] == decisions[1]


def _decided(made: Cluster) -> tuple[list[str], dict[str, str], list[Any]]:
    result = made.world.cycle()
    places = [made.places.ledger.places(admit.workload) for admit in result.admitted]
    return admitted(result), evicted(result), places
