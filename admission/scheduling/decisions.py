"""The decisions of a cycle as values, each with the numbers behind it.

Source: kueue pkg/scheduler (requeue reasons), pkg/workload (condition reasons and messages).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum

from admission.base.conditions import EvictionReason, PreemptionReason
from admission.base.names import (
    ClusterQueueName,
    FlavorName,
    PodSetName,
    ResourceName,
    WorkloadKey,
)
from admission.scheduling.model import (
    NEVER_PREEMPTED,
    NOT_ELSEWHERE,
    Elsewhere,
    PastPreemptions,
    PodSetAssignment,
)
from admission.scheduling.places.model import NoPlace, Place

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
        reason: of the condition Evicted; always ``Preempted``.
        preemption_reason: of the condition Preempted.
        message: of both conditions.
        preempted_by: past preemptions of the victim with this one.
    """

    workload: WorkloadKey
    preemptor: WorkloadKey
    reason: str = EvictionReason.PREEMPTED
    preemption_reason: PreemptionReason
    message: str
    cluster_queue: ClusterQueueName
    preemptor_cluster_queue: ClusterQueueName
    preempted_by: PastPreemptions = NEVER_PREEMPTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """The numbers behind a wait, for one resource in one flavor; canonical units.

    Attributes:
        pod_set: who asks.
        requested: total of the pod set, with what earlier pod sets of the workload take.
        available: what the ClusterQueue could still take now, borrowed or not.
        limit: the most it could ever take; ``requested > limit`` never fits.
        nominal: its own quota.
        withheld: what it is promised beyond that and is not there for it.
        elsewhere: what of that exists and is promised to others before.
        holders: ClusterQueues of the tree that use the resource, with their usage, largest first.
    """

    pod_set: PodSetName
    resource: ResourceName
    flavor: FlavorName
    requested: int
    available: int
    limit: int
    nominal: int
    withheld: int = 0
    elsewhere: Elsewhere = NOT_ELSEWHERE
    holders: tuple[tuple[ClusterQueueName, int], ...] = ()

    @property
    def missing(self) -> int:
        """Return how much more is needed."""
        return max(0, self.requested - self.available)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A decision not to give a workload quota in this cycle.

    Attributes:
        reason: of the condition QuotaReserved=False.
        message: of the same condition.
        requests: total of each pod set, canonical units, in the order of the spec.
        shortages: what was missing where; empty when quota is not the cause.
        preempting: victims whose quota it now waits for.
        no_places: where nodes have no room for its pods; empty when nodes are not the cause.
    """

    workload: WorkloadKey
    cluster_queue: ClusterQueueName
    reason: str
    message: str
    requests: tuple[tuple[PodSetName, Mapping[ResourceName, int]], ...] = ()
    shortages: tuple[Shortage, ...] = ()
    preempting: tuple[WorkloadKey, ...] = ()
    no_places: tuple[NoPlace, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleResult:
    """Everything that one cycle decided, in the order in which it was decided.

    Attributes:
        bypassed: what was decided of a workload that did not fit, for those equal to it that
            have not heard it yet; none of them was tried.
        recomputed: ClusterQueues of Workloads whose victims were chosen anew, with the outcome.
    """

    admitted: tuple[Admit, ...] = ()
    evicted: tuple[Evict, ...] = ()
    waiting: tuple[Wait, ...] = ()
    bypassed: tuple[Wait, ...] = ()
    recomputed: tuple[tuple[ClusterQueueName, Recomputation], ...] = ()
