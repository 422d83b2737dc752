"""``kubectl gpu top``: how much quota there is, and who uses it."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import click

from admission.answers import borrowing, cluster, node_groups, queue_caps, quota_use, waiting
from admission.answers.borrowing import LocalHolding
from admission.answers.cluster import Read
from admission.answers.node_groups import DomainAmount, GroupedNodes
from admission.answers.quota_use import (
    CohortUse,
    FlavorLine,
    Line,
    LocalLine,
    LocalUse,
    QueueUse,
    Use,
    Waiting,
)
from admission.answers.spelling import similar
from admission.base import amount, names, quantity
from admission.base.json_answers import ErrorCode
from admission.base.names import FlavorName, FlavorResource, ResourceName
from admission.cli import asking, clusters, named, output, tables
from admission.cli.asking import QueriedCluster
from admission.cli.kubectl import EXITS
from admission.cli.tables import TableColumn
from admission.reasons import placing

_NONE: Final = "-"
_SICK_NODES: Final = 5
_UNKNOWN: Final = "?"
_QUEUES: Final = (
    TableColumn("QUEUE"),
    TableColumn("FLAVOR"),
    TableColumn("NOMINAL", right=True),
    TableColumn("USED", right=True),
    TableColumn("BORROWED", right=True, goes=2),
    TableColumn("LENT", right=True, goes=3),
    TableColumn("RELEASING", right=True, goes=1),
    TableColumn("NO NODE", right=True, goes=4),
    TableColumn("PENDING", right=True),
)
_FLAVORS: Final = (
    TableColumn("FLAVOR"),
    TableColumn("NOMINAL", right=True),
    TableColumn("USED", right=True),
    TableColumn("RELEASING", right=True, goes=1),
    TableColumn("NO NODE", right=True, goes=4),
    TableColumn("REAL", right=True),
    TableColumn("SICK", right=True, goes=2),
    TableColumn("OUTSIDE", right=True, goes=5),
    TableColumn("NODES", right=True, goes=3),
)
_LOCAL: Final = (
    TableColumn("LOCALQUEUE"),
    TableColumn("CLUSTERQUEUE", goes=2),
    TableColumn("FLAVOR"),
    TableColumn("NOMINAL", right=True),
    TableColumn("USED", right=True),
    TableColumn("ADMITTED", right=True, goes=1),
    TableColumn("PENDING", right=True),
)
_AMOUNTS: Final = (
    TableColumn("NODES", right=True, goes=1),
    TableColumn("REAL", right=True),
    TableColumn("SICK", right=True, goes=2),
    TableColumn("USED", right=True),
    TableColumn("FREE", right=True),
    TableColumn("LARGEST HOLE", right=True),
    TableColumn("ON", goes=3),
)
_OWN_QUOTA: Final = "own quota"
"""The row of the quota of a Cohort's own; no queue can have this name."""
_OF_CLUSTER: Final = ("ClusterQueues", "Cohorts", "ResourceFlavors", "Nodes")


@click.command(
    epilog=f"""\b
Examples:
  kubectl gpu top
  kubectl gpu top -n team-a
  kubectl gpu top research --all-resources
  kubectl gpu top team-a/default
  kubectl gpu top --watch
  kubectl gpu top --by rack
  kubectl gpu top -o json

\b
Columns:
  NOMINAL    its own quota; for a Cohort, of everything below it, and below
             that a row "own quota" of the Cohort alone; for a LocalQueue,
             that of its ClusterQueue, which all its LocalQueues share
  USED       quota reserved by Workloads
  ADMITTED   of a LocalQueue: the part of USED whose Workloads are admitted
  BORROWED   the part of USED above the nominal quota
  LENT       own quota that others use now
  RELEASING  the part of USED whose Workload or pods are being stopped
  NO NODE    the part of USED whose pods are admitted and on no node
  PENDING    what waiting Workloads ask for
  REAL       healthy devices on the nodes of the flavor
  SICK       devices on these nodes that cannot be used, as on a cordoned node
  OUTSIDE    devices on these nodes that pods hold which no queue admitted
  NODES      nodes of the flavor that have such devices

\b
Columns of --by:
  REAL          healthy devices on the nodes of the domain
  USED          what pods on these nodes request, whoever made them
  FREE          what is left on each node, added up
  LARGEST HOLE  most that is free on one node, and ON which

{EXITS}"""
)
@click.argument("queue", required=False, shell_complete=named.queues)
@click.option("-w", "--watch", is_flag=True, help="Refresh until Ctrl-C.")
@click.option(
    "--interval", type=click.FloatRange(min=0.5), default=2.0, show_default=True,
    help="Seconds between refreshes of --watch.",
)  # fmt: skip
@click.option(
    "--by", "level", metavar="LEVEL", shell_complete=named.levels,
    help="Show the nodes instead, by a label such as topology.kubernetes.io/rack; its last part, "
    "here rack, is enough.",
)  # fmt: skip
@asking.all_resources_option
@asking.namespace_option
@asking.all_namespaces_option
@output.kubeconfig_option
@clusters.context_option
@output.table_option
def top(
    queue: str | None,
    watch: bool,
    interval: float,
    level: str | None,
    all_resources: bool,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    form: str,
) -> None:
    """Show quota and its use, by ClusterQueue, Cohort and flavor.

    QUEUE is a ClusterQueue, a Cohort, or a LocalQueue as NAMESPACE/NAME; the default is all
    ClusterQueues. With -n, or for who may not read ClusterQueues, it is what the LocalQueues say.
    With --by, show what the nodes of each rack, block or zone have free.
    """
    if level is not None and queue is not None:
        raise click.UsageError("--by shows all nodes; leave QUEUE or --by out")
    if level is not None and namespace is not None:
        raise click.UsageError("--by shows all nodes; leave --namespace or --by out")
    with asking.asked(kubeconfig, context, asking.namespace_of(queue) or namespace) as target:
        while True:
            if level is not None:
                grouped = _grouped(target, level)
                document, lines = node_groups.document(grouped), _node_lines(grouped)
            else:
                use = _of(target, queue)
                document = quota_use.document(use)
                only = target.only if queue is None else ""
                unread = ""
                if not use.queues and not use.local_queues:
                    unread = asking.instead_of_nothing(
                        use.missing, target, kind="LocalQueue", command="top",
                        nothing="there is no queue",
                    )  # fmt: skip
                lines = _lines(use, tables.width(), every=all_resources, only=only, unread=unread)
            if watch and form != "json":
                click.clear()
            if form == "json":
                output.print_json(document)
            else:
                asking.say(lines)
            if not watch:
                return
            threading.Event().wait(interval)


def _grouped(target: QueriedCluster, text: str) -> GroupedNodes:
    objects = node_groups.read(target.api)
    level = node_groups.level_named(objects, text)
    if objects.nodes and not level:
        levels = ", ".join(node_groups.labels(objects))
        output.fail(
            f"no label {text!r} of nodes is a level, or more than one is",
            f"group them by: {levels}"
            if levels
            else "nodes have none of the usual labels; name one in full, as kubectl get nodes "
            "--show-labels shows it",
            code=ErrorCode.NOT_FOUND,
        )
    return node_groups.of(objects, level)


def _node_lines(grouped: GroupedNodes) -> Iterator[str]:
    width = tables.width()
    resources = grouped.resources()
    if not resources and not grouped.missing:
        yield "No node has GPUs."
    for number, resource in enumerate(resources):
        if number:
            yield ""
        yield from tables.sentence(_node_verdict(grouped, resource), width, "  ")
        columns = (TableColumn(_heading(grouped.levels)), *_AMOUNTS)
        rows = [
            (
                domain.name,
                str(domain.nodes[resource]),
                _text(resource, amounts.real),
                _some(resource, amounts.sick),
                _some(resource, amounts.used),
                _some(resource, amounts.free),
                _some(resource, amounts.largest),
                amounts.node or _NONE,
            )
            for domain in grouped.domains
            if (amounts := domain.amounts.get(resource)) is not None
        ]
        yield from tables.table(columns, rows, width)
    yield from asking.not_shown(grouped.missing, width)


def _heading(levels: Sequence[str]) -> str:
    return "/".join(label.rpartition("/")[2] for label in levels).upper()


def _node_verdict(grouped: GroupedNodes, resource: str) -> str:
    """Return how much is free, and in which domain most."""
    domains = [
        (domain.name, amounts)
        for domain in grouped.domains
        if (amounts := domain.amounts.get(resource)) is not None
    ]
    real = sum(amounts.real for _, amounts in domains)
    where = tables.counted(len(domains), "domain")
    free = quota_use.sum_of_known(amounts.free for _, amounts in domains)
    if free is None:
        return f"{resource}: {_text(resource, real)} can be used in {where}"
    verdict = f"{resource}: {_text(resource, free)} free of {_text(resource, real)} in {where}"
    name, freest = max(domains, key=_free_of)
    return f"{verdict}, most in {name}: {_text(resource, freest.free or 0)}" if free else verdict


def _free_of(domain: tuple[str, DomainAmount]) -> int:
    return domain[1].free or 0


def _of(target: QueriedCluster, queue: str | None) -> Use:
    # What pods hold outside of quota is not told of a namespace.
    is_all = not target.only
    pods = "" if is_all else cluster.RELEASED
    read = target.read(pods=pods, pod_fields=cluster.RUNNING if is_all else "", nodes=True)
    use = quota_use.of(read)
    if queue is None:
        return _with_never(read, _in_namespace(use, target.only) if target.only else use)
    selected = _below(use, queue)
    if selected is None:
        known_names = [
            *(queue_.name for queue_ in use.queues),
            *(cohort.name for cohort in use.cohorts),
        ]
        is_whole = cluster.is_whole(use.missing, "ClusterQueue")
        see = "see those there are: kubectl get clusterqueues,cohorts"
        if not is_whole:
            see = asking.see_queues(read, target, f"top {queue}")
        output.fail(
            f"there is no ClusterQueue and no Cohort {queue!r} that you may read",
            similar(queue, known_names) + see,
            code=ErrorCode.NOT_FOUND,
        )
    return _with_never(read, selected)


def _with_never(read: Read, use: Use) -> Use:
    """Return a use with what those ask for who wait in its queues and never start."""
    queues = {queue_use.name for queue_use in use.queues}
    local_queues = {(each.namespace, each.name) for each in use.local_queues}
    sums: dict[str, int] = {}
    for place in waiting.never_starting(read):
        line = place.namespace, place.local_queue
        if line in local_queues or read.cluster_queue_of(*line) in queues:
            for resource, value in place.asks.items():
                sums[resource] = sums.get(resource, 0) + value
    return replace(use, never=sums)


def _in_namespace(use: Use, namespace: str) -> Use:
    """The LocalQueues of a namespace."""
    local_queues = tuple(
        local_queue for local_queue in use.local_queues if local_queue.namespace == namespace
    )
    return replace(use, queues=(), cohorts=(), flavors=(), local_queues=local_queues, outside=None)


def _below(use: Use, name: str) -> Use | None:
    """The part of the answer that is about a ClusterQueue, or a Cohort with all below it."""
    cohorts = {cohort.name for cohort in use.cohorts if cohort.name == name}
    while True:
        children = {cohort.name for cohort in use.cohorts if cohort.parent in cohorts} - cohorts
        if not children:
            break
        cohorts |= children
    queues = tuple(
        queue_ for queue_ in use.queues if queue_.name == name or queue_.cohort in cohorts
    )
    if not queues and not cohorts:
        return _behind(use, name)
    flavors = {line.flavor for queue_ in queues for line in queue_.lines}
    queue_names = {queue_.name for queue_ in queues}
    return Use(
        queues=queues,
        cohorts=tuple(cohort for cohort in use.cohorts if cohort.name in cohorts),
        flavors=tuple(flavor for flavor in use.flavors if flavor.name in flavors),
        local_queues=tuple(
            local_queue
            for local_queue in use.local_queues
            if local_queue.cluster_queue in queue_names
        ),
        missing=use.missing,
    )


def _behind(use: Use, name: str) -> Use | None:
    """The LocalQueues before a ClusterQueue that may not be read, or the one of that name.

    Who may read ClusterQueues names a LocalQueue with its namespace.
    """
    local_queues = tuple(
        local_queue
        for local_queue in use.local_queues
        if name == f"{local_queue.namespace}/{local_queue.name}"
        or (not use.queues and name in {local_queue.cluster_queue, local_queue.name})
    )
    if not local_queues:
        return None
    return replace(use, queues=(), cohorts=(), flavors=(), local_queues=local_queues, outside=None)


def _lines(
    use: Use, width: int, *, every: bool, only: str = "", unread: str = ""
) -> Iterator[str]:
    if unread:
        yield from tables.sentence(unread, width)
        return
    if not use.queues:
        yield from _local_lines(use, width, every=every, only=only)
        missing = list(_without_totals(use.missing))
        if use.local_queues and not cluster.is_whole(use.missing, "ClusterQueue"):
            yield from asking.not_shown(missing, width, only, unknown=asking.FREE, step=asking.TRY)
        else:
            yield from asking.not_shown(missing, width, only)
        return
    for number, resource in enumerate(_resources(use, every=every)):
        if number:
            yield ""
        yield from _of_resource(use, resource, width)
    inactive = [queue_use for queue_use in use.queues if not queue_use.active]
    if inactive:
        yield ""
    for queue_use in inactive:
        text = f"queue {queue_use.name} admits nothing: {queue_use.message}"
        yield from tables.sentence(text, width, "  ")
    yield from asking.not_shown(use.missing, width)


def _resources(use: Use, *, every: bool) -> list[str]:
    """The resources to show, whole GPUs first: GPUs, and all others on request or without GPUs."""
    names_ = {line.resource for queue in use.queues for line in queue.lines}
    names_ |= {line.resource for cohort in use.cohorts for line in cohort.lines}
    if not use.queues:
        names_ |= {line.resource for local_queue in use.local_queues for line in local_queue.lines}
    gpus = {resource for resource in names_ if quota_use.is_gpu(resource)}
    shown = names_ if every or not gpus else gpus
    return sorted(shown, key=lambda name: (name != names.GPU_RESOURCE, *quota_use.order_of(name)))


def _of_resource(use: Use, resource: str, width: int) -> Iterator[str]:
    yield from tables.sentence(_verdict(use, resource), width, "  ")
    yield from tables.table(_QUEUES, list(_queue_rows(use, resource)), width)
    for queue in use.queues:
        for queue_line in queue.lines:
            if queue_line.resource == resource and queue_line.cut:
                yield from tables.sentence(_cut_note(queue, queue_line), width, "  ")
    rows = [
        (
            flavor.name,
            _text(resource, line.nominal),
            _text(resource, line.used),
            _some(resource, line.releasing),
            _some(resource, line.without_node),
            "?" if line.real is None else _text(resource, line.real),
            _some(resource, line.sick),
            _some(resource, line.outside),
            "?" if flavor.nodes is None else str(flavor.nodes),
        )
        for flavor in use.flavors
        for line in flavor.lines
        if line.resource == resource
    ]
    if rows and quota_use.is_gpu(resource):
        yield ""
        yield from tables.table(_FLAVORS, rows, width)
        for flavor in use.flavors:
            for line in flavor.lines:
                if line.resource == resource and line.sick:
                    yield from tables.sentence(_sick_note(flavor.name, line), width, "  ")


def _cut_note(queue: QueueUse, line: Line) -> str:
    """Return how much of a nominal quota counts where the capacity guard cuts it.

    What is in use beyond that is borrowed from the Cohort; without one nobody takes it back, nor
    what surge quota covers.
    """
    in_force, nominal = (
        _text(line.resource, value) for value in (line.in_force or 0, line.nominal)
    )
    note = (
        f"note: only {in_force} of the nominal quota of {nominal} {line.flavor} of {queue.name} "
        "counts now: the capacity guard holds it to the GPUs that exist"
    )
    used = max(0, line.used - line.surge - (line.in_force or 0)) if queue.cohort else 0
    taken = f"; {_text(line.resource, used)} in use beyond it may be taken back" if used else ""
    return note + taken


def _sick_note(flavor: str, line: FlavorLine) -> str:
    """Return on which nodes how many devices cannot be used, and why; the largest first."""
    amounts = sorted(line.sick_on, key=lambda sick: (-sick.amount, sick.node))
    parts = [
        f"{_text(line.resource, sick.amount)} on {sick.node} ({placing.why_sick(sick)})"
        for sick in amounts[:_SICK_NODES]
    ]
    if rest := amounts[_SICK_NODES:]:
        nodes = tables.counted(len(rest), "more node")
        parts.append(f"{_text(line.resource, sum(sick.amount for sick in rest))} on {nodes}")
    return f"note: {_text(line.resource, line.sick or 0)} of {flavor} are sick: {'; '.join(parts)}"


def _verdict(use: Use, resource: str) -> str:
    total = quota_use.total(use, resource)
    parts = [f"{_text(resource, total.used)} of {_text(resource, total.nominal)} used"]
    if total.exists is not None and total.exists < total.nominal:
        parts.append(f"{_text(resource, total.exists)} exist and can be used")
    if total.releasing:
        parts.append(f"{_text(resource, total.releasing)} of them about to be free")
    if total.without_node:
        parts.append(f"{_text(resource, total.without_node)} held by pods without a node")
    if total.outside:
        parts.append(f"{_text(resource, total.outside)} more held outside of quota")
    parts += _waiting((queue.pending for queue in use.queues), use, resource)
    return f"{resource}: {', '.join(parts)}"


def _waiting(pending: Iterable[Waiting], use: Use, resource: str) -> list[str]:
    """Return what waiting Workloads ask for; how many there are where that may not be read."""
    requested, unread = quota_use.asked_for(pending, resource)
    if requested:
        never = min(use.never.get(resource, 0), requested)
        of_never = [f"{_text(resource, never)} of these by some that never start"] if never else []
        return [f"{_text(resource, requested)} asked for by waiting Workloads", *of_never]
    if not unread:
        return []
    return [f"{tables.counted(unread, 'Workload')} {'waits' if unread == 1 else 'wait'}"]


def _queue_rows(use: Use, resource: str) -> Iterator[Sequence[str]]:
    """Cohorts with what is below them, then ClusterQueues without a Cohort."""
    cohort_names = {cohort.name for cohort in use.cohorts}
    tops = [cohort for cohort in use.cohorts if cohort.parent not in cohort_names]
    seen: set[str] = set()
    for cohort in (*tops, *use.cohorts):  # those of a circle have no top
        yield from _cohort_rows(use, cohort, resource, 0, seen)
    for queue in use.queues:
        if queue.cohort not in cohort_names:
            yield from _rows(queue.name, queue.lines, queue.pending, resource, 0)


def _cohort_rows(
    use: Use, cohort: CohortUse, resource: str, depth: int, seen: set[str]
) -> Iterator[Sequence[str]]:
    if cohort.name in seen:
        return
    seen.add(cohort.name)
    yield from _rows(f"{cohort.name}/", cohort.lines, cohort.pending, resource, depth)
    yield from _rows(_OWN_QUOTA, cohort.own_lines, Waiting(), resource, depth + 1)
    for child in use.cohorts:
        if child.parent == cohort.name:
            yield from _cohort_rows(use, child, resource, depth + 1, seen)
    for queue in use.queues:
        if queue.cohort == cohort.name:
            yield from _rows(queue.name, queue.lines, queue.pending, resource, depth + 1)


def _rows(
    name: str, lines: Iterable[Line], pending: Waiting, resource: str, depth: int
) -> Iterator[Sequence[str]]:
    """One row where there is one flavor; else one with the sums and one for each."""
    own_lines = [line for line in lines if line.resource == resource]
    if not own_lines:
        return
    waits = _pending(pending, resource)
    shown = "  " * depth + name
    if len(own_lines) == 1:
        yield _row(shown, own_lines[0].flavor, own_lines, waits)
        return
    yield _row(shown, f"{len(own_lines)} flavors", own_lines, waits)
    for line in own_lines:
        yield _row("", line.flavor, [line], "")


def _row(name: str, flavor: str, lines: Sequence[Line], pending: str) -> Sequence[str]:
    resource = lines[0].resource
    nominal = 0
    for line in lines:
        nominal = amount.add(nominal, line.nominal)
    return (
        name,
        flavor,
        _text(resource, nominal),
        _text(resource, sum(line.used for line in lines)),
        _some(resource, sum(line.borrowed for line in lines)),
        _some(resource, sum(line.lent for line in lines)),
        _some(resource, quota_use.sum_of_known(line.releasing for line in lines)),
        _some(resource, sum(line.without_node for line in lines)),
        pending,
    )


def _pending(waiting: Waiting, resource: str) -> str:
    if waiting.resources is None:
        return "?" if waiting.workloads else _NONE
    return _some(resource, waiting.resources.get(resource, 0))


def _local_lines(use: Use, width: int, *, every: bool, only: str) -> Iterator[str]:
    """What the LocalQueues say, of one namespace or for who may not read ClusterQueues."""
    if not use.local_queues and only:
        step = f"An administrator makes them: gpu-admission init --team NAME={only}"
        text = f"There is no queue in namespace {only} that you may read. {step}"
        yield from tables.sentence(text, width)
        return
    if not use.local_queues:
        step = "An administrator makes them: gpu-admission init --team NAME"
        yield from tables.sentence(f"There is no queue that you may read. {step}", width)
        return
    resources = _resources(use, every=every)
    for number, resource in enumerate(resources):
        if number:
            yield ""
        yield from tables.sentence(_local_verdict(use, resource), width, "  ")
        rows = [
            row for local_queue in use.local_queues for row in _local_rows(local_queue, resource)
        ]
        yield from tables.table(_LOCAL, rows, width)
    for note in borrowing.notes(_held_by(use.local_queues)):
        yield from tables.sentence(f"note: {note}", width, "  ")
    caps = (cap for local_queue in use.local_queues for cap in local_queue.caps)
    yield from asking.caps(queue_caps.distinct(caps), width)
    for local_queue in use.local_queues if not resources else ():
        text = (
            f"LocalQueue {local_queue.namespace}/{local_queue.name} holds nothing of ClusterQueue "
        )
        yield from tables.sentence(f"{text}{local_queue.cluster_queue}", width, "  ")


def _held_by(local_queues: Iterable[LocalUse]) -> Iterator[LocalHolding]:
    """Yield what LocalQueues hold."""
    for local_queue in local_queues:
        for line in local_queue.lines:
            pair = FlavorResource(FlavorName(line.flavor), ResourceName(line.resource))
            yield LocalHolding(local_queue.cluster_queue, pair, line.used, line.nominal)


def _local_verdict(use: Use, resource: str) -> str:
    lines = [
        x for local_queue in use.local_queues for x in local_queue.lines if x.resource == resource
    ]
    used = _text(resource, sum(line.used for line in lines))
    parts = [f"{used} used in {tables.counted(len(use.local_queues), 'LocalQueue')}"]
    parts += _waiting((local_queue.pending for local_queue in use.local_queues), use, resource)
    return f"{resource}: {', '.join(parts)}"


def _local_rows(local_queue: LocalUse, resource: str) -> Iterator[Sequence[str]]:
    """One row where there is one flavor; else one with the sums and one for each."""
    queue_lines = [line for line in local_queue.lines if line.resource == resource]
    if not queue_lines:
        return
    name, waits = (
        f"{local_queue.namespace}/{local_queue.name}",
        _pending(local_queue.pending, resource),
    )
    flavor = queue_lines[0].flavor if len(queue_lines) == 1 else f"{len(queue_lines)} flavors"
    yield _local_row((name, local_queue.cluster_queue, flavor), queue_lines, waits)
    for line in queue_lines if len(queue_lines) > 1 else ():
        yield _local_row(("", "", line.flavor), [line], "")


def _local_row(head: Sequence[str], lines: Sequence[LocalLine], waits: str) -> Sequence[str]:
    resource = lines[0].resource
    used, admitted = sum(line.used for line in lines), sum(line.admitted for line in lines)
    nominal = 0
    for line in lines:
        nominal = amount.add(nominal, line.nominal or 0)
    is_known = all(line.nominal is not None for line in lines)
    return (
        *head,
        _text(resource, nominal) if is_known else _UNKNOWN,
        _text(resource, used),
        _some(resource, admitted),
        waits,
    )


def _without_totals(missing: Iterable[str]) -> Iterator[str]:
    """Yield what could not be read; the kinds that have totals and free quota are one sentence."""
    notes = list(missing)
    of_cluster = [note for note in notes if note.startswith(_OF_CLUSTER)]
    if of_cluster:
        role = cluster.SHOWN_BY + names.VIEWER_ROLES["ClusterQueue"]
        yield f"Total and free quota are not shown: you may not list ClusterQueues{role}"
    yield from (note for note in notes if note not in of_cluster)


def _text(resource: str, value: int) -> str:
    return "unlimited" if value == amount.UNLIMITED else quantity.from_canonical(resource, value)


def _some(resource: str, value: int | None) -> str:
    """Return an amount; ``?`` where it is not known, and ``-`` for nothing."""
    if value is None:
        return _UNKNOWN
    return _text(resource, value) if value else _NONE
