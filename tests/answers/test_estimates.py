"""When those that wait start: pages and commands estimate the same, and it comes true."""

import random
from datetime import datetime, timedelta
from typing import Any

import pytest

from admission.answers import cluster, estimates, waiting
from admission.answers.cluster import Wanted
from admission.answers.estimates import Starts
from admission.base import clock, names, patches
from admission.base.causes import (
    CapPlace,
    CapReached,
    NodeFree,
    NoFlavor,
    NoPlace,
    Paused,
    QuotaInUse,
    Refusal,
    RefusedPodSet,
    Shortage,
    Why,
)
from admission.base.conditions import WaitReason
from admission.base.names import ClusterQueueName, FlavorName, PodSetName, WorkloadKey
from admission.kube import resources
from admission.run.coresource import CoreSource
from admission.scheduling.decisions import Wait
from admission.scheduling.starts import QuotaEnd
from tests.builders.cluster import make_namespace
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.controller.world import World
from tests.serve import dashboards
from tests.serve.builders import waiting as waiting_workload
from tests.serve.dashboards import GPU, NOW, Dashboard, everything, on

QUEUES = {"research": 4, "serving": 2}
HOUR = timedelta(hours=1)
LIMIT = names.MAX_EXEC_TIME_LABEL


class FromCore(CoreSource):
    """What the dashboard asks the controller for, without its cache."""

    def __init__(self, world: World) -> None:
        super().__init__(lambda question, _: question(world.core.present))

    def pending(self):
        found = zip(QUEUES, self.lines(tuple(map(ClusterQueueName, QUEUES))), strict=True)
        return {ClusterQueueName(name): line for name, line in found if line and line.members}


def _world(cohort: str = "") -> World:
    world = World()
    spec: dict[str, Any] = {"cohortName": cohort} if cohort else {}
    world.add(make_namespace(), make_flavor())
    for name, quota in QUEUES.items():
        world.add(make_cluster_queue(name, quota=quota, **spec))
        world.add(make_local_queue(name, name))
    world.settle()
    return world


def add(world: World, name: str, gpus: int, hours: float | None, queue: str = "research") -> None:
    """A pod that says for how long it runs at most."""
    labels = {} if hours is None else {LIMIT: str(int(hours * 3600))}
    world.add_pod(name, gpus=gpus, queue=queue, labels=labels)
    world.pass_time(1.0)


def of_page(world: World) -> Starts:
    return estimates.of_source(FromCore(world), map(ClusterQueueName, QUEUES), world.clock.now())


def of_command(world: World) -> Starts:
    read = cluster.relate(cluster.read(world.store, Wanted(namespace="ml")))
    lines = [waiting.of(read, name) for name in QUEUES]
    return estimates.of_read(read, lines, world.clock.now())


def by_pod(world: World, found: Starts) -> dict[str, datetime]:
    keys = {workload.key(): pod for pod, workload in world.workloads().items()}
    return {keys[key]: start for key, start in found.items()}


def hours(world: World, found: Starts) -> dict[str, int]:
    """Hours from now, by pod; a start a few seconds before the hour counts as the hour."""
    now = world.clock.now()
    return {pod: round((at - now) / HOUR) for pod, at in by_pod(world, found).items()}


def test_pages_and_commands_tell_the_same_estimates_from_time_limits() -> None:
    world = _world()
    add(world, "runs", 3, 2)
    add(world, "stays", 1, None)
    add(world, "next", 3, 1)
    add(world, "later", 2, None)
    add(world, "never", 4, None)
    world.pass_time(40.0)
    assert hours(world, of_page(world)) == {"next": 2, "later": 3}
    assert of_command(world) == of_page(world)


def test_annotations_of_queues_limit_what_runs_and_what_waits() -> None:
    world = _world()
    change = patches.merge({"metadata": {"annotations": {names.MAXIMUM_RUN_TIME: "1h"}}})
    world.store.patch(resources.CLUSTER_QUEUES, "research", change)
    for name in ("runs", "next", "last"):
        add(world, name, 4, None)
    world.pass_time(40.0)
    assert hours(world, of_page(world)) == {"next": 1, "last": 2}
    assert of_command(world) == of_page(world)


def test_without_a_time_limit_there_is_no_estimate() -> None:
    world = _world()
    add(world, "runs", 4, None)
    add(world, "next", 4, 1)
    world.pass_time(40.0)
    assert world.is_gated("next")
    assert of_page(world) == of_command(world) == {}


def test_an_estimate_comes_true() -> None:
    world = _world()
    add(world, "runs", 4, 0.02)
    add(world, "next", 4, 0.02)
    add(world, "last", 4, None)
    world.pass_time(10.0)
    for name in ("next", "last"):
        start = by_pod(world, of_page(world))[name]
        assert world.is_gated(name)
        while world.is_gated(name):
            assert world.clock.now() <= start + timedelta(seconds=5)
            world.pass_time(1.0)
        assert world.clock.now() >= start - timedelta(seconds=2)


@pytest.mark.parametrize("seed", range(4))
def test_pages_and_commands_estimate_the_same_in_any_cohort(seed: int) -> None:
    chance, world = random.Random(seed), _world("all")
    for number in range(10):
        limit = chance.choice([None, 1, 2, 3])
        add(world, f"pod-{number}", chance.randint(1, 5), limit, chance.choice([*QUEUES]))
    world.pass_time(90.0)
    page, command = of_page(world), of_command(world)
    assert {key: page.get(key) for key in command} == dict(command)
    assert all(start > world.clock.now() for start in page.values())
    assert not page.keys() & {
        pod.key() for pod in world.workloads().values() if pod.status.admission
    }


def test_a_command_that_may_not_read_everything_estimates_nothing() -> None:
    world = _world()
    add(world, "runs", 4, 1)
    add(world, "next", 4, 1)
    world.pass_time(40.0)
    read = cluster.relate(cluster.read(world.store, Wanted(namespace="ml")))
    lines = [waiting.of(read, name) for name in QUEUES]
    assert estimates.of_read(read, lines, world.clock.now())
    for missing in (
        cluster.not_listed(resources.CLUSTER_QUEUES),
        "Workloads are not shown outside namespace ml: you may not list them",
    ):
        part = cluster.relate(
            cluster.Objects(
                cluster_queues=read.objects.cluster_queues, workloads=read.objects.workloads,
                local_queues=read.objects.local_queues, missing=(missing,),
            )
        )  # fmt: skip
        assert estimates.of_read(part, lines, world.clock.now()) == {}


# -------------------------------------------------------------------------- what decides, by page

IN_USE = QuotaInUse(GPU, "a100", 5)
CAP = CapReached(CapPlace("research", "", "ann", ""), GPU, 8, 8, 4)
NO_ROOM = NoPlace((FlavorName("a100"),), PodSetName("main"), 1, 0, GPU, 8, 12, NodeFree("n1", 3))


def board(*refusals: Refusal, why: Why | None = None) -> Dashboard:
    """A page with one that waits for 8 GPUs, which are given back in two hours."""
    made = Dashboard(*everything(), members=[waiting_workload("train", at=1)])
    queues = tuple(
        one if one.name != "research" else dashboards.queue("research", "", 8, 8, pending=1)
        for one in made.known.found.queues
    )
    made.known.found = type(made.known.found)(queues, made.known.found.cohorts)
    key = WorkloadKey("ml", "train")
    shortage = Shortage(
        pod_set=PodSetName("main"), resource=GPU, flavor=FlavorName("a100"), requested=8,
        available=0, limit=8, nominal=8,
    )  # fmt: skip
    made.known.told[key] = Wait(
        workload=key, cluster_queue=ClusterQueueName("research"),
        why=why or NoFlavor(WaitReason.WAITING_FOR_QUOTA, (RefusedPodSet("main", refusals),)),
        requests=((PodSetName("main"), {GPU: 8}),), shortages=(shortage,),
    )  # fmt: skip
    made.known.asked[key] = 8
    made.known.ends = (
        QuotaEnd(
            cluster_queue=ClusterQueueName("research"), usage=tuple(on("a100", 8).items()),
            at_us=int((NOW + 2 * HOUR).timestamp()) * 1_000_000,
        ),
    )  # fmt: skip
    return made.sign_in()


def test_a_page_says_within_which_time_it_starts_and_under_which_condition() -> None:
    shown = board(IN_USE)
    for path in ("/", "/queues/research", "/namespaces/ml", "/namespaces/ml/workloads/train"):
        shown.reviews.allowed |= {"get workloads ml train"}
        text = shown.text(path)
        assert "Estimate: starts within" in text, path
        assert f'datetime="{clock.to_wire(NOW + 2 * HOUR)}"' in text
        assert "if what runs now uses all of its time limit" in text
        assert ">120m</time>" in text


@pytest.mark.parametrize(
    "made",
    [board(IN_USE, CAP), board(IN_USE, NO_ROOM), board(why=Paused())],
    ids=["a cap", "no room on nodes", "admission is paused"],
)
def test_who_waits_for_more_than_quota_has_no_estimate(made: Dashboard) -> None:
    assert "Estimate" not in made.text("/")


def test_a_time_limit_that_is_over_says_nothing_and_never_zero() -> None:
    made = board(IN_USE)
    (end,) = made.known.ends
    made.known.ends = (QuotaEnd(cluster_queue=end.cluster_queue, usage=end.usage, at_us=1),)
    assert "Estimate" not in made.text("/")


def test_whoever_may_not_see_a_workload_is_told_no_estimate() -> None:
    made = board(IN_USE)
    made.reviews.allowed -= {"list workloads"}
    assert "Estimate" not in made.text("/")
