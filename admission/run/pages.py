"""Serves a WSGI application from threads inside a process whose main work is something else.

The number of threads is bounded, and so is the time of a connection: clients that are slow, or
say nothing, hold neither.
"""

import contextlib
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from typing_extensions import override

from admission.base import logs
from admission.base.clock import Clock, SystemClock

MOST_AT_ONCE: Final = 64
"""Connections at once. For a further one the oldest is closed: a probe is always answered."""
MOST_SECONDS: Final = 15.0
"""From accepting a connection to the end of the answer; a scrape takes less than one."""
SILENCE_SECONDS: Final = 5.0
"""For which a client may send nothing, or take nothing of its answer."""
_LOOK_SECONDS: Final = 0.25

Wsgi = Callable[..., Iterable[bytes]]
_log = logs.get("pages")


class BoundedServer(ThreadingMixIn, WSGIServer):
    """A thread for each connection, which also shakes hands there; one request a connection."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(
        self,
        address: tuple[str, int],
        app: Wsgi,
        context: Callable[[], ssl.SSLContext] | None = None,
        handler: type[WSGIRequestHandler] | None = None,
        *,
        most_at_once: int = MOST_AT_ONCE,
        most_seconds: float = MOST_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        """Binds.

        Args:
            address: where to listen; port 0 takes a free one.
            app: what to serve.
            context: gives the TLS context for the next connection; None serves plain HTTP.
            handler: reads requests.
            most_at_once: connections at once.
            most_seconds: for one connection, by ``clock``.
            silence_seconds: for which the client may send nothing, or take nothing.
            clock: measures the time of a connection.

        Raises:
            OSError: the address cannot be bound.
        """
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler or QuietHandler)
        self.set_app(app)
        self._context = context
        self._most_at_once = most_at_once
        self._most_seconds = most_seconds
        self._silence_seconds = silence_seconds
        self._clock = clock or SystemClock()
        self._guard = threading.Lock()
        self._open: dict[Any, float] = {}

    @property
    def open_connections(self) -> int:
        """Return how many connections were accepted and have not ended."""
        with self._guard:
            return len(self._open)

    def serve(self, name: str) -> None:
        """Serve in a thread of its own."""
        threading.Thread(
            target=self.serve_forever, args=(_LOOK_SECONDS,), name=name, daemon=True
        ).start()

    @override
    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            oldest = next(iter(self._open), None)
            is_full = len(self._open) >= self._most_at_once
            if is_full and oldest is not None:
                del self._open[oldest]
            self._open[request] = self._clock.monotonic() + self._most_seconds
        if is_full and oldest is not None:
            _log.warning("connection_limit", connections=self._most_at_once, closed="the oldest")
            _break(oldest)
        super().process_request(request, client_address)

    @override
    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._guard:
                self._open.pop(request, None)

    @override
    def service_actions(self) -> None:
        """Close connections that take too long."""
        now = self._clock.monotonic()
        with self._guard:
            late = [request for request, until in self._open.items() if until < now]
            for request in late:
                del self._open[request]
        for request in late:
            _break(request)

    @override
    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(self._silence_seconds)
        if self._context is None:
            super().finish_request(request, client_address)
            return
        # The socket itself stays open here, so that it can be broken off while it is wrapped.
        with self._context().wrap_socket(request.dup(), server_side=True) as secure:
            super().finish_request(secure, client_address)
            secure.shutdown(socket.SHUT_WR)

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that broke off, or shows a strange certificate: it is no bug."""
        error = sys.exception()
        if isinstance(error, OSError):
            _log.info("connection failed", client=client_address[0], error=str(error))
        else:
            _log.error("connection failed", client=client_address[0], exc_info=True)


def _break(request: Any) -> None:
    """Ends a connection; the thread that serves it finds it closed."""
    with contextlib.suppress(OSError):  # it may have ended by itself
        request.shutdown(socket.SHUT_RDWR)


class QuietHandler(WSGIRequestHandler):
    """Logs no requests."""

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: probes and scrapes are not news."""


class PageServer:
    """An HTTP server on one address; started by the constructor."""

    def __init__(
        self,
        app: Wsgi,
        host: str,
        port: int,
        context: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """Binds and serves.

        Args:
            app: what to serve.
            host: where to listen.
            port: 0 takes a free one.
            context: gives the TLS context for the next connection; None serves plain HTTP.

        Raises:
            OSError: the address cannot be bound.
        """
        self._server = BoundedServer((host, port), app, context)
        self.port = self._server.server_port
        self._server.serve("pages")

    def stop(self) -> None:
        """Stop serving and free the port."""
        self._server.shutdown()
        self._server.server_close()
