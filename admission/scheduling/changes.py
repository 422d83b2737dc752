"""The objects whose status or metadata may have changed since the last call."""

from dataclasses import dataclass

from admission.base.names import ClusterQueueName, CohortName, FlavorName, LocalQueueKey
from admission.scheduling.hierarchy import CohortNode, QueueNode, QuotaNode, members


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Objects whose status or metadata may have changed."""

    cluster_queues: frozenset[ClusterQueueName] = frozenset()
    local_queues: frozenset[LocalQueueKey] = frozenset()
    cohorts: frozenset[CohortName] = frozenset()
    flavors: frozenset[FlavorName] = frozenset()
    """In which nodes decide otherwise than before."""


class Changes:
    """Collects the names of these objects until they are taken."""

    def __init__(self) -> None:
        self._queues: set[ClusterQueueName] = set()
        self._locals: set[LocalQueueKey] = set()
        self._cohorts: set[CohortName] = set()
        self._flavors: set[FlavorName] = set()
        self._edited: dict[int, QuotaNode] = {}

    def queue(self, name: ClusterQueueName) -> None:
        """Note that a ClusterQueue changed."""
        self._queues.add(name)

    def local(self, key: LocalQueueKey) -> None:
        """Note that a LocalQueue changed."""
        self._locals.add(key)

    def flavor(self, name: FlavorName) -> None:
        """Note that nodes decide otherwise in a flavor."""
        self._flavors.add(name)

    def tree(self, node: QuotaNode | None) -> None:
        """Note that what a node holds has changed, and so the sums of everything above."""
        self._node(node)
        for cohort in node.ancestors() if node is not None else ():
            self._cohorts.add(cohort.name)

    def edited(self, node: QuotaNode | None) -> None:
        """Note that what a node promises, or its place, changes; call it before and after."""
        self.tree(node)
        if node is not None:
            for changed in (node, node.root()):
                self._edited[id(changed)] = changed

    def _node(self, node: QuotaNode | None) -> None:
        if isinstance(node, QueueNode):
            self._queues.add(node.name)
        elif isinstance(node, CohortNode):
            self._cohorts.add(node.name)

    def take(self, *, shares: bool) -> Changed:
        """Return the collected changes, and start again with none.

        Args:
            shares: shares are shown: after an edit they differ in the whole tree.
        """
        for node in self._edited.values():
            self.tree(node)  # what is above now, the tree was moved since
            for member in members(node.root()) if shares else ():
                self._node(member)
        changed = Changed(
            cluster_queues=frozenset(self._queues),
            local_queues=frozenset(self._locals),
            cohorts=frozenset(self._cohorts),
            flavors=frozenset(self._flavors),
        )
        self._queues.clear()
        self._locals.clear()
        self._cohorts.clear()
        self._flavors.clear()
        self._edited.clear()
        return changed
