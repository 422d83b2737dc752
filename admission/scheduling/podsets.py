"""What a workload asks for: totals per pod set, its queue time and its equivalence key.

Source: kueue pkg/workload (workload.go, ordering), pkg/resources.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from admission.base import amount
from admission.base.conditions import EvictionReason
from admission.base.names import FlavorName, ResourceName
from admission.scheduling.model import PodSet, Workload

PODS: Final = ResourceName("pods")
"""The resource that counts pods; never requested by a pod itself."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one pod set asks for, in total.

    Attributes:
        pod_set: the pod set.
        count: pods that are asked for.
        requests: total over ``count`` pods, canonical units, without ``pods``; the amounts that
            hold in most flavors.
        counted: resources that stand for the number of pods instead of what pods request.
    """

    pod_set: PodSet
    count: int
    requests: Mapping[ResourceName, int]
    counted: tuple[ResourceName, ...] = ()

    def in_flavor(self, flavor: FlavorName, resource: ResourceName) -> int:
        """Return the total of a resource, were the pods to run in a flavor; 0 of any other.

        Counted when asked: few of a queue's flavors are looked at, and most pods cost the same in
        all of them.
        """
        pod_set = self.pod_set
        each = pod_set.requests_by_flavor.get(flavor, _NOTHING).get(resource)
        if (each is None and not pod_set.together) or resource in self.counted:
            return self.requests.get(resource, 0)
        if each is None:
            each = pod_set.requests.get(resource, 0)
        total = amount.multiply(max(0, each), self.count)
        for member in pod_set.together:
            total = amount.add(total, member.in_flavor(flavor, resource))
        return total

    def priced_flavors(self) -> frozenset[FlavorName]:
        """Return flavors in which something of it may cost another amount than in most."""
        shared = (member.requests_by_flavor for member in self.pod_set.together)
        return frozenset(self.pod_set.requests_by_flavor).union(*shared)

    def scaled(self, count: int) -> "Demand":
        """Return the demand of fewer pods."""
        return demand_of(self.pod_set, count)

    def with_pods(self) -> "Demand":
        """Return the demand with the number of pods as a resource."""
        return Demand(self.pod_set, self.count, {**self.requests, PODS: self.count}, (PODS,))


_NOTHING: Final[Mapping[ResourceName, int]] = {}


def demands(workload: Workload) -> tuple[Demand, ...]:
    """Return the demand of each pod set at its effective count, in the order of the spec."""
    return tuple(_demand(pod_set) for pod_set in workload.pod_sets)


def _demand(pod_set: PodSet) -> Demand:
    """Return the demand of the pods that still run; where some have ended, of whole slices."""
    count = pod_set.effective_count
    size = 1 if pod_set.topology is None else pod_set.topology.slice_size
    whole = -(-count // size) * size
    return demand_of(pod_set, whole if whole <= pod_set.count else count)


def demand_of(pod_set: PodSet, count: int) -> Demand:
    """Return the demand of so many of a pod set's pods."""
    requests = _total(pod_set.requests, count)
    for member in pod_set.together:
        for resource, highest in member.requests.items():
            requests[resource] = amount.add(requests.get(resource, 0), highest)
    return Demand(pod_set, count, requests)


def _total(requests: Mapping[ResourceName, int], count: int) -> dict[ResourceName, int]:
    return {r: amount.multiply(max(0, value), count) for r, value in requests.items()}


def exceeds(workload: Workload) -> bool:
    """Return whether a workload asks for more now than the quota that it holds was reserved for.

    One that holds none does not. What is not covered by its queue counts where all pods share it.
    """
    reservation = workload.reservation
    assigned = (
        {}
        if reservation is None
        else {assignment.name: assignment for assignment in reservation.pod_sets}
    )
    for pod_set in workload.pod_sets:
        assignment = assigned.get(pod_set.name)
        if assignment is None:
            continue
        demand = demand_of(pod_set, assignment.count)
        shared = {resource for each in pod_set.together for resource in each.requests}
        for resource, highest in demand.requests.items():
            flavor = assignment.flavors.get(resource)
            if flavor is None:
                if resource in shared and highest > 0:
                    return True
            elif demand.in_flavor(flavor, resource) > assignment.usage.get(resource, 0):
                return True
    return False


def reduced(demanded: Sequence[Demand], step: int) -> tuple[Demand, ...]:
    """Return the demands after ``step`` of ``partial_steps`` reductions.

    Pods that are placed in slices fill whole ones.
    """
    steps = partial_steps(demanded)
    return tuple(
        demand.scaled(_in_slices(demand, demand.count - _reducible(demand) * step // steps))
        if _reducible(demand)
        else demand
        for demand in demanded
    )


def _in_slices(demanded: Demand, count: int) -> int:
    """So many pods or fewer that fill whole slices, as far as the minimum allows it."""
    request = demanded.pod_set.topology
    size = 1 if request is None else request.slice_size
    minimum = demanded.pod_set.min_count or 0
    whole = max(count - count % size, -(-minimum // size) * size)
    return whole if whole <= demanded.count else count


def partial_steps(demanded: Sequence[Demand]) -> int:
    """Return how many pods may be left out at most."""
    return sum(_reducible(demand) for demand in demanded)


def _reducible(demanded: Demand) -> int:
    minimum = demanded.pod_set.min_count
    return 0 if minimum is None else max(0, demanded.count - minimum)


def groups(demanded: Sequence[Demand]) -> tuple[tuple[Demand, ...], ...]:
    """Return pod sets that must get the same flavors, in the order of their first member."""
    by_key: dict[Hashable, list[Demand]] = {}
    for index, demand in enumerate(demanded):
        by_key.setdefault(demand.pod_set.group or index, []).append(demand)
    return tuple(tuple(members) for members in by_key.values())


def queue_timestamp(workload: Workload, *, by_eviction: bool = True) -> int:
    """Return the time that orders workloads of equal priority, in microseconds.

    The creation time, except after an eviction by an admission check or, with ``by_eviction``,
    by pods that were not ready in time: then the time of the eviction. Preempted workloads so
    return to their old place.
    """
    eviction = workload.eviction
    if eviction is not None and (
        eviction.reason == EvictionReason.ADMISSION_CHECK
        or (by_eviction and eviction.reason == EvictionReason.PODS_READY_TIMEOUT)
    ):
        return eviction.since_us
    return workload.created_us


def equivalence_key(workload: Workload) -> Hashable:
    """Return a key that is equal for workloads of a queue that decisions cannot tell apart.

    When one of them does not fit, neither do the others.
    """
    pod_sets = (_pod_set_key(pod_set) for pod_set in workload.pod_sets)
    return (workload.priority, workload.replaces, *pod_sets)


def _pod_set_key(pod_set: PodSet) -> Hashable:
    return (
        pod_set.name,
        pod_set.shape,
        pod_set.effective_count,
        pod_set.min_count,
        pod_set.group,
        pod_set.topology,
        _frozen(pod_set.requests),
        _frozen(pod_set.node_selector),
        pod_set.affinity,
        pod_set.needs,
        pod_set.tolerations,
        tuple(
            (flavor, _frozen(amounts)) for flavor, amounts in pod_set.requests_by_flavor.items()
        ),
        tuple(pod_set.unsuited),
        tuple(
            (
                member.key,
                _frozen(member.requests),
                tuple((f, _frozen(amounts)) for f, amounts in member.requests_by_flavor.items()),
            )
            for member in pod_set.together
        ),
    )


def _frozen(values: Mapping[ResourceName, int] | Mapping[str, str]) -> Hashable:
    return tuple(sorted(values.items()))


def in_visiting_order(resources: Iterable[ResourceName]) -> list[ResourceName]:
    """Return resources in the order in which their groups are looked at.

    Any fixed order would do for the decision; the first group that fails is the one reported, so
    this is Kueue's: by the 64-bit FNV-1a hash of the name.
    """
    return sorted(resources, key=_visiting_key)


@lru_cache(maxsize=4096)
def _visiting_key(resource: str) -> tuple[int, str]:
    digest = 0xCBF29CE484222325
    for byte in resource.encode():
        digest = (digest ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return digest, resource
