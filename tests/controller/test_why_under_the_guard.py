"""What ``why`` says is free where quota is held to the GPUs that exist."""

import random
from dataclasses import replace
from typing import Any

import pytest

from admission.answers import cluster, holders, quota_use, waiting, why
from admission.answers.cluster import Wanted
from admission.base import names, patches
from admission.base.names import ClusterQueueName, FlavorResource
from admission.cli import top
from admission.kube import resources
from admission.scheduling import quota
from tests.builders.queues import make_cluster_queue, make_cohort, make_group, make_local_queue
from tests.controller.test_capacity import (
    add,
    allocatable,
    bind,
    cordon,
    guarded,
    guarded_world,
    make_world,
    node,
    set_node,
)
from tests.controller.world import World

GPU = names.GPU_RESOURCE
A100 = FlavorResource(names.FlavorName("a100"), names.ResourceName(GPU))


def of(made: World, subject: str) -> why.Answer:
    """The answer, once all that waits was told why."""
    made.pass_time(3)
    return why.explain(made.store, "ml", subject)


def read(made: World) -> cluster.Read:
    return cluster.relate(cluster.read(made.store, Wanted(namespace="ml")))


def world_with_sick_gpus(quota: int) -> World:
    """A guarded queue over a node of 16 GPUs of which 4 are healthy: its size takes any pod."""
    made = guarded_world(quota=quota, gpu=16)
    allocatable(made, "n0", 4)
    return made


def test_free_is_what_can_be_admitted_and_not_what_is_promised() -> None:
    made = world_with_sick_gpus(quota=12)
    add(made, "first", gpus=2)
    add(made, "late", gpus=8)
    answer = of(made, "late")
    (numbers,) = answer.numbers
    assert (numbers.asks, numbers.free, numbers.reach, numbers.nominal) == (8, 2, 4, 12)
    assert "2 free of 4; 8 more promised, but sick or missing" in answer.message
    document = why.document(answer)
    assert document["quota"][0]["free"] == "2"


def test_a_workload_without_a_told_condition_is_told_the_same_reason() -> None:
    made = world_with_sick_gpus(quota=12)
    add(made, "late", gpus=8)
    of_pod = of(made, "late")
    of_workload = of(made, f"workload/{of_pod.workload}")
    assert of_workload.reason == of_pod.reason == "CapacityMissing"
    assert [numbers.free for numbers in of_workload.numbers] == [4]
    (place,) = waiting.everywhere(read(made))
    assert (place.reason, place.never) == ("CapacityMissing", False)


def test_what_is_promised_to_other_queues_first_is_not_called_missing() -> None:
    made = guarded_world(quota=8, gpu=8)
    made.store.create(resources.CLUSTER_QUEUES, make_cluster_queue("big", quota=8))
    made.settle()
    add(made, "a")
    of_pod = of(made, "a")
    of_workload = of(made, f"workload/{of_pod.workload}")
    assert of_workload.reason == of_pod.reason == "CapacityPromised"
    assert "8 more promised, but they are promised to other queues first" in of_workload.message


def test_nobody_is_told_never_to_start_where_lenders_get_their_quota_back() -> None:
    made = make_world(
        node("n0", gpu=4),
        guarded(make_cluster_queue("infra", quota=4, cohortName="all")),
        make_cluster_queue("gpus", quota=0, cohortName="all"),
        make_local_queue(), placement="Tell",
    )  # fmt: skip
    cordon(made, "n0")
    add(made, "late", gpus=1)
    answer = of(made, "late")
    assert answer.message == (
        "Too big: asks 1 a100, gpus can reach 0; gpus has no quota of a100 of its own, and can "
        "borrow none now."
    )
    assert "never starts" not in answer.advice
    cordon(made, "n0", is_open=True)
    assert made.admitted() == {"late"}


def test_quota_of_a_cohort_that_is_held_to_what_exists_is_not_known() -> None:
    cohort = make_cohort("all", resourceGroups=[make_group({"a100": {GPU: 4}})])
    made = make_world(
        node("n0", gpu=16), cohort, guarded(make_cluster_queue(quota=4, cohortName="all")),
        make_local_queue(),
    )  # fmt: skip
    allocatable(made, "n0", 4)
    add(made, "late", gpus=9)
    (numbers,) = of(made, "late").numbers
    assert (numbers.free, numbers.reach) == (None, None)


def test_what_runs_on_a_node_with_sick_gpus_is_told_so() -> None:
    made = guarded_world(quota=8, gpu=8)
    add(made, "first", gpus=2)
    bind(made, "first", "n0")
    assert not any("sick" in note for note in of(made, "first").notes)
    unwell = [{"type": "GPUMissing", "status": "True"}, {"type": "Ready", "status": "True"}]
    set_node(made, "n0", conditions=unwell)
    (note,) = (note for note in of(made, "first").notes if "sick" in note)
    assert note.startswith(
        "8 nvidia.com/gpu of n0, where it runs, are sick (condition GPUMissing=True"
    )
    assert note.endswith("have the node repaired: kubectl describe node n0")


def test_top_says_how_much_of_the_nominal_quota_counts() -> None:
    made = world_with_sick_gpus(quota=12)
    add(made, "first", gpus=2)
    made.pass_time(3)
    use = quota_use.of(read(made))
    ((line,),) = (queue.lines for queue in use.queues)
    assert (line.nominal, line.in_force) == (12, 4)
    assert quota_use.document(use)["clusterQueues"][0]["quota"][0]["inForce"] == "4"
    note = "note: only 4 of the nominal quota of 12 a100 of gpus counts now: the capacity guard"
    assert note in " ".join(top._lines(use, 500, every=False))
    allocatable(made, "n0", 16)
    made.pass_time(3)
    assert "counts now" not in " ".join(top._lines(quota_use.of(read(made)), 500, every=False))


def test_what_runs_on_a_node_that_is_only_cordoned_is_not_told_that_its_gpus_are_sick() -> None:
    made = guarded_world(quota=8, gpu=8)
    add(made, "first", gpus=2)
    bind(made, "first", "n0")
    made.store.patch(resources.NODES, "n0", patches.merge({"spec": {"unschedulable": True}}))
    made.settle()
    assert not any("sick" in note for note in of(made, "first").notes)


@pytest.mark.parametrize("cohort", ["", "all"])
def test_top_says_that_use_may_be_taken_back_only_where_somebody_may(cohort: str) -> None:
    spec: dict[str, Any] = {"cohortName": cohort} if cohort else {}
    made = make_world(
        node("n0", gpu=16), guarded(make_cluster_queue(quota=12, **spec)), make_local_queue(),
        placement="Tell",
    )  # fmt: skip
    add(made, "first", gpus=8)
    allocatable(made, "n0", 4)
    made.pass_time(3)
    told = " ".join(top._lines(quota_use.of(read(made)), 500, every=False))
    assert "note: only 4 of the nominal quota of 12 a100 of gpus counts now" in told
    assert ("; 4 in use beyond it may be taken back" in told) == bool(cohort)


def test_top_says_of_surge_quota_never_that_it_may_be_taken_back() -> None:
    line = quota_use.Line(flavor="a100", resource=GPU, nominal=8, used=6, in_force=4, surge=2)
    assert "taken back" not in _cut_note_of(line)
    assert "; 2 in use beyond it may be taken back" in _cut_note_of(replace(line, surge=0))


def _cut_note_of(line: quota_use.Line) -> str:
    queue = quota_use.QueueUse(
        name="gpus", cohort="all", active=True, message="", lines=(line,),
        pending=quota_use.Waiting(), reserving=1, admitted=1,
    )  # fmt: skip
    return top._cut_note(queue, line)


def test_who_says_that_what_is_beyond_the_quota_that_counts_may_be_taken() -> None:
    reclaiming: dict[str, Any] = {"preemption": {"reclaimWithinCohort": "Any"}}
    made = make_world(
        node("n0", gpu=8), node("n1", gpu=8),
        guarded(make_cluster_queue("gpus", quota=8, cohortName="all", **reclaiming)),
        make_cluster_queue("lender", quota=8, cohortName="all", **reclaiming),
        make_local_queue(), placement="Tell",
    )  # fmt: skip
    add(made, "first", gpus=8)
    allocatable(made, "n1", 4)
    made.pass_time(3)
    (holder,) = holders.in_queue(holders.of(read(made)), "gpus")
    assert [held.borrowed for held in holder.held] == [2]
    assert any("lender" in phrase for phrase in holder.taken_back_by or ())


@pytest.mark.parametrize("seed", range(6))
def test_free_is_what_the_controller_counts_whatever_happens_to_gpus(seed: int) -> None:
    chance = random.Random(seed)
    made = make_world(
        node("n0", gpu=4), node("n1", gpu=4),
        guarded(make_cluster_queue("gpus", quota=6, cohortName="all")),
        make_cluster_queue("lender", quota=8, cohortName="all"),
        make_cluster_queue("alone", quota=2),
        make_local_queue(), make_local_queue("team-b", "lender"),
        make_local_queue("team-c", "alone"),
    )  # fmt: skip
    for step in range(8):
        match chance.choice(["pod", "pod", "sick", "cordon"]):
            case "pod":
                queue = chance.choice(["team-a", "team-b", "team-c"])
                add(made, f"p{step}", gpus=chance.randint(1, 4), queue=queue)
            case "sick":
                allocatable(made, chance.choice(["n0", "n1"]), chance.randint(1, 4))
            case _:
                change = patches.merge({"spec": {"unschedulable": chance.random() < 0.5}})
                made.store.patch(resources.NODES, chance.choice(["n0", "n1"]), change)
                made.settle()
        made.pass_time(3)
        admitting = read(made).admitting
        for name in map(ClusterQueueName, ("gpus", "lender", "alone")):
            ours = admitting.queues[name]
            theirs = made.state.forest.queues[name]
            assert quota.available(ours, A100) == quota.available(theirs, A100), (step, name)
