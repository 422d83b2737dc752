"""What an image holds has licences that allow its use, and most of it is needed."""

import pytest

from tests.guides import dependencies

PERMISSIVE = ("Apache", "BSD", "MIT", "MPL", "PSF", "Python Software Foundation")


def rows() -> dict[str, tuple[str, ...]]:
    return {row[0].strip("`"): row for row in dependencies.rows()}


@pytest.mark.parametrize("name", dependencies.pins())
def test_a_package_has_a_licence_that_allows_everybody_to_use_it(name: str) -> None:
    licence = rows()[name][2]
    assert any(word in licence for word in PERMISSIVE), licence
    assert "GPL" not in licence


def test_the_image_has_what_controller_and_webhook_load_and_not_the_kubernetes_client() -> None:
    editable, if_installed = {"gpu-admission", "setuptools"}, {"attrs"}  # rich looks for attrs
    assert dependencies.loaded() - editable - if_installed <= rows().keys()
    assert "kubernetes" not in rows()


def test_every_package_is_needed_by_us_or_by_another_one() -> None:
    assert [name for name, row in rows().items() if not row[3]] == []
