"""Pods of PodGroups of other schedulers: groups of which an object says how many start at once."""

from typing import Any

import pytest

from admission.base import conditions, names, patches
from admission.controller.watched_owners.pod_groups import resources_of_gangs
from admission.kube import resources
from admission.objects import gangs, views
from admission.objects.gangs import GangKind
from admission.objects.workload import Workload, scheduling_value
from admission.owners import pod as pod_owner
from tests.builders.pods import queued_pod
from tests.builders.queues import make_local_queue
from tests.controller.world import World, ready_world

EVERY = pytest.mark.parametrize("kind", gangs.KINDS, ids=lambda one: one.group)


def name_of(kind: GangKind = gangs.VOLCANO, name: str = "gang") -> str:
    return pod_owner.gang_name(gangs.Reference(kind, name))


def add(
    world: World,
    *pods: str,
    kind: GangKind = gangs.VOLCANO,
    gang: str = "gang",
    gpus: int = 1,
    **more: Any,
) -> None:
    """Create pods that name a PodGroup, as the webhook leaves them."""
    mark = gangs.Reference(kind, gang).text()
    annotations = {names.POD_GROUP_OBJECT: mark, names.ROLE_HASH: f"gpus{gpus}"}
    for name in pods:
        world.clock.advance(1)
        document = queued_pod(name, gpus=gpus, annotations=annotations, **more)
        if not more.get("queue", "x"):
            del document["metadata"]["labels"][names.QUEUE_LABEL]
        world.store.create(resources.PODS, document, "ml")


def show(
    world: World,
    minimum: int,
    *,
    kind: GangKind = gangs.VOLCANO,
    name: str = "gang",
    queue: str = "",
    labels: dict[str, str] | None = None,
    **more: Any,
) -> None:
    """Have a PodGroup seen, in the place of one of that name."""
    resource = next(one for one, it in resources_of_gangs().items() if it is kind)
    spec: dict[str, Any] = {**more, **({"queue": queue} if queue else {})}
    *path, last = kind.minimum.split(".")[1:]
    at = spec
    for step in path:
        at = at.setdefault(step, {})
    at[last] = minimum
    others = [one for one in world.shown.get(resource, ()) if one.metadata.name != name]
    metadata = views.ObjectMeta(name=name, namespace="ml", uid=f"uid-{name}", labels=labels)
    world.shown[resource] = (*others, gangs.GangPodGroup(metadata=metadata, spec=spec))


def workload(world: World, name: str = "") -> Workload | None:
    found = world.store.list(resources.WORKLOADS, into=Workload).items
    return next((one for one in found if one.metadata.name == (name or name_of())), None)


def pod_sets(world: World) -> list[tuple[str, int, int | None]]:
    made = workload(world)
    assert made is not None
    return [(one.name, one.count, one.min_count) for one in made.spec.pod_sets or ()]


def reserved(world: World) -> dict[str, int]:
    """Return for how many pods quota is reserved, by the name of the Workload."""
    found = {}
    for one in world.store.list(resources.WORKLOADS, into=Workload).items:
        admission = one.status.admission
        if admission is not None and not one.status.is_true(conditions.FINISHED):
            listed = admission.pod_set_assignments or ()
            found[one.metadata.name] = sum(each.count or 0 for each in listed)
    return found


def deactivate(world: World, name: str) -> None:
    world.store.patch(resources.WORKLOADS, name, patches.merge({"spec": {"active": False}}), "ml")


def started(world: World) -> set[str]:
    world.pass_time(2)
    return world.admitted()


# ------------------------------------------------------------------------------ all or nothing


@EVERY
def test_nothing_starts_until_the_least_number_is_there(kind: GangKind) -> None:
    world = ready_world(quota=4)
    show(world, 3, kind=kind)
    add(world, "a", "b", kind=kind)
    assert started(world) == set()
    told = world.condition("a")
    assert told is not None
    assert told.reason == "PodGroupIncomplete"
    assert f"2 of at least 3 pods of {kind.qualified} gang are there" in told.message

    add(world, "c", kind=kind)

    assert started(world) == {"a", "b", "c"}
    assert workload(world, name_of(kind)) is not None


@EVERY
def test_pods_before_their_podgroup_wait_and_say_so(kind: GangKind) -> None:
    world = ready_world(quota=4)
    add(world, "a", "b", kind=kind)
    assert started(world) == set()
    told = world.condition("a")
    assert told is not None
    assert told.reason == "PodGroupNotFound"
    assert f"{kind.qualified} gang does not exist" in told.message

    show(world, 2, kind=kind)

    assert started(world) == {"a", "b"}


def test_of_two_gangs_on_quota_for_one_the_second_waits_whole() -> None:
    world = ready_world(quota=4)
    for name in ("x", "y"):
        show(world, 4, name=name)
        add(world, *(f"{name}{at}" for at in range(4)), gang=name)
        started(world)
    assert started(world) == {f"x{at}" for at in range(4)}
    for at in range(4):
        world.set_phase(f"x{at}", "Succeeded")
    assert started(world) == {f"{name}{at}" for name in "xy" for at in range(4)}


def test_podgroups_of_different_kinds_and_groups_of_kueue_do_not_meet() -> None:
    found = {name_of(one) for one in gangs.KINDS}
    assert len(found) == len(gangs.KINDS)
    assert "gang" not in found


def test_pods_of_two_groups_with_one_workload_name_wait() -> None:
    world = ready_world(quota=4)
    show(world, 1)
    labels = {names.POD_GROUP_NAME: name_of()}
    annotations = {names.POD_GROUP_TOTAL_COUNT: "2", names.ROLE_HASH: "gpus1"}
    for name in ("a", "b"):
        document = queued_pod(name, labels=labels, annotations=annotations)
        world.store.create(resources.PODS, document, "ml")
    add(world, "c")
    assert started(world) == set()
    told = world.condition("c")
    assert told is not None
    assert "different groups whose Workloads would have the same name" in told.message


# ----------------------------------------------------------------------- more than the minimum


def test_more_than_the_minimum_start_as_quota_allows() -> None:
    world = ready_world(quota=4)
    show(world, 3)
    add(world, "a", "b", "c", "d", "e")
    assert len(started(world)) == 4
    assert pod_sets(world) == [("gpus1", 5, 3)]
    told = world.condition("e")
    assert told is not None
    assert told.reason == "WaitingForQuota"
    assert reserved(world) == {name_of(): 4}


def test_a_pod_beyond_those_that_were_admitted_starts_when_these_have_ended() -> None:
    world = ready_world(quota=4)
    show(world, 3)
    add(world, "a", "b", "c", "d", "e")
    assert started(world) == {"a", "b", "c", "d"}
    for name in ("a", "b", "c", "d"):
        world.set_phase(name, "Succeeded")
    assert started(world) == {"a", "b", "c", "d", "e"}
    world.set_phase("e", "Succeeded")
    world.settle()
    made = workload(world)
    assert made is not None
    assert made.status.is_true(conditions.FINISHED)


def test_pods_of_several_roles_are_fewer_in_the_biggest_only() -> None:
    world = ready_world(quota=8)
    show(world, 3)
    add(world, "m", gpus=2)
    add(world, "a", "b", "c")
    started(world)
    assert pod_sets(world) == [("gpus1", 3, 2), ("gpus2", 1, None)]


def test_no_pod_of_a_podgroup_is_one_too_many() -> None:
    world = ready_world(quota=4)
    show(world, 2)
    add(world, "a", "b")
    assert started(world) == {"a", "b"}
    add(world, "c")
    assert started(world) == {"a", "b", "c"}
    world.delete_pod("b")
    add(world, "d")
    assert started(world) == {"a", "c", "d"}
    assert world.pod("d").metadata.annotation(names.POD_GROUP_OBJECT)  # in the place of b


def test_a_pod_beyond_the_group_is_charged_by_itself_and_gives_its_quota_back() -> None:
    world = ready_world(quota=4)
    show(world, 2)
    add(world, "a", "b")
    assert started(world) == {"a", "b"}
    add(world, "c", "d", "e")
    assert started(world) == {"a", "b", "c", "d"}
    assert sum(reserved(world).values()) == 4
    world.delete_pod("c")
    assert started(world) == {"a", "b", "d", "e"}
    assert sum(reserved(world).values()) == 4
    world.delete_pod("d")
    world.delete_pod("e")
    world.settle()
    assert reserved(world) == {name_of(): 2}


def test_a_pod_beyond_the_group_has_its_queue_and_priority() -> None:
    world = ready_world(quota=4)
    world.add(
        make_local_queue("default", "gpus", "ml"), make_local_queue("training", "gpus", "ml")
    )
    world.store.create(
        resources.WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 9}
    )
    show(world, 1, queue="training", labels={names.PRIORITY_CLASS_LABEL: "high"})
    add(world, "a", queue="")
    assert started(world) == {"a"}
    add(world, "b", queue="")
    assert started(world) == {"a", "b"}
    (made,) = [one for one in world.workloads().values() if "pod-b" in one.metadata.name]
    assert made.spec.queue_name == "training"
    assert made.spec.priority == 9


def test_pods_beyond_a_group_that_is_evicted_stop_with_it() -> None:
    world = ready_world(quota=4)
    show(world, 2)
    add(world, "a", "b")
    started(world)
    add(world, "c", "d", "e")
    assert started(world) == {"a", "b", "c", "d"}
    deactivate(world, name_of())
    world.settle()
    assert started(world) == set()
    assert reserved(world) == {}
    ended = {one[0] for one in world.events.recorded if one[1] == "Stopped"}
    assert {"a", "b", "c", "d"} <= ended
    assert world.is_gated("e")
    assert world.pod("e").metadata.annotation(names.POD_GROUP_OBJECT)  # a member again


def test_a_pod_that_waits_beyond_a_group_does_not_start_when_the_group_does_not_run() -> None:
    world = ready_world(quota=3)
    show(world, 3)
    add(world, "a", "b", "c")
    assert started(world) == {"a", "b", "c"}
    add(world, "d")
    assert started(world) == {"a", "b", "c"}
    deactivate(world, name_of())
    assert started(world) == set()
    told = world.condition("d")
    assert told is not None
    assert told.status == "False"


def test_a_gang_that_comes_again_asks_for_the_least_number_of_all_its_pods() -> None:
    world = ready_world(quota=4)
    show(world, 2)
    add(world, "a", "b")
    started(world)
    add(world, "c", "d", "e")
    started(world)
    deactivate(world, name_of())
    started(world)
    again = patches.merge({"spec": {"active": True}})
    world.store.patch(resources.WORKLOADS, name_of(), again, "ml")
    add(world, "a2", "b2", "c2")
    assert len(started(world)) == 4
    assert sum(reserved(world).values()) == 4


def test_pods_go_on_beyond_a_group_whose_workload_somebody_deletes() -> None:
    world = ready_world(quota=4)
    show(world, 2)
    add(world, "a", "b")
    started(world)
    add(world, "c")
    assert started(world) == {"a", "b", "c"}
    world.store.delete(resources.WORKLOADS, name_of(), "ml")
    assert started(world) == {"a", "b", "c"}
    assert sum(reserved(world).values()) == 3


def test_a_member_beyond_the_minimum_that_is_deleted_gives_its_quota_back_after_a_minute() -> None:
    world = ready_world(quota=4)
    show(world, 2)
    add(world, "a", "b", "c", "d")
    assert started(world) == {"a", "b", "c", "d"}
    world.delete_pod("d")
    world.delete_pod("c")
    world.delete_pod("b")
    show(world, 3, name="other")
    add(world, "x", "y", "z", gang="other")
    world.pass_time(50)
    assert world.admitted() == {"a"}
    world.pass_time(15)
    assert world.admitted() == {"a"}  # two of the gang are kept
    show(world, 2, name="other")
    world.delete_pod("z")
    assert started(world) == {"a", "x", "y"}
    add(world, "e", "f")
    assert started(world) == {"a", "x", "y", "e"}
    world.delete_pod("x")
    world.delete_pod("y")
    assert world.is_gated("f")


def test_the_end_of_that_minute_is_seen_though_nothing_else_happens() -> None:
    world = ready_world(quota=3)
    show(world, 2)
    add(world, "a", "b", "c")
    assert started(world) == {"a", "b", "c"}
    world.add_pod("waits", gpus=1)
    world.delete_pod("c")
    world.pass_time(50)
    assert world.admitted() == {"a", "b"}

    world.pass_time(15)

    assert world.admitted() == {"a", "b", "waits"}


def test_a_member_of_a_group_that_was_admitted_in_part_gives_its_quota_back_when_it_ends() -> None:
    world = ready_world(quota=4)
    show(world, 2)
    add(world, "a", "b", "c", "d", "e", "f")
    assert started(world) == {"a", "b", "c", "d"}
    world.set_phase("a", "Succeeded")
    assert len(started(world)) == 5
    world.set_phase("b", "Succeeded")
    assert started(world) == {"a", "b", "c", "d", "e", "f"}
    for name in ("c", "d"):
        world.set_phase(name, "Succeeded")
    world.settle()
    made = workload(world)
    assert made is not None
    assert made.status.is_true(conditions.FINISHED)


def test_a_gang_that_gave_quota_back_and_is_evicted_asks_for_all_pods_that_come_again() -> None:
    world = ready_world(quota=4)
    show(world, 2)
    add(world, "a", "b", "c", "d", "e")
    started(world)
    world.delete_pod("d")
    world.pass_time(70)
    deactivate(world, name_of())
    started(world)
    again = patches.merge({"spec": {"active": True}})
    world.store.patch(resources.WORKLOADS, name_of(), again, "ml")
    add(world, "a2", "b2", "c2", "d2", "e2")
    assert len(started(world)) == 4
    assert sum(reserved(world).values()) == 4


def test_another_controller_finds_pods_beyond_a_group_and_stops_them_with_it() -> None:
    world = ready_world(quota=4)
    show(world, 2)
    add(world, "a", "b")
    started(world)
    add(world, "c", "d", "e")
    assert started(world) == {"a", "b", "c", "d"}
    successor = world.restarted()
    successor.shown = world.shown
    assert started(successor) == {"a", "b", "c", "d"}
    assert sum(reserved(successor).values()) == 4
    deactivate(successor, name_of())
    successor.settle()
    assert started(successor) == set()
    assert reserved(successor) == {}


def test_a_gang_that_is_preempted_takes_pods_beyond_it_along_and_these_go_first() -> None:
    world = ready_world(quota=4)
    policy = patches.merge({"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}})
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", policy)
    for name, value in (("high", 9), ("higher", 99)):
        world.store.create(
            resources.WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value}
        )
    show(world, 2)
    add(world, "a", "b")
    started(world)
    add(world, "c", "d")
    assert started(world) == {"a", "b", "c", "d"}
    world.add_pod("x", gpus=1, labels={names.PRIORITY_CLASS_LABEL: "high"})
    assert started(world) >= {"a", "b", "x"}
    assert len(world.admitted()) == 4
    world.add_pod("y", gpus=3, labels={names.PRIORITY_CLASS_LABEL: "higher"})
    assert started(world) == {"x", "y"}


def test_a_pod_beyond_a_group_goes_on_when_the_others_have_ended() -> None:
    world = ready_world(quota=4)
    show(world, 2)
    add(world, "a", "b")
    started(world)
    add(world, "c")
    started(world)
    for name in ("a", "b"):
        world.set_phase(name, "Succeeded")
    assert started(world) == {"a", "b", "c"}
    assert sum(reserved(world).values()) == 1


# ------------------------------------------------------------------------------ ends and begins


def test_a_gang_whose_pods_have_ended_gives_its_quota_back_though_one_failed() -> None:
    world = ready_world(quota=2)
    show(world, 2)
    add(world, "a", "b")
    assert started(world) == {"a", "b"}
    world.set_phase("a", "Failed")
    world.set_phase("b", "Succeeded")
    world.settle()
    made = workload(world)
    assert made is not None
    assert made.status.is_true(conditions.FINISHED)
    add(world, "c")  # its scheduler tries again
    assert started(world) == {"a", "b", "c"}


# ------------------------------------------------------------------------------------ attacks


def test_a_lower_minimum_after_admission_starts_nothing_unpaid() -> None:
    world = ready_world(quota=2)
    show(world, 2)
    add(world, "a", "b")
    assert started(world) == {"a", "b"}
    show(world, 1)
    add(world, "c", "d")
    assert started(world) == {"a", "b"}
    show(world, 5)
    assert started(world) == {"a", "b"}


def test_a_lower_minimum_before_admission_asks_for_the_pods_that_are_there() -> None:
    world = ready_world(quota=1)
    show(world, 2)
    add(world, "a", "b")
    assert started(world) == set()
    show(world, 1)
    assert started(world) == {"a"}
    assert pod_sets(world) == [("gpus1", 2, 1)]


def test_a_podgroup_that_goes_leaves_those_that_run_and_those_that_wait() -> None:
    world = ready_world(quota=2)
    show(world, 2)
    add(world, "a", "b")
    assert started(world) == {"a", "b"}
    world.shown = {}
    add(world, "c")
    assert started(world) == {"a", "b"}
    assert world.is_gated("c")


def test_fast_admission_on_a_pod_does_not_start_it_before_the_others() -> None:
    world = ready_world(quota=4)
    show(world, 2)
    mark = gangs.Reference(gangs.VOLCANO, "gang").text()
    annotations = {names.POD_GROUP_OBJECT: mark, names.POD_GROUP_FAST_ADMISSION: "true"}
    world.store.create(resources.PODS, queued_pod("a", annotations=annotations), "ml")
    assert started(world) == set()


# -------------------------------------------------------------------------------------- queues


def test_a_queue_with_the_name_of_a_localqueue_is_that_localqueue() -> None:
    world = ready_world(quota=4)
    world.add(make_local_queue("training", "gpus", "ml"))
    show(world, 2, queue="training")
    add(world, "a", "b", queue="")
    assert started(world) == {"a", "b"}
    made = workload(world)
    assert made is not None
    assert made.spec.queue_name == "training"


def test_the_label_of_the_podgroup_wins_over_its_queue() -> None:
    world = ready_world(quota=4)
    world.add(make_local_queue("training", "gpus", "ml"))
    show(world, 2, queue="training", labels={names.QUEUE_LABEL: "team-a"})
    add(world, "a", "b", queue="")
    assert started(world) == {"a", "b"}
    made = workload(world)
    assert made is not None
    assert made.spec.queue_name == "team-a"


def test_a_queue_that_is_no_localqueue_is_told_of_and_the_default_is_used() -> None:
    world = ready_world(quota=4)
    world.add(make_local_queue("default", "gpus", "ml"))
    show(world, 2, queue="training")
    add(world, "a", "b", queue="")
    assert started(world) == {"a", "b"}
    told = [one for one in world.events.recorded if one[1] == "QueueNotSupported"]
    assert len(told) == 1
    assert told[0][0] == "gang"
    assert "its pods wait in LocalQueue default" in told[0][2]


def test_a_capability_is_told_of_on_the_queue() -> None:
    world = ready_world(quota=4)
    world.add(make_local_queue("training", "gpus", "ml"))
    metadata = views.ObjectMeta(name="training", uid="uid-q")
    queue = gangs.GangPodGroup(metadata=metadata, spec={"capability": {"nvidia.com/gpu": "64"}})
    world.shown[resources.VOLCANO_QUEUES] = (queue,)
    show(world, 1, queue="training")
    add(world, "a", queue="")
    assert started(world) == {"a"}
    told = [one for one in world.events.recorded if one[1] == "CapabilityNotSupported"]
    assert [one[0] for one in told] == ["training"]


def test_the_labels_of_a_podgroup_say_the_priority_where_pods_have_none() -> None:
    world = ready_world(quota=4)
    world.store.create(
        resources.WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 9}
    )
    show(world, 1, labels={names.PRIORITY_CLASS_LABEL: "high"})
    add(world, "a")
    started(world)
    made = workload(world)
    assert made is not None
    assert made.spec.priority == 9


def test_a_podgroup_that_cannot_be_read_is_told_of_and_its_pods_wait() -> None:
    world = ready_world(quota=4)
    show(world, 1)
    resource = next(one for one, it in resources_of_gangs().items() if it is gangs.VOLCANO)
    (found,) = world.shown[resource]
    assert isinstance(found, gangs.GangPodGroup)
    world.shown[resource] = (gangs.GangPodGroup(metadata=found.metadata, spec={"minMember": "x"}),)
    add(world, "a")
    assert started(world) == set()
    assert ("gang", "NotUnderstood") in {one[:2] for one in world.events.recorded}


def test_pods_of_a_podgroup_that_is_no_gang_are_single_pods() -> None:
    world = ready_world(quota=1)
    resource = next(one for one, it in resources_of_gangs().items() if it is gangs.NATIVE)
    metadata = views.ObjectMeta(name="gang", namespace="ml", uid="uid-gang")
    basic: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}
    world.shown[resource] = (gangs.GangPodGroup(metadata=metadata, spec=basic),)
    add(world, "a", "b", kind=gangs.NATIVE)
    assert started(world) == {"a"}
    assert workload(world, name_of(gangs.NATIVE)) is None
    assert set(world.workloads()) == {"a", "b"}
    world.set_phase("a", "Succeeded")
    assert started(world) == {"a", "b"}


# ---------------------------------------------------------------------- pods of one controller

TRAINING = gangs.of_controller(
    views.ObjectMeta(
        owner_references=(
            views.OwnerReference(
                api_version="kubeflow.org/v1",
                kind="MXJob",
                name="train",
                uid="u1",
                controller=True,
            ),
        )
    )
)


def add_trained(world: World, *pods: str, gpus: int = 1) -> None:
    """Create pods of a controller of training, as the webhook leaves them."""
    assert TRAINING is not None
    annotations = {names.POD_GROUP_OBJECT: TRAINING.text(), names.ROLE_HASH: f"gpus{gpus}"}
    for name in pods:
        world.clock.advance(1)
        document = queued_pod(name, gpus=gpus, annotations=annotations)
        world.store.create(resources.PODS, document, "ml")


def test_pods_of_one_controller_of_training_start_together() -> None:
    world = ready_world(quota=3)
    add_trained(world, "a", "b", "c", "d")
    world.pass_time(8)
    assert world.admitted() == set()
    told = world.condition("a")
    assert told is not None
    assert told.status == "False"
    world.delete_pod("d")
    world.pass_time(8)
    assert world.admitted() == {"a", "b", "c"}
    assert TRAINING is not None
    assert workload(world, pod_owner.gang_name(TRAINING)) is not None


def test_a_pod_that_its_controller_makes_later_is_admitted_by_itself() -> None:
    world = ready_world(quota=3)
    add_trained(world, "a", "b")
    world.pass_time(8)
    assert world.admitted() == {"a", "b"}
    add_trained(world, "launcher")
    world.pass_time(8)
    assert world.admitted() == {"a", "b", "launcher"}
    add_trained(world, "more")
    world.pass_time(8)
    assert world.is_gated("more")


def test_a_pod_that_takes_the_place_of_a_failed_one_stays_in_the_group() -> None:
    world = ready_world(quota=2)
    add_trained(world, "a", "b")
    world.pass_time(8)
    assert world.admitted() == {"a", "b"}
    world.set_phase("b", "Failed")
    add_trained(world, "c")
    world.pass_time(8)
    assert world.admitted() == {"a", "b", "c"}
    assert world.pod("c").metadata.annotation(names.POD_GROUP_OBJECT)


def test_a_gang_that_is_deleted_leaves_nothing_though_its_podgroup_stays() -> None:
    world = ready_world(quota=3)
    show(world, 3)
    add(world, "a", "b", "c")
    assert started(world) == {"a", "b", "c"}
    add(world, "d", "e")
    assert started(world) == {"a", "b", "c"}
    for name in "abcde":
        world.store.delete(resources.PODS, name, "ml", grace_period_seconds=0)
    world.pass_time(5)

    assert workload(world) is None
    status = world.status_of("gpus")
    (flavor,) = status["flavorsUsage"]
    (reserved,) = status["flavorsReservation"]
    assert (flavor["resources"][0]["total"], reserved["resources"][0]["total"]) == ("0", "0")
    counts = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")
    assert [status.get(one, 0) for one in counts] == [0, 0, 0]
    world.add_pod("next", gpus=3)
    assert started(world) == {"next"}


# ------------------------------------------------------------------------- in one domain of nodes

RACK = "example.com/rack"


def needs_of(made: Workload) -> list[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]:
    """What each pod set asks about the nodes of its pods: together, jointly and apart."""
    pod_sets = scheduling_value(made).pod_sets
    needs = [pod_set.needs for pod_set in pod_sets if pod_set.needs is not None]
    return [(each.together, each.jointly, each.apart) for each in needs]


def by_pods(kind: str, key: str, labels: dict[str, str]) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [((1, 1), [((RACK,), (), ())]), ((1, 2), [((RACK,), (RACK,), ()), ((RACK,), (RACK,), ())])],
    ids=["equal pods", "pods of two sizes"],
)
def test_the_topology_of_a_native_podgroup_is_one_domain_for_all_its_pods(
    gpus: tuple[int, int], expected: list[Any]
) -> None:
    world = ready_world(quota=4)
    constraints = {"topology": [{"key": RACK}, {"key": 3}, "no constraint"]}
    show(world, 2, kind=gangs.NATIVE, schedulingConstraints=constraints)
    add(world, "a", kind=gangs.NATIVE, gpus=gpus[0])
    add(world, "b", kind=gangs.NATIVE, gpus=gpus[1])

    started(world)
    made = workload(world, name_of(gangs.NATIVE))

    assert made is not None
    assert needs_of(made) == expected


@pytest.mark.parametrize("constraints", [None, {}, {"topology": None}, {"topology": "rack"}])
def test_a_native_podgroup_without_a_topology_asks_for_no_domain(constraints: Any) -> None:
    world = ready_world(quota=4)
    show(world, 1, kind=gangs.NATIVE, schedulingConstraints=constraints)
    add(world, "a", kind=gangs.NATIVE)

    started(world)
    made = workload(world, name_of(gangs.NATIVE))

    assert made is not None
    assert names.POD_GROUP_TOPOLOGY not in (made.metadata.annotations or {})
    assert needs_of(made) == [((), (), ())]


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        ({"app": "train"}, [((RACK,), (RACK,), ()), ((RACK,), (RACK,), ())]),
        ({"role": "a"}, [((RACK,), (), ()), ((), (), ())]),
    ],
    ids=["all pods", "those of one size"],
)
def test_the_affinity_of_a_group_to_its_pods_is_a_domain(
    selected: dict[str, str], expected: list[Any]
) -> None:
    world = ready_world(quota=4)
    show(world, 2)
    for name, gpus in (("a", 1), ("b", 2)):
        labels = {"app": "train", "role": name, "index": name}
        add(world, name, gpus=gpus, labels=labels, **by_pods("podAffinity", RACK, selected))

    started(world)
    made = workload(world)

    assert made is not None
    assert needs_of(made) == expected


def test_the_labels_of_pods_count_where_all_pods_of_their_size_have_them() -> None:
    world = ready_world(quota=4)
    show(world, 2)
    for name in ("a", "b"):
        labels = {"app": "train", "index": name}
        apart = by_pods("podAntiAffinity", "kubernetes.io/hostname", {"app": "train"})
        add(world, name, labels=labels, **apart)

    started(world)
    made = workload(world)

    assert made is not None
    (pod_set,) = made.spec.pod_sets or ()
    assert pod_set.template.metadata.labels is not None
    assert pod_set.template.metadata.labels["app"] == "train"
    assert "index" not in pod_set.template.metadata.labels
    assert needs_of(made) == [((), (), ("kubernetes.io/hostname",))]


def test_pods_that_select_no_others_leave_no_labels_in_the_workload() -> None:
    world = ready_world(quota=4)
    show(world, 1)
    add(world, "a", labels={"app": "train"})

    started(world)
    made = workload(world)

    assert made is not None
    assert [pod_set.template.metadata.labels for pod_set in made.spec.pod_sets or ()] == [None]
