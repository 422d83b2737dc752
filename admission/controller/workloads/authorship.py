"""Reservations that this process did not decide, and which program wrote them.

Those of other programs stand. One of this program is the late write of a former leader, which
may have given away the same quota (ADR 0003). The API server records who wrote which field.
"""

from collections.abc import Mapping
from typing import Any

from admission.base import names
from admission.base.names import WorkloadKey


class ForeignReservations:
    """Reservations that appeared from outside.

    Attributes:
        is_late: a former leader wrote one, and it has not been dealt with.
    """

    def __init__(self) -> None:
        self.is_late = False
        self._fresh: set[WorkloadKey] = set()
        self._unattributed: set[WorkloadKey] = set()

    def __bool__(self) -> bool:
        return bool(self._fresh)

    def add(self, key: WorkloadKey) -> None:
        """Take a reservation that was just seen."""
        self._fresh.add(key)

    def ask(self) -> tuple[WorkloadKey, ...]:
        """Mark the fresh ones as of unknown author, and return them, sorted."""
        fresh = tuple(sorted(self._fresh))
        self._unattributed.update(fresh)
        self._fresh.clear()
        return fresh

    def clear(self) -> None:
        """Ask nobody about the fresh ones: they stand, or all reservations were looked at."""
        self._fresh.clear()
        self.is_late = False

    def is_unattributed(self, key: WorkloadKey) -> bool:
        """Return whether the writer of a reservation is to be read before anything is done."""
        return key in self._unattributed

    def attribute(self, key: WorkloadKey, document: Mapping[str, Any] | None) -> None:
        """Take a Workload as it was read whole; None where it could not be."""
        self._unattributed.discard(key)
        if document is not None and is_ours(document):
            self.is_late = True

    def forget(self, key: WorkloadKey) -> None:
        """Forget a Workload that is gone."""
        self._fresh.discard(key)
        self._unattributed.discard(key)


def is_ours(document: Mapping[str, Any]) -> bool:
    """Return whether an instance of this program wrote the admission of a Workload.

    Args:
        document: the Workload, whole.
    """
    return any(
        entry.get("manager") == names.FIELD_MANAGER
        and "f:admission" in (entry.get("fieldsV1") or {}).get("f:status", {})
        for entry in document["metadata"].get("managedFields") or ()
    )
