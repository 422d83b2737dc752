"""Page 1: where the GPUs go, who waits, and why."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from admission.answers import quota_use
from admission.answers.quota_use import QueueUse, Total, Use
from admission.base import amount, names
from admission.base.names import FlavorName, FlavorResource, ResourceName
from admission.gpu.inventory import NodeStock
from admission.serve.dashboard import bars, words
from admission.serve.dashboard.bars import Awaited, Bar
from admission.serve.dashboard.waiting_rows import WaitingRow

QUEUES: Final = 15
"""Queues of a page."""
ROWS: Final = 12
"""Rows of the table of those that wait."""
_UNKNOWN: Final = "?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A resource that can be looked at.

    Attributes:
        resource: its name.
        label: its name for people.
        is_gpu: whether it is one of GPUs.
    """

    resource: str
    label: str
    is_gpu: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A number at the top.

    Attributes:
        label: what it counts.
        value: the number; ``?`` where it is not known.
        unit: beside it, such as ``of 128``.
        note: the line below.
        since: a moment whose age ends that line, RFC 3339; empty for none.
        tone: ``waits``, ``bad`` or empty.
        share: filled part of a bar, in thousandths; None for no bar.
    """

    label: str
    value: str
    unit: str = ""
    note: str = ""
    since: str = ""
    tone: str = ""
    share: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """The bar of a ClusterQueue.

    Attributes:
        name: of the ClusterQueue.
        cohort: above it; empty for none.
        counts: what it has quota of, where that is not the resource of the page; empty where it
            is, and where it has no quota.
        bar: use of the resource in all flavors; None where it has no quota.
        awaited: what those that wait ask for of it; None for nothing.
        awaited_at: where that begins.
        waiting: Workloads that wait.
        problem: why it admits nothing; empty where it does.
    """

    name: str
    cohort: str
    counts: str
    bar: Bar | None
    awaited: Awaited | None
    awaited_at: int
    waiting: int
    problem: str


def choices(use: Use) -> list[Choice]:
    """Return the resources that can be looked at, whole GPUs first."""
    every = sorted(quota_use.resources_of(use), key=lambda name: name != names.GPU_RESOURCE)
    return [
        Choice(resource=resource, label=words.short(resource), is_gpu=quota_use.is_gpu(resource))
        for resource in every
    ]


def chosen(use: Use, requested: str) -> str:
    """Return the resource that is asked for, else whole GPUs, else that with the most quota."""
    every = quota_use.resources_of(use)
    if requested in every:
        return requested
    gpus = [resource for resource in every if quota_use.is_gpu(resource)]
    if names.GPU_RESOURCE in gpus or not every:
        return str(names.GPU_RESOURCE)
    totals = {resource: quota_use.total(use, resource) for resource in gpus or every}
    return max(totals, key=lambda resource: (totals[resource].used, totals[resource].nominal))


def tiles(
    total: Total,
    waiting: int,
    asking: int,
    since: str,
    stock: Sequence[NodeStock] | None,
) -> list[Tile]:
    """Return the numbers at the top.

    Args:
        total: of the resource.
        waiting: Workloads that wait, in all queues.
        asking: those of them that ask for the resource, or of which that is not known.
        since: since when the one waits that waits longest, RFC 3339; empty where that is not to
            be told.
        stock: nodes with GPUs; None where the caller may not list nodes.
    """
    return [
        _allocated(total),
        _waiting(total, waiting, asking, since),
        *(_of_gpus(total, stock) if quota_use.is_gpu(total.resource) else ()),
    ]


def _allocated(total: Total) -> Tile:
    endless = total.nominal == amount.UNLIMITED
    share = None if endless else min(1000, total.used * 1000 // max(1, total.nominal))
    note = "" if endless else f"{_say(total, max(0, total.nominal - total.used))} unused"
    if total.releasing:
        note = f"{_say(total, total.releasing)} of them held by what is ending"
    return Tile(
        label="Allocated quota",
        value=_say(total, total.used),
        unit="of unlimited" if endless else f"of {_say(total, total.nominal)}",
        note=note,
        share=share,
    )


def _waiting(total: Total, waiting: int, asking: int, since: str) -> Tile:
    if not waiting:
        return Tile(label="Waiting", value="0", note="nobody waits")
    unit = words.unit(total.resource, total.asked)
    verb = "asks" if asking == 1 else "ask"
    subject = verb if asking == waiting else f"{asking:,} of them {verb}"
    texts = [f"{subject} for {_say(total, total.asked)} {unit}"] if total.asked else []
    texts += ["longest"] if since else []
    return Tile(
        label="Waiting",
        value=f"{waiting:,}",
        unit="Workload" if waiting == 1 else "Workloads",
        note="; ".join(texts),
        since=since,
        tone="waits",
    )


def _of_gpus(total: Total, stock: Sequence[NodeStock] | None) -> Iterable[Tile]:
    yield from _of_nodes(total, stock)
    unbound = total.without_node
    on_nodes = "every pod is on a node" if total.used else "nothing is allocated"
    note = "allocated, and no pod is on a node" if unbound else on_nodes
    yield Tile(label="Held without a node", value=_say(total, unbound), note=note)


def _of_nodes(total: Total, stock: Sequence[NodeStock] | None) -> Iterable[Tile]:
    if stock is None:
        note = "needs the right to list nodes"
        yield Tile(label="Free on one node", value=_UNKNOWN, note=note)
        yield Tile(label="Sick", value=_UNKNOWN, note=note)
        return
    resource = total.resource
    free = sum(node.free.get(resource, 0) for node in stock)
    best = max(stock, key=lambda node: node.free.get(resource, 0), default=None)
    hole = 0 if best is None else best.free.get(resource, 0)
    outside = sum(node.outside.get(resource, 0) for node in stock)
    outside_text = f"; {_say(total, outside)} held outside of quota" if outside else ""
    yield Tile(
        label="Free on one node",
        value=_say(total, hole),
        unit="at most",
        note=f"{_say(total, free)} free on all nodes{outside_text}",
    )
    sick = sum(node.sick.get(resource, 0) for node in stock)
    nodes = sum(bool(node.sick.get(resource, 0)) for node in stock)
    yield Tile(
        label="Sick",
        value=_say(total, sick),
        note=f"on {words.counted(nodes, 'node')}; not free for anybody" if nodes else "none",
        tone="bad" if sick else "",
    )


def headline(total: Total, waiting: int) -> str:
    """Return the sentence at the top: how full it is, and how many wait.

    How long the first of them waits is added by the page, and the full stop.
    """
    used, nominal = _say(total, total.used), _say(total, total.nominal)
    if total.nominal == amount.UNLIMITED:
        full = f"{used} {words.unit(total.resource, total.used)} of unlimited quota allocated"
    elif total.nominal or total.used:
        full = (
            f"{used} of {nominal} {words.unit(total.resource, total.nominal)} of quota allocated"
        )
    else:
        full = f"There is no quota of {words.unit(total.resource)} yet"
    if not waiting:
        return f"{full}; nobody waits"
    noun = "Workload waits" if waiting == 1 else "Workloads wait"
    return f"{full}; {waiting:,} {noun}"


def first_that_starts(rows: Iterable[WaitingRow]) -> WaitingRow | None:
    """Return the first that the caller may see and that can start, where one before it never does.

    None where the first one can start.
    """
    is_after = False
    for row in rows:
        if row.key is not None and not row.never:
            return row if is_after else None
        is_after = is_after or row.never
    return None


def queue_rows(use: Use, resource: str) -> list[QueueUse]:
    """Return the ClusterQueues for which a resource matters: those that wait for most first."""
    return sorted(
        (queue for queue in use.queues if _concerns(queue, resource)),
        key=lambda queue: (
            -(queue.pending.resources or {}).get(resource, 0),
            -queue.pending.workloads,
            -sum(line.used for line in queue.lines if line.resource == resource),
            queue.name,
        ),
    )


def _concerns(queue: QueueUse, resource: str) -> bool:
    return bool(
        queue.pending.workloads
        or not queue.active
        or any(line.resource == resource and (line.nominal or line.used) for line in queue.lines)
    )


def drawn(shown: Sequence[QueueUse], resource: str) -> list[QueueRow]:
    """Return the rows of some ClusterQueues, all on one scale."""
    sums = {queue.name: _sum(queue, resource) for queue in shown}
    scale = (
        bars.scale_of(n for line in sums.values() for n in (line.nominal, line.used)) * 3 // 2 or 1
    )
    return [_queue_row(queue, sums[queue.name], resource, scale) for queue in shown]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sum:
    nominal: int
    used: int
    borrowed: int
    releasing: int


def _sum(queue: QueueUse, resource: str) -> _Sum:
    lines = [line for line in queue.lines if line.resource == resource]
    nominal = 0
    for line in lines:
        nominal = amount.add(nominal, line.nominal)
    return _Sum(
        nominal=nominal,
        used=sum(line.used for line in lines),
        borrowed=sum(line.borrowed for line in lines),
        releasing=sum(line.releasing or 0 for line in lines),
    )


def _queue_row(queue: QueueUse, sums: _Sum, resource: str, scale: int) -> QueueRow:
    requested = (queue.pending.resources or {}).get(resource, 0)
    counted = _counted(queue, resource)
    bar = None
    if counted == resource:
        bar = _bar(resource, sums, scale)
    elif counted:
        other = _sum(queue, counted)
        bar = bars.without_length(_bar(counted, other, bars.scale_of((other.nominal, other.used))))
    end = bar.own + bar.borrowed if bar is not None else 0
    return QueueRow(
        name=queue.name,
        cohort=queue.cohort,
        counts="" if counted == resource else words.short(counted),
        bar=bar,
        awaited=bars.awaited(resource, requested, scale, limit=bars.FULL - end)
        if requested
        else None,
        awaited_at=end,
        waiting=queue.pending.workloads,
        problem="" if queue.active else queue.message or "admits nothing",
    )


def _counted(queue: QueueUse, resource: str) -> str:
    """Return the resource if a queue has quota of it, else the first that it has quota of.

    Amounts of another one stand in the row with their unit: ``0`` of what it does not count would
    say that it has none.
    """
    every = {line.resource for line in queue.lines}
    return resource if resource in every else min(every, key=quota_use.order_of, default="")


def _bar(resource: str, sums: _Sum, scale: int) -> Bar:
    return bars.make(
        FlavorResource(FlavorName(""), ResourceName(resource)),
        sums.used, sums.nominal, sums.releasing, scale, borrowed=sums.borrowed,
    )  # fmt: skip


def matching(use: Sequence[QueueUse], text: str, also: Iterable[str]) -> list[QueueUse]:
    """Return ClusterQueues whose name or Cohort has a text, or that are named besides."""
    named = frozenset(also)
    return [
        flavor
        for flavor in use
        if text in flavor.name.lower() or text in flavor.cohort.lower() or flavor.name in named
    ]


def _say(total: Total, value: int) -> str:
    return words.say(total.resource, value)


def moment(now: datetime) -> str:
    """Return the time of a page, for people."""
    return now.strftime("%H:%M:%S UTC")
