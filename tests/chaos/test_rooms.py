"""The judge of places finds what it is there to find, and only that."""

from typing import Any

import pytest

from tests.chaos.checker import Event, Json
from tests.chaos.rooms import (
    DECIDED_SECONDS,
    PLACED_SECONDS,
    PREEMPTED_SECONDS,
    RESTARTED_SECONDS,
    STRANDED_SECONDS,
    Guest,
    RoomJudge,
    can_place,
)

LATER = max(PLACED_SECONDS, PREEMPTED_SECONDS) + 1


class World:
    """A judge of two nodes with 4 GPUs each and a quota of 8; a second passes with each event.

    Each node is in a rack of its own.
    """

    def __init__(self) -> None:
        self.judge = RoomJudge("team", "team", "L4", "rack")
        self.second = 0.0
        resource = {"name": "nvidia.com/gpu", "nominalQuota": "8"}
        spec = {"resourceGroups": [{"flavors": [{"name": "l4", "resources": [resource]}]}]}
        self.take("clusterqueues", {"metadata": {"name": "team"}, "spec": spec})
        self.node("n0")
        self.node("n1")

    def take(self, kind: str, document: Json, type_: str = "MODIFIED", after: float = 1) -> None:
        self.second += after
        event = Event(kind=kind, type=type_, object=document, at=self.second, wall=self.second)
        self.judge.take(event)

    def wait(self, seconds: float = LATER) -> None:
        """Let time pass; an event of a kind that nobody judges shows it."""
        self.take("resourceflavors", {}, after=seconds)

    def node(self, name: str, gpus: int = 4, type_: str = "MODIFIED", **spec: Any) -> None:
        labels = {"nvidia.com/gpu.product": "L4", "rack": f"rack-{name[:2]}"}
        status = {
            "allocatable": {"nvidia.com/gpu": str(gpus)},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        metadata = {"name": name, "labels": labels}
        self.take("nodes", {"metadata": metadata, "spec": spec, "status": status}, type_)

    def pod(
        self,
        name: str,
        gpus: int = 1,
        *,
        gated: bool = False,
        node: str = "",
        group: tuple[str, int] = ("", 0),
        namespace: str = "team",
        job: str = "",
        host: str = "",
        is_required: bool = False,
        is_ending: bool = False,
        preferred: tuple[str, ...] = (),
        type_: str = "MODIFIED",
    ) -> None:
        owners = [{"kind": "Job", "uid": job, "controller": True}] if job else []
        metadata: Json = {
            "name": name, "namespace": namespace, "uid": name, "ownerReferences": owners,
        }  # fmt: skip
        if group[0]:
            metadata["annotations"] = {
                "kueue.x-k8s.io/pod-group-name": group[0],
                "kueue.x-k8s.io/pod-group-total-count": str(group[1]),
            }
        if is_required:
            metadata.setdefault("annotations", {})["kueue.x-k8s.io/podset-required-topology"] = "r"
        if is_ending:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        spec = {
            "containers": [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
            "schedulingGates": [{"name": "any"}] if gated else [],
            "nodeName": node,
            "nodeSelector": {"kubernetes.io/hostname": host} if host else {},
            "affinity": {"nodeAffinity": _preferring(preferred)},
        }
        phase = "Running" if node else "Pending"
        self.take("pods", {"metadata": metadata, "spec": spec, "status": {"phase": phase}}, type_)

    def workload(
        self, name: str, priority: int = 0, *, preemptor: str = "", quota: bool = False
    ) -> None:
        """The Workload of the pod of the same name; it is preempted where a preemptor is named."""
        conditions = [{"type": "QuotaReserved", "status": "True"}] if quota else []
        if preemptor:
            message = f"Preempted to accommodate a workload (UID: {preemptor}, JobUID: x) due to y"
            conditions.append({"type": "Preempted", "status": "True", "message": message})
        metadata = {
            "name": name, "namespace": "team", "uid": f"w-{name}",
            "ownerReferences": [{"uid": name}],
        }  # fmt: skip
        document = {
            "metadata": metadata,
            "spec": {"priority": priority},
            "status": {"conditions": conditions},
        }
        self.take("workloads", document)


def _preferring(hosts: tuple[str, ...]) -> Json:
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(hosts)}
    preferred = [{"weight": 100, "preference": {"matchExpressions": [term]}}] if hosts else []
    return {"preferredDuringSchedulingIgnoredDuringExecution": preferred}


@pytest.mark.parametrize("node", ["n0", "n1"])
def test_what_the_scheduler_binds_elsewhere_than_a_pod_prefers_is_a_change(node: str) -> None:
    world = World()
    world.pod("other", 2, preferred=("n0",))
    world.pod("waits", 4)
    world.wait(PLACED_SECONDS - 3)
    world.pod("other", 2, node=node, preferred=("n0",))
    world.wait(3)
    assert set(world.judge.nowhere) == (set() if node == "n1" else {"waits"})


def test_a_released_pod_that_no_node_takes_is_nowhere() -> None:
    world = World()
    world.pod("waits", 4)
    assert world.judge.nowhere == {}
    world.wait()
    assert set(world.judge.nowhere) == {"waits"}


@pytest.mark.parametrize("change", ["node", "foreign", "gone"])
def test_a_released_pod_may_wait_where_something_changed_on_the_nodes(change: str) -> None:
    world = World()
    world.pod("waits", 4)
    world.wait(PLACED_SECONDS - 3)
    match change:
        case "node":
            world.node("n0", 2)
        case "foreign":
            world.pod("other", 2, node="n1", namespace="outside")
        case _:
            world.node("n0", type_="DELETED")
    world.wait(PLACED_SECONDS - 1)
    assert world.judge.nowhere == {}
    world.wait(2)
    assert set(world.judge.nowhere) == {"waits"}


def test_a_pod_whose_room_was_taken_has_the_time_anew_when_there_is_room_again() -> None:
    world = World()
    world.pod("small", 2, node="n0")
    world.pod("waits", 4)
    world.pod("other", 1, node="n1", namespace="outside")
    world.wait()
    world.pod("small", 2, node="n0", type_="DELETED")
    world.wait(PLACED_SECONDS - 1)
    assert world.judge.nowhere == {}
    world.wait(2)
    assert set(world.judge.nowhere) == {"waits"}


def robbed() -> World:
    """The pod "waits" was released to n1, whose room a pod of others took after the decision."""
    world = World()
    world.wait()
    world.workload("waits", quota=True)
    world.pod("other", 4, node="n1", namespace="outside")
    world.pod("waits", 4, host="n1")
    world.wait()
    return world


def test_a_pod_whose_room_was_taken_just_before_its_release_may_wait_for_it() -> None:
    """What was decided did not know of it."""
    world = robbed()
    assert world.judge.nowhere == {}
    world.pod("other", 4, node="n1", namespace="outside", type_="DELETED")
    world.wait()
    assert set(world.judge.nowhere) == {"waits"}


def test_a_pod_whose_room_was_taken_does_not_count_for_others_that_are_released() -> None:
    world = robbed()
    world.pod("late", 1, host="n0")
    assert world.judge.nowhere == {}
    world.pod("beside", 4, host="n0")
    assert set(world.judge.nowhere) == {"beside"}


def test_a_pod_that_is_released_where_the_nodes_have_no_room_is_nowhere_at_once() -> None:
    world = World()
    world.pod("small", 2, node="n0")
    world.pod("other", 3, node="n1")
    world.wait()
    world.pod("fits", 2)
    assert world.judge.nowhere == {}
    world.pod("late", 1)
    assert world.judge.nowhere == {}
    world.pod("beside", 1)
    assert set(world.judge.nowhere) == {"beside"}


def test_pods_of_others_count_also_where_their_node_is_shown_after_them() -> None:
    world = World()
    world.node("n0", type_="DELETED")
    world.pod("other", 4, node="n0", namespace="outside")
    world.node("n0")
    world.wait()
    world.pod("large", 4, gated=True)
    assert set(world.judge.kept_out()) == {"large"}
    world.pod("runs", 4, node="n1")
    assert world.judge.kept_out() == {}


def test_what_a_store_shows_released_was_not_decided_beside_what_is_released_then() -> None:
    world = World()
    world.pod("runs", 4, node="n0")
    world.wait()
    world.take("pods", {}, "RESET")
    world.pod("runs", 4, node="n0", type_="LISTED")
    world.pod("waits", 1, host="n0", type_="LISTED")
    world.wait(DECIDED_SECONDS + 1)
    world.pod("new", 1, host="n1")
    assert world.judge.nowhere == {}


def test_the_scheduler_has_more_time_where_a_store_was_put_back() -> None:
    world = World()
    world.take("pods", {}, "RESET")
    world.pod("waits", 4)
    world.wait(RESTARTED_SECONDS - 5)
    assert world.judge.nowhere == {}
    world.wait()
    assert set(world.judge.nowhere) == {"waits"}


def test_a_pod_that_a_store_brings_back_with_its_gate_is_released_anew() -> None:
    world = World()
    world.pod("again", 4)
    world.take("pods", {}, "RESET")
    world.pod("again", 4, gated=True)
    world.wait()
    world.pod("again", 4)
    assert world.judge.nowhere == {}


def test_a_pod_may_be_released_where_the_nodes_have_just_lost_the_room() -> None:
    world = World()
    world.wait()
    world.node("n0", 1)
    world.node("n1", 1)
    world.pod("waits", 4)
    assert world.judge.nowhere == {}


def test_a_pod_with_a_node_or_a_gate_is_not_nowhere() -> None:
    world = World()
    world.pod("runs", 4, node="n0")
    world.pod("gated", 4, gated=True)
    world.wait()
    assert world.judge.nowhere == {}
    assert world.judge.exercised["placed on nodes"] == 1


def preempted(world: World) -> None:
    world.pod("victim", 4, node="n0")
    world.workload("victim")
    world.pod("high", 4, gated=True)
    world.workload("high", 10)
    world.workload("victim", preemptor="w-high")


def test_a_preemption_whose_preemptor_gets_no_node_is_in_vain() -> None:
    world = World()
    preempted(world)
    world.wait()
    assert set(world.judge.in_vain) == {"w-high"}


def test_a_preemption_whose_preemptor_runs_is_not_in_vain() -> None:
    world = World()
    preempted(world)
    world.pod("high", 4, node="n0")
    world.wait()
    assert world.judge.in_vain == {}
    assert world.judge.exercised["preemptions for a place"] == 1


@pytest.mark.parametrize("reason", ["node", "higher"])
def test_a_preemption_is_not_in_vain_where_the_nodes_changed_or_a_higher_priority_came(
    reason: str,
) -> None:
    world = World()
    preempted(world)
    if reason == "node":
        world.node("n0", 2)
    else:
        world.workload("higher", 20)
    world.wait()
    assert world.judge.in_vain == {}


def test_what_waits_although_a_node_has_room_is_kept_out() -> None:
    world = World()
    world.pod("small", 2, node="n0")
    world.pod("large", 4, gated=True)
    assert set(world.judge.kept_out()) == {"large"}
    world.pod("other", 1, node="n1", namespace="outside")
    assert world.judge.kept_out() == {}


def test_a_group_is_kept_out_where_all_of_it_has_room_at_once() -> None:
    world = World()
    for name in ("a", "b", "c"):
        world.pod(name, 2, gated=True, group=("g", 3))
    assert set(world.judge.kept_out()) == {"a"}
    world.pod("other", 3, node="n1", namespace="outside")
    assert world.judge.kept_out() == {}


def test_a_group_that_needs_one_rack_is_kept_out_only_where_one_rack_has_room() -> None:
    world = World()
    for name in ("a", "b"):
        world.pod(name, 2, gated=True, group=("g", 2), is_required=True)
    assert set(world.judge.kept_out()) == {"a"}
    world.pod("left", 1, node="n0", namespace="outside")
    assert set(world.judge.kept_out()) == {"a"}
    world.pod("right", 1, node="n1", namespace="outside")
    assert world.judge.kept_out() == {}


def test_a_pod_is_kept_out_only_where_the_rack_of_its_job_has_room() -> None:
    world = World()
    world.pod("runs", 3, node="n0", job="j", is_required=True)
    world.pod("waits", 2, gated=True, job="j", is_required=True)
    assert world.judge.kept_out() == {}
    world.pod("runs", 2, node="n0", job="j", is_required=True)
    assert set(world.judge.kept_out()) == {"waits"}


def test_a_pod_that_is_told_a_host_without_room_is_nowhere_at_once() -> None:
    world = World()
    world.pod("runs", 3, node="n0")
    world.wait()
    world.pod("fits", 1, host="n0")
    assert world.judge.nowhere == {}
    world.pod("late", 1, host="n0")
    assert set(world.judge.nowhere) == {"late"}


def test_a_pod_may_wait_while_what_changed_leaves_no_room_for_it() -> None:
    world = World()
    world.pod("waits", 4, host="n0")
    world.pod("other", 1, node="n0", namespace="outside")
    world.wait()
    assert world.judge.nowhere == {}


def test_pods_that_need_one_rack_and_are_in_two_are_scattered() -> None:
    world = World()
    world.pod("first", node="n0", job="j", is_required=True)
    world.pod("second", host="n0", job="j", is_required=True)
    world.pod("other", host="n1", job="k", is_required=True)
    world.pod("free", host="n1", job="j")
    assert world.judge.scattered == {}
    world.pod("third", host="n1", job="j", is_required=True)
    assert set(world.judge.scattered) == {"j"}


def test_pods_that_end_do_not_count_for_the_rack() -> None:
    world = World()
    world.pod("first", node="n0", job="j", is_required=True, is_ending=True)
    world.pod("second", node="n1", job="j", is_required=True)
    assert world.judge.scattered == {}
    assert world.judge.exercised["told a host"] == 1


@pytest.mark.parametrize("loss", ["gone", "closed"])
def test_a_pod_of_a_job_that_is_told_a_lost_host_is_stranded(loss: str) -> None:
    world = World()
    world.pod("waits", 4, host="n0", job="j")
    world.pod("single", 4, host="n0")
    if loss == "gone":
        world.node("n0", type_="DELETED")
    else:
        world.node("n0", unschedulable=True)
    world.wait(STRANDED_SECONDS - 1)
    assert world.judge.stranded == {}
    world.wait(2)
    assert set(world.judge.stranded) == {"waits"}
    assert world.judge.exercised["hosts lost under pods"] == 1


def test_a_pod_is_not_stranded_while_others_of_its_job_go_on_there_or_once_it_ends() -> None:
    world = World()
    world.pod("runs", 1, node="n0", job="j")
    world.pod("waits", 1, host="n0", job="j")
    world.node("n0", unschedulable=True)
    world.wait()
    world.pod("runs", 1, node="n0", job="j", is_ending=True)
    world.wait(STRANDED_SECONDS - 1)
    world.pod("waits", 1, host="n0", job="j", is_ending=True)
    world.wait()
    assert world.judge.stranded == {}


def guest(gpus: int, host: str = "") -> Guest:
    return Guest(
        uid="", ref=("", ""), job="", group=("", 0), gpus=gpus, node="", is_released=True,
        is_over=False, is_ending=False, host=host, has_level=False,
            preferred=frozenset(),
    )  # fmt: skip


def test_places_are_looked_for_in_every_way() -> None:
    free = {"a": 4, "b": 4, "overfull": -1}
    assert can_place([guest(3), guest(2), guest(2)], free)
    assert not can_place([guest(3), guest(3), guest(2)], free)
    assert not can_place([guest(3), guest(3, "a"), guest(2)], free)
    assert not can_place([guest(1, "gone")], free)
    assert not can_place([guest(1)], {})
    assert can_place([], {})
