"""Who holds the nodes of admitted work by borrowing: what `why` says, and what then helps."""

import shlex
from typing import Any

import pytest

from admission.answers import why
from admission.base import patches
from admission.kube import resources
from admission.reasons.next_steps import Code
from tests.answers.rights import OfTeam
from tests.builders.jobs import queued_job
from tests.builders.queues import make_cluster_queue, make_local_queue
from tests.controller.test_capacity import bind, make_world, node
from tests.controller.test_members import make
from tests.controller.world import World

NO_NODE = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
RECLAIMS = {"reclaimWithinCohort": "Any"}
WAITS = (
    "Admitted, but 0 of 1 pods are scheduled: a pod asks 1 a100, and no node has as many free; "
    f"{NO_NODE}"
)
BORROWS = "ml/pod/theirs runs on n1 with 1 a100 that queue borrowers has borrowed"
KNOWN_LIMIT = "nothing is preempted for what is admitted already"


def drained(*, reclaim: str = "Any", placement: str = "", own: int = 1) -> World:
    """A Job runs on its own quota, beside a borrower; then its node is drained."""
    preemption = {"reclaimWithinCohort": reclaim}
    made = make_world(
        node("n0", gpu=1),
        node("n1", gpu=1),
        *(
            make_cluster_queue(name, quota=quota, cohortName="all", preemption=preemption)
            for name, quota in (("gpus", own), ("idle", 2 - own), ("borrowers", 0))
        ),
        make_local_queue(),
        make_local_queue("team-b", "borrowers"),
        placement=placement,
    )
    made.add(job())
    made.settle()
    make(made, "train", 0, node="n0")
    made.add_pod("theirs", gpus=1, queue="team-b")
    made.settle()
    bind(made, "theirs", "n1")
    made.set_phase("theirs", "Running")
    made.store.delete(resources.PODS, "train-0", "ml")
    unschedulable = patches.merge({"spec": {"unschedulable": True}})
    made.store.patch(resources.NODES, "n0", unschedulable)
    made.settle()
    make(made, "train", 0, why=NO_NODE)
    made.pass_time(40)
    return made


def job() -> dict[str, Any]:
    return queued_job("train", pods=1, gpus=1)


@pytest.mark.parametrize("what", ["job.batch/train", "pod/train-0"])
def test_admitted_work_without_a_node_names_who_holds_it_by_borrowing(what: str) -> None:
    answer = why.explain(drained().store, "ml", what)

    assert (answer.reason, answer.message) == (Code.PODS_NOT_RUNNING, WAITS)
    assert BORROWS in answer.notes
    assert KNOWN_LIMIT in answer.advice
    assert answer.advice.endswith(": kubectl delete job.batch/train -n ml")


def test_the_command_that_is_printed_lets_the_queue_take_its_quota_back() -> None:
    made = drained()
    _, _, command = why.explain(made.store, "ml", "job.batch/train").advice.rpartition(": ")
    _, verb, target, _, namespace = shlex.split(command)
    assert (verb, target) == ("delete", "job.batch/train")

    made.store.delete(resources.JOBS, target.partition("/")[2], namespace)
    made.store.delete(resources.PODS, "train-0", namespace)
    made.settle()
    made.add(job())
    made.pass_time(5)

    assert set(made.workloads()) == {"train"}, "the borrower was preempted, and deleted as a pod"
    train = made.workloads()["train"]
    assert train.status.is_true("Admitted")
    assert made.store.get(resources.JOBS, "train", "ml")["spec"]["suspend"] is False


@pytest.mark.parametrize(
    "world",
    [
        {"reclaim": "Never"},
        {"placement": "Off"},
        {"own": 0},
    ],
    ids=["its queue takes nothing back", "nodes decide nothing", "it borrows itself"],
)
def test_where_its_quota_takes_nothing_back_nobody_is_told_to_delete(world: Any) -> None:
    answer = why.explain(drained(**world).store, "ml", "job.batch/train")

    assert answer.reason == Code.PODS_NOT_RUNNING
    assert "kubectl delete" not in answer.advice
    assert BORROWS not in answer.notes


def test_who_may_not_list_queues_is_told_that_borrowers_are_not_shown() -> None:
    answer = why.explain(OfTeam(drained().store, "ml"), "ml", "job.batch/train")

    assert answer.message == WAITS
    assert any("ClusterQueues are not shown" in note for note in answer.missing)
