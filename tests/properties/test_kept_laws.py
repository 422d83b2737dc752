"""Whoever had others stopped gets room where these were, whoever waits beside it.

It is judged by what is on the nodes, without the ledger of the engine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from admission.base.names import PodSetName, WorkloadKey
from admission.scheduling import model
from tests.builders.scheduling import LOWER, NOW_US, SECOND_US, waiting
from tests.scheduling.test_nodes_decide import Cluster, asking, cluster, node

NODES = ("n0", "n1", "n2")
GPUS_OF_NODE = 4

AT = st.integers(0, 20)
SIZES = st.sampled_from(
    [((1, 1),), ((2, 1),), ((3, 1),), ((4, 1),), ((3, 1), (1, 2)), ((1, 1), (2, 1)), ((1, 3),)]
)
"""GPUs of a pod, and how many pods, of each pod set."""
PRIORITIES = st.sampled_from((0, 0, 1, 1, 1, 2))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), SIZES, PRIORITIES),
        st.tuples(st.just("add"), SIZES, PRIORITIES),
        st.tuples(st.just("finish"), AT),
        st.tuples(st.just("leave"), AT),
    ),
    min_size=30,
    max_size=60,
)
"""After each of them comes a cycle. Without a least size, lists have about five steps."""


@dataclass
class _Nodes:
    """Nodes, workloads in one ClusterQueue with quota for all GPUs, and what is on each node.

    Attributes:
        pods: the sizes of all pods of each workload.
        running: GPUs of each pod of who was admitted, with its node, by workload.
        leaving: victims whose pods are still on their nodes.
        preemptors: who waits, and had others stopped.
    """

    made: Cluster
    pods: dict[str, tuple[int, ...]] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)
    running: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)
    preemptors: set[str] = field(default_factory=set)
    reservations: dict[str, model.Reservation] = field(default_factory=dict)

    def step(self, step: tuple[Any, ...]) -> None:
        match step:
            case "add", sizes, priority:
                self.add(sizes, priority)
            case "finish", at:
                self.end(sorted(self.running.keys() - self.leaving), at)
            case "leave", at:
                self.end(sorted(self.leaving), at)
            case _:
                raise AssertionError(f"no such step: {step}")
        self.cycle()

    def add(self, sizes: Sequence[tuple[int, int]], priority: int) -> None:
        name = f"w{len(self.pods)}"
        pod_sets = tuple(
            replace(asking(name, gpus, count).pod_sets[0], name=PodSetName(f"set-{index}"))
            for index, (gpus, count) in enumerate(sizes)
        )
        self.pods[name] = tuple(gpus for gpus, count in sizes for _ in range(count))
        self.priorities[name] = priority
        created = len(self.pods)
        self.made.world.add(waiting(name, "q", sets=pod_sets, priority=priority, created=created))

    def end(self, names: Sequence[str], at: int) -> None:
        if names:
            name = names[at % len(names)]
            self.made.finish(name)
            del self.running[name]
            self.leaving.discard(name)

    def cycle(self) -> None:
        now_us = NOW_US + self.made.world.clock * SECOND_US
        result = self.made.cycle()
        for admit in result.admitted:
            name = admit.workload.name
            sizes = {
                pod_set.name: dict(pod_set.needs.requests)["nvidia.com/gpu"]
                for pod_set in self.workload(name).pod_sets
                if pod_set.needs is not None
            }
            self.running[name] = [
                (place.node, sizes[place.pod_set])
                for place in admit.places
                for _ in range(place.count)
            ]
            self.reservations[name] = model.Reservation(
                cluster_queue=admit.cluster_queue,
                pod_sets=admit.pod_sets,
                reserved_us=now_us,
                admitted=True,
                admitted_us=now_us,
            )
            self.preemptors.discard(name)
            self.judge(name)
        for evict in result.evicted:
            assert isinstance(evict.preemptor, WorkloadKey)
            self.preemptors.add(evict.preemptor.name)
            self.tell_to_leave(evict.workload.name, now_us)

    def workload(self, name: str) -> model.Workload:
        workload = self.made.world.state.workload(WorkloadKey("default", name))
        assert workload is not None
        return workload

    def tell_to_leave(self, name: str, now_us: int) -> None:
        self.leaving.add(name)
        self.preemptors.discard(name)
        ledger = self.made.places.ledger
        for uid, pod in list(ledger._pods.by_key.items()):
            if pod.workload == WorkloadKey("default", name):
                self.made.places.set_pod(uid, replace(pod, is_leaving=True, is_ending=True))
        eviction = model.Eviction(reason="Preempted", since_us=now_us)
        self.made.world.add(
            replace(self.workload(name), eviction=eviction, reservation=self.reservations[name])
        )

    def judge(self, admitted: str) -> None:
        """Have each preemptor fit beside what stays, unless a higher priority came before it."""
        for name in sorted(self.preemptors):
            if self.priorities[admitted] > self.priorities[name]:
                self.preemptors.discard(name)
                continue
            assert self.fits(name), f"{admitted} took the room that was made for {name}"

    def fits(self, name: str) -> bool:
        """Return whether all pods fit on the nodes once those that leave are gone."""
        free = dict.fromkeys(NODES, GPUS_OF_NODE)
        for other, pods in self.running.items():
            for host, gpus in pods if other not in self.leaving else ():
                free[host] -= gpus
        for hosts in product(NODES, repeat=len(self.pods[name])):
            left = dict(free)
            for host, gpus in zip(hosts, self.pods[name], strict=True):
                left[host] -= gpus
            if min(left.values()) >= 0:
                return True
        return False


@given(steps=STEPS)
def test_the_room_of_victims_goes_to_their_preemptor_or_to_a_higher_priority(
    steps: list[tuple[Any, ...]],
) -> None:
    made = cluster(
        *(node(name, GPUS_OF_NODE) for name in NODES),
        quota={"a": GPUS_OF_NODE * len(NODES)},
        within=LOWER,
    )
    nodes = _Nodes(made)
    for step in steps:
        nodes.step(step)
