"""Pods that hold quota which nobody else gets yet, and what their ClusterQueues say of them."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from admission.base import conditions, metrics
from admission.base.tables import Table
from admission.objects import condition_list, views
from admission.objects.cluster_queue import ClusterQueue
from admission.reasons import added_conditions

_NAMED: Final = 3
"""Pods that a condition names."""


class ReleasingPods:
    """The pods of each ClusterQueue that were stopped, or whose Workload has ended, and run."""

    def __init__(self, pod_of: Callable[[str], views.Pod | None]) -> None:
        """Know of none.

        Args:
            pod_of: returns the pod of a UID; None for one that does not run.
        """
        self._pod_of = pod_of
        self._queues: Table[str, str] = Table()
        """ClusterQueues by UID of the pod."""
        self._in = self._queues.index(lambda _, queue: (queue,))
        self._reworded: set[str] = set()

    def set(self, uid: str, queue: str | None) -> None:
        """Take which ClusterQueue a pod holds quota of; None for none."""
        before = self._queues.pop(uid) if queue is None else self._queues.put(uid, queue)
        if before == queue:
            return
        for name in filter(None, (before, queue)):
            self._reworded.add(name)
            metrics.RELEASING_PODS.labels(name).set(self._in.count(name))

    @property
    def queues(self) -> Mapping[str, str]:
        """Return of which ClusterQueue each pod holds quota, by UID, to read."""
        return self._queues.by_key

    def take_reworded(self) -> frozenset[str]:
        """Return the ClusterQueues whose condition may have changed since the last call."""
        reworded, self._reworded = frozenset(self._reworded), set()
        return reworded

    def condition(self, queue: ClusterQueue, now: datetime) -> views.Condition | None:
        """Return the condition about pods that hold quota until they have ended; None for none."""
        uids = self._in.keys(queue.metadata.name)
        if not uids:
            return None
        pods = [pod for pod in map(self._pod_of, uids) if pod is not None]
        pods.sort(key=lambda pod: (pod.metadata.namespace, pod.metadata.name))
        text = added_conditions.releasing([_where(pod) for pod in pods[:_NAMED]], len(uids))
        return condition_list.make(
            conditions.RELEASING,
            text,
            status=True,
            now=now,
            generation=queue.metadata.generation,
        )


def _where(pod: views.Pod) -> str:
    node = f" on node {pod.spec.node_name}" if pod.spec.node_name else ""
    return f"{pod.metadata.namespace}/{pod.metadata.name}{node}"
