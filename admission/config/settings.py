"""Settings: what can be chosen, with its default, parsed and validated once, then frozen."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from admission.base import names, namespaces
from admission.base.namespaces import ManagedNamespaces
from admission.base.selectors import Requirement

DEFAULT_MANAGED_RESOURCES: Final = (
    names.GPU_RESOURCE,
    names.GPU_SHARED_RESOURCE,
    f"{names.MIG_RESOURCE_PREFIX}*",
    *names.IMPLICIT_GPU_CLASSES,
)
DEFAULT_EXCLUDED_NAMESPACES: Final = (
    names.SYSTEM_NAMESPACE,
    "gpu-operator",
    "kube-node-lease",
    "kube-system",
)


LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
"""Hosts at which only this machine, or this pod, is reached."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ListenAddress(_Frozen):
    """Where to listen.

    Attributes:
        host: IP address or name.
        port: TCP port; 0 for a free one.
    """

    host: str
    port: int = Field(ge=0, le=65535)


DEFAULT_VISIBILITY_ADDRESS: Final = ListenAddress(host="0.0.0.0", port=8082)  # noqa: S104


class HealthSettings(_Frozen):
    """What counts as sickness of a GPU; None stands for what ``admission.gpu.health`` says.

    Attributes:
        ignored_xids: NVIDIA error numbers that never count.
        reported_xids: numbers that are told, but the device stays.
        node_conditions: type of each node condition that matters, and the status that is bad.
        label: node label by which people overrule: ``unhealthy`` or ``healthy``.
        hot_celsius: above it a device becomes sick.
        cool_celsius: below it a device that was too hot is well again.
        loss_grace_seconds: how long all devices of a node must be gone before it is believed.
        gain_grace_seconds: how long more devices must be there before it is believed.
    """

    ignored_xids: tuple[int, ...] | None = None
    reported_xids: tuple[int, ...] | None = None
    node_conditions: Mapping[str, str] | None = None
    label: str | None = None
    hot_celsius: int | None = None
    cool_celsius: int | None = None
    loss_grace_seconds: float | None = Field(default=None, ge=0)
    gain_grace_seconds: float | None = Field(default=None, ge=0)


class NamespaceMode(_Frozen):
    """What holds in a namespace whose labels say nothing else.

    Attributes:
        bypass: what becomes of pods that reach GPUs around quota.
        enforce: whether GPU pods and Jobs without a queue are refused.
    """

    bypass: namespaces.BypassChoice = namespaces.WARN
    enforce: bool = False


class ModeSettings(_Frozen):
    """What holds in namespaces whose labels say nothing else.

    Attributes:
        with_queue: where there is a LocalQueue.
        without_queue: where there is none.
    """

    with_queue: NamespaceMode = NamespaceMode()
    without_queue: NamespaceMode = NamespaceMode()


class GpuSettings(_Frozen):
    """What counts as a GPU pod.

    Attributes:
        managed_resources: resource names that make a pod ours; a trailing ``*`` matches a prefix.
        excluded_namespaces: namespaces whose pods and Jobs are never ours.
        namespace_requirements: what the labels of the others satisfy; see `managed_namespaces`.
        queue_required: whether GPU pods and Jobs without a queue are held until they have one.
        modes: what holds in namespaces whose labels say nothing else; None where nobody has
            chosen, see `effective_modes`.
        toleration_key: taint key that GPU pods tolerate with operator Exists; empty = inject none.
        products: GPUs that replace those of the shipped table or are added, in its form.
        health: which GPUs count.
    """

    managed_resources: tuple[str, ...] = DEFAULT_MANAGED_RESOURCES
    excluded_namespaces: tuple[str, ...] = DEFAULT_EXCLUDED_NAMESPACES
    namespace_requirements: tuple[Requirement, ...] = ()
    queue_required: bool = False
    modes: ModeSettings | None = None
    toleration_key: str = names.GPU_TAINT_KEY
    products: tuple[Mapping[str, Any], ...] = ()
    health: HealthSettings = HealthSettings()

    @property
    def effective_modes(self) -> ModeSettings:
        """Return the modes that hold in namespaces: warnings, where nobody has chosen."""
        return self.modes or ModeSettings()

    @property
    def managed_namespaces(self) -> ManagedNamespaces:
        """The namespaces in which pods and Jobs are managed."""
        modes = self.effective_modes
        return ManagedNamespaces(
            excluded=frozenset(self.excluded_namespaces),
            requirements=self.namespace_requirements,
            queue_required=self.queue_required,
            enforced_with_queue=modes.with_queue.enforce,
            enforced_without_queue=modes.without_queue.enforce,
        )


class PodsReadySettings(_Frozen):
    """What becomes of a workload whose pods are not ready in time.

    Attributes:
        timeout_us: from admission until all pods are ready, in microseconds.
        recovery_us: for which pods that were ready may not be so again; 0 for any time.
        backoff_base_seconds: wait after the first eviction; doubles with each.
        backoff_max_seconds: longest wait.
        backoff_limit: evictions after which the next one deactivates; None for no limit.
    """

    timeout_us: int = Field(default=1_800_000_000, ge=0)
    recovery_us: int = Field(default=1_800_000_000, ge=0)
    backoff_base_seconds: int = Field(default=60, ge=0)
    backoff_max_seconds: int = Field(default=3600, ge=0)
    backoff_limit: int | None = Field(default=None, ge=0)


class RetentionSettings(_Frozen):
    """When ended objects are deleted, in microseconds after their end; None for never.

    Attributes:
        after_finished_us: finished Workloads.
        after_deactivated_us: owners of Workloads that were deactivated by the program.
    """

    after_finished_us: int | None = Field(default=None, ge=0)
    after_deactivated_us: int | None = Field(default=None, ge=0)


class WorkloadSettings(_Frozen):
    """What the controller does with Workloads besides giving them quota.

    Attributes:
        pods_ready: None where nobody waits for pods to become ready.
        retention: when ended objects are deleted.
        copied_labels: keys of labels that a Workload takes over from its pod or Job.
    """

    pods_ready: PodsReadySettings | None = None
    retention: RetentionSettings = RetentionSettings()
    copied_labels: tuple[str, ...] = ()


class ControllerSettings(_Frozen):
    """How the controller works.

    Attributes:
        writers: writes to the API server in flight at once.
        request_timeout_seconds: bound on one request; the leader sends no write that could still
            be under way when its Lease may be taken, so it stays well below the renew time.
        watch_silence_seconds: how long a watch may say nothing before it counts as broken; the API
            server sends a bookmark about every minute.
        waiting_after_seconds: how long a pod waits before its reason is written on it.
        waiting_refresh_seconds: least time between two texts of the same reason on one pod.
        status_interval_seconds: least time between two status writes of one queue; up to twice
            as long while many queues change.
        outside_interval_seconds: how often pods are listed that hold GPUs without a queue.
        audit_interval_seconds: how often what is charged is compared with what is held.
        metrics_address: where metrics, health and readiness are served; None for nowhere.
        health_address: where they are served, too; None for nowhere else.
        visibility_address: where pending workloads are served, with TLS; None for nowhere.
        secure_metrics: the pages are served with TLS, and metrics to those only whom the API
            server allows to read them.
        release_on_deletion: the quota of a pod is free once the pod is being deleted, as in Kueue.
            Else once the pod has ended.
        lost_node_seconds: how long a node has to be not ready, after the grace period of a pod
            that is being deleted on it, until the pod counts as ended.
        max_stops_per_minute: pods and Jobs that run and are stopped in a minute, other than by
            preemption, by the stop policy of a queue or by `active: false`; further ones are
            held back. 0 for no limit.
        workloads: what is done with Workloads besides.
    """

    writers: int = Field(default=8, ge=1, le=256)
    request_timeout_seconds: float = Field(default=5, gt=0)
    watch_silence_seconds: float = Field(default=90, gt=0)
    waiting_after_seconds: float = Field(default=1, ge=0)
    waiting_refresh_seconds: float = Field(default=30, ge=0)
    status_interval_seconds: float = Field(default=0.5, ge=0)
    outside_interval_seconds: float = Field(default=60, gt=0)
    audit_interval_seconds: float = Field(default=600, gt=0)
    release_on_deletion: bool = False
    lost_node_seconds: float = Field(default=300, ge=0)
    max_stops_per_minute: int = Field(default=20, ge=0, le=60_000)
    metrics_address: ListenAddress | None = ListenAddress(host="127.0.0.1", port=8080)
    health_address: ListenAddress | None = None
    visibility_address: ListenAddress | None = None
    secure_metrics: bool = False
    workloads: WorkloadSettings = WorkloadSettings()


class LeaderElectionSettings(_Frozen):
    """Times of the election among controllers, in seconds; 0 < retry < renew < lease.

    Attributes:
        enabled: wait for the Lease before deciding anything.
        lease_seconds: how long a Lease holds after its last renewal.
        renew_seconds: how long the leader counts on it, from before the renewal.
        retry_seconds: between attempts to renew or to take it.
    """

    enabled: bool = True
    lease_seconds: float = Field(default=15, gt=0)
    renew_seconds: float = Field(default=10, gt=0)
    retry_seconds: float = Field(default=2, gt=0)


class TransformationSettings(_Frozen):
    """How a requested resource is counted as others.

    Attributes:
        input: the requested resource.
        outputs: quantity of each output for one unit of the input.
        keep: whether the input is counted, too.
        multiply_by: a resource whose request multiplies the outputs; empty for none.
    """

    input: str
    outputs: Mapping[str, str] = {}
    keep: bool = True
    multiply_by: str = ""


class AdmissionFairSharingSettings(_Frozen):
    """Ordering of LocalQueues by past usage.

    Attributes:
        half_life_us: in which consumed usage halves, in microseconds; 0 forgets at once.
        sampling_us: how often usage is sampled, in microseconds.
        weights: factor of each resource as a decimal number; a missing one is 1.
    """

    half_life_us: int = Field(ge=0)
    sampling_us: int = Field(gt=0)
    weights: Mapping[str, str] = {}


class QuotaSettings(_Frozen):
    """How requests are counted and quota is shared.

    Attributes:
        excluded_prefixes: resources whose names start so are not counted.
        transformations: one for an input at most.
        device_classes: the resource that each DeviceClass is counted as, by its name; NVIDIA's
            own need no entry.
        ignore_undeclared: resources that a ClusterQueue does not list are free there, instead of
            keeping a workload out.
        requeue_by_eviction: a workload whose pods were not ready in time queues by the time of
            its eviction instead of its creation.
        one_at_a_time: nothing is admitted while a workload with quota has pods that are not ready.
        paused: no workload gets quota; everything else goes on (ADR 0096).
        fair_strategies: names of the preemption strategies of fair sharing; None without it.
        admission_fair_sharing: None without it.
    """

    excluded_prefixes: tuple[str, ...] = ()
    transformations: tuple[TransformationSettings, ...] = ()
    device_classes: Mapping[str, str] = {}
    ignore_undeclared: bool = False
    requeue_by_eviction: bool = True
    one_at_a_time: bool = False
    paused: bool = False
    fair_strategies: tuple[str, ...] | None = None
    admission_fair_sharing: AdmissionFairSharingSettings | None = None


class WebhookSettings(_Frozen):
    """How the webhook serves.

    Attributes:
        threads: reviews decided at once in one worker.
        max_body_bytes: larger bodies are answered with 413.
        address: where it listens, with TLS.
        certificates: directory of the serving certificate; empty where an argument must say.
        secure_metrics: metrics are served to those only whom the API server allows to read them.
        client_authority: PEM file; clients must show a certificate that one in it has signed.
            Empty where everybody who can reach the webhook may ask.
        health_address: where health and readiness are served without TLS, too, as kubelets have
            no such certificate; None for nowhere.
    """

    threads: int = Field(default=8, ge=1, le=256)
    max_body_bytes: int = Field(default=7 * 1024 * 1024, ge=1024)
    address: ListenAddress = ListenAddress(host="0.0.0.0", port=9443)  # noqa: S104
    certificates: str = ""
    secure_metrics: bool = False
    client_authority: str = ""
    health_address: ListenAddress | None = None


class CertificateSettings(_Frozen):
    """How the certificates of the webhook are renewed.

    Attributes:
        rotate: whether the leader renews them and writes the caBundle of our webhook
            configurations, CRDs and APIServices; False where somebody else does, as cert-manager.
        authority_lifetime_seconds: of a CA; a new one is made after half of it.
        serving_lifetime_seconds: of a serving certificate, which is renewed after two thirds.
    """

    rotate: bool = True
    authority_lifetime_seconds: float = Field(default=730 * 86400, gt=0)
    serving_lifetime_seconds: float = Field(default=365 * 86400, gt=0)


class Settings(_Frozen):
    """All settings of one installation.

    Attributes:
        namespace: where the program itself is installed and keeps its Lease.
    """

    namespace: str = names.SYSTEM_NAMESPACE
    gpu: GpuSettings = GpuSettings()
    quota: QuotaSettings = QuotaSettings()
    controller: ControllerSettings = ControllerSettings()
    leader_election: LeaderElectionSettings = LeaderElectionSettings()
    webhook: WebhookSettings = WebhookSettings()
    certificates: CertificateSettings = CertificateSettings()
