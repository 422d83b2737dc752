"""The domains of every flavor with a topology, and where pods go in them now."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from admission.base.causes import (
    DomainsTooSmall,
    GroupWithoutLeader,
    NodesExcluded,
    SlicesNotWhole,
    TopologyRefusal,
)
from admission.base.names import FlavorName, PodSetName
from admission.scheduling.model import PodDomains, ResourceFlavor, SpareNodes
from admission.scheduling.places import predicate
from admission.scheduling.places.ledger import NodeLedger, each
from admission.scheduling.places.model import (
    CORDONED,
    HOSTNAME,
    NOT_READY,
    Amounts,
    Node,
    Place,
    PodShape,
    Want,
)
from admission.scheduling.topology import leaves, replacement
from admission.scheduling.topology.leaves import Leaf
from admission.scheduling.topology.plan import FreeLeaves, joint_depth, plan
from admission.scheduling.topology.request import ANYWHERE
from admission.scheduling.topology.search import DomainCount, Excluded, LeafRoom
from admission.scheduling.topology.spares import FlavorSpares
from admission.scheduling.topology.tree import DomainPath, DomainTree

_SHAPES: Final = 64
"""Shapes of pods of which it is kept what the domains of a flavor take."""
_NOTHING: Final[Amounts] = {}
_PAIR: Final = 2
"""Pod sets of a group: a leader and its workers."""
_AWAY: Final = frozenset({CORDONED.key, NOT_READY.key})


class _FlavorTree(NamedTuple):
    """The domains of one flavor.

    Attributes:
        tree: the domains.
        paths: the narrowest domain of each node.
        nodes: the nodes of each of these domains, sorted.
        labelled: the nodes of every domain, usable ones first and then sorted; what is assigned
            stays assigned while a node is away.
        shown: these domains by the values by which Workloads tell them.
    """

    tree: DomainTree
    paths: Mapping[str, DomainPath]
    nodes: Mapping[DomainPath, tuple[str, ...]]
    labelled: Mapping[DomainPath, tuple[str, ...]]
    shown: Mapping[tuple[str, ...], DomainPath]


class _Rooms(NamedTuple):
    """What the domains of a flavor take of a shape, as it was counted last.

    Attributes:
        version: of the ledger when it was counted.
        takes: what each domain with room takes, by its index.
        spares: the spare nodes that were left out, by the domain that keeps them.
    """

    version: int
    takes: dict[int, LeafRoom]
    spares: dict[DomainPath, tuple[str, ...]]


class _Answer(NamedTuple):
    """Where pods go, at one version of the ledger.

    Attributes:
        places: where all of them go; None where some are refused.
        refused: why pod sets get no domain.
    """

    places: tuple[Place, ...] | None
    refused: Mapping[PodSetName, TopologyRefusal]


ToldPods: TypeAlias = Mapping[str, Sequence[tuple[Mapping[str, str], str]]]
"""Node selector and node of each pod that has its domain, by pod set."""


class Completed(NamedTuple):
    """Domains of pods of which some had theirs.

    Attributes:
        domains: of all of them; none where they are in no domain.
        coming: where those will be that are on no node.
        first: one of the domains; None for none.
    """

    domains: PodDomains
    coming: tuple[Place, ...]
    first: DomainPath | None


class AwayHost(NamedTuple):
    """A host on which assigned pods cannot start.

    Attributes:
        host: its hostname.
        node: name of the node; empty where there is none any more.
    """

    host: str
    node: str


class Topologies:
    """Topologies and flavors, and what is free in their domains."""

    def __init__(
        self, ledger: NodeLedger, nodes_of: Callable[[FlavorName], Iterable[str]]
    ) -> None:
        """Know no topology yet.

        Args:
            ledger: what is free on each node.
            nodes_of: returns the nodes that have the labels of a flavor.
        """
        self._ledger = ledger
        self._nodes_of = nodes_of
        self._levels: dict[str, tuple[str, ...]] = {}
        self._topology_of: dict[FlavorName, str] = {}
        self._spares: dict[FlavorName, SpareNodes] = {}
        self._trees: dict[FlavorName, _FlavorTree] = {}
        self._flavor_spares: dict[FlavorName, FlavorSpares] = {}
        """The spare nodes of flavors, as far as anybody asked for them."""
        self._rooms: dict[FlavorName, dict[PodShape, _Rooms]] = {}
        """What domains take, by flavor and shape."""
        self._answered: tuple[int, dict[tuple[tuple[Want, ...], bool], _Answer]] = (-1, {})
        self._unresolved: dict[FlavorName, None] = {}
        """Flavors in which somebody is assigned a domain that no node has."""

    def __bool__(self) -> bool:
        """Return whether any flavor has a topology."""
        return bool(self._topology_of)

    # ---------------------------------------------------------------------------------- seeing

    def set_topology(self, name: str, levels: tuple[str, ...]) -> bool:
        """Add or replace a topology; return whether its levels are others than before."""
        if self._levels.get(name) == levels:
            return False
        self._levels[name] = levels
        self._forget(name)
        return True

    def drop_topology(self, name: str) -> None:
        """Forget a topology."""
        self._levels.pop(name, None)
        self._forget(name)

    def _forget(self, topology: str) -> None:
        for flavor, name in self._topology_of.items():
            if name == topology:
                self.changed((flavor,))

    def set_flavor(self, flavor: ResourceFlavor) -> None:
        """Add or replace a flavor."""
        self.drop_flavor(flavor.name)
        if flavor.topology:
            self._topology_of[flavor.name] = flavor.topology
            if flavor.spare_nodes is not None:
                self._spares[flavor.name] = flavor.spare_nodes

    def drop_flavor(self, name: FlavorName) -> None:
        """Forget a flavor."""
        self._topology_of.pop(name, None)
        self._spares.pop(name, None)
        self._flavor_spares.pop(name, None)
        self.changed((name,))

    def changed(self, flavors: Iterable[FlavorName]) -> None:
        """Take that flavors have other nodes than before, or nodes with other labels."""
        for flavor in flavors:
            self._trees.pop(flavor, None)
            self._rooms.pop(flavor, None)
        self._answered = (-1, {})

    # --------------------------------------------------------------------------------- answers

    def topology(self, flavor: FlavorName) -> str:
        """Return the topology of a flavor; empty where it has none."""
        return self._topology_of.get(flavor, "")

    def levels(self, flavor: FlavorName) -> tuple[str, ...]:
        """Return the levels of a flavor; none where it has no topology, or one that is unknown."""
        return self._levels.get(self._topology_of.get(flavor, ""), ())

    def find(self, wants: Sequence[Want]) -> tuple[Place, ...] | None:
        """Return places for all pods in domains as they are asked for; None where there are none.

        Args:
            wants: pods with a request, in the order of the spec.
        """
        return self._answer(tuple(wants), is_empty=False).places

    def refused(self, wants: Sequence[Want]) -> Mapping[PodSetName, TopologyRefusal]:
        """Return why pods get no domain now, by pod set; the search stops at the first."""
        return self._answer(tuple(wants), is_empty=False).refused

    def never(self, wants: Sequence[Want]) -> Mapping[PodSetName, TopologyRefusal]:
        """Return why pods get no domain even if all workloads were gone, in words of now."""
        if self.find(wants) is not None:
            return {}
        answer = self._answer(tuple(wants), is_empty=True)
        return self.refused(wants) if answer.places is None else {}

    def domains(
        self, wants: Iterable[Want], places: Iterable[Place]
    ) -> dict[PodSetName, PodDomains]:
        """Return the domains of places, by pod set, as a Workload tells them."""
        flavors = {want.pod_set: self._flavor(want) for want in wants if want.request is not None}
        counts: dict[PodSetName, dict[DomainPath, int]] = {}
        for place in places:
            if place.pod_set in flavors:
                path = self._tree(flavors[place.pod_set]).paths[place.node]
                domains = counts.setdefault(place.pod_set, {})
                domains[path] = domains.get(path, 0) + place.count
        return {
            pod_set: _told(self.levels(flavor), counts.get(pod_set, {}))
            for pod_set, flavor in flavors.items()
        }

    def places(
        self, want: Want, domains: PodDomains, assigned: Mapping[str, int]
    ) -> tuple[Place, ...]:
        """Return the nodes of domains that a Workload tells; none of those that are gone.

        Nodes that are not usable are told, too: the pods of a Workload go back there. In a domain
        of several nodes pods stay on those that they have.

        Args:
            want: the pods.
            domains: as the Workload tells them.
            assigned: how many of the pods are assigned to nodes already.
        """
        flavor = self._flavor(want)
        places: list[Place] = []
        for _, count, names in self._assigned_nodes(flavor, domains):
            kept = {name: assigned[name] for name in names if name in assigned}
            if not names:
                self._unresolved[flavor] = None
            elif sum(kept.values()) == count:
                places += (Place(want.pod_set, name, n) for name, n in kept.items())
            else:
                places += _spread(names, want, count, self._ledger.free)
        return tuple(places)

    def away(self, want: Want, domains: PodDomains) -> tuple[AwayHost, ...]:
        """Return the hosts of domains that are gone, not ready, or repel the pods.

        None where the domains are no hosts: pods can be on others of their nodes.
        """
        if not _are_hosts(domains):
            return ()
        hosts: list[AwayHost] = []
        for values, _, names in self._assigned_nodes(self._flavor(want), domains):
            nodes = [self._ledger.nodes[name] for name in names]
            if not nodes:
                hosts.append(AwayHost(values[-1], ""))
            elif all(_repels(node, want.shape) for node in nodes):
                hosts.append(AwayHost(values[-1], nodes[0].name))
        return tuple(hosts)

    def _assigned_nodes(
        self, flavor: FlavorName, domains: PodDomains
    ) -> Iterator[tuple[tuple[str, ...], int, tuple[str, ...]]]:
        """Values and pods of each domain, and its nodes, usable ones first; none if all are gone.

        The levels of the assignment say what its values are: the topology may have been made anew
        with others. A host is one also where the flavor has its labels no more.
        """
        tree, levels = self._tree(flavor), self.levels(flavor)
        are_hosts = _are_hosts(domains)
        is_shown = domains.levels[-1:] == levels[-1:] if are_hosts else domains.levels == levels
        nodes_by_values: Mapping[tuple[str, ...], tuple[str, ...]] | None = None
        for values, count in domains.counts:
            key = values[-1:] if are_hosts else values
            path = tree.shown.get(key) if is_shown else None
            if path is not None:
                yield values, count, tree.labelled[path]
                continue
            if nodes_by_values is None:
                among = self._ledger.nodes if are_hosts else self._nodes_of(flavor)
                nodes_by_values = self._by_values(
                    (HOSTNAME,) if are_hosts else domains.levels, among
                )
            yield values, count, nodes_by_values.get(key, ())

    def _by_values(
        self, levels: tuple[str, ...], names: Iterable[str]
    ) -> dict[tuple[str, ...], tuple[str, ...]]:
        """Nodes by their values of levels, usable ones first and then sorted."""
        nodes: dict[tuple[str, ...], list[tuple[bool, str]]] = {}
        for name in names:
            node = self._ledger.nodes[name]
            values = _path(node, levels)
            if values is not None:
                nodes.setdefault(values, []).append((not is_usable(node), name))
        return {
            values: tuple(name for _, name in sorted(members)) for values, members in nodes.items()
        }

    def replaced(
        self,
        want: Want,
        domains: PodDomains,
        lost: Collection[str],
        beside: Iterable[PodDomains] = (),
    ) -> PodDomains | TopologyRefusal:
        """Return the domains of pods once lost hosts are replaced.

        Args:
            want: the pods.
            domains: where they are.
            lost: the hosts that are lost, of these and others.
            beside: where the pods of the other pod sets are that must be in one domain with them.
        """
        hosts = {values[-1] for values, _ in domains.counts} if _are_hosts(domains) else set()
        lost_here = hosts.intersection(lost)
        if not lost_here:
            return domains
        flavor = self._flavor(want)
        tree, levels = self._tree(flavor), self.levels(flavor)
        shown = tree.shown if levels[-1:] == (HOSTNAME,) else {}
        together = min(lost_here)
        placed = [
            (
                together if values[-1] in lost_here else values[-1],
                None if values[-1] in lost_here else shown.get(values[-1:]),
                count,
            )
            for values, count in domains.counts
        ]
        free = self.all_leaves(flavor, self._ledger.free)
        answer = replacement.replaced(
            tree.tree,
            self.topology(flavor),
            want.request or ANYWHERE,
            placed,
            together,
            partial(free.rooms, want.shape, None),
            self._near(want, beside, lost),
        )
        if not isinstance(answer, tuple):
            return answer
        counts, _ = answer
        return _told(levels, {domain.path: domain.pods for domain in counts})

    def _near(self, want: Want, beside: Iterable[PodDomains], lost: Collection[str]) -> DomainPath:
        """Return the domain in which pods must be because those of other pod sets are there."""
        tree = self._tree(self._flavor(want))
        depth = joint_depth(tree.tree, want.shape)
        hosts = (
            values[-1] for domains in beside if _are_hosts(domains) for values, _ in domains.counts
        )
        paths = (tree.shown.get((host,)) for host in hosts if host not in lost)
        return next((path[:depth] for path in paths if path is not None), ())

    def completed(
        self,
        want: Want,
        pods: Iterable[tuple[Mapping[str, str], str]],
        near: DomainPath | None = None,
    ) -> Completed | TopologyRefusal:
        """Return domains for pods of which some have theirs, and none is assigned.

        Args:
            want: all of the pods.
            pods: of each that has its domain: the node selector, and the name of its node, which
                may be empty.
            near: a domain of pods of the same group; None for none.
        """
        flavor = self._flavor(want)
        tree, levels = self._tree(flavor), self.levels(flavor)
        shown = levels[len(levels) - _shown(levels) :]
        counts: dict[DomainPath, int] = {} if near is None else {near: 0}
        coming: list[Place] = []
        left = want.count
        for selector, node in pods:
            labels = self._ledger.labels(node)
            values = tuple(selector.get(level) or labels.get(level, "") for level in shown)
            path = tree.shown.get(values)
            left -= 1
            if path is None:
                continue  # a pod that is in no domain is where it is
            counts[path] = counts.get(path, 0) + 1
            if not node:
                coming += _spread(tree.labelled[path], want, 1, self._ledger.free)
        places = tuple(coming)
        if left > 0:
            self._ledger.take((want,), places)
            try:
                free = self.all_leaves(flavor, self._ledger.free)
                answer = replacement.replaced(
                    tree.tree,
                    self.topology(flavor),
                    want.request or ANYWHERE,
                    [*(("/".join(path), path, n) for path, n in counts.items()), ("", None, left)],
                    "",
                    partial(free.rooms, want.shape, None),
                )
                if not isinstance(answer, tuple):
                    return answer
                domains, anew = answer
                counts = {domain.path: domain.pods for domain in domains}
                for domain in anew:
                    names = tree.nodes[domain.path]
                    coming += _spread(names, want, domain.pods, self._ledger.free)
            finally:
                self._ledger.take((want,), places, -1)
        counts = {path: count for path, count in counts.items() if count}
        first = next(iter(sorted(counts)), near)
        return Completed(_told(levels, counts), tuple(coming), first)

    def take_unresolved(self, flavor: FlavorName) -> bool:
        """Return whether a domain of a flavor was assigned that no node had, and forget it."""
        return self._unresolved.pop(flavor, self) is None

    def flavors(self, topology: str) -> tuple[FlavorName, ...]:
        """Return the flavors with a topology."""
        return tuple(name for name, named in self._topology_of.items() if named == topology)

    def _answer(self, wants: tuple[Want, ...], *, is_empty: bool) -> _Answer:
        version, answers = self._answered
        if version != self._ledger.version:
            answers = {}
            self._answered = self._ledger.version, answers
        key = wants, is_empty
        if key not in answers:
            answers[key] = self._compute(wants, is_empty=is_empty)
        return answers[key]

    def _compute(self, wants: tuple[Want, ...], *, is_empty: bool) -> _Answer:
        """Place pods flavor by flavor, each beside what the flavors before it got."""
        refused = _unplaceable(wants)
        if refused:
            return _Answer(None, refused)
        places: list[Place] = []
        nodes = _NodesSupposed(self._ledger, is_empty=is_empty)
        for flavor in sorted({self._flavor(want) for want in wants}):
            of_flavor = [want for want in wants if self._flavor(want) == flavor]
            tree = self._tree(flavor)
            is_as_it_is = nodes.is_as_it_is
            spares = self._spare_nodes(flavor, nodes)
            free = partial(_free_beside, spares, nodes.free)
            lazy = _LazyLeaves(self, flavor, free, is_as_it_is=is_as_it_is)
            answer = plan(lazy, self.topology(flavor), of_flavor)
            refused |= {
                pod_set: replace(refusal, spares=len(spares))
                if spares and isinstance(refusal, DomainsTooSmall)
                else refusal
                for pod_set, refusal in answer.refused.items()
            }
            for want in of_flavor:
                for counts in answer.placed.get(want.pod_set, ()):
                    for place in _spread(tree.nodes[counts.path], want, counts.pods, free):
                        places.append(place)
                        nodes.take(want.shape, place)
        return _Answer(None if refused else tuple(places), refused)

    def _spare_nodes(self, flavor: FlavorName, nodes: "_NodesSupposed") -> Collection[str]:
        """Return the nodes of a flavor that are kept for whoever loses a node."""
        spares = self._spares_of(flavor)
        if spares is None:
            return ()
        return spares if nodes.is_as_it_is else spares.supposing(nodes.is_idle)

    def _spares_of(self, flavor: FlavorName) -> FlavorSpares | None:
        """Return the spare nodes of a flavor now; None where no level of it keeps any."""
        spare, levels = self._spares.get(flavor), self.levels(flavor)
        if spare is None or spare.level not in levels[:-1]:
            return None
        paths, spares = self._tree(flavor).paths, self._flavor_spares.get(flavor)
        if spares is None or spares.paths is not paths:
            depth = levels.index(spare.level) + 1
            noted = None if spares is None else spares.noted
            spares = FlavorSpares(self._ledger, paths, depth, spare.nodes, noted)
            self._flavor_spares[flavor] = spares
        spares.refresh()
        return spares

    def with_spares(self) -> tuple[FlavorName, ...]:
        """Return the flavors that say how many spare nodes domains keep."""
        return tuple(self._spares)

    def note_spares(self, flavor: FlavorName) -> bool:
        """Remember the spare nodes of a flavor as they are now, with nothing supposed.

        Returns:
            Whether they are others than at the last call.
        """
        spares = self._spares_of(flavor)
        return spares is not None and spares.note()

    def rooms(self, flavor: FlavorName, shape: PodShape) -> Mapping[int, LeafRoom]:
        """Return how many pods each domain of a flavor takes now; valid until the next change.

        Spare nodes take none. Only what has changed since the last call is counted anew.
        """
        kept = self._rooms.setdefault(flavor, {})
        entry = kept.get(shape)
        version = self._ledger.version
        changed = None if entry is None else self._ledger.changed_since(entry.version)
        tree, spares = self._tree(flavor), self._spares_of(flavor)
        if entry is None or changed is None:
            takes: dict[int, LeafRoom] = {}
            left_out = {} if spares is None else spares.by_domain()
            paths: Iterable[DomainPath] = tree.nodes
        else:
            _, takes, left_out = entry
            changed_nodes = dict.fromkeys(changed)
            if spares is not None:
                changed_nodes |= dict.fromkeys(_respared(spares, left_out, changed_nodes))
            paths = {tree.paths[name]: None for name in changed_nodes if name in tree.paths}
        free = partial(_free_beside, spares or (), self._ledger.free)
        for path in paths:
            leaf = self.leaf(flavor, path, free)
            room = leaves.room(leaf, shape)
            if room is None:
                takes.pop(leaf.domain.index, None)
            else:
                takes[leaf.domain.index] = room
        if len(kept) >= _SHAPES and shape not in kept:
            kept.clear()
        kept[shape] = _Rooms(version, takes, left_out)
        return takes

    def all_leaves(self, flavor: FlavorName, free: Callable[[str], Amounts]) -> FreeLeaves:
        """Return the domains of a flavor with what is free there."""
        tree = self._tree(flavor)
        return FreeLeaves(tree.tree, [self.leaf(flavor, path, free) for path in tree.nodes])

    def leaf(self, flavor: FlavorName, path: DomainPath, free: Callable[[str], Amounts]) -> Leaf:
        """Return a domain of the narrowest level with what is free there."""
        tree = self._tree(flavor)
        names = tree.nodes[path]
        if tree.tree.levels[-1] == HOSTNAME:
            return Leaf(tree.tree.leaves[path], free(names[0]), self._ledger.nodes[names[0]])
        total: dict[str, int] = {}
        for name in names:
            for resource, amount in free(name).items():
                total[resource] = total.get(resource, 0) + amount
        labels = dict(zip(tree.tree.levels, path, strict=True))
        return Leaf(tree.tree.leaves[path], total, labels=labels)

    def tree(self, flavor: FlavorName) -> DomainTree:
        """Return the domains of a flavor."""
        return self._tree(flavor).tree

    def _tree(self, flavor: FlavorName) -> _FlavorTree:
        tree = self._trees.get(flavor)
        if tree is None:
            tree = self._trees[flavor] = self._grown(flavor)
        return tree

    def _grown(self, flavor: FlavorName) -> _FlavorTree:
        levels = self.levels(flavor)
        paths: dict[str, DomainPath] = {}
        nodes: dict[DomainPath, list[str]] = {}
        away: dict[DomainPath, list[str]] = {}
        for name in sorted(self._nodes_of(flavor)):
            node = self._ledger.nodes[name]
            path = _path(node, levels)
            if path is None:
                continue
            if is_usable(node):
                paths[name] = path
                nodes.setdefault(path, []).append(name)
            else:
                away.setdefault(path, []).append(name)
        labelled = {
            path: (*nodes.get(path, ()), *away.get(path, ()))
            for path in dict.fromkeys((*nodes, *away))
        }
        shown = _shown(levels)
        return _FlavorTree(
            DomainTree(levels, nodes),
            paths,
            {path: tuple(names) for path, names in nodes.items()},
            labelled,
            {path[-shown:]: path for path in labelled},
        )

    def _flavor(self, want: Want) -> FlavorName:
        """The flavor by whose topology pods are placed; its topology is there."""
        return next(name for name in want.flavors if self.levels(name))


class _NodesSupposed:
    """What is free on nodes, and which are idle, beside pods that were placed by one question.

    Both are told from the same supposition.
    """

    def __init__(self, ledger: NodeLedger, *, is_empty: bool) -> None:
        """Suppose no pods yet.

        Args:
            ledger: what is on the nodes.
            is_empty: whether all workloads are supposed to be gone.
        """
        self._ledger = ledger
        self._is_empty = is_empty
        self._taken: dict[str, dict[str, int]] = {}

    @property
    def is_as_it_is(self) -> bool:
        """Return whether nothing is supposed but what the ledger supposes."""
        return not (self._is_empty or self._taken)

    def take(self, shape: PodShape, place: Place) -> None:
        """Suppose that pods are at a place."""
        used = self._taken.setdefault(place.node, {})
        for resource, amount in each(shape).items():
            used[resource] = used.get(resource, 0) + amount * place.count

    def free(self, name: str) -> Amounts:
        """Return what is free on a node."""
        ledger = self._ledger
        unused = ledger.without_workloads(name) if self._is_empty else ledger.free(name)
        used = self._taken.get(name)
        return {r: n - used.get(r, 0) for r, n in unused.items()} if used else unused

    def is_idle(self, name: str) -> bool:
        """Return whether no workload has pods on a node, or places there."""
        return name not in self._taken and (self._is_empty or self._ledger.is_idle(name))


class _LazyLeaves:
    """The domains of a flavor; all are looked at only where what is kept of them does not do."""

    def __init__(
        self,
        topologies: Topologies,
        flavor: FlavorName,
        free: Callable[[str], Amounts],
        *,
        is_as_it_is: bool,
    ) -> None:
        self._topologies = topologies
        self._flavor = flavor
        self._free = free
        self._is_as_it_is = is_as_it_is
        self._whole: FreeLeaves | None = None

    @property
    def tree(self) -> DomainTree:
        return self._topologies.tree(self._flavor)

    def take(self, counts: Sequence[DomainCount], shape: PodShape) -> None:
        self._all().take(counts, shape)
        self._is_as_it_is = False

    def rooms(
        self, shape: PodShape, leader: PodShape | None = None, within: DomainPath = ()
    ) -> tuple[Mapping[int, LeafRoom], Excluded]:
        if leader is None and not within and self._is_as_it_is:
            rooms = self._topologies.rooms(self._flavor, shape)
            return rooms, partial(self._excluded, shape)
        return self._all().rooms(shape, leader, within)

    def _excluded(self, shape: PodShape) -> NodesExcluded:
        _, excluded = self._all().rooms(shape)
        return excluded()

    def _all(self) -> FreeLeaves:
        if self._whole is None:
            self._whole = self._topologies.all_leaves(self._flavor, self._free)
        return self._whole


def _free_beside(spares: Collection[str], free: Callable[[str], Amounts], name: str) -> Amounts:
    """Return what is free on a node for a new workload: nothing on a spare one."""
    return _NOTHING if name in spares else free(name)


def _respared(
    spares: FlavorSpares, left_out: dict[DomainPath, tuple[str, ...]], changed: Iterable[str]
) -> Iterator[str]:
    """Yield the nodes that are spare now or were, and not both, and note those that are.

    Args:
        spares: those that are now.
        left_out: those that were, by domain.
        changed: the nodes that have changed since; the spares of other domains are the same.
    """
    for domain in {spares.domain(name): None for name in changed}:
        if domain is not None and left_out.get(domain, ()) != spares.of(domain):
            yield from sorted({*left_out.get(domain, ())} ^ {*spares.of(domain)})
            left_out[domain] = spares.of(domain)


def _unplaceable(wants: Iterable[Want]) -> dict[PodSetName, TopologyRefusal]:
    """Return why some pods would get no domain wherever there is room.

    Kueue leaves pods that fill no slice, and those beyond a leader and its workers in a group,
    without a domain: they never start.
    """
    refused: dict[PodSetName, TopologyRefusal] = {}
    groups: dict[str, list[Want]] = {}
    for want in wants:
        if want.request is not None and want.count % (size := want.request.slice_size):
            refused[want.pod_set] = SlicesNotWhole(want.count, size)
        if want.request is not None and want.request.group:
            groups.setdefault(want.request.group, []).append(want)
    for group, members in groups.items():
        counts = tuple(want.count for want in members)
        is_pair = len(counts) == _PAIR and 1 in counts
        if len(counts) > 1 and not is_pair:
            refusal = GroupWithoutLeader(group, counts)
            refused |= {want.pod_set: refusal for want in members}
    return refused


def _repels(node: Node, shape: PodShape) -> bool:
    """Return whether a node is not ready, or has a taint that pods do not tolerate."""
    is_ready = all(taint.key != NOT_READY.key for taint in node.taints)
    return not is_ready or predicate.repelling(node.taints, shape.tolerations) is not None


def is_usable(node: Node) -> bool:
    """Return whether a node counts in topologies: it is ready, and pods may be scheduled on it."""
    return all(taint.key not in _AWAY for taint in node.taints)


def _path(node: Node, levels: tuple[str, ...]) -> DomainPath | None:
    """The values of all levels; None where the node lacks the label of one."""
    values = tuple(node.labels.get(level) for level in levels)
    return None if None in values else tuple(value or "" for value in values)


def _spread(
    names: tuple[str, ...], want: Want, left: int, free: Callable[[str], Amounts]
) -> Iterable[Place]:
    """Give the pods of a domain to its nodes.

    What is free is counted in sum, so it can be on no node: the rest goes to the first one.
    """
    if len(names) == 1:
        return [Place(want.pod_set, names[0], left)]
    places: dict[str, int] = {}
    for name in names:
        count = min(left, predicate.copies(free(name), want.shape))
        if count:
            places[name] = count
            left -= count
    if left:
        places[names[0]] = places.get(names[0], 0) + left
    return [Place(want.pod_set, name, count) for name, count in places.items()]


def _are_hosts(domains: PodDomains) -> bool:
    """Return whether the domains that a Workload tells are hosts."""
    return domains.levels[-1:] == (HOSTNAME,)


def _shown(levels: tuple[str, ...]) -> int:
    """Of how many levels, from the narrowest on, Workloads tell the values: hosts by one."""
    return 1 if levels[-1:] == (HOSTNAME,) else len(levels)


def _told(levels: tuple[str, ...], counts: Mapping[DomainPath, int]) -> PodDomains:
    """Domains as a Workload tells them."""
    shown = _shown(levels)
    return PodDomains(
        levels[len(levels) - shown :],
        tuple((path[-shown:], count) for path, count in sorted(counts.items())),
    )
