"""Workload: one request for quota, made of sets of equal pods."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final

import msgspec

from admission.base import names
from admission.objects import markers, podtemplate, topology_assignment, workload_rules
from admission.objects.fields import (
    COUNT,
    LABEL,
    MESSAGE,
    NOT_EMPTY,
    POSITIVE,
    REQUIRED,
    SUBDOMAIN,
    UNREAD,
    Int32,
    Quantity,
    Shape,
    Timestamp,
    api_default,
    one_of,
    text,
)
from admission.objects.markers import Rule
from admission.objects.queue_status import Conditions
from admission.objects.resource_flavor import TOLERATION_RULES
from admission.objects.viewbase import Condition, Object, ObjectMeta, View
from admission.objects.views import PodSpec, Toleration

_LEVEL: Final = text(at_most=63)
_INDEX: Final = text(at_most=317)
_GATE: Final = text(at_least=1, at_most=63)
_CHECK_NAME: Final = text(at_least=1, at_most=316)
_CLUSTER: Final = text(at_most=256)


class PodTemplate(View, frozen=True, kw_only=True):
    """corev1.PodTemplateSpec. Of its metadata only names, labels, annotations, finalizers stay."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class SliceConstraint(View, frozen=True, kw_only=True):
    """Size of a slice on one level."""

    topology: Annotated[str, text(at_least=1, at_most=63)]
    """Label of the level."""

    size: Annotated[Int32, POSITIVE]
    """Pods per slice."""


class TopologyRequest(View, frozen=True, kw_only=True):
    """How close to each other the pods must run."""

    required: ClassVar[Annotated[str | None, UNREAD, _LEVEL]]
    """Label of the level of which all pods must share one domain."""

    preferred: ClassVar[Annotated[str | None, UNREAD, _LEVEL]]
    """Label of the level of which the pods should share one domain."""

    unconstrained: ClassVar[Annotated[bool | None, UNREAD]]
    """Whether any nodes with room will do."""

    pod_index_label: ClassVar[Annotated[str | None, UNREAD, _INDEX]]
    """Label that numbers the pods."""

    sub_group_index_label: ClassVar[Annotated[str | None, UNREAD, _INDEX]]
    """Label that numbers the jobs inside the pod set."""

    sub_group_count: ClassVar[Annotated[Int32 | None, UNREAD, COUNT]]
    """Number of jobs inside the pod set."""

    pod_set_group_name: Annotated[str, text(at_most=256)] | None = None
    """Pod sets with the same group name get the same flavor and domain."""

    pod_set_slice_required_topology: ClassVar[Annotated[str | None, UNREAD, _LEVEL]]
    """Label of the level of which every slice must stay inside one domain."""

    pod_set_slice_size: ClassVar[Annotated[Int32 | None, UNREAD, POSITIVE]]
    """Pods per slice."""

    podset_slice_required_topology_constraints: ClassVar[
        Annotated[tuple[SliceConstraint, ...] | None, UNREAD, markers.list_atomic(at_most=3)]
    ]
    """Slices inside slices, from the widest level to the narrowest."""


class PodSet(View, frozen=True, kw_only=True):
    """A set of equal pods."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.minCount) || self.minCount <= self.count",
            "minCount should be positive and less or equal to count",
        ),
    )

    name: Annotated[str, LABEL, api_default("main")] = "main"
    """Name of the set."""

    template: Annotated[PodTemplate, REQUIRED, Shape(podtemplate.schema)] = PodTemplate()
    """What the pods look like; the source of the requests."""

    count: Annotated[Int32, COUNT, api_default(1)] = 1
    """Number of pods."""

    min_count: Annotated[Int32, POSITIVE] | None = None
    """Smallest number of pods with which the workload may start; absent means all."""

    topology_request: TopologyRequest | None = None
    """How close to each other the pods must run."""


class PriorityClassRef(View, frozen=True, kw_only=True):
    """Where the priority comes from."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.group != 'scheduling.k8s.io' || self.kind == 'PriorityClass'",
            "only the PriorityClass kind is allowed for the scheduling.k8s.io group",
        ),
        Rule(
            f"self.group != '{names.KUEUE_GROUP}' || self.kind == 'WorkloadPriorityClass'",
            f"only the WorkloadPriorityClass kind is allowed for the {names.KUEUE_GROUP} group",
        ),
    )

    group: Annotated[str, one_of(names.KUEUE_GROUP, "scheduling.k8s.io")]
    """Group of the class."""

    kind: Annotated[str, one_of("WorkloadPriorityClass", "PriorityClass")]
    """Kind of the class."""

    name: Annotated[str, SUBDOMAIN, NOT_EMPTY]
    """Name of the class."""


class PreemptionGate(View, frozen=True, kw_only=True):
    """A named reason not to preempt others for this workload yet."""

    name: Annotated[str, _GATE]
    """Name of the gate."""


class WorkloadSpec(View, frozen=True, kw_only=True):
    """What is asked for."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.priorityClassRef) || has(self.priority)",
            "priority should not be nil when priorityClassRef is set",
        ),
    )

    pod_sets: (
        Annotated[tuple[PodSet, ...], markers.list_map("name", at_least=1, at_most=18)] | None
    ) = None
    """The pods. Cannot change while quota is reserved."""

    queue_name: Annotated[str, SUBDOMAIN] = ""
    """The LocalQueue, in the workload's namespace."""

    priority_class_ref: PriorityClassRef | None = None
    """Where the priority comes from."""

    priority: Int32 | None = None
    """The priority; higher goes first, absent counts as 0."""

    active: Annotated[bool | None, api_default(True)] = None  # a value of the API
    """Whether the workload may hold quota. Turning it off evicts the workload."""

    maximum_execution_time_seconds: Annotated[Int32, POSITIVE] | None = None
    """How long the workload may stay admitted before it is deactivated."""

    preemption_gates: ClassVar[
        Annotated[tuple[PreemptionGate, ...] | None, UNREAD, markers.list_map("name", at_most=8)]
    ]
    """Gates that hold up preemption on behalf of the workload."""


class PodSetAssignment(View, frozen=True, kw_only=True):
    """Quota of one pod set."""

    name: Annotated[str, LABEL, api_default("main")] = "main"
    """The pod set."""

    flavors: dict[str, Annotated[str, SUBDOMAIN]] | None = None
    """Flavor per resource."""

    resource_usage: dict[str, Quantity] | None = None
    """Quota per resource, for all ``count`` pods together."""

    count: Annotated[Int32, COUNT] | None = None
    """Pods that were admitted; absent means as many as the spec says."""

    topology_assignment: ClassVar[Annotated[topology_assignment.TopologyAssignment | None, UNREAD]]
    """Domains on which the pods are placed."""

    delayed_topology_request: ClassVar[
        Annotated[str | None, UNREAD, one_of("Pending", "Ready"), text(at_most=7)]
    ]
    """Whether the placement is still to come."""


class Admission(View, frozen=True, kw_only=True):
    """The reservation: from which queue, and what."""

    cluster_queue: Annotated[str, SUBDOMAIN] = ""
    """The ClusterQueue that holds the quota."""

    pod_set_assignments: (
        Annotated[tuple[PodSetAssignment, ...], markers.list_map("name", at_most=18)] | None
    ) = None
    """Quota per pod set."""


class RequeueState(View, frozen=True, kw_only=True):
    """Backoff after an eviction."""

    count: Annotated[Int32, COUNT] | None = None
    """How often the workload was put back."""

    requeue_at: Timestamp | None = None
    """When it may be considered again."""


class ReclaimablePod(View, frozen=True, kw_only=True):
    """Pods that need no quota any more."""

    name: Annotated[str, LABEL]
    """The pod set."""

    count: Annotated[Int32, COUNT]
    """Number of its pods that are done."""


class PodSetUpdate(View, frozen=True, kw_only=True):
    """What an admission check adds to the pods of one pod set."""

    name: Annotated[str, REQUIRED, LABEL] = "main"
    """The pod set."""

    labels: dict[str, str] | None = None
    """Labels to add."""

    annotations: dict[str, str] | None = None
    """Annotations to add."""

    node_selector: dict[str, str] | None = None
    """Node selector to add."""

    tolerations: (
        Annotated[tuple[Toleration, ...], markers.list_atomic(at_most=8), TOLERATION_RULES] | None
    ) = None
    """Tolerations to add."""


class AdmissionCheckState(View, frozen=True, kw_only=True):
    """Answer of one admission check."""

    name: Annotated[str, _CHECK_NAME]
    """The check."""

    state: Annotated[str, one_of("Pending", "Ready", "Retry", "Rejected")]
    """The answer. Retry gives the quota back and asks again later; Rejected deactivates."""

    last_transition_time: Annotated[Timestamp, REQUIRED] = ""
    """When the answer last changed."""

    message: Annotated[str, REQUIRED, MESSAGE] = ""
    """The answer for people; may be empty."""

    requeue_after_seconds: Annotated[Int32, COUNT] | None = None
    """How long to wait at least before the workload is considered again."""

    retry_count: Annotated[Int32, COUNT] | None = None
    """How often the check answered Retry."""

    pod_set_updates: (
        Annotated[tuple[PodSetUpdate, ...], markers.list_atomic(at_most=18)] | None
    ) = None
    """What the check adds to the pods."""


class PodSetRequest(View, frozen=True, kw_only=True):
    """What one pod set would need."""

    name: Annotated[str, LABEL]
    """The pod set."""

    resources: dict[str, Quantity] | None = None
    """Need per resource, for all pods together."""


class EvictionCount(View, frozen=True, kw_only=True):
    """Evictions for one reason."""

    reason: Annotated[str, text(at_most=316)]
    """The reason."""

    underlying_cause: Annotated[str, REQUIRED, text(at_most=316)] = ""
    """More exactly; may be empty."""

    count: Annotated[Int32, REQUIRED, COUNT] = 0
    """How often."""


class SchedulingStats(View, frozen=True, kw_only=True):
    """What happened to the workload so far."""

    evictions: (
        Annotated[
            tuple[EvictionCount, ...], markers.list_map("reason", "underlyingCause", at_most=256)
        ]
        | None
    ) = None
    """Evictions by reason."""


class UnhealthyNode(View, frozen=True, kw_only=True):
    """A failed node under an admitted workload."""

    name: Annotated[str, text(at_most=63)]
    """The node."""


class PreemptionGateState(View, frozen=True, kw_only=True):
    """State of one preemption gate."""

    name: Annotated[str, _GATE]
    """The gate."""

    position: Annotated[str, one_of("Closed", "Open")]
    """Whether preemption is held up."""

    last_transition_time: Timestamp
    """When the position last changed."""


class WorkloadStatus(View, frozen=True, kw_only=True):
    """What was given, and why not more."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(oldSelf.clusterName) || !has(self.clusterName)"
            " || oldSelf.clusterName == self.clusterName",
            "clusterName is immutable once set",
        ),
        Rule(
            "!has(self.clusterName) || !has(self.nominatedClusterNames)"
            " || size(self.nominatedClusterNames) == 0",
            "clusterName and nominatedClusterNames are mutually exclusive",
        ),
    )

    conditions: Conditions | None = None
    """``QuotaReserved``, ``Admitted``, ``Evicted``, ``Finished`` and more."""

    admission: Admission | None = None
    """The reservation. It appears and disappears as a whole."""

    requeue_state: RequeueState | None = None
    """Backoff after an eviction."""

    reclaimable_pods: (
        Annotated[tuple[ReclaimablePod, ...], markers.list_map("name", at_most=18)] | None
    ) = None
    """Pods that need no quota any more."""

    admission_checks: (
        Annotated[tuple[AdmissionCheckState, ...], markers.list_map("name", at_most=8)] | None
    ) = None
    """Answers of the admission checks."""

    resource_requests: Annotated[
        Any, Shape(tuple[PodSetRequest, ...]), markers.list_map("name", at_most=18)
    ] = None
    """What the workload would need; only while it is not admitted."""

    accumulated_past_execution_time_seconds: Int32 | None = None
    """Seconds spent admitted before the present admission."""

    scheduling_stats: SchedulingStats | None = None
    """What happened to the workload so far."""

    nominated_cluster_names: Annotated[
        Any, Shape(tuple[Annotated[str, _CLUSTER], ...]), markers.list_atomic(at_most=20)
    ] = None
    """Other clusters on which the workload was placed to try."""

    cluster_name: Annotated[Any, Shape(str), _CLUSTER] = None
    """The other cluster that took the workload."""

    unhealthy_nodes: Annotated[
        Any, Shape(tuple[UnhealthyNode, ...]), markers.list_map("name", at_most=8)
    ] = None
    """Failed nodes under the admitted workload."""

    preemption_gates: Annotated[
        Any, Shape(tuple[PreemptionGateState, ...]), markers.list_map("name", at_most=8)
    ] = None
    """State of the preemption gates."""

    def members(self) -> Iterator[str]:
        """Return the members that it has, as they are named on the wire."""
        return (wire for name, wire in _STATUS_MEMBERS if getattr(self, name) is not None)

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of that type, if any."""
        for one in self.conditions or ():
            if one.type == kind:
                return one
        return None

    def is_true(self, kind: str) -> bool:
        """Return whether the condition of that type exists and is True."""
        found = self.condition(kind)
        return found is not None and found.status == "True"


_STATUS_MEMBERS: Final = tuple(
    (field.name, field.encode_name) for field in msgspec.structs.fields(WorkloadStatus)
)


class Workload(Object, frozen=True, kw_only=True):
    """One request for quota."""

    rules: ClassVar[tuple[Rule, ...]] = workload_rules.ROOT

    spec: WorkloadSpec = WorkloadSpec()
    """What is asked for."""

    status: WorkloadStatus = WorkloadStatus()
    """What was given, and why not more."""
