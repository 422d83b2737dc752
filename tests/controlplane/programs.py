"""Which programs make a control plane, and how each is compiled.

Versions live in the go.mod of each source's folder. A source is one Go module of its own, because
Kubernetes, etcd and kwok agree on few versions of what they depend on. Kubernetes has a folder for
each minor version; the environment variable ``KUBERNETES`` chooses one, such as ``1.34``.
"""

import hashlib
import json
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
VERSION: Final = "KUBERNETES"
"""Variable of the environment with the minor version to compile and run."""
_KUBERNETES: Final = "kubernetes"
_KUBERNETES_MODULE: Final = "k8s.io/kubernetes"

GO_ENVIRONMENT: Final = {
    "CGO_ENABLED": "0",
    "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false",
    "GOTOOLCHAIN": "local",
    "GOWORK": "off",
}
"""What decides how a program is compiled; everything else comes from the caller's environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One binary.

    Attributes:
        name: file name of the binary.
        source: folder beside this file that holds go.mod and go.sum.
        package: Go package of its main function.
        module: Go module whose version is the program's.
    """

    name: str
    source: str
    package: str
    module: str

    @property
    def folder(self) -> Path:
        """The folder with the program's go.mod."""
        return HERE / self.source

    @property
    def version(self) -> str:
        """The version that go.mod requires, with its leading ``v``."""
        return _required(self.folder, self.module)

    @property
    def linker_flags(self) -> str:
        """Strips symbols; Kubernetes also gets the version that its discovery shows."""
        if self.module != _KUBERNETES_MODULE:
            return "-s -w"
        major, minor, _ = self.version.removeprefix("v").split(".", 2)
        package = "k8s.io/component-base/version"
        facts = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor}
        return " ".join(["-s -w", *(f"-X {package}.{k}={v}" for k, v in facts.items())])


def _required(folder: Path, module: str) -> str:
    """Return the version of a module that the go.mod of a folder requires."""
    text = (folder / "go.mod").read_text()
    match = re.search(rf"^(?:require)?\s+{re.escape(module)} (v\S+)", text, re.MULTILINE)
    if match is None:
        raise LookupError(f"{folder}/go.mod does not require {module}")
    return match[1]


def versions() -> dict[str, str]:
    """Return the versions of Kubernetes that can be compiled, by minor version, sorted."""
    every = [_required(path, _KUBERNETES_MODULE) for path in HERE.glob(f"{_KUBERNETES}*/")]
    return {_minor(version): version for version in sorted(every)}


def _minor(version: str) -> str:
    return version.removeprefix("v").rpartition(".")[0]


def minor() -> tuple[int, int]:
    """Return the minor version of Kubernetes that the environment chooses, such as (1, 36)."""
    source = HERE / kubernetes_source()
    major, chosen = _minor(_required(source, _KUBERNETES_MODULE)).split(".")
    return int(major), int(chosen)


def kubernetes_source() -> str:
    """Return the folder of the Kubernetes that the environment chooses; the default one if none.

    Raises:
        LookupError: there is no folder of that version.
    """
    chosen = os.environ.get(VERSION, "")
    if not chosen or chosen == _minor(_required(HERE / _KUBERNETES, _KUBERNETES_MODULE)):
        return _KUBERNETES
    if chosen not in versions():
        raise LookupError(f"{VERSION}={chosen}: it is one of {', '.join(versions())}")
    return f"{_KUBERNETES}-{chosen}"


def _kubernetes(name: str) -> Program:
    return Program(
        name=name,
        source=kubernetes_source(),
        package=f"{_KUBERNETES_MODULE}/cmd/{name}",
        module=_KUBERNETES_MODULE,
    )


PROGRAMS: Final = (
    Program(
        name="etcd",
        source="etcd",
        package="go.etcd.io/etcd/server/v3",
        module="go.etcd.io/etcd/server/v3",
    ),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubectl"),
    Program(
        name="kwok",
        source="kwok",
        package="sigs.k8s.io/kwok/cmd/kwok",
        module="sigs.k8s.io/kwok",
    ),
)
"""In the order in which they are compiled: an API server comes first."""

REQUIRED: Final = ("etcd", "kube-apiserver")
"""What a folder must hold to be a control plane at all."""


def go_directive() -> tuple[int, ...]:
    """The oldest Go release that can compile every source, as (1, 26, 0)."""
    needs = []
    for source in sorted({program.source for program in PROGRAMS}):
        match = re.search(r"^go (\S+)$", (HERE / source / "go.mod").read_text(), re.MULTILINE)
        if match is None:
            raise LookupError(f"{HERE / source}/go.mod has no go line")
        needs.append(tuple(int(part) for part in match[1].split(".")))
    return max(needs)


def key(programs: Sequence[Program] = PROGRAMS) -> str:
    """Name of the cache folder: changes with any version, flag, or kind of machine."""
    digest = hashlib.sha256()
    recipe = [(p.name, p.package, p.linker_flags) for p in programs]
    digest.update(json.dumps([recipe, GO_ENVIRONMENT], sort_keys=True).encode())
    for source in sorted({program.source for program in programs}):
        for name in ("go.mod", "go.sum"):
            digest.update((HERE / source / name).read_bytes())
    kubernetes = next(p.version for p in programs if p.module == _KUBERNETES_MODULE)
    return f"{kubernetes}-{platform.system()}-{platform.machine()}-{digest.hexdigest()[:12]}"
