"""Which domains of a topology get the pods of a pod set, or of a leader and its workers.

1. Count up how many pods, and how many slices, every domain takes.
2. Choose domains of the level that is asked for, or of a wider one.
3. Deal the pods out to their domains on the next level, down to the narrowest.

Where pods should be close, as few domains as possible get them, and the last one is that with the
least room for the rest. Otherwise domains with the least room are filled first.

Source: kueue pkg/cache/scheduler/tas_flavor_snapshot.go and KEP-2724 (BestFit,
LeastFreeCapacity), with the default feature gates.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from admission.base.causes import (
    DomainsTooSmall,
    LayerFit,
    LayerNotBelow,
    LayerNotDividing,
    LevelNotInTopology,
    NodesExcluded,
    NoDomains,
    NoLevelAsked,
    SlicesAboveLevel,
    TopologyRefusal,
)
from admission.scheduling.topology.request import TopologyRequest
from admission.scheduling.topology.tree import Domain, DomainPath, DomainTree


class LeafRoom(NamedTuple):
    """What a domain of the narrowest level takes.

    Attributes:
        pods: how many.
        beside: how many beside a leader; without a leader, or where it takes none, as many as
            without one.
        hosts_leader: whether it takes the leader.
    """

    pods: int
    beside: int
    hosts_leader: bool = False


Excluded = Callable[[], NodesExcluded]


class DomainCount(NamedTuple):
    """Pods of a pod set in a domain of the narrowest level."""

    path: DomainPath
    pods: int


@dataclass(frozen=True, slots=True)
class DomainAsk:
    """What is to be placed.

    Attributes:
        request: how close the pods must be.
        count: pods of the pod set, or of the workers.
        has_leader: whether a leader is placed with them.
    """

    request: TopologyRequest
    count: int
    has_leader: bool = False


@dataclass(frozen=True, slots=True)
class PlacedPods:
    """Where pods go, sorted by path; a remainder that is no whole slice is left out.

    Attributes:
        pods: of the pod set, or of the workers.
        leader: the leader; none where there is none.
    """

    pods: tuple[DomainCount, ...]
    leader: tuple[DomainCount, ...] = ()


class _Room:
    """What a domain takes.

    Attributes:
        pods: how many.
        slices: how many slices, on the level of slices and above it; 0 below it.
        pods_beside: pods beside a leader.
        slices_beside: slices beside a leader.
        leaders: 1 where it takes a leader.
    """

    __slots__ = ("leaders", "pods", "pods_beside", "slices", "slices_beside")

    def __init__(self) -> None:
        self.pods = self.slices = self.pods_beside = self.slices_beside = self.leaders = 0


class _Share(NamedTuple):
    """What a domain gets."""

    domain: Domain
    pods: int
    leaders: int


class _Units(NamedTuple):
    """What is dealt out: slices, or pods one by one.

    Attributes:
        size: pods of one.
        is_inside: whether this is below the level of slices.
    """

    size: int
    is_inside: bool

    def of(self, room: _Room) -> int:
        """Return how many a domain takes."""
        return room.pods // self.size if self.is_inside else room.slices

    def beside(self, room: _Room) -> int:
        """Return how many a domain takes beside a leader."""
        return room.pods_beside // self.size if self.is_inside else room.slices_beside

    def rank(self, room: _Room) -> int:
        """Return by what domains are put in order first; inside a slice only pods count."""
        return 0 if self.is_inside else self.of(room)


@dataclass(frozen=True, slots=True)
class _Levels:
    """Where in the topology a request is.

    Attributes:
        first: index of the level that is searched first.
        slices: index of the level of slices; the narrowest one where there are none.
        size: pods of a slice; 1 where there are none.
        inside: size of inner slices by level, for their levels and those between.
    """

    first: int
    slices: int
    size: int
    inside: Mapping[int, int]


def place(
    tree: DomainTree,
    topology: str,
    ask: DomainAsk,
    rooms: Mapping[int, LeafRoom],
    excluded: Excluded,
) -> PlacedPods | TopologyRefusal:
    """Return where pods go, or why they cannot be placed.

    Args:
        tree: the domains.
        topology: name of the topology.
        ask: what is to be placed.
        rooms: what the domains of the narrowest level take, by index; others take nothing.
        excluded: returns how many nodes take no pod; asked where there is a refusal.
    """
    levels = _resolve(tree, ask.request)
    if not isinstance(levels, _Levels):
        return levels
    return _DomainSearch(tree, topology, ask, levels, rooms, excluded).run()


def _resolve(tree: DomainTree, request: TopologyRequest) -> _Levels | TopologyRefusal:
    """Find the levels of a request in a topology."""
    level = request.level(tree.levels)
    if not level:
        return NoLevelAsked()
    missing = request.missing_level(tree.levels)
    if missing:
        return LevelNotInTopology(missing)
    first, last = tree.levels.index(level), len(tree.levels) - 1
    if not request.layers:
        return _Levels(first, last, 1, {})
    outer = request.layers[0]
    slices = at = tree.levels.index(outer.level)
    if first > slices:
        return SlicesAboveLevel(outer.level, level)
    inside: dict[int, int] = {}
    size = outer.size
    for layer in request.layers[1:]:
        below = tree.levels.index(layer.level)
        if below <= at:
            return LayerNotBelow(layer.level, tree.levels[at])
        if size % layer.size:
            return LayerNotDividing(layer.size, size)
        inside |= dict.fromkeys(range(at + 1, below + 1), layer.size)
        at, size = below, layer.size
    return _Levels(first, slices, outer.size, inside)


class _DomainSearch:
    """One search."""

    def __init__(
        self,
        tree: DomainTree,
        topology: str,
        ask: DomainAsk,
        levels: _Levels,
        rooms: Mapping[int, LeafRoom],
        excluded: Excluded,
    ) -> None:
        self._tree = tree
        self._topology = topology
        self._ask = ask
        self._levels = levels
        self._excluded = excluded
        self._is_tight = not ask.request.takes_least_free
        self._leaders = int(ask.has_leader)
        self._slices = ask.count // levels.size
        self._rooms = self._count_up(rooms)

    def run(self) -> PlacedPods | TopologyRefusal:
        """Return where pods go, or why they cannot be placed."""
        chosen = self._choose()
        if not isinstance(chosen, list):
            return chosen
        last = len(self._tree.levels) - 1
        size, at = self._levels.size, chosen[0].level
        outer = _Units(size, is_inside=False)
        shares = self._deal(chosen, self._ask.count, self._leaders, outer)
        while at < min(last, self._levels.slices):
            at += 1
            children = [child for share in shares for child in share.domain.children]
            shares = self._deal(
                self._in_order(children, outer), self._ask.count, self._leaders, outer
            )
        while at < last:
            at += 1
            units = _Units(self._levels.inside.get(at, 1), is_inside=True)
            shares = [
                child
                for domain, pods, leaders in shares
                for child in self._deal(
                    self._in_order(domain.children, units), pods, leaders, units
                )
            ]
        shares.sort(key=lambda share: share.domain.path)
        return PlacedPods(
            tuple(DomainCount(share.domain.path, share.pods) for share in shares if share.pods),
            tuple(DomainCount(share.domain.path, 1) for share in shares if share.leaders),
        )

    # -------------------------------------------------------------------------- counting up

    def _count_up(self, leaves: Mapping[int, LeafRoom]) -> list[_Room]:
        """What every domain takes, by its index."""
        rooms = [_Room() for _ in self._tree.domains]
        levels = self._levels
        for domain in reversed(self._tree.domains):
            room = rooms[domain.index]
            if not domain.children:
                leaf = leaves.get(domain.index)
                if leaf is None:
                    continue
                room.pods, room.pods_beside = leaf.pods, leaf.beside
                room.leaders = int(leaf.hosts_leader)
            else:
                self._add_up(room, [rooms[child.index] for child in domain.children], domain.level)
            if domain.level == levels.slices:
                room.slices = room.pods // levels.size
                room.slices_beside = room.pods_beside // levels.size
        return rooms

    def _add_up(self, room: _Room, children: Sequence[_Room], level: int) -> None:
        """Count what the children of a domain take together.

        Beside a leader that is the sum less what the leader costs the child where it costs least.
        """
        size = self._levels.inside.get(level + 1, 1)
        lost_pods = lost_slices = -1
        for child in children:
            pods = child.pods - child.pods % size
            room.pods += pods
            room.slices += child.slices
            if self._leaders and not child.leaders:
                continue
            room.leaders |= child.leaders
            lost = pods - (child.pods_beside - child.pods_beside % size)
            lost_pods = lost if lost_pods < 0 else min(lost_pods, lost)
            lost = child.slices - child.slices_beside
            lost_slices = lost if lost_slices < 0 else min(lost_slices, lost)
        if lost_pods >= 0:
            room.pods_beside = room.pods - lost_pods
            room.slices_beside = room.slices - lost_slices

    # ----------------------------------------------------------------------------- choosing

    def _choose(self) -> list[Domain] | TopologyRefusal:
        """Domains of one level that take all pods together."""
        level = self._levels.first
        while True:
            domains = self._tree.by_level[level]
            if not domains:
                return NoDomains(self._tree.levels[level])
            ordered = self._in_order_for_leader(domains)
            single = self._single(ordered)
            if single is not None:
                return [single]
            if self._ask.request.required:
                return self._too_small(level, self._rooms[ordered[0].index].slices)
            if not level or not self._is_tight:
                return self._several(ordered, level)
            level -= 1

    def _single(self, ordered: Sequence[Domain]) -> Domain | None:
        """The domain with the least room that takes all, the first one of equal ones."""
        units = _Units(self._levels.size, is_inside=False)
        return self._tightest(ordered, self._slices, self._leaders, units)

    def _several(self, ordered: list[Domain], level: int) -> list[Domain] | TopologyRefusal:
        units = _Units(self._levels.size, is_inside=False)
        chosen: list[Domain] = []
        left = self._slices
        if self._leaders:
            ordered = self._affording_first(ordered, left, units)
            if not self._rooms[ordered[0].index].leaders:
                return self._too_small(level, 0)
            host = self._next(ordered, left, 1, units)
            chosen.append(host)
            left -= self._rooms[host.index].slices_beside
            ordered = self._in_order(ordered[1:], units)
        for index in range(len(ordered)):
            if left <= 0:
                break
            domain = self._next(ordered[index:], left, 0, units)
            chosen.append(domain)
            left -= self._rooms[domain.index].slices
        return self._too_small(level, self._slices - left) if left > 0 else chosen

    def _next(self, domains: Sequence[Domain], count: int, leaders: int, units: _Units) -> Domain:
        """The first domain; where it takes all that is left, the one that does with least room."""
        room = self._rooms[domains[0].index]
        takes = units.beside(room) if leaders else units.of(room)
        if not self._is_tight or takes < count or room.leaders < leaders:
            return domains[0]
        return self._tightest(domains, count, leaders, units) or domains[0]

    def _tightest(
        self, domains: Iterable[Domain], count: int, leaders: int, units: _Units
    ) -> Domain | None:
        """The domain with the least room that takes so many, the first one of equal ones."""
        tightest: Domain | None = None
        least = 0
        for domain in domains:
            room = self._rooms[domain.index]
            if room.leaders < leaders:
                continue
            takes = units.beside(room) if leaders else units.of(room)
            if takes >= count and (tightest is None or takes < least):
                tightest, least = domain, takes
        return tightest

    def _affording_first(self, domains: list[Domain], count: int, units: _Units) -> list[Domain]:
        """Move the first domain to the front that can take the leader without loss of the rest."""
        total = sum(units.of(self._rooms[domain.index]) for domain in domains)
        for index, domain in enumerate(domains):
            room = self._rooms[domain.index]
            if room.leaders and total - (units.of(room) - units.beside(room)) >= count:
                return [domain, *domains[:index], *domains[index + 1 :]]
        return domains

    def _in_order(self, domains: Iterable[Domain], units: _Units) -> list[Domain]:
        sign = -1 if self._is_tight else 1

        def key(domain: Domain) -> tuple[int, int, DomainPath]:
            room = self._rooms[domain.index]
            return sign * units.rank(room), room.pods, domain.path

        return sorted(domains, key=key)

    def _in_order_for_leader(self, domains: Iterable[Domain]) -> list[Domain]:
        """Domains that take the leader first, by what they take beside it."""
        sign = -1 if self._is_tight else 1

        def key(domain: Domain) -> tuple[int, int, int, DomainPath]:
            room = self._rooms[domain.index]
            return -room.leaders, sign * room.slices_beside, room.pods_beside, domain.path

        return sorted(domains, key=key)

    # ------------------------------------------------------------------------------ dealing

    def _deal(self, domains: list[Domain], pods: int, leaders: int, units: _Units) -> list[_Share]:
        """Give pods to domains in order, until all are dealt out.

        Domains that get neither pods nor a leader are left out.
        """
        left = pods // units.size
        shares: list[_Share] = []
        if leaders and len(domains) > 1:
            domains = self._affording_first(domains, left, units)
        for index in range(len(domains)):
            takes = units.beside if leaders else units.of
            domain = self._next(domains[index:], left, leaders, units)
            room = self._rooms[domain.index]
            count = min(takes(room), left)
            hosted = min(room.leaders, leaders)
            if count or hosted:
                shares.append(_Share(domain, count * units.size, hosted))
            left -= count
            leaders -= hosted
            if not left and not leaders:
                break
        return shares

    # ----------------------------------------------------------------------------- refusing

    def _too_small(self, level: int, fitting: int) -> DomainsTooSmall:
        request = self._ask.request
        layers: tuple[LayerFit, ...] = ()
        if self._levels.inside:
            best = min(
                self._tree.by_level[level],
                key=lambda domain: (-self._rooms[domain.index].slices, domain.path),
            )
            layers = tuple(
                LayerFit(
                    layer.level,
                    self._slices_in(best, self._tree.levels.index(layer.level), layer.size),
                    self._ask.count // layer.size,
                )
                for layer in request.layers
            )
        return DomainsTooSmall(
            topology=self._topology,
            level=self._tree.levels[level],
            fitting=fitting,
            needed=self._slices,
            size=self._levels.size,
            is_one=bool(request.required),
            layers=layers,
            excluded=self._excluded(),
        )

    def _slices_in(self, domain: Domain, level: int, size: int) -> int:
        if domain.level == level:
            return self._rooms[domain.index].pods // size
        return sum(self._slices_in(child, level, size) for child in domain.children)
