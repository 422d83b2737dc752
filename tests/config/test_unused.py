"""Fields that change nothing are accepted, and each is named."""

import re
from collections.abc import Iterator

import pytest
import yaml

from admission.config import kueue_configuration, reading
from admission.config.gpu_configuration import GpuConfiguration
from admission.config.model import ConfigModel, Unused
from tests.config import files
from tests.config.files import V1BETA1, V1BETA2

# What Kueue's release manifest configures.
SHIPPED = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: ":8081"}
metrics: {bindAddress: ":8443"}
webhook: {port: 9443}
leaderElection: {leaderElect: true, resourceName: c1f6bfd2.kueue.x-k8s.io}
controller:
  groupKindConcurrency: {Job.batch: 5, Pod: 5, Workload.kueue.x-k8s.io: 10}
clientConnection: {qps: 300, burst: 500}
integrations: {frameworks: [batch/job, pod, deployment, statefulset]}
"""

LIMIT = (
    "GpuConfiguration.controller.writers limits writes, which slow down when the API server asks"
)


def test_kueues_own_file_is_accepted_and_says_what_has_no_effect():
    assert files.unused(yaml.safe_load(SHIPPED)) == [
        "clientConnection.burst",
        "clientConnection.qps",
        "controller.groupKindConcurrency",
        "leaderElection.resourceName",
    ]


@pytest.mark.parametrize(
    ("version", "field", "paths"),
    [
        (V1BETA2, {"manageJobsWithoutQueueName": False}, []),
        (V1BETA2, {"waitForPodsReady": {"timeout": "5m"}}, []),
        (V1BETA1, {"waitForPodsReady": {"enable": True}}, []),
        (V1BETA2, {"integrations": {"labelKeysToCopy": ["a"], "externalFrameworks": ["b"]}},
         ["integrations.externalFrameworks"]),
        (V1BETA1, {"integrations": {"podOptions": {"podSelector": {"matchLabels": {"a": "b"}}}}},
         ["integrations.podOptions.podSelector.matchLabels"]),
        (V1BETA2, {"objectRetentionPolicies": {"workloads": {"afterFinished": "1h"}}}, []),
        (V1BETA2, {"waitForPodsReady": {"requeuingStrategy": {"timestamp": "Creation"}}}, []),
        (V1BETA2, {"internalCertManagement": {"enable": False, "webhookSecretName": "a"}},
         ["internalCertManagement.webhookSecretName"]),
        (V1BETA2, {"featureGates": {"A": True}}, ["featureGates"]),
        (V1BETA2, {"multiKueue": {"clusterProfile": {"accessProviders": []}}},
         ["multiKueue.clusterProfile.accessProviders"]),
        (V1BETA2, {"admissionFairSharing": {"usageHalfLifeTime": "168h"}}, []),
        (V1BETA2, {"metrics": {"enableClusterQueueResources": False}},
         ["metrics.enableClusterQueueResources"]),
        (V1BETA2, {"resources": {"quotaCheckStrategy": "IgnoreUndeclared"}}, []),
        (V1BETA2, {"fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]}}, []),
        (V1BETA1, {"queueVisibility": {"clusterQueues": {"maxCount": 3}}},
         ["queueVisibility.clusterQueues.maxCount"]),
        (V1BETA2, {"resources": {"deviceClassMappings": [
            {"name": "a", "deviceClassNames": ["b"]},
            {"name": "c", "deviceClassNames": ["d"], "sources": [{"counter": {}}]},
        ]}}, ["resources.deviceClassMappings[1].sources"]),
        (V1BETA2, {"tls": {"minVersion": "VersionTLS13"}, "controller": {}}, ["tls.minVersion"]),
        (V1BETA2, {"tls": {}}, []),
        (V1BETA2, {"clientConnection": None}, []),
    ],
)  # fmt: skip
def test_a_field_without_effect_is_named_and_another_is_not(version, field, paths):
    assert files.unused(files.kueue(version, **field)) == paths


def test_an_unused_field_says_what_holds_instead():
    file = reading.read(SHIPPED, "file.yaml")
    assert {one.path: one.why for one in file.unused} == {
        "clientConnection.burst": LIMIT,
        "clientConnection.qps": LIMIT,
        "controller.groupKindConcurrency": LIMIT,
        "leaderElection.resourceName": (
            "the Lease is called gpu-admission, in the program's own namespace"
        ),
    }


def marks(model: type[ConfigModel], path: str = "") -> Iterator[tuple[str, Unused]]:
    """Every field of a model, and of those below it, that has no effect."""
    for name, info in model.model_fields.items():
        below = f"{path}.{name}".removeprefix(".")
        yield from ((below, one) for one in info.metadata if isinstance(one, Unused))
        for inner in reading._models(info.annotation):
            yield from marks(inner, below)


@pytest.mark.parametrize("model", kueue_configuration.VERSIONS.values())
def test_every_field_without_effect_says_what_holds_instead(model):
    unused = dict(marks(model))
    assert len(unused) > 15
    assert [
        path for path, mark in unused.items() if not re.fullmatch(r"\S.*[^.\s]", mark.why)
    ] == []


def test_fields_of_ours_without_effect_say_what_holds_instead() -> None:
    file = files.gpu(controller={"outsideInterval": "30s"}, health={"hotCelsius": 1})
    assert files.unused(file) == ["controller.outsideInterval", "health.hotCelsius"]
    assert all(re.fullmatch(r"\S.*[^.\s]", mark.why) for _, mark in marks(GpuConfiguration))


@pytest.mark.parametrize("version", list(kueue_configuration.VERSIONS))
def test_an_empty_document_of_each_version_has_no_unused_fields(version):
    assert files.unused(files.kueue(version)) == []
