"""The parts of stored objects that the program reads, as immutable structs.

Decoding keeps the named fields and skips the rest, at a tenth of the cost of whole documents. So
an object is never written back from its view: writes are patches, or replace a status of which
the view has every member. Field names are the wire names in snake case. Times stay the text that
the API server sent; quantities too.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

# The aliases are what makes these names part of this module.
from admission.api.viewbase import Condition as Condition  # noqa: PLC0414
from admission.api.viewbase import Object as Object  # noqa: PLC0414
from admission.api.viewbase import ObjectMeta as ObjectMeta  # noqa: PLC0414
from admission.api.viewbase import OwnerReference as OwnerReference  # noqa: PLC0414
from admission.api.viewbase import View as View  # noqa: PLC0414
from admission.api.viewstatuses import AdmissionCheckStatus, CohortStatus
from admission.api.viewstatuses import QueueStatus as QueueStatus  # noqa: PLC0414
from admission.base import structs


class LabelSelectorRequirement(View, frozen=True, kw_only=True):
    """One expression of a label, node or match selector."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class LabelSelector(View, frozen=True, kw_only=True):
    """metav1.LabelSelector."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[LabelSelectorRequirement, ...] | None = None


class ResourceRequirements(View, frozen=True, kw_only=True):
    """Requests and limits, quantities as text."""

    requests: dict[str, str | int] | None = None
    limits: dict[str, str | int] | None = None


class ContainerPort(View, frozen=True, kw_only=True):
    """A port of a container, for the role hash."""

    name: str | None = None
    host_port: int | None = None
    container_port: int | None = None
    protocol: str | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")


class Container(View, frozen=True, kw_only=True):
    """A container, init container or sidecar (``restart_policy`` Always)."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    ports: tuple[ContainerPort, ...] | None = None


class Toleration(View, frozen=True, kw_only=True):
    """corev1.Toleration; an empty operator means Equal."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Taint(View, frozen=True, kw_only=True):
    """corev1.Taint."""

    key: str
    value: str = ""
    effect: str


class NodeSelectorTerm(View, frozen=True, kw_only=True):
    """One alternative of a node affinity."""

    match_expressions: tuple[LabelSelectorRequirement, ...] | None = None
    match_fields: tuple[LabelSelectorRequirement, ...] | None = None


class NodeSelector(View, frozen=True, kw_only=True):
    """Alternatives of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(View, frozen=True, kw_only=True):
    """Required node affinity; preferences are not read."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(View, frozen=True, kw_only=True):
    """corev1.Affinity."""

    node_affinity: NodeAffinity | None = None


class SchedulingGate(View, frozen=True, kw_only=True):
    """A reason why the scheduler must not look at the pod yet."""

    name: str


class PodResourceClaim(View, frozen=True, kw_only=True):
    """corev1.PodResourceClaim: a claim by name, or one made from a template for this pod."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(View, frozen=True, kw_only=True):
    """What quota depends on in a pod spec."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    scheduling_gates: tuple[SchedulingGate, ...] | None = None
    scheduler_name: str = ""
    node_name: str = ""
    overhead: dict[str, str | int] | None = None
    resources: ResourceRequirements | None = None
    priority: int | None = None
    priority_class_name: str = ""
    runtime_class_name: str | None = None
    resource_claims: tuple[PodResourceClaim, ...] | None = None
    topology_spread_constraints: tuple[Any, ...] | None = None


class PodCondition(View, frozen=True, kw_only=True):
    """corev1.PodCondition."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PodClaimStatus(View, frozen=True, kw_only=True):
    """The ResourceClaim that was made for a pod."""

    resource_claim_name: str | None = None


class PodStatus(View, frozen=True, kw_only=True):
    """Phase and conditions, and the claims that were made for the pod."""

    phase: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] | None = None
    resource_claim_statuses: tuple[PodClaimStatus, ...] | None = None
    extended_resource_claim_status: PodClaimStatus | None = None


class Pod(Object, frozen=True, kw_only=True):
    """v1 Pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


_AS_POD_SPEC: Final = structs.converter(PodSpec)


class PodDocument(Object, frozen=True, kw_only=True):
    """v1 Pod with its spec whole, for whoever copies the spec."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: PodStatus = PodStatus()

    def view(self) -> Pod:
        """The parts that decisions depend on.

        Raises:
            msgspec.ValidationError: the spec is not a pod's.
        """
        spec = _AS_POD_SPEC(self.spec)
        return Pod(metadata=self.metadata, spec=spec, status=self.status)


class Namespace(Object, frozen=True, kw_only=True):
    """v1 Namespace."""


class NodeSpec(View, frozen=True, kw_only=True):
    """Schedulability of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None


class NodeStatus(View, frozen=True, kw_only=True):
    """Capacity and conditions of a node."""

    allocatable: dict[str, str | int] | None = None
    capacity: dict[str, str | int] | None = None
    conditions: tuple[PodCondition, ...] | None = None


class Node(Object, frozen=True, kw_only=True):
    """v1 Node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class LimitRangeItem(View, frozen=True, kw_only=True):
    """One item of a LimitRange; quantities as text."""

    type: str = ""
    max: dict[str, str | int] | None = None
    min: dict[str, str | int] | None = None
    default: dict[str, str | int] | None = None
    default_request: dict[str, str | int] | None = None
    max_limit_request_ratio: dict[str, str | int] | None = None


class LimitRangeSpec(View, frozen=True, kw_only=True):
    """Items of a LimitRange."""

    limits: tuple[LimitRangeItem, ...] | None = ()


class LimitRange(Object, frozen=True, kw_only=True):
    """v1 LimitRange."""

    spec: LimitRangeSpec = LimitRangeSpec()


class Overhead(View, frozen=True, kw_only=True):
    """What a runtime takes for itself; quantities as text."""

    pod_fixed: dict[str, str | int] | None = None


class RuntimeClass(Object, frozen=True, kw_only=True):
    """node.k8s.io/v1 RuntimeClass."""

    overhead: Overhead | None = None


class PriorityClass(Object, frozen=True, kw_only=True):
    """scheduling.k8s.io/v1 PriorityClass."""

    value: int = 0
    global_default: bool = False


class ResourceQuota(View, frozen=True, kw_only=True):
    """Quota of one resource in one flavor; limits None = no limit."""

    name: str
    nominal_quota: str | int
    borrowing_limit: str | int | None = None
    lending_limit: str | int | None = None


class FlavorQuotas(View, frozen=True, kw_only=True):
    """Quotas of one flavor."""

    name: str
    resources: tuple[ResourceQuota, ...] = ()


class ResourceGroup(View, frozen=True, kw_only=True):
    """Resources that are assigned together from one list of flavors."""

    covered_resources: tuple[str, ...] = ()
    flavors: tuple[FlavorQuotas, ...] = ()


class FairSharing(View, frozen=True, kw_only=True):
    """Fair-sharing weight as quantity text."""

    weight: str | int | None = None


class BorrowWithinCohort(View, frozen=True, kw_only=True):
    """Preemption while borrowing."""

    policy: str = "Never"
    max_priority_threshold: int | None = None


class Preemption(View, frozen=True, kw_only=True):
    """Preemption policies of a ClusterQueue."""

    reclaim_within_cohort: str = "Never"
    within_cluster_queue: str = "Never"
    borrow_within_cohort: BorrowWithinCohort | None = None


class FlavorFungibility(View, frozen=True, kw_only=True):
    """When to try the next flavor. v1beta1's Borrow and Preempt never reach a view."""

    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str | None = None


class AdmissionCheckRule(View, frozen=True, kw_only=True):
    """An admission check and the flavors it applies to; None or empty = all."""

    name: str
    on_flavors: tuple[str, ...] | None = None


class AdmissionChecksStrategy(View, frozen=True, kw_only=True):
    """Admission checks of a ClusterQueue."""

    admission_checks: tuple[AdmissionCheckRule, ...] | None = None


class AdmissionScope(View, frozen=True, kw_only=True):
    """Admission fair sharing mode."""

    admission_mode: str = ""


class ClusterQueueSpec(View, frozen=True, kw_only=True):
    """Spec of a ClusterQueue."""

    resource_groups: tuple[ResourceGroup, ...] | None = None
    cohort_name: str = ""
    queueing_strategy: str = "BestEffortFIFO"
    namespace_selector: LabelSelector | None = None
    flavor_fungibility: FlavorFungibility | None = None
    preemption: Preemption | None = None
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: str = "None"
    fair_sharing: FairSharing | None = None
    admission_scope: AdmissionScope | None = None
    concurrent_admission_policy: dict[str, Any] | None = None


class ClusterQueue(Object, frozen=True, kw_only=True):
    """kueue.x-k8s.io/v1beta2 ClusterQueue."""

    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: QueueStatus = QueueStatus()


class CohortSpec(View, frozen=True, kw_only=True):
    """Spec of a Cohort."""

    parent_name: str = ""
    resource_groups: tuple[ResourceGroup, ...] | None = None
    fair_sharing: FairSharing | None = None


class Cohort(Object, frozen=True, kw_only=True):
    """kueue.x-k8s.io/v1beta2 Cohort."""

    spec: CohortSpec = CohortSpec()
    status: CohortStatus = CohortStatus()


class LocalQueueSpec(View, frozen=True, kw_only=True):
    """Spec of a LocalQueue."""

    cluster_queue: str = ""
    stop_policy: str = "None"
    fair_sharing: FairSharing | None = None


class LocalQueue(Object, frozen=True, kw_only=True):
    """kueue.x-k8s.io/v1beta2 LocalQueue."""

    spec: LocalQueueSpec = LocalQueueSpec()
    status: QueueStatus = QueueStatus()


class ResourceFlavorSpec(View, frozen=True, kw_only=True):
    """Spec of a ResourceFlavor."""

    node_labels: dict[str, str] | None = None
    node_taints: tuple[Taint, ...] | None = None
    tolerations: tuple[Toleration, ...] | None = None
    topology_name: str = ""


class ResourceFlavor(Object, frozen=True, kw_only=True):
    """kueue.x-k8s.io/v1beta2 ResourceFlavor."""

    spec: ResourceFlavorSpec = ResourceFlavorSpec()


class WorkloadPriorityClass(Object, frozen=True, kw_only=True):
    """kueue.x-k8s.io/v1beta2 WorkloadPriorityClass."""

    value: int = 0


class AdmissionCheckSpec(View, frozen=True, kw_only=True):
    """Who answers an admission check."""

    controller_name: str = ""


class AdmissionCheck(Object, frozen=True, kw_only=True):
    """kueue.x-k8s.io/v1beta2 AdmissionCheck, without its parameters."""

    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: AdmissionCheckStatus = AdmissionCheckStatus()


class Topology(Object, frozen=True, kw_only=True):
    """kueue.x-k8s.io/v1beta2 Topology, without its levels."""


class PodTemplate(View, frozen=True, kw_only=True):
    """corev1.PodTemplateSpec."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class TopologyRequest(View, frozen=True, kw_only=True):
    """Topology request of a pod set, as far as it groups pod sets."""

    pod_set_group_name: str | None = None


class PodSet(View, frozen=True, kw_only=True):
    """A set of equal pods of a Workload."""

    name: str = "main"
    count: int = 1
    min_count: int | None = None
    template: PodTemplate = PodTemplate()
    topology_request: TopologyRequest | None = None


class PriorityClassRef(View, frozen=True, kw_only=True):
    """Where a Workload's priority comes from."""

    group: str
    kind: str
    name: str


class WorkloadSpec(View, frozen=True, kw_only=True):
    """Spec of a Workload."""

    pod_sets: tuple[PodSet, ...] | None = None
    queue_name: str = ""
    priority_class_ref: PriorityClassRef | None = None
    priority: int | None = None
    active: bool | None = None
    maximum_execution_time_seconds: int | None = None


class PodSetAssignment(View, frozen=True, kw_only=True):
    """Flavors and total usage of one pod set; quantities as text."""

    name: str = "main"
    flavors: dict[str, str] | None = None
    resource_usage: dict[str, str | int] | None = None
    count: int | None = None


class Admission(View, frozen=True, kw_only=True):
    """Reservation of a Workload."""

    cluster_queue: str = ""
    pod_set_assignments: tuple[PodSetAssignment, ...] | None = None


class RequeueState(View, frozen=True, kw_only=True):
    """Backoff after an eviction."""

    count: int | None = None
    requeue_at: str | None = None


class ReclaimablePod(View, frozen=True, kw_only=True):
    """Pods of a pod set that no longer need quota."""

    name: str
    count: int


class PodSetUpdate(View, frozen=True, kw_only=True):
    """What an admission check adds to the pods of one pod set."""

    name: str = "main"
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[Toleration, ...] | None = None


class AdmissionCheckState(View, frozen=True, kw_only=True):
    """State of one admission check of a Workload: Pending, Ready, Retry or Rejected."""

    name: str
    state: str
    message: str = ""
    last_transition_time: str = ""
    requeue_after_seconds: int | None = None
    retry_count: int | None = None
    pod_set_updates: tuple[PodSetUpdate, ...] | None = None


class EvictionCount(View, frozen=True, kw_only=True):
    """How often a Workload was evicted for one reason and cause."""

    reason: str
    underlying_cause: str = ""
    count: int = 0


class SchedulingStats(View, frozen=True, kw_only=True):
    """What happened to a Workload so far."""

    evictions: tuple[EvictionCount, ...] | None = None


class WorkloadStatus(View, frozen=True, kw_only=True):
    """Status of a Workload; has every member that the kind has."""

    conditions: tuple[Condition, ...] | None = None
    admission: Admission | None = None
    resource_requests: Any = None
    requeue_state: RequeueState | None = None
    reclaimable_pods: tuple[ReclaimablePod, ...] | None = None
    admission_checks: tuple[AdmissionCheckState, ...] | None = None
    scheduling_stats: SchedulingStats | None = None
    accumulated_past_execution_time_seconds: int | None = None
    cluster_name: Any = None
    nominated_cluster_names: Any = None
    unhealthy_nodes: Any = None
    preemption_gates: Any = None

    def members(self) -> Iterator[str]:
        """The members that it has, as they are named on the wire."""
        return (wire for name, wire in _STATUS_MEMBERS if getattr(self, name) is not None)

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type, if any."""
        for one in self.conditions or ():
            if one.type == kind:
                return one
        return None

    def is_true(self, kind: str) -> bool:
        """Whether the condition of that type exists and is True."""
        found = self.condition(kind)
        return found is not None and found.status == "True"


_STATUS_MEMBERS: Final = tuple(
    (field.name, field.encode_name) for field in msgspec.structs.fields(WorkloadStatus)
)


class Workload(Object, frozen=True, kw_only=True):
    """kueue.x-k8s.io/v1beta2 Workload."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()
