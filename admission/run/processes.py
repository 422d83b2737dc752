"""The controller's process from start to signal."""

from pathlib import Path
from typing import Final

from admission.base import logs, metrics
from admission.base.clock import SystemClock
from admission.config.addresses import Address
from admission.config.derived import Settings
from admission.controller import watched
from admission.owners import integrations
from admission.run import signals
from admission.run.connection import ApiServerTarget
from admission.run.controller import ControllerThread
from admission.run.dashboard import DashboardServer
from admission.run.leading import Alone, Elected
from admission.run.visibility import VisibilityApiServer
from certs.files import CertificateFiles

_CHECK_SECONDS: Final = 1.0
_OTHER_CONNECTIONS: Final = 9
"""Lease and its watch, lists of others' pods, who asks for pending workloads or the dashboard,
records of GPU-time, certificates, labels of namespaces."""


def run_controller(
    target: ApiServerTarget,
    address: Address | None,
    settings: Settings,
    *,
    leader_election: bool,
    visibility: Address | None = None,
    certificates: Path | None = None,
    dashboard: Address | None = None,
) -> None:
    """Run a controller until SIGTERM or SIGINT, or until its core thread ends.

    Args:
        target: its API server.
        address: where health, readiness and metrics are served, beside where the settings say
            for health.
        settings: what the installation chose.
        leader_election: whether to wait for the Lease.
        visibility: where pending workloads are served; None for nowhere.
        certificates: directory of the webhook's serving certificate, which lists of pending
            workloads and secure metrics are served with, too; the leader renews it where the
            webhook runs outside the cluster.
        dashboard: where the dashboard is served; None for nowhere.

    Raises:
        KubeError: the API server cannot be reached at all with this configuration.
        OSError: the address cannot be bound.
        SystemExit: the core thread has ended; the supervisor starts a new process.
    """
    logs.take_in_others()
    log = logs.get("process")
    stopping = signals.stop_event()
    api = target.connect(
        connections=(
            settings.gpu.controller.writers
            + len(watched.WATCHED)
            + len(watched.OPTIONAL)
            + len(watched.rows(integrations.kinds_of(settings)))
            + _OTHER_CONNECTIONS
        ),
        timeout_seconds=settings.gpu.controller.request_timeout.total_seconds(),
        silence_seconds=settings.gpu.controller.watch_silence.total_seconds(),
    )
    clock = SystemClock()
    leadership = Elected(api, settings, clock) if leader_election else Alone()
    controller = ControllerThread(api, settings, clock, leadership, certificates)
    serves: dict[str, list[str]] = {}
    for served in _addresses(address, settings):
        port = controller.serve_pages(served, _of_metrics(certificates, settings))
        serves.setdefault("pages", []).append(Address(host=served.host, port=port).text())
    lists = VisibilityApiServer(controller.ask, api, clock, settings.namespace)
    if visibility is not None and certificates is not None:
        port = lists.start(visibility, certificates)
        serves["visibility"] = [Address(host=visibility.host, port=port).text()]
    board = None
    if dashboard is not None:
        board = DashboardServer(
            controller.ask,
            api,
            clock,
            dashboard,
            certificates,
            settings.gpu.catalogue(),
            settings.namespace,
        )
        serves["dashboard"] = [Address(host=dashboard.host, port=board.port).text()]
    log.info(
        "started",
        process="controller",
        version=metrics.version(),
        api_server=target.place(),
        addresses=serves,
        leader_election=leader_election,
        namespace=settings.namespace,
    )
    controller.start()
    problem = ""
    while not stopping.wait(_CHECK_SECONDS) and not problem:
        problem = controller.problem()
    controller.stop()  # first: a successor waits for the Lease
    lists.stop()
    if board is not None:
        board.stop()
    api.close()
    if problem:
        log.error("process ends, to be started again", problem=problem)
        raise SystemExit(1)
    log.info("controller stopped")


def _of_metrics(directory: Path | None, settings: Settings) -> CertificateFiles | None:
    if directory is None or not settings.gpu.controller.secure_metrics:
        return None
    return CertificateFiles.of(directory)


def _addresses(address: Address | None, settings: Settings) -> list[Address]:
    return [address for address in (address, settings.kueue.health.address) if address is not None]
