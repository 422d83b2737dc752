"""The consumption of every LocalQueue, kept up to date (admission fair sharing)."""

from collections.abc import Mapping

from admission.base.names import LocalQueueKey, ResourceName, WorkloadKey
from admission.engine import fairusage
from admission.engine.fairusage import Consumption, Rank
from admission.engine.model import AdmissionFairSharing, PodSetAssignment, Workload
from admission.state.ledger import Ledger

_Amounts = dict[ResourceName, int]


class FairUsage:
    """Consumption and pending penalties per LocalQueue.

    Without configuration everybody ranks the same and nothing is kept.
    """

    def __init__(self, config: AdmissionFairSharing | None, ledger: Ledger) -> None:
        self._config = config
        self._ledger = ledger
        self._known: dict[LocalQueueKey, Consumption] = {}
        self._penalties: dict[LocalQueueKey, dict[WorkloadKey, _Amounts]] = {}

    def consumption(self, key: LocalQueueKey) -> Consumption | None:
        """What a LocalQueue's status shows; None without admission fair sharing."""
        return None if self._config is None else self._known.get(key, Consumption())

    def restore(self, key: LocalQueueKey, known: Consumption) -> None:
        """Takes over what a LocalQueue's status said, unless something newer is known."""
        if self._config is not None and not self._known.get(key, Consumption()).consumed:
            self._known[key] = known

    def drop(self, key: LocalQueueKey) -> None:
        """Forgets a LocalQueue."""
        self._known.pop(key, None)

    def rank(self, key: LocalQueueKey, weight: int) -> Rank:
        """Where a LocalQueue stands among those of its ClusterQueue; lower goes first."""
        assert self._config is not None
        consumed = self._known.get(key, Consumption()).consumed
        for pending in self._penalties.get(key, {}).values():
            consumed = fairusage.added(consumed, pending)
        return fairusage.rank(consumed, weight, self._config)

    def sample(self, key: LocalQueueKey, now_us: int) -> None:
        """Brings a LocalQueue up to date if its last sample is too old."""
        if self._config is None:
            return
        known = self._known.get(key)
        if known is None:
            self._known[key] = Consumption(updated_us=now_us)
        elif now_us - known.updated_us >= self._config.sampling_us:
            self._known[key] = self._sampled(key, known, now_us)

    def reserved(self, workload: Workload, pod_sets: tuple[PodSetAssignment, ...]) -> None:
        """Charges a LocalQueue for a reservation, until it is admitted or given up."""
        if self._config is None:
            return
        total: Mapping[ResourceName, int] = {}
        for one in pod_sets:
            total = fairusage.added(total, one.usage)
        charged = fairusage.penalty(fairusage.to_nanos(total), self._config)
        self._penalties.setdefault(workload.queue, {})[workload.key] = charged

    def admitted(self, workload: Workload, now_us: int) -> None:
        """Turns the charge for a workload into consumption."""
        charged = self.released(workload)
        if self._config is None or charged is None or self._config.half_life_us == 0:
            return
        key = workload.queue
        known = self._sampled(key, self._known.get(key, Consumption(updated_us=now_us)), now_us)
        self._known[key] = Consumption(
            consumed=fairusage.added(known.consumed, charged), updated_us=now_us
        )

    def released(self, workload: Workload) -> _Amounts | None:
        """Drops the charge for a workload, if there is one."""
        pending = self._penalties.get(workload.queue)
        charged = None if pending is None else pending.pop(workload.key, None)
        if pending is not None and not pending:
            del self._penalties[workload.queue]
        return charged

    def _sampled(self, key: LocalQueueKey, known: Consumption, now_us: int) -> Consumption:
        assert self._config is not None
        running: _Amounts = {}
        for fr, used in self._ledger.tally(key).usage.items():
            running[fr.resource] = running.get(fr.resource, 0) + used
        return fairusage.sampled(known, fairusage.to_nanos(running), now_us, self._config)
