"""Packages say what they are for, and the commands of pyproject.toml exist."""

import ast
import importlib
import tomllib
from pathlib import Path

import pytest

from tests.repo import tree

PROJECT = tomllib.loads((tree.ROOT / "pyproject.toml").read_text())
PACKAGES = [path for path in tree.modules() if path.name == "__init__.py"]
SHIPPED = [path for path in tree.modules("admission", "certs") if path.name == "__init__.py"]


@pytest.mark.parametrize("path", PACKAGES, ids=tree.name)
def test_a_package_says_what_belongs_in_it(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", SHIPPED, ids=tree.name)
def test_a_package_holds_no_code_of_its_own(path):
    body = ast.parse(path.read_text()).body
    assert [type(node).__name__ for node in body[1:]] == []


def test_every_folder_with_modules_is_a_package():
    folders = {path.parent for path in tree.modules()}
    assert [tree.name(f) for f in sorted(folders) if not (f / "__init__.py").exists()] == []


def test_every_data_file_of_a_package_is_shipped():
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["*"]
    left_out = []
    for path in tree.files(tree.ROOT / "admission"):
        package = next(folder for folder in path.parents if (folder / "__init__.py").exists())
        where = path.relative_to(package)
        is_shipped = path.suffix == ".py" or any(
            where.match(one) and len(where.parts) == len(Path(one).parts) for one in patterns
        )
        if not is_shipped:
            left_out.append(tree.name(path))
    assert left_out == []


@pytest.mark.parametrize("command", PROJECT["project"]["scripts"])
def test_a_command_of_the_project_exists(command):
    module, function = PROJECT["project"]["scripts"][command].split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_the_architecture_lists_the_layers_in_their_order():
    page = (tree.ROOT / "docs" / "internals" / "architecture.md").read_text()
    section = page.split("## Packages and layers", 1)[1].split("\n## ", 1)[0]
    for contract in PROJECT["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            names = [name.strip() for layer in contract["layers"] for name in layer.split("|")]
            rest = section if contract["containers"] == ["admission"] else section.split("```")[2]
            for name in names:
                if name != "__main__":
                    assert name in rest, (contract["name"], name)
                    rest = rest.split(name, 1)[1]
