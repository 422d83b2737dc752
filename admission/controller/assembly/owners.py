"""Composes the owners of every kind, and the pods that run."""

from dataclasses import dataclass
from typing import Any, Final

from admission.controller.assembly.basis import Basis, Installation
from admission.controller.assembly.quota import QuotaParts
from admission.controller.watched_owners.claim_holders import ClaimHolders
from admission.controller.watched_owners.every_kind import OwnersOfEveryKind
from admission.controller.watched_owners.held import HeldOwners
from admission.controller.watched_owners.jobs import Jobs
from admission.controller.watched_owners.notices import Notices
from admission.controller.watched_owners.owner_writes import OwnerContext
from admission.controller.watched_owners.pod_endings import PodEndings
from admission.controller.watched_owners.pod_groups import PodGroups
from admission.controller.watched_owners.pods import Pods
from admission.controller.watched_owners.rollouts import Rollouts
from admission.controller.watched_owners.running_pods import RunningPods
from admission.controller.watched_owners.spark_applications import SparkApplications
from admission.owners import batch_job, spark_application
from admission.owners import pod as pod_owner
from admission.owners.framework import Kind

_SPECIAL: Final[dict[type[Any], type[HeldOwners[Any, Any]]]] = {
    spark_application.SparkDocument: SparkApplications,
}
"""Owners that are more than a row, by the type of their document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerParts:
    """Parts about owners and pods.

    Attributes:
        every_kind: owners of every kind.
        jobs: Jobs.
        pods: single pods.
        groups: groups of pods.
        endings: of pods that are being deleted.
        rollouts: of Deployments.
        running: pods that run without being charged by a Workload.
        holders: pods that hold GPUs by claim.
        notices: to what is preempted.
    """

    every_kind: OwnersOfEveryKind
    jobs: Jobs
    pods: Pods
    groups: PodGroups
    endings: PodEndings
    rollouts: Rollouts
    running: RunningPods
    holders: ClaimHolders
    notices: Notices


def make(installation: Installation, basis: Basis, quota: QuotaParts) -> OwnerParts:
    """Return the owners of each kind that is served.

    Three circles are closed here: the scheduler asks where pods run that it charges, and claims
    ask for the Workloads of pods and tell those of the pods that hold GPUs.

    Args:
        installation: what the core is built for.
        basis: parts that every other part uses.
        quota: how much there is.
    """
    state, clock, settings = installation.state, installation.clock, installation.settings
    kinds, draft, look_at = basis.kinds, basis.plans.draft, basis.queue.add_all
    running = RunningPods(
        quota.scheduling, quota.configuration, quota.inventory, clock, basis.queue,
        settings.gpu, look_at, basis.workloads, draft,
    )  # fmt: skip
    quota.scheduling.lost_hosts.goes_on = running.goes_on
    quota.scheduling.lost_hosts.told = running.told
    notices = Notices(
        basis.workloads, quota.configuration, running, draft, clock, quota.fitting,
        state.preemptors_of,
    )  # fmt: skip
    context = OwnerContext(
        workloads=basis.workloads,
        configuration=quota.configuration,
        events=installation.events,
        clock=clock,
        look_at=look_at,
        running=running,
        draft=draft,
        notices=notices,
        brake=basis.brake,
    )
    jobs = Jobs(context)
    owners_by_kind: dict[Kind, HeldOwners[Any, Any]] = {
        integration.kind: jobs
        if integration.kind == batch_job.KIND
        else _SPECIAL.get(integration.document, HeldOwners)(integration, context)
        for integration in kinds.integrations
        if integration.kind != pod_owner.KIND
    }
    endings = PodEndings(quota.inventory, clock, settings.gpu)
    groups = PodGroups(
        context, endings=endings, claims=quota.claims, serving=kinds.serving,
        keeps=settings.gpu.keep_for_replacement, awaits_gates=settings.gpu.waits_for_other_gates,
    )  # fmt: skip
    quota.claims.workload_of = groups.workload_of
    rollouts = Rollouts(
        quota.scheduling, clock, kinds.serving, keeps=settings.gpu.keep_for_replacement
    )
    pods = Pods(
        context, tuple(owners_by_kind.values()), quota.inventory, quota.claims, endings, groups,
        rollouts, basis.refusals, awaits_gates=settings.gpu.waits_for_other_gates,
    )  # fmt: skip
    holders = ClaimHolders(quota.configuration, running, basis.brake, clock, draft, look_at)
    quota.claims.allocations += (holders,)
    in_order = [owners_by_kind.get(integration.kind, pods) for integration in kinds.integrations]
    return OwnerParts(
        every_kind=OwnersOfEveryKind(in_order, groups, basis.workloads),
        jobs=jobs,
        pods=pods,
        groups=groups,
        endings=endings,
        rollouts=rollouts,
        running=running,
        holders=holders,
        notices=notices,
    )
