"""Metadata that the controller keeps right of ClusterQueues and the objects they refer to.

A ResourceFlavor says in an annotation how much the largest of its nodes has of each device.
Reviews, which watch no nodes, warn by it of pods that no node can take (ADR 0284).

A finalizer keeps these objects while they are in use. A new ClusterQueue or ResourceFlavor gets it
in the review; here it is added where that was missed, and taken off once a deleted object is free.
What holds what:

* a ResourceFlavor is in use while a ClusterQueue lists it; Cohorts and Workloads do not hold it;
* an AdmissionCheck is in use while a ClusterQueue asks for it;
* a Topology is in use while a ResourceFlavor names it;
* a ClusterQueue is in use while a Workload reserves quota in it; pending Workloads, LocalQueues
  and its cohort do not hold it.

Source: kueue pkg/controller/core (resourceflavor_controller.go, admissioncheck_controller.go,
clusterqueue_controller.go) and pkg/controller/tas/topology_controller.go.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from admission.base import names, quantity
from admission.base.names import ClusterQueueName
from admission.controller.queues.configuration import WatchedConfiguration
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import QueueKey, WritePurpose
from admission.controller.writing.flow_control import FlowControl
from admission.kube import resources
from admission.objects import views
from admission.objects.cluster_queue import ClusterQueue
from admission.scheduling.state import SchedulerState

RESOURCES: Final = {
    kind.kind: kind
    for kind in (
        resources.CLUSTER_QUEUES,
        resources.RESOURCE_FLAVORS,
        resources.ADMISSION_CHECKS,
        resources.TOPOLOGIES,
    )
}
"""The kinds that are held, by name."""


def wanted(metadata: views.ObjectMeta, *, is_in_use: bool) -> tuple[str, ...] | None:
    """Return the finalizers that the object should have instead; None where it has the right ones.

    An object that is being deleted cannot get a finalizer any more.
    """
    present = metadata.finalizers or ()
    is_held = names.RESOURCE_IN_USE in present
    if metadata.deletion_timestamp is None:
        return None if is_held else (*present, names.RESOURCE_IN_USE)
    if is_held and not is_in_use:
        return tuple(name for name in present if name != names.RESOURCE_IN_USE)
    return None


def lists(queue: ClusterQueue, flavor: str) -> bool:
    """Return whether the ClusterQueue has quota in the flavor."""
    groups = queue.spec.resource_groups or ()
    return any(quotas.name == flavor for group in groups for quotas in group.flavors)


class ObjectMetadata:
    """The objects that may have the wrong metadata, and the writes that correct them."""

    def __init__(
        self,
        state: SchedulerState,
        configuration: WatchedConfiguration,
        flow: FlowControl,
        largest_nodes: Callable[[str], Mapping[str, int] | None],
    ) -> None:
        """Have nothing to correct.

        Args:
            state: knows who reserves quota.
            configuration: the objects as last seen.
            flow: sends.
            largest_nodes: returns the most of each device that a node of a flavor has; None where
                that is not known yet.
        """
        self._state = state
        self._configuration = configuration
        self._flow = flow
        self._largest_nodes = largest_nodes
        self._marked: dict[QueueKey, None] = {}

    def mark(self, key: QueueKey) -> None:
        """Mark an object that may have the wrong metadata; other kinds are ignored."""
        if key.kind in RESOURCES:
            self._marked[key] = None

    def send(self) -> None:
        """Send the writes that are needed; what is busy stays marked."""
        for key in tuple(self._marked):
            if not self._flow.is_busy(key):
                del self._marked[key]
                self._mend(key)

    def _mend(self, key: QueueKey) -> None:
        view = self._configuration.find(*key)
        if view is None:
            return
        metadata: dict[str, Any] = {}
        finalizers = wanted(view.metadata, is_in_use=self._is_in_use(key, view))
        if finalizers is not None:
            metadata["finalizers"] = list(finalizers)
        if key.kind == resources.RESOURCE_FLAVORS.kind:
            largest, present = self._largest_nodes(key.name), view.metadata.annotations or {}
            text = None if largest is None else _in_words(largest)
            if text is not None and text != present.get(names.LARGEST_NODE, ""):
                metadata["annotations"] = {names.LARGEST_NODE: text or None}
        if metadata:
            operation = WritePurpose.KEEP_METADATA
            changes = {"metadata": metadata}
            self._flow.submit(
                api_requests.patch_queue(key, operation, RESOURCES[key.kind], view, changes)
            )

    def _is_in_use(self, key: QueueKey, view: views.Object) -> bool:
        if view.metadata.deletion_timestamp is None:
            return True  # what nobody deletes is not counted
        match key.kind:
            case resources.CLUSTER_QUEUES.kind:
                return self._state.reserving(ClusterQueueName(key.name)) > 0
            case resources.RESOURCE_FLAVORS.kind:
                return bool(self._configuration.listing(key.name))
            case resources.ADMISSION_CHECKS.kind:
                return self._configuration.asks_for_check(key.name)
            case _:
                return self._configuration.uses_topology(key.name)


def _in_words(amounts: Mapping[str, int]) -> str:
    """Return amounts in the form of the annotation, sorted: ``nvidia.com/gpu=8, ...``."""
    return ", ".join(
        f"{resource}={quantity.from_canonical(resource, amounts[resource])}"
        for resource in sorted(amounts)
        if amounts[resource]
    )
