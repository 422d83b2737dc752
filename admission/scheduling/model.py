"""The objects that decisions use: flavors, queues, cohorts, workloads; immutable values.

Amounts are integers in the canonical unit of their resource (``base.amount``), times are
microseconds since the epoch. Values compare by content, so "did it change" is ``old != new``.

Source: kueue apis/kueue/v1beta2, reduced to what a decision depends on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple

from admission.base.causes import NOT_ELSEWHERE, Elsewhere
from admission.base.names import (
    UNKNOWN_REQUESTER,
    ChargeKey,
    ClusterQueueName,
    CohortName,
    FlavorName,
    FlavorResource,
    LocalQueueKey,
    PodSetName,
    ResourceName,
    Uid,
    WorkloadKey,
)
from admission.base.selectors import Labels, Requirement, compile_requirements
from admission.scheduling.topology.request import TopologyRequest

DEFAULT_WEIGHT: Final = 10**9
"""Fair-sharing weight 1, in the unit of every weight: 1e-9."""


class QueueingStrategy(StrEnum):
    """What a ClusterQueue does when its head does not fit."""

    STRICT_FIFO = "StrictFIFO"
    BEST_EFFORT_FIFO = "BestEffortFIFO"


class StopPolicy(StrEnum):
    """Whether a queue is held, and whether it also gives up what it runs."""

    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


class PreemptionPolicy(StrEnum):
    """Which workloads a workload may preempt."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    LOWER_OR_NEWER_EQUAL_PRIORITY = "LowerOrNewerEqualPriority"
    ANY = "Any"


class SearchPolicy(StrEnum):
    """Whether a flavor scan may stop at a flavor that is usable but not ideal."""

    MAY_STOP = "MayStopSearch"
    TRY_NEXT = "TryNextFlavor"


class Preference(StrEnum):
    """What decides first between flavors: the better preemption mode or less borrowing."""

    BORROWING_OVER_PREEMPTION = "BorrowingOverPreemption"
    PREEMPTION_OVER_BORROWING = "PreemptionOverBorrowing"


class FairStrategy(StrEnum):
    """When a victim of another ClusterQueue may be taken for the sake of fairness."""

    LESS_THAN_OR_EQUAL_TO_FINAL_SHARE = "LessThanOrEqualToFinalShare"
    LESS_THAN_INITIAL_SHARE = "LessThanInitialShare"


# ---------------------------------------------------------------------------------- placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A taint of the nodes of a flavor."""

    key: str
    value: str = ""
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A toleration of a pod; an empty operator means Equal.

    Attributes:
        is_for_a_time: whether pods are removed from a node some time after it got the taint
            (``tolerationSeconds``).
    """

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    is_for_a_time: bool = False


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector with a value to compare; calling it tests labels.

    Attributes:
        requirements: all must hold; none of them means everything matches.
    """

    requirements: tuple[Requirement, ...] = ()

    def __call__(self, labels: Labels) -> bool:
        """Return whether the labels match."""
        return compile_requirements(self.requirements)(labels)


class Enforcement(StrEnum):
    """What the nodes of a flavor decide for workloads that may get it.

    Attributes:
        ENFORCE: a workload waits until all its pods can be on nodes.
        TELL: nodes decide nothing, and people are told where a pod has no node.
        OFF: nodes are not looked at.
    """

    ENFORCE = "Enforce"
    TELL = "Tell"
    OFF = "Off"


class SpareNodes(NamedTuple):
    """Nodes that are kept for whoever loses a node of the same domain.

    Attributes:
        level: label of the level of the domains.
        nodes: how many of each domain.
    """

    level: str
    nodes: int


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One alternative of a required node affinity; all of its expressions must hold.

    Attributes:
        expressions: about labels.
        fields: about fields; the only one is ``metadata.name``.
    """

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


class Spread(NamedTuple):
    """A spread constraint of a pod set over its own pods, which must hold.

    Attributes:
        key: label of nodes; nodes with one value are one domain.
        max_skew: the most by which two domains may differ in their number of pods.
    """

    key: str
    max_skew: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNeeds:
    """What one pod of a pod set asks of a node, besides selector and tolerations.

    Attributes:
        requests: what the pod requests, by resource, sorted, without zeros.
        devices: those of its resources that are devices, sorted.
        terms: alternatives of its required node affinity; None when there is none.
        volumes: of each of its volumes that is on certain nodes, alternatives as in ``terms``.
        together: labels of nodes of which all of its pods' nodes must have the same values,
            sorted.
        jointly: those of ``together`` of which the nodes of all pods of the workload must have the
            same values, whatever their pod set.
        apart: labels of nodes by which its pods must be on different nodes, sorted.
        spread: see `Spread`, sorted.
        is_known: whether that is all it asks; a pod with ResourceClaims asks for more.
        priority: by which the scheduler lets it preempt pods on nodes; None where it may not.
    """

    requests: tuple[tuple[str, int], ...] = ()
    devices: tuple[str, ...] = ()
    terms: tuple[NodeTerm, ...] | None = None
    volumes: tuple[tuple[NodeTerm, ...], ...] = ()
    together: tuple[str, ...] = ()
    jointly: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    spread: tuple[Spread, ...] = ()
    is_known: bool = True
    priority: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFlavor:
    """A kind of node that quota is counted on.

    Attributes:
        node_labels: labels of its nodes.
        node_taints: taints of its nodes.
        tolerations: given to every pod that is admitted to the flavor.
        topology: name of its Topology; empty when it has none.
        placement: what its nodes decide; None for what the configuration says.
        spare_nodes: nodes that are kept in each domain of its topology; None for none.
    """

    name: FlavorName
    node_labels: Mapping[str, str] = field(default_factory=dict)
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str = ""
    placement: Enforcement | None = None
    spare_nodes: SpareNodes | None = None


# ------------------------------------------------------------------------------------- queues


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceQuota:
    """Quota of one resource in one flavor; a limit of None is no limit.

    Attributes:
        nominal: what counts.
        borrowing_limit: most that may be borrowed.
        lending_limit: most that may be lent.
        withheld: what is promised beyond ``nominal`` and is not there; only told to who waits.
        elsewhere: what of it exists and is promised to others before.
    """

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None
    withheld: int = 0
    elsewhere: Elsewhere = NOT_ELSEWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorQuotas:
    """Quotas of one flavor."""

    name: FlavorName
    resources: Mapping[ResourceName, ResourceQuota] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceGroup:
    """Resources that always get one common flavor, and the flavors in order of preference."""

    covered_resources: tuple[ResourceName, ...]
    flavors: tuple[FlavorQuotas, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """A node of the quota tree above ClusterQueues.

    Attributes:
        parent: the cohort above; None for a root.
        fair_weight: in units of 1e-9.
    """

    name: CohortName
    parent: CohortName | None = None
    resource_groups: tuple[ResourceGroup, ...] = ()
    fair_weight: int = DEFAULT_WEIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorFungibility:
    """When the search for a flavor continues with the next flavor."""

    when_can_borrow: SearchPolicy = SearchPolicy.MAY_STOP
    when_can_preempt: SearchPolicy = SearchPolicy.TRY_NEXT
    preference: Preference = Preference.BORROWING_OVER_PREEMPTION


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """Which workloads the workloads of a ClusterQueue may preempt.

    Attributes:
        max_priority_threshold: while borrowing, only workloads up to this priority may be
            preempted; None is no threshold.
    """

    within_cluster_queue: PreemptionPolicy = PreemptionPolicy.NEVER
    reclaim_within_cohort: PreemptionPolicy = PreemptionPolicy.NEVER
    borrow_within_cohort: PreemptionPolicy = PreemptionPolicy.NEVER
    max_priority_threshold: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheckRule:
    """An admission check and the flavors that need it; no flavors means all of them."""

    name: str
    on_flavors: frozenset[FlavorName] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueue:
    """A leaf of the quota tree.

    Attributes:
        cohort: the cohort above; None when it stands alone.
        fair_weight: in units of 1e-9.
        namespace_selector: which namespaces may use it; None matches nothing.
        usage_based: orders its LocalQueues by their past usage (admission fair sharing).
        surge_quota: what pods of rollouts may use besides all quota; neither lent nor borrowed.
        minimum_run_us: while a workload has been admitted for less, others are preempted before
            it.
        max_per_user: the most that one user may hold, in all flavors; missing means any amount.
        terminating: is being deleted; admits nothing more.
    """

    name: ClusterQueueName
    cohort: CohortName | None = None
    resource_groups: tuple[ResourceGroup, ...] = ()
    queueing_strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO
    fungibility: FlavorFungibility = FlavorFungibility()
    preemption: Preemption = Preemption()
    fair_weight: int = DEFAULT_WEIGHT
    stop_policy: StopPolicy = StopPolicy.NONE
    namespace_selector: Selector | None = None
    admission_checks: tuple[AdmissionCheckRule, ...] = ()
    usage_based: bool = False
    surge_quota: Mapping[FlavorResource, int] = field(default_factory=dict)
    minimum_run_us: int = 0
    max_per_user: Mapping[ResourceName, int] = field(default_factory=dict)
    terminating: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueue:
    """A queue in a namespace that points to a ClusterQueue.

    Attributes:
        fair_weight: in units of 1e-9; for admission fair sharing.
        minimum_run_us: upper bound of the minimum run time of its ClusterQueue; None for no bound.
        max_per_user: the most that one user may hold by it, in all flavors.
        max_in_use: the most that all its workloads together may hold, likewise.
    """

    key: LocalQueueKey
    cluster_queue: ClusterQueueName
    stop_policy: StopPolicy = StopPolicy.NONE
    fair_weight: int = DEFAULT_WEIGHT
    minimum_run_us: int | None = None
    max_per_user: Mapping[ResourceName, int] = field(default_factory=dict)
    max_in_use: Mapping[ResourceName, int] = field(default_factory=dict)
    terminating: bool = False


# ---------------------------------------------------------------------------------- workloads


class User(NamedTuple):
    """The user who requested a workload.

    Attributes:
        name: of the user or service account.
        namespace: namespace of the workloads if their user is unknown; else empty.
    """

    name: str
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Something that pods share, so that it is needed once.

    Attributes:
        key: its identity; of several workloads that share it one is charged.
        requests: amounts, canonical units.
        requests_by_flavor: amounts of ``requests`` that differ in a flavor.
    """

    key: str
    requests: Mapping[ResourceName, int] = field(default_factory=dict)
    requests_by_flavor: Mapping[FlavorName, Mapping[ResourceName, int]] = field(
        default_factory=dict
    )

    def in_flavor(self, flavor: FlavorName, resource: ResourceName) -> int:
        """Return the amount of a resource, were the pods to run in a flavor."""
        differing = self.requests_by_flavor.get(flavor, {})
        return differing.get(resource, self.requests.get(resource, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """Equal pods of a workload.

    Attributes:
        count: pods in the spec.
        min_count: the least number of pods that is useful; None when all are needed.
        requests: what one pod needs, after all adjustments, canonical units.
        requests_by_flavor: amounts of ``requests`` that differ in a flavor (resources whose
            amount depends on the flavor's product); a missing flavor or resource means the
            amount in ``requests``.
        together: what all pods together need besides, however many they are.
        unsuited: flavors that cannot serve the pods whatever the quota, and why.
        node_selector: labels that the nodes must have.
        affinity: alternatives of required node affinity, each a conjunction; None when there is
            no required affinity.
        needs: what one pod asks of a node; None where that is not known.
        group: pod sets with the same group get the same flavors; empty for none.
        topology: how close to each other the pods must be; None where nothing is asked.
        shape: digest of everything in the pod template that tells two pods apart for quota.
        reclaimable: pods that no longer need quota.
    """

    name: PodSetName
    count: int = 1
    min_count: int | None = None
    requests: Mapping[ResourceName, int] = field(default_factory=dict)
    requests_by_flavor: Mapping[FlavorName, Mapping[ResourceName, int]] = field(
        default_factory=dict
    )
    together: tuple[Together, ...] = ()
    unsuited: Mapping[FlavorName, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[tuple[Requirement, ...], ...] | None = None
    needs: PodNeeds | None = None
    tolerations: tuple[Toleration, ...] = ()
    group: str = ""
    topology: TopologyRequest | None = None
    shape: str = ""
    reclaimable: int = 0

    @property
    def effective_count(self) -> int:
        """Pods that still need quota."""
        return self.count - min(self.reclaimable, self.count)


@dataclass(frozen=True, slots=True)
class PodDomains:
    """The domains of a topology in which the pods of a pod set are.

    Attributes:
        levels: labels of the levels of which values are told; the host alone where it is the
            narrowest.
        counts: values and pods of each domain, sorted by the whole path.
    """

    levels: tuple[str, ...]
    counts: tuple[tuple[tuple[str, ...], int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetAssignment:
    """Flavors and total usage of one pod set.

    Attributes:
        count: pods that got quota; below the spec after partial admission.
        flavors: the flavor of each resource.
        usage: total over ``count`` pods, canonical units.
        domains: where the pods are; None where no flavor has a topology.
    """

    name: PodSetName
    count: int
    flavors: Mapping[ResourceName, FlavorName] = field(default_factory=dict)
    usage: Mapping[ResourceName, int] = field(default_factory=dict)
    domains: PodDomains | None = None

    def of(self, count: int) -> "PodSetAssignment":
        """Return the part of it that is for so many of its pods."""
        if count >= self.count:
            return self
        usage = {name: amount // self.count * count for name, amount in self.usage.items()}
        return replace(self, count=count, usage=usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Quota that a workload holds.

    Attributes:
        reserved_us: when the quota was reserved.
        admitted: whether its pods may run; False while admission checks are open.
        surges: whether it is surge quota.
        admitted_us: since when.
    """

    cluster_queue: ClusterQueueName
    pod_sets: tuple[PodSetAssignment, ...]
    reserved_us: int = 0
    admitted: bool = True
    surges: bool = False
    admitted_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """An eviction that is in force.

    Attributes:
        reason: the reason of the condition Evicted.
        since_us: when it became True.
    """

    reason: str
    since_us: int = 0


@dataclass(frozen=True, slots=True)
class PastPreemptions:
    """Who preempted a workload, and how often.

    Attributes:
        counts: lineages of preemptors and how often each preempted it, the latest last.
        others: what counts for each preemptor that is not among them.
    """

    counts: tuple[tuple[str, int], ...] = ()
    others: int = 0

    def by(self, lineage: str) -> int:
        """Return how often preemptors of a lineage preempted it."""
        return next((count for key, count in self.counts if key == lineage), self.others)


NEVER_PREEMPTED: Final = PastPreemptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Pods that are admitted together.

    Attributes:
        active: False when it was deactivated.
        finished: it ended; holds and wants nothing.
        held: it may not queue now (on hold, waiting for replacement pods, gated, or with an
            admission that is still to be taken out).
        on_hold: its owner has said that it is not to queue; the status says so already.
        gates: names of the gates that keep it from queueing, as annotated; empty for none.
        reservation: quota it holds; None while it waits.
        eviction: set while Evicted is True.
        requeued: the condition Requeued is not False.
        requeue_at_us: not tried before; None for no backoff.
        job_uid: label job-uid, for the preemption message; empty when unknown.
        failed_checks: an admission check said Retry or Rejected.
        invalid: why it may not be admitted as specified; empty when it is valid.
        pods_ready: all of its pods run; matters while admission waits for that.
        generation: of the object; a change makes it tried again.
        stays: nobody can tell it to leave, so it is nobody's victim.
        owner: UID of the object that controls it; empty for none.
        pod_controller: UID of the object that controls its one pod; empty for none.
        replaces: the workload of the same owner in whose place it is admitted (workload slices).
        minimum_run_us: as of its LocalQueue.
        requester: name of the user who asked for it; empty or `UNKNOWN_REQUESTER` for nobody.
        preempted_by: past preemptions, also those of the workloads in whose place it came.
        stands_for: the workload whose released pods it is charged for besides that, as far as they
            may still get a node; None for none.
        never_preempts: it waits before those of a lower priority, and preempts none of them.
    """

    key: ChargeKey
    uid: Uid
    queue: LocalQueueKey
    priority: int = 0
    created_us: int = 0
    pod_sets: tuple[PodSet, ...] = ()
    active: bool = True
    finished: bool = False
    held: bool = False
    on_hold: bool = False
    gates: str = ""
    reservation: Reservation | None = None
    eviction: Eviction | None = None
    requeued: bool = True
    requeue_at_us: int | None = None
    job_uid: str = ""
    failed_checks: bool = False
    invalid: str = ""
    pods_ready: bool = False
    generation: int = 0
    stays: bool = False
    owner: str = ""
    pod_controller: str = ""
    replaces: WorkloadKey | None = None
    minimum_run_us: int | None = None
    requester: str = ""
    preempted_by: PastPreemptions = NEVER_PREEMPTED
    stands_for: WorkloadKey | None = None
    never_preempts: bool = False

    @property
    def is_pod(self) -> bool:
        """Return whether it is charged besides Workloads, and counted as none, such as a pod."""
        return not isinstance(self.key, WorkloadKey)

    @property
    def workload_key(self) -> WorkloadKey:
        """Return its key where it is a Workload, such as all that wait are."""
        assert isinstance(self.key, WorkloadKey)
        return self.key

    @property
    def user(self) -> User:
        """Return whose caps it comes under; workloads of a namespace that are nobody's share."""
        if self.requester in {"", UNKNOWN_REQUESTER}:
            return User(UNKNOWN_REQUESTER, self.key.namespace)
        return User(self.requester)

    @property
    def lineage(self) -> str:
        """Return the identity that it shares with the workloads that replace it.

        Anybody can write the UID of an object of another namespace into a pod.
        """
        return f"{self.key.namespace}/{self.pod_controller or self.owner or self.uid}"

    @property
    def is_leaving(self) -> bool:
        """Return whether it was told to give back the quota that it holds.

        An eviction is in force until the next admission is written. So one that is admitted again,
        and of which that is not written yet, is not leaving.
        """
        return self.eviction is not None and self.reservation is not None

    @property
    def counts(self) -> bool:
        """Return whether its reservation is usage.

        It holds one, and neither ended nor was stopped.
        """
        return self.reservation is not None and self.active and not self.finished

    @property
    def wants_quota(self) -> bool:
        """Return whether it may stand in a queue."""
        return self.reservation is None and self.active and not (self.finished or self.held)


# ------------------------------------------------------------------------------------- config


@dataclass(frozen=True, slots=True, kw_only=True)
class FairSharing:
    """Fair sharing between ClusterQueues.

    Attributes:
        strategies: preemption strategies in order; one or two.
    """

    strategies: tuple[FairStrategy, ...] = (
        FairStrategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE,
        FairStrategy.LESS_THAN_INITIAL_SHARE,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionFairSharing:
    """Ordering of LocalQueues by past usage.

    Attributes:
        half_life_us: time after which past usage is halved; 0 forgets it at once.
        sampling_us: how often usage is sampled.
        weights: factor of each resource in units of 1e-9; missing means 1.
    """

    half_life_us: int
    sampling_us: int = 300_000_000
    weights: Mapping[ResourceName, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Settings that change decisions.

    Attributes:
        fair_sharing: None for the classical order and preemption.
        ignore_undeclared: requests for resources that a ClusterQueue does not list are free
            (``quotaCheckStrategy: IgnoreUndeclared``) instead of never fitting.
        requeue_by_eviction: a workload whose pods were not ready in time queues by the time of
            its eviction instead of its creation.
        retry_batch_us: parked workloads return this long after the event that frees them.
        edit_batch_us: likewise after a change of a queue, a flavor, a cohort or a namespace.
        placement: what nodes decide in flavors that do not say it; None for what their nodes
            suggest.
        one_at_a_time: nothing is admitted while a workload with quota has pods that are not ready
            (``waitForPodsReady.blockAdmission``).
        paused: no workload gets quota; what has quota keeps it.
        consistent_flavors: flavors of two groups that give a node label different values are
            not given together. Kueue gives them, and cannot start the pods.
        heads_per_cycle: most heads that one cycle decides; the trees take turns. None for all.
    """

    fair_sharing: FairSharing | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    ignore_undeclared: bool = False
    requeue_by_eviction: bool = True
    retry_batch_us: int = 0
    edit_batch_us: int = 0
    placement: Enforcement | None = None
    one_at_a_time: bool = False
    paused: bool = False
    consistent_flavors: bool = False
    heads_per_cycle: int | None = None


Usage = Mapping[FlavorResource, int]
"""Amounts per flavor and resource; a missing key is 0."""
