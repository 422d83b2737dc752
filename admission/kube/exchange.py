"""HTTP/1.1 requests and answers over connections that stay open.

A general HTTP library spends several times the CPU on a request, and a controller sends little
else. Source: RFC 9112 (HTTP/1.1).
"""

import contextlib
import select
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from admission.base.clock import Clock

_RECEIVED: Final = 65536
_LONGEST_HEAD: Final = 65536
_BLANK_LINE: Final = b"\r\n\r\n"
_LINE_END: Final = b"\r\n"
_INFORMATIONAL_BELOW: Final = 200
_WITHOUT_BODY: Final = frozenset({204, 304})
_READABLE: Final = select.POLLIN | select.POLLERR | select.POLLHUP


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as it came.

    Attributes:
        status: HTTP status code.
        headers: by name in lower case; values of a repeated one joined by commas.
        body: whole, without transfer encoding.
        reusable: whether the connection may be used again.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    reusable: bool


class BrokenAnswerError(Exception):
    """The server sent something that is not an HTTP/1.1 response."""


class Connection:
    """One connection, for one request at a time."""

    def __init__(self, connected: socket.socket, clock: Clock) -> None:
        self._socket = connected
        self._clock = clock
        self._received, self._taken = b"", 0
        self._deadline = 0.0
        self._poll = select.poll()
        self._poll.register(connected, _READABLE)

    def is_idle(self) -> bool:
        """Return whether the server neither closed it nor said something unasked."""
        return self._taken == len(self._received) and not self._poll.poll(0)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def exchange(self, request: bytes, seconds: float) -> Reply:
        """Send a request and wait for its whole answer.

        Raises:
            OSError: the connection broke, or the time is over (TimeoutError).
            BrokenAnswerError: there is no telling where the answer ends.
        """
        self._deadline = self._clock.monotonic() + seconds
        self._socket.settimeout(seconds)
        # A server that hangs up on a request may have said why.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(request)
        status, version, headers = self._head()
        while status < _INFORMATIONAL_BELOW:
            status, version, headers = self._head()
        body, ended = self._body(status, headers)
        stays = version == "HTTP/1.1" and "close" not in headers.get("connection", "").lower()
        return Reply(status, headers, body, reusable=stays and ended)

    def _head(self) -> tuple[int, str, dict[str, str]]:
        """Status, version and headers."""
        text = self._until(_BLANK_LINE).decode("latin-1")
        first, *lines = text.split("\r\n")
        version, _, rest = first.partition(" ")
        code = rest[:3]
        if not version.startswith("HTTP/1.") or not code.isdigit():
            raise BrokenAnswerError("the answer does not begin with a status")
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            key, value = name.lower(), value.strip()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        return int(code), version, headers

    def _body(self, status: int, headers: dict[str, str]) -> tuple[bytes, bool]:
        """The body, and whether its length was known before the connection ended."""
        if status in _WITHOUT_BODY:
            return b"", True
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return b"".join(self._chunks()), True
        length = headers.get("content-length")
        if length is None:
            return b"".join(self._rest()), False
        if not length.isdigit():
            raise BrokenAnswerError("the length of the answer is no number")
        return self._exactly(int(length)), True

    def _chunks(self) -> Iterator[bytes]:
        while size := self._chunk_size():
            yield self._exactly(size)
            if self._exactly(2) != _LINE_END:
                raise BrokenAnswerError("a chunk is longer than it said")
        while self._until(_LINE_END):
            """Passes over trailers."""

    def _chunk_size(self) -> int:
        text = self._until(_LINE_END).partition(b";")[0].strip()
        try:
            return int(text, 16)
        except ValueError:
            raise BrokenAnswerError("the size of a chunk is no number") from None

    def _rest(self) -> Iterator[bytes]:
        """Everything to the end of the connection."""
        yield self._received[self._taken :]
        self._received, self._taken = b"", 0
        while chunk := self._receive():
            yield chunk

    def _until(self, mark: bytes) -> bytes:
        """Return the bytes before the mark; both are consumed."""
        while (end := self._received.find(mark, self._taken)) < 0:
            if len(self._received) - self._taken > _LONGEST_HEAD:
                raise BrokenAnswerError("the head of the answer is too long")
            self._received, self._taken = self._received[self._taken :] + self._more(), 0
        before, self._taken = self._received[self._taken : end], end + len(mark)
        return before

    def _exactly(self, size: int) -> bytes:
        missing = size - (len(self._received) - self._taken)
        if missing > 0:
            parts = [self._received[self._taken :]]
            while missing > 0:
                parts.append(self._more())
                missing -= len(parts[-1])
            self._received, self._taken = b"".join(parts), 0
        content = self._received[self._taken : self._taken + size]
        self._taken += size
        if self._taken == len(self._received):
            self._received, self._taken = b"", 0  # a connection that waits keeps no answer
        return content

    def _more(self) -> bytes:
        chunk = self._receive()
        if not chunk:
            raise ConnectionResetError("the server closed the connection before its answer ended")
        return chunk

    def _receive(self) -> bytes:
        left = self._deadline - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        return self._socket.recv(_RECEIVED)


class ConnectionPool:
    """Connections to one server that wait for their next request; shared by threads."""

    def __init__(self, size: int) -> None:
        """Makes an empty pool.

        Args:
            size: connections that are kept.
        """
        self._size = size
        self._idle: list[Connection] = []
        self._lock = threading.Lock()

    def take(self, connect: Callable[[], Connection]) -> Connection:
        """Return the last used connection if the server still holds it, else a new one."""
        while (connection := self._pop()) is not None:
            if connection.is_idle():
                return connection
            connection.close()
        return connect()

    def put(self, connection: Connection) -> None:
        """Keep a connection for the next request."""
        with self._lock:
            if len(self._idle) < self._size:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close the connections that wait."""
        while (connection := self._pop()) is not None:
            connection.close()

    def _pop(self) -> Connection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None
