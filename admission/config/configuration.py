"""A configuration file to settings.

Source: kueue pkg/config/validation.go for the rules between fields, and
apis/config/v1beta2/defaults.go for what a missing field means.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from admission.api import scalars
from admission.base import names, quantity
from admission.base.errors import InvalidValueError
from admission.config import gpu, gpu_settings, kueue, namespace_settings, workload_settings
from admission.config.reading import ConfigurationError, File, UnusedField
from admission.config.settings import (
    DEFAULT_VISIBILITY_ADDRESS,
    AdmissionFairSharingSettings,
    CertificateSettings,
    ControllerSettings,
    GpuSettings,
    HealthSettings,
    LeaderElectionSettings,
    ListenAddress,
    ModeSettings,
    NamespaceMode,
    QuotaSettings,
    Settings,
    TransformationSettings,
    WebhookSettings,
    WorkloadSettings,
)
from admission.gpu import resources
from admission.scheduling import model

_EXCLUDED: Final = ("gpu-operator", "kube-node-lease")
ALWAYS_EXCLUDED: Final = ("kube-system",)
_SAMPLING_US: Final = 300_000_000
_SERVED: Final = ("pod", "batch/job")
"""Kinds of jobs that are looked at themselves."""
_RETRY_JITTER: Final = 1.2
SECOND_US: Final = 10**6
_MAX_PORT: Final = 65535
_MAX_MAPPINGS: Final = 16
_MAX_CLASSES: Final = 8
_MAX_KEY: Final = 253
_STRATEGIES: Final = tuple(one.value for one in model.FairSharing().strategies)
_DEFAULTS: Final = Settings()

_Kueue = kueue.ConfigurationV1Beta1 | kueue.ConfigurationV1Beta2


@dataclass(frozen=True, slots=True, kw_only=True)
class Effective:
    """What holds after a file was read.

    Attributes:
        settings: the settings.
        unused: fields of the file that are set and change nothing, sorted by path.
    """

    settings: Settings
    unused: tuple[UnusedField, ...] = ()


def settings_of(file: File) -> Effective:
    """Settings from a file; what it does not say has its default.

    Raises:
        ConfigurationError: a value, or several together, break a rule; all of them are named.
    """
    reader = _Reader(file)
    settings = reader.settings()
    if reader.problems:
        raise ConfigurationError(file.source, sorted(reader.problems))
    unused = sorted([*file.unused, *reader.unused], key=lambda one: one.path)
    return Effective(settings=settings, unused=tuple(unused))


class _Reader:
    """Reads one file; gathers what is wrong instead of stopping at the first."""

    def __init__(self, file: File) -> None:
        self._kueue: _Kueue = file.kueue or kueue.ConfigurationV1Beta2()
        self._gpu = file.gpu or gpu.GpuConfiguration()
        self.problems: list[str] = []
        self.unused: list[UnusedField] = []

    def settings(self) -> Settings:
        """The settings; meaningless where there are problems."""
        self._frameworks()
        return Settings(
            namespace=self._namespace(),
            gpu=self._gpu_settings(),
            quota=self._quota(),
            controller=self._controller(),
            leader_election=self._leader_election(),
            webhook=self._webhook(),
            certificates=self._certificates(),
        )

    def _frameworks(self) -> None:
        """Names each kind of job that is asked for and not served."""
        found = self._kueue.integrations
        for name in (found.frameworks if found else None) or ():
            if name not in _SERVED:
                why = (
                    f"{name} is not served: its pods run outside quota unless their template has "
                    f"the label {names.QUEUE_LABEL}"
                )
                self.unused.append(UnusedField(path=f"integrations.frameworks[{name}]", why=why))

    def _namespace(self) -> str:
        return self._checked_namespace("namespace", self._kueue.namespace or _DEFAULTS.namespace)

    def _checked_namespace(self, path: str, name: str) -> str:
        if re.fullmatch(scalars.LABEL_PATTERN, name) is None or len(name) > 63:  # noqa: PLR2004
            self.problems.append(f"{path}: {name!r}: must be the name of a namespace")
        return name

    def _gpu_settings(self) -> GpuSettings:
        managed = self._gpu.managed_resources
        try:
            resources.managed(managed or ())
        except InvalidValueError as error:
            self.problems.append(f"managedResources: {error}")
        listed = self._gpu.excluded_namespaces
        selector = self._kueue.managed_jobs_namespace_selector or kueue.Selector()
        excluded = {
            self._kueue.namespace or _DEFAULTS.namespace,
            *ALWAYS_EXCLUDED,
            *(_EXCLUDED if listed is None else listed),
            *namespace_settings.excluded(selector),
        }
        self.problems += namespace_settings.problems(selector)
        for index, name in enumerate(listed or ()):
            self._checked_namespace(f"excludedNamespaces[{index}]", name)
        key = self._gpu.toleration_key
        return GpuSettings(
            managed_resources=_DEFAULTS.gpu.managed_resources if managed is None else (*managed,),
            excluded_namespaces=tuple(sorted(excluded)),
            namespace_requirements=namespace_settings.required(selector),
            queue_required=bool(self._kueue.manage_jobs_without_queue_name),
            modes=None if self._gpu.modes is None else _modes(self._gpu.modes),
            toleration_key=_DEFAULTS.gpu.toleration_key if key is None else key,
            products=self._products(),
            health=self._health(),
        )

    def _products(self) -> tuple[dict[str, Any], ...]:
        listed = self._gpu.products or ()
        products = tuple(
            one.model_dump(exclude_none=True, exclude_defaults=True) for one in listed
        )
        try:
            gpu_settings.catalogue_of(GpuSettings(products=products))
        except InvalidValueError as error:
            self.problems.append(f"products: {error.rule}")
        return products

    def _health(self) -> HealthSettings:
        found = self._gpu.health or gpu.Health()
        policy = HealthSettings(
            ignored_xids=None if found.ignored_xids is None else (*found.ignored_xids,),
            reported_xids=None if found.reported_xids is None else (*found.reported_xids,),
            node_conditions=found.node_conditions,
            label=found.label,
            hot_celsius=found.hot_celsius,
            cool_celsius=found.cool_celsius,
            loss_grace_seconds=_optional_seconds(found.loss_grace),
            gain_grace_seconds=_optional_seconds(found.gain_grace),
        )
        known = gpu_settings.health_policy(policy)
        if known.cool_celsius > known.hot_celsius:
            self.problems.append(
                f"health.coolCelsius: {known.cool_celsius} must not be above hotCelsius, "
                f"which is {known.hot_celsius}"
            )
        return policy

    # ------------------------------------------------------------------------------- quota

    def _quota(self) -> QuotaSettings:
        found = self._kueue.resources or kueue.ResourcesV1Beta2()
        strategy = (
            found.quota_check_strategy if isinstance(found, kueue.ResourcesV1Beta2) else None
        )
        ignored = strategy == "IgnoreUndeclared"
        if ignored and found.exclude_resource_prefixes:
            self.problems.append(
                "resources.excludeResourcePrefixes: may not stand beside quotaCheckStrategy "
                "IgnoreUndeclared; remove one of them"
            )
        waiting = self._kueue.wait_for_pods_ready or kueue.WaitForPodsReady()
        requeuing = waiting.requeuing_strategy or kueue.RequeuingStrategy()
        by_creation = requeuing.timestamp == "Creation" and workload_settings.waits(self._kueue)
        return QuotaSettings(
            excluded_prefixes=tuple(found.exclude_resource_prefixes or ()),
            transformations=self._transformations(found.transformations or ()),
            device_classes=self._device_classes(found.device_class_mappings or ()),
            ignore_undeclared=ignored,
            requeue_by_eviction=not by_creation,
            one_at_a_time=workload_settings.is_one_at_a_time(self._kueue),
            paused=self._gpu.admission == gpu.PAUSED,
            fair_strategies=self._fair_strategies(),
            admission_fair_sharing=self._admission_fair_sharing(),
        )

    def _transformations(
        self, found: Iterable[kueue.Transformation]
    ) -> tuple[TransformationSettings, ...]:
        made: dict[str, TransformationSettings] = {}
        for index, one in enumerate(found):
            path = f"resources.transformations[{index}]"
            if one.input in made:
                self.problems.append(f"{path}.input: {one.input!r} has a transformation already")
            for output, amount in (one.outputs or {}).items():
                self._check_quantity(f"{path}.outputs[{output}]", amount)
            made[one.input] = TransformationSettings(
                input=one.input,
                outputs=one.outputs or {},
                keep=one.strategy != "Replace",
                multiply_by=one.multiply_by or "",
            )
        return tuple(made.values())

    def _device_classes(self, found: Iterable[kueue.DeviceClassMapping]) -> dict[str, str]:
        made: dict[str, str] = {}
        mappings, seen = list(found), set[str]()
        self._check_count("resources.deviceClassMappings", len(mappings), _MAX_MAPPINGS)
        for index, one in enumerate(mappings):
            path = f"resources.deviceClassMappings[{index}]"
            classes = one.device_class_names or []
            self._check_key(f"{path}.name", one.name)
            if one.name in seen:
                self.problems.append(f"{path}.name: {one.name!r} has a mapping already")
            if not classes:
                self.problems.append(f"{path}.deviceClassNames: at least one must be named")
            self._check_count(f"{path}.deviceClassNames", len(classes), _MAX_CLASSES)
            seen.add(one.name)
            for place, name in enumerate(classes):
                self._check_key(f"{path}.deviceClassNames[{place}]", name)
                if name in made:
                    self.problems.append(
                        f"{path}.deviceClassNames[{place}]: {name!r} is counted as {made[name]}"
                        " already"
                    )
                made[name] = one.name
        return made

    def _check_count(self, path: str, count: int, most: int) -> None:
        if count > most:
            self.problems.append(f"{path}: {count} are too many, at most {most}")

    def _check_key(self, path: str, name: str) -> None:
        if len(name) > _MAX_KEY or re.fullmatch(scalars.QUALIFIED_NAME_PATTERN, name) is None:
            self.problems.append(f"{path}: {name!r}: must be a name such as example.com/gpu")

    def _check_quantity(self, path: str, text: str, least: int | None = None) -> None:
        try:
            value = quantity.parse_nano(text)
        except InvalidValueError as error:
            self.problems.append(f"{path}: {error}")
            return
        if least is not None and value < least:
            self.problems.append(f"{path}: {text!r}: must not be below {least}")

    def _fair_strategies(self) -> tuple[str, ...] | None:
        found = self._kueue.fair_sharing
        if found is None or (isinstance(found, kueue.FairSharingV1Beta1) and not found.enable):
            return None
        strategies = tuple(found.preemption_strategies or _STRATEGIES)
        allowed = (_STRATEGIES, _STRATEGIES[:1], _STRATEGIES[1:])
        if strategies not in allowed:
            rule = " or ".join(f"[{', '.join(one)}]" for one in allowed)
            self.problems.append(f"fairSharing.preemptionStrategies: must be {rule}")
        return strategies

    def _admission_fair_sharing(self) -> AdmissionFairSharingSettings | None:
        found, path = self._kueue.admission_fair_sharing, "admissionFairSharing"
        if found is None:
            return None
        sampling = found.usage_sampling_interval or _SAMPLING_US
        half_life = found.usage_half_life_time or 0
        if half_life < 0:
            self.problems.append(f"{path}.usageHalfLifeTime: must not be negative")
        if sampling < 0:
            self.problems.append(f"{path}.usageSamplingInterval: must be above 0")
        for resource, weight in (found.resource_weights or {}).items():
            self._check_quantity(f"{path}.resourceWeights[{resource}]", weight, least=0)
        return AdmissionFairSharingSettings(
            half_life_us=max(half_life, 0),
            sampling_us=max(sampling, 1),
            weights=found.resource_weights or {},
        )

    # ---------------------------------------------------------------------------- processes

    def _controller(self) -> ControllerSettings:
        own, default = self._gpu.controller or gpu.Controller(), _DEFAULTS.controller
        metrics = default.metrics_address
        if self._kueue.metrics is not None and self._kueue.metrics.bind_address:
            metrics = self._address("metrics.bindAddress", self._kueue.metrics.bind_address)
        health = None
        if self._kueue.health is not None and self._kueue.health.health_probe_bind_address:
            text = self._kueue.health.health_probe_bind_address
            health = self._address("health.healthProbeBindAddress", text)
        return ControllerSettings(
            writers=own.writers or default.writers,
            request_timeout_seconds=_seconds(own.request_timeout, default.request_timeout_seconds),
            watch_silence_seconds=_seconds(own.watch_silence, default.watch_silence_seconds),
            waiting_after_seconds=_seconds(own.waiting_after, default.waiting_after_seconds),
            waiting_refresh_seconds=_seconds(own.waiting_refresh, default.waiting_refresh_seconds),
            status_interval_seconds=_seconds(own.status_interval, default.status_interval_seconds),
            outside_interval_seconds=_seconds(
                own.outside_interval, default.outside_interval_seconds
            ),
            audit_interval_seconds=_seconds(own.audit_interval, default.audit_interval_seconds),
            release_on_deletion=self._gpu.release_on == gpu.POD_TERMINATING,
            lost_node_seconds=_seconds(self._gpu.lost_node_after, default.lost_node_seconds),
            max_stops_per_minute=default.max_stops_per_minute
            if self._gpu.max_stops_per_minute is None
            else self._gpu.max_stops_per_minute,
            metrics_address=metrics,
            health_address=None if health == metrics else health,
            visibility_address=self._visibility(),
            secure_metrics=bool(own.secure_metrics),
            workloads=self._workloads(),
        )

    def _visibility(self) -> ListenAddress | None:
        """Where pending workloads are served; nowhere unless the file says so."""
        found, default = self._kueue, DEFAULT_VISIBILITY_ADDRESS
        if isinstance(found, kueue.ConfigurationV1Beta1) or found.visibility_server is None:
            return None
        host = found.visibility_server.bind_address
        if host is not None and not _is_ip_address(host):
            self.problems.append(f"visibilityServer.bindAddress: {host!r}: must be an IP address")
        return ListenAddress(
            host=host or default.host, port=found.visibility_server.bind_port or default.port
        )

    def _workloads(self) -> WorkloadSettings:
        why = "waitForPodsReady.enable is not true"
        for path in workload_settings.without_effect(self._kueue):
            self.unused.append(UnusedField(path=path, why=why))
        return workload_settings.read(self._kueue, self.problems)

    def _leader_election(self) -> LeaderElectionSettings:
        found, default = self._kueue.leader_election or kueue.LeaderElection(), _DEFAULTS
        times = default.leader_election
        lease = _seconds(found.lease_duration or None, times.lease_seconds)
        renew = _seconds(found.renew_deadline or None, times.renew_seconds)
        retry = _seconds(found.retry_period or None, times.retry_seconds)
        own = self._gpu.controller or gpu.Controller()
        timeout = _seconds(own.request_timeout, default.controller.request_timeout_seconds)
        if not 0 < retry < renew < lease or lease < 1:
            self.problems.append(
                f"leaderElection: retryPeriod {retry:g}s, renewDeadline {renew:g}s and "
                f"leaseDuration {lease:g}s must grow in this order, the last being 1s or more"
            )
            return times
        if retry * _RETRY_JITTER + timeout >= renew:
            self.problems.append(
                f"leaderElection.renewDeadline: {renew:g}s must be longer than "
                f"{_RETRY_JITTER:g} * retryPeriod + GpuConfiguration.controller.requestTimeout = "
                f"{retry * _RETRY_JITTER + timeout:g}s, or the leader could not write"
            )
        elect = found.leader_elect
        return LeaderElectionSettings(
            enabled=times.enabled if elect is None else elect,
            lease_seconds=lease,
            renew_seconds=renew,
            retry_seconds=retry,
        )

    def _webhook(self) -> WebhookSettings:
        found, own = self._kueue.webhook or kueue.Webhook(), self._gpu.webhook or gpu.Webhook()
        default = _DEFAULTS.webhook
        return WebhookSettings(
            threads=own.threads or default.threads,
            max_body_bytes=own.max_body_bytes or default.max_body_bytes,
            address=ListenAddress(
                host=found.host or default.address.host, port=found.port or default.address.port
            ),
            certificates=found.cert_dir or "",
            secure_metrics=bool(own.secure_metrics),
            client_authority=own.client_authority or "",
            health_address=self._address("webhook.healthProbeBindAddress", health)
            if (health := own.health_probe_bind_address)
            else None,
        )

    def _certificates(self) -> CertificateSettings:
        managed = self._kueue.internal_cert_management or kueue.InternalCertManagement()
        own, default = self._gpu.certificates or gpu.Certificates(), _DEFAULTS.certificates
        whole = _seconds(own.authority_lifetime, default.authority_lifetime_seconds)
        serving = _seconds(own.serving_lifetime, min(default.serving_lifetime_seconds, whole / 2))
        if serving > whole / 2:
            self.problems.append(
                f"certificates.servingLifetime: {serving:g}s must be at most half of "
                f"authorityLifetime, which is {whole:g}s"
            )
        return CertificateSettings(
            rotate=managed.enable is not False,
            authority_lifetime_seconds=whole,
            serving_lifetime_seconds=serving,
        )

    def _address(self, path: str, text: str) -> ListenAddress | None:
        """``HOST:PORT``, ``:PORT``, or ``0`` for nowhere, as controller-runtime has it."""
        if text == "0":
            return None
        host, separator, port = text.rpartition(":")
        if not separator or not port.isdecimal() or int(port) > _MAX_PORT:
            self.problems.append(f"{path}: {text!r}: must be HOST:PORT, :PORT, or 0 for off")
            return None
        return ListenAddress(
            host=host.strip("[]") or _DEFAULTS.webhook.address.host, port=int(port)
        )


def _modes(found: gpu.Modes) -> ModeSettings:
    def mode(one: gpu.NamespaceMode | None) -> NamespaceMode:
        said = {} if one is None else one.model_dump(exclude_none=True)
        return NamespaceMode.model_validate(said)

    return ModeSettings(with_queue=mode(found.with_queue), without_queue=mode(found.without_queue))


def _is_ip_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _optional_seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / SECOND_US


def _seconds(microseconds: int | None, default: float) -> float:
    return default if microseconds is None else microseconds / SECOND_US
