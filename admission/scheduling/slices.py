"""Quota of elastic owners: a Workload slice is charged only for what it has more than the last.

The new slice asks for all pods that its owner is to have. While it waits it is counted without
what the old one holds, in the flavors of the old one; once it holds quota, the old one counts for
nothing. So a change from three pods to ten needs quota for seven, and both are never counted.
Source: kueue pkg/workloadslicing, pkg/scheduler (scheduler.go, flavorassigner).
Differs: the old slice is subtracted from what is asked for, and not taken for a victim.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from admission.base import amount
from admission.base.names import FlavorName, ResourceName
from admission.scheduling import podsets
from admission.scheduling.decisions import Admit
from admission.scheduling.heads import HeadResult
from admission.scheduling.model import (
    PodSet,
    PodSetAssignment,
    Reservation,
    ResourceGroup,
    Workload,
)


def relieved(
    new: Workload, old: Workload, reservation: Reservation, groups: Iterable[ResourceGroup]
) -> Workload | None:
    """Return a waiting slice as it is counted: with the pods that it has more than the old one.

    None where the pods of one are not those of the other: then it is counted in full.

    Args:
        new: the slice that waits.
        old: the one that it replaces.
        reservation: what the old one holds.
        groups: of the ClusterQueue.
    """
    listed = [{flavor.name for flavor in group.flavors} for group in groups]
    before = {pod_set.name: pod_set for pod_set in old.pod_sets}
    assigned = {pod_set.name: pod_set for pod_set in reservation.pod_sets}
    if [pod_set.name for pod_set in new.pod_sets] != list(
        before
    ) or assigned.keys() != before.keys():
        return None
    pod_sets = []
    for pod_set in new.pod_sets:
        assignment = assigned[pod_set.name]
        if not _is_alike(pod_set, assignment):
            return None
        pods = pod_set.effective_count - min(
            before[pod_set.name].effective_count, assignment.count
        )
        elsewhere = _elsewhere(assignment.flavors.values(), listed)
        pod_sets.append(
            replace(
                pod_set,
                count=max(0, pods),
                min_count=None
                if pod_set.min_count is None
                else min(pod_set.min_count, max(0, pods)),
                reclaimable=0,
                unsuited={**pod_set.unsuited, **elsewhere},
            )
        )
    return replace(new, pod_sets=tuple(pod_sets))


def _is_alike(pod_set: PodSet, assignment: PodSetAssignment) -> bool:
    """Return whether a pod asks for what each pod of an assignment was given."""
    if pod_set.together:
        return False
    demand = podsets.demand_of(pod_set, assignment.count).with_pods()
    return all(
        resource in demand.requests
        and demand.in_flavor(flavor, resource) == assignment.usage.get(resource, 0)
        for resource, flavor in assignment.flavors.items()
    )


def _elsewhere(
    flavors: Iterable[FlavorName], groups: Iterable[set[FlavorName]]
) -> Mapping[FlavorName, str]:
    """Return the flavors that are none of those in which the old slice is, and why not."""
    kept = set(flavors)
    return {
        flavor: f"the pods that run are in flavor {min(kept & group)}"
        for group in groups
        if kept & group
        for flavor in sorted(group - kept)
    }


def in_full(verdict: HeadResult, whole: Workload) -> HeadResult:
    """Return an admission that states what all pods of a slice use.

    Args:
        verdict: verdict about the slice without what its predecessor holds.
        whole: the slice as it asks.
    """
    admit, decided = verdict.decision, verdict.head.workload
    if not isinstance(admit, Admit) or verdict.head.replaces is None:
        return verdict
    before = {pod_set.name: pod_set for pod_set in decided.pod_sets}
    after = {pod_set.name: pod_set for pod_set in whole.pod_sets}
    pod_sets = tuple(
        _in_full(pod_set, after[pod_set.name], pod_set.count - before[pod_set.name].count)
        for pod_set in admit.pod_sets
    )
    return replace(verdict, decision=replace(admit, pod_sets=pod_sets))


def _in_full(assigned: PodSetAssignment, pod_set: PodSet, left_out: int) -> PodSetAssignment:
    """Return the assignment of all pods of a pod set but some that were left out."""
    count = amount.add(pod_set.effective_count, left_out)
    demand = podsets.demand_of(pod_set, count).with_pods()
    usage: dict[ResourceName, int] = {
        resource: demand.in_flavor(flavor, resource)
        for resource, flavor in assigned.flavors.items()
    }
    return replace(assigned, count=count, usage=usage)
