"""The input and output of a cycle: heads of queues, and verdicts about them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from admission.base.names import ChargeKey, ClusterQueueName, WorkloadKey
from admission.scheduling import caps
from admission.scheduling.assignment import LastAssignment
from admission.scheduling.caps import Caps
from admission.scheduling.decisions import Admit, CycleResult, Evict, Recomputation, Requeue, Wait
from admission.scheduling.model import Workload
from admission.scheduling.places.model import Place, Want
from admission.scheduling.podsets import Demand


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The first workload of a queue.

    Attributes:
        queue_us: the timestamp that orders it among equal priorities.
        demands: what it asks for.
        memory: the flavors at which its earlier scans stopped.
        misconfigured: why it may not be admitted whatever the quota; empty when it may.
        namespace_exists: its namespace is known.
        namespace_matches: its namespace may use the queue.
        spared: workloads that it has preempted too often already.
        preempted_for: the workload that it had to leave for and that still waits, if any.
        replaces: the workload whose quota is counted as its own already, if any.
        caps: caps that apply to it, and what is held of each. No other head of a cycle counts for
            them, as it is of another ClusterQueue.
        outranked: workloads of the ClusterQueue with a lower priority for which places are kept:
            it may take these.
    """

    workload: Workload
    cluster_queue: ClusterQueueName
    queue_us: int
    demands: tuple[Demand, ...]
    memory: LastAssignment | None = None
    misconfigured: str = ""
    namespace_exists: bool = True
    namespace_matches: bool = True
    spared: frozenset[ChargeKey] = frozenset()
    preempted_for: ChargeKey | None = None
    replaces: ChargeKey | None = None
    caps: Caps = field(default_factory=lambda: caps.NONE)
    outranked: tuple[WorkloadKey, ...] = ()

    @property
    def key(self) -> WorkloadKey:
        """Identity of the workload."""
        return self.workload.workload_key


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadResult:
    """What a cycle decided about one head.

    Attributes:
        decision: quota, or why it waits.
        evictions: victims that were told to leave for it.
        requeue: why it returns to its queue; None when it got quota.
        memory: state of the flavor scan for its next try.
        recomputed: what came of choosing its victims anew; None when that was not needed.
        kept: its pods, and the places that are kept for them until its victims have left.
        error: what ended the decision about it; None where it was decided.
    """

    head: Head
    decision: Admit | Wait
    evictions: tuple[Evict, ...] = ()
    requeue: Requeue | None = None
    memory: LastAssignment | None = None
    recomputed: Recomputation | None = None
    kept: tuple[tuple[Want, ...], tuple[Place, ...]] | None = None
    error: Exception | None = None


def result_of(verdicts: Iterable[HeadResult]) -> CycleResult:
    """Return the verdicts of one cycle, by what was decided."""
    admitted: list[Admit] = []
    evicted: list[Evict] = []
    waiting: list[Wait] = []
    recomputed: list[tuple[ClusterQueueName, Recomputation]] = []
    failed: list[tuple[WorkloadKey, Exception]] = []
    for verdict in verdicts:
        evicted += verdict.evictions
        if verdict.error is not None:
            failed.append((verdict.head.key, verdict.error))
        if verdict.recomputed is not None:
            recomputed.append((verdict.head.cluster_queue, verdict.recomputed))
        if isinstance(verdict.decision, Admit):
            admitted.append(verdict.decision)
        else:
            waiting.append(verdict.decision)
    return CycleResult(
        admitted=tuple(admitted),
        evicted=tuple(evicted),
        waiting=tuple(waiting),
        recomputed=tuple(recomputed),
        failed=tuple(failed),
    )
