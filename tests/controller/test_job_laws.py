"""Whatever users, admins and crashes do to Jobs: quota holds, nothing leaks, all get a turn."""

from typing import Any

import hypothesis
from hypothesis import strategies as st

from admission.base import conditions, names, patches
from admission.kube import errors, resources
from admission.kube.api import Document
from admission.objects import batch
from admission.owners import batch_job
from tests.builders.jobs import queued_job
from tests.controller.world import World, ready_world

QUOTA = 4
NAMES = ("a", "b", "c")
ACTIONS = (
    "add", "partial", "delete", "finish", "fail", "start", "suspend", "grow", "shrink", "unlabel",
    "label", "delete workload", "deactivate", "activate", "drain", "open", "crash", "one write",
)  # fmt: skip


def play(world: World, action: str, name: str) -> World:
    """One thing that somebody does; what cannot be done is left."""
    try:
        return _play(world, action, name)
    except (errors.NotFoundError, errors.AlreadyExistsError, KeyError):
        return world


def _play(world: World, action: str, name: str) -> World:
    match action:
        case "add":
            world.add(queued_job(name, 2))
        case "partial":
            world.add(queued_job(name, 6, annotations={names.JOB_MIN_PARALLELISM: "1"}))
        case "delete":
            world.store.delete(resources.JOBS, name, "ml")
        case "finish" | "fail":
            kind = "Complete" if action == "finish" else "Failed"
            report(world, name, active=0, conditions=[{"type": kind, "status": "True"}])
        case "start" | "suspend":
            change(world, resources.JOBS, name, spec={"suspend": action == "suspend"})
        case "grow" | "shrink":
            pods = 3 if action == "grow" else 1
            change(world, resources.JOBS, name, spec={"parallelism": pods, "completions": pods})
        case "unlabel" | "label":
            queue = "team-a" if action == "label" else None
            labels = {names.QUEUE_LABEL: queue}
            change(world, resources.JOBS, name, metadata={"labels": labels})
        case "delete workload":
            world.store.delete(resources.WORKLOADS, workload_of(world, name), "ml")
        case "deactivate" | "activate":
            active = {"active": action == "activate"}
            change(world, resources.WORKLOADS, workload_of(world, name), spec=active)
        case "drain" | "open":
            policy = "HoldAndDrain" if action == "drain" else "None"
            patch = patches.merge({"spec": {"stopPolicy": policy}})
            world.store.patch(resources.CLUSTER_QUEUES, "gpus", patch)
        case "crash":
            return world.restarted()
        case _:
            world.observe()
            world.core.step()
            world.send_one()
    return world


def change(world: World, resource: resources.Resource, name: str, **members: Any) -> None:
    world.store.patch(resource, name, patches.merge(members), "ml")


def report(world: World, name: str, **status: Any) -> None:
    patch = patches.merge({"status": status})
    world.store.patch(resources.JOBS, name, patch, "ml", subresource="status")


def workload_of(world: World, name: str) -> str:
    return world.workloads()[name].metadata.name


def jobs(world: World) -> dict[str, Document]:
    found = world.store.list(resources.JOBS, into=dict).items
    return {one["metadata"]["name"]: one for one in found}


def is_over(found: Document) -> bool:
    return bool(found.get("status", {}).get("conditions"))


def is_queued(found: Document) -> bool:
    return names.QUEUE_LABEL in (found["metadata"].get("labels") or {})


def pods_of(found: Document) -> int:
    """How many pods the Job controller lets run."""
    spec = found["spec"]
    runs = not spec["suspend"] and not is_over(found)
    return min(spec["parallelism"], spec["completions"]) if runs else 0


def control(world: World) -> bool:
    """What the Job controller does with all Jobs; whether there was anything to do."""
    busy = False
    for name, found in jobs(world).items():
        if found.get("status", {}).get("active", 0) != pods_of(found):
            start = {"startTime": "2026-01-01T00:00:00Z"} if pods_of(found) else {}
            report(world, name, active=pods_of(found), **start)
            busy = True
    return busy


def come_to_rest(world: World) -> None:
    for _ in range(20):
        world.pass_time(1)
        if not control(world):
            return
    raise AssertionError("no rest")


steps = st.lists(st.tuples(st.sampled_from(ACTIONS), st.sampled_from(NAMES)), max_size=14)


EARLY = ("label", "deactivate")
"""What lets others run before pods have gone: a Job that ran outside, and Kueue's own rule."""


def check_pods(world: World) -> None:
    """Pods that run, and those that may be made at any moment, have quota."""
    ours = [one for one in jobs(world).values() if is_queued(one)]
    pods = [max(pods_of(one), one.get("status", {}).get("active", 0)) for one in ours]
    assert sum(pods) <= QUOTA


def started_world() -> World:
    """Two Jobs have all the quota, a third one waits."""
    world = ready_world(quota=QUOTA)
    for name in NAMES:
        world = play(world, "add", name)
        come_to_rest(world)
    return world


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(steps=steps, settled=st.booleans())
def test_quota_holds_nothing_leaks_and_all_get_a_turn(
    steps: list[tuple[str, str]], settled: bool
) -> None:
    world = started_world()
    for action, name in steps:
        world = play(world, action, name)
        if settled:
            world.settle()
            if action not in EARLY:
                check_pods(world)
            control(world)
    world = play(world, "open", "")
    come_to_rest(world)
    check_rest(world)


def check_rest(world: World) -> None:
    found = jobs(world)
    ours = {name: one for name, one in found.items() if is_queued(one)}
    workloads = world.workloads()
    running = {name: pods_of(one) for name, one in ours.items() if pods_of(one)}
    assert sum(running.values()) <= QUOTA
    assert workloads.keys() <= ours.keys()
    assert all(workloads[name].status.is_true(conditions.ADMITTED) for name in running)
    waiting = [
        name
        for name, one in ours.items()
        if name not in running and not is_over(one) and workloads[name].spec.active is not False
    ]
    assert not any(batch_job.is_injected(world_job(world, name)) for name in waiting)
    free = QUOTA - sum(running.values())
    for name in waiting:
        spec = found[name]["spec"]
        least = batch_job.min_count(world_job(world, name)) or spec["parallelism"]
        assert least > free, f"{name} could run: {found[name]}, {workloads[name].status}"


def world_job(world: World, name: str) -> batch.Job:
    return world.store.get(resources.JOBS, name, "ml", into=batch.JobDocument).view()
