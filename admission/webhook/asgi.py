"""Runs a WSGI application inside the event loop, and bounds what requests may take of it.

A short request is answered in the event loop: to hand a request of 0.2 ms to a thread and back
costs more than the request. A long body is handled in a thread, so that the short requests of
others are answered meanwhile. Bodies have a length, a time in which they must arrive, and a share
of one budget of memory; a request that exceeds one of them is still given to the application,
with the problem and the first bytes of its body, so that the answer can repeat its uid.
"""

import asyncio
import io
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final
from wsgiref.types import StartResponse, WSGIApplication

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

RECEIVED: Final = "gpu_admission.received"
"""Key of the `Received` body in the environment of the WSGI application."""

PREFIX_BYTES: Final = 64 * 1024
"""Bytes of a refused body that are kept. The uid is in the first 200 bytes of a review."""

BYTES_IN_FLIGHT: Final = 96 * 1024 * 1024
"""Bodies over 64 KiB in memory at once. A conversion takes three times its body: the objects, the
converted ones and the answer; the container's limit is 512Mi, of which the program takes 90."""

TIMED_OUT: Final = 408
TOO_LARGE: Final = 413
TOO_MANY: Final = 429
BUSY: Final = "too many large requests are being answered at once: try again"

_SERVER_ERROR: Final = 500
_THREADS: Final = 2
_SHORT_BYTES: Final = 64 * 1024
"""A body that is handled in a millisecond or two."""
_MAX_DISCARDED_BYTES: Final = 64 * 1024 * 1024
"""How much of a body that is too large is read, so that its sender sees the answer."""
_ANSWER_SECONDS: Final = 20.0
_PIECE_BYTES: Final = 256 * 1024
_UNPREFIXED: Final = {"content-type": "CONTENT_TYPE"}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the size and time of a request to a path.

    Attributes:
        max_bytes: most bytes of its body.
        seconds: in which the body must have arrived and a thread be free for it. A long one waits
            half of that for memory. API servers wait 5 s for a review, see
            ``configuration.TIMEOUT_SECONDS``, so this is less.
        waits: the application may wait for somebody else, so that it is called in a thread.
    """

    max_bytes: int
    seconds: float = 4.0
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Received:
    """The body of a request, or why it was not taken.

    Attributes:
        body: all of it; the first bytes where there is a problem.
        length: bytes that came.
        code: HTTP status of the problem; 0 if there is none.
        problem: what exceeded which limit.
    """

    body: bytes
    length: int
    code: int = 0
    problem: str = ""


class Budget:
    """A limit on the bytes of all requests together, and on those of each client.

    First come, first served; who waits for a client that has its part holds nobody else up.
    """

    def __init__(self, total: int, part: int) -> None:
        """Prepares the limit.

        Args:
            total: of all.
            part: of one client.
        """
        self._free = total
        self._part = part
        self._held: Counter[str] = Counter()
        self._waiting: dict[asyncio.Future[None], tuple[str, int]] = {}

    async def take(self, client: str, size: int) -> None:
        """Take bytes, as soon as there are so many and nobody who may have them came before."""
        granted = asyncio.get_running_loop().create_future()
        self._waiting[granted] = client, size
        self._grant()
        try:
            await granted
        except asyncio.CancelledError:
            if self._waiting.pop(granted, None) is None:
                self.give(client, size)
            else:
                self._grant()
            raise

    def give(self, client: str, size: int) -> None:
        """Give bytes back."""
        self._free += size
        self._held[client] -= size
        if not self._held[client]:
            del self._held[client]
        self._grant()

    def _grant(self) -> None:
        for granted, (client, size) in tuple(self._waiting.items()):
            if self._held[client] + size > self._part:
                continue
            if size > self._free:
                break
            del self._waiting[granted]
            self._free -= size
            self._held[client] += size
            if not granted.done():  # else `take` is about to give it back
                granted.set_result(None)


class InlineAdapter:
    """An ASGI application that answers HTTP requests with a WSGI application."""

    def __init__(
        self,
        app: WSGIApplication,
        limits: Limits,
        *,
        paths: Mapping[str, Limits] = MappingProxyType({}),
        bytes_in_flight: int = BYTES_IN_FLIGHT,
    ) -> None:
        """Prepares the adapter.

        Args:
            app: the application; called from the event loop and from threads.
            limits: of requests.
            paths: paths with limits of their own.
            bytes_in_flight: of all bodies over 64 KiB together, of one client half of it; each at
                least the largest limit.
        """
        self._app = app
        self._limits = limits
        self._paths = paths
        largest = max(limit.max_bytes for limit in (limits, *paths.values()))
        total = max(bytes_in_flight, largest)
        self._budget = Budget(total, max(total // 2, largest))
        # Apart: a slow API server must not hold up long reviews, nor these a scrape.
        self._long, self._waiting = _Threads("long"), _Threads("waiting")

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serves one request; other protocols are refused by closing."""
        if scope["type"] != "http":
            return
        limits = self._paths.get(scope["path"], self._limits)
        body = _Body(limits, self._budget, _client(scope), _declared(scope))
        deadline = asyncio.get_running_loop().time() + limits.seconds
        try:
            received = await body.read(receive, deadline)
            if received is None:
                return  # the client is gone
            response = await self._answer(scope, received, body, deadline)
            del received
            async with asyncio.timeout(_ANSWER_SECONDS):
                await response.send(send)
        finally:
            body.release()

    async def _answer(
        self, scope: Message, received: Received, body: "_Body", deadline: float
    ) -> "_Response":
        response = _Response()
        is_short = received.length <= _SHORT_BYTES and not body.limits.waits
        if received.problem or is_short:
            response.run(self._app, _environ(scope, received))
            return response
        threads = self._waiting if body.limits.waits else self._long
        try:
            async with asyncio.timeout_at(deadline):
                await threads.free.acquire()
        except TimeoutError:
            prefix = received.body[:PREFIX_BYTES]
            late = Received(prefix, received.length, TOO_MANY, BUSY)
            response.run(self._app, _environ(scope, late))
            return response
        job = threads.run(response.run, self._app, _environ(scope, received))
        try:
            await asyncio.shield(job)
        except asyncio.CancelledError:
            body.release_after(job)
            raise
        return response


class _Threads:
    """A few threads; ``free`` is acquired before one of them runs something."""

    def __init__(self, name: str) -> None:
        self.free = asyncio.Semaphore(_THREADS)
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix=name)

    def run(self, function: Callable[..., None], *arguments: Any) -> "asyncio.Future[None]":
        """Run a function in a thread, which is free again at its end."""
        loop = asyncio.get_running_loop()
        job = loop.run_in_executor(self._executor, function, *arguments)
        job.add_done_callback(lambda _: self.free.release())
        return job


class _Body:
    """The body of one request while it is read, and its share of the budget."""

    def __init__(self, limits: Limits, budget: Budget, client: str, declared: int | None) -> None:
        self.limits = limits
        self._budget = budget
        self._client = client
        self._declared = declared
        self._chunks: list[bytes] = []
        self._length = 0
        self._taken = 0
        self._code = 0
        self._problem = ""

    async def read(self, receive: Receive, deadline: float) -> Received | None:
        """Return the body, or what came of it before a limit; None if the client is gone.

        What exceeds a limit is still read, and dropped: to close before that would reset the
        connection, and the sender would not see the answer.
        """
        max_bytes = self.limits.max_bytes
        if (self._declared or 0) > max_bytes:
            self._refuse(TOO_LARGE, f"request body is larger than {max_bytes} bytes")
        try:
            async with asyncio.timeout_at(deadline):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None
                    await self._add(message.get("body", b""), deadline)
                    is_over = not message.get("more_body", False)
                    if is_over or (self._problem and self._length > _MAX_DISCARDED_BYTES):
                        break
        except TimeoutError:
            declared = "" if self._declared is None else f" of {self._declared}"
            self._refuse(
                TIMED_OUT,
                f"request body did not arrive within {self.limits.seconds:g} s:"
                f" {self._length}{declared} bytes came; try again",
            )
        body = b"".join(self._chunks)
        self._chunks.clear()
        return Received(body, self._length, self._code, self._problem)

    async def _add(self, chunk: bytes, deadline: float) -> None:
        """Keep a chunk, with a share of the budget once the body is long."""
        self._length += len(chunk)
        if self._length > self.limits.max_bytes:
            self._refuse(TOO_LARGE, f"request body is larger than {self.limits.max_bytes} bytes")
        self._chunks.append(chunk)
        if self._length > _SHORT_BYTES and not self._taken and not self._problem:
            try:
                async with asyncio.timeout_at(deadline - self.limits.seconds / 2):
                    await self._take()
            except TimeoutError:
                self._refuse(TOO_MANY, BUSY)
        if self._problem:
            self._keep_prefix()

    def release(self) -> None:
        """Give the share back."""
        self._chunks.clear()
        taken, self._taken = self._taken, 0
        if taken:
            self._budget.give(self._client, taken)

    def release_after(self, job: "asyncio.Future[None]") -> None:
        """Give the share back once a thread is done with the body, whose client is gone."""
        taken, self._taken = self._taken, 0
        job.add_done_callback(lambda _: self._budget.give(self._client, taken))

    async def _take(self) -> None:
        max_bytes = self.limits.max_bytes
        size = max_bytes if self._declared is None else min(self._declared, max_bytes)
        await self._budget.take(self._client, size)
        self._taken = size

    def _refuse(self, code: int, problem: str) -> None:
        """Keep the first bytes only; the first problem counts."""
        if not self._problem:
            self._code, self._problem = code, problem
        self._keep_prefix()

    def _keep_prefix(self) -> None:
        if sum(map(len, self._chunks)) > PREFIX_BYTES:
            self._chunks = [b"".join(self._chunks)[:PREFIX_BYTES]]
        taken, self._taken = self._taken, 0
        self._budget.give(self._client, taken)


def _client(scope: Message) -> str:
    """The address of who sent the request; empty if it is not known."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def _declared(scope: Message) -> int | None:
    """The length that the request names for its body; None if it does not."""
    for name, value in scope["headers"]:
        if name.lower() == b"content-length" and value.isdigit():
            return int(value)
    return None


class _Response:
    """What a WSGI application answered."""

    def __init__(self) -> None:
        self.status = _SERVER_ERROR
        self.headers: list[tuple[bytes, bytes]] = []
        self._content = b""

    def run(self, app: WSGIApplication, environ: dict[str, Any]) -> None:
        """Calls the application and takes its whole answer."""
        start: StartResponse = self._start
        parts: Iterable[bytes] = app(environ, start)
        try:
            self._content = b"".join(parts)
        finally:
            if close := getattr(parts, "close", None):
                close()

    async def send(self, send: Send) -> None:
        """Sends the answer."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        # In pieces: TLS and the socket would each keep a copy of the whole.
        pieces = range(0, max(len(self._content), 1), _PIECE_BYTES)
        for start in pieces:
            piece = self._content[start : start + _PIECE_BYTES]
            await send(
                {"type": "http.response.body", "body": piece, "more_body": start != pieces[-1]}
            )

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


def _environ(scope: Message, received: Received) -> dict[str, Any]:
    host, port = scope.get("server") or ("localhost", 0)
    client = scope.get("client") or ("", 0)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": scope["path"].encode().decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "CONTENT_LENGTH": str(received.length),
        "SERVER_NAME": str(host),
        "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": str(client[0]),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "https"),
        RECEIVED: received,
        "wsgi.input": io.BytesIO(b"" if received.problem else received.body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
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
