"""Who holds what several workloads share, and who of them is charged for it."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from admission.base.names import FlavorName, Uid, WorkloadKey
from admission.engine import sharing
from admission.engine.model import Reservation, Workload

_Rank = tuple[int, Uid]
_Value = TypeVar("_Value")


class Sharing:
    """Users and holders of what is shared, by its key."""

    def __init__(self) -> None:
        self._keys: dict[WorkloadKey, frozenset[str]] = {}
        self._users: dict[str, dict[WorkloadKey, None]] = {}
        self._holders: dict[str, dict[WorkloadKey, _Rank]] = {}
        self._flavors: dict[tuple[str, WorkloadKey], FlavorName | None] = {}

    def note(self, workload: Workload, reservation: Reservation | None) -> tuple[WorkloadKey, ...]:
        """Takes a workload as it is now; others that are counted otherwise than before.

        Args:
            workload: as it asks.
            reservation: the quota that it holds; None where it holds none.
        """
        key, keys = workload.key, sharing.keys(workload)
        if not keys and key not in self._keys:
            return ()
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
        return self._others(before, key)

    def drop(self, key: WorkloadKey) -> tuple[WorkloadKey, ...]:
        """Forgets a workload; others that are counted otherwise than before."""
        before = {one: self._charged(one) for one in self._keys.get(key, ())}
        self._forget(key)
        return self._others(before, key)

    def waived(self, key: WorkloadKey) -> Mapping[str, FlavorName | None]:
        """What a workload is not charged for, and the flavor in which it is held."""
        found = {}
        for one in self._keys.get(key, ()):
            charged = self._charged(one)
            if charged is not None and charged != key:
                found[one] = self._flavors[one, charged]
        return found

    def one_of_each(self, keys: Iterable[WorkloadKey]) -> frozenset[WorkloadKey]:
        """Workloads of which no two share anything, the first ones first.

        Where one of two is given quota, the other has to go where that is.
        """
        found: list[WorkloadKey] = []
        taken: set[str] = set()
        for key in keys:
            shared = self._keys.get(key, frozenset())
            if taken.isdisjoint(shared):
                found.append(key)
                taken |= shared
        return frozenset(found)

    def _charged(self, key: str) -> WorkloadKey | None:
        holders = self._holders.get(key)
        return min(holders, key=lambda one: holders[one]) if holders else None

    def _others(
        self, before: Mapping[str, WorkloadKey | None], key: WorkloadKey
    ) -> tuple[WorkloadKey, ...]:
        changed = (one for one in sorted(before) if self._charged(one) != before[one])
        users = dict.fromkeys(user for one in changed for user in self._users.get(one, ()))
        users.pop(key, None)
        return tuple(users)

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
