"""Events on pods that leave their node though no queue stops them, and on what controls them."""

from typing import Any

import msgspec
import pytest

from admission.base import patches
from admission.controller.core import LeaderStarted, WatchMessage
from admission.controller.watched_owners.disruptions import Disruptions
from admission.kube import resources
from admission.kube.reflector import Upserted
from admission.objects import views
from tests.builders.pods import make_pod
from tests.clocks import FakeClock
from tests.controller.world import RecordedEvents, World, ready_world

EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
OF_DRAIN = "It left node n0: it was evicted, as kubectl drain does"


class Standby(World):
    """A controller that does not lead."""

    leads = False


def run(world: World, name: str, **metadata: Any) -> None:
    world.add_pod(name, gpus=1, **metadata)
    world.settle()
    change = patches.merge({"spec": {"nodeName": "n0"}})
    world.store.patch(resources.PODS, name, change, "ml")
    world.settle()


def say(world: World, name: str, **condition: Any) -> None:
    """Have Kubernetes say on a pod why it is about to end."""
    change = patches.merge({"status": {"conditions": [{**EVICTED, **condition}]}})
    world.store.patch(resources.PODS, name, change, "ml", subresource="status")


def disruptions(world: World) -> list[tuple[str, str, str]]:
    return [event for event in world.events.recorded if "Disrupted" in event[1]]


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ({}, OF_DRAIN),
        ({"reason": "DeletionByPodGC"}, "It left node n0: the node is gone"),
        ({"reason": "Other", "message": "a robot said so"}, "It left node n0: a robot said so"),
        ({"reason": "Other"}, "It left node n0: Other"),
    ],
    ids=["a drain", "a node that is gone", "unknown with a message", "unknown"],
)
def test_a_running_pod_that_is_disrupted_says_where_it_ran_and_why_it_left(
    condition: dict[str, Any], told: str
) -> None:
    world = ready_world()
    run(world, "train")
    say(world, "train", **condition)
    world.settle()
    assert disruptions(world) == [("train", "Disrupted", told)]
    world.delete_pod("train")
    world.settle()
    assert len(disruptions(world)) == 1


def test_a_pod_that_is_gone_before_the_next_turn_leaves_the_event_too() -> None:
    world = ready_world()
    run(world, "train")
    say(world, "train")
    world.core.receive(WatchMessage(resources.PODS, Upserted(world.pod("train"))))
    world.delete_pod("train")
    world.settle()
    assert disruptions(world) == [("train", "Disrupted", OF_DRAIN)]


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_pod_that_is_not_disrupted_says_nothing(status: str) -> None:
    world = ready_world()
    run(world, "train")
    say(world, "train", status=status)
    world.delete_pod("train")
    world.settle()
    assert disruptions(world) == []


def test_only_who_leads_tells_and_nothing_that_is_old() -> None:
    world = ready_world()
    run(world, "train")
    standby = Standby(store=world.store, clock=world.clock)
    standby.settle()
    say(world, "train")
    standby.settle()
    assert disruptions(standby) == []
    world.settle()
    assert len(disruptions(world)) == 1
    standby.pass_time(61)
    standby.core.receive(LeaderStarted())
    standby.settle()
    assert disruptions(standby) == []


def test_a_job_says_how_many_of_its_pods_were_disrupted_and_against_what_they_count() -> None:
    disruptions_, recorder = Disruptions(FakeClock()), RecordedEvents()
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "night", "uid": "u"}
    for name in ("night-a", "night-b"):
        metadata = {"ownerReferences": [{**job, "controller": True}]}
        pod = make_pod(name, namespace="ml", nodeName="n0", metadata=metadata)
        evicted = {**pod, "status": {"conditions": [EVICTED]}}
        disruptions_.note(msgspec.convert(pod, views.Pod), msgspec.convert(evicted, views.Pod))
    disruptions_.tell(recorder)
    told = [note for regarding, _, note in recorder.recorded if regarding == "night"]
    left = "A pod left node n0: it was evicted, as kubectl drain does; of this Job at least "
    counts = " left so: each counts as a failure against backoffLimit, unless podFailurePolicy"
    assert told == [
        f"{left}1 pod has{counts} ignores DisruptionTarget",
        f"{left}2 pods have{counts} ignores DisruptionTarget",
    ]
