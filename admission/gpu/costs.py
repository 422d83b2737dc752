"""The cost of device names in GPU memory and GPU slices, per flavor.

The same name costs differently on different products, so amounts exist per flavor only. A
``FlavorCosts`` is made once per flavor and answers per pod from a small table.

Shares cost the device divided by its replicas, rounded up per pod and resource: a quota of n
whole GPUs may refuse the last share where replicas do not divide 7, but never over-admits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cached_property

from admission.base import names
from admission.base.errors import InvalidValueError
from admission.gpu import capabilities, resources
from admission.gpu.capabilities import FlavorCapabilities, Offered, ResolvedCapabilities
from admission.gpu.catalogue import Catalogue, UnknownProductError
from admission.gpu.products import Cost, Product, Profile
from admission.gpu.resources import Device, UnitKind

NOTHING = Cost(slices=0, memory_bytes=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCost:
    """What one unit of a device name costs in a flavor.

    Attributes:
        cost: of the undivided device.
        replicas: units per device, 1 without sharing.
        assumed: why the cost is only an upper bound; empty = it is exact.
    """

    cost: Cost
    replicas: int = 1
    assumed: str = ""

    def times(self, count: int) -> Cost:
        """Return the cost of ``count`` units, rounded up."""
        return self.cost.times(count, self.replicas)


@dataclass(frozen=True, kw_only=True)
class FlavorCosts:
    """Prices of device names in one flavor.

    Attributes:
        menu: what the flavor offers.
        catalogue: GPU products, for flavors that name none.
    """

    menu: ResolvedCapabilities
    catalogue: Catalogue

    @cached_property
    def _known(self) -> dict[str, DeviceCost]:
        """Prices looked up so far; a flavor sees few names."""
        return {
            offer.resource: DeviceCost(cost=offer.cost, replicas=offer.replicas)
            for offer in self.menu.offers
            if offer.cost is not None
        }

    def price(self, resource: str) -> DeviceCost | None:
        """Return the price of a name; None if it is no GPU.

        Raises:
            InvalidValueError: a MIG name that is no usable profile.
            UnknownProfileError: the flavor's product, or every product, lacks the profile.
            UnknownProductError: the cost of a whole GPU of unknown product is asked for.
        """
        price_known = self._known.get(resource)
        if price_known is not None:
            return price_known
        device = resources.parse(resource)
        if device is None or device.kind is UnitKind.DEVICE_CLASS:
            return None
        price = self._price(device)
        self._known[resource] = price
        return price

    def lacks(self, resource: str) -> str:
        """Return why the flavor's nodes cannot hand out a GPU name.

        It is empty if they can, or it is none.

        Raises:
            InvalidValueError: a MIG name that is no usable profile.
        """
        device = resources.parse(resource)
        if device is None or device.kind is UnitKind.DEVICE_CLASS:
            return ""
        for offer in self.menu.offers:
            if offer.resource == resource or self._is_alias(device, offer):
                return ""
        offered = ", ".join(offer.resource for offer in self.menu.offers) or "no GPUs"
        return f"flavor {self.menu.flavor.name} offers {offered}, not {resource}"

    def _is_alias(self, device: Device, offer: Offered) -> bool:
        product = self.menu.product
        if device.profile is None or product is None or offer.resource == names.GPU_RESOURCE:
            return False
        profile_of_product = product.find(device.profile.text)
        return (
            profile_of_product is not None
            and profile_of_product.name == offer.profile
            and offer.shared == device.shared
        )

    def demand(self, amounts: Mapping[str, int]) -> Cost:
        """Return the cost of a resource list; other names than GPUs and amounts of 0 cost nothing.

        Raises:
            InvalidValueError: as ``price``.
        """
        total = NOTHING
        for resource, count in amounts.items():
            if count:
                price = self.price(resource)
                if price is not None:
                    total = total.plus(price.times(count))
        return total

    def assumptions(self, amounts: Mapping[str, int]) -> tuple[str, ...]:
        """Return which of the costs are only upper bounds, and why; sorted."""
        prices = (self.price(resource) for resource, count in amounts.items() if count)
        return tuple(sorted({price.assumed for price in prices if price and price.assumed}))

    def doubts(self) -> tuple[str, ...]:
        """Return why the flavor's devices cannot be counted exactly, with what to do.

        They are sorted.
        """
        problems = {self.menu.problem}
        for offer in self.menu.offers:
            try:
                problems |= set(self.assumptions({offer.resource: 1}))
            except InvalidValueError as error:
                problems.add(error.rule)
        return tuple(sorted(filter(None, problems)))

    def _price(self, device: Device) -> DeviceCost:
        flavor = self.menu.flavor
        replicas = max(flavor.replicas, 1) if device.shared else 1
        if device.profile is None:
            return DeviceCost(cost=self._whole(), replicas=replicas)
        if self.menu.product is not None:
            profile_of_product = self.catalogue.profile(self.menu.product, device.profile.text)
            return DeviceCost(cost=profile_of_product.cost, replicas=replicas)
        cost, assumed = dearest(self.catalogue, device.profile.text)
        return DeviceCost(cost=cost, replicas=replicas, assumed=assumed)

    def _whole(self) -> Cost:
        if self.menu.product is None:
            raise UnknownProductError(
                self.menu.flavor.product or "(none)",
                f"flavor {self.menu.flavor.name} names no known GPU product:"
                f" set its annotation {names.FLAVOR_PRODUCT}",
            )
        return self.menu.product.whole


def tariff(flavor: FlavorCapabilities, catalogue: Catalogue) -> FlavorCosts:
    """Return the prices of a flavor."""
    return FlavorCosts(menu=capabilities.menu(flavor, catalogue), catalogue=catalogue)


def dearest(catalogue: Catalogue, profile: str) -> tuple[Cost, str]:
    """Return a profile's highest cost over all products that have it, and a note that says so.

    Raises:
        InvalidValueError: no product has it.
    """
    candidates = catalogue.candidates(profile)
    if not candidates:
        raise InvalidValueError(profile, "no known GPU product has this profile")
    slices = max(candidate.compute_slices for _, candidate in candidates)
    memory = max(candidate.cost.memory_bytes for _, candidate in candidates)
    note = (
        f"{profile} is counted at its highest cost over "
        f"{', '.join(p.name for p, _ in candidates)},"
        " because the flavor names no product"
    )
    return Cost(slices=slices, memory_bytes=memory), note


def virtual(cost: Cost) -> dict[str, int]:
    """Return the amounts of the two virtual resources."""
    return {names.GPU_MEMORY: cost.memory_bytes, names.GPU_SLICES: cost.slices}


def counts_devices(covered: Iterable[str]) -> bool:
    """Return whether a queue covers virtual resources and no device name: all names count."""
    covered_names = set(covered)
    return bool(covered_names & resources.VIRTUAL) and not any(
        map(resources.is_device, covered_names)
    )


class Unit(Enum):
    """In what a device can be weighed."""

    DEVICES = "devices"
    COMPUTE = "compute"
    MEMORY_SLICES = "memory-slices"
    DOMINANT = "dominant"
    MEMORY_GIB = "memory-gib"


SUB_UNITS = 168
"""Integer sub-units of a GPU that express sevenths, eighths, quarters and twelfths exactly."""


def weigh(product: Product, profile: Profile | None, unit: Unit) -> Fraction:
    """Return the exact weight of one device: part of a whole GPU, or GiB for ``MEMORY_GIB``.

    Args:
        product: the GPU.
        profile: the instance; None = the whole GPU.
        unit: the unit in which it is counted.
    """
    if unit is Unit.DEVICES:
        return Fraction(1)
    if unit is Unit.MEMORY_GIB:
        return Fraction(product.memory_gb if profile is None else profile.memory_gb)
    if profile is None:
        return Fraction(1)
    compute = Fraction(profile.compute_slices, product.compute_slices)
    memory = Fraction(profile.memory_slices, product.memory_slices)
    if unit is Unit.COMPUTE:
        return compute
    return memory if unit is Unit.MEMORY_SLICES else max(compute, memory)
