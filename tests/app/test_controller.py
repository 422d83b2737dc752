"""The loop around the core: when it takes what has arrived."""

import threading
from typing import Any

from typing_extensions import override

from admission.api import crds
from admission.app.controller import Controller
from admission.app.leading import Alone
from admission.base.clock import SystemClock
from admission.kube import resources
from admission.kube.resources import Resource
from admission.kube.store import Store
from admission.settings import Settings
from tests.controllers import world
from tests.controlplane import waiting

_WORKLOADS = 20


class Stalled(Store):
    """A store that answers no change of a Workload before it is told to."""

    def __init__(self) -> None:
        super().__init__(crds=crds.documents())
        self.goes_on = threading.Event()

    @override
    def replace(self, resource: Resource, *args: Any, **options: Any) -> Any:
        if resource is resources.WORKLOADS:
            self.goes_on.wait()
        return super().replace(resource, *args, **options)


def test_turns_are_10_ms_apart_while_as_much_is_decided_as_can_be_written() -> None:
    clock, server = SystemClock(), Stalled()
    queue = world.cluster_queue(quota=_WORKLOADS)
    workloads = [world.by_hand(f"train-{n}", ("main", 1, 1)) for n in range(_WORKLOADS)]
    for document in (world.namespace(), world.flavor(), queue, world.local_queue(), *workloads):
        found = resources.of_kind(document["apiVersion"], document["kind"])
        assert found is not None
        server.create(found, document, document["metadata"].get("namespace", ""))
    controller = Controller(server, Settings(), clock, Alone())
    controller.start()
    try:
        core = controller._core
        waiting.until(lambda: core.gathering_seconds, what="decisions that wait to be written")
        began = clock.monotonic()
        for _ in range(10):
            controller.ask(lambda reader: reader.workloads(()), 5)
        assert clock.monotonic() - began > 0.08
    finally:
        server.goes_on.set()
        controller.stop()
