"""Whatever the scheduler does with the pods of who was admitted: each of them gets a node.

The scheduler here binds pods in any order, each to any of the nodes that it prefers with enough
free. It counts what is on nodes by itself.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from admission.scheduling import model
from tests.builders.scheduling import LOWER, NOW_US, SECOND_US
from tests.scheduling.test_nodes_decide import GPU, Cluster, asking, cluster, node
from tests.scheduling.worlds import evicted

BOUND_WITHIN_CYCLES = 5
GPUS_OF_NODE = 4
AT = st.integers(0, 20)


def steps(gpus: st.SearchStrategy[int], most_pods: int) -> st.SearchStrategy[list[Any]]:
    """What may happen, with pods of some sizes and workloads of so many pods at most.

    Without a least size, lists have about five steps, and most faults need more.
    """
    return st.lists(
        st.one_of(
            st.tuples(st.just("add"), gpus, st.integers(1, most_pods), st.integers(0, 1)),
            st.tuples(st.just("cycle")),
            st.tuples(st.just("cycle")),
            st.tuples(st.just("bind"), AT, AT),
            st.tuples(st.just("end"), AT),
            st.tuples(st.just("evict"), AT),
            st.tuples(st.just("delete"), AT),
        ),
        min_size=25,
        max_size=60,
    )


@dataclass
class _Pod:
    """A released pod.

    Attributes:
        cycle: in which its workload was admitted.
    """

    name: str
    workload: str
    gpus: int
    prefers: tuple[str, ...]
    cycle: int
    node: str = ""


@dataclass
class _Scheduler:
    """Pods, and the nodes on which they are."""

    made: Cluster
    nodes: tuple[str, ...]
    sizes: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """GPUs of a pod, number of pods, and priority, by workload."""
    pods: list[_Pod] = field(default_factory=list)
    reservations: dict[str, model.Reservation] = field(default_factory=dict)
    evicted: set[str] = field(default_factory=set)
    cycles: int = 0

    def step(self, step: tuple[Any, ...]) -> None:
        match step:
            case "add", *size:
                name = f"w{len(self.sizes)}"
                self.sizes[name] = (size[0], size[1], size[2])
                self.made.world.add(self.workload(name))
            case ("cycle",):
                self.cycle()
            case "bind", at, choice:
                waiting = [pod for pod in self.pods if not pod.node]
                if waiting:
                    self.bind(waiting[at % len(waiting)], choice)
            case "end", at:
                waiting_for_node = {pod.workload for pod in self.pods if not pod.node}
                self.end({pod.workload for pod in self.pods} - waiting_for_node, at)
            case "evict", at:
                self.evict(at)
            case "delete", at:
                self.end(self.evicted & {pod.workload for pod in self.pods}, at)
            case _:
                raise AssertionError(f"no such step: {step}")

    def workload(self, name: str, **fields: Any) -> model.Workload:
        gpus, count, priority = self.sizes[name]
        created = int(name[1:])
        return asking(name, gpus, count, priority=priority, created=created, **fields)

    def free(self) -> dict[str, int]:
        """Return how many GPUs are free on each node."""
        free = dict.fromkeys(self.nodes, GPUS_OF_NODE)
        for pod in self.pods:
            if pod.node:
                free[pod.node] -= pod.gpus
        return free

    def cycle(self) -> None:
        """Have the late pods bound, then admit, and have who was admitted make its pods."""
        for pod in self.pods:
            if not pod.node and self.cycles - pod.cycle >= BOUND_WITHIN_CYCLES:
                self.bind(pod, 0)
        now_us = NOW_US + self.made.world.clock * SECOND_US
        result = self.made.world.cycle()
        self.cycles += 1
        for admit in result.admitted:
            name = admit.workload.name
            gpus, count, _ = self.sizes[name]
            hosts = tuple(sorted({place.node for place in admit.places}))
            self.pods += [
                _Pod(f"{name}-{index}", name, gpus, hosts, self.cycles) for index in range(count)
            ]
            reservation = model.Reservation(
                cluster_queue=admit.cluster_queue,
                pod_sets=admit.pod_sets,
                reserved_us=now_us,
                admitted=True,
                admitted_us=now_us,
            )
            self.reservations[name] = reservation
            self.made.world.add(replace(self.workload(name), reservation=reservation))
        for name in evicted(result):
            self.leave(name)

    def bind(self, pod: _Pod, choice: int) -> None:
        free = self.free()
        preferred = [name for name in pod.prefers if free[name] >= pod.gpus]
        if not preferred and pod.workload in self.evicted:
            return  # it is deleted anyway
        assert preferred, f"{pod} has no node: {free}, {self.pods}"
        pod.node = preferred[choice % len(preferred)]
        self.made.pod(pod.name, pod.node, {GPU: pod.gpus}, pod.workload)

    def evict(self, at: int) -> None:
        """Tell a workload to leave; its pods can be bound until they are deleted."""
        running = sorted({pod.workload for pod in self.pods} - self.evicted)
        if running:
            self.leave(running[at % len(running)])

    def leave(self, name: str) -> None:
        self.evicted.add(name)
        eviction = model.Eviction(reason="Preempted", since_us=NOW_US)
        workload = self.workload(name, eviction=eviction)
        self.made.world.add(replace(workload, reservation=self.reservations[name]))

    def end(self, workloads: set[str], at: int) -> None:
        """End one of some workloads, with its pods."""
        if workloads:
            name = sorted(workloads)[at % len(workloads)]
            self.pods = [pod for pod in self.pods if pod.workload != name]
            self.made.finish(name)


def scheduler_of(count: int) -> _Scheduler:
    names = tuple(f"n{index}" for index in range(count))
    nodes = (node(name, GPUS_OF_NODE) for name in names)
    return _Scheduler(cluster(*nodes, within=LOWER), names)


def without_node(scheduler: _Scheduler, taken: list[tuple[Any, ...]]) -> list[_Pod]:
    """Return the pods that get no node in the end, of workloads that were not told to leave."""
    for step in taken:
        scheduler.step(step)
    for pod in scheduler.pods:
        if not pod.node:
            scheduler.bind(pod, 0)
    return [
        pod for pod in scheduler.pods if not pod.node and pod.workload not in scheduler.evicted
    ]


@given(steps(st.integers(1, GPUS_OF_NODE), 3))
def test_every_pod_of_who_was_admitted_gets_a_node_in_any_order(
    taken: list[tuple[Any, ...]],
) -> None:
    assert without_node(scheduler_of(3), taken) == []


@given(steps(st.sampled_from([2, GPUS_OF_NODE]), 1))
def test_every_large_pod_of_who_was_admitted_gets_one_of_two_nodes(
    taken: list[tuple[Any, ...]],
) -> None:
    """So most who have a higher priority preempt others, and have places kept meanwhile."""
    assert without_node(scheduler_of(2), taken) == []


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=8))
def test_whoever_fits_on_empty_nodes_is_admitted_at_last(sizes: list[tuple[int, int]]) -> None:
    scheduler = scheduler_of(3)
    for gpus, count in sizes:
        scheduler.step(("add", gpus, count, 0))
    fitting = {
        name
        for name, (gpus, count, _) in scheduler.sizes.items()
        if count <= len(scheduler.nodes) * (GPUS_OF_NODE // gpus)
    }
    seen: set[str] = set()
    for _ in range(4 * len(sizes)):
        scheduler.cycle()
        for pod in scheduler.pods:
            seen.add(pod.workload)
            if not pod.node:
                scheduler.bind(pod, 0)
        scheduler.step(("end", 0))

    assert seen == fitting
