"""A proxy in front of an API server that misbehaves when told to.

It ends TLS with the server's own certificate, so a client needs no more than another port in its
kubeconfig. Requests are matched against rules, each of which applies a fault (see
`tests.chaos.faults`); what no rule matches is passed on. Watches can be silenced or ended while
they run.
"""

import json
import re
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

from admission.base.clock import SystemClock
from tests.controlplane import waiting

Json = dict[str, Any]
Rewrite = Callable[[Json], Json]

_ABORT: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends a reset."""
_HOP_HEADERS: Final = frozenset({"connection", "transfer-encoding", "content-length"})
_NOT_FORWARDED: Final = frozenset({"accept-encoding", "host", "content-length", "connection"})
_READS: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Seen:
    """A write that was passed on to the API server.

    Attributes:
        at: monotonic seconds when it was passed on.
        method: of the request.
        path: of the request, without the query.
        body: of the request, as text.
    """

    at: float
    method: str
    path: str
    body: str


class Rule:
    """What happens to requests that match.

    Attributes:
        hits: requests that it was applied to.
        reached: set at the first of them.
    """

    def __init__(
        self,
        fault: "Callable[[Exchange], None]",
        *,
        method: str = "",
        path: str = "",
        body: str = "",
        times: int | None = 1,
        skip: int = 0,
    ) -> None:
        self.fault = fault
        self.hits = 0
        self.reached = threading.Event()
        self._patterns = tuple(re.compile(pattern) for pattern in (method, path, body))
        self._times = times
        self._skip = skip

    def takes(self, method: str, path: str, body: str) -> bool:
        """Whether it applies to this request, which then counts."""
        if self._times is not None and self.hits >= self._times:
            return False
        texts = (method, path, body)
        if not all(p.search(t) for p, t in zip(self._patterns, texts, strict=True)):
            return False
        if self._skip:
            self._skip -= 1
            return False
        self.hits += 1
        self.reached.set()
        return True

    def wait(self) -> None:
        """Returns once a request was matched.

        Raises:
            TimeoutError: none was.
        """
        patterns = [pattern.pattern for pattern in self._patterns]
        waiting.until(self.reached.is_set, what=f"a request that matches {patterns}")


class Stream:
    """A watch that runs; may be silenced, ended or broken at any moment."""

    def __init__(self, exchange: "Exchange", upstream: socket.socket) -> None:
        self.path = exchange.path
        self._exchange = exchange
        self._upstream = upstream
        self._lock = threading.Lock()
        self._silent = False
        self._ended = False

    def silence(self) -> None:
        """Passes nothing on any more, and keeps the connection."""
        self._silent = True

    def end(self, last: Json | None = None) -> None:
        """Ends the watch as a server does, after one more event if there is one."""
        with self._lock, suppress(OSError):
            if not self._ended:
                self._ended = True
                if last is not None:
                    self._exchange.send_chunk(json.dumps(last).encode() + b"\n")
                self._exchange.send_chunk(b"")
        self._wake()

    def reset(self) -> None:
        """Breaks the connection."""
        with self._lock:
            self._ended = True
        self._exchange.abort()
        self._wake()

    def expire(self) -> None:
        """Ends the watch because its version is too old, as after a compaction."""
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "The resourceVersion for the provided watch is too old.",
            "reason": "Expired",
            "code": 410,
        }
        self.end({"type": "ERROR", "object": status})

    def pass_on(self, line: bytes) -> bool:
        """Sends a line to the client; false once the watch has ended."""
        with self._lock:
            if self._ended:
                return False
            if not self._silent:
                self._exchange.send_chunk(line)
        return True

    def _wake(self) -> None:
        # Past SSLSocket, whose own shutdown must not be used beside a reader.
        with suppress(OSError):
            socket.socket.shutdown(self._upstream, socket.SHUT_RDWR)


class Exchange:
    """One request, and what may be done with it.

    Attributes:
        method: of the request.
        path: with query.
        body: as text.
    """

    def __init__(self, handler: "_Handler", method: str, path: str, body: bytes) -> None:
        self.method = method
        self.path = path
        self.body = body.decode()
        self._handler = handler
        self._answer: HTTPResponse | None = None

    @property
    def is_watch(self) -> bool:
        """Whether the answer comes line by line."""
        return "watch" in parse_qs(urlsplit(self.path).query)

    def forward(self) -> HTTPResponse:
        """Sends the request on, once, and gives the answer of the API server."""
        if self._answer is None:
            upstream = self._handler.upstream
            if self.method not in _READS:
                self._handler.proxy.note(self)
            headers = {
                name: value
                for name, value in self._handler.headers.items()
                if name.lower() not in _NOT_FORWARDED
            }
            upstream.request(self.method, self.path, self.body.encode() or None, headers)
            self._answer = upstream.getresponse()
        return self._answer

    def relay(self) -> None:
        """Passes the request on and its answer back: what happens without a fault."""
        answer = self.forward()
        if self.is_watch and answer.status == 200:
            self._relay_stream(answer)
        else:
            body = answer.read()
            if answer.headers.get_content_type() == "application/json":  # not "404 page not found"
                body = self.rewritten(body)
            self.send(answer.status, dict(answer.getheaders()), body)

    def rewritten(self, body: bytes) -> bytes:
        """An answer's body with what rewrites make of each object in it."""
        rewrite = self._handler.proxy.rewrite
        if rewrite is None:
            return body
        document: Json = json.loads(body)
        if "items" in document:
            document["items"] = [rewrite(item) for item in document["items"] or ()]
            return json.dumps(document).encode()
        return json.dumps(rewrite(document)).encode()

    def send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Sends a whole answer."""
        self._start(status, {**_kept(headers), "Content-Length": str(len(body))})
        self._handler.wfile.write(body)

    def send_part(self, status: int, headers: Mapping[str, str], body: bytes, length: int) -> None:
        """Sends the first bytes of an answer, then closes the connection.

        A reset would make the client's kernel drop what arrived already.
        """
        self._start(status, {**_kept(headers), "Content-Length": str(len(body))})
        self._handler.wfile.write(body[:length])
        self._handler.close_connection = True

    def send_chunk(self, data: bytes) -> None:
        """Sends a chunk of an answer of unknown length; an empty one ends it."""
        self._handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def reset(self) -> None:
        """Breaks the connection to the client, from the thread of this exchange."""
        self._handler.reset()

    def abort(self) -> None:
        """Breaks the connection to the client, from any thread."""
        self._handler.abort()

    def _start(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} ", *(f"{name}: {value}" for name, value in headers.items())]
        self._handler.wfile.write("\r\n".join([*lines, "", ""]).encode())

    def _relay_stream(self, answer: HTTPResponse) -> None:
        proxy, upstream = self._handler.proxy, self._handler.upstream
        self._start(200, {**_kept(dict(answer.getheaders())), "Transfer-Encoding": "chunked"})
        stream = Stream(self, upstream.sock)
        with proxy.running(stream):
            while line := answer.readline():
                proxy.await_thaw()
                if not stream.pass_on(self._rewritten_event(line)):
                    break
            stream.end()
        self._handler.close_connection = True

    def _rewritten_event(self, line: bytes) -> bytes:
        rewrite = self._handler.proxy.rewrite
        if rewrite is None:
            return line
        event: Json = json.loads(line)
        return json.dumps({**event, "object": rewrite(event["object"])}).encode() + b"\n"


class Proxy:
    """The proxy; `start` and `stop` it.

    Attributes:
        port: where it listens on 127.0.0.1.
        rewrite: changes every object on its way to the client, where set.
        writes: what was passed on and changes something.
        unexpected: failures of the proxy itself.
    """

    def __init__(self, upstream_port: int, folder: Path) -> None:
        """Prepares a proxy.

        Args:
            upstream_port: port of the API server.
            folder: holds ``ca.crt``, ``server.crt`` and ``server.key``.
        """
        self.rewrite: Rewrite | None = None
        self.writes: list[Seen] = []
        self.unexpected: list[BaseException] = []
        self.upstream_port = upstream_port
        self.upstream_context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._streams: list[Stream] = []
        self._down = False
        self._thawed = threading.Event()
        self._thawed.set()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.crt", folder / "server.key")
        self._server = _Server(self, context)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()
        self._server.shutdown()
        self._thread.join()
        self._server.abort_all()
        self._server.server_close()

    # ------------------------------------------------------------------------------ faults

    def inject(
        self,
        fault: Callable[[Exchange], None],
        *,
        method: str = "",
        path: str = "",
        body: str = "",
        times: int | None = 1,
        skip: int = 0,
    ) -> Rule:
        """Applies a fault to the next requests that match.

        Args:
            fault: what happens to them.
            method: regular expression, found in the method.
            path: regular expression, found in path and query.
            body: regular expression, found in the body.
            times: how many requests; None for all until `heal`.
            skip: how many are let through before.
        """
        rule = Rule(fault, method=method, path=path, body=body, times=times, skip=skip)
        with self._lock:
            self._rules.insert(0, rule)
        return rule

    def heal(self) -> None:
        """Removes all rules and rewrites, frees what is held, and lets everything pass."""
        with self._lock:
            rules, self._rules = self._rules, []
            self._down = False
        for rule in rules:
            free = getattr(rule.fault, "free", None)  # a fault may hold requests
            if free is not None:
                free()
        self.rewrite = None
        self._thawed.set()

    def streams(self, path: str = "") -> tuple[Stream, ...]:
        """Watches that run, by a regular expression of their path."""
        with self._lock:
            return tuple(one for one in self._streams if re.search(path, one.path))

    @contextmanager
    def down(self) -> Iterator[None]:
        """Inside the block every connection is reset, old and new."""
        self._down = True
        self._server.abort_all()
        try:
            yield
        finally:
            self._down = False

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Inside the block nothing passes; afterwards what came meanwhile passes late."""
        self._thawed.clear()
        try:
            yield
        finally:
            self._thawed.set()

    # ------------------------------------------------------------------------- connections

    def await_thaw(self) -> None:
        """Blocks while the proxy is frozen."""
        self._thawed.wait()

    def serve(self, exchange: Exchange) -> None:
        """Answers a request, by a fault where a rule says so."""
        self.await_thaw()
        if self._down:
            exchange.reset()
            return
        with self._lock:
            request = (exchange.method, exchange.path, exchange.body)
            rule = next((rule for rule in self._rules if rule.takes(*request)), None)
        if rule is None:
            exchange.relay()
        else:
            rule.fault(exchange)

    def note(self, exchange: Exchange) -> None:
        """Remembers a write."""
        path = urlsplit(exchange.path).path
        seen = Seen(self._clock.monotonic(), exchange.method, path, exchange.body)
        self.writes.append(seen)

    @contextmanager
    def running(self, stream: Stream) -> Iterator[None]:
        """Counts a watch as running inside the block."""
        with self._lock:
            self._streams.append(stream)
        try:
            yield
        finally:
            with self._lock:
                self._streams.remove(stream)


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client, with one of its own to the API server."""

    protocol_version = "HTTP/1.1"

    @property
    def proxy(self) -> Proxy:
        return self._household.proxy

    @property
    def _household(self) -> "_Server":
        assert isinstance(self.server, _Server)
        return self.server

    @override
    def setup(self) -> None:
        super().setup()
        self.upstream = HTTPSConnection(
            "127.0.0.1", self.proxy.upstream_port, timeout=600, context=self.proxy.upstream_context
        )
        self._household.add(self)

    @override
    def handle(self) -> None:
        try:
            super().handle()
        except (OSError, HTTPException):
            self.reset()

    @override
    def finish(self) -> None:
        self._household.forget(self)
        self.upstream.close()
        with suppress(OSError):
            super().finish()

    def serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.proxy.serve(Exchange(self, self.command, self.path, body))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve  # noqa: N815 - the library's names

    def reset(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)

    def abort(self) -> None:
        """Breaks both connections, so that the thread of this handler ends."""
        self.reset()
        for end in (self.connection, self.upstream.sock):
            if end is not None:
                with suppress(OSError):
                    socket.socket.shutdown(end, socket.SHUT_RDWR)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


class _Server(ThreadingMixIn, TCPServer):
    """Accepts connections; each has a thread."""

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, proxy: Proxy, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.proxy = proxy
        self._context = context
        self._lock = threading.Lock()
        self._handlers: set[_Handler] = set()

    @override
    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        # The handshake comes with the first read, in the connection's own thread.
        wrapped = self._context.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        )
        return wrapped, address

    @override
    def shutdown_request(self, request: Any) -> None:
        request.close()  # without the library's shutdown, which would make a reset an end

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        # An answer that broke off in the middle is a fault like others.
        if error is not None and not isinstance(error, OSError | HTTPException):
            self.proxy.unexpected.append(error)

    def add(self, handler: _Handler) -> None:
        with self._lock:
            self._handlers.add(handler)

    def forget(self, handler: _Handler) -> None:
        with self._lock:
            self._handlers.discard(handler)

    def abort_all(self) -> None:
        """Breaks every connection."""
        with self._lock:
            handlers = tuple(self._handlers)
        for handler in handlers:
            handler.abort()


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_HEADERS}
