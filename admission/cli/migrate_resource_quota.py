"""Command ``migrate resourcequota``: queues in place of ResourceQuotas on GPUs, and back."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from admission.admin import resource_quota_migration
from admission.admin.proposal import Proposed
from admission.admin.resource_quota_migration import (
    Done,
    MigrationError,
    MigrationPlan,
    Run,
    WaitingQueue,
)
from admission.base import names
from admission.cli import clusters, init, options, output, tables
from admission.config import reading
from admission.config.derived import Settings
from admission.kube.api import Api
from admission.run.connection import ApiServerTarget

_ADVICE: Final = (
    "the command may be repeated: what was done is not done again. It needs a cluster "
    "administrator: only one may have pods charged to a queue"
)


@click.command(
    name="resourcequota",
    epilog="""\b
Examples:
  gpu-admission migrate resourcequota
  gpu-admission migrate resourcequota --apply
  gpu-admission migrate resourcequota --undo
""",
)
@clusters.cluster_options
@options.config_option
@click.option("--apply", "applies", is_flag=True, help="Do it; without it only the plan is shown.")
@click.option(
    "--undo",
    "undoes",
    is_flag=True,
    help="Put the ResourceQuotas back, and then take the queues away that --apply made.",
)
@output.output_option
def resource_quota(
    target: ApiServerTarget, config_file: Path | None, applies: bool, undoes: bool, form: str
) -> None:
    """Have queues limit the GPUs of namespaces that a ResourceQuota limits now.

    Each namespace gets a queue with the number of its ResourceQuota; pods that run are charged to
    it and run on. Only then the entries on GPUs leave the ResourceQuota, so that one of the two
    holds at every moment. Other entries stay. gpu-admission must be installed and running.
    """
    if applies and undoes:
        raise click.UsageError("--apply and --undo are opposites; leave one out")
    with _connected(target, config_file) as (api, settings):
        run = Run(api, settings, output.clock(), time.sleep)
        if undoes:
            _undo(run, form)
            return
        chosen = resource_quota_migration.plan(api, init.supply(api, settings), settings)
        if not applies:
            _show_plan(chosen, form)
            return
        if not chosen.taken:
            raise MigrationError("; ".join((_NOTHING, *chosen.notes)))
        _tell_notes(chosen.notes)
        _show(resource_quota_migration.apply_plan(run, chosen), form)
        if form == "text":
            undo = clusters.again("gpu-admission migrate resourcequota --undo")
            click.echo(
                "done: queues limit GPUs now\n"
                f"next: {clusters.again('kubectl gpu top')}; the way back: {undo}"
            )


_NOTHING: Final = "no ResourceQuota limits GPUs that the nodes have, so there is nothing to move"


@contextmanager
def _connected(
    target: ApiServerTarget, config_file: Path | None
) -> Iterator[tuple[Api, Settings]]:
    """The API server, and the settings of the installation."""
    with output.reported(options.CONFIG_ADVICE):
        settings = reading.load_logged(config_file)
    with clusters.connected(target, _ADVICE) as api:
        yield api, settings


def _show_plan(chosen: MigrationPlan, form: str) -> None:
    if form == "json":
        output.print_json(_plan_document(chosen))
        return
    if not chosen.taken:
        click.echo(_NOTHING)
        _tell_notes(chosen.notes)
        return
    click.echo("Plan:")
    for namespace in chosen.running:
        for line in _plan_of(chosen, namespace):
            click.echo(line)
    _tell_notes(chosen.notes)
    click.echo(
        "nothing was changed; see the queues: "
        f"{clusters.again('gpu-admission init --like resourcequota')}; do it: "
        f"{clusters.again('gpu-admission migrate resourcequota --apply')}",
        err=True,
    )


def _plan_of(chosen: MigrationPlan, namespace: str) -> Iterator[str]:
    local = next(
        proposed for proposed in chosen.objects if _is_local_queue(proposed, namespace)
    ).document
    queue = local["spec"]["clusterQueue"]
    cap = local["metadata"]["annotations"][names.MAX_IN_USE]
    yield f"namespace {namespace}"
    yield f"  1. LocalQueue {local['metadata']['name']} of ClusterQueue {queue}: at most {cap}"
    running = chosen.running[namespace]
    if running:
        are = "is" if running == 1 else "are"
        pods = tables.counted(running, "running pod")
        yield f"  2. {pods} {are} charged to it, and run{'s' if running == 1 else ''} on"
    else:
        yield "  2. no pod runs that would be charged to it"
    for quota in chosen.taken:
        if quota.namespace == namespace:
            entries = ", ".join(f"{key}={value}" for key, value in quota.entries.items())
            yield f"  3. ResourceQuota {quota.name} no longer limits {entries}"


def _is_local_queue(proposed: Proposed, namespace: str) -> bool:
    document = proposed.document
    is_here = bool(document["metadata"].get("namespace") == namespace)
    return is_here and bool(document["kind"] == "LocalQueue")


def _plan_document(chosen: MigrationPlan) -> dict[str, Any]:
    return {
        "objects": [proposed.document for proposed in chosen.objects],
        "charged": dict(chosen.running),
        "resourceQuotas": [
            {
                "namespace": quota.namespace,
                "name": quota.name,
                "removed": dict(quota.entries),
                "kept": list(quota.kept),
            }
            for quota in chosen.taken
        ],
        "notes": list(chosen.notes),
    }


def _undo(run: Run, form: str) -> None:
    taken = resource_quota_migration.to_undo(run.api)
    if not taken:
        raise MigrationError("no ResourceQuota says that something was taken out of it")
    waiting: list[WaitingQueue] = []
    _show(resource_quota_migration.undo(run, taken, waiting.append), form)
    if waiting:
        spaces = ", ".join(namespace_waiting.namespace for namespace_waiting in waiting)
        count = sum(len(namespace_waiting.workloads) for namespace_waiting in waiting)
        wait = "waits" if count == 1 else "wait"
        raise MigrationError(
            "the ResourceQuotas are in force again, but "
            f"{tables.counted(count, 'workload')} {wait} in the queues of {spaces}, which stay "
            "until then; let them start or delete them (kubectl gpu "
            "queue), and run --undo again"
        )
    if form == "text":
        click.echo("done: ResourceQuotas limit GPUs again; flavors and the Cohort stay")


def _tell_notes(notes: Iterable[str]) -> None:
    for note in notes:
        click.echo(f"note: {note}", err=True)


def _show(changes: Iterable[Done], form: str) -> None:
    """Each change as it happens; as JSON all at once."""
    if form == "json":
        output.print_json([asdict(change) for change in changes])
        return
    for change in changes:
        where = f" -n {change.namespace}" if change.namespace else ""
        click.echo(output.one_line(f"{change.kind}/{change.name}{where} {change.what}"))
