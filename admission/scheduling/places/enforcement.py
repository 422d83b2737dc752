"""In which flavors nodes decide, and what a workload therefore needs of nodes.

A flavor without any node decides nothing: an autoscaler may bring the first one. By default nodes
decide for workloads with devices in flavors whose nodes stay as they are (ADR 0261).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from admission.base.names import ClusterQueueName, FlavorName, PodSetName, WorkloadKey
from admission.base.why import NoPlace
from admission.scheduling.model import Enforcement, PodSet, ResourceFlavor, Workload
from admission.scheduling.places import search
from admission.scheduling.places.awaited import AwaitedRoom
from admission.scheduling.places.ledger import NodeLedger
from admission.scheduling.places.model import (
    HOSTNAME,
    BoundPod,
    Node,
    Place,
    PodShape,
    Want,
)

_MOST_HOSTS: Final = 64
_UNDECIDED: Final = (Enforcement.OFF, Enforcement.OFF)
_DECIDING: Final = frozenset({Enforcement.ENFORCE})
_ASSUMING: Final = frozenset({Enforcement.ENFORCE, Enforcement.TELL})


@dataclass(slots=True)
class _FlavorNodes:
    """A flavor and its nodes.

    Attributes:
        scaled: how many of the nodes an autoscaler adds and removes.
    """

    flavor: ResourceFlavor
    nodes: dict[str, None]
    scaled: int = 0


class PodPlaces:
    """Nodes, flavors and promises; answers whether workloads can be placed.

    Attributes:
        ledger: what is free on each node.
        default: what holds for flavors that say nothing; None for what their nodes suggest.
    """

    def __init__(self, default: Enforcement | None = None) -> None:
        self.ledger = NodeLedger()
        self.default = default
        self._flavors: dict[FlavorName, _FlavorNodes] = {}
        self._flavors_of: dict[str, tuple[FlavorName, ...]] = {}
        self._decided: dict[FlavorName, tuple[Enforcement, ...]] = {}
        self._turned: dict[FlavorName, None] = {}
        self._awaited = AwaitedRoom()
        self._shrunk: dict[FlavorName, None] = {}
        """Flavors with fewer nodes than at the last call of `take_helped`."""

    def __bool__(self) -> bool:
        """Return whether any node is known; without nodes nothing is decided here."""
        return bool(self.ledger.nodes)

    # ---------------------------------------------------------------------------------- seeing

    def set_flavor(self, flavor: ResourceFlavor) -> None:
        """Add or replace a flavor."""
        self.drop_flavor(flavor.name)
        entry = self._flavors[flavor.name] = _FlavorNodes(flavor, {})
        for node in self.ledger.nodes.values():
            if _selects(flavor, node):
                self._count(entry, node, 1)
        self._note(flavor.name)

    def drop_flavor(self, name: FlavorName) -> None:
        """Forget a flavor."""
        entry = self._flavors.pop(name, None)
        for node in entry.nodes if entry is not None else ():
            self._flavors_of[node] = tuple(f for f in self._flavors_of[node] if f != name)
        self._note(name)

    def set_node(self, node: Node) -> None:
        """Take a node as it is now."""
        before = self.ledger.nodes.get(node.name)
        self.ledger.set_node(node)
        if before is not None and (before.labels, before.is_scaled) == (
            node.labels,
            node.is_scaled,
        ):
            return
        if before is not None:
            self._leave(before)
        for entry in self._flavors.values():
            if _selects(entry.flavor, node):
                self._count(entry, node, 1)

    def drop_node(self, name: str) -> None:
        """Forget a node."""
        node = self.ledger.nodes.get(name)
        self.ledger.drop_node(name)
        if node is not None:
            self._shrunk.update(dict.fromkeys(self._flavors_of.get(name, ())))
            self._leave(node)
            self._flavors_of.pop(name, None)

    def _leave(self, node: Node) -> None:
        for name in self._flavors_of.get(node.name, ()):
            self._count(self._flavors[name], node, -1)

    def _count(self, entry: _FlavorNodes, node: Node, sign: int) -> None:
        name = entry.flavor.name
        others = tuple(one for one in self._flavors_of.get(node.name, ()) if one != name)
        if sign > 0:
            entry.nodes[node.name] = None
            self._flavors_of[node.name] = (*others, name)
        else:
            entry.nodes.pop(node.name, None)
            self._flavors_of[node.name] = others
        entry.scaled += sign * node.is_scaled
        self._note(name)

    def _note(self, name: FlavorName) -> None:
        """Remember a flavor in which nodes decide otherwise than before."""
        now = tuple(self.enforcement(name, has_devices=one) for one in (True, False))
        if self._decided.get(name, _UNDECIDED) != now:
            self._turned[name] = None
        self._decided[name] = now

    def set_pod(self, uid: str, pod: BoundPod) -> None:
        """Take a pod that is on a node and has not ended."""
        self.ledger.set_pod(uid, pod)

    def drop_pod(self, uid: str) -> None:
        """Forget a pod that has ended or is gone."""
        self.ledger.drop_pod(uid)

    def take_turned(self) -> tuple[FlavorName, ...]:
        """Return the flavors in which nodes decide otherwise than at the last call."""
        turned, self._turned = tuple(self._turned), {}
        return turned

    def await_room(
        self, queue: ClusterQueueName, workload: Workload, no_places: Iterable[NoPlace]
    ) -> None:
        """Note that a workload waits in a queue until nodes have room."""
        pod_sets = {one.name: one for one in workload.pod_sets}
        has_devices = asks_devices(workload)
        for one in no_places:
            pod_set = pod_sets.get(PodSetName(one.pod_set))
            if pod_set is None:
                continue
            flavors = map(FlavorName, one.flavors)
            want = self.want(pod_set, one.count, flavors, has_devices=has_devices)
            if want is not None:
                self._awaited.note(queue, want)

    def forget_waiting(self, queue: ClusterQueueName) -> None:
        """Note that all in a queue are tried again."""
        self._awaited.forget(queue)

    def take_helped(self) -> tuple[ClusterQueueName, ...]:
        """Return the queues in which somebody may have got room since the last call, sorted.

        That is somebody whose pods can be on a node that was changed or that has more free, or
        whose pods are spread over nodes of which one is gone.
        """
        roomier, ledger = self.ledger.take_roomier(), self.ledger
        shrunk, self._shrunk = self._shrunk, {}
        if ledger.take_redeclared():
            return tuple(sorted(self._awaited.queues()))
        helped = self._awaited.concerned(shrunk, lambda shape: bool(shape.needs.spread))
        for name in roomier:

            def may_help(shape: PodShape, node: str = name) -> bool:
                return bool(shape.needs.spread) or ledger.takes(node, shape)

            helped |= self._awaited.concerned(self._flavors_of.get(name, ()), may_help)
        return tuple(sorted(helped))

    # --------------------------------------------------------------------------------- answers

    def enforcement(self, name: FlavorName, *, has_devices: bool) -> Enforcement:
        """Return what nodes decide for workloads in a flavor.

        Args:
            name: of the flavor.
            has_devices: whether the workload asks for devices.
        """
        entry = self._flavors.get(name)
        if entry is None or not entry.nodes:
            return Enforcement.OFF
        chosen = entry.flavor.placement or self.default
        if chosen is not None:
            return chosen
        return Enforcement.ENFORCE if has_devices and not entry.scaled else Enforcement.TELL

    def want(
        self,
        pod_set: PodSet,
        count: int,
        flavors: Iterable[FlavorName],
        *,
        has_devices: bool,
        by: frozenset[Enforcement] = _DECIDING,
    ) -> Want | None:
        """Return what pods need of nodes in flavors; None where nodes decide nothing for them.

        Args:
            pod_set: the pod set.
            count: how many pods.
            flavors: that they would get.
            has_devices: whether the workload asks for devices.
            by: what nodes have to be there for, in each of the flavors.
        """
        needs = pod_set.needs
        if needs is None or not needs.is_known or not self:
            return None
        chosen = tuple(sorted(set(flavors)))
        if not chosen or any(
            self.enforcement(name, has_devices=has_devices) not in by for name in chosen
        ):
            return None
        labels = dict(pod_set.node_selector)
        tolerations = list(pod_set.tolerations)
        for name in chosen:
            flavor = self._flavors[name].flavor
            labels.update(flavor.node_labels)
            tolerations += (one for one in flavor.tolerations if one not in tolerations)
        shape = PodShape(needs, tuple(sorted(labels.items())), tuple(tolerations))
        return Want(pod_set.name, shape, count, chosen)

    def never(self, want: Want) -> NoPlace | None:
        """Return why no node of the flavors could take a pod even if it were empty, or None."""
        return None if self.ledger.rooms(want.shape).takers else self.ledger.why(want)

    def find(self, wants: Sequence[Want]) -> tuple[Place, ...] | None:
        """Return places for all pods; None where they cannot be on nodes at once now."""
        return search.find(self.ledger, wants) if wants else ()

    def fits(self, wants: Sequence[Want]) -> bool:
        """Return whether all pods can be on nodes at once now.

        What the scheduler makes room for by preempting pods on nodes is left to it.
        """
        fits = self.ledger.fits(wants[0]) if len(wants) == 1 else self.find(wants) is not None
        if fits:
            return True
        lacking = search.lacking(self.ledger, wants) or wants
        return all(self.ledger.fits_by_preemption(want) for want in lacking)

    def why(self, wants: Sequence[Want]) -> tuple[NoPlace, ...]:
        """Return why pods cannot be on nodes now: of each pod set that lacks room, else of all."""
        lacking = search.lacking(self.ledger, wants)
        if lacking:
            return tuple(self.ledger.why(want) for want in lacking)
        return tuple(self.ledger.why(want, is_joint=True) for want in wants)

    def promise(
        self,
        workload: Workload,
        counts: Mapping[PodSetName, int],
        flavors: Mapping[PodSetName, Iterable[FlavorName]],
        places: Iterable[Place] = (),
    ) -> None:
        """Promise a workload with quota places for its pods, as far as its nodes are known.

        So it is also where nodes only tell: its pods will be somewhere.
        """
        key = workload.key
        if not self and not self.ledger.is_promised(key):
            return
        has_devices = asks_devices(workload)
        wants = [
            self.want(
                one, counts[one.name], flavors[one.name], has_devices=has_devices, by=_ASSUMING
            )
            for one in workload.pod_sets
            if counts.get(one.name)
        ]
        self.ledger.promise(key, tuple(want for want in wants if want is not None), places)

    def hosts(self, key: WorkloadKey) -> dict[str, tuple[str, ...]]:
        """Return the hostnames of the nodes that a workload is promised, by pod set, sorted.

        No more than `_MOST_HOSTS` of each: a pod that prefers so many prefers none.
        """
        hosts: dict[str, list[str]] = {}
        for place in self.ledger.places(key):
            host = self.ledger.labels(place.node).get(HOSTNAME)
            if host is not None:
                hosts.setdefault(place.pod_set, []).append(host)
        return {
            pod_set: tuple(sorted(found))
            for pod_set, found in hosts.items()
            if len(found) <= _MOST_HOSTS
        }

    def release(self, key: WorkloadKey) -> None:
        """End the promises to a workload."""
        self.ledger.release(key)


def asks_devices(workload: Workload) -> bool:
    """Return whether any pod of a workload asks for devices."""
    return any(one.needs is not None and one.needs.devices for one in workload.pod_sets)


def _selects(flavor: ResourceFlavor, node: Node) -> bool:
    return all(node.labels.get(key) == value for key, value in flavor.node_labels.items())
