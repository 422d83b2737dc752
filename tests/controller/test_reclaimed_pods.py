"""Quota that an owner gave back early, and what follows when its pods run again (ADR 0116)."""

from typing import Any

import pytest

from admission.base import conditions, names, patches
from admission.kube import resources
from admission.objects.workload import Workload
from tests.builders.pods import make_pod
from tests.controller.test_preemption_notice import ShownOwner
from tests.controller.test_stopping import evict
from tests.controller.world import World, ready_world

QUOTA = 4
SUSPENDED = {"type": "Suspended", "status": "True", "lastTransitionTime": "2026-02-01T00:00:00Z"}
MESSAGE = "Pods of it that had succeeded were made anew, and the ClusterQueue has no room for them"


class JobSet(ShownOwner):
    """A JobSet of a driver without GPUs and two replicas of two pods with a GPU each."""

    def __init__(self, world: World, most_restarts: int) -> None:
        super().__init__(world)
        self.document["spec"]["failurePolicy"] = {"maxRestarts": most_restarts}
        self.show()
        world.settle()
        assert self.runs()
        assert self.used() == QUOTA

    def say(self, *, restarts: int = 0, **workers: int) -> None:
        """Say how many replicas of the workers are in which state, while the driver goes on."""
        zero = {"active": 0, "ready": 0, "succeeded": 0, "failed": 0, "suspended": 0}
        self.document["status"] = {
            "conditions": [],
            "restarts": restarts,
            "replicatedJobsStatus": [
                {"name": "driver", **zero, "active": 1, "ready": 1},
                {"name": "Workers", **zero, **workers},
            ],
        }
        self.show()
        self.world.settle()

    def stop(self, succeeded: int = 0) -> None:
        """Say that no pod of it runs, as it is suspended."""
        workers = {"name": "Workers", "succeeded": succeeded}
        self.document["status"] = {"conditions": [SUSPENDED], "replicatedJobsStatus": [workers]}
        self.show()
        self.world.settle()

    def used(self) -> int:
        """Return the GPUs of its ClusterQueue that are in use."""
        status = self.world.state.cluster_queue_status(names.ClusterQueueName("gpus"))
        return sum(status.usage.values())

    def workload(self) -> Workload:
        return self.world.workloads()["train"]

    def given_back(self) -> dict[str, int]:
        return {one.name: one.count for one in self.workload().status.reclaimable_pods or ()}


def test_replicas_of_a_jobset_that_may_restart_keep_their_quota() -> None:
    world = ready_world(quota=QUOTA)
    owner = JobSet(world, most_restarts=1000)
    owner.say(succeeded=2)
    world.add_pod("other", gpus=QUOTA)
    world.settle()
    assert world.is_gated("other")
    owner.say(restarts=1, active=2, ready=2)
    assert owner.runs()
    assert (owner.used(), owner.given_back()) == (QUOTA, {})


def test_replicas_of_a_jobset_that_never_restarts_give_their_quota_back() -> None:
    world = ready_world(quota=QUOTA)
    owner = JobSet(world, most_restarts=0)
    owner.say(succeeded=1, active=1, ready=1)
    assert (owner.used(), owner.given_back()) == (2, {"workers": 2})
    owner.say(succeeded=2)
    world.add_pod("other", gpus=QUOTA)
    world.settle()
    assert not world.is_gated("other")
    assert owner.runs()


def test_pods_that_run_again_are_charged_again_if_there_is_room() -> None:
    world = ready_world(quota=QUOTA)
    owner = JobSet(world, most_restarts=0)
    owner.say(succeeded=2)
    assert owner.used() == 0
    owner.say(active=1, ready=1, succeeded=1)  # somebody has deleted the Job of a replica
    assert (owner.used(), owner.given_back()) == (2, {"workers": 2})
    owner.say(active=2, ready=2)
    assert (owner.used(), owner.given_back()) == (QUOTA, {})
    assert owner.runs()
    world.add_pod("other", gpus=1)
    world.settle()
    assert world.is_gated("other")


def test_pods_that_run_already_count_once_when_their_workload_is_charged_again() -> None:
    world = ready_world(quota=QUOTA)
    owner = JobSet(world, most_restarts=0)
    owner.say(succeeded=2)
    for number in range(QUOTA):
        add_running(world, owner, f"worker-{number}")
    world.settle()
    assert owner.used() == QUOTA  # each is charged on its own
    owner.say(active=2, ready=2)
    assert owner.runs()
    assert (owner.used(), owner.given_back()) == (QUOTA, {})


def test_pods_beyond_what_is_charged_again_are_charged_on_their_own_still() -> None:
    """Pods of the run before end slowly."""
    world = ready_world(quota=QUOTA + 2)
    world.store.create(resources.NODES, {"metadata": {"name": "n"}})
    world.settle()
    owner = JobSet(world, most_restarts=0)
    owner.say(succeeded=1, active=1, ready=1)
    for name in ("old-0", "old-1"):
        add_running(world, owner, name, nodeName="n")
        held = patches.merge({"metadata": {"finalizers": ["example.com/slow"]}})
        world.store.patch(resources.PODS, name, held, "ml")
    world.settle()
    for name in ("old-0", "old-1"):
        world.delete_pod(name)
    for number in range(QUOTA):
        add_running(world, owner, f"new-{number}", nodeName="n")
    world.settle()
    assert owner.used() == QUOTA + 2
    owner.say(active=2, ready=2)
    assert owner.runs()
    assert (owner.used(), owner.given_back()) == (QUOTA + 2, {})


def test_pods_that_run_again_without_room_are_charged_until_they_are_gone() -> None:
    world = ready_world(quota=QUOTA)
    owner = JobSet(world, most_restarts=0)
    owner.say(succeeded=2)
    world.add_pod("other", gpus=QUOTA)
    world.settle()
    for number in range(QUOTA):
        add_running(world, owner, f"worker-{number}")
    owner.say(active=2, ready=2)
    assert not owner.runs()
    assert owner.used() == 2 * QUOTA
    world.delete_pod("other")
    world.add_pod("next", gpus=QUOTA)
    world.settle()
    assert world.is_gated("next")
    assert owner.used() == QUOTA


@pytest.mark.parametrize("are_seen", [False, True])
def test_an_owner_whose_pods_run_again_without_room_is_evicted_and_tried_again(
    are_seen: bool,
) -> None:
    world = ready_world(quota=QUOTA)
    owner = JobSet(world, most_restarts=0)
    owner.say(succeeded=2)
    world.add_pod("other", gpus=QUOTA)
    world.settle()
    assert not world.is_gated("other")
    pods = [f"worker-{number}" for number in range(QUOTA)] if are_seen else []
    for name in pods:
        add_running(world, owner, name)
    owner.say(active=2, ready=2)
    assert not owner.runs()
    evicted = owner.workload().status.condition(conditions.EVICTED)
    assert evicted is not None
    assert (evicted.status, evicted.reason) == ("True", "PodsRunAgain")
    assert evicted.message.startswith(MESSAGE)
    for name in pods:
        world.delete_pod(name)
    owner.stop()
    assert (owner.given_back(), owner.used()) == ({}, QUOTA)
    world.delete_pod("other")
    world.settle()
    world.pass_time(60)
    assert owner.runs()
    assert owner.used() == QUOTA


def test_what_has_ended_and_may_run_again_is_not_charged_before_it_does() -> None:
    """A Workload of Kueue, or of an earlier version, has given quota back that it may need."""
    world = ready_world(quota=QUOTA)
    owner = JobSet(world, most_restarts=0)
    owner.say(succeeded=2)
    owner.document["spec"]["failurePolicy"] = {"maxRestarts": 1}
    owner.say(succeeded=2)
    assert (owner.used(), owner.given_back()) == (0, {"workers": 4})
    owner.say(restarts=1, active=2, ready=2)
    assert (owner.used(), owner.given_back()) == (QUOTA, {})


def test_an_owner_that_got_quota_without_pods_that_run_again_is_evicted_to_get_it_for_all() -> (
    None
):
    """One replica had succeeded when its Workload was admitted, for the other one."""
    world = ready_world(quota=QUOTA)
    owner = JobSet(world, most_restarts=0)
    owner.say(succeeded=1, active=1, ready=1)
    evict(world, "train")
    owner.stop(succeeded=1)
    assert owner.runs()
    assert (owner.used(), owner.given_back()) == (2, {"workers": 2})
    owner.say(active=2, ready=2)
    assert not owner.runs()
    owner.stop()
    world.pass_time(60)
    assert owner.runs()
    assert (owner.used(), owner.given_back()) == (QUOTA, {})


def add_running(world: World, owner: JobSet, name: str, **spec: Any) -> None:
    """Add a pod that the JobSet's controllers have made from its template."""
    template = owner.document["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]
    metadata = {member: template["metadata"][member] for member in ("labels", "annotations")}
    uid = owner.document["metadata"]["uid"]
    maker = {"apiVersion": "batch/v1", "kind": "Job", "name": "train-workers-0", "uid": uid}
    metadata["ownerReferences"] = [{**maker, "controller": True}]
    pod = make_pod(name, namespace="ml", gpus=1, metadata=metadata)
    pod["spec"] |= spec
    world.store.create(resources.PODS, pod, "ml")
    world.set_phase(name, "Running")
