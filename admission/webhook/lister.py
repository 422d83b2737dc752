"""The webhook's cache of what reviews look up, kept current by watches.

Writers replace whole mappings and never change one in place, so a review on another thread reads
without a lock and sees each kind as it was at one moment.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

from admission.base import amount, quantity, selectors
from admission.base.clock import SystemClock
from admission.base.errors import InternalError, InvalidValueError
from admission.base.names import (
    ClusterQueueName,
    CohortName,
    FlavorName,
    FlavorResource,
    ResourceName,
)
from admission.base.selectors import Predicate
from admission.gpu.capabilities import QueueOffer
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import (
    cluster_queue,
    cohort,
    queue_status,
    resource_flavor,
    values,
    views,
)
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.priority_class import WorkloadPriorityClass
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.resource_group import FlavorQuotasSpec
from admission.objects.resource_quota import NamespaceQuota
from admission.owners.review import HeldKind, Mark
from admission.scheduling import quota
from admission.scheduling.hierarchy import CohortHierarchy, QueueNode, QuotaNode
from admission.scheduling.model import PreemptionPolicy
from admission.webhook.owner_admissions import OwnerAdmissions
from admission.webhook.review_context import Lister, QueueFacts

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


class ClusterLister:
    """Implements `review_context.Lister`; fed by one reflector per kind."""

    def __init__(self, owners: OwnerAdmissions | None = None) -> None:
        """Prepare an empty cache.

        Args:
            owners: knows which owners were admitted; None: nothing is known of any.
        """
        self._write = threading.Lock()
        self._owners = owners or OwnerAdmissions(SystemClock())
        self._kinds: dict[Resource, Mapping[str, _Objects]] = {kind: {} for kind in WATCHED}
        self._missing = frozenset(WATCHED)
        self._versions: dict[Resource, str] = {}
        self._facts = FactsCache()
        self._reach = Reach()

    # ------------------------------------------------------------------------------- writers

    def replace(self, kind: Resource, items: Iterable[views.Object], version: str = "") -> None:
        """Take a complete list, as of a resourceVersion: what is not in it is gone."""
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
        """Note that a kind is not served any more: what is known of it is old."""
        with self._write:
            self._check(kind)
            self._missing |= {kind}

    def upsert(self, kind: Resource, item: views.Object) -> None:
        """Take one object as it is now; a change that no review could notice costs nothing."""
        namespace, name = item.metadata.namespace, item.metadata.name
        with self._write:
            self._check(kind)
            siblings = self._kinds[kind].get(namespace, _EMPTY)
            object_known = siblings.get(name)
            if object_known is None or _content(object_known) != _content(item):
                self._put(kind, namespace, {**siblings, name: item})
                self._extend(kind, item)
            self._versions[kind] = item.metadata.resource_version

    def delete(self, kind: Resource, item: views.Object) -> None:
        """Take the deletion of one object."""
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
        """Return the kinds that were not listed yet, or are not served any more, sorted."""
        return tuple(sorted(kind.qualified for kind in self._missing))

    def count(self, kind: Resource) -> int:
        """Return how many objects of a kind are known."""
        return sum(len(objects) for objects in self._kinds[kind].values())

    def version(self, kind: Resource) -> str:
        """Return the version of the last list or change of a kind; empty before the first list."""
        return self._versions.get(kind, "")

    def namespace(self, name: str) -> views.Namespace | None:
        """Return the namespace; None if it was never seen."""
        return cast("views.Namespace | None", self._get(resources.NAMESPACES, "", name))

    def local_queue(self, namespace: str, name: str) -> LocalQueue | None:
        """Return the LocalQueue; None if it does not exist or was not seen yet."""
        view = self._get(resources.LOCAL_QUEUES, namespace, name)
        return cast("LocalQueue | None", view)

    def local_queue_names(self, namespace: str) -> tuple[str, ...]:
        """Return the names of the namespace's LocalQueues, sorted."""
        return tuple(sorted(self._kinds[resources.LOCAL_QUEUES].get(namespace, _EMPTY)))

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        """Return the ClusterQueue."""
        return cast("ClusterQueue | None", self._get(resources.CLUSTER_QUEUES, "", name))

    def all_cluster_queues(self) -> tuple[ClusterQueue, ...]:
        """Return every ClusterQueue, sorted by name."""
        return cast("tuple[ClusterQueue, ...]", self._all(resources.CLUSTER_QUEUES))

    def all_cohorts(self) -> tuple[Cohort, ...]:
        """Return every Cohort that exists as an object, sorted by name."""
        return cast("tuple[Cohort, ...]", self._all(resources.COHORTS))

    def queue_facts(self, queue: ClusterQueue) -> QueueFacts:
        """Return what follows from a ClusterQueue and the flavors of this moment."""
        return self._facts.facts(queue, self)

    def most(self, queue: str, flavor: str, resource: str) -> int | None:
        """Return the most that a ClusterQueue could take of a flavor; None where not known."""
        return self._reach.most(queue, flavor, resource)

    def free(self, queue: str, flavor: str, resource: str) -> int | None:
        """Return what a ClusterQueue could take of a flavor now; None where not known."""
        return self._reach.free(queue, flavor, resource)

    def unused(self, queue: str, flavor: str, resource: str) -> int | None:
        """Return what is left of a ClusterQueue's own quota; None where not known."""
        return self._reach.unused(queue, flavor, resource)

    def reclaimed(self, queue: str, flavor: str, resource: str) -> int | None:
        """Return what a ClusterQueue could take once others gave back; None where not known."""
        return self._reach.reclaimed(queue, flavor, resource)

    def resource_flavor(self, name: str) -> ResourceFlavor | None:
        """Return the ResourceFlavor."""
        view = self._get(resources.RESOURCE_FLAVORS, "", name)
        return cast("ResourceFlavor | None", view)

    def resource_flavor_names(self) -> tuple[str, ...]:
        """Return the names of the ResourceFlavors, sorted."""
        return tuple(sorted(self._kinds[resources.RESOURCE_FLAVORS].get("", _EMPTY)))

    def workload_priority_class(self, name: str) -> WorkloadPriorityClass | None:
        """Return the WorkloadPriorityClass."""
        view = self._get(resources.WORKLOAD_PRIORITY_CLASSES, "", name)
        return cast("WorkloadPriorityClass | None", view)

    def workload_priority_class_names(self) -> tuple[str, ...]:
        """Return the names of the WorkloadPriorityClasses, sorted."""
        return tuple(sorted(self._kinds[resources.WORKLOAD_PRIORITY_CLASSES].get("", _EMPTY)))

    def admissions(
        self,
        kind: HeldKind,
        namespace: str,
        owner: views.OwnerReference,
        marks: frozenset[Mark],
    ) -> frozenset[Mark] | None:
        """Return what of an owner was admitted; see `OwnerAdmissions.of`."""
        return self._owners.of(kind, namespace, owner, marks)

    def limit_ranges(self, namespace: str) -> tuple[views.LimitRange, ...]:
        """Return the namespace's LimitRanges, sorted by name."""
        by_name = self._kinds[resources.LIMIT_RANGES].get(namespace, _EMPTY)
        return tuple(cast("views.LimitRange", by_name[name]) for name in sorted(by_name))

    def resource_quotas(self, namespace: str) -> tuple[NamespaceQuota, ...]:
        """Return the namespace's core ResourceQuotas, sorted by name."""
        by_name = self._kinds[resources.RESOURCE_QUOTAS].get(namespace, _EMPTY)
        return tuple(cast("NamespaceQuota", by_name[name]) for name in sorted(by_name))

    def _all(self, kind: Resource) -> tuple[views.Object, ...]:
        """Return every object of a kind without namespaces, sorted by name."""
        objects = self._kinds[kind].get("", _EMPTY)
        return tuple(objects[name] for name in sorted(objects))

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


# ------------------------------------------------------------------------- facts about queues


def describe(queue: ClusterQueue, lister: Lister) -> QueueFacts:
    """Return what follows from a queue and the flavors that exist now."""
    offers, bounds, own_quota, missing = [], {}, {}, []
    for quotas in flavors(queue):
        own_quota[quotas.name] = {
            each.name: _canonical(each.name, each.nominal_quota) for each in quotas.resources
        }
        bounds[quotas.name] = ceilings(quotas, has_cohort=bool(queue.spec.cohort_name))
        flavor = lister.resource_flavor(quotas.name)
        if flavor is None:
            missing.append(quotas.name)
        else:
            covered = (each.name for each in quotas.resources)
            offers.append(resource_flavor.capabilities(flavor, covered, bounds[quotas.name]))
    offer = QueueOffer(name=queue.metadata.name, flavors=tuple(offers))
    return QueueFacts(
        offer=offer,
        ceilings=bounds,
        nominal=own_quota,
        missing=tuple(missing),
        serves=_serves(queue),
    )


def flavors(queue: ClusterQueue) -> Iterator[FlavorQuotasSpec]:
    """Yield all flavors of the queue, by group, in the order in which each group tries them."""
    for group in queue.spec.resource_groups or ():
        yield from group.flavors


class FactsCache:
    """Facts about queues, computed again when the queue or one of its flavors is another object.

    Safe to use from several threads: an entry is replaced as a whole.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def facts(self, queue: ClusterQueue, lister: Lister) -> QueueFacts:
        """Return what ``describe`` says now."""
        name = queue.metadata.name
        entry = self._entries.get(name)
        if entry is None or not entry.holds(queue, lister):
            seen = tuple(lister.resource_flavor(quotas.name) for quotas in flavors(queue))
            entry = _Entry(queue, seen, describe(queue, lister))
            self._entries[name] = entry
        return entry.facts

    def forget(self, name: str) -> None:
        """Drop what is kept of a queue that is gone."""
        self._entries.pop(name, None)


class _Entry(NamedTuple):
    queue: ClusterQueue
    flavors: tuple[ResourceFlavor | None, ...]
    facts: QueueFacts

    def holds(self, queue: ClusterQueue, lister: Lister) -> bool:
        """Return whether the entry was made of these very objects."""
        return self.queue is queue and all(
            lister.resource_flavor(quotas.name) is flavor
            for quotas, flavor in zip(flavors(queue), self.flavors, strict=True)
        )


def ceilings(quotas: FlavorQuotasSpec, *, has_cohort: bool) -> dict[str, int]:
    """Return the most that one Workload may ever get in a flavor, by resource; missing: unbounded.

    Without a cohort that is the nominal quota; in a cohort the borrowing limit comes on top, and
    without one only the cohort bounds it, which the webhook does not know.
    """
    bounds = {}
    for each in quotas.resources:
        nominal = _canonical(each.name, each.nominal_quota)
        if not has_cohort:
            bounds[each.name] = nominal
        elif each.borrowing_limit is not None:
            bounds[each.name] = amount.add(nominal, _canonical(each.name, each.borrowing_limit))
    return {name: bound for name, bound in bounds.items() if bound != amount.UNLIMITED}


def _serves(queue: ClusterQueue) -> Predicate:
    """A queue without a namespace selector serves no namespace; an unreadable one neither."""
    try:
        selector = values.selector(queue.spec.namespace_selector)
        if selector is not None:
            return selectors.compile_requirements(selector.requirements)
    except InvalidValueError:
        pass  # the API server stores no such operator
    return lambda _labels: False


def _canonical(resource: str, value: str | int) -> int:
    try:
        return quantity.to_canonical(resource, str(value))
    except InvalidValueError:
        return amount.UNLIMITED  # never stored by an API server; then nothing is known of it


class Reach:
    """The most that a ClusterQueue could take of a flavor, with all that its cohort could lend it.

    And what it could take now, by what the statuses say is in use. It keeps ClusterQueues and
    Cohorts by name. The trees are kept edit by edit; an edit costs nothing until somebody asks,
    and then only the tree that it touched is computed again. Only requests above a queue's own
    quota, and those behind which others wait, ask. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forest = CohortHierarchy()
        self._unread: dict[ClusterQueueName, ClusterQueue] = {}
        """ClusterQueues whose status was not read since it came."""
        self._borrowed: dict[tuple[int, FlavorResource], int] = {}
        """What is borrowed in trees, by root, as far as somebody asked since the last change."""

    def set_queue(self, view: ClusterQueue) -> None:
        """Take a ClusterQueue as it is now; nothing is known of one that cannot be read."""
        try:
            spec = cluster_queue.scheduling_value(view)
        except InvalidValueError:
            self.drop_queue(view.metadata.name)
            return
        with self._lock:
            self._borrowed.clear()
            queue_node = self._forest.queues.get(spec.name)
            if queue_node is None or queue_node.spec != spec:
                self._forest.set_queue(spec)
            self._unread[spec.name] = view

    def drop_queue(self, name: str) -> None:
        """Take the deletion of a ClusterQueue."""
        with self._lock:
            self._borrowed.clear()
            self._unread.pop(ClusterQueueName(name), None)
            if name in self._forest.queues:
                self._forest.drop_queue(ClusterQueueName(name))

    def set_cohort(self, view: Cohort) -> None:
        """Take a Cohort as it is now; one that cannot be read counts as without an object."""
        try:
            spec = cohort.scheduling_value(view)
        except InvalidValueError:
            self.drop_cohort(view.metadata.name)
            return
        with self._lock:
            self._borrowed.clear()
            cohort_node = self._forest.cohorts.get(spec.name)
            if cohort_node is None or cohort_node.spec != spec:
                self._forest.set_cohort(spec)

    def drop_cohort(self, name: str) -> None:
        """Take the deletion of a Cohort."""
        with self._lock:
            self._borrowed.clear()
            cohort_node = self._forest.cohorts.get(CohortName(name))
            if cohort_node is not None and cohort_node.spec is not None:
                self._forest.drop_cohort(CohortName(name))

    def most(self, queue: str, flavor: str, resource: str) -> int | None:
        """Return the most that the queue could take were nothing in use; None if unknown.

        A queue on a cycle of cohorts admits nothing; what it could take is not known either.
        """
        with self._lock:
            self._forest.refresh()
            node = self._forest.queues.get(ClusterQueueName(queue))
            if node is None or node.name in self._forest.cyclic:
                return None
            pair = FlavorResource(FlavorName(flavor), ResourceName(resource))
            return quota.potential(node, pair)

    def free(self, queue: str, flavor: str, resource: str) -> int | None:
        """Return what the queue could take now, borrowing included; None if unknown."""
        pair = FlavorResource(FlavorName(flavor), ResourceName(resource))
        with self._lock:
            node = self._with_usage(queue)
            return None if node is None else max(0, quota.available(node, pair))

    def unused(self, queue: str, flavor: str, resource: str) -> int | None:
        """Return what is left of the queue's own quota, lent or not; None if unknown."""
        pair = FlavorResource(FlavorName(flavor), ResourceName(resource))
        with self._lock:
            node = self._with_usage(queue)
            if node is None:
                return None
            return max(0, amount.subtract(quota.nominal(node, pair), node.usage.get(pair, 0)))

    def reclaimed(self, queue: str, flavor: str, resource: str) -> int | None:
        """Return what the queue could take once others gave back what they borrow of its quota.

        None if unknown.
        """
        pair = FlavorResource(FlavorName(flavor), ResourceName(resource))
        with self._lock:
            node = self._with_usage(queue)
            if node is None:
                return None
            free = max(0, quota.available(node, pair))
            if node.spec.preemption.reclaim_within_cohort is not PreemptionPolicy.ANY:
                return free
            return free + quota.reclaimable(node, pair, self._borrowed_below(node.root(), pair))

    def _borrowed_below(self, root: QuotaNode, pair: FlavorResource) -> int:
        """Return what is borrowed in a tree; added up once until anything changes."""
        borrowed = self._borrowed.get((id(root), pair))
        if borrowed is None:
            borrowed = self._borrowed[id(root), pair] = quota.borrowed_by(root.leaves(), pair)
        return borrowed

    def _with_usage(self, queue: str) -> QueueNode | None:
        """Return a queue that admits, with what the statuses say is in use; the lock is taken."""
        self._forest.refresh()
        for name, view in self._unread.items():
            changed = self._forest.queues[name]
            quota.remove_all(changed, dict(changed.usage))
            quota.add_all(changed, queue_status.reserved(view.status.flavors_reservation))
        self._unread.clear()
        node = self._forest.queues.get(ClusterQueueName(queue))
        return None if node is None or node.name in self._forest.cyclic else node
