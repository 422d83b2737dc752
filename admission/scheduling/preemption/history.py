"""Who preempted whom how often, so that two workloads cannot evict each other for ever.

Every eviction uses up one of finitely many chances, so preemption among given workloads comes to
an end whatever the policies are. While both wait, the one that was preempted is decided after the
one for which it had to leave.

Differs: ADR 0011, ADR 0076; Kueue has no such bound, and an order of this kind only as alpha.
"""

from typing import Final

from admission.base.names import WorkloadKey

MOST: Final = 3
"""How often one workload may preempt the same other one."""


class PreemptionHistory:
    """Counts evictions per preemptor and victim, as long as both exist."""

    def __init__(self) -> None:
        self._counts: dict[WorkloadKey, dict[WorkloadKey, int]] = {}
        self._preemptors: dict[WorkloadKey, set[WorkloadKey]] = {}
        self._leaving: set[WorkloadKey] = set()
        self._left_for: dict[WorkloadKey, WorkloadKey] = {}

    def note(self, preemptor: WorkloadKey, victim: WorkloadKey) -> None:
        """The victim is to leave for the preemptor.

        Until it has left, that is decided again in every cycle, and counts once.
        """
        if victim in self._leaving:
            return
        self._leaving.add(victim)
        victims = self._counts.setdefault(preemptor, {})
        victims[victim] = victims.get(victim, 0) + 1
        self._preemptors.setdefault(victim, set()).add(preemptor)
        self._left_for[victim] = preemptor

    def has_left(self, victim: WorkloadKey) -> None:
        """The victim's eviction is over; the next one counts again."""
        self._leaving.discard(victim)

    def spared(self, preemptor: WorkloadKey) -> frozenset[WorkloadKey]:
        """Those that the preemptor may not evict again."""
        victims = self._counts.get(preemptor)
        if not victims:
            return frozenset()
        return frozenset(victim for victim, count in victims.items() if count >= MOST)

    def preemptor_of(self, victim: WorkloadKey) -> WorkloadKey | None:
        """Return the workload for which the victim had to leave; None once either got quota."""
        return self._left_for.get(victim)

    def has_quota(self, key: WorkloadKey) -> None:
        """A workload got quota: those that left for it need not wait for it any more."""
        self._left_for.pop(key, None)
        for victim in self._counts.get(key, ()):
            if self._left_for.get(victim) == key:
                del self._left_for[victim]

    def forget(self, key: WorkloadKey) -> None:
        """A workload is gone, as preemptor and as victim."""
        self._leaving.discard(key)
        self.has_quota(key)
        for victim in self._counts.pop(key, ()):
            self._preemptors[victim].discard(key)
            if not self._preemptors[victim]:
                del self._preemptors[victim]
        for preemptor in self._preemptors.pop(key, ()):
            self._counts[preemptor].pop(key, None)
