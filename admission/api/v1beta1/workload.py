"""Workload in v1beta1: a priority class by name and source, topology domains one by one."""

from typing import Annotated, ClassVar, Literal

from admission.api import markers
from admission.api.markers import Rule
from admission.api.model import Model, Root
from admission.api.scalars import Count, Int32, Label, Positive, Subdomain
from admission.api.v1beta1 import workload_rules
from admission.api.v1beta1.workload_status import WorkloadStatus
from admission.api.v1beta2 import workload


class TopologyRequest(Model):
    """How close to each other the pods must run."""

    required: str | None = None
    """Label of the level of which all pods must share one domain."""

    preferred: str | None = None
    """Label of the level of which the pods should share one domain."""

    unconstrained: bool | None = None
    """Whether any nodes with room will do."""

    pod_index_label: str | None = None
    """Label that numbers the pods."""

    sub_group_index_label: str | None = None
    """Label that numbers the jobs inside the pod set."""

    sub_group_count: Int32 | None = None
    """Number of jobs inside the pod set."""

    pod_set_group_name: str | None = None
    """Pod sets with the same group name get the same flavor and domain."""

    pod_set_slice_required_topology: str | None = None
    """Label of the level of which every slice must stay inside one domain."""

    pod_set_slice_size: Positive | None = None
    """Pods per slice."""


class PodSet(Model):
    """A set of equal pods."""

    rules: ClassVar[tuple[Rule, ...]] = workload.PodSet.rules

    name: Label = "main"
    """Name of the set."""

    template: workload.PodTemplate
    """What the pods look like; the source of the requests."""

    count: Annotated[Count, markers.keywords(default=1)]
    """Number of pods."""

    min_count: Positive | None = None
    """Smallest number of pods with which the workload may start; absent means all."""

    topology_request: TopologyRequest | None = None
    """How close to each other the pods must run."""


class WorkloadSpec(Model):
    """What is asked for."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.priorityClassName) || has(self.priority)",
            "priority should not be nil when priorityClassName is set",
        ),
    )

    pod_sets: Annotated[list[PodSet], markers.list_map("name", at_least=1, at_most=18)]
    """The pods. Cannot change while quota is reserved."""

    queue_name: Subdomain | None = None
    """The LocalQueue, in the workload's namespace."""

    priority_class_name: Subdomain | None = None
    """Name of the class that the priority comes from."""

    priority_class_source: Literal[
        "kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", ""
    ] = ""
    """Kind of that class; empty where there is none."""

    priority: Int32 | None = None
    """The priority; higher goes first, absent counts as 0."""

    active: bool = True
    """Whether the workload may hold quota. Turning it off evicts the workload."""

    maximum_execution_time_seconds: Positive | None = None
    """How long the workload may stay admitted before it is deactivated."""


class Workload(Root):
    """One request for quota."""

    rules: ClassVar[tuple[Rule, ...]] = workload_rules.ROOT

    spec: WorkloadSpec | None = None
    """What is asked for."""

    status: WorkloadStatus | None = None
    """What was given, and why not more."""
