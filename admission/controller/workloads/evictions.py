"""The status that is written for an eviction, for its end, and for a withdrawn reservation.

Every function returns the ``status`` member of a merge patch. Source: kueue pkg/workload/evict
and pkg/controller/jobframework/reconciler.go.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from admission.base import clock, conditions, events, names
from admission.base.causes import EvictedBefore
from admission.base.conditions import EvictionReason, Text
from admission.base.events import Event
from admission.controller.workloads import checks, times
from admission.controller.writing import api_requests
from admission.objects import condition_list, past_preemptions, views
from admission.objects.workload import EvictionCount, Workload
from admission.reasons import kueue
from admission.scheduling import decisions, model

_PLACES: Final = ("clusterName", "nominatedClusterNames", "unhealthyNodes")
"""Members of the status that tell of an admission that is over."""
_FIRST_PAUSE: Final = 60
_LONGEST_PAUSE: Final = 600
"""Seconds until what contradicted its admission is tried again; they double each time."""
_MOST_DOUBLINGS: Final = 10
_RETRIED_AT_ONCE: Final = frozenset(
    {
        EvictionReason.PREEMPTED,
        EvictionReason.NODE_FAILURES,
        EvictionReason.CLAIMS_CHANGED,
        EvictionReason.SURGE_ENDED,
        EvictionReason.PODS_RUN_AGAIN,
        EvictionReason.POD_GROUP_STOPPED,
    }
)


def preempt(workload: Workload, evicted: decisions.Evict, now: datetime) -> dict[str, Any]:
    """Evict a Workload for another one; it keeps its quota until its pods have ended."""
    preempted = condition_list.make(
        conditions.PREEMPTED,
        Text(evicted.preemption_reason, kueue.message(evicted.why)),
        status=True,
        now=now,
    )
    text = kueue.text(evicted.why)
    return evict(workload, text, now, preempted, past=evicted.preempted_by)


def told(
    workload: Workload, evicted: decisions.Evict, preemptor: model.Workload | None
) -> Iterator[tuple[dict[str, str], Event]]:
    """Yield the events that follow once `preempt` was written, each with its object.

    Args:
        workload: the victim.
        evicted: what was decided.
        preemptor: the preemptor; None if it is gone.
    """
    victim = api_requests.workload_reference(workload)
    text = kueue.text(evicted.why)
    yield victim, events.evicted(*text)
    if preemptor is None:
        return
    priorities = preemptor.priority, workload.spec.priority or 0
    yield victim, events.preempted(text.message, priorities)
    regarding = {
        **victim,
        "namespace": preemptor.key.namespace,
        "name": preemptor.key.name,
        "uid": preemptor.uid,
    }
    name, uid = evicted.workload.text(), workload.metadata.uid
    yield regarding, events.preempted_workload(name, uid, evicted.cluster_queue, priorities)


def tells(workload: Workload, evicted: decisions.Evict) -> bool:
    """Return whether `preempt` was written for this decision."""
    preempted = workload.status.condition(conditions.PREEMPTED)
    message = kueue.message(evicted.why)
    is_told = preempted is not None and (preempted.status, preempted.message) == ("True", message)
    return is_told and workload.status.is_true(conditions.EVICTED)


def evict(
    workload: Workload,
    text: Text,
    now: datetime,
    *changes: views.Condition,
    without: str = "",
    cause: str = "",
    past: model.PastPreemptions | None = None,
) -> dict[str, Any]:
    """Return a status without quota: its checks are reset, and the eviction is counted.

    Args:
        workload: as it is.
        text: of the condition Evicted.
        now: the present.
        changes: further conditions.
        without: a condition that ends with the eviction.
        cause: the counted cause, if the reason does not contain it.
        past: who preempted it, with this eviction; None where it says so already.
    """
    evicted = condition_list.make(
        conditions.EVICTED,
        text,
        status=True,
        now=now,
        generation=workload.metadata.generation,
    )
    status: dict[str, Any] = {
        "conditions": condition_list.merged(workload, evicted, *changes, without=without),
        "schedulingStats": {"evictions": _counted(workload, text.reason, cause, past)},
        **dict.fromkeys(_PLACES),
    }
    states = checks.reset(workload, now)
    if states is not None:
        status["admissionChecks"] = states
    return status


def contradicted(workload: Workload, text: Text, now: datetime) -> dict[str, Any]:
    """Evict a Workload that could not be started as it was admitted, and have it wait a while."""
    stats = workload.status.scheduling_stats
    listed = (stats.evictions if stats else None) or ()
    before = sum(eviction.count for eviction in listed if eviction.reason == text.reason)
    seconds = min(_FIRST_PAUSE << min(before, _MOST_DOUBLINGS), _LONGEST_PAUSE)
    until = now + timedelta(seconds=seconds)
    state = {"requeueState": {"requeueAt": clock.to_wire(until)}}
    return evict(workload, text, now) | state


def clear(workload: Workload, now: datetime, *, stays: bool = True) -> dict[str, Any]:
    """Return the status of an evicted Workload without running pods: its quota is free.

    Args:
        workload: as it is.
        now: the present.
        stays: whether its owner stays and may be tried again. The Workload of a single pod ends
            with the pod. Source: kueue pkg/controller/jobframework/reconciler.go
            (SkipReassignmentForPodOwnedWorkloads).
    """
    evicted = workload.status.condition(conditions.EVICTED)
    text = Text(evicted.reason, evicted.message) if evicted else Text("", "")
    again = stays and text.reason in _RETRIED_AT_ONCE
    requeued = requeue(workload, text, again=again, now=now)
    return _without_quota(
        workload, kueue.text(EvictedBefore(text.reason, text.message)), now, requeued
    )


def withdraw(workload: Workload, text: Text, now: datetime) -> dict[str, Any]:
    """Return a status whose reservation is taken back; nothing of the Workload has run."""
    return _without_quota(workload, text, now)


def requeue(workload: Workload, text: Text, *, again: bool, now: datetime) -> views.Condition:
    """Return the condition Requeued: whether the Workload may be tried again."""
    return condition_list.make(
        conditions.REQUEUED,
        text,
        status=again,
        now=now,
        generation=workload.metadata.generation,
    )


def admitted_seconds(workload: Workload, now: datetime) -> int:
    """Return whole seconds since the Workload was admitted; 0 if it is not."""
    return int(times.seconds_true(workload, conditions.ADMITTED, now))


def time_admitted(workload: Workload, now: datetime) -> dict[str, int]:
    """Return, for Admitted=False, how long the Workload was admitted if it was just now.

    Also where that took less than a second: zero tells an end from an admission that never was.
    """
    if not workload.status.is_true(conditions.ADMITTED):
        return {}
    past = workload.status.accumulated_past_execution_time_seconds or 0
    return {"accumulatedPastExecutionTimeSeconds": past + admitted_seconds(workload, now)}


def _without_quota(
    workload: Workload,
    text: Text,
    now: datetime,
    *changes: views.Condition,
) -> dict[str, Any]:
    generation = workload.metadata.generation
    return {
        "admission": None,
        "conditions": condition_list.merged(
            workload,
            *changes,
            condition_list.not_reserved(text, now, generation),
            condition_list.not_admitted(now, generation),
            without=conditions.PREEMPTION_NOTICE,
        ),
        **time_admitted(workload, now),
    }


def _counted(
    workload: Workload, reason: str, cause: str, past: model.PastPreemptions | None
) -> list[dict[str, Any]]:
    """Evictions so far with this one; ``DeactivatedDueToX`` is Deactivated with the cause X.

    After them come the past preemptions, in their own order.
    """
    base = reason
    if reason.startswith(EvictionReason.DEACTIVATED):
        base, cause = conditions.eviction_cause(reason)
    stats = workload.status.scheduling_stats
    listed = (stats.evictions if stats else None) or ()
    counts = {(count.reason, count.underlying_cause): count for count in listed}
    preemptions = [counts.pop(key) for key in tuple(counts) if key[0] == names.PREEMPTED_BY]
    count_before = counts.get((base, cause), EvictionCount(reason=base, underlying_cause=cause))
    counts[base, cause] = msgspec.structs.replace(count_before, count=count_before.count + 1)
    counted = [msgspec.to_builtins(counts[key]) for key in sorted(counts)]
    if past is None:
        return [*counted, *map(msgspec.to_builtins, preemptions)]
    return [*counted, *past_preemptions.document(past)]
