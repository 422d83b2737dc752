"""What break glass takes away comes back as it was."""

from datetime import timedelta
from typing import Any

import pytest
from typing_extensions import override

from admission.admin import break_glass, bypass_policies, manifests
from admission.base import names, patches
from admission.config.derived import Settings
from admission.installed import cabundles
from admission.kube import errors, resources
from admission.objects import broken_glass, crds
from admission.sandbox.store import Store
from tests.builders.cluster import make_namespace
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.clocks import FakeClock

SETTINGS = Settings()


@pytest.fixture(scope="module")
def documents() -> list[dict[str, Any]]:
    found = manifests.webhook_configurations(manifests.service_reference(SETTINGS), SETTINGS)
    return [*found, *bypass_policies.documents(SETTINGS)]


@pytest.fixture
def store(documents: list[dict[str, Any]]) -> Store:
    """A cluster with webhook configurations and policies."""
    return filled(Store(crds=crds.documents()[:1]), documents)


def filled(store: Store, documents: list[dict[str, Any]]) -> Store:
    store.create(resources.NAMESPACES, make_namespace(SETTINGS.namespace))
    for document in documents:
        resource = resources.of_kind(document["apiVersion"], document["kind"])
        assert resource is not None
        store.create(resource, document)
    return store


def status(store: Store) -> break_glass.Status:
    return break_glass.status(store, SETTINGS, break_glass.list_pods(store))


def bindings(store: Store) -> dict[str, Any]:
    listed = store.list(resources.VALIDATING_POLICY_BINDINGS).items
    return {one["metadata"]["name"]: one["spec"] for one in listed}


def test_what_holds_new_pods_goes_and_comes_back(store: Store) -> None:
    before = bindings(store)
    reviews = store.get(resources.MUTATING_WEBHOOKS, cabundles.MUTATING_NAME)["webhooks"]
    clock = FakeClock()
    list(break_glass.open_gates(store, SETTINGS, clock))
    assert store.list(resources.MUTATING_WEBHOOKS).items == ()
    left = {one["policyName"] for one in bindings(store).values()}
    assert bypass_policies.ENFORCE_POLICY not in left
    assert bypass_policies.CREATE_POLICY in left
    assert status(store).since

    assert list(break_glass.open_gates(store, SETTINGS, clock)) == []
    list(break_glass.close_gates(store, SETTINGS))
    assert bindings(store) == before
    found = store.get(resources.MUTATING_WEBHOOKS, cabundles.MUTATING_NAME)
    assert found["webhooks"] == reviews
    assert not status(store).since


def test_what_is_installed_again_meanwhile_stays_as_it_is(
    store: Store, documents: list[dict[str, Any]]
) -> None:
    list(break_glass.open_gates(store, SETTINGS, FakeClock()))
    newer = {**documents[0], "webhooks": []}
    store.create(resources.MUTATING_WEBHOOKS, newer)
    list(break_glass.close_gates(store, SETTINGS))
    found = store.get(resources.MUTATING_WEBHOOKS, cabundles.MUTATING_NAME)
    assert found["webhooks"] == []


class LosesAnswers(Store):
    """A server that does every second write and loses its answer."""

    writes = 0
    is_losing = False

    def lose(self) -> None:
        self.writes += 1
        if self.is_losing and self.writes % 2:
            raise errors.TransportError("timed out", outcome_unknown=True)

    @override
    def create(self, *given: Any, **named: Any) -> Any:
        made = super().create(*given, **named)
        self.lose()
        return made

    @override
    def patch(self, *given: Any, **named: Any) -> Any:
        made = super().patch(*given, **named)
        self.lose()
        return made

    @override
    def delete(self, *given: Any, **named: Any) -> None:
        super().delete(*given, **named)
        self.lose()


def test_an_answer_that_is_lost_ends_neither_way(documents: list[dict[str, Any]]) -> None:
    store = LosesAnswers(crds=crds.documents()[:1])
    filled(store, documents)
    before = bindings(store)
    store.is_losing = True
    list(break_glass.open_gates(store, SETTINGS, FakeClock()))
    assert store.list(resources.MUTATING_WEBHOOKS).items == ()
    list(break_glass.close_gates(store, SETTINGS))
    assert bindings(store) == before
    assert not status(store).since
    assert store.writes > len(documents)


def test_a_glass_that_is_whole_is_not_put_back(store: Store) -> None:
    with pytest.raises(break_glass.BreakGlassError, match="the glass is not broken"):
        list(break_glass.close_gates(store, SETTINGS))


def test_what_was_let_run_is_named_until_it_ends_or_is_stopped(store: Store) -> None:
    marks = {names.OUTSIDE_QUOTA: "2026-01-01T00:00:00Z"}
    store.create(resources.NAMESPACES, make_namespace("ml"))
    for name, phase in (("runs", "Running"), ("over", "Succeeded")):
        pod = make_pod(name, namespace="ml", annotations=marks)
        store.create(resources.PODS, pod, "ml")
        store.patch(
            resources.PODS, name, patches.merge({"status": {"phase": phase}}), "ml",
            subresource="status",
        )  # fmt: skip
    for name, conditions in (("long", []), ("short", [{"type": "Complete", "status": "True"}])):
        job = make_job(name, 1, gpus=1)
        job["metadata"] |= {"annotations": marks, "labels": {names.QUEUE_LABEL: "default"}}
        store.create(resources.JOBS, job, "ml")
        change = patches.merge({"status": {"conditions": conditions}})
        store.patch(resources.JOBS, name, change, "ml", subresource="status")
    stopped = make_job("stopped", 1, gpus=1, suspend=True, annotations=marks)
    stopped["metadata"]["labels"] = {names.QUEUE_LABEL: "default"}
    store.create(resources.JOBS, stopped, "ml")
    assert [each.label for each in status(store).let_run] == ["ml/job/long", "ml/runs"]
    assert [each.gpus for each in status(store).let_run] == [{names.GPU_RESOURCE: 1}, {}]


def test_what_is_created_while_the_glass_is_broken_is_named_also_while_it_has_no_node(
    documents: list[dict[str, Any]],
) -> None:
    clock = FakeClock()
    store = filled(Store(crds=crds.documents()[:1], clock=clock), documents)
    two = {names.GPU_RESOURCE: "2"}
    admitted = {names.MANAGED_LABEL: names.MANAGED_VALUE}
    store.create(resources.NAMESPACES, make_namespace("ml"))
    store.create(resources.PODS, make_pod("before", limits=two), "ml")
    clock.advance(5)
    list(break_glass.open_gates(store, SETTINGS, clock))
    for pod in (
        make_pod("pending", namespace="ml", limits=two),
        make_pod("bound", namespace="ml", limits=two, nodeName="n1"),
        make_pod("without-gpu", namespace="ml"),
        make_pod("admitted", namespace="ml", limits=two, labels=admitted),
        make_pod("of-a-job", namespace="ml", limits=two, labels={names.PODSET_LABEL: "main"}),
        make_pod("gated", namespace="ml", limits=two, gates=[names.ADMISSION_GATE]),
        make_pod("let-run", namespace="ml", limits=two, annotations={names.OUTSIDE_QUOTA: "x"}),
        make_pod("of-the-system", namespace="kube-system", limits=two),
    ):
        store.create(resources.PODS, pod, pod["metadata"]["namespace"])
    created = status(store).created_meanwhile
    assert [(each.label, each.node, each.gpus) for each in created] == [
        ("ml/bound", "n1", {names.GPU_RESOURCE: 2}),
        ("ml/pending", "", {names.GPU_RESOURCE: 2}),
    ]
    assert not any(each.is_charged for each in created)

    list(break_glass.close_gates(store, SETTINGS))
    (time,) = status(store).broken_before or ()
    assert time.has(clock.now())
    clock.advance(5)
    store.create(resources.PODS, make_pod("afterwards", limits=two), "ml")
    assert status(store).created_meanwhile == created, "what goes on is told when it is whole"
    ended = patches.merge({"status": {"phase": "Failed"}})
    store.patch(resources.PODS, "bound", ended, "ml", subresource="status")
    assert [each.label for each in status(store).created_meanwhile] == ["ml/pending"]


def test_the_last_times_in_which_the_glass_was_broken_are_kept(
    documents: list[dict[str, Any]],
) -> None:
    clock = FakeClock()
    store = filled(Store(crds=crds.documents()[:1], clock=clock), documents)
    begins = []
    for _ in range(broken_glass.MOST_TIMES + 2):
        begins.append(clock.now())
        list(break_glass.open_gates(store, SETTINGS, clock))
        clock.advance(60)
        list(break_glass.close_gates(store, SETTINGS))
        clock.advance(60)
    times = status(store).broken_before or ()
    assert [each.begin for each in times] == begins[2:]
    assert all((each.end or each.begin) - each.begin == timedelta(seconds=60) for each in times)
