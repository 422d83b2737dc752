"""Whatever nodes are lost: own quota comes back to nodes, and nobody leaves for nothing.

The pods, what is on nodes, and who is to leave are kept here, apart from the engine.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from admission.base.names import WorkloadKey
from admission.scheduling import model
from admission.scheduling.displaced import AGAIN_US
from tests.builders.scheduling import NOW_US, SECOND_US
from tests.scheduling.test_displaced import fleet
from tests.scheduling.test_nodes_decide import GPU, Cluster, asking

GPUS_OF_NODE = 4
NODES = ("n0", "n1", "n2", "n3")
AT = st.integers(0, 20)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(["q", "borrower"]), st.sampled_from([1, 2, 4])),
        st.tuples(st.just("cycle")),
        st.tuples(st.just("cycle")),
        st.tuples(st.just("lose"), AT),
        st.tuples(st.just("delete"), AT),
        st.tuples(st.just("gone"), AT),
        st.tuples(st.just("finish"), AT),
    ),
    min_size=15,
    max_size=50,
)


@dataclass
class _Pod:
    """The pod of a workload of one pod.

    Attributes:
        node: where it is; empty while it has none.
        is_ending: it is being deleted; another one follows if its workload stays.
        stays: its workload holds quota, and was not told to leave.
    """

    workload: str
    queue: str
    gpus: int
    node: str = ""
    is_ending: bool = False
    stays: bool = True
    serial: int = 0

    @property
    def uid(self) -> str:
        return f"{self.workload}-{self.serial}"


@dataclass
class _Site:
    """Nodes that are there, and pods of who was admitted."""

    made: Cluster
    nodes: list[str]
    pods: list[_Pod] = field(default_factory=list)
    sizes: dict[str, tuple[str, int]] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    number: int = 0

    def free(self, node: str) -> int:
        return GPUS_OF_NODE - sum(pod.gpus for pod in self.pods if pod.node == node)

    def step(self, step: tuple[Any, ...]) -> None:
        match step:
            case "add", queue, gpus:
                self.number += 1
                self.made.world.add(asking(f"w{self.number}", gpus, queue=queue))
                self.sizes[f"w{self.number}"] = queue, gpus
            case ("cycle",):
                self.cycle()
            case "lose", at if len(self.nodes) > 1:
                self.lose(self.nodes.pop(at % len(self.nodes)))
            case "delete", at:
                bound = [pod for pod in self.pods if pod.node and not pod.is_ending]
                if bound:
                    self.delete(bound[at % len(bound)])
            case "gone", at:
                ending = [pod for pod in self.pods if pod.is_ending]
                if ending:
                    self.gone(ending[at % len(ending)])
            case "finish", at:
                running = [pod for pod in self.pods if pod.node and pod.stays]
                if running:
                    self.finish(running[at % len(running)])
            case _:
                assert step[0] == "lose", "one node stays"

    def lose(self, node: str) -> None:
        for pod in [pod for pod in self.pods if pod.node == node]:
            self.gone(pod)
        self.made.places.drop_node(node)

    def delete(self, pod: _Pod) -> None:
        pod.is_ending = True
        self.made.pod(pod.uid, pod.node, {GPU: pod.gpus}, pod.workload, is_ending=True)

    def gone(self, pod: _Pod) -> None:
        """A pod leaves its node; another one follows it, or its workload has left."""
        self.pods.remove(pod)
        self.made.places.drop_pod(pod.uid)
        if pod.stays:
            self.pods.append(replace(pod, node="", is_ending=False, serial=pod.serial + 1))
        elif all(other.workload != pod.workload for other in self.pods):
            self.made.world.finish(pod.workload)

    def finish(self, pod: _Pod) -> None:
        """A workload ends; its quota is free before its pods are gone."""
        self.made.world.finish(pod.workload)
        self.finished.add(pod.workload)
        for other in [each for each in self.pods if each.workload == pod.workload]:
            other.stays = False
            if other.node:
                self.delete(other)
            else:
                self.pods.remove(other)

    def cycle(self) -> None:
        result = self.made.world.cycle()
        for admit in result.admitted:
            queue, gpus = self.sizes[admit.workload.name]
            self.pods.append(_Pod(admit.workload.name, queue, gpus))
        self.bind()
        self.judge(result)
        for eviction in result.evicted:
            self.evict(eviction.workload.name)

    def bind(self) -> None:
        """The scheduler binds the pods that have room, those of who was admitted first."""
        for pod in self.pods:
            room = [node for node in self.nodes if not pod.node and self.free(node) >= pod.gpus]
            if room and pod.stays:
                promised = self.made.places.ledger.places(WorkloadKey("default", pod.workload))
                hosts = [place.node for place in promised if place.node in room]
                pod.node = (hosts or room)[0]
                self.made.pod(pod.uid, pod.node, {GPU: pod.gpus}, pod.workload)

    def judge(self, result: Any) -> None:
        held = sum(pod.gpus for pod in self.pods if pod.workload not in self.finished)
        assert held <= GPUS_OF_NODE * len(NODES), "more is used than the quota"
        by_name = {pod.workload: pod for pod in self.pods}
        for eviction in result.evicted:
            victim = by_name[eviction.workload.name]
            assert victim.queue == "borrower", "what is not borrowed is taken"
        preempting = {
            eviction.preemptor.name
            for eviction in result.evicted
            if eviction.preemptor.name in by_name
        }
        for name in preempting:
            assert by_name[name].queue == "q", "a borrower takes nobody's quota"
            preemptor = by_name[name]
            assert not preemptor.node or preemptor.is_ending, "who has a node needs no victim"

    def evict(self, name: str) -> None:
        (pod,) = [each for each in self.pods if each.workload == name and each.stays]
        workload: Any = self.made.world.state.workload(WorkloadKey("default", name))
        eviction = model.Eviction(reason="Preempted", since_us=NOW_US)
        self.made.world.add(replace(workload, eviction=eviction))
        pod.stays = False
        if pod.node:
            self.delete(pod)
        else:
            self.gone(pod)

    def come_to_rest(self) -> None:
        """Time passes, and everything that ends is gone."""
        for _ in range(len(self.pods) + 4):
            for pod in [each for each in self.pods if each.is_ending]:
                self.gone(pod)
            self.made.world.clock += AGAIN_US // SECOND_US
            self.cycle()


@given(STEPS)
def test_own_quota_gets_nodes_again_where_borrowers_are_and_nobody_else_leaves(
    taken: list[tuple[Any, ...]],
) -> None:
    site = _Site(fleet(*NODES, gpus=GPUS_OF_NODE), list(NODES))
    for step in taken:
        site.step(step)
    site.come_to_rest()

    waiting = [pod for pod in site.pods if pod.queue == "q" and not pod.node]
    for pod in waiting:
        for node in site.nodes:
            borrowed = sum(
                each.gpus
                for each in site.pods
                if (each.node, each.queue) == (node, "borrower") and each.stays
            )
            assert site.free(node) + borrowed < pod.gpus, f"{pod} waits beside borrowers of {node}"
    ledger = site.made.places.ledger
    promised = {
        node: sum(
            place.count * pod.gpus
            for pod in site.pods
            if not pod.node
            for place in ledger.places(WorkloadKey("default", pod.workload))
            if place.node == node
        )
        for node in site.nodes
    }
    assert {node: ledger.free(node)[GPU] for node in site.nodes} == {
        node: site.free(node) - promised[node] for node in site.nodes
    }


@given(STEPS)
def test_nobody_leaves_while_enough_room_is_coming(taken: list[tuple[Any, ...]]) -> None:
    """Each pod takes a whole node, so room that is coming is room for whoever waits."""
    site = _Site(fleet(*NODES, gpus=GPUS_OF_NODE), list(NODES))
    for each in taken:
        step = ("add", each[1], GPUS_OF_NODE) if each[0] == "add" else each
        coming = sum(pod.is_ending for pod in site.pods)
        free = sum(site.free(node) == GPUS_OF_NODE for node in site.nodes)
        before = {pod.workload for pod in site.pods if not pod.stays}
        wanting = sum(not pod.node or (pod.is_ending and pod.stays) for pod in site.pods)
        site.step(step)
        if step[0] == "cycle":
            evicted = {pod.workload for pod in site.pods if not pod.stays} - before
            heads = 2  # one of each queue asks in a cycle
            assert len(evicted) <= max(0, wanting + heads - coming - free)
