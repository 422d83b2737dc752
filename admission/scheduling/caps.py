"""The most that one user, or one LocalQueue, may hold in a ClusterQueue.

A cap is about a resource in all flavors together. It is no quota: nobody can lend it, borrow it
or preempt for it. What a workload holds of surge quota does not count (ADR 0164).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from admission.base.causes import Capped, CapPlace, CapReached, ExceedsCap
from admission.base.names import FlavorResource, LocalQueueKey, ResourceName
from admission.scheduling import podsets
from admission.scheduling.model import ClusterQueue, LocalQueue, ResourceGroup, User, Workload
from admission.scheduling.podsets import PODS, Demand
from admission.scheduling.reserving import ReservingWorkload


class Scope(NamedTuple):
    """Whose usage in a ClusterQueue is counted together.

    Attributes:
        local_queue: only what came by it; None for all LocalQueues.
        user: only what is of that user; None for all users.
    """

    local_queue: LocalQueueKey | None
    user: User | None


Holdings = dict[Scope, dict[ResourceName, int]]
"""Amounts held in a ClusterQueue, without scopes and resources with none."""


def count(holdings: Holdings, workload: ReservingWorkload, sign: int) -> None:
    """Add what a workload holds (1) or take it off (-1)."""
    if workload.surges:
        return
    for scope in _scopes(workload):
        holding = holdings.get(scope)
        if holding is None:
            holding = holdings[scope] = {}
        for (_, resource), value in workload.usage.items():
            if total := holding.get(resource, 0) + sign * value:
                holding[resource] = total
            else:
                holding.pop(resource, None)
        if not holding:
            del holdings[scope]


def _scopes(workload: ReservingWorkload | Workload) -> tuple[Scope, Scope, Scope]:
    local = workload.queue if isinstance(workload, Workload) else workload.local_queue
    return Scope(None, workload.user), Scope(local, workload.user), Scope(local, None)


def _totals(usage: Mapping[FlavorResource, int]) -> dict[ResourceName, int]:
    totals: dict[ResourceName, int] = {}
    for fr, value in usage.items():
        if value:
            totals[fr.resource] = totals.get(fr.resource, 0) + value
    return totals


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """A cap with what is held of it.

    Attributes:
        most: the most that may be held.
        held: amount that is held of it.
        cluster_queue: the ClusterQueue in which it is counted.
    """

    scope: Scope
    resource: ResourceName
    most: int
    held: int
    cluster_queue: str

    @property
    def left(self) -> int:
        """Return what may still be taken; negative after the cap was lowered."""
        return self.most - self.held

    def reason(self, requested: int) -> Capped:
        """Return why a workload that asks for this amount waits."""
        local, user = self.scope
        place = CapPlace(
            self.cluster_queue,
            "" if local is None else local.name,
            "" if user is None else user.name,
            "" if user is None else user.namespace,
        )
        if requested > self.most:
            return ExceedsCap(place, self.resource, requested, self.most)
        return CapReached(place, self.resource, requested, self.most, self.held)


Caps = Mapping[ResourceName, tuple[Cap, ...]]
"""Every cap that a workload comes under, by resource."""

NONE: Final[Caps] = {}


def of(
    workload: Workload,
    queue: ClusterQueue,
    local: LocalQueue | None,
    holdings: Holdings,
    *,
    without: ReservingWorkload | None = None,
) -> Caps:
    """Return the caps that a workload comes under.

    Args:
        workload: the workload that asks for quota.
        queue: the ClusterQueue in which it does.
        local: its LocalQueue; None where it is not known.
        holdings: what is held in the ClusterQueue.
        without: a workload that is counted there, and gives its quota to this one.
    """
    limits = [queue.max_per_user]
    if local is not None:
        limits += [local.max_per_user, local.max_in_use]
    if not any(limits):
        return NONE
    by_scope = tuple(zip(_scopes(workload), limits, strict=False))
    caps_by_resource: dict[ResourceName, tuple[Cap, ...]] = {}
    for scope, caps in by_scope:
        leaving = without is not None and not without.surges and scope in _scopes(without)
        gone = _totals(without.usage) if leaving and without is not None else {}
        for resource, limit in caps.items():
            amount_held = holdings.get(scope, {}).get(resource, 0) - gone.get(resource, 0)
            cap = Cap(
                scope=scope,
                resource=resource,
                most=limit,
                held=amount_held,
                cluster_queue=queue.name,
            )
            caps_by_resource[resource] = (*caps_by_resource.get(resource, ()), cap)
    return caps_by_resource


def broken(caps: Caps, resource: ResourceName, requested: int) -> Capped | None:
    """Return why this amount of a resource may not be held; None if it may.

    A cap that is too low for ever comes before one that others use up; of two such the one that
    leaves less.
    """
    over = [cap for cap in caps.get(resource, ()) if requested > max(0, cap.left)]
    if not over or requested <= 0:
        return None
    too_low = [cap for cap in over if requested > cap.most]
    if too_low:
        return min(too_low, key=lambda cap: cap.most).reason(requested)
    return min(over, key=lambda cap: cap.left).reason(requested)


def broken_by(caps: Caps, usage: Mapping[FlavorResource, int]) -> bool:
    """Return whether a usage is more than the caps leave."""
    totals = _totals(usage) if caps else {}
    return any(broken(caps, resource, value) for resource, value in totals.items())


def broken_in_every_flavor(
    caps: Caps, demands: tuple[Demand, ...], group_of: Mapping[str, ResourceGroup]
) -> Capped | None:
    """Return why a workload may not have as little as it can make do with; None if it may.

    Args:
        caps: the caps that apply to it.
        demands: what it asks for; with fewer pods where it can start with fewer.
        group_of: the resource group of each resource that the ClusterQueue covers.
    """
    if not caps:
        return None
    fewest_pods = podsets.reduced(demands, podsets.partial_steps(demands))
    if PODS in group_of:
        fewest_pods = tuple(demand.with_pods() for demand in fewest_pods)
    for resource in sorted(caps):
        group = group_of.get(resource)
        requested = (
            0 if group is None else sum(_least(demand, resource, group) for demand in fewest_pods)
        )
        if (capped := broken(caps, resource, requested)) is not None:
            return capped
    return None


def _least(demand: Demand, resource: ResourceName, group: ResourceGroup) -> int:
    if resource not in demand.requests:
        return 0
    return min((demand.in_flavor(flavor.name, resource) for flavor in group.flavors), default=0)


def classes(workload: Workload, queue: ClusterQueue, local: LocalQueue) -> Iterable[object]:
    """Yield the values by which equal workloads differ to which different caps apply."""
    if local.max_per_user or local.max_in_use:
        yield local.key
    if local.max_per_user or queue.max_per_user:
        yield workload.user
