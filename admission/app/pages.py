"""Serves a WSGI application from threads inside a process whose main work is something else."""

import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from typing_extensions import override

Wsgi = Callable[..., Iterable[bytes]]


class _ThreadingServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _QuietHandler(WSGIRequestHandler):
    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Probes and scrapes are not news."""


class PageServer:
    """An HTTP server on one address; started by the constructor."""

    def __init__(self, app: Wsgi, host: str, port: int) -> None:
        """Binds and serves.

        Raises:
            OSError: the address cannot be bound.
        """
        self._server = make_server(
            host, port, app, server_class=_ThreadingServer, handler_class=_QuietHandler
        )
        self.port = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="pages", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stops serving and frees the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
