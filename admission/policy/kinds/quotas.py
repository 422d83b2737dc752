"""Rules of resource groups and of the fair-sharing weight, shared by ClusterQueue and Cohort.

Source: kueue pkg/webhooks/clusterqueue_webhook.go and common.go. The API server checks before us
what the schema can say: counts, patterns, one name twice in one list.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from admission.base import syntax
from admission.base.fielderrors import ErrorType, FieldError, FieldPath
from admission.objects.resource_group import (
    FairSharing,
    FlavorQuotas,
    ResourceGroup,
    ResourceQuota,
)
from admission.policy.kinds import quantities, rules
from admission.policy.kinds.rules import Finding, Row, Rule, Syntax

GROUPS: Final = FieldPath.of("spec", "resourceGroups")
WEIGHT: Final = FieldPath.of("spec", "fairSharing")  # as Kueue has it: not the weight below

NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_LEAST_WEIGHT_NANO: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
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
    view: ResourceQuota
    covered: str
    has_parent: bool


def _repeated(one: Named) -> Iterable[Finding]:
    return [Finding(one.path, one.name)] if one.is_repeated else []


def _misplaced(quota: Quota) -> Iterable[Finding]:
    if quota.view.name != quota.covered:
        yield Finding(quota.path.child("name"), quota.view.name)


_Limit = Callable[[ResourceQuota], str | int | None]


def _nominal(view: ResourceQuota) -> str | int | None:
    return view.nominal_quota


def _borrowing(view: ResourceQuota) -> str | int | None:
    return view.borrowing_limit


def _lending(view: ResourceQuota) -> str | int | None:
    return view.lending_limit


def _negative(member: str, read: _Limit) -> Callable[[Quota], Iterable[Finding]]:
    def find(quota: Quota) -> Iterable[Finding]:
        value = read(quota.view)
        if value is not None and quantities.is_negative(value):
            yield Finding(quota.path.child(member), quantities.text(value))

    return find


def _orphaned(member: str, read: _Limit) -> Callable[[Quota], Iterable[Finding]]:
    def find(quota: Quota) -> Iterable[Finding]:
        value = read(quota.view)
        if value is not None and not quota.has_parent:
            yield Finding(quota.path.child(member), quantities.text(value))

    return find


def _lends_too_much(quota: Quota) -> Iterable[Finding]:
    lending = quota.view.lending_limit
    if lending is not None and quantities.nano(lending) > quantities.nano(
        quota.view.nominal_quota
    ):
        yield Finding(quota.path.child("lendingLimit"), quantities.text(lending))


def _weight(sharing: FairSharing | None) -> str | int | None:
    return sharing.weight if sharing else None


def _negative_weight(sharing: FairSharing | None) -> Iterable[Finding]:
    weight = _weight(sharing)
    if weight is not None and quantities.is_negative(weight):
        yield Finding(WEIGHT, quantities.text(weight))


def _vanishing_weight(sharing: FairSharing | None) -> Iterable[Finding]:
    weight = _weight(sharing)
    if weight is not None and 0 < quantities.nano(weight) <= _LEAST_WEIGHT_NANO:
        yield Finding(WEIGHT, quantities.text(weight))


_INVALID: Final = ErrorType.INVALID

RESOURCES: Final[tuple[Row[Named], ...]] = (
    Syntax("quota 1", lambda one: syntax.label_key(one.path, one.name)),
    Rule("quota 2", ErrorType.DUPLICATE, "", _repeated),
)
"""Each name in coveredResources."""

CLUSTER_QUEUE_QUOTAS: Final[tuple[Row[Quota], ...]] = (
    Rule("quota 3", _INVALID, "must match the name in coveredResources", _misplaced),
    Rule("quota 4", _INVALID, NOT_NEGATIVE, _negative("nominalQuota", _nominal)),
    Rule(
        "quota 5 without a cohort", _INVALID, "must be nil when cohort is empty",
        _orphaned("borrowingLimit", _borrowing),
    ),
    Rule("quota 5", _INVALID, NOT_NEGATIVE, _negative("borrowingLimit", _borrowing)),
    Rule("quota 6", _INVALID, NOT_NEGATIVE, _negative("lendingLimit", _lending)),
    Rule(
        "quota 6 without a cohort", _INVALID, "must be nil when cohort is empty",
        _orphaned("lendingLimit", _lending),
    ),
    Rule(
        "quota 6 over nominal", _INVALID, "must be less than or equal to the nominalQuota",
        _lends_too_much,
    ),
)  # fmt: skip
"""Each quota of a ClusterQueue."""

COHORT_QUOTAS: Final[tuple[Row[Quota], ...]] = (
    Rule("quota 3", _INVALID, "must match the name in coveredResources", _misplaced),
    Rule("quota 4", _INVALID, NOT_NEGATIVE, _negative("nominalQuota", _nominal)),
    Rule(
        "quota 5 without a parent", _INVALID, "must be nil when parent is empty",
        _orphaned("borrowingLimit", _borrowing),
    ),
    Rule("quota 5", _INVALID, NOT_NEGATIVE, _negative("borrowingLimit", _borrowing)),
    Rule("quota 6", _INVALID, NOT_NEGATIVE, _negative("lendingLimit", _lending)),
    Rule(
        "quota 6 without a parent", _INVALID, "must be nil when parent is empty",
        _orphaned("lendingLimit", _lending),
    ),
)  # fmt: skip
"""Each quota of a Cohort, which may lend more than its nominal quota: its members' too."""

FLAVORS: Final[tuple[Row[Named], ...]] = (Rule("quota 7", ErrorType.DUPLICATE, "", _repeated),)
"""Each flavor of a group."""

WEIGHTS: Final[tuple[Row[FairSharing | None], ...]] = (
    Rule("weight 1", _INVALID, NOT_NEGATIVE, _negative_weight),
    # Copied: the text says ten times the bound that holds.
    Rule("weight 2", _INVALID, "When not 0, weight must be > 10e-9", _vanishing_weight),
)
"""The fair-sharing weight; 0 is valid."""


def errors(
    groups: Sequence[ResourceGroup] | None,
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
        for one in _named(path.child("coveredResources"), group.covered_resources, resources):
            yield from rules.errors(RESOURCES, one)
        for place, flavor in enumerate(group.flavors):
            here = path.child("flavors").index(place)
            for quota in _quotas(here, flavor, group.covered_resources, has_parent=has_parent):
                yield from rules.errors(quota_rules, quota)
            repeated = flavor.name in flavors
            flavors.add(flavor.name)
            named = Named(path=here.child("name"), name=flavor.name, is_repeated=repeated)
            yield from rules.errors(FLAVORS, named)


def _named(path: FieldPath, found: Iterable[str], seen: set[str]) -> Iterator[Named]:
    for index, name in enumerate(found):
        yield Named(path=path.index(index), name=name, is_repeated=name in seen)
        seen.add(name)


def _quotas(
    path: FieldPath, flavor: FlavorQuotas, covered: Sequence[str], *, has_parent: bool
) -> Iterator[Quota]:
    # The schema demands as many resources as coveredResources; what is beyond has no counterpart.
    for index, (view, name) in enumerate(zip(flavor.resources, covered, strict=False)):
        place = path.child("resources").index(index)
        yield Quota(path=place, view=view, covered=name, has_parent=has_parent)
