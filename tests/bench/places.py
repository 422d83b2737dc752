"""What room on nodes costs: 5,000 nodes, 50,000 bound pods, 10,000 waiting in 1,000 queues.

Only the engine runs, in this process: ``python -m tests.bench.places`` prints one line of JSON.
An event is a pod that ends on a node, until it is known who is to be tried again: on a node that
can take nobody who waits (``idle``), and the same while 10,000 workloads are admitted without a
place, where nodes only tell (``told``). `GOALS` says what each figure may be at most.
"""

import gc
import json
import resource
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

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
from admission.scheduling.model import PodNeeds
from admission.scheduling.places import search
from admission.scheduling.places.model import BoundPod, Node, PodShape, Want
from admission.scheduling.state import SchedulerState

NODES, BOUND, QUEUES, WAITING, CYCLES = 5_000, 50_000, 1_000, 10_000, 60
EVENTS: Final = 1_000
GPU = ResourceName("nvidia.com/gpu")
POOL, TOLD_POOL, CPU_POOL = {"pool": "a100"}, {"pool": "cloud"}, {"pool": "cpu"}
GOALS: Final[dict[str, float]] = {
    "cycle_ms_p99": 100,
    "bind_us": 200,
    "idle_event_us": 200,
    "told_event_us": 200,
    "gang_of_64_ms": 20,
    "resident_mib": 700,
}
"""What each figure may be at most, on a core of its own."""
_NOW_US = 1_000_000_000_000


def measure() -> dict[str, Any]:
    """Times in seconds, milliseconds and microseconds as named; memory in MiB."""
    gc.collect()
    before = _resident_mib()
    state = SchedulerState(model.Config(heads_per_cycle=200))
    state.set_namespace("team", {})
    state.set_resource_flavor(model.ResourceFlavor(name=FlavorName("a100"), node_labels=POOL))
    bind_us = _fill(state)
    held = _resident_mib() - before
    _queue(state)
    gc.collect()
    gc.freeze()  # as the controller does once everything is listed
    cycles = _cycles(state)
    gang_ms = _gang(state)
    idle_us = _events(state)
    _tell(state)
    told_us = _events(state)
    figures = {
        "nodes": NODES,
        "bound_pods": BOUND,
        "waiting": WAITING,
        "bind_us": round(bind_us, 1),
        "resident_mib": round(held),
        "first_cycle_ms": round(cycles[0] * 1000, 1),
        "cycle_ms_median": round(statistics.median(cycles[1:]) * 1000, 1),
        "cycle_ms_p99": round(statistics.quantiles(cycles[1:], n=100)[98] * 1000, 1),
        "gang_of_64_ms": round(gang_ms, 2),
        "idle_event_us": round(idle_us, 1),
        "told_event_us": round(told_us, 1),
    }
    missed = [name for name, goal in GOALS.items() if figures[name] > goal]
    return {**figures, "goals": GOALS, "missed": ", ".join(missed) or "none"}


def _fill(state: SchedulerState) -> float:
    """Nodes of 8 GPUs with ten pods each, seven of which hold a GPU; microseconds for a pod."""
    for index in range(NODES):
        name = f"node-{index}"
        amounts = {GPU: 8, "cpu": 128_000, "memory": 2**40, "pods": 110}
        labels = {**POOL, "kubernetes.io/hostname": name}
        state.places.set_node(Node(name=name, labels=labels, amounts=amounts))
    with_gpu = {GPU: 1, "cpu": 8_000, "memory": 2**36, "pods": 1}
    without = {"cpu": 1_000, "memory": 2**30, "pods": 1}
    start = time.process_time()
    for index in range(BOUND):
        requests = with_gpu if index // NODES < 7 else without
        state.places.set_pod(f"uid-{index}", BoundPod(f"node-{index % NODES}", requests))
    return (time.process_time() - start) / BOUND * 1e6


def _queue(state: SchedulerState) -> None:
    """Queues with workloads of 1, 2, 4 and 8 GPUs; most of them fit on no node."""
    quota = model.ResourceQuota(nominal=1_000)
    flavor = model.FlavorQuotas(name=FlavorName("a100"), resources={GPU: quota})
    group = model.ResourceGroup(covered_resources=(GPU,), flavors=(flavor,))
    for index in range(QUEUES):
        name = ClusterQueueName(f"queue-{index}")
        state.set_cluster_queue(
            model.ClusterQueue(
                name=name, resource_groups=(group,), namespace_selector=model.Selector()
            )
        )
        key = LocalQueueKey("team", name)
        state.set_local_queue(model.LocalQueue(key=key, cluster_queue=name))
    for index in range(WAITING):
        state.set_workload(_workload(index), _NOW_US)


def _workload(index: int) -> model.Workload:
    gpus = (8, 4, 2, 1)[index // QUEUES % 4]
    pods = model.PodSet(
        name=PodSetName("main"), requests={GPU: gpus}, needs=_needs(gpus), node_selector={}
    )
    key = WorkloadKey("team", f"workload-{index}")
    queue = LocalQueueKey("team", f"queue-{index % QUEUES}")
    return model.Workload(
        key=key, uid=Uid(f"w{index}"), queue=queue, created_us=index, pod_sets=(pods,)
    )


def _needs(gpus: int) -> PodNeeds:
    return PodNeeds(requests=(("cpu", 1_000 * gpus), (GPU, gpus)), devices=(GPU,))


def _cycles(state: SchedulerState) -> list[float]:
    """Seconds of each cycle; between two of them a pod ends on one node and one is bound."""
    times = []
    for index in range(CYCLES):
        now_us = _NOW_US + index * 1_000_000
        start = time.process_time()
        result = state.run_cycle(now_us)
        times.append(time.process_time() - start)
        for admit in result.admitted:
            for place in admit.places:
                pod = BoundPod(place.node, {GPU: 1, "pods": 1}, admit.workload, "main")
                state.places.set_pod(f"bound-{admit.workload.name}", pod)
        state.places.drop_pod(f"uid-{index}")
    return times


def _events(state: SchedulerState) -> float:
    """Microseconds for a pod that ends on a node without GPUs, and nobody is tried again."""
    places, now_us = state.places, _NOW_US + 3_600_000_000
    amounts = {"cpu": 128_000, "memory": 2**40, "pods": 110}
    places.set_node(Node(name="cpu-node", labels=CPU_POOL, amounts=amounts))
    for index in range(EVENTS):
        places.set_pod(f"cpu-{index}", BoundPod("cpu-node", {"cpu": 100, "pods": 1}))
    state.has_work(now_us)
    start = time.process_time()
    for index in range(EVENTS):
        places.drop_pod(f"cpu-{index}")
        state.has_work(now_us)
    return (time.process_time() - start) / EVENTS * 1e6


def _tell(state: SchedulerState) -> None:
    """Admit workloads of four sizes that have no place, as the node of their flavor is full."""
    flavor = FlavorName("cloud")
    state.set_resource_flavor(
        model.ResourceFlavor(name=flavor, node_labels=TOLD_POOL, placement=model.Enforcement.TELL)
    )
    amounts = {GPU: 8, "cpu": 128_000, "pods": 110}
    state.places.set_node(Node(name="cloud-node", labels=TOLD_POOL, amounts=amounts))
    state.places.set_pod("full", BoundPod("cloud-node", {GPU: 8, "pods": 1}))
    for index in range(WAITING):
        workload = replace(_workload(index), key=WorkloadKey("team", f"told-{index}"))
        (pods,) = workload.pod_sets
        held = model.Reservation(
            cluster_queue=ClusterQueueName(f"queue-{index % QUEUES}"),
            pod_sets=(
                model.PodSetAssignment(
                    name=pods.name,
                    count=1,
                    flavors=dict.fromkeys(pods.requests, flavor),
                    usage=pods.requests,
                ),
            ),
        )
        state.set_workload(replace(workload, uid=Uid(f"t{index}"), reservation=held), _NOW_US)
    state.has_work(_NOW_US + 3_600_000_000)


def _gang(state: SchedulerState) -> float:
    """Milliseconds to find places for 64 pods."""
    want = Want(PodSetName("main"), PodShape(_needs(1), tuple(POOL.items())), 64)
    state.places.ledger.rooms(want.shape)
    start = time.process_time()
    search.find(state.places.ledger, (want,))
    return (time.process_time() - start) * 1000


def _resident_mib() -> float:
    """What is resident now; the peak of ``getrusage`` begins with that of the parent."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize() / 1024**2


if __name__ == "__main__":
    print(json.dumps(measure()))
