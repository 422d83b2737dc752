"""Routes: who takes a change, and which keys it puts into the queue.

A table lists the routes of one kind of change in the order in which they run. Where the order
carries meaning, `Route.after` names the routes that must have run before, and the reason stands
beside it; all other routes may run in any order. `RouteTable.run` is the one place that runs them.
What is alike for us in an object that is seen again reaches no table.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

from admission.base.clock import Clock
from admission.base.names import WorkloadKey
from admission.controller.devices.claims import Claims
from admission.controller.devices.resource_adjustments import ResourceAdjustments
from admission.controller.effects import EffectRecorder
from admission.controller.pending_conditions import PendingConditionWriter
from admission.controller.plan_executor import PlanExecutor
from admission.controller.quarantine import Quarantine, Unreadable
from admission.controller.queues import affected_workloads
from admission.controller.queues.configuration import WatchedConfiguration
from admission.controller.queues.gpu_transformations import GpuTransformations
from admission.controller.queues.workload_metrics import KueueMetrics
from admission.controller.scheduler import Scheduler
from admission.controller.seeing import informers
from admission.controller.seeing.informers import Change
from admission.controller.surroundings import ConcernedWorkloads
from admission.controller.turns import Turns
from admission.controller.watched_owners.brake import Brake
from admission.controller.watched_owners.claim_holders import ClaimHolders
from admission.controller.watched_owners.every_kind import OwnersOfEveryKind
from admission.controller.watched_owners.predecessors import Predecessors
from admission.controller.watched_owners.running_pods import RunningPods
from admission.controller.workloads.authorship import ForeignReservations
from admission.controller.workloads.following import PrioritySync
from admission.controller.workloads.refusals import Refusals
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing.api_requests import WritePurpose
from admission.controller.writing.flow_control import FlowControl
from admission.controller.writing.work_queue import WorkQueue
from admission.kube import resources
from admission.kube.reflector import Replaced
from admission.kube.resources import Resource
from admission.objects import views
from admission.objects.workload import Workload

_STARTS: Final = frozenset({WritePurpose.START_OWNER, WritePurpose.RELEASE_POD})
"""Writes after which pods may run."""
_QUEUES: Final = (resources.CLUSTER_QUEUES, resources.LOCAL_QUEUES, resources.RESOURCE_FLAVORS)
"""What decides where pods are charged that run."""

Seen = TypeVar("Seen")


class Route(NamedTuple):
    """One who takes a change.

    Attributes:
        name: of what takes it, or is looked at.
        take: takes it.
        of: the parts of the change that it takes; empty for the change as it is.
        puts: whether what it returns are keys that are put into the queue.
        after: names of the routes that must run before.
    """

    name: str
    take: Callable[..., Any]
    of: tuple[str, ...] = ()
    puts: bool = False
    after: tuple[str, ...] = ()


class RouteTable(Generic[Seen]):
    """The routes of one kind of change, in the order in which they run.

    Attributes:
        routes: all of them.
    """

    def __init__(self, queue: WorkQueue, routes: Iterable[Route]) -> None:
        """Declare routes.

        Args:
            queue: takes the keys.
            routes: in order.
        """
        self.routes = tuple(routes)
        self._queue = queue

    def run(self, change: Seen) -> None:
        """Run each route with a change."""
        for route in self.routes:
            if route.of:
                result = route.take(*(getattr(change, part) for part in route.of))
            else:
                result = route.take(change)
            if route.puts:
                self._queue.add_all(result)


# ------------------------------------------------------------------------------- Workloads


class WorkloadUpdate(NamedTuple):
    """A Workload that is new or other than before.

    Attributes:
        key: its key.
        before: as it was seen last; None for a new one.
        workload: as it is now.
    """

    key: WorkloadKey
    before: Workload | None
    workload: Workload


class WorkloadDeletion(NamedTuple):
    """A Workload that is gone.

    Attributes:
        key: its key.
        first: the key of the first slice of its owner, before it was forgotten.
        before: as it was seen last; None where it could not be taken in.
        gone: what is known of it.
    """

    key: WorkloadKey
    first: WorkloadKey
    before: Workload | None
    gone: views.Object


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadTakers:
    """All that take changes of Workloads.

    Attributes:
        queue: takes keys.
        workloads: all Workloads; know a change before any route runs.
        turns: are called for a change.
        accounting: metrics of Workloads.
        effects: events and log lines about changes.
        quarantine: Workloads that cannot be read.
        owners: of every kind.
        predecessors: Workloads of single pods that were preempted.
        claims: ResourceClaims of Workloads.
        scheduling: charges Workloads, and decides about them.
        foreign: reservations that this process did not decide.
        running: pods that run without being charged by a Workload.
        refusals: owners that the API server does not let start.
        pending_conditions: say why Workloads wait.
        following: Workloads whose priority class has changed.
        flow: knows the open requests.
        clock: the present.
    """

    queue: WorkQueue
    workloads: WorkloadIndex
    turns: Turns
    accounting: KueueMetrics
    effects: EffectRecorder
    quarantine: Quarantine
    owners: OwnersOfEveryKind
    predecessors: Predecessors
    claims: Claims
    scheduling: Scheduler
    foreign: ForeignReservations
    running: RunningPods
    refusals: Refusals
    pending_conditions: PendingConditionWriter
    following: PrioritySync
    flow: FlowControl
    clock: Clock


def of_updates(to: WorkloadTakers) -> RouteTable[WorkloadUpdate]:
    """Return the routes of a Workload that is new or other than before."""

    def note_foreign(change: WorkloadUpdate) -> None:
        if to.scheduling.is_foreign_reservation(change.workload):
            to.foreign.add(change.key)

    def note_pending(change: WorkloadUpdate) -> None:
        if change.workload.is_pending():
            to.refusals.forget(change.key)
            to.pending_conditions.note(change.key)

    def tell_effects(change: WorkloadUpdate) -> None:
        preemption = to.scheduling.preemption_of(change.key)
        to.effects.changed(change.before, change.workload, preemption)

    return RouteTable(
        to.queue,
        (
            Route("metrics", to.accounting.observe, of=("before", "workload")),
            Route("effects", tell_effects),
            Route("Workload", to.queue.add, of=("key",)),
            Route("owners", to.owners.naming, of=("workload",), puts=True),
            Route("foreign reservations", note_foreign),
            Route("predecessors", to.predecessors.on_update, of=("workload",)),
            Route("claims", to.claims.on_workload_update, of=("workload",)),
            # A reservation is foreign where none is charged yet.
            Route(
                "quota", to.scheduling.on_update, of=("workload",), after=("foreign reservations",)
            ),
            # Pods are charged on their own for what their Workload is not charged for.
            Route("running pods", to.running.recount, of=("key",), after=("quota",)),
            # Whose condition is due is asked of what waits by then.
            Route("pending", note_pending, after=("quota",)),
        ),
    )  # fmt: skip


def of_deletions(to: WorkloadTakers) -> RouteTable[WorkloadDeletion]:
    """Return the routes of a Workload that is gone."""

    def forget(change: WorkloadDeletion) -> None:
        to.queue.cancel(change.key)
        to.following.forget(change.key)
        to.refusals.forget(change.key)
        to.foreign.forget(change.key)

    def forget_predecessor(change: WorkloadDeletion) -> None:
        if change.before is not None:
            to.predecessors.on_delete(change.before)

    def count(change: WorkloadDeletion) -> None:
        to.accounting.on_delete(change.key, change.before, to.clock.now())

    def free(change: WorkloadDeletion) -> None:
        is_starting = to.flow.purpose(change.key) in _STARTS
        to.scheduling.on_delete(change.key, is_starting=is_starting)

    return RouteTable(
        to.queue,
        (
            Route("all that is noted", forget),
            Route("metrics", count),
            Route("predecessors", forget_predecessor),
            Route("quota", free),
            # What the Workload held is free before its pods are charged on their own; else both
            # would be charged for a while.
            Route(
                "running pods", to.running.workload_gone, of=("first", "before"), after=("quota",)
            ),
            Route("claims", to.claims.on_workload_delete, of=("key",)),
            Route("Workload", to.queue.add, of=("key",)),
            Route("first slice", to.queue.add, of=("first",)),
            Route("owners", to.owners.naming_gone, of=("gone",), puts=True),
        ),
    )


class WorkloadRoutes:
    """Takes what is seen of Workloads; lets nothing pass that is alike for us.

    Attributes:
        updates: routes of Workloads that are new or other than before.
        deletions: routes of Workloads that are gone.
    """

    def __init__(self, to: WorkloadTakers) -> None:
        """Declare the routes.

        Args:
            to: all that take changes.
        """
        self.updates, self.deletions = of_updates(to), of_deletions(to)
        self._to = to

    def on_update(self, view: Workload) -> None:
        """Take a Workload as it is now."""
        to = self._to
        before, first = to.workloads.get(view.key()), to.workloads.first(view.key())
        key = to.workloads.on_update(view)
        if key is None:
            return
        to.quarantine.release(key)
        if to.workloads.first(key) != first:
            to.running.recount(first)
        if before is not None and view.is_alike(before):
            return
        to.turns.call()
        self.updates.run(WorkloadUpdate(key, before, view))

    def on_delete(self, view: views.Object) -> None:
        """Take the news that a Workload is gone."""
        workloads, key = self._to.workloads, WorkloadKey(*informers.key_of(view))
        before, first = workloads.get(key), workloads.first(key)
        if workloads.on_delete(key, view.metadata.uid):
            self.deletions.run(WorkloadDeletion(key, first, before, view))

    def on_unreadable(self, message: Unreadable) -> None:
        """Take a Workload that cannot be decoded."""
        self._to.quarantine.on_update(message.found)
        self._to.running.recount(WorkloadKey(message.found.namespace, message.found.name))

    def on_change(self, change: Change[Any]) -> None:
        """Take a change after each Workload in it was taken: of what a whole list lacks."""
        for key in self._to.quarantine.listed(change):
            self._to.running.recount(key)
            self._to.queue.add(key)
        if isinstance(change, Replaced):
            self._to.running.workloads_listed()


# --------------------------------------------------------------------------- configuration


class ConfigurationChange(NamedTuple):
    """An object of the configuration that is new, gone, or other in what counts.

    Attributes:
        resource: its kind.
        view: the object.
    """

    resource: Resource
    view: views.Object


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationTakers:
    """All that take changes of the configuration.

    Attributes:
        queue: takes keys.
        configuration: all objects; knows a change before any route runs.
        is_synced: tells whether everything was listed that decisions need.
        plans: know who waits for an object.
        brake: is told of namespaces.
        charges: is told of PriorityClasses of pods.
        scheduling: runs a cycle anew.
        prices: of GPUs, by queue.
        running: pods that run without being charged by a Workload.
        holders: pods that hold GPUs by claim.
        owners: of every kind.
        workloads: all Workloads.
        concerned: takes Workloads that a change concerns.
        following: Workloads whose priority class has changed.
    """

    queue: WorkQueue
    configuration: WatchedConfiguration
    is_synced: Callable[[], bool]
    plans: PlanExecutor
    brake: Brake
    charges: ResourceAdjustments
    scheduling: Scheduler
    prices: GpuTransformations
    running: RunningPods
    holders: ClaimHolders
    owners: OwnersOfEveryKind
    workloads: WorkloadIndex
    concerned: ConcernedWorkloads
    following: PrioritySync


def of_configuration(
    to: ConfigurationTakers,
) -> Mapping[Resource | None, RouteTable[ConfigurationChange]]:
    """Return the routes of each kind of the configuration; of all other kinds under None."""

    def concern(change: ConfigurationChange) -> None:
        if to.is_synced():  # before that every Workload is looked at anyway
            to.concerned.add(
                affected_workloads.of(change.resource, change.view, to.configuration, to.workloads)
            )

    def follow(change: ConfigurationChange) -> None:
        if to.is_synced():
            to.following.add(to.workloads.of_class(change.view.metadata.name))

    def hurry(_: ConfigurationChange) -> None:
        to.scheduling.changed()

    def charge(_: ConfigurationChange) -> None:
        to.charges.set_priority_classes(to.configuration.pod_priority_classes.values())

    def of_namespace(change: ConfigurationChange) -> Iterable[WorkloadKey]:
        if to.is_synced() and to.configuration.managed.requirements:
            return to.owners.of_namespace(change.view.metadata.name)
        return ()

    both = ("resource", "view")
    waiting = Route("plans that wait for it", to.plans.waiting_for.take_for, of=both, puts=True)
    for_all = (waiting, Route("cycle", hurry), Route("prices", to.prices.changed, of=both))
    # Pods are charged in the currency of their queue.
    running = Route("running pods", to.running.configuration_changed, of=both, after=("prices",))
    holders = Route("holders of claims", to.holders.configuration_changed, of=both)
    concerned = Route("concerned Workloads", concern)
    of_queues: RouteTable[ConfigurationChange] = RouteTable(
        to.queue, (*for_all, running, holders, concerned)
    )
    return {
        None: RouteTable(to.queue, for_all),
        **dict.fromkeys(_QUEUES, of_queues),
        resources.NAMESPACES: RouteTable(
            to.queue,
            (
                Route("brake", to.brake.on_namespace_update, of=("view",)),
                *for_all,
                holders,
                concerned,
                Route("owners in it", of_namespace, puts=True),
            ),
        ),
        resources.WORKLOAD_PRIORITY_CLASSES: RouteTable(
            to.queue, (*for_all, concerned, Route("priorities", follow))
        ),
        resources.PRIORITY_CLASSES: RouteTable(to.queue, (waiting, Route("charges", charge))),
    }


class ConfigurationRoutes:
    """Takes changes of the configuration, which is made before those that take them.

    Attributes:
        tables: routes by kind; of all other kinds under None.
    """

    def __init__(self) -> None:
        """Declare no route yet."""
        self.tables: Mapping[Resource | None, RouteTable[ConfigurationChange]] = {}

    def on_change(self, resource: Resource, view: views.Object) -> None:
        """Have looked again at what the change of an object concerns, and at nothing else."""
        table = self.tables.get(resource) or self.tables[None]
        table.run(ConfigurationChange(resource, view))
