"""Cohort: a group of ClusterQueues, and of other Cohorts, that lend quota to each other."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Final

from admission.base import fielderrors, names
from admission.base.fielderrors import FieldError, FieldPath
from admission.base.names import CohortName
from admission.objects import caps, resource_group, rule_checks
from admission.objects.fields import SUBDOMAIN
from admission.objects.queue_status import FairSharingStatus
from admission.objects.resource_group import FairSharingWeight, ResourceGroups
from admission.objects.rule_checks import Row, Syntax
from admission.objects.viewbase import Object, View
from admission.scheduling import model


class CohortSpec(View, frozen=True, kw_only=True):
    """Place in the tree and quota of its own."""

    parent_name: Annotated[str, SUBDOMAIN] = ""
    """The parent Cohort; absent for a root."""

    resource_groups: ResourceGroups | None = None
    """Quota in addition to that of the members; all members may borrow it."""

    fair_sharing: FairSharingWeight | None = None
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


# ------------------------------------------------------------------------------- validation
# Source: kueue pkg/webhooks/cohort_webhook.go.


def _not_lent(path: FieldPath, value: str) -> Iterator[FieldError]:
    del value
    yield fielderrors.forbidden(
        path, "has an effect on ClusterQueues only: surge quota is not lent"
    )


def _elsewhere(path: FieldPath, value: str) -> Iterator[FieldError]:
    del value
    rule = "has an effect on ClusterQueues only, where it applies to the whole cohort tree"
    yield fielderrors.forbidden(path, rule)


_ANNOTATIONS: Final[Mapping[str, rule_checks.Check]] = {
    names.CAPACITY_GUARD: _elsewhere,
    names.SURGE_QUOTA: _not_lent,
    **caps.OF_OTHERS,
}
"""Annotations of a Cohort, each with its rule."""


def _weight(cohort: Cohort) -> Iterable[FieldError]:
    return rule_checks.errors(resource_group.WEIGHTS, cohort.spec.fair_sharing)


def _quotas(cohort: Cohort) -> Iterator[FieldError]:
    spec = cohort.spec
    return resource_group.errors(
        spec.resource_groups, resource_group.COHORT_QUOTAS, has_parent=bool(spec.parent_name)
    )


RULES: Final[tuple[Row[Cohort], ...]] = (
    Syntax("Cohort 11", _weight),  # the rows of `resource_group.WEIGHTS`
    Syntax("Cohort 1-7", _quotas),  # the rows of `resource_group`
)


def errors(old: Cohort | None, new: Cohort) -> list[FieldError]:
    """Errors of a Cohort; ``old`` is None on creation."""
    return rule_checks.errors(RULES, new) + rule_checks.annotation_errors(_ANNOTATIONS, old, new)
