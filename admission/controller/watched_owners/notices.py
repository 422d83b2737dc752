"""The notice before preemption: until when preempted Workloads may run on (ADR 0132).

The end is derived from the eviction and from what the queues say now, so that it is the same for
every leader.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from admission.base import clock as clocks
from admission.base import conditions, events
from admission.base.causes import LargestNode
from admission.base.clock import Clock
from admission.base.conditions import EvictionReason, Text
from admission.base.events import Event
from admission.base.names import ChargeKey, WorkloadKey
from admission.controller.devices.capacity import is_gpu
from admission.controller.devices.fitting import Fitting
from admission.controller.plans import PlanDraft
from admission.controller.queues import affected_workloads
from admission.controller.queues.configuration import WatchedConfiguration
from admission.controller.watched_owners import brake, owner_requests
from admission.controller.watched_owners.running_pods import RunningPods
from admission.controller.workloads import times
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import (
    ApiRequest,
    RequestResult,
    Result,
    WritePurpose,
)
from admission.kube import resources
from admission.objects import condition_list, execution_times, run_times, views
from admission.objects.workload import Workload
from admission.owners import lifecycle
from admission.owners import pod as pod_owner
from admission.owners.framework import Owner
from admission.owners.lifecycle import Next
from admission.reasons import added_conditions, kueue, sentences
from admission.scheduling.decisions import Wait

_DRAIN: Final = "HoldAndDrain"


class Notices:
    """The times until which preempted Workloads run on, and the texts that say so."""

    def __init__(
        self,
        workloads: WorkloadIndex,
        configuration: WatchedConfiguration,
        running: RunningPods,
        draft: PlanDraft,
        clock: Clock,
        fitting: Fitting,
        preemptors_of: Callable[[WorkloadKey], Sequence[tuple[ChargeKey, str]]],
    ) -> None:
        """Prepare.

        Args:
            workloads: all Workloads.
            configuration: queues as last seen.
            running: the pods that run.
            draft: of the plan that is being derived.
            clock: source of time.
            fitting: tells of pods that no node can take.
            preemptors_of: returns the Workloads for which one was evicted last, or may have been,
                with their ClusterQueues.
        """
        self._workloads = workloads
        self._configuration = configuration
        self._running = running
        self._draft = draft
        self._clock = clock
        self._fitting = fitting
        self._preemptors_of = preemptors_of
        self._refused: set[WorkloadKey] = set()
        """Workloads of whose pods the server refused to let one say when it is stopped."""

    def end(self, workload: Workload) -> datetime | None:
        """Return when a preempted Workload is stopped; None for now.

        What a person stops besides has no notice, and none outlasts the maximum run time.
        """
        evicted = workload.status.condition(conditions.EVICTED)
        if evicted is None or (evicted.status, evicted.reason) != (
            "True",
            EvictionReason.PREEMPTED,
        ):
            return None
        local, cluster = affected_workloads.queues(workload, self._configuration)
        drained = (
            queue_ is not None and queue_.spec.stop_policy == _DRAIN for queue_ in (local, cluster)
        )
        if workload.spec.active is False or any(drained):
            return None
        seconds = run_times.notice(
            None if cluster is None else cluster.metadata,
            None if local is None else local.metadata,
            workload.metadata,
        )
        end = clocks.from_wire(evicted.last_transition_time) + timedelta(microseconds=seconds)
        limit = execution_times.execution_end(
            workload, execution_times.run_limit(workload, cluster, local)
        )
        end = end if limit is None else min(end, limit)
        return end if end > self._clock.now() else None

    def holds(self, owner: Owner, workload: Workload | None) -> datetime | None:
        """Return until when an owner may not be stopped; it is looked at again then.

        Args:
            owner: what is to be stopped. A pod that is not bound has nothing to save.
            workload: its Workload; None where there is none.
        """
        if workload is None or not brake.has_worked(owner.view):
            return None
        end = self.end(workload)
        self._draft.look_again_at(end)
        return end

    def next_request(
        self, key: WorkloadKey, owner: Owner, workload: Workload, end: datetime
    ) -> ApiRequest | None:
        """Return the next write that says when an owner is stopped, or None if all is said.

        Args:
            key: of its Workload.
            owner: what is preempted.
            workload: its Workload.
            end: of the notice.
        """
        is_of_pods = owner.gathers() is not None
        kind = owner.kind.name
        subject = "group of pods" if is_of_pods else _POD if kind == resources.PODS.kind else kind
        text = self._text(subject, workload, end)
        changes = condition_list.said(
            workload, conditions.PREEMPTION_NOTICE, text, self._clock.now()
        )
        if changes is not None:
            note_events = () if is_of_pods else (events.preemption_notice(text.message),)
            return api_requests.set_workload_status(
                workload, WritePurpose.KEEP_UP, changes, note_events
            )
        if key in self._refused:
            return None
        moment = clocks.to_wire(end)
        pod_to_tell = self._running.to_tell(self._workloads.first(workload.key()), moment)
        if pod_to_tell is None:
            return None
        pod, resource = pod_to_tell
        note = self._text(_POD, workload, end).message
        return owner_requests.patch(
            key, resource, pod, WritePurpose.ANNOUNCE_STOP, pod_owner.stops_at(pod, moment),
            into=views.Pod, events=(events.preemption_notice(note),) if is_of_pods else (),
        )  # fmt: skip

    def explain(self, wait: Wait, *, place: str = "", deployment: str = "") -> Text:
        """Return why a Workload waits, and until when the workloads that it preempts run.

        Args:
            wait: what was decided.
            place: in its queue, for people; empty where it is not known.
            deployment: whose previous revision holds the quota; empty for none.
        """
        known_workloads = filter(None, map(self._workloads.get, wait.preempting))
        ends = [
            (end, workload_)
            for workload_ in known_workloads
            if (end := self.end(workload_)) is not None
        ]
        until = ""
        if ends:
            end, last = max(ends, key=lambda pair: pair[0])
            until = _time(end, _since(last))
        nodes = self.small_nodes(wait)
        text = sentences.waiting(
            wait.why,
            wait.cluster_queue,
            shortages=wait.shortages,
            nodes=nodes,
            preempting=len(wait.preempting),
            place=place,
            until=until,
            deployment=deployment,
        )
        return text if nodes else sentences.with_ending(text, wait.ending)

    def small_nodes(self, wait: Wait, reason: str = "") -> tuple[LargestNode, ...]:
        """Return the largest nodes, where a pod of what waits is too big for each of them.

        The arguments are those of `Fitting.of_waiting`.
        """
        workload = self._workloads.get(wait.workload)
        queue = self._configuration.cluster_queues.get(wait.cluster_queue)
        return self._fitting.of_waiting(workload, wait, queue, reason)

    def may_exceed_largest_node(self, wait: Wait) -> bool:
        """Return whether `small_nodes` has to look; it costs little."""
        return self._fitting.may_exceed(wait)

    def unmark(self, workload: Workload) -> ApiRequest | None:
        """Return the write that takes that back, where nothing is to be stopped any more."""
        is_over = workload.status.is_true(conditions.FINISHED)
        if is_over or lifecycle.owes_reservation(workload):
            return None
        changes = condition_list.unsaid(workload, conditions.PREEMPTION_NOTICE)
        if changes is None:
            return None
        return api_requests.set_workload_status(workload, WritePurpose.KEEP_UP, changes)

    def complete(self, key: WorkloadKey, outcome: RequestResult) -> None:
        """Take what came of a write: what the server refuses to have said holds up no stop."""
        is_ours = outcome.request.operation is WritePurpose.ANNOUNCE_STOP
        if is_ours and outcome.result is Result.REFUSED:
            self._refused.add(key)

    def stopped(self, step: Next, view: views.Object, workload: Workload | None) -> Event:
        """Return the event on an owner or pod that is stopped.

        Args:
            step: why it is stopped.
            view: the owner or pod.
            workload: its Workload; None where there is none.
        """
        is_lone_pod = isinstance(view, views.Pod) and view.metadata.controller() is None
        if workload is None or step.reason != _PREEMPTED:
            why = Text(step.reason, step.message)
            return events.stopped(added_conditions.stopped(why, comes_back=not is_lone_pod))
        return events.stopped(
            added_conditions.stopped_for(
                *self._preemption(workload),
                comes_back=not is_lone_pod,
                namespace=workload.metadata.namespace,
            )
        )

    def forget(self, key: WorkloadKey) -> None:
        """Take that the owner of a key is not to be stopped, or is gone."""
        self._refused.discard(key)

    def _text(self, subject: str, workload: Workload, end: datetime) -> Text:
        """Return the notice for a Workload or its pod until it is stopped."""
        return added_conditions.preemption_notice(
            subject, _time(end, _since(workload)), *self._preemption(workload)
        )

    def _preemption(self, workload: Workload) -> tuple[str, str]:
        """Return what of a preempted Workload is needed, and by whom."""
        preemptors = self._preemptors_of(workload.key())
        preemptor = self._workloads.get(preemptors[0][0]) if len(preemptors) == 1 else None
        needs = any(map(is_gpu, _held(workload)))
        return (
            added_conditions.NEEDS_GPUS if needs else added_conditions.NEEDS_QUOTA,
            _named(preemptor),
        )


_POD: Final = "pod"
_PREEMPTED: Final = kueue.stopped_by_eviction(EvictionReason.PREEMPTED, "").reason


def _held(workload: Workload) -> Iterator[str]:
    """Return the resources of which a Workload holds quota."""
    admission = workload.status.admission
    for assignment in (admission.pod_set_assignments if admission else None) or ():
        yield from assignment.flavors or {}


def _since(workload: Workload) -> datetime | None:
    """Return when a Workload was evicted; None where it was not."""
    return times.moment(workload, conditions.EVICTED)


def _time(end: datetime, since: datetime | None) -> str:
    """Return a moment for people, with its day where that is not the day of the eviction."""
    at = end.astimezone(UTC)
    is_same = since is not None and since.astimezone(UTC).date() == at.date()
    day = "" if is_same else f"{at:%Y-%m-%d} "
    return f"{day}{at:%H:%M:%S} UTC"


def _named(preemptor: Workload | None) -> str:
    """Return a preemptor as people know it: by its owner."""
    if preemptor is None:
        return added_conditions.ANOTHER_WORKLOAD
    owner, metadata = preemptor.metadata.controller(), preemptor.metadata
    name = metadata.name if owner is None else owner.name
    return added_conditions.ranked(f"{metadata.namespace}/{name}", preemptor.spec.priority or 0)
