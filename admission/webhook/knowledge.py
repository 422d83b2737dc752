"""The webhook's own small cache: what reviews look up, kept current by watches.

Writers replace whole mappings and never change one in place, so a review on another thread reads
without a lock and sees each kind as it was at one moment.
"""

import threading
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from admission.base.errors import InternalError
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.namespacequotas import NamespaceQuota
from admission.objects.priority_class import WorkloadPriorityClass
from admission.objects.resource_flavor import ResourceFlavor
from admission.policy.knowledge import QueueFacts
from admission.policy.offering import FactsCache
from admission.policy.reach import Reach

WATCHED: Final[Mapping[Resource, type[views.Object]]] = MappingProxyType(
    {
        resources.NAMESPACES: views.Namespace,
        resources.LIMIT_RANGES: views.LimitRange,
        resources.RESOURCE_QUOTAS: NamespaceQuota,
        resources.LOCAL_QUEUES: LocalQueue,
        resources.CLUSTER_QUEUES: ClusterQueue,
        resources.COHORTS: Cohort,
        resources.RESOURCE_FLAVORS: ResourceFlavor,
        resources.WORKLOAD_PRIORITY_CLASSES: WorkloadPriorityClass,
    }
)
"""Every kind that has to be listed before the webhook is ready, and how it is decoded."""

_Objects = Mapping[str, views.Object]
_EMPTY: Final[_Objects] = MappingProxyType({})


class ClusterKnowledge:
    """Implements ``policy.knowledge.Knowledge``; fed by one reflector per kind."""

    def __init__(self) -> None:
        self._write = threading.Lock()
        self._kinds: dict[Resource, Mapping[str, _Objects]] = {kind: {} for kind in WATCHED}
        self._missing = frozenset(WATCHED)
        self._versions: dict[Resource, str] = {}
        self._facts = FactsCache()
        self._reach = Reach()

    # ------------------------------------------------------------------------------- writers

    def replace(self, kind: Resource, items: Iterable[views.Object], version: str = "") -> None:
        """Takes a complete list, as of a resourceVersion: what is not in it is gone."""
        grouped: dict[str, dict[str, views.Object]] = {}
        for item in items:
            grouped.setdefault(item.metadata.namespace, {})[item.metadata.name] = item
        with self._write:
            self._check(kind)
            for name in self._kinds[kind].get("", _EMPTY).keys() - grouped.get("", {}).keys():
                self._unreach(kind, name)
            for item in grouped.get("", {}).values():
                self._extend(kind, item)
            self._kinds[kind] = grouped
            self._missing -= {kind}
            self._versions[kind] = version

    def unserved(self, kind: Resource) -> None:
        """Takes that a kind is not served any more: what is known of it is old."""
        with self._write:
            self._check(kind)
            self._missing |= {kind}

    def upsert(self, kind: Resource, item: views.Object) -> None:
        """Takes one object as it is now; a change that no review could notice costs nothing."""
        namespace, name = item.metadata.namespace, item.metadata.name
        with self._write:
            self._check(kind)
            siblings = self._kinds[kind].get(namespace, _EMPTY)
            known = siblings.get(name)
            if known is None or _content(known) != _content(item):
                self._put(kind, namespace, {**siblings, name: item})
                self._extend(kind, item)
            self._versions[kind] = item.metadata.resource_version

    def delete(self, kind: Resource, item: views.Object) -> None:
        """Takes the deletion of one object."""
        namespace, name = item.metadata.namespace, item.metadata.name
        with self._write:
            self._check(kind)
            siblings = self._kinds[kind].get(namespace, _EMPTY)
            if name in siblings:
                rest = {key: value for key, value in siblings.items() if key != name}
                self._put(kind, namespace, rest)
                self._unreach(kind, name)
            self._versions[kind] = item.metadata.resource_version
        if kind == resources.CLUSTER_QUEUES:
            self._facts.forget(name)

    def _check(self, kind: Resource) -> None:
        if kind not in WATCHED:
            raise InternalError(f"{kind.qualified}: the webhook does not watch this kind")

    def _extend(self, kind: Resource, item: views.Object) -> None:
        """Tells the quota trees of a ClusterQueue or Cohort."""
        if kind == resources.CLUSTER_QUEUES:
            self._reach.set_queue(cast("ClusterQueue", item))
        elif kind == resources.COHORTS:
            self._reach.set_cohort(cast("Cohort", item))

    def _unreach(self, kind: Resource, name: str) -> None:
        if kind == resources.CLUSTER_QUEUES:
            self._reach.drop_queue(name)
        elif kind == resources.COHORTS:
            self._reach.drop_cohort(name)

    def _put(self, kind: Resource, namespace: str, objects: _Objects) -> None:
        spaces = {key: value for key, value in self._kinds[kind].items() if key != namespace}
        self._kinds[kind] = {**spaces, namespace: objects} if objects else spaces

    # ------------------------------------------------------------------------------- readers

    @property
    def synced(self) -> bool:
        """Return whether every kind was listed, and is served."""
        return not self._missing

    def unsynced(self) -> tuple[str, ...]:
        """The kinds that were not listed yet, or are not served any more, sorted."""
        return tuple(sorted(kind.qualified for kind in self._missing))

    def count(self, kind: Resource) -> int:
        """Return how many objects of a kind are known."""
        return sum(len(objects) for objects in self._kinds[kind].values())

    def version(self, kind: Resource) -> str:
        """Version of the last list or change of a kind; empty before the first list."""
        return self._versions.get(kind, "")

    def namespace(self, name: str) -> views.Namespace | None:
        """The namespace; None if it was never seen."""
        return cast("views.Namespace | None", self._get(resources.NAMESPACES, "", name))

    def local_queue(self, namespace: str, name: str) -> LocalQueue | None:
        """The LocalQueue; None if it does not exist or was not seen yet."""
        found = self._get(resources.LOCAL_QUEUES, namespace, name)
        return cast("LocalQueue | None", found)

    def local_queue_names(self, namespace: str) -> tuple[str, ...]:
        """Names of the namespace's LocalQueues, sorted."""
        return tuple(sorted(self._kinds[resources.LOCAL_QUEUES].get(namespace, _EMPTY)))

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        """The ClusterQueue."""
        return cast("ClusterQueue | None", self._get(resources.CLUSTER_QUEUES, "", name))

    def queue_facts(self, queue: ClusterQueue) -> QueueFacts:
        """Return what follows from a ClusterQueue and the flavors of this moment."""
        return self._facts.facts(queue, self)

    def most(self, queue: str, flavor: str, resource: str) -> int | None:
        """The most that a ClusterQueue could take of a flavor; None where it is not known."""
        return self._reach.most(queue, flavor, resource)

    def resource_flavor(self, name: str) -> ResourceFlavor | None:
        """The ResourceFlavor."""
        found = self._get(resources.RESOURCE_FLAVORS, "", name)
        return cast("ResourceFlavor | None", found)

    def workload_priority_class(self, name: str) -> WorkloadPriorityClass | None:
        """The WorkloadPriorityClass."""
        found = self._get(resources.WORKLOAD_PRIORITY_CLASSES, "", name)
        return cast("WorkloadPriorityClass | None", found)

    def limit_ranges(self, namespace: str) -> tuple[views.LimitRange, ...]:
        """The namespace's LimitRanges, sorted by name."""
        found = self._kinds[resources.LIMIT_RANGES].get(namespace, _EMPTY)
        return tuple(cast("views.LimitRange", found[name]) for name in sorted(found))

    def resource_quotas(self, namespace: str) -> tuple[NamespaceQuota, ...]:
        """The namespace's core ResourceQuotas, sorted by name."""
        found = self._kinds[resources.RESOURCE_QUOTAS].get(namespace, _EMPTY)
        return tuple(cast("NamespaceQuota", found[name]) for name in sorted(found))

    def _get(self, kind: Resource, namespace: str, name: str) -> views.Object | None:
        return self._kinds[kind].get(namespace, _EMPTY).get(name)


def _content(item: views.Object) -> tuple[Any, ...]:
    """All of an object but what changes with every write."""
    metadata = item.metadata
    fields = (getattr(item, name) for name in item.__struct_fields__ if name != "metadata")
    return (
        metadata.uid, metadata.labels or {}, metadata.annotations or {},
        metadata.deletion_timestamp, *fields,
    )  # fmt: skip
