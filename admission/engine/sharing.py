"""Workloads that share something: who is charged for it, and what that means for the others.

A reservation always states what the pods of its workload use in full, what they share included.
One workload is charged for what is shared: of those that hold quota the one that got it first.
The others are counted without it, and wait without it; as soon as the one that is charged gives
back its quota, the next is charged. So what is shared is counted once, as long as anybody uses it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from admission.base import amount
from admission.base.names import FlavorName, ResourceName
from admission.engine.decisions import Admit, PodSetAssignment, Wait
from admission.engine.heads import Verdict
from admission.engine.model import PodSet, Reservation, ResourceGroup, Together, Workload


def keys(workload: Workload) -> frozenset[str]:
    """What a workload shares with whoever names the same."""
    return frozenset(one.key for pod_set in workload.pod_sets for one in pod_set.together)


def flavor_of(key: str, workload: Workload, reservation: Reservation) -> FlavorName | None:
    """In which flavor something shared is held; None where that cannot be told."""
    assigned = {one.name: one for one in reservation.pod_sets}
    for pod_set in workload.pod_sets:
        held = assigned.get(pod_set.name)
        for one in pod_set.together if held is not None else ():
            if one.key == key and held is not None:
                found = (held.flavors.get(resource) for resource in one.requests)
                return next((flavor for flavor in found if flavor is not None), None)
    return None


def relieved(
    workload: Workload,
    held: Mapping[str, FlavorName | None],
    groups: Iterable[ResourceGroup],
) -> Workload:
    """A waiting workload without the charge for what others hold already, in their flavors.

    Args:
        workload: as it asks.
        held: the flavor in which each thing is held that it shares with somebody who is charged.
        groups: of its ClusterQueue.
    """
    listed = [{flavor.name for flavor in group.flavors} for group in groups]
    pod_sets = tuple(_relieved(one, held, listed) for one in workload.pod_sets)
    return replace(workload, pod_sets=pod_sets)


def _relieved(
    pod_set: PodSet,
    held: Mapping[str, FlavorName | None],
    groups: Iterable[Collection[FlavorName]],
) -> PodSet:
    unsuited = dict(pod_set.unsuited)
    together = []
    for one in pod_set.together:
        if one.key not in held:
            together.append(one)
            continue
        together.append(Together(key=one.key, requests=dict.fromkeys(one.requests, 0)))
        place = held[one.key]
        why = f"ResourceClaim {one.key} is held in flavor {place}"
        others = (flavor for group in groups if place in group for flavor in sorted(group))
        unsuited |= {flavor: why for flavor in others if flavor != place}
    return replace(pod_set, together=tuple(together), unsuited=unsuited)


def in_full(verdict: Verdict, asked: Workload) -> Verdict:
    """An admission that states what the pods use, where it was decided without a charge.

    Args:
        verdict: of the workload as it was relieved.
        asked: the workload as it asks.
    """
    decision = verdict.decision
    if isinstance(decision, Wait):
        return verdict
    return replace(verdict, decision=_admit_in_full(decision, verdict.head.workload, asked))


def _admit_in_full(admit: Admit, decided: Workload, asked: Workload) -> Admit:
    if decided.pod_sets == asked.pod_sets:
        return admit
    before = {one.name: one for one in decided.pod_sets}
    after = {one.name: one for one in asked.pod_sets}
    return replace(
        admit,
        pod_sets=tuple(
            _in_full(one, before[one.name].together, after[one.name].together)
            for one in admit.pod_sets
        ),
    )


def _in_full(
    assigned: PodSetAssignment, decided: Iterable[Together], asked: Iterable[Together]
) -> PodSetAssignment:
    usage: dict[ResourceName, int] = dict(assigned.usage)
    for one, other in zip(asked, decided, strict=True):
        for resource in one.requests:
            flavor = assigned.flavors.get(resource)
            if flavor is not None:
                more = one.in_flavor(flavor, resource) - other.in_flavor(flavor, resource)
                usage[resource] = amount.add(usage.get(resource, 0), more)
    return replace(assigned, usage=usage)
