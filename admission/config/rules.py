"""Rules about the values of a configuration file that its models cannot say.

Source: kueue pkg/config/validation.go.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from admission.base import durations, quantity
from admission.base.errors import InvalidValueError
from admission.config import added_owner_kinds, addresses, kueue_configuration
from admission.config.gpu_configuration import GpuConfiguration
from admission.config.kueue_configuration import Configuration
from admission.gpu import resources
from admission.objects import fields

_RETRY_JITTER: Final = 1.2
_MAX_NAMESPACE: Final = 63
_MAX_MAPPINGS: Final = 16
_MAX_CLASSES: Final = 8
_MAX_KEY: Final = 253
_MAX_LABEL_KEY: Final = 317
_WITH_VALUES: Final = frozenset({"In", "NotIn"})


def problems(kueues: Configuration, gpu: GpuConfiguration) -> Iterator[str]:
    """Return the problems of both documents, each with its path and rule."""
    yield from _namespaces(kueues, gpu)
    yield from _gpus(gpu)
    yield from _resources(kueues.resources)
    yield from _sharing(kueues)
    yield from _addresses(kueues, gpu)
    yield from _leader_election(kueues, gpu)
    yield from _certificates(gpu)
    yield from _workloads(kueues)
    yield from added_owner_kinds.problems(gpu.owners)


def of_v1beta1(document: Mapping[str, Any]) -> Iterator[str]:
    """Return the problem of a time-out of 0, which v1beta1 refuses and v1beta2 takes for unset."""
    options = document.get("waitForPodsReady") or {}
    timeout = options.get("timeout")
    if options.get("enable") and timeout is not None and durations.parse(timeout) == 0:
        yield "waitForPodsReady.timeout: must be above 0; leave it out for the default, 5m"


def _namespaces(kueues: Configuration, gpu: GpuConfiguration) -> Iterator[str]:
    named = {
        f"excludedNamespaces[{i}]": namespace
        for i, namespace in enumerate(gpu.excluded_namespaces)
    }
    for path, name in {"namespace": kueues.namespace, **named}.items():
        if re.fullmatch(fields.LABEL_PATTERN, name) is None or len(name) > _MAX_NAMESPACE:
            yield f"{path}: {name!r}: must be the name of a namespace"
    for index, expression in enumerate(kueues.managed_jobs_namespace_selector.match_expressions):
        path = f"managedJobsNamespaceSelector.matchExpressions[{index}].values"
        if expression.operator in _WITH_VALUES and not expression.values:
            yield f"{path}: must be specified when operator is {expression.operator}"
        if expression.operator not in _WITH_VALUES and expression.values:
            yield f"{path}: may not be specified when operator is {expression.operator}"


def _gpus(gpu: GpuConfiguration) -> Iterator[str]:
    try:
        resources.managed(gpu.managed_resources)
    except InvalidValueError as error:
        yield f"managedResources: {error}"
    try:
        gpu.catalogue()
    except InvalidValueError as error:
        yield f"products: {error.rule}"


# ------------------------------------------------------------------------------------- quota


def _resources(options: kueue_configuration.Resources) -> Iterator[str]:
    if options.quota_check_strategy == "IgnoreUndeclared" and options.exclude_resource_prefixes:
        yield (
            "resources.excludeResourcePrefixes: cannot be combined with quotaCheckStrategy "
            "IgnoreUndeclared; remove one of them"
        )
    inputs = set[str]()
    for index, transformation in enumerate(options.transformations):
        path = f"resources.transformations[{index}]"
        if transformation.input in inputs:
            yield f"{path}.input: {transformation.input!r} has a transformation already"
        for output, amount in transformation.outputs.items():
            yield from _quantity(f"{path}.outputs[{output}]", amount)
        inputs.add(transformation.input)
    yield from _device_classes(options.device_class_mappings)


def _device_classes(mappings: list[kueue_configuration.DeviceClassMapping]) -> Iterator[str]:
    counted, seen = dict[str, str](), set[str]()
    yield from _count("resources.deviceClassMappings", len(mappings), _MAX_MAPPINGS)
    for index, mapping in enumerate(mappings):
        path = f"resources.deviceClassMappings[{index}]"
        yield from _key(f"{path}.name", mapping.name)
        if mapping.name in seen:
            yield f"{path}.name: {mapping.name!r} has a mapping already"
        if not mapping.device_class_names:
            yield f"{path}.deviceClassNames: at least one must be named"
        yield from _count(
            f"{path}.deviceClassNames", len(mapping.device_class_names), _MAX_CLASSES
        )
        seen.add(mapping.name)
        for place, name in enumerate(mapping.device_class_names):
            yield from _key(f"{path}.deviceClassNames[{place}]", name)
            if name in counted:
                yield (
                    f"{path}.deviceClassNames[{place}]: {name!r} is counted as {counted[name]}"
                    " already"
                )
            counted[name] = mapping.name


def _count(path: str, count: int, highest: int) -> Iterator[str]:
    if count > highest:
        yield f"{path}: {count} are too many, at most {highest}"


def _key(path: str, name: str) -> Iterator[str]:
    if len(name) > _MAX_KEY or re.fullmatch(fields.QUALIFIED_NAME_PATTERN, name) is None:
        yield f"{path}: {name!r}: must be a name such as example.com/gpu"


def _quantity(path: str, text: str, lowest: int | None = None) -> Iterator[str]:
    try:
        value = quantity.parse_nano(text)
    except InvalidValueError as error:
        yield f"{path}: {error}"
        return
    if lowest is not None and value < lowest:
        yield f"{path}: {text!r}: must not be below {lowest}"


def _sharing(kueues: Configuration) -> Iterator[str]:
    if kueues.fair_sharing is not None:
        allowed = (
            kueue_configuration.STRATEGIES,
            kueue_configuration.STRATEGIES[:1],
            kueue_configuration.STRATEGIES[1:],
        )
        if tuple(kueues.fair_sharing.preemption_strategies) not in allowed:
            rule = " or ".join(f"[{', '.join(combination)}]" for combination in allowed)
            yield f"fairSharing.preemptionStrategies: must be {rule}"
    if (options := kueues.admission_fair_sharing) is not None:
        path = "admissionFairSharing"
        yield from _not_negative(f"{path}.usageHalfLifeTime", options.usage_half_life_time)
        if options.usage_sampling_interval < timedelta():
            yield f"{path}.usageSamplingInterval: must be above 0"
        for resource, weight in options.resource_weights.items():
            yield from _quantity(f"{path}.resourceWeights[{resource}]", weight, lowest=0)


# --------------------------------------------------------------------------------- processes


def _addresses(kueues: Configuration, gpu: GpuConfiguration) -> Iterator[str]:
    listened = {
        "metrics.bindAddress": kueues.metrics.bind_address,
        "health.healthProbeBindAddress": kueues.health.health_probe_bind_address,
        "webhook.healthProbeBindAddress": gpu.webhook.health_probe_bind_address,
        "dashboardBindAddress": gpu.dashboard_bind_address,
    }
    for path, text in listened.items():
        try:
            addresses.parse(text)
        except InvalidValueError as error:
            yield f"{path}: {error}"
    if (server := kueues.visibility_server) is not None:
        try:
            ipaddress.ip_address(server.bind_address)
        except ValueError:
            yield f"visibilityServer.bindAddress: {server.bind_address!r}: must be an IP address"


def _leader_election(kueues: Configuration, gpu: GpuConfiguration) -> Iterator[str]:
    election = kueues.leader_election
    lease, renew, retry, timeout = (
        duration.total_seconds()
        for duration in (
            election.lease_duration,
            election.renew_deadline,
            election.retry_period,
            gpu.controller.request_timeout,
        )
    )
    if not 0 < retry < renew < lease or lease < 1:
        yield (
            f"leaderElection: retryPeriod {retry:g}s must be less than renewDeadline {renew:g}s, "
            f"and that less than leaseDuration {lease:g}s, which must be 1s or more"
        )
    elif retry * _RETRY_JITTER + timeout >= renew:
        yield (
            f"leaderElection.renewDeadline: {renew:g}s must be longer than "
            f"{_RETRY_JITTER:g} * retryPeriod + GpuConfiguration.controller.requestTimeout = "
            f"{retry * _RETRY_JITTER + timeout:g}s, or the leader could not write"
        )


def _certificates(gpu: GpuConfiguration) -> Iterator[str]:
    whole, serving = gpu.certificates.authority_lifetime, gpu.certificates.serving_lifetime
    if serving > whole / 2:
        yield (
            f"certificates.servingLifetime: {serving.total_seconds():g}s must be at most half of "
            f"authorityLifetime, which is {whole.total_seconds():g}s"
        )


# --------------------------------------------------------------------------------- workloads


def _workloads(kueues: Configuration) -> Iterator[str]:
    for index, key in enumerate(kueues.integrations.label_keys_to_copy):
        is_key = re.fullmatch(fields.QUALIFIED_NAME_PATTERN, key) is not None
        if not is_key or len(key) > _MAX_LABEL_KEY:
            path = f"integrations.labelKeysToCopy[{index}]"
            yield f"{path}: {key!r}: must be the key of a label"
    if (waiting := kueues.wait_for_pods_ready) is not None:
        yield from _not_negative("waitForPodsReady.timeout", waiting.timeout)
        if "recovery_timeout" in waiting.model_fields_set:
            yield from _not_negative("waitForPodsReady.recoveryTimeout", waiting.recovery_timeout)
    retention, path = (
        kueues.object_retention_policies.workloads,
        "objectRetentionPolicies.workloads",
    )
    yield from _not_negative(f"{path}.afterFinished", retention.after_finished)
    yield from _not_negative(
        f"{path}.afterDeactivatedByKueue", retention.after_deactivated_by_kueue
    )


def _not_negative(path: str, value: timedelta | None) -> Iterator[str]:
    if value is not None and value < timedelta():
        yield f"{path}: must not be negative"
