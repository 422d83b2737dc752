"""Packages say what they are for, and the commands of pyproject.toml exist."""

import ast
import importlib
import tomllib

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


@pytest.mark.parametrize("command", PROJECT["project"]["scripts"])
def test_a_command_of_the_project_exists(command):
    module, function = PROJECT["project"]["scripts"][command].split(":")
    assert callable(getattr(importlib.import_module(module), function))
