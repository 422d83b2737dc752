"""Released pods keep their places on nodes while nobody finds their Workload."""

import pytest

from admission.base import names, patches
from admission.base.names import KeptCharge
from admission.controller.writing.api_requests import WritePurpose
from admission.kube import resources
from admission.objects.workload import Workload
from tests.builders.jobs import queued_job
from tests.builders.queues import make_cluster_queue, make_local_queue
from tests.controller import test_elastic_jobs as elastic
from tests.controller import test_topologies as topologies
from tests.controller.test_capacity import bind, make_world, node
from tests.controller.test_disorder import gone_by_hand, tell, turn, until
from tests.controller.world import World

WORKLOAD_KIND = "workloads.kueue.x-k8s.io"


def made(*gpus: int, quota: int = 32) -> World:
    nodes = [node(f"n{index}", gpu=count) for index, count in enumerate(gpus)]
    return make_world(*nodes, make_cluster_queue(quota=quota), make_local_queue())


def lose(world: World, owner: str) -> None:
    """The Workload of an owner is gone, and none can be made: its kind is being deleted."""
    world.store.delete(resources.CRDS, WORKLOAD_KIND)
    metadata = world.workloads()[owner].metadata
    gone = patches.merge({"metadata": {"finalizers": None}})
    world.store.patch(resources.WORKLOADS, metadata.name, gone, "ml")
    world.store.delete(resources.WORKLOADS, metadata.name, "ml")
    world.settle()
    world.pass_time(5)


def free(world: World, *nodes: str) -> list[int]:
    """GPUs that are free on nodes for whoever comes next."""
    world.state.has_work(int(world.clock.now().timestamp() * 1_000_000))
    return [world.state.places.ledger.free(name)[names.GPU_RESOURCE] for name in nodes]


def waiting_job(world: World, name: str, pods: int, gpus: int) -> None:
    world.add(queued_job(name, pods=pods, gpus=gpus))
    world.settle()
    assert is_suspended(world, name)


def is_suspended(world: World, name: str) -> bool:
    return world.store.get(resources.JOBS, name, "ml")["spec"]["suspend"] is True


def test_a_job_keeps_its_places_whose_workload_is_gone_before_its_pods_are_made() -> None:
    world = made(4, 4)
    world.add(queued_job("train", pods=2, gpus=4))
    world.settle()
    waiting_job(world, "next", 1, 4)

    lose(world, "train")

    assert free(world, "n0", "n1") == [0, 0]
    assert is_suspended(world, "next")


def test_each_pod_of_a_job_has_one_place_whether_it_is_made_or_bound() -> None:
    world = made(4, 4, 4, 4)
    world.add(queued_job("train", pods=3, gpus=4))
    world.settle()
    jobs = elastic.JobController(world)
    job = topologies.stored(world, "train")
    jobs._make(job)
    jobs._make(job)
    world.settle()
    bind(world, "train-001", "n3")
    assert sum(free(world, "n0", "n1", "n2", "n3")) == 4
    key = world.workloads()["train"].key()

    lose(world, "train")
    assert sum(free(world, "n0", "n1", "n2", "n3")) == 4

    bind(world, "train-002", "n2")
    assert sum(free(world, "n0", "n1", "n2", "n3")) == 4
    jobs._make(job)
    world.settle()
    assert sum(free(world, "n0", "n1", "n2", "n3")) == 4
    place = next(name for name in ("n0", "n1") if free(world, name) == [0])
    bind(world, "train-003", place)
    assert sum(free(world, "n0", "n1", "n2", "n3")) == 4
    assert world.state.places.ledger.places(key) == ()


def test_a_released_pod_keeps_its_place_until_it_is_gone_and_who_waits_is_tried_then() -> None:
    world = made(4)
    world.add_pod("first", gpus=4)
    world.settle()
    waiting_job(world, "next", 1, 4)

    lose(world, "first")
    assert is_suspended(world, "next")

    world.delete_pod("first")
    world.settle()
    assert not is_suspended(world, "next")


def test_members_of_a_group_keep_their_places() -> None:
    world = made(4, 4, 4)
    for index in range(3):
        member(world, index)
    world.settle()
    bind(world, "p0", "n0")
    waiting_job(world, "next", 1, 4)

    lose_by_name(world, "gang")

    assert is_suspended(world, "next")
    assert free(world, "n0", "n1", "n2") == [0, 0, 0]


def member(world: World, index: int) -> None:
    labels = {names.POD_GROUP_NAME: "gang"}
    world.add_pod(
        f"p{index}", gpus=4, labels=labels, annotations={names.POD_GROUP_TOTAL_COUNT: "3"}
    )


def lose_by_name(world: World, name: str) -> None:
    world.store.delete(resources.CRDS, WORKLOAD_KIND)
    gone = patches.merge({"metadata": {"finalizers": None, "ownerReferences": None}})
    world.store.patch(resources.WORKLOADS, name, gone, "ml")
    world.store.delete(resources.WORKLOADS, name, "ml")
    world.settle()
    world.pass_time(5)


def test_the_next_leader_promises_places_though_it_never_saw_the_workload() -> None:
    world = made(4, 4, 4)
    world.add(queued_job("train", pods=3, gpus=4))
    world.settle()
    elastic.JobController(world)._make(topologies.stored(world, "train"))
    waiting_job(world, "next", 1, 4)
    lose(world, "train")

    after = world.restarted()
    after.settle()
    after.pass_time(5)

    assert free(after, "n0", "n1", "n2") == [0, 0, 0]
    assert is_suspended(after, "next")


def test_a_job_keeps_its_places_while_its_workload_is_made_again() -> None:
    world = made(4, 4)
    world.add(queued_job("train", pods=2, gpus=4))
    world.settle()
    waiting_job(world, "next", 1, 4)
    lose(world, "train")

    world.serve_workloads()
    world.pass_time(31)

    assert world.workloads()["train"].status.is_true("Admitted")
    assert free(world, "n0", "n1") == [0, 0]
    assert is_suspended(world, "next")


def test_who_waits_gets_the_room_of_a_job_that_is_deleted_with_its_workload() -> None:
    world = made(4, 4)
    world.add(queued_job("train", pods=2, gpus=4))
    world.settle()
    waiting_job(world, "next", 2, 4)
    lose(world, "train")
    assert is_suspended(world, "next")

    world.store.delete(resources.JOBS, "train", "ml")
    world.settle()

    assert not is_suspended(world, "next")


def test_a_job_that_is_stopped_gives_up_the_places_of_pods_that_it_has_not_made() -> None:
    world = made(4, 4)
    world.add(queued_job("train", pods=2, gpus=4))
    world.settle()
    waiting_job(world, "next", 2, 4)
    lose(world, "train")

    stop = patches.merge({"spec": {"suspend": True}})
    world.store.patch(resources.JOBS, "train", stop, "ml")
    world.settle()

    assert not is_suspended(world, "next")


def test_places_stay_promised_while_it_is_not_known_whether_pods_were_started() -> None:
    world = made(4)
    world.add_pod("first", gpus=4)
    release = until(world, WritePurpose.START_OWNER)
    (workload,) = world.store.list(resources.WORKLOADS, into=Workload).items
    tell(world, resources.WORKLOADS, gone_by_hand(world, workload))
    world._queue.remove(release)
    turn(world)

    kept = KeptCharge("ml", workload.metadata.name, "start")
    assert world.state.written_charge(kept) is not None
    assert free(world, "n0") == [0]


@pytest.mark.parametrize("is_new_leader", [False, True])
def test_pods_keep_the_hosts_that_they_were_told(is_new_leader: bool) -> None:
    world = topologies.racks(r0=2, r1=1)
    world.add(topologies.near("train", 4))
    world.settle()
    jobs = elastic.JobController(world)
    jobs.work()
    told = topologies.nodes_of(jobs)
    assert sorted(told) == ["r0-0", "r0-0", "r0-1", "r0-1"]
    assert free(world, "r0-0", "r0-1", "r1-0") == [0, 0, 2]

    lose(world, "train")
    if is_new_leader:
        world = world.restarted()
        world.settle()

    assert free(world, "r0-0", "r0-1", "r1-0") == [0, 0, 2]
    name = next(pod["metadata"]["name"] for pod in jobs.pods())
    bind(world, name, told[0])
    assert free(world, "r0-0", "r0-1", "r1-0") == [0, 0, 2]
