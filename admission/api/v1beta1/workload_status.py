"""Status of a v1beta1 Workload."""

from typing import Annotated, ClassVar, Literal

from admission.api import markers
from admission.api.common import TOLERATION_RULES, Toleration
from admission.api.markers import Rule
from admission.api.model import Model
from admission.api.scalars import (
    Count,
    Int32,
    Label,
    Message,
    Positive,
    Quantity,
    Subdomain,
    Timestamp,
)
from admission.api.v1beta1.common import CheckReference, Conditions
from admission.api.v1beta2 import workload_status


class TopologyDomainAssignment(Model):
    """One domain and its pods."""

    values: Annotated[list[str], markers.list_atomic(at_least=1, at_most=16)]
    """Name of the domain, one value per level."""

    count: Positive
    """Pods on the domain."""


class TopologyAssignment(Model):
    """Domains on which the pods are placed, and how many on each."""

    levels: Annotated[list[str], markers.list_atomic(at_least=1, at_most=16)]
    """Labels of the levels, from the widest to the narrowest."""

    domains: list[TopologyDomainAssignment]
    """The domains."""


class PodSetAssignment(Model):
    """Quota of one pod set."""

    name: Annotated[Label, markers.keywords(default="main")]
    """The pod set."""

    flavors: dict[str, Subdomain] | None = None
    """Flavor per resource."""

    resource_usage: dict[str, Quantity] | None = None
    """Quota per resource, for all ``count`` pods together."""

    count: Count | None = None
    """Pods that were admitted; absent means as many as the spec says."""

    topology_assignment: TopologyAssignment | None = None
    """Domains on which the pods are placed."""

    delayed_topology_request: str | None = None
    """Whether the placement is still to come."""


class Admission(Model):
    """The reservation: from which queue, and what."""

    cluster_queue: Subdomain
    """The ClusterQueue that holds the quota."""

    pod_set_assignments: Annotated[list[PodSetAssignment], markers.list_map("name", at_most=18)]
    """Quota per pod set."""


class PodSetUpdate(workload_status.PodSetUpdate):
    """What an admission check adds to the pods of one pod set."""

    tolerations: (
        Annotated[list[Toleration], markers.list_plain(at_most=8), TOLERATION_RULES] | None
    ) = None
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


class SchedulingStats(Model):
    """What happened to the workload so far."""

    evictions: (
        Annotated[
            list[workload_status.SchedulingStatsEviction],
            markers.list_map("reason", "underlyingCause"),
        ]
        | None
    ) = None
    """Evictions by reason."""


class UnhealthyNode(Model):
    """A failed node under an admitted workload."""

    name: str
    """The node."""


class WorkloadStatus(Model):
    """What was given, and why not more."""

    rules: ClassVar[tuple[Rule, ...]] = workload_status.WorkloadStatus.rules

    conditions: Conditions | None = None
    """``QuotaReserved``, ``Admitted``, ``Evicted``, ``Finished`` and more."""

    admission: Admission | None = None
    """The reservation. It appears and disappears as a whole."""

    requeue_state: workload_status.RequeueState | None = None
    """Backoff after an eviction."""

    reclaimable_pods: (
        Annotated[list[workload_status.ReclaimablePod], markers.list_map("name", at_most=18)]
        | None
    ) = None
    """Pods that need no quota any more."""

    admission_checks: (
        Annotated[list[AdmissionCheckState], markers.list_map("name", at_most=8)] | None
    ) = None
    """Answers of the admission checks."""

    resource_requests: (
        Annotated[list[workload_status.PodSetRequest], markers.list_map("name", at_most=18)] | None
    ) = None
    """What the workload would need; only while it is not admitted."""

    accumulated_past_exexcution_time_seconds: Int32 | None = None
    """Seconds spent admitted before the present admission; the spelling is the API's."""

    scheduling_stats: SchedulingStats | None = None
    """What happened to the workload so far."""

    nominated_cluster_names: Annotated[list[str], markers.list_atomic(at_most=20)] | None = None
    """Other clusters on which the workload was placed to try."""

    cluster_name: str | None = None
    """The other cluster that took the workload."""

    unhealthy_nodes: list[UnhealthyNode] | None = None
    """Failed nodes under the admitted workload."""
