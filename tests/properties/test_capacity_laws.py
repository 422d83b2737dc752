"""Laws of capacity: sums kept change by change equal sums made anew, and the guard holds."""

from dataclasses import replace
from typing import Final

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from admission.base import names
from admission.base.names import FlavorName, FlavorResource
from admission.controller.devices.capacity import CapacityByFlavor
from admission.controller.devices.capacity_guard import CapacityGuard
from admission.gpu import catalogue
from admission.gpu.health import DeviceReading, HealthPolicy
from admission.gpu.inventory import GpuPod
from admission.gpu.nodes import NodeFacts
from admission.objects import views
from admission.objects.cluster_queue import ClusterQueue
from admission.scheduling import model
from admission.scheduling.state import SchedulerState
from tests.builders.scheduling import cluster_queue, group
from tests.gpu.builders import GPU, mig

CATALOGUE: Final = catalogue.load()
INSTANT: Final = HealthPolicy(loss_grace_us=0)
FLAVORS: Final = {
    "all": {},
    "a100": {names.GPU_PRODUCT_LABEL: "NVIDIA-A100-SXM4-80GB"},
    "t4": {names.GPU_PRODUCT_LABEL: "Tesla-T4"},
    "pool": {"pool": "x"},
}
DEVICES: Final = (GPU, mig("1g.10gb"), mig("3g.40gb"))

node_names = st.sampled_from(("n0", "n1", "n2"))
amounts = st.dictionaries(st.sampled_from(DEVICES), st.integers(0, 8), max_size=2)
readings = st.none() | st.lists(st.booleans(), min_size=1, max_size=4).map(
    lambda verdicts: tuple(
        DeviceReading(id=str(n), minor=n, healthy=one) for n, one in enumerate(verdicts)
    )
)


@st.composite
def facts(draw: st.DrawFn) -> NodeFacts:
    labels = draw(st.sampled_from(tuple(FLAVORS.values())))
    units = draw(amounts)
    return NodeFacts(
        name=draw(node_names),
        labels={**labels, "extra": draw(st.sampled_from("ab"))},
        allocatable=units,
        capacity=dict.fromkeys(units, 8),
        ready=draw(st.booleans()),
        unschedulable=draw(st.booleans()),
        devices=draw(readings),
    )


class CapacityMachine(RuleBasedStateMachine):
    """Any history of nodes, pods and flavors."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = CapacityByFlavor(CATALOGUE, INSTANT)
        self.nodes: dict[str, NodeFacts] = {}
        self.pods: dict[str, tuple[str, dict[str, int]]] = {}
        self.outside: dict[str, tuple[str, dict[str, int]]] = {}
        self.flavors: dict[str, dict[str, str]] = {}

    @rule(node=facts())
    def see_node(self, node: NodeFacts) -> None:
        self.nodes[node.name] = node
        self.kept.set_node(node, 0)

    @rule(name=node_names, devices=readings)
    def see_devices(self, name: str, devices: tuple[DeviceReading, ...] | None) -> None:
        if name in self.nodes:
            self.nodes[name] = replace(self.nodes[name], devices=devices)
        self.kept.set_devices(name, devices, 0)

    @rule(name=node_names)
    def lose_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.kept.drop_node(name)

    @rule(uid=st.sampled_from("abcd"), name=node_names, held=amounts)
    def see_pod(self, uid: str, name: str, held: dict[str, int]) -> None:
        self.pods[uid] = (name, held)
        self.kept.set_pod(uid, name, GpuPod(namespace="ml", name=uid, amounts=held, outside=False))

    @rule(uid=st.sampled_from("wxyz"), name=node_names, held=amounts)
    def see_other(self, uid: str, name: str, held: dict[str, int]) -> None:
        self.outside[uid] = (name, held)
        self.kept.set_other(uid, name, held)

    @rule(name=st.sampled_from(tuple(FLAVORS)))
    def set_flavor(self, name: str) -> None:
        self.flavors[name] = FLAVORS[name]
        self.kept.set_flavor(name, FLAVORS[name])

    @rule(name=st.sampled_from(tuple(FLAVORS)))
    def drop_flavor(self, name: str) -> None:
        self.flavors.pop(name, None)
        self.kept.drop_flavor(name)

    @invariant()
    def sums_equal_those_made_anew(self) -> None:
        anew = CapacityByFlavor(CATALOGUE, INSTANT)
        for name, labels in self.flavors.items():
            anew.set_flavor(name, labels)
        for node in self.nodes.values():
            anew.set_node(node, 0)
        for uid, (name, held) in self.pods.items():
            anew.set_pod(uid, name, GpuPod(namespace="ml", name=uid, amounts=held, outside=False))
        for uid, (name, held) in self.outside.items():
            anew.set_other(uid, name, held)
        for flavor in FLAVORS:
            assert self.kept.capacity(flavor) == anew.capacity(flavor)
            assert self.kept.fragmentation(flavor) == anew.fragmentation(flavor)
            capacity = anew.capacity(flavor)
            for resource, free in capacity.free.items():
                assert 0 <= free <= min(capacity.real[resource], capacity.healthy[resource])


TestCapacityMachine = CapacityMachine.TestCase


@given(
    exists=st.integers(0, 20),
    queues=st.lists(
        st.tuples(st.sampled_from(("", "left", "right")), st.integers(0, 12), st.booleans()),
        max_size=6,
    ),
)
def test_guarded_trees_are_never_given_more_than_exists(exists, queues):
    state = SchedulerState()
    capacities = CapacityByFlavor(CATALOGUE, INSTANT)
    guard = CapacityGuard(state, capacities)
    guard.set_flavor("f", {})
    capacities.set_node(NodeFacts(name="n", allocatable={GPU: exists}), 0)
    for index, (cohort, quota, guarded) in enumerate(queues):
        view = ClusterQueue(
            metadata=views.ObjectMeta(
                name=f"q{index}",
                annotations={names.CAPACITY_GUARD: "Enforce" if guarded else "Off"},
            )
        )
        guard.set_queue(view, make_queue(f"q{index}", cohort, quota))
    guard.settle()
    capped = {
        (cohort or str(index)) for index, (cohort, _, guarded) in enumerate(queues) if guarded
    }
    given_out = 0
    for index, (cohort, quota, _) in enumerate(queues):
        node = state.forest.queues[make_queue(f"q{index}", cohort, quota).name]
        nominal = node.quotas[FlavorResource(FlavorName("f"), GPU_NAME)].nominal
        if (cohort or str(index)) in capped:
            assert nominal <= quota
            given_out += nominal
        else:
            assert nominal == quota
    assert given_out <= exists


QUEUE_NAMES: Final = ("q0", "q1", "q2", "q3")
COHORT_NAMES: Final = ("left", "right", "top")
pools = st.sampled_from(("x", "y"))


class GuardMachine(RuleBasedStateMachine):
    """Any history of ClusterQueues and nodes: what is handed out is as if it were done anew."""

    def __init__(self) -> None:
        super().__init__()
        self.queues: dict[str, tuple[ClusterQueue, model.ClusterQueue]] = {}
        self.cohorts: dict[str, model.Cohort] = {}
        self.nodes: dict[str, NodeFacts] = {}
        self.flavors: dict[str, dict[str, str]] = {}
        self.state, self.capacities, self.guard = self.made()

    def made(self) -> tuple[SchedulerState, CapacityByFlavor, CapacityGuard]:
        state = SchedulerState()
        capacities = CapacityByFlavor(CATALOGUE, INSTANT)
        return state, capacities, CapacityGuard(state, capacities)

    @rule(
        name=st.sampled_from(QUEUE_NAMES),
        cohort=st.sampled_from(("", "left", "right", "top")),
        quota=st.integers(0, 9),
        flavor=st.sampled_from(("x", "y", "all")),
        guarded=st.booleans(),
    )
    def see_queue(self, name: str, cohort: str, quota: int, flavor: str, guarded: bool) -> None:
        mode = "Enforce" if guarded else "Off"
        metadata = views.ObjectMeta(name=name, annotations={names.CAPACITY_GUARD: mode})
        groups = [group({flavor: {GPU_NAME: (quota,)}})]
        found = cluster_queue(name, cohort=cohort or None, groups=groups)
        self.queues[name] = ClusterQueue(metadata=metadata), found
        self.guard.set_queue(*self.queues[name])

    @rule(name=st.sampled_from(QUEUE_NAMES))
    def lose_queue(self, name: str) -> None:
        if self.queues.pop(name, None) is not None:
            self.guard.drop_queue(name)

    @rule(
        name=st.sampled_from(COHORT_NAMES),
        parent=st.sampled_from(("", *COHORT_NAMES)),
        quota=st.integers(0, 5),
    )
    def see_cohort(self, name: str, parent: str, quota: int) -> None:
        groups = (group({"x": {GPU_NAME: (quota,)}}),) if quota else ()
        above = names.CohortName(parent) if parent else None
        self.cohorts[name] = model.Cohort(
            name=names.CohortName(name), parent=above, resource_groups=groups
        )
        self.guard.set_cohort(self.cohorts[name])

    @rule(name=st.sampled_from(COHORT_NAMES))
    def lose_cohort(self, name: str) -> None:
        if self.cohorts.pop(name, None) is not None:
            self.guard.drop_cohort(name)

    @rule(name=node_names, pool=pools, exists=st.integers(0, 20))
    def see_node(self, name: str, pool: str, exists: int) -> None:
        node = NodeFacts(name=name, labels={"pool": pool}, allocatable={GPU: exists})
        self.nodes[name] = node
        self.capacities.set_node(node, 0)

    @rule(name=st.sampled_from(("x", "y", "all")))
    def see_flavor(self, name: str) -> None:
        self.flavors[name] = {} if name == "all" else {"pool": name}
        self.guard.set_flavor(name, self.flavors[name])

    @rule()
    def settle(self) -> None:
        self.guard.settle()
        state, capacities, guard = self.made()
        for flavor, labels in self.flavors.items():
            guard.set_flavor(flavor, labels)
        for node in self.nodes.values():
            capacities.set_node(node, 0)
        for found in self.queues.values():
            guard.set_queue(*found)
        for written in self.cohorts.values():
            guard.set_cohort(written)
        guard.settle()
        for name in self.queues:
            assert self.guard.shortages(name) == guard.shortages(name)
            kept, anew = (
                one.forest.queues[names.ClusterQueueName(name)] for one in (self.state, state)
            )
            assert kept.quotas == anew.quotas
        for cohort in map(names.CohortName, self.cohorts):
            assert self.state.forest.cohorts[cohort].quotas == state.forest.cohorts[cohort].quotas
        assert self.guard.take_present().keys() <= set(QUEUE_NAMES)
        assert self.guard._present == guard._present


TestGuardMachine = GuardMachine.TestCase

GPU_NAME: Final = names.ResourceName(GPU)


def make_queue(name: str, cohort: str, quota: int) -> model.ClusterQueue:
    groups = [group({"f": {GPU_NAME: (quota,)}})]
    return cluster_queue(name, cohort=cohort or None, groups=groups)
