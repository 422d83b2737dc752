"""How long Workloads may run: by their spec, by their queues, and less what they ran before."""

from datetime import datetime, timedelta

from admission.base import clock, conditions
from admission.objects import run_times, views
from admission.objects.workload import Workload


def run_limit(
    workload: Workload, cluster_queue: views.Object | None, local_queue: views.Object | None
) -> run_times.Limit | None:
    """Return how long a Workload may run, by its spec or by its queues; None for ever."""
    return run_times.limit(
        workload.spec.maximum_execution_time_seconds,
        None if cluster_queue is None else cluster_queue.metadata,
        None if local_queue is None else local_queue.metadata,
    )


def left(workload: Workload, limit: run_times.Limit | None) -> timedelta | None:
    """Return how long a Workload may run from its present or next admission on.

    Return None without a limit.
    """
    if limit is None:
        return None
    past = workload.status.accumulated_past_execution_time_seconds or 0
    return timedelta(microseconds=limit.microseconds, seconds=-past)


def execution_end(workload: Workload, limit: run_times.Limit | None) -> datetime | None:
    """Return when the maximum execution time ends.

    Return None without a limit or while it does not run.
    """
    time_left = left(workload, limit)
    admitted = workload.status.condition(conditions.ADMITTED)
    if time_left is None or admitted is None or admitted.status != "True":
        return None
    began = admitted.last_transition_time
    return clock.from_wire(began) + time_left if began else None
