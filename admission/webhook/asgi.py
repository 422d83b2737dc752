"""Runs a WSGI application inside the event loop, without a thread in between.

Right for handlers that only compute, as reviews do: handing a request of 0.2 ms to a thread and
back costs more than the request. Wrong for any handler that waits or takes long: paths where a
long body may come are named, and such a body is handled in a thread.
"""

import asyncio
import io
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any, Final
from wsgiref.types import StartResponse, WSGIApplication

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_SERVER_ERROR: Final = 500
_THREADS: Final = 2
_SHORT_BYTES: Final = 64 * 1024
"""A body that is handled in a millisecond or two, also where longer ones may come."""
_UNPREFIXED: Final = {"content-type": "CONTENT_TYPE"}


class InlineAdapter:
    """An ASGI application that answers HTTP requests with a WSGI application.

    A body over the limit is read to its end, so that the sender gets to see the answer, but not
    kept: the application learns its length and finds it empty.
    """

    def __init__(
        self,
        app: WSGIApplication,
        max_body_bytes: int,
        *,
        long_paths: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Prepares the adapter.

        Args:
            app: the application.
            max_body_bytes: limit on the body of a request.
            long_paths: paths with limits of their own, where a long body is handled in a thread.
        """
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._long_paths = long_paths
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="long")

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serves one request; other protocols are refused by closing."""
        if scope["type"] != "http":
            return
        limit = self._long_paths.get(scope["path"])
        read = await self._read(receive, self._max_body_bytes if limit is None else limit)
        if read is None:
            return  # the client is gone
        body, length = read
        response, environ = _Response(), _environ(scope, body, length)
        if limit is None or length <= _SHORT_BYTES:
            content = response.run(self._app, environ)
        else:
            loop = asyncio.get_running_loop()
            content = await loop.run_in_executor(self._threads, response.run, self._app, environ)
        await send(
            {"type": "http.response.start", "status": response.status, "headers": response.headers}
        )
        await send({"type": "http.response.body", "body": content})

    @staticmethod
    async def _read(receive: Receive, limit: int) -> tuple[bytes, int] | None:
        chunks: list[bytes] = []
        length = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            chunk = message.get("body", b"")
            length += len(chunk)
            if length <= limit:
                chunks.append(chunk)
            else:
                chunks.clear()
            if not message.get("more_body", False):
                return b"".join(chunks), length


class _Response:
    """What a WSGI application answered."""

    def __init__(self) -> None:
        self.status = _SERVER_ERROR
        self.headers: list[tuple[bytes, bytes]] = []

    def run(self, app: WSGIApplication, environ: dict[str, Any]) -> bytes:
        """Calls the application and takes its whole answer."""
        start: StartResponse = self._start
        parts: Iterable[bytes] = app(environ, start)
        try:
            return b"".join(parts)
        finally:
            if close := getattr(parts, "close", None):
                close()

    def _start(
        self, status: str, headers: list[tuple[str, str]], exc_info: object = None, /
    ) -> Callable[[bytes], object]:
        del exc_info
        self.status = int(status[:3])
        self.headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers
        ]
        return _refuse_write


def _refuse_write(_data: bytes) -> object:
    raise NotImplementedError("write() of WSGI is not offered")


def _environ(scope: Message, body: bytes, length: int) -> dict[str, Any]:
    host, port = scope.get("server") or ("localhost", 0)
    client = scope.get("client") or ("", 0)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": scope["path"].encode().decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "CONTENT_LENGTH": str(length),
        "SERVER_NAME": str(host),
        "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": str(client[0]),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "https"),
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in {"content-length", "transfer-encoding"}:
            continue  # the body was read; its length is known
        key = _UNPREFIXED.get(name) or f"HTTP_{name.upper().replace('-', '_')}"
        environ[key] = f"{environ[key]},{value}" if key in environ else value
    return environ
