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
from admission.gpu import mig_profile_names as profiles
from admission.gpu.catalogue import Catalogue
from admission.gpu.costs import NOTHING
from admission.gpu.products import DEFAULT_SLICES, GIB, Cost, Product

SLICE_COUNTER: Final = "memory-slice-"

Counter = tuple[str, str]
"""Counter set and counter."""
Counters = tuple[tuple[Counter, int], ...]
"""Amounts by counter; hashable, as the GPUs of thousands of nodes are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDevice:
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

    devices: tuple[PublishedDevice, ...] = ()
    budgets: Counters = ()

    @cached_property
    def _by_name(self) -> Mapping[str, PublishedDevice]:
        return {device.name: device for device in self.devices}

    @cached_property
    def _sick_sets(self) -> Mapping[str, str]:
        """Return why nothing may be cut from a GPU, by counter set: the whole of it is sick."""
        return {
            counter_set: device.sick
            for device in self.devices
            if device.sick and not device.profile
            for (counter_set, _), _ in device.takes
        }

    def sickness(self, device: PublishedDevice) -> str:
        """Return why a device must not be given; empty if it may."""
        sets = sorted({counter_set for (counter_set, _), _ in device.takes})
        return device.sick or next(filter(None, map(self._sick_sets.get, sets)), "")

    def resource_of(self, name: str) -> str:
        """Return the resource that a device counts as; empty if the node has no such GPU."""
        device = self._by_name.get(name)
        return device.resource if device is not None else ""

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
            device = self._by_name.get(name)
            for counter, amount in device.takes if device is not None else ():
                left[counter] = left.get(counter, 0) - amount
        free = [
            device_
            for device_ in self.devices
            if device_.name not in taken and (with_sick or not self.sickness(device_))
        ]
        by_resource: dict[str, list[PublishedDevice]] = {}
        for device_ in free:
            by_resource.setdefault(device_.resource, []).append(device_)
        counts = {name: _fitting(by_resource[name], left) for name in sorted(by_resource)}
        return {name: count for name, count in counts.items() if count}

    @property
    def gpus(self) -> int:
        """GPUs that can be given whole, sick ones included."""
        return self.most(with_sick=True).get(names.GPU_RESOURCE, 0)

    def products(self) -> tuple[str, ...]:
        """Return the models that the driver names, sorted."""
        return tuple(sorted({device.product for device in self.devices if device.product}))

    def worth(self, catalogue: Catalogue) -> tuple[Cost, tuple[str, ...]]:
        """Return the cost of the healthy GPUs, and notes about GPUs whose cost is unknown.

        A GPU that can be cut is worth the whole of it, whatever is cut from it.
        """
        total, unknown = NOTHING, []
        left = dict(self.budgets)
        for device in sorted(
            self.devices, key=lambda device_: (bool(device_.profile), device_.end, device_.name)
        ):
            if self.sickness(device) or not _take(device, left):
                continue
            cost = _cost(device, catalogue)
            if cost is None:
                unknown.append(f"the cost of {device.name} is unknown: no product")
            else:
                total = total.plus(cost)
        return total, tuple(unknown)


def _cost(device: PublishedDevice, catalogue: Catalogue) -> Cost | None:
    product = product_of(device.product, catalogue)
    if device.profile:
        profile_of_product = product.find(device.profile) if product is not None else None
        if profile_of_product is not None:
            return profile_of_product.cost
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


def _fitting(devices: Iterable[PublishedDevice], left: Mapping[Counter, int]) -> int:
    """Return how many devices of one kind fit together.

    They are as large as each other, so taking the one that ends first is never worse.
    """
    rest = dict(left)
    return sum(
        _take(device, rest)
        for device in sorted(devices, key=lambda device_: (device_.end, device_.name))
    )


def _take(device: PublishedDevice, left: dict[Counter, int]) -> bool:
    """Takes what a device needs, if there is enough of it."""
    if any(left.get(counter, 0) < amount for counter, amount in device.takes):
        return False
    for counter, amount in device.takes:
        left[counter] = left.get(counter, 0) - amount
    return True
