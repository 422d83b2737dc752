"""ClusterQueues and ResourceFlavors are held while they are in use, and not longer."""

from typing import Any

import pytest

from admission.base import names, patches
from admission.controller.queues import object_metadata
from admission.controller.writing.api_requests import WritePurpose
from admission.kube import resources
from admission.kube.errors import NotFoundError
from admission.kube.resources import Resource
from admission.objects import views
from tests.builders.queues import make_check, make_cluster_queue, make_flavor
from tests.controller.world import World, ready_world

QUEUES, FLAVORS = resources.CLUSTER_QUEUES, resources.RESOURCE_FLAVORS
CHECKS, TOPOLOGIES = resources.ADMISSION_CHECKS, resources.TOPOLOGIES
HELD = names.RESOURCE_IN_USE
NOW = "2026-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("present", "deleted", "in_use", "want"),
    [
        pytest.param((), None, False, (HELD,), id="a new object gets it"),
        pytest.param(("a",), None, True, ("a", HELD), id="beside those of others"),
        pytest.param((HELD,), None, False, None, id="it stays while nobody deletes the object"),
        pytest.param((HELD, "a"), NOW, True, None, id="it stays while the object is in use"),
        pytest.param((HELD, "a"), NOW, False, ("a",), id="it goes when the object is free"),
        pytest.param(("a",), NOW, True, None, id="a deleted object gets none"),
        pytest.param((), NOW, False, None, id="a deleted object without any is left alone"),
    ],
)
def test_which_finalizers_an_object_should_have(
    present: tuple[str, ...], deleted: str | None, in_use: bool, want: tuple[str, ...] | None
) -> None:
    metadata = views.ObjectMeta(finalizers=present, deletion_timestamp=deleted)
    assert object_metadata.wanted(metadata, is_in_use=in_use) == want


def held(world: World, resource: Resource, name: str) -> list[str]:
    found: list[str] = world.store.get(resource, name)["metadata"].get("finalizers", [])
    return found


def exists(world: World, resource: Resource, name: str) -> bool:
    try:
        world.store.get(resource, name)
    except NotFoundError:
        return False
    return True


def active(world: World, name: str = "gpus") -> tuple[str, str]:
    (condition,) = [c for c in world.status_of(name)["conditions"] if c["type"] == "Active"]
    return condition["status"], condition["reason"]


def test_what_was_created_without_a_review_gets_the_finalizer() -> None:
    world = World()
    for resource, document in ((FLAVORS, make_flavor()), (QUEUES, make_cluster_queue())):
        world.store.create(resource, document)
    world.settle()
    assert held(world, QUEUES, "gpus") == [HELD]
    assert held(world, FLAVORS, "a100") == [HELD]


def test_a_finalizer_that_somebody_takes_off_comes_back() -> None:
    world = ready_world()
    world.store.patch(QUEUES, "gpus", patches.merge({"metadata": {"finalizers": None}}))
    world.settle()
    assert held(world, QUEUES, "gpus") == [HELD]


def test_a_flavor_goes_when_no_queue_lists_it_any_more() -> None:
    world = ready_world()
    world.store.delete(FLAVORS, "a100")
    world.settle()
    assert exists(world, FLAVORS, "a100")

    world.add(make_flavor("h100"))
    spec = make_cluster_queue(flavors=("h100",))["spec"]
    world.store.patch(QUEUES, "gpus", patches.merge({"spec": spec}))
    world.settle()
    assert not exists(world, FLAVORS, "a100")


def test_a_flavor_goes_with_the_last_queue_that_lists_it() -> None:
    world = ready_world()
    world.add(make_cluster_queue("other"))
    world.settle()
    world.store.delete(FLAVORS, "a100")
    world.store.delete(QUEUES, "gpus")
    world.settle()
    assert not exists(world, QUEUES, "gpus")
    assert exists(world, FLAVORS, "a100")

    world.store.delete(QUEUES, "other")
    world.settle()
    assert not exists(world, FLAVORS, "a100")


def test_an_empty_queue_goes_at_once_though_workloads_wait_for_it() -> None:
    world = ready_world(quota=1)
    world.add_pod("waits", gpus=2)
    world.settle()
    world.store.delete(QUEUES, "gpus")
    world.settle()
    assert not exists(world, QUEUES, "gpus")


def test_a_deleted_queue_admits_nothing_more_and_goes_with_its_last_workload() -> None:
    world = ready_world(quota=4)
    world.add_pod("runs")
    world.settle()
    world.store.delete(QUEUES, "gpus")
    world.add_pod("late")
    world.pass_time(5)

    assert world.admitted() == {"runs"}
    assert active(world) == ("False", "Terminating")
    assert world.status_of("gpus")["admittedWorkloads"] == 1

    world.set_phase("runs", "Succeeded")
    world.settle()
    assert not exists(world, QUEUES, "gpus")
    assert world.admitted() == {"runs"}


def test_a_check_gets_the_finalizer_and_goes_when_no_queue_asks_for_it() -> None:
    world = ready_world()
    world.add(make_check())
    asking = {"admissionChecksStrategy": {"admissionChecks": [{"name": "budget"}]}}
    world.store.patch(QUEUES, "gpus", patches.merge({"spec": asking}))
    world.settle()
    assert held(world, CHECKS, "budget") == [HELD]

    world.store.delete(CHECKS, "budget")
    world.pass_time(2)
    assert exists(world, CHECKS, "budget")
    assert active(world) == ("False", "AdmissionCheckInactive")  # it still exists

    world.store.patch(QUEUES, "gpus", patches.merge({"spec": {"admissionChecksStrategy": None}}))
    world.settle()
    assert not exists(world, CHECKS, "budget")


def test_a_check_goes_with_the_last_queue_that_asks_for_it() -> None:
    world = ready_world()
    asking = {"admissionChecks": [{"name": "budget"}]}
    world.add(make_check(), make_cluster_queue("other", admissionChecksStrategy=asking))
    world.settle()
    world.store.delete(CHECKS, "budget")
    world.settle()
    assert exists(world, CHECKS, "budget")

    world.store.delete(QUEUES, "other")
    world.settle()
    assert not exists(world, CHECKS, "budget")


def test_a_topology_gets_the_finalizer_and_goes_with_the_last_flavor_that_names_it() -> None:
    world = ready_world()
    placed = make_flavor("placed")
    placed["spec"]["topologyName"] = "racks"
    levels = [{"nodeLabel": "kubernetes.io/hostname"}]
    world.add(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Topology",
            "metadata": {"name": "racks"},
            "spec": {"levels": levels},
        },
        placed,
    )
    world.settle()
    assert held(world, TOPOLOGIES, "racks") == [HELD]

    world.store.delete(TOPOLOGIES, "racks")
    world.settle()
    assert exists(world, TOPOLOGIES, "racks")

    world.store.delete(FLAVORS, "placed")
    world.settle()
    assert not exists(world, TOPOLOGIES, "racks")


def test_a_queue_that_is_held_by_somebody_else_too_loses_only_our_finalizer() -> None:
    world = ready_world()
    change: Any = {"metadata": {"finalizers": [HELD, "example.com/mine"]}}
    world.store.patch(QUEUES, "gpus", patches.merge(change))
    world.settle()
    world.store.delete(QUEUES, "gpus")
    world.settle()
    assert held(world, QUEUES, "gpus") == ["example.com/mine"]


def test_a_restarted_controller_finishes_the_deletion() -> None:
    world = ready_world()
    world.store.delete(QUEUES, "gpus")
    world.store.delete(FLAVORS, "a100")
    successor = world.restarted()
    successor.settle()
    assert not exists(successor, QUEUES, "gpus")
    assert not exists(successor, FLAVORS, "a100")


def test_nothing_is_written_while_nothing_changes() -> None:
    world = ready_world()
    world.pass_time(5)
    before = len(world.sent)
    world.pass_time(10)
    assert len(world.sent) == before
    assert WritePurpose.KEEP_METADATA not in {write.operation for write in world.sent}


def test_a_flavor_that_is_being_deleted_admits_while_a_queue_lists_it() -> None:
    world = ready_world()
    world.store.delete(FLAVORS, "a100")
    world.settle()
    assert world.store.get(FLAVORS, "a100")["metadata"]["deletionTimestamp"]

    world.add_pod("train")
    world.pass_time(2)

    assert world.admitted() == {"train"}
    assert active(world) == ("True", "Ready")
