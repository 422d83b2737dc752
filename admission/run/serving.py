"""Serves the webhook over TLS with gunicorn; nothing is read from the environment.

One process of gunicorn's ``asgi`` kind, which calls the application inside its event loop: a
review costs half of what it does when it is handed to a thread. It differs from gunicorn's own
in how it stops and in bounding connections.
"""

import asyncio
import contextlib
import ipaddress
import os
import select
import signal
import ssl
from asyncio.sslproto import SSLProtocol
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from gunicorn import sock
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.asgi.protocol import ASGIProtocol
from gunicorn.glogging import Logger as GunicornLog
from gunicorn.workers.gasgi import ASGIWorker
from typing_extensions import override

from admission.base import logs
from admission.run.contexts import ContextCache
from admission.webhook.asgi import BYTES_IN_FLIGHT, InlineAdapter, Limits
from certs.files import CertificateFiles

KEEPALIVE_SECONDS: Final = 120
"""Longer than the 90 s for which API servers keep an idle connection, so that they close it."""

GRACEFUL_SECONDS: Final = 10
"""How long reviews in flight may take once the process was asked to stop."""

LINGER_SECONDS: Final = 2.0
"""How long idle connections live after that: a request on its way then still gets its answer,
with ``Connection: close``."""

FIRST_REQUEST_SECONDS: Final = 5.0
"""How long a new connection may take to shake hands, and then to send its first request.

An API server opens a connection when it has a review to send. It sends the review on another one
if that becomes free earlier, and keeps the new one for later. A review that it then sends on a
connection that was never used is not sent again if the connection closes. So an address on whose
other connections requests were answered may keep one that is unused for ``KEEPALIVE_SECONDS``
more."""

MAX_CONNECTIONS: Final = 512
"""Connections at once, handshakes included. An API server has one for each review under way; one
that is read from takes up to 0.3 MiB."""

_BUFFERED_BYTES: Final = 64 * 1024
"""Read from a connection ahead of the application."""

DEFAULT_LIMITS: Final = Limits(max_bytes=7 * 1024 * 1024)

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
    limits: Limits = DEFAULT_LIMITS,
    paths: Mapping[str, Limits] = MappingProxyType({}),
    bytes_in_flight: int = BYTES_IN_FLIGHT,
    max_connections: int = MAX_CONNECTIONS,
    first_request_seconds: float = FIRST_REQUEST_SECONDS,
    client_authority: Path | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish what is in flight.

    Args:
        app: makes the WSGI application; called in the serving process.
        host: IP address or name to listen on.
        port: TCP port to listen on.
        certificates: serving certificate and key; a renewed pair is used from the next connection.
        threads: requests handled at once by ``gthread``; the inline worker has one thread.
        after_fork: called in the serving process before the first request, and again in the one
            that replaces it should it die; starts threads, which do not survive a fork.
        worker_class: ``inline``, or gunicorn's ``gthread`` for an application that may wait.
        limits: of requests, kept by the inline worker.
        paths: paths with limits of their own.
        bytes_in_flight: of all long bodies together, see `InlineAdapter`.
        max_connections: connections at once; for a further one the inline worker closes one of
            the address that has most of them, see `InlineWorker.make_room`.
        first_request_seconds: how long a new connection may be silent with the inline worker, of
            an address without another one on which requests were answered.
        client_authority: PEM file; a client must show a certificate that one in it has signed. It
            is read again when a client shakes hands. None asks nobody for one.

    Raises:
        OSError: the certificate files cannot be read.
        ssl.SSLError: they hold no usable pair.
        SystemExit: the address cannot be bound, or the application not be made.
    """
    contexts = ContextCache(
        certificates,
        (lambda: "") if client_authority is None else client_authority.read_text,
        require_client=client_authority is not None,
    )
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
        "logger_class": _Log,
        "sendfile": False,
        "forwarded_allow_ips": "127.0.0.1",
        "proc_name": "gpu-admission-webhook",
    }
    if _SHARED_MEMORY.is_dir():
        options["worker_tmp_dir"] = str(_SHARED_MEMORY)

    def adapted() -> InlineAdapter:
        return InlineAdapter(app(), limits, paths=paths, bytes_in_flight=bytes_in_flight)

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
        self.connections: dict[_Connection, None] = {}
        """Connections after their handshake."""
        self.accepted: dict[_Tls, None] = {}
        """All, those that have not shaken hands too, the most recently active last."""

    def make_room(self, newcomer: "_Tls") -> None:
        """Close a connection if there are too many with a new one.

        It is one of the address that has most connections: who has few is never refused because
        another one holds many. That address loses a connection on which requests were answered
        and none is under way; else the one that has been silent for longest. The address of the
        new connection itself first loses those that have completed no request, and the new one
        if all others are busy: whoever only opens connections, or sends half of a request, cannot
        push out those that were used.
        """
        if len(self.accepted) <= self.worker_connections:
            return
        counts = Counter(connection.source for connection in self.accepted)
        at_most = max(counts.values())
        largest = {source for source, count in counts.items() if count == at_most}
        heaviest = newcomer.source if newcomer.source in largest else min(largest)
        of_source = [
            connection
            for connection in self.accepted
            if connection.source == heaviest and connection is not newcomer
        ]
        idle = next((connection for connection in of_source if connection.is_idle), None)
        if heaviest == newcomer.source:
            unproven = next(
                (connection for connection in of_source if not connection.has_completed), None
            )
            victim = unproven or idle or newcomer
        else:
            victim = idle or of_source[0]
        _log.warning(
            "connection_limit",
            connections=len(self.accepted) - 1,
            source=heaviest,
            held=at_most,
            closed="the new one" if victim is newcomer else "another one",
        )
        victim.abort()

    def has_answered(self, source: str) -> bool:
        """Return whether a request was answered on a connection of an address that is open."""
        return any(
            connection.has_completed and connection.source == source
            for connection in self.accepted
        )

    async def _serve(self) -> None:
        context = sock.ssl_context(self.cfg)
        for listener in self.sockets:
            server = await self.loop.create_server(
                partial(_Tls, self, context), sock=listener.sock
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


class _Tls(SSLProtocol):
    """TLS of one connection: asyncio's own, but known to its worker before the handshake too."""

    max_size = _BUFFERED_BYTES

    def __init__(self, worker: InlineWorker, context: ssl.SSLContext) -> None:
        nobody_waits: Any = None
        handshake_seconds: Any = worker.first_request_seconds
        connection = _Connection(worker, self._touch)
        super().__init__(
            worker.loop,
            connection,
            context,
            nobody_waits,
            server_side=True,
            ssl_handshake_timeout=handshake_seconds,
            ssl_shutdown_timeout=_CLOSE_SECONDS,
        )
        self._worker, self._connection = worker, connection
        self._raw: Any = None

    @property
    def source(self) -> str:
        """Return the address from which the connection was opened."""
        return _source(self._raw)

    @property
    def has_completed(self) -> bool:
        """Return whether a request was answered on it."""
        return self._connection.has_completed

    @property
    def is_idle(self) -> bool:
        """Return whether requests were answered on it, and none is under way or has arrived."""
        return self.has_completed and self._connection.is_idle

    def abort(self) -> None:
        """Close the connection without a goodbye."""
        self._worker.accepted.pop(self, None)
        self._raw.abort()

    def _touch(self) -> None:
        """Note that something arrived."""
        if self in self._worker.accepted:
            self._worker.accepted[self] = self._worker.accepted.pop(self)

    @override
    def connection_made(self, transport: Any) -> None:
        self._raw = transport
        self._worker.accepted[self] = None
        super().connection_made(transport)
        self._worker.make_room(self)

    @override
    def connection_lost(self, exc: BaseException | None) -> None:
        self._worker.accepted.pop(self, None)
        super().connection_lost(exc)


class _Connection(ASGIProtocol):  # type: ignore[misc]  # gunicorn has no types
    """One connection; known to its worker while it lives."""

    def __init__(self, worker: InlineWorker, touch: Callable[[], None]) -> None:
        super().__init__(worker)
        self._touch = touch
        self._max_buffer_size = _BUFFERED_BYTES

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        worker = self.worker
        worker.connections[self] = None
        self._touch()
        worker.loop.call_later(worker.first_request_seconds, self._end_first_wait)

    def data_received(self, data: bytes) -> None:
        self._touch()
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.worker.connections.pop(self, None)
        super().connection_lost(exc)

    @property
    def has_completed(self) -> bool:
        """Return whether a request was answered on it; gunicorn counts the one to come, too."""
        return int(self.req_count) > 1

    @property
    def is_idle(self) -> bool:
        """Return whether no request is being served on it, nor has arrived unread.

        The loop may have been busy since it looked for what arrived last. An API server does not
        repeat a review whose connection is closed after it was sent.
        """
        return bool(self._awaiting_request) and not self._has_unread()

    def close_if_idle(self) -> None:
        """Close the connection unless a request is being served on it, or has arrived unread."""
        if self.is_idle:
            self.transport.close()

    def _has_unread(self) -> bool:
        end = self.transport.get_extra_info("socket")
        if end is None:
            return False
        poll = select.poll()
        poll.register(end.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def _end_first_wait(self) -> None:
        if self.has_completed:
            return
        if self.worker.has_answered(_source(self.transport)):
            self.worker.loop.call_later(KEEPALIVE_SECONDS, self._close_if_unused)
        else:
            self.close_if_idle()

    def _close_if_unused(self) -> None:
        if not self.has_completed:
            self.close_if_idle()


class _Log(GunicornLog):  # type: ignore[misc]  # gunicorn has no types
    """Gives gunicorn's lines to the log of the process, which writes them as its own."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        for log in (self.error_log, self.access_log):
            log.handlers.clear()
            log.propagate = True


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


def _source(transport: Any) -> str:
    """Return the address from which a connection was opened; it is empty once it is closed."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if peer else ""


def _bracketed(host: str) -> str:
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).version == 6:  # noqa: PLR2004
            return f"[{host}]"
    return host
