"""Pods of a Deployment that is rolled out on a full quota: who holds it, and who gets it next."""

from typing import Any

import pytest

from admission.base import names, patches
from admission.controller.watched_owners.owners import resource_of
from admission.kube import resources
from admission.objects import views
from admission.owners import serving
from admission.owners.serving_group import Document
from tests.controller.world import World, ready_world

DEPLOYMENTS = resource_of(serving.DEPLOYMENT.kind)

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


# ------------------------------------------------------------- the earlier pod goes first


def deploy(world: World, replicas: int = 1, name: str = "web", **strategy: Any) -> None:
    """Show a Deployment in a queue."""
    meta = views.ObjectMeta(
        namespace="ml", name=name, uid=f"uid-{name}", labels={names.QUEUE_LABEL: "team-a"}
    )
    spec: dict[str, Any] = {"replicas": replicas, "strategy": strategy or {"type": "Recreate"}}
    world.shown[DEPLOYMENTS] = (Document(metadata=meta, spec=spec),)
    world.settle()


def end(world: World, name: str) -> None:
    """Delete a pod, which ends, as its ReplicaSet does when it is scaled down."""
    world.delete_pod(name)
    world.settle()


def used(world: World) -> str:
    return str(world.status_of("gpus")["flavorsReservation"][0]["resources"][0]["total"])


def test_the_quota_of_a_pod_that_goes_first_is_kept_for_the_pod_that_replaces_it() -> None:
    world = ready_world(quota=2)
    deploy(world)
    add(world, "old", "a1", gpus=2)
    world.add_pod("other", gpus=2)
    world.pass_time(3)
    end(world, "old")
    world.pass_time(30)
    assert (world.is_gated("other"), used(world)) == (True, "2")  # for a minute nobody else

    add(world, "new", "b2", gpus=2)
    assert world.admitted() == {"new"}
    assert used(world) == "2"
    world.pass_time(70)
    assert used(world) == "2"


@pytest.mark.parametrize("size", [1, 3], ids=["smaller", "larger"])
def test_a_replacement_of_another_size_leaves_nothing_behind(size: int) -> None:
    world = ready_world(quota=3)
    deploy(world)
    add(world, "old", "a1", gpus=2)
    world.add_pod("other", gpus=2)
    world.pass_time(3)
    end(world, "old")
    add(world, "new", "b2", gpus=size)
    expected = {1: ({"new", "other"}, "3"), 3: ({"other"}, "2")}
    assert (world.admitted(), used(world)) == expected[size]
    end(world, "other")
    world.pass_time(5)
    assert (world.admitted(), used(world)) == ({"new"}, str(size))


def test_the_quota_of_a_pod_that_nobody_replaces_is_given_back() -> None:
    world = ready_world(quota=2)
    deploy(world)
    add(world, "old", "a1", gpus=2)
    world.add_pod("other", gpus=2)
    end(world, "old")
    world.pass_time(62)
    assert (world.admitted(), used(world)) == ({"other"}, "2")


@pytest.mark.parametrize("gone", [False, True], ids=["scaled to 0", "deleted"])
def test_nothing_is_kept_for_a_deployment_that_wants_no_more_pods(gone: bool) -> None:
    world = ready_world(quota=2)
    deploy(world)
    add(world, "old", "a1", gpus=2)
    world.add_pod("other", gpus=2)
    world.pass_time(3)
    end(world, "old")
    assert world.is_gated("other")
    if gone:
        world.shown[DEPLOYMENTS] = ()
    else:
        deploy(world, 0)
    world.pass_time(1)
    assert world.admitted() == {"other"}


def test_no_more_is_kept_than_a_deployment_wants_pods() -> None:
    world = ready_world(quota=4)
    deploy(world, 2)
    for name in "abc":
        add(world, name, "a1")
    for name in "abc":
        end(world, name)
    assert used(world) == "2"


def test_nothing_is_kept_of_a_pod_that_was_preempted() -> None:
    world = ready_world(quota=2)
    preemption = patches.merge({"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}})
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", preemption)
    deploy(world)
    add(world, "old", "a1", gpus=2)
    world.add_pod("high", gpus=2, priority=1000)
    world.pass_time(3)
    assert world.admitted() == {"high"}


def test_one_deployment_takes_nothing_of_another() -> None:
    world = ready_world(quota=2)
    deploy(world)
    add(world, "old", "a1", gpus=2)
    end(world, "old")
    add(world, "theirs", "b2", "other", gpus=2)
    assert world.is_gated("theirs")
    add(world, "new", "b2", gpus=2)
    assert world.admitted() == {"new"}


def test_nothing_is_remembered_of_pods_that_are_gone() -> None:
    world = ready_world(quota=2)
    deploy(world, 0)
    for turn in range(3):
        add(world, f"pod-{turn}", "a1")
        end(world, f"pod-{turn}")
    world.pass_time(3)
    found = world.core._rollouts
    assert (found._pods, found._of, found._keys, found._keeping) == ({}, {}, {}, set())
