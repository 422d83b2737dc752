"""Prints the test files that are closest to what changed: tier 0, ``make test-changed``.

These are test files that changed, and files without a control plane whose tests import a changed
module or carry its name.
"""

import argparse
import ast
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from tests import tiers

_TESTS: Final = "tests/"


def closest(changed: Collection[str], root: Path = tiers.ROOT) -> list[str]:
    """Return test files, sorted, as paths below ``root``.

    Args:
        changed: changed files, as paths below ``root``.
        root: the checkout.
    """
    modules = {path.removesuffix(".py").replace("/", ".") for path in changed}
    names = {f"test_{Path(path).name}" for path in changed if not path.startswith(_TESTS)}
    files = sorted((root / "tests").rglob("test_*.py"))
    return [
        path
        for path, file in ((file.relative_to(root).as_posix(), file) for file in files)
        if path in changed or file.name in names or modules & set(_imported(file))
    ]


def _imported(file: Path) -> Iterator[str]:
    """Modules that a file imports, and names in them, which may be modules."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the files; return 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.changed", description=__doc__)
    parser.add_argument("--base", default="HEAD", help="what counts as changed is all since it")
    base = parser.parse_args(arguments).base
    new = _git("ls-files", "--others", "--exclude-standard")
    print(*closest(new | _git("diff", "--name-only", base)), sep="\n")
    return 0


def _git(*arguments: str) -> set[str]:
    done = subprocess.run(
        ["git", *arguments], cwd=tiers.ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines())


if __name__ == "__main__":
    sys.exit(main())
