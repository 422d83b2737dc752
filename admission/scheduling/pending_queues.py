"""The waiting workloads of all ClusterQueues, and which queues have somebody to send."""

import heapq

from admission.base.names import ClusterQueueName, LocalQueueKey, WorkloadKey
from admission.scheduling.changes import Changes
from admission.scheduling.decisions import Wait
from admission.scheduling.hierarchy import Forest
from admission.scheduling.model import ClusterQueue
from admission.scheduling.pending import Pending, PendingQueue, Ranking


class PendingQueues:
    """Pending queues by ClusterQueue.

    Attributes:
        queues: one per ClusterQueue that exists.
    """

    def __init__(self, forest: Forest, changes: Changes) -> None:
        self.queues: dict[ClusterQueueName, PendingQueue] = {}
        self._forest = forest
        self._changes = changes
        self._where: dict[WorkloadKey, ClusterQueueName] = {}
        self._busy: dict[ClusterQueueName, None] = {}
        self._backoffs: list[tuple[int, WorkloadKey]] = []

    def open(self, spec: ClusterQueue, ranking: Ranking | None, now_us: int) -> None:
        """Makes the pending queue of a ClusterQueue, or adapts it to a changed one."""
        old = self.queues.get(spec.name)
        if old is not None and (old.strategy, old.ranking) == (spec.queueing_strategy, ranking):
            return
        new = self.queues[spec.name] = PendingQueue(spec.queueing_strategy, ranking)
        for item in list(old.items()) if old is not None else ():
            new.add(item, now_us)

    def close(self, name: ClusterQueueName) -> None:
        """Drops the pending queue of a ClusterQueue with its workloads."""
        for item in self.queues.pop(name).items():
            del self._where[item.workload.key]
        self._busy.pop(name, None)

    def get(self, key: WorkloadKey) -> Pending | None:
        """The waiting workload of that identity."""
        name = self._where.get(key)
        return None if name is None else self.queues[name].get(key)

    def pending_of(self, name: ClusterQueueName, local: LocalQueueKey) -> int:
        """Return how many workloads of a LocalQueue wait in a ClusterQueue."""
        queue = self.queues.get(name)
        return 0 if queue is None else queue.by_local[local]

    def bypassed(self, key: WorkloadKey) -> Wait | None:
        """Return why a workload is parked because an equal one did not fit; None if it is not."""
        name = self._where.get(key)
        return None if name is None else self.queues[name].bypassed(key)

    def put(self, item: Pending, name: ClusterQueueName, now_us: int) -> None:
        """Queues a workload, instead of an earlier form of it."""
        key = item.workload.key
        if self._where.get(key) != name:
            self.take(key)
        queue = self.queues[name]
        old = queue.remove(key, left=False)
        if old is not None and old.equivalence == item.equivalence:
            item.memory, item.told = old.memory, old.told
        queue.add(item, now_us)
        self._where[key] = name
        self._busy[name] = None
        self._changes.queue(name)
        ready = item.ready_at_us()
        if ready is not None and ready > now_us:
            heapq.heappush(self._backoffs, (ready, key))

    def take(self, key: WorkloadKey) -> None:
        """Takes a workload out of its line, if it stands in one."""
        name = self._where.pop(key, None)
        if name is not None:
            self.queues[name].remove(key)
            self._changes.queue(name)

    def stir(self, name: ClusterQueueName) -> None:
        """A queue may have somebody to send again."""
        if name in self.queues:
            self._busy[name] = None

    def retry(self, name: ClusterQueueName, now_us: int) -> None:
        """Frees the parked workloads of a queue."""
        if name in self.queues and self.queues[name].retry(now_us):
            self._busy[name] = None

    def end_backoffs(self, now_us: int) -> None:
        """Frees workloads whose backoff is over."""
        while self._backoffs and self._backoffs[0][0] <= now_us:
            _, key = heapq.heappop(self._backoffs)
            if (name := self._where.get(key)) is not None:
                self.queues[name].wake(key, now_us)
                self._busy[name] = None

    def next_backoff_us(self) -> int | None:
        """Return when the next backoff ends."""
        return self._backoffs[0][0] if self._backoffs else None

    def any_head(self) -> bool:
        """Return whether some queue has a head."""
        return any(self._head(name) is not None for name in list(self._busy))

    def heads(self, most: int | None) -> list[tuple[ClusterQueueName, Pending]]:
        """The heads to be decided now: of whole trees, and about as many as asked.

        Trees that were served go to the end of the line.
        """
        names = sorted(self._busy) if most is None else self._of_trees(most)
        return [(name, head) for name in names if (head := self._head(name)) is not None]

    def _of_trees(self, most: int) -> list[ClusterQueueName]:
        trees: dict[int, list[ClusterQueueName]] = {}
        for name in self._busy:
            trees.setdefault(id(self._forest.queues[name].root()), []).append(name)
        chosen: list[ClusterQueueName] = []
        for names in trees.values():
            if chosen and len(chosen) + len(names) > most:
                break
            chosen += sorted(names)
        for name in chosen:
            del self._busy[name]
            self._busy[name] = None
        return chosen

    def _head(self, name: ClusterQueueName) -> Pending | None:
        """The head of a queue; one without is not busy any more."""
        head = self.queues[name].head() if self._forest.queues[name].active else None
        if head is None:
            del self._busy[name]
        return head
