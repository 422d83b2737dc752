"""In which order the nominees of a cycle are processed.

Source: kueue pkg/scheduler (scheduler.go entryOrdering, fair_sharing_iterator.go).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cmp_to_key

from admission.engine import fairshare, hierarchy, quota
from admission.engine.fairshare import Share
from admission.engine.hierarchy import CohortNode, Node
from admission.engine.nomination import Nominee
from admission.engine.snapshot import Snapshot


def in_order(snapshot: Snapshot, nominees: Sequence[Nominee]) -> Iterator[Nominee]:
    """The nominees, the next one chosen after the one before it was processed."""
    if snapshot.config.fair_sharing is not None:
        return _tournaments(nominees)
    return iter(sorted(nominees, key=_classical_key))


def _classical_key(nominee: Nominee) -> tuple[int, int, int, str, str]:
    """1. less borrowing, 2. higher priority, 3. earlier, 4. UID."""
    workload = nominee.head.workload
    return (
        nominee.borrowing,
        -workload.priority,
        nominee.head.queue_us,
        workload.uid,
        nominee.queue.name,
    )


def _tournaments(nominees: Sequence[Nominee]) -> Iterator[Nominee]:
    """Tree by tree, the winner of a tournament first."""
    trees: dict[int, list[Nominee]] = {}
    for nominee in sorted(nominees, key=lambda n: (n.queue.name, n.head.workload.uid)):
        trees.setdefault(id(nominee.queue.root()), []).append(nominee)
    for members in trees.values():
        top = members[0].queue.root()
        if isinstance(top, CohortNode):
            yield from _Tournament(top, members)
        else:
            yield from sorted(members, key=_tie_key)


@dataclass(frozen=True, slots=True)
class _Contender:
    """A nominee as one level of the tree sees it.

    Attributes:
        borrows: with the nominee, the level borrows something that the nominee asks for.
        share: of the level, with the nominee.
    """

    nominee: Nominee
    borrows: bool
    share: Share

    def beats(self, other: "_Contender") -> bool:
        """1. not borrowing, 2. lower share, 3. higher priority, 4. earlier, 5. UID."""
        if self.borrows != other.borrows:
            return other.borrows
        if self.share.order != other.share.order:
            return self.share.order < other.share.order
        return _tie_key(self.nominee) < _tie_key(other.nominee)


def _compare(left: _Contender, right: _Contender) -> int:
    return -1 if left.beats(right) else 1


def _contender(nominee: Nominee, level: Node) -> _Contender:
    """The nominee's standing at its queue or at a cohort above it."""
    usage = nominee.assignment.usage
    wanted = [fr for fr, value in usage.items() if value > 0]
    quota.add_all(nominee.queue, usage)
    found = _Contender(nominee, hierarchy.over_nominal(level, wanted), fairshare.of(level))
    quota.remove_all(nominee.queue, usage)
    return found


class _Tournament:
    """The nominees below one cohort, best first.

    What is processed changes usage only on the winner's path to the root, so standings beside
    that path stay valid: queues are sorted once, and of the child cohorts only the winner's
    finalist is looked for again.
    """

    def __init__(self, cohort: CohortNode, members: Sequence[Nominee]) -> None:
        self._cohort = cohort
        below: dict[int, tuple[CohortNode, list[Nominee]]] = {}
        own: list[_Contender] = []
        for member in members:
            side = _side(cohort, member)
            if side is None:
                own.append(_contender(member, member.queue))
            else:
                below.setdefault(id(side), (side, []))[1].append(member)
        self._own = sorted(own, key=cmp_to_key(_compare), reverse=True)
        self._below = [_Tournament(side, some) for side, some in below.values()]
        self._finalists: list[_Contender | None] = [None] * len(self._below)

    def __iter__(self) -> Iterator[Nominee]:
        while (best := self.best()) is not None:
            self.pop()
            yield best

    def best(self) -> Nominee | None:
        """The nominee to be processed next; None when nobody is left."""
        winner, _ = self._winner()
        return None if winner is None else winner.nominee

    def pop(self) -> None:
        """Takes the best nominee out."""
        _, index = self._winner()
        if index is None:
            self._own.pop()
        else:
            self._below[index].pop()
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


def _side(cohort: CohortNode, member: Nominee) -> CohortNode | None:
    """The child cohort on the way down to a nominee; None when its queue is a child itself."""
    found: CohortNode | None = None
    for node in member.queue.ancestors():
        if node is cohort:
            return found
        found = node
    raise AssertionError("the nominee is below the cohort")


def _tie_key(nominee: Nominee) -> tuple[int, int, str, str]:
    workload = nominee.head.workload
    return (-workload.priority, nominee.head.queue_us, workload.uid, nominee.queue.name)
