"""The capacity guard: quota without GPUs behind it, and quota capped to the GPUs that exist.

What nodes have when all GPUs are well is handed out to ClusterQueues and Cohorts as they promise
it: first to trees without guard, whose promises are kept whatever happens, then to guarded ones;
each time to ClusterQueues by name, and then to Cohorts. What is sick is taken from them in the
reverse order of these kinds, and within a kind in proportion (`handing_out`). What a queue gets is
its share; a nominal quota above it promises more than exists. In a guarded tree the nominal quota
counts only as far as the share goes, see docs/adr/0030.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

from admission.base import amount, names, quantity
from admission.base.causes import NOT_ELSEWHERE, Elsewhere
from admission.base.names import ClusterQueueName, CohortName, FlavorResource
from admission.base.tables import Table
from admission.controller.devices.capacity import (
    Amounts,
    CapacityByFlavor,
    GpuCapacity,
    NodesStock,
    is_gpu,
)
from admission.gpu import resources
from admission.objects.cluster_queue import ClusterQueue
from admission.reasons import added_conditions
from admission.scheduling import capping, handing_out, hierarchy, model
from admission.scheduling.handing_out import Promise, PromiseShare, ResourceStock
from admission.scheduling.hierarchy import QueueNode, QuotaNode
from admission.scheduling.state import SchedulerState


class _Key(NamedTuple):
    """A ClusterQueue or Cohort; queues come before cohorts."""

    kind: str
    name: str


AvailableDevices = Mapping[str, frozenset[str]]
"""Device names by flavor of which its nodes have any."""

_Owner = TypeVar("_Owner", model.ClusterQueue, model.Cohort)

_NO_GPUS: Final[tuple[dict[str, int], ...]] = ({}, {}, {}, {}, {})
_NO_SURGE: Final[Mapping[FlavorResource, int]] = {}
_NO_TREE: Final = -1
_NO_NODES: Final = NodesStock({}, {})
_QUEUE: Final = "ClusterQueue"
_COHORT: Final = "Cohort"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuShortage:
    """Quota that has no GPUs behind it.

    Attributes:
        pair: flavor and resource.
        promised: nominal quota.
        share: what exists of it, after all that comes before.
        real: what exists for all queues together.
        capacity: of the flavor.
        elsewhere: what of the rest others are promised before, also when all GPUs are well.
        overlaps: other flavors that select nodes of the flavor, sorted.
    """

    pair: FlavorResource
    promised: int
    share: int
    real: int
    capacity: GpuCapacity
    elsewhere: int = 0
    overlaps: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return one sentence with the numbers."""
        flavor, resource = self.pair
        healthy, kept, sick = (
            amounts.get(resource, 0)
            for amounts in (self.capacity.healthy, self.capacity.kept, self.capacity.idle_sick)
        )
        outside = healthy + kept - self.real  # of what is healthy, so that the sum is right
        of_others = self.real - self.share
        return added_conditions.shortage(
            resource,
            flavor,
            promised=_text(resource, self.promised),
            exist=_text(resource, self.share),
            healthy=_text(resource, healthy),
            kept=_text(resource, kept) if kept else "",
            sick=_text(resource, sick) if sick else "",
            outside=_text(resource, outside) if outside else "",
            other_holders=_text(resource, of_others) if of_others else "",
            elsewhere=_text(resource, self.elsewhere) if self.elsewhere else "",
            overlaps=self.overlaps,
        )


class _Promises(Table[_Key, Mapping[FlavorResource, int]]):
    """What each ClusterQueue and Cohort promises.

    Attributes:
        of_flavor: those that promise something of a flavor.
    """

    def __init__(self) -> None:
        super().__init__()
        self.of_flavor = self.index(lambda _, promises: sorted(_flavors(promises)))


class CapacityGuard:
    """Compares ClusterQueues and Cohorts with capacity, and passes them on to the state."""

    def __init__(self, state: SchedulerState, capacities: CapacityByFlavor) -> None:
        self._state = state
        self._capacities = capacities
        self._queues: dict[str, model.ClusterQueue] = {}
        self._cohorts: dict[str, model.Cohort] = {}
        self._promises = _Promises()
        self._annotated: set[str] = set()
        self._capped: set[_Key] = set()
        """What belongs to a tree in which a ClusterQueue is annotated."""
        self._tree_of: dict[_Key, int] = {}
        """Number of the tree of each key in `_capped`."""
        self._trees: dict[int, frozenset[_Key]] = {}
        self._tree_numbers = itertools.count()
        self._shares: dict[_Key, dict[FlavorResource, int]] = {}
        self._elsewhere: dict[_Key, dict[FlavorResource, Elsewhere]] = {}
        """What of a promise exists and was handed out before."""
        self._stock_by_nodes: Mapping[tuple[str, ...], NodesStock] = {}
        """GPUs by all flavors that select their nodes."""
        self._promised_flavors: frozenset[str] = frozenset()
        self._by_nodes: dict[tuple[str, ...], NodesStock] = {}
        """The same by those of these flavors for which GPUs are promised."""
        self._overlaps: dict[str, tuple[str, ...]] = {}
        """Flavors that select nodes of a flavor, too, sorted."""
        self._real: dict[str, tuple[Amounts, ...]] = {}
        self._present: dict[str, AvailableDevices] = {}
        self._present_changed: set[str] = set()
        self._knows = False
        self._dirty: set[_Key] = set()
        """What promises something else than when capacity was distributed last."""
        self._totals: Counter[FlavorResource] = Counter()
        """What is promised of each flavor and resource, by all."""
        self._short: set[FlavorResource] = set()
        """Of which not all had what they promise when capacity was distributed last."""
        self._touched: set[FlavorResource] = set()
        """Of which somebody promises something else since then."""
        self._regrouped: set[_Key] = set()
        """What came, went, moved, or is annotated otherwise since then."""

    def set_queue(self, view: ClusterQueue, queue: model.ClusterQueue) -> None:
        """Take a ClusterQueue as it is written."""
        key = _Key(_QUEUE, queue.name)
        is_annotated = (
            view.metadata.annotation(names.CAPACITY_GUARD) == names.CAPACITY_GUARD_ENFORCE
        )
        if is_annotated != (queue.name in self._annotated):
            (self._annotated.add if is_annotated else self._annotated.discard)(queue.name)
            self._dirty.add(key)
            self._regrouped.add(key)
        before = self._queues.get(queue.name)
        if before is None or before.cohort != queue.cohort:
            self._regrouped.add(key)
        self._queues[queue.name] = queue
        self._promise(key, queue.resource_groups, queue.surge_quota)
        self._state.set_cluster_queue(self._limited(queue, key) if key in self._capped else queue)

    def hold_queue(self, name: str) -> None:
        """Let a ClusterQueue admit nothing more, if it is known, and keep its quota."""
        queue_before = self._queues.get(name)
        if queue_before is None:
            return
        held_queue = self._queues[name] = replace(queue_before, stop_policy=model.StopPolicy.HOLD)
        key = _Key(_QUEUE, name)
        self._state.set_cluster_queue(
            self._limited(held_queue, key) if key in self._capped else held_queue
        )

    def drop_queue(self, name: str) -> None:
        """Forget a ClusterQueue."""
        self._queues.pop(name, None)
        self._annotated.discard(name)
        self._forget(_Key(_QUEUE, name))
        self._state.drop_cluster_queue(ClusterQueueName(name))

    def set_cohort(self, cohort: model.Cohort) -> None:
        """Take a Cohort as it is written."""
        key = _Key(_COHORT, cohort.name)
        before = self._cohorts.get(cohort.name)
        if before is None or before.parent != cohort.parent:
            self._regrouped.add(key)
        self._cohorts[cohort.name] = cohort
        self._promise(key, cohort.resource_groups)
        self._state.set_cohort(self._limited(cohort, key) if key in self._capped else cohort)

    def drop_cohort(self, name: str) -> None:
        """Forget a Cohort."""
        self._cohorts.pop(name, None)
        self._forget(_Key(_COHORT, name))
        self._state.drop_cohort(CohortName(name))

    def set_flavor(
        self,
        name: str,
        node_labels: Mapping[str, str],
        tolerations: tuple[model.Toleration, ...] = (),
    ) -> None:
        """Take which nodes a flavor selects and what its pods tolerate; see `CapacityByFlavor`."""
        self._capacities.set_flavor(name, node_labels, tolerations)

    def drop_flavor(self, name: str) -> None:
        """Forget a flavor."""
        self._capacities.drop_flavor(name)

    def settle(self) -> frozenset[str]:
        """Distribute capacity again if anything changed; return queues whose text may differ."""
        knows = self._capacities.any_nodes
        flavors, first = self._changed_flavors(), knows != self._knows
        if not flavors and not self._dirty and not first:
            return frozenset()
        dirty, self._dirty, self._knows = self._dirty, set(), knows
        touched, self._touched = self._touched, set()
        flipped = self._regroup()
        if not (flavors or first or flipped or self._capped or self._by_nodes):
            return self._share_nothing(dirty)
        touched.update(pair for key in flipped for pair in self._promises.get(key) or ())
        touched.update(pair for pair in self._totals if pair.flavor in flavors)
        changed = None if first else self._share_to(dirty, flipped, touched)
        if changed is not None:
            for key in sorted(self._capped & self._promising_keys(flavors)):
                self._note_present_of(key)
            return changed | self.promising(flavors)
        before = self._shares
        self._share_out()
        for key in sorted(self._capped | flipped):
            self._pass_on(key)
        self._note_present()
        return frozenset(
            key.name
            for key, shares in self._shares.items()
            if key.kind == _QUEUE
            and (first or shares != before.get(key) or not flavors.isdisjoint(_flavors(shares)))
        )

    def take_present(self) -> dict[str, AvailableDevices | None]:
        """Return ClusterQueues whose device names changed; None for one no longer guarded."""
        changed, self._present_changed = sorted(self._present_changed), set()
        return {name: self._present.get(name) for name in changed}

    def shortages(self, queue: str) -> tuple[GpuShortage, ...] | None:
        """Return the quota of a ClusterQueue without GPUs behind it; None where it is unknown.

        That is: it promises no GPUs, no node with GPUs was ever seen, or it is not known yet what
        pods of others hold.
        """
        key = _Key(_QUEUE, queue)
        promises = self._promises.get(key)
        if not promises or not self._knows:
            return None
        shares = self._shares.get(key, {})
        shortages_found = []
        for pair in sorted(promises):
            share = shares.get(pair, 0)
            if share < promises[pair] != amount.UNLIMITED:
                capacity = self._capacities.capacity(pair.flavor)
                real = capacity.real.get(pair.resource, 0)
                shortages_found.append(
                    GpuShortage(
                        pair=pair,
                        promised=promises[pair],
                        share=share,
                        real=real,
                        capacity=capacity,
                        elsewhere=self._elsewhere_of(key, pair, promises[pair] - share),
                        overlaps=self._overlaps.get(pair.flavor, ()),
                    )
                )
        return tuple(shortages_found)

    def _elsewhere_of(self, key: _Key, pair: FlavorResource, missing: int) -> int:
        """Return how much of what is missing of a promise others are promised before."""
        return min(missing, self._elsewhere.get(key, {}).get(pair, NOT_ELSEWHERE).amount)

    def promised(self, queue: str) -> tuple[FlavorResource, ...]:
        """Return the GPUs for which a ClusterQueue has quota, sorted."""
        return tuple(sorted(self._promises.get(_Key(_QUEUE, queue)) or ()))

    def overlaps(self, queue: str) -> dict[str, tuple[str, ...]]:
        """Return the flavors of a ClusterQueue's quota that share nodes, with those they share."""
        flavors = sorted(_flavors(self.promised(queue)))
        return {flavor: self._overlaps[flavor] for flavor in flavors if flavor in self._overlaps}

    def promising(self, flavors: Iterable[str]) -> frozenset[str]:
        """Return the ClusterQueues that have quota for GPUs in one of the flavors."""
        return frozenset(key.name for key in self._promising_keys(flavors) if key.kind == _QUEUE)

    # -------------------------------------------------------------------------------- helpers

    def _promising_keys(self, flavors: Iterable[str]) -> set[_Key]:
        """Return what has quota for GPUs in one of the flavors."""
        return {key for flavor in flavors for key in self._promises.of_flavor.keys(flavor)}

    def _promise(
        self,
        key: _Key,
        groups: Iterable[model.ResourceGroup],
        surge: Mapping[FlavorResource, int] = _NO_SURGE,
    ) -> None:
        promises = {
            pair: amount.add(nominal, surge.get(pair, 0))
            for pair, nominal in capping.nominal(groups).items()
            if is_gpu(pair.resource)
        }
        if self._annotated or promises != self._promises.get(key):
            self._dirty.add(key)  # in whose tree something is guarded may have changed, too
        self._count(self._promises.put(key, promises) or {}, promises)

    def _forget(self, key: _Key) -> None:
        self._count(self._promises.pop(key) or {}, {})
        self._regrouped.add(key)
        self._shares.pop(key, None)
        self._dirty.add(key)

    def _count(
        self, before: Mapping[FlavorResource, int], after: Mapping[FlavorResource, int]
    ) -> None:
        """Take what one promises instead of what it promised before."""
        if before != after:
            self._totals.subtract(before)
            self._totals.update(after)
            self._touched.update(before, after)

    def _changed_flavors(self) -> frozenset[str]:
        """Flavors of which other amounts exist than before; who uses them does not matter."""
        flavors_changed: set[str] = set()
        changed, promised = (
            self._capacities.take_changed(),
            frozenset(self._promises.of_flavor.groups()),
        )
        if changed:
            self._stock_by_nodes = self._capacities.by_nodes()
        if changed or promised != self._promised_flavors:
            self._promised_flavors = promised
            before, self._by_nodes = (
                self._by_nodes,
                _by_promised_flavors(self._stock_by_nodes, promised),
            )
            nodes = before.keys() | self._by_nodes.keys()
            for flavors in nodes:
                if before.get(flavors) != self._by_nodes.get(flavors):
                    flavors_changed.update(flavors)
        for flavor in changed:
            capacity = self._capacities.capacity(flavor)
            now = tuple(
                dict(p)
                for p in (
                    capacity.real,
                    capacity.healthy,
                    capacity.kept,
                    capacity.idle_sick,
                    capacity.outside,
                )
            )
            if self._real.get(flavor, _NO_GPUS) != now:
                self._real[flavor] = now
                flavors_changed.add(flavor)
        return frozenset(flavors_changed)

    def _regroup(self) -> set[_Key]:
        """Find again what is guarded in the trees of what was regrouped, before and after.

        All of a tree is guarded in which some ClusterQueue is annotated: one may borrow there.
        Return what is guarded and was not, or the other way around.

        What this takes grows with the trees that are concerned, and with nothing else.
        """
        regrouped, self._regrouped = self._regrouped, set()
        if not (regrouped and (self._annotated or self._tree_of)):
            return set()
        keys = set(regrouped)
        for key in regrouped:
            keys |= self._trees.get(self._tree_of.get(key, _NO_TREE), frozenset())
        self._state.forest.refresh()
        trees = self._trees_of(keys)
        keys.update(*trees)
        before = self._capped & keys
        for number in {self._tree_of.pop(key, _NO_TREE) for key in keys}:
            self._trees.pop(number, None)
        self._capped -= keys
        for tree in trees:
            if any(key.kind == _QUEUE and key.name in self._annotated for key in tree):
                number = next(self._tree_numbers)
                self._trees[number] = tree
                self._tree_of.update(dict.fromkeys(tree, number))
                self._capped |= tree
        return before ^ (self._capped & keys)

    def _trees_of(self, keys: Iterable[_Key]) -> list[frozenset[_Key]]:
        """Return what belongs to each tree that has one of the keys."""
        forest = self._state.forest
        tops: dict[int, QuotaNode] = {}
        for key in sorted(keys):
            node: QuotaNode | None = (
                forest.queues.get(ClusterQueueName(key.name))
                if key.kind == _QUEUE
                else forest.cohorts.get(CohortName(key.name))
            )
            if node is not None:
                tops.setdefault(id(node.root()), node.root())
        return [
            frozenset(_key(node) for node in hierarchy.members(top) if node.root() is top)
            & self._promises.by_key.keys()
            for top in tops.values()
        ]

    def _note_present(self) -> None:
        present: dict[str, AvailableDevices] = {}
        for key in self._capped if self._knows else ():
            if key.kind == _QUEUE:
                present[key.name] = self._devices_of(key)
        names_before = self._present.keys() | present.keys()
        self._present_changed |= {
            name for name in names_before if self._present.get(name) != present.get(name)
        }
        self._present = present

    def _note_present_of(self, key: _Key) -> None:
        """Note which devices exist for a ClusterQueue, or that it is not guarded any more."""
        if key.kind != _QUEUE or not self._knows:
            return
        if key not in self._capped:
            if self._present.pop(key.name, None) is not None:
                self._present_changed.add(key.name)
            return
        devices = self._devices_of(key)
        if self._present.get(key.name) != devices:
            self._present_changed.add(key.name)
            self._present[key.name] = devices

    def _devices_of(self, key: _Key) -> AvailableDevices:
        flavors = sorted(_flavors(self._promises[key]))
        return {flavor: self._devices(flavor) for flavor in flavors}

    def _devices(self, flavor: str) -> frozenset[str]:
        real = self._real.get(flavor, ({},))[0]
        return frozenset(name for name, n in real.items() if n and resources.is_device(name))

    def _share_out(self) -> None:
        """Hand out what exists; nodes that several flavors select are handed out once."""
        self._shares = {key: {} for key in self._promises}
        self._elsewhere = {key: {} for key in self._promises}
        self._overlaps = _overlaps(self._by_nodes)
        promised: dict[str, list[tuple[_Key, FlavorResource]]] = {}
        for key in sorted(self._promises, key=self._turn):
            for pair in self._promises[key]:
                promised.setdefault(pair.resource, []).append((key, pair))
        for resource, listed in promised.items():
            nodes = {
                flavors: ResourceStock(stock.usable.get(resource, 0), stock.whole.get(resource, 0))
                for flavors, stock in self._by_nodes.items()
            }
            for (key, pair), share in zip(listed, self._shared_out(listed, nodes), strict=True):
                self._shares[key][pair] = share.value
                if share.elsewhere != NOT_ELSEWHERE:
                    self._elsewhere[key][pair] = share.elsewhere
        self._short = {pair for pair in self._totals if self._is_short(pair)}

    def _shared_out(
        self,
        listed: Iterable[tuple[_Key, FlavorResource]],
        nodes: Mapping[tuple[str, ...], ResourceStock],
    ) -> list[PromiseShare]:
        """Return what exists of promises of one resource, which are in their turn."""
        return handing_out.shared_out(
            [
                Promise(
                    key.name, pair.flavor, self._promises[key][pair],
                    2 * (key in self._capped) + (key.kind == _COHORT),
                )
                for key, pair in listed
            ],
            nodes,
        )  # fmt: skip

    def _turn(self, key: _Key) -> tuple[bool, _Key]:
        """Return the sort key of those to whom capacity is handed out.

        What a Cohort promises belongs to no team, so that the quota of teams is served before.
        """
        return key in self._capped, key

    def _is_short(self, pair: FlavorResource) -> bool:
        """Return whether somebody may get less than is promised, or from which nodes matters."""
        if pair.flavor in self._overlaps:
            return True
        return self._totals[pair] > self._stock(pair).usable

    def _stock(self, pair: FlavorResource) -> ResourceStock:
        """Return what nodes have of a resource that only one flavor selects."""
        stock = self._by_nodes.get((pair.flavor,), _NO_NODES)
        return ResourceStock(stock.usable.get(pair.resource, 0), stock.whole.get(pair.resource, 0))

    def _share_to(
        self, dirty: set[_Key], flipped: set[_Key], touched: AbstractSet[FlavorResource]
    ) -> frozenset[str] | None:
        """Hand out again what is touched, where no nodes are selected by several flavors.

        Where all have what they promise, before and after, no share depends on another one; else
        that resource of that flavor is handed out again. Return the ClusterQueues whose share has
        changed; None where all has to be handed out again.
        """
        overlaps = _overlaps(self._by_nodes)
        if self._overlaps != overlaps or any(pair.flavor in overlaps for pair in touched):
            return None
        changed = (dirty | flipped) & self._promises.by_key.keys()
        for key in changed:
            promises = self._promises[key]
            before, elsewhere_now = self._shares.get(key, {}), self._elsewhere.get(key, {})
            self._shares[key] = {
                pair: before.get(pair, 0) if pair in self._short else promised
                for pair, promised in promises.items()
            }
            self._elsewhere[key] = {
                pair: amount_elsewhere
                for pair, amount_elsewhere in elsewhere_now.items()
                if pair in promises
            }
        for pair in touched:
            was_short, is_short = pair in self._short, self._is_short(pair)
            (self._short.add if is_short else self._short.discard)(pair)
            if was_short or is_short:
                changed |= self._share_again(pair)
        for key in sorted(changed & (self._capped | flipped)):
            self._pass_on(key)
        for key in sorted((dirty | flipped) & (self._capped | flipped)):
            self._note_present_of(key)
        return frozenset(key.name for key in changed if key.kind == _QUEUE)

    def _share_again(self, pair: FlavorResource) -> set[_Key]:
        """Hand out a resource of a flavor again; return for whom something is different now."""
        keys = [
            key
            for key in self._promises.of_flavor.keys(pair.flavor)
            if pair in self._promises[key]
        ]
        listed = [(key, pair) for key in sorted(keys, key=self._turn)]
        nodes: dict[tuple[str, ...], ResourceStock] = {(pair.flavor,): self._stock(pair)}
        queues_changed = set()
        for (key, _), share in zip(listed, self._shared_out(listed, nodes), strict=True):
            before = self._elsewhere.setdefault(key, {}).pop(pair, NOT_ELSEWHERE)
            if share.elsewhere != NOT_ELSEWHERE:
                self._elsewhere[key][pair] = share.elsewhere
            if share != (self._shares[key].get(pair), before):
                queues_changed.add(key)
            self._shares[key][pair] = share.value
        return queues_changed

    def _share_nothing(self, dirty: set[_Key]) -> frozenset[str]:
        """Hand out nothing to what promises something else, as no GPUs exist."""
        queues_changed = set()
        for key in dirty & self._promises.by_key.keys():
            shares = dict.fromkeys(self._promises[key], 0)
            if key.kind == _QUEUE and shares != self._shares.get(key):
                queues_changed.add(key.name)
            self._shares[key] = shares
            self._short.update(pair for pair, promised in self._promises[key].items() if promised)
        return frozenset(queues_changed)

    def _pass_on(self, key: _Key) -> None:
        limited = key in self._capped
        if key.kind == _QUEUE and key.name in self._queues:
            queue = self._queues[key.name]
            self._state.set_cluster_queue(self._limited(queue, key) if limited else queue)
        elif key.kind == _COHORT and key.name in self._cohorts:
            cohort = self._cohorts[key.name]
            self._state.set_cohort(self._limited(cohort, key) if limited else cohort)

    def _limited(self, owner: _Owner, key: _Key) -> _Owner:
        shares, elsewhere = self._shares.get(key, {}), self._elsewhere.get(key, {})
        return capping.capped(owner, shares, elsewhere)


def _key(node: QuotaNode) -> _Key:
    if isinstance(node, QueueNode):
        return _Key(_QUEUE, node.name)
    assert isinstance(node, hierarchy.CohortNode)
    return _Key(_COHORT, node.name)


def _by_promised_flavors(
    nodes: Mapping[tuple[str, ...], NodesStock], flavors: AbstractSet[str]
) -> dict[tuple[str, ...], NodesStock]:
    """Return the amounts on nodes by those of some flavors that select them.

    A flavor of cpu and memory selects all nodes, and promises none of their GPUs.
    """
    sums: dict[tuple[str, ...], tuple[Counter[str], Counter[str]]] = {}
    for selecting, stock in nodes.items():
        key = tuple(flavor for flavor in selecting if flavor in flavors)
        if key:
            usable, whole = sums.setdefault(key, (Counter(), Counter()))
            usable.update(stock.usable)
            whole.update(stock.whole)
    return {key: NodesStock(dict(usable), dict(whole)) for key, (usable, whole) in sums.items()}


def _overlaps(nodes: Iterable[tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the flavors that select nodes of another flavor, by its name."""
    overlapping: dict[str, set[str]] = {}
    for flavors in nodes:
        for flavor in flavors:
            overlapping.setdefault(flavor, set()).update(flavors)
    return {
        flavor: tuple(sorted(flavors - {flavor}))
        for flavor, flavors in overlapping.items()
        if len(flavors) > 1
    }


def _flavors(pairs: Iterable[FlavorResource]) -> set[str]:
    return {pair.flavor for pair in pairs}


def _text(resource: str, value: int) -> str:
    return quantity.in_words(resource, value)
