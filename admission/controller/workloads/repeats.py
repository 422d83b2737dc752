"""Events that say again what the conditions of a Workload say.

Source: kueue pkg/scheduler/scheduler.go and pkg/controller/core/workload_controller.go. Differs:
what a Workload waits for is told when it is written down, not after each attempt.
"""

from collections.abc import Iterator

from admission.base import conditions, events
from admission.base.conditions import WaitReason
from admission.base.events import Event
from admission.controller.workloads import times
from admission.objects.workload import Workload
from admission.owners.workload import gates_of


def of_reservation(workload: Workload) -> Iterator[Event]:
    """A Workload just got quota, and perhaps its admission with it."""
    admission = workload.status.admission
    if admission is None:
        return
    queue = admission.cluster_queue
    waited = times.seconds_queued(workload, conditions.QUOTA_RESERVED)
    yield events.quota_reserved(queue, waited)
    if workload.status.is_true(conditions.ADMITTED):
        yield events.admitted(queue, 0)


def of_wait(workload: Workload) -> Iterator[Event]:
    """The reason was just written for which a Workload has no quota."""
    found = workload.status.condition(conditions.QUOTA_RESERVED)
    if found is None or found.status == "True" or found.reason == WaitReason.PENDING_EVALUATION:
        return
    if found.reason == WaitReason.ADMISSION_GATED:
        yield events.gated(gates_of(workload))
    else:
        yield events.warning(found.reason, found.message)
