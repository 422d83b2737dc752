"""Preemptions are remembered by whoever leads, also of pods that are gone."""

from admission.base import names, patches
from admission.controller.watched_owners.predecessors import KEEPS, Predecessors
from admission.kube import resources
from admission.objects import past_preemptions
from admission.objects.workload import Workload
from admission.scheduling import model
from admission.scheduling.preemption.history import MOST
from tests.builders.jobs import queued_job
from tests.builders.metadata import CREATED, make_condition
from tests.builders.workloads import workload_view
from tests.clocks import FakeClock
from tests.controller.test_jobs import workload
from tests.controller.test_preemption_events import ordered_world
from tests.controller.world import World


def pod_of(world: World, controller: str, number: int, priority: int = 0) -> str:
    """A pod that a ReplicaSet makes."""
    kind, sets = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}, resources.REPLICA_SETS
    if not number:
        world.store.create(sets, {**kind, "metadata": {"name": controller}}, "ml")
    owner = {**kind, "name": controller, "uid": uid_of(world, controller), "controller": True}
    name = f"{controller}-{number}"
    world.add_pod(name, metadata={"ownerReferences": [owner]}, spec={"priority": priority})
    world.settle()
    return name


def uid_of(world: World, controller: str) -> str:
    uid: str = world.store.get(resources.REPLICA_SETS, controller, "ml")["metadata"]["uid"]
    return uid


def counted(found: Workload) -> dict[str, int]:
    """How often the Workload was preempted by whom."""
    return dict(found.past_preemptions().counts)


# ---------------------------------------------------------------------------- across leaders


def test_two_deployments_whose_pods_preempt_each_other_stop_whoever_leads():
    world = ordered_world(quota=1)
    low = pod_of(world, "low", 0)
    for number in range(MOST):
        assert not world.is_gated(low)
        high = pod_of(world, "high", number, priority=9)
        assert not world.is_gated(high)
        low = pod_of(world, "low", number + 1)
        assert counted(world.workloads()[low]) == {f"ml/{uid_of(world, 'high')}": number + 1}

        world = world.restarted()  # what is known now is what the Workloads say
        world.settle()
        world.delete_pod(high)
        world.settle()

    high = pod_of(world, "high", MOST, priority=9)
    assert world.is_gated(high)
    assert not world.is_gated(low)

    other = pod_of(world, "other", 0, priority=9)
    assert not world.is_gated(other)


def test_a_jobs_workload_tells_who_preempted_it():
    world = ordered_world(quota=2)
    world.add(queued_job("low", 2))
    world.settle()
    world.add(queued_job("high", 2))
    set_priority(world, "high", 9)
    world.settle()

    uid = world.store.get(resources.JOBS, "high", "ml")["metadata"]["uid"]
    found = workload(world, "low")
    assert counted(found) == {f"ml/{uid}": 1}
    stats = found.status.scheduling_stats
    assert stats is not None
    assert [(one.reason, one.count) for one in stats.evictions or ()] == [
        ("Preempted", 1), (names.PREEMPTED_BY, 1),
    ]  # fmt: skip

    deactivate(world, "high")
    deactivate(world, "low")
    assert counted(workload(world, "low")) == {f"ml/{uid}": 1}


def set_priority(world: World, name: str, priority: int) -> None:
    world.settle()
    change = patches.merge({"spec": {"priority": priority}})
    of = workload(world, name).metadata.name
    world.store.patch(resources.WORKLOADS, of, change, "ml")


def deactivate(world: World, name: str) -> None:
    of = workload(world, name).metadata.name
    world.store.patch(resources.WORKLOADS, of, patches.merge({"spec": {"active": False}}), "ml")
    world.settle()


# -------------------------------------------------------------------------------- taking over


def preempted(
    name: str, *, created: str = CREATED, took_over: str = "", ended: str = ""
) -> Workload:
    """The Workload of a pod of one ReplicaSet that was preempted once."""
    past = model.PastPreemptions((("ml/high", 1),))
    metadata = {
        "name": name, "namespace": "ml", "uid": f"uid-{name}", "creationTimestamp": created,
        "annotations": {names.POD_CONTROLLER: "rs", names.PREEMPTED_BY: took_over},
    }  # fmt: skip
    finished = [make_condition("Finished", reason=ended)] if ended else []
    stats = {"evictions": past_preemptions.document(past)}
    status = {"schedulingStats": stats, "conditions": finished}
    return workload_view(name, metadata=metadata, status=status)


def of(annotation: str) -> str:
    """The UID of the Workload of which an annotation tells."""
    return past_preemptions.predecessor(
        workload_view(
            metadata={"name": "x", "annotations": {names.PREEMPTED_BY: annotation}}
        ).metadata
    )


def key(name: str) -> names.WorkloadKey:
    return names.WorkloadKey("ml", name)


def test_each_pod_follows_one_that_went_in_the_order_of_their_creation():
    found = Predecessors(FakeClock(), lambda _: True)
    for name, day in (("b", 2), ("a", 3), ("c", 1), ("d", 2)):
        found.on_update(preempted(name, created=CREATED.replace("2026", f"{2020 + day}")))

    taken = [of(found.promise(key(f"new-{index}"), "rs")) for index in range(5)]

    assert taken == ["uid-c", "uid-b", "uid-d", "uid-a", ""]
    assert of(found.promise(key("new-1"), "rs")) == "uid-b"  # asked again


def test_a_pod_follows_none_that_stays_nor_one_of_another_controller():
    stays = {key("b")}
    found = Predecessors(FakeClock(), lambda one: one not in stays)
    found.on_update(preempted("b"))

    assert found.promise(key("new"), "rs") == ""
    stays.clear()
    assert found.promise(key("new"), "other") == ""
    assert of(found.promise(key("new"), "rs")) == "uid-b"


def test_a_new_leader_sees_who_was_followed_already():
    first = preempted("a")
    text = past_preemptions.annotation(first.metadata.uid, first.past_preemptions())
    heir = preempted("b", took_over=text)
    for seen in ((first, heir), (heir, first)):
        found = Predecessors(FakeClock(), lambda one: one == key("a"))
        for one in seen:
            found.on_update(one)
        assert found.promise(key("new"), "rs") == ""


def test_a_predecessor_that_is_gone_is_remembered_for_an_hour():
    clock = FakeClock()
    found = Predecessors(clock, lambda _: True)
    for name in ("a", "b"):
        found.on_update(preempted(name))
        found.on_delete(preempted(name))

    clock.advance(KEEPS.total_seconds() - 1)
    assert of(found.promise(key("new"), "rs")) == "uid-a"
    clock.advance(1)
    assert found.promise(key("late"), "rs") == ""

    found.on_update(preempted("c"))
    found.on_delete(preempted("c"))
    assert list(found._gone) == ["uid-c"]


def test_what_was_promised_to_a_pod_that_went_is_anothers():
    found = Predecessors(FakeClock(), lambda _: True)
    found.on_update(preempted("a"))
    assert of(found.promise(key("new"), "rs")) == "uid-a"
    assert found.promise(key("other"), "rs") == ""

    found.forget_pod(key("new"))

    assert of(found.promise(key("other"), "rs")) == "uid-a"


def test_a_pod_that_succeeded_has_nobody_who_follows_it():
    found = Predecessors(FakeClock(), lambda _: True)
    found.on_update(preempted("a"))
    found.on_update(preempted("a", ended="Succeeded"))
    assert found.promise(key("new"), "rs") == ""

    found.on_update(preempted("b", ended="OwnerNotFound"))
    assert of(found.promise(key("new"), "rs")) == "uid-b"


def test_nothing_is_left_of_those_who_are_gone():
    found = Predecessors(FakeClock(), lambda _: True)
    first = preempted("a")
    found.on_update(first)
    text = found.promise(key("b"), "rs")
    heir = preempted("b", took_over=text)
    found.on_update(heir)
    found.on_delete(first)
    found.on_delete(heir)
    found._clock.advance(KEEPS.total_seconds())  # type: ignore[attr-defined]
    last = preempted("c")
    found.on_update(last)
    found.on_delete(last)

    assert not found._promised
    assert not found._heirs
    assert list(found._gone) == ["uid-c"]
    assert [list(one) for one in found._known.values()] == [["uid-c"]]
