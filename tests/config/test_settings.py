"""What a file says becomes settings; what it does not say has its default."""

import operator
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from admission.base.namespaces import ManagedNamespaces
from admission.base.selectors import Requirement
from admission.config import kueue_configuration
from admission.config.added_owner_kinds import OwnerKind, PodSetsConfig
from admission.config.addresses import Address
from admission.config.derived import Settings
from admission.config.gpu_configuration import (
    Certificates,
    ControllerSettings,
    Decisions,
    GpuConfiguration,
    GpuHealth,
    JournalSettings,
    Modes,
    NamespaceMode,
    ProductConfig,
    Tracing,
    WebhookServing,
)
from admission.config.model import ConfigModel, Unused
from admission.config.reading import ConfigurationError
from admission.scheduling import model
from admission.scheduling.transformation import Transformation, TransformationRules
from tests.config import files
from tests.config.files import V1BETA1, V1BETA2

NAME = "kubernetes.io/metadata.name"
MINUTE = timedelta(minutes=1)
EVERYTHING = (
    files.kueue(
        namespace="quota",
        manageJobsWithoutQueueName=True,
        managedJobsNamespaceSelector={
            "matchLabels": {"team": "a", "example.com/gpus": ""},
            "matchExpressions": [
                {"key": NAME, "operator": "NotIn", "values": ["lab"]},
                {"key": "stage", "operator": "In", "values": ["test", "live"]},
                {"key": "legacy", "operator": "DoesNotExist"},
            ],
        },
        webhook={"host": "::1", "port": 8443, "certDir": "/certs"},
        metrics={"bindAddress": ":9090"},
        health={"healthProbeBindAddress": "[::1]:9091"},
        internalCertManagement={"enable": False},
        visibilityServer={"bindAddress": "::1", "bindPort": 9092},
        leaderElection={"leaderElect": False, "leaseDuration": "1m", "renewDeadline": "40s",
                        "retryPeriod": "1500ms"},
        waitForPodsReady={
            "timeout": "5m", "recoveryTimeout": "3m", "blockAdmission": True,
            "requeuingStrategy": {"timestamp": "Creation", "backoffLimitCount": 4,
                                  "backoffBaseSeconds": 10, "backoffMaxSeconds": 100},
        },
        objectRetentionPolicies={
            "workloads": {"afterFinished": "0s", "afterDeactivatedByKueue": "1h"}
        },
        integrations={
            "frameworks": ["pod", "batch/job", "jobset.x-k8s.io/jobset"],
            "labelKeysToCopy": ["team", "example.com/cost"],
        },
        fairSharing={"preemptionStrategies": ["LessThanInitialShare"]},
        admissionFairSharing={"usageHalfLifeTime": "168h", "usageSamplingInterval": "1m",
                              "resourceWeights": {"nvidia.com/gpu": 100, "cpu": 0.1}},
        resources={
            "excludeResourcePrefixes": ["example.com/"],
            "transformations": [
                {"input": "nvidia.com/mig-1g.10gb", "strategy": "Replace", "multiplyBy": "cpu",
                 "outputs": {"memory": "10Gi", "slices": 1}},
                {"input": "nvidia.com/gpu"},
            ],
            "deviceClassMappings": [
                {"name": "example.com/nics", "deviceClassNames": ["nic.example.com", "fast"]},
                {"name": "nvidia.com/gpu", "deviceClassNames": ["gpu.example.com"]},
            ],
        },
    ),
    files.gpu(
        admission="Paused",
        releaseOn="PodTerminating",
        lostNodeAfter="90s",
        keepForReplacement="30s",
        maxStopsPerMinute=0,
        notReadyAfter="45m",
        managedResources=["example.com/gpu"],
        ownerControllers={"ray.io/raycluster": ["system:serviceaccount:ray:kuberay"]},
        owners=[{"apiVersion": "example.com/v1", "kind": "Run",
                 "podSets": [{"at": "spec.pods", "name": "main"}]}],
        excludedNamespaces=["drivers"],
        modes={"withQueue": {"bypass": "deny", "enforce": True},
               "withoutQueue": {"bypass": "audit"}},
        tolerationKey="",
        products=[{"id": "OURS-16GB", "memoryGb": 16}],
        health={"label": "sick"},
        controller={"writers": 3, "requestTimeout": "7s", "watchSilence": "5m",
                    "waitingAfter": "2s", "waitingRefresh": "1m", "statusInterval": "0s",
                    "auditInterval": "1h", "secureMetrics": True},
        dashboardBindAddress="127.0.0.1:8083",
        whileWebhookDown="Hold",
        placement="Tell",
        whileGatedByOthers="Admit",
        logLevel="debug",
        journal={"enabled": False, "interval": "5m", "retention": "100h", "users": False,
                 "decisions": {"file": "/decisions", "maxBytes": 5000, "files": 2}},
        tracing={"endpoint": "http://collector:4318/v1/traces"},
        webhook={"threads": 2, "maxBodyBytes": 4096, "secureMetrics": True,
                 "clientAuthority": "/ca.crt", "healthProbeBindAddress": "[::1]:8081"},
        certificates={"authorityLifetime": "1h", "servingLifetime": "20m"},
    ),
)  # fmt: skip
"""A file that sets every field that has an effect to something else than its default."""


def test_without_a_file_the_defaults_hold():
    assert files.settings() == Settings()


def test_the_whole_of_both_documents_becomes_settings():
    settings = files.settings(*EVERYTHING)
    assert settings.namespace == "quota"
    assert settings.managed_namespaces == ManagedNamespaces(
        excluded=frozenset({"drivers", "kube-system", "lab", "quota"}),
        requirements=(
            Requirement("example.com/gpus", "In", ("",)),
            Requirement("team", "In", ("a",)),
            Requirement("stage", "In", ("test", "live")),
            Requirement("legacy", "DoesNotExist"),
        ),
        queue_required=True,
        enforced_with_queue=True,
        enforced_without_queue=False,
    )
    assert settings.gpu == GpuConfiguration(
        admission="Paused",
        release_on="PodTerminating",
        lost_node_after=timedelta(seconds=90),
        keep_for_replacement=timedelta(seconds=30),
        max_stops_per_minute=0,
        not_ready_after=timedelta(minutes=45),
        managed_resources=["example.com/gpu"],
        owner_controllers={"ray.io/raycluster": ["system:serviceaccount:ray:kuberay"]},
        owners=[
            OwnerKind(
                api_version="example.com/v1",
                kind="Run",
                pod_sets=[PodSetsConfig(at="spec.pods", name="main")],
            )
        ],
        excluded_namespaces=["drivers", "kube-system", "lab", "quota"],
        modes=Modes(
            with_queue=NamespaceMode(bypass="deny", enforce=True),
            without_queue=NamespaceMode(bypass="audit"),
        ),
        toleration_key="",
        products=[ProductConfig(id="OURS-16GB", memory_gb=16)],
        health=GpuHealth(label="sick"),
        controller=ControllerSettings(
            writers=3,
            request_timeout=timedelta(seconds=7),
            watch_silence=timedelta(seconds=300),
            waiting_after=timedelta(seconds=2),
            waiting_refresh=timedelta(seconds=60),
            status_interval=timedelta(),
            audit_interval=timedelta(seconds=3600),
            secure_metrics=True,
        ),
        dashboard_bind_address="127.0.0.1:8083",
        log_level="debug",
        while_webhook_down="Hold",
        placement="Tell",
        while_gated_by_others="Admit",
        journal=JournalSettings(
            enabled=False,
            interval=timedelta(minutes=5),
            retention=timedelta(hours=100),
            users=False,
            decisions=Decisions(file="/decisions", max_bytes=5000, files=2),
        ),
        tracing=Tracing(endpoint="http://collector:4318/v1/traces"),
        webhook=WebhookServing(
            threads=2,
            max_body_bytes=4096,
            secure_metrics=True,
            client_authority="/ca.crt",
            health_probe_bind_address="[::1]:8081",
        ),
        certificates=Certificates(
            authority_lifetime=timedelta(seconds=3600), serving_lifetime=timedelta(seconds=1200)
        ),
    )
    assert settings.gpu.paused
    assert settings.gpu.releases_on_deletion
    assert settings.gpu.webhook.health_address == Address("::1", 8081)
    assert settings.gpu.dashboard_address == Address("127.0.0.1", 8083)
    assert settings.kueue.webhook == kueue_configuration.Webhook(
        host="::1", port=8443, cert_dir="/certs"
    )
    assert settings.kueue.metrics.address == Address("0.0.0.0", 9090)
    assert settings.kueue.health.address == Address("::1", 9091)
    assert settings.kueue.visibility_address == Address("::1", 9092)
    assert not settings.kueue.internal_cert_management.enable
    assert settings.kueue.leader_election == kueue_configuration.LeaderElection(
        leader_elect=False,
        lease_duration=timedelta(seconds=60),
        renew_deadline=timedelta(seconds=40),
        retry_period=timedelta(seconds=1.5),
    )
    assert settings.kueue.wait_for_pods_ready == kueue_configuration.WaitForPodsReady(
        timeout=5 * MINUTE,
        recovery_timeout=3 * MINUTE,
        block_admission=True,
        requeuing_strategy=kueue_configuration.RequeuingStrategy(
            timestamp="Creation",
            backoff_limit_count=4,
            backoff_base_seconds=10,
            backoff_max_seconds=100,
        ),
    )
    assert (
        settings.kueue.object_retention_policies.workloads
        == kueue_configuration.WorkloadRetention(
            after_finished=timedelta(), after_deactivated_by_kueue=60 * MINUTE
        )
    )
    assert settings.kueue.integrations.label_keys_to_copy == ["team", "example.com/cost"]


def settable(model: ConfigModel, path: str = "") -> Iterator[str]:
    """Fields that have an effect; those of health count as one."""
    for name, info in type(model).model_fields.items():
        below, value = f"{path}.{name}".removeprefix("."), getattr(model, name)
        if any(isinstance(one, Unused) for one in info.metadata):
            continue
        if isinstance(value, ConfigModel) and not isinstance(value, GpuHealth):
            yield from settable(value, below)
        else:
            yield below


def test_every_setting_can_be_set_by_a_file():
    """A setting that is added without a value in the file fails here."""
    settings = files.settings(*EVERYTHING)
    same = [
        path
        for path in settable(settings)
        if operator.attrgetter(path)(settings) == value_of(Settings(), path)
    ]
    assert same == [
        "kueue.api_version",
        "kueue.kind",
        "kueue.managed_jobs_namespace_selector.match_labels",
        "kueue.resources.quota_check_strategy",
        "gpu.api_version",
        "gpu.kind",
    ]
    ignoring = files.kueue(resources={"quotaCheckStrategy": "IgnoreUndeclared"})
    assert files.settings(ignoring).scheduling().ignore_undeclared


def value_of(settings: Settings, path: str) -> Any:
    """The value of a field; None where its section is absent."""
    found: Any = settings
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


@pytest.mark.parametrize("file", [(), EVERYTHING], ids=["defaults", "everything"])
def test_what_is_shown_is_a_file_that_gives_the_same_settings(file):
    settings = files.settings(*file)
    assert files.settings(*settings.documents()) == settings


# ------------------------------------------------------------------------------- engine


def test_the_engine_gets_what_changes_its_decisions():
    config = files.settings(*EVERYTHING).scheduling()
    assert config == model.Config(
        fair_sharing=model.FairSharing(strategies=(model.FairStrategy.LESS_THAN_INITIAL_SHARE,)),
        admission_fair_sharing=model.AdmissionFairSharing(
            half_life_us=168 * 3600 * 10**6,
            sampling_us=60 * 10**6,
            weights={"nvidia.com/gpu": 100 * 10**9, "cpu": 10**8},  # type: ignore[dict-item]
        ),
        requeue_by_eviction=False,
        one_at_a_time=True,
        paused=True,
        consistent_flavors=True,
        placement=model.Enforcement.TELL,
        edit_batch_us=1_000_000,
        heads_per_cycle=200,
    )
    assert Settings().scheduling() == model.Config(
        consistent_flavors=True, edit_batch_us=1_000_000, heads_per_cycle=200
    )


def test_requests_are_counted_by_the_transformations():
    rules = files.settings(*EVERYTHING).transformations()
    assert rules == TransformationRules(
        excluded_prefixes=("example.com/",),
        transformations={
            "nvidia.com/mig-1g.10gb": Transformation(
                outputs={"memory": 10 * 2**30 * 10**9, "slices": 10**9},
                keep=False,
                multiply_by="cpu",
            ),
            "nvidia.com/gpu": Transformation(),
        },
        device_classes={
            "nic.example.com": "example.com/nics",
            "fast": "example.com/nics",
            "gpu.example.com": "nvidia.com/gpu",
        },
    )
    assert Settings().transformations() == TransformationRules()


BOTH = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")


@pytest.mark.parametrize(
    ("version", "sharing", "strategies"),
    [
        (V1BETA1, {"enable": False, "preemptionStrategies": ["LessThanInitialShare"]}, None),
        (V1BETA1, {"enable": True}, BOTH),
        (V1BETA1, {"enable": True, "preemptionStrategies": ["LessThanInitialShare"]}, BOTH[1:]),
        (V1BETA2, {"preemptionStrategies": list(BOTH)}, BOTH),
    ],
)
def test_fair_sharing_is_on_where_the_version_says_so(version, sharing, strategies):
    found = files.settings(files.kueue(version, fairSharing=sharing))
    fair = found.kueue.fair_sharing
    assert (None if fair is None else tuple(fair.preemption_strategies)) == strategies


# -------------------------------------------------------------------------- rules between fields


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (files.kueue(namespace="Kueue_System"), "namespace: 'Kueue_System': must be the name"),
        (files.gpu(excludedNamespaces=["a", "-"]), "excludedNamespaces[1]: '-': must be the name"),
        (files.gpu(managedResources=["a*b"]), "managedResources: 'a*b': must be a resource name"),
        (files.kueue(metrics={"bindAddress": "8080"}), "metrics.bindAddress: '8080': must be"),
        (files.kueue(health={"healthProbeBindAddress": ":99999"}),
         "health.healthProbeBindAddress: ':99999': must be"),
        (files.kueue(resources={"quotaCheckStrategy": "IgnoreUndeclared",
                                "excludeResourcePrefixes": ["a"]}),
         "resources.excludeResourcePrefixes: cannot be combined with quotaCheckStrategy"),
        (files.kueue(resources={"transformations": [{"input": "a"}, {"input": "a"}]}),
         "resources.transformations[1].input: 'a' has a transformation already"),
        (files.kueue(resources={"transformations": [{"input": "a", "outputs": {"b": "5x"}}]}),
         "resources.transformations[0].outputs[b]: '5x': must be a Kubernetes quantity"),
        (files.kueue(resources={"deviceClassMappings": [
            {"name": "a", "deviceClassNames": ["x"]},
            {"name": "b", "deviceClassNames": ["y", "x"]},
        ]}), "resources.deviceClassMappings[1].deviceClassNames[1]: 'x' is counted as a already"),
        (files.kueue(fairSharing={"preemptionStrategies": [BOTH[1], BOTH[0]]}),
         "fairSharing.preemptionStrategies: must be [LessThanOrEqualToFinalShare, "),
        (files.kueue(admissionFairSharing={"usageHalfLifeTime": "-1s"}),
         "admissionFairSharing.usageHalfLifeTime: must not be negative"),
        (files.kueue(admissionFairSharing={"usageHalfLifeTime": "1s",
                                           "resourceWeights": {"cpu": -1}}),
         "admissionFairSharing.resourceWeights[cpu]: '-1': must not be below 0"),
        (files.kueue(leaderElection={"renewDeadline": "15s"}),
         "leaderElection: retryPeriod 2s must be less than renewDeadline 15s, and that less than"),
        (files.kueue(leaderElection={"leaseDuration": "9s", "renewDeadline": "6s"}),
         "leaderElection.renewDeadline: 6s must be longer than"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_named_by_its_path(document, problem):
    (found,) = files.problems(document)
    assert found.startswith(problem)


def test_everything_that_breaks_a_rule_is_told_at_once():
    document = files.kueue(namespace="A", metrics={"bindAddress": "x"})
    assert [one.split(":")[0] for one in files.problems(document)] == [
        "metrics.bindAddress",
        "namespace",
    ]


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("0", None),
        (":8080", Address("0.0.0.0", 8080)),
        ("10.0.0.1:80", Address("10.0.0.1", 80)),
        ("[::]:8080", Address("::", 8080)),
    ],
)
def test_an_address_is_read_as_controller_runtime_reads_it(address, found):
    settings = files.settings(files.kueue(metrics={"bindAddress": address}))
    assert settings.kueue.metrics.address == found


def test_our_namespace_and_kube_system_are_always_excluded():
    settings = files.settings(files.kueue(namespace="quota"), files.gpu(excludedNamespaces=[]))
    assert settings.gpu.excluded_namespaces == ["kube-system", "quota"]


@pytest.mark.parametrize(
    ("selector", "error"),
    [
        ({"matchLabels": {"a b": "c"}}, "managedJobsNamespaceSelector.matchLabels"),
        ({"matchLabels": {"a": "-"}}, "managedJobsNamespaceSelector.matchLabels.a"),
        ({"matchExpressions": [{"key": "/", "operator": "Exists"}]},
         "managedJobsNamespaceSelector.matchExpressions[0].key"),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]},
         "matchExpressions[0].values: must be specified when operator is In"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
         "matchExpressions[0].values: may not be specified when operator is Exists"),
    ],
)  # fmt: skip
def test_a_selector_that_an_api_server_would_refuse_is_an_error(selector, error):
    with pytest.raises(ConfigurationError) as found:
        files.settings(files.kueue(managedJobsNamespaceSelector=selector))
    assert error in str(found.value)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, None),
        ({}, Address("0.0.0.0", 8082)),
        ({"bindPort": 9}, Address("0.0.0.0", 9)),
        ({"bindAddress": "127.0.0.1"}, Address("127.0.0.1", 8082)),
    ],
)
def test_pending_workloads_are_served_where_the_file_says_and_else_nowhere(found, expected):
    document = files.kueue(**({} if found is None else {"visibilityServer": found}))
    assert files.settings(document).kueue.visibility_address == expected


def test_health_at_the_address_of_metrics_is_served_once():
    document = files.kueue(
        metrics={"bindAddress": ":8080"}, health={"healthProbeBindAddress": "0.0.0.0:8080"}
    )
    assert files.settings(document).kueue.health.address is None


# ---------------------------------------------------------------------------- workloads


def test_a_file_that_does_not_mention_readiness_does_not_wait():
    settings = files.settings(files.kueue())
    assert settings.kueue == kueue_configuration.Configuration()
    assert not settings.scheduling().one_at_a_time


@pytest.mark.parametrize(
    ("version", "section", "timeout", "recovery", "one_at_a_time"),
    [
        (V1BETA2, {}, 30, 30, False),
        (V1BETA2, {"timeout": "7m"}, 7, 7, False),
        (V1BETA2, {"timeout": "7m", "recoveryTimeout": "0s"}, 7, 0, False),
        (V1BETA2, {"blockAdmission": True}, 30, 30, True),
        (V1BETA1, {"enable": True}, 5, 5, True),
        (V1BETA1, {"enable": True, "blockAdmission": False}, 5, 5, False),
    ],
)
def test_each_version_has_its_own_defaults_of_readiness(
    version, section, timeout, recovery, one_at_a_time
):
    settings = files.settings(files.kueue(version, waitForPodsReady=section))
    assert settings.kueue.wait_for_pods_ready == kueue_configuration.WaitForPodsReady(
        timeout=timeout * MINUTE,
        recovery_timeout=recovery * MINUTE,
        block_admission=one_at_a_time,
    )
    assert settings.scheduling().one_at_a_time is one_at_a_time


@pytest.mark.parametrize("section", [{"timeout": "1m"}, {"enable": False, "timeout": "1m"}])
def test_v1beta1_waits_only_when_it_says_so(section):
    file = files.kueue(V1BETA1, waitForPodsReady=section)
    assert files.settings(file).kueue.wait_for_pods_ready is None
    assert files.unused(file) == ["waitForPodsReady.timeout"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"waitForPodsReady": {"timeout": "-1s", "recoveryTimeout": "1s"}},
         "waitForPodsReady.timeout: must not be negative"),
        ({"waitForPodsReady": {"requeuingStrategy": {"backoffLimitCount": -1}}},
         "waitForPodsReady.requeuingStrategy.backoffLimitCount"),
        ({"objectRetentionPolicies": {"workloads": {"afterFinished": "-1s"}}},
         "objectRetentionPolicies.workloads.afterFinished: must not be negative"),
        ({"integrations": {"labelKeysToCopy": ["a b"]}},
         "integrations.labelKeysToCopy[0]: 'a b': must be the key of a label"),
    ],
)  # fmt: skip
def test_a_value_that_makes_no_sense_is_named(fields, problem):
    (found,) = files.problems(files.kueue(**fields))
    assert found.startswith(problem)


def test_a_serving_certificate_lives_at_most_half_as_long_as_its_authority():
    with pytest.raises(ConfigurationError, match=r"certificates\.servingLifetime: .* half of"):
        files.settings(
            files.gpu(certificates={"authorityLifetime": "2m", "servingLifetime": "61s"})
        )
    short = files.settings(files.gpu(certificates={"authorityLifetime": "2m"})).gpu.certificates
    assert short.serving_lifetime == MINUTE
