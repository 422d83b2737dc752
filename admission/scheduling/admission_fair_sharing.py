"""The consumption of every LocalQueue, kept up to date (admission fair sharing)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from admission.base.names import ChargeKey, LocalQueueKey, ResourceName
from admission.scheduling import consumption
from admission.scheduling.changes import Changes
from admission.scheduling.consumption import Consumption, Rank
from admission.scheduling.model import AdmissionFairSharing, PodSetAssignment, Workload
from admission.scheduling.quota_holders import QuotaHolders

_Amounts = dict[ResourceName, int]


class _Charge(NamedTuple):
    """What a reservation costs its LocalQueue at once.

    Attributes:
        amounts: amounts in units of 1e-9.
        granted: nothing but a write is missing to the admission.
    """

    amounts: _Amounts
    granted: bool


class FairUsage:
    """Consumption and pending penalties per LocalQueue.

    Without configuration everybody ranks the same and nothing is kept.
    """

    def __init__(
        self, config: AdmissionFairSharing | None, ledger: QuotaHolders, changes: Changes
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._changes = changes
        self._known: dict[LocalQueueKey, Consumption] = {}
        self._charges: dict[LocalQueueKey, dict[ChargeKey, _Charge]] = {}
        self._due_us: int | None = None
        self._wakes = False

    def consumption(self, key: LocalQueueKey) -> Consumption | None:
        """Return what a LocalQueue's status shows; None without admission fair sharing.

        Before the first sample it is of the time 0. With what was charged for admissions that
        are being written: a successor finds these admitted and cannot know what they cost.
        """
        if self._config is None:
            return None
        consumption_ = self._known.get(key, Consumption())
        consumed = consumption_.consumed
        for charge in self._charges.get(key, {}).values():
            if charge.granted and self._config.half_life_us:
                consumed = consumption.added(consumed, charge.amounts)
        return Consumption(consumed=_without_zeros(consumed), updated_us=consumption_.updated_us)

    def restore(self, key: LocalQueueKey, stored: Consumption | None, now_us: int) -> None:
        """Take over what a LocalQueue's status says.

        Without past usage it is reckoned from now on: a status that tells of none is not
        rewritten as time passes, so its age says nothing.
        """
        if self._config is None:
            return
        if stored is None or not stored.has_usage:
            self._known[key] = Consumption(updated_us=now_us)
        else:
            updated_us = min(stored.updated_us, now_us)
            self._known[key] = Consumption(consumed=stored.consumed, updated_us=updated_us)
        self._expect(self._known[key])

    def open(self) -> None:
        """Add a LocalQueue, which is sampled for the first time when next one looks."""
        self._due_us = None

    def drop(self, key: LocalQueueKey) -> None:
        """Forget a LocalQueue."""
        self._known.pop(key, None)

    def rank(self, key: LocalQueueKey, weight: int) -> Rank:
        """Return the rank of a LocalQueue in its ClusterQueue; lower goes first."""
        assert self._config is not None
        consumed = self._known.get(key, Consumption()).consumed
        for pending in self._charges.get(key, {}).values():
            consumed = consumption.added(consumed, pending.amounts)
        return consumption.rank(consumed, weight, self._config)

    def sample(self, key: LocalQueueKey, now_us: int) -> None:
        """Bring a LocalQueue up to date if its last sample is too old."""
        if self._config is None or not now_us:  # somebody does not know the time
            return
        sample = self._known.get(key)
        if sample is None:
            sample = self._known[key] = Consumption(updated_us=now_us)
            self._changes.local(key)
        elif now_us - sample.updated_us >= self._config.sampling_us:
            sample = self._known[key] = self._sampled(key, sample, now_us)
            self._changes.local(key)
        self._expect(sample)

    def sample_due(self, keys: Iterable[LocalQueueKey], now_us: int) -> None:
        """Bring all LocalQueues up to date whose last sample is too old."""
        if self._config is None or (self._due_us is not None and now_us < self._due_us):
            return
        self._due_us, self._wakes = None, False
        for key in keys:
            self.sample(key, now_us)
            self._wakes = self._wakes or self._is_in_use(key)

    def next_us(self) -> int | None:
        """Return when the next sample is due; None while nothing was used lately."""
        return self._due_us if self._wakes else None

    def reserved(
        self, workload: Workload, pod_sets: tuple[PodSetAssignment, ...], *, granted: bool
    ) -> None:
        """Charge a LocalQueue for a reservation, until it is admitted or given up.

        Args:
            workload: who got it.
            pod_sets: what it got.
            granted: it is admitted as soon as that is written.
        """
        if self._config is None:
            return
        total: Mapping[ResourceName, int] = {}
        for pod_set in pod_sets:
            total = consumption.added(total, pod_set.usage)
        charged = consumption.penalty(consumption.to_nanos(total), self._config)
        self._charges.setdefault(workload.queue, {})[workload.key] = _Charge(charged, granted)

    def admitted(self, workload: Workload, now_us: int) -> None:
        """Turn the charge for a workload into consumption."""
        charged = self.released(workload)
        self._wakes = True
        if self._config is None or charged is None or self._config.half_life_us == 0:
            return
        key = workload.queue
        sample = self._sampled(key, self._known.get(key, Consumption(updated_us=now_us)), now_us)
        self._known[key] = Consumption(
            consumed=consumption.added(sample.consumed, charged), updated_us=now_us
        )
        self._expect(self._known[key])

    def released(self, workload: Workload) -> _Amounts | None:
        """Drop the charge for a workload, if there is one."""
        pending = self._charges.get(workload.queue)
        charged = None if pending is None else pending.pop(workload.key, None)
        if pending is not None and not pending:
            del self._charges[workload.queue]
        return None if charged is None else charged.amounts

    def _sampled(self, key: LocalQueueKey, sample: Consumption, now_us: int) -> Consumption:
        assert self._config is not None
        running: _Amounts = {}
        for fr, used in self._ledger.tally(key).usage.items():
            running[fr.resource] = running.get(fr.resource, 0) + used
        return consumption.sampled(sample, consumption.to_nanos(running), now_us, self._config)

    def _expect(self, sample: Consumption) -> None:
        """Notes when this consumption is to be sampled again."""
        assert self._config is not None
        due_us = sample.updated_us + self._config.sampling_us
        self._due_us = due_us if self._due_us is None else min(self._due_us, due_us)

    def _is_in_use(self, key: LocalQueueKey) -> bool:
        return bool(self._ledger.tally(key).admitted) or any(self._known[key].consumed.values())


def _without_zeros(amounts: Mapping[ResourceName, int]) -> _Amounts:
    return {resource: value for resource, value in amounts.items() if value}
