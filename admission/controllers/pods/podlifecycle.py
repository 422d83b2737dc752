"""The next step of one pod and its Workload, from what both look like now.

Level-based: whatever was missed in between, the step depends only on the present. Source:
kueue pkg/controller/jobframework/reconciler.go, for single pods. Differs: no finalizers, and a
Workload whose pod is gone is deleted rather than left to the garbage collector (ADR 0002).
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from admission.api import views
from admission.base import names
from admission.objects import conditions, facts
from admission.owners import pod as pod_owner
from admission.owners.workload import differs


class Step(Enum):
    """What is to be done next; at most one thing at a time."""

    NOTHING = auto()
    CREATE_WORKLOAD = auto()
    DELETE_WORKLOAD = auto()
    FINISH = auto()
    FOLLOW_POD = auto()
    """The Workload does not say what its pod says now: change it."""
    RELEASE = auto()
    STOP_POD = auto()
    CLEAR_RESERVATION = auto()
    WAIT = auto()
    """Nothing to do but to tell the user why the pod waits."""


@dataclass(frozen=True, slots=True)
class Next:
    """A step, and for FINISH and STOP_POD the reason and message to write."""

    step: Step
    reason: str = ""
    message: str = ""


NOTHING: Final = Next(Step.NOTHING)
_OWNER_GONE: Final = Next(Step.FINISH, "OwnerNotFound", "The workload's owner no longer exists")
_CLEAR: Final = Next(Step.CLEAR_RESERVATION)
_DELETED: Final = Next(Step.STOP_POD, "WorkloadDeleted", "Workload is deleted")
_MISSING: Final = Next(
    Step.STOP_POD, "NoMatchingWorkload", "Missing Workload; unable to restore pod templates"
)


def next_step(pod: views.Pod | None, workload: views.Workload | None) -> Next:
    """The next step of a pod and the Workload that belongs to it; either may be missing."""
    if pod is None:
        return _without_pod(workload)
    if workload is None:
        return _without_workload(pod)
    if workload.status.is_true(conditions.FINISHED):
        return NOTHING
    if workload.metadata.deletion_timestamp:
        return _of_leaving_workload(pod)
    if pod.metadata.deletion_timestamp or pod_owner.is_terminal(pod):
        return _of_ended_pod(pod, workload)
    return _of_live_pod(pod, workload)


def _of_ended_pod(pod: views.Pod, workload: views.Workload) -> Next:
    if pod.metadata.deletion_timestamp:
        return _CLEAR if owes_reservation(workload) else _OWNER_GONE
    reason = "Succeeded" if pod.status.phase == "Succeeded" else "Failed"
    return Next(Step.FINISH, reason, pod.status.message)


def owes_reservation(workload: views.Workload) -> bool:
    """Return whether the Workload was evicted and still says that it holds quota."""
    status = workload.status
    return status.is_true(conditions.EVICTED) and status.is_true(conditions.QUOTA_RESERVED)


def _without_pod(workload: views.Workload | None) -> Next:
    if (
        workload is None
        or not pod_owner.KIND.owns(workload)
        or workload.metadata.deletion_timestamp
    ):
        return NOTHING
    return _CLEAR if owes_reservation(workload) else Next(Step.DELETE_WORKLOAD)


def _without_workload(pod: views.Pod) -> Next:
    if pod.metadata.deletion_timestamp or pod_owner.is_terminal(pod):
        return NOTHING
    if pod_owner.is_gated(pod):
        return Next(Step.CREATE_WORKLOAD)
    was_admitted = pod.metadata.annotation(names.WORKLOAD_ANNOTATION)
    return _DELETED if was_admitted == pod_owner.KIND.key_of(pod).name else _MISSING


def _of_leaving_workload(pod: views.Pod) -> Next:
    """Somebody deletes the Workload, and a finalizer holds it: a released pod goes first.

    Differs: a gated pod stays, and gets another Workload.
    """
    is_over = pod.metadata.deletion_timestamp or pod_owner.is_terminal(pod)
    return NOTHING if is_over or pod_owner.is_gated(pod) else _DELETED


def _of_live_pod(pod: views.Pod, workload: views.Workload) -> Next:
    status = workload.status
    gated = pod_owner.is_gated(pod)
    evicted = status.condition(conditions.EVICTED)
    if evicted is not None and evicted.status == "True":
        if not gated:
            return Next(Step.STOP_POD, f"WorkloadEvictedDueTo{evicted.reason}", evicted.message)
        if status.is_true(conditions.QUOTA_RESERVED):
            return _CLEAR
        return _follow_or(Step.WAIT, pod, workload)
    if status.is_true(conditions.ADMITTED):
        return Next(Step.RELEASE) if gated else _follow_or(Step.NOTHING, pod, workload)
    if not gated:
        return Next(Step.STOP_POD, "NotAdmitted", "Not admitted by cluster queue")
    return _follow_or(Step.WAIT if facts.is_pending(workload) else Step.NOTHING, pod, workload)


def _follow_or(step: Step, pod: views.Pod, workload: views.Workload) -> Next:
    return Next(Step.FOLLOW_POD if differs(pod, workload) else step)
