"""Which statuses may have changed since somebody last asked."""

from dataclasses import dataclass

from admission.base.names import ClusterQueueName, CohortName, LocalQueueKey
from admission.engine.hierarchy import CohortNode, Node, QueueNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Objects whose status may have changed."""

    cluster_queues: frozenset[ClusterQueueName] = frozenset()
    local_queues: frozenset[LocalQueueKey] = frozenset()
    cohorts: frozenset[CohortName] = frozenset()


class Changes:
    """Collects names until they are taken."""

    def __init__(self) -> None:
        self._queues: set[ClusterQueueName] = set()
        self._locals: set[LocalQueueKey] = set()
        self._cohorts: set[CohortName] = set()

    def queue(self, name: ClusterQueueName) -> None:
        """A ClusterQueue changed."""
        self._queues.add(name)

    def local(self, key: LocalQueueKey) -> None:
        """A LocalQueue changed."""
        self._locals.add(key)

    def tree(self, node: Node | None) -> None:
        """A node changed, and with it the shares of everything above."""
        if isinstance(node, QueueNode):
            self._queues.add(node.name)
        elif isinstance(node, CohortNode):
            self._cohorts.add(node.name)
        for cohort in node.ancestors() if node is not None else ():
            self._cohorts.add(cohort.name)

    def take(self) -> Changed:
        """Hands out what was collected, and starts anew."""
        changed = Changed(
            cluster_queues=frozenset(self._queues),
            local_queues=frozenset(self._locals),
            cohorts=frozenset(self._cohorts),
        )
        self._queues.clear()
        self._locals.clear()
        self._cohorts.clear()
        return changed
