"""Quota that is held by pods without a node: admitted, and not bound.

It is counted for each workload when its admission or its pods change, and summed up by
ClusterQueue. Pods that are not created yet count, too. Not counted are pods of a workload slice,
which carry the name of another one, and pods that are charged on their own.
"""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from admission.base import amount
from admission.base.names import ChargeKey, ClusterQueueName, FlavorResource
from admission.scheduling.changes import Changes
from admission.scheduling.model import Reservation, Workload
from admission.scheduling.reserving import ReservingWorkload

_SPARE: Final = 64
"""Entries of a heap that may be stale before it is made anew."""


@dataclass(frozen=True, slots=True)
class WithoutNode:
    """Quota of one flavor and resource whose pods are on no node.

    Attributes:
        amount: how much.
        since_us: when the oldest workload of these was admitted, in microseconds since 1970.
    """

    amount: int
    since_us: int


@dataclass(frozen=True, slots=True)
class _HeldPart:
    """What one workload holds without a node."""

    queue: ClusterQueueName
    since_us: int
    amounts: Mapping[FlavorResource, int]


@dataclass(slots=True)
class _PairSum:
    """What all workloads of a ClusterQueue hold of one flavor and resource."""

    amount: int = 0
    since_us: dict[ChargeKey, int] = field(default_factory=dict)
    oldest: list[tuple[int, ChargeKey]] = field(default_factory=list)

    def add(self, key: ChargeKey, value: int, since_us: int) -> None:
        self.amount += value
        self.since_us[key] = since_us
        heapq.heappush(self.oldest, (since_us, key))
        if len(self.oldest) > 2 * len(self.since_us) + _SPARE:
            self.oldest = [(at_us, key) for key, at_us in self.since_us.items()]
            heapq.heapify(self.oldest)

    def remove(self, key: ChargeKey, value: int) -> None:
        self.amount -= value
        del self.since_us[key]

    def told(self) -> WithoutNode:
        while self.since_us.get(self.oldest[0][1]) != self.oldest[0][0]:
            heapq.heappop(self.oldest)
        return WithoutNode(self.amount, self.oldest[0][0])


class QuotaWithoutNode:
    """What admitted workloads hold without a node, and its sums by ClusterQueue."""

    def __init__(self, changes: Changes) -> None:
        """Knows of nothing yet.

        Args:
            changes: is told of ClusterQueues whose sums change.
        """
        self._changes = changes
        self._parts: dict[ChargeKey, _HeldPart] = {}
        self._sums: dict[ClusterQueueName, dict[FlavorResource, _PairSum]] = {}

    def hold(
        self,
        workload: Workload,
        reservation: Reservation,
        holder: ReservingWorkload,
        bound: Mapping[str, int],
    ) -> None:
        """Count a workload that holds quota as it is now.

        Args:
            workload: the workload.
            reservation: what it was given.
            holder: what of it is charged.
            bound: how many pods of each pod set are on nodes.
        """
        amounts: dict[FlavorResource, int] = {}
        if holder.admitted and not (holder.evicted or holder.is_pod) and workload.replaces is None:
            for pair, value in _without_node(workload, reservation, bound):
                amounts[pair] = amounts.get(pair, 0) + value
        charged = {pair: min(n, holder.usage.get(pair, 0)) for pair, n in amounts.items()}
        some = {pair: value for pair, value in charged.items() if value}
        part = _HeldPart(holder.cluster_queue, holder.admitted_us, some) if some else None
        self._replace(holder.key, part)

    def release(self, key: ChargeKey) -> None:
        """Forget a workload that holds no quota any more."""
        self._replace(key, None)

    def of(self, name: ClusterQueueName) -> dict[FlavorResource, WithoutNode]:
        """Return what a ClusterQueue's workloads hold without a node; missing: nothing."""
        return {
            pair: pair_sum.told() for pair, pair_sum in sorted(self._sums.get(name, {}).items())
        }

    def _replace(self, key: ChargeKey, part: _HeldPart | None) -> None:
        before = self._parts.pop(key, None)
        if part is not None:
            self._parts[key] = part
        if before == part:
            return
        if before is not None:
            sums = self._sums[before.queue]
            for pair, value in before.amounts.items():
                sums[pair].remove(key, value)
                if not sums[pair].since_us:
                    del sums[pair]
            if not sums:
                del self._sums[before.queue]
            self._changes.queue(before.queue)
        if part is not None:
            sums = self._sums.setdefault(part.queue, {})
            for pair, value in part.amounts.items():
                sums.setdefault(pair, _PairSum()).add(key, value, part.since_us)
            self._changes.queue(part.queue)


def _without_node(
    workload: Workload, reservation: Reservation, bound: Mapping[str, int]
) -> Iterator[tuple[FlavorResource, int]]:
    """Yield what the pods of each pod set hold that are on no node."""
    pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
    for assigned in reservation.pod_sets:
        pod_set = pod_sets.get(assigned.name)
        count = assigned.count
        if pod_set is not None:
            count = min(count, pod_set.effective_count)
        left = max(0, count - bound.get(assigned.name, 0))
        for resource, flavor in assigned.flavors.items():
            used = assigned.usage.get(resource, 0)
            if left < assigned.count:
                used = amount.scale_down(used, assigned.count, left)
            yield FlavorResource(flavor, resource), used
