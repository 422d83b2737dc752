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
from admission.config import addresses, kueue_configuration, owners
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


def problems(kueues: Configuration, own: GpuConfiguration) -> Iterator[str]:
    """Return the problems of both documents, each with its path and rule."""
    yield from _namespaces(kueues, own)
    yield from _gpus(own)
    yield from _resources(kueues.resources)
    yield from _sharing(kueues)
    yield from _addresses(kueues, own)
    yield from _leader_election(kueues, own)
    yield from _certificates(own)
    yield from _workloads(kueues)
    yield from owners.problems(own.owners)


def of_v1beta1(document: Mapping[str, Any]) -> Iterator[str]:
    """Return the problem of a time-out of 0, which v1beta1 refuses and v1beta2 takes for unset."""
    found = document.get("waitForPodsReady") or {}
    timeout = found.get("timeout")
    if found.get("enable") and timeout is not None and durations.parse(timeout) == 0:
        yield "waitForPodsReady.timeout: must be above 0; leave it out for the default, 5m"


def _namespaces(kueues: Configuration, own: GpuConfiguration) -> Iterator[str]:
    named = {f"excludedNamespaces[{i}]": one for i, one in enumerate(own.excluded_namespaces)}
    for path, name in {"namespace": kueues.namespace, **named}.items():
        if re.fullmatch(fields.LABEL_PATTERN, name) is None or len(name) > _MAX_NAMESPACE:
            yield f"{path}: {name!r}: must be the name of a namespace"
    for index, one in enumerate(kueues.managed_jobs_namespace_selector.match_expressions):
        path = f"managedJobsNamespaceSelector.matchExpressions[{index}].values"
        if one.operator in _WITH_VALUES and not one.values:
            yield f"{path}: must be specified when operator is {one.operator}"
        if one.operator not in _WITH_VALUES and one.values:
            yield f"{path}: may not be specified when operator is {one.operator}"


def _gpus(own: GpuConfiguration) -> Iterator[str]:
    try:
        resources.managed(own.managed_resources)
    except InvalidValueError as error:
        yield f"managedResources: {error}"
    try:
        own.catalogue()
    except InvalidValueError as error:
        yield f"products: {error.rule}"
    policy = own.health.policy
    if policy.cool_celsius > policy.hot_celsius:
        yield (
            f"health.coolCelsius: {policy.cool_celsius} must not be above hotCelsius, "
            f"which is {policy.hot_celsius}"
        )


# ------------------------------------------------------------------------------------- quota


def _resources(found: kueue_configuration.Resources) -> Iterator[str]:
    if found.quota_check_strategy == "IgnoreUndeclared" and found.exclude_resource_prefixes:
        yield (
            "resources.excludeResourcePrefixes: cannot be combined with quotaCheckStrategy "
            "IgnoreUndeclared; remove one of them"
        )
    inputs = set[str]()
    for index, one in enumerate(found.transformations):
        path = f"resources.transformations[{index}]"
        if one.input in inputs:
            yield f"{path}.input: {one.input!r} has a transformation already"
        for output, amount in one.outputs.items():
            yield from _quantity(f"{path}.outputs[{output}]", amount)
        inputs.add(one.input)
    yield from _device_classes(found.device_class_mappings)


def _device_classes(found: list[kueue_configuration.DeviceClassMapping]) -> Iterator[str]:
    counted, seen = dict[str, str](), set[str]()
    yield from _count("resources.deviceClassMappings", len(found), _MAX_MAPPINGS)
    for index, one in enumerate(found):
        path = f"resources.deviceClassMappings[{index}]"
        yield from _key(f"{path}.name", one.name)
        if one.name in seen:
            yield f"{path}.name: {one.name!r} has a mapping already"
        if not one.device_class_names:
            yield f"{path}.deviceClassNames: at least one must be named"
        yield from _count(f"{path}.deviceClassNames", len(one.device_class_names), _MAX_CLASSES)
        seen.add(one.name)
        for place, name in enumerate(one.device_class_names):
            yield from _key(f"{path}.deviceClassNames[{place}]", name)
            if name in counted:
                yield (
                    f"{path}.deviceClassNames[{place}]: {name!r} is counted as {counted[name]}"
                    " already"
                )
            counted[name] = one.name


def _count(path: str, count: int, most: int) -> Iterator[str]:
    if count > most:
        yield f"{path}: {count} are too many, at most {most}"


def _key(path: str, name: str) -> Iterator[str]:
    if len(name) > _MAX_KEY or re.fullmatch(fields.QUALIFIED_NAME_PATTERN, name) is None:
        yield f"{path}: {name!r}: must be a name such as example.com/gpu"


def _quantity(path: str, text: str, least: int | None = None) -> Iterator[str]:
    try:
        value = quantity.parse_nano(text)
    except InvalidValueError as error:
        yield f"{path}: {error}"
        return
    if least is not None and value < least:
        yield f"{path}: {text!r}: must not be below {least}"


def _sharing(kueues: Configuration) -> Iterator[str]:
    if kueues.fair_sharing is not None:
        allowed = (
            kueue_configuration.STRATEGIES,
            kueue_configuration.STRATEGIES[:1],
            kueue_configuration.STRATEGIES[1:],
        )
        if tuple(kueues.fair_sharing.preemption_strategies) not in allowed:
            rule = " or ".join(f"[{', '.join(one)}]" for one in allowed)
            yield f"fairSharing.preemptionStrategies: must be {rule}"
    if (found := kueues.admission_fair_sharing) is not None:
        path = "admissionFairSharing"
        yield from _not_negative(f"{path}.usageHalfLifeTime", found.usage_half_life_time)
        if found.usage_sampling_interval < timedelta():
            yield f"{path}.usageSamplingInterval: must be above 0"
        for resource, weight in found.resource_weights.items():
            yield from _quantity(f"{path}.resourceWeights[{resource}]", weight, least=0)


# --------------------------------------------------------------------------------- processes


def _addresses(kueues: Configuration, own: GpuConfiguration) -> Iterator[str]:
    listened = {
        "metrics.bindAddress": kueues.metrics.bind_address,
        "health.healthProbeBindAddress": kueues.health.health_probe_bind_address,
        "webhook.healthProbeBindAddress": own.webhook.health_probe_bind_address,
        "dashboardBindAddress": own.dashboard_bind_address,
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


def _leader_election(kueues: Configuration, own: GpuConfiguration) -> Iterator[str]:
    found = kueues.leader_election
    lease, renew, retry, timeout = (
        one.total_seconds()
        for one in (
            found.lease_duration,
            found.renew_deadline,
            found.retry_period,
            own.controller.request_timeout,
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


def _certificates(own: GpuConfiguration) -> Iterator[str]:
    whole, serving = own.certificates.authority_lifetime, own.certificates.serving_lifetime
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
