"""A month of a cluster on simulated time, without and with room on nodes.

``python -m tests.bench.month`` prints one line of JSON. 200 nodes have 8 GPUs each. Most workloads
ask for 1 GPU, some for 2, 4 or 8, and a few are gangs of 16 or 32 GPUs with 8 on a node. Run times
are log-normal with a long tail. The scheduler binds each pod to the node with most free that takes
it, or to one that it prefers.
"""

import argparse
import heapq
import json
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from admission.base.names import (
    ClusterQueueName,
    FlavorName,
    LocalQueueKey,
    PodSetName,
    ResourceName,
    Uid,
    WorkloadKey,
)
from admission.scheduling import model
from admission.scheduling.decisions import Admit
from admission.scheduling.model import Enforcement, PodNeeds
from admission.scheduling.places.model import BoundPod, Node
from admission.scheduling.state import SchedulerState

GPU = ResourceName("nvidia.com/gpu")
QUEUE, FLAVOR = ClusterQueueName("research"), FlavorName("a100")
LOCAL = LocalQueueKey("team", "research")
SIZES = ((1, 1, 55), (2, 1, 12), (4, 1, 13), (8, 1, 16), (8, 2, 3), (8, 4, 1))
"""GPUs of a pod, pods, and how many of a hundred workloads ask for that."""
HOUR_US = 3_600_000_000


@dataclass(slots=True)
class Run:
    """A workload of the simulation.

    Attributes:
        hosts: that its pods prefer.
        unbound: pods that have no node yet.
        nodes: of its pods.
    """

    name: str
    gpus: int
    pods: int
    created_us: int
    lasts_us: int
    admitted_us: int = 0
    started_us: int = 0
    hosts: list[str] = field(default_factory=list)
    unbound: int = 0
    nodes: list[str] = field(default_factory=list)


class Cluster:
    """Quota, nodes and a scheduler."""

    def __init__(self, nodes: int, enforcement: Enforcement) -> None:
        self.state = SchedulerState(model.Config())
        self.free = {f"node-{index}": 8 for index in range(nodes)}
        self.total = 8 * nodes
        self.pending: dict[str, Run] = {}
        self.idle_us = self.busy_us = 0
        self.waits: dict[bool, list[int]] = {True: [], False: []}
        state = self.state
        state.set_namespace("team", {})
        state.set_resource_flavor(
            model.ResourceFlavor(name=FLAVOR, node_labels={"p": "a"}, placement=enforcement)
        )
        quota = model.ResourceQuota(nominal=self.total)
        flavor = model.FlavorQuotas(name=FLAVOR, resources={GPU: quota})
        group = model.ResourceGroup(covered_resources=(GPU,), flavors=(flavor,))
        state.set_cluster_queue(
            model.ClusterQueue(
                name=QUEUE, resource_groups=(group,), namespace_selector=model.Selector()
            )
        )
        state.set_local_queue(model.LocalQueue(key=LOCAL, cluster_queue=QUEUE))
        for name in self.free:
            labels = {"p": "a", "kubernetes.io/hostname": name}
            state.places.set_node(Node(name=name, labels=labels, amounts={GPU: 8}))

    def submit(self, run: Run) -> None:
        needs = PodNeeds(requests=((GPU, run.gpus),), devices=(GPU,))
        pods = model.PodSet(
            name=PodSetName("main"), count=run.pods, requests={GPU: run.gpus}, needs=needs
        )
        workload = model.Workload(
            key=WorkloadKey("team", run.name), uid=Uid(run.name), queue=LOCAL,
            created_us=run.created_us, pod_sets=(pods,),
        )  # fmt: skip
        self.state.set_workload(workload, run.created_us)

    def decide(self, now_us: int) -> list[Admit]:
        """Run cycles until nobody is admitted any more."""
        admits: list[Admit] = []
        while self.state.has_work(now_us):
            result = self.state.run_cycle(now_us)
            admits += result.admitted
            if not result.admitted and not self.state.has_work(now_us):
                break
        return admits

    def bind(self, run: Run) -> None:
        """Bind the pods of a workload that have room now."""
        while run.unbound:
            choices = [name for name, free in self.free.items() if free >= run.gpus]
            if not choices:
                return
            name = max(choices, key=lambda one: (one in run.hosts, self.free[one], one))
            self.free[name] -= run.gpus
            run.nodes.append(name)
            run.unbound -= 1
            pod = BoundPod(name, {GPU: run.gpus}, WorkloadKey("team", run.name), "main")
            self.state.places.set_pod(f"{run.name}-{len(run.nodes)}", pod)

    def end(self, run: Run, now_us: int) -> None:
        for index, name in enumerate(run.nodes):
            self.free[name] += run.gpus
            self.state.places.drop_pod(f"{run.name}-{index + 1}")
        self.state.drop_workload(WorkloadKey("team", run.name), now_us)


def simulate(nodes: int, days: float, load: float, seed: int, enforcement: Enforcement) -> Any:
    """Return use of GPUs, waits in hours, and GPU-hours held without a node."""
    rng = random.Random(seed)
    cluster = Cluster(nodes, enforcement)
    runs: dict[str, Run] = {}
    ends: list[tuple[int, str]] = []
    mean_gpus = sum(gpus * pods * share for gpus, pods, share in SIZES) / 100
    mean_hours = 2.0
    every_us = mean_gpus * mean_hours * HOUR_US / (load * cluster.total)
    now_us, last_us, until_us = 0, 0, int(days * 24 * HOUR_US)
    next_us, count = 0, 0
    used_us = held_us = 0
    used = held = 0
    while now_us < until_us:
        now_us = min(next_us, ends[0][0]) if ends else next_us
        used_us += used * (now_us - last_us)
        held_us += held * (now_us - last_us)
        last_us = now_us
        if ends and ends[0][0] == now_us:
            _, name = heapq.heappop(ends)
            run = runs.pop(name)
            used -= run.gpus * run.pods
            cluster.end(run, now_us)
        else:
            gpus, pods, _ = rng.choices(SIZES, [share for *_, share in SIZES])[0]
            lasts = min(rng.lognormvariate(-0.45, 1.5), 72.0)
            run = Run(f"w{count}", gpus, pods, now_us, int(lasts * HOUR_US) + 1)
            count += 1
            runs[run.name] = run
            cluster.submit(run)
            next_us = now_us + int(rng.expovariate(1 / every_us)) + 1
        for admit in cluster.decide(now_us):
            run = runs[admit.workload.name]
            run.admitted_us, run.unbound = now_us, run.pods
            run.hosts = [place.node for place in admit.places]
            cluster.pending[run.name] = run
        for run in tuple(cluster.pending.values()):
            cluster.bind(run)
            if not run.unbound:
                del cluster.pending[run.name]
                run.started_us = now_us
                used += run.gpus * run.pods
                cluster.waits[run.gpus * run.pods >= 8].append(now_us - run.created_us)
                heapq.heappush(ends, (now_us + run.lasts_us, run.name))
        held = sum(run.gpus * run.pods for run in cluster.pending.values())
    return {
        "workloads": count,
        "use_percent": round(100 * used_us / (cluster.total * until_us), 1),
        "gpu_hours_held_without_running": round(held_us / HOUR_US),
        "wait_hours_below_8_gpus": _waits(cluster.waits[False]),
        "wait_hours_from_8_gpus": _waits(cluster.waits[True]),
        "not_started": len(runs) - len(ends),
    }


def _waits(waits_us: Sequence[int]) -> dict[str, float]:
    hours = [wait / HOUR_US for wait in waits_us]
    return {
        "mean": round(statistics.mean(hours), 2),
        "p95": round(statistics.quantiles(hours, n=20)[18], 2),
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="tests.bench.month", description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--load", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    figures = {
        str(one): simulate(options.nodes, options.days, options.load, options.seed, one)
        for one in (Enforcement.OFF, Enforcement.ENFORCE)
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
