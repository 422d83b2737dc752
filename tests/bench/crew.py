"""What every process that makes a load shares: its API server, and threads that fail together."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tests.bench.wire import Connection


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a load is for.

    Attributes:
        port: of the API server.
        ca_file: authority of its certificate.
        token: who asks.
    """

    port: int
    ca_file: str
    token: str

    def connect(self) -> Connection:
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        return Connection(self.port, Path(self.ca_file), headers)

    def version(self, path: str) -> str:
        """Where a watch of a collection begins."""
        _, body = self.connect().send("GET", f"{path}?limit=1")
        return msgspec.json.decode(body, type=_List).metadata.resource_version


class Meta(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Metadata of an object or a list."""

    name: str = ""
    resource_version: str = ""


class _List(msgspec.Struct, frozen=True):
    metadata: Meta


class Crew:
    """Threads of one load.

    Attributes:
        done: set by the thread that sees the end of the load.
    """

    def __init__(self) -> None:
        self.done = threading.Event()
        self._failures: list[BaseException] = []

    def start(self, work: Callable[..., None], *arguments: Any) -> None:
        """Begins a thread; a failure of one ends the whole load."""

        def run() -> None:
            try:
                work(*arguments)
            except BaseException as failure:  # noqa: BLE001 -- it ends the whole run
                self._failures.append(failure)
                self.done.set()

        threading.Thread(target=run, daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Waits for the end; false if it did not come in time.

        Raises:
            BaseException: the first failure of a thread.
        """
        is_done = self.done.wait(seconds)
        if self._failures:
            raise self._failures[0]
        return is_done
