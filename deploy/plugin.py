"""The distribution ``kubectl-gpu``: the commands of ``kubectl gpu``, and what they import.

`build_wheel` builds it from files that it is given; `modules` says which are in it. It has the
version of the project and a part of its dependencies, without the package ``kubernetes``.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

import grimp

from admission.cli import kubectl

ROOT: Final = Path(__file__).resolve().parents[1]
NAME: Final = "kubectl-gpu"
PACKAGES: Final = ("admission", "certs")
REQUIREMENTS: Final = "deploy/krew/requirements.in"
"""What the wheel depends on; the archives for krew hold the pinned versions."""
DOCTOR: Final = ("cryptography", "prometheus-client", "pydantic", "rich", "structlog")
"""What only `kubectl gpu doctor` imports: an extra, as questions are asked more often."""
FILES: Final = ("pyproject.toml", "LICENSE", "deploy/plugin.md", REQUIREMENTS, *PACKAGES)
"""What the wheel is built from."""
_SCRIPTS: Final = {
    "kubectl-gpu": "admission.cli.kubectl:main",
    "kubectl_complete-gpu": "admission.cli.completion:main",
}


def modules() -> frozenset[str]:
    """Return the modules that the commands of the plugin can import, with their packages."""
    graph = grimp.build_graph(*PACKAGES)
    roots = [place.partition(":")[0] for place in _SCRIPTS.values()]
    roots += [command.place.partition(":")[0] for command in kubectl.plugin_commands()]
    reached: set[str] = set()
    while roots:
        module = roots.pop()
        if module not in reached:
            reached.add(module)
            roots += graph.find_modules_directly_imported_by(module)
            if "." in module:
                roots.append(module.rpartition(".")[0])
    return frozenset(reached)


def selected(paths: Iterable[str], reached: frozenset[str]) -> list[str]:
    """Return those files of `PACKAGES` that belong into the wheel, sorted.

    These are the modules, and the data of packages that they are in.
    """
    every = [path for path in map(PurePosixPath, paths) if path.parts[0] in PACKAGES]
    packages = {path.parent for path in every if path.name == "__init__.py"}
    return sorted(
        str(path)
        for path in every
        if _module(path if path.suffix == ".py" else _package(path, packages)) in reached
    )


def _package(path: PurePosixPath, packages: set[PurePosixPath]) -> PurePosixPath:
    return next(folder for folder in path.parents if folder in packages)


def _module(path: PurePosixPath) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _requirements(files: Mapping[str, bytes]) -> list[str]:
    lines = files[REQUIREMENTS].decode().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _project(files: Mapping[str, bytes]) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads(files["pyproject.toml"].decode())["project"]
    return project


def pyproject(files: Mapping[str, bytes]) -> str:
    """Return the ``pyproject.toml`` of the distribution, from that of the project."""
    project = _project(files)
    doctor = [line for line in project["dependencies"] if line.partition(">")[0] in DOCTOR]
    values = {
        "name": NAME,
        "version": project["version"],
        "description": "kubectl gpu: show GPU quota of a Kubernetes cluster, who waits and why",
        "readme": "README.md",
        "requires-python": project["requires-python"],
        "license": project["license"],
        "license-files": ["LICENSE"],
        "classifiers": project["classifiers"],
        "dependencies": _requirements(files),
    }
    return "\n".join(
        [
            "[build-system]",
            'requires = ["setuptools>=80,<90"]',
            'build-backend = "setuptools.build_meta"',
            "[project]",
            *(f"{name} = {_toml(value)}" for name, value in values.items()),
            "[project.optional-dependencies]",
            f"doctor = {_toml(doctor)}",
            "[project.scripts]",
            *(f"{name} = {_toml(place)}" for name, place in _SCRIPTS.items()),
            "[tool.setuptools.packages.find]",
            f"include = {_toml([f'{name}*' for name in PACKAGES])}",
            "[tool.setuptools.package-data]",
            '"*" = ["*", "*/*", "*/*/*"]',
            "",
        ]
    )


def _toml(value: str | list[str]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    assert not set(value) & set('"\\\n')
    return f'"{value}"'


def build_wheel(out: Path, files: Mapping[str, bytes], commit_seconds: int) -> Path:
    """Build the wheel from the content of `FILES` by path; return where it is.

    Args:
        out: folder that it is written to.
        files: what was committed, or what is in the checkout.
        commit_seconds: time of what it holds, in seconds since 1970.
    """
    with tempfile.TemporaryDirectory() as name:
        source = Path(name, "source")
        content = {path: files[path] for path in selected(files, modules())}
        content["pyproject.toml"] = pyproject(files).encode()
        content["README.md"], content["LICENSE"] = files["deploy/plugin.md"], files["LICENSE"]
        for path, text in content.items():
            target = source / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
        uv = Path(sys.executable).with_name("uv")
        subprocess.run(
            [
                str(uv), "build", "--quiet", "--wheel", "--no-build-isolation",
                "--python", sys.executable, "--out-dir", str(Path(name, "built")), str(source),
            ],
            check=True,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(commit_seconds)},
        )  # fmt: skip
        (wheel,) = Path(name, "built").glob("*.whl")
        return wheel.rename(out / wheel.name)
