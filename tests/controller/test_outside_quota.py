"""What an administrator has let run outside of quota is charged, and never stopped for it."""

from typing import Any
from unittest import mock

import pytest

from admission.admin.outside_quota import EVERYTHING, ReleaseError, Releaser, Selection
from admission.answers import why
from admission.base import conditions, names, patches
from admission.kube import errors, resources
from admission.objects import views
from admission.owners import integrations
from tests.builders.cluster import make_namespace
from tests.builders.jobs import queued_job
from tests.builders.pods import make_pod
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.controller.test_capacity import add, bind, guarded, make_world
from tests.controller.test_capacity import node as gpu_node
from tests.controller.world import World, ready_world


def releaser(world: World) -> Releaser:
    return Releaser(world.store, integrations.DEFAULT, world.clock, world.clock.advance)


def let_run(world: World, chosen: Selection = EVERYTHING) -> set[str]:
    """Names of what was let run."""
    found = releaser(world)
    return {one.name for one in (*found.owners(chosen), *found.pods(chosen))}


def full_world() -> World:
    """The quota of 4 is in use, and another pod of 2 waits."""
    world = ready_world(quota=4)
    world.add_pod("first", gpus=4)
    world.settle()
    world.add_pod("second", gpus=2)
    world.settle()
    assert world.is_gated("second")
    return world


def usage(world: World) -> int:
    (flavor,) = world.status_of("gpus")["flavorsUsage"]
    return int(flavor["resources"][0]["total"])


@pytest.mark.parametrize("restarts", [False, True])
def test_a_pod_that_is_let_run_is_charged_and_goes_on(restarts: bool) -> None:
    world = full_world()
    assert let_run(world) == {"second"}
    assert world.pod("second").metadata.annotation(names.OUTSIDE_QUOTA)
    if restarts:
        world = world.restarted()
    world.pass_time(90)
    assert world.admitted() == {"first", "second"}
    assert world.workloads()["second"].status.is_true(conditions.ADMITTED)
    assert usage(world) == 6
    notes = {note for name, reason, note in world.events.recorded if reason == "Charged"}
    told = "An administrator let it run outside of quota: it is charged to ClusterQueue gpus, even"
    assert restarts or notes == {f"{told} above its quota"}
    outside = "an administrator let it run outside of quota at 2026-01-01T00:00:00Z"
    notes_of = {
        name: why.explain(world.store, "ml", f"pod/{name}").notes for name in ("first", "second")
    }
    assert any(note.startswith(outside) for note in notes_of["second"])
    assert not any(note.startswith(outside) for note in notes_of["first"])


@pytest.mark.parametrize("release_first", [True, False])
@pytest.mark.parametrize("quota", [4, 8], ids=["quota ends", "the node ends"])
def test_what_is_let_run_takes_from_what_exists_before_it_has_a_node(
    quota: int, release_first: bool
) -> None:
    made = make_world(
        gpu_node("n0", gpu=4), guarded(make_cluster_queue(quota=quota)), make_local_queue()
    )
    add(made, "first", gpus=4)
    bind(made, "first", "n0")
    add(made, "before", gpus=2)
    add(made, "urgent", gpus=3)
    urgent = Selection(kind="pod", name="urgent")
    if release_first:
        let_run(made, urgent)
        made.delete_pod("first")
    else:
        made.delete_pod("first")
        let_run(made, urgent)
    made.settle()
    assert made.admitted() == {"urgent"}
    assert not made.pod("urgent").spec.node_name


def test_what_is_let_run_tolerates_the_taints_of_all_flavors_of_its_queue() -> None:
    world = full_world()
    world.add(queued_job("train"))
    world.settle()
    world.store.patch(
        resources.PODS,
        "second",
        patches.merge({"spec": {"tolerations": [{"key": "mine", "operator": "Exists"}]}}),
        "ml",
    )
    assert let_run(world) == {"second", "train"}
    job = world.store.get(resources.JOBS, "train", "ml")
    pod = world.store.get(resources.PODS, "second", "ml")
    for spec, keys in (
        (pod["spec"], ["mine", names.GPU_RESOURCE]),
        (job["spec"]["template"]["spec"], [names.GPU_RESOURCE]),
    ):
        tolerated = [toleration["key"] for toleration in spec["tolerations"]]
        assert [key for key in tolerated if not key.startswith("node.kubernetes.io/")] == keys
        assert "nodeSelector" not in spec


def flavored_world() -> World:
    """Two flavors, of which the first is full; a pod and a Job wait."""
    world = World()
    world.add(
        make_namespace(),
        make_flavor("first", node_labels={"pool": "first"}),
        make_flavor("second", node_labels={"pool": "second"}),
        make_cluster_queue(quota=0, flavors=("first", "second")),
        make_local_queue(),
        gpu_node("n1", labels={"pool": "first"}, gpu=8),
        gpu_node("n2", labels={"pool": "second"}, gpu=8),
    )
    world.add_pod("second", gpus=2)
    world.add(queued_job("train", pods=1, gpus=4))
    world.settle()
    return world


def usage_by_flavor(world: World) -> dict[str, int]:
    return {
        flavor["name"]: int(flavor["resources"][0]["total"])
        for flavor in world.status_of("gpus")["flavorsUsage"]
    }


@pytest.mark.parametrize("has_room", [False, True])
@pytest.mark.parametrize("is_bound_first", [False, True])
def test_what_is_let_run_is_charged_to_the_flavor_of_its_node_once_it_has_one(
    is_bound_first: bool, has_room: bool
) -> None:
    world = flavored_world()
    let_run(world)
    if has_room:  # in the first flavor: it is not admitted there again
        queue = make_cluster_queue(quota=100, flavors=("first", "second"))
        change = patches.merge({"spec": queue["spec"]})
        world.store.patch(resources.CLUSTER_QUEUES, "gpus", change)
    if not is_bound_first:
        world.pass_time(90)
        assert usage_by_flavor(world) == {"first": 6, "second": 0}
    job = world.store.get(resources.JOBS, "train", "ml")
    template, metadata = job["spec"]["template"], job["metadata"]
    owner = {
        "apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": metadata["uid"],
        "controller": True,
    }  # fmt: skip
    world.add(
        make_pod(
            "train-0",
            namespace="ml",
            labels=template["metadata"]["labels"],
            annotations=template["metadata"]["annotations"],
            metadata={"ownerReferences": [owner]},
            gpus=4,
        )
    )
    for name in ("second", "train-0"):
        change = patches.merge({"spec": {"nodeName": "n2"}})
        world.store.patch(resources.PODS, name, change, "ml")
    world.pass_time(90)
    assert usage_by_flavor(world) == {"first": 0, "second": 6}
    world = world.restarted()
    world.pass_time(90)
    assert usage_by_flavor(world) == {"first": 0, "second": 6}


def test_a_pod_that_is_let_run_goes_on_without_its_queue_and_is_charged_when_it_is_back() -> None:
    world = full_world()
    let_run(world)
    world.store.delete(resources.LOCAL_QUEUES, "team-a", "ml")
    world.store.delete(resources.CLUSTER_QUEUES, "gpus")
    world.pass_time(90)
    assert world.admitted() == {"first", "second"}


def test_a_pod_whose_workload_is_deleted_at_once_is_charged_with_another() -> None:
    world = full_world()
    name = world.workloads()["second"].metadata.name
    world.store.delete(resources.WORKLOADS, name, "ml")
    let_run(world)
    world.pass_time(90)
    assert world.admitted() == {"first", "second"}
    assert world.workloads()["second"].status.is_true(conditions.ADMITTED)


def test_a_pod_that_was_evicted_while_it_waited_goes_on() -> None:
    world = full_world()
    found = world.workloads()["second"].metadata
    evicted = {
        "type": conditions.EVICTED, "status": "True", "reason": "Preempted", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    change = patches.merge({"status": {"conditions": [evicted]}})
    world.store.patch(resources.WORKLOADS, found.name, change, "ml", subresource="status")
    let_run(world)
    world.pass_time(90)
    assert "second" in world.admitted()


def test_a_deactivated_pod_that_is_let_run_goes_on() -> None:
    world = full_world()
    name = world.workloads()["second"].metadata.name
    inactive = patches.merge({"spec": {"active": False}})
    world.store.patch(resources.WORKLOADS, name, inactive, "ml")
    world.settle()
    let_run(world)
    world.pass_time(90)
    assert "second" in world.admitted()


def test_a_pod_in_a_queue_with_checks_goes_on() -> None:
    world = full_world()
    strategy = {"admissionChecks": [{"name": "budget"}]}
    queue = make_cluster_queue(quota=4, admissionChecksStrategy=strategy)
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", patches.merge({"spec": queue["spec"]}))
    world.settle()
    let_run(world)
    world.pass_time(90)
    assert "second" in world.admitted()


def test_without_the_mark_a_pod_that_lost_its_gate_is_stopped() -> None:
    world = full_world()
    world.store.patch(
        resources.PODS, "second", patches.merge({"spec": {"schedulingGates": None}}), "ml"
    )
    world.pass_time(5)
    names_left = {p.metadata.name for p in world.store.list(resources.PODS, into=views.Pod).items}
    assert names_left == {"first"}


def test_a_job_that_is_let_run_is_charged_and_goes_on() -> None:
    world = full_world()
    world.add(queued_job("job", pods=2))
    world.settle()
    assert let_run(world, Selection(kind="job")) == {"job"}
    world.pass_time(90)
    job: dict[str, Any] = world.store.get(resources.JOBS, "job", "ml")
    assert job["spec"]["suspend"] is False
    assert job["metadata"]["annotations"][names.OUTSIDE_QUOTA]
    assert world.workloads()["job"].status.is_true(conditions.ADMITTED)
    assert world.is_gated("second")
    assert usage(world) == 6


def test_only_what_is_chosen_is_let_run() -> None:
    world = full_world()
    world.add_pod("third", gpus=1)
    world.settle()
    assert let_run(world, Selection(namespace="elsewhere")) == set()
    assert let_run(world, Selection(namespace="ml", kind="pod", name="third")) == {"third"}
    assert world.is_gated("second")


def test_all_pods_of_a_group_are_let_run_together() -> None:
    world = full_world()
    for name in ("a", "b"):
        world.add_pod(
            name,
            labels={names.POD_GROUP_NAME: "gang"},
            annotations={names.POD_GROUP_TOTAL_COUNT: "2"},
        )
    world.settle()
    assert let_run(world, Selection(name="a", kind="pod")) == {"a", "b"}
    world.pass_time(90)
    assert world.admitted() == {"first", "a", "b"}
    assert usage(world) == 6


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        ("pod", "other", "pod/other does not exist in namespace ml"),
        ("jobs", "second", "jobs/second does not exist in namespace ml"),
        ("node", "n1", "node is not a kind that is let run; these are: "),
    ],
)
def test_what_does_not_exist_cannot_be_let_run(kind: str, name: str, says: str) -> None:
    world = full_world()
    with pytest.raises(ReleaseError, match=says):
        releaser(world).require(Selection(namespace="ml", kind=kind, name=name))
    releaser(world).require(Selection(namespace="ml", kind="pod", name="second"))


@pytest.mark.parametrize("is_dry_run", [False, True])
@pytest.mark.parametrize("queue", ["forbidden", "missing", "without a spec", "unnamed"])
def test_work_is_let_run_at_once_where_its_queue_is_unknown(queue: str, is_dry_run: bool) -> None:
    world = full_world()
    name = "" if queue == "unnamed" else "team-a"
    world.add(queued_job("job", queue=name))
    world.settle()
    answers: dict[str, Any] = {
        "forbidden": errors.make(403, "localqueues is forbidden", reason="Forbidden"),
        "missing": errors.make(404, "localqueues not found", reason="NotFound"),
        "without a spec": {"metadata": {"name": "team-a", "namespace": "ml"}},
        "unnamed": AssertionError("a LocalQueue without a name was asked for"),
    }
    get = type(world.store).get

    def answer(store: Any, resource: Any, *place: Any, **more: Any) -> Any:
        if resource != resources.LOCAL_QUEUES:
            return get(store, resource, *place, **more)
        if isinstance(answers[queue], BaseException):
            raise answers[queue]
        return answers[queue]

    def wait(_: float) -> None:
        pytest.fail("it waits for a right that only names the queue")

    found = Releaser(world.store, integrations.DEFAULT, world.clock, wait, is_dry_run=is_dry_run)
    with mock.patch.object(type(world.store), "get", answer):
        assert [one.name for one in found.owners(Selection(kind="job"))] == ["job"]
    assert found.charged == {}
    job = world.store.get(resources.JOBS, "job", "ml")
    assert job["spec"]["suspend"] is is_dry_run
