"""The most that a ClusterQueue could take of a flavor, with all that its cohort could lend it.

The trees are kept edit by edit; an edit costs nothing until somebody asks, and then only the tree
that it touched is computed again. Only requests above a queue's own quota ask.
"""

import threading

from admission.base.errors import InvalidValueError
from admission.base.names import (
    ClusterQueueName,
    CohortName,
    FlavorName,
    FlavorResource,
    ResourceName,
)
from admission.objects import cluster_queue, cohort
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.scheduling import quota
from admission.scheduling.hierarchy import Forest


class Reach:
    """ClusterQueues and Cohorts by name, without anything that is in use.

    Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forest = Forest()

    def set_queue(self, view: ClusterQueue) -> None:
        """Takes a ClusterQueue as it is now; nothing is known of one that cannot be read."""
        try:
            spec = cluster_queue.scheduling_value(view)
        except InvalidValueError:
            self.drop_queue(view.metadata.name)
            return
        with self._lock:
            known = self._forest.queues.get(spec.name)
            if known is None or known.spec != spec:
                self._forest.set_queue(spec)

    def drop_queue(self, name: str) -> None:
        """Takes the deletion of a ClusterQueue."""
        with self._lock:
            if name in self._forest.queues:
                self._forest.drop_queue(ClusterQueueName(name))

    def set_cohort(self, view: Cohort) -> None:
        """Takes a Cohort as it is now; one that cannot be read counts as without an object."""
        try:
            spec = cohort.scheduling_value(view)
        except InvalidValueError:
            self.drop_cohort(view.metadata.name)
            return
        with self._lock:
            known = self._forest.cohorts.get(spec.name)
            if known is None or known.spec != spec:
                self._forest.set_cohort(spec)

    def drop_cohort(self, name: str) -> None:
        """Takes the deletion of a Cohort."""
        with self._lock:
            known = self._forest.cohorts.get(CohortName(name))
            if known is not None and known.spec is not None:
                self._forest.drop_cohort(CohortName(name))

    def most(self, queue: str, flavor: str, resource: str) -> int | None:
        """The most that the queue could take were nothing in use; None for an unknown queue.

        A queue on a cycle of cohorts admits nothing; what it could take is not known either.
        """
        with self._lock:
            self._forest.refresh()
            node = self._forest.queues.get(ClusterQueueName(queue))
            if node is None or node.name in self._forest.cyclic:
                return None
            pair = FlavorResource(FlavorName(flavor), ResourceName(resource))
            return quota.potential(node, pair)
