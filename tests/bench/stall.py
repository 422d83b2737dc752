"""(stall) What one client can take from the others: pods of thousands of containers, slow bodies.

The webhook runs as shipped, beside an API server that does not ask it anything.
"""

import socket
import statistics
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from admission.base import names
from admission.base.clock import SystemClock
from tests.bench import processes, wire
from tests.bench.figures import Figures
from tests.bench.stage import QUEUES, Stage
from tests.controlplane.cluster import Cluster
from tests.webhook.reviews import MUTATE, make_review

CONVERT: Final = "/convert"

_LARGE: Final = 4000
_TOO_LARGE: Final = 16_000
_SIDE_BY_SIDE: Final = 3
_SLOW_CLIENTS: Final = 10
_SLOW_BYTES: Final = 60 * 1024 * 1024
_PIECE_BYTES: Final = 256 * 1024
_SEND_SECONDS: Final = 15.0
_WARM_UP: Final = 20
_HEADERS: Final = {"Content-Type": "application/json"}


class Stall:
    """Measures the part on a stage of its own.

    Args:
        stage: where.
        say: tells of progress.
    """

    def __init__(self, stage: Stage, say: Callable[[str], None]) -> None:
        self._stage = stage
        self._say = say
        self._monotonic = SystemClock().monotonic

    def run(self, runs: int) -> Figures:
        """The medians of all runs."""
        slow = f"{_SLOW_CLIENTS} bodies of {_SLOW_BYTES >> 20} MiB that stop short"
        parts: tuple[tuple[str, str, Callable[[], float]], ...] = (
            (
                f"CPU of a review of {_LARGE:,} containers",
                "seconds",
                lambda: self._review_cpu(_LARGE),
            ),
            (
                f"CPU of a review of {_TOO_LARGE:,} containers",
                "seconds",
                lambda: self._review_cpu(_TOO_LARGE),
            ),
            (
                f"slowest small review beside {_SIDE_BY_SIDE} of {_LARGE:,}",
                "ms",
                self._slowest_beside,
            ),
            (f"memory with {slow}", "MiB", self._peak_of_slow_bodies),
        )
        return {name: self._measured(name, unit, one, runs) for name, unit, one in parts}

    def _measured(self, name: str, unit: str, one: Callable[[], float], runs: int) -> Figures:
        """Each run has a webhook that has done nothing yet, so that its peak of memory counts."""
        found = []
        for _ in range(runs):
            with self._stage.webhook_alone():
                found.append(one())
            self._say(f"(stall) {name}: {found[-1]} {unit}")
        return {unit: statistics.median(found), "runs": found}

    def _review_cpu(self, containers: int) -> float:
        """CPU seconds; those on the clock where the review ended with the process."""
        connection = self._warm()
        before, started = processes.cpu_seconds(self._pids()), self._monotonic()
        try:
            connection.send("POST", MUTATE, review_of(self._stage.namespace, containers))
            used = processes.cpu_seconds(self._pids()) - before
        except ConnectionError as closed:
            self._say(f"(stall) {containers:,} containers: {closed}")
            used = self._monotonic() - started
        connection.close()
        return round(used, 2)

    def _slowest_beside(self) -> float:
        """Of the small reviews that are asked one by one while the large ones are under way."""
        large, small = (review_of(self._stage.namespace, count) for count in (_LARGE, 1))
        connection, others = self._warm(), [self._connect() for _ in range(_SIDE_BY_SIDE)]
        seconds = []
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as threads:
            asked = [threads.submit(other.send, "POST", MUTATE, large) for other in others]
            while not all(one.done() for one in asked):
                started = self._monotonic()
                connection.send("POST", MUTATE, small)
                seconds.append(self._monotonic() - started)
        for one in (connection, *others):
            one.close()
        return round(1e3 * max(seconds), 1)

    def _peak_of_slow_bodies(self) -> float:
        installed = self._stage.installed
        with ExitStack() as opened, ThreadPoolExecutor(_SLOW_CLIENTS) as threads:
            sockets = [
                opened.enter_context(wire.connect(installed.webhook_port, self._ca_file()))
                for _ in range(_SLOW_CLIENTS)
            ]
            list(threads.map(lambda one: withhold(one, CONVERT, _SLOW_BYTES), sockets))
            return processes.peak_mib(self._pids())

    def _warm(self) -> wire.Connection:
        """A connection on which small reviews were answered."""
        connection = self._connect()
        for _ in range(_WARM_UP):
            connection.send("POST", MUTATE, review_of(self._stage.namespace, 1))
        return connection

    def _connect(self) -> wire.Connection:
        return wire.Connection(self._stage.installed.webhook_port, self._ca_file(), {})

    def _ca_file(self) -> Path:
        return self._stage.installed.certificates / "ca.crt"

    def _pids(self) -> tuple[int, ...]:
        return self._stage.pids()["webhook"]


def review_of(namespace: str, containers: int) -> bytes:
    """A review of the creation of a pod in a queue, each of whose containers asks for a GPU."""
    amounts = {names.GPU_RESOURCE: "1"}
    found: list[dict[str, Any]] = [
        {
            "name": f"c{number}",
            "image": "train",
            "resources": {"requests": amounts, "limits": amounts},
        }
        for number in range(containers)
    ]
    metadata = {"name": "large", "namespace": namespace, "labels": {names.QUEUE_LABEL: QUEUES[0]}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": found},
    }
    return msgspec.json.encode(make_review(pod, namespace=namespace, name="large"))


def withhold(connection: socket.socket, path: str, length: int) -> None:
    """Send all of a body but its last byte, as far as the server takes it."""
    head = wire.request("POST", path, _HEADERS).replace(
        b"Content-Length: 0", f"Content-Length: {length}".encode()
    )
    piece = b" " * _PIECE_BYTES
    connection.settimeout(_SEND_SECONDS)
    with suppress(OSError):  # refused, closed, or not read any more
        connection.sendall(head)
        for begin in range(0, length - 1, _PIECE_BYTES):
            connection.sendall(piece[: min(_PIECE_BYTES, length - 1 - begin)])


def measure(runs: int, say: Callable[[str], None]) -> Figures:
    """Starts what is needed, and measures."""
    with Cluster.start() as cluster, tempfile.TemporaryDirectory() as folder:
        return Stall(Stage(cluster, Path(folder), None), say).run(runs)
