"""Options of the commands that install."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from admission.admin import manifests, modes
from admission.base import names
from admission.config.gpu_configuration import HOLD, REFUSE

image_option: Final[Callable[[Any], Any]] = click.option(
    "--image",
    help="Image of the webhook's and the controller's pods. Default: as installed before, else "
    f"{manifests.DEFAULT_IMAGE}.",
)

mode_option: Final[Callable[[Any], Any]] = click.option(
    "--mode",
    type=click.Choice(list(modes.MODES)),
    help="The mode of namespaces whose labels set none. "
    + " ".join(f"{name}: {meaning}." for name, meaning in modes.MODES.items())
    + f" Default: as the file says, else as installed before, else {modes.DEFAULT} (asked on a "
    "terminal).",
)

WHILE_DOWN: Final = {"refuse": REFUSE, "hold": HOLD}
"""Each choice of --while-webhook-down, as a configuration file has it."""

DASHBOARD_ADDRESS: Final = "127.0.0.1:8083"
"""Where the controller serves the dashboard if nobody says another address."""

while_down_option: Final[Callable[[Any], Any]] = click.option(
    "--while-webhook-down",
    "while_down",
    type=click.Choice(list(WHILE_DOWN)),
    help="If the webhook is down: refuse or hold new GPU pods, and Jobs with a queue. "
    "refuse: they are not created. hold: the API server creates them, and they wait until the "
    "controller sees them; needs MutatingAdmissionPolicies (Kubernetes 1.36). Default: as the "
    "file says, else as installed before, else refuse.",
)

fair_sharing_option: Final[Callable[[Any], Any]] = click.option(
    "--fair-sharing/--no-fair-sharing",
    default=None,
    help="Share quota that others do not use evenly between queues, by the weight of each. "
    "Default: as the file says; without --config as installed before. Where neither says "
    "anything, whoever asks first borrows it.",
)

dashboard_option: Final[Callable[[Any], Any]] = click.option(
    "--dashboard/--no-dashboard",
    default=None,
    help=f"Serve the dashboard in the controller's pods, at {DASHBOARD_ADDRESS}, for kubectl "
    "port-forward. Default: as the file says; without --config as installed before.",
)

webhook_url_option: Final[Callable[[Any], Any]] = click.option(
    "--webhook-url",
    default="",
    metavar="https://HOST:PORT",
    help="Point the webhook configurations to a webhook outside the cluster, and run nothing "
    "inside.",
)

cert_dir_option: Final[Callable[[Any], Any]] = click.option(
    "--cert-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default="gpu-admission-certs",
    show_default=True,
    help="With --webhook-url: directory of the CA and serving certificate. If it is empty, both "
    "are created for the URL's host.",
)

visibility_option: Final[Callable[[Any], Any]] = click.option(
    "--visibility/--no-visibility",
    default=None,
    help=f"Serve the pending workloads of each queue as {names.VISIBILITY_GROUP} through the API "
    "server, as kueuectl expects, and to members the GPU-time of their namespace. While the "
    "controller cannot be reached, no namespace can be deleted. With --webhook-url the API "
    "server looks for the controller on the same host, at the file's "
    "visibilityServer.bindPort (8082). Default: as installed before, else not.",
)
