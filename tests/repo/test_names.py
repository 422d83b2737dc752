"""Labels, annotations, gates and groups of Kueue and of this project are named in one module."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.repo import tree

HOME = tree.ROOT / "admission" / "base" / "names.py"
MAKES = {
    "admission/base/conditions.py": "types of conditions are its own",
}
"""Modules that make a name out of a domain."""

NAME = re.compile(r"(kueue\.x-k8s\.io|gpu-admission\.dev)")
DOMAINS = {"KUEUE_GROUP", "VISIBILITY_GROUP", "KUEUE_CONFIG_GROUP", "OWN_DOMAIN"}
VERSION = re.compile(r"/v\d\w*")


def modules() -> Iterator[Path]:
    return (path for path in tree.modules("admission") if path != HOME)


def is_of(path: Path, places: dict[str, str]) -> bool:
    return any(path.is_relative_to(tree.ROOT / place) for place in places)


def docstrings(module: ast.Module) -> set[ast.AST]:
    """Strings that are statements: docstrings, and texts below attributes."""
    return {node.value for node in ast.walk(module) if isinstance(node, ast.Expr)}


def literals(path: Path) -> Iterator[str]:
    """Places where a name is written in a string."""
    module = ast.parse(path.read_text())
    left_out = docstrings(module)
    for node in ast.walk(module):
        if not isinstance(node, ast.Constant) or node in left_out:
            continue
        if isinstance(node.value, str) and NAME.search(node.value):
            yield f"{tree.name(path)}:{node.lineno}: {node.value}"


def made(path: Path) -> Iterator[str]:
    """Places where a name is put together from a domain and a text, other than a version."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.JoinedStr):
            continue
        for domain, text in zip(node.values, node.values[1:], strict=False):
            is_domain = isinstance(domain, ast.FormattedValue) and (
                isinstance(domain.value, ast.Attribute) and domain.value.attr in DOMAINS
            )
            said = str(text.value) if isinstance(text, ast.Constant) else ""
            is_name = re.match(r"/\w", said) and not VERSION.match(said)
            if is_domain and is_name:
                yield f"{tree.name(path)}:{node.lineno}: {said}"


def test_names_are_written_in_one_module() -> None:
    assert [found for path in modules() for found in literals(path)] == []


def test_names_are_put_together_in_one_module() -> None:
    paths = [path for path in modules() if not is_of(path, MAKES)]
    assert [found for path in paths for found in made(path)] == []


def test_the_exceptions_are_needed() -> None:
    """A module that is excepted makes such names."""
    for module in MAKES:
        assert list(made(tree.ROOT / module)), module
