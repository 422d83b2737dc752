"""Times and durations from the conditions of a Workload, to the second."""

from datetime import datetime

from admission.base import clock, conditions
from admission.objects.workload import Workload


def moment(workload: Workload, kind: str, *, status: str = "True") -> datetime | None:
    """Return since when a condition has the status; None where it has another one."""
    condition = workload.status.condition(kind)
    if condition is None or condition.status != status or not condition.last_transition_time:
        return None
    return clock.from_wire(condition.last_transition_time)


def seconds_between(workload: Workload, start: str, end: str) -> float:
    """Return the seconds between two conditions; 0 where the first one is missing."""
    began, ended = moment(workload, start), moment(workload, end)
    if began is None or ended is None:
        return 0.0
    return max(0.0, (ended - began).total_seconds())


def seconds_queued(workload: Workload, kind: str) -> float:
    """Return the seconds from creation, or from the last requeueing, to a condition."""
    requeued, ended = moment(workload, conditions.REQUEUED), moment(workload, kind)
    created = workload.metadata.creation_timestamp
    began = requeued or (clock.from_wire(created) if created else None)
    if began is None or ended is None:
        return 0.0
    return max(0.0, (ended - began).total_seconds())


def seconds_true(workload: Workload, kind: str, now: datetime) -> float:
    """Return for how long a condition has been True; 0 where it is not."""
    began = moment(workload, kind)
    return 0.0 if began is None else max(0.0, (now - began).total_seconds())
