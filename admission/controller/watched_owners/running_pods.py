"""Pods that were released and have not ended: each is charged to a queue, whatever became of it.

Most are charged by the reservation of their Workload. A pod is charged on its own while no
reservation stands for it: its Workload was deleted or has ended, its Job is gone, or more pods of
the Job run than were admitted because old ones are still ending (ADR 0116).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from admission.base import clock as clocks
from admission.base import conditions, names, patches
from admission.base.causes import EndingPods
from admission.base.clock import Clock
from admission.base.names import (
    ChargeKey,
    FlavorResource,
    LocalQueueKey,
    OwnerCharge,
    PodCharge,
    WorkKey,
    WorkloadKey,
)
from admission.base.tables import Table
from admission.config.gpu_configuration import GpuConfiguration
from admission.controller.devices.node_inventory import NodeInventory
from admission.controller.plans import PlanDraft
from admission.controller.queues.configuration import WatchedConfiguration
from admission.controller.seeing import informers
from admission.controller.seeing.informers import Informer
from admission.controller.watched_owners import orphans, owner_requests
from admission.controller.watched_owners.coverage import Coverage
from admission.controller.watched_owners.disruptions import Disruptions
from admission.controller.watched_owners.domain_tellings import OwnerTellings
from admission.controller.watched_owners.elastic_waiters import ElasticWaiters
from admission.controller.watched_owners.members import Members
from admission.controller.watched_owners.orphans import Origin
from admission.controller.watched_owners.releasing import ReleasingPods
from admission.controller.watched_owners.running_store import RunningPod, RunningPodStore
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import (
    ApiRequest,
    RequestResult,
    Result,
    WritePurpose,
)
from admission.controller.writing.work_queue import WorkQueue
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import bound_pod, views
from admission.objects.workload import (
    PodSet,
    PodTemplate,
    Workload,
    WorkloadSpec,
    assigned_domains,
    has_domains,
)
from admission.owners import pod as pod_owner
from admission.owners import topology_domains
from admission.scheduling.decisions import Admit
from admission.scheduling.topology.domains import ToldPods

SELECTOR: Final = f"{names.PODSET_LABEL},{names.MANAGED_LABEL}!={names.MANAGED_VALUE}"
"""Pods that an admitted owner made; single pods are watched by the label ``managed``."""

_MARKS: Final = (
    names.MANAGED_LABEL,
    names.PODSET_LABEL,
    names.LOCAL_QUEUE_NAME_LABEL,
    names.CLUSTER_QUEUE_NAME_LABEL,
    names.QUEUE_LABEL,
)
_AGAIN: Final = timedelta(minutes=1)
"""Between two looks at a pod that lost its label and did not get it back."""

_Queue = LocalQueueKey | str
"""A LocalQueue, or the name of a ClusterQueue."""

Share = tuple[tuple[str, int], ...]
"""Amounts by resource, sorted."""


class RunningCharge(NamedTuple):
    """The charge of a Workload with running pods, as it was decided and is not written yet.

    Attributes:
        version: of the Workload.
        running: see `Ledger.admit_running`.
        admit: the charge; None if the Workload cannot be read, or its queue is not there.
    """

    version: str
    running: Mapping[str, int] | None
    admit: Admit | None


class Ledger(Protocol):
    """What the scheduler charges to Workloads."""

    def charged_pods(self, key: WorkloadKey, pod_set: str) -> int:
        """Return the number of charged pods of a pod set; of all if ``pod_set`` is empty."""
        ...

    def charge(
        self,
        key: PodCharge | OwnerCharge,
        view: Workload,
        queue: str,
        node_labels: dict[str, str],
        *,
        stands_for: WorkloadKey | None,
        ends: bool,
    ) -> None:
        """Charge a ClusterQueue for pods that run without a Workload that is charged for them.

        Args:
            key: under which it is charged.
            view: what they ask for, as a Workload that is nowhere stored.
            queue: the ClusterQueue.
            node_labels: of the node on which they run.
            stands_for: the Workload that let them start. While it has no quota they are promised
                places until they are bound. None where nobody could tell that they are.
            ends: they are being deleted, so nothing else is preempted for what they hold.
        """
        ...

    def admit_running(
        self,
        view: Workload,
        queue: str,
        node_labels: dict[str, str],
        *,
        running: Mapping[str, int] | None = None,
    ) -> None:
        """Decide the charge of a Workload with running pods; see `running_charge`.

        Args:
            view: the Workload.
            queue: the ClusterQueue.
            node_labels: of the node on which its pods run, as far as it is known.
            running: how many pods of each pod set run, where each of the others waits for its
                release. These are charged too if there is room for them. None where all are
                charged, whatever the quota.
        """
        ...

    def charge_on_node(
        self, view: Workload, queue: str, node_labels: dict[str, str]
    ) -> Admit | None:
        """Return what a Workload is charged for with all its pods on a node; None if unreadable.

        Args:
            view: the Workload.
            queue: the ClusterQueue.
            node_labels: of the node.
        """
        ...

    def running_charge(
        self, view: Workload, running: Mapping[str, int] | None
    ) -> "RunningCharge | None":
        """Return the charge that was decided for a version of a Workload; None before."""
        ...

    def share(self, key: WorkloadKey, pod_set: str) -> Share | None:
        """Return the part of a reservation that is for one pod; None where there is none.

        It is the amount of each resource, sorted, in canonical units.
        """
        ...

    def held_by_pod(self, key: ChargeKey, pod_set: str) -> Mapping[FlavorResource, int]:
        """Return what is charged for one pod, by flavor and resource; empty where nothing is.

        Args:
            key: of its Workload, or that under which it is charged on its own.
            pod_set: its pod set; empty for the only one.
        """
        ...

    def charge_again(self, key: WorkloadKey, reclaimable: Mapping[str, int]) -> None:
        """Charge a Workload for pods that it gave the quota back of, or have it evicted.

        It is evicted where there is no room for them.

        Args:
            key: of the Workload.
            reclaimable: how many pods of each pod set need no quota still, by its name.
        """
        ...

    def charge_beyond(
        self,
        key: PodCharge,
        view: Workload,
        queue: str,
        node_labels: dict[str, str],
        *,
        share: Share,
        template: PodTemplate,
        ends: bool,
    ) -> bool:
        """Charge a ClusterQueue for what a pod asks for beyond its part of a reservation.

        Devices are not charged: a review refuses a pod with more of them.

        Args:
            key: under which it is charged.
            view: what the pod asks for, as a Workload that is nowhere stored.
            queue: the ClusterQueue.
            node_labels: of the node on which it runs.
            share: its part of the reservation.
            template: what its Workload says of it. A resource that was not covered when the quota
                was reserved is no part of the reservation.
            ends: as in `charge`.

        Returns:
            Whether it asks for more.
        """
        ...

    def devices(self, view: Workload) -> Mapping[str, Mapping[str, int]]:
        """Return how much of each extended resource one pod asks for, by name of its pod set.

        Raises:
            InvalidValueError: a quantity of the Workload cannot be read.
        """
        ...

    def hosts(self, key: WorkloadKey) -> Mapping[str, tuple[str, ...]]:
        """Return the hostnames of the places of a Workload, by pod set; none where it has none."""
        ...

    def pod_left(self, key: WorkloadKey) -> Iterable[WorkloadKey]:
        """Return the Workloads to look at when a pod of one has left its node."""
        ...

    def on_delete(self, key: ChargeKey) -> None:
        """Charge nothing more for a key."""
        ...


@dataclass(slots=True)
class _Doubt:
    """A pod that a watch by label does not show any more, though nobody has deleted it.

    Attributes:
        was: the pod as it was watched.
        answered: the pod as it was read; None before.
        due: when it is checked again; None for now.
    """

    was: views.Pod
    answered: views.Pod | None = None
    due: datetime | None = None


class _PodSetFacts:
    """What is remembered of the running pods of a pod set, where its reservation is not all.

    Attributes:
        coverage: which of them the reservation covers; None where it always covered all.
        basis: what else decides what is charged for pods on their own, as last charged.
        uncharged: those beyond the reservation that no queue could be charged for.
        share: the part of one pod in the reservation, as all of them were last compared with.
        has_others: whether a pod asks for something else than was admitted, or was not compared.
        within: the share, and a pod that asks for no more than that; None where none was compared.
    """

    __slots__ = ("basis", "coverage", "has_others", "share", "uncharged", "within")

    def __init__(self) -> None:
        self.coverage: Coverage | None = None
        self.basis: tuple[Origin | None, bool] | None = None
        self.uncharged: dict[str, None] = {}
        self.share: Share | None = None
        self.has_others = True
        self.within: tuple[Share, views.PodSpec] | None = None

    def remove(self, uid: str) -> None:
        """Forget a pod."""
        self.uncharged.pop(uid, None)
        if self.coverage is not None:
            self.coverage.remove(uid)

    def has_within(self, share: Share | None, spec: views.PodSpec) -> bool:
        """Return whether a pod was seen that asks for the same, and for no more than its part."""
        within = self.within
        return within is not None and within[0] == share and _asks_alike(within[1], spec)

    def is_needed(self) -> bool:
        """Return whether it says more than that each pod is as it was admitted."""
        is_unknown = self.share is None or self.has_others
        return self.coverage is not None or bool(self.uncharged) or is_unknown


class _WorkloadFacts:
    """What is remembered of a Workload while pods run that it released, if there is anything.

    Attributes:
        pod_sets: by the name of the pod set; missing where each pod is as it was admitted.
        origin: what the Workload said of its pods, which may run longer than it is there.
        awaiting: keys to look at when fewer of the pods run.
    """

    __slots__ = ("awaiting", "origin", "pod_sets")

    def __init__(self) -> None:
        self.pod_sets: dict[str, _PodSetFacts] = {}
        self.origin: Origin | None = None
        self.awaiting: dict[WorkloadKey, None] = {}

    def of(self, pod_set: str) -> _PodSetFacts:
        """Return what is remembered of a pod set; nothing yet for a new one."""
        facts = self.pod_sets.get(pod_set)
        if facts is None:
            facts = self.pod_sets[pod_set] = _PodSetFacts()
        return facts

    def take_awaiting(self) -> tuple[WorkloadKey, ...]:
        """Return the keys to look at, and forget them."""
        keys, self.awaiting = tuple(self.awaiting), {}
        return keys


class _Beside(NamedTuple):
    """A pod of an owner that is charged, or may be, on its own or not at all.

    Attributes:
        pod: as last seen.
        is_stray: no queue is charged for it.
    """

    pod: views.Pod
    is_stray: bool


class _OwnCharge(NamedTuple):
    """What is charged for a pod by itself.

    Attributes:
        uid: of the pod.
        is_rest: only for what it asks for beyond its part of a reservation.
    """

    uid: str
    is_rest: bool


class _Besides(Table[str, _Beside]):
    """Pods that no queue is charged for, or that are or were charged by themselves, by UID.

    Attributes:
        of_queue: by each queue that decides what they are charged to.
    """

    def __init__(self) -> None:
        super().__init__()
        self.of_queue = self.index(_queues_of_pod)


class _OwnersLetGo(Table[WorkloadKey, Workload]):
    """What owners ask for that were let go as a whole, by the key of their Workload.

    Attributes:
        of_queue: by each queue that decides what they are charged to.
    """

    def __init__(self) -> None:
        super().__init__()
        self.of_queue = self.index(_queues_of_owner)


class RunningPods:
    """Pods that were released and have not ended, by the Workload that let them start.

    Attributes:
        informers: who takes what is watched, by resource.
        members: how many pods there are of owners that were let go as a whole.
        releasing: pods that hold quota though they were stopped, or their Workload has ended.
        disruptions: those that leave their node though no queue stops them.
    """

    def __init__(
        self,
        ledger: Ledger,
        configuration: WatchedConfiguration,
        inventory: NodeInventory,
        clock: Clock,
        queue: WorkQueue,
        settings: GpuConfiguration,
        look_at: Callable[[Iterable[WorkKey]], None],
        workloads: WorkloadIndex,
        draft: PlanDraft,
    ) -> None:
        """Prepare an empty index.

        Args:
            ledger: is told what is charged besides Workloads.
            configuration: queues as last seen.
            inventory: knows the nodes; is told which GPUs the pods of Jobs hold.
            clock: source of time.
            queue: says when to look at a pod again.
            settings: say when a pod that is being deleted counts as ended.
            look_at: is told which keys have something to be written.
            workloads: say which slice stands for an owner now; pods name the first one.
            draft: of the plan that is being derived.
        """
        self._draft = draft
        self._ledger = ledger
        self._workloads = workloads
        self._configuration = configuration
        self._inventory = inventory
        self._clock = clock
        self._queue = queue
        self._settings = settings
        self._look_at = look_at
        self._pods = RunningPodStore()
        self._facts: dict[WorkloadKey, _WorkloadFacts] = {}
        """What is remembered of Workloads of which pods run; most need nothing."""
        self._tellings: dict[WorkloadKey, OwnerTellings] = {}
        """Which pod is told its domain next, of Workloads of which pods waited for that."""
        self._waiters = ElasticWaiters()
        self._owners = _OwnersLetGo()
        self._short: set[WorkloadKey] = set()
        """Those of them that are charged on their own for pods that are not there yet."""
        self._charges: dict[PodCharge, _OwnCharge] = {}
        """Pods that are charged by themselves, by the key of the charge."""
        self._replaced: dict[PodCharge, dict[str, None]] = {}
        """Pods whose charge that of another one of the same name replaced, by key."""
        self._besides = _Besides()
        self._doubts: dict[str, _Doubt] = {}
        self._are_workloads_listed = False
        self._uncounted: dict[WorkloadKey, None] = {}
        """Keys of pods that came before their Workload and were not counted with it since, while
        Workloads are not listed."""
        self.releasing = ReleasingPods(self._view_of)
        self.members = Members(clock, inventory.lost_nodes.is_lost, look_at, workloads.first)
        self.disruptions = Disruptions(clock)
        self.informers: dict[Resource, Informer[views.Pod]] = {
            resources.RELEASED_PODS: Informer("Pod", self._see_of_owner, self._lose_of_owner)
        }

    # ------------------------------------------------------------------------------- seeing

    def on_update(self, pod: views.Pod, resource: Resource = resources.PODS) -> None:
        """Take a pod as it is now."""
        uid = pod.metadata.uid
        self.members.on_update(pod)
        doubt = self._doubts.pop(uid, None)
        self._note_gated(pod)
        if (ran := self._pods.get(uid)) is not None:
            self.disruptions.note(ran.view, pod)
        if not self._runs(pod):
            self._forget(uid)
            return
        before = earlier = self._pods.get(uid)
        tracked = RunningPod(pod, _workload_of(pod), resource)
        if earlier is not None and (earlier.workload, earlier.pod_set) != (
            tracked.workload,
            tracked.pod_set,
        ):
            self._forget(uid)
            earlier = None
        self._pods.put(uid, tracked)
        if earlier is None or _differs(earlier.view, pod):
            self._note_left(tracked)
            self._note_releasing(tracked)
            is_bound_now = bool(pod.spec.node_name) and not (
                earlier is not None and earlier.view.spec.node_name
            )
            if is_bound_now or pod_owner.waits_for_domain(pod):
                self._look_at((self._workloads.current(tracked.workload),))
        self._tell(tracked)
        is_counted_anew = earlier is None or _differs(earlier.view, pod)
        asks_anew = earlier is None or not _asks_alike(earlier.view.spec, pod.spec)
        if doubt is None and self._may_come(tracked.workload):
            self._uncounted[tracked.workload] = None
            self._facts_of(tracked.workload).of(tracked.pod_set)  # it is compared later
        elif is_counted_anew or asks_anew or doubt is not None:
            self._recount(tracked.workload, tracked.pod_set, (uid,))
            self._recount_owner(tracked.workload)
            if is_counted_anew or asks_anew:
                self._charge_rest(tracked)
        is_managed = self._configuration.manages(pod.metadata.namespace)
        if resource is not resources.RELEASED_PODS or not is_managed:
            return
        was = pod if before is None else before.view
        was = was if doubt is None else doubt.was
        if _is_single(was):
            self._doubt(tracked, was, pod)  # it lost the label by which it is watched

    def on_delete(
        self,
        gone: views.Object,
        resource: Resource = resources.PODS,
        *,
        for_good: bool = False,
    ) -> bool:
        """Take the news that a pod is gone, or is not watched by one of its labels any more.

        A watch by label shows a pod that lost its label as deleted. A bound pod is deleted in two
        steps; so one that vanishes without the first is read before it is believed.

        Returns:
            False if the pod is watched by another label.
        """
        uid = gone.metadata.uid
        tracked = self._pods.get(uid)
        if tracked is not None and tracked.resource is not resource and not for_good:
            return False
        self.members.on_delete(uid)
        self._waiters.drop(uid)
        self._waiters.drop_left(pod_owner.KIND.key_of(gone), uid)
        if tracked is None:
            return True
        view = tracked.view
        is_told = bool(view.metadata.deletion_timestamp) or not view.spec.node_name
        if for_good or view.metadata.deletion_timestamp:
            self._inventory.on_pod_end(uid)
        if for_good or is_told or not self._configuration.manages(view.metadata.namespace):
            self._forget(uid)
        else:
            self._doubt(tracked, view)
        return True

    def _note_left(self, tracked: RunningPod) -> None:
        """Have a Workload looked at of which a pod may have left a node."""
        key = self._workloads.current(tracked.workload)
        keys = tuple(self._ledger.pod_left(key)) if tracked.view.spec.node_name else ()
        if keys:
            self._look_at(keys)

    def _note_gated(self, pod: views.Pod) -> None:
        """Take a pod that may wait to be released with others of its owner, or after it."""
        uid, key = pod.metadata.uid, pod_owner.KIND.key_of(pod)
        waits = pod_owner.has_elastic_gate(pod) and not pod.metadata.deletion_timestamp
        waits = waits and not _is_single(pod) and not pod_owner.is_terminal(pod)
        is_left = orphans.is_left(pod)
        if waits and not is_left:
            first = _workload_of(pod)
            self._waiters.put(pod, first)
            self._look_at((self._workloads.current(first),))
        else:
            self._waiters.drop(uid)
        if waits and is_left:
            self._waiters.put_left(key, pod)
            self._look_at((key,))
        else:
            self._waiters.drop_left(key, uid)

    def to_release(self, first: WorkloadKey) -> views.Pod | None:
        """Return the oldest pod of an elastic owner that waits and for which there is quota.

        Pods that are ending take their quota until they have ended.

        Args:
            first: key of the owner's first Workload.
        """
        gated = self._waiters.of(first)
        pod_sets = {pod.metadata.label(names.PODSET_LABEL) for pod in gated}
        with_quota = {
            pod_set
            for pod_set in pod_sets
            if self.count(first, pod_set) < self._charged(first, pod_set)
        }
        waiting = (pod for pod in gated if pod.metadata.label(names.PODSET_LABEL) in with_quota)
        return min(waiting, key=_turn, default=None)

    def to_place(
        self, first: WorkloadKey, workload: Workload
    ) -> tuple[views.Pod, Mapping[str, str]] | None:
        """Return a pod that waits for its domain, with the node selector of that; None for none.

        Args:
            first: key of the owner's first Workload.
            workload: the Workload that stands for the owner; it is admitted.
        """
        if first not in self._pods.pod_sets:
            return None
        if not has_domains(workload):
            self._tellings.pop(first, None)
            return None
        metadata = workload.metadata
        tellings = self._tellings.get(first)
        version = metadata.uid, metadata.resource_version
        if tellings is None or tellings.version != version:
            tellings = self._tellings[first] = OwnerTellings(version, workload, tellings)
            for pod_set, uids in self._uids_by_pod_set(first):
                telling, is_new = tellings.of(pod_set)
                if telling is not None and is_new:
                    for uid in uids:
                        self._see_domain(telling, self._pods[uid].view)
        chosen = (tellings.next_of(pod_set) for pod_set in sorted(self._pods.pod_sets.of(first)))
        return next(filter(None, chosen), None)

    def stray(self, first: WorkloadKey) -> views.Pod | None:
        """Return a pod that was told a domain which is none any more, and is on no node.

        Args:
            first: key of the owner's first Workload.
        """
        tellings = self._tellings.get(first)
        for uid in () if tellings is None else tellings.strays():
            pod = self._pods[uid].view
            if not pod.spec.node_name and not pod.metadata.deletion_timestamp:
                return pod
        return None

    def stray_ended(self, outcome: RequestResult) -> None:
        """Take what came of the deletion of such a pod."""
        if outcome.result in {Result.DONE, Result.GONE}:
            self._forget(outcome.request.uid)
        elif isinstance(outcome.object, views.Pod):
            self.on_update(outcome.object, resources.RELEASED_PODS)

    def goes_on(self, key: WorkloadKey, node: str) -> bool:
        """Return whether a pod of a Workload runs on a node, and is not being deleted."""
        first = self._workloads.first(key)
        pods = (self._pods[uid] for uid in self._pods.on_node.keys(node))
        return any(
            tracked.workload == first and not tracked.view.metadata.deletion_timestamp
            for tracked in pods
        )

    def told(self, key: WorkloadKey) -> tuple[ToldPods, bool]:
        """Return node selector and node of the pods of an owner, and whether any waits for these.

        Pods that are being deleted are left out.
        """
        is_waiting = False
        pods: dict[str, list[tuple[Mapping[str, str], str]]] = {}
        for pod_set, uids in self._uids_by_pod_set(self._workloads.first(key)):
            for pod in (self._pods[uid].view for uid in uids):
                if pod.metadata.deletion_timestamp:
                    continue
                if pod_owner.waits_for_domain(pod):
                    is_waiting = is_waiting or not _is_single(pod)
                else:
                    selector = pod.spec.node_selector or {}
                    pods.setdefault(pod_set, []).append((selector, pod.spec.node_name))
        return pods, is_waiting

    def domain(
        self, workload: Workload, pod_set: str, pod: views.Pod, placed: Iterable[Mapping[str, str]]
    ) -> Mapping[str, str]:
        """Return the node selector of the domain of a pod that starts now; empty for none.

        Args:
            workload: the Workload that lets it start.
            pod_set: name of its pod set.
            pod: the pod.
            placed: the node selectors of others that were just started.
        """
        domains = assigned_domains(workload, pod_set)
        if domains is None:
            return {}
        count = sum(count for _, count in domains.counts)
        where = topology_domains.placement(
            domains, topology_domains.numbering(workload, pod_set, count)
        )
        uids = self._uids(workload.key(), pod_set)
        selectors = (self._pods[uid].view.spec.node_selector or {} for uid in uids)
        return where.for_pod(pod, (*selectors, *placed))

    def _tell(self, tracked: RunningPod) -> None:
        """Have a pod that waits for its domain be told it, or count one that holds one."""
        tellings = self._tellings.get(tracked.workload)
        telling = None if tellings is None else tellings.of(tracked.pod_set)[0]
        if telling is not None:
            self._see_domain(telling, tracked.view)

    def _see_domain(self, telling: topology_domains.Telling, pod: views.Pod) -> None:
        waits = pod_owner.waits_for_domain(pod)
        if waits and (pod.metadata.deletion_timestamp or _is_single(pod)):
            telling.lose(pod.metadata.uid)
        else:
            telling.see(pod, waits=waits)

    def count_running(self, first: WorkloadKey, pod_sets: Iterable[dict[str, Any]]) -> None:
        """Have the pod sets of an elastic owner ask for the pods that run, and for no others."""
        for pod_set in pod_sets:
            pod_set["count"] = self.count(first, pod_set["name"])

    def _charged(self, key: WorkloadKey, pod_set: str) -> int:
        """Return the number of pods of a pod set that the Workload of a key is charged for now."""
        return self._ledger.charged_pods(self._workloads.current(key), pod_set)

    def _doubt(
        self, tracked: RunningPod, was: views.Pod, answered: views.Pod | None = None
    ) -> None:
        """Have a pod read, or labelled as it was, that its watch does not show any more."""
        uid = tracked.view.metadata.uid
        self._doubts[uid] = _Doubt(was, answered)
        charge = self._charges.get(tracked.key)
        if charge is None or charge.is_rest:
            self._charges[tracked.key] = _OwnCharge(uid, is_rest=False)
        self._put_beside(tracked.view)
        self._look_at((tracked.key,))

    def _see_of_owner(self, pod: views.Pod) -> None:
        self._place(pod)
        self.on_update(pod, resources.RELEASED_PODS)

    def _lose_of_owner(self, gone: views.Object) -> None:
        uid = gone.metadata.uid
        if self.on_delete(gone, resources.RELEASED_PODS):
            self._besides.pop(uid)
            self._inventory.on_pod_delete(uid)

    def _place(self, pod: views.Pod) -> None:
        """Tell the inventory of a pod: one that no queue is charged for takes GPUs from all."""
        is_charged = self._is_charged(pod)
        self._inventory.on_pod_update(pod, outside=not is_charged)
        before = self._besides.get(pod.metadata.uid)
        if not is_charged:
            self._besides.put(pod.metadata.uid, _Beside(pod, is_stray=True))
        elif before is not None and before.is_stray:
            self._besides.put(pod.metadata.uid, _Beside(before.pod, is_stray=False))

    def _put_beside(self, pod: views.Pod) -> bool:
        """Keep a pod that is charged by itself; return whether it was not kept just so."""
        before = self._besides.get(pod.metadata.uid)
        is_stray = before is not None and before.is_stray
        self._besides.put(pod.metadata.uid, _Beside(pod, is_stray))
        return before is None or before.pod is not pod

    def _is_stray(self, uid: str) -> bool:
        """Return whether no queue is charged for a pod of an owner."""
        beside = self._besides.get(uid)
        return beside is not None and beside.is_stray

    def on_owner_update(self, key: WorkloadKey, workload: Workload | None) -> None:
        """Take what an owner asks for that was let go as a whole, or None where it is held.

        Its pods may not be there yet, and nobody else may get what they will take.

        Args:
            key: of its Workload.
            workload: its pod sets, in a Workload that is nowhere stored; their labels name the
                ClusterQueue.
        """
        if workload is not None:
            self._owners.put(key, workload)
            self._recount_owner(key)
        else:
            self._owners.pop(key)
            self._lose_owner(key)

    def _lose_owner(self, key: WorkloadKey) -> None:
        if key in self._short:
            self._short.discard(key)
            self._ledger.on_delete(_owner_key(key))

    def _recount_owner(self, key: WorkloadKey) -> None:
        """Charge the pods that an owner may still make, where its Workload is not charged.

        So are those that take the place of pods which have ended with their node.
        """
        workload = self._owners.get(key)
        if workload is None:
            return
        is_charged, now = self._charged(key, "") > 0, self._clock.now()
        counts = {
            name: self._count_left(key, name, now)
            for name in (() if is_charged else tuple(self._pods.pod_sets.of(key)))
        }
        missing = [
            msgspec.structs.replace(pod_set, count=pod_set.count - counts.get(pod_set.name, 0))
            for pod_set in workload.spec.pod_sets or ()
            if not is_charged and pod_set.count > counts.get(pod_set.name, 0)
        ]
        queue = self._configuration.cluster_queue_of(
            LocalQueueKey(key.namespace, workload.spec.queue_name), _queue_of_templates(workload)
        )
        if not missing or not queue or not self._configuration.manages(key.namespace):
            self._lose_owner(key)
            return
        self._short.add(key)
        metadata = msgspec.structs.replace(workload.metadata, annotations=self._requester(key))
        spec = msgspec.structs.replace(workload.spec, pod_sets=tuple(missing))
        charged = msgspec.structs.replace(workload, metadata=metadata, spec=spec)
        self._ledger.charge(_owner_key(key), charged, queue, {}, stands_for=key, ends=False)

    def _count_left(self, key: WorkloadKey, pod_set: str, now: datetime) -> int:
        """Return the number of pods of a pod set that have not ended."""
        facts = self._pod_set_facts(key, pod_set)
        if facts is None or facts.coverage is None:
            uids = self._uids(key, pod_set)
            return sum(not self._has_ended(self._pods[uid].view, now) for uid in uids)
        if facts.coverage.is_due(now):
            self._recount(key, pod_set)
        return len(facts.coverage)

    def node_changed(self, name: str) -> None:
        """Take the news that it may have changed whether pods on a node can run."""
        changed: dict[WorkloadKey, dict[str, list[str]]] = {}
        for uid in self._pods.on_node.keys(name):
            tracked = self._pods[uid]
            changed.setdefault(tracked.workload, {}).setdefault(tracked.pod_set, []).append(uid)
        for key, pod_sets in changed.items():
            for pod_set, uids in pod_sets.items():
                self._recount(key, pod_set, uids)
            self._recount_owner(key)
            self._look_at((key, *self._take_awaiting(key)))

    def configuration_changed(self, resource: Resource, view: views.Object) -> None:
        """Count pods again that are charged besides Workloads: a queue or flavor has changed."""
        queues = tuple(self._queues_concerned(resource, view))
        uids = dict.fromkeys(uid for queue in queues for uid in self._besides.of_queue.keys(queue))
        for uid in uids:
            if self._is_stray(uid):
                self._place(self._besides[uid].pod)
        keys: dict[WorkloadKey, None] = {}
        for uid in uids:
            tracked = self._pods.get(uid)
            is_alone = tracked is not None and self._is_alone(tracked)
            if tracked is not None and (is_alone or self._is_stray(uid)):
                keys[tracked.workload] = None
                if is_alone:
                    self._look_at((tracked.key,))
            elif not self._is_stray(uid):
                self._besides.pop(uid)
        for key in keys:
            self._recount_all(key, is_priced_anew=True)
        for key in dict.fromkeys(
            key for queue in queues for key in self._owners.of_queue.keys(queue)
        ):
            self._recount_owner(key)

    def _queues_concerned(self, resource: Resource, view: views.Object) -> Iterator[_Queue]:
        """Return the queues by which pods may be charged otherwise after a change of an object."""
        if resource is resources.LOCAL_QUEUES:
            yield LocalQueueKey(*informers.key_of(view))
        name = view.metadata.name
        changed: tuple[str, ...] = ()
        if resource is resources.CLUSTER_QUEUES:
            changed = (name,)
        elif resource is resources.RESOURCE_FLAVORS:
            changed = self._configuration.listing(name)
        for queue in changed:
            yield queue
            yield from self._configuration.behind(queue)

    def _forget(self, uid: str) -> None:
        self._doubts.pop(uid, None)
        if not self._is_stray(uid):
            self._besides.pop(uid)
        tracked = self._pods.pop(uid)
        if tracked is None:
            return
        key = tracked.workload
        is_last = key not in self._pods.pod_sets
        awaiting = self._take_awaiting(key)
        self._forget_facts(tracked, uid)
        self._note_left(tracked)
        self._stop_charging(tracked)
        self._stop_rest(tracked)
        self.releasing.set(uid, None)
        self._recount(key, tracked.pod_set)
        self._recount_owner(key)
        self._look_at(awaiting)
        tellings = self._tellings.pop(key, None) if is_last else self._tellings.get(key)
        if not is_last and tellings is not None and tellings.lose(tracked.pod_set, uid):
            self._look_at((self._workloads.current(key),))  # a domain may be free

    def _forget_facts(self, tracked: RunningPod, uid: str) -> None:
        """Forget what is remembered of a pod that is gone, and of its pod set with the last."""
        facts = self._facts.get(tracked.workload)
        if facts is None:
            return
        left = self._pods.pod_sets.of(tracked.workload)
        of_pod_set = facts.pod_sets.get(tracked.pod_set)
        if of_pod_set is not None:
            of_pod_set.remove(uid)
        if tracked.pod_set not in left:
            facts.pod_sets.pop(tracked.pod_set, None)
        if not left:
            del self._facts[tracked.workload]

    def _take_awaiting(self, key: WorkloadKey) -> tuple[WorkloadKey, ...]:
        """Return the keys to look at as fewer pods run with a Workload, and forget them."""
        facts = self._facts.get(key)
        return () if facts is None else facts.take_awaiting()

    def _facts_of(self, key: WorkloadKey) -> _WorkloadFacts:
        """Return what is remembered of a Workload of which a pod runs."""
        facts = self._facts.get(key)
        if facts is None:
            facts = self._facts[key] = _WorkloadFacts()
        return facts

    def _pod_set_facts(self, key: WorkloadKey, pod_set: str) -> _PodSetFacts | None:
        """Return what is remembered of a pod set; None where each pod is as it was admitted."""
        facts = self._facts.get(key)
        return None if facts is None else facts.pod_sets.get(pod_set)

    # ------------------------------------------------------------------------------ charging

    def has(self, uid: str) -> bool:
        """Return whether a pod runs."""
        return uid in self._pods

    def count(self, key: WorkloadKey, pod_set: str) -> int:
        """Return the number of running pods of a pod set that a Workload released."""
        return self._pods.of_pod_set.count((key, pod_set))

    def _view_of(self, uid: str) -> views.Pod | None:
        tracked = self._pods.get(uid)
        return None if tracked is None else tracked.view

    def _uids(self, key: WorkloadKey, pod_set: str) -> Collection[str]:
        """Return the running pods of a pod set."""
        return self._pods.of_pod_set.keys((key, pod_set))

    def _uids_by_pod_set(self, key: WorkloadKey) -> Iterator[tuple[str, Collection[str]]]:
        """Return the running pods of a Workload, by the name of their pod set."""
        for pod_set in self._pods.pod_sets.of(key):
            yield pod_set, self._uids(key, pod_set)

    def _running(self, key: WorkloadKey) -> Iterator[RunningPod]:
        """Return the running pods of a Workload."""
        return (self._pods[uid] for _, uids in self._uids_by_pod_set(key) for uid in uids)

    def any_of(self, key: WorkloadKey, *, waits: WorkloadKey) -> views.Pod | None:
        """Return a pod that runs with a Workload, or None.

        Args:
            key: of the Workload.
            waits: is looked at when fewer pods run with it.
        """
        first, now = self._workloads.first(key), self._clock.now()
        running = (
            tracked for tracked in self._running(first) if not self._has_ended(tracked.view, now)
        )
        oldest = min(running, key=_order, default=None)
        if oldest is None:
            return None
        self._draft.note(self._await, first, waits)
        if oldest.view.metadata.deletion_timestamp:
            self._draft.look_again_at(self._free_at(oldest.view))
        return oldest.view

    def _await(self, first: WorkloadKey, waits: WorkloadKey) -> None:
        """Have a key looked at when fewer pods run with a Workload."""
        if first in self._pods.pod_sets:
            self._facts_of(first).awaiting[waits] = None

    def without_room(
        self, workload: Workload, started: Mapping[str, int] | None, *, waits: WorkloadKey
    ) -> views.Pod | None:
        """Return a pod that runs where a Workload has no room for those to be started, or None.

        Every release asks this, of an owner of whatever kind. What runs with a Workload already,
        whoever made it, uses its reservation until it has ended: more than is charged for the
        Workload would be charged besides.

        Args:
            workload: the Workload.
            started: number of pods to start, by the name of the pod set; None for all pods that
                the Workload is charged for.
            waits: is looked at when fewer pods run with it.
        """
        first = self._workloads.first(workload.key())
        if first not in self._pods.pod_sets:
            return None
        now = self._clock.now()
        running = {
            name: sum(not self._has_ended(self._pods[uid].view, now) for uid in uids)
            for name, uids in self._uids_by_pod_set(first)
        }
        names_of_sets = [pod_set.name for pod_set in workload.spec.pod_sets or ()]
        charged = {name: self._charged(first, name) for name in names_of_sets}
        to_start = charged if started is None else started
        is_full = any(
            running.get(name, 0) and running[name] + count > charged.get(name, 0)
            for name, count in to_start.items()
        )
        # where the name of a pod set cannot be a label its pods count among all
        is_full |= sum(running.values()) + sum(to_start.values()) > sum(charged.values())
        return self.any_of(first, waits=waits) if is_full else None

    def charge_again(self, workload: Workload, reclaimable: Mapping[str, int]) -> None:
        """Charge a Workload for pods that it gave the quota back of; see `Ledger.charge_again`.

        Those of them that run are charged on their own until then, and count once.
        """
        first = self._workloads.first(workload.key())
        withdrawn: dict[str, list[str]] = {}
        for tracked in self._running(first):
            if self._is_alone(tracked) and tracked.view.metadata.uid not in self._doubts:
                self._ledger.on_delete(tracked.key)
                withdrawn.setdefault(tracked.pod_set, []).append(tracked.view.metadata.uid)
        self._lose_owner(first)
        self._ledger.charge_again(workload.key(), reclaimable)
        for pod_set, uids in withdrawn.items():  # those that are still beyond it are charged again
            self._recount(first, pod_set, uids)
        self._recount_all(first)

    def devices(self, workload: Workload) -> Mapping[str, Mapping[str, int]]:
        """Return how much of each device was admitted for one pod; see `Ledger.devices`."""
        return self._ledger.devices(workload)

    def hosts(self, key: WorkloadKey) -> Mapping[str, tuple[str, ...]]:
        """Return the nodes that the pods of an admitted Workload prefer; see `Ledger.hosts`."""
        return self._ledger.hosts(key)

    def to_tell(self, first: WorkloadKey, until: str) -> tuple[views.Pod, Resource] | None:
        """Return a pod that runs and does not say until when, and by which it is watched.

        Args:
            first: key of its owner's first Workload.
            until: what it should say.
        """
        silent = (
            tracked
            for tracked in self._running(first)
            if not tracked.view.metadata.deletion_timestamp
            and tracked.view.metadata.annotation(names.STOPS_AT) != until
        )
        oldest = min(silent, key=_order, default=None)
        return None if oldest is None else (oldest.view, oldest.resource)

    def charge_of(
        self, workload: Workload, running: Mapping[str, int] | None = None
    ) -> RunningCharge | None:
        """Return the charge of a Workload with running pods; None where it is not decided.

        Args:
            workload: the Workload.
            running: see `Ledger.admit_running`.
        """
        return self._ledger.running_charge(workload, running)

    def queue_to_charge(self, workload: Workload) -> str:
        """Return the ClusterQueue to which running pods are charged; empty for none."""
        named = self._named_queue(workload.key())
        return self._configuration.cluster_queue_of(_local_queue_of(workload), named)

    def decide_charge(self, workload: Workload, running: Mapping[str, int] | None) -> None:
        """Decide that charge, in the ClusterQueue that it has now."""
        labels = dict(self._node_labels_of(workload.key()))
        queue = self.queue_to_charge(workload)
        self._ledger.admit_running(workload, queue, labels, running=running)

    def is_charged_elsewhere(self, workload: Workload) -> bool:
        """Return whether a Workload is charged to other flavors than those of its pods' node.

        Not where no pod has a node that is seen. What an administrator lets run has no node
        selector of a flavor, and is charged before it has a node.

        Args:
            workload: that holds quota.
        """
        admission = workload.status.admission
        labels = self._node_labels_of(workload.key())
        if admission is None or not labels:
            return False
        assigned = admission.pod_set_assignments or ()
        charged = {name for each in assigned for name in (each.flavors or {}).values()}
        if all(self._is_of(name, labels) for name in charged):
            return False
        admit = self._ledger.charge_on_node(workload, admission.cluster_queue, dict(labels))
        on_node = () if admit is None else admit.pod_sets
        return any(
            dict(each.flavors) != (before.flavors or {})
            for each, before in zip(on_node, assigned, strict=False)
        )

    def _node_labels_of(self, key: WorkloadKey) -> Mapping[str, str]:
        """Return the labels of the node of a pod that runs; empty where none has one."""
        bound = (each for each in self._running(key) if each.view.spec.node_name)
        first = min(bound, key=_order, default=None)
        return {} if first is None else self._inventory.node_labels(first.view.spec.node_name)

    def _is_of(self, flavor: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node has the labels of a flavor."""
        view = self._configuration.flavors.get(flavor)
        node_labels = {} if view is None else view.spec.node_labels or {}
        return node_labels.items() <= labels.items()

    def _named_queue(self, key: WorkloadKey) -> str:
        """Return the ClusterQueue that running pods of a Workload name; empty for none."""
        first = min(self._running(key), key=_order, default=None)
        if first is not None:
            return first.view.metadata.label(names.CLUSTER_QUEUE_NAME_LABEL)
        workload = self._owners.get(key)
        return "" if workload is None else _queue_of_templates(workload)

    def queues_sought(self, workload: Workload) -> tuple[str, ...]:
        """Return the ClusterQueues of which any lets a Workload with running pods be charged."""
        local = self._configuration.local_queues.get(_local_queue_of(workload))
        named = self._named_queue(workload.key())
        return tuple(filter(None, (named, "" if local is None else local.spec.cluster_queue)))

    def workloads_listed(self) -> None:
        """Take the news that all Workloads were seen; charge the pods of which there is none.

        Until then a pod without one is not charged: nothing is decided before, and its Workload
        would take the charge back.
        """
        self._are_workloads_listed = True
        for key in tuple(self._uncounted):
            self._recount_all(key)

    def _may_come(self, first: WorkloadKey) -> bool:
        """Return whether the Workload of a pod is not known, and may be in a list to come."""
        if self._are_workloads_listed:
            return False
        return self._workloads.get(self._workloads.current(first)) is None

    def recount(self, key: WorkloadKey) -> None:
        """Charge each pod of a Workload on its own that the Workload is not charged for."""
        self._recount_all(self._workloads.first(key))

    def _recount_all(self, key: WorkloadKey, *, is_priced_anew: bool = False) -> None:
        """Charge pods of all pod sets of a Workload; see `_recount`."""
        self._uncounted.pop(key, None)
        for pod_set in tuple(self._pods.pod_sets.of(key)):
            facts = self._pod_set_facts(key, pod_set)
            uncharged = () if facts is None else facts.uncharged
            self._recount(key, pod_set, uncharged, is_priced_anew=is_priced_anew)
            self._compare_with_share(key, pod_set)
        self._recount_owner(key)

    def _compare_with_share(self, key: WorkloadKey, pod_set: str) -> None:
        """Charge what pods ask for beyond their part of a reservation that is another one now.

        Where nothing is remembered each pod is as it was admitted, whatever its part is.
        """
        facts = self._pod_set_facts(key, pod_set)
        share = self._ledger.share(self._workloads.current(key), pod_set)
        if facts is None and share is not None:
            return
        facts = self._facts_of(key).of(pod_set) if facts is None else facts
        if share == facts.share:
            return
        facts.share, facts.has_others = share, False
        for uid in self._uids(key, pod_set):
            self._charge_rest(self._pods[uid])
        if not facts.is_needed():
            del self._facts[key].pod_sets[pod_set]

    def workload_gone(self, first: WorkloadKey, before: Workload | None) -> None:
        """Take the news that a Workload is gone; what it said of its pods is remembered.

        Args:
            first: key of the first Workload of its owner.
            before: the Workload as last seen; None where it could not be read.
        """
        if before is not None and first in self._pods.pod_sets:
            self._facts_of(first).origin = orphans.origin(before)
        self._recount_all(first)

    def _origin(self, key: WorkloadKey) -> Origin | None:
        """Return what a Workload says or said of its running pods; None if nothing is known."""
        workload = self._workloads.get(self._workloads.current(key))
        if workload is not None:
            return orphans.origin(workload)
        facts = self._facts.get(key)
        return None if facts is None else facts.origin

    def _requester(self, key: WorkloadKey, pod: views.Pod | None = None) -> dict[str, str]:
        """Return the annotation of who asked for pods of a Workload; empty where it is not known.

        The pods of a Job have none that can be trusted, so what the Workload said comes first.
        """
        origin = self._origin(key)
        name = "" if origin is None else origin.requester
        if not name and pod is not None:
            name = pod.metadata.annotation(names.REQUESTER)
        return {names.REQUESTER: name} if name else {}

    def _recount(
        self,
        key: WorkloadKey,
        pod_set: str,
        changed: Iterable[str] = (),
        *,
        is_priced_anew: bool = False,
    ) -> None:
        """Charge each pod of a pod set on its own that the reservation does not cover.

        Looks at the pods that have changed and at those that are covered now and were not before,
        or the other way round: for the others the same is charged as before.

        Args:
            key: of the first Workload.
            pod_set: name of the pod set.
            changed: pods that came, or that differ from before.
            is_priced_anew: the charge of each pod may differ from before.
        """
        count = self.count(key, pod_set)
        if not count:
            return
        charged, now = self._charged(key, pod_set), self._clock.now()
        remembered = self._pod_set_facts(key, pod_set)
        has_coverage = remembered is not None and remembered.coverage is not None
        if not has_coverage and count <= charged:  # so it is with nearly all pods
            for tracked in (self._pods[uid] for uid in changed):
                if self._is_alone(tracked):  # it was in doubt
                    self._stop_charging(tracked)
                    self._charge_rest(tracked)
            return
        basis = self._origin(key), self._configuration.manages(key.namespace)
        pods = self._facts_of(key).of(pod_set)
        looks_at_all = is_priced_anew or pods.coverage is None or pods.basis != basis
        pods.basis = basis
        coverage = pods.coverage = Coverage() if pods.coverage is None else pods.coverage
        due = (uid for uid in coverage.take_due(now) if self._is_in(uid, key, pod_set))
        seen = tuple(self._uids(key, pod_set) if looks_at_all else dict.fromkeys((*changed, *due)))
        for uid in seen:
            self._put_in_order(coverage, self._pods[uid], now)
        for uid in dict.fromkeys((*seen, *coverage.cover(charged))):
            tracked = self._pods[uid]
            pods.uncharged.pop(uid, None)
            if coverage.is_beyond(uid):
                self._charge(tracked, now)
                if not self._is_alone(tracked):
                    pods.uncharged[uid] = None
            else:
                self._stop_charging(tracked)
                self._charge_rest(tracked)

    def _is_in(self, uid: str, key: WorkloadKey, pod_set: str) -> bool:
        """Return whether a pod runs that is of a pod set."""
        tracked = self._pods.get(uid)
        return tracked is not None and (tracked.workload, tracked.pod_set) == (key, pod_set)

    def _put_in_order(self, coverage: Coverage, tracked: RunningPod, now: datetime) -> None:
        """Give a pod its place among those of its pod set, none if it has ended."""
        pod = tracked.view
        if self._has_ended(pod, now):
            coverage.remove(pod.metadata.uid)
            return
        coverage.put(pod.metadata.uid, _order(tracked))
        due = self._free_at(pod) if pod.metadata.deletion_timestamp else None
        if due is not None:
            coverage.add_due(pod.metadata.uid, due)

    def _is_beyond(self, tracked: RunningPod) -> bool:
        """Return whether the reservation does not cover a pod that runs."""
        facts = self._pod_set_facts(tracked.workload, tracked.pod_set)
        coverage = None if facts is None else facts.coverage
        return coverage is not None and coverage.is_beyond(tracked.view.metadata.uid)

    def _charge_rest(self, tracked: RunningPod) -> None:
        """Charge what a pod asks for beyond its part of the reservation that covers it.

        What others add to a pod is not in the template that was admitted.
        """
        uid, current = tracked.view.metadata.uid, self._workloads.current(tracked.workload)
        share = self._ledger.share(current, tracked.pod_set)
        workload = self._workloads.get(current)
        charge = self._charges.get(tracked.key)
        if charge is not None and not charge.is_rest:
            return  # all that it asks for is charged
        remembered = self._pod_set_facts(tracked.workload, tracked.pod_set)
        if remembered is not None and remembered.has_within(share, tracked.view.spec):
            remembered.has_others = True
            self._stop_rest(tracked)
            return
        pod_sets = () if workload is None else workload.spec.pod_sets or ()
        template = next((each.template for each in pod_sets if each.name == tracked.pod_set), None)
        is_as_admitted = template is None or _asks_alike(template.spec, tracked.view.spec)
        if share is not None and template is not None and is_as_admitted:
            self._stop_rest(tracked)
            return
        facts = self._facts_of(tracked.workload).of(tracked.pod_set)
        facts.has_others = True
        if share is None or template is None or not self._is_charged(tracked.view):
            self._stop_rest(tracked)
            return
        is_beyond = self._ledger.charge_beyond(
            tracked.key,
            self._requested(tracked),
            self._queue_of(tracked.view),
            self._inventory.node_labels(tracked.view.spec.node_name),
            share=share,
            template=template,
            ends=bool(tracked.view.metadata.deletion_timestamp),
        )
        if is_beyond:
            self._charges[tracked.key] = _OwnCharge(uid, is_rest=True)
        else:
            self._stop_rest(tracked)
            facts.within = share, tracked.view.spec

    def _requested(self, tracked: RunningPod) -> Workload:
        """Return the requests of a pod as a Workload that is not stored."""
        origin = self._origin(tracked.workload)
        priority = tracked.view.spec.priority if origin is None else origin.priority
        return _requested(tracked, self._requester(tracked.workload, tracked.view), priority)

    def _stop_rest(self, tracked: RunningPod) -> None:
        if self._charges.get(tracked.key) == (tracked.view.metadata.uid, True):
            del self._charges[tracked.key]
            self._ledger.on_delete(tracked.key)

    def _charge(self, tracked: RunningPod, now: datetime) -> None:
        metadata = tracked.view.metadata
        if not self._is_charged(tracked.view):
            self._stop_charging(tracked)
            return
        before = self._charges.get(tracked.key)
        if before is not None and before.uid != metadata.uid and not before.is_rest:
            self._ledger.on_delete(tracked.key)  # of the same name; the other one is confirmed
            self._replaced.setdefault(tracked.key, {})[before.uid] = None
        self._charges[tracked.key] = _OwnCharge(metadata.uid, is_rest=False)
        is_news = self._put_beside(tracked.view)
        labels = self._inventory.node_labels(tracked.view.spec.node_name)
        ends = bool(metadata.deletion_timestamp)
        requested, queue = self._requested(tracked), self._queue_of(tracked.view)
        self._ledger.charge(
            tracked.key, requested, queue, labels, stands_for=_named_on(tracked), ends=ends
        )
        self._note_releasing(tracked)
        if is_news and not ends and orphans.is_left(tracked.view):
            self._look_at((tracked.key,))
        due = self._free_at(tracked.view) if ends else None
        if due is not None:
            self._queue.add_at(tracked.key, due, now)

    def _is_alone(self, tracked: RunningPod) -> bool:
        """Return whether a pod is charged for all that it asks for."""
        return self._charges.get(tracked.key) == (tracked.view.metadata.uid, False)

    def _stop_charging(self, tracked: RunningPod) -> None:
        if self._is_alone(tracked) and tracked.view.metadata.uid not in self._doubts:
            del self._charges[tracked.key]
            self._ledger.on_delete(tracked.key)
            self._queue.cancel(tracked.key)
            self._charge_replaced(tracked.key)
        self._note_releasing(tracked)

    def _charge_replaced(self, key: PodCharge) -> None:
        """Charge pods of a name again of which another one is charged no more."""
        replaced = (self._pods.get(uid) for uid in self._replaced.pop(key, ()))
        for tracked in replaced:
            if tracked is not None and self._is_beyond(tracked):
                self._charge(tracked, self._clock.now())

    def _is_charged(self, pod: views.Pod) -> bool:
        """Return whether a pod's labels name a queue, in a namespace where they can be trusted."""
        managed = self._configuration.manages(pod.metadata.namespace)
        return managed and bool(self._queue_of(pod))

    def _queue_of(self, pod: views.Pod) -> str:
        """Return the ClusterQueue that a pod is charged to; empty for none."""
        queue = LocalQueueKey(pod.metadata.namespace, _queue(pod))
        named = pod.metadata.label(names.CLUSTER_QUEUE_NAME_LABEL)
        return self._configuration.cluster_queue_of(queue, named)

    # ---------------------------------------------------------------------------- what runs

    def _runs(self, pod: views.Pod) -> bool:
        """Return whether a pod may use what it was admitted for, as far as it tells itself."""
        if pod_owner.is_gated(pod) or pod_owner.is_terminal(pod):
            return False
        if not pod.metadata.deletion_timestamp:
            return True
        return pod_owner.may_run_on(pod) and not self._settings.releases_on_deletion

    def _has_ended(self, pod: views.Pod, now: datetime) -> bool:
        """Return whether nothing of a pod can run any more on its node."""
        if not pod.metadata.deletion_timestamp:
            node = pod.spec.node_name
            return bool(node) and self._inventory.lost_nodes.is_gone(node)
        due = self._free_at(pod)
        return due is not None and due <= now

    def _free_at(self, pod: views.Pod) -> datetime | None:
        """Return when a pod that is being deleted counts as ended; None for its end."""
        ends = clocks.from_wire(pod.metadata.deletion_timestamp or "")
        after = self._settings.lost_node_after
        return self._inventory.lost_nodes.frees_at(pod.spec.node_name, ends, after)

    # ---------------------------------------------------------------- pods without their label

    def on_turn(self, key: PodCharge) -> None:
        """Count a pod again that is charged on its own: as time passes it may have ended."""
        uid = self._uid_alone(key)
        tracked = self._pods.get(uid) if uid is not None else None
        if uid is not None and tracked is not None and uid not in self._doubts:
            self._recount(tracked.workload, tracked.pod_set, (uid,))
            self._recount_owner(tracked.workload)

    def next_request(self, key: PodCharge) -> ApiRequest | None:
        """Return the next write about a pod that is charged on its own, or None for none."""
        uid = self._uid_alone(key)
        tracked = self._pods.get(uid) if uid is not None else None
        if uid is None or tracked is None:
            return None
        doubt = self._doubts.get(uid)
        if doubt is None:
            return self._charge_orphan(key, tracked) if self._is_alone(tracked) else None
        if doubt.due is not None and self._clock.now() < doubt.due:
            self._draft.look_again_at(doubt.due)
            return None
        if doubt.answered is None:
            return api_requests.read(
                key, WritePurpose.CONFIRM_POD, resources.PODS, tracked.view.metadata, views.Pod
            )
        return self._put_back(key, doubt.was, doubt.answered)

    def _uid_alone(self, key: PodCharge) -> str | None:
        """Return the pod that is charged under a key for all that it asks for."""
        charge = self._charges.get(key)
        return None if charge is None or charge.is_rest else charge.uid

    def _charge_orphan(self, key: PodCharge, tracked: RunningPod) -> ApiRequest | None:
        """Return the write that gives a pod that its owner has left a Workload of its own."""
        pod, queue = tracked.view, _queue(tracked.view)
        cluster_queue = self._queue_of(pod)
        is_leaving = bool(pod.metadata.deletion_timestamp)
        if is_leaving or not orphans.is_left(pod) or not queue or not cluster_queue:
            return None
        classes, origin = self._configuration.priority_classes, self._origin(tracked.workload)
        changes = orphans.charge(pod, queue, cluster_queue, origin, classes)
        return owner_requests.patch(
            key, resources.PODS, pod, WritePurpose.CHARGE_ORPHAN, changes, into=views.Pod
        )

    def queue_left(self, key: WorkloadKey) -> ApiRequest | None:
        """Return the write after which a pod that its owner has left waits on its own, or None."""
        pod = self._waiters.left(key)
        queue = "" if pod is None else _queue(pod)
        if pod is None or not queue or not self._configuration.manages(key.namespace):
            return None
        first = _workload_of(pod)
        workload = self._workloads.get(self._workloads.current(first))
        origin = self._origin(first) if workload is None else orphans.origin(workload)
        changes = orphans.put_in_queue(pod, queue, origin, self._configuration.priority_classes)
        return owner_requests.patch(
            key, resources.PODS, pod, WritePurpose.CHARGE_ORPHAN, changes, into=views.Pod
        )

    def _put_back(self, key: PodCharge, pod: views.Pod, unlabelled: views.Pod) -> ApiRequest:
        """Return the write that gives a pod its labels again, so that it is watched."""
        was, now = pod.metadata, unlabelled.metadata
        labels = {label: was.label(label) for label in _MARKS if was.label(label)}
        if _is_single(pod):
            labels[names.MANAGED_LABEL] = names.MANAGED_VALUE
        marks = {names.WORKLOAD_ANNOTATION: was.annotation(names.WORKLOAD_ANNOTATION) or None}
        precondition = {"resourceVersion": now.resource_version, "uid": now.uid}
        changes = patches.merge(
            {"metadata": {**precondition, "labels": labels, "annotations": marks}}
        )
        return owner_requests.patch(
            key, resources.PODS, unlabelled, WritePurpose.LABEL_POD, changes, into=views.Pod
        )

    def complete(self, key: PodCharge, outcome: RequestResult) -> None:
        """Take what came of a write about a pod that is charged on its own."""
        uid, operation = self._uid_alone(key), outcome.request.operation
        if operation is WritePurpose.CHARGE_ORPHAN:
            if uid is not None and uid == outcome.request.uid and outcome.result is Result.GONE:
                self._forget(uid)
            return
        doubt = None if uid is None else self._doubts.get(uid)
        if uid is None or doubt is None:
            return
        answered = outcome.object if isinstance(outcome.object, views.Pod) else None
        is_gone = outcome.result is Result.GONE or (answered and answered.metadata.uid != uid)
        if is_gone:
            self._inventory.on_pod_end(uid)
        if is_gone or (answered is not None and not self._runs(answered)):
            self._forget(uid)
            return
        if answered is not None and answered.metadata.label(names.MANAGED_LABEL):
            self.on_update(answered)
        elif (
            answered is not None
            and answered.metadata.label(names.PODSET_LABEL)
            and not _is_single(doubt.was)
        ):
            self.on_update(answered, resources.RELEASED_PODS)
        elif answered is None or operation is WritePurpose.LABEL_POD:
            doubt.answered, doubt.due = None, self._clock.now() + _AGAIN
        else:
            doubt.answered = answered

    # ------------------------------------------------------------------------------ releasing

    def _note_releasing(self, tracked: RunningPod) -> None:
        """Record whether a pod holds quota though it was stopped, or its Workload has ended."""
        metadata = tracked.view.metadata
        is_releasing = bool(metadata.deletion_timestamp) or self._is_alone(tracked)
        queue = self._queue_of(tracked.view) if is_releasing else ""
        self.releasing.set(metadata.uid, queue or None)

    def ending(self) -> dict[str, dict[FlavorResource, EndingPods]]:
        """Return what pods hold that are being deleted, by ClusterQueue.

        The next pod of a Workload that stays takes its quota, so pods of these are left out.
        """
        now = clocks.to_wire(self._clock.now())
        ending: dict[str, dict[FlavorResource, EndingPods]] = {}
        for uid, queue in self.releasing.queues.items():
            tracked = self._pods.get(uid)
            end = None if tracked is None else tracked.view.metadata.deletion_timestamp
            if tracked is None or not end:
                continue
            until = end if end > now else ""
            amounts = ending.setdefault(queue, {})
            for pair, amount in self._held_by(tracked).items():
                before = amounts.get(pair)
                amounts[pair] = (
                    EndingPods(pair.resource, pair.flavor, amount, 1, until)
                    if before is None
                    else before.with_pods(amount, 1, until)
                )
        return ending

    def _held_by(self, tracked: RunningPod) -> Mapping[FlavorResource, int]:
        """Return what is charged for a pod, on its own or as a part of its reservation."""
        if self._is_alone(tracked):
            return self._ledger.held_by_pod(tracked.key, "")
        current = self._workloads.current(tracked.workload)
        workload = self._workloads.get(current)
        is_over = workload is None or (
            workload.status.is_true(conditions.EVICTED)
            or workload.status.is_true(conditions.FINISHED)
        )
        if not is_over and bound_pod.is_followed(tracked.view.metadata):
            return {}
        return self._ledger.held_by_pod(current, tracked.pod_set)


def _local_queue_of(workload: Workload) -> LocalQueueKey:
    return LocalQueueKey(workload.metadata.namespace, workload.spec.queue_name)


def _queues_of_owner(key: WorkloadKey, workload: Workload) -> tuple[_Queue, _Queue]:
    """Return the queues that decide what an owner is charged to that was let go as a whole."""
    return LocalQueueKey(key.namespace, workload.spec.queue_name), _queue_of_templates(workload)


def _queues_of_pod(_: str, beside: _Beside) -> tuple[_Queue, _Queue]:
    """Return the queues that decide what a pod is charged to."""
    pod = beside.pod
    named = pod.metadata.label(names.CLUSTER_QUEUE_NAME_LABEL)
    return LocalQueueKey(pod.metadata.namespace, _queue(pod)), named


def _owner_key(key: WorkloadKey) -> OwnerCharge:
    """Return the key under which pods that an owner may still create are charged."""
    return OwnerCharge(key.namespace, key.name)


def _queue_of_templates(workload: Workload) -> str:
    """Return the ClusterQueue that the pod templates of an owner name; empty for none."""
    labels = (
        pod_set.template.metadata.label(names.CLUSTER_QUEUE_NAME_LABEL)
        for pod_set in workload.spec.pod_sets or ()
    )
    return next(filter(None, labels), "")


def _workload_of(pod: views.Pod) -> WorkloadKey:
    """Return the Workload that let a pod start, or that it would have."""
    named = pod.metadata.annotation(names.WORKLOAD_ANNOTATION)
    return WorkloadKey(pod.metadata.namespace, named) if named else pod_owner.KIND.key_of(pod)


def _named_on(tracked: RunningPod) -> WorkloadKey | None:
    """Return the Workload of a pod where the pod names it, with its pod set; else None.

    By these names it is known that the pod is bound.
    """
    is_named = tracked.view.metadata.annotation(names.WORKLOAD_ANNOTATION) and tracked.pod_set
    return tracked.workload if is_named else None


def _is_single(pod: views.Pod) -> bool:
    """Return whether a pod has a Workload of its own, by its label or by its annotation."""
    if pod.metadata.label(names.MANAGED_LABEL) == names.MANAGED_VALUE:
        return True
    named = pod.metadata.annotation(names.WORKLOAD_ANNOTATION)
    return bool(named) and named == pod_owner.KIND.key_of(pod).name


def _queue(pod: views.Pod) -> str:
    """Return the name of a pod's LocalQueue."""
    metadata = pod.metadata
    return metadata.label(names.LOCAL_QUEUE_NAME_LABEL) or metadata.label(names.QUEUE_LABEL)


def _requested(tracked: RunningPod, annotations: dict[str, str], priority: int | None) -> Workload:
    """Return the requests of a pod as a Workload that is not stored."""
    pod = tracked.view
    template = PodTemplate(metadata=pod.metadata, spec=pod.spec)
    return Workload(
        metadata=views.ObjectMeta(
            namespace=pod.metadata.namespace,
            name=pod.metadata.name,
            uid=pod.metadata.uid,
            creation_timestamp=pod.metadata.creation_timestamp,
            annotations=annotations,
        ),
        spec=WorkloadSpec(
            queue_name=_queue(pod),
            priority=priority,
            pod_sets=(
                PodSet(name=tracked.pod_set or names.DEFAULT_PODSET, count=1, template=template),
            ),
        ),
    )


def _order(tracked: RunningPod) -> tuple[bool, bool, str]:
    """Return the sort key of pods: pods that continue first, as the reservation was for them.

    Those that their owner has left come last: it may make others in their place.
    """
    metadata = tracked.view.metadata
    return orphans.is_left(tracked.view), bool(metadata.deletion_timestamp), metadata.uid


def _turn(pod: views.Pod) -> tuple[str, str, str]:
    """Return the sort key of waiting pods: by pod set, the oldest first."""
    metadata = pod.metadata
    return metadata.label(names.PODSET_LABEL), metadata.creation_timestamp or "", metadata.uid


def _differs(before: views.Pod, pod: views.Pod) -> bool:
    """Return whether a pod must be counted again."""
    return (
        before.metadata.deletion_timestamp != pod.metadata.deletion_timestamp
        or before.spec.node_name != pod.spec.node_name
        or orphans.is_left(before) != orphans.is_left(pod)
        or any(before.metadata.label(label) != pod.metadata.label(label) for label in _MARKS)
    )


def _asks_alike(left: views.PodSpec, right: views.PodSpec) -> bool:
    """Return whether two pods ask for the same."""
    return (left.containers, left.init_containers, left.resources, left.overhead) == (
        right.containers, right.init_containers, right.resources, right.overhead
    )  # fmt: skip
