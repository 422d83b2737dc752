"""``make release``: everything of a version that people download, in one folder.

    make release RELEASE_URL=https://downloads.example.com/v0.2.0 RELEASE_SOURCE=https://...

writes ``build/release``: wheel and sdist, the chart, the context of the image, the archives of
``kubectl gpu`` with the manifest for krew, manifests for ``kubectl apply``, the list of packages
(SBOM), release notes, a provenance statement and checksums. Two runs of one commit give the same
bytes: names are sorted, and times are that of the commit.

It builds from what git has committed, and refuses a checkout with changes. It signs and pushes
nothing; ``.github/workflows/release.yaml`` does, with the identity of the forge.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from deploy import plugin, sbom
from deploy.krew import pack

ROOT: Final = Path(__file__).resolve().parents[1]
SUMS: Final = "SHA256SUMS"
PROVENANCE: Final = "provenance.intoto.json"
BUILD_TYPE: Final = "https://gpu-admission.dev/release/v1"
LOCKS: Final = (
    "requirements.lock",
    "deploy/requirements.lock",
    "deploy/build.lock",
    "deploy/krew/requirements.lock",
)
"""What pins by hash everything that goes into a release."""
_DISTRIBUTED: Final = ("pyproject.toml", "README.md", "LICENSE", "admission", "certs")
"""What wheel and sdist are built from."""
_CONTEXT: Final = (
    *_DISTRIBUTED, "deploy/Dockerfile", "deploy/sbom.py", "deploy/requirements.lock",
    "deploy/build.lock",
)  # fmt: skip
"""What `deploy/Dockerfile` copies, and itself."""


class ReleaseError(Exception):
    """A release cannot be built; the text says why and what to do."""


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def committed(*paths: str) -> dict[str, bytes]:
    """Return the content of committed files by path, relative to the root of the repository."""
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--format=tar", "HEAD", "--", *paths],
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    return _members(archive)


def _members(archive: bytes) -> dict[str, bytes]:
    """Return the content of the files of an archive by name."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {
            member.name: content.read()
            for member in tar.getmembers()
            if member.isfile() and (content := tar.extractfile(member)) is not None
        }


def changes() -> str:
    """Return what differs from the commit that is checked out; empty if nothing does."""
    return _git("status", "--porcelain", "--untracked-files=no").rstrip()


def write_archive(target: Path, files: Mapping[str, bytes], commit_seconds: int) -> None:
    """Write files as ``.tar.gz`` whose bytes depend on names, content and time of commit only."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=commit_seconds) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), commit_seconds, 0o644
            tar.addfile(entry, io.BytesIO(content))


def build_distributions(out: Path, commit_seconds: int) -> list[Path]:
    """Build wheel and sdist from what is committed; return their paths."""
    with tempfile.TemporaryDirectory() as name:
        source, built = Path(name, "source"), Path(name, "built")
        for path, content in committed(*_DISTRIBUTED).items():
            target = source / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        uv = Path(sys.executable).with_name("uv")
        subprocess.run(
            [
                str(uv), "build", "--quiet", "--no-build-isolation", "--python", sys.executable,
                "--out-dir", str(built), str(source),
            ],
            check=True,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(commit_seconds)},
        )  # fmt: skip
        (wheel,) = built.glob("*.whl")
        (sdist,) = built.glob("*.tar.gz")
        shutil.copy(wheel, out / wheel.name)
        # setuptools writes the times of the build into the sdist.
        write_archive(out / sdist.name, _members(sdist.read_bytes()), commit_seconds)
    return [out / wheel.name, out / sdist.name]


def build_plugin(out: Path, commit_seconds: int) -> Path:
    """Build the wheel of ``kubectl gpu`` from what is committed."""
    return plugin.build_wheel(out, committed(*plugin.FILES), commit_seconds)


def build_chart(out: Path, version: str, commit_seconds: int, source: str) -> Path:
    """Pack ``deploy/chart`` as ``helm package`` does, with the address of its source if given."""
    files = {
        f"gpu-admission/{path.removeprefix('deploy/chart/')}": content
        for path, content in committed("deploy/chart").items()
    }
    if source:
        files["gpu-admission/Chart.yaml"] += f"sources:\n- {source}\n".encode()
    target = out / f"gpu-admission-{version}.tgz"
    write_archive(target, files, commit_seconds)
    return target


def build_context(out: Path, version: str, commit_seconds: int) -> Path:
    """Pack what ``docker build`` needs."""
    target = out / f"gpu-admission-image-{version}.tar.gz"
    write_archive(target, committed(*_CONTEXT), commit_seconds)
    return target


def build_manifests(out: Path, version: str) -> Path:
    """Write the manifests of ``deploy/base`` as one file for ``kubectl apply``."""
    files = committed("deploy/base")
    order = _resources(files["deploy/base/kustomization.yaml"].decode())
    target = out / f"gpu-admission-{version}.yaml"
    parts = [files[f"deploy/base/{name}"].decode().strip() for name in order]
    target.write_text("\n---\n".join(parts) + "\n", "utf-8")
    return target


def _resources(kustomization: str) -> list[str]:
    return list(yaml.safe_load(kustomization)["resources"])


def build_sbom(out: Path, version: str, wheel: Path) -> Path:
    """List the Python packages of the image (CycloneDX), from its lock and the wheel."""
    with tempfile.TemporaryDirectory() as name:
        uv = Path(sys.executable).with_name("uv")
        install = [str(uv), "pip", "install", "--quiet", "--target", name, "--no-deps"]
        lock = str(ROOT / "deploy" / "requirements.lock")
        subprocess.run([*install, "--require-hashes", "-r", lock], check=True)
        subprocess.run([*install, str(wheel)], check=True)
        target = out / f"gpu-admission-{version}.cdx.json"
        document = sbom.document(folders=[name])
        target.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    return target


def build_krew(out: Path, wheel: Path, url: str) -> list[Path]:
    """Write the archives of ``kubectl gpu`` and the manifest that names them.

    Args:
        out: folder that they are written to.
        wheel: that of the plugin.
        url: where they can be downloaded.
    """
    archives = {}
    for platform in pack.PLATFORMS:
        path = out / f"{pack.LAUNCHER}_{pack.version()}_{'_'.join(platform)}.tar.gz"
        pack.archive(path, wheel, platform)
        archives[platform] = path
    manifest = out / "gpu.yaml"
    document = pack.manifest(archives, url, pack.version())
    manifest.write_text(yaml.safe_dump(document, sort_keys=False), "utf-8")
    return [*archives.values(), manifest]


def release_notes(changelog: str, version: str) -> str:
    """Return the section of a version in the changelog, without its heading.

    Raises:
        ReleaseError: the changelog has no section of that version, or an empty one.
    """
    section = re.search(
        rf"^## {re.escape(version)}\b[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    if section is None or not section[1].strip():
        raise ReleaseError(
            f"CHANGELOG.md has no section for {version}: rename Unreleased to it, with the date"
        )
    return section[1].strip() + "\n"


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def provenance(artifacts: Iterable[Path], url: str, commit: str) -> dict[str, Any]:
    """Return the statement of how artefacts were built (in-toto v1 with SLSA provenance v1).

    It is not signed: the forge signs it and names its builder.
    """
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": path.name, "digest": {"sha256": digest(path)}} for path in sorted(artifacts)
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"command": f"make release RELEASE_URL={url}"},
                "internalParameters": {"python": "{}.{}".format(*sys.version_info[:2])},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": commit}},
                    *({"name": lock, "digest": {"sha256": digest(ROOT / lock)}} for lock in LOCKS),
                ],
            },
            "runDetails": {"builder": {"id": f"{BUILD_TYPE}/local"}},
        },
    }


def build(out: Path, url: str, source: str = "") -> list[Path]:
    """Build a release into a folder, which is emptied first; return what was written.

    Raises:
        ReleaseError: the checkout has changes, or the changelog has no section of the version.
    """
    if changed := changes():
        raise ReleaseError(f"commit or undo these changes first:\n{changed}")
    version = pack.version().removeprefix("v")
    notes = release_notes((ROOT / "CHANGELOG.md").read_text("utf-8"), version)
    commit = _git("rev-parse", "HEAD").strip()
    commit_seconds = int(_git("log", "-1", "--format=%ct").strip())
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "NOTES.md").write_text(notes, "utf-8")
    readme = (ROOT / "deploy" / "release.md").read_text("utf-8")
    (out / "README.md").write_text(readme.replace("VERSION", version), "utf-8")
    wheel, sdist = build_distributions(out, commit_seconds)
    plugin_wheel = build_plugin(out, commit_seconds)
    written = [
        out / "NOTES.md", out / "README.md", wheel, sdist, plugin_wheel,
        build_chart(out, version, commit_seconds, source),
        build_context(out, version, commit_seconds),
        build_manifests(out, version),
        build_sbom(out, version, wheel),
        *build_krew(out, plugin_wheel, url),
    ]  # fmt: skip
    statement = out / PROVENANCE
    statement.write_text(json.dumps(provenance(written, url, commit), indent=2) + "\n", "utf-8")
    written.append(statement)
    sums = out / SUMS
    sums.write_text("".join(f"{digest(path)}  {path.name}\n" for path in sorted(written)), "utf-8")
    return [*written, sums]


def main(arguments: Sequence[str] | None = None) -> int:
    """Build a release; return 1 with the reason if it cannot be built."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.release", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--url", required=True, help="where the archives can be downloaded")
    parser.add_argument("--source", default="", help="where the source is, for the chart")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "release")
    options = parser.parse_args(arguments)
    try:
        for path in build(options.out, options.url, options.source):
            print(path)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
