"""The state of the scheduler: objects, usage, queues and the scheduling cycle.

One thread owns a State; nothing here locks or does I/O. Objects may arrive in any order.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from admission.base import causes
from admission.base.causes import Capped, NoFlavor, NoPlace, Shortage
from admission.base.names import (
    ChargeKey,
    ClusterQueueName,
    CohortName,
    FlavorName,
    FlavorResource,
    KeptCharge,
    LocalQueueKey,
    OwnerCharge,
    PodCharge,
    PodSetName,
    ResourceName,
    WorkloadKey,
)
from admission.base.tables import Index, Table, Tally
from admission.scheduling import (
    blockers,
    caps,
    cycle,
    displaced,
    explain,
    overview,
    podsets,
    quota,
    reserving,
    running,
    sharing,
    shortages,
    slices,
    status,
)
from admission.scheduling.activity import CheckInfo, Dependencies, InactiveReasons
from admission.scheduling.admission_fair_sharing import FairUsage
from admission.scheduling.changes import Changed, Changes
from admission.scheduling.consumption import Consumption, Rank
from admission.scheduling.decisions import Admit, CycleResult, Evict, Requeue, Wait
from admission.scheduling.displaced import DisplacedWorkload, DueSearches, MadeRoom
from admission.scheduling.heads import Head, HeadResult, result_of
from admission.scheduling.hierarchy import CohortHierarchy, CohortNode, QueueNode
from admission.scheduling.inadmissible import InadmissibleRequeues
from admission.scheduling.model import (
    DEFAULT_WEIGHT,
    ClusterQueue,
    Cohort,
    Config,
    LocalQueue,
    PodDomains,
    PodSetAssignment,
    Reservation,
    ResourceFlavor,
    StopPolicy,
    Workload,
)
from admission.scheduling.overview import LocalOverview, Overview
from admission.scheduling.pending import Pending, PendingQueues, PendingSnapshot
from admission.scheduling.places.enforcement import ChargedPods, PodPlaces, asks_devices
from admission.scheduling.places.model import Place, Want
from admission.scheduling.places.search import StepBudget
from admission.scheduling.preemption import history, relief
from admission.scheduling.preemption.history import PreemptionHistory
from admission.scheduling.quota_holders import QuotaHolders
from admission.scheduling.reserving import ReservingWorkload
from admission.scheduling.snapshot import Snapshot
from admission.scheduling.topology.domains import AwayHost, Completed, ToldPods
from admission.scheduling.topology.tree import DomainPath
from admission.scheduling.without_node import QuotaWithoutNode

__all__ = ["Changed", "ClusterQueueStatus", "LocalQueueStatus", "SchedulerState"]

ClusterQueueStatus = status.QueueReport
LocalQueueStatus = status.QueueReport


_SET_ASIDE_US: Final = 60_000_000
"""Between two tries of a workload about which an error ended the decision."""
_KEPT_US: Final = 60_000_000
"""How long places are kept for a workload about which nobody decides any more, as its queue was
stopped or it has moved. While its victims end it is decided again and again."""
_COMING_US: Final = 10_000_000
"""How long after an admission pods are taken to be on their way to nodes. Some come much later,
such as those of a JobSet that starts its Jobs in order; nobody waits for these."""


class _LocalQueueStore(Table[LocalQueueKey, LocalQueue]):
    """LocalQueues by namespace and name.

    Attributes:
        behind: by their ClusterQueue.
        in_namespace: by namespace.
    """

    def __init__(self) -> None:
        super().__init__()
        self.behind = self.index(lambda _, queue: (queue.cluster_queue,))
        self.in_namespace = self.index(lambda key, _: (key.namespace,))


class _KeptUntil(NamedTuple):
    """For how long places are kept for a workload.

    Attributes:
        cluster_queue: where its victims were chosen.
        until_us: when they are given up if nobody decides about it any more.
    """

    cluster_queue: ClusterQueueName
    until_us: int


class _KeptStore(Table[WorkloadKey, _KeptUntil]):
    """Workloads for which places are kept until their victims have left.

    Attributes:
        in_queue: by their ClusterQueue.
    """

    def __init__(self) -> None:
        super().__init__()
        self.in_queue = self.index(lambda _, kept: (kept.cluster_queue,))


class _WorkloadStore(Table[ChargeKey, Workload]):
    """Workloads, and what is charged besides them.

    Attributes:
        of_local: by their LocalQueue.
        of_lineage: by the identity that they share with those that replace them.
        pods_of: pods that are charged on their own, by the workload for which they stand and the
            pod set.
        pod_sets_of: how many there are of each pod set, by that workload.
    """

    def __init__(self) -> None:
        super().__init__()
        self.of_local = self.index(lambda _, workload: (workload.queue,))
        self.of_lineage = self.index(lambda _, workload: (workload.lineage,))
        self.pods_of: Index[tuple[WorkloadKey, PodSetName], ChargeKey] = self.index(
            lambda key, workload: filter(None, (_pod_set_of(key, workload),))
        )
        self.pod_sets_of: Tally[WorkloadKey, PodSetName] = self.tally(_pod_set_of)


class SchedulerState:
    """Objects, usage and queues; decides who gets quota next.

    Attributes:
        config: settings that change decisions.
        forest: the quota trees; read only for others.
        places: nodes, what is on them, and the places promised to workloads.
        cycles: number of cycles that had heads.
    """

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()
        self.forest = CohortHierarchy()
        self.cycles = 0
        self._supplies = Dependencies()
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._local_queues = _LocalQueueStore()
        self._workloads = _WorkloadStore()
        self._assumed: dict[ChargeKey, Reservation] = {}
        self._slices: dict[ChargeKey, dict[ChargeKey, None]] = {}
        """Workloads that replace another one, by the key of that."""
        self._requeues = InadmissibleRequeues(
            self.config.retry_batch_us, self.config.edit_batch_us
        )
        self._changes = Changes()
        self._queues = PendingQueues(self.forest, self._changes)
        self._ledger = QuotaHolders(self.forest, self._changes, self._requeues)
        self._fair_usage = FairUsage(
            self.config.admission_fair_sharing, self._ledger, self._changes
        )
        self._preemption_history = PreemptionHistory()
        self._without_node = QuotaWithoutNode(self._changes)
        self._unpromised: dict[WorkloadKey, None] = {}
        """Workloads that may have lost their quota, or of which other pods are charged besides:
        it is to be seen what they are promised."""
        self._rebound: dict[ChargeKey, None] = {}
        """Workloads with quota of which other pods are on nodes than when they were counted."""
        self.places = PodPlaces(self.config.placement)
        self.places.ledger.bound_changed = self._note_bound
        self._kept = _KeptStore()
        self._sharing = sharing.SharedClaims()
        self._displaced = DueSearches()
        self._turned: dict[ClusterQueueName, None] = {}
        self._blockers: dict[ClusterQueueName, InactiveReasons] = {}

    # ---------------------------------------------------------------------- flavors and checks

    def set_resource_flavor(self, flavor: ResourceFlavor, now_us: int = 0) -> None:
        """Add or replace a flavor."""
        old = self._supplies.flavors.get(flavor.name)
        if old == flavor:
            return
        self._supplies.set_flavor(flavor)
        self.places.set_flavor(flavor)
        if old is not None:
            for name in self._supplies.listing(flavor.name):
                self._requeues.queue(name, now_us, edited=True)

    def drop_resource_flavor(self, name: FlavorName) -> None:
        """Forget a flavor; ClusterQueues that list it become inactive."""
        self._supplies.drop_flavor(name)
        self.places.drop_flavor(name)

    def set_admission_check(self, name: str, *, active: bool, controller: str = "") -> None:
        """Add or replace an admission check."""
        self._supplies.set_check(name, CheckInfo(active, controller))

    def drop_admission_check(self, name: str) -> None:
        """Forget an admission check; ClusterQueues that need it become inactive."""
        self._supplies.drop_check(name)

    def set_topology(self, name: str, levels: tuple[str, ...] = (), now_us: int = 0) -> None:
        """Add or replace a Topology.

        Args:
            name: its name.
            levels: labels of nodes, the widest first.
            now_us: the time.
        """
        self._supplies.set_topology(name, exists=True)
        if self.places.set_topology(name, levels):
            for queue in self._supplies.with_topology(name):
                self._requeues.queue(queue, now_us, edited=True)

    def drop_topology(self, name: str) -> None:
        """Forget a Topology; ClusterQueues with a flavor that names it become inactive."""
        self._supplies.set_topology(name, exists=False)
        self.places.drop_topology(name)

    # -------------------------------------------------------------------------- queues, cohorts

    def set_cluster_queue(self, queue: ClusterQueue, now_us: int = 0) -> None:
        """Add or replace a ClusterQueue."""
        node = self.forest.queues.get(queue.name)
        if node is not None and node.spec == queue:
            return
        self._leaves(node, now_us)
        is_known = node is not None
        regrouped = node is not None and bool(node.spec.max_per_user) != bool(queue.max_per_user)
        node = self.forest.set_queue(queue)
        self._changes.edited(node)
        node.generation += 1
        self._supplies.set_queue(queue)
        ranked = queue.usage_based and self.config.admission_fair_sharing is not None
        self._queues.open(queue, self._rank if ranked else None, now_us)
        if not is_known:
            self._ledger.attach(node)
        for local in self._locals_of(queue.name):
            self._changes.local(local.key)
            if not is_known or regrouped:
                self._place_all(local.key, now_us)
        self._requeues.tree(queue.name, now_us, edited=True)
        if self.places.ledger.lacking():
            self._displaced.again_us = now_us  # by its policies others may leave than before

    def _leaves(self, node: QueueNode | CohortNode | None, now_us: int) -> None:
        """What a node takes with it to its next place is free where it was."""
        self._changes.edited(node)
        if node is not None and node.declared is not None:
            self._requeues.cohort(node.declared.name, now_us)

    def drop_cluster_queue(self, name: ClusterQueueName, now_us: int = 0) -> None:
        """Forget a ClusterQueue; its workloads wait for one of that name."""
        node = self.forest.queues.get(name)
        if node is None:
            return
        self._leaves(node, now_us)
        self._ledger.detach(node)
        self.forest.drop_queue(name)
        self._queues.close(name)
        self._blockers.pop(name, None)
        self._turned.pop(name, None)
        self._supplies.drop_queue(name)
        for local in self._locals_of(name):
            self._changes.local(local.key)

    def _locals_of(self, name: ClusterQueueName) -> list[LocalQueue]:
        return [self._local_queues[key] for key in self._local_queues.behind.keys(name)]

    def set_cohort(self, cohort: Cohort, now_us: int = 0) -> None:
        """Add or replace a Cohort object."""
        node = self.forest.cohorts.get(cohort.name)
        if node is not None and node.spec == cohort:
            return
        self._leaves(node, now_us)
        self._changes.edited(self.forest.set_cohort(cohort))
        self._requeues.cohort(cohort.name, now_us)

    def drop_cohort(self, name: CohortName, now_us: int = 0) -> None:
        """Forget a Cohort object; it stays as an implicit cohort while it has children."""
        node = self.forest.cohorts.get(name)
        if node is not None and node.spec is not None:
            self._leaves(node, now_us)
            self._requeues.cohort(name, now_us)
            self.forest.drop_cohort(name)

    def set_local_queue(self, queue: LocalQueue, now_us: int = 0) -> None:
        """Add or replace a LocalQueue."""
        old = self._local_queues.get(queue.key)
        if old == queue:
            return
        self._local_queues.put(queue.key, queue)
        self._fair_usage.open()
        self._changes.local(queue.key)
        for name in {
            queue.cluster_queue,
            queue.cluster_queue if old is None else old.cluster_queue,
        }:
            self._changes.queue(name)
        self._place_all(queue.key, now_us)
        if old is not None and _caps_of(old) != _caps_of(queue):
            self._requeues.queue(queue.cluster_queue, now_us, edited=True)

    def drop_local_queue(self, key: LocalQueueKey) -> None:
        """Forget a LocalQueue; its pending workloads are not queued any more."""
        old = self._local_queues.pop(key)
        if old is not None:
            self._changes.queue(old.cluster_queue)
            self._changes.local(key)
            self._fair_usage.drop(key)
            for member in self._workloads.of_local.keys(key):
                self._queues.take(member)

    def set_namespace(self, name: str, labels: Mapping[str, str], now_us: int = 0) -> bool:
        """Add or replace a namespace; return whether that may concern its workloads.

        Labels concern them that decide whether a ClusterQueue takes them. Source: kueue
        pkg/controller/core/clusterqueue_controller.go (cqNamespaceHandler).
        """
        before = self._namespaces.get(name)
        if before == labels:
            return False
        self._namespaces[name] = dict(labels)
        concerned = {
            self._local_queues[key].cluster_queue
            for key in self._local_queues.in_namespace.keys(name)
            if self._is_taken(key, before) != self._is_taken(key, labels)
        }
        for queue in sorted(concerned):
            self._requeues.queue(queue, now_us, edited=True)
        return before is None or bool(concerned)

    def _is_taken(self, key: LocalQueueKey, labels: Mapping[str, str] | None) -> bool:
        """Return whether the ClusterQueue of a LocalQueue takes workloads of its namespace."""
        node = self.forest.queues.get(self._local_queues[key].cluster_queue)
        selector = None if node is None else node.spec.namespace_selector
        return labels is not None and selector is not None and selector(labels)

    def drop_namespace(self, name: str) -> None:
        """Forget a namespace."""
        self._namespaces.pop(name, None)

    # -------------------------------------------------------------------------------- workloads

    def set_workload(self, workload: Workload, now_us: int = 0) -> None:
        """Add or replace a workload: it is usage with a reservation, else queued.

        A value without reservation does not undo an assumed one, unless the workload ended or
        was deactivated; a value with one replaces it.
        """
        key = workload.key
        old = self._workloads.get(key)
        if old == workload:
            return
        if not workload.is_pod:
            self._settle_promises(now_us)
        if old is not None and old.uid != workload.uid:
            self.drop_workload(key, now_us)
            old = None
        if workload.reservation is not None or not workload.active or workload.finished:
            self._assumed.pop(key, None)
        self._preemption_history.set_workload(workload)
        self._workloads.put(key, workload)
        if old is not None and old.stands_for != workload.stands_for:
            self._doubt_promise(old)
        if old is not None and old.queue != workload.queue:
            self._changes.local(old.queue)
        if old is not None and old.replaces != workload.replaces:
            self._forget_slice(old)
        if workload.replaces is not None:
            self._slices.setdefault(workload.replaces, {})[key] = None
        self._place(workload, now_us, old)

    def drop_workload(self, key: ChargeKey, now_us: int = 0) -> None:
        """Forget a workload."""
        if isinstance(key, WorkloadKey):
            self._settle_promises(now_us)
        workload = self._workloads.pop(key)
        if workload is None:
            return
        self._assumed.pop(key, None)
        self._preemption_history.forget(key)
        self._fair_usage.released(workload)
        self._queues.take(key)
        self._release(key, now_us)
        self._doubt_promise(workload)
        self._note_left(workload, now_us)
        self._sharing.drop(key)
        self._stand_sharers(now_us)
        self._forget_slice(workload)
        self._stand_slices(workload, now_us)

    def _forget_slice(self, workload: Workload) -> None:
        """Forget that a workload replaces another one."""
        slices_of = self._slices.get(workload.replaces) if workload.replaces is not None else None
        if workload.replaces is None or slices_of is None:
            return
        slices_of.pop(workload.key, None)
        if not slices_of:
            del self._slices[workload.replaces]

    def forget(self, key: ChargeKey, now_us: int = 0) -> None:
        """Undo the assumption of an admission that was certainly not written."""
        if self._assumed.pop(key, None) is not None:
            self._place(self._workloads[key], now_us)

    def holds(self, key: ChargeKey) -> bool:
        """Return whether a workload holds quota."""
        return self._ledger.holds(key)

    def is_pending(self, key: WorkloadKey) -> bool:
        """Return whether a workload is in a queue."""
        return self._queues.get(key) is not None

    def charges(
        self,
    ) -> tuple[
        dict[ChargeKey, ReservingWorkload],
        dict[ClusterQueueName, dict[FlavorResource, int]],
    ]:
        """Return each charge and the usage of each ClusterQueue, as copies."""
        sums: dict[ClusterQueueName, dict[FlavorResource, int]] = {}
        for name, node in self.forest.queues.items():
            sums[name] = dict(node.usage)
            for fr, value in node.surge_usage.items():
                sums[name][fr] = sums[name].get(fr, 0) + value
        return self._ledger.workloads(), sums

    def take_touched(self) -> set[ChargeKey]:
        """Return whose charge may be another one than at the last call."""
        touched, self._ledger.touched = self._ledger.touched, set()
        return touched

    def written_charge(self, key: ChargeKey) -> ReservingWorkload | None:
        """Return what a workload is charged; None also while its admission is not written."""
        return None if key in self._assumed else self._ledger.get(key)

    def last_charge(self, key: ChargeKey) -> ReservingWorkload | None:
        """Return what a workload that has finished was charged; None where it does not tell."""
        workload = self._workloads.get(key)
        if workload is None or not workload.finished or workload.reservation is None:
            return None
        return reserving.of(workload, workload.reservation)

    def charged(
        self, workload: Workload, queue: str, node_labels: Mapping[str, str], now_us: int
    ) -> Workload | None:
        """Return a Workload as it is charged for pods that run; None without its ClusterQueue.

        Args:
            workload: what the pods ask for, as the ClusterQueue counts it.
            queue: name of the ClusterQueue.
            node_labels: see `running.charged`.
            now_us: the present.
        """
        node = self.forest.queues.get(ClusterQueueName(queue))
        if node is None:
            return None
        flavors = self._supplies.flavors
        return running.charged(workload, node.spec, flavors, node_labels, now_us)

    def charge_whole(self, admit: Admit, part: Admit, now_us: int) -> bool:
        """Count quota for all pods of a workload of which some run, if the others fit.

        Args:
            admit: the admission of all.
            part: that of those that run; they are charged already.
            now_us: the present.

        Returns:
            Whether all are counted from now on.
        """
        self._settle(now_us)
        workload = self._workloads.get(admit.workload)
        node = self.forest.queues.get(admit.cluster_queue)
        if workload is None or node is None or workload.reservation is not None:
            return False
        local = self._local_queues.get(workload.queue)
        labels = self._namespaces.get(workload.key.namespace)
        unready, paused = self._blocked_by_pods(), self.config.paused
        asking = replace(workload, on_hold=False)
        if blockers.find(asking, local, node, labels, unready=unready, paused=paused) is not None:
            return False
        excess: dict[FlavorResource, int] = {}
        for whole, charged in zip(admit.pod_sets, part.pod_sets, strict=True):
            for name, amount in whole.usage.items():
                fr = FlavorResource(whole.flavors[name], name)
                excess[fr] = excess.get(fr, 0) + amount - charged.usage[name]
        limits = caps.of(workload, node.spec, local, node.holdings)
        if not quota.fits(node, excess) or caps.broken_by(limits, excess):
            return False
        self._assume(admit, now_us)
        return True

    def workload(self, key: ChargeKey) -> Workload | None:
        """Return the workload as last reported, with an assumed reservation if there is one."""
        workload = self._workloads.get(key)
        if workload is not None and key in self._assumed:
            return replace(workload, reservation=self._assumed[key])
        return workload

    def _place(self, workload: Workload, now_us: int, old: Workload | None = None) -> None:
        """Puts a workload where it belongs, and those that share something with it."""
        self._sharing.note(workload, self._held_by(workload))
        self._stand(workload, now_us, old)
        self._stand_sharers(now_us)
        self._stand_slices(workload, now_us)

    def _stand_slices(self, workload: Workload, now_us: int) -> None:
        """Put the workload that one replaces, and those that replace it, where they belong."""
        for key in (workload.replaces, *self._slices.get(workload.key, ())):
            predecessor = None if key is None else self._workloads.get(key)
            if predecessor is not None and predecessor.owner == workload.owner:
                self._stand(predecessor, now_us)

    def _is_replaced(self, workload: Workload) -> bool:
        """Return whether another workload of its owner holds quota in its place."""
        for key in self._slices.get(workload.key, ()):
            new = self._workloads.get(key)
            if new is None or new.owner != workload.owner or self._held_by(new) is None:
                continue
            if workload.owner and not self._leads_back(workload, new.key):
                return True
        return False

    def _leads_back(self, workload: Workload, key: ChargeKey) -> bool:
        """Return whether a workload replaces, directly or not, the one with that key."""
        seen: set[ChargeKey] = set()
        at: Workload | None = workload
        while at is not None and at.key not in seen and at.replaces is not None:
            if at.replaces == key:
                return True
            seen.add(at.key)
            at = self._workloads.get(at.replaces)
        return False

    def _replaced(
        self, workload: Workload, local: LocalQueue
    ) -> tuple[Workload, Reservation] | None:
        """Return the workload of the same owner that one replaces, and what it holds.

        None where it replaces none that goes on holding quota in the ClusterQueue.
        """
        old = None if workload.replaces is None else self._workloads.get(workload.replaces)
        if old is None or not workload.owner or old.owner != workload.owner:
            return None
        holder = self._held_by(old)
        is_here = holder is not None and holder.cluster_queue == local.cluster_queue
        if holder is None or not is_here or old.is_leaving or self._is_replaced(old):
            return None
        return None if self._leads_back(old, workload.key) else (old, holder)

    def _held_by(self, workload: Workload) -> Reservation | None:
        """The reservation that counts as usage."""
        if not workload.active or workload.finished:
            return None
        return workload.reservation or self._assumed.get(workload.key)

    def _stand_sharers(self, now_us: int) -> None:
        for key in self._sharing.take_concerned():
            self._stand(self._workloads[key], now_us)

    def _stand(self, workload: Workload, now_us: int, old: Workload | None = None) -> None:
        """Puts a workload where it belongs: usage, queue or neither."""
        key = workload.key
        reservation = self._held_by(workload)
        self._changes.local(workload.queue)
        if reservation is not None and self._is_replaced(workload):
            self._queues.take(key)
            self._fair_usage.released(workload)
            self._release(key, now_us)
            self._doubt_promise(workload)
            return
        if reservation is not None:
            self._queues.take(key)
            self._hold(workload, reservation, now_us)
            return
        self._fair_usage.released(workload)
        self._release(key, now_us)
        self._doubt_promise(workload)
        if old is not None and (old.active, old.finished) != (workload.active, workload.finished):
            self._note_left(workload, now_us)
        self._queue(workload, now_us)

    def _promise(
        self,
        workload: Workload,
        reservation: Reservation,
        now_us: int,
        places: tuple[Place, ...] = (),
    ) -> None:
        """Promise places to the pods of a workload with quota.

        Not to those of one that is told to leave, unless they are on their way. Pods of a workload
        slice are those of the slice before, so nothing is promised.
        """
        if workload.is_pod:
            self._doubt_promise(workload)
            return
        self._end_kept(workload.workload_key, now_us)
        if workload.is_leaving and reservation.admitted:
            self.places.leave(workload.key, now_us)
            return
        if workload.is_leaving or workload.replaces is not None:
            self.places.release(workload.key)
            return
        pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
        counts = {
            pod_set.name: min(pod_sets[pod_set.name].effective_count, pod_set.count)
            for pod_set in reservation.pod_sets
            if pod_set.name in pod_sets
        }
        flavors = {pod_set.name: pod_set.flavors.values() for pod_set in reservation.pod_sets}
        domains = {
            pod_set.name: pod_set.domains
            for pod_set in reservation.pod_sets
            if pod_set.domains is not None
        }
        self.places.promise(workload, counts, flavors, places, domains)
        if reservation.admitted:
            self.places.ledger.expect(workload.key, reservation.admitted_us + _COMING_US)

    def _doubt_promise(self, workload: Workload) -> None:
        """Have it seen what the pods of a workload are promised once all that changed is known.

        Its quota is released before its pods are charged on their own. That comes with the same
        news, so it is known before a decision, and before the news of another workload.
        """
        ledger = self.places.ledger
        if not workload.is_pod and (
            ledger.is_promised(workload.key) or ledger.is_kept(workload.key)
        ):
            self._unpromised[workload.workload_key] = None
        elif workload.is_pod and workload.stands_for is not None:
            self._unpromised[workload.stands_for] = None

    def _settle_promises(self, now_us: int) -> None:
        """Promise places to pods that are charged while their workload has no quota.

        It was deleted, or has ended, and they may still be bound. What else was promised to it
        ends, and so does what is kept for it where it wants no quota.
        """
        unpromised, self._unpromised = self._unpromised, {}
        for key in unpromised:
            workload = self._workloads.get(key)
            has_quota = workload is not None and self._held_by(workload) is not None
            if workload is not None and has_quota and not self._is_replaced(workload):
                continue
            if workload is None or not workload.wants_quota:
                self._end_kept(key, now_us)
            charged = self._charged_besides(key)
            if charged:
                self.places.promise_charged(key, charged)
            else:
                self.places.release(key)

    def _charged_besides(self, key: WorkloadKey) -> tuple[ChargedPods, ...]:
        """Return the pods that are charged besides a workload and may be bound, by pod set.

        What is kept for its start is for the same pods as what is charged on its own.
        """
        pods: dict[PodSetName, ChargedPods] = {}
        for name, count in self._workloads.pod_sets_of.of(key).items():
            charges = self._workloads.pods_of.keys((key, name))
            for each in self._charged_pods(charges[0]):
                pods[name] = replace(each, count=count)
                if any(map(self.places.topologies.levels, each.flavors)):
                    pod_sets = (self._workloads[charge].pod_sets[0] for charge in charges)
                    selectors = tuple(pod_set.node_selector for pod_set in pod_sets)
                    pods[name] = replace(pods[name], selectors=selectors)
        for each in self._charged_pods(OwnerCharge(*key)):
            alone = pods.get(each.pod_set.name, replace(each, count=0))
            pods[each.pod_set.name] = replace(alone, count=alone.count + each.count)
        for each in self._charged_pods(KeptCharge(*key, "start")):
            alone = pods.get(each.pod_set.name, each)
            pods[each.pod_set.name] = replace(alone, count=max(alone.count, each.count))
        return tuple(pods.values())

    def _charged_pods(self, key: ChargeKey) -> Iterator[ChargedPods]:
        """Yield the pods that something is charged for that stands for a workload."""
        charge = self._workloads.get(key)
        reservation = None if charge is None else self._held_by(charge)
        if charge is None or charge.stands_for is None or reservation is None:
            return
        pod_sets = {pod_set.name: pod_set for pod_set in charge.pod_sets}
        for assigned in reservation.pod_sets:
            pod_set = pod_sets.get(assigned.name)
            count = 0 if pod_set is None else min(pod_set.effective_count, assigned.count)
            if pod_set is not None and count:
                yield ChargedPods(pod_set, count, tuple(assigned.flavors.values()))

    def take_shaken(self) -> tuple[ChargeKey, ...]:
        """Return the workloads of which an assigned host may be away since the last call."""
        return self.places.take_shaken()

    def away_hosts(self, key: ChargeKey) -> tuple[AwayHost, ...]:
        """Return the hosts assigned to a workload on which its pods cannot start, each once."""
        hosts = (
            host
            for want, domains in self._domains(key).values()
            for host in self.places.topologies.away(want, domains)
        )
        return tuple(dict.fromkeys(hosts))

    def replace_hosts(self, key: ChargeKey, lost: Collection[str], now_us: int) -> bool:
        """Replace the lost hosts of a workload, and count its pods there before it is written.

        Args:
            key: the workload.
            lost: hostnames.
            now_us: the present.

        Returns:
            Whether all are replaced; otherwise nothing is changed.
        """
        workload = self._workloads.get(key)
        before = None if workload is None else self._held_by(workload)
        if workload is None or before is None:
            return False
        for name, (want, domains) in self._domains(key).items():
            reservation = self._held_by(self._workloads[key])
            assert reservation is not None
            beside = [
                assignment.domains
                for assignment in reservation.pod_sets
                if want.shape.needs.jointly and assignment.name != name and assignment.domains
            ]
            domains_anew = self.places.topologies.replaced(want, domains, lost, beside)
            if not isinstance(domains_anew, PodDomains):
                self._set_reservation(key, before, now_us)
                return False
            pod_sets = tuple(
                replace(assignment, domains=domains_anew)
                if assignment.name == name
                else assignment
                for assignment in reservation.pod_sets
            )
            self._set_reservation(key, replace(reservation, pod_sets=pod_sets), now_us)
        return True

    @property
    def has_topologies(self) -> bool:
        """Return whether any flavor has a topology."""
        return bool(self.places.topologies)

    def assign_domains(self, key: ChargeKey, pods: ToldPods, now_us: int) -> bool | None:
        """Assign domains to a workload with quota whose flavors have a topology, if it has none.

        So it is where it was charged for an owner that runs already. What is assigned counts
        before it is written.

        Args:
            key: the workload.
            pods: see `Topologies.completed`, by pod set.
            now_us: the present.

        Returns:
            Whether there is room for all; None where no pod set lacks domains.
        """
        workload = self._workloads.get(key)
        reservation = None if workload is None else self._held_by(workload)
        if workload is None or reservation is None:
            return None
        pod_sets = self.with_domains(workload, reservation.pod_sets, pods)
        if pod_sets is None:
            return False
        if pod_sets == reservation.pod_sets:
            return None
        self._set_reservation(key, replace(reservation, pod_sets=pod_sets), now_us)
        return True

    def with_domains(
        self,
        workload: Workload,
        assignments: tuple[PodSetAssignment, ...],
        pods: ToldPods,
    ) -> tuple[PodSetAssignment, ...] | None:
        """Return what pod sets are given with domains where their flavor has a topology.

        Args:
            workload: whose pod sets they are.
            assignments: what they are given; those with domains stay as they are.
            pods: see `Topologies.completed`, by pod set.

        Returns:
            None where there is no room for the pods of one.
        """
        pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
        flavors_of = {
            pod_sets[entry.name].group: entry.flavors.values()
            for entry in assignments
            if entry.name in pod_sets and entry.flavors
        }
        has_devices = asks_devices(workload)
        completed: dict[PodSetName, PodSetAssignment] = {}
        near: dict[str, DomainPath | None] = {}
        doubtful = self._in_doubtful_domains(workload.key, assignments)
        taken: list[tuple[Want, tuple[Place, ...]]] = []
        self.places.ledger.take(*doubtful, -1)
        try:
            # Most pods first: a leader goes where its workers have room.
            for assignment in sorted(assignments, key=lambda entry: (-entry.count, entry.name)):
                pod_set = pod_sets.get(assignment.name)
                want = None
                if pod_set is not None and assignment.domains is None:
                    flavors = assignment.flavors.values()
                    if not flavors and pod_set.group:
                        flavors = flavors_of.get(pod_set.group, flavors)
                    count = min(pod_set.effective_count, assignment.count)
                    want = self.places.want(pod_set, count, flavors, has_devices=has_devices)
                if pod_set is None or want is None or want.request is None or not want.count:
                    continue
                answer = self.places.topologies.completed(
                    want,
                    pods.get(assignment.name, ()),
                    near.get(pod_set.group) if pod_set.group else None,
                )
                if not isinstance(answer, Completed):
                    return None
                near[pod_set.group] = answer.first
                taken.append((want, answer.coming))
                self.places.ledger.take((want,), answer.coming)
                if answer.domains.counts:
                    completed[assignment.name] = replace(assignment, domains=answer.domains)
        finally:
            for want, places in taken:
                self.places.ledger.take((want,), places, -1)
            self.places.ledger.take(*doubtful)
        return tuple(completed.get(entry.name, entry) for entry in assignments)

    def _in_doubtful_domains(
        self, key: ChargeKey, assignments: Iterable[PodSetAssignment]
    ) -> tuple[tuple[Want, ...], tuple[Place, ...]]:
        """Return what is promised to pods while it is not said in which domains they are."""
        lacking = {assignment.name for assignment in assignments if assignment.domains is None}
        wants = tuple(
            want
            for want in self.places.ledger.wants(key)
            if want.request is not None and want.pod_set in lacking
        )
        pod_sets = {want.pod_set for want in wants}
        places = (place for place in self.places.ledger.places(key) if place.pod_set in pod_sets)
        return wants, tuple(places)

    def lacks_domains(self, key: ChargeKey) -> bool:
        """Return whether a flavor of a workload with quota has a topology, and it no domains."""
        workload = self._workloads.get(key)
        reservation = None if workload is None else self._held_by(workload)
        return reservation is not None and any(
            assignment.domains is None
            and any(map(self.places.topologies.levels, assignment.flavors.values()))
            for assignment in reservation.pod_sets
        )

    def _set_reservation(self, key: ChargeKey, reservation: Reservation, now_us: int) -> None:
        workload = replace(self._workloads[key], reservation=reservation)
        self._workloads.put(key, workload)
        self._hold(workload, reservation, now_us)

    def domains(self, key: ChargeKey) -> dict[PodSetName, PodDomains]:
        """Return the domains of the pods of a workload, by pod set."""
        return {name: domains for name, (_, domains) in self._domains(key).items()}

    def _domains(self, key: ChargeKey) -> dict[PodSetName, tuple[Want, PodDomains]]:
        """What pods of a workload need of their domains, and these, by pod set."""
        workload = self._workloads.get(key)
        reservation = None if workload is None else self._held_by(workload)
        if workload is None or reservation is None or workload.is_leaving:
            return {}
        pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
        has_devices = asks_devices(workload)
        domains_by_name: dict[PodSetName, tuple[Want, PodDomains]] = {}
        for assignment in reservation.pod_sets:
            if assignment.domains is None or assignment.name not in pod_sets:
                continue
            count = sum(count for _, count in assignment.domains.counts)
            want = self.places.want(
                pod_sets[assignment.name],
                count,
                assignment.flavors.values(),
                has_devices=has_devices,
            )
            if want is not None and want.request is not None:
                domains_by_name[assignment.name] = want, assignment.domains
        return domains_by_name

    def _promise_again(self, now_us: int) -> None:
        """Promise places anew in flavors in which nodes decide otherwise than before."""
        for flavor in self.places.take_turned():
            self._changes.flavor(flavor)
            for name in self._supplies.listing(flavor):
                node = self.forest.queues.get(name)
                for key in tuple(node.workloads) if node is not None else ():
                    workload = self._workloads.get(key)
                    holder = None if workload is None else self._held_by(workload)
                    if workload is not None and holder is not None:
                        self._promise(workload, holder, now_us)
        self._settle_promises(now_us)

    def _look_at_nodes(self, now_us: int) -> None:
        """Keep promises that nodes could not keep elsewhere, and try again who waits for room."""
        self._promise_again(now_us)
        self.places.ledger.settle()
        self._note_displaced(now_us)
        for name in self.places.take_helped():
            self.places.forget_waiting(name)
            if name in self.forest.queues:
                self.forest.queues[name].generation += 1
                self._requeues.queue(name, now_us)

    def _hold(
        self,
        workload: Workload,
        reservation: Reservation,
        now_us: int,
        places: tuple[Place, ...] = (),
    ) -> None:
        """Counts a reservation as usage."""
        by_eviction = self.config.requeue_by_eviction
        waived = self._sharing.waived(workload.key, reservation.cluster_queue)
        holder = reserving.of(workload, reservation, by_eviction=by_eviction, waived=waived)
        self._ledger.hold(holder, now_us)
        bound = self.places.ledger.bound(workload.key)
        self._without_node.hold(workload, reservation, holder, bound)
        self._promise(workload, reservation, now_us, places)
        if workload.reservation is None:
            return
        if reservation.admitted:
            self._fair_usage.admitted(workload, now_us)
        else:
            self._fair_usage.reserved(workload, reservation.pod_sets, granted=False)

    def _release(self, key: ChargeKey, now_us: int) -> None:
        """Counts a workload as usage no more."""
        self._ledger.release(key, now_us)
        self._without_node.release(key)
        self._rebound.pop(key, None)

    def _note_bound(self, key: ChargeKey) -> None:
        if self._ledger.holds(key):
            self._rebound[key] = None

    def _look_at_bound(self) -> None:
        """Count again what pods hold without a node, of workloads whose pods came or left."""
        rebound, self._rebound = self._rebound, {}
        for key in rebound:
            holder, workload = self._ledger.get(key), self._workloads.get(key)
            reservation = None if workload is None else self._held_by(workload)
            if holder is not None and workload is not None and reservation is not None:
                bound = self.places.ledger.bound(key)
                self._without_node.hold(workload, reservation, holder, bound)

    def _note_left(self, workload: Workload, now_us: int) -> None:
        """A workload left its queue for good: others may try again."""
        self._changes.local(workload.queue)
        local = self._local_queues.get(workload.queue)
        if local is not None and local.cluster_queue in self.forest.queues:
            self._changes.queue(local.cluster_queue)
            self._requeues.tree(local.cluster_queue, now_us)

    # --------------------------------------------------------------------------- pending queues

    def _place_all(self, key: LocalQueueKey, now_us: int) -> None:
        for member in self._workloads.of_local.keys(key):
            self._place(self._workloads[member], now_us)

    def _queue(self, workload: Workload, now_us: int) -> None:
        """Queues a workload, or moves it to where it belongs now."""
        local = self._local_queues.get(workload.queue)
        if (
            local is None
            or local.stop_policy != StopPolicy.NONE
            or local.cluster_queue not in self._queues.queues
            or not workload.wants_quota
        ):
            self._queues.take(workload.key)
            return
        self._fair_usage.sample(local.key, now_us)
        self._queues.put(self._pending(workload, local), local.cluster_queue, now_us)

    def _pending(self, workload: Workload, local: LocalQueue) -> Pending:
        queue = self.forest.queues[local.cluster_queue]
        workload = self._sharing.relieved(workload, queue)
        replaced = self._replaced(workload, local)
        relieved = (
            None
            if replaced is None
            else slices.relieved(workload, *replaced, queue.spec.resource_groups)
        )
        workload = relieved or workload
        key = podsets.equivalence_key(workload)
        ranked = self._queues.queues[local.cluster_queue].ranking is not None
        apart = tuple(caps.classes(workload, queue.spec, local))
        key = (apart, key) if apart else key
        if workload.key in self._kept.by_key:
            key = workload.key, key  # others have no room where it has, so none is equal to it
        return Pending(
            workload=workload,
            queue_us=podsets.queue_timestamp(
                workload, by_eviction=self.config.requeue_by_eviction
            ),
            demands=podsets.demands(workload),
            equivalence=(local.key, key) if ranked else key,
            replaces=None if relieved is None else workload.replaces,
        )

    def _rank(self, key: LocalQueueKey) -> Rank:
        """Return the rank of a LocalQueue by its past usage."""
        local = self._local_queues.get(key)
        return self._fair_usage.rank(key, DEFAULT_WEIGHT if local is None else local.fair_weight)

    # -------------------------------------------------------------------------------- scheduling

    def has_work(self, now_us: int) -> bool:
        """Return whether a cycle now would decide about anybody."""
        self._settle(now_us)
        if self.config.paused:
            return False
        return bool(self._displaced) or (not self._blocked_by_pods() and self._queues.any_head())

    def _blocked_by_pods(self) -> bool:
        """Return whether nothing may be admitted until somebody's pods are ready."""
        return self.config.one_at_a_time and self._ledger.unready > 0

    def next_wakeup_us(self) -> int | None:
        """Return the earliest end of a backoff, retry batch or sample; None if none is timed."""
        kept_us = min((each.until_us for each in self._kept.by_key.values()), default=None)
        moments = self._queues.next_backoff_us(), self._fair_usage.next_us(), kept_us
        times = (self._requeues.next_us(), self._displaced.again_us, *moments)
        return min((time_us for time_us in times if time_us is not None), default=None)

    def run_cycle(self, now_us: int) -> CycleResult:
        """Decide about displaced workloads and the heads of all queues; winners count from now.

        A displaced workload has its quota already, so it comes before all heads.
        """
        self._settle(now_us)
        room = self._make_room_for_displaced(now_us)
        is_blocked = self._blocked_by_pods()
        chosen = [] if is_blocked else self._queues.heads(self.config.heads_per_cycle)
        if not chosen:
            return CycleResult(evicted=room.evictions, failed=room.failed)
        self.cycles += 1
        snapshot = self._snapshot(now_us)
        heads = [self._head(name, item) for name, item in self._sharing.apart(chosen)]
        decided = cycle.run(snapshot, heads, room.claimed)
        verdicts = [self._remembered(self._in_full(verdict_)) for verdict_ in decided]
        waits = [wait for verdict in verdicts for wait in self._apply(verdict, now_us)]
        self._stand_sharers(now_us)
        self.places.ledger.settle()  # where nodes only tell, nobody has looked for places yet
        result = result_of(verdicts)
        return replace(
            result,
            evicted=(*room.evictions, *result.evicted),
            bypassed=tuple(waits),
            failed=(*room.failed, *result.failed),
        )

    def _note_displaced(self, now_us: int) -> None:
        """Note for which workloads without nodes victims are to be looked for."""
        ledger = self.places.ledger
        self._displaced.note(key for key in ledger.take_lacking() if self._may_preempt(key))
        if self._displaced.again_us is not None and self._displaced.again_us <= now_us:
            self._displaced.again_us = None
            self._displaced.note(key for key in ledger.lacking() if self._may_preempt(key))

    def _may_preempt(self, key: ChargeKey) -> bool:
        workload, holder = self._workloads.get(key), self._ledger.get(key)
        node = None if holder is None else self.forest.queues.get(holder.cluster_queue)
        if workload is None or holder is None or node is None:
            return False
        return displaced.may_preempt(workload, holder, node)

    def _make_room_for_displaced(self, now_us: int) -> MadeRoom:
        """Decide who leaves for displaced workloads that are to be looked at."""
        if not self._displaced:
            return MadeRoom()
        ledger, failed = self.places.ledger, []
        due = [
            key
            for key in ledger.lacking()
            if key in self._displaced.keys and self._may_preempt(key)
        ]
        is_any_left = any(self._may_preempt(key) for key in ledger.lacking())
        self._displaced.end(now_us, is_any_left=is_any_left)
        workloads = []
        for key in due:
            try:
                entry = self._displaced_workload(key)
            except Exception as error:  # noqa: BLE001  # one odd Workload must not stop all others
                failed.append((self._workloads[key].workload_key, error))
            else:
                workloads += [] if entry is None else [entry]
        room = displaced.make_room(self._snapshot(now_us), workloads)
        for eviction in room.evictions:
            self._preemption_history.note(eviction.preemptor, eviction.workload)
        return replace(
            room,
            evictions=self._with_past(room.evictions),
            failed=(*failed, *room.failed),
        )

    def _displaced_workload(self, key: ChargeKey) -> DisplacedWorkload | None:
        """Return a workload with its pods without a place; None where nodes do not decide.

        So it is also where places depend on those of its other pods.
        """
        workload, holder = self._workloads[key], self._ledger.get(key)
        reservation = self._held_by(workload)
        if holder is None or reservation is None or not self._may_preempt(key):
            return None
        counts, has_devices = self.places.ledger.unplaced(key), asks_devices(workload)
        flavors = {each.name: each.flavors.values() for each in reservation.pod_sets}
        wants = [
            self.places.want(
                pod_set,
                counts[pod_set.name],
                flavors.get(pod_set.name, ()),
                has_devices=has_devices,
            )
            for pod_set in workload.pod_sets
            if pod_set.name in counts
        ]
        needed = tuple(want for want in wants if want is not None)
        if len(needed) < len(counts) or not all(map(displaced.is_free_of_siblings, needed)):
            return None
        return DisplacedWorkload(
            workload=workload,
            holder=holder,
            queue=self.forest.queues[holder.cluster_queue],
            wants=needed,
            spared=self._preemption_history.spared(workload.lineage),
        )

    def _snapshot(self, now_us: int) -> Snapshot:
        return Snapshot(
            forest=self.forest,
            flavors=self._supplies.flavors,
            config=self.config,
            cycle=self.cycles,
            now_us=now_us,
            unready=self._ledger.unready,
            local_queues=self._local_queues.by_key,
            past_usage=self._rank if self.config.admission_fair_sharing is not None else None,
            places=self.places,
        )

    def take_over(
        self, key: WorkloadKey, predecessor: ChargeKey, now_us: int, *, surges: bool = False
    ) -> Admit | None:
        """Give a waiting workload what another one holds, before anybody else is tried.

        It gets no more than that, in the same flavors, and the other one is forgotten. Or it gets
        as much surge quota, and can move to the quota of the other one when that has ended.

        Returns:
            The admission, which counts as usage from now on; None if it does not suit.
        """
        self._settle(now_us)
        holder = self._ledger.get(predecessor)
        queue = None if holder is None else self._queues.queues.get(holder.cluster_queue)
        item = None if queue is None else queue.get(key)
        if holder is None or item is None or item.workload.queue != holder.local_queue:
            return None
        ready_us = item.ready_at_us()
        if self.config.paused or self._blocked_by_pods() or ready_us is None or ready_us > now_us:
            return None
        if any(pod_set.together for pod_set in item.workload.pod_sets):
            return None  # what it shares may be charged to others
        node = self.forest.queues[holder.cluster_queue]
        is_left = any(quota.surge_left(node, fr) > 0 for fr in holder.usage)
        if surges and (holder.surges or not is_left):
            return None
        head = self._head(holder.cluster_queue, item, without=holder)
        admit = cycle.in_place_of(self._snapshot(now_us), head, holder, stays=surges)
        if admit is None:
            return None
        if not surges:
            self.drop_workload(predecessor, now_us)
        elif _fits_surge(node, admit):
            admit = replace(admit, surges=True, borrowing=0)
        else:
            return None
        self._assume(admit, now_us)
        return admit

    def uses_surge_quota(self, key: WorkloadKey) -> bool:
        """Return whether a workload holds surge quota."""
        holder = self._ledger.get(key)
        return holder is not None and holder.surges

    def surge_amounts(self, name: ClusterQueueName) -> dict[FlavorResource, tuple[int, int]]:
        """Return what is used of the surge quota of a ClusterQueue, and what there is."""
        node = self.forest.queues.get(name)
        used = {} if node is None else node.surge_usage
        amounts = {} if node is None else node.spec.surge_quota
        return {fr: (value, amounts.get(fr, 0)) for fr, value in sorted(used.items())}

    def has_surge_quota(self, key: WorkloadKey) -> bool:
        """Return whether the ClusterQueue in which a workload waits has surge quota."""
        workload = self._workloads.get(key)
        local = None if workload is None else self._local_queues.get(workload.queue)
        node = None if local is None else self.forest.queues.get(local.cluster_queue)
        return node is not None and bool(node.spec.surge_quota)

    def fits_quota(self, key: WorkloadKey) -> bool:
        """Return whether the quota has room for a workload that holds surge quota."""
        self.forest.refresh()
        holder = self._ledger.get(key)
        node = None if holder is None else self.forest.queues.get(holder.cluster_queue)
        if holder is None or node is None or not quota.fits(node, holder.usage):
            return False
        workload = self._workloads[key]
        local = self._local_queues.get(workload.queue)
        limits = caps.of(workload, node.spec, local, node.holdings)
        return not caps.broken_by(limits, holder.usage)

    def fits_beside(self, workload: Workload) -> bool:
        """Return whether the quota has room for what a workload holds more than it is charged.

        Args:
            workload: one with quota, of which more pods run than it is charged for.
        """
        self.forest.refresh()
        holder, reservation = self._ledger.get(workload.key), workload.reservation
        node = None if holder is None else self.forest.queues.get(holder.cluster_queue)
        if holder is None or node is None or reservation is None:
            return False
        counts = {assigned.name: assigned.count for assigned in reservation.pod_sets}
        if any(each.effective_count > counts.get(each.name, 0) for each in workload.pod_sets):
            return False  # they had ended when it got quota, which was for the others
        waived = self._sharing.waived(workload.key, holder.cluster_queue)
        whole = reserving.of(workload, reservation, waived=waived)
        excess = {
            fr: amount - holder.usage.get(fr, 0)
            for fr, amount in whole.usage.items()
            if amount > holder.usage.get(fr, 0)
        }
        limits = caps.of(
            workload, node.spec, self._local_queues.get(workload.queue), node.holdings
        )
        return quota.fits(node, excess) and not caps.broken_by(limits, excess)

    def _in_full(self, verdict: HeadResult) -> HeadResult:
        """Return a verdict that states what the pods of its workload use in full."""
        whole = self._workloads[verdict.head.key]
        return slices.in_full(sharing.in_full(verdict, whole), whole)

    def _remembered(self, verdict: HeadResult) -> HeadResult:
        """Return a verdict whose victims remember it."""
        if not verdict.evictions:
            return verdict
        return replace(verdict, evictions=self._with_past(verdict.evictions))

    def _with_past(self, evictions: Iterable[Evict]) -> tuple[Evict, ...]:
        """Return evictions that the victims remember."""
        return tuple(
            replace(
                eviction,
                preempted_by=history.with_one(
                    self._workloads[eviction.workload].preempted_by,
                    self._workloads[eviction.preemptor].lineage,
                    self._workloads.of_lineage,
                ),
            )
            for eviction in evictions
        )

    def _settle(self, now_us: int) -> None:
        """Brings trees, activity, backoffs, past usage and retries up to date."""
        self.forest.refresh()
        self._update_activity(now_us)
        self._settle_promises(now_us)
        for key, kept in tuple(self._kept.by_key.items()):
            if kept.until_us <= now_us or not self.places.ledger.is_kept(key):
                self._end_kept(key, now_us)
        if self.places:
            self._look_at_nodes(now_us)
        self._queues.end_backoffs(now_us)
        self._fair_usage.sample_due(self._local_queues.by_key, now_us)
        for name in self._requeues.take(self.forest, now_us):
            self.places.forget_waiting(name)
            self._queues.retry(name, now_us)
            if (node := self.forest.queues.get(name)) is not None:
                node.wakes += 1

    def _update_activity(self, now_us: int) -> None:
        queues_changed = self._supplies.in_doubt | self.forest.turned
        if not queues_changed:
            return
        self._supplies.in_doubt.clear()
        self.forest.turned.clear()
        queues = self.forest.queues
        in_doubt = sorted(
            (queues[name] for name in queues_changed if name in queues), key=_created
        )
        for node in in_doubt:
            name = node.name
            blocked = self._blocked(node)
            if self._blockers.get(name, ()) != blocked:
                self._blockers[name] = blocked
                self._changes.queue(name)
            active = not blocked
            if active != node.active:
                node.active = active
                self._turned[name] = None
                self._changes.queue(name)
                for local in self._locals_of(name):
                    self._changes.local(local.key)
                if active:
                    self._queues.mark_active(name)
                    self._requeues.queue(name, now_us)

    def take_turned(self, now_us: int) -> tuple[ChargeKey, ...]:
        """Return the workloads of ClusterQueues that have become active, or inactive.

        Those since the last call: another reason may keep the workloads from competing.
        """
        self._settle(now_us)
        turned, self._turned = self._turned, {}
        return tuple(
            key
            for name in turned
            for local in self._local_queues.behind.keys(name)
            for key in self._workloads.of_local.keys(local)
        )

    def _head(
        self, name: ClusterQueueName, item: Pending, *, without: ReservingWorkload | None = None
    ) -> Head:
        key, node = item.key, self.forest.queues[name]
        selector = node.spec.namespace_selector
        labels = self._namespaces.get(key.namespace)
        history_ = self._preemption_history
        spared, preempted_for = history_.spared(item.workload.lineage), history_.preemptor_of(key)
        local = self._local_queues.get(item.workload.queue)
        return item.head(
            name,
            selector,
            labels,
            spared=spared,
            preempted_for=preempted_for,
            limits=caps.of(item.workload, node.spec, local, node.holdings, without=without),
            outranked=self._outranked(name, item.workload),
        )

    def _outranked(self, name: ClusterQueueName, workload: Workload) -> tuple[WorkloadKey, ...]:
        """Return for which workloads of a lower priority places are kept in a ClusterQueue.

        The lowest priority comes first, and of equals the last one that found victims.
        """
        kept_for = reversed(self._kept.in_queue.keys(name))
        preemptors = filter(None, map(self._workloads.get, kept_for))
        outranked = (each for each in preemptors if each.priority < workload.priority)
        return tuple(
            each.workload_key for each in sorted(outranked, key=lambda each: each.priority)
        )

    def _apply(self, verdict: HeadResult, now_us: int) -> list[Wait]:
        """Assumes a winner; puts a loser back, and returns what holds for its equals, too."""
        decision = verdict.decision
        if isinstance(decision, Admit):
            self._assume(decision, now_us)
            self._take_kept(verdict.head, decision.places)
            return []
        if isinstance(decision.why, NoFlavor) and decision.why.is_of_nodes:
            self._await_nodes(decision.cluster_queue, decision.workload, decision.why)
        assert verdict.requeue is not None
        for evict in verdict.evictions:
            self._preemption_history.note(evict.preemptor, evict.workload)
        queue = self._queues.queues[decision.cluster_queue]
        item = queue.get(decision.workload)
        assert item is not None
        item.memory = verdict.memory
        if verdict.requeue is Requeue.SET_ASIDE:
            self._queues.set_aside(item, now_us + _SET_ASIDE_US)
        spares = self._preemption_history.spared(item.workload.lineage)
        waits = queue.settle(item, verdict.requeue, decision, now_us, for_equals=not spares)
        self._keep_places(verdict, now_us)
        return [replace(decision, workload=key) for key in waits]

    def _await_nodes(self, name: ClusterQueueName, key: WorkloadKey, reason: NoFlavor) -> None:
        """Note that a workload is to be tried again when nodes have room for it."""
        workload = self._workloads[key]
        self.places.await_room(name, workload, reason.no_places)
        if reason.is_of_domains:
            groups = self.forest.queues[name].spec.resource_groups
            flavors = (flavor.name for group in groups for flavor in group.flavors)
            self.places.await_domains(name, workload, flavors)

    def _keep_places(self, verdict: HeadResult, now_us: int) -> None:
        """Keep places for a head whose victims have to leave, and for as long as they leave.

        Once its victims have given their quota back, there are none that it could name, and no
        room until their pods have ended. They must not be back on the nodes before it.
        """
        if verdict.kept is None:
            return
        head, (wants, places) = verdict.head, verdict.kept
        self.places.ledger.keep(head.key, wants, places)
        kept = _KeptUntil(head.cluster_queue, now_us + _KEPT_US)
        if self._kept.put(head.key, kept) is None:
            self._queue(self._workloads[head.key], now_us)
        self._take_kept(head, places)

    def _take_kept(self, head: Head, places: Iterable[Place]) -> None:
        """Give up what is kept for lower priorities where a head gets places instead."""
        self.places.ledger.end_kept_on({place.node for place in places}, head.outranked)

    def _end_kept(self, key: WorkloadKey, now_us: int) -> None:
        """Keep no places for a workload any more."""
        self.places.ledger.end_kept(key)
        if self._kept.pop(key) is not None and self._queues.get(key) is not None:
            self._queue(self._workloads[key], now_us)

    def _assume(self, admit: Admit, now_us: int) -> None:
        """Counts an admission before it is written."""
        workload = self._workloads[admit.workload]
        self._preemption_history.has_quota(admit.workload)
        reservation = self._assumed[admit.workload] = Reservation(
            cluster_queue=admit.cluster_queue,
            pod_sets=admit.pod_sets,
            reserved_us=now_us,
            admitted=not admit.checks,
            surges=admit.surges,
            admitted_us=0 if admit.checks else now_us,
        )
        self._fair_usage.reserved(workload, admit.pod_sets, granted=reservation.admitted)
        self._queues.take(admit.workload)
        self._sharing.note(workload, reservation)
        self._hold(workload, reservation, now_us, admit.places)
        self._stand_slices(workload, now_us)
        self._changes.local(workload.queue)

    # ----------------------------------------------------------------------------------- readers

    def blocker(self, key: WorkloadKey, now_us: int) -> Wait | None:
        """Return why a pending workload is not even tried; None when it competes."""
        workload = self._workloads.get(key)
        if workload is None or workload.reservation is not None or key in self._assumed:
            return None
        self._settle(now_us)
        local = self._local_queues.get(workload.queue)
        node = None if local is None else self.forest.queues.get(local.cluster_queue)
        labels = self._namespaces.get(key.namespace)
        unready, paused = self._blocked_by_pods(), self.config.paused
        return blockers.find(workload, local, node, labels, unready=unready, paused=paused)

    def relief(self, key: WorkloadKey, no_places: Iterable[NoPlace]) -> ChargeKey | None:
        """Return the cheapest running workload whose end makes room for one that waits.

        Args:
            key: of the workload that waits for room on nodes.
            no_places: where its pods have none.

        Returns:
            None where no single one makes room, or where there is room by now.
        """
        workload = self._workloads.get(key)
        pod_sets = (
            {} if workload is None else {pod_set.name: pod_set for pod_set in workload.pod_sets}
        )
        wants = []
        for no_place in no_places:
            pod_set = pod_sets.get(PodSetName(no_place.pod_set))
            if workload is None or pod_set is None or no_place.hole is None:
                return None
            want = self.places.want(
                pod_set,
                no_place.count,
                no_place.flavors,
                has_devices=asks_devices(workload),
                possible=no_place.possible,
            )
            if want is None:
                return None
            wants.append(want)
        with self.places.sharing(StepBudget()):
            if not wants or self.places.find(wants) is not None:
                return None
            return relief.find(self.places, wants, self._ledger.get)

    def preemptors_of(self, victim: WorkloadKey) -> tuple[tuple[ChargeKey, str], ...]:
        """Return for which workload one was evicted last, with its ClusterQueue.

        After a change of the leader only its owner is known: then these are all workloads of that
        owner. None where it is gone, or where nothing was preempted.
        """
        exact, workload = self._preemption_history.preemptor_of(victim), self.workload(victim)
        past = () if workload is None else workload.preempted_by.counts
        keys = (exact,) if exact else self._workloads.of_lineage.keys(past[-1][0]) if past else ()
        return tuple(
            (key, "" if local is None else local.cluster_queue)
            for key in keys
            if (preemptor := self.workload(key)) is not None
            for local in (self._local_queues.get(preemptor.queue),)
        )

    def bypassed(self, key: WorkloadKey) -> Wait | None:
        """Set for a workload that is parked because an equal one did not fit: its result.

        The numbers are those of now.
        """
        wait = self._queues.bypassed(key)
        if wait is None:
            return None
        if wait.shortages:
            self.forest.refresh()
            wait_now = explain.as_of_now(wait, self.forest.queues[wait.cluster_queue])
        else:
            wait_now = self.with_caps_of_now(wait)
        if wait_now is not wait:
            self._queues.note_result(wait_now)
        return wait_now

    def with_free_of_now(self, wait: Wait, sums: explain.SumsByTree | None = None) -> Wait:
        """Return why a workload waits; where that is quota, with what is free of it now.

        What others get does not have it tried again, and counts.

        Args:
            wait: why it waits, as it was decided.
            sums: see `explain.as_of_now`.
        """
        node = self.forest.queues.get(wait.cluster_queue) if wait.shortages else None
        if node is None:
            return wait
        self.forest.refresh()
        return explain.as_of_now(wait, node, sums)

    def with_caps_of_now(self, wait: Wait) -> Wait:
        """Return why a workload waits; where that is a cap, with what is held of it now.

        What others get does not have it tried again, and counts.
        """
        item, node = self._queues.get(wait.workload), self.forest.queues.get(wait.cluster_queue)
        if not isinstance(wait.why, Capped) or item is None or node is None:
            return wait
        local = self._local_queues.get(item.workload.queue)
        limits = caps.of(item.workload, node.spec, local, node.holdings)
        over = caps.broken_in_every_flavor(limits, item.demands, node.group_of)
        return wait if over is None or over == wait.why else replace(wait, why=over)

    def place(self, key: WorkloadKey) -> tuple[ClusterQueueName, int] | None:
        """Return where a workload waits, and its place among those that may start; else None."""
        return self._queues.place(key)

    def set_hopeless(self, key: WorkloadKey, *, is_hopeless: bool) -> None:
        """Take whether a workload never starts as it is; nobody counts it before themselves."""
        self._queues.set_hopeless(key, is_hopeless=is_hopeless)

    def shortages(self, key: WorkloadKey) -> tuple[ClusterQueueName, tuple[Shortage, ...]]:
        """Return where a workload waits, and what it asks for there that is not free now."""
        workload, place = self._workloads.get(key), self.place(key)
        if workload is None or place is None:
            return ClusterQueueName(""), ()
        self.forest.refresh()
        node = self.forest.queues[place[0]]
        requests, in_flavors = shortages.totals(workload), shortages.totals_in_flavors(workload)
        return place[0], tuple(shortages.lacking(node, requests, in_flavors))

    def with_places_in(self, name: ClusterQueueName) -> tuple[WorkloadKey, ...]:
        """Return who waits in a ClusterQueue, but for those that others pass; in no order."""
        queue = self._queues.queues.get(name)
        items = () if queue is None else queue.items()
        return tuple(item.key for item in items if not item.hopeless)

    def take_moved(self) -> tuple[ClusterQueueName, ...]:
        """Return the ClusterQueues that somebody has entered or left since the last call."""
        return self._queues.take_moved()

    def cluster_queue_status(self, name: ClusterQueueName) -> ClusterQueueStatus:
        """Return the status of a ClusterQueue.

        Raises:
            KeyError: there is no such ClusterQueue.
        """
        self.forest.refresh()
        self._look_at_bound()
        node = self.forest.queues[name]
        return status.of_cluster_queue(
            node,
            self._ledger.tally_of_queue(name),
            without_node=self._without_node.of(name),
            line=self._queues.queues[name],
            blocked=self._blocked(node),
            fair=self.config.fair_sharing is not None,
        )

    def reserving(self, name: ClusterQueueName) -> int:
        """Return how many workloads hold quota in a ClusterQueue, whether it exists or not."""
        return self._ledger.tally_of_queue(name).reserving

    def local_queue_status(self, key: LocalQueueKey) -> LocalQueueStatus:
        """Return the status of a LocalQueue.

        Raises:
            KeyError: there is no such LocalQueue.
        """
        local = self._local_queues[key]
        node = self.forest.queues.get(local.cluster_queue)
        return status.of_local_queue(
            local,
            node,
            self._ledger.tally(key),
            pending=self._queues.pending_of(local.cluster_queue, key),
            parked=self._queues.parked_of(local.cluster_queue, key),
            blocked=node is not None and bool(self._blocked(node)),
        )

    def _blocked(self, node: QueueNode) -> InactiveReasons:
        blockers_found, cycle = self._supplies.blockers(node.spec), self.forest.cycle_above(node)
        return (*blockers_found, causes.CohortCycle(tuple(cycle))) if cycle else blockers_found

    def consumption(self, key: LocalQueueKey) -> Consumption | None:
        """Return a LocalQueue's past usage for its status; None without admission fair sharing.

        Every resource of its ClusterQueue is listed, also with 0.
        """
        consumption_ = self._fair_usage.consumption(key)
        local = self._local_queues.get(key)
        node = None if local is None else self.forest.queues.get(local.cluster_queue)
        if consumption_ is None or node is None:
            return consumption_
        return replace(
            consumption_,
            consumed={**{fr.resource: 0 for fr in node.quotas}, **consumption_.consumed},
        )

    def restore_consumption(
        self, key: LocalQueueKey, stored: Consumption | None, now_us: int
    ) -> None:
        """Take over past usage from a LocalQueue's status, which may tell of none."""
        self._fair_usage.restore(key, stored, now_us)

    @property
    def sampling_us(self) -> int:
        """Microseconds between two samples of past usage; 0 without admission fair sharing."""
        fair_sharing = self.config.admission_fair_sharing
        return 0 if fair_sharing is None else fair_sharing.sampling_us

    def cohorts_of(self, name: str) -> tuple[CohortName, ...]:
        """Return the names of all cohorts above a ClusterQueue, nearest first."""
        self.forest.refresh()
        node = self.forest.queues.get(ClusterQueueName(name))
        return () if node is None else tuple(cohort.name for cohort in node.ancestors())

    def fair_usage(self, key: LocalQueueKey) -> float:
        """Return the past usage of a LocalQueue, weighted; infinite for one without weight."""
        endless, value = self._rank(key)
        return math.inf if endless else float(value)

    def cohort_status(self, name: CohortName) -> status.CohortReport | None:
        """Return the status of a cohort, also of one without an object; None if there is none."""
        self.forest.refresh()
        node = self.forest.cohorts.get(name)
        if node is None:
            return None
        tallies = [self._ledger.tally_of_queue(queue) for queue in status.queues_of(node)]
        return status.of_cohort(node, tallies, fair=self.config.fair_sharing is not None)

    def overview(self) -> Overview:
        """Return the quota of all queues and cohorts, and what is used of it, at this moment."""
        self.forest.refresh()
        self._look_at_bound()
        return overview.take(
            self.forest,
            self._queues.queues,
            self._ledger.tally_of_queue,
            self._without_node.of,
            self._blockers,
        )

    def local_overview(self) -> tuple[LocalOverview, ...]:
        """Return the LocalQueues and what their Workloads hold, by namespace and name."""
        overviews = []
        for key, local in sorted(self._local_queues.by_key.items()):
            tally = self._ledger.tally(key)
            overviews.append(
                LocalOverview(
                    key=key,
                    cluster_queue=local.cluster_queue,
                    used=dict(tally.reservation),
                    admitted=dict(tally.usage),
                    running=tally.admitted,
                    pending=self._queues.pending_of(local.cluster_queue, key),
                )
            )
        return tuple(overviews)

    def holders(self, name: ClusterQueueName) -> tuple[ReservingWorkload, ...]:
        """Return the Workloads that hold quota of a ClusterQueue, in no order."""
        node = self.forest.queues.get(name)
        return () if node is None else tuple(node.workloads.values())

    def pending_order(self, name: ClusterQueueName) -> tuple[WorkloadKey, ...]:
        """Return the waiting workloads of a ClusterQueue in the order in which they are tried."""
        queue = self._queues.queues.get(name)
        if queue is None:
            return ()
        return tuple(i.key for i in (*queue.active(), *queue.parked()))

    def line(self, queue: ClusterQueueName | LocalQueueKey) -> PendingSnapshot | None:
        """Return who waits in a ClusterQueue, or in that of a LocalQueue, at this moment.

        Return None when there is no such queue, or when the LocalQueue is stopped: its Workloads
        stand in no line. A LocalQueue without ClusterQueue has a line with nobody in it.
        """
        if isinstance(queue, LocalQueueKey):
            local = self._local_queues.get(queue)
            if local is None or local.stop_policy != StopPolicy.NONE:
                return None
            pending_queue = self._queues.queues.get(local.cluster_queue)
            return PendingSnapshot(members=()) if pending_queue is None else pending_queue.line()
        pending_queue = self._queues.queues.get(queue)
        return None if pending_queue is None else pending_queue.line()

    def active_order(self, name: ClusterQueueName, now_us: int) -> tuple[WorkloadKey, ...]:
        """Return those of ``pending_order`` that are not inadmissible."""
        self._settle(now_us)
        return tuple(item.key for item in self._queues.queues[name].active())

    def take_changed(self) -> Changed:
        """Return what may have changed since the last call."""
        self.forest.refresh()
        self._look_at_bound()
        self._queues.note_parked()
        return self._changes.take(shares=self.config.fair_sharing is not None)


def _fits_surge(node: QueueNode, admit: Admit) -> bool:
    """Return whether the surge quota has room for an admission."""
    usage: dict[FlavorResource, int] = {}
    for pod_set in admit.pod_sets:
        for resource, value in pod_set.usage.items():
            fr = FlavorResource(pod_set.flavors[resource], resource)
            usage[fr] = usage.get(fr, 0) + value
    return all(value <= quota.surge_left(node, fr) for fr, value in usage.items() if value)


def _pod_set_of(key: ChargeKey, workload: Workload) -> tuple[WorkloadKey, PodSetName] | None:
    """Return for which workload, and which pod set of it, a pod stands that is charged alone."""
    if workload.stands_for is None or not isinstance(key, PodCharge):
        return None
    return workload.stands_for, workload.pod_sets[0].name


def _created(node: QueueNode) -> int:
    return node.number


def _caps_of(queue: LocalQueue) -> tuple[Mapping[ResourceName, int], ...]:
    return queue.max_per_user, queue.max_in_use
