"""Which tests are closest to a module: those of its name, those that import it, its package's.

Only tests that need no control plane are run, as thousands of runs must stay affordable.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

_LEFT_OUT: Final = frozenset(
    {"bench", "e2e", "integration", "parity", "properties", "simulation", "upgrade"}
)
"""Folders of tests that take minutes: what only they notice is not noticed soon enough."""

_PROGRAMS: Final = "subprocess"
"""Tests that start programs are left out: the programs do not have the change."""


@dataclass(frozen=True)
class Closest:
    """The test modules of a repository.

    Attributes:
        root: folder of the repository.
    """

    root: Path

    def stages(self, module: Path) -> tuple[tuple[str, ...], ...]:
        """Return the test files of a module, in stages: a mutant that passes one gets to the next.

        1. Those of its name, and those that import it themselves.
        2. All others of its package.
        """
        package = module.relative_to(self.root).parts[1]
        name = module_name(module, self.root)
        importers = (path for path, names in self._imports.items() if name in names)
        near = {*self._of_name(module, package), *importers}
        further = {*self._files(package)} - near
        stages = (near, further)
        return tuple(tuple(map(self._id, sorted(stage))) for stage in stages if stage)

    def _id(self, path: Path) -> str:
        return str(path.relative_to(self.root))

    def _files(self, folder: str) -> Iterator[Path]:
        yield from (path for path in self._imports if path.is_relative_to(self._tests / folder))

    def _of_name(self, module: Path, package: str) -> Iterator[Path]:
        names = {f"test_{module.stem}", f"test_{module.stem}s", f"test_{module.stem}_laws"}
        yield from (path for path in self._files(package) if path.stem in names)

    @property
    def _tests(self) -> Path:
        return self.root / "tests"

    @cached_property
    def _imports(self) -> Mapping[Path, frozenset[str]]:
        """What each test module that is run imports, by its dotted name."""
        paths = sorted(self._tests.glob("**/test_*.py"))
        imports = {
            path: frozenset(imported(path.read_text()))
            for path in paths
            if path.relative_to(self._tests).parts[0] not in _LEFT_OUT
        }
        return {path: names for path, names in imports.items() if _PROGRAMS not in names}


def imported(source: str) -> set[str]:
    """Return the dotted names that a module imports, each name of a ``from`` import included."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def module_name(path: Path, root: Path) -> str:
    """Return the dotted name of a module of the repository."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
