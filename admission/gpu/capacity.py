"""What a node's GPUs add to the capacity of a flavor, less what is sick or cannot be used.

Capacity comes from allocatable amounts, never from ``status.capacity``. A node without doubt
counts in full; where something is unknown the lower amount is taken.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from admission.base import names
from admission.gpu import health, nodes, placement, resources
from admission.gpu.catalogue import Catalogue
from admission.gpu.costs import NOTHING
from admission.gpu.health import HealthPolicy
from admission.gpu.nodes import Layout, NodeFacts
from admission.gpu.placement import Vector
from admission.gpu.products import DEFAULT_SLICES, Cost, Product
from admission.gpu.published import Published

_COUNT_LABEL: Final = names.GPU_RESOURCE + ".count"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCapacity:
    """The GPUs that one node contributes to its flavor.

    Attributes:
        node: its name.
        units: healthy units by resource name, without zeros.
        worth: the units in GPU slices and memory.
        physical: whole GPUs in the machine, whatever they are cut or shared into; 0 = unknown.
        sick: units that exist and do not count, by resource name.
        mismatched: units of which labels and node disagree whether they exist, by resource name.
        stranded: compute slices that belong to no MIG instance and fit none; 0 where the cut of
            the single GPUs is unknown.
        reasons: why units do not count, or cannot be trusted; sorted as found.
    """

    node: str
    units: Mapping[str, int] = field(default_factory=dict)
    worth: Cost = NOTHING
    physical: int = 0
    sick: Mapping[str, int] = field(default_factory=dict)
    mismatched: Mapping[str, int] = field(default_factory=dict)
    stranded: int = 0
    reasons: tuple[str, ...] = ()


CORDONED: Final = "cordoned"
"""Why nothing of a node counts that an administrator took out; its GPUs may be well."""

NOT_READY: Final = "not Ready"
"""Why nothing of a node counts from which nothing is heard; its GPUs may be well."""


def of_node(node: NodeFacts, catalogue: Catalogue, policy: HealthPolicy) -> NodeCapacity:
    """Return the capacity of one node.

    Args:
        node: as reported now.
        catalogue: of products.
        policy: what counts as sick.
    """
    shape = nodes.layout(node, catalogue)
    blocked = _blocked(node, shape, policy)
    if node.published is not None:
        return _of_published(node, node.published, shape, blocked, catalogue)
    offered = nodes.devices_of(node)
    healthy, total, notes = _devices(node, policy)
    units = {} if blocked else _healthy_units(node, offered, healthy, total)
    whole = {name: max(amount, node.capacity.get(name, 0)) for name, amount in offered.items()}
    for name in sorted(node.capacity):
        if name not in whole and node.capacity[name] and resources.is_device(name):
            whole[name] = node.capacity[name]
    lost = {name: n - units.get(name, 0) for name, n in whole.items() if n > units.get(name, 0)}
    doubts = [shape.ambiguous] if shape.ambiguous else []
    worth, unknown = _worth(node, shape, units, catalogue)
    physical = _physical(node, shape, whole)
    mismatched = dict(_mismatches(node, shape, whole))
    return NodeCapacity(
        node=node.name,
        units=units,
        worth=worth,
        physical=physical,
        sick=lost,
        mismatched={name: abs(stated - has) for name, (stated, has) in mismatched.items()},
        stranded=_stranded(shape, whole, physical) if units else 0,
        reasons=(*blocked, *notes, *doubts, *unknown, *map(_mismatch, mismatched.items())),
    )


def _of_published(
    node: NodeFacts,
    published_: Published,
    shape: Layout,
    blocked: Sequence[str],
    catalogue: Catalogue,
) -> NodeCapacity:
    """The capacity of a node whose GPUs a DRA driver publishes."""
    units = {} if blocked else published_.most()
    whole = published_.most(with_sick=True)
    worth, unknown = (NOTHING, ()) if blocked else published_.worth(catalogue)
    notes = [
        f"GPU {device.name} sick: {device.sick}" for device in published_.devices if device.sick
    ]
    doubts = [shape.ambiguous] if shape.ambiguous else []
    return NodeCapacity(
        node=node.name,
        units=units,
        worth=worth,
        physical=published_.gpus,
        sick={name: n - units.get(name, 0) for name, n in whole.items() if n > units.get(name, 0)},
        reasons=(*blocked, *notes, *doubts, *unknown),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation:
    """Free units, and the most that one node can still give.

    Attributes:
        free: over all nodes.
        largest: the most on one node.
        node: that node, the first by name of those with as much; empty where nothing is free.
        stranded: units beside them that no device can be cut from, see ``stranded_slices``.
    """

    free: int
    largest: int
    stranded: int = 0
    node: str = ""

    @property
    def is_whole(self) -> bool:
        """Return whether one node can give all that is free, and nothing is stranded."""
        return self.free == self.largest and not self.stranded

    @property
    def text(self) -> str:
        """For people: ``12 free, largest hole 3 (node-4)``."""
        stranded = f", {self.stranded} more that no profile can use" if self.stranded else ""
        where = f" ({self.node})" if self.node else ""
        return f"{self.free} free, largest hole {self.largest}{where}{stranded}"


def worth_of(node: NodeFacts, amounts: Mapping[str, int], catalogue: Catalogue) -> Cost:
    """Return the cost of amounts of a node's GPU resources.

    Names of unknown worth count nothing.
    """
    return _worth(node, nodes.layout(node, catalogue), amounts, catalogue)[0]


@lru_cache(maxsize=4096)
def stranded_slices(product: Product, cut: Vector) -> int:
    """Compute slices of a MIG GPU that belong to no instance and that no further one could use.

    Where the instances sit is not known: of all places that they may have, those that strand the
    least are taken. 0 for instances that do not fit on one GPU.
    """
    bigger = (
        placement.compute_slices(product, whole)
        for whole in placement.addable(product, ())
        if all(has <= may for has, may in zip(cut, whole, strict=True))
    )
    best = max(bigger, default=product.compute_slices)
    return product.compute_slices - best


def _blocked(node: NodeFacts, shape: Layout, policy: HealthPolicy) -> list[str]:
    """Return why nothing of the node counts."""
    reasons = []
    if not node.ready:
        reasons.append(NOT_READY)
    if node.unschedulable:
        reasons.append(CORDONED)
    if shape.invalid:
        reasons.append(shape.invalid)
    verdict = health.judge_node(node.conditions, node.labels, policy)
    if not verdict.healthy:
        reasons.append(verdict.reason)
    return reasons


def _devices(node: NodeFacts, policy: HealthPolicy) -> tuple[int, int, list[str]]:
    """Healthy and all devices that an agent lists, and what it says of the others."""
    healthy, notes = 0, []
    for device in node.devices or ():
        verdict = health.judge_device(device, policy)
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
            unknown.append(f"the cost of {name} is unknown: no product")
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
        profile_of_product = shape.product.find(profile)
        return None if profile_of_product is None else profile_of_product.cost
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


def _mismatches(
    node: NodeFacts, shape: Layout, whole: Mapping[str, int]
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Devices by plain name of which a label says another number than the node has.

    Under the mixed strategy the label of whole GPUs counts those that are cut, too.
    """
    has: dict[str, int] = {}
    for name, amount in whole.items():
        plain = resources.plain_name(name)
        has[plain] = has.get(plain, 0) + amount // shape.divisor(name)
    for key in sorted(node.labels):
        name, stated = key.removesuffix(".count"), node.labels[key]
        if name == key or not resources.is_device(name) or not stated.isdecimal():
            continue
        if name == names.GPU_RESOURCE and shape.strategy == "mixed":
            continue
        if int(stated) != has.get(name, 0):
            yield name, (int(stated), has.get(name, 0))


def _mismatch(counts: tuple[str, tuple[int, int]]) -> str:
    name, (stated, has) = counts
    return f"label {name}.count says {stated}, the node has {has}"


def _stranded(shape: Layout, whole: Mapping[str, int], physical: int) -> int:
    """Slices that all GPUs of a node strand, if they are all cut alike; else it is not known."""
    product = shape.product
    if product is None or not product.has_mig:
        return 0
    cut: dict[str, int] = {}
    uncut = 0
    for name, amount in whole.items():
        devices = amount // shape.divisor(name)
        profile = shape.profile if name.startswith(names.GPU_RESOURCE) else nodes.profile_of(name)
        if not profile:
            uncut += devices
        elif devices and product.find(profile) is not None:
            cut[profile] = cut.get(profile, 0) + devices
    gpus = physical - uncut
    if not cut or gpus <= 0 or any(count % gpus for count in cut.values()):
        return 0
    alike = {profile: count // gpus for profile, count in cut.items()}
    return gpus * stranded_slices(product, placement.vector(product, alike))
