"""Who holds what several workloads share, and who of them is charged for it."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from admission.base.names import ClusterQueueName, FlavorName, Uid, WorkloadKey
from admission.engine import sharing
from admission.engine.hierarchy import QueueNode
from admission.engine.model import Reservation, Workload
from admission.state.pending import Pending

_Rank = tuple[int, Uid]
_Value = TypeVar("_Value")


class Sharing:
    """Users and holders of what is shared, by its key."""

    def __init__(self) -> None:
        self._keys: dict[WorkloadKey, frozenset[str]] = {}
        self._users: dict[str, dict[WorkloadKey, None]] = {}
        self._holders: dict[str, dict[WorkloadKey, _Rank]] = {}
        self._flavors: dict[tuple[str, WorkloadKey], FlavorName | None] = {}
        self._concerned: dict[WorkloadKey, None] = {}

    def note(self, workload: Workload, reservation: Reservation | None) -> None:
        """Takes a workload as it is now, for good or as it is assumed to be.

        Args:
            workload: as it asks.
            reservation: the quota that it holds; None where it holds none.
        """
        key, keys = workload.key, sharing.keys(workload)
        if not keys and key not in self._keys:
            return
        concerned = keys | self._keys.get(key, frozenset())
        before = {one: self._charged(one) for one in concerned}
        self._forget(key)
        if keys:
            self._keys[key] = keys
        for one in keys:
            self._users.setdefault(one, {})[key] = None
            if reservation is not None:
                rank = (reservation.reserved_us, workload.uid)
                self._holders.setdefault(one, {})[key] = rank
                self._flavors[one, key] = sharing.flavor_of(one, workload, reservation)
        self._concern_others(before, key)

    def drop(self, key: WorkloadKey) -> None:
        """Forgets a workload."""
        before = {one: self._charged(one) for one in self._keys.get(key, ())}
        self._forget(key)
        self._concerned.pop(key, None)
        self._concern_others(before, key)

    def take_concerned(self) -> tuple[WorkloadKey, ...]:
        """Workloads that are counted otherwise for what was noted since the last call."""
        found = tuple(self._concerned)
        self._concerned.clear()
        return found

    def waived(self, key: WorkloadKey) -> Mapping[str, FlavorName | None]:
        """What a workload is not charged for, and the flavor in which it is held."""
        found = {}
        for one in self._keys.get(key, ()):
            charged = self._charged(one)
            if charged is not None and charged != key:
                found[one] = self._flavors[one, charged]
        return found

    def relieved(self, workload: Workload, queue: QueueNode) -> Workload:
        """A waiting workload as it is counted in a ClusterQueue."""
        held = self.waived(workload.key)
        if not held:
            return workload
        return sharing.relieved(workload, held, queue.spec.resource_groups)

    def apart(
        self, chosen: Iterable[tuple[ClusterQueueName, Pending]]
    ) -> list[tuple[ClusterQueueName, Pending]]:
        """Those of which no two share anything, the first ones first.

        Where one of two is given quota, the other has to go where that is.
        """
        found: list[tuple[ClusterQueueName, Pending]] = []
        taken: set[str] = set()
        for name, item in chosen:
            shared = self._keys.get(item.workload.key, frozenset())
            if taken.isdisjoint(shared):
                found.append((name, item))
                taken |= shared
        return found

    def _charged(self, key: str) -> WorkloadKey | None:
        holders = self._holders.get(key)
        return min(holders, key=lambda one: holders[one]) if holders else None

    def _concern_others(self, before: Mapping[str, WorkloadKey | None], key: WorkloadKey) -> None:
        changed = (one for one in sorted(before) if self._charged(one) != before[one])
        for user in (user for one in changed for user in self._users.get(one, ())):
            if user != key:
                self._concerned[user] = None

    def _forget(self, key: WorkloadKey) -> None:
        for one in self._keys.pop(key, ()):
            self._flavors.pop((one, key), None)
            _remove(self._users, one, key)
            _remove(self._holders, one, key)


def _remove(index: dict[str, dict[WorkloadKey, _Value]], key: str, member: WorkloadKey) -> None:
    members = index.get(key, {})
    members.pop(member, None)
    if not members:
        index.pop(key, None)
