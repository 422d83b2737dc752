"""ClusterQueue: quota, and the rules by which it is given out."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from admission.api import common, markers
from admission.api.markers import Rule
from admission.api.model import Model, Root
from admission.api.scalars import CheckReference, Int32, Quantity, StopPolicy, Subdomain
from admission.api.v1beta2.queue_status import QueueCounts
from admission.api.v1beta2.resource_groups import ResourceGroups

FungibilityPolicy = Literal["MayStopSearch", "TryNextFlavor"]


class FlavorFungibility(Model):
    """When the search for a flavor goes on, although the present one would do."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.preference) || (self.whenCanBorrow == 'TryNextFlavor'"
            " && self.whenCanPreempt == 'TryNextFlavor')",
            "preference can only be set when both whenCanBorrow and whenCanPreempt are"
            " TryNextFlavor",
        ),
    )

    when_can_borrow: FungibilityPolicy = "MayStopSearch"
    """What to do with a flavor that needs borrowing."""

    when_can_preempt: FungibilityPolicy = "TryNextFlavor"
    """What to do with a flavor that needs preemption."""

    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] | None = None
    """Which of the two is taken when no flavor fits without either; absent means borrowing."""


class BorrowWithinCohort(Model):
    """Preemption in other queues by a workload that borrows."""

    policy: Literal["Never", "LowerPriority"] = "Never"
    """Whose workloads may be preempted."""

    max_priority_threshold: Int32 | None = None
    """Highest priority that may be preempted; absent means every lower priority."""


class Preemption(Model):
    """Whom a waiting workload may evict."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!(self.reclaimWithinCohort == 'Never' && has(self.borrowWithinCohort)"
            " && self.borrowWithinCohort.policy != 'Never')",
            "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
        ),
    )

    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    """Workloads of other queues of the cohort that borrow."""

    borrow_within_cohort: BorrowWithinCohort = Field(default_factory=BorrowWithinCohort)
    """Whether that also holds for a workload that would itself borrow."""

    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    """Workloads of the same queue."""


class AdmissionCheckRule(Model):
    """One admission check of the queue."""

    name: CheckReference
    """The AdmissionCheck."""

    on_flavors: Annotated[list[Subdomain], markers.list_set(at_most=64)] | None = None
    """Flavors for which it is asked; absent or empty means all."""


class AdmissionChecksStrategy(Model):
    """Admission checks and the flavors that they belong to."""

    admission_checks: Annotated[
        list[AdmissionCheckRule], markers.list_map("name", at_least=1, at_most=64)
    ]
    """The checks; all of them must be ready before a workload is admitted."""


class AdmissionScope(Model):
    """How usage of the past changes the order."""

    admission_mode: Literal["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"]
    """Whether LocalQueues that used less go first."""


class MigrationConstraints(Model):
    """Where a migration ends."""

    last_acceptable_flavor_name: Subdomain | None = None
    """Last flavor of the queue's order that a workload may migrate to."""


class ConcurrentAdmissionMigration(Model):
    """Whether a running workload moves to a better flavor."""

    mode: Annotated[
        Literal["TryPreferredFlavors", "RetainFirstAdmission"], markers.keywords(maxLength=253)
    ]
    """What happens after the first admission."""

    constraints: MigrationConstraints | None = None
    """Limits of the migration."""


class ConcurrentAdmissionPolicy(Model):
    """Admission on several flavors at once."""

    migration: ConcurrentAdmissionMigration
    """What happens once one flavor has admitted the workload."""


def no_borrowing_limit_without(cohort: str) -> Rule:
    """Without the field ``cohort`` there is nobody to borrow from."""
    return Rule(
        f"has(self.{cohort}) || !has(self.resourceGroups)"
        " || self.resourceGroups.all(group, group.flavors.all(flavor,"
        " flavor.resources.all(resource, !has(resource.borrowingLimit))))",
        "borrowingLimit must be nil when cohort is empty",
    )


class ClusterQueueSpec(Model):
    """Quota and the rules by which it is given out."""

    rules: ClassVar[tuple[Rule, ...]] = (no_borrowing_limit_without("cohortName"),)

    resource_groups: ResourceGroups | None = None
    """The quota."""

    cohort_name: Subdomain | None = None
    """The cohort to borrow from and lend to. It need not exist as an object."""

    queueing_strategy: Literal["StrictFIFO", "BestEffortFIFO"] = "BestEffortFIFO"
    """Whether a workload that does not fit stops those behind it (StrictFIFO) or not."""

    namespace_selector: Annotated[common.LabelSelector, markers.map_atomic()] | None = None
    """Namespaces whose workloads are taken: absent means none, an empty selector all."""

    flavor_fungibility: FlavorFungibility = Field(default_factory=FlavorFungibility)
    """How a flavor is chosen."""

    preemption: Preemption = Field(default_factory=Preemption)
    """Whom a waiting workload may evict."""

    admission_checks_strategy: AdmissionChecksStrategy | None = None
    """What else must be ready before a workload is admitted."""

    stop_policy: StopPolicy = "None"
    """Hold gives out no more quota; HoldAndDrain also evicts what is admitted."""

    fair_sharing: common.FairSharing | None = None
    """The queue's weight in its cohort."""

    admission_scope: AdmissionScope | None = None
    """How usage of the past changes the order."""

    concurrent_admission_policy: ConcurrentAdmissionPolicy | None = None
    """Admission on several flavors at once."""


class ResourceUsage(Model):
    """Use of one resource in one flavor."""

    name: str
    """The resource."""

    total: Quantity | None = None
    """All that is used, borrowed or not."""

    borrowed: Quantity | None = None
    """The part that is borrowed from the cohort."""


class FlavorUsage(Model):
    """Use of one flavor."""

    name: Subdomain
    """The flavor."""

    resources: Annotated[list[ResourceUsage], markers.list_map("name", at_most=64)]
    """Use per resource."""


FlavorUsages = Annotated[list[FlavorUsage], markers.list_map("name", at_most=64)]


class ClusterQueueStatus(QueueCounts):
    """What the queue holds and whether it admits."""

    flavors_reservation: FlavorUsages | None = None
    """Quota reserved by workloads, admitted or not."""

    flavors_usage: FlavorUsages | None = None
    """Quota of admitted workloads."""

    fair_sharing: common.FairSharingStatus | None = None
    """Current share; only with fair sharing."""


class ClusterQueue(Root):
    """Quota for the workloads of many namespaces."""

    spec: ClusterQueueSpec | None = None
    """Quota and the rules by which it is given out."""

    status: ClusterQueueStatus | None = None
    """What the queue holds and whether it admits."""
