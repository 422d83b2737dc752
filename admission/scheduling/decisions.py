"""The decisions of a cycle as values, each with the numbers behind it.

Source: kueue pkg/scheduler (requeue reasons).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum

from admission.base.causes import EndingPods, LargestNode, Preempted, Shortage, Why
from admission.base.conditions import PreemptionReason
from admission.base.names import ChargeKey, ClusterQueueName, PodSetName, ResourceName, WorkloadKey
from admission.scheduling.model import NEVER_PREEMPTED, PastPreemptions, PodSetAssignment
from admission.scheduling.places.model import Place

__all__ = [
    "Admit",
    "CycleResult",
    "Evict",
    "Mode",
    "PodSetAssignment",
    "Recomputation",
    "Requeue",
    "Shortage",
    "Wait",
]


class Mode(IntEnum):
    """How far an assignment is from admission; a larger value is better."""

    NO_FIT = 0
    PREEMPT = 1
    DEFERRED_FIT = 2
    FIT = 3


class Requeue(Enum):
    """Why a head goes back to its queue; decides where in the queue it goes."""

    FAILED_AFTER_NOMINATION = "FailedAfterNomination"
    PENDING_PREEMPTION = "PendingPreemption"
    NO_FIT = "NoFit"
    PREEMPTION_NO_CANDIDATES = "PreemptionNoCandidates"
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    CAPPED = "Capped"
    SET_ASIDE = "SetAside"
    GENERIC = "Generic"


class Recomputation(StrEnum):
    """The result of choosing victims again because another entry of the cycle had taken some."""

    NEW_TARGETS = "new_targets"
    DEFERRED_FIT = "deferred_fit"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    """A decision to give quota to a workload.

    Attributes:
        pod_sets: flavors and usage, one per pod set, in the order of the spec.
        borrowing: height of the lowest subtree whose quota holds it; 0 when not borrowing.
        checks: names of the admission checks that its flavors need, sorted; none means that it
            is admitted at once.
        surges: whether it is surge quota.
        places: nodes that its pods were admitted for; none where nodes decided nothing.
    """

    workload: WorkloadKey
    cluster_queue: ClusterQueueName
    pod_sets: tuple[PodSetAssignment, ...]
    borrowing: int = 0
    checks: tuple[str, ...] = ()
    surges: bool = False
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """A decision to evict a victim, which must give its quota back.

    Attributes:
        workload: the victim.
        why: why it was chosen, and for whom.
        preempted_by: past preemptions of the victim with this one.
    """

    workload: WorkloadKey
    preemptor: WorkloadKey
    why: Preempted
    cluster_queue: ClusterQueueName
    preemptor_cluster_queue: ClusterQueueName
    preempted_by: PastPreemptions = NEVER_PREEMPTED

    @property
    def preemption_reason(self) -> PreemptionReason:
        """Return the reason of the condition Preempted."""
        return self.why.cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A decision not to give a workload quota in this cycle.

    Attributes:
        why: why it gets none.
        requests: total of each pod set, canonical units, in the order of the spec.
        shortages: what was missing where; empty when quota is not the cause.
        preempting: victims whose quota it now waits for.
        small_nodes: largest nodes of its flavors, where a pod asks for more than each of them has;
            looked for when it is told to people.
        ending: pods that end and hold what it waits for, as told to people; no cycle says it.
    """

    workload: WorkloadKey
    cluster_queue: ClusterQueueName
    why: Why
    requests: tuple[tuple[PodSetName, Mapping[ResourceName, int]], ...] = ()
    shortages: tuple[Shortage, ...] = ()
    preempting: tuple[ChargeKey, ...] = ()
    small_nodes: tuple[LargestNode, ...] = ()
    ending: EndingPods | None = None

    @property
    def reason(self) -> str:
        """Return the reason of the condition QuotaReserved=False."""
        return self.why.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleResult:
    """Everything that one cycle decided, in the order in which it was decided.

    Attributes:
        bypassed: what was decided of a workload that did not fit, for those equal to it that
            have not heard it yet; none of them was tried.
        recomputed: ClusterQueues of Workloads whose victims were chosen anew, with the outcome.
        failed: Workloads that were set aside, with the error that ended the decision about each.
    """

    admitted: tuple[Admit, ...] = ()
    evicted: tuple[Evict, ...] = ()
    waiting: tuple[Wait, ...] = ()
    bypassed: tuple[Wait, ...] = ()
    recomputed: tuple[tuple[ClusterQueueName, Recomputation], ...] = ()
    failed: tuple[tuple[WorkloadKey, Exception], ...] = ()
