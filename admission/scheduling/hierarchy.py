"""The quota tree: ClusterQueues as leaves under cohorts, kept up to date edit by edit.

A Forest holds every tree. Edits only move pointers and mark what they touched; ``refresh``
recomputes the marked trees, once, before somebody reads amounts. Usage of a ClusterQueue is
changed by ``quota.add_usage`` and ``quota.remove_usage`` and survives every edit.

Source: kueue pkg/cache/hierarchy and pkg/cache/scheduler (resource_node.go, cohort.go).
"""

from collections.abc import Iterable, Iterator
from itertools import count

from typing_extensions import override

from admission.base import amount
from admission.base.names import (
    ChargeKey,
    ClusterQueueName,
    CohortName,
    FlavorResource,
    ResourceName,
)
from admission.scheduling.caps import Holdings
from admission.scheduling.model import (
    DEFAULT_WEIGHT,
    ClusterQueue,
    Cohort,
    ResourceGroup,
    ResourceQuota,
)
from admission.scheduling.reserving import ReservingWorkload


class QuotaNode:
    """The common part of ClusterQueues and cohorts.

    Attributes:
        parent: the cohort above that takes part in the arithmetic; None for a root and for
            every node of a cycle.
        quotas: own quota per flavor and resource.
        subtree: quota of the whole subtree that can be used here; missing key = 0.
        guaranteed: part of ``subtree`` that is never lent; missing key = 0.
        usage: of the subtree, as far as it is seen here; missing key = 0.
        potential: memo of ``quota.potential``.
        lendable: memo of ``fairshare.lendable_of``.
        weight: fair-sharing weight in units of 1e-9.
        height: 0 for a leaf, else one more than the highest child.
    """

    __slots__ = (
        "guaranteed",
        "height",
        "lendable",
        "parent",
        "potential",
        "quotas",
        "subtree",
        "usage",
        "weight",
    )

    def __init__(self) -> None:
        self.parent: CohortNode | None = None
        self.quotas: dict[FlavorResource, ResourceQuota] = {}
        self.subtree: dict[FlavorResource, int] = {}
        self.guaranteed: dict[FlavorResource, int] = {}
        self.usage: dict[FlavorResource, int] = {}
        self.potential: dict[FlavorResource, int] = {}
        self.lendable: dict[ResourceName, int] = {}
        self.weight = DEFAULT_WEIGHT
        self.height = 0

    def ancestors(self) -> Iterator["CohortNode"]:
        """Yield the cohorts above, nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def root(self) -> "QuotaNode":
        """Return the top of the tree; the node itself when nothing is above."""
        node: QuotaNode = self
        while node.parent is not None:
            node = node.parent
        return node

    def leaves(self) -> Iterator["QueueNode"]:
        """Yield every ClusterQueue of the subtree."""
        raise NotImplementedError

    def derive_guaranteed(self) -> None:
        """Set what is never lent: the subtree's quota above the lending limit."""
        self.guaranteed = {
            fr: kept
            for fr, quota_ in self.quotas.items()
            if quota_.lending_limit is not None
            and (kept := amount.subtract(self.subtree.get(fr, 0), quota_.lending_limit)) > 0
        }
        self.potential = {}
        self.lendable = {}


class QueueNode(QuotaNode):
    """A ClusterQueue in the tree.

    Attributes:
        spec: the ClusterQueue.
        declared: the cohort that the spec names, also when it lies on a cycle.
        active: may admit and be preempted from.
        workloads: those that hold quota here.
        surge_usage: surge quota in use; no part of ``usage``.
        holdings: what users and LocalQueues hold of ``usage``.
        number: grows from each that was made to the next.
        generation: grows whenever a flavor scan that stopped half way should start again.
        wakes: how often those that are parked were to be tried again.
        group_of: the resource group of each covered resource.
    """

    __slots__ = (
        "active",
        "declared",
        "generation",
        "group_of",
        "holdings",
        "name",
        "number",
        "spec",
        "surge_usage",
        "wakes",
        "workloads",
    )

    def __init__(self, name: ClusterQueueName, spec: ClusterQueue, number: int) -> None:
        super().__init__()
        self.name = name
        self.number = number
        self.declared: CohortNode | None = None
        self.active = True
        self.workloads: dict[ChargeKey, ReservingWorkload] = {}
        self.surge_usage: dict[FlavorResource, int] = {}
        self.holdings: Holdings = {}
        self.generation = 0
        self.wakes = 0
        self.spec = spec
        self.group_of: dict[str, ResourceGroup] = {}

    @override
    def leaves(self) -> Iterator["QueueNode"]:
        yield self

    def path(self) -> str:
        """Return ``/root/.../cohort/queue``, as preemption messages show it."""
        names = [self.name, *(node.name for node in self.ancestors())]
        return "/" + "/".join(reversed(names))


class CohortNode(QuotaNode):
    """A cohort in the tree.

    Attributes:
        spec: its object; None for a cohort that is only named by others.
        declared: the cohort that the spec names as parent, also when it lies on a cycle.
        cohorts: child cohorts by name.
        queues: child ClusterQueues by name.
    """

    __slots__ = ("cohorts", "declared", "name", "queues", "spec")

    def __init__(self, name: CohortName) -> None:
        super().__init__()
        self.name = name
        self.spec: Cohort | None = None
        self.declared: CohortNode | None = None
        self.cohorts: dict[CohortName, CohortNode] = {}
        self.queues: dict[ClusterQueueName, QueueNode] = {}

    def children(self) -> Iterator[QuotaNode]:
        """Yield child cohorts, then child ClusterQueues."""
        yield from self.cohorts.values()
        yield from self.queues.values()

    @override
    def leaves(self) -> Iterator[QueueNode]:
        yield from self.queues.values()
        for cohort in self.cohorts.values():
            yield from cohort.leaves()


class CohortHierarchy:
    """All quota trees.

    Attributes:
        queues: ClusterQueues by name.
        cohorts: cohorts by name, implicit ones too.
        cyclic: names of ClusterQueues whose ancestors form a cycle; they admit nothing.
        turned: names of those that lie beneath a cycle now and did not, or the other way around;
            whoever acts on it takes them out.
    """

    def __init__(self) -> None:
        self.queues: dict[ClusterQueueName, QueueNode] = {}
        self.cohorts: dict[CohortName, CohortNode] = {}
        self.cyclic: set[ClusterQueueName] = set()
        self.turned: set[ClusterQueueName] = set()
        self._numbers = count()
        self._touched: dict[int, QuotaNode] = {}

    def set_queue(self, spec: ClusterQueue) -> QueueNode:
        """Add or replace a ClusterQueue; what it holds stays."""
        node = self.queues.get(spec.name)
        if node is None:
            node = self.queues[spec.name] = QueueNode(spec.name, spec, next(self._numbers))
        node.spec = spec
        node.weight = spec.fair_weight
        node.quotas = _quotas(spec.resource_groups)
        node.group_of = {
            r: group for group in spec.resource_groups for r in group.covered_resources
        }
        self._hang_queue(node, spec.cohort)
        return node

    def drop_queue(self, name: ClusterQueueName) -> None:
        """Remove a ClusterQueue with its usage."""
        node = self.queues.pop(name)
        self._hang_queue(node, None)
        self._touched.pop(id(node), None)
        self.cyclic.discard(name)
        self.turned.discard(name)

    def set_cohort(self, spec: Cohort) -> CohortNode:
        """Add or replace a Cohort object."""
        node = self._cohort(spec.name)
        node.spec = spec
        node.weight = spec.fair_weight
        node.quotas = _quotas(spec.resource_groups)
        self._hang_cohort(node, spec.parent)
        return node

    def drop_cohort(self, name: CohortName) -> None:
        """Remove a Cohort object; with children it stays, without quota and parent."""
        node = self.cohorts[name]
        node.spec = None
        node.weight = DEFAULT_WEIGHT
        node.quotas = {}
        self._hang_cohort(node, None)
        self._prune(node)

    def touch(self, node: QuotaNode) -> None:
        """Mark a node whose tree must be recomputed."""
        self._touched[id(node)] = node

    def refresh(self) -> None:
        """Recompute the trees of all touched nodes."""
        if not self._touched:
            return
        touched, self._touched = self._touched, {}
        done: set[int] = set()
        for node in touched.values():
            top, cyclic = _top(node)
            if id(top) not in done:
                members_ = members(top)
                done.update(id(member) for member in members_)
                self._recompute(top, members_, cyclic=cyclic)

    def cycle_above(self, node: QueueNode) -> tuple[CohortName, ...]:
        """Return the Cohorts of the cycle above a ClusterQueue, the first by name first."""
        if node.name not in self.cyclic:
            return ()
        path: list[CohortNode] = []
        at = node.declared
        while at is not None and at not in path:
            path.append(at)
            at = at.declared
        if at is None:
            return ()
        names_on_path = [node.name for node in path[path.index(at) :]]
        first = names_on_path.index(min(names_on_path))
        return (*names_on_path[first:], *names_on_path[:first])

    def _recompute(self, top: QuotaNode, member_nodes: list[QuotaNode], *, cyclic: bool) -> None:
        for node in member_nodes:
            assert isinstance(node, QueueNode | CohortNode)
            node.parent = None if cyclic else node.declared
            if isinstance(node, QueueNode) and cyclic != (node.name in self.cyclic):
                (self.cyclic.add if cyclic else self.cyclic.discard)(node.name)
                self.turned.add(node.name)
        for node in member_nodes if cyclic else (top,):
            _derive(node, deep=not cyclic)

    def _cohort(self, name: CohortName) -> CohortNode:
        node = self.cohorts.get(name)
        if node is None:
            node = self.cohorts[name] = CohortNode(name)
        return node

    def _hang_queue(self, node: QueueNode, parent: CohortName | None) -> None:
        above = None if parent is None else self._cohort(parent)
        old = node.declared
        if above is not old:
            node.declared = above
            if above is not None:
                above.queues[node.name] = node
            if old is not None:
                del old.queues[node.name]
                self._leave(old)
        self.touch(node)

    def _hang_cohort(self, node: CohortNode, parent: CohortName | None) -> None:
        above = None if parent is None else self._cohort(parent)
        old = node.declared
        if above is not old:
            node.declared = above
            if above is not None:
                above.cohorts[node.name] = node
            if old is not None:
                del old.cohorts[node.name]
                self._leave(old)
        self.touch(node)

    def _leave(self, cohort: CohortNode) -> None:
        self.touch(cohort)
        self._prune(cohort)

    def _prune(self, cohort: CohortNode) -> None:
        """Removes an implicit cohort that lost its last child."""
        if cohort.spec is None and not cohort.queues and not cohort.cohorts:
            self.cohorts.pop(cohort.name, None)
            self._touched.pop(id(cohort), None)


def _quotas(groups: Iterable[ResourceGroup]) -> dict[FlavorResource, ResourceQuota]:
    return {
        FlavorResource(flavor.name, resource): quota_
        for group in groups
        for flavor in group.flavors
        for resource, quota_ in flavor.resources.items()
    }


def _top(node: QuotaNode) -> tuple[QuotaNode, bool]:
    """The root above a node, or a node of the cycle above it and True."""
    seen: set[int] = set()
    while True:
        if id(node) in seen:
            return node, True
        seen.add(id(node))
        assert isinstance(node, QueueNode | CohortNode)
        if node.declared is None:
            return node, False
        node = node.declared


def _derive(node: QuotaNode, *, deep: bool) -> None:
    """Computes quota, usage and height of a node, below it first if ``deep``."""
    node.subtree = {fr: quota_.nominal for fr, quota_ in node.quotas.items()}
    if isinstance(node, CohortNode):
        usage: dict[FlavorResource, int] = {}
        height = 0
        for child in node.children() if deep else ():
            _derive(child, deep=True)
            height = max(height, child.height + 1)
            _merge_lent(node.subtree, child)
            _merge_used(usage, child)
        node.usage, node.height = usage, height
    node.derive_guaranteed()


def _merge_lent(subtree: dict[FlavorResource, int], child: QuotaNode) -> None:
    for fr, total in child.subtree.items():
        lent = amount.subtract(total, child.guaranteed.get(fr, 0))
        subtree[fr] = amount.add(subtree.get(fr, 0), lent)


def _merge_used(usage: dict[FlavorResource, int], child: QuotaNode) -> None:
    for fr, used in child.usage.items():
        if (beyond := used - child.guaranteed.get(fr, 0)) > 0:
            usage[fr] = usage.get(fr, 0) + beyond


def members(top: QuotaNode) -> list[QuotaNode]:
    """Return every node below and including the top; also where the tree is a cycle."""
    seen = {id(top): top}
    stack = [top]
    while stack:
        node = stack.pop()
        for child in node.children() if isinstance(node, CohortNode) else ():
            if id(child) not in seen:
                seen[id(child)] = child
                stack.append(child)
    return list(seen.values())


def over_nominal(node: QuotaNode, pairs: Iterable[FlavorResource]) -> bool:
    """Return whether a node uses more than its subtree's quota in any of the pairs."""
    usage, subtree = node.usage, node.subtree
    return any(usage.get(fr, 0) > subtree.get(fr, 0) for fr in pairs)
