"""Whatever order events come in, the State ends where one told only the end would be."""

from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from admission.base.names import FlavorResource, LocalQueueKey, WorkloadKey
from admission.scheduling import model, quota
from admission.scheduling.state import SchedulerState
from admission.scheduling.status import QueueReport
from tests.properties.engine_worlds import COHORTS, FLAVORS, QUEUES, at, cohorts, queues, workloads

NAMES = [f"w{index}" for index in range(6)]
names = st.sampled_from(NAMES)


class StateEvents(RuleBasedStateMachine):
    """Random edits and cycles on one State; what is stored is remembered beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.second = 0
        self.config = model.Config()
        self.state = SchedulerState(self.config)
        self.stored: dict[Any, Any] = {}
        self.state.set_namespace("default", {})
        for name in FLAVORS:
            self.state.set_resource_flavor(model.ResourceFlavor(name=name))

    @rule(data=st.data(), name=st.sampled_from(QUEUES))
    def set_queue(self, data, name):
        self.stored["queue", name] = value = data.draw(queues(name))
        self.state.set_cluster_queue(value, at(self.second))

    @rule(name=st.sampled_from(QUEUES))
    def drop_queue(self, name):
        self.stored.pop(("queue", name), None)
        self.state.drop_cluster_queue(name)

    @rule(name=st.sampled_from(QUEUES), stop=st.sampled_from(list(model.StopPolicy)))
    def set_local_queue(self, name, stop):
        key = LocalQueueKey("default", name)
        value = model.LocalQueue(key=key, cluster_queue=name, stop_policy=stop)
        self.stored["local", name] = value
        self.state.set_local_queue(value, at(self.second))

    @rule(name=st.sampled_from(QUEUES))
    def drop_local_queue(self, name):
        self.stored.pop(("local", name), None)
        self.state.drop_local_queue(LocalQueueKey("default", name))

    @rule(found=cohorts())
    def set_cohorts(self, found):
        for value in found:
            self.stored["cohort", value.name] = value
            self.state.set_cohort(value, at(self.second))

    @rule(name=st.sampled_from(COHORTS), parent=st.none() | st.sampled_from(COHORTS))
    def move_cohort(self, name, parent):
        """May close a cycle."""
        value = model.Cohort(name=name, parent=parent)
        self.stored["cohort", name] = value
        self.state.set_cohort(value, at(self.second))

    @rule(name=st.sampled_from(COHORTS))
    def drop_cohort(self, name):
        self.stored.pop(("cohort", name), None)
        self.state.drop_cohort(name)

    @rule(data=st.data(), name=names)
    def set_workload(self, data, name):
        """A new form of a workload without quota, or a new workload."""
        known = self.state.workload(WorkloadKey("default", name))
        if known is None or known.reservation is None:
            value = data.draw(workloads(name))
            self.stored["workload", name] = value
            self.state.set_workload(value, at(self.second))

    @rule(name=names)
    def drop_workload(self, name):
        self.stored.pop(("workload", name), None)
        self.state.drop_workload(WorkloadKey("default", name), at(self.second))

    @rule(name=names, changes=st.sampled_from([{"active": False}, {"finished": True}]))
    def end_workload(self, name, changes):
        known = self.state.workload(WorkloadKey("default", name))
        if known is not None:
            self.stored["workload", name] = value = replace(known, **changes)
            self.state.set_workload(value, at(self.second))

    @rule()
    def cycle(self):
        """A cycle whose decisions are written at once."""
        self.second += 1
        result = self.state.run_cycle(at(self.second))
        for admit in result.admitted:
            node = self.state.forest.queues[admit.cluster_queue]
            for one in admit.pod_sets:
                for resource, flavor in one.flavors.items():
                    # however much an edit has taken away, what was just given was there
                    assert quota.available(node, FlavorResource(flavor, resource)) >= 0
        for admit in result.admitted:
            self._write(admit.workload)
        for evict in result.evicted:
            self._write(evict.workload, reservation=None, preempted_by=evict.preempted_by)

    def _write(self, key: WorkloadKey, **changes: Any) -> None:
        known = self.state.workload(key)
        assert known is not None
        self.stored["workload", key.name] = value = replace(known, **changes)
        self.state.set_workload(value, at(self.second))

    def _rebuilt(self) -> SchedulerState:
        fresh = SchedulerState(self.config)
        for (kind, _), value in self.stored.items():
            match kind:
                case "queue":
                    fresh.set_cluster_queue(value)
                case "local":
                    fresh.set_local_queue(value)
                case "cohort":
                    fresh.set_cohort(value)
                case _:
                    fresh.set_workload(value)
        fresh.set_namespace("default", {})
        for name in FLAVORS:
            fresh.set_resource_flavor(model.ResourceFlavor(name=name))
        return fresh

    @invariant()
    def equals_a_state_built_from_what_is_stored(self):
        fresh = self._rebuilt()
        now_us = at(self.second)
        for one in (self.state, fresh):
            one.has_work(now_us)  # brings everything up to date
        assert self.state.forest.queues.keys() == fresh.forest.queues.keys()
        assert self.state.forest.cohorts.keys() == fresh.forest.cohorts.keys()
        for name, node in fresh.forest.queues.items():
            mine = self.state.forest.queues[name]
            shown = [one.cluster_queue_status(name) for one in (self.state, fresh)]
            assert without_turns(shown[0]) == without_turns(shown[1])
            held = sum(sum(one.usage.values()) for one in mine.workloads.values())
            assert sum(shown[0].reservation.values()) == held  # also of what was taken out
            assert mine.active == node.active
            for fr in node.quotas:
                assert quota.available(mine, fr) == quota.available(node, fr)
                assert quota.potential(mine, fr) == quota.potential(node, fr)
            waiting = [set(one.pending_order(name)) for one in (self.state, fresh)]
            assert waiting[0] == waiting[1]

    @invariant()
    def usage_is_never_negative(self):
        for node in (*self.state.forest.queues.values(), *self.state.forest.cohorts.values()):
            assert all(used >= 0 for used in node.usage.values())


def without_turns(found: QueueReport) -> QueueReport:
    """A status without who is tried and who is parked, which is forgotten at a restart."""
    return replace(found, parked=0, active_classes=0, parked_classes=0)


StateEvents.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
test_events = StateEvents.TestCase
