"""What a watch tells and what requests answer come in any order, and answers may get lost."""

import random
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from typing_extensions import override

from admission.base import conditions, names, patches
from admission.base.names import WorkloadKey
from admission.config.gpu_configuration import GpuConfiguration
from admission.controller import core, watched
from admission.controller.devices.slice_inventory import SliceInventory
from admission.controller.writing.api_requests import (
    ApiRequest,
    RequestResult,
    Result,
    WritePurpose,
)
from admission.kube import errors, resources
from admission.kube.api import EventType
from admission.kube.reflector import Deleted, Upserted
from admission.kube.resources import Resource
from admission.objects import batch, bound_pod, views
from admission.objects.resource_slice import ResourceSlice
from admission.objects.workload import Workload
from admission.owners import integrations
from tests.builders.cluster import make_namespace
from tests.builders.jobs import queued_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import make_pod_set, make_workload
from tests.controller import test_elastic_jobs as elastic
from tests.controller import test_gangs as gangs
from tests.controller import test_jobs as job_tests
from tests.controller import test_stopping as stopping
from tests.controller.test_capacity import bind, make_world, node
from tests.controller.test_slice_inventory import resource_slice
from tests.controller.world import _ROWS, WATCHED, World, ready_world


def tell(world: World, resource: Resource, *changes: Any) -> None:
    """A watch tells the core."""
    for change in changes:
        world.core.receive(core.WatchMessage(resource, change))


def turn(world: World) -> None:
    """Whatever the core wants is written, and no watch tells it anything."""
    world.core.step()
    while world.send_one() is not None:
        world.core.step()


def answer(world: World, write: ApiRequest, result: Result, found: Any = None) -> None:
    """The answer to an open write arrives."""
    world._queue.remove(write)
    world.core.receive(RequestResult(request=write, result=result, object=found))


def open_write(world: World, operation: WritePurpose) -> ApiRequest:
    world.core.step()
    return next(write for write in world.queued if write.operation is operation)


def until(world: World, operation: WritePurpose) -> ApiRequest:
    """Lets things happen until such a write is open."""
    for _ in range(50):
        world.observe()
        world.core.step()
        found = [write for write in world.queued if write.operation is operation]
        if found:
            return found[0]
        if world.send_one() is None:
            world.clock.advance(0.5)
    raise AssertionError(f"no {operation}")


def gone_by_hand(world: World, workload: Workload) -> Deleted[Workload]:
    """Somebody deletes a Workload; what a watch will tell of it."""
    metadata = workload.metadata
    world.store.delete(resources.WORKLOADS, metadata.name, metadata.namespace)
    later = str(int(metadata.resource_version) + 1)
    ended = msgspec.structs.replace(metadata, resource_version=later)
    return Deleted(msgspec.structs.replace(workload, metadata=ended))


def test_a_workload_made_again_stays_known_when_the_news_of_the_old_ones_end_comes_late() -> None:
    world = ready_world(quota=1)
    world.add_pod("train", gpus=4)
    until(world, WritePurpose.EXPLAIN_WORKLOAD)
    old = world.workloads()["train"]
    end = gone_by_hand(world, old)
    turn(world)  # the text finds nothing, the Workload is made again
    new = world.workloads()["train"]
    tell(world, resources.WORKLOADS, end, Upserted(new))
    key = WorkloadKey("ml", new.metadata.name)
    (known,) = world.core.present.workloads((key,))

    assert new.metadata.uid != old.metadata.uid
    assert known is not None
    assert known.metadata.uid == new.metadata.uid
    change = patches.merge(
        {"spec": {"resourceGroups": make_cluster_queue()["spec"]["resourceGroups"]}}
    )
    world.store.patch(resources.CLUSTER_QUEUES, "gpus", change)
    for resource in (resources.CLUSTER_QUEUES, resources.WORKLOADS):
        into = watched.WATCHED[resource]
        tell(world, resource, *map(Upserted, world.listed(resource, into).items))
    world.clock.advance(2)
    turn(world)
    assert world.admitted() == {"train"}


def test_an_answer_that_nothing_was_found_is_not_about_what_was_made_since() -> None:
    world = ready_world(quota=1)
    document = make_workload("by-hand", make_pod_set(gpus=4))
    world.add(document)
    write = until(world, WritePurpose.EXPLAIN_WORKLOAD)
    old = world.store.get(resources.WORKLOADS, "by-hand", "ml", into=Workload)
    end = gone_by_hand(world, old)
    world.add(document)
    new = world.store.get(resources.WORKLOADS, "by-hand", "ml", into=Workload)
    tell(world, resources.WORKLOADS, end, Upserted(new))
    answer(world, write, Result.GONE)
    (known,) = world.core.present.workloads((WorkloadKey("ml", "by-hand"),))

    assert known is not None
    assert known.metadata.uid == new.metadata.uid


@pytest.mark.parametrize("result", [Result.DONE, Result.UNKNOWN, Result.CONFLICT])
def test_the_quota_of_a_deleted_workload_is_not_given_away_while_its_pod_is_being_started(
    result: Result,
) -> None:
    world = ready_world(quota=1)
    world.add_pod("first")
    release = until(world, WritePurpose.START_OWNER)
    world.add_pod("second")
    second = world.store.get(resources.PODS, "second", "ml", into=views.PodDocument)
    (workload,) = world.store.list(resources.WORKLOADS, into=Workload).items
    end = gone_by_hand(world, workload)
    tell(world, resources.WORKLOADS, end)
    tell(world, resources.PODS, Upserted(second))
    turn_without_answer(world, release)
    assert not reserved(world)

    world._queue.append(release)
    if result is Result.CONFLICT:
        answer(world, release, result)
        world.pass_time(3)
        assert len(world.admitted()) == 1
        return
    if result is Result.UNKNOWN:
        world._sender.send(release)
        answer(world, release, result)
    else:
        world.send(release)
    world.pass_time(30)
    assert world.admitted() == {"first"}


@pytest.mark.parametrize("is_grown", [False, True], ids=["first slice", "second slice"])
def test_the_quota_of_a_deleted_slice_is_not_given_away_while_its_pod_is_being_released(
    is_grown: bool,
) -> None:
    world = ready_world(quota=3)
    world.add(elastic.elastic(pods=1 if is_grown else 3))
    jobs = elastic.JobController(world)
    world.settle()
    if is_grown:
        jobs.work()
        job_tests.change(world, "train", parallelism=3)
        world.settle()
    for _ in range(2 if is_grown else 3):
        jobs._make(job_tests.stored(world, "train"))
    release = until(world, WritePurpose.RELEASE_POD)
    world.add_pod("second")
    (held,) = [each for each in elastic.slices(world) if each.status.admission is not None][-1:]
    end = gone_by_hand(world, held)
    second = world.store.get(resources.PODS, "second", "ml", into=views.PodDocument)
    tell(world, resources.WORKLOADS, end)
    tell(world, resources.PODS, Upserted(second))
    turn_without_answer(world, release)

    assert "second" not in {name[4:10] for name in reserved(world)}
    assert world.is_gated("second")


def turn_without_answer(world: World, request: ApiRequest) -> None:
    """Let time pass in which Workloads are shown, and nothing is heard of a request."""
    world._queue.remove(request)
    for _ in range(3):
        world.clock.advance(2)
        turn(world)
        listed = world.listed(resources.WORKLOADS, Workload).items
        tell(world, resources.WORKLOADS, *map(Upserted, listed))


def reserved(world: World) -> list[str]:
    """Names of the Workloads with quota."""
    listed = world.store.list(resources.WORKLOADS, into=Workload).items
    return [each.metadata.name for each in listed if each.status.admission is not None]


def test_a_job_of_the_same_name_stays_known_when_the_news_of_the_old_ones_end_comes_late() -> None:
    world = ready_world()
    world.add(queued_job())
    write = until(world, WritePurpose.START_OWNER)
    old = world.store.get(resources.JOBS, "train", "ml", into=batch.JobDocument)
    world.store.delete(resources.JOBS, "train", "ml")
    world.add(queued_job())
    world.send(write)  # a conflict, which shows the new Job
    new = world.store.get(resources.JOBS, "train", "ml", into=batch.JobDocument)
    tell(world, resources.JOBS, Deleted(old), Upserted(new))
    world.clock.advance(2)
    for _ in range(3):
        listed = world.listed(resources.WORKLOADS, Workload).items
        tell(world, resources.WORKLOADS, *map(Upserted, listed))
        turn(world)

    assert new.metadata.uid != old.metadata.uid
    assert world.store.get(resources.JOBS, "train", "ml")["spec"]["suspend"] is False


def test_a_late_answer_does_not_bring_a_deleted_job_back() -> None:
    world = ready_world()
    world.add(queued_job())
    write = until(world, WritePurpose.START_OWNER)
    before = world.store.get(resources.JOBS, "train", "ml", into=batch.JobDocument)
    world.store.patch(
        resources.JOBS, "train", patches.merge({"metadata": {"labels": {"a": "b"}}}), "ml"
    )
    found = world.store.get(resources.JOBS, "train", "ml", into=batch.JobDocument)
    world.store.delete(resources.JOBS, "train", "ml")
    later = str(int(found.metadata.resource_version) + 1)
    ended = msgspec.structs.replace(found.metadata, resource_version=later)
    tell(world, resources.JOBS, Deleted(msgspec.structs.replace(found, metadata=ended)))
    answer(world, write, Result.DONE, found)
    key = write.key
    assert isinstance(key, WorkloadKey)

    assert found.metadata.resource_version != before.metadata.resource_version
    assert world.parts.owners.jobs.index.get(key) is None


class Watching(World):
    """Watches tell of each change, those of one kind in order; how late, chance says."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._rng = random.Random(seed)
        self._late: dict[Resource, deque[Any]] = {}
        self._seen: dict[Resource, str] = {}
        self._watched = 0
        for resource, into in WATCHED.items():
            listed = self.listed(resource, into)
            self.core.receive(core.WatchMessage(resource, listed))
            self._seen[resource] = listed.version or "1"
            self._late[resource] = deque()

    def _watch(self) -> None:
        version = self.store._journal.version
        if version == self._watched:
            return
        self._watched = version
        selectors = watched.selectors(integrations.DEFAULT)
        for resource, into in WATCHED.items():
            if resource in _ROWS:
                continue
            stream = self.store.watch(
                resource,
                resource_version=self._seen[resource],
                timeout_seconds=0,
                label_selector=selectors.get(resource, ""),
                into=into,
            )
            for event in stream:
                self._seen[resource] = event.resource_version
                if event.object is not None:
                    is_gone = event.type is EventType.DELETED
                    self._late[resource].append((Deleted if is_gone else Upserted)(event.object))

    @override
    def settle(self) -> None:
        for resource in _ROWS:
            self.core.receive(
                core.WatchMessage(resource, self.listed(resource, WATCHED[resource]))
            )
        for _ in range(2000):
            self._watch()
            self.core.step()
            late = [resource for resource, found in self._late.items() if found]
            if not late and not self.queued:
                return
            if self.queued and (not late or self._rng.random() < 0.7):
                self.send(self._rng.choice(self.queued))
            else:
                resource = self._rng.choice(late)
                tell(self, resource, self._late[resource].popleft())
        raise AssertionError(f"does not settle: {[w.operation for w in self.sent[-10:]]}")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("queue", ["", "team-a"])
def test_pods_that_leave_and_join_a_podgroup_are_not_lost_whatever_is_told_first(
    queue: str, seed: int
) -> None:
    world = Watching(seed)
    world.add(make_namespace(), make_flavor(), make_cluster_queue(quota=4), make_local_queue())
    world.add(make_local_queue("default", "gpus", "ml"))
    world.settle()
    gangs.show(world, 2)
    gangs.add(world, "a", "b", queue=queue)
    assert gangs.started(world) == {"a", "b"}
    gangs.add(world, "c", "d", queue=queue)
    assert gangs.started(world) == {"a", "b", "c", "d"}
    gangs.add(world, "e", queue=queue)
    gangs.started(world)
    world.delete_pod("c")
    assert gangs.started(world) == {"a", "b", "d", "e"}
    gangs.add(world, "f", "g", queue=queue)
    gangs.started(world)
    gangs.deactivate(world, gangs.name_of())
    gangs.started(world)
    assert gangs.started(world) == set()
    again = patches.merge({"spec": {"active": True}})
    world.store.patch(resources.WORKLOADS, gangs.name_of(), again, "ml")
    gangs.started(world)
    assert gangs.started(world) == {"f", "g"}


def test_an_older_sight_of_a_pod_that_has_left_its_podgroup_does_not_lose_it() -> None:
    world = ready_world(quota=4)
    world.add(make_local_queue("default", "gpus", "ml"))
    gangs.show(world, 1)
    gangs.add(world, "a", queue="")
    assert gangs.started(world) == {"a"}
    gangs.add(world, "b", queue="")
    leave = until(world, WritePurpose.ADOPT_POD)
    world.send(leave)
    between = world.store.get(resources.PODS, "b", "ml", into=views.PodDocument)
    leave = open_write(world, WritePurpose.ADOPT_POD)
    world.send(leave)
    after = world.store.get(resources.PODS, "b", "ml", into=views.PodDocument)
    assert between.metadata.annotation(names.POD_GROUP_OBJECT)
    assert not after.metadata.annotation(names.POD_GROUP_OBJECT)
    tell(world, resources.PODS, Upserted(between), Upserted(after))
    assert gangs.started(world) == {"a", "b"}


@pytest.fixture
def running() -> World:
    """A pod that runs on a node, known to the core."""
    world = make_world(node("n0", gpu=4), make_cluster_queue(), make_local_queue())
    world.add_pod("train", gpus=2)
    world.settle()
    bind(world, "train", "n0")
    return world


def test_a_late_answer_does_not_count_the_gpus_of_a_deleted_pod(running: World) -> None:
    world = running
    pod = world.pod("train")
    document = world.store.get(resources.PODS, "train", "ml", into=views.PodDocument)
    held = world.parts.quota.inventory._capacities
    assert held.has_pod(pod.metadata.uid, "n0")
    tell(world, resources.PODS, Deleted(document))
    world.parts.owners.pods.on_update(pod)

    assert not held.has_pod(pod.metadata.uid, "n0")


def test_a_pod_that_gets_its_label_back_is_looked_after_again(running: World) -> None:
    world = running
    held = world.parts.quota.inventory._capacities
    document = world.store.get(resources.PODS, "train", "ml", into=views.PodDocument)
    version = int(document.metadata.resource_version)
    without, again = (
        msgspec.structs.replace(
            document,
            metadata=msgspec.structs.replace(document.metadata, resource_version=str(number)),
        )
        for number in (version + 1, version + 2)
    )
    tell(world, resources.PODS, Deleted(without))
    assert not held.has_pod(document.metadata.uid, "n0")
    tell(world, resources.PODS, Upserted(again))

    assert held.has_pod(document.metadata.uid, "n0")


def test_a_pod_that_was_replaced_while_nobody_looked_holds_no_gpus(running: World) -> None:
    world = running
    first = world.pod("train").metadata.uid
    world.delete_pod("train")
    world.add_pod("train", gpus=2)
    world.settle()

    assert world.pod("train").metadata.uid != first
    assert not world.parts.quota.inventory._capacities.has_pod(first, "n0")


# --------------------------------------------------------------------------------- lost answers


def test_a_watch_that_reads_pods_in_part_stands_for_no_answer() -> None:
    world = ready_world(quota=1)
    world.add_pod("train", gpus=4)
    write = until(world, WritePurpose.EXPLAIN_POD)
    left_out: list[Any] = []
    world.parts.kinds.informers[resources.PODS].on_left_out = lambda *what: left_out.append(what)
    world._sender.send(write)  # it takes effect, and its answer is late
    bound = world.listed(resources.BOUND_PODS, bound_pod.BoundPodDocument).items
    tell(world, resources.BOUND_PODS, *map(Upserted, bound))
    world.clock.advance(30)
    tell(world, resources.NAMESPACES, world.listed(resources.NAMESPACES, views.Namespace))
    world.core.step()

    assert left_out == []


def test_an_eviction_whose_answer_got_lost_is_counted_once() -> None:
    world = World()
    preemption = {"withinClusterQueue": "LowerPriority"}
    world.add(
        make_namespace(),
        make_flavor(),
        make_cluster_queue(quota=2, preemption=preemption),
        make_local_queue(),
    )
    world.add_pod("low", gpus=2, spec={"priority": 1})
    world.settle()
    world.add_pod("high", gpus=2, spec={"priority": 9})
    write = until(world, WritePurpose.EVICT)
    world._sender.send(write)  # it takes effect, but nobody hears of it
    answer(world, write, Result.UNKNOWN)
    low = world.workloads()["low"].metadata.name
    world.clock.advance(1)
    turn(world)
    evictions = [
        (one.operation, one.name) for one in world.sent if one.operation is WritePurpose.EVICT
    ]

    assert evictions == [(WritePurpose.EVICT, low)]


# ----------------------------------------------------------------------------------------- time


def test_parked_workloads_are_tried_again_though_the_clock_was_set_back() -> None:
    world = ready_world(quota=4)
    world.add_pod("first", gpus=4)
    world.settle()
    world.add_pod("second", gpus=4)
    world.pass_time(2)
    world.set_phase("first", "Succeeded")
    until(world, WritePurpose.FINISH_WORKLOAD)
    world.send_one()
    world.clock.set_back(3600)
    world.pass_time(3)

    assert world.admitted() == {"first", "second"}


# --------------------------------------------------------------------------------------- months


def refuse(world: World, operation: WritePurpose, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server refuses such writes."""
    send: Callable[[ApiRequest], RequestResult] = world._sender.send

    def refusing(write: ApiRequest) -> RequestResult:
        if write.operation is not operation:
            return send(write)
        error = errors.make(403, "no")
        assert isinstance(error, errors.ApiError)
        return RequestResult(request=write, result=Result.REFUSED, error=error)

    monkeypatch.setattr(world._sender, "send", refusing)


def test_nothing_is_left_of_pods_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ready_world(quota=1)
    refuse(world, WritePurpose.CREATE_WORKLOAD, monkeypatch)
    world.add_pod("refused")
    world.add_pod("classless", labels={names.PRIORITY_CLASS_LABEL: "none"})
    world.pass_time(5)
    assert world.parts.basis.flow._refusals
    assert world.parts.basis.plans.waiting_for
    world.delete_pod("refused")
    world.delete_pod("classless")
    world.pass_time(90)

    assert not world.parts.basis.flow._refusals
    assert not world.parts.basis.plans.waiting_for


def test_nothing_is_left_of_queues_whose_workloads_are_gone() -> None:
    world = ready_world()
    world.add_pod("train", queue="elsewhere")
    world.settle()
    assert world.state._workloads.of_local
    world.delete_pod("train")
    world.settle()

    assert not world.state._workloads.of_local


def test_nothing_is_left_of_the_pools_of_nodes_that_are_gone() -> None:
    slice_inventory = SliceInventory()
    document = resource_slice()
    view = msgspec.convert(document, ResourceSlice)
    slice_inventory.put(view)
    assert slice_inventory._node_of_pool
    slice_inventory.drop(view.metadata.name)

    assert not slice_inventory._node_of_pool


# ------------------------------------------------------------------- while a release is under way


@pytest.mark.parametrize("end", ["deleted", "Failed"])
def test_a_pod_that_ends_while_it_is_released_leaves_its_quota_to_the_next(end: str) -> None:
    world = ready_world(quota=2)
    world.add_pod("first", gpus=2)
    release = until(world, WritePurpose.START_OWNER)
    if end == "deleted":
        world.delete_pod("first")
    else:
        world.set_phase("first", end)
    world.send(release)
    world.settle()
    world.add_pod("next", gpus=2)
    world.pass_time(2)

    assert not world.is_gated("next")
    (flavor,) = world.status_of("gpus")["flavorsUsage"]
    assert flavor["resources"][0]["total"] == "2"
    assert "first" not in world.workloads() or end == "Failed"


def test_a_pod_that_is_evicted_while_it_is_released_is_stopped_before_another_starts() -> None:
    world = ready_world(quota=2)
    world.add(node("n"))
    world.add_pod("first", gpus=2)
    world.add_pod("next", gpus=2)
    lasting = patches.merge({"metadata": {"finalizers": ["example.com/kept"]}})
    world.store.patch(resources.PODS, "first", lasting, "ml")
    release = until(world, WritePurpose.START_OWNER)
    assert release.name == "first"
    stopping.evict(world, "first")
    tell(world, resources.WORKLOADS, Upserted(world.workloads()["first"]))
    world.core.step()
    world.send(release)
    bind(world, "first", "n")
    world.settle()
    world.pass_time(2)
    assert stopping.target(world, "first") is not None
    assert world.pod("first").metadata.deletion_timestamp
    assert world.is_gated("next")

    world.set_phase("first", "Failed")
    world.pass_time(2)
    assert not world.is_gated("next")


def test_a_pod_whose_release_is_refused_says_so_and_gives_its_quota_back() -> None:
    """As by an admission webhook of somebody else; nobody else waits longer for it."""

    class Refusing(World):
        refuses, refused = True, 0

        @override
        def send(self, write: ApiRequest) -> Any:
            is_meant = write.operation is WritePurpose.START_OWNER and write.name == "first"
            if not (self.refuses and is_meant):
                return super().send(write)
            self.refused += 1
            self._queue.remove(write)
            self.core.receive(stopping.refused(write))
            return None

    def refusal() -> str:
        found = world.workloads()["first"].status.condition(conditions.START_REFUSED)
        return "" if found is None else found.message

    settings = GpuConfiguration(not_ready_after=timedelta(minutes=4), max_stops_per_minute=0)
    world = Refusing(gpu=settings)
    world.add(make_namespace(), make_flavor(), make_cluster_queue(quota=3), make_local_queue())
    world.settle()
    for name in ("first", "second", "third"):
        world.add_pod(name, gpus=1)
    world.pass_time(2)
    assert world.admitted() == {"second", "third"}
    text = "Admitted, but the API server refuses to start it: forbidden"
    said = world.condition("first")
    assert said is not None
    assert (said.status, said.reason, said.message, refusal()) == (
        "False", "StartRefused", text, text
    )  # fmt: skip
    world.add_pod("fourth")
    world.pass_time(230)
    assert world.is_gated("fourth")
    world.pass_time(75)
    assert world.admitted() == {"second", "third", "fourth"}
    assert world.refused <= 10
    evicted = world.workloads()["first"].status.condition(conditions.EVICTED)
    assert evicted is not None
    assert "refused to start it for 4 minutes: forbidden" in evicted.message

    world.refuses = False
    world.set_phase("fourth", "Succeeded")
    world.pass_time(90)
    assert "first" in world.admitted()
    assert refusal() == ""
    said = world.condition("first")
    assert said is not None
    assert said.status == "True"
    assert not world.parts.basis.refusals._said
