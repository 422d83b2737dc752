"""Quota by flavor and resource, as ClusterQueues and Cohorts hold it."""

from typing import Annotated, ClassVar

from admission.objects import markers
from admission.objects.fields import REQUIRED, SUBDOMAIN, Quantity, api_default
from admission.objects.markers import Rule
from admission.objects.viewbase import View


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
