"""Small worlds for tables: queues and workloads in cores, times in seconds before now."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from admission.base.names import (
    ClusterQueueName,
    CohortName,
    FlavorName,
    LocalQueueKey,
    WorkloadKey,
)
from admission.scheduling import model
from admission.scheduling.decisions import CycleResult, Wait
from admission.scheduling.state import SchedulerState
from tests.builders.scheduling import CPU, NOW_US, SECOND_US


@dataclass
class World:
    """A State with shortcuts to look at it.

    Attributes:
        clock: seconds since the first cycle.
    """

    state: SchedulerState
    clock: int = 0

    def cycle(self) -> CycleResult:
        """The next cycle, a second after the last."""
        result = self.state.run_cycle(NOW_US + self.clock * SECOND_US)
        self.clock += 1
        return result

    def add(self, *workloads: model.Workload) -> None:
        """More workloads."""
        for one in workloads:
            self.state.set_workload(one, NOW_US + self.clock * SECOND_US)

    def finish(self, *names: str) -> None:
        """Workloads that end."""
        for name in names:
            key = WorkloadKey("default", name)
            self.state.drop_workload(key, NOW_US + self.clock * SECOND_US)

    def active(self, queue: str) -> list[str]:
        """Names of those that compete, in order."""
        now_us = NOW_US + self.clock * SECOND_US
        return [key.name for key in self.state.active_order(ClusterQueueName(queue), now_us)]

    def node(self, name: str) -> Any:
        """A ClusterQueue or cohort of the tree."""
        self.state.forest.refresh()
        found = self.state.forest.queues.get(ClusterQueueName(name))
        return found or self.state.forest.cohorts[CohortName(name)]


def world(
    *objects: model.ClusterQueue | model.Cohort | model.ResourceFlavor | model.Workload,
    flavors: Sequence[str] = ("std",),
    config: model.Config | None = None,
) -> World:
    """A world of those objects; every ClusterQueue has a LocalQueue of its name."""
    state = SchedulerState(config)
    state.set_namespace("default", {})
    for name in flavors:
        state.set_resource_flavor(model.ResourceFlavor(name=FlavorName(name)))
    for one in objects:
        if isinstance(one, model.ClusterQueue):
            state.set_cluster_queue(one)
            key = LocalQueueKey("default", one.name)
            state.set_local_queue(model.LocalQueue(key=key, cluster_queue=one.name))
        elif isinstance(one, model.Cohort):
            state.set_cohort(one)
        elif isinstance(one, model.ResourceFlavor):
            state.set_resource_flavor(one)
        else:
            state.set_workload(one, NOW_US)
    return World(state)


def admitted(result: CycleResult) -> list[str]:
    """Names of the workloads that got quota, in order."""
    return [one.workload.name for one in result.admitted]


def flavors_of(result: CycleResult) -> dict[str, str]:
    """The cpu flavor of the first pod set of each admitted workload."""
    return {one.workload.name: one.pod_sets[0].flavors[CPU] for one in result.admitted}


def evicted(result: CycleResult) -> dict[str, str]:
    """Victims and why each was preempted."""
    return {one.workload.name: str(one.preemption_reason) for one in result.evicted}


def waits(result: CycleResult) -> dict[str, Wait]:
    """Those that got nothing, by name."""
    return {one.workload.name: one for one in result.waiting}
