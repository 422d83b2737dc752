"""GPUs as a DRA driver publishes them: devices, what they share, and what still fits.

A GPU that can be cut is published as the whole GPU and as every slice that it can be cut into, at
every place. All of them draw on one set of counters, one ``memory-slice-N`` for each memory slice.
So the counters say which devices exclude each other; no table of placements is needed.

Source: KEP-4815; NVIDIA k8s-dra-driver-gpu cmd/gpu-kubelet-plugin/partitions.go.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from admission.base import names
from admission.gpu import names as profiles
from admission.gpu.catalogue import Catalogue
from admission.gpu.costs import NOTHING
from admission.gpu.products import DEFAULT_SLICES, GIB, Cost, Product

SLICE_COUNTER: Final = "memory-slice-"

Counter = tuple[str, str]
"""Counter set and counter."""
Counters = tuple[tuple[Counter, int], ...]
"""Amounts by counter; hashable, as the GPUs of thousands of nodes are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One published device.

    Attributes:
        name: unique on its node.
        profile: of a MIG instance; empty for a whole GPU.
        product: the driver's name of the GPU model; empty = unknown.
        memory_bytes: as published; 0 = unknown.
        takes: amounts of shared counters that it uses; empty for a device that excludes no other.
        sick: why it must not be given; empty if it may.
    """

    name: str
    profile: str = ""
    product: str = ""
    memory_bytes: int = 0
    takes: Counters = ()
    sick: str = ""

    @property
    def resource(self) -> str:
        """The name under which quota counts it."""
        return profiles.parse(self.profile).resource if self.profile else names.GPU_RESOURCE

    @property
    def end(self) -> int:
        """Return the index after its last memory slice; 0 if it takes none."""
        taken = (
            int(index) + 1
            for (_, counter), amount in self.takes
            if amount and counter.startswith(SLICE_COUNTER)
            if (index := counter.removeprefix(SLICE_COUNTER)).isdecimal()
        )
        return max(taken, default=0)


@dataclass(frozen=True, kw_only=True)
class Published:
    """All GPUs of a node.

    Attributes:
        devices: in the order of their names.
        budgets: what there is of the shared counters.
    """

    devices: tuple[Device, ...] = ()
    budgets: Counters = ()

    @cached_property
    def _by_name(self) -> Mapping[str, Device]:
        return {one.name: one for one in self.devices}

    @cached_property
    def _sick_sets(self) -> Mapping[str, str]:
        """Return why nothing may be cut from a GPU, by counter set: the whole of it is sick."""
        return {
            counter_set: one.sick
            for one in self.devices
            if one.sick and not one.profile
            for (counter_set, _), _ in one.takes
        }

    def sickness(self, device: Device) -> str:
        """Return why a device must not be given; empty if it may."""
        sets = sorted({counter_set for (counter_set, _), _ in device.takes})
        return device.sick or next(filter(None, map(self._sick_sets.get, sets)), "")

    def resource_of(self, name: str) -> str:
        """Return the resource that a device counts as; empty if the node has no such GPU."""
        found = self._by_name.get(name)
        return found.resource if found is not None else ""

    def counted(self, taken: Iterable[str]) -> dict[str, int]:
        """Return the devices by resource; unknown ones are left out."""
        total: dict[str, int] = {}
        for name in sorted(taken):
            if resource := self.resource_of(name):
                total[resource] = total.get(resource, 0) + 1
        return total

    def most(self, taken: Collection[str] = (), *, with_sick: bool = False) -> dict[str, int]:
        """Return the most devices of each resource that fit if no other resource is used.

        Resources that exclude each other are each counted in full. Zero amounts are left out.

        Args:
            taken: devices that somebody holds.
            with_sick: count what is sick as well.
        """
        left = dict(self.budgets)
        for name in taken:
            known = self._by_name.get(name)
            for counter, amount in known.takes if known is not None else ():
                left[counter] = left.get(counter, 0) - amount
        free = [
            one
            for one in self.devices
            if one.name not in taken and (with_sick or not self.sickness(one))
        ]
        by_resource: dict[str, list[Device]] = {}
        for one in free:
            by_resource.setdefault(one.resource, []).append(one)
        counts = {name: _fitting(by_resource[name], left) for name in sorted(by_resource)}
        return {name: count for name, count in counts.items() if count}

    @property
    def gpus(self) -> int:
        """GPUs that can be given whole, sick ones included."""
        return self.most(with_sick=True).get(names.GPU_RESOURCE, 0)

    def products(self) -> tuple[str, ...]:
        """Return the models that the driver names, sorted."""
        return tuple(sorted({one.product for one in self.devices if one.product}))

    def worth(self, catalogue: Catalogue) -> tuple[Cost, tuple[str, ...]]:
        """Return the cost of the healthy GPUs, and notes about GPUs whose cost is unknown.

        A GPU that can be cut is worth the whole of it, whatever is cut from it.
        """
        total, unknown = NOTHING, []
        left = dict(self.budgets)
        for one in sorted(self.devices, key=lambda one: (bool(one.profile), one.end, one.name)):
            if self.sickness(one) or not _take(one, left):
                continue
            cost = _cost(one, catalogue)
            if cost is None:
                unknown.append(f"the cost of {one.name} is unknown: no product")
            else:
                total = total.plus(cost)
        return total, tuple(unknown)


def _cost(device: Device, catalogue: Catalogue) -> Cost | None:
    product = product_of(device.product, catalogue)
    if device.profile:
        found = product.find(device.profile) if product is not None else None
        if found is not None:
            return found.cost
        costs = [candidate.cost for _, candidate in catalogue.candidates(device.profile)]
        return min(costs, key=lambda cost: (cost.slices, cost.memory_bytes), default=None)
    if product is not None:
        return product.whole
    if not device.memory_bytes:
        return None
    # The published memory is a little less than the nominal one.
    return Cost(slices=DEFAULT_SLICES, memory_bytes=device.memory_bytes // GIB * GIB)


def product_of(text: str, catalogue: Catalogue) -> Product | None:
    """Return the product of a driver's model name: a product label with spaces."""
    return catalogue.find(text.replace(" ", "-")) if text else None


def _fitting(devices: Iterable[Device], left: Mapping[Counter, int]) -> int:
    """Return how many devices of one kind fit together.

    They are as large as each other, so taking the one that ends first is never worse.
    """
    rest = dict(left)
    return sum(_take(one, rest) for one in sorted(devices, key=lambda one: (one.end, one.name)))


def _take(device: Device, left: dict[Counter, int]) -> bool:
    """Takes what a device needs, if there is enough of it."""
    if any(left.get(counter, 0) < amount for counter, amount in device.takes):
        return False
    for counter, amount in device.takes:
        left[counter] = left.get(counter, 0) - amount
    return True
