"""Pods with scheduling gates of other controllers."""

from typing import Any

from admission.base import names, patches
from admission.config.gpu_configuration import GpuConfiguration
from admission.kube import resources
from tests.builders.pods import group_pod
from tests.controller.world import World, ready_world

THEIRS = "acme.io/data"
OURS = names.ADMISSION_GATE


def gated(*gates: str) -> dict[str, Any]:
    return {"schedulingGates": [{"name": gate} for gate in gates]}


def keep_gates(world: World, name: str, *gates: str) -> None:
    """Another controller takes its gates off; these stay."""
    world.store.patch(resources.PODS, name, patches.merge({"spec": gated(*gates)}), "ml")
    world.settle()


def gates_of(world: World, name: str) -> list[str]:
    return [gate.name for gate in world.pod(name).spec.scheduling_gates or ()]


def test_a_pod_waits_until_only_our_gate_is_left_and_names_the_others() -> None:
    world = ready_world()
    world.add_pod("train", gated=False, **gated(OURS, "acme.io/image", THEIRS))
    world.settle()

    assert world.workloads() == {}
    condition = world.condition("train")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "GatedByOthers")
    assert "acme.io/data, acme.io/image" in condition.message

    keep_gates(world, "train", OURS, THEIRS)
    condition = world.condition("train")
    assert condition is not None
    assert "acme.io/image" not in condition.message
    keep_gates(world, "train", OURS)

    assert gates_of(world, "train") == []
    condition = world.condition("train")
    assert condition is not None
    assert condition.status == "True"


def test_what_another_controller_changed_meanwhile_counts() -> None:
    world = ready_world()
    world.add_pod("train", gated=False, **gated(OURS, THEIRS))
    world.settle()
    arm = {"kubernetes.io/arch": "arm64"}
    change = patches.merge({"spec": {**gated(OURS), "nodeSelector": arm}})
    world.store.patch(resources.PODS, "train", change, "ml")
    world.settle()

    (pod_set,) = world.workloads()["train"].spec.pod_sets or ()
    assert (pod_set.template.spec.node_selector or {}).items() >= arm.items()


def test_where_chosen_a_pod_is_admitted_and_keeps_the_gates_of_others() -> None:
    chosen = GpuConfiguration(max_stops_per_minute=0, while_gated_by_others="Admit")
    world = ready_world(gpu=chosen)
    world.add_pod("train", gated=False, **gated(OURS, THEIRS))
    world.settle()

    assert gates_of(world, "train") == [THEIRS]


def test_a_pod_taken_over_from_kueue_does_not_wait_for_its_topology_gate() -> None:
    world = ready_world()
    world.add_pod("train", gated=False, **gated(OURS, names.TOPOLOGY_GATE))
    world.settle()

    assert gates_of(world, "train") == []


def test_a_pod_waits_for_the_topology_gate_with_which_it_was_created() -> None:
    world = ready_world()
    marks = {names.FOREIGN_TOPOLOGY_GATE: "true"}
    world.add_pod("train", gated=False, annotations=marks, **gated(OURS, names.TOPOLOGY_GATE))
    world.settle()

    assert world.workloads() == {}
    condition = world.condition("train")
    assert condition is not None
    assert condition.reason == "GatedByOthers"
    assert names.TOPOLOGY_GATE in condition.message

    keep_gates(world, "train", OURS)

    assert gates_of(world, "train") == []


def test_a_group_waits_for_the_gates_of_each_pod() -> None:
    world = ready_world()
    world.add(
        group_pod("a", gated=False, **gated(OURS, THEIRS)),
        group_pod("b"),
    )
    world.settle()
    world.pass_time(5)

    assert world.workloads() == {}
    condition = world.condition("a")
    assert condition is not None
    assert condition.reason == "GatedByOthers"

    keep_gates(world, "a", OURS)
    world.pass_time(5)

    assert world.admitted() == {"a", "b"}
