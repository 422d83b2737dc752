"""The move from Kueue to here, and back, under load: with Kueue's real manager.

Pods and Jobs run, wait and end while the move goes on, and more are created. What holds is judged
from outside, by lists of all pods: the GPUs of pods that are released and have not ended never
exceed the quota; every pod and Job that was created ends by itself, none is lost or started twice.
"""

import itertools
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from admission.base import names
from admission.base.clock import SystemClock
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.forked import PROGRAM
from tests.controlplane.rest import Json, RestError
from tests.integration.installed import KUEUE, Installed
from tests.interop import kueue_manager
from tests.interop.kueue_manager import Manager
from tests.interop.kueuectl import Tried
from tests.interop.lab import FINISH
from tests.interop.modules import say

TEAM: Final = "research"
QUOTA: Final = 24
PODS: Final = 110
JOBS: Final = 50
GROUPS: Final = 20
"""Of two pods each."""
_FINALIZER: Final = "kueue.x-k8s.io/managed"
_WITHIN_SECONDS: Final = 300
_FINISHED_AT_ONCE: Final = 4


class BrokenError(Exception):
    """Something that must hold did not; the message says what."""


@dataclass
class Judge:
    """Looks at all pods again and again.

    Attributes:
        most: the most GPUs that were held at once.
        over: what was found wrong.
        looks: how often it looked.
        seen: UIDs of the pods that were ever there, by their owner.
    """

    api: Any
    most: int = 0
    over: list[str] = field(default_factory=list)
    looks: int = 0
    seen: dict[str, set[str]] = field(default_factory=dict)

    def look(self) -> list[Json]:
        found: list[Json] = self.api.get(f"/api/v1/namespaces/{TEAM}/pods")["items"]
        held = [one for one in found if _holds(one)]
        self.looks += 1
        self.most = max(self.most, len(held))
        if len(held) > QUOTA:
            self.over.append(f"{len(held)} GPUs are held, the quota is {QUOTA}")
        for one in found:
            metadata = one["metadata"]
            owner = next((o["name"] for o in metadata.get("ownerReferences") or ()), "")
            self.seen.setdefault(owner or metadata["name"], set()).add(metadata["uid"])
            if "deletionTimestamp" in metadata:
                self.over.append(f"pod {metadata['name']} is being deleted")
            if one["status"].get("phase") == "Failed":
                self.over.append(f"pod {metadata['name']} failed")
        return found


def _holds(pod: Json) -> bool:
    """Whether it is released and has not ended; each asks for one GPU."""
    return not pod["spec"].get("schedulingGates") and pod["status"].get("phase") not in {
        "Succeeded",
        "Failed",
    }


class World:
    """A cluster with Kueue, one queue, and work in it."""

    def __init__(self, cluster: Cluster, manager: Manager, folder: Path) -> None:
        self.cluster, self.manager, self.folder = cluster, manager, folder
        self.api = cluster.api
        self.ours = Installed(cluster, folder)
        self.judge = Judge(self.api)
        self.refused: list[str] = []
        self.made: list[tuple[str, str]] = []
        self.ends = threading.Event()
        self._stopping = threading.Event()
        self._numbers = itertools.count()
        self._threads = [threading.Thread(target=self._play, daemon=True)]
        self._served: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        """Make the queue, and start to end what runs."""
        self.api.post("/api/v1/namespaces", {"metadata": {"name": TEAM}})
        self.api.post(f"{KUEUE}/resourceflavors", make_flavor("a100"))
        self.api.post(
            f"{KUEUE}/clusterqueues", make_cluster_queue(TEAM, quota=QUOTA, flavors=("a100",))
        )
        self.api.post(
            f"{KUEUE}/namespaces/{TEAM}/localqueues", make_local_queue("default", TEAM, TEAM)
        )
        self._threads[0].start()

    def add(self, kind: str) -> None:
        """Create a pod, a Job of two pods, or a group of two pods."""
        number = next(self._numbers)
        name = f"{kind}-{number}"
        queue = {names.QUEUE_LABEL: "default"}
        pods = f"/api/v1/namespaces/{TEAM}/pods"
        if kind == "job":
            path = f"/apis/batch/v1/namespaces/{TEAM}/jobs"
            self._create(path, make_job(name, 2, labels=queue, gpus=1), "job", name)
        elif kind == "group":
            labels = {**queue, names.POD_GROUP_NAME: name}
            total = {names.POD_GROUP_TOTAL_COUNT: "2"}
            for part in range(2):
                pod = make_pod(
                    f"{name}-{part}",
                    labels=labels,
                    annotations=total,
                    gpus=1,
                    restartPolicy="Never",
                )
                self._create(pods, pod, "pod", f"{name}-{part}")
        else:
            pod = make_pod(name, labels=queue, gpus=1, restartPolicy="Never")
            self._create(pods, pod, "pod", name)

    def _create(self, path: str, document: Json, kind: str, name: str) -> None:
        try:
            self.api.post(path, document)
        except RestError as error:
            self.refused.append(f"{kind} {name}: {error}")
            return
        self.made.append((kind, name))

    def _play(self) -> None:
        """Judge all the time, and end what runs, a few at a time."""
        while not self._stopping.wait(0.25):
            try:
                self._turn()
            except RestError as error:
                self.judge.over.append(f"the judge could not look: {error}")

    def _turn(self) -> None:
        found = self.judge.look()
        if not self.ends.is_set():
            return
        running = [
            one
            for one in found
            if one["status"].get("phase") == "Running"
            and FINISH not in (one["metadata"].get("annotations") or {})
        ]
        for one in running[:_FINISHED_AT_ONCE]:
            path = f"/api/v1/namespaces/{TEAM}/pods/{one['metadata']['name']}"
            self.api.patch(path, {"metadata": {"annotations": {FINISH: ""}}})

    def await_ended(self) -> None:
        """Wait until everything that was made has ended, and judge that nothing was lost."""
        self.ends.set()
        self.until(lambda: not self._open(), "everything ends")
        for kind, name in self.made:
            wanted = 2 if kind == "job" else 1
            had = len(self.judge.seen.get(name, ()))
            if had != wanted:
                raise BrokenError(f"{kind} {name} had {had} pods, not {wanted}")
        if self.judge.over:
            raise BrokenError("; ".join(sorted(set(self.judge.over))[:5]))
        if self.refused:
            raise BrokenError(f"{len(self.refused)} refused: {self.refused[0]}")

    def _open(self) -> list[str]:
        """What was made and has not ended."""
        pods = {
            one["metadata"]["name"]: one
            for one in self.api.get(f"/api/v1/namespaces/{TEAM}/pods")["items"]
        }
        jobs = {
            one["metadata"]["name"]: one
            for one in self.api.get(f"/apis/batch/v1/namespaces/{TEAM}/jobs")["items"]
        }
        left = []
        for kind, name in self.made:
            one = (jobs if kind == "job" else pods).get(name)
            if one is None:
                raise BrokenError(f"{kind} {name} is gone")
            if kind == "job":
                said = one["status"].get("conditions") or ()
                has_ended = any(c["type"] == "Complete" and c["status"] == "True" for c in said)
            else:
                has_ended = one["status"].get("phase") == "Succeeded"
            if not has_ended:
                left.append(name)
        return left

    def until(self, look: Callable[[], Any], what: str) -> None:
        try:
            waiting.until(lambda: bool(look()), what=what, within_seconds=_WITHIN_SECONDS)
        except TimeoutError as late:
            raise BrokenError(f"{late}; {self.tell()}") from late

    def tell(self) -> str:
        """What there is now."""
        left = self._open()
        found = self.api.get(f"/api/v1/namespaces/{TEAM}/pods")["items"]
        held = sum(map(_holds, found))
        return f"{len(left)} of {len(self.made)} have not ended ({left[:5]}), {held} GPUs held"

    def held(self) -> int:
        """GPUs that are held now."""
        found = self.api.get(f"/api/v1/namespaces/{TEAM}/pods")["items"]
        return sum(map(_holds, found))

    def with_finalizer(self) -> list[str]:
        """Pods with Kueue's finalizer."""
        found = self.api.get(f"/api/v1/namespaces/{TEAM}/pods")["items"]
        return [
            one["metadata"]["name"]
            for one in found
            if _FINALIZER in (one["metadata"].get("finalizers") or ())
        ]

    # ------------------------------------------------------------------------- the command

    def migrate(self, *arguments: str, meanwhile: Callable[[str], None] = lambda _: None) -> str:
        """Run the command to its end, and tell each line to ``meanwhile``."""
        command = [
            *PROGRAM, "migrate", "kueue", "--kubeconfig", self.ours.kubeconfig,
            "--webhook-url", self.ours.webhook_url, "--cert-dir", str(self.ours.certificates),
            "--mode", "warn", *arguments,
        ]  # fmt: skip
        told = []
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
            cwd=self.folder,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                told.append(line)
                meanwhile(line)
        if process.returncode:
            raise BrokenError("".join(told[-5:]))
        return "".join(told)

    def serve(self) -> None:
        """Start our webhook and controller, as a candidate for the Lease."""
        if self._served is not None:
            return
        command = [
            *PROGRAM, "run", "--kubeconfig", self.ours.kubeconfig,
            "--bind", f"127.0.0.1:{self.ours.webhook_port}",
            "--cert-dir", str(self.ours.certificates),
            "--metrics-bind", f"127.0.0.1:{self.ours.metrics_port}", "--leader-election",
        ]  # fmt: skip
        with self.ours.log.open("ab") as log:
            self._served = subprocess.Popen(command, stdout=log, stderr=log)

    def stop_serving(self) -> None:
        """End webhook and controller."""
        if self._served is not None:
            self._served.terminate()
            self._served.wait(60)
            self._served = None

    def stop(self) -> None:
        """End what was started."""
        self.stop_serving()
        self._stopping.set()
        for one in self._threads:
            if one.is_alive():
                one.join()


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """Start a cluster with Kueue; stop all of it at the end."""
    with Cluster.start() as cluster:
        cluster.start_whole(kueue_manager.stages(folder))
        for number in range(2):
            labels = {names.GPU_PRODUCT_LABEL: "a100"}
            cluster.add_gpu_node(f"gpus-{number}", gpus=32, labels=labels)
        with kueue_manager.running(cluster, folder) as manager:
            it = World(cluster, manager, folder)
            it.prepare()
            try:
                yield it
            finally:
                it.stop()


def run() -> list[Tried]:
    """Move there, and back, under load; a line for each."""
    results: list[Tried] = []
    with tempfile.TemporaryDirectory() as name, world(Path(name)) as it:
        for move in _OPTIONS:
            try:
                results.append(move(it))
            except (BrokenError, RestError, TimeoutError) as failure:
                say(f"{failure}\n{_tail(it.manager.log)}\n{_tail(it.ours.log)}")
                command = f"migrate kueue {_OPTIONS[move]}"
                results.append(Tried(command, f"FAILED: {failure}", failed=True))
                break
    return results


def _there(it: World) -> Tried:
    """Take Kueue's place, with half of the work there and the other half created meanwhile."""
    half = {kind: count // 2 for kind, count in _WORK.items()}
    for kind, count in half.items():
        for _ in range(count):
            it.add(kind)
    it.until(lambda: it.held() == QUOTA, "the quota is used")
    say(f"Kueue admitted {it.held()} pods; {it.tell()}")
    it.ends.set()
    told, seconds = _moved(it, "--apply", {kind: _WORK[kind] - half[kind] for kind in half})
    said = next(line for line in told.splitlines() if "nothing was admitted" in line)
    it.until(lambda: not it.with_finalizer(), "no pod has Kueue's finalizer")
    if it.manager.runs:
        raise BrokenError("Kueue runs on")
    return _judged(it, "--apply", f"{seconds:.0f} s, {said.partition('; ')[2]}")


def _back(it: World) -> Tried:
    """Give the place back, with new work."""
    few = {kind: count // 6 for kind, count in _WORK.items()}
    it.ends.clear()
    for kind, count in few.items():
        for _ in range(count):
            it.add(kind)
    it.until(lambda: it.held() == QUOTA, "the quota is used again")
    it.ends.set()
    _, seconds = _moved(it, "--undo", few)
    it.stop_serving()
    return _judged(it, "--undo", f"{seconds:.0f} s")


def _for_good(it: World) -> Tried:
    """Take its place once more, and forget the way back; then all that is left of it goes."""
    few = {"pod": QUOTA, "job": 2, "group": 2}
    it.ends.set()
    _moved(it, "--apply", few)
    told = it.migrate("--finish")
    path = f"/api/v1/namespaces/{kueue_manager.NAMESPACE}"
    if f"kubectl delete namespace {kueue_manager.NAMESPACE}" not in told:
        raise BrokenError(f"not told what to delete: {told}")
    it.api.delete(path)
    it.until(lambda: it.api.lacks(path), "Kueue's namespace is gone")
    it.add("pod")
    it.add("job")
    return _judged(it, "--finish", "after another --apply; Kueue's namespace is gone")


_WORK: Final = {"pod": PODS, "job": JOBS, "group": GROUPS}
_OPTIONS: Final = {_there: "--apply", _back: "--undo", _for_good: "--finish"}


def _moved(it: World, option: str, more: dict[str, int]) -> tuple[str, float]:
    """Run the command, and create more work while it runs; what it told, and its seconds."""
    kinds = itertools.cycle(["pod", "pod", "job", "pod", "group"])
    left = dict(more)

    def meanwhile(line: str) -> None:
        say(line.rstrip())
        if "start it now: gpu-admission run" in line:
            it.serve()
        for _ in range(2):
            kind = next(kinds)
            if left[kind]:
                left[kind] -= 1
                it.add(kind)

    clock = SystemClock()
    started = clock.monotonic()
    told = it.migrate(option, meanwhile=meanwhile)
    seconds = clock.monotonic() - started
    for kind, count in left.items():
        for _ in range(count):
            it.add(kind)
    return told, seconds


def _judged(it: World, option: str, text: str) -> Tried:
    it.await_ended()
    what = (
        f"{text}. All {len(it.made)} pods and Jobs so far have ended, none was refused, lost or "
        f"started twice; at most {it.judge.most} of {QUOTA} GPUs in {it.judge.looks} looks"
    )
    return Tried(f"gpu-admission migrate kueue {option}", what, failed=False)


def _tail(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-30:]) if path.exists() else ""
