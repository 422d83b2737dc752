"""Workloads that share something: who is charged for it, and what that means for the others.

A reservation always states what the pods of its workload use in full, what they share included.
In each ClusterQueue one workload is charged for what is shared: of those that hold quota there the
one that got it first. The others of that queue are counted without it, and wait without it. When
the one that is charged gives back its quota, the next of the queue is charged. So each queue
counts what is shared once, as long as anybody in it uses it, and a charge never moves into a queue
that has no room for it (ADR 0057).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from admission.base import amount
from admission.base.names import ChargeKey, ClusterQueueName, FlavorName, ResourceName, Uid
from admission.scheduling.decisions import Admit, PodSetAssignment, Wait
from admission.scheduling.heads import HeadResult
from admission.scheduling.hierarchy import QueueNode
from admission.scheduling.model import PodSet, Reservation, ResourceGroup, Together, Workload
from admission.scheduling.pending import Pending


class _Holder(NamedTuple):
    """A workload that holds quota and uses something shared.

    Attributes:
        rank: since when it holds quota, then its UID: the lowest is charged.
        queue: the ClusterQueue.
        flavor: in which it uses what is shared; None if it is not known.
    """

    rank: tuple[int, Uid]
    queue: ClusterQueueName
    flavor: FlavorName | None


class _Standing(NamedTuple):
    """Who uses something shared.

    Attributes:
        first: of all that hold quota, the one that got it first; None for nobody.
        charged: the one that is charged, by ClusterQueue.
    """

    first: ChargeKey | None
    charged: Mapping[ClusterQueueName, ChargeKey]


_Value = TypeVar("_Value")


def keys(workload: Workload) -> frozenset[str]:
    """Return what a workload shares with whoever names the same."""
    return frozenset(shared.key for pod_set in workload.pod_sets for shared in pod_set.together)


def flavor_of(key: str, workload: Workload, reservation: Reservation) -> FlavorName | None:
    """Return the flavor in which a shared claim is held; None if it is not known."""
    assigned = {pod_set_.name: pod_set_ for pod_set_ in reservation.pod_sets}
    for pod_set in workload.pod_sets:
        assignment = assigned.get(pod_set.name)
        for shared in pod_set.together if assignment is not None else ():
            if shared.key == key and assignment is not None:
                flavors = (assignment.flavors.get(resource) for resource in shared.requests)
                return next((flavor for flavor in flavors if flavor is not None), None)
    return None


def relieved(
    workload: Workload,
    flavors_of_shared: Mapping[str, FlavorName | None],
    waived: Collection[str],
    groups: Iterable[ResourceGroup],
) -> Workload:
    """Return a waiting workload without what its queue is charged for, in the flavors of others.

    Args:
        workload: the workload with its own requests.
        flavors_of_shared: the flavor in which each thing is held that it shares with somebody
            who holds quota.
        waived: keys of those things that its ClusterQueue is charged for already.
        groups: of its ClusterQueue.
    """
    listed = [{flavor.name for flavor in group.flavors} for group in groups]
    pod_sets = tuple(
        _relieved(pod_set, flavors_of_shared, waived, listed) for pod_set in workload.pod_sets
    )
    return replace(workload, pod_sets=pod_sets)


def _relieved(
    pod_set: PodSet,
    flavors_of_shared: Mapping[str, FlavorName | None],
    waived: Collection[str],
    groups: Iterable[Collection[FlavorName]],
) -> PodSet:
    unsuited = dict(pod_set.unsuited)
    together = []
    for shared in pod_set.together:
        is_waived = shared.key in waived
        free = Together(key=shared.key, requests=dict.fromkeys(shared.requests, 0))
        together.append(free if is_waived else shared)
        if shared.key not in flavors_of_shared:
            continue
        place = flavors_of_shared[shared.key]
        why = f"ResourceClaim {shared.key} is held in flavor {place}"
        other_flavors = (flavor for group in groups if place in group for flavor in sorted(group))
        unsuited |= {flavor: why for flavor in other_flavors if flavor != place}
    return replace(pod_set, together=tuple(together), unsuited=unsuited)


def in_full(verdict: HeadResult, whole: Workload) -> HeadResult:
    """Return an admission that states what the pods use, where it was decided without a charge.

    Args:
        verdict: verdict about the workload without what it shares.
        whole: the workload as it asks.
    """
    decision = verdict.decision
    if isinstance(decision, Wait):
        return verdict
    return replace(verdict, decision=_admit_in_full(decision, verdict.head.workload, whole))


def _admit_in_full(admit: Admit, decided: Workload, whole: Workload) -> Admit:
    if decided.pod_sets == whole.pod_sets:
        return admit
    before = {pod_set.name: pod_set for pod_set in decided.pod_sets}
    after = {pod_set.name: pod_set for pod_set in whole.pod_sets}
    return replace(
        admit,
        pod_sets=tuple(
            _in_full(pod_set, before[pod_set.name].together, after[pod_set.name].together)
            for pod_set in admit.pod_sets
        ),
    )


def _in_full(
    assigned: PodSetAssignment, decided: Iterable[Together], whole: Iterable[Together]
) -> PodSetAssignment:
    usage: dict[ResourceName, int] = dict(assigned.usage)
    for member, other in zip(whole, decided, strict=True):
        for resource in member.requests:
            flavor = assigned.flavors.get(resource)
            if flavor is not None:
                excess = member.in_flavor(flavor, resource) - other.in_flavor(flavor, resource)
                usage[resource] = amount.add(usage.get(resource, 0), excess)
    return replace(assigned, usage=usage)


class SharedClaims:
    """Users and holders of what is shared, by its key."""

    def __init__(self) -> None:
        self._keys: dict[ChargeKey, frozenset[str]] = {}
        self._users: dict[str, dict[ChargeKey, None]] = {}
        self._holders: dict[str, dict[ChargeKey, _Holder]] = {}
        self._concerned: dict[ChargeKey, None] = {}

    def note(self, workload: Workload, reservation: Reservation | None) -> None:
        """Take a workload as it is now, for good or as it is assumed to be.

        Args:
            workload: the workload with its own requests.
            reservation: the quota that it holds; None where it holds none.
        """
        key, shared = workload.key, keys(workload)
        if not shared and key not in self._keys:
            return
        concerned = shared | self._keys.get(key, frozenset())
        before = {shared_key: self._standing(shared_key) for shared_key in concerned}
        self._forget(key)
        if shared:
            self._keys[key] = shared
        for shared_ in shared:
            self._users.setdefault(shared_, {})[key] = None
            if reservation is not None:
                self._holders.setdefault(shared_, {})[key] = _Holder(
                    (reservation.reserved_us, workload.uid),
                    reservation.cluster_queue,
                    flavor_of(shared_, workload, reservation),
                )
        self._concern_others(before, key)

    def drop(self, key: ChargeKey) -> None:
        """Forget a workload."""
        before = {shared_key: self._standing(shared_key) for shared_key in self._keys.get(key, ())}
        self._forget(key)
        self._concerned.pop(key, None)
        self._concern_others(before, key)

    def take_concerned(self) -> tuple[ChargeKey, ...]:
        """Return workloads that are counted otherwise for what was noted since the last call."""
        concerned = tuple(self._concerned)
        self._concerned.clear()
        return concerned

    def waived(self, key: ChargeKey, queue: ClusterQueueName) -> frozenset[str]:
        """Return what a workload is not charged for in a ClusterQueue, as another one there is."""
        return frozenset(
            shared_key
            for shared_key in self._keys.get(key, ())
            if self._standing(shared_key).charged.get(queue, key) != key
        )

    def relieved(self, workload: Workload, queue: QueueNode) -> Workload:
        """Return a waiting workload as it is counted in a ClusterQueue."""
        flavors_of_shared = {}
        for shared_key in self._keys.get(workload.key, ()):
            first = self._standing(shared_key).first
            if first is not None and first != workload.key:
                flavors_of_shared[shared_key] = self._holders[shared_key][first].flavor
        if not flavors_of_shared:
            return workload
        waived = self.waived(workload.key, queue.spec.name)
        return relieved(workload, flavors_of_shared, waived, queue.spec.resource_groups)

    def apart(
        self, chosen: Iterable[tuple[ClusterQueueName, Pending]]
    ) -> list[tuple[ClusterQueueName, Pending]]:
        """Return workloads of which no two share a claim; earlier ones take precedence.

        Where one of two is given quota, the other has to go where that is.
        """
        apart: list[tuple[ClusterQueueName, Pending]] = []
        taken: set[str] = set()
        for name, item in chosen:
            shared = self._keys.get(item.workload.key, frozenset())
            if taken.isdisjoint(shared):
                apart.append((name, item))
                taken |= shared
        return apart

    def _standing(self, key: str) -> _Standing:
        """Who holds what is shared now, and who is charged for it."""
        holders = self._holders.get(key, {})
        charged: dict[ClusterQueueName, ChargeKey] = {}
        for member, holder in holders.items():
            other = charged.get(holder.queue)
            if other is None or holder.rank < holders[other].rank:
                charged[holder.queue] = member
        first = min(charged.values(), key=lambda holder: holders[holder].rank, default=None)
        return _Standing(first, charged)

    def _concern_others(self, before: Mapping[str, _Standing], key: ChargeKey) -> None:
        changed = (
            shared_key
            for shared_key in sorted(before)
            if self._standing(shared_key) != before[shared_key]
        )
        for user in (user for shared_key in changed for user in self._users.get(shared_key, ())):
            if user != key:
                self._concerned[user] = None

    def _forget(self, key: ChargeKey) -> None:
        for shared_key in self._keys.pop(key, ()):
            _remove(self._users, shared_key, key)
            _remove(self._holders, shared_key, key)


def _remove(index: dict[str, dict[ChargeKey, _Value]], key: str, member: ChargeKey) -> None:
    members = index.get(key, {})
    members.pop(member, None)
    if not members:
        index.pop(key, None)
