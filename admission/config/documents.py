"""Settings as the documents of a configuration file."""

from collections.abc import Mapping
from typing import Any

import yaml

from admission.config import configuration, durations, gpu, kueue, namespace_settings
from admission.config.settings import (
    HealthSettings,
    ListenAddress,
    ModeSettings,
    PodsReadySettings,
    QuotaSettings,
    Settings,
    TransformationSettings,
    WebhookSettings,
)


def documents(settings: Settings) -> tuple[dict[str, Any], dict[str, Any]]:
    """Kueue's document and ours, with every field that is used; reading them gives the same."""
    return _kueue_document(settings), _gpu_document(settings)


def to_yaml(settings: Settings) -> str:
    """Return a file that gives these settings."""
    return to_text(documents(settings))


def to_text(documents: Any) -> str:
    """Return YAML documents, one after the other."""
    text: str = yaml.safe_dump_all(documents, sort_keys=False, width=99, allow_unicode=True)
    return text


def _kueue_document(settings: Settings) -> dict[str, Any]:
    controller, webhook, election = (
        settings.controller,
        settings.webhook,
        settings.leader_election,
    )
    document: dict[str, Any] = {
        "apiVersion": f"{kueue.GROUP}/v1beta2",
        "kind": kueue.KIND,
        "namespace": settings.namespace,
        "manageJobsWithoutQueueName": settings.gpu.queue_required,
        namespace_settings.FIELD: namespace_settings.document(
            {settings.namespace, *configuration.ALWAYS_EXCLUDED},
            settings.gpu.namespace_requirements,
        ),
        "webhook": {"host": webhook.address.host, "port": webhook.address.port},
        "metrics": {"bindAddress": _address_text(controller.metrics_address)},
        "leaderElection": {
            "leaderElect": election.enabled,
            "leaseDuration": _wire(election.lease_seconds),
            "renewDeadline": _wire(election.renew_seconds),
            "retryPeriod": _wire(election.retry_seconds),
        },
        "internalCertManagement": {"enable": settings.certificates.rotate},
        "resources": _resources_document(settings.quota),
        **_workloads_document(settings),
    }
    if webhook.certificates:
        document["webhook"]["certDir"] = webhook.certificates
    if controller.health_address is not None:
        probes = _address_text(controller.health_address)
        document["health"] = {"healthProbeBindAddress": probes}
    if (address := controller.visibility_address) is not None:
        document["visibilityServer"] = {"bindAddress": address.host, "bindPort": address.port}
    if settings.quota.fair_strategies is not None:
        strategies = list(settings.quota.fair_strategies)
        document["fairSharing"] = {"preemptionStrategies": strategies}
    if (found := settings.quota.admission_fair_sharing) is not None:
        document["admissionFairSharing"] = {
            "usageHalfLifeTime": durations.to_wire(found.half_life_us),
            "usageSamplingInterval": durations.to_wire(found.sampling_us),
            "resourceWeights": dict(found.weights),
        }
    return document


def _workloads_document(settings: Settings) -> dict[str, Any]:
    """What is done with Workloads besides giving them quota; nothing where that is nothing."""
    found, document = settings.controller.workloads, {}
    if found.pods_ready is not None:
        document["waitForPodsReady"] = _waiting(found.pods_ready, settings.quota)
    times = {
        "afterFinished": found.retention.after_finished_us,
        "afterDeactivatedByKueue": found.retention.after_deactivated_us,
    }
    said = {name: durations.to_wire(time) for name, time in times.items() if time is not None}
    if said:
        document["objectRetentionPolicies"] = {"workloads": said}
    if found.copied_labels:
        document["integrations"] = {"labelKeysToCopy": list(found.copied_labels)}
    return document


def _waiting(found: PodsReadySettings, quota: QuotaSettings) -> dict[str, Any]:
    strategy: dict[str, Any] = {
        "timestamp": "Eviction" if quota.requeue_by_eviction else "Creation",
        "backoffBaseSeconds": found.backoff_base_seconds,
        "backoffMaxSeconds": found.backoff_max_seconds,
    }
    if found.backoff_limit is not None:
        strategy["backoffLimitCount"] = found.backoff_limit
    return {
        "timeout": durations.to_wire(found.timeout_us),
        "recoveryTimeout": durations.to_wire(found.recovery_us),
        "blockAdmission": quota.one_at_a_time,
        "requeuingStrategy": strategy,
    }


def _resources_document(quota: QuotaSettings) -> dict[str, Any]:
    strategy = "IgnoreUndeclared" if quota.ignore_undeclared else "BlockUndeclared"
    document: dict[str, Any] = {"quotaCheckStrategy": strategy}
    if quota.excluded_prefixes:
        document["excludeResourcePrefixes"] = list(quota.excluded_prefixes)
    if quota.transformations:
        document["transformations"] = [_transformation(one) for one in quota.transformations]
    if quota.device_classes:
        document["deviceClassMappings"] = _device_classes(quota.device_classes)
    return document


def _device_classes(found: Mapping[str, str]) -> list[dict[str, Any]]:
    """One mapping a resource, in the order of first use."""
    classes: dict[str, list[str]] = {}
    for name, resource in found.items():
        classes.setdefault(resource, []).append(name)
    return [{"name": name, "deviceClassNames": listed} for name, listed in classes.items()]


def _transformation(found: TransformationSettings) -> dict[str, Any]:
    return {
        "input": found.input,
        "strategy": "Retain" if found.keep else "Replace",
        **({"multiplyBy": found.multiply_by} if found.multiply_by else {}),
        "outputs": dict(found.outputs),
    }


def _gpu_document(settings: Settings) -> dict[str, Any]:
    controller, webhook = settings.controller, settings.webhook
    return {
        "apiVersion": gpu.API_VERSION,
        "kind": gpu.KIND,
        "admission": gpu.PAUSED if settings.quota.paused else gpu.ACTIVE,
        "releaseOn": gpu.POD_TERMINATING if controller.release_on_deletion else gpu.POD_END,
        "lostNodeAfter": _wire(controller.lost_node_seconds),
        "maxStopsPerMinute": controller.max_stops_per_minute,
        "managedResources": list(settings.gpu.managed_resources),
        "excludedNamespaces": list(settings.gpu.excluded_namespaces),
        **({} if (modes := settings.gpu.modes) is None else {"modes": _modes(modes)}),
        "tolerationKey": settings.gpu.toleration_key,
        **({"products": list(map(dict, products))} if (products := settings.gpu.products) else {}),
        **({"health": health} if (health := _health(settings.gpu.health)) else {}),
        "controller": {
            "writers": controller.writers,
            "requestTimeout": _wire(controller.request_timeout_seconds),
            "watchSilence": _wire(controller.watch_silence_seconds),
            "waitingAfter": _wire(controller.waiting_after_seconds),
            "waitingRefresh": _wire(controller.waiting_refresh_seconds),
            "statusInterval": _wire(controller.status_interval_seconds),
            "outsideInterval": _wire(controller.outside_interval_seconds),
            "auditInterval": _wire(controller.audit_interval_seconds),
            **({"secureMetrics": True} if controller.secure_metrics else {}),
        },
        "webhook": _webhook(webhook),
        "certificates": {
            "authorityLifetime": _wire(settings.certificates.authority_lifetime_seconds),
            "servingLifetime": _wire(settings.certificates.serving_lifetime_seconds),
        },
    }


def _modes(modes: ModeSettings) -> dict[str, Any]:
    return {
        "withQueue": modes.with_queue.model_dump(),
        "withoutQueue": modes.without_queue.model_dump(),
    }


def _webhook(settings: WebhookSettings) -> dict[str, Any]:
    health = settings.health_address
    return {
        "threads": settings.threads,
        "maxBodyBytes": settings.max_body_bytes,
        **({"secureMetrics": True} if settings.secure_metrics else {}),
        **({"clientAuthority": settings.client_authority} if settings.client_authority else {}),
        **({"healthProbeBindAddress": _address_text(health)} if health is not None else {}),
    }


def _health(settings: HealthSettings) -> dict[str, Any]:
    """What is set; what is not is as shipped."""
    loss, gain = settings.loss_grace_seconds, settings.gain_grace_seconds
    conditions = settings.node_conditions
    found = {
        "ignoredXids": _listed(settings.ignored_xids),
        "reportedXids": _listed(settings.reported_xids),
        "nodeConditions": None if conditions is None else dict(conditions),
        "label": settings.label,
        "hotCelsius": settings.hot_celsius,
        "coolCelsius": settings.cool_celsius,
        "lossGrace": None if loss is None else _wire(loss),
        "gainGrace": None if gain is None else _wire(gain),
    }
    return {name: value for name, value in found.items() if value is not None}


def _listed(numbers: tuple[int, ...] | None) -> list[int] | None:
    return None if numbers is None else list(numbers)


def _wire(seconds: float) -> str:
    return durations.to_wire(round(seconds * configuration.SECOND_US))


def _address_text(address: ListenAddress | None) -> str:
    if address is None:
        return "0"
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"
