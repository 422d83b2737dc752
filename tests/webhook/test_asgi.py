"""A WSGI application sees what it would see under any server, and its whole answer is sent."""

import asyncio
import threading
from collections.abc import Iterable
from typing import Any

from flask import Flask, Response, request

from admission.webhook.asgi import InlineAdapter

Message = dict[str, Any]


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
    asyncio.run(InlineAdapter(app, limit)(described, receive, send))
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


def test_a_long_path_has_a_limit_of_its_own_and_a_long_body_leaves_the_loop_free():
    handled = []

    def app(environ: Any, start: Any) -> list[bytes]:
        start("200 OK", [])
        found = environ["wsgi.input"].read()
        handled.append((len(found), threading.current_thread() is threading.main_thread()))
        return []

    async def all_of_them() -> None:
        adapter = InlineAdapter(app, 3, long_paths={"/long": 200_000})
        for path, size in (("/a", 5), ("/long", 5), ("/long", 100_000), ("/long", 200_001)):
            await post(adapter, path, size)

    asyncio.run(all_of_them())
    assert handled == [(0, True), (5, True), (100_000, False), (0, False)]


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
