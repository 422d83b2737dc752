"""Each ClusterQueue uses once what workloads share, whoever comes, waits, ends or is lost."""

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from admission.base.names import (
    ClusterQueueName,
    FlavorName,
    FlavorResource,
    LocalQueueKey,
    PodSetName,
    ResourceName,
    Uid,
    WorkloadKey,
)
from admission.scheduling import model
from admission.scheduling.state import SchedulerState
from tests.builders.scheduling import cluster_queue, group
from tests.properties.engine_worlds import at

GPU = ResourceName("nvidia.com/gpu")
QUEUES = (ClusterQueueName("left"), ClusterQueueName("right"))
FLAVORS = (FlavorName("small"), FlavorName("large"))
QUOTAS = {FLAVORS[0]: 2, FLAVORS[1]: 4}
SHARED = tuple(
    model.Together(key=key, requests={GPU: amount}, requests_by_flavor={FLAVORS[0]: {GPU: less}})
    for key, amount, less in (("x", 1, 1), ("y", 3, 2))
)
NAMES = [f"w{index}" for index in range(6)]
names = st.sampled_from(NAMES)


def queue(name: ClusterQueueName) -> model.ClusterQueue:
    quotas: dict[str, dict[str, Any]] = {
        flavor: {GPU: (nominal,)} for flavor, nominal in QUOTAS.items()
    }
    return cluster_queue(name, groups=[group(quotas)])


class Sharers(RuleBasedStateMachine):
    """Workloads that share, in a State; what is stored is remembered beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.second = 0
        self.stored: dict[WorkloadKey, model.Workload] = {}
        self.unwritten: dict[WorkloadKey, model.Reservation] = {}
        self.state = self._empty()

    @staticmethod
    def _empty() -> SchedulerState:
        state = SchedulerState(model.Config())
        state.set_namespace("default", {})
        for flavor in FLAVORS:
            state.set_resource_flavor(model.ResourceFlavor(name=flavor))
        for name in QUEUES:
            state.set_cluster_queue(queue(name))
            key = LocalQueueKey("default", name)
            state.set_local_queue(model.LocalQueue(key=key, cluster_queue=name))
        return state

    @rule(
        name=names,
        where=st.sampled_from(QUEUES),
        own=st.integers(0, 1),
        shared=st.lists(st.sampled_from(SHARED), unique_by=lambda one: one.key),
    )
    def create(
        self, name: str, where: ClusterQueueName, own: int, shared: list[model.Together]
    ) -> None:
        key = WorkloadKey("default", name)
        if key not in self.stored:
            pod_set = model.PodSet(
                name=PodSetName("main"), requests={GPU: own}, together=tuple(shared)
            )
            self._store(
                model.Workload(
                    key=key,
                    uid=Uid(f"{name}-{self.second}"),
                    queue=LocalQueueKey("default", where),
                    priority=0,
                    created_us=at(self.second),
                    pod_sets=(pod_set,),
                )
            )

    def _store(self, workload: model.Workload) -> None:
        self.stored[workload.workload_key] = workload
        self.state.set_workload(workload, at(self.second))

    @rule()
    def cycle(self) -> None:
        self.second += 1
        for admit in self.state.run_cycle(at(self.second)).admitted:
            self.unwritten[admit.workload] = model.Reservation(
                cluster_queue=admit.cluster_queue,
                pod_sets=admit.pod_sets,
                reserved_us=at(self.second),
            )

    @rule(name=names)
    def write(self, name: str) -> None:
        """What was decided arrives as it was written."""
        key = WorkloadKey("default", name)
        reservation = self.unwritten.pop(key, None)
        if reservation is not None:
            self._store(replace(self.stored[key], reservation=reservation))

    @rule(name=names)
    def fail_to_write(self, name: str) -> None:
        key = WorkloadKey("default", name)
        if self.unwritten.pop(key, None) is not None:
            self.state.forget(key, at(self.second))

    @rule(name=names)
    def finish(self, name: str) -> None:
        found = self.stored.get(WorkloadKey("default", name))
        if found is not None:
            self.unwritten.pop(found.workload_key, None)
            self._store(replace(found, finished=True))

    @rule(name=names)
    def delete(self, name: str) -> None:
        key = WorkloadKey("default", name)
        self.unwritten.pop(key, None)
        if self.stored.pop(key, None) is not None:
            self.state.drop_workload(key, at(self.second))

    @rule(order=st.permutations(NAMES))
    def restart(self, order: list[str]) -> None:
        """Memory is lost; what was decided and not written is decided anew."""
        self.state, self.unwritten = self._empty(), {}
        for name in order:
            found = self.stored.get(WorkloadKey("default", name))
            if found is not None:
                self.state.set_workload(found, at(self.second))

    def _holders(self) -> list[tuple[model.Workload, model.Reservation]]:
        known = (self.state.workload(key) for key in self.stored)
        return [
            (one, one.reservation)
            for one in known
            if one is not None and one.reservation is not None and not one.finished
        ]

    @invariant()
    def each_queue_uses_it_once_and_everything_else_as_often_as_it_is_asked_for(self) -> None:
        needed: dict[ClusterQueueName, Counter[FlavorResource]] = {
            name: Counter() for name in QUEUES
        }
        places: dict[tuple[ClusterQueueName, str], FlavorResource] = {}
        for workload, reservation in sorted(
            self._holders(), key=lambda one: (one[1].reserved_us, one[0].uid)
        ):
            (pod_set,), (assigned,) = workload.pod_sets, reservation.pod_sets
            flavor = assigned.flavors[GPU]
            in_full = pod_set.requests[GPU] + sum(
                one.in_flavor(flavor, GPU) for one in pod_set.together
            )
            assert assigned.usage[GPU] == in_full
            place = FlavorResource(flavor, GPU)
            name = reservation.cluster_queue
            needed[name][place] += pod_set.requests[GPU]
            for one in pod_set.together:
                if (name, one.key) not in places:
                    places[name, one.key] = place
                    needed[name][place] += one.in_flavor(flavor, GPU)
                assert places[name, one.key] == place or len(pod_set.together) > 1
        for name, node in self.state.forest.queues.items():
            assert +Counter(node.usage) == +needed[name], name

    @invariant()
    def no_queue_uses_more_than_its_quota(self) -> None:
        """A charge never moves to where there is no room for it."""
        for name, node in self.state.forest.queues.items():
            for flavor, nominal in QUOTAS.items():
                assert node.usage.get(FlavorResource(flavor, GPU), 0) <= nominal, name

    @invariant()
    def a_waiting_workload_fits_if_only_what_is_held_keeps_it_out(self) -> None:
        """Nobody waits for what others hold for it already."""
        self.state.has_work(at(self.second))
        for name in QUEUES:
            held = {
                one.key
                for w, reservation in self._holders()
                for one in w.pod_sets[0].together
                if reservation.cluster_queue == name
            }
            for key in self.state.pending_order(name):
                (pod_set,) = self.stored[key].pod_sets
                free = pod_set.requests[GPU] == 0 and {o.key for o in pod_set.together} <= held
                if free and len(pod_set.together) == 1:
                    assert key in self.state.active_order(name, at(self.second))


def test_two_that_share_are_decided_one_after_the_other_so_that_they_meet():
    made = Sharers()
    made.create("w0", QUEUES[0], 0, [SHARED[1]])
    made.create("w1", QUEUES[1], 0, [SHARED[1]])
    for _ in range(2):
        made.cycle()
    flavors = {
        flavor for _, held in made._holders() for flavor in held.pod_sets[0].flavors.values()
    }
    assert (len(made._holders()), flavors) == (2, {FLAVORS[0]})
    made.each_queue_uses_it_once_and_everything_else_as_often_as_it_is_asked_for()


Sharers.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
test_sharers = Sharers.TestCase
