"""What is free on each node: what it has, less what is on it and what was promised.

Every pod that is bound counts, whoever made it. A workload with quota is promised a place for each
of its pods that is not bound: the places that it was admitted for, or others once these are gone.
So it is for pods that are charged without it, once it is gone or has ended.
Where the scheduler binds a pod elsewhere, one promise ends with it. A pod that is being deleted
counts on its node, and its workload is promised a place for the pod that follows it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from admission.base.causes import NoPlace
from admission.base.names import ChargeKey, PodSetName
from admission.base.selectors import Labels
from admission.base.tables import Index, Table, Tally
from admission.scheduling.places import predicate
from admission.scheduling.places.lacking import Lacking
from admission.scheduling.places.model import (
    HOSTNAME,
    NOT_READY,
    PODS,
    Amounts,
    BoundPod,
    Node,
    Place,
    PodShape,
    Want,
)
from admission.scheduling.places.rooms import Rooms

_MOST_ROOMS: Final = 1_200_000
"""Nodes times shapes of which it is kept how many pods a node takes, about 270 bytes each; others
are counted anew."""
_KEPT_CHANGES: Final = 1024
"""Changes that are kept beside four of each node; who has missed more looks at every node."""
_ONE_OF: Final = 4
_LEAST_SHAPES: Final = 16
"""Shapes that are kept however many nodes there are."""
_NO_LABELS: Final[Labels] = {}
_EVERYWHERE: Final = frozenset({"cpu", "memory", "ephemeral-storage", PODS})


@dataclass(slots=True)
class _Promise:
    """What a workload with quota is promised.

    Attributes:
        wants: all its pods, bound or not.
        places: where those are to be that are not bound.
        assigned: where all are to be whose domains are assigned; these never move.
        is_leaving: no other pods follow those that there are.
    """

    wants: tuple[Want, ...]
    places: dict[tuple[PodSetName, str], int] = field(default_factory=dict)
    assigned: dict[tuple[PodSetName, str], int] = field(default_factory=dict)
    is_leaving: bool = False

    def count(self, pod_set: PodSetName) -> int:
        """Return how many pods of a pod set are promised a place."""
        return sum(n for (name, _), n in self.places.items() if name == pod_set)


@dataclass(slots=True)
class _Suppositions:
    """What is tried out, and taken back.

    Attributes:
        is_counting: what is counted now is no change.
        lifted: workloads that are supposed to be gone.
        unkept: those for which nothing is supposed to be kept.
        is_without_leaving: pods that leave their nodes are supposed to be gone.
        placing: the workload of `NodeLedger.placing_anew`.
    """

    is_counting: bool = False
    lifted: dict[ChargeKey, None] = field(default_factory=dict)
    unkept: dict[ChargeKey, None] = field(default_factory=dict)
    is_without_leaving: bool = False
    placing: ChargeKey | None = None


@dataclass(slots=True)
class _KeptPlaces:
    """What is kept for a workload without quota.

    Attributes:
        wants: all its pods.
        places: where they are to be.
        counted: what they need on each node beyond what its pods there and its promises cover.
    """

    wants: tuple[Want, ...]
    places: tuple[Place, ...]
    counted: dict[str, dict[str, int]] = field(default_factory=dict)


class _BoundPods(Table[str, BoundPod]):
    """Pods that are on nodes and have not ended, by UID.

    Attributes:
        of_workload: by the Workload that they are of.
        of_workload_at: how many a Workload has, by pod set, node and whether they end.
        on_node: by node.
        of_priority: by priority.
        deleted: those that are being deleted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.of_workload: Index[ChargeKey, str] = self.index(_workload_of)
        self.of_workload_at: Tally[ChargeKey, tuple[str, str, bool]] = self.tally(_bound_at)
        self.on_node = self.index(lambda _, pod: (pod.node,))
        self.of_priority = self.index(lambda _, pod: (pod.priority,))
        self.deleted = self.index(
            lambda _, pod: (True,) if pod.is_leaving or pod.is_lingering else ()
        )


class _SucceededPods(Table[str, BoundPod]):
    """Pods of workloads that have succeeded and are there, by UID.

    Attributes:
        of_workload_at: how many of a Workload were on each node, by pod set and node.
    """

    def __init__(self) -> None:
        super().__init__()
        self.of_workload_at: Tally[ChargeKey, tuple[str, str]] = self.tally(_ended_at)


class NodeLedger:
    """Nodes, the pods on them, and the places promised to workloads.

    Attributes:
        version: grows with every change of what is free anywhere.
        bound_changed: is told of workloads of which other pods are on nodes than before.
    """

    def __init__(self) -> None:
        self.bound_changed: Callable[[ChargeKey], object] = _ignore
        self._nodes: dict[str, Node] = {}
        self._declared: dict[str, int] = {}
        """How many nodes declare a resource."""
        self._free: dict[str, dict[str, int]] = {}
        self._used: dict[str, dict[str, int]] = {}
        """What pods and promises use on a node, also on one that is not known."""
        self._held: dict[str, int] = {}
        """How many pods of workloads are or are to be on a node, where there are any."""
        self._pods = _BoundPods()
        self._succeeded = _SucceededPods()
        self._promises: dict[ChargeKey, _Promise] = {}
        self._kept: dict[ChargeKey, _KeptPlaces] = {}
        """What is kept for workloads without quota."""
        self._told_to_leave: set[ChargeKey] = set()
        """Workloads that were told to leave, of which pods are on nodes, or on their way there."""
        self._coming: dict[ChargeKey, int] = {}
        """Until when pods of a workload that have no node are taken to be on their way to one."""
        self._promised_on: dict[str, dict[ChargeKey, None]] = {}
        self._lacking = Lacking()
        self._grown: dict[str, None] = {}
        """Nodes that may take more pods than at the last `settle`."""
        self._crowded: dict[str, None] = {}
        """Nodes on which more is promised than is there."""
        self._rooms: dict[tuple[PodShape, bool], Rooms] = {}
        self._domains: dict[tuple[str, ...], Mapping[tuple[str, ...], tuple[str, ...]]] = {}
        self._changes: list[str] = []
        self._offset = 0
        self._settled = -1
        self._roomier: dict[str, None] = {}
        self._is_redeclared = False
        self._supposed = _Suppositions()

    # ---------------------------------------------------------------------------------- seeing

    @property
    def version(self) -> int:
        """Return a number that grows with every change of what is free anywhere."""
        return self._offset + len(self._changes)

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Return the nodes by name, to read."""
        return self._nodes

    def set_node(self, node: Node) -> None:
        """Take a node as it is now."""
        before = self._nodes.get(node.name)
        if before == node:
            return
        if before is not None:
            self._declare(before, -1)
        if before is None or before.labels != node.labels:
            self._domains.clear()
        self._nodes[node.name] = node
        self._declare(node, 1)
        used = self._used.get(node.name, {})
        self._free[node.name] = {r: n - used.get(r, 0) for r, n in node.amounts.items()}
        self._changed(node.name, is_roomier=True)

    def drop_node(self, name: str) -> None:
        """Forget a node; what is on it counts again when it comes back."""
        node = self._nodes.pop(name, None)
        if node is not None:
            self._domains.clear()
            self._declare(node, -1)
            del self._free[name]
            self._changed(name, is_roomier=False)

    def _declare(self, node: Node, sign: int) -> None:
        for resource in node.amounts:
            count = self._declared.get(resource, 0) + sign
            if not count or (sign > 0 and count == 1):
                self._rooms.clear()  # nodes that do not declare it are judged otherwise
                self._lacking.doubt_all()
                self._is_redeclared = True
            if count:
                self._declared[resource] = count
            else:
                del self._declared[resource]

    def set_pod(self, uid: str, pod: BoundPod) -> None:
        """Take a pod that is on a node and has not ended."""
        before = self._pods.get(uid)
        if before == pod:
            return
        self._pods.put(uid, pod)
        if before is not None:
            self._use(before.node, before.requests, -1, is_held=before.workload is not None)
        self._use(pod.node, pod.requests, 1, is_held=pod.workload is not None)
        for workload in dict.fromkeys((pod.workload, before.workload if before else None)):
            self._fit_to_bound(workload, pod.node)

    def has_pod(self, uid: str) -> bool:
        """Return whether a pod is counted on a node."""
        return uid in self._pods.by_key

    def end_pod(self, uid: str, pod: BoundPod) -> None:
        """Take a pod that has succeeded: in its domain its workload needs a place less."""
        if pod.workload is None or self._succeeded.get(uid) == pod:
            return
        self._succeeded.pop(uid)
        self._succeeded.put(uid, pod)
        if not self._unbind(uid) and pod.workload in self._promises:
            self._fit_to_bound(pod.workload, pod.node)

    def drop_pod(self, uid: str) -> None:
        """Forget a pod that has failed or is gone."""
        self._succeeded.pop(uid)
        self._unbind(uid)

    def _unbind(self, uid: str) -> bool:
        """Count a pod on its node no more; return whether it was counted there."""
        pod = self._pods.pop(uid)
        if pod is None:
            return False
        self._use(pod.node, pod.requests, -1, is_held=pod.workload is not None)
        self._fit_to_bound(pod.workload, pod.node)
        if pod.workload is not None and pod.workload not in self._promises:
            self._forget_told(pod.workload)
        return True

    def _forget_told(self, key: ChargeKey) -> None:
        """Forget that a workload was told to leave, once none of its pods is on a node."""
        if not self._pods.of_workload.keys(key):
            self._told_to_leave.discard(key)

    # ------------------------------------------------------------------------------- promising

    def promise(
        self, key: ChargeKey, wants: tuple[Want, ...], places: Iterable[Place] = ()
    ) -> None:
        """Promise a workload with quota a place for each of its pods that is not bound.

        Args:
            key: the workload.
            wants: all of its pods.
            places: where they are to be; where that is not told, `settle` looks for places.
        """
        promise = self._promises.get(key)
        near = {want.pod_set for want in wants if want.request is not None}
        places_held = tuple(places)
        assigned: dict[tuple[PodSetName, str], int] = {}
        for pod_set, name, count in (
            (place.pod_set, place.node, place.count) for place in places_held
        ):
            if pod_set in near:
                assigned[pod_set, name] = assigned.get((pod_set, name), 0) + count
        is_same = promise is not None and (promise.wants, promise.assigned) == (wants, assigned)
        if promise is not None and is_same and not promise.is_leaving:
            return
        if promise is not None:
            self._withdraw(key, promise)
        if not wants:
            self.release(key)
            return
        promise = self._promises[key] = _Promise(wants, assigned=assigned)
        for place in places_held:
            self._put(key, promise, place)
        self._fit_to_bound(key, "")

    def keep(self, key: ChargeKey, wants: tuple[Want, ...], places: Iterable[Place]) -> None:
        """Keep places for a workload without quota until those end that are there now.

        They are counted besides what is promised, so nodes may have less than nothing free. They
        are given up when pods without a place get room there: the scheduler binds these as soon
        as there is room, and does not know what is kept. What pods of the workload use there
        already, or are promised as they are charged without it, is counted once.
        """
        before = self._kept.get(key)
        self._kept[key] = kept = _KeptPlaces(wants, tuple(places))
        if before is not None:
            kept.counted = before.counted  # until it is fitted
        self._fit_kept(key)

    def end_kept(self, key: ChargeKey) -> None:
        """Keep no places for a workload any more; what it is promised goes on."""
        kept = self._kept.pop(key, None)
        if kept is not None and self._counts_kept(key):
            self._count(kept.counted, -1)

    def _counts_kept(self, key: ChargeKey) -> bool:
        """Return whether what is kept for a workload is counted on nodes now."""
        return key not in self._supposed.unkept and key not in self._supposed.lifted

    def _count(self, by_node: Mapping[str, Amounts], sign: int) -> None:
        for name, amounts in by_node.items():
            self._use(name, amounts, sign, is_held=True)

    def _fit_kept(self, key: ChargeKey) -> None:
        """Count what is kept for a workload as far as its pods and promises do not cover it.

        Amounts are compared, not numbers of pods: its pods may be of an earlier shape.
        """
        kept = self._kept.get(key)
        if kept is None:
            return
        needed = _amounts_at(kept.wants, kept.places)
        promise = self._promises.get(key)
        covered: dict[str, dict[str, int]] = {}
        if promise is not None:
            covered = _amounts_at(promise.wants, self.places(key))
        for pod in (self._pods[uid] for uid in self._pods.of_workload.keys(key)):
            if not pod.is_ending:
                _add_amounts(covered.setdefault(pod.node, {}), pod.requests, 1)
        counted = {}
        for name, amounts in needed.items():
            beside = covered.get(name, {})
            left = {r: n - beside.get(r, 0) for r, n in amounts.items() if n > beside.get(r, 0)}
            if left:
                counted[name] = left
        before, kept.counted = kept.counted, counted
        if before != counted and self._counts_kept(key):
            self._count(before, -1)
            self._count(counted, 1)

    def is_kept(self, key: ChargeKey) -> bool:
        """Return whether places are kept for a workload without quota."""
        return key in self._kept

    def stay(self, key: ChargeKey) -> None:
        """Forget that a workload was told to leave: it has quota again."""
        self._told_to_leave.discard(key)

    def release(self, key: ChargeKey) -> None:
        """End the promises to a workload; its bound pods go on being counted."""
        promise = self._promises.pop(key, None)
        self._lacking.discard(key)
        self._coming.pop(key, None)
        if promise is not None:
            self._withdraw(key, promise)
        self._forget_told(key)

    def expect(self, key: ChargeKey, until_us: int) -> None:
        """Take pods of a workload that have no node to be on their way to one until a time."""
        if key in self._promises:
            self._coming[key] = until_us

    def leave(self, key: ChargeKey, now_us: int) -> None:
        """End the promises to a workload that is told to leave, but for pods on their way.

        These were released, so the scheduler may bind them until they are deleted. No pods follow
        those that end.
        """
        promise = self._promises.get(key)
        self._told_to_leave.add(key)
        if promise is None or self._coming.get(key, now_us) <= now_us:
            self.release(key)
        else:
            promise.is_leaving = True
            self._lacking.discard(key)

    def coming(
        self, nodes: Iterable[str], now_us: int
    ) -> Iterator[tuple[tuple[Want, ...], tuple[Place, ...], dict[PodSetName, list[str]]]]:
        """Yield what workloads want of which pods are on their way to some nodes.

        With it, the places of the pods that have no node, and the nodes of the others by pod set.
        """
        workloads = {key for name in nodes for key in self.workloads_on(name)}
        for key in sorted(workloads & self._coming.keys()):
            promise = self._promises[key]
            if self._coming[key] <= now_us or not promise.places:
                del self._coming[key]
                continue
            bound_nodes = {
                want.pod_set: [*self._staying(key, want.pod_set)] for want in promise.wants
            }
            yield promise.wants, self.places(key), bound_nodes

    def wants(self, key: ChargeKey) -> tuple[Want, ...]:
        """Return what pods a workload is promised places for, bound or not."""
        promise = self._promises.get(key)
        return () if promise is None else promise.wants

    def is_promised(self, key: ChargeKey) -> bool:
        """Return whether a workload is promised places, or was bound to all of them."""
        return key in self._promises

    def settle(self) -> None:
        """Find other places for promises that a node cannot keep, the oldest workload first.

        What is kept counts for neither: pods go to their nodes whatever is kept there.
        """
        if self._settled == self.version:
            return
        grown, self._grown = tuple(self._grown), {}
        if self._crowded or self._lacking:
            with self.without_kept(self._kept):
                for name in tuple(self._crowded):
                    self._relieve(name)
                self._crowded.clear()
                due = self._lacking.pop_due(
                    lambda shape: any(self.takes_now(name, shape) for name in grown)
                )
                placed = tuple(self._place_lacking(due))
            self.end_kept_on({place.node for _, place in placed}, tuple(reversed(self._kept)))
        self._settled = self.version

    @contextmanager
    def without_kept(self, keys: Iterable[ChargeKey]) -> Iterator[None]:
        """Suppose that nothing is kept for some workloads, within a with statement."""
        unkept = [key for key in keys if key in self._kept and self._counts_kept(key)]
        with self._supposing():
            for key in unkept:
                self._count(self._kept[key].counted, -1)
        self._supposed.unkept.update(dict.fromkeys(unkept))
        try:
            yield
        finally:
            for key in unkept:
                del self._supposed.unkept[key]
            with self._supposing():
                for key in unkept:
                    kept = self._kept.get(key)  # another amount, or nothing, where that changed
                    if kept is not None:
                        self._count(kept.counted, 1)

    @contextmanager
    def lacking_placed(self) -> Iterator[None]:
        """Suppose that pods without a place get the room of who is supposed to be gone.

        The scheduler binds them as soon as there is room, whoever it was made for. Within
        `placing_anew` these are the pods of workloads that have lacked a place for longer.
        """
        placed: list[tuple[ChargeKey, Place]] = []
        try:
            if self._lacking and (self._supposed.lifted or self._supposed.is_without_leaving):
                with self._supposing():
                    placed.extend(self._place_lacking(self._lacking.shapes))
            yield
        finally:
            with self._supposing():
                for key, place in placed:
                    self._put(key, self._promises[key], replace(place, count=-place.count))

    @contextmanager
    def without_leaving(self) -> Iterator[bool]:
        """Suppose that pods that leave their nodes are gone, within a with statement.

        Nothing has to be done for their room. It is told whether there are any.
        """
        if self._supposed.is_without_leaving:
            yield any(self._leaving())
            return
        leaving = [pod for pod in self._leaving() if not self._is_gone(pod)]
        self._supposed.is_without_leaving = True
        self._suppose_left(leaving, -1)
        try:
            yield bool(leaving)
        finally:
            self._suppose_left(leaving, 1)
            self._supposed.is_without_leaving = False

    def _leaving(self) -> Iterator[BoundPod]:
        """Yield the pods that leave their nodes."""
        return filter(self._leaves, map(self._pods.__getitem__, self._pods.deleted.keys(True)))

    def _leaves(self, pod: BoundPod) -> bool:
        """Return whether a pod leaves its node.

        One with a long grace period does where its workload was told to leave: who waits for it
        chose it, and would take others in vain.
        """
        return pod.is_leaving or (pod.is_lingering and pod.workload in self._told_to_leave)

    def _is_gone(self, pod: BoundPod) -> bool:
        """Return whether a pod is supposed to be gone; an eviction frees none that lingers."""
        is_leaving = self._leaves(pod)
        if is_leaving and self._supposed.is_without_leaving:
            return True
        is_lifted = pod.workload is not None and pod.workload in self._supposed.lifted
        return is_lifted and (is_leaving or not pod.is_lingering)

    def _suppose_left(self, pods: Iterable[BoundPod], sign: int) -> None:
        with self._supposing():
            for pod in pods:
                self._use(pod.node, pod.requests, sign, is_held=pod.workload is not None)

    @contextmanager
    def placing_anew(self, key: ChargeKey) -> Iterator[None]:
        """Ask where the pods of a workload that lack a place may be, within a with statement.

        Nothing is kept for anybody, and pods that leave their nodes are supposed to be gone.
        """
        self._supposed.placing = key
        try:
            with self.without_leaving(), self.without_kept(self._kept):
                yield
        finally:
            self._supposed.placing = None

    def take_lacking(self) -> tuple[ChargeKey, ...]:
        """Return the workloads of which more pods lack a place than at the last call."""
        return self._lacking.take_added()

    def lacking(self) -> tuple[ChargeKey, ...]:
        """Return the workloads of which pods lack a place, the oldest first."""
        return self._lacking.keys

    def unplaced(self, key: ChargeKey) -> dict[PodSetName, int]:
        """Return how many pods of a workload have neither a node nor a place, by pod set."""
        promise = self._promises.get(key)
        wants = () if promise is None else promise.wants
        counts = {
            want.pod_set: self._unbound(key, want) - promise.count(want.pod_set)
            for want in wants
            if promise is not None
        }
        return {pod_set: count for pod_set, count in counts.items() if count > 0}

    def _place_lacking(self, shapes: Iterable[PodShape]) -> Iterator[tuple[ChargeKey, Place]]:
        """Promise places to workloads that lack them, and yield these."""
        for key in self._lacking.in_turn(shapes, lambda shape: bool(self.rooms(shape).total)):
            is_later = self._supposed.placing is not None and not self._lacking.precedes(
                key, self._supposed.placing
            )
            if key not in self._supposed.lifted and not is_later:
                for place in self._find_places(key, self._promises[key]):
                    yield key, place

    def end_kept_on(self, nodes: set[str], keys: Iterable[ChargeKey]) -> None:
        """Give up what is kept on nodes that have no room for it any more.

        Pods that leave their nodes are supposed to be gone.

        Args:
            nodes: that others got.
            keys: for whom places are kept that they may lose, in this order.
        """
        for key in keys:
            kept = self._kept.get(key)
            if kept is None:
                continue
            if any(self._is_crowded(name) for name in nodes & kept.counted.keys()):
                self.end_kept(key)

    def _is_crowded(self, name: str) -> bool:
        """Return whether a node has less than what is on it without the pods that leave it."""
        room = dict(self.free(name))
        for pod in filter(self._leaves, self._pods_on(name)):
            for resource in pod.requests.keys() & room.keys():
                room[resource] += pod.requests[resource]
        return any(amount < 0 for amount in room.values())

    def _relieve(self, name: str) -> None:
        """Withdraw promises from a node until it has room for the rest, the newest first."""
        free = self._free.get(name)
        for key in reversed(tuple(self._promised_on.get(name, ()))):
            if free is not None and all(amount >= 0 for amount in free.values()):
                return
            promise = self._promises[key]
            for pod_set, node in tuple(promise.places):
                if node == name and (pod_set, node) not in promise.assigned:
                    self._put(key, promise, Place(pod_set, node, -promise.places[pod_set, node]))
            if not promise.is_leaving:
                count = sum(self.unplaced(key).values())
                self._lacking.add(key, (want.shape for want in promise.wants), count)

    def _find_places(self, key: ChargeKey, promise: _Promise) -> Iterator[Place]:
        """Promise places to pods that have none, as far as there is room, and yield these."""
        is_complete = True
        for want in promise.wants:
            if want.request is not None:
                continue
            left = self._unbound(key, want) - promise.count(want.pod_set)
            rooms = self.rooms(want.shape)
            taken: set[str] = set()
            if want.shape.needs.apart:
                taken.update(node for pod_set, node in promise.places if pod_set == want.pod_set)
            if want.shape.needs.together:
                taken.update(self._outside(key, promise, want, rooms))
            while left > 0 and rooms.total:
                name = rooms.best(left, taken.__contains__)
                if name is None:
                    break
                taken.add(name)
                place = Place(want.pod_set, name, min(left, rooms.room[name]))
                self._put(key, promise, place)
                yield place
                left -= place.count
                rooms = self.rooms(want.shape)
            is_complete = is_complete and left <= 0
        if is_complete and not self._supposed.is_counting:
            self._lacking.discard(key)

    def _outside(
        self, key: ChargeKey, promise: _Promise, want: Want, rooms: Rooms
    ) -> Iterator[str]:
        """Yield the nodes that are not in the domain of a pod set whose pods are together.

        That is where any of them is or is to be, else where most of them have room.
        """
        needs, joint = want.shape.needs, _joint(promise.wants)
        nodes = set(rooms.room)
        anchor = self._anchor(key, promise, joint, needs.jointly)
        if want.pod_set in joint:
            domain = predicate.values(anchor, self.labels(anchor), needs.jointly)
            if not anchor:
                domain = self._common_domain(promise, want)
            nodes.intersection_update(self.domains(needs.jointly).get(domain, ()))
        anchor = self._anchor(key, promise, {want.pod_set}, needs.together)
        if anchor:
            domain = predicate.together(anchor, self.labels(anchor), want.shape)
        else:
            by_domain = rooms.by_domain(self.labels, nodes)
            domain = max(by_domain, key=lambda values: (by_domain[values], values), default=())
        for name in rooms.room:
            if (
                name not in nodes
                or predicate.together(name, self.labels(name), want.shape) != domain
            ):
                yield name

    def _anchor(
        self,
        key: ChargeKey,
        promise: _Promise,
        pod_sets: set[PodSetName],
        labels: tuple[str, ...],
        *,
        is_bound: bool = False,
    ) -> str:
        """Return a node with some labels on which pods of pod sets are, or else are to be.

        It is empty if there is none. Only nodes with bound pods count if ``is_bound``.
        """
        bound = {node for pod_set in pod_sets for node in self._staying(key, pod_set)}
        promised = {node for pod_set, node in promise.places if pod_set in pod_sets}
        for nodes in (bound, set() if is_bound else promised):
            for name in sorted(nodes & self._nodes.keys()):
                of_node = self._nodes[name].labels
                if all(label == HOSTNAME or label in of_node for label in labels):
                    return name
        return ""

    def _common_domain(self, promise: _Promise, want: Want) -> tuple[str, ...]:
        """Return the domain with most room for a pod set of those with room for all joint ones."""
        wants = [each for each in promise.wants if each.shape.needs.jointly]
        rooms = {each.pod_set: self.rooms(each.shape).room for each in wants}

        def room(names: Iterable[str], each: Want) -> int:
            return sum(rooms[each.pod_set].get(name, 0) for name in names)

        ranked = [
            (all(room(names, each) >= each.count for each in wants), room(names, want), domain)
            for domain, names in self.domains(want.shape.needs.jointly).items()
        ]
        return max(ranked, default=(False, 0, ()))[2]

    def _unbound(self, key: ChargeKey, want: Want) -> int:
        return want.count - sum(self._placed(key, want.pod_set).values())

    def bound(self, key: ChargeKey) -> dict[str, int]:
        """Return how many pods of each pod set of a workload are on nodes."""
        counts: dict[str, int] = {}
        for (pod_set, _, _), count in self._pods.of_workload_at.of(key).items():
            counts[pod_set] = counts.get(pod_set, 0) + count
        return counts

    def _placed(self, key: ChargeKey, pod_set: PodSetName) -> dict[str, int]:
        """Return how many pods of a pod set are on each node and stand for a promise.

        A pod that is being deleted does so only where its workload leaves: else one follows it.
        """
        promise = self._promises.get(key)
        if promise is None or not promise.is_leaving:
            return self._staying(key, pod_set)
        counts: dict[str, int] = {}
        for (name, node, _), count in self._pods.of_workload_at.of(key).items():
            if name == pod_set:
                counts[node] = counts.get(node, 0) + count
        return counts

    def _staying(self, key: ChargeKey, pod_set: PodSetName) -> dict[str, int]:
        """Return how many pods of a pod set are on each node and are not being deleted."""
        return {
            node: count
            for (name, node, is_ending), count in self._pods.of_workload_at.of(key).items()
            if name == pod_set and not is_ending
        }

    def _fit_to_bound(self, key: ChargeKey | None, node: str) -> None:
        """End as many promises as pods are bound, first on the node of the last one."""
        promise = None if key is None else self._promises.get(key)
        if key is not None:
            self.bound_changed(key)
            self._fit_kept(key)
        if key is None or promise is None:
            return
        is_lacking = False
        for want in promise.wants:
            if want.request is not None:
                self._fit_to_assigned(key, promise, want)
                continue
            if want.shape.needs.together:
                self._follow(key, promise, want)
            surplus = promise.count(want.pod_set) - self._unbound(key, want)
            is_lacking = is_lacking or (surplus < 0 and not promise.is_leaving)
            nodes_held = [name for pod_set, name in promise.places if pod_set == want.pod_set]
            for name in sorted(nodes_held, key=lambda name_: name_ != node):
                if surplus <= 0:
                    break
                count = min(surplus, promise.places[want.pod_set, name])
                self._put(key, promise, Place(want.pod_set, name, -count))
                surplus -= count
        if is_lacking:
            count = sum(self.unplaced(key).values())
            self._lacking.add(key, (want.shape for want in promise.wants), count)
            self._settled = -1
        else:
            self._lacking.discard(key)

    def _follow(self, key: ChargeKey, promise: _Promise, want: Want) -> None:
        """Give up places outside of the domain in which pods that must be together are bound."""
        needs, joint = want.shape.needs, _joint(promise.wants)
        for labels, pod_sets in (
            (needs.together, {want.pod_set}),
            (needs.jointly, joint if want.pod_set in joint else set()),
        ):
            anchor = self._anchor(key, promise, pod_sets, labels, is_bound=True)
            if not anchor:
                continue
            domain = predicate.values(anchor, self.labels(anchor), labels)
            for (pod_set, name), count in tuple(promise.places.items()):
                is_inside = predicate.values(name, self.labels(name), labels) == domain
                if pod_set == want.pod_set and not is_inside:
                    self._put(key, promise, Place(pod_set, name, -count))

    def _fit_to_assigned(self, key: ChargeKey, promise: _Promise, want: Want) -> None:
        """Promise on each node what is assigned to it, less the pods that are there.

        Pods elsewhere take the place of others, but for those that end with a lost node. Where
        fewer pods need a place than are assigned, those that have succeeded need none.
        """
        bound = self._placed(key, want.pod_set)
        left = want.count - sum(
            count
            for node, count in bound.items()
            if (want.pod_set, node) in promise.assigned or not self._is_lost(node)
        )
        succeeded = self._succeeded.of_workload_at.of(key)
        room, spent = {}, -want.count
        for (pod_set, name), assigned in promise.assigned.items():
            if pod_set == want.pod_set:
                room[pod_set, name] = max(0, assigned - bound.get(name, 0))
                spent += assigned
        for where, free in room.items():
            ended = max(0, min(spent, free, succeeded.get(where, 0)))
            room[where] -= ended
            spent -= ended
        for where, free in room.items():
            count = max(0, min(free, left))
            left -= count
            change = count - promise.places.get(where, 0)
            if change:
                self._put(key, promise, Place(*where, change))

    def _is_lost(self, name: str) -> bool:
        """Return whether pods cannot go on running on a node."""
        node = self._nodes.get(name)
        return node is None or any(
            taint.key == NOT_READY.key or taint.effect == "NoExecute" for taint in node.taints
        )

    def _withdraw(self, key: ChargeKey, promise: _Promise) -> None:
        for (pod_set, name), count in tuple(promise.places.items()):
            self._put(key, promise, Place(pod_set, name, -count))

    def _put(self, key: ChargeKey, promise: _Promise, place: Place) -> None:
        """Count more pods of a promise on a node, or fewer."""
        where = place.pod_set, place.node
        count = promise.places.get(where, 0) + place.count
        if count:
            promise.places[where] = count
            self._promised_on.setdefault(place.node, {})[key] = None
        else:
            promise.places.pop(where, None)
            if all(name != place.node for _, name in promise.places):
                promised = self._promised_on[place.node]
                promised.pop(key, None)
                if not promised:
                    del self._promised_on[place.node]
        shape = next(want.shape for want in promise.wants if want.pod_set == place.pod_set)
        self._use(place.node, each(shape), place.count, is_held=True)
        self._fit_kept(key)

    def _use(self, name: str, requests: Amounts, count: int, *, is_held: bool) -> None:
        """Count so many pods more on a node; fewer if negative.

        What is free and which nodes are idle change here and nowhere else, so they never
        contradict each other, whatever is supposed.

        Args:
            name: of the node.
            requests: of each pod.
            count: how many pods.
            is_held: whether they are of a workload.
        """
        if is_held:
            pods = self._held.get(name, 0) + count
            if pods:
                self._held[name] = pods
            else:
                self._held.pop(name, None)
        used = self._used.setdefault(name, {})
        free = self._free.get(name)
        for resource, amount in requests.items():
            left = used.get(resource, 0) + amount * count
            if left:
                used[resource] = left
            else:
                used.pop(resource, None)
            if free is not None and resource in free:
                free[resource] -= amount * count
        if not used:
            del self._used[name]
        self._changed(name, is_roomier=count < 0)

    def _changed(self, name: str, *, is_roomier: bool) -> None:
        self._changes.append(name)
        if len(self._changes) > 4 * len(self._nodes) + _KEPT_CHANGES:
            half = len(self._changes) // 2
            self._offset += half
            del self._changes[:half]
        if self._supposed.is_counting:
            return
        if is_roomier:
            self._roomier[name] = self._grown[name] = None
        if name in self._promised_on:
            free = self._free.get(name)
            if free is None or any(amount < 0 for amount in free.values()):
                self._crowded[name] = None

    # ------------------------------------------------------------------------------- supposing

    @contextmanager
    def _supposing(self) -> Iterator[None]:
        """Count what is tried out and taken back within a with statement as no change."""
        before, self._supposed.is_counting = self._supposed.is_counting, True
        try:
            yield
        finally:
            self._supposed.is_counting = before

    def lift(self, key: ChargeKey) -> None:
        """Suppose that a workload is gone with its pods, until `put_back`.

        Pods that are being deleted with a long grace period stay, unless they leave already: the
        eviction of their workload changes nothing.
        A pod that is charged by itself is one of its Workload here, so the end of that charge
        frees nothing. It is nobody's victim before it is being deleted, and where victims are
        sought it is gone from its node then (`without_leaving`).
        """
        self._suppose(key, -1)

    def put_back(self, key: ChargeKey) -> None:
        """End a supposition of `lift`."""
        self._suppose(key, 1)

    def _suppose(self, key: ChargeKey, sign: int) -> None:
        pods = [self._pods[uid] for uid in self._pods.of_workload.keys(key)]
        self._supposed.lifted.pop(key, None)
        before = [pod for pod in pods if not self._is_gone(pod)]
        self._supposed.lifted[key] = None
        moved = [pod for pod in before if self._is_gone(pod)]
        if sign > 0:
            del self._supposed.lifted[key]
        with self._supposing():
            for pod in moved:
                self._use(pod.node, pod.requests, sign, is_held=True)
            kept = self._kept.get(key)
            if kept is not None and key not in self._supposed.unkept:
                self._count(kept.counted, sign)
            promise = self._promises.get(key)
            if promise is None:
                return
            shapes = {want.pod_set: want.shape for want in promise.wants}
            for (pod_set, name), count in promise.places.items():
                self._use(name, each(shapes[pod_set]), sign * count, is_held=True)

    def take(self, wants: Iterable[Want], places: Iterable[Place], sign: int = 1) -> None:
        """Suppose that pods are at places, or with a negative sign that they are not any more."""
        shapes = {want.pod_set: want.shape for want in wants}
        with self._supposing():
            for place in places:
                amounts, count = each(shapes[place.pod_set]), sign * place.count
                self._use(place.node, amounts, count, is_held=True)

    # --------------------------------------------------------------------------------- answers

    def take_roomier(self) -> tuple[str, ...]:
        """Return the nodes since the last call that take pods now that they did not take before.

        They may not: what is asked is whether it is worth to look.
        """
        names, self._roomier = tuple(self._roomier), {}
        return names

    def take_redeclared(self) -> bool:
        """Return whether all nodes are judged otherwise than at the last call.

        So it is where a resource is declared that no node had, or by no node any more.
        """
        is_redeclared, self._is_redeclared = self._is_redeclared, False
        return is_redeclared

    def takes(self, name: str, shape: PodShape) -> bool:
        """Return whether a node can take a pod of a shape once it is empty."""
        node = self._nodes.get(name)
        return node is not None and predicate.refusal(node, shape, self._declared) is None

    def takes_now(self, name: str, shape: PodShape) -> bool:
        """Return whether a node takes a pod of a shape now."""
        return predicate.copies(self.free(name), shape) > 0 and self.takes(name, shape)

    def rooms(self, shape: PodShape, *, by_preemption: bool = False) -> Rooms:
        """Return how many pods of a shape each node takes now; valid until the next change.

        Args:
            shape: of the pods.
            by_preemption: count as if pods with a lower priority were gone.
        """
        rooms = self._rooms.get((shape, by_preemption))
        if rooms is None:
            rooms = Rooms(shape, _told_resource(shape))
            limit = max(_LEAST_SHAPES, _MOST_ROOMS // max(1, len(self._nodes)))
            if len(self._rooms) >= limit:
                self._forget_rooms()
            self._rooms[shape, by_preemption] = rooms
        if rooms.seen < self._offset:
            changed: Iterable[str] = (*self._nodes, *rooms.known() - self._nodes.keys())
        else:
            changed = dict.fromkeys(self._changes[rooms.seen - self._offset :])
        for name in changed:
            node = self._nodes.get(name)
            free = (
                self._free_by_preemption(name, shape.needs.priority or 0)
                if by_preemption
                else self._free.get(name, {})
            )
            rooms.update(node, name, free, self._declared)
        rooms.seen = self.version
        return rooms

    def _forget_rooms(self) -> None:
        """Forget a quarter of what is kept of shapes, spread over all of them.

        Shapes are asked for in turn: to forget the oldest one would forget each before its turn.
        """
        for key in tuple(self._rooms)[::_ONE_OF]:
            del self._rooms[key]

    def labels(self, name: str) -> Labels:
        """Return the labels of a node; none of one that is not known."""
        node = self._nodes.get(name)
        return _NO_LABELS if node is None else node.labels

    def fits(self, want: Want) -> bool:
        """Return whether the pods of one pod set can be on nodes, if no others came."""
        return self.rooms(want.shape).fitting(want.count, self.labels) >= want.count

    def domains(self, labels: tuple[str, ...]) -> Mapping[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the nodes that have labels, by the values of these, sorted."""
        if labels not in self._domains:
            domains: dict[tuple[str, ...], list[str]] = {}
            for name, node in sorted(self._nodes.items()):
                if all(label in node.labels or label == HOSTNAME for label in labels):
                    domain = predicate.values(name, node.labels, labels)
                    domains.setdefault(domain, []).append(name)
            self._domains[labels] = {key: tuple(names) for key, names in domains.items()}
        return self._domains[labels]

    def free_in(self, names: Iterable[str], resource: str) -> int:
        """Return how much of a resource is free on nodes."""
        return sum(max(0, self._free[name].get(resource, 0)) for name in names)

    def is_declared(self, resource: str) -> bool:
        """Return whether any node has a resource."""
        return resource in self._declared

    def fits_by_preemption(self, want: Want) -> bool:
        """Return whether the scheduler makes room on nodes by preempting pods there.

        It takes pods with a lower priority, whoever admitted them.
        """
        priority = want.shape.needs.priority
        if priority is None or all(group >= priority for group in self._pods.of_priority.groups()):
            return False
        rooms = self.rooms(want.shape, by_preemption=True)
        return rooms.fitting(want.count, self.labels) >= want.count

    def _free_by_preemption(self, name: str, priority: int) -> Amounts:
        """Return what is free on a node without its pods of a lower priority."""
        free = dict(self._free.get(name, {}))
        for pod in self._pods_on(name):
            if pod.priority < priority:
                for resource in pod.requests.keys() & free.keys():
                    free[resource] += pod.requests[resource]
        return free

    def why(self, want: Want, *, is_joint: bool = False) -> NoPlace:
        """Return why pods cannot be on nodes now."""
        rooms = self.rooms(want.shape)
        resource, largest = rooms.lacking() or (rooms.resource, None)
        return NoPlace(
            flavors=want.flavors,
            pod_set=want.pod_set,
            count=want.count,
            fitting=rooms.fitting(want.count, self.labels),
            resource=resource,
            asks=dict(want.shape.needs.requests).get(resource, 0),
            free=rooms.free,
            hole=rooms.hole(),
            refusals=tuple(sorted((str(why), n) for why, n in rooms.refused.items() if n)),
            is_joint=is_joint,
            largest=largest,
            together=want.shape.needs.jointly if is_joint else want.shape.needs.together,
            at_most=rooms.at_most(want.count, self.labels),
            taints=rooms.taints(),
        )

    def places(self, key: ChargeKey) -> tuple[Place, ...]:
        """Return the places that a workload is promised and has not taken yet, sorted."""
        promise = self._promises.get(key)
        places_by_pod_set = {} if promise is None else promise.places
        return tuple(
            sorted(Place(pod_set, name, n) for (pod_set, name), n in places_by_pod_set.items())
        )

    def assigned(self, key: ChargeKey, pod_set: PodSetName) -> dict[str, int]:
        """Return how many pods of a workload are assigned to nodes, whether they are there or not.

        So it is where their domains are assigned; without these it is nothing.
        """
        promise = self._promises.get(key)
        assigned = {} if promise is None else promise.assigned
        return {name: count for (owner, name), count in assigned.items() if owner == pod_set}

    def workloads_on(self, name: str) -> tuple[ChargeKey, ...]:
        """Return the workloads with pods on a node, or with places there, each once.

        Those that are supposed to be gone are left out.
        """
        bound = (pod.workload for pod in self._pods_on(name))
        promised = self._promised_on.get(name, ())
        kept = (key for key, places in self._kept.items() if name in places.counted)
        return tuple(
            dict.fromkeys(
                (
                    *(key for key in bound if key is not None),
                    *(key for key in promised if key not in self._supposed.lifted),
                    *(key for key in kept if key not in self._supposed.lifted),
                )
            )
        )

    def is_idle(self, name: str) -> bool:
        """Return whether no workload has pods on a node, or places there.

        It follows what is supposed, as what is free does.
        """
        return name not in self._held

    def _pods_on(self, name: str) -> Iterator[BoundPod]:
        """Yield the pods on a node but those that are supposed to be gone."""
        for uid in self._pods.on_node.keys(name):
            pod = self._pods[uid]
            if not self._is_gone(pod):
                yield pod

    def held_by_pods(self) -> dict[str, dict[str, int]]:
        """Return what is counted for bound pods on each node, without zeros, as copies."""
        usage = {name: dict(used) for name, used in self._used.items()}
        counted = [
            _amounts_at(promise.wants, self.places(key)) for key, promise in self._promises.items()
        ]
        for by_node in (*counted, *(kept.counted for kept in self._kept.values())):
            for name, amounts in by_node.items():
                _add_amounts(usage[name], amounts, -1)
        return {
            name: left
            for name, used in usage.items()
            if (left := {resource: amount for resource, amount in used.items() if amount})
        }

    def changed_since(self, version: int) -> Sequence[str] | None:
        """Return the nodes that changed since a version; None where that is not kept any more."""
        return self._changes[version - self._offset :] if version >= self._offset else None

    def without_workloads(self, name: str) -> Amounts:
        """Return what is free on a node beside pods that no queue admitted."""
        node = self._nodes.get(name)
        free = {} if node is None else dict(node.amounts)
        for pod in self._pods_on(name):
            if pod.workload is None:
                for resource in pod.requests.keys() & free.keys():
                    free[resource] -= pod.requests[resource]
        return free

    def free(self, name: str) -> Amounts:
        """Return what is free on a node; nothing of one that is not known."""
        return self._free.get(name, {})


def _bound_at(_: str, pod: BoundPod) -> tuple[ChargeKey, tuple[str, str, bool]] | None:
    if pod.workload is None:
        return None
    return pod.workload, (pod.pod_set, pod.node, pod.is_ending)


def _ended_at(_: str, pod: BoundPod) -> tuple[ChargeKey, tuple[str, str]] | None:
    return None if pod.workload is None else (pod.workload, (pod.pod_set, pod.node))


def _workload_of(_: str, pod: BoundPod) -> tuple[ChargeKey, ...]:
    return () if pod.workload is None else (pod.workload,)


def _ignore(_: ChargeKey) -> None:
    """Nobody is to be told."""


def each(shape: PodShape) -> dict[str, int]:
    """Return what one pod of a shape takes of a node."""
    return {**dict(shape.needs.requests), PODS: 1}


def _amounts_at(wants: Iterable[Want], places: Iterable[Place]) -> dict[str, dict[str, int]]:
    """Return what pods need at their places, by node."""
    shapes = {want.pod_set: want.shape for want in wants}
    by_node: dict[str, dict[str, int]] = {}
    for place in places:
        _add_amounts(by_node.setdefault(place.node, {}), each(shapes[place.pod_set]), place.count)
    return by_node


def _add_amounts(amounts: dict[str, int], added: Amounts, count: int) -> None:
    """Add something so many times."""
    for resource, amount in added.items():
        amounts[resource] = amounts.get(resource, 0) + amount * count


def _told_resource(shape: PodShape) -> str:
    """The resource by which people judge whether there is room: the device asked for most of."""
    amounts = dict(shape.needs.requests)
    if shape.needs.devices:
        return min(shape.needs.devices, key=lambda name: (-amounts[name], name))
    special = sorted(name for name in amounts if name not in _EVERYWHERE)
    return special[0] if special else "cpu"


def _joint(wants: Iterable[Want]) -> set[PodSetName]:
    """Return the pod sets whose pods must be together with those of each other."""
    return {want.pod_set for want in wants if want.shape.needs.jointly}
