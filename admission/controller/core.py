"""The controller's one thread of decisions: messages in, writes out.

Watch events and write outcomes arrive on one queue. Each turn of the loop takes what has arrived,
runs at most one scheduling cycle, and sends for every Workload at most one write, the next one
that its present state asks for. A test can turn the loop by hand: `receive`, then `step`.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any, Final

from admission.base import conditions, events, logs, metrics, names, quantity
from admission.base.clock import Clock
from admission.base.events import Events
from admission.base.names import ClusterQueueName, LocalQueueKey, WorkloadKey
from admission.base.namespaces import MANAGED, ManagedNamespaces
from admission.config.derived import Settings
from admission.controller import awaited, watched
from admission.controller.condition_schedule import ConditionSchedule
from admission.controller.devices.capacity import CapacityByFlavor
from admission.controller.devices.capacity_guard import CapacityGuard
from admission.controller.devices.claims import Claims
from admission.controller.devices.fitting import Fitting
from admission.controller.devices.node_inventory import NodeInventory
from admission.controller.devices.node_places import NodePlaces
from admission.controller.devices.resource_adjustments import ResourceAdjustments
from admission.controller.effects import EffectRecorder
from admission.controller.journal import Counting
from admission.controller.pending_conditions import PendingConditionWriter
from admission.controller.plan_executor import PlanExecutor
from admission.controller.plans import ReconcilePlan
from admission.controller.quarantine import Quarantine, Unreadable
from admission.controller.queries import Counted, Query
from admission.controller.queues import affected_workloads
from admission.controller.queues.configuration import WatchedConfiguration
from admission.controller.queues.gpu_transformations import GpuTransformations
from admission.controller.queues.queue_status_writer import QueueStatuses
from admission.controller.queues.workload_metrics import KueueMetrics
from admission.controller.reconciler import Cache, Reconciler
from admission.controller.scheduler import Scheduler
from admission.controller.seeing import informers
from admission.controller.seeing.informers import Change, Informer
from admission.controller.waiting_events import WaitingEventRecorder
from admission.controller.watched_owners import claim_holders
from admission.controller.watched_owners.brake import Brake
from admission.controller.watched_owners.claim_holders import ClaimHolders
from admission.controller.watched_owners.held import HeldOwners
from admission.controller.watched_owners.index import Subject
from admission.controller.watched_owners.jobs import Jobs
from admission.controller.watched_owners.notices import Notices
from admission.controller.watched_owners.owner_writes import OwnerContext, Owners
from admission.controller.watched_owners.pod_endings import PodEndings
from admission.controller.watched_owners.pod_groups import PodGroups
from admission.controller.watched_owners.pods import Pods
from admission.controller.watched_owners.rollouts import Rollouts
from admission.controller.watched_owners.running_pods import RunningPods
from admission.controller.watched_owners.spark_applications import SparkApplications
from admission.controller.workloads.authorship import ForeignReservations
from admission.controller.workloads.following import PrioritySync
from admission.controller.workloads.refusals import Refusals
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing import api_requests, flow_control
from admission.controller.writing.api_requests import RequestResult, Result, Verb, WritePurpose
from admission.controller.writing.flow_control import FlowControl
from admission.controller.writing.work_queue import WorkQueue
from admission.controller.writing.writer import Writer
from admission.gpu import catalogue
from admission.gpu import resources as gpu_resources
from admission.gpu.catalogue import Catalogue
from admission.gpu.health import HealthPolicy
from admission.gpu.inventory import GpuNode, NodeStock
from admission.kube import errors, resources
from admission.kube.reflector import Arrived, Replaced, Upserted
from admission.kube.resources import Resource
from admission.objects import condition_list, views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.workload import Workload
from admission.owners import batch_job, integrations, spark_application
from admission.owners import pod as pod_owner
from admission.owners.framework import Kind
from admission.reasons import added_conditions
from admission.scheduling.decisions import Wait
from admission.scheduling.overview import LocalOverview, Overview
from admission.scheduling.pending import PendingSnapshot
from admission.scheduling.reserving import ReservingWorkload
from admission.scheduling.state import SchedulerState
from admission.scheduling.transformation import NO_RULES, TransformationRules

_FROM_CLASS: Final = frozenset({WritePurpose.CREATE_WORKLOAD, WritePurpose.FOLLOW_OWNER})
"""Writes that name a WorkloadPriorityClass with its value."""
_STARTS: Final = frozenset({WritePurpose.START_OWNER, WritePurpose.RELEASE_POD})
"""Writes after which pods may run."""
_OF_QUEUES: Final = frozenset(
    {resources.CLUSTER_QUEUES, resources.LOCAL_QUEUES, resources.RESOURCE_FLAVORS}
)
"""What decides where pods are charged that run."""
_JUDGED_WHEN_SEEN: Final = frozenset({resources.WORKLOADS, resources.BOUND_PODS, resources.NODES})
"""Kinds whose handlers say themselves whether a new version calls for a turn."""
_IS_SYNCED: Final = attrgetter("synced")
_CONCERNED_A_TURN: Final = 500
"""Workloads that are looked at in one turn for a change of something that they depend on."""
_DECISIONS_A_TURN: Final = 3
"""Times that a plan is derived again after what was decided for it."""
_LOOKED_AT_A_TURN: Final = 500
"""Workloads whose next request is derived in one turn; a leader that begins looks at all."""


@dataclass(frozen=True, slots=True)
class WatchMessage:
    """A message: a watch saw a change."""

    resource: Resource
    change: Change[Any]


@dataclass(frozen=True, slots=True)
class Unserved:
    """A kind is not served any more; what is known of it is old until it is listed again."""

    resource: Resource


class LeaderStarted:
    """This process leads from now on; what is listed after this message is up to date."""


Message = WatchMessage | Unserved | Unreadable | RequestResult | LeaderStarted | Query[Any]


class Core:
    """The state and the pending work of the controller; owned by one thread.

    Attributes:
        is_reverted: the API server is in an earlier state than what is known; nothing is decided
            any more, and another core must begin from new lists.
        counting: counts for how long quota is held.
    """

    def __init__(
        self,
        *,
        state: SchedulerState,
        writer: Writer,
        events: Events,
        clock: Clock,
        settings: Settings,
        accounting: KueueMetrics,
        rules: TransformationRules = NO_RULES,
        products: Catalogue | None = None,
        health: HealthPolicy | None = None,
        namespaces: ManagedNamespaces = MANAGED,
        system_namespace: str = names.SYSTEM_NAMESPACE,
    ) -> None:
        self._state = state
        self._events = events
        self._clock = clock
        self._settings, config = settings, settings.gpu.controller
        self._kinds = integrations.kinds_of(settings)
        self._selected = watched.selectors(self._kinds).keys()
        self._log = logs.get("core")
        self._flow = FlowControl(writer, clock, maximum=config.writers)
        self._explainer = ConditionSchedule(
            after_seconds=config.waiting_after.total_seconds(),
            refresh_seconds=config.waiting_refresh.total_seconds(),
        )
        self._workloads = WorkloadIndex()
        self.counting = Counting(state, self._workloads, clock, settings.gpu.journal)
        products = products or catalogue.load()
        capacities = CapacityByFlavor(products, health or HealthPolicy())
        guard = CapacityGuard(state, capacities)
        self._node_places = NodePlaces(state.places, self._nodes_changed)
        self._inventory = NodeInventory(capacities, guard, clock, self._node_places)
        self._inventory.on_news = self._call_for_turn
        self._fitting = Fitting(self._inventory, state.places)
        self._configuration = WatchedConfiguration(
            state, guard, self._configuration_changed, settings.kueue, namespaces,
            settings.gpu.toleration_key,
        )  # fmt: skip
        self._prices = GpuTransformations(self._configuration, products)
        managed = gpu_resources.managed(settings.gpu.managed_resources)
        self._claims = Claims(rules.device_classes, managed, self._inventory)
        self._charges = ResourceAdjustments(rules, self._claims)
        self._scheduling = Scheduler(
            state, clock, self._explainer, accounting, self._prices, self._charges,
            flow=self._flow, events=events, kinds=self._kinds,
        )  # fmt: skip
        self._quarantine = Quarantine(self._scheduling, self._workloads, events)
        self._statuses = QueueStatuses(
            state, self._configuration, self._flow, clock, config.status_interval.total_seconds(),
            accounting,
            (self._inventory.condition, self._prices.condition, self._releasing, self._surging),
            self._fitting.largest_nodes,
        )  # fmt: skip
        self._leading = self._taking_over = self.is_reverted = False
        self._has_changed, self._due_at, self._messages = True, -math.inf, 0
        self._conditions_first = False
        self._unserved: set[Resource] = set()
        """Kinds that were listed, and are not served any more, or were not a while ago."""
        self._concerned: dict[WorkloadKey, None] = {}
        """Workloads to be looked at for what was changed around them, oldest change first."""
        self._foreign = ForeignReservations()
        self._accounting = accounting
        self._queue, self._refusals = WorkQueue(clock), Refusals()
        self._plans = PlanExecutor(self._queue, self._flow, events, clock)
        self._following = PrioritySync(self._plans.draft)
        self._brake = Brake(
            clock, self._plans.draft, settings.gpu.max_stops_per_minute, system_namespace
        )
        self._make_owners()
        waiting_events = WaitingEventRecorder(
            self._explainer, self._subject, self._pods, self._rollouts, events, clock
        )
        self._pending_conditions = PendingConditionWriter(
            state, self._workloads, self._pods, self._explainer, self._flow, clock,
            waiting_events, self._subject,
        )  # fmt: skip
        self._effects = EffectRecorder(self._subject, self._workloads, accounting, events, clock)
        self._reconciler = Reconciler(
            Cache(
                workloads=self._workloads,
                subject=self._subject,
                configuration=self._configuration,
                scheduler=self._scheduling,
                claims=self._claims,
                foreign=self._foreign,
                following=self._following,
                children=self._jobs.children,
                groups=self._groups,
                running=self._running,
                holders=self._holders,
                members=self._running.members,
                fitting=self._fitting,
                refusals=self._refusals,
            ),
            clock,
            self._plans.draft,
            not_ready_after=settings.gpu.not_ready_after,
        )
        self._mirrors = self._make_mirrors()
        self._needed = {
            resource: self._mirrors[resource] for resource in watched.awaited(self._kinds)
        }
        """The kinds that must be listed, or known not to be served, before any decision."""

    def _releasing(self, queue: ClusterQueue, now: datetime) -> views.Condition | None:
        """Return the condition about pods that hold quota that should be free."""
        return self._running.condition(queue, now)

    def _surging(self, queue: ClusterQueue, now: datetime) -> views.Condition | None:
        """Return the condition about surge quota of a ClusterQueue that is in use."""
        surge = self._state.surge_amounts(ClusterQueueName(queue.metadata.name))
        if not surge:
            return None
        amounts = [
            (fr.resource, fr.flavor, *(quantity.in_words(fr.resource, value) for value in values))
            for fr, values in surge.items()
        ]
        return condition_list.make(
            conditions.SURGE_QUOTA_IN_USE,
            added_conditions.surge_quota_in_use(amounts),
            status=True,
            now=now,
            generation=queue.metadata.generation,
        )

    def _make_owners(self) -> None:
        """Prepare the owners of each kind that is served."""
        look_at = self._queue.add_all
        self._running = RunningPods(
            self._scheduling, self._configuration, self._inventory, self._clock, self._queue,
            self._settings.gpu, look_at, self._workloads, self._plans.draft,
        )  # fmt: skip
        self._scheduling.lost_hosts.goes_on = self._running.goes_on
        self._scheduling.lost_hosts.told = self._running.told
        self._notices = Notices(
            self._workloads, self._configuration, self._running, self._plans.draft, self._clock,
            self._fitting, self._state.preemptors_of,
        )  # fmt: skip
        context = OwnerContext(
            workloads=self._workloads,
            configuration=self._configuration,
            events=self._events,
            clock=self._clock,
            look_at=look_at,
            running=self._running,
            draft=self._plans.draft,
            notices=self._notices,
            brake=self._brake,
        )
        self._jobs = Jobs(context)
        special: dict[Kind, HeldOwners[Any, Any]] = {batch_job.KIND: self._jobs}
        special_owners: dict[type[Any], type[HeldOwners[Any, Any]]] = {
            spark_application.SparkDocument: SparkApplications,
        }
        special |= {
            integration.kind: special_owners[integration.document](integration, context)
            for integration in self._kinds.integrations
            if integration.document in special_owners
        }
        owners_by_kind = {
            integration.kind: special.get(integration.kind) or HeldOwners(integration, context)
            for integration in self._kinds.integrations
            if integration.kind != pod_owner.KIND
        }
        self._endings = PodEndings(self._inventory, self._clock, self._settings.gpu)
        self._groups = groups = PodGroups(
            context, endings=self._endings, claims=self._claims,
            serving=self._kinds.serving, keeps=self._settings.gpu.keep_for_replacement,
            awaits_gates=self._settings.gpu.waits_for_other_gates,
        )  # fmt: skip
        self._claims.workload_of = groups.workload_of
        self._rollouts = Rollouts(
            self._scheduling, self._clock, self._kinds.serving,
            keeps=self._settings.gpu.keep_for_replacement,
        )  # fmt: skip
        self._pods = Pods(
            context, tuple(owners_by_kind.values()), self._inventory, self._claims,
            self._endings, groups, self._rollouts, self._refusals,
            awaits_gates=self._settings.gpu.waits_for_other_gates,
        )  # fmt: skip
        self.counting.deployment_of = self._pods.deployment_of
        self._owners: tuple[Owners[Any, Any], ...] = (
            *(
                owners_by_kind.get(integration.kind, self._pods)
                for integration in self._kinds.integrations
            ),
            groups,
        )
        self._of_kind = {
            (owner.integration.kind.api_version, owner.integration.kind.name): owner
            for owner in reversed(self._owners)
            if owner is not groups
        }
        self._holders = ClaimHolders(
            self._configuration,
            self._running,
            self._brake,
            self._clock,
            self._plans.draft,
            look_at,
        )
        self._claims.allocations += (self._holders,)

    def _make_mirrors(self) -> dict[Resource, Informer[Any]]:
        """Return the informers by resource."""
        informers_made: dict[Resource, Informer[Any]] = {
            **self._configuration.informers,
            **self._inventory.informers,
            **self._node_places.informers,
            **self._charges.informers,
            **self._claims.informers,
            **self._running.informers,
            **self._rollouts.informers,
            resources.WORKLOADS: Informer(
                "Workload", self._on_workload_update, self._on_workload_delete
            ),
        }
        for owners in self._owners:
            informers_made |= owners.informers
        for resource, informer in informers_made.items():
            informer.on_left_out = partial(self._tell_left_out, resource)
            informer.on_reverted = self._revert
        return informers_made

    def _call_for_turn(self) -> None:
        """Have a turn look at what was seen."""
        self._has_changed = True

    def _nodes_changed(self) -> None:
        """Have a turn look at what is free on nodes."""
        self._has_changed = True
        self._scheduling.changed()

    def _revert(self) -> None:
        self.is_reverted = True

    @property
    def synced(self) -> bool:
        """Return whether every kind was listed that decisions need; nothing is decided before."""
        return not self.is_reverted and all(map(_IS_SYNCED, self._needed.values()))

    def _knows_surroundings(self) -> bool:
        """Return whether everything was listed that Workloads and pods are judged by."""
        return all(self._mirrors[resource].synced for resource in watched.SURROUNDINGS)

    def unready(self) -> str:
        """Return what of the lists that decisions need was not taken yet; from any thread."""
        waiting = []
        for resource, informer in self._needed.items():
            if not informer.synced:
                taken, listed = informer.taken, informer.listed
                waiting.append(
                    f"{resource.plural}{f' ({taken:,} of {listed:,})' if listed else ''}"
                )
        return f"not taken in yet: {', '.join(sorted(waiting))}" if waiting else ""

    @property
    def gathering_seconds(self) -> float:
        """Least time between the starts of two turns, so that messages gather; mostly 0."""
        return self._flow.gathering_seconds(self._scheduling.open_decisions)

    def _lead(self) -> None:
        """Decides from now on, once every kind was listed again.

        What was watched before is kept, but it may lack the last writes of an earlier leader;
        to optional kinds no leader writes.
        """
        for resource in (*watched.WATCHED, *watched.rows(self._kinds)):
            self._mirrors[resource].forget_sync()
        self._taking_over = True
        self._leading = True
        self._accounting.lead()
        self._brake.lead()

    def receive(self, message: Message) -> None:
        """Take one message; a version of a Workload that is alike for us calls for no turn."""
        is_of_node = isinstance(message, WatchMessage) and message.resource is resources.NODES
        self._messages += not (is_of_node or isinstance(message, Query))
        self._has_changed |= not (
            isinstance(message, WatchMessage)
            and message.resource in _JUDGED_WHEN_SEEN
            and isinstance(message.change, Upserted)
        )
        match message:
            case WatchMessage(change=Arrived()) if self.synced or not self._knows_surroundings():
                pass  # it comes again
            case WatchMessage(resource=resource, change=change):
                self._show(resource, change)
                self._mirrors[resource].apply(change)
                if resource is resources.WORKLOADS:
                    for key in self._quarantine.listed(change):
                        self._running.recount(key)
                        self._queue.add(key)
                    if isinstance(change, Replaced):
                        self._running.workloads_listed()
            case Unserved(resource=resource):
                self._mirrors[resource].forget_sync()
                self._unserved.add(resource)
            case Unreadable(found=found):
                self._quarantine.on_update(found)
                self._running.recount(WorkloadKey(found.namespace, found.name))
            case RequestResult():
                self._finish(self._flow.complete(message))
            case Query():
                message.run(self)
            case LeaderStarted():
                self._lead()
        self.counting.update(lambda: self.synced)

    def _show(self, resource: Resource, change: Change[Any]) -> None:
        """Find out what a watch or a list tells of requests that are open.

        That an object is gone from a watch of a selected part does not tell that it is gone. A
        watch that reads objects in part tells nothing.
        """
        if resource in watched.IN_PART or not self._flow.awaits(resource):
            return
        if isinstance(change, Arrived):
            return  # pages are taken before everything was listed, when no request is open
        if isinstance(change, Replaced):
            for item in change.items:
                self._finish(self._flow.show(resource, item, is_gone=False))
        elif isinstance(change, Upserted):
            self._finish(self._flow.show(resource, change.object, is_gone=False))
        elif resource not in self._selected:
            self._finish(self._flow.show(resource, change.object, is_gone=True))

    def step(self) -> float | None:
        """Do what is to be done now.

        Returns:
            Seconds after which to call again even without a message; None: not before one.
        """
        if not self._leading:
            return None
        if not self.synced:
            return self._let_kinds_go()
        if not self._has_changed and self._clock.monotonic() < self._due_at:
            return self._due_in()
        self._has_changed = False
        self._recharge()
        self._weigh()
        for node in sorted(self._inventory.lost_nodes.take_changed()):
            self._running.node_changed(node)
            self._queue.add_all(self._endings.on_node(node))
        self._queue.add_all(self._scheduling.lost_hosts.take_shaken())
        self._scheduling.reprice()
        self._look_at_concerned()
        if self._taking_over or self._foreign.is_late:
            self._take_back()
        elif self._foreign:
            self._ask_writers()
        for rested in self._flow.due():
            self._look_at(rested)
        for answer in self._flow.take_told():
            self._finish(answer)
        self._queue.add_due()
        self._queue.add_all(self._brake.pop_due())
        self._queue.add_decided(self._rollouts.settle())
        self._queue.add_decided(self._scheduling.run())
        for _ in range(_LOOKED_AT_A_TURN):
            key = self._queue.pop(self._flow.may_decide) if self._flow.may_send() else None
            if key is None:
                break
            self._advance(key)
        self._flow.end_turn(self._scheduling.open_decisions)
        self.counting.update(lambda: True)
        self._statuses.collect()
        self._report()
        metrics.WRITES_IN_FLIGHT.set(self._flow.sending)
        metrics.WRITES_UNKNOWN.set(self._flow.unknown)
        due = self._next_due_in()
        self._due_at = math.inf if due is None else self._clock.monotonic() + due
        return due

    def _report(self) -> None:
        """Send what only people read: statuses and conditions by turns, so that neither waits.

        There is room for few at once, and either may be as many as there is room for.
        """
        if self._conditions_first:
            self._pending_conditions.send()
        if self._flow.may_report():
            self._statuses.send(self._flow.room_at)
        if not self._conditions_first:
            self._pending_conditions.send()
        self._conditions_first = not self._conditions_first

    def _due_in(self) -> float | None:
        """Return the seconds until a turn has something to do without a change, or None."""
        if self._due_at == math.inf:
            return None
        return max(0.0, self._due_at - self._clock.monotonic())

    def _let_kinds_go(self) -> float | None:
        """Take finalizers off what is deleted with its kind; nothing else while a kind is gone.

        A CRD that is being deleted waits for them.
        """
        lacking = [resource for resource, informer in self._needed.items() if not informer.synced]
        if self.is_reverted or not self._unserved.issuperset(lacking):
            return None
        for rested in self._flow.due():
            self._look_at(rested)
        for answer in self._flow.take_told():
            self._finish(answer)
        self._statuses.collect()
        now = self._clock.monotonic()
        self._statuses.send(now)
        due = self._statuses.next_due(now)
        moments = [self._flow.next_due_in(), None if due is None else max(0.0, due - now)]
        return min((moment for moment in moments if moment is not None), default=None)

    def _recharge(self) -> None:
        """Counts Workloads again whose charge has changed."""
        if self._claims.take_changed():
            self._queue.add_all(self._plans.waiting_for.take(awaited.CLAIMS))
        keys = self._claims.take_stale()
        keys_stale = dict.fromkeys((*keys, *self._charges.take_stale(self._workloads)))
        stale = [workload for workload in map(self._workloads.get, keys_stale) if workload]
        self._scheduling.translate_again(stale)
        for workload in stale:
            if workload.is_pending():
                self._pending_conditions.note(workload.key())
            elif workload.key() in keys:
                self._queue.add(workload.key())

    def _weigh(self) -> None:
        """Holds quota against the GPUs that exist."""
        for name in sorted(self._inventory.settle()):
            self._statuses.mark(api_requests.QueueKey(resources.CLUSTER_QUEUES.kind, "", name))
            self._scheduling.changed()
        for name, present in self._inventory.take_present().items():
            self._prices.hold_to(name, present)
        if self._inventory.take_resized():
            self._pending_conditions.set_resized()
        flavors: Iterable[str] = self._inventory.take_looked_at()
        if not self._fitting.are_nodes_known and self._are_nodes_looked_at():
            self._fitting.are_nodes_known, flavors = True, self._configuration.flavors
        for flavor in sorted(flavors):
            self._statuses.mark_flavor(flavor)
        told_otherwise = (self._inventory, self._prices, self._running)
        for name in sorted({name for source in told_otherwise for name in source.take_reworded()}):
            self._statuses.mark(api_requests.QueueKey(resources.CLUSTER_QUEUES.kind, "", name))

    def _are_nodes_looked_at(self) -> bool:
        """Return whether all is listed that says what nodes have, and was looked at since."""
        return self._mirrors[resources.RESOURCE_SLICES].synced and self._inventory.is_current

    # ------------------------------------------------------------------------------ answering

    def line(self, queue: ClusterQueueName | LocalQueueKey) -> PendingSnapshot | None:
        """Return the pending Workloads of a ClusterQueue or LocalQueue; None if it is unknown."""
        return self._state.line(queue)

    @property
    def revision(self) -> int:
        """Return a number that grows whenever something may differ from before.

        Nodes report their health again and again; they count only where their GPUs change.
        """
        return self._messages + self._inventory.version

    def overview(self) -> Overview:
        """Return quota and its use, of all queues and cohorts."""
        return self._state.overview()

    def holders(self, queue: ClusterQueueName) -> tuple[ReservingWorkload, ...]:
        """Return the Workloads that hold quota of a ClusterQueue, in no order."""
        return self._state.holders(queue)

    def waits(self, keys: Iterable[WorkloadKey]) -> tuple[Wait | None, ...]:
        """Return why Workloads wait; None for one that does not."""
        return tuple(map(self._pending_conditions.told, keys))

    def judged(self, key: WorkloadKey) -> Wait | None:
        """Return why a Workload waits, as it was decided last; None for one that does not."""
        return self._pending_conditions.judged(key)

    def queues_of(self, workload: Workload) -> tuple[views.Object | None, views.Object | None]:
        """Return the LocalQueue that a Workload names, and the ClusterQueue of its quota."""
        return affected_workloads.queues(workload, self._configuration)

    def stock(self) -> tuple[NodeStock, ...]:
        """Return what each node with GPUs has, by name."""
        return self._inventory.stock()

    def gpu_nodes(self, names_: Iterable[str]) -> tuple[GpuNode, ...]:
        """Return nodes with the holders of their GPUs; those that are not known are left out."""
        return self._inventory.named(names_)

    def local_queues(self) -> tuple[LocalOverview, ...]:
        """Return the LocalQueues and what their Workloads hold, by namespace and name."""
        return self._state.local_overview()

    def counted(self) -> Counted:
        """Return the charged quota, and the Workloads whose charge is about to change."""
        workloads, sums = self._state.charges()
        unsettled = {key for key in self._flow.open() if isinstance(key, WorkloadKey)}
        return Counted(
            workloads=workloads,
            sums=sums,
            unsettled=frozenset({*unsettled, *self._scheduling.undecided(), *self._quarantine}),
            on_nodes=self._state.places.ledger.held_by_pods(),
        )

    def workloads(self, keys: Iterable[WorkloadKey]) -> tuple[Workload | None, ...]:
        """Return Workloads as last seen, in the order of the keys; None for one that is gone."""
        return tuple(self._workloads.get(key) for key in keys)

    # ------------------------------------------------------------------------------- seeing

    def _on_workload_update(self, view: Workload) -> None:
        before, first = self._workloads.get(view.key()), self._workloads.first(view.key())
        key = self._workloads.on_update(view)
        if key is None:
            return
        self._quarantine.release(key)
        if self._workloads.first(key) != first:
            self._running.recount(first)
        if before is not None and view.is_alike(before):
            return
        self._has_changed = True
        self._accounting.observe(before, view)
        if self._leading:
            self._effects.changed(before, view, self._scheduling.preemption_of(key))
        self._queue.add(key)
        controller = view.metadata.controller()
        for owners in self._owners:
            if owners.may_name(key, controller):
                self._queue.add_all(owners.naming(view))
        if self._scheduling.is_foreign_reservation(view):
            self._foreign.add(key)
        self._pods.predecessors.on_update(view)
        self._claims.on_workload_update(view)
        self._scheduling.on_update(view)
        self._running.recount(key)
        if view.is_pending():
            self._refusals.forget(key)
            self._pending_conditions.note(key)

    def _tell_left_out(self, resource: Resource, view: views.Object, problem: str) -> None:
        """Writes an event on an object that is ignored because of a problem."""
        if self._leading:
            regarding = api_requests.reference(resource, view.metadata)
            self._events.event(regarding, events.left_out(problem))

    def _on_workload_delete(self, view: views.Object) -> None:
        key = WorkloadKey(*informers.key_of(view))
        before, first = self._workloads.get(key), self._workloads.first(key)
        if self._workloads.on_delete(key, view.metadata.uid):
            self._queue.cancel(key)
            self._following.forget(key)
            self._refusals.forget(key)
            self._foreign.forget(key)
            self._accounting.on_delete(key, before, self._clock.now())
            if before is not None:
                self._pods.predecessors.on_delete(before)
            self._scheduling.on_delete(key, is_starting=self._flow.purpose(key) in _STARTS)
            self._running.recount(first)
            self._claims.on_workload_delete(key)
            self._queue.add_all((key, first))
            for owners in self._owners:
                self._queue.add_all(owners.naming(view))

    def _controller_of(self, key: WorkloadKey) -> views.OwnerReference | None:
        """Return the controller of a Workload; None where there is none."""
        workload = self._workloads.get(key)
        return None if workload is None else workload.metadata.controller()

    def _subject(self, key: WorkloadKey) -> tuple[Owners[Any, Any], Subject] | None:
        """Return whose business a Workload key is and what there is; None for nobody's."""
        controller = self._controller_of(key)
        of_kind = (
            None
            if controller is None
            else self._of_kind.get((controller.api_version, controller.kind))
        )
        if of_kind is not None:  # an owner of another kind has no such key
            subject = of_kind.index.subject(key)
            if subject is not None:
                return of_kind, subject
        for owners in self._owners:
            if not owners.index.may_have(key, controller):
                continue  # so it is with all kinds but one
            subject = owners.index.subject(key)
            if subject is not None:
                return owners, subject
        return None

    def _look_at_waiting(self, resource: Resource, view: views.Object) -> None:
        """Look again at owners that lacked what a changed object may bring."""
        self._queue.add_all(self._plans.waiting_for.take_for(resource, view))

    def _look_at_concerned(self) -> None:
        """Look again at Workloads that a change concerns: at some in one turn."""
        now_us = int(self._clock.now().timestamp() * 1_000_000)
        self._concerned.update(dict.fromkeys(self._state.take_turned(now_us)))
        for key in tuple(islice(self._concerned, _CONCERNED_A_TURN)):
            del self._concerned[key]
            self._pending_conditions.note(key)
            self._queue.add(key)

    def _configuration_changed(self, resource: Resource, view: views.Object) -> None:
        """Have looked again at what the change of an object concerns, and at nothing else."""
        if resource is resources.NAMESPACES:
            self._brake.on_namespace_update(view)
        self._look_at_waiting(resource, view)
        if resource is resources.PRIORITY_CLASSES:
            self._charges.set_priority_classes(self._configuration.pod_priority_classes.values())
            return
        self._scheduling.changed()
        self._prices.changed(resource, view)
        if resource in _OF_QUEUES:
            self._running.configuration_changed(resource, view)
        if resource in (*_OF_QUEUES, resources.NAMESPACES):
            self._holders.configuration_changed(resource, view)
        if not self.synced:
            return
        concerned = affected_workloads.of(resource, view, self._configuration, self._workloads)
        self._concerned.update(dict.fromkeys(concerned))
        if resource is resources.WORKLOAD_PRIORITY_CLASSES:
            self._following.add(concerned)
        if resource is resources.NAMESPACES and self._configuration.managed.requirements:
            for owners in self._owners:
                self._queue.add_all(owners.of_namespace(view.metadata.name))

    def _take_back(self) -> None:
        """Takes back what two leaders gave away twice; a new leader looks at every Workload once.

        A request that the old leader had under way may land after the new one began; then it
        looks again.
        """
        for key in self._scheduling.take_back(self._is_not_started):
            self._log.warning("reservation taken back", namespace=key.namespace, name=key.name)
            self._queue.add(key)
        if self._taking_over:
            self._statuses.restore()
            self._following.add(self._workloads)
            self._queue.add_all(self._workloads)
        self._taking_over = False
        self._foreign.clear()

    def _ask_writers(self) -> None:
        """Find out whether a former leader wrote the reservations that exceed the quota.

        Those of other programs stand, as in Kueue (ADR 0003).
        """
        if self._scheduling.over_quota(self._is_not_started):
            self._queue.add_all(self._foreign.ask())
        self._foreign.clear()

    def _is_not_started(self, key: WorkloadKey) -> bool:
        if key in self._quarantine:
            return False  # nothing can be written about it
        subject_ = self._subject(key)
        owner = None if subject_ is None else subject_[1].owner
        return owner is not None and owner.is_held() and not owner.is_active()

    # ------------------------------------------------------------------------------ writing

    def _look_at(self, key: api_requests.RequestKey) -> None:
        if isinstance(key, WorkloadKey):
            self._queue.add(key)
        else:
            self._statuses.mark(key)

    def _finish(self, outcome: RequestResult | None) -> None:
        """Take what became of a request; None where that is open."""
        if outcome is None:
            return
        request, key = outcome.request, outcome.request.key
        if outcome.result is Result.REFUSED:
            self._log_refusal(outcome)
            self._take_refusal(request)
        if isinstance(key, api_requests.QueueKey):
            self._statuses.complete(key, outcome)
            return
        self._refusals.complete(key, outcome)
        self._notices.complete(key, outcome)
        self._scheduling.complete(key, outcome)
        controller = self._controller_of(key)
        for owners in self._owners:
            if owners.may_take(key, controller, request):
                owners.complete(key, outcome)
        if outcome.result is Result.DONE:
            self._effects.done(key, outcome)
            if request.operation is WritePurpose.RESERVE_QUOTA:
                self._workloads.note_granted(key)
        self._on_answer(key, outcome)
        self._scheduling.end_start(key)
        if request.operation in _FROM_CLASS and outcome.object is not None:
            self._following.add([key])  # it was made of what its class was worth then
        if request.operation is WritePurpose.DELETE_OWNER:
            self._flow.rest(key, flow_control.LEAVING_SECONDS)
        elif outcome.result is not Result.DROPPED:
            self._look_again(key, request.operation)

    def _look_again(self, key: WorkloadKey, operation: WritePurpose) -> None:
        """A Workload that was just given quota is released before others are begun.

        So is the rest of a group of which a pod was just released.
        """
        is_begun = operation is WritePurpose.START_OWNER and self._groups.has(key)
        if operation is WritePurpose.RESERVE_QUOTA or is_begun:
            self._queue.add_to_release(key)
        else:
            self._queue.add(key)

    def _log_refusal(self, outcome: RequestResult) -> None:
        request, error = outcome.request, outcome.error
        fields = {
            "purpose": request.operation.value,
            "namespace": request.namespace,
            "name": request.name,
            "error": str(error),
        }
        if isinstance(request.key, WorkloadKey):
            fields["workload"] = request.key.name
        if errors.is_failed_test(error):
            self._log.info("lost a race, will retry", **fields)
        elif errors.is_namespace_ending(error):
            self._log.info("not made, its namespace is being deleted", **fields)
        else:
            self._log.error("write refused", **fields)

    def _take_refusal(self, request: api_requests.ApiRequest) -> None:
        if request.operation is WritePurpose.FIND_WRITER and isinstance(request.key, WorkloadKey):
            self._foreign.attribute(request.key, None)

    def _on_answer(self, key: WorkloadKey, outcome: RequestResult) -> None:
        resource, view = outcome.request.resource, outcome.object
        if outcome.request.operation is WritePurpose.FIND_WRITER and isinstance(view, dict):
            self._foreign.attribute(key, view)
        elif outcome.request.operation is WritePurpose.FIND_KIND:
            self._on_kind(key, view)
        elif outcome.request.operation in {WritePurpose.CONFIRM_POD, WritePurpose.LABEL_POD}:
            self._running.complete(key, outcome)
        elif outcome.request.operation is WritePurpose.END_STRAY:
            self._running.stray_ended(outcome)
        elif outcome.request.operation is WritePurpose.CHARGE_ORPHAN:
            self._running.complete(key, outcome)
            if view is not None:
                self._mirrors[resource].on_update(view)  # this may come before the watch
        elif outcome.request.operation in claim_holders.OPERATIONS:
            self._on_holder(outcome)
        elif isinstance(view, views.Object):
            self._mirrors[resource].on_update(view)
        elif view is None and resource is resources.WORKLOADS:
            self._on_absence(key, outcome)

    def _on_holder(self, outcome: RequestResult) -> None:
        """A pod that is charged from now on is watched; this answer may come before the watch."""
        self._holders.complete(outcome)
        if outcome.request.operation is WritePurpose.CHARGE_HOLDER and outcome.object is not None:
            self._mirrors[outcome.request.resource].on_update(outcome.object)

    def _on_absence(self, key: WorkloadKey, outcome: RequestResult) -> None:
        request = outcome.request
        before = self._workloads.get(WorkloadKey(request.namespace, request.name))
        deleted = outcome.request.verb is Verb.DELETE and outcome.result is Result.DONE
        is_kept = before is not None and bool(before.metadata.finalizers)
        if outcome.result is not Result.GONE and (not deleted or is_kept):
            return
        if before is None and outcome.request.operation is WritePurpose.FIND_WORKLOAD:
            self._workloads.note_not_found(key)
        if before is not None and before.metadata.uid == outcome.request.uid:
            self._on_workload_delete(before)  # else it is another one, made since

    def _on_kind(self, key: WorkloadKey, kind: views.Object | None) -> None:
        """With its kind there, a Workload that was not found is gone; else nothing is stopped."""
        if kind is not None and not kind.metadata.deletion_timestamp:
            self._workloads.note_kind(key, exists=True)
            return
        self._workloads.note_kind(key, exists=False)
        self._flow.rest(key, flow_control.UNINSTALLED_SECONDS)

    def _advance(self, key: WorkloadKey) -> None:
        """Do what is to be done about a Workload, unless a request about it is open."""
        current = self._workloads.current(key)
        if current != key:
            self._queue.add(current)  # pods name the first slice of their owner
        if self._flow.is_busy(key) or key in self._quarantine:
            return
        try:
            plan = self._plan(key)
            self._plans.carry_out(key, plan)
        except Exception:  # noqa: BLE001  # one odd Workload must not stop all others
            self._log.exception("workload skipped", namespace=key.namespace, name=key.name)
            self._flow.rest(key, flow_control.ODD_SECONDS)
            return
        if (
            plan.request is None
            and self._workloads.get(key) is None
            and self._subject(key) is None
        ):
            self._flow.forget(key)

    def _plan(self, key: WorkloadKey) -> ReconcilePlan:
        """Return the plan for a Workload; what has to be decided for it is decided at once.

        So no decision is left without its request, and none of an earlier turn counts.
        """
        self._running.on_turn(key)
        self._scheduling.on_turn(key)
        plan = self._reconciler.reconcile(key)
        for _ in range(_DECISIONS_A_TURN):
            if not plan.decisions:
                break
            for decide, arguments in plan.decisions:
                decide(*arguments)
            plan = self._reconciler.reconcile(key)
        return plan

    # ------------------------------------------------------------------------------- timing

    def _next_due_in(self) -> float | None:
        now = self._clock.monotonic()
        is_left = self._flow.may_send() and self._queue.has_next(self._flow.may_decide)
        if self._concerned or is_left:
            return 0.0
        moments = [
            self._flow.next_due_in(), self._scheduling.next_due_in(), self._queue.next_due_in(),
            self._inventory.next_due_in(), self._brake.next_due_in(), self._rollouts.next_due_in(),
        ]  # fmt: skip
        if self._flow.may_report():
            absolute = (
                self._pending_conditions.next_due(),
                self._statuses.next_due(self._flow.room_at),
            )
            moments += [max(0.0, moment - now) for moment in absolute if moment is not None]
        return min((moment for moment in moments if moment is not None), default=None)
