"""Events that say again what the conditions of a Workload say.

Source: kueue pkg/scheduler/scheduler.go and pkg/controller/core/workload_controller.go; reasons
and notes are Kueue's. Differs: what a Workload waits for is told when it is written down, not
after each attempt.
"""

from collections.abc import Iterator
from typing import Final

from admission.api import views
from admission.controllers.workloads import times
from admission.objects import conditions
from admission.owners.workload import gates_of

Told = tuple[str, str, str]
"""Type, reason and note of an event."""

_GATED: Final = "AdmissionGated"
_UNJUDGED: Final = "PendingEvaluation"


def of_reservation(workload: views.Workload) -> Iterator[Told]:
    """A Workload just got quota, and perhaps its admission with it."""
    admission = workload.status.admission
    if admission is None:
        return
    queue = admission.cluster_queue
    waited = times.seconds_queued(workload, conditions.QUOTA_RESERVED)
    note = f"Quota reserved in ClusterQueue {queue}, wait time since queued was {waited:.0f}s"
    yield "Normal", "QuotaReserved", note
    if workload.status.is_true(conditions.ADMITTED):
        note = f"Admitted by ClusterQueue {queue}, wait time since reservation was 0s"
        yield "Normal", "Admitted", note


def of_wait(workload: views.Workload) -> Iterator[Told]:
    """The reason was just written for which a Workload has no quota."""
    found = workload.status.condition(conditions.QUOTA_RESERVED)
    if found is None or found.status == "True" or found.reason == _UNJUDGED:
        return
    if found.reason == _GATED:
        gates = gates_of(workload)
        yield "Normal", _GATED, f"Workload admission is gated by: {gates}"
    else:
        yield "Warning", found.reason, found.message
