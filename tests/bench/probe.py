"""Looks how old the status of queues is, on a queue of which everything is known.

The probe's queue admits nothing. Workloads are added to it at intervals shorter than the status
is written, so ``pendingWorkloads`` says which of them the status knows. Each costs about as much
as one of the load, so under the load there are few.
"""

import threading
from collections import Counter
from typing import Any, Final

import msgspec

from admission.base.clock import SystemClock
from tests.bench import shape
from tests.bench.ages import ages
from tests.bench.crew import Crew, Server

_IDLE_INTERVAL_SECONDS: Final = 0.25
_LOADED_INTERVAL_SECONDS: Final = 1.0

_KINDS: Final = {
    "ClusterQueue": "/apis/kueue.x-k8s.io/v1beta2/clusterqueues",
    "LocalQueue": "/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/localqueues",
}
_CREATED: Final = 201


class _Status(msgspec.Struct, rename="camel", frozen=True, gc=False):
    pending_workloads: int = 0


class _Queue(msgspec.Struct, frozen=True, gc=False):
    status: _Status = _Status()


class _Event(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: _Queue


class Probe:
    """Adds Workloads to the queue and notes what its statuses say.

    Attributes:
        writes: of the probe, by kind.
    """

    def __init__(
        self,
        server: Server,
        namespace: str,
        queue: str,
        crew: Crew,
    ) -> None:
        self.writes: Counter[str] = Counter()
        self._server = server
        self._namespace = namespace
        self._queue = queue
        self._crew = crew
        self._clock = SystemClock()
        self._made: list[float] = []
        self._shown: dict[str, list[tuple[float, int]]] = {kind: [] for kind in _KINDS}
        self._interval = _IDLE_INTERVAL_SECONDS
        self._stopping = threading.Event()

    def start(self) -> None:
        """Begins to look."""
        for kind, path in _KINDS.items():
            self._crew.start(self._watch, kind, path.format(namespace=self._namespace))
        self._crew.start(self._make)

    def load_begins(self) -> None:
        """Adds Workloads less often."""
        self._interval = _LOADED_INTERVAL_SECONDS

    def stop(self) -> None:
        """Adds no more Workloads."""
        self._stopping.set()

    def ages(self, start: float, end: float) -> dict[str, list[float]]:
        """Ages of the statuses by kind between two moments of the monotonic clock."""
        return {kind: ages(self._made, shown, start, end) for kind, shown in self._shown.items()}

    def _make(self) -> None:
        connection = self._server.connect()
        path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{self._namespace}/workloads"
        while not self._stopping.wait(self._interval):
            body: dict[str, Any] = shape.workload(f"{self._queue}-{len(self._made)}", self._queue)
            status, answer = connection.send("POST", path, msgspec.json.encode(body))
            if status != _CREATED:
                raise RuntimeError(f"probe: {status} {answer.decode()}")
            self._made.append(self._clock.monotonic())
            self.writes["POST workloads"] += 1

    def _watch(self, kind: str, path: str) -> None:
        decoder = msgspec.json.Decoder(_Event)
        query = f"fieldSelector=metadata.name%3D{self._queue}&timeoutSeconds=3600&watch=true"
        while True:  # a new watch begins with what there is
            for line in self._server.connect().stream(f"{path}?{query}"):
                count = decoder.decode(line).object.status.pending_workloads
                self._shown[kind].append((self._clock.monotonic(), count))
