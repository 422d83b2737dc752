"""What GPUs cost the controller: ``python -m tests.bench.capacity``.

A cluster of 5,000 nodes with 8 GPUs each and the labels that GPU feature discovery sets: memory
once all nodes and their pods are known, time of one node's change, what demand per flavor costs a
decision of the engine, and the search for places of MIG instances. Times are CPU times.

Places are searched on nodes of 8 GPUs with random instances on them, for pods of 1 to 8 random
instances: ``warm`` where every occupancy of a GPU was seen before, ``cold`` where none was and
nothing is remembered, which is the worst case.
"""

import gc
import json
import random
import resource
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from admission.base import names
from admission.base.clock import SystemClock
from admission.base.names import FlavorName, ResourceName
from admission.controller.devices.capacity import CapacityByFlavor
from admission.controller.devices.capacity_guard import CapacityGuard
from admission.controller.devices.node_inventory import NodeInventory
from admission.controller.devices.node_places import NodePlaces
from admission.gpu import catalogue, placement
from admission.gpu.health import HealthPolicy
from admission.gpu.placement import Occupancy, Placed
from admission.gpu.products import Product
from admission.kube import resources
from admission.kube.reflector import Replaced, Upserted
from admission.objects import gpu_transformation, views
from admission.objects.cluster_queue import ClusterQueue, ClusterQueueSpec
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.resource_group import FlavorQuotasSpec, ResourceGroupSpec
from admission.run.controller import settle_memory
from admission.scheduling import model
from admission.scheduling.state import SchedulerState
from tests.bench import engine
from tests.controller.world import RecordedEvents
from tests.controlplane.nodes import make_gpu_node

NODES: Final = 5_000
PRODUCTS: Final = ("NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "Tesla-T4", "NVIDIA-L4")
UPDATES: Final = 2_000
SEARCHES: Final = 2_000
COLD_SEARCHES: Final = 100
MIG_PRODUCTS: Final = ("A100-80GB", "RTX-PRO-6000-BLACKWELL-96GB")
CACHES: Final = (
    placement.addable, placement._checked, placement._example, placement._best_parts,
    placement._most, placement._capacity, placement._largest, placement._packed_on_empty,
)  # fmt: skip
PENDING: Final = 20_000
RUNS: Final = 5


def make_node(index: int, *, healthy: int = 8) -> bytes:
    """A node as the API server sends it, with 60 labels and 20 annotations."""
    document = make_gpu_node(f"node-{index}", product=PRODUCTS[index % 4])
    labels = document["metadata"]["labels"]
    labels |= {
        f"feature.node.kubernetes.io/cpu-cpuid.F{n}": "true" for n in range(60 - len(labels))
    }
    document["metadata"]["annotations"] = {
        f"agent.example.com/fact-{n}": f"{index}-{n}" * 4 for n in range(20)
    }
    document["metadata"] |= {"uid": f"uid-{index}", "resourceVersion": str(index)}
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
    document["status"]["conditions"] = [
        {"type": "Ready", "status": "True", "message": "kubelet is posting ready status"},
        *({"type": kind, "status": "False", "reason": f"No{kind}"} for kind in kinds),
    ]
    allocatable = {**document["status"]["capacity"], names.GPU_RESOURCE: str(healthy)}
    document["status"]["allocatable"] = allocatable
    return json.dumps(document).encode()


def make_inventory() -> tuple[NodeInventory, CapacityGuard]:
    products = catalogue.load()
    capacities = CapacityByFlavor(products, HealthPolicy())
    state = SchedulerState()
    guard = CapacityGuard(state, capacities)
    for product in PRODUCTS:
        guard.set_flavor(product.lower(), {names.GPU_PRODUCT_LABEL: product})
    for index in range(16):
        guard.set_flavor(f"other-{index}", {"pool": str(index)})
    places = NodePlaces(state.places, lambda: None)
    return NodeInventory(capacities, guard, SystemClock(), places, RecordedEvents()), guard


def measure_inventory() -> dict[str, Any]:
    """Memory of the nodes and time of a change."""
    inventory, _ = make_inventory()
    mirror = inventory.informers[resources.NODES]
    gc.collect()
    before = _rss_mib()
    raw = [make_node(index) for index in range(NODES)]
    gc.collect()
    start = time.process_time()
    mirror.apply(Replaced(tuple(msgspec.json.decode(one, type=views.Node) for one in raw)))
    inventory.settle()
    listed = time.process_time() - start
    del raw
    for index in range(NODES * 4):
        inventory.on_pod_update(_pod(index))
    gc.collect()
    held = _rss_mib() - before
    times = []
    for index in range(UPDATES):
        view = msgspec.json.decode(make_node(index % NODES, healthy=7), type=views.Node)
        start = time.process_time()
        mirror.apply(Upserted(view))
        inventory.settle()
        times.append(time.process_time() - start)
    return {
        "nodes": NODES,
        "resident_mib_with_list": round(_peak_mib() - before),
        "resident_mib_held": round(held),
        "list_seconds": round(listed, 2),
        "update_ms_median": round(statistics.median(times) * 1000, 3),
        "update_ms_p99": round(statistics.quantiles(times, n=100)[98] * 1000, 3),
    }


def _pod(index: int) -> views.Pod:
    amounts: dict[str, str | int] = {names.GPU_RESOURCE: "1"}
    container = views.Container(
        name="main", resources=views.ResourceRequirements(requests=amounts, limits=amounts)
    )
    spec = views.PodSpec(containers=(container,), node_name=f"node-{index % NODES}")
    return views.Pod(metadata=views.ObjectMeta(name=f"p{index}", uid=f"p{index}"), spec=spec)


def measure_demand() -> dict[str, Any]:
    """What demand per flavor adds to a decision; medians of runs that take turns."""
    alike, per_flavor = [], []
    for _ in range(RUNS):
        alike.append(measure_decisions(per_flavor=False))
        per_flavor.append(measure_decisions(per_flavor=True))
    usual, priced = statistics.median(alike), statistics.median(per_flavor)
    return {
        "decisions_per_second_alike": round(usual),
        "decisions_per_second_per_flavor": round(priced),
        "added_percent": round((usual / priced - 1) * 100, 1),
    }


def measure_decisions(*, per_flavor: bool) -> float:
    """Decisions a second over 30 queues with four flavors; many wait for what others return.

    Memory is collected as in the controller.
    """
    products = ("A100-80GB", "A100-40GB", "H100-80GB", "H100-94GB")
    pairs = (ResourceName(names.GPU_MEMORY), ResourceName(names.GPU_SLICES))
    quota = {
        pairs[0]: model.ResourceQuota(nominal=200 * 2**30),
        pairs[1]: model.ResourceQuota(nominal=14),
    }
    group = model.ResourceGroup(
        covered_resources=pairs,
        flavors=tuple(model.FlavorQuotas(name=FlavorName(f), resources=quota) for f in products),
    )
    state = engine.new_state(flavors=products)
    for index in range(30):
        made = engine.queue(f"q{index}", cohort=f"c{index % 5}", quota=quota[pairs[0]])
        engine.add_queue(state, replace(made, resource_groups=(group,)))
    prices = _prices(products)
    settle_memory()
    start, decisions = time.process_time(), 0
    for index in range(PENDING):
        asked = engine.workload(f"w{index}", f"q{index % 30}", 0, created_us=index)
        state.set_workload(_asking(asked, prices if per_flavor else None))
    while state.has_work(0):
        result = state.run_cycle(0)
        decisions += len(result.admitted) + len(result.waiting)
        for admit in result.admitted:
            state.drop_workload(admit.workload)
    return decisions / (time.process_time() - start)


def _asking(
    workload: model.Workload, prices: gpu_transformation.GpuTransformation | None
) -> model.Workload:
    """One GPU: priced by flavor, or as the amounts that any flavor is charged."""
    (pod_set,) = workload.pod_sets
    if prices is None:
        amounts = {ResourceName(names.GPU_MEMORY): 80 * 2**30, ResourceName(names.GPU_SLICES): 7}
        return replace(workload, pod_sets=(replace(pod_set, requests=amounts),))
    requests = {ResourceName(names.GPU_RESOURCE): 1}
    asked = replace(workload, pod_sets=(replace(pod_set, requests=requests),))
    return gpu_transformation.priced(asked, prices)


def _prices(products: Sequence[str]) -> gpu_transformation.GpuTransformation | None:
    group = ResourceGroupSpec(
        covered_resources=(names.GPU_MEMORY, names.GPU_SLICES),
        flavors=tuple(FlavorQuotasSpec(name=product) for product in products),
    )
    queue = ClusterQueue(spec=ClusterQueueSpec(resource_groups=(group,)))
    flavors = {
        product: ResourceFlavor(
            metadata=views.ObjectMeta(name=product, annotations={names.FLAVOR_PRODUCT: product})
        )
        for product in products
    }
    return gpu_transformation.pricing(queue, flavors, catalogue.load())


def measure_places() -> dict[str, Any]:
    """Time of one search, by product; ``cold`` is the slowest of the first ones."""
    products = catalogue.load()
    found = {}
    for name in MIG_PRODUCTS:
        product, rng = products.product(name), random.Random(7)
        asked = [(_wish(product, rng), _busy_node(product, rng)) for _ in range(SEARCHES)]
        cold = []
        for want, gpus in asked[:COLD_SEARCHES]:
            for cache in CACHES:
                cache.cache_clear()
            cold.append(_search_ms(product, want, gpus))
        for want, gpus in asked:
            placement.fit_node(product, want, gpus)
        warm = [_search_ms(product, want, gpus) for want, gpus in asked]
        found[name] = {
            "warm_ms_median": round(statistics.median(warm), 3),
            "warm_ms_p99": round(statistics.quantiles(warm, n=100)[98], 3),
            "warm_ms_worst": round(max(warm), 3),
            "cold_ms_worst": round(max(cold), 1),
        }
    return {"places": found}


def _search_ms(product: Product, want: dict[str, int], gpus: list[Occupancy]) -> float:
    start = time.process_time()
    placement.fit_node(product, want, gpus)
    return (time.process_time() - start) * 1000


def _wish(product: Product, rng: random.Random) -> dict[str, int]:
    """A pod of 1 to 8 instances."""
    chosen = [rng.choice([*product.profiles]) for _ in range(rng.randint(1, 8))]
    return {name: chosen.count(name) for name in dict.fromkeys(chosen)}


def _busy_node(product: Product, rng: random.Random) -> list[Occupancy]:
    """Eight GPUs, each with instances at random places."""
    return [_busy_gpu(product, rng) for _ in range(8)]


def _busy_gpu(product: Product, rng: random.Random) -> Occupancy:
    held: list[Placed] = []
    for _ in range(rng.randint(0, 4)):
        profile = rng.choice([*product.profiles.values()])
        placed = Placed(profile.name, rng.choice(profile.starts))
        fits = placement.fit_node(product, {profile.name: 1}, [held]).fit is placement.Fit.FITS
        try:
            more = placement.occupancy(product, [*held, placed]) if fits else ()
        except ValueError:
            continue
        if more:
            held = [*more]
    return placement.occupancy(product, held)


def _rss_mib() -> float:
    with Path("/proc/self/statm").open(encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 2**20


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measures and prints JSON."""
    found = measure_inventory()
    found |= measure_places()
    found |= measure_demand()
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
