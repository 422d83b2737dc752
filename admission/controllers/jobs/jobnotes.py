"""What events about batch/v1 Jobs say of their Workloads.

Source: kueue pkg/controller/jobframework/reconciler.go; notes are Kueue's.
"""

from collections.abc import Iterable

from admission.api import batch, views
from admission.base import names
from admission.controllers.jobs import joblifecycle, jobworkload
from admission.controllers.workloads import checks, conditions, facts, owners
from admission.controllers.workloads.checks import State


def followed(job: batch.Job, workload: views.Workload) -> Iterable[str]:
    """What a Workload without quota takes over from its Job; call before it does.

    A change of the queue, or of the limit on the running time, is told by nothing.
    """
    if joblifecycle.has_other_pods(job, workload):
        yield (f"Updated not matching Workload for suspended job: {facts.key(workload).text()}")
    if joblifecycle.names_other_class(job, workload):
        yield owners.class_changed(workload)
    if owners.has_other_gates(job, workload):
        yield owners.gates_changed(job)


def deleted(workload: views.Workload) -> str:
    """The Workload held quota for something else than its Job asks for, or was a second one."""
    return f"Deleted not matching Workload: {facts.key(workload).text()}"


def missing_class(job: batch.Job, name: str) -> str:
    """The Job, or its pod template, names a class that does not exist."""
    is_label = job.metadata.label(names.PRIORITY_CLASS_LABEL) == name
    kind = "WorkloadPriorityClass" if is_label else "PriorityClass"
    return f'{kind} "{name}" not found'


def open_checks(job: batch.Job, workload: views.Workload) -> str:
    """What the checks say that a suspended Job with quota waits for; empty for nothing."""
    status = workload.status
    waits = status.is_true(conditions.QUOTA_RESERVED) and not any(
        status.is_true(kind)
        for kind in (conditions.ADMITTED, conditions.EVICTED, conditions.FINISHED)
    )
    if not waits or not jobworkload.is_suspended(job):
        return ""
    return "; ".join(
        f"{check.name}: {check.message}"
        for check in checks.in_state(workload, State.PENDING)
        if check.message
    )
