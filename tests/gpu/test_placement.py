"""Placement: vectors of the table, brute force, three answers, packing over a node."""

import itertools
import json
import operator
import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.gpu import placement
from admission.gpu.placement import Fit, Placed
from admission.gpu.products import Product
from tests.gpu.builders import CATALOGUE, UNDECIDED

VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text("utf-8"))
PRODUCTS = [product for product in CATALOGUE.products.values() if product.has_mig]
A100 = CATALOGUE.product("A100-80GB")
H100 = CATALOGUE.product("H100-80GB")


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


UNBOUNDED = 10**9
"""Steps that no search of a test takes."""
small = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=3)


def bins_below(tops: list[list[tuple[int, int]]]) -> list[placement.Options]:
    """Return bins that take what one of their largest sets has, or less."""
    return [
        frozenset({(0, 0)} | {(a, b) for x, y in top for a in range(x + 1) for b in range(y + 1)})
        for top in tops
    ]


def adds_up(want: placement.Vector, bins: list[placement.Options]) -> bool:
    """Return whether parts of the bins add up to a wish: all sums, without any bound."""
    sums = {tuple([0] * len(want))}
    for options in bins:
        sums = {tuple(map(sum, zip(a, b, strict=True))) for a in sums for b in options}
        sums = {each for each in sums if all(map(operator.le, each, want))}
    return want in sums


def check_parts(
    parts: tuple[placement.Vector, ...], want: placement.Vector, bins: list[placement.Options]
) -> None:
    assert all(part in options for part, options in zip(parts, bins, strict=True))
    assert tuple(map(sum, zip(*parts, [0] * len(want), strict=True))) == want


@settings(deadline=None)
@given(want=st.tuples(st.integers(0, 5), st.integers(0, 5)), tops=st.lists(small, max_size=3))
def test_packing_equals_trying_everything(want, tops):
    bins = bins_below(tops)
    packing = placement.pack(want, bins, steps=UNBOUNDED)
    assert packing.is_decided
    assert (packing.parts is not None) == adds_up(want, bins)
    if packing.parts is not None:
        check_parts(packing.parts, want, bins)


@settings(deadline=None)
@given(
    want=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    tops=st.lists(small, max_size=3),
    steps=st.integers(0, 4),
)
def test_a_search_that_ends_early_makes_no_wrong_claim(want, tops, steps):
    bins = bins_below(tops)
    packing = placement.pack(want, bins, steps=steps)
    if packing.parts is not None:
        check_parts(packing.parts, want, bins)
    elif packing.is_decided:
        assert not adds_up(want, bins)


@st.composite
def nodes(draw):
    """A product, what each of its GPUs can take, and a wish of some instances of any profile."""
    product = draw(st.sampled_from(PRODUCTS))
    empty = placement.addable(product, ())
    busy = [placement.occupancy(product, [Placed(p.name, p.starts[0])])
            for p in product.profiles.values()]  # fmt: skip
    held = draw(st.lists(st.sampled_from([(), *busy]), min_size=2, max_size=3))
    bins = [placement.addable(product, gpu) if gpu else empty for gpu in held]
    most = [profile.max_instances for profile in product.profiles.values()]
    return product, tuple(draw(st.integers(0, 2 * each)) for each in most), bins


@settings(max_examples=100, deadline=None)
@given(nodes(), st.sampled_from([0, 1, 3, UNBOUNDED]))
def test_req_31_packing_the_gpus_of_a_node_equals_trying_everything(node, steps):
    product, want, bins = node
    packing = placement.pack(want, bins, placement._weights(product), steps=steps)
    assert packing.is_decided or steps != UNBOUNDED
    if packing.parts is not None:
        check_parts(packing.parts, want, bins)
    elif packing.is_decided:
        assert not adds_up(want, bins)


# ------------------------------------------------------------------ what a search may take

MIXTURE = {"1g.20gb": 6, "2g.20gb": 6, "1g.10gb+me": 5, "1g.10gb": 6, "4g.40gb": 3, "3g.40gb": 4}
"""Instances that leave almost nothing free on 8 GPUs."""


def steps_of(monkeypatch: pytest.MonkeyPatch, want: dict[str, int], gpus: int) -> int:
    """Return how often a search on empty GPUs is called, its first answer included."""
    calls, run = [], placement._PartSearch.run

    def counted(search: placement._PartSearch, rest: placement.Vector, index: int = 0):
        calls.append(rest)
        return run(search, rest, index)

    monkeypatch.setattr(placement._PartSearch, "run", counted)
    placement._packed_on_empty.cache_clear()
    placement.fit_node(H100, want, [()] * gpus)
    return len(calls)


def test_a_mixture_that_leaves_little_free_is_decided_in_few_steps(monkeypatch):
    assert placement.fit_node(H100, MIXTURE, [()] * 8).fit is Fit.FITS
    assert steps_of(monkeypatch, MIXTURE, 8) <= 20


def test_mixtures_that_fill_a_node_are_mostly_decided_long_before_the_bound():
    """19 of 20 within a tenth of the steps, 99 of 100 at all."""
    rng, late, undecided = random.Random(1), 0, 0
    profiles = [*H100.profiles.values()]
    for _ in range(200):
        want: dict[str, int] = {}
        units = slices = 0
        chosen = rng.sample(profiles, rng.randint(2, len(profiles)))
        while True:
            profile = rng.choice(chosen)
            units, slices = units + profile.size, slices + profile.compute_slices
            if units > 8 * H100.axis or slices > 8 * H100.compute_slices:
                break
            want[profile.name] = want.get(profile.name, 0) + 1
        bins = [placement.addable(H100, ())] * 8
        asked = placement.vector(H100, want), bins, placement._weights(H100)
        late += not placement.pack(*asked, steps=placement.SEARCH_STEPS // 10).is_decided
        undecided += not placement.pack(*asked).is_decided
    assert late <= 10
    assert undecided <= 2


def test_a_search_ends_at_its_bound_and_claims_nothing(monkeypatch):
    answer = placement.fit_node(H100, UNDECIDED, [()] * 8)
    assert (answer.fit, answer.placement) == (Fit.UNKNOWN, ())
    assert "is not known" in answer.reason
    assert steps_of(monkeypatch, UNDECIDED, 8) <= placement.SEARCH_STEPS + 2


def test_what_is_not_known_of_an_empty_node_is_not_said_to_fit_it():
    busy = [(Placed("7g.80gb", 0),)] * 8
    assert placement.fit_node(H100, UNDECIDED, busy).fit is Fit.UNKNOWN


def test_equal_mixtures_on_equal_nodes_are_searched_once():
    placement.fit_node(H100, MIXTURE, [()] * 8)
    before = placement._packed_on_empty.cache_info()
    placement.fit_node(H100, dict(reversed(MIXTURE.items())), [()] * 8)
    after = placement._packed_on_empty.cache_info()
    assert (after.hits, after.misses) == (before.hits + 1, before.misses)


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.name)
def test_the_places_of_what_fits_one_gpu_are_found_without_trying_many(product, monkeypatch):
    calls, place = [], placement._place

    def counted(items, mask):
        calls.append(items)
        return place(items, mask)

    monkeypatch.setattr(placement, "_place", counted)
    for counts in placement.addable(product, ()):
        calls.clear()
        placement._example.__wrapped__(product, (), counts)
        assert len(calls) <= 20
