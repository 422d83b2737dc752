"""Preemption comes to an end, whoever leads, and whatever comes in the place of a victim.

Workloads are stored as the API server has them; each leader knows only what is stored.
"""

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.base import names
from admission.base.names import FlavorName, LocalQueueKey, Uid, WorkloadKey
from admission.controller.watched_owners.predecessors import Predecessors
from admission.controller.workloads import evictions
from admission.objects import past_preemptions
from admission.objects.workload import Workload
from admission.scheduling import model
from admission.scheduling.decisions import Evict
from admission.scheduling.preemption.history import MOST
from admission.scheduling.state import SchedulerState
from tests.builders.scheduling import ANY, LOWER, cluster_queue, cohort, holding, pod_set, waiting
from tests.builders.workloads import make_workload
from tests.clocks import FakeClock
from tests.properties.engine_worlds import FLAVORS, Cast, at, casts

SECONDS = 25


@dataclass
class Stored:
    """A Workload: what it asks for and holds, and the metadata and status that are looked at."""

    value: model.Workload
    view: Workload

    def told(self) -> model.Workload:
        return replace(
            self.value,
            preempted_by=self.view.past_preemptions(),
            pod_controller=self.view.metadata.annotation(names.POD_CONTROLLER),
        )


def view_of(value: model.Workload, annotations: dict[str, str], **status: Any) -> Workload:
    metadata = {
        "name": value.key.name, "namespace": value.key.namespace, "uid": value.uid,
        "annotations": annotations,
    }  # fmt: skip
    return msgspec.convert(make_workload(metadata=metadata, status=status), Workload)


@dataclass
class Site:
    """What is stored, and the one that leads.

    Attributes:
        cast: queues, settings, and the first workloads.
        rng: decides in which order things happen.
        leaving: Workloads whose pods are being deleted.
        chains: which Workloads follow one another, by UID.
        evicted: evictions of a chain by a lineage.
        made: how many pods came in the place of others.
    """

    cast: Cast
    rng: random.Random
    stored: dict[WorkloadKey, Stored] = field(default_factory=dict)
    leaving: set[WorkloadKey] = field(default_factory=set)
    chains: dict[str, str] = field(default_factory=dict)
    evicted: Counter[tuple[str, str]] = field(default_factory=Counter)
    made: int = 0
    second: int = 0
    clock: FakeClock = field(default_factory=FakeClock)

    def add(self, value: model.Workload, annotations: dict[str, str]) -> None:
        self.stored[value.workload_key] = Stored(value, view_of(value, annotations))
        of = past_preemptions.predecessor(self.stored[value.workload_key].view.metadata)
        self.chains[value.uid] = self.chains[of] if of else value.uid

    def lead(self) -> None:
        """Another process leads; it knows what is stored, and hears of it in any order."""
        self.state = state = SchedulerState(self.cast.config)
        self.predecessors = Predecessors(
            self.clock, lambda key: key in self.leaving or key not in self.stored
        )
        state.set_namespace("default", {})
        for flavor in FLAVORS:
            state.set_resource_flavor(model.ResourceFlavor(name=flavor))
        state.set_resource_flavor(model.ResourceFlavor(name=FlavorName("std")))
        for one in self.cast.cohorts:
            state.set_cohort(one)
        for queue in self.cast.queues:
            state.set_cluster_queue(queue)
            key = LocalQueueKey("default", queue.name)
            state.set_local_queue(model.LocalQueue(key=key, cluster_queue=queue.name))
        for stored in self.rng.sample(list(self.stored.values()), len(self.stored)):
            self.tell(stored)

    def tell(self, stored: Stored) -> None:
        self.state.set_workload(stored.told(), at(self.second))
        self.predecessors.on_update(stored.view)

    def cycle(self) -> int:
        """One cycle; what it decides is written, and victims leave. Return how many."""
        self.second += 1
        self.clock.advance(1)
        result = self.state.run_cycle(at(self.second))
        for admit in result.admitted:
            known = self.state.workload(admit.workload)
            assert known is not None
            stored = self.stored[admit.workload]
            stored.value = replace(known, eviction=None)
            self.tell(stored)
        for evict in result.evicted:
            self.evict(evict)
        return len(result.evicted)

    def evict(self, evict: Evict) -> None:
        stored = self.stored[evict.workload]
        preemptor = self.stored[evict.preemptor].told()
        self.evicted[preemptor.lineage, self.chains[stored.value.uid]] += 1
        stats = evictions.preempt(stored.view, evict, self.clock.now())["schedulingStats"]
        annotations = dict(stored.view.metadata.annotations or {})
        stored.view = view_of(stored.value, annotations, schedulingStats=stats)
        gone = model.Eviction(reason=evict.why.reason, since_us=at(self.second))
        stored.value = replace(stored.value, eviction=gone)
        self.tell(stored)
        if names.POD_CONTROLLER in annotations:
            self.replace_pod(stored, annotations[names.POD_CONTROLLER])
        else:
            stored.value = replace(stored.value, reservation=None)
            self.tell(stored)

    def replace_pod(self, old: Stored, controller: str) -> None:
        """The pod is deleted, and its controller makes another one, before it is gone or after."""
        self.leaving.add(old.value.workload_key)
        knows = True
        if self.rng.random() < 0.5:
            self.drop(old)
            if self.rng.random() < 0.2:
                self.lead()
                knows = False
            self.make(old, controller, knows=knows)
            return
        if self.rng.random() < 0.3:
            self.lead()
        self.make(old, controller, knows=knows)
        if self.rng.random() < 0.3:
            self.lead()
        self.drop(old)

    def drop(self, old: Stored) -> None:
        del self.stored[old.value.workload_key]
        self.state.drop_workload(old.value.workload_key, at(self.second))
        self.predecessors.on_delete(old.view)

    def make(self, old: Stored, controller: str, *, knows: bool) -> None:
        self.made += 1
        name = f"{old.value.workload_key.name.partition('-')[0]}-{self.made}"
        value = replace(
            old.value, key=WorkloadKey("default", name), uid=Uid(name), reservation=None,
            eviction=None, created_us=at(self.second),
        )  # fmt: skip
        annotations = {names.POD_CONTROLLER: controller}
        inherited = self.predecessors.promise(value.workload_key, controller)
        assert inherited or not knows
        if inherited:
            annotations[names.PREEMPTED_BY] = inherited
        self.add(value, annotations)
        self.tell(self.stored[value.workload_key])


def site(cast: Cast, rng: random.Random, controllers: list[str]) -> Site:
    """A site of a cast; each workload is a pod of the controller of its place, if it has one."""
    made = Site(cast, rng)
    for one, controller in zip(cast.workloads, controllers, strict=False):
        made.add(one, {names.POD_CONTROLLER: controller} if controller else {})
    made.lead()
    return made


@given(
    casts(most=6),
    st.lists(st.sampled_from(["", "rs-a", "rs-b"]), min_size=6, max_size=6),
    st.sets(st.integers(0, SECONDS)),
    st.randoms(use_true_random=False),
)
@settings(deadline=None, max_examples=100)
def test_every_eviction_uses_up_a_chance_whoever_leads(cast, controllers, changes, rng):
    """The chances left of all lineages with all chains fall with every eviction, so they end."""
    made = site(cast, rng, controllers)
    for second in range(SECONDS):
        if second in changes:
            made.lead()
        made.cycle()

    assert max(made.evicted.values(), default=0) <= MOST


@given(st.sets(st.integers(0, SECONDS)), st.booleans(), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=50)
def test_taking_turns_ends_whoever_leads(changes, is_pod, rng):
    """By partial admission ``w00`` preempts ``w02``, which gets its quota back, and so on."""
    cast = Cast(
        config=model.Config(),
        cohorts=[cohort("root", 7), cohort("right", 2, 5, parent="root")],
        queues=[
            cluster_queue("b", 5, 5, cohort="right", within=LOWER, reclaim=ANY, borrow=LOWER),
            cluster_queue("c", 1, cohort="root", within=LOWER, reclaim=ANY, borrow=LOWER),
        ],
        workloads=[
            holding("w05", "c", 6, priority=1),
            waiting("w00", "b", created=-2, sets=[pod_set(count=3, least=1, cpu=4)]),
            waiting("w02", "c", priority=1, created=-4, sets=[pod_set(count=2, least=1, cpu=4)]),
        ],
    )
    made = site(cast, rng, ["", "", "rs" if is_pod else ""])
    found = []
    for second in range(SECONDS):
        if second in changes:
            made.lead()
        found.append(made.cycle())

    chains = {chain for uid, chain in made.chains.items() if uid.startswith("w02")}
    taken = {chain: made.evicted["default/w00", chain] for chain in chains}
    assert taken["w02"] == MOST or len(chains) > 1
    assert max(taken.values()) <= MOST
    assert found[-5:] == [0] * 5 or len(chains) > 1
