"""What became of requests: who is told of it, in which order, and what is looked at then."""

from typing import Any, Final

from admission.base import logs
from admission.base.names import PodCharge, WorkKey, WorkloadKey
from admission.controller import watched
from admission.controller.effects import EffectRecorder
from admission.controller.queues.queue_status_writer import QueueStatuses
from admission.controller.routes import WorkloadRoutes
from admission.controller.scheduler import Scheduler
from admission.controller.seeing.informers import Change
from admission.controller.watched_kinds import WatchedKinds
from admission.controller.watched_owners.claim_holders import ClaimHolders
from admission.controller.watched_owners.every_kind import OwnersOfEveryKind
from admission.controller.watched_owners.notices import Notices
from admission.controller.watched_owners.pod_groups import PodGroups
from admission.controller.watched_owners.running_pods import RunningPods
from admission.controller.workloads.authorship import ForeignReservations
from admission.controller.workloads.following import PrioritySync
from admission.controller.workloads.refusals import Refusals
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing import api_requests, flow_control
from admission.controller.writing.api_requests import RequestResult, Result, Verb, WritePurpose
from admission.controller.writing.flow_control import FlowControl
from admission.controller.writing.work_queue import WorkQueue
from admission.kube import errors, resources
from admission.kube.reflector import Arrived, Replaced, Upserted
from admission.kube.resources import Resource
from admission.objects import views

_FROM_CLASS: Final = frozenset({WritePurpose.CREATE_WORKLOAD, WritePurpose.FOLLOW_OWNER})
"""Writes that name a WorkloadPriorityClass with its value."""


class RequestResults:
    """Takes what became of requests, from answers and from what watches show."""

    def __init__(
        self,
        *,
        flow: FlowControl,
        queue: WorkQueue,
        kinds: WatchedKinds,
        routes: WorkloadRoutes,
        workloads: WorkloadIndex,
        owners: OwnersOfEveryKind,
        groups: PodGroups,
        running: RunningPods,
        holders: ClaimHolders,
        notices: Notices,
        refusals: Refusals,
        foreign: ForeignReservations,
        following: PrioritySync,
        scheduling: Scheduler,
        statuses: QueueStatuses,
        effects: EffectRecorder,
    ) -> None:
        """Prepare for results.

        Args:
            flow: knows the open requests.
            queue: takes what is to be looked at.
            kinds: take objects from answers.
            routes: take the news that a Workload is gone.
            workloads: all.
            owners: of every kind.
            groups: of pods.
            running: pods that run.
            holders: pods that hold GPUs by claim.
            notices: to what is preempted.
            refusals: owners that the API server does not let start.
            foreign: reservations whose writers are read.
            following: Workloads whose priority class has changed.
            scheduling: decisions that are being written.
            statuses: of queues.
            effects: reports what took effect.
        """
        self._flow = flow
        self._queue = queue
        self._kinds = kinds
        self._routes = routes
        self._workloads = workloads
        self._owners = owners
        self._groups = groups
        self._running = running
        self._holders = holders
        self._notices = notices
        self._refusals = refusals
        self._foreign = foreign
        self._following = following
        self._scheduling = scheduling
        self._statuses = statuses
        self._effects = effects
        self._log = logs.get("core")

    def complete(self, result: RequestResult) -> None:
        """Take the answer to a request."""
        self._finish(self._flow.complete(result))

    def show(self, resource: Resource, change: Change[Any]) -> None:
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
        elif resource not in self._kinds.selected:
            self._finish(self._flow.show(resource, change.object, is_gone=True))

    def settle(self) -> None:
        """Look at what has rested, and take the answers that others told."""
        for rested in self._flow.due():
            self._look_at(rested)
        for result in self._flow.take_told():
            self._finish(result)

    def _look_at(self, key: api_requests.RequestKey) -> None:
        if isinstance(key, api_requests.QueueKey):
            self._statuses.mark(key)
        else:
            self._queue.add(key)

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
        elif isinstance(key, WorkloadKey):
            self._finish_of_workload(key, outcome)
        else:
            self._finish_of_pod(key, outcome)

    def _finish_of_workload(self, key: WorkloadKey, outcome: RequestResult) -> None:
        request = outcome.request
        self._refusals.complete(key, outcome)
        self._notices.complete(key, outcome)
        self._scheduling.complete(key, outcome)
        self._owners.complete(key, outcome)
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

    def _finish_of_pod(self, key: WorkKey, outcome: RequestResult) -> None:
        """Take what became of a request about a pod that is charged by itself, or is to be."""
        if outcome.result is Result.DONE:
            self._owners.done_to_pod(outcome.request)
        if isinstance(key, PodCharge):
            self._running.complete(key, outcome)
            if outcome.request.operation is WritePurpose.CHARGE_ORPHAN:
                self._on_object(outcome)
        else:
            self._on_holder(outcome)
        if outcome.result is not Result.DROPPED:
            self._queue.add(key)

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
        if not isinstance(request.key, api_requests.QueueKey):
            fields["workload"] = request.key.title()
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
        elif outcome.request.operation is WritePurpose.END_STRAY:
            self._running.stray_ended(outcome)
        elif isinstance(view, views.Object):
            self._on_object(outcome)
        elif view is None and resource is resources.WORKLOADS:
            self._on_absence(key, outcome)

    def _on_object(self, outcome: RequestResult) -> None:
        """Take the object of an answer, if it has one."""
        if outcome.object is not None:
            self._kinds.on_update(outcome.request.resource, outcome.object)

    def _on_holder(self, outcome: RequestResult) -> None:
        """A pod that is charged from now on is watched; this answer may come before the watch."""
        self._holders.complete(outcome)
        if outcome.request.operation is WritePurpose.CHARGE_HOLDER and outcome.object is not None:
            self._kinds.on_update(outcome.request.resource, outcome.object)

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
            self._routes.on_delete(before)  # else it is another one, made since

    def _on_kind(self, key: WorkloadKey, kind: views.Object | None) -> None:
        """With its kind there, a Workload that was not found is gone; else nothing is stopped."""
        if kind is not None and not kind.metadata.deletion_timestamp:
            self._workloads.note_kind(key, exists=True)
            return
        self._workloads.note_kind(key, exists=False)
        self._flow.rest(key, flow_control.UNINSTALLED_SECONDS)
