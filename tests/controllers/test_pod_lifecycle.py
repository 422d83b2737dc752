"""The next step of a pod and its Workload follows from what both look like now."""

import msgspec
import pytest

from admission.base import names
from admission.controllers.pods import podlifecycle
from admission.controllers.pods.podlifecycle import Step
from admission.owners import pod as pod_owner
from tests.builders import condition, make_admission, make_pod, make_workload

GATED = make_pod()
RUNNING = make_pod(gated=False, phase="Running")
PENDING = make_workload(GATED)
ADMITTED = make_workload(
    GATED, condition("QuotaReserved", "True"), condition("Admitted", "True"),
    admission=make_admission(),
)  # fmt: skip
RESERVED = make_workload(
    GATED, condition("QuotaReserved", "True"), condition("Admitted", "False"),
    admission=make_admission(),
)  # fmt: skip
EVICTED = make_workload(
    GATED, condition("QuotaReserved", "True"), condition("Admitted", "True"),
    condition("Evicted", "True", "Preempted"), admission=make_admission(),
)  # fmt: skip
CLEARED = make_workload(
    GATED, condition("QuotaReserved", "False"), condition("Evicted", "True", "Preempted")
)
FINISHED = make_workload(GATED, condition("Finished", "True"))

CASES = {
    "nothing is done about nothing": (None, None, Step.NOTHING),
    "a gated pod gets a Workload": (GATED, None, Step.CREATE_WORKLOAD),
    "a running pod without a Workload is stopped": (RUNNING, None, Step.STOP_POD),
    "a deleted pod needs no Workload": (make_pod(deleting=True), None, Step.NOTHING),
    "an ended pod needs no Workload": (make_pod(gated=False, phase="Failed"), None, Step.NOTHING),
    "a Workload without its pod is deleted": (None, PENDING, Step.DELETE_WORKLOAD),
    "a Workload that is being deleted is left alone": (
        None, make_workload(GATED, deleting=True), Step.NOTHING,
    ),
    "a released pod whose Workload is being deleted is stopped": (
        RUNNING, make_workload(GATED, deleting=True), Step.STOP_POD,
    ),
    "a gated pod whose Workload is being deleted stays": (
        GATED, make_workload(GATED, deleting=True), Step.NOTHING,
    ),
    "an evicted pod that is going away gives its quota back before its Workload ends": (
        make_pod(gated=False, phase="Running", deleting=True), EVICTED, Step.CLEAR_RESERVATION,
    ),
    "an evicted pod that is gone gives its quota back before its Workload is deleted": (
        None, EVICTED, Step.CLEAR_RESERVATION,
    ),
    "an evicted pod that gave its quota back ends as one without owner": (
        make_pod(gated=False, phase="Running", deleting=True), CLEARED, Step.FINISH,
    ),
    "a pending pod waits": (GATED, PENDING, Step.WAIT),
    "a reserved pod whose checks are open stays gated": (GATED, RESERVED, Step.NOTHING),
    "an admitted pod is released": (GATED, ADMITTED, Step.RELEASE),
    "a released pod runs on": (RUNNING, ADMITTED, Step.NOTHING),
    "a pod that runs without quota is stopped": (RUNNING, PENDING, Step.STOP_POD),
    "a pod that ended finishes its Workload": (
        make_pod(gated=False, phase="Succeeded"), ADMITTED, Step.FINISH,
    ),
    "a pod that is going away finishes its Workload": (
        make_pod(gated=False, phase="Running", deleting=True), ADMITTED, Step.FINISH,
    ),
    "a finished Workload is left alone": (RUNNING, FINISHED, Step.NOTHING),
    "an evicted running pod is stopped": (RUNNING, EVICTED, Step.STOP_POD),
    "an evicted gated pod keeps its gate and gives its quota back": (
        GATED, EVICTED, Step.CLEAR_RESERVATION,
    ),
    "an evicted gated pod without quota waits again": (GATED, CLEARED, Step.WAIT),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_next_step(case: str) -> None:
    pod, workload, expected = CASES[case]

    assert podlifecycle.next_step(pod, workload).step is expected


STOPS = {
    "evicted": (RUNNING, EVICTED, "WorkloadEvictedDueToPreempted", "m"),
    "not admitted": (RUNNING, PENDING, "NotAdmitted", "Not admitted by cluster queue"),
    "never admitted": (
        RUNNING, None, "NoMatchingWorkload", "Missing Workload; unable to restore pod templates",
    ),
    "its Workload is gone": (
        make_pod(
            gated=False, phase="Running",
            annotations={names.WORKLOAD_ANNOTATION: pod_owner.KIND.key_of(RUNNING).name},
        ),
        None, "WorkloadDeleted", "Workload is deleted",
    ),
    "its Workload goes": (
        RUNNING, make_workload(GATED, deleting=True), "WorkloadDeleted", "Workload is deleted",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", STOPS, ids=list(STOPS))
def test_a_stop_carries_the_reason_that_kueue_gives(case: str) -> None:
    pod, workload, reason, message = STOPS[case]
    step = podlifecycle.next_step(pod, workload)

    assert (step.step, step.reason, step.message) == (Step.STOP_POD, reason, message)


@pytest.mark.parametrize(("phase", "reason"), [("Succeeded", "Succeeded"), ("Failed", "Failed")])
def test_finish_carries_the_pods_outcome(phase: str, reason: str) -> None:
    step = podlifecycle.next_step(make_pod(gated=False, phase=phase), ADMITTED)

    assert (step.step, step.reason) == (Step.FINISH, reason)


def test_a_workload_made_by_hand_is_never_deleted_for_want_of_a_pod() -> None:
    document = msgspec.to_builtins(PENDING)
    del document["metadata"]["ownerReferences"]
    by_hand = msgspec.convert(document, type(PENDING))

    assert podlifecycle.next_step(None, by_hand) is podlifecycle.NOTHING
