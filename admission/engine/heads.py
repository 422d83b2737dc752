"""What a cycle takes in and gives back: heads of queues and verdicts about them."""

from dataclasses import dataclass

from admission.base.names import ClusterQueueName, WorkloadKey
from admission.engine.assignment import ScanMemory
from admission.engine.decisions import Admit, Evict, Requeue, Wait
from admission.engine.model import Workload
from admission.engine.podsets import Demand


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The first workload of a queue.

    Attributes:
        queue_us: the timestamp that orders it among equal priorities.
        demands: what it asks for.
        memory: where its earlier flavor scans stopped.
        misconfigured: why it may not be admitted whatever the quota; empty when it may.
        namespace_exists: its namespace is known.
        namespace_matches: its namespace may use the queue.
        spared: workloads that it has preempted too often already.
    """

    workload: Workload
    cluster_queue: ClusterQueueName
    queue_us: int
    demands: tuple[Demand, ...]
    memory: ScanMemory | None = None
    misconfigured: str = ""
    namespace_exists: bool = True
    namespace_matches: bool = True
    spared: frozenset[WorkloadKey] = frozenset()

    @property
    def key(self) -> WorkloadKey:
        """Identity of the workload."""
        return self.workload.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a cycle decided about one head.

    Attributes:
        decision: quota, or why it waits.
        evictions: victims that were told to leave for it.
        requeue: why it returns to its queue; None when it got quota.
        memory: for its next try.
    """

    head: Head
    decision: Admit | Wait
    evictions: tuple[Evict, ...] = ()
    requeue: Requeue | None = None
    memory: ScanMemory | None = None
