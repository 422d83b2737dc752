"""(waiting) 10,000 pods wait in 1,000 queues: until all say why, and what ten browsers cost.

One pod of each queue runs. Webhooks are not registered: the pods are created as a review leaves
them, and what is measured is the controller and what it writes.
"""

import http.client
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Final

import msgspec

from admission.base import conditions, names
from admission.base.clock import SystemClock
from tests.bench import driver, figures, metrics, processes
from tests.bench.crew import Crew, Server
from tests.bench.figures import Figures
from tests.bench.stage import POD, QUEUES, Stage, helper
from tests.builders.queues import make_cluster_queue, make_local_queue
from tests.controlplane import waiting
from tests.controlplane.processes import free_port

QUEUES_OF_CROWD: Final = 1000
OF_QUEUE: Final = 10
"""Pods that wait in each queue."""
BROWSERS: Final = 10
MOST_SECONDS: Final = 60.0
"""In which all are to say why they wait."""
MOST_WRITES: Final = 170
"""A second, meanwhile."""
MOST_BYTES: Final = 300_000
"""Of a page."""

_KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
_EVENTS: Final = "/apis/events.k8s.io/v1"
_THREADS: Final = 8
_ONE_BY_ONE: Final = 50
_ROUNDS: Final = 3
_PATIENCE_SECONDS: Final = 1200.0
_REFRESH_SECONDS: Final = 5.0
"""Between two pages of one browser, as the dashboard's script has it."""
_WINDOW_SECONDS: Final = 10
_CROWD: Final = "crowd-{:04}"


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str
    message: str = ""


class _Status(msgspec.Struct, frozen=True, gc=False):
    conditions: list[_Condition] | None = None

    def message(self, kind: str) -> str:
        """What a condition says that is False; empty for none."""
        found = self.conditions or ()
        return next(
            (one.message for one in found if (one.type, one.status) == (kind, "False")), ""
        )


class _Named(msgspec.Struct, frozen=True, gc=False):
    name: str = ""


class _Object(msgspec.Struct, frozen=True, gc=False):
    metadata: _Named
    status: _Status = _Status()


class _Change(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: _Object


class _Seen:
    """What watches have shown of the crowd: when each object first said why it waits."""

    def __init__(self, server: Server, namespace: str) -> None:
        self._server = server
        self._monotonic = SystemClock().monotonic
        self._crew = Crew()
        self.pods: dict[str, float] = {}
        self.workloads: dict[str, float] = {}
        self.made = 0
        """Workloads that were created."""
        self.decided = 0.0
        """When the last Workload was created."""
        self.told = 0
        """Events that were written."""
        self.messages: dict[str, str] = {}
        self._writes: Counter[int] = Counter()
        """By second; a pod's creation is none of ours."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        self._crew.start(self._watch, path, self._pod)
        path = f"{_KUEUE}/namespaces/{namespace}/workloads"
        self._crew.start(self._watch, path, self._workload)
        self._crew.start(self._watch, f"{_EVENTS}/namespaces/{namespace}/events", self._event)

    def check(self) -> None:
        """Raise what a watch failed with, if one did."""
        self._crew.wait(0)

    def most_writes(self, since: float) -> float:
        """Return the most writes a second, in ten seconds from a moment on."""
        first, last = int(since) + 1, max(self._writes, default=0)
        sums = [
            sum(self._writes[at + second] for second in range(_WINDOW_SECONDS))
            for at in range(first, max(first + 1, last - _WINDOW_SECONDS + 1))
        ]
        return max(sums, default=0) / _WINDOW_SECONDS

    def _watch(self, path: str, take: Callable[[_Change, float], bool]) -> None:
        decoder = msgspec.json.Decoder(_Change)
        listed = path
        waiting.until(  # the API server may not have read yet what it stores of a kind
            lambda: (
                self._server.connect().send("GET", f"{listed}?resourceVersion=0&limit=1")[0] == 200
            ),
            what=f"{path} can be watched",
        )
        version = self._server.version(path)
        path = f"{path}?watch=true&resourceVersion={version}&timeoutSeconds=7200"
        for line in self._server.connect().stream(path):
            now = self._monotonic()
            self._writes[int(now)] += take(decoder.decode(line), now)

    def _pod(self, change: _Change, now: float) -> bool:
        message = change.object.status.message(conditions.POD_ADMITTED)
        if message:
            self.pods.setdefault(change.object.metadata.name, now)
            self.messages[change.object.metadata.name] = message
        return change.type == "MODIFIED"

    def _workload(self, change: _Change, now: float) -> bool:
        if change.type == "ADDED":
            self.decided, self.made = now, self.made + 1
        if change.object.status.message(conditions.QUOTA_RESERVED):
            self.workloads.setdefault(change.object.metadata.name, now)
        return True

    def _event(self, change: _Change, now: float) -> bool:
        self.told += change.type == "ADDED"
        return True


class Waiting:
    """Measures the part on a stage of its own.

    Args:
        stage: where.
        scale: multiplies the number of queues.
        say: tells of progress.
    """

    def __init__(self, stage: Stage, scale: float, say: Callable[[str], None]) -> None:
        self._stage = stage
        self._queues = max(1, round(QUEUES_OF_CROWD * scale))
        self._say = say
        self._monotonic = SystemClock().monotonic
        self._pause = threading.Event()
        self._port = free_port()
        cluster = stage.cluster
        self._server = Server(
            port=cluster.port, ca_file=str(cluster.ca_file), token=cluster.admin_token
        )
        self._namespace = cluster.create_namespace("crowd")

    def run(self) -> Figures:
        """One run: it takes some minutes."""
        self._add_queues()
        with self._stage.controller_alone("--dashboard-bind", f"127.0.0.1:{self._port}"):
            seen = _Seen(self._server, self._namespace)
            said = self._told(seen)
            pages = {name: self._bytes(path) for name, path in self._pages().items()}
            self._say(f"(waiting) pages: {pages}")
            alone: list[float] = []
            watched: list[float] = []
            fetched = 0
            for _ in range(_ROUNDS):  # by turns: a machine is not equally fast all the time
                alone += self._release()
                with self._browsers() as pages_of_round:
                    watched += self._release()
                fetched += pages_of_round["pages"]
        return {
            "queues": self._queues,
            "waiting_pods": self._queues * OF_QUEUE,
            **said,
            "page_bytes": pages,
            "release_alone": figures.milliseconds(alone),
            f"release_with_{BROWSERS}_browsers": {
                **figures.milliseconds(watched),
                "pages": fetched,
            },
        }

    # ------------------------------------------------------------------------------ the crowd

    def _add_queues(self) -> None:
        self._say(f"(waiting) {self._queues} queues")
        local = f"{_KUEUE}/namespaces/{self._namespace}/localqueues"
        for path, make in (
            (f"{_KUEUE}/clusterqueues", _cluster_queue),
            (local, lambda name: make_local_queue(name, name, self._namespace)),
        ):
            self._create(path, [make(_CROWD.format(one)) for one in range(self._queues)])

    def _create(self, path: str, documents: list[dict[str, Any]]) -> None:
        bodies = iter([msgspec.json.encode(one) for one in documents])
        guard = threading.Lock()

        def work() -> None:
            connection = self._server.connect()
            while True:
                with guard:
                    body = next(bodies, None)
                if body is None:
                    return
                status, answer = connection.send("POST", path, body)
                if status >= 300:
                    raise RuntimeError(f"{path}: {status} {answer.decode()}")

        with ThreadPoolExecutor(_THREADS) as pool:
            for one in [pool.submit(work) for _ in range(_THREADS)]:
                one.result()

    def _told(self, seen: _Seen) -> Figures:
        """Create the pods; return how long it took until all that wait said why."""
        count = self._queues * OF_QUEUE
        self._stage.installed.wait_active(self._namespace, _CROWD.format(self._queues - 1))
        began = self._monotonic()
        self._say(f"(waiting) {count + self._queues} pods")
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        self._create(path, [*self._pods()])
        created = self._monotonic()
        self._until(seen, lambda: self._is_decided(seen), "all are decided")
        cpu, metrics_before = self._cpu(), self._stage.controller_metrics()
        said_before = len(seen.pods)
        self._until(seen, lambda: len(seen.pods) >= count, "all pods say why they wait")
        said, decided = max(seen.pods.values()), seen.decided
        seconds = said - decided
        self._say(f"(waiting) all say why after {seconds:.1f} s")
        before = sum(at < decided for at in seen.pods.values())
        texts = max(1, count - said_before)
        used = {name: 1000 * (value - cpu[name]) / texts for name, value in self._cpu().items()}
        writes = metrics.purposes(metrics_before, self._stage.controller_metrics())
        self._until(seen, lambda: len(seen.workloads) >= count, "all Workloads say it")
        found = {
            "created_seconds": round(created - began, 1),
            "decided_after_seconds": round(decided - began, 1),
            "said_before_that": before,
            "until_all_pods_say_why_seconds": round(seconds, 1),
            "until_all_workloads_do_seconds": round(max(seen.workloads.values()) - decided, 1),
            "most_writes_a_second": round(seen.most_writes(decided + 1), 1),
            "cpu_ms_a_text": {name: round(value, 1) for name, value in used.items()},
            "mean_ms": {one: round(1e3 * spent / number, 1) for one, number, spent in writes},
            "events_by_then": seen.told,
            "a_text": max(seen.messages.items())[1],
        }
        self._say(f"(waiting) {found}")
        return found

    def _is_decided(self, seen: _Seen) -> bool:
        return seen.made >= self._queues * (OF_QUEUE + 1)

    def _cpu(self) -> dict[str, float]:
        found = self._stage.pids().items()
        return {name: processes.cpu_seconds(pids) for name, pids in found}

    def _pods(self) -> Iterator[dict[str, Any]]:
        spec = {**POD["spec"], "schedulingGates": [{"name": names.ADMISSION_GATE}]}
        for place in range(OF_QUEUE + 1):
            for queue in range(self._queues):
                yield {
                    **POD,
                    "metadata": {
                        "name": f"wait-{place:02}-{queue:04}",
                        "labels": _labels(_CROWD.format(queue)),
                    },
                    "spec": spec,
                }

    def _until(self, seen: _Seen, is_so: Callable[[], bool], what: str) -> None:
        def look() -> bool:
            seen.check()
            return is_so()

        waiting.until(look, what=what, within_seconds=_PATIENCE_SECONDS)

    # ---------------------------------------------------------------------------- decisions

    def _release(self) -> list[float]:
        """Release pods one by one of queues that have room; return the seconds of each."""
        spec = {**POD["spec"], "schedulingGates": [{"name": names.ADMISSION_GATE}]}
        cluster = self._stage.cluster
        load = driver.Load(
            port=cluster.port,
            ca_file=str(cluster.ca_file),
            token=cluster.admin_token,
            namespace=self._stage.namespace,
            queues=QUEUES,
            queue_label=names.QUEUE_LABEL,
            pods=_ONE_BY_ONE,
            run_seconds=0,
            pod={**POD, "metadata": {"labels": _labels(QUEUES[0])}, "spec": spec},
            one_by_one=True,
        )
        answer = helper("tests.bench.driver", msgspec.json.encode(load))
        found = msgspec.convert(answer, driver.Report).release_seconds
        self._say(f"(waiting) release: {figures.milliseconds(found)}")
        return found

    # ----------------------------------------------------------------------------- browsers

    def _pages(self) -> dict[str, str]:
        """Return the pages by what they show."""
        queue = _CROWD.format(0)
        path = f"{_KUEUE}/namespaces/{self._namespace}/workloads?limit=1"
        (workload,) = self._stage.cluster.api.get(path)["items"]
        own = f"/namespaces/{self._namespace}/workloads/{workload['metadata']['name']}"
        return {"quota": "/", "queue": f"/queues/{queue}", "workload": own, "gpus": "/gpus"}

    def _bytes(self, path: str) -> int:
        return len(self._get(path))

    def _get(self, path: str) -> bytes:
        connection = self._ask(path)
        try:
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != http.client.OK:
                raise RuntimeError(f"{path}: {answer.status} {body.decode()}")
            return body
        finally:
            connection.close()

    def _ask(self, path: str) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        token = self._stage.cluster.admin_token
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        return connection

    @contextmanager
    def _browsers(self) -> Iterator[dict[str, int]]:
        """Ten browsers watch inside the block, each one page; yields how many they fetched."""
        fetched = {"pages": 0}
        ended = threading.Event()
        paths = list(self._pages().values())
        threads = [
            threading.Thread(
                target=self._browse, args=(paths[one % len(paths)], ended, fetched), daemon=True
            )
            for one in range(BROWSERS)
        ]
        for thread in threads:
            thread.start()
        try:
            yield fetched
        finally:
            ended.set()
            for thread in threads:
                thread.join(_REFRESH_SECONDS)

    def _browse(self, path: str, ended: threading.Event, fetched: dict[str, int]) -> None:
        """Fetch a page whenever the stream says that something changed, at most every 5 s."""
        page = self._get(path).decode()
        found = re.search(r'data-stream="([^"]+)"', page)
        assert found is not None, page[:500]
        stream = self._ask(found[1]).getresponse()
        told = shown = b""
        last = self._monotonic()
        with suppress(OSError, http.client.HTTPException):
            while not ended.is_set():
                line = stream.readline()
                told = line if line.startswith(b"data:") else told
                if told != shown and self._monotonic() - last >= _REFRESH_SECONDS:
                    self._get(path)
                    last, shown = self._monotonic(), told
                    fetched["pages"] += 1


def _labels(queue: str) -> dict[str, str]:
    return {names.QUEUE_LABEL: queue, names.MANAGED_LABEL: names.MANAGED_VALUE}


def _cluster_queue(name: str) -> dict[str, Any]:
    return make_cluster_queue(name, quota=1, flavors=("bench",))
