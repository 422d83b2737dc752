"""A ClusterQueue says which of its fields, and of its flavors', have no effect."""

from typing import Any

from admission.base import conditions, patches
from admission.kube import resources
from tests.builders.queues import make_cluster_queue
from tests.controller.world import World, ready_world

QUEUES, FLAVORS = resources.CLUSTER_QUEUES, resources.RESOURCE_FLAVORS


def said(world: World) -> dict[str, Any] | None:
    found = world.status_of("gpus")["conditions"]
    return next((one for one in found if one["type"] == conditions.SPEC_SUPPORTED), None)


def test_a_queue_of_fields_that_are_served_says_nothing() -> None:
    assert said(ready_world()) is None


def test_fields_without_effect_are_told_and_the_telling_ends_with_them() -> None:
    world = ready_world()
    asked = make_cluster_queue(
        concurrentAdmissionPolicy={"migration": {"mode": "RetainFirstAdmission"}}
    )
    world.store.patch(QUEUES, "gpus", patches.merge({"spec": asked["spec"]}))
    world.pass_time(2)

    found = said(world)
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "FieldsWithoutEffect")
    assert found["message"] == (
        "Without effect: spec.concurrentAdmissionPolicy (flavors are tried in their order)."
        " Remove what has no effect from the ClusterQueue"
    )

    none = {"spec": {"concurrentAdmissionPolicy": None}}
    world.store.patch(QUEUES, "gpus", patches.merge(none))
    world.pass_time(2)
    assert said(world) is None


def test_a_cap_that_no_review_saw_and_nobody_can_read_is_told_and_nothing_is_admitted() -> None:
    world = ready_world()
    key = "gpu-admission.dev/max-per-user"
    world.store.patch(QUEUES, "gpus", patches.merge({"metadata": {"annotations": {key: "eight"}}}))
    world.pass_time(2)

    found = said(world)
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "CapUnreadable")
    assert key in found["message"]
    active = next(c for c in world.status_of("gpus")["conditions"] if c["type"] == "Active")
    assert active["status"] == "False"

    world.store.patch(QUEUES, "gpus", patches.merge({"metadata": {"annotations": {key: None}}}))
    world.pass_time(2)
    assert said(world) is None
