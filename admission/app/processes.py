"""The controller's process from start to signal."""

from typing import Final

from admission.app import signals
from admission.app.connection import Target
from admission.app.controller import Address, Controller
from admission.app.leading import Alone, Elected
from admission.base.clock import SystemClock
from admission.controllers import core
from admission.obs import logs
from admission.settings import Settings

_CHECK_SECONDS: Final = 1.0


def run_controller(
    target: Target, address: Address | None, settings: Settings, *, leader_election: bool
) -> None:
    """Runs a controller until SIGTERM or SIGINT, or until its core thread ends.

    Health, readiness and metrics are served at the address, and where the settings say for health.

    Raises:
        KubeError: the API server cannot be reached at all with this configuration.
        OSError: the address cannot be bound.
        SystemExit: the core thread has ended; the supervisor starts a new process.
    """
    log = logs.get("process")
    stopping = signals.stop_event()
    api = target.connect(
        connections=settings.controller.writers + len(core.WATCHED) + len(core.OPTIONAL) + 1,
        timeout_seconds=settings.controller.request_timeout_seconds,
        silence_seconds=settings.controller.watch_silence_seconds,
    )
    clock = SystemClock()
    leadership = Elected(api, settings, clock) if leader_election else Alone()
    controller = Controller(api, settings, clock, leadership)
    for served in _addresses(address, settings):
        port = controller.serve_pages(served)
        log.info("controller serves", host=served.host, port=port, election=leader_election)
    controller.start()
    problem = ""
    while not stopping.wait(_CHECK_SECONDS) and not problem:
        problem = controller.problem()
    controller.stop()
    api.close()
    if problem:
        raise SystemExit(problem)
    log.info("controller stopped")


def _addresses(address: Address | None, settings: Settings) -> list[Address]:
    health = settings.controller.health_address
    found = [address, None if health is None else Address(health.host, health.port)]
    return [one for one in found if one is not None]
