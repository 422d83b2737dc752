"""The Makefile explains itself, and documents name only targets that it has."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.repo import tree

MAKEFILE = (tree.ROOT / "Makefile").read_text()
DEMANDED = {"bench", "controlplane", "crds", "demo", "image", "lint"} | {
    *("test", "test-again", "test-changed", "test-fast", "test-nightly"),
}
DOCUMENTS = [path for path in tree.files() if path.suffix == ".md"]


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))


def commands(document: Path) -> set[str]:
    """The targets of all ``make`` commands in a document's code."""
    text = document.read_text()
    code = [*re.findall(r"```.*?```", text, re.DOTALL), *re.findall(r"`[^`\n]+`", text)]
    found = re.findall(r"\bmake ((?:-[a-zA-Z]+ |[A-Z]+=\S+ )*)([a-z-]+)", "\n".join(code))
    return {target for _, target in found}


def test_the_targets_of_the_project_are_there():
    assert targets() >= DEMANDED


def test_every_target_is_phony_and_has_a_line_of_help():
    explained = set(re.findall(r"^([a-z-]+):.*## \S", MAKEFILE, re.MULTILINE))
    phony = re.search(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    assert explained == targets() == set(phony[1].split())


def test_make_alone_shows_every_target():
    shown = subprocess.run(
        ["make", "-s"],
        cwd=tree.ROOT,
        env=without_make(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert set(re.findall(r"^  make ([a-z-]+) +\S", shown, re.MULTILINE)) == targets()


@pytest.mark.parametrize("document", DOCUMENTS, ids=tree.name)
def test_a_document_names_only_targets_that_exist(document):
    assert commands(document) - targets() == set()


DOCKER = """#!/bin/sh
echo "$@" >> {log}
echo sha256:1111
"""


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("", "python:3.11.14-slim-bookworm@sha256:1111"),
        (
            "BASE_IMAGE=mirror.test/python@sha256:2222",
            "mirror.test/python@sha256:2222",
        ),
    ],
)
def test_one_command_builds_the_image_from_a_digest(tmp_path, base, expected):
    docker, log = tmp_path / "docker", tmp_path / "log"
    docker.write_text(DOCKER.format(log=log))
    docker.chmod(0o755)
    image = "registry.example.com/gpu-admission:7"
    done = subprocess.run(
        ["make", "-s", "image", f"DOCKER={docker}", f"IMAGE={image}", *filter(None, [base])],
        cwd=tree.ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    typed = log.read_text().splitlines()[-1]
    assert typed == f"build -f deploy/Dockerfile -t {image} --build-arg BASE={expected} ."
    assert f"gpu-admission install --image {image}" in done.stdout


def test_the_demo_needs_the_packages_of_the_program_only(tmp_path):
    """Whoever looks for five minutes does not wait for the tools of developers."""
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        (tmp_path / name).write_text((tree.ROOT / name).read_text())
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy/requirements.lock").write_text("")
    ran = subprocess.run(
        ["make", "-n", "demo", "ARGS=--keep"],
        cwd=tmp_path, env=without_make(), capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "-r deploy/requirements.lock" in ran
    assert "-r requirements.lock" not in ran
    assert "-m admission demo --keep" in ran


def without_make() -> dict[str, str]:
    """The environment without what a make above leaves in it."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}


def test_the_demo_is_on_the_readmes_first_screen():
    first_screen = "\n".join((tree.ROOT / "README.md").read_text().splitlines()[:40])
    assert "make demo" in first_screen


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_whoever_changes_the_program_is_told_how_to_run_the_tests(name):
    assert "test" in commands(tree.ROOT / name)


def test_the_check_of_a_commit_runs_lint_and_test():
    script = (tree.ROOT / ".ci" / "run").read_text()
    assert re.findall(r"^step (.+)$", script, re.MULTILINE) == [
        "make lint",
        "make test || step make test-again",
    ]
    assert os.access(tree.ROOT / ".ci" / "run", os.X_OK)
