"""Commands that serve: ``webhook``, ``controller``, and ``run`` for both."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
from typing_extensions import override

from admission.base import logs
from admission.base.errors import AdmissionError, InvalidValueError
from admission.cli import options, output
from admission.config import reading
from admission.config.addresses import LOOPBACK, Address
from admission.config.derived import Settings
from admission.config.gpu_configuration import PAUSED
from admission.run import (
    addresses,
    connection,
    processes,
    supervisor,
    webhook_process,
)


class AddressType(click.ParamType[Address]):
    """``127.0.0.1:9443``, ``[::1]:9443``, or ``:9443`` for all interfaces; port 0 = a free one."""

    name = "HOST:PORT"

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Address:
        if isinstance(value, Address):
            return value
        try:
            return Address.parse(str(value))
        except InvalidValueError:
            self.fail(f"{value!r} is not HOST:PORT, such as 127.0.0.1:9443", param, ctx)


ADDRESS = AddressType()


_LEVEL: Final = "info"
"""The level of the log where nobody has chosen one."""


@contextmanager
def _reported(advice: str = "") -> Iterator[None]:
    """Log why a process cannot start, as one line like all others, and end it with exit code 1.

    Args:
        advice: what to do next where the error itself suggests nothing better.
    """
    try:
        yield
    except (AdmissionError, OSError) as error:
        step = output.advice_on(error) or advice
        logs.get("process").error("cannot start", error=str(error), next=step)
        sys.exit(output.FAILED)


_UNREACHABLE: Final = "check --kubeconfig, and that the API server answers: kubectl version"

_log_level: Final[Callable[[Any], Any]] = click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Lowest level of the log lines that are written. Default: the file's logLevel, or info.",
)
_bind: Final[Callable[[Any], Any]] = click.option(
    "--bind",
    type=ADDRESS,
    help="Where the webhook listens (TLS). Default: the file's webhook.host and port, or :9443.",
)
_cert_dir: Final[Callable[[Any], Any]] = click.option(
    "--cert-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the serving certificate; if it is empty, a certificate is created in it. "
    "Default: the file's webhook.certDir.",
)
_client_ca: Final[Callable[[Any], Any]] = click.option(
    "--client-ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="PEM file of CAs: the webhook answers only clients with a certificate that one of them "
    "signed. Default: the file's webhook.clientAuthority, or all clients.",
)
_health_bind: Final[Callable[[Any], Any]] = click.option(
    "--health-bind",
    type=ADDRESS,
    help="Where the webhook also serves /healthz and /readyz without TLS. Default: the file's "
    "webhook.healthProbeBindAddress, or nowhere.",
)
_metrics_bind: Final[Callable[[Any], Any]] = click.option(
    "--metrics-bind",
    type=ADDRESS,
    help="Where the controller serves /healthz, /readyz and /metrics. Default: the file's "
    "metrics.bindAddress, or 127.0.0.1:8080.",
)
_visibility_bind: Final[Callable[[Any], Any]] = click.option(
    "--visibility-bind",
    type=ADDRESS,
    help="Where the controller serves pending workloads to the API server (TLS, with the "
    "certificate in --cert-dir). Default: the file's visibilityServer, or nowhere.",
)
_dashboard_bind: Final[Callable[[Any], Any]] = click.option(
    "--dashboard-bind",
    type=ADDRESS,
    help="Where the controller serves the dashboard; with TLS, except on a loopback address. "
    "Default: the file's dashboardBindAddress, or nowhere.",
)
_leader: Final[Callable[[Any], Any]] = click.option(
    "--leader-election/--no-leader-election",
    default=None,
    help="Decide only while holding the Lease, so that several controllers can run. Default: the "
    "file's leaderElection.leaderElect, or true.",
)

_pause: Final[Callable[[Any], Any]] = click.option(
    "--pause-admission",
    is_flag=True,
    help="Grant no quota. Statuses are still updated, due evictions still happen, and admitted "
    "pods are still released. Waiting pods say that admission is paused. Default: only if the "
    "file says admission: Paused.",
)


@click.command(
    epilog="""\b
Example:
  gpu-admission webhook --kubeconfig kubeconfig --bind 127.0.0.1:9443 --cert-dir ./certs
"""
)
@output.kubeconfig_option
@options.config_option
@_bind
@_cert_dir
@_client_ca
@_health_bind
@_log_level
def webhook(
    kubeconfig: str | None,
    config_file: Path | None,
    bind: Address | None,
    cert_dir: Path | None,
    client_ca: Path | None,
    health_bind: Address | None,
    log_level: str | None,
) -> None:
    """Run the webhook: it answers the reviews of the API server over TLS.

    /healthz, /readyz and /metrics are on the same port. On SIGTERM and SIGINT it answers the
    reviews that have arrived, and stops.
    """
    settings = _settings(config_file, log_level)
    directory = cert_dir or _certificates(settings)
    address = bind or settings.kueue.webhook.address
    if client_ca or health_bind:
        settings = _with_webhook(settings, client_ca, health_bind)
    with _reported(_UNREACHABLE):
        health = settings.gpu.webhook.health_address
        addresses.check_free({"--bind": address, "--health-bind": health})
        webhook_process.serve(
            connection.ApiServerTarget(kubeconfig),
            address,
            directory,
            settings,
            _level(log_level, settings),
        )


@click.command(
    epilog="""\b
Example:
  gpu-admission controller --kubeconfig kubeconfig --metrics-bind 127.0.0.1:8080
"""
)
@output.kubeconfig_option
@options.config_option
@_metrics_bind
@_visibility_bind
@_dashboard_bind
@_cert_dir
@_leader
@_pause
@_log_level
def controller(
    kubeconfig: str | None,
    config_file: Path | None,
    metrics_bind: Address | None,
    visibility_bind: Address | None,
    dashboard_bind: Address | None,
    cert_dir: Path | None,
    leader_election: bool | None,
    pause_admission: bool,
    log_level: str | None,
) -> None:
    """Run the controller: it grants quota and releases pods.

    Stops on SIGTERM and SIGINT. Nothing is lost: unwritten decisions are made again.
    """
    settings = _settings(config_file, log_level)
    if pause_admission:
        paused = settings.gpu.model_copy(update={"admission": PAUSED})
        settings = settings.model_copy(update={"gpu": paused})
    elect = (
        settings.kueue.leader_election.leader_elect if leader_election is None else leader_election
    )
    visibility = visibility_bind or settings.kueue.visibility_address
    dashboard = dashboard_bind or settings.gpu.dashboard_address
    is_outside = dashboard is not None and dashboard.host not in LOOPBACK
    needs_certificate = visibility or is_outside or settings.gpu.controller.secure_metrics
    directory = cert_dir or _optional_certificates(settings)
    if needs_certificate and directory is None:
        directory = _certificates(settings)
    pages = metrics_bind or settings.kueue.metrics.address
    with _reported(_UNREACHABLE):
        addresses.check_free(_controller_addresses(pages, visibility, dashboard, settings))
        processes.run_controller(
            connection.ApiServerTarget(kubeconfig),
            pages,
            settings,
            leader_election=elect,
            visibility=visibility,
            certificates=directory,
            dashboard=dashboard,
        )


@click.command(
    epilog="""\b
Example:
  gpu-admission run --kubeconfig kubeconfig --bind 127.0.0.1:9443 --cert-dir ./certs \\
      --metrics-bind 127.0.0.1:8080 --no-leader-election
"""
)
@output.kubeconfig_option
@options.config_option
@_bind
@_cert_dir
@_client_ca
@_health_bind
@_metrics_bind
@_visibility_bind
@_dashboard_bind
@_leader
@_pause
@_log_level
def run(
    kubeconfig: str | None,
    config_file: Path | None,
    bind: Address | None,
    cert_dir: Path | None,
    client_ca: Path | None,
    health_bind: Address | None,
    metrics_bind: Address | None,
    visibility_bind: Address | None,
    dashboard_bind: Address | None,
    leader_election: bool | None,
    pause_admission: bool,
    log_level: str | None,
) -> None:
    """Run webhook and controller as two supervised processes.

    Restarts a process that ends, after growing pauses. Stops both on SIGTERM and SIGINT.
    """
    logs.configure(log_level or _LEVEL)
    with _reported(options.CONFIG_ADVICE):
        settings = reading.load(config_file).settings
    logs.configure(_level(log_level, settings))
    common = _arguments(kubeconfig=kubeconfig, config=config_file, log_level=log_level)
    directory = cert_dir or _certificates(settings)
    elect = {True: ["--leader-election"], False: ["--no-leader-election"], None: []}
    pages = _arguments(
        metrics_bind=metrics_bind and metrics_bind.text(),
        visibility_bind=visibility_bind and visibility_bind.text(),
        dashboard_bind=dashboard_bind and dashboard_bind.text(),
        cert_dir=directory,
    )
    reviews = _arguments(
        bind=bind and bind.text(),
        cert_dir=directory,
        client_ca=client_ca,
        health_bind=health_bind and health_bind.text(),
    )
    commands = {
        "webhook": ["webhook", *reviews, *common],
        "controller": [
            "controller", *pages, *elect[leader_election],
            *(["--pause-admission"] if pause_admission else []), *common,
        ],
    }  # fmt: skip
    served = bind or settings.kueue.webhook.address
    shown = metrics_bind or settings.kueue.metrics.address
    lists = visibility_bind or settings.kueue.visibility_address
    dashboard = dashboard_bind or settings.gpu.dashboard_address
    with _reported():
        connection.ApiServerTarget(kubeconfig).check()
        addresses.check_free(
            {
                "--bind": served,
                "--health-bind": health_bind or settings.gpu.webhook.health_address,
                **_controller_addresses(shown, lists, dashboard, settings),
            }
        )
        supervisor.Supervisor(commands).run()


def _with_webhook(
    settings: Settings, client_ca: Path | None, health_bind: Address | None
) -> Settings:
    changes: dict[str, object] = {}
    if client_ca:
        changes["client_authority"] = str(client_ca)
    if health_bind:
        changes["health_probe_bind_address"] = health_bind.text()
    webhook = settings.gpu.webhook.model_copy(update=changes)
    return settings.model_copy(
        update={"gpu": settings.gpu.model_copy(update={"webhook": webhook})}
    )


def _controller_addresses(
    pages: Address | None,
    visibility: Address | None,
    dashboard: Address | None,
    settings: Settings,
) -> dict[str, Address | None]:
    """Where the controller listens, by the option or field that says so."""
    return {
        "--metrics-bind": pages,
        "health.healthProbeBindAddress": settings.kueue.health.address,
        "--visibility-bind": visibility,
        "--dashboard-bind": dashboard,
    }


def _settings(config_file: Path | None, log_level: str | None) -> Settings:
    """Return the settings of the file, and set up the log as it or the option says."""
    logs.configure(log_level or _LEVEL)
    with _reported(options.CONFIG_ADVICE):
        effective = reading.load(config_file)
    logs.configure(_level(log_level, effective.settings))
    reading.log_unused(effective, config_file)
    return effective.settings


def _level(log_level: str | None, settings: Settings) -> str:
    return log_level or settings.gpu.log_level or _LEVEL


def _certificates(settings: Settings) -> Path:
    """The directory that the file names."""
    if not settings.kueue.webhook.cert_dir:
        raise click.UsageError(
            "Missing option '--cert-dir', or webhook.certDir in the file of --config."
        )
    return Path(settings.kueue.webhook.cert_dir)


def _optional_certificates(settings: Settings) -> Path | None:
    return Path(settings.kueue.webhook.cert_dir) if settings.kueue.webhook.cert_dir else None


def _arguments(**values: object) -> list[str]:
    """Options for a command of this program; those without a value are left out."""
    return [
        text
        for name, value in values.items()
        if value
        for text in (f"--{name.replace('_', '-')}", str(value))
    ]
