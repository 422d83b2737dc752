"""Admitted workloads of which pods lost their nodes: which victims make room for these pods.

Such a workload holds its quota, so it waits in no queue. It may take the victims that it could
take if it waited, and no others.

Differs: in Kueue nothing is preempted for a workload that is admitted (ADR 0288).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from admission.base.names import ChargeKey, FlavorResource, WorkloadKey
from admission.scheduling import cycle, quota
from admission.scheduling.decisions import Evict
from admission.scheduling.hierarchy import QueueNode
from admission.scheduling.model import PreemptionPolicy, Workload
from admission.scheduling.places.model import Want
from admission.scheduling.places.search import StepBudget
from admission.scheduling.preemption import targets
from admission.scheduling.preemption.candidates import Need, Preemptor, Target
from admission.scheduling.reserving import ReservingWorkload
from admission.scheduling.snapshot import Snapshot

AGAIN_US: Final = 30_000_000
"""Between two searches for victims while nothing changes that is watched, such as a policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplacedWorkload:
    """An admitted workload with pods that have no node and find none.

    Attributes:
        workload: as last told.
        holder: what it holds.
        queue: its ClusterQueue.
        wants: its pods without a place.
        spared: workloads that it has preempted too often already.
    """

    workload: Workload
    holder: ReservingWorkload
    queue: QueueNode
    wants: tuple[Want, ...]
    spared: frozenset[ChargeKey]

    def asks(self) -> tuple[object, ...]:
        """Return what decides who its victims are; it is compared, and has no other use."""
        policies = self.queue.spec.preemption
        by_time = PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY in {
            policies.within_cluster_queue,
            policies.reclaim_within_cohort,
        }
        return (
            self.queue.name,
            self.workload.priority,
            self.holder.queue_us if by_time else None,
            self.wants,
            frozenset(self.holder.usage.items()),
            self.spared,
        )

    @property
    def preemptor(self) -> Preemptor:
        """Return it as a workload that takes victims."""
        return Preemptor(
            key=self.workload.key,
            uid=self.workload.uid,
            queue=self.queue,
            local_queue=self.workload.queue,
            priority=self.workload.priority,
            queue_us=self.holder.queue_us,
            spared=self.spared | {self.workload.key},
        )


@dataclass(frozen=True, slots=True)
class MadeRoom:
    """Who leaves for displaced workloads.

    Attributes:
        claimed: the victims, also those that are leaving already.
        evictions: of those that are not told yet.
        failed: displaced workloads with the error that ended the search for each.
    """

    claimed: tuple[Target, ...] = ()
    evictions: tuple[Evict, ...] = ()
    failed: tuple[tuple[WorkloadKey, Exception], ...] = ()


@dataclass(slots=True)
class DueSearches:
    """For which displaced workloads victims are to be looked for.

    Attributes:
        keys: the workloads, in the order in which they came.
        again_us: when those that still lack nodes are looked at again; None for never.
    """

    keys: dict[ChargeKey, None] = field(default_factory=dict)
    again_us: int | None = None

    def __bool__(self) -> bool:
        """Return whether there is any to look at."""
        return bool(self.keys)

    def note(self, keys: Iterable[ChargeKey]) -> None:
        """Have workloads looked at."""
        self.keys.update(dict.fromkeys(keys))

    def end(self, now_us: int, *, is_any_left: bool) -> None:
        """Note that all are looked at now.

        Args:
            now_us: the present.
            is_any_left: whether others, or the same, have to be looked at again later.
        """
        self.keys.clear()
        if not is_any_left:
            self.again_us = None
        elif self.again_us is None:
            self.again_us = now_us + AGAIN_US


def may_preempt(workload: Workload, holder: ReservingWorkload, queue: QueueNode) -> bool:
    """Return whether a workload with quota may ever preempt others to get nodes."""
    policies = queue.spec.preemption
    return (
        holder.admitted
        and not (holder.evicted or holder.is_pod or holder.surges)
        and not (workload.is_leaving or workload.never_preempts)
        and queue.active
        and (policies.within_cluster_queue, policies.reclaim_within_cohort)
        != (PreemptionPolicy.NEVER, PreemptionPolicy.NEVER)
    )


def is_free_of_siblings(want: Want) -> bool:
    """Return whether it does not matter where the other pods of the workload are."""
    needs = want.shape.needs
    return want.request is None and not (
        needs.together or needs.jointly or needs.apart or needs.spread
    )


def make_room(snapshot: Snapshot, displaced: Iterable[DisplacedWorkload]) -> MadeRoom:
    """Return the victims of those workloads that need some and may take them.

    Args:
        snapshot: what is decided on; left as it was.
        displaced: the oldest first; each is decided as if the victims of those before it had left.
    """
    claimed: list[Target] = []
    evictions: list[Evict] = []
    failed: list[tuple[WorkloadKey, Exception]] = []
    in_vain: set[tuple[object, ...]] = set()
    for entry in displaced:
        asks = entry.asks()
        if asks in in_vain:
            continue
        try:
            with snapshot.without(target.workload for target in claimed):
                victims = _victims_of(snapshot, entry)
        except Exception as error:  # noqa: BLE001  # one odd Workload must not stop all others
            failed.append((entry.workload.workload_key, error))
            continue
        if victims is None:
            in_vain.add(asks)
        elif victims:
            claimed += victims
            evictions += cycle.evictions(snapshot, entry.workload, entry.queue, victims)
    return MadeRoom(tuple(claimed), tuple(evictions), tuple(failed))


def _victims_of(snapshot: Snapshot, entry: DisplacedWorkload) -> tuple[Target, ...] | None:
    """Return the victims of one workload; none where it needs none, None where none suffice."""
    places, devices = snapshot.places, {
        name for want in entry.wants for name in want.shape.needs.devices
    }  # fmt: skip
    usage = entry.holder.usage
    short = frozenset(fr for fr in usage if fr.resource in devices) or frozenset(usage)
    with (
        places.ledger.placing_anew(entry.holder.key),
        places.sharing(StepBudget()),
        _without_usage(entry.queue, usage),
        snapshot.undone_on_error(),
    ):
        if places.fits(entry.wants):
            return ()
        need = Need(requests=usage, short=short, wants=entry.wants)
        return targets.choose(snapshot, entry.preemptor, need) or None


@contextmanager
def _without_usage(queue: QueueNode, usage: dict[FlavorResource, int]) -> Iterator[None]:
    """Suppose that quota is not used; the pods stay on their nodes."""
    quota.remove_all(queue, usage)
    try:
        yield
    finally:
        quota.add_all(queue, usage)
