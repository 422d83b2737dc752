"""What a mode stands for, and which bindings follow from it."""

from typing import Any

import pytest

from admission.admin import bypass_policies, modes
from admission.base import names
from admission.config.derived import Settings
from admission.config.gpu_configuration import GpuConfiguration, Modes, NamespaceMode
from admission.config.kueue_configuration import Configuration
from admission.installed import cabundles
from admission.kube import resources
from admission.sandbox.store import Store

PLAIN = Settings()
LABELS = ({}, *({names.BYPASS_LABEL: one} for one in ("deny", "deny-strict", "warn", "audit")))


def settings(mode: str, *, queue_required: bool = False) -> Settings:
    kueue = Configuration(manage_jobs_without_queue_name=queue_required)
    return Settings(gpu=GpuConfiguration(modes=modes.of(mode, Settings(kueue=kueue))))


def actions(found: Settings, policy: str, labels: dict[str, str]) -> list[str]:
    """What the bindings of a policy do in a namespace with these labels."""
    return [
        action
        for one in bypass_policies.documents(found)
        if one["kind"] == "ValidatingAdmissionPolicyBinding"
        and one["spec"]["policyName"] == policy
        and all(matches(test, labels) for test in expressions(one))
        for action in one["spec"]["validationActions"]
    ]


def expressions(binding: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = binding["spec"]["matchResources"]["namespaceSelector"][
        "matchExpressions"
    ]
    return found


def matches(test: dict[str, Any], labels: dict[str, str]) -> bool:
    value = labels.get(test["key"])
    return {
        "In": lambda: value in test["values"],
        "NotIn": lambda: value not in test["values"],
        "Exists": lambda: value is not None,
        "DoesNotExist": lambda: value is None,
    }[test["operator"]]()


DENIES, WARNS, NOTES = ["Deny", "Audit"], ["Warn", "Audit"], ["Audit"]


@pytest.mark.parametrize(
    ("mode", "queued", "unqueued"),
    [
        ("deny", DENIES, WARNS),
        ("deny-strict", DENIES, WARNS),
        ("deny-everywhere", DENIES, DENIES),
        ("warn", WARNS, WARNS),
        ("audit", NOTES, NOTES),
    ],
)
def test_each_namespace_has_one_reaction_by_its_label_or_else_by_the_mode(
    mode: str, queued: list[str], unqueued: list[str]
) -> None:
    found, policy = settings(mode), bypass_policies.CREATE_POLICY
    for labels in LABELS:
        for mark in ({}, {names.HAS_QUEUE_LABEL: "true"}):
            choice = labels.get(names.BYPASS_LABEL, "")
            said = {"deny": DENIES, "deny-strict": DENIES, "warn": WARNS, "audit": NOTES}
            expected = said.get(choice) or (queued if mark else unqueued)
            assert actions(found, policy, {**labels, **mark}) == expected, (labels, mark)


@pytest.mark.parametrize("mode", modes.MODES)
def test_only_the_strict_mode_is_strict(mode: str) -> None:
    queued = {names.HAS_QUEUE_LABEL: "true"}
    expected = DENIES if mode == "deny-strict" else []
    assert actions(settings(mode), bypass_policies.STRICT_POLICY, queued) == expected
    assert actions(settings(mode), bypass_policies.STRICT_POLICY, {}) == []
    chosen = {names.BYPASS_LABEL: "deny-strict"}
    assert actions(settings(mode), bypass_policies.STRICT_POLICY, chosen) == DENIES


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize("policy", [bypass_policies.ENFORCE_POLICY, bypass_policies.CLAIMS_POLICY])
def test_queues_are_enforced_by_the_label_or_else_by_the_mode(mode: str, policy: str) -> None:
    found, queued = settings(mode), {names.HAS_QUEUE_LABEL: "true"}
    for mark in ({}, queued):
        managed = found.managed_namespaces
        for said in ({}, {names.ENFORCE_LABEL: "true"}, {names.ENFORCE_LABEL: "false"}):
            by_policy = bool(actions(found, policy, {**mark, **said}))
            assert by_policy == managed.enforces({**mark, **said})
            assert by_policy == managed.enforces(said, has_queue=bool(mark))
            assert by_policy == (said == {names.ENFORCE_LABEL: "true"} if said else by_policy)
    assert bool(actions(found, policy, queued)) == mode.startswith("deny")
    assert bool(actions(found, policy, {})) == (mode == "deny-everywhere")


def test_without_modes_everything_is_as_with_warn() -> None:
    assert bypass_policies.documents(PLAIN) == bypass_policies.documents(settings("warn"))


def test_where_pods_without_a_queue_are_held_a_mode_does_not_refuse_them() -> None:
    found = modes.of("deny", Settings(kueue=Configuration(manage_jobs_without_queue_name=True)))
    assert found.with_queue == NamespaceMode(bypass="deny", enforce=False)


def test_whatever_modes_an_installation_had_its_bindings_are_known() -> None:
    def named(documents: list[dict[str, Any]]) -> set[str]:
        return {one["metadata"]["name"] for one in documents}

    known = named(bypass_policies.documents(PLAIN)) | named(bypass_policies.leftovers(PLAIN))
    for mode in modes.MODES:
        wanted = named(bypass_policies.documents(settings(mode)))
        assert wanted <= known
        assert wanted.isdisjoint(named(bypass_policies.leftovers(settings(mode))))


@pytest.mark.parametrize("mode", modes.MODES)
def test_what_an_installation_chose_is_kept(mode: str) -> None:
    store, chosen = Store(), modes.of(mode, PLAIN)
    assert modes.installed(store) is None
    annotations = {names.MODES: modes.to_text(chosen)}
    metadata = {"name": cabundles.MUTATING_NAME, "annotations": annotations}
    store.create(resources.MUTATING_WEBHOOKS, {"metadata": metadata})
    assert modes.installed(store) == chosen


@pytest.mark.parametrize("annotations", [{}, {names.MODES: ""}])
def test_an_installation_without_modes_only_warned(annotations: dict[str, str]) -> None:
    store = Store()
    metadata = {"name": cabundles.MUTATING_NAME, "annotations": annotations}
    store.create(resources.MUTATING_WEBHOOKS, {"metadata": metadata})
    assert modes.installed(store) == Modes()


def test_modes_that_cannot_be_read_are_named() -> None:
    store = Store()
    metadata = {"name": cabundles.MUTATING_NAME, "annotations": {names.MODES: "deny"}}
    store.create(resources.MUTATING_WEBHOOKS, {"metadata": metadata})
    with pytest.raises(modes.ModesError, match=rf"annotations\[{names.MODES}\]: 'deny': must be"):
        modes.installed(store)
