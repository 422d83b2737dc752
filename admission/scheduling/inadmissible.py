"""Events that requeue inadmissible workloads, merged by quota tree.

Source: kueue pkg/cache/queue/manager.go (QueueInadmissibleWorkloads, batched by one second).
"""

from typing import TypeVar

from admission.base.names import ClusterQueueName, CohortName
from admission.scheduling.hierarchy import CohortHierarchy, CohortNode

_Name = TypeVar("_Name", ClusterQueueName, CohortName)


class InadmissibleRequeues:
    """The requeues of inadmissible workloads that are due at some time, each once.

    Due is also what lies further ahead than anything is gathered: then the clock was set back.

    Args:
        batch_us: how long events are gathered.
        edit_us: how long changes of what administrators set are gathered; a tool may write many
            queues, or one many times.
    """

    def __init__(self, batch_us: int, edit_us: int = 0) -> None:
        self._batch_us = batch_us
        self._edit_us = max(batch_us, edit_us)
        self._queues: dict[ClusterQueueName, int] = {}
        self._trees: dict[ClusterQueueName, int] = {}
        self._cohorts: dict[CohortName, int] = {}
        self._first_us: int | None = None
        self._last_us = 0
        """The earliest and the latest of all these moments, so that nobody looks at each of them
        to find that none has come."""

    def queue(self, name: ClusterQueueName, now_us: int, *, edited: bool = False) -> None:
        """Note that inadmissible workloads of one ClusterQueue have to be tried again."""
        self._note(self._queues, name, now_us, edited=edited)

    def tree(self, name: ClusterQueueName, now_us: int, *, edited: bool = False) -> None:
        """Note the same for the whole tree of a ClusterQueue."""
        self._note(self._trees, name, now_us, edited=edited)

    def cohort(self, name: CohortName, now_us: int) -> None:
        """Note the same for the whole tree of a cohort that was edited."""
        self._note(self._cohorts, name, now_us, edited=True)

    def _note(self, times: dict[_Name, int], name: _Name, now_us: int, *, edited: bool) -> None:
        due_us = now_us + (self._edit_us if edited else self._batch_us)
        times[name] = min(times.get(name, due_us), due_us)
        self._reach(times[name])

    def _reach(self, due_us: int) -> None:
        if self._first_us is None:
            self._first_us = self._last_us = due_us
        else:
            self._first_us = min(self._first_us, due_us)
            self._last_us = max(self._last_us, due_us)

    def next_us(self) -> int | None:
        """Return when the next one is due; None when there is none."""
        return self._first_us

    def take(self, forest: CohortHierarchy, now_us: int) -> set[ClusterQueueName]:
        """Return the names of the ClusterQueues whose retry is due."""
        first_us = self._first_us
        if first_us is None or (now_us < first_us and self._last_us <= now_us + self._edit_us):
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
        self._first_us = None
        for due_us in (*self._queues.values(), *self._trees.values(), *self._cohorts.values()):
            self._reach(due_us)
        return names

    def _due(self, times: dict[_Name, int], now_us: int) -> list[_Name]:
        """Takes out the names whose time has come."""
        latest_us = now_us + self._edit_us
        due = [name for name, due_us in times.items() if not now_us < due_us <= latest_us]
        for name in due:
            del times[name]
        return due
