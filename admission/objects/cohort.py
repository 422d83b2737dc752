"""Cohort: a group of ClusterQueues, and of other Cohorts, that lend quota to each other."""

from typing import Annotated

from admission.base.names import CohortName
from admission.objects import resource_group
from admission.objects.fields import SUBDOMAIN
from admission.objects.queue_status import FairSharingStatus
from admission.objects.resource_group import FairSharing, ResourceGroups
from admission.objects.viewbase import Object, View
from admission.scheduling import model


class CohortSpec(View, frozen=True, kw_only=True):
    """Place in the tree and quota of its own."""

    parent_name: Annotated[str, SUBDOMAIN] = ""
    """The Cohort above; absent makes this one a root."""

    resource_groups: ResourceGroups | None = None
    """Quota beside that of the members; all members may borrow it."""

    fair_sharing: FairSharing | None = None
    """The weight under the parent."""


class CohortStatus(View, frozen=True, kw_only=True):
    """Current share."""

    fair_sharing: FairSharingStatus | None = None
    """Current share; only with fair sharing."""


class Cohort(Object, frozen=True, kw_only=True):
    """A group of queues that lend quota to each other."""

    spec: CohortSpec = CohortSpec()
    """Place in the tree and quota of its own."""

    status: CohortStatus = CohortStatus()
    """Current share."""


def scheduling_value(view: Cohort) -> model.Cohort:
    """Return a Cohort as a value of scheduling.

    Raises:
        InvalidValueError: a quantity cannot be read.
    """
    return model.Cohort(
        name=CohortName(view.metadata.name),
        parent=CohortName(view.spec.parent_name) if view.spec.parent_name else None,
        resource_groups=resource_group.scheduling_groups(view.spec.resource_groups or ()),
        fair_weight=resource_group.scheduling_weight(view.spec.fair_sharing),
    )
