"""Answers queries from what is known now; see `queries.Reader`."""

from collections.abc import Iterable

from admission.base.names import (
    ChargeKey,
    ClaimHolderKey,
    ClusterQueueName,
    LocalQueueKey,
    WorkloadKey,
)
from admission.controller.devices.node_inventory import NodeInventory
from admission.controller.pending_conditions import PendingConditionWriter
from admission.controller.quarantine import Quarantine
from admission.controller.queries import Counted
from admission.controller.queues import affected_workloads
from admission.controller.queues.configuration import WatchedConfiguration
from admission.controller.scheduler import Scheduler
from admission.controller.turns import Turns
from admission.controller.watched_kinds import WatchedKinds
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing.api_requests import QueueKey
from admission.controller.writing.flow_control import FlowControl
from admission.gpu.inventory import GpuNode, NodeStock
from admission.objects import views
from admission.objects.workload import Workload
from admission.scheduling.decisions import Wait
from admission.scheduling.overview import LocalOverview, Overview
from admission.scheduling.pending import PendingSnapshot
from admission.scheduling.reserving import ReservingWorkload
from admission.scheduling.state import SchedulerState


class PresentState:
    """What may be read on the core's thread."""

    def __init__(
        self,
        *,
        state: SchedulerState,
        kinds: WatchedKinds,
        turns: Turns,
        workloads: WorkloadIndex,
        configuration: WatchedConfiguration,
        inventory: NodeInventory,
        pending_conditions: PendingConditionWriter,
        scheduling: Scheduler,
        quarantine: Quarantine,
        flow: FlowControl,
    ) -> None:
        """Read from what others know.

        Args:
            state: queues and quota.
            kinds: which were listed.
            turns: count messages.
            workloads: as last seen.
            configuration: queues as last seen.
            inventory: nodes with GPUs.
            pending_conditions: say why Workloads wait.
            scheduling: what is decided.
            quarantine: Workloads that cannot be read.
            flow: knows the open requests.
        """
        self._state = state
        self._kinds = kinds
        self._turns = turns
        self._workloads = workloads
        self._configuration = configuration
        self._inventory = inventory
        self._pending_conditions = pending_conditions
        self._scheduling = scheduling
        self._quarantine = quarantine
        self._flow = flow

    @property
    def synced(self) -> bool:
        """Return whether every watched kind was listed; before, an unknown name means nothing."""
        return self._kinds.synced

    def line(self, queue: ClusterQueueName | LocalQueueKey) -> PendingSnapshot | None:
        """Return the pending Workloads of a ClusterQueue or LocalQueue; None if it is unknown."""
        return self._state.line(queue)

    @property
    def revision(self) -> int:
        """Return a number that grows whenever something may differ from before.

        Nodes report their health again and again; they count only where their GPUs change.
        """
        return self._turns.messages + self._inventory.version

    def overview(self) -> Overview:
        """Return quota and its use, of all queues and cohorts."""
        return self._state.overview()

    def holders(self, queue: ClusterQueueName) -> tuple[ReservingWorkload, ...]:
        """Return the Workloads that hold quota of a ClusterQueue, in no order."""
        return self._state.holders(queue)

    def waits(self, keys: Iterable[WorkloadKey]) -> tuple[Wait | None, ...]:
        """Return why Workloads wait; None for one that does not."""
        return tuple(map(self._pending_conditions.told, keys))

    def judged(self, key: WorkloadKey) -> Wait | None:
        """Return why a Workload waits, as it was decided last; None for one that does not."""
        return self._pending_conditions.judged(key)

    def queues_of(self, workload: Workload) -> tuple[views.Object | None, views.Object | None]:
        """Return the LocalQueue that a Workload names, and the ClusterQueue of its quota."""
        return affected_workloads.queues(workload, self._configuration)

    def stock(self) -> tuple[NodeStock, ...]:
        """Return what each node with GPUs has, by name."""
        return self._inventory.stock()

    def gpu_nodes(self, names_: Iterable[str]) -> tuple[GpuNode, ...]:
        """Return nodes with the holders of their GPUs; those that are not known are left out."""
        return self._inventory.named(names_)

    def local_queues(self) -> tuple[LocalOverview, ...]:
        """Return the LocalQueues and what their Workloads hold, by namespace and name."""
        return self._state.local_overview()

    def counted(self) -> Counted:
        """Return the charged quota, and the Workloads whose charge is about to change."""
        workloads, sums = self._state.charges()
        unsettled = {
            key for key in self._flow.open() if not isinstance(key, ClaimHolderKey | QueueKey)
        }
        return Counted(
            workloads=workloads,
            sums=sums,
            unsettled=frozenset({*unsettled, *self._scheduling.undecided(), *self._quarantine}),
            on_nodes=self._state.places.ledger.held_by_pods(),
        )

    def workloads(self, keys: Iterable[ChargeKey]) -> tuple[Workload | None, ...]:
        """Return Workloads as last seen, in the order of the keys; None for one that is gone."""
        return tuple(self._workloads.get(key) for key in keys)
