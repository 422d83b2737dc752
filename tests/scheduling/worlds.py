"""Small worlds for tables: queues and workloads in cores, times in seconds before now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from admission.base import quantity
from admission.base.names import (
    ClusterQueueName,
    CohortName,
    FlavorName,
    FlavorResource,
    LocalQueueKey,
    PodSetName,
    ResourceName,
    Uid,
    WorkloadKey,
)
from admission.scheduling import model
from admission.scheduling.decisions import CycleResult, Wait
from admission.scheduling.state import State

NOW_US = 1_000_000_000_000
SECOND_US = 1_000_000
CPU = ResourceName("cpu")
Policy = model.PreemptionPolicy

NEVER = Policy.NEVER
LOWER = Policy.LOWER_PRIORITY
NEWER = Policy.LOWER_OR_NEWER_EQUAL_PRIORITY
ANY = Policy.ANY

Quota = tuple[Any, ...]
"""nominal[, borrowing limit[, lending limit]], as quantity text or numbers; None for no limit."""


def amount(resource: str, value: Any) -> int:
    """Canonical amount of a quantity given as number or text."""
    return quantity.to_canonical(resource, str(value))


def quota_of(resource: str, found: Quota) -> model.ResourceQuota:
    """A quota from its short form."""
    limits = [None if one is None else amount(resource, one) for one in (*found, None, None)]
    return model.ResourceQuota(
        nominal=limits[0] or 0, borrowing_limit=limits[1], lending_limit=limits[2]
    )


def group(flavors: Mapping[str, Mapping[str, Quota]]) -> model.ResourceGroup:
    """A resource group: flavor to resource to quota."""
    first = next(iter(flavors.values()))
    return model.ResourceGroup(
        covered_resources=tuple(ResourceName(name) for name in first),
        flavors=tuple(
            model.FlavorQuotas(
                name=FlavorName(flavor),
                resources={ResourceName(r): quota_of(r, q) for r, q in resources.items()},
            )
            for flavor, resources in flavors.items()
        ),
    )


def std(*found: Any) -> tuple[model.ResourceGroup, ...]:
    """One group of cpu in the flavor ``std``."""
    return (group({"std": {"cpu": found}}),)


def cq(
    name: str,
    *found: Any,
    cohort: str | None = None,
    groups: Sequence[model.ResourceGroup] | None = None,
    within: Policy = NEVER,
    reclaim: Policy = NEVER,
    borrow: Policy = NEVER,
    threshold: int | None = None,
    strict: bool = False,
    weight: float = 1,
    scan: tuple[str, ...] = (),
    **more: Any,
) -> model.ClusterQueue:
    """A ClusterQueue; ``found`` is the cpu quota in ``std`` unless groups are given."""
    kinds = (model.SearchPolicy, model.SearchPolicy, model.Preference)
    fields = ("when_can_borrow", "when_can_preempt", "preference")
    fungibility: dict[str, Any] = {
        f: kind(text) for f, kind, text in zip(fields, kinds, scan, strict=False)
    }
    return model.ClusterQueue(
        name=ClusterQueueName(name),
        cohort=None if cohort is None else CohortName(cohort),
        resource_groups=std(*found) if groups is None else tuple(groups),
        preemption=model.Preemption(
            within_cluster_queue=within,
            reclaim_within_cohort=reclaim,
            borrow_within_cohort=borrow,
            max_priority_threshold=threshold,
        ),
        queueing_strategy=model.QueueingStrategy("StrictFIFO" if strict else "BestEffortFIFO"),
        fungibility=model.FlavorFungibility(**fungibility),
        fair_weight=round(weight * model.DEFAULT_WEIGHT),
        namespace_selector=model.Selector(),
        **more,
    )


def cohort(name: str, *found: Any, parent: str | None = None, weight: float = 1) -> model.Cohort:
    """A Cohort with a cpu quota in ``std``, if any."""
    return model.Cohort(
        name=CohortName(name),
        parent=None if parent is None else CohortName(parent),
        resource_groups=std(*found) if found else (),
        fair_weight=round(weight * model.DEFAULT_WEIGHT),
    )


_SPELLED = {
    "nvidia_com__gpu": "nvidia.com/gpu",
    "example_com__gpu": "example.com/gpu",
    "ephemeral_storage": "ephemeral-storage",
}


def pods(
    name: str = "main", count: int = 1, least: int | None = None, **requests: Any
) -> model.PodSet:
    """A pod set; requests per pod, ``cpu=2``, ``nvidia_com__gpu=1``."""
    amounts = {_SPELLED.get(r, r): v for r, v in requests.items()}
    return model.PodSet(
        name=PodSetName(name),
        count=count,
        min_count=least,
        requests={ResourceName(r): amount(r, v) for r, v in amounts.items()},
    )


def want(
    name: str,
    queue: str,
    cpu: Any = None,
    *,
    p: int = 0,
    t: int = 0,
    sets: Sequence[model.PodSet] = (),
    **more: Any,
) -> model.Workload:
    """A waiting workload, created ``t`` seconds from now (negative: ago)."""
    return model.Workload(
        key=WorkloadKey("default", name),
        uid=Uid(name),
        queue=LocalQueueKey("default", queue),
        priority=p,
        created_us=NOW_US + t * SECOND_US,
        pod_sets=tuple(sets) or (pods(cpu=cpu),),
        **more,
    )


def held(
    name: str,
    queue: str,
    cpu: Any = None,
    *,
    p: int = 0,
    t: int = -1000,
    r: int = -100,
    usage: Mapping[tuple[str, str], Any] | None = None,
    evicted: bool = False,
) -> model.Workload:
    """A workload that got its quota ``r`` seconds from now; usage by (flavor, resource)."""
    used = {("std", "cpu"): cpu} if usage is None else usage
    assigned = model.PodSetAssignment(
        name=PodSetName("main"),
        count=1,
        flavors={ResourceName(resource): FlavorName(flavor) for flavor, resource in used},
        usage={ResourceName(r): amount(r, value) for (_, r), value in used.items()},
    )
    return replace(
        want(name, queue, p=p, t=t, sets=[pods()]),
        reservation=model.Reservation(
            cluster_queue=ClusterQueueName(queue),
            pod_sets=(assigned,),
            reserved_us=NOW_US + r * SECOND_US,
        ),
        eviction=model.Eviction(reason="Preempted", since_us=NOW_US) if evicted else None,
    )


@dataclass
class World:
    """A State with shortcuts to look at it.

    Attributes:
        clock: seconds since the first cycle.
    """

    state: State
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
    state = State(config)
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


STD_CPU = FlavorResource(FlavorName("std"), CPU)
