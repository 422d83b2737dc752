"""What an image holds has licences that allow its use, and most of it is needed."""

import pytest

from tests.guides import dependencies

ROWS = {row[0].strip("`"): row for row in dependencies.rows()}
PERMISSIVE = ("Apache", "BSD", "MIT", "MPL", "PSF", "Python Software Foundation")
UNUSED = {
    "aiohappyeyeballs", "aiohttp", "aiohttp-retry", "aiosignal", "frozenlist", "multidict",
    "propcache", "yarl",
}  # fmt: skip
"""What the package kubernetes asks for and only its asynchronous half uses, see ADR 0189."""


@pytest.mark.parametrize("name", ROWS)
def test_a_package_has_a_licence_that_allows_everybody_to_use_it(name: str) -> None:
    licence = ROWS[name][2]
    assert any(word in licence for word in PERMISSIVE), licence
    assert "GPL" not in licence


def test_nothing_asynchronous_of_the_kubernetes_client_is_loaded() -> None:
    assert UNUSED & dependencies.loaded() == set()
    assert {name for name in UNUSED if name not in ROWS} == set(), "ADR 0189 can go"


def test_every_package_is_needed_by_us_or_by_another_one() -> None:
    assert [name for name, row in ROWS.items() if not row[3]] == []
