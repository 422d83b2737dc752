"""Figures of the code that may only get better: ``python -m tests.repo.ratchets [--record]``.

Each figure is the smaller the better. `RECORDED` holds what was reached; ``--record`` writes the
figures of today there. The exit code is 1 where a figure is worse.
"""

import argparse
import ast
import functools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.repo import tree

RECORDED: Final = Path(__file__).with_name("ratchets.json")
EMPTY: Final = frozenset(
    {
        "asked", "by", "found", "given", "held", "here", "known", "least", "made", "more", "most",
        "of", "one", "others", "own", "said", "there", "told", "wanted", "what", "which", "who",
    }
)  # fmt: skip
"""Names that do not say what they hold."""
DECIDING: Final = ("controller", "scheduling", "webhook")
"""Packages that read no text of this program."""
_OF_TEXTS: Final = frozenset(
    {"startswith", "endswith", "partition", "rpartition", "split", "find", "index", "removeprefix"}
)
_PATTERNS: Final = frozenset(
    {"compile", "match", "search", "fullmatch", "sub", "split", "findall"}
)


@functools.cache
def _modules() -> Mapping[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in tree.modules("admission")}


def _package(path: Path) -> str:
    return path.relative_to(tree.ROOT / "admission").parts[0]


# -------------------------------------------------------------------------------------- names


def _bound(module: ast.Module) -> Iterator[str]:
    """Yield the names of variables and arguments."""
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg) and node.arg not in {"self", "cls"}:
            yield node.arg


def empty_names() -> dict[str, float]:
    """Return the share of empty names among bound names in %, by package and in all."""
    bound: Counter[str] = Counter()
    empty: Counter[str] = Counter()
    for path, module in _modules().items():
        for name in _bound(module):
            for package in ("all", _package(path)):
                bound[package] += 1
                empty[package] += name in EMPTY
    return {
        f"empty names in {package}, %": round(100 * empty[package] / count, 1)
        for package, count in sorted(bound.items())
        if not package.endswith(".py")
    }


def classes_defined_twice() -> dict[str, float]:
    """Return how many names are those of several classes."""
    classes = Counter(
        node.name
        for module in _modules().values()
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
    )
    return {"names of several classes": sum(count > 1 for count in classes.values())}


# --------------------------------------------------------------------------------------- sizes


def _attributes(node: ast.ClassDef) -> int:
    """Return how many attributes the methods of a class set on ``self``."""
    targets = (
        inner
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store)
    )
    return len({one.attr for one in targets if getattr(one.value, "id", "") == "self"})


def largest_class() -> dict[str, float]:
    """Return the attributes of the class with the most of them."""
    nodes = (node for module in _modules().values() for node in ast.walk(module))
    most = max(_attributes(node) for node in nodes if isinstance(node, ast.ClassDef))
    return {"attributes of the largest class": most}


def _imported(module: ast.Module, known: frozenset[str]) -> frozenset[str]:
    """Return the modules of this program that a module imports."""
    found: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("admission"):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (names & known) or {str(node.module)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & known
    return frozenset(found)


def largest_module() -> dict[str, float]:
    """Return the modules that the module with the most imports imports."""
    known = frozenset(
        ".".join(path.relative_to(tree.ROOT).with_suffix("").parts) for path in _modules()
    )
    most = max(len(_imported(module, known)) for module in _modules().values())
    return {"modules that the largest module imports": most}


# --------------------------------------------------------------------------------------- texts


def _reads_text(node: ast.AST) -> bool:
    """Return whether a node looks into an English text: a pattern of words, or a message."""
    if isinstance(node, ast.Compare):
        sides = (node.left, *node.comparators)
        is_of_message = any(getattr(side, "attr", "") == "message" for side in sides)
        return is_of_message and any(
            isinstance(side, ast.Constant) and side.value for side in sides
        )
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr in _OF_TEXTS and getattr(node.func.value, "attr", "") == "message":
        return True
    is_pattern = node.func.attr in _PATTERNS and getattr(node.func.value, "id", "") == "re"
    return is_pattern and any(_is_english(argument) for argument in node.args)


def _is_english(node: ast.expr) -> bool:
    parts = (inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant))
    return any(isinstance(part, str) and " " in part.strip() for part in parts)


def texts_read() -> dict[str, float]:
    """Return how often packages that decide look into a text, and import what reads texts."""
    count = 0
    for path, module in _modules().items():
        if _package(path) in DECIDING:
            count += sum(_reads_text(node) for node in ast.walk(module))
            count += "admission.reasons.reading" in _imported(
                module, frozenset({"admission.reasons.reading"})
            )
    return {f"texts read in {', '.join(DECIDING)}": count}


FIGURES: Final[tuple[Callable[[], dict[str, float]], ...]] = (
    empty_names, classes_defined_twice, largest_class, largest_module, texts_read,
)  # fmt: skip


def figures() -> dict[str, float]:
    """Return all figures by name."""
    return {name: value for figure in FIGURES for name, value in figure().items()}


def recorded() -> dict[str, float]:
    """Return the figures that were reached."""
    reached: dict[str, float] = json.loads(RECORDED.read_text())
    return reached


def worse(today: Mapping[str, float], reached: Mapping[str, float]) -> list[str]:
    """Return the figures that are worse than what was reached, each as a line."""
    return [
        f"{name}: {value:g}, was {reached.get(name, 0):g}"
        for name, value in today.items()
        if value > reached.get(name, 0)
    ]


def main() -> int:
    """Print each figure; return 1 where one is worse than recorded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the figures of today")
    options, today = parser.parse_args(), figures()
    reached = recorded() if RECORDED.exists() else {}
    for name, value in today.items():
        print(f"{name}: {value:g} (recorded: {reached.get(name, 0):g})")
    if options.record:
        RECORDED.write_text(f"{json.dumps(today, indent=1)}\n")
        return 0
    return 1 if worse(today, reached) else 0


if __name__ == "__main__":
    raise SystemExit(main())
