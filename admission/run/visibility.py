"""Serves pending workloads and GPU-time to API servers, over TLS, beside the controller.

A standby serves, too: it follows the same objects and so keeps the same lines. Only who is tried
first because its victims are leaving is known to the leader alone.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
from typing_extensions import override

from admission.base import logs
from admission.base.clock import Clock
from admission.base.periodic_thread import PeriodicThread
from admission.config.addresses import Address
from admission.kube import resources
from admission.kube.api import Api
from admission.kube.errors import KubeError
from admission.run.contexts import ContextCache
from admission.run.coresource import AskCore, CoreSource
from admission.run.pages import BoundedServer, QuietHandler
from admission.serve import callers, visibility
from admission.serve.callers import FrontProxy
from admission.serve.usage_records import UsageRecords
from certs.files import CertificateFiles

MOST_AT_ONCE: Final = 256
"""Connections at once; for a further one the oldest is closed."""
_FOLLOW_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 5.0
_log = logs.get("visibility")


class FrontProxies:
    """Follows how the API server makes itself known; asks for it from time to time."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._current: FrontProxy | None = None
        self._problem = ""
        self._rounds = PeriodicThread("front-proxy", self._round, self._failed)

    @property
    def current(self) -> FrontProxy | None:
        """Return what was last read; None before, and where it passes no requests on."""
        return self._current

    def authority(self) -> str:
        """Return the PEM text of who signs its client certificate; empty if unknown."""
        return "" if self._current is None else self._current.authority

    def start(self) -> None:
        """Read in a thread of its own."""
        self._rounds.start()

    def stop(self) -> None:
        """Stop reading."""
        self._rounds.stop()

    def read(self) -> bool:
        """Read once; return false where it could not be read. What was known stays then."""
        name, namespace = callers.CONFIG_MAP, callers.CONFIG_MAP_NAMESPACE
        try:
            config_map = self._api.get(resources.CONFIG_MAPS, name, namespace)
            self._current = FrontProxy.of(config_map.get("data") or {})
        except (KubeError, msgspec.DecodeError) as error:
            self._tell(str(error))
            return False
        self._tell("" if self._current else "the API server passes no requests on")
        return True

    def _tell(self, problem: str) -> None:
        """Logs a problem that is new."""
        if problem and problem != self._problem:
            place = f"{callers.CONFIG_MAP_NAMESPACE}/{callers.CONFIG_MAP}"
            _log.warning("front proxy unknown", config_map=place, error=problem)
        self._problem = problem

    def _round(self) -> float:
        return _FOLLOW_SECONDS if self.read() else _RETRY_SECONDS

    def _failed(self, error: Exception) -> float:
        _log.error("front proxy unknown", exc_info=error)
        return _FOLLOW_SECONDS


class VisibilityApiServer:
    """The visibility API on one address."""

    def __init__(self, ask: AskCore, api: Api, clock: Clock, namespace: str) -> None:
        """Serves nothing yet.

        Args:
            ask: has the controller's core answer.
            api: says who may ask, and has the records of GPU-time.
            clock: clock for the time that answers are cached.
            namespace: of the program.
        """
        self.proxies = FrontProxies(api)
        self._app = visibility.create_app(
            CoreSource(ask),
            UsageRecords(api, namespace),
            api,
            clock,
            lambda: self.proxies.current,
        )
        self._server: BoundedServer | None = None

    def start(self, address: Address, directory: Path) -> int:
        """Serve, from when the directory holds a certificate; return the port.

        Raises:
            OSError: the address cannot be bound.
        """
        contexts = ContextCache(CertificateFiles.of(directory), self.proxies.authority)
        self._server = BoundedServer(
            (address.host, address.port), self._app, contexts.current, _Handler,
            most_at_once=MOST_AT_ONCE,
        )  # fmt: skip
        self.proxies.start()
        self._server.serve("visibility")
        return self._server.server_port

    def stop(self) -> None:
        """Free the port; requests that are being answered end with the process."""
        self.proxies.stop()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


class _Handler(QuietHandler):
    @override
    def get_environ(self) -> dict[str, Any]:
        environ: dict[str, Any] = super().get_environ()
        environ[visibility.PEER] = _common_name(self.connection)
        environ[visibility.HEADERS] = tuple(self.headers.items())
        return environ


def _common_name(connection: Any) -> str | None:
    """Of the client's certificate, which was verified; None without one."""
    certificate = connection.getpeercert() or {}
    subject: Iterable[Iterable[tuple[str, str]]] = certificate.get("subject", ())
    common_names = [value for part in subject for key, value in part if key == "commonName"]
    return common_names[-1] if common_names else None
