"""Who waits, over all queues: rows of a table, the one that waits longest first."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Protocol

from admission.answers import owning, quota_use, shortages
from admission.answers.estimates import Starts
from admission.base import causes, clock, conditions, durations, quantity
from admission.base.causes import ALL_NAMED, Shortage
from admission.base.conditions import Text
from admission.base.names import ClusterQueueName, FlavorName, ResourceName, WorkloadKey
from admission.gpu import resources as devices
from admission.objects.workload import Workload
from admission.reasons import next_steps, reading, sentences
from admission.scheduling.decisions import Wait
from admission.scheduling.pending import Pending, PendingSnapshot
from admission.scheduling.podsets import Demand
from admission.serve.dashboard import words

_NEVER: Final = next_steps.NEVER_STARTS
_HOLDERS: Final = 3
_HEAD: Final = "Waits: "
_NOT_TRIED: Final = "Not tried yet."


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A Workload that waits, before anything is looked up about it.

    Attributes:
        item: as it stands in its queue.
        queue: the ClusterQueue.
    """

    item: Pending
    queue: ClusterQueueName

    @property
    def key(self) -> WorkloadKey:
        """Return the identity of the Workload."""
        return self.item.key

    def may_ask_for(self, resource: str) -> bool:
        """Return whether it asks for a resource, or it is not known for what it asks."""
        demands = self.item.demands
        return not demands or any(
            demand.requests.get(ResourceName(resource)) for demand in demands
        )

    def matches(self, text: str) -> bool:
        """Return whether a lower-case text is part of one of its names."""
        work = self.item.workload
        parts = (work.key.namespace, work.key.name, work.queue.name, self.queue, work.requester)
        return any(text in part.lower() for part in parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """A Workload that waits.

    Attributes:
        key: of the Workload; None for one that the caller may not see.
        owner: what it was made for, as ``Job train``; empty for itself.
        user: who created that; `owning.UNKNOWN` where nobody saw it.
        queue: the ClusterQueue.
        place: in the ClusterQueue among those that may start, from 1; 0 for one that never does.
        is_passed: whether it never starts, and is known not to keep others waiting.
        priority: of the Workload.
        asks: what it asks for, in words, GPUs first.
        since: since when it waits, RFC 3339.
        verdict: why it waits, without who holds the rest.
        held_by: ClusterQueues that hold what it needs, with how much, largest first.
        never: whether it never starts as it is.
        starts: when it starts, estimated from time limits, RFC 3339; empty where that is not
            known.
        starts_within: how long that is from now.
    """

    key: WorkloadKey | None
    owner: str = ""
    user: str = ""
    queue: str = ""
    place: int = 0
    is_passed: bool = False
    priority: int = 0
    asks: str = ""
    since: str = ""
    verdict: str = ""
    held_by: tuple[tuple[str, str], ...] = ()
    never: bool = False
    starts: str = ""
    starts_within: str = ""


class Lookup(Protocol):
    """Where more is known about Workloads that wait."""

    def workloads(self, keys: tuple[WorkloadKey, ...]) -> tuple[Workload | None, ...]:
        """Return Workloads by identity; None for one that is gone."""
        ...

    def waits(self, keys: tuple[WorkloadKey, ...]) -> tuple[Wait | None, ...]:
        """Return why Workloads wait; None for one that does not."""
        ...


def in_order(lines: Mapping[ClusterQueueName, PendingSnapshot]) -> list[Waiter]:
    """Return who waits, the longest wait first; ties by identity."""
    waiters = [Waiter(item=item, queue=q) for q, line in lines.items() for item in line.members]
    return sorted(waiters, key=lambda waiter: (waiter.item.queue_us, waiter.key))


def rows(
    shown: Sequence[Waiter],
    lines: Mapping[ClusterQueueName, PendingSnapshot],
    source: Lookup,
    may_see: Callable[[str], bool],
    starts: Starts,
    now: datetime,
    passing: Container[ClusterQueueName] = (),
) -> list[WaitingRow]:
    """Return the rows of a page.

    Args:
        shown: those of the page.
        lines: who waits, by ClusterQueue.
        source: where more is known.
        may_see: whether the caller may see the Workloads of a namespace.
        starts: estimates of when they start.
        now: the present.
        passing: ClusterQueues of which it is known that others pass what does not fit.
    """
    places = _places(shown, lines)
    keys = tuple(waiter.key for waiter in shown)
    rows = zip(shown, source.workloads(keys), source.waits(keys), strict=True)
    return [
        _placed(
            _row(waiter, view, wait, starts.get(waiter.key), now),
            places[waiter.key],
            is_passing=waiter.queue in passing,
        )
        if may_see(waiter.key.namespace)
        else WaitingRow(key=None, queue=waiter.queue)
        for waiter, view, wait in rows
    ]


def _placed(row: WaitingRow, place: int, *, is_passing: bool) -> WaitingRow:
    """Return a row with its place in its queue, which one that never starts does not have."""
    return replace(row, is_passed=is_passing) if row.never else replace(row, place=place)


def _places(
    shown: Iterable[Waiter], lines: Mapping[ClusterQueueName, PendingSnapshot]
) -> dict[WorkloadKey, int]:
    places: dict[WorkloadKey, int] = {}
    keys = {waiter.key for waiter in shown}
    for queue in {waiter.queue for waiter in shown}:
        line = lines[queue]
        place = 1
        for item in sorted(line.members, key=line.sort_key()):
            if item.key in keys:
                places[item.key] = place
            place += not item.hopeless
    return places


def since(line: PendingSnapshot, key: WorkloadKey) -> str:
    """Return since when a Workload waits in a queue, RFC 3339; empty where it does not."""
    moments = (item.queue_us for item in line.members if item.key == key)
    moment = next(moments, None)
    return "" if moment is None else _to_wire(moment)


def _to_wire(moment_us: int) -> str:
    return clock.to_wire(datetime.fromtimestamp(moment_us // 1_000_000, UTC))


def _row(
    waiter: Waiter,
    view: Workload | None,
    wait: Wait | None,
    start: datetime | None,
    now: datetime,
) -> WaitingRow:
    work = waiter.item.workload
    since = datetime.fromtimestamp(waiter.item.queue_us // 1_000_000, UTC)
    verdict, never = said(wait, view)
    return WaitingRow(
        key=waiter.key,
        owner="" if view is None else owning.owner_of(view),
        user=(work.requester if view is None else owning.requester_of(view.metadata))
        or owning.UNKNOWN,
        queue=waiter.queue,
        priority=work.priority,
        asks=asks(waiter.item, wait),
        since=clock.to_wire(since),
        verdict=verdict,
        held_by=holders(wait),
        never=never,
        starts="" if start is None else clock.to_wire(start),
        starts_within="" if start is None else durations.within(start - now),
    )


def said(wait: Wait | None, view: Workload | None) -> tuple[str, bool]:
    """Return why a Workload waits, and whether it never starts as it is.

    A controller that stands by has judged nothing: then it is what the Workload says.
    """
    if wait is None or (isinstance(wait.why, causes.NotTried) and not wait.small_nodes):
        condition = None if view is None else view.status.condition(conditions.QUOTA_RESERVED)
        if view is None or condition is None or condition.status == "True":
            return _NOT_TRIED, False
        queue, lacking = ("", ()) if wait is None else (wait.cluster_queue, wait.shortages)
        text = sentences.text(reading.of_condition(condition.reason, condition.message), queue)
        alone = _without_holders(shortages.of_fitting_flavors(lacking, view))
        return _in_short(shortages.verdict(text, alone, queue))
    text = sentences.waiting(
        wait.why,
        wait.cluster_queue,
        shortages=_without_holders(wait.shortages),
        nodes=wait.small_nodes,
        preempting=len(wait.preempting),
    )
    return _in_short(text if wait.small_nodes else sentences.with_ending(text, wait.ending))


def _without_holders(amounts: Iterable[Shortage]) -> tuple[Shortage, ...]:
    """Return what is lacking without who holds it, which has a column of its own."""
    return tuple(replace(shortage, holders=(), unnamed=ALL_NAMED) for shortage in amounts)


def _in_short(text: Text) -> tuple[str, bool]:
    message = text.message
    if message.startswith(_HEAD):
        message = message.removeprefix(_HEAD)
        message = message[:1].upper() + message[1:]
    return message, text.reason in _NEVER


def holders(wait: Wait | None) -> tuple[tuple[str, str], ...]:
    """Return the ClusterQueues that hold what a Workload needs in any flavor, largest first."""
    amounts = () if wait is None else wait.shortages
    lacks = sentences.lacks(amounts) if amounts else []
    resource = next((lack.resource for lack in lacks if lack.holders and not lack.never), None)
    in_flavors = {each.flavor: each.holders for each in amounts if each.resource == resource}
    used: dict[str, int] = {}
    for flavor_holders in in_flavors.values():
        for queue, value in flavor_holders:
            used[queue] = used.get(queue, 0) + value
    largest = sorted(used.items(), key=lambda pair: (-pair[1], pair[0]))[:_HOLDERS]
    return tuple((queue, quantity.in_words(resource or "", value)) for queue, value in largest)


def asks(item: Pending | None, wait: Wait | None) -> str:
    """Return what a Workload that waits asks for, in words.

    A GPU costs another amount of GPU memory in each flavor. It is the amount that the reason
    tells, in the flavor that it names first; where none was tried, the smallest and the largest.
    """
    demands = () if item is None else item.demands
    if not demands:
        return words.in_words(_sums(requests for _, requests in wait.requests) if wait else {})
    if wait is not None and not isinstance(wait.why, causes.NotTried):
        first = next(iter(sentences.deciding(wait.shortages)), None)
        if first is not None and quota_use.is_gpu(first.resource):
            return words.in_words(_in_flavor(demands, FlavorName(first.flavor)))
    return _in_any_flavor(demands)


def asked_together(line: PendingSnapshot, requested: Mapping[ResourceName, int]) -> str:
    """Return what all that wait in a queue ask for, in words.

    Args:
        line: who waits.
        requested: the sums, with the largest amounts where these differ by flavor.
    """
    if not any(map(devices.is_virtual, requested)):
        return words.in_words({str(resource): value for resource, value in requested.items()})
    return _in_any_flavor(demand for item in line.members for demand in item.demands)


def _in_any_flavor(demands: Iterable[Demand]) -> str:
    """Return what pod sets ask for together, with the smallest and the largest amounts."""
    lowest: dict[str, int] = {}
    highest: dict[str, int] = {}
    for demand in demands:
        flavors = demand.priced_flavors()
        for resource, value in demand.requests.items():
            smallest = min(
                (demand.in_flavor(flavor, resource) for flavor in flavors), default=value
            )
            lowest[resource] = lowest.get(resource, 0) + min(smallest, value)
            highest[resource] = highest.get(resource, 0) + value
    return words.in_words(highest, lowest)


def _in_flavor(demands: Iterable[Demand], flavor: FlavorName) -> dict[str, int]:
    return _sums(
        {resource: demand.in_flavor(flavor, resource) for resource in demand.requests}
        for demand in demands
    )


def _sums(parts: Iterable[Mapping[ResourceName, int]]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for requests in parts:
        for resource, value in requests.items():
            amounts[resource] = amounts.get(resource, 0) + value
    return amounts
