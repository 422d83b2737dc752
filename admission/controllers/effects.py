"""What is counted, told and logged of a write about a Workload or its owner that took effect."""

from collections.abc import Iterable
from datetime import datetime

from admission.api import views
from admission.base import clock, events, metrics
from admission.base.clock import Clock
from admission.base.events import Event, Events
from admission.base.names import WorkloadKey
from admission.controllers.jobs.jobs import Jobs
from admission.controllers.pods.podindex import PodIndex
from admission.controllers.queues.accounting import Accounting
from admission.controllers.trace import Trace
from admission.controllers.workloads import repeats
from admission.controllers.writing import writes
from admission.controllers.writing.sparing import SparingEvents
from admission.controllers.writing.writes import Outcome, Purpose, Write
from admission.engine.decisions import Evict
from admission.kube import resources
from admission.owners import pod as pod_owner


class Effects:
    """Knows whose writes they are."""

    def __init__(
        self, pods: PodIndex, jobs: Jobs, accounting: Accounting, events: Events, clock: Clock
    ) -> None:
        self._pods = pods
        self._trace = Trace()
        self._jobs = jobs
        self._accounting = accounting
        self._events = events
        self._sparing = SparingEvents(events, clock)
        self._clock = clock

    def changed(
        self, old: views.Workload | None, new: views.Workload, preemption: Evict | None
    ) -> None:
        """Takes a change of a Workload, whoever wrote it; see `Trace.changed`."""
        self._trace.changed(old, new, preemption)

    def done(self, key: WorkloadKey, outcome: Outcome) -> None:
        """Takes a write that took effect; call before what it changed is seen."""
        self._trace.written(key, outcome, self._pods.workloads.get(key))
        match outcome.write.purpose:
            case Purpose.CREATE_WORKLOAD:
                self._created(key)
            case Purpose.RESERVE_QUOTA:
                self._repeat(key, outcome.object, repeats.of_reservation(outcome.object))
            case Purpose.EXPLAIN_WORKLOAD:
                self._repeat(key, outcome.object, repeats.of_wait(outcome.object))
            case Purpose.FOLLOW_POD:
                self._followed(key, outcome.write)
            case Purpose.RELEASE_POD:
                self._released(key, outcome.object)
            case Purpose.STOP_POD:
                for event in outcome.write.events:
                    self._events.event(outcome.write.regarding, event)
            case _:
                pass

    def _created(self, key: WorkloadKey) -> None:
        pod, job, now = self._pods.pod_of(key), self._jobs.index.job_of(key), self._clock.now()
        if pod is not None:
            self._accounting.created("Pod", pod.metadata, now)
        elif job is not None:
            self._accounting.created("Job", job.metadata, now)

    def _repeat(self, key: WorkloadKey, workload: views.Workload, told: Iterable[Event]) -> None:
        """Says again on a Workload what it says; who has a pod reads the pod."""
        if self._pods.pod_of(key) is None:
            for event in told:
                self._sparing.event(writes.workload_reference(workload), event)

    def _followed(self, key: WorkloadKey, write: Write) -> None:
        pod = self._pods.pod_of(key)
        if pod is None:
            return
        regarding = writes.reference(resources.PODS, pod.metadata)
        for event in write.events:
            self._events.event(regarding, event)

    def _released(self, key: WorkloadKey, pod: views.Pod) -> None:
        workload = self._pods.workloads.get(key)
        admission = workload.status.admission if workload else None
        if workload is None or admission is None:
            return
        now, is_group = self._clock.now(), bool(pod_owner.group_name(pod))
        _count_release(pod, admission.cluster_queue, now)
        self._accounting.released(workload, is_group=is_group, now=now)
        regarding = writes.reference(resources.PODS, pod.metadata)
        self._events.event(regarding, events.started(admission.cluster_queue))


def _count_release(pod: views.Pod, cluster_queue: str, now: datetime) -> None:
    metrics.RELEASED_PODS.labels(cluster_queue).inc()
    created = pod.metadata.creation_timestamp
    if created:
        waited = (now - clock.from_wire(created)).total_seconds()
        metrics.POD_RELEASE_SECONDS.labels(cluster_queue).observe(max(0.0, waited))
