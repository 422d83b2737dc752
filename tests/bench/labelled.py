"""(h) 10,000 Workloads wait in 1,000 queues while the labels of 50 namespaces a second change.

How long a Workload waits that fits, from its creation until a watch shows its quota: first while
nothing else happens, then beside the changes.
"""

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from admission.base import names
from admission.base.clock import SystemClock
from tests.bench import figures, processes, shape
from tests.bench.crew import Crew, Server
from tests.bench.figures import Figures
from tests.bench.stage import Stage
from tests.bench.watched_workloads import WatchEvent
from tests.builders.cluster import make_namespace
from tests.builders.queues import make_cluster_queue, make_local_queue
from tests.controlplane import waiting

QUEUES: Final = 1_000
OF_QUEUE: Final = 10
CHANGES_A_SECOND: Final = 50
MOST_MS: Final = 100.0
"""In which 99 of 100 decisions are to be seen."""
_PROBES: Final = 200
_PAUSE_SECONDS: Final = 0.1
_THREADS: Final = 6
_KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
_PATIENCE_SECONDS: Final = 900.0
_MERGE: Final = "application/merge-patch+json"
_CREATED: Final = 300
_PROBE: Final = "probe"


class Labelled:
    """Measures the part on a stage of its own.

    Args:
        stage: where; it serves no older version of Workloads.
        scale: multiplies the number of queues.
        say: tells of progress.
    """

    def __init__(self, stage: Stage, scale: float, say: Callable[[str], None]) -> None:
        self._stage = stage
        self._say = say
        self._queues = max(1, round(QUEUES * scale))
        self._monotonic = SystemClock().monotonic
        cluster = stage.cluster
        self._server = Server(
            port=cluster.port, ca_file=str(cluster.ca_file), token=cluster.admin_token
        )
        self._said: set[str] = set()
        self._reserved: dict[str, float] = {}
        self._seen = threading.Event()
        self._numbers = itertools.count()
        self._pause = threading.Event()

    def run(self) -> Figures:
        """One run: it takes some minutes."""
        self._say(f"(h) {self._queues} queues")
        self._add()
        crew = Crew()
        path = f"{_KUEUE}/workloads"
        version = self._server.version(path)
        crew.start(self._watch, f"{path}?watch=true&resourceVersion={version}")
        with self._stage.controller_alone():
            count = self._queues * OF_QUEUE

            def have_said() -> bool:
                crew.wait(0)
                return len(self._said) >= count

            waiting.until(have_said, what="all say why", within_seconds=_PATIENCE_SECONDS)
            # Events of what waits are still written, a few a second for half an hour.
            alone = self._probe()
            self._say(f"(h) alone {figures.milliseconds(alone)}")
            pids, began = self._stage.pids(), self._monotonic()
            before = {name: processes.cpu_seconds(found) for name, found in pids.items()}
            ending, changed = threading.Event(), [0]
            crew.start(self._change_labels, ending, changed)
            beside = self._probe()
            seconds = self._monotonic() - began
            ending.set()
            crew.wait(0)
            used = {
                name: round((processes.cpu_seconds(found) - before[name]) / seconds, 2)
                for name, found in pids.items()
            }
        found = {
            "queues": self._queues,
            "waiting_workloads": count,
            "decision_alone": figures.milliseconds(alone),
            "decision_beside_changes": figures.milliseconds(beside),
            "changes_a_second": round(changed[0] / seconds, 1),
            "cpus_beside_changes": used,
        }
        self._say(f"(h) {found}")
        return found

    def _add(self) -> None:
        self._create("/api/v1/namespaces", map(make_namespace, map(_name, range(self._queues))))
        self._create("/api/v1/namespaces", [make_namespace(_PROBE)])
        queues = [make_cluster_queue(_PROBE, quota=1_000_000, flavors=("bench",))]
        for number in range(self._queues):
            cohort = f"cohort-{number // 100}"
            queues.append(
                make_cluster_queue(_name(number), quota=1, flavors=("bench",), cohortName=cohort)
            )
        self._create(f"{_KUEUE}/clusterqueues", queues)
        for name in (_PROBE, *map(_name, range(self._queues))):
            path = f"{_KUEUE}/namespaces/{name}"
            self._create(f"{path}/localqueues", [make_local_queue("queue", name, name)])
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(self._add_waiting, map(_name, range(self._queues))))

    def _add_waiting(self, namespace: str) -> None:
        found = [_workload(f"{namespace}-{number}", 999) for number in range(OF_QUEUE)]
        self._create(f"{_KUEUE}/namespaces/{namespace}/workloads", found)

    def _create(self, path: str, documents: Any) -> None:
        connection = self._server.connect()
        for document in documents:
            status, answer = connection.send("POST", path, msgspec.json.encode(document))
            if status >= _CREATED:
                raise RuntimeError(f"{path}: {status} {answer.decode()}")
        connection.close()

    def _watch(self, path: str) -> None:
        decoder = msgspec.json.Decoder(WatchEvent)
        for line in self._server.connect().stream(f"{path}&timeoutSeconds=3600"):
            now, found = self._monotonic(), decoder.decode(line).object
            told = {one.type: one.status for one in found.status.conditions or ()}
            if told.get("QuotaReserved") == "True":
                self._reserved.setdefault(found.metadata.name, now)
                self._seen.set()
            elif "QuotaReserved" in told:
                self._said.add(found.metadata.name)

    def _probe(self) -> list[float]:
        """Create Workloads that fit, one after the other; return the seconds of each."""
        return list(self._probes())

    def _probes(self) -> Iterator[float]:
        connection = self._server.connect()
        path = f"{_KUEUE}/namespaces/{_PROBE}/workloads"
        for _ in range(_PROBES):
            name = f"probe-{next(self._numbers)}"
            body = msgspec.json.encode(_workload(name, 1))
            self._seen.clear()
            began = self._monotonic()
            status, answer = connection.send("POST", path, body)
            if status >= _CREATED:
                raise RuntimeError(f"{path}: {status} {answer.decode()}")
            while name not in self._reserved:
                self._seen.wait(_PATIENCE_SECONDS)
                self._seen.clear()
            yield self._reserved[name] - began
            self._pause.wait(_PAUSE_SECONDS)

    def _change_labels(self, ending: threading.Event, changed: list[int]) -> None:
        connection = self._server.connect()
        began = self._monotonic()
        for number in itertools.count():
            if ending.wait(max(0.0, began + number / CHANGES_A_SECOND - self._monotonic())):
                return
            labels = {"changed": str(number), "team": f"team-{number % 7}"}
            body = msgspec.json.encode({"metadata": {"labels": labels}})
            name = _name(number % self._queues)
            connection.send("PATCH", f"/api/v1/namespaces/{name}", body, _MERGE)
            changed[0] += 1


def _name(number: int) -> str:
    return f"labelled-{number:04}"


def _workload(name: str, gpus: int) -> dict[str, Any]:
    found = shape.workload(name, "queue")
    (pod_set,) = found["spec"]["podSets"]
    (container,) = pod_set["template"]["spec"]["containers"]
    container["resources"] = {"requests": {names.GPU_RESOURCE: str(gpus)}}
    return found
