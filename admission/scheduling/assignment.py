"""The result of looking for flavors: modes, choices, reasons, and what was missing.

Source: kueue pkg/scheduler/flavorassigner (Assignment, PodSetAssignment, Status).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from admission.base.causes import (
    Capped,
    NoPlace,
    Refusal,
    RefusedPodSet,
    Shortage,
    TopologyRefusal,
)
from admission.base.conditions import WaitReason
from admission.base.names import FlavorName, FlavorResource, PodSetName, ResourceName
from admission.scheduling.decisions import Mode
from admission.scheduling.model import PodDomains, PodSetAssignment
from admission.scheduling.podsets import Demand


class Chance(IntEnum):
    """How well one resource fits one flavor; a larger value is better."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4

    @property
    def mode(self) -> Mode:
        """The coarser scale that the cycle works with."""
        return _MODES[self]


_MODES: Final = (Mode.NO_FIT, Mode.PREEMPT, Mode.PREEMPT, Mode.PREEMPT, Mode.FIT)


class Grade(NamedTuple):
    """How good a flavor is.

    Attributes:
        chance: the worst of its resources.
        borrow: height of the subtree it borrows from; 0 for none.
    """

    chance: Chance
    borrow: int


SEVERITY: Final[Mapping[str, int]] = {
    WaitReason.WAITING_FOR_NODE: 1,
    WaitReason.TOPOLOGY_PLACEMENT_FAILED: 2,
    WaitReason.WAITING_FOR_QUOTA: 3,
    WaitReason.CAP_REACHED: 4,
    WaitReason.EXCEEDS_CAP: 5,
    WaitReason.EXCEEDS_MAX_QUOTA: 6,
    WaitReason.NO_MATCHING_FLAVOR: 7,
}
"""Reasons by how hopeless they are."""


def of_nodes(refusal: NoPlace | TopologyRefusal) -> WaitReason:
    """Return the reason of who waits because nodes have no room, or no domain of them."""
    if isinstance(refusal, NoPlace):
        return WaitReason.WAITING_FOR_NODE
    return WaitReason.TOPOLOGY_PLACEMENT_FAILED


OF_CAPS: Final = (WaitReason.CAP_REACHED, WaitReason.EXCEEDS_CAP)
"""Reasons that are about one user or LocalQueue alone."""


@dataclass(frozen=True, slots=True)
class FlavorChoice:
    """A flavor for one resource of a pod set."""

    flavor: FlavorName
    mode: Mode
    borrow: int


@dataclass(slots=True)
class PodSetResult:
    """The flavors that one pod set was assigned.

    Attributes:
        demand: what it asked for; with ``pods`` where the queue counts them.
        choices: the flavor of each resource; empty when it got none.
        refusals: why flavors were not good enough; empty when it fits.
    """

    demand: Demand
    choices: Mapping[ResourceName, FlavorChoice]
    refusals: Sequence[Refusal]

    @property
    def mode(self) -> Mode:
        """The worst of its resources."""
        if not self.refusals:
            return Mode.FIT
        if not self.choices:
            return Mode.NO_FIT
        return min(choice.mode for choice in self.choices.values())


Combination = tuple[FlavorName, ...]
"""One flavor of each resource group, in the order in which the groups are looked at."""


BY_NODES: Final = -1
"""In place of how often they had been woken: nodes may have room without that."""


@dataclass(frozen=True, slots=True)
class LastAssignment:
    """Where the search for flavors of a workload stopped; the next attempt continues there.

    Attributes:
        tried: index of the last flavor looked at, per pod set and resource; -1 at the end.
        cycle: number of the cycle that looked.
        generation: generation of the ClusterQueue at that time.
        passed: what the attempts until then were given, by the first of the pod sets that stay
            together. These combinations are passed over where flavors of one resource group are
            in the way of those of another, in place of the flavors up to those in `tried`.
        wakes: how often those that are parked in the ClusterQueue had been woken, where others in
            the same cycle took what it would have got; `BY_NODES` where room on nodes was in the
            way; None for other attempts.
    """

    tried: Mapping[tuple[PodSetName, ResourceName], int]
    cycle: int
    generation: int
    passed: Mapping[PodSetName, tuple[Combination, ...]]
    wakes: int | None = None

    @property
    def unfinished(self) -> bool:
        """Return whether some flavors were not looked at yet."""
        return any(index != -1 for index in self.tried.values())


@dataclass(slots=True)
class Assignment:
    """Flavors for a whole workload, or why there are none.

    Attributes:
        pod_sets: results in the order of the spec; stops after the first failure.
        usage: what it would take, per flavor and resource.
        tried: see ``LastAssignment``.
        passed: see ``LastAssignment``.
        refusal: the most hopeless reason met in the last pod set; None when it was refused no
            flavor.
        shortages: what was missing where.
        capped: why a cap refuses a flavor; None where none does.
    """

    pod_sets: list[PodSetResult] = field(default_factory=list)
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    tried: dict[tuple[PodSetName, ResourceName], int] = field(default_factory=dict)
    passed: dict[PodSetName, tuple[Combination, ...]] = field(default_factory=dict)
    refusal: WaitReason | None = None
    shortages: list[Shortage] = field(default_factory=list)
    capped: Capped | None = None

    @property
    def mode(self) -> Mode:
        """The worst of its pod sets."""
        return min((pod_set.mode for pod_set in self.pod_sets), default=Mode.NO_FIT)

    @property
    def reason(self) -> WaitReason:
        """Return why a NO_FIT does not fit; a resource that no flavor offers matches no flavor."""
        return self.refusal or WaitReason.NO_MATCHING_FLAVOR

    def note_reason(self, reason: WaitReason | None) -> None:
        """Remember the reason of a resource group; the most hopeless one counts."""
        if reason is not None and (
            self.refusal is None or SEVERITY[reason] > SEVERITY[self.refusal]
        ):
            self.refusal = reason

    def refuse_for_nodes(
        self, refusals: Iterable[tuple[PodSetName, NoPlace | TopologyRefusal]]
    ) -> None:
        """Remember that there is quota, and no room on nodes for all pods at once."""
        for pod_set, refusal in refusals:
            self.refusal = of_nodes(refusal)
            for result in self.pod_sets:
                if result.demand.pod_set.name == pod_set:
                    result.refusals = [*result.refusals, refusal]

    @property
    def borrowing(self) -> int:
        """The largest height it borrows from."""
        return max(
            (c.borrow for pod_set in self.pod_sets for c in pod_set.choices.values()), default=0
        )

    @property
    def short(self) -> frozenset[FlavorResource]:
        """The flavors and resources in which victims must make room."""
        return frozenset(
            FlavorResource(choice.flavor, resource)
            for pod_set in self.pod_sets
            for resource, choice in pod_set.choices.items()
            if choice.mode == Mode.PREEMPT
        )

    def requests(self) -> dict[FlavorResource, int]:
        """Return the amounts that victims must make room for, but no zeros and no number of pods.

        Source: kueue TotalRequestsFor; the pod count is added to the usage only.
        """
        requests: dict[FlavorResource, int] = {}
        for pod_set in self.pod_sets:
            for resource, choice in pod_set.choices.items():
                value = pod_set.demand.in_flavor(choice.flavor, resource)
                if value > 0 and resource not in pod_set.demand.counted:
                    fr = FlavorResource(choice.flavor, resource)
                    requests[fr] = requests.get(fr, 0) + value
        return requests

    def refused(self) -> tuple[RefusedPodSet, ...]:
        """Return the pod sets that do not fit, and why; none when it fits."""
        return tuple(
            RefusedPodSet(pod_set.demand.pod_set.name, tuple(pod_set.refusals))
            for pod_set in self.pod_sets
            if pod_set.refusals
        )

    def to_pod_sets(
        self, domains: Mapping[PodSetName, PodDomains]
    ) -> tuple[PodSetAssignment, ...]:
        """Return the assignment as the workload's status keeps it.

        Args:
            domains: where pods go, of pod sets whose flavor has a topology.
        """
        return tuple(
            _assigned(pod_set, domains.get(pod_set.demand.pod_set.name))
            for pod_set in self.pod_sets
        )


def _assigned(pod_set: PodSetResult, domains: PodDomains | None) -> PodSetAssignment:
    flavors = {resource: choice.flavor for resource, choice in sorted(pod_set.choices.items())}
    usage = {r: pod_set.demand.in_flavor(flavor, r) for r, flavor in flavors.items()}
    return PodSetAssignment(
        name=pod_set.demand.pod_set.name,
        count=pod_set.demand.count,
        flavors=flavors,
        usage=usage,
        domains=domains,
    )
