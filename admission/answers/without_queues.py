"""What is known of a wait by those who may not read ClusterQueues.

The Workload, its LocalQueue, its events and the list of its LocalQueue in the visibility API say
it; each is read with the rights of who asks, and nobody needs others for it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from admission.answers import quota_use, waiting
from admission.base import conditions, names, quantity
from admission.base.events import goes_on, is_stop
from admission.base.names import FlavorName, FlavorResource, ResourceName, WorkloadKey
from admission.gpu import resources as resources_of_gpus
from admission.kube import errors, resources
from admission.kube.api import Api, Document
from admission.kube.resources import Resource
from admission.objects import queue_status
from admission.objects.local_queue import LocalQueue
from admission.reasons import reading
from admission.reasons.reading import Told

_MOST: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorRequest:
    """What is asked for in one flavor, and what is known of it; canonical units.

    Attributes:
        flavor: the flavor.
        resource: the resource.
        asks: what is asked for; None where that is another amount in each flavor.
        free: what the ClusterQueue could take now; None where that is not known.
        reach: the most that it could ever take; None likewise.
        nominal: nominal quota of the ClusterQueue; None likewise.
    """

    flavor: str
    resource: str
    asks: int | None
    free: int | None = None
    reach: int | None = None
    nominal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What the visibility API says of those that wait in a LocalQueue.

    Attributes:
        by_workload: their places in the ClusterQueue among those that may start, from 1; empty
            where it tells none.
        is_refused: whether the caller may not ask for it.
    """

    by_workload: Mapping[WorkloadKey, int] = field(default_factory=dict)
    is_refused: bool = False


def local_queue(api: Api, namespace: str, name: str) -> LocalQueue | None:
    """Return a LocalQueue; None where there is none, or it may not be read."""
    try:
        return api.get(resources.LOCAL_QUEUES, name, namespace, into=LocalQueue) if name else None
    except (errors.NotFoundError, errors.ForbiddenError, errors.DecodeError):
        return None


def amounts(
    requested: Mapping[str, Mapping[str, int]], message: str, queue: LocalQueue | None
) -> Iterator[FlavorRequest]:
    """Yield what a Workload asks for by flavor, with what its own condition says of it.

    The condition says how much more of a flavor would have to be free. What is free follows from
    that where there is one pod set; of several it is not said which take it first.

    Args:
        requested: by pod set and resource.
        message: of the condition QuotaReserved of the Workload.
        queue: its LocalQueue, whose status names the flavors where the message names none.
    """
    told_by_pair = {
        (pair_of_amounts.flavor, pair_of_amounts.resource): pair_of_amounts
        for pair_of_amounts in reading.told_amounts(message)
    }
    nominal = None if queue is None else queue_status.nominal(queue.status.nominal_quota)
    # Whether nodes of a flavor that the condition does not name take the pods is not known.
    pairs = list(told_by_pair) or [(pair.flavor, pair.resource) for pair in _pairs(queue)]
    # The Workload says the largest amount. How much a GPU has in each flavor is not known.
    differs = {
        resource
        for resource, flavors in Counter(resource for _, resource in pairs).items()
        if flavors > 1 and resources_of_gpus.is_virtual(resource)
    }
    for requests in requested.values():
        for flavor, resource in pairs:
            if resource not in requests:
                continue
            asks, held_back = requests[resource], told_by_pair.get((flavor, resource))
            is_only = len(requested) == 1 and held_back is not None and resource not in differs
            yield FlavorRequest(
                flavor=flavor,
                resource=resource,
                asks=None if resource in differs else asks,
                free=_free(asks, held_back) if is_only else None,
                reach=held_back.reach if held_back is not None else None,
                nominal=None
                if nominal is None
                else nominal.get(FlavorResource(FlavorName(flavor), ResourceName(resource)), 0),
            )


def as_stated(
    amounts_known: Iterable[FlavorRequest], sentence: str, *, is_one_pod_set: bool
) -> Iterator[FlavorRequest]:
    """Yield amounts with what a sentence of the controller says of them.

    Args:
        amounts_known: by flavor and resource.
        sentence: that was said of the same wait; empty for none.
        is_one_pod_set: whether it says what each of them asks for: of several, it tells the one
            that asks for most.
    """
    stated = {(each.flavor, each.resource): each for each in reading.stated_lacks(sentence)}
    for each in amounts_known:
        lack = stated.get((each.flavor, each.resource))
        if lack is None:
            yield each
            continue
        asks = lack.asks if is_one_pod_set and lack.asks is not None else each.asks
        yield replace(
            each,
            asks=asks,
            free=each.free if lack.free is None else lack.free,
            reach=each.reach if lack.reach is None else lack.reach,
        )


def with_reach(amounts_known: Iterable[FlavorRequest], sentence: str) -> Iterator[FlavorRequest]:
    """Yield amounts with the most that there ever could be, where only a sentence says that.

    Args:
        amounts_known: by flavor and resource.
        sentence: that the controller said of what waits, with other amounts than those of now.
    """
    reaches = {(each.flavor, each.resource): each.reach for each in reading.stated_lacks(sentence)}
    for each in amounts_known:
        reach = reaches.get((each.flavor, each.resource)) if each.reach is None else each.reach
        yield replace(each, reach=reach)


def _free(asks: int, held_back: Told | None) -> int | None:
    if held_back is None or held_back.more is None:
        return None
    return max(0, asks - held_back.more)


def _pairs(queue: LocalQueue | None) -> tuple[FlavorResource, ...]:
    return () if queue is None else tuple(queue_status.reserved(queue.status.flavors_reservation))


def places(api: Api, namespace: str, queue: str) -> Places:
    """Return the places in the ClusterQueue of those that wait in a LocalQueue.

    Raises:
        KubeError: the API server did not answer.
    """
    resource = Resource(
        names.VISIBILITY_GROUP,
        "v1beta2",
        f"localqueues/{queue}/pendingworkloads",
        "PendingWorkload",
    )
    try:
        items = api.list(resource, namespace, limit=_MOST).items
    except errors.ForbiddenError:
        return Places(is_refused=True)
    except errors.ApiError:
        return Places()  # it is not served
    told_positions = map(waiting.told_position, items)
    return Places(by_workload={key: place for key, place in told_positions if place is not None})


@dataclass(frozen=True, slots=True)
class LastEvent:
    """The last event that said why something waits, or why it is gone.

    Attributes:
        reason: of the event.
        message: a sentence of the catalogue, or what the controller does in Kueue's words.
        at: when, RFC 3339; empty where it does not say that.
        kind: of what it is about.
        count: how often it was reported.
    """

    reason: str
    message: str
    at: str
    kind: str = ""
    count: int = 1


def last_event(api: Api, namespace: str, uid: str, codes: AbstractSet[str]) -> LastEvent | None:
    """Return the last event about an object with one of some reasons; None where there is none.

    Raises:
        KubeError: the API server did not answer.
    """
    return max(events_of(api, namespace, uid, codes), key=_order, default=None)


def events_of(
    api: Api, namespace: str, uid: str, codes: AbstractSet[str]
) -> tuple[LastEvent, ...]:
    """Return the events about an object with one of some reasons, the oldest first.

    Raises:
        KubeError: the API server did not answer.
    """
    events = (event for event in _events(api, namespace, "uid", uid) if event.reason in codes)
    return tuple(sorted(events, key=_order))


def last_stop(api: Api, namespace: str, name: str, kinds: AbstractSet[str]) -> LastEvent | None:
    """Return the last event that said why an object of a name was stopped.

    It is there for an hour, also when the object is not. None where there is none, and where a
    later one says that the object was admitted, started or complete.

    Args:
        api: is asked with the rights of the caller.
        namespace: of the object.
        name: of the object.
        kinds: it is of one of them.

    Raises:
        KubeError: the API server did not answer.
    """
    events = (
        event
        for event in _events(api, namespace, "name", name)
        if event.kind in kinds and (is_stop(event.reason) or goes_on(event.reason))
    )
    last = max(events, key=_order, default=None)
    return None if last is None or goes_on(last.reason) else last


class Regarded(NamedTuple):
    """What an event is about.

    Attributes:
        kind: of the object.
        name: of the object.
        uid: of the object.
    """

    kind: str
    name: str
    uid: str


def without_class(api: Api, namespace: str) -> Iterator[Regarded]:
    """Yield objects of which an event says that a priority class is missing; each may be repeated.

    An event is there for an hour. Nothing is yielded where events may not be listed.
    """
    selector = f"reason={conditions.PRIORITY_CLASS_NOT_FOUND}"
    for resource, regarding, _ in EVENTS:
        try:
            events = api.list(resource, namespace, field_selector=selector)
        except errors.ApiError:
            continue
        for event in events.items:
            about = event.get(regarding) or {}
            if about.get("uid"):
                yield Regarded(about.get("kind", ""), about.get("name", ""), about["uid"])
        return


def _events(api: Api, namespace: str, key: str, value: str) -> Iterator[LastEvent]:
    """Yield the events about an object that say something, as far as they may be listed."""
    for resource, regarding, note in EVENTS:
        try:
            events = api.list(resource, namespace, field_selector=f"{regarding}.{key}={value}")
        except errors.ApiError:
            continue  # they may not be listed, or are not served in this form
        for event in events.items:
            if event.get(note):
                kind = event.get(regarding, {}).get("kind", "")
                yield LastEvent(
                    event.get("reason", ""), event[note], time_of(event), kind, _count(event)
                )
        return


def _count(event: Document) -> int:
    count = (event.get("series") or {}).get("count") or event.get("count")
    return count if isinstance(count, int) else 1


def _order(event: LastEvent) -> tuple[str, str, str]:
    return event.at, event.message, event.reason


EVENTS: Final = (
    (Resource("", "v1", "events", "Event"), "involvedObject", "message"),
    (resources.EVENTS, "regarding", "note"),
)
"""Both forms of the same events, and their fields: Kubernetes' role view reads the first only."""


def time_of(event: Document) -> str:
    """Return when an event was observed last, RFC 3339; empty where it does not say that."""
    moment: Any = (event.get("series") or {}).get("lastObservedTime")
    return moment or event.get("eventTime") or event["metadata"].get("creationTimestamp") or ""


def holds(queue: LocalQueue) -> Iterable[str]:
    """Yield what the Workloads of a LocalQueue hold, GPUs first, as ``4 a100``."""
    amounts = queue_status.reserved(queue.status.flavors_reservation)
    gpus = {pair: value for pair, value in amounts.items() if quota_use.is_gpu(pair.resource)}
    for pair, value in (gpus or amounts).items():
        if value:
            shown = quantity.in_words(pair.resource, value)
            name = "" if pair.resource == names.GPU_RESOURCE else f"{pair.resource} of "
            yield f"{shown} {name}{pair.flavor}"
