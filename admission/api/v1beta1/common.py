"""What several kinds of this version share: lists without an upper limit."""

from typing import Annotated, ClassVar

from pydantic import StringConstraints

from admission.api import markers
from admission.api.common import Condition, FairSharingStatus
from admission.api.markers import Rule
from admission.api.model import Model
from admission.api.v1beta2 import resource_groups
from admission.api.v1beta2.local_queue import AdmissionFairSharingStatus

Conditions = Annotated[list[Condition], markers.list_map("type")]
CheckReference = Annotated[str, StringConstraints(max_length=316)]


class ResourceGroup(Model):
    """Resources that a pod set takes from one and the same flavor."""

    rules: ClassVar[tuple[Rule, ...]] = resource_groups.ResourceGroup.rules

    covered_resources: Annotated[list[str], markers.keywords(minItems=1, maxItems=64)]
    """The resources. Each may stand in one group only."""

    flavors: Annotated[
        list[resource_groups.FlavorQuotas], markers.list_map("name", at_least=1, at_most=64)
    ]
    """The flavors, in the order in which they are tried."""


ResourceGroups = Annotated[list[ResourceGroup], markers.list_atomic(at_most=16)]


class QueueFairSharingStatus(FairSharingStatus):
    """Current share, and use in the past."""

    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None
    """Use in the past; only with admission fair sharing."""
