"""Pods that the API server held, as no review saw them (ADR 0084)."""

from typing import Any

import pytest

from admission.answers import why
from admission.base import conditions, names
from admission.kube import resources
from admission.objects import reviewed_pod, role_hash
from tests.builders.pods import queued_pod
from tests.controller.test_gangs import show, workload
from tests.controller.world import World, ready_world

UNREVIEWED = {names.UNREVIEWED: "gate,label"}


def create(world: World, name: str = "train", **pod: Any) -> None:
    """A pod as the API server holds it."""
    annotations = {**UNREVIEWED, **pod.pop("annotations", {})}
    world.store.create(resources.PODS, queued_pod(name, annotations=annotations, **pod), "ml")


def stored(world: World, name: str = "train") -> Any:
    return world.store.get(resources.PODS, name, "ml")


def said(world: World, name: str = "train") -> str:
    found = stored(world, name).get("status", {}).get("conditions", [])
    return next((one["message"] for one in found if one["type"] == conditions.POD_REVIEWED), "")


def test_it_gets_the_role_that_a_review_writes_and_starts() -> None:
    world = ready_world(quota=1)

    create(world)
    spec = reviewed_pod.from_dict(stored(world)).spec
    world.settle()

    pod = stored(world)
    assert pod["metadata"]["annotations"][names.ROLE_HASH] == role_hash.of(spec)
    assert not pod["spec"].get("schedulingGates")
    assert "The webhook did not answer" in said(world)
    told = [name for name, reason, _ in world.events.recorded if reason == "NotReviewed"]
    assert told == ["train"]


@pytest.mark.parametrize(("gpus", "state"), [(1, why.State.ADMITTED), (2, why.State.WAITING)])
def test_why_says_that_nobody_reviewed_it(gpus: int, state: why.State) -> None:
    world = ready_world(quota=1)

    create(world, gpus=gpus)
    world.settle()

    found = why.explain(world.store, "ml", "train")
    assert found.state is state
    assert f"not reviewed: {said(world)}" in found.notes


def test_why_says_nothing_of_reviews_of_a_pod_that_was_reviewed() -> None:
    world = ready_world(quota=1)

    world.add_pod("train")
    world.settle()

    assert why.explain(world.store, "ml", "train").notes == ()


@pytest.mark.parametrize("asked", [names.MIG_PROFILE, f"{names.GPU_MEMORY}.main"])
def test_it_says_which_annotations_are_without_effect(asked: str) -> None:
    world = ready_world(quota=1)

    create(world, annotations={asked: "1g.10gb"})
    world.settle()

    assert f"{asked}: without effect. Delete the pod and create it again" in said(world)


def test_it_becomes_a_member_of_the_podgroup_that_it_names() -> None:
    world = ready_world(quota=2)
    show(world, 2)

    for name in ("a", "b"):
        create(world, name, annotations={"scheduling.k8s.io/group-name": "gang"})
    world.settle()
    world.clock.advance(2)  # no more pods come
    world.settle()

    made = workload(world)
    assert made is not None
    assert [one.count for one in made.spec.pod_sets or ()] == [2]
    for name in ("a", "b"):
        assert not stored(world, name)["spec"].get("schedulingGates")
        assert said(world, name)


def test_one_that_a_review_saw_says_nothing() -> None:
    world = ready_world(quota=1)

    world.store.create(resources.PODS, queued_pod(), "ml")
    world.settle()

    assert not stored(world)["spec"].get("schedulingGates")
    assert said(world) == ""
