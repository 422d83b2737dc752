"""What a Workload needs besides quota: rules, the first that applies is carried out.

Each rule looks at the Workload and its queues as they are now and says what is to be written, if
anything; the next look finds the next rule. Source: kueue
pkg/controller/core/workload_controller.go, in its order; reasons and messages are Kueue's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from admission.api import views
from admission.base import clock, names
from admission.controllers import checks, conditions, evictions
from admission.controllers.checks import State
from admission.controllers.writes import Purpose

_DRAIN: Final = "HoldAndDrain"
_AFTER_BACKOFF: Final = frozenset({"AdmissionCheck", "PodsReadyTimeout"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What decides about a Workload besides itself.

    Attributes:
        local_queue: the queue it names; None where there is none.
        cluster_queue: where it holds quota, else where its LocalQueue points; None likewise.
        priority_classes: values of the WorkloadPriorityClasses by name.
        now: the present.
    """

    local_queue: views.LocalQueue | None
    cluster_queue: views.ClusterQueue | None
    priority_classes: Mapping[str, int]
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be written.

    Attributes:
        purpose: why.
        status: members of the status; None to change the spec.
        spec: members of the spec.
        event: type, reason and note of an event on the Workload.
    """

    purpose: Purpose = Purpose.KEEP_UP
    status: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None
    event: tuple[str, str, str] | None = None


Rule = Callable[[views.Workload, Surroundings], Change | None]


def next_change(workload: views.Workload, around: Surroundings) -> Change | None:
    """The first change that a rule asks for."""
    if workload.metadata.deletion_timestamp or workload.status.is_true(conditions.FINISHED):
        return None
    for rule in _RULES:
        change = rule(workload, around)
        if change is not None:
            return change
    return None


def next_due(workload: views.Workload, now: datetime) -> datetime | None:
    """When a rule will apply by the mere passing of time; None for never."""
    moments = [_backoff_end(workload), _execution_end(workload, now)]
    return min((moment for moment in moments if moment is not None), default=None)


# --------------------------------------------------------------------------------------- rules


def _follow_priority_class(workload: views.Workload, around: Surroundings) -> Change | None:
    """The value of a WorkloadPriorityClass reaches the Workloads that name it."""
    reference = workload.spec.priority_class_ref
    if reference is None or reference.group != names.KUEUE_GROUP:
        return None
    value = around.priority_classes.get(reference.name)
    if value is None or value == workload.spec.priority:
        return None
    return Change(spec={"priority": value})


def _deactivate(workload: views.Workload, _: Surroundings) -> Change | None:
    """A deactivation target becomes ``spec.active: false``."""
    target = workload.status.is_true(conditions.DEACTIVATION_TARGET)
    return Change(spec={"active": False}) if target and _is_active(workload) else None


def _evict_inactive(workload: views.Workload, around: Surroundings) -> Change | None:
    """An inactive Workload is evicted, whether it holds quota or not."""
    if _is_active(workload) or _is_evicted(workload):
        return None
    reason, message = evictions.DEACTIVATED, "The workload is deactivated"
    target = workload.status.condition(conditions.DEACTIVATION_TARGET)
    if target is not None and target.status == "True":
        reason, message = f"{reason}DueTo{target.reason}", f"{message} due to {target.message}"
    extra = []
    if not _is_reserved(workload):
        extra = [
            evictions.requeue(
                workload, again=False, reason=reason, message=message, now=around.now
            )
        ]
    status = evictions.evict(
        workload, reason, message, around.now, *extra, without=conditions.DEACTIVATION_TARGET
    )
    return _eviction(workload, status | {"requeueState": None}, reason, message)


def _reactivate(workload: views.Workload, around: Surroundings) -> Change | None:
    """An active Workload that was deactivated may be tried again.

    Differs: also after ``DeactivatedDueTo<cause>``, where Kueue leaves it parked for ever.
    """
    held = _held_back(workload)
    if held is None or not _is_active(workload):
        return None
    if not held.reason.startswith(evictions.DEACTIVATED):
        return None
    return _requeue(workload, "Reactivated", "The workload was reactivated", around.now)


def _end_backoff(workload: views.Workload, around: Surroundings) -> Change | None:
    """After the backoff of an eviction the Workload may be tried again."""
    held = _held_back(workload)
    if held is None or held.reason not in _AFTER_BACKOFF or not _is_active(workload):
        return None
    end = _backoff_end(workload)
    if end is not None and end > around.now:
        return None
    change = _requeue(workload, "BackoffFinished", "The workload backoff was finished", around.now)
    status = change.status or {}
    return Change(status=status | {"requeueState": {"requeueAt": None}})


def _restart(workload: views.Workload, around: Surroundings) -> Change | None:
    """What a stopped queue had evicted may be tried again once the queue is restarted."""
    held = _held_back(workload)
    if held is None or not _is_active(workload):
        return None
    for kind, queue in (
        ("LocalQueue", around.local_queue),
        ("ClusterQueue", around.cluster_queue),
    ):
        running = queue is not None and queue.spec.stop_policy == "None"
        if held.reason == f"{kind}Stopped" and running:
            message = f"The {kind} was restarted after being stopped"
            return _requeue(workload, f"{kind}Restarted", message, around.now)
    return None


def _sync_checks(workload: views.Workload, around: Surroundings) -> Change | None:
    """The Workload lists exactly the checks that its ClusterQueue asks for."""
    if around.cluster_queue is None or not _is_active(workload):
        return None
    needed = checks.required(around.cluster_queue, workload)
    states = checks.synced(workload, needed, around.now)
    return None if states is None else Change(status={"admissionChecks": states})


def _admit(workload: views.Workload, around: Surroundings) -> Change | None:
    """With all checks ready, a Workload that holds quota is admitted."""
    if not _is_settled(workload) or around.cluster_queue is None:
        return None
    if workload.status.is_true(conditions.ADMITTED):
        return None
    if not checks.all_ready(workload, checks.required(around.cluster_queue, workload)):
        return None
    admitted = conditions.make(
        conditions.ADMITTED,
        status=True,
        reason="Admitted",
        message=checks.ADMITTED_MESSAGE,
        now=around.now,
        generation=workload.metadata.generation,
    )
    note = f"Admitted by ClusterQueue {around.cluster_queue.metadata.name}"
    return Change(
        status={"conditions": conditions.merged(workload, admitted)},
        event=("Normal", "Admitted", note),
    )


def _obey_rejection(workload: views.Workload, around: Surroundings) -> Change | None:
    """A rejected check ends the Workload's hopes."""
    rejected = checks.in_state(workload, State.REJECTED)
    if not rejected or not _is_settled(workload):
        return None
    message = checks.summary(rejected, State.REJECTED)
    note = f"Deactivated due to {message}"
    return _target(
        workload,
        "AdmissionCheck",
        message,
        around.now,
        ("Warning", "AdmissionCheckRejected", note),
    )


def _obey_retry(workload: views.Workload, around: Surroundings) -> Change | None:
    """A check that asks for a retry evicts the Workload, for a while if it says so."""
    retrying = checks.in_state(workload, State.RETRY)
    if not retrying or not _is_settled(workload):
        return None
    message = f"Evicted due to {checks.summary(retrying, State.RETRY)}"
    status = evictions.evict(workload, "AdmissionCheck", message, around.now)
    moment = checks.retry_at(retrying)
    if moment is not None:
        status["requeueState"] = {"requeueAt": clock.to_wire(moment)}
    return _eviction(workload, status, "AdmissionCheck", message)


def _obey_queues(workload: views.Workload, around: Surroundings) -> Change | None:
    """A queue that is stopped, going or gone: drained, or reservations withdrawn."""
    if not _is_settled(workload):
        return None
    admitted = workload.status.is_true(conditions.ADMITTED)
    admission = workload.status.admission
    for kind, name, queue in (
        ("LocalQueue", workload.spec.queue_name, around.local_queue),
        ("ClusterQueue", admission.cluster_queue if admission else "", around.cluster_queue),
    ):
        gone = queue is None or bool(queue.metadata.deletion_timestamp)
        policy = "None" if queue is None else queue.spec.stop_policy
        if not admitted and gone:
            return _withdraw(
                workload, "Misconfigured", f"{kind} {name} is terminating or missing", around.now
            )
        if not admitted and policy != "None":
            return _withdraw(workload, "Suspended", f"{kind} {name} is stopped", around.now)
        if admitted and policy == _DRAIN:
            reason, message = f"{kind}Stopped", f"The {kind} is stopped"
            status = evictions.evict(workload, reason, message, around.now)
            return _eviction(workload, status, reason, message)
    return None


def _limit_execution(workload: views.Workload, around: Surroundings) -> Change | None:
    """A Workload that ran for its maximum time is deactivated."""
    end = _execution_end(workload, around.now)
    if end is None or end > around.now or not _is_settled(workload):
        return None
    seconds = workload.spec.maximum_execution_time_seconds
    change = _target(
        workload,
        "MaximumExecutionTimeExceeded",
        "exceeding the maximum execution time",
        around.now,
        (
            "Warning",
            "MaximumExecutionTimeExceeded",
            f"The maximum execution time ({seconds}s) exceeded",
        ),
    )
    status = change.status or {}
    return Change(
        status=status | {"accumulatedPastExecutionTimeSeconds": None}, event=change.event
    )


_RULES: Final[tuple[Rule, ...]] = (
    _follow_priority_class,
    _deactivate,
    _evict_inactive,
    _reactivate,
    _end_backoff,
    _restart,
    _sync_checks,
    _obey_rejection,
    _obey_retry,
    _obey_queues,
    _admit,
    _limit_execution,
)


# --------------------------------------------------------------------------------------- words


def _is_active(workload: views.Workload) -> bool:
    return workload.spec.active is not False


def _is_evicted(workload: views.Workload) -> bool:
    return workload.status.is_true(conditions.EVICTED)


def _is_reserved(workload: views.Workload) -> bool:
    return workload.status.is_true(conditions.QUOTA_RESERVED)


def _is_settled(workload: views.Workload) -> bool:
    """Whether it holds quota and nobody has told it to leave."""
    return _is_reserved(workload) and _is_active(workload) and not _is_evicted(workload)


def _held_back(workload: views.Workload) -> views.Condition | None:
    """The condition Requeued where it is False."""
    found = workload.status.condition(conditions.REQUEUED)
    return found if found is not None and found.status == "False" else None


def _backoff_end(workload: views.Workload) -> datetime | None:
    state = workload.status.requeue_state
    held = _held_back(workload)
    if state is None or not state.requeue_at or held is None:
        return None
    return clock.from_wire(state.requeue_at)


def _execution_end(workload: views.Workload, now: datetime) -> datetime | None:
    """When the maximum execution time ends; None without a limit or while it does not run."""
    limit = workload.spec.maximum_execution_time_seconds
    if limit is None or not workload.status.is_true(conditions.ADMITTED):
        return None
    past = workload.status.accumulated_past_execution_time_seconds or 0
    ran = evictions.admitted_seconds(workload, now)
    return now + timedelta(seconds=limit - past - ran)


def _requeue(workload: views.Workload, reason: str, message: str, now: datetime) -> Change:
    condition = evictions.requeue(workload, again=True, reason=reason, message=message, now=now)
    return Change(status={"conditions": conditions.merged(workload, condition)})


def _target(
    workload: views.Workload, reason: str, message: str, now: datetime, event: tuple[str, str, str]
) -> Change:
    condition = conditions.make(
        conditions.DEACTIVATION_TARGET,
        status=True,
        reason=reason,
        message=message,
        now=now,
        generation=workload.metadata.generation,
    )
    return Change(status={"conditions": conditions.merged(workload, condition)}, event=event)


def _withdraw(workload: views.Workload, reason: str, message: str, now: datetime) -> Change:
    return Change(
        purpose=Purpose.CLEAR_RESERVATION,
        status=evictions.withdraw(workload, reason, message, now),
    )


def _eviction(
    workload: views.Workload, status: dict[str, Any], reason: str, message: str
) -> Change:
    """An eviction; one of a Workload without quota is no news."""
    event = ("Normal", f"EvictedDueTo{reason}", message) if _is_reserved(workload) else None
    return Change(purpose=Purpose.EVICT, status=status, event=event)
