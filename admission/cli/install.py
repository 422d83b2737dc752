"""Commands ``install`` and ``uninstall``."""

import json
import shlex
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click

from admission.admin import (
    backups,
    installation,
    installed_parts,
    installed_settings,
    manifests,
    own_placement,
)
from admission.admin.backups import LeftOut
from admission.admin.dry_cluster import DryCluster
from admission.admin.installation import RemovalInventory
from admission.base import names, structs
from admission.base.namespaces import BYPASS_CHOICES
from admission.cli import (
    chosen_settings,
    clusters,
    confirming,
    install_options,
    options,
    output,
    tables,
)
from admission.cli.chosen_settings import SettingOptions
from admission.config import reading
from admission.config.addresses import LOOPBACK, Address
from admission.config.derived import Settings, to_text
from admission.kube import resources
from admission.kube.api import Api
from admission.kube.apply import Applied, Effect
from admission.objects import values, views
from admission.run.connection import ApiServerTarget
from certs import files

_ADVICE: Final = (
    "you can run the command again: it does not repeat what is done. Your user needs the right to "
    "create CustomResourceDefinitions, ClusterRoles and webhook configurations"
)
_Step = tuple[str, str]
"""A command to type, and what for."""
_THEN: Final[tuple[_Step, ...]] = (
    ("gpu-admission doctor", "see whether anything is wrong"),
    ("gpu-admission init", "see flavors and queues for your nodes; --apply creates them"),
    ("kubectl gpu why POD -n NAMESPACE", "after the first pod with a GPU: is it admitted?"),
)
"""What to do once it runs, each with what for."""

_START_JOB: Final = (
    'kubectl patch job NAME -n NAMESPACE --type=merge -p \'{"spec":{"suspend":false}}\''
)
_HTTPS: Final = 443
_AS_POD_SPEC: Final = structs.converter(views.PodSpec)
_MARKS: Final = {
    Effect.CREATED: "green",
    Effect.CONFIGURED: "yellow",
    Effect.DELETED: "red",
    Effect.UNCHANGED: "dim",
    Effect.ABSENT: "dim",
}


_dry_run_option: Final = click.option(
    "--dry-run",
    "is_dry_run",
    is_flag=True,
    help="Show each object that would be created, changed or deleted, and change nothing.",
)


@click.command(
    epilog="""\b
Examples:
  gpu-admission install --kubeconfig kubeconfig --webhook-url https://127.0.0.1:9443 \\
      --cert-dir ./certs
  gpu-admission install --image registry.example.com/gpu-admission:0.2.0 --mode deny
  gpu-admission install --image registry.example.com/gpu-admission:0.2.0 -o json
  gpu-admission install --dry-run
  gpu-admission install --dashboard
  gpu-admission install --image registry.example.com/gpu-admission:0.2.0 \\
      --while-webhook-down hold
  gpu-admission install --restore queues.jsonl
"""
)
@clusters.cluster_options
@options.config_option
@install_options.mode_option
@install_options.while_down_option
@install_options.fair_sharing_option
@install_options.dashboard_option
@install_options.webhook_url_option
@install_options.cert_dir_option
@install_options.image_option
@click.option("--take-over", is_flag=True, help="Install even if Kueue's webhooks exist.")
@click.option(
    "--bypass-guard/--no-bypass-guard",
    default=None,
    help="Install policies in the API server against pods that get GPUs around quota. A namespace "
    f"chooses with the label {names.BYPASS_LABEL}: {', '.join(BYPASS_CHOICES)}. --mode decides "
    "for all others. Default: as installed before, else they are installed.",
)
@install_options.visibility_option
@click.option(
    "--older-versions/--no-older-versions",
    default=None,
    help="Serve v1beta1 of every kind. Without v1beta1 the API server converts no Workload when "
    "it is written. Default: as installed before, else it is served.",
)
@click.option(
    "--restore",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="Restore queues and reservations from a file that uninstall --backup wrote, before the "
    "controller decides anything. Objects that exist are not changed.",
)
@_dry_run_option
@output.output_option
def install(
    target: ApiServerTarget,
    config_file: Path | None,
    mode: str | None,
    while_down: str | None,
    fair_sharing: bool | None,
    dashboard: bool | None,
    webhook_url: str,
    cert_dir: Path,
    image: str | None,
    take_over: bool,
    bypass_guard: bool | None,
    visibility: bool | None,
    older_versions: bool | None,
    restore: Path | None,
    is_dry_run: bool,
    form: str,
) -> None:
    """Install gpu-admission in a cluster: CRDs, roles, webhook and controller.

    Uses server-side apply; a second run changes nothing. Shows what changed. What no option and
    no file says stays as it is installed. The webhook's
    certificate is created, and renewed when it is due, in the Secret gpu-admission-webhook-tls. A
    certificate that cert-manager or somebody else put there is used as it is.
    """
    with output.reported():
        backup = None if restore is None else backups.read(restore)
    with output.reported(options.CONFIG_ADVICE):
        configured = reading.load_logged(config_file)
    setting_options = SettingOptions(
        file=config_file,
        mode=mode,
        while_down=while_down,
        fair_sharing=fair_sharing,
        dashboard=dashboard,
        is_outside=bool(webhook_url),
    )
    setting_options.refuse_twice(configured)
    if fair_sharing and webhook_url:
        raise click.UsageError(
            "--fair-sharing: webhook and controller run outside the cluster; put fairSharing: {} "
            "into the file of --config that they are started with"
        )
    if dashboard and webhook_url:
        raise click.UsageError(
            "--dashboard: webhook and controller run outside the cluster; start them with"
            f" --dashboard-bind {install_options.DASHBOARD_ADDRESS}"
        )
    with clusters.connected(target, _ADVICE) as api:
        settings = chosen_settings.choose(api, configured, setting_options)
        if webhook_url:
            tell_outside(settings, configured)
        _tell_moved(api, settings, webhook_url)
        parts = installed_parts.of(api, settings).with_options(
            image=image,
            bypass_guard=bypass_guard,
            visibility=visibility,
            older_versions=older_versions,
        )
        if image is None and parts.image != manifests.DEFAULT_IMAGE:
            click.echo(
                f"image: as installed before ({parts.image}); --image replaces it", err=True
            )
        plan = installation.InstallPlan(
            backup=backup,
            webhook_url=webhook_url,
            certificates=cert_dir,
            parts=parts,
            take_over=take_over,
        )
        if is_dry_run:
            _try_install(api, plan, settings, form)
            return
        changes = installation.install(
            api, plan, settings, output.clock(), time.sleep, _tell_left_out
        )
        show(changes, form, by_kind=True)
        if form == "text":
            first = (
                _starting(plan, config_file)
                if webhook_url
                else _waiting(api, settings, parts.image)
            )
            _tell_next(first)


@click.command(
    epilog="""\b
Examples:
  gpu-admission uninstall --kubeconfig kubeconfig
  gpu-admission uninstall --dry-run
  gpu-admission uninstall --yes --backup queues.jsonl
  gpu-admission uninstall --yes --keep-crds
  gpu-admission uninstall --yes --release-pods
"""
)
@clusters.cluster_options
@options.config_option
@click.option(
    "--release-pods",
    is_flag=True,
    help="Also let run what still waits: remove the scheduling gate of pods, start suspended Jobs "
    "and others that name a queue. Otherwise they stay pending, and suspended.",
)
@click.option(
    "--backup",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="First write all queues and Workloads to a new file; install --restore restores them. "
    "Before that, stop a controller that runs outside the cluster.",
)
@click.option(
    "--keep-crds",
    is_flag=True,
    help="Keep the CRDs, and with them all queues and Workloads, and the recorded GPU-time.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@_dry_run_option
@output.output_option
def uninstall(
    target: ApiServerTarget,
    config_file: Path | None,
    release_pods: bool,
    backup: Path | None,
    keep_crds: bool,
    yes: bool,
    is_dry_run: bool,
    form: str,
) -> None:
    """Remove gpu-admission from a cluster, webhook configurations first.

    Deletes the CRDs and with them all queues and Workloads, and the recorded GPU-time. Running
    pods continue to run. Says first what a later installation will do, and asks for confirmation.
    Without --config the configuration in the cluster says what there is.
    """
    with output.reported(options.CONFIG_ADVICE):
        settings = reading.load_logged(config_file)
    with clusters.connected(target, _ADVICE) as api:
        if config_file is None:
            installed = installed_settings.of(api, settings.namespace)
            if installed.problem:
                raise click.UsageError(
                    f"without --config the installed configuration says what there is, and "
                    f"{installed.problem}; say with --config FILE what was installed"
                )
            settings = installed.settings or settings
        inventory = installation.inventory(api, settings)
        _tell_removal(inventory, backup, keep_crds=keep_crds, release_pods=release_pods)
        if is_dry_run:
            changes = installation.uninstall(
                DryCluster(api), settings, output.clock(), time.sleep,
                release_pods=release_pods, keep_crds=keep_crds, is_dry_run=True,
            )  # fmt: skip
            _show_tried(changes, form)
            return
        _ask(yes=yes)
        if backup is not None:
            count = backups.save(api, backup, output.clock())
            click.echo(f"{tables.counted(count, 'object')} written to {backup}", err=True)
        changes = installation.uninstall(
            api, settings, output.clock(), time.sleep,
            release_pods=release_pods, keep_crds=keep_crds,
        )  # fmt: skip
        show(changes, form, by_kind=True)
        waiting = installation.gated_pods(api)
        suspended = installation.suspended(api, settings)
    if waiting:
        click.echo(
            f"warning: still gated, and pending: {_named(waiting, 'pod')}; "
            "run again with --release-pods, or delete them",
            err=True,
        )
    if suspended:
        click.echo(
            f"warning: still suspended: {_by_kind(suspended)}; run again with --release-pods, or "
            f"start what shall run: {_START_JOB}",
            err=True,
        )


def _try_install(api: Api, plan: installation.InstallPlan, settings: Settings, form: str) -> None:
    """Show what an installation would change; certificates are made in a copy of the directory."""
    with tempfile.TemporaryDirectory() as folder:
        copies = Path(folder) / "certificates"
        if plan.certificates.is_dir():
            shutil.copytree(plan.certificates, copies)
        changes = installation.install(
            DryCluster(api), replace(plan, certificates=copies), settings, output.clock(),
            time.sleep, _tell_left_out,
        )  # fmt: skip
        _show_tried(changes, form)
        if files.read(copies) != files.read(plan.certificates) and plan.webhook_url:
            click.echo(
                f"the certificate in {plan.certificates} would be created or renewed", err=True
            )


def _show_tried(changes: Iterable[Applied], form: str) -> None:
    """Show what would change, object by object; what would stay is only counted."""
    show(changes, form, is_dry_run=True)
    click.echo("dry run: nothing was changed; to do it, leave --dry-run out", err=True)


def _tell_next(first: Iterable[_Step]) -> None:
    """Say what is to be done now, step by step.

    Args:
        first: the steps until it runs.
    """
    lines = ("\nnext:", *(f"  {clusters.again(do)}  # {why}" for do, why in (*first, *_THEN)))
    click.echo("\n".join(lines))


def _starting(plan: installation.InstallPlan, config_file: Path | None) -> list[_Step]:
    """Return how webhook and controller are started outside of the cluster."""
    place = urlsplit(plan.webhook_url)
    host = place.hostname if place.hostname in LOOPBACK else ""
    address = Address(host=host or "", port=place.port or _HTTPS).text()
    words = ["gpu-admission", "run", "--bind", address, "--cert-dir", str(plan.certificates)]
    if config_file is not None:
        words += ["--config", str(config_file)]
    purpose = (
        "start what --webhook-url points to, and the controller; it goes on until it is stopped"
    )
    return [(shlex.join(words), purpose)]


def _waiting(api: Api, settings: Settings, image: str) -> list[_Step]:
    """Return how to wait until the pods of webhook and controller run."""
    patch = _tolerating(api, settings)
    if "/" not in image:
        click.echo(
            f"\nwarning: the image {image} names no registry, so each node must already have it. "
            "Build one that nodes can pull: make image IMAGE=REGISTRY/gpu-admission:TAG; push it, "
            "and install again with --image REGISTRY/gpu-admission:TAG",
            err=True,
        )
    wait = (
        f"kubectl wait -n {settings.namespace} --for=condition=Available deployment --all "
        "--timeout=5m"
    )
    return [
        *([(patch, "let the pods tolerate the taints of the nodes")] if patch else []),
        (wait, "until webhook and controller run; the nodes must be able to pull the image"),
    ]


def _tell_moved(api: Api, settings: Settings, webhook_url: str) -> None:
    """Warn where the API server asks the webhook at another place than from now on."""
    before = installation.webhook_place(api)
    after = webhook_url.rstrip("/") or f"Service {settings.namespace}/{manifests.WEBHOOK}"
    if before and before != after:
        click.echo(
            f"warning: the webhook moves: until now the API server asked {before}, from now on it "
            f"asks {after}. GPU pods cannot be created until it answers there.",
            err=True,
        )


def _tolerating(api: Api, settings: Settings) -> str:
    """Return the command that lets nodes take the pods of webhook and controller; warn first.

    It is empty where a node takes them, or will by itself.
    """
    nodes = api.list(resources.NODES, into=views.Node).items
    deployment = api.get(resources.DEPLOYMENTS, manifests.WEBHOOK, settings.namespace)
    spec = _AS_POD_SPEC(deployment["spec"]["template"]["spec"])
    placement = own_placement.find(
        (values.taints(node.spec.taints or ()) for node in nodes),
        values.tolerations(spec.tolerations or ()),
    )
    if placement.is_open:
        return ""
    warning = (
        f"\nwarning: every node has a taint, so the pods in {settings.namespace} stay Pending"
    )
    if not placement.tolerations:
        click.echo(f"{warning} until a node is ready and not cordoned.", err=True)
        return ""
    click.echo(
        f"{warning}. Add a node without a taint, or begin with the first command below. The Helm "
        "chart has the value tolerations, and deploy/README.md a patch for kustomize.",
        err=True,
    )
    patch = json.dumps({"spec": {"template": {"spec": {"tolerations": placement.documents()}}}})
    deployments = f"{manifests.WEBHOOK} {manifests.CONTROLLER}"
    return f"kubectl patch deployment -n {settings.namespace} {deployments} -p '{patch}'"


def _tell_removal(
    inventory: RemovalInventory, backup: Path | None, *, keep_crds: bool, release_pods: bool
) -> None:
    """Say what happens to queues, pods and Jobs, now and at a later installation."""
    if keep_crds:
        becomes = "stay; a later installation uses them"
    elif backup is not None:
        becomes = f"are written to {backup} and deleted; install --restore restores them"
    else:
        becomes = "are deleted and must be created again; --backup FILE or --keep-crds keeps them"
    click.echo(
        f"{tables.counted(inventory.queues, 'queue')}, "
        f"{tables.counted(inventory.workloads, 'workload')} and the recorded GPU-time "
        f"{becomes}.\n"
        f"Released pods that continue to run: {inventory.running}. A later installation charges "
        "each to the ClusterQueue that it names, even above quota, once that exists.\n"
        f"Waiting for quota: {_named(inventory.waiting, 'pod')}. "
        + (
            "Released now, without quota."
            if release_pods
            else "Stays pending, and waits again after a later installation; --release-pods "
            "releases it now, without quota."
        ),
        err=True,
    )
    if inventory.suspended:
        click.echo(
            f"Suspended, with a queue: {_by_kind(inventory.suspended)}. "
            + (
                "Started now, without quota."
                if release_pods
                else "Stays suspended, and waits again after a later installation; "
                "--release-pods starts it now, without quota. One by one, afterwards: "
                + _START_JOB
            ),
            err=True,
        )
    if inventory.gating:
        click.echo(
            f"warning: new pods of {tables.counted(inventory.gating, 'running Job')} will stay "
            "pending: only the controller takes off the scheduling gate in their template. Let "
            "these Jobs end first, or run uninstall --release-pods again when they make pods.",
            err=True,
        )


def _by_kind(owners_by_kind: Mapping[str, tuple[str, ...]]) -> str:
    return ", ".join(_named(owners, kind) for kind, owners in owners_by_kind.items())


def _named(objects: Collection[str], noun: str) -> str:
    """Return how many objects there are, and the first of them: ``2 pods (ml/a, ml/b)``."""
    counted = tables.counted(len(objects), noun)
    return f"{counted} ({tables.listed(objects)})" if objects else counted


def _ask(*, yes: bool) -> None:
    """Ask whether to go on."""
    if yes:
        return
    if not confirming.has_terminal():
        raise click.UsageError("no terminal to ask for confirmation: pass --yes to uninstall")
    confirming.confirm("Uninstall?")


def _tell_left_out(left_out: LeftOut) -> None:
    where = f" -n {left_out.namespace}" if left_out.namespace else ""
    click.echo(
        f"warning: {left_out.kind}/{left_out.name}{where} is not restored: {left_out.why}",
        err=True,
    )


def tell_outside(settings: Settings, configured: Settings) -> None:
    """Say what the file of a webhook outside the cluster must contain, where it does not."""
    if settings.managed_namespaces == configured.managed_namespaces:
        return
    _, document = settings.documents()
    needed = ("apiVersion", "kind", "modes", "excludedNamespaces")
    text = to_text([{key: document[key] for key in needed}])
    click.echo(f"start the program with a --config file that contains:\n{text}", err=True)


def show(
    changes: Iterable[Applied], form: str, *, by_kind: bool = False, is_dry_run: bool = False
) -> None:
    """Show each change as it happens, then the sum; as JSON all at once.

    Args:
        changes: as they happen.
        form: ``text`` or ``json``.
        by_kind: show the same effect on several objects of a kind, one after the other, in a line,
            except for what was there and was changed.
        is_dry_run: say so with each, and only count what would stay as it is.
    """
    if form == "json":
        output.print_json([asdict(change) | {"effect": change.effect.value} for change in changes])
        return
    counts: Counter[Effect] = Counter()
    alike: list[Applied] = []
    try:
        for change in changes:
            counts[change.effect] += 1
            if is_dry_run and change.effect in {Effect.UNCHANGED, Effect.ABSENT}:
                continue
            if not by_kind or change.effect is Effect.CONFIGURED:
                _show_alike(alike, is_dry_run=is_dry_run)
                _show_alike([change], is_dry_run=is_dry_run)
                alike = []
                continue
            if alike and (alike[0].kind, alike[0].effect) != (change.kind, change.effect):
                _show_alike(alike, is_dry_run=is_dry_run)
                alike = []
            alike.append(change)
    finally:
        _show_alike(alike, is_dry_run=is_dry_run)
    total = ", ".join(f"{counts[effect]} {effect.value}" for effect in Effect if counts[effect])
    head = "would be done" if is_dry_run else "done"
    output.console().print(f"{head}: {total or 'nothing to change'}")


def _show_alike(alike: Sequence[Applied], *, is_dry_run: bool) -> None:
    """Show the effect on objects of one kind in a line; nothing for none."""
    if not alike:
        return
    first = alike[0]
    where = f" -n {first.namespace}" if first.namespace else ""
    subject = (
        f"{first.kind}/{first.name}{where}" if len(alike) == 1 else f"{first.kind} ({len(alike)})"
    )
    output.console().print(f"{subject} ", end="")
    output.console().print(first.effect.value, style=_MARKS[first.effect], end="")
    output.console().print(" (dry run)" if is_dry_run else "")
