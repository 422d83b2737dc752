"""``kubectl gpu queue``: who waits at which place."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import click

from admission.answers import cluster, estimates, owning, queueless, quota_use, waiting
from admission.answers.cluster import Read
from admission.answers.estimates import Starts
from admission.answers.queueless import Queueless
from admission.answers.spelling import similar
from admission.answers.waiting import Place, Queue
from admission.base import durations, names, quantity
from admission.base.json_answers import ErrorCode
from admission.base.names import WorkloadKey
from admission.cli import asking, clusters, named, output, tables
from admission.cli.asking import QueriedCluster
from admission.cli.kubectl import EXITS
from admission.cli.tables import TableColumn
from admission.reasons.next_steps import Code

_STARTS: Final = "STARTS"
_ESTIMATES: Final = (
    "note: the column STARTS is an estimate: what runs uses all of its time limit, and nothing "
    "comes that goes first"
)
_UNKNOWN: Final = "?"
_NO_QUEUE: Final = "none"
_KIND_AND_NAME: Final = 2
"""Words of an owner that can be asked about; of a group of pods there are more."""
_NO_ESTIMATES: Final = (
    "note: start not known: some of what holds their quota has no time limit: the label "
    f"{names.MAX_EXEC_TIME_LABEL}, or the annotation {names.MAXIMUM_RUN_TIME} of a queue"
)
_OF_DIFFERENT_TIMES: Final = (
    "note: what each one needs is as of when it was last tried, so rows may be of different times"
)
_COLUMNS: Final = (
    TableColumn("PLACE", right=True),
    TableColumn(_STARTS),
    TableColumn("ASKS", whole=True),
    TableColumn("OWNER"),
    TableColumn("AGE", right=True),
    TableColumn("LOCALQUEUE", goes=1),
    TableColumn("PRIORITY", right=True, goes=2),
    TableColumn("REQUESTER", goes=3),
)
_UNQUEUED_COLUMNS: Final = (
    TableColumn("ASKS", whole=True),
    TableColumn("OWNER"),
    TableColumn("AGE", right=True),
    TableColumn("LOCALQUEUE", goes=1),
    TableColumn("REQUESTER", goes=2),
)


@click.command(
    name="queue",
    epilog=f"""\b
Examples:
  kubectl gpu queue
  kubectl gpu queue research
  kubectl gpu queue team-a/default --limit 0
  kubectl gpu queue research -o json

{EXITS}""",
)
@click.argument("name", metavar="[QUEUE]", required=False, shell_complete=named.waiting)
@asking.limit_option
@asking.all_resources_option
@asking.namespace_option
@asking.all_namespaces_option
@output.kubeconfig_option
@clusters.context_option
@output.table_option
def queue(
    name: str | None,
    limit: int,
    all_resources: bool,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    form: str,
) -> None:
    """Show who waits in a queue, at which place.

    QUEUE is a ClusterQueue, or a LocalQueue as NAME or NAMESPACE/NAME. The default is every
    ClusterQueue with waiting Workloads; with -n, only those of that namespace are shown, at their
    places in the whole queue. Place 1 is tried next. What never starts has no place, unless its
    queue is StrictFIFO: then the others wait for it. What is in no queue comes last: pods that
    need one, what names a LocalQueue that does not exist and, with -n, suspended Jobs with GPUs
    and without a queue, and what names a priority class that does not exist.
    """
    with asking.asked(kubeconfig, context, asking.namespace_of(name) or namespace) as target:
        read = target.read()
        queue_groups = [_all(target, read)] if name is None else [[_one(target, read, name)]]
        queues = queue_groups[0]
        unqueued = () if name else _unqueued(target, read)
    now = output.clock().now()
    starts = estimates.of_read(read, _whole(read, queues), now)
    if name is None and target.only:
        queues = [waiting.in_namespace(read, queue, target.only) for queue in queues]
        queues = [queue for queue in queues if queue.waiting or queue.unread]
    unread = ""
    if not queues and not unqueued:
        unread = asking.instead_of_nothing(
            read.missing, target, kind="Workload", command="queue", nothing="nobody waits"
        )
    if form == "json":
        in_queues = waiting.document(queues, starts, read.missing)
        output.print_json(in_queues | {"inNoQueue": queueless.document(unqueued)})
        return
    width = tables.width()
    unlimited = estimates.waiting_for_unlimited(read, queues)
    for number, line in enumerate(queues):
        if number:
            click.echo("")
        showing = _Showing(starts, now, every=all_resources, unlimited=unlimited)
        asking.say(_lines(line, limit, width, showing))
    if unqueued:
        if queues:
            click.echo("")
        asking.say(_unqueued_lines(unqueued, limit, width, now, every=all_resources))
    is_start_unread = not estimates.may_read_all(read) and any(map(_may_start, queues))
    if unread:
        asking.say(tables.sentence(unread, width))
        return
    if not queues and not unqueued:
        click.echo(f"Nobody waits in {f'namespace {target.only}' if target.only else 'a queue'}.")
    only = target.only if name is None else ""
    unknown = "when something starts" if is_start_unread else ""
    asking.say(asking.not_shown(read.missing, width, only, unknown=unknown))


def _unqueued(target: QueriedCluster, read: Read) -> tuple[Queueless, ...]:
    """Return what waits in no queue; in a namespace also what has no Workload."""
    is_limited = not cluster.is_whole(read.missing, "Workload")
    namespace = target.only or (target.namespace if is_limited else "")
    is_unread = cluster.is_unread(read.missing, "Workload")
    return queueless.of(target.api, read, target.only, "" if is_unread else namespace)


def _unqueued_lines(
    unqueued: Sequence[Queueless], limit: int, width: int, now: datetime, *, every: bool
) -> Iterator[str]:
    noun = "1 pod or owner" if len(unqueued) == 1 else f"{len(unqueued):,} pods and owners"
    yield from tables.sentence(
        f"in no queue: {noun} {'waits' if len(unqueued) == 1 else 'wait'}", width, "  "
    )
    shown = unqueued[:limit] if limit else unqueued
    rows = [
        (
            _UNKNOWN if each.asks is None else _asks(each.asks, {}, every=every),
            owning.shown(each.namespace, each.owner, each.workload),
            tables.age(each.since, now),
            each.local_queue or _NO_QUEUE,
            "" if each.requester == owning.UNKNOWN else each.requester,
        )
        for each in shown
    ]
    lines = tables.table(_UNQUEUED_COLUMNS, rows, width)
    yield from tables.with_texts(lines, [each.message for each in shown], width)
    if len(shown) < len(unqueued):
        rest = len(unqueued) - len(shown)
        yield from tables.sentence(f"and {rest:,} more; all of them: --limit 0", width, "  ")
    step = _step_of(shown[0].namespace, shown[0].owner, shown[0].workload)
    yield from tables.sentence(step, width)


def _step_of(namespace: str, owner: str, workload: str) -> str:
    """Return the command that says why one of those that wait does."""
    kept = owner if len(owner.split(" ")) == _KIND_AND_NAME else ""
    _, _, name = owning.shown(namespace, kept, workload).partition("/")
    step = clusters.again(f"kubectl gpu why {name} -n {namespace}")
    return f"next: what one of them waits for: {step}"


def _all(target: QueriedCluster, read: Read) -> list[Queue]:
    """The queues in which somebody waits; all of them where one namespace is asked for."""
    queues = (_queue(target, read, name) for name in sorted(read.known_queues))
    return [line for line in queues if target.only or line.waiting or line.hidden]


def _whole(read: Read, shown: Sequence[Queue]) -> list[Queue]:
    """Return every ClusterQueue with who waits there, as shown where it is shown as a whole."""
    queues = {queue.name: queue for queue in shown}
    return [queues.get(name) or waiting.of(read, name) for name in sorted(read.known_queues)]


def _one(target: QueriedCluster, read: Read, name: str) -> Queue:
    """The ClusterQueue of that name, else what waits in the LocalQueue."""
    namespace, _, local = name.rpartition("/")
    namespace = namespace or target.namespace
    behind = read.cluster_queue_of(namespace, local)
    if name not in read.known_queues and not behind:
        output.fail(
            f"there is no queue {name!r} that you may read",
            similar(name, asking.queue_names(read, target.namespace))
            + asking.see_queues(read, target, f"queue {name}"),
            code=ErrorCode.NOT_FOUND,
        )
    if name in read.known_queues:
        return _queue(target, read, name)
    return waiting.in_local_queue(read, _queue(target, read, behind), namespace, local)


def _queue(target: QueriedCluster, read: Read, name: str) -> Queue:
    order = waiting.told(target.api, name)
    return waiting.of(read, name, order)


@dataclass(frozen=True, slots=True)
class _Showing:
    """What is shown of those that wait.

    Attributes:
        starts: estimates of when they start.
        now: the present.
        every: whether all resources are shown.
        unlimited: who waits for quota that work without a time limit holds.
    """

    starts: Starts
    now: datetime
    every: bool
    unlimited: frozenset[WorkloadKey]


def _lines(queue: Queue, limit: int, width: int, showing: _Showing) -> Iterator[str]:
    number = len(queue.waiting) + queue.unread + (0 if queue.namespace else queue.hidden)
    verb = "waits" if number == 1 else "wait"
    whose = f" of namespace {queue.namespace}" if queue.namespace else ""
    verdict = f"queue {queue.name}: {tables.counted(number, 'Workload')}{whose} {verb}"
    if not number:
        yield f"queue {queue.name}: nobody waits"
        yield from asking.caps(queue.caps, width)
        return
    if queue.hidden and queue.namespace:
        verdict += (
            f"; {queue.hidden:,} more in namespaces that you may not read may be before them"
        )
    elif queue.hidden:
        verdict += f", {queue.hidden:,} of them where you may not read"
    if queue.unread:
        verdict += f", {queue.unread:,} of them where you may not read"
    never = [place for place in queue.waiting if place.never]
    if never:
        verdict += f"; {asking.never_start(len(never))}"
    yield from tables.sentence(verdict, width, "  ")
    in_order = waiting.by_place(queue.waiting)
    shown = in_order[:limit] if limit else in_order
    if shown:
        columns: Sequence[TableColumn] = _COLUMNS
        rows: Sequence[Sequence[str]] = [_row(place, showing) for place in shown]
        has_estimate = any(place.key in showing.starts for place in shown)
        if not never and not has_estimate:
            columns = tuple(column for column in columns if column.head != _STARTS)
            rows = [(row[0], *row[2:]) for row in rows]
        lines = tables.table(columns, rows, width)
        yield from tables.with_texts(lines, [place.message for place in shown], width)
        if has_estimate:
            yield from tables.sentence(_ESTIMATES, width, "  ")
        elif not showing.unlimited.isdisjoint(place.key for place in shown):
            yield from tables.sentence(_NO_ESTIMATES, width, "  ")
        if not queue.is_current and sum(map(_has_amounts, shown)) > 1:
            yield from tables.sentence(_OF_DIFFERENT_TIMES, width, "  ")
    if len(shown) < len(queue.waiting):
        rest = len(queue.waiting) - len(shown)
        yield from tables.sentence(f"and {rest:,} more; all of them: --limit 0", width, "  ")
    yield from asking.caps(queue.caps, width)
    if not queue.exact:
        yield from tables.sentence(
            "note: places follow priority and time; the exact order, with past usage of "
            "LocalQueues, needs the right to read it, and is served once an administrator runs: "
            "gpu-admission install --visibility",
            width,
            "  ",
        )
    if shown:
        step = _step_of(shown[0].namespace, shown[0].owner, shown[0].workload)
        yield from tables.sentence(step, width)


def _has_amounts(place: Place) -> bool:
    """Return whether the message of one that waits says what it lacks."""
    return place.reason == Code.WAITING_FOR_QUOTA


def _may_start(queue: Queue) -> bool:
    """Return whether somebody is shown who waits, and does not do so for ever."""
    return any(not place.never for place in queue.waiting)


def _starts(place: Place, showing: _Showing) -> str:
    """Return when one that waits starts; empty where that is not known."""
    if place.never:
        return "never"
    start = showing.starts.get(place.key)
    return "" if start is None else f"within {durations.within(start - showing.now)}"


def _between(resource: str, lowest: int | None, highest: int) -> str:
    """Return what is asked for, which may be less in some flavors: ``80Gi to 94Gi``."""
    high = quantity.from_canonical(resource, highest)
    if lowest is None or lowest >= highest:
        return high
    return f"{quantity.from_canonical(resource, lowest)} to {high}"


def _asks(amounts: Mapping[str, int], lowest: Mapping[str, int], *, every: bool) -> str:
    """Return what is asked for in words: GPUs, and all others on request or without GPUs."""
    gpus = {resource: n for resource, n in amounts.items() if quota_use.is_gpu(resource)}
    shown = amounts if every or not gpus else gpus
    parts = (
        f"{_between(resource, lowest.get(resource), shown[resource])} {resource}"
        for resource in sorted(shown, key=quota_use.order_of)
    )
    return ", ".join(parts) or "nothing"


def _row(place: Place, showing: _Showing) -> tuple[str, ...]:
    return (
        "-" if place.place is None else str(place.place),
        _starts(place, showing),
        _asks(place.asks, place.lowest, every=showing.every),
        owning.shown(place.namespace, place.owner, place.workload),
        tables.age(place.since, showing.now),
        place.local_queue,
        str(place.priority),
        "" if place.requester == owning.UNKNOWN else place.requester,
    )
