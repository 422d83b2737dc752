"""Which tests are closest to a module: those of its name, those that import it, its package's.

Only tests that need no control plane are run, as thousands of runs must stay affordable.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from tests.mutants import running

_FURTHER: Final[Mapping[str, tuple[str, ...]]] = {"owners": ("controller",)}
"""Folders of tests, beside a package's own one, that run its code most."""

_SLOW: Final = frozenset({"bench", "parity", "properties", "simulation"})
"""Folders of tests that take minutes: what only they notice is not noticed soon enough."""

_PROGRAMS: Final = "subprocess"
"""Tests that start programs are left out: the programs do not have the change."""


@dataclass(frozen=True)
class Tests:
    """The test modules of a repository.

    Attributes:
        root: folder of the repository.
    """

    root: Path

    def stages(self, module: Path) -> tuple[tuple[str, ...], ...]:
        """Return the test files of a module, in stages: a mutant that passes one gets to the next.

        1. Those of its name, and those that import it themselves.
        2. All others of its package, and of the folders that run the package most.
        """
        package = module.relative_to(self.root).parts[1]
        near = {
            *self._of_name(module, package),
            *self._importers.get(running.module_name(module, self.root), ()),
        }
        folders = (package, *_FURTHER.get(package, ()))
        further = {path for folder in folders for path in self._files(folder)} - near
        stages = (near, further)
        return tuple(tuple(map(self._id, sorted(stage))) for stage in stages if stage)

    def _id(self, path: Path) -> str:
        return str(path.relative_to(self.root))

    def _files(self, folder: str) -> Iterator[Path]:
        tests = self.root / "tests"
        for path in (tests / folder).glob("**/test_*.py"):
            is_slow = path.relative_to(tests).parts[0] in _SLOW
            if not is_slow and _PROGRAMS not in imported(path.read_text()):
                yield path

    def _of_name(self, module: Path, package: str) -> Iterator[Path]:
        names = {f"test_{module.stem}", f"test_{module.stem}s", f"test_{module.stem}_laws"}
        yield from (path for path in self._files(package) if path.stem in names)

    @cached_property
    def _importers(self) -> Mapping[str, set[Path]]:
        """The test modules that import each module of the project, by its dotted name."""
        importers: dict[str, set[Path]] = {}
        for path in self._files(""):
            for name in imported(path.read_text()):
                importers.setdefault(name, set()).add(path)
        return importers


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
