"""The caps of queues: how much one user, or all work of a LocalQueue, may hold (ADR 0164).

`of_queue` returns plain data, `document` the same as JSON (docs/reference/commands.md).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from admission.answers.cluster import Read
from admission.base import names, quantity
from admission.base.names import ResourceName
from admission.objects import caps, views


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
    found_caps: list[QueueCap] = []
    if namespace:
        local_queue = read.locals_.get((namespace, name))
        if local_queue is None:
            return ()
        found_caps += _caps("LocalQueue", queue, local_queue.metadata)
        name = local_queue.spec.cluster_queue
    cluster_queue = read.queues.get(name)
    if cluster_queue is not None:
        found_caps += _caps("ClusterQueue", name, cluster_queue.metadata)
    return tuple(found_caps)


def _caps(kind: str, queue: str, metadata: views.ObjectMeta) -> Iterator[QueueCap]:
    keys = (
        (names.MAX_PER_USER, names.MAX_IN_USE) if kind == "LocalQueue" else (names.MAX_PER_USER,)
    )
    for key in keys:
        if amounts := caps.readable(metadata, key):
            yield QueueCap(kind, queue, key.partition("/")[2], amounts)


def document(cap: QueueCap) -> dict[str, Any]:
    """Return a cap as JSON: quantities as texts."""
    return {
        "kind": cap.kind,
        "queue": cap.queue,
        "annotation": cap.annotation,
        "amounts": cap.texts,
    }
