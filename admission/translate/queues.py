"""Views of flavors, queues and cohorts to values of `scheduling`.

A value that the API server should have refused raises InvalidValueError, which names the field.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

from admission.base import quantity
from admission.base.errors import InvalidValueError
from admission.base.names import (
    ClusterQueueName,
    CohortName,
    FlavorName,
    LocalQueueKey,
    ResourceName,
)
from admission.base.selectors import Requirement, requirements_of
from admission.objects import views
from admission.objects.cluster_queue import (
    AdmissionChecksStrategy,
    BorrowWithinCohort,
    ClusterQueue,
    FlavorFungibility,
    Preemption,
)
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.resource_group import (
    FairSharing,
    FlavorQuotas,
    ResourceGroup,
    ResourceQuota,
)
from admission.scheduling import model

_Choice = TypeVar("_Choice", bound=StrEnum)


def resource_flavor(view: ResourceFlavor) -> model.ResourceFlavor:
    """A ResourceFlavor."""
    spec = view.spec
    return model.ResourceFlavor(
        name=FlavorName(view.metadata.name),
        node_labels=dict(spec.node_labels or {}),
        node_taints=tuple(
            model.Taint(key=one.key, value=one.value, effect=one.effect)
            for one in spec.node_taints or ()
        ),
        tolerations=tolerations(spec.tolerations or ()),
        topology=spec.topology_name,
    )


def tolerations(found: Iterable[views.Toleration]) -> tuple[model.Toleration, ...]:
    """Tolerations of a flavor or pod."""
    return tuple(
        model.Toleration(key=one.key, operator=one.operator, value=one.value, effect=one.effect)
        for one in found
    )


def cluster_queue(view: ClusterQueue) -> model.ClusterQueue:
    """A ClusterQueue.

    Raises:
        InvalidValueError: a quantity, policy or selector cannot be read.
    """
    spec = view.spec
    scope = spec.admission_scope
    return model.ClusterQueue(
        name=ClusterQueueName(view.metadata.name),
        cohort=CohortName(spec.cohort_name) if spec.cohort_name else None,
        resource_groups=_groups(spec.resource_groups or ()),
        queueing_strategy=_one_of(
            model.QueueingStrategy, spec.queueing_strategy, "spec.queueingStrategy"
        ),
        fungibility=_fungibility(spec.flavor_fungibility or FlavorFungibility()),
        preemption=_preemption(spec.preemption or Preemption()),
        fair_weight=_weight(spec.fair_sharing),
        stop_policy=_stop_policy(spec.stop_policy),
        namespace_selector=selector(spec.namespace_selector),
        admission_checks=_checks(spec.admission_checks_strategy),
        usage_based=scope is not None and scope.admission_mode == "UsageBasedAdmissionFairSharing",
        terminating=view.metadata.deletion_timestamp is not None,
    )


def cohort(view: Cohort) -> model.Cohort:
    """A Cohort.

    Raises:
        InvalidValueError: a quantity cannot be read.
    """
    return model.Cohort(
        name=CohortName(view.metadata.name),
        parent=CohortName(view.spec.parent_name) if view.spec.parent_name else None,
        resource_groups=_groups(view.spec.resource_groups or ()),
        fair_weight=_weight(view.spec.fair_sharing),
    )


def local_queue(view: LocalQueue) -> model.LocalQueue:
    """A LocalQueue.

    Raises:
        InvalidValueError: the weight or stop policy cannot be read.
    """
    return model.LocalQueue(
        key=LocalQueueKey(view.metadata.namespace, view.metadata.name),
        cluster_queue=ClusterQueueName(view.spec.cluster_queue),
        stop_policy=_stop_policy(view.spec.stop_policy),
        fair_weight=_weight(view.spec.fair_sharing),
        terminating=view.metadata.deletion_timestamp is not None,
    )


def selector(view: views.LabelSelector | None) -> model.Selector | None:
    """A label selector; None stays None and matches nothing."""
    if view is None:
        return None
    return model.Selector(
        requirements_of(view.match_labels or {}, requirements(view.match_expressions or ()))
    )


def requirements(found: Iterable[views.LabelSelectorRequirement]) -> tuple[Requirement, ...]:
    """Expressions of a label or node selector."""
    return tuple(Requirement(one.key, one.operator, tuple(one.values or ())) for one in found)


def _groups(found: Iterable[ResourceGroup]) -> tuple[model.ResourceGroup, ...]:
    return tuple(
        model.ResourceGroup(
            covered_resources=tuple(ResourceName(name) for name in group.covered_resources),
            flavors=tuple(_flavor_quotas(flavor) for flavor in group.flavors),
        )
        for group in found
    )


def _flavor_quotas(view: FlavorQuotas) -> model.FlavorQuotas:
    return model.FlavorQuotas(
        name=FlavorName(view.name),
        resources={ResourceName(one.name): _quota(one, view.name) for one in view.resources},
    )


def _quota(view: ResourceQuota, flavor: str) -> model.ResourceQuota:
    def read(value: str | int | None, field: str) -> int | None:
        return None if value is None else amount_of(view.name, value, f"flavor {flavor}, {field}")

    return model.ResourceQuota(
        nominal=read(view.nominal_quota, "nominalQuota") or 0,
        borrowing_limit=read(view.borrowing_limit, "borrowingLimit"),
        lending_limit=read(view.lending_limit, "lendingLimit"),
    )


def amount_of(resource: str, value: str | int, field: str) -> int:
    """A quantity in the canonical unit of its resource.

    Raises:
        InvalidValueError: it is no quantity; the rule names the field.
    """
    try:
        return quantity.to_canonical(resource, str(value))
    except InvalidValueError as error:
        raise InvalidValueError(error.value, f"{field}: {error.rule}") from error


def _weight(view: FairSharing | None) -> int:
    if view is None or view.weight is None:
        return model.DEFAULT_WEIGHT
    try:
        return quantity.parse_nano(str(view.weight))
    except InvalidValueError as error:
        raise InvalidValueError(error.value, f"spec.fairSharing.weight: {error.rule}") from error


def _fungibility(view: FlavorFungibility) -> model.FlavorFungibility:
    path = "spec.flavorFungibility"
    preference = view.preference or model.Preference.BORROWING_OVER_PREEMPTION
    return model.FlavorFungibility(
        when_can_borrow=_one_of(model.SearchPolicy, view.when_can_borrow, f"{path}.whenCanBorrow"),
        when_can_preempt=_one_of(
            model.SearchPolicy, view.when_can_preempt, f"{path}.whenCanPreempt"
        ),
        preference=_one_of(model.Preference, preference, f"{path}.preference"),
    )


def _preemption(view: Preemption) -> model.Preemption:
    path = "spec.preemption"
    borrow = view.borrow_within_cohort or BorrowWithinCohort()
    policy = model.PreemptionPolicy
    return model.Preemption(
        within_cluster_queue=_one_of(
            policy, view.within_cluster_queue, f"{path}.withinClusterQueue"
        ),
        reclaim_within_cohort=_one_of(
            policy, view.reclaim_within_cohort, f"{path}.reclaimWithinCohort"
        ),
        borrow_within_cohort=_one_of(policy, borrow.policy, f"{path}.borrowWithinCohort.policy"),
        max_priority_threshold=borrow.max_priority_threshold,
    )


def _checks(
    view: AdmissionChecksStrategy | None,
) -> tuple[model.AdmissionCheckRule, ...]:
    found = () if view is None else view.admission_checks or ()
    return tuple(
        model.AdmissionCheckRule(
            name=one.name, on_flavors=frozenset(FlavorName(name) for name in one.on_flavors or ())
        )
        for one in found
    )


def _stop_policy(text: str) -> model.StopPolicy:
    return _one_of(model.StopPolicy, text or "None", "spec.stopPolicy")


def _one_of(kind: type[_Choice], text: str, field: str) -> _Choice:
    try:
        return kind(text)
    except ValueError:
        choices = ", ".join(kind)
        raise InvalidValueError(text, f"{field}: must be one of {choices}") from None
