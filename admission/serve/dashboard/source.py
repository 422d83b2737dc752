"""Where the pages come from: what the controller knows, at most a second old."""

from typing import Protocol

from admission.answers import estimates
from admission.base.names import ClusterQueueName, WorkloadKey
from admission.gpu.inventory import GpuNode, NodeStock
from admission.objects.usage_record import Record
from admission.scheduling.decisions import Wait
from admission.scheduling.overview import LocalOverview
from admission.scheduling.reserving import ReservingWorkload
from admission.serve import lists


class Source(lists.PendingSource, estimates.Source, Protocol):
    """What the controller knows. Each method raises RefusedError where it cannot be told now."""

    def revision(self) -> int:
        """Return a number that grows whenever something may differ from before."""
        ...

    def local_queues(self) -> tuple[LocalOverview, ...]:
        """Return the LocalQueues and what their Workloads hold, by namespace and name."""
        ...

    def holders(self, queue: ClusterQueueName) -> tuple[ReservingWorkload, ...]:
        """Return the Workloads that hold quota of a ClusterQueue, in no particular order."""
        ...

    def waits(self, keys: tuple[WorkloadKey, ...]) -> tuple[Wait | None, ...]:
        """Return why Workloads wait; None for one that does not."""
        ...

    def stock(self) -> tuple[NodeStock, ...]:
        """Return what each node with GPUs has, by name."""
        ...

    def gpu_nodes(self, names: tuple[str, ...]) -> tuple[GpuNode, ...]:
        """Return nodes with the holders of their GPUs; those that are not known are left out."""
        ...

    def records(self) -> tuple[Record, ...]:
        """Return the records of GPU-time in the order of time.

        Raises:
            KubeError: the API server refused or did not answer.
        """
        ...
