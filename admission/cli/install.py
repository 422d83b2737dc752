"""Commands ``install`` and ``uninstall``."""

import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from admission.app import configuration, connection, installation
from admission.base import names
from admission.base.clock import SystemClock
from admission.cli import options, output
from admission.kube.apply import Applied, Effect

_ADVICE: Final = (
    "the command may be repeated: what was done is not done again. It needs a user who may "
    "create CustomResourceDefinitions, ClusterRoles and webhook configurations"
)
_TIMEOUT_SECONDS: Final = 30.0
_MARKS: Final = {
    Effect.CREATED: "green",
    Effect.CONFIGURED: "yellow",
    Effect.DELETED: "red",
    Effect.UNCHANGED: "dim",
    Effect.ABSENT: "dim",
}


@click.command(
    epilog="""\b
Examples:
  gpu-admission install --kubeconfig kubeconfig --webhook-url https://127.0.0.1:9443 \\
      --cert-dir ./certs
  gpu-admission install --image registry.example.com/gpu-admission:0.1.0 -o json
"""
)
@output.kubeconfig_option
@options.config_option
@click.option(
    "--webhook-url",
    default="",
    metavar="https://HOST:PORT",
    help="Point the webhook configurations outside the cluster, and run nothing inside.",
)
@click.option(
    "--cert-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default="gpu-admission-certs",
    show_default=True,
    help="With --webhook-url: directory of the CA and serving certificate; filled for the URL's "
    "host where empty.",
)
@options.image_option
@click.option("--take-over", is_flag=True, help="Install although Kueue's webhooks are there.")
@click.option(
    "--bypass-guard/--no-bypass-guard",
    default=True,
    show_default=True,
    help="Policies in the API server against ways to GPUs around quota; namespaces choose by the "
    f"label {names.BYPASS_LABEL}: deny, warn (default) or audit.",
)
@click.option(
    "--visibility/--no-visibility",
    default=False,
    show_default=True,
    help=f"Serve who waits in a queue as {names.VISIBILITY_GROUP} through the API server, as "
    "kueuectl expects. While the controller cannot be reached, no namespace can be deleted. With "
    "--webhook-url the controller is expected on the same host, at the file's "
    "visibilityServer.bindPort (8082).",
)
@click.option(
    "--older-versions/--no-older-versions",
    default=True,
    show_default=True,
    help="Serve v1beta1 of every kind. Without it the API server saves a conversion for each "
    "write of a Workload.",
)
@output.output_option
def install(
    kubeconfig: str | None,
    config_file: Path | None,
    webhook_url: str,
    cert_dir: Path,
    image: str,
    take_over: bool,
    bypass_guard: bool,
    visibility: bool,
    older_versions: bool,
    form: str,
) -> None:
    """Put everything into a cluster: CRDs, roles, webhook and controller.

    Applied server-side; a second time changes nothing. Shows what changed. The webhook's
    certificate is made, and renewed when it is due, in the Secret gpu-admission-webhook-tls; one
    that cert-manager or somebody else has put there is used as it is.
    """
    plan = installation.Plan(
        webhook_url=webhook_url,
        certificates=cert_dir,
        image=image,
        take_over=take_over,
        bypass_guard=bypass_guard,
        visibility=visibility,
        older_versions=older_versions,
    )
    with output.reported(options.CONFIG_ADVICE):
        settings = configuration.load_logged(config_file)
    with output.reported(_ADVICE):
        api = connection.Target(kubeconfig).connect(
            connections=1, timeout_seconds=_TIMEOUT_SECONDS
        )
        with closing(api):
            changes = installation.install(api, plan, settings, SystemClock(), time.sleep)
            _show(changes, form)


@click.command(
    epilog="""\b
Examples:
  gpu-admission uninstall --kubeconfig kubeconfig
  gpu-admission uninstall --release-pods
"""
)
@output.kubeconfig_option
@options.config_option
@click.option(
    "--release-pods",
    is_flag=True,
    help="Also take the scheduling gate off pods that still wait; otherwise they stay pending.",
)
@output.output_option
def uninstall(
    kubeconfig: str | None, config_file: Path | None, release_pods: bool, form: str
) -> None:
    """Take everything out of a cluster again, webhook configurations first.

    Deletes the CRDs and with them all queues and Workloads. Running pods run on. Takes the
    configuration file of the installation, if there was one.
    """
    with output.reported(options.CONFIG_ADVICE):
        settings = configuration.load_logged(config_file)
    with output.reported(_ADVICE):
        api = connection.Target(kubeconfig).connect(
            connections=1, timeout_seconds=_TIMEOUT_SECONDS
        )
        with closing(api):
            changes = installation.uninstall(
                api, settings, SystemClock(), time.sleep, release_pods=release_pods
            )
            _show(changes, form)
            waiting = len(installation.gated_pods(api))
    if waiting:
        click.echo(
            f"warning: {waiting} pod(s) still carry the scheduling gate and stay pending; "
            "run again with --release-pods, or delete them",
            err=True,
        )


def _show(changes: Iterable[Applied], form: str) -> None:
    """Each change as it happens, then the sum; as JSON all at once."""
    if form == "json":
        output.print_json([asdict(change) | {"effect": change.effect.value} for change in changes])
        return
    counts: Counter[Effect] = Counter()
    for change in changes:
        counts[change.effect] += 1
        where = f" -n {change.namespace}" if change.namespace else ""
        mark = _MARKS[change.effect]
        output.console.print(
            f"{change.kind}/{change.name}{where} [{mark}]{change.effect.value}[/{mark}]"
        )
    total = ", ".join(f"{counts[effect]} {effect.value}" for effect in Effect if counts[effect])
    output.console.print(f"done: {total}")
