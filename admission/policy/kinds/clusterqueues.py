"""Rules of ClusterQueues, in the order in which their errors are told.

Left out is what only a feature gate that is off would check: the shape of
concurrentAdmissionPolicy, and onFlavors of checks that an update does not touch. Source: kueue
pkg/webhooks/clusterqueue_webhook.go.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from admission.base.fielderrors import ErrorType, FieldError, FieldPath
from admission.objects.cluster_queue import (
    AdmissionCheckRule,
    BorrowWithinCohort,
    ClusterQueue,
    Preemption,
)
from admission.objects.resource_group import ResourceGroup
from admission.policy.kinds import equality, marks, metadata, quotas, rules
from admission.policy.kinds.rules import Finding, Row, Rule, Syntax

FLAVORS_MAX: Final = 256
RESOURCES_MAX: Final = 256
PAIRS_MAX: Final = 512

_SPEC: Final = FieldPath.of("spec")
_POLICY: Final = _SPEC.child("concurrentAdmissionPolicy")
_CHECKS: Final = _SPEC.child("admissionChecksStrategy").child("admissionChecks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A ClusterQueue as it would be, and as it is; None on creation."""

    new: ClusterQueue
    old: ClusterQueue | None = None


def _groups(review: Review) -> tuple[ResourceGroup, ...]:
    return review.new.spec.resource_groups or ()


def _quotas(review: Review) -> Iterator[FieldError]:
    spec = review.new.spec
    return quotas.errors(
        spec.resource_groups, quotas.CLUSTER_QUEUE_QUOTAS, has_parent=bool(spec.cohort_name)
    )


def _selector(review: Review) -> Iterator[FieldError]:
    path = _SPEC.child("namespaceSelector")
    return metadata.selector(path, review.new.spec.namespace_selector)


def _preemption(review: Review) -> Iterable[Finding]:
    found = review.new.spec.preemption
    if found is None or found.reclaim_within_cohort != "Never":
        return
    borrow = found.borrow_within_cohort
    if borrow is not None and borrow.policy != "Never":
        yield Finding(_SPEC.child("preemption"), _shown(found, borrow))


def _shown(found: Preemption, borrow: BorrowWithinCohort) -> dict[str, Any]:
    threshold = borrow.max_priority_threshold
    bound = {} if threshold is None else {"maxPriorityThreshold": threshold}
    return {
        "reclaimWithinCohort": found.reclaim_within_cohort,
        "borrowWithinCohort": {"policy": borrow.policy, **bound},
        "withinClusterQueue": found.within_cluster_queue,
    }


def _preference(review: Review) -> Iterable[Finding]:
    found = review.new.spec.flavor_fungibility
    if found is None or found.preference is None:
        return
    if {found.when_can_borrow, found.when_can_preempt} != {"TryNextFlavor"}:
        path = _SPEC.child("flavorFungibility").child("preference")
        yield Finding(path, found.preference, {"preference": found.preference})


def _weight(review: Review) -> Iterable[FieldError]:
    return rules.errors(quotas.WEIGHTS, review.new.spec.fair_sharing)


def _too_many_flavors(review: Review) -> Iterable[Finding]:
    total = sum(len(group.flavors) for group in _groups(review))
    if total > FLAVORS_MAX:
        yield Finding(quotas.GROUPS, total, {"total": total})


def _too_many_resources(review: Review) -> Iterable[Finding]:
    total = sum(len(group.covered_resources) for group in _groups(review))
    if total > RESOURCES_MAX:
        yield Finding(quotas.GROUPS, total, {"total": total})


def _too_many_pairs(review: Review) -> Iterable[Finding]:
    for index, group in enumerate(_groups(review)):
        total = sum(len(flavor.resources) for flavor in group.flavors)
        if total > PAIRS_MAX:
            yield Finding(quotas.GROUPS.index(index), total, {"total": total})


def _unknown_flavors(review: Review) -> Iterable[Finding]:
    known = _flavors(review.new)
    supported = {"supported": ", ".join(f'"{name}"' for name in known)}
    untouched = _untouched(review)
    for index, check in enumerate(_checks(review.new)):
        wanted = check.on_flavors or ()
        if untouched.get(check.name) == frozenset(wanted):
            continue
        path = _CHECKS.index(index).child("onFlavors")
        for place, flavor in enumerate(wanted):
            if flavor not in known:
                yield Finding(path.index(place), flavor, supported)


def _untouched(review: Review) -> Mapping[str, frozenset[str]]:
    """The stored onFlavors by check, which an update may keep; none once flavors change."""
    if review.old is None or _flavors(review.old).keys() != _flavors(review.new).keys():
        return {}
    return {check.name: frozenset(check.on_flavors or ()) for check in _checks(review.old)}


def _flavors(queue: ClusterQueue) -> dict[str, None]:
    groups = queue.spec.resource_groups or ()
    return dict.fromkeys(flavor.name for group in groups for flavor in group.flavors)


def _checks(queue: ClusterQueue) -> tuple[AdmissionCheckRule, ...]:
    strategy = queue.spec.admission_checks_strategy
    return (strategy.admission_checks if strategy else None) or ()


def _changed_policy(review: Review) -> Iterable[Finding]:
    if review.old is None:
        return
    before = review.old.spec.concurrent_admission_policy
    after = review.new.spec.concurrent_admission_policy
    if not equality.same(before, after):
        yield Finding(_POLICY, after)


RULES: Final[tuple[Row[Review], ...]] = (
    Syntax("ClusterQueue 1-7", _quotas),  # the rows of `quotas`
    Syntax("ClusterQueue 8", _selector),
    Rule(
        "ClusterQueue 9", ErrorType.INVALID,
        "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never", _preemption,
    ),
    Rule(
        "ClusterQueue 10", ErrorType.INVALID,
        'preference "{preference}" requires both whenCanBorrow and whenCanPreempt to be'
        " TryNextFlavor", _preference,
    ),
    Syntax("ClusterQueue 11", _weight),  # the rows of `quotas.WEIGHTS`
    Rule(
        "ClusterQueue 12", ErrorType.INVALID,
        "total number of flavors across all resourceGroups must be ≤ 256, got {total}",
        _too_many_flavors,
    ),
    Rule(
        "ClusterQueue 13", ErrorType.INVALID,
        "total number of covered resources across all resourceGroups must be ≤ 256, got {total}",
        _too_many_resources,
    ),
    Rule(
        "ClusterQueue 14", ErrorType.INVALID,
        "number of flavor-resource combinations in a resourceGroup must be ≤ 512, got {total}",
        _too_many_pairs,
    ),
    Rule(
        "ClusterQueue 16", ErrorType.NOT_SUPPORTED, "supported values: {supported}",
        _unknown_flavors,
    ),
    Rule("ClusterQueue 17", ErrorType.INVALID, "field is immutable", _changed_policy),
)  # fmt: skip


def errors(old: ClusterQueue | None, new: ClusterQueue) -> list[FieldError]:
    """Errors of a ClusterQueue; ``old`` is None on creation."""
    found = rules.errors(RULES, Review(new=new, old=old))
    return found + marks.errors(marks.CLUSTER_QUEUE, old, new)
