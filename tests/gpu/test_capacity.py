"""Capacity of nodes: what counts, what does not, and what is left in pieces."""

import dataclasses
from collections.abc import Iterator

import pytest

from admission.gpu import capacity, nodes, placement
from admission.gpu.capacity import Fragmentation, NodeCapacity
from admission.gpu.health import DeviceReading, HealthPolicy
from admission.gpu.nodes import NodeFacts
from admission.gpu.placement import Occupancy, Placed
from admission.gpu.products import Cost, Product
from tests.gpu.builders import CATALOGUE, GIB, GPU, SHARED, mig

POLICY = HealthPolicy()


def gib(slices: int, memory: int) -> Cost:
    return Cost(slices=slices, memory_bytes=memory * GIB)


def make_node(product: str = "", units: dict[str, int] | None = None, **labels: str) -> NodeFacts:
    keys = {key.replace("__", "-").replace("_", "."): value for key, value in labels.items()}
    said = {f"nvidia.com/{key}": value for key, value in keys.items()}
    if product:
        said["nvidia.com/gpu.product"] = product
    return NodeFacts(name="n", labels=said, allocatable=units or {}, capacity=units or {})


def of(node: NodeFacts) -> NodeCapacity:
    return capacity.of_node(node, CATALOGUE, POLICY)


WHOLE = make_node("NVIDIA-A100-SXM4-80GB", {GPU: 8, "cpu": 96}, gpu_count="8", gpu_replicas="1")


def test_whole_gpus():
    found = of(WHOLE)
    assert found == NodeCapacity(node="n", units={GPU: 8}, worth=gib(56, 640), physical=8)


def test_req_09_eighty_shares_are_eight_gpus():
    shared = make_node("Tesla-T4-SHARED", {GPU: 80}, gpu_count="8", gpu_replicas="10")
    found = of(shared)
    assert (found.units, found.physical) == ({GPU: 80}, 8)
    assert found.worth.memory_bytes >= 8 * 16 * GIB
    unlabelled = of(make_node("Tesla-T4", {SHARED: 80}, gpu_replicas="10"))
    assert unlabelled.physical == 8


def test_req_09_gke_names_its_sharing_otherwise():
    node = NodeFacts(
        name="n",
        labels={
            "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing",
            "cloud.google.com/gke-max-shared-clients-per-gpu": "4",
        },
    )
    layout = nodes.layout(node, CATALOGUE)
    assert (layout.sharing, layout.divisor(GPU), layout.divisor(SHARED)) == ("time-slicing", 4, 4)


def test_req_09_one_gpu_of_a_single_strategy_node_is_a_slice():
    node = make_node("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", {GPU: 14}, mig_strategy="single")
    layout = nodes.layout(node, CATALOGUE)
    assert (layout.strategy, layout.profile) == ("single", "1g.10gb")
    assert of(node).worth == gib(14, 140)


def test_trap_06_the_single_strategy_is_many_slices_of_one_kind_not_one_slice_for_each_gpu():
    units = {GPU: 14}
    node = make_node("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", units, mig_strategy="single")
    assert (of(node).units, of(node).worth) == (units, gib(14, 140))


def test_req_10_a_mixed_strategy_node_with_zero_replicas_is_normal():
    node = make_node(
        "NVIDIA-H100-80GB-HBM3",
        {mig("1g.10gb"): 2, mig("2g.20gb"): 1, mig("3g.40gb"): 1},
        mig_strategy="mixed",
        gpu_count="1",
        gpu_replicas="0",
    )
    found = of(node)
    assert (found.worth, found.physical, found.reasons) == (gib(7, 80), 1, ())


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (make_node("NVIDIA-A100-SXM4-80GB-MIG-INVALID", {GPU: 8}), "MIG-INVALID"),
        (make_node("NVIDIA-A100-SXM4-80GB", {GPU: 8}, gpu_count="0"), "count is 0"),
        (
            make_node("NVIDIA-A100-SXM4-80GB", {GPU: 8}, mig_config_state="pending"),
            "mig.config.state is pending",
        ),
        (dataclasses.replace(WHOLE, ready=False), "not Ready"),
        (dataclasses.replace(WHOLE, unschedulable=True), "cordoned"),
        (dataclasses.replace(WHOLE, conditions=(("GPUMissing", "True"),)), "GPUMissing=True"),
    ],
)
def test_req_10_req_11_nodes_that_add_nothing_and_say_why(node, reason):
    found = of(node)
    assert (found.units, found.worth, found.sick) == ({}, gib(0, 0), {GPU: 8})
    assert reason in found.reasons[0]


def test_req_10_a_finished_reconfiguration_counts():
    assert of(make_node("NVIDIA-L4", {GPU: 1}, mig_config_state="success")).units == {GPU: 1}


def test_req_11_allocatable_counts_never_capacity():
    found = of(dataclasses.replace(WHOLE, allocatable={GPU: 6}))
    assert (found.units, found.sick) == ({GPU: 6}, {GPU: 2})


def devices(*healthy: bool, gib_each: int = 80) -> tuple[DeviceReading, ...]:
    return tuple(
        DeviceReading(id=str(i), minor=i, healthy=fine, memory_bytes=gib_each * GIB)
        for i, fine in enumerate(healthy)
    )


def test_req_11_an_agent_that_knows_of_a_sick_gpu_takes_it_off():
    node = dataclasses.replace(WHOLE, devices=devices(*[True] * 7, False))
    found = of(node)
    assert (found.units, found.sick) == ({GPU: 7}, {GPU: 1})
    assert found.reasons == ("GPU 7 sick: reported unhealthy",)
    both = dataclasses.replace(node, allocatable={GPU: 7})
    assert of(both).units == {GPU: 7}


def test_a_machine_has_the_gpus_that_its_agent_lists_whatever_the_labels_say():
    found = of(dataclasses.replace(WHOLE, devices=devices(*[True] * 6)))
    assert found.physical == 6
    cut = make_node("NVIDIA-A100-SXM4-80GB", {mig("3g.40gb"): 4})
    assert of(dataclasses.replace(cut, devices=devices(True, True))).physical == 2


def test_req_11_slices_of_a_sick_gpu_are_taken_off_in_proportion():
    node = make_node("NVIDIA-A100-SXM4-80GB", {mig("1g.10gb"): 14, mig("3g.40gb"): 1})
    found = of(dataclasses.replace(node, devices=devices(True, False)))
    assert found.units == {mig("1g.10gb"): 7}


def test_req_13_several_models_on_a_node_are_counted_at_the_least():
    mixed = (*devices(True, gib_each=16), *devices(True, gib_each=40))
    node = dataclasses.replace(make_node("NVIDIA-Tesla-V100-SXM2-16GB", {GPU: 2}), devices=mixed)
    assert nodes.layout(node, CATALOGUE).product is None
    found = of(node)
    assert found.worth == gib(14, 32)
    assert "GPUs of 2 kinds" in found.reasons[0]


def test_a_node_of_unknown_product_has_units_but_no_worth():
    found = of(make_node("", {GPU: 2}))
    assert (found.units, found.worth) == ({GPU: 2}, gib(0, 0))
    assert "no product" in found.reasons[0]


def test_slices_of_unknown_product_are_worth_what_their_name_says():
    assert of(make_node("", {mig("1g.24gb"): 2})).worth == gib(2, 48)
    assert of(make_node("NVIDIA-A100-SXM4-80GB", {mig("1g.24gb"): 2})).worth == gib(0, 0)


def test_labels_that_are_no_replicas_are_not_read():
    node = NodeFacts(
        name="n",
        labels={
            "nvidia.com/gpu.replicas": "many",
            "example.com/x.replicas": "9",
            "nvidia.com/mig-1g.10gb.replicas": "4",
            "nvidia.com/gpu.sharing-strategy": "time-slicing",
            "nvidia.com/mig-1g.10gb.sharing-strategy": "mps",
        },
    )
    layout = nodes.layout(node, CATALOGUE)
    assert (dict(layout.replicas), layout.sharing) == ({mig("1g.10gb"): 4}, "mps")


@pytest.mark.parametrize(
    ("units", "labels", "mismatched"),
    [
        ({mig("1g.10gb"): 5}, {"mig__1g_10gb_count": "7"}, {mig("1g.10gb"): 2}),
        ({mig("1g.10gb"): 7}, {"mig__1g_10gb_count": "7"}, {}),
        ({mig("1g.10gb") + ".shared": 28},
         {"mig__1g_10gb_count": "7", "mig__1g_10gb_replicas": "4"}, {}),
        ({}, {"mig__3g_40gb_count": "2"}, {mig("3g.40gb"): 2}),
        ({GPU: 7}, {"gpu_count": "8"}, {GPU: 1}),
        ({GPU: 80}, {"gpu_count": "8", "gpu_replicas": "10"}, {}),
        ({GPU: 6}, {"gpu_count": "8", "mig_strategy": "mixed"}, {}),
        ({GPU: 6}, {"gpu_count": "many"}, {}),
    ],
)  # fmt: skip
def test_req_30_labels_that_contradict_the_node_are_told(units, labels, mismatched):
    found = of(make_node("NVIDIA-A100-SXM4-80GB", units, **labels))
    assert found.mismatched == mismatched
    assert [".count says " in reason for reason in found.reasons] == [True] * len(mismatched)


@pytest.mark.parametrize(
    ("free", "largest", "stranded", "text"),
    [
        (12, 3, 0, "12 free, largest hole 3"),
        (0, 0, 0, "0 free, largest hole 0"),
        (7, 7, 2, "7 free, largest hole 7, 2 more that no profile can use"),
    ],
)
def test_req_30_fragmentation_in_words(free, largest, stranded, text):
    found = Fragmentation(free=free, largest=largest, stranded=stranded)
    assert (found.text, found.is_whole) == (text, text.startswith("0"))


@pytest.mark.parametrize(
    ("product", "cut", "stranded"),
    [
        ("A100-80GB", {}, 0),
        ("A100-80GB", {"3g.40gb": 2}, 1),
        ("A100-80GB", {"2g.20gb": 3}, 0),
        ("A100-80GB", {"1g.10gb": 1}, 0),
        ("A100-80GB", {"1g.20gb": 4}, 3),
        ("A100-80GB", {"7g.80gb": 1}, 0),
        ("A100-80GB", {"7g.80gb": 2}, 0),
        ("A30", {"2g.12gb": 1}, 0),
    ],
)
def test_req_30_slices_that_no_profile_can_use(product, cut, stranded):
    gpu = CATALOGUE.product(product)
    assert capacity.stranded_slices(gpu, placement.vector(gpu, cut)) == stranded


@pytest.mark.parametrize(
    ("units", "gpus", "stranded"),
    [
        ({mig("3g.40gb"): 16}, 8, 8),
        ({mig("3g.40gb"): 4, GPU: 6}, 8, 2),
        ({mig("3g.40gb"): 4, mig("1g.10gb"): 7}, 3, 0),
        ({mig("7g.79gb"): 1}, 1, 0),
        ({mig("1g.5gb"): 7}, 1, 0),
        ({GPU: 8}, 8, 0),
        ({}, 8, 0),
    ],
    ids=["all alike", "beside whole", "not alike", "alias", "no such profile", "whole", "none"],
)
def test_req_30_a_node_strands_what_its_equal_gpus_strand(units, gpus, stranded):
    node = make_node("NVIDIA-A100-SXM4-80GB", units, gpu_count=str(gpus), mig_strategy="mixed")
    assert of(node).stranded == stranded


def test_req_30_a_node_that_does_not_count_strands_nothing():
    node = make_node("NVIDIA-A100-SXM4-80GB", {mig("3g.40gb"): 2}, gpu_count="1")
    assert (of(node).stranded, of(dataclasses.replace(node, ready=False)).stranded) == (1, 0)


def test_req_30_shares_of_instances_are_counted_as_instances():
    node = make_node("NVIDIA-A100-SXM4-80GB", {mig("3g.40gb"): 8}, gpu_count="1")
    node = dataclasses.replace(
        node, labels={**node.labels, "nvidia.com/mig-3g.40gb.replicas": "4"}
    )
    assert of(node).stranded == 1


def occupancies(product: Product, held: Occupancy = ()) -> Iterator[Occupancy]:
    """Every way in which instances can sit on a GPU."""
    yield placement.occupancy(product, held)
    for name, profile in product.profiles.items():
        for start in profile.starts:
            placed = Placed(name, start)
            if held and (start, name) <= (held[-1].start, held[-1].profile):
                continue
            try:
                more = placement.occupancy(product, [*held, placed])
            except ValueError:
                continue
            if placement.why_never(product, counts(more)) == "":
                yield from occupancies(product, (*held, placed))


def counts(held: Occupancy) -> dict[str, int]:
    found: dict[str, int] = {}
    for placed in held:
        found[placed.profile] = found.get(placed.profile, 0) + 1
    return found


@pytest.mark.parametrize("name", ["A30-24GB", "RTX-PRO-4500-BLACKWELL-32GB"])
def test_req_30_stranded_slices_are_the_least_over_all_places(name):
    product = CATALOGUE.product(name)
    least: dict[tuple[int, ...], int] = {}
    for held in occupancies(product):
        cut = placement.vector(product, counts(held))
        further = max(
            placement.compute_slices(product, more) for more in placement.addable(product, held)
        )
        stranded = product.compute_slices - placement.compute_slices(product, cut) - further
        least[cut] = min(stranded, least.get(cut, stranded))
    assert set(least) == placement.addable(product, ())
    assert {cut: capacity.stranded_slices(product, cut) for cut in least} == least
