"""Whoever follows the README of a release has a running installation, whichever way is taken.

Every command of the page is run as it stands in the folder of the release, except those that its
comment leaves out: image builds and pulls. Only addresses differ, as for every chart here.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from deploy import release
from deploy.krew import pack
from tests.builders.queues import make_local_queue
from tests.controlplane import build, waiting
from tests.controlplane.rest import Json, RestError
from tests.controlplane.waiting import PATIENCE_SECONDS
from tests.deploy import helm
from tests.e2e import charted
from tests.e2e.charted import REGISTRY, Charted, is_gated
from tests.integration.installed import KUEUE
from tests.repo import tree

TEAM: Final = "research"
README: Final = tree.ROOT / "deploy" / "release.md"
WAYS: Final = ("With Helm", "With the command", "With manifests")
_BLOCK: Final = re.compile(
    r"^(?:<!-- (?P<comment>.+?) -->\n)?```sh\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


def blocks(section: str) -> Iterator[tuple[str, list[str]]]:
    """The comment before each block of a section, and its commands."""
    (_, text) = README.read_text().split(f"\n## {section}\n")
    text = text.partition("\n## ")[0]
    for block in _BLOCK.finditer(text):
        yield block["comment"] or "", block["text"].splitlines()


def test_the_page_has_no_other_sections_and_no_other_commands() -> None:
    text = README.read_text()
    assert tuple(re.findall(r"^## (.*)$", text, re.MULTILINE)) == ("Before", *WAYS, "After")
    followed = [command for part in ("Before", *WAYS, "After") for command in blocks(part)]
    assert sum(1 for _ in re.finditer("^```sh$", text, re.MULTILINE)) == len(followed)
    left_out = [commands for comment, commands in followed if comment.startswith("not run")]
    assert [command.split()[0] for commands in left_out for command in commands] == [
        "mkdir", "docker", "docker",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a release, without archives for krew."""
    if not (tree.ROOT / ".git").exists():
        pytest.skip("a release is built from what git has committed")
    out = tmp_path_factory.mktemp("release") / "out"
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(release, "changes", lambda: "")
        monkeypatch.setattr(pack, "PLATFORMS", {})
        release.build(out, "https://downloads.test/v1", "")
    return out


class Reader:
    """Somebody who types the commands of the page."""

    def __init__(self, folder: Path, home: Path, system: Charted, programs: list[Path]) -> None:
        self._folder = folder
        self._system = system
        self._shell = Path(shutil.which("sh") or "/bin/sh")
        programs_folder = home / "programs"
        programs_folder.mkdir(parents=True)
        for program in programs:
            (programs_folder / program.name).symlink_to(program)
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(system.cluster.admin_kubeconfig),
            "PATH": f"{home / 'bin'}:{programs_folder}:/usr/bin:/bin",
            "UV_CONSTRAINT": str(tree.ROOT / "requirements.lock"),
            "UV_PYTHON": sys.executable,
            "UV_TOOL_BIN_DIR": str(home / "bin"),
            "UV_TOOL_DIR": str(home / "tools"),
        }

    def follow(self, commands: list[str]) -> str:
        """Run commands one after the other; what the last one printed."""
        printed = ""
        for command in commands:
            text = command.replace("VERSION", pack.version().removeprefix("v"))
            text = text.replace("REGISTRY/gpu-admission", REGISTRY)
            done = subprocess.run(
                [str(self._shell), "-c", text],
                cwd=self._folder, env=self._environment, capture_output=True, text=True,
                stdin=subprocess.DEVNULL, timeout=PATIENCE_SECONDS, check=False,
            )  # fmt: skip
            assert done.returncode == 0, f"{text}: {done.stdout}{done.stderr}"
            self._move_addresses()
            printed = done.stdout
        return printed

    def _move_addresses(self) -> None:
        """Let the API server find the pods of this machine, once they have a Service."""
        try:
            self._system.move_addresses()
        except RestError as error:
            if error.status != 404:
                raise


@pytest.mark.controlplane
@pytest.mark.nightly
@pytest.mark.parametrize("way", WAYS)
def test_the_release_is_installed_by_its_readme(way: str, folder: Path, tmp_path: Path) -> None:
    programs = [build.folder() / "kubectl", Path(sys.executable).with_name("uv")]
    if way == "With Helm":
        programs.append(helm.program())
    with charted.charted() as system:
        system.cluster.add_gpu_node("gpu-0")
        admin = Reader(folder, tmp_path / "admin", system, programs)
        user = Reader(folder, tmp_path / "user", system, programs)
        printed = ""
        for section in ("Before", way, "After"):
            for comment, commands in blocks(section):
                if comment.startswith("not run"):
                    continue
                reader = user if comment == "users" else admin
                printed = reader.follow(commands)
        system.wait_leader()
        assert "gpu-0" in admin.follow(["kubectl get nodes"])
        assert printed.startswith("nvidia.com/gpu: 0 of 8 used")
        add_team(system)
        system.create_pod(TEAM, "first")
        assert system.wait_running(TEAM, "first")["spec"]["nodeName"] == "gpu-0"


def add_team(system: Charted) -> None:
    """Give a namespace the queue that `init` made for everybody, and wait for it."""
    system.api.post("/api/v1/namespaces", {"metadata": {"name": TEAM}})
    (queue,) = system.api.get(f"{KUEUE}/clusterqueues")["items"]
    path = f"{KUEUE}/namespaces/{TEAM}/localqueues"
    document = make_local_queue("default", queue["metadata"]["name"], TEAM)
    waiting.until(lambda: is_made(system, path, document), what="the LocalQueue is made")
    waiting.until(lambda: is_gated(system.try_pod(TEAM)), what="the webhook knows the queue")


def is_made(system: Charted, path: str, document: Json) -> bool:
    """Whether an object could be created, or was before."""
    try:
        system.api.post(path, document)
    except RestError as error:
        return error.status == 409
    return True
