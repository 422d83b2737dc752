"""HTTP requests to the API server, with none of the HTTP library's exceptions or retries.

Requests go over `exchange`, at a fraction of a general library's CPU time. Watches, and all that
goes through a proxy, use urllib3's pool.
"""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import urllib3
from typing_extensions import override
from urllib3 import HTTPHeaderDict
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    IncompleteRead,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)
from urllib3.exceptions import (
    TimeoutError as Urllib3TimeoutError,
)
from urllib3.response import BaseHTTPResponse

from admission.base.clock import SystemClock
from admission.kube import errors, exchange
from admission.kube.credentials import Endpoint

_CONNECT_SECONDS: Final = 5.0
_NEVER_SENT: Final = (NewConnectionError, ConnectTimeoutError, SSLError, ProxyError, ssl.SSLError)
_TEXTS: Final = (
    (ssl.SSLCertVerificationError, "certificate of {host} not accepted: {cause.verify_message}"),
    (ssl.SSLError, "TLS with {host} failed: {cause.reason}"),
    (socket.gaierror, "name of {host} not resolved: {cause.strerror}"),
    (ConnectionRefusedError, "connection refused by {host}"),
    (
        (ConnectionError, ProtocolError, IncompleteRead),
        "connection closed by {host} before its answer ended",
    ),
    (ConnectTimeoutError, "connection to {host} timed out"),
    ((TimeoutError, Urllib3TimeoutError), "no answer from {host} in time"),
)
"""What a failure is called; the first kind that fits."""
_CHUNK: Final = 65536
_SAFE_METHODS: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Response:
    """The server's response.

    Attributes:
        status: HTTP status code.
        headers: by name in lower case.
        body: whole, decoded from transfer encodings.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def retry_after(self) -> float | None:
        """Seconds of the ``Retry-After`` header; None without one, or where it is a date."""
        text = self.headers.get("retry-after", "")
        return float(text) if text.isascii() and text.isdigit() else None


class Transport:
    """Sends requests; safe to share between threads."""

    def __init__(self, endpoint: Endpoint, user_agent: str) -> None:
        self._endpoint = endpoint
        identity = endpoint.identity
        self._headers = (
            ("User-Agent", user_agent),
            ("Accept", "application/json"),
            *(() if identity is None else identity.headers()),
        )
        self._clock = SystemClock()
        self._idle = exchange.ConnectionPool(endpoint.connections)
        self._host = _host(endpoint.pool)
        self._common: tuple[str | None, bytes] = ("", b"")

    def send(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float,
    ) -> Response:
        """Send one request and return the answer, whatever its status.

        Raises:
            TransportError: no answer. ``outcome_unknown`` is set if a write may have arrived.
        """
        if self._endpoint.connect is not None:
            request = self._encoded(method, path, body, content_type)
            return self._exchange(self._endpoint.connect, method, request, timeout_seconds)
        headers = self._request_headers()
        if body is not None:
            headers["Content-Type"] = content_type
        connect = min(_CONNECT_SECONDS, timeout_seconds)
        timeout = urllib3.Timeout(total=timeout_seconds, connect=connect)
        try:
            answer = self._open(method, path, headers, body, timeout)
            return Response(answer.status, _lowered(answer.headers), answer.data)
        except (HTTPError, OSError, ValueError) as error:
            raise _translated(error, method, self._host) from _quotable(error)

    def _exchange(
        self,
        connect: Callable[[float], socket.socket],
        method: str,
        request: bytes,
        seconds: float,
    ) -> Response:
        """Sends a request over a connection that waited, or over a new one."""
        deadline = self._clock.monotonic() + seconds
        try:
            connection = self._idle.take(
                lambda: exchange.Connection(connect(min(_CONNECT_SECONDS, seconds)), self._clock)
            )
        except (HTTPError, OSError) as error:
            raise errors.TransportError(_described(error, self._host)) from error
        try:
            left = max(0.0, deadline - self._clock.monotonic())
            reply = connection.exchange(request, left)
        except (OSError, exchange.BrokenAnswerError) as error:
            connection.close()
            unknown = method not in _SAFE_METHODS
            text = _described(error, self._host)
            raise errors.TransportError(text, outcome_unknown=unknown) from error
        if reply.reusable:
            self._idle.put(connection)
        else:
            connection.close()
        return Response(reply.status, reply.headers, reply.body)

    def _encoded(self, method: str, path: str, body: bytes | None, content_type: str) -> bytes:
        """A request as it is sent."""
        first = f"{method} {self._endpoint.prefix}{path} HTTP/1.1\r\n".encode("ascii")
        common = self._common_headers()
        if body is None:
            return b"%b%b\r\n" % (first, common)
        kind = content_type.encode("ascii")
        head = b"%b%bContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
        return head % (first, common, kind, len(body)) + body

    def _common_headers(self) -> bytes:
        """The headers of every request; rebuilt when the credentials change."""
        authorization = self._endpoint.authorization()
        common, encoded = self._common
        if encoded and common == authorization:
            return encoded
        lines = [("Host", self._host), ("Accept-Encoding", "identity"), *self._headers]
        if authorization is not None:
            lines.append(("Authorization", authorization))
        if not all(value.isascii() and value.isprintable() for _, value in lines):
            # Without the value: it may be the token.
            raise errors.TransportError("the request cannot be sent (a header is not printable)")
        encoded = "".join(f"{name}: {value}\r\n" for name, value in lines).encode("ascii")
        self._common = (authorization, encoded)
        return encoded

    def stream(self, path: str, *, silence_seconds: float) -> "LineStream":
        """Open an answer that comes line by line.

        Args:
            path: path and query.
            silence_seconds: longest wait for the next byte.

        Raises:
            ApiError: the server refused.
            TransportError: no answer.
        """
        timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=silence_seconds)
        try:
            answer = self._open("GET", path, self._request_headers(), None, timeout, preload=False)
            if answer.status == 200:  # noqa: PLR2004  # OK
                return LineStream(answer, self._host)
            refused = Response(answer.status, _lowered(answer.headers), answer.data)
        except (HTTPError, OSError, ValueError) as error:
            raise _translated(error, "GET", self._host) from _quotable(error)
        raise errors.from_body(refused.status, refused.body, retry_after=refused.retry_after)

    def close(self) -> None:
        """Close idle connections."""
        self._idle.close()
        self._endpoint.pool.close()

    def _request_headers(self) -> HTTPHeaderDict:
        headers = HTTPHeaderDict()
        for name, value in self._headers:
            headers.add(name, value)
        authorization = self._endpoint.authorization()
        if authorization is not None:
            headers["Authorization"] = authorization
        return headers

    def _open(
        self,
        method: str,
        path: str,
        headers: HTTPHeaderDict,
        body: bytes | None,
        timeout: urllib3.Timeout,
        *,
        preload: bool = True,
    ) -> BaseHTTPResponse:
        return self._endpoint.pool.urlopen(
            method,
            self._endpoint.prefix + path,
            body=body,
            headers=headers,
            retries=False,
            redirect=False,
            timeout=timeout,
            preload_content=preload,
        )


class LineStream(Iterator[bytes]):
    """Lines of an answer as they come, without their ends; empty lines are left out."""

    def __init__(self, answer: BaseHTTPResponse, host: str) -> None:
        self._answer = answer
        self._host = host
        self._chunks = answer.stream(_CHUNK)
        self._lines: list[bytes] = []
        self._partial = b""
        self._lock = threading.Lock()
        self._reading = False
        self._closed = False

    @override
    def __next__(self) -> bytes:
        while not self._lines:
            self._read()
        return self._lines.pop()

    def close(self) -> None:
        """End the stream at once, also for a thread that waits for the next line."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            reading = self._reading
        if not reading:
            self._answer.close()
            return
        try:
            # The reader wakes up and closes; closing under its hands would not wake it.
            self._answer.shutdown()
        except (ValueError, RuntimeError, OSError):
            # The answer is over and its connection is back in the pool.
            return

    def _read(self) -> None:
        """Waits for more lines.

        Raises:
            StopIteration: the server ended the stream, or `close` was called.
            TransportError: the connection broke, or nothing came for too long.
        """
        chunk = self._next_chunk()
        if not chunk:
            self._answer.close()
            raise StopIteration
        *whole, self._partial = (self._partial + chunk).split(b"\n")
        self._lines = [line for line in reversed(whole) if line]

    def _next_chunk(self) -> bytes:
        """Return the next bytes; empty at the end."""
        with self._lock:
            if self._closed:
                return b""
            self._reading = True
        try:
            chunk: bytes = next(self._chunks, b"")
        except (HTTPError, OSError, ValueError) as error:
            if self._stopped_reading():
                return b""
            self.close()
            raise _translated(error, "GET", self._host) from _quotable(error)
        return b"" if self._stopped_reading() else chunk

    def _stopped_reading(self) -> bool:
        """Return whether the stream was closed meanwhile."""
        with self._lock:
            self._reading = False
            return self._closed


def _translated(error: Exception, method: str, host: str) -> errors.TransportError:
    if _quotable(error) is None:
        return errors.TransportError(f"the request cannot be sent ({type(error).__name__})")
    sent = not isinstance(error, _NEVER_SENT)
    unknown = sent and method not in _SAFE_METHODS
    return errors.TransportError(_described(error, host), outcome_unknown=unknown)


def _described(error: Exception, host: str) -> str:
    """The cause of a failure and the server that it is about, as an operator looks for them."""
    cause = _cause(error)
    texts = (text for kinds, text in _TEXTS if isinstance(cause, kinds))
    other = f"request to {{host}} failed: {type(cause).__name__}: {{cause}}"
    return next(texts, other).format(host=host, cause=cause)


def _cause(error: BaseException) -> BaseException:
    """The failure of the system that a library's exception stands for; else the exception."""
    if isinstance(error, ConnectTimeoutError | ReadTimeoutError) and not isinstance(
        error, NewConnectionError
    ):
        return error
    cause = next(
        (argument for argument in error.args if isinstance(argument, OSError)), error.__cause__
    )
    if isinstance(error, HTTPError) and isinstance(cause, HTTPError | OSError):
        return _cause(cause)
    return error


def _host(pool: urllib3.HTTPConnectionPool) -> str:
    """The server as the header ``Host`` names it."""
    name = f"[{pool.host}]" if ":" in pool.host else pool.host
    return name if pool.port is None else f"{name}:{pool.port}"


def _lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): headers[name] for name in headers}


def _quotable(error: Exception) -> Exception | None:
    """The error, if its text may be shown.

    A header that cannot be sent is quoted by http.client, and it may be the token.
    """
    return error if isinstance(error, HTTPError | OSError) else None
