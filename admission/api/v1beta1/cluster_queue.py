"""ClusterQueue in v1beta1: ``cohort``, a plain list of checks, older words for fungibility."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from admission.api import common, markers
from admission.api.markers import Rule
from admission.api.model import Model, Root
from admission.api.scalars import Int32, StopPolicy, Subdomain, Timestamp
from admission.api.v1beta1.common import (
    CheckReference,
    Conditions,
    QueueFairSharingStatus,
    ResourceGroups,
)
from admission.api.v1beta2 import cluster_queue


class FlavorFungibility(Model):
    """When the search for a flavor goes on, although the present one would do."""

    rules: ClassVar[tuple[Rule, ...]] = cluster_queue.FlavorFungibility.rules

    when_can_borrow: Literal["Borrow", "MayStopSearch", "TryNextFlavor"] = "MayStopSearch"
    """What to do with a flavor that needs borrowing; Borrow is MayStopSearch."""

    when_can_preempt: Literal["Preempt", "MayStopSearch", "TryNextFlavor"] = "TryNextFlavor"
    """What to do with a flavor that needs preemption; Preempt is MayStopSearch."""

    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] | None = None
    """Which of the two is taken when no flavor fits without either; absent means borrowing."""


class AdmissionCheckRule(Model):
    """One admission check of the queue."""

    name: CheckReference
    """The AdmissionCheck."""

    on_flavors: list[Subdomain] | None = None
    """Flavors for which it is asked; absent or empty means all."""


class AdmissionChecksStrategy(Model):
    """Admission checks and the flavors that they belong to."""

    admission_checks: list[AdmissionCheckRule] | None = None
    """The checks; all of them must be ready before a workload is admitted."""


class AdmissionScope(Model):
    """How usage of the past changes the order."""

    admission_mode: str
    """Whether LocalQueues that used less go first."""


class ClusterQueueSpec(Model):
    """Quota and the rules by which it is given out."""

    rules: ClassVar[tuple[Rule, ...]] = (cluster_queue.no_borrowing_limit_without("cohort"),)

    resource_groups: ResourceGroups | None = None
    """The quota."""

    cohort: Subdomain | None = None
    """The cohort to borrow from and lend to. It need not exist as an object."""

    queueing_strategy: Literal["StrictFIFO", "BestEffortFIFO"] = "BestEffortFIFO"
    """Whether a workload that does not fit stops those behind it (StrictFIFO) or not."""

    namespace_selector: Annotated[common.LabelSelector, markers.map_atomic()] | None = None
    """Namespaces whose workloads are taken: absent means none, an empty selector all."""

    flavor_fungibility: FlavorFungibility = Field(default_factory=FlavorFungibility)
    """How a flavor is chosen."""

    preemption: cluster_queue.Preemption = Field(default_factory=cluster_queue.Preemption)
    """Whom a waiting workload may evict."""

    admission_checks: list[CheckReference] | None = None
    """Checks for all flavors; if there are any, ``admissionChecksStrategy`` is not read."""

    admission_checks_strategy: AdmissionChecksStrategy | None = None
    """What else must be ready before a workload is admitted."""

    stop_policy: StopPolicy = "None"
    """Hold gives out no more quota; HoldAndDrain also evicts what is admitted."""

    fair_sharing: common.FairSharing | None = None
    """The queue's weight in its cohort."""

    admission_scope: AdmissionScope | None = None
    """How usage of the past changes the order."""


class PendingWorkload(Model):
    """A workload that waits."""

    name: str
    """Its name."""

    namespace: str
    """Its namespace."""


class PendingWorkloadsStatus(Model):
    """The head of the queue; no longer written."""

    cluster_queue_pending_workload: (
        Annotated[list[PendingWorkload], markers.list_atomic()] | None
    ) = None
    """The workloads that waited."""

    last_change_time: Timestamp
    """When the list last changed."""


class ClusterQueueStatus(Model):
    """What the queue holds and whether it admits."""

    conditions: Conditions | None = None
    """``Active`` says whether the queue admits, and if not, why."""

    pending_workloads: Int32 | None = None
    """Workloads that wait for quota."""

    reserving_workloads: Int32 | None = None
    """Workloads that hold quota, admitted or not."""

    admitted_workloads: Int32 | None = None
    """Workloads that are admitted and not finished."""

    pending_workloads_status: PendingWorkloadsStatus | None = None
    """The head of the queue; no longer written."""

    flavors_reservation: cluster_queue.FlavorUsages | None = None
    """Quota reserved by workloads, admitted or not."""

    flavors_usage: cluster_queue.FlavorUsages | None = None
    """Quota of admitted workloads."""

    fair_sharing: QueueFairSharingStatus | None = None
    """Current share; only with fair sharing."""


class ClusterQueue(Root):
    """Quota for the workloads of many namespaces."""

    spec: ClusterQueueSpec | None = None
    """Quota and the rules by which it is given out."""

    status: ClusterQueueStatus | None = None
    """What the queue holds and whether it admits."""
