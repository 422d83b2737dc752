"""A dashboard with made-up quota, asked as a browser asks it."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from admission.base.names import (
    ClusterQueueName,
    CohortName,
    FlavorName,
    FlavorResource,
    LocalQueueKey,
    PodSetName,
    ResourceName,
    Uid,
    WorkloadKey,
)
from admission.gpu import catalogue
from admission.gpu.capacity import NodeCapacity
from admission.gpu.inventory import GpuNode, GpuPod
from admission.gpu.nodes import NodeFacts
from admission.kube.resources import Resource
from admission.run.pages import PageServer
from admission.scheduling.decisions import Wait
from admission.scheduling.model import ResourceQuota, Workload
from admission.scheduling.overview import Amounts, CohortOverview, Overview, QueueOverview
from admission.scheduling.reserving import ReservingWorkload
from admission.visibility.dashboard import app, sessions
from tests.clocks import FakeClock
from tests.visibility.builders import Lines, line, waiting

GPU = ResourceName("nvidia.com/gpu")
TOKEN = "good"


def on(flavor: str, amount: int, resource: str = GPU) -> dict[FlavorResource, int]:
    """An amount of one flavor."""
    return {FlavorResource(FlavorName(flavor), ResourceName(resource)): amount}


def queue(
    name: str,
    cohort: str = "",
    nominal: int = 8,
    used: int = 4,
    *,
    amounts: Amounts | None = None,
    **more: Any,
) -> QueueOverview:
    """A queue with a quota of one flavor."""
    values: dict[str, Any] = {
        "quotas": {pair: ResourceQuota(nominal=one) for pair, one in on("a100", nominal).items()},
        "used": on("a100", used) if amounts is None else amounts,
        "leaving": {},
        "holding": used,
        "pending": 0,
        "requested": {},
        "active": True,
        **more,
    }
    return QueueOverview(name=ClusterQueueName(name), cohort=cohort, **values)


def cohort(name: str, parent: str = "", nominal: int = 0) -> CohortOverview:
    """A cohort, with or without a quota of its own."""
    quotas = {pair: ResourceQuota(nominal=one) for pair, one in on("a100", nominal).items()}
    return CohortOverview(name=CohortName(name), parent=parent, quotas=quotas if nominal else {})


def reserving(name: str, gpus: int, **more: Any) -> ReservingWorkload:
    """A Workload that holds quota."""
    return ReservingWorkload(
        key=WorkloadKey("ml", name), uid=Uid(name), cluster_queue=ClusterQueueName("research"),
        local_queue=LocalQueueKey("ml", "team"), priority=0, queue_us=0, reserved_us=0,
        usage=on("a100", gpus), **{"evicted": False, "admitted": True, "ready": True, **more},
    )  # fmt: skip


def node(
    name: str,
    capacity: dict[str, int],
    pods: Iterable[tuple[str, str, dict[str, int]]] = (),
    others: dict[str, int] | None = None,
    healthy: int | None = None,
) -> GpuNode:
    """A node with A100s, of which whole ones may be sick."""
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/mig.strategy": "mixed",
    }  # fmt: skip
    units = capacity if healthy is None else {**capacity, GPU: healthy}
    reasons = () if healthy is None else ("GPU 7 sick: XID 79 (GPU has fallen off the bus)",)
    return GpuNode(
        facts=NodeFacts(name=name, labels=labels, allocatable=units, capacity=capacity),
        part=NodeCapacity(node=name, units=units, reasons=reasons),
        pods=tuple(GpuPod(namespace=ns, name=pod, amounts=held) for ns, pod, held in pods),
        others=others or {},
    )


class Reviews:
    """Knows one token; its owner may what is listed, as ``verb plural [namespace]``."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = set(allowed)
        self.asked: list[str] = []

    def create(self, resource: Resource, obj: Mapping[str, Any], /) -> dict[str, Any]:
        spec = obj["spec"]
        if resource.kind == "TokenReview":
            return {
                "status": {"authenticated": spec["token"] == TOKEN, "user": {"username": "ann"}}
            }
        found = spec["resourceAttributes"]
        parts = (found["verb"], found["resource"], found.get("namespace"), found.get("name"))
        self.asked.append(" ".join(part for part in parts if part))
        return {"status": {"allowed": self.asked[-1] in self.allowed}}


class Known(Lines):
    """What the controller knows."""

    def __init__(self, members: Iterable[Workload] = ()) -> None:
        members = [*members] or [waiting(f"train-{number}", at=number) for number in range(3)]
        found = line(*members)
        super().__init__({ClusterQueueName("research"): found, LocalQueueKey("ml", "team"): found})
        self.found = Overview(
            (
                queue("research", "gpus", 8, 12, pending=3, requested={GPU: 24}),
                queue("serving", "gpus", 8, 2, leaving=on("a100", 2)),
                queue("lab", active=False),
            ),
            (cohort("gpus"),),
        )
        self.changes = 0
        self.holding = (
            reserving("serve-0", 8), reserving("train-old", 4, evicted=True),
        )  # fmt: skip
        self.nodes: tuple[GpuNode, ...] = (
            node("dgx-0", {GPU: 8}, [("ml", "train-0", {GPU: 5})], {GPU: 1}, healthy=7),
            node(
                "mig-0",
                {GPU: 1, "nvidia.com/mig-3g.40gb": 2, "nvidia.com/mig-1g.10gb": 7},
                pods=[("ml", "note", {"nvidia.com/mig-1g.10gb": 2})],
            ),
        )

    def revision(self) -> int:
        return self.changes

    def overview(self) -> Overview:
        return self.found

    def holders(self, queue: ClusterQueueName) -> tuple[ReservingWorkload, ...]:
        return self.holding if queue == "research" else ()

    def waits(self, keys: tuple[WorkloadKey, ...]) -> tuple[Wait | None, ...]:
        return tuple(
            Wait(
                workload=key,
                cluster_queue=ClusterQueueName("research"),
                reason="WaitingForQuota",
                message="Waits: needs 8 nvidia.com/gpu, 3 free of 16 in a100.",
                requests=((PodSetName("main"), {GPU: 8}),),
            )
            for key in keys
        )

    def gpu_nodes(self, first: int, most: int) -> tuple[int, tuple[GpuNode, ...]]:
        return len(self.nodes), self.nodes[first : first + most]


class Dashboard:
    """The application and what it is made from."""

    def __init__(self, *allowed: str, members: Iterable[Workload] = ()) -> None:
        self.reviews = Reviews(*allowed)
        self.known = Known(members)
        self.ending = threading.Event()
        self.app = app.create_app(
            self.known, self.reviews, FakeClock(), catalogue.load(), self.wait, is_secure=False
        )
        self.client = self.app.test_client()

    def wait(self, _: float) -> bool:
        """A moment, in place of the seconds between two looks for changes."""
        return self.ending.wait(0.05)

    def sign_in(self) -> "Dashboard":
        """The same, with the cookie of the one who is known."""
        self.client.set_cookie(sessions.COOKIE, TOKEN)
        return self

    def text(self, path: str) -> str:
        """The page of an address."""
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return str(answer.text)


@contextmanager
def served(board: Dashboard) -> Iterator[str]:
    """Serves a dashboard; gives the address of its first page."""
    server = PageServer(board.app, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        board.ending.set()
        server.stop()


def everything() -> Iterable[str]:
    """What one may who may see all."""
    return (
        "list clusterqueues", "list cohorts", "get clusterqueues research", "list workloads",
        "get workloads ml train-0", "list nodes", "list pods",
    )  # fmt: skip
