"""How each ClusterQueue counts GPUs now, and whose Workloads must be counted anew."""

from collections.abc import Callable

from admission.api import views
from admission.base.names import LocalQueueKey
from admission.controllers import mirrors
from admission.controllers.configuration import Configuration
from admission.engine import model
from admission.gpu.catalogue import Catalogue
from admission.kube import resources
from admission.kube.resources import Resource
from admission.translate import currency
from admission.translate.currency import Pricing


class Prices:
    """Prices of all ClusterQueues."""

    def __init__(self, configuration: Configuration, catalogue: Catalogue) -> None:
        self._configuration = configuration
        self._catalogue = catalogue
        self._by_queue: dict[str, Pricing] = {}
        self._stale_queues: set[str] = set()
        self._stale_locals: set[LocalQueueKey] = set()

    def priced(self, workload: model.Workload) -> model.Workload:
        """A Workload as the ClusterQueue counts it in which it waits or holds quota."""
        return currency.priced(workload, self._by_queue.get(self._queue_of(workload)))

    def changed(self, resource: Resource, view: views.Object) -> None:
        """Takes a change of what admins set; notes whose Workloads are counted otherwise."""
        name = view.metadata.name
        if resource is resources.CLUSTER_QUEUES:
            self._update(name)
        elif resource is resources.LOCAL_QUEUES:
            self._stale_locals.add(LocalQueueKey(*mirrors.key_of(view)))
        elif resource is resources.RESOURCE_FLAVORS:
            for queue, found in self._configuration.cluster_queues.items():
                if _lists(found, name):
                    self._update(queue)

    def take_stale(self) -> Callable[[model.Workload], bool] | None:
        """Tests whether a Workload must be priced again; None if none must.

        It is asked once: the next answer covers what has changed since.
        """
        if not self._stale_queues and not self._stale_locals:
            return None
        queues, locals_ = self._stale_queues, self._stale_locals
        self._stale_queues, self._stale_locals = set(), set()
        return lambda one: one.queue in locals_ or self._queue_of(one) in queues

    def _queue_of(self, workload: model.Workload) -> str:
        if workload.reservation is not None:
            return workload.reservation.cluster_queue
        local = self._configuration.local_queues.get(workload.queue)
        return local.spec.cluster_queue if local is not None else ""

    def _update(self, name: str) -> None:
        queue = self._configuration.cluster_queues.get(name)
        found = None
        if queue is not None:
            found = currency.pricing(queue, self._configuration.flavors, self._catalogue)
        if found == self._by_queue.get(name):
            return
        self._stale_queues.add(name)
        if found is None:
            del self._by_queue[name]
        else:
            self._by_queue[name] = found


def _lists(queue: views.ClusterQueue, flavor: str) -> bool:
    groups = queue.spec.resource_groups or ()
    return any(quotas.name == flavor for group in groups for quotas in group.flavors)
