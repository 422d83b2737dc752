"""Workloads of several pods that were admitted and cannot start give everything back."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from admission.answers import why
from admission.base import clock, names, patches
from admission.config.gpu_configuration import GpuConfiguration
from admission.config.kueue_configuration import Configuration, WaitForPodsReady
from admission.controller.watched_owners.members import Members
from admission.kube import resources
from admission.objects import views
from admission.reasons import sentences
from tests.builders.cluster import make_node
from tests.builders.jobs import queued_job
from tests.builders.pods import make_pod
from tests.clocks import FakeClock
from tests.controller.world import World, ready_world

NO_NODE = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
AWAITED = f"no node of a100 has room yet, an autoscaler may add one; {NO_NODE}"
WAIT = (
    "Wait: an autoscaler is asked for a node; if none comes, ask an administrator whether nodes of"
    " this kind can be added"
)
HALF_AN_HOUR = 30 * 60


NOT_CREATED = "pods are created; the events of its owner may say why"


def report(world: World, name: str = "train", **status: Any) -> None:
    """Say what the Job controller says."""
    said = {"startTime": "2026-01-01T00:00:00Z", **status}
    change = patches.merge({"status": said})
    world.store.patch(resources.JOBS, name, change, "ml", subresource="status")


def make(world: World, job: str, *indexes: int, node: str = "n1", why: str = "") -> None:
    """Make pods of an admitted Job, as its controller and the scheduler do."""
    owner = world.store.get(resources.JOBS, job, "ml")
    template = owner["spec"]["template"]["metadata"]
    for index in indexes:
        pod = make_pod(
            f"{job}-{index}", namespace="ml", gpus=1, labels=template.get("labels"),
            annotations=template.get("annotations"),
        )  # fmt: skip
        if node and not why:
            pod["spec"]["nodeName"] = node
        world.store.create(resources.PODS, pod, "ml")
        condition = {"type": "PodScheduled", "status": "False" if why else "True", "message": why}
        change = patches.merge({"status": {"phase": "Pending", "conditions": [condition]}})
        name = pod["metadata"]["name"]
        world.store.patch(resources.PODS, name, change, "ml", subresource="status")
    world.settle()


def unmake(world: World, job: str, *indexes: int) -> None:
    """Delete all pods of a Job, as its controller does once it is suspended."""
    for index in indexes:
        world.store.delete(resources.PODS, f"{job}-{index}", "ml")
    report(world, job, active=0, ready=0)
    world.settle()


def later(world: World, seconds: float) -> None:
    world.clock.advance(seconds)
    world.settle()


def about_workloads(world: World) -> int:
    return sum(one.resource is resources.WORKLOADS for one in world.sent)


def condition(world: World, kind: str, name: str = "train") -> tuple[str, str, str]:
    found = world.workloads()[name].status.condition(kind)
    return (found.status, found.reason, found.message) if found else ("", "", "")


def told(world: World) -> list[str]:
    """What owners were told that hold quota and cannot run."""
    return [note for _, reason, note in world.events.recorded if reason == "CannotRun"]


def is_suspended(world: World, name: str = "train") -> bool:
    return bool(world.store.get(resources.JOBS, name, "ml")["spec"]["suspend"])


def four_of(world: World, name: str = "train") -> None:
    world.store.create(resources.NODES, make_node("n1"))
    world.add(queued_job(name, pods=4))
    world.settle()
    assert not is_suspended(world, name)


def test_a_job_whose_pods_cannot_all_start_gives_its_quota_back_after_half_an_hour() -> None:
    world = ready_world()
    four_of(world)
    make(world, "train", 0, 1)
    make(world, "train", 2, 3, why=NO_NODE)
    report(world, active=4, ready=2)
    later(world, HALF_AN_HOUR - 1)
    assert not is_suspended(world)

    later(world, 2)
    text = f"Not all pods were ready within 30 minutes: 2 of 4 pods are scheduled: {AWAITED}"
    assert condition(world, "Evicted") == ("True", "PodsReadyTimeout", text)
    assert is_suspended(world)


def test_what_it_gave_back_lets_another_start_and_it_is_tried_again_later() -> None:
    world = ready_world()
    four_of(world)
    world.add(queued_job("other", pods=4))
    report(world, active=0)
    later(world, HALF_AN_HOUR + 1)
    later(world, 1)
    assert (is_suspended(world), is_suspended(world, "other")) == (True, False)

    world.store.delete(resources.JOBS, "other", "ml")
    later(world, 61)
    assert not is_suspended(world)


def test_pods_that_nobody_can_create_are_counted_where_people_look() -> None:
    world = ready_world()
    four_of(world)
    make(world, "train", 0, 1, 2)
    report(world, active=3, ready=3)
    later(world, 29)
    assert condition(world, "PodsReady")[2] == ""
    later(world, 1)
    said = "3 of 4 pods are created; the events of its owner may say why"
    text = f"Not all pods are ready or succeeded: {said}"
    assert condition(world, "PodsReady") == ("False", "WaitForStart", text)
    assert told(world) == [(
        "This Job holds 4 nvidia.com/gpu of queue team-a, but only 3 of 4 pods are created; its "
        "other events may say why. Delete it, or ask for fewer pods, to give the quota back; "
        "it is evicted if it does not run within 30 minutes"
    )]  # fmt: skip


def test_nothing_is_written_while_pods_come_one_after_the_other() -> None:
    world = ready_world()
    four_of(world)
    before = about_workloads(world)
    for index in range(4):
        make(world, "train", index)
        report(world, active=index + 1, ready=index)
        later(world, 20)
    assert about_workloads(world) == before
    report(world, active=4, ready=4)
    later(world, 1)
    assert condition(world, "PodsReady")[:2] == ("True", "Started")
    assert about_workloads(world) == before + 1


def test_pods_that_are_scheduled_and_start_slowly_are_no_news() -> None:
    world = ready_world()
    four_of(world)
    make(world, "train", 0, 1, 2, 3)
    report(world, active=4, ready=1)
    before = about_workloads(world)
    later(world, 600)
    assert about_workloads(world) == before


def test_a_pod_on_a_node_that_is_lost_is_told_and_has_as_much_time_again() -> None:
    world = ready_world()
    four_of(world)
    make(world, "train", 0, 1, 2, 3)
    report(world, active=4, ready=4)
    later(world, 2 * HALF_AN_HOUR)
    assert condition(world, "PodsReady")[:2] == ("True", "Started")

    lost = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T01:00:00Z"}
    change = patches.merge({"status": {"conditions": [lost]}})
    world.store.patch(resources.NODES, "n1", change, subresource="status")
    report(world, active=4, ready=3)
    later(world, 1)
    later(world, 1)
    text = condition(world, "PodsReady")[2]
    assert text.endswith(": 0 of 4 pods are ready: node n1 is not ready")
    later(world, HALF_AN_HOUR - 3)
    assert not is_suspended(world)
    later(world, 3)
    assert is_suspended(world)


@pytest.mark.parametrize("pods", [1, 4])
def test_nothing_is_told_while_an_owner_that_somebody_suspended_makes_its_pods_anew(
    pods: int,
) -> None:
    world = ready_world()
    world.store.create(resources.NODES, make_node("n1"))
    world.add(queued_job(pods=pods))
    world.settle()
    make(world, "train", *range(pods))
    report(world, active=pods, ready=pods)
    later(world, HALF_AN_HOUR)
    assert told(world) == []

    unmake(world, "train", *range(pods))
    later(world, 29)
    assert told(world) == []
    make(world, "train", *range(pods))
    later(world, 29)
    report(world, active=pods, ready=pods)
    later(world, 60)
    assert told(world) == []

    unmake(world, "train", *range(pods))
    later(world, 30)
    assert len(told(world)) == 1


def test_pods_that_became_ready_while_nobody_looked_go_on() -> None:
    world = ready_world()
    four_of(world)
    make(world, "train", 0, 1, 2, 3)
    report(world, active=4, ready=4)
    world.clock.advance(2 * HALF_AN_HOUR)
    again = world.restarted()
    again.settle()
    assert condition(again, "PodsReady")[:2] == ("True", "Started")
    assert not is_suspended(again)


def test_a_single_pod_may_take_any_time() -> None:
    world = ready_world()
    world.add_pod("train")
    world.add(queued_job("one", pods=1))
    world.settle()
    make(world, "one", 0, why=NO_NODE)
    later(world, 10 * HALF_AN_HOUR)
    assert condition(world, "Evicted") == ("", "", "")
    assert not is_suspended(world, "one")


def test_a_job_whose_one_pod_nobody_can_create_gives_its_quota_back_too() -> None:
    world = ready_world(quota=1)
    world.add(queued_job(pods=1))
    world.settle()
    report(world, active=0)
    world.pass_long_time(60)
    assert condition(world, "PodsReady")[2].endswith(f"0 of 1 {NOT_CREATED}")
    assert not is_suspended(world)
    world.pass_long_time(HALF_AN_HOUR - 30)
    assert is_suspended(world)
    assert "Not all pods were ready within 30 minutes" in condition(world, "Evicted")[2]


def test_a_reason_that_changes_all_the_time_is_told_within_a_minute() -> None:
    world = ready_world(quota=2)
    world.add(queued_job(pods=2))
    world.settle()
    report(world, active=2)
    make(world, "train", 0, 1, why=NO_NODE)
    for second in range(90):
        for index in (0, 1):
            changed = {
                "type": "PodScheduled", "status": "False", "message": f"{NO_NODE} {second % 2}",
            }  # fmt: skip
            change = patches.merge({"status": {"conditions": [changed]}})
            world.store.patch(resources.PODS, f"train-{index}", change, "ml", subresource="status")
        later(world, 1)
        if told(world):
            break
    assert 59 <= second <= 61
    assert "0 of 2 pods are scheduled" in condition(world, "PodsReady")[2]


def test_with_0_there_is_no_limit() -> None:
    gpu = GpuConfiguration(max_stops_per_minute=0, not_ready_after=timedelta())
    world = ready_world(gpu=gpu)
    four_of(world)
    make(world, "train", 0, 1)
    make(world, "train", 2, 3, why=NO_NODE)
    later(world, 10 * HALF_AN_HOUR)
    assert not is_suspended(world)
    assert condition(world, "PodsReady")[2].endswith(f": 2 of 4 pods are scheduled: {AWAITED}")
    assert told(world) == [(
        "This Job holds 4 nvidia.com/gpu of queue team-a, but only 2 of 4 pods are scheduled: "
        f"{AWAITED} {WAIT}"
    )]  # fmt: skip


def test_with_0_nothing_is_written_about_pods_that_run() -> None:
    gpu = GpuConfiguration(max_stops_per_minute=0, not_ready_after=timedelta())
    world = ready_world(gpu=gpu)
    four_of(world)
    before = about_workloads(world)
    make(world, "train", 0, 1, 2, 3)
    report(world, active=4, ready=4)
    later(world, HALF_AN_HOUR)
    assert about_workloads(world) == before


def test_what_kueues_configuration_says_holds_instead() -> None:
    ready = WaitForPodsReady(timeout=timedelta(minutes=1))
    world = ready_world(kueue=Configuration(wait_for_pods_ready=ready))
    four_of(world)
    assert condition(world, "PodsReady")[2] == "Not all pods are ready or succeeded"
    later(world, 61)
    assert is_suspended(world)
    assert "Exceeded the PodsReady timeout" in condition(world, "Evicted")[2]


def test_after_a_restart_the_time_goes_on() -> None:
    world = ready_world()
    four_of(world)
    later(world, HALF_AN_HOUR - 60)
    again = world.restarted()
    again.settle()
    later(again, 61)
    assert is_suspended(again)


def test_a_copy_of_one_of_its_pods_keeps_nobody_from_being_ready() -> None:
    """Whoever creates the manifest of a running pod again has the mark of its admission, too."""
    world = ready_world()
    four_of(world)
    make(world, "train", 0, 1, 2, 3)
    marks = world.pod("train-0").metadata
    world.add_pod("copy", gpus=1, labels=marks.labels, annotations=marks.annotations)
    report(world, active=4, ready=4)
    later(world, 1)
    assert world.is_gated("copy")
    assert condition(world, "PodsReady")[:2] == ("True", "Started")


# --------------------------------------------------------------------------------- single pods


def say(world: World, *conditions: dict[str, str], name: str = "train", node: str = "") -> None:
    """Say what the scheduler and the kubelet say of a pod."""
    if node:
        world.store.patch(resources.PODS, name, patches.merge({"spec": {"nodeName": node}}), "ml")
    change = patches.merge({"status": {"conditions": list(conditions)}})
    world.store.patch(resources.PODS, name, change, "ml", subresource="status")
    world.settle()


def unscheduled(world: World, why: str = NO_NODE) -> dict[str, str]:
    now = clock.to_wire(world.clock.now())
    return {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why,
        "lastTransitionTime": now,
    }  # fmt: skip


READY = {"type": "Ready", "status": "True"}
SCHEDULED = {"type": "PodScheduled", "status": "True"}


def single(world: World) -> None:
    """A pod that was admitted."""
    world.store.create(resources.NODES, make_node("n1"))
    world.add_pod("train", gpus=2)
    world.settle()
    assert not world.is_gated("train")


def test_a_single_pod_that_no_node_takes_says_so_soon_and_once() -> None:
    world = ready_world()
    single(world)
    say(world, unscheduled(world))
    later(world, 4)
    assert told(world) == []
    later(world, 1)
    text = f"Not all pods are ready or succeeded: 0 of 1 pods are scheduled: {AWAITED}"
    assert condition(world, "PodsReady") == ("False", "WaitForStart", text)
    note = f"This pod holds 2 nvidia.com/gpu of queue team-a, but has no node: {AWAITED} {WAIT}"
    assert told(world) == [note]
    answer = why.explain(world.store, "ml", "train").message
    assert answer == f"Admitted, but 0 of 1 pods are scheduled: {AWAITED}"

    say(world, unscheduled(world, "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."))
    later(world, 60)
    assert "0/4 nodes" in condition(world, "PodsReady")[2]
    again = world.restarted()
    later(again, 60)
    assert (told(world), told(again)) == ([note], [])


def test_a_single_pod_that_finds_a_node_late_is_told_as_started() -> None:
    world = ready_world()
    single(world)
    say(world, unscheduled(world))
    later(world, 5)
    say(world, SCHEDULED, READY, node="n1")
    later(world, 1)
    assert condition(world, "PodsReady")[:2] == ("True", "Started")


def test_nothing_is_written_about_a_single_pod_that_runs() -> None:
    world = ready_world()
    single(world)
    before = about_workloads(world)
    later(world, 60)
    say(world, unscheduled(world))
    later(world, 1)
    say(world, SCHEDULED, node="n1")
    later(world, 60)
    say(world, SCHEDULED, READY)
    later(world, 60)
    assert about_workloads(world) == before
    assert told(world) == []


def lose_node(world: World) -> None:
    lost = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T01:00:00Z"}
    change = patches.merge({"status": {"conditions": [lost]}})
    world.store.patch(resources.NODES, "n1", change, subresource="status")


def test_a_single_pod_on_a_node_that_is_lost_says_so() -> None:
    world = ready_world()
    single(world)
    say(world, SCHEDULED, READY, node="n1")
    later(world, 60)
    lose_node(world)
    say(world, SCHEDULED, {"type": "Ready", "status": "False"})
    later(world, 5)
    assert condition(world, "PodsReady")[2].endswith("0 of 1 pods are ready: node n1 is not ready")
    assert told(world) == [(
        "This pod holds 2 nvidia.com/gpu of queue team-a, but its node n1 is not ready. Delete it "
        "to give the quota back, or wait for the node"
    )]  # fmt: skip
    world.delete_pod("train")
    later(world, 60)
    assert len(told(world)) == 1


def test_a_job_of_one_pod_says_so_too() -> None:
    world = ready_world()
    world.add(queued_job("train", pods=1))
    world.settle()
    make(world, "train", 0, why=NO_NODE)
    later(world, 5)
    assert told(world) == [(
        "This Job holds 1 nvidia.com/gpu of queue team-a, but only 0 of 1 pods are scheduled: "
        f"{AWAITED} {WAIT}"
    )]  # fmt: skip
    assert not is_suspended(world)


# --------------------------------------------------------------------------------- the counts


def pod(name: str, of: str = "w", *, node: str = "", why: str = "", **status: Any) -> views.Pod:
    conditions = [views.PodCondition(type="PodScheduled", status="False", message=why)]
    if status.pop("ready", False):
        conditions.append(views.PodCondition(type="Ready", status="True"))
    metadata = views.ObjectMeta(
        namespace="ml", name=name, uid=name, annotations={names.WORKLOAD_ANNOTATION: of},
        deletion_timestamp=status.pop("deleted", None),
    )  # fmt: skip
    return views.Pod(
        metadata=metadata,
        spec=views.PodSpec(node_name=node),
        status=views.PodStatus(conditions=tuple(conditions), **status),
    )


def counted(*pods: views.Pod, lost: str = "") -> str:
    world = ready_world()
    four_of(world)
    workload = world.workloads()["train"]
    members = Members(FakeClock(), lambda node: node == lost, lambda _: None)
    for one in pods:
        metadata = one.metadata.annotations or {}
        assert metadata[names.WORKLOAD_ANNOTATION] == "w"
        named = {names.WORKLOAD_ANNOTATION: workload.metadata.name}
        changed = msgspec.structs.replace(one.metadata, annotations=named)
        members.on_update(msgspec.structs.replace(one, metadata=changed))
    return sentences.hint(members.counts(workload))


@pytest.mark.parametrize(
    ("pods", "lost", "text"),
    [
        ([], "", f"0 of 4 {NOT_CREATED}"),
        (["a", "b"], "", f"2 of 4 {NOT_CREATED}"),
        (["a n1", "b n1", "c", "d"], "", "2 of 4 pods are scheduled"),
        (["a n1", "b -x", "c -y", "d -y"], "", "1 of 4 pods are scheduled: y"),
        (["a n1", "b n1", "c -y", "d -x"], "", "2 of 4 pods are scheduled: x"),
        (["a n1", "b n1", "c n2", "d n1"], "n2", "0 of 4 pods are ready: node n2 is not ready"),
        (["a n1 r", "b n1 r", "c n1", "d n1"], "", "2 of 4 pods are ready"),
        (["a n1 s", "b n1 r", "c n1", "d n1"], "", "2 of 4 pods are ready"),
        (["a n1 f", "b n1 d", "c n1", "d n1"], "", f"2 of 4 {NOT_CREATED}"),
    ],
)
def test_the_first_thing_that_is_missing_is_told(pods: list[str], lost: str, text: str) -> None:
    made = []
    for said in pods:
        name, *more = said.split()
        flags = {one for one in more if len(one) == 1}
        made.append(
            pod(
                name,
                node=next((one for one in more if one.startswith("n")), ""),
                why=next((one[1:] for one in more if one.startswith("-")), ""),
                ready="r" in flags,
                phase={"s": "Succeeded", "f": "Failed"}.get(next(iter(flags), ""), "Pending"),
                deleted="2026-01-01T00:00:00Z" if "d" in flags else None,
            )
        )
    assert counted(*made, lost=lost) == text
