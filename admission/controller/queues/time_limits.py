"""Quota that time limits give back, and how long Workloads that wait may run."""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from admission.base.names import ClusterQueueName, WorkloadKey
from admission.controller.queries import Reader
from admission.objects import execution_times, run_times
from admission.objects.workload import Workload
from admission.scheduling.starts import Prospect, QuotaEnd


def quota_ends(reader: Reader, queues: Iterable[ClusterQueueName]) -> Iterator[QuotaEnd]:
    """Yield when quota of ClusterQueues is given back that is held under a time limit.

    Surge quota is no part of what others may get.
    """
    holders = [holder for queue in queues for holder in reader.holders(queue)]
    workloads = reader.workloads(holder.key for holder in holders)
    for holder, workload in zip(holders, workloads, strict=True):
        if workload is None or holder.surges:
            continue
        end = execution_times.execution_end(workload, _limit(reader, workload))
        if end is not None:
            yield QuotaEnd(
                cluster_queue=holder.cluster_queue,
                usage=tuple(sorted(holder.usage.items())),
                at_us=int(end.timestamp()) * run_times.SECOND_US,
            )


def prospects(reader: Reader, keys: tuple[WorkloadKey, ...]) -> Iterator[Prospect]:
    """Yield what decides when Workloads that wait may start, in the order of the keys."""
    for key, workload in zip(keys, reader.workloads(keys), strict=True):
        left = None
        if workload is not None:
            left = execution_times.left(workload, _limit(reader, workload))
        yield Prospect(
            run_us=None if left is None else left // timedelta(microseconds=1),
            wait=reader.judged(key),
        )


def _limit(reader: Reader, workload: Workload) -> run_times.Limit | None:
    local, cluster = reader.queues_of(workload)
    return execution_times.run_limit(workload, cluster, local)
