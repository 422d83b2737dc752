"""Laws of the node ledger: what it counts change by change equals a recount, whatever is tried."""

from collections import Counter
from contextlib import ExitStack
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from admission.base.names import FlavorName, PodSetName, WorkloadKey
from admission.scheduling.model import PodNeeds
from admission.scheduling.places.ledger import NodeLedger
from admission.scheduling.places.model import PODS, BoundPod, Node, Place, PodShape, Want

GPU: Final = "nvidia.com/gpu"
NODES: Final = ("n0", "n1", "n2")
POD_SETS: Final = (PodSetName("main"), PodSetName("other"))

node_names = st.sampled_from(NODES)
workloads = st.sampled_from([WorkloadKey("team", f"w{index}") for index in range(3)])
uids = st.sampled_from([f"pod-{index}" for index in range(6)])


@st.composite
def wants(draw: st.DrawFn) -> tuple[Want, ...]:
    chosen = draw(st.lists(st.sampled_from(POD_SETS), min_size=1, max_size=2, unique=True))
    return tuple(
        Want(
            pod_set,
            PodShape(
                PodNeeds(requests=((GPU, draw(st.sampled_from((1, 2, 4)))),), devices=(GPU,))
            ),
            draw(st.integers(1, 3)),
            (FlavorName("a"),),
        )
        for pod_set in chosen
    )


def amounts_at(wanted: tuple[Want, ...], places: list[Place]) -> dict[str, Counter[str]]:
    gpus = {want.pod_set: dict(want.shape.needs.requests)[GPU] for want in wanted}
    totals: dict[str, Counter[str]] = {}
    for place in places:
        total = totals.setdefault(place.node, Counter())
        total.update({GPU: gpus[place.pod_set] * place.count, PODS: place.count})
    return totals


class LedgerMachine(RuleBasedStateMachine):
    """Any history of nodes, pods, promises and kept places."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = NodeLedger()
        self.pods: dict[str, BoundPod] = {}
        self.kept: dict[WorkloadKey, tuple[tuple[Want, ...], list[Place]]] = {}

    @rule(name=node_names, gpus=st.sampled_from((2, 4, 8)))
    def set_node(self, name: str, gpus: int) -> None:
        labels = {"kubernetes.io/hostname": name}
        self.ledger.set_node(Node(name=name, labels=labels, amounts={GPU: gpus, PODS: 10}))

    @rule(name=node_names)
    def drop_node(self, name: str) -> None:
        self.ledger.drop_node(name)

    @rule(
        uid=uids,
        name=node_names,
        gpus=st.integers(1, 2),
        key=st.none() | workloads,
        state=st.sampled_from(("runs", "ends", "lingers")),
    )
    def set_pod(self, uid: str, name: str, gpus: int, key: WorkloadKey | None, state: str) -> None:
        pod = BoundPod(
            name,
            {GPU: gpus, PODS: 1},
            key,
            "main",
            is_leaving=state == "ends",
            is_ending=state != "runs",
            is_lingering=state == "lingers",
        )
        self.pods[uid] = pod
        self.ledger.set_pod(uid, pod)

    @rule(uid=uids)
    def drop_pod(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self.ledger.drop_pod(uid)

    @rule(key=workloads, wanted=wants())
    def promise(self, key: WorkloadKey, wanted: tuple[Want, ...]) -> None:
        self.ledger.promise(key, wanted)

    @rule(key=workloads)
    def release(self, key: WorkloadKey) -> None:
        self.ledger.release(key)

    @rule(key=workloads, now_us=st.integers(0, 5))
    def leave(self, key: WorkloadKey, now_us: int) -> None:
        self.ledger.expect(key, 3)
        self.ledger.leave(key, now_us)

    @rule(key=workloads, wanted=wants(), data=st.data())
    def keep(self, key: WorkloadKey, wanted: tuple[Want, ...], data: Any) -> None:
        places = [
            Place(data.draw(st.sampled_from(wanted)).pod_set, name, data.draw(st.integers(1, 2)))
            for name in data.draw(st.lists(node_names, max_size=3, unique=True))
        ]
        self.kept[key] = wanted, places
        self.ledger.keep(key, wanted, places)

    @rule(key=workloads)
    def end_kept(self, key: WorkloadKey) -> None:
        self.ledger.end_kept(key)

    @rule()
    def settle(self) -> None:
        self.ledger.settle()

    @rule(key=workloads, lifted=st.sets(workloads), tried=st.permutations(range(3)))
    def suppose(self, key: WorkloadKey, lifted: set[WorkloadKey], tried: list[int]) -> None:
        before = self.counted()
        with ExitStack() as stack:
            for lifted_key in sorted(lifted):
                self.ledger.lift(lifted_key)
                stack.callback(self.ledger.put_back, lifted_key)
            for number in tried:
                stack.enter_context(
                    (
                        self.ledger.without_leaving(),
                        self.ledger.placing_anew(key),
                        self.ledger.lacking_placed(),
                    )[number]
                )
        assert self.counted() == before

    def counted(self) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
        used = {name: dict(amounts) for name, amounts in self.ledger._used.items()}
        return used, {name: dict(self.ledger.free(name)) for name in self.ledger.nodes}

    def covered(self, key: WorkloadKey) -> dict[str, Counter[str]]:
        """What pods and promises of a workload need on each node, but for pods that end."""
        totals = amounts_at(self.ledger.wants(key), list(self.ledger.places(key)))
        for pod in self.pods.values():
            if pod.workload == key and not pod.is_ending:
                totals.setdefault(pod.node, Counter()).update(dict(pod.requests))
        return totals

    @invariant()
    def what_is_used_equals_a_recount(self) -> None:
        totals: dict[str, Counter[str]] = {}
        for pod in self.pods.values():
            totals.setdefault(pod.node, Counter()).update(dict(pod.requests))
        for index in range(3):
            key = WorkloadKey("team", f"w{index}")
            promised = amounts_at(self.ledger.wants(key), list(self.ledger.places(key)))
            for name, amounts in promised.items():
                totals.setdefault(name, Counter()).update(amounts)
            if self.ledger.is_kept(key):
                covered = self.covered(key)
                for name, amounts in amounts_at(*self.kept[key]).items():
                    totals.setdefault(name, Counter()).update(
                        amounts - covered.get(name, Counter())
                    )
        used = {name: dict(amounts) for name, amounts in totals.items() if amounts}
        assert self.counted()[0] == used
        for name, node in self.ledger.nodes.items():
            left = {r: n - used.get(name, {}).get(r, 0) for r, n in node.amounts.items()}
            assert dict(self.ledger.free(name)) == left

    @invariant()
    def what_pods_hold_is_told_without_promises(self) -> None:
        totals: dict[str, Counter[str]] = {}
        for pod in self.pods.values():
            totals.setdefault(pod.node, Counter()).update(dict(pod.requests))
        assert self.ledger.held_by_pods() == {name: dict(n) for name, n in totals.items()}


TestLedgerLaws = LedgerMachine.TestCase
