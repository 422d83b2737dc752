"""The caps of queues: how much one user, or all work of a LocalQueue, may hold (ADR 0164).

`of_queue` returns plain data, `document` the same as JSON (docs/reference/commands.md).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from admission.answers.cluster import Read
from admission.base import names, quantity
from admission.base.names import ResourceName
from admission.objects import caps, values, views
from admission.objects.local_queue import LocalQueue


@dataclass(frozen=True, slots=True)
class QueueCap:
    """What one annotation of a queue limits.

    Attributes:
        kind: of the queue.
        queue: its name; a LocalQueue as ``namespace/name``.
        annotation: the key, without the domain.
        amounts: the most that may be held, by resource.
    """

    kind: str
    queue: str
    annotation: str
    amounts: Mapping[ResourceName, int]

    @property
    def sentence(self) -> str:
        """Return who may hold how much in which queue, without a full stop."""
        is_of_user = names.MAX_PER_USER.endswith(f"/{self.annotation}")
        holder = "a user" if is_of_user else "all work together"
        amounts = ", ".join(f"{amount} {resource}" for resource, amount in self.texts.items())
        return f"{holder} may hold at most {amounts} in queue {self.queue} ({self.annotation})"

    @property
    def texts(self) -> dict[str, str]:
        """Return the amounts as people write them."""
        return {
            resource: quantity.from_canonical(resource, amount)
            for resource, amount in self.amounts.items()
        }


def of_queue(read: Read, queue: str) -> tuple[QueueCap, ...]:
    """Return the caps of a queue that can be read.

    Args:
        read: what was read.
        queue: a ClusterQueue, or a LocalQueue as ``namespace/name``: that of its ClusterQueue
            limits, too.
    """
    namespace, _, name = queue.rpartition("/")
    if namespace:
        local_queue = read.locals_.get((namespace, name))
        return () if local_queue is None else of_local_queue(read, local_queue)
    cluster_queue = read.queues.get(name)
    if cluster_queue is None:
        return ()
    return tuple(_caps("ClusterQueue", name, cluster_queue.metadata, names.MAX_PER_USER))


def of_local_queue(read: Read, view: LocalQueue) -> tuple[QueueCap, ...]:
    """Return the caps of a LocalQueue, and that of its ClusterQueue.

    Its status says the latter to who may not read the ClusterQueue.
    """
    metadata, name = view.metadata, view.spec.cluster_queue
    keys = (names.MAX_PER_USER, names.MAX_IN_USE)
    caps_of_local = _caps("LocalQueue", f"{metadata.namespace}/{metadata.name}", metadata, *keys)
    if name in read.queues:
        return (*caps_of_local, *of_queue(read, name))
    amounts = {
        ResourceName(resource): values.amount_or_zero(resource, amount)
        for resource, amount in (view.status.cluster_queue_max_per_user or {}).items()
    }
    return (*caps_of_local, *_cap("ClusterQueue", name, names.MAX_PER_USER, amounts))


def of_local_queues(read: Read, local_queues: Iterable[LocalQueue]) -> tuple[QueueCap, ...]:
    """Return the caps of LocalQueues and of their ClusterQueues, each once."""
    caps_of_each = (cap for view in local_queues for cap in of_local_queue(read, view))
    return distinct(caps_of_each)


def distinct(every: Iterable[QueueCap]) -> tuple[QueueCap, ...]:
    """Return each cap once."""
    return tuple({(cap.kind, cap.queue, cap.annotation): cap for cap in every}.values())


def _caps(kind: str, queue: str, metadata: views.ObjectMeta, *keys: str) -> Iterator[QueueCap]:
    for key in keys:
        yield from _cap(kind, queue, key, caps.readable(metadata, key))


def _cap(
    kind: str, queue: str, key: str, amounts: Mapping[ResourceName, int]
) -> Iterator[QueueCap]:
    if amounts:
        yield QueueCap(kind, queue, key.partition("/")[2], amounts)


def document(cap: QueueCap) -> dict[str, Any]:
    """Return a cap as JSON: quantities as texts."""
    return {
        "kind": cap.kind,
        "queue": cap.queue,
        "annotation": cap.annotation,
        "amounts": cap.texts,
    }
