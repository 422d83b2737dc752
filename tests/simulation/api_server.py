"""A simulated API server: how long each request takes, on simulated time.

What the requests do is done by the embedded store. The controller is a whole core. The server
has CPUs that work on one request each, first come first served; answers and watch events travel
over a network with a delay. Other clients send requests one after the other, each as soon as its
last one is answered. Nothing sleeps, and the same seed gives the same run.
"""

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final

from typing_extensions import override

from admission.config.gpu_configuration import GpuConfiguration
from admission.controller import core
from admission.controller.writing.api_requests import (
    ApiRequest,
    QueueKey,
    RequestResult,
    Result,
    Verb,
    WritePurpose,
)
from admission.kube import errors, resources
from admission.kube.reflector import Deleted, Upserted
from admission.kube.resources import Resource
from admission.objects import views
from tests.builders.cluster import make_namespace
from tests.builders.pods import queued_pod
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.controller.world import WATCHED, World

_WRITER_THREADS: Final = 32
_COST: Final = {
    Verb.READ: 0.3, Verb.CREATE: 1.0, Verb.REPLACE: 1.0, Verb.PATCH: 1.2, Verb.DELETE: 1.0,
}  # fmt: skip
"""How the times of requests compare."""


def _steadily(_rng: random.Random, _now: float) -> float:
    return 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """An API server.

    Attributes:
        cpus: requests that it works on at once.
        seconds: of one CPU for a create or replace.
        network: seconds there and back.
        factor: by how much longer a request takes, from a source of chance and the time.
        away: from and to when no request is answered, in seconds of the run.
        others: clients that each always have one request under way.
        patience: seconds after which the controller waits for no answer any more; what it asked
            for takes effect all the same.
        lost: share of the controller's requests of which the answer gets lost.
    """

    cpus: int = 2
    seconds: float = 0.005
    network: float = 0.0005
    factor: Callable[[random.Random, float], float] = _steadily
    away: tuple[float, float] = (0.0, 0.0)
    others: int = 0
    patience: float = 5.0
    lost: float = 0.0


@dataclass(slots=True)
class Measured:
    """What a run came to; times are seconds.

    Attributes:
        seconds: from the first pod to the last release.
        released: pods that were released.
        decision_waits: from each decision until its request took effect.
        in_flight: most requests of the controller in flight at once, by second.
        status_ages: from the first change that a ClusterQueue's status lacked to its write.
        writes: requests of the controller, by purpose.
        by_others: requests of other clients that were answered by the last release.
        stopped: pods that were released and stopped again.
        order: names of the pods in the order in which they were released.
    """

    seconds: float = 0.0
    released: int = 0
    decision_waits: list[float] = field(default_factory=list)
    in_flight: dict[int, int] = field(default_factory=dict)
    status_ages: list[float] = field(default_factory=list)
    writes: dict[WritePurpose, int] = field(default_factory=dict)
    by_others: int = 0
    stopped: int = 0
    order: list[str] = field(default_factory=list)

    @property
    def pods_a_second(self) -> float:
        return self.released / self.seconds

    def decision_wait(self, percent: int) -> float:
        """Return the wait that so many percent of the decisions did not exceed."""
        waits = sorted(self.decision_waits)
        return waits[min(len(waits) - 1, len(waits) * percent // 100)]


class Simulation(World):
    """A core, a store and a server between them.

    Each pod runs for a while when it is released, then it succeeds and is deleted. Those who make
    the pods and end them are clients of the same server.
    """

    def __init__(
        self, server: Server, *, quota: int, queues: int = 1, most: int = 32, seed: int = 1,
        **of_queues: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            gpu=GpuConfiguration.model_validate(
                {"maxStopsPerMinute": 0, "controller": {"writers": most}}
            ),
            rng=random.Random(seed),
        )
        self.add(make_namespace(), make_flavor())
        for number in range(queues):
            self.add(
                make_cluster_queue(f"q{number}", quota=quota, cohortName="all", **of_queues),
                make_local_queue(f"q{number}", f"q{number}"),
            )
        self._server, self._rng = server, random.Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._free, self._jobs = server.cpus, deque[tuple[float, Callable[[], None]]]()
        self._waiting_writes = deque[tuple[float, ApiRequest]]()
        self._threads = 0
        self._awaited: set[tuple[int, float]] = set()
        """Attempts whose outcome is open, by request and beginning."""
        self._decided: dict[Any, float] = {}
        self._stale: dict[str, float] = {}
        self._last: dict[tuple[Resource, str, str], Any] = {}
        self._run_seconds: float = 1.0
        self._wanted = 0
        self._gone: set[str] = set()
        self._is_over = False
        self.measured = Measured()
        self._step_at: float | None = None
        self.settle()  # queues are active before time is measured
        self._is_simulated = True
        self._began = self.clock.monotonic()
        for _ in range(server.others):
            self._other_sends()

    # ------------------------------------------------------------------------------- the server

    @override
    def submit(self, write: ApiRequest) -> None:
        """Send a request when one of the writers is free."""
        if not getattr(self, "_is_simulated", False):
            super().submit(write)
            return
        if self._threads == _WRITER_THREADS:
            self._waiting_writes.append((self._now, write))
            return
        self._threads += 1
        second = int(self._now)
        most = self.measured.in_flight
        most[second] = max(most.get(second, 0), self._threads)
        self._attempt(write, self._now)

    def _attempt(self, write: ApiRequest, began: float) -> None:
        """Let a request travel, wait for a CPU, be served, and its answer travel back."""
        begins, ends = self._server.away
        if begins <= self._now < ends:
            unknown = RequestResult(request=write, result=Result.UNKNOWN)
            self._at(5.0, lambda: self._answer(unknown))
            return
        attempt = (id(write), began)
        self._awaited.add(attempt)
        unknown = RequestResult(request=write, result=Result.UNKNOWN)
        self._at(self._server.patience, lambda: self._end_attempt(attempt, unknown))
        self._serve(_COST[write.verb], lambda: self._apply(write, began))

    def _end_attempt(self, attempt: tuple[int, float], outcome: RequestResult) -> None:
        """Report an outcome, unless nobody waits for it any more."""
        if attempt in self._awaited:
            self._awaited.discard(attempt)
            self._answer(outcome)

    def _serve(self, cost: float, then: Callable[[], None]) -> None:
        def arrive() -> None:
            self._jobs.append((cost, then))
            self._work()

        self._at(self._server.network / 2, arrive)

    def _work(self) -> None:
        while self._free and self._jobs:
            cost, then = self._jobs.popleft()
            self._free -= 1
            seconds = self._server.seconds * cost * self._server.factor(self._rng, self._now)

            def done(then: Callable[[], None] = then) -> None:
                self._free += 1
                then()
                self._work()

            self._at(seconds, done)

    def _apply(self, write: ApiRequest, began: float) -> None:
        """Do what a request asks for, and send the answer and the watch event."""
        operations = self.measured.writes
        operations[write.operation] = operations.get(write.operation, 0) + 1
        outcome = self._sender.send(write)
        if write.operation is WritePurpose.RESERVE_QUOTA and outcome.result is Result.DONE:
            decided = self._decided.pop(write.key, None)
            if decided is not None:
                self.measured.decision_waits.append(self._now - decided)
        if (
            write.operation is WritePurpose.QUEUE_STATUS
            and write.resource is resources.CLUSTER_QUEUES
        ):
            since = self._stale.pop(write.name, None)
            if since is not None:
                self.measured.status_ages.append(self._now - since)
        if write.operation is WritePurpose.START_OWNER and outcome.result is Result.DONE:
            self._start(write.name)
        if write.operation is WritePurpose.DELETE_OWNER and outcome.result is Result.DONE:
            self.measured.stopped += 1
        self._tell(write.resource, write.namespace, write.name)
        half = self._server.network / 2
        seconds = self._now + half - began
        found = replace(outcome, seconds=seconds)
        if not self._server.lost or self._rng.random() >= self._server.lost:
            self._at(half, lambda: self._end_attempt((id(write), began), found))

    def _answer(self, outcome: RequestResult) -> None:
        self._threads -= 1
        self.core.receive(outcome)
        if self._waiting_writes:
            _, write = self._waiting_writes.popleft()
            self.submit(write)

    def _tell(self, resource: Resource, namespace: str, name: str) -> None:
        """Send the watch event of an object as it is now."""
        into = WATCHED.get(resource)
        if into is None:
            return
        try:
            found = self.store.get(resource, name, namespace, into=into)
        except errors.NotFoundError:
            metadata = views.ObjectMeta(namespace=namespace, name=name, resource_version="999999")
            if resource is resources.PODS:
                return  # told of with its last state by those who delete it
            known = self._last.pop((resource, namespace, name), None)
            found = known or views.Object(metadata=metadata)
            self._at(self._server.network / 2, lambda: self._see(resource, Deleted(found)))
            return
        self._last[(resource, namespace, name)] = found
        self._at(self._server.network / 2, lambda: self._see(resource, Upserted(found)))

    def _see(self, resource: Resource, change: Any) -> None:
        self.core.receive(core.WatchMessage(resource, change))

    def _other_sends(self) -> None:
        def answered() -> None:
            self.measured.by_others += not self._is_over
            if not self._is_over:
                self._other_sends()

        self._serve(1.0, lambda: self._at(self._server.network / 2, answered))

    # -------------------------------------------------------------------------------- the pods

    def create(
        self, pods: int, *, creators: int, queues: int = 1, run_seconds: float = 1.0
    ) -> None:
        """Create pods by so many clients, each of which creates them one after the other."""
        self._run_seconds, self._wanted = run_seconds, self._wanted + pods
        numbers = iter(range(pods))

        def create() -> None:
            number = next(numbers, None)
            if number is None:
                return
            name = f"pod-{number:05}"
            document = queued_pod(name, gpus=1, queue=f"q{number % queues}")

            def apply() -> None:
                self.store.create(resources.PODS, document, "ml")
                self._tell(resources.PODS, "ml", name)
                self._at(self._server.network, create)

            self._serve(1.0, apply)

        for _ in range(creators):
            create()

    def _start(self, name: str) -> None:
        self.measured.released += 1
        self.measured.order.append(name)
        self.measured.seconds = self._now - self._began
        self._is_over = self.measured.released >= self._wanted
        self._at(self._run_seconds, lambda: self._serve(1.0, lambda: self._end(name)))

    def _end(self, name: str) -> None:
        self.set_phase(name, "Succeeded")
        self._tell(resources.PODS, "ml", name)

    # --------------------------------------------------------------------------------- the time

    @property
    def _now(self) -> float:
        return self.clock.monotonic()

    def _at(self, seconds: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self._now + seconds, next(self._numbers), do))

    def run(self, limit_seconds: float = 600.0) -> Measured:
        """Let time pass until all pods were released; fail when that takes too long."""
        turned_at = -1.0
        due: float | None = 0.0
        while not self._is_over:
            moments = [self._events[0][0]] if self._events else []
            if due is not None:
                moments.append(max(due, turned_at + self.core.gathering_seconds))
            assert moments, "nothing happens any more"
            moment = max(min(moments), self._now)
            assert moment < self._began + limit_seconds, f"not over: {self.measured}"
            self.clock.advance(moment - self._now)
            was_told = False
            while self._events and self._events[0][0] <= self._now:
                heapq.heappop(self._events)[2]()
                was_told = True
            if was_told:
                due = self._now if due is None else min(due, self._now)
            if due is not None and max(due, turned_at + self.core.gathering_seconds) <= self._now:
                turned_at = self._now
                again = self.core.step()
                due = None if again is None else self._now + max(again, 1e-6)
                self._note_turn()
        return self.measured

    def _note_turn(self) -> None:
        for key in self.parts.quota.scheduling._admits:
            self._decided.setdefault(key, self._now)
        marks = self.parts.statuses._queue._marks
        for queue, mark in marks.items():
            if queue.kind == "ClusterQueue":
                self._stale.setdefault(queue.name, mark.at)
        for name in list(self._stale):
            lane = QueueKey("ClusterQueue", "", name)
            if lane not in marks and not self.parts.basis.flow.is_busy(lane):
                del self._stale[name]  # it said already what it should
