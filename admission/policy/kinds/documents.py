"""The objects under review: every field that a rule reads, and nothing else.

Parts that are only compared or shown stay as they were sent. Enumerations are texts: a value of
a newer version is no error here. Absent and null are one.
"""

from typing import Any, Final

import msgspec

from admission.objects import views
from admission.objects.views import View

EMPTY: Final = msgspec.Raw(b"null")


class Resources(View, frozen=True, kw_only=True):
    """Requests and limits of a container or pod."""

    requests: dict[str, str | int] | None = None
    limits: dict[str, str | int] | None = None


class Container(View, frozen=True, kw_only=True):
    """A container or init container."""

    resources: Resources | None = None


class TemplateMetadata(View, frozen=True, kw_only=True):
    """What a pod template gives its pods."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class TemplateSpec(View, frozen=True, kw_only=True):
    """Spec of a pod template."""

    init_containers: tuple[Container, ...] | None = None
    containers: tuple[Container, ...] | None = None
    resources: Resources | None = None


class Template(View, frozen=True, kw_only=True):
    """A pod template."""

    metadata: TemplateMetadata | None = None
    spec: TemplateSpec | None = None


class Layer(View, frozen=True, kw_only=True):
    """One layer of sliced topology constraints."""

    topology: str = ""
    size: int = 0


class TopologyRequest(View, frozen=True, kw_only=True):
    """Topology request of a pod set, as far as it is about slices."""

    pod_set_slice_required_topology: str | None = None
    pod_set_slice_size: int | None = None
    podset_slice_required_topology_constraints: tuple[Layer, ...] | None = None


class PodSet(View, frozen=True, kw_only=True):
    """A set of equal pods."""

    name: str = "main"
    count: int = 1
    min_count: int | None = None
    template: Template = Template()
    topology_request: TopologyRequest | None = None


class WorkloadSpec(View, frozen=True, kw_only=True):
    """Spec of a Workload; its pod sets as sent, to be compared without reading them."""

    pod_sets: msgspec.Raw = EMPTY


class Condition(View, frozen=True, kw_only=True):
    """metav1.Condition; what is missing is empty."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int = 0


class Assignment(View, frozen=True, kw_only=True):
    """Total usage of one pod set."""

    name: str = "main"
    resource_usage: dict[str, str | int] | None = None
    count: int | None = None


class Admission(View, frozen=True, kw_only=True):
    """Reservation of a Workload."""

    pod_set_assignments: tuple[Assignment, ...] | None = None


class ReclaimablePod(View, frozen=True, kw_only=True):
    """Pods of a pod set that no longer need quota."""

    name: str = ""
    count: int = 0


class PodSetUpdate(View, frozen=True, kw_only=True):
    """What an admission check adds to the pods of a pod set."""

    name: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[views.Toleration, ...] | None = None


class CheckState(View, frozen=True, kw_only=True):
    """State of one admission check."""

    name: str = ""
    state: str = ""
    pod_set_updates: list[dict[str, Any]] | None = None


class WorkloadStatus(View, frozen=True, kw_only=True):
    """Status of a Workload."""

    conditions: tuple[Condition, ...] | None = None
    admission: msgspec.Raw = EMPTY
    reclaimable_pods: tuple[ReclaimablePod, ...] | None = None
    admission_checks: tuple[CheckState, ...] | None = None
    cluster_name: str | None = None
    nominated_cluster_names: tuple[str, ...] | None = None

    def is_true(self, kind: str) -> bool:
        """Return whether the condition of that type is True."""
        return any(c.type == kind and c.status == "True" for c in self.conditions or ())


class Workload(views.Object, frozen=True, kw_only=True):
    """A Workload under review."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()
