"""Workload: one request for quota, made of sets of equal pods."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import StringConstraints, WithJsonSchema

from admission.api import markers, podtemplate
from admission.api.markers import Rule
from admission.api.model import Model, Root
from admission.api.scalars import Count, Int32, Label, Positive, Subdomain
from admission.api.v1beta2 import workload_rules
from admission.api.v1beta2.workload_status import WorkloadStatus

PodTemplate = Annotated[dict[str, Any], WithJsonSchema(podtemplate.schema())]
"""A v1 PodTemplateSpec. Of its metadata only names, labels, annotations and finalizers stay."""

LevelName = Annotated[str, StringConstraints(max_length=63)]
IndexLabel = Annotated[str, StringConstraints(max_length=317)]
GateName = Annotated[str, StringConstraints(min_length=1, max_length=63)]


class SliceConstraint(Model):
    """Size of a slice on one level."""

    topology: Annotated[str, StringConstraints(min_length=1, max_length=63)]
    """Label of the level."""

    size: Positive
    """Pods per slice."""


class TopologyRequest(Model):
    """How close to each other the pods must run."""

    required: LevelName | None = None
    """Label of the level of which all pods must share one domain."""

    preferred: LevelName | None = None
    """Label of the level of which the pods should share one domain."""

    unconstrained: bool | None = None
    """Whether any nodes with room will do."""

    pod_index_label: IndexLabel | None = None
    """Label that numbers the pods."""

    sub_group_index_label: IndexLabel | None = None
    """Label that numbers the jobs inside the pod set."""

    sub_group_count: Count | None = None
    """Number of jobs inside the pod set."""

    pod_set_group_name: Annotated[str, StringConstraints(max_length=256)] | None = None
    """Pod sets with the same group name get the same flavor and domain."""

    pod_set_slice_required_topology: LevelName | None = None
    """Label of the level of which every slice must stay inside one domain."""

    pod_set_slice_size: Positive | None = None
    """Pods per slice."""

    podset_slice_required_topology_constraints: (
        Annotated[list[SliceConstraint], markers.list_atomic(at_most=3)] | None
    ) = None
    """Slices inside slices, from the widest level to the narrowest."""


class PodSet(Model):
    """A set of equal pods."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.minCount) || self.minCount <= self.count",
            "minCount should be positive and less or equal to count",
        ),
    )

    name: Label = "main"
    """Name of the set."""

    template: PodTemplate
    """What the pods look like; the source of the requests."""

    count: Count = 1
    """Number of pods."""

    min_count: Positive | None = None
    """Smallest number of pods with which the workload may start; absent means all."""

    topology_request: TopologyRequest | None = None
    """How close to each other the pods must run."""


class PriorityClassRef(Model):
    """Where the priority comes from."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.group != 'scheduling.k8s.io' || self.kind == 'PriorityClass'",
            "only the PriorityClass kind is allowed for the scheduling.k8s.io group",
        ),
        Rule(
            "self.group != 'kueue.x-k8s.io' || self.kind == 'WorkloadPriorityClass'",
            "only the WorkloadPriorityClass kind is allowed for the kueue.x-k8s.io group",
        ),
    )

    group: Literal["kueue.x-k8s.io", "scheduling.k8s.io"]
    """Group of the class."""

    kind: Literal["WorkloadPriorityClass", "PriorityClass"]
    """Kind of the class."""

    name: Annotated[Subdomain, StringConstraints(min_length=1)]
    """Name of the class."""


class PreemptionGate(Model):
    """A named reason not to preempt others for this workload yet."""

    name: GateName
    """Name of the gate."""


class WorkloadSpec(Model):
    """What is asked for."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.priorityClassRef) || has(self.priority)",
            "priority should not be nil when priorityClassRef is set",
        ),
    )

    pod_sets: Annotated[list[PodSet], markers.list_map("name", at_least=1, at_most=18)] | None = (
        None
    )
    """The pods. Cannot change while quota is reserved."""

    queue_name: Subdomain | None = None
    """The LocalQueue, in the workload's namespace."""

    priority_class_ref: PriorityClassRef | None = None
    """Where the priority comes from."""

    priority: Int32 | None = None
    """The priority; higher goes first, absent counts as 0."""

    active: bool = True
    """Whether the workload may hold quota. Turning it off evicts the workload."""

    maximum_execution_time_seconds: Positive | None = None
    """How long the workload may stay admitted before it is deactivated."""

    preemption_gates: (
        Annotated[list[PreemptionGate], markers.list_map("name", at_most=8)] | None
    ) = None
    """Gates that hold up preemption on behalf of the workload."""


class Workload(Root):
    """One request for quota."""

    rules: ClassVar[tuple[Rule, ...]] = workload_rules.ROOT

    spec: WorkloadSpec | None = None
    """What is asked for."""

    status: WorkloadStatus | None = None
    """What was given, and why not more."""
