"""Runs scheduling cycles and remembers each decision until it is written."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from admission.base import conditions, events, logs, metrics, names
from admission.base.causes import Misconfigured, ReservedTwice
from admission.base.clock import Clock
from admission.base.events import Events
from admission.base.names import (
    ChargeKey,
    ClusterQueueName,
    FlavorResource,
    KeptCharge,
    OwnerCharge,
    PodCharge,
    WorkloadKey,
)
from admission.base.tables import Table
from admission.controller.condition_schedule import ConditionSchedule
from admission.controller.devices.resource_adjustments import ResourceAdjustments
from admission.controller.queues.gpu_transformations import GpuTransformations
from admission.controller.queues.workload_metrics import KueueMetrics
from admission.controller.watched_owners.running_pods import RunningCharge
from admission.controller.workloads import evictions, statuses
from admission.controller.workloads.lost_hosts import LostHosts
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import (
    ApiRequest,
    RequestResult,
    Result,
    WritePurpose,
)
from admission.controller.writing.flow_control import FlowControl
from admission.objects import workload as workload_objects
from admission.objects.workload import PodTemplate, Workload
from admission.owners.integrations import Kinds
from admission.reasons import added_conditions, kueue
from admission.scheduling import decisions, model, podsets, quota
from admission.scheduling.state import SchedulerState

OnChange = Callable[[ChargeKey, model.Workload | None, model.Workload | None], None]
"""Takes what was known under a key, and what is now; None for nothing."""


def _ignore(key: ChargeKey, before: model.Workload | None, after: model.Workload | None) -> None:
    """Do nothing."""


class Scheduler:
    """Decisions that wait to be written, and when the next cycle runs.

    After a cycle that gave nobody anything, the next one comes with the next change, or after a
    rest that grows from a millisecond to a second: a head may advance over several cycles without
    any change from outside.

    While as many decisions are open as flow control allows, the next cycle waits: what it decided
    would be old by the time of its writing, and it would evict what has ended by then (ADR 0066).

    Attributes:
        on_change: is told of each Workload that is taken or lost.
        lost_hosts: those with a host on which their pods cannot start.
    """

    def __init__(
        self,
        state: SchedulerState,
        clock: Clock,
        explainer: ConditionSchedule,
        accounting: KueueMetrics,
        prices: GpuTransformations,
        charges: ResourceAdjustments,
        *,
        flow: FlowControl,
        events: Events,
        kinds: Kinds,
    ) -> None:
        """Prepares the loop.

        Args:
            state: what is known, and who waits.
            clock: the present.
            explainer: is told why Workloads wait.
            accounting: counts preemptions.
            prices: count GPUs in the currency of each queue.
            charges: say what besides itself decides what a Workload is charged for.
            flow: says when the next cycle may run.
            events: takes events about victims and preemptors.
            kinds: of owners that are served.
        """
        self._log = logs.get("scheduling")
        self._state = state
        self._clock = clock
        self._explainer = explainer
        self._accounting = accounting
        self._prices = prices
        self._charges = charges
        self._unpriced: Table[ChargeKey, model.Workload] = Table()
        self._of_local = self._unpriced.index(lambda _, workload: (workload.queue,))
        self._reserving_in = self._unpriced.index(_reserves_in)
        self._admits: dict[ChargeKey, decisions.Admit] = {}
        self._evicts: dict[ChargeKey, decisions.Evict] = {}
        self._preemptions: dict[ChargeKey, decisions.Evict] = {}
        self._take_backs: set[ChargeKey] = set()
        self._moved: set[ChargeKey] = set()
        """Workloads whose status says that they use surge quota, and that have quota now."""
        self._surge_ends: set[ChargeKey] = set()
        """Workloads that are to give surge quota back."""
        self._charged_again: dict[ChargeKey, Mapping[str, int]] = {}
        """How many pods of each pod set are left out still, of Workloads that say more."""
        self._running_charges: dict[ChargeKey, RunningCharge] = {}
        """Charges of running pods that are not written yet."""
        self._without_room: set[ChargeKey] = set()
        """Workloads of which pods run again that there is no room for."""
        self._starting: set[ChargeKey] = set()
        self._flow = flow
        self._events = events
        self._kinds = kinds
        self.on_change: OnChange = _ignore
        self.lost_hosts = LostHosts(state, clock, self._take_again)

    def changed(self) -> None:
        """Record that something that cycles depend on has changed."""
        self._flow.hurry_cycle()

    def on_update(self, view: Workload) -> None:
        """Take a Workload as it is now."""
        key = view.key()
        before = self._unpriced.get(key)
        self._take(view, before)
        after = self._unpriced.get(key)
        if before is None or after is None or after.reservation is not None:
            return
        if _asked(before) != _asked(after) and self._admits.pop(key, None) is not None:
            self._state.forget(key, self._now_us())  # it was decided for what it asked before

    def translate_again(self, workloads: Iterable[Workload]) -> None:
        """Take Workloads that have not changed themselves, but whose context has.

        What was decided stands: its write may be under way, and nothing would refuse it.
        """
        for view in workloads:
            self._take(view, None)

    def hold(self, view: Workload, *, stays: bool) -> None:
        """Take a Workload of which only what it holds may be read.

        Args:
            view: the Workload, or as much of it as can be read.
            stays: whether nothing can be written about it.
        """
        key = view.key()
        try:
            workload = workload_objects.scheduling_value_of_held(view, stays=stays)
        except ValueError as error:
            self._log_unreadable("what a workload holds cannot be read", key, error)
            workload = None
        if workload is None:
            self.on_delete(key)
        else:
            self._put(key, workload)

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
        """Charge a ClusterQueue for pods on their own; see `running_pods.Ledger`."""
        charged = self._running(key, view, queue, node_labels)
        if charged is None:
            self.on_delete(key)
        else:
            charged = replace(charged, stands_for=None if ends else stands_for)
            self._put_running(charged, ends=ends)

    def _put_running(self, charged: model.Workload, *, ends: bool) -> None:
        """Take what is charged for pods that run, since they were first charged."""
        key = charged.key
        unpriced = self._unpriced.get(key)
        eviction = None if unpriced is None else unpriced.eviction
        if ends and eviction is None:
            eviction = model.Eviction(reason=conditions.PODS_ENDING, since_us=self._now_us())
        charged = replace(charged, eviction=eviction, stays=not ends)
        if unpriced is not None and unpriced.reservation and charged.reservation:
            since = unpriced.reservation.reserved_us
            charged = replace(charged, reservation=replace(charged.reservation, reserved_us=since))
        if charged != unpriced:
            self._put(key, charged)

    def admit_running(
        self,
        view: Workload,
        queue: str,
        node_labels: dict[str, str],
        *,
        running: Mapping[str, int] | None = None,
    ) -> None:
        """Decide the charge of a Workload with running pods; see `running_pods.Ledger`."""
        admit = self._charge_of_running(view, queue, node_labels, running)
        charge = RunningCharge(view.metadata.resource_version, running, admit)
        self._running_charges[view.key()] = charge

    def charge_on_node(
        self, view: Workload, queue: str, node_labels: dict[str, str]
    ) -> decisions.Admit | None:
        """Return what is charged for pods on a node; see `running_pods.Ledger`."""
        return self._charge_of_running(view, queue, node_labels, None)

    def running_charge(
        self, view: Workload, running: Mapping[str, int] | None
    ) -> RunningCharge | None:
        """Return the charge that was decided; see `running_pods.Ledger`."""
        charge = self._running_charges.get(view.key())
        decided_for = view.metadata.resource_version, running
        return None if charge is None or charge[:2] != decided_for else charge

    def _charge_of_running(
        self,
        view: Workload,
        queue: str,
        node_labels: dict[str, str],
        running: Mapping[str, int] | None,
    ) -> decisions.Admit | None:
        charged = self._running(view.key(), view, queue, node_labels)
        if charged is None or charged.reservation is None:
            return None
        admit = decisions.Admit(
            workload=charged.workload_key,
            cluster_queue=ClusterQueueName(queue),
            pod_sets=charged.reservation.pod_sets,
        )
        if running is None:
            return admit  # its pods wait for their domains; see `LostHosts`
        part = replace(
            admit,
            pod_sets=tuple(pod_set.of(running.get(pod_set.name, 0)) for pod_set in admit.pod_sets),
        )
        is_whole = part == admit
        admit, part = self._in_domains(charged, admit), self._in_domains(charged, part)
        if is_whole or not self._state.charge_whole(admit, part, self._now_us()):
            return part
        self._admits[admit.workload] = admit
        return admit

    def _in_domains(self, charged: model.Workload, admit: decisions.Admit) -> decisions.Admit:
        """Return an admission of pods that run with domains, where a flavor has a topology."""
        if not self._state.has_topologies:
            return admit
        pods, _ = self.lost_hosts.told(admit.workload)
        pod_sets = self._state.with_domains(charged, admit.pod_sets, pods)
        return admit if pod_sets is None else replace(admit, pod_sets=pod_sets)

    def _running(
        self, key: ChargeKey, view: Workload, queue: str, node_labels: dict[str, str]
    ) -> model.Workload | None:
        """Return a Workload as a ClusterQueue is charged for its pods, which run."""
        try:
            around = self._charges.around(key.namespace)
            workload = workload_objects.scheduling_value(view, around)
        except ValueError as error:
            self._log_unreadable("what running pods hold cannot be read", key, error)
            return None
        empty = model.Reservation(cluster_queue=ClusterQueueName(queue), pod_sets=())
        priced = self._prices.priced(replace(workload, key=key, reservation=empty))
        return self._state.charged(priced, queue, node_labels, self._now_us())

    def share(self, key: WorkloadKey, pod_set: str) -> tuple[tuple[str, int], ...] | None:
        """Return the part of a reservation for one pod; see `running_pods.Ledger`."""
        workload = self._unpriced.get(key)
        if workload is None or not workload.counts or workload.reservation is None:
            return None
        for assignment in workload.reservation.pod_sets:
            if assignment.name == pod_set and assignment.count:
                used = sorted(assignment.usage.items())
                return tuple((name, amount // assignment.count) for name, amount in used)
        return None

    def held_by_pod(self, key: ChargeKey, pod_set: str) -> dict[FlavorResource, int]:
        """Return what is charged for one pod; see `running_pods.Ledger`."""
        workload = self._unpriced.get(key)
        if workload is None or not workload.counts or workload.reservation is None:
            return {}
        return {
            FlavorResource(flavor, resource): assignment.usage.get(resource, 0) // assignment.count
            for assignment in workload.reservation.pod_sets
            if assignment.count and pod_set in {"", assignment.name}
            for resource, flavor in assignment.flavors.items()
            if assignment.usage.get(resource, 0)
        }

    def charge_beyond(
        self,
        key: PodCharge,
        view: Workload,
        queue: str,
        node_labels: dict[str, str],
        *,
        share: tuple[tuple[str, int], ...],
        template: PodTemplate,
        ends: bool,
    ) -> bool:
        """Charge for what a pod asks beyond its part of a reservation; see `running_pods`."""
        charged = self._running(key, view, queue, node_labels)
        if charged is None or charged.reservation is None:
            return False
        covered = {**workload_objects.requests_of(template), **dict(share)}
        (assignment,) = charged.reservation.pod_sets
        shared = [each for pod_set in charged.pod_sets for each in pod_set.together]
        beyond = {
            name: amount_beyond
            for name, amount in assignment.usage.items()
            if "/" not in name and name != podsets.PODS
            for claimed in (
                sum(each.in_flavor(assignment.flavors[name], name) for each in shared),
            )
            if (amount_beyond := amount - claimed - covered.get(name, 0)) > 0
        }
        if not beyond:
            return False
        flavors = {name: assignment.flavors[name] for name in beyond}
        reservation = replace(
            charged.reservation, pod_sets=(replace(assignment, flavors=flavors, usage=beyond),)
        )
        self._put_running(replace(charged, reservation=reservation), ends=ends)
        return True

    def devices(self, view: Workload) -> dict[str, dict[str, int]]:
        """Return how many devices each pod of a Workload asks for; see `running_pods.Ledger`."""
        return workload_objects.devices(view, self._charges.around(view.metadata.namespace))

    def hosts(self, key: WorkloadKey) -> dict[str, tuple[str, ...]]:
        """Return the hostnames of the places of a Workload; see `running_pods.Ledger`."""
        return self._state.places.hosts(key)

    def charged_pods(self, key: WorkloadKey, pod_set: str) -> int:
        """Return the number of charged pods of a pod set; of all if ``pod_set`` is empty."""
        workload = self._unpriced.get(key)
        if workload is None or not workload.counts or workload.reservation is None:
            return 0
        left = {pod_set.name: pod_set.effective_count for pod_set in workload.pod_sets}
        return sum(
            min(left.get(assignment.name, assignment.count), assignment.count)
            for assignment in workload.reservation.pod_sets
            if not pod_set or assignment.name == pod_set
        )

    def _take(self, view: Workload, previous: model.Workload | None) -> None:
        """Takes a Workload; one that breaks a rule keeps its quota, and is told the rule."""
        key = view.key()
        around = self._charges.around(key.namespace)
        try:
            workload = workload_objects.scheduling_value(view, around, previous)
        except ValueError as error:
            self._log_unreadable("workload cannot be read", key, error)
            self.hold(view, stays=False)
            if view.is_pending():
                self._explainer.tell(_misconfigured(key, str(error)), self._clock.monotonic())
            return
        charged = self._moved_to_quota(self._charged(workload, view))
        self._put(key, self._as_charged_again(charged))

    def _moved_to_quota(self, workload: model.Workload) -> model.Workload:
        reservation = workload.reservation
        if reservation is None or not reservation.surges:
            self._moved.discard(workload.key)
            self._surge_ends.discard(workload.key)
            return workload
        if workload.key not in self._moved:
            return workload
        return replace(workload, reservation=replace(reservation, surges=False))

    def _as_charged_again(self, workload: model.Workload) -> model.Workload:
        """Return the workload as it is charged since more of its pods run, until it says so."""
        counts = self._charged_again.get(workload.key)
        if counts is None:
            return workload
        charged = _reclaiming(workload, counts)
        if charged == workload or workload.reservation is None or workload.finished:
            del self._charged_again[workload.key]
            return workload
        return charged

    def _charged(self, workload: model.Workload, view: Workload) -> model.Workload:
        """Return the workload as it is charged: a deactivated one too, while its owner may run.

        Its owner is stopped, and the reservation is cleared then. Nobody clears that of a Workload
        without an owner (ADR 0116).
        """
        holds = workload.reservation is not None and not workload.finished
        if workload.active or not holds or not self._kinds.owns(view):
            return workload
        return replace(workload, active=True)

    def _log_unreadable(self, subject: str, key: ChargeKey, error: ValueError) -> None:
        self._log.error(subject, namespace=key.namespace, name=key.title(), error=str(error))

    def _put(self, key: ChargeKey, workload: model.Workload) -> None:
        before = self._unpriced.get(key)
        self._unpriced.put(key, workload)
        self._state.set_workload(self._prices.priced(workload), self._now_us())
        if not workload.wants_quota and isinstance(key, WorkloadKey):
            self._explainer.forget(key)
        if workload.finished or not workload.active:
            self._admits.pop(key, None)
            self._evicts.pop(key, None)
        self.on_change(key, before, workload)
        self.changed()

    def reprice(self) -> None:
        """Count Workloads again whose queue counts GPUs differently now."""
        queues, locals_ = self._prices.take_stale()
        if not queues and not locals_:
            return
        stale = dict.fromkeys(key for queue in queues for key in self._reserving_in.keys(queue))
        stale.update(
            dict.fromkeys(
                key for local_queue in locals_ for key in self._of_local.keys(local_queue)
            )
        )
        for key in stale:
            self._state.set_workload(self._prices.priced(self._unpriced[key]), self._now_us())
        self.changed()

    def on_delete(self, key: ChargeKey, *, is_starting: bool = False) -> None:
        """Handle the deletion of a Workload.

        Args:
            key: the Workload.
            is_starting: whether a request that lets its pods run is open. What the Workload holds
                is kept until `end_start`: nobody knows whether they run.
        """
        workload = self._state.workload(key) if is_starting and self.holds(key) else None
        if workload is not None and isinstance(key, WorkloadKey):
            self._starting.add(key)
            stands_for = key if workload.replaces is None else None
            self.keep(_kept_for_start(key), replace(workload, stands_for=stands_for))
        before = self._unpriced.pop(key)
        if isinstance(key, WorkloadKey):
            self._forget_decisions(key)
        self._state.drop_workload(key, self._now_us())
        self.on_change(key, before, None)
        self.changed()

    def _forget_decisions(self, key: WorkloadKey) -> None:
        self._admits.pop(key, None)
        self._evicts.pop(key, None)
        self._preemptions.pop(key, None)
        self._charged_again.pop(key, None)
        self._running_charges.pop(key, None)
        for keys in (self._take_backs, self._moved, self._surge_ends, self._without_room):
            keys.discard(key)
        self._explainer.forget(key)
        self.lost_hosts.forget(key)

    def end_start(self, key: WorkloadKey) -> None:
        """Give back what is kept for pods that run or not, which is known now."""
        if key in self._starting:
            self._starting.discard(key)
            self.on_delete(_kept_for_start(key))

    def holds(self, key: ChargeKey) -> bool:
        """Return whether a Workload holds quota, or was given some that is not written yet."""
        return self._state.holds(key)

    def waits(self, key: WorkloadKey) -> bool:
        """Return whether a Workload is in a queue."""
        return self._state.is_pending(key)

    def keep(self, key: KeptCharge, workload: model.Workload) -> None:
        """Charge for what a Workload held that has ended; see `rollouts.ChargedWorkloads`."""
        kept = replace(
            workload,
            key=key,
            active=True,
            finished=False,
            pods_ready=True,
            stays=True,
        )
        self._put(key, kept)

    def take_over(self, key: WorkloadKey, predecessor: KeptCharge) -> bool:
        """Decide that a Workload gets what is charged under another key, if it suits."""
        admit = self._state.take_over(key, predecessor, self._now_us())
        if admit is None:
            return False
        self._admits[key] = admit
        self._explainer.forget(key)
        self.on_delete(predecessor)
        return True

    def has_surge_quota(self, key: WorkloadKey) -> bool:
        """Return whether the ClusterQueue in which a Workload waits has surge quota."""
        return self._state.has_surge_quota(key)

    def uses_surge_quota(self, key: WorkloadKey) -> bool:
        """Return whether a Workload holds surge quota."""
        return self._state.uses_surge_quota(key)

    def surge(self, key: WorkloadKey, predecessor: WorkloadKey) -> bool:
        """Decide that a Workload gets as much surge quota as another one holds, if it suits."""
        admit = self._state.take_over(key, predecessor, self._now_us(), surges=True)
        if admit is None:
            return False
        self._admits[key] = admit
        self._explainer.forget(key)
        return True

    def move_to_quota(self, key: WorkloadKey) -> bool:
        """Charge the quota for a Workload that holds surge quota, if there is room."""
        unpriced = self._unpriced.get(key)
        if unpriced is None or unpriced.reservation is None or not self._state.fits_quota(key):
            return False
        self._moved.add(key)
        self._put(key, replace(unpriced, reservation=replace(unpriced.reservation, surges=False)))
        return True

    def charge_again(self, key: WorkloadKey, reclaimable: Mapping[str, int]) -> None:
        """Charge a Workload for pods that run again; see `running_pods.Ledger`."""
        unpriced = self._unpriced.get(key)
        charged = None
        if unpriced is not None and unpriced.reservation is not None:
            charged = _reclaiming(unpriced, reclaimable)
        if charged is None or not self._state.fits_beside(self._prices.priced(charged)):
            self._without_room.add(key)
            return
        self._charged_again[key] = reclaimable
        self._put(key, charged)

    def end_surge(self, key: WorkloadKey) -> None:
        """Decide that a Workload gives its surge quota back."""
        self._surge_ends.add(key)

    def is_foreign_reservation(self, view: Workload) -> bool:
        """Return whether another program has just reserved quota for the Workload."""
        workload = self._state.workload(view.key())
        fresh = workload is None or workload.reservation is None
        if view.metadata.annotation(names.MADE_FOR_RUNNING):
            return False  # its pods run: nothing is taken back
        return fresh and view.status.is_true(conditions.QUOTA_RESERVED)

    def asks_for_more(self, key: WorkloadKey) -> bool:
        """Return whether a Workload asks for more now than its reservation was made for."""
        workload = self._state.workload(key)
        return workload is not None and podsets.exceeds(workload)

    def cannot_be_counted(self, key: WorkloadKey) -> bool:
        """Return whether the current requests of a Workload are unknown."""
        workload = self._state.workload(key)
        return workload is not None and bool(workload.invalid)

    def over_quota(self, may_take: Callable[[WorkloadKey], bool]) -> tuple[WorkloadKey, ...]:
        """Return the Workloads whose reservations must go for the others to fit the quota.

        Args:
            may_take: whether a Workload has not started.
        """
        self._state.forest.refresh()
        return quota.to_take_back(self._state.forest, may_take)

    def take_back(self, may_take: Callable[[WorkloadKey], bool]) -> tuple[WorkloadKey, ...]:
        """Withdraw the reservations that `over_quota` finds, and return them."""
        over = self.over_quota(may_take)
        self._take_backs.update(over)
        return over

    def run(self) -> tuple[WorkloadKey, ...]:
        """Run one cycle if it is time; return the Workloads it decided something about."""
        now = self._clock.monotonic()
        if now < self._flow.cycle_at(self.open_decisions):
            return ()
        if not self._state.has_work(self._now_us()):
            return ()
        result = self._state.run_cycle(self._now_us())
        self._count(result, self._clock.monotonic() - now)
        for key, error in result.failed:
            self._log.error(
                "workload skipped", namespace=key.namespace, name=key.name, exc_info=error
            )
        for admit in result.admitted:
            self._admits[admit.workload] = admit
            self._explainer.forget(admit.workload)
        for evict in result.evicted:
            self._evicts[evict.workload] = self._preemptions[evict.workload] = evict
        for wait in (*result.waiting, *result.bypassed):
            self._explainer.tell(wait, now)
        self._flow.end_cycle(now, decided=bool(result.admitted or result.evicted))
        admitted = tuple(admit.workload for admit in result.admitted)
        return admitted + tuple(evict.workload for evict in result.evicted)

    @property
    def open_decisions(self) -> int:
        """How many decisions are not written yet."""
        return len(self._admits) + len(self._evicts)

    def next_due_in(self) -> float | None:
        """Return seconds until the next cycle may have work; None if only a change brings any."""
        now_us = self._now_us()
        if self._state.has_work(now_us):
            return max(0.0, self._flow.cycle_at(self.open_decisions) - self._clock.monotonic())
        wakeup = self._state.next_wakeup_us()
        return None if wakeup is None else max(0.0, (wakeup - now_us) / 1e6)

    def undecided(self) -> set[ChargeKey]:
        """Return the Workloads of which a decision is not written yet."""
        return {
            *self._admits, *self._evicts, *self._take_backs, *self._moved, *self._surge_ends,
            *self._charged_again,
        }  # fmt: skip

    def preemption_of(self, key: WorkloadKey) -> decisions.Evict | None:
        """Return the last decision to evict a Workload for another one."""
        return self._preemptions.get(key)

    def on_turn(self, key: WorkloadKey) -> None:
        """Forget what was decided for a plan of an earlier turn, and look at its hosts again."""
        self._running_charges.pop(key, None)
        self._without_room.discard(key)
        self.lost_hosts.on_turn()

    def request_for(self, workload: Workload) -> ApiRequest | None:
        """Return the write of an open decision about a Workload."""
        key, now = workload.key(), self._clock.now()
        if key in self._take_backs and not workload.is_pending():
            status = evictions.withdraw(workload, kueue.text(ReservedTwice()), now)
            return api_requests.set_workload_status(
                workload, WritePurpose.CLEAR_RESERVATION, status
            )
        evict = self._open_eviction(key, workload)
        if evict is not None:
            status = evictions.preempt(workload, evict, now)
            return api_requests.set_workload_status(workload, WritePurpose.EVICT, status)
        counts = self._charged_again.get(key)
        if counts is not None:
            status = statuses.reclaim(counts)
            return api_requests.set_workload_status(workload, WritePurpose.RECLAIM_PODS, status)
        if key in self._without_room:
            text = added_conditions.PODS_RUN_AGAIN
            status, announced = evictions.evict(workload, text, now), (events.evicted(*text),)
            return api_requests.set_workload_status(
                workload, WritePurpose.EVICT, status, announced
            )
        if key in self._moved:
            status = statuses.move_to_quota(workload, now)
            return api_requests.set_workload_status(workload, WritePurpose.KEEP_UP, status)
        if key in self._surge_ends and not workload.status.is_true(conditions.EVICTED):
            text = added_conditions.SURGE_ENDED
            status, announced = evictions.evict(workload, text, now), (events.evicted(*text),)
            return api_requests.set_workload_status(
                workload, WritePurpose.EVICT, status, announced
            )
        admit = None if key in self._running_charges else self._admits.get(key)
        if admit is not None:
            status = statuses.reserve(workload, admit, now)
            return api_requests.set_workload_status(workload, WritePurpose.RESERVE_QUOTA, status)
        return self.lost_hosts.next_request(workload)

    def pod_left(self, key: WorkloadKey) -> Iterable[WorkloadKey]:
        """Return the Workloads to look at when a pod of one has left its node."""
        return self.lost_hosts.of_pod(key)

    def _take_again(self, key: WorkloadKey) -> None:
        """Count a Workload as it was taken last, not as it was decided about."""
        workload = self._unpriced.get(key)
        if workload is not None:
            self._state.set_workload(self._prices.priced(workload), self._now_us())
            self.changed()

    def _open_eviction(self, key: WorkloadKey, workload: Workload) -> decisions.Evict | None:
        """The eviction that is still to be written; one that is told, or has no quota, needs none.

        Ours is told already where only the answer got lost.
        """
        is_over = workload.status.is_true(conditions.EVICTED) or workload.is_pending()
        if is_over:
            self._evicts.pop(key, None)
        return self._evicts.get(key)

    def complete(self, key: WorkloadKey, outcome: RequestResult) -> None:
        """Take the result of writing a decision; call before the answer is seen.

        A conflict alone keeps the decision where the Workload still waits: what changed was
        beside the point, and the write is made again for the new version.
        """
        operation, result = outcome.request.operation, outcome.result
        self.lost_hosts.complete(key, outcome)
        if result is Result.DROPPED:
            return
        if operation is WritePurpose.CLEAR_RESERVATION and result is not Result.CONFLICT:
            self._take_backs.discard(key)
        if operation is WritePurpose.EVICT:
            self._complete_eviction(key, outcome)
        is_admission = operation in {WritePurpose.RESERVE_QUOTA, WritePurpose.CHARGE_RUNNING}
        if not is_admission or key not in self._admits:
            return
        if result is Result.CONFLICT and outcome.object.is_pending():
            return
        del self._admits[key]
        if result is not Result.DONE:
            self._state.forget(key, self._now_us())
            self.changed()

    def _complete_eviction(self, key: WorkloadKey, outcome: RequestResult) -> None:
        evict = self._evicts.get(key)
        if evict is None:
            return
        is_conflict = outcome.result is Result.CONFLICT
        was_written = is_conflict and evictions.tells(outcome.object, evict)
        if was_written or outcome.result is Result.DONE:
            self._accounting.preempted(evict.preemptor_cluster_queue, evict.preemption_reason)
            preemptor = self._state.workload(evict.preemptor)
            announced = evictions.told(outcome.object, evict, preemptor)
            for regarding, event in announced:
                self._events.event(regarding, event)
        if was_written or not is_conflict:
            del self._evicts[key]

    def _count(self, result: decisions.CycleResult, seconds: float) -> None:
        self._accounting.cycle(result)
        if not (result.admitted or result.waiting):
            return  # it was about displaced Workloads alone: nobody asked to be admitted
        label = "success" if result.admitted else "inadmissible"
        metrics.ADMISSION_ATTEMPTS.labels(label, self._accounting.role).inc()
        metrics.ADMISSION_ATTEMPT_DURATION_SECONDS.labels(label, self._accounting.role).observe(
            seconds
        )

    def _now_us(self) -> int:
        return int(self._clock.now().timestamp() * 1_000_000)


def _reserves_in(_: ChargeKey, workload: model.Workload) -> tuple[str, ...]:
    reservation = workload.reservation
    return () if reservation is None else (reservation.cluster_queue,)


def _reclaiming(workload: model.Workload, counts: Mapping[str, int]) -> model.Workload:
    """Return a workload of which no more pods of each pod set than so many need no quota."""
    pod_sets = tuple(
        pod_set
        if pod_set.reclaimable <= counts.get(pod_set.name, 0)
        else replace(pod_set, reclaimable=counts.get(pod_set.name, 0))
        for pod_set in workload.pod_sets
    )
    return replace(workload, pod_sets=pod_sets)


def _asked(workload: model.Workload) -> tuple[object, ...]:
    """Return the requests for which an admission was decided."""
    return workload.pod_sets, workload.queue, workload.invalid


def _misconfigured(key: WorkloadKey, message: str) -> decisions.Wait:
    return decisions.Wait(
        workload=key,
        cluster_queue=ClusterQueueName(""),
        why=Misconfigured(message),
    )


def _kept_for_start(key: WorkloadKey) -> KeptCharge:
    """Return the key under which the quota of a Workload is kept for its start."""
    return KeptCharge(key.namespace, key.name, "start")
