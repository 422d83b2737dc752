"""What becomes of a Workload when somebody changes its pod."""

from typing import Any

import pytest

from admission.base import names, patches
from admission.controller.writing.api_requests import WritePurpose
from admission.kube import resources
from admission.objects import views
from admission.objects.workload import WorkloadSpec
from tests.builders.cluster import make_core_class
from tests.builders.queues import make_class, make_cluster_queue, make_local_queue
from tests.controller.world import World, add_checked_queue, ready_world

GATES = names.ADMISSION_GATED_BY
CLASS = names.PRIORITY_CLASS_LABEL


def world_with_classes(quota: int = 1) -> World:
    """A queue whose Workloads give way to those of a higher class."""
    world = ready_world(quota=quota)
    queue = patches.merge({"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}})
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", queue)
    for name, value in (("high", 1000), ("low", 100)):
        add_class(world, name, value)
    return world


def add_class(world: World, name: str, value: int) -> None:
    world.add(make_class(name, value))


def add(world: World, name: str, **metadata: Any) -> None:
    world.add_pod(name)
    change(world, name, **metadata)


def change(world: World, name: str, **metadata: Any) -> None:
    world.store.patch(resources.PODS, name, patches.merge({"metadata": metadata}), "ml")
    world.settle()


def spec_of(world: World, name: str) -> WorkloadSpec:
    return world.workloads()[name].spec


def asked(world: World, name: str) -> tuple[str, int | None]:
    """Name and value of a Workload's priority."""
    spec = spec_of(world, name)
    return spec.priority_class_ref.name if spec.priority_class_ref else "", spec.priority


def told(world: World) -> list[tuple[str, str]]:
    found = world.events.recorded
    return [(name, note) for name, reason, note in found if reason == "UpdatedWorkload"]


def test_a_pod_queues_when_its_admission_gates_are_gone() -> None:
    world = ready_world()
    add(world, "train", annotations={GATES: "acme.io/a,acme.io/b"})
    change(world, "train", annotations={GATES: "acme.io/b"})
    assert world.workloads()["train"].metadata.annotation(GATES) == "acme.io/b"
    assert world.is_gated("train")
    change(world, "train", annotations={GATES: None})
    assert world.admitted() == {"train"}
    assert told(world) == [
        ("train", 'Updated workload AdmissionGatedBy to "acme.io/b"'),
        ("train", 'Updated workload AdmissionGatedBy to ""'),
    ]


def test_a_waiting_pod_can_change_its_queue() -> None:
    world = ready_world(quota=0)
    world.add(make_cluster_queue("other", quota=1), make_local_queue("team-b", "other"))
    add(world, "train")
    change(world, "train", labels={names.QUEUE_LABEL: "team-b"})
    assert spec_of(world, "train").queue_name == "team-b"
    assert world.admitted() == {"train"}
    assert told(world) == []


def test_a_waiting_pod_that_is_given_a_class_preempts() -> None:
    world = world_with_classes()
    add(world, "first", labels={CLASS: "low"})
    add(world, "second")
    assert world.admitted() == {"first"}
    change(world, "second", labels={CLASS: "high"})
    assert asked(world, "second") == ("high", 1000)
    world.pass_time(3)
    assert world.admitted() == {"second"}


def test_a_running_pod_takes_a_lower_class_and_gives_way() -> None:
    world = world_with_classes()
    add(world, "first", labels={CLASS: "high"})
    add(world, "second", labels={CLASS: "high"})
    assert world.admitted() == {"first"}
    name = world.workloads()["first"].metadata.name
    change(world, "first", labels={CLASS: "low"})
    assert told(world) == [("first", f"Updated workload priority class: ml/{name}")]
    world.pass_time(3)
    assert world.admitted() == {"second"}


def test_a_class_that_is_missing_is_waited_for_and_holds_nothing_up() -> None:
    world = world_with_classes(quota=0)
    add(world, "train", labels={CLASS: "low"}, annotations={GATES: "acme.io/a"})
    change(world, "train", labels={CLASS: "later"}, annotations={GATES: None})
    assert asked(world, "train") == ("low", 100)
    assert not world.workloads()["train"].metadata.annotation(GATES)
    add_class(world, "later", 7)
    world.settle()
    assert asked(world, "train") == ("later", 7)


def test_a_missing_class_keeps_no_pod_from_its_release() -> None:
    world = world_with_classes(quota=0)
    add(world, "train", labels={CLASS: "low"})
    change(world, "train", labels={CLASS: "later"})
    quota = patches.merge(
        {"spec": {"resourceGroups": make_cluster_queue()["spec"]["resourceGroups"]}}
    )
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", quota)
    world.settle()
    assert world.admitted() == {"train"}
    assert asked(world, "train") == ("low", 100)


def test_a_reservation_keeps_its_queue_and_takes_another_class() -> None:
    world = world_with_classes()
    add_checked_queue(world)
    world.add(make_local_queue("elsewhere", "checked"))
    add(world, "train", labels={names.QUEUE_LABEL: "checked", CLASS: "low"})
    assert world.workloads()["train"].status.is_true("QuotaReserved")
    change(world, "train", labels={names.QUEUE_LABEL: "elsewhere", CLASS: "high"})
    assert asked(world, "train") == ("high", 1000)
    assert spec_of(world, "train").queue_name == "checked"
    assert world.is_gated("train")


def test_a_priority_of_the_pod_itself_is_kept() -> None:
    world = world_with_classes(quota=0)
    world.add(make_core_class("core", 5))
    world.add_pod("train", spec={"priorityClassName": "core"})
    world.settle()
    change(world, "train", labels={CLASS: "high"})
    assert asked(world, "train") == ("core", 5)


@pytest.mark.parametrize(
    ("annotations", "level"),
    [({}, None), ({names.REQUIRED_TOPOLOGY: "example.com/rack"}, "example.com/rack")],
)
def test_the_workload_of_a_pod_asks_for_the_topology_that_the_pod_names(
    annotations: dict[str, str], level: str | None
) -> None:
    world = ready_world()
    world.add_pod("train", annotations=annotations)
    world.settle()
    (pod_set,) = world.workloads()["train"].spec.pod_sets or ()
    assert (pod_set.topology_request and pod_set.topology_request.required) == level


@pytest.mark.parametrize(
    ("labels", "kind"),
    [({}, views.Pod), ({CLASS: "missing"}, views.PodDocument)],
    ids=["with a Workload", "without a Workload"],
)
def test_a_pod_is_read_whole_from_an_answer_only_while_a_workload_is_to_be_made_from_it(
    labels: dict[str, str], kind: type[views.Object]
) -> None:
    world = ready_world(quota=1)
    world.add_pod("train", gpus=2, labels=labels)
    world.pass_time(3)
    assert len(world.workloads()) == (0 if labels else 1)
    writes = [one for one in world.sent if one.operation is WritePurpose.EXPLAIN_POD]
    assert {write.into for write in writes} == {kind}
