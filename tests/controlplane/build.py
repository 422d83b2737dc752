"""Compiles what is missing of the control plane and prints the folder that holds it.

    KUBEBUILDER_ASSETS=$(python3 -m tests.controlplane.build)

Standard output carries the folder alone; progress goes to standard error. A folder named by
``KUBEBUILDER_ASSETS`` is taken as it is. Otherwise the programs live in
``${XDG_CACHE_HOME:-~/.cache}/gpu-admission/controlplane/<key>``, one folder per set of versions
and flags; several runs at once wait for each other.
"""

import argparse
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from admission.base.clock import SystemClock
from tests.controlplane import programs, toolchain

OVERRIDE: Final = "KUBEBUILDER_ASSETS"
_HEARTBEAT_SECONDS: Final = 20


class BuildError(Exception):
    """The control plane is not there and could not be made; the message says why."""


def cache_root() -> Path:
    """Folder of all compiled control planes and of the toolchain that compiled them."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gpu-admission" / "controlplane"


def folder() -> Path:
    """Where the programs are, or will be once they are built."""
    override = os.environ.get(OVERRIDE)
    return Path(override) if override else cache_root() / programs.key()


def missing(names: Sequence[str] | None = None) -> tuple[str, ...]:
    """The programs that `folder` lacks, of those named; of all without an argument."""
    wanted = [p.name for p in programs.PROGRAMS] if names is None else names
    return tuple(name for name in wanted if not os.access(folder() / name, os.X_OK))


def ensure(names: Sequence[str] | None = None) -> Path:
    """Compiles the programs that are missing and gives their folder.

    Raises:
        BuildError: a program does not compile, or the given folder lacks the API server or etcd.
    """
    if os.environ.get(OVERRIDE):
        return _checked_override()
    if missing(names):
        root = cache_root()
        root.mkdir(parents=True, exist_ok=True)
        with _lock(root / f"{programs.key()}.lock"):
            _compile_missing(names)
    return folder()


def _checked_override() -> Path:
    if lacking := missing(programs.REQUIRED):
        raise BuildError(f"{OVERRIDE}={folder()} holds no {', '.join(lacking)}; unset it to build")
    if lacking := missing():
        _say(f"{OVERRIDE}={folder()} holds no {', '.join(lacking)}: tests of these will fail")
    return folder()


def _compile_missing(names: Sequence[str] | None) -> None:
    todo = [p for p in programs.PROGRAMS if p.name in missing(names)]
    if not todo:
        return
    try:
        go = toolchain.find(programs.go_directive(), cache_root(), _say)
    except toolchain.ToolchainError as failure:
        raise BuildError(str(failure)) from failure
    folder().mkdir(parents=True, exist_ok=True)
    for position, program in enumerate(todo, start=1):
        _compile(go, program, f"[{position}/{len(todo)}] {program.name} {program.version}")


def _compile(go: Path, program: programs.Program, title: str) -> None:
    """Compiles one program under a temporary name, so that a file of its name is whole."""
    clock = SystemClock()
    partial = folder() / f".{program.name}.{os.getpid()}"
    flags = ["-o", str(partial), "-ldflags", program.linker_flags]
    _say(f"{title}: compiling")
    started = clock.monotonic()
    process = subprocess.Popen(
        [str(go), "build", *flags, program.package],
        cwd=program.folder,
        env={**os.environ, **programs.GO_ENVIRONMENT},
        stdout=sys.stderr,
    )
    try:
        while _still_runs(process):
            _say(f"{title}: {clock.monotonic() - started:.0f} s")
        if process.returncode:
            raise BuildError(f"{program.name}: go build failed; its output is above")
        partial.rename(folder() / program.name)
    finally:
        process.kill()
        process.wait()
        partial.unlink(missing_ok=True)
    _say(f"{title}: done after {clock.monotonic() - started:.0f} s")


def _still_runs(process: subprocess.Popen[bytes]) -> bool:
    """Waits for the end of the process, but no longer than one heartbeat."""
    try:
        process.wait(timeout=_HEARTBEAT_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Holds the file's lock; the kernel gives it back when the process ends, however it ends."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another run is compiling the control plane; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(line: str) -> None:
    print(f"controlplane: {line}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 with the folder on standard output, or 1 with the reason on standard error."""
    parser = argparse.ArgumentParser(
        prog="python3 -m tests.controlplane.build",
        description="Compiles the control plane that tests run and prints its folder.",
    )
    names = [program.name for program in programs.PROGRAMS]
    parser.add_argument("--only", action="append", choices=names, help="may be repeated")
    chosen = parser.parse_args(arguments).only
    try:
        path = ensure(chosen)
    except BuildError as failure:
        _say(str(failure))
        return 1
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
