"""The version before this one's work began, to be run from its own files."""

import io
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

COMMIT: Final = "ece3bc39fe862743724ed07fa898248a40f098e5"
_ROOT: Final = Path(__file__).parents[2]
_LOCK: Final = "requirements.lock"


@dataclass(frozen=True, slots=True)
class Older:
    """Where the older version lies.

    Attributes:
        folder: its files; a program that starts there runs it.
        python: has the packages that it needs.
    """

    folder: Path
    python: str

    @property
    def program(self) -> tuple[str, ...]:
        """The command line of the program, to be run in the folder."""
        return (self.python, "-m", "admission")


@contextmanager
def checked_out(commit: str = COMMIT) -> Iterator[Older]:
    """The files of a commit, inside the block, and a Python with the packages of its lock file.

    Raises:
        CalledProcessError: the history of the repository does not hold the commit.
    """
    with tempfile.TemporaryDirectory(prefix="gpu-admission-older-") as name:
        folder = Path(name)
        packed = subprocess.run(
            ["git", "archive", commit], cwd=_ROOT, capture_output=True, check=True
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        yield Older(folder, _python(folder))


def _python(folder: Path) -> str:
    """This Python where the older version needs the same packages, else one of its own."""
    if (folder / _LOCK).read_text() == (_ROOT / _LOCK).read_text():
        return sys.executable
    home = folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    python = str(home / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--require-hashes", "-r", str(folder / _LOCK)], check=True)
    return python
