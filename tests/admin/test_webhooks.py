"""The shape of the webhook configurations; what they match is tested on a real API server."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from admission.admin import webhooks
from admission.base.errors import InvalidValueError
from admission.base.namespaces import ManagedNamespaces
from admission.base.selectors import Requirement
from admission.gpu.resources import DEFAULT_MANAGED

NAMESPACES = ManagedNamespaces(frozenset({"gpu-operator"}))
ACCOUNT = "system:serviceaccount:gpu-admission-system:controller"


def make(
    client_config: Mapping[str, Any] | None = None,
    managed: Sequence[str] = DEFAULT_MANAGED,
    namespaces: ManagedNamespaces = NAMESPACES,
) -> list[dict[str, Any]]:
    config = client_config or {"url": "https://127.0.0.1:9443/", "caBundle": "Q0E="}
    return webhooks.documents(config, managed, namespaces, ACCOUNT)


def test_both_configurations_carry_kueues_webhook_names_and_paths():
    mutating, validating = make()
    assert [
        (document["kind"], document["metadata"]["name"], hook["name"], hook["clientConfig"]["url"])
        for document in (mutating, validating)
        for hook in document["webhooks"][:1]
    ] == [
        (
            "MutatingWebhookConfiguration",
            "gpu-admission-mutating-webhook-configuration",
            "mpod.kb.io",
            "https://127.0.0.1:9443/mutate--v1-pod",
        ),
        (
            "ValidatingWebhookConfiguration",
            "gpu-admission-validating-webhook-configuration",
            "vpod.kb.io",
            "https://127.0.0.1:9443/validate--v1-pod",
        ),
    ]


def of_kueues_kinds(document: dict[str, Any]) -> list[dict[str, Any]]:
    hooks: list[dict[str, Any]] = document["webhooks"]
    return [hook for hook in hooks if hook["rules"][0]["apiGroups"] == ["kueue.x-k8s.io"]]


def test_a_job_that_only_its_owner_brings_here_is_created_without_an_answer():
    hooks = {hook["name"]: hook for document in make() for hook in document["webhooks"]}
    hook = hooks["mchildjob.kb.io"]

    assert (hook["failurePolicy"], hook["timeoutSeconds"]) == ("Ignore", 2)
    assert hook["rules"][0]["operations"] == ["CREATE"]


def test_a_local_queue_about_which_only_warnings_are_said_is_created_without_an_answer() -> None:
    hooks = {hook["name"]: hook for document in make() for hook in document["webhooks"]}
    hook = hooks["wlocalqueue.kb.io"]

    assert (hook["failurePolicy"], hook["timeoutSeconds"]) == ("Ignore", 2)
    assert hooks["vlocalqueue.kb.io"]["failurePolicy"] == "Fail"


def test_an_owner_that_only_its_own_keys_bring_here_is_created_without_an_answer() -> None:
    _, validating = make()
    (hook,) = (hook for hook in validating["webhooks"] if hook["name"] == "wkeys.kb.io")

    assert (hook["failurePolicy"], hook["timeoutSeconds"]) == ("Ignore", 2)
    assert hook["clientConfig"]["url"] == "https://127.0.0.1:9443/warn-about-keys"
    assert all(rule["operations"] == ["CREATE"] for rule in hook["rules"])
    resources_ = {rule["resources"][0] for rule in hook["rules"]}
    assert {"jobs", "deployments", "jobsets"} <= resources_
    assert "appwrappers" not in resources_, "all of them are reviewed anyway"


def test_kueues_own_kinds_have_kueues_webhooks_rules_and_paths():
    prefix = "https://127.0.0.1:9443/"
    assert {
        hook["name"]: (
            hook["clientConfig"]["url"].removeprefix(prefix),
            hook["rules"][0]["resources"],
            hook["rules"][0]["operations"],
        )
        for document in make()
        for hook in of_kueues_kinds(document)
    } == {
        "mclusterqueue.kb.io": (
            "mutate-kueue-x-k8s-io-v1beta2-clusterqueue", ["clusterqueues"], ["CREATE"],
        ),
        "mresourceflavor.kb.io": (
            "mutate-kueue-x-k8s-io-v1beta2-resourceflavor", ["resourceflavors"], ["CREATE"],
        ),
        "vclusterqueue.kb.io": (
            "validate-kueue-x-k8s-io-v1beta2-clusterqueue", ["clusterqueues"],
            ["CREATE", "UPDATE"],
        ),
        "vlocalqueue.kb.io": (
            "validate-kueue-x-k8s-io-v1beta2-localqueue", ["localqueues"], ["CREATE", "UPDATE"],
        ),
        "wlocalqueue.kb.io": (
            "validate-kueue-x-k8s-io-v1beta2-localqueue", ["localqueues"], ["CREATE", "UPDATE"],
        ),
        "vcohort.kb.io": (
            "validate-kueue-x-k8s-io-v1beta2-cohort", ["cohorts"], ["CREATE", "UPDATE"],
        ),
        "vresourceflavor.kb.io": (
            "validate-kueue-x-k8s-io-v1beta2-resourceflavor", ["resourceflavors"],
            ["CREATE", "UPDATE"],
        ),
        "vworkload.kb.io": (
            "validate-kueue-x-k8s-io-v1beta2-workload", ["workloads", "workloads/status"],
            ["CREATE", "UPDATE"],
        ),
    }  # fmt: skip


def test_jobs_have_kueues_webhooks_outside_the_excluded_namespaces():
    for verb, operations, document in zip(
        ("mutate", "validate"), (["CREATE"], ["CREATE", "UPDATE"]), make(), strict=True
    ):
        pods, jobs = document["webhooks"][:2]
        assert jobs["name"] == f"{verb[0]}job.kb.io"
        assert jobs["clientConfig"]["url"] == f"https://127.0.0.1:9443/{verb}-batch-v1-job"
        assert (jobs["rules"][0]["resources"], jobs["rules"][0]["operations"]) == (
            ["jobs"],
            operations,
        )
        assert jobs["namespaceSelector"] == pods["namespaceSelector"]


def test_pods_and_jobs_are_reviewed_where_names_and_labels_of_the_namespace_say_so():
    required = (Requirement("team", "In", ("a", "b")), Requirement("lab", "DoesNotExist"))
    chosen = ManagedNamespaces(frozenset({"drivers"}), required)
    for document in make(namespaces=chosen):
        for hook in document["webhooks"][:2]:
            assert hook["namespaceSelector"]["matchExpressions"] == [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn",
                 "values": ["drivers", "gpu-admission-system", "kube-system"]},
                {"key": "team", "operator": "In", "values": ["a", "b"]},
                {"key": "lab", "operator": "DoesNotExist"},
            ]  # fmt: skip


def test_kueues_own_kinds_are_reviewed_in_every_namespace():
    for document in make():
        for hook in of_kueues_kinds(document):
            assert hook["namespaceSelector"] == {}
            assert hook["rules"][0]["apiVersions"] == ["v1beta2"]
            is_for_warnings = hook["name"] == "wlocalqueue.kb.io"
            assert hook["failurePolicy"] == ("Ignore" if is_for_warnings else "Fail")


@pytest.mark.parametrize("position", [0, 1], ids=["mutating", "validating"])
def test_a_failed_webhook_fails_the_request_within_5_seconds(position):
    hook = make()[position]["webhooks"][0]
    wanted = {
        "failurePolicy": "Fail",
        "timeoutSeconds": 5,
        "sideEffects": "None",
        "matchPolicy": "Equivalent",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": ["gpu-admission-system", "gpu-operator", "kube-system"],
                }
            ]
        },
    }
    assert {key: hook[key] for key in wanted} == wanted


def test_only_the_mutating_webhook_is_asked_again():
    mutating, validating = make()
    assert mutating["webhooks"][0]["reinvocationPolicy"] == "IfNeeded"
    assert "reinvocationPolicy" not in validating["webhooks"][0]
    assert mutating["webhooks"][0]["rules"][0]["operations"] == ["CREATE"]
    assert validating["webhooks"][0]["rules"][0]["operations"] == ["CREATE", "UPDATE"]


def test_a_service_gets_the_path_beside_its_name():
    service = {"name": "hook", "namespace": "gpu-admission-system", "port": 443}
    mutating, _ = make({"service": service, "caBundle": "Q0E="})
    assert mutating["webhooks"][0]["clientConfig"] == {
        "service": {**service, "path": "/mutate--v1-pod"},
        "caBundle": "Q0E=",
    }
    assert "path" not in service


def test_the_controllers_own_writes_are_never_reviewed():
    for document in make():
        for hook in document["webhooks"]:
            condition, _, others = hook["matchConditions"][0]["expression"].partition(" && ")
            assert condition == f'request.userInfo.username != "{ACCOUNT}"'
            assert "||" not in others


def test_managed_resources_become_names_and_prefixes():
    mutating, _ = make(managed=["amd.com/gpu", 'quote"d', "x.dev/*"])
    expression = mutating["webhooks"][0]["matchConditions"][1]["expression"]
    assert 'r in ["amd.com/gpu", "quote\\"d"] || r.startsWith("x.dev/")' in expression
    assert "nvidia" not in expression


def test_a_pattern_that_matches_everything_is_refused():
    with pytest.raises(InvalidValueError):
        make(managed=["*"])
