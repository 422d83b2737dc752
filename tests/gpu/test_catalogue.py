"""The catalogue: cost of (product, profile), lookups by any name, checks at load."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from admission.base.errors import InvalidValueError
from admission.gpu import catalogue as catalogues
from admission.gpu.catalogue import UnknownProductError, UnknownProfileError
from admission.gpu.products import Cost, Product
from tests.gpu.builders import CATALOGUE, GIB


def test_the_table_has_its_products_and_profiles():
    cut = [product for product in CATALOGUE.products.values() if product.has_mig]
    assert len(cut) == 15
    assert sum(len(product.profiles) for product in cut) == 106


@pytest.mark.parametrize(
    ("label", "product", "profile"),
    [
        ("NVIDIA-A100-SXM4-80GB", "A100-80GB", ""),
        ("NVIDIA-A100-80GB-PCIe", "A100-80GB", ""),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "A100-40GB", "1g.5gb"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb.me-SHARED", "A100-40GB", "1g.5gb+me"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gbme", "A100-40GB", "1g.5gb+me"),
        ("NVIDIA-H100-80GB-HBM3", "H100-80GB", ""),
        ("NVIDIA-H100-NVL", "H100-94GB", ""),
        ("NVIDIA-H200", "H200-141GB", ""),
        ("NVIDIA-H20", "H100-96GB", ""),
        ("NVIDIA-A30", "A30-24GB", ""),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "RTX-PRO-6000-BLACKWELL-96GB", ""),
        ("Tesla-T4", "T4", ""),
        ("Tesla-T4-SHARED", "T4", ""),
        ("NVIDIA-L4", "L4", ""),
        ("NVIDIA-L40S", "L40S", ""),
        ("NVIDIA-Tesla-V100-SXM2-16GB", "V100-16GB", ""),
    ],
)
def test_product_labels(label, product, profile):
    assert CATALOGUE.product(label).name == product
    assert catalogues.read_label(label).profile == profile


def test_a_name_means_its_product_with_the_suffixes_of_a_label_too():
    for product in CATALOGUE.products.values():
        for name in (product.name, *product.aliases):
            assert CATALOGUE.find(f"{name}-SHARED") is product, name


def test_no_label_means_two_products():
    samples = [
        "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB", "NVIDIA-A10", "NVIDIA-A30", "NVIDIA-A2",
        "NVIDIA-H100-80GB-HBM3", "NVIDIA-H200", "NVIDIA-H20", "NVIDIA-GH200-480GB", "NVIDIA-B200",
        "NVIDIA-GB200", "NVIDIA-L4", "NVIDIA-L40", "NVIDIA-L40S", "Tesla-T4", "NVIDIA-A40",
        "NVIDIA-GH200-144G-HBM3e", "NVIDIA-A16", "NVIDIA-RTX-A6000",
    ]  # fmt: skip
    for label in samples:
        matching = {p.name for pattern, p in CATALOGUE._patterns if pattern.fullmatch(label)}
        assert len(matching) == 1, (label, matching)


def test_a_vgpu_is_not_taken_for_the_whole_card():
    assert CATALOGUE.find("NVIDIA-A10-12Q") is None


def test_req_02_cost_depends_on_the_product():
    small = CATALOGUE.profile(CATALOGUE.product("A100-40GB"), "1g.10gb")
    large = CATALOGUE.profile(CATALOGUE.product("A100-80GB"), "1g.10gb")
    assert (small.memory_slices, small.max_instances) == (2, 4)
    assert (large.memory_slices, large.max_instances) == (1, 7)
    assert CATALOGUE.cost("A100-80GB", "3g.40gb") == Cost(slices=3, memory_bytes=40 * GIB)
    assert CATALOGUE.cost("A100-80GB") == Cost(slices=7, memory_bytes=80 * GIB)
    assert CATALOGUE.cost("A30-24GB") == Cost(slices=4, memory_bytes=24 * GIB)
    assert CATALOGUE.cost("Tesla-T4") == Cost(slices=7, memory_bytes=16 * GIB)


@pytest.mark.parametrize(
    ("product", "alias", "name"),
    [("A100-80GB", "7g.79gb", "7g.80gb"), ("GB200-186GB", "3g.95gb", "3g.93gb")],
)
def test_req_03_aliases_cost_the_same(product, alias, name):
    assert CATALOGUE.cost(product, alias) == CATALOGUE.cost(product, name)


def test_req_01_unknown_names_list_the_known_ones():
    with pytest.raises(
        UnknownProfileError, match=r"A100-80GB has no such profile; it has 1g.10gb"
    ):
        CATALOGUE.cost("A100-80GB", "1g.5gb")
    with pytest.raises(UnknownProductError, match="known are A30-24GB, A100-40GB"):
        CATALOGUE.cost("A1000", "1g.5gb")
    with pytest.raises(UnknownProfileError, match="no MIG"):
        CATALOGUE.cost("T4", "1g.5gb")
    with pytest.raises(InvalidValueError, match="compute instance"):
        CATALOGUE.cost("A100-80GB", "1c.3g.40gb")


def test_trap_05_the_80gb_card_has_no_5gb_slices():
    names = {product.name for product, _ in CATALOGUE.candidates("1g.5gb")}
    assert names == {"A100-40GB"}


def test_an_unknown_model_is_read_off_its_memory_label():
    labels = {"nvidia.com/gpu.product": "NVIDIA-Q9000", "nvidia.com/gpu.memory": "49140"}
    product = CATALOGUE.product_of_labels(labels)
    assert product is not None
    assert (product.name, product.whole) == (
        "NVIDIA-Q9000",
        Cost(slices=7, memory_bytes=48 * GIB),
    )
    assert product.estimated
    assert CATALOGUE.product_of_labels({"nvidia.com/gpu.product": "NVIDIA-Q9000"}) is None
    assert CATALOGUE.product_of_labels({}) is None
    for memory in ("0", "much"):
        assert CATALOGUE.product_of_labels({**labels, "nvidia.com/gpu.memory": memory}) is None
    slice_of = {**labels, "nvidia.com/gpu.product": "NVIDIA-Q9000-MIG-1g.10gb"}
    assert CATALOGUE.product_of_labels(slice_of) is None
    assert CATALOGUE.product_of_labels({**labels, "nvidia.com/gpu.product": "Tesla-T4"}) == (
        CATALOGUE.product("T4")
    )


def test_req_03_an_override_replaces_and_adds_products():
    override = {
        "version": "site",
        "products": [
            {"id": "T4", "memoryGb": 15},
            {"id": "X1", "memoryGb": 32, "labels": ["NVIDIA-X1"]},
        ],
    }
    catalogue = catalogues.load(override)
    assert catalogue.cost("T4").memory_bytes == 15 * GIB
    assert catalogue.cost("NVIDIA-X1").memory_bytes == 32 * GIB
    assert catalogue.version == f"{CATALOGUE.version}+site"


def test_req_03_the_table_of_the_package_passes_the_checks_that_loading_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert catalogues.from_document(catalogues.builtin_document()) == CATALOGUE
    checked: list[str] = []

    def check(product: Product) -> Iterator[str]:
        checked.append(product.name)
        yield from ()

    monkeypatch.setattr(catalogues, "check_product", check)
    catalogues.load({"products": [{"id": "X1", "memoryGb": 32}]})
    assert checked == ["X1"]


def break_document(path: tuple[Any, ...], value: object) -> dict[str, Any]:
    document = copy.deepcopy(dict(catalogues.builtin_document()))
    target: Any = document
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "rule"),
    [
        (("products", 0, "profiles", 0, "max"), 5, "at most|does not fit"),
        (("products", 0, "profiles", 0, "name"), "1g.7gb", "must be those of the name"),
        (("products", 0, "profiles", 0, "name"), "1g.6gb.me", r"must be written 1g.6gb\+me"),
        (("products", 0, "profiles", 0, "name"), "tiny", "must be a MIG profile"),
        (("products", 0, "profiles", 0, "starts"), [0, 4], "leaves the axis"),
        (("products", 0, "profiles", 0, "starts"), [], "must be given and positive"),
        (("products", 0, "profiles", 0, "computeSlices"), 9, "more compute slices"),
        (("products", 0, "profiles", 0, "memorySlices"), 9, "more memory slices"),
        (("products", 0, "memoryGb"), 0, "must be positive"),
        (("products", 20, "computeSlices"), 0, "must be positive"),
        (("products", 0, "memoryGb"), "x", "malformed"),
        (("products", 0, "labels"), ["("], "not a regular expression"),
        (("products", 0, "aliases"), ["A100-80GB"], "also means"),
        (("products", 2, "profileAliases"), {"7g.79gb": "7g.1gb"}, "means unknown"),
        (("products", 2, "profileAliases"), {"1g.10gb": "7g.80gb"}, "is a profile itself"),
        (("products",), {}, "must be a list"),
    ],
)
def test_req_03_a_broken_table_is_refused_at_load(path, value, rule):
    with pytest.raises(InvalidValueError, match=rule):
        catalogues.from_document(break_document(path, value))


def test_an_override_must_not_claim_a_name_of_another_product():
    with pytest.raises(InvalidValueError, match="also means"):
        catalogues.load({"products": [{"id": "X", "memoryGb": 1, "aliases": ["T4"]}]})
