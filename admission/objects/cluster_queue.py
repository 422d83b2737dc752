"""ClusterQueue: quota, and the rules by which it is granted."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

from admission.base import fielderrors, names, quantity
from admission.base.errors import InvalidValueError
from admission.base.fielderrors import ErrorType, FieldError, FieldPath
from admission.base.names import (
    ClusterQueueName,
    CohortName,
    FlavorName,
    FlavorResource,
    ResourceName,
)
from admission.objects import caps, markers, resource_group, rule_checks, run_times, values, views
from admission.objects.fields import (
    REQUIRED,
    SUBDOMAIN,
    Int32,
    Quantity,
    Shape,
    StopPolicy,
    Timestamp,
    api_default,
    one_of,
    text,
)
from admission.objects.markers import CelRule
from admission.objects.queue_status import FairSharingStatus, QueueStatus
from admission.objects.resource_group import FairSharingWeight, ResourceGroups, ResourceGroupSpec
from admission.objects.rule_checks import Row, RuleBreach, Syntax
from admission.objects.viewbase import Object, View
from admission.scheduling import model

CHECK_NAME = text(at_least=1, at_most=316)
"""The name of an AdmissionCheck, without a pattern."""

FungibilityPolicy = Annotated[str, one_of("MayStopSearch", "TryNextFlavor")]


class FlavorFungibilitySpec(View, frozen=True, kw_only=True):
    """Whether to try further flavors after one that fits by borrowing or preemption."""

    rules: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "!has(self.preference) || (self.whenCanBorrow == 'TryNextFlavor'"
            " && self.whenCanPreempt == 'TryNextFlavor')",
            "preference can only be set when both whenCanBorrow and whenCanPreempt are"
            " TryNextFlavor",
        ),
    )

    when_can_borrow: Annotated[FungibilityPolicy, api_default("MayStopSearch")] = "MayStopSearch"
    """What to do with a flavor that needs borrowing."""

    when_can_preempt: Annotated[FungibilityPolicy, api_default("TryNextFlavor")] = "TryNextFlavor"
    """What to do with a flavor that needs preemption."""

    preference: (
        Annotated[str, one_of("BorrowingOverPreemption", "PreemptionOverBorrowing")] | None
    ) = None
    """Whether to prefer borrowing or preemption if no flavor fits without; default: borrowing."""


class BorrowWithinCohort(View, frozen=True, kw_only=True):
    """Preemption in other queues by a workload that borrows."""

    policy: Annotated[str, one_of("Never", "LowerPriority"), api_default("Never")] = "Never"
    """Which workloads of other queues may be preempted."""

    max_priority_threshold: Int32 | None = None
    """Highest priority that may be preempted; absent means every lower priority."""


class PreemptionSpec(View, frozen=True, kw_only=True):
    """Which workloads a pending workload may preempt."""

    rules: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "!(self.reclaimWithinCohort == 'Never' && has(self.borrowWithinCohort)"
            " && self.borrowWithinCohort.policy != 'Never')",
            "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
        ),
    )

    reclaim_within_cohort: Annotated[
        str, one_of("Never", "LowerPriority", "Any"), api_default("Never")
    ] = "Never"
    """Which borrowing workloads of other queues of the cohort may be preempted."""

    borrow_within_cohort: Annotated[BorrowWithinCohort | None, api_default({})] = None
    """Whether a workload that would itself borrow may preempt in the cohort."""

    within_cluster_queue: Annotated[
        str, one_of("Never", "LowerPriority", "LowerOrNewerEqualPriority"), api_default("Never")
    ] = "Never"
    """Which workloads of the same queue may be preempted."""


class QueueAdmissionCheck(View, frozen=True, kw_only=True):
    """One admission check of the queue."""

    name: Annotated[str, CHECK_NAME]
    """The AdmissionCheck."""

    on_flavors: (
        Annotated[tuple[Annotated[str, SUBDOMAIN], ...], markers.list_set(at_most=64)] | None
    ) = None
    """Flavors to which the check applies; absent or empty means all."""


class AdmissionChecksStrategy(View, frozen=True, kw_only=True):
    """Admission checks and the flavors that they belong to."""

    admission_checks: Annotated[
        tuple[QueueAdmissionCheck, ...] | None,
        REQUIRED,
        markers.list_map("name", at_least=1, at_most=64),
    ] = None
    """The checks; all of them must be ready before a workload is admitted."""


class AdmissionScope(View, frozen=True, kw_only=True):
    """How past usage changes the order."""

    admission_mode: Annotated[
        str, one_of("UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"), REQUIRED
    ] = ""
    """Whether LocalQueues that used less go first."""


class MigrationConstraints(View, frozen=True, kw_only=True):
    """Where a migration ends."""

    last_acceptable_flavor_name: Annotated[str, SUBDOMAIN] | None = None
    """Last flavor of the queue's order that a workload may migrate to."""


class ConcurrentAdmissionMigration(View, frozen=True, kw_only=True):
    """Whether a running workload moves to a better flavor."""

    mode: Annotated[
        Annotated[str, one_of("TryPreferredFlavors", "RetainFirstAdmission")],
        markers.keywords(maxLength=253),
    ]
    """What happens after the first admission."""

    constraints: MigrationConstraints | None = None
    """Limits of the migration."""


class ConcurrentAdmissionPolicy(View, frozen=True, kw_only=True):
    """Admission on several flavors at once."""

    migration: ConcurrentAdmissionMigration
    """What happens once one flavor has admitted the workload."""


def no_borrowing_limit_without(cohort: str) -> CelRule:
    """Without the field ``cohort`` there is nobody to borrow from."""
    return CelRule(
        f"has(self.{cohort}) || !has(self.resourceGroups)"
        " || self.resourceGroups.all(group, group.flavors.all(flavor,"
        " flavor.resources.all(resource, !has(resource.borrowingLimit))))",
        "borrowingLimit must be nil when cohort is empty",
    )


class ClusterQueueSpec(View, frozen=True, kw_only=True):
    """Quota and the rules by which it is granted."""

    rules: ClassVar[tuple[CelRule, ...]] = (no_borrowing_limit_without("cohortName"),)

    resource_groups: ResourceGroups | None = None
    """The quota."""

    cohort_name: Annotated[str, SUBDOMAIN] = ""
    """The cohort to borrow from and lend to. It need not exist as an object."""

    queueing_strategy: Annotated[
        str, one_of("StrictFIFO", "BestEffortFIFO"), api_default("BestEffortFIFO")
    ] = "BestEffortFIFO"
    """Whether a workload that does not fit stops those behind it (StrictFIFO) or not."""

    namespace_selector: Annotated[views.LabelSelector, markers.map_atomic()] | None = None
    """Namespaces whose workloads may use the queue: absent means none, an empty selector all."""

    flavor_fungibility: Annotated[FlavorFungibilitySpec | None, api_default({})] = None
    """How a flavor is chosen."""

    preemption: Annotated[PreemptionSpec | None, api_default({})] = None
    """Which workloads a pending workload may preempt."""

    admission_checks_strategy: AdmissionChecksStrategy | None = None
    """Admission checks that must be ready before a workload is admitted."""

    stop_policy: StopPolicy = "None"
    """Hold grants no more quota; HoldAndDrain also evicts admitted workloads."""

    fair_sharing: FairSharingWeight | None = None
    """The queue's weight in its cohort."""

    admission_scope: AdmissionScope | None = None
    """How past usage changes the order."""

    concurrent_admission_policy: (
        Annotated[dict[str, Any], Shape(ConcurrentAdmissionPolicy)] | None
    ) = None
    """Admission on several flavors at once."""


class ResourceUsage(View, frozen=True, kw_only=True):
    """Usage of one resource in one flavor."""

    name: str
    """The resource."""

    total: Quantity | None = None
    """Amount in use, borrowed or not."""

    borrowed: Quantity | None = None
    """The part that is borrowed from the cohort."""


class FlavorUsage(View, frozen=True, kw_only=True):
    """Usage of one flavor."""

    name: Annotated[str, SUBDOMAIN]
    """The flavor."""

    resources: Annotated[tuple[ResourceUsage, ...], markers.list_map("name", at_most=64)]
    """Usage per resource."""


FlavorUsages = Annotated[
    list[Any], Shape(tuple[FlavorUsage, ...]), markers.list_map("name", at_most=64)
]


class AmountWithoutNode(View, frozen=True, kw_only=True):
    """Quota of one resource in one flavor whose pods are on no node."""

    name: str
    """The resource."""

    total: Quantity | None = None
    """Amount that is held."""

    since: Timestamp
    """When the oldest of the workloads was admitted."""


class FlavorWithoutNode(View, frozen=True, kw_only=True):
    """Quota of one flavor whose pods are on no node."""

    name: Annotated[str, SUBDOMAIN]
    """The flavor."""

    resources: Annotated[tuple[AmountWithoutNode, ...], markers.list_map("name", at_most=64)]
    """Amount per resource."""


class ClusterQueueStatus(QueueStatus, frozen=True, kw_only=True):
    """What the queue holds and whether it admits."""

    flavors_reservation: FlavorUsages | None = None
    """Quota reserved by workloads, admitted or not."""

    flavors_usage: FlavorUsages | None = None
    """Quota of admitted workloads."""

    fair_sharing: FairSharingStatus | None = None
    """Current share; only with fair sharing."""

    without_node: (
        Annotated[
            list[Any],
            Shape(tuple[FlavorWithoutNode, ...]),
            markers.list_map("name", at_most=64),
        ]
        | None
    ) = None
    """GPUs that admitted workloads hold whose pods are on no node. Kueue has no such field."""

    gpus: str | None = None
    """GPUs that are reserved, of the nominal quota of all flavors, for people who list queues:
    ``9 of 16``, or ``9 of 16, 3 of 7 mig-1g.10gb``. Without value where there is no such quota."""


class ClusterQueue(Object, frozen=True, kw_only=True):
    """Quota for the workloads of many namespaces."""

    spec: ClusterQueueSpec = ClusterQueueSpec()
    """Quota and the rules by which it is granted."""

    status: ClusterQueueStatus = ClusterQueueStatus()
    """What the queue holds and whether it admits."""


def scheduling_value(view: ClusterQueue) -> model.ClusterQueue:
    """Return a ClusterQueue as a value of scheduling.

    Raises:
        InvalidValueError: a quantity, policy, selector, run time or cap cannot be read.
    """
    spec = view.spec
    scope = spec.admission_scope
    return model.ClusterQueue(
        name=ClusterQueueName(view.metadata.name),
        cohort=CohortName(spec.cohort_name) if spec.cohort_name else None,
        resource_groups=resource_group.scheduling_groups(spec.resource_groups or ()),
        queueing_strategy=values.choice(
            model.QueueingStrategy, spec.queueing_strategy, "spec.queueingStrategy"
        ),
        fungibility=_fungibility(spec.flavor_fungibility or FlavorFungibilitySpec()),
        preemption=_preemption(spec.preemption or PreemptionSpec()),
        fair_weight=resource_group.scheduling_weight(spec.fair_sharing),
        stop_policy=values.stop_policy(spec.stop_policy),
        namespace_selector=values.selector(spec.namespace_selector),
        admission_checks=_checks(spec.admission_checks_strategy),
        surge_quota=surge_quota(view),
        usage_based=scope is not None and scope.admission_mode == "UsageBasedAdmissionFairSharing",
        minimum_run_us=run_times.read(view.metadata).minimum or 0,
        max_per_user=caps.read(view.metadata, names.MAX_PER_USER),
        terminating=view.metadata.deletion_timestamp is not None,
    )


def surge_quota(view: ClusterQueue) -> dict[FlavorResource, int]:
    """Return the surge quota of each flavor and resource; nothing for what cannot be read."""
    quotas: dict[FlavorResource, int] = {}
    for entry in _surge_entries(view):
        try:
            flavor, resource, value = _surge_entry(entry)
        except InvalidValueError:
            continue
        quotas[FlavorResource(FlavorName(flavor), ResourceName(resource))] = value
    return quotas


def _surge_entries(view: ClusterQueue) -> list[str]:
    text = view.metadata.annotation(names.SURGE_QUOTA)
    return [entry.strip() for entry in text.split(",")] if text else []


def _surge_entry(entry: str) -> tuple[str, str, int]:
    """Return flavor, resource and amount.

    Raises:
        InvalidValueError: it is no such entry.
    """
    place, _, value = entry.partition("=")
    flavor, _, resource = place.partition("/")
    if not flavor or not resource or not value:
        raise InvalidValueError(entry, "must be FLAVOR/RESOURCE=QUANTITY")
    read = quantity.to_canonical(resource, value)
    if read < 0:
        raise InvalidValueError(entry, "must not be negative")
    return flavor, resource, read


def _each_surge(path: FieldPath, value: str) -> Iterator[FieldError]:
    """Yield an error for each entry of the surge quota that cannot be read."""
    for entry in value.split(","):
        try:
            _surge_entry(entry.strip())
        except InvalidValueError as error:
            yield fielderrors.invalid(path, entry.strip(), error.rule)


def _surge_errors(old: ClusterQueue | None, new: ClusterQueue) -> Iterator[FieldError]:
    """Yield which entries of the surge quota are not the only ones of a quota of the spec."""
    key = names.SURGE_QUOTA
    if old is not None and old.metadata.annotation(key) == new.metadata.annotation(key):
        return  # quota that the spec lists no more gives nothing
    path = FieldPath.of("metadata", "annotations").key(names.SURGE_QUOTA)
    quotas = {
        (flavor.name, resource.name)
        for group in new.spec.resource_groups or ()
        for flavor in group.flavors
        for resource in flavor.resources
    }
    seen: set[tuple[str, str]] = set()
    for entry in _surge_entries(new):
        try:
            flavor, resource, _ = _surge_entry(entry)
        except InvalidValueError:
            continue
        if (flavor, resource) not in quotas:
            rule = f"spec.resourceGroups has no quota for {resource} in flavor {flavor}"
            yield fielderrors.invalid(path, entry, rule)
        if (flavor, resource) in seen:
            yield fielderrors.invalid(path, entry, "must be listed only once")
        seen.add((flavor, resource))


def _fungibility(view: FlavorFungibilitySpec) -> model.FlavorFungibility:
    path = "spec.flavorFungibility"
    preference = view.preference or model.Preference.BORROWING_OVER_PREEMPTION
    return model.FlavorFungibility(
        when_can_borrow=values.choice(
            model.SearchPolicy, view.when_can_borrow, f"{path}.whenCanBorrow"
        ),
        when_can_preempt=values.choice(
            model.SearchPolicy, view.when_can_preempt, f"{path}.whenCanPreempt"
        ),
        preference=values.choice(model.Preference, preference, f"{path}.preference"),
    )


def _preemption(view: PreemptionSpec) -> model.Preemption:
    path = "spec.preemption"
    borrow = view.borrow_within_cohort or BorrowWithinCohort()
    policy = model.PreemptionPolicy
    return model.Preemption(
        within_cluster_queue=values.choice(
            policy, view.within_cluster_queue, f"{path}.withinClusterQueue"
        ),
        reclaim_within_cohort=values.choice(
            policy, view.reclaim_within_cohort, f"{path}.reclaimWithinCohort"
        ),
        borrow_within_cohort=values.choice(
            policy, borrow.policy, f"{path}.borrowWithinCohort.policy"
        ),
        max_priority_threshold=borrow.max_priority_threshold,
    )


def _checks(
    view: AdmissionChecksStrategy | None,
) -> tuple[model.AdmissionCheckRule, ...]:
    rules = () if view is None else view.admission_checks or ()
    return tuple(
        model.AdmissionCheckRule(
            name=rule.name,
            on_flavors=frozenset(FlavorName(name) for name in rule.on_flavors or ()),
        )
        for rule in rules
    )


# ------------------------------------------------------------------------------- validation
# The rules stand in the order in which their errors are told. Left out is what only a feature
# gate that is off would check: the shape of concurrentAdmissionPolicy, and onFlavors of checks
# that an update does not touch. Source: kueue pkg/webhooks/clusterqueue_webhook.go.

FLAVORS_MAX: Final = 256
RESOURCES_MAX: Final = 256
PAIRS_MAX: Final = 512

_SPEC: Final = FieldPath.of("spec")
_POLICY: Final = _SPEC.child("concurrentAdmissionPolicy")
_CHECKS: Final = _SPEC.child("admissionChecksStrategy").child("admissionChecks")


@dataclass(frozen=True, slots=True, kw_only=True)
class _QueueReview:
    """A ClusterQueue as it would be, and as it is; None on creation."""

    new: ClusterQueue
    old: ClusterQueue | None = None


def _resource_groups(review: _QueueReview) -> tuple[ResourceGroupSpec, ...]:
    return review.new.spec.resource_groups or ()


def _quota_rules(review: _QueueReview) -> Iterator[FieldError]:
    spec = review.new.spec
    return resource_group.errors(
        spec.resource_groups,
        resource_group.CLUSTER_QUEUE_QUOTAS,
        has_parent=bool(spec.cohort_name),
    )


def _selector_rule(review: _QueueReview) -> Iterator[FieldError]:
    path = _SPEC.child("namespaceSelector")
    return rule_checks.selector(path, review.new.spec.namespace_selector)


def _preemption_rule(review: _QueueReview) -> Iterable[RuleBreach]:
    preemption = review.new.spec.preemption
    if preemption is None or preemption.reclaim_within_cohort != "Never":
        return
    borrow = preemption.borrow_within_cohort
    if borrow is not None and borrow.policy != "Never":
        yield RuleBreach(_SPEC.child("preemption"), _shown(preemption, borrow))


def _shown(preemption: PreemptionSpec, borrow: BorrowWithinCohort) -> dict[str, Any]:
    threshold = borrow.max_priority_threshold
    bound = {} if threshold is None else {"maxPriorityThreshold": threshold}
    return {
        "reclaimWithinCohort": preemption.reclaim_within_cohort,
        "borrowWithinCohort": {"policy": borrow.policy, **bound},
        "withinClusterQueue": preemption.within_cluster_queue,
    }


def _preference_rule(review: _QueueReview) -> Iterable[RuleBreach]:
    fungibility = review.new.spec.flavor_fungibility
    if fungibility is None or fungibility.preference is None:
        return
    if {fungibility.when_can_borrow, fungibility.when_can_preempt} != {"TryNextFlavor"}:
        path = _SPEC.child("flavorFungibility").child("preference")
        yield RuleBreach(path, fungibility.preference, {"preference": fungibility.preference})


def _weight_rule(review: _QueueReview) -> Iterable[FieldError]:
    return rule_checks.errors(resource_group.WEIGHTS, review.new.spec.fair_sharing)


def _too_many_flavors(review: _QueueReview) -> Iterable[RuleBreach]:
    total = sum(len(group.flavors) for group in _resource_groups(review))
    if total > FLAVORS_MAX:
        yield RuleBreach(resource_group.GROUPS, total, {"total": total})


def _too_many_resources(review: _QueueReview) -> Iterable[RuleBreach]:
    total = sum(len(group.covered_resources) for group in _resource_groups(review))
    if total > RESOURCES_MAX:
        yield RuleBreach(resource_group.GROUPS, total, {"total": total})


def _too_many_pairs(review: _QueueReview) -> Iterable[RuleBreach]:
    for index, group in enumerate(_resource_groups(review)):
        total = sum(len(flavor.resources) for flavor in group.flavors)
        if total > PAIRS_MAX:
            yield RuleBreach(resource_group.GROUPS.index(index), total, {"total": total})


def _unknown_flavors(review: _QueueReview) -> Iterable[RuleBreach]:
    flavors = _flavor_names(review.new)
    supported = {"supported": ", ".join(f'"{name}"' for name in flavors)}
    untouched = _untouched(review)
    for index, check in enumerate(_check_rules(review.new)):
        checked_flavors = check.on_flavors or ()
        if untouched.get(check.name) == frozenset(checked_flavors):
            continue
        path = _CHECKS.index(index).child("onFlavors")
        for place, flavor in enumerate(checked_flavors):
            if flavor not in flavors:
                yield RuleBreach(path.index(place), flavor, supported)


def _untouched(review: _QueueReview) -> Mapping[str, frozenset[str]]:
    """The stored onFlavors by check, which an update may keep; none once flavors change."""
    if review.old is None or _flavor_names(review.old).keys() != _flavor_names(review.new).keys():
        return {}
    return {check.name: frozenset(check.on_flavors or ()) for check in _check_rules(review.old)}


def _flavor_names(queue: ClusterQueue) -> dict[str, None]:
    groups = queue.spec.resource_groups or ()
    return dict.fromkeys(flavor.name for group in groups for flavor in group.flavors)


def _check_rules(queue: ClusterQueue) -> tuple[QueueAdmissionCheck, ...]:
    strategy = queue.spec.admission_checks_strategy
    return (strategy.admission_checks if strategy else None) or ()


def _changed_policy(review: _QueueReview) -> Iterable[RuleBreach]:
    if review.old is None:
        return
    before = review.old.spec.concurrent_admission_policy
    after = review.new.spec.concurrent_admission_policy
    if not rule_checks.same(before, after):
        yield RuleBreach(_POLICY, after)


RULES: Final[tuple[Row[_QueueReview], ...]] = (
    Syntax("ClusterQueue 1-7", _quota_rules),  # the rows of `resource_group`
    Syntax("ClusterQueue 8", _selector_rule),
    rule_checks.Rule(
        "ClusterQueue 9", ErrorType.INVALID,
        "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never", _preemption_rule,
    ),
    rule_checks.Rule(
        "ClusterQueue 10", ErrorType.INVALID,
        'preference "{preference}" requires both whenCanBorrow and whenCanPreempt to be'
        " TryNextFlavor", _preference_rule,
    ),
    Syntax("ClusterQueue 11", _weight_rule),  # the rows of `resource_group.WEIGHTS`
    rule_checks.Rule(
        "ClusterQueue 12", ErrorType.INVALID,
        "total number of flavors across all resourceGroups must be ≤ 256, got {total}",
        _too_many_flavors,
    ),
    rule_checks.Rule(
        "ClusterQueue 13", ErrorType.INVALID,
        "total number of covered resources across all resourceGroups must be ≤ 256, got {total}",
        _too_many_resources,
    ),
    rule_checks.Rule(
        "ClusterQueue 14", ErrorType.INVALID,
        "number of flavor-resource combinations in a resourceGroup must be ≤ 512, got {total}",
        _too_many_pairs,
    ),
    rule_checks.Rule(
        "ClusterQueue 16", ErrorType.NOT_SUPPORTED, "supported values: {supported}",
        _unknown_flavors,
    ),
    rule_checks.Rule("ClusterQueue 17", ErrorType.INVALID, "field is immutable", _changed_policy),
)  # fmt: skip


_ANNOTATIONS: Final[Mapping[str, rule_checks.Check]] = {
    names.CAPACITY_GUARD: rule_checks.word(names.CAPACITY_GUARD_ENFORCE, names.CAPACITY_GUARD_OFF),
    names.SURGE_QUOTA: _each_surge,
}
"""Annotations of a ClusterQueue, each with its rule."""


def errors(old: ClusterQueue | None, new: ClusterQueue) -> list[FieldError]:
    """Errors of a ClusterQueue; ``old`` is None on creation."""
    found_errors = rule_checks.errors(RULES, _QueueReview(new=new, old=old))
    found_errors += rule_checks.annotation_errors(_ANNOTATIONS, old, new)
    covered = {r for group in new.spec.resource_groups or () for r in group.covered_resources}
    found_errors += caps.cluster_queue_errors(old, new, covered)
    return found_errors + list(_surge_errors(old, new)) + run_times.queue_errors(old, new)
