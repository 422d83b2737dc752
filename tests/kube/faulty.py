"""An API server that fails as told: each request takes the next answer of its script."""

import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

from admission.kube.client import Client
from admission.kube.credentials import Endpoint, load
from admission.kube.transport import Transport

Document = dict[str, Any]

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: me}}}}]
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
users: [{{name: me, user: {{token: secret-token}}}}]
"""


def thing(name: str, version: int, **members: Any) -> Document:
    """A ConfigMap."""
    metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **members}


def event(kind: str, obj: Document) -> bytes:
    """A line of a watch."""
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    """A bookmark's line."""
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def status(code: int, reason: str, message: str, **members: Any) -> Document:
    """A Status object."""
    return {"kind": "Status", "code": code, "reason": reason, "message": message, **members}


EXPIRED = status(410, "Expired", "too old resource version: 1 (9)")


@dataclass(frozen=True)
class Json:
    """A whole answer."""

    body: Document
    code: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def send(self, handler: BaseHTTPRequestHandler) -> None:
        raw = json.dumps(self.body).encode()
        handler.send_response(self.code)
        for name, value in self.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(raw)))
        handler.end_headers()
        handler.wfile.write(raw)


@dataclass(frozen=True)
class Raw:
    """Bytes that are no JSON, as a proxy would send them."""

    body: bytes
    code: int

    def send(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(self.code)
        handler.send_header("Content-Length", str(len(self.body)))
        handler.end_headers()
        handler.wfile.write(self.body)


@dataclass(frozen=True)
class Watch:
    """Lines of a watch, then its end: ``end``, ``reset``, or ``hang`` until the client goes."""

    lines: tuple[bytes, ...] = ()
    then: str = "end"

    def send(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for line in self.lines:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        if self.then == "end":
            handler.wfile.write(b"0\r\n\r\n")
        elif self.then == "hang":
            handler.rfile.read(1)
        else:
            reset(handler)


@dataclass(frozen=True)
class Broken:
    """The first half of an answer, then a connection reset."""

    body: Document

    def send(self, handler: BaseHTTPRequestHandler) -> None:
        raw = json.dumps(self.body).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(raw)))
        handler.end_headers()
        handler.wfile.write(raw[: len(raw) // 2])
        reset(handler)


@dataclass(frozen=True)
class Silence:
    """No answer at all until the client goes."""

    def send(self, handler: BaseHTTPRequestHandler) -> None:
        handler.rfile.read(1)
        handler.close_connection = True


Answer = Json | Raw | Watch | Broken | Silence


def reset(handler: BaseHTTPRequestHandler) -> None:
    """Ends the connection with a reset instead of a farewell."""
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.close_connection = True
    handler.rfile.close()
    handler.connection.close()


def listing(*items: Document, version: int, token: str = "") -> Json:
    """A page."""
    metadata = {"resourceVersion": str(version), "continue": token}
    return Json({"kind": "ConfigMapList", "metadata": metadata, "items": list(items)})


@dataclass(frozen=True)
class Request:
    """What was asked."""

    method: str
    query: Mapping[str, str]
    body: bytes
    headers: Mapping[str, str]


class FaultyServer:
    """Answers lists and writes from ``answers`` and watches from ``watches``, then hangs.

    Attributes:
        version: answer to a list of one object, by which its version is asked for.
        compared: how often it was asked for.
    """

    def __init__(self) -> None:
        self.version = 10**9
        self.compared = 0
        self.answers: deque[Answer] = deque()
        self.watches: deque[Answer] = deque()
        self.requests: list[Request] = []
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                server.take(self).send(self)

            do_GET = do_POST = do_PUT = handle_any  # noqa: N815 - names of the base class
            do_PATCH = do_DELETE = handle_any  # noqa: N815 - names of the base class

            @override
            def log_message(self, format: str, *args: Any) -> None:
                """Silent."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            @override
            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that went away is part of the game."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def take(self, handler: BaseHTTPRequestHandler) -> Answer:
        """Notes a request and chooses its answer."""
        query = {k: v[0] for k, v in parse_qs(urlsplit(handler.path).query).items()}
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        headers = dict(handler.headers.items())
        with self._lock:
            if query.get("limit") == "1":
                self.compared += 1
                return listing(version=self.version)
            self.requests.append(Request(handler.command, query, body, headers))
            script = self.watches if "watch" in query else self.answers
            if script:
                return script.popleft()
        return Watch(then="hang") if "watch" in query else Silence()

    def asked(self, key: str) -> list[str]:
        """Values of a query parameter, in order of the requests that had it."""
        with self._lock:
            return [request.query[key] for request in self.requests if key in request.query]

    def endpoint(self, folder: Path) -> Endpoint:
        """Credentials for this server."""
        file = folder / "kubeconfig"
        file.write_text(KUBECONFIG.format(url=self.url))
        return load(str(file), connections=4)

    def client(
        self,
        folder: Path,
        *,
        timeout_seconds: float = 10,
        sleep: Callable[[float], None] | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> Client:
        """A client of this server."""
        transport = Transport(self.endpoint(folder), "test")
        return Client(
            transport,
            timeout_seconds=timeout_seconds,
            sleep=sleep or refuse_to_sleep,
            warn=warn or print,
        )


def refuse_to_sleep(seconds: float) -> None:
    """No test waits."""
    raise AssertionError(f"slept for {seconds} s")
