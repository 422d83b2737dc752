"""Who waits in a ClusterQueue, at which place, and for what.

`of` returns plain data, `document` the same as JSON; docs/reference/commands.md documents it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from admission.answers import cluster, owning, queue_caps, quota_use, shortages
from admission.answers.cluster import Read
from admission.answers.queue_caps import QueueCap
from admission.base import clock, conditions, names
from admission.base.causes import ALL_NAMED, Shortage
from admission.base.conditions import Text
from admission.base.names import (
    ClusterQueueName,
    FlavorName,
    FlavorResource,
    ResourceName,
    WorkloadKey,
)
from admission.kube import errors
from admission.kube.api import Api
from admission.kube.resources import Resource
from admission.objects.local_queue import LocalQueue
from admission.objects.workload import Workload
from admission.reasons import next_steps, reading, sentences
from admission.reasons.next_steps import Code
from admission.scheduling import model, podsets, quota
from admission.scheduling.hierarchy import QueueNode

_PENDING: Final = "pendingworkloads"
_MOST: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A Workload that waits.

    Attributes:
        place: in the ClusterQueue among those that may start, from 1; None where it never starts
            as it is, or was not looked for.
        local_place: likewise in its LocalQueue.
        namespace: of the Workload.
        workload: name of the Workload.
        owner: what it was made for, as ``Job train``; empty for itself.
        requester: who created that, `owning.UNKNOWN` where nobody saw it.
        local_queue: the LocalQueue that it is in.
        priority: higher goes first.
        since: when it was created, RFC 3339.
        asks: what it asks for, by resource; the most, where that differs by flavor.
        lowest: the least that it may ask for instead, of resources where that differs.
        message: why it waits, a sentence of the catalogue; empty where it was not tried yet.
        reason: its code in the catalogue; empty likewise.
        never: whether it never starts as it is, whoever else ends.
    """

    place: int | None
    local_place: int | None
    namespace: str
    workload: str
    owner: str
    requester: str
    local_queue: str
    priority: int
    since: str
    asks: Mapping[str, int]
    lowest: Mapping[str, int]
    message: str
    reason: str = ""
    never: bool = False

    @property
    def key(self) -> WorkloadKey:
        """Return the identity of the Workload."""
        return WorkloadKey(self.namespace, self.workload)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The Workloads that wait in a ClusterQueue.

    Attributes:
        name: of the ClusterQueue.
        waiting: in the order in which they are tried.
        exact: whether the controller said so; else it is the order by priority and time of those
            Workloads that may be read, without past usage.
        hidden: how many more wait that may not be read.
        namespace: the one to which ``waiting`` is limited; empty where it is not.
        unread: how many more wait in the LocalQueues of the namespace that cannot be read.
        caps: how much a user, or all work, may hold.
        is_current: whether the messages have the amounts of now; else each has those of when it
            was written, as who asks may not read the ClusterQueue.
    """

    name: str
    waiting: tuple[Place, ...]
    exact: bool
    hidden: int = 0
    namespace: str = ""
    unread: int = 0
    caps: tuple[QueueCap, ...] = ()
    is_current: bool = True


class ToldPosition(NamedTuple):
    """Where a Workload stands in its ClusterQueue, as the controller says it.

    Attributes:
        key: of the Workload.
        place: among those that may start, from 1; None where it never starts.
    """

    key: WorkloadKey
    place: int | None


def told(api: Api, queue: str) -> tuple[ToldPosition, ...] | None:
    """Return the order of a ClusterQueue as the controller says it; None where it does not.

    Raises:
        KubeError: the API server did not answer.
    """
    resource = Resource(
        names.VISIBILITY_GROUP,
        "v1beta2",
        f"clusterqueues/{queue}/{_PENDING}",
        "PendingWorkload",
        namespaced=False,
    )
    try:
        items = api.list(resource, limit=_MOST).items
    except errors.ApiError:
        return None  # it is not served, or not to this user
    return tuple(
        told_position(item)
        for item in sorted(items, key=lambda item: int(item.get("positionInClusterQueue", 0)))
    )


def told_position(item: Mapping[str, Any]) -> ToldPosition:
    """Return where one that waits stands, by an item of the visibility API.

    An earlier controller counts those that never start, as Kueue does.
    """
    metadata = item["metadata"]
    key = WorkloadKey(metadata.get("namespace", ""), metadata.get("name", ""))
    text = (metadata.get("annotations") or {}).get(names.PLACE, "")
    if text == names.NO_PLACE:
        return ToldPosition(key, None)
    position = int(item.get("positionInClusterQueue", 0)) + 1
    return ToldPosition(key, int(text) if text.isdecimal() else position)


def of(read: Read, queue: str, order: Sequence[ToldPosition] | None = None) -> Queue:
    """Return who waits in a ClusterQueue.

    Args:
        read: what was read.
        queue: name of the ClusterQueue.
        order: the result of `told`; None to compute the order.
    """
    waiting = {
        key: value
        for key, value in read.values.items()
        if value.wants_quota and read.cluster_queue_of(*value.queue) == queue
    }
    caps, view = queue_caps.of_queue(read, queue), read.queues.get(queue)
    is_strict = view is not None and view.spec.queueing_strategy == "StrictFIFO"
    if order is None:
        computed = sorted(waiting, key=lambda key: _order(waiting[key]))
        return Queue(
            name=queue,
            waiting=tuple(_numbered(read, waiting, computed, is_strict=is_strict)),
            exact=False,
            hidden=_unread(read, queue, len(waiting)),
            caps=caps,
            is_current=view is not None,
        )
    in_order = [(position.place, position.key) for position in order if position.key in waiting]
    places = _places(read, waiting, in_order, is_strict=is_strict, is_exact=True)
    return Queue(
        name=queue,
        waiting=tuple(
            replace(place, never=place.never or place.place is None) for place in places
        ),
        exact=True,
        hidden=len(order) - len(in_order),
        caps=caps,
        is_current=view is not None,
    )


def by_place(places: Iterable[Place]) -> list[Place]:
    """Return those that have a place, in its order, then the others, the oldest first."""
    every = list(places)
    without = (place for place in every if place.place is None)
    return [
        *(place for place in every if place.place is not None),
        *sorted(without, key=lambda place: (place.since, place.namespace, place.workload)),
    ]


def _unread(read: Read, queue: str, count: int) -> int:
    """Return how many more wait, as the status of the ClusterQueue says, that cannot be read."""
    view = read.queues.get(queue)
    if view is None or cluster.knows_waiting(read.missing):
        return 0
    return max(0, (view.status.pending_workloads or 0) - count)


def everywhere(read: Read) -> tuple[Place, ...]:
    """Return all that wait, by namespace and name, without places."""
    wants = {key: place for key, place in read.values.items() if place.wants_quota}
    return tuple(_places(read, wants, ((None, key) for key in sorted(wants))))


def never_starting(read: Read) -> tuple[Place, ...]:
    """Return those of `everywhere` that never start as they are."""
    return tuple(place for place in everywhere(read) if place.never)


def in_local_queue(read: Read, queue: Queue, namespace: str, name: str) -> Queue:
    """Return those of a ClusterQueue that wait in one LocalQueue, at their places there."""
    places = tuple(
        place
        for place in queue.waiting
        if (place.namespace, place.local_queue) == (namespace, name)
    )
    local_queue = read.locals_[namespace, name]
    return replace(
        queue,
        name=f"{namespace}/{name}",
        waiting=places,
        hidden=0,
        unread=_unread_in(read, (local_queue,), len(places)),
        caps=queue_caps.of_local_queue(read, local_queue),
    )


def in_namespace(read: Read, queue: Queue, namespace: str) -> Queue:
    """Return those of a ClusterQueue that wait in one namespace, at their places among all."""
    places = tuple(place for place in queue.waiting if place.namespace == namespace)
    local_queues = [
        local_queue
        for local_queue in read.objects.local_queues
        if local_queue.metadata.namespace == namespace
        and local_queue.spec.cluster_queue == queue.name
    ]
    unread = _unread_in(read, local_queues, len(places))
    caps = queue_caps.of_local_queues(read, local_queues)
    return replace(queue, waiting=places, namespace=namespace, unread=unread, caps=caps)


def _unread_in(read: Read, local_queues: Iterable[LocalQueue], count: int) -> int:
    """Return how many more wait in LocalQueues, as their status says, that cannot be read."""
    if not cluster.is_unread(read.missing, "Workload"):
        return 0
    pending = sum(queue.status.pending_workloads or 0 for queue in local_queues)
    return max(0, pending - count)


def _order(workload: model.Workload) -> tuple[int, int, str]:
    return -workload.priority, podsets.queue_timestamp(workload), workload.uid


def _places(
    read: Read,
    waiting: Mapping[WorkloadKey, model.Workload],
    order: Iterable[tuple[int | None, WorkloadKey]],
    *,
    is_strict: bool = False,
    is_exact: bool = False,
) -> Iterator[Place]:
    """Yield those that wait; one that never starts has no place, unless others wait for it.

    Args:
        read: all that is read.
        waiting: who waits in the queue.
        order: places, as far as known, and who has them.
        is_strict: whether the others wait for one that never starts.
        is_exact: whether who has no place in the order never starts.
    """
    seen: dict[tuple[str, str], int] = {}
    for place, key in order:
        value, view = waiting[key], read.workloads[key]
        local = value.queue.namespace, value.queue.name
        text, amounts = _said(read, view)
        never = _never_starts(read, view, text.reason)
        is_passed = (never and not is_strict) or (is_exact and place is None)
        seen[local] = seen.get(local, 0) + (not is_passed)
        yield Place(
            place=None if is_passed else place,
            local_place=None if is_passed else seen[local],
            namespace=key.namespace,
            workload=key.name,
            owner=owning.owner_of(view),
            requester=owning.requester_of(view.metadata),
            local_queue=value.queue.name,
            priority=value.priority,
            since=view.metadata.creation_timestamp or "",
            asks=quota_use.asks(view, value),
            lowest=_lowest(amounts),
            message=text.message,
            reason=text.reason,
            never=never,
        )


def _numbered(
    read: Read,
    waiting: Mapping[WorkloadKey, model.Workload],
    order: Iterable[WorkloadKey],
    *,
    is_strict: bool,
) -> Iterator[Place]:
    """Yield those that wait, in order, with their places among those that may start."""
    count = 0
    for place in _places(read, waiting, ((None, key) for key in order), is_strict=is_strict):
        is_passed = place.local_place is None
        count += not is_passed
        yield place if is_passed else replace(place, place=count)


def _lowest(amounts: Iterable[Shortage]) -> dict[str, int]:
    """Return the least that pod sets may ask for together, where it differs by flavor."""
    by_pod_set: dict[tuple[str, str], list[int]] = {}
    for each in amounts:
        by_pod_set.setdefault((each.resource, each.pod_set), []).append(each.requested)
    differing = {resource for (resource, _), asks in by_pod_set.items() if len(set(asks)) > 1}
    return {
        resource: sum(min(asks) for key, asks in by_pod_set.items() if key[0] == resource)
        for resource in sorted(differing)
    }


def _said(read: Read, view: Workload) -> tuple[Text, Sequence[Shortage]]:
    """Return why a Workload waits, and what it asks for in each flavor, where that is known."""
    condition = view.status.condition(conditions.QUOTA_RESERVED)
    if condition is None or condition.status == "True":
        return Text("", ""), ()
    queue = _queue_of(read, view)
    text = sentences.text(reading.of_condition(condition.reason, condition.message), queue)
    ending = reading.ending(condition.message)
    node = read.admitting.queues.get(ClusterQueueName(queue))
    if node is None:
        return sentences.with_ending(text, ending), ()
    text = with_flavors(node, text, condition.message)
    alone = [
        replace(short, holders=(), unnamed=ALL_NAMED)
        for short in shortages.of_workload(
            node, view, read.queues.get(queue), read.objects.flavors
        )
    ]
    text = shortages.verdict(text, alone, queue)
    text = shortages.exceeds_nodes(text, view, alone, read.objects.flavors)
    return sentences.with_ending(text, ending), alone


def with_flavors(node: QueueNode, text: Text, message: str) -> Text:
    """Return why something waits, also if the last scan did not try every flavor.

    Args:
        node: the ClusterQueue.
        text: what the message says.
        message: of QuotaReserved=False, which tells of the flavors that were tried.
    """
    if text.reason not in {Code.NO_MATCHING_FLAVOR, Code.NO_TOPOLOGY}:
        return text
    tried = reading.tried_flavors(message)
    groups = [[flavor.name for flavor in group.flavors] for group in node.spec.resource_groups]
    left = [
        [name for name in group if name not in tried]
        for group in groups
        if not tried.isdisjoint(group)
    ]
    return sentences.waits_for_flavors(left[0]) if left and all(left) else text


def _queue_of(read: Read, view: Workload) -> str:
    return read.cluster_queue_of(view.metadata.namespace, view.spec.queue_name or "")


def _never_starts(read: Read, view: Workload, reason: str) -> bool:
    """Return whether a Workload never starts as it is.

    One that is too big only while GPUs are sick or missing does: the ClusterQueue is promised more
    than the controller lets it reach.
    """
    if reason != Code.EXCEEDS_MAX_QUOTA:
        return reason in next_steps.NEVER_STARTS
    condition = view.status.condition(conditions.QUOTA_RESERVED)
    node = read.forest.queues.get(ClusterQueueName(_queue_of(read, view)))
    if node is None or condition is None:
        return True
    return all(
        quota.potential(
            node, FlavorResource(FlavorName(amount.flavor), ResourceName(amount.resource))
        )
        <= amount.reach
        for amount in reading.told_amounts(condition.message)
        if amount.reach is not None
    )


def document(
    queues: Iterable[Queue], starts: Mapping[WorkloadKey, datetime], missing: Iterable[str]
) -> dict[str, Any]:
    """Return the answer as JSON; ``starts`` has the estimates that there are."""
    return {
        "apiVersion": quota_use.API_VERSION,
        "kind": "WaitingWorkloads",
        "clusterQueues": [
            {
                "name": queue.name,
                "exact": queue.exact,
                "hidden": queue.hidden,
                "namespace": queue.namespace,
                "caps": [queue_caps.document(cap) for cap in queue.caps],
                "waiting": [
                    {
                        "place": place.place,
                        "localPlace": place.local_place,
                        "namespace": place.namespace,
                        "workload": place.workload,
                        "owner": place.owner,
                        "requester": place.requester,
                        "localQueue": place.local_queue,
                        "priority": place.priority,
                        "since": place.since,
                        "asks": quota_use.amounts_document(place.asks),
                        "asksAtLeast": quota_use.amounts_document({**place.asks, **place.lowest}),
                        "message": place.message,
                        "reason": place.reason,
                        "neverStarts": place.never,
                        "estimatedStart": _wire(starts.get(place.key)),
                    }
                    for place in queue.waiting
                ],
            }
            for queue in queues
        ],
        "missing": list(missing),
    }


def _wire(moment: datetime | None) -> str | None:
    return None if moment is None else clock.to_wire(moment)
