"""Pods of a Deployment that is rolled out on a full quota say what holds it."""

from typing import Any

import pytest

from admission.kube import resources
from tests.controller.world import World, ready_world

SURGES = (
    "Quota is held by the previous revision of Deployment web, which goes only when this pod is "
    "available: set maxSurge: 0 and maxUnavailable: 1 in its strategy."
)


def add(world: World, name: str, revision: str, deployment: str = "web", **pod: Any) -> None:
    """Create a pod as the ReplicaSet of a revision does."""
    kind = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
    sets, named = resources.REPLICA_SETS, f"{deployment}-{revision}"
    if named not in {one["metadata"]["name"] for one in world.store.list(sets, into=dict).items}:
        world.store.create(sets, {**kind, "metadata": {"name": named}}, "ml")
    uid = world.store.get(sets, named, "ml")["metadata"]["uid"]
    owner = {**kind, "name": named, "uid": uid, "controller": True}
    world.add_pod(
        name, labels={"pod-template-hash": revision}, metadata={"ownerReferences": [owner]}, **pod
    )
    world.pass_time(3)


def said(world: World, name: str) -> str:
    found = world.condition(name)
    assert found is not None
    return found.message


def test_a_pod_that_surges_says_that_the_previous_revision_holds_the_quota() -> None:
    world = ready_world(quota=2)
    add(world, "old", "a1", gpus=2)
    add(world, "new", "b2", gpus=2)
    assert said(world, "new").endswith(SURGES)

    world.set_phase("old", "Succeeded")
    world.pass_time(3)
    assert world.admitted() == {"old", "new"}


@pytest.mark.parametrize(
    ("revision", "deployment"), [("a1", "web"), ("b2", "other")], ids=["scaled up", "another's"]
)
def test_other_pods_say_nothing_of_it(revision: str, deployment: str) -> None:
    world = ready_world(quota=2)
    add(world, "old", "a1", gpus=2)
    add(world, "new", revision, deployment, gpus=2)
    assert "previous revision" not in said(world, "new")


def test_it_is_not_said_of_a_pod_that_waits_for_something_else() -> None:
    world = ready_world(quota=2)
    add(world, "old", "a1", gpus=2)
    add(world, "new", "b2", gpus=3)
    assert "previous revision" not in said(world, "new")
