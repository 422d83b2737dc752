"""The end of Workloads that have ended: when they, or their owners, are deleted.

Source: kueue pkg/controller/core/workload_controller.go and
pkg/controller/jobframework/reconciler.go.
"""

from datetime import datetime, timedelta
from typing import Final

from admission.base import clock, conditions, events, names
from admission.config.kueue_configuration import WorkloadRetention
from admission.controller.workloads import rules, statuses
from admission.controller.workloads.rules import WorkloadChange, WorkloadContext
from admission.controller.writing.api_requests import WritePurpose
from admission.objects import views
from admission.objects.workload import Workload
from admission.reasons import kueue

_OWNERS: Final = frozenset({("v1", "Pod"), ("batch/v1", "Job")})
"""Kinds whose objects we delete; others have controllers of their own."""
_ORPHANS_KEPT: Final = timedelta(hours=1)
"""After its end, for how long a Workload is kept whose owner has left it."""


def end(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """Return the change that is due on a Workload that is finished or being deleted, if any."""
    is_orphan = not workload.metadata.owner_references
    if workload.metadata.deletion_timestamp:
        return _release(workload) if is_orphan else None
    if _is_left(workload):
        released = _release(workload)
        if released is not None:
            return released
    moment = _finished_end(workload, around.settings.object_retention_policies.workloads)
    if moment is None or moment > around.now:
        return None
    return _release(workload) or WorkloadChange(
        operation=WritePurpose.DELETE_WORKLOAD, event=events.deleted_finished()
    )


def finish_orphan(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """Return the end of a Workload that was made for a Job, but has no owner."""
    if not _is_left(workload):
        return None
    status = statuses.finish(workload, *kueue.OWNER_NOT_FOUND, around.now)
    return WorkloadChange(operation=WritePurpose.FINISH_WORKLOAD, status=status)


def delete_owner(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """Return the deletion, after a while, of the owner of a Workload that we deactivated."""
    moment = _owner_end(workload, around.settings.object_retention_policies.workloads)
    if moment is None or moment > around.now:
        return None
    return WorkloadChange(operation=WritePurpose.DELETE_OWNER, event=events.deleted_owner())


def due(workload: Workload, settings: WorkloadRetention) -> datetime | None:
    """Return when the Workload or its owner is to be deleted; None for never."""
    return _finished_end(workload, settings) or _owner_end(workload, settings)


def _finished_end(workload: Workload, settings: WorkloadRetention) -> datetime | None:
    finished = workload.status.condition(conditions.FINISHED)
    if finished is None or finished.status != "True":
        return None
    kept = settings.after_finished
    if finished.reason == kueue.OWNER_NOT_FOUND.reason and _is_left(workload):
        kept = _ORPHANS_KEPT if kept is None else min(kept, _ORPHANS_KEPT)
    return _after(finished, kept)


def _is_left(workload: Workload) -> bool:
    """Return whether a Workload was made for an owner and has none (``--cascade=orphan``)."""
    metadata = workload.metadata
    return not metadata.owner_references and bool(metadata.label(names.JOB_UID_LABEL))


def _owner_end(workload: Workload, settings: WorkloadRetention) -> datetime | None:
    evicted = workload.status.condition(conditions.EVICTED)
    is_over = workload.status.is_true(conditions.FINISHED)
    if evicted is None or evicted.status != "True" or is_over or rules.is_active(workload):
        return None
    owner = workload.metadata.controller()
    if owner is None or (owner.api_version, owner.kind) not in _OWNERS:
        return None
    if not evicted.reason.startswith(conditions.DEACTIVATED_BY_PROGRAM):
        return None
    return _after(evicted, settings.after_deactivated_by_kueue)


def _after(condition: views.Condition, time: timedelta | None) -> datetime | None:
    if time is None or not condition.last_transition_time:
        return None
    return clock.from_wire(condition.last_transition_time) + time


def _release(workload: Workload) -> WorkloadChange | None:
    """Takes our finalizer off, where it is."""
    finalizers = workload.metadata.finalizers or ()
    if names.RESOURCE_IN_USE not in finalizers:
        return None
    left = tuple(finalizer for finalizer in finalizers if finalizer != names.RESOURCE_IN_USE)
    return WorkloadChange(operation=WritePurpose.LET_WORKLOAD_GO, finalizers=left)
