"""A webhook process for tests: ``python -m tests.webhook.served DIRECTORY PORT WORKER``.

Prints ``ready`` when it serves. ``POST /slow`` prints ``slow`` and answers once something is
written into the pipe ``release`` of the directory.
"""

import sys
from pathlib import Path

from flask import Flask

from admission.app import serving
from admission.base.clock import SystemClock
from certs import files
from tests.webhook import reviews

MAX_CONNECTIONS = 20
HOSTS = ("localhost", "127.0.0.1")


def make_app(directory: Path) -> Flask:
    app = reviews.make_app(max_body_bytes=1024 * 1024)

    @app.post("/slow")
    def slow() -> str:
        print("slow", flush=True)
        return (directory / "release").read_text()

    return app


def main(directory: Path, port: int, worker_class: str) -> None:
    serving.serve(
        app=lambda: make_app(directory),
        host="127.0.0.1",
        port=port,
        certificates=files.ensure(directory, HOSTS, SystemClock().now()),
        after_fork=lambda: print("ready", flush=True),
        worker_class=worker_class,
        max_connections=MAX_CONNECTIONS,
        first_request_seconds=1.0,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
