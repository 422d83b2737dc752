"""Workloads that are to be looked at, in turn; those on the point of being released come first."""

from collections import OrderedDict
from collections.abc import Iterable

from admission.base.names import WorkloadKey


class Backlog:
    """Each Workload at most once, in the order in which it was first asked for.

    What waits here is judged when its turn comes, by what is known then: a pod that ended and was
    deleted meanwhile needs one write where it would have needed two.
    """

    def __init__(self) -> None:
        self._first: OrderedDict[WorkloadKey, None] = OrderedDict()
        self._others: OrderedDict[WorkloadKey, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._first) + len(self._others)

    def add(self, key: WorkloadKey) -> None:
        """Asks for a look; it keeps its place if it waits already."""
        if key not in self._first:
            self._others.setdefault(key)

    def add_all(self, keys: Iterable[WorkloadKey]) -> None:
        """Asks for a look at each."""
        for key in keys:
            self.add(key)

    def hurry(self, key: WorkloadKey) -> None:
        """Asks for a look ahead of all that are not in a hurry."""
        self._others.pop(key, None)
        self._first.setdefault(key)

    def take(self) -> WorkloadKey:
        """Removes and returns the next one.

        Raises:
            KeyError: there is none.
        """
        return (self._first or self._others).popitem(last=False)[0]
