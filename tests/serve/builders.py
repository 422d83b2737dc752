"""Lines of waiting workloads, and a source of lists that holds them."""

from collections.abc import Iterable, Mapping
from typing import Any

from admission.base.names import ClusterQueueName, LocalQueueKey, Uid, WorkloadKey
from admission.kube.api import Document
from admission.objects.workload import Workload as WorkloadObject
from admission.scheduling.model import Workload
from admission.scheduling.pending import Pending, PendingSnapshot
from tests.builders.metadata import CREATED
from tests.builders.workloads import workload_view


def waiting(
    name: str, *, queue: str = "team", namespace: str = "ml", priority: int = 0, at: int = 0
) -> Workload:
    """A workload; the earlier ``at``, the earlier its turn."""
    return Workload(
        key=WorkloadKey(namespace, name),
        uid=Uid(name),
        queue=LocalQueueKey(namespace, queue),
        priority=priority,
        created_us=at,
    )


def line(*members: Workload, first: str = "", **more: Any) -> PendingSnapshot:
    """A line of them."""
    return PendingSnapshot(
        members=tuple(
            Pending(workload=one, queue_us=one.created_us, demands=(), equivalence=one.uid)
            for one in members
        ),
        first=WorkloadKey("ml", first) if first else None,
        **more,
    )


def view(workload: Workload, conditions: Iterable[Document] = ()) -> WorkloadObject:
    """The object that such a workload is read from."""
    name, namespace = workload.key.name, workload.key.namespace
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "pod-uid", "controller": True}
    return workload_view(
        name,
        namespace=namespace,
        queue=workload.queue.name,
        metadata={"creationTimestamp": CREATED, "ownerReferences": [owner]},
        priority=workload.priority,
        status={"conditions": [*conditions]},
    )


class Lines:
    """A source with the queues that it was given."""

    def __init__(self, found: Mapping[ClusterQueueName | LocalQueueKey, PendingSnapshot]) -> None:
        self._found = found
        self.gone: set[WorkloadKey] = set()
        self.conditions: list[Document] = []
        """Of every Workload."""

    def line(self, queue: ClusterQueueName | LocalQueueKey) -> PendingSnapshot | None:
        return self._found.get(queue)

    def workloads(self, keys: Iterable[WorkloadKey]) -> tuple[WorkloadObject | None, ...]:
        known = {i.workload.key: i.workload for one in self._found.values() for i in one.members}
        return tuple(
            None if key in self.gone else view(known[key], self.conditions) for key in keys
        )
