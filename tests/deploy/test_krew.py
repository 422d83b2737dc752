"""What ``make krew`` packs: a manifest that krew accepts, and an archive that runs by itself."""

import os
import platform
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

from deploy.krew import pack
from tests.controlplane.waiting import PATIENCE_SECONDS
from tests.repo import tree

HOST = (
    platform.system().lower(),
    {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
)
TAG = f"{sys.version_info[0]}.{sys.version_info[1]}"


def problems(document: Any) -> list[str]:
    """What krew would not take.

    Source: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest and
    krew's internal/index/validation/validate.go.
    """
    spec = document["spec"]
    found = [
        name
        for name, holds in {
            "apiVersion": document["apiVersion"]
            == "krew.googlecontainertools.github.com/v1alpha2",
            "kind": document["kind"] == "Plugin",
            "name": document["metadata"] == {"name": "gpu"},
            "version": re.fullmatch(r"v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", spec["version"]),
            "shortDescription": 0 < len(spec["shortDescription"]) <= 50
            and "\n" not in spec["shortDescription"],
            "platforms": spec["platforms"],
        }.items()
        if not holds
    ]
    for one in spec["platforms"]:
        if set(one) != {"selector", "uri", "sha256", "bin"}:
            found.append(f"members {sorted(one)}")
        if set(one["selector"]) != {"matchLabels"}:
            found.append("selector")
        if set(one["selector"]["matchLabels"]) != {"os", "arch"}:
            found.append("matchLabels")
        if not re.fullmatch("[a-f0-9]{64}", one["sha256"]):
            found.append("sha256")
        if not re.fullmatch(r"https://\S+\.(tar\.gz|zip)", one["uri"]):
            found.append("uri")
    return found


def test_the_manifest_is_one_that_krew_takes(tmp_path: Path) -> None:
    archives = {}
    for number, one in enumerate(pack.PLATFORMS):
        path = tmp_path / f"kubectl-gpu_v0.1.0_{'_'.join(one)}.tar.gz"
        path.write_bytes(bytes([number]))
        archives[one] = path
    document = pack.manifest(archives, "https://downloads.test/v0.1.0/", "v0.1.0")
    assert problems(document) == []
    platforms = document["spec"]["platforms"]
    assert len({one["sha256"] for one in platforms}) == len(pack.PLATFORMS)
    linux = next(
        one
        for one in platforms
        if one["selector"]["matchLabels"] == {"os": "linux", "arch": "amd64"}
    )
    assert linux["uri"] == ("https://downloads.test/v0.1.0/kubectl-gpu_v0.1.0_linux_amd64.tar.gz")
    assert linux["sha256"] == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"


def test_the_template_alone_is_not_taken_for_a_manifest() -> None:
    assert problems(pack.manifest({}, "https://downloads.test", "v0.1.0")) == ["platforms"]


def test_what_is_packed_is_a_part_of_what_the_project_depends_on() -> None:
    project = tomllib.loads((tree.ROOT / "pyproject.toml").read_text())["project"]
    lines = (pack.HERE / "requirements.in").read_text().splitlines()
    wanted = {line for line in lines if not line.startswith("#")}
    assert wanted <= set(project["dependencies"])
    assert len(wanted) > 3


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive for this machine and this Python, as krew unpacks it."""
    folder = tmp_path_factory.mktemp("krew")
    wheel = pack.build_wheel(folder)
    target = folder / "plugin.tar.gz"
    pack.archive(target, wheel, HOST, [TAG])
    store = folder / "store"
    with tarfile.open(target) as tar:
        tar.extractall(store, filter="data")
    return store


def path_with_python(folder: Path) -> str:
    """A PATH with this Python outside of its virtual environment, and no other."""
    folder.mkdir()
    base = Path(sys.base_prefix) / "bin" / f"python{TAG}"
    (folder / f"python{TAG}").symlink_to(base)
    for name in ("dirname", "readlink"):
        (folder / name).symlink_to(Path("/usr/bin") / name)
    return str(folder)


@pytest.mark.slow
def test_the_plugin_runs_from_a_link_with_nothing_but_python(
    unpacked: Path, tmp_path: Path
) -> None:
    link = tmp_path / "kubectl-gpu"
    link.symlink_to(os.path.relpath(unpacked / "kubectl-gpu", tmp_path))
    environment = {"PATH": path_with_python(tmp_path / "bin"), "PYTHONPATH": "/nowhere"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", str(link), *arguments],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
            timeout=PATIENCE_SECONDS,
        )  # fmt: skip

    told = run("--help")
    assert (told.returncode, told.stderr) == (0, "")
    assert "Usage: kubectl gpu" in told.stdout
    assert run("--version").stdout == f"kubectl gpu, version {pack.version()[1:]}\n"
    (tmp_path / "kubeconfig").write_text("users: []")
    asked = run("top", "--kubeconfig", "kubeconfig")
    assert asked.returncode == 1
    assert "error: no access to an API server from kubeconfig: it names no context" in asked.stderr


@pytest.mark.slow
def test_without_a_python_it_knows_the_plugin_says_which_it_needs(
    unpacked: Path, tmp_path: Path
) -> None:
    (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
    done = subprocess.run(
        ["/bin/sh", str(unpacked / "kubectl-gpu"), "--help"],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
        timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == (f"error: kubectl gpu needs one of these on the PATH:\n  Python {TAG}\n")
