"""Every condition that this program writes: its type, and the reasons that code compares.

Their messages are in `admission.reasons`. Types and reasons that Kueue has too are Kueue's:
clients and people search for them. Source: kueue apis/kueue/v1beta2.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from admission.base import names


class Text(NamedTuple):
    """Reason (CamelCase) and message (for people) of a condition."""

    reason: str
    message: str


# ------------------------------------------------------------------------------------- types

# of Workloads
QUOTA_RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
EVICTED: Final = "Evicted"
PREEMPTED: Final = "Preempted"
REQUEUED: Final = "Requeued"
FINISHED: Final = "Finished"
PODS_READY: Final = "PodsReady"
DEACTIVATION_TARGET: Final = "DeactivationTarget"
WAITING_FOR_REPLACEMENT_PODS: Final = "WaitingForReplacementPods"
RUN_TIME_LIMITED: Final = f"{names.OWN_DOMAIN}/RunTimeLimited"
USES_SURGE_QUOTA: Final = f"{names.OWN_DOMAIN}/UsesSurgeQuota"
PREEMPTION_NOTICE: Final = f"{names.OWN_DOMAIN}/PreemptionNotice"
STOP_HELD_BACK: Final = f"{names.OWN_DOMAIN}/StopHeldBack"
START_REFUSED: Final = f"{names.OWN_DOMAIN}/StartRefused"

# of ClusterQueues and LocalQueues
ACTIVE: Final = "Active"
CAPACITY_SUFFICIENT: Final = f"{names.OWN_DOMAIN}/CapacitySufficient"
RELEASING: Final = f"{names.OWN_DOMAIN}/Releasing"
SURGE_QUOTA_IN_USE: Final = f"{names.OWN_DOMAIN}/SurgeQuotaInUse"
FLAVORS_CONSISTENT: Final = f"{names.OWN_DOMAIN}/FlavorsConsistent"
COSTS_EXACT: Final = f"{names.OWN_DOMAIN}/CostsExact"
SPEC_SUPPORTED: Final = f"{names.OWN_DOMAIN}/SpecSupported"

# of pods
POD_ADMITTED: Final = f"{names.OWN_DOMAIN}/Admitted"
POD_REVIEWED: Final = f"{names.OWN_DOMAIN}/Reviewed"
TERMINATION_TARGET: Final = "TerminationTarget"
DISRUPTION_TARGET: Final = "DisruptionTarget"
"""On a pod that Kubernetes is about to end for another reason than that somebody deleted it."""


# ---------------------------------------------------------------- Workloads: QuotaReserved=False


class WaitReason(StrEnum):
    """Reasons of the condition QuotaReserved=False; all but the last four are Kueue's."""

    WAITING_FOR_QUOTA = "WaitingForQuota"
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
    WAITING_FOR_PREEMPTED = "WaitingForPreemptedWorkloads"
    WAITING_FOR_PODS_READY = "WaitingForPodsReady"
    MISCONFIGURED = "Misconfigured"
    SUSPENDED = "Suspended"
    PENDING_EVALUATION = "PendingEvaluation"
    DEACTIVATED = "Deactivated"
    ADMISSION_GATED = "AdmissionGated"
    ADMISSION_PAUSED = "AdmissionPaused"
    CAP_REACHED = "CapReached"
    EXCEEDS_CAP = "ExceedsCap"
    WAITING_FOR_NODE = "WaitingForNode"


ON_HOLD: Final = "OnHold"
"""Reason that another program sets to keep the Workload out of the queue."""


# ------------------------------------------------------- Workloads: Evicted, Preempted, Requeued


class EvictionReason(StrEnum):
    """Reasons of the condition Evicted that other code compares."""

    PREEMPTED = "Preempted"
    ADMISSION_CHECK = "AdmissionCheck"
    PODS_READY_TIMEOUT = "PodsReadyTimeout"
    NODE_FAILURES = "NodeFailures"
    CLAIMS_CHANGED = "ResourceClaimsChanged"
    SURGE_ENDED = "SurgeEnded"
    PODS_RUN_AGAIN = "PodsRunAgain"
    POD_GROUP_STOPPED = "PodGroupStopped"
    FAILED_TO_START = "FailedToStart"
    DEACTIVATED = "Deactivated"


_DUE_TO: Final = "DueTo"
DEACTIVATED_BY_PROGRAM: Final = f"{EvictionReason.DEACTIVATED}{_DUE_TO}"
"""Beginning of the reason of Evicted of a Workload that this program deactivated."""


def eviction_cause(reason: str) -> tuple[str, str]:
    """Return the reason of Evicted without its cause, and the cause, which may be empty."""
    base, _, cause = reason.partition(_DUE_TO)
    return base, cause


class PreemptionReason(StrEnum):
    """Why a victim was chosen; reasons of the condition Preempted."""

    IN_CLUSTER_QUEUE = "InClusterQueue"
    IN_COHORT_RECLAMATION = "InCohortReclamation"
    IN_COHORT_FAIR_SHARING = "InCohortFairSharing"
    IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"


# -------------------------------------------------------------------------- Workloads: PodsReady


class PodsReadyReason(StrEnum):
    """Reasons of the condition PodsReady."""

    WAIT_FOR_START = "WaitForStart"
    WAIT_FOR_RECOVERY = "WaitForRecovery"
    STARTED = "Started"
    RECOVERED = "Recovered"


# --------------------------------------------------------------------------- Workloads: Finished

FAILED_TO_START: Final = EvictionReason.FAILED_TO_START.value
SLICE_REPLACED: Final = "WorkloadSliceReplaced"
ENDED_WITH_OWNER: Final = ("Succeeded", "Failed")
"""Reasons of Finished of a Workload whose owner ended by itself."""


# ---------------------------------------------------- ClusterQueues: GPUs, fields without effect

PODS_ENDING: Final = "PodsEnding"
"""Reason for quota that is not free yet because stopped pods have not ended."""


# -------------------------------------------------- pods and Jobs: what they name does not exist

PRIORITY_CLASS_NOT_FOUND: Final = "WorkloadPriorityClassNotFound"
PREBUILT_NOT_FOUND: Final = "PrebuiltWorkloadNotFound"


# -------------------------------------------------------------------------------- groups of pods

GROUP_INCOMPLETE: Final = "PodGroupIncomplete"
GROUP_INVALID: Final = "PodGroupInvalid"
WORKLOAD_NAME_CONFLICT: Final = "WorkloadNameConflict"
GROUP_FULL: Final = "PodGroupFull"
