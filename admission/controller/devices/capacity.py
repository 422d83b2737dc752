"""The GPUs that exist in each flavor: healthy, unhealthy, held outside of quota, free.

Every amount is kept per node and summed per flavor as nodes change, so that the cost of a change
does not grow with the cluster. Resources are the device names that nodes offer, and GPU memory
and slices, in which all devices of a node are worth something.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final, NamedTuple

from admission.base import names
from admission.gpu import capacity, costs, health, resources
from admission.gpu.capacity import Fragmentation, NodeCapacity
from admission.gpu.catalogue import Catalogue
from admission.gpu.health import DeviceReading, HealthPolicy, Settled
from admission.gpu.inventory import GpuNode, GpuPod, NodeStock
from admission.gpu.nodes import NodeFacts, devices_of
from admission.gpu.published import Published
from admission.objects.nodes import STATES
from admission.scheduling.model import Taint, Toleration
from admission.scheduling.places import predicate

Amounts = Mapping[str, int]

_NOTHING: Final[Amounts] = {}
_NO_HOLE: Final = (0, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCapacity:
    """GPUs of a node, or of all nodes of a flavor, by resource; missing = 0.

    Attributes:
        healthy: what can be used.
        sick: what exists and cannot be used.
        outside: held by pods that no queue admitted.
        real: what admitted pods can have: healthy and not held outside; at least what they hold
            already, even where it is sick by now.
        kept: what of that they hold where nothing new can start: on GPUs that are sick by now,
            and on nodes whose taints pods of the flavor do not tolerate.
        idle_sick: what of that is sick no admitted pod holds.
        free: healthy and held by nobody.
        mismatched: devices whose number in labels differs from that of the node.
        stranded: slices of MIG GPUs that no profile can use, beside what is healthy.
        cards: GPUs in the machines, whatever they are cut or shared into.
    """

    healthy: Amounts = field(default_factory=dict)
    sick: Amounts = field(default_factory=dict)
    outside: Amounts = field(default_factory=dict)
    real: Amounts = field(default_factory=dict)
    kept: Amounts = field(default_factory=dict)
    idle_sick: Amounts = field(default_factory=dict)
    free: Amounts = field(default_factory=dict)
    mismatched: Amounts = field(default_factory=dict)
    stranded: Amounts = field(default_factory=dict)
    cards: Amounts = field(default_factory=dict)


_EMPTY: Final = GpuCapacity()
_PARTS: Final = tuple(part.name for part in fields(GpuCapacity))


@dataclass(slots=True)
class _Node:
    """What is known of one node.

    Attributes:
        facts: the node as counted, which differs from the report until a loss is confirmed.
        reported: facts as they were reported last.
        settled: units of all its devices, and a change that is not believed yet.
        part: its capacity.
        taints: of the node.
        repelled: flavors that select it and whose pods do not tolerate a taint, sorted.
        withheld: what it has for these: what admitted pods hold, and nothing else.
    """

    facts: NodeFacts
    reported: NodeFacts
    settled: Settled
    part: NodeCapacity
    taints: tuple[Taint, ...] = ()
    capacity: GpuCapacity = _EMPTY
    repelled: tuple[str, ...] = ()
    withheld: GpuCapacity = _EMPTY

    def of(self, flavor: str) -> GpuCapacity:
        """Return what it has for a flavor."""
        return self.withheld if flavor in self.repelled else self.capacity


class NodesStock(NamedTuple):
    """What nodes have, by resource.

    Attributes:
        usable: what exists, less what is sick or held outside of queues.
        whole: that with what is sick or held outside of queues.
    """

    usable: Amounts
    whole: Amounts

    @classmethod
    def from_capacity(cls, capacity: GpuCapacity) -> "NodesStock":
        """Return what is there of a capacity."""
        whole = Counter(capacity.healthy)
        whole.update(capacity.kept)
        whole.update(capacity.idle_sick)
        return cls(dict(capacity.real), {name: n for name, n in whole.items() if n})


@dataclass(frozen=True, slots=True)
class _Allocated:
    """Published GPUs of a node that claims hold, by name."""

    ours: frozenset[str] = frozenset()
    outside: frozenset[str] = frozenset()


_NOT_ALLOCATED: Final = _Allocated()


@dataclass(frozen=True, slots=True)
class _Selection:
    """Which nodes a flavor selects, and what its pods tolerate there."""

    node_labels: Mapping[str, str]
    tolerations: tuple[Toleration, ...]


class _FlavorStock:
    """Stock of a flavor, kept up to date node by node."""

    def __init__(self) -> None:
        self.nodes: dict[str, None] = {}
        self.parts: dict[str, dict[str, int]] = {part: {} for part in _PARTS}

    def add(self, capacity: GpuCapacity, sign: int) -> None:
        for part, total in self.parts.items():
            for resource, value in getattr(capacity, part).items():
                left = total.get(resource, 0) + sign * value
                if left:
                    total[resource] = left
                else:
                    total.pop(resource, None)

    def capacity(self) -> GpuCapacity:
        return GpuCapacity(**self.parts)


class CapacityByFlavor:
    """Nodes with GPUs, who holds them, and their sums per flavor.

    Times are microseconds since the epoch.

    A node whose taint pods of a flavor do not tolerate has nothing for that flavor but what
    admitted pods hold there already.

    Attributes:
        version: grows with every change of a capacity.
    """

    def __init__(self, catalogue: Catalogue, policy: HealthPolicy) -> None:
        """Knows of nothing yet.

        Args:
            catalogue: of GPU products.
            policy: what counts as sick.
        """
        self._catalogue = catalogue
        self._policy = policy
        self.version = 0
        self._nodes: dict[str, _Node] = {}
        self._flavors: dict[str, _Selection] = {}
        self._sums: dict[str, _FlavorStock] = {}
        self._shared: dict[tuple[str, ...], _FlavorStock] | None = None
        """Stock by the flavors that select the same nodes; None where it is to be summed again."""
        self._pods: dict[str, tuple[str, GpuPod]] = {}
        """Nodes and watched pods that hold GPUs there, by UID."""
        self._held: dict[str, dict[str, int]] = {}
        self._stray: dict[str, dict[str, int]] = {}
        self._others: dict[str, tuple[str, Amounts]] = {}
        """Nodes and devices of pods that are not ours, by UID."""
        self._outside: dict[str, dict[str, int]] = {}
        """Their sum on each node."""
        self._allocated: dict[str, _Allocated] = {}
        self._unsettled: set[str] = set()
        self._changed: set[str] = set()
        self._judged: dict[str, None] = {}

    # ---------------------------------------------------------------------------------- seeing

    def set_flavor(
        self,
        name: str,
        node_labels: Mapping[str, str],
        tolerations: tuple[Toleration, ...] = (),
    ) -> None:
        """Add a flavor, or change which nodes belong to it.

        Args:
            name: of the flavor.
            node_labels: that its nodes have.
            tolerations: of every pod that gets it.
        """
        selection = _Selection(dict(node_labels), tolerations)
        if self._flavors.get(name) == selection:
            return
        self._flavors[name] = selection
        self._shared = None
        self._note(name)
        total = self._sums[name] = _FlavorStock()
        for node in self._nodes.values():
            node.repelled = tuple(flavor for flavor in node.repelled if flavor != name)
            if _selects(node_labels, node.facts.labels):
                if predicate.repelling(node.taints, tolerations) is not None:
                    node.repelled = tuple(sorted((*node.repelled, name)))
                    node.withheld = self._withheld_of(node)
                total.nodes[node.facts.name] = None
                total.add(node.of(name), 1)

    def drop_flavor(self, name: str) -> None:
        """Forget a flavor."""
        if self._flavors.pop(name, None) is not None:
            for node in self._sums.pop(name).nodes:
                entry = self._nodes[node]
                entry.repelled = tuple(other for other in entry.repelled if other != name)
            self._shared = None
            self._note(name)

    def set_node(
        self, facts: NodeFacts, now_us: int, taints: tuple[Taint, ...] | None = None
    ) -> bool:
        """Take a node as it is reported now; return whether that says something new.

        Args:
            facts: the node.
            now_us: the time.
            taints: of the node; None for those that it had before.
        """
        entry_before = self._nodes.get(facts.name)
        if taints is None:
            taints = () if entry_before is None else entry_before.taints
        is_as_before = (
            entry_before is not None
            and entry_before.reported == facts
            and entry_before.taints == taints
        )
        if is_as_before and facts.name not in self._unsettled:
            return False
        seen = sum(devices_of(facts).values())
        settled = _complete(
            entry_before.settled if entry_before else None, seen, now_us, self._policy
        )
        counted = facts
        if entry_before is not None and settled.amount != seen:
            before_loss = entry_before.facts
            counted = replace(
                facts, allocatable=before_loss.allocatable, published=before_loss.published
            )
            self._unsettled.add(facts.name)
        else:
            self._unsettled.discard(facts.name)
        if (
            entry_before is not None
            and entry_before.facts == counted
            and entry_before.taints == taints
        ):
            entry_before.reported, entry_before.settled = facts, settled
            return True
        part = capacity.of_node(counted, self._catalogue, self._policy)
        entry = _Node(counted, facts, settled, part, taints)
        self._put(entry, entry_before)
        return True

    def set_devices(
        self, name: str, devices: tuple[DeviceReading, ...] | None, now_us: int
    ) -> None:
        """Take the list of a node's agent; None if there is none any more."""
        before = self._nodes.get(name)
        if before is not None:
            self.set_node(replace(before.reported, devices=devices), now_us)

    def set_published(self, name: str, published: Published | None, now_us: int) -> None:
        """Take what a node's DRA driver publishes; None if there is none any more."""
        before = self._nodes.get(name)
        if before is not None:
            self.set_node(replace(before.reported, published=published), now_us)

    def set_allocated(self, name: str, ours: frozenset[str], outside: frozenset[str]) -> None:
        """Take which published GPUs of a node are held by claims.

        Args:
            name: of the node.
            ours: held for admitted pods.
            outside: held for pods that no queue admitted.
        """
        allocated = _Allocated(ours, outside) if ours or outside else None
        if self._allocated.get(name) == allocated:
            return
        if allocated is None:
            del self._allocated[name]
        else:
            self._allocated[name] = allocated
        self._restock(name)

    def drop_node(self, name: str) -> None:
        """Forget a node."""
        before = self._nodes.pop(name, None)
        self._unsettled.discard(name)
        if before is not None:
            for flavor in self._of(before.facts.labels):
                self._sums[flavor].nodes.pop(name)
                self._sums[flavor].add(before.of(flavor), -1)
                self._note(flavor)
            self._add_shared(before, -1)

    def has_node(self, name: str) -> bool:
        """Return whether the node has, or had, GPUs."""
        return name in self._nodes

    def set_pod(self, uid: str, node: str, pod: GpuPod | None) -> None:
        """Take what a watched pod holds on a node.

        Args:
            uid: of the pod.
            node: the node that it is bound to.
            pod: the pod; None, or one without amounts, for nothing any more.
        """
        old = self._pods.pop(uid, None)
        if pod is not None and pod.amounts:
            self._pods[uid] = (node, pod)
        if _held(old) == _held(self._pods.get(uid)):
            return
        for sign, place in ((-1, old), (1, self._pods.get(uid))):
            if place is not None:
                at, holder = place
                sums = self._stray if holder.outside else self._held
                _add(sums, at, holder.amounts, sign)
        for name in {node, old[0] if old is not None else node}:
            self._restock(name)

    def has_pod(self, uid: str, node: str, *, outside: bool = False) -> bool:
        """Return whether a watched pod is known to hold GPUs on that node; see `GpuPod`."""
        before = self._pods.get(uid)
        return before is not None and (before[0], before[1].outside) == (node, outside)

    def node_labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a node that is known; else none."""
        entry = self._nodes.get(name)
        return {} if entry is None else entry.facts.labels

    def set_other(self, uid: str, node: str, amounts: Amounts) -> None:
        """Take what a pod holds on a node that is not ours; no amounts = nothing any more."""
        old, new = self._others.pop(uid, ("", _NOTHING)), (node, amounts)
        if amounts:
            self._others[uid] = new
        if old == new or not (old[1] or amounts):
            return
        _add(self._outside, *old, -1)
        _add(self._outside, *new, 1)
        for name in dict.fromkeys((old[0], node)):
            self._restock(name)

    def settle(self, now_us: int) -> None:
        """Apply changes that have lasted long enough."""
        for name in sorted(self._unsettled):
            self.set_node(self._nodes[name].reported, now_us)

    def settles_at_us(self) -> int | None:
        """Return when `settle` has something to do; None if no change waits for confirmation."""
        moments = [
            health.settles_at_us(self._nodes[name].settled, self._policy)
            for name in self._unsettled
        ]
        return min((moment for moment in moments if moment is not None), default=None)

    # --------------------------------------------------------------------------------- answers

    @property
    def any_nodes(self) -> bool:
        """Return whether any node with GPUs is known."""
        return bool(self._nodes)

    def take_changed(self) -> frozenset[str]:
        """Return the flavors whose capacity changed since the last call, or that came or went."""
        changed, self._changed = frozenset(self._changed), set()
        return changed

    def take_judged(self) -> tuple[str, ...]:
        """Return the nodes that have other healthy devices than at the last call."""
        judged, self._judged = tuple(self._judged), {}
        return judged

    def on_node(self, name: str) -> NodeCapacity | None:
        """Return the GPUs of a node, sick ones included; None for one that never had any."""
        entry = self._nodes.get(name)
        return None if entry is None else entry.part

    def usable(self, name: str) -> Amounts | None:
        """Return the healthy devices of a node; None for one that is not known to have any.

        Devices that it offers and that are sick are listed with what is left of them.
        """
        entry = self._nodes.get(name)
        if entry is None or entry.facts.published is not None:
            return None
        units = entry.part.units
        return {resource: units.get(resource, 0) for resource in devices_of(entry.facts)}

    def flavors(self) -> tuple[str, ...]:
        """Return all flavors, sorted."""
        return tuple(sorted(self._flavors))

    def capacity(self, flavor: str) -> GpuCapacity:
        """Return the GPUs of a flavor; valid until the next change."""
        sums = self._sums.get(flavor)
        return _EMPTY if sums is None else sums.capacity()

    def by_nodes(self) -> dict[tuple[str, ...], NodesStock]:
        """Return the GPUs of nodes, each once, by the flavors that select its node, sorted."""
        if self._shared is None:
            self._shared = {}
            for node in self._nodes.values():
                self._add_shared(node, 1)
        stocks = {
            flavors: NodesStock.from_capacity(total.capacity())
            for flavors, total in sorted(self._shared.items())
            if flavors
        }
        return {flavors: stock for flavors, stock in stocks.items() if stock.whole}

    def fragmentation(self, flavor: str) -> dict[str, Fragmentation]:
        """Return the free devices of every node of a flavor, by resource."""
        largest: dict[str, tuple[int, str]] = {}
        sums = self._sums.get(flavor)
        if sums is None:
            return {}
        for name in sums.nodes:
            for resource, amount in self._nodes[name].of(flavor).free.items():
                largest_hole, holder = largest.get(resource, _NO_HOLE)
                if amount > largest_hole or (amount == largest_hole and amount and name < holder):
                    largest[resource] = amount, name
        free, stranded = sums.parts["free"], sums.parts["stranded"]
        return {
            resource: Fragmentation(
                free=free.get(resource, 0),
                largest=largest.get(resource, _NO_HOLE)[0],
                stranded=stranded.get(resource, 0),
                node=largest.get(resource, _NO_HOLE)[1],
            )
            for resource in sorted(sums.parts["healthy"])
        }

    def largest_nodes(self, flavor: str, *, with_repelled: bool = False) -> dict[str, int]:
        """Return the most that one node of a flavor has of each device, of cpu and of memory.

        Sick devices are included. Nodes without GPUs do not count.

        Args:
            flavor: which nodes.
            with_repelled: count nodes, too, whose taint its pods do not tolerate: they may be
                cordoned for an hour, and some pods tolerate more than the others.
        """
        sums = self._sums.get(flavor)
        largest: dict[str, int] = {}
        for name in sums.nodes if sums else ():
            entry = self._nodes[name]
            is_left_out = flavor in entry.repelled and not with_repelled
            has = _EMPTY if is_left_out else entry.capacity
            for resource in has.healthy.keys() | has.sick.keys():
                amount = has.healthy.get(resource, 0) + has.sick.get(resource, 0)
                largest[resource] = max(amount, largest.get(resource, 0))
            if has.healthy or has.sick:
                for resource, amount in entry.facts.machine.items():
                    largest[resource] = max(amount, largest.get(resource, 0))
        return largest

    def reasons(self, flavor: str) -> Iterable[str]:
        """Return why GPUs of the flavor do not count or are in doubt, by node, sorted."""
        sums = self._sums.get(flavor)
        for name in sorted(sums.nodes if sums else ()):
            entry = self._nodes[name]
            for reason in self._reasons_of(entry, (flavor,)):
                yield f"{name}: {reason}"

    def stock(self) -> tuple[NodeStock, ...]:
        """Return what each node has, by name."""
        return tuple(self._stock_of(entry) for _, entry in sorted(self._nodes.items()))

    def _stock_of(self, entry: _Node) -> NodeStock:
        """What a node has; nothing of it is free where pods of no flavor tolerate its taints."""
        flavors = self._of(entry.facts.labels)
        is_repelled = bool(flavors) and len(entry.repelled) == len(flavors)
        return NodeStock(
            name=entry.facts.name,
            labels=entry.facts.labels,
            healthy=entry.capacity.healthy,
            sick=entry.capacity.sick,
            free=_NOTHING if is_repelled else entry.capacity.free,
            outside=entry.capacity.outside,
            reasons=self._reasons_of(entry, flavors if is_repelled else ()),
        )

    def _reasons_of(self, entry: _Node, flavors: Iterable[str]) -> tuple[str, ...]:
        """Why GPUs of a node do not count, in some of its flavors."""
        repelling = (
            predicate.repelling(entry.taints, self._flavors[flavor].tolerations)
            for flavor in flavors
            if flavor in entry.repelled
        )
        taints = filter(None, repelling)
        reasons = (
            f"taint {taint.key}:{taint.effect} is not tolerated"
            for taint in taints
            if taint.key not in STATES or not entry.part.reasons
        )
        return tuple(dict.fromkeys((*entry.part.reasons, *reasons)))

    def named(self, names_: Iterable[str]) -> tuple[GpuNode, ...]:
        """Return nodes with the holders of their GPUs; those that are not known are left out."""
        on: dict[str, list[GpuPod]] = {name: [] for name in names_ if name in self._nodes}
        for node, pod in self._pods.values():
            if node in on:
                on[node].append(pod)
        return tuple(
            GpuNode(
                facts=self._nodes[name].facts,
                part=self._nodes[name].part,
                pods=tuple(sorted(holders, key=lambda holder: (holder.namespace, holder.name))),
                others=self._outside.get(name, _NOTHING),
            )
            for name, holders in on.items()
        )

    # --------------------------------------------------------------------------------- sums

    def _put(self, entry: _Node, before: _Node | None) -> None:
        name = entry.facts.name
        if before is None or before.part.units != entry.part.units:
            self._judged[name] = None
        flavors = self._of(entry.facts.labels)
        entry.repelled = tuple(
            flavor
            for flavor in sorted(flavors)
            if predicate.repelling(entry.taints, self._flavors[flavor].tolerations) is not None
        )
        entry.capacity, entry.withheld = self._capacity_of(entry), self._withheld_of(entry)
        is_regrouped = before is None or (before.facts.labels, before.repelled) != (
            entry.facts.labels,
            entry.repelled,
        )
        if before is not None and not is_regrouped:
            self._nodes[name] = entry
            self._resum(entry, before)
            return
        if before is not None:
            self.drop_node(name)
        self._nodes[name] = entry
        for flavor in flavors:
            self._sums[flavor].nodes[name] = None
        self._resum(entry, replace(entry, capacity=_EMPTY, withheld=_EMPTY))

    def _restock(self, name: str) -> None:
        entry = self._nodes.get(name)
        if entry is not None:
            before = replace(entry)
            entry.capacity, entry.withheld = self._capacity_of(entry), self._withheld_of(entry)
            self._resum(entry, before)

    def _resum(self, entry: _Node, before: _Node) -> None:
        """Count a node as it is now; its flavors are those that it had before."""
        if (entry.capacity, entry.withheld) == (before.capacity, before.withheld):
            return
        for flavor in self._of(entry.facts.labels):
            total = self._sums[flavor]
            total.add(before.of(flavor), -1)
            total.add(entry.of(flavor), 1)
            self._note(flavor)
        self._add_shared(before, -1)
        self._add_shared(entry, 1)

    def _add_shared(self, entry: _Node, sign: int) -> None:
        """Count a node once: with the flavors whose pods it takes, else with all of them."""
        if self._shared is None:
            return
        flavors = sorted(self._of(entry.facts.labels))
        takers = tuple(flavor for flavor in flavors if flavor not in entry.repelled)
        capacity = entry.capacity if takers else entry.withheld
        self._shared.setdefault(takers or tuple(flavors), _FlavorStock()).add(capacity, sign)

    def _note(self, flavor: str) -> None:
        self._changed.add(flavor)
        self.version += 1

    def _of(self, labels: Mapping[str, str]) -> list[str]:
        return [
            name for name, flavor in self._flavors.items() if _selects(flavor.node_labels, labels)
        ]

    def _capacity_of(self, entry: _Node) -> GpuCapacity:
        facts, part = entry.facts, entry.part
        if facts.published is not None:
            return self._capacity_of_published(facts, facts.published, part)
        healthy = _with_worth(part.units, costs.virtual(part.worth))
        outside = self._valued(facts, self._outside_on(facts.name))
        valued = self._valued(facts, self._held.get(facts.name, _NOTHING))
        sick = self._valued(facts, part.sick)
        usable = {r: max(n - outside.get(r, 0), 0) for r, n in healthy.items()}
        return GpuCapacity(
            healthy=healthy,
            sick=sick,
            outside=outside,
            real=_larger(usable, valued),
            kept=_beyond(valued, usable),
            idle_sick=_beyond(sick, _beyond(valued, usable)),
            free={r: max(n - valued.get(r, 0), 0) for r, n in usable.items()},
            mismatched=part.mismatched,
            stranded={names.GPU_SLICES: part.stranded} if part.stranded else _NOTHING,
            cards={names.GPU_RESOURCE: part.physical} if part.physical else _NOTHING,
        )

    def _capacity_of_published(
        self, facts: NodeFacts, published: Published, part: NodeCapacity
    ) -> GpuCapacity:
        """The counters tell what still fits; claims tell who holds it, whatever pods say."""
        allocated = self._allocated.get(facts.name, _NOT_ALLOCATED)
        healthy = _with_worth(part.units, costs.virtual(part.worth))
        outside = self._valued(facts, published.counted(allocated.outside))
        valued = self._valued(facts, published.counted(allocated.ours))
        sick = self._valued(facts, part.sick)

        def left(taken: frozenset[str], *gone: Amounts) -> dict[str, int]:
            devices = published.most(taken) if part.units else {}
            worth = {
                r: max(n - sum(amounts.get(r, 0) for amounts in gone), 0)
                for r, n in healthy.items()
                if resources.is_virtual(r)
            }
            return dict.fromkeys(healthy, 0) | devices | worth

        usable = left(allocated.outside, outside)
        return GpuCapacity(
            healthy=healthy,
            sick=sick,
            outside=outside,
            real=_larger(usable, valued),
            kept=_beyond(valued, usable),
            idle_sick=_beyond(sick, _beyond(valued, usable)),
            free=left(allocated.outside | allocated.ours, outside, valued),
        )

    def _withheld_of(self, entry: _Node) -> GpuCapacity:
        """What a node has for flavors whose pods do not tolerate its taints."""
        if not entry.repelled:
            return _EMPTY
        facts = entry.facts
        valued = self._held.get(facts.name, _NOTHING)
        if facts.published is not None:
            valued = facts.published.counted(self._allocated.get(facts.name, _NOT_ALLOCATED).ours)
        amounts = self._valued(facts, valued)
        taints = {taint.key for taint in entry.taints}
        sick = self._valued(facts, entry.part.sick) if taints & STATES else _NOTHING
        return GpuCapacity(real=amounts, kept=amounts, sick=sick, idle_sick=_beyond(sick, amounts))

    def _outside_on(self, node: str) -> Amounts:
        listed, stray = self._outside.get(node, _NOTHING), self._stray.get(node, _NOTHING)
        return {r: listed.get(r, 0) + stray.get(r, 0) for r in listed.keys() | stray.keys()}

    def _valued(self, facts: NodeFacts, amounts: Amounts) -> Amounts:
        if not amounts:
            return _NOTHING
        worth = capacity.worth_of(facts, amounts, self._catalogue)
        return _with_worth(amounts, costs.virtual(worth))


def _add(by_node: dict[str, dict[str, int]], node: str, amounts: Amounts, sign: int) -> None:
    """Add amounts to those of a node, or take them off; what is 0 is left out."""
    on_node = by_node.setdefault(node, {})
    for name, amount in amounts.items():
        on_node[name] = on_node.get(name, 0) + sign * amount
        if not on_node[name]:
            del on_node[name]
    if not on_node:
        del by_node[node]


def _with_worth(amounts: Amounts, worth: Amounts) -> Amounts:
    return {**amounts, **{name: value for name, value in worth.items() if value}}


def _larger(left: Amounts, right: Amounts) -> dict[str, int]:
    return {r: max(left.get(r, 0), right.get(r, 0)) for r in left.keys() | right.keys()}


def _beyond(amounts: Amounts, bound: Amounts) -> dict[str, int]:
    """Return what of some amounts goes beyond others."""
    return {r: n - bound.get(r, 0) for r, n in amounts.items() if n > bound.get(r, 0)}


def _selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())


def _complete(before: Settled | None, seen: int, now_us: int, policy: HealthPolicy) -> Settled:
    """Believes at once what the device plugin says of single devices.

    All devices of a node gone at once is what a restart of the plugin looks like, so that is
    believed only after the grace period, as is a gain if the policy says so.
    """
    if before is not None and 0 < seen < before.amount:
        return Settled(amount=seen, seen=seen)
    return health.settle(before, seen, now_us, policy)


def is_gpu(resource: str) -> bool:
    """Return whether nodes decide how much of a resource exists.

    It is so for device names, GPU memory and slices.
    """
    return resources.is_device(resource) or resources.is_virtual(resource)


def _held(place: tuple[str, GpuPod] | None) -> tuple[str, Amounts, bool] | None:
    """Return what of a pod counts in sums."""
    return None if place is None else (place[0], place[1].amounts, place[1].outside)
