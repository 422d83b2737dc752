"""Pods that run without a Workload that is charged for them, on the embedded store."""

import pytest

from admission.base import conditions, names, patches
from admission.config.gpu_configuration import GpuConfiguration
from admission.kube import resources
from admission.objects.cluster_queue import ClusterQueue
from admission.scheduling.places.model import BoundPod
from tests.builders.cluster import make_namespace
from tests.builders.pods import make_pod
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.controller.test_capacity import node as gpu_node
from tests.controller.world import World

LASTING = ["example.com/hold"]


def made(gpu: GpuConfiguration | None = None) -> World:
    found = World(gpu=gpu or GpuConfiguration())
    found.add(
        make_namespace(), make_flavor("a100"), make_cluster_queue(quota=2), make_local_queue()
    )
    found.store.create(resources.NODES, {"metadata": {"name": "n0"}})
    return found


def run(found: World, name: str, gpus: int = 2) -> None:
    found.add_pod(name, gpus=gpus)
    found.settle()
    change(found, name, {"metadata": {"finalizers": LASTING}, "spec": {"nodeName": "n0"}})
    found.settle()


def change(found: World, name: str, document: dict[str, object], subresource: str = "") -> None:
    found.store.patch(resources.PODS, name, patches.merge(document), "ml", subresource=subresource)


def drop_workload(found: World, name: str) -> None:
    workload = found.workloads()[name].metadata.name
    found.store.delete(resources.WORKLOADS, workload, "ml")


def flavors(found: World, name: str) -> set[str]:
    """The flavors that the Workload of a pod has."""
    admission = found.workloads()[name].status.admission
    assert admission is not None
    given = admission.pod_set_assignments or ()
    return {flavor for one in given for flavor in (one.flavors or {}).values()}


def used(found: World) -> int:
    found.settle()
    tally = found.state.cluster_queue_status(names.ClusterQueueName("gpus"))
    return sum(tally.usage.values())


def ending(found: World) -> None:
    """A pod that is being deleted and has lost its Workload."""
    run(found, "first")
    found.store.delete(resources.PODS, "first", "ml")
    drop_workload(found, "first")
    found.settle()


def test_a_pod_that_ends_without_a_workload_is_charged_and_counted_as_no_workload() -> None:
    found = made()
    ending(found)
    status = found.state.cluster_queue_status(names.ClusterQueueName("gpus"))
    assert used(found) == 2
    assert (status.reserving, status.admitted) == (0, 0)


def test_a_pod_that_is_charged_by_itself_is_none_of_a_workload_of_its_name() -> None:
    """A Workload may have the name of any pod, and then nothing of it is that of the pod."""
    found = made()
    ending(found)
    ledger = found.state.places.ledger
    pod = BoundPod("n0", {names.GPU_RESOURCE: 1}, names.WorkloadKey("ml", "first"), "main")
    ledger.set_pod("of-the-workload", pod)
    charge = found.state.written_charge(names.PodCharge("ml", "first"))
    assert charge is not None
    assert charge.is_pod
    assert found.state.written_charge(names.WorkloadKey("ml", "first")) is None
    assert ledger.bound(names.WorkloadKey("ml", "first")) == {"main": 1}
    assert ledger.bound(charge.key) == {}


def test_a_pod_that_ends_is_charged_by_the_next_controller() -> None:
    found = made()
    ending(found)
    again = World(store=found.store, clock=found.clock)
    again.settle()
    assert used(again) == 2


def test_a_pod_whose_workload_cannot_be_taken_in_is_charged_after_a_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = made()
    run(found, "first")
    again = found.restarted()

    def fail(*_: object) -> None:
        raise RuntimeError("an odd object")

    monkeypatch.setattr(again.parts.quota.scheduling, "on_update", fail)
    again.observe()
    counted = again.core.present.counted().sums[names.ClusterQueueName("gpus")]
    assert sum(counted.values()) == 2


def test_a_pod_whose_workload_is_gone_is_charged_for_the_flavor_of_its_node() -> None:
    """Its node selector names no flavor any more; the labels of its node do."""
    found = World()
    found.add(
        make_namespace(),
        make_flavor("first"),
        make_flavor("second"),
        make_cluster_queue(quota=2, flavors=("first", "second")),
        make_local_queue(),
        gpu_node("n0", labels={"pool": "second"}, gpu=2),
    )
    found.add_pod("train", gpus=2)
    found.settle()
    assert flavors(found, "train") == {"first"}
    change(found, "train", {"spec": {"nodeName": "n0"}})
    for name in ("first", "second"):
        labels = {"nvidia.com/gpu.product": None, "pool": name}
        renamed = patches.merge({"spec": {"nodeLabels": labels}})
        found.store.patch(resources.RESOURCE_FLAVORS, name, renamed)
    found.settle()

    drop_workload(found, "train")
    found.settle()
    assert flavors(found, "train") == {"second"}


def test_a_pod_on_a_node_that_is_gone_is_charged_no_more() -> None:
    found = made()
    ending(found)
    found.store.delete(resources.NODES, "n0")
    assert used(found) == 0


def test_a_pod_that_has_ended_is_charged_no_more() -> None:
    found = made()
    ending(found)
    change(found, "first", {"status": {"phase": "Failed"}}, "status")
    assert used(found) == 0


def test_a_pod_that_ends_is_not_charged_where_deletion_releases() -> None:
    found = made(GpuConfiguration(release_on="PodTerminating"))
    ending(found)
    assert used(found) == 0


def test_the_cluster_queue_names_the_pods_that_hold_its_quota() -> None:
    found = made()
    ending(found)
    found.pass_time(2)
    queue = found.store.get(resources.CLUSTER_QUEUES, "gpus", into=ClusterQueue)
    condition = next(c for c in queue.status.conditions or () if c.type == conditions.RELEASING)
    assert condition.status == "True"
    assert "ml/first on node n0" in condition.message


def add_running(found: World, name: str, labels: dict[str, str], **annotations: str) -> None:
    """Add a pod that runs without having been held."""
    document = make_pod(name, labels=labels, annotations=annotations, gpus=1, nodeName="n0")
    found.store.create(resources.PODS, document, "ml")


def test_more_pods_than_were_admitted_are_charged_one_by_one() -> None:
    found = made()
    run(found, "first", gpus=1)
    marks = found.pod("first").metadata
    named = {names.WORKLOAD_ANNOTATION: marks.annotation(names.WORKLOAD_ANNOTATION)}
    told = (names.PODSET_LABEL, names.LOCAL_QUEUE_NAME_LABEL, names.CLUSTER_QUEUE_NAME_LABEL)
    add_running(found, "second", {label: marks.label(label) for label in told}, **named)
    assert used(found) == 2


@pytest.mark.parametrize("label", [names.MANAGED_LABEL, names.PODSET_LABEL])
def test_a_label_that_a_running_pod_lost_is_put_back(label: str) -> None:
    found = made()
    run(found, "first")
    gone = {names.MANAGED_LABEL: None, label: None}
    change(found, "first", {"metadata": {"labels": gone}})
    assert used(found) == 2
    labels = found.pod("first").metadata.labels or {}
    assert (labels[names.MANAGED_LABEL], labels[names.PODSET_LABEL]) == ("true", "main")
    assert used(found) == 2


def test_a_pod_that_was_deleted_by_force_is_believed_to_be_gone_once_it_was_read() -> None:
    found = made()
    run(found, "first")
    change(found, "first", {"metadata": {"finalizers": None}})
    found.settle()
    found.store.delete(resources.PODS, "first", "ml", grace_period_seconds=0)
    assert used(found) == 0


def test_a_pod_that_another_label_watches_is_not_forgotten_as_one_watch_ends() -> None:
    """A pod that gets the label ``managed`` back leaves the watch of pods without it."""
    found = made()
    ending(found)
    pods = found.parts.owners.running
    gone = found.pod("first")
    uid = gone.metadata.uid
    assert not pods.on_delete(gone, resources.RELEASED_PODS)
    assert pods.has(uid)
    assert used(found) == 2
    assert pods.on_delete(gone, resources.RELEASED_PODS, for_good=True)
    assert not pods.has(uid)


def test_a_pod_is_forgotten_as_the_watch_that_shows_it_ends() -> None:
    found = made()
    ending(found)
    pods = found.parts.owners.running
    gone = found.pod("first")
    assert pods.on_delete(gone)
    assert not pods.has(gone.metadata.uid)


def test_a_pod_that_was_never_admitted_gets_no_label_of_ours() -> None:
    found = made()
    add_running(found, "other", {names.PODSET_LABEL: "main"})
    assert used(found) == 0
    assert names.MANAGED_LABEL not in (found.pod("other").metadata.labels or {})


@pytest.mark.parametrize("said", ["ann", names.UNKNOWN_REQUESTER, None])
def test_a_pod_that_outlives_its_workload_still_counts_for_who_asked_for_it(
    said: str | None,
) -> None:
    """Pods of Jobs do not say who that is: their template may say anything."""
    found = World()
    queue = make_cluster_queue(quota=8)
    queue["metadata"]["annotations"] = {names.MAX_PER_USER: f"{names.GPU_RESOURCE}=2"}
    found.add(make_namespace(), make_flavor("a100"), queue, make_local_queue())
    found.store.create(resources.NODES, {"metadata": {"name": "n0"}})
    found.add_pod("first", gpus=2, annotations={names.REQUESTER: "ann"})
    found.settle()
    asked = {"annotations": {names.REQUESTER: said}, "finalizers": LASTING}
    change(found, "first", {"metadata": asked, "spec": {"nodeName": "n0"}})
    found.store.delete(resources.PODS, "first", "ml")
    drop_workload(found, "first")
    found.settle()

    found.add_pod("second", gpus=2, annotations={names.REQUESTER: "ann"})
    found.add_pod("others", gpus=2, annotations={names.REQUESTER: "bob"})
    assert used(found) == 4
    assert (found.is_gated("second"), found.is_gated("others")) == (True, False)

    change(found, "first", {"status": {"phase": "Failed"}}, "status")
    found.settle()
    assert not found.is_gated("second")
