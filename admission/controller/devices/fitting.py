"""What a pod asks of one node, beside what the nodes have that it may get.

It decides nothing: quota is given however the nodes are, and nodes may come. It is told to people.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from admission.base import causes, names
from admission.base.causes import LargestNode
from admission.base.conditions import WaitReason
from admission.base.errors import InvalidValueError
from admission.base.names import FlavorName, ResourceName
from admission.controller.devices.capacity import is_gpu
from admission.controller.devices.node_inventory import NodeInventory
from admission.controller.queues.configuration import WatchedConfiguration
from admission.gpu import resources as gpu_resources
from admission.objects import caps, pods
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.workload import PodSet, Workload
from admission.scheduling import shortages
from admission.scheduling.decisions import Wait
from admission.scheduling.model import Enforcement
from admission.scheduling.places.enforcement import PodPlaces


class Fitting:
    """Tells of pods that no node can take.

    Attributes:
        are_nodes_known: whether all nodes were listed, and what they publish of their devices.
    """

    def __init__(
        self, inventory: NodeInventory, places: PodPlaces, configuration: WatchedConfiguration
    ) -> None:
        """Prepare.

        Args:
            inventory: nodes with GPUs.
            places: knows to which flavors nodes are added.
            configuration: flavors as last seen.
        """
        self._inventory = inventory
        self._places = places
        self._configuration = configuration
        self.are_nodes_known = False

    def largest_nodes(self, flavor: str) -> Mapping[str, int] | None:
        """Return the most of each device that one node of a flavor has; None if not yet known.

        Nothing is returned of a flavor whose nodes do not decide what is admitted: larger ones may
        come.
        """
        if not self.are_nodes_known:
            return None
        decides = self._places.enforcement(FlavorName(flavor), has_devices=True)
        if decides is not Enforcement.ENFORCE:
            return {}
        largest = self._inventory.largest_nodes(flavor)
        return {
            name: amount for name, amount in largest.items() if not gpu_resources.is_virtual(name)
        }

    def of_waiting(
        self,
        workload: Workload | None,
        wait: Wait,
        queue: ClusterQueue | None,
        reason: str = "",
    ) -> tuple[LargestNode, ...]:
        """Return the largest nodes, where a pod of what lacks quota asks for more than they have.

        Where it asks for more than its queue can ever have, too, they are the smaller limit.

        Args:
            workload: that waits.
            wait: why it waits.
            queue: where it waits.
            reason: of its condition, where that and not the wait tells it; empty for the latter.

        Returns:
            One for each flavor; none where a node has enough, where no node of a flavor is known
            that it may get, and where quota is the smaller limit.
        """
        told_reason = reason or wait.reason
        if workload is None or queue is None or not self._may_exceed(wait, told_reason):
            return ()
        short = {shortage.pod_set for shortage in wait.shortages}
        is_never = told_reason == WaitReason.EXCEEDS_MAX_QUOTA
        for pod_set in workload.spec.pod_sets or ():
            if pod_set.name not in short:
                continue
            flavors = set(_possible(wait, pod_set, queue))
            if is_never:
                flavors -= _without_quota(wait, pod_set)
            beyond = self._beyond(pod_set, sorted(flavors))
            if beyond and (not is_never or _are_nodes_smaller(wait, pod_set, beyond)):
                return tuple(beyond)
        return ()

    def may_exceed(self, wait: Wait) -> bool:
        """Return whether the pods of a pod set together ask for more than any node has.

        Only then one of them may. It looks at no pod template, so it costs little.
        """
        return self._may_exceed(wait, wait.reason)

    def _may_exceed(self, wait: Wait, reason: str) -> bool:
        return reason in _OF_QUOTA and any(
            (has := self._largest_node(shortage.flavor, shortage.resource)) is not None
            and shortage.requested > has
            for shortage in wait.shortages
        )

    def of_admitted(
        self, workload: Workload
    ) -> causes.BeyondNodes | causes.NoNodeFree | causes.NodeAwaited | None:
        """Return why no node takes a pod of an admitted Workload; None where one may.

        How large nodes are that an autoscaler adds is not known.
        """
        admission = workload.status.admission
        assigned = (admission.pod_set_assignments if admission else None) or ()
        flavors = {
            assignment.name: _deciding((assignment.flavors or {},)) for assignment in assigned
        }
        pod_sets = workload.spec.pod_sets or ()
        deciding = _deciding(assignment.flavors or {} for assignment in assigned)
        awaited = next(filter(self._places.grows, deciding), None)
        if awaited is not None:
            return causes.NodeAwaited(awaited)
        for pod_set in pod_sets:
            for flavor in flavors.get(pod_set.name, ()):  # it runs on nodes of all of them
                beyond = self._beyond(pod_set, (flavor,))
                if beyond:
                    return causes.BeyondNodes(tuple(beyond))
        for flavor in filter(self._places.may_grow, deciding):
            return causes.NodeAwaited(flavor)
        lacking = [
            self._lacks_hole(pod_set, flavors.get(pod_set.name, ())) for pod_set in pod_sets
        ]
        return lacking[0] if lacking and all(lacking) else None

    def _beyond(self, pod_set: PodSet, flavors: Iterable[str]) -> list[LargestNode]:
        """Return what a pod asks of a device that no node has; empty where it is not known."""
        listed = tuple(flavors)
        for resource, asks in _asks(pod_set).items():
            largest = {flavor: self._largest_node(flavor, resource) for flavor in listed}
            nodes = [
                LargestNode(resource, flavor, asks, has)
                for flavor, has in largest.items()
                if has is not None and has < asks
            ]
            if nodes and len(nodes) == len(listed):
                return nodes
        return []

    def _largest_node(self, flavor: str, resource: str) -> int | None:
        """Return the most of a device that one node of a flavor has; None if that is not known.

        A process that stands by looks at no nodes; it takes what the leader wrote on the flavor.
        """
        has = self._inventory.largest_node(flavor, resource)
        if has is not None or self.are_nodes_known:
            return has
        view = self._configuration.flavors.get(flavor)
        written = {} if view is None else caps.readable(view.metadata, names.LARGEST_NODE)
        return written.get(ResourceName(resource))

    def _lacks_hole(self, pod_set: PodSet, flavors: Iterable[str]) -> causes.NoNodeFree | None:
        """Return that no node has as much free as a pod asks for; None where one has."""
        for resource, asks in _asks(pod_set).items():
            for flavor in flavors:
                hole = self._inventory.largest_hole(flavor, resource)
                if hole is not None and hole < asks:
                    return causes.NoNodeFree(resource, flavor, asks)
        return None


_OF_QUOTA: Final = frozenset({WaitReason.WAITING_FOR_QUOTA, WaitReason.EXCEEDS_MAX_QUOTA})


def _without_quota(wait: Wait, pod_set: PodSet) -> set[str]:
    """Return the flavors of which there can be no devices for a pod set."""
    return {
        shortage.flavor
        for shortage in wait.shortages
        if shortage.pod_set == pod_set.name and is_gpu(shortage.resource) and not shortage.limit
    }


def _are_nodes_smaller(wait: Wait, pod_set: PodSet, nodes: Iterable[LargestNode]) -> bool:
    """Return whether what a pod of a pod set can get of one node is the smaller limit."""
    limits: dict[tuple[str, str], int] = {
        (shortage.flavor, shortage.resource): shortage.limit
        for shortage in wait.shortages
        if shortage.pod_set == pod_set.name
    }
    return shortages.are_nodes_smaller(nodes, limits, pod_set.count)


def _deciding(assigned: Iterable[Mapping[str, str]]) -> tuple[FlavorName, ...]:
    """Return the flavors whose nodes decide: those of GPUs; where none are given, all."""
    pairs = [(resource, flavor) for flavors in assigned for resource, flavor in flavors.items()]
    of_gpus = [flavor for resource, flavor in pairs if is_gpu(resource)]
    flavors_given = of_gpus or [flavor for _, flavor in pairs]
    return tuple(dict.fromkeys(map(FlavorName, flavors_given)))


def _asks(pod_set: PodSet) -> Mapping[str, int]:
    """Return the devices that a pod asks for, by name; of what cannot be read none."""
    try:
        return dict(sorted(pods.gpus_of(pod_set.template.spec).items()))
    except InvalidValueError:
        return {}


def _possible(wait: Wait, pod_set: PodSet, queue: ClusterQueue) -> Iterator[str]:
    """Yield the flavors that a pod set may get once there is quota.

    They are those in which it is short of it, and those that were not tried this time.
    """
    short = {
        str(shortage.flavor) for shortage in wait.shortages if shortage.pod_set == pod_set.name
    }
    refused = _tried(wait) - short
    for group in queue.spec.resource_groups or ():
        names = [flavor.name for flavor in group.flavors]
        if not short.isdisjoint(names):
            yield from (name for name in names if name not in refused)


def _tried(wait: Wait) -> frozenset[str]:
    """Return the flavors that were refused or short when the Workload was tried the last time."""
    reason = wait.why
    if not isinstance(reason, causes.NoFlavor | causes.PendingPreemption):
        return frozenset()
    flavors: set[str] = set()
    for _, refusals in reason.pod_sets:
        for refusal in refusals:
            if isinstance(refusal, causes.NoPlace):
                flavors.update(refusal.flavors)
            elif not isinstance(
                refusal,
                (
                    causes.NotCovered,
                    causes.NoTopologyGiven,
                    causes.CapReached,
                    causes.ExceedsCap,
                    *causes.OF_DOMAINS,
                ),
            ):
                flavors.add(refusal.flavor)
    return frozenset(flavors)
