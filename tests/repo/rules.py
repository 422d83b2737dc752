"""The rules that docs/reference/rules.md lists, and the ids that code and tests cite."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from tests.repo import tree

PAGE: Final = tree.ROOT / "docs" / "reference" / "rules.md"
KINDS: Final = (
    "ClusterQueue", "Cohort", "ResourceFlavor", "Workload", "Pod", "quota", "weight", "gate",
    "topology", "Taint", "Toleration",
)  # fmt: skip

_ROW: Final = re.compile(r"^\| `([^`]+)` \|(.*)$", re.MULTILINE)
_PATH: Final = re.compile(r"`((?:admission|tests|docs)/[\w/.]+)`")
_NUMBERED: Final = re.compile(rf"^({'|'.join(KINDS)}) (\d+)(?:-(\d+))?(?= |$)")
_IN_TEXT: Final = re.compile(
    rf"``?((?:{'|'.join(KINDS)}) \d+)``?(?: to ``?(?:{'|'.join(KINDS)}) (\d+)``?)?"
)
_SHORT: Final = re.compile(r"\b(T\d{1,2}|W\d)\b(?: to (?:T|W)(\d{1,2})\b)?")
_ROWS: Final = {"Rule", "Syntax", "rule_checks.Rule"}
_BYPASSES: Final = {"_sure", "_maybe", "_mistake", "make"}
_TESTS: Final = re.compile(r"^ *def (test_\w+)\(", re.MULTILINE)


def listed() -> set[str]:
    """Return the ids of all rules on the page."""
    return {id_ for id_, _ in _ROW.findall(PAGE.read_text())}


def numbers(kind: str) -> set[int]:
    """Return the numbers of the rules of one kind, such as ``ClusterQueue`` or ``req``."""
    found = (re.fullmatch(rf"{kind}[ _]?(\d+)", id_) for id_ in listed())
    return {int(match[1]) for match in found if match}


def places() -> Iterator[tuple[str, str]]:
    """Yield each path of the repository that a row names, with the id of the rule."""
    for id_, row in _ROW.findall(PAGE.read_text()):
        for path in _PATH.findall(row):
            yield id_, path


def paths() -> set[str]:
    """Return every path of the repository that the page names."""
    return set(_PATH.findall(PAGE.read_text()))


def cited(source: str) -> set[str]:
    """Return the ids that a Python file cites: in tables, findings, names of tests and text."""
    return {*_of_calls(source), *_of_test_names(source), *_of_text(source)}


def _of_calls(source: str) -> Iterator[str]:
    if not any(f"{name}(" in source for name in (*_ROWS, "Finding", "_sure")):
        return
    bypasses = _BYPASSES if "def _sure(" in source else set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        first = node.args[0] if node.args else None
        if name in _ROWS and isinstance(first, ast.Constant):
            match = _NUMBERED.match(str(first.value))
            if match:
                yield from _range(f"{match[1]} ", match[2], match[3])
        elif name in bypasses and isinstance(first, ast.Constant):
            yield str(first.value)
        elif name == "Finding":
            named = (one.value for one in node.keywords if one.arg == "rule")
            yield from (str(one.value) for one in named if isinstance(one, ast.Constant))


def _of_test_names(source: str) -> Iterator[str]:
    for name in _TESTS.findall(source):
        for number in re.findall(r"req_(\d\d)", name):
            yield f"req_{number}"
        if name.startswith("test_trap_"):
            for number in re.findall(r"(?<=_)(\d\d)(?=_)", name):
                yield f"T{int(number)}"


def _of_text(source: str) -> Iterator[str]:
    for id_, last in _IN_TEXT.findall(source):
        kind, first = id_.split()
        yield from _range(f"{kind} ", first, last)
    for id_, last in _SHORT.findall(source):
        yield from _range(id_[0], id_[1:], last)


def _range(prefix: str, first: str, last: str | None) -> Iterator[str]:
    for number in range(int(first), int(last or first) + 1):
        yield f"{prefix}{number}"
