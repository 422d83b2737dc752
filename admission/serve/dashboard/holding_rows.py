"""Who holds quota, as rows of a table, and how many rows lists have."""

from collections.abc import Sequence
from dataclasses import dataclass

from admission.answers import quota_use
from admission.base.names import ChargeKey
from admission.scheduling.reserving import ReservingWorkload
from admission.serve.dashboard import words

PAGE = 50
"""Rows of a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A Workload, or a pod by itself, that holds quota.

    Attributes:
        key: of the Workload; None for one that the caller may not see.
        holds: what it holds, in words.
        user: who asked for it.
        since_us: since when, in microseconds since the epoch.
        priority: of the Workload.
        state: what becomes of it.
    """

    key: ChargeKey | None
    holds: str
    user: str
    since_us: int
    priority: int
    state: str


def in_order(workloads: Sequence[ReservingWorkload]) -> list[ReservingWorkload]:
    """Return who holds most first; ties by time and identity."""
    return sorted(
        workloads,
        key=lambda workload: (-sum(workload.usage.values()), workload.reserved_us, workload.key),
    )


def holding(workload: ReservingWorkload) -> Holding:
    """Return the row of a Workload that the caller may see."""
    pairs = sorted(
        (pair for pair, value in workload.usage.items() if value),
        key=lambda pair: (quota_use.order_of(pair.resource), pair.flavor),
    )
    pairs = [pair for pair in pairs if quota_use.is_gpu(pair.resource)] or pairs
    used = [
        f"{words.in_words({pair.resource: workload.usage[pair]})} of {pair.flavor}"
        for pair in pairs
    ]
    state = "admitted" if workload.admitted else "quota reserved"
    if workload.is_pod:
        state = "pod charged by itself"
    if workload.evicted:
        state = "about to leave"
    return Holding(
        key=workload.key,
        holds=", ".join(used),
        user=workload.user.name,
        since_us=workload.reserved_us,
        priority=workload.priority,
        state=state,
    )
