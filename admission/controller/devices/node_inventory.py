"""The GPUs of the cluster as the controller sees them: nodes, their agents, and pods on them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any, Final, NamedTuple

from admission.base import conditions, events, names, quantity
from admission.base.clock import Clock
from admission.base.events import Events
from admission.controller.devices import capacitymetrics
from admission.controller.devices.capacity import CapacityByFlavor
from admission.controller.devices.capacity_guard import AvailableDevices, CapacityGuard
from admission.controller.devices.lost_nodes import LostNodes
from admission.controller.devices.node_places import NodePlaces
from admission.controller.devices.slice_inventory import SliceInventory
from admission.controller.seeing import informers
from admission.controller.seeing.informers import Informer
from admission.gpu import capacity
from admission.gpu import resources as gpu_resources
from admission.gpu.capacity import Fragmentation
from admission.gpu.health import DeviceReading
from admission.gpu.inventory import GpuNode, GpuPod, NodeStock
from admission.gpu.nodes import NodeFacts
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import (
    condition_list,
    koordinator,
    nodes,
    pods,
    resource_claim,
    resource_slice,
    views,
)
from admission.objects.bound_pod import Outside
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.resource_claim import ObjectKey
from admission.reasons import added_conditions, placing
from admission.reasons.placing import SickDevices
from admission.scheduling.model import Taint

_PUBLISH_SECONDS: Final = 5.0
_REASONS: Final = 3
_NO_CLAIMS: Final[frozenset[ObjectKey]] = frozenset()
_MAY_BE_WELL: Final = frozenset({capacity.CORDONED, capacity.NOT_READY})


class _Seen(NamedTuple):
    """The result of checking every node of a flavor.

    Attributes:
        pieces: what is free, by resource.
        largest: the most that one node has that takes its pods, by resource.
        hardware: the same of all its nodes, cordoned ones included.
        reasons: why GPUs do not count, or are counted with care; the first few.
    """

    pieces: Mapping[str, Fragmentation]
    largest: Mapping[str, int]
    hardware: Mapping[str, int]
    reasons: tuple[str, ...]


_NOTHING_SEEN: Final = _Seen({}, {}, {}, ())


def _ignore() -> None:
    """Nobody wants to know."""


class NodeInventory:
    """Tracks the GPUs of nodes, and what follows from them for ClusterQueues.

    Attributes:
        informers: what watches must be told to, by resource.
        lost_nodes: nodes on which nothing runs any more.
    """

    def __init__(
        self,
        capacities: CapacityByFlavor,
        guard: CapacityGuard,
        clock: Clock,
        places: NodePlaces,
        recorder: Events,
        *,
        on_news: Callable[[], None] = _ignore,
    ) -> None:
        """Know of no node.

        Args:
            capacities: GPUs of nodes, by flavor.
            guard: is told what there is.
            clock: the present.
            places: tell of pods that no queue admitted.
            recorder: takes the events of nodes.
            on_news: is told of a node that says something new of its devices or its state.
        """
        self._capacities = capacities
        self._guard = guard
        self._clock = clock
        self._places = places
        self._recorder = recorder
        self._told_sick: dict[str, dict[str, int]] = {}
        """Sick devices of nodes as they were told last, where there are any."""
        self._devices: dict[str, tuple[DeviceReading, ...]] = {}
        self._seen: dict[str, _Seen] = {}
        self._reworded: set[str] = set()
        self._is_resized = False
        self._looked_at = frozenset[str]()
        self._bare: dict[str, tuple[NodeFacts, tuple[Taint, ...]]] = {}
        self._slice_inventory = SliceInventory()
        self._claims_outside: dict[str, frozenset[ObjectKey]] = {}
        """ResourceClaims of pods that no queue admitted, by UID."""
        places.on_outside = self._see_outside
        self.lost_nodes = LostNodes()
        self._on_news = on_news
        self._publisher = capacitymetrics.Publisher()
        self._published, self._published_version = -_PUBLISH_SECONDS, 0
        self.informers: Mapping[Resource, Informer[Any]] = {
            resources.NODES: Informer("Node", self._see_node, self._lose_node, slim=True),
            resources.DEVICES: Informer("Device", self._see_device, self._lose_device, slim=True),
            resources.RESOURCE_SLICES: Informer(
                "ResourceSlice", self._see_slice, self._lose_slice, slim=True
            ),
        }

    def on_pod_update(self, pod: views.Pod, *, outside: bool = False) -> None:
        """Take a pod as it is now.

        Args:
            pod: the pod.
            outside: whether no queue is charged for it.

        Raises:
            InvalidValueError: a quantity cannot be read.
        """
        uid, node = pod.metadata.uid, pod.spec.node_name
        if pods.has_ended(pod):
            self._places.end_pod(uid)
        if pods.has_ended(pod) or not self._capacities.has_pod(uid, node, outside=outside):
            queue = "" if outside else pod.metadata.label(names.CLUSTER_QUEUE_NAME_LABEL)
            holder = GpuPod(
                namespace=pod.metadata.namespace, name=pod.metadata.name,
                amounts=pods.held_gpus(pod), outside=outside, queue=queue,
            )  # fmt: skip
            self._capacities.set_pod(uid, node, holder)

    def node_labels(self, name: str) -> dict[str, str]:
        """Return the labels of a node with GPUs; of any other node none."""
        return dict(self._capacities.node_labels(name))

    def on_pod_delete(self, uid: str) -> None:
        """Handle a pod that is gone, or is none of ours any more."""
        self._capacities.set_pod(uid, "", None)

    def on_pod_end(self, uid: str) -> None:
        """Handle a pod that is certainly gone."""
        self._places.end_pod(uid)

    @property
    def version(self) -> int:
        """Return a number that grows with every change of GPUs, or of who holds them."""
        return self._capacities.version

    def stock(self) -> tuple[NodeStock, ...]:
        """Return what each node with GPUs has, by name."""
        return self._capacities.stock()

    def named(self, names_: Iterable[str]) -> tuple[GpuNode, ...]:
        """Return nodes with the holders of their GPUs; see `CapacityByFlavor.named`."""
        return self._capacities.named(names_)

    def _see_outside(self, uid: str, pod: Outside | None) -> None:
        """Take what a bound pod holds that no queue admitted; None where that is nothing."""
        version, before = self._capacities.version, self._claims_outside.pop(uid, _NO_CLAIMS)
        if pod is None:
            self._capacities.set_other(uid, "", {})
        else:
            self._capacities.set_other(uid, pod.node, pod.devices)
        claims = _NO_CLAIMS if pod is None else pod.claims
        if claims:
            self._claims_outside[uid] = claims
        if claims != before:
            for node in self._slice_inventory.set_outside(uid, before, claims):
                self._set_allocated(node)
        if self._capacities.version != version:
            self._on_news()

    def on_claim_update(self, claim: resource_claim.ResourceClaim) -> None:
        """Take a ResourceClaim, which may have been given GPUs."""
        for node in self._slice_inventory.set_claim(
            informers.key_of(claim), resource_claim.given(claim)
        ):
            self._set_allocated(node)

    def allocated_by(self, claim: resource_claim.ResourceClaim) -> dict[str, int]:
        """Return the GPUs that a ResourceClaim was given, by resource."""
        return self._slice_inventory.counted(resource_claim.given(claim))

    def on_claim_delete(self, claim: views.Object) -> None:
        """Handle the deletion of a ResourceClaim: what it held is free."""
        for node in self._slice_inventory.set_claim(informers.key_of(claim), ()):
            self._set_allocated(node)

    def settle(self) -> frozenset[str]:
        """Process what was seen; return the ClusterQueues whose condition may differ."""
        due = self._capacities.settles_at_us()
        if due is not None and due <= self._now_us():
            self._capacities.settle(self._now_us())
        for name in self._capacities.take_judged():
            self._places.set_usable(name, self._capacities.usable(name))
            self._tell_sick(name)
        self._publish()
        return self._guard.settle()

    def _tell_sick(self, name: str) -> None:
        """Tell a node how many of its devices are sick, where that is news.

        Those of a node that is only cordoned or not Ready are not sick: others tell of it.
        """
        part = self._capacities.on_node(name)
        if part is None or (part.reasons and _MAY_BE_WELL.issuperset(part.reasons)):
            return
        sick = {key: n for key, n in part.sick.items() if gpu_resources.is_device(key)}
        before = self._told_sick.pop(name, {})
        if sick:
            self._told_sick[name] = sick
        for device in sorted(before.keys() | sick.keys()):
            amount, total = sick.get(device, 0), part.units.get(device, 0) + sick.get(device, 0)
            if amount == before.get(device, 0):
                continue
            why = placing.why_sick(SickDevices(name, amount, part.reasons, ""))
            event = (
                events.devices_sick(device, amount, total, why, name)
                if amount
                else events.devices_well(device, total)
            )
            self._recorder.event(_reference(name), event)

    def take_present(self) -> dict[str, AvailableDevices | None]:
        """Return ClusterQueues whose device names changed; None for one no longer guarded."""
        return self._guard.take_present()

    def take_reworded(self) -> frozenset[str]:
        """Return ClusterQueues whose condition has another text but the same amounts."""
        reworded, self._reworded = frozenset(self._reworded), set()
        return reworded

    def take_resized(self) -> bool:
        """Return whether the largest node of a flavor has become another one since the last call.

        It looks once in a while, as `largest_node` does.
        """
        is_resized, self._is_resized = self._is_resized, False
        return is_resized

    @property
    def is_current(self) -> bool:
        """Return whether the nodes of all flavors were looked at since the last change."""
        return self._publishes_in() is None

    def take_looked_at(self) -> frozenset[str]:
        """Return the flavors whose nodes were looked at since the last call."""
        looked_at, self._looked_at = self._looked_at, frozenset()
        return looked_at

    def largest_nodes(self, flavor: str) -> Mapping[str, int]:
        """Return the most of each device that one node of a flavor has, cordoned or not."""
        return self._of(flavor).hardware

    def largest_node(self, flavor: str, resource: str) -> int | None:
        """Return the most of a device that one node of a flavor has; None if none has any."""
        return self._of(flavor).largest.get(resource)

    def largest_hole(self, flavor: str, resource: str) -> int | None:
        """Return the most of a device that is free on one node of a flavor; None likewise."""
        pieces_of_resource = self._of(flavor).pieces.get(resource)
        return None if pieces_of_resource is None else pieces_of_resource.largest

    def next_due_in(self) -> float | None:
        """Return the seconds until `settle` has something to do without any message."""
        settles, publishes = self._capacities.settles_at_us(), self._publishes_in()
        moments = [] if publishes is None else [publishes]
        if settles is not None:
            moments.append(max(0.0, (settles - self._now_us()) / 1e6))
        return min(moments, default=None)

    def condition(self, queue: ClusterQueue, now: datetime) -> views.Condition | None:
        """Return whether a ClusterQueue promises no more GPUs than exist.

        Return None where it is unknown.
        """
        shortages_now = self._guard.shortages(queue.metadata.name)
        if shortages_now is None:
            return None
        pairs = self._guard.promised(queue.metadata.name)
        short = {shortage.pair for shortage in shortages_now}
        kept = {
            pair: amount
            for pair in pairs
            if pair not in short
            and (amount := self._capacities.capacity(pair.flavor).kept.get(pair.resource, 0))
        }
        texts = [
            added_conditions.held_where_nothing_starts(
                pair.resource, pair.flavor, quantity.in_words(pair.resource, amount)
            )
            for pair, amount in kept.items()
        ]
        flavors = dict.fromkeys(
            (
                *(shortage.pair.flavor for shortage in shortages_now),
                *(pair.flavor for pair in kept),
            )
        )
        texts += [text for flavor in flavors for text in self._of(flavor).reasons]
        texts += [text for pair in pairs if (text := self._in_pieces(*pair))]
        named = {shortage.pair.flavor for shortage in shortages_now if shortage.overlaps}
        overlaps = self._guard.overlaps(queue.metadata.name)
        texts += [
            added_conditions.overlapping(flavor, rivals)
            for flavor, rivals in overlaps.items()
            if flavor not in named
        ]
        shortages = [shortage.text for shortage in shortages_now]
        return condition_list.make(
            conditions.CAPACITY_SUFFICIENT,
            added_conditions.quota_exceeds_capacity(shortages, texts)
            if shortages
            else added_conditions.capacity_sufficient(texts),
            status=not shortages_now,
            now=now,
            generation=queue.metadata.generation,
        )

    def _of(self, flavor: str) -> _Seen:
        return self._seen.get(flavor, _NOTHING_SEEN)

    def _in_pieces(self, flavor: str, resource: str) -> str:
        pieces_of_resource = self._of(flavor).pieces.get(resource)
        is_told = pieces_of_resource is not None and not pieces_of_resource.is_whole
        return (
            added_conditions.fragmented(resource, flavor, pieces_of_resource.text)
            if pieces_of_resource and is_told
            else ""
        )

    def _publish(self) -> None:
        """Looks at every node of each flavor, so not with every change."""
        if (due := self._publishes_in()) is None or due > 0:
            return
        self._published = self._clock.monotonic()
        self._published_version = self._capacities.version
        before, flavors = self._seen, self._capacities.flavors()
        self._seen = {name: self._look_at(name) for name in flavors}
        self._looked_at |= before.keys() | self._seen.keys()
        changed = {name for name, seen in self._seen.items() if seen != before.get(name)}
        self._reworded |= self._guard.promising(changed)
        self._is_resized |= any(
            self._of(name).largest != before.get(name, _NOTHING_SEEN).largest for name in changed
        )
        capacities = {name: self._capacities.capacity(name) for name in flavors}
        self._publisher.publish(capacities, {n: seen.pieces for n, seen in self._seen.items()})

    def _look_at(self, flavor: str) -> _Seen:
        reasons = list(islice(self._capacities.reasons(flavor), _REASONS + 1))
        if len(reasons) > _REASONS:
            reasons[_REASONS:] = [added_conditions.AND_MORE_NODES]
        return _Seen(
            self._capacities.fragmentation(flavor),
            self._capacities.largest_nodes(flavor),
            self._capacities.largest_nodes(flavor, with_repelled=True),
            tuple(reasons),
        )

    def _publishes_in(self) -> float | None:
        if self._published_version == self._capacities.version:
            return None
        return max(0.0, self._published + _PUBLISH_SECONDS - self._clock.monotonic())

    # -------------------------------------------------------------------------------- watched

    def _see_node(self, view: views.Node) -> None:
        name = view.metadata.name
        is_news = self.lost_nodes.on_update(view)
        facts = nodes.node_facts(
            view, self._devices.get(name), self._slice_inventory.published(name)
        )
        if self._set_facts(facts, nodes.place_node(view).taints) or is_news:
            self._on_news()
        self._places.set_node(view, self._capacities.usable(name))

    def _set_facts(self, facts: NodeFacts, taints: tuple[Taint, ...]) -> bool:
        """Takes a node; of one without GPUs it is remembered that it may get some.

        Returns whether it says something new.
        """
        if nodes.has_gpus(facts) or self._capacities.has_node(facts.name):
            self._bare.pop(facts.name, None)
            return self._capacities.set_node(facts, self._now_us(), taints)
        is_news = self._bare.get(facts.name) != (facts, taints)
        self._bare[facts.name] = facts, taints
        return is_news

    def _lose_node(self, view: views.Object) -> None:
        self._told_sick.pop(view.metadata.name, None)
        self.lost_nodes.on_delete(view.metadata.name)
        self._bare.pop(view.metadata.name, None)
        self._capacities.drop_node(view.metadata.name)
        self._places.drop_node(view.metadata.name)

    def _see_slice(self, view: resource_slice.ResourceSlice) -> None:
        self._set_published(self._slice_inventory.put(view))

    def _lose_slice(self, view: views.Object) -> None:
        self._set_published(self._slice_inventory.drop(view.metadata.name))

    def _set_published(self, names_: Iterable[str]) -> None:
        """Takes what the slices of nodes say now."""
        for name in names_:
            bare = self._bare.get(name)
            if bare is not None:
                facts, taints = bare
                published = self._slice_inventory.published(name)
                self._set_facts(replace(facts, published=published), taints)
            self._capacities.set_published(
                name, self._slice_inventory.published(name), self._now_us()
            )
            self._set_allocated(name)

    def _set_allocated(self, node: str) -> None:
        self._capacities.set_allocated(node, *self._slice_inventory.allocated(node))

    def _see_device(self, view: koordinator.KoordinatorDevice) -> None:
        name = view.metadata.name
        self._devices[name] = koordinator.readings(view)
        self._capacities.set_devices(name, self._devices[name], self._now_us())

    def _lose_device(self, view: views.Object) -> None:
        self._devices.pop(view.metadata.name, None)
        self._capacities.set_devices(view.metadata.name, None, self._now_us())

    def _now_us(self) -> int:
        return int(self._clock.now().timestamp() * 1_000_000)


def _reference(node: str) -> dict[str, str]:
    """Return the reference to a node that its events carry.

    The UID is the name, as in the events of a kubelet: ``kubectl describe node`` looks for both.
    """
    kind = resources.NODES
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": node, "uid": node}
