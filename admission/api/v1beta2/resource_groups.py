"""Quota by flavor and resource, as ClusterQueues and Cohorts hold it."""

from typing import Annotated, ClassVar

from admission.api import markers
from admission.api.markers import Rule
from admission.api.model import Model
from admission.api.scalars import Quantity, Subdomain


class ResourceQuota(Model):
    """Quota of one resource in one flavor."""

    name: str
    """The resource."""

    nominal_quota: Quantity
    """How much of the resource is this queue's own."""

    borrowing_limit: Quantity | None = None
    """How much more may be borrowed from the cohort; absent means no limit."""

    lending_limit: Quantity | None = None
    """How much of the nominal quota the cohort may borrow while it is unused; absent means all."""


class FlavorQuotas(Model):
    """Quota of one flavor."""

    name: Subdomain
    """The ResourceFlavor. It need not exist yet; the queue is inactive until it does."""

    resources: Annotated[list[ResourceQuota], markers.list_map("name", at_least=1, at_most=64)]
    """One quota per covered resource, in the same order."""


class ResourceGroup(Model):
    """Resources that a pod set takes from one and the same flavor."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.flavors.all(flavor, size(flavor.resources) == size(self.coveredResources))",
            "flavors must have the same number of resources as the coveredResources",
        ),
    )

    covered_resources: Annotated[list[str], markers.list_atomic(at_least=1, at_most=64)]
    """The resources. Each may stand in one group only."""

    flavors: Annotated[list[FlavorQuotas], markers.list_map("name", at_least=1, at_most=64)]
    """The flavors, in the order in which they are tried."""


ResourceGroups = Annotated[list[ResourceGroup], markers.list_atomic(at_most=16)]
