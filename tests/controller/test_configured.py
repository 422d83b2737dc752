"""Settings that change what the engine decides reach its decisions through the core."""

from typing import Any

from admission.base import names
from tests.builders.cluster import make_namespace
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.config import files
from tests.controller.world import World

HOLDS = {"admissionFairSharing": {"usageHalfLifeTime": "168h", "usageSamplingInterval": "1s"}}


def configured(**fields: Any) -> World:
    """An empty world with these fields of Kueue's configuration."""
    settings = files.settings(files.kueue(**fields))
    return World(
        config=settings.scheduling(),
        rules=settings.transformations(),
        kueue=settings.kueue,
    )


def requested(world: World, name: str) -> dict[str, Any]:
    """What the Workload of a pod holds."""
    admission = world.workloads()[name].status.admission
    assert admission is not None
    (assigned,) = admission.pod_set_assignments or ()
    return dict(assigned.resource_usage or {})


def test_local_queues_take_turns_by_what_they_used_before() -> None:
    scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    world = configured(**HOLDS)
    world.add(make_namespace(), make_flavor(), make_cluster_queue(quota=4, admissionScope=scope))
    world.add(make_local_queue("busy"), make_local_queue("idle"))
    world.settle()
    world.add_pod("past", gpus=4, labels={names.QUEUE_LABEL: "busy"})
    world.pass_time(30)
    assert world.admitted() == {"past"}
    world.add_pod("again", gpus=4, labels={names.QUEUE_LABEL: "busy"})
    world.settle()
    world.clock.advance(5)
    world.add_pod("first", gpus=4, labels={names.QUEUE_LABEL: "idle"})
    world.settle()
    world.delete_pod("past")
    world.pass_time(2)
    assert world.admitted() == {"first"}


def test_without_the_setting_the_older_one_is_first() -> None:
    world = configured()
    world.add(make_namespace(), make_flavor(), make_cluster_queue(quota=4))
    world.add(make_local_queue("busy"), make_local_queue("idle"))
    world.settle()
    world.add_pod("past", gpus=4, labels={names.QUEUE_LABEL: "busy"})
    world.pass_time(30)
    world.add_pod("again", gpus=4, labels={names.QUEUE_LABEL: "busy"})
    world.settle()
    world.clock.advance(5)
    world.add_pod("first", gpus=4, labels={names.QUEUE_LABEL: "idle"})
    world.settle()
    world.delete_pod("past")
    world.pass_time(2)
    assert world.admitted() == {"again"}


def test_excluded_prefixes_are_not_counted() -> None:
    world = configured(resources={"excludeResourcePrefixes": ["example.com/"]})
    world.add(make_namespace(), make_flavor(), make_cluster_queue(), make_local_queue())
    world.settle()
    world.add_pod("train", limits={"example.com/licence": "5"})
    world.settle()
    assert requested(world, "train") == {names.GPU_RESOURCE: "1"}


def test_transformations_count_one_resource_as_another() -> None:
    rule = {
        "input": "example.com/half",
        "strategy": "Replace",
        "outputs": {names.GPU_RESOURCE: "500m"},
    }
    world = configured(resources={"transformations": [rule]})
    world.add(make_namespace(), make_flavor(), make_cluster_queue(), make_local_queue())
    world.settle()
    world.add_pod("train", gpus=0, limits={"example.com/half": "4"})
    world.settle()
    assert requested(world, "train") == {names.GPU_RESOURCE: "2"}


def test_undeclared_resources_are_free_where_that_is_set() -> None:
    admitted = []
    for strategy in ("BlockUndeclared", "IgnoreUndeclared"):
        world = configured(resources={"quotaCheckStrategy": strategy})
        world.add(make_namespace(), make_flavor(), make_cluster_queue(), make_local_queue())
        world.settle()
        world.add_pod("train", limits={"example.com/licence": "5"})
        world.settle()
        admitted.append(world.admitted())
    assert admitted == [set(), {"train"}]


def test_with_fair_sharing_the_queue_that_borrows_less_is_first() -> None:
    """Amber's pod is more important; with fair sharing beryl's goes first."""
    winners = []
    for fields in ({}, {"fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]}}):
        world = configured(**fields)
        world.add(make_namespace(), make_flavor())
        for name, quota in (("amber", 2), ("beryl", 2), ("pool", 8)):
            world.add(make_cluster_queue(name, quota=quota, cohortName="all"))
        for queue in ("amber", "beryl", "pool"):
            world.add(make_local_queue(queue[0], queue))
        world.settle()
        world.add_pod("base", gpus=6, labels={names.QUEUE_LABEL: "a"})
        world.add_pod("filler", gpus=6, labels={names.QUEUE_LABEL: "p"})
        world.settle()
        world.add_pod("amber", gpus=4, labels={names.QUEUE_LABEL: "a"}, spec={"priority": 9})
        world.add_pod("beryl", gpus=4, labels={names.QUEUE_LABEL: "b"})
        world.settle()
        world.delete_pod("filler")
        world.settle()
        winners.append(world.admitted() - {"base"})
    assert winners == [{"amber"}, {"beryl"}]
