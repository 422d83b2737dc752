"""Pages of the pending Workloads of a queue, and their wire format.

Source: kueue pkg/visibility/storage; apis/visibility/v1beta2/types.go. Departure: Kueue counts
places in LocalQueues of one name together, whatever their namespaces.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, Protocol

from admission.base import names
from admission.base.names import ClusterQueueName, LocalQueueKey, WorkloadKey
from admission.objects.workload import Workload
from admission.scheduling.pending import PendingSnapshot
from admission.serve import statuses

VERSIONS: Final = names.VISIBILITY_VERSIONS
"""Served versions, the preferred one first; they have the same form."""
KIND: Final = "PendingWorkloadsSummary"
DEFAULT_LIMIT: Final = 1000
MOST: Final = 100_000

_INT64: Final = 2**63


class PendingSource(Protocol):
    """The source of lists of pending Workloads."""

    def line(self, queue: ClusterQueueName | LocalQueueKey) -> PendingSnapshot | None:
        """Return the pending Workloads of a ClusterQueue or of one LocalQueue; None: no queue.

        Raises:
            RefusedError: it cannot be told now.
        """
        ...

    def workloads(self, keys: tuple[WorkloadKey, ...]) -> tuple[Workload | None, ...]:
        """Return Workloads by identity; None for one that is gone.

        Raises:
            RefusedError: it cannot be told now.
        """
        ...


class Window(NamedTuple):
    """Which part of a list is wanted."""

    offset: int = 0
    limit: int = DEFAULT_LIMIT


class LinePosition(NamedTuple):
    """The position of a Workload, counted from 0.

    Attributes:
        workload: the Workload.
        queue: its LocalQueue.
        in_cluster_queue: its position among all in the ClusterQueue, as Kueue counts.
        in_local_queue: likewise in its LocalQueue.
        place: its place among those of the ClusterQueue that may start, from 1; None where it
            never starts as it is.
    """

    workload: WorkloadKey
    queue: LocalQueueKey
    in_cluster_queue: int
    in_local_queue: int
    place: int | None


def window(offset: str | None, limit: str | None) -> Window:
    """Read the parameters of a request.

    Raises:
        RefusedError: one of them is no number of 64 bits.
    """
    count = _number(limit) or DEFAULT_LIMIT
    return Window(max(_number(offset), 0), min(max(count, 0), MOST))


def _number(text: str | None) -> int:
    if text is None:
        return 0
    try:
        value = int(text) if text.isascii() and "_" not in text and text == text.strip() else None
    except ValueError:
        value = None
    if value is None:
        raise statuses.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if not -_INT64 <= value < _INT64:
        raise statuses.bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return value


def of_cluster_queue(
    source: PendingSource, name: str, window: Window, version: str
) -> dict[str, Any]:
    """Return the Workloads that wait in a ClusterQueue.

    Raises:
        RefusedError: there is no such ClusterQueue, or it cannot be told now.
    """
    line = source.line(ClusterQueueName(name))
    if line is None:
        raise statuses.unknown_queue("clusterqueue", name)
    return _summary(source, _cut(places(line), window), version)


def of_local_queue(
    source: PendingSource, key: LocalQueueKey, window: Window, version: str
) -> dict[str, Any]:
    """Return the waiting Workloads of a LocalQueue, also with their places in the ClusterQueue.

    Raises:
        RefusedError: there is no such LocalQueue or it is stopped, or it cannot be told now.
    """
    line = source.line(key)
    if line is None:
        raise statuses.unknown_queue("localqueue", key.name)
    own_places = (place for place in places(line) if place.queue == key)
    return _summary(source, _cut(own_places, window), version)


def places(line: PendingSnapshot) -> Iterator[LinePosition]:
    """Return all pending Workloads in the order in which they are tried."""
    seen: Counter[LocalQueueKey] = Counter()
    count = 0
    for position, item in enumerate(sorted(line.members, key=line.sort_key())):
        queue, is_hopeless = item.workload.queue, item.hopeless
        count += not is_hopeless
        place = None if is_hopeless else count
        yield LinePosition(item.key, queue, position, seen[queue], place)
        seen[queue] += 1


def _cut(line: Iterable[LinePosition], window: Window) -> tuple[LinePosition, ...]:
    return tuple(itertools.islice(line, window.offset, window.offset + window.limit))


def _summary(
    source: PendingSource, page: tuple[LinePosition, ...], version: str
) -> dict[str, Any]:
    workloads = source.workloads(tuple(place.workload for place in page)) if page else ()
    return {
        "kind": KIND,
        "apiVersion": f"{names.VISIBILITY_GROUP}/{version}",
        "metadata": {},
        "items": [
            _item(place, workload)
            for place, workload in zip(page, workloads, strict=True)
            if workload is not None
        ],
    }


def _told(place: LinePosition) -> str:
    """Return the place among those that may start where Kueue's position says another one."""
    if place.place is None:
        return names.NO_PLACE
    return "" if place.place == place.in_cluster_queue + 1 else str(place.place)


def _item(place: LinePosition, workload: Workload) -> dict[str, Any]:
    metadata = workload.metadata
    owners = [
        {
            "apiVersion": reference.api_version,
            "kind": reference.kind,
            "name": reference.name,
            "uid": reference.uid,
        }
        for reference in metadata.owner_references or ()
    ]
    return {
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "creationTimestamp": metadata.creation_timestamp,
            **({"annotations": {names.PLACE: text}} if (text := _told(place)) else {}),
            **({"ownerReferences": owners} if owners else {}),
        },
        "priority": workload.spec.priority or 0,
        "localQueueName": workload.spec.queue_name,
        "positionInClusterQueue": place.in_cluster_queue,
        "positionInLocalQueue": place.in_local_queue,
    }
