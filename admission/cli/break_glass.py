"""Commands ``break-glass on``, ``off``, ``status`` and ``release``."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from admission.admin import break_glass as glass
from admission.admin import installation
from admission.admin.outside_quota import EVERYTHING, Releaser, Selection
from admission.cli import clusters, named, options, output
from admission.cli.install import show
from admission.config import reading
from admission.config.derived import Settings
from admission.kube import errors
from admission.kube.client import Client
from admission.owners import integrations
from admission.run.connection import ApiServerTarget

_ADVICE: Final = (
    "you can run the command again: it does not repeat what is done. Your user needs the right to "
    "update the status of Workloads, to patch pods and owners, and for on and off to change "
    "webhook configurations and policies. While the webhook does not answer, begin with: "
    "gpu-admission break-glass on --new-only"
)
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

    Needs only the API server: neither webhook nor controller has to run. What is let run is never
    stopped for having no quota. It is charged to its queue when a controller is back.
    """


@break_glass.command(
    epilog="""\b
Examples:
  gpu-admission break-glass on
  gpu-admission break-glass on --new-only
"""
)
@_common
@click.option("--new-only", is_flag=True, help="Leave what waits waiting; only new pods pass.")
def on(target: ApiServerTarget, config_file: Path | None, form: str, new_only: bool) -> None:
    """Let new pods pass without quota, and let everything run that waits for quota.

    Takes away webhook configurations and the policies that hold or refuse GPU pods. break-glass
    off puts them back.
    """
    with _connected(target, config_file) as (api, settings):
        changes = list(glass.open_gates(api, settings, output.clock()))
        if not new_only:
            releaser = _releaser(api, settings)
            changes += [*releaser.owners(EVERYTHING), *releaser.pods(EVERYTHING)]
    show(changes, form)
    if form == "text":
        click.echo(
            "the glass is broken: GPU pods run without quota until: "
            + clusters.again("gpu-admission break-glass off")
        )


@break_glass.command(
    epilog="""\b
Examples:
  gpu-admission break-glass off
"""
)
@_common
def off(target: ApiServerTarget, config_file: Path | None, form: str) -> None:
    """Put back what break-glass on took away: GPU pods go through queues again."""
    with _connected(target, config_file) as (api, settings):
        changes = list(glass.close_gates(api, settings))
    show(changes, form)
    if form == "text":
        click.echo("the glass is whole: new GPU pods wait for quota")


@break_glass.command(
    epilog="""\b
Examples:
  gpu-admission break-glass status
  gpu-admission break-glass status -o json
"""
)
@_common
def status(target: ApiServerTarget, config_file: Path | None, form: str) -> None:
    """Say whether new pods pass without quota, and what was let run."""
    with _connected(target, config_file) as (api, settings):
        status_now = glass.status(api, settings)
    if form == "json":
        output.print_json(asdict(status_now))
        return
    off = clusters.again("gpu-admission break-glass off")
    click.echo(
        f"the glass is broken since {status_now.since}; put it back with: {off}"
        if status_now.since
        else "the glass is whole: new GPU pods wait for quota"
    )
    count = len(status_now.outside)
    click.echo(f"let run outside of quota: {count or 'nothing'}")
    for name in status_now.outside:
        click.echo(f"  {name}")
    if not status_now.is_whole:
        click.echo("note: not every kind of owner could be read")


@break_glass.command(
    epilog="""\b
Examples:
  gpu-admission break-glass release pod train -n team-a
  gpu-admission break-glass release job train -n team-a
  gpu-admission break-glass release namespace team-a --dry-run
  gpu-admission break-glass release namespace team-a
"""
)
@click.argument("kind", shell_complete=named.released_kinds)
@click.argument("name", shell_complete=named.released)
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
    """Let one pod, Job or other owner run outside of quota, or all of a namespace."""
    is_namespace = kind.lower() in _NAMESPACE
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
    show(changes, form)
    if not changes:
        click.echo(f"nothing was let run: {kind} {name} does not wait for quota", err=True)
    elif is_dry_run:
        click.echo("dry run: nothing was changed; to let it run, leave --dry-run out", err=True)


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


def _releaser(api: Client, settings: Settings, *, is_dry_run: bool = False) -> Releaser:
    kinds = integrations.kinds_of(settings)
    return Releaser(api, kinds, output.clock(), time.sleep, is_dry_run=is_dry_run)
