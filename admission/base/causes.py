"""Why something waits, loses its quota or does not run: values with their numbers, without words.

The engine and the upkeep of Workloads make them, and the rest of the process reads their fields.
They become words where they leave the process: those of Kueue in `admission.reasons.kueue`, those
of users in `admission.reasons.sentences`. Amounts are in canonical units.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, Final, NamedTuple

from admission.base import names
from admission.base.conditions import EvictionReason, PreemptionReason, WaitReason
from admission.base.names import ClusterQueueName, FlavorName, PodSetName, ResourceName

LOCAL_QUEUE: Final = "LocalQueue"
CLUSTER_QUEUE: Final = "ClusterQueue"
"""Kinds of queues, as `QueueMissing` and its like name them."""

# ------------------------------------------------------------------------------------- numbers


class Elsewhere(NamedTuple):
    """What exists of a quota that is not given, because others were promised it before.

    Attributes:
        amount: how much of it.
        owners: ClusterQueues and Cohorts that it is promised to, sorted.
    """

    amount: int = 0
    owners: tuple[str, ...] = ()


NOT_ELSEWHERE: Final = Elsewhere()


class BorrowingLimit(NamedTuple):
    """A borrowing limit that alone keeps something from getting quota that is free above.

    Attributes:
        name: of the ClusterQueue or Cohort that has it.
        is_of_cohort: whether it is a Cohort.
        amount: the most that may be borrowed, in the canonical unit.
    """

    name: str
    is_of_cohort: bool
    amount: int


class UnnamedHolders(NamedTuple):
    """ClusterQueues that use a resource besides those that are named.

    Attributes:
        queues: how many.
        amount: what they use together, in the canonical unit.
    """

    queues: int = 0
    amount: int = 0


ALL_NAMED: Final = UnnamedHolders()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """The numbers behind a wait, for one resource in one flavor.

    Attributes:
        pod_set: the pod set that asks.
        requested: total of the pod set, with what earlier pod sets of the workload take.
        available: what the ClusterQueue could still take now, borrowed or not.
        limit: the most it could ever take; ``requested > limit`` never fits.
        nominal: its own quota.
        withheld: what it is promised beyond that and is not there for it.
        elsewhere: what of that exists and is promised to others before.
        holders: ClusterQueues that use the resource, with their usage, largest first: those of
            the tree, or those below the borrowing limit that stands in the way.
        unnamed: those beyond `holders`, which are the largest few.
        borrowing_limit: what alone stands in the way; None where more has to become free.
        reclaimable: how much more than `available` a smaller request would get, as the
            ClusterQueue preempts those that borrow its nominal quota.
    """

    pod_set: PodSetName
    resource: ResourceName
    flavor: FlavorName
    requested: int
    available: int
    limit: int
    nominal: int
    withheld: int = 0
    elsewhere: Elsewhere = NOT_ELSEWHERE
    holders: tuple[tuple[ClusterQueueName, int], ...] = ()
    unnamed: UnnamedHolders = ALL_NAMED
    borrowing_limit: BorrowingLimit | None = None
    reclaimable: int = 0

    @property
    def missing(self) -> int:
        """Return how much more is needed."""
        return max(0, self.requested - self.available)


class EndingPods(NamedTuple):
    """Pods that are being deleted, and hold what a Workload waits for until they have ended.

    Attributes:
        resource: that they hold.
        flavor: of which flavor.
        amount: what they hold of it together, in the canonical unit.
        pods: how many they are.
        until: when the last of them has to have ended, by its grace period; RFC 3339. Empty where
            that is over for one of them.
    """

    resource: str
    flavor: str
    amount: int
    pods: int
    until: str

    def with_pods(self, amount: int, pods: int, until: str) -> "EndingPods":
        """Return it with more pods.

        Args:
            amount: what these hold together.
            pods: how many they are.
            until: when the last of these has to have ended; empty as `until` of it.
        """
        last = max(self.until, until) if self.until and until else ""
        return self._replace(amount=self.amount + amount, pods=self.pods + pods, until=last)


class LargestNode(NamedTuple):
    """What a pod asks of one node, which is more than any node of a flavor has.

    Attributes:
        resource: the one that the pod asks for.
        flavor: flavor of the nodes.
        asks: amount that one pod asks for.
        has: the most that one node of the flavor has, sick devices included.
    """

    resource: str
    flavor: str
    asks: int
    has: int


class CapPlace(NamedTuple):
    """The Workloads that a cap limits.

    Attributes:
        cluster_queue: the ClusterQueue whose quota they use.
        local_queue: the LocalQueue that they are in; empty for all of the ClusterQueue.
        user: the user who asked for them; empty for all users.
        namespace: their namespace, if their user is unknown; else empty.
    """

    cluster_queue: str
    local_queue: str
    user: str
    namespace: str

    @property
    def queue(self) -> str:
        """Return the queue that has the annotation."""
        return self.local_queue or self.cluster_queue

    @property
    def annotation(self) -> str:
        """Return the key of the annotation, without the domain."""
        key = names.MAX_PER_USER if self.user else names.MAX_IN_USE
        return key.partition("/")[2]


# ------------------------------------------------------------------------ pods that do not run


@dataclass(frozen=True, slots=True)
class BeyondNodes:
    """A pod asks for more than the largest node of each flavor has; ``nodes`` has one of each."""

    nodes: tuple[LargestNode, ...]


@dataclass(frozen=True, slots=True)
class NoNodeFree:
    """No node of a flavor has as much free as a pod asks for."""

    resource: str
    flavor: str
    asks: int


@dataclass(frozen=True, slots=True)
class NodeAwaited:
    """A flavor has no node yet, or an autoscaler adds nodes to it for pods without one."""

    flavor: str


class MemberCounts(NamedTuple):
    """How many pods of a Workload there are, and why some do not run.

    Attributes:
        asked: pods that it was admitted with.
        created: pods that exist and have not failed.
        scheduled: pods that are bound to a node.
        ready: pods that are ready or have succeeded.
        why: the scheduler's message about pods that are not bound; empty if there is none.
        lost_nodes: nodes that are not ready and have pods of it.
        nodes: why no node takes a pod; None where one may.
    """

    asked: int
    created: int
    scheduled: int
    ready: int
    why: str = ""
    lost_nodes: tuple[str, ...] = ()
    nodes: BeyondNodes | NoNodeFree | NodeAwaited | None = None

    @property
    def awaits_node(self) -> bool:
        """Return whether an autoscaler may be adding a node for a pod."""
        return isinstance(self.nodes, NodeAwaited) and self.scheduled < self.created

    @property
    def exceeds_every_node(self) -> bool:
        """Return whether a pod asks for more than the largest node of its flavor has."""
        return isinstance(self.nodes, BeyondNodes)

    @property
    def is_explained(self) -> bool:
        """Return whether the scheduler or a node says why a pod does not run."""
        return bool(self.why or self.lost_nodes)

    @property
    def is_stuck(self) -> bool:
        """Return whether a pod is missing, or has no node, or is on one that is not ready."""
        return self.scheduled < self.asked or bool(self.lost_nodes)


# ---------------------------------------------------------------- why a flavor is not given


@dataclass(frozen=True, slots=True)
class NotCovered:
    """The ClusterQueue has no quota for a resource."""

    resource: str


@dataclass(frozen=True, slots=True)
class FlavorMissing:
    """The ResourceFlavor does not exist."""

    flavor: str


@dataclass(frozen=True, slots=True)
class NotNominated:
    """The workload was nominated for another flavor of a resource before."""

    flavor: str
    resource: str


@dataclass(frozen=True, slots=True)
class UntoleratedTaint:
    """The pods do not tolerate a taint of the flavor."""

    flavor: str
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class OtherNodes:
    """The pods select other nodes than those of the flavor."""

    flavor: str


@dataclass(frozen=True, slots=True)
class Contradicts:
    """No node is in the flavor and in one that is given with it: they differ in a label."""

    flavor: str
    other: str
    key: str
    value: str
    other_value: str


@dataclass(frozen=True, slots=True)
class NoTopology:
    """The pods ask for domains of a topology, and the flavor has none.

    Attributes:
        flavor: the flavor.
        level: label of the level that they ask for; empty for none, or where it is not known.
        is_one: whether one domain of the level has to take all pods; else it should.
    """

    flavor: str
    level: str = ""
    is_one: bool = False


@dataclass(frozen=True, slots=True)
class NoTopologyGiven:
    """The pods ask for domains, and for no resource of a flavor with a topology.

    Attributes:
        level: label of the level that they ask for; empty for none, or where it is not known.
        is_one: whether one domain of the level has to take all pods; else it should.
    """

    level: str = ""
    is_one: bool = False


@dataclass(frozen=True, slots=True)
class TopologyOnly:
    """The flavor has a topology, and the pods do not ask for domains of one."""

    flavor: str


@dataclass(frozen=True, slots=True)
class LevelMissing:
    """The topology of the flavor lacks a level that the pods ask for.

    Attributes:
        flavor: the flavor.
        level: label of the first level that it lacks; empty where it is not known.
        is_one: whether one domain of the level has to take all pods; else it should.
    """

    flavor: str
    level: str = ""
    is_one: bool = False


@dataclass(frozen=True, slots=True)
class Unsuited:
    """The devices of the flavor cannot serve the pods.

    Attributes:
        flavor: the flavor.
        problem: sentence of whoever compared the devices, with the flavor in it.
    """

    flavor: str
    problem: str


@dataclass(frozen=True, slots=True)
class QuotaInUse:
    """Too much of the quota is in use; ``missing`` more would have to be free."""

    resource: str
    flavor: str
    missing: int


@dataclass(frozen=True, slots=True)
class QuotaTooSmall:
    """More is asked for than the ClusterQueue could ever use.

    Attributes:
        resource: the resource that is short.
        flavor: the flavor.
        before: amount for earlier pod sets of the workload.
        request: amount that this pod set asks for.
        limit: the most that the ClusterQueue could ever use.
    """

    resource: str
    flavor: str
    before: int
    request: int
    limit: int

    @property
    def asked(self) -> int:
        """Return what all pod sets so far ask for."""
        return self.before + self.request


@dataclass(frozen=True, slots=True)
class CapReached:
    """The amount in use and the request together exceed a cap."""

    reason: ClassVar[WaitReason] = WaitReason.CAP_REACHED
    place: CapPlace
    resource: str
    asked: int
    most: int
    held: int


@dataclass(frozen=True, slots=True)
class ExceedsCap:
    """The request alone exceeds a cap."""

    reason: ClassVar[WaitReason] = WaitReason.EXCEEDS_CAP
    place: CapPlace
    resource: str
    asked: int
    most: int


class NodeFree(NamedTuple):
    """How much is free of a resource on one node."""

    node: str
    amount: int


@dataclass(frozen=True, slots=True)
class NoPlace:
    """The nodes of flavors have no room for pods of a pod set.

    Attributes:
        flavors: the flavors that the pods would get, sorted.
        pod_set: name of the pod set.
        count: number of pods that need a node.
        fitting: how many of them nodes could take.
        resource: the device that the pods ask for most of; of pods without devices another
            resource. Where no node has enough of it, or of another one, it is that one.
        asks: amount of it that one pod asks for.
        free: amount of it that is free, over all nodes that could take such a pod.
        hole: the node of these with most of it free; None where no node could ever take one.
        refusals: how many nodes of the flavors can never take such a pod, by reason, sorted.
        is_joint: each pod set has room by itself, but not all at once.
        largest: the most that any node has of the resource, where all nodes are too small for one
            pod; None otherwise.
        together: labels of nodes that all pods must have in common; of all pod sets, if joint.
        relief: namespace and name, such as ``ml/train-3``, of running work whose end would make
            room; empty where none is looked for or known.
        at_most: how many of the pods the nodes take once they are empty, where these are fewer
            than there are and nothing but the nodes' size keeps others away; None otherwise.
        telling: those of the flavors that say where the nodes are, where others only select all of
            these nodes and more; none where all of them do.
        possible: other flavors that the pods may get, too, whose tolerations count, sorted.
        taints: some of those that keep the pods from nodes, as ``key=value:effect``, sorted.
    """

    flavors: tuple[FlavorName, ...]
    pod_set: PodSetName
    count: int
    fitting: int
    resource: str
    asks: int
    free: int
    hole: NodeFree | None = None
    refusals: tuple[tuple[str, int], ...] = ()
    is_joint: bool = False
    largest: int | None = None
    together: tuple[str, ...] = ()
    relief: str = ""
    at_most: int | None = None
    telling: tuple[FlavorName, ...] = ()
    possible: tuple[FlavorName, ...] = ()
    taints: tuple[str, ...] = ()

    @property
    def told_flavors(self) -> tuple[FlavorName, ...]:
        """Return the flavors by which people know the nodes."""
        return self.telling or self.flavors


class NodesExcluded(NamedTuple):
    """How many domains of the narrowest level take not even one pod; 0 where nobody counted.

    Attributes:
        total: all of them; nodes, where the narrowest level is the host.
        selector: those whose labels are not those that the pods select.
        affinity: those that the required affinity of the pods does not match.
        elsewhere: those outside the domain in which the pods have to stay.
        taints: key, value and effect of a taint that is not tolerated, with their number, sorted.
        resources: the resource that is short, with their number, sorted.
    """

    total: int = 0
    selector: int = 0
    affinity: int = 0
    elsewhere: int = 0
    taints: tuple[tuple[tuple[str, str, str], int], ...] = ()
    resources: tuple[tuple[str, int], ...] = ()


NONE_EXCLUDED: Final = NodesExcluded()


class LayerFit(NamedTuple):
    """How many slices of a layer the best domain takes, and how many there are."""

    level: str
    fitting: int
    needed: int


@dataclass(frozen=True, slots=True)
class DomainsTooSmall:
    """The domains of a topology do not take the pods as close to each other as they must be.

    Attributes:
        topology: its name.
        level: label of the level that was searched last; empty where it is not known.
        fitting: slices that fit where most do; can be all of them where only the leader does not.
        needed: slices that there are.
        size: pods of a slice; 1 where pods are placed one by one, 0 where it is not known.
        is_one: whether one domain of the level has to take all of them.
        layers: the same for each layer of slices; none where there is one layer or none.
        excluded: what takes not even one pod.
        spares: nodes that are kept for whoever loses a node.
    """

    topology: str
    level: str
    fitting: int
    needed: int
    size: int
    is_one: bool = True
    layers: tuple[LayerFit, ...] = ()
    excluded: NodesExcluded = NONE_EXCLUDED
    spares: int = 0


@dataclass(frozen=True, slots=True)
class NoDomains:
    """A topology has no domain on a level: no node of the flavor has the labels of all levels."""

    level: str


@dataclass(frozen=True, slots=True)
class NoLevelAsked:
    """No level is asked for."""


@dataclass(frozen=True, slots=True)
class LevelNotInTopology:
    """A topology has no such level."""

    level: str


@dataclass(frozen=True, slots=True)
class SlicesAboveLevel:
    """Slices would be spread over a wider level than all pods together."""

    slices: str
    level: str


@dataclass(frozen=True, slots=True)
class LayerNotBelow:
    """A layer of slices is not on a narrower level than the one that it is inside of."""

    level: str
    outer: str


@dataclass(frozen=True, slots=True)
class LayerNotDividing:
    """The slices of a layer do not fill those that they are inside of."""

    size: int
    outer: int


@dataclass(frozen=True, slots=True)
class SlicesNotWhole:
    """The pods of a pod set fill no whole number of slices."""

    count: int
    size: int


@dataclass(frozen=True, slots=True)
class GroupWithoutLeader:
    """Pod sets that are placed together are no leader, which is one pod, and its workers.

    Attributes:
        group: their name of the group.
        counts: pods of each.
    """

    group: str
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StaleDomain:
    """Pods of a lost node are not placed: another domain of the workload is gone, too."""

    domain: str


TopologyRefusal = (
    DomainsTooSmall
    | NoDomains
    | NoLevelAsked
    | LevelNotInTopology
    | SlicesAboveLevel
    | LayerNotBelow
    | LayerNotDividing
    | SlicesNotWhole
    | GroupWithoutLeader
    | StaleDomain
)
"""Why pods get no domains of a topology."""

OF_DOMAINS: Final = (
    DomainsTooSmall,
    NoDomains,
    NoLevelAsked,
    LevelNotInTopology,
    SlicesAboveLevel,
    LayerNotBelow,
    LayerNotDividing,
    SlicesNotWhole,
    GroupWithoutLeader,
    StaleDomain,
)
"""The same as types; they name no flavor."""

Capped = CapReached | ExceedsCap
Refusal = (
    NotCovered
    | FlavorMissing
    | NotNominated
    | UntoleratedTaint
    | OtherNodes
    | Contradicts
    | Unsuited
    | QuotaInUse
    | QuotaTooSmall
    | CapReached
    | ExceedsCap
    | NoPlace
    | NoTopology
    | NoTopologyGiven
    | TopologyOnly
    | LevelMissing
    | TopologyRefusal
)
"""Why a flavor is not given to a pod set, or not at once."""

LacksTopology = NoTopology | NoTopologyGiven | LevelMissing
"""Refusals of what asks for a topology, or a level of one, that its queue does not have."""

OF_NODES: Final = (NoPlace, DomainsTooSmall, NoDomains)
"""Refusals that more room on nodes, or more nodes, may end."""

NODES_REFUSE: Final = (
    UntoleratedTaint, OtherNodes, Contradicts, FlavorMissing, NoTopology, LevelMissing,
)  # fmt: skip
"""Refusals that no quota changes: the nodes of the flavor do not take the pods."""


class RefusedPodSet(NamedTuple):
    """The refusals that a pod set met, in the order in which its flavors were tried."""

    name: str
    refusals: tuple[Refusal, ...]


# --------------------------------------------------------------------- why a workload waits


@dataclass(frozen=True, slots=True)
class NoFlavor:
    """Pod sets get no flavors, or none at once.

    Attributes:
        reason: the most hopeless one of the last pod set.
        pod_sets: the pod sets that are refused flavors.
    """

    reason: WaitReason
    pod_sets: tuple[RefusedPodSet, ...]

    @property
    def no_places(self) -> tuple[NoPlace, ...]:
        """Return where nodes have no room, each once."""
        return tuple(refusal for refusal in self.refusals if isinstance(refusal, NoPlace))

    def with_relief(self, flavors: tuple[FlavorName, ...], relief: str) -> "NoFlavor":
        """Return it with the work whose end makes room on the nodes of flavors."""
        pod_sets = tuple(
            RefusedPodSet(
                name,
                tuple(
                    replace(refusal, relief=relief)
                    if isinstance(refusal, NoPlace) and refusal.flavors == flavors
                    else refusal
                    for refusal in refusals
                ),
            )
            for name, refusals in self.pod_sets
        )
        return replace(self, pod_sets=pod_sets)

    def with_missing(
        self, missing: Mapping[tuple[PodSetName, ResourceName, FlavorName], int]
    ) -> "NoFlavor":
        """Return it with other amounts that are missing of quota in use.

        Args:
            missing: amounts by pod set, resource and flavor; others stay.
        """
        pod_sets = tuple(
            RefusedPodSet(
                name,
                tuple(
                    replace(
                        refusal,
                        missing=missing.get(
                            (
                                PodSetName(name),
                                ResourceName(refusal.resource),
                                FlavorName(refusal.flavor),
                            ),
                            refusal.missing,
                        ),
                    )
                    if isinstance(refusal, QuotaInUse)
                    else refusal
                    for refusal in refusals
                ),
            )
            for name, refusals in self.pod_sets
        )
        return replace(self, pod_sets=pod_sets)

    @property
    def no_domains(self) -> tuple[DomainsTooSmall | NoDomains, ...]:
        """Return what domains of topologies do not take the pods, each once.

        None where anything else is in the way of a flavor, too.
        """
        domains = tuple(
            refusal
            for refusal in self.refusals
            if isinstance(refusal, DomainsTooSmall | NoDomains)
        )
        return domains if len(domains) == len(self.refusals) else ()

    @property
    def waits_for_other_flavor(self) -> bool:
        """Return whether another flavor may take it later, as quota or a domain gets free."""
        of_nodes = {flavor for no_place in self.no_places for flavor in no_place.flavors}
        return any(
            isinstance(refusal, NoDomains)
            or (isinstance(refusal, QuotaInUse) and refusal.flavor not in of_nodes)
            for refusal in self.refusals
        )

    @property
    def is_of_nodes(self) -> bool:
        """Return whether it may fit once a node takes more pods than now."""
        return any(isinstance(refusal, OF_NODES) for refusal in self.refusals)

    @property
    def is_of_domains(self) -> bool:
        """Return whether it may fit once a topology has more room than now."""
        return any(isinstance(refusal, DomainsTooSmall | NoDomains) for refusal in self.refusals)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Return the refusals of all pod sets, each once."""
        return tuple(dict.fromkeys(why for _, refusals in self.pod_sets for why in refusals))


@dataclass(frozen=True, slots=True)
class PendingPreemption:
    """It waits until the workloads that it preempts have ended.

    Attributes:
        pod_sets: the pod sets for which they have to make room.
        count: number of these workloads.
    """

    reason: ClassVar[WaitReason] = WaitReason.WAITING_FOR_PREEMPTED
    pod_sets: tuple[RefusedPodSet, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Deferred:
    """It fits once the workloads that others preempt have ended."""

    reason: ClassVar[WaitReason] = WaitReason.WAITING_FOR_PREEMPTED


@dataclass(frozen=True, slots=True)
class Overtaken:
    """Another workload took its quota in the same cycle.

    Attributes:
        takes_victims: whether the other one preempts the workloads that it would preempt.
    """

    reason: ClassVar[WaitReason] = WaitReason.WAITING_FOR_QUOTA
    takes_victims: bool = False


@dataclass(frozen=True, slots=True)
class PodsComing:
    """Pods that were admitted before may go to the nodes that it would get.

    It is tried again in the next cycle, until these pods have nodes.
    """

    reason: ClassVar[WaitReason] = WaitReason.WAITING_FOR_NODE


@dataclass(frozen=True, slots=True)
class NotTried:
    """No cycle has judged it yet."""

    reason: ClassVar[WaitReason] = WaitReason.PENDING_EVALUATION


@dataclass(frozen=True, slots=True)
class GatesCleared:
    """Its admission gates are gone, and no cycle has judged it yet."""

    reason: ClassVar[WaitReason] = WaitReason.PENDING_EVALUATION


@dataclass(frozen=True, slots=True)
class ReservedTwice:
    """Two leaders gave the same quota, and it had not started."""

    reason: ClassVar[WaitReason] = WaitReason.PENDING_EVALUATION


@dataclass(frozen=True, slots=True)
class FailedChecks:
    """An admission check refused it, or asks for a retry."""

    reason: ClassVar[WaitReason] = WaitReason.PENDING_EVALUATION


@dataclass(frozen=True, slots=True)
class SetAside:
    """An error of the program ended the decision about it; it is tried again after a while."""

    reason: ClassVar[WaitReason] = WaitReason.PENDING_EVALUATION


@dataclass(frozen=True, slots=True)
class PodsOfOthersNotReady:
    """Nothing is admitted until the pods of all admitted workloads are ready."""

    reason: ClassVar[WaitReason] = WaitReason.WAITING_FOR_PODS_READY


@dataclass(frozen=True, slots=True)
class Paused:
    """The administrator has paused admission."""

    reason: ClassVar[WaitReason] = WaitReason.ADMISSION_PAUSED


@dataclass(frozen=True, slots=True)
class Deactivated:
    """It is deactivated.

    Attributes:
        cause: what the program that deactivated it said; empty for a person.
    """

    reason: ClassVar[WaitReason] = WaitReason.DEACTIVATED
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Gated:
    """It has admission gates; ``gates`` is their list as annotated."""

    reason: ClassVar[WaitReason] = WaitReason.ADMISSION_GATED
    gates: str


@dataclass(frozen=True, slots=True)
class QueueMissing:
    """It names no LocalQueue that exists, or that names no ClusterQueue that exists."""

    reason: ClassVar[WaitReason] = WaitReason.MISCONFIGURED
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class QueueInactive:
    """Its LocalQueue is stopped, or the ClusterQueue admits nothing."""

    reason: ClassVar[WaitReason] = WaitReason.SUSPENDED
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class QueueGone:
    """Its quota was taken back: a queue is being deleted, or does not exist."""

    reason: ClassVar[WaitReason] = WaitReason.MISCONFIGURED
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class QueueStopped:
    """Its quota was taken back: a queue was stopped."""

    reason: ClassVar[WaitReason] = WaitReason.SUSPENDED
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class NamespaceMissing:
    """Its namespace does not exist."""

    reason: ClassVar[WaitReason] = WaitReason.MISCONFIGURED
    namespace: str


@dataclass(frozen=True, slots=True)
class NamespaceNotServed:
    """The ClusterQueue does not select its namespace."""

    reason: ClassVar[WaitReason] = WaitReason.MISCONFIGURED


@dataclass(frozen=True, slots=True)
class Misconfigured:
    """It breaks a rule of validation; ``problem`` is the message of the rule."""

    reason: ClassVar[WaitReason] = WaitReason.MISCONFIGURED
    problem: str


class QuotaCut(StrEnum):
    """Why quota that a queue has by its nominal quota counts as borrowed."""

    SICK = "sick"
    PROMISED = "promised"


@dataclass(frozen=True, slots=True)
class Preempted:
    """It has lost its quota to another workload.

    Attributes:
        cause: why it was chosen.
        uid: UID of the preemptor, the Workload that gets the quota; empty if unknown.
        job_uid: UID of the preemptor's owner; likewise.
        preemptor_path: path of the preemptor's ClusterQueue in the tree of Cohorts; likewise.
        preemptee_path: path of its own ClusterQueue; likewise.
        cut: why its ClusterQueue lost quota though it used no more than its nominal quota, which
            is held to the GPUs that exist; None where it used more.
    """

    reason: ClassVar[EvictionReason] = EvictionReason.PREEMPTED
    cause: PreemptionReason
    uid: str = ""
    job_uid: str = ""
    preemptor_path: str = ""
    preemptee_path: str = ""
    cut: QuotaCut | None = None


@dataclass(frozen=True, slots=True)
class EvictedBefore:
    """It was evicted, and no cycle has judged it since.

    Attributes:
        cause: reason of the condition Evicted.
        stated: message of that condition.
        preempted: how it was preempted; None where it was evicted for something else.
    """

    reason: ClassVar[WaitReason] = WaitReason.PENDING_EVALUATION
    cause: str
    stated: str
    preempted: Preempted | None = None


@dataclass(frozen=True, slots=True)
class Stated:
    """A condition whose fields nobody knows: another program wrote it."""

    reason: str
    message: str


Why = (
    NoFlavor
    | PendingPreemption
    | Deferred
    | Overtaken
    | PodsComing
    | CapReached
    | ExceedsCap
    | NotTried
    | GatesCleared
    | ReservedTwice
    | FailedChecks
    | SetAside
    | PodsOfOthersNotReady
    | Paused
    | Deactivated
    | Gated
    | QueueMissing
    | QueueInactive
    | QueueGone
    | QueueStopped
    | NamespaceMissing
    | NamespaceNotServed
    | Misconfigured
    | Preempted
    | EvictedBefore
    | Stated
)
"""Why a workload has no quota; ``reason`` is that of the condition, in the words of Kueue."""


# ------------------------------------------------------------- why a ClusterQueue admits nothing


@dataclass(frozen=True, slots=True)
class QueueEnds:
    """It is being deleted."""


@dataclass(frozen=True, slots=True)
class QueueIsStopped:
    """Its stopPolicy stops it."""


@dataclass(frozen=True, slots=True)
class FlavorsMissing:
    """ResourceFlavors that it lists do not exist."""

    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChecksMissing:
    """Admission checks that it asks for do not exist."""

    checks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChecksInactive:
    """Nobody answers admission checks that it asks for."""

    checks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SeveralMultiKueue:
    """It asks for several admission checks of MultiKueue."""

    checks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MultiKueuePerFlavor:
    """It asks for MultiKueue in some flavors only."""

    checks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MultiKueueWithProvisioning:
    """It asks for MultiKueue and ProvisioningRequests.

    Attributes:
        remote: admission checks of MultiKueue.
        provisioned: those of ProvisioningRequests.
    """

    remote: tuple[str, ...]
    provisioned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopologiesMissing:
    """Topologies that its flavors name do not exist; ``pairs`` are Topology and flavor."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CohortCycle:
    """Each of the Cohorts above it is above itself."""

    cohorts: tuple[str, ...]


QueueBlocker = (
    QueueEnds
    | QueueIsStopped
    | FlavorsMissing
    | ChecksMissing
    | ChecksInactive
    | SeveralMultiKueue
    | MultiKueuePerFlavor
    | MultiKueueWithProvisioning
    | TopologiesMissing
    | CohortCycle
)
"""Why a ClusterQueue admits nothing."""
