"""Whatever the scheduler does with the pods of who was admitted: each of them gets a node.

The scheduler here binds pods in any order, each to any of the nodes that it prefers with enough
free. It counts what is on nodes by itself.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from admission.scheduling import model
from tests.builders.scheduling import NOW_US, SECOND_US
from tests.scheduling.test_nodes_decide import GPU, Cluster, asking, cluster, node

NODES = {"n0": 4, "n1": 4, "n2": 4}
BOUND_WITHIN_CYCLES = 5
STEP = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 4), st.integers(1, 3)),
    st.tuples(st.just("cycle")),
    st.tuples(st.just("bind"), st.integers(0, 20), st.integers(0, 2)),
    st.tuples(st.just("end"), st.integers(0, 20)),
    st.tuples(st.just("evict"), st.integers(0, 20)),
    st.tuples(st.just("delete"), st.integers(0, 20)),
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
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    pods: list[_Pod] = field(default_factory=list)
    reservations: dict[str, model.Reservation] = field(default_factory=dict)
    evicted: set[str] = field(default_factory=set)
    cycles: int = 0

    def step(self, step: tuple[Any, ...]) -> None:
        match step:
            case "add", gpus, count:
                name = f"w{len(self.sizes)}"
                self.sizes[name] = gpus, count
                self.made.world.add(asking(name, gpus, count, created=len(self.sizes)))
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
            gpus, count = self.sizes[name]
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
            self.made.world.add(replace(asking(name, gpus, count), reservation=reservation))

    def bind(self, pod: _Pod, choice: int) -> None:
        free = {
            name: gpus - sum(other.gpus for other in self.pods if other.node == name)
            for name, gpus in NODES.items()
        }
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
            name = running[at % len(running)]
            self.evicted.add(name)
            eviction = model.Eviction(reason="Preempted", since_us=NOW_US)
            workload = asking(name, *self.sizes[name], eviction=eviction)
            self.made.world.add(replace(workload, reservation=self.reservations[name]))

    def end(self, workloads: set[str], at: int) -> None:
        """End one of some workloads, with its pods."""
        if workloads:
            name = sorted(workloads)[at % len(workloads)]
            self.pods = [pod for pod in self.pods if pod.workload != name]
            self.made.finish(name)


@given(st.lists(STEP, max_size=60))
def test_every_pod_of_who_was_admitted_gets_a_node_in_any_order(
    steps: list[tuple[Any, ...]],
) -> None:
    scheduler = _Scheduler(cluster(*(node(name, gpus) for name, gpus in NODES.items())))
    for step in steps:
        scheduler.step(step)
    for pod in scheduler.pods:
        if not pod.node:
            scheduler.bind(pod, 0)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=8))
def test_whoever_fits_on_empty_nodes_is_admitted_at_last(sizes: list[tuple[int, int]]) -> None:
    scheduler = _Scheduler(cluster(*(node(name, gpus) for name, gpus in NODES.items())))
    for gpus, count in sizes:
        scheduler.step(("add", gpus, count))
    fitting = {
        name
        for name, (gpus, count) in scheduler.sizes.items()
        if count <= sum(size // gpus for size in NODES.values())
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
