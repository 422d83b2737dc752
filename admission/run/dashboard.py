"""Serves the dashboard beside the controller, from copies of what the core knows."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Generic, TypeVar

from typing_extensions import override

from admission.answers import usage
from admission.base.clock import Clock
from admission.base.names import ClusterQueueName
from admission.config.addresses import LOOPBACK, Address
from admission.gpu.catalogue import Catalogue
from admission.gpu.inventory import NodeStock
from admission.kube.api import Api
from admission.objects.usage_record import Record
from admission.run.contexts import ContextCache
from admission.run.coresource import AskCore, CoreSource
from admission.run.pages import BoundedServer, QuietHandler
from admission.scheduling.overview import LocalOverview, Overview
from admission.scheduling.pending import PendingSnapshot
from admission.serve.dashboard import app, streams
from certs.files import CertificateFiles

MOST_AT_ONCE: Final = 64
"""Connections at once; for a further one the oldest is closed."""
_FRESH_SECONDS: Final = 1.0
_RECORDS_SECONDS: Final = 60.0
_REST_SECONDS: Final = 30.0
"""That a connection may last longer than a stream."""

Found = TypeVar("Found")
Records = tuple[Record, ...]


class _Latest(Generic[Found]):
    """A copy that all who look share for a second, or as long as is said."""

    def __init__(
        self, take: Callable[[], Found], clock: Clock, seconds: float = _FRESH_SECONDS
    ) -> None:
        self._take = take
        self._clock = clock
        self._seconds = seconds
        self._guard = threading.Lock()
        self._found: tuple[float, Found] | None = None

    def get(self) -> Found:
        with self._guard:
            now = self._clock.monotonic()
            if self._found is None or now >= self._found[0] + self._seconds:
                self._found = (now, self._take())
            return self._found[1]


class SharedSource(CoreSource):
    """What `admission.serve.dashboard.app.Source` promises, shared by all for a second."""

    def __init__(self, ask: AskCore, clock: Clock, records: Callable[[], Records]) -> None:
        """Asks for nothing yet.

        Args:
            ask: has the controller's core answer.
            clock: clock for the time that answers are shared.
            records: reads the records of GPU-time from the API server.
        """
        super().__init__(ask)
        self._overview = _Latest(super().overview, clock)
        self._revision = _Latest(super().revision, clock)
        self._stock = _Latest(super().stock, clock)
        self._local_queues = _Latest(super().local_queues, clock)
        self._records = _Latest(records, clock, _RECORDS_SECONDS)
        self._pending = _Latest(self._all_lines, clock)

    @override
    def revision(self) -> int:
        return self._revision.get()

    @override
    def overview(self) -> Overview:
        return self._overview.get()

    @override
    def stock(self) -> tuple[NodeStock, ...]:
        return self._stock.get()

    @override
    def local_queues(self) -> tuple[LocalOverview, ...]:
        return self._local_queues.get()

    def pending(self) -> Mapping[ClusterQueueName, PendingSnapshot]:
        """Return who waits, by ClusterQueue; those where nobody waits are left out."""
        return self._pending.get()

    def records(self) -> Records:
        """Return the records of GPU-time in the order of time."""
        return self._records.get()

    def _all_lines(self) -> Mapping[ClusterQueueName, PendingSnapshot]:
        names = tuple(queue.name for queue in self.overview().queues if queue.pending)
        lines = zip(names, self.lines(names), strict=True)
        return {name: line for name, line in lines if line is not None and line.members}


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
        namespace: str,
    ) -> None:
        """Binds and serves: with TLS, unless only this machine or pod reaches the address.

        Args:
            ask: has the controller's core answer.
            api: says who callers are, and what they may.
            clock: clock for the time that answers are cached.
            address: where to listen.
            directory: directory of the certificate; needed unless the address is loopback.
            catalogue: of GPU products.
            namespace: that holds the records of GPU-time.

        Raises:
            OSError: the address cannot be bound.
        """
        self._ending = threading.Event()
        context = None
        if address.host not in LOOPBACK:
            assert directory is not None
            context = ContextCache(CertificateFiles.of(directory)).current
        flask_app = app.create_app(
            SharedSource(ask, clock, lambda: usage.read(api, namespace)[0]), api, clock, catalogue,
            self._ending.wait, namespace=namespace, is_secure=context is not None,
        )  # fmt: skip
        self._server = BoundedServer(
            (address.host, address.port),
            flask_app,
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
