"""The parts of stored objects that the program reads, as immutable structs.

Decoding keeps the named fields and skips the rest, at a tenth of the cost of whole documents. So
an object is never written back from its view: writes are patches, or replace a status of which
the view has every member. Field names are the wire names in snake case. Times stay the text that
the API server sent; quantities too.
"""

from typing import Annotated, Any, ClassVar, Final

import msgspec

from admission.base import shared, structs
from admission.objects import markers
from admission.objects.fields import Int64

# The aliases are what makes these names part of this module.
from admission.objects.viewbase import Condition as Condition  # noqa: PLC0414
from admission.objects.viewbase import Object as Object  # noqa: PLC0414
from admission.objects.viewbase import ObjectMeta as ObjectMeta  # noqa: PLC0414
from admission.objects.viewbase import OwnerReference as OwnerReference  # noqa: PLC0414
from admission.objects.viewbase import View as View  # noqa: PLC0414


class LabelSelectorRequirement(View, frozen=True, kw_only=True):
    """One expression over labels."""

    key: str
    """The label."""

    operator: str
    """In, NotIn, Exists or DoesNotExist."""

    values: Annotated[tuple[str, ...], markers.list_atomic()] | None = None
    """Operands of In and NotIn; none for the others."""


class LabelSelector(View, frozen=True, kw_only=True):
    """Selects by labels; an empty selector selects everything."""

    match_expressions: (
        Annotated[tuple[LabelSelectorRequirement, ...], markers.list_atomic()] | None
    ) = None
    """Expressions that must all hold."""

    match_labels: dict[str, str] | None = None
    """Labels that must all exist with these values."""


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
    """A taint that pods tolerate."""

    key: str = ""
    """Key of the tolerated taint; absent means every key."""

    operator: str = ""
    """Equal (the default) or Exists."""

    value: str = ""
    """Value of the tolerated taint; absent with Exists."""

    effect: str = ""
    """Effect of the tolerated taint; absent means every effect."""

    toleration_seconds: Int64 | None = None
    """How long a NoExecute taint is tolerated."""


class Taint(View, frozen=True, kw_only=True):
    """A taint of a node."""

    key: str
    """Key of the taint."""

    value: str = ""
    """Value of the taint."""

    effect: str
    """What happens to pods that do not tolerate it."""


class NodeSelectorTerm(View, frozen=True, kw_only=True):
    """One alternative of a node affinity."""

    match_expressions: tuple[LabelSelectorRequirement, ...] | None = None
    match_fields: tuple[LabelSelectorRequirement, ...] | None = None


class NodeSelector(View, frozen=True, kw_only=True):
    """Alternatives of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(View, frozen=True, kw_only=True):
    """Required node affinity; preferences stay as they are written."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[Any, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(View, frozen=True, kw_only=True):
    """Pods that are meant, and the label of nodes by which they are together or apart."""

    label_selector: LabelSelector | None = None
    topology_key: str = ""
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None


class PodAffinity(View, frozen=True, kw_only=True):
    """Required affinity or anti-affinity between pods; preferences are not read."""

    required: tuple[PodAffinityTerm, ...] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(View, frozen=True, kw_only=True):
    """corev1.Affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SchedulingGate(View, frozen=True, kw_only=True):
    """A reason why the scheduler must not look at the pod yet."""

    name: str


class PodResourceClaim(View, frozen=True, kw_only=True):
    """corev1.PodResourceClaim: a claim by name, or one made from a template for this pod."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class VolumeClaim(View, frozen=True, kw_only=True):
    """corev1.PersistentVolumeClaimVolumeSource."""

    claim_name: str = ""


class Volume(View, frozen=True, kw_only=True):
    """A volume of a pod, as far as it may be on certain nodes."""

    persistent_volume_claim: VolumeClaim | None = None


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
    preemption_policy: str | None = None
    runtime_class_name: str | None = None
    resource_claims: tuple[PodResourceClaim, ...] | None = None
    topology_spread_constraints: tuple[Any, ...] | None = None
    volumes: tuple[Volume, ...] | None = None
    """Only those of PersistentVolumeClaims are kept."""

    def __post_init__(self) -> None:
        if self.volumes is not None:
            claims = tuple(
                volume for volume in self.volumes if volume.persistent_volume_claim is not None
            )
            msgspec.structs.force_setattr(self, "volumes", claims or None)
        shared.share_members(self, "containers", "tolerations", "node_selector")
        shared.share_texts(self, "node_name", "scheduler_name", "preemption_policy")


class PodCondition(View, frozen=True, kw_only=True):
    """corev1.PodCondition."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None

    def __post_init__(self) -> None:
        shared.share_texts(self, "type", "status", "reason", "last_transition_time")


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
    """v1 Pod with its spec whole, for whoever copies the spec.

    Lists and watches bring it for pods that are held, of which a Workload is made. Of all others
    they bring a `Pod`: a spec with volumes and probes is several times as large.
    """

    part: ClassVar[type[Pod]] = Pod

    @staticmethod
    def is_wanted_whole(pod: Pod) -> bool:
        """Return whether a list or a watch brings a pod whole."""
        return bool(pod.spec.scheduling_gates)

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
    """Schedulability of a node, and who provides the machine."""

    unschedulable: bool = False
    provider_id: str = msgspec.field(default="", name="providerID")
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


class RuntimePlacement(View, frozen=True, kw_only=True):
    """On which nodes a runtime is; the API server adds it to each pod when it is created."""

    node_selector: dict[str, str] | None = None
    tolerations: tuple[Toleration, ...] | None = None


class RuntimeClass(Object, frozen=True, kw_only=True):
    """node.k8s.io/v1 RuntimeClass."""

    overhead: Overhead | None = None
    scheduling: RuntimePlacement | None = None


class ClaimReference(View, frozen=True, kw_only=True):
    """The PersistentVolumeClaim that a volume is bound to."""

    namespace: str = ""
    name: str = ""


class VolumeNodeAffinity(View, frozen=True, kw_only=True):
    """corev1.VolumeNodeAffinity."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(View, frozen=True, kw_only=True):
    """From which nodes a volume can be reached, and who has it."""

    claim_ref: ClaimReference | None = None
    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolumeStatus(View, frozen=True, kw_only=True):
    """Whether a volume is bound."""

    phase: str = ""


class PersistentVolume(Object, frozen=True, kw_only=True):
    """v1 PersistentVolume."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PriorityClass(Object, frozen=True, kw_only=True):
    """scheduling.k8s.io/v1 PriorityClass."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None
