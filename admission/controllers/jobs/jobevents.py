"""Which events batch/v1 Jobs get about their Workloads, and when.

Source: kueue pkg/controller/jobframework/reconciler.go.
"""

from collections.abc import Iterator
from typing import Final

from admission.api import batch, views
from admission.base import conditions, events, names
from admission.base.conditions import Text
from admission.base.events import Event, Events
from admission.base.names import WorkloadKey
from admission.controllers.workloads import checks
from admission.controllers.workloads.checks import State
from admission.controllers.writing import writes
from admission.controllers.writing.writes import Write
from admission.kube import resources
from admission.objects import facts
from admission.owners import batch_job
from admission.owners.workload import class_changed, gates_changed, has_other_gates

_LASTING: Final = (
    conditions.PRIORITY_CLASS_NOT_FOUND,
    conditions.PREBUILT_NOT_FOUND,
    events.ADMISSION_CHECKS,
)
"""Reasons of events that are told each time that they read otherwise."""


class JobEvents:
    """Tells of what was done once, and of what lasts each time that it reads otherwise."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._said: dict[tuple[WorkloadKey, str], Event] = {}

    def done(self, job: batch.Job, write: Write) -> None:
        """A write about a Job or its Workload took effect."""
        for event in write.events:
            self._tell(job, event)

    def lacks_class(self, key: WorkloadKey, job: batch.Job, name: str) -> None:
        """The Job, or its pod template, names a class that does not exist."""
        is_label = job.metadata.label(names.PRIORITY_CLASS_LABEL) == name
        kind = "WorkloadPriorityClass" if is_label else "PriorityClass"
        text = conditions.priority_class_not_found(kind, name)
        self._tell_change(key, job, text.reason, events.warning(*text))

    def lacks_workload(self, key: WorkloadKey, job: batch.Job, why: Text | None) -> None:
        """The Workload that a Job names is not there; None when it is."""
        event = None if why is None else events.warning(*why)
        self._tell_change(key, job, conditions.PREBUILT_NOT_FOUND, event)

    def checked(self, key: WorkloadKey, job: batch.Job, workload: views.Workload) -> None:
        """Tells what its checks wait for, where they wait for something."""
        text = _open_checks(job, workload)
        event = events.admission_checks(text) if text else None
        self._tell_change(key, job, events.ADMISSION_CHECKS, event)

    def forget(self, key: WorkloadKey) -> None:
        """The Job of a key is gone."""
        for reason in _LASTING:
            self._said.pop((key, reason), None)

    def _tell_change(
        self, key: WorkloadKey, job: batch.Job, reason: str, event: Event | None
    ) -> None:
        said = self._said.pop((key, reason), None)
        if event is None:
            return
        self._said[key, reason] = event
        if event != said:
            self._tell(job, event)

    def _tell(self, job: batch.Job, event: Event) -> None:
        self._events.event(writes.reference(resources.JOBS, job.metadata), event)


def followed(job: batch.Job, workload: views.Workload) -> Iterator[Event]:
    """What a Workload without quota takes over from its Job; call before it does.

    A change of the queue, or of the limit on the running time, is told by nothing.
    """
    if batch_job.has_other_pods(job, workload):
        yield events.updated_pod_sets(facts.key(workload).text())
    if batch_job.names_other_class(job, workload):
        yield class_changed(workload)
    if has_other_gates(job, workload):
        yield gates_changed(job)


def started(workload: views.Workload) -> Iterator[Event]:
    """A Job was started by its Workload's admission."""
    if workload.status.admission is not None:
        yield events.started(workload.status.admission.cluster_queue)


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
