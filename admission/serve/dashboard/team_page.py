"""What a team sees that may not read ClusterQueues: its LocalQueues, and who waits in them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from admission.answers import quota_use
from admission.scheduling.overview import LocalOverview
from admission.serve.dashboard import words

MOST_NAMESPACES = 50
"""Namespaces that are looked through for those that the caller may see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRow:
    """A LocalQueue.

    Attributes:
        name: of it.
        cluster_queue: behind it.
        holds: what its Workloads hold by flavor, GPUs first; empty for nothing.
        running: Workloads that are admitted.
        pending: Workloads that wait.
    """

    name: str
    cluster_queue: str
    holds: tuple[str, ...]
    running: int
    pending: int


def rows(overviews: Iterable[LocalOverview], namespace: str) -> list[LocalRow]:
    """Return the LocalQueues of a namespace."""
    return [_row(overview) for overview in overviews if overview.key.namespace == namespace]


def _row(overview: LocalOverview) -> LocalRow:
    pairs = sorted(
        (pair for pair, n in overview.used.items() if n),
        key=lambda pair: (quota_use.order_of(pair.resource), pair.flavor),
    )
    gpus = [pair for pair in pairs if quota_use.is_gpu(pair.resource)] or pairs
    return LocalRow(
        name=overview.key.name,
        cluster_queue=overview.cluster_queue,
        holds=tuple(
            f"{words.in_words({pair.resource: overview.used[pair]})} of {pair.flavor}"
            for pair in gpus
        ),
        running=overview.running,
        pending=overview.pending,
    )


def namespaces(overviews: Iterable[LocalOverview]) -> list[str]:
    """Return the namespaces that have LocalQueues."""
    return sorted({overview.key.namespace for overview in overviews})


def headline(rows_: Sequence[LocalRow]) -> str:
    """Return what a team holds and waits for, in a sentence."""
    running, pending = sum(row.running for row in rows_), sum(row.pending for row in rows_)
    if not running and not pending:
        return "Nothing runs and nothing waits."
    runs = f"{words.counted(running, 'Workload')} admitted"
    return f"{runs}, {f'{pending} waiting' if pending else 'nobody waits'}."
