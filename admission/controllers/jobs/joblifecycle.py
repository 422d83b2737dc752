"""The next step of one batch/v1 Job and its Workload, from what both look like now.

Level-based: whatever was missed in between, the step depends only on the present. Source: kueue
pkg/controller/jobframework/reconciler.go and pkg/controller/jobs/job/job_controller.go. Differs:
what an admission gave the pod template is taken back after the quota is free, so a template that
cannot be restored holds no quota (ADR 0040).
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from admission.api import batch, views
from admission.base import names
from admission.objects import conditions, facts
from admission.owners import batch_job


class Step(Enum):
    """What is to be done next; at most one thing at a time."""

    NOTHING = auto()
    CREATE_WORKLOAD = auto()
    ADOPT_WORKLOAD = auto()
    """Take the Workload that the Job names."""
    AWAIT_WORKLOAD = auto()
    """Nothing to do but to say that the Workload is not there that the Job names."""
    FOLLOW_JOB = auto()
    """The Workload does not ask for what the Job asks for: change it."""
    DELETE_WORKLOAD = auto()
    LET_WORKLOAD_GO = auto()
    """Take our finalizer off."""
    FINISH = auto()
    CLEAR_RESERVATION = auto()
    RECLAIM = auto()
    START = auto()
    STOP = auto()
    RESET = auto()
    """Forget when the Job started: only then its template may change."""
    RESTORE = auto()
    """Take out of the template what an admission put in."""


ENDS: Final = frozenset(
    {Step.CREATE_WORKLOAD, Step.DELETE_WORKLOAD, Step.LET_WORKLOAD_GO, Step.FINISH}
)
"""Steps that no decision and no upkeep may delay."""


@dataclass(frozen=True, slots=True)
class Next:
    """A step, and for FINISH and STOP the reason and message to tell."""

    step: Step
    reason: str = ""
    message: str = ""


NOTHING: Final = Next(Step.NOTHING)
_OWNER_GONE: Final = Next(Step.FINISH, "OwnerNotFound", "The workload's owner no longer exists")
_MISSING: Final = "Missing Workload; unable to restore pod templates"
_NO_MATCH: Final = "No matching Workload; restoring pod templates according to existent Workload"


def next_step(job: batch.Job | None, workload: views.Workload | None) -> Next:
    """The next step of a Job and the Workload that belongs to it; either may be missing."""
    if job is None:
        return _without_job(workload)
    if workload is None:
        return _without_workload(job)
    end = ending(job)
    if workload.status.is_true(conditions.FINISHED):
        return _let_go(workload)
    if workload.metadata.deletion_timestamp:
        return _let_go(workload) if end is not None else _of_leaving_workload(job, workload)
    return _of_live_workload(job, workload) if end is None else end


def ending(job: batch.Job) -> Next | None:
    """How a Workload finishes whose Job is over; None while it is not."""
    if job.metadata.deletion_timestamp:
        return _OWNER_GONE
    ended = batch_job.outcome(job)
    if ended is None:
        return None
    reason = "Succeeded" if ended.type == "Complete" else "Failed"
    return Next(Step.FINISH, reason, ended.message)


def _of_live_workload(job: batch.Job, workload: views.Workload) -> Next:
    if workload.status.is_true(conditions.EVICTED):
        return _of_evicted(job, workload)
    if batch_job.is_suspended(job):
        return _of_suspended(job, workload)
    return _of_running(job, workload)


def differs(job: batch.Job, workload: views.Workload) -> bool:
    """Whether a Workload asks for something else than its suspended Job, in what quota sees."""
    return batch_job.asks_otherwise(job, workload) or batch_job.waits_otherwise(job, workload)


def _without_job(workload: views.Workload | None) -> Next:
    if workload is None:
        return NOTHING
    if names.RESOURCE_IN_USE in (workload.metadata.finalizers or ()):
        return Next(Step.LET_WORKLOAD_GO)
    return NOTHING if workload.metadata.deletion_timestamp else Next(Step.DELETE_WORKLOAD)


def _without_workload(job: batch.Job) -> Next:
    if ending(job) is not None:
        return NOTHING
    if not batch_job.is_suspended(job):
        return Next(Step.STOP, "NoMatchingWorkload", _MISSING)
    if batch_job.is_active(job):
        return NOTHING
    return _restoring(job) or Next(Step.CREATE_WORKLOAD)


def _let_go(workload: views.Workload) -> Next:
    held = names.RESOURCE_IN_USE in (workload.metadata.finalizers or ())
    return Next(Step.LET_WORKLOAD_GO) if held else NOTHING


def _of_leaving_workload(job: batch.Job, workload: views.Workload) -> Next:
    """Somebody deletes the Workload: its Job stops first, and is restored while it can be."""
    if not batch_job.is_suspended(job):
        return Next(Step.STOP, "WorkloadDeleted", "Workload is deleted")
    if batch_job.is_active(job):
        return NOTHING
    return _restoring(job) or _let_go(workload)


def _of_evicted(job: batch.Job, workload: views.Workload) -> Next:
    if not batch_job.is_suspended(job):
        evicted = workload.status.condition(conditions.EVICTED)
        reason, message = (evicted.reason, evicted.message) if evicted else ("", "")
        return Next(Step.STOP, f"WorkloadEvictedDueTo{reason}", message)
    if batch_job.is_active(job):
        return NOTHING
    if workload.status.is_true(conditions.QUOTA_RESERVED):
        return Next(Step.CLEAR_RESERVATION)
    return _of_suspended(job, workload)


def _of_suspended(job: batch.Job, workload: views.Workload) -> Next:
    if batch_job.is_active(job):
        return NOTHING
    restoring = _restoring(job)
    if restoring is not None:
        return restoring
    if batch_job.asks_otherwise(job, workload) and not facts.is_pending(workload):
        return Next(Step.DELETE_WORKLOAD)
    if facts.is_pending(workload) and differs(job, workload):
        return Next(Step.FOLLOW_JOB)
    return of_matching(job, workload)


def of_matching(job: batch.Job, workload: views.Workload) -> Next:
    """The next step of a suspended Job whose Workload stands for it as it is.

    Fewer of its pods may be reclaimable than before, while it holds no quota.
    """
    if facts.is_pending(workload):
        is_said = batch_job.reclaimable(job, workload) == _said(workload)
        return NOTHING if is_said else Next(Step.RECLAIM)
    if not workload.status.is_true(conditions.ADMITTED):
        return NOTHING
    return Next(Step.RESET if job.status.start_time else Step.START)


def _of_running(job: batch.Job, workload: views.Workload) -> Next:
    if not workload.status.is_true(conditions.ADMITTED):
        return Next(Step.STOP, "NotAdmitted", "Not admitted by cluster queue")
    if batch_job.has_other_count(job, workload):
        return Next(Step.STOP, "NoMatchingWorkload", _NO_MATCH)
    more = batch_job.reclaimable(job, workload) > _said(workload)
    return Next(Step.RECLAIM) if more else NOTHING


def _said(workload: views.Workload) -> int:
    """Reclaimable pods as written."""
    return sum(one.count for one in workload.status.reclaimable_pods or ())


def _restoring(job: batch.Job) -> Next | None:
    """What an admission put into the template of a suspended Job is taken out again."""
    if not batch_job.is_injected(job):
        return None
    return Next(Step.RESET if job.status.start_time else Step.RESTORE)
