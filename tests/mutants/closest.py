"""Which tests are closest to a module: those of its name, those that import it, its package's.

Only tests that need no control plane are run, as thousands of runs must stay affordable.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_FOLDERS: Final[Mapping[str, tuple[str, ...]]] = {"owners": ("owners", "controller")}
"""Folders with the tests of a package, where it is not the one of its name alone."""

_PROGRAMS: Final = "subprocess"
"""Tests that start programs are left out: the programs do not have the change."""


@dataclass(frozen=True)
class Closest:
    """The test modules of a repository.

    Attributes:
        root: folder of the repository.
    """

    root: Path
    _read: dict[str, Mapping[Path, frozenset[str]]] = field(default_factory=dict)

    def stages(self, module: Path) -> tuple[tuple[str, ...], ...]:
        """Return the test files of a module, in stages: a mutant that passes one gets to the next.

        1. Those of its name, and those of its package that import it themselves.
        2. All others of its package.
        """
        package = module.relative_to(self.root).parts[1]
        imports = self._imports(package)
        names = {f"test_{module.stem}", f"test_{module.stem}s", f"test_{module.stem}_laws"}
        name = module_name(module, self.root)
        near = {path for path in imports if path.stem in names or name in imports[path]}
        stages = (near, imports.keys() - near)
        return tuple(tuple(map(self._id, sorted(stage))) for stage in stages if stage)

    def _id(self, path: Path) -> str:
        return str(path.relative_to(self.root))

    def _imports(self, package: str) -> Mapping[Path, frozenset[str]]:
        """Return what each test module of a package imports, by its dotted name."""
        if package not in self._read:
            folders = (self.root / "tests" / one for one in _FOLDERS.get(package, (package,)))
            paths = (path for folder in folders for path in folder.glob("**/test_*.py"))
            found = {path: frozenset(imported(path.read_text())) for path in paths}
            self._read[package] = {
                path: names for path, names in found.items() if _PROGRAMS not in names
            }
        return self._read[package]


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
