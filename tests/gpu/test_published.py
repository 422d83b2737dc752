"""What a DRA driver publishes: counters say what excludes what, ahead of any table."""

from collections.abc import Sequence

import pytest

from admission.gpu import capacity
from admission.gpu.health import HealthPolicy
from admission.gpu.nodes import NodeFacts
from admission.gpu.products import Cost
from admission.gpu.published import Counters, Published, PublishedDevice
from tests.gpu.builders import CATALOGUE, GIB, GPU, mig

A100 = CATALOGUE.product("A100-80GB")
NAME = "NVIDIA A100-SXM4-80GB"


def slices(gpu: int, taken: Sequence[int]) -> Counters:
    return tuple(((f"gpu-{gpu}-counter-set", f"memory-slice-{index}"), 1) for index in taken)


def cuttable(gpu: int, *, sick: str = "", profiles: Sequence[str] = ()) -> Published:
    """An A100 as the driver publishes it: whole, and each profile at each of its places."""
    whole = PublishedDevice(
        name=f"gpu-{gpu}", product=NAME, takes=slices(gpu, range(8)), sick=sick,
        memory_bytes=80 * GIB,
    )  # fmt: skip
    parts = [
        PublishedDevice(
            name=f"gpu-{gpu}-mig-{name}-{start}",
            profile=name,
            product=NAME,
            takes=slices(gpu, range(start, start + A100.profiles[name].size)),
        )
        for name in profiles or A100.profiles
        for start in A100.profiles[name].starts
    ]
    return Published(devices=(whole, *parts), budgets=slices(gpu, range(8)))


def together(*parts: Published) -> Published:
    return Published(
        devices=tuple(one for part in parts for one in part.devices),
        budgets=tuple(pair for part in parts for pair in part.budgets),
    )


@pytest.mark.parametrize(
    ("taken", "left"),
    [
        ((), {GPU: 1, "1g.10gb": 7, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1}),
        (("gpu-0",), {}),
        (("gpu-0-mig-1g.10gb-6",), {"1g.10gb": 6, "2g.20gb": 3, "3g.40gb": 1, "4g.40gb": 1}),
        (("gpu-0-mig-1g.10gb-3",), {"1g.10gb": 6, "2g.20gb": 2, "3g.40gb": 1}),
        (("gpu-0-mig-3g.40gb-4",), {"1g.10gb": 4, "2g.20gb": 2, "3g.40gb": 1, "4g.40gb": 1}),
        (("unknown",), {GPU: 1, "1g.10gb": 7, "2g.20gb": 3, "3g.40gb": 2}),
    ],
)
def test_req_28_counters_tell_how_many_more_fit(taken: tuple[str, ...], left: dict[str, int]):
    found = cuttable(0).most(taken)
    shown = {name: found.get(name if name == GPU else mig(name), 0) for name in left}
    assert shown == left
    assert left or not found


def test_req_28_what_the_driver_does_not_publish_does_not_exist_whatever_the_table_says():
    found = cuttable(0, profiles=["3g.40gb"]).most()
    assert found == {GPU: 1, mig("3g.40gb"): 2}


def test_req_28_other_counters_than_memory_bind_as_well():
    engine = (("gpu-0-counter-set", "jpeg"), 1)
    one = cuttable(0, profiles=["1g.10gb"])
    devices = tuple(
        PublishedDevice(name=d.name, profile=d.profile, takes=(*d.takes, engine))
        for d in one.devices
    )
    budgets = (*one.budgets, engine)
    assert Published(devices=devices, budgets=budgets).most()[mig("1g.10gb")] == 1


def test_req_28_devices_without_counters_stand_beside_each_other():
    fixed = Published(
        devices=(
            PublishedDevice(name="gpu-0", product=NAME),
            PublishedDevice(name="gpu-1-mig-a", profile="1g.10gb", product=NAME),
            PublishedDevice(name="gpu-1-mig-b", profile="1g.10gb", product=NAME),
        )
    )
    assert fixed.most() == {GPU: 1, mig("1g.10gb"): 2}
    assert fixed.worth(CATALOGUE)[0] == Cost(slices=9, memory_bytes=100 * GIB)


def facts(published: Published, **changes: object) -> NodeFacts:
    return NodeFacts(name="n0", published=published, **changes)  # type: ignore[arg-type]


def test_req_28_a_gpu_that_can_be_cut_is_worth_the_whole_of_it_once():
    node = facts(together(cuttable(0), cuttable(1)))
    found = capacity.of_node(node, CATALOGUE, HealthPolicy())
    assert found.worth == A100.whole.times(2)
    assert (found.units[GPU], found.units[mig("1g.10gb")], found.physical) == (2, 14, 2)
    assert found.reasons == ()


def test_req_11_a_tainted_gpu_does_not_count_nor_what_could_be_cut_from_it():
    node = facts(together(cuttable(0), cuttable(1, sick="taint gpu.nvidia.com/xid=79")))
    found = capacity.of_node(node, CATALOGUE, HealthPolicy())
    assert found.worth == A100.whole
    assert (found.units[GPU], found.units[mig("3g.40gb")]) == (1, 2)
    assert (found.sick[GPU], found.sick[mig("3g.40gb")], found.physical) == (1, 2, 2)
    assert found.reasons == ("GPU gpu-1 sick: taint gpu.nvidia.com/xid=79",)


@pytest.mark.parametrize("changes", [{"ready": False}, {"unschedulable": True}])
def test_req_11_nothing_of_a_node_counts_that_takes_no_pods(changes: dict[str, bool]):
    found = capacity.of_node(facts(cuttable(0), **changes), CATALOGUE, HealthPolicy())
    assert (found.units, found.worth.slices, found.sick[GPU]) == ({}, 0, 1)


def test_req_13_published_models_are_trusted_ahead_of_the_label():
    other = PublishedDevice(name="gpu-9", product="NVIDIA H100 NVL", memory_bytes=94 * GIB)
    both = together(cuttable(0), Published(devices=(other,)))
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    found = capacity.of_node(facts(both, labels=labels), CATALOGUE, HealthPolicy())
    assert found.worth.memory_bytes == (80 + 94) * GIB
    assert found.reasons == ("node n0 has GPUs of 2 kinds; its product label names only one",)


def test_a_model_that_nobody_knows_counts_by_its_memory_and_without_it_not_at_all():
    known = PublishedDevice(name="gpu-0", product="NVIDIA Z9", memory_bytes=40 * GIB - 1)
    unknown = PublishedDevice(name="gpu-1", product="NVIDIA Z9")
    worth, notes = Published(devices=(known, unknown)).worth(CATALOGUE)
    assert worth == Cost(slices=7, memory_bytes=39 * GIB)
    assert notes == ("the cost of gpu-1 is unknown: no product",)
