"""Pods that name their Workload: it is awaited, adopted, and ended where it does not match."""

from typing import Any

import pytest

from admission.base import names, patches
from admission.controller.writing.api_requests import WritePurpose
from admission.kube import resources
from admission.kube.api import Document
from admission.objects.workload import Workload
from tests.builders.workloads import make_pod_set, make_workload
from tests.controller.world import World, ready_world

NAMED = {names.PREBUILT_WORKLOAD: "wl"}
NOT_FOUND = 'Prebuilt workload "ml/wl" not found'
OUT_OF_SYNC = ("OutOfSync", "The prebuilt workload is out of sync with its user job")


def add_pod(world: World, name: str = "one", **changes: Any) -> None:
    world.add_pod(name, **{"gpus": 1, "annotations": NAMED, **changes})
    world.settle()


def add_prebuilt(world: World, name: str = "wl", count: int = 1, **container: Any) -> None:
    """A Workload that asks for what the pod does, but for the changes to its container."""
    spec = world.store.get(resources.PODS, "one", "ml")["spec"]
    spec = {**spec, "containers": [{**spec["containers"][0], **container}]}
    world.add(make_workload(name, make_pod_set("main", count, pod=spec)))
    world.settle()


def stored(world: World) -> dict[str, Workload]:
    found = world.store.list(resources.WORKLOADS, into=Workload).items
    return {one.metadata.name: one for one in found}


def finished(world: World, name: str = "wl") -> tuple[str, str] | None:
    found = stored(world)[name].status.condition("Finished")
    return (found.reason, found.message) if found else None


def exists(world: World, name: str = "one") -> bool:
    found: list[Document] = list(world.store.list(resources.PODS).items)
    return name in {one["metadata"]["name"] for one in found}


def hint(world: World, name: str = "one") -> tuple[str, str]:
    found = world.condition(name)
    assert found is not None
    return found.reason, found.message


def with_both(quota: int = 4, count: int = 1, **container: Any) -> World:
    world = ready_world(quota=quota)
    add_pod(world)
    add_prebuilt(world, count=count, **container)
    return world


def used(world: World) -> str:
    world.pass_time(2)
    usage = world.status_of("gpus")["flavorsUsage"]
    return str(usage[0]["resources"][0]["total"])


def change(world: World, name: str = "one", **members: Any) -> None:
    world.store.patch(resources.PODS, name, patches.merge(members), "ml")
    world.settle()


@pytest.mark.parametrize("where", ["annotations", "labels"])
def test_a_pod_stays_gated_without_the_workload_it_names_and_is_told_why(where: str) -> None:
    world = ready_world()
    document: dict[str, Any] = {"annotations": {}, where: NAMED}
    add_pod(world, **document)
    assert world.is_gated("one")
    assert stored(world) == {}
    assert hint(world) == ("PrebuiltWorkloadNotFound", NOT_FOUND)


def test_a_pod_is_released_with_the_workload_it_names_and_that_is_its_own_then() -> None:
    world = with_both()
    assert not world.is_gated("one")
    found, uid = stored(world), world.pod("one").metadata.uid
    assert set(found) == {"wl"}
    owner = found["wl"].metadata.controller()
    assert owner is not None
    assert (owner.kind, owner.name, owner.uid) == ("Pod", "one", uid)
    assert found["wl"].metadata.label(names.JOB_UID_LABEL) == uid
    assert world.pod("one").metadata.annotation(names.WORKLOAD_ANNOTATION) == "wl"
    operations = [one.operation for one in world.sent]
    assert operations.count(WritePurpose.ADOPT_WORKLOAD) == 1
    assert WritePurpose.CREATE_WORKLOAD not in operations
    assert used(world) == "1"


def test_a_workload_that_another_pod_controls_is_as_good_as_none() -> None:
    world = with_both()
    add_pod(world, "two")
    assert world.is_gated("two")
    assert hint(world, "two")[1] == f"{NOT_FOUND}: it is controlled by Pod one"
    world.delete_pod("one")
    world.settle()
    assert stored(world) == {}
    assert hint(world, "two")[1] == NOT_FOUND


@pytest.mark.parametrize("changes", [{"count": 2}, {"image": "other"}], ids=["count", "image"])
def test_a_workload_that_asks_otherwise_than_its_pod_ends_and_stays(
    changes: dict[str, Any],
) -> None:
    world = with_both(**changes)
    assert finished(world) == OUT_OF_SYNC
    assert world.is_gated("one")
    owner = stored(world)["wl"].metadata.controller()
    assert owner is not None
    assert owner.name == "one"
    assert used(world) == "0"


def test_an_evicted_pod_with_a_prebuilt_workload_is_deleted_and_its_workload_goes_along() -> None:
    world = with_both()
    inactive = patches.merge({"spec": {"active": False}})
    world.store.patch(resources.WORKLOADS, "wl", inactive, "ml")
    world.settle()
    assert not exists(world)
    world.settle()
    assert stored(world) == {}


def test_an_ended_pod_finishes_its_prebuilt_workload() -> None:
    world = with_both()
    world.set_phase("one", "Succeeded")
    world.settle()
    found = finished(world)
    assert found is not None
    assert found[0] == "Succeeded"
    assert used(world) == "0"


def test_a_pod_that_runs_without_the_workload_it_names_is_stopped() -> None:
    world = with_both()
    world.store.delete(resources.WORKLOADS, "wl", "ml")
    world.settle()
    assert not exists(world)
    assert (
        "one",
        "Stopped",
        "Stopped: the Workload that it names does not exist, so it has no quota",
    ) in world.events.recorded


def test_a_pod_of_the_same_name_that_names_the_same_workload_can_be_stopped_again() -> None:
    world = with_both()
    for _ in range(2):
        world.store.delete(resources.WORKLOADS, "wl", "ml")
        world.settle()
        assert not exists(world)
        add_pod(world)
        add_prebuilt(world)
        assert not world.is_gated("one")


def test_a_gated_pod_that_names_another_workload_gives_the_first_one_up() -> None:
    world = with_both(quota=0)
    add_prebuilt(world, "second")
    change(world, metadata={"annotations": {names.PREBUILT_WORKLOAD: "second"}})
    assert set(stored(world)) == {"second"}
    owner = stored(world)["second"].metadata.controller()
    assert owner is not None
    assert owner.name == "one"


def test_a_gated_pod_that_comes_to_name_a_workload_gives_up_the_one_it_had() -> None:
    world = ready_world(quota=0)
    add_pod(world, annotations={})
    add_prebuilt(world)
    change(world, metadata={"annotations": NAMED})
    assert set(stored(world)) == {"wl"}


def test_a_pod_does_not_take_the_workload_of_another_pod() -> None:
    world = ready_world()
    add_pod(world, annotations={})
    (name,) = stored(world)
    add_pod(world, "two", annotations={names.PREBUILT_WORKLOAD: name})
    assert world.is_gated("two")
    assert not world.is_gated("one")
    world.delete_pod("two")
    world.settle()
    assert set(stored(world)) == {name}


def test_a_new_leader_goes_on_with_what_a_pod_adopted() -> None:
    world = with_both().restarted()
    world.settle()
    assert exists(world)
    assert {one.operation for one in world.sent} <= {WritePurpose.QUEUE_STATUS}
