"""The repository's own files, found without git."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CODE: Final = ("admission", "certs", "tests")
_SKIPPED: Final = {"build", "dist", "node_modules", "__pycache__"}


def files(folder: Path = ROOT) -> Iterator[Path]:
    """Every file that belongs to the repository; hidden folders other than .ci do not."""
    for path in sorted(folder.iterdir()):
        hidden = path.name.startswith(".") and path.name not in {".ci", ".gitignore"}
        if hidden or path.name in _SKIPPED or path.name.endswith(".egg-info"):
            continue
        if path.is_dir():
            yield from files(path)
        else:
            yield path


def modules(*packages: str) -> Iterator[Path]:
    """Every Python file of the packages; of all without an argument."""
    for package in packages or CODE:
        yield from (path for path in files(ROOT / package) if path.suffix == ".py")


def name(path: Path) -> str:
    """How a message calls a file."""
    return str(path.relative_to(ROOT))
