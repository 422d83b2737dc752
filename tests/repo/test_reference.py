"""The pages of docs/reference are those that the code makes now."""

import pytest

from admission.base import conditions
from tests.controlplane import programs
from tests.guides import keys, reference
from tests.repo import tree

MAKE = "run 'make reference' (.venv/bin/python -m tests.guides.reference)"


@pytest.mark.parametrize("name", reference.pages())
def test_a_page_of_the_reference_is_fresh(name: str) -> None:
    path = reference.FOLDER / name
    assert path.is_file(), MAKE
    assert path.read_text() == reference.pages()[name](), MAKE


def test_every_type_of_condition_is_explained() -> None:
    constants = vars(conditions)
    assert {one for one in keys.CONDITIONS if one not in constants} == set()
    ours = {
        name
        for name, value in constants.items()
        if isinstance(value, str) and value.startswith("gpu-admission.dev/")
    }
    assert ours - set(keys.CONDITIONS) == set(), "explain it in tests/guides/keys.py"


def test_the_compatibility_table_names_the_kubernetes_of_the_tests() -> None:
    page = (tree.ROOT / "docs" / "guides" / "compatibility.md").read_text()
    versions = {one.version for one in programs.PROGRAMS if one.name.startswith("kube-")}
    assert [version for version in versions if version not in page] == []
