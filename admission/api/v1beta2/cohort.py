"""Cohort: a group of ClusterQueues, and of other Cohorts, that lend quota to each other."""

from admission.api import common
from admission.api.model import Model, Root
from admission.api.scalars import Subdomain
from admission.api.v1beta2.resource_groups import ResourceGroups


class CohortSpec(Model):
    """Place in the tree and quota of its own."""

    parent_name: Subdomain | None = None
    """The Cohort above; absent makes this one a root."""

    resource_groups: ResourceGroups | None = None
    """Quota beside that of the members; all members may borrow it."""

    fair_sharing: common.FairSharing | None = None
    """The weight under the parent."""


class CohortStatus(Model):
    """Current share."""

    fair_sharing: common.FairSharingStatus | None = None
    """Current share; only with fair sharing."""


class Cohort(Root):
    """A group of queues that lend quota to each other."""

    spec: CohortSpec | None = None
    """Place in the tree and quota of its own."""

    status: CohortStatus | None = None
    """Current share."""
