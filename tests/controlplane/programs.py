"""Which programs make a control plane, and how each is compiled.

Versions live in the go.mod of each source's folder. A source is one Go module of its own, because
Kubernetes, etcd and kwok agree on few versions of what they depend on.
"""

import hashlib
import json
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent

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
        text = (self.folder / "go.mod").read_text()
        match = re.search(rf"^(?:require)?\s+{re.escape(self.module)} (v\S+)", text, re.MULTILINE)
        if match is None:
            raise LookupError(f"{self.folder}/go.mod does not require {self.module}")
        return match[1]

    @property
    def linker_flags(self) -> str:
        """Strips symbols; Kubernetes also gets the version that its discovery shows."""
        if self.source != "kubernetes":
            return "-s -w"
        major, minor, _ = self.version.removeprefix("v").split(".", 2)
        package = "k8s.io/component-base/version"
        facts = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor}
        return " ".join(["-s -w", *(f"-X {package}.{k}={v}" for k, v in facts.items())])


def _kubernetes(name: str) -> Program:
    return Program(
        name=name,
        source="kubernetes",
        package=f"k8s.io/kubernetes/cmd/{name}",
        module="k8s.io/kubernetes",
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
    kubernetes = next(p.version for p in programs if p.source == "kubernetes")
    return f"{kubernetes}-{platform.system()}-{platform.machine()}-{digest.hexdigest()[:12]}"
