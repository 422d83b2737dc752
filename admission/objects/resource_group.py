"""Quota by flavor and resource, as ClusterQueues and Cohorts hold it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from admission.base import quantity, syntax
from admission.base.errors import InvalidValueError
from admission.base.fielderrors import ErrorType, FieldError, FieldPath
from admission.base.names import FlavorName, ResourceName
from admission.gpu import unlikely_amounts
from admission.objects import markers, rule_checks, values
from admission.objects.fields import REQUIRED, SUBDOMAIN, Quantity, api_default
from admission.objects.markers import CelRule
from admission.objects.rule_checks import Row, RuleBreach, Syntax
from admission.objects.viewbase import View
from admission.scheduling import model


class ResourceQuotaSpec(View, frozen=True, kw_only=True):
    """Quota of one resource in one flavor."""

    name: str
    """The resource."""

    nominal_quota: Quantity
    """How much of the resource is this queue's own."""

    borrowing_limit: Quantity | None = None
    """How much more may be borrowed from the cohort; absent means no limit."""

    lending_limit: Quantity | None = None
    """How much of the nominal quota the cohort may borrow while it is unused; absent means all."""


class FlavorQuotasSpec(View, frozen=True, kw_only=True):
    """Quota of one flavor."""

    name: Annotated[str, SUBDOMAIN]
    """The ResourceFlavor. It need not exist yet; the queue is inactive until it does."""

    resources: Annotated[
        tuple[ResourceQuotaSpec, ...], REQUIRED, markers.list_map("name", at_least=1, at_most=64)
    ] = ()
    """One quota per covered resource, in the same order."""


class ResourceGroupSpec(View, frozen=True, kw_only=True):
    """Resources that a pod set takes from one and the same flavor."""

    rules: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "self.flavors.all(flavor, size(flavor.resources) == size(self.coveredResources))",
            "flavors must have the same number of resources as the coveredResources",
        ),
    )

    covered_resources: Annotated[
        tuple[str, ...], REQUIRED, markers.list_atomic(at_least=1, at_most=64)
    ] = ()
    """The resources. A resource may be in one group only."""

    flavors: Annotated[
        tuple[FlavorQuotasSpec, ...], REQUIRED, markers.list_map("name", at_least=1, at_most=64)
    ] = ()
    """The flavors, in the order in which they are tried."""


ResourceGroups = Annotated[tuple[ResourceGroupSpec, ...], markers.list_atomic(at_most=16)]


class FairSharingWeight(View, frozen=True, kw_only=True):
    """Place in fair sharing."""

    weight: Annotated[Quantity | None, api_default(1)] = None
    """Share relative to the others; 0 means last. Without fair sharing it has no effect."""


def scheduling_groups(groups: Iterable[ResourceGroupSpec]) -> tuple[model.ResourceGroup, ...]:
    """Return resource groups as values of scheduling.

    Raises:
        InvalidValueError: a quantity cannot be read; the rule names flavor and field.
    """
    return tuple(
        model.ResourceGroup(
            covered_resources=tuple(ResourceName(name) for name in group.covered_resources),
            flavors=tuple(_flavor_quotas(flavor) for flavor in group.flavors),
        )
        for group in groups
    )


def _flavor_quotas(view: FlavorQuotasSpec) -> model.FlavorQuotas:
    return model.FlavorQuotas(
        name=FlavorName(view.name),
        resources={
            ResourceName(resource.name): _quota(resource, view.name) for resource in view.resources
        },
    )


def _quota(view: ResourceQuotaSpec, flavor: str) -> model.ResourceQuota:
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


def scheduling_weight(view: FairSharingWeight | None) -> int:
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


# ------------------------------------------------------------------------------- validation
# Rules of resource groups and of the fair-sharing weight, shared by ClusterQueue and Cohort. The
# API server checks before us what the schema can say: counts, patterns, one name twice in one
# list. Source: kueue pkg/webhooks/clusterqueue_webhook.go and common.go.

GROUPS: Final = FieldPath.of("spec", "resourceGroups")
WEIGHT: Final = FieldPath.of("spec", "fairSharing")  # as Kueue has it: not the weight below

NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_LEAST_WEIGHT_NANO: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedName:
    """A name in a list, and whether it stood before, in this or an earlier group."""

    path: FieldPath
    name: str
    is_repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One resource of one flavor.

    Attributes:
        path: of the quota.
        view: as sent.
        covered: what coveredResources has at the same position.
        has_parent: whether there is anybody to borrow from and lend to.
    """

    path: FieldPath
    view: ResourceQuotaSpec
    covered: str
    has_parent: bool


def doubts(groups: Sequence[ResourceGroupSpec]) -> Iterator[str]:
    """Yield a warning for each amount that is hardly meant as it is written."""
    for group in groups:
        for flavor in group.flavors:
            for quota in flavor.resources:
                for member, read in _MEMBERS.items():
                    written = read(quota)
                    if written is not None and (
                        why := unlikely_amounts.doubt(quota.name, written)
                    ):
                        yield f"Check the unit: {member} of flavor {flavor.name}: {why}"


def _repeated(named: ListedName) -> Iterable[RuleBreach]:
    return [RuleBreach(named.path, named.name)] if named.is_repeated else []


def _misplaced(quota: Quota) -> Iterable[RuleBreach]:
    if quota.view.name != quota.covered:
        yield RuleBreach(quota.path.child("name"), quota.view.name)


_Limit = Callable[[ResourceQuotaSpec], str | int | None]


def _nominal(view: ResourceQuotaSpec) -> str | int | None:
    return view.nominal_quota


def _borrowing(view: ResourceQuotaSpec) -> str | int | None:
    return view.borrowing_limit


def _lending(view: ResourceQuotaSpec) -> str | int | None:
    return view.lending_limit


_MEMBERS: Final[dict[str, _Limit]] = {
    "nominalQuota": _nominal,
    "borrowingLimit": _borrowing,
    "lendingLimit": _lending,
}


def _negative(member: str, read: _Limit) -> Callable[[Quota], Iterable[RuleBreach]]:
    def find(quota: Quota) -> Iterable[RuleBreach]:
        value = read(quota.view)
        if value is not None and rule_checks.is_negative(value):
            yield RuleBreach(quota.path.child(member), rule_checks.quantity_text(value))

    return find


def _orphaned(member: str, read: _Limit) -> Callable[[Quota], Iterable[RuleBreach]]:
    def find(quota: Quota) -> Iterable[RuleBreach]:
        value = read(quota.view)
        if value is not None and not quota.has_parent:
            yield RuleBreach(quota.path.child(member), rule_checks.quantity_text(value))

    return find


def _lends_too_much(quota: Quota) -> Iterable[RuleBreach]:
    lending = quota.view.lending_limit
    if lending is not None and rule_checks.nano(lending) > rule_checks.nano(
        quota.view.nominal_quota
    ):
        yield RuleBreach(quota.path.child("lendingLimit"), rule_checks.quantity_text(lending))


def _weight(sharing: FairSharingWeight | None) -> str | int | None:
    return sharing.weight if sharing else None


def _negative_weight(sharing: FairSharingWeight | None) -> Iterable[RuleBreach]:
    weight = _weight(sharing)
    if weight is not None and rule_checks.is_negative(weight):
        yield RuleBreach(WEIGHT, rule_checks.quantity_text(weight))


def _vanishing_weight(sharing: FairSharingWeight | None) -> Iterable[RuleBreach]:
    weight = _weight(sharing)
    if weight is not None and 0 < rule_checks.nano(weight) <= _LEAST_WEIGHT_NANO:
        yield RuleBreach(WEIGHT, rule_checks.quantity_text(weight))


_INVALID: Final = ErrorType.INVALID

RESOURCES: Final[tuple[Row[ListedName], ...]] = (
    Syntax("quota 1", lambda named: syntax.label_key(named.path, named.name)),
    rule_checks.Rule("quota 2", ErrorType.DUPLICATE, "", _repeated),
)
"""Each name in coveredResources."""

CLUSTER_QUEUE_QUOTAS: Final[tuple[Row[Quota], ...]] = (
    rule_checks.Rule("quota 3", _INVALID, "must match the name in coveredResources", _misplaced),
    rule_checks.Rule("quota 4", _INVALID, NOT_NEGATIVE, _negative("nominalQuota", _nominal)),
    rule_checks.Rule(
        "quota 5 without a cohort", _INVALID, "must be nil when cohort is empty",
        _orphaned("borrowingLimit", _borrowing),
    ),
    rule_checks.Rule("quota 5", _INVALID, NOT_NEGATIVE, _negative("borrowingLimit", _borrowing)),
    rule_checks.Rule("quota 6", _INVALID, NOT_NEGATIVE, _negative("lendingLimit", _lending)),
    rule_checks.Rule(
        "quota 6 without a cohort", _INVALID, "must be nil when cohort is empty",
        _orphaned("lendingLimit", _lending),
    ),
    rule_checks.Rule(
        "quota 6 over nominal", _INVALID, "must be less than or equal to the nominalQuota",
        _lends_too_much,
    ),
)  # fmt: skip
"""Each quota of a ClusterQueue."""

COHORT_QUOTAS: Final[tuple[Row[Quota], ...]] = (
    rule_checks.Rule("quota 3", _INVALID, "must match the name in coveredResources", _misplaced),
    rule_checks.Rule("quota 4", _INVALID, NOT_NEGATIVE, _negative("nominalQuota", _nominal)),
    rule_checks.Rule(
        "quota 5 without a parent", _INVALID, "must be nil when parent is empty",
        _orphaned("borrowingLimit", _borrowing),
    ),
    rule_checks.Rule("quota 5", _INVALID, NOT_NEGATIVE, _negative("borrowingLimit", _borrowing)),
    rule_checks.Rule("quota 6", _INVALID, NOT_NEGATIVE, _negative("lendingLimit", _lending)),
    rule_checks.Rule(
        "quota 6 without a parent", _INVALID, "must be nil when parent is empty",
        _orphaned("lendingLimit", _lending),
    ),
)  # fmt: skip
"""Each quota of a Cohort, which may lend more than its nominal quota: its members' too."""

FLAVORS: Final[tuple[Row[ListedName], ...]] = (
    rule_checks.Rule("quota 7", ErrorType.DUPLICATE, "", _repeated),
)
"""Each flavor of a group."""

WEIGHTS: Final[tuple[Row[FairSharingWeight | None], ...]] = (
    rule_checks.Rule("weight 1", _INVALID, NOT_NEGATIVE, _negative_weight),
    # Copied: the text says ten times the bound that holds.
    rule_checks.Rule(
        "weight 2", _INVALID, "When not 0, weight must be > 10e-9", _vanishing_weight
    ),
)
"""The fair-sharing weight; 0 is valid."""


def errors(
    groups: Sequence[ResourceGroupSpec] | None,
    quota_rules: tuple[Row[Quota], ...],
    *,
    has_parent: bool,
) -> Iterator[FieldError]:
    """Errors of resource groups, group by group: its resources, then flavor by flavor.

    Args:
        groups: as sent.
        quota_rules: CLUSTER_QUEUE_QUOTAS or COHORT_QUOTAS.
        has_parent: whether a cohort, or the cohort's parent, is named.
    """
    resources: set[str] = set()
    flavors: set[str] = set()
    for number, group in enumerate(groups or ()):
        path = GROUPS.index(number)
        for resource in _named(path.child("coveredResources"), group.covered_resources, resources):
            yield from rule_checks.errors(RESOURCES, resource)
        for place, flavor in enumerate(group.flavors):
            place_path = path.child("flavors").index(place)
            for quota in _quotas(
                place_path, flavor, group.covered_resources, has_parent=has_parent
            ):
                yield from rule_checks.errors(quota_rules, quota)
            repeated = flavor.name in flavors
            flavors.add(flavor.name)
            named = ListedName(
                path=place_path.child("name"), name=flavor.name, is_repeated=repeated
            )
            yield from rule_checks.errors(FLAVORS, named)


def _named(path: FieldPath, listed: Iterable[str], seen: set[str]) -> Iterator[ListedName]:
    for index, name in enumerate(listed):
        yield ListedName(path=path.index(index), name=name, is_repeated=name in seen)
        seen.add(name)


def _quotas(
    path: FieldPath, flavor: FlavorQuotasSpec, covered: Sequence[str], *, has_parent: bool
) -> Iterator[Quota]:
    # The schema demands as many resources as coveredResources; what is beyond has no counterpart.
    for index, (view, name) in enumerate(zip(flavor.resources, covered, strict=False)):
        place = path.child("resources").index(index)
        yield Quota(path=place, view=view, covered=name, has_parent=has_parent)
