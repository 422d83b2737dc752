"""Values that scheduling works on: amounts in cores, times in seconds from now."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
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

NOW_US = 1_000_000_000_000
SECOND_US = 1_000_000
CPU = ResourceName("cpu")
STD_CPU = FlavorResource(FlavorName("std"), CPU)
Policy = model.PreemptionPolicy

NEVER = Policy.NEVER
LOWER = Policy.LOWER_PRIORITY
NEWER = Policy.LOWER_OR_NEWER_EQUAL_PRIORITY
ANY = Policy.ANY

Quota = tuple[Any, ...]
"""nominal[, borrowing limit[, lending limit]], as quantity text or numbers; None for no limit."""


def amount(resource: str, value: Any) -> int:
    """Return the canonical amount of a quantity given as number or text."""
    return quantity.to_canonical(resource, str(value))


def quota_of(resource: str, found: Quota) -> model.ResourceQuota:
    """Return a quota from its short form."""
    limits = [None if one is None else amount(resource, one) for one in (*found, None, None)]
    return model.ResourceQuota(
        nominal=limits[0] or 0, borrowing_limit=limits[1], lending_limit=limits[2]
    )


def group(flavors: Mapping[str, Mapping[str, Quota]]) -> model.ResourceGroup:
    """Return a resource group: flavor to resource to quota."""
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
    """Return one group of cpu in the flavor ``std``."""
    return (group({"std": {"cpu": found}}),)


def cluster_queue(
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
    """Return a ClusterQueue; `found` is the cpu quota in ``std`` unless groups are given."""
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
    """Return a Cohort with a cpu quota in ``std``, if any."""
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


def pod_set(
    name: str = "main", count: int = 1, least: int | None = None, **requests: Any
) -> model.PodSet:
    """Return a pod set; requests per pod, ``cpu=2``, ``nvidia_com__gpu=1``."""
    amounts = {_SPELLED.get(r, r): v for r, v in requests.items()}
    return model.PodSet(
        name=PodSetName(name),
        count=count,
        min_count=least,
        requests={ResourceName(r): amount(r, v) for r, v in amounts.items()},
    )


def waiting(
    name: str,
    queue: str,
    cpu: Any = None,
    *,
    priority: int = 0,
    created: int = 0,
    sets: Sequence[model.PodSet] = (),
    **more: Any,
) -> model.Workload:
    """Return a waiting Workload, `created` seconds from now (negative: ago)."""
    return model.Workload(
        key=WorkloadKey("default", name),
        uid=Uid(name),
        queue=LocalQueueKey("default", queue),
        priority=priority,
        created_us=NOW_US + created * SECOND_US,
        pod_sets=tuple(sets) or (pod_set(cpu=cpu),),
        **more,
    )


def holding(
    name: str,
    queue: str,
    cpu: Any = None,
    *,
    priority: int = 0,
    created: int = -1000,
    reserved: int = -100,
    usage: Mapping[tuple[str, str], Any] | None = None,
    evicted: bool = False,
    **more: Any,
) -> model.Workload:
    """Return a Workload that got quota `reserved` seconds from now; usage by flavor, resource."""
    used = {("std", "cpu"): cpu} if usage is None else usage
    assigned = model.PodSetAssignment(
        name=PodSetName("main"),
        count=1,
        flavors={ResourceName(resource): FlavorName(flavor) for flavor, resource in used},
        usage={ResourceName(r): amount(r, value) for (_, r), value in used.items()},
    )
    return replace(
        waiting(name, queue, priority=priority, created=created, sets=[pod_set()], **more),
        reservation=model.Reservation(
            cluster_queue=ClusterQueueName(queue),
            pod_sets=(assigned,),
            reserved_us=NOW_US + reserved * SECOND_US,
            admitted_us=NOW_US + reserved * SECOND_US,
        ),
        eviction=model.Eviction(reason="Preempted", since_us=NOW_US) if evicted else None,
    )
