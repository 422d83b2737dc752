"""Capacity of nodes: what counts, what does not, and what is left in pieces."""

import dataclasses

import pytest

from admission.gpu import capacity, nodes, placement
from admission.gpu.capacity import Capacity, NodeCapacity
from admission.gpu.health import DeviceReading, HealthPolicy
from admission.gpu.nodes import NodeFacts
from admission.gpu.placement import Placed
from admission.gpu.products import Cost
from tests.gpu.builders import CATALOGUE, GIB, GPU, MEMORY, SHARED, SLICES, mig

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


def test_the_sum_over_nodes_names_them():
    sick = dataclasses.replace(WHOLE, name="m", ready=False)
    found = capacity.total([of(WHOLE), of(sick)])
    assert found == Capacity(
        units={GPU: 8},
        worth=gib(56, 640),
        physical=16,
        sick={GPU: 8},
        reasons=("m: not Ready",),
    )


def test_promises_beyond_what_exists():
    found = capacity.shortfalls(
        {GPU: 12, SLICES: 56, MEMORY: 640 * GIB, "cpu": 5, mig("1g.10gb"): 1},
        capacity.total([of(WHOLE)]),
        {GPU: 2, SLICES: 14},
    )
    assert [shortfall.text for shortfall in found] == [
        "gpu-admission.dev/gpu-slices: quota promises 56, 42 exist",
        "nvidia.com/gpu: quota promises 12, 6 exist",
        "nvidia.com/mig-1g.10gb: quota promises 1, 0 exist",
    ]


def test_req_30_fragmentation_in_words():
    found = capacity.fragmentation({"a": 3, "b": 3, "c": 2, "d": 4 - 1, "e": 1, "f": -2})
    assert found.text == "12 free, largest hole 3"
    assert capacity.fragmentation({}).text == "0 free, largest hole 0"


@pytest.mark.parametrize(
    ("held", "stranded"),
    [
        ((), 0),
        ((("3g.40gb", 0), ("3g.40gb", 4)), 1),
        ((("1g.10gb", 0),), 0),
        ((("1g.20gb", 0), ("1g.20gb", 2), ("1g.20gb", 4), ("1g.20gb", 6)), 3),
    ],
)
def test_req_30_slices_that_nobody_can_use(held, stranded):
    product = CATALOGUE.product("A100-80GB")
    occupancy = placement.occupancy(product, [Placed(*placed) for placed in held])
    assert capacity.stranded_slices(product, occupancy) == stranded
