"""A WSGI application sees what it would see under any server, and its whole answer is sent."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

import pytest
from flask import Flask, Response, request

from admission.webhook.asgi import RECEIVED, InlineAdapter, Limits, Received
from tests.clocks import MovedLoop
from tests.controlplane.waiting import PATIENCE_SECONDS

Message = dict[str, Any]
T = TypeVar("T")


def make_flask() -> Flask:
    app = Flask("test")

    @app.route("/<path:rest>", methods=["GET", "POST"])
    def echo(rest: str) -> Response:
        seen = {
            "method": request.method,
            "path": request.path,
            "query": request.query_string.decode(),
            "type": request.content_type,
            "header": request.headers.get("X-Many"),
            "body": request.get_data(as_text=True),
            "client": request.remote_addr,
            "url": request.url,
        }
        return Response(repr(seen), status=418, headers={"X-Answer": "yes"})

    return app


def run(app: Any, messages: Iterable[Message], *, limit: int = 100, **scope: Any) -> list[Message]:
    """The messages that the adapter sends for a request."""
    queue = list(messages)
    sent: list[Message] = []

    async def receive() -> Message:
        return queue.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    described: Message = {
        "type": "http", "method": "POST", "path": "/a", "query_string": b"", "headers": [],
        "scheme": "https", "server": ("127.0.0.1", 9443), "client": ("10.0.0.1", 1), **scope,
    }  # fmt: skip

    async def call() -> None:
        await InlineAdapter(app, Limits(limit))(described, receive, send)

    asyncio.run(call())
    return sent


def body(*chunks: bytes) -> list[Message]:
    last = len(chunks) - 1
    return [
        {"type": "http.request", "body": chunk, "more_body": index < last}
        for index, chunk in enumerate(chunks)
    ]


def test_a_request_arrives_whole():
    headers = [
        (b"Content-Type", b"text/plain"),
        (b"x-many", b"1"),
        (b"X-Many", b"2"),
        (b"host", b"hook.example:9443"),
        (b"transfer-encoding", b"chunked"),
    ]
    start, content = run(
        make_flask(), body(b"he", b"llo"), path="/ä/b", query_string=b"t=5s", headers=headers
    )
    assert (start["type"], start["status"]) == ("http.response.start", 418)
    assert (b"x-answer", b"yes") in start["headers"]
    assert content["body"].decode() == repr(
        {
            "method": "POST",
            "path": "/ä/b",
            "query": "t=5s",
            "type": "text/plain",
            "header": "1,2",
            "body": "hello",
            "client": "10.0.0.1",
            "url": "https://hook.example:9443/ä/b?t=5s",
        }
    )


def test_a_body_over_the_limit_is_counted_but_not_kept():
    def app(environ: Message, start_response: Any) -> list[bytes]:
        start_response("413 Too Large", [])
        return [environ["CONTENT_LENGTH"].encode(), b":", environ["wsgi.input"].read()]

    start, content = run(app, body(b"x" * 60, b"y" * 60, b"z"), limit=100)
    assert (start["status"], content["body"]) == (413, b"121:")


def test_a_long_answer_is_sent_in_pieces():
    whole = bytes(range(256)) * 4000

    def app(_environ: Message, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [whole]

    _, *pieces = run(app, body(b""))
    assert b"".join(piece["body"] for piece in pieces) == whole
    assert max(len(piece["body"]) for piece in pieces) == 256 * 1024
    assert [piece["more_body"] for piece in pieces] == [True, True, True, False]


def test_a_client_that_left_gets_no_answer():
    assert run(make_flask(), [*body(b"a", b"")[:1], {"type": "http.disconnect"}]) == []


def test_other_protocols_are_left_alone():
    assert run(make_flask(), [], type="websocket") == []


def test_an_answer_is_closed_after_it_was_read():
    closed = []

    class Parts:
        def __iter__(self) -> Any:
            return iter([b"a", b"b"])

        def close(self) -> None:
            closed.append(True)

    def app(_environ: Message, start_response: Any) -> Parts:
        start_response("200 OK", [])
        return Parts()

    _, content = run(app, body(b""))
    assert (content["body"], closed) == (b"ab", [True])


def test_a_path_may_have_a_limit_of_its_own_and_a_long_body_leaves_the_loop_free():
    handled = []

    def app(environ: Any, start: Any) -> list[bytes]:
        start("200 OK", [])
        found = environ["wsgi.input"].read()
        handled.append((len(found), threading.current_thread() is threading.main_thread()))
        return []

    async def all_of_them() -> None:
        adapter = InlineAdapter(app, Limits(100_000), paths={"/long": Limits(200_000)})
        for path, size in (
            ("/a", 5), ("/a", 100_001), ("/a", 90_000), ("/long", 5), ("/long", 190_000),
            ("/long", 200_001),
        ):  # fmt: skip
            await post(adapter, path, size)

    asyncio.run(all_of_them())
    assert handled == [
        (5, True), (0, True), (90_000, False), (5, True), (190_000, False), (0, True)
    ]  # fmt: skip


def test_a_refused_body_keeps_its_first_bytes():
    seen: list[Received] = []

    def app(environ: Any, start: Any) -> list[bytes]:
        start("200 OK", [])
        seen.append(environ[RECEIVED])
        return []

    run(app, body(b"ab" * 40_000, b"c" * 40_000, b"d"), limit=90_000)
    assert (seen[0].code, seen[0].length) == (413, 120_001)
    assert seen[0].body == b"ab" * 32_768
    assert seen[0].problem == "request body is larger than 90000 bytes"


class Clients:
    """Requests in flight to one adapter, whose bodies arrive when a test says so."""

    def __init__(self, limits: Limits, bytes_in_flight: int) -> None:
        self.answers: list[Received] = []
        paths = {"/patient": Limits(limits.max_bytes, 3600)}
        self.adapter = InlineAdapter(
            self._app, limits, paths=paths, bytes_in_flight=bytes_in_flight
        )

    def _app(self, environ: Any, start: Any) -> list[bytes]:
        start("200 OK", [])
        self.answers.append(environ[RECEIVED])
        return []

    def send(
        self,
        first: bytes,
        rest: "asyncio.Future[bytes]",
        declared: int,
        path: str = "/a",
        client: str = "10.0.0.1",
    ) -> "asyncio.Task[None]":
        parts = [first]

        async def receive() -> Message:
            if parts:
                return {"type": "http.request", "body": parts.pop(), "more_body": True}
            return {"type": "http.request", "body": await rest}

        async def answered(message: Message) -> None:
            assert message

        scope = {
            "type": "http", "method": "POST", "path": path, "query_string": b"",
            "headers": [(b"content-length", str(declared).encode())], "client": (client, 1),
        }  # fmt: skip
        return asyncio.create_task(self.adapter(scope, receive, answered))


FIRST = b"x" * 70_000


def play_with_clock(play: Callable[[MovedLoop], Coroutine[Any, Any, T]]) -> T:
    """Run a play in an event loop whose clock it moves."""
    with asyncio.Runner(loop_factory=MovedLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, MovedLoop)
        return runner.run(play(loop))


async def all_wait() -> None:
    """Let every task go on until it waits for something else than its turn."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_body_that_does_not_arrive_in_time_is_answered():
    async def play(loop: MovedLoop) -> list[Received]:
        clients = Clients(Limits(200_000, 60), 400_000)
        silent = clients.send(FIRST, asyncio.Future(), 100_000)
        await all_wait()
        loop.advance(60)
        await silent
        return clients.answers

    (found,) = play_with_clock(play)
    assert (found.code, found.length) == (408, 70_000)
    assert found.problem == (
        "request body did not arrive within 60 s: 70000 of 100000 bytes came; try again"
    )


def test_bodies_share_one_budget_and_wait_for_it_in_turn():
    async def play() -> list[tuple[int, int]]:
        clients = Clients(Limits(200_000, PATIENCE_SECONDS), 250_000)
        held: list[asyncio.Future[bytes]] = [asyncio.Future() for _ in range(3)]
        tasks = [clients.send(FIRST, rest, 100_000 + i) for i, rest in enumerate(held)]
        await asyncio.sleep(0)
        for number in (2, 1, 0):  # the last one waits for one of the others
            held[number].set_result(b"y" * (30_000 + number))
        await asyncio.gather(*tasks)
        return [(one.code, one.length) for one in clients.answers]

    assert sorted(asyncio.run(play())) == [(0, 100_000), (0, 100_001), (0, 100_002)]


def test_who_finds_no_memory_in_time_is_refused_and_what_clients_held_returns_with_them():
    async def play(loop: MovedLoop) -> list[int]:
        clients = Clients(Limits(200_000, 60), 250_000)
        silent = [clients.send(FIRST, asyncio.Future(), 120_000, "/patient") for _ in range(2)]
        late = clients.send(FIRST, asyncio.Future(), 100_000)
        for _ in range(2):  # it waits for memory for half of the time, then for the rest of it
            await all_wait()
            loop.advance(30)
        await late
        for one in silent:
            one.cancel()
        await asyncio.gather(*silent, return_exceptions=True)
        done: asyncio.Future[bytes] = asyncio.Future()
        done.set_result(b"y" * 130_000)
        await clients.send(FIRST, done, 200_000, "/patient")
        return [one.code for one in clients.answers]

    assert play_with_clock(play) == [429, 0]


def test_a_client_that_holds_its_part_of_the_memory_keeps_no_other_client_waiting():
    async def play() -> list[int]:
        clients = Clients(Limits(200_000, PATIENCE_SECONDS), 800_000)
        silent = [clients.send(FIRST, asyncio.Future(), 200_000) for _ in range(9)]
        await all_wait()
        done: asyncio.Future[bytes] = asyncio.Future()
        done.set_result(b"y" * 130_000)
        for _ in range(3):
            await clients.send(FIRST, done, 200_000, client="10.0.0.2")
        for one in silent:
            one.cancel()
        await asyncio.gather(*silent, return_exceptions=True)
        return [one.code for one in clients.answers]

    assert asyncio.run(play()) == [0, 0, 0]


async def post(adapter: InlineAdapter, path: str, size: int) -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * size}

    async def send(message: Message) -> None:
        assert message

    described = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [],
    }
    await adapter(described, receive, send)


@pytest.mark.parametrize(
    ("slow", "other"),
    [("/review", "/metrics"), ("/metrics", "/review")],
    ids=["long reviews", "scrapes"],
)
def test_what_waits_for_somebody_else_and_what_takes_long_do_not_hold_up_each_other(
    slow: str, other: str
) -> None:
    sizes = {"/review": 90_000, "/metrics": 0}
    finish = threading.Event()
    answered = []

    def app(environ: Any, start: Any) -> list[bytes]:
        start("200 OK", [])
        if environ["PATH_INFO"] == slow:
            assert finish.wait(PATIENCE_SECONDS)
        answered.append((environ["PATH_INFO"], environ[RECEIVED].code))
        return []

    async def play() -> None:
        limits = Limits(100_000, PATIENCE_SECONDS)
        adapter = InlineAdapter(
            app, limits, paths={"/metrics": Limits(100_000, PATIENCE_SECONDS, waits=True)}
        )
        under_way = [asyncio.create_task(post(adapter, slow, sizes[slow])) for _ in range(2)]
        await asyncio.sleep(0)
        await post(adapter, other, sizes[other])
        assert answered == [(other, 0)]
        finish.set()
        await asyncio.gather(*under_way)

    asyncio.run(play())
