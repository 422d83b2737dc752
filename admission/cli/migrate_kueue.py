"""Command ``migrate kueue``: Kueue's place in a running cluster is taken, and given back."""

import itertools
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from admission.admin import installation, kueue_found, kueue_move
from admission.admin.installation import Parts
from admission.admin.kueue_found import Kueue, Survey
from admission.admin.kueue_move import Move, MoveRecord, Tools
from admission.cli import (
    chosen_settings,
    clusters,
    install_options,
    named,
    options,
    output,
    tables,
)
from admission.cli import install as installing
from admission.cli.chosen_settings import SettingOptions
from admission.config import reading
from admission.config.derived import Settings
from admission.kube.api import Api
from admission.run.connection import ApiServerTarget

_ADVICE: Final = (
    "the command may be repeated: what was done is not done again. It needs the rights of "
    "install, and the rights to change Kueue's Deployment, Lease and webhook configurations"
)
_MOST: Final = 20


@click.command(
    name="kueue",
    epilog="""\b
Examples:
  gpu-admission migrate kueue
  gpu-admission migrate kueue --apply --image registry.example.com/gpu-admission:0.2.0
  gpu-admission migrate kueue --undo
  gpu-admission migrate kueue --finish
""",
)
@clusters.cluster_options
@options.config_option
@click.option("--apply", "applies", is_flag=True, help="Do it; without it only say what would be.")
@click.option("--undo", "undoes", is_flag=True, help="Go back to Kueue.")
@click.option("--finish", "finishes", is_flag=True, help="Forget the way back.")
@install_options.mode_option
@install_options.while_down_option
@install_options.webhook_url_option
@install_options.cert_dir_option
@install_options.image_option
@install_options.visibility_option
@click.option(
    "--backup",
    type=click.Path(dir_okay=False, path_type=Path),
    help="New file for all queues and Workloads; install --restore can bring them back. Default: "
    "kueue-backup.jsonl, with a number if that exists.",
)
@click.option(
    "--kueue-namespace",
    default="",
    shell_complete=named.namespaces,
    help="Default: where Kueue's webhooks point to.",
)
@click.option(
    "--kueue-deployment", default="", help="Of Kueue's controller. Default: the only one."
)
@click.option(
    "--accept-unsupported", is_flag=True, help="Move although something will have no effect."
)
@output.output_option
def kueue(
    target: ApiServerTarget,
    config_file: Path | None,
    applies: bool,
    undoes: bool,
    finishes: bool,
    mode: str | None,
    while_down: str | None,
    webhook_url: str,
    cert_dir: Path,
    image: str | None,
    visibility: bool | None,
    backup: Path | None,
    kueue_namespace: str,
    kueue_deployment: str,
    accept_unsupported: bool,
    form: str,
) -> None:
    """Take Kueue's place in a running cluster: queues, Workloads, pods and Jobs stay.

    Without an option it changes nothing, and says what there is, what has no effect here, and each
    step with what undoes it. --apply does it; what runs goes on, what waits keeps its place, and
    nothing new is admitted for some seconds. Until --finish, --undo goes back to Kueue. Each may
    be repeated after it was interrupted, with the same options.

    With --webhook-url, start this when the command waits for it:
    gpu-admission run --leader-election.
    """
    if applies + undoes + finishes > 1:
        raise click.UsageError("--apply, --undo, --finish: only one of them")
    if form == "json" and (applies or undoes or finishes):
        raise click.UsageError("-o json: the plan only")
    with output.reported(options.CONFIG_ADVICE):
        configured = reading.load_logged(config_file)
    setting_options = SettingOptions(
        file=config_file, mode=mode, while_down=while_down, is_outside=bool(webhook_url)
    )
    setting_options.refuse_twice(configured)
    with clusters.connected(target, _ADVICE) as api:
        record = kueue_move.read(api, configured.namespace)
        if finishes:
            _finish(api, configured, record)
            return
        if record is not None and record.finished:
            _tell_finished(record, form, undoes=undoes)
            return
        if undoes and record is None:
            raise kueue_move.MoveError("no move from Kueue was begun: there is nothing to undo")
        kueue_ = (
            kueue_move.from_record(record)
            if record is not None
            else kueue_found.find(api, kueue_namespace, kueue_deployment)
        )
        if configured.namespace == kueue_.namespace:
            raise kueue_move.MoveError(
                f"{config_file}: namespace: {configured.namespace} is where Kueue is, and the way "
                "back deletes our namespace: leave the field out"
            )
        if not (applies or undoes):
            _show(kueue_, kueue_found.survey(api), record, form)
            return
        settings = configured
        if applies:
            settings = chosen_settings.choose(api, configured, setting_options)
        plan = installation.InstallPlan(
            webhook_url=webhook_url,
            certificates=cert_dir,
            # Not what the cluster has: until the step "define" the CRDs are Kueue's.
            parts=Parts().with_options(image=image, visibility=visibility),
            take_over=True,
        )
        tools = Tools(api=api, plan=plan, settings=settings, clock=output.clock(), wait=time.sleep)
        if undoes:
            _say(Move(tools, kueue_, record or MoveRecord()).back())
            click.echo("done: Kueue decides again")
            return
        if record is None:
            _check(api, settings, accept_unsupported=accept_unsupported)
            if webhook_url:
                installing.tell_outside(settings, configured)
        _say(Move(tools, kueue_, record or MoveRecord()).forward(backup or _new_file()))
        _tell_next(kueue_)


def _say(lines: Iterator[str]) -> None:
    for line in lines:
        click.echo(line)


def _new_file() -> Path:
    """Where the backup goes if nobody says so: what an earlier move has written stays."""
    names = itertools.chain(["kueue-backup"], map("kueue-backup-{}".format, itertools.count(2)))
    return next(path for name in names if not (path := Path(f"{name}.jsonl")).exists())


def _check(api: Api, settings: Settings, *, accept_unsupported: bool) -> None:
    """Refuse to begin where something would be lost, or where we are already."""
    if installation.is_installed(api, settings):
        raise kueue_move.MoveError(
            "gpu-admission is installed beside Kueue; first: gpu-admission uninstall --keep-crds"
        )
    installation.held(api, settings)
    unsupported = kueue_found.survey(api).unsupported
    if unsupported and not accept_unsupported:
        raise kueue_move.MoveError(
            f"without effect here: {tables.counted(len(unsupported), 'thing')}, {unsupported[0]}; "
            "see them all without --apply, mend them, or pass --accept-unsupported"
        )


def _finish(api: Api, settings: Settings, record: MoveRecord | None) -> None:
    if record is None:
        raise kueue_move.MoveError("no move from Kueue is under way: there is nothing to finish")
    if not record.finished:
        kueue_move.finish(api, settings.namespace, record, output.clock())
    click.echo("done: there is no way back any more")
    _tell_leftovers(kueue_move.from_record(record))


def _tell_finished(record: MoveRecord, form: str, *, undoes: bool) -> None:
    """Say that there is nothing left to do, or that it cannot be undone."""
    ending = f"the move from Kueue was finished at {record.finished}"
    if undoes:
        output.fail(
            f"{ending}, so there is no way back: what it needs was deleted then",
            "to have Kueue again, uninstall with gpu-admission uninstall --keep-crds, which keeps "
            "queues and Workloads, and then install Kueue",
        )
    if form == "json":
        output.print_json({"finished": record.finished})
        return
    click.echo(f"{ending}: gpu-admission decides, and there is nothing left to do")


def _show(kueue_: Kueue, survey: Survey, record: MoveRecord | None, form: str) -> None:
    done = record.done if record else []
    if form == "json":
        output.print_json(
            {
                "kueue": {
                    "namespace": kueue_.namespace,
                    "deployment": kueue_.deployment,
                    "replicas": kueue_.replicas,
                    "lease": kueue_.lease,
                    "webhooks": [webhook["metadata"]["name"] for webhook in kueue_.webhooks],
                },
                "found": asdict(survey),
                "steps": [asdict(step) | {"done": step.name in done} for step in kueue_move.STEPS],
            }
        )
        return
    click.echo("\n".join(map(output.one_line, _plan(kueue_, survey, done))))


def _plan(kueue_: Kueue, survey: Survey, done: list[str]) -> Iterator[str]:
    if survey.unsupported:
        count = len(survey.unsupported)
        things = tables.counted(count, "thing")
        yield f"Kueue's place can be taken, but {things} will have no effect here:"
        yield from (f"  {text}" for text in survey.unsupported[:_MOST])
        if count > _MOST:
            yield f"  ... and {count - _MOST} more: -o json"
    else:
        yield "Kueue's place can be taken: everything that there is has the same effect here."
    yield ""
    yield (
        f"Kueue: Deployment {kueue_.namespace}/{kueue_.deployment}, "
        f"{tables.counted(kueue_.replicas, 'replica')}, Lease {kueue_.lease}"
    )
    if kueue_.config_map:
        yield (
            f"Its configuration is the ConfigMap {kueue_.namespace}/{kueue_.config_map}. Check a "
            "copy of it with gpu-admission config --config FILE, and pass it as --config."
        )
    yield ""
    yield "These stay as they are:"
    yield from (f"  {count:6} {kind}" for kind, count in survey.objects.items())
    yield (
        f"  Workloads: {survey.admitted} hold quota and keep it, {survey.waiting} wait and keep "
        f"their place, {survey.ended} have ended"
    )
    yield (
        f"  pods: {survey.gated} wait behind the gate and go on waiting, {survey.held} have "
        "Kueue's finalizer and lose it"
    )
    yield ""
    yield "Steps:"
    for number, step in enumerate(kueue_move.STEPS, start=1):
        mark = " (done)" if step.name in done else ""
        yield f"  {number:2} {step.name}: {step.does}{mark}"
        yield f"     undone: {step.undone}"
    yield ""
    does = clusters.again("gpu-admission migrate kueue --apply")
    yield (
        f"nothing was changed; do it with: {does}, and with the options of install that you need"
    )


def _tell_next(kueue_: Kueue) -> None:
    steps = (
        ("gpu-admission doctor", "see whether anything is wrong"),
        ("gpu-admission migrate kueue --undo", "go back to Kueue"),
        ("gpu-admission migrate kueue --finish", "when you stay"),
    )
    shown = "\n".join(f"  {clusters.again(step)}  # {why}" for step, why in steps)
    click.echo(
        f"""done: gpu-admission decides, and Kueue is stopped

next:
{shown}
Until then leave what is in namespace {kueue_.namespace} as it is. Whatever deploys Kueue
(Helm, Argo CD, Flux) must not do so any more: it would bring Kueue's webhooks back."""
    )


def _tell_leftovers(kueue_: Kueue) -> None:
    click.echo(
        f"""
next: remove what is left of Kueue, and keep its CustomResourceDefinitions: they hold your queues.
  {clusters.again(f"kubectl delete namespace {kueue_.namespace}")}
  {clusters.again("kubectl delete clusterrole,clusterrolebinding -l app.kubernetes.io/name=kueue")}
Never run helm uninstall or kubectl delete on Kueue's manifests: both delete its
CustomResourceDefinitions, and with them all queues and Workloads."""
    )
