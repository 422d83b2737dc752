"""Kueue's ``Configuration``: v1beta2 is what the program works with, v1beta1 becomes that.

Null means the same as an absent field, and in a list or mapping the zero value of the element.
The zero value of a field means its default where Kueue takes it so.

Source: kueue apis/config/v1beta1 and v1beta2, configuration_types.go and defaults.go; rules of
values from pkg/config/validation.go; encoding/json of Go for null. Differs: a file without
``waitForPodsReady`` does not wait (ADR 0005).
"""

from collections.abc import Mapping
from datetime import timedelta
from functools import reduce
from operator import or_
from types import GenericAlias, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BeforeValidator, Field, StringConstraints, create_model

from admission.base import names, selectors
from admission.config import addresses
from admission.config.addresses import Address, BindAddress, OptionalBindAddress
from admission.config.durations import Duration
from admission.config.model import SHOWN_IF_SET, UNSET_IF_EMPTY, ConfigModel, Unused
from admission.objects.fields import QUALIFIED_NAME_PATTERN

Strategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
GROUP: Final = names.KUEUE_CONFIG_GROUP
V1BETA2: Final = f"{GROUP}/v1beta2"
KIND: Final = "Configuration"
STRATEGIES: Final[tuple[Strategy, ...]] = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")

_MANAGED: Final = Unused(
    "which pods are managed follows from GpuConfiguration.managedResources, the queue label, and "
    f"the namespace label {names.ENFORCE_LABEL}"
)
_KINDS: Final = Unused(
    "kinds that integrations.frameworks does not list are managed through the pods that they make"
)
_NO_LIMIT: Final = Unused(
    "GpuConfiguration.controller.writers limits writes, which slow down when the API server asks"
)
_OWN_LEASE: Final = Unused("the Lease is called gpu-admission, in the program's own namespace")
_NOT_BUILT: Final = Unused("not supported")
_CERTIFICATES: Final = Unused("Secret and Service have fixed names in the program's own namespace")
_EXPORTED: Final = Unused("these metrics are always exported")
_LIBRARY: Final = Unused("fixed here")
_COUNTED: Final = Unused("devices are counted; memory and slices follow from a flavor's product")


def _number(value: Any) -> Any:
    """Numbers as text, so that none is ever a float; other values are left to the type."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _or_zero(value: Any) -> Any:
    return "0" if value is None else _number(value)


def _or_empty(value: Any) -> Any:
    return "" if value is None else value


Count = Annotated[int, Field(ge=0)]
Text = Annotated[str, BeforeValidator(_or_empty)]
"""An element of a list."""
QualifiedName = Annotated[
    str, StringConstraints(pattern=QUALIFIED_NAME_PATTERN, min_length=1, max_length=316)
]
"""The key of a label."""

LabelValue = Annotated[
    str,
    StringConstraints(pattern=r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$", max_length=63),
    BeforeValidator(_or_empty),
]
Weight = Annotated[str, BeforeValidator(_or_zero)]
Quantity = Annotated[str, BeforeValidator(_or_zero)]
Anything = dict[str, Any]


class SelectorRequirement(ConfigModel):
    """An expression of a label selector."""

    key: QualifiedName
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: Annotated[list[LabelValue], SHOWN_IF_SET] = []

    @property
    def value(self) -> selectors.Requirement:
        """Return the expression as a value that labels are compared with."""
        return selectors.Requirement(self.key, self.operator, (*self.values,))


class SelectorConfig(ConfigModel):
    """A label selector."""

    match_labels: Annotated[dict[QualifiedName, LabelValue], SHOWN_IF_SET] = {}
    match_expressions: Annotated[list[SelectorRequirement], SHOWN_IF_SET] = []

    @property
    def requirements(self) -> tuple[selectors.Requirement, ...]:
        """Return the requirements on labels; all must hold."""
        listed = [expression.value for expression in self.match_expressions]
        return selectors.requirements_of(self.match_labels, listed)


class Webhook(ConfigModel):
    """Where the webhook serves, with TLS.

    Attributes:
        host: IP address or name.
        port: TCP port.
        cert_dir: directory of the serving certificate; empty where an argument must say.
    """

    host: Annotated[str, UNSET_IF_EMPTY] = addresses.ANY_HOST
    port: Annotated[int, Field(ge=0, le=65535), UNSET_IF_EMPTY] = 9443
    cert_dir: Annotated[str, SHOWN_IF_SET] = ""

    @property
    def address(self) -> Address:
        """Return the address on which it listens."""
        return Address(self.host, self.port)


class LeaderElection(ConfigModel):
    """Election among controllers; 0 < retry < renew < lease.

    Source: k8s.io/component-base, LeaderElectionConfiguration.

    Attributes:
        leader_elect: wait for the Lease before deciding anything.
        lease_duration: how long a Lease holds after its last renewal.
        renew_deadline: how long the leader counts on it, from before the renewal.
        retry_period: between attempts to renew or to take it.
        resource_lock: without effect.
        resource_name: without effect.
        resource_namespace: without effect.
    """

    leader_elect: bool = True
    lease_duration: Annotated[Duration, UNSET_IF_EMPTY] = timedelta(seconds=15)
    renew_deadline: Annotated[Duration, UNSET_IF_EMPTY] = timedelta(seconds=10)
    retry_period: Annotated[Duration, UNSET_IF_EMPTY] = timedelta(seconds=2)
    resource_lock: Annotated[str | None, _OWN_LEASE] = None
    resource_name: Annotated[str | None, _OWN_LEASE] = None
    resource_namespace: Annotated[str | None, _OWN_LEASE] = None


class CustomLabel(ConfigModel):
    """A label of metrics."""

    name: str
    source_label_key: str | None = None
    source_annotation_key: str | None = None
    source_kind: str | None = None
    tracked_values: list[str] | None = None


class LocalQueueMetrics(ConfigModel):
    """Metrics by LocalQueue."""

    enable: bool | None = None
    local_queue_selector: SelectorConfig | None = None


class Metrics(ConfigModel):
    """Metrics, and health and readiness beside them.

    Attributes:
        bind_address: where they are served; 0 for nowhere.
        enable_cluster_queue_resources: without effect.
        custom_labels: without effect.
        local_queue_metrics: without effect.
    """

    bind_address: Annotated[BindAddress, UNSET_IF_EMPTY] = "127.0.0.1:8080"
    enable_cluster_queue_resources: Annotated[bool | None, _EXPORTED] = None
    custom_labels: Annotated[list[CustomLabel] | None, _NOT_BUILT] = None
    local_queue_metrics: Annotated[LocalQueueMetrics | None, _EXPORTED] = None

    @property
    def address(self) -> Address | None:
        """Return the address of metrics; None if they are not served."""
        return addresses.parse(self.bind_address)


class Health(ConfigModel):
    """Health and readiness.

    Attributes:
        health_probe_bind_address: where they are served besides the address of metrics; empty
            for nowhere else.
        readiness_endpoint_name: without effect.
        liveness_endpoint_name: without effect.
    """

    health_probe_bind_address: OptionalBindAddress = ""
    readiness_endpoint_name: Annotated[str | None, Unused("/readyz")] = None
    liveness_endpoint_name: Annotated[str | None, Unused("/healthz")] = None

    @property
    def address(self) -> Address | None:
        """Return the additional address of health and readiness; None if there is none."""
        return addresses.parse(self.health_probe_bind_address)


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
    """Certificates that the program makes for itself.

    Attributes:
        enable: the leader renews them and writes the caBundle of our webhook configurations,
            CRDs and APIServices; False where somebody else does, as cert-manager.
        webhook_service_name: without effect.
        webhook_secret_name: without effect.
    """

    enable: bool = True
    webhook_service_name: Annotated[str | None, _CERTIFICATES] = None
    webhook_secret_name: Annotated[str | None, _CERTIFICATES] = None


class ClientConnection(ConfigModel):
    """Kueue's limit on its own requests."""

    qps: float | None = None
    burst: int | None = None


class RequeuingStrategy(ConfigModel):
    """What becomes of a workload whose pods were not ready in time.

    Attributes:
        timestamp: by which it queues: of its eviction, or of its creation.
        backoff_base_seconds: wait after the first eviction; doubles with each.
        backoff_max_seconds: longest wait.
        backoff_limit_count: evictions after which the next one deactivates; None for no limit.
    """

    timestamp: Literal["Creation", "Eviction"] = "Eviction"
    backoff_base_seconds: Count = 60
    backoff_max_seconds: Count = 3600
    backoff_limit_count: Count | None = None


class WaitForPodsReady(ConfigModel):
    """Waiting for pods to become ready.

    Attributes:
        timeout: from admission until all pods are ready.
        recovery_timeout: for which pods that were ready may not be so again; 0 for any time.
        block_admission: nothing is admitted while a workload with quota has pods that are not
            ready.
        requeuing_strategy: see there.
    """

    timeout: Annotated[Duration, UNSET_IF_EMPTY] = timedelta(minutes=30)
    recovery_timeout: Duration = Field(default_factory=lambda values: values["timeout"])
    block_admission: bool = False
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()


class ExternalFramework(ConfigModel):
    """A kind that MultiKueue dispatches."""

    name: str


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


class MultiKueue(ConfigModel):
    """Several clusters."""

    gc_interval: Duration | None = None
    origin: str | None = None
    worker_lost_timeout: Duration | None = None
    dispatcher_name: str | None = None
    external_frameworks: list[ExternalFramework] | None = None
    cluster_profile: ClusterProfile | None = None
    incremental_dispatcher_config: IncrementalDispatcher | None = None


ALWAYS_SERVED: Final = ("pod", "batch/job")
"""Names of frameworks that need not be listed: what is not held would run outside quota."""
SERVING: Final = (
    "deployment",
    "statefulset",
    "leaderworkerset.x-k8s.io/leaderworkerset",
)
"""Names of the frameworks whose pods are admitted, and their owners never suspended."""


class Integrations(ConfigModel):
    """Kinds of jobs.

    Attributes:
        frameworks: kinds of owners that are held as a whole; all that are known where none is
            listed. Single pods and Jobs always are managed.
        external_frameworks: without effect.
        label_keys_to_copy: keys of labels that a Workload takes over from its pod or Job.
    """

    frameworks: Annotated[list[Text], SHOWN_IF_SET] = []
    external_frameworks: Annotated[list[Text] | None, _KINDS] = None
    label_keys_to_copy: Annotated[list[Text], SHOWN_IF_SET] = []


class VisibilityServer(ConfigModel):
    """Where pending workloads are served, with TLS.

    Attributes:
        bind_address: IP address.
        bind_port: TCP port.
    """

    bind_address: str = addresses.ANY_HOST
    bind_port: Annotated[int, Field(ge=1, le=65535)] = 8082


class FairSharingSettings(ConfigModel):
    """Fair sharing between ClusterQueues; present means on (ADR 0005)."""

    preemption_strategies: Annotated[list[Strategy], UNSET_IF_EMPTY] = list(STRATEGIES)


class AdmissionFairSharingSettings(ConfigModel):
    """Ordering of LocalQueues by past usage.

    Attributes:
        usage_half_life_time: in which consumed usage halves; 0 forgets at once.
        usage_sampling_interval: how often usage is sampled.
        resource_weights: factor of each resource as a decimal number; a missing one is 1.
    """

    usage_half_life_time: Duration = timedelta()
    usage_sampling_interval: Annotated[Duration, UNSET_IF_EMPTY] = timedelta(minutes=5)
    resource_weights: dict[str, Weight] = {}


class ResourceTransformation(ConfigModel):
    """How a requested resource is counted as others.

    Attributes:
        input: the requested resource; one transformation for each at most.
        strategy: whether the input is counted, too.
        multiply_by: a resource whose request multiplies the outputs; empty for none.
        outputs: quantity of each output for one unit of the input.
    """

    input: str = ""
    strategy: Annotated[Literal["Retain", "Replace", ""], UNSET_IF_EMPTY] = "Retain"
    multiply_by: Annotated[str, SHOWN_IF_SET] = ""
    outputs: dict[str, Quantity] = {}


class DeviceSource(ConfigModel):
    """What of a device is counted."""

    counter: Anything | None = None
    capacity: Anything | None = None


class DeviceClassMapping(ConfigModel):
    """DeviceClasses that are counted as a resource; NVIDIA's own need no entry."""

    name: str = ""
    device_class_names: list[Text] = []
    sources: Annotated[list[DeviceSource] | None, _COUNTED] = None


class Resources(ConfigModel):
    """How requests are counted.

    Attributes:
        quota_check_strategy: whether resources that a ClusterQueue does not list keep a workload
            out, or are free there.
        exclude_resource_prefixes: resources whose names start so are not counted.
        transformations: see there.
        device_class_mappings: see there.
    """

    quota_check_strategy: Literal["BlockUndeclared", "IgnoreUndeclared"] = "BlockUndeclared"
    exclude_resource_prefixes: Annotated[list[Text], SHOWN_IF_SET] = []
    transformations: Annotated[list[ResourceTransformation], SHOWN_IF_SET] = []
    device_class_mappings: Annotated[list[DeviceClassMapping], SHOWN_IF_SET] = []


class WorkloadRetention(ConfigModel):
    """How long after their end ended objects are deleted; None for never.

    Attributes:
        after_finished: finished Workloads.
        after_deactivated_by_kueue: owners of Workloads that were deactivated by the program.
    """

    after_finished: Duration | None = None
    after_deactivated_by_kueue: Duration | None = None


class RetentionPolicies(ConfigModel):
    """When ended objects are deleted."""

    workloads: WorkloadRetention = WorkloadRetention()


class Configuration(ConfigModel):
    """The document, version v1beta2; a field that a file leaves out has its default.

    Attributes:
        api_version: of the document.
        kind: of the document.
        namespace: where the program itself is installed and keeps its Lease.
        manage_jobs_without_queue_name: GPU pods and Jobs without a queue are held until they
            have one.
        managed_jobs_namespace_selector: what the labels of managed namespaces satisfy; names
            that are left out join ``GpuConfiguration.excludedNamespaces`` when a file is read.
        webhook: where the webhook serves.
        metrics: where metrics are served.
        leader_election: election among controllers.
        internal_cert_management: who renews certificates.
        resources: how requests are counted.
        wait_for_pods_ready: None where nobody waits for pods to become ready.
        object_retention_policies: when ended objects are deleted.
        integrations: which labels a Workload takes over.
        health: where health and readiness are served, too.
        visibility_server: where pending workloads are served; None for nowhere.
        fair_sharing: None without it.
        admission_fair_sharing: None without it.
        controller: without effect, as all that follows.
        pprof_bind_address: see there.
        tls: see there.
        client_connection: see there.
        feature_gates: see there.
        multi_kueue: see there.
    """

    api_version: str = V1BETA2
    kind: str = KIND
    namespace: Annotated[str, UNSET_IF_EMPTY] = names.SYSTEM_NAMESPACE
    manage_jobs_without_queue_name: bool = False
    managed_jobs_namespace_selector: SelectorConfig = SelectorConfig()
    webhook: Webhook = Webhook()
    metrics: Metrics = Metrics()
    leader_election: LeaderElection = LeaderElection()
    internal_cert_management: InternalCertManagement = InternalCertManagement()
    resources: Resources = Resources()
    wait_for_pods_ready: WaitForPodsReady | None = None
    object_retention_policies: Annotated[RetentionPolicies, SHOWN_IF_SET] = RetentionPolicies()
    integrations: Annotated[Integrations, SHOWN_IF_SET] = Integrations()
    health: Annotated[Health, SHOWN_IF_SET] = Health()
    visibility_server: VisibilityServer | None = None
    fair_sharing: FairSharingSettings | None = None
    admission_fair_sharing: AdmissionFairSharingSettings | None = None
    controller: Annotated[Controller, SHOWN_IF_SET] = Controller()
    pprof_bind_address: Annotated[str | None, _NOT_BUILT] = None
    tls: Annotated[Tls | None, _LIBRARY] = None
    client_connection: Annotated[ClientConnection | None, _NO_LIMIT] = None
    feature_gates: Annotated[
        dict[str, bool | None] | None, Unused("there are no feature gates")
    ] = None
    multi_kueue: Annotated[MultiKueue | None, _NOT_BUILT] = None

    @property
    def visibility_address(self) -> Address | None:
        """Return the address of pending workloads; None if they are not served."""
        server = self.visibility_server
        return None if server is None else Address(server.bind_address, server.bind_port)


# ------------------------------------------------------------------------------------ v1beta1


class PodOptions(ConfigModel):
    """Which pods Kueue looks at, v1beta1."""

    namespace_selector: SelectorConfig | None = None
    pod_selector: SelectorConfig | None = None


class VisibilityOfQueues(ConfigModel):
    """How many pending workloads a status lists, v1beta1."""

    max_count: int | None = None


class QueueVisibility(ConfigModel):
    """Pending workloads in statuses, v1beta1."""

    cluster_queues: VisibilityOfQueues | None = None
    update_interval_seconds: int | None = None


_NEWER: Final[Mapping[type[ConfigModel], set[str]]] = {
    Configuration: {"visibility_server"},
    CustomLabel: {"source_kind", "tracked_values"},
    DeviceClassMapping: {"sources"},
    MultiKueue: {"cluster_profile", "incremental_dispatcher_config"},
    Resources: {"quota_check_strategy"},
}
"""Fields that v1beta1 does not have."""
_OLDER: Final[Mapping[type[ConfigModel], Mapping[str, tuple[Any, Any]]]] = {
    Configuration: {"queue_visibility": (Annotated[QueueVisibility | None, _NOT_BUILT], None)},
    FairSharingSettings: {"enable": (bool, False)},
    Integrations: {"pod_options": (Annotated[PodOptions | None, _MANAGED], None)},
    WaitForPodsReady: {"enable": (bool, False)},
}
"""Type and default of the fields that only v1beta1 has."""


def _v1beta1(annotation: Any) -> Any:
    """Return the type of a value in v1beta1, where `annotation` is that in v1beta2."""
    if isinstance(annotation, type) and issubclass(annotation, ConfigModel):
        fields: dict[str, Any] = {
            name: (_v1beta1(info.annotation), info)
            for name, info in annotation.model_fields.items()
            if name not in _NEWER.get(annotation, ())
        }
        fields |= _OLDER.get(annotation, {})
        return create_model(f"{annotation.__name__}V1Beta1", __base__=ConfigModel, **fields)
    inner = tuple(map(_v1beta1, get_args(annotation)))
    if get_origin(annotation) is list:
        return GenericAlias(list, inner)
    if get_origin(annotation) in {Union, UnionType}:
        return reduce(or_, inner)
    return annotation


ConfigurationV1Beta1: Final[type[ConfigModel]] = _v1beta1(Configuration)
VERSIONS: Final[dict[str, type[ConfigModel]]] = {
    f"{GROUP}/v1beta1": ConfigurationV1Beta1,
    V1BETA2: Configuration,
}


def converted(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a valid document of v1beta1 as one of v1beta2.

    Sections that are off there are absent here, and the defaults of v1beta1 are written out.
    """
    fields = {name: value for name, value in document.items() if name != "queueVisibility"}
    waiting = _switched_on(document, "waitForPodsReady")
    if waiting is not None:
        waiting = {"timeout": "5m", "blockAdmission": True} | waiting
    jobs = document.get("integrations") or {}
    return fields | {
        "apiVersion": V1BETA2,
        "waitForPodsReady": waiting,
        "fairSharing": _switched_on(document, "fairSharing"),
        "integrations": {name: value for name, value in jobs.items() if name != "podOptions"},
    }


def _switched_on(document: Mapping[str, Any], section: str) -> dict[str, Any] | None:
    """Return the fields of a section without its switch; None if it is off."""
    options = document.get(section) or {}
    if not options.get("enable"):
        return None
    return {
        name: value for name, value in options.items() if name != "enable" and value is not None
    }
