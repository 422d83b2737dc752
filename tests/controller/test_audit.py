"""Audits on the embedded store: what is charged is compared with what the API server shows."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from admission.base import metrics, names, patches
from admission.base.names import ClusterQueueName, FlavorName, FlavorResource, ResourceName
from admission.base.namespaces import MANAGED, ManagedNamespaces
from admission.controller import audit
from admission.controller.audit import Auditor
from admission.controller.queries import Counted, Reader
from admission.gpu import catalogue
from admission.kube import resources
from admission.objects import views
from admission.objects.cluster_queue import ClusterQueue
from admission.scheduling.transformation import NO_RULES
from tests.builders.jobs import queued_job
from tests.builders.pods import group_pod
from tests.builders.queues import make_cluster_queue
from tests.controller import test_elastic_jobs
from tests.controller.test_running_pods import change, drop_workload, ending, made, run
from tests.controller.world import WORKLOAD_KIND, World, ready_world

GPUS = (
    ClusterQueueName("gpus"),
    FlavorResource(FlavorName("a100"), ResourceName(names.GPU_RESOURCE)),
)


@dataclass
class Audits:
    """An auditor of a world, and what it asked for."""

    found: World
    repairs: list[str] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    between: Callable[[], object] = lambda: None
    is_current: bool = True
    is_ending: bool = False
    namespaces: ManagedNamespaces = MANAGED

    def __post_init__(self) -> None:
        self.auditor = Auditor(
            self.found.store,
            self.ask,
            self.repairs.append,
            self.found.events,
            catalogue.load(),
            NO_RULES,
            is_current=lambda: self.is_current,
            wait=self.wait,
            monotonic=self.found.clock.monotonic,
            interval_seconds=600,
            release_on_deletion=False,
            namespaces=self.namespaces,
        )

    def ask(self, question: Callable[[Reader], Counted]) -> Counted:
        return question(self.found.core.present)

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        self.between()
        return self.is_ending


def forget(found: World, name: str) -> None:
    """Make the accounting lose what a pod's Workload holds."""
    key = names.WorkloadKey("ml", found.workloads()[name].metadata.name)
    found.state.drop_workload(key)


def test_nothing_differs_where_all_is_charged_once() -> None:
    found = made()
    run(found, "first", gpus=1)
    found.add_pod("second", gpus=1)
    found.settle()
    assert Audits(found).auditor.audit() == {}


def test_nothing_differs_while_a_pod_is_charged_on_its_own() -> None:
    found = made()
    ending(found)
    assert Audits(found).auditor.audit() == {}


def test_nothing_differs_once_the_node_of_a_pod_is_gone() -> None:
    found = made()
    ending(found)
    found.store.delete(resources.NODES, "n0")
    found.settle()
    assert Audits(found).auditor.audit() == {}


def test_nothing_differs_while_pods_of_a_group_end_are_replaced_and_have_succeeded() -> None:
    found = made()
    more = patches.merge({"spec": make_cluster_queue(quota=3)["spec"]})
    found.store.patch(resources.CLUSTER_QUEUES, "gpus", more)
    for name in ("a", "b", "c"):
        found.store.create(resources.PODS, group_pod(name, total=3), "ml")
    found.settle()
    for name in ("a", "b", "c"):
        bound = patches.merge({"spec": {"nodeName": "n0"}})
        found.store.patch(resources.PODS, name, bound, "ml")
        found.set_phase(name, "Running")
    found.settle()
    assert found.admitted() == {"a", "b", "c"}
    found.set_phase("a", "Succeeded")
    found.set_phase("b", "Failed")
    found.settle()
    assert Audits(found).auditor.audit() == {}
    found.store.create(resources.PODS, group_pod("d", total=3), "ml")
    found.store.delete(resources.WORKLOADS, "gang", "ml")
    found.settle()
    assert Audits(found).auditor.audit() == {}


def test_pods_beyond_those_that_were_admitted_are_to_be_charged() -> None:
    found = made()
    run(found, "first", gpus=1)
    run(found, "second", gpus=1)
    drop_workload(found, "second")
    found.store.delete(resources.PODS, "second", "ml")
    found.settle()
    assert Audits(found).auditor.audit() == {}


@pytest.mark.parametrize("reverse", [False, True], ids=["", "reversed"])
def test_pods_of_an_elastic_job_are_charged_by_the_slice_that_holds_quota(reverse: bool) -> None:
    found, jobs = test_elastic_jobs.started(pods=3)
    test_elastic_jobs.grow(found, jobs, 8)
    bound = patches.merge({"spec": {"nodeName": "n0"}})
    for pod in jobs.pods():
        found.store.patch(resources.PODS, pod["metadata"]["name"], bound, "ml")
    workloads = test_elastic_jobs.slices(found)
    assert len(workloads) == 2
    listed = audit.Listed(
        workloads=tuple(reversed(workloads) if reverse else workloads),
        pods=tuple(found.store.list(resources.PODS, into=views.Pod).items),
        nodes={"n0": views.Node()},
        queues={"gpus": found.store.get(resources.CLUSTER_QUEUES, "gpus", into=ClusterQueue)},
        flavors={},
    )
    should = audit.expected(listed, catalogue.load(), NO_RULES)
    assert sum(amounts[GPUS] for amounts in should.amounts.values()) == 8


def test_what_is_held_and_not_charged_is_told_and_everything_is_read_again() -> None:
    found = made()
    run(found, "first", gpus=2)
    forget(found, "first")
    audits = Audits(found)
    assert audits.auditor.audit() == {GPUS: -2}
    assert audits.repairs == ["charged quota differs from held quota"]
    told = [note for name, reason, note in found.events.recorded if reason == "LedgerDrift"]
    expected = "2 nvidia.com/gpu of flavor a100 are held but not charged"
    assert told == [f"{expected}. The controller reads everything again"]
    value = metrics.LEDGER_DRIFT.labels("gpus", "a100", names.GPU_RESOURCE)._value.get()
    assert value == -2


def test_everything_is_read_again_once_an_hour_at_most() -> None:
    found = made()
    run(found, "first", gpus=2)
    forget(found, "first")
    audits = Audits(found)
    audits.auditor.audit()
    audits.auditor.audit()
    assert len(audits.repairs) == 1
    found.clock.advance(3600)
    audits.auditor.audit()
    assert len(audits.repairs) == 2


def test_what_differs_only_for_a_moment_is_no_drift() -> None:
    found = made()
    run(found, "first", gpus=2)
    found.store.delete(resources.PODS, "first", "ml")
    change(found, "first", {"metadata": {"finalizers": None}})
    audits = Audits(found, between=found.settle)  # the core has not seen it yet
    assert audits.auditor.audit() == {}
    assert audits.repairs == []


def test_a_process_that_ends_between_two_looks_tells_nothing() -> None:
    """As one that ends because the API server went back to an earlier state."""
    found = made()
    run(found, "first", gpus=2)
    forget(found, "first")
    audits = Audits(found, is_ending=True)

    assert audits.auditor.audit() == {}
    assert audits.repairs == []
    assert [event for event in found.events.recorded if event[1] == "LedgerDrift"] == []


def test_a_sum_that_is_not_the_sum_of_what_is_charged_is_told() -> None:
    found = made()
    run(found, "first", gpus=2)
    node = found.state.forest.queues[ClusterQueueName("gpus")]
    node.usage[GPUS[1]] += 1
    assert Audits(found).auditor.audit() == {GPUS: 1}


def test_a_process_that_may_be_behind_audits_nothing() -> None:
    """As one that was frozen, and does not lead any more."""
    found = made()
    run(found, "first", gpus=2)
    forget(found, "first")
    audits = Audits(found, is_current=False)
    with pytest.raises(TimeoutError):
        audits.auditor.audit()
    assert audits.repairs == []


def test_an_audit_changes_nothing() -> None:
    found = made()
    run(found, "first", gpus=2)
    sent = len(found.sent)
    Audits(found).auditor.audit()
    found.settle()
    assert len(found.sent) == sent


def test_nothing_differs_while_a_job_is_charged_for_pods_that_are_not_there() -> None:
    found = ready_world(quota=2)
    found.add(queued_job())
    found.settle()
    name = found.workloads()["train"].metadata.name
    found.store.delete(resources.CRDS, WORKLOAD_KIND)
    found.store.delete(resources.WORKLOADS, name, "ml")
    found.settle()
    assert Audits(found).auditor.audit() == {}


# -------------------------------------------------------------------------------- on nodes


def on_node(found: World) -> dict[str, int]:
    """What the ledger counts for pods on the node."""
    return found.state.places.ledger.held_by_pods()["n0"]


def test_what_is_counted_on_nodes_is_what_bound_pods_request_there() -> None:
    found = made()
    run(found, "first", gpus=2)
    found.add_pod("waits-for-the-scheduler", gpus=1)
    found.settle()
    audits = Audits(found)
    assert audits.auditor.audit() == {}
    assert audits.auditor.node_drift == {}
    assert on_node(found)[names.GPU_RESOURCE] == 2


@pytest.mark.parametrize("how", ["lost", "sum"])
def test_what_is_counted_otherwise_on_a_node_is_told_and_everything_is_read_again(
    how: str,
) -> None:
    found = made()
    run(found, "first", gpus=2)
    ledger = found.state.places.ledger
    if how == "lost":
        ledger.drop_pod(found.pod("first").metadata.uid)
    else:
        ledger._used["n0"][names.GPU_RESOURCE] += 3
    audits = Audits(found)

    assert audits.auditor.audit() == {}

    difference = audits.auditor.node_drift["n0"][names.GPU_RESOURCE]
    assert difference == (-2 if how == "lost" else 3)
    assert audits.repairs == ["what is counted on nodes differs from what pods request there"]
    told = [note for name, reason, note in found.events.recorded if reason == "LedgerDrift"]
    expected = "2 nvidia.com/gpu are held" if how == "lost" else "3 nvidia.com/gpu are counted"
    assert any(note.startswith(expected) for note in told)
    value = metrics.NODE_LEDGER_DRIFT.labels("n0", names.GPU_RESOURCE)._value.get()
    assert value == difference


def test_a_pod_that_is_bound_while_an_audit_looks_is_no_drift() -> None:
    found = made()
    run(found, "first", gpus=2)
    ledger = found.state.places.ledger
    ledger.drop_pod(found.pod("first").metadata.uid)

    def see_everything() -> None:
        found.observe()
        found.settle()

    audits = Audits(found, between=see_everything)
    assert audits.auditor.audit() == {}
    assert audits.auditor.node_drift == {}
