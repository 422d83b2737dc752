"""A controller core on an embedded store, turned by hand: no threads, no waiting."""

import random
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from admission.base import conditions, patches
from admission.base.events import Event
from admission.base.namespaces import MANAGED, ManagedNamespaces
from admission.config.derived import Settings
from admission.config.gpu_configuration import GpuConfiguration
from admission.config.kueue_configuration import Configuration
from admission.controller import core, watched
from admission.controller.assembly import cores
from admission.controller.assembly.basis import Installation
from admission.controller.quarantine import Unreadable
from admission.controller.queues.workload_metrics import KueueMetrics
from admission.controller.watched_owners import pod_groups
from admission.controller.writing.api_requests import ApiRequest, RequestResult
from admission.controller.writing.writer import Sender
from admission.gpu import catalogue
from admission.kube import resources
from admission.kube.api import Document
from admission.kube.reflector import Arrived, Replaced
from admission.kube.resources import Resource
from admission.objects import crds, views
from admission.objects.workload import Workload
from admission.owners import integrations
from admission.sandbox.store import Store
from admission.scheduling import model
from admission.scheduling.state import SchedulerState
from admission.scheduling.transformation import NO_RULES, TransformationRules
from tests.builders.cluster import make_namespace
from tests.builders.metadata import make_condition
from tests.builders.pods import queued_pod
from tests.builders.queues import (
    make_check,
    make_cluster_queue,
    make_flavor,
    make_local_queue,
    reviewed,
)
from tests.clocks import FakeClock
from tests.controller import preconditions, purity

_CRDS = crds.documents()
_PRODUCTS = catalogue.load()
_SHORTEST_STEP = 0.01
"""Seconds between two turns of the core, as its loop has them."""
_MOST_RESTLESS = 500
"""Turns one after the other of which each says that the next is due at once."""
_ROWS: dict[Resource, Any] = {
    **watched.rows(integrations.DEFAULT),
    **{
        one: into
        for one, into in watched.OPTIONAL.items()
        if one in {*pod_groups.resources_of_gangs(), resources.VOLCANO_QUEUES}
    },
}
"""Kinds that no store serves; tests show them."""
WATCHED: dict[Resource, Any] = {
    **watched.WATCHED,
    **{one: into for one, into in watched.OPTIONAL.items() if one in resources.BUILT_IN},
    **_ROWS,
}


def _order_of_a_start(resource: Resource) -> int:
    """What Workloads and pods are judged by comes first, Workloads last."""
    return (resource not in watched.SURROUNDINGS) + (resource is resources.WORKLOADS)


WORKLOAD_KIND = "workloads.kueue.x-k8s.io"


def _without_schema(document: Document) -> Document:
    """A definition without the long part that nobody here reads; each world stores it."""
    versions = [
        {member: value for member, value in version.items() if member != "schema"}
        for version in document["spec"]["versions"]
    ]
    return {**document, "spec": {**document["spec"], "versions": versions}}


(_WORKLOADS,) = (
    _without_schema(document)
    for document in _CRDS
    if document["metadata"]["name"] == WORKLOAD_KIND
)


class RecordedEvents:
    """Events as they were recorded."""

    def __init__(self) -> None:
        self.recorded: list[tuple[str, str, str]] = []

    def event(self, regarding: Mapping[str, Any], event: Event) -> None:
        self.recorded.append((regarding["name"], event.reason, event.note))


class World:
    """Store, core and clock. `settle` lets everything happen that can happen now.

    Attributes:
        leads: whether the core leads from the beginning.
        checks_plans: whether each plan is derived twice, see `purity`; not where calls count.
    """

    leads = True
    checks_plans = True

    def __init__(
        self,
        store: Store | None = None,
        clock: FakeClock | None = None,
        config: model.Config | None = None,
        device_classes: Mapping[str, str] | None = None,
        *,
        kueue: Configuration | None = None,
        gpu: GpuConfiguration | None = None,
        rules: TransformationRules = NO_RULES,
        namespaces: ManagedNamespaces = MANAGED,
        rng: random.Random | None = None,
    ) -> None:
        self.clock = clock or FakeClock()
        self.store = store or Store(crds=_CRDS, clock=self.clock, rng=rng)
        if store is None:
            self.serve_workloads()
        self.events = RecordedEvents()
        self.sent: list[ApiRequest] = []
        self.refuse: Any = None
        self.shown: dict[Resource, tuple[views.Object, ...]] = {}
        self.unlisted: set[Resource] = set()
        self.is_job_controller_away = False
        self._told = 0
        self._observed: object = None
        self._is_cold = False
        self._queue: deque[ApiRequest] = deque()
        self._sender = Sender(self.store, self.clock, threading.Event())
        self.config = config
        self.state = SchedulerState(config)
        self.parts = cores.make(
            Installation(
                state=self.state,
                writer=self,
                events=self.events,
                clock=self.clock,
                settings=Settings(
                    kueue=kueue or Configuration(),
                    gpu=gpu or GpuConfiguration(max_stops_per_minute=0),
                ),
                accounting=KueueMetrics(),
                products=_PRODUCTS,
                rules=replace(rules, device_classes=device_classes or {}),
                namespaces=namespaces,
            )
        )
        self.core = self.parts.core
        if self.checks_plans:
            purity.guard(self.parts)
        if self.leads:
            self.core.receive(core.LeaderStarted())

    def serve_workloads(self) -> None:
        """Installs Workloads as a kind, as far as reads of its definition go."""
        self.store.create(resources.CRDS, _WORKLOADS)

    # The core's writer: what is submitted is sent when the world settles.
    def submit(self, write: ApiRequest) -> None:
        self._queue.append(write)

    @property
    def queued(self) -> tuple[ApiRequest, ...]:
        """What was submitted and not sent yet."""
        return tuple(self._queue)

    def send_one(self) -> RequestResult | None:
        """Sends the oldest open write and reports it."""
        if not self._queue:
            return None
        return self.send(self._queue[0])

    def send(self, write: ApiRequest) -> RequestResult:
        """Sends an open write and reports it."""
        lacking = preconditions.lacking(write)
        assert not lacking, f"{write.operation} of {write.name} is bound to no {lacking}"
        self._queue.remove(write)
        self.sent.append(write)
        outcome = self._sender.send(write)
        self.core.receive(outcome)
        return outcome

    def observe(self) -> None:
        """Tells the core what the store holds, and what else is shown, as a relist does."""
        self._say_what_is_suspended()
        self._observed = self._observable()
        order = [resource for resource in WATCHED if resource not in self.unlisted]
        if self._is_cold:
            order.sort(key=_order_of_a_start)
        lists = {resource: self.listed(resource, WATCHED[resource]) for resource in order}
        for resource, listed in lists.items():
            for one in listed.undecodable:
                self.core.receive(Unreadable(one))
            if self._is_cold and resource not in watched.SURROUNDINGS:
                self.core.receive(core.WatchMessage(resource, Arrived(listed.items[::2])))
            else:
                self.core.receive(core.WatchMessage(resource, listed))
        if self._is_cold:
            self._is_cold = False
            for resource in order:
                self.core.receive(core.WatchMessage(resource, lists[resource]))

    def _observable(self) -> object:
        """Equals that of another time if `observe` would tell the core the same."""
        return self.store._journal.version, dict(self.shown), set(self.unlisted)

    def _say_what_is_suspended(self) -> None:
        """Does what the Job controller does when it sees a Job stopped or let go."""
        if self.is_job_controller_away:
            return
        for job in self.store.list(resources.JOBS, into=dict).items:
            found = job.get("status", {}).get("conditions") or []
            told: dict[str, Any] = next((c for c in found if c["type"] == "Suspended"), {})
            status = str(job["spec"].get("suspend") is True)
            if told.get("status") == status or (not told and status == "False"):
                continue
            self._told += 1
            minutes, seconds = divmod(self._told, 60)
            since = f"2026-01-01T{minutes // 60:02}:{minutes % 60:02}:{seconds:02}Z"
            condition = {"type": "Suspended", "status": status, "lastTransitionTime": since}
            others = [one for one in found if one["type"] != "Suspended"]
            change = patches.merge({"status": {"conditions": [*others, condition]}})
            metadata = job["metadata"]
            self.store.patch(
                resources.JOBS, metadata["name"], change, metadata["namespace"],
                subresource="status",
            )  # fmt: skip

    def listed(self, resource: Resource, into: type[Any]) -> Replaced[Any]:
        """Everything of a kind that is watched."""
        if resource in _ROWS:
            # The store has no such kind. Those of Kubernetes itself are served in every cluster.
            version = "1" if resource.group == "apps" else ""
            return Replaced(self.shown.get(resource, ()), version=version)
        selector = watched.selectors(integrations.DEFAULT).get(resource, "")
        page = self.store.list(resource, label_selector=selector, into=into)
        items = (*page.items, *self.shown.get(resource, ()))
        return Replaced(items, page.undecodable, page.resource_version)

    def settle(self) -> None:
        """Lets everything happen that can happen without time passing."""
        self.observe()
        self._settle()

    def _settle(self) -> None:
        for _ in range(200):
            if self._observed != self._observable():
                self.observe()
            self.core.step()
            if not self._queue:
                return
            while self.send_one() is not None:
                self.core.step()
        raise AssertionError(f"does not settle: {[w.operation for w in self.sent[-10:]]}")

    def pass_time(self, seconds: float) -> None:
        """Lets time pass in small steps, and things happen."""
        for _ in range(max(1, round(seconds / 0.5))):
            self.clock.advance(min(seconds, 0.5))
            self._settle()

    def pass_long_time(self, seconds: float) -> None:
        """Lets time pass from each moment at which the core has something to do to the next."""
        end, restless = self.clock.monotonic() + seconds, 0
        while (left := end - self.clock.monotonic()) > 1e-6:
            due = self.core.step()
            restless = restless + 1 if due is not None and due < _SHORTEST_STEP else 0
            assert restless < _MOST_RESTLESS, "the core has something to do again and again"
            self.clock.advance(left if due is None else min(left, max(due, _SHORTEST_STEP)))
            self.settle()

    def restarted(self) -> "World":
        """Another controller on the same store: memory is lost, objects are not.

        It sees pods before their Workloads, and of each list some objects before the whole.
        """
        world = World(self.store, self.clock, self.config)
        world._is_cold = True
        return world

    # ------------------------------------------------------------------------------ objects

    def add(self, *documents: Document) -> None:
        """Create objects as the webhook leaves them."""
        for document in documents:
            resource = resources.of_kind(document["apiVersion"], document["kind"])
            assert resource is not None
            self.store.create(
                resource, reviewed(document), document["metadata"].get("namespace", "")
            )

    def add_pod(self, name: str, **changes: Any) -> None:
        phase = changes.pop("phase", "Pending")
        document = queued_pod(name, **changes)
        self.store.create(resources.PODS, document, document["metadata"]["namespace"])
        if phase != "Pending":
            self.set_phase(name, phase)

    def set_phase(self, name: str, phase: str, namespace: str = "ml") -> None:
        change = patches.merge({"status": {"phase": phase}})
        self.store.patch(resources.PODS, name, change, namespace, subresource="status")

    def delete_pod(self, name: str, namespace: str = "ml") -> None:
        self.store.delete(resources.PODS, name, namespace)

    def pod(self, name: str, namespace: str = "ml") -> views.Pod:
        return self.store.get(resources.PODS, name, namespace, into=views.Pod)

    def is_gated(self, name: str) -> bool:
        return bool(self.pod(name).spec.scheduling_gates)

    def admitted(self) -> set[str]:
        """Names of the pods that were released."""
        pods = self.store.list(resources.PODS, into=views.Pod).items
        return {pod.metadata.name for pod in pods if not pod.spec.scheduling_gates}

    def workloads(self) -> dict[str, Workload]:
        """Workloads by the name of their pod."""
        found = self.store.list(resources.WORKLOADS, into=Workload).items
        return {
            w.metadata.owner_references[0].name: w for w in found if w.metadata.owner_references
        }

    def condition(self, name: str) -> views.PodCondition | None:
        """Our condition on a pod."""
        found = self.pod(name).status.conditions or ()
        return next((c for c in found if c.type == conditions.POD_ADMITTED), None)

    def status_of(self, queue: str) -> dict[str, Any]:
        found = self.store.get(resources.CLUSTER_QUEUES, queue)
        status: dict[str, Any] = found.get("status", {})
        return status


class CountedWorld(World):
    """A world in which a test counts calls, so that nothing is done twice."""

    checks_plans = False


def ready_world(quota: int = 4, world_type: type[World] = World, **more: Any) -> World:
    """One team, one queue, one flavor; ``more`` is for the `World`."""
    world = world_type(**more)
    world.add(make_namespace(), make_flavor(), make_cluster_queue(quota=quota), make_local_queue())
    world.settle()
    return world


def add_checked_queue(world: World) -> None:
    """A LocalQueue ``checked`` whose ClusterQueue asks for the check ``budget``."""
    strategy = {"admissionChecks": [{"name": "budget"}]}
    world.add(
        make_check(),
        make_cluster_queue("checked", admissionChecksStrategy=strategy),
        make_local_queue("checked", "checked"),
    )
    status = patches.merge({"status": {"conditions": [make_condition("Active")]}})
    world.store.patch(resources.ADMISSION_CHECKS, "budget", status, subresource="status")
