"""Lists of pending workloads from the controller's core, asked on its own thread."""

from collections.abc import Callable
from typing import Final, Protocol

from admission.base.names import ClusterQueueName, LocalQueueKey, WorkloadKey
from admission.controller.queries import Answer, Reader
from admission.controller.queues import time_limits
from admission.gpu.inventory import GpuNode, NodeStock
from admission.objects.workload import Workload
from admission.scheduling.decisions import Wait
from admission.scheduling.overview import LocalOverview, Overview
from admission.scheduling.pending import PendingSnapshot
from admission.scheduling.reserving import ReservingWorkload
from admission.scheduling.starts import Prospect, QuotaEnd
from admission.serve import statuses

_ANSWER_SECONDS: Final = 5.0
_SLICE: Final = 1_000
"""Workloads looked up in one turn of the core."""
_QUEUES_AT_ONCE: Final = 100
"""ClusterQueues whose pending Workloads are copied in one turn of the core."""


class AskCore(Protocol):
    """Has the core answer a question; raises TimeoutError where it does not come to it."""

    def __call__(self, question: Callable[[Reader], Answer], within_seconds: float, /) -> Answer:
        """The answer."""
        ...


class CoreSource:
    """What `lists.PendingSource` promises, from the core."""

    def __init__(self, ask: AskCore) -> None:
        self._ask_core = ask

    def line(self, queue: ClusterQueueName | LocalQueueKey) -> PendingSnapshot | None:
        """Return a copy of the pending Workloads of a queue."""
        return self._synced(lambda reader: reader.line(queue))

    def revision(self) -> int:
        """Return a number that grows whenever something may differ from before."""
        return self._synced(lambda reader: reader.revision)

    def overview(self) -> Overview:
        """Return the quota of all queues and cohorts, and its use."""
        return self._synced(lambda reader: reader.overview())

    def holders(self, queue: ClusterQueueName) -> tuple[ReservingWorkload, ...]:
        """Return the Workloads that hold quota of a ClusterQueue."""
        return self._synced(lambda reader: reader.holders(queue))

    def quota_ends(self, queues: tuple[ClusterQueueName, ...]) -> tuple[QuotaEnd, ...]:
        """Return when quota of ClusterQueues is given back by time limits, in slices."""
        ends: list[QuotaEnd] = []
        for start in range(0, len(queues), _QUEUES_AT_ONCE):
            ends += self._some_ends(queues[start : start + _QUEUES_AT_ONCE])
        return tuple(ends)

    def _some_ends(self, queues: tuple[ClusterQueueName, ...]) -> tuple[QuotaEnd, ...]:
        return self._synced(lambda reader: tuple(time_limits.quota_ends(reader, queues)))

    def prospects(self, keys: tuple[WorkloadKey, ...]) -> tuple[Prospect, ...]:
        """Return what decides when Workloads that wait may start, in slices."""
        prospects: list[Prospect] = []
        for start in range(0, len(keys), _SLICE):
            prospects += self._some_prospects(keys[start : start + _SLICE])
        return tuple(prospects)

    def _some_prospects(self, keys: tuple[WorkloadKey, ...]) -> tuple[Prospect, ...]:
        return self._synced(lambda reader: tuple(time_limits.prospects(reader, keys)))

    def waits(self, keys: tuple[WorkloadKey, ...]) -> tuple[Wait | None, ...]:
        """Return why Workloads wait."""
        return self._synced(lambda reader: reader.waits(keys))

    def lines(self, queues: tuple[ClusterQueueName, ...]) -> tuple[PendingSnapshot | None, ...]:
        """Return copies of the pending Workloads of ClusterQueues, in slices."""
        lines: list[PendingSnapshot | None] = []
        for start in range(0, len(queues), _QUEUES_AT_ONCE):
            lines += self._some_lines(queues[start : start + _QUEUES_AT_ONCE])
        return tuple(lines)

    def _some_lines(self, queues: tuple[ClusterQueueName, ...]) -> list[PendingSnapshot | None]:
        return self._synced(lambda reader: [reader.line(name) for name in queues])

    def stock(self) -> tuple[NodeStock, ...]:
        """Return what each node with GPUs has, by name."""
        return self._synced(lambda reader: reader.stock())

    def gpu_nodes(self, names: tuple[str, ...]) -> tuple[GpuNode, ...]:
        """Return nodes with the holders of their GPUs."""
        return self._synced(lambda reader: reader.gpu_nodes(names))

    def local_queues(self) -> tuple[LocalOverview, ...]:
        """Return the LocalQueues and what their Workloads hold."""
        return self._synced(lambda reader: reader.local_queues())

    def workloads(self, keys: tuple[WorkloadKey, ...]) -> tuple[Workload | None, ...]:
        """Return Workloads by identity, in slices that do not hold the core up."""
        workloads: list[Workload | None] = []
        for start in range(0, len(keys), _SLICE):
            workloads += self._some(keys[start : start + _SLICE])
        return tuple(workloads)

    def _some(self, keys: tuple[WorkloadKey, ...]) -> tuple[Workload | None, ...]:
        return self._ask(lambda reader: reader.workloads(keys))

    def _synced(self, question: Callable[[Reader], Answer]) -> Answer:
        def ask(reader: Reader) -> tuple[bool, Answer]:
            return reader.synced, question(reader)

        synced, answer = self._ask(ask)
        if not synced:
            raise statuses.not_ready("the controller has not listed everything yet")
        return answer

    def _ask(self, question: Callable[[Reader], Answer]) -> Answer:
        try:
            return self._ask_core(question, _ANSWER_SECONDS)
        except TimeoutError as error:
            raise statuses.not_ready("the controller is busy") from error
