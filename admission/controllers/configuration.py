"""Queues, cohorts, flavors, namespaces, priority classes: as watched, passed on to the state."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from admission.api import views
from admission.base.names import FlavorName, LocalQueueKey
from admission.controllers import mirrors
from admission.controllers.guard import Guard
from admission.controllers.mirrors import Mirror
from admission.kube import resources
from admission.kube.resources import Resource
from admission.state.world import State
from admission.translate import queues

_SAME: Final = True
"""What a handler returns where nothing changed that matters."""


class Configuration:
    """What admins and teams set, as last seen.

    Attributes:
        flavors: ResourceFlavors by name.
        cluster_queues: ClusterQueues by name.
        local_queues: LocalQueues by key.
        priority_classes: values of WorkloadPriorityClasses by name.
        namespaces: labels of the namespaces by name.
        mirrors: by resource; what a watch of it must be told to.
    """

    def __init__(
        self, state: State, guard: Guard, changed: Callable[[Resource, views.Object], None]
    ) -> None:
        """Prepares the mirrors.

        Args:
            state: is told everything.
            guard: tells it of ClusterQueues and Cohorts, as far as GPUs exist.
            changed: is told of each object that is new, gone, or other than before in what
                matters here; a status that we wrote ourselves does not.
        """
        self._state = state
        self._guard = guard
        self._changed = changed
        self.flavors: dict[str, views.ResourceFlavor] = {}
        self.cluster_queues: dict[str, views.ClusterQueue] = {}
        self.local_queues: dict[LocalQueueKey, views.LocalQueue] = {}
        self.priority_classes: dict[str, int] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self._touched: dict[tuple[Resource, str], None] = {}
        self.mirrors: Mapping[Resource, Mirror[Any]] = {
            resource: Mirror(
                resource.kind, self._telling(resource, put), self._telling(resource, drop)
            )
            for resource, put, drop in (
                (resources.NAMESPACES, self._see_namespace, self._lose_namespace),
                (resources.RESOURCE_FLAVORS, self._see_flavor, self._lose_flavor),
                (resources.COHORTS, self._see_cohort, self._lose_cohort),
                (resources.CLUSTER_QUEUES, self._see_cluster_queue, self._lose_cluster_queue),
                (resources.LOCAL_QUEUES, self._see_local_queue, self._lose_local_queue),
                (resources.WORKLOAD_PRIORITY_CLASSES, self._see_priority, self._lose_priority),
                (resources.ADMISSION_CHECKS, self._see_check, self._lose_check),
            )
        }

    def take_touched(self) -> tuple[tuple[Resource, str], ...]:
        """Flavors and ClusterQueues that may have to be held or released since the last call.

        Those that were seen, and the flavors that a ClusterQueue listed and lists no more.
        """
        touched = tuple(self._touched)
        self._touched.clear()
        return touched

    def _telling(
        self, resource: Resource, handle: Callable[[Any], bool | None]
    ) -> Callable[[Any], None]:
        def handle_and_tell(view: Any) -> None:
            if handle(view) is not _SAME:
                self._changed(resource, view)

        return handle_and_tell

    def _see_namespace(self, view: views.Namespace) -> None:
        self.namespaces[view.metadata.name] = view.metadata.labels or {}
        self._state.set_namespace(view.metadata.name, view.metadata.labels or {})

    def _lose_namespace(self, view: views.Object) -> None:
        self.namespaces.pop(view.metadata.name, None)
        self._state.drop_namespace(view.metadata.name)

    def _see_flavor(self, view: views.ResourceFlavor) -> bool:
        known = self.flavors.get(view.metadata.name)
        self.flavors[view.metadata.name] = view
        self._touched[resources.RESOURCE_FLAVORS, view.metadata.name] = None
        self._guard.set_flavor(view.metadata.name, view.spec.node_labels or {})
        self._state.set_resource_flavor(queues.resource_flavor(view))
        return known is not None and _is_same(known, view) and known.spec == view.spec

    def _lose_flavor(self, view: views.Object) -> None:
        self.flavors.pop(view.metadata.name, None)
        self._guard.drop_flavor(view.metadata.name)
        self._state.drop_resource_flavor(FlavorName(view.metadata.name))

    def _see_cohort(self, view: views.Cohort) -> None:
        self._guard.set_cohort(queues.cohort(view))

    def _lose_cohort(self, view: views.Object) -> None:
        self._guard.drop_cohort(view.metadata.name)

    def _see_cluster_queue(self, view: views.ClusterQueue) -> bool:
        known = self.cluster_queues.get(view.metadata.name)
        self.cluster_queues[view.metadata.name] = view
        self._touched[resources.CLUSTER_QUEUES, view.metadata.name] = None
        self._touch_flavors(known, view)
        self._guard.set_queue(view, queues.cluster_queue(view))
        return known is not None and _is_same(known, view) and known.spec == view.spec

    def _lose_cluster_queue(self, view: views.Object) -> None:
        self._touch_flavors(self.cluster_queues.pop(view.metadata.name, None))
        self._guard.drop_queue(view.metadata.name)

    def _touch_flavors(
        self, before: views.ClusterQueue | None, after: views.ClusterQueue | None = None
    ) -> None:
        if before is None or (after is not None and before.spec == after.spec):
            return
        kept = _flavors(after) if after is not None else set()
        for name in sorted(_flavors(before) - kept):
            self._touched[resources.RESOURCE_FLAVORS, name] = None

    def _see_local_queue(self, view: views.LocalQueue) -> bool:
        key = LocalQueueKey(*mirrors.key_of(view))
        known = self.local_queues.get(key)
        self.local_queues[key] = view
        self._state.set_local_queue(queues.local_queue(view))
        return known is not None and _is_same(known, view) and known.spec == view.spec

    def _lose_local_queue(self, view: views.Object) -> None:
        key = LocalQueueKey(*mirrors.key_of(view))
        self.local_queues.pop(key, None)
        self._state.drop_local_queue(key)

    def _see_priority(self, view: views.WorkloadPriorityClass) -> None:
        self.priority_classes[view.metadata.name] = view.value

    def _lose_priority(self, view: views.Object) -> None:
        self.priority_classes.pop(view.metadata.name, None)

    def _see_check(self, view: views.AdmissionCheck) -> None:
        active = any(
            condition.type == "Active" and condition.status == "True"
            for condition in view.status.conditions or ()
        )
        self._state.set_admission_check(view.metadata.name, active=active)

    def _lose_check(self, view: views.Object) -> None:
        self._state.drop_admission_check(view.metadata.name)


def _flavors(queue: views.ClusterQueue) -> set[str]:
    groups = queue.spec.resource_groups or ()
    return {flavor.name for group in groups for flavor in group.flavors}


def _is_same(known: views.Object, view: views.Object) -> bool:
    """Whether an object was neither made anew, nor annotated, nor is on its way out since."""
    old, new = known.metadata, view.metadata
    return (old.uid, old.deletion_timestamp, old.annotations or {}) == (
        new.uid,
        new.deletion_timestamp,
        new.annotations or {},
    )
