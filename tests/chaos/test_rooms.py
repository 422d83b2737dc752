"""The judge of places finds what it is there to find, and only that."""

from typing import Any

import pytest

from tests.chaos.checker import Event, Json
from tests.chaos.rooms import PLACED_SECONDS, PREEMPTED_SECONDS, RoomJudge, can_place

LATER = max(PLACED_SECONDS, PREEMPTED_SECONDS) + 1


class World:
    """A judge of two nodes with 4 GPUs each and a quota of 8; a second passes with each event."""

    def __init__(self) -> None:
        self.judge = RoomJudge("team", "team", "L4")
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
        labels = {"nvidia.com/gpu.product": "L4"}
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
    ) -> None:
        metadata: Json = {"name": name, "namespace": namespace, "uid": name}
        if group[0]:
            metadata["annotations"] = {
                "kueue.x-k8s.io/pod-group-name": group[0],
                "kueue.x-k8s.io/pod-group-total-count": str(group[1]),
            }
        spec = {
            "containers": [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
            "schedulingGates": [{"name": "any"}] if gated else [],
            "nodeName": node,
        }
        phase = "Running" if node else "Pending"
        self.take("pods", {"metadata": metadata, "spec": spec, "status": {"phase": phase}})

    def workload(self, name: str, priority: int = 0, *, preemptor: str = "") -> None:
        """The Workload of the pod of the same name; it is preempted where a preemptor is named."""
        conditions = []
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


def test_places_are_looked_for_in_every_way() -> None:
    assert can_place([3, 2, 2], [4, 4])
    assert not can_place([3, 3, 2], [4, 4])
    assert not can_place([1], [])
    assert can_place([], [])
