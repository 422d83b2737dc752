"""Metrics, events and log lines about a write to a Workload or its owner that took effect."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from admission.base import clock, metrics
from admission.base import events as event_texts
from admission.base.clock import Clock
from admission.base.events import Event, Events
from admission.base.names import WorkloadKey
from admission.controller.queues.workload_metrics import KueueMetrics
from admission.controller.trace import Trace
from admission.controller.watched_owners.index import Subject
from admission.controller.watched_owners.owner_writes import Owners
from admission.controller.workloads import repeats
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import RequestResult, WritePurpose
from admission.controller.writing.flow_control import RepeatedEvents
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import views
from admission.objects.workload import Workload
from admission.owners import pod as pod_owner
from admission.owners.framework import Owner
from admission.scheduling.decisions import Evict


class EffectRecorder:
    """Reports writes that took effect."""

    def __init__(
        self,
        subject: Callable[[WorkloadKey], tuple[Owners[Any, Any], Subject] | None],
        workloads: WorkloadIndex,
        accounting: KueueMetrics,
        events: Events,
        clock: Clock,
    ) -> None:
        self._subject = subject
        self._workloads = workloads
        self._trace = Trace()
        self._accounting = accounting
        self._repeated = RepeatedEvents(events, clock)
        self._clock = clock
        self._events = events
        self._is_leading = False

    def lead(self) -> None:
        """Report from now on."""
        self._is_leading = True
        self._accounting.lead()

    def left_out(self, resource: Resource, view: views.Object, problem: str) -> None:
        """Write an event on an object that is ignored because of a problem."""
        if self._is_leading:
            regarding = api_requests.reference(resource, view.metadata)
            self._events.event(regarding, event_texts.left_out(problem))

    def changed(self, old: Workload | None, new: Workload, preemption: Evict | None) -> None:
        """Take a change of a Workload, whoever wrote it; see `Trace.changed`."""
        if self._is_leading:
            self._trace.changed(old, new, preemption)

    def done(self, key: WorkloadKey, outcome: RequestResult) -> None:
        """Take a write that took effect; call before what it changed is seen."""
        self._trace.written(key, outcome, self._workloads.get(key))
        match outcome.request.operation:
            case WritePurpose.CREATE_WORKLOAD:
                self._created(key)
            case WritePurpose.RESERVE_QUOTA:
                self._repeat(key, outcome.object, repeats.of_reservation(outcome.object))
            case WritePurpose.EXPLAIN_WORKLOAD:
                self._repeat(key, outcome.object, repeats.of_gates(outcome.object))
            case WritePurpose.START_OWNER if outcome.request.resource is resources.PODS:
                self._released(key, outcome.object)
            case _:
                pass

    def _owner(self, key: WorkloadKey) -> Owner | None:
        owner = self._subject(key)
        return None if owner is None else owner[1].owner

    def _created(self, key: WorkloadKey) -> None:
        owner = self._owner(key)
        if owner is not None:
            now = self._clock.now()
            self._accounting.created(owner.kind.name, owner.view.metadata, now)

    def _repeat(self, key: WorkloadKey, workload: Workload, repeated: Iterable[Event]) -> None:
        """Says again on a Workload what it says, unless its owner has a condition that does."""
        owner = self._owner(key)
        if owner is None or not owner.kind.has_condition:
            for event in repeated:
                self._repeated.event(api_requests.workload_reference(workload), event)

    def _released(self, key: WorkloadKey, pod: views.Pod) -> None:
        workload = self._workloads.get(key)
        admission = workload.status.admission if workload else None
        if workload is None or admission is None:
            return
        now, is_group = self._clock.now(), bool(pod_owner.group_name(pod))
        _count_release(pod, admission.cluster_queue, now)
        self._accounting.released(workload, is_group=is_group, now=now)


def _count_release(pod: views.Pod, cluster_queue: str, now: datetime) -> None:
    metrics.RELEASED_PODS.labels(cluster_queue).inc()
    created = pod.metadata.creation_timestamp
    if created:
        waited = (now - clock.from_wire(created)).total_seconds()
        metrics.POD_RELEASE_SECONDS.labels(cluster_queue).observe(max(0.0, waited))
