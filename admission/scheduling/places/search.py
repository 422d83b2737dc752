"""Places for the pods of several pod sets at once.

For one pod set without constraints of several labels the answer is exact: its pods are alike, so
the sum of what each node takes decides. For several pod sets nodes are filled pod set by pod set,
the largest pods first; where that fails, few nodes take the pods and these have enough free in
sum, all ways are tried, in a fixed order and up to a number of steps (`StepBudget`). So no place
is missed on small clusters (ADR 0260). Pod sets that must be in one domain all together are tried
in one domain after the other, in up to `MOST_DOMAINS` of those that have enough free in sum.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from admission.scheduling.places import predicate
from admission.scheduling.places.ledger import NodeLedger, each
from admission.scheduling.places.model import HOSTNAME, MOST_DOMAINS, Place, Want

_STEPS: Final = 8000
"""Steps for all questions about one workload; the first of them may take half."""
_NODES: Final = 64
"""Most nodes of which all ways are tried."""


@dataclass(slots=True)
class StepBudget:
    """The steps that are left for all questions about one workload, such as one for each victim.

    A question may take half of them. So the first one is answered as exactly as if it were the
    only one, and how many follow does not matter for what they cost together.

    Attributes:
        left: how many steps are left.
        found: the places that were found last for pod sets. They are tried before steps are
            taken, so what was found once is not missed later because no steps are left.
    """

    left: int = _STEPS
    found: dict[tuple[Want, ...], tuple[Place, ...]] = field(default_factory=dict)


def find(
    ledger: NodeLedger, wants: Sequence[Want], budget: StepBudget | None = None
) -> tuple[Place, ...] | None:
    """Return a place for every pod beside all that is on nodes and promised; None if none is seen.

    The ledger is left as it was.

    Args:
        ledger: what is free on nodes.
        wants: the pods.
        budget: says how many ways are tried; where no steps are left, nodes are only filled with
            the largest pods first. None for a question that is the only one.
    """
    budget = budget or StepBudget()
    if not all(ledger.fits(want) for want in wants):
        return None
    ordered = sorted(wants, key=_largest_first)
    if len(wants) == 1:
        return _fill(ledger, ordered, None)
    key, steps = tuple(ordered), _Steps(budget.left // 2)
    budget.left -= steps.left
    try:
        for names in _common_domains(ledger, ordered):
            places = _fill(ledger, ordered, names)
            if places is None:
                places = _still_free(ledger, ordered, budget.found.get(key, ()))
            if places is None and _may_fit_together(ledger, ordered, names):
                places = _AllWays(ledger, ordered, names, steps).run()
            if places is not None:
                budget.found[key] = places
                return places
    finally:
        budget.left += steps.left
    return None


def unplaced(ledger: NodeLedger, wants: Sequence[Want]) -> tuple[tuple[Place, ...], list[Want]]:
    """Return places of the pod sets that fit one beside the other, and those that do not fit.

    The largest pods come first.
    """
    places: list[Place] = []
    left: list[Want] = []
    try:
        for want in sorted(wants, key=_largest_first):
            chosen = _choose(ledger, want, None)
            if chosen is None:
                left.append(want)
            else:
                places += chosen
                ledger.take(wants, chosen)
        return tuple(places), left
    finally:
        ledger.take(wants, places, -1)


@dataclass(slots=True)
class _Steps:
    """How many steps are left for one question, in all domains."""

    left: int


def _still_free(
    ledger: NodeLedger, wants: Sequence[Want], places: tuple[Place, ...]
) -> tuple[Place, ...] | None:
    """Return places that were found before if all of them are free now; else None."""
    if not places:
        return None
    taken: list[Place] = []
    try:
        for want in wants:
            room, limits = ledger.rooms(want.shape).room, _Limits(ledger, want)
            chosen: dict[str, int] = {}
            of_pod_set = [place for place in places if place.pod_set == want.pod_set]
            for place in of_pod_set:
                if limits.most(place.node, chosen, room) < place.count:
                    return None
                chosen[place.node] = place.count
            if sum(chosen.values()) < want.count:
                return None
            ledger.take(wants, of_pod_set)
            taken += of_pod_set
        return places
    finally:
        ledger.take(wants, taken, -1)


def _may_fit_together(
    ledger: NodeLedger, wants: Sequence[Want], names: Sequence[str] | None
) -> bool:
    """Return whether few nodes take the pods, and these have enough of each resource in sum.

    Where that is not so there is no way, or none is looked for, and no step has to be taken.
    """
    demand: dict[str, int] = {}
    takers: dict[str, set[str]] = {}
    for want in wants:
        room = ledger.rooms(want.shape).room
        on = room.keys() if names is None or not want.shape.needs.jointly else {*names} & {*room}
        if len(on) > _NODES:
            return False
        for resource, amount in each(want.shape).items():
            demand[resource] = demand.get(resource, 0) + amount * want.count
            takers.setdefault(resource, set()).update(on)
    return all(
        any(resource not in ledger.free(name) for name in takers[resource])
        or ledger.free_in(takers[resource], resource) >= amount
        for resource, amount in demand.items()
    )


def _common_domains(ledger: NodeLedger, wants: Sequence[Want]) -> Iterator[Sequence[str] | None]:
    """Yield the names of nodes that are to be tried, None for all.

    Where all pod sets must be in one domain, these are the nodes of one domain after the other of
    those that may have room, the one with the least room for the largest pods first.
    """
    joint = [want for want in wants if want.shape.needs.jointly]
    if not joint:
        yield None
        return
    rooms = [ledger.rooms(want.shape).room for want in joint]
    demand: dict[str, int] = {}
    for want in joint:
        for resource, amount in want.shape.needs.requests:
            demand[resource] = demand.get(resource, 0) + amount * want.count
    enough = []
    for domain, names in ledger.domains(joint[0].shape.needs.jointly).items():
        counts = [sum(room.get(name, 0) for name in names) for room in rooms]
        if any(count < want.count for want, count in zip(joint, counts, strict=True)):
            continue
        if all(
            ledger.free_in(names, resource) >= amount
            for resource, amount in demand.items()
            if ledger.is_declared(resource)
        ):
            enough.append((counts[0], domain, names))
    for _, _, names in sorted(enough)[:MOST_DOMAINS]:
        yield names


def lacking(ledger: NodeLedger, wants: Sequence[Want]) -> tuple[Want, ...]:
    """Return the pod sets that have no room by themselves."""
    return tuple(want for want in wants if not ledger.fits(want))


def _largest_first(want: Want) -> tuple[int, int, str]:
    amounts = dict(want.shape.needs.requests)
    devices = sum(amounts[name] for name in want.shape.needs.devices)
    return -devices, -amounts.get("cpu", 0), want.pod_set


def _fill(
    ledger: NodeLedger, wants: Sequence[Want], names: Sequence[str] | None
) -> tuple[Place, ...] | None:
    """Give each pod set the nodes that are left most full; None where one does not fit then.

    Pod sets that must be in one domain get nodes of these names, if any are given.
    """
    places: list[Place] = []
    try:
        for want in wants:
            chosen = _choose(ledger, want, names)
            if chosen is None:
                return None
            places += chosen
            ledger.take(wants, chosen)
        return tuple(places)
    finally:
        ledger.take(wants, places, -1)


def _choose(ledger: NodeLedger, want: Want, names: Sequence[str] | None) -> list[Place] | None:
    """Nodes for the pods of one pod set; where they are together, those with the least room."""
    rooms = ledger.rooms(want.shape)
    needs = want.shape.needs
    if not needs.jointly:
        names = None
    if names is None and rooms.fitting(want.count, ledger.labels) < want.count:
        return None
    if not needs.together or (names is not None and needs.together == needs.jointly):
        return _choose_within(ledger, want, None, names)
    by_domain = rooms.by_domain(ledger.labels, names)
    enough = sorted((room, domain) for domain, room in by_domain.items() if room >= want.count)
    for _, domain in enough:
        chosen = _choose_within(ledger, want, domain, names)
        if chosen is not None:
            return chosen
    return None


def _choose_within(
    ledger: NodeLedger,
    want: Want,
    domain: tuple[str, ...] | None,
    names: Sequence[str] | None,
) -> list[Place] | None:
    """Nodes for the pods of one pod set in one domain; of any where it is None."""
    rooms, limits = ledger.rooms(want.shape), _Limits(ledger, want)
    chosen: dict[str, int] = {}
    left = want.count

    def is_excluded(node: str) -> bool:
        if domain is not None and predicate.together(node, ledger.labels(node), want.shape) != (
            domain
        ):
            return True
        return not limits.allows(node, chosen, rooms.room)

    while left > 0:
        name = rooms.best(left, is_excluded, names)
        if name is None:
            return None
        count = min(left, limits.most(name, chosen, rooms.room))
        chosen[name] = chosen.get(name, 0) + count
        left -= count
    return [Place(want.pod_set, name, count) for name, count in chosen.items()]


class _Limits:
    """How many pods of a pod set a node may get beside those it has, by labels of nodes."""

    def __init__(self, ledger: NodeLedger, want: Want) -> None:
        self._ledger = ledger
        self._shape, needs = want.shape, want.shape.needs
        rooms = ledger.rooms(want.shape)
        self._limits: list[tuple[str, int]] = [(key, 1) for key in needs.apart if key != HOSTNAME]
        for constraint in needs.spread:
            domains: dict[str, int] = {}
            for name in rooms.taker_names():
                domain = self._domain(name, constraint.key)
                if domain is not None:
                    domains[domain] = domains.get(domain, 0) + rooms.room.get(name, 0)
            fewest = min(domains.values(), default=0)
            self._limits.append((constraint.key, fewest + constraint.max_skew))

    def _together(self, name: str) -> tuple[str, ...]:
        return predicate.together(name, self._ledger.labels(name), self._shape)

    def _domain(self, name: str, key: str) -> str | None:
        return name if key == HOSTNAME else self._ledger.labels(name).get(key)

    def most(self, name: str, chosen: dict[str, int], room: dict[str, int]) -> int:
        """Return how many more pods a node may get."""
        room_left = room.get(name, 0) - chosen.get(name, 0)
        if self._shape.needs.together and chosen:
            first = next(iter(chosen))
            if self._together(first) != self._together(name):
                return 0
        for key, limit in self._limits:
            domain = self._domain(name, key)
            if domain is not None:
                in_domain = sum(
                    n for node, n in chosen.items() if self._domain(node, key) == domain
                )
                room_left = min(room_left, limit - in_domain)
        return room_left

    def allows(self, name: str, chosen: dict[str, int], room: dict[str, int]) -> bool:
        """Return whether a node may get another pod."""
        return self.most(name, chosen, room) > 0


@dataclass(frozen=True, slots=True)
class _PodSetNodes:
    """The nodes that may get the pods of one pod set, beside all that have a place before it.

    Attributes:
        index: which of the pod sets it is.
        room: how many of the pods each node takes.
        chosen: how many of them each node gets in the way that is tried.
    """

    index: int
    want: Want
    names: Sequence[str]
    room: dict[str, int]
    limits: _Limits
    chosen: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _NodeCount:
    """How many pods of a pod set a node gets in the way that is tried.

    Attributes:
        at: which of the nodes it is.
        left: how many pods had no node before it.
        count: how many it gets.
    """

    nodes: _PodSetNodes
    at: int
    left: int
    count: int


class _AllWays:
    """All ways to put the pods of several pod sets on nodes, depth first.

    What is tried out is kept in a list: a way has as many counts as pod sets times nodes, and the
    interpreter allows fewer calls within each other.
    """

    def __init__(
        self,
        ledger: NodeLedger,
        wants: Sequence[Want],
        names: Sequence[str] | None,
        steps: _Steps,
    ) -> None:
        self._ledger = ledger
        self._wants = wants
        self._nodes = names
        self._steps = steps
        self._places: list[Place] = []
        self._counts: list[_NodeCount] = []

    def run(self) -> tuple[Place, ...] | None:
        """Return the first way; None where there is none, or none was seen in time."""
        try:
            return tuple(self._places) if self._is_found() else None
        finally:
            self._ledger.take(self._wants, self._places, -1)

    def _is_found(self) -> bool:
        """Look for a way; its places are taken in the ledger then.

        A node gets as many pods as it takes, then one less and so on; the last node first.
        """
        position = self._begin(0)
        while True:
            if position is None:
                position = self._after_other_count()
            if position is None:
                return False
            if not self._steps.left:
                return False
            self._steps.left -= 1
            nodes, at, left = position
            if not left:
                if nodes.index + 1 == len(self._wants):
                    return True
                position = self._begin(nodes.index + 1)
            elif at == len(nodes.names):
                position = None
            else:
                room = nodes.limits.most(nodes.names[at], nodes.chosen, nodes.room)
                count = _NodeCount(nodes, at, left, min(left, max(0, room)))
                self._counts.append(count)
                position = self._put(count)

    def _begin(self, index: int) -> tuple[_PodSetNodes, int, int] | None:
        """Return a pod set before its first node; None where it has no room beside the others."""
        want = self._wants[index]
        within = self._nodes if want.shape.needs.jointly else None
        if within is None and not self._ledger.fits(want):
            return None
        rooms = self._ledger.rooms(want.shape)
        names = sorted(rooms.room if within is None else rooms.room.keys() & set(within))
        room = {name: rooms.room[name] for name in names}
        limits = _Limits(self._ledger, want)
        return _PodSetNodes(index, want, names, room, limits), 0, want.count

    def _after_other_count(self) -> tuple[_PodSetNodes, int, int] | None:
        """Return what comes after the last node that can get a pod less; None if none can."""
        while self._counts:
            last = self._counts[-1]
            if last.count:
                self._take_back(last)
                last.count -= 1
                return self._put(last)
            self._counts.pop()
        return None

    def _put(self, count: _NodeCount) -> tuple[_PodSetNodes, int, int]:
        """Count pods on a node; return the next node with the pods that are left for it."""
        nodes, name = count.nodes, count.nodes.names[count.at]
        if count.count:
            place = Place(nodes.want.pod_set, name, count.count)
            self._ledger.take((nodes.want,), (place,))
            self._places.append(place)
            nodes.chosen[name] = count.count
        return nodes, count.at + 1, count.left - count.count

    def _take_back(self, count: _NodeCount) -> None:
        self._ledger.take((count.nodes.want,), (self._places.pop(),), -1)
        del count.nodes.chosen[count.nodes.names[count.at]]
