"""What is to be done about a Workload now, derived from how the objects look now.

The order is: what a decision of the scheduler asks for, then the rules about a Workload besides
quota (upkeep), then the next step of the pod or Job that it was made for, then the children of a
Job, then pods that run without a Workload.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from admission.base import clock as clocks
from admission.base import conditions, events
from admission.base.causes import MemberCounts
from admission.base.clock import Clock
from admission.base.names import ClaimHolderKey, PodCharge, WorkKey, WorkloadKey
from admission.controller.devices.claims import Claims
from admission.controller.devices.fitting import Fitting
from admission.controller.plans import PlanDraft, ReconcilePlan
from admission.controller.queues import affected_workloads
from admission.controller.queues.configuration import WatchedConfiguration
from admission.controller.scheduler import Scheduler
from admission.controller.watched_owners.child_jobs import ChildJobs
from admission.controller.watched_owners.claim_holders import ClaimHolders
from admission.controller.watched_owners.index import Subject
from admission.controller.watched_owners.members import Members
from admission.controller.watched_owners.owner_writes import Owners
from admission.controller.watched_owners.pod_groups import PodGroups
from admission.controller.watched_owners.running_pods import RunningPods
from admission.controller.workloads import evictions, keeping, readiness, upkeep
from admission.controller.workloads.authorship import ForeignReservations
from admission.controller.workloads.following import PrioritySync
from admission.controller.workloads.refusals import Refusals
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import ApiRequest, WritePurpose
from admission.objects import views
from admission.objects.workload import Workload
from admission.reasons import added_conditions

SubjectOf = Callable[[WorkKey], tuple[Owners[Any, Any], Subject] | None]
"""Whose business a Workload key is and what there is; None for nobody's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """The objects that a plan is derived from.

    Attributes:
        workloads: all Workloads.
        subject: the watched owners that are responsible for a Workload.
        configuration: queues and classes.
        scheduler: decisions that are not written yet, and what Workloads ask for.
        claims: ResourceClaims of Workloads.
        foreign: reservations that others have written.
        following: Workloads whose priority class has changed.
        children: Jobs that a Job controls.
        groups: groups of pods, which may have the name of a Workload that is not theirs.
        running: pods that run without a Workload.
        holders: pods that hold GPUs by claim.
        members: pods of owners that were admitted as a whole.
        fitting: tells of pods that no node can take.
        refusals: owners that the API server does not let start.
    """

    workloads: WorkloadIndex
    subject: SubjectOf
    configuration: WatchedConfiguration
    scheduler: Scheduler
    claims: Claims
    foreign: ForeignReservations
    following: PrioritySync
    children: ChildJobs
    groups: PodGroups
    running: RunningPods
    holders: ClaimHolders
    members: Members
    fitting: Fitting
    refusals: Refusals


class Reconciler:
    """Derives the plan of one Workload; changes nothing but memoized values itself."""

    def __init__(
        self, cache: Cache, clock: Clock, draft: PlanDraft, *, not_ready_after: timedelta
    ) -> None:
        """Prepare a reconciler.

        Args:
            cache: what plans are derived from.
            clock: the present.
            draft: takes what those of the cache find out.
            not_ready_after: see `readiness.waiting`.
        """
        self._cache = cache
        self._clock = clock
        self._draft = draft
        self._not_ready_after = not_ready_after

    def reconcile(self, key: WorkKey) -> ReconcilePlan:
        """Return the plan for a Workload, for an owner that has none yet, or for a lone pod."""
        try:
            request = self._next_request(key)
        finally:
            plan = self._draft.take()
        return replace(plan, request=request)

    def _next_request(self, key: WorkKey) -> ApiRequest | None:
        cache = self._cache
        if isinstance(key, PodCharge):
            return cache.running.next_request(key)
        if isinstance(key, ClaimHolderKey):
            return cache.holders.next_request(key)
        if not isinstance(key, WorkloadKey):
            return None
        subject_now = cache.subject(key)
        workload = cache.workloads.get(key)
        if workload is not None and cache.foreign.is_unattributed(key):
            return api_requests.find_writer(workload)
        request: ApiRequest | None = None
        if subject_now is not None:
            owners, subject = subject_now
            request = owners.next_request(subject, self._of_workload)
        elif workload is not None:
            request = self._of_workload(key, workload)
        request = request or cache.children.next_request(key) or cache.groups.tell_refused(key)
        return request or cache.running.queue_left(key)

    def _of_workload(self, key: WorkloadKey, workload: Workload) -> ApiRequest | None:
        """Return the request that follows from a decision, from claims or from upkeep."""
        request = self._cache.scheduler.request_for(workload)
        lost_hosts = self._cache.scheduler.lost_hosts
        if request is None and lost_hosts.is_undecided(workload):
            self._draft.decide(lost_hosts.decide, workload)
        return request or self._hold_to_claims(key, workload) or self._keep_up(key, workload)

    def _hold_to_claims(self, key: WorkloadKey, workload: Workload) -> ApiRequest | None:
        """Return the request that takes back quota which was reserved for other claims (ADR 0057).

        A claim that vanished keeps only what has not started from starting.
        """
        claims, scheduler = self._cache.claims, self._cache.scheduler
        reserved = workload.status.condition(conditions.QUOTA_RESERVED)
        if not claims.concern(key) or reserved is None or reserved.status != "True":
            return None
        if any(
            workload.status.is_true(condition_type)
            for condition_type in (conditions.EVICTED, conditions.FINISHED)
        ):
            return None
        subject = self._cache.subject(key)
        owner = None if subject is None else subject[1].owner
        is_held = owner is not None and owner.is_held()
        since = clocks.from_wire(reserved.last_transition_time)
        is_other = claims.changed_since(key, since) and (
            scheduler.asks_for_more(key) or (is_held and scheduler.cannot_be_counted(key))
        )
        if not (is_other or claims.has_outgrown(workload)):
            return None
        text, now = added_conditions.CLAIMS_CHANGED, self._clock.now()
        if is_held:
            status = evictions.withdraw(workload, text, now)
            return api_requests.set_workload_status(
                workload, WritePurpose.CLEAR_RESERVATION, status
            )
        status = evictions.evict(workload, text, now)
        announced = (events.evicted(*text),)
        return api_requests.set_workload_status(workload, WritePurpose.EVICT, status, announced)

    def _count(self, workload: Workload, pod: views.Pod | None) -> MemberCounts | None:
        """Return the counts of a Workload's pods; None if they are not known."""
        members = self._cache.members
        counts = members.counts(workload) if pod is None else members.counts_of_pod(workload, pod)
        if counts is None or not counts.why:
            return counts
        return counts._replace(nodes=self._cache.fitting.of_admitted(workload))

    def _keep_up(self, key: WorkloadKey, workload: Workload) -> ApiRequest | None:
        """Return the request that follows from the rules other than quota."""
        cache, now = self._cache, self._clock.now()
        of_all = cache.configuration.settings.wait_for_pods_ready
        refusal = cache.refusals.of(key)
        waiting = readiness.waiting(
            workload, of_all, self._not_ready_after, is_refused=bool(refusal)
        )
        is_told = waiting is not None or workload.status.is_true(conditions.ADMITTED)
        subject = cache.subject(key) if is_told else None
        pod = None if subject is None else _single(subject[1])
        is_counted = subject is not None and of_all is None
        members = self._count(workload, pod) if is_counted else None
        if pod is None and members is not None and members.created < members.asked:
            waiting = readiness.waiting(workload, of_all, self._not_ready_after, lacks_pods=True)
        if of_all is None and members is None:
            subject = None
        around = affected_workloads.around(
            workload, cache.configuration, cache.following, now,
            waiting=waiting,
            pods_ready=None if subject is None else subject[0].are_ready(subject[1], members),
            members=members,
            members_changed_at=cache.members.changed_at(key, pod),
            members_changing_since=cache.members.changing_since(key),
            refusal=refusal,
        )  # fmt: skip
        change = upkeep.next_change(workload, around)
        if change is None:
            self._draft.look_again_at(upkeep.next_due(workload, around))
            return None
        event = keeping.event_of(workload, change)
        if event is not None:
            self._draft.record(*event)
        return keeping.request_for(workload, change)


def _single(subject: Subject) -> views.Pod | None:
    """Return the pod that has a Workload of its own; None for every other owner."""
    view = None if subject.owner is None else subject.owner.view
    return view if isinstance(view, views.Pod) else None
