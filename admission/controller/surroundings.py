"""Takes into account what has changed around Workloads, before a cycle runs."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from admission.base.clock import Clock
from admission.base.names import ChargeKey, WorkloadKey
from admission.controller import awaited
from admission.controller.awaited import AwaitedObjects
from admission.controller.devices.claims import Claims
from admission.controller.devices.fitting import Fitting
from admission.controller.devices.node_inventory import NodeInventory
from admission.controller.devices.resource_adjustments import ResourceAdjustments
from admission.controller.pending_conditions import PendingConditionWriter
from admission.controller.queues.configuration import WatchedConfiguration
from admission.controller.queues.gpu_transformations import GpuTransformations
from admission.controller.queues.queue_status_writer import QueueStatuses
from admission.controller.scheduler import Scheduler
from admission.controller.watched_kinds import WatchedKinds
from admission.controller.watched_owners.pod_endings import PodEndings
from admission.controller.watched_owners.running_pods import RunningPods
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing import api_requests
from admission.controller.writing.work_queue import WorkQueue
from admission.kube import resources
from admission.scheduling.state import SchedulerState

_CONCERNED_A_TURN: Final = 500
"""Workloads that are looked at in one turn for a change of something that they depend on."""


class ConcernedWorkloads:
    """Workloads that a change concerns, oldest change first."""

    def __init__(
        self,
        state: SchedulerState,
        pending_conditions: PendingConditionWriter,
        queue: WorkQueue,
        clock: Clock,
    ) -> None:
        """Know of no Workload.

        Args:
            state: says which Workloads were turned to by time.
            pending_conditions: say why they wait.
            queue: takes those to be looked at.
            clock: the present.
        """
        self._state = state
        self._pending_conditions = pending_conditions
        self._queue = queue
        self._clock = clock
        self._keys: dict[ChargeKey, None] = {}

    def __bool__(self) -> bool:
        """Return whether any is left to be looked at."""
        return bool(self._keys)

    def add(self, keys: Iterable[ChargeKey]) -> None:
        """Have Workloads looked at."""
        self._keys.update(dict.fromkeys(keys))

    def look(self) -> None:
        """Look again at some of them."""
        now_us = int(self._clock.now().timestamp() * 1_000_000)
        self.add(self._state.take_turned(now_us))
        for key in tuple(islice(self._keys, _CONCERNED_A_TURN)):
            del self._keys[key]
            if isinstance(key, WorkloadKey):
                self._pending_conditions.note(key)
            self._queue.add(key)


class Surroundings:
    """Claims, charges, nodes and queues, as far as Workloads depend on them."""

    def __init__(
        self,
        *,
        claims: Claims,
        charges: ResourceAdjustments,
        inventory: NodeInventory,
        fitting: Fitting,
        prices: GpuTransformations,
        configuration: WatchedConfiguration,
        kinds: WatchedKinds,
        workloads: WorkloadIndex,
        waiting_for: AwaitedObjects,
        concerned: ConcernedWorkloads,
        scheduling: Scheduler,
        running: RunningPods,
        endings: PodEndings,
        statuses: QueueStatuses,
        pending_conditions: PendingConditionWriter,
        queue: WorkQueue,
    ) -> None:
        """Take nothing into account yet.

        Args:
            claims: ResourceClaims of Workloads.
            charges: what besides itself decides what a Workload is charged for.
            inventory: GPUs that exist.
            fitting: says which pods no node can take.
            prices: of GPUs.
            configuration: flavors.
            kinds: which were listed.
            workloads: all.
            waiting_for: what the last plans wait for.
            concerned: Workloads that a change of the configuration concerns.
            scheduling: decides about quota.
            running: pods that run.
            endings: of pods.
            statuses: of queues.
            pending_conditions: of Workloads.
            queue: takes what is to be looked at.
        """
        self._claims = claims
        self._charges = charges
        self._inventory = inventory
        self._fitting = fitting
        self._prices = prices
        self._configuration = configuration
        self._kinds = kinds
        self._workloads = workloads
        self._waiting_for = waiting_for
        self._concerned = concerned
        self._scheduling = scheduling
        self._running = running
        self._endings = endings
        self._statuses = statuses
        self._pending_conditions = pending_conditions
        self._queue = queue

    def settle(self) -> None:
        """Take everything into account that has changed since the last turn."""
        self._recharge()
        self._weigh()
        for node in sorted(self._inventory.lost_nodes.take_changed()):
            self._running.node_changed(node)
            self._queue.add_all(self._endings.on_node(node))
        self._queue.add_all(self._scheduling.lost_hosts.take_shaken())
        self._scheduling.reprice()
        self._concerned.look()

    def next_due_in(self) -> float | None:
        """Return in how many seconds there may be something without a change, or None."""
        return 0.0 if self._concerned else self._inventory.next_due_in()

    def _recharge(self) -> None:
        """Counts Workloads again whose charge has changed."""
        if self._claims.take_changed():
            self._queue.add_all(self._waiting_for.take(awaited.CLAIMS))
        keys = self._claims.take_stale()
        keys_stale = dict.fromkeys((*keys, *self._charges.take_stale(self._workloads)))
        stale = [workload for workload in map(self._workloads.get, keys_stale) if workload]
        self._scheduling.translate_again(stale)
        for workload in stale:
            if workload.is_pending():
                self._pending_conditions.note(workload.key())
            elif workload.key() in keys:
                self._queue.add(workload.key())

    def _weigh(self) -> None:
        """Holds quota against the GPUs that exist."""
        for name in sorted(self._inventory.settle()):
            self._statuses.mark(api_requests.QueueKey(resources.CLUSTER_QUEUES.kind, "", name))
            self._scheduling.changed()
        for name, present in self._inventory.take_present().items():
            self._prices.hold_to(name, present)
        if self._inventory.take_resized():
            self._pending_conditions.set_resized()
        flavors: Iterable[str] = self._inventory.take_looked_at()
        if not self._fitting.are_nodes_known and self.are_nodes_looked_at():
            self._fitting.are_nodes_known, flavors = True, self._configuration.flavors
        for flavor in sorted(flavors):
            self._statuses.mark_flavor(flavor)
        told_otherwise = (self._inventory, self._prices, self._running.releasing)
        for name in sorted({name for source in told_otherwise for name in source.take_reworded()}):
            self._statuses.mark(api_requests.QueueKey(resources.CLUSTER_QUEUES.kind, "", name))

    def are_nodes_looked_at(self) -> bool:
        """Return whether all is listed that says what nodes have, and was looked at since."""
        return self._kinds.is_synced(resources.RESOURCE_SLICES) and self._inventory.is_current
