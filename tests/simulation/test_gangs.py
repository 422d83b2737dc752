"""Many gangs at once: each starts whole, none waits for quota that another one holds for ever.

What is judged is seen from outside: which pods run. A gang works once all its pods run; then they
succeed. A pod that is deleted is made again by whoever made the gang. The environment variable
GANGS says how many gangs of 20 there are: ``GANGS=500 .venv/bin/pytest tests/simulation``.
"""

import os
import random
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from typing_extensions import override

from admission.base import patches
from admission.controller.writing.api_requests import ApiRequest, Verb, WritePurpose
from admission.kube import resources
from admission.kube.errors import NotFoundError
from admission.kube.reflector import Deleted
from admission.objects import views
from tests.builders.cluster import make_node
from tests.builders.pods import group_pod
from tests.simulation.api_server import Server, Simulation

_WORK_SECONDS = 1.0
GANGS = int(os.environ.get("GANGS", "100"))
_OF_QUEUES = frozenset({WritePurpose.QUEUE_STATUS})


@dataclass(slots=True)
class Gang:
    """A gang and what it has come to.

    Attributes:
        name: its name; pods are named after it.
        size: how many pods it has.
        queue: its LocalQueue.
        running: pods that were released and have not ended.
        ending: pods of `running` that are being deleted.
        is_done: whether it has worked.
    """

    name: str
    size: int
    queue: str
    running: set[str] = field(default_factory=set)
    ending: set[str] = field(default_factory=set)
    is_done: bool = False

    @property
    def held(self) -> int:
        """GPUs that nobody else may have: of all its pods, once one of them runs."""
        return len(self.running) if self.ending or self.is_done else self.size


class Gangs(Simulation):
    """Gangs whose pods are created in any order by many clients at once.

    Attributes:
        gangs: by name.
        most_held: most GPUs that were held at once.
        evictions: pods that were stopped by the controller.
        gpus: quota of all queues.
    """

    def __init__(self, *, quota: int, queues: int, **of_queues: Any) -> None:
        super().__init__(Server(cpus=4, seconds=0.001), quota=quota, queues=queues, **of_queues)
        self.gangs: dict[str, Gang] = {}
        self.most_held = self.evictions = 0
        self._queues, self.gpus = queues, quota * queues
        self.store.create(resources.NODES, make_node("node"))
        self._tell(resources.NODES, "", "node")

    def create_gangs(self, gangs: int, size: int, creators: int = 50) -> None:
        """Create the pods of gangs, in any order."""
        documents = []
        for number in range(gangs):
            gang = Gang(f"gang-{size}-{number}", size, f"q{number % self._queues}")
            self.gangs[gang.name] = gang
            documents += [(gang, f"{gang.name}-{index:02}") for index in range(size)]
        random.Random(7).shuffle(documents)
        waiting = iter(documents)

        def create() -> None:
            following = next(waiting, None)
            if following is None:
                return

            def apply() -> None:
                self._make(*following)
                self._at(self._server.network, create)

            self._serve(1.0, apply)

        for _ in range(creators):
            create()

    def _make(self, gang: Gang, name: str) -> None:
        document = group_pod(name, gang.name, gang.size, queue=gang.queue)
        self.store.create(resources.PODS, document, "ml")
        self._tell(resources.PODS, "ml", name)

    @override
    def _apply(self, write: ApiRequest, began: float) -> None:
        before = None
        if write.verb is Verb.DELETE and write.resource is resources.PODS:
            before = self.store.get(resources.PODS, write.name, "ml", into=views.Pod)
        super()._apply(write, began)
        if before is not None:
            self._stop(before)

    @override
    def _start(self, name: str) -> None:
        gang = self.gangs[name.rpartition("-")[0]]
        bound = {"spec": {"nodeName": "node"}}
        self.store.patch(resources.PODS, name, patches.merge(bound), "ml")
        self.set_phase(name, "Running")
        self._tell(resources.PODS, "ml", name)
        gang.running.add(name)
        self.most_held = max(self.most_held, sum(one.held for one in self._alive()))
        if len(gang.running) == gang.size and not gang.ending:
            self._at(_WORK_SECONDS, lambda: self._work_done(gang))

    def _alive(self) -> list[Gang]:
        return [one for one in self.gangs.values() if one.running]

    def _work_done(self, gang: Gang) -> None:
        if len(gang.running) < gang.size or gang.ending or gang.is_done:
            return
        gang.is_done = True
        for name in sorted(gang.running):
            self._serve(1.0, partial(self._succeed, gang, name))

    def _succeed(self, gang: Gang, name: str) -> None:
        if name not in gang.ending and name in gang.running:
            self.set_phase(name, "Succeeded")
            self._tell(resources.PODS, "ml", name)
            self._ended(gang, name)

    def _ended(self, gang: Gang, name: str) -> None:
        gang.running.discard(name)
        gang.ending.discard(name)
        self._is_over = all(one.is_done and not one.running for one in self.gangs.values())

    def _stop(self, pod: views.Pod) -> None:
        """Do what a kubelet does with a pod that is deleted, and whoever made it."""
        name = pod.metadata.name
        gang = self.gangs[name.rpartition("-")[0]]
        self.evictions += name in gang.running
        gang.ending.add(name)
        self._at(0.2, lambda: self._serve(1.0, lambda: self._end_pod(gang, pod)))

    def _end_pod(self, gang: Gang, pod: views.Pod) -> None:
        name = pod.metadata.name
        try:
            last = self.store.get(resources.PODS, name, "ml", into=views.Pod)
            self.store.delete(resources.PODS, name, "ml", grace_period_seconds=0)
        except NotFoundError:
            last = pod
        self._ended(gang, name)
        self._see(resources.PODS, Deleted(last))
        if not gang.is_done:
            self._at(0.1, lambda: self._serve(1.0, lambda: self._make(gang, name)))

    @property
    def writes(self) -> int:
        """Requests of the controller about gangs and their pods."""
        counted = self.measured.writes.items()
        return sum(count for operation, count in counted if operation not in _OF_QUEUES)


def run(gangs: Gangs) -> Gangs:
    """Let all gangs run, which must end, and never hold more than there is."""
    gangs.run(limit_seconds=3600)
    assert all(one.is_done for one in gangs.gangs.values())
    assert gangs.most_held <= gangs.gpus
    return gangs


def test_gangs_start_whole_and_all_of_them_run() -> None:
    """Their pods come in any order, and there is room for ten of them at a time."""
    size, made = 20, Gangs(quota=50, queues=4)
    made.create_gangs(GANGS, size)
    found = run(made)
    assert found.evictions == 0
    assert found.writes <= GANGS * (3 * size + 4)


def test_gangs_that_need_the_quota_of_each_other_run_one_after_the_other() -> None:
    """Each is larger than the quota of its queue."""
    preemption = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    made = Gangs(quota=10, queues=5, preemption=preemption)
    made.create_gangs(50, 16)
    assert run(made).evictions == 0


def test_gangs_that_are_stopped_to_give_back_what_they_borrowed_run_in_the_end() -> None:
    """Those of 15 have borrowed when those of 9 come, which fit into the quota of their queue."""
    made = Gangs(quota=10, queues=4, preemption={"reclaimWithinCohort": "Any"})
    made.create_gangs(20, 15)
    made._at(2.5, lambda: made.create_gangs(20, 9))
    found = run(made)
    assert len(found.gangs) == 40
    assert found.evictions > 0
    assert found.writes <= 40 * (3 * 15 + 4) + 6 * found.evictions
