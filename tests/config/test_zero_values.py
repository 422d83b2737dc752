"""A zero value and a null mean what they mean to Kueue, in every field of both versions.

A Go program that writes a Configuration writes each field without ``omitempty``, also where
nobody has set it: ``0s`` for a duration, ``null`` for a list, ``""`` for a text.

Source: kueue apis/config/v1beta1 and v1beta2, configuration_types.go and defaults.go;
pkg/config/validation.go; pkg/controller/core/core.go (a recovery time-out of 0 is none).
"""

from dataclasses import dataclass
from typing import Any

import click.testing
import pytest
import yaml

from admission.cli.main import main
from admission.config import kueue_configuration
from admission.config.derived import Settings
from tests.config import files
from tests.config.files import V1BETA1, V1BETA2
from tests.config.test_fields import BESIDES, CASES, at, merged

ELECTION = {
    "leaderElect": None, "leaseDuration": "0s", "renewDeadline": "0s", "retryPeriod": "0s",
    "resourceLock": "", "resourceName": "", "resourceNamespace": "",
}  # fmt: skip
ALWAYS: dict[str, Any] = {
    "webhook": {},
    "metrics": {},
    "health": {},
    "manageJobsWithoutQueueName": False,
}
"""What the marshalled zero value of a Configuration holds besides its kind, in both versions."""
SECTIONS: dict[str, dict[str, Any]] = {
    V1BETA1: {
        "leaderElection": ELECTION,
        "controller": {},
        "internalCertManagement": {},
        "clientConnection": {},
        "integrations": {},
        "multiKueue": {"gcInterval": None},
        "fairSharing": {"enable": False},
        "waitForPodsReady": {},
        "admissionFairSharing": {"usageHalfLifeTime": "0s", "usageSamplingInterval": "0s"},
        "resources": {},
        "objectRetentionPolicies": {},
    },
    V1BETA2: {
        "leaderElection": ELECTION,
        "controller": {},
        "internalCertManagement": {},
        "clientConnection": {},
        "integrations": {},
        "multiKueue": {"gcInterval": None},
        "fairSharing": {"preemptionStrategies": None},
        "waitForPodsReady": {"timeout": "0s"},
        "admissionFairSharing": {"usageHalfLifeTime": "0s", "usageSamplingInterval": "0s"},
        "resources": {},
        "objectRetentionPolicies": {},
        "visibilityServer": {},
    },
}
"""The marshalled zero value of each section."""
MEANING: dict[str, dict[str, Any]] = {
    V1BETA1: {
        "admissionFairSharing": {"usageHalfLifeTime": "0s", "usageSamplingInterval": "5m"},
    },
    V1BETA2: {
        "fairSharing": {
            "preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
        },
        "waitForPodsReady": {
            "timeout": "30m",
            "recoveryTimeout": "30m",
            "blockAdmission": False,
            "requeuingStrategy": {
                "timestamp": "Eviction", "backoffBaseSeconds": 60, "backoffMaxSeconds": 3600,
            },
        },
        "admissionFairSharing": {"usageHalfLifeTime": "0s", "usageSamplingInterval": "5m"},
        "visibilityServer": {"bindAddress": "0.0.0.0", "bindPort": 8082},
    },
}  # fmt: skip
"""The same written out; other sections say nothing then."""


@dataclass(frozen=True, slots=True)
class Zero:
    """The zero value of a field.

    Attributes:
        value: as a Go program may write it.
        like: a value that means the same; None where the field might as well be absent.
        problem: how what is wrong with it begins; empty where it is accepted.
    """

    value: Any
    like: Any = None
    problem: str = ""


_NO_CLASS = {"name": "a.example/b", "deviceClassNames": None}
ZEROES: dict[str, list[Zero]] = {
    "namespace": [Zero("")],
    "manageJobsWithoutQueueName": [Zero(value=False)],
    "managedJobsNamespaceSelector.matchExpressions": [
        Zero([]),
        Zero([{"key": "", "operator": ""}], problem="managedJobsNamespaceSelector"),
    ],
    "managedJobsNamespaceSelector.matchLabels": [Zero({}), Zero({"a": None}, like={"a": ""})],
    "webhook.port": [Zero(0, like=9443)],
    "webhook.host": [Zero("")],
    "webhook.certDir": [Zero("")],
    "metrics.bindAddress": [Zero("")],
    "health.healthProbeBindAddress": [Zero("")],
    "visibilityServer.bindAddress": [
        Zero("", problem="visibilityServer.bindAddress: '': must be an IP address"),
    ],
    "visibilityServer.bindPort": [Zero(0, problem="visibilityServer.bindPort: ")],
    "internalCertManagement.enable": [Zero(value=False, like=False)],
    "leaderElection.leaderElect": [Zero(value=False, like=False)],
    "leaderElection.leaseDuration": [Zero("0s", like="15s")],
    "leaderElection.renewDeadline": [Zero("0s", like="10s")],
    "leaderElection.retryPeriod": [Zero("0s", like="2s")],
    "integrations.frameworks": [Zero([])],
    "integrations.labelKeysToCopy": [
        Zero([]),
        Zero([None], problem="integrations.labelKeysToCopy[0]: '': must be the key of a label"),
    ],
    "waitForPodsReady.enable": [Zero(value=False)],
    "waitForPodsReady.recoveryTimeout": [Zero("0s", like="0s")],
    "waitForPodsReady.blockAdmission": [Zero(value=False, like=False)],
    "waitForPodsReady.requeuingStrategy.timestamp": [
        Zero("", problem="waitForPodsReady.requeuingStrategy.timestamp: ''"),
    ],
    "waitForPodsReady.requeuingStrategy.backoffLimitCount": [Zero(0, like=0)],
    "waitForPodsReady.requeuingStrategy.backoffBaseSeconds": [Zero(0, like=0)],
    "waitForPodsReady.requeuingStrategy.backoffMaxSeconds": [Zero(0, like=0)],
    "objectRetentionPolicies.workloads.afterFinished": [Zero("0s", like="0s")],
    "objectRetentionPolicies.workloads.afterDeactivatedByKueue": [Zero("0s", like="0s")],
    "resources.excludeResourcePrefixes": [Zero([]), Zero([None], like=[""])],
    "resources.transformations": [
        Zero([]),
        Zero([{}], like=[{"input": "", "strategy": "Retain"}]),
        Zero([{"input": "a", "strategy": "", "multiplyBy": "", "outputs": None}],
             like=[{"input": "a", "strategy": "Retain"}]),
        Zero([{"input": "a", "outputs": {"b": None}}],
             like=[{"input": "a", "outputs": {"b": "0"}}]),
    ],
    "resources.quotaCheckStrategy": [Zero("", problem="resources.quotaCheckStrategy: ''")],
    "resources.deviceClassMappings": [
        Zero([]),
        Zero([{"name": "", "deviceClassNames": ["a"]}],
             problem="resources.deviceClassMappings[0].name: '': must be"),
        Zero([_NO_CLASS], problem="resources.deviceClassMappings[0].deviceClassNames: at least"),
        Zero([_NO_CLASS | {"deviceClassNames": [None]}],
             problem="resources.deviceClassMappings[0].deviceClassNames[0]: '': must be"),
    ],
    "fairSharing.enable": [Zero(value=False)],
    "fairSharing.preemptionStrategies": [Zero([])],
    "admissionFairSharing.usageHalfLifeTime": [Zero("0s", like="0s")],
    "admissionFairSharing.usageSamplingInterval": [Zero("0s", like="5m")],
    "admissionFairSharing.resourceWeights": [
        Zero({}), Zero({"cpu": None}, like={"cpu": 0}), Zero({"cpu": 0}, like={"cpu": 0}),
    ],
}  # fmt: skip
TIMEOUTS = {
    V1BETA1: Zero("0s", problem="waitForPodsReady.timeout: must be above 0"),
    V1BETA2: Zero("0s", like="30m"),
}
"""The one zero value that the versions read differently: only v1beta2 defaults it."""


def zeroes(version: str, path: str) -> list[Zero]:
    return [TIMEOUTS[version]] if path == "waitForPodsReady.timeout" else ZEROES[path]


def beside(version: str, path: str) -> dict[str, Any]:
    if path in {"fairSharing.enable", "waitForPodsReady.enable"}:
        return {}
    found: dict[str, Any] = BESIDES.get(path.split(".", maxsplit=1)[0], {}).get(version, {})
    if path == "admissionFairSharing.usageHalfLifeTime":
        return {"admissionFairSharing": {}}
    if path == "waitForPodsReady.blockAdmission" and version == V1BETA1:
        return {"waitForPodsReady": {"enable": True}}
    if path.startswith("visibilityServer."):
        return {"visibilityServer": {}}
    return found


def settings(version: str, fields: dict[str, Any]) -> Settings:
    return files.settings(files.kueue(version, **fields))


@pytest.mark.parametrize(("version", "path"), CASES)
def test_null_is_as_good_as_nothing(version: str, path: str) -> None:
    before = beside(version, path)
    assert settings(version, merged(before, at(path, None))) == settings(version, before)


@pytest.mark.parametrize(("version", "path"), CASES)
def test_a_zero_value_means_what_it_means_to_kueue(version: str, path: str) -> None:
    before = beside(version, path)
    for zero in zeroes(version, path):
        found = merged(before, at(path, zero.value))
        if zero.problem:
            problems = files.problems(files.kueue(version, **found))
            assert [one for one in problems if one.startswith(zero.problem)], problems
            continue
        like = before if zero.like is None else merged(before, at(path, zero.like))
        assert settings(version, found) == settings(version, like), zero


@pytest.mark.parametrize("version", list(kueue_configuration.VERSIONS))
def test_a_null_section_is_as_good_as_nothing(version: str) -> None:
    names = [
        info.alias or name
        for name, info in kueue_configuration.VERSIONS[version].model_fields.items()
    ]
    nothing = dict.fromkeys(set(names) - {"apiVersion", "kind"})
    assert files.effective(files.kueue(version, **nothing)) == files.effective()


@pytest.mark.parametrize("version", list(kueue_configuration.VERSIONS))
def test_what_a_go_program_writes_for_an_empty_configuration_is_the_default(version: str) -> None:
    assert files.effective(files.kueue(version, **ALWAYS)) == files.effective()


@pytest.mark.parametrize(
    ("version", "section"),
    [(version, name) for version, found in SECTIONS.items() for name in found],
)
def test_what_a_go_program_writes_for_an_empty_section_means_its_defaults(
    version: str, section: str
) -> None:
    written = {section: SECTIONS[version][section]}
    meant = MEANING[version].get(section)
    expected = settings(version, {} if meant is None else {section: meant})
    assert settings(version, written) == expected
    assert files.unused(files.kueue(version, **written)) == []


@pytest.mark.parametrize("version", list(kueue_configuration.VERSIONS))
def test_the_whole_that_a_go_program_writes_is_shown_as_what_it_comes_to(
    version: str, tmp_path: Any
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(files.kueue(version, **ALWAYS, **SECTIONS[version])))
    shown = click.testing.CliRunner().invoke(main, ["config", "--print", "--config", str(path)])
    assert shown.exit_code == 0, shown.stderr
    first = next(yaml.safe_load_all(shown.stdout))
    for section, meant in MEANING[version].items():
        found = first[section]
        assert {name: found[name] for name in meant} == meant
    assert ("waitForPodsReady" in first) is (version == V1BETA2)
    assert settings(V1BETA2, first) == settings(version, MEANING[version])


def test_fields_without_effect_are_named_only_where_somebody_set_them() -> None:
    assert files.unused(files.kueue(leaderElection={**ELECTION, "resourceName": "mine"})) == [
        "leaderElection.resourceName"
    ]
    assert files.unused(files.kueue(multiKueue={"gcInterval": None, "origin": "a"})) == [
        "multiKueue.origin"
    ]
    assert files.settings(files.kueue(featureGates={"A": None}, integrations={
        "externalFrameworks": [None]})) == Settings()  # fmt: skip


@pytest.mark.parametrize(
    ("mappings", "problem"),
    [
        ([{"name": "a b", "deviceClassNames": ["x"]}], "[0].name: 'a b': must be"),
        ([{"name": "a", "deviceClassNames": ["x"]}, {"name": "a", "deviceClassNames": ["y"]}],
         "[1].name: 'a' has a mapping already"),
        ([{"name": "a", "deviceClassNames": [f"x{one}" for one in range(9)]}],
         "[0].deviceClassNames: 9 are too many, at most 8"),
        ([{"name": f"a{one}", "deviceClassNames": [f"x{one}"]} for one in range(17)],
         ": 17 are too many, at most 16"),
    ],
)  # fmt: skip
def test_device_classes_that_kueue_refuses_are_refused(
    mappings: list[dict[str, Any]], problem: str
) -> None:
    (found,) = files.problems(files.kueue(resources={"deviceClassMappings": mappings}))
    assert found.startswith(f"resources.deviceClassMappings{problem}")
