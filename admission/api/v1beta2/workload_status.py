"""Status of a Workload: the quota it holds, and what happened to it."""

from typing import Annotated, ClassVar, Literal

from pydantic import StringConstraints

from admission.api import markers
from admission.api.common import Conditions, Tolerations
from admission.api.markers import Rule
from admission.api.model import Model
from admission.api.scalars import (
    CheckReference,
    Count,
    Int32,
    Label,
    Message,
    Quantity,
    Subdomain,
    Timestamp,
)
from admission.api.v1beta2.topology_assignment import TopologyAssignment

ClusterName = Annotated[str, StringConstraints(max_length=256)]


class PodSetAssignment(Model):
    """Quota of one pod set."""

    name: Label = "main"
    """The pod set."""

    flavors: dict[str, Subdomain] | None = None
    """Flavor per resource."""

    resource_usage: dict[str, Quantity] | None = None
    """Quota per resource, for all ``count`` pods together."""

    count: Count | None = None
    """Pods that were admitted; absent means as many as the spec says."""

    topology_assignment: TopologyAssignment | None = None
    """Domains on which the pods are placed."""

    delayed_topology_request: (
        Annotated[Literal["Pending", "Ready"], markers.keywords(maxLength=7)] | None
    ) = None
    """Whether the placement is still to come."""


class Admission(Model):
    """The reservation: from which queue, and what."""

    cluster_queue: Subdomain | None = None
    """The ClusterQueue that holds the quota."""

    pod_set_assignments: (
        Annotated[list[PodSetAssignment], markers.list_map("name", at_most=18)] | None
    ) = None
    """Quota per pod set."""


class RequeueState(Model):
    """Backoff after an eviction."""

    count: Count | None = None
    """How often the workload was put back."""

    requeue_at: Timestamp | None = None
    """When it may be considered again."""


class ReclaimablePod(Model):
    """Pods that need no quota any more."""

    name: Label
    """The pod set."""

    count: Count
    """Number of its pods that are done."""


class PodSetUpdate(Model):
    """What an admission check adds to the pods of one pod set."""

    name: Label
    """The pod set."""

    labels: dict[str, str] | None = None
    """Labels to add."""

    annotations: dict[str, str] | None = None
    """Annotations to add."""

    node_selector: dict[str, str] | None = None
    """Node selector to add."""

    tolerations: Tolerations | None = None
    """Tolerations to add."""


class AdmissionCheckState(Model):
    """Answer of one admission check."""

    name: CheckReference
    """The check."""

    state: Literal["Pending", "Ready", "Retry", "Rejected"]
    """The answer. Retry gives the quota back and asks again later; Rejected deactivates."""

    last_transition_time: Timestamp
    """When the answer last changed."""

    message: Message
    """The answer for people; may be empty."""

    requeue_after_seconds: Count | None = None
    """How long to wait at least before the workload is considered again."""

    retry_count: Count | None = None
    """How often the check answered Retry."""

    pod_set_updates: Annotated[list[PodSetUpdate], markers.list_atomic(at_most=18)] | None = None
    """What the check adds to the pods."""


class PodSetRequest(Model):
    """What one pod set would need."""

    name: Label
    """The pod set."""

    resources: dict[str, Quantity] | None = None
    """Need per resource, for all pods together."""


class SchedulingStatsEviction(Model):
    """Evictions for one reason."""

    reason: Annotated[str, StringConstraints(max_length=316)]
    """The reason."""

    underlying_cause: Annotated[str, StringConstraints(max_length=316)]
    """More exactly; may be empty."""

    count: Count
    """How often."""


class SchedulingStats(Model):
    """What happened to the workload so far."""

    evictions: (
        Annotated[
            list[SchedulingStatsEviction],
            markers.list_map("reason", "underlyingCause", at_most=256),
        ]
        | None
    ) = None
    """Evictions by reason."""


class UnhealthyNode(Model):
    """A failed node under an admitted workload."""

    name: Annotated[str, StringConstraints(max_length=63)]
    """The node."""


class PreemptionGateState(Model):
    """State of one preemption gate."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=63)]
    """The gate."""

    position: Literal["Closed", "Open"]
    """Whether preemption is held up."""

    last_transition_time: Timestamp
    """When the position last changed."""


class WorkloadStatus(Model):
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
        Annotated[list[ReclaimablePod], markers.list_map("name", at_most=18)] | None
    ) = None
    """Pods that need no quota any more."""

    admission_checks: (
        Annotated[list[AdmissionCheckState], markers.list_map("name", at_most=8)] | None
    ) = None
    """Answers of the admission checks."""

    resource_requests: (
        Annotated[list[PodSetRequest], markers.list_map("name", at_most=18)] | None
    ) = None
    """What the workload would need; only while it is not admitted."""

    accumulated_past_execution_time_seconds: Int32 | None = None
    """Seconds spent admitted before the present admission."""

    scheduling_stats: SchedulingStats | None = None
    """What happened to the workload so far."""

    nominated_cluster_names: (
        Annotated[list[ClusterName], markers.list_atomic(at_most=20)] | None
    ) = None
    """Other clusters on which the workload was placed to try."""

    cluster_name: ClusterName | None = None
    """The other cluster that took the workload."""

    unhealthy_nodes: Annotated[list[UnhealthyNode], markers.list_map("name", at_most=8)] | None = (
        None
    )
    """Failed nodes under the admitted workload."""

    preemption_gates: (
        Annotated[list[PreemptionGateState], markers.list_map("name", at_most=8)] | None
    ) = None
    """State of the preemption gates."""
