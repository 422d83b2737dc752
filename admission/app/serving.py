"""Serves the webhook over TLS with gunicorn; nothing is read from the environment.

One process of gunicorn's ``asgi`` kind, which calls the application inside its event loop: a
review costs half of what it does when it is handed to a thread. It differs from gunicorn's own
in how it stops and in bounding connections.
"""

import asyncio
import contextlib
import ipaddress
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from gunicorn import sock
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.asgi.protocol import ASGIProtocol
from gunicorn.workers.gasgi import ASGIWorker

from admission.app.contexts import ContextCache
from admission.obs import logs
from admission.webhook.asgi import InlineAdapter
from certs.files import CertificateFiles

KEEPALIVE_SECONDS: Final = 120
"""Longer than the 90 s for which API servers keep an idle connection, so that they close it."""

GRACEFUL_SECONDS: Final = 10
"""How long reviews in flight may take once the process was asked to stop."""

LINGER_SECONDS: Final = 2.0
"""How long idle connections live after that: a request on its way then still gets its answer,
with ``Connection: close``."""

FIRST_REQUEST_SECONDS: Final = 10.0
"""How long a new connection may take to send its first request."""

MAX_CONNECTIONS: Final = 1000
"""Connections at once; an API server needs a few, and each costs a file descriptor."""

_CLOSE_SECONDS: Final = 1.0  # for a peer's own goodbye, after which the connection is dropped
_HEARTBEAT_SECONDS: Final = 0.25
_POLL_SECONDS: Final = 0.05
_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - the heartbeat file only
_log = logs.get("serving")


def serve(
    *,
    app: Callable[[], Any],
    host: str,
    port: int,
    certificates: CertificateFiles,
    threads: int = 8,
    after_fork: Callable[[], None] = lambda: None,
    worker_class: str = "inline",
    max_body_bytes: int = 7 * 1024 * 1024,
    long_paths: Mapping[str, int] = MappingProxyType({}),
    max_connections: int = MAX_CONNECTIONS,
    first_request_seconds: float = FIRST_REQUEST_SECONDS,
) -> None:
    """Serves until SIGTERM or SIGINT, then finishes what is in flight.

    Args:
        app: makes the WSGI application; called in the serving process.
        host: IP address or name to listen on.
        port: TCP port to listen on.
        certificates: serving certificate and key; a renewed pair is used from the next connection.
        threads: requests handled at once by ``gthread``; the inline worker has one thread.
        after_fork: called in the serving process before the first request, and again in the one
            that replaces it should it die; starts threads, which do not survive a fork.
        worker_class: ``inline``, or gunicorn's ``gthread`` for an application that may wait.
        max_body_bytes: larger bodies are not kept in memory by the inline worker.
        long_paths: paths that the inline worker handles in a thread, with limits of their own.
        max_connections: connections at once; the inline worker closes further ones.
        first_request_seconds: how long a new connection may be silent with the inline worker.

    Raises:
        OSError: the certificate files cannot be read.
        ssl.SSLError: they hold no usable pair.
        SystemExit: the address cannot be bound, or the application not be made.
    """
    contexts = ContextCache(certificates)
    front = contexts.front()
    is_inline = worker_class == "inline"
    options = {
        "bind": [f"{_bracketed(host)}:{port}"],
        "workers": 1,
        "worker_class": _inline_worker(first_request_seconds) if is_inline else worker_class,
        "threads": 1 if is_inline else threads,
        "worker_connections": max_connections,
        "keepalive": KEEPALIVE_SECONDS,
        "graceful_timeout": GRACEFUL_SECONDS,
        "asgi_loop": "asyncio",
        "asgi_lifespan": "off",
        "certfile": str(certificates.certificate),
        "keyfile": str(certificates.key),
        "ssl_context": lambda _config, _default: front,
        "post_worker_init": lambda _worker: _prepare(after_fork),
        "control_socket_disable": True,
        "loglevel": "warning",
        "sendfile": False,
        "forwarded_allow_ips": "127.0.0.1",
        "proc_name": "gpu-admission-webhook",
    }
    if _SHARED_MEMORY.is_dir():
        options["worker_tmp_dir"] = str(_SHARED_MEMORY)

    def adapted() -> InlineAdapter:
        return InlineAdapter(app(), max_body_bytes, long_paths=long_paths)

    load = adapted if is_inline else app
    try:
        _Application(load, options).run()
    except SystemExit as end:
        if end.code:
            raise


class InlineWorker(ASGIWorker):  # type: ignore[misc]  # gunicorn has no types
    """Serves connections in one event loop, and stops without waiting for idle ones."""

    first_request_seconds = FIRST_REQUEST_SECONDS

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.connections: set[_Connection] = set()

    async def _serve(self) -> None:
        context = sock.ssl_context(self.cfg)
        for listener in self.sockets:
            server = await self.loop.create_server(
                lambda: _Connection(self),
                sock=listener.sock,
                ssl=context,
                ssl_handshake_timeout=self.first_request_seconds,
                ssl_shutdown_timeout=_CLOSE_SECONDS,
            )
            self.servers.append(server)
        while self.alive and self.ppid == os.getppid():
            self.notify()
            await asyncio.sleep(_HEARTBEAT_SECONDS)
        await self._shutdown()

    async def _shutdown(self) -> None:
        self.alive = False  # every answer from now on says that the connection closes
        for server in self.servers:
            server.close()
        now = self.loop.time()
        await self._wait_for(lambda: not self.connections, until=now + LINGER_SECONDS)
        for connection in tuple(self.connections):
            connection.close_if_idle()
        await self._wait_for(lambda: not self.connections, until=now + self.cfg.graceful_timeout)
        if self.connections:
            _log.warning("connections_dropped", count=len(self.connections))

    async def _wait_for(self, is_done: Callable[[], bool], *, until: float) -> None:
        while not is_done() and not self._quick_shutdown and self.loop.time() < until:
            self.notify()
            await asyncio.sleep(_POLL_SECONDS)


def _inline_worker(patience_seconds: float) -> type[InlineWorker]:
    """Gunicorn makes the worker itself, so what it should know is put on a class."""

    class Worker(InlineWorker):
        first_request_seconds = patience_seconds

    return Worker


class _Connection(ASGIProtocol):  # type: ignore[misc]  # gunicorn has no types
    """One connection; known to its worker while it lives."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        worker = self.worker
        worker.connections.add(self)
        if len(worker.connections) > worker.worker_connections:
            _log.warning("connection_refused", connections=len(worker.connections))
            transport.abort()
        else:
            worker.loop.call_later(worker.first_request_seconds, self._close_if_unused)

    def connection_lost(self, exc: Exception | None) -> None:
        self.worker.connections.discard(self)
        super().connection_lost(exc)

    def close_if_idle(self) -> None:
        """Closes the connection unless a request is being served on it."""
        if self._awaiting_request:
            self.transport.close()

    def _close_if_unused(self) -> None:
        if self.req_count <= 1:
            self.close_if_idle()


class _Application(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """Hands our options to gunicorn, and no others."""

    def __init__(self, app: Callable[[], Any], options: dict[str, Any]) -> None:
        self._app = app
        self._options = options
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._options.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        return self._app()

    def run(self) -> None:
        _Arbiter(self).run()


class _Arbiter(Arbiter):  # type: ignore[misc]  # gunicorn has no types
    """Stops as gently on SIGINT as on SIGTERM; gunicorn would drop what is in flight."""

    def handle_int(self) -> None:
        self.handle_term()


def _prepare(after_fork: Callable[[], None]) -> None:
    # A terminal sends SIGINT to both processes; the parent decides how this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    after_fork()


def _bracketed(host: str) -> str:
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).version == 6:  # noqa: PLR2004
            return f"[{host}]"
    return host
