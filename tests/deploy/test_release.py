"""What ``make release`` builds: equal bytes for equal commits, and everything accounted for."""

import hashlib
import io
import json
import re
import subprocess
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml

from deploy import release
from deploy.krew import pack
from tests.interop.modules import Module
from tests.repo import tree

URL = "https://downloads.test/v1"
SOURCE = "https://source.test/gpu-admission"
WORKFLOW = tree.ROOT / ".github" / "workflows" / "release.yaml"
ACTIONLINT = Module(
    path="github.com/rhysd/actionlint",
    version="v1.7.12",
    sum="h1:vQ4GeJN86C0QH+gTUQcs8McmK62OLT3kmakPMtEWYnY=",
)


def build(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The files of a release, with an archive of the plugin for nobody in place of four."""
    monkeypatch.setattr(release, "changes", lambda: "")
    monkeypatch.setattr(pack, "PLATFORMS", {})
    written = release.build(folder, URL, SOURCE)
    assert sorted(written) == sorted(folder.iterdir())
    return {path.name: path.read_bytes() for path in written}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    if not (tree.ROOT / ".git").exists():
        pytest.skip("a release is built from what git has committed")
    with pytest.MonkeyPatch.context() as monkeypatch:
        return build(tmp_path_factory.mktemp("release") / "out", monkeypatch)


def member(files: dict[str, bytes], archive: str, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(files[archive])) as tar:
        content = tar.extractfile(name)
        assert content is not None
        return content.read()


@pytest.mark.slow
def test_one_commit_gives_the_same_bytes_twice(
    files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build(tmp_path / "again", monkeypatch) == files


@pytest.mark.slow
def test_every_file_has_its_checksum_and_all_but_the_statement_are_subjects_of_it(
    files: dict[str, bytes],
) -> None:
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    del digests[release.SUMS]
    lines = [line.split("  ") for line in files[release.SUMS].decode().splitlines()]
    assert {name: digest for digest, name in lines} == digests
    statement = json.loads(files[release.PROVENANCE])
    del digests[release.PROVENANCE]
    subjects = {item["name"]: item["digest"]["sha256"] for item in statement["subject"]}
    assert subjects == digests
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    source = statement["predicate"]["buildDefinition"]["resolvedDependencies"][0]
    assert re.fullmatch("[0-9a-f]{40}", source["digest"]["gitCommit"])


@pytest.mark.slow
def test_the_readme_names_every_file_and_no_other(files: dict[str, bytes]) -> None:
    readme = files["README.md"].decode()
    named = set(re.findall(r"`([\w.*-]+\.(?:gz|tgz|yaml|whl|json|md))`", readme))
    named.remove("kubectl-gpu_v{}_*.tar.gz".format(pack.version().removeprefix("v")))
    assert named == files.keys() - {"README.md", release.SUMS}


@pytest.mark.slow
def test_the_chart_is_the_committed_one_with_its_source(files: dict[str, bytes]) -> None:
    version = pack.version().removeprefix("v")
    chart = yaml.safe_load(
        member(files, f"gpu-admission-{version}.tgz", "gpu-admission/Chart.yaml")
    )
    committed = yaml.safe_load((tree.ROOT / "deploy/chart/Chart.yaml").read_text())
    assert chart == committed | {"sources": [SOURCE]}
    assert chart["version"] == chart["appVersion"] == version


@pytest.mark.slow
def test_the_context_of_the_image_has_all_that_the_dockerfile_copies(
    files: dict[str, bytes],
) -> None:
    version = pack.version().removeprefix("v")
    with tarfile.open(fileobj=io.BytesIO(files[f"gpu-admission-image-{version}.tar.gz"])) as tar:
        names = tar.getnames()
    dockerfile = (tree.ROOT / "deploy/Dockerfile").read_text()
    for line in re.findall(r"^COPY (?!--from)(.*) \S+$", dockerfile, re.MULTILINE):
        for path in line.split():
            assert any(name == path or name.startswith(f"{path}/") for name in names), path
    assert f"org.opencontainers.image.version={version}" in dockerfile


@pytest.mark.slow
def test_the_list_of_packages_is_that_of_the_image(files: dict[str, bytes]) -> None:
    version = pack.version().removeprefix("v")
    document = json.loads(files[f"gpu-admission-{version}.cdx.json"])
    lock = (tree.ROOT / "deploy/requirements.lock").read_text()
    pins = set(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE))
    assert {item["name"] for item in document["components"]} == pins
    assert document["metadata"]["component"]["version"] == version


def test_the_changelog_has_a_section_of_the_version() -> None:
    project = tomllib.loads((tree.ROOT / "pyproject.toml").read_text())["project"]
    changelog = (tree.ROOT / "CHANGELOG.md").read_text()
    assert release.release_notes(changelog, project["version"])


@pytest.mark.parametrize("changelog", ["# Changelog\n", "## 1.0.0\n\n## 0.9.0\nold\n"])
def test_a_version_without_notes_is_refused(changelog: str) -> None:
    with pytest.raises(release.ReleaseError, match=r"no section for 1\.0\.0"):
        release.release_notes(changelog, "1.0.0")


def test_the_notes_end_where_the_next_version_begins() -> None:
    changelog = "## 1.0.0 - 2026-01-01\n### Added\n* new\n\n## 0.9.0\n* old\n"
    assert release.release_notes(changelog, "1.0.0") == "### Added\n* new\n"


def test_a_checkout_with_changes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "changes", lambda: " M admission/x.py")
    with pytest.raises(release.ReleaseError, match="commit or undo these changes first:"):
        release.build(tmp_path, URL)


def test_the_workflow_is_one_that_its_linter_takes() -> None:
    done = subprocess.run(
        [str(ACTIONLINT.program("./cmd/actionlint")), "-shellcheck=", "-pyflakes=", str(WORKFLOW)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")
