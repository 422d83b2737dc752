"""Flavor assignment: one flavor per resource group and pod set.

Source: kueue pkg/scheduler/flavorassigner/flavorassigner.go.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple

from admission.base import amount, causes
from admission.base.causes import Capped, NoPlace, Refusal, Shortage
from admission.base.conditions import WaitReason
from admission.base.names import FlavorName, FlavorResource, PodSetName, ResourceName
from admission.scheduling import caps, node_labels, podsets, quota
from admission.scheduling.assignment import (
    SEVERITY,
    Assignment,
    Chance,
    Combination,
    FlavorChoice,
    Grade,
    LastAssignment,
    PodSetResult,
    of_nodes,
)
from admission.scheduling.caps import Caps
from admission.scheduling.decisions import Mode
from admission.scheduling.hierarchy import QueueNode
from admission.scheduling.model import (
    FlavorFungibility,
    PodSet,
    PreemptionPolicy,
    Preference,
    ResourceFlavor,
    ResourceGroup,
    SearchPolicy,
)
from admission.scheduling.places.enforcement import Refusals
from admission.scheduling.places.model import Want
from admission.scheduling.podsets import PODS, Demand
from admission.scheduling.preemption import candidates, targets
from admission.scheduling.preemption.candidates import Need, Preemptor, Target
from admission.scheduling.snapshot import Snapshot
from admission.scheduling.tolerations import untolerated

_WORST: Final = Grade(Chance.NO_FIT, 0)
_MOST_TRIES: Final = 64
"""How many combinations of flavors one search looks at.

An attempt makes three searches at most, so its cost does not grow with the number of combinations.
"""

Pins = Mapping[tuple[PodSetName, ResourceName], FlavorName]
"""Flavors that a repeated assignment must keep."""


class _Nodes(Enum):
    """What is asked of the nodes of a flavor: nothing, whether any could take pods, or can now."""

    NOT = "not"
    KIND = "kind"
    ROOM = "room"


@dataclass(frozen=True, slots=True)
class _Fit:
    """How one resource fits one flavor, and why not better."""

    grade: Grade
    refusal: Refusal | None = None
    reason: WaitReason | None = None
    shortage: Shortage | None = None


@dataclass(slots=True)
class _Scan:
    """What the scan of one resource group found.

    Attributes:
        choices: the best flavor's resources; empty when no flavor will do.
        chance: of the best flavor.
        is_final: the policy of the queue ends the scan at the best flavor, whatever comes after.
        stopped: index of the last flavor looked at, -1 for the last one of the group.
        refusals: of all flavors looked at; none when the best one fits.
        reason: of a scan without result, the least hopeless of its flavors.
        capped: why a cap refuses one of them; None where none does.
        without_room: resources of the first flavor that has quota, and whose nodes have no room.
        of_nodes: why nodes refuse the first flavor that they refuse; None where they refuse none.
        conflicts: flavors chosen in other resource groups that are in the way of one of them,
            each with the reason why it cannot be used then; None where none is told.
    """

    choices: dict[ResourceName, FlavorChoice] = field(default_factory=dict)
    chance: Chance = Chance.NO_FIT
    is_final: bool = False
    without_room: dict[ResourceName, FlavorChoice] = field(default_factory=dict)
    of_nodes: Refusal | None = None
    conflicts: dict[FlavorName, Refusal | None] = field(default_factory=dict)
    stopped: int = -1
    refusals: list[Refusal] = field(default_factory=list)
    shortages: list[Shortage] = field(default_factory=list)
    reason: WaitReason | None = None
    capped: Capped | None = None

    def note_no_places(self, refusals: Refusals) -> None:
        """Remember that nodes of a flavor have no room, or no domain of them."""
        for refusal in dict.fromkeys(refusal for _, refusal in refusals):
            self.of_nodes = self.of_nodes or refusal
            self.refusals.append(refusal)
            self.note_refusal(of_nodes(refusal))

    def note_without_room(self, flavor: FlavorName, fits: Mapping[ResourceName, _Fit]) -> None:
        """Remember a flavor that only its nodes refuse."""
        if not self.without_room and all(fit.refusal is None for fit in fits.values()):
            self.without_room = {
                r: FlavorChoice(flavor, fit.grade.chance.mode, fit.grade.borrow)
                for r, fit in fits.items()
            }

    def note_conflict(self, flavors: Iterable[FlavorName], refusals: Refusals) -> None:
        """Remember that nodes of flavors chosen before, all together, are in the way.

        A label that contradicts says more of one flavor than the nodes of all.
        """
        if refusals:
            self.conflicts = {**dict.fromkeys(flavors, refusals[0][1]), **self.conflicts}

    def note_refusal(self, reason: WaitReason) -> None:
        """Remembers why a flavor cannot be used; the least hopeless one counts."""
        if self.reason is None or SEVERITY[reason] < SEVERITY[self.reason]:
            self.reason = reason


class _Exclusion(NamedTuple):
    """A flavor that cannot be used beside those chosen in the resource groups before its own.

    Attributes:
        refusal: why; None where it is not told.
        group: place of its resource group among those that are looked at.
        conflicts: flavors chosen before that were in the way, too, with the reasons.
    """

    refusal: Refusal | None
    group: int
    conflicts: Mapping[FlavorName, Refusal | None]


@dataclass(slots=True)
class _Choosing:
    """Flavors of all resource groups for pod sets that stay together, as far as they were chosen.

    Attributes:
        excluded: flavors that are passed over.
        continued: how many of the resource groups, from the first, are looked through from where
            the last attempt stopped. The others are from their first flavor.
        flavors: the flavor of each resource group that has one, in order.
        scans: one for each resource group that was looked at.
        is_passed: an earlier attempt was given this combination, and it does not count now.
    """

    excluded: Mapping[FlavorName, _Exclusion]
    continued: int
    flavors: list[FlavorName] = field(default_factory=list)
    choices: dict[ResourceName, FlavorChoice] = field(default_factory=dict)
    tried: dict[ResourceName, int] = field(default_factory=dict)
    scans: list[_Scan] = field(default_factory=list)
    is_passed: bool = False

    def add(self, scan: _Scan) -> None:
        """Take the flavor of the next resource group."""
        self.scans.append(scan)
        self.flavors.append(next(iter(scan.choices.values())).flavor)
        self.choices |= scan.choices
        self.tried.update(dict.fromkeys(scan.choices, scan.stopped))

    @property
    def refusals(self) -> list[Refusal]:
        """Return why the flavors are not better, or why there is none."""
        if self.failed is not None:
            return self.failed.refusals
        return [refusal for scan in self.scans for refusal in scan.refusals]

    @property
    def failed(self) -> _Scan | None:
        """Return the scan that found no flavor, or None."""
        last = self.scans[-1] if self.scans else None
        return last if last is not None and not last.choices else None

    @property
    def chance(self) -> Chance:
        """Return how well the flavors fit, which is as well as the worst of them."""
        if self.is_passed:
            return Chance.NO_FIT
        return min((scan.chance for scan in self.scans), default=Chance.FIT)

    @property
    def has_conflicts(self) -> bool:
        """Return whether flavors of one resource group were in the way of those of another."""
        return bool(self.excluded) or any(scan.conflicts for scan in self.scans)

    def exclusion(self, beyond: Chance) -> tuple[FlavorName, _Exclusion] | None:
        """Return the choice to take back in a search for flavors that fit better, or None.

        Args:
            beyond: how well the best flavors fit that are there already.

        It is the last one that was in the way in a resource group that has nothing better. With
        nothing in the way there, other choices would not help. Nor do they where the policy ends
        the scan. Of a combination that was passed it is the last choice of all.
        """
        if self.is_passed:
            return self._take_back(dict.fromkeys(self.flavors))
        worst = [scan for scan in self.scans if scan.chance <= beyond]
        if self.failed is not None:
            worst = [self.failed]
        if not worst or any(scan.is_final or not scan.conflicts for scan in worst):
            return None
        return self._take_back(worst[0].conflicts)

    def without(self, flavor: FlavorName, exclusion: _Exclusion) -> "_Choosing":
        """Return the choices before a flavor, without it from here on.

        What was passed over after it is looked at again, as the choices are others now. For the
        same reason a resource group after it starts at its first flavor.
        """
        kept = {name: old for name, old in self.excluded.items() if old.group <= exclusion.group}
        again = _Choosing({**kept, flavor: exclusion}, min(self.continued, exclusion.group + 1))
        for scan in self.scans[: exclusion.group]:
            again.add(scan)
        return again

    def _take_back(
        self, conflicts: Mapping[FlavorName, Refusal | None]
    ) -> tuple[FlavorName, _Exclusion] | None:
        for group, flavor in reversed([*enumerate(self.flavors)]):
            if flavor in conflicts:
                earlier = {name: why for name, why in conflicts.items() if name != flavor}
                return flavor, _Exclusion(conflicts[flavor], group, earlier)
        return None


class Assigner:
    """Looks for flavors for one workload in one snapshot.

    Args:
        memory: the flavor at which earlier scans stopped; None to start at the first.
        pins: flavors to keep; None to choose freely.
        limits: caps that the workload comes under.
        has_devices: whether the workload asks for devices.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        preemptor: Preemptor,
        memory: LastAssignment | None = None,
        pins: Pins | None = None,
        limits: Caps = caps.NONE,
        *,
        has_devices: bool = False,
    ) -> None:
        self._snapshot = snapshot
        self._preemptor = preemptor
        self._queue: QueueNode = preemptor.queue
        self._memory = memory
        self._pins = pins
        self._caps = limits
        self._has_devices = has_devices
        self._known: list[tuple[Need, tuple[Target, ...]]] = []

    def assign(self, demanded: Sequence[Demand]) -> Assignment:
        """Return flavors for all pod sets; stops at the first that gets none."""
        result = Assignment()
        if PODS in self._queue.group_of:
            demanded = tuple(demand.with_pods() for demand in demanded)
        for group in podsets.groups(demanded):
            if not self._assign_group(result, group):
                break
        return result

    def _assign_group(self, result: Assignment, group: tuple[Demand, ...]) -> bool:
        """One flavor per resource group for pod sets that stay together."""
        chosen = self._best(result, group)
        failed = chosen.failed
        result.refusal = None
        for scan in chosen.scans:
            result.shortages += scan.shortages
            result.note_reason(scan.reason)
            result.capped = scan.capped or result.capped
        is_given = failed is None
        for demand in group:
            choices = self._given(demand, chosen.choices) if failed is None else {}
            refusals = chosen.refusals
            if failed is None and (lacking := self._lacks_topology(demand, choices)) is not None:
                is_given, choices, refusals = False, {}, [lacking]
                result.note_reason(WaitReason.NO_MATCHING_FLAVOR)
            self._append(result, demand, choices, refusals, chosen.tried)
        return is_given

    def _best(self, result: Assignment, group: tuple[Demand, ...]) -> _Choosing:
        """Return the best flavors, and note where the next attempt continues.

        As in Kueue, each resource group continues after the flavor at which it stopped. Where
        flavors of groups are in each other's way, that would leave combinations out, so it is
        the combinations that earlier attempts were given that are passed over.
        """
        name = group[0].pod_set.name
        passed = () if self._memory is None else self._memory.passed.get(name, ())
        if passed and self._are_tied(group):
            chosen = self._next_best(result.usage, group, passed)
        else:
            chosen = self._search(result.usage, group, is_continued=True)
            if passed and chosen.has_conflicts:
                chosen = self._next_best(result.usage, group, passed)
        is_unfinished = any(index != -1 for index in chosen.tried.values())
        if is_unfinished and chosen.failed is None and len(chosen.flavors) > 1:
            result.passed[name] = (*passed, tuple(chosen.flavors))
        return chosen

    def _next_best(
        self,
        assumed: Mapping[FlavorResource, int],
        group: tuple[Demand, ...],
        passed: tuple[Combination, ...],
    ) -> _Choosing:
        """Return the best flavors that no attempt was given yet, or the best of all.

        The latter where they fit better, and where nothing is left that can come to anything.
        Then no other attempt follows until something changes.
        """
        left = self._search(assumed, group, passed=passed)
        if left.chance == Chance.FIT:
            return left
        best = self._search(assumed, group)
        if Chance.NO_CANDIDATES < left.chance >= best.chance:
            return left
        best.tried = dict.fromkeys(best.tried, -1)
        return best

    def _search(
        self,
        assumed: Mapping[FlavorResource, int],
        group: tuple[Demand, ...],
        *,
        passed: Collection[Combination] = (),
        is_continued: bool = False,
    ) -> _Choosing:
        """Return the best flavors of all resource groups.

        Flavors that select no common node, or none with room, are not given together. Where that
        leaves a resource group with less than a fit, the last choice that was in the way is taken
        back. Of combinations that fit equally well the first one counts. All are found, up to
        `_MOST_TRIES` of them. Those that were passed do not count. A search that is continued
        begins in each resource group after the flavor at which the last attempt stopped.
        """
        continued = len(self._queue.spec.resource_groups) if is_continued else 0
        best = chosen = _Choosing({}, continued)
        for _ in range(_MOST_TRIES):
            self._choose(assumed, group, chosen)
            chosen.is_passed = chosen.failed is None and tuple(chosen.flavors) in passed
            if chosen.chance > best.chance:
                best = chosen
            if best.chance == Chance.FIT:
                break
            taken_back = chosen.exclusion(best.chance)
            if taken_back is None:
                break
            chosen = chosen.without(*taken_back)
        return best

    def _are_tied(self, group: tuple[Demand, ...]) -> bool:
        """Return whether a flavor of one resource group contradicts one of another."""
        if not self._snapshot.config.consistent_flavors:
            return False
        charged = self._charged_resources(group)
        before: dict[str, set[str]] = {}
        for covering in self._queue.spec.resource_groups:
            if not any(resource in covering.covered_resources for resource in charged):
                continue
            labels: dict[str, set[str]] = {}
            for quotas in covering.flavors:
                flavor = self._snapshot.flavors.get(quotas.name)
                for key, value in () if flavor is None else flavor.node_labels.items():
                    labels.setdefault(key, set()).add(value)
            for key, values in labels.items():
                if key in before and len(values | before[key]) > 1:
                    return True
                before.setdefault(key, set()).update(values)
        return False

    def _choose(
        self,
        assumed: Mapping[FlavorResource, int],
        group: tuple[Demand, ...],
        chosen: _Choosing,
    ) -> None:
        """Look for a flavor in each resource group without one, until there is none in one."""
        ask_for_room = self._asking_for_room(group)
        for resource in self._charged_resources(group):
            if resource in chosen.choices:
                continue
            on_nodes = _Nodes.ROOM if resource in ask_for_room else _Nodes.KIND
            scan = self._look_for(resource, group, assumed, chosen, on_nodes)
            if scan.choices:
                chosen.add(scan)
                continue
            chosen.scans.append(scan)
            if scan.without_room:
                self._look_beyond(scan, resource, group, assumed, chosen)
            break

    def _charged_resources(self, group: tuple[Demand, ...]) -> list[ResourceName]:
        """Return the resources for which pod sets need quota, in the order of their groups."""
        requested = {resource for demand in group for resource in demand.requests}
        in_order = podsets.in_visiting_order(requested)
        return [resource for resource in in_order if not self._is_free(resource, group)]

    def _asking_for_room(self, group: tuple[Demand, ...]) -> frozenset[ResourceName]:
        """Return the resources in whose groups it is asked whether nodes have room.

        These are the last one that is looked at, as all flavors are known then, and the last one
        with devices, whose flavors tell more of the nodes than any other. In a group before it
        the victims are not known that hold the devices.
        """
        if not self._snapshot.places:
            return frozenset()  # no node is known, so nothing is asked
        by_group: dict[tuple[ResourceName, ...], list[ResourceName]] = {}
        for resource in self._charged_resources(group):
            covering = self._queue.group_of.get(resource)
            if covering is not None:
                by_group.setdefault(covering.covered_resources, []).append(resource)
        listed = list(by_group.values())
        devices = _devices(group)
        # Where devices are charged by other names, such as their memory, these have a domain, too.
        of_devices = [names for names in listed if devices.intersection(names)] or [
            names for names in listed if any("/" in name for name in names)
        ]
        return frozenset(name for names in (listed[-1:] + of_devices[-1:]) for name in names)

    def _look_beyond(
        self,
        scan: _Scan,
        resource: ResourceName,
        group: tuple[Demand, ...],
        assumed: Mapping[FlavorResource, int],
        chosen: _Choosing,
    ) -> None:
        """Find out what is missing where only nodes refuse the flavor of a resource group.

        Quota of the other resource groups comes first, as it does within one: who has none there
        waits for it, or is too big. That does not help pods that are larger than every node. Else
        the nodes are those that flavors of all groups select.
        """
        in_use = [refusal for other in chosen.scans[:-1] for refusal in other.refusals]
        if in_use:
            never = self._larger_than_nodes(resource, in_use, group)
            if never:
                scan.refusals = never
                return
            scan.refusals = [*in_use, *scan.refusals]
            scan.reason = _quota_reason(in_use)
            return
        choices = {**chosen.choices, **scan.without_room}
        beyond = _Choosing(chosen.excluded, chosen.continued, chosen.flavors, choices)
        before = len(beyond.choices)
        for charged in self._charged_resources(group):
            if charged in beyond.choices:
                continue
            other = self._look_for(charged, group, assumed, beyond, _Nodes.NOT)
            if other.refusals or not other.choices:
                never = self._larger_than_nodes(resource, other.refusals, group)
                quota_reason = other.reason or _quota_reason(other.refusals)
                other.reason = scan.reason if never else quota_reason
                other.choices = {}
                other.refusals = never or [*other.refusals, *scan.refusals]
                other.chance, other.is_final = Chance.NO_FIT, False
                other.conflicts = {**scan.conflicts, **other.conflicts}
                chosen.scans.append(other)
                return
            beyond.choices |= other.choices
        if len(beyond.choices) > before:
            self._tell_nodes_of_all(scan, beyond, group)

    def _larger_than_nodes(
        self, resource: ResourceName, in_use: Iterable[Refusal], group: tuple[Demand, ...]
    ) -> list[Refusal]:
        """Return that nodes are too small for one pod, whatever flavors it gets; else nothing.

        Some flavor of each resource group is given. So no pod can start that is larger than every
        node of each flavor of one group, and no quota of another group changes that.

        Args:
            resource: of the resource group whose nodes are looked at.
            in_use: why flavors of the other resource groups are refused.
            group: the pod sets.
        """
        flavors = [flavor.name for flavor in self._queue.group_of[resource].flavors]
        never: dict[Refusal, None] = {}
        for flavor in flavors:
            small = self._too_small({flavor}, group)
            if not small:
                return []
            never |= dict.fromkeys(small)
        devices = _devices(group)
        # People know the nodes by the flavors of the devices.
        by_device_flavor = {
            refusal: None
            for why in in_use
            if isinstance(why, causes.QuotaInUse | causes.QuotaTooSmall)
            and why.resource in devices
            for flavor in flavors
            for refusal in self._too_small({FlavorName(why.flavor), flavor}, group)
        }
        return list(by_device_flavor or never)

    def _too_small(
        self, flavors: Collection[FlavorName], group: tuple[Demand, ...]
    ) -> list[NoPlace]:
        """Return that all nodes that flavors select are too small for one pod; else nothing."""
        refusals = [why for _, why in self._snapshot.places.never(self._wants_in(flavors, group))]
        no_places = [why for why in refusals if isinstance(why, NoPlace)]
        are_small = all(no_place.largest is not None for no_place in no_places)
        return no_places if are_small and len(no_places) == len(refusals) else []

    def _tell_nodes_of_all(
        self, scan: _Scan, beyond: _Choosing, group: tuple[Demand, ...]
    ) -> None:
        """Tell of the nodes that flavors of all groups select, for the first without room."""
        flavor = next(iter(scan.without_room.values())).flavor
        wants = self._wants_in({choice.flavor for choice in beyond.choices.values()}, group)
        refusals = self._snapshot.places.never(wants) or self._snapshot.places.why(wants)
        no_places = [refusal for _, refusal in refusals if isinstance(refusal, NoPlace)]
        if no_places and len(no_places) == len(refusals):
            of_other_flavors = [
                refusal
                for refusal in scan.refusals
                if not (isinstance(refusal, NoPlace) and flavor in refusal.flavors)
            ]
            scan.refusals = list(dict.fromkeys([*no_places, *of_other_flavors]))

    def _look_for(
        self,
        resource: ResourceName,
        group: tuple[Demand, ...],
        assumed: Mapping[FlavorResource, int],
        chosen: _Choosing,
        on_nodes: _Nodes,
    ) -> _Scan:
        """Scans the resource group that covers a resource; without one, nothing is found."""
        covering = self._queue.group_of.get(resource)
        if covering is not None:
            return self._scan(covering, group, resource, assumed, chosen, on_nodes)
        return _Scan(refusals=[causes.NotCovered(resource)])

    def _is_free(self, resource: ResourceName, group: tuple[Demand, ...]) -> bool:
        """Return whether a resource is not listed by the queue, and may be used without quota."""
        if resource in self._queue.group_of:
            return False
        if self._snapshot.config.ignore_undeclared:
            return True
        return all(demand.requests.get(resource, 0) == 0 for demand in group)

    def _lacks_topology(
        self, demand: Demand, choices: Mapping[ResourceName, FlavorChoice]
    ) -> causes.NoTopologyGiven | None:
        """Return that pods ask for domains that none of their flavors has; else None.

        Source: kueue pkg/scheduler/flavorassigner/tas_flavorassigner.go (onlyTASFlavor).
        """
        request, flavors = demand.pod_set.topology, self._snapshot.flavors
        if request is None or not request.is_explicit or not demand.count:
            return None
        if any(flavors[choice.flavor].topology for choice in choices.values()):
            return None
        return causes.NoTopologyGiven(request.first_level, is_one=bool(request.required))

    @staticmethod
    def _append(
        result: Assignment,
        demand: Demand,
        choices: Mapping[ResourceName, FlavorChoice],
        refusals: list[Refusal],
        tried: Mapping[ResourceName, int],
    ) -> None:
        result.pod_sets.append(PodSetResult(demand, choices, refusals))
        for resource, choice in choices.items():
            fr = FlavorResource(choice.flavor, resource)
            value = demand.in_flavor(choice.flavor, resource)
            result.usage[fr] = result.usage.get(fr, 0) + value
            result.tried[demand.pod_set.name, resource] = tried[resource]

    def _given(
        self, demand: Demand, choices: Mapping[ResourceName, FlavorChoice]
    ) -> dict[ResourceName, FlavorChoice]:
        """Return the flavors of a pod set, of those of its group.

        A leader without any resource of the queue is placed by those of its workers that have a
        topology. It takes no quota there.

        Source: kueue pkg/scheduler/flavorassigner/flavorassigner.go (resolvePodSetFlavors).
        """
        requested = {
            resource: choices[resource] for resource in demand.requests if resource in choices
        }
        request, flavors = demand.pod_set.topology, self._snapshot.flavors
        if requested or request is None or not request.group:
            return requested
        return {
            resource: choice
            for resource, choice in choices.items()
            if flavors[choice.flavor].topology
        }

    def _scan(
        self,
        covering: ResourceGroup,
        group: tuple[Demand, ...],
        resource: ResourceName,
        assumed: Mapping[FlavorResource, int],
        chosen: _Choosing,
        on_nodes: _Nodes,
    ) -> _Scan:
        """Goes through the flavors of a resource group, from where the last scan stopped."""
        requested = {r for demand in group for r in demand.requests}
        resources_wanted = [r for r in covering.covered_resources if r in requested]
        policy = self._queue.spec.fungibility
        scan = _Scan()
        best, has_quota = _WORST, False
        last = len(covering.flavors) - 1
        is_continued = len(chosen.flavors) < chosen.continued
        start = self._start(group[0], resource) if is_continued else 0
        for index in range(start, last + 1):
            flavor = covering.flavors[index].name
            scan.stopped = index if index < last else -1
            refusal = self._refusal(flavor, resource, group)
            exclusion = chosen.excluded.get(flavor)
            if refusal is None and exclusion is not None:
                scan.conflicts = {**exclusion.conflicts, **scan.conflicts}
                refusal = exclusion.refusal
                if refusal is None:
                    continue
            if refusal is None:
                refusal = self._contradiction(scan, flavor, chosen)
            if refusal is not None:
                scan.refusals.append(refusal)
                scan.note_refusal(WaitReason.NO_MATCHING_FLAVOR)
                continue
            wants = () if on_nodes is _Nodes.NOT else self._wants(flavor, group, chosen)
            nowhere = self._snapshot.places.never(wants)
            fits = {
                r: self._fit(flavor, r, group, assumed, is_tried=not nowhere)
                for r in resources_wanted
            }
            grade = _collect(scan, fits.values(), policy)
            if nowhere:
                # Victims are not looked for, so who waits for quota here waits for nodes, too.
                if all(isinstance(fit.refusal, causes.QuotaInUse | None) for fit in fits.values()):
                    scan.note_no_places(nowhere)
                    scan.note_without_room(flavor, fits)
                    scan.note_conflict(chosen.flavors, nowhere)
                continue
            if wants and on_nodes is _Nodes.ROOM:
                with_quota, of_quota = fits, grade
                grade, fits = self._on_nodes(
                    scan, flavor, group, assumed, chosen, wants, grade, fits
                )
                awaits_victims = (
                    grade.chance <= Chance.NO_CANDIDATES
                    and of_quota.chance == Chance.FIT
                    and policy.when_can_preempt != SearchPolicy.TRY_NEXT
                    and self._has_room_soon(wants)
                )
                if grade.chance == Chance.NO_FIT or awaits_victims:
                    scan.note_without_room(flavor, with_quota)
                if grade.chance < of_quota.chance and (
                    grade.chance <= Chance.NO_CANDIDATES or self._has_room_alone(flavor, group)
                ):
                    scan.note_conflict(chosen.flavors, self._snapshot.places.why(wants))
                if awaits_victims:
                    # Others were stopped for it here, and their quota is free before their pods
                    # have left. In another flavor it would have stopped them for nothing.
                    for _, refusal in self._snapshot.places.why(wants):
                        scan.note_refusal(of_nodes(refusal))
                    scan.stopped = -1
                    break
            rank = grade
            if wants and on_nodes is _Nodes.KIND and not self._snapshot.places.fits(wants):
                rank = Grade(min(grade.chance, Chance.PREEMPT), grade.borrow)
            stop = not try_next(rank, policy)
            if stop or is_preferred(rank, best, policy):
                best, has_quota = rank, grade.chance == Chance.FIT
                scan.chance, scan.is_final = grade.chance, stop
                scan.choices = {
                    r: FlavorChoice(flavor, fit.grade.chance.mode, fit.grade.borrow)
                    for r, fit in fits.items()
                }
            if stop:
                break
        if has_quota:
            scan.refusals, scan.shortages = [], []
        elif not scan.choices:
            self._tell_passed(scan, covering, start, group, resource, resources_wanted, assumed)
        return scan

    def _has_room_alone(self, flavor: FlavorName, group: tuple[Demand, ...]) -> bool:
        """Return whether nodes of a flavor have room where no other flavor selects nodes, too."""
        return self._snapshot.places.fits(self._wants_in({flavor}, group))

    def _has_room_soon(self, wants: tuple[Want, ...]) -> bool:
        """Return whether nodes have room once the pods that leave them are gone."""
        with self._snapshot.places.ledger.without_leaving() as is_any_leaving:
            return is_any_leaving and self._snapshot.places.fits(wants)

    def _wants(
        self, flavor: FlavorName, group: tuple[Demand, ...], chosen: _Choosing
    ) -> tuple[Want, ...]:
        """Return what the pods need of nodes in a flavor and in those chosen before."""
        chosen_before = (choice.flavor for choice in chosen.choices.values())
        return self._wants_in({flavor, *chosen_before}, group)

    def _wants_in(
        self, flavors: Collection[FlavorName], group: tuple[Demand, ...]
    ) -> tuple[Want, ...]:
        """Return what the pods need of nodes that some flavors all select."""
        places = self._snapshot.places
        if not places:
            return ()
        possible = self._possible(flavors, group)
        wants = (
            places.want(
                demand.pod_set,
                demand.count,
                flavors,
                has_devices=self._has_devices,
                possible=possible,
            )
            for demand in group
            if demand.count
        )
        return tuple(want for want in wants if want is not None)

    def _possible(
        self, flavors: Collection[FlavorName], group: tuple[Demand, ...]
    ) -> tuple[FlavorName, ...]:
        """Return flavors with tolerations that pods get beside some, in other resource groups."""
        if len(self._queue.spec.resource_groups) == 1:
            return ()
        charged = self._charged_resources(group)
        possible = (
            quotas.name
            for covering in self._queue.spec.resource_groups
            if any(resource in covering.covered_resources for resource in charged)
            and not any(quotas.name in flavors for quotas in covering.flavors)
            for quotas in covering.flavors
        )
        listed = self._snapshot.flavors
        return tuple(
            sorted(name for name in possible if name in listed and listed[name].tolerations)
        )

    def _on_nodes(
        self,
        scan: _Scan,
        flavor: FlavorName,
        group: tuple[Demand, ...],
        assumed: Mapping[FlavorResource, int],
        chosen: _Choosing,
        wants: tuple[Want, ...],
        grade: Grade,
        fits: dict[ResourceName, _Fit],
    ) -> tuple[Grade, dict[ResourceName, _Fit]]:
        """Return how a flavor fits whose nodes have to take the pods, too.

        Where there is quota and no node, victims are looked for whose end makes room on nodes.
        """
        if grade.chance <= Chance.NO_CANDIDATES:
            return grade, fits
        if grade.chance == Chance.FIT and self._snapshot.places.fits(wants):
            return grade, fits
        pairs = [FlavorResource(flavor, r) for r in fits]
        pairs += (FlavorResource(choice.flavor, r) for r, choice in chosen.choices.items())
        requests = {
            fr: value
            for fr in pairs
            if (value := assumed.get(fr, 0) + _requested(group, fr.flavor, fr.resource))
        }
        devices = {name for want in wants for name in want.shape.needs.devices}
        of_devices = frozenset(fr for fr in requests if fr.resource in devices)
        without_quota = frozenset(
            FlavorResource(flavor, r) for r, fit in fits.items() if fit.grade.chance < Chance.FIT
        ).union(
            FlavorResource(choice.flavor, r)
            for r, choice in chosen.choices.items()
            if choice.mode != Mode.FIT
        )
        short = without_quota or of_devices or frozenset(requests)
        victims = self.victims(Need(requests=requests, short=short, wants=wants))
        refusals = self._snapshot.places.why(wants)
        is_in_domains = any(not isinstance(refusal, NoPlace) for _, refusal in refusals)
        if is_in_domains and grade.chance == Chance.FIT:
            scan.refusals += dict.fromkeys(refusal for _, refusal in refusals)
        elif not is_in_domains and (grade.chance == Chance.FIT or not victims):
            scan.note_no_places(refusals)
        if not victims:
            lowered = Grade(Chance.NO_CANDIDATES if is_in_domains else Chance.NO_FIT, grade.borrow)
        elif without_quota:
            return grade, fits
        else:
            of_own_queue = any(
                victim.workload.cluster_queue == self._queue.name for victim in victims
            )
            lowered = Grade(Chance.PREEMPT if of_own_queue else Chance.RECLAIM, grade.borrow)
        return lowered, {
            r: replace(fit, grade=Grade(min(fit.grade.chance, lowered.chance), fit.grade.borrow))
            if FlavorResource(flavor, r) in short
            else fit
            for r, fit in fits.items()
        }

    def _tell_passed(
        self,
        scan: _Scan,
        covering: ResourceGroup,
        start: int,
        group: tuple[Demand, ...],
        resource: ResourceName,
        resources: Iterable[ResourceName],
        assumed: Mapping[FlavorResource, int],
    ) -> None:
        """Note what is missing in flavors at which earlier scans stopped.

        They are not tried again now, but it is they that what waits may get. The refusals are
        those of the last scan only, as in Kueue's message.
        """
        for flavor_quotas in covering.flavors[:start]:
            if self._refusal(flavor_quotas.name, resource, group) is not None:
                continue
            fits = (
                self._fit(flavor_quotas.name, r, group, assumed, is_tried=False) for r in resources
            )
            scan.shortages += [fit.shortage for fit in fits if fit.shortage is not None]

    def _start(self, demand: Demand, resource: ResourceName) -> int:
        if self._memory is None:
            return 0
        return self._memory.tried.get((demand.pod_set.name, resource), -1) + 1

    def _refusal(
        self, flavor: FlavorName, resource: ResourceName, group: tuple[Demand, ...]
    ) -> Refusal | None:
        """Return why the pod sets cannot run in a flavor whatever the quota; None if they can."""
        for demand in group:
            if (
                self._pins is not None
                and self._pins.get((demand.pod_set.name, resource)) != flavor
            ):
                return causes.NotNominated(flavor, resource)
        flavor_ = self._snapshot.flavors.get(flavor)
        if flavor_ is None:
            return causes.FlavorMissing(flavor)
        for demand in group:
            if (refusal := self._topology_misfit(demand.pod_set, flavor_, resource)) is not None:
                return refusal
            if (refusal := misfit(demand.pod_set, flavor_)) is not None:
                return refusal
        return None

    def _topology_misfit(
        self, pod_set: PodSet, flavor: ResourceFlavor, resource: ResourceName
    ) -> Refusal | None:
        """Return why a flavor does not place pods as they ask for; None where it does.

        Where all flavors of the queue have a topology, pods ask for one without saying so. A
        flavor of resources that no pod requests itself is never in the way.

        Source: kueue pkg/scheduler/flavorassigner/tas_flavorassigner.go.
        """
        request = pod_set.topology
        if request is None or not request.is_explicit:
            if flavor.topology and not self._is_topology_only():
                return causes.TopologyOnly(flavor.name)
            return None
        if not flavor.topology:
            covered = self._queue.group_of[resource].covered_resources
            needs = dict(pod_set.needs.requests) if pod_set.needs is not None else {}
            if not needs.keys() & set(covered):
                return None
            is_one = bool(request.required)
            return causes.NoTopology(flavor.name, request.first_level, is_one=is_one)
        levels = self._snapshot.places.topologies.levels(flavor.name)
        for level in request.levels():
            if level not in levels:
                return causes.LevelMissing(flavor.name, level, is_one=level == request.required)
        return None

    def _is_topology_only(self) -> bool:
        flavors = self._snapshot.flavors
        return all(
            quotas.name in flavors and flavors[quotas.name].topology
            for group in self._queue.spec.resource_groups
            for quotas in group.flavors
        )

    def _contradiction(self, scan: _Scan, flavor: FlavorName, chosen: _Choosing) -> Refusal | None:
        """Return why a flavor cannot be used beside those of other resource groups, or None."""
        if not self._snapshot.config.consistent_flavors:
            return None
        flavor_ = self._snapshot.flavors[flavor]
        refusal: Refusal | None = None
        for name in sorted({choice.flavor for choice in chosen.choices.values()} - {flavor}):
            other = self._snapshot.flavors[name]
            key = contradicting_label(flavor_, other)
            if key is not None:
                scan.conflicts.setdefault(name, _contradict(other, flavor_, key))
                refusal = refusal or _contradict(flavor_, other, key)
        return refusal

    def _fit(
        self,
        flavor: FlavorName,
        resource: ResourceName,
        group: tuple[Demand, ...],
        assumed: Mapping[FlavorResource, int],
        *,
        is_tried: bool = True,
    ) -> _Fit:
        """Return how one resource of a group of pod sets fits one flavor.

        Victims are looked for only where the flavor is tried.
        """
        queue = self._queue
        fr = FlavorResource(flavor, resource)
        before = assumed.get(fr, 0)
        request = _requested(group, flavor, resource)
        value = before + request
        limit = quota.potential(queue, fr)
        available = max(0, quota.available(queue, fr))
        over = self._over_cap(resource, assumed, request)
        if value <= available and value <= limit and over is None:
            return _Fit(Grade(Chance.FIT, quota.borrow_height(queue, fr, value)[0]))
        nominal = quota.nominal(queue, fr)
        name = group[0].pod_set.name
        shortage = Shortage(
            pod_set=name,
            resource=resource,
            flavor=flavor,
            requested=value,
            available=available,
            limit=limit,
            nominal=nominal,
            withheld=quota.withheld(queue, fr),
            elsewhere=quota.elsewhere(queue, fr),
        )
        if value > limit:
            refusal = causes.QuotaTooSmall(resource, flavor, before, request, limit)
            return _Fit(_WORST, refusal, WaitReason.EXCEEDS_MAX_QUOTA, shortage)
        if over is not None:
            return _Fit(_WORST, over, over.reason)
        in_use = causes.QuotaInUse(resource, flavor, amount.subtract(value, available))
        if not is_tried:
            return _Fit(_WORST, in_use, WaitReason.WAITING_FOR_QUOTA, shortage)
        borrow, may_reclaim = quota.borrow_height(queue, fr, value)
        if nominal >= value or may_reclaim or self._preempts_while_borrowing():
            grade = self._after_preemption(fr, value, borrow)
            return _Fit(grade, in_use, None, shortage)
        return _Fit(Grade(Chance.NO_FIT, borrow), in_use, WaitReason.WAITING_FOR_QUOTA, shortage)

    def _over_cap(
        self, resource: ResourceName, assumed: Mapping[FlavorResource, int], request: int
    ) -> Capped | None:
        """Return why a request is more than the caps leave; None if it is not."""
        if resource not in self._caps or request <= 0:
            return None
        before = sum(value for fr, value in assumed.items() if fr.resource == resource)
        return caps.broken(self._caps, resource, before + request)

    def _preempts_while_borrowing(self) -> bool:
        policies = self._queue.spec.preemption
        if policies.borrow_within_cohort != PreemptionPolicy.NEVER:
            return True
        fair = self._snapshot.config.fair_sharing is not None
        return fair and policies.reclaim_within_cohort != PreemptionPolicy.NEVER

    def victims(self, need: Need) -> tuple[Target, ...]:
        """Return victims for a need; cached, as one resource alone often is the whole workload.

        There are none where pods that leave their nodes make enough room, and for the rest that
        room counts.
        """
        if self._preemptor.takes_none:
            return ()
        for need_tried, targets_found in self._known:
            if need_tried == need:
                return targets_found
        victims = self._victims_on_nodes(need) if need.wants else self._victims(need)
        self._known.append((need, victims))
        return victims

    def _victims(self, need: Need) -> tuple[Target, ...]:
        return targets.choose(self._snapshot, self._preemptor, need)

    def _victims_on_nodes(self, need: Need) -> tuple[Target, ...]:
        """Return victims beside the room of pods that leave their nodes."""
        snapshot = self._snapshot
        with (
            snapshot.places.ledger.without_leaving() as is_any_leaving,
            snapshot.undone_on_error(),
        ):
            if is_any_leaving and candidates.fits(snapshot, self._queue, need, borrowing=True):
                return ()
            return self._victims(need)

    def _after_preemption(self, fr: FlavorResource, value: int, borrow: int) -> Grade:
        """The grade if victims are taken for this one flavor and resource."""
        need = Need(requests={fr: value}, short=frozenset((fr,)))
        victims = self.victims(need)
        if not victims:
            return Grade(Chance.NO_CANDIDATES, borrow)
        with self._snapshot.without(victim.workload for victim in victims):
            borrow = quota.borrow_height(self._queue, fr, value)[0]
        of_own_queue = any(victim.workload.cluster_queue == self._queue.name for victim in victims)
        return Grade(Chance.PREEMPT if of_own_queue else Chance.RECLAIM, borrow)


def _requested(group: Iterable[Demand], flavor: FlavorName, resource: ResourceName) -> int:
    return sum(
        demand.in_flavor(flavor, resource) for demand in group if resource in demand.requests
    )


def contradicting_label(first: ResourceFlavor, other: ResourceFlavor) -> str | None:
    """Return the first label that two flavors give different values, or None.

    No node has both, so no pod can run in both.
    """
    labels = first.node_labels
    return min(
        (key for key, value in other.node_labels.items() if labels.get(key, value) != value),
        default=None,
    )


def _contradict(flavor: ResourceFlavor, other: ResourceFlavor, key: str) -> Refusal:
    values = flavor.node_labels[key], other.node_labels[key]
    return causes.Contradicts(flavor.name, other.name, key, *values)


def _devices(group: tuple[Demand, ...]) -> set[str]:
    """Return the devices that the pods ask nodes for."""
    return {
        name
        for demand in group
        if demand.pod_set.needs is not None
        for name in demand.pod_set.needs.devices
    }


def _quota_reason(refusals: Iterable[Refusal]) -> WaitReason:
    """Return the reason of who is refused flavors that have no reason of their own."""
    in_use = any(isinstance(refusal, causes.QuotaInUse) for refusal in refusals)
    return WaitReason.WAITING_FOR_QUOTA if in_use else WaitReason.NO_MATCHING_FLAVOR


def _collect(scan: _Scan, fits: Iterable[_Fit], policy: FlavorFungibility) -> Grade:
    """The least preferred grade of a flavor's resources; notes their refusals and reasons."""
    grade = Grade(Chance.FIT, 0)
    reason: WaitReason | None = None
    for fit in fits:
        if is_preferred(grade, fit.grade, policy):
            grade = fit.grade
        if fit.refusal is not None:
            scan.refusals.append(fit.refusal)
        if isinstance(fit.refusal, Capped):
            scan.capped = fit.refusal
        if fit.shortage is not None:
            scan.shortages.append(fit.shortage)
        if fit.reason is not None and (reason is None or SEVERITY[fit.reason] > SEVERITY[reason]):
            reason = fit.reason
    if reason is not None:
        scan.note_refusal(reason)
    return grade


def is_preferred(left: Grade, right: Grade, policy: FlavorFungibility) -> bool:
    """Return whether a flavor of the left grade is better than one of the right grade."""
    for chance in (Chance.NO_FIT, Chance.NO_CANDIDATES):
        if chance in (left.chance, right.chance):
            if left.chance != right.chance:
                return left.chance > right.chance
            break
    if policy.preference == Preference.PREEMPTION_OVER_BORROWING:
        return (-left.borrow, left.chance) > (-right.borrow, right.chance)
    return (left.chance, -left.borrow) > (right.chance, -right.borrow)


def try_next(grade: Grade, policy: FlavorFungibility) -> bool:
    """Return whether a scan continues after a flavor of this grade."""
    if grade.chance <= Chance.NO_CANDIDATES:
        return True
    if grade.chance < Chance.FIT and policy.when_can_preempt == SearchPolicy.TRY_NEXT:
        return True
    return grade.borrow > 0 and policy.when_can_borrow == SearchPolicy.TRY_NEXT


# ------------------------------------------------------- whether pods could run on the nodes
# Source: kueue pkg/scheduler/flavorassigner (checkFlavorForPodSets).


def misfit(pod_set: PodSet, flavor: ResourceFlavor) -> Refusal | None:
    """Return why pods of the pod set cannot run in the flavor; None when they can."""
    if flavor.name in pod_set.unsuited:
        return causes.Unsuited(flavor.name, pod_set.unsuited[flavor.name])
    taint = untolerated(flavor.node_taints, (*pod_set.tolerations, *flavor.tolerations))
    if taint is not None:
        return causes.UntoleratedTaint(flavor.name, taint.key, taint.value, taint.effect)
    if not node_labels.are_selected(flavor.node_labels, pod_set.node_selector, pod_set.affinity):
        return causes.OtherNodes(flavor.name)
    return None
