"""``kubectl gpu who``: who holds quota: all of it, or a node, a queue, a Cohort, a user's."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

import click

from admission.answers import borrowing, cluster, holders, owning, queue_caps, quota_use, waiting
from admission.answers.cluster import Read
from admission.answers.holders import HeldQuota, Holder
from admission.answers.queue_caps import QueueCap
from admission.answers.quota_use import NodeGpus
from admission.answers.spelling import similar
from admission.answers.waiting import Place
from admission.base import clock, names, quantity
from admission.base.json_answers import ErrorCode
from admission.base.names import CohortName
from admission.cli import asking, clusters, named, output, tables
from admission.cli.asking import QueriedCluster
from admission.cli.kubectl import EXITS
from admission.cli.tables import TableColumn
from admission.kube import errors, resources
from admission.objects import views
from admission.scheduling import hierarchy
from admission.scheduling.hierarchy import QueueNode

_COLUMNS: Final = (
    TableColumn("HOLDS", whole=True),
    TableColumn("BORROWED", right=True, goes=1),
    TableColumn("OWNER"),
    TableColumn("REQUESTER"),
    TableColumn("QUEUE", goes=3),
    TableColumn("SINCE", right=True),
    TableColumn("STATE"),
    TableColumn("NODES", goes=2),
)
_BORROWED: Final = 1
"""Index of the column that nobody knows who may not read ClusterQueues."""
_MOST_NODES: Final = 500
_NEVER_SHOWN: Final = 3
_KINDS: Final = ("node", "queue", "cohort", "user")
_EVERYTHING: Final = "all"
"""The kind where nothing is named."""
_NAMESPACE: Final = "namespace"
"""The kind where only a namespace is."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What a name stands for, and who holds it.

    Attributes:
        kind: one of `_KINDS`, `_EVERYTHING`, or `_NAMESPACE`.
        name: in full; a user may be typed in short; empty for everything.
        holders: of it.
        missing: what could not be read.
        where: where holders were looked for, as `` in namespace speech``; empty for everywhere.
        node: the node, if it is one that may be read.
        never: what waits of it and never starts.
        instead: what is said instead of an empty answer; empty where that is whole.
        caps: of the queue, or of the queues in which a user holds something.
        notes: what else matters, a line each.
    """

    kind: str
    name: str
    holders: tuple[Holder, ...]
    missing: tuple[str, ...]
    where: str = ""
    node: NodeGpus | None = None
    never: tuple[Place, ...] = ()
    instead: str = ""
    caps: tuple[QueueCap, ...] = ()
    notes: tuple[str, ...] = ()


@click.command(
    epilog=f"""\b
Examples:
  kubectl gpu who
  kubectl gpu who -n team-a
  kubectl gpu who gpu-node-3
  kubectl gpu who gpu-node-3/0
  kubectl gpu who research
  kubectl gpu who team-a/default
  kubectl gpu who all-teams
  kubectl gpu who ada@example.com -o json

{EXITS}"""
)
@click.argument(
    "name",
    metavar="[NODE[/GPU]|QUEUE|COHORT|USER]",
    required=False,
    shell_complete=named.holders,
)
@click.option("--kind", type=click.Choice(_KINDS), help="What the name is, if it is ambiguous.")
@asking.limit_option
@asking.all_resources_option
@asking.namespace_option
@asking.all_namespaces_option
@output.kubeconfig_option
@clusters.context_option
@output.table_option
def who(
    name: str | None,
    kind: str | None,
    limit: int,
    all_resources: bool,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    form: str,
) -> None:
    """Show who holds quota: in all queues, or of a namespace, node, queue, cohort or user.

    Says since when, whether it is own or borrowed quota, what could take it back, and how much a
    user may hold in the queue. QUEUE is a
    ClusterQueue, or a LocalQueue as NAME or NAMESPACE/NAME; COHORT stands for all ClusterQueues
    below it, if nothing else has the name; USER is who created the owner, in full or in short: ci
    for system:serviceaccount:team-a:ci, ada for ada@example.com.
    """
    if name is None and kind is not None:
        raise click.UsageError("--kind says what a name is: add the name")
    with asking.asked(kubeconfig, context, namespace) as target:
        found_ = _everything(target) if name is None else _found(target, name, kind)
    if form == "json":
        output.print_json(
            {"subject": {"kind": found_.kind, "name": found_.name}}
            | holders.document(found_.holders, found_.missing)
            | {"neverStart": [_never_document(place) for place in found_.never]}
            | {"caps": [queue_caps.document(cap) for cap in found_.caps]}
        )
        return
    asking.say(_lines(found_, limit, tables.width(), every=all_resources))


def _everything(target: QueriedCluster) -> _Found:
    """Who holds quota; in the namespace that was typed if one was."""
    read = target.read(pods="", pod_fields=cluster.RUNNING)
    holders_, never = holders.of(read), tuple(waiting.never_starting(read))
    if target.only:
        holders_ = tuple(holder for holder in holders_ if holder.namespace == target.only)
    instead = ""
    if not holders_:
        instead = asking.instead_of_nothing(
            read.missing, target, kind="Workload", command="who", nothing="nobody holds quota"
        )
    notes = tuple(_borrowed(read, target.only))
    if not target.only:
        where = _where(read, target)
        return _Found(
            _EVERYTHING, "", holders_, read.missing, where, never=never, instead=instead,
            notes=notes,
        )  # fmt: skip
    return _Found(
        _NAMESPACE,
        target.only,
        holders_,
        read.missing,
        never=tuple(place for place in never if place.namespace == target.only),
        notes=notes,
    )


def _borrowed(read: Read, only: str) -> Iterator[str]:
    """Yield what is borrowed by ClusterQueues that may not be read, as LocalQueues tell it.

    Args:
        read: what was read.
        only: the namespace of the LocalQueues; empty for all that were read.
    """
    local_queues = (
        queue
        for queue in read.objects.local_queues
        if only in {"", queue.metadata.namespace} and queue.spec.cluster_queue not in read.queues
    )
    for note in borrowing.notes(borrowing.of_local_queues(local_queues)):
        yield f"note: {note}"


def _where(read: Read, target: QueriedCluster) -> str:
    """Return in which namespace holders were looked for; empty for all of them."""
    if cluster.is_whole(read.missing, "Workload"):
        return ""
    is_unread = cluster.is_unread(read.missing, "Workload")
    return " that you may read" if is_unread else f" in namespace {target.namespace}"


def _found(target: QueriedCluster, name: str, kind: str | None) -> _Found:
    node, unread = _node(target, name) if kind in {None, "node"} else (None, ())
    namespace, _, local = name.rpartition("/")
    target, read = _read_for(target, name, is_node=node is not None, may_read=not unread)
    every = holders.of(read)
    on_unread = holders.on_node(every, _node_of(name)) if unread else ()
    behind = read.cluster_queue_of(namespace or target.namespace, local)
    is_queue = name in read.known_queues or bool(behind)
    waits_anywhere = waiting.everywhere(read)
    never = tuple(place for place in waits_anywhere if place.never)
    users = holders.users_called(name, _requesters(every, waits_anywhere))
    below = _below(read, name)
    meant = {
        "node": node is not None or bool(on_unread), "queue": is_queue, "cohort": bool(below),
        "user": bool(users),
    }  # fmt: skip
    kinds = [kind] if kind else [choice for choice in _KINDS if meant[choice]]
    if len(kinds) > 1 and "cohort" in kinds:
        kinds.remove("cohort")
    if len(kinds) > 1:
        output.fail(
            f"{name!r} is a {' and a '.join(kinds)}",
            "say which is meant: " + " or ".join(f"--kind {choice}" for choice in kinds),
            code=ErrorCode.AMBIGUOUS,
        )
    where = _where(read, target)
    if not kinds or not (meant[kinds[0]] or kinds == ["user"]):
        output.fail(
            f"{name!r} is no {kind or 'node, queue, cohort or user'} that holds something"
            f"{where if where.startswith(' in ') else ' you may read'}",
            _owned(name, every, waits_anywhere)
            or similar(name, _known_names(read, target, every)) + _see(read, target, name),
            code=ErrorCode.NOT_FOUND,
        )
    if kinds[0] == "user" and len(users) > 1:
        output.fail(
            f"{name!r} may be any of {tables.listed(users)}",
            "name the user in full",
            code=ErrorCode.AMBIGUOUS,
        )
    match kinds[0]:
        case "node" if node is not None:
            return _on_node(target, node, name)
        case "node":
            missing = (*read.missing, *unread)
            return _Found("node", name, on_unread, missing, where or " that you may read")
        case "queue":
            is_local = name not in read.known_queues
            queue = f"{namespace or target.namespace}/{local}" if is_local else name
            is_whole = is_local and not cluster.is_unread(read.missing, "Workload")
            waits = tuple(place for place in never if queue in _queues_of(read, place))
            holders_in = holders.in_queue(every, queue)
            in_place = "" if is_whole else where
            caps = queue_caps.of_queue(read, queue)
            return _Found(
                "queue", name, holders_in, read.missing, in_place, never=waits, caps=caps
            )
        case "cohort":
            holders_below = tuple(holder for holder in every if holder.cluster_queue in below)
            waits = tuple(
                place for place in never if not below.isdisjoint(_queues_of(read, place))
            )
            return _Found("cohort", name, holders_below, read.missing, where, never=waits)
        case _:
            user = users[0] if users else name
            waits = tuple(place for place in never if place.requester == user)
            of_user = holders.of_user(every, user)
            caps = _caps_of_user(read, of_user)
            return _Found("user", user, of_user, read.missing, where, never=waits, caps=caps)


def _caps_of_user(read: Read, of_user: Iterable[Holder]) -> tuple[QueueCap, ...]:
    """Return the caps of the queues in which a user holds something."""
    queues = dict.fromkeys(
        f"{holder.namespace}/{holder.local_queue}" for holder in of_user if holder.local_queue
    )
    return queue_caps.distinct(cap for queue in queues for cap in queue_caps.of_queue(read, queue))


def _read_for(
    target: QueriedCluster, name: str, *, is_node: bool, may_read: bool
) -> tuple[QueriedCluster, Read]:
    """Return what is read for a name, and in which namespace that is.

    ``NAMESPACE/QUEUE`` names the namespace; ``NODE/GPU`` does not, and looks the same to who may
    not read nodes.

    Args:
        target: the cluster, with the namespace of the context or of ``-n``.
        name: that was typed.
        is_node: whether it is a node that may be read.
        may_read: whether nodes may be read.
    """
    namespace, _, local = name.rpartition("/")
    in_context = target.read(pods="", pod_fields=cluster.RUNNING)
    if is_node or not namespace:
        return target, in_context
    may_be_gpu = local.isdecimal() and not may_read
    if may_be_gpu and (target.only or holders.on_node(holders.of(in_context), namespace)):
        return target, in_context
    named_target = replace(target, namespace=namespace)
    read = named_target.read(pods="", pod_fields=cluster.RUNNING)
    if may_be_gpu and cluster.is_unread(read.missing, "Workload"):
        return target, in_context
    return named_target, read


def _requesters(every: Iterable[Holder], waits: Iterable[Place]) -> Iterator[str]:
    yield from (holder.requester for holder in every)
    yield from (place.requester for place in waits)


def _see(read: Read, target: QueriedCluster, name: str) -> str:
    """Return how to see what there is, by commands that the caller may run."""
    command = f"who {shlex.quote(name)}"
    if cluster.is_whole(read.missing, "ClusterQueue"):
        return "see nodes and queues: kubectl get nodes; kubectl gpu top; kubectl gpu queue"
    if cluster.is_whole(read.missing, "Workload"):
        return asking.see_queues(read, target, command)
    step = "who holds what there: kubectl gpu who"
    return asking.see_in_namespace(read, target, command, step)


def _owned(name: str, every: Iterable[Holder], waits: Iterable[Place]) -> str:
    """Return how to ask about an owner or Workload of that name; else nothing."""
    subjects: tuple[Holder | Place, ...] = (*every, *waits)
    steps = (
        clusters.again(f"kubectl gpu why {subject} -n {each.namespace}")
        for each in subjects
        for subject in [_name(each).partition("/")[2]]
        if name in _typed_as(each, subject)
    )
    listed = tables.listed(dict.fromkeys(steps))
    return f"where it stands: {listed}" if listed else ""


def _typed_as(each: Holder | Place, subject: str) -> Iterator[str]:
    """Yield how people type the name of an owner or Workload, alone or with its namespace."""
    for typed in (each.workload, each.owner.partition(" ")[2], subject):
        if typed:
            yield typed
            yield f"{each.namespace}/{typed}"


def _known_names(read: Read, target: QueriedCluster, every: Iterable[Holder]) -> Iterator[str]:
    """The names that may be typed."""
    yield from asking.queue_names(read, target.namespace)
    yield from _node_names(target)
    yield from read.forest.cohorts
    for holder in every:
        yield holder.requester
        yield from (pod.node for pod in holder.pods if pod.node)


def _below(read: Read, name: str) -> AbstractSet[str]:
    """The ClusterQueues below a Cohort; none where there is no Cohort of that name."""
    cohort = read.forest.cohorts.get(CohortName(name))
    nodes = () if cohort is None else hierarchy.members(cohort)
    return {node.name for node in nodes if isinstance(node, QueueNode)}


def _queues_of(read: Read, place: Place) -> tuple[str, str]:
    """The ClusterQueue and the LocalQueue in which a Workload waits."""
    behind = read.cluster_queue_of(place.namespace, place.local_queue)
    return behind, f"{place.namespace}/{place.local_queue}"


def _never_document(place: Place) -> dict[str, str]:
    return {
        "namespace": place.namespace,
        "workload": place.workload,
        "reason": place.reason,
        "message": place.message,
    }


def _node_of(typed: str) -> str:
    """The node in ``node/gpu``."""
    return typed.partition("/")[0]


def _node(target: QueriedCluster, name: str) -> tuple[views.Node | None, tuple[str, ...]]:
    """The node of that name, or of ``node/gpu``, if there is one; and that none may be read."""
    try:
        return target.api.get(resources.NODES, _node_of(name), into=views.Node), ()
    except errors.ForbiddenError:
        return None, (cluster.not_listed(resources.NODES),)
    except (errors.NotFoundError, errors.InvalidError):
        return None, ()


def _node_names(target: QueriedCluster) -> list[str]:
    """The names of nodes that may be listed."""
    try:
        documents = target.api.list(resources.NODES, limit=_MOST_NODES).items
    except errors.ApiError:
        return []
    return [document["metadata"]["name"] for document in documents]


def _on_node(target: QueriedCluster, node: views.Node, typed: str) -> _Found:
    """All pods of the node, also those of no queue."""
    name = node.metadata.name
    read = target.read(pods="", pod_fields=f"spec.nodeName={name}")
    (gpus,) = quota_use.capacities([node])
    on_node = holders.on_node(holders.of(read), name)
    return _Found("node", typed, on_node, read.missing, _where(read, target), gpus)


def _lines(result: _Found, limit: int, width: int, *, every: bool) -> Iterator[str]:
    if result.instead:
        yield from tables.sentence(result.instead, width)
        return
    yield from tables.sentence(_verdict(result), width, "  ")
    shown = result.holders[:limit] if limit else result.holders
    if shown:
        knows_pods = cluster.is_whole(result.missing, "Pod")
        is_node = result.kind == "node"
        rows: Sequence[Sequence[str]] = [
            _row(holder, every=every, knows_pods=knows_pods, is_node=is_node) for holder in shown
        ]
        columns: Sequence[TableColumn] = _COLUMNS
        is_known = any(row[_BORROWED] != tables.UNKNOWN for row in rows)
        if not is_known and not output.is_wide():
            columns = [*columns[:_BORROWED], *columns[_BORROWED + 1 :]]
            rows = [[*row[:_BORROWED], *row[_BORROWED + 1 :]] for row in rows]
        yield from tables.table(columns, rows, width)
    if len(shown) < len(result.holders):
        rest = len(result.holders) - len(shown)
        yield from tables.sentence(f"and {rest:,} more; all of them: --limit 0", width, "  ")
    yield from _taken_back(result.holders, width)
    for note in result.notes:
        yield from tables.sentence(note, width, "  ")
    yield from asking.caps(result.caps, width)
    yield from _never_start(result.never, width)
    if result.kind == "node" and "/" in result.name and result.holders:
        yield from tables.sentence(
            "note: which GPU of a node a pod has is decided on the node and not told to the API "
            "server, so everybody on the node is shown",
            width,
            "  ",
        )
    only = result.name if result.kind == _NAMESPACE else ""
    is_of_all = result.kind in {_EVERYTHING, _NAMESPACE}
    if is_of_all and not cluster.is_whole(result.missing, "ClusterQueue"):
        yield from asking.not_shown(
            result.missing, width, only, unknown=asking.FREE, step=asking.TRY
        )
    else:
        yield from asking.not_shown(result.missing, width, only)


def _never_start(never: Iterable[Place], width: int) -> Iterator[str]:
    """Yield a note for each cause for which something never starts as it is."""
    by_message: dict[str, list[Place]] = {}
    for place in never:
        by_message.setdefault(place.message, []).append(place)
    for message, places in [*by_message.items()][:_NEVER_SHOWN]:
        whose = tables.listed(map(_name, places))
        if len(places) == 1:
            text = f"{whose} waits and never starts as it is"
        else:
            text = f"{len(places):,} wait and never start as they are ({whose})"
        yield from tables.sentence(f"note: {text}: {message}", width, "  ")
    rest = sum(len(places) for places in [*by_message.values()][_NEVER_SHOWN:])
    if rest:
        yield from tables.sentence(f"note: {rest:,} more never start: -o json", width, "  ")


def _verdict(result: _Found) -> str:
    number, where = tables.counted(len(result.holders), "holder"), result.where
    if result.node is not None:
        has = quota_use.gpus_in_words(result.node.healthy)
        used = quota_use.gpus_in_words(_on(result.holders))
        sick = quota_use.gpus_in_words(result.node.sick)
        parts = [f"{used or 'nothing'} held{where} of {has or 'no usable GPU'}, {number}"]
        if sick or not has:
            why = f" ({'; '.join(result.node.reasons)})" if result.node.reasons else ""
            parts.append(f"not usable: {sick or 'all'}{why}")
        return f"node {result.node.name}: {'; '.join(parts)}"
    if result.kind == "node":
        held_there = quota_use.gpus_in_words(_on(result.holders)) or "nothing"
        return f"node {_node_of(result.name)}: {held_there} held{where}, {number}"
    if not result.holders and result.kind == _EVERYTHING:
        return "Nobody holds quota" + (" that you may read" if result.missing else "")
    if not result.holders:
        return f"{result.kind} {result.name} holds nothing{where}"
    subject = f"{result.kind} {result.name}"
    if result.kind == _EVERYTHING:
        subject = "all that you may read" if result.missing else "everybody"
    in_queues = [holder for holder in result.holders if holder.cluster_queue]
    outside = [holder for holder in result.holders if not holder.cluster_queue]
    amounts = quota_use.gpus_in_words(_quota(in_queues)) or "nothing"
    parts = [f"{amounts} held{where}, {tables.counted(len(in_queues), 'holder')}"]
    if outside:
        pods_outside = tables.counted(len(outside), "pod")
        parts.append(
            f"{quota_use.gpus_in_words(_on(outside))} held by {pods_outside} outside of quota"
        )
    return f"{subject}: {'; '.join(parts)}"


def _on(holders: Iterable[Holder]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for holder in holders:
        for pod in holder.pods:
            for resource, n in pod.gpus.items():
                sums[resource] = sums.get(resource, 0) + n
    return sums


def _quota(holders: Iterable[Holder]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for holder in holders:
        for amount_held in holder.held:
            sums[amount_held.resource] = sums.get(amount_held.resource, 0) + amount_held.amount
    return sums


def _row(holder: Holder, *, every: bool, knows_pods: bool, is_node: bool) -> Sequence[str]:
    """Return a row; of a node, what a holder has there."""
    gpus = [amount_held for amount_held in holder.held if quota_use.is_gpu(amount_held.resource)]
    shown = holder.held if every or not gpus else gpus
    holds = ", ".join(_held(amount_held) for amount_held in shown)
    nodes = tables.listed(sorted({pod.node for pod in holder.pods if pod.node}))
    return (
        _on_this_node(holder, holds)
        if is_node
        else holds or quota_use.gpus_in_words(_on([holder])),
        _borrowed_in_words(shown) or _borrowed_others(holder.held) or "-",
        _name(holder),
        holder.requester,
        holder.local_queue and f"{holder.cluster_queue} ({holder.local_queue})",
        tables.age(holder.since, output.clock().now()),
        holder.state,
        nodes or ("" if knows_pods else "?"),
    )


def _on_this_node(holder: Holder, holds: str) -> str:
    """Return what a holder has on a node, and in all where that is more."""
    on_node, in_all = _on([holder]), _quota([holder])
    text = quota_use.gpus_in_words(on_node)
    if not text:
        return holds
    is_all = all(on_node.get(name) == n for name, n in in_all.items() if quota_use.is_gpu(name))
    return text if is_all else f"{text} here, {holds} in all"


def _borrowed_in_words(amounts_held: Iterable[HeldQuota]) -> str:
    """Return what is borrowed; ``?`` where that is not known, and nothing for nothing."""
    parts = [
        "?"
        if amount_held.borrowed is None
        else quantity.from_canonical(amount_held.resource, amount_held.borrowed)
        for amount_held in amounts_held
        if amount_held.borrowed is None or amount_held.borrowed
    ]
    return "?" if parts and set(parts) == {"?"} else ", ".join(parts)


def _borrowed_others(amounts_held: Iterable[HeldQuota]) -> str:
    """Return what is borrowed of resources that no column shows, with their names."""
    return ", ".join(
        f"{quantity.from_canonical(amount_held.resource, amount_held.borrowed)} "
        f"{amount_held.resource.rpartition('/')[2]}"
        for amount_held in amounts_held
        if amount_held.borrowed
    )


def _held(amount_held: HeldQuota) -> str:
    """Quota in few words: whole GPUs are called by their flavor."""
    number = quantity.from_canonical(amount_held.resource, amount_held.amount)
    if amount_held.resource == names.GPU_RESOURCE:
        return f"{number} {amount_held.flavor}"
    return f"{number} {amount_held.resource.rpartition('/')[2]} on {amount_held.flavor}"


def _name(holder: Holder | Place) -> str:
    return owning.shown(holder.namespace, holder.owner, holder.workload)


def _taken_back(holders: Iterable[Holder], width: int) -> Iterator[str]:
    """Who could take back what, each phrase once."""
    by_phrase: dict[str, list[str]] = {}
    for holder in holders:
        for phrase in holder.taken_back_by or ():
            by_phrase.setdefault(phrase, []).append(_name(holder))
    if by_phrase:
        yield "may be taken back"
    for phrase, whose in by_phrase.items():
        yield from tables.sentence(f"  {tables.listed(whose)}: by {phrase}", width, "    ")
    for holder in holders:
        if holder.not_before and clock.from_wire(holder.not_before) > output.clock().now():
            text = f"  others are preempted before {_name(holder)} until {holder.not_before}"
            yield from tables.sentence(text, width, "    ")
