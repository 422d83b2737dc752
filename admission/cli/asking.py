"""The common parts of commands that query a cluster: the connection and the output."""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import click

from admission.answers import cluster
from admission.answers.cluster import Read, Wanted
from admission.answers.queue_caps import QueueCap
from admission.base.json_answers import ErrorCode
from admission.cli import clusters, named, output, tables, targets
from admission.kube import credentials, errors
from admission.kube.api import Api

_TIMEOUT_SECONDS: Final = 30.0
_ADVICE: Final = "check that gpu-admission is installed there: kubectl get clusterqueues"


def _not_both(context: click.Context, _: click.Parameter, value: bool) -> None:
    """Refuse all namespaces and one at once.

    Raises:
        UsageError: both were typed.
    """
    if value and context.params.get("namespace"):
        raise click.UsageError("--all-namespaces and --namespace exclude each other")


namespace_option: Final[Callable[[Any], Any]] = click.option(
    "-n",
    "--namespace",
    shell_complete=named.namespaces,
    is_eager=True,
    help="Show only this namespace. With a QUEUE: the namespace of that LocalQueue. Without "
    "rights on all namespaces: the one that is read; default: that of the context.",
)
all_namespaces_option: Final[Callable[[Any], Any]] = click.option(
    "-A",
    "--all-namespaces",
    is_flag=True,
    expose_value=False,
    callback=_not_both,
    help="All namespaces that you may read, which is the default.",
)
all_resources_option: Final[Callable[[Any], Any]] = click.option(
    "--all-resources", is_flag=True, help="Also show cpu and memory."
)
limit_option: Final[Callable[[Any], Any]] = click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Number of rows to show; 0 for all. JSON always has all.",
)


@dataclass(frozen=True, slots=True)
class QueriedCluster:
    """The cluster that a command queries.

    Attributes:
        api: its API server.
        namespace: the one that is meant where none is named.
        only: the namespace that was typed, to which an answer about everything is limited; empty
            for none.
    """

    api: Api
    namespace: str
    only: str = ""

    def read(self, *, pods: str | None = None, pod_fields: str = "", nodes: bool = False) -> Read:
        """Return what the caller may read; see `cluster.Wanted`."""
        selection = Wanted(namespace=self.namespace, pods=pods, pod_fields=pod_fields, nodes=nodes)
        return cluster.relate(cluster.read(self.api, selection))


@contextmanager
def asked(
    kubeconfig: str | None, context: str | None, namespace: str | None
) -> Iterator[QueriedCluster]:
    """Connect to the cluster of a kubeconfig; what fails ends the command with exit code 1."""
    target = targets.chosen(kubeconfig, context)
    with output.reported(_ADVICE):
        only = namespace or ""
        namespace = namespace or target.namespace()
        api = target.connect(connections=1, timeout_seconds=_TIMEOUT_SECONDS)
        with closing(api), _named_where_refused("" if only else namespace):
            yield QueriedCluster(api, namespace, only)


@contextmanager
def _named_where_refused(namespace: str) -> Iterator[None]:
    """Advise to name a namespace where the one was refused that is meant where none is named.

    Args:
        namespace: that was meant; empty where one was typed.
    """
    try:
        yield
    except errors.ForbiddenError as error:
        is_meant = namespace == credentials.DEFAULT_NAMESPACE and f'"{namespace}"' in str(error)
        if not is_meant:
            raise
        step = f"name yours: {clusters.again(_present_command())}"
        output.fail(str(error), step, code=ErrorCode.FORBIDDEN)


def _present_command() -> str:
    """Return the present command with its arguments, and a namespace to fill in."""
    context = click.get_current_context()
    arguments = (
        context.params.get(parameter.name or "")
        for parameter in context.command.params
        if isinstance(parameter, click.Argument)
    )
    words = shlex.join(word for word in arguments if isinstance(word, str))
    return " ".join(filter(None, ("kubectl gpu", context.command.name, words, "-n NAMESPACE")))


def queue_names(read: Read, namespace: str) -> list[str]:
    """Return how the queues that may be read are typed: LocalQueues of the own namespace bare."""
    return [
        *read.known_queues,
        *(name if at == namespace else f"{at}/{name}" for at, name in read.locals_),
    ]


def namespace_of(typed: str | None) -> str | None:
    """Return the namespace in ``NAMESPACE/NAME``; None where none is named."""
    return (typed or "").rpartition("/")[0] or None


def see_queues(read: Read, target: QueriedCluster, command: str) -> str:
    """Return how to see the queues there are, by commands that the caller may run.

    Args:
        read: what could be read.
        target: where it was read.
        command: that was typed, such as ``top research``.
    """
    if cluster.is_whole(read.missing, "LocalQueue"):
        kinds = ("clusterqueues", "localqueues -A")
        first = 0 if cluster.is_whole(read.missing, "ClusterQueue") else 1
        return "see those there are: " + "; ".join(f"kubectl get {kind}" for kind in kinds[first:])
    return see_in_namespace(read, target, command, "its queues: kubectl get localqueues")


def see_in_namespace(read: Read, target: QueriedCluster, command: str, step: str) -> str:
    """Return what who may read one namespace can see there.

    Args:
        read: what could be read.
        target: where it was read.
        command: that was typed, such as ``who gpu-node-3``.
        step: what there is to see, and the command for it without ``-n``.
    """
    is_unread = cluster.is_unread(read.missing, "Workload")
    if target.only and not is_unread:
        return f"you may read only namespace {target.only}; see {step} -n {target.only}"
    again = clusters.again(f"kubectl gpu {command} -n NAMESPACE")
    if target.only:
        return (
            f"name yours: {again}; you may not read namespace {target.only}; see {step} "
            "-n NAMESPACE"
        )
    was_read = (
        f"you may not read all namespaces, nor {target.namespace} of your context"
        if is_unread
        else f"you may not read all namespaces, and only {target.namespace} was read"
    )
    return f"name yours: {again}; {was_read}; see {step} -n NAMESPACE"


def instead_of_nothing(
    missing: Iterable[str], target: QueriedCluster, *, kind: str, command: str, nothing: str
) -> str:
    """Return where an empty answer did not look, as one line; empty where it is whole.

    Where it looked nowhere, there is no answer, and the command ends with exit code 1.

    Args:
        missing: what could not be read.
        target: where it was read.
        kind: of the objects that the answer is made from.
        command: that was typed, such as ``who``.
        nothing: the empty answer, as a clause.
    """
    notes = tuple(missing)
    if cluster.is_whole(notes, kind):
        return ""
    step = f"kubectl gpu {command} -n NAMESPACE"
    if cluster.is_unread(notes, kind):
        output.fail(
            f"you may not read namespace {target.only}"
            if target.only
            else f"you may not read all namespaces, nor namespace {target.namespace}",
            f"name yours: {clusters.again(step)}",
            code=ErrorCode.FORBIDDEN,
        )
    if target.only:
        return ""
    read = f"You may not read all namespaces; in namespace {target.namespace} {nothing}"
    return f"{read}. Another one: {step}"


FREE: Final = "what is free"
"""What nobody knows who may not read ClusterQueues."""
TRY: Final = "whether a Job would wait: kubectl apply --dry-run=server -f FILE"
"""What helps them."""


def never_start(count: int) -> str:
    """Return ``1 of them never starts as it is``."""
    return f"{count:,} of them never start{'s as it is' if count == 1 else ' as they are'}"


def caps(every: Iterable[QueueCap], width: int) -> Iterator[str]:
    """Yield a note for each cap of the queues that are shown."""
    for cap in every:
        yield from tables.sentence(f"note: {cap.sentence}", width, "  ")


def say(lines: Iterable[str]) -> None:
    """Print lines; what users wrote in them prints nothing but its characters."""
    for line in lines:
        click.echo(output.one_line(line))


def not_shown(
    missing: Iterable[str], limit: int, only: str = "", *, unknown: str = "", step: str = ""
) -> list[str]:
    """Return one note of what may not be read, and one of each thing else that is missing.

    Args:
        missing: sentences about it; JSON has them in full.
        limit: width of the terminal.
        only: the namespace that was asked for; what is outside of it was not.
        unknown: what is not known for want of the same rights, such as `FREE`; empty for nothing.
        step: what helps nevertheless; empty for nothing.
    """
    refused: dict[str, list[str]] = {}
    steps, notes, roles = list[str](), list[str](), list[str]()
    for text in missing:
        match = _REFUSED.fullmatch(text)
        if match is None:
            notes.append(f"note: {text}")
            continue
        if only and match["outside"] == only:
            continue
        roles += [match["role"]] if match["role"] else []
        if not match["step"].startswith("list "):
            steps.append(match["step"])
            continue
        is_kind = match["step"].startswith("list them")
        objects = match["what"] if is_kind else match["step"].removeprefix("list ")
        place = f" outside namespace {match['outside']}" if match["outside"] else ""
        refused.setdefault(place, []).append(objects.lower())
    parts = [
        f"{'list ' if not number else ''}{', '.join(dict.fromkeys(kinds))}{place}"
        for number, (place, kinds) in enumerate(refused.items())
    ]
    if parts or steps:
        whole = ", nor ".join((*parts, *dict.fromkeys(steps)))
        head = f"not all is shown, nor {unknown}" if unknown else "not all is shown"
        parts_of_note = (f"note: {head}: your user may not {whole}", _shown_by(roles), step)
        notes.append("; ".join(filter(None, parts_of_note)))
    elif unknown:
        text = f"note: {unknown} is not known to your user"
        notes.append("; ".join(filter(None, (text, step))))
    return [line for note in notes for line in tables.sentence(note, limit, "  ")]


def _shown_by(roles: Iterable[str]) -> str:
    """Return which roles would show more, as a clause; empty for none."""
    every = list(dict.fromkeys(roles))
    noun = "ClusterRole" if len(every) == 1 else "ClusterRoles"
    return f"shown by {noun} {tables.listed(every)}" if every else ""


_REFUSED: Final = re.compile(
    r"(?P<what>.+?) (?:is|are) not shown(?: outside namespace (?P<outside>\S+))?: "
    rf"you may not (?P<step>.+?)(?:{cluster.SHOWN_BY}(?P<role>\S+))?"
)
"""What the caller may not read; see `admission.answers.cluster`."""
