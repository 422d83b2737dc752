"""Who holds quota where: the workloads of the quota trees, and sums per LocalQueue."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from admission.base.names import ChargeKey, ClusterQueueName, FlavorResource, LocalQueueKey
from admission.scheduling import quota
from admission.scheduling.changes import Changes
from admission.scheduling.hierarchy import CohortHierarchy, QueueNode
from admission.scheduling.inadmissible import InadmissibleRequeues
from admission.scheduling.reserving import ReservingWorkload


@dataclass(slots=True)
class HolderCounts:
    """Sums over the workloads of one LocalQueue or ClusterQueue.

    Attributes:
        reserving: number of workloads; those that may run among them are ``admitted``.
        reservation: usage of ``reserving``.
        usage: usage of ``admitted``.
        leaving: usage of those that were told to leave, or that end.
    """

    reserving: int = 0
    admitted: int = 0
    reservation: dict[FlavorResource, int] = field(default_factory=dict)
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    leaving: dict[FlavorResource, int] = field(default_factory=dict)

    def count(self, workload: ReservingWorkload, sign: int) -> None:
        """Add a workload (1) or remove it (-1)."""
        counted = not workload.is_pod
        self.reserving += sign * counted
        self.admitted += sign * (workload.admitted and counted)
        for fr, value in workload.usage.items():
            self.reservation[fr] = self.reservation.get(fr, 0) + sign * value
            if workload.admitted:
                self.usage[fr] = self.usage.get(fr, 0) + sign * value
            if workload.evicted:
                self.leaving[fr] = self.leaving.get(fr, 0) + sign * value


class QuotaHolders:
    """Workloads with quota; those of a missing ClusterQueue are counted once it exists.

    Attributes:
        unready: number of workloads whose pods are not all ready.
        touched: keys of those that may hold something else than when they were last taken out.
    """

    def __init__(
        self, forest: CohortHierarchy, changes: Changes, requeues: InadmissibleRequeues
    ) -> None:
        self.unready = 0
        self.touched: set[ChargeKey] = set()
        self._forest = forest
        self._changes = changes
        self._requeues = requeues
        self._workloads: dict[ChargeKey, ReservingWorkload] = {}
        self._homeless: dict[ClusterQueueName, dict[ChargeKey, ReservingWorkload]] = {}
        self._locals: dict[LocalQueueKey, HolderCounts] = {}
        self._queues: dict[ClusterQueueName, HolderCounts] = {}

    def holds(self, key: ChargeKey) -> bool:
        """Return whether a workload holds quota."""
        return key in self._workloads

    def get(self, key: ChargeKey) -> ReservingWorkload | None:
        """Return what a workload holds, or None."""
        return self._workloads.get(key)

    def workloads(self) -> dict[ChargeKey, ReservingWorkload]:
        """Return everything that is charged, as a copy."""
        return dict(self._workloads)

    def tally(self, key: LocalQueueKey) -> HolderCounts:
        """Return the sums of one LocalQueue."""
        return self._locals.get(key, HolderCounts())

    def tally_of_queue(self, name: ClusterQueueName) -> HolderCounts:
        """Return the sums of one ClusterQueue."""
        return self._queues.get(name, HolderCounts())

    def hold(self, new: ReservingWorkload, now_us: int) -> None:
        """Count a workload as it is now, instead of as it was before."""
        old = self._workloads.get(new.key)
        self.touched.add(new.key)
        if old is not None:
            self._note_update(old)
            if old == new:
                return
            self._remove(old)
            if _freed(old) != _freed(new):
                self._requeues.tree(old.cluster_queue, now_us)
        self._insert(new)

    def release(self, key: ChargeKey, now_us: int) -> bool:
        """Free what a workload holds; return whether it held anything."""
        old = self._workloads.get(key)
        if old is None:
            return False
        self.touched.add(key)
        self._note_update(old)
        self._remove(old)
        self._requeues.tree(old.cluster_queue, now_us)
        return True

    def attach(self, node: QueueNode) -> None:
        """Add a ClusterQueue: count what was waiting for it."""
        for workload in self._homeless.pop(node.name, {}).values():
            quota.hold(node, workload)

    def detach(self, node: QueueNode) -> None:
        """Remove a ClusterQueue: its workloads wait for one of that name."""
        if node.workloads:
            self._homeless[node.name] = dict(node.workloads)

    def _note_update(self, old: ReservingWorkload) -> None:
        """Scans that stopped half way in this queue start again."""
        if (node := self._forest.queues.get(old.cluster_queue)) is not None:
            node.generation += 1

    def _insert(self, new: ReservingWorkload) -> None:
        self._workloads[new.key] = new
        self.unready += not new.ready
        self._locals.setdefault(new.local_queue, HolderCounts()).count(new, 1)
        self._queues.setdefault(new.cluster_queue, HolderCounts()).count(new, 1)
        node = self._forest.queues.get(new.cluster_queue)
        if node is None:
            self._homeless.setdefault(new.cluster_queue, {})[new.key] = new
        else:
            quota.hold(node, new)
        self._changes.tree(node)

    def _remove(self, old: ReservingWorkload) -> None:
        del self._workloads[old.key]
        self.unready -= not old.ready
        self._locals[old.local_queue].count(old, -1)
        if not any(self._locals[old.local_queue].reservation.values()) and (
            not self._locals[old.local_queue].reserving
        ):
            del self._locals[old.local_queue]
        self._queues[old.cluster_queue].count(old, -1)
        node = self._forest.queues.get(old.cluster_queue)
        if node is None:
            self._homeless[old.cluster_queue].pop(old.key)
        else:
            quota.release(node, old.key)
        self._changes.tree(node)


def _freed(holder: ReservingWorkload) -> Hashable:
    """Return what others may get, or may do, once it is another."""
    return (
        holder.cluster_queue,
        tuple(holder.usage.items()),
        holder.priority,
        holder.local_queue,
        holder.user,
    )
