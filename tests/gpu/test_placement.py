"""Placement: vectors of the table, brute force, three answers, packing over a node."""

import itertools
import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.gpu import placement
from admission.gpu.placement import Fit, Placed
from admission.gpu.products import Product
from tests.gpu.builders import CATALOGUE

VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text("utf-8"))
PRODUCTS = [product for product in CATALOGUE.products.values() if product.has_mig]
A100 = CATALOGUE.product("A100-80GB")


def on_one_gpu(
    product: Product, want: dict[str, int], existing: Iterable[Placed] = ()
) -> placement.PlacementAnswer:
    """Whether a node of one GPU can hold the instances beside those that it has."""
    return placement.fit_node(product, want, [tuple(existing)])


def show(case):
    want = "+".join(f"{n}x{p}" for p, n in case["want"].items())
    return f"{case['product']} {want}"


@pytest.mark.parametrize("case", VECTORS["feasible"], ids=show)
def test_req_31_feasible_vectors_with_their_placement(case):
    answer = on_one_gpu(CATALOGUE.product(case["product"]), case["want"])
    assert answer.fit is Fit.FITS
    assert [list(placed) for placed in answer.placement[0]] == case["placement"]


@pytest.mark.parametrize("case", VECTORS["infeasible"], ids=show)
def test_req_06_what_no_gpu_can_hold(case):
    answer = on_one_gpu(CATALOGUE.product(case["product"]), case["want"])
    assert answer.fit is Fit.NEVER
    assert case["product"] in answer.reason


@pytest.mark.parametrize("case", VECTORS["onlineInfeasible"], ids=show)
def test_req_06_what_fits_an_empty_gpu_but_not_what_is_free(case):
    existing = [Placed(*placed) for placed in case["existing"]]
    answer = on_one_gpu(CATALOGUE.product(case["product"]), case["want"], existing)
    assert answer.fit is Fit.NOT_NOW
    assert "not what is free" in answer.reason


@pytest.mark.parametrize("name", VECTORS["geometryCounts"])
def test_number_of_geometries(name):
    vectors = placement.addable(CATALOGUE.product(name), ())
    feasible, maximal = VECTORS["geometryCounts"][name]
    assert (len(vectors) - 1, len(placement.maximal(vectors))) == (feasible, maximal)


def brute_force(product: Product, want: dict[str, int], existing: Iterable[Placed]) -> bool:
    """Tries every start of every instance; shares no code with the search."""
    profiles = product.profiles
    items = [profiles[name] for name, count in want.items() for _ in range(count)]
    held = [profiles[placed.profile] for placed in existing]
    every = items + held
    for profile in product.profiles.values():
        if sum(p is profile for p in every) > profile.max_instances:
            return False
    if sum(p.compute_slices for p in every) > product.compute_slices:
        return False
    for engine, total in product.engines.items():
        if sum(p.engines.get(engine, 0) for p in every) > total:
            return False
    taken = [u for p in existing for u in range(p.start, p.start + profiles[p.profile].size)]
    for starts in itertools.product(*(p.starts for p in items)):
        units = [u for p, s in zip(items, starts, strict=True) for u in range(s, s + p.size)]
        if len(set(units + taken)) == len(units) + len(taken):
            return True
    return False


@st.composite
def situations(draw):
    product = draw(st.sampled_from(PRODUCTS))
    profiles = list(product.profiles)
    existing: list[Placed] = []
    for profile in draw(st.lists(st.sampled_from(profiles), max_size=3)):
        start = draw(st.sampled_from(product.profiles[profile].starts))
        try:
            existing = list(placement.occupancy(product, [*existing, Placed(profile, start)]))
        except ValueError:
            continue
    if not brute_force(product, {}, existing):
        existing = []
    want = draw(st.dictionaries(st.sampled_from(profiles), st.integers(1, 3), max_size=3))
    while sum(want.values()) > 5:
        want.popitem()
    return product, want, tuple(existing)


@settings(max_examples=300, deadline=None)
@given(situations())
def test_req_31_the_search_equals_brute_force(situation):
    product, want, existing = situation
    answer = on_one_gpu(product, want, existing)
    assert (answer.fit is Fit.FITS) == brute_force(product, want, existing)
    if answer.fit is Fit.NEVER:
        assert not brute_force(product, want, ())
    if answer.fit is Fit.FITS:
        placement.occupancy(product, [*existing, *answer.placement[0]])
        assert sorted(p.profile for p in answer.placement[0]) == sorted(
            name for name, count in want.items() for _ in range(count)
        )


def test_an_impossible_occupancy_is_an_error():
    with pytest.raises(ValueError, match="overlaps"):
        placement.occupancy(A100, [Placed("3g.40gb", 0), Placed("1g.10gb", 1)])
    with pytest.raises(ValueError, match="no placement"):
        placement.occupancy(A100, [Placed("3g.40gb", 2)])


def test_a_pods_instances_sit_on_few_gpus():
    answer = placement.fit_node(A100, {"3g.40gb": 2}, [(Placed("7g.80gb", 0),), (), ()])
    assert [len(gpu) for gpu in answer.placement] == [0, 2, 0]


@pytest.mark.parametrize(
    ("product", "want", "reason"),
    [
        ("A100-80GB", {"4g.40gb": 1, "1g.20gb": 2, "1g.10gb": 1}, "9 of 8 placement units"),
        ("A30-24GB", {"1g.6gb+me": 1, "2g.12gb+me": 1}, "2 jpeg engines of 1"),
        ("A100-80GB", {"1g.20gb": 3, "2g.20gb": 2}, "10 of 8 placement units"),
        ("A100-80GB", {"2g.20gb": 2, "1g.10gb": 4}, "8 compute slices of 7"),
        ("A100-80GB", {"1g.20gb": 2, "4g.40gb": 1}, ""),
    ],
)
def test_a_refusal_names_what_runs_out(product, want, reason):
    assert reason in placement.why_never(CATALOGUE.product(product), want)


def test_aliases_count_as_their_profile():
    assert on_one_gpu(A100, {"7g.79gb": 1}).fit is Fit.FITS
    assert on_one_gpu(A100, {"7g.79gb": 1, "7g.80gb": 1}).fit is Fit.NEVER


@pytest.mark.parametrize(
    ("want", "gpus", "fit"),
    [
        ({"3g.40gb": 3}, [(), ()], Fit.FITS),
        ({"3g.40gb": 4}, [(), ()], Fit.FITS),
        ({"3g.40gb": 5}, [(), ()], Fit.NEVER),
        ({"4g.40gb": 2}, [(), (Placed("1g.10gb", 0),)], Fit.NOT_NOW),
        ({"4g.40gb": 1, "3g.40gb": 2}, [(Placed("1g.10gb", 0),), ()], Fit.FITS),
        ({"1g.5gb": 1}, [()], Fit.NEVER),
        ({"1g.10gb": 1}, [], Fit.NEVER),
        ({}, [()], Fit.FITS),
    ],
)
def test_req_08_a_pods_instances_may_sit_on_several_gpus_of_one_node(want, gpus, fit):
    answer = placement.fit_node(A100, want, gpus)
    assert answer.fit is fit
    if fit is Fit.FITS:
        placed = [p.profile for gpu in answer.placement for p in gpu]
        assert sorted(placed) == sorted(n for n, count in want.items() for _ in range(count))


small = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=3)


@settings(deadline=None)
@given(want=st.tuples(st.integers(0, 5), st.integers(0, 5)), tops=st.lists(small, max_size=3))
def test_packing_equals_trying_everything(want, tops):
    bins = [
        frozenset({(0, 0)} | {(a, b) for x, y in top for a in range(x + 1) for b in range(y + 1)})
        for top in tops
    ]
    parts = placement.pack(want, bins)
    possible = any(
        tuple(map(sum, zip(*choice, (0, 0), strict=True))) == want
        for choice in itertools.product(*bins)
    )
    assert (parts is not None) == possible
    if parts is not None:
        assert all(part in options for part, options in zip(parts, bins, strict=True))
        assert tuple(map(sum, zip(*parts, (0, 0), strict=True))) == want
