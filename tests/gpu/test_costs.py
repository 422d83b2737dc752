"""One currency: prices per flavor, what a queue counts, exact weights."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base.errors import InvalidValueError
from admission.gpu import claims, costs, placement
from admission.gpu.catalogue import UnknownProductError, UnknownProfileError
from admission.gpu.claims import GpuDeviceClass, GpuDeviceRequest
from admission.gpu.costs import FlavorCosts, Unit
from admission.gpu.products import Cost
from tests.gpu.builders import CATALOGUE, GIB, GPU, MEMORY, SHARED, SLICES, make_flavor, mig

A100 = CATALOGUE.product("A100-80GB")
A30 = CATALOGUE.product("A30-24GB")
A40 = CATALOGUE.product("A100-40GB")


def prices(product: str, *covered: str, **kwargs: Any) -> FlavorCosts:
    return costs.tariff(make_flavor("f", product, *covered, **kwargs), CATALOGUE)


def gib(slices: int, memory: int) -> Cost:
    return Cost(slices=slices, memory_bytes=memory * GIB)


@pytest.mark.parametrize(
    ("tariff", "asked", "cost"),
    [
        (prices("A100-80GB", MEMORY), {GPU: 2, "cpu": 9}, gib(14, 160)),
        (prices("A100-80GB", MEMORY), {mig("1g.10gb"): 3, mig("3g.40gb"): 1}, gib(6, 70)),
        (prices("A100-40GB", MEMORY), {mig("1g.10gb"): 3}, gib(3, 30)),
        (prices("A100-80GB", MEMORY), {mig("7g.79gb"): 1}, gib(7, 80)),
        (prices("T4", MEMORY), {GPU: 1}, gib(7, 16)),
        (prices("T4", SHARED, sharing="time-slicing", replicas=4), {SHARED: 1}, gib(2, 4)),
        (prices("T4", SHARED, sharing="time-slicing", replicas=4), {SHARED: 4}, gib(7, 16)),
        (prices("Tesla-T4-SHARED", GPU, sharing="time-slicing", replicas=4), {GPU: 2}, gib(4, 8)),
        (prices("A100-80GB", GPU, profile="3g.40gb"), {GPU: 1}, gib(3, 40)),
        (prices("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", GPU), {GPU: 1}, gib(1, 10)),
        (prices("A100-80GB", MEMORY), {"cpu": 1, GPU: 0}, gib(0, 0)),
    ],
)
def test_req_05_demand_in_slices_and_memory(tariff, asked, cost):
    assert tariff.demand(asked) == cost


def test_req_02_without_a_product_the_highest_cost_is_taken_and_said():
    tariff = prices("", MEMORY)
    assert tariff.demand({mig("1g.24gb"): 1}) == gib(1, 24)
    assert "highest cost over H100-94GB" in tariff.assumptions({mig("1g.24gb"): 1})[0]
    with pytest.raises(UnknownProductError, match="set its annotation"):
        tariff.demand({GPU: 1})
    with pytest.raises(InvalidValueError, match="no known GPU product"):
        tariff.demand({mig("1g.11gb"): 1})


def test_req_01_a_profile_that_the_product_lacks_never_costs_nothing():
    with pytest.raises(UnknownProfileError):
        prices("A100-80GB", MEMORY).demand({mig("1g.5gb"): 1})


def test_a_flavor_says_which_names_it_lacks():
    sliced = prices("A100-80GB", MEMORY, profile="1g.10gb")
    assert sliced.lacks(mig("1g.10gb")) == ""
    assert "offers nvidia.com/mig-1g.10gb, not nvidia.com/gpu" in sliced.lacks(GPU)
    assert sliced.lacks("cpu") == ""
    single = prices("A100-80GB", GPU, profile="1g.10gb")
    assert "offers nvidia.com/gpu, not" in single.lacks(mig("1g.10gb"))
    assert "offers no GPUs" in prices("A100-80GB", "cpu").lacks(GPU)
    assert prices("A100-80GB", MEMORY).lacks(mig("7g.79gb")) == ""


@pytest.mark.parametrize(
    ("profile", "compute", "memory", "dominant"),
    [
        ("1g.10gb", (1, 7), (1, 8), (1, 7)),
        ("1g.20gb", (1, 7), (1, 4), (1, 4)),
        ("2g.20gb", (2, 7), (1, 4), (2, 7)),
        ("3g.40gb", (3, 7), (1, 2), (1, 2)),
        ("4g.40gb", (4, 7), (1, 2), (4, 7)),
        ("7g.80gb", (1, 1), (1, 1), (1, 1)),
    ],
)
def test_req_05_weights_in_every_unit(profile, compute, memory, dominant):
    found = A100.profiles[profile]
    assert costs.weigh(A100, found, Unit.COMPUTE) == Fraction(*compute)
    assert costs.weigh(A100, found, Unit.MEMORY_SLICES) == Fraction(*memory)
    assert costs.weigh(A100, found, Unit.DOMINANT) == Fraction(*dominant)
    assert costs.weigh(A100, found, Unit.MEMORY_GIB) == found.memory_gb
    assert costs.weigh(A100, found, Unit.DEVICES) == 1


def test_req_04_every_weight_is_a_whole_number_of_sub_units():
    for product in CATALOGUE.products.values():
        for profile in (None, *product.profiles.values()):
            for unit in Unit:
                weight = costs.weigh(product, profile, unit) * costs.SUB_UNITS
                assert weight.denominator == 1


def test_req_04_dominant_weights_never_undercharge_a_full_card():
    profiles = list(A100.profiles.values())
    weights = [
        sum(costs.weigh(A100, p, Unit.DOMINANT) * n for p, n in zip(profiles, counts, strict=True))
        for counts in placement.maximal(placement.addable(A100, ()))
    ]
    assert (min(weights), max(weights)) == (1, Fraction(31, 28))


@given(st.integers(1, 100), st.integers(1, 100))
def test_shares_never_cost_less_than_their_part(count, replicas):
    cost = A100.whole.times(count, replicas)
    assert cost.slices * replicas >= 7 * count > (cost.slices - 1) * replicas
    assert A100.whole.times(replicas, replicas) == A100.whole


PROFILE = "device.attributes['gpu.nvidia.com'].profile == '3g.40gb'"
CLASSES = claims.known_classes(
    [
        GpuDeviceClass(name="small", profile="1g.10gb"),
        GpuDeviceClass(name="answers", extended_resource=GPU),
    ],
    {"fpga.example.com": "example.com/fpga"},
)


def request(device_class: str, **kwargs: Any) -> GpuDeviceRequest:
    return GpuDeviceRequest(device_class=device_class, **kwargs)


@pytest.mark.parametrize(
    ("asked", "amounts", "cost"),
    [
        ([request("gpu.nvidia.com"), request("answers")], {GPU: 2}, gib(14, 160)),
        ([request("gpu.nvidia.com", count=8, admin_access=True)], {}, gib(0, 0)),
        (
            [request("mig.nvidia.com", selectors=(PROFILE,), count=2)],
            {mig("3g.40gb"): 2},
            gib(6, 80),
        ),
        ([request("small")], {mig("1g.10gb"): 1}, gib(1, 10)),
        ([request("gpu.nvidia.com", selectors=(PROFILE,))], {GPU: 1}, gib(7, 80)),
        ([request("answers", selectors=(PROFILE,), count=2)], {GPU: 2}, gib(14, 160)),
        ([request("small", selectors=(f"{PROFILE} || true",))], {mig("1g.10gb"): 1}, gib(1, 10)),
        ([request("fpga.example.com", count=3)], {"example.com/fpga": 3}, gib(0, 0)),
    ],
)
def test_req_27_claims_cost_as_much_as_device_names(asked, amounts, cost):
    assert claims.amounts(asked, CLASSES) == amounts
    assert prices(A100.name, MEMORY).demand(amounts) == cost


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (request("mig.nvidia.com"), "needs a selector"),
        (request("nic.example.com"), "resources.deviceClassMappings"),
        (request("mig.nvidia.com", selectors=(f"!({PROFILE})",)), "must be one comparison"),
        (request("mig.nvidia.com", selectors=(PROFILE, PROFILE.replace("3", "4"))), "one compar"),
        (request("mig.nvidia.com", selectors=(PROFILE.replace("3g.40gb", "big"),)), "MIG profile"),
        (request("small", selectors=(PROFILE,)), "demands a MIG device 3g.40gb, but its class"),
    ],
)
def test_req_27_what_a_claim_takes_is_never_guessed(asked, said):
    with pytest.raises(InvalidValueError, match=said):
        claims.amounts([asked], CLASSES)


@pytest.mark.parametrize(
    "text",
    [
        "device.attributes['gpu.nvidia.com'].profile == '2g.20gb'",
        'device.attributes["gpu.nvidia.com"].profile == "2g.20gb" && device.driver == "x"',
        "device.attributes['gpu.nvidia.com']['profile']=='2g.20gb'",
        "device.attributes['gpu.nvidia.com'].profile == '2g.20gb' && a.type != 'gpu'",
        "('2g.20gb' == device.attributes['gpu.nvidia.com'].profile) // profile == '1g.10gb'",
        "(a || b) && ((device.attributes['gpu.nvidia.com'].profile == '2g.20gb' && x == 'r'))",
    ],
)
def test_req_27_a_profile_is_read_from_a_selector(text):
    assert claims.profile_of([text, "device.driver == 'gpu.nvidia.com'"]) == "2g.20gb"


_SMALL = "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'"


@pytest.mark.parametrize(
    "text",
    [
        f"true // && {_SMALL}",
        f"true // \r && {_SMALL}",
        f"// {_SMALL}\ntrue",
        f'"{_SMALL}" != ""',
        f'"""\n && {_SMALL} && """ != ""',
        f"r'\\' != '' || {_SMALL} && ' ' != ''",
        f"true || {_SMALL}",
        f"{_SMALL} || true",
        f"{_SMALL} && a == 'b' || true",
        f"!({_SMALL})",
        f"{_SMALL} ? true : true",
        f"(true ? true : {_SMALL})",
        f"[{_SMALL}].size() == 1",
        f"[1].exists(device, {_SMALL})",
        f"{_SMALL} == false",
        _SMALL.replace("==", "!="),
        _SMALL.replace("gpu.nvidia.com", "x.example.com"),
        _SMALL.replace("device", "other.device"),
        _SMALL.replace("1g.10gb", r"1g.1\x30gb"),
        f"{_SMALL} && (",
        f"$ && {_SMALL}",
    ],
)
@pytest.mark.parametrize("name", ["mig.nvidia.com", "gpu.nvidia.com", "any"])
def test_req_27_a_selector_of_a_user_makes_nothing_cheaper(text: str, name: str):
    driver = claims.device_class("any", ["device.driver == 'gpu.nvidia.com'"], "")
    assert driver is not None
    classes = claims.known_classes([driver], {})
    asked = request(name, selectors=(text,), count=7)
    if name == "mig.nvidia.com":
        with pytest.raises(InvalidValueError, match="must be one comparison"):
            claims.amounts([asked], classes)
    else:
        assert claims.amounts([asked], classes) == {GPU: 7}


@pytest.mark.parametrize(
    ("selectors", "answers", "found"),
    [
        ((), "", None),
        (("device.driver != 'gpu.nvidia.com'",), "", None),
        (("'gpu.nvidia.com' == device.driver",), "", {"profile": "", "is_sliced": False}),
        (("device.attributes['gpu.nvidia.com'].minor == 1",), "", {"is_sliced": False}),
        (
            (f"device.driver == 'gpu.nvidia.com' // {_SMALL}\n",),
            "",
            {"profile": "", "is_sliced": False},
        ),
        (("device.driver == 'nic.example.com'",), "", None),
        ((), "nvidia.com/mig-1g.10gb", {"profile": "1g.10gb"}),
        (("device.driver == 'gpu.nvidia.com'",), "", {"profile": "", "is_sliced": False}),
        (
            (
                "device.driver == 'gpu.nvidia.com'",
                "device.attributes['gpu.nvidia.com'].type == 'mig'",
            ),
            "",
            {"is_sliced": True},
        ),
    ],
)
def test_req_27_a_class_of_gpus_is_known_by_its_driver_or_the_name_it_answers(
    selectors, answers, found
):
    made = claims.device_class("ours", selectors, answers)
    if found is None:
        assert made is None
    else:
        assert {name: getattr(made, name) for name in found} == found


def test_req_27_a_class_whose_selector_is_not_understood_says_so_when_it_is_used():
    unclear = claims.device_class("ours", [f"{PROFILE} || true"], GPU)
    assert unclear is not None
    classes = claims.known_classes([unclear], {})
    with pytest.raises(InvalidValueError, match="must be one comparison"):
        claims.amounts([request("ours")], classes)
    with pytest.raises(InvalidValueError, match="must be one comparison"):
        claims.amounts([request("ours", selectors=(PROFILE,))], classes)


def test_req_27_an_implicit_name_is_counted_as_its_class_and_others_stay():
    implicit = "deviceclass.resource.kubernetes.io/"
    assert claims.counted_name(implicit + "small", CLASSES) == mig("1g.10gb")
    assert claims.counted_name(implicit + "gpu.nvidia.com", CLASSES) == GPU
    assert claims.counted_name("cpu", CLASSES) == "cpu"


@pytest.mark.parametrize(
    ("flavor", "told"),
    [
        (make_flavor("a100", "A100-80GB", SLICES), ()),
        (make_flavor("any", "", mig("1g.24gb"), SLICES), ("1g.24gb is counted at its highest",)),
        (make_flavor("cut", "", SLICES, profile="1g.24gb"), ("1g.24gb is counted at its high",)),
        (make_flavor("any", "", SLICES), ("set its annotation gpu-admission.dev/product",)),
        (make_flavor("odd", "RTX-9999", GPU, SLICES), ("RTX-9999 is not in the GPU", "set its")),
    ],
    ids=["known", "named slices", "own slices", "whole", "unknown product"],
)
def test_req_02_a_flavor_tells_what_of_its_costs_is_assumed(flavor, told):
    found = " | ".join(costs.tariff(flavor, CATALOGUE).doubts())
    assert all(text in found for text in told), found
    assert bool(found) == bool(told)
