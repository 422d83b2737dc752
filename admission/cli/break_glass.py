"""Commands ``break-glass on``, ``off``, ``status`` and ``release``."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from admission.admin import break_glass as glass
from admission.admin import installation, passing
from admission.admin.outside_quota import EVERYTHING, Releaser, Selection
from admission.admin.passing import Passing
from admission.admin.rendering import Document
from admission.answers import quota_use
from admission.base import clock as clocks
from admission.cli import clusters, confirming, named, options, output, tables
from admission.cli.install import show
from admission.config import reading
from admission.config.derived import Settings
from admission.kube import errors, resources
from admission.kube.apply import Applied, Effect
from admission.kube.client import Client
from admission.objects import broken_glass
from admission.owners import integrations
from admission.run.connection import ApiServerTarget

_ADVICE: Final = (
    "you can run the command again: it does not repeat what is done. Your user needs the right to "
    "update the status of Workloads, to patch pods and owners, and for on and off to change "
    "webhook configurations and policies. While the webhook does not answer, begin with: "
    "gpu-admission break-glass on --new-only"
)
_BACK: Final = "to bring one back into quota, delete it, so that its owner creates it again"
_NAMESPACE: Final = frozenset({"namespace", "namespaces", "ns"})

_Command = Callable[..., Any]


def _common(command: _Command) -> _Command:
    for option in (output.output_option, options.config_option, clusters.cluster_options):
        command = option(command)
    return command


@click.group(
    name="break-glass",
    epilog="""\b
Examples:
  gpu-admission break-glass on
  gpu-admission break-glass status
  gpu-admission break-glass off
  gpu-admission break-glass release pod train -n team-a
""",
)
def break_glass() -> None:
    """Let pods run without quota in an emergency, and come back.

    Needs only the API server: neither webhook nor controller has to run. What is let run in a
    namespace with a queue is charged to the queue as soon as a controller runs, even above quota,
    and may then be stopped like other work of the queue: by whoever takes quota back.
    """


@break_glass.command(
    epilog="""\b
Examples:
  gpu-admission break-glass on --dry-run
  gpu-admission break-glass on
  gpu-admission break-glass on --new-only
"""
)
@_common
@click.option("--new-only", is_flag=True, help="Leave what waits waiting; only new pods pass.")
@click.option(
    "--dry-run",
    "is_dry_run",
    is_flag=True,
    help="Show what would be taken away and what would be let run, and change nothing.",
)
@click.option(
    "--yes", is_flag=True, help="Do not ask for confirmation. Without a terminal nobody is asked."
)
def on(
    target: ApiServerTarget,
    config_file: Path | None,
    form: str,
    new_only: bool,
    is_dry_run: bool,
    yes: bool,
) -> None:
    """Let new pods pass without quota, and let everything run that waits for quota.

    Takes away webhook configurations and the policies that hold or refuse GPU pods. break-glass
    off puts them back. In a terminal it says first how much it lets run, and asks.
    """
    with _connected(target, config_file) as (api, settings):
        if is_dry_run:
            gates, would_run = _planned(api, settings, new_only=new_only)
            changes = [*map(_taken_away, gates), *map(_started, would_run)]
            show(changes, form, is_dry_run=True)
            click.echo(
                f"dry run: nothing was changed. {_plan(gates, would_run)}; to do it, leave "
                "--dry-run out",
                err=True,
            )
            return
        if not (new_only or yes) and confirming.has_terminal():
            confirming.confirm(f"{_plan(*_planned(api, settings))}; continue?")
        changes = list(glass.open_gates(api, settings, output.clock()))
        releaser = None
        if not new_only:
            releaser = _releaser(api, settings)
            changes += [*releaser.owners(EVERYTHING), *releaser.pods(EVERYTHING)]
    show(changes, form)
    if releaser is not None:
        _tell_charged(releaser)
    if form == "text":
        click.echo(
            "the glass is broken: GPU pods run without quota until: "
            + clusters.again("gpu-admission break-glass off")
        )
        click.echo(
            "note: a controller that runs still holds new Jobs and other owners of a queue to its "
            "quota; those that wait then run with: "
            + clusters.again("gpu-admission break-glass on")
        )


@break_glass.command(
    epilog="""\b
Examples:
  gpu-admission break-glass off
"""
)
@_common
def off(target: ApiServerTarget, config_file: Path | None, form: str) -> None:
    """Put back what break-glass on took away: GPU pods go through queues again.

    Says what passed meanwhile and goes on.
    """
    with _connected(target, config_file) as (api, settings):
        is_broken = glass.is_broken(api, settings.namespace)
        passed = glass.status(api, settings, glass.list_pods(api)) if is_broken else None
        changes = list(glass.close_gates(api, settings))
    show(changes, form)
    if form == "text":
        click.echo(_whole())
        if passed is not None:
            _tell_going_on(passed)


@break_glass.command(
    epilog="""\b
Examples:
  gpu-admission break-glass status
  gpu-admission break-glass status -o json
"""
)
@_common
def status(target: ApiServerTarget, config_file: Path | None, form: str) -> None:
    """Say whether new pods pass without quota, what was let run, and what was created meanwhile.

    Pods that were created while the glass was broken are told until they end, also when it is
    whole again.
    """
    with _connected(target, config_file) as (api, settings):
        status_now = glass.status(api, settings, glass.list_pods(api))
    if form == "json":
        output.print_json(_document(status_now))
        return
    off = clusters.again("gpu-admission break-glass off")
    click.echo(
        f"the glass is broken since {status_now.since}; put it back with: {off}"
        if status_now.since
        else _whole()
    )
    _tell_passed(status_now)


@break_glass.command(
    epilog="""\b
Examples:
  gpu-admission break-glass release pod train -n team-a
  gpu-admission break-glass release job/train -n team-a
  gpu-admission break-glass release namespace team-a --dry-run
  gpu-admission break-glass release namespace team-a
"""
)
@click.argument("kind", shell_complete=named.released_kinds)
@click.argument("name", required=False, default="", shell_complete=named.released)
@click.option(
    "-n",
    "--namespace",
    default="",
    shell_complete=named.namespaces,
    is_eager=True,
    help="Namespace of the pod or owner.",
)
@click.option(
    "--dry-run",
    "is_dry_run",
    is_flag=True,
    help="Show what would be let run, and change nothing.",
)
@_common
def release(
    target: ApiServerTarget,
    config_file: Path | None,
    form: str,
    kind: str,
    name: str,
    namespace: str,
    is_dry_run: bool,
) -> None:
    """Let one pod, Job or other owner run outside of quota, or all of a namespace.

    KIND/NAME is the same as KIND NAME. NAME may be NAMESPACE/NAME instead of -n. Nothing is
    stopped to make room. What has a queue is charged to it, even above quota, and may be stopped
    like other work of the queue; what must not be stopped runs in a namespace without a queue.
    """
    kind, name = _kind_and_name(kind, name)
    is_namespace = kind.lower() in _NAMESPACE
    before, _, name = ("", "", name) if is_namespace else name.rpartition("/")
    if before and namespace not in {"", before}:
        raise click.UsageError(f"{kind} {before}/{name} is not in namespace {namespace}")
    namespace = before or namespace
    if not is_namespace and not namespace:
        raise click.UsageError(f"which namespace is {kind} {name} in? Pass -n NAMESPACE")
    chosen = (
        Selection(namespace=name)
        if is_namespace
        else Selection(namespace=namespace, kind=kind.lower(), name=name)
    )
    with _connected(target, config_file) as (api, settings):
        releaser = _releaser(api, settings, is_dry_run=is_dry_run)
        if not is_namespace:
            releaser.require(chosen)
        changes = [*releaser.owners(chosen), *releaser.pods(chosen)]
    show(changes, form, is_dry_run=is_dry_run)
    _tell_charged(releaser)
    if not changes:
        click.echo(f"nothing was let run: {kind} {name} does not wait for quota", err=True)
    elif is_dry_run:
        click.echo("dry run: nothing was changed; to let it run, leave --dry-run out", err=True)


def _kind_and_name(kind: str, name: str) -> tuple[str, str]:
    """Return kind and name of ``KIND NAME``, ``KIND/NAME`` or ``NAMESPACE/KIND/NAME``.

    Raises:
        UsageError: no name was typed, or two.
    """
    parts = kind.split("/")
    if len(parts) == 1 and name:
        return kind, name
    if len(parts) == 1 or not all(parts):
        raise click.UsageError(f"what of kind {parts[0]}? Name it: {parts[0] or 'KIND'}/NAME")
    if name:
        raise click.UsageError(f"{kind} has a name already; leave {name} out")
    *namespaces, kind, name = parts
    return kind, "/".join((*namespaces, name))


def _tell_charged(releaser: Releaser) -> None:
    """Say that what has a queue may be stopped although it was let run, and how it is not."""
    if not releaser.charged:
        return
    queues = tables.listed(releaser.charged)
    click.echo(
        f"note: ClusterQueue {queues} is charged for it, even above quota: like other work of the "
        "queue it may be stopped by whoever takes quota back, even within seconds. Where it must "
        f"not be: raise the nominalQuota first (kubectl edit clusterqueue {min(releaser.charged)})"
        ", or run it in a namespace without a queue",
        err=True,
    )


@contextmanager
def _connected(
    target: ApiServerTarget, config_file: Path | None
) -> Iterator[tuple[Client, Settings]]:
    """The cluster, and the settings of the file or else of the installation."""
    with output.reported(options.CONFIG_ADVICE):
        settings = reading.load_logged(config_file)
    with clusters.connected(target, _ADVICE) as api:
        if config_file is None:
            with suppress(errors.ForbiddenError):  # who may let pods run need not read it
                settings = installation.configured(api, settings.namespace) or settings
        yield api, settings


def _planned(
    api: Client, settings: Settings, *, new_only: bool = False
) -> tuple[Sequence[Document], Sequence[Passing]]:
    """Return what break-glass on would take away, and what it would let run."""
    kinds = integrations.kinds_of(settings)
    would_run = () if new_only else tuple(passing.would_run(api, kinds))
    return tuple(glass.gates(api, settings)), would_run


def _plan(gates: Sequence[Document], would_run: Sequence[Passing]) -> str:
    """Return what is about to happen, as a sentence without its full stop."""
    removal = _by_kind(gate["kind"] for gate in gates) or "nothing"
    if not would_run:
        return f"This lets nothing run that waits now, and takes away {removal}"
    owners = _by_kind(
        "pod" if each.kind == resources.PODS.kind else each.kind for each in would_run
    )
    return f"This lets {owners} run ({_gpus_of(would_run)}) and takes away {removal}"


def _by_kind(kinds: Iterable[str]) -> str:
    """Return how many there are of each kind: ``14 pods and 3 Jobs``."""
    counts = Counter(kinds)
    every = [tables.counted(counts[kind], kind) for kind in sorted(counts, key=_pods_first)]
    return " and ".join(part for part in (", ".join(every[:-1]), *every[-1:]) if part)


def _pods_first(kind: str) -> tuple[bool, str]:
    return kind != "pod", kind


def _gpus_of(every: Iterable[Passing]) -> str:
    """Return the GPUs of all of them in words."""
    amounts, is_whole = passing.sums(every)
    text = quota_use.gpus_in_words(amounts)
    if is_whole:
        return text or "no GPUs"
    return f"{text}, and those of ResourceClaims" if text else f"{tables.UNKNOWN} GPUs"


def _taken_away(gate: Document) -> Applied:
    name = gate["metadata"]["name"]
    return Applied(kind=gate["kind"], namespace="", name=name, effect=Effect.DELETED)


def _started(each: Passing) -> Applied:
    return Applied(
        kind=each.kind, namespace=each.namespace, name=each.name, effect=Effect.CONFIGURED
    )


def _whole() -> str:
    """Return that the glass is whole; nobody was asked whether the webhook answers."""
    doctor = clusters.again("gpu-admission doctor")
    return f"the glass is whole: new GPU pods wait for quota; does the webhook answer? {doctor}"


def _document(status_now: glass.Status) -> dict[str, Any]:
    """Return the status as JSON."""
    return {
        "since": status_now.since,
        "let_run": [_passing_document(each) for each in status_now.let_run],
        "broken_before": None
        if status_now.broken_before is None
        else [
            {"from": clocks.to_wire(each.begin), "to": clocks.to_wire(each.end)}
            for each in status_now.broken_before
            if each.end is not None
        ],
        "created_meanwhile": [_passing_document(each) for each in status_now.created_meanwhile],
        "reads_all_kinds": status_now.reads_all_kinds,
        "taken_away": [
            {"kind": each["kind"], "name": each["metadata"]["name"]}
            for each in status_now.taken_away
        ],
    }


def _passing_document(each: Passing) -> dict[str, Any]:
    gpus = None if each.gpus is None else quota_use.amounts_document(each.gpus)
    return asdict(each) | {"gpus": gpus}


def _tell_passed(status_now: glass.Status) -> None:
    """Say what was let run, and what was created meanwhile."""
    _tell_list("let run outside of quota", status_now.let_run)
    if status_now.since:
        _tell_list(
            "created without admission, now or before",
            status_now.created_meanwhile,
        )
    elif status_now.broken_before:
        _tell_list(
            f"created while the glass was broken, last until {_last_end(status_now)}, and going "
            "on outside of quota",
            status_now.created_meanwhile,
        )
        if status_now.created_meanwhile:
            click.echo(f"note: {_BACK}")
    if status_now.broken_before is None:
        click.echo(
            f"note: not known what was created before: ConfigMap {broken_glass.TIMES} cannot be "
            "read"
        )
    if not status_now.reads_all_kinds:
        click.echo("note: not every kind of owner could be read")


def _last_end(status_now: glass.Status) -> str:
    """Return when the glass became whole for the last time."""
    ends = [each.end for each in status_now.broken_before or () if each.end is not None]
    return clocks.to_wire(max(ends))


def _tell_going_on(passed: glass.Status) -> None:
    """Say what goes on that passed while the glass was broken, and where to see it."""
    _tell_passed(passed)
    every = (*passed.let_run, *passed.created_meanwhile)
    charged = [each for each in every if each.is_charged]
    outside = [each for each in every if not each.is_charged]
    if charged:
        click.echo(
            f"of these {len(charged)} ({_gpus_of(charged)}) go on and are charged to their "
            "queues, even above quota; they can be preempted"
        )
    if outside:
        step = clusters.again("kubectl gpu who --limit 0")
        click.echo(
            f"of these {len(outside)} ({_gpus_of(outside)}) go on outside of quota until they "
            f"end; those on a node are the last rows, without a queue, of: {step}; {_BACK}"
        )


def _tell_list(head: str, passed: Sequence[Passing]) -> None:
    click.echo(f"{head}: {f'{len(passed)} ({_gpus_of(passed)})' if passed else 'nothing'}")
    for each in passed:
        is_pending = each.kind == resources.PODS.kind and not each.node
        place = f", on {each.node}" if each.node else ", pending" if is_pending else ""
        click.echo(f"  {each.label}: {_gpus_of([each])}{place}")


def _releaser(api: Client, settings: Settings, *, is_dry_run: bool = False) -> Releaser:
    kinds = integrations.kinds_of(settings)
    return Releaser(api, kinds, output.clock(), time.sleep, is_dry_run=is_dry_run)
