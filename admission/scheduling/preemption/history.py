"""Past preemptions by pair, so that two workloads cannot evict each other for ever.

Every eviction uses up one of finitely many chances, so preemption among given workloads comes to
an end whatever the policies are. What is past is a value of each workload
(`model.PastPreemptions`), which is written with the eviction; here it is only looked up.

While both wait, the one that was preempted is decided after the one for which it had to leave.

Differs: ADR 0011, ADR 0011, ADR 0011; Kueue has no such bound, and an order of this kind only as
alpha.
"""

from collections.abc import Container
from typing import Final

from admission.base.names import ChargeKey
from admission.scheduling.model import NEVER_PREEMPTED, PastPreemptions, Workload

MOST: Final = 3
"""How often workloads of one lineage may preempt the same other one."""
KEPT: Final = 16
"""How many lineages of preemptors are remembered one by one of a workload."""


def with_one(past: PastPreemptions, preemptor: str, present: Container[str]) -> PastPreemptions:
    """Return past preemptions with one more.

    Of more than `KEPT` preemptors those are forgotten first of which no workload is there, the
    one that preempted longest ago first. Then the others that preempted longest ago are no longer
    told apart: the highest of their counts holds for every preemptor that is not listed. So no
    count of a preemptor that is there ever falls.

    Args:
        past: what is known.
        preemptor: its lineage.
        present: the lineages of all workloads.
    """
    listed = [entry for entry in past.counts if entry[0] != preemptor]
    listed.append((preemptor, past.by(preemptor) + 1))
    other_count, excess = past.others, len(listed) - KEPT
    if excess > 0:
        gone = [entry for entry in listed[:-1] if entry[0] not in present][:excess]
        listed = [entry for entry in listed if entry not in gone]
    while len(listed) > KEPT:
        other_count = max(other_count, listed.pop(0)[1])
    return PastPreemptions(tuple(listed), other_count)


class PreemptionHistory:
    """The past preemptions of all workloads by preemptor, and the preemptor of each victim."""

    def __init__(self) -> None:
        self._past: dict[ChargeKey, PastPreemptions] = {}
        self._spared: dict[str, set[ChargeKey]] = {}
        """Workloads that were preempted too often, by the lineage of the preemptor."""
        self._spared_by_others: set[ChargeKey] = set()
        """Workloads that nobody may preempt who is not listed."""
        self._left_for: dict[ChargeKey, ChargeKey] = {}
        self._victims: dict[ChargeKey, set[ChargeKey]] = {}

    def set_workload(self, workload: Workload) -> None:
        """Take the past of a workload as it is now."""
        past = workload.preempted_by
        if self._past.get(workload.key, NEVER_PREEMPTED) == past:
            return
        self._drop(workload.key)
        self._past[workload.key] = past
        for lineage, count in past.counts:
            if count >= MOST:
                self._spared.setdefault(lineage, set()).add(workload.key)
        if past.others >= MOST:
            self._spared_by_others.add(workload.key)

    def _drop(self, key: ChargeKey) -> None:
        for lineage, _ in self._past.pop(key, NEVER_PREEMPTED).counts:
            spared_keys = self._spared.get(lineage, set())
            spared_keys.discard(key)
            if not spared_keys:
                self._spared.pop(lineage, None)
        self._spared_by_others.discard(key)

    def spared(self, lineage: str) -> frozenset[ChargeKey]:
        """Return the workloads that those of a lineage may not evict again."""
        keys_spared = (
            key for key in self._spared_by_others if self._past[key].by(lineage) >= MOST
        )
        return frozenset((*self._spared.get(lineage, ()), *keys_spared))

    def note(self, preemptor: ChargeKey, victim: ChargeKey) -> None:
        """Record that the victim is to leave for the preemptor."""
        self._stay(victim)
        self._left_for[victim] = preemptor
        self._victims.setdefault(preemptor, set()).add(victim)

    def preemptor_of(self, victim: ChargeKey) -> ChargeKey | None:
        """Return the workload for which the victim had to leave; None once either got quota."""
        return self._left_for.get(victim)

    def has_quota(self, key: ChargeKey) -> None:
        """Record that a workload got quota: those that left for it need not wait any more."""
        self._stay(key)
        for victim in self._victims.pop(key, ()):
            del self._left_for[victim]

    def _stay(self, victim: ChargeKey) -> None:
        """Forget the preemptor of a workload."""
        preemptor = self._left_for.pop(victim, None)
        if preemptor is not None:
            victims = self._victims[preemptor]
            victims.discard(victim)
            if not victims:
                del self._victims[preemptor]

    def forget(self, key: ChargeKey) -> None:
        """Forget a workload that is gone, as preemptor and as victim."""
        self._drop(key)
        self.has_quota(key)
