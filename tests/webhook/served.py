"""A webhook process for tests.

``python -m tests.webhook.served DIRECTORY PORT WORKER [SECONDS [CA]]``

Prints ``ready`` when it serves, with the id of the serving process. ``POST /slow`` prints ``slow``
and answers once something is written into the pipe ``release`` of the directory.
"""

import os
import sys
from pathlib import Path

from flask import Flask

from admission.base.clock import SystemClock
from admission.run import serving
from admission.webhook import convert
from admission.webhook.asgi import Limits
from certs import files
from tests.webhook import reviews

MAX_CONNECTIONS = 20
MAX_BODY_BYTES = 1024 * 1024
MAX_CONVERT_BYTES = 6 * 1024 * 1024
BYTES_IN_FLIGHT = 8 * 1024 * 1024
BODY_SECONDS = 2.0
HOSTS = ("localhost", "127.0.0.1")


def make_app(directory: Path) -> Flask:
    app = reviews.make_app(max_body_bytes=MAX_BODY_BYTES)

    @app.post("/slow")
    def slow() -> str:
        print("slow", flush=True)
        return (directory / "release").read_text()

    return app


def main(
    directory: Path,
    port: int,
    worker_class: str,
    first_request_seconds: str = "1",
    client_authority: str = "",
) -> None:
    serving.serve(
        app=lambda: make_app(directory),
        host="127.0.0.1",
        port=port,
        certificates=files.ensure(directory, HOSTS, SystemClock().now()),
        after_fork=lambda: print("ready", os.getpid(), flush=True),
        worker_class=worker_class,
        max_connections=MAX_CONNECTIONS,
        first_request_seconds=float(first_request_seconds),
        client_authority=Path(client_authority) if client_authority else None,
        limits=Limits(MAX_BODY_BYTES, BODY_SECONDS),
        paths={convert.PATH: Limits(MAX_CONVERT_BYTES, BODY_SECONDS)},
        bytes_in_flight=BYTES_IN_FLIGHT,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
