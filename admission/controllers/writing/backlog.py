"""Workloads that are to be looked at, in turn; those with a decision to be written go first."""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from admission.base.names import WorkloadKey


class Backlog:
    """Each Workload at most once, in the order in which it was first asked for.

    What waits here is judged when its turn comes, by what is known then: a pod that ended and was
    deleted meanwhile needs one write where it would have needed two.
    """

    def __init__(self) -> None:
        self._decided: OrderedDict[WorkloadKey, None] = OrderedDict()
        self._hurried: OrderedDict[WorkloadKey, None] = OrderedDict()
        self._others: OrderedDict[WorkloadKey, None] = OrderedDict()

    def add(self, key: WorkloadKey) -> None:
        """Asks for a look; it keeps its place if it waits already."""
        if key not in self._hurried and key not in self._decided:
            self._others.setdefault(key)

    def add_all(self, keys: Iterable[WorkloadKey]) -> None:
        """Asks for a look at each."""
        for key in keys:
            self.add(key)

    def hurry(self, key: WorkloadKey) -> None:
        """Asks for a look ahead of all about which nothing was decided: one may be released."""
        if key not in self._decided:
            self._others.pop(key, None)
            self._hurried.setdefault(key)

    def decide(self, keys: Iterable[WorkloadKey]) -> None:
        """Asks for a look at each ahead of all others, when decisions may be written."""
        for key in keys:
            self._others.pop(key, None)
            self._hurried.pop(key, None)
            self._decided.setdefault(key)

    def take(self, may_decide: Callable[[], bool]) -> WorkloadKey | None:
        """Removes and returns the next one; None when none may be looked at now.

        Args:
            may_decide: whether those may be looked at about which something was decided.
        """
        if self._decided and may_decide():
            return self._decided.popitem(last=False)[0]
        lane = self._hurried or self._others
        return lane.popitem(last=False)[0] if lane else None
