"""How each ClusterQueue counts GPUs now, and which must have their Workloads counted again."""

from datetime import datetime

from admission.base import conditions, logs
from admission.base.names import LocalQueueKey
from admission.controller.devices.capacity_guard import AvailableDevices
from admission.controller.queues.configuration import WatchedConfiguration
from admission.controller.seeing import informers
from admission.gpu.catalogue import Catalogue
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import condition_list, gpu_transformation, views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.gpu_transformation import GpuTransformation
from admission.reasons import added_conditions
from admission.scheduling import model


class GpuTransformations:
    """The GPU transformations of all ClusterQueues."""

    def __init__(self, configuration: WatchedConfiguration, catalogue: Catalogue) -> None:
        self._configuration = configuration
        self._catalogue = catalogue
        self._by_queue: dict[str, GpuTransformation] = {}
        self._present: dict[str, AvailableDevices] = {}
        self._stale_queues: set[str] = set()
        self._stale_locals: set[LocalQueueKey] = set()
        self._reworded: set[str] = set()
        self._log = logs.get("prices")

    def priced(self, workload: model.Workload) -> model.Workload:
        """Return a Workload as counted by the ClusterQueue in which it waits or holds quota."""
        return gpu_transformation.priced(workload, self._by_queue.get(self._queue_of(workload)))

    def condition(self, queue: ClusterQueue, now: datetime) -> views.Condition | None:
        """Return whether GPUs are counted exactly.

        Return None for a queue without GPU memory and slices.
        """
        transformation = self._by_queue.get(queue.metadata.name)
        if transformation is None:
            return None
        doubts = transformation.doubts
        return condition_list.make(
            conditions.COSTS_EXACT,
            added_conditions.costs_assumed(doubts) if doubts else added_conditions.COSTS_ARE_EXACT,
            status=not doubts,
            now=now,
            generation=queue.metadata.generation,
        )

    def take_reworded(self) -> frozenset[str]:
        """Return the ClusterQueues whose condition may have changed since the last call."""
        reworded, self._reworded = frozenset(self._reworded), set()
        return reworded

    def hold_to(self, queue: str, present: AvailableDevices | None) -> None:
        """Set the device names on a guarded ClusterQueue's nodes; None for one without guard."""
        if present is None:
            self._present.pop(queue, None)
        else:
            self._present[queue] = present
        self._update(queue)

    def changed(self, resource: Resource, view: views.Object) -> None:
        """Take a change of what admins set; note whose Workloads are counted otherwise."""
        name = view.metadata.name
        if resource is resources.CLUSTER_QUEUES:
            self._update(name)
        elif resource is resources.LOCAL_QUEUES:
            self._stale_locals.add(LocalQueueKey(*informers.key_of(view)))
        elif resource is resources.RESOURCE_FLAVORS:
            for queue in self._configuration.listing(name):
                self._update(queue)

    def take_stale(self) -> tuple[list[str], list[LocalQueueKey]]:
        """Return the queues whose Workloads must be priced again for what has changed since.

        ClusterQueues of which the Workloads that hold quota are concerned, and LocalQueues of
        which all are.
        """
        queues, locals_ = sorted(self._stale_queues), self._stale_locals
        self._stale_queues, self._stale_locals = set(), set()
        behind = {key for name in queues for key in self._configuration.behind(name)}
        return queues, sorted(locals_ | behind)

    def _queue_of(self, workload: model.Workload) -> str:
        if workload.reservation is not None:
            return workload.reservation.cluster_queue
        local = self._configuration.local_queues.get(workload.queue)
        return local.spec.cluster_queue if local is not None else ""

    def _update(self, name: str) -> None:
        queue = self._configuration.cluster_queues.get(name)
        transformation = None
        if queue is not None:
            flavors, present = self._configuration.flavors, self._present.get(name)
            transformation = gpu_transformation.pricing(queue, flavors, self._catalogue, present)
        if transformation == self._by_queue.get(name):
            return
        self._stale_queues.add(name)
        self._reworded.add(name)
        if transformation is None:
            del self._by_queue[name]
            return
        self._by_queue[name] = transformation
        if transformation.doubts:
            self._log.warning(
                "GPU costs assumed", cluster_queue=name, doubts=transformation.doubts
            )
