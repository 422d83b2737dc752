"""(i) Cold start: 50,000 Workloads and 50,000 bound pods are there, and 1,000 Workloads wait.

One pod of one queue is admitted by the system itself; what the API server then has stored of it
and of its Workload is copied into etcd under other names, as fast as that takes it.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from admission.base import names
from admission.base.clock import SystemClock
from admission.owners import pod as pod_owner
from admission.owners import workload
from tests.bench import metrics, processes, shape
from tests.bench.crew import Crew, Server
from tests.bench.figures import Figures
from tests.bench.stage import POD, QUEUES, Stage
from tests.bench.watched_workloads import WatchEvent
from tests.builders.cluster import make_node
from tests.builders.queues import make_cluster_queue, make_local_queue
from tests.controlplane import waiting

PODS: Final = 50_000
QUEUES_OF_PODS: Final = 1_000
WAITING: Final = 1_000
"""Workloads that wait and fit, one or more in each queue."""
NODES: Final = 1_000

_KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
_PODS_OF: Final = "/registry/pods/{}/{}"
_WORKLOADS_OF: Final = "/registry/kueue.x-k8s.io/workloads/{}/{}"
_RUNS: Final = {
    "phase": "Running",
    "conditions": [
        {"type": one, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for one in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ],
}
_CHUNK: Final = 2_000
_PATIENCE_SECONDS: Final = 600.0
_REST_SECONDS: Final = 2.0
_REST_CPU: Final = 0.4
"""Share of a core that an API server uses at most that has nothing to do."""


class Cold:
    """Measures the part on a stage of its own.

    Args:
        stage: where; it serves no older version of Workloads.
        scale: multiplies the numbers of pods and queues.
        say: tells of progress.
    """

    def __init__(self, stage: Stage, scale: float, say: Callable[[str], None]) -> None:
        self._stage = stage
        self._say = say
        self._monotonic = SystemClock().monotonic
        self._pods = max(1, round(PODS * scale))
        self._queues = max(1, round(QUEUES_OF_PODS * scale))
        self._waiting = max(1, round(WAITING * scale))
        self._namespace = stage.cluster.create_namespace("cold")
        cluster = stage.cluster
        self._server = Server(
            port=cluster.port, ca_file=str(cluster.ca_file), token=cluster.admin_token
        )

    def run(self) -> Figures:
        """One run: it takes some minutes."""
        self._say(f"(i) {self._queues} queues, {self._pods} pods")
        self._add_queues()
        self._add_nodes()
        pod, made = self._sample()
        self._multiply(pod, made)
        self._add_waiting()
        return self._measured()

    def _add_queues(self) -> None:
        api, path = self._stage.cluster.api, f"{_KUEUE}/namespaces/{self._namespace}/localqueues"
        quota = self._pods // self._queues + self._waiting // self._queues + 2
        for number in range(self._queues):
            name, cohort = _queue(number), f"cohort-{number // 100}"
            found = make_cluster_queue(name, quota=quota, flavors=("bench",), cohortName=cohort)
            api.post(f"{_KUEUE}/clusterqueues", found)
            api.post(path, make_local_queue(name, name, self._namespace))

    def _add_nodes(self) -> None:
        """Nodes of the copied pods, which a controller takes for ended where theirs is missing."""
        units = {names.GPU_RESOURCE: self._pods // NODES + 1}
        for number in range(NODES):
            found = make_node(f"node-{number}", units=units)
            path = f"/api/v1/nodes/{found['metadata']['name']}/status"
            self._stage.cluster.api.post("/api/v1/nodes", found)
            self._stage.cluster.api.patch(path, {"status": found["status"]})

    def _sample(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """A pod that was admitted and is bound, and its Workload, as they are stored."""
        api, namespace = self._stage.cluster.api, self._stage.namespace
        labels = {names.QUEUE_LABEL: QUEUES[0], names.MANAGED_LABEL: names.MANAGED_VALUE}
        spec = {**POD["spec"], "schedulingGates": [{"name": names.ADMISSION_GATE}]}
        path = f"/api/v1/namespaces/{namespace}/pods"
        api.post(path, {**POD, "metadata": {"name": "sample", "labels": labels}, "spec": spec})
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "sample"}}
        workloads = f"{_KUEUE}/namespaces/{namespace}/workloads"
        with self._stage.controller_alone():
            waiting.until(
                lambda: not api.get(f"{path}/sample")["spec"].get("schedulingGates"),
                what="the sample is released",
            )
            api.post(f"{path}/sample/binding", {**binding, "target": target})
            api.patch(f"{path}/sample/status", {"status": _RUNS})
            self._stage.settle()
        (made,) = api.get(workloads)["items"]
        return api.get(f"{path}/sample"), made

    def _multiply(self, pod: dict[str, Any], made: dict[str, Any]) -> None:
        """Store copies of both, each pair with names, uids and a queue of its own."""
        began, values = self._monotonic(), self._copies(pod, made)
        while chunk := dict(islice(values, _CHUNK)):
            self._stage.cluster.etcd.put(chunk)
        self._say(f"(i) stored after {self._monotonic() - began:.0f} s")

    def _copies(self, pod: dict[str, Any], made: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
        texts = [_as_stored(one) for one in (pod, made)]
        old = pod["metadata"]["uid"], made["metadata"]["uid"], made["metadata"]["name"]
        for number in range(self._pods):
            name, queue = f"pod-{number:05}", _queue(number % self._queues)
            uids = f"{number:08x}-0000-4000-8000-000000000000", f"{number:08x}-0000-4000-9000-0"
            own = workload.name_for(pod_owner.KIND.name, "", name, uids[0])
            changes = (
                *zip(old, (*uids, own), strict=True),
                (f'"namespace":"{self._stage.namespace}"', f'"namespace":"{self._namespace}"'),
                (f'"{QUEUES[0]}"', f'"{queue}"'),
                (f"ClusterQueue {QUEUES[0]}", f"ClusterQueue {queue}"),
                ('"sample"', f'"{name}"'),
                ('"node-0"', f'"node-{number % NODES}"'),
            )
            keys = (
                _PODS_OF.format(self._namespace, name),
                _WORKLOADS_OF.format(self._namespace, own),
            )
            for key, text in zip(keys, texts, strict=True):
                yield key, _replaced(text, changes)

    def _add_waiting(self) -> None:
        """Workloads of no owner that fit."""
        path = f"{_KUEUE}/namespaces/{self._namespace}/workloads"
        for number in range(self._waiting):
            found = shape.workload(f"waits-{number:04}", _queue(number % self._queues))
            (pod_set,) = found["spec"]["podSets"]
            (container,) = pod_set["template"]["spec"]["containers"]
            container["resources"] = {"requests": {names.GPU_RESOURCE: "1"}}
            self._stage.cluster.api.post(path, found)

    def _measured(self) -> Figures:
        decided: dict[str, float] = {}
        crew, stage = Crew(), self._stage
        path = f"{_KUEUE}/namespaces/{self._namespace}/workloads"
        version, listening = self._server.version(path), threading.Event()
        crew.start(self._watch, f"{path}?watch=true&resourceVersion={version}", decided, listening)
        listening.wait(_PATIENCE_SECONDS)
        self._let_server_settle()
        pids = stage.pids()
        before = {name: processes.cpu_seconds(found) for name, found in pids.items()}
        began = self._monotonic()
        with stage.controller_alone():
            ready = self._monotonic() - began
            self._say(f"(i) ready after {ready:.1f} s")

            def are_decided() -> bool:
                crew.wait(0)
                return len(decided) >= self._waiting

            waiting.until(are_decided, what="all decided", within_seconds=_PATIENCE_SECONDS)
            stage.settle()
            settled = self._monotonic() - began
            purposes = metrics.purposes("", stage.controller_metrics())
            found = stage.pids()
            used = {
                name: round(processes.cpu_seconds(of) - before.get(name, 0.0), 1)
                for name, of in found.items()
            }
            peak = {name: processes.peak_mib(of) for name, of in found.items()}
        times = sorted(at - began for at in decided.values())
        figures = {
            "pods": self._pods,
            "workloads": self._pods + self._waiting,
            "queues": self._queues,
            "ready_seconds": round(ready, 1),
            "first_decision_seconds": round(times[0], 1),
            "last_decision_seconds": round(times[-1], 1),
            "settled_seconds": round(settled, 1),
            "writes": {purpose: count for purpose, count, _ in purposes},
            "cpu_seconds": used,
            "peak_mib": peak,
        }
        self._say(f"(i) {figures}")
        return figures

    def _let_server_settle(self) -> None:
        """Wait until the API server has taken in what went into etcd, as one in use has."""
        began, pids = self._monotonic(), self._stage.pids()["kube-apiserver"]

        def is_at_rest() -> bool:
            before = processes.cpu_seconds(pids)
            threading.Event().wait(_REST_SECONDS)
            return processes.cpu_seconds(pids) - before < _REST_CPU * _REST_SECONDS

        waiting.until(is_at_rest, what="an API server at rest", within_seconds=_PATIENCE_SECONDS)
        self._say(f"(i) the API server is at rest after {self._monotonic() - began:.0f} s")

    def _watch(self, path: str, decided: dict[str, float], listening: threading.Event) -> None:
        decoder = msgspec.json.Decoder(WatchEvent)
        listening.set()
        for line in self._server.connect().stream(f"{path}&timeoutSeconds=3600"):
            found = decoder.decode(line).object
            reserved = any(
                (one.type, one.status) == ("QuotaReserved", "True")
                for one in found.status.conditions or ()
            )
            if reserved and found.metadata.name.startswith("waits-"):
                decided.setdefault(found.metadata.name, self._monotonic())


def _as_stored(found: dict[str, Any]) -> str:
    """An object as etcd has it: its version is that of its key."""
    metadata = {key: value for key, value in found["metadata"].items() if key != "resourceVersion"}
    return msgspec.json.encode({**found, "metadata": metadata}).decode()


def _replaced(text: str, changes: Iterable[tuple[str, str]]) -> bytes:
    for before, after in changes:
        text = text.replace(before, after)
    return text.encode()


def _queue(number: int) -> str:
    return f"cold-{number:04}"
