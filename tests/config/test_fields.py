"""Every field of Kueue's Configuration: it works, or it is named as without effect."""

from collections.abc import Iterator
from types import UnionType
from typing import Any, Union, get_args, get_origin

import pytest

from admission.config import kueue_configuration
from admission.config.model import ConfigModel, Unused
from tests.config import files
from tests.config.files import V1BETA1, V1BETA2

NAME = "kubernetes.io/metadata.name"
NOT_IN = {"matchExpressions": [{"key": NAME, "operator": "NotIn", "values": ["lab"]}]}
GPU_TWICE = {"input": "nvidia.com/gpu", "outputs": {"cpu": "2"}}
V1BETA1_WAITS = {"waitForPodsReady": {"enable": True, "blockAdmission": False}}

USED: dict[str, Any] = {
    "namespace": "quota",
    "manageJobsWithoutQueueName": True,
    "managedJobsNamespaceSelector.matchExpressions": NOT_IN["matchExpressions"],
    "managedJobsNamespaceSelector.matchLabels": {"team": "a"},
    "webhook.port": 7443,
    "webhook.host": "::1",
    "webhook.certDir": "/certs",
    "internalCertManagement.enable": False,
    "metrics.bindAddress": ":7080",
    "health.healthProbeBindAddress": ":7081",
    "visibilityServer.bindAddress": "::1",
    "visibilityServer.bindPort": 7082,
    "leaderElection.leaderElect": False,
    "leaderElection.leaseDuration": "30s",
    "leaderElection.renewDeadline": "12s",
    "leaderElection.retryPeriod": "1s",
    "integrations.frameworks": ["jobset.x-k8s.io/jobset"],
    "integrations.labelKeysToCopy": ["team"],
    "waitForPodsReady.timeout": "1m",
    "waitForPodsReady.recoveryTimeout": "1m",
    "waitForPodsReady.blockAdmission": True,
    "waitForPodsReady.requeuingStrategy.timestamp": "Creation",
    "waitForPodsReady.requeuingStrategy.backoffLimitCount": 3,
    "waitForPodsReady.requeuingStrategy.backoffBaseSeconds": 5,
    "waitForPodsReady.requeuingStrategy.backoffMaxSeconds": 50,
    "objectRetentionPolicies.workloads.afterFinished": "1h",
    "objectRetentionPolicies.workloads.afterDeactivatedByKueue": "1h",
    "resources.excludeResourcePrefixes": ["example.com/"],
    "resources.transformations": [GPU_TWICE],
    "resources.quotaCheckStrategy": "IgnoreUndeclared",
    "resources.deviceClassMappings": [
        {"name": "example.com/fast", "deviceClassNames": ["fast.example.com"]}
    ],
    "fairSharing.preemptionStrategies": ["LessThanInitialShare"],
    "admissionFairSharing.usageHalfLifeTime": "1h",
    "admissionFairSharing.usageSamplingInterval": "1m",
    "admissionFairSharing.resourceWeights": {"cpu": 2},
}
"""A value for each field that works, other than its default."""
ONLY_V1BETA2 = {
    "resources.quotaCheckStrategy",
    "visibilityServer.bindAddress",
    "visibilityServer.bindPort",
}
ONLY_V1BETA1 = {"waitForPodsReady.enable": True, "fairSharing.enable": True}
BESIDES: dict[str, dict[str, Any]] = {
    "waitForPodsReady": {V1BETA1: V1BETA1_WAITS, V1BETA2: {"waitForPodsReady": {}}},
    "admissionFairSharing": {
        version: {"admissionFairSharing": {"usageHalfLifeTime": "2h"}}
        for version in (V1BETA1, V1BETA2)
    },
    "fairSharing": {
        V1BETA1: {"fairSharing": {"enable": True}},
        V1BETA2: {
            "fairSharing": {
                "preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
            }
        },
    },
}
"""What must stand beside a field for it to matter."""
CASES = [
    (version, path)
    for version, model in kueue_configuration.VERSIONS.items()
    for path in (USED if version == V1BETA2 else {**USED, **ONLY_V1BETA1})
    if not (model is kueue_configuration.ConfigurationV1Beta1 and path in ONLY_V1BETA2)
]


def unmarked(model: type[ConfigModel], path: str = "") -> Iterator[str]:
    """Paths of the fields that nothing marks as without effect."""
    for name, info in model.model_fields.items():
        below = f"{path}.{info.alias or name}".removeprefix(".")
        if any(isinstance(one, Unused) for one in info.metadata):
            continue
        inner = next(models(info.annotation), None)
        yield from [below] if inner is None else unmarked(inner, below)


def models(annotation: Any) -> Iterator[type[ConfigModel]]:
    """The model of a field that is one object; lists of objects count as one value."""
    if isinstance(annotation, type) and issubclass(annotation, ConfigModel):
        yield annotation
    elif get_origin(annotation) in {Union, UnionType}:
        for argument in get_args(annotation):
            yield from models(argument)


def merged(old: Any, new: Any) -> Any:
    """Both documents as one; the new one wins."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return old | {key: merged(old.get(key), value) for key, value in new.items()}


def at(path: str, value: Any) -> dict[str, Any]:
    """A document with one field."""
    for name in reversed(path.split(".")):
        value = {name: value}
    found: dict[str, Any] = value
    return found


@pytest.mark.parametrize("version", list(kueue_configuration.VERSIONS))
def test_each_field_is_known_to_work_or_marked_as_without_effect(version: str) -> None:
    """A field that is taken into use gets a value in ``USED``."""
    known = {"apiVersion", "kind", *USED}
    known |= set(ONLY_V1BETA1) if version == V1BETA1 else set()
    assert set(unmarked(kueue_configuration.VERSIONS[version])) - known == set()


@pytest.mark.parametrize(("version", "path"), CASES)
def test_a_field_that_works_changes_the_settings_and_is_not_named(version: str, path: str) -> None:
    before: dict[str, Any] = {}
    if path not in ONLY_V1BETA1:
        before = BESIDES.get(path.split(".", maxsplit=1)[0], {}).get(version, {})
    value = {**USED, **ONLY_V1BETA1}[path]
    after = merged(before, at(path, value))
    assert files.unused(files.kueue(version, **after)) == []
    changed, unchanged = (files.settings(files.kueue(version, **one)) for one in (after, before))
    assert changed != unchanged
