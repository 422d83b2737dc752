"""The next step of a batch/v1 Job that names its Workload.

No Workload is made for it, and the one it names is neither deleted nor made to ask for something
else: one that does not stand for the Job ends. Source: kueue
pkg/controller/jobframework/reconciler.go. Differs: a Workload that has ended before its Job is as
good as none, for whatever reason it has ended.
"""

from admission.api import batch, views
from admission.controllers.jobs import joblifecycle
from admission.controllers.jobs.joblifecycle import NOTHING, Next, Step
from admission.objects import conditions
from admission.owners import batch_job, prebuilt
from admission.owners.workload import differs


def before_adoption(job: batch.Job, found: views.Workload | None) -> Next:
    """The next step of a Job that has not adopted its Workload.

    Args:
        job: the Job.
        found: what is there under the name that it gives.
    """
    if joblifecycle.ending(job) is not None:
        return NOTHING
    if found is not None and prebuilt.is_adopted(found, job):
        return NOTHING
    if found is not None and prebuilt.may_adopt(found, job):
        return Next(Step.ADOPT_WORKLOAD)
    return _without(job)


def instead(job: batch.Job, workload: views.Workload) -> Next:
    """The next step of a Job that got a Workload from us before it named another."""
    if workload.metadata.deletion_timestamp:
        return joblifecycle.next_step(job, workload)
    return Next(Step.DELETE_WORKLOAD)


def next_step(job: batch.Job, workload: views.Workload) -> Next:
    """The next step of a Job and the Workload that it has adopted."""
    step, is_over = joblifecycle.next_step(job, workload), joblifecycle.ending(job) is not None
    if workload.status.is_true(conditions.FINISHED):
        return step if is_over or step.step is not Step.NOTHING else _with_ended(job)
    if is_over or workload.metadata.deletion_timestamp:
        return step
    if not batch_job.JobOwner(job).stands_for(workload):
        return Next(Step.FINISH, prebuilt.OUT_OF_SYNC, prebuilt.OUT_OF_SYNC_NOTE)
    follows = step.step is Step.FOLLOW_JOB and differs(job, workload)
    if follows or step.step not in {Step.FOLLOW_JOB, Step.DELETE_WORKLOAD}:
        return step
    return joblifecycle.of_matching(job, workload)


def _with_ended(job: batch.Job) -> Next:
    """Why the Workload has ended is told on it, and was on the Job."""
    step = _without(job)
    return NOTHING if step.step is Step.AWAIT_WORKLOAD else step


def _without(job: batch.Job) -> Next:
    step = joblifecycle.next_step(job, None)
    match step.step:
        case Step.CREATE_WORKLOAD:
            return Next(Step.AWAIT_WORKLOAD)
        case Step.STOP:
            return Next(Step.STOP, step.reason, prebuilt.MISSING)
        case _:
            return step
