"""GPU requests in the currency of a ClusterQueue: GPU memory and GPU slices, per flavor.

A ClusterQueue may list ``gpu-admission.dev/gpu-memory`` and ``gpu-admission.dev/gpu-slices``
beside or instead of device names. What a pod takes of them depends on the product behind each
flavor, so it is counted for each flavor of the queue; whole GPUs, MIG slices and shares then draw
on one budget.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from admission.api import views
from admission.base import amount
from admission.base.errors import InvalidValueError
from admission.base.names import FlavorName, ResourceName
from admission.engine import model
from admission.gpu import equivalents, resources
from admission.gpu.catalogue import Catalogue
from admission.gpu.equivalents import Tariff
from admission.translate import flavors as flavor_offers

Amounts = Mapping[ResourceName, int]

_KEPT_QUOTES: Final = 4096
"""Distinct requests whose price is remembered per queue; beyond it all are computed anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """What the devices of one pod cost in a queue.

    Attributes:
        most: the highest amount over the flavors that can serve it.
        by_flavor: amounts in flavors where they are not the highest.
        unsuited: flavors that cannot serve it, and why.
    """

    most: Amounts
    by_flavor: Mapping[FlavorName, Amounts]
    unsuited: Mapping[FlavorName, str]


@dataclass(frozen=True, kw_only=True)
class Pricing:
    """How a ClusterQueue counts GPUs. Equal where everything is counted equally.

    Attributes:
        tariffs: of the flavors that are given virtual resources, in the order of the queue.
        counted: virtual resources that the queue covers in each of them.
        hides_devices: whether device names are counted by the virtual resources alone.
    """

    tariffs: Mapping[FlavorName, Tariff]
    counted: Mapping[FlavorName, tuple[ResourceName, ...]]
    hides_devices: bool
    _quotes: dict[tuple[tuple[str, int], ...], Quote] = field(
        default_factory=dict, compare=False, repr=False
    )

    def quote(self, devices: Mapping[str, int]) -> Quote:
        """What devices by name cost; amounts of 0 are left out by the caller."""
        key = tuple(devices.items())
        found = self._quotes.get(key)
        if found is None:
            if len(self._quotes) >= _KEPT_QUOTES:
                self._quotes.clear()
            found = self._quotes[key] = self._computed(devices)
        return found

    @property
    def doubts(self) -> tuple[str, ...]:
        """What keeps GPUs from being counted exactly, each with its flavor; empty = nothing."""
        return tuple(
            f"flavor {flavor}: {text}"
            for flavor, tariff in self.tariffs.items()
            for text in tariff.doubts()
        )

    def cost(self, flavor: FlavorName, devices: Mapping[str, int]) -> Amounts:
        """What devices of one pod cost in a flavor; nothing where that is unknown."""
        try:
            cost = equivalents.virtual(self.tariffs[flavor].demand(devices))
        except InvalidValueError:
            return {}
        return {name: cost[name] for name in self.counted[flavor]}

    def _computed(self, devices: Mapping[str, int]) -> Quote:
        costs: dict[FlavorName, Amounts] = {}
        unsuited = {}
        for flavor, tariff in self.tariffs.items():
            try:
                unsuited[flavor] = next(filter(None, map(tariff.lacks, devices)), "")
                amounts = equivalents.virtual(tariff.demand(devices))
            except InvalidValueError as error:
                unsuited[flavor] = f"flavor {flavor}: {error}"
                continue
            costs[flavor] = {name: amounts[name] for name in self.counted[flavor]}
        most: dict[ResourceName, int] = {}
        for name in dict.fromkeys(n for known in self.counted.values() for n in known):
            most[name] = max(
                (cost[name] for f, cost in costs.items() if name in cost and not unsuited[f]),
                default=0,
            )
        return Quote(
            most=most,
            by_flavor={
                flavor: cost
                for flavor, cost in costs.items()
                if not unsuited[flavor] and any(cost[name] != most[name] for name in cost)
            },
            unsuited={flavor: why for flavor, why in unsuited.items() if why},
        )


def pricing(
    queue: views.ClusterQueue,
    flavors: Mapping[str, views.ResourceFlavor],
    catalogue: Catalogue,
) -> Pricing | None:
    """How a ClusterQueue counts GPUs; None where it lists no virtual resource.

    Args:
        queue: the ClusterQueue.
        flavors: those that exist; others are left out, as the queue is inactive without them.
        catalogue: of GPU products.
    """
    tariffs: dict[FlavorName, Tariff] = {}
    counted: dict[FlavorName, tuple[ResourceName, ...]] = {}
    covered: list[str] = []
    for group in queue.spec.resource_groups or ():
        covered += group.covered_resources
        virtual = tuple(ResourceName(r) for r in group.covered_resources if r in resources.VIRTUAL)
        for quotas in group.flavors if virtual else ():
            flavor = flavors.get(quotas.name)
            if flavor is None:
                continue
            offer = flavor_offers.offer(flavor, group.covered_resources, {})
            tariffs[FlavorName(quotas.name)] = equivalents.tariff(offer, catalogue)
            counted[FlavorName(quotas.name)] = virtual
    if not tariffs:
        return None
    hides = equivalents.counts_devices(covered)
    return Pricing(tariffs=tariffs, counted=counted, hides_devices=hides)


def asks_for_devices(workload: model.Workload) -> bool:
    """Whether a Workload requests GPUs by name, so that it can have a price."""
    return any(resources.is_device(name) for one in workload.pod_sets for name in one.requests)


def priced(workload: model.Workload, prices: Pricing | None) -> model.Workload:
    """A Workload as its ClusterQueue counts it.

    Quota that it holds counts as it was written, but what was written before the queue listed a
    virtual resource lacks it: that is added, by the flavor that was given.

    Args:
        workload: as its object says.
        prices: of the ClusterQueue; None where device names are counted as they are.
    """
    if prices is None or not asks_for_devices(workload):
        return workload
    held = workload.reservation
    if held is not None:
        held = replace(held, pod_sets=tuple(_held(one, prices) for one in held.pod_sets))
    return replace(
        workload,
        pod_sets=tuple(_pod_set(one, prices) for one in workload.pod_sets),
        reservation=held,
    )


def _held(assigned: model.PodSetAssignment, prices: Pricing) -> model.PodSetAssignment:
    usage, flavors = dict(assigned.usage), dict(assigned.flavors)
    for flavor in dict.fromkeys(assigned.flavors.values()):
        missing = [name for name in prices.counted.get(flavor, ()) if name not in assigned.usage]
        devices: dict[str, int] = {
            name: assigned.usage.get(name, 0) // max(assigned.count, 1)
            for name, given in assigned.flavors.items()
            if given == flavor and resources.is_device(name)
        }
        amounts = prices.cost(flavor, devices) if missing and any(devices.values()) else {}
        for name in missing:
            if name in amounts:
                usage[name] = amount.multiply(amounts[name], assigned.count)
                flavors[name] = flavor
    if len(usage) == len(assigned.usage):
        return assigned
    return replace(assigned, usage=usage, flavors=flavors)


def _pod_set(pod_set: model.PodSet, prices: Pricing) -> model.PodSet:
    devices: dict[str, int] = {
        name: count
        for name, count in pod_set.requests.items()
        if count and resources.is_device(name)
    }
    if not devices:
        return pod_set
    kept = {
        name: count
        for name, count in pod_set.requests.items()
        if not (prices.hides_devices and resources.is_device(name))
    }
    quote = prices.quote(devices)
    return replace(
        pod_set,
        requests={**kept, **quote.most},
        requests_by_flavor=quote.by_flavor,
        unsuited=quote.unsuited,
    )
