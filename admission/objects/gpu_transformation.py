"""GPU requests in the currency of a ClusterQueue: GPU memory and GPU slices, per flavor.

A ClusterQueue may list ``gpu-admission.dev/gpu-memory`` and ``gpu-admission.dev/gpu-slices``
beside or instead of device names. What a pod takes of them depends on the product behind each
flavor, so it is counted for each flavor of the queue; whole GPUs, MIG slices and shares then draw
on one budget.
"""

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from admission.base import amount, names
from admission.base.errors import InvalidValueError
from admission.base.memo import Memo
from admission.base.names import FlavorName, ResourceName
from admission.gpu import costs, resources
from admission.gpu.catalogue import Catalogue
from admission.gpu.costs import FlavorCosts
from admission.objects import resource_flavor
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.resource_flavor import ResourceFlavor
from admission.scheduling import model

Amounts = Mapping[ResourceName, int]

_KEPT_QUOTES: Final = 4096
"""Distinct requests whose cost is cached per queue; beyond it all are computed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostByFlavor:
    """What the devices of one pod cost in a queue.

    Attributes:
        most: the highest amount over the flavors that can serve it.
        by_flavor: amounts in flavors where they are not the highest.
        unsuited: flavors that cannot serve it, and why.
    """

    most: Amounts
    by_flavor: Mapping[FlavorName, Amounts]
    unsuited: Mapping[FlavorName, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformedRequests:
    """What a pod's requests are in a queue.

    Attributes:
        requests: requests as the queue counts them.
        quote: cost of the devices among them; None if there are none.
    """

    requests: Amounts
    quote: CostByFlavor | None


@dataclass(frozen=True, kw_only=True)
class GpuTransformation:
    """How a ClusterQueue counts GPUs. Equal where everything is counted equally.

    Attributes:
        tariffs: costs in the flavors with virtual resources, in the order of the queue.
        counted: virtual resources that the queue covers in each of them.
        hides_devices: whether device names are counted by the virtual resources alone.
        present: device names that a flavor's nodes have now, where others must not be admitted;
            a missing flavor may have any.
    """

    tariffs: Mapping[FlavorName, FlavorCosts]
    counted: Mapping[FlavorName, tuple[ResourceName, ...]]
    hides_devices: bool
    present: Mapping[FlavorName, frozenset[str]] = field(default_factory=dict)
    _quotes: Memo[CostByFlavor] = field(
        default_factory=lambda: Memo(_KEPT_QUOTES), compare=False, repr=False
    )
    _bills: Memo[TransformedRequests] = field(
        default_factory=lambda: Memo(_KEPT_QUOTES), compare=False, repr=False
    )

    def bill(self, amounts: Amounts) -> TransformedRequests:
        """Amounts as the queue counts them; pods that ask alike share one answer."""
        return self._bills.get(tuple(amounts.items()), lambda: self._billed(amounts))

    def quote(self, devices: Mapping[str, int]) -> CostByFlavor:
        """Return the cost of devices by name; the caller leaves out amounts of 0."""
        return self._quotes.get(tuple(devices.items()), lambda: self._computed(devices))

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return why GPUs cannot be counted exactly, each reason with its flavor.

        It is empty if nothing does.
        """
        return tuple(
            f"flavor {flavor}: {text}"
            for flavor, tariff in self.tariffs.items()
            for text in tariff.doubts()
        )

    def cost(self, flavor: FlavorName, devices: Mapping[str, int]) -> Amounts:
        """Return the cost of one pod's devices in a flavor; empty if it is unknown."""
        try:
            cost = costs.virtual(self.tariffs[flavor].demand(devices))
        except InvalidValueError:
            return {}
        return {name: cost[name] for name in self.counted[flavor]}

    def _billed(self, amounts: Amounts) -> TransformedRequests:
        devices: dict[str, int] = {
            name: count for name, count in amounts.items() if count and resources.is_device(name)
        }
        if not devices:
            return TransformedRequests(requests=amounts, quote=None)
        kept = {
            name: count
            for name, count in amounts.items()
            if not (self.hides_devices and resources.is_device(name))
        }
        quote = self.quote(devices)
        return TransformedRequests(requests={**kept, **quote.most}, quote=quote)

    def _absent(self, flavor: FlavorName, devices: Mapping[str, int]) -> str:
        """Return why the nodes that there are cannot serve a request; empty if they can."""
        present = self.present.get(flavor)
        missing = sorted(set(devices) - present) if present is not None else []
        if not missing or not present:  # of a flavor without any GPU its quota tells
            return ""
        return (
            f"flavor {flavor} has no {', '.join(missing)} now, only {', '.join(sorted(present))}:"
            f" {names.CAPACITY_GUARD} admits what exists"
        )

    def _computed(self, devices: Mapping[str, int]) -> CostByFlavor:
        by_flavor: dict[FlavorName, Amounts] = {}
        unsuited = {}
        for flavor, tariff in self.tariffs.items():
            try:
                lacks = next(filter(None, map(tariff.lacks, devices)), "")
                unsuited[flavor] = lacks or self._absent(flavor, devices)
                amounts = costs.virtual(tariff.demand(devices))
            except InvalidValueError as error:
                unsuited[flavor] = f"flavor {flavor}: {error}"
                continue
            by_flavor[flavor] = {name: amounts[name] for name in self.counted[flavor]}
        highest: dict[ResourceName, int] = {}
        for name in dict.fromkeys(n for names_ in self.counted.values() for n in names_):
            highest[name] = max(
                (cost[name] for f, cost in by_flavor.items() if name in cost and not unsuited[f]),
                default=0,
            )
        return CostByFlavor(
            most=highest,
            by_flavor={
                flavor: cost
                for flavor, cost in by_flavor.items()
                if not unsuited[flavor] and any(cost[name] != highest[name] for name in cost)
            },
            unsuited={flavor: why for flavor, why in unsuited.items() if why},
        )


def pricing(
    queue: ClusterQueue,
    flavors: Mapping[str, ResourceFlavor],
    catalogue: Catalogue,
    present: Mapping[str, frozenset[str]] | None = None,
) -> GpuTransformation | None:
    """Return how a ClusterQueue counts GPUs; None where it lists no virtual resource.

    Args:
        queue: the ClusterQueue.
        flavors: those that exist; others are left out, as the queue is inactive without them.
        catalogue: of GPU products.
        present: device names that each flavor's nodes have, for a queue that is held to them.
    """
    tariffs: dict[FlavorName, FlavorCosts] = {}
    counted: dict[FlavorName, tuple[ResourceName, ...]] = {}
    covered: list[str] = []
    for group in queue.spec.resource_groups or ():
        covered += group.covered_resources
        virtual = tuple(ResourceName(r) for r in group.covered_resources if r in resources.VIRTUAL)
        for quotas in group.flavors if virtual else ():
            flavor = flavors.get(quotas.name)
            if flavor is None:
                continue
            offer = resource_flavor.capabilities(flavor, group.covered_resources, {})
            tariffs[FlavorName(quotas.name)] = costs.tariff(offer, catalogue)
            counted[FlavorName(quotas.name)] = virtual
    if not tariffs:
        return None
    hides = costs.counts_devices(covered)
    prices_present = present or {}
    held_to = {flavor: prices_present[flavor] for flavor in tariffs if flavor in prices_present}
    return GpuTransformation(
        tariffs=tariffs, counted=counted, hides_devices=hides, present=held_to
    )


def priced(workload: model.Workload, prices: GpuTransformation | None) -> model.Workload:
    """A Workload as its ClusterQueue counts it.

    Quota that it holds counts as it was written, but what was written before the queue listed a
    virtual resource lacks it: that is added, by the flavor that was given.

    Args:
        workload: the workload as in its object.
        prices: GPU transformation of the ClusterQueue; None if device names are counted unchanged.
    """
    if prices is None:
        return workload
    pod_sets = tuple([_pod_set(pod_set, prices) for pod_set in workload.pod_sets])
    reservation = workload.reservation
    if reservation is not None:
        reservation = replace(
            reservation, pod_sets=tuple(_held(pod_set, prices) for pod_set in reservation.pod_sets)
        )
    elif all(map(operator.is_, pod_sets, workload.pod_sets)):
        return workload
    return changed(workload, pod_sets=pod_sets, reservation=reservation)


def _held(assigned: model.PodSetAssignment, prices: GpuTransformation) -> model.PodSetAssignment:
    usage, flavors = dict(assigned.usage), dict(assigned.flavors)
    for flavor in dict.fromkeys(assigned.flavors.values()):
        missing = [name for name in prices.counted.get(flavor, ()) if name not in assigned.usage]
        if missing:
            amounts = _cost_of_held(assigned, flavor, prices)
            for name in missing:
                if name in amounts:
                    usage[name] = amounts[name]
                    flavors[name] = flavor
    if len(usage) == len(assigned.usage):
        return assigned
    return replace(assigned, usage=usage, flavors=flavors)


def _cost_of_held(
    assigned: model.PodSetAssignment, flavor: FlavorName, prices: GpuTransformation
) -> dict[ResourceName, int]:
    """Return the cost of the devices that a pod set holds in a flavor.

    Pod by pod, and what remains.
    """
    costs = {
        name: assigned.usage.get(name, 0)
        for name, flavor_assigned in assigned.flavors.items()
        if flavor_assigned == flavor and resources.is_device(name)
    }
    count = max(assigned.count, 1)
    each: dict[str, int] = {name: total // count for name, total in costs.items()}
    rest: dict[str, int] = {name: total % count for name, total in costs.items()}
    total: dict[ResourceName, int] = {}
    for devices, times in ((each, assigned.count), (rest, 1)):
        if any(devices.values()):
            for name, cost in prices.cost(flavor, devices).items():
                total[name] = amount.add(total.get(name, 0), amount.multiply(cost, times))
    return total


def _pod_set(pod_set: model.PodSet, prices: GpuTransformation) -> model.PodSet:
    bill = prices.bill(pod_set.requests)
    if pod_set.together:
        return _sharing(pod_set, bill, prices)
    if bill.quote is None:
        return pod_set
    return changed(
        pod_set,
        requests=bill.requests,
        requests_by_flavor=bill.quote.by_flavor,
        unsuited=bill.quote.unsuited,
    )


def _sharing(
    pod_set: model.PodSet, own_requests: TransformedRequests, prices: GpuTransformation
) -> model.PodSet:
    """A pod set whose pods need something together, which has a price as well."""
    bills = [own_requests, *(prices.bill(member.requests) for member in pod_set.together)]
    quotes = [bill_.quote for bill_ in bills if bill_.quote is not None]
    if not quotes:
        return pod_set
    return replace(
        pod_set,
        requests=own_requests.requests,
        requests_by_flavor=_by_flavor(own_requests),
        together=tuple(
            replace(pod_set_, requests=bill.requests, requests_by_flavor=_by_flavor(bill))
            for pod_set_, bill in zip(pod_set.together, bills[1:], strict=True)
        ),
        unsuited={
            flavor: why for quote_ in reversed(quotes) for flavor, why in quote_.unsuited.items()
        },
    )


def _by_flavor(bill: TransformedRequests) -> Mapping[FlavorName, Amounts]:
    return {} if bill.quote is None else bill.quote.by_flavor


Value = TypeVar("Value")


def changed(value: Value, **changes: object) -> Value:
    """A copy of a frozen dataclass with slots in which some fields are others.

    As `dataclasses.replace`, in half the time, for what is copied once a decision: it asks
    neither ``__init__`` nor ``__post_init__``, so the class must not need them, nor inherit
    fields.

    Raises:
        AttributeError: no field has that name.
    """
    slots: Any = value
    copy = object.__new__(type(value))
    put = object.__setattr__
    for name in slots.__slots__:
        put(copy, name, getattr(value, name))
    for name, new in changes.items():
        put(copy, name, new)
    return copy
