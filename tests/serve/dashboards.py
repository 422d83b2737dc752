"""A dashboard with made-up quota, asked as a browser asks it."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from admission.base.causes import Stated
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
from admission.gpu.inventory import GpuNode, GpuPod, NodeStock
from admission.gpu.nodes import NodeFacts
from admission.kube.resources import Resource
from admission.objects.usage_record import Account, Record
from admission.run.pages import PageServer
from admission.scheduling import podsets
from admission.scheduling.decisions import Wait
from admission.scheduling.model import PodSet, ResourceQuota, Workload
from admission.scheduling.overview import (
    Amounts,
    CohortOverview,
    LocalOverview,
    Overview,
    QueueOverview,
)
from admission.scheduling.pending import Pending, PendingSnapshot
from admission.scheduling.reserving import ReservingWorkload
from admission.scheduling.starts import Prospect, QuotaEnd
from admission.scheduling.without_node import WithoutNode
from admission.serve.dashboard import app, viewers
from tests.clocks import FakeClock
from tests.serve.builders import Lines, line, waiting

GPU = ResourceName("nvidia.com/gpu")
TOKEN = "good"
NOW = datetime(2026, 1, 8, 9, 30, tzinfo=UTC)
"""The present of the pages."""
HOUR_US = 3_600_000_000


def ago(hours: int) -> int:
    """A moment before the present, in microseconds since the epoch."""
    return int(NOW.timestamp()) * 1_000_000 - hours * HOUR_US


def on(flavor: str, amount: int, resource: str = GPU) -> dict[FlavorResource, int]:
    """An amount of one flavor."""
    return {FlavorResource(FlavorName(flavor), ResourceName(resource)): amount}


def quota_of(
    flavor: str, nominal: int, resource: str = GPU
) -> dict[FlavorResource, ResourceQuota]:
    """A quota of one flavor."""
    return {pair: ResourceQuota(nominal=n) for pair, n in on(flavor, nominal, resource).items()}


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
        "quotas": quota_of("a100", nominal),
        "used": on("a100", used) if amounts is None else amounts,
        "surge": {},
        "leaving": {},
        "without_node": {},
        "holding": used,
        "admitted": used,
        "pending": 0,
        "requested": {},
        "active": True,
        **more,
    }
    return QueueOverview(name=ClusterQueueName(name), cohort=cohort, **values)


def cohort(name: str, parent: str = "", nominal: int = 0) -> CohortOverview:
    """A cohort, with or without a quota of its own."""
    quotas = quota_of("a100", nominal) if nominal else {}
    return CohortOverview(name=CohortName(name), parent=parent, quotas=quotas)


def reserving(name: str, gpus: int, namespace: str = "ml", **more: Any) -> ReservingWorkload:
    """A Workload that holds quota."""
    return ReservingWorkload(
        key=WorkloadKey(namespace, name), uid=Uid(name),
        cluster_queue=ClusterQueueName("research"), local_queue=LocalQueueKey(namespace, "team"),
        priority=0, queue_us=0, usage=on("a100", gpus),
        **{"reserved_us": 0, "evicted": False, "admitted": True, "ready": True, **more},
    )  # fmt: skip


def node(
    name: str,
    capacity: dict[str, int],
    pods: Iterable[tuple[str, str, dict[str, int]]] = (),
    others: dict[str, int] | None = None,
    healthy: int | None = None,
    queue: str = "research",
    **topology: str,
) -> GpuNode:
    """A node with A100s, of which whole ones may be sick; its place, as ``zone="a"``."""
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/mig.strategy": "mixed",
        **{f"topology.kubernetes.io/{key}": value for key, value in topology.items()},
    }  # fmt: skip
    units = capacity if healthy is None else {**capacity, GPU: healthy}
    reasons = tuple(
        f"GPU {number} sick: XID 79 (GPU has fallen off the bus)"
        for number in range(
            capacity.get(GPU, 0) if healthy is None else healthy, capacity.get(GPU, 0)
        )
    )
    return GpuNode(
        facts=NodeFacts(name=name, labels=labels, allocatable=units, capacity=capacity),
        part=NodeCapacity(node=name, units=units, reasons=reasons),
        pods=tuple(
            GpuPod(namespace=ns, name=pod, amounts=held, outside=False, queue=queue)
            for ns, pod, held in pods
        ),
        others=others or {},
    )


def stock_of(found: GpuNode) -> NodeStock:
    """What a node has, without who holds it."""
    capacity, healthy = dict(found.facts.capacity), dict(found.part.units)
    charged: dict[str, int] = {}
    for pod in found.pods:
        for resource, amount in pod.amounts.items():
            charged[resource] = charged.get(resource, 0) + amount
    return NodeStock(
        name=found.facts.name,
        labels=found.facts.labels,
        healthy=healthy,
        sick={r: n - healthy.get(r, 0) for r, n in capacity.items() if n > healthy.get(r, 0)},
        free={
            r: max(0, n - charged.get(r, 0) - found.others.get(r, 0)) for r, n in healthy.items()
        },
        outside=found.others,
        reasons=found.part.reasons,
    )


def large_cluster(count: int) -> tuple[GpuNode, ...]:
    """Nodes with long names, eight to a rack, that pods of many queues hold."""
    return tuple(
        node(
            f"{'n' * 56}-{number:04}", {str(GPU): 16},
            [("n" * 60, f"{'p' * 56}-{part}", {str(GPU): 4}) for part in range(3)],
            queue=f"{'q' * 50}-{number % 12:02}", rack=f"{'r' * 50}-{number // 8:03}",
        )
        for number in range(count)
    )  # fmt: skip


def record(begin: int, hours: Mapping[str, int]) -> Record:
    """The record of a day that says how many GPU-hours each queue used."""
    return Record(
        begin=begin,
        until=begin + 86_400,
        usage={
            Account("ml", queue, "team", "ann", "a100", str(GPU)): number * 3_600
            for queue, number in hours.items()
        },
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
        members = [*members] or [
            waiting(f"train-{number}", at=ago(3 - number)) for number in range(3)
        ]
        found = line(*members)
        super().__init__({ClusterQueueName("research"): found, LocalQueueKey("ml", "team"): found})
        self.found = Overview(
            (
                queue(
                    "research",
                    "gpus",
                    8,
                    12,
                    pending=3,
                    requested={GPU: 24},
                    without_node={pair: WithoutNode(n, 1) for pair, n in on("a100", 5).items()},
                ),
                queue("serving", "gpus", 8, 2, leaving=on("a100", 2)),
                queue("lab", active=False, problem="Can't admit new workloads: is stopped."),
            ),
            (cohort("gpus"),),
        )
        self.changes = 0
        self._stock: tuple[tuple[GpuNode, ...], tuple[NodeStock, ...]] = (), ()
        self.told: dict[WorkloadKey, Wait] = {}
        """Why some wait; the others wait for 8 GPUs."""
        self.asked: dict[WorkloadKey, int] = {}
        """GPUs that some ask for; it is not known of the others."""
        self.ends: tuple[QuotaEnd, ...] = ()
        """When quota is given back by time limits."""
        self.run_us: dict[WorkloadKey, int] = {}
        """For how long some may run; the others may for ever."""
        self.locals: tuple[LocalOverview, ...] = (
            LocalOverview(
                key=LocalQueueKey("ml", "team"), cluster_queue=ClusterQueueName("research"),
                used=on("a100", 12), admitted=on("a100", 12), running=2, pending=len(members),
            ),
        )  # fmt: skip
        self.of_gpu_time: tuple[Record, ...] = ()
        self.holding: tuple[ReservingWorkload, ...] = (
            reserving("serve-0", 8), reserving("train-old", 4, evicted=True),
        )  # fmt: skip
        self.held_in = "research"
        self.nodes: tuple[GpuNode, ...] = (
            node("dgx-0", {GPU: 8}, [("ml", "train-0", {GPU: 5})], {GPU: 1}, healthy=7),
            node(
                "mig-0",
                {GPU: 1, "nvidia.com/mig-3g.40gb": 2, "nvidia.com/mig-1g.10gb": 7},
                pods=[("ml", "note", {"nvidia.com/mig-1g.10gb": 2})],
            ),
        )

    def add_line(self, queue: str, *members: Workload) -> None:
        """Let Workloads wait in another queue."""
        found = line(*members)
        self._found = {**self._found, ClusterQueueName(queue): found}
        for member in members:
            self._found[member.queue] = found

    def clear(self) -> None:
        """Let nobody wait."""
        self._found = {}

    def revision(self) -> int:
        return self.changes

    def overview(self) -> Overview:
        return self.found

    def holders(self, queue: ClusterQueueName) -> tuple[ReservingWorkload, ...]:
        return self.holding if queue == self.held_in else ()

    def quota_ends(self, queues: tuple[ClusterQueueName, ...]) -> tuple[QuotaEnd, ...]:
        return tuple(end for end in self.ends if end.cluster_queue in queues)

    def prospects(self, keys: tuple[WorkloadKey, ...]) -> tuple[Prospect, ...]:
        return tuple(
            Prospect(run_us=self.run_us.get(key), wait=wait)
            for key, wait in zip(keys, self.waits(keys), strict=True)
        )

    def waits(self, keys: tuple[WorkloadKey, ...]) -> tuple[Wait | None, ...]:
        return tuple(
            self.told.get(key)
            or Wait(
                workload=key,
                cluster_queue=ClusterQueueName("research"),
                why=Stated(
                    "WaitingForQuota", "Waits: needs 8 nvidia.com/gpu, 3 free of 16 in a100."
                ),
                requests=((PodSetName("main"), {GPU: 8}),),
            )
            for key in keys
        )

    def pending(self) -> dict[ClusterQueueName, PendingSnapshot]:
        return {
            key: replace(found, members=tuple(map(self._asking, found.members)))
            for key, found in self._found.items()
            if not isinstance(key, LocalQueueKey) and found.members
        }

    def _asking(self, item: Pending) -> Pending:
        """The same with what it asks for, as quota counts it."""
        gpus = self.asked.get(item.key)
        if gpus is None:
            return item
        pods = PodSet(name=PodSetName("main"), requests={GPU: gpus})
        return replace(item, demands=(podsets.demand_of(pods, 1),))

    def local_queues(self) -> tuple[LocalOverview, ...]:
        return self.locals

    def stock(self) -> tuple[NodeStock, ...]:
        if self._stock[0] is not self.nodes:
            self._stock = self.nodes, tuple(stock_of(one) for one in self.nodes)
        return self._stock[1]

    def gpu_nodes(self, names: tuple[str, ...]) -> tuple[GpuNode, ...]:
        return tuple(one for one in self.nodes if one.facts.name in set(names))

    def records(self) -> tuple[Record, ...]:
        return self.of_gpu_time


class Dashboard:
    """The application and what it is made from."""

    def __init__(self, *allowed: str, members: Iterable[Workload] = ()) -> None:
        self.reviews = Reviews(*allowed)
        self.known = Known(members)
        self.ending = threading.Event()
        self.clock = FakeClock(NOW)
        self.app = app.create_app(
            self.known, self.reviews, self.clock, catalogue.load(), self.wait,
            namespace="gpu-admission-system", is_secure=False,
        )  # fmt: skip
        self.client = self.app.test_client()

    def wait(self, _: float) -> bool:
        """A moment, in place of the seconds between two looks for changes."""
        return self.ending.wait(0.05)

    def sign_in(self) -> "Dashboard":
        """The same, with the cookie of the one who is known."""
        self.client.set_cookie(viewers.COOKIE, TOKEN)
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
        "get workloads ml train-0", "list nodes", "list pods", "get nodes dgx-0",
        "get nodes mig-0", "list localqueues", "list localqueues ml",
        "list configmaps gpu-admission-system",
    )  # fmt: skip
