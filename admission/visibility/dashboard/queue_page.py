"""The page of a ClusterQueue: who waits at which place and why, and who holds its quota."""

from collections.abc import Sequence
from dataclasses import dataclass

from admission.base import quantity
from admission.base.names import LocalQueueKey, WorkloadKey
from admission.objects.workload import Workload
from admission.scheduling.decisions import Wait
from admission.scheduling.reserving import ReservingWorkload
from admission.visibility.dashboard import bars
from admission.visibility.lists import Place

PAGE = 50
"""Rows of a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A Workload that waits.

    Attributes:
        place: in the ClusterQueue, counted from 1.
        key: of the Workload; None for one that the caller may not see.
        queue: its LocalQueue.
        priority: of the Workload.
        since: when it was created; RFC 3339.
        asks: what it asks for, in words.
        why: why it waits; empty before it was tried.
    """

    place: int
    key: WorkloadKey | None
    queue: LocalQueueKey | None = None
    priority: int = 0
    since: str = ""
    asks: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A Workload, or a pod by itself, that holds quota.

    Attributes:
        key: of the Workload; None for one that the caller may not see.
        holds: what it holds, in words.
        since_us: since when, in microseconds since the epoch.
        priority: of the Workload.
        state: what becomes of it.
    """

    key: WorkloadKey | None
    holds: str
    since_us: int
    priority: int
    state: str


def waiting(place: Place, workload: Workload | None, wait: Wait | None) -> Waiting:
    """Return the row of a Workload that the caller may see."""
    meta = None if workload is None else workload.metadata
    return Waiting(
        place=place.in_cluster_queue + 1,
        key=place.workload,
        queue=place.queue,
        priority=0 if workload is None else workload.spec.priority or 0,
        since="" if meta is None else meta.creation_timestamp or "",
        asks=asked(wait),
        why="" if wait is None else why(wait),
    )


def asked(wait: Wait | None) -> str:
    """Return what a Workload that waits asks for, in words."""
    totals: dict[str, int] = {}
    for _, requests in () if wait is None else wait.requests:
        for name, value in requests.items():
            totals[name] = totals.get(name, 0) + value
    return bars.asked(totals)


def why(wait: Wait) -> str:
    """Return why a Workload waits."""
    return wait.message


def in_order(found: Sequence[ReservingWorkload]) -> list[ReservingWorkload]:
    """Return who holds most first; ties by time and identity."""
    return sorted(found, key=lambda one: (-sum(one.usage.values()), one.reserved_us, one.key))


def holding(one: ReservingWorkload) -> Holding:
    """Return the row of a Workload that the caller may see."""
    used = [
        f"{quantity.in_words(pair.resource, value)} {pair.flavor} {bars.short(pair.resource)}"
        for pair, value in sorted(one.usage.items())
        if value
    ]
    state = "admitted" if one.admitted else "quota reserved"
    if one.is_pod:
        state = "pod charged by itself"
    if one.evicted:
        state = "about to leave"
    return Holding(
        key=one.key,
        holds=", ".join(used),
        since_us=one.reserved_us,
        priority=one.priority,
        state=state,
    )
