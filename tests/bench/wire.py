"""HTTP/1.1 over TLS with as little work per request as Python allows.

The load must not be what is measured: ``http.client`` takes three times the CPU for a request.
"""

import socket
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_CHUNK: Final = 65536
_HEAD_END: Final = b"\r\n\r\n"


def connect(port: int, ca_file: Path) -> ssl.SSLSocket:
    """A TLS connection to a server on 127.0.0.1."""
    context = ssl.create_default_context(cafile=str(ca_file))
    plain = socket.create_connection(("127.0.0.1", port), timeout=300)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def request(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """A request as it is sent."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def status_of(head: bytes) -> int:
    """The status of an answer's head."""
    return int(head.split(b" ", 2)[1])


def length_of(head: bytes) -> int | None:
    """Bytes of the body that follow an answer's head; None where it comes in chunks."""
    lowered = head.lower()
    at = lowered.find(b"\r\ncontent-length:")
    if at < 0:
        return None
    start = at + len(b"\r\ncontent-length:")
    return int(lowered[start : lowered.find(b"\r\n", start)])


class Connection:
    """One connection that is kept open; requests go one after the other."""

    def __init__(self, port: int, ca_file: Path, headers: Mapping[str, str]) -> None:
        self._socket = connect(port, ca_file)
        self._headers = headers
        self._rest = b""

    def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        """Status and body of the answer."""
        headers = {**self._headers, "Content-Type": content_type}
        self._socket.sendall(request(method, path, headers, body))
        head = self._until(_HEAD_END)
        length = length_of(head + b"\r\n")
        text = b"".join(self._chunks()) if length is None else self._exactly(length)
        return status_of(head), text

    def stream(self, path: str) -> Iterator[bytes]:
        """Lines of an answer that has no end; the connection is of no other use then.

        Raises:
            ConnectionError: the server ended it or refused.
        """
        self._socket.settimeout(None)
        self._socket.sendall(request("GET", path, self._headers))
        head = self._until(_HEAD_END)
        if status_of(head) != 200:
            raise ConnectionError(head.decode())
        partial = b""
        for chunk in self._chunks():
            *lines, partial = (partial + chunk).split(b"\n")
            yield from lines

    def close(self) -> None:
        self._socket.close()

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self._until(b"\r\n"), 16):
            yield self._exactly(size)
            self._exactly(2)
        self._until(b"\r\n")

    def _until(self, mark: bytes) -> bytes:
        while (at := self._rest.find(mark)) < 0:
            self._more()
        found, self._rest = self._rest[:at], self._rest[at + len(mark) :]
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._more()
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    def _more(self) -> None:
        received = self._socket.recv(_CHUNK)
        if not received:
            raise ConnectionError("the server closed the connection")
        self._rest += received
