"""Pods of a Deployment that is rolled out on a full quota: who holds it, and who gets it next."""

from typing import Any

import pytest

from admission.base import conditions, names, patches
from admission.controller.watched_owners.owner_writes import resource_of
from admission.kube import resources
from admission.objects import views
from admission.owners import serving
from admission.owners.serving_group import ServingDocument
from tests.chaos import invariants
from tests.controller.test_audit import Audits
from tests.controller.world import World, ready_world

DEPLOYMENTS = resource_of(serving.DEPLOYMENT.kind)

SURGES = "; the previous revision of Deployment web holds quota: set maxSurge: 0; "


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
    assert SURGES in said(world, "new")

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
    world.shown[DEPLOYMENTS] = (ServingDocument(metadata=meta, spec=spec),)
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
    assert Audits(world).auditor.audit() == {}

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
    found = world.parts.owners.rollouts
    assert (found._pods, found._of, found._keys, found._keeping) == ({}, {}, {}, set())


def test_nothing_is_remembered_of_a_pod_that_goes_before_its_workload_ends() -> None:
    world = ready_world(quota=2)
    deploy(world, 0)
    add(world, "pod", "a1")
    rollouts = world.core._rollouts
    rollouts.on_delete(world.store.get(resources.PODS, "pod", "ml")["metadata"]["uid"])
    assert rollouts._pods, "its Workload is charged still"
    world.store.delete(resources.WORKLOADS, world.workloads()["pod"].metadata.name, "ml")
    world.delete_pod("pod")
    world.settle()
    assert (rollouts._pods, rollouts._of) == ({}, {})


# ------------------------------------------------------------- the later pod comes first

ROLLING: dict[str, Any] = {
    "type": "RollingUpdate",
    "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
}
GPU = "a100/nvidia.com/gpu"


def surging_world(surge: int = 1, quota: int = 2, replicas: int = 2) -> World:
    """Return a full queue with surge quota whose pods are those of a Deployment that surges."""
    world = ready_world(quota=quota)
    annotation = patches.merge(
        {"metadata": {"annotations": {names.SURGE_QUOTA: f"{GPU}={surge}"}}}
    )
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", annotation)
    deploy(world, replicas, **ROLLING)
    for index in range(replicas):
        add(world, f"old-{index}", "a1")
    world.add_pod("other")
    world.pass_time(3)
    return world


def surges(world: World, name: str) -> tuple[str, str]:
    """Return what the Workload of a pod says of surge quota."""
    found = world.workloads()[name].status.condition(conditions.USES_SURGE_QUOTA)
    return ("", "") if found is None else (found.status, found.reason)


def in_use(world: World) -> list[str]:
    """Return what the ClusterQueue says of surge quota."""
    kind = conditions.SURGE_QUOTA_IN_USE
    return [one["message"] for one in world.status_of("gpus")["conditions"] if one["type"] == kind]


def judged(world: World) -> list[str]:
    """Return which limits are exceeded, by arithmetic of its own."""
    workloads = world.store.list(resources.WORKLOADS, into=dict).items
    queues = world.store.list(resources.CLUSTER_QUEUES, into=dict).items
    return invariants.over_quota(queues, workloads)


def test_a_pod_that_surges_uses_surge_quota_until_an_earlier_one_has_ended() -> None:
    world = surging_world()
    add(world, "new-0", "b2")
    assert surges(world, "new-0") == ("True", "Surge")
    assert (used(world), judged(world)) == ("3", [])
    message = "Pods of rolling updates use 1 of 1 nvidia.com/gpu in flavor a100 of the surge quota"
    assert in_use(world) == [message]
    assert Audits(world).auditor.audit() == {}
    restarted = world.restarted()
    restarted.shown = world.shown
    restarted.pass_time(2)
    assert (restarted.is_gated("other"), surges(restarted, "new-0")) == (True, ("True", "Surge"))

    end(world, "old-0")
    world.pass_time(2)
    assert surges(world, "new-0") == ("False", "InQuota")
    assert (used(world), in_use(world), judged(world)) == ("2", [], [])
    assert world.is_gated("other")  # who waits for quota got nothing of what the earlier pod held

    add(world, "new-1", "b2")
    end(world, "old-1")
    world.pass_time(70)
    assert world.admitted() == {"new-0", "new-1"}
    assert (used(world), in_use(world), judged(world)) == ("2", [], [])


@pytest.mark.parametrize(
    ("pod", "deployed"),
    [
        ({"revision": "a1"}, {}),
        ({"revision": "b2", "gpus": 2}, {}),
        ({"revision": "b2", "deployment": "strange"}, {}),
        ({"revision": "b2"}, {"type": "Recreate"}),
        ({"revision": "b2"}, None),
    ],
    ids=["scaled up", "larger", "another's", "does not surge", "no Deployment"],
)
def test_others_get_no_surge_quota(pod: dict[str, Any], deployed: dict[str, Any] | None) -> None:
    world = surging_world(surge=5)
    if deployed is None:
        world.shown[DEPLOYMENTS] = ()
    elif deployed:
        deploy(world, 2, **deployed)
    add(world, "new", **pod)
    assert (world.is_gated("new"), used(world)) == (True, "2")


@pytest.mark.parametrize(("surge", "strategy", "expected"), [(1, 2, 1), (5, 1, 1), (0, 2, 0)])
def test_no_more_pods_surge_than_the_strategy_and_the_surge_quota_allow(
    surge: int, strategy: int, expected: int
) -> None:
    world = surging_world(surge)
    rolling = {"maxSurge": strategy, "maxUnavailable": 0}
    deploy(world, 2, type="RollingUpdate", rollingUpdate=rolling)
    for index in range(3):
        add(world, f"new-{index}", "b2")
    assert len([one for one in world.admitted() if one.startswith("new")]) == expected
    assert judged(world) == []


@pytest.mark.parametrize(("surge", "waits"), [(1, True), (2, False)])
def test_a_pod_surges_only_where_all_that_it_asks_for_is_left(surge: int, waits: bool) -> None:
    world = surging_world(surge, quota=3, replicas=0)
    deploy(world, 1, **ROLLING)
    add(world, "old-0", "a1", gpus=2)
    world.pass_time(3)
    add(world, "new-0", "b2", gpus=2)
    assert (world.is_gated("new-0"), used(world)) == (waits, "3" if waits else "5")
    assert judged(world) == []


def test_who_scales_up_during_a_rollout_keeps_no_surge_quota() -> None:
    world = surging_world()
    add(world, "new-0", "b2")
    deploy(world, 3, **ROLLING)
    world.pass_time(30)
    assert surges(world, "new-0") == ("True", "Surge")  # a moment, for quota to become free
    world.pass_time(40)
    assert world.admitted() == {"old-0", "old-1"}
    assert (used(world), in_use(world)) == ("2", [])


def test_nothing_surges_once_its_deployment_is_gone() -> None:
    """Its pods stay where it was deleted with ``--cascade=orphan``."""
    world = surging_world()
    add(world, "new-0", "b2")
    world.shown[DEPLOYMENTS] = ()
    world.pass_time(30)
    assert surges(world, "new-0") == ("True", "Surge")  # a moment, for quota to become free
    world.pass_time(40)
    assert world.admitted() == {"old-0", "old-1"}
    assert (used(world), in_use(world)) == ("2", [])


def test_nothing_surges_once_all_pods_of_the_earlier_revision_have_ended() -> None:
    """As beside a Deployment of the same name that wants no pods, and does not own these."""
    world = surging_world()
    add(world, "new-0", "b2")
    deploy(world, 0, **ROLLING)
    end(world, "old-0")
    end(world, "old-1")
    world.pass_time(3)
    assert {"new-0", "other"} <= world.admitted()
    assert (used(world), in_use(world)) == ("2", [])


def test_surge_quota_of_a_pod_that_goes_is_free_at_once() -> None:
    world = surging_world()
    add(world, "new-0", "b2")
    end(world, "new-0")
    world.pass_time(1)
    assert (used(world), in_use(world)) == ("2", [])
    add(world, "new-1", "b2")
    assert surges(world, "new-1") == ("True", "Surge")


def test_a_rollout_whose_pods_crash_keeps_its_surge_quota_until_they_are_gone() -> None:
    world = surging_world()
    add(world, "new-0", "b2")
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    status = {"name": "a", "image": "a", "imageID": "a", "restartCount": 9, "ready": False}
    change = {"status": {"phase": "Running", "containerStatuses": [{**status, "state": waits}]}}
    world.store.patch(resources.PODS, "new-0", patches.merge(change), "ml", subresource="status")
    world.pass_time(300)
    assert (surges(world, "new-0"), used(world)) == (("True", "Surge"), "3")
    end(world, "new-0")
    world.pass_time(1)
    assert (used(world), in_use(world)) == ("2", [])


def test_nobody_preempts_a_pod_that_surges_and_it_preempts_nobody() -> None:
    world = surging_world()
    preemption = patches.merge({"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}})
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", preemption)
    add(world, "new-0", "b2")
    world.add_pod("high", gpus=2, priority=1000)
    world.pass_time(3)
    assert "high" in world.admitted()
    assert judged(world) == []
