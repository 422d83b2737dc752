"""Deleted pods that others replace, and the preemptions that are remembered of them.

The Workload of a single pod goes with the pod. Its past preemptions are taken over by the
Workload of a pod that its controller makes instead (ADR 0011).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from admission.base import conditions, names
from admission.base.clock import Clock
from admission.base.names import WorkloadKey
from admission.objects import past_preemptions
from admission.objects.workload import Workload
from admission.scheduling.model import NEVER_PREEMPTED, PastPreemptions

KEEPS: Final = timedelta(hours=1)
"""How long the past of a Workload is kept that is gone."""
_BY_ITSELF: Final = frozenset({"Succeeded", "Failed"})

_Ident = tuple[str, str]
"""Namespace, and UID of what controls pods."""


@dataclass(slots=True)
class _Predecessor:
    """A Workload with past preemptions.

    Attributes:
        gone: since when it is gone; None while it is there.
    """

    key: WorkloadKey
    uid: str
    created: str
    past: PastPreemptions
    gone: datetime | None = None


class Predecessors:
    """Workloads of single pods that were preempted, and by which Workloads they were followed."""

    def __init__(self, clock: Clock, is_leaving: Callable[[WorkloadKey], bool]) -> None:
        """Prepare an empty index.

        Args:
            clock: source of time.
            is_leaving: whether the pod of a Workload is gone or being deleted.
        """
        self._clock = clock
        self._is_leaving = is_leaving
        self._known: dict[_Ident, dict[str, _Predecessor]] = {}
        """By what controls their pods, and by their UID."""
        self._heirs: dict[str, WorkloadKey] = {}
        """Who has taken over the past of a Workload, by the UID of that."""
        self._gone: dict[str, _Ident] = {}
        """Predecessors that are gone, the one that went first comes first."""
        self._promised: dict[WorkloadKey, _Predecessor] = {}
        """What the Workload takes over that is to be made under a key."""

    # ------------------------------------------------------------------------------- seeing

    def on_update(self, workload: Workload) -> None:
        """Take a Workload as it is now."""
        ident = _ident(workload)
        if ident is None:
            return
        metadata = workload.metadata
        predecessor = past_preemptions.predecessor(metadata)
        if predecessor:
            self._promised.pop(workload.key(), None)
            self._heirs[predecessor] = workload.key()
        self._gone.pop(metadata.uid, None)
        past = workload.past_preemptions()
        if past == NEVER_PREEMPTED or _has_ended_by_itself(workload):
            self._forget(ident, metadata.uid)
            return
        self._known.setdefault(ident, {})[metadata.uid] = _Predecessor(
            workload.key(), metadata.uid, metadata.creation_timestamp or "", past
        )

    def on_delete(self, workload: Workload) -> None:
        """Take the news that a Workload is gone; what nobody took over is kept for a while."""
        ident, uid = _ident(workload), workload.metadata.uid
        if ident is None:
            return
        predecessor = past_preemptions.predecessor(workload.metadata)
        if predecessor and predecessor not in self._known.get(ident, {}):
            self._heirs.pop(predecessor, None)
        removed = self._known.get(ident, {}).get(uid)
        if removed is not None and uid in self._heirs and self._is_taken(uid):
            self._forget(ident, uid)
        elif removed is not None:
            removed.gone = self._clock.now()
            self._gone[uid] = ident
        for late in tuple(self._late()):
            self._forget(self._gone[late], late)

    def _is_taken(self, uid: str) -> bool:
        """Return whether a Workload is there, or was, that took over the past of another one."""
        return self._heirs[uid] not in self._promised

    def _late(self) -> Iterator[str]:
        """Yield the predecessors that went so long ago that nobody comes in their place."""
        before = self._clock.now() - KEEPS
        for uid, ident in self._gone.items():
            gone = self._known[ident][uid].gone
            if gone is None or gone > before:
                return
            yield uid

    def _forget(self, ident: _Ident, uid: str) -> None:
        self._gone.pop(uid, None)
        predecessors = self._known.get(ident, {})
        if predecessors.pop(uid, None) is not None:
            self._heirs.pop(uid, None)
        if not predecessors:
            self._known.pop(ident, None)

    # ----------------------------------------------------------------------------- taking over

    def inherited(self, key: WorkloadKey, controller: str) -> str:
        """Return the annotation of a Workload that is to be made; nothing without a predecessor.

        Each predecessor is followed by one; the one that was created first comes first.

        Args:
            key: of the Workload.
            controller: UID of what controls its pod.
        """
        promised = self._predecessor(key, controller)
        if promised is None:
            return ""
        return past_preemptions.annotation(promised.uid, promised.past)

    def promise(self, key: WorkloadKey, controller: str) -> str:
        """Return that annotation, and take that the Workload is made with it."""
        promised = self._predecessor(key, controller)
        if promised is not None:
            self._promised[key] = promised
            self._heirs[promised.uid] = key
        return self.inherited(key, controller)

    def _predecessor(self, key: WorkloadKey, controller: str) -> _Predecessor | None:
        promised = self._promised.get(key)
        if promised is not None:
            return promised
        predecessors = self._known.get((key.namespace, controller), {}).values()
        left = [each for each in predecessors if each.uid not in self._heirs and self._left(each)]
        return min(left, key=lambda each: (each.created, each.uid), default=None)

    def _left(self, predecessor: _Predecessor) -> bool:
        if predecessor.gone is not None:
            return self._clock.now() - predecessor.gone < KEEPS
        return self._is_leaving(predecessor.key)

    def forget_pod(self, key: WorkloadKey) -> None:
        """Forget a pod that is gone before its Workload was made; another may take its part."""
        promised = self._promised.pop(key, None)
        if promised is not None:
            self._heirs.pop(promised.uid, None)


def _ident(workload: Workload) -> _Ident | None:
    controller = workload.metadata.annotation(names.POD_CONTROLLER)
    return (workload.metadata.namespace, controller) if controller else None


def _has_ended_by_itself(workload: Workload) -> bool:
    finished = workload.status.condition(conditions.FINISHED)
    is_finished = finished is not None and finished.status == "True"
    return (
        finished is not None
        and is_finished
        and finished.reason in _BY_ITSELF
        and not workload.status.is_true(conditions.EVICTED)
    )
