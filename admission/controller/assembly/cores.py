"""Composes a core."""

from dataclasses import dataclass
from typing import Any

from admission.controller.assembly import basis as basis_parts
from admission.controller.assembly import owners as owner_parts
from admission.controller.assembly import quota as quota_parts
from admission.controller.assembly.basis import Basis, Installation
from admission.controller.assembly.owners import OwnerParts
from admission.controller.assembly.quota import QuotaParts
from admission.controller.core import Core
from admission.controller.effects import EffectRecorder
from admission.controller.journal import Counting
from admission.controller.pending_conditions import PendingConditionWriter
from admission.controller.present_state import PresentState
from admission.controller.queues.queue_status_writer import QueueStatuses
from admission.controller.queues.surge import SurgeCondition
from admission.controller.reconciler import Cache, Reconciler
from admission.controller.reconciling import Reconciling
from admission.controller.reports import Reports
from admission.controller.request_results import RequestResults
from admission.controller.routes import (
    ConfigurationTakers,
    WorkloadRoutes,
    WorkloadTakers,
    of_configuration,
)
from admission.controller.seeing.informers import Informer
from admission.controller.surroundings import ConcernedWorkloads, Surroundings
from admission.controller.taking_over import TakingOver
from admission.controller.waiting_events import WaitingEventRecorder
from admission.controller.watched_kinds import WatchedKinds
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.kube import resources
from admission.kube.resources import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreParts:
    """A core and what it is made of.

    Attributes:
        core: the loop.
        basis: parts that every other part uses.
        quota: how much there is.
        owners: owners and pods.
        kinds: take what is watched.
        routes: of changes of Workloads.
        results: take what became of requests.
        surroundings: take into account what has changed around Workloads.
        reconciling: advances Workloads.
        statuses: of queues.
    """

    core: Core
    basis: Basis
    quota: QuotaParts
    owners: OwnerParts
    kinds: WatchedKinds
    routes: WorkloadRoutes
    results: RequestResults
    surroundings: Surroundings
    reconciling: Reconciling
    statuses: QueueStatuses


def make(installation: Installation) -> CoreParts:
    """Return a core that has seen nothing, with its parts.

    Args:
        installation: what it is built for.
    """
    basis = basis_parts.make(installation)
    quota = quota_parts.make(installation, basis)
    owners = owner_parts.make(installation, basis, quota)
    subject = owners.every_kind.subject
    state, clock, events = installation.state, installation.clock, installation.events
    flow, queue, workloads = basis.flow, basis.queue, basis.workloads
    scheduling, configuration, running = quota.scheduling, quota.configuration, owners.running
    interval = installation.settings.gpu.controller.status_interval.total_seconds()
    statuses = QueueStatuses(
        state, configuration, flow, clock, interval, installation.accounting,
        (quota.inventory.condition, quota.prices.condition, running.releasing.condition,
         SurgeCondition(state).condition),
        quota.fitting.largest_nodes,
    )  # fmt: skip
    pending_conditions = PendingConditionWriter(
        state, workloads, owners.pods, basis.explainer, flow, clock,
        WaitingEventRecorder(
            basis.explainer, subject, owners.pods, owners.rollouts, events, clock
        ),
        subject, running,
    )  # fmt: skip
    effects = EffectRecorder(subject, workloads, installation.accounting, events, clock)
    concerned = ConcernedWorkloads(state, pending_conditions, queue, clock)
    routes = WorkloadRoutes(
        WorkloadTakers(
            queue=queue,
            workloads=workloads,
            turns=basis.turns,
            accounting=installation.accounting,
            effects=effects,
            quarantine=quota.quarantine,
            owners=owners.every_kind,
            predecessors=owners.pods.predecessors,
            claims=quota.claims,
            scheduling=scheduling,
            foreign=basis.foreign,
            running=running,
            refusals=basis.refusals,
            pending_conditions=pending_conditions,
            following=basis.following,
            flow=flow,
            clock=clock,
        )
    )
    kinds = WatchedKinds(
        _informers(workloads, quota, owners, routes), basis.kinds, effects.left_out
    )
    basis.routes.tables = of_configuration(
        ConfigurationTakers(
            queue=queue,
            configuration=configuration,
            is_synced=lambda: kinds.synced,
            plans=basis.plans,
            brake=basis.brake,
            charges=quota.charges,
            scheduling=scheduling,
            prices=quota.prices,
            running=running,
            holders=owners.holders,
            owners=owners.every_kind,
            workloads=workloads,
            concerned=concerned,
            following=basis.following,
        )
    )
    results = RequestResults(
        flow=flow,
        queue=queue,
        kinds=kinds,
        routes=routes,
        workloads=workloads,
        owners=owners.every_kind,
        groups=owners.groups,
        running=running,
        holders=owners.holders,
        notices=owners.notices,
        refusals=basis.refusals,
        foreign=basis.foreign,
        following=basis.following,
        scheduling=scheduling,
        statuses=statuses,
        effects=effects,
    )
    surroundings = Surroundings(
        claims=quota.claims,
        charges=quota.charges,
        inventory=quota.inventory,
        fitting=quota.fitting,
        prices=quota.prices,
        configuration=configuration,
        kinds=kinds,
        workloads=workloads,
        waiting_for=basis.plans.waiting_for,
        concerned=concerned,
        scheduling=scheduling,
        running=running,
        endings=owners.endings,
        statuses=statuses,
        pending_conditions=pending_conditions,
        queue=queue,
    )
    reconciling = Reconciling(
        _reconciler(installation, basis, quota, owners),
        basis.plans,
        subject=subject,
        workloads=workloads,
        quarantine=quota.quarantine,
        running=running,
        scheduling=scheduling,
        flow=flow,
        queue=queue,
    )
    core = Core(
        clock=clock,
        turns=basis.turns,
        kinds=kinds,
        routes=routes,
        results=results,
        surroundings=surroundings,
        taking_over=TakingOver(
            scheduling, basis.foreign, owners.every_kind, quota.quarantine, workloads, statuses,
            basis.following, queue,
        ),
        scheduling=scheduling,
        reconciling=reconciling,
        reports=Reports(statuses, pending_conditions, flow, running.disruptions, events),
        effects=effects,
        present=PresentState(
            state=state,
            kinds=kinds,
            turns=basis.turns,
            workloads=workloads,
            configuration=configuration,
            inventory=quota.inventory,
            pending_conditions=pending_conditions,
            scheduling=scheduling,
            quarantine=quota.quarantine,
            flow=flow,
        ),
        counting=Counting(
            state, workloads, clock, installation.settings.gpu.journal,
            deployment_of=owners.pods.deployment_of,
        ),
        flow=flow,
        queue=queue,
        brake=basis.brake,
        rollouts=owners.rollouts,
    )  # fmt: skip
    return CoreParts(
        core=core,
        basis=basis,
        quota=quota,
        owners=owners,
        kinds=kinds,
        routes=routes,
        results=results,
        surroundings=surroundings,
        reconciling=reconciling,
        statuses=statuses,
    )


def _reconciler(
    installation: Installation, basis: Basis, quota: QuotaParts, owners: OwnerParts
) -> Reconciler:
    cache = Cache(
        workloads=basis.workloads,
        subject=owners.every_kind.subject,
        configuration=quota.configuration,
        scheduler=quota.scheduling,
        claims=quota.claims,
        foreign=basis.foreign,
        following=basis.following,
        children=owners.jobs.children,
        groups=owners.groups,
        running=owners.running,
        holders=owners.holders,
        members=owners.running.members,
        fitting=quota.fitting,
        refusals=basis.refusals,
    )
    return Reconciler(
        cache,
        installation.clock,
        basis.plans.draft,
        not_ready_after=installation.settings.gpu.not_ready_after,
    )


def _informers(
    workloads: WorkloadIndex, quota: QuotaParts, owners: OwnerParts, routes: WorkloadRoutes
) -> dict[Resource, Informer[Any]]:
    """Return who takes what is watched, by resource."""
    watching = (
        quota.configuration, quota.inventory, quota.node_places, quota.charges, quota.claims,
        owners.running, owners.rollouts, *owners.every_kind,
    )  # fmt: skip
    informers: dict[Resource, Informer[Any]] = {
        resources.WORKLOADS: Informer(
            "Workload", routes.on_update, routes.on_delete, stored=workloads.by_key
        )
    }
    for part in watching:
        informers |= part.informers
    return informers
