"""Command ``gpu-admission``: install, serve, look, try out."""

from typing import Final

import click

from admission.cli import kubectl
from admission.cli.lazy import Lazy, LazyGroup

COMMANDS: Final = {
    **kubectl.COMMANDS,
    "break-glass": Lazy(
        "admission.cli.break_glass:break_glass",
        "Let pods run without quota in an emergency, and come back.",
    ),
    "completion": Lazy(
        "admission.cli.completion:completion",
        "Print a script that completes these commands in a shell.",
    ),
    "config": Lazy(
        "admission.cli.config:config",
        "Check a configuration file, or show the effective configuration.",
    ),
    "controller": Lazy(
        "admission.cli.serve:controller", "Run the controller: it grants quota and releases pods."
    ),
    "demo": Lazy(
        "admission.cli.demo:demo",
        "Show GPU pods being admitted, rewritten, made to wait, refused, and released.",
    ),
    "doctor": Lazy(
        "admission.cli.doctor:doctor",
        "Find problems of gpu-admission in a cluster, and say how to fix them.",
    ),
    "gpu": Lazy(
        "admission.cli.gpu:gpu",
        "Show MIG profiles, and check GPU configurations.",
    ),
    "init": Lazy(
        "admission.cli.init:init",
        "Propose flavors and queues that fit the nodes of the cluster.",
    ),
    "install": Lazy(
        "admission.cli.install:install",
        "Install gpu-admission in a cluster: CRDs, roles, webhook and controller.",
    ),
    "manifests": Lazy(
        "admission.cli.manifests:manifests_command",
        "Print or write the manifests of an installation.",
    ),
    "migrate": Lazy(
        "admission.cli.migrate:migrate",
        "Move from Kueue or ResourceQuotas, and keep what runs and waits.",
    ),
    "must-gather": Lazy(
        "admission.cli.doctor:must_gather",
        "Collect data for a support request in one file, without secrets.",
    ),
    "owners": Lazy(
        "admission.cli.owners_check:owners",
        "Check configured owner kinds against sample objects.",
    ),
    "run": Lazy(
        "admission.cli.serve:run", "Run webhook and controller as two supervised processes."
    ),
    "stops": Lazy(
        "admission.cli.stops:stops",
        "Show pods and Jobs that are to be stopped, but whose stop is held back.",
    ),
    "uninstall": Lazy(
        "admission.cli.install:uninstall",
        "Remove gpu-admission from a cluster, webhook configurations first.",
    ),
    "webhook": Lazy(
        "admission.cli.serve:webhook",
        "Run the webhook: it answers the reviews of the API server over TLS.",
    ),
}


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  gpu-admission demo
  gpu-admission install --kubeconfig ~/.kube/config --webhook-url https://127.0.0.1:9443
  gpu-admission run --kubeconfig ~/.kube/config --cert-dir ./webhook-certs
""",
)
@click.version_option(package_name="gpu-admission", prog_name="gpu-admission")
@click.pass_context
def main(context: click.Context) -> None:
    """Quota and admission for GPU pods on Kubernetes.

    Holds GPU pods until quota is reserved for them, then releases them with the node selector,
    tolerations and GPU resource names of their flavor. Uses Kueue's API.
    """
    if context.invoked_subcommand in kubectl.COMMANDS:
        return  # they log nothing, and the import is slow
    from admission.base import logs  # noqa: PLC0415 - --help and --version need no logs

    logs.configure(human=True)
