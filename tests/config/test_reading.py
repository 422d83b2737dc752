"""A file is read strictly: what nobody knows is an error that says what is known."""

import pytest

from admission.config import reading
from admission.config.reading import ConfigurationError, Effective
from tests.config import files
from tests.config.files import V1BETA1, V1BETA2


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (
            files.kueue(leaderElection={"leaderElct": True}),
            (
                "leaderElection.leaderElct: unknown field; did you mean leaderElect? known here: "
                "leaderElect, leaseDuration, renewDeadline, resourceLock, resourceName, "
                "resourceNamespace, retryPeriod"
            ),
        ),
        (
            files.kueue(resources={"transformations": [{"input": "a", "output": {}}]}),
            (
                "resources.transformations[0].output: unknown field; did you mean outputs? known "
                "here: input, multiplyBy, outputs, strategy"
            ),
        ),
        (
            files.kueue(multiKueue={"gcIntervall": "1m"}),
            (
                "multiKueue.gcIntervall: unknown field; did you mean gcInterval? known here: "
                "clusterProfile, dispatcherName, externalFrameworks, gcInterval, "
                "incrementalDispatcherConfig, origin, workerLostTimeout"
            ),
        ),
        (
            files.gpu(webhook={"workers": 3}),
            (
                "webhook.workers: unknown field; known here: clientAuthority, "
                "healthProbeBindAddress, maxBodyBytes, secureMetrics, threads"
            ),
        ),
    ],
)
def test_an_unknown_field_is_named_with_its_path_and_siblings(document, problem):
    assert files.problems(document) == (problem,)


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (files.kueue(leaderElection={"leaderElect": "true"}), "leaderElection.leaderElect"),
        (files.kueue(leaderElection={"leaseDuration": 15}), "leaderElection.leaseDuration"),
        (files.kueue(metrics={"bindAddress": 8080}), "metrics.bindAddress"),
        (files.kueue(webhook={"port": 70000}), "webhook.port"),
        (files.kueue(admissionFairSharing={"usageHalfLifeTime": 5}),
         "admissionFairSharing.usageHalfLifeTime"),
        (files.kueue(resources={"quotaCheckStrategy": "Deny"}), "resources.quotaCheckStrategy"),
        (files.kueue(featureGates={"TopologyAwareScheduling": "on"}),
         "featureGates.TopologyAwareScheduling"),
        (files.gpu(controller={"writers": 0}), "controller.writers"),
        (files.gpu(managedResources=[]), "managedResources"),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_type_or_size_is_named_by_its_path(document, path):
    (problem,) = files.problems(document)
    assert problem.startswith(f"{path}: ")


def test_everything_wrong_is_in_one_error_and_the_error_names_the_file():
    document = files.kueue(webhook={"prt": 1}, health={"port": 1}, namespace=7)
    assert [one.split(":")[0] for one in files.problems(document)] == [
        "health.port",
        "namespace",
        "webhook.prt",
    ]
    with pytest.raises(ConfigurationError, match=r"^file\.yaml: health\.port: "):
        files.effective(document)


@pytest.mark.parametrize(
    ("version", "other", "field"),
    [
        (V1BETA1, V1BETA2, {"queueVisibility": {"updateIntervalSeconds": 5}}),
        (V1BETA1, V1BETA2, {"integrations": {"podOptions": {"podSelector": {}}}}),
        (V1BETA1, V1BETA2, {"fairSharing": {"enable": True,
                                            "preemptionStrategies": ["LessThanInitialShare"]}}),
        (V1BETA1, V1BETA2, {"waitForPodsReady": {"enable": True}}),
        (V1BETA2, V1BETA1, {"visibilityServer": {"bindPort": 8082}}),
        (V1BETA2, V1BETA1, {"resources": {"quotaCheckStrategy": "BlockUndeclared"}}),
        (V1BETA2, V1BETA1, {"multiKueue": {"incrementalDispatcherConfig": {"stepSize": 3}}}),
        (V1BETA2, V1BETA1, {"metrics": {"customLabels": [{"name": "a", "sourceKind": "Cohort"}]}}),
    ],
)  # fmt: skip
def test_a_field_of_one_version_is_unknown_in_the_other(version, other, field):
    assert files.problems(files.kueue(version, **field)) == ()
    assert "unknown field" in files.problems(files.kueue(other, **field))[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "line 1: invalid YAML"),
        ("- a\n", "document 1: must be an object with apiVersion and kind"),
        (f"apiVersion: {V1BETA2}\nkind: Configuration\nnamespace: a\nnamespace: b\n",
         "line 4: invalid YAML: namespace: twice"),
        ("apiVersion: [a]\nkind: {a: b}\n",
         "document 1 is apiVersion ['a'], kind {'a': 'b'}; known are"),
        ("apiVersion: v1\nkind: ConfigMap\n",
         (f"document 1 is apiVersion v1, kind ConfigMap; known are {V1BETA1} Configuration, "
         f"{V1BETA2} Configuration, config.gpu-admission.dev/v1alpha1 GpuConfiguration")),
        ((f"apiVersion: {V1BETA1}\nkind: Configuration\n---\n"
         f"apiVersion: {V1BETA2}\nkind: Configuration\n"),
         "two documents of kind Configuration"),
        ("\x00", "invalid YAML"),
    ],
)  # fmt: skip
def test_a_file_that_is_none_says_why(text, problem):
    with pytest.raises(ConfigurationError) as caught:
        reading.read(text, "file.yaml")
    assert caught.value.problems[0].startswith(problem)


def test_documents_may_come_in_any_order_and_may_be_missing():
    one, two = files.kueue(namespace="quota"), files.gpu(tolerationKey="gpu")
    assert files.settings(one, two) == files.settings(two, one)
    assert files.settings(two).namespace == "gpu-admission-system"
    assert reading.read("---\n---\n", "file.yaml") == Effective()


def test_dates_stay_texts():
    assert files.settings(files.gpu(tolerationKey="2026-01-02")).gpu.toleration_key == "2026-01-02"
    text = "apiVersion: config.gpu-admission.dev/v1alpha1\nkind: GpuConfiguration\n"
    file = reading.read(f"{text}tolerationKey: 2026-01-02\n", "file.yaml")
    assert file.settings.gpu.toleration_key == "2026-01-02"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (
            files.gpu(releaseOn="podend"),
            "releaseOn: 'podend': did you mean PodEnd? must be 'PodEnd' or 'PodTerminating'",
        ),
        (
            files.gpu(admission="stopped"),
            "admission: 'stopped': must be 'Active' or 'Paused'",
        ),
        (
            files.kueue(resources={"quotaCheckStrategy": "ignoreundeclared"}),
            (
                "resources.quotaCheckStrategy: 'ignoreundeclared': did you mean IgnoreUndeclared? "
                "must be 'BlockUndeclared' or 'IgnoreUndeclared'"
            ),
        ),
    ],
)
def test_a_choice_is_told_as_it_has_to_be_written(document, problem):
    assert files.problems(document) == (problem,)
