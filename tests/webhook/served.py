"""A webhook process for tests.

``python -m tests.webhook.served DIRECTORY PORT WORKER [CA]``

Prints ``ready`` when it serves, with the id of the serving process, and ``ended`` with the id of
each process that ends by itself. ``POST /slow`` prints ``slow`` and answers once something is
written into the pipe ``release`` of the directory. ``POST /advance`` moves the clock of the event
loop on by the seconds in its body: no timer of the server ends before a test says so.
"""

import asyncio
import contextlib
import os
import sys
from pathlib import Path

from flask import Flask, request

from admission.base.clock import SystemClock
from admission.run import serving
from admission.webhook import convert
from admission.webhook.asgi import Limits
from certs import files
from tests.clocks import MovedLoop
from tests.webhook import reviews

MAX_CONNECTIONS = 20
MAX_BODY_BYTES = 1024 * 1024
MAX_CONVERT_BYTES = 6 * 1024 * 1024
BYTES_IN_FLIGHT = 8 * 1024 * 1024
FIRST_REQUEST_SECONDS = 600.0
BODY_SECONDS = 25.0  # gunicorn itself gives a body up that does not go on for 30 s
HOSTS = ("localhost", "127.0.0.1")


def make_app(directory: Path) -> Flask:
    app = reviews.make_app(max_body_bytes=MAX_BODY_BYTES)

    @app.post("/slow")
    def slow() -> str:
        print("slow", flush=True)
        return (directory / "release").read_text()

    @app.post("/advance")
    def advance() -> str:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MovedLoop)
        loop.advance(float(request.get_data()))
        return "{}"

    return app


def main(directory: Path, port: int, worker_class: str, client_authority: str = "") -> None:
    asyncio.new_event_loop = MovedLoop  # what gunicorn asks for a loop
    serving.serve(
        app=lambda: make_app(directory),
        host="127.0.0.1",
        port=port,
        certificates=files.ensure(directory, HOSTS, SystemClock().now()),
        after_fork=lambda: print("ready", os.getpid(), flush=True),
        worker_class=worker_class,
        max_connections=MAX_CONNECTIONS,
        first_request_seconds=FIRST_REQUEST_SECONDS,
        client_authority=Path(client_authority) if client_authority else None,
        limits=Limits(MAX_BODY_BYTES, BODY_SECONDS),
        paths={convert.PATH: Limits(MAX_CONVERT_BYTES, BODY_SECONDS)},
        bytes_in_flight=BYTES_IN_FLIGHT,
    )
    with contextlib.suppress(BrokenPipeError):  # the test that reads it may have ended
        os.write(sys.stdout.fileno(), f"ended {os.getpid()}\n".encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
