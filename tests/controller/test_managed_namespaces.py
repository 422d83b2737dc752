"""Jobs, and pods in doubt, of namespaces that are not managed are left alone."""

from typing import Any

from admission.base import conditions, names, patches
from admission.base.namespaces import ManagedNamespaces
from admission.base.selectors import Requirement
from admission.controller import core
from admission.kube import resources
from admission.kube.reflector import Replaced
from admission.objects import batch
from admission.objects.workload import Workload
from admission.owners import batch_job
from tests.builders.cluster import make_namespace
from tests.builders.jobs import queued_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import make_workload
from tests.controller.test_adoption import add_pod_in_doubt
from tests.controller.world import World, ready_world

EXCLUDED = ManagedNamespaces(frozenset({"ml"}))
LABELLED = ManagedNamespaces(requirements=(Requirement("team", "Exists"),))


def is_running(world: World) -> bool:
    found = world.store.get(resources.JOBS, "train", "ml", into=batch.JobDocument)
    return not batch_job.is_suspended(found.view())


def report(world: World, **status: Any) -> None:
    patch = patches.merge({"status": status})
    world.store.patch(resources.JOBS, "train", patch, "ml", subresource="status")


def workload(world: World) -> Workload:
    return world.workloads()["train"]


def test_a_running_job_of_an_excluded_namespace_is_not_stopped():
    world = ready_world(namespaces=EXCLUDED)
    world.add(queued_job(suspend=False))
    report(world, active=2)
    world.settle()
    assert is_running(world)
    assert world.workloads() == {}


def test_a_job_is_queued_once_its_namespace_has_the_labels_of_managed_ones():
    world = ready_world(namespaces=LABELLED)
    world.add(queued_job())
    world.settle()
    assert world.workloads() == {}

    label = patches.merge({"metadata": {"labels": {"team": "a"}}})
    world.store.patch(resources.NAMESPACES, "ml", label)
    world.settle()
    assert is_running(world)


def test_a_job_that_is_seen_before_its_namespace_is_looked_at_again():
    world = ready_world(namespaces=LABELLED)
    world.unlisted.add(resources.NAMESPACES)
    fresh, early, queue = make_namespace("fresh"), queued_job(), make_local_queue()
    fresh["metadata"]["labels"] = {"team": "a"}
    early["metadata"]["namespace"] = queue["metadata"]["namespace"] = "fresh"
    world.add(fresh, queue, early)
    world.settle()
    assert world.workloads() == {}

    world.unlisted.clear()
    world.settle()
    assert workload(world).status.is_true(conditions.ADMITTED)


def test_a_workload_made_for_a_job_that_is_left_alone_is_admitted_for_itself():
    world = ready_world(namespaces=EXCLUDED)
    world.add(queued_job())
    made = make_workload("train")
    uid = world.store.get(resources.JOBS, "train", "ml")["metadata"]["uid"]
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
    ]
    world.add(made)
    world.settle()
    assert workload(world).status.is_true(conditions.ADMITTED)
    assert not is_running(world)


def test_a_pod_in_doubt_is_let_go_whatever_queues_are_there() -> None:
    world = ready_world(namespaces=LABELLED)
    world.add(make_local_queue("default"))
    add_pod_in_doubt(world)
    world.pass_time(2)

    assert not world.is_gated("train")
    assert not world.workloads()


def test_a_pod_in_doubt_is_not_let_go_for_want_of_a_sight_of_its_namespace() -> None:
    world = World(namespaces=LABELLED)
    world.add(make_namespace(), make_flavor(), make_cluster_queue(), make_local_queue("default"))
    world.observe()
    world.core.receive(core.WatchMessage(resources.NAMESPACES, Replaced((), (), "999999")))
    world.unlisted.add(resources.NAMESPACES)
    add_pod_in_doubt(world)
    world.pass_time(2)

    assert world.pod("train").metadata.label(names.QUEUE_LABEL) == "default"
