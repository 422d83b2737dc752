"""What has ended leaves no quota and nothing in memory."""

from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final

import pytest

from admission.base import patches
from admission.base.names import ClusterQueueName
from admission.controller import usage_tally
from admission.controller.seeing import object_cache
from admission.kube import resources
from admission.objects import views
from tests.builders.jobs import queued_job
from tests.builders.pods import group_pod
from tests.controller.test_jobs import report
from tests.controller.world import World, ready_world

OURS: Final = ("admission.controller", "admission.scheduling", "admission.owners")
CONTAINERS: Final = (dict, set, list, deque)
MANY: Final = 30


def own(one: Any) -> dict[str, Any]:
    """The attributes of an object of ours."""
    slots = (name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ()))
    return {**getattr(one, "__dict__", {}), **{name: getattr(one, name, None) for name in slots}}


def sizes(world: World) -> Counter[str]:
    """How many entries the core keeps, by the attributes that they are in."""
    found: Counter[str] = Counter()
    seen: set[int] = set()
    todo: list[tuple[str, Any]] = [("core", world.core)]
    while todo:
        where, one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, CONTAINERS):
            found[where] += len(one)
            todo += [(where, each) for each in (one.values() if isinstance(one, dict) else one)]
        elif type(one).__module__.startswith(OURS):
            kind = f"{type(one).__module__}.{type(one).__name__}"
            todo += [(f"{kind}.{name}", each) for name, each in own(one).items()]
    return found


def pods(world: World, wave: int) -> None:
    for index in range(MANY):
        world.add_pod(f"pod-{wave}-{index}")


def jobs(world: World, wave: int) -> None:
    for index in range(MANY // 2):
        world.add(queued_job(f"job-{wave}-{index}", pods=2))


def groups(world: World, wave: int) -> None:
    for index in range(MANY // 2):
        name = f"gang-{wave}-{index}"
        for member in "ab":
            document = group_pod(f"{name}-{member}", name, total=2)
            world.store.create(resources.PODS, document, "ml")


def finish(world: World) -> None:
    """Let everything succeed that runs."""
    for pod in world.store.list(resources.PODS, into=views.Pod).items:
        if not pod.spec.scheduling_gates:
            world.set_phase(pod.metadata.name, "Succeeded")
    for job in world.store.list(resources.JOBS, into=dict).items:
        if not job["spec"]["suspend"]:
            done = [{"type": "Complete", "status": "True"}]
            report(world, job["metadata"]["name"], conditions=done)


def delete_all(world: World) -> None:
    for resource in (resources.PODS, resources.JOBS):
        for one in world.store.list(resource, into=views.Object).items:
            world.store.delete(resource, one.metadata.name, "ml")


@pytest.mark.parametrize("add", [pods, jobs, groups], ids=lambda one: one.__name__)
def test_what_came_and_went_leaves_no_quota_and_nothing_in_memory(
    add: Callable[[World, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, most in ((object_cache, "_TOMBSTONES"), (usage_tally, "MOST_CLOSED")):
        monkeypatch.setattr(module, most, 10)  # so many are remembered on purpose
    world, before = ready_world(quota=10), Counter[str]()
    for wave in range(2):
        add(world, wave)
        for _ in range(6):
            world.pass_time(1)
            finish(world)
        world.pass_time(2)
        assert not [one for one in world.workloads().values() if one.is_pending()]
        delete_all(world)
        world.pass_time(90)
        now = sizes(world)
        if wave:
            assert {
                where: n - before[where] for where, n in now.items() if n > before[where]
            } == {}
        before = now

    tally = world.state.cluster_queue_status(ClusterQueueName("gpus"))
    assert (sum(tally.reservation.values()), tally.reserving, tally.pending) == (0, 0, 0)
    assert world.workloads() == {}


@pytest.mark.parametrize(
    "reason",
    [
        "UnexpectedAdmissionError",
        "OutOfnvidia.com/gpu",
        "Evicted",
        "NodeShutdown",
        "Terminated",
        "",
    ],
)
def test_a_pod_that_the_kubelet_gave_up_gives_its_quota_back_once(reason: str) -> None:
    world = ready_world(quota=2)
    world.add_pod("first", gpus=2)
    world.settle()
    for name in ("second", "third"):
        world.add_pod(name, gpus=2)
    world.pass_time(2)
    failed = patches.merge({"status": {"phase": "Failed", "reason": reason or None}})
    for _ in range(2):
        world.store.patch(resources.PODS, "first", failed, "ml", subresource="status")
        world.pass_time(2)

    assert len(world.admitted() & {"second", "third"}) == 1
    (used,) = world.status_of("gpus")["flavorsUsage"]
    assert used["resources"][0]["total"] == "2"
