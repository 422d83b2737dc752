"""What a node's GPUs add to the capacity of a flavor, less what is sick or cannot be used.

Capacity comes from allocatable amounts, never from ``status.capacity``. A node without doubt
counts in full; where something is unknown the lower amount is taken.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from admission.base import names
from admission.gpu import health, nodes, placement, resources
from admission.gpu.catalogue import Catalogue
from admission.gpu.equivalents import NOTHING
from admission.gpu.health import HealthPolicy
from admission.gpu.nodes import Layout, NodeFacts
from admission.gpu.placement import Occupancy
from admission.gpu.products import DEFAULT_SLICES, Cost, Product

_COUNT_LABEL: Final = names.GPU_RESOURCE + ".count"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCapacity:
    """What one node adds.

    Attributes:
        node: its name.
        units: healthy units by resource name, without zeros.
        worth: the units in GPU slices and memory.
        physical: whole GPUs in the machine, whatever they are cut or shared into; 0 = unknown.
        sick: units that exist and do not count, by resource name.
        reasons: why units do not count, or cannot be trusted; sorted as found.
    """

    node: str
    units: Mapping[str, int] = field(default_factory=dict)
    worth: Cost = NOTHING
    physical: int = 0
    sick: Mapping[str, int] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What the nodes of a flavor add up to.

    Attributes:
        units: healthy units by resource name.
        worth: in GPU slices and memory.
        physical: whole GPUs, where known.
        sick: units that do not count.
        reasons: of all nodes, each with the node's name, sorted by node.
    """

    units: Mapping[str, int] = field(default_factory=dict)
    worth: Cost = NOTHING
    physical: int = 0
    sick: Mapping[str, int] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()


def of_node(
    node: NodeFacts,
    catalogue: Catalogue,
    policy: HealthPolicy,
    sick_before: frozenset[str] = frozenset(),
) -> NodeCapacity:
    """The capacity of one node.

    Args:
        node: as reported now.
        catalogue: of products.
        policy: what counts as sick.
        sick_before: ids of devices that were judged sick last time, for hysteresis.
    """
    shape = nodes.layout(node, catalogue)
    offered = nodes.devices_of(node)
    blocked = _blocked(node, shape, policy)
    healthy, total, notes = _devices(node, policy, sick_before)
    units = {} if blocked else _healthy_units(node, offered, healthy, total)
    whole = {name: max(amount, node.capacity.get(name, 0)) for name, amount in offered.items()}
    for name in sorted(node.capacity):
        if name not in whole and node.capacity[name] and resources.is_device(name):
            whole[name] = node.capacity[name]
    lost = {name: n - units.get(name, 0) for name, n in whole.items() if n > units.get(name, 0)}
    doubts = [shape.ambiguous] if shape.ambiguous else []
    worth, unknown = _worth(node, shape, units, catalogue)
    return NodeCapacity(
        node=node.name,
        units=units,
        worth=worth,
        physical=_physical(node, shape, whole),
        sick=lost,
        reasons=(*blocked, *notes, *doubts, *unknown),
    )


def total(parts: Iterable[NodeCapacity]) -> Capacity:
    """The sum over nodes; reasons are told per node."""
    units: dict[str, int] = {}
    sick: dict[str, int] = {}
    worth, physical = NOTHING, 0
    reasons = []
    for part in sorted(parts, key=lambda part: part.node):
        for into, amounts in ((units, part.units), (sick, part.sick)):
            for name, amount in amounts.items():
                into[name] = into.get(name, 0) + amount
        worth = worth.plus(part.worth)
        physical += part.physical
        reasons += [f"{part.node}: {reason}" for reason in part.reasons]
    return Capacity(units=units, worth=worth, physical=physical, sick=sick, reasons=tuple(reasons))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """More promised than exists.

    Attributes:
        resource: of which.
        promised: by quota.
        real: what is healthy, less what unmanaged pods hold.
    """

    resource: str
    promised: int
    real: int

    @property
    def text(self) -> str:
        """One sentence for a condition."""
        return f"{self.resource}: quota promises {self.promised}, {self.real} exist"


def shortfalls(
    promised: Mapping[str, int], capacity: Capacity, unmanaged: Mapping[str, int]
) -> tuple[Shortfall, ...]:
    """Resources of which quota promises more than there is; sorted by name.

    Args:
        promised: nominal quota by resource, device names and virtual ones.
        capacity: of the flavor.
        unmanaged: held by pods that nobody manages, in the same resources.
    """
    amounts = {
        **capacity.units,
        names.GPU_MEMORY: capacity.worth.memory_bytes,
        names.GPU_SLICES: capacity.worth.slices,
    }
    found = []
    for name, promise in sorted(promised.items()):
        if name not in amounts and not resources.is_device(name):
            continue
        real = max(amounts.get(name, 0) - unmanaged.get(name, 0), 0)
        if promise > real:
            found.append(Shortfall(resource=name, promised=promise, real=real))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation:
    """Free units, and the most that one node can still give.

    Attributes:
        free: over all nodes.
        largest: on one node.
    """

    free: int
    largest: int

    @property
    def text(self) -> str:
        """For people: ``12 free, largest hole 3``."""
        return f"{self.free} free, largest hole {self.largest}"


def fragmentation(free_by_node: Mapping[str, int]) -> Fragmentation:
    """Of one resource. A negative amount (more used than exists) counts as 0."""
    free = [max(amount, 0) for amount in free_by_node.values()]
    return Fragmentation(free=sum(free), largest=max(free, default=0))


def worth_of(node: NodeFacts, amounts: Mapping[str, int], catalogue: Catalogue) -> Cost:
    """What amounts of a node's GPU resources are worth; names of unknown worth count nothing."""
    return _worth(node, nodes.layout(node, catalogue), amounts, catalogue)[0]


def stranded_slices(product: Product, held: Occupancy) -> int:
    """Free compute slices of a MIG GPU that no set of further instances could use."""
    used = sum(product.profiles[placed.profile].compute_slices for placed in held)
    weights = [profile.compute_slices for profile in product.profiles.values()]
    best = max(
        sum(w * n for w, n in zip(weights, counts, strict=True))
        for counts in placement.addable(product, held)
    )
    return product.compute_slices - used - best


def _blocked(node: NodeFacts, shape: Layout, policy: HealthPolicy) -> list[str]:
    """Why nothing of the node counts."""
    reasons = []
    if not node.ready:
        reasons.append("not Ready")
    if node.unschedulable:
        reasons.append("cordoned")
    if shape.invalid:
        reasons.append(shape.invalid)
    verdict = health.judge_node(node.conditions, node.labels, policy)
    if not verdict.healthy:
        reasons.append(verdict.reason)
    return reasons


def _devices(
    node: NodeFacts, policy: HealthPolicy, sick_before: frozenset[str]
) -> tuple[int, int, list[str]]:
    """Healthy and all devices that an agent lists, and what it says of the others."""
    healthy, notes = 0, []
    for device in node.devices or ():
        verdict = health.judge_device(device, policy, was_healthy=device.id not in sick_before)
        healthy += verdict.healthy
        if verdict.reason:
            state = "noticed" if verdict.healthy else "sick"
            notes.append(f"GPU {device.minor} {state}: {verdict.reason}")
    return healthy, len(node.devices or ()), notes


def _healthy_units(
    node: NodeFacts, offered: Mapping[str, int], healthy: int, listed: int
) -> dict[str, int]:
    """Units left when a node agent knows of sick GPUs that the device plugin may not know of.

    Which slices sit on a sick GPU is unknown: an equal part of all units is taken off the
    node's capacity, rounded down, and nothing where the plugin has taken off as much already.
    """
    if healthy == listed:
        return dict(offered)
    units = {}
    for name, amount in offered.items():
        full = max(node.capacity.get(name, 0), amount)
        left = min(amount, full * healthy // listed)
        if left:
            units[name] = left
    return units


def _worth(
    node: NodeFacts, shape: Layout, units: Mapping[str, int], catalogue: Catalogue
) -> tuple[Cost, list[str]]:
    """Units in slices and memory; shares weigh as in demand, so that all of them can be given."""
    worth = NOTHING
    unknown = []
    for name, count in units.items():
        unit = _unit(node, shape, name, catalogue)
        if unit is None:
            unknown.append(f"the worth of {name} is unknown: no product")
        else:
            share = unit.times(1, shape.divisor(name))
            worth = worth.plus(share.times(count))
    return worth, unknown


def _unit(node: NodeFacts, shape: Layout, name: str, catalogue: Catalogue) -> Cost | None:
    """Cost of the undivided device behind a name; the least where products are in doubt."""
    profile = shape.profile if name.startswith(names.GPU_RESOURCE) else nodes.profile_of(name)
    if not profile:
        return shape.product.whole if shape.product else _least_whole(node, catalogue)
    if shape.product is not None:
        found = shape.product.find(profile)
        return None if found is None else found.cost
    costs = [candidate.cost for _, candidate in catalogue.candidates(profile)]
    return min(costs, key=lambda cost: (cost.slices, cost.memory_bytes), default=None)


def _least_whole(node: NodeFacts, catalogue: Catalogue) -> Cost | None:
    """Of a node with several models: the smallest GPU that its agent lists."""
    memories = [device.memory_bytes for device in node.devices or () if device.memory_bytes]
    if not memories:
        return None
    labelled = catalogue.product_of_labels(node.labels)
    slices = labelled.compute_slices if labelled else DEFAULT_SLICES
    return Cost(slices=slices, memory_bytes=min(memories))


def _physical(node: NodeFacts, shape: Layout, whole: Mapping[str, int]) -> int:
    """GPUs in the machine: the agent's list, the count label, or units over replicas."""
    if node.devices is not None:
        return len(node.devices)
    label = node.labels.get(_COUNT_LABEL, "")
    if label.isdecimal() and not shape.profile:
        return int(label)
    if shape.profile:
        return 0
    return sum(
        amount // shape.divisor(name)
        for name, amount in whole.items()
        if name.startswith(names.GPU_RESOURCE)
    )
