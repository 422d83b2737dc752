"""The embedded store refuses what the policies of an API server would refuse."""

from typing import Any

import pytest

from admission.base import names
from admission.config.derived import Settings
from admission.config.gpu_configuration import GpuConfiguration, Modes, NamespaceMode
from admission.config.kueue_configuration import Configuration, SelectorConfig
from admission.gpu import bypass_rules
from admission.kube import errors, resources
from admission.kube.api import Document
from admission.sandbox import bypass_stand_in
from admission.sandbox.store import Store
from tests.builders.pods import pod_with


def make_store(
    *spaces: tuple[str, str], settings: Settings | None = None
) -> tuple[Store, list[str]]:
    """A store with namespaces and their choices, and the warnings that it tells."""
    warnings: list[str] = []
    store = Store(warn=warnings.append)
    for name, choice in spaces:
        labels = {names.BYPASS_LABEL: choice} if choice else {}
        store.create(resources.NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    store.reviewers.append(bypass_stand_in.reviewer(store, settings or Settings()))
    return store, warnings


def pod_that_sees(devices: str, **pod: Any) -> Document:
    variable = {"name": bypass_rules.VISIBLE_DEVICES, "value": devices}
    return pod_with({"env": [variable]}, **pod)


def test_a_bypass_is_refused_where_the_namespace_says_so():
    store, _ = make_store(("strict", "deny"))
    with pytest.raises(errors.ForbiddenError, match="shows GPUs to a container without request"):
        store.create(resources.PODS, pod_that_sees("all"), "strict")


@pytest.mark.parametrize(("choice", "told"), [("", 1), ("warn", 1), ("audit", 0)])
def test_elsewhere_it_is_told_or_only_noted(choice: str, told: int):
    store, warnings = make_store(("loose", choice))
    store.create(resources.PODS, pod_that_sees("all"), "loose")
    assert len(warnings) == told


def test_what_is_no_bypass_passes():
    store, warnings = make_store(("strict", "deny"))
    store.create(resources.PODS, pod_that_sees("void"), "strict")
    assert warnings == []


def test_a_request_does_not_excuse_the_variable():
    store, _ = make_store(("strict", "deny"))
    with pytest.raises(errors.ForbiddenError, match="beyond the request of the container"):
        store.create(resources.PODS, pod_that_sees("all", gpus=1), "strict")


def test_a_variable_that_hides_gpus_is_told():
    store, warnings = make_store(("strict", "deny"))
    store.create(resources.PODS, pod_that_sees("void", gpus=1), "strict")
    assert ["hides the GPUs" in text for text in warnings] == [True]


@pytest.mark.parametrize(("choice", "refused"), [("deny", False), ("deny-strict", True)])
def test_only_the_strict_choice_refuses_privileged_containers(choice: str, *, refused: bool):
    store, warnings = make_store(("space", choice))
    pod = pod_that_sees("void")
    pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    if refused:
        with pytest.raises(errors.ForbiddenError, match="sees every device of the node"):
            store.create(resources.PODS, pod, "space")
    else:
        store.create(resources.PODS, pod, "space")
    assert warnings == []


def test_namespaces_with_a_queue_have_a_mode_of_their_own():
    modes = Modes(with_queue=NamespaceMode(bypass="deny"))
    store, warnings = make_store(settings=Settings(gpu=GpuConfiguration(modes=modes)))
    queued = {names.HAS_QUEUE_LABEL: "true"}
    for name, labels in (
        ("queued", queued),
        ("free", {}),
        ("loose", {**queued, names.BYPASS_LABEL: "audit"}),
    ):
        store.create(resources.NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    with pytest.raises(errors.ForbiddenError):
        store.create(resources.PODS, pod_that_sees("all"), "queued")
    store.create(resources.PODS, pod_that_sees("all"), "loose")
    assert warnings == []
    store.create(resources.PODS, pod_that_sees("all"), "free")
    assert len(warnings) == 1


def test_excluded_namespaces_are_left_alone():
    store, warnings = make_store(("gpu-operator", "deny"))
    store.create(resources.PODS, pod_that_sees("all"), "gpu-operator")
    assert warnings == []


def test_namespaces_without_the_labels_of_managed_ones_are_left_alone():
    required = SelectorConfig(match_labels={names.BYPASS_LABEL: "deny"})
    settings = Settings(kueue=Configuration(managed_jobs_namespace_selector=required))
    store, warnings = make_store(("strict", "deny"), ("loose", "warn"), settings=settings)
    store.create(resources.PODS, pod_that_sees("all"), "loose")
    assert warnings == []
    with pytest.raises(errors.ForbiddenError):
        store.create(resources.PODS, pod_that_sees("all"), "strict")
