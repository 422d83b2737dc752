"""Our own part of a configuration file: what Kueue's ``Configuration`` has no place for."""

import dataclasses
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from admission.base import names
from admission.base.namespaces import WARN, BypassChoice
from admission.config import addresses
from admission.config.added_owner_kinds import OwnerKind
from admission.config.addresses import Address, OptionalBindAddress
from admission.config.durations import NonNegative, Positive
from admission.config.model import SHOWN_IF_SET, ConfigModel, Unused
from admission.gpu import catalogue, resources
from admission.gpu.catalogue import Catalogue
from admission.gpu.health import HealthPolicy

API_VERSION: Final = names.CONFIG_API_VERSION
KIND: Final = "GpuConfiguration"
ACTIVE: Final = "Active"
PAUSED: Final = "Paused"
REFUSE: Final = "Refuse"
HOLD: Final = "Hold"
ADMIT: Final = "Admit"
POD_END: Final = "PodEnd"
POD_TERMINATING: Final = "PodTerminating"
_MICROSECOND: Final = timedelta(microseconds=1)
ALWAYS_EXCLUDED: Final = ("kube-system",)
EXCLUDED: Final = ("gpu-operator", "kube-node-lease")
"""Namespaces that are left alone besides our own and kube-system, where a file names none."""


_ALL_WATCHED: Final = Unused("all bound pods are watched")
_NO_TEMPERATURES: Final = Unused(
    "nothing that gpu-admission reads tells a temperature; a hot GPU raises the alert "
    "GpuAdmissionGpuHot, and kubectl cordon takes its node out"
)
_ENDPOINT: Final = r"^(https?://[^\s/@?#]+(/[^\s@?#]*)?)?$"
"""A URL without credentials."""


class ControllerSettings(ConfigModel):
    """How the controller works.

    Attributes:
        writers: requests to the API server that may be in flight at once, at most; the controller
            uses more than eight only while that makes it faster.
        request_timeout: bound on one request; the leader sends no write that could still
            be under way when its Lease may be taken, so it stays well below the renew time.
        watch_silence: how long a watch may say nothing before it counts as broken; the API
            server sends a bookmark about every minute.
        waiting_after: how long a pod waits before its reason is written on it.
        waiting_refresh: least time between two texts of the same reason on one pod.
        status_interval: least time between two status writes of one queue; up to twice
            as long while many queues change.
        outside_interval: without effect.
        audit_interval: how often what is charged is compared with what is held.
        secure_metrics: the pages are served with TLS, and metrics to those only whom the API
            server allows to read them.
    """

    writers: Annotated[int, Field(ge=1, le=256)] = 32
    request_timeout: Positive = timedelta(seconds=5)
    watch_silence: Positive = timedelta(seconds=90)
    waiting_after: NonNegative = timedelta(seconds=1)
    waiting_refresh: NonNegative = timedelta(seconds=30)
    status_interval: NonNegative = timedelta(seconds=0.5)
    outside_interval: Annotated[Positive | None, SHOWN_IF_SET, _ALL_WATCHED] = None
    audit_interval: Positive = timedelta(minutes=10)
    secure_metrics: Annotated[bool, SHOWN_IF_SET] = False


class GpuHealth(ConfigModel):
    """Rules by which a GPU counts as sick; None for the default in ``admission.gpu.health``.

    Attributes:
        ignored_xids: NVIDIA error numbers that never count.
        reported_xids: numbers that are told, but the device stays.
        node_conditions: type of each node condition that matters, and the status that is bad.
        label: node label by which people overrule: ``unhealthy`` or ``healthy``.
        hot_celsius: without effect.
        cool_celsius: without effect.
        loss_grace: how long all devices of a node must be gone before it is believed.
        gain_grace: how long more devices must be there before it is believed.
    """

    ignored_xids: list[Annotated[int, Field(ge=0)]] | None = None
    reported_xids: list[Annotated[int, Field(ge=0)]] | None = None
    node_conditions: dict[str, Literal["True", "False", "Unknown"]] | None = None
    label: Annotated[str, Field(min_length=1)] | None = None
    hot_celsius: Annotated[int | None, SHOWN_IF_SET, _NO_TEMPERATURES] = None
    cool_celsius: Annotated[int | None, SHOWN_IF_SET, _NO_TEMPERATURES] = None
    loss_grace: NonNegative | None = None
    gain_grace: NonNegative | None = None

    @property
    def policy(self) -> HealthPolicy:
        """Return the rules by which a GPU counts as sick, with defaults for unset fields."""
        ignored, reported = self.ignored_xids, self.reported_xids
        loss, gain = self.loss_grace, self.gain_grace
        options = {
            "ignored_xids": None if ignored is None else frozenset(ignored),
            "reported_xids": None if reported is None else frozenset(reported),
            "bad_conditions": self.node_conditions,
            "health_label": self.label,
            "loss_grace_us": None if loss is None else loss // _MICROSECOND,
            "gain_grace_us": None if gain is None else gain // _MICROSECOND,
        }
        chosen: dict[str, Any] = {
            name: value for name, value in options.items() if value is not None
        }
        return dataclasses.replace(HealthPolicy(), **chosen)


class ProfileConfig(ConfigModel):
    """A MIG profile of a product; see ``admission.gpu.products.Profile``."""

    null_is_absent = False

    name: str
    compute_slices: int
    memory_slices: int
    memory_gb: int
    max: int
    size: int
    starts: list[int]
    engines: Annotated[dict[str, int], SHOWN_IF_SET] = {}


class ProductConfig(ConfigModel):
    """A GPU that replaces the one of the same id, or is added; see ``admission.gpu.products``."""

    null_is_absent = False

    id: Annotated[str, Field(min_length=1)]
    memory_gb: int
    compute_slices: int | None = None
    memory_slices: int | None = None
    axis: int | None = None
    aliases: Annotated[list[str], SHOWN_IF_SET] = []
    labels: Annotated[list[str], SHOWN_IF_SET] = []
    engines: Annotated[dict[str, int], SHOWN_IF_SET] = {}
    profiles: Annotated[list[ProfileConfig], SHOWN_IF_SET] = []
    profile_aliases: Annotated[dict[str, str], SHOWN_IF_SET] = {}


class Decisions(ConfigModel):
    """Where decisions are written, one JSON object a line.

    Attributes:
        file: path on a volume of the controller; empty for nowhere.
        max_bytes: size above which another file is begun; the older one is FILE.1 then.
        files: how many files are kept, at most.
    """

    file: str = ""
    max_bytes: Annotated[int, Field(ge=4096)] = 64 * 1024 * 1024
    files: Annotated[int, Field(ge=1, le=100)] = 5


class JournalSettings(ConfigModel):
    """What is recorded of the past (ADR 0190).

    Attributes:
        enabled: whether GPU-time is recorded.
        interval: how often the record of the hour is written.
        retention: how long the records of days are kept.
        users: whether records tell users apart.
        decisions: where decisions are written.
    """

    enabled: bool = True
    interval: Annotated[Positive, Field(ge=timedelta(seconds=1))] = timedelta(minutes=1)
    retention: Annotated[Positive, Field(ge=timedelta(days=3))] = timedelta(days=90)
    users: bool = True
    decisions: Annotated[Decisions, SHOWN_IF_SET] = Decisions()


class Tracing(ConfigModel):
    """Where OpenTelemetry spans are sent (ADR 0196); needs the extra ``otel``.

    Attributes:
        endpoint: URL of a collector, for OTLP over HTTP: ``http://collector:4318/v1/traces``.
            Empty for no traces. Credentials belong into OTEL_EXPORTER_OTLP_HEADERS.
    """

    endpoint: Annotated[str, Field(pattern=_ENDPOINT)] = ""


class WebhookServing(ConfigModel):
    """How the webhook serves.

    Attributes:
        threads: reviews decided at once in one worker.
        max_body_bytes: larger bodies are answered with 413.
        secure_metrics: metrics are served to those only whom the API server allows to read them.
        client_authority: PEM file; clients must show a certificate that one in it has signed.
            Empty where everybody who can reach the webhook may ask.
        health_probe_bind_address: where health and readiness are served without TLS, too, as
            kubelets have no such certificate; empty for nowhere.
    """

    threads: Annotated[int, Field(ge=1, le=256)] = 8
    max_body_bytes: Annotated[int, Field(ge=1024)] = 7 * 1024 * 1024
    secure_metrics: Annotated[bool, SHOWN_IF_SET] = False
    client_authority: Annotated[str, SHOWN_IF_SET] = ""
    health_probe_bind_address: OptionalBindAddress = ""

    @property
    def health_address(self) -> Address | None:
        """Return the additional address of health and readiness; None if there is none."""
        return addresses.parse(self.health_probe_bind_address)


class Certificates(ConfigModel):
    """How long certificates are valid.

    Attributes:
        authority_lifetime: of a CA; a new one is made after half of it.
        serving_lifetime: of a serving certificate, which is renewed after two thirds; at most
            half of that of the CA.
    """

    authority_lifetime: Positive = timedelta(days=730)
    serving_lifetime: Positive = Field(
        default_factory=lambda values: min(timedelta(days=365), values["authority_lifetime"] / 2)
    )


class NamespaceMode(ConfigModel):
    """What holds in a namespace whose labels say nothing else.

    Attributes:
        bypass: what becomes of pods that reach GPUs around quota.
        enforce: whether GPU pods and Jobs without a queue are refused.
    """

    bypass: BypassChoice = WARN
    enforce: bool = False


class Modes(ConfigModel):
    """What holds in namespaces whose labels say nothing else.

    Attributes:
        with_queue: where there is a LocalQueue.
        without_queue: where there is none.
    """

    with_queue: NamespaceMode = NamespaceMode()
    without_queue: NamespaceMode = NamespaceMode()


class GpuConfiguration(ConfigModel):
    """The document; a field that a file leaves out has its default.

    Attributes:
        api_version: of the document.
        kind: of the document.
        admission: Paused: no workload gets quota; everything else goes on (ADR 0096).
        release_on: when the quota of a pod is free: once it has ended, or, as in Kueue, once it
            is being deleted.
        lost_node_after: how long a node has to be not ready, after the grace period of a pod
            that is being deleted on it, until the pod counts as ended.
        not_ready_after: how long the pods of a workload that has several may take to become ready
            after it was admitted, and again when one is not; then it gives its quota back and
            waits anew. 0 for ever. Where waitForPodsReady of Kueue's Configuration is set, that
            holds instead, and for single pods too.
        keep_for_replacement: how long the quota of a StatefulSet, or of a replica of a
            LeaderWorkerSet, is kept while none of its pods is there, and that of a pod of a
            Deployment for the pod that replaces it.
        max_stops_per_minute: pods and Jobs that run and are stopped in a minute, other than by
            preemption, by the stop policy of a queue or by `active: false`; further ones are
            held back. 0 for no limit.
        managed_resources: resource names that make a pod ours; a trailing ``*`` matches a prefix.
        excluded_namespaces: namespaces whose pods and Jobs are never ours; once a file was read,
            with those that Kueue's document leaves out by name, and those that always are.
        modes: what holds in namespaces whose labels say nothing else; None where nobody has
            chosen, see `effective_modes`.
        owner_controllers: users under which the controllers of owners run, by the name of the
            framework as in integrations.frameworks; in place of those that are known.
        owners: kinds of owners that are held as a whole, too, or in place of the known row of
            the same group and kind.
        toleration_key: taint key that GPU pods tolerate with operator Exists; empty = inject none.
        products: GPUs that replace those of the shipped table or are added, in its form.
        health: rules by which GPUs count as healthy.
        controller: how the controller works.
        dashboard_bind_address: where the controller serves the dashboard; empty for nowhere.
        journal: what is recorded of the past.
        tracing: where traces of pods are sent.
        webhook: how the webhook serves.
        certificates: how long certificates are valid.
        log_level: lowest level of the log lines that are written; None where nobody has chosen,
            which is info. The option --log-level wins.
        while_webhook_down: what becomes of GPU pods, and of Jobs with a queue, that are created
            while the webhook does not answer: Refuse, or Hold: the API server holds them until
            the controller sees them (ADR 0084); None where nobody has chosen, which refuses.
        placement: what nodes decide in flavors without the annotation
            gpu-admission.dev/placement: Enforce, Tell or Off. None where nobody has chosen, which
            enforces for workloads with devices where no autoscaler adds nodes (ADR 0261).
        while_gated_by_others: what becomes of pods that have scheduling gates of other
            controllers: Wait for these, or Admit, as Kueue does (ADR 0265). None where nobody has
            chosen, which waits.
    """

    api_version: str = API_VERSION
    kind: str = KIND
    admission: Literal["Active", "Paused"] = ACTIVE
    release_on: Literal["PodEnd", "PodTerminating"] = POD_END
    lost_node_after: NonNegative = timedelta(minutes=5)
    not_ready_after: NonNegative = timedelta(minutes=30)
    keep_for_replacement: NonNegative = timedelta(minutes=1)
    max_stops_per_minute: Annotated[int, Field(ge=0, le=60_000)] = 20
    managed_resources: Annotated[list[str], Field(min_length=1)] = list(resources.DEFAULT_MANAGED)
    excluded_namespaces: list[str] = sorted((*ALWAYS_EXCLUDED, names.SYSTEM_NAMESPACE, *EXCLUDED))
    modes: Modes | None = None
    owner_controllers: Annotated[dict[str, list[str]], SHOWN_IF_SET] = {}
    owners: Annotated[list[OwnerKind], SHOWN_IF_SET] = []
    toleration_key: str = names.GPU_TAINT_KEY
    products: Annotated[list[ProductConfig], SHOWN_IF_SET] = []
    health: Annotated[GpuHealth, SHOWN_IF_SET] = GpuHealth()
    controller: ControllerSettings = ControllerSettings()
    dashboard_bind_address: OptionalBindAddress = ""
    journal: JournalSettings = JournalSettings()
    tracing: Annotated[Tracing, SHOWN_IF_SET] = Tracing()
    webhook: WebhookServing = WebhookServing()
    certificates: Certificates = Certificates()
    log_level: Annotated[Literal["debug", "info", "warning", "error"] | None, SHOWN_IF_SET] = None
    while_webhook_down: Annotated[Literal["Refuse", "Hold"] | None, SHOWN_IF_SET] = None
    placement: Annotated[Literal["Enforce", "Tell", "Off"] | None, SHOWN_IF_SET] = None
    while_gated_by_others: Annotated[Literal["Wait", "Admit"] | None, SHOWN_IF_SET] = None

    @property
    def holds_while_down(self) -> bool:
        """Return whether the API server holds pods and Jobs while the webhook does not answer."""
        return self.while_webhook_down == HOLD

    @property
    def waits_for_other_gates(self) -> bool:
        """Return whether a pod waits until other controllers have taken their gates off."""
        return self.while_gated_by_others != ADMIT

    @property
    def dashboard_address(self) -> Address | None:
        """Return the address of the dashboard; None if it is not served."""
        return addresses.parse(self.dashboard_bind_address)

    @property
    def paused(self) -> bool:
        """Return whether no workload gets quota."""
        return self.admission == PAUSED

    @property
    def releases_on_deletion(self) -> bool:
        """Return whether the quota of a pod is free once the pod is being deleted."""
        return self.release_on == POD_TERMINATING

    @property
    def effective_modes(self) -> Modes:
        """Return the modes that hold in namespaces: warnings, where nobody has chosen."""
        return self.modes or Modes()

    def catalogue(self) -> Catalogue:
        """Return the GPUs that the installation knows: the shipped table and what it adds.

        Raises:
            InvalidValueError: lists everything that is wrong with the products it adds.
        """
        if not self.products:
            return catalogue.load()
        products = [product.model_dump(exclude_none=True) for product in self.products]
        return catalogue.load({"version": "configured", "products": products})
