"""Writes the status of each ClusterQueue and LocalQueue that changed, coalesced.

Finalizers of ClusterQueues and ResourceFlavors go the same ways, see `finalizers`.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from admission.api import views
from admission.base.clock import Clock
from admission.base.names import ClusterQueueName, LocalQueueKey
from admission.controllers import queuemetrics, queuestatus, writes
from admission.controllers.accounting import Accounting
from admission.controllers.configuration import Configuration
from admission.controllers.finalizers import Finalizers
from admission.controllers.lanes import Lanes
from admission.controllers.writes import Outcome, Purpose, QueueLane, Result
from admission.kube import resources
from admission.kube.resources import Resource
from admission.state.world import State

_CLUSTER_QUEUE: Final = resources.CLUSTER_QUEUES.kind
_LOCAL_QUEUE: Final = resources.LOCAL_QUEUES.kind
_WITH_STATUS: Final = (_CLUSTER_QUEUE, _LOCAL_QUEUE)

AboutGpus = Callable[[views.ClusterQueue, datetime], views.Condition | None]
"""Says something about the GPUs of a ClusterQueue, if there is something to say."""


class QueueStatuses:
    """Which statuses are stale, and the writes that mend them."""

    def __init__(
        self,
        state: State,
        configuration: Configuration,
        lanes: Lanes,
        clock: Clock,
        interval_seconds: float,
        accounting: Accounting,
        about_gpus: tuple[AboutGpus, ...],
    ) -> None:
        self._state = state
        self._configuration = configuration
        self._lanes = lanes
        self._clock = clock
        self._accounting = accounting
        self._about_gpus = about_gpus
        self._throttle = queuestatus.Throttle(interval_seconds)
        self._written: dict[QueueLane, dict[str, Any]] = {}
        self._finalizers = Finalizers(state, configuration, lanes)

    def collect(self) -> None:
        """Asks the state whose status may have changed."""
        changed = self._state.take_changed()
        for name in sorted(changed.cluster_queues):
            self.mark(QueueLane(_CLUSTER_QUEUE, "", name))
        for key in sorted(changed.local_queues):
            self._throttle.mark(QueueLane(_LOCAL_QUEUE, *key))
        self._finalizers.collect()

    def mark(self, lane: QueueLane) -> None:
        """Status and finalizers may be stale."""
        self._finalizers.mark(lane)
        if lane.kind in _WITH_STATUS:
            self._throttle.mark(lane)

    def next_due(self) -> float | None:
        """Moment of the monotonic clock at which `send` has something to do."""
        return self._throttle.next_due()

    def send(self) -> None:
        """Sends the writes that are due."""
        self._finalizers.send()
        for lane in self._throttle.take_due(self._clock.monotonic()):
            if self._lanes.is_busy(lane):
                self._throttle.mark(lane)
            else:
                self._send(lane)

    def settle(self, lane: QueueLane, outcome: Outcome) -> None:
        """Takes what came of a write."""
        if outcome.result is Result.DONE:
            return
        if outcome.write.purpose is Purpose.QUEUE_STATUS:
            self._written.pop(lane, None)
        if outcome.result is Result.CONFLICT:
            self._configuration.mirrors[outcome.write.resource].see(outcome.object)
            self.mark(lane)

    def _send(self, lane: QueueLane) -> None:
        built = self._build(lane)
        if built is None:
            self._throttle.forget(lane)
            self._written.pop(lane, None)
            _forget_metrics(lane)
            return
        view, resource, status = built
        if self._written.get(lane) != status:
            self._written[lane] = status
            self._lanes.submit(writes.patch_queue_status(lane, resource, view, status))

    def _build(self, lane: QueueLane) -> tuple[views.Object, Resource, dict[str, Any]] | None:
        """The object, its resource and its status; None when the object is gone."""
        now = self._clock.now()
        if lane.kind == _LOCAL_QUEUE:
            key = LocalQueueKey(lane.namespace, lane.name)
            local = self._configuration.local_queues.get(key)
            if local is None:
                return None
            found = self._state.local_queue_status(key)
            queuemetrics.local_queue(local, found, self._accounting.role)
            return local, resources.LOCAL_QUEUES, queuestatus.local_queue(local, found, now)
        queue = self._configuration.cluster_queues.get(lane.name)
        if queue is None:
            return None
        found = self._state.cluster_queue_status(ClusterQueueName(lane.name))
        queuemetrics.cluster_queue(queue, found, self._accounting.role)
        about = filter(None, (condition(queue, now) for condition in self._about_gpus))
        status = queuestatus.cluster_queue(queue, found, now, about)
        return queue, resources.CLUSTER_QUEUES, status


def _forget_metrics(lane: QueueLane) -> None:
    if lane.kind == _LOCAL_QUEUE:
        queuemetrics.forget_local_queue(lane.namespace, lane.name)
    else:
        queuemetrics.forget_cluster_queue(lane.name)
