"""GPU-time of a namespace from its Workloads, for who may not read the records of all teams.

Workloads that were deleted, and what others held before an eviction, cannot be counted: the whole
time is a hole of the record that `of_workloads` makes.
"""

from collections.abc import Mapping
from typing import NamedTuple

from admission.answers import cluster, quota_use, usage
from admission.base import clock, conditions
from admission.base.names import WorkloadKey
from admission.kube.api import Api
from admission.objects.usage_record import Account, OwnerAccount, Record, RecordedOwner, Runs
from admission.objects.views import Pod
from admission.objects.workload import Workload
from admission.scheduling import reserving
from admission.scheduling.reserving import ReservingWorkload


class NamespaceUsage(NamedTuple):
    """What Workloads say of a time.

    Attributes:
        record: their sum; all of its time is a hole.
        running: run times until now of owners that hold quota.
        missing: what could not be read or counted, a sentence each.
    """

    record: Record
    running: Mapping[RecordedOwner, Runs]
    missing: tuple[str, ...]


def of_workloads(api: Api, namespace: str, since: int, now: int) -> NamespaceUsage | None:
    """Return what the Workloads that are still there held; None where none may be read.

    Args:
        api: is asked with the rights of the caller.
        namespace: is read alone; no other one is.
        since: from when on time counts, seconds since 1970.
        now: until when.

    Raises:
        KubeError: the API server did not answer.
    """
    objects = cluster.read_holders(api, namespace, is_alone=True)
    if cluster.is_unread(objects.missing, "Workload"):
        return None
    read = cluster.relate(objects)
    pods = {(pod.metadata.namespace, pod.metadata.name): pod for pod in objects.pods}
    counts = _Counts(since, now, pods)
    for key, value in read.values.items():
        if value.reservation is not None:
            counts.add(key, read.workloads[key], reserving.of(value, value.reservation))
    record = Record(
        begin=since,
        until=now,
        usage=counts.usage,
        runs=counts.ended,
        owners=counts.owners,
        owners_from=since,
        holes=((since, now),),
    )
    return NamespaceUsage(record, counts.running, (*read.missing, *counts.uncounted))


class _Counts:
    def __init__(self, since: int, now: int, pods: Mapping[tuple[str, str], Pod]) -> None:
        self._since = since
        self._now = now
        self._pods = pods
        self.usage: dict[Account, int] = {}
        self.owners: dict[OwnerAccount, int] = {}
        self.ended: dict[RecordedOwner, Runs] = {}
        self.running: dict[RecordedOwner, Runs] = {}
        self._partly_held = 0

    @property
    def uncounted(self) -> tuple[str, ...]:
        """Return what is not counted, as a sentence; nothing where all is."""
        if not self._partly_held:
            return ()
        subject = "1 Workload" if self._partly_held == 1 else f"{self._partly_held:,} Workloads"
        reason = "some pods ended before the others, and when is not known"
        return (f"hours of {subject} are not counted: {reason}",)

    def add(self, key: WorkloadKey, view: Workload, charge: ReservingWorkload) -> None:
        """Count what a Workload held; of one that gave back a part, nobody knows when."""
        finished = _finished(view)
        end = self._now if finished is None else finished
        begin = charge.reserved_us // 1_000_000
        is_reduced = bool(view.status.reclaimable_pods)  # perhaps to nothing
        has_gpus = any(
            (amount or is_reduced) and quota_use.is_gpu(pair.resource)
            for pair, amount in charge.usage.items()
        )
        if not has_gpus or not begin or end <= self._since:
            return
        owner = usage.owner_of(view, self._pods)
        runs = self.running if finished is None else self.ended
        before, seconds = runs.get(owner, Runs(0, 0, 0)), max(0, end - begin)
        runs[owner] = Runs(
            before.number + 1, before.seconds + seconds, max(before.longest, seconds)
        )
        if is_reduced:
            self._partly_held += 1
            return
        counted = max(0, end - max(begin, self._since))
        for pair, amount in charge.usage.items():
            if not amount or not quota_use.is_gpu(pair.resource):
                continue
            account = Account(
                namespace=key.namespace,
                cluster_queue=charge.cluster_queue,
                local_queue=charge.local_queue.name,
                user=charge.user.name,
                flavor=pair.flavor,
                resource=pair.resource,
            )
            row = OwnerAccount(*owner, pair.resource)
            self.usage[account] = self.usage.get(account, 0) + amount * counted
            self.owners[row] = self.owners.get(row, 0) + amount * counted


def _finished(view: Workload) -> int | None:
    """Return when a Workload finished; None for not yet."""
    condition = view.status.condition(conditions.FINISHED)
    if condition is None or condition.status != "True" or not condition.last_transition_time:
        return None
    return int(clock.from_wire(condition.last_transition_time).timestamp())
