"""Pods that are being deleted: whether they may still run, and who waits for their end."""

from datetime import datetime

from admission.base import clock as clocks
from admission.base.clock import Clock
from admission.base.names import WorkloadKey
from admission.config.gpu_configuration import GpuConfiguration
from admission.controller.devices.node_inventory import NodeInventory
from admission.objects import views
from admission.owners import pod as pod_owner


class PodEndings:
    """Pods that are being deleted, by the node that they are bound to."""

    def __init__(self, inventory: NodeInventory, clock: Clock, settings: GpuConfiguration) -> None:
        """Prepare for pods that are seen.

        Args:
            inventory: knows which nodes are lost.
            clock: source of time.
            settings: say when a pod that is being deleted counts as ended.
        """
        self._inventory = inventory
        self._clock = clock
        self._settings = settings
        self._on: dict[str, dict[str, WorkloadKey]] = {}
        """By node and by uid, the key that waits for the pod's end."""

    def on_update(self, pod: views.Pod, key: WorkloadKey) -> None:
        """Take a pod as it is now.

        Args:
            pod: the pod.
            key: key of its Workload, which is reconciled again when its node is lost.
        """
        if pod_owner.may_run_on(pod):
            self._on.setdefault(pod.spec.node_name, {})[pod.metadata.uid] = key
        else:
            self.on_delete(pod)

    def on_delete(self, pod: views.Pod) -> None:
        """Take the news that a pod is gone."""
        pods_on_node = self._on.get(pod.spec.node_name)
        if pods_on_node is not None:
            pods_on_node.pop(pod.metadata.uid, None)
            if not pods_on_node:
                del self._on[pod.spec.node_name]

    def on_node(self, name: str) -> tuple[WorkloadKey, ...]:
        """Return the keys that wait for the end of pods on a node."""
        return tuple(dict.fromkeys(self._on.get(name, {}).values()))

    def is_awaited(self, pod: views.Pod) -> bool:
        """Return whether the end of a pod that is being deleted matters."""
        return pod_owner.may_run_on(pod) and not self._settings.releases_on_deletion

    def is_ending(self, pod: views.Pod) -> bool:
        """Return whether a pod is being deleted and may still run."""
        if not pod.metadata.deletion_timestamp:
            return False
        free_at = self.free_at(pod)
        return free_at is None or self._clock.now() < free_at

    def free_at(self, pod: views.Pod) -> datetime | None:
        """Return when the quota of a pod that is being deleted is free; None for its end."""
        ends = clocks.from_wire(pod.metadata.deletion_timestamp or "")
        if not self.is_awaited(pod):
            return datetime.min.replace(tzinfo=ends.tzinfo)
        after = self._settings.lost_node_after
        return self._inventory.lost_nodes.frees_at(pod.spec.node_name, ends, after)
