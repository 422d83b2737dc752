"""What a Workload needs besides quota: rules, the first that applies is carried out.

Each rule looks at the Workload and its queues as they are now and says what is to be written, if
anything; the next look finds the next rule. Source: kueue
pkg/controller/core/workload_controller.go, in its order.
"""

from datetime import datetime
from typing import Final

from admission.base import clock, conditions, durations, events, names
from admission.base.causes import Deactivated, GatesCleared, QueueGone, QueueStopped
from admission.base.conditions import EvictionReason, Text, WaitReason
from admission.controller.workloads import checks, evictions, readiness, retention, times
from admission.controller.workloads.checks import CheckStateName
from admission.controller.workloads.rules import (
    Rule,
    WorkloadChange,
    WorkloadContext,
    eviction,
    is_active,
    is_settled,
    target,
)
from admission.controller.writing.api_requests import WritePurpose
from admission.objects import condition_list, execution_times, run_times, views
from admission.objects.workload import Workload
from admission.reasons import added_conditions, kueue

_DRAIN: Final = "HoldAndDrain"
_AFTER_BACKOFF: Final = frozenset(
    {
        EvictionReason.ADMISSION_CHECK,
        EvictionReason.PODS_READY_TIMEOUT,
        EvictionReason.FAILED_TO_START,
    }
)


def next_change(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """Return the first change that a rule asks for."""
    if workload.metadata.deletion_timestamp or workload.status.is_true(conditions.FINISHED):
        return retention.end(workload, around)
    for rule in _RULES:
        change = rule(workload, around)
        if change is not None:
            return change
    return None


def next_due(workload: Workload, around: WorkloadContext) -> datetime | None:
    """Return when a rule will apply if nothing changes; None for never."""
    settings = around.settings
    kept = retention.due(workload, settings.object_retention_policies.workloads)
    if workload.metadata.deletion_timestamp or workload.status.is_true(conditions.FINISHED):
        return kept
    moments = [
        _requeue_at(workload),
        _execution_end(workload, around),
        readiness.due(workload, around.waiting),
        readiness.told_at(workload, around),
        kept,
    ]
    to_come = (moment for moment in moments if moment is not None and moment > around.now)
    return min(to_come, default=None)


# --------------------------------------------------------------------------------------- rules


def _follow_priority_class(_: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """A new value of a WorkloadPriorityClass reaches the Workloads that name it."""
    return None if around.priority is None else WorkloadChange(spec={"priority": around.priority})


def _deactivate(workload: Workload, _: WorkloadContext) -> WorkloadChange | None:
    """A deactivation target becomes ``spec.active: false``."""
    target = workload.status.is_true(conditions.DEACTIVATION_TARGET)
    return WorkloadChange(spec={"active": False}) if target and is_active(workload) else None


def _evict_inactive(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """An inactive Workload is evicted, whether it holds quota or not."""
    if is_active(workload):
        return None
    if _is_evicted(workload):
        return _forget_backoff(workload)
    text = kueue.text(Deactivated())
    cause = workload.status.condition(conditions.DEACTIVATION_TARGET)
    if cause is not None and cause.status == "True":
        text = kueue.deactivated_due_to(Text(cause.reason, cause.message))
    extra = []
    if not _is_reserved(workload):
        extra = [evictions.requeue(workload, text, again=False, now=around.now)]
    status = evictions.evict(
        workload, text, around.now, *extra, without=conditions.DEACTIVATION_TARGET
    )
    return eviction(workload, status | {"requeueState": None}, text)


def _forget_backoff(workload: Workload) -> WorkloadChange | None:
    """Of a Workload that was evicted before it was deactivated: what led there is over."""
    status = workload.status
    if status.condition(conditions.DEACTIVATION_TARGET) is None and status.requeue_state is None:
        return None
    kept = condition_list.merged(workload, without=conditions.DEACTIVATION_TARGET)
    return WorkloadChange(status={"conditions": kept, "requeueState": None})


def _reactivate(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """An active Workload that was deactivated may be tried again.

    Differs: also after ``DeactivatedDueTo<cause>``, where Kueue leaves it parked for ever.
    """
    condition = _held_back(workload)
    if condition is None or not is_active(workload):
        return None
    if not condition.reason.startswith(EvictionReason.DEACTIVATED):
        return None
    return _requeue(workload, kueue.REACTIVATED, around.now)


def _end_backoff(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """After the backoff of an eviction the Workload may be tried again."""
    condition = _held_back(workload)
    if condition is None or condition.reason not in _AFTER_BACKOFF or not is_active(workload):
        return None
    end = _backoff_end(workload)
    if end is not None and end > around.now and not _asks_anew(workload, condition):
        return None
    change = _requeue(workload, kueue.BACKOFF_FINISHED, around.now)
    status = change.status or {}
    return WorkloadChange(status=status | {"requeueState": {"requeueAt": None}})


def _drop_past_backoff(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """A time until which a Workload was not to be tried goes once it is over.

    Also where something else ended the eviction before.
    """
    end = _requeue_at(workload)
    if end is None or end > around.now or _held_back(workload) is not None:
        return None
    return WorkloadChange(status={"requeueState": {"requeueAt": None}})


def _restart(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """Return what a stopped queue had evicted may be tried again once the queue is restarted."""
    condition = _held_back(workload)
    if condition is None or not is_active(workload):
        return None
    for kind, queue in (
        ("LocalQueue", around.local_queue),
        ("ClusterQueue", around.cluster_queue),
    ):
        running = queue is not None and queue.spec.stop_policy == "None"
        if condition.reason == kueue.queue_drained(kind).reason and running:
            return _requeue(workload, kueue.queue_restarted(kind), around.now)
    return None


def _end_gate(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """A Workload whose admission gates are gone says that it waits for quota only."""
    reserved = workload.status.condition(conditions.QUOTA_RESERVED)
    gated = workload.metadata.annotation(names.ADMISSION_GATED_BY)
    if (
        gated
        or reserved is None
        or reserved.status == "True"
        or reserved.reason != WaitReason.ADMISSION_GATED
    ):
        return None
    generation = workload.metadata.generation
    open_again = condition_list.not_reserved(kueue.text(GatesCleared()), around.now, generation)
    return WorkloadChange(
        status={"conditions": condition_list.merged(workload, open_again)},
        event=events.gates_cleared(),
    )


def _drop_admission(workload: Workload, _: WorkloadContext) -> WorkloadChange | None:
    """An admission whose reservation somebody took back is taken out, too.

    Who applies QuotaReserved=False as another field manager cannot take out what we wrote.
    """
    reserved = workload.status.condition(conditions.QUOTA_RESERVED)
    if workload.status.admission is None or reserved is None or reserved.status == "True":
        return None
    return WorkloadChange(operation=WritePurpose.CLEAR_RESERVATION, status={"admission": None})


def _sync_checks(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """The Workload lists exactly the checks that its ClusterQueue asks for."""
    if around.cluster_queue is None or not is_active(workload):
        return None
    needed = checks.required(around.cluster_queue, workload)
    states = checks.synced(workload, needed, around.now)
    return None if states is None else WorkloadChange(status={"admissionChecks": states})


def _ask_again(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """A check that said no once the quota was gone is asked again with the next quota.

    Its answer is about quota that somebody took meanwhile, as by preemption; nobody else would
    take it back, and the Workload would wait for ever.
    """
    failed = checks.in_state(workload, CheckStateName.REJECTED) + checks.in_state(
        workload, CheckStateName.RETRY
    )
    if not failed or not is_active(workload) or not workload.is_pending():
        return None
    return WorkloadChange(status={"admissionChecks": checks.reset(workload, around.now)})


def _admit(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """With all checks ready, a Workload that holds quota is admitted.

    Also where another program reserved quota in a queue that is stopped or does not exist.
    """
    admission = workload.status.admission
    if not is_settled(workload) or admission is None:
        return None
    if workload.status.is_true(conditions.ADMITTED):
        return None
    listed = (check.name for check in workload.status.admission_checks or ())
    queue = around.cluster_queue
    if not checks.all_ready(workload, checks.required(queue, workload) if queue else listed):
        return None
    admitted = condition_list.make(
        conditions.ADMITTED,
        kueue.IS_ADMITTED,
        status=True,
        now=around.now,
        generation=workload.metadata.generation,
    )
    waited = times.seconds_true(workload, conditions.QUOTA_RESERVED, around.now)
    return WorkloadChange(
        status={"conditions": condition_list.merged(workload, admitted)},
        event=events.admitted(admission.cluster_queue, waited),
    )


def _obey_rejection(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """A rejected check ends the Workload's hopes."""
    rejected = checks.in_state(workload, CheckStateName.REJECTED)
    if not rejected or not is_settled(workload):
        return None
    rejection = checks.summary(rejected, CheckStateName.REJECTED)
    return target(
        workload,
        kueue.check_rejected(rejection),
        around.now,
        events.check_rejected(rejection),
    )


def _obey_retry(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """A check that asks for a retry evicts the Workload, for a while if it says so."""
    retrying = checks.in_state(workload, CheckStateName.RETRY)
    if not retrying or not is_settled(workload):
        return None
    text = kueue.check_retries(checks.summary(retrying, CheckStateName.RETRY))
    status = evictions.evict(workload, text, around.now)
    moment, state = checks.retry_at(retrying), workload.status.requeue_state
    if moment is not None:
        if state is not None and state.requeue_at:
            moment = max(moment, clock.from_wire(state.requeue_at))
        status["requeueState"] = {"requeueAt": clock.to_wire(moment)}
    return eviction(workload, status, text)


def _obey_queues(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """A queue that is stopped, going or gone: drained, or reservations withdrawn."""
    if not is_settled(workload):
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
            return _withdraw(workload, kueue.text(QueueGone(kind, name)), around.now)
        if not admitted and policy != "None":
            return _withdraw(workload, kueue.text(QueueStopped(kind, name)), around.now)
        if admitted and policy == _DRAIN:
            text = kueue.queue_drained(kind)
            status = evictions.evict(workload, text, around.now)
            return eviction(workload, status, text)
    return None


def _limit_execution(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """A Workload that ran for its maximum time is deactivated."""
    limit = _limit_of(workload, around)
    end = execution_times.execution_end(workload, limit)
    if limit is None or end is None or end > around.now or not is_settled(workload):
        return None
    time, said_by = f"{limit.microseconds // run_times.SECOND_US}s", ""
    if limit.annotation:
        time = durations.to_wire(limit.microseconds)
        said_by = added_conditions.said_by(limit.annotation, limit.kind, limit.queue)
    change = target(
        workload,
        kueue.execution_time_exceeded(said_by),
        around.now,
        events.execution_time_exceeded(time, said_by),
    )
    status = change.status or {}
    return WorkloadChange(
        status=status | {"accumulatedPastExecutionTimeSeconds": None}, event=change.event
    )


def _tell_limit(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """A Workload that a queue gives its maximum time says so while it is admitted."""
    limit = _limit_of(workload, around) if workload.status.is_true(conditions.ADMITTED) else None
    if limit is None or not limit.annotation:
        changes = condition_list.unsaid(workload, conditions.RUN_TIME_LIMITED)
    else:
        text = added_conditions.run_time_limited(
            limit.annotation, limit.kind, limit.queue, durations.to_wire(limit.microseconds)
        )
        changes = condition_list.said(workload, conditions.RUN_TIME_LIMITED, text, around.now)
    return None if changes is None else WorkloadChange(status=changes)


_RULES: Final[tuple[Rule, ...]] = (
    retention.finish_orphan,
    _drop_admission,
    _follow_priority_class,
    _deactivate,
    _evict_inactive,
    retention.delete_owner,
    _reactivate,
    _end_backoff,
    _drop_past_backoff,
    _restart,
    _end_gate,
    _sync_checks,
    _ask_again,
    _admit,
    _obey_rejection,
    _obey_retry,
    _obey_queues,
    readiness.limit,
    readiness.tell_refusal,
    _limit_execution,
    _tell_limit,
    readiness.tell,
)


# --------------------------------------------------------------------------------------- words


def _is_evicted(workload: Workload) -> bool:
    return workload.status.is_true(conditions.EVICTED)


def _is_reserved(workload: Workload) -> bool:
    return workload.status.is_true(conditions.QUOTA_RESERVED)


def _asks_anew(workload: Workload, condition: views.Condition) -> bool:
    """Return whether a Workload that contradicted its admission asks otherwise since then."""
    seen = condition.observed_generation or 0
    is_contradiction = condition.reason == EvictionReason.FAILED_TO_START
    return is_contradiction and workload.metadata.generation > seen


def _held_back(workload: Workload) -> views.Condition | None:
    """The condition Requeued where it is False."""
    requeued = workload.status.condition(conditions.REQUEUED)
    return requeued if requeued is not None and requeued.status == "False" else None


def _backoff_end(workload: Workload) -> datetime | None:
    return None if _held_back(workload) is None else _requeue_at(workload)


def _requeue_at(workload: Workload) -> datetime | None:
    state = workload.status.requeue_state
    at = None if state is None else state.requeue_at
    return clock.from_wire(at) if at else None


def _limit_of(workload: Workload, around: WorkloadContext) -> run_times.Limit | None:
    """Return how long a Workload may run, by its spec or by its queues; None for ever."""
    return execution_times.run_limit(workload, around.cluster_queue, around.local_queue)


def _execution_end(workload: Workload, around: WorkloadContext) -> datetime | None:
    """Return when the maximum execution time ends; None for never."""
    return execution_times.execution_end(workload, _limit_of(workload, around))


def _requeue(workload: Workload, text: Text, now: datetime) -> WorkloadChange:
    condition = evictions.requeue(workload, text, again=True, now=now)
    return WorkloadChange(status={"conditions": condition_list.merged(workload, condition)})


def _withdraw(workload: Workload, text: Text, now: datetime) -> WorkloadChange:
    return WorkloadChange(
        operation=WritePurpose.CLEAR_RESERVATION,
        status=evictions.withdraw(workload, text, now),
    )
