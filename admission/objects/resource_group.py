"""Quota by flavor and resource, as ClusterQueues and Cohorts hold it."""

from collections.abc import Iterable
from typing import Annotated, ClassVar

from admission.base import quantity
from admission.base.errors import InvalidValueError
from admission.base.names import FlavorName, ResourceName
from admission.objects import markers, values
from admission.objects.fields import REQUIRED, SUBDOMAIN, Quantity, api_default
from admission.objects.markers import Rule
from admission.objects.viewbase import View
from admission.scheduling import model


class ResourceQuota(View, frozen=True, kw_only=True):
    """Quota of one resource in one flavor."""

    name: str
    """The resource."""

    nominal_quota: Quantity
    """How much of the resource is this queue's own."""

    borrowing_limit: Quantity | None = None
    """How much more may be borrowed from the cohort; absent means no limit."""

    lending_limit: Quantity | None = None
    """How much of the nominal quota the cohort may borrow while it is unused; absent means all."""


class FlavorQuotas(View, frozen=True, kw_only=True):
    """Quota of one flavor."""

    name: Annotated[str, SUBDOMAIN]
    """The ResourceFlavor. It need not exist yet; the queue is inactive until it does."""

    resources: Annotated[
        tuple[ResourceQuota, ...], REQUIRED, markers.list_map("name", at_least=1, at_most=64)
    ] = ()
    """One quota per covered resource, in the same order."""


class ResourceGroup(View, frozen=True, kw_only=True):
    """Resources that a pod set takes from one and the same flavor."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.flavors.all(flavor, size(flavor.resources) == size(self.coveredResources))",
            "flavors must have the same number of resources as the coveredResources",
        ),
    )

    covered_resources: Annotated[
        tuple[str, ...], REQUIRED, markers.list_atomic(at_least=1, at_most=64)
    ] = ()
    """The resources. Each may stand in one group only."""

    flavors: Annotated[
        tuple[FlavorQuotas, ...], REQUIRED, markers.list_map("name", at_least=1, at_most=64)
    ] = ()
    """The flavors, in the order in which they are tried."""


ResourceGroups = Annotated[tuple[ResourceGroup, ...], markers.list_atomic(at_most=16)]


class FairSharing(View, frozen=True, kw_only=True):
    """Place in fair sharing."""

    weight: Annotated[Quantity | None, api_default(1)] = None
    """Share relative to the others; 0 means last. Without fair sharing it has no effect."""


def scheduling_groups(found: Iterable[ResourceGroup]) -> tuple[model.ResourceGroup, ...]:
    """Return resource groups as values of scheduling.

    Raises:
        InvalidValueError: a quantity cannot be read; the rule names flavor and field.
    """
    return tuple(
        model.ResourceGroup(
            covered_resources=tuple(ResourceName(name) for name in group.covered_resources),
            flavors=tuple(_flavor_quotas(flavor) for flavor in group.flavors),
        )
        for group in found
    )


def _flavor_quotas(view: FlavorQuotas) -> model.FlavorQuotas:
    return model.FlavorQuotas(
        name=FlavorName(view.name),
        resources={ResourceName(one.name): _quota(one, view.name) for one in view.resources},
    )


def _quota(view: ResourceQuota, flavor: str) -> model.ResourceQuota:
    def read(value: str | int | None, field: str) -> int | None:
        return (
            None
            if value is None
            else values.amount_of(view.name, value, f"flavor {flavor}, {field}")
        )

    return model.ResourceQuota(
        nominal=read(view.nominal_quota, "nominalQuota") or 0,
        borrowing_limit=read(view.borrowing_limit, "borrowingLimit"),
        lending_limit=read(view.lending_limit, "lendingLimit"),
    )


def scheduling_weight(view: FairSharing | None) -> int:
    """Return the weight in fair sharing, in units of 1e-9.

    Raises:
        InvalidValueError: it is no quantity.
    """
    if view is None or view.weight is None:
        return model.DEFAULT_WEIGHT
    try:
        return quantity.parse_nano(str(view.weight))
    except InvalidValueError as error:
        raise InvalidValueError(error.value, f"spec.fairSharing.weight: {error.rule}") from error
