"""Makes Workloads by hand and plays their owner: a process of its own.

Reads a `Load` as JSON from standard input, prints a `Report` as JSON. A Workload runs for its time
from the moment its admission was seen and is then marked Finished. One that is evicted is stopped
and its quota given back at once; it runs its whole time again after the next admission.
"""

import resource
import sys
from collections import Counter
from typing import Any, Final

import msgspec

from admission.base.clock import SystemClock, to_wire
from tests.bench import fitting, shape
from tests.bench.agenda import Agenda
from tests.bench.crew import Crew, Meta, Server
from tests.bench.fitting import Sight, Step
from tests.bench.probe import Probe
from tests.bench.shape import Arrival

CREATE: Final = "POST workloads"
PATCH_STATUS: Final = "PATCH workloads/status"
CONFLICT: Final = "PATCH workloads/status (409)"

_KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
_PATIENCE_SECONDS: Final = 3_600.0
_AGAIN_SECONDS: Final = 0.01
_MERGE: Final = "application/merge-patch+json"
_NO_CONFLICT_BELOW: Final = 300
_CONFLICT: Final = 409


class Load(Server, frozen=True, kw_only=True):
    """What is to be created.

    Attributes:
        namespace: has the probe.
        queues: namespaces by the names of the LocalQueues.
        shape: name of the load.
        scale: see `shape.arrivals`.
        slower: see `shape.Shape.slowed`; 1 for the load as it is.
        idle_seconds: how long the statuses are looked at before anything comes.
        probe: a queue of the same name as its ClusterQueue that admits nothing.
        threads: connections that create, and as many that write statuses.
    """

    namespace: str
    queues: dict[str, str]
    shape: str
    scale: float
    slower: int
    idle_seconds: float
    probe: str
    threads: int = 6


class Report(msgspec.Struct, kw_only=True):
    """What happened; times in seconds.

    Attributes:
        wall_seconds: from the first request to the last event with Finished.
        created_seconds: from the first request to the last answer of one that creates.
        admission_seconds: by class, of each Workload from the request to the first admission seen.
        held_cpu_seconds: cpus times seconds from each admission seen to its end seen.
        fitting_waits: see `fitting.waits`.
        evictions: seen.
        idle_ages: of queue statuses by kind while nothing else happened, see `ages`.
        loaded_ages: likewise under the load.
        cpu_seconds: of this process.
        writes: of this process by kind; conflicts apart.
    """

    wall_seconds: float
    created_seconds: float
    admission_seconds: dict[str, list[float]]
    held_cpu_seconds: float
    fitting_waits: list[float]
    evictions: int
    idle_ages: dict[str, list[float]]
    loaded_ages: dict[str, list[float]]
    cpu_seconds: float
    writes: dict[str, int]


class _Status(msgspec.Struct, frozen=True):
    conditions: list[dict[str, Any]] = []

    def holds(self, kind: str) -> bool:
        """Whether a condition is True."""
        return any(one["type"] == kind and one["status"] == "True" for one in self.conditions)


class _Workload(msgspec.Struct, frozen=True):
    metadata: Meta
    status: _Status = _Status()


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: _Workload


class _Item:
    """A Workload as its owner knows it.

    Attributes:
        arrival: what it is.
        seen: its latest version.
        sent: when it was created; None before.
        admitted_after: seconds to the first admission.
        running_since: None while it does not run.
        runs: admissions so far; tells one run from the next.
        evicted: since the last of them.
        reserved: it has a reservation.
        over: it is Finished.
        refused: version that the API server no longer took; a newer one is to be seen first.
    """

    __slots__ = (
        "admitted_after", "arrival", "evicted", "over", "refused", "reserved", "running_since",
        "runs", "seen", "sent",
    )  # fmt: skip

    def __init__(self, arrival: Arrival) -> None:
        self.arrival = arrival
        self.seen: _Workload | None = None
        self.sent: float | None = None
        self.admitted_after: float | None = None
        self.running_since: float | None = None
        self.runs = 0
        self.evicted = False
        self.reserved = False
        self.over = False
        self.refused = ""


class Runner:
    """One load from its first request to its last Finished."""

    def __init__(self, load: Load) -> None:
        self._load = load
        one = set(load.queues.values())
        self._watched = self._path_in(one.pop()) if len(one) == 1 else f"{_KUEUE}/workloads"
        self._clock = SystemClock()
        chosen = shape.SHAPES[load.shape]
        chosen = chosen if load.slower == 1 else chosen.slowed(load.slower)
        arrivals = shape.arrivals(tuple(load.queues), load.scale, chosen)
        self._items = {arrival.name: _Item(arrival) for arrival in arrivals}
        self._left = len(arrivals)
        self._crew = Crew()
        self._to_create: Agenda[_Item] = Agenda(self._clock.monotonic)
        self._to_write: Agenda[tuple[_Item, int]] = Agenda(self._clock.monotonic)
        self._created_at = 0.0
        self._held = 0.0
        self._evictions = 0
        self._sights: list[Sight] = []
        self._writes: Counter[str] = Counter()

    @staticmethod
    def _path_in(namespace: str) -> str:
        return f"{_KUEUE}/namespaces/{namespace}/workloads"

    def run(self) -> Report:
        """Does it all.

        Raises:
            TimeoutError: Workloads are not finished after a long time.
        """
        probe = Probe(self._load, self._load.namespace, self._load.probe, self._crew)
        idle_from = self._clock.monotonic()
        probe.start()
        self._crew.wait(self._load.idle_seconds)
        self._crew.start(self._watch, self._load.version(self._watched))
        for _ in range(self._load.threads):
            self._crew.start(self._create)
            self._crew.start(self._write)
        probe.load_begins()
        started = self._clock.monotonic()
        for item in self._items.values():
            self._to_create.put(started + item.arrival.due_ms / 1000, item)
        finished = self._crew.wait(_PATIENCE_SECONDS)
        ended = self._clock.monotonic()
        if not finished:
            left = sorted(name for name, item in self._items.items() if not item.over)
            raise TimeoutError(f"{len(left)} Workloads left: {left[:10]}")
        probe.stop()
        used = resource.getrusage(resource.RUSAGE_SELF)
        return Report(
            wall_seconds=ended - started,
            created_seconds=self._created_at - started,
            admission_seconds=self._admission_seconds(),
            held_cpu_seconds=self._held,
            fitting_waits=self._fitting_waits(),
            evictions=self._evictions,
            idle_ages=probe.ages(idle_from, started),
            loaded_ages=probe.ages(started, ended),
            cpu_seconds=used.ru_utime + used.ru_stime,
            writes=dict(self._writes + probe.writes),
        )

    def _admission_seconds(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for item in self._items.values():
            if item.admitted_after is not None:
                found.setdefault(item.arrival.of.name, []).append(item.admitted_after)
        return found

    def _fitting_waits(self) -> list[float]:
        cohorts = {
            name: cohort
            for cohort, name in shape.SHAPES[self._load.shape].queues()
            if name in self._load.queues
        }
        return fitting.waits(self._sights, cohorts, shape.NOMINAL_CPU)

    # Threads

    def _watch(self, version: str) -> None:
        """Follows the Workloads; a server that ends the watch is asked to go on."""
        decoder = msgspec.json.Decoder(_Event)
        while True:
            path = f"{self._watched}?watch=true&resourceVersion={version}&timeoutSeconds=3600"
            for line in self._load.connect().stream(path):
                event = decoder.decode(line)
                if event.type == "ERROR":
                    raise ConnectionError(line.decode())
                version = event.object.metadata.resource_version
                item = self._items.get(event.object.metadata.name)
                if item is not None and event.type != "DELETED":
                    self._see(item, event.object)

    def _see(self, item: _Item, found: _Workload) -> None:
        now, status = self._clock.monotonic(), found.status
        self._note(item, now, status)
        item.seen = found
        if status.holds("Finished"):
            self._stop(item, now)
            if not item.over:
                item.over = True
                self._left -= 1
            if self._left == 0:
                self._crew.done.set()
        elif status.holds("Evicted"):
            if not item.evicted and status.holds("QuotaReserved"):
                self._evict(item, now)
        elif status.holds("Admitted") and item.running_since is None:
            self._run_from(item, now)

    def _note(self, item: _Item, now: float, status: _Status) -> None:
        """Keep what this sight of a Workload tells about the quota."""
        is_over = status.holds("Finished")
        reserved = status.holds("QuotaReserved") and not is_over
        steps = []
        if item.reserved != reserved:
            steps.append(Step.RESERVES if reserved else Step.FREES)
        if item.seen is None or (item.reserved and not reserved and not is_over):
            steps.insert(0, Step.WAITS)
        item.reserved = reserved
        arrival = item.arrival
        self._sights += [Sight(now, arrival.queue, arrival.of, step) for step in steps]

    def _evict(self, item: _Item, now: float) -> None:
        item.evicted = True
        self._evictions += 1
        self._stop(item, now)
        self._to_write.put(now, (item, item.runs))

    def _run_from(self, item: _Item, now: float) -> None:
        item.running_since = now
        item.runs += 1
        item.evicted = False
        if item.admitted_after is None and item.sent is not None:
            item.admitted_after = now - item.sent
        self._to_write.put(now + item.arrival.of.runtime_ms / 1000, (item, item.runs))

    def _stop(self, item: _Item, now: float) -> None:
        if item.running_since is not None:
            self._held += item.arrival.of.cpu * (now - item.running_since)
            item.running_since = None

    def _create(self) -> None:
        connection = self._load.connect()
        while True:
            item = self._to_create.take()
            arrival = item.arrival
            body = shape.workload(arrival.name, arrival.queue, arrival.of)
            item.sent = self._clock.monotonic()
            status, answer = connection.send(
                "POST", self._path_in(self._load.queues[arrival.queue]), msgspec.json.encode(body)
            )
            if status >= _NO_CONFLICT_BELOW:
                raise RuntimeError(f"{CREATE}: {status} {answer.decode()}")
            self._created_at = max(self._created_at, self._clock.monotonic())
            self._writes[CREATE] += 1

    def _write(self) -> None:
        """Ends runs whose time has come, and evictions."""
        connection = self._load.connect()
        while True:
            item, run = self._to_write.take()
            seen = item.seen
            if seen is None or item.over or item.runs != run:
                continue
            status = self._status(item, seen)
            if status is None:
                continue
            version = seen.metadata.resource_version
            if version == item.refused:
                self._to_write.put(self._clock.monotonic() + _AGAIN_SECONDS, (item, run))
                continue
            precondition = {"resourceVersion": version}
            namespace = self._load.queues[item.arrival.queue]
            path = f"{self._path_in(namespace)}/{seen.metadata.name}/status"
            body = msgspec.json.encode({"metadata": precondition, "status": status})
            code, answer = connection.send("PATCH", path, body, _MERGE)
            if code == _CONFLICT:
                self._writes[CONFLICT] += 1
                item.refused = version
                self._to_write.put(self._clock.monotonic() + _AGAIN_SECONDS, (item, run))
            elif code >= _NO_CONFLICT_BELOW:
                raise RuntimeError(f"{PATCH_STATUS}: {code} {answer.decode()}")
            else:
                self._writes[PATCH_STATUS] += 1

    def _status(self, item: _Item, seen: _Workload) -> dict[str, Any] | None:
        """What the owner says of its Workload now; None where it has nothing to say."""
        status = seen.status
        if status.holds("Evicted"):
            if not status.holds("QuotaReserved"):
                return None
            cleared = [
                self._condition("QuotaReserved", "False", "Pending", "The eviction is over"),
                self._condition("Admitted", "False", "NoReservation", "No quota is reserved"),
            ]
            return {"admission": None, "conditions": _merged(status.conditions, cleared)}
        if item.running_since is None:
            return None
        finished = self._condition("Finished", "True", "Succeeded", "The run is over")
        return {"conditions": _merged(status.conditions, [finished])}

    def _condition(self, kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
        return {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": to_wire(self._clock.now()),
        }


def _merged(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Conditions with new ones set."""
    by_type = {one["type"]: one for one in [*old, *new]}
    return list(by_type.values())


def main() -> None:
    """Standard input to standard output."""
    load = msgspec.json.decode(sys.stdin.buffer.read(), type=Load)
    sys.stdout.buffer.write(msgspec.json.encode(Runner(load).run()))


if __name__ == "__main__":
    main()
