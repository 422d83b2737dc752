"""A Workload that cannot be read keeps what it holds, and stops nobody else."""

import copy
from typing import Any

import msgspec
import pytest
from typing_extensions import override

from admission.base import patches
from admission.base.names import ClusterQueueName, WorkloadKey
from admission.controller import core
from admission.controller.quarantine import Unreadable
from admission.controller.writing.api_requests import WritePurpose
from admission.kube import decoding, resources
from admission.kube.api import EventType
from admission.kube.reflector import Replaced
from admission.kube.resources import Resource
from admission.objects.workload import Workload
from tests.controller.world import World, ready_world

UNREADABLE = {"podSets": [{"name": "main", "count": 1, "template": {"spec": []}}]}
"""No schema allows it, so the whole object does not fit its type."""
RULE_BREAKING = {
    "podSets": [
        {
            "name": "main",
            "count": 1,
            "template": {
                "spec": {
                    "containers": [{"resources": {"requests": {"nvidia.com/gpu": "many"}}}],
                    "tolerations": [
                        {
                            "key": f"node.kubernetes.io/{key}",
                            "operator": "Exists",
                            "effect": "NoExecute",
                            "tolerationSeconds": 300,
                        }
                        for key in ("not-ready", "unreachable")
                    ],
                }
            },
        }
    ]
}
"""Fits its type, and breaks a rule of what it says."""


class Damaged(World):
    """A controller to which some Workloads come otherwise than they were stored.

    Attributes:
        damages: changes of the top of a document, by the Workload's name.
    """

    damages: dict[str, dict[str, Any]]

    @override
    def listed(self, resource: Resource, into: type[Any]) -> Replaced[Any]:
        if resource is not resources.WORKLOADS:
            return super().listed(resource, into)
        raws = [self.raw(document) for document in self.store.list(resource).items]
        return Replaced(*decoding.many(raws, Workload))

    def raw(self, document: dict[str, Any]) -> bytes:
        damage = self.damages.get(document["metadata"]["name"], {})
        return msgspec.json.encode({**document, **damage})

    def used(self) -> int:
        """GPUs of the queue that somebody holds."""
        return sum(self.state.cluster_queue_status(ClusterQueueName("gpus")).reservation.values())

    def notes(self, name: str) -> list[str]:
        """Events about an object of that name."""
        return [reason for about, reason, _ in self.events.recorded if about == name]


def restarted(world: World, pod: str, **damage: Any) -> Damaged:
    """Another controller on the same store, to which the Workload of a pod comes damaged."""
    after = Damaged(world.store, world.clock)
    after.damages = {name_of(world, pod): damage}
    return after


def name_of(world: World, pod: str) -> str:
    return world.workloads()[pod].metadata.name


def holding() -> World:
    """A world where the pod ``first`` holds three of four GPUs."""
    world = ready_world(quota=4)
    world.add_pod("first", gpus=3)
    world.settle()
    assert world.admitted() == {"first"}
    return world


@pytest.mark.parametrize(
    "spec", [UNREADABLE, RULE_BREAKING], ids=["cannot be decoded", "breaks a rule"]
)
def test_what_a_workload_holds_that_cannot_be_read_at_the_start_stays_held(
    spec: dict[str, Any],
) -> None:
    world = restarted(holding(), "first", spec={"queueName": "team-a", **spec})
    world.add_pod("second", gpus=2)
    world.add_pod("third", gpus=1)
    world.pass_time(3)

    assert world.used() == 4
    assert world.admitted() == {"first", "third"}
    condition = world.condition("second")
    assert condition is not None
    assert condition.reason == "WaitingForQuota"


def test_nothing_is_written_about_a_workload_that_cannot_be_decoded_nor_about_its_pod() -> None:
    world = restarted(holding(), "first", spec=UNREADABLE)
    world.set_phase("first", "Succeeded")
    world.pass_time(3)

    assert [write for write in world.sent if isinstance(write.key, WorkloadKey)] == []
    assert world.used() == 3


def test_an_event_names_what_cannot_be_decoded_once() -> None:
    world = restarted(holding(), "first", spec=UNREADABLE)
    name = name_of(world, "first")
    world.pass_time(3)

    assert world.notes(name) == ["Unreadable"]
    note = next(note for about, _, note in world.events.recorded if about == name)
    assert "$.spec.podSets[0].template.spec" in note
    assert "It keeps its quota" in note


def test_a_workload_that_can_be_read_again_goes_on_as_if_nothing_had_been() -> None:
    world = restarted(holding(), "first", spec=UNREADABLE)
    world.settle()
    world.damages = {}
    world.set_phase("first", "Succeeded")
    world.settle()

    assert world.used() == 0
    assert world.store.get(resources.WORKLOADS, name_of(world, "first"), "ml")["status"]


def test_quota_of_a_workload_that_is_deleted_before_it_could_be_read_is_its_pods() -> None:
    world = restarted(holding(), "first", spec=UNREADABLE)
    world.settle()
    assert world.used() == 3
    world.store.delete(resources.WORKLOADS, name_of(world, "first"), "ml")
    world.settle()
    assert world.used() == 3

    world.store.delete(resources.PODS, "first", "ml")
    world.settle()
    assert world.used() == 0


def test_a_workload_that_does_not_even_say_what_it_holds_is_reported_and_stops_nobody() -> None:
    world = restarted(holding(), "first", spec=UNREADABLE, status={"admission": 7})
    name = name_of(world, "first")
    world.add_pod("second", gpus=1)
    world.settle()

    assert world.admitted() == {"first", "second"}
    assert world.notes(name) == ["Unreadable"]


def test_of_one_that_holds_what_no_quantity_says_the_pod_is_charged() -> None:
    before = holding()
    status = before.store.get(resources.WORKLOADS, name_of(before, "first"), "ml")["status"]
    status["admission"]["podSetAssignments"][0]["resourceUsage"] = {"nvidia.com/gpu": "many"}
    world = restarted(before, "first", status=status)
    world.add_pod("second", gpus=1)
    world.settle()

    assert world.admitted() == {"first", "second"}
    assert world.used() == 3 + 1


def test_a_waiting_workload_that_breaks_a_rule_says_which_on_itself() -> None:
    before = ready_world(quota=4)
    before.add_pod("big", gpus=8)
    before.settle()
    spec = copy.deepcopy(
        before.store.get(resources.WORKLOADS, name_of(before, "big"), "ml")["spec"]
    )
    (container,) = spec["podSets"][0]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"nvidia.com/gpu": "many"}}
    world = restarted(before, "big", spec=spec)
    world.pass_time(3)
    first = next(write for write in world.sent if write.operation is WritePurpose.EXPLAIN_WORKLOAD)
    assert first.document is not None
    conditions = first.document["status"]["conditions"]
    (told,) = [one for one in conditions if one["type"] == "QuotaReserved"]

    assert told["reason"] == "Misconfigured"
    assert told["message"].startswith("'many': spec.podSets[0].template.spec.containers[0]")


def test_what_was_read_once_stays_as_it_was_when_a_later_version_cannot_be() -> None:
    world = Damaged(holding().store)
    world.damages = {}
    world.settle()
    name = name_of(world, "first")
    world.store.patch(
        resources.WORKLOADS, name, patches.merge({"metadata": {"labels": {"a": "b"}}}), "ml"
    )
    world.damages = {name: {"spec": UNREADABLE}}
    raw = world.raw(world.store.get(resources.WORKLOADS, name, "ml"))
    event = decoding.event(EventType.MODIFIED, raw, Workload)
    assert event.undecodable is not None
    world.core.receive(Unreadable(event.undecodable))
    world.settle()
    assert world.used() == 3
    assert world.notes(name) == []

    world.damages = {}
    world.set_phase("first", "Succeeded")
    world.settle()
    assert world.used() == 0


@pytest.mark.parametrize("damaged", ["old", "new"])
def test_what_cannot_be_told_to_leave_is_nobodys_victim_and_another_one_is(damaged: str) -> None:
    before = ready_world(quota=4)
    preemption = {"preemption": {"withinClusterQueue": "LowerPriority"}}
    change = patches.merge({"spec": preemption})
    before.store.patch(resources.CLUSTER_QUEUES, "gpus", change)
    for name in ("old", "new"):
        before.add_pod(name, gpus=2)
        before.settle()
        before.clock.advance(5)
    world = restarted(before, damaged, spec={"queueName": "team-a", **UNREADABLE})
    world.add_pod("urgent", gpus=2, spec={"priority": 9})
    world.pass_time(3)

    assert world.admitted() == {damaged, "urgent"}
    assert world.used() == 4


def test_a_new_leader_knows_what_a_quarantined_workload_holds() -> None:
    world = restarted(holding(), "first", spec=UNREADABLE)
    world.settle()
    world.core.receive(core.LeaderStarted())
    world.settle()

    assert world.used() == 3
