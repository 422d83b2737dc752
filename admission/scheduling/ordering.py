"""In which order the nominees of a cycle are processed.

Source: kueue pkg/scheduler (scheduler.go entryOrdering, fair_sharing_iterator.go).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cmp_to_key

from admission.base.names import WorkloadKey
from admission.scheduling import fairshare, hierarchy, quota
from admission.scheduling.decisions import Mode
from admission.scheduling.hierarchy import CohortNode, QuotaNode
from admission.scheduling.nomination import NominatedHead
from admission.scheduling.snapshot import Snapshot


def in_order(snapshot: Snapshot, nominees: Sequence[NominatedHead]) -> Iterator[NominatedHead]:
    """Return the nominees, the next one chosen after the one before it was processed.

    Before one that was preempted comes the one that it was preempted for, if that one fits, or
    waits for nothing but others that were told to leave (ADR 0011).
    """
    preemptors: _Preemptors = {}
    if any(nominee.head.preempted_for is not None for nominee in nominees):
        preemptors = {nominee.head.key: nominee for nominee in nominees if _will_fit(nominee)}
    if snapshot.config.fair_sharing is not None:
        return _tournaments(nominees, preemptors)
    return _classical(nominees, preemptors)


_Preemptors = dict[WorkloadKey, NominatedHead]
"""Nominees that come before their victims, until they are processed."""


def _will_fit(nominee: NominatedHead) -> bool:
    if nominee.mode is Mode.PREEMPT and nominee.targets:
        return all(target.workload.evicted for target in nominee.targets)
    return nominee.mode is Mode.FIT


def _first(nominee: NominatedHead, preemptors: _Preemptors) -> NominatedHead:
    """The nominee, or the one that comes before it; that one is taken out of the preemptors."""
    seen = {nominee.head.key}
    while (before := nominee.head.preempted_for) in preemptors and before not in seen:
        nominee = preemptors[before]
        seen.add(before)
    preemptors.pop(nominee.head.key, None)
    return nominee


def _classical(
    nominees: Sequence[NominatedHead], preemptors: _Preemptors
) -> Iterator[NominatedHead]:
    ordered = sorted(nominees, key=_classical_key)
    if not preemptors:
        yield from ordered
        return
    left = {nominee.head.key: nominee for nominee in ordered}
    for nominee in ordered:
        while nominee.head.key in left:
            yield left.pop(_first(nominee, preemptors).head.key)


def _classical_key(nominee: NominatedHead) -> tuple[int, int, int, str, str]:
    """1. less borrowing, 2. higher priority, 3. earlier, 4. UID."""
    workload = nominee.head.workload
    return (
        nominee.borrowing,
        -workload.priority,
        nominee.head.queue_us,
        workload.uid,
        nominee.queue.name,
    )


def _tournaments(
    nominees: Sequence[NominatedHead], preemptors: _Preemptors
) -> Iterator[NominatedHead]:
    """Tree by tree, the winner of a tournament first."""
    trees: dict[int, list[NominatedHead]] = {}
    for nominee in sorted(nominees, key=lambda n: (n.queue.name, n.head.workload.uid)):
        trees.setdefault(id(nominee.queue.root()), []).append(nominee)
    for members in trees.values():
        top = members[0].queue.root()
        if isinstance(top, CohortNode):
            tournament = _Tournament(top, members)
            # A preemptor that is in another tree by now takes nothing from its victims.
            ours = {n.head.key: n for n in members if n.head.key in preemptors}
            while (best := tournament.best()) is not None:
                first = _first(best, ours)
                tournament.remove(first)
                yield first
        else:
            yield from sorted(members, key=_tie_key)


@dataclass(frozen=True, slots=True)
class _Contender:
    """A nominee as one level of the tree sees it.

    Attributes:
        borrows: with the nominee, the level borrows something that the nominee asks for.
        share: what sorts the share of the level, with the nominee.
    """

    nominee: NominatedHead
    borrows: bool
    share: fairshare.Order

    def beats(self, other: "_Contender") -> bool:
        """1. not borrowing, 2. lower share, 3. higher priority, 4. earlier, 5. UID."""
        if self.borrows != other.borrows:
            return other.borrows
        if self.share != other.share:
            return self.share < other.share
        return _tie_key(self.nominee) < _tie_key(other.nominee)


def _compare(left: _Contender, right: _Contender) -> int:
    return -1 if left.beats(right) else 1


def _contender(nominee: NominatedHead, level: QuotaNode) -> _Contender:
    """The nominee's standing at its queue or at a cohort above it."""
    usage = nominee.assignment.usage
    pairs = [fr for fr, value in usage.items() if value > 0]
    quota.add_all(nominee.queue, usage)
    contender = _Contender(
        nominee, hierarchy.over_nominal(level, pairs), fairshare.of(level).order
    )
    quota.remove_all(nominee.queue, usage)
    return contender


class _Tournament:
    """The nominees below one cohort, best first.

    What is processed changes usage only on the winner's path to the root, so standings beside
    that path stay valid: queues are sorted once, and of the child cohorts only the winner's
    finalist is looked for again.
    """

    def __init__(self, cohort: CohortNode, members: Sequence[NominatedHead]) -> None:
        self._cohort = cohort
        below: dict[int, tuple[CohortNode, list[NominatedHead]]] = {}
        own_contenders: list[_Contender] = []
        for member in members:
            side = _side(cohort, member)
            if side is None:
                own_contenders.append(_contender(member, member.queue))
            else:
                below.setdefault(id(side), (side, []))[1].append(member)
        self._own = sorted(own_contenders, key=cmp_to_key(_compare), reverse=True)
        self._below = [_Tournament(side, some) for side, some in below.values()]
        self._finalists: list[_Contender | None] = [None] * len(self._below)

    def best(self) -> NominatedHead | None:
        """The nominee to be processed next; None when nobody is left."""
        winner, _ = self._winner()
        return None if winner is None else winner.nominee

    def remove(self, nominee: NominatedHead) -> None:
        """Takes a nominee out, which is processed now."""
        side = _side(self._cohort, nominee)
        if side is None:
            at = len(self._own) - 1  # mostly the last one, which is the best
            while self._own[at].nominee is not nominee:
                at -= 1
            del self._own[at]
            return
        for index, below in enumerate(self._below):
            if below._cohort is side:  # noqa: SLF001 -- same class
                below.remove(nominee)
                self._finalists[index] = None

    def _winner(self) -> tuple[_Contender | None, int | None]:
        """The best contender, and the child cohort it comes from; None for an own queue."""
        best = self._own[-1] if self._own else None
        source: int | None = None
        for index, side in enumerate(self._below):
            finalist = self._finalists[index]
            if finalist is None and (nominee := side.best()) is not None:
                finalist = self._finalists[index] = _contender(nominee, side._cohort)  # noqa: SLF001 -- same class
            if finalist is not None and (best is None or finalist.beats(best)):
                best, source = finalist, index
        return best, source


def _side(cohort: CohortNode, member: NominatedHead) -> CohortNode | None:
    """The child cohort on the way down to a nominee; None when its queue is a child itself."""
    highest: CohortNode | None = None
    for node in member.queue.ancestors():
        if node is cohort:
            return highest
        highest = node
    raise AssertionError("the nominee is below the cohort")


def _tie_key(nominee: NominatedHead) -> tuple[int, int, str, str]:
    workload = nominee.head.workload
    return (-workload.priority, nominee.head.queue_us, workload.uid, nominee.queue.name)
