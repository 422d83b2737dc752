"""Names that cross package borders: typed references and the keys of Kueue and of this project.

Source: kueue apis/kueue/v1beta2 and pkg/controller/constants.
"""

from typing import Final, Literal, NamedTuple, NewType

ClusterQueueName = NewType("ClusterQueueName", str)
CohortName = NewType("CohortName", str)
FlavorName = NewType("FlavorName", str)
ResourceName = NewType("ResourceName", str)
PodSetName = NewType("PodSetName", str)
NamespaceName = NewType("NamespaceName", str)
Uid = NewType("Uid", str)


class LocalQueueKey(NamedTuple):
    """Identity of a LocalQueue."""

    namespace: str
    name: str


class WorkloadKey(NamedTuple):
    """Identity of a Workload."""

    namespace: str
    name: str

    def text(self) -> str:
        """Return ``namespace/name``, as messages show it."""
        return f"{self.namespace}/{self.name}"

    def title(self) -> str:
        """Return its name, to be read beside its namespace."""
        return self.name


class PodCharge(NamedTuple):
    """Identity of the charge of a pod by itself, with the name of the pod."""

    namespace: str
    name: str
    kind: Literal["pod"] = "pod"

    def title(self) -> str:
        """Return what is charged, to be read beside its namespace."""
        return f"pod {self.name}"


class OwnerCharge(NamedTuple):
    """Identity of the charge of pods that an owner may still make, with its Workload's name."""

    namespace: str
    name: str
    kind: Literal["owner"] = "owner"

    def title(self) -> str:
        """Return what is charged, to be read beside its namespace."""
        return f"pods of {self.name}"


class KeptCharge(NamedTuple):
    """Identity of the charge of quota that a Workload held, with the name of that.

    It is kept until it is known whether its pods were started, or for a replacement of its pod.
    """

    namespace: str
    name: str
    kind: Literal["start", "replacement"]

    def title(self) -> str:
        """Return what is charged, to be read beside its namespace."""
        return f"kept for the {self.kind} of {self.name}"


ChargeKey = WorkloadKey | PodCharge | OwnerCharge | KeptCharge
"""Identity of what is charged: a Workload, or what is charged besides Workloads.

Named tuples with equal fields are equal whatever their class is. Those of Workloads have two
fields and all others a third one, so no two kinds are ever equal, and all can be sorted together.
"""


class ClaimHolderKey(NamedTuple):
    """Identity of a pod that holds GPUs by claim, with its name; it is looked at, not charged."""

    namespace: str
    name: str
    kind: Literal["holder"] = "holder"

    def title(self) -> str:
        """Return what is looked at, to be read beside its namespace."""
        return f"holder {self.name}"


WorkKey = ChargeKey | ClaimHolderKey
"""Identity of what is looked at in a turn of the controller."""


class FlavorResource(NamedTuple):
    """The unit of all quota arithmetic: one resource in one flavor."""

    flavor: FlavorName
    resource: ResourceName


DEFAULT_PODSET: Final = PodSetName("main")
DEFAULT_LOCAL_QUEUE: Final = "default"

KUEUE_GROUP: Final = "kueue.x-k8s.io"
VISIBILITY_GROUP: Final = "visibility.kueue.x-k8s.io"
VISIBILITY_VERSIONS: Final = ("v1beta2", "v1beta1")
KUEUE_CONFIG_GROUP: Final = "config.kueue.x-k8s.io"
OWN_DOMAIN: Final = "gpu-admission.dev"
CONFIG_API_VERSION: Final = "config.gpu-admission.dev/v1alpha1"

WORKLOAD_CLASS_SOURCE: Final = "kueue.x-k8s.io/workloadpriorityclass"
POD_CLASS_SOURCE: Final = "scheduling.k8s.io/priorityclass"
"""Kinds of a priority class, as Workloads of v1beta1 say them."""

# Labels
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
INJECTED_CA: Final = "cert-manager.io/inject-"
"""Annotations by which cert-manager writes a CA begin like this."""
MANAGED_LABEL: Final = "kueue.x-k8s.io/managed"
MANAGED_VALUE: Final = "true"
PRIORITY_CLASS_LABEL: Final = "kueue.x-k8s.io/priority-class"
MAX_EXEC_TIME_LABEL: Final = "kueue.x-k8s.io/max-exec-time-seconds"
POD_GROUP_NAME: Final = "kueue.x-k8s.io/pod-group-name"  # label, and annotation that wins over it
POD_GROUP_POD_INDEX_LABEL: Final = "kueue.x-k8s.io/pod-group-pod-index"
PREBUILT_WORKLOAD: Final = "kueue.x-k8s.io/prebuilt-workload-name"  # label and annotation
JOB_UID_LABEL: Final = "kueue.x-k8s.io/job-uid"
PODSET_LABEL: Final = "kueue.x-k8s.io/podset"
LOCAL_QUEUE_NAME_LABEL: Final = "kueue.x-k8s.io/local-queue-name"
CLUSTER_QUEUE_NAME_LABEL: Final = "kueue.x-k8s.io/cluster-queue-name"

# Annotations
POD_GROUP_TOTAL_COUNT: Final = "kueue.x-k8s.io/pod-group-total-count"
ROLE_HASH: Final = "kueue.x-k8s.io/role-hash"
POD_INDEX_OFFSET: Final = "kueue.x-k8s.io/pod-index-offset"  # index of the first pod
POD_INDEX_SOURCE: Final = "kueue.x-k8s.io/pod-group-pod-index-label"  # names another label
POD_GROUP_FAST_ADMISSION: Final = "kueue.x-k8s.io/pod-group-fast-admission"
POD_GROUP_SERVING: Final = "kueue.x-k8s.io/pod-group-serving"
RETRIABLE_IN_GROUP: Final = "kueue.x-k8s.io/retriable-in-group"
POD_SUSPENDING_PARENT: Final = "kueue.x-k8s.io/pod-suspending-parent"
ADMISSION_GATED_BY: Final = "kueue.x-k8s.io/admission-gated-by"
ELASTIC_JOB: Final = "kueue.x-k8s.io/elastic-job"
PROVISIONING_PREFIX: Final = "provreq.kueue.x-k8s.io/"
WORKLOAD_ANNOTATION: Final = "kueue.x-k8s.io/workload"
IS_GROUP_WORKLOAD: Final = "kueue.x-k8s.io/is-group-workload"
JOB_OWNER_GVK: Final = "kueue.x-k8s.io/job-owner-gvk"
JOB_OWNER_NAME: Final = "kueue.x-k8s.io/job-owner-name"
COMPONENT_INDEX: Final = "kueue.x-k8s.io/component-workload-index"
JOB_MIN_PARALLELISM: Final = "kueue.x-k8s.io/job-min-parallelism"
JOB_SYNC_COMPLETIONS: Final = "kueue.x-k8s.io/job-completions-equal-parallelism"
SLICE_NAME: Final = "kueue.x-k8s.io/workload-slice-name"
SLICE_REPLACEMENT: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
REQUIRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-required-topology"
PREFERRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-preferred-topology"
UNCONSTRAINED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
SLICE_REQUIRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-slice-required-topology"
PODSET_SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
PODSET_SLICE_CONSTRAINTS: Final = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
PODSET_GROUP_NAME: Final = "kueue.x-k8s.io/podset-group-name"

OUR_PREFIXES: Final = (f"{KUEUE_GROUP}/", f"{OWN_DOMAIN}/")
"""Of the keys of labels and annotations of pods that Kueue's and this project's admission use."""

# Labels of roles, by which the roles of people are put together
ROLE_LABEL: Final = "rbac.kueue.x-k8s.io/role"
AGGREGATION_PREFIX: Final = "rbac.kueue.x-k8s.io/"

# Names of those who answer admission checks
MULTI_KUEUE: Final = "kueue.x-k8s.io/multikueue"
PROVISIONING: Final = "kueue.x-k8s.io/provisioning-request"

# Gates, finalizers, field managers
ADMISSION_GATE: Final = "kueue.x-k8s.io/admission"
ELASTIC_JOB_GATE: Final = "kueue.x-k8s.io/elastic-job"
QUOTA_GATES: Final = frozenset({ADMISSION_GATE, ELASTIC_JOB_GATE})
"""Those that hold a pod until there is quota for it."""
TOPOLOGY_GATE: Final = "kueue.x-k8s.io/topology"
KUEUE_POD_FINALIZER: Final = MANAGED_LABEL  # Kueue's alone: no pod gets it here
RESOURCE_IN_USE: Final = "kueue.x-k8s.io/resource-in-use"
FIELD_MANAGER: Final = "gpu-admission"
RUNTIME_PATCH_MANAGER: Final = "kueue.x-k8s.io/manager"  # in a TrainJob

# Kubernetes' own
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"  # on a claim made for a pod

# This project's own keys
HELD_WITH_PARENT: Final = "gpu-admission.dev/held-with-parent"  # on a Job of a Job
TEMPLATE_DIGEST: Final = "gpu-admission.dev/template-digest"
FOREIGN_TOPOLOGY_GATE: Final = "gpu-admission.dev/foreign-topology-gate"  # created with one
GROUP_MEMBERS: Final = "gpu-admission.dev/pod-group-members"  # on the Workload of a pod group
POD_GROUP_TOPOLOGY: Final = "gpu-admission.dev/pod-group-topology"
"""On the Workload of a pod group: labels of nodes of which all its nodes have the same values."""
POD_GROUP_OBJECT: Final = "gpu-admission.dev/pod-group"  # on a pod: the PodGroup that it names
BEYOND_POD_GROUP: Final = "gpu-admission.dev/beyond-pod-group"  # one that was not a member
MADE_FOR_RUNNING: Final = "gpu-admission.dev/made-for-running-pods"  # on a Workload
POD_CONTROLLER: Final = "gpu-admission.dev/pod-controller"  # on the Workload of a pod: a UID
PREEMPTED_BY: Final = "gpu-admission.dev/preempted-by"  # on a Workload, and in its status
INJECTED: Final = "gpu-admission.dev/injected"  # on a Job: what its admission gave it
MADE_FOR: Final = "gpu-admission.dev/made-for"  # on a JobSet: the kind whose pods it makes
ADMITTED_REQUESTS: Final = "gpu-admission.dev/admitted-requests"  # digest, on pods
ADMITTED_DEVICES: Final = "gpu-admission.dev/admitted-devices"  # amounts, on pods of owners
ORIGINAL_RESOURCES: Final = "gpu-admission.dev/original-resources"
MIG_PROFILE: Final = "gpu-admission.dev/mig-profile"
GPU_MEMORY: Final = "gpu-admission.dev/gpu-memory"
GPU_SLICES: Final = "gpu-admission.dev/gpu-slices"
FLAVOR_PRODUCT: Final = "gpu-admission.dev/product"
FLAVOR_SHARING: Final = "gpu-admission.dev/sharing"
FLAVOR_REPLICAS: Final = "gpu-admission.dev/replicas"
FAIL_ABOVE_ONE: Final = "gpu-admission.dev/fail-requests-greater-than-one"  # on a ResourceFlavor
MIN_GPU_MEMORY: Final = "gpu-admission.dev/min-gpu-memory"  # resource of a LimitRange
ENFORCE_LABEL: Final = "gpu-admission.dev/enforce"
BYPASS_LABEL: Final = "gpu-admission.dev/bypass"  # on a namespace
HAS_QUEUE_LABEL: Final = "gpu-admission.dev/has-queue"  # on a namespace with a LocalQueue
PLACEMENT: Final = "gpu-admission.dev/placement"  # on a ResourceFlavor
SPARE_NODES: Final = "gpu-admission.dev/spare-nodes"  # on a ResourceFlavor with a topology
LARGEST_NODE: Final = "gpu-admission.dev/largest-node"  # on a ResourceFlavor: amounts
CAPACITY_GUARD: Final = "gpu-admission.dev/capacity-guard"  # on a ClusterQueue
CAPACITY_GUARD_ENFORCE: Final = "Enforce"
CAPACITY_GUARD_OFF: Final = "Off"
SURGE_QUOTA: Final = "gpu-admission.dev/surge-quota"  # on a ClusterQueue
MINIMUM_RUN_TIME: Final = "gpu-admission.dev/minimum-run-time"  # on queues, and what is queued
DEFAULT_RUN_TIME: Final = "gpu-admission.dev/default-run-time"  # on queues
MAXIMUM_RUN_TIME: Final = "gpu-admission.dev/maximum-run-time"  # on queues
MAX_PER_USER: Final = "gpu-admission.dev/max-per-user"  # on queues
MAX_IN_USE: Final = "gpu-admission.dev/max-in-use"  # on LocalQueues
PLACE: Final = "gpu-admission.dev/place"  # on pending workloads of the visibility API
NO_PLACE: Final = "none"
"""Value of PLACE of what never starts as it is."""
TAKEN_OVER_FROM: Final = "gpu-admission.dev/taken-over-from"  # on queues: what limited before
QUOTA_BEFORE: Final = "gpu-admission.dev/quota-before"  # on a ResourceQuota: entries taken out
PREEMPTION_NOTICE: Final = "gpu-admission.dev/preemption-notice"  # on queues, and what is queued
STOPS_AT: Final = "gpu-admission.dev/stops-at"  # on pods that are preempted
REQUESTER: Final = "gpu-admission.dev/requester"  # who created the owner of what is queued
UNKNOWN_REQUESTER: Final = "unknown"
OUTSIDE_QUOTA: Final = "gpu-admission.dev/outside-quota"  # let run by an administrator: since when
RUNS_SINCE: Final = "gpu-admission.dev/runs-since"  # on a pod that its owner has left
UNREVIEWED: Final = "gpu-admission.dev/unreviewed"  # on pods and Jobs: what the API server added
USAGE_LABEL: Final = "gpu-admission.dev/usage"  # on a ConfigMap: a record of GPU-time
CONFIG_HASH: Final = "gpu-admission.dev/config-hash"  # on our pods
DEMO_ORDER: Final = "demo.gpu-admission.dev/order"  # number of a pod in the demo's scenario
MODES: Final = "gpu-admission.dev/modes"  # on our mutating webhook configuration
RELEASED_TERM: Final = "gpu-admission.dev/released-term"  # on the Lease
STOPS_ALLOWED_UNTIL: Final = "gpu-admission.dev/stops-allowed-until"  # on our namespace
AWAITED_AT: Final = "gpu-admission.dev/awaited-at"  # on a CRD that is being deleted

# GPU resources and labels
GPU_RESOURCE: Final = "nvidia.com/gpu"
MISSPELLED_GPU: Final = (
    r"(?i:nvidia\.com/gpus|nvidia/gpus?)"
    r"|(?i:nvidia\.com)/(G(?i:pu)|gP(?i:u)|gpU)"  # other capitals, never the right name
    r"|(N(?i:vidia)|nV(?i:idia))\.(?i:com)/gpu"
)
"""Names that people write for `GPU_RESOURCE`: a regular expression of RE2 for whole names."""
NVIDIA_PRODUCT: Final = (
    r"nvidia\.com/(gpu[-_.])?((nvidia|tesla|geforce|quadro)[-_.]?)?"
    r"(a|b|gb|gh|h|k|l|m|p|t|v|rtx[-_.]?a?)[0-9]{1,4}[a-z]{0,2}([-_.].*)?"
)
"""A product of NVIDIA, such as a100, as the name of a resource: likewise."""
AMD_PRODUCT: Final = (
    r"amd\.com/(gpu[-_.])?((amd|instinct|radeon)[-_.]?)?mi[0-9]{1,4}[a-z]{0,2}([-_.].*)?"
)
"""A product of AMD as the name of a resource: likewise."""
GPU_SHARED_RESOURCE: Final = "nvidia.com/gpu.shared"
MIG_RESOURCE_PREFIX: Final = "nvidia.com/mig-"
DRA_DRIVER: Final = "gpu.nvidia.com"
GPU_CLASS: Final = "gpu.nvidia.com"
MIG_CLASS: Final = "mig.nvidia.com"
VFIO_CLASS: Final = "vfio.gpu.nvidia.com"
IMPLICIT_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
IMPLICIT_GPU_CLASSES: Final = tuple(
    IMPLICIT_CLASS_PREFIX + name for name in (GPU_CLASS, MIG_CLASS, VFIO_CLASS)
)
GPU_PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
GPU_MEMORY_LABEL: Final = "nvidia.com/gpu.memory"
GPU_COUNT_LABEL: Final = "nvidia.com/gpu.count"
MIG_STRATEGY_LABEL: Final = "nvidia.com/mig.strategy"
MIG_CONFIG_STATE_LABEL: Final = "nvidia.com/mig.config.state"
GKE_SHARING_LABEL: Final = "cloud.google.com/gke-gpu-sharing-strategy"
GKE_REPLICAS_LABEL: Final = "cloud.google.com/gke-max-shared-clients-per-gpu"
KOORDINATOR_MEMORY: Final = "koordinator.sh/gpu-memory"
KOORDINATOR_MODEL_LABEL: Final = "node.koordinator.sh/gpu-model"
GPU_TAINT_KEY: Final = "nvidia.com/gpu"

# Names of what an installation creates
SYSTEM_NAMESPACE: Final = "gpu-admission-system"
CONFIG_MAP: Final = "gpu-admission-config"
LEASE_NAME: Final = "gpu-admission"
KUEUE_LEASE_NAME: Final = "c1f6bfd2.kueue.x-k8s.io"
USAGE_READER_ROLE: Final = "gpu-admission-usage-reader"
"""The Role that may read the records of GPU-time, in the namespace of the program."""
VIEWER_ROLE_PREFIX: Final = "gpu-admission-"
VIEWER_ROLE_SUFFIX: Final = "-viewer-role"
VIEWER_ROLES: Final = {
    kind: f"{VIEWER_ROLE_PREFIX}{kind.lower()}{VIEWER_ROLE_SUFFIX}"
    for kind in (
        "ClusterQueue", "Cohort", "Job", "LocalQueue", "ResourceFlavor", "Topology", "Workload",
        "WorkloadPriorityClass",
    )
}  # fmt: skip
"""ClusterRoles that let people read a kind."""
USAGE_VIEWER_ROLE: Final = "gpu-admission-gpuusagerecord-viewer-role"
"""The ClusterRole that lets people read the GPU-time of a namespace."""
PENDING_VIEWER_ROLE: Final = "gpu-admission-pending-workloads-lq-viewer-role"
"""The ClusterRole that lets people read who waits in a LocalQueue."""
