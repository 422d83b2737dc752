"""Events with the texts of a Workload's conditions.

Source: kueue pkg/scheduler/scheduler.go and pkg/controller/core/workload_controller.go. What a
Workload waits for besides gates is told by `waiting_events`.
"""

from collections.abc import Iterator

from admission.base import conditions, events
from admission.base.conditions import WaitReason
from admission.base.events import Event
from admission.controller.workloads import times
from admission.objects.workload import Workload
from admission.owners.workload import gates_of


def of_reservation(workload: Workload) -> Iterator[Event]:
    """Yield events of a Workload that just got quota, and perhaps its admission with it."""
    admission = workload.status.admission
    if admission is None:
        return
    queue = admission.cluster_queue
    waited = times.seconds_queued(workload, conditions.QUOTA_RESERVED)
    yield events.quota_reserved(queue, waited)
    if workload.status.is_true(conditions.ADMITTED):
        yield events.admitted(queue, 0)


def of_gates(workload: Workload) -> Iterator[Event]:
    """Yield events of the reason just written why a Workload has no quota, such as its gates."""
    reserved = workload.status.condition(conditions.QUOTA_RESERVED)
    is_waiting = reserved is not None and reserved.status != "True"
    if reserved is not None and is_waiting and reserved.reason == WaitReason.ADMISSION_GATED:
        yield events.gated(gates_of(workload))
