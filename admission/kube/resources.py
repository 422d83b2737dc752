"""The kinds of objects that the program reads or writes, and where they live on an API server."""

from dataclasses import dataclass, replace
from typing import Final

from admission.base import names


@dataclass(frozen=True, slots=True)
class Resource:
    """One served resource.

    Attributes:
        group: API group; empty for the core group.
        version: served version that we read and write.
        plural: lower-case plural name, as in URLs.
        kind: kind of one object.
        namespaced: whether its objects live in namespaces.
        part: tells a selected part of its objects from the whole, where both are watched.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    part: str = ""

    @property
    def api_version(self) -> str:
        """``group/version``, or the version alone in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """``plural.group``, as messages of the API server name a resource."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of a collection, of an object, or of its subresource.

        An empty namespace of a namespaced resource means all namespaces.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        tail = "".join(f"/{part}" for part in (self.plural, name, subresource) if part)
        return root + scope + tail


_KUEUE: Final = (names.KUEUE_GROUP, "v1beta2")
_RAY: Final = ("ray.io", "v1")
_RBAC: Final = ("rbac.authorization.k8s.io", "v1")
_DEVICES: Final = ("resource.k8s.io", "v1")
_WEBHOOKS: Final = ("admissionregistration.k8s.io", "v1")
_EARLIER: Final = {
    _DEVICES: ("v1beta2", "v1beta1"),
    ("scheduling.k8s.io", "v1beta1"): ("v1alpha3", "v1alpha2"),
    _WEBHOOKS: ("v1beta1",),
}

PODS: Final = Resource("", "v1", "pods", "Pod")
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
LIMIT_RANGES: Final = Resource("", "v1", "limitranges", "LimitRange")
RESOURCE_QUOTAS: Final = Resource("", "v1", "resourcequotas", "ResourceQuota")
SERVICES: Final = Resource("", "v1", "services", "Service")
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount")
SECRETS: Final = Resource("", "v1", "secrets", "Secret")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
PRIORITY_CLASSES: Final = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
PERSISTENT_VOLUMES: Final = Resource(
    "", "v1", "persistentvolumes", "PersistentVolume", namespaced=False
)
RUNTIME_CLASSES: Final = Resource(
    "node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False
)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet")
JOBS: Final = Resource("batch", "v1", "jobs", "Job")
RELEASED_PODS: Final = Resource("", "v1", "pods", "Pod", part="released")
BOUND_PODS: Final = Resource("", "v1", "pods", "Pod", part="bound")
CHILD_JOBS: Final = Resource("batch", "v1", "jobs", "Job", part="children")
JOB_SETS_OF_TRAIN_JOBS: Final = Resource(
    "jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", part="trainjobs"
)
CLUSTERS_OF_RAY_JOBS: Final = Resource(*_RAY, "rayclusters", "RayCluster", part="rayjobs")
CLUSTERS_OF_RAY_SERVICES: Final = Resource(*_RAY, "rayclusters", "RayCluster", part="rayservices")
POD_DISRUPTION_BUDGETS: Final = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"
)

CLUSTER_QUEUES: Final = Resource(*_KUEUE, "clusterqueues", "ClusterQueue", namespaced=False)
COHORTS: Final = Resource(*_KUEUE, "cohorts", "Cohort", namespaced=False)
LOCAL_QUEUES: Final = Resource(*_KUEUE, "localqueues", "LocalQueue")
RESOURCE_FLAVORS: Final = Resource(*_KUEUE, "resourceflavors", "ResourceFlavor", namespaced=False)
WORKLOADS: Final = Resource(*_KUEUE, "workloads", "Workload")
WORKLOAD_PRIORITY_CLASSES: Final = Resource(
    *_KUEUE, "workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False
)
ADMISSION_CHECKS: Final = Resource(*_KUEUE, "admissionchecks", "AdmissionCheck", namespaced=False)
TOPOLOGIES: Final = Resource(*_KUEUE, "topologies", "Topology", namespaced=False)
USAGE_RECORDS: Final = Resource(
    names.VISIBILITY_GROUP, names.VISIBILITY_VERSIONS[0], "gpuusagerecords", "GpuUsageRecord"
)
"""What the visibility API shows of records of GPU-time: the rows of one namespace."""

NETWORK_POLICIES: Final = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
CRDS: Final = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
MUTATING_WEBHOOKS: Final = Resource(
    *_WEBHOOKS,
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOKS: Final = Resource(
    *_WEBHOOKS,
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_POLICIES: Final = Resource(
    *_WEBHOOKS,
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
VALIDATING_POLICY_BINDINGS: Final = Resource(
    *_WEBHOOKS,
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
MUTATING_POLICIES: Final = Resource(
    *_WEBHOOKS,
    "mutatingadmissionpolicies",
    "MutatingAdmissionPolicy",
    namespaced=False,
)
MUTATING_POLICY_BINDINGS: Final = Resource(
    *_WEBHOOKS,
    "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding",
    namespaced=False,
)
SELF_SUBJECT_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
TOKEN_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
SUBJECT_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
API_SERVICES: Final = Resource(
    "apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False
)
CLUSTER_ROLES: Final = Resource(*_RBAC, "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = Resource(
    *_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
ROLES: Final = Resource(*_RBAC, "roles", "Role")
DEVICES: Final = Resource(
    "scheduling.koordinator.sh", "v1alpha1", "devices", "Device", namespaced=False
)
"""A node agent's list of devices; served where Koordinator is installed."""
VOLCANO_QUEUES: Final = Resource(
    "scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False
)
"""Served where Volcano is installed."""
ROLE_BINDINGS: Final = Resource(*_RBAC, "rolebindings", "RoleBinding")

DEVICE_CLASSES: Final = Resource(*_DEVICES, "deviceclasses", "DeviceClass", namespaced=False)
RESOURCE_CLAIMS: Final = Resource(*_DEVICES, "resourceclaims", "ResourceClaim")
RESOURCE_CLAIM_TEMPLATES: Final = Resource(
    *_DEVICES, "resourceclaimtemplates", "ResourceClaimTemplate"
)
RESOURCE_SLICES: Final = Resource(*_DEVICES, "resourceslices", "ResourceSlice", namespaced=False)

BUILT_IN: Final = (
    PODS, NAMESPACES, NODES, LIMIT_RANGES, SERVICES, SERVICE_ACCOUNTS, SECRETS, CONFIG_MAPS,
    RESOURCE_QUOTAS, VALIDATING_POLICIES, VALIDATING_POLICY_BINDINGS,
    MUTATING_POLICIES, MUTATING_POLICY_BINDINGS,
    EVENTS, LEASES, PRIORITY_CLASSES, RUNTIME_CLASSES, DEPLOYMENTS, REPLICA_SETS, JOBS,
    PERSISTENT_VOLUMES, POD_DISRUPTION_BUDGETS, NETWORK_POLICIES, CRDS,
    MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS,
    CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS, API_SERVICES, DEVICE_CLASSES,
    RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES,
)  # fmt: skip
"""What a present API server serves."""

CUSTOM: Final = (
    CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS, WORKLOAD_PRIORITY_CLASSES,
    ADMISSION_CHECKS, TOPOLOGIES,
)  # fmt: skip
"""What is served once its CustomResourceDefinition is installed."""


def versions(resource: Resource) -> tuple[Resource, ...]:
    """Return the resource and its names on earlier API servers; the first served one is read."""
    earlier = _EARLIER.get((resource.group, resource.version), ())
    return (resource, *(replace(resource, version=version) for version in earlier))


_BY_KIND: Final = {
    (version.api_version, version.kind): version
    for resource in BUILT_IN + CUSTOM
    for version in versions(resource)
}


def of_kind(api_version: str, kind: str) -> Resource | None:
    """Return the resource of a document's ``apiVersion`` and ``kind``; None if not one of ours."""
    return _BY_KIND.get((api_version, kind))
