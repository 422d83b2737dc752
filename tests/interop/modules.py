"""Compiles programs out of Go modules, each as its own module says.

A module is the main module of its build: its go.mod decides the versions of what it needs, its
go.sum their content, and ``sum`` its own content. Programs live beside the compiled control plane,
in ``${XDG_CACHE_HOME:-~/.cache}/gpu-admission/interop/<key>``; sources stay in Go's module cache.
"""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from admission.base.clock import SystemClock
from tests.controlplane import build, toolchain
from tests.controlplane.programs import GO_ENVIRONMENT

_NEEDED_GO: Final = (1, 26, 0)
"""The Go release that compiles the control plane; it is there already."""


class ModuleError(Exception):
    """A module cannot be had or compiled; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Module:
    """One version of a Go module.

    Attributes:
        path: its name.
        version: with the leading ``v``.
        sum: hash of its content, as in a go.sum.
        tags: build tags, joined by commas.
    """

    path: str
    version: str
    sum: str
    tags: str = ""

    @property
    def key(self) -> str:
        """Name of the folder with what is compiled of it: changes with version and flags."""
        recipe = [self.sum, GO_ENVIRONMENT, *([self.tags] if self.tags else [])]
        digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode())
        return f"{self.path.replace('/', '-')}-{self.version}-{digest.hexdigest()[:12]}"

    @cached_property
    def source(self) -> Path:
        """Its files in Go's module cache, downloaded if need be.

        Raises:
            ModuleError: it cannot be had, or is not what was pinned.
        """
        named = f"{self.path}@{self.version}"
        done = subprocess.run(
            [go(), "mod", "download", "-json", named],
            capture_output=True,
            text=True,
            env={**os.environ, **GO_ENVIRONMENT},
            check=False,
        )
        if done.returncode:
            said = json.loads(done.stdout).get("Error", "") if done.stdout else done.stderr
            raise ModuleError(f"{named}: {said.strip()}")
        found = json.loads(done.stdout)
        if found["Sum"] != self.sum:
            raise ModuleError(f"{named}: has the sum {found['Sum']}, and {self.sum} is pinned")
        return Path(found["Dir"])

    def program(self, package: str) -> Path:
        """Path of a program, which is compiled if it is not there.

        Args:
            package: its main package, from the top of the module: ``./cmd/operator``.

        Raises:
            ModuleError: it does not compile.
        """
        return self._compiled(self.place(package), package)

    def place(self, package: str) -> Path:
        """Where a program of a package is, or will be once it is compiled."""
        return self._folder() / (Path(package).name or Path(self.path).name)

    def _folder(self) -> Path:
        return build.cache_root().parent / "interop" / self.key

    def _compiled(self, path: Path, package: str) -> Path:
        """A program under its name, which is whole: it is compiled under another."""
        if os.access(path, os.X_OK):
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        title = f"{self.path} {package}"
        clock = SystemClock()
        started = clock.monotonic()
        say(f"{title} {self.version}: compiling")
        try:
            done = subprocess.run(
                [
                    *(go(), "build", "-o", str(partial), "-ldflags", "-s -w"),
                    *(("-tags", self.tags) if self.tags else ()),
                    package,
                ],
                cwd=self.source,
                env={**os.environ, **GO_ENVIRONMENT},
                stdout=sys.stderr,
                check=False,
            )
            if done.returncode:
                raise ModuleError(f"{title} {self.version}: go build failed; see above")
            partial.rename(path)
        finally:
            partial.unlink(missing_ok=True)
        say(f"{title} {self.version}: done after {clock.monotonic() - started:.0f} s")
        return path


def go() -> Path:
    """The Go toolchain that compiles the control plane, too.

    Raises:
        ModuleError: there is none.
    """
    try:
        return toolchain.find(_NEEDED_GO, build.cache_root(), lambda _: None)
    except toolchain.ToolchainError as failure:
        raise ModuleError(str(failure)) from failure


def say(line: str) -> None:
    """Tell of progress on standard error."""
    print(f"interop: {line}", file=sys.stderr, flush=True)
