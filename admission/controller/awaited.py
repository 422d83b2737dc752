"""Workloads and owners for which nothing can be done until something is there, by what that is."""

from typing import Final

from admission.base.names import WorkKey
from admission.base.tables import Table
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import views

Awaited = tuple[str, str]
"""What may come: its kind, and its name."""

IN_NAMESPACE: Final[Awaited] = ("Namespace", "")
"""The namespace of what waits, or a LocalQueue there."""
CLAIMS: Final[Awaited] = ("ResourceClaim", "")
"""Any ResourceClaim, template or device class."""


def priority_class(name: str) -> Awaited:
    """Return a WorkloadPriorityClass or a PriorityClass."""
    return resources.PRIORITY_CLASSES.kind, name


def cluster_queue(name: str) -> Awaited:
    """Return a ClusterQueue."""
    return resources.CLUSTER_QUEUES.kind, name


class AwaitedObjects:
    """Keys of what lacks objects that may be there later.

    What changes in a namespace concerns all keys there that wait for anything; everything else
    only those that await it.
    """

    def __init__(self) -> None:
        self._awaiting: Table[WorkKey, frozenset[Awaited]] = Table()
        self._by_awaited = self._awaiting.index(lambda _, awaited: awaited)
        self._in = self._awaiting.index(lambda key, _: (key.namespace,))

    def __len__(self) -> int:
        return len(self._awaiting)

    def set(self, key: WorkKey, awaited: frozenset[Awaited]) -> None:
        """Take what a key lacks now; empty for nothing."""
        if awaited:
            self._awaiting.put(key, awaited)
        else:
            self._awaiting.pop(key)

    def take(self, awaited: Awaited) -> tuple[WorkKey, ...]:
        """Return those that await something, and forget them; they are looked at again."""
        return self._forget(self._by_awaited.keys(awaited))

    def take_for(self, resource: Resource, view: views.Object) -> tuple[WorkKey, ...]:
        """Return those that may go on after a change of an object, and forget them."""
        name = view.metadata.name
        if resource is resources.NAMESPACES:
            return self._forget(self._in.keys(name))
        if resource is resources.LOCAL_QUEUES:
            return self._forget(self._in.keys(view.metadata.namespace))
        if resource is resources.CLUSTER_QUEUES:
            return self.take(cluster_queue(name))
        if resource in {resources.PRIORITY_CLASSES, resources.WORKLOAD_PRIORITY_CLASSES}:
            return self.take(priority_class(name))
        return ()

    def _forget(self, keys: tuple[WorkKey, ...]) -> tuple[WorkKey, ...]:
        for key in keys:
            self._awaiting.pop(key)
        return keys
