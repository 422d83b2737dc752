"""Writes the status of each ClusterQueue, LocalQueue and Cohort that changed, coalesced.

A status is compared with the one that was last seen, so that a restart writes nothing that is
right already, and what somebody else has overwritten is put right. Metadata of the objects that
others refer to goes the same ways, see `object_metadata`.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from admission.base import logs
from admission.base.clock import Clock
from admission.base.names import ClusterQueueName, CohortName, LocalQueueKey
from admission.controller.queues import queue_status_document, queuemetrics
from admission.controller.queues.configuration import WatchedConfiguration
from admission.controller.queues.object_metadata import ObjectMetadata
from admission.controller.queues.support import Support
from admission.controller.queues.workload_metrics import KueueMetrics
from admission.controller.seeing import object_cache
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import QueueKey, RequestResult, Result
from admission.controller.writing.flow_control import FlowControl, StatusQueue
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.scheduling.state import SchedulerState

_CLUSTER_QUEUE: Final = resources.CLUSTER_QUEUES.kind
_LOCAL_QUEUE: Final = resources.LOCAL_QUEUES.kind
_COHORT: Final = resources.COHORTS.kind
_WITH_STATUS: Final = (_CLUSTER_QUEUE, _LOCAL_QUEUE, _COHORT)


class _Built(NamedTuple):
    """An object and the status that it should have."""

    view: ClusterQueue | LocalQueue | Cohort
    resource: Resource
    status: dict[str, Any]


AboutGpus = Callable[[ClusterQueue, datetime], views.Condition | None]
"""Says something about the GPUs of a ClusterQueue, if there is something to say."""


class QueueStatuses:
    """The statuses that are stale, and the writes that update them."""

    def __init__(
        self,
        state: SchedulerState,
        configuration: WatchedConfiguration,
        flow: FlowControl,
        clock: Clock,
        interval_seconds: float,
        accounting: KueueMetrics,
        about_gpus: tuple[AboutGpus, ...],
        largest_nodes: Callable[[str], Mapping[str, int] | None],
    ) -> None:
        self._state = state
        self._configuration = configuration
        self._flow = flow
        self._clock = clock
        self._accounting = accounting
        support = Support(configuration)
        self._about = (*about_gpus, support.condition, support.flavors_condition)
        accounting.ask_cohorts_of(state.cohorts_of)
        self._log = logs.get("queues")
        self._queue = StatusQueue(interval_seconds)
        self._metadata = ObjectMetadata(state, configuration, flow, largest_nodes)

    def restore(self) -> None:
        """Take over the past usage that an earlier leader has left in the LocalQueues."""
        for key in sorted(self._configuration.local_queues):
            try:
                consumption = queue_status_document.consumption_of(
                    self._configuration.local_queues[key]
                )
            except ValueError as error:
                consumption = None
                self._log.error(
                    "past usage left out", namespace=key.namespace, name=key.name, error=str(error)
                )
            self._state.restore_consumption(key, consumption, self._now_us())

    def collect(self) -> None:
        """Collect the objects whose status may have changed."""
        changed = self._state.take_changed()
        for queue in sorted(changed.cluster_queues):
            self.mark(QueueKey(_CLUSTER_QUEUE, "", queue))
        for key in sorted(changed.local_queues):
            self.mark(QueueKey(_LOCAL_QUEUE, *key))
        for cohort in sorted(changed.cohorts):
            self.mark(QueueKey(_COHORT, "", cohort))
        for flavor in sorted(changed.flavors):
            self.mark_flavor(flavor)
        for resource, namespace, name in self._configuration.take_touched():
            self.mark(QueueKey(resource.kind, namespace, name))
        for key in sorted(self._accounting.census.take_changed()):
            self._mark_counted(key)

    def _mark_counted(self, key: LocalQueueKey) -> None:
        """Metrics of a LocalQueue, and of the ClusterQueue behind it, are stale."""
        local = self._configuration.local_queues.get(key)
        if local is not None:
            self.mark(QueueKey(_LOCAL_QUEUE, *key))
            self.mark(QueueKey(_CLUSTER_QUEUE, "", local.spec.cluster_queue))

    def mark_flavor(self, name: str) -> None:
        """Mark a flavor whose metadata may be stale."""
        self.mark(QueueKey(resources.RESOURCE_FLAVORS.kind, "", name))

    def mark(self, key: QueueKey) -> None:
        """Mark an object whose status and metadata may be stale."""
        self._metadata.mark(key)
        if key.kind in _WITH_STATUS:
            self._queue.mark(key, self._clock.monotonic())

    def next_due(self, room_at: float) -> float | None:
        """Return the moment of the monotonic clock at which `send` has something to do."""
        return self._queue.next_due(room_at)

    def send(self, room_at: float) -> None:
        """Send the writes that are due, as long as there is room for them.

        Many may be due at once, so none is taken up that would stand in the way of others.
        """
        self._metadata.send()
        now = self._clock.monotonic()
        for key in self._queue.due(now, room_at):
            if not self._flow.may_report():
                break
            if self._flow.is_busy(key):
                self._queue.postpone(key, now)
            else:
                self._queue.take(key, now)
                self._send(key)

    def complete(self, key: QueueKey, outcome: RequestResult) -> None:
        """Take the result of a write; what the object is now was answered, or read.

        One that is gone since, or was seen later already, is not taken back.
        """
        view, answered = self._configuration.find(*key), outcome.object
        if view is not None and answered is not None and _is_newer(answered, view):
            self._configuration.informers[outcome.request.resource].on_update(answered)
        if outcome.result is Result.CONFLICT:
            self.mark(key)

    def _send(self, key: QueueKey) -> None:
        try:
            built = self._build(key)
        except Exception:  # noqa: BLE001  # one odd queue must not stop all others
            self._log.exception("status not updated", **key._asdict())
            return
        if built is None:
            self._queue.forget(key)
            return
        whole = queue_status_document.changed(built.status, built.view.status)
        if whole is not None:
            self._flow.submit(
                api_requests.replace_queue_status(key, built.resource, built.view, whole)
            )

    def _build(self, key: QueueKey) -> _Built | None:
        """The object, its resource and its status; None when the object is gone."""
        match key.kind:
            case resources.LOCAL_QUEUES.kind:
                return self._local_queue(LocalQueueKey(key.namespace, key.name))
            case resources.CLUSTER_QUEUES.kind:
                return self._cluster_queue(key.name)
            case _:
                return self._cohort(key.name)

    def _local_queue(self, key: LocalQueueKey) -> _Built | None:
        view = self._configuration.local_queues.get(key)
        if view is None:
            queuemetrics.forget_local_queue(key.namespace, key.name)
            self._accounting.forget_local_queue(key.namespace, key.name)
            return None
        now, resource = self._clock.now(), resources.LOCAL_QUEUES
        problem = self._configuration.unreadable.get((resource, *key))
        complete = (
            self._state.local_queue_status(key)
            if problem is None
            else queue_status_document.unreadable(None, problem)
        )
        consumption = self._state.consumption(key)
        around = queuemetrics.GaugeContext(
            role=self._accounting.role,
            counted=self._accounting.census.count((key,)),
            past=None if consumption is None else self._state.fair_usage(key),
        )
        queuemetrics.local_queue(view, complete, around)
        status = queue_status_document.local_queue(
            view, complete, now, consumption, self._state.sampling_us
        )
        return _Built(view, resource, status)

    def _cluster_queue(self, name: str) -> _Built | None:
        view = self._configuration.cluster_queues.get(name)
        if view is None:
            queuemetrics.forget_cluster_queue(name)
            self._accounting.forget_cluster_queue(name)
            return None
        now, resource = self._clock.now(), resources.CLUSTER_QUEUES
        problem = self._configuration.unreadable.get((resource, "", name))
        is_known = ClusterQueueName(name) in self._state.forest.queues
        status = self._state.cluster_queue_status(ClusterQueueName(name)) if is_known else None
        if status is None or problem is not None:
            status = queue_status_document.unreadable(status, problem or "")
        above = self._state.cohorts_of(name)
        around = queuemetrics.GaugeContext(
            role=self._accounting.role,
            counted=self._accounting.census.count(self._configuration.behind(name)),
            root=above[-1] if above else "",
            is_readable=problem is None,
        )
        queuemetrics.cluster_queue(view, status, around)
        about = filter(None, (condition(view, now) for condition in self._about))
        return _Built(
            view, resource, queue_status_document.cluster_queue(view, status, now, about)
        )

    def _cohort(self, name: str) -> _Built | None:
        status = self._state.cohort_status(CohortName(name))
        if status is None:
            queuemetrics.forget_cohort(name)
            self._accounting.forget_cohort(name)
        else:
            queuemetrics.cohort(name, status, self._accounting.role)
        view = self._configuration.cohorts.get(name)
        if view is None:
            return None
        return _Built(view, resources.COHORTS, queue_status_document.cohort(status))

    def _now_us(self) -> int:
        return int(self._clock.now().timestamp() * 1_000_000)


def _is_newer(view: views.Object, before: views.Object) -> bool:
    """Return whether one is a later version of the other object."""
    same = view.metadata.uid == before.metadata.uid
    return same and object_cache.version(view) > object_cache.version(before)
