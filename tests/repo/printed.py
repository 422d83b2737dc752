"""Commands in the texts of the product, as somebody would type them."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.repo import tree

MODULES: Final = [
    path for path in tree.files() if path.suffix == ".py" and "admission" in path.parts
]

_BEGIN: Final = re.compile(r"\b(?:kubectl|gpu-admission) ")
_WORD: Final = re.compile(r"""(?:'[^'\n]*'|"[^"\n]*"|[^\s'"`;|()])+""")
_OVER: Final = {"#", ">", "2>&1", "&&"}
_HOLES: Final = {
    "at": "", "where": "", "option": "", "settings.namespace": "default", "namespace": "default",
    "self._settings.namespace": "default", "picture.namespace": "default", "service[2]": "default",
    "plural": "pods", "kind": "clusterqueue", "kind.lower()": "clusterqueue", "patch": "{}",
    "deployments": "x", "label": "a", "queue": "x", "local": "x", "workload": "x", "name": "x",
}  # fmt: skip
"""What stands in place of what is filled in; a name that is not here is that of an object."""


def texts(path: Path) -> Iterator[str]:
    """Yield the texts of a module, without docstrings; what is filled in has a value."""
    module = ast.parse(path.read_text())
    inner = set[int]()
    for node in ast.walk(module):
        if isinstance(node, ast.Expr):
            inner |= {id(part) for part in ast.walk(node) if _is_docstring(node.value)}
    for node in ast.walk(module):
        if id(node) in inner:
            continue
        if isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in node.values}
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else _value(part, path)
                for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield _filled(node.value)


def _is_docstring(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _value(part: ast.expr, path: Path) -> str:
    """Return what is filled in: a constant of the product, or an example."""
    assert isinstance(part, ast.FormattedValue)
    source = ast.unparse(part.value)
    if source in _HOLES:
        return _HOLES[source]
    module = importlib.import_module(
        ".".join(path.relative_to(tree.ROOT).with_suffix("").parts).removesuffix(".__init__")
    )
    first, _, rest = source.partition(".")
    constant = getattr(module, first, None)
    for attribute in filter(None, rest.split(".")):
        constant = getattr(constant, attribute, None)
    return constant if isinstance(constant, str) else "x"


def _filled(text: str) -> str:
    """Return a text with what `str.format` fills in."""
    if not re.search(r"\{[a-z]+\}", text):
        return text
    filled = re.sub(r"\{([a-z]+)\}", lambda hole: _HOLES.get(hole[1], "x"), text)
    return filled.replace("{{", "{").replace("}}", "}")


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command in a text: up to what is no part of it."""
    for line in text.replace("\\\n", " ").splitlines():
        for begin in _BEGIN.finditer(line):
            words = _words(line[begin.start() :])
            if len(words) > 1:
                yield words


def _words(rest: str) -> list[str]:
    words: list[str] = []
    place = 0
    while (word := _WORD.match(rest, place)) and word[0] not in _OVER:
        kept = re.sub(r"[.,:]+$", "", word[0])
        words.append(kept)
        place = word.end()
        if kept != word[0] or rest[place : place + 1] != " ":
            break
        place = re.compile(" +").match(rest, place).end()  # type: ignore[union-attr]
    return words
