"""The load: creates pods, ends each after its run time, and times what happens to them.

A process of its own: reads a `Load` as JSON from standard input, prints a `Report` as JSON.
Knows nothing of quota: whoever takes the gates off is measured, the system or the yardstick.
"""

import itertools
import queue
import resource
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from admission.base.clock import SystemClock
from tests.bench.crew import Crew, Meta, Server
from tests.bench.wire import Connection

PATCH_STATUS: Final = "PATCH pods/status"
CREATE: Final = "POST pods"
DELETE: Final = "DELETE pods"

_PATIENCE_SECONDS: Final = 300.0
_POD_SECONDS: Final = 0.2
_PAUSE_SECONDS: Final = 0.005
_MERGE: Final = "application/merge-patch+json"
_SUCCEEDED: Final = b'{"status":{"phase":"Succeeded"}}'
_AT_ONCE: Final = b'{"gracePeriodSeconds":0}'


_GROUP_NAME: Final = "kueue.x-k8s.io/pod-group-name"
_GROUP_TOTAL: Final = "kueue.x-k8s.io/pod-group-total-count"


class Load(Server, frozen=True, kw_only=True):
    """What is to be created.

    Attributes:
        namespace: where.
        queues: label values, taken in turn.
        queue_label: the label.
        pods: how many.
        run_seconds: from release to end of a pod.
        pod: the pod, without a name; it gets the label of its queue.
        one_by_one: the next pod comes when nothing is left of the one before it.
        gang: how many pods are a pod group; they end together. 1 for single pods.
        threads: connections that create, and as many that end pods.
    """

    namespace: str
    queues: tuple[str, ...]
    pods: int
    run_seconds: float
    pod: dict[str, Any]
    queue_label: str
    one_by_one: bool = False
    gang: int = 1
    threads: int = 8


class Report(msgspec.Struct, kw_only=True):
    """What happened; times in seconds.

    Attributes:
        create_seconds: of each request that created a pod.
        release_seconds: of each pod, from sending that request to the event without a gate.
        gang_seconds: of each pod group, from its first request to its last release.
        all_released_seconds: from the first request to the last release.
        wall_seconds: from the first request until no pod and no Workload was left.
        cpu_seconds: of this process.
        writes: successful writes of this process by kind.
    """

    create_seconds: list[float]
    release_seconds: list[float]
    gang_seconds: list[float]
    all_released_seconds: float
    wall_seconds: float
    cpu_seconds: float
    writes: dict[str, int]


class _Spec(msgspec.Struct, rename="camel", frozen=True, gc=False):
    scheduling_gates: list[msgspec.Raw] | None = None


class _Pod(msgspec.Struct, frozen=True, gc=False):
    metadata: Meta
    spec: _Spec = _Spec()


class _Event(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: _Pod


class _List(msgspec.Struct):
    items: list[msgspec.Raw] = []


class Driver:
    """One load from its first request to its last trace."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._pods_path = f"/api/v1/namespaces/{load.namespace}/pods"
        self._clock = SystemClock()
        self._sent: dict[str, float] = {}
        self._released: dict[str, float] = {}
        self._created: list[float] = []
        self._gone: dict[str, threading.Event] = {}
        self._held = dict.fromkeys(range(load.pods // load.gang), load.gang)
        """Pods of each gang that are not released."""
        self._gang_seconds: list[float] = []
        self._left = load.pods
        self._crew = Crew()
        self._to_end: queue.SimpleQueue[tuple[float, str] | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._writes: Counter[str] = Counter()
        self._pause = threading.Event()

    def run(self) -> Report:
        """Does it all.

        Raises:
            TimeoutError: pods are left after a long time.
        """
        self._crew.start(self._watch, self._load.version(self._pods_path))
        threads = 1 if self._load.one_by_one else self._load.threads
        self._crew.start(self._pace)
        for _ in range(self._load.threads):
            self._crew.start(self._end)
        names = iter([_name(number) for number in range(self._load.pods)])
        started = self._clock.monotonic()
        for _ in range(threads):
            self._crew.start(self._create, names)
        if not self._crew.wait(max(_PATIENCE_SECONDS, self._load.pods * _POD_SECONDS)):
            held = sorted(self._sent.keys() - self._released.keys())
            raise TimeoutError(f"{self._left} of {self._load.pods} pods left, held: {held[:10]}")
        self._wait_for_no_workloads(self._load.connect())
        ended = self._clock.monotonic()
        used = resource.getrusage(resource.RUSAGE_SELF)
        return Report(
            create_seconds=self._created,
            release_seconds=[self._released[name] - self._sent[name] for name in self._sent],
            gang_seconds=self._gang_seconds,
            all_released_seconds=max(self._released.values()) - started,
            wall_seconds=ended - started,
            cpu_seconds=used.ru_utime + used.ru_stime,
            writes=dict(self._writes),
        )

    # Threads

    def _watch(self, version: str) -> None:
        decoder = msgspec.json.Decoder(_Event)
        path = f"{self._pods_path}?watch=true&resourceVersion={version}&timeoutSeconds=3600"
        for line in self._load.connect().stream(path):
            event = decoder.decode(line)
            name = event.object.metadata.name
            if event.type == "DELETED":
                self._lose(name)
            elif name not in self._released and not event.object.spec.scheduling_gates:
                self._released[name] = now = self._clock.monotonic()
                self._run(name, now)

    def _run(self, name: str, now: float) -> None:
        """Have all pods of a gang end in time, once the last of them was released."""
        gang, size = self._gang_of(name), self._load.gang
        self._held[gang] -= 1
        if self._held[gang]:
            return
        pods = [_name(number) for number in range(gang * size, (gang + 1) * size)]
        self._gang_seconds.append(now - min(self._sent[one] for one in pods))
        for one in pods:
            self._to_end.put((now + self._load.run_seconds, one))

    def _gang_of(self, name: str) -> int:
        return int(name.rpartition("-")[2]) // self._load.gang

    def _lose(self, name: str) -> None:
        if name in self._gone:
            self._gone[name].set()
        self._left -= 1
        if self._left == 0:
            self._crew.done.set()

    def _create(self, names: Iterator[str]) -> None:
        connection = self._load.connect()
        for name in names:
            body = self._body(name)
            gone = self._gone[name] = threading.Event()
            self._sent[name] = sent = self._clock.monotonic()
            self._write(connection, CREATE, "POST", self._pods_path, body)
            self._created.append(self._clock.monotonic() - sent)
            if self._load.one_by_one:
                gone.wait(_PATIENCE_SECONDS)
                self._wait_for_no_workloads(connection)

    def _body(self, name: str) -> bytes:
        metadata = self._load.pod.get("metadata", {})
        gang, size = self._gang_of(name), self._load.gang
        chosen = self._load.queues[gang % len(self._load.queues)]
        labels = {**metadata.get("labels", {}), self._load.queue_label: chosen}
        named = {**metadata, "name": name, "labels": labels}
        if size > 1:
            named["annotations"] = {
                **metadata.get("annotations", {}),
                _GROUP_NAME: f"gang-{gang}",
                _GROUP_TOTAL: str(size),
            }
        return msgspec.json.encode({**self._load.pod, "metadata": named})

    def _pace(self) -> None:
        """Hands on each pod when its time has come; all run equally long, so in their order."""
        while (item := self._to_end.get()) is not None:
            due, name = item
            wait = due - self._clock.monotonic()
            if wait > 0:
                self._pause.wait(wait)
            self._ended.put(name)

    def _end(self) -> None:
        connection = self._load.connect()
        while (name := self._ended.get()) is not None:
            path = f"{self._pods_path}/{name}"
            status = (f"{path}/status", _SUCCEEDED, _MERGE)
            self._write(connection, PATCH_STATUS, "PATCH", *status)
            self._write(connection, DELETE, "DELETE", path, _AT_ONCE)

    def _write(self, connection: Connection, kind: str, *request: Any) -> None:
        status, body = connection.send(*request)
        if status >= 300:
            raise RuntimeError(f"{kind}: {status} {body.decode()}")
        self._writes[kind] += 1

    def _wait_for_no_workloads(self, connection: Connection) -> None:
        path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{self._load.namespace}/workloads?limit=1"
        for _ in itertools.count():
            _, body = connection.send("GET", path)
            if not msgspec.json.decode(body, type=_List).items:
                return
            self._pause.wait(_PAUSE_SECONDS)


def _name(number: int) -> str:
    return f"load-{number:05}"


def main() -> None:
    """Standard input to standard output."""
    load = msgspec.json.decode(sys.stdin.buffer.read(), type=Load)
    sys.stdout.buffer.write(msgspec.json.encode(Driver(load).run()))


if __name__ == "__main__":
    main()
