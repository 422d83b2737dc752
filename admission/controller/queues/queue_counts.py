"""Counts of each LocalQueue's Workloads: not admitted, with the reason, and finished.

Source: kueue pkg/metrics/metrics.go (unadmitted_workloads, finished_workloads) for the labels.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from admission.base import conditions
from admission.base.names import LocalQueueKey, WorkloadKey
from admission.objects.workload import Workload
from admission.reasons import kueue


class Unadmitted(NamedTuple):
    """Why a Workload is not admitted.

    Attributes:
        reason: of the condition Admitted=False.
        cause: reason of the condition QuotaReserved=False; empty where quota is reserved.
    """

    reason: str
    cause: str


class WorkloadCounts(NamedTuple):
    """Workloads of one or more LocalQueues."""

    finished: int
    unadmitted: Mapping[Unadmitted, int]


_Entry = tuple[LocalQueueKey, Unadmitted]
_FINISHED: Final = Unadmitted("", "finished")
_NEW: Final = Unadmitted(kueue.NO_RESERVATION.reason, conditions.WaitReason.PENDING_EVALUATION)


class QueueCounts:
    """Counts Workloads by LocalQueue as they are seen."""

    def __init__(self) -> None:
        self._entries: dict[WorkloadKey, _Entry] = {}
        self._shared: dict[_Entry, _Entry] = {}
        self._counts: dict[LocalQueueKey, Counter[Unadmitted]] = {}
        self._changed: set[LocalQueueKey] = set()

    def on_update(self, workload: Workload) -> None:
        """Take a Workload as it is now."""
        metadata = workload.metadata
        key = WorkloadKey(metadata.namespace, metadata.name)
        kind = _kind_of(workload)
        queue = LocalQueueKey(metadata.namespace, workload.spec.queue_name)
        entry = None if kind is None else self._share((queue, kind))
        if self._entries.get(key) == entry:
            return
        self.on_delete(key)
        if entry is not None:
            self._entries[key] = entry
            self._counts.setdefault(queue, Counter())[entry[1]] += 1
            self._changed.add(queue)

    def _share(self, entry: _Entry) -> _Entry:
        """The same object for equal entries: there are many Workloads and few sorts."""
        return self._shared.setdefault(entry, entry)

    def on_delete(self, key: WorkloadKey) -> None:
        """Handle the deletion of a Workload."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        queue, kind = entry
        counts = self._counts[queue]
        counts[kind] -= 1
        if not counts[kind]:
            del counts[kind]
        if not counts:
            del self._counts[queue]
        self._changed.add(queue)

    def take_changed(self) -> frozenset[LocalQueueKey]:
        """Return the LocalQueues whose numbers differ since the last call."""
        changed = frozenset(self._changed)
        self._changed.clear()
        return changed

    def count(self, queues: Iterable[LocalQueueKey]) -> WorkloadCounts:
        """Return the numbers of some LocalQueues together."""
        total: Counter[Unadmitted] = Counter()
        for queue in queues:
            total.update(self._counts.get(queue, {}))
        finished = total.pop(_FINISHED, 0)
        return WorkloadCounts(finished=finished, unadmitted=total)


def _kind_of(workload: Workload) -> Unadmitted | None:
    """None for an admitted one, which is counted elsewhere."""
    status = workload.status
    if status.is_true(conditions.FINISHED):
        return _FINISHED
    if status.is_true(conditions.ADMITTED):
        return None
    admitted = status.condition(conditions.ADMITTED)
    reserved = status.condition(conditions.QUOTA_RESERVED)
    if reserved is None:
        return _NEW if admitted is None else Unadmitted(admitted.reason, _NEW.cause)
    cause = "" if reserved.status == "True" else reserved.reason
    return Unadmitted(admitted.reason if admitted is not None else _NEW.reason, cause)
