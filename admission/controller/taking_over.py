"""Reservations that a former leader wrote, and what a leader does that begins."""

from admission.base import logs
from admission.base.names import WorkloadKey
from admission.controller.quarantine import Quarantine
from admission.controller.queues.queue_status_writer import QueueStatuses
from admission.controller.scheduler import Scheduler
from admission.controller.watched_owners.every_kind import OwnersOfEveryKind
from admission.controller.workloads.authorship import ForeignReservations
from admission.controller.workloads.following import PrioritySync
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing.work_queue import WorkQueue


class TakingOver:
    """Takes back what two leaders gave away twice."""

    def __init__(
        self,
        scheduling: Scheduler,
        foreign: ForeignReservations,
        owners: OwnersOfEveryKind,
        quarantine: Quarantine,
        workloads: WorkloadIndex,
        statuses: QueueStatuses,
        following: PrioritySync,
        queue: WorkQueue,
    ) -> None:
        """Lead not yet.

        Args:
            scheduling: takes reservations back.
            foreign: reservations that appeared from outside.
            owners: say what has not started.
            quarantine: Workloads that cannot be read.
            workloads: all others.
            statuses: are written anew by a leader that begins.
            following: priorities are compared anew then.
            queue: takes what is to be looked at.
        """
        self._scheduling = scheduling
        self._foreign = foreign
        self._owners = owners
        self._quarantine = quarantine
        self._workloads = workloads
        self._statuses = statuses
        self._following = following
        self._queue = queue
        self._begins = False
        self._log = logs.get("core")

    def lead(self) -> None:
        """Have the next turn look at every Workload once."""
        self._begins = True

    def settle(self) -> None:
        """Deal with what appeared since the last turn."""
        if self._begins or self._foreign.is_late:
            self._take_back()
        elif self._foreign:
            self._ask_writers()

    def _take_back(self) -> None:
        """Takes back what two leaders gave away twice; a new leader looks at every Workload once.

        A request that the old leader had under way may land after the new one began; then it
        looks again.
        """
        for key in self._scheduling.take_back(self._is_not_started):
            self._log.warning("reservation taken back", namespace=key.namespace, name=key.name)
            self._queue.add(key)
        if self._begins:
            self._statuses.restore()
            self._following.add(self._workloads)
            self._queue.add_all(self._workloads)
        self._begins = False
        self._foreign.clear()

    def _ask_writers(self) -> None:
        """Find out whether a former leader wrote the reservations that exceed the quota.

        Those of other programs stand, as in Kueue (ADR 0003).
        """
        if self._scheduling.over_quota(self._is_not_started):
            self._queue.add_all(self._foreign.ask())
        self._foreign.clear()

    def _is_not_started(self, key: WorkloadKey) -> bool:
        if key in self._quarantine:
            return False  # nothing can be written about it
        subject = self._owners.subject(key)
        owner = None if subject is None else subject[1].owner
        return owner is not None and owner.is_held() and not owner.is_active()
