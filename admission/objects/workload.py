"""Workload: one request for quota, made of sets of equal pods."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from importlib import resources
from typing import Annotated, Any, ClassVar, Final, NamedTuple

import msgspec

from admission.base import conditions, names, pod_resources, quantity, shared
from admission.base.memo import Memo
from admission.base.names import (
    ClusterQueueName,
    FlavorName,
    LocalQueueKey,
    PodSetName,
    ResourceName,
    Uid,
    WorkloadKey,
)
from admission.base.pod_resources import Pod
from admission.objects import (
    conversion,
    limit_range,
    markers,
    past_preemptions,
    pod_needs,
    pods,
    resource_claim,
    run_times,
    values,
    views,
    workload_rules,
)
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
from admission.objects.limit_range import NO_LIMITS, Summary
from admission.objects.markers import CelRule
from admission.objects.queue_status import Conditions
from admission.objects.resource_claim import NO_DEVICES, Claimed, Devices
from admission.objects.resource_flavor import TOLERATION_RULES
from admission.objects.viewbase import Condition, Object, ObjectMeta, View
from admission.objects.views import PodSpec, RuntimePlacement, Toleration
from admission.scheduling import decisions, model, transformation
from admission.scheduling.model import NodeTerm
from admission.scheduling.topology import request

_ONE_OF = CelRule(
    "has(self.universal) != has(self.individual)",
    "exactly one of the fields in [universal individual] must be set",
)
_MAX_DOMAINS = 100_000
_DIFFERENT: Final = 1024
"""Different pod sets of which it is remembered what they ask for; most Workloads ask alike."""

Value = Annotated[str, text(at_most=63)]


class IndividualValues(View, frozen=True, kw_only=True):
    """Values that differ: ``prefix + roots[i] + suffix``."""

    prefix: Value | None = None
    """Common beginning; absent means empty."""

    suffix: Value | None = None
    """Common end; absent means empty."""

    roots: Annotated[tuple[Value, ...], markers.list_atomic(at_least=1, at_most=_MAX_DOMAINS)]
    """What differs, one per domain."""


class LevelValues(View, frozen=True, kw_only=True):
    """Values of one level for all domains of a slice."""

    rules: ClassVar[tuple[CelRule, ...]] = (_ONE_OF,)

    universal: Value | None = None
    """The value that all domains have."""

    individual: IndividualValues | None = None
    """Values that differ."""


class PodCounts(View, frozen=True, kw_only=True):
    """Pods per domain of a slice."""

    rules: ClassVar[tuple[CelRule, ...]] = (_ONE_OF,)

    universal: Annotated[Int32, POSITIVE] | None = None
    """The number that all domains have."""

    individual: (
        Annotated[
            tuple[Annotated[Int32, POSITIVE], ...],
            markers.list_atomic(at_least=1, at_most=_MAX_DOMAINS),
        ]
        | None
    ) = None
    """Numbers, one per domain."""


class TopologyAssignmentSlice(View, frozen=True, kw_only=True):
    """A run of domains."""

    rules: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "!has(self.podCounts.individual)"
            " || size(self.podCounts.individual) == self.domainCount",
            "podCounts.individual must have length equal to domainCount",
        ),
        CelRule(
            "self.valuesPerLevel.all(level, !has(level.individual)"
            " || size(level.individual.roots) == self.domainCount)",
            "valuesPerLevel.individual, if set, must have roots of length equal to domainCount"
            " of this TopologyAssignmentSlice",
        ),
    )

    domain_count: Annotated[Int32, POSITIVE]
    """Number of domains in the run."""

    values_per_level: Annotated[
        tuple[LevelValues, ...], markers.list_atomic(at_least=1, at_most=16)
    ]
    """Names of the domains, one entry per level."""

    pod_counts: PodCounts
    """Pods per domain."""


class TopologyAssignment(View, frozen=True, kw_only=True):
    """Domains on which the pods are placed, and how many on each."""

    rules: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "self.slices.all(slice, size(slice.valuesPerLevel) == size(self.levels))",
            "valuesPerLevel must have the same length as the number of levels in this"
            " TopologyAssignment",
        ),
    )

    levels: Annotated[
        tuple[Annotated[str, text(at_most=317)], ...],
        markers.list_atomic(at_least=1, at_most=16),
    ]
    """Labels of the levels, from the widest to the narrowest."""

    slices: Annotated[tuple[TopologyAssignmentSlice, ...], markers.list_atomic(at_most=1000)]
    """The domains, in runs."""


def pod_template_schema() -> dict[str, Any]:
    """Return the structural schema of a pod template, without descriptions, as a new value."""
    text = resources.files("admission.objects").joinpath("podtemplate.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


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


class TopologyRequestSpec(View, frozen=True, kw_only=True):
    """How close to each other the pods must run."""

    required: Annotated[str, _LEVEL] | None = None
    """Label of a topology level; all pods must be in one domain of that level."""

    preferred: Annotated[str, _LEVEL] | None = None
    """Label of a topology level; the pods should be in one domain of that level."""

    unconstrained: bool | None = None
    """Whether any nodes with free capacity may be used."""

    pod_index_label: Annotated[str, _INDEX] | None = None
    """Label that numbers the pods."""

    sub_group_index_label: Annotated[str, _INDEX] | None = None
    """Label that numbers the jobs inside the pod set."""

    sub_group_count: Annotated[Int32, COUNT] | None = None
    """Number of jobs inside the pod set."""

    pod_set_group_name: Annotated[str, text(at_most=256)] | None = None
    """Pod sets with the same group name get the same flavor and domain."""

    pod_set_slice_required_topology: Annotated[str, _LEVEL] | None = None
    """Label of a topology level; each slice must be in one domain of that level."""

    pod_set_slice_size: Annotated[Int32, POSITIVE] | None = None
    """Pods per slice."""

    podset_slice_required_topology_constraints: (
        Annotated[tuple[SliceConstraint, ...], markers.list_atomic(at_most=3)] | None
    ) = None
    """Slices inside slices, from the widest level to the narrowest."""


class PodSet(View, frozen=True, kw_only=True):
    """A set of equal pods."""

    rules: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "!has(self.minCount) || self.minCount <= self.count",
            "minCount should be positive and less or equal to count",
        ),
    )

    name: Annotated[str, LABEL, api_default("main")] = "main"
    """Name of the set."""

    template: Annotated[PodTemplate, REQUIRED, Shape(pod_template_schema)] = PodTemplate()
    """What the pods look like; the source of the requests."""

    count: Annotated[Int32, COUNT, api_default(1)] = 1
    """Number of pods."""

    min_count: Annotated[Int32, POSITIVE] | None = None
    """Smallest number of pods with which the workload may start; absent means all."""

    topology_request: TopologyRequestSpec | None = None
    """How close to each other the pods must run."""


class PriorityClassRef(View, frozen=True, kw_only=True):
    """Where the priority comes from."""

    rules: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "self.group != 'scheduling.k8s.io' || self.kind == 'PriorityClass'",
            "only the PriorityClass kind is allowed for the scheduling.k8s.io group",
        ),
        CelRule(
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
    """What the workload asks for."""

    rules: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
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

    def __post_init__(self) -> None:
        if self.pod_sets:
            shared.share_members(self, "pod_sets")
        shared.share_texts(self, "queue_name")


class PodSetAssignmentStatus(View, frozen=True, kw_only=True):
    """Quota of one pod set."""

    name: Annotated[str, LABEL, api_default("main")] = "main"
    """The pod set."""

    flavors: dict[str, Annotated[str, SUBDOMAIN]] | None = None
    """Flavor per resource."""

    resource_usage: dict[str, Quantity] | None = None
    """Quota per resource, for all ``count`` pods together."""

    count: Annotated[Int32, COUNT] | None = None
    """Pods that were admitted; absent means as many as the spec says."""

    topology_assignment: TopologyAssignment | None = None
    """Domains on which the pods are placed."""

    delayed_topology_request: ClassVar[
        Annotated[str | None, UNREAD, one_of("Pending", "Ready"), text(at_most=7)]
    ]
    """Whether the placement is still to come."""

    def __post_init__(self) -> None:
        shared.share_members(self, "name", "flavors", "resource_usage", "count")


class Admission(View, frozen=True, kw_only=True):
    """The reservation: from which queue, and what."""

    cluster_queue: Annotated[str, SUBDOMAIN] = ""
    """The ClusterQueue that holds the quota."""

    pod_set_assignments: (
        Annotated[tuple[PodSetAssignmentStatus, ...], markers.list_map("name", at_most=18)] | None
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
    """More detailed cause; may be empty."""

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
    """What the workload was granted, and why it waits."""

    rules: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "!has(oldSelf.clusterName) || !has(self.clusterName)"
            " || oldSelf.clusterName == self.clusterName",
            "clusterName is immutable once set",
        ),
        CelRule(
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
        for condition in self.conditions or ():
            if condition.type == kind:
                return condition
        return None

    def is_true(self, kind: str) -> bool:
        """Return whether the condition of that type exists and is True."""
        condition = self.condition(kind)
        return condition is not None and condition.status == "True"


_STATUS_MEMBERS: Final = tuple(
    (field.name, field.encode_name) for field in msgspec.structs.fields(WorkloadStatus)
)


class Workload(Object, frozen=True, kw_only=True):
    """One request for quota."""

    rules: ClassVar[tuple[CelRule, ...]] = workload_rules.ROOT

    spec: WorkloadSpec = WorkloadSpec()
    """What the workload asks for."""

    status: WorkloadStatus = WorkloadStatus()
    """What the workload was granted, and why it waits."""

    def key(self) -> WorkloadKey:
        """Return the identity of the Workload."""
        return WorkloadKey(self.metadata.namespace, self.metadata.name)

    def is_alike(self, other: "Workload") -> bool:
        """Return whether two versions of the Workload differ in nothing that concerns us."""
        return (
            self.status == other.status
            and self.spec == other.spec
            and self.metadata.is_alike(other.metadata)
        )

    def waits_to_be_charged(self) -> bool:
        """Return whether it was made for pods that run, and is not charged for them yet."""
        status = self.status
        is_marked = bool(self.metadata.annotation(names.MADE_FOR_RUNNING))
        is_over = status.is_true(conditions.EVICTED) or status.is_true(conditions.FINISHED)
        return is_marked and not is_over and status.admission is None

    def replaces(self) -> WorkloadKey | None:
        """Return the Workload in whose place this one is admitted, or None (workload slices)."""
        text = self.metadata.annotation(names.SLICE_REPLACEMENT)
        namespace, separator, name = text.partition("/")
        is_here = bool(separator and name) and namespace == self.metadata.namespace
        return WorkloadKey(namespace, name) if is_here else None

    def is_of_group(self) -> bool:
        """Return whether it is the Workload of a group of pods."""
        return self.metadata.annotation(names.IS_GROUP_WORKLOAD) == "true"

    def past_preemptions(self) -> model.PastPreemptions:
        """Return the preemptors of it and of the Workloads that it replaces, with their counts."""
        stats = self.status.scheduling_stats
        counted = (stats.evictions if stats is not None else None) or ()
        return past_preemptions.read(
            self.metadata,
            (
                (preemption.reason, preemption.underlying_cause, preemption.count)
                for preemption in counted
            ),
        )

    def is_pending(self) -> bool:
        """Return whether the Workload waits for quota."""
        status = self.status
        return not status.is_true(conditions.QUOTA_RESERVED) and not status.is_true(
            conditions.FINISHED
        )


NEVER: Final = "Never"
"""The preemptionPolicy of pods that go first in the queue and preempt nobody."""
_FAILED: Final = ("Retry", "Rejected")
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeContext:
    """What besides a Workload decides what it is charged for.

    Attributes:
        rules: settings that change what is counted.
        limits: of its namespace.
        overheads: of each RuntimeClass that exists, in units of 1e-9.
        placements: nodes of each RuntimeClass that says where it is.
        never_preempting: PriorityClasses whose pods preempt nobody; empty for that of pods that
            name none.
        devices: claims and DeviceClasses that exist.
        volumes: nodes of the volumes of PersistentVolumeClaims, by namespace and name; those that
            can be reached from everywhere, or are not bound, are missing.
    """

    rules: transformation.TransformationRules = transformation.NO_RULES
    limits: Summary = NO_LIMITS
    overheads: Mapping[str, pods.Nanos] = field(default_factory=dict)
    placements: Mapping[str, RuntimePlacement] = field(default_factory=dict)
    never_preempting: frozenset[str] = frozenset()
    devices: Devices = NO_DEVICES
    volumes: Mapping[tuple[str, str], tuple[NodeTerm, ...]] = field(default_factory=dict)


PLAIN: Final = ChargeContext()


def scheduling_value(
    view: Workload, around: ChargeContext = PLAIN, previous: model.Workload | None = None
) -> model.Workload:
    """Return a Workload as a value of scheduling.

    Args:
        view: as the API server sent it.
        around: settings and objects that change what it is charged for.
        previous: an earlier version, translated in the same context. While the generation is
            the same, so is the spec, and what it asks for is taken from there.

    Raises:
        InvalidValueError: a quantity, time or selector cannot be read; the rule names the field.
    """
    meta, spec, status = view.metadata, view.spec, view.status
    requested = (
        _asked(view, around) if previous is None or _is_newer(meta, previous) else _said(previous)
    )
    requeue = status.requeue_state
    requeued = status.condition(conditions.REQUEUED)
    return model.Workload(
        key=WorkloadKey(meta.namespace, meta.name),
        uid=Uid(meta.uid),
        queue=LocalQueueKey(meta.namespace, spec.queue_name),
        priority=spec.priority or 0,
        created_us=values.microseconds(meta.creation_timestamp, "metadata.creationTimestamp") or 0,
        pod_sets=_reclaimed(requested.pod_sets, status.reclaimable_pods or ()),
        active=spec.active is not False,
        finished=status.is_true(conditions.FINISHED),
        held=_is_held(view),
        on_hold=_is_on_hold(view.status),
        gates=meta.annotation(names.ADMISSION_GATED_BY),
        reservation=_reservation(status),
        eviction=_eviction(status),
        requeued=requeued is None or requeued.status != "False",
        requeue_at_us=values.microseconds(
            None if requeue is None else requeue.requeue_at, "status.requeueState.requeueAt"
        ),
        job_uid=meta.label(names.JOB_UID_LABEL),
        failed_checks=any(check.state in _FAILED for check in status.admission_checks or ()),
        invalid=requested.invalid,
        pods_ready=status.is_true(conditions.PODS_READY),
        generation=meta.generation,
        owner="" if (controller := meta.controller()) is None else controller.uid,
        pod_controller=meta.annotation(names.POD_CONTROLLER),
        replaces=view.replaces(),
        minimum_run_us=run_times.readable(meta).minimum,
        requester=meta.annotation(names.REQUESTER),
        preempted_by=view.past_preemptions(),
        never_preempts=_never_preempts(view, around),
    )


def _never_preempts(view: Workload, around: ChargeContext) -> bool:
    """Return whether the PriorityClass by which it is ordered lets its pods preempt nobody.

    A WorkloadPriorityClass says nothing of it, and wins over the class of the pods.
    """
    reference = view.spec.priority_class_ref
    if reference is not None and reference.group == names.KUEUE_GROUP:
        return False
    specs = [pod_set.template.spec for pod_set in view.spec.pod_sets or ()]
    return bool(specs) and all(
        spec.preemption_policy == NEVER
        if spec.preemption_policy
        else spec.priority_class_name in around.never_preempting
        for spec in specs
    )


def _preempting_priority(pod_set: PodSet, view: Workload, around: ChargeContext) -> int | None:
    """Return the priority by which pods preempt others on nodes; None where they do not.

    It is that of their PriorityClass. A WorkloadPriorityClass says nothing of it.
    """
    spec, reference = pod_set.template.spec, view.spec.priority_class_ref
    if spec.preemption_policy == NEVER or spec.priority_class_name in around.never_preempting:
        return None
    if spec.priority is not None:
        return spec.priority
    is_of_workload = reference is not None and reference.group == names.KUEUE_GROUP
    return 0 if is_of_workload or not spec.priority_class_name else view.spec.priority or 0


def scheduling_value_of_held(view: Workload, *, stays: bool) -> model.Workload | None:
    """A Workload reduced to its quota, for one whose requests cannot be read.

    Return None if it holds nothing. What its reclaimable pods gave back is not taken off.

    Args:
        view: the Workload, or as much of it as can be read.
        stays: whether it cannot be written to, and so not be told to leave.

    Raises:
        InvalidValueError: what it holds cannot be read either; the rule names the field.
    """
    meta, spec, status = view.metadata, view.spec, view.status
    workload = model.Workload(
        key=WorkloadKey(meta.namespace, meta.name),
        uid=Uid(meta.uid),
        queue=LocalQueueKey(meta.namespace, spec.queue_name),
        priority=spec.priority or 0,
        created_us=values.microseconds(meta.creation_timestamp, "metadata.creationTimestamp") or 0,
        active=spec.active is not False,
        finished=status.is_true(conditions.FINISHED),
        reservation=_reservation(status),
        eviction=_eviction(status),
        stays=stays,
        requester=meta.annotation(names.REQUESTER),
        owner="" if (controller := meta.controller()) is None else controller.uid,
        pod_controller=meta.annotation(names.POD_CONTROLLER),
        preempted_by=view.past_preemptions(),
    )
    return workload if workload.counts else None


@dataclass(frozen=True, slots=True)
class _Asked:
    """What follows from a spec and its context alone."""

    pod_sets: tuple[model.PodSet, ...]
    invalid: str


class _Remembered(NamedTuple):
    """What was computed, and in which context: while they are kept, so is their identity."""

    asked: _Asked
    beside: tuple[object, ...]


_ASKED: Final = Memo[_Remembered](_DIFFERENT)
_CONCERNED: Final = Memo[bool](_DIFFERENT)
"""Whether pod sets depend on claims or DeviceClasses."""


def _asked(view: Workload, around: ChargeContext) -> _Asked:
    """Return what a Workload asks for; computed once for equal pod sets.

    Contexts are replaced and never changed, so they are told apart by identity.
    """
    pod_sets = view.spec.pod_sets or ()
    encoded = _ENCODER.encode(pod_sets)
    if _CONCERNED.get(encoded, lambda: _is_concerned(pod_sets)):
        return _computed(view, around)  # it depends on the claims of this one
    beside = around.rules, around.limits, around.overheads, around.placements
    priorities = tuple(_preempting_priority(pod_set, view, around) for pod_set in pod_sets)
    volumes = tuple(_volumes(pod_set.template.spec, view, around) for pod_set in pod_sets)
    topology = view.metadata.annotation(names.POD_GROUP_TOPOLOGY)
    key = encoded, priorities, volumes, topology, *map(id, beside)
    return _ASKED.get(key, lambda: _Remembered(_computed(view, around), beside)).asked


def _is_concerned(pod_sets: Iterable[PodSet]) -> bool:
    return any(resource_claim.concerned(pod_set.template.spec) for pod_set in pod_sets)


def _computed(view: Workload, around: ChargeContext) -> _Asked:
    pod_sets = view.spec.pod_sets or ()
    adjusted = [
        _adjusted(pod_set.template.spec, around, _path(i)) for i, pod_set in enumerate(pod_sets)
    ]
    taken = _taken(view, adjusted, around)
    return _Asked(
        _jointly(
            view,
            (
                _pod_set(
                    _placed(pod_set, around),
                    claimed,
                    group,
                    _path(index),
                    pod,
                    _preempting_priority(pod_set, view, around),
                    _volumes(pod_set.template.spec, view, around),
                )
                for index, (pod_set, claimed, group, pod) in enumerate(
                    zip(pod_sets, taken, _groups(pod_sets), adjusted, strict=True)
                )
            ),
        ),
        next((claimed.problem for claimed in taken if claimed.problem), "")
        or _invalid(adjusted, around.limits),
    )


def _jointly(view: Workload, pod_sets: Iterable[model.PodSet]) -> tuple[model.PodSet, ...]:
    """Return pod sets with the domains in which all pods of the Workload must be together."""
    of_group = filter(None, view.metadata.annotation(names.POD_GROUP_TOPOLOGY).split(","))
    keys = pod_needs.common_domains(
        [
            (pod_set.template.spec, pod_set.template.metadata.labels or {})
            for pod_set in view.spec.pod_sets or ()
            if pod_set.count
        ]
    ).union(of_group)
    if not keys:
        return tuple(pod_sets)
    jointly = tuple(sorted(keys)) if len(view.spec.pod_sets or ()) > 1 else ()
    return tuple(
        replace(
            pod_set,
            needs=None
            if pod_set.needs is None
            else replace(
                pod_set.needs,
                together=tuple(sorted(keys.union(pod_set.needs.together))),
                jointly=jointly,
            ),
        )
        for pod_set in pod_sets
    )


def _volumes(
    spec: PodSpec, view: Workload, around: ChargeContext
) -> tuple[tuple[NodeTerm, ...], ...]:
    """Return where the bound volumes of pods are, of those that are on certain nodes."""
    namespace = view.metadata.namespace
    volumes = (around.volumes.get((namespace, name)) for name in claim_names(spec))
    return tuple(terms for terms in volumes if terms is not None)


def claim_names(spec: PodSpec) -> Iterator[str]:
    """Yield the names of the PersistentVolumeClaims of a pod."""
    for volume in spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name


def _said(previous: model.Workload) -> _Asked:
    return _Asked(previous.pod_sets, previous.invalid)


def _is_newer(meta: ObjectMeta, previous: model.Workload) -> bool:
    """Return whether the spec may be another one.

    Where nobody counts generations it always may.
    """
    return not meta.generation or (meta.uid, meta.generation) != (
        previous.uid,
        previous.generation,
    )


def _reclaimed(
    pod_sets: tuple[model.PodSet, ...], given_back: tuple[ReclaimablePod, ...]
) -> tuple[model.PodSet, ...]:
    counts = {reclaimable.name: reclaimable.count for reclaimable in given_back}
    return tuple(
        pod_set
        if pod_set.reclaimable == counts.get(pod_set.name, 0)
        else replace(pod_set, reclaimable=counts.get(pod_set.name, 0))
        for pod_set in pod_sets
    )


def _placed(pod_set: PodSet, around: ChargeContext) -> PodSet:
    """Return a pod set whose pods go where their RuntimeClass is.

    The API server adds that to pods, and not to the templates of their owners.
    """
    spec = pod_set.template.spec
    placement = around.placements.get(spec.runtime_class_name or "")
    if placement is None:
        return pod_set
    selector = {**(placement.node_selector or {}), **(spec.node_selector or {})}
    tolerations = dict.fromkeys((*(spec.tolerations or ()), *(placement.tolerations or ())))
    placed = msgspec.structs.replace(spec, node_selector=selector, tolerations=tuple(tolerations))
    template = msgspec.structs.replace(pod_set.template, spec=placed)
    return msgspec.structs.replace(pod_set, template=template)


def _path(index: int) -> str:
    return f"spec.podSets[{index}].template.spec"


def _adjusted(spec: PodSpec, around: ChargeContext, path: str) -> Pod[int]:
    """Return the requests of a pod, with overhead and the defaults of LimitRanges."""
    pod = pods.read(spec, path, pods.nanos)
    if spec.runtime_class_name and not pod.overhead:
        pod = replace(pod, overhead=around.overheads.get(spec.runtime_class_name, {}))
    return limit_range.with_defaults(pod, around.limits)


def requests_of(template: PodTemplate) -> dict[str, int]:
    """Return what a pod template itself asks for, in canonical units.

    Raises:
        InvalidValueError: a quantity cannot be read; the rule names the field.
    """
    read = pods.read(template.spec, "spec.template.spec", pods.nanos)
    amounts = transformation.counted(pod_resources.requests(read))
    return {str(name): amount for name, amount in amounts.items()}


def devices(view: Workload, around: ChargeContext = PLAIN) -> dict[str, dict[str, int]]:
    """Return how much of each extended resource one pod asks for, by the name of its pod set.

    Defaults of LimitRanges are part of it.

    Raises:
        InvalidValueError: a quantity cannot be read; the rule names the field.
    """
    return {
        pod_set.name: {
            name: amount
            for name, amount in transformation.counted(
                pod_resources.requests(_adjusted(pod_set.template.spec, around, _path(index)))
            ).items()
            if "/" in name and amount  # the others have no domain
        }
        for index, pod_set in enumerate(view.spec.pod_sets or ())
    }


def _taken(view: Workload, adjusted: Iterable[Pod[int]], around: ChargeContext) -> list[Claimed]:
    """Return the requests of the pods of each pod set.

    A ResourceClaim counts in the first that names it.
    """
    claimed_by_pod_set: list[Claimed] = []
    counted: set[str] = set()
    owners = view.metadata.owner_references or ()
    made_for = (view.metadata.uid, *(owner.uid for owner in owners))
    for index, (pod_set, pod) in enumerate(zip(view.spec.pod_sets or (), adjusted, strict=True)):
        amounts = transformation.counted(pod_resources.requests(pod), around.rules)
        spec = pod_set.template.spec
        if not resource_claim.concerned(spec):
            claimed_by_pod_set.append(Claimed(requests=amounts))
            continue
        taken = resource_claim.claimed(
            amounts, spec, view.metadata.namespace, around.devices, _path(index), made_for
        )
        if not taken.problem and (
            name := resource_claim.outgrown(view.metadata, spec, around.devices)
        ):
            rule = (
                f"{name}: the ResourceClaim that was made for it asks for more than its template"
            )
            taken = replace(taken, problem=f"{_path(index)}.resourceClaims: {rule}")
        claimed_by_pod_set.append(
            replace(taken, shared=tuple(s for s in taken.shared if s.key not in counted))
        )
        counted |= {claim.key for claim in taken.shared}
    return claimed_by_pod_set


def _groups(pod_sets: Sequence[PodSet]) -> list[str]:
    """The group of each pod set: its own, else that of those that name the same ResourceClaim.

    The devices of a claim are in one place, so all its pods need the same flavors.
    """
    named = [resource_claim.named(pod_set.template.spec) for pod_set in pod_sets]
    counts = Counter(name for claim_names_ in named for name in claim_names_)
    groups: dict[str, str] = {}
    named_groups = []
    for pod_set, listed in zip(pod_sets, named, strict=True):
        shared = [name for name in listed if counts[name] > 1]
        topology = pod_set.topology_request
        group = "" if topology is None else topology.pod_set_group_name or ""
        if shared and not group:
            group = groups.get(shared[0], f"ResourceClaim {shared[0]}")
        for name in shared:
            groups.setdefault(name, group)
        named_groups.append(group)
    return named_groups


def _invalid(adjusted: list[Pod[int]], bounds: Summary) -> str:
    """Return why the workload may not be admitted whatever the quota; empty when it may."""
    above = [
        text
        for i, pod in enumerate(adjusted)
        for text in limit_range.requests_above_limits(pod, _path(i))
    ]
    if above:
        return f"resources validation failed: {_joined(above)}"
    outside = [
        text
        for i, pod in enumerate(adjusted)
        for text in limit_range.out_of_bounds(pod, bounds, _path(i))
    ]
    if outside:
        return f"resources didn't satisfy LimitRange constraints: {_joined(outside)}"
    return ""


def _joined(problems: list[str]) -> str:
    return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"


def _is_held(view: Workload) -> bool:
    """Return whether something keeps it out of the queue.

    Gates, its owner, missing replacement pods, or an admission without reservation: that would
    contradict the next one.
    """
    status = view.status
    gates = view.metadata.annotation(names.ADMISSION_GATED_BY)
    stale = status.admission is not None and not status.is_true(conditions.QUOTA_RESERVED)
    missing_pods = status.is_true(conditions.WAITING_FOR_REPLACEMENT_PODS)
    if view.waits_to_be_charged():
        return True  # its pods run: it is given the flavors on which they do
    return bool(gates) or missing_pods or _is_on_hold(status) or stale


def _is_on_hold(status: WorkloadStatus) -> bool:
    reserved = status.condition(conditions.QUOTA_RESERVED)
    return (
        reserved is not None
        and reserved.status != "True"
        and reserved.reason == conditions.ON_HOLD
    )


def _reservation(status: WorkloadStatus) -> model.Reservation | None:
    admission = status.admission
    reserved = status.condition(conditions.QUOTA_RESERVED)
    if admission is None or reserved is None or reserved.status != "True":
        return None
    field = "status.conditions[QuotaReserved].lastTransitionTime"
    admitted = status.condition(conditions.ADMITTED)
    is_admitted = admitted is not None and admitted.status == "True"
    since = admitted.last_transition_time if admitted is not None and is_admitted else None
    return model.Reservation(
        cluster_queue=ClusterQueueName(admission.cluster_queue),
        pod_sets=tuple(
            _assigned(assignment) for assignment in admission.pod_set_assignments or ()
        ),
        reserved_us=values.microseconds(reserved.last_transition_time, field) or 0,
        admitted=is_admitted,
        admitted_us=values.microseconds(since, "status.conditions[Admitted].lastTransitionTime")
        or 0,
        surges=status.is_true(conditions.USES_SURGE_QUOTA),
    )


def _assigned(view: PodSetAssignmentStatus) -> model.PodSetAssignment:
    field = f"status.admission.podSetAssignments[{view.name}].resourceUsage"
    usage = view.resource_usage or {}
    return model.PodSetAssignment(
        name=PodSetName(view.name),
        count=view.count or 0,
        flavors={ResourceName(r): FlavorName(f) for r, f in (view.flavors or {}).items()},
        usage={ResourceName(r): values.amount_of(r, v, field) for r, v in usage.items()},
        domains=None if view.topology_assignment is None else domains(view.topology_assignment),
    )


def domains(view: TopologyAssignment) -> model.PodDomains:
    """Return the domains in which pods are, in their order."""
    return model.PodDomains(
        view.levels,
        tuple(counted for run in view.slices for counted in _domains_of_run(run)),
    )


def _domains_of_run(run: TopologyAssignmentSlice) -> Iterator[tuple[tuple[str, ...], int]]:
    size = run.domain_count
    columns = [_values_of_level(level, size) for level in run.values_per_level]
    counts = run.pod_counts.individual or (run.pod_counts.universal or 0,) * size
    for index in range(size):
        yield tuple(column[index] for column in columns), counts[index]


def _values_of_level(level: LevelValues, size: int) -> tuple[str, ...]:
    differing = level.individual
    if differing is None:
        return (level.universal or "",) * size
    prefix, suffix = differing.prefix or "", differing.suffix or ""
    return tuple(f"{prefix}{root}{suffix}" for root in differing.roots)


def assigned_domains(view: Workload, pod_set: str) -> model.PodDomains | None:
    """Return the domains that an admission assigns to a pod set; None where it assigns none."""
    admission = view.status.admission
    for assignment in (admission.pod_set_assignments or ()) if admission else ():
        if assignment.name == pod_set and assignment.topology_assignment is not None:
            return domains(assignment.topology_assignment)
    return None


def has_domains(view: Workload) -> bool:
    """Return whether an admission assigns domains to any pod set."""
    admission = view.status.admission
    assigned = (admission.pod_set_assignments or ()) if admission else ()
    return any(assignment.topology_assignment is not None for assignment in assigned)


def _eviction(status: WorkloadStatus) -> model.Eviction | None:
    evicted = status.condition(conditions.EVICTED)
    if evicted is None or evicted.status != "True":
        return None
    field = "status.conditions[Evicted].lastTransitionTime"
    since_us = values.microseconds(evicted.last_transition_time, field) or 0
    return model.Eviction(reason=evicted.reason, since_us=since_us)


def _pod_set(
    view: PodSet,
    taken: Claimed,
    group: str,
    path: str,
    pod: Pod[int],
    priority: int | None,
    volumes: tuple[tuple[NodeTerm, ...], ...],
) -> model.PodSet:
    spec = view.template.spec
    requests = {str(r): n for r, n in transformation.counted(pod_resources.requests(pod)).items()}
    return model.PodSet(
        name=PodSetName(view.name),
        count=view.count,
        min_count=view.min_count,
        requests=taken.requests,
        together=taken.shared,
        node_selector=dict(spec.node_selector or {}),
        affinity=values.required_affinity(spec.affinity, f"{path}.affinity"),
        needs=pod_needs.of_template(
            spec, view.template.metadata.labels or {}, requests, priority, volumes
        ),
        tolerations=values.tolerations(spec.tolerations or ()),
        group=group,
        topology=_topology(view.topology_request),
        shape=_shape(spec),
    )


def _topology(view: TopologyRequestSpec | None) -> request.TopologyRequest | None:
    """Return how close to each other pods must be; None where nothing is asked."""
    if view is None:
        return None
    layers = tuple(
        request.Layer(layer.topology, layer.size)
        for layer in view.podset_slice_required_topology_constraints or ()
    )
    if not layers and view.pod_set_slice_required_topology:
        size = view.pod_set_slice_size or 1
        layers = (request.Layer(view.pod_set_slice_required_topology, size),)
    topology_request = request.TopologyRequest(
        required=view.required or "",
        preferred=view.preferred or "",
        unconstrained=bool(view.unconstrained),
        layers=layers,
        group=view.pod_set_group_name or "",
    )
    return topology_request if topology_request.is_explicit or topology_request.group else None


def _shape(spec: PodSpec) -> str:
    """Digest of what tells two pods apart for quota; names of containers do not."""
    nameless = msgspec.structs.replace(
        spec,
        containers=_nameless(spec.containers),
        init_containers=_nameless(spec.init_containers or ()),
        scheduling_gates=None,
        node_name="",
        volumes=None,
    )
    return blake2b(_ENCODER.encode(nameless), digest_size=16).hexdigest()


def _nameless(containers: Iterable[views.Container]) -> tuple[views.Container, ...]:
    return tuple(
        msgspec.structs.replace(
            container,
            name="",
            resources=views.ResourceRequirements(requests=container.resources.requests),
        )
        for container in containers
    )


def admission_document(admit: decisions.Admit) -> dict[str, Any]:
    """Return ``status.admission`` of a Workload that is admitted."""
    return {
        "clusterQueue": admit.cluster_queue,
        "podSetAssignments": [_assignment_document(pod_set) for pod_set in admit.pod_sets],
    }


def _assignment_document(pod_set: decisions.PodSetAssignment) -> dict[str, Any]:
    document: dict[str, Any] = {"name": pod_set.name}
    if pod_set.flavors:
        document["flavors"] = dict(pod_set.flavors)
        document["resourceUsage"] = {
            resource: quantity.from_canonical(resource, value)
            for resource, value in pod_set.usage.items()
        }
    if pod_set.domains is not None:
        document["topologyAssignment"] = topology_document(pod_set.domains)
    return document | {"count": pod_set.count}


def topology_document(assigned: model.PodDomains) -> dict[str, Any]:
    """Return the topology assignment of a pod set."""
    packed = [{"values": list(values), "count": count} for values, count in assigned.counts]
    return {
        "levels": list(assigned.levels),
        "slices": conversion.pack_topology(len(assigned.levels), packed),
    }


# ------------------------------------------------- what is read where a Workload cannot be read


class HeldSpec(views.View, frozen=True, kw_only=True):
    """The parts of a Workload's spec that count while it holds quota."""

    queue_name: str = ""
    priority: int | None = None
    active: bool | None = None


class HeldStatus(views.View, frozen=True, kw_only=True):
    """The parts of a Workload's status that tell what it holds."""

    conditions: tuple[views.Condition, ...] | None = None
    admission: Admission | None = None


class HeldWorkload(views.Object, frozen=True, kw_only=True):
    """What a Workload holds, of one that does not fit `Workload` as a whole."""

    spec: HeldSpec = HeldSpec()
    status: HeldStatus = HeldStatus()

    def workload(self) -> Workload:
        """A Workload that holds the same and asks for nothing."""
        spec, status = self.spec, self.status
        return Workload(
            metadata=self.metadata,
            spec=WorkloadSpec(
                queue_name=spec.queue_name, priority=spec.priority, active=spec.active
            ),
            status=WorkloadStatus(conditions=status.conditions, admission=status.admission),
        )
