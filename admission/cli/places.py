"""``kubectl gpu queue``: who waits at which place."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import click

from admission.base import durations, quantity
from admission.base.answers import ErrorCode
from admission.base.clock import SystemClock
from admission.cli import asking, clusters, named, output, tables
from admission.cli.asking import Asked
from admission.cli.kubectl import EXITS
from admission.cli.tables import Column
from admission.visibility import estimates, owning, quota_use, waiting
from admission.visibility.cluster import Read
from admission.visibility.estimates import Starts
from admission.visibility.subjects import similar
from admission.visibility.waiting import Place, Queue

_STARTS: Final = "STARTS"
_ESTIMATES: Final = (
    "note: the column STARTS is an estimate: what runs uses all of its time limit, and nothing "
    "comes that goes first"
)
_COLUMNS: Final = (
    Column("PLACE", right=True),
    Column(_STARTS),
    Column("ASKS", whole=True),
    Column("OWNER"),
    Column("AGE", right=True),
    Column("LOCALQUEUE", goes=1),
    Column("PRIORITY", right=True, goes=2),
    Column("REQUESTER", goes=3),
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
    ClusterQueue with waiting Workloads. Place 1 is tried next.
    """
    within = name.rpartition("/")[0] if name else ""
    with asking.asked(kubeconfig, context, namespace or within or None) as target:
        read = target.read()
        found = [_all(target, read)] if name is None else [[_one(target, read, name)]]
        queues = found[0]
    now = SystemClock().now()
    starts = estimates.of_read(read, _whole(read, queues), now)
    if form == "json":
        output.print_json(waiting.document(queues, starts, read.missing))
        return
    most = tables.width()
    for number, one in enumerate(queues):
        if number:
            click.echo("")
        asking.say(_lines(one, limit, most, _Showing(starts, now, every=all_resources)))
    if not queues:
        click.echo("Nobody waits in a queue that you may read.")
    asking.say(asking.not_shown(read.missing, most))


def _all(target: Asked, read: Read) -> list[Queue]:
    every = (_queue(target, read, name) for name in sorted(read.known_queues))
    return [one for one in every if one.waiting or one.hidden]


def _whole(read: Read, shown: Sequence[Queue]) -> list[Queue]:
    """Return every ClusterQueue with who waits there, as shown where it is shown as a whole."""
    found = {queue.name: queue for queue in shown}
    return [found.get(name) or waiting.of(read, name) for name in sorted(read.known_queues)]


def _one(target: Asked, read: Read, name: str) -> Queue:
    """The ClusterQueue of that name, else what waits in the LocalQueue."""
    namespace, _, local = name.rpartition("/")
    namespace = namespace or target.namespace
    behind = read.cluster_queue_of(namespace, local)
    if name not in read.known_queues and not behind:
        output.fail(
            f"there is no queue {name!r} that you may read",
            f"{similar(name, asking.queue_names(read, target.namespace))}see those there are: "
            "kubectl get clusterqueues; kubectl get localqueues -A",
            code=ErrorCode.NOT_FOUND,
        )
    if name in read.known_queues:
        return _queue(target, read, name)
    return waiting.in_local_queue(_queue(target, read, behind), namespace, local)


def _queue(target: Asked, read: Read, name: str) -> Queue:
    order = waiting.told(target.api, name)
    return waiting.of(read, name, order)


@dataclass(frozen=True, slots=True)
class _Showing:
    """What is shown of those that wait.

    Attributes:
        starts: estimates of when they start.
        now: the present.
        every: whether all resources are shown.
    """

    starts: Starts
    now: datetime
    every: bool


def _lines(found: Queue, limit: int, most: int, what: _Showing) -> Iterator[str]:
    number = len(found.waiting) + found.hidden
    verb = "waits" if number == 1 else "wait"
    verdict = f"queue {found.name}: {tables.counted(number, 'Workload')} {verb}"
    if not number:
        yield f"queue {found.name}: nobody waits"
        return
    if found.hidden:
        verdict += f", {found.hidden:,} of them in namespaces that you may not read"
    never = [one for one in found.waiting if one.never]
    if never:
        verdict += f"; {asking.never_start(len(never))}"
    yield from tables.sentence(verdict, most, "  ")
    shown = found.waiting[:limit] if limit else found.waiting
    if shown:
        columns: Sequence[Column] = _COLUMNS
        rows: Sequence[Sequence[str]] = [_row(one, what) for one in shown]
        has_estimate = any(one.key in what.starts for one in shown)
        if not never and not has_estimate:
            columns = tuple(one for one in columns if one.head != _STARTS)
            rows = [(row[0], *row[2:]) for row in rows]
        lines = tables.table(columns, rows, most)
        yield from tables.with_texts(lines, [one.message for one in shown], most)
        if has_estimate:
            yield from tables.sentence(_ESTIMATES, most, "  ")
    if len(shown) < len(found.waiting):
        rest = len(found.waiting) - len(shown)
        yield from tables.sentence(f"and {rest:,} more; all of them: --limit 0", most, "  ")
    if not found.exact:
        yield from tables.sentence(
            "note: places follow priority and time; the controller's own order, which also knows "
            "past usage of LocalQueues, is told by the visibility API, which is not served here "
            "or not open to you",
            most,
            "  ",
        )
    yield from tables.sentence("next: what one of them waits for: kubectl gpu why POD", most)


def _starts(one: Place, what: _Showing) -> str:
    """Return when one that waits starts; empty where that is not known."""
    if one.never:
        return "never"
    start = what.starts.get(one.key)
    return "" if start is None else f"within {durations.within(start - what.now)}"


def _row(one: Place, what: _Showing) -> tuple[str, ...]:
    gpus = {resource: n for resource, n in one.asks.items() if quota_use.is_gpu(resource)}
    shown = one.asks if what.every or not gpus else gpus
    asks = ", ".join(
        f"{quantity.from_canonical(resource, shown[resource])} {resource}"
        for resource in sorted(shown, key=quota_use.order_of)
    )
    return (
        str(one.place),
        _starts(one, what),
        asks or "nothing",
        owning.shown(one.namespace, one.owner, one.workload),
        tables.age(one.since, what.now),
        one.local_queue,
        str(one.priority),
        "" if one.requester == owning.UNKNOWN else one.requester,
    )
