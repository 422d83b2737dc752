"""What one change costs does not grow with what exists: counted in steps, not in seconds."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import pytest

from admission.base import names, patches
from admission.controller import core
from admission.controller.queries import Query
from admission.kube import resources
from admission.kube.reflector import Deleted, Upserted
from admission.kube.resources import Resource
from admission.objects import views
from admission.owners.workload import name_for
from tests.builders.cluster import make_core_class, make_limit_range, make_namespace, make_node
from tests.builders.metadata import make_condition, make_kueue, make_metadata
from tests.builders.pods import queued_pod
from tests.builders.queues import (
    make_check,
    make_cluster_queue,
    make_flavor,
    make_local_queue,
    reviewed,
)
from tests.builders.workloads import make_pod_set, make_workload
from tests.controller.steps import Steps
from tests.controller.world import WATCHED, CountedWorld, World
from tests.controlplane.nodes import make_gpu_node

_MARGIN = 900
"""Steps that a turn may take for other reasons than the event, such as a status that is due.

To look at each of 180 queues more takes more than that, and so does each of 1,800 Workloads.
"""
_NEAR = 5
"""Workloads that wait in the namespace `near`, in every world."""


class Size(NamedTuple):
    """How much exists besides what an event concerns.

    Attributes:
        queues: ClusterQueues, each with a LocalQueue in a namespace of its own.
        waiting: Workloads that wait in them.
        guarded: whether GPUs exist, enough for all quota, and quota is held to them.
        running: pods that were released, in a queue of their own.
    """

    queues: int
    waiting: int
    guarded: bool = False
    running: int = 0


SMALL = Size(queues=20, waiting=200)
MORE_WORKLOADS = Size(queues=20, waiting=2_000)
MORE_QUEUES = Size(queues=200, waiting=200)
GUARDED = Size(queues=20, waiting=200, guarded=True)
RUNNING = Size(queues=20, waiting=200, running=30)
MORE_RUNNING = Size(queues=20, waiting=200, running=300)
MORE_GUARDED_QUEUES = Size(queues=200, waiting=200, guarded=True)
LARGE = Size(queues=100, waiting=1_000)
LARGE_WITH_MORE_WORKLOADS = Size(queues=100, waiting=10_000)
LARGE_WITH_MORE_QUEUES = Size(queues=1_000, waiting=1_000)


@cache
def world_of(size: Size) -> World:
    """A cluster at rest: everything waits, and nothing is left to be written."""
    world = CountedWorld()
    world.add(make_flavor("a100"), make_flavor("near"), make_flavor("unused"))
    world.add(make_check("budget"))
    if size.guarded:
        world.add(make_flavor("full", node_labels={"pool": "full"}))
        nodes = (make_gpu_node(f"gpus-{n}", labels={"pool": "full"}) for n in range(30))
        world.add(*nodes)
    _add_queue(world, "near", "near", _NEAR)
    for number in range(size.queues):
        waiting = range(number, size.waiting, size.queues)
        flavor = "full" if size.guarded else "a100"
        _add_queue(
            world, f"far-{number}", flavor, len(waiting), number // 10, guarded=size.guarded
        )
    if size.running:
        _add_running(world, size.running)
    world.observe()
    _rest(world)
    return world


def _add_running(world: World, pods: int) -> None:
    """Pods that were admitted, are bound and are ready."""
    _add_queue(world, "runs", "a100", 0, quota=pods)
    for number in range(pods):
        name = f"runs-{number}"
        world.add_pod(name, namespace="runs", queue="queue")
    world.observe()
    _write_all(world)
    ready = {"phase": "Running", "conditions": [make_condition("Ready")]}
    for number in range(pods):
        name = f"runs-{number}"
        bound = {"spec": {"nodeName": f"node-{number // 10}"}}
        world.store.patch(resources.PODS, name, patches.merge(bound), "runs")
        change = patches.merge({"status": ready})
        world.store.patch(resources.PODS, name, change, "runs", subresource="status")


def _add_queue(
    world: World,
    name: str,
    flavor: str,
    waiting: int,
    cohort: int = -1,
    *,
    guarded: bool = False,
    quota: int = 1,
) -> None:
    """A namespace with a queue in which nothing fits; ten share a cohort."""
    above = f"cohort-{cohort}" if cohort >= 0 else "near"
    strategy = {"admissionChecks": [{"name": "budget"}]} if name == "near" else None
    checks: dict[str, Any] = {"admissionChecksStrategy": strategy} if strategy else {}
    queue = make_cluster_queue(name, quota=quota, flavors=(flavor,), cohortName=above, **checks)
    if guarded:
        queue["metadata"]["annotations"] = {names.CAPACITY_GUARD: names.CAPACITY_GUARD_ENFORCE}
    world.add(
        make_namespace(name, {"team": name}),
        queue,
        make_local_queue("queue", name, namespace=name),
    )
    if cohort % 10 == 0 or cohort < 0:
        cohorts = world.store.list(resources.COHORTS, into=dict).items
        if above not in {one["metadata"]["name"] for one in cohorts}:
            world.add(make_kueue("Cohort", make_metadata(above), spec={}))
    world.add(
        *(
            make_workload(f"waits-{number}", make_pod_set(gpus=99), namespace=name, queue="queue")
            for number in range(waiting)
        )
    )


def _rest(world: World) -> None:
    """Let everything be written that is due, now or in a while."""
    _write_all(world)
    world.clock.advance(120)
    _write_all(world)


def _write_all(world: World) -> None:
    for _ in range(20_000):
        due, sent = world.core.step(), 0
        while world.send_one() is not None:
            sent += 1
        if not sent and (due is None or due > 60):
            return
        world.clock.advance(0.01 if due is None or sent else max(due, 0.01))
    raise AssertionError("something is due again and again")


def _seen(world: World, resource: Resource, name: str, namespace: str = "") -> core.WatchMessage:
    """What the watch of an object tells as it is now."""
    found = world.store.get(resource, name, namespace, into=WATCHED[resource])
    return core.WatchMessage(resource, Upserted(found))


def _changed(
    world: World,
    resource: Resource,
    name: str,
    change: dict[str, Any],
    namespace: str = "",
    subresource: str = "",
) -> core.WatchMessage:
    """Change an object; what its watch tells."""
    world.store.patch(resource, name, patches.merge(change), namespace, subresource=subresource)
    return _seen(world, resource, name, namespace)


def _made(world: World, document: dict[str, Any]) -> core.WatchMessage:
    """Make an object; what its watch tells."""
    resource = resources.of_kind(document["apiVersion"], document["kind"])
    assert resource is not None
    metadata = document["metadata"]
    namespace = metadata.get("namespace", "")
    world.store.create(resource, reviewed(document), namespace)
    return _seen(world, resource, metadata["name"], namespace)


def _lost(world: World, resource: Resource, name: str, namespace: str = "") -> core.WatchMessage:
    """Delete an object; what its watch tells."""
    found = world.store.get(resource, name, namespace, into=WATCHED[resource])
    world.store.delete(resource, name, namespace)
    return core.WatchMessage(resource, Deleted(views.Object(metadata=found.metadata)))


Event = Callable[[World], core.WatchMessage]

_LABELS = {"metadata": {"labels": {"anything": "else"}}}
_ENFORCED = {"metadata": {"labels": {names.ENFORCE_LABEL: "true"}}}
_NOTES = {"metadata": {"annotations": {"anything": "else"}}}
_GROUPS = make_cluster_queue(quota=2, flavors=("near",))["spec"]["resourceGroups"]
_ACTIVE = {"status": {"conditions": [make_condition("Active")]}}
_EVICTED = {"spec": {"active": False}}

EVENTS: dict[str, Event] = {
    "a namespace is labelled": lambda world: _changed(
        world, resources.NAMESPACES, "near", _LABELS
    ),
    "a namespace is taken out of enforcement": lambda world: _changed(
        world,
        resources.NAMESPACES,
        "near",
        {"metadata": {"labels": {names.ENFORCE_LABEL: "true"}}},
    ),
    "a namespace is made": lambda world: _made(world, make_namespace("new")),
    "a namespace goes": lambda world: _lost(world, resources.NAMESPACES, "new"),
    "a LocalQueue is annotated": lambda world: _changed(
        world, resources.LOCAL_QUEUES, "queue", _NOTES, "near"
    ),
    "a LocalQueue is stopped": lambda world: _changed(
        world, resources.LOCAL_QUEUES, "queue", {"spec": {"stopPolicy": "Hold"}}, "near"
    ),
    "a LocalQueue goes on": lambda world: _changed(
        world, resources.LOCAL_QUEUES, "queue", {"spec": {"stopPolicy": "None"}}, "near"
    ),
    "a LocalQueue is made": lambda world: _made(
        world, make_local_queue("another", "near", namespace="near")
    ),
    "a LocalQueue goes": lambda world: _lost(world, resources.LOCAL_QUEUES, "another", "near"),
    "a ClusterQueue is annotated": lambda world: _changed(
        world, resources.CLUSTER_QUEUES, "near", _NOTES
    ),
    "a ClusterQueue gets other quota": lambda world: _changed(
        world, resources.CLUSTER_QUEUES, "near", {"spec": {"resourceGroups": _GROUPS}}
    ),
    "a ClusterQueue is stopped": lambda world: _changed(
        world, resources.CLUSTER_QUEUES, "near", {"spec": {"stopPolicy": "Hold"}}
    ),
    "a ClusterQueue goes on": lambda world: _changed(
        world, resources.CLUSTER_QUEUES, "near", {"spec": {"stopPolicy": "None"}}
    ),
    "a ClusterQueue is made": lambda world: _made(
        world, make_cluster_queue("another", flavors=("unused",))
    ),
    "a ClusterQueue goes": lambda world: _lost(world, resources.CLUSTER_QUEUES, "another"),
    "a Cohort gets quota": lambda world: _changed(
        world, resources.COHORTS, "near", {"spec": {"resourceGroups": _GROUPS}}
    ),
    "a Cohort moves": lambda world: _changed(
        world, resources.COHORTS, "near", {"spec": {"parentName": "above"}}
    ),
    "a Cohort is made": lambda world: _made(
        world, make_kueue("Cohort", make_metadata("another"), spec={})
    ),
    "a Cohort goes": lambda world: _lost(world, resources.COHORTS, "another"),
    "a flavor is annotated": lambda world: _changed(
        world, resources.RESOURCE_FLAVORS, "near", _NOTES
    ),
    "a flavor is made": lambda world: _made(world, make_flavor("another")),
    "a flavor goes": lambda world: _lost(world, resources.RESOURCE_FLAVORS, "another"),
    "a check becomes active": lambda world: _changed(
        world, resources.ADMISSION_CHECKS, "budget", _ACTIVE, subresource="status"
    ),
    "a check is made": lambda world: _made(world, make_check("another")),
    "a check goes": lambda world: _lost(world, resources.ADMISSION_CHECKS, "another"),
    "a topology is made": lambda world: _made(
        world,
        make_kueue("Topology", make_metadata("racks"), spec={"levels": [{"nodeLabel": "rack"}]}),
    ),
    "a topology goes": lambda world: _lost(world, resources.TOPOLOGIES, "racks"),
    "a priority class is made": lambda world: _made(world, make_core_class("urgent", 1000)),
    "a WorkloadPriorityClass is made": lambda world: _made(
        world, make_kueue("WorkloadPriorityClass", make_metadata("urgent"), value=1000)
    ),
    "a WorkloadPriorityClass goes": lambda world: _lost(
        world, resources.WORKLOAD_PRIORITY_CLASSES, "urgent"
    ),
    "a LimitRange is made": lambda world: _made(
        world,
        make_limit_range(
            "limits", {"type": "Container", "default": {"memory": "1Gi"}}, namespace="near"
        ),
    ),
    "a node comes": lambda world: _made(world, make_node("node-1", {"gpu": "none"})),
    "a node goes": lambda world: _lost(world, resources.NODES, "node-1"),
    "a Workload is labelled": lambda world: _changed(
        world, resources.WORKLOADS, "waits-1", _LABELS, "near"
    ),
    "a Workload is deactivated": lambda world: _changed(
        world, resources.WORKLOADS, "waits-1", _EVICTED, "near"
    ),
    "a Workload comes": lambda world: _made(
        world, make_workload("new", make_pod_set(gpus=99), namespace="near", queue="queue")
    ),
    "a Workload goes": lambda world: _lost(world, resources.WORKLOADS, "new", "near"),
    "a pod comes": lambda world: _made(world, queued_pod("new", namespace="near", queue="queue")),
    "a pod goes": lambda world: _lost(world, resources.PODS, "new", "near"),
}


OF_RUNNING: dict[str, Event] = {
    "a pod that runs is labelled": lambda world: _changed(
        world, resources.PODS, "runs-1", _LABELS, "runs"
    ),
    "the Workload of a pod that runs is labelled": lambda world: _changed(
        world, resources.WORKLOADS, _workload_name(world, "runs-1"), _LABELS, "runs"
    ),
    "a pod that runs ends": lambda world: _changed(
        world, resources.PODS, "runs-1", {"status": {"phase": "Succeeded"}}, "runs", "status"
    ),
    "a pod that runs goes": lambda world: _lost(world, resources.PODS, "runs-2", "runs"),
}
"""Where pods run."""


def _workload_name(world: World, pod: str) -> str:
    found = world.store.get(resources.PODS, pod, "runs")["metadata"]["uid"]
    return name_for("Pod", "", pod, found)


@cache
def _counted(size: Size) -> dict[str, Steps]:
    """The steps of each event with the turn after it, and of a turn with nothing to do."""
    world, found = world_of(size), {}
    events = {**EVENTS, **(OF_RUNNING if size.running else {})}
    for name, event in events.items():
        message, steps = event(world), Steps()
        with steps.counting():
            world.core.receive(message)
            world.core.step()
        found[name] = steps
        _rest(world)
    idle = Steps()
    world.core.receive(Query(lambda _: None))
    with idle.counting():
        world.core.step()
    return {**found, "nothing": idle}


def _larger(one: Steps, other: Steps) -> dict[str, tuple[int, int]]:
    """Functions that took more steps, the ones with most more first."""
    few, many = one.by_function(), other.by_function()
    grown = {name: (few[name], many[name]) for name in many if many[name] > few[name]}
    return dict(sorted(grown.items(), key=lambda item: item[1][0] - item[1][1])[:8])


@pytest.mark.parametrize(
    ("small", "size"),
    [
        pytest.param(SMALL, MORE_WORKLOADS, id="workloads"),
        pytest.param(SMALL, MORE_QUEUES, id="queues"),
        pytest.param(RUNNING, MORE_RUNNING, id="pods that run"),
        pytest.param(GUARDED, MORE_GUARDED_QUEUES, id="guarded queues"),
        pytest.param(
            LARGE, LARGE_WITH_MORE_WORKLOADS, id="many workloads", marks=pytest.mark.nightly
        ),
        pytest.param(LARGE, LARGE_WITH_MORE_QUEUES, id="many queues", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize("event", [*EVENTS, *OF_RUNNING, "nothing"])
def test_an_event_takes_as_many_steps_however_much_exists(
    event: str, small: Size, size: Size
) -> None:
    if event in OF_RUNNING and not size.running:
        pytest.skip("no pods run")
    few, many = _counted(small)[event], _counted(size)[event]
    assert many.total <= few.total + _MARGIN, _larger(few, many)
