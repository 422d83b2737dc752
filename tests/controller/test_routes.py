"""Routes of changes run in an order, and each order that carries meaning has a reason."""

from collections.abc import Iterator
from typing import Any

import pytest

from admission.base import names, patches
from admission.controller.routes import RouteTable
from admission.kube import resources
from tests.builders.metadata import make_condition
from tests.builders.queues import make_local_queue
from tests.builders.workloads import make_admission, make_pod_set, make_workload
from tests.controller import test_one_currency, test_running_pods
from tests.controller.world import World, ready_world


def tables(world: World) -> Iterator[tuple[str, RouteTable[Any]]]:
    yield "updates", world.parts.routes.updates
    yield "deletions", world.parts.routes.deletions
    for resource, table in world.parts.basis.routes.tables.items():
        yield resource.plural if resource else "others", table


def swap(table: RouteTable[Any], first: str, second: str) -> None:
    """Runs two routes the other way round."""
    routes = {route.name: route for route in table.routes}
    swapped = {first: routes[second], second: routes[first]}
    table.routes = tuple(swapped.get(route.name, route) for route in table.routes)


def set_status(world: World, workload: str, **status: Any) -> None:
    change = patches.merge({"status": status})
    world.store.patch(resources.WORKLOADS, workload, change, "ml", subresource="status")


def charged(world: World) -> int:
    """What is charged before a turn looks at what was seen."""
    world.observe()
    counted = world.core.present.counted()
    return sum(counted.sums[names.ClusterQueueName("gpus")].values())


def test_every_route_runs_after_those_that_it_names() -> None:
    for name, table in tables(World()):
        run: set[str] = set()
        for route in table.routes:
            assert set(route.after) <= run, f"{name}: {route.name}"
            run.add(route.name)
        assert len(run) == len(table.routes), name


def orders() -> set[tuple[str, str, str]]:
    return {
        (name, before, route.name)
        for name, table in tables(World())
        for route in table.routes
        for before in route.after
    }


def test_these_orders_carry_meaning_and_no_others_do() -> None:
    queues = ("clusterqueues", "localqueues", "resourceflavors")
    assert orders() == {
        ("updates", "foreign reservations", "quota"),
        ("updates", "quota", "running pods"),
        ("updates", "quota", "pending"),
        ("deletions", "quota", "running pods"),
        *((queue, "prices", "running pods") for queue in queues),
    }


@pytest.mark.parametrize("is_swapped", [False, True])
def test_a_reservation_is_judged_foreign_before_it_is_charged(is_swapped: bool) -> None:
    world = ready_world()
    if is_swapped:
        swap(world.parts.routes.updates, "foreign reservations", "quota")
    world.store.create(resources.WORKLOADS, make_workload("other", make_pod_set(gpus=1)))
    set_status(
        world, "other",
        admission=make_admission(cluster_queue="gpus", flavor="a100"),
        conditions=[make_condition("QuotaReserved", "True")],
    )  # fmt: skip
    world.observe()
    assert bool(world.parts.basis.foreign) is not is_swapped


@pytest.mark.parametrize("is_swapped", [False, True])
def test_a_workload_that_is_gone_is_free_before_its_pods_are_charged_on_their_own(
    is_swapped: bool,
) -> None:
    world = test_running_pods.made()
    test_running_pods.run(world, "first")
    assert charged(world) == 2
    if is_swapped:
        swap(world.parts.routes.deletions, "quota", "running pods")
    test_running_pods.drop_workload(world, "first")
    assert charged(world) == (0 if is_swapped else 2)


@pytest.mark.parametrize("is_swapped", [False, True])
def test_pods_are_charged_on_their_own_once_their_workload_is_charged_no_more(
    is_swapped: bool,
) -> None:
    world = test_running_pods.made()
    test_running_pods.run(world, "first")
    if is_swapped:
        swap(world.parts.routes.updates, "quota", "running pods")
    workload = world.workloads()["first"].metadata.name
    set_status(
        world, workload, admission=None, conditions=[make_condition("QuotaReserved", "False")]
    )
    assert charged(world) == (0 if is_swapped else 2)


@pytest.mark.parametrize("is_swapped", [False, True])
def test_pods_that_are_charged_on_their_own_are_charged_in_the_currency_that_has_changed(
    is_swapped: bool,
) -> None:
    a100 = test_one_currency.flavor("a100", "A100-80GB")
    world = test_one_currency.make_world(
        a100, test_one_currency.queue("gpus", "a100", memory="100Gi"), make_local_queue()
    )
    world.store.create(resources.NODES, {"metadata": {"name": "n0"}})
    test_running_pods.run(world, "first", gpus=1)
    test_running_pods.drop_workload(world, "first")
    world.observe()
    assert currencies(world) == {names.GPU_MEMORY}
    if is_swapped:
        table = world.parts.basis.routes.tables[resources.CLUSTER_QUEUES]
        swap(table, "prices", "running pods")
    changed = patches.merge({"spec": test_one_currency.queue("gpus", "a100", gpu=4)["spec"]})
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", changed)
    world.observe()
    assert (currencies(world) == {names.GPU_RESOURCE}) is not is_swapped


@pytest.mark.parametrize("is_swapped", [False, True])
def test_why_a_workload_waits_is_asked_once_it_is_in_its_queue(is_swapped: bool) -> None:
    world = ready_world()
    world.store.patch(
        resources.CLUSTER_QUEUES, "gpus", patches.merge({"spec": {"stopPolicy": "Hold"}})
    )
    world.settle()
    if is_swapped:
        swap(world.parts.routes.updates, "quota", "pending")
    world.store.create(resources.WORKLOADS, make_workload("waits", make_pod_set(gpus=1)))
    world.observe()
    told = world.parts.basis.explainer.latest(names.WorkloadKey("ml", "waits"))
    assert (told is None) is is_swapped


def currencies(world: World) -> set[str]:
    sums = world.core.present.counted().sums[names.ClusterQueueName("gpus")]
    return {fr.resource for fr, amount in sums.items() if amount}
