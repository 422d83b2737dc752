"""Commands and pages say the same of a cluster, whatever happens to the pods.

The dashboard and ``top`` show the same numbers; pods, events, ``why``, ``queue`` and the dashboard
say the same sentence.
"""

import random
import re
from typing import Any

import pytest

from admission.answers import cluster, quota_use, waiting, why
from admission.answers.cluster import Wanted
from admission.answers.quota_use import Use
from admission.base import names, patches
from admission.base.conditions import WaitReason
from admission.base.names import ClusterQueueName
from admission.cli import who
from admission.kube import resources
from admission.objects.workload import Workload
from admission.serve.dashboard import waiting_rows
from tests.answers.rights import OfTeam
from tests.builders.cluster import make_namespace
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.controller.world import World

QUEUES = {"research": 4, "serving": 2, "vision": 0}
STEPS = 12


def _world(cohort: str = "all") -> World:
    world = World()
    world.add(make_namespace(), make_flavor())
    for name, quota in QUEUES.items():
        world.add(make_cluster_queue(name, quota=quota, cohortName=cohort))
        world.add(make_local_queue(name, name))
    world.settle()
    return world


def _numbers(use: Use) -> object:
    """What both show: by queue and in all, without what only one of them looks for."""
    of_queues = {
        one.name: (
            one.active,
            one.message,
            [
                (
                    line.flavor,
                    line.resource,
                    line.nominal,
                    line.used,
                    line.borrowed,
                    line.releasing,
                    line.without_node,
                )
                for line in one.lines
            ],
            one.pending.workloads,
            {name: n for name, n in (one.pending.resources or {}).items() if n},
            one.reserving,
            one.admitted,
        )
        for one in use.queues
    }
    return of_queues, [quota_use.total(use, one) for one in quota_use.resources_of(use)]


@pytest.mark.parametrize("seed", range(8))
def test_the_dashboard_shows_what_top_shows(seed: int) -> None:
    chance, world = random.Random(seed), _world()
    pods: list[str] = []
    for step in range(STEPS):
        action = chance.choice(["create", "create", "create", "bind", "end", "delete", "stop"])
        if action == "create" or not pods:
            name = f"pod-{step}"
            world.add_pod(name, queue=chance.choice(sorted(QUEUES)), gpus=chance.randint(1, 5))
            pods.append(name)
        elif action == "bind":
            change = patches.merge({"spec": {"nodeName": "n1"}})
            bound = chance.choice(sorted(world.admitted() & {*pods}) or [pods[0]])
            if not world.is_gated(bound):
                world.store.patch(resources.PODS, bound, change, "ml")
        elif action == "end":
            world.set_phase(pods.pop(chance.randrange(len(pods))), "Succeeded")
        elif action == "delete":
            world.delete_pod(pods.pop(chance.randrange(len(pods))))
        else:
            policy = chance.choice(["None", "Hold", "HoldAndDrain"])
            change = patches.merge({"spec": {"stopPolicy": policy}})
            world.store.patch(resources.CLUSTER_QUEUES, chance.choice(sorted(QUEUES)), change)
        world.pass_time(2.0)
        read = cluster.relate(
            cluster.read(world.store, Wanted(namespace="ml", pods=cluster.RELEASED))
        )
        shown = quota_use.of_overview(world.core.present.overview())
        assert _numbers(shown) == _numbers(quota_use.of(read)), (seed, step, action)


def test_local_queues_hold_what_their_status_says() -> None:
    world = _world()
    for number in range(3):
        world.add_pod(f"pod-{number}", queue="serving", gpus=2)
    world.pass_time(2.0)
    read = cluster.relate(cluster.read(world.store, Wanted(namespace="ml")))
    told = {
        one.name: (
            {(x.flavor, x.resource): (x.used, x.admitted) for x in one.lines if x.used},
            one.pending.workloads,
        )
        for one in quota_use.of(read).local_queues
    }
    shown = {
        one.key.name: (
            {tuple(p): (n, one.admitted.get(p, 0)) for p, n in one.used.items() if n},
            one.pending,
        )
        for one in world.core.present.local_queues()
    }
    assert shown == told
    assert shown["serving"][0]
    assert world.core.present.holders(ClusterQueueName("serving"))


# ----------------------------------------------------------------------------------- sentences


def _head(message: str) -> str:
    """Return what is said first: what is lacking, without places and holders.

    What is free is left out: on a pod it is as of when it was tried last, elsewhere as of now.
    """
    first = message.partition("; ")[0].rstrip(".").removeprefix("Waits: ")
    return re.sub(r"\d+ free", "free", f"{first[:1].upper()}{first[1:]}")


def _waiting_world(seed: int) -> World:
    """Return a cluster in which a third of the pods waits, long enough for all to say why."""
    chance, world = random.Random(seed), _world()
    for number in range(STEPS):
        gpus = chance.choice([1, 2, 3, 5, 64])
        world.add_pod(f"pod-{number}", queue=chance.choice(sorted(QUEUES)), gpus=gpus)
        world.pass_time(1.0)
    world.pass_time(90.0)
    return world


class Standby(World):
    """A controller that follows all and decides nothing."""

    leads = False


def _told_by(world: World, workload: Workload) -> tuple[str, bool]:
    """What the dashboard of a controller says of a Workload."""
    (wait,) = world.core.present.waits((workload.key(),))
    return waiting_rows.said(wait, workload)


@pytest.mark.parametrize("seed", range(4))
def test_pods_events_and_commands_say_the_same_of_what_waits(seed: int) -> None:
    world = _waiting_world(seed)
    workloads = world.workloads()
    told = {name: note for name, _, note in world.events.recorded}
    read = cluster.relate(cluster.read(world.store, Wanted(namespace="ml")))
    lines = {
        place.workload: place for queue in QUEUES for place in waiting.of(read, queue).waiting
    }
    pods = [name for name in workloads if world.is_gated(name)]
    assert pods
    standby = Standby(store=world.store, clock=world.clock)
    standby.settle()
    for pod in pods:
        condition, workload = world.condition(pod), workloads[pod]
        assert condition is not None
        answer = why.explain(world.store, "ml", f"pod/{pod}")
        assert answer.reason == condition.reason
        for number in answer.numbers if answer.reason == WaitReason.WAITING_FOR_QUOTA else ():
            assert f"{number.free} free of {number.reach};" in answer.message, "as the table says"
        of_workload = why.explain(world.store, "ml", f"workload/{workload.metadata.name}")
        line = lines[workload.metadata.name]
        shown, never = _told_by(world, workload)
        texts = {
            "pod": condition.message,
            "event": told[pod],
            "why": of_workload.message,
            "why of the pod": answer.message,
            "queue": line.message,
            "dashboard": shown,
            "dashboard of a standby": _told_by(standby, workload)[0],
        }
        assert {_head(text) for text in texts.values()} == {_head(condition.message)}, texts
        assert {of_workload.reason, line.reason} == {condition.reason}
        assert never is line.never is _told_by(standby, workload)[1]


def _asked(world: World, queue: str) -> tuple[str, str]:
    """What the dashboard says that the one asks for that waits in a queue, and why it waits."""
    line = world.core.present.line(ClusterQueueName(queue))
    assert line is not None
    (item,) = line.members
    (wait,) = world.core.present.waits((item.key,))
    view = next(v for v in world.workloads().values() if v.key() == item.key)
    return waiting_rows.asks(item, wait), waiting_rows.said(wait, view)[0]


def _lab_world() -> World:
    """A queue that counts GPUs as GPU memory, in flavors of two products, and one that waits."""
    world = World()
    sizes = {names.GPU_MEMORY: "150Gi", names.GPU_SLICES: 14}
    world.add(
        make_namespace(),
        make_flavor("lab-a100", product="NVIDIA-A100-SXM4-80GB"),
        make_flavor("lab-h100", product="NVIDIA-H100-NVL"),
        make_cluster_queue("lab", quotas=dict.fromkeys(("lab-a100", "lab-h100"), sizes)),
        make_local_queue("lab", "lab"),
    )
    world.settle()
    for pod in ("first", "second"):
        world.add_pod(pod, queue="lab", gpus=1)
        world.pass_time(2.0)
    world.add_pod("late", queue="lab", gpus=1)
    world.pass_time(2.0)
    return world


GIB = 2**30
LAB_NEEDS = (
    "Needs 80Gi GPU memory of lab-a100 (70Gi free of 150Gi) "
    "or 94Gi GPU memory of lab-h100 (56Gi free of 150Gi)"
)


def test_a_row_asks_for_as_much_gpu_memory_as_its_reason_says() -> None:
    """Whole GPUs have 80Gi in one flavor and 94Gi in the other."""
    world = _lab_world()
    needs = f"{LAB_NEEDS}."
    assert _asked(world, "lab") == ("80Gi gpu-memory, 7 gpu-slices", needs)
    standby = Standby(store=world.store, clock=world.clock)
    standby.settle()
    assert _asked(standby, "lab") == ("80Gi to 94Gi gpu-memory, 7 gpu-slices", needs)


def _of_late(world: World) -> Workload:
    return next(v for v in world.workloads().values() if "late" in v.metadata.name)


@pytest.mark.parametrize("typed", ["pod/late", "workload"])
def test_commands_ask_for_as_much_gpu_memory_as_a_gpu_of_each_flavor_has(typed: str) -> None:
    world = _lab_world()
    name = _of_late(world).metadata.name
    answer = why.explain(world.store, "ml", typed if typed != "workload" else f"workload/{name}")
    assert LAB_NEEDS.lower() in answer.message.lower()
    memory = {n.flavor: n.asks for n in answer.numbers if n.resource == names.GPU_MEMORY}
    assert memory == {"lab-a100": 80 * GIB, "lab-h100": 94 * GIB}
    read = cluster.relate(cluster.read(world.store, Wanted(namespace="ml")))
    answer_of_queue = waiting.of(read, "lab")
    (line,) = answer_of_queue.waiting
    assert (line.lowest, line.asks[names.GPU_MEMORY]) == ({names.GPU_MEMORY: 80 * GIB}, 94 * GIB)
    (queue,) = waiting.document([answer_of_queue], {}, ())["clusterQueues"]
    (row,) = queue["waiting"]
    amounts = (row["asks"][names.GPU_MEMORY], row["asksAtLeast"][names.GPU_MEMORY])
    assert amounts == ("94Gi", "80Gi")
    assert row["asks"].keys() == row["asksAtLeast"].keys()
    assert LAB_NEEDS.lower() in line.message.lower()


def test_a_product_that_commands_do_not_know_is_told_as_the_controller_counts_it() -> None:
    """Commands do not read the configuration, which may have other products."""
    world = _lab_world()
    view = _of_late(world)
    counted = [
        {"name": part["name"], "resources": {**part["resources"], names.GPU_MEMORY: "96Gi"}}
        for part in view.status.resource_requests or ()
    ]
    change = patches.merge({"status": {"resourceRequests": counted}})
    world.store.patch(resources.WORKLOADS, view.metadata.name, change, "ml", subresource="status")
    answer = why.explain(world.store, "ml", f"workload/{view.metadata.name}")
    assert {n.asks for n in answer.numbers if n.resource == names.GPU_MEMORY} == {96 * GIB}


def test_a_member_is_shown_the_numbers_that_the_own_pod_says_and_none_that_are_not_known() -> None:
    world = _lab_world()
    member: Any = OfTeam(world.store, "ml")

    def shown(typed: str) -> dict[str, tuple[int | None, int | None, int | None]]:
        return {
            n.flavor: (n.asks, n.free, n.reach)
            for n in why.explain(member, "ml", typed).numbers
            if n.resource == names.GPU_MEMORY
        }

    assert shown("pod/late") == {
        "lab-a100": (80 * GIB, 70 * GIB, 150 * GIB),
        "lab-h100": (94 * GIB, 56 * GIB, 150 * GIB),
    }
    workload = f"workload/{_of_late(world).metadata.name}"
    nothing = (None, None, None)
    assert shown(workload) == {"lab-a100": nothing, "lab-h100": nothing}
    message = why.explain(member, "ml", workload).message
    assert message.startswith(
        "Waits: needs 10Gi more GPU memory of lab-a100 or 38Gi more GPU memory of lab-h100"
    )


@pytest.mark.parametrize(
    ("cohort", "typed"), [("all", ["all"]), ("vision", ["vision", "--kind", "cohort"])]
)
def test_the_step_that_asks_about_a_cohort_is_a_command_that_does(
    cohort: str, typed: list[str]
) -> None:
    world = _world(cohort)
    for queue in ("research", "serving"):
        world.add_pod(f"of-{queue}", queue=queue, gpus=3)
    world.pass_time(2.0)
    world.add_pod("late", queue="vision", gpus=6)
    world.pass_time(5.0)
    advice = why.explain(world.store, "ml", "pod/late").advice
    command = ["kubectl", "gpu", "who", *typed, "-n", "ml"]
    assert advice.endswith(" ".join(command))
    who.who.make_context("who", command[3:])  # raises where an option is none of who's
