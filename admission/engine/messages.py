"""Texts of decisions, word for word as Kueue's clients match them.

Source: kueue pkg/scheduler/scheduler.go, preemption/preemption.go.
"""

from typing import Final

from admission.engine.decisions import PreemptionReason
from admission.engine.hierarchy import QueueNode
from admission.engine.model import Workload

NO_LONGER_FITS: Final = "Workload no longer fits after processing another workload"
OVERLAPPING_TARGETS: Final = "Workload has overlapping preemption targets with another workload"
DEFERRED: Final = f"{OVERLAPPING_TARGETS}, but will fit after these preemptions complete"
FAILED_CHECKS: Final = "The workload has failed admission checks"
WRONG_NAMESPACE: Final = "workload namespace doesn't match ClusterQueue selector"
NOT_ALL_READY: Final = "waiting for all admitted workloads to be in PodsReady condition"
PAUSED: Final = (
    "Admission is paused by the administrator: no workload gets quota. This one keeps its place in"
    " the queue and is considered when admission is resumed"
)

_WHY: Final = {
    PreemptionReason.IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    PreemptionReason.IN_COHORT_RECLAMATION: "reclamation within the cohort",
    PreemptionReason.IN_COHORT_FAIR_SHARING: "Fair Sharing within the cohort",
    PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING: (
        "reclamation within the cohort while borrowing"
    ),
}


def no_namespace(name: str) -> str:
    """The workload's namespace is not there."""
    return f'workload namespace "{name}" does not exist: Namespace "{name}" not found'


def inactive(queue: str) -> str:
    """The ClusterQueue admits nothing."""
    return f"ClusterQueue {queue} is inactive"


def preempted(
    preemptor: Workload, reason: PreemptionReason, own: QueueNode, other: QueueNode
) -> str:
    """Why a victim was evicted, and by whom."""
    return (
        f"Preempted to accommodate a workload (UID: {preemptor.uid or 'UNKNOWN'}, "
        f"JobUID: {preemptor.job_uid or 'UNKNOWN'}) due to {_WHY[reason]}; "
        f"preemptor path: {own.path()}; preemptee path: {other.path()}"
    )


def gated(gates: str) -> str:
    """An annotation keeps the workload out of the queue."""
    return f"Admission is gated by: {gates}"


def pending_preemption(message: str, count: int) -> str:
    """The message of a workload whose victims were told to leave."""
    return f"{message}. Pending the preemption of {count} workload(s)"
