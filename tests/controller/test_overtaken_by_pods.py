"""Who finds quota while pods of others are still on their way to nodes is not parked for that."""

from typing import Any

from admission.base import names
from tests.builders.cluster import make_namespace, make_node
from tests.builders.jobs import queued_job
from tests.builders.queues import (
    make_cluster_queue,
    make_cohort,
    make_flavor,
    make_group,
    make_local_queue,
)
from tests.controller.test_jobs import is_running, report, run
from tests.controller.world import World

GPU = names.GPU_RESOURCE
RECLAIM: dict[str, Any] = {
    "reclaimWithinCohort": "Any",
    "withinClusterQueue": "Never",
    "borrowWithinCohort": {"policy": "Never"},
}


def team(name: str, a100: int, h100: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A queue of two flavors that takes back what others borrow, and its LocalQueue."""
    quotas = {"a100": {GPU: a100}, "h100": {GPU: h100}}
    stops = {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}
    queue = make_cluster_queue(
        name, quotas=quotas, cohortName="gpus", preemption=RECLAIM, flavorFungibility=stops
    )
    return queue, make_local_queue(name, name)


def test_a_job_that_fits_one_flavor_only_starts_once_pods_before_it_are_on_their_nodes() -> None:
    world = World()
    pool = make_cohort("gpus", resourceGroups=[make_group({"a100": {GPU: 6}, "h100": {GPU: 2}})])
    products = {"a0": "A", "a1": "A", "a2": "A", "h0": "H"}
    units = {GPU: 8, "cpu": 64, "memory": "512Gi", "pods": 100}
    nodes = (
        make_node(node, labels={names.GPU_PRODUCT_LABEL: product}, units=units)
        for node, product in products.items()
    )
    flavors = make_flavor("a100", product="A"), make_flavor("h100", product="H")
    teams = (*team("red", 9, 3), *team("blue", 9, 3), *team("green", 0, 0))
    world.add(make_namespace(), *flavors, pool, *teams, *nodes)
    world.settle()

    def create(name: str, queue: str, pods: int, gpus: int) -> None:
        world.add(queued_job(name, pods=pods, gpus=gpus, queue=queue))
        world.pass_time(2)

    create("hog", "green", 3, 8)
    run(world, "hog", 3)
    create("twelve", "red", 3, 4)
    create("sweep", "red", 4, 1)
    assert [is_running(world, name) for name in ("hog", "twelve", "sweep")] == [False] * 3
    report(world, "hog", active=0)
    world.settle()
    world.pass_time(15)  # pods that do not come are waited for no longer than ten seconds

    assert [is_running(world, name) for name in ("twelve", "sweep")] == [True, True]
