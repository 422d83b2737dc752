"""What events say on batch/v1 Jobs of their Workloads.

Source: kueue pkg/controller/jobframework/reconciler.go; reasons and notes are Kueue's.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from admission.api import batch, views
from admission.base import names
from admission.base.names import WorkloadKey
from admission.controllers.workloads import checks
from admission.controllers.workloads.checks import State
from admission.controllers.writing import writes
from admission.controllers.writing.events import Events
from admission.controllers.writing.writes import Purpose, Write
from admission.kube import resources
from admission.objects import conditions, facts
from admission.owners import batch_job, prebuilt
from admission.owners.workload import class_changed, gates_changed, has_other_gates

_DONE: Final[Mapping[Purpose, str]] = {
    Purpose.CREATE_WORKLOAD: "CreatedWorkload",
    Purpose.FOLLOW_JOB: "UpdatedWorkload",
    Purpose.DELETE_WORKLOAD: "DeletedWorkload",
    Purpose.START_JOB: "Started",
    Purpose.STOP_JOB: "Stopped",
    Purpose.FINISH_WORKLOAD: "FinishedWorkload",
}
"""Reason of the event about a write that took effect; others are not told."""
_NO_CLASS: Final = "WorkloadPriorityClassNotFound"
_CHECKS: Final = "UpdatedAdmissionCheck"


class JobEvents:
    """Tells of what was done once, and of what lasts each time that it reads otherwise."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._said: dict[tuple[WorkloadKey, str], str] = {}

    def done(self, job: batch.Job, write: Write) -> None:
        """A write about a Job or its Workload took effect."""
        for note in write.notes:
            self._tell(job, "Normal", _DONE[write.purpose], note)

    def lacks_class(self, key: WorkloadKey, job: batch.Job, name: str) -> None:
        """The Job, or its pod template, names a class that does not exist."""
        is_label = job.metadata.label(names.PRIORITY_CLASS_LABEL) == name
        kind = "WorkloadPriorityClass" if is_label else "PriorityClass"
        self._tell_change(key, job, "Warning", _NO_CLASS, f'{kind} "{name}" not found')

    def lacks_workload(self, key: WorkloadKey, job: batch.Job, note: str) -> None:
        """The Workload that a Job names is not there; an empty note when it is."""
        self._tell_change(key, job, "Warning", prebuilt.NOT_FOUND, note)

    def checked(self, key: WorkloadKey, job: batch.Job, workload: views.Workload) -> None:
        """Tells what its checks wait for, where they wait for something."""
        self._tell_change(key, job, "Normal", _CHECKS, _open_checks(job, workload))

    def forget(self, key: WorkloadKey) -> None:
        """The Job of a key is gone."""
        for reason in (_NO_CLASS, _CHECKS, prebuilt.NOT_FOUND):
            self._said.pop((key, reason), None)

    def _tell_change(
        self, key: WorkloadKey, job: batch.Job, type_: str, reason: str, note: str
    ) -> None:
        said = self._said.pop((key, reason), "")
        if not note:
            return
        self._said[key, reason] = note
        if note != said:
            self._tell(job, type_, reason, note)

    def _tell(self, job: batch.Job, type_: str, reason: str, note: str) -> None:
        regarding = writes.reference(resources.JOBS, job.metadata)
        self._events.event(regarding, type_, reason, note)


def created(key: WorkloadKey) -> str:
    """A Workload was made for a Job."""
    return f"Created Workload: {key.text()}"


def followed(job: batch.Job, workload: views.Workload) -> Iterator[str]:
    """What a Workload without quota takes over from its Job; call before it does.

    A change of the queue, or of the limit on the running time, is told by nothing.
    """
    if batch_job.has_other_pods(job, workload):
        yield f"Updated not matching Workload for suspended job: {facts.key(workload).text()}"
    if batch_job.names_other_class(job, workload):
        yield class_changed(workload)
    if has_other_gates(job, workload):
        yield gates_changed(job)


def deleted(workload: views.Workload) -> str:
    """The Workload held quota for something else than its Job asks for, or was a second one."""
    return f"Deleted not matching Workload: {facts.key(workload).text()}"


def started(workload: views.Workload) -> Iterator[str]:
    """A Job was started by its Workload's admission."""
    if workload.status.admission is not None:
        yield f"Admitted by clusterQueue {workload.status.admission.cluster_queue}"


def finished(key: WorkloadKey) -> str:
    """The Workload of a Job has ended."""
    return f"Workload '{key.text()}' is declared finished"


def _open_checks(job: batch.Job, workload: views.Workload) -> str:
    """What the checks say that a suspended Job with quota waits for; empty for nothing."""
    status = workload.status
    waits = status.is_true(conditions.QUOTA_RESERVED) and not any(
        status.is_true(kind)
        for kind in (conditions.ADMITTED, conditions.EVICTED, conditions.FINISHED)
    )
    if not waits or not batch_job.is_suspended(job):
        return ""
    return "; ".join(
        f"{check.name}: {check.message}"
        for check in checks.in_state(workload, State.PENDING)
        if check.message
    )
