"""Pods that have to become ready in time: the condition PodsReady, and what follows without it.

Source: kueue pkg/controller/jobframework/reconciler.go (generatePodsReadyCondition) and
pkg/controller/core/workload_controller.go (reconcileNotReadyTimeout).
"""

from datetime import datetime, timedelta
from typing import Final

from admission.base import clock, conditions
from admission.base.conditions import PodsReadyReason
from admission.config.kueue_configuration import RequeuingStrategy, WaitForPodsReady
from admission.controller.workloads import evictions, rules
from admission.controller.workloads.rules import Change, Surroundings
from admission.objects import condition_list
from admission.objects.workload import Workload

_MOST_DOUBLINGS: Final = 31
"""After so many the wait is beyond any limit."""


def tell(workload: Workload, around: Surroundings) -> Change | None:
    """The condition PodsReady of a Workload whose pods we know."""
    if around.settings.wait_for_pods_ready is None or around.pods_ready is None:
        return None
    reason = _reason(workload, ready=around.pods_ready)
    condition = condition_list.make(
        conditions.PODS_READY,
        conditions.pods_ready(reason),
        status=reason in {PodsReadyReason.STARTED, PodsReadyReason.RECOVERED},
        now=around.now,
        generation=workload.metadata.generation,
    )
    known = workload.status.condition(conditions.PODS_READY)
    if known is not None and (known.status, known.reason) == (condition.status, reason):
        return None
    return Change(status={"conditions": condition_list.merged(workload, condition)})


def limit(workload: Workload, around: Surroundings) -> Change | None:
    """A Workload whose pods are not ready in time is evicted, and at last deactivated."""
    settings, end = (
        around.settings.wait_for_pods_ready,
        due(workload, around.settings.wait_for_pods_ready),
    )
    if settings is None or end is None or end > around.now:
        return None
    state = workload.status.requeue_state
    count = (state.count or 0 if state else 0) + 1
    most = settings.requeuing_strategy.backoff_limit_count
    if most is not None and count > most:
        return rules.target(workload, conditions.REQUEUING_LIMIT_EXCEEDED, around.now)
    text = conditions.pods_ready_timeout(workload.key().text())
    known = workload.status.condition(conditions.PODS_READY)
    cause = known.reason if known is not None else PodsReadyReason.WAIT_FOR_START
    moments = [around.now + timedelta(seconds=_wait(settings.requeuing_strategy, count))]
    if state is not None and state.requeue_at:
        moments.append(clock.from_wire(state.requeue_at))
    status = evictions.evict(workload, text, around.now, cause=cause)
    status["requeueState"] = {"count": count, "requeueAt": clock.to_wire(max(moments))}
    return rules.eviction(workload, status, text)


def due(workload: Workload, settings: WaitForPodsReady | None) -> datetime | None:
    """Return when the pods must be ready; None where they are, or need not be."""
    if settings is None or not rules.is_settled(workload):
        return None
    admitted = workload.status.condition(conditions.ADMITTED)
    if admitted is None or admitted.status != "True":
        return None
    known = workload.status.condition(conditions.PODS_READY)
    since, bound = admitted.last_transition_time, settings.timeout
    if known is not None and known.status == "True":
        return None
    if known is not None and known.reason == PodsReadyReason.WAIT_FOR_RECOVERY:
        if not settings.recovery_timeout:
            return None
        since, bound = known.last_transition_time, settings.recovery_timeout
    return clock.from_wire(since) + bound if since else None


def _reason(workload: Workload, *, ready: bool) -> PodsReadyReason:
    known = workload.status.condition(conditions.PODS_READY)
    before = known.reason if known is not None else PodsReadyReason.WAIT_FOR_START
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
