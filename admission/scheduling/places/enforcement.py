"""In which flavors nodes decide, and what a workload therefore needs of nodes.

A flavor without any node decides nothing: an autoscaler may bring the first one. By default nodes
decide for workloads with devices in flavors whose nodes stay as they are (ADR 0261).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import Final

from admission.base.causes import NoPlace, TopologyRefusal
from admission.base.names import ChargeKey, ClusterQueueName, FlavorName, PodSetName
from admission.scheduling.model import (
    Enforcement,
    PodDomains,
    PodNeeds,
    PodSet,
    ResourceFlavor,
    Workload,
)
from admission.scheduling.places import contention, search
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
from admission.scheduling.topology.domains import Completed, Topologies, is_usable
from admission.scheduling.topology.request import ANYWHERE, TopologyRequest

_MOST_HOSTS: Final = 64
_NO_NEEDS: Final = PodNeeds()
_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})
_UNDECIDED: Final = (Enforcement.OFF, Enforcement.OFF)
_DECIDING: Final = frozenset({Enforcement.ENFORCE})
_ASSUMING: Final = frozenset({Enforcement.ENFORCE, Enforcement.TELL})


@dataclass(frozen=True, slots=True)
class ChargedPods:
    """Pods of a pod set that are charged while their workload has no quota.

    Attributes:
        pod_set: the pod set.
        count: how many pods, bound or not.
        flavors: that they are charged in.
        selectors: node selectors of those that there are, where a flavor has a topology.
    """

    pod_set: PodSet
    count: int
    flavors: tuple[FlavorName, ...]
    selectors: tuple[Mapping[str, str], ...] = ()


Refusals = tuple[tuple[PodSetName, NoPlace | TopologyRefusal], ...]
"""Why the pods of pod sets cannot be on nodes."""


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
        topologies: the domains of flavors with a topology. They always decide.
    """

    def __init__(self, default: Enforcement | None = None) -> None:
        self.ledger = NodeLedger()
        self.default = default
        self._flavors: dict[FlavorName, _FlavorNodes] = {}
        self.topologies = Topologies(self.ledger, lambda name: self._flavors[name].nodes)
        self._flavors_of: dict[str, tuple[FlavorName, ...]] = {}
        self._decided: dict[FlavorName, tuple[Enforcement, ...]] = {}
        self._turned: dict[FlavorName, None] = {}
        self._awaited = AwaitedRoom()
        self._shaken: dict[ChargeKey, None] = {}
        """Workloads with domains of which a host may be away."""
        self._shrunk: dict[FlavorName, None] = {}
        """Flavors with fewer nodes than at the last call of `take_helped`."""
        self._respared: dict[FlavorName, None] = {}
        """Flavors with other spare nodes than somebody who waits was refused beside."""
        self._budget: search.StepBudget | None = None
        """Of all questions that are asked now; None where each has its own."""

    def __bool__(self) -> bool:
        """Return whether any node is known, or any flavor with a topology.

        Without both nothing is decided here.
        """
        return bool(self.ledger.nodes or self.topologies)

    # ---------------------------------------------------------------------------------- seeing

    def set_flavor(self, flavor: ResourceFlavor) -> None:
        """Add or replace a flavor."""
        self.drop_flavor(flavor.name)
        self.topologies.set_flavor(flavor)
        entry = self._flavors[flavor.name] = _FlavorNodes(flavor, {})
        for node in self.ledger.nodes.values():
            if _selects(flavor, node):
                self._count(entry, node, 1)
        self._note(flavor.name)

    def set_topology(self, name: str, levels: tuple[str, ...]) -> bool:
        """Add or replace a topology; return whether its levels are others than before."""
        is_changed = self.topologies.set_topology(name, levels)
        if is_changed:
            self._turned.update(dict.fromkeys(self.topologies.flavors(name)))
        return is_changed

    def drop_topology(self, name: str) -> None:
        """Forget a topology; nodes of its flavors decide as those of others then."""
        self._turned.update(dict.fromkeys(self.topologies.flavors(name)))
        self.topologies.drop_topology(name)

    def drop_flavor(self, name: FlavorName) -> None:
        """Forget a flavor."""
        entry = self._flavors.pop(name, None)
        self.topologies.drop_flavor(name)
        for node in entry.nodes if entry is not None else ():
            self._flavors_of[node] = tuple(f for f in self._flavors_of[node] if f != name)
        self._note(name)

    def set_node(self, node: Node) -> None:
        """Take a node as it is now."""
        before = self.ledger.nodes.get(node.name)
        self.ledger.set_node(node)
        if before is not None and is_usable(before) != is_usable(node):
            self.topologies.changed(self._flavors_of.get(node.name, ()))
        if before is not None and before.taints != node.taints:
            self._shake(node.name)
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
        self._shake(name)
        self.ledger.drop_node(name)
        if node is not None:
            self._shrunk.update(dict.fromkeys(self._flavors_of.get(name, ())))
            self._leave(node)
            self._flavors_of.pop(name, None)

    def _shake(self, name: str) -> None:
        if self.topologies:
            self._shaken.update(dict.fromkeys(self.ledger.workloads_on(name)))

    def take_shaken(self) -> tuple[ChargeKey, ...]:
        """Return the workloads of which a host may be away since the last call."""
        shaken, self._shaken = tuple(self._shaken), {}
        return shaken

    def _leave(self, node: Node) -> None:
        for name in self._flavors_of.get(node.name, ()):
            self._count(self._flavors[name], node, -1)

    def _count(self, entry: _FlavorNodes, node: Node, sign: int) -> None:
        name = entry.flavor.name
        other_flavors = tuple(
            flavor for flavor in self._flavors_of.get(node.name, ()) if flavor != name
        )
        if sign > 0:
            entry.nodes[node.name] = None
            self._flavors_of[node.name] = (*other_flavors, name)
        else:
            entry.nodes.pop(node.name, None)
            self._flavors_of[node.name] = other_flavors
        entry.scaled += sign * node.is_scaled
        self.topologies.changed((name,))
        if sign > 0 and self.topologies.take_unresolved(name):
            self._turned[name] = None  # the node may have a domain that was assigned before
        self._note(name)

    def _note(self, name: FlavorName) -> None:
        """Remember a flavor in which nodes decide otherwise than before."""
        now = tuple(
            self.enforcement(name, has_devices=has_devices) for has_devices in (True, False)
        )
        if self._decided.get(name, _UNDECIDED) != now:
            self._turned[name] = None
        self._decided[name] = now

    def set_pod(self, uid: str, pod: BoundPod) -> None:
        """Take a pod that is on a node and has not ended."""
        self.ledger.set_pod(uid, pod)

    def end_pod(self, uid: str, pod: BoundPod) -> None:
        """Take a pod of a workload that has succeeded."""
        self.ledger.end_pod(uid, pod)

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
        pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
        has_devices = asks_devices(workload)
        for no_place in no_places:
            pod_set = pod_sets.get(PodSetName(no_place.pod_set))
            if pod_set is None:
                continue
            flavors = map(FlavorName, no_place.flavors)
            want = self.want(
                pod_set,
                no_place.count,
                flavors,
                has_devices=has_devices,
                possible=no_place.possible,
            )
            if want is not None:
                self._awaited.note(queue, want)

    def await_domains(
        self, queue: ClusterQueueName, workload: Workload, flavors: Iterable[FlavorName]
    ) -> None:
        """Note that a workload waits in a queue until a topology of its flavors has room."""
        has_devices = asks_devices(workload)
        for flavor in flavors:
            self._note_spares(flavor)
            for pod_set in workload.pod_sets if self.topologies.levels(flavor) else ():
                want = self.want(pod_set, pod_set.count, (flavor,), has_devices=has_devices)
                if want is not None:
                    self._awaited.note(queue, want)

    def _note_spares(self, flavor: FlavorName) -> None:
        """Note the spare nodes of a flavor beside which pods are refused from now on."""
        is_changed = self.topologies.note_spares(flavor)
        if not self._awaited.awaits(flavor):
            self._respared.pop(flavor, None)
        elif is_changed:
            self._respared[flavor] = None

    def forget_waiting(self, queue: ClusterQueueName) -> None:
        """Note that all in a queue are tried again."""
        self._awaited.forget(queue)

    def take_helped(self) -> tuple[ClusterQueueName, ...]:
        """Return the queues in which somebody may have got room since the last call, sorted.

        That is somebody whose pods can be on a node that was changed or that has more free, or
        whose pods are spread over nodes of which one is gone. Where other nodes are spare than
        before it is everybody in the flavor: a node that becomes spare lets another one be used,
        and one that was spare can be used itself.
        """
        roomier, ledger = self.ledger.take_roomier(), self.ledger
        shrunk, self._shrunk = self._shrunk, {}
        for flavor in self.topologies.with_spares():
            if self._awaited.awaits(flavor):
                self._note_spares(flavor)
        respared, self._respared = self._respared, {}
        if ledger.take_redeclared():
            return tuple(sorted(self._awaited.queues()))
        helped = self._awaited.concerned(shrunk, lambda shape: bool(shape.needs.spread))
        helped |= self._awaited.concerned(respared, lambda _: True)
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

    def grows(self, name: FlavorName) -> bool:
        """Return whether nodes of any size come to a flavor: it has none yet, or an autoscaler."""
        entry = self._flavors.get(name)
        return entry is None or not entry.nodes or entry.scaled > 0

    def may_grow(self, name: FlavorName) -> bool:
        """Return whether nodes may come to a flavor: also where somebody says so by ``Tell``."""
        entry = self._flavors.get(name)
        chosen = None if entry is None else entry.flavor.placement or self.default
        return self.grows(name) or chosen is Enforcement.TELL

    def want(
        self,
        pod_set: PodSet,
        count: int,
        flavors: Iterable[FlavorName],
        *,
        has_devices: bool,
        enforced: frozenset[Enforcement] = _DECIDING,
        possible: tuple[FlavorName, ...] = (),
    ) -> Want | None:
        """Return what pods need of nodes in flavors; None where nodes decide nothing for them.

        So it is in flavors of which one is not known: nobody knows then what its nodes are.

        Args:
            pod_set: the pod set.
            count: how many pods.
            flavors: that they would get.
            has_devices: whether the workload asks for devices.
            enforced: what nodes have to be there for, in each of the flavors that tell which nodes
                the pods may be on.
            possible: other flavors that the pods may get, too. An admission adds the tolerations
                of all flavors to them, so a taint that one of these tolerates may be no obstacle.
        """
        needs = pod_set.needs
        chosen = tuple(sorted(set(flavors)))
        if any(name not in self._flavors for name in chosen):
            return None
        if any(self.topologies.levels(name) for name in chosen):
            request = self._request(pod_set, chosen)
            shape = self._shape(pod_set, needs or _NO_NEEDS, chosen, possible)
            return Want(
                pod_set.name, _of_lasting_tolerations(shape), count, chosen,
                request if request.is_explicit else replace(ANYWHERE, group=request.group),
                possible,
            )  # fmt: skip
        if needs is None or not needs.is_known or not self:
            return None
        if not chosen or any(
            self.enforcement(name, has_devices=has_devices) not in enforced
            for name in self._telling(chosen)
        ):
            return None
        shape = self._shape(pod_set, needs, chosen, possible)
        return Want(pod_set.name, shape, count, chosen, possible=possible)

    def _request(self, pod_set: PodSet, flavors: Iterable[FlavorName]) -> TopologyRequest:
        """How near to each other pods must be: as asked, or by their affinity to each other."""
        request = pod_set.topology or ANYWHERE
        together = () if pod_set.needs is None else pod_set.needs.together
        if request.layers or not together:
            return request
        levels = next(filter(None, map(self.topologies.levels, flavors)))
        if pod_set.count > 1 or (pod_set.needs is not None and pod_set.needs.jointly):
            for key in sorted({*together} - {*levels, HOSTNAME}):
                if self._has_several(key, flavors):
                    return replace(request, required=key, preferred="", unconstrained=False)
        required = next(
            (level for level in reversed(levels) if level in {*together, request.required}), ""
        )
        if not required:
            return request
        return replace(request, required=required, preferred="", unconstrained=False)

    def _has_several(self, label: str, flavors: Iterable[FlavorName]) -> bool:
        """Return whether the nodes of flavors have several values of a label."""
        selected = [self._flavors[name].flavor for name in flavors]
        domains = [
            names
            for names in self.ledger.domains((label,)).values()
            if any(
                all(_selects(flavor, self.ledger.nodes[name]) for flavor in selected)
                for name in names
            )
        ]
        return len(domains) != 1

    def _shape(
        self,
        pod_set: PodSet,
        needs: PodNeeds,
        flavors: tuple[FlavorName, ...],
        possible: tuple[FlavorName, ...],
    ) -> PodShape:
        """A pod with what its flavors add, and with the tolerations of those that it may get."""
        labels = dict(pod_set.node_selector)
        tolerations = list(pod_set.tolerations)
        for name in (*flavors, *possible):
            entry = self._flavors.get(name)
            if entry is None:
                continue
            labels.update(entry.flavor.node_labels if name in flavors else _NO_LABELS)
            tolerations += (
                toleration
                for toleration in entry.flavor.tolerations
                if toleration not in tolerations
            )
        return PodShape(needs, tuple(sorted(labels.items())), tuple(tolerations))

    def never(self, wants: Sequence[Want]) -> Refusals:
        """Return why pods could not be on nodes even if these were empty; nothing if they could.

        Pods whose flavor has no topology are looked at one pod set by one.
        """
        near, others_ = _by_topology(wants)
        refusals = [
            (want.pod_set, self._why(want))
            for want in others_
            if not self.ledger.rooms(want.shape).takers
        ]
        return (*refusals, *(self.topologies.never(near) if near else {}).items())

    @contextmanager
    def sharing(self, budget: search.StepBudget) -> Iterator[None]:
        """Have all questions within a with statement share the steps of a budget.

        They are questions about one workload: one after the other is asked for each flavor and
        each victim, and all of them together may cost no more than a few.
        """
        before, self._budget = self._budget, budget
        try:
            yield
        finally:
            self._budget = before

    def find(self, wants: Sequence[Want]) -> tuple[Place, ...] | None:
        """Return places for all pods; None where they cannot be on nodes at once now.

        Pods that lack a place come first where somebody is supposed to be gone.
        """
        with self.ledger.lacking_placed():
            return self._find(wants)

    def _find(self, wants: Sequence[Want]) -> tuple[Place, ...] | None:
        near, others_ = _by_topology(wants)
        if not near:
            return search.find(self.ledger, wants, self._budget) if wants else ()
        if self._is_scattered(wants):
            return None
        places = self.topologies.find(near)
        if places is None or not others_:
            return places
        self.ledger.take(near, places)
        try:
            search_result = search.find(self.ledger, others_, self._budget)
        finally:
            self.ledger.take(near, places, -1)
        return None if search_result is None else (*places, *search_result)

    def are_contended(
        self,
        wants: Sequence[Want],
        places: Sequence[Place],
        now_us: int,
        beside: Iterable[tuple[Sequence[Want], Sequence[Place]]] = (),
    ) -> bool:
        """Return whether pods of others may take some of these places, or lose theirs to them.

        So far they have no node.

        Args:
            wants: the pods that get the places now.
            places: what `find` returned for them.
            now_us: the present.
            beside: pods and places of others that are not promised yet.
        """
        free = {place.node: self.ledger.free(place.node) for place in places}
        placed = [contention.arrivals(*coming) for coming in self.ledger.coming(free, now_us)]
        placed += [contention.arrivals(*entry, {}) for entry in beside]
        if not placed:
            return False
        new = contention.arrivals(wants, places, {})
        return contention.is_contended(new, [*chain.from_iterable(placed)], free)

    def fits(self, wants: Sequence[Want]) -> bool:
        """Return whether all pods can be on nodes at once now.

        What the scheduler makes room for by preempting pods on nodes is left to it. Pods that lack
        a place come first where somebody is supposed to be gone.
        """
        with self.ledger.lacking_placed():
            return self._fits(wants)

    def _fits(self, wants: Sequence[Want]) -> bool:
        near, _ = _by_topology(wants)
        if near or len(wants) > 1 or (wants and wants[0].shape.needs.together):
            fits = self._find(wants) is not None
        else:
            fits = not wants or self.ledger.fits(wants[0])
        if fits or near or any(want.shape.needs.jointly for want in wants):
            return fits
        places, left = search.unplaced(self.ledger, wants)
        self.ledger.take(wants, places)
        try:
            return bool(left) and all(map(self.ledger.fits_by_preemption, left))
        finally:
            self.ledger.take(wants, places, -1)

    def _is_scattered(self, wants: Sequence[Want]) -> bool:
        """Return whether pod sets that must be in one domain got flavors of several topologies."""
        joint = [want for want in wants if want.shape.needs.jointly]
        flavors = {next(filter(self.topologies.levels, want.flavors), "") for want in joint}
        return len(flavors) > 1

    def why(self, wants: Sequence[Want]) -> Refusals:
        """Return why pods cannot be on nodes now: of each pod set that lacks room, else of all."""
        near, others_ = _by_topology(wants)
        refused = self.topologies.refused(near) if near else {}
        if refused:
            return tuple(refused.items())
        if self._is_scattered(wants):
            return tuple((want.pod_set, self._why(want, is_joint=True)) for want in wants)
        lacking = search.lacking(self.ledger, others_)
        if lacking:
            return tuple((want.pod_set, self._why(want)) for want in lacking)
        is_joint = len(others_) > 1 or any(want.shape.needs.jointly for want in others_)
        return tuple((want.pod_set, self._why(want, is_joint=is_joint)) for want in others_)

    def _why(self, want: Want, *, is_joint: bool = False) -> NoPlace:
        """Return why pods cannot be on nodes, with the flavors that tell which nodes these are.

        The nodes that are there are no limit where an autoscaler brings others to all of these.
        """
        no_place, telling = self.ledger.why(want, is_joint=is_joint), self._telling(want.flavors)
        if telling != want.flavors:
            no_place = replace(no_place, telling=telling)
        if want.possible:
            no_place = replace(no_place, possible=want.possible)
        if all(self.grows(name) for name in telling):
            no_place = replace(no_place, largest=None, at_most=None)
        return no_place

    def _telling(self, flavors: tuple[FlavorName, ...]) -> tuple[FlavorName, ...]:
        """Return the flavors that tell which nodes pods of all of them may be on.

        A flavor that selects all nodes of another one and more says nothing beside it.
        """
        if len(flavors) == 1:
            return flavors
        labels = {name: self._flavors[name].flavor.node_labels.items() for name in flavors}
        return tuple(
            name for name in flavors if not any(labels[name] < labels[other] for other in flavors)
        )

    def promise(
        self,
        workload: Workload,
        counts: Mapping[PodSetName, int],
        flavors: Mapping[PodSetName, Iterable[FlavorName]],
        places: Iterable[Place] = (),
        domains: Mapping[PodSetName, PodDomains] = MappingProxyType({}),
    ) -> None:
        """Promise a workload with quota places for its pods, as far as its nodes are known.

        So it is also where nodes only tell: its pods will be somewhere.

        Args:
            workload: the workload.
            counts: its pods that need a place, by pod set.
            flavors: those that it got, by pod set.
            places: where its pods are to be; none where that is not known.
            domains: that are assigned to it; they tell where its pods are to be, too.
        """
        key = workload.key
        self.ledger.stay(key)
        if not self and not self.ledger.is_promised(key):
            return
        has_devices = asks_devices(workload)
        wants = [
            self.want(
                pod_set,
                counts[pod_set.name],
                flavors[pod_set.name],
                has_devices=has_devices,
                enforced=_ASSUMING,
            )
            for pod_set in workload.pod_sets
            if counts.get(pod_set.name)
        ]
        needed = tuple(want for want in wants if want is not None)
        places_given = tuple(places)
        pod_sets_placed = {place.pod_set for place in places_given}
        for want in needed:
            if (
                want.request is not None
                and want.pod_set in domains
                and want.pod_set not in pod_sets_placed
            ):
                assigned = self.ledger.assigned(key, want.pod_set)
                places_found = self.topologies.places(want, domains[want.pod_set], assigned)
                places_given += places_found
                count = sum(count for _, count in domains[want.pod_set].counts)
                if sum(place.count for place in places_found) < count or any(
                    self.ledger.nodes[place.node].taints for place in places_found
                ):
                    self._shaken[key] = None
        self.ledger.promise(key, needed, places_given)

    def promise_charged(self, key: ChargeKey, pods: Sequence[ChargedPods]) -> None:
        """Promise places to pods that are charged while their workload has no quota.

        They were released for the places that it was promised, so these go on. What is kept for
        the workload is kept beside them, and it stays told to leave.

        Args:
            key: the workload.
            pods: its pods.
        """
        if not self and not self.ledger.is_promised(key):
            return
        before = {want.pod_set: want for want in self.ledger.wants(key)}
        has_devices = any(each.pod_set.needs and each.pod_set.needs.devices for each in pods)
        wants: list[Want] = []
        places: list[Place] = []
        for each in pods:
            want = self.want(
                each.pod_set,
                each.count,
                each.flavors,
                has_devices=has_devices,
                enforced=_ASSUMING,
            )
            if want is None:
                continue
            was = before.get(want.pod_set)
            if was is None or not _is_alike(was, want):
                places += self._in_selected_domains(want, each.selectors)
            else:
                want = replace(was, count=want.count)
                places += self._promised(key, was)
            wants.append(want)
        self.ledger.promise(key, tuple(wants), places)

    def _promised(self, key: ChargeKey, want: Want) -> Iterator[Place]:
        """Yield where pods of a workload are to be; with domains also those that are there."""
        if want.request is None:
            yield from (each for each in self.ledger.places(key) if each.pod_set == want.pod_set)
        for name, count in self.ledger.assigned(key, want.pod_set).items():
            yield Place(want.pod_set, name, count)

    def _in_selected_domains(
        self, want: Want, selectors: Sequence[Mapping[str, str]]
    ) -> tuple[Place, ...]:
        """Return places in the domains that pods select, and near these for the other pods.

        Where the other pods have no room they get no places. None has where no flavor has a
        topology.
        """
        if want.request is None:
            return ()
        selecting = [(selector, "") for selector in selectors]
        for count in dict.fromkeys((want.count, min(want.count, len(selecting)))):
            answer = self.topologies.completed(replace(want, count=count), selecting[:count])
            if isinstance(answer, Completed):
                return self.topologies.places(want, answer.domains, {})
        return ()

    def hosts(self, key: ChargeKey) -> dict[str, tuple[str, ...]]:
        """Return the hostnames of the nodes that a workload is promised, by pod set, sorted.

        No more than `_MOST_HOSTS` of each: a pod that prefers so many prefers none.
        """
        hosts: dict[str, list[str]] = {}
        for place in self.ledger.places(key):
            host = self.ledger.labels(place.node).get(HOSTNAME)
            if host is not None:
                hosts.setdefault(place.pod_set, []).append(host)
        return {
            pod_set: tuple(sorted(names_))
            for pod_set, names_ in hosts.items()
            if len(names_) <= _MOST_HOSTS
        }

    def leave(self, key: ChargeKey, now_us: int) -> None:
        """End the promises to a workload that is told to leave, but for pods on their way."""
        self.ledger.leave(key, now_us)

    def release(self, key: ChargeKey) -> None:
        """End the promises to a workload."""
        self.ledger.release(key)


def _of_lasting_tolerations(shape: PodShape) -> PodShape:
    """A pod that is assigned its host: it can stay only where it tolerates all taints for ever.

    Once its pods are removed the host is lost, and whoever else is assigned it would lose it, too.
    """
    lasting = tuple(toleration for toleration in shape.tolerations if not toleration.is_for_a_time)
    return shape if lasting == shape.tolerations else replace(shape, tolerations=lasting)


def _by_topology(wants: Sequence[Want]) -> tuple[tuple[Want, ...], tuple[Want, ...]]:
    """Pods that are placed in domains of a topology, and all others."""
    near = tuple(want for want in wants if want.request is not None)
    return near, tuple(want for want in wants if want.request is None) if near else tuple(wants)


def _is_alike(left: Want, right: Want) -> bool:
    """Return whether pods have the same flavors, and are placed in domains or are not."""
    return left.flavors == right.flavors and (left.request is None) == (right.request is None)


def asks_devices(workload: Workload) -> bool:
    """Return whether any pod of a workload asks for devices."""
    return any(
        pod_set.needs is not None and pod_set.needs.devices for pod_set in workload.pod_sets
    )


def _selects(flavor: ResourceFlavor, node: Node) -> bool:
    return all(node.labels.get(key) == value for key, value in flavor.node_labels.items())
