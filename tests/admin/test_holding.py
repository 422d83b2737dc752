"""Where the API server holds pods while the webhook does not answer, and where it cannot."""

from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from admission.admin import holding, installation, manifests
from admission.admin.installation import InstallationError, InstallPlan
from admission.base.clock import SystemClock
from admission.config.derived import Settings
from admission.config.gpu_configuration import GpuConfiguration
from admission.kube import resources
from admission.kube.api import Page
from admission.kube.errors import ForbiddenError, NotFoundError
from admission.kube.resources import Resource
from admission.owners import integrations
from admission.sandbox.store import Store
from tests.repo import tree

HOLDS = Settings(gpu=GpuConfiguration(while_webhook_down="Hold"))
PLAN = InstallPlan(webhook_url="", certificates=Path())


def failure(settings: Settings) -> dict[str, str]:
    """What becomes of requests while the webhook does not answer, by its name."""
    found = manifests.webhook_configurations({"url": ""}, settings)
    return {hook["name"]: hook["failurePolicy"] for one in found for hook in one["webhooks"]}


def test_only_reviews_of_pods_and_jobs_may_fail() -> None:
    refuses, holds = failure(Settings()), failure(HOLDS)

    assert {name for name in refuses if holds[name] != refuses[name]} == {
        "mpod.kb.io", "vpod.kb.io", "mjob.kb.io", "vjob.kb.io",
    }  # fmt: skip
    assert {name: holds[name] for name in holds if name not in refuses} == {
        "vungated.kb.io": "Fail"
    }


def rows_of_the_guide() -> list[tuple[str, str, str]]:
    """What the guide says of each object while the webhook is down: with refuse, with hold."""
    guide = (tree.ROOT / "docs/guides/break-glass.md").read_text()
    _, _, section = guide.partition("### What is refused while the webhook is down\n")
    rows = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    return [(row.split(" | ")[0], row.split(" | ")[1], row.split(" | ")[2]) for row in rows[2:]]


def refused(mode: int) -> str:
    """The objects of which the guide says that they are refused in a mode."""
    return " ".join(row[0] for row in rows_of_the_guide() if row[mode].startswith("refused"))


@pytest.mark.parametrize(
    ("settings", "mode"), [(Settings(), 1), (HOLDS, 2)], ids=["refuse", "hold"]
)
def test_the_guide_names_the_queues_that_are_refused_while_the_webhook_is_down(
    settings: Settings, mode: int
) -> None:
    hooks = manifests.webhook_configurations({"url": ""}, settings)[1]["webhooks"]
    told = refused(mode)
    for hook in hooks:
        rule, *others = hook["rules"]
        assert not others or hook["name"] == "wkeys.kb.io"
        if rule["apiGroups"] == ["kueue.x-k8s.io"] and hook["failurePolicy"] == "Fail":
            assert rule["resources"][0].removesuffix("s") in told.lower(), hook["name"]
    (limited,) = [hook for hook in hooks if hook["name"] == "vlocalqueue.kb.io"]
    (condition,) = [
        condition["expression"]
        for condition in limited["matchConditions"]
        if condition["name"] == "has-rules-of-ours"
    ]
    for key in ("max-per-user", "max-in-use", "preemption-notice"):
        assert key in condition
        assert key in told


@pytest.mark.parametrize("mode", [1, 2])
def test_the_guide_names_the_owners_that_are_refused_while_the_webhook_is_down(mode: int) -> None:
    told = refused(mode)
    kinds = integrations.DEFAULT
    templates = {kind.kind.name: kind.templates for kind in kinds.held}
    templates |= {kind.kind.name: kind.templates for kind in kinds.serving}
    for name in ("JobSet", "RayCluster", "Deployment", "StatefulSet"):
        assert templates[name]
        assert name in told
    _, _, every = told.partition("every ")
    for name in [name for name, paths in templates.items() if not paths]:
        assert name in every.partition(":")[0]  # reviewed whatever it asks for
    assert ("a Job with GPUs" in told) == (mode == 1)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_policies_are_of_the_version_that_is_served(version: str) -> None:
    wanted = f"admissionregistration.k8s.io/{version}"
    found = {
        one["apiVersion"]
        for one in holding.documents(HOLDS, wanted)
        if one["kind"].startswith("Mutating")
    }
    assert found == {wanted}


class Serves(Store):
    """An API server that serves MutatingAdmissionPolicies in some versions only."""

    def __init__(self, *versions: str) -> None:
        super().__init__()
        self.versions = versions

    @override
    def list(self, resource: Resource, *args: Any, **how: Any) -> Any:
        if resource.plural == resources.MUTATING_POLICIES.plural:
            if resource.version not in self.versions:
                raise NotFoundError(404, "NotFound", "the server could not find the resource")
            return Page(items=(), resource_version="1", continue_="")
        return super().list(resource, *args, **how)


@pytest.mark.parametrize(
    ("served", "taken"),
    [
        (("v1", "v1beta1"), "admissionregistration.k8s.io/v1"),
        (("v1beta1",), "admissionregistration.k8s.io/v1beta1"),
        ((), ""),
    ],
)
def test_the_first_version_that_is_served_is_taken(served: tuple[str, ...], taken: str) -> None:
    assert holding.served_version(Serves(*served)) == taken


def test_nothing_is_installed_where_the_api_server_cannot_hold_pods() -> None:
    store = Serves()

    with pytest.raises(InstallationError, match="serves no MutatingAdmissionPolicy"):
        list(installation.install(store, PLAN, HOLDS, SystemClock(), lambda _: None))

    names = {one["metadata"]["name"] for one in store.list(resources.NAMESPACES).items}
    assert HOLDS.namespace not in names


class Forbids(Store):
    """An API server whose user may not read MutatingAdmissionPolicies."""

    @override
    def get(self, resource: Resource, *args: Any, **how: Any) -> Any:
        if resource.plural == resources.MUTATING_POLICIES.plural:
            raise ForbiddenError(403, "Forbidden", "you may not")
        return super().get(resource, *args, **how)


def test_who_may_not_read_the_policies_can_install_without_them() -> None:
    assert holding.is_installed(Forbids()) is False


def test_the_policies_are_in_the_base_only_where_they_are_wanted() -> None:
    assert "hold.yaml" not in manifests.base(Settings(), "image")
    assert "hold.yaml" in manifests.base(HOLDS, "image")
