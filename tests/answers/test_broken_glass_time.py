"""A pod that passed while break-glass was on is told so, to who may know it, until it ends."""

from typing import Any

import pytest
from typing_extensions import override

from admission.admin import break_glass, manifests
from admission.answers import why
from admission.base import names, patches
from admission.config.derived import Settings
from admission.kube import errors, resources
from admission.objects import broken_glass, crds
from admission.sandbox.store import Store
from tests.builders.cluster import make_namespace
from tests.builders.pods import make_pod
from tests.clocks import FakeClock

SETTINGS = Settings()


class Member(Store):
    """A cluster of which one may be forbidden to read ConfigMaps."""

    is_forbidding = False

    @override
    def get(self, resource: Any, *args: Any, **named: Any) -> Any:
        if self.is_forbidding and resource == resources.CONFIG_MAPS:
            raise errors.ForbiddenError(403, "Forbidden", "configmaps is forbidden")
        return super().get(resource, *args, **named)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Member:
    """A glass that was broken and is whole: pods of before, meanwhile and afterwards."""
    store = Member(crds=crds.documents(), clock=clock)
    for name in (SETTINGS.namespace, "ml"):
        store.create(resources.NAMESPACES, make_namespace(name))
    place = manifests.service_reference(SETTINGS)
    for document in manifests.webhook_configurations(place, SETTINGS):
        resource = resources.of_kind(document["apiVersion"], document["kind"])
        assert resource is not None
        store.create(resource, document)
    add(store, clock, "before")
    list(break_glass.open_gates(store, SETTINGS, clock))
    add(store, clock, "meanwhile")
    add(store, clock, "cpu", gpus=0)
    list(break_glass.close_gates(store, SETTINGS))
    clock.advance(60)
    add(store, clock, "afterwards")
    return store


def add(store: Store, clock: FakeClock, name: str, gpus: int = 1) -> None:
    limits = {names.GPU_RESOURCE: str(gpus)} if gpus else {}
    store.create(resources.PODS, make_pod(name, limits=limits), "ml")
    clock.advance(60)


def notes(store: Store, pod: str) -> str:
    return " ".join(why.explain(store, "ml", f"pod/{pod}").notes)


def test_only_a_pod_with_gpus_of_that_time_is_told(store: Member) -> None:
    assert "while break-glass was on (since 2026-" in notes(store, "meanwhile")
    for other in ("before", "cpu", "afterwards"):
        assert "break-glass" not in notes(store, other)


def test_a_pod_is_told_as_long_as_the_glass_is_broken(store: Member, clock: FakeClock) -> None:
    list(break_glass.open_gates(store, SETTINGS, clock))
    add(store, clock, "now")
    assert "and still is" in notes(store, "now")
    assert "and still is" not in notes(store, "meanwhile")


def test_a_pod_that_has_ended_is_told_nothing(store: Member) -> None:
    ended = patches.merge({"status": {"phase": "Succeeded"}})
    store.patch(resources.PODS, "meanwhile", ended, "ml", subresource="status")
    assert "break-glass" not in notes(store, "meanwhile")


def test_who_may_not_read_when_it_was_is_told_nothing_of_it(store: Member) -> None:
    store.is_forbidding = True
    assert "break-glass" not in notes(store, "meanwhile")


def test_what_cannot_be_read_is_not_told(store: Member) -> None:
    change = patches.merge({"data": {"times.json": "[7]"}})
    store.patch(resources.CONFIG_MAPS, broken_glass.TIMES, change, SETTINGS.namespace)
    assert "break-glass" not in notes(store, "meanwhile")
    status = break_glass.status(store, SETTINGS, break_glass.list_pods(store))
    assert status.broken_before is None


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {names.MANAGED_LABEL: names.MANAGED_VALUE}},
        {"annotations": {"kubernetes.io/config.mirror": "node"}},
        {"annotations": {names.OUTSIDE_QUOTA: "true"}},
    ],
    ids=["reviewed", "of a node", "let run"],
)
def test_a_pod_that_no_review_would_have_held_is_told_nothing(
    store: Member, change: dict[str, Any]
) -> None:
    store.patch(resources.PODS, "meanwhile", patches.merge({"metadata": change}), "ml")
    assert "break-glass" not in notes(store, "meanwhile")


def test_only_a_pod_that_would_go_to_a_queue_is_told_how_it_comes_back(store: Member) -> None:
    assert "to bring it back into quota" not in notes(store, "meanwhile")
    labels = {"metadata": {"labels": {names.QUEUE_LABEL: "default"}}}
    store.patch(resources.PODS, "meanwhile", patches.merge(labels), "ml")
    assert "to bring it back into quota" in notes(store, "meanwhile")
