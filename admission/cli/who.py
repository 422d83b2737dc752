"""``kubectl gpu who``: who holds a node, the quota of a queue or Cohort, or what a user wants."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import click

from admission.base import clock, names, quantity
from admission.base.answers import ErrorCode
from admission.base.names import CohortName
from admission.cli import asking, clusters, named, output, tables
from admission.cli.asking import Asked
from admission.cli.kubectl import EXITS
from admission.cli.tables import Column
from admission.gpu import resources as gpu_resources
from admission.kube import errors, resources
from admission.objects import views
from admission.scheduling import hierarchy
from admission.scheduling.hierarchy import QueueNode
from admission.visibility import cluster, holders, owning, quota_use, waiting
from admission.visibility.cluster import Read
from admission.visibility.holders import Held, Holder
from admission.visibility.quota_use import NodeGpus
from admission.visibility.subjects import similar
from admission.visibility.waiting import Place

_COLUMNS: Final = (
    Column("HOLDS", whole=True),
    Column("BORROWED", right=True, goes=1),
    Column("OWNER"),
    Column("REQUESTER"),
    Column("QUEUE", goes=3),
    Column("SINCE", right=True),
    Column("STATE"),
    Column("NODES", goes=2),
)
_MOST_NODES: Final = 500
_NEVER_SHOWN: Final = 3
_KINDS: Final = ("node", "queue", "cohort", "user")


@dataclass(frozen=True, slots=True)
class _Found:
    """What a name stands for, and who holds it."""

    kind: str
    holders: tuple[Holder, ...]
    missing: tuple[str, ...]
    node: NodeGpus | None = None
    never: tuple[Place, ...] = ()


@click.command(
    epilog=f"""\b
Examples:
  kubectl gpu who gpu-node-3
  kubectl gpu who gpu-node-3/0
  kubectl gpu who research
  kubectl gpu who team-a/default
  kubectl gpu who all-teams
  kubectl gpu who ada@example.com -o json

{EXITS}"""
)
@click.argument("name", metavar="NODE[/GPU]|QUEUE|COHORT|USER", shell_complete=named.holders)
@click.option(
    "--as", "kind", type=click.Choice(_KINDS), help="What the name is, if it is ambiguous."
)
@asking.limit_option
@asking.all_resources_option
@asking.namespace_option
@asking.all_namespaces_option
@output.kubeconfig_option
@clusters.context_option
@output.table_option
def who(
    name: str,
    kind: str | None,
    limit: int,
    all_resources: bool,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    form: str,
) -> None:
    """Show who holds a node, a queue, a cohort or what a user asked for.

    Says since when, whether it is own or borrowed quota, and what could take it back. QUEUE is a
    ClusterQueue, or a LocalQueue as NAME or NAMESPACE/NAME; COHORT stands for all ClusterQueues
    below it, if nothing else has the name; USER is who created the owner.
    """
    with asking.asked(kubeconfig, context, namespace) as target:
        found = _found(target, name, kind)
    if form == "json":
        output.print_json(
            {"subject": {"kind": found.kind, "name": name}}
            | holders.document(found.holders, found.missing)
            | {"neverStart": [_never_document(one) for one in found.never]}
        )
        return
    asking.say(_lines(found, name, limit, tables.width(), every=all_resources))


def _found(target: Asked, name: str, kind: str | None) -> _Found:
    node = _node(target, name) if kind in {None, "node"} else None
    read = target.read(pods=cluster.RELEASED)
    every = holders.of(read)
    namespace, _, local = name.rpartition("/")
    is_local = bool(read.cluster_queue_of(namespace or target.namespace, local))
    is_queue = name in read.known_queues or is_local
    by_user = holders.of_user(every, name)
    never = waiting.never_starting(read)
    of_user = tuple(one for one in never if one.requester == name)
    below = _below(read, name)
    meant = {
        "node": node is not None, "queue": is_queue, "cohort": bool(below),
        "user": bool(by_user or of_user),
    }  # fmt: skip
    kinds = [kind] if kind else [one for one in _KINDS if meant[one]]
    if len(kinds) > 1 and "cohort" in kinds:
        kinds.remove("cohort")
    if len(kinds) > 1:
        output.fail(
            f"{name!r} is a {' and a '.join(kinds)}",
            "say which is meant: " + " or ".join(f"--as {one}" for one in kinds),
            code=ErrorCode.AMBIGUOUS,
        )
    if not kinds or not (meant[kinds[0]] or kinds == ["user"]):
        known = [*asking.queue_names(read, target.namespace), *_node_names(target)]
        known += [*read.forest.cohorts, *(one.requester for one in every)]
        output.fail(
            f"{name!r} is no {kind or 'node, queue, cohort or user'} that holds something you may "
            "read",
            f"{similar(name, known)}see nodes and queues: kubectl get nodes; kubectl gpu top; "
            "kubectl gpu queue",
            code=ErrorCode.NOT_FOUND,
        )
    match kinds[0]:
        case "node":
            assert node is not None
            return _on_node(target, node)
        case "queue":
            queue = (
                name if name in read.known_queues else f"{namespace or target.namespace}/{local}"
            )
            waits = tuple(one for one in never if queue in _queues_of(read, one))
            return _Found("queue", holders.in_queue(every, queue), read.missing, never=waits)
        case "cohort":
            held = tuple(one for one in every if one.cluster_queue in below)
            waits = tuple(one for one in never if not below.isdisjoint(_queues_of(read, one)))
            return _Found("cohort", held, read.missing, never=waits)
        case _:
            return _Found("user", by_user, read.missing, never=of_user)


def _below(read: Read, name: str) -> AbstractSet[str]:
    """The ClusterQueues below a Cohort; none where there is no Cohort of that name."""
    cohort = read.forest.cohorts.get(CohortName(name))
    nodes = () if cohort is None else hierarchy.members(cohort)
    return {one.name for one in nodes if isinstance(one, QueueNode)}


def _queues_of(read: Read, one: Place) -> tuple[str, str]:
    """The ClusterQueue and the LocalQueue in which a Workload waits."""
    behind = read.cluster_queue_of(one.namespace, one.local_queue)
    return behind, f"{one.namespace}/{one.local_queue}"


def _never_document(one: Place) -> dict[str, str]:
    return {
        "namespace": one.namespace,
        "workload": one.workload,
        "reason": one.reason,
        "message": one.message,
    }


def _node(target: Asked, name: str) -> views.Node | None:
    """The node of that name, or of ``node/gpu``; None where there is none."""
    try:
        return target.api.get(resources.NODES, name.partition("/")[0], into=views.Node)
    except (errors.NotFoundError, errors.ForbiddenError, errors.InvalidError):
        return None


def _node_names(target: Asked) -> list[str]:
    """The names of nodes that may be listed."""
    try:
        found = target.api.list(resources.NODES, limit=_MOST_NODES).items
    except errors.ApiError:
        return []
    return [one["metadata"]["name"] for one in found]


def _on_node(target: Asked, node: views.Node) -> _Found:
    """All pods of the node, also those of no queue."""
    name = node.metadata.name
    read = target.read(pods="", pod_fields=f"spec.nodeName={name}")
    (gpus,) = quota_use.capacities([node])
    return _Found("node", holders.on_node(holders.of(read), name), read.missing, gpus)


def _lines(found: _Found, name: str, limit: int, most: int, *, every: bool) -> Iterator[str]:
    yield from tables.sentence(_verdict(found, name), most, "  ")
    shown = found.holders[:limit] if limit else found.holders
    if shown:
        knows_pods = cluster.is_whole(found.missing, "Pod")
        rows = [_row(one, every=every, knows_pods=knows_pods) for one in shown]
        yield from tables.table(_COLUMNS, rows, most)
    if len(shown) < len(found.holders):
        rest = len(found.holders) - len(shown)
        yield from tables.sentence(f"and {rest:,} more; all of them: --limit 0", most, "  ")
    yield from _taken_back(found.holders, most)
    for one in found.never[:_NEVER_SHOWN]:
        text = f"note: {one.namespace}/{one.workload} waits and never starts as it is: "
        yield from tables.sentence(f"{text}{one.message}", most, "  ")
    if len(found.never) > _NEVER_SHOWN:
        rest = len(found.never) - _NEVER_SHOWN
        yield from tables.sentence(f"note: {rest:,} more never start: -o json", most, "  ")
    if found.kind == "node" and "/" in name and found.holders:
        yield from tables.sentence(
            "note: which GPU of a node a pod has is decided on the node and not told to the API "
            "server, so everybody on the node is shown",
            most,
            "  ",
        )
    yield from asking.not_shown(found.missing, most)


def _verdict(found: _Found, name: str) -> str:
    number = tables.counted(len(found.holders), "holder")
    if found.node is not None:
        has = _sums(found.node.healthy)
        used = _sums(_on(found.holders))
        sick = _sums(found.node.sick)
        parts = [f"{used or 'nothing'} held of {has or 'no usable GPU'}, {number}"]
        if sick or not has:
            why = f" ({'; '.join(found.node.reasons)})" if found.node.reasons else ""
            parts.append(f"not usable: {sick or 'all'}{why}")
        return f"node {found.node.name}: {'; '.join(parts)}"
    if not found.holders:
        return f"{found.kind} {name} holds nothing"
    return f"{found.kind} {name}: {_sums(_quota(found.holders))} held, {number}"


def _sums(found: Mapping[str, int]) -> str:
    """GPUs in words; what they are worth, or other resources, only where there are none."""
    some = {one: n for one, n in found.items() if n}
    gpus = {one: n for one, n in some.items() if quota_use.is_gpu(one)}
    devices = {one: n for one, n in gpus.items() if not gpu_resources.is_virtual(one)}
    return ", ".join(
        f"{quantity.from_canonical(one, n)} {one}"
        for one, n in sorted((devices or gpus or some).items(), key=lambda item: item[0])
    )


def _on(found: Iterable[Holder]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for one in found:
        for pod in one.pods:
            for resource, n in pod.gpus.items():
                sums[resource] = sums.get(resource, 0) + n
    return sums


def _quota(found: Iterable[Holder]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for one in found:
        for held in one.held:
            sums[held.resource] = sums.get(held.resource, 0) + held.amount
    return sums


def _row(one: Holder, *, every: bool, knows_pods: bool) -> Sequence[str]:
    gpus = [held for held in one.held if quota_use.is_gpu(held.resource)]
    shown = one.held if every or not gpus else gpus
    holds = ", ".join(_held(held) for held in shown)
    nodes = tables.listed(sorted({pod.node for pod in one.pods if pod.node}))
    return (
        holds or _sums(_on([one])),
        _borrowed(shown),
        _name(one),
        one.requester,
        one.local_queue and f"{one.cluster_queue} ({one.local_queue})",
        tables.age(one.since, clock.SystemClock().now()),
        one.state,
        nodes or ("" if knows_pods else "?"),
    )


def _borrowed(found: Iterable[Held]) -> str:
    """Return what is borrowed; ``?`` where that is not known, and ``-`` for nothing."""
    parts = [
        "?" if one.borrowed is None else quantity.from_canonical(one.resource, one.borrowed)
        for one in found
        if one.borrowed is None or one.borrowed
    ]
    return "?" if parts and set(parts) == {"?"} else ", ".join(parts) or "-"


def _held(one: Held) -> str:
    """Quota in few words: whole GPUs are called by their flavor."""
    number = quantity.from_canonical(one.resource, one.amount)
    if one.resource == names.GPU_RESOURCE:
        return f"{number} {one.flavor}"
    return f"{number} {one.resource.rpartition('/')[2]} on {one.flavor}"


def _name(one: Holder) -> str:
    return owning.shown(one.namespace, one.owner, one.workload)


def _taken_back(found: Iterable[Holder], most: int) -> Iterator[str]:
    """Who could take back what, each phrase once."""
    by_phrase: dict[str, list[str]] = {}
    for one in found:
        for phrase in one.taken_back_by:
            by_phrase.setdefault(phrase, []).append(_name(one))
    if by_phrase:
        yield "may be taken back by"
    for phrase, whose in by_phrase.items():
        yield from tables.sentence(f"  {phrase}: {tables.listed(whose)}", most, "    ")
    for one in found:
        if one.not_before and clock.from_wire(one.not_before) > clock.SystemClock().now():
            text = f"  others are preempted before {_name(one)} until {one.not_before}"
            yield from tables.sentence(text, most, "    ")
