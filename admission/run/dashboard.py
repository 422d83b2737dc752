"""Serves the dashboard beside the controller, from copies of what the core knows."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from typing_extensions import override

from admission.base.clock import Clock
from admission.config.addresses import LOOPBACK, Address
from admission.gpu.catalogue import Catalogue
from admission.kube.api import Api
from admission.run.contexts import ContextCache
from admission.run.coresource import AskCore, CoreSource
from admission.run.pages import BoundedServer, QuietHandler
from admission.scheduling.overview import Overview
from admission.visibility.dashboard import app, streams
from certs.files import CertificateFiles

MOST_AT_ONCE: Final = 64
"""Connections at once; for a further one the oldest is closed."""
_FRESH_SECONDS: Final = 1.0
_REST_SECONDS: Final = 30.0
"""That a connection may last longer than a stream."""

Found = TypeVar("Found")


class _Latest(Generic[Found]):
    """A copy that all who look share for a second."""

    def __init__(self, take: Callable[[], Found], clock: Clock) -> None:
        self._take = take
        self._clock = clock
        self._guard = threading.Lock()
        self._found: tuple[float, Found] | None = None

    def get(self) -> Found:
        with self._guard:
            now = self._clock.monotonic()
            if self._found is None or now >= self._found[0] + _FRESH_SECONDS:
                self._found = (now, self._take())
            return self._found[1]


class SharedSource(CoreSource):
    """What `admission.visibility.dashboard.app.Source` promises, shared by all for a second."""

    def __init__(self, ask: AskCore, clock: Clock) -> None:
        super().__init__(ask)
        self._overview = _Latest(super().overview, clock)
        self._revision = _Latest(super().revision, clock)

    @override
    def revision(self) -> int:
        return self._revision.get()

    @override
    def overview(self) -> Overview:
        return self._overview.get()


class DashboardServer:
    """The dashboard on one address; started by the constructor."""

    def __init__(
        self,
        ask: AskCore,
        api: Api,
        clock: Clock,
        address: Address,
        directory: Path | None,
        catalogue: Catalogue,
    ) -> None:
        """Binds and serves: with TLS, unless only this machine or pod reaches the address.

        Args:
            ask: has the controller's core answer.
            api: says who callers are, and what they may.
            clock: clock for the time that answers are cached.
            address: where to listen.
            directory: directory of the certificate; needed unless the address is loopback.
            catalogue: of GPU products.

        Raises:
            OSError: the address cannot be bound.
        """
        self._ending = threading.Event()
        context = None
        if address.host not in LOOPBACK:
            assert directory is not None
            context = ContextCache(CertificateFiles.of(directory)).current
        made = app.create_app(
            SharedSource(ask, clock), api, clock, catalogue, self._ending.wait,
            is_secure=context is not None,
        )  # fmt: skip
        self._server = BoundedServer(
            (address.host, address.port),
            made,
            context,
            QuietHandler,
            most_at_once=MOST_AT_ONCE,
            most_seconds=streams.MOST_SECONDS + _REST_SECONDS,
        )
        self.port = self._server.server_port
        self._server.serve("dashboard")

    def stop(self) -> None:
        """Free the port; requests that are being answered end with the process."""
        self._ending.set()
        self._server.shutdown()
        self._server.server_close()
