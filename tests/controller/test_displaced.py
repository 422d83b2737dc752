"""What happens to borrowers, and what people read, where admitted work loses its node."""

from typing import Any

import pytest

from admission.answers import why
from admission.base import patches
from admission.kube import resources
from admission.reasons.next_steps import Code
from tests.builders.jobs import queued_job
from tests.builders.queues import make_cluster_queue, make_local_queue
from tests.controller.test_capacity import bind, make_world, node
from tests.controller.test_members import make
from tests.controller.world import World

NO_NODE = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
WAITS = (
    "Admitted, but 0 of 1 pods are scheduled: a pod asks 1 a100, and no node has as many free; "
    f"{NO_NODE}"
)


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
    made.add(queued_job("train", pods=1, gpus=1))
    made.settle()
    make(made, "train", 0, node="n0")
    made.add_pod("theirs", gpus=1, queue="team-b")
    made.settle()
    bind(made, "theirs", "n1")
    made.set_phase("theirs", "Running")
    lose_node(made)
    return made


def lose_node(made: World) -> None:
    """The node of the Job's pod is drained, and its new pod finds no other."""
    made.store.delete(resources.PODS, "train-0", "ml")
    unschedulable = patches.merge({"spec": {"unschedulable": True}})
    made.store.patch(resources.NODES, "n0", unschedulable)
    made.settle()
    make(made, "train", 0, why=NO_NODE)
    made.pass_time(40)


def test_a_drained_job_takes_its_quota_back_from_who_borrowed_it() -> None:
    made = drained()

    assert set(made.workloads()) == {"train"}, "the borrower was stopped, and deleted as a pod"
    assert made.workloads()["train"].status.is_true("Admitted")
    assert made.store.get(resources.JOBS, "train", "ml")["spec"]["suspend"] is False


@pytest.mark.parametrize(
    "case",
    [
        {"reclaim": "Never"},
        {"placement": "Off"},
        {"own": 0},
    ],
    ids=["its queue takes nothing back", "nodes decide nothing", "it borrows itself"],
)
def test_who_runs_goes_on_where_its_quota_takes_nothing_back(case: Any) -> None:
    made = drained(**case)

    assert set(made.workloads()) == {"train", "theirs"}
    answer = why.explain(made.store, "ml", "job.batch/train")
    assert (answer.reason, answer.message) == (Code.PODS_NOT_RUNNING, WAITS)
