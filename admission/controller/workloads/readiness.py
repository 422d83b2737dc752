"""Pods that have to become ready in time: the condition PodsReady, and what follows without it.

Source: kueue pkg/controller/jobframework/reconciler.go (generatePodsReadyCondition) and
pkg/controller/core/workload_controller.go (reconcileNotReadyTimeout).
"""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from admission.base import clock, conditions, events, quantity
from admission.base.causes import MemberCounts
from admission.base.conditions import PodsReadyReason
from admission.base.errors import InvalidValueError
from admission.base.events import Event
from admission.config.kueue_configuration import RequeuingStrategy, WaitForPodsReady
from admission.controller.workloads import evictions, rules
from admission.controller.workloads.rules import WorkloadChange, WorkloadContext
from admission.objects import condition_list, views
from admission.objects.workload import Workload
from admission.reasons import added_conditions, kueue, sentences

_QUIET: Final = timedelta(seconds=30)
"""After the last change of a pod, until something is said of those that are missing."""
_SOON: Final = timedelta(seconds=5)
"""Likewise where the scheduler or a node says why, the first time: it may be over soon."""
_LATEST: Final = timedelta(seconds=60)
"""After the first of changes without a pause, until something is said for the first time."""
_MOST_DOUBLINGS: Final = 31
"""After so many the wait is beyond any limit."""


def waiting(
    workload: Workload,
    settings: WaitForPodsReady | None,
    of_several: timedelta,
    *,
    is_refused: bool = False,
    lacks_pods: bool = False,
) -> WaitForPodsReady | None:
    """Return how long the pods of a Workload may take to become ready; None for ever.

    Args:
        workload: the Workload.
        settings: what Kueue's Configuration says of all Workloads; None for nothing.
        of_several: what holds otherwise where there is more than one pod (ADR 0148), and for one
            that is not let start or not made; 0 for ever.
        is_refused: whether the API server does not let its owner start.
        lacks_pods: whether its owner runs and has not all pods that it was admitted with.
    """
    if settings is not None or not of_several:
        return settings
    if workload.replaces() is not None:
        return None  # its owner grew: that takes nothing from the pods that run
    several = sum(pod_set.count for pod_set in workload.spec.pod_sets or ()) > 1
    is_limited = several or is_refused or lacks_pods
    return WaitForPodsReady(timeout=of_several) if is_limited else None


def tell(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """Return the condition PodsReady of a Workload whose pods we know.

    Where there is no limit it is written only of pods that cannot run, and once they do.
    """
    ready = workload.status.condition(conditions.PODS_READY)
    if around.pods_ready is None:
        return None
    if around.waiting is None and ready is None and around.pods_ready:
        return None
    reason = _reason(workload, ready=around.pods_ready)
    text, event = kueue.pods_ready(reason), None
    if around.members is not None and not around.pods_ready:
        told_moment, was_ready = (
            told_at(workload, around),
            ready is not None and ready.status == "True",
        )
        if told_moment is not None and told_moment <= around.now:
            text = kueue.pods_ready(reason, sentences.hint(around.members))
            if not _is_told(ready):
                event = _cannot_run(workload, around, around.members)
        elif not was_ready or workload.status.is_true(conditions.ADMITTED):
            return None
    condition = condition_list.make(
        conditions.PODS_READY,
        text,
        status=reason in {PodsReadyReason.STARTED, PodsReadyReason.RECOVERED},
        now=around.now,
        generation=workload.metadata.generation,
    )
    is_same = ready is not None and (ready.status, ready.reason) == (condition.status, reason)
    if ready is not None and is_same and (around.members is None or ready.message == text.message):
        return None
    return WorkloadChange(
        status={"conditions": condition_list.merged(workload, condition)},
        event=event,
        tells_owner=True,
    )


def _is_told(condition: views.Condition | None) -> bool:
    """Return whether a condition says which pods do not run."""
    if condition is None or condition.status == "True" or condition.reason not in kueue.PODS_READY:
        return False
    return condition.message != kueue.pods_ready(PodsReadyReason(condition.reason)).message


def _cannot_run(workload: Workload, around: WorkloadContext, members: MemberCounts) -> Event:
    """Return the event for the owner of a Workload that holds quota but cannot run."""
    owner = workload.metadata.controller()
    amounts: dict[str, int] = {}
    admission = workload.status.admission
    for assignment in (admission.pod_set_assignments or ()) if admission is not None else ():
        for resource, value in (assignment.resource_usage or {}).items():
            with suppress(InvalidValueError):
                amount = quantity.to_canonical(resource, str(value))
                amounts[resource] = amounts.get(resource, 0) + amount
    quota = {name: quantity.in_words(name, value) for name, value in sorted(amounts.items())}
    return events.cannot_run(
        owner.kind if owner is not None else "",
        quota,
        workload.spec.queue_name,
        members,
        sentences.missing(members),
        sentences.unscheduled(members),
        None if around.waiting is None else around.waiting.timeout / timedelta(minutes=1),
    )


def tell_refusal(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """Return the condition StartRefused of a Workload whose owner the server does not start."""
    stored = workload.status.condition(conditions.START_REFUSED)
    if not around.refusal or not rules.is_settled(workload):
        if stored is None:
            return None
        kept = condition_list.merged(workload, without=conditions.START_REFUSED)
        return WorkloadChange(status={"conditions": kept})
    text = added_conditions.start_refused(around.refusal)
    condition = condition_list.make(
        conditions.START_REFUSED,
        text,
        status=True,
        now=around.now,
        generation=workload.metadata.generation,
    )
    if stored is not None and stored.message == condition.message:
        return None
    event = events.start_refused(text.message) if stored is None else None
    return WorkloadChange(
        status={"conditions": condition_list.merged(workload, condition)}, event=event
    )


def told_at(workload: Workload, around: WorkloadContext) -> datetime | None:
    """Return when a Workload says which of its pods are missing; None for never.

    Pods come one after the other: nothing is said until half a minute after the last change. Where
    the scheduler or a node says why, it is said soon, and half a minute after the last change when
    that is not the first time. A scheduler that says something else many times a second leaves no
    pause: the first time it is said a minute after the first change at the latest.
    """
    members, since = around.members, _admitted_at(workload)
    if members is None or since is None or around.pods_ready:
        return None
    ready = workload.status.condition(conditions.PODS_READY)
    was_ready = ready is not None and ready.reason != PodsReadyReason.WAIT_FOR_START
    if not was_ready and not members.is_stuck:
        return None
    is_first = not _is_told(ready)
    quiet = _SOON if is_first and members.is_explained else _QUIET
    due_at = max(since, around.members_changed_at or since) + quiet
    first = around.members_changing_since
    if first is None or not (is_first and members.is_explained):
        return due_at
    return min(due_at, max(since, first) + _LATEST)


def limit(workload: Workload, around: WorkloadContext) -> WorkloadChange | None:
    """Return the eviction of a Workload whose pods are not ready in time, at last deactivation."""
    settings, end = around.waiting, due(workload, around.waiting)
    if settings is None or end is None or end > around.now or around.pods_ready:
        return None  # pods that are ready and not told yet were in time, for all that is known
    state = workload.status.requeue_state
    count = (state.count or 0 if state else 0) + 1
    retries = settings.requeuing_strategy.backoff_limit_count
    if retries is not None and count > retries:
        return rules.target(workload, kueue.REQUEUING_LIMIT_EXCEEDED, around.now)
    text = kueue.pods_ready_timeout(workload.key().text())
    if around.members is not None:
        minutes = settings.timeout / timedelta(minutes=1)
        text = sentences.not_started_in_time(minutes, around.members)
    if around.refusal:
        text = added_conditions.refused_for_long(
            settings.timeout / timedelta(minutes=1), around.refusal
        )
    condition = workload.status.condition(conditions.PODS_READY)
    cause = condition.reason if condition is not None else PodsReadyReason.WAIT_FOR_START
    moments = [around.now + timedelta(seconds=_wait(settings.requeuing_strategy, count))]
    if state is not None and state.requeue_at:
        moments.append(clock.from_wire(state.requeue_at))
    status = evictions.evict(workload, text, around.now, cause=cause)
    status["requeueState"] = {"count": count, "requeueAt": clock.to_wire(max(moments))}
    return rules.eviction(workload, status, text)


def due(workload: Workload, settings: WaitForPodsReady | None) -> datetime | None:
    """Return when the pods must be ready; None where they are, or need not be."""
    since = _admitted_at(workload)
    if settings is None or since is None:
        return None
    condition = workload.status.condition(conditions.PODS_READY)
    bound = settings.timeout
    if condition is not None and condition.status == "True":
        return None
    if condition is not None and condition.reason == PodsReadyReason.WAIT_FOR_RECOVERY:
        if not settings.recovery_timeout:
            return None
        if not condition.last_transition_time:
            return None
        since, bound = clock.from_wire(condition.last_transition_time), settings.recovery_timeout
    return since + bound


def _admitted_at(workload: Workload) -> datetime | None:
    """Return since when a Workload is admitted; None if it is not, or is being evicted."""
    condition = workload.status.condition(conditions.ADMITTED)
    if condition is None or condition.status != "True" or not rules.is_settled(workload):
        return None
    return (
        clock.from_wire(condition.last_transition_time) if condition.last_transition_time else None
    )


def _reason(workload: Workload, *, ready: bool) -> PodsReadyReason:
    condition = workload.status.condition(conditions.PODS_READY)
    before = condition.reason if condition is not None else PodsReadyReason.WAIT_FOR_START
    if not workload.status.is_true(conditions.ADMITTED):
        return PodsReadyReason.WAIT_FOR_START
    if ready:
        was_ready = before in {PodsReadyReason.WAIT_FOR_RECOVERY, PodsReadyReason.RECOVERED}
        return PodsReadyReason.RECOVERED if was_ready else PodsReadyReason.STARTED
    is_first = before == PodsReadyReason.WAIT_FOR_START
    return PodsReadyReason.WAIT_FOR_START if is_first else PodsReadyReason.WAIT_FOR_RECOVERY


def _wait(settings: RequeuingStrategy, count: int) -> int:
    """Seconds until the next try; the first is the base, whatever the longest may be."""
    base = settings.backoff_base_seconds
    if count == 1:
        return base
    return min(base << min(count - 1, _MOST_DOUBLINGS), settings.backoff_max_seconds)
