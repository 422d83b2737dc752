"""Kueue's ``Configuration`` as a file may hold it, in both of its versions.

Null means the same as an absent field, and in a list or mapping the zero value of the element.

Source: kueue apis/config/v1beta1 and v1beta2, configuration_types.go; rules of values from
pkg/config/validation.go; encoding/json of Go for null.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from admission.api.scalars import QualifiedName
from admission.base import names
from admission.config.durations import Duration
from admission.config.model import ConfigModel, Unused

GROUP: Final = names.KUEUE_CONFIG_GROUP
KIND: Final = "Configuration"

_MANAGED: Final = Unused(
    "which pods are managed follows from GpuConfiguration.managedResources, the queue label, and "
    f"the namespace label {names.ENFORCE_LABEL}"
)
_KINDS: Final = Unused(
    "single pods and batch/v1 Jobs are managed, other kinds through the pods that they make"
)
_NO_LIMIT: Final = Unused(
    "writes are bounded by GpuConfiguration.controller.writers, and slow down when told to"
)
_OWN_LEASE: Final = Unused("the Lease is called gpu-admission, in the program's own namespace")
_NOT_BUILT: Final = Unused("not supported")
_CERTIFICATES: Final = Unused("Secret and Service have fixed names in the program's own namespace")
_EXPORTED: Final = Unused("these metrics are always exported")
_LIBRARY: Final = Unused("fixed here")
_COUNTED: Final = Unused("devices are counted; the product of a flavor tells memory and slices")


def _number(value: Any) -> Any:
    """Numbers as text, so that none is ever a float; other values are left to the type."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _or_zero(value: Any) -> Any:
    return "0" if value is None else _number(value)


def _or_empty(value: Any) -> Any:
    return "" if value is None else value


Port = Annotated[int, Field(ge=0, le=65535)]
Count = Annotated[int, Field(ge=0)]
Text = Annotated[str, BeforeValidator(_or_empty)]
"""An element of a list."""
LabelValue = Annotated[
    str,
    StringConstraints(pattern=r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$", max_length=63),
    BeforeValidator(_or_empty),
]
Weight = Annotated[str, BeforeValidator(_or_zero)]
Quantity = Annotated[str, BeforeValidator(_or_zero)]
Anything = dict[str, Any]
Strategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]


class Requirement(ConfigModel):
    """An expression of a label selector."""

    key: QualifiedName
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[LabelValue] | None = None


class Selector(ConfigModel):
    """A label selector."""

    match_labels: dict[QualifiedName, LabelValue] | None = None
    match_expressions: list[Requirement] | None = None


class Webhook(ConfigModel):
    """Where the webhook serves."""

    port: Port | None = None
    host: str | None = None
    cert_dir: str | None = None


class LeaderElection(ConfigModel):
    """Election among controllers; k8s.io/component-base, LeaderElectionConfiguration."""

    leader_elect: bool | None = None
    lease_duration: Duration | None = None
    renew_deadline: Duration | None = None
    retry_period: Duration | None = None
    resource_lock: Annotated[str | None, _OWN_LEASE] = None
    resource_name: Annotated[str | None, _OWN_LEASE] = None
    resource_namespace: Annotated[str | None, _OWN_LEASE] = None


class CustomLabel(ConfigModel):
    """A label of metrics, v1beta1."""

    name: str
    source_label_key: str | None = None
    source_annotation_key: str | None = None


class CustomLabelV1Beta2(CustomLabel):
    """A label of metrics."""

    source_kind: str | None = None
    tracked_values: list[str] | None = None


class LocalQueueMetrics(ConfigModel):
    """Metrics by LocalQueue."""

    enable: bool | None = None
    local_queue_selector: Selector | None = None


class Metrics(ConfigModel):
    """Metrics, v1beta1."""

    bind_address: str | None = None
    enable_cluster_queue_resources: Annotated[bool | None, _EXPORTED] = None
    custom_labels: Annotated[list[CustomLabel] | None, _NOT_BUILT] = None
    local_queue_metrics: Annotated[LocalQueueMetrics | None, _EXPORTED] = None


class MetricsV1Beta2(ConfigModel):
    """Metrics."""

    bind_address: str | None = None
    enable_cluster_queue_resources: Annotated[bool | None, _EXPORTED] = None
    custom_labels: Annotated[list[CustomLabelV1Beta2] | None, _NOT_BUILT] = None
    local_queue_metrics: Annotated[LocalQueueMetrics | None, _EXPORTED] = None


class Health(ConfigModel):
    """Health and readiness."""

    health_probe_bind_address: str | None = None
    readiness_endpoint_name: Annotated[str | None, Unused("/readyz")] = None
    liveness_endpoint_name: Annotated[str | None, Unused("/healthz")] = None


class Controller(ConfigModel):
    """Workers of Kueue's controllers."""

    group_kind_concurrency: Annotated[dict[str, int | None] | None, _NO_LIMIT] = None
    cache_sync_timeout: Annotated[int | None, _LIBRARY] = None


class Tls(ConfigModel):
    """TLS of Kueue's servers."""

    min_version: str | None = None
    cipher_suites: list[str] | None = None
    curve_preferences: list[int] | None = None


class InternalCertManagement(ConfigModel):
    """Certificates that Kueue makes for itself."""

    enable: bool | None = None
    webhook_service_name: Annotated[str | None, _CERTIFICATES] = None
    webhook_secret_name: Annotated[str | None, _CERTIFICATES] = None


class ClientConnection(ConfigModel):
    """Kueue's limit on its own requests."""

    qps: float | None = None
    burst: int | None = None


class RequeuingStrategy(ConfigModel):
    """What becomes of a workload whose pods were not ready in time."""

    timestamp: Literal["Creation", "Eviction"] | None = None
    backoff_limit_count: Count | None = None
    backoff_base_seconds: Count | None = None
    backoff_max_seconds: Count | None = None


class WaitForPodsReady(ConfigModel):
    """Waiting for pods to become ready."""

    timeout: Duration | None = None
    block_admission: bool | None = None
    recovery_timeout: Duration | None = None
    requeuing_strategy: RequeuingStrategy | None = None


class WaitForPodsReadyV1Beta1(WaitForPodsReady):
    """Waiting for pods to become ready, v1beta1."""

    enable: bool | None = None


class ExternalFramework(ConfigModel):
    """A kind that MultiKueue dispatches."""

    name: str


class MultiKueue(ConfigModel):
    """Several clusters, v1beta1."""

    gc_interval: Duration | None = None
    origin: str | None = None
    worker_lost_timeout: Duration | None = None
    dispatcher_name: str | None = None
    external_frameworks: list[ExternalFramework] | None = None


class AccessProvider(ConfigModel):
    """How to log in to a cluster; its command is client-go's ExecConfig."""

    name: str
    exec_config: Anything


class ClusterProfile(ConfigModel):
    """Clusters that are found by profiles."""

    access_providers: list[AccessProvider] | None = None
    credentials_providers: list[AccessProvider] | None = None


class IncrementalDispatcher(ConfigModel):
    """How many clusters are tried at a time."""

    step_size: int | None = None


class MultiKueueV1Beta2(MultiKueue):
    """Several clusters."""

    cluster_profile: ClusterProfile | None = None
    incremental_dispatcher_config: IncrementalDispatcher | None = None


class PodOptions(ConfigModel):
    """Which pods Kueue looks at, v1beta1."""

    namespace_selector: Selector | None = None
    pod_selector: Selector | None = None


class Integrations(ConfigModel):
    """Kinds of jobs."""

    frameworks: Annotated[list[Text] | None, _KINDS] = None
    external_frameworks: Annotated[list[Text] | None, _KINDS] = None
    label_keys_to_copy: list[Text] | None = None


class IntegrationsV1Beta1(Integrations):
    """Kinds of jobs, v1beta1."""

    pod_options: Annotated[PodOptions | None, _MANAGED] = None


class VisibilityOfQueues(ConfigModel):
    """How many pending workloads a status lists, v1beta1."""

    max_count: int | None = None


class QueueVisibility(ConfigModel):
    """Pending workloads in statuses, v1beta1."""

    cluster_queues: VisibilityOfQueues | None = None
    update_interval_seconds: int | None = None


class VisibilityServer(ConfigModel):
    """The API server of pending workloads."""

    bind_address: str | None = None
    bind_port: Annotated[int, Field(ge=1, le=65535)] | None = None


class FairSharing(ConfigModel):
    """Fair sharing between ClusterQueues; present means on, no strategies means all (ADR 0095)."""

    preemption_strategies: list[Strategy] | None = None


class FairSharingV1Beta1(ConfigModel):
    """Fair sharing between ClusterQueues, v1beta1."""

    enable: bool | None = None
    preemption_strategies: list[Strategy] | None = None


class AdmissionFairSharing(ConfigModel):
    """Ordering of LocalQueues by past usage."""

    usage_half_life_time: Duration | None = None
    usage_sampling_interval: Duration | None = None
    resource_weights: dict[str, Weight] | None = None


class Transformation(ConfigModel):
    """How a requested resource is counted as others."""

    input: Text = ""
    strategy: Literal["Retain", "Replace", ""] | None = None
    multiply_by: str | None = None
    outputs: dict[str, Quantity] | None = None


class DeviceClassMapping(ConfigModel):
    """DeviceClasses that are counted as a resource, v1beta1."""

    name: Text = ""
    device_class_names: list[Text] | None = None


class DeviceSource(ConfigModel):
    """What of a device is counted."""

    counter: Anything | None = None
    capacity: Anything | None = None


class DeviceClassMappingV1Beta2(DeviceClassMapping):
    """DeviceClasses that are counted as a resource."""

    sources: Annotated[list[DeviceSource] | None, _COUNTED] = None


class Resources(ConfigModel):
    """How requests are counted, v1beta1."""

    exclude_resource_prefixes: list[Text] | None = None
    transformations: list[Transformation] | None = None
    device_class_mappings: list[DeviceClassMapping] | None = None


class ResourcesV1Beta2(ConfigModel):
    """How requests are counted."""

    quota_check_strategy: Literal["BlockUndeclared", "IgnoreUndeclared"] | None = None
    exclude_resource_prefixes: list[Text] | None = None
    transformations: list[Transformation] | None = None
    device_class_mappings: list[DeviceClassMappingV1Beta2] | None = None


class WorkloadRetention(ConfigModel):
    """When ended workloads are deleted."""

    after_finished: Duration | None = None
    after_deactivated_by_kueue: Duration | None = None


class RetentionPolicies(ConfigModel):
    """When ended objects are deleted."""

    workloads: WorkloadRetention | None = None


class Configuration(ConfigModel):
    """What both versions have."""

    api_version: str = ""
    kind: str = ""
    namespace: str | None = None
    webhook: Webhook | None = None
    leader_election: LeaderElection | None = None
    health: Health | None = None
    pprof_bind_address: Annotated[str | None, _NOT_BUILT] = None
    controller: Controller | None = None
    tls: Annotated[Tls | None, _LIBRARY] = None
    manage_jobs_without_queue_name: bool | None = None
    managed_jobs_namespace_selector: Selector | None = None
    internal_cert_management: InternalCertManagement | None = None
    client_connection: Annotated[ClientConnection | None, _NO_LIMIT] = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    feature_gates: Annotated[
        dict[str, bool | None] | None, Unused("there are no feature gates")
    ] = None
    object_retention_policies: RetentionPolicies | None = None


class ConfigurationV1Beta1(Configuration):
    """Version v1beta1."""

    metrics: Metrics | None = None
    wait_for_pods_ready: WaitForPodsReadyV1Beta1 | None = None
    integrations: IntegrationsV1Beta1 | None = None
    queue_visibility: Annotated[QueueVisibility | None, _NOT_BUILT] = None
    multi_kueue: Annotated[MultiKueue | None, _NOT_BUILT] = None
    fair_sharing: FairSharingV1Beta1 | None = None
    resources: Resources | None = None


class ConfigurationV1Beta2(Configuration):
    """Version v1beta2."""

    metrics: MetricsV1Beta2 | None = None
    wait_for_pods_ready: WaitForPodsReady | None = None
    integrations: Integrations | None = None
    multi_kueue: Annotated[MultiKueueV1Beta2 | None, _NOT_BUILT] = None
    fair_sharing: FairSharing | None = None
    resources: ResourcesV1Beta2 | None = None
    visibility_server: VisibilityServer | None = None


VERSIONS: Final[dict[str, type[ConfigurationV1Beta1 | ConfigurationV1Beta2]]] = {
    f"{GROUP}/v1beta1": ConfigurationV1Beta1,
    f"{GROUP}/v1beta2": ConfigurationV1Beta2,
}
