"""Laws of the one currency: whatever is asked for in whatever mix, no budget is exceeded."""

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from admission.base import names
from admission.base.names import LocalQueueKey, PodSetName, ResourceName, Uid, WorkloadKey
from admission.gpu import catalogue
from admission.objects import cluster_queue, gpu_transformation, resource_flavor, views
from admission.objects.cluster_queue import ClusterQueue, ClusterQueueSpec
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.resource_group import FlavorQuotasSpec, ResourceGroupSpec, ResourceQuotaSpec
from admission.scheduling import model
from admission.scheduling.state import SchedulerState

CATALOGUE: Final = catalogue.load()
GIB: Final = 2**30

# Per flavor and name: GiB and slices of one device, written down by hand.
PRICES: Final[dict[str, dict[str, tuple[int, int]]]] = {
    "a100": {
        "nvidia.com/gpu": (80, 7), "nvidia.com/mig-1g.10gb": (10, 1),
        "nvidia.com/mig-3g.40gb": (40, 3),
    },
    "small": {
        "nvidia.com/gpu": (40, 7), "nvidia.com/mig-1g.10gb": (10, 1),
        "nvidia.com/mig-1g.5gb": (5, 1),
    },
    "shared": {"nvidia.com/gpu.shared": (16, 7)},
}  # fmt: skip
ANNOTATIONS: Final = {
    "a100": {names.FLAVOR_PRODUCT: "A100-80GB"},
    "small": {names.FLAVOR_PRODUCT: "A100-40GB"},
    "shared": {
        names.FLAVOR_PRODUCT: "T4", names.FLAVOR_SHARING: "mps", names.FLAVOR_REPLICAS: "4",
    },
}  # fmt: skip
NAMES: Final = sorted({name for prices in PRICES.values() for name in prices})

asks = st.dictionaries(
    st.sampled_from(NAMES), st.integers(min_value=1, max_value=4), min_size=1, max_size=2
) | st.fixed_dictionaries({"nvidia.com/gpu.shared": st.integers(1, 4)})
quotas = st.tuples(st.integers(0, 400), st.integers(0, 40))


def queue(name: str, budget: tuple[int, int], cohort: str) -> ClusterQueue:
    amounts = ((names.GPU_MEMORY, f"{budget[0]}Gi"), (names.GPU_SLICES, budget[1]))
    given_quotas = tuple(ResourceQuotaSpec(name=n, nominal_quota=q) for n, q in amounts)
    group = ResourceGroupSpec(
        covered_resources=(names.GPU_MEMORY, names.GPU_SLICES),
        flavors=tuple(FlavorQuotasSpec(name=f, resources=given_quotas) for f in PRICES),
    )
    return ClusterQueue(
        metadata=views.ObjectMeta(name=name),
        spec=ClusterQueueSpec(
            cohort_name=cohort,
            resource_groups=(group,),
            namespace_selector=views.LabelSelector(),
        ),
    )


def flavors() -> dict[str, ResourceFlavor]:
    return {
        name: ResourceFlavor(metadata=views.ObjectMeta(name=name, annotations=marks))
        for name, marks in ANNOTATIONS.items()
    }


def workload(index: int, queue_name: str, asked: dict[str, int], pods: int) -> model.Workload:
    requests = {ResourceName(name): count for name, count in asked.items()}
    return model.Workload(
        key=WorkloadKey("ml", f"w{index}"),
        uid=Uid(f"u{index}"),
        queue=LocalQueueKey("ml", queue_name),
        created_us=index,
        pod_sets=(
            model.PodSet(name=PodSetName("main"), count=pods, min_count=1, requests=requests),
        ),
    )


def cost(flavor: str, asked: dict[str, int]) -> tuple[int, int]:
    """GiB and slices of one pod by the hand-written table; a missing name is a KeyError."""
    shares = 4 if flavor == "shared" else 1
    prices = [
        tuple(-(-count * one // shares) for one in PRICES[flavor][name])
        for name, count in asked.items()
    ]
    return sum(p[0] for p in prices), sum(p[1] for p in prices)


@given(
    budgets=st.tuples(quotas, quotas),
    asked=st.lists(
        st.tuples(st.sampled_from(("a", "b")), asks, st.integers(1, 3)), max_size=14
    ),
)  # fmt: skip
def test_no_mix_of_gpus_slices_and_shares_exceeds_the_budget_of_a_cohort(budgets, asked):
    state, known = SchedulerState(), flavors()
    state.set_namespace("ml", {})
    for view in known.values():
        state.set_resource_flavor(resource_flavor.scheduling_value(view))
    for name, budget in zip("ab", budgets, strict=True):
        value = cluster_queue.scheduling_value(queue(name, budget, "all"))
        state.set_cluster_queue(value)
        key = LocalQueueKey("ml", name)
        state.set_local_queue(model.LocalQueue(key=key, cluster_queue=value.name))
    prices = gpu_transformation.pricing(queue("a", (1, 1), ""), known, CATALOGUE)
    requests = {}
    for index, (name, amounts, pods) in enumerate(asked):
        found = workload(index, name, amounts, pods)
        requests[found.key] = amounts
        state.set_workload(gpu_transformation.priced(found, prices))
    used = {flavor: [0, 0] for flavor in PRICES}
    while state.has_work(0):
        result = state.run_cycle(0)
        if not result.admitted:
            break
        for admit in result.admitted:
            (assigned,) = admit.pod_sets
            (flavor,) = set(assigned.flavors.values())
            gib, slices = cost(flavor, requests[admit.workload])
            assert assigned.usage[ResourceName(names.GPU_MEMORY)] == gib * GIB * assigned.count
            assert assigned.usage[ResourceName(names.GPU_SLICES)] == slices * assigned.count
            used[flavor][0] += gib * assigned.count
            used[flavor][1] += slices * assigned.count
    for gib, slices in used.values():
        assert gib <= sum(budget[0] for budget in budgets)
        assert slices <= sum(budget[1] for budget in budgets)
