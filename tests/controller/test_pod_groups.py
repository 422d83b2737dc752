"""Groups of pods: one Workload for all of them, started and stopped together."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from admission.answers import why
from admission.base import conditions, names, patches
from admission.controller.watched_owners.owner_writes import resource_of
from admission.controller.writing.api_requests import WritePurpose
from admission.kube import resources
from admission.kube.errors import NotFoundError
from admission.objects import views
from admission.objects.workload import Workload
from admission.owners import serving
from admission.owners.serving_group import ServingDocument
from tests.builders.cluster import make_node
from tests.builders.jobs import queued_job
from tests.builders.pods import group_pod, queued_pod
from tests.builders.queues import make_cluster_queue
from tests.builders.workloads import make_pod_set, make_workload
from tests.controller.world import World, ready_world

NODES = resources.NODES
STATEFUL_SETS = resource_of(serving.STATEFUL_SET.kind)
LASTING: dict[str, Any] = {"metadata": {"finalizers": ["example.com/hold"]}}
"""Of a pod that stays when it is deleted, and runs on for all that anybody can tell."""
NOT_RETRIABLE = {names.RETRIABLE_IN_GROUP: "false"}
FAST = {names.POD_GROUP_FAST_ADMISSION: "true"}
SERVING = {names.POD_GROUP_SERVING: "true"}
OF_A_SET = {**SERVING, **FAST, names.POD_SUSPENDING_PARENT: serving.STATEFUL_SET.parent}


def add(world: World, *pods: str, group: str = "gang", total: int = 2, **more: Any) -> None:
    """Create pods of a group, the first the oldest."""
    for name in pods:
        world.clock.advance(1)
        document = group_pod(name, group, total, **more)
        world.store.create(resources.PODS, document, "ml")


def workload(world: World, name: str = "gang") -> Workload:
    return world.store.get(resources.WORKLOADS, name, "ml", into=Workload)


def has_workload(world: World, name: str = "gang") -> bool:
    try:
        workload(world, name)
    except NotFoundError:
        return False
    return True


def is_true(world: World, kind: str, name: str = "gang") -> bool:
    return workload(world, name).status.is_true(kind)


def pods(world: World) -> set[str]:
    return {one.metadata.name for one in world.store.list(resources.PODS, into=views.Pod).items}


def run(world: World, *names_of: str) -> None:
    """Let pods run on a node, as kubelets do."""
    if "node" not in {one.metadata.name for one in world.store.list(NODES, into=views.Node).items}:
        world.add(make_node("node"))
    for name in names_of:
        spec = patches.merge({"spec": {"nodeName": "node"}})
        world.store.patch(resources.PODS, name, spec, "ml")
        world.set_phase(name, "Running")


def remove(world: World, *names_of: str) -> None:
    """Delete pods, and let them end at once."""
    free = patches.merge({"metadata": {"finalizers": None}})
    for name in names_of:
        if world.pod(name).metadata.finalizers:
            world.store.patch(resources.PODS, name, free, "ml")
            if name not in pods(world):
                continue
        world.store.delete(resources.PODS, name, "ml", grace_period_seconds=0)


def test_why_says_of_a_waiting_group_that_lost_a_pod_what_its_pods_say() -> None:
    world = ready_world(quota=1)
    add(world, "a", "b")
    world.settle()
    remove(world, "b")
    world.settle()
    for name in ("gang", "workload/gang", "a"):
        answer = why.explain(world.store, "ml", name)
        assert answer.reason == "PodGroupIncomplete"
        assert "is admitted when others have taken their place" in answer.message


# ------------------------------------------------------------------------ made and admitted


def test_a_group_waits_until_all_its_pods_are_there_and_starts_whole() -> None:
    world = ready_world()
    add(world, "a")
    world.settle()
    assert not has_workload(world)
    assert world.is_gated("a")

    add(world, "b")
    world.settle()

    made = workload(world)
    assert world.admitted() == {"a", "b"}
    assert [(one.name, one.count) for one in made.spec.pod_sets or ()] == [("gpus1", 2)]
    assert made.metadata.annotation(names.IS_GROUP_WORKLOAD) == "true"
    assert made.metadata.label(names.JOB_UID_LABEL) == ""
    owners = made.metadata.owner_references or ()
    assert [(one.kind, one.name, one.controller) for one in owners] == [
        ("Pod", "a", None),
        ("Pod", "b", None),
    ]
    assert world.pod("a").metadata.label(names.PODSET_LABEL) == "gpus1"
    assert "Started" not in {reason for _, reason, _ in world.events.recorded}
    assert world.pod("a").metadata.annotation(names.WORKLOAD_ANNOTATION) == "gang"


def test_each_role_is_a_pod_set() -> None:
    world = ready_world()
    add(world, "driver", gpus=2, total=3)
    add(world, "b", "c", gpus=1, total=3)
    world.settle()

    found = [(one.name, one.count) for one in workload(world).spec.pod_sets or ()]
    assert found == [("gpus1", 2), ("gpus2", 1)]
    assert world.admitted() == {"driver", "b", "c"}


def test_of_two_groups_on_quota_for_one_the_second_waits_whole() -> None:
    world = ready_world(quota=4)
    for group in ("x", "y"):
        add(world, *(f"{group}{number}" for number in range(4)), group=group, total=4)
    world.settle()
    assert world.admitted() == {"x0", "x1", "x2", "x3"}
    world.pass_time(3)
    told = world.condition("y0")
    assert told is not None
    assert (told.status, told.reason) == ("False", "WaitingForQuota")

    for number in range(4):
        world.set_phase(f"x{number}", "Succeeded")
    world.settle()

    assert is_true(world, conditions.FINISHED, "x")
    assert world.admitted() == {f"{g}{n}" for g in "xy" for n in range(4)}


def test_the_label_names_the_group_too_and_the_annotation_wins() -> None:
    world = ready_world()
    document = group_pod("a", total=1, labels={names.POD_GROUP_NAME: "other"})
    world.store.create(resources.PODS, document, "ml")
    world.settle()
    assert has_workload(world, "gang")


def test_priority_queue_time_limit_and_admission_gates_come_from_the_first_pod() -> None:
    world = ready_world()
    labels = {names.MAX_EXEC_TIME_LABEL: "60"}
    add(world, "a", labels=labels, annotations={names.ADMISSION_GATED_BY: "example.com/x"})
    add(world, "b", labels=labels)
    world.settle()

    made = workload(world)
    assert made.spec.queue_name == "team-a"
    assert made.spec.maximum_execution_time_seconds == 60
    assert made.metadata.annotation(names.ADMISSION_GATED_BY) == "example.com/x"
    assert world.admitted() == set()


# -------------------------------------------------------------------------- why it is not made


def test_an_incomplete_group_says_on_its_first_pod_how_many_are_there() -> None:
    world = ready_world()
    add(world, "a", "b", total=3)
    world.pass_time(2)

    first, other = world.condition("a"), world.condition("b")
    assert first is not None
    assert other is not None
    assert first.reason == conditions.GROUP_INCOMPLETE
    assert first.message.startswith("2 of 3 pods of group gang are there")
    assert other.message == "waits for its group; pod a says what for"
    assert ("a", "ErrWorkloadCompose", first.message) in world.events.recorded


@pytest.mark.parametrize(
    ("total", "is_whole"), [("+2", True), ("9" * 5000, False)], ids=["with a sign", "without end"]
)
def test_the_number_of_pods_is_read_as_the_review_reads_it(total: str, is_whole: bool) -> None:
    world = ready_world()
    add(world, "a", "b", annotations={names.POD_GROUP_TOTAL_COUNT: total})
    world.pass_time(2)
    assert pods(world) == {"a", "b"}
    assert world.admitted() == ({"a", "b"} if is_whole else set())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"total": 3}, "pods 'a' and 'b' has different 'kueue.x-k8s.io/pod-group-total-count'"),
        ({"queue": "other"}, "pods 'a' and 'b' has different queue names: team-a!=other"),
        ({"role": "gpus1", "gpus": 2}, "pods 'a' and 'b' have the same role gpus1 and different"),
        (
            {"labels": {names.POD_GROUP_POD_INDEX_LABEL: "2"}},
            "pod 'b' has the label kueue.x-k8s.io/pod-group-pod-index=2, which must be",
        ),
    ],
    ids=["total", "queue", "requests", "index"],
)
def test_pods_that_contradict_each_other_make_no_group(
    changes: dict[str, Any], message: str
) -> None:
    world = ready_world()
    add(world, "a")
    add(world, "b", **changes)
    world.pass_time(2)

    told = world.condition("b")
    assert told is not None
    assert told.message.startswith(message)
    assert not has_workload(world)


def test_nineteen_roles_are_too_many() -> None:
    world = ready_world()
    for number in range(19):
        add(world, f"p{number:02}", role=f"r{number}", total=19)
    world.pass_time(2)
    told = world.condition("p00")
    assert told is not None
    assert told.message == "pod group can't include more than 18 roles"


def test_a_role_that_cannot_be_the_name_of_a_pod_set_is_told() -> None:
    world = ready_world()
    add(world, "a", total=1, role="not a label")
    world.pass_time(2)
    told = world.condition("a")
    assert told is not None
    assert "pod 'a' has the annotation kueue.x-k8s.io/role-hash=not a label" in told.message


def test_a_group_takes_no_workload_that_is_not_a_groups() -> None:
    world = ready_world()
    document = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "gang", "namespace": "ml"},
        "spec": {"queueName": "team-a", "podSets": [
            {"name": "gpus1", "count": 2, "template": {"spec": {"containers": [
                {"name": "main", "image": "train"}]}}}]},
    }  # fmt: skip
    world.store.create(resources.WORKLOADS, document, "ml")
    add(world, "a", "b")
    world.pass_time(2)

    told = world.condition("a")
    assert told is not None
    assert told.reason == conditions.WORKLOAD_NAME_CONFLICT
    assert world.admitted() == set()
    assert ("a", conditions.WORKLOAD_NAME_CONFLICT, told.message) in world.events.recorded

    before = world.store.get(resources.WORKLOADS, "gang", "ml")["metadata"]["uid"]
    world.delete_pod("a")
    world.delete_pod("b")
    world.pass_time(3)
    found = world.store.get(resources.WORKLOADS, "gang", "ml")
    assert (found["metadata"]["uid"], found["metadata"].get("ownerReferences")) == (before, None)
    assert "Finished" not in {one["type"] for one in found["status"]["conditions"]}


def test_a_group_with_the_name_of_a_jobs_workload_waits_and_says_so() -> None:
    world = ready_world()
    job = queued_job("train")
    world.add(job)
    world.settle()
    (name,) = [one.metadata.name for one in world.workloads().values()]
    document = group_pod("a", name, 1)
    world.store.create(resources.PODS, document, "ml")
    world.pass_time(3)

    told = world.condition("a")
    assert told is not None
    assert told.reason == conditions.WORKLOAD_NAME_CONFLICT
    assert world.is_gated("a")

    before = world.store.get(resources.WORKLOADS, name, "ml")
    world.delete_pod("a")
    world.pass_time(3)
    after = world.store.get(resources.WORKLOADS, name, "ml")
    for key in ("uid", "ownerReferences"):
        assert after["metadata"][key] == before["metadata"][key]
    assert after["status"] == before["status"]


def test_a_pod_starts_only_if_it_asks_for_no_more_than_its_role_was_given() -> None:
    world = ready_world(quota=8)
    add(world, "a", "b", annotations=FAST)
    world.settle()
    assert world.admitted() == {"a", "b"}
    world.set_phase("b", "Failed")
    add(world, "c", role="gpus1", gpus=4, annotations=FAST)
    world.pass_time(2)

    assert world.is_gated("c")
    told = world.condition("c")
    assert told is not None
    assert "with smaller requests" in told.message

    add(world, "d", annotations=FAST)
    world.settle()
    assert not world.is_gated("d")
    assert "c" not in pods(world)


# --------------------------------------------------------------- excess, failure, replacement


def test_a_pod_too_many_is_deleted_the_youngest_first() -> None:
    world = ready_world()
    add(world, "a", "b", "c")
    world.settle()
    assert pods(world) == {"a", "b"}
    assert ("c", "ExcessPodDeleted", "Excess pod deleted") in world.events.recorded

    add(world, "d")
    world.settle()
    assert pods(world) == {"a", "b"}


def test_a_failed_pod_is_replaced_within_the_quota_of_the_group() -> None:
    world = ready_world(quota=2)
    add(world, "a", "b")
    world.settle()
    run(world, "a", "b")
    world.set_phase("b", "Failed")
    world.settle()
    waiting = workload(world).status.condition(conditions.WAITING_FOR_REPLACEMENT_PODS)
    assert waiting is not None
    assert (waiting.status, waiting.reason) == ("True", "PodsFailed")

    add(world, "c")
    world.settle()

    assert not world.is_gated("c")
    waiting = workload(world).status.condition(conditions.WAITING_FOR_REPLACEMENT_PODS)
    assert waiting is not None
    assert (waiting.status, waiting.reason) == ("False", "PodsReady")
    assert {one.name for one in workload(world).metadata.owner_references or ()} >= {"a", "c"}
    added = ("gang", "OwnerReferencesAdded", "Added 1 owner reference(s)")
    assert world.events.recorded.count(added) == 1


def test_a_replacement_waits_until_the_pod_before_it_has_ended() -> None:
    world = ready_world(quota=2)
    add(world, "a", "b", **LASTING)
    world.settle()
    run(world, "a", "b")
    world.settle()
    world.delete_pod("b")
    add(world, "c")
    world.settle()
    assert world.is_gated("c")

    remove(world, "b")
    world.settle()
    assert not world.is_gated("c")


def test_pods_that_succeeded_give_their_quota_back_while_others_run() -> None:
    world = ready_world(quota=2)
    add(world, "a", "b")
    world.settle()
    run(world, "a", "b")
    world.set_phase("a", "Succeeded")
    world.add_pod("single")
    world.settle()

    reclaimed = workload(world).status.reclaimable_pods or ()
    assert [(one.name, one.count) for one in reclaimed] == [("gpus1", 1)]
    assert not world.is_gated("single")


def test_a_pod_that_succeeded_and_is_gone_is_remembered_by_any_controller() -> None:
    world = ready_world()
    add(world, "a", "b")
    world.settle()
    run(world, "a", "b")
    world.set_phase("a", "Succeeded")
    world.settle()
    remove(world, "a")
    world = world.restarted()
    world.settle()
    assert not is_true(world, conditions.WAITING_FOR_REPLACEMENT_PODS)
    add(world, "c")  # nobody waits for it
    world.settle()
    assert pods(world) == {"b"}

    world.set_phase("b", "Succeeded")
    world.settle()
    over = workload(world).status.condition(conditions.FINISHED)
    assert over is not None
    assert (over.reason, over.message) == ("Succeeded", "Pods succeeded: 2/2.")


def assert_ends_with_its_last_pod(world: World, last: str) -> None:
    """The group runs on while one of its two pods does, and has ended when that has."""
    assert not is_true(world, conditions.FINISHED)
    world.set_phase(last, "Succeeded")
    world.settle()
    over = workload(world).status.condition(conditions.FINISHED)
    assert over is not None
    assert (over.reason, over.message) == ("Succeeded", "Pods succeeded: 1/2.")


def test_a_group_that_is_not_retriable_ends_with_its_last_pod() -> None:
    world = ready_world()
    add(world, "a", "b", annotations=NOT_RETRIABLE)
    world.settle()
    run(world, "a", "b")
    world.set_phase("a", "Failed")
    world.settle()
    assert_ends_with_its_last_pod(world, "b")


def test_a_pod_that_replaced_another_may_say_that_no_more_come() -> None:
    world = ready_world()
    add(world, "a", "b")
    world.settle()
    run(world, "a", "b")
    world.set_phase("a", "Failed")
    world.settle()
    add(world, "c", annotations=NOT_RETRIABLE)
    world.settle()
    run(world, "c")
    world.set_phase("c", "Failed")
    world.settle()
    assert_ends_with_its_last_pod(world, "b")


def test_a_retriable_group_keeps_its_quota_for_pods_that_replace_those_that_failed() -> None:
    world = ready_world(quota=2)
    add(world, "a", "b")
    world.settle()
    run(world, "a", "b")
    world.set_phase("a", "Failed")
    world.set_phase("b", "Failed")
    world.add_pod("single")
    world.settle()
    assert is_true(world, conditions.QUOTA_RESERVED)
    assert world.is_gated("single")

    add(world, "c", "d")
    world.settle()
    assert {"c", "d"} <= world.admitted()


def test_a_group_that_lost_a_pod_before_its_admission_waits_for_another() -> None:
    world = ready_world(quota=2)
    world.add_pod("first", gpus=2)
    world.settle()
    add(world, "a", "b")
    world.settle()
    remove(world, "b")
    world.settle()
    waiting = workload(world).status.condition(conditions.WAITING_FOR_REPLACEMENT_PODS)
    assert waiting is not None
    assert waiting.status == "True"
    told = world.condition("a")
    assert told is not None
    assert told.message.startswith("1 of 2 pods of group gang failed or were deleted")
    world.set_phase("first", "Succeeded")
    world.settle()
    assert world.is_gated("a")

    add(world, "c")
    world.settle()
    assert {"a", "c"} <= world.admitted()


def test_a_group_that_lost_a_pod_before_it_started_gives_its_quota_back() -> None:
    world = ready_world(quota=2)
    add(world, "a", "b")
    world.observe()
    world.core.step()
    while not has_workload(world) or not is_true(world, conditions.ADMITTED):
        world.send_one()
        world.core.step()
    remove(world, "b")
    world._queue.clear()
    world = world.restarted()
    world.add_pod("single", gpus=2)
    world.settle()

    assert not is_true(world, conditions.QUOTA_RESERVED)
    assert world.is_gated("a")
    assert not world.is_gated("single")


# ------------------------------------------------------------------- fast admission, serving


def test_fast_admission_starts_with_the_first_pod_and_keeps_quota_for_all() -> None:
    world = ready_world(quota=2)
    add(world, "a", annotations=FAST)
    world.settle()
    assert world.admitted() == {"a"}
    assert [one.count for one in workload(world).spec.pod_sets or ()] == [2]
    world.add_pod("single")
    world.settle()
    assert world.is_gated("single")

    add(world, "b", annotations=FAST)
    world.settle()
    assert world.admitted() == {"a", "b"}


def test_a_serving_group_never_ends_and_gives_nothing_back() -> None:
    world = ready_world(quota=2)
    add(world, "a", "b", annotations=SERVING)
    world.settle()
    run(world, "a", "b")
    for name in ("a", "b"):
        world.set_phase(name, "Succeeded")
    world.settle()

    assert not is_true(world, conditions.FINISHED)
    assert not workload(world).status.reclaimable_pods


def serving_group() -> World:
    """A group of three pods that serves and runs, and has all the quota."""
    world = ready_world(quota=3)
    add(world, *"abc", total=3, annotations=SERVING)
    world.settle()
    run(world, *"abc")
    world.settle()
    return world


class StatefulSet:
    """A StatefulSet of two pods in a queue, and its controller."""

    kind = serving.STATEFUL_SET.kind

    def __init__(self, world: World, uid: str = "1") -> None:
        queue = {names.QUEUE_LABEL: "team-a"}
        metadata = views.ObjectMeta(name="serve", namespace="ml", uid=uid, labels=queue)
        document = ServingDocument(metadata=metadata, spec={"replicas": 2})
        self.world, self.metadata = world, metadata
        self.group = self.kind.key_of(document).name
        world.shown[STATEFUL_SETS] = (document,)
        world.settle()

    def add(self, *pods: str) -> None:
        add(self.world, *pods, group=self.group, annotations=OF_A_SET)
        self.adopt(*pods)

    def adopt(self, *pods: str) -> None:
        reference = {"ownerReferences": [self.kind.reference(self.metadata)]}
        for name in pods:
            self.world.store.patch(
                resources.PODS, name, patches.merge({"metadata": reference}), "ml"
            )

    def leave(self) -> None:
        """Delete the StatefulSet, but not its pods (`--cascade=orphan`)."""
        nobody = patches.merge({"metadata": {"ownerReferences": None}})
        for name in pods(self.world):
            self.world.store.patch(resources.PODS, name, nobody, "ml")
        self.world.shown[STATEFUL_SETS] = ()
        self.world.settle()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_of_a_stateful_set_is_replaced_however_it_ended(phase: str) -> None:
    world = ready_world(quota=2)
    stateful_set = StatefulSet(world)
    stateful_set.add("a", "b")
    world.settle()
    run(world, "a", "b")
    world.settle()
    world.set_phase("b", phase)
    world.settle()
    assert not workload(world, stateful_set.group).status.reclaimable_pods
    stateful_set.add("c")
    world.settle()
    assert not world.is_gated("c")
    remove(world, "b")
    world.settle()
    stateful_set.add("d")
    world.pass_time(3)
    assert world.is_gated("d")
    told = world.condition("d")
    assert told is not None
    assert told.reason == conditions.GROUP_FULL
    admitted = f"the 2 pods with which group {stateful_set.group} was admitted are there"
    assert admitted in (told.message or "")


def test_a_stateful_set_made_anew_gets_the_quota_that_its_former_pods_do_not_use() -> None:
    world = ready_world(quota=3)
    former = StatefulSet(world)
    former.add("a")
    world.settle()
    run(world, "a")
    world.settle()
    former.leave()
    anew = StatefulSet(world, "2")
    assert anew.group != former.group
    anew.adopt("a")
    anew.add("b")
    world.settle()
    assert not world.is_gated("b")
    assert [one.count for one in workload(world, former.group).status.reclaimable_pods or ()] == [
        1
    ]


def test_no_pod_starts_in_quota_given_back_before_its_stateful_set_was_restored() -> None:
    world = ready_world(quota=2)
    stateful_set = StatefulSet(world)
    stateful_set.add("a")
    world.settle()
    run(world, "a")
    world.settle()
    stateful_set.leave()
    world.add_pod("other")
    world.settle()
    assert not world.is_gated("other")
    restored = StatefulSet(world)
    assert restored.group == stateful_set.group
    restored.adopt("a")
    restored.add("b")
    world.settle()
    assert world.is_gated("b")


def test_a_serving_group_that_lost_workload_and_pod_at_once_is_made_anew_whole() -> None:
    world = serving_group()
    world.store.delete(resources.WORKLOADS, "gang", "ml")
    remove(world, "c")
    add(world, "d", total=3, annotations=SERVING)
    world.settle()
    assert [one.count for one in workload(world).spec.pod_sets or ()] == [3]
    assert not world.is_gated("d")
    assert not any(world.pod(name).metadata.deletion_timestamp for name in "ab")


def test_a_serving_group_made_anew_gets_no_quota_that_others_got_meanwhile() -> None:
    world = serving_group()
    world.store.delete(resources.WORKLOADS, "gang", "ml")
    remove(world, "c")
    world.add_pod("other")
    world.settle()
    assert not world.is_gated("other")
    add(world, "d", total=3, annotations=SERVING)
    world.pass_time(3)
    assert world.is_gated("d")
    admission = workload(world).status.admission
    assert admission is not None
    assert [one.count for one in admission.pod_set_assignments or ()] == [2]
    told = world.condition("d")
    assert told is not None
    assert told.reason == conditions.GROUP_FULL
    assert "was admitted with 2 of 3 pods" in (told.message or "")


def test_the_workload_of_a_group_follows_its_pods_to_another_queue_unless_it_serves() -> None:
    for marks, queue in (({}, "elsewhere"), (SERVING, "team-a")):
        world = ready_world(quota=0)
        add(world, "a", "b", annotations=marks)
        world.settle()
        change = patches.merge({"metadata": {"labels": {names.QUEUE_LABEL: "elsewhere"}}})
        for name in ("a", "b"):
            world.store.patch(resources.PODS, name, change, "ml")
        world.settle()
        assert workload(world).spec.queue_name == queue


# --------------------------------------------------------------------- eviction and deletion


def preempted(quota: int = 2) -> World:
    """A group that runs and was preempted; its pods are being deleted."""
    world = ready_world(quota=quota)
    changed = make_cluster_queue(quota=quota, preemption={"withinClusterQueue": "LowerPriority"})
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", patches.merge({"spec": changed["spec"]}))
    add(world, "a", "b", **LASTING)
    world.settle()
    run(world, "a", "b")
    world.settle()
    world.add_pod("urgent", gpus=2, spec={"priority": 10})
    world.settle()
    return world


def test_a_group_is_evicted_as_a_whole_and_its_quota_is_held_until_all_have_ended() -> None:
    world = preempted()
    for name in ("a", "b"):
        pod = world.pod(name)
        assert pod.metadata.deletion_timestamp
        told = {one.type: one for one in pod.status.conditions or ()}
        assert told[conditions.TERMINATION_TARGET].reason == "WorkloadEvictedDueToPreempted"
    operations = [one.operation for one in world.sent]
    assert operations.index(WritePurpose.MARK_OWNER) < operations.index(WritePurpose.STOP_OWNER)
    assert world.is_gated("urgent")

    remove(world, "a")
    world.settle()
    assert world.is_gated("urgent")
    remove(world, "b")
    world.settle()
    assert not world.is_gated("urgent")


def test_an_evicted_group_keeps_its_workload_for_the_pods_that_come_instead() -> None:
    world = preempted()
    uid = workload(world).metadata.uid
    remove(world, "a", "b")
    world.settle()
    waiting = workload(world).status.condition(conditions.WAITING_FOR_REPLACEMENT_PODS)
    assert waiting is not None
    assert (waiting.status, waiting.reason) == ("True", "Preempted")
    assert not workload(world).metadata.owner_references  # else the garbage collector takes it

    add(world, "c", "d")
    world.set_phase("urgent", "Succeeded")
    world.settle()

    assert workload(world).metadata.uid == uid
    assert {"c", "d"} <= world.admitted()
    owners = workload(world).metadata.owner_references or ()
    assert {one.name for one in owners} == {"c", "d"}


def test_the_workload_of_an_evicted_group_goes_after_an_hour_without_pods() -> None:
    world = preempted()
    remove(world, "a", "b")
    world.settle()
    assert has_workload(world)
    world.clock.advance(3601)
    world.settle()
    assert not has_workload(world)


def test_an_evicted_group_without_pods_is_looked_at_when_its_hour_is_over() -> None:
    """Nothing else happens meanwhile."""
    world = preempted()
    remove(world, "a", "b")
    world.delete_pod("urgent")
    world.settle()
    world.pass_long_time(3500)
    assert has_workload(world)
    world.pass_time(101)
    assert not has_workload(world)


def test_the_workload_of_a_group_goes_with_its_last_pod() -> None:
    world = ready_world()
    add(world, "a", "b")
    world.settle()
    remove(world, "a", "b")
    world.settle()
    assert not has_workload(world)


def test_a_group_whose_workload_is_deleted_runs_on_and_is_charged() -> None:
    world = ready_world(quota=2)
    add(world, "a", "b")
    world.settle()
    run(world, "a", "b")
    world.settle()
    world.store.delete(resources.WORKLOADS, "gang", "ml")
    world.add_pod("single")
    world.settle()

    assert is_true(world, conditions.ADMITTED)
    assert world.is_gated("single")
    assert not any(world.pod(name).metadata.deletion_timestamp for name in ("a", "b"))


def test_a_group_whose_workload_is_deleted_in_the_middle_of_its_start_gets_no_quota_for_it() -> (
    None
):
    world = ready_world(quota=2)
    add(world, "a", "b")
    world.observe()
    world.core.step()
    while world.is_gated("a"):
        world.send_one()
        world.core.step()
    world._queue.clear()
    assert world.is_gated("b")
    world.store.delete(resources.WORKLOADS, "gang", "ml")
    world = world.restarted()
    world.pass_time(3)

    assert world.is_gated("b")
    told = world.condition("b")
    assert told is not None
    assert told.reason == "PodGroupRunning"


def test_a_start_that_a_new_leader_finds_half_done_is_completed() -> None:
    world = ready_world(quota=2)
    add(world, "a", "b")
    world.observe()
    world.core.step()
    while world.is_gated("a"):
        world.send_one()
        world.core.step()
    world._queue.clear()
    world = world.restarted()
    world.settle()
    assert world.admitted() == {"a", "b"}


def test_a_group_that_contradicts_its_flavor_does_not_start_at_all() -> None:
    world = ready_world()
    flavor = patches.merge({"spec": {"nodeLabels": {"zone": "one"}}})
    world.store.patch(resources.RESOURCE_FLAVORS, "a100", flavor)
    world.settle()
    add(world, "a", role="r")
    add(world, "b", role="r")
    selector = patches.merge({"spec": {"nodeSelector": {"zone": "two"}}})
    world.store.patch(resources.PODS, "b", selector, "ml")
    world.settle()

    assert world.admitted() == set()
    status = workload(world).status
    assert status.admission is None
    assert not status.is_true(conditions.FINISHED)
    evicted = status.condition(conditions.EVICTED)
    assert evicted is not None
    assert evicted.reason == conditions.FAILED_TO_START
    assert "its pods ask for zone=two, and it was admitted with one" in (evicted.message or "")

    world.store.patch(
        resources.RESOURCE_FLAVORS, "a100", patches.merge({"spec": {"nodeLabels": {"zone": None}}})
    )
    world.pass_long_time(70)
    assert world.admitted() == {"a", "b"}


def test_pods_that_ask_otherwise_than_a_workload_that_waits_get_another_one() -> None:
    world = ready_world(quota=2)
    world.add_pod("first", gpus=2)
    world.settle()
    add(world, "a", "b")
    world.settle()
    remove(world, "b")
    add(world, "c", gpus=2, role="big")
    world.settle()

    found = [(one.name, one.count) for one in workload(world).spec.pod_sets or ()]
    assert found == [("big", 1), ("gpus1", 1)]


def test_a_pod_that_joins_a_group_leaves_its_own_workload() -> None:
    world = ready_world(quota=0)
    world.store.create(resources.PODS, queued_pod("a"), "ml")
    world.settle()
    change = {names.POD_GROUP_NAME: "gang", names.POD_GROUP_TOTAL_COUNT: "1"}
    world.store.patch(
        resources.PODS, "a", patches.merge({"metadata": {"annotations": change}}), "ml"
    )
    world.settle()
    found = world.store.list(resources.WORKLOADS, into=Workload).items
    assert [one.metadata.name for one in found] == ["gang"]


def test_nothing_is_left_of_groups_that_are_gone() -> None:
    world = ready_world()
    add(world, "a", "b", "c")
    add(world, "d", group="other")
    world.pass_time(2)
    run(world, "a", "b")
    world.set_phase("a", "Succeeded")
    world.settle()
    remove(world, *pods(world))
    world.settle()
    groups = world.parts.owners.pods.groups
    index = groups.members
    left = [
        world.parts.basis.plans.waiting_for, groups._marked, groups._deleting, groups._deleted,
        groups._events._said,
        index._of_group, index._made, index._documents, index._departed,
    ]  # fmt: skip
    assert not any(left), left


def test_a_pod_that_goes_to_another_group_is_none_of_the_first_any_more() -> None:
    world = ready_world()
    add(world, "a", "b", total=3)
    add(world, "d", group="other", total=3)
    world.settle()
    index = world.parts.owners.pods.groups.members

    def members(group: str) -> list[str]:
        found = index.get(names.WorkloadKey("ml", group))
        return [] if found is None else [pod.metadata.name for pod in found.members]

    assert (members("gang"), members("other")) == (["a", "b"], ["d"])
    moved = patches.merge({"metadata": {"annotations": {names.POD_GROUP_NAME: "other"}}})
    world.store.patch(resources.PODS, "b", moved, "ml")
    world.settle()
    assert (members("gang"), members("other")) == (["a"], ["b", "d"])


def test_a_group_that_names_its_workload_waits_for_it_and_takes_it() -> None:
    world = ready_world()
    prebuilt: dict[str, Any] = {"labels": {names.PREBUILT_WORKLOAD: "gang"}}
    add(world, "a", "b", **prebuilt)
    world.pass_time(2)
    told = world.condition("a")
    assert told is not None
    assert told.reason == conditions.PREBUILT_NOT_FOUND
    assert not has_workload(world)

    made = make_workload("gang", make_pod_set("gpus1", 2, gpus=1))
    made["metadata"]["annotations"] = {names.IS_GROUP_WORKLOAD: "true"}
    world.add(made)
    world.settle()

    assert world.admitted() == {"a", "b"}
    owners = workload(world).metadata.owner_references or ()
    assert {one.name for one in owners} == {"a", "b"}


def test_the_pods_of_a_named_workload_that_is_admitted_start_as_they_come() -> None:
    world = ready_world(quota=2)
    made = make_workload("gang", make_pod_set("gpus1", 2, gpus=1))
    made["metadata"]["annotations"] = {names.IS_GROUP_WORKLOAD: "true"}
    world.add(made)
    world.settle()
    assert is_true(world, conditions.ADMITTED)
    prebuilt: dict[str, Any] = {"labels": {names.PREBUILT_WORKLOAD: "gang"}}
    add(world, "a", **prebuilt)
    world.add_pod("single")
    world.settle()
    assert world.admitted() == {"a"}
    assert is_true(world, conditions.QUOTA_RESERVED)

    add(world, "b", **prebuilt)
    world.settle()
    assert world.admitted() == {"a", "b"}


def test_a_workload_that_a_group_names_is_of_who_created_its_first_pod() -> None:
    world = ready_world(quota=2)
    pod_set = make_pod_set("gpus1", 2, pod=group_pod("x")["spec"])
    marked = {"annotations": {names.IS_GROUP_WORKLOAD: "true"}}
    world.add(make_workload("gang", pod_set, metadata=marked))
    named: dict[str, Any] = {"labels": {names.PREBUILT_WORKLOAD: "gang"}}
    for pod, user in (("a", "ann"), ("b", "bob")):
        add(world, pod, annotations={names.REQUESTER: user}, **named)
        world.settle()
    assert world.admitted() == {"a", "b"}
    assert workload(world).metadata.annotation(names.REQUESTER) == "ann"


def test_a_group_that_is_deactivated_holds_its_quota_until_its_pods_have_ended() -> None:
    world = ready_world(quota=2)
    add(world, "a", "b", **LASTING)
    world.settle()
    run(world, "a", "b")
    world.add_pod("single")
    world.settle()
    off = patches.merge({"spec": {"active": False}})
    world.store.patch(resources.WORKLOADS, "gang", off, "ml")
    world.settle()
    assert world.pod("a").metadata.deletion_timestamp
    assert world.is_gated("single")

    remove(world, "a", "b")
    world.settle()
    assert not world.is_gated("single")
    assert not is_true(world, conditions.QUOTA_RESERVED)


def test_a_deactivated_group_that_lacks_pods_says_so_once() -> None:
    world = ready_world(quota=2)
    add(world, "a", "b")
    world.settle()
    off = patches.merge({"spec": {"active": False}})
    world.store.patch(resources.WORKLOADS, "gang", off, "ml")
    world.settle()
    add(world, "c")
    for _ in range(30):
        world.clock.advance(0.5)
        world.observe()
        world.core.step()
        world.send_one()
    told = [one for one in world.sent if one.operation is WritePurpose.EXPLAIN_POD]
    assert len([one for one in told if one.name == "c"]) == 1
    found = world.condition("c")
    assert found is not None
    assert found.reason == "PodGroupIncomplete"


@pytest.mark.parametrize("seed", range(20))
def test_whatever_comes_in_whatever_order_a_group_never_holds_more_than_its_quota(
    seed: int,
) -> None:
    rng = random.Random(seed)
    world = ready_world(quota=4)
    world.add(make_node("node"))
    number = 0

    def one_more() -> None:
        nonlocal number
        number += 1
        group = rng.choice("xyz")
        size = {"x": 2, "y": 4, "z": 3}[group]
        add(world, f"p{number}", group=group, total=size, **rng.choice(({}, LASTING)))

    def with_one(act: Callable[[str], None]) -> Callable[[], None]:
        return lambda: act(rng.choice(sorted(pods(world)))) if pods(world) else None

    def begin(name: str) -> None:
        if not world.is_gated(name) and not world.pod(name).spec.node_name:
            run(world, name)

    def finish(name: str) -> None:
        if world.pod(name).status.phase == "Running":
            world.set_phase(name, rng.choice(("Succeeded", "Failed")))

    acts = [
        *[one_more] * 3,
        *[with_one(begin)] * 3,
        with_one(finish),
        with_one(world.delete_pod),
        with_one(lambda name: remove(world, name)),
    ]
    for _ in range(60):
        rng.choice(acts)()
        if rng.random() < 0.1:
            world = world.restarted()
        if rng.random() < 0.7:
            world.settle()
        held = [
            one.metadata.name
            for one in world.store.list(resources.PODS, into=views.Pod).items
            if not one.spec.scheduling_gates
            and one.status.phase not in {"Succeeded", "Failed"}
            and (not one.metadata.deletion_timestamp or one.spec.node_name)
        ]
        assert len(held) <= 4, held
    world.settle()


def test_a_group_that_has_begun_to_start_is_started_before_others_are_begun() -> None:
    world = ready_world(quota=1000)
    add(world, *(f"g{number}" for number in range(5)), total=5)
    world.observe()
    world.core.step()
    while world.is_gated("g0"):
        world.send_one()
        world.core.step()
    for number in range(200):
        world.store.create(resources.PODS, queued_pod(f"p{number}"), "ml")
    world.settle()

    last = max(place for place, one in enumerate(world.sent) if one.name == "g4")
    made = [one for one in world.sent[:last] if one.operation is WritePurpose.CREATE_WORKLOAD]
    assert len(made) < 100
