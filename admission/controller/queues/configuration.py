"""Queues, cohorts, flavors, namespaces, priority classes: as watched, passed on to the state."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from admission.base import names
from admission.base.errors import InvalidValueError
from admission.base.names import FlavorName, LocalQueueKey
from admission.base.namespaces import ManagedNamespaces
from admission.base.tables import Table
from admission.config import kueue_configuration
from admission.controller.devices.capacity_guard import CapacityGuard
from admission.controller.seeing import informers
from admission.controller.seeing.informers import Informer
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import cluster_queue, cohort, local_queue, resource_flavor, views
from admission.objects.admission_check import AdmissionCheck
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.priority_class import WorkloadPriorityClass
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.topology import Topology
from admission.scheduling.places import predicate
from admission.scheduling.state import SchedulerState

_SAME: Final = True
"""What a handler returns where nothing changed that matters."""


class _Flavors(Table[str, ResourceFlavor]):
    """ResourceFlavors by name.

    Attributes:
        of_topology: by the Topology that they name.
    """

    def __init__(self) -> None:
        super().__init__()
        self.of_topology = self.index(lambda _, flavor: _topology(flavor))


class _ClusterQueues(Table[str, ClusterQueue]):
    """ClusterQueues by name.

    Attributes:
        of_flavor: by each flavor that they list.
        of_check: by each admission check that they name.
    """

    def __init__(self) -> None:
        super().__init__()
        self.of_flavor = self.index(lambda _, queue: _flavors(queue))
        self.of_check = self.index(lambda _, queue: _checks(queue))


class _LocalQueues(Table[LocalQueueKey, LocalQueue]):
    """LocalQueues by namespace and name.

    Attributes:
        behind: by their ClusterQueue.
        in_namespace: by namespace.
    """

    def __init__(self) -> None:
        super().__init__()
        self.behind = self.index(lambda _, queue: (queue.spec.cluster_queue,))
        self.in_namespace = self.index(lambda key, _: (key.namespace,))


class WatchedConfiguration:
    """Queues, flavors and cohorts as last seen.

    Attributes:
        flavors: ResourceFlavors by name.
        cluster_queues: ClusterQueues by name.
        cohorts: Cohorts by name.
        local_queues: LocalQueues by key.
        checks: AdmissionChecks by name.
        topologies: Topologies by name.
        priority_classes: values of WorkloadPriorityClasses by name.
        pod_priority_classes: PriorityClasses by name.
        namespaces: labels of the namespaces by name.
        unreadable: what is wrong with a queue that cannot be taken in as it is written now; by
            resource, namespace and name.
        settings: Kueue's document, which says what is done with Workloads besides.
        managed: the namespaces in which pods and Jobs are managed.
        informers: by resource; what a watch of it must be told to.
    """

    def __init__(
        self,
        state: SchedulerState,
        guard: CapacityGuard,
        changed: Callable[[Resource, views.Object], None],
        settings: kueue_configuration.Configuration,
        managed: ManagedNamespaces,
        taint_key: str = "",
    ) -> None:
        """Prepares the informers.

        Args:
            state: is told everything.
            guard: tells it of ClusterQueues and Cohorts, as far as GPUs exist.
            changed: is told of each object that is new, gone, or other than before in what
                matters here; a status that we wrote ourselves does not.
            settings: see there.
            managed: see there.
            taint_key: of the taint that every pod with GPUs tolerates; empty for none.
        """
        self._taint_key = taint_key
        self.settings = settings
        self.managed = managed
        self._state = state
        self._guard = guard
        self._changed = changed
        self._flavors = _Flavors()
        self.flavors = self._flavors.by_key
        self._cluster_queues = _ClusterQueues()
        self.cluster_queues = self._cluster_queues.by_key
        self.cohorts: dict[str, Cohort] = {}
        self._local_queues = _LocalQueues()
        self.local_queues = self._local_queues.by_key
        self.checks: dict[str, AdmissionCheck] = {}
        self.topologies: dict[str, Topology] = {}
        self.priority_classes: dict[str, int] = {}
        self.pod_priority_classes: dict[str, views.PriorityClass] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self._orders: dict[str, str] = {}
        """Until when stops are allowed, by namespace, where that is said."""
        self.unreadable: dict[tuple[Resource, str, str], str] = {}
        self._touched: dict[tuple[Resource, str, str], None] = {}
        self._by_kind: Mapping[str, Mapping[str, views.Object]] = {
            resources.RESOURCE_FLAVORS.kind: self.flavors,
            resources.CLUSTER_QUEUES.kind: self.cluster_queues,
            resources.COHORTS.kind: self.cohorts,
            resources.ADMISSION_CHECKS.kind: self.checks,
            resources.TOPOLOGIES.kind: self.topologies,
        }
        self.informers: Mapping[Resource, Informer[Any]] = {
            resource: Informer(
                resource.kind, self._telling(resource, put), self._telling(resource, drop)
            )
            for resource, put, drop in (
                (resources.NAMESPACES, self._see_namespace, self._lose_namespace),
                (resources.RESOURCE_FLAVORS, self._see_flavor, self._lose_flavor),
                (resources.COHORTS, self._see_cohort, self._lose_cohort),
                (resources.CLUSTER_QUEUES, self._see_cluster_queue, self._lose_cluster_queue),
                (resources.LOCAL_QUEUES, self._see_local_queue, self._lose_local_queue),
                (resources.WORKLOAD_PRIORITY_CLASSES, self._see_priority, self._lose_priority),
                (resources.PRIORITY_CLASSES, self._see_pod_priority, self._lose_pod_priority),
                (resources.ADMISSION_CHECKS, self._see_check, self._lose_check),
                (resources.TOPOLOGIES, self._see_topology, self._lose_topology),
            )
        }

    def find(self, kind: str, namespace: str, name: str) -> views.Object | None:
        """Return a flavor, queue, cohort, check or topology as last seen."""
        if kind == resources.LOCAL_QUEUES.kind:
            return self.local_queues.get(LocalQueueKey(namespace, name))
        return self._by_kind[kind].get(name)

    def manages(self, namespace: str) -> bool:
        """Return whether a namespace is managed.

        It is not before it was seen, if that depends on labels.
        """
        return self.managed.include(namespace, self.namespaces.get(namespace))

    def leaves_out(self, namespace: str) -> bool:
        """Return whether a namespace is surely not managed."""
        return self.managed.leave_out(namespace, self.namespaces.get(namespace))

    def cluster_queue_of(self, queue: LocalQueueKey, named: str) -> str:
        """Return the ClusterQueue that pods are charged to which run; empty where none exists.

        Args:
            queue: their LocalQueue.
            named: the ClusterQueue that they were admitted by, as far as it is known.
        """
        local = self.local_queues.get(queue)
        for name in (named, "" if local is None else local.spec.cluster_queue):
            if name in self.cluster_queues:
                return name
        return ""

    def enforces(self, namespace: str) -> bool:
        """Return whether GPU pods need a queue in a namespace, by its label or by its mode."""
        labels = self.namespaces.get(namespace, {})
        return self.managed.enforces(labels, has_queue=self.has_queues(namespace))

    def has_queues(self, namespace: str) -> bool:
        """Return whether there is a LocalQueue in a namespace."""
        return namespace in self._local_queues.in_namespace

    def behind(self, cluster_queue: str) -> tuple[LocalQueueKey, ...]:
        """Return the LocalQueues that point to a ClusterQueue."""
        return self._local_queues.behind.keys(cluster_queue)

    def listing(self, flavor: str) -> tuple[str, ...]:
        """Return the ClusterQueues that list a flavor."""
        return self._cluster_queues.of_flavor.keys(flavor)

    def asks_for_check(self, check: str) -> bool:
        """Return whether a ClusterQueue asks for an admission check."""
        return check in self._cluster_queues.of_check

    def uses_topology(self, topology: str) -> bool:
        """Return whether a flavor names a Topology."""
        return topology in self._flavors.of_topology

    def take_touched(self) -> tuple[tuple[Resource, str, str], ...]:
        """Return whose status or finalizers may be wrong since the last call.

        Each is a kind, a namespace and a name.

        Those that were seen or lost, and what was in use by one that names it no more.
        """
        touched = tuple(self._touched)
        self._touched.clear()
        return touched

    def _touch(self, resource: Resource, name: str, namespace: str = "") -> None:
        self._touched[resource, namespace, name] = None

    def _touch_seen(
        self, resource: Resource, before: views.Object | None, view: views.Object
    ) -> None:
        """Touches what is not just the echo of a version that was seen."""
        version = view.metadata.resource_version
        if before is None or before.metadata.resource_version != version:
            self._touch(resource, view.metadata.name, view.metadata.namespace)

    @contextmanager
    def _noting(
        self, resource: Resource, name: str, stop: Callable[[], None], *, namespace: str = ""
    ) -> Iterator[None]:
        """Remembers what keeps an object from being taken in, and stops what was known of it."""
        key = resource, namespace, name
        self.unreadable.pop(key, None)
        try:
            yield
        except InvalidValueError as error:
            self.unreadable[key] = str(error)
            stop()
            raise

    def _telling(
        self, resource: Resource, handle: Callable[[Any], bool | None]
    ) -> Callable[[Any], None]:
        def handle_and_tell(view: Any) -> None:
            if handle(view) is not _SAME:
                self._changed(resource, view)

        return handle_and_tell

    def _see_namespace(self, view: views.Namespace) -> bool:
        name, labels = view.metadata.name, view.metadata.labels or {}
        before, orders = self._outlook(name), self._orders.get(name, "")
        self.namespaces[name] = labels
        self._orders[name] = view.metadata.annotation(names.STOPS_ALLOWED_UNTIL)
        if not self._orders[name]:
            del self._orders[name]
        concerns_workloads = self._state.set_namespace(name, labels)
        is_same = before == self._outlook(name) and orders == self._orders.get(name, "")
        return is_same and not concerns_workloads

    def _outlook(self, namespace: str) -> tuple[bool, bool, bool]:
        """Return what the labels of a namespace decide besides which queues take its Workloads."""
        enforced = self.enforces(namespace)
        return self.manages(namespace), self.leaves_out(namespace), enforced

    def _lose_namespace(self, view: views.Object) -> None:
        self.namespaces.pop(view.metadata.name, None)
        self._orders.pop(view.metadata.name, None)
        self._state.drop_namespace(view.metadata.name)

    def _see_flavor(self, view: ResourceFlavor) -> bool:
        name = view.metadata.name
        before = self._flavors.put(name, view)
        self._touch_seen(resources.RESOURCE_FLAVORS, before, view)
        self._touch_left(resources.TOPOLOGIES, _topology(before), _topology(view))
        if before is not None and _topology(before) != _topology(view):
            for queue in self.listing(name):
                self._touch(resources.CLUSTER_QUEUES, queue)
        flavor = resource_flavor.scheduling_value(view)
        tolerations = predicate.tolerated_in(flavor, self._taint_key)
        self._guard.set_flavor(name, flavor.node_labels, tolerations)
        self._state.set_resource_flavor(flavor)
        return before is not None and _is_same(before, view) and before.spec == view.spec

    def _lose_flavor(self, view: views.Object) -> None:
        before = self._flavors.pop(view.metadata.name)
        self._touch_left(resources.TOPOLOGIES, _topology(before), ())
        self._guard.drop_flavor(view.metadata.name)
        self._state.drop_resource_flavor(FlavorName(view.metadata.name))

    def _see_cohort(self, view: Cohort) -> bool:
        name = view.metadata.name
        before = self.cohorts.get(name)
        self.cohorts[name] = view
        self._touch_seen(resources.COHORTS, before, view)
        if before is not None and _is_same(before, view) and before.spec == view.spec:
            return _SAME
        self._guard.set_cohort(cohort.scheduling_value(view))
        return not _SAME

    def _lose_cohort(self, view: views.Object) -> None:
        self.cohorts.pop(view.metadata.name, None)
        self._touch(resources.COHORTS, view.metadata.name)
        self._guard.drop_cohort(view.metadata.name)

    def _see_cluster_queue(self, view: ClusterQueue) -> bool:
        name = view.metadata.name
        before = self._cluster_queues.put(name, view)
        self._touch_seen(resources.CLUSTER_QUEUES, before, view)
        if before is not None and _is_same(before, view) and before.spec == view.spec:
            return _SAME
        self._touch_used(before, view)
        with self._noting(resources.CLUSTER_QUEUES, name, lambda: self._guard.hold_queue(name)):
            self._guard.set_queue(view, cluster_queue.scheduling_value(view))
        return not _SAME

    def _lose_cluster_queue(self, view: views.Object) -> None:
        self._touch(resources.CLUSTER_QUEUES, view.metadata.name)
        self.unreadable.pop((resources.CLUSTER_QUEUES, "", view.metadata.name), None)
        self._touch_used(self._cluster_queues.pop(view.metadata.name))
        self._guard.drop_queue(view.metadata.name)

    def _touch_used(self, before: ClusterQueue | None, after: ClusterQueue | None = None) -> None:
        self._touch_left(resources.RESOURCE_FLAVORS, _flavors(before), _flavors(after))
        self._touch_left(resources.ADMISSION_CHECKS, _checks(before), _checks(after))

    def _touch_left(self, resource: Resource, before: Iterable[str], after: Iterable[str]) -> None:
        """What was named and is named no more may be free now."""
        for name in sorted(set(before) - set(after)):
            self._touch(resource, name)

    def _see_local_queue(self, view: LocalQueue) -> bool:
        key = LocalQueueKey(*informers.key_of(view))
        before = self._local_queues.put(key, view)
        self._touch_seen(resources.LOCAL_QUEUES, before, view)
        with self._noting(
            resources.LOCAL_QUEUES,
            key.name,
            lambda: self._state.drop_local_queue(key),
            namespace=key.namespace,
        ):
            self._state.set_local_queue(local_queue.scheduling_value(view))
        return before is not None and _is_same(before, view) and before.spec == view.spec

    def _lose_local_queue(self, view: views.Object) -> None:
        key = LocalQueueKey(*informers.key_of(view))
        self._local_queues.pop(key)
        self._touch(resources.LOCAL_QUEUES, key.name, key.namespace)
        self.unreadable.pop((resources.LOCAL_QUEUES, *key), None)
        self._state.drop_local_queue(key)

    def _see_priority(self, view: WorkloadPriorityClass) -> bool:
        before = self.priority_classes.get(view.metadata.name)
        self.priority_classes[view.metadata.name] = view.value
        return before == view.value

    def _lose_priority(self, view: views.Object) -> None:
        self.priority_classes.pop(view.metadata.name, None)

    def _see_pod_priority(self, view: views.PriorityClass) -> bool:
        before = self.pod_priority_classes.get(view.metadata.name)
        self.pod_priority_classes[view.metadata.name] = view
        return before is not None and (before.value, before.global_default) == (
            view.value,
            view.global_default,
        )

    def _lose_pod_priority(self, view: views.Object) -> None:
        self.pod_priority_classes.pop(view.metadata.name, None)

    def _see_check(self, view: AdmissionCheck) -> bool:
        name = view.metadata.name
        before = self.checks.get(name)
        self.checks[name] = view
        self._touch_seen(resources.ADMISSION_CHECKS, before, view)
        active, controller = _is_active(view), view.spec.controller_name
        self._state.set_admission_check(name, active=active, controller=controller)
        return before is not None and _is_same(before, view) and _is_active(before) == active

    def _lose_check(self, view: views.Object) -> None:
        self.checks.pop(view.metadata.name, None)
        self._state.drop_admission_check(view.metadata.name)

    def _see_topology(self, view: Topology) -> bool:
        name = view.metadata.name
        before = self.topologies.get(name)
        self.topologies[name] = view
        self._touch_seen(resources.TOPOLOGIES, before, view)
        levels = tuple(level.node_label for level in view.spec.levels)
        self._state.set_topology(name, levels)
        return before is not None and before.spec == view.spec

    def _lose_topology(self, view: views.Object) -> None:
        self.topologies.pop(view.metadata.name, None)
        self._state.drop_topology(view.metadata.name)


def _is_active(check: AdmissionCheck) -> bool:
    conditions_ = check.status.conditions or ()
    return any(
        condition.type == "Active" and condition.status == "True" for condition in conditions_
    )


def _topology(flavor: ResourceFlavor | None) -> tuple[str, ...]:
    return (flavor.spec.topology_name,) if flavor and flavor.spec.topology_name else ()


def _checks(queue: ClusterQueue | None) -> set[str]:
    strategy = queue.spec.admission_checks_strategy if queue is not None else None
    return {check_.name for check_ in (strategy.admission_checks if strategy else None) or ()}


def _flavors(queue: ClusterQueue | None) -> set[str]:
    groups = (queue.spec.resource_groups if queue is not None else None) or ()
    return {flavor.name for group in groups for flavor in group.flavors}


def _is_same(before: views.Object, view: views.Object) -> bool:
    """Return whether an object is the same one, with the same annotations and deletion state.

    What the controller itself says in an annotation makes no difference.
    """
    return _identity(before.metadata) == _identity(view.metadata)


def _identity(metadata: views.ObjectMeta) -> tuple[str, str | None, dict[str, str]]:
    annotations = metadata.annotations or {}
    if names.LARGEST_NODE in annotations:
        annotations = {k: text for k, text in annotations.items() if k != names.LARGEST_NODE}
    return metadata.uid, metadata.deletion_timestamp, annotations
