"""What a configuration file adds to the shipped table of GPUs."""

from typing import Any

import pytest

from admission.config.derived import Settings
from admission.gpu import catalogue
from admission.webhook import server
from tests.config import files

HALF = {
    "name": "1g.8gb", "computeSlices": 1, "memorySlices": 1, "memoryGb": 8, "max": 2, "size": 1,
    "starts": [0, 1],
}  # fmt: skip
OURS: dict[str, Any] = {
    "id": "OURS-16GB",
    "aliases": ["OURS"],
    "labels": ["NVIDIA-OURS(-.*)?"],
    "memoryGb": 16,
    "computeSlices": 2,
    "memorySlices": 2,
    "axis": 2,
    "profiles": [HALF],
    "profileAliases": {"1g.7gb": "1g.8gb"},
}


def known(*products: dict[str, Any]) -> catalogue.Catalogue:
    return files.settings(files.gpu(products=[*products])).gpu.catalogue()


def problems(**changes: Any) -> str:
    (problem,) = files.problems(files.gpu(products=[{**OURS, **changes}]))
    return problem


def test_req_03_without_products_the_table_is_as_shipped():
    assert Settings().gpu.catalogue() == catalogue.load()


def test_req_03_a_product_of_the_file_is_known_by_name_label_and_profile():
    found = known(OURS)
    assert found.version == f"{catalogue.load().version}+configured"
    assert found.product("NVIDIA-OURS-SXM").name == "OURS-16GB"
    assert found.cost("OURS", "1g.7gb") == found.cost("OURS-16GB", "1g.8gb")
    assert found.cost("A100-80GB") == catalogue.load().cost("A100-80GB")


def test_req_03_a_product_of_a_shipped_name_replaces_it():
    assert known({"id": "T4", "memoryGb": 15}).cost("T4").memory_bytes == 15 * 2**30


def test_req_03_reviews_and_what_is_shown_know_the_same_products():
    settings = files.settings(files.gpu(products=[OURS]))
    assert server.rules_of(settings).catalogue == known(OURS)
    assert files.settings(*settings.documents()) == settings


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"memoryGb": 0}, "OURS-16GB: memoryGb and computeSlices must be positive"),
        ({"profiles": [{**HALF, "max": 3}]}, "OURS-16GB: 1g.8gb: max: 3 x 1g.8gb do"),
        ({"profiles": [{**HALF, "name": "half"}]}, "OURS-16GB: half: must be a MIG profile"),
        ({"labels": ["("]}, "OURS-16GB: labels: '(' is not a regular expression"),
        ({"aliases": ["T4"]}, "name T4 also means T4"),
    ],
)
def test_req_03_what_is_wrong_with_a_product_is_told(changes, told):
    assert told in problems(**changes)


def test_a_typing_error_in_a_product_is_told():
    assert "products[0].memoryGB: unknown field; did you mean memoryGb?" in "".join(
        files.problems(files.gpu(products=[{"id": "OURS", "memoryGB": 1}]))
    )
