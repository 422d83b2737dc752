"""How long Workloads waited that fit: from the moment there was room to the reservation.

Decided from what a watch showed, after the run. The head of a queue is a waiting Workload of the
highest priority. It fits while its ClusterQueue has that much unused nominal quota and its cohort
that much unused quota, so that nobody has to be preempted for it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol


class Step(Enum):
    """What a watch showed of a Workload."""

    WAITS = "waits"
    """It was created, or lost its reservation."""
    RESERVES = "reserves"
    FREES = "frees"
    """It gave its reservation back."""


class Class(Protocol):
    """Equal Workloads of a queue."""

    @property
    def priority(self) -> int: ...
    @property
    def cpu(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Sight:
    """A step as a watch showed it.

    Attributes:
        moment: in seconds.
        queue: of the Workload.
        of: class of the Workload.
        step: what happened.
    """

    moment: float
    queue: str
    of: Class
    step: Step


@dataclass(slots=True)
class _Queue:
    cohort: str
    waiting: Counter[Class]
    used: int = 0
    fits_since: float | None = None

    def head(self) -> Class | None:
        """The class of the Workload that is next; None where nobody waits."""
        return max(self.waiting, key=lambda of: of.priority, default=None)


_SIGNS: Final = {Step.RESERVES: 1, Step.FREES: -1, Step.WAITS: 0}


def waits(sights: Iterable[Sight], cohorts: Mapping[str, str], nominal: int) -> list[float]:
    """Return the seconds of each Workload that fit until it had its reservation.

    A Workload that no longer fits before it was admitted, since another queue of its cohort took
    the room, counts from the next moment on in which it fits.

    Args:
        sights: in order of their moments.
        cohorts: by queue.
        nominal: quota of each queue.
    """
    queues = {name: _Queue(cohort, Counter()) for name, cohort in cohorts.items()}
    members: dict[str, list[_Queue]] = defaultdict(list)
    for queue in queues.values():
        members[queue.cohort].append(queue)
    used: Counter[str] = Counter()
    seconds: list[float] = []
    for sight in sights:
        queue = queues[sight.queue]
        if sight.step is Step.WAITS:
            queue.waiting[sight.of] += 1
        else:
            change = _SIGNS[sight.step] * sight.of.cpu
            queue.used += change
            used[queue.cohort] += change
        if sight.step is Step.RESERVES:
            queue.waiting[sight.of] -= 1
            if not queue.waiting[sight.of]:
                del queue.waiting[sight.of]
            if queue.fits_since is not None:
                seconds.append(sight.moment - queue.fits_since)
                queue.fits_since = None
        of_cohort = members[queue.cohort]
        free = nominal * len(of_cohort) - used[queue.cohort]
        for member in of_cohort if sight.step is not Step.WAITS else (queue,):
            head = member.head()
            if head is None or head.cpu > min(free, nominal - member.used):
                member.fits_since = None
            elif member.fits_since is None:
                member.fits_since = sight.moment
    return seconds
