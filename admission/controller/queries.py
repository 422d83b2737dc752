"""Queries from other threads to the core, answered on its thread between two messages.

An answer holds what never changes, and is made in a single pass over one queue at most: who asks
does the sorting and the writing.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from admission.base.names import (
    ChargeKey,
    ClusterQueueName,
    FlavorResource,
    LocalQueueKey,
    WorkloadKey,
)
from admission.gpu.inventory import GpuNode, NodeStock
from admission.objects import views
from admission.objects.workload import Workload
from admission.scheduling.decisions import Wait
from admission.scheduling.overview import LocalOverview, Overview
from admission.scheduling.pending import PendingSnapshot
from admission.scheduling.reserving import ReservingWorkload

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What is charged at one moment.

    Attributes:
        workloads: charge of each Workload, and of each pod that is charged on its own.
        sums: usage of each ClusterQueue, as the quota trees have it.
        unsettled: Workloads that were decided about, or are written, at this moment.
        on_nodes: what bound pods hold on each node, by resource.
    """

    workloads: Mapping[ChargeKey, ReservingWorkload]
    sums: Mapping[ClusterQueueName, Mapping[FlavorResource, int]]
    unsettled: frozenset[ChargeKey]
    on_nodes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


class Reader(Protocol):
    """What may be read on the core's thread."""

    @property
    def synced(self) -> bool:
        """Return whether every watched kind was listed.

        Before that an unknown name means nothing.
        """
        ...

    def line(self, queue: ClusterQueueName | LocalQueueKey) -> PendingSnapshot | None:
        """Return the pending Workloads of a ClusterQueue or LocalQueue; None if it is unknown."""
        ...

    @property
    def revision(self) -> int:
        """Return a number that grows whenever something may differ from before."""
        ...

    def overview(self) -> Overview:
        """Return quota and its use, of all queues and cohorts."""
        ...

    def holders(self, queue: ClusterQueueName) -> tuple[ReservingWorkload, ...]:
        """Return the Workloads that hold quota of a ClusterQueue, in no order."""
        ...

    def waits(self, keys: Iterable[WorkloadKey]) -> tuple[Wait | None, ...]:
        """Return why Workloads wait; None for one that does not."""
        ...

    def judged(self, key: WorkloadKey) -> Wait | None:
        """Return why a Workload waits, as it was decided last; None for one that does not."""
        ...

    def queues_of(self, workload: Workload) -> tuple[views.Object | None, views.Object | None]:
        """Return the LocalQueue that a Workload names, and the ClusterQueue of its quota."""
        ...

    def stock(self) -> tuple[NodeStock, ...]:
        """Return what each node with GPUs has, by name."""
        ...

    def gpu_nodes(self, names_: Iterable[str]) -> tuple[GpuNode, ...]:
        """Return nodes with the holders of their GPUs; those that are not known are left out."""
        ...

    def local_queues(self) -> tuple[LocalOverview, ...]:
        """Return the LocalQueues and what their Workloads hold, by namespace and name."""
        ...

    def counted(self) -> Counted:
        """Return the present charges, as copies."""
        ...

    def workloads(self, keys: Iterable[ChargeKey]) -> tuple[Workload | None, ...]:
        """Return Workloads as last seen, in the order of the keys; None for one that is gone."""
        ...


@dataclass(frozen=True, slots=True)
class Query(Generic[Answer]):
    """One question; a message of the core's inbox.

    Attributes:
        ask: reads what it wants and returns it.
        answer: what it returned or raised; one that was cancelled meanwhile is not worked on.
    """

    ask: Callable[[Reader], Answer]
    answer: Future[Answer] = field(default_factory=Future)

    def run(self, reader: Reader) -> None:
        """Answer the question; never raises."""
        if not self.answer.set_running_or_notify_cancel():
            return
        try:
            answer = self.ask(reader)
        except Exception as error:  # noqa: BLE001 - whoever asked gets it
            self.answer.set_exception(error)
        else:
            self.answer.set_result(answer)
