"""Events that requeue inadmissible workloads, merged by quota tree.

Source: kueue pkg/cache/queue/manager.go (QueueInadmissibleWorkloads, batched by one second).
"""

from typing import TypeVar

from admission.base.names import ClusterQueueName, CohortName
from admission.scheduling.hierarchy import CohortNode, Forest

_Name = TypeVar("_Name", ClusterQueueName, CohortName)


class InadmissibleRequeues:
    """The requeues of inadmissible workloads that are due at some time, each once.

    Due is also what lies further ahead than anything is gathered: then the clock was set back.

    Args:
        batch_us: how long events are gathered.
    """

    def __init__(self, batch_us: int) -> None:
        self._batch_us = batch_us
        self._queues: dict[ClusterQueueName, int] = {}
        self._trees: dict[ClusterQueueName, int] = {}
        self._cohorts: dict[CohortName, int] = {}

    def queue(self, name: ClusterQueueName, now_us: int) -> None:
        """Note that inadmissible workloads of one ClusterQueue have to be tried again."""
        self._queues.setdefault(name, now_us + self._batch_us)

    def tree(self, name: ClusterQueueName, now_us: int) -> None:
        """Note the same for the whole tree of a ClusterQueue."""
        self._trees.setdefault(name, now_us + self._batch_us)

    def cohort(self, name: CohortName, now_us: int) -> None:
        """Note the same for the whole tree of a cohort."""
        self._cohorts.setdefault(name, now_us + self._batch_us)

    def next_us(self) -> int | None:
        """Return when the next one is due; None when there is none."""
        due = (*self._queues.values(), *self._trees.values(), *self._cohorts.values())
        return min(due, default=None)

    def take(self, forest: Forest, now_us: int) -> set[ClusterQueueName]:
        """Return the names of the ClusterQueues whose retry is due."""
        if not (self._queues or self._trees or self._cohorts):
            return set()
        names = set(self._due(self._queues, now_us))
        roots: dict[int, CohortNode] = {}
        for name in self._due(self._trees, now_us):
            node = forest.queues.get(name)
            root = None if node is None else node.root()
            if isinstance(root, CohortNode):
                roots[id(root)] = root
            elif node is not None:
                names.add(name)
        for cohort in self._due(self._cohorts, now_us):
            if cohort in forest.cohorts:
                root = forest.cohorts[cohort].root()
                assert isinstance(root, CohortNode)
                if root.declared is None:  # else it lies on a cycle
                    roots[id(root)] = root
        for root in roots.values():
            names.update(leaf.name for leaf in root.leaves())
        return names

    def _due(self, times: dict[_Name, int], now_us: int) -> list[_Name]:
        """Takes out the names whose time has come."""
        latest_us = now_us + self._batch_us
        found = [name for name, due_us in times.items() if not now_us < due_us <= latest_us]
        for name in found:
            del times[name]
        return found
