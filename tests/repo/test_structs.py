"""Structs are read in a way that threads may share, see `admission.base.structs`."""

import ast
from collections.abc import Iterator

from tests.repo import tree

HOME = "admission/base/structs.py"


def calls(node: ast.AST, *functions: str) -> Iterator[ast.Call]:
    """Calls of the functions anywhere below a node."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and ast.unparse(inner.func) in functions:
            yield inner


def learning(source: str) -> Iterator[int]:
    """Lines that let msgspec learn a type without the lock."""
    module = ast.parse(source)
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "msgspec.convert":
            yield node.lineno
    yield from (call.lineno for call in calls(module, "msgspec.json.Decoder"))
    for call in calls(module, "msgspec.json.decode"):
        if len(call.args) > 1 or call.keywords:
            yield call.lineno


def test_types_are_learnt_in_one_place_only():
    found = [
        f"{tree.name(path)}:{line}"
        for path in tree.modules("admission")
        if tree.name(path) != HOME
        for line in learning(path.read_text())
    ]
    assert found == []


def test_every_way_of_learning_a_type_is_found():
    source = """
import msgspec
A = msgspec.json.Decoder(int)
def f(x):
    msgspec.json.decode(x)
    msgspec.json.decode(x, type=int)
    msgspec.json.Decoder(int)
    return msgspec.convert(x, int)
"""
    assert sorted(learning(source)) == [3, 6, 7, 8]
