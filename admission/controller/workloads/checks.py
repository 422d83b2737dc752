"""Admission checks of a Workload: the ones it needs, their states, and what follows.

Source: kueue pkg/workload/admissionchecks.go and pkg/controller/core/workload_controller.go.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from admission.base import clock, conditions
from admission.base.conditions import Text
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.workload import AdmissionCheckState, Workload
from admission.reasons import kueue, sentences


class CheckStateName(StrEnum):
    """State of a check; anything else counts as not ready."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


def required(queue: ClusterQueue, workload: Workload) -> tuple[str, ...]:
    """Return the names of the checks that a Workload needs in a ClusterQueue, sorted.

    Without an admission those that hold for every flavor of the queue, with one those that touch
    an assigned flavor.
    """
    strategy = queue.spec.admission_checks_strategy
    rules = (strategy.admission_checks if strategy else None) or ()
    assigned = _assigned_flavors(workload)
    flavors = frozenset(
        flavor.name for group in queue.spec.resource_groups or () for flavor in group.flavors
    )
    needed = [
        rule.name
        for rule in rules
        if not rule.on_flavors
        or (assigned & set(rule.on_flavors) if assigned else flavors <= set(rule.on_flavors))
    ]
    return tuple(sorted(set(needed)))


def synced(workload: Workload, names: Iterable[str], now: datetime) -> list[dict[str, Any]] | None:
    """Return states for exactly the needed checks, new ones Pending; None where they are so.

    In whatever order: who applies a state may put it elsewhere, and would again.
    """
    present = {check.name: check for check in workload.status.admission_checks or ()}
    names_listed = tuple(names)
    if present.keys() == set(names_listed):
        return None
    fresh = {
        "state": CheckStateName.PENDING,
        "message": "",
        "lastTransitionTime": clock.to_wire(now),
    }
    return [
        to_wire(present[name]) if name in present else {"name": name, **fresh}
        for name in names_listed
    ]


def all_ready(workload: Workload, names: Iterable[str]) -> bool:
    """Return whether every one of the checks is Ready."""
    ready = {
        c.name for c in workload.status.admission_checks or () if c.state == CheckStateName.READY
    }
    return ready.issuperset(names)


def in_state(workload: Workload, state: CheckStateName) -> tuple[AdmissionCheckState, ...]:
    """Return the checks in a state, by name."""
    states = workload.status.admission_checks or ()
    return tuple(sorted((c for c in states if c.state == state), key=lambda check: check.name))


def waits(workload: Workload) -> Text | None:
    """Return what pods say whose Workload has quota and waits for checks; None if it does not."""
    is_reserved = workload.status.admission is not None and not workload.is_pending()
    if not is_reserved or workload.status.is_true(conditions.ADMITTED):
        return None
    waiting = (
        c for c in workload.status.admission_checks or () if c.state != CheckStateName.READY
    )
    still = [
        (check.name, check.message) for check in sorted(waiting, key=lambda check: check.name)
    ]
    return sentences.waits_for_checks(still) if still else None


def summary(states: Iterable[AdmissionCheckState], state: CheckStateName) -> str:
    """Return the part of a message that names the checks in a state."""
    return kueue.checks_in_state(((state_.name, state_.message) for state_ in states), state)


def retry_at(states: Iterable[AdmissionCheckState]) -> datetime | None:
    """Return when the last of the retrying checks may be tried again; None for at once."""
    moments = [
        clock.from_wire(check.last_transition_time)
        + timedelta(seconds=check.requeue_after_seconds)
        for check in states
        if check.requeue_after_seconds and check.last_transition_time
    ]
    return max(moments, default=None)


def reset(workload: Workload, now: datetime) -> list[dict[str, Any]] | None:
    """Return all checks as Pending again after an eviction; None where there are none.

    A check that asked for a retry counts it; updates for pods are dropped.
    """
    states = workload.status.admission_checks
    if not states:
        return None
    return [_reset(check, now) for check in states]


def to_wire(check: AdmissionCheckState) -> dict[str, Any]:
    """Return a state as it is written; absent members are left out."""
    document: dict[str, Any] = msgspec.to_builtins(check)
    return {key: value for key, value in document.items() if value is not None}


def _reset(check: AdmissionCheckState, now: datetime) -> dict[str, Any]:
    if check.state == CheckStateName.PENDING:
        return to_wire(check)
    document = to_wire(check)
    document.pop("podSetUpdates", None)
    document.pop("retryCount", None)
    if check.state == CheckStateName.RETRY:
        document["retryCount"] = (check.retry_count or 0) + 1
    return document | {
        "state": CheckStateName.PENDING,
        "message": kueue.check_reset(check.state),
        "lastTransitionTime": clock.to_wire(now),
    }


def _assigned_flavors(workload: Workload) -> frozenset[str]:
    admission = workload.status.admission
    return frozenset(
        flavor
        for assignment in (admission.pod_set_assignments if admission else None) or ()
        for flavor in (assignment.flavors or {}).values()
    )
