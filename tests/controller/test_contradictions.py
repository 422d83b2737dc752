"""What can never start says so and holds no quota; it is tried again when something changes."""

from typing import Any

import pytest

from admission.base import conditions, names, patches
from admission.kube import resources
from admission.scheduling.model import Config
from tests.builders.cluster import make_namespace
from tests.builders.jobs import queued_job
from tests.builders.pods import queued_pod
from tests.builders.queues import (
    make_class,
    make_cluster_queue,
    make_cohort,
    make_flavor,
    make_group,
    make_local_queue,
)
from tests.controller.world import World, add_checked_queue, ready_world

POOL = "example.com/pool"
PRODUCT = "nvidia.com/gpu.product"


def two_groups(*cpu_flavors: str) -> World:
    """A queue with a resource group for cpu and one for GPUs, whose flavor is in pool gpu."""
    groups = [
        make_group({name: {"cpu": "8"} for name in cpu_flavors}),
        make_group({"pool-gpu": {"nvidia.com/gpu": "8"}}),
    ]
    world = World(config=Config(consistent_flavors=True))
    world.add(
        make_namespace(),
        *(
            make_flavor(f"pool-{name}", node_labels={POOL: name}, tolerations=[])
            for name in ("cpu", "gpu")
        ),
        make_cluster_queue(resourceGroups=groups),
        make_local_queue(),
    )
    world.settle()
    return world


def add_pod(world: World, name: str = "train", **more: Any) -> None:
    world.add_pod(name, requests={"cpu": "1"}, **more)


def told(world: World, name: str = "train") -> tuple[str, str]:
    found = world.condition(name)
    assert found is not None
    return found.reason or "", found.message or ""


def condition_of_queue(world: World, kind: str, queue: str = "gpus") -> dict[str, Any] | None:
    listed = world.status_of(queue).get("conditions", [])
    return next((one for one in listed if one["type"] == kind), None)


def test_flavors_that_select_other_nodes_are_never_given_together() -> None:
    world = two_groups("pool-cpu")
    add_pod(world)
    world.pass_time(3)
    assert world.is_gated("train")
    assert world.workloads()["train"].status.admission is None
    reason, message = told(world)
    assert reason == "NoMatchingFlavor"
    assert "no node is in pool-cpu and in pool-gpu" in message
    found = condition_of_queue(world, conditions.FLAVORS_CONSISTENT)
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "FlavorsContradict")

    labels = patches.merge({"spec": {"nodeLabels": {POOL: "gpu"}}})
    world.store.patch(resources.RESOURCE_FLAVORS, "pool-cpu", labels)
    world.settle()
    assert not world.is_gated("train")
    assert condition_of_queue(world, conditions.FLAVORS_CONSISTENT) is None


def test_another_flavor_is_chosen_where_the_first_leaves_none_in_the_next_group() -> None:
    world = two_groups("pool-cpu", "pool-gpu")
    add_pod(world)
    world.settle()
    assert not world.is_gated("train")
    assert world.pod("train").spec.node_selector == {POOL: "gpu"}
    assert condition_of_queue(world, conditions.FLAVORS_CONSISTENT) is None


@pytest.mark.parametrize("has_gpus", [False, True])
def test_what_asks_for_one_group_only_is_not_concerned(has_gpus: bool) -> None:
    world = two_groups("pool-cpu")
    if has_gpus:
        world.add_pod("train")
    else:
        world.store.create(
            resources.PODS, queued_pod("train", gpus=0, requests={"cpu": "1"}), "ml"
        )
    world.settle()
    assert not world.is_gated("train")


# ------------------------------------------------------------------ pods that change as they wait


def two_products() -> World:
    world = World()
    world.add(
        make_namespace(),
        make_flavor("a100"),
        make_flavor("h100"),
        make_cluster_queue(flavors=("a100", "h100"), quota=1),
        make_local_queue(),
    )
    world.settle()
    return world


def narrow(world: World, name: str, product: str) -> None:
    change = patches.merge({"spec": {"nodeSelector": {PRODUCT: product}}})
    world.store.patch(resources.PODS, name, change, "ml")


def test_a_waiting_pod_that_is_narrowed_is_followed_and_keeps_its_place() -> None:
    world = two_products()
    world.add_pod("one")
    world.add_pod("other")
    world.settle()
    assert not world.is_gated("one")
    world.add_pod("narrowed")
    world.settle()
    before = world.workloads()["narrowed"].metadata.uid
    narrow(world, "narrowed", "h100")
    world.settle()
    (asked,) = world.workloads()["narrowed"].spec.pod_sets or ()
    assert asked.template.spec.node_selector == {PRODUCT: "h100"}
    assert world.workloads()["narrowed"].metadata.uid == before
    on_h100 = next(
        name
        for name in ("one", "other")
        if (world.pod(name).spec.node_selector or {})[PRODUCT] == "h100"
    )
    world.set_phase(on_h100, "Succeeded")
    world.settle()
    assert not world.is_gated("narrowed")
    assert world.pod("narrowed").spec.node_selector == {PRODUCT: "h100"}


def test_a_pod_that_is_narrowed_between_admission_and_start_is_admitted_anew() -> None:
    world = two_products()
    world.add_pod("train")
    world.observe()
    world.core.step()
    world.send_one()
    world.core.step()
    world.send_one()
    world.core.step()  # the release is decided, its write open
    narrow(world, "train", "h100")
    world.settle()
    assert not world.is_gated("train")
    admission = world.workloads()["train"].status.admission
    assert admission is not None
    (assigned,) = admission.pod_set_assignments or ()
    assert dict(assigned.flavors or {}) == {"nvidia.com/gpu": "h100"}


def test_a_pod_that_runs_is_followed_to_another_class_and_not_to_the_nodes_of_its_flavor() -> None:
    world = two_products()
    world.add(make_class("high", 1000), make_class("low", 1))
    world.add_pod("train", labels={names.PRIORITY_CLASS_LABEL: "low"})
    world.settle()
    assert world.pod("train").spec.node_selector == {PRODUCT: "a100"}
    change = patches.merge({"metadata": {"labels": {names.PRIORITY_CLASS_LABEL: "high"}}})
    world.store.patch(resources.PODS, "train", change, "ml")
    world.settle()
    found = world.workloads()["train"]
    assert found.spec.priority == 1000
    (asked,) = found.spec.pod_sets or ()
    assert not asked.template.spec.node_selector


# ------------------------------------------------------------------------ a cycle of Cohorts


def test_a_cycle_of_cohorts_is_told_by_its_queues_until_it_is_mended() -> None:
    world = ready_world()
    world.add(
        make_cohort("left", parentName="right"),
        make_cohort("right", parentName="left"),
        make_cluster_queue("circular", cohortName="left"),
        make_local_queue("circular", "circular"),
    )
    world.store.create(resources.PODS, queued_pod("train", queue="circular"), "ml")
    world.pass_time(3)
    found = condition_of_queue(world, conditions.ACTIVE, "circular")
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "CohortCycle")
    assert "left -> right -> left" in found["message"]
    assert world.is_gated("train")

    world.store.patch(resources.COHORTS, "right", patches.merge({"spec": {"parentName": None}}))
    world.settle()
    assert not world.is_gated("train")
    found = condition_of_queue(world, conditions.ACTIVE, "circular")
    assert found is not None
    assert found["status"] == "True"


# ------------------------------------------------------------------ what admission checks want


def check_wants(world: World, owner: str, product: str) -> None:
    """The check of a Workload is ready, and wants its pods on nodes of a product."""
    updates = [{"name": "main", "nodeSelector": {PRODUCT: product}}]
    check = {
        "name": "budget", "state": "Ready", "message": "", "podSetUpdates": updates,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    patch = patches.merge({"status": {"admissionChecks": [check]}})
    name = world.workloads()[owner].metadata.name
    world.store.patch(resources.WORKLOADS, name, patch, "ml", subresource="status")
    world.settle()


@pytest.mark.parametrize("is_job", [False, True], ids=["pod", "job"])
def test_a_check_that_contradicts_the_flavor_gives_quota_back_and_is_asked_again(
    is_job: bool,
) -> None:
    world = ready_world()
    add_checked_queue(world)
    if is_job:
        world.add(queued_job(queue="checked"))
    else:
        world.add_pod("train", queue="checked")
    world.settle()
    check_wants(world, "train", "H100")
    held = world.workloads()["train"]
    evicted = held.status.condition("Evicted")
    assert evicted is not None
    assert evicted.reason == conditions.FAILED_TO_START
    assert 'in admission check "budget"' in (evicted.message or "")
    assert held.status.condition("Finished") is None
    assert held.status.admission is None
    world.pass_time(5)
    if not is_job:
        assert "H100" in told(world)[1]
    world.pass_time(70)
    check_wants(world, "train", "a100")
    if is_job:
        assert world.store.get(resources.JOBS, "train", "ml")["spec"]["suspend"] is False
    else:
        assert not world.is_gated("train")
