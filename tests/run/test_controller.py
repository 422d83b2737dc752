"""The loop around the core: when it takes what has arrived, and how it ends."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import REGISTRY
from typing_extensions import override

from admission.base.clock import SystemClock
from admission.config.derived import Settings
from admission.kube import errors, resources
from admission.kube.resources import Resource
from admission.objects import crds
from admission.run.controller import ControllerThread
from admission.run.leading import Alone
from admission.sandbox.store import Store
from tests.builders.cluster import make_namespace
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue, reviewed
from tests.builders.workloads import make_workload
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
    queue = make_cluster_queue(quota=_WORKLOADS)
    workloads = [make_workload(f"train-{n}") for n in range(_WORKLOADS)]
    for document in (make_namespace(), make_flavor(), queue, make_local_queue(), *workloads):
        found = resources.of_kind(document["apiVersion"], document["kind"])
        assert found is not None
        server.create(found, reviewed(document), document["metadata"].get("namespace", ""))
    controller = ControllerThread(server, Settings(), clock, Alone())
    controller.start()
    try:
        core = controller._view.core
        waiting.until(lambda: core.gathering_seconds, what="decisions that wait to be written")
        began = clock.monotonic()
        for _ in range(10):
            controller.ask(lambda reader: reader.workloads(()), waiting.PATIENCE_SECONDS)
        assert clock.monotonic() - began > 0.08
    finally:
        server.goes_on.set()
        controller.stop()


class Lossy(Store):
    """A store that takes a change of a Workload and does not say so."""

    is_lossy = True

    @override
    def replace(self, resource: Resource, *args: Any, **options: Any) -> Any:
        made = super().replace(resource, *args, **options)
        if resource is resources.WORKLOADS and self.is_lossy:
            self.is_lossy = False
            raise errors.TransportError("no answer", outcome_unknown=True)
        return made


class Noting(Alone):
    """A leader that notes how it was told to end."""

    is_drained: bool | None = None

    @override
    def stop(self, *, is_drained: bool) -> None:
        self.is_drained = is_drained


@pytest.mark.parametrize("is_lossy", [False, True], ids=["all answered", "one not answered"])
def test_a_leader_is_drained_when_no_request_without_an_answer_can_be_under_way(
    is_lossy: bool,
) -> None:
    """The time-out of a request has not passed since one got no answer."""
    server, leadership = Lossy(crds=crds.documents()), Noting()
    server.is_lossy = is_lossy
    workload = make_workload("train")
    queue = make_cluster_queue(quota=1)
    for document in (make_namespace(), make_flavor(), queue, make_local_queue(), workload):
        found = resources.of_kind(document["apiVersion"], document["kind"])
        assert found is not None
        server.create(found, reviewed(document), document["metadata"].get("namespace", ""))
    settings = Settings.model_validate({"gpu": {"controller": {"requestTimeout": "1h"}}})
    controller = ControllerThread(server, settings, SystemClock(), leadership)
    controller.start()
    metadata = workload["metadata"]

    def is_admitted() -> bool:
        status = server.get(resources.WORKLOADS, metadata["name"], metadata["namespace"])
        return "admission" in status.get("status", {})

    waiting.until(is_admitted, what="the Workload admitted")
    waiting.until(lambda: controller._view.core._flow.in_flight == 0, what="all is answered")
    controller.stop()
    assert leadership.is_drained is not is_lossy


class Candidate(Alone):
    """One of several: leads when told, and may stop to."""

    at_once = False
    leads = True

    @override
    def start(self, begin: Callable[[], None]) -> None:
        self.begin = begin

    @override
    def may_write(self) -> bool:
        return self.leads


def leader_shown() -> float | None:
    return REGISTRY.get_sample_value("gpu_admission_leader")


def test_the_metrics_say_who_decides_and_may_write() -> None:
    leadership = Candidate()
    server = Store(crds=crds.documents())
    controller = ControllerThread(server, Settings(), SystemClock(), leadership)
    controller.start()
    try:
        assert leader_shown() == 0
        leadership.begin()
        assert leader_shown() == 1
        leadership.leads = False  # the Lease is not renewed in time
        assert leader_shown() == 0
        leadership.leads = True
        assert leader_shown() == 1
    finally:
        controller.stop()
    assert leader_shown() == 0
