"""How long modules and functions may be; ruff has no rule for either."""

import ast
import statistics
from collections.abc import Iterator

from tests.repo import tree

LONGEST_MODULE = 700
LONGEST_FUNCTION = 60
MEDIAN_MODULE = 200
MEDIAN_FUNCTION = 10


def functions(*packages: str) -> Iterator[tuple[str, int]]:
    """Name and number of lines of every function, its docstring and decorators left out."""
    for path in tree.modules(*packages):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{tree.name(path)}:{node.lineno} {node.name}", length(node)


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def lines_of_modules(*packages: str) -> dict[str, int]:
    return {tree.name(p): len(p.read_text().splitlines()) for p in tree.modules(*packages)}


def test_no_module_is_longer_than_700_lines():
    found = lines_of_modules()
    assert {n: lines for n, lines in found.items() if lines > LONGEST_MODULE} == {}


def test_no_function_is_longer_than_60_lines():
    assert [(n, lines) for n, lines in functions() if lines > LONGEST_FUNCTION] == []


def test_most_modules_are_short():
    lines = [n for n in lines_of_modules("admission", "certs").values() if n > 5]
    assert statistics.median(lines) <= MEDIAN_MODULE


def test_most_functions_are_short():
    assert statistics.median(n for _, n in functions("admission", "certs")) <= MEDIAN_FUNCTION


def test_a_docstring_does_not_count():
    source = 'def f():\n    """One.\n\n    Two.\n    """\n    return 1\n'
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert length(function) == 2
